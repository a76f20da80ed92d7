#include "simulate_variant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/support/data_files.h"
#include "base/buf.h"
#include "base/limits.h"
#include "onnx.pb-c.h"

/* ---- the model -------------------------------------------------------------------------------------------------- */

static void know_inputs(struct sp_model *model, struct backend_case *test, uint32_t mask)
{
    const struct sp_graph *graph = model->graph;
    struct backend_case reading = {.arena = model->arena};
    memcpy(reading.folder, test->folder, sizeof(reading.folder));
    for (uint32_t i = 0, file = 0; i < graph->input_count && i < SIMULATE_MAX_INPUTS; i++) {
        if (graph->inputs[i]->tensor != NULL)
            continue;
        if ((mask >> i & 1) != 0)
            graph->inputs[i]->data = backend_elements(&reading, "input", file);
        file++;
    }
}

static void find_relation(struct simulate_case *opened)
{
    for (uint32_t i = 0; i < opened->dataflow->relation_count; i++) {
        const struct sp_relation *relation = &opened->dataflow->relations[i];
        if (relation->kind == SP_RELATION_NODE && relation->node == &opened->model->graph->nodes[0])
            opened->relation = relation;
    }
}

bool simulate_open(struct simulate_case *opened, const char *path, struct backend_case *test, uint32_t mask)
{
    struct sp_shape_summary summary;
    *opened = (struct simulate_case){.arena = sp_arena_create(NULL)};
    opened->bytes = data_read(path, &opened->size);
    if (opened->bytes == NULL)
        return sp_fail(&opened->err, SP_ERR_IO, "NO_FILE", "There is no file %s.", path) == SP_OK;
    if (sp_onnx_read(opened->arena, opened->bytes, opened->size, NULL, &opened->model, &opened->err) != SP_OK)
        return false;
    if (test != NULL)
        know_inputs(opened->model, test, mask);
    if (sp_infer_shapes(opened->model, NULL, &summary, &opened->err) != SP_OK ||
        sp_dataflow_create(opened->arena, opened->model, &opened->dataflow, &opened->err) != SP_OK)
        return false;
    find_relation(opened);
    return opened->relation == NULL ||
           sp_dataflow_rule(opened->dataflow, opened->relation, opened->arena, &opened->rule, &opened->err) == SP_OK;
}

void simulate_close(struct simulate_case *opened)
{
    sp_arena_destroy(opened->arena);
    free(opened->bytes);
}

/* ---- which inputs ------------------------------------------------------------------------------------------------ */

/* Types and the rule in words, from malloc; NULL where there is no rule. */
static char *describe(struct backend_case *test, const char *path, uint32_t mask)
{
    struct simulate_case opened;
    struct sp_buf buf;
    sp_buf_init(&buf, 1 << 20);
    if (simulate_open(&opened, path, test, mask) && opened.rule != NULL) {
        const struct sp_graph *graph = opened.model->graph;
        sp_rule_print(opened.rule, &buf);
        for (uint32_t i = 0; i < opened.rule->factor_count; i++)
            sp_buf_printf(&buf, " %d:%lld", (int)opened.rule->factors[i].kind,
                          sp_dim_is_known(opened.rule->factors[i].extent)
                              ? (long long)opened.rule->factors[i].extent.value
                              : -1LL);
        for (uint32_t i = 0; i < graph->output_count; i++) {
            const struct sp_shape *shape = &graph->outputs[i]->type.shape;
            sp_buf_printf(&buf, " %d(", shape->has_rank);
            for (uint32_t k = 0; k < shape->rank; k++)
                sp_buf_printf(&buf, " %lld", sp_dim_is_known(shape->dims[k]) ? (long long)shape->dims[k].value : -1);
        }
    }
    simulate_close(&opened);
    return buf.data; /* the caller's */
}

static bool is_same(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* All inputs that have numbers, less one after the other of those without which as much is known. */
uint32_t simulate_needed(struct backend_case *test, const char *path)
{
    const struct sp_graph *graph = test->model->graph;
    uint32_t mask = 0;
    for (uint32_t i = 0; i < graph->input_count && i < SIMULATE_MAX_INPUTS; i++)
        mask |= (uint32_t)(graph->inputs[i]->tensor == NULL && graph->inputs[i]->data != NULL) << i;
    char *most = describe(test, path, mask);
    for (uint32_t i = 0; i < graph->input_count && i < SIMULATE_MAX_INPUTS; i++) {
        if ((mask >> i & 1) == 0)
            continue;
        char *less = describe(test, path, mask & ~(1u << i));
        mask = is_same(most, less) ? mask & ~(1u << i) : mask;
        free(less);
    }
    free(most);
    return mask;
}

uint32_t simulate_numbers(const struct backend_case *test)
{
    const struct sp_graph *graph = test->model->graph;
    uint32_t mask = 0;
    for (uint32_t i = 1; i < graph->input_count && i < SIMULATE_MAX_INPUTS; i++) {
        const struct sp_value *input = graph->inputs[i];
        bool is_few = input->data != NULL && input->data->ints != NULL && input->data->count <= SP_FEW_DATA_ELEMENTS &&
                      input->declared.shape.rank <= 1;
        mask |= (uint32_t)(is_few && input->tensor == NULL) << i;
    }
    return mask;
}

/* ---- inputs as initializers -------------------------------------------------------------------------------------- */

static Onnx__TensorProto *input_file(const struct backend_case *test, unsigned file)
{
    char path[MAX_PATH + 64];
    size_t size = 0;
    (void)snprintf(path, sizeof(path), "%s/test_data_set_0/input_%u.pb", test->folder, file);
    unsigned char *bytes = data_read(path, &size);
    Onnx__TensorProto *tensor = bytes == NULL ? NULL : onnx__tensor_proto__unpack(NULL, size, bytes);
    free(bytes);
    return tensor;
}

static bool has_default(const Onnx__GraphProto *graph, const char *name)
{
    for (size_t i = 0; i < graph->n_initializer; i++) {
        if (strcmp(graph->initializer[i]->name, name) == 0)
            return true;
    }
    return false;
}

/* Moves the inputs of the mask; the others keep their order. */
static bool move_inputs(const struct backend_case *test, Onnx__GraphProto *graph, uint32_t mask)
{
    size_t count = graph->n_input, defaults = graph->n_initializer;
    unsigned file = 0;
    Onnx__TensorProto **initializers = realloc(graph->initializer, (defaults + count + 1) * sizeof(*initializers));
    if (initializers == NULL)
        return false;
    graph->initializer = initializers;
    graph->n_input = 0;
    for (size_t i = 0; i < count; i++) {
        Onnx__ValueInfoProto *input = graph->input[i];
        unsigned own = file;
        file += !has_default(graph, input->name);
        if (i >= SIMULATE_MAX_INPUTS || (mask >> i & 1) == 0) {
            graph->input[graph->n_input++] = input;
            continue;
        }
        Onnx__TensorProto *tensor = input_file(test, own);
        if (tensor == NULL)
            return false;
        free(tensor->name);
        tensor->name = strdup(input->name);
        initializers[graph->n_initializer++] = tensor;
        onnx__value_info_proto__free_unpacked(input, NULL);
    }
    return true;
}

static bool pack(const Onnx__ModelProto *model, const char *path)
{
    size_t size = onnx__model_proto__get_packed_size(model);
    unsigned char *bytes = malloc(size);
    FILE *file = fopen(path, "wb");
    bool is_ok = bytes != NULL && file != NULL && onnx__model_proto__pack(model, bytes) == size &&
                 fwrite(bytes, 1, size, file) == size;
    if (file != NULL)
        is_ok = fclose(file) == 0 && is_ok;
    free(bytes);
    return is_ok;
}

/* Initializers that are no inputs came with version 4 of the format. */
#define LEAST_IR_VERSION 4

bool simulate_fix_inputs(struct backend_case *test, const char *path, uint32_t mask, const char *fixed_path)
{
    size_t size = 0;
    unsigned char *bytes = data_read(path, &size);
    Onnx__ModelProto *model = bytes == NULL ? NULL : onnx__model_proto__unpack(NULL, size, bytes);
    bool is_ok = model != NULL && model->graph != NULL && move_inputs(test, model->graph, mask);
    if (is_ok && model->ir_version < LEAST_IR_VERSION)
        model->ir_version = LEAST_IR_VERSION;
    is_ok = is_ok && pack(model, fixed_path);
    onnx__model_proto__free_unpacked(model, NULL);
    free(bytes);
    return is_ok;
}
