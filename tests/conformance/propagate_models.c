/*
 * propagate_models: real exports with the weights of tensor parallelism, as Megatron-LM splits them: the first product
 * of attention and of the MLP by columns, the second by rows (mixtures: by experts). Propagation must find the rest:
 * one all-reduce behind attention and one behind the MLP of each layer, and nothing else communicated; every device
 * holds its part of each of these weights and no more; and every operand must agree with its node's rule.
 *
 * Where q, k and v are one weight, its cut by heads takes a part of each third: {3 in 1} * {the rest in n}. Each such
 * model is completed from that, and without a word on this weight, from the other ones.
 */
#include <inttypes.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/support/data_files.h"
#include "infer/propagate/propagate.h"
#include "infer/view/view.h"
#include "onnx/reader.h"
#include "ops/shapes/shapes.h"

#define MAX_SETS 4096

/* The weight that a node of this name uses is split along this axis; each of several parts of the axis, if so. */
struct split {
    const char *node;
    int64_t axis, parts;
};

static const struct model {
    const char *file, *what;
    int64_t devices;
    const char *reducers; /* the products that end attention and the MLP: each has its all-reduce */
    uint32_t reducer_count;
    const char *weights; /* nodes that take a weight of attention or the MLP */
    uint32_t weight_count;
    const char *heads; /* nodes whose first input is split by heads */
    uint32_t head_axis;
    int64_t head_groups; /* heads of each of so many items of the batch are one axis */
    struct split splits[5];
} models[] = {
#define BERT                                                                                                           \
    .reducers = "^/L\\.[0-9]+\\.[36]/MatMul$", .weights = "^/L\\.[0-9]+\\.[0-6]/MatMul$", .heads = "^/Softmax",        \
    .head_axis = 1, .splits = {{"^/L\\.[0-9]+\\.[0125]/MatMul$", 1, 1}, {"^/L\\.[0-9]+\\.[36]/MatMul$", 0, 1}}
    {.file = "bert_tiny.onnx", .devices = 2, .reducer_count = 4, .weight_count = 12, BERT},
    {.file = "bert_tiny.onnx", .devices = 4, .reducer_count = 4, .weight_count = 12, BERT},
    {.file = "bert_base.onnx", .devices = 4, .reducer_count = 24, .weight_count = 72, BERT},
#define LLAMA                                                                                                          \
    .devices = 2, .reducers = "/[od]/MatMul$", .reducer_count = 4, .weights = "/[qkvogud]/MatMul$",                    \
    .weight_count = 14, .heads = "/a/Softmax$", .head_axis = 1,                                                        \
    .splits = {{"/[qkvgu]/MatMul$", 1, 1}, {"/[od]/MatMul$", 0, 1}}
    {.file = "llama_tiny.onnx", LLAMA},
    {.file = "llama_tiny_dyn.onnx", LLAMA},
    {.file = "moe_tiny.onnx",
     .devices = 2,
     .reducers = "(/o/MatMul|/m/Einsum_3)$",
     .reducer_count = 4,
     .weights = "(/[qkvo]/MatMul|/m/Einsum(_[12])?)$",
     .weight_count = 14,
     .heads = "/a/Softmax$",
     .head_axis = 1,
     .splits = {{"/[qkv]/MatMul$", 1, 1}, {"/o/MatMul$", 0, 1}, {"/m/Einsum", 0, 1}}},
#define GPT2                                                                                                           \
    .file = "gpt2_tiny.onnx", .reducers = "/[pg]/MatMul$", .reducer_count = 6, .weights = "/[cpfg]/MatMul$",           \
    .weight_count = 12, .heads = "/Softmax$", .head_axis = 1
    {.what = "all weights",
     .devices = 2,
     .splits = {{"/c/MatMul$", 1, 3}, {"/f/MatMul$", 1, 1}, {"/[pg]/MatMul$", 0, 1}},
     GPT2},
    {.what = "all weights",
     .devices = 4,
     .splits = {{"/c/MatMul$", 1, 3}, {"/f/MatMul$", 1, 1}, {"/[pg]/MatMul$", 0, 1}},
     GPT2},
    {.what = "by columns only", .devices = 2, .splits = {{"/c/MatMul$", 1, 3}, {"/f/MatMul$", 1, 1}}, GPT2},
    {.what = "by rows only", .devices = 2, .splits = {{"/[pg]/MatMul$", 0, 1}}, GPT2},
#define SWIN                                                                                                           \
    .file = "swin_t.onnx", .devices = 3, .reducers = "(attn/MatMul_3|mlp\\.3/MatMul)$", .reducer_count = 24,           \
    .weights = "(attn/MatMul(_3)?|mlp\\.[03]/MatMul)$", .weight_count = 48, .heads = "/attn/Softmax$", .head_axis = 1
    {.what = "all weights",
     .splits = {{"attn/MatMul$", 1, 3}, {"mlp\\.0/MatMul$", 1, 1}, {"(attn/MatMul_3|mlp\\.3/MatMul)$", 0, 1}},
     SWIN},
    {.what = "by rows only", .splits = {{"(attn/MatMul_3|mlp\\.3/MatMul)$", 0, 1}}, SWIN},
/* Batch and heads are one axis, and the weights go through a Transpose. */
#define VIT                                                                                                            \
    .file = "vit_b_16.onnx", .reducers = "(self_attention/Gemm|mlp\\.3/MatMul)$", .reducer_count = 24,                 \
    .weights = "(self_attention/(Gemm|MatMul)|mlp\\.[03]/MatMul|(self_attention/Transpose_1|mlp\\.[03]/Transpose))$",  \
    .weight_count = 84, .heads = "self_attention/Softmax$", .head_axis = 0, .head_groups = 2
#define VIT_ROWS                                                                                                       \
    {"self_attention/Gemm$", 1, 1},                                                                                    \
    {                                                                                                                  \
        "mlp\\.3/Transpose$", 1, 1                                                                                     \
    }
    {.what = "all weights",
     .devices = 2,
     .splits = {{"self_attention/Transpose_1$", 0, 3}, {"mlp\\.0/Transpose$", 0, 1}, VIT_ROWS},
     VIT},
    {.what = "all weights",
     .devices = 12,
     .splits = {{"self_attention/Transpose_1$", 0, 3}, {"mlp\\.0/Transpose$", 0, 1}, VIT_ROWS},
     VIT},
    {.what = "by rows only", .devices = 4, .splits = {VIT_ROWS}, VIT},
};

struct test {
    const struct model *model;
    struct sp_arena *arena;
    struct sp_error err;
    struct sp_model *graph;
    struct sp_dataflow *dataflow;
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

/* The axis in so many parts of the same extent, each cut in as many as there are devices. */
static struct sp_sharding *split_parts(struct test *test, const struct sp_value *value, const struct split *split)
{
    int64_t devices = test->model->devices, extent = value->type.shape.dims[split->axis].value;
    struct sp_sharding *blocks = SP_NEW(test->arena, struct sp_sharding);
    struct sp_block_part *parts = SP_NEW_ARRAY(test->arena, 2, struct sp_block_part);
    uint32_t *first = SP_NEW_ARRAY(test->arena, (size_t)devices + 1, uint32_t);
    int64_t *list = SP_NEW_ARRAY(test->arena, (size_t)devices, int64_t);
    parts[0] = (struct sp_block_part){split->parts, NULL, 1};
    parts[1] = (struct sp_block_part){extent / split->parts, NULL, devices};
    for (int64_t i = 0; i < devices; i++) {
        first[i + 1] = (uint32_t)i + 1;
        list[i] = i;
    }
    *blocks = (struct sp_sharding){.kind = SP_SHARDING_BLOCKS,
                                   .rank = value->type.shape.rank,
                                   .blocks = SP_NEW_ARRAY(test->arena, value->type.shape.rank, struct sp_block_dim),
                                   .shard_count = devices,
                                   .first = first,
                                   .devices = list};
    blocks->blocks[split->axis] = (struct sp_block_dim){2, parts};
    return blocks;
}

static bool set_weight(struct test *test, const struct sp_value *value, const struct split *split)
{
    struct sp_sharding *sharding = NULL;
    int64_t axis = split->axis;
    for (uint32_t i = 0; i < test->set_count; i++) {
        if (strcmp(test->sets[i].tensor, value->name) == 0)
            return true;
    }
    if (test->set_count == MAX_SETS)
        return fail(test, "too many weights");
    if (split->parts > 1) {
        test->sets[test->set_count++] = (struct sp_set_spec){value->name, split_parts(test, value, split)};
        return true;
    }
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
    for (uint32_t s = 0; s < 5 && test->model->splits[s].node != NULL; s++) {
        uint32_t before = test->set_count;
        for (uint32_t n = 0; n < graph->node_count; n++) {
            const struct sp_node *node = &graph->nodes[n];
            if (!matches(test->model->splits[s].node, node->name))
                continue;
            for (uint32_t i = 0; i < node->input_count; i++) {
                const struct sp_value *value = node->inputs[i];
                if (value->kind == SP_VALUE_INITIALIZER && value->type.shape.rank > 1 &&
                    !set_weight(test, value, &test->model->splits[s]))
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
        sp_dataflow_create(test->arena, test->graph, &test->dataflow, &test->err) != SP_OK ||
        sp_mesh_create(test->arena, 1, &axis, NULL, &test->mesh, &test->err) != SP_OK)
        return fail(test, "%s: %s", test->err.code, test->err.message);
    if (!set_weights(test))
        return false;
    if (sp_assignment_create(test->arena, test->dataflow, "c", test->model->devices,
                             &(struct sp_set_specs){test->set_count, test->sets}, &test->assignment,
                             &test->err) != SP_OK ||
        sp_infer_propagate(test->assignment, test->mesh, &test->err) != SP_OK)
        return fail(test, "%s: %s", test->err.code, test->err.message);
    return true;
}

/* One all-reduce at each node that ends attention or the MLP, and nothing else. */
static bool check_communications(struct test *test)
{
    struct sp_communications list = {0};
    uint32_t reducers = 0;
    if (sp_assignment_communications(test->assignment, &list, &test->err) != SP_OK)
        return fail(test, "%s: %s", test->err.code, test->err.message);
    for (uint32_t i = 0; i < list.count; i++) {
        const struct sp_communication *item = &list.items[i];
        if (strcmp(item->steps, "all-reduce") != 0 || !matches(test->model->reducers, item->node->name))
            return fail(test, "'%s' needs %s at '%s': %s", item->tensor, item->steps, item->node->name, item->because);
        for (uint32_t k = 0; k < i; k++) {
            if (list.items[k].node == item->node)
                return fail(test, "'%s' has two all-reduces", item->node->name);
        }
    }
    for (uint32_t n = 0; n < test->graph->graph->node_count; n++)
        reducers += matches(test->model->reducers, test->graph->graph->nodes[n].name);
    if (reducers != test->model->reducer_count || list.count != reducers)
        return fail(test, "%" PRIu32 " all-reduces at %" PRIu32 " nodes, not %" PRIu32, list.count, reducers,
                    test->model->reducer_count);
    return true;
}

/* A device holds one part of `devices` of the weight. */
static bool check_weight(struct test *test, const struct sp_node *node, uint32_t operand)
{
    const struct sp_value *value = node->inputs[operand];
    const struct sp_spec_entry *entry = sp_spec_of(test->assignment, sp_dataflow_node(test->dataflow, node), operand);
    int64_t shape[SP_MAX_RANK], tile[SP_MAX_RANK], all = 1, own = 1;
    for (uint32_t axis = 0; axis < value->type.shape.rank; axis++)
        shape[axis] = value->type.shape.dims[axis].value;
    if (sp_sharding_tile_shape(entry->sharding, value->type.shape.rank, shape, tile, &test->err) != SP_OK)
        return fail(test, "%s", test->err.message);
    for (uint32_t axis = 0; axis < value->type.shape.rank; axis++) {
        all *= shape[axis];
        own *= tile[axis];
    }
    return own * test->model->devices == all ||
           fail(test, "a device holds %" PRId64 " of %" PRId64 " elements of '%s' at '%s': %s", own, all, value->name,
                node->name, entry->because);
}

static bool check_weights(struct test *test)
{
    uint32_t found = 0;
    const struct sp_graph *graph = test->graph->graph;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct sp_node *node = &graph->nodes[n];
        if (!matches(test->model->weights, node->name))
            continue;
        for (uint32_t i = 0; i < node->input_count; i++) {
            if (!node->inputs[i]->is_constant || node->inputs[i]->type.shape.rank < 2)
                continue;
            found++;
            if (!check_weight(test, node, i))
                return false;
        }
    }
    return found == test->model->weight_count || fail(test, "%" PRIu32 " weights", found);
}

/* Every node's operands agree, and every operand with a rank has a spec and a reason. */
static bool check_nodes(struct test *test)
{
    for (uint32_t r = 0; r < test->dataflow->relation_count; r++) {
        const struct sp_relation *relation = &test->dataflow->relations[r];
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
                return fail(test, "'%s' of '%s' has no spec", test->dataflow->tensors[relation->tensors[i]]->name,
                            relation->node->name);
        }
    }
    return true;
}

static bool check_heads(struct test *test)
{
    uint32_t found = 0;
    const struct sp_graph *graph = test->graph->graph;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct sp_node *node = &graph->nodes[n];
        if (!matches(test->model->heads, node->name))
            continue;
        const struct sp_spec_entry *entry = sp_spec_of(test->assignment, sp_dataflow_node(test->dataflow, node), 0);
        const struct sp_block_dim *dim = test->model->head_groups == 0 || entry->sharding->kind != SP_SHARDING_BLOCKS
                                             ? NULL
                                             : &entry->sharding->blocks[test->model->head_axis];
        if (test->model->head_groups > 0 && (dim == NULL || dim->part_count != 2 || dim->parts[0].shards != 1 ||
                                             dim->parts[0].extent != test->model->head_groups))
            return fail(test, "the heads of '%s' are not cut for each of the batch", node->name);
        if (sp_sharding_shards(entry->sharding, test->model->head_axis) != test->model->devices)
            return fail(test, "the heads of '%s' are in %" PRId64 " parts: %s", node->name,
                        sp_sharding_shards(entry->sharding, test->model->head_axis), entry->because);
        found++;
    }
    return found > 0 || fail(test, "no node '%s'", test->model->heads);
}

int main(void)
{
    unsigned passed = 0, failed = 0, skipped = 0, count = sizeof(models) / sizeof(models[0]);
    for (unsigned i = 0; i < count; i++) {
        char path[4096];
        const char *what = models[i].what == NULL ? "all weights" : models[i].what;
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
        bool is_right = prepare(test, bytes, size) && check_communications(test) && check_weights(test) &&
                        check_heads(test) && check_nodes(test);
        if (is_right)
            printf("ok %u %s on %" PRId64 " devices, %s, %" PRIu32 " weights set\n", i + 1, models[i].file,
                   models[i].devices, what, test->set_count);
        else
            printf("not ok %u %s on %" PRId64 " devices, %s: %s\n", i + 1, models[i].file, models[i].devices, what,
                   test->why);
        passed += is_right;
        failed += !is_right;
        sp_arena_destroy(test->arena);
        free(bytes);
        free(test);
    }
    printf("1..%u\n# propagate_models: %u passed, %u failed, %u skipped\n", count, passed, failed, skipped);
    return failed > 0;
}
