#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/support/data_files.h"
#include "backend_cases.h"
#include "base/limits.h"
#include "onnx.pb-c.h"

/* ---- input values --------------------------------------------------------------------------------------------- */

static double real_of(const Onnx__TensorProto *tensor, size_t i)
{
    const void *raw = tensor->raw_data.data;
    return tensor->data_type == SP_DTYPE_FLOAT ? (double)((const float *)raw)[i] : ((const double *)raw)[i];
}

static int64_t int_of(const Onnx__TensorProto *tensor, size_t i)
{
    const void *raw = tensor->raw_data.data;
    switch (tensor->data_type) {
    case SP_DTYPE_INT64:
        return ((const int64_t *)raw)[i];
    case SP_DTYPE_INT32:
        return ((const int32_t *)raw)[i];
    case SP_DTYPE_INT16:
        return ((const int16_t *)raw)[i];
    case SP_DTYPE_INT8:
        return ((const int8_t *)raw)[i];
    default:
        return ((const uint8_t *)raw)[i];
    }
}

/* Bytes of one element that is read here, 0 for the other types. */
static size_t element_size(int32_t dtype)
{
    switch (dtype) {
    case SP_DTYPE_INT64:
    case SP_DTYPE_DOUBLE:
        return 8;
    case SP_DTYPE_INT32:
    case SP_DTYPE_FLOAT:
        return 4;
    case SP_DTYPE_INT16:
        return 2;
    case SP_DTYPE_INT8:
    case SP_DTYPE_UINT8:
    case SP_DTYPE_BOOL:
        return 1;
    default:
        return 0;
    }
}

static struct sp_data *elements_of(struct sp_arena *arena, const Onnx__TensorProto *tensor)
{
    size_t count = 1, size = element_size(tensor->data_type);
    for (size_t i = 0; i < tensor->n_dims; i++)
        count *= (size_t)tensor->dims[i];
    if (size == 0 || count > SP_MAX_DATA_ELEMENTS || tensor->raw_data.len < count * size)
        return NULL;
    struct sp_data *data = SP_NEW(arena, struct sp_data);
    bool is_real = tensor->data_type == SP_DTYPE_FLOAT || tensor->data_type == SP_DTYPE_DOUBLE;
    data->count = (uint32_t)count;
    if (is_real)
        data->reals = SP_NEW_ARRAY(arena, count, double);
    else
        data->ints = SP_NEW_ARRAY(arena, count, struct sp_dim);
    for (size_t i = 0; i < count; i++) {
        if (is_real)
            data->reals[i] = real_of(tensor, i);
        else
            data->ints[i] = sp_dim_known(int_of(tensor, i));
    }
    return data;
}

struct sp_data *backend_elements(const struct backend_case *test, const char *kind, uint32_t index)
{
    char path[MAX_PATH + 64];
    size_t size = 0;
    (void)snprintf(path, sizeof(path), "%s/test_data_set_0/%s_%u.pb", test->folder, kind, index);
    unsigned char *bytes = data_read(path, &size);
    Onnx__TensorProto *tensor = bytes == NULL ? NULL : onnx__tensor_proto__unpack(NULL, size, bytes);
    struct sp_data *data = tensor != NULL ? elements_of(test->arena, tensor) : NULL;
    onnx__tensor_proto__free_unpacked(tensor, NULL);
    free(bytes);
    return data;
}

static void load_inputs(struct backend_case *test)
{
    const struct sp_graph *graph = test->model->graph;
    for (uint32_t i = 0, file = 0; i < graph->input_count; i++) {
        struct sp_value *input = graph->inputs[i];
        if (input->tensor == NULL && input->declared.kind == SP_TYPE_TENSOR)
            input->data = backend_elements(test, "input", file);
        file += input->tensor == NULL;
    }
}

/* ---- cases ---------------------------------------------------------------------------------------------------- */

bool backend_open(struct backend_case *test, const char *folder, const char *name)
{
    char path[MAX_PATH + 64];
    size_t size = 0;
    *test = (struct backend_case){.name = name};
    (void)snprintf(test->folder, sizeof(test->folder), "%.700s/%.200s", folder, name);
    (void)snprintf(path, sizeof(path), "%s/model.onnx", test->folder);
    test->bytes = data_read(path, &size);
    if (test->bytes == NULL)
        return false;
    test->arena = sp_arena_create(NULL);
    if (sp_onnx_read(test->arena, test->bytes, size, NULL, &test->model, &test->err) != SP_OK)
        return true;
    const struct sp_graph *graph = test->model->graph;
    test->expected = SP_NEW_ARRAY(test->arena, graph->value_count, struct sp_type);
    for (uint32_t i = 0; i < graph->value_count; i++) {
        test->expected[i] = graph->values[i]->declared;
        if (graph->values[i]->kind == SP_VALUE_NODE_OUTPUT)
            graph->values[i]->declared = (struct sp_type){0};
    }
    load_inputs(test);
    return true;
}

void backend_close(struct backend_case *test)
{
    sp_arena_destroy(test->arena);
    free(test->bytes);
}

static unsigned each_in(const char *folder, void (*visit)(struct backend_case *test, void *context), void *context)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, alphasort);
    unsigned cases = 0;
    for (int i = 0; i < count; i++) {
        struct backend_case test;
        if (entries[i]->d_name[0] != '.' && backend_open(&test, folder, entries[i]->d_name)) {
            cases++;
            visit(&test, context);
            backend_close(&test);
        }
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return cases;
}

unsigned backend_each(const char *root, void (*visit)(struct backend_case *test, void *context), void *context)
{
    static const char *const parts[] = {"node", "simple", "pytorch-converted", "pytorch-operator", "light"};
    unsigned cases = 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        char folder[MAX_PATH];
        (void)snprintf(folder, sizeof(folder), "%.700s/onnx-backend-tests/%s", root, parts[i]);
        cases += each_in(folder, visit, context);
    }
    return cases;
}
