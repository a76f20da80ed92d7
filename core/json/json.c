#include "json/json.h"

#include <stdlib.h>
#include <string.h>

#include "onnx.pb-c.h"
#include "onnx/reader.h"
#include "ops/shapes/shapes.h"
#include "json/cost_graph.h"
#include "json/graph.h"
#include "json/proto.h"

/* Bytes of a file that come out of a text: what a splice can hold of new bytes (onnx/splice.h). */
#define MAX_FILE_BYTES ((size_t)1 << 30)

bool sp_json_is(const void *bytes, uint64_t size)
{
    const char *text = bytes;
    uint64_t at = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (at < size && sp_tree_is_blank(text[at]))
        at++;
    if (at == size || text[at] != '{')
        return false;
    at++;
    return at == size || sp_tree_is_blank(text[at]) || text[at] == '"' || text[at] == '}';
}

static uint32_t member(const struct sp_tree *tree, uint32_t object, const char *name)
{
    for (uint32_t i = sp_tree_begin(object); i != sp_tree_end(tree, object); i = sp_tree_after(tree, i + 1)) {
        if (sp_tree_text_is(sp_tree_raw_text(tree, i), name))
            return i + 1;
    }
    return SP_TREE_NONE;
}

/* A list of edges, or nodes that have what only nodes of cost graphs have. */
static bool is_cost_graph(const struct sp_tree *tree, uint32_t nodes)
{
    if (member(tree, 0, "edges") != SP_TREE_NONE)
        return true;
    if (nodes == SP_TREE_NONE || sp_tree_kind(tree, nodes) != SP_TREE_ARRAY ||
        sp_tree_begin(nodes) == sp_tree_end(tree, nodes) || sp_tree_kind(tree, sp_tree_begin(nodes)) != SP_TREE_OBJECT)
        return false;
    const uint32_t first = sp_tree_begin(nodes);
    return member(tree, first, "op") == SP_TREE_NONE &&
           (member(tree, first, "seconds") != SP_TREE_NONE || member(tree, first, "id") != SP_TREE_NONE);
}

static bool is_model(const struct sp_tree *tree)
{
    static const char *const names[] = {"graph",         "irVersion",    "ir_version",    "opsetImport",
                                        "opset_import",  "producerName", "producer_name", "modelVersion",
                                        "model_version", "functions"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (member(tree, 0, names[i]) != SP_TREE_NONE)
            return true;
    }
    return false;
}

/* Writes the graph a second time, now with the types of outputs that are inferred from what was written first. */
static enum sp_status type_outputs(const struct sp_tree *tree, struct sp_arena *arena, const struct sp_watch *watch,
                                   struct sp_buf *buf)
{
    const struct sp_read_options options = {.watch = watch};
    struct sp_error what = {0};
    struct sp_shape_summary summary;
    struct sp_model *model;
    struct sp_buf typed;
    uint32_t untyped;
    enum sp_status status = sp_onnx_read(arena, buf->data, buf->size, &options, &model, &what);
    if (status == SP_OK)
        status = sp_infer_shapes(model, watch, &summary, &what);
    if (status == SP_ERR_CANCELLED || status == SP_ERR_MEMORY)
        return sp_fail(tree->err, status, what.code, "%s", what.message);
    if (status != SP_OK)
        return SP_OK; /* whoever reads the result will say the same */
    sp_buf_init(&typed, buf->ceiling);
    status = sp_description_model(tree, model, &typed, &untyped);
    sp_buf_release(buf);
    *buf = typed;
    return status;
}

static enum sp_status convert_graph(const struct sp_tree *tree, const struct sp_watch *watch, struct sp_buf *buf)
{
    uint32_t untyped = 0;
    enum sp_status status = sp_description_model(tree, NULL, buf, &untyped);
    if (status != SP_OK || untyped == 0 || sp_buf_failed(buf))
        return status;
    struct sp_arena *arena = sp_arena_create(sp_arena_budget(tree->arena));
    if (arena == NULL)
        return sp_fail_memory(tree->err);
    status = type_outputs(tree, arena, watch, buf);
    sp_arena_destroy(arena);
    return status;
}

void sp_json_graph_destroy(struct sp_json_graph *graph)
{
    if (graph == NULL)
        return;
    sp_arena_destroy(graph->arena);
    free(graph);
}

/* What is asked for: `ret_graph` is NULL where a graph of costs is of no use. */
struct wanted {
    const struct sp_watch *watch;
    uint64_t hash_seed;
    struct sp_json_graph **ret_graph;
};

static enum sp_status read_costs(const struct sp_tree *tree, const struct wanted *wanted)
{
    const struct sp_budget *budget = sp_arena_budget(tree->arena);
    struct sp_json_graph *graph = calloc(1, sizeof *graph);
    enum sp_status status = SP_ERR_MEMORY;
    if (graph == NULL)
        return sp_fail_memory(tree->err);
    if (budget != NULL && budget->limit != 0)
        graph->budget.limit = budget->used < budget->limit ? budget->limit - budget->used : 1;
    graph->arena = sp_arena_create(&graph->budget);
    if (graph->arena == NULL)
        (void)sp_fail_memory(tree->err);
    else
        status = sp_cost_graph_read(tree, graph->arena, wanted->hash_seed, &graph->graph);
    if (status == SP_OK)
        *wanted->ret_graph = graph;
    else
        sp_json_graph_destroy(graph);
    return status;
}

/* Where the graph is set, it is that; else the bytes. */
static enum sp_status convert(const struct sp_tree *tree, const struct wanted *wanted, struct sp_buf *buf)
{
    if (sp_tree_kind(tree, 0) != SP_TREE_OBJECT)
        return sp_tree_fail(tree, 0, "OBJECT_EXPECTED", "The description of a model is a JSON object.");
    const uint32_t nodes = member(tree, 0, "nodes");
    if (is_cost_graph(tree, nodes)) {
        if (wanted->ret_graph != NULL)
            return read_costs(tree, wanted);
        return sp_fail(tree->err, SP_ERR_UNSUPPORTED, "NO_OPERATORS",
                       "This is a graph of costs (nodes with seconds and bytes, and edges): it can be planned, but it "
                       "has no operators, which this needs; describe them, or give an ONNX file.");
    }
    if (nodes != SP_TREE_NONE || member(tree, 0, "opset") != SP_TREE_NONE)
        return convert_graph(tree, wanted->watch, buf);
    if (!is_model(tree))
        return sp_tree_fail(tree, 0, "DESCRIPTION_UNKNOWN",
                            "This JSON object describes no model: a tensor graph has the members 'opset' and 'nodes', "
                            "a graph of costs has 'nodes' and 'edges', and a ModelProto in protobuf's mapping has "
                            "'irVersion', 'opsetImport' and 'graph'.");
    struct sp_emit emit = {.buf = buf};
    return sp_proto_message(tree, 0, &onnx__model_proto__descriptor, &emit);
}

/* What the result may have: a growing buffer needs up to three times what is in it. */
static size_t ceiling(const struct sp_budget *budget)
{
    size_t rest = budget->used < budget->limit ? budget->limit - budget->used : 0;
    return budget->limit == 0 || rest / 3 > MAX_FILE_BYTES ? MAX_FILE_BYTES : rest / 3;
}

static enum sp_status read_text(struct sp_budget *budget, const char *text, uint64_t size, const struct wanted *wanted,
                                struct sp_buf *ret_bytes, struct sp_error *err)
{
    struct sp_tree tree;
    struct sp_buf buf;
    struct sp_arena *arena = sp_arena_create(budget);
    if (arena == NULL)
        return sp_fail_memory(err);
    sp_buf_init(&buf, 0);
    enum sp_status status = sp_tree_read(arena, text, size, &tree, err);
    if (status == SP_OK) {
        sp_buf_init(&buf, ceiling(budget));
        status = convert(&tree, wanted, &buf);
    }
    if (status == SP_OK && sp_buf_failed(&buf))
        status = buf.size > MAX_FILE_BYTES / 4
                     ? sp_fail(err, SP_ERR_LIMIT, "JSON_TOO_LARGE",
                               "The model that this JSON text describes is too large for it; send it as an ONNX file.")
                     : sp_fail_memory(err);
    sp_arena_destroy(arena);
    if (status != SP_OK) {
        sp_buf_release(&buf);
        return status;
    }
    budget->used += buf.capacity;
    if (wanted->ret_graph != NULL && *wanted->ret_graph != NULL)
        budget->used += (*wanted->ret_graph)->budget.used;
    if (budget->used > budget->peak)
        budget->peak = budget->used;
    *ret_bytes = buf;
    return SP_OK;
}

enum sp_status sp_json_to_onnx(struct sp_budget *budget, const char *text, uint64_t size, const struct sp_watch *watch,
                               struct sp_buf *ret_bytes, struct sp_error *err)
{
    const struct wanted wanted = {.watch = watch};
    return read_text(budget, text, size, &wanted, ret_bytes, err);
}

enum sp_status sp_json_read(struct sp_budget *budget, const char *text, uint64_t size,
                            const struct sp_read_options *options, struct sp_buf *ret_bytes,
                            struct sp_json_graph **ret_graph, struct sp_error *err)
{
    struct sp_json_graph *graph = NULL;
    const struct wanted wanted = {.watch = options->watch, .hash_seed = options->hash_seed, .ret_graph = &graph};
    enum sp_status status = read_text(budget, text, size, &wanted, ret_bytes, err);
    if (status == SP_OK)
        *ret_graph = graph;
    return status;
}
