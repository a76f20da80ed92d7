#include <inttypes.h>
#include <string.h>

#include "base/rows.h"
#include "base/sorted.h"
#include "onnx/read.h"

/*
 * The graph of calls between functions, as rows: the callees of each. The main graph is the caller behind the last
 * function. Functions are finished in post-order by an iterative depth-first walk:
 * a callee that is on the path closes a cycle; the size of an expanded function is its own nodes and its callees'
 * sizes, once for each call, so a chain of doublings ("billion laughs") shows before anything is expanded.
 */
struct calls {
    uint32_t count;         /* functions and the main graph */
    struct sp_rows callees; /* one per call */
    uint32_t *next;         /* the next callee to visit, by function */
    uint32_t *path;         /* the functions that are open */
    uint32_t *depth;        /* calls below it, counting itself; 0 while not finished */
    uint64_t *nodes;        /* expanded nodes, saturating just above the limit */
    bool *on_path;
};

static bool build(struct sp_arena *arena, struct calls *calls, const struct sp_call_edge *edges, uint32_t edge_count)
{
    uint32_t *caller = SP_NEW_ARRAY(arena, edge_count, uint32_t);
    calls->next = SP_NEW_ARRAY(arena, calls->count, uint32_t);
    calls->path = SP_NEW_ARRAY(arena, calls->count, uint32_t);
    calls->depth = SP_NEW_ARRAY(arena, calls->count, uint32_t);
    calls->nodes = SP_NEW_ARRAY(arena, calls->count, uint64_t);
    calls->on_path = SP_NEW_ARRAY(arena, calls->count, bool);
    if (caller == NULL || calls->next == NULL || calls->path == NULL || calls->depth == NULL || calls->nodes == NULL ||
        calls->on_path == NULL)
        return false;
    for (uint32_t i = 0; i < edge_count; i++)
        caller[i] = edges[i].caller == SP_MAIN_CALLER ? calls->count - 1 : edges[i].caller;
    if (!sp_rows_sort(arena, caller, edge_count, calls->count, &calls->callees))
        return false;
    for (uint32_t i = 0; i < edge_count; i++)
        calls->callees.items[i] = edges[calls->callees.items[i]].callee;
    memcpy(calls->next, calls->callees.start, calls->count * sizeof *calls->next);
    return true;
}

static enum sp_status finish(struct calls *calls, const struct sp_model *model, uint32_t f, uint64_t own,
                             struct sp_error *err)
{
    uint64_t nodes = own;
    uint32_t depth = 0;
    for (uint32_t i = calls->callees.start[f]; i < calls->callees.start[f + 1]; i++) {
        const uint32_t callee = calls->callees.items[i];
        if (depth < calls->depth[callee])
            depth = calls->depth[callee];
        if (nodes <= SP_MAX_EXPANDED_NODES)
            nodes += calls->nodes[callee];
    }
    calls->nodes[f] = nodes > SP_MAX_EXPANDED_NODES ? SP_MAX_EXPANDED_NODES + 1 : nodes;
    calls->depth[f] = depth + 1;
    if (f == calls->count - 1) {
        const uint64_t in_file = model->counts.nodes;
        if (calls->nodes[f] > SP_MAX_EXPANDED_NODES)
            return sp_fail_limit(err, "EXPANSION_TOO_LARGE", "SP_MAX_EXPANDED_NODES", SP_MAX_EXPANDED_NODES,
                                 (int64_t)calls->nodes[f],
                                 "With its functions expanded, the model has more than %d nodes "
                                 "(limit SP_MAX_EXPANDED_NODES).",
                                 SP_MAX_EXPANDED_NODES);
        if (calls->nodes[f] > SP_FREE_EXPANDED_NODES && calls->nodes[f] / SP_MAX_EXPANSION_FACTOR > in_file)
            return sp_fail_limit(err, "EXPANSION_TOO_LARGE", "SP_MAX_EXPANSION_FACTOR", SP_MAX_EXPANSION_FACTOR,
                                 (int64_t)(calls->nodes[f] / in_file),
                                 "With its functions expanded, the model has %" PRIu64
                                 " nodes, more than %d times the %" PRIu64
                                 " nodes in the file (limit SP_MAX_EXPANSION_FACTOR).",
                                 calls->nodes[f], SP_MAX_EXPANSION_FACTOR, in_file);
    } else if (calls->depth[f] > SP_MAX_CALL_DEPTH) {
        sp_fail_limit(err, "CALLS_TOO_DEEP", "SP_MAX_CALL_DEPTH", SP_MAX_CALL_DEPTH, calls->depth[f],
                      "Functions call each other more than %d deep (limit SP_MAX_CALL_DEPTH).", SP_MAX_CALL_DEPTH);
        sp_error_at(err, "function %.120s", model->functions[f].name);
        return SP_ERR_LIMIT;
    }
    return SP_OK;
}

static enum sp_status visit(struct calls *calls, const struct sp_model *model, uint32_t start,
                            const uint64_t *own_nodes, uint64_t main_nodes, struct sp_error *err)
{
    uint32_t length = 1;
    if (calls->depth[start] != 0)
        return SP_OK;
    calls->path[0] = start;
    calls->on_path[start] = true;
    while (length > 0) {
        const uint32_t f = calls->path[length - 1];
        if (calls->next[f] == calls->callees.start[f + 1]) {
            enum sp_status status = finish(calls, model, f, f == calls->count - 1 ? main_nodes : own_nodes[f], err);
            if (status != SP_OK)
                return status;
            calls->on_path[f] = false;
            length--;
            continue;
        }
        const uint32_t callee = calls->callees.items[calls->next[f]++];
        if (calls->on_path[callee]) {
            sp_fail_limit(err, "CYCLIC_FUNCTIONS", "SP_MAX_CALL_DEPTH", SP_MAX_CALL_DEPTH, INT64_MAX,
                          "Functions call each other in a cycle, without end (limit SP_MAX_CALL_DEPTH): '%.80s' calls "
                          "'%.80s', which leads back to it.",
                          model->functions[f].name, model->functions[callee].name);
            sp_error_at(err, "function %.120s", model->functions[callee].name);
            return SP_ERR_LIMIT;
        }
        if (calls->depth[callee] == 0) {
            calls->path[length++] = callee;
            calls->on_path[callee] = true;
        }
    }
    return SP_OK;
}

enum sp_status sp_check_calls(const struct sp_model *model, const struct sp_call_edge *edges, uint32_t edge_count,
                              const uint64_t *own_nodes, uint64_t main_nodes, struct sp_error *err)
{
    struct calls calls = {.count = model->function_count + 1};
    struct sp_arena *arena = sp_arena_create(sp_arena_budget(model->arena));
    enum sp_status status = SP_OK;
    if (arena == NULL || !build(arena, &calls, edges, edge_count)) {
        sp_arena_destroy(arena);
        return sp_fail_memory(err);
    }
    for (uint32_t f = 0; status == SP_OK && f < calls.count; f++)
        status = visit(&calls, model, f, own_nodes, main_nodes, err);
    sp_arena_destroy(arena);
    return status;
}

static int compare_keys(const struct sp_function *a, const char *domain, const char *name, const char *overload)
{
    int order = strcmp(a->domain, domain);
    if (order == 0)
        order = strcmp(a->name, name);
    return order == 0 ? strcmp(a->overload, overload) : order;
}

static int by_key(const void *left, const void *right)
{
    const struct sp_function *b = right;
    return compare_keys(left, b->domain, b->name, b->overload);
}

enum sp_status sp_sort_functions(struct sp_reader *r)
{
    struct sp_model *model = r->model;
    qsort(model->functions, model->function_count, sizeof *model->functions, by_key);
    for (uint32_t i = 1; i < model->function_count; i++) {
        const struct sp_function *function = &model->functions[i];
        if (by_key(function - 1, function) == 0) {
            sp_fail(r->err, SP_ERR_MODEL, "DUPLICATE_FUNCTION",
                    "The model has two functions '%.80s' of domain '%.80s' and overload '%.80s'.", function->name,
                    function->domain, function->overload);
            return sp_error_at(r->err, "function %.120s", function->name);
        }
    }
    return SP_OK;
}

const struct sp_function *sp_onnx_function(const struct sp_model *model, const struct sp_node *node)
{
    const struct sp_function *all = model->functions;
    uint32_t at;
    SP_LOWER_BOUND(at, model->function_count, compare_keys(&all[at], node->domain, node->op_type, node->overload) < 0);
    bool is_found =
        at < model->function_count && compare_keys(&all[at], node->domain, node->op_type, node->overload) == 0;
    return is_found ? &all[at] : NULL;
}
