/*
 * propagate_models: real exports with the weights of tensor parallelism, as Megatron-LM splits them: the first product
 * of attention and of the MLP by columns, the second by rows (mixtures: by experts). Propagation must find the rest:
 * one all-reduce behind attention and one behind the MLP of each layer, and nothing else communicated; and every
 * operand must agree with its node's rule.
 *
 * Where q, k and v are one weight that is cut afterwards, no contiguous cut of it is a cut of all three, so it is left
 * whole and only what follows is split.
 */
#include <inttypes.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/data_files.h"
#include "infer/propagate.h"
#include "infer/view.h"
#include "onnx/reader.h"
#include "ops/shapes.h"

#define MAX_SETS 4096

/* The weight that a node of this name uses is split along this axis. */
struct split {
    const char *node;
    int64_t axis;
};

static const struct model {
    const char *file;
    int64_t devices;
    uint32_t all_reduces; /* two for each layer */
    const char *heads;    /* nodes whose first input is split by heads, or NULL */
    uint32_t head_axis;
    struct split splits[4];
} models[] = {
    {"bert_tiny.onnx",
     2,
     4,
     "^/Softmax",
     1,
     {{"^/L\\.[0-9]+\\.[0125]/MatMul$", 1}, {"^/L\\.[0-9]+\\.[36]/MatMul$", 0}}},
    {"bert_tiny.onnx",
     4,
     4,
     "^/Softmax",
     1,
     {{"^/L\\.[0-9]+\\.[0125]/MatMul$", 1}, {"^/L\\.[0-9]+\\.[36]/MatMul$", 0}}},
    {"bert_base.onnx",
     4,
     24,
     "^/Softmax",
     1,
     {{"^/L\\.[0-9]+\\.[0125]/MatMul$", 1}, {"^/L\\.[0-9]+\\.[36]/MatMul$", 0}}},
    {"llama_tiny.onnx", 2, 4, "/a/Softmax$", 1, {{"/[qkvgu]/MatMul$", 1}, {"/[od]/MatMul$", 0}}},
    {"llama_tiny_dyn.onnx", 2, 4, "/a/Softmax$", 1, {{"/[qkvgu]/MatMul$", 1}, {"/[od]/MatMul$", 0}}},
    {"moe_tiny.onnx", 2, 4, "/a/Softmax$", 1, {{"/[qkv]/MatMul$", 1}, {"/o/MatMul$", 0}, {"/m/Einsum", 0}}},
    {"gpt2_tiny.onnx", 2, 6, "/Softmax$", 1, {{"/f/MatMul$", 1}, {"/[pg]/MatMul$", 0}}},
    {"swin_t.onnx", 3, 24, "/attn/Softmax$", 1, {{"mlp\\.0/MatMul$", 1}, {"(attn/MatMul_3|mlp\\.3/MatMul)$", 0}}},
    /* Batch and heads are one axis, which cannot be cut by heads; the MLP's weights go through a Transpose. */
    {"vit_b_16.onnx",
     2,
     24,
     NULL,
     0,
     {{"self_attention/Gemm$", 1}, {"mlp\\.0/Transpose$", 0}, {"mlp\\.3/Transpose$", 1}}},
};

struct test {
    const struct model *model;
    struct sp_arena *arena;
    struct sp_error err;
    struct sp_model *graph;
    struct sp_net *net;
    struct sp_mesh *mesh;
    struct sp_assignment *assignment;
    uint32_t set_count;
    struct sp_set_spec sets[MAX_SETS];
    char why[1200];
};

__attribute__((format(printf, 2, 3))) static bool fail(struct test *test, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(test->why, sizeof(test->why), format, args);
    va_end(args);
    return false;
}

static bool matches(const char *pattern, const char *text)
{
    regex_t regex;
    if (regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB) != 0)
        return false;
    bool is_match = regexec(&regex, text, 0, NULL, 0) == 0;
    regfree(&regex);
    return is_match;
}

static bool set_weight(struct test *test, const struct sp_value *value, int64_t axis)
{
    struct sp_sharding *sharding = NULL;
    for (uint32_t i = 0; i < test->set_count; i++) {
        if (strcmp(test->sets[i].tensor, value->name) == 0)
            return true;
    }
    if (test->set_count == MAX_SETS)
        return fail(test, "too many weights");
    if (sp_sharding_create_axes(test->arena, test->mesh, value->type.shape.rank, &sharding, &test->err) != SP_OK)
        return fail(test, "%s", test->err.message);
    struct sp_axis_ref *ref = SP_NEW(test->arena, struct sp_axis_ref);
    *ref = sp_axis_full(test->mesh, 0);
    sharding->dims[axis].axes = (struct sp_axis_list){1, ref};
    test->sets[test->set_count++] = (struct sp_set_spec){value->name, sharding};
    return true;
}

/* The weights of the nodes that the model's patterns name. */
static bool set_weights(struct test *test)
{
    const struct sp_graph *graph = test->graph->graph;
    for (uint32_t s = 0; s < 4 && test->model->splits[s].node != NULL; s++) {
        uint32_t before = test->set_count;
        for (uint32_t n = 0; n < graph->node_count; n++) {
            const struct sp_node *node = &graph->nodes[n];
            if (!matches(test->model->splits[s].node, node->name))
                continue;
            for (uint32_t i = 0; i < node->input_count; i++) {
                const struct sp_value *value = node->inputs[i];
                if (value->kind == SP_VALUE_INITIALIZER && value->type.shape.rank > 1 &&
                    !set_weight(test, value, test->model->splits[s].axis))
                    return false;
            }
        }
        if (test->set_count == before)
            return fail(test, "no node '%s' has a weight", test->model->splits[s].node);
    }
    return true;
}

static bool prepare(struct test *test, const unsigned char *bytes, size_t size)
{
    struct sp_shape_summary summary;
    struct sp_mesh_axis axis = {"tensor", test->model->devices};
    if (sp_onnx_read(test->arena, bytes, size, NULL, &test->graph, &test->err) != SP_OK ||
        sp_infer_shapes(test->graph, NULL, &summary, &test->err) != SP_OK ||
        sp_net_create(test->arena, test->graph, &test->net, &test->err) != SP_OK ||
        sp_mesh_create(test->arena, 1, &axis, NULL, &test->mesh, &test->err) != SP_OK)
        return fail(test, "%s: %s", test->err.code, test->err.message);
    if (!set_weights(test))
        return false;
    if (sp_assignment_create(test->arena, test->net, "c", test->model->devices, test->set_count, test->sets,
                             &test->assignment, &test->err) != SP_OK ||
        sp_infer_propagate(test->assignment, test->mesh, &test->err) != SP_OK)
        return fail(test, "%s: %s", test->err.code, test->err.message);
    return true;
}

static bool check_communications(struct test *test)
{
    struct sp_communications list = {0};
    if (sp_assignment_communications(test->assignment, &list, &test->err) != SP_OK)
        return fail(test, "%s: %s", test->err.code, test->err.message);
    for (uint32_t i = 0; i < list.count; i++) {
        if (strcmp(list.items[i].steps, "all-reduce") != 0)
            return fail(test, "'%s' needs %s: %s", list.items[i].tensor, list.items[i].steps, list.items[i].because);
    }
    if (list.count != test->model->all_reduces)
        return fail(test, "%" PRIu32 " all-reduces, not %" PRIu32, list.count, test->model->all_reduces);
    return true;
}

/* Every node's operands agree, and every operand with a rank has a spec and a reason. */
static bool check_nodes(struct test *test)
{
    for (uint32_t r = 0; r < test->net->relation_count; r++) {
        const struct sp_relation *relation = &test->net->relations[r];
        struct sp_view *view = NULL;
        if (relation->kind != SP_RELATION_NODE)
            continue;
        if (sp_view_create(test->arena, test->assignment, relation, &view, &test->err) != SP_OK)
            return fail(test, "%s: %s", test->err.code, test->err.message);
        if (view->conflict_count > 0)
            return fail(test, "%s", view->conflicts[0].message);
        for (uint32_t i = 0; i < relation->operand_count; i++) {
            const struct sp_spec_entry *entry = sp_spec_of(test->assignment, relation->node_id, i);
            if (relation->tensors[i] != SP_NO_TENSOR && (entry->sharding == NULL || entry->because == NULL))
                return fail(test, "'%s' of '%s' has no spec", test->net->tensors[relation->tensors[i]]->name,
                            relation->node->name);
        }
    }
    return true;
}

static bool check_heads(struct test *test)
{
    uint32_t found = 0;
    const struct sp_graph *graph = test->graph->graph;
    for (uint32_t n = 0; test->model->heads != NULL && n < graph->node_count; n++) {
        const struct sp_node *node = &graph->nodes[n];
        if (!matches(test->model->heads, node->name))
            continue;
        const struct sp_spec_entry *entry = sp_spec_of(test->assignment, sp_net_node(test->net, node), 0);
        if (sp_sharding_shards(entry->sharding, test->model->head_axis) != test->model->devices)
            return fail(test, "the heads of '%s' are in %" PRId64 " parts: %s", node->name,
                        sp_sharding_shards(entry->sharding, test->model->head_axis), entry->because);
        found++;
    }
    return test->model->heads == NULL || found > 0 || fail(test, "no node '%s'", test->model->heads);
}

int main(void)
{
    unsigned passed = 0, failed = 0, skipped = 0, count = sizeof(models) / sizeof(models[0]);
    for (unsigned i = 0; i < count; i++) {
        char path[4096];
        size_t size;
        struct test *test = calloc(1, sizeof(*test));
        snprintf(path, sizeof(path), "%s/models/%s", data_folder(), models[i].file);
        unsigned char *bytes = data_read(path, &size);
        if (bytes == NULL || test == NULL) {
            printf("ok %u %s # SKIP %s is not there\n", i + 1, models[i].file, path);
            skipped++;
            free(test);
            continue;
        }
        test->model = &models[i];
        test->arena = sp_arena_create(NULL);
        bool is_right =
            prepare(test, bytes, size) && check_communications(test) && check_heads(test) && check_nodes(test);
        if (is_right)
            printf("ok %u %s on %" PRId64 " devices, %" PRIu32 " weights set\n", i + 1, models[i].file,
                   models[i].devices, test->set_count);
        else
            printf("not ok %u %s on %" PRId64 " devices: %s\n", i + 1, models[i].file, models[i].devices, test->why);
        passed += is_right;
        failed += !is_right;
        sp_arena_destroy(test->arena);
        free(bytes);
        free(test);
    }
    printf("1..%u\n# propagate_models: %u passed, %u failed, %u skipped\n", count, passed, failed, skipped);
    return failed > 0;
}
