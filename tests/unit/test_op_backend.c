/*
 * Shape inference against the node test cases of ONNX v1.22.0, whose model.onnx declare the types of their outputs.
 *
 * The declarations of outputs are taken away before inference and compared afterwards; the input values of each case
 * are given to it, as ONNX' own inference gets them in onnx-shape-baseline.tsv; elements that it computes are compared
 * with the output values of the case. A case counts when every node has an
 * entry in the operator table. The data live outside of the project: $SHARDPLAN_TEST_DATA, else ../shared/data.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "data_files.h"
#include "onnx.pb-c.h"
#include "onnx/reader.h"
#include "ops/op.h"
#include "ops/shapes.h"

#define MAX_PATH 1024

struct tally {
    unsigned cases, covered, full, open, unranked, wrong, below_baseline, elements;
};

/* ---- input values -------------------------------------------------------------------------------------------- */

static void set_int(struct sp_data *data, size_t i, int64_t value)
{
    data->ints[i] = sp_dim_known(value);
}

/* The elements of the tensors that shapes depend on; other types and large ones stay unknown. */
static struct sp_data *elements_of(struct sp_arena *arena, const Onnx__TensorProto *tensor)
{
    size_t count = 1;
    for (size_t i = 0; i < tensor->n_dims; i++)
        count *= (size_t)tensor->dims[i];
    if (count > SP_MAX_DATA_ELEMENTS || (tensor->raw_data.len == 0 && count != 0))
        return NULL;
    struct sp_data *data = SP_NEW(arena, struct sp_data);
    data->count = (uint32_t)count;
    if (tensor->data_type == SP_DTYPE_FLOAT || tensor->data_type == SP_DTYPE_DOUBLE)
        data->reals = SP_NEW_ARRAY(arena, count, double);
    else if (tensor->data_type == SP_DTYPE_INT64 || tensor->data_type == SP_DTYPE_INT32 ||
             tensor->data_type == SP_DTYPE_BOOL)
        data->ints = SP_NEW_ARRAY(arena, count, struct sp_dim);
    else
        return NULL;
    for (size_t i = 0; i < count; i++) {
        const void *raw = tensor->raw_data.data;
        if (tensor->data_type == SP_DTYPE_FLOAT)
            data->reals[i] = (double)((const float *)raw)[i];
        else if (tensor->data_type == SP_DTYPE_DOUBLE)
            data->reals[i] = ((const double *)raw)[i];
        else if (tensor->data_type == SP_DTYPE_INT64)
            set_int(data, i, ((const int64_t *)raw)[i]);
        else if (tensor->data_type == SP_DTYPE_INT32)
            set_int(data, i, ((const int32_t *)raw)[i]);
        else
            set_int(data, i, ((const unsigned char *)raw)[i]);
    }
    return data;
}

static struct sp_data *load_elements(struct sp_arena *arena, const char *folder, const char *kind, uint32_t index)
{
    char path[MAX_PATH];
    size_t size = 0;
    (void)snprintf(path, sizeof(path), "%s/test_data_set_0/%s_%u.pb", folder, kind, index);
    unsigned char *bytes = data_read(path, &size);
    Onnx__TensorProto *tensor = bytes == NULL ? NULL : onnx__tensor_proto__unpack(NULL, size, bytes);
    struct sp_data *data = tensor != NULL ? elements_of(arena, tensor) : NULL;
    onnx__tensor_proto__free_unpacked(tensor, NULL);
    free(bytes);
    return data;
}

static void load_inputs(struct sp_model *model, const char *folder)
{
    for (uint32_t i = 0, file = 0; i < model->graph->input_count; i++) {
        struct sp_value *input = model->graph->inputs[i];
        if (input->tensor == NULL && input->declared.kind == SP_TYPE_TENSOR)
            input->data = load_elements(model->arena, folder, "input", file);
        file += input->tensor == NULL;
    }
}

/* Elements that were computed, or -1 when one of them is not what the case gives. */
static int compare_elements(struct sp_model *model, const char *folder, const char *name)
{
    int compared = 0;
    for (uint32_t i = 0; i < model->graph->output_count; i++) {
        const struct sp_value *output = model->graph->outputs[i];
        if (output->data == NULL || output->kind == SP_VALUE_INPUT)
            continue;
        const struct sp_data *own = output->data, *expected = load_elements(model->arena, folder, "output", i);
        if (expected == NULL || (expected->reals != NULL) != (own->reals != NULL) || expected->count != own->count)
            continue;
        for (uint32_t k = 0; k < own->count; k++) {
            bool is_equal = true;
            if (own->reals != NULL)
                is_equal = own->reals[k] == expected->reals[k] ||
                           fabs(own->reals[k] - expected->reals[k]) <= 1e-6 + 1e-4 * fabs(expected->reals[k]) ||
                           (isnan(own->reals[k]) && isnan(expected->reals[k]));
            else if (sp_dim_is_known(own->ints[k]))
                is_equal = own->ints[k].value == expected->ints[k].value;
            if (!is_equal) {
                printf("%s: element %u of '%s' is wrong\n", name, k, output->name);
                return -1;
            }
            compared++;
        }
    }
    return compared;
}

/* ---- one case ------------------------------------------------------------------------------------------------ */

static bool is_covered(const struct sp_graph *graph)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const struct sp_node *node = &graph->nodes[i];
        int64_t version = sp_graph_opset(graph, node->domain);
        if (sp_op_find(node->domain, node->op_type, version == 0 ? 1 : version) == NULL)
            return false;
    }
    return graph->node_count != 0;
}

/* 2: equal; 1: nothing wrong but a dimension is open; 0: no rank; -1: wrong. */
static int compare(const char *name, const struct sp_value *value, const struct sp_type *expected)
{
    const struct sp_type *type = &value->type;
    if (type->kind != expected->kind || type->kind != SP_TYPE_TENSOR)
        return type->kind == expected->kind ? 2 : type->kind == SP_TYPE_NONE ? 0 : -1;
    if (type->dtype != expected->dtype) {
        printf("%s: '%s' has type %d instead of %d\n", name, value->name, type->dtype, expected->dtype);
        return -1;
    }
    if (!expected->shape.has_rank || !type->shape.has_rank)
        return expected->shape.has_rank ? 0 : 2;
    int result = type->shape.rank == expected->shape.rank ? 2 : -1;
    for (uint32_t i = 0; result > 0 && i < type->shape.rank; i++) {
        struct sp_dim own = type->shape.dims[i], other = expected->shape.dims[i];
        if (!sp_dim_is_known(other))
            continue;
        if (!sp_dim_is_known(own))
            result = 1;
        else if (own.value != other.value)
            result = -1;
    }
    if (result < 0)
        printf("%s: '%s' has another shape than declared\n", name, value->name);
    return result;
}

static int infer_and_compare(const char *name, struct sp_model *model)
{
    struct sp_graph *graph = model->graph;
    struct sp_type *expected = SP_NEW_ARRAY(model->arena, graph->value_count, struct sp_type);
    struct sp_shape_summary summary;
    struct sp_error err;
    sp_error_clear(&err);
    for (uint32_t i = 0; i < graph->value_count; i++) {
        struct sp_value *value = graph->values[i];
        expected[i] = value->declared;
        if (value->kind == SP_VALUE_NODE_OUTPUT)
            value->declared = (struct sp_type){0};
    }
    if (sp_infer_shapes(model, NULL, &summary, &err) != SP_OK) {
        printf("%s: %s\n", name, err.message);
        return -1;
    }
    int worst = 2;
    for (uint32_t i = 0; i < graph->output_count; i++) {
        if (graph->outputs[i]->graph != graph)
            continue;
        int result = compare(name, graph->outputs[i], &expected[graph->outputs[i]->id]);
        worst = result < worst ? result : worst;
    }
    for (uint32_t i = 0; worst >= 0 && i < graph->node_count; i++) {
        struct sp_rule *rule;
        if (sp_op_rule(model, &graph->nodes[i], model->arena, &rule, &err) != SP_OK) {
            printf("%s: %s\n", name, err.message);
            worst = -1;
        }
    }
    return worst;
}

static void run_case(const char *folder, const char *name, const char *baseline, struct tally *tally)
{
    char path[MAX_PATH];
    size_t size = 0;
    (void)snprintf(path, sizeof(path), "%.700s/%.200s", folder, name);
    char file[MAX_PATH + 16];
    (void)snprintf(file, sizeof(file), "%s/model.onnx", path);
    unsigned char *bytes = data_read(file, &size);
    if (bytes == NULL)
        return;
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_model *model = NULL;
    struct sp_error err;
    sp_error_clear(&err);
    tally->cases++;
    cr_expect_eq(sp_onnx_read(arena, bytes, size, NULL, &model, &err), SP_OK, "%s: %s", name, err.message);
    if (model != NULL && is_covered(model->graph)) {
        load_inputs(model, path);
        int result = infer_and_compare(name, model);
        int elements = result >= 0 ? compare_elements(model, path, name) : 0;
        tally->elements += elements > 0 ? (unsigned)elements : 0;
        result = elements < 0 ? -1 : result;
        char line[256];
        (void)snprintf(line, sizeof(line), "\n%.200s\t", name);
        const char *found = baseline != NULL ? strstr(baseline, line) : NULL;
        const char *tab = found != NULL ? strchr(found + strlen(line), '\t') : NULL;
        bool is_full = tab != NULL && strncmp(tab + 1, "FULL", 4) == 0;
        tally->covered++;
        tally->full += result == 2;
        tally->open += result == 1;
        tally->unranked += result == 0;
        tally->wrong += result < 0;
        if (is_full && result >= 0 && result < 2) {
            tally->below_baseline++;
            printf("%s: less is known than ONNX' own inference finds\n", name);
        }
    }
    sp_arena_destroy(arena);
    free(bytes);
}

static void run_folder(const char *root, const char *part, const char *baseline, struct tally *tally)
{
    char folder[MAX_PATH];
    (void)snprintf(folder, sizeof(folder), "%s/onnx-backend-tests/%s", root, part);
    DIR *handle = opendir(folder);
    if (handle == NULL)
        return;
    for (struct dirent *entry = readdir(handle); entry != NULL; entry = readdir(handle)) {
        if (entry->d_name[0] != '.')
            run_case(folder, entry->d_name, baseline, tally);
    }
    (void)closedir(handle);
}

static int run_shell(const char *command)
{
    FILE *pipe = popen(command, "r");
    return pipe == NULL ? -1 : pclose(pipe);
}

Test(op_backend, declared_outputs_of_the_onnx_node_tests)
{
    char archive[MAX_PATH], table[MAX_PATH], folder[] = "/tmp/shardplan-backend-XXXXXX";
    (void)snprintf(archive, sizeof(archive), "%s/onnx-backend-tests.tar.gz", data_folder());
    (void)snprintf(table, sizeof(table), "%s/onnx-shape-baseline.tsv", data_folder());
    if (access(archive, R_OK) != 0)
        cr_skip_test("the ONNX node tests are not there");
    cr_assert_not_null(mkdtemp(folder));
    char command[2 * MAX_PATH];
    (void)snprintf(command, sizeof(command), "tar -xzf '%s' -C '%s'", archive, folder);
    cr_assert_eq(run_shell(command), 0);
    size_t size = 0;
    unsigned char *baseline = data_read(table, &size);
    struct tally tally = {0};
    static const char *const parts[] = {"node", "simple", "light", "pytorch-converted", "pytorch-operator"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        run_folder(folder, parts[i], (const char *)baseline, &tally);
    printf("%u cases, %u covered: %u full, %u with open dimensions, %u without rank, %u wrong; %u elements\n",
           tally.cases, tally.covered, tally.full, tally.open, tally.unranked, tally.wrong, tally.elements);
    free(baseline);
    (void)snprintf(command, sizeof(command), "rm -r '%s'", folder);
    (void)run_shell(command);
    cr_assert_gt(tally.covered, 100); /* the operators of this table alone */
    cr_assert_gt(tally.elements, 1000);
    cr_assert_eq(tally.wrong, 0);
    cr_assert_eq(tally.below_baseline, 0);
}
