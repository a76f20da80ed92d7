#include "index/graph.h"

#include <string.h>

#include "base/intern.h"
#include "index/graph_internal.h"

#define MOST_OPERATORS 5

/* ---- which boxes there are -------------------------------------------------------------------------------------- */

/* Joins neighbours until there are no more boxes than are wanted; each box has as many, or one more. */
static void join_neighbours(struct sp_graph_slice *graph, uint32_t count)
{
    const uint64_t wanted = graph->query->limit;
    if (count > wanted) {
        for (uint32_t i = 0; i < graph->selection.count; i++)
            graph->box_of_member[i] = (uint32_t)(graph->box_of_member[i] * wanted / count);
        graph->has_runs = graph->is_truncated = true;
        count = (uint32_t)wanted;
    }
    graph->box_count = count;
}

/* Of each node below the module, whatever stage it is of: the number of the child that it is in, for paths of runs. */
static enum sp_status number_children(struct sp_graph_slice *graph, struct sp_error *err)
{
    const struct sp_index_path module = {graph->selection.module, graph->selection.module_size, 0, SP_INDEX_NONE - 1};
    struct sp_index_selection all;
    uint32_t *children, count;
    graph->child_of = SP_NEW_ARRAY(graph->arena, graph->index->count.nodes, uint32_t);
    char *path = sp_index_path_write(graph->arena, &module);
    if (graph->child_of == NULL || path == NULL)
        return sp_fail_memory(err);
    enum sp_status status =
        sp_index_select(graph->index, path, SP_INDEX_NONE, graph->query->hash_seed, graph->arena, &all, err);
    if (status != SP_OK)
        return status;
    all.module_size = graph->selection.module_size; /* its children, also where it has a single one */
    status = sp_index_group(&all, 1, graph->query->hash_seed, graph->arena, &children, &count, err);
    for (uint32_t i = 0; status == SP_OK && i < all.count; i++)
        graph->child_of[all.nodes[i]] = children[i];
    return status;
}

/* Has the groups, each a child of the module, in the order of the children's numbers: runs are of neighbours then, also
   where only one stage is looked at. */
static enum sp_status order_children(struct sp_graph_slice *graph, struct sp_error *err)
{
    const struct sp_index_selection *selection = &graph->selection;
    uint32_t *rank = SP_NEW_ARRAY(graph->arena, graph->index->count.nodes, uint32_t), count = 0;
    const enum sp_status status = rank != NULL ? number_children(graph, err) : sp_fail_memory(err);
    if (status != SP_OK)
        return status;
    for (uint32_t i = 0; i < selection->count; i++)
        rank[graph->child_of[selection->nodes[i]]] = 1;
    for (uint32_t c = 0; c < graph->index->count.nodes; c++) {
        const bool is_there = rank[c] != 0;
        rank[c] = count;
        count += is_there;
    }
    for (uint32_t i = 0; i < selection->count; i++)
        graph->box_of_member[i] = rank[graph->child_of[selection->nodes[i]]];
    return SP_OK;
}

/* As many levels as the limit leaves room for. */
static enum sp_status box_modules(struct sp_graph_slice *graph, struct sp_error *err)
{
    uint32_t count = 0;
    enum sp_status status = SP_OK;
    for (graph->depth = graph->query->depth; graph->depth > 0; graph->depth--) {
        status = sp_index_group(&graph->selection, graph->depth, graph->query->hash_seed, graph->arena,
                                &graph->box_of_member, &count, err);
        if (status != SP_OK || count <= graph->query->limit || graph->depth == 1)
            break;
    }
    graph->is_truncated = graph->depth < graph->query->depth;
    if (status == SP_OK && count > graph->query->limit)
        status = order_children(graph, err);
    if (status == SP_OK)
        join_neighbours(graph, count);
    return status;
}

/* Stages that have nodes. */
static enum sp_status box_stages(struct sp_graph_slice *graph, struct sp_error *err)
{
    const struct sp_index_selection *selection = &graph->selection;
    uint32_t *numbers = SP_NEW_ARRAY(graph->arena, graph->index->count.stages, uint32_t), count = 0;
    graph->box_of_member = SP_NEW_ARRAY(graph->arena, selection->count, uint32_t);
    if (numbers == NULL || graph->box_of_member == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < selection->count; i++)
        numbers[graph->index->nodes[selection->nodes[i]].stage] = 1;
    for (uint32_t s = 0; s < graph->index->count.stages; s++) {
        const bool has_nodes = numbers[s] != 0;
        numbers[s] = count;
        count += has_nodes;
    }
    for (uint32_t i = 0; i < selection->count; i++)
        graph->box_of_member[i] = numbers[graph->index->nodes[selection->nodes[i]].stage];
    graph->depth = 1;
    join_neighbours(graph, count);
    return SP_OK;
}

/* The nodes of each box together, ascending. */
static enum sp_status sort_members(struct sp_graph_slice *graph, struct sp_error *err)
{
    const struct sp_index_selection *selection = &graph->selection;
    graph->box_of = SP_NEW_ARRAY(graph->arena, graph->index->count.nodes, uint32_t);
    if (graph->box_of == NULL ||
        !sp_rows_sort(graph->arena, graph->box_of_member, selection->count, graph->box_count, &graph->members))
        return sp_fail_memory(err);
    for (uint32_t n = 0; n < graph->index->count.nodes; n++)
        graph->box_of[n] = SP_INDEX_NONE;
    for (uint32_t i = 0; i < selection->count; i++) {
        graph->members.items[i] = selection->nodes[graph->members.items[i]];
        graph->box_of[selection->nodes[i]] = graph->box_of_member[i];
    }
    return SP_OK;
}

/* ---- the answer ------------------------------------------------------------------------------------------------- */

static enum sp_status number_operators(struct sp_graph_slice *graph, struct sp_error *err)
{
    const struct sp_index *index = graph->index;
    struct sp_intern *types = sp_intern_create(graph->arena, graph->query->hash_seed);
    graph->operator_of = SP_NEW_ARRAY(graph->arena, index->count.nodes, uint32_t);
    graph->operators = types;
    if (types == NULL || graph->operator_of == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < graph->selection.count; i++) {
        const uint32_t node = graph->selection.nodes[i];
        const char *type = sp_index_text(index, index->nodes[node].operator_type);
        graph->operator_of[node] = type != NULL ? sp_intern_add(types, type, strlen(type)) : SP_NO_NAME;
        if (type != NULL && graph->operator_of[node] == SP_NO_NAME)
            return sp_fail_memory(err);
    }
    graph->operator_nodes = SP_NEW_ARRAY(graph->arena, sp_intern_count(types), uint32_t);
    graph->stage_nodes = SP_NEW_ARRAY(graph->arena, index->count.stages, uint32_t);
    graph->stage_seconds = SP_NEW_ARRAY(graph->arena, index->count.stages, double);
    if (graph->operator_nodes == NULL || graph->stage_nodes == NULL || graph->stage_seconds == NULL)
        return sp_fail_memory(err);
    return SP_OK;
}

/* The most frequent ones, and of equally frequent ones that which the model has first. */
static void write_operators(struct sp_graph_slice *graph, const struct sp_graph_box *box, struct sp_json *json)
{
    uint32_t best[MOST_OPERATORS], count = 0;
    for (uint32_t i = 0; i < box->count; i++) {
        if (graph->operator_of[box->nodes[i]] != SP_NO_NAME)
            graph->operator_nodes[graph->operator_of[box->nodes[i]]]++;
    }
    for (uint32_t round = 0; round < MOST_OPERATORS; round++) {
        uint32_t found = SP_NO_NAME;
        for (uint32_t i = 0; i < box->count; i++) {
            const uint32_t type = graph->operator_of[box->nodes[i]];
            bool is_told = type == SP_NO_NAME;
            for (uint32_t b = 0; b < count; b++)
                is_told = is_told || best[b] == type;
            if (!is_told && (found == SP_NO_NAME || graph->operator_nodes[type] > graph->operator_nodes[found]))
                found = type;
        }
        if (found != SP_NO_NAME)
            best[count++] = found;
    }
    sp_json_key(json, "operators");
    sp_json_begin_array(json);
    for (uint32_t b = 0; b < count; b++) {
        const char *name = sp_intern_name(graph->operators, best[b]);
        char label[SP_INDEX_LABEL_SIZE(SP_INDEX_MOST_LABEL)];
        sp_json_begin_object(json);
        sp_json_member_string(json, "operator", sp_index_label(name, strlen(name), SP_INDEX_MOST_LABEL, label));
        sp_json_member_int(json, "nodes", graph->operator_nodes[best[b]]);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
    for (uint32_t i = 0; i < box->count; i++) {
        if (graph->operator_of[box->nodes[i]] != SP_NO_NAME)
            graph->operator_nodes[graph->operator_of[box->nodes[i]]] = 0;
    }
}

static void write_stages(struct sp_graph_slice *graph, const struct sp_graph_box *box, struct sp_json *json)
{
    uint32_t low = SP_INDEX_NONE, high = 0, listed = 0;
    for (uint32_t i = 0; i < box->count; i++) {
        const struct sp_index_node *node = &graph->index->nodes[box->nodes[i]];
        graph->stage_nodes[node->stage]++;
        graph->stage_seconds[node->stage] += node->seconds;
        low = node->stage < low ? node->stage : low;
        high = node->stage > high ? node->stage : high;
    }
    sp_json_key(json, "stages");
    sp_json_begin_array(json);
    for (uint32_t s = low; s <= high && low != SP_INDEX_NONE; s++) {
        if (graph->stage_nodes[s] == 0)
            continue;
        if (listed++ < SP_INDEX_MOST_BOX_STAGES) {
            sp_json_begin_object(json);
            sp_json_member_int(json, "stage", s);
            sp_json_member_int(json, "nodes", graph->stage_nodes[s]);
            sp_json_member_double(json, "seconds", graph->stage_seconds[s]);
            sp_json_end_object(json);
        }
        graph->stage_nodes[s] = 0;
        graph->stage_seconds[s] = 0;
    }
    sp_json_end_array(json);
}

static void write_box(struct sp_graph_slice *graph, uint32_t id, const struct sp_graph_box *box, struct sp_json *json)
{
    sp_json_begin_object(json);
    sp_json_member_int(json, "id", id);
    sp_json_member_string(json, "path", box->path);
    sp_json_member_string(json, "label", box->label);
    sp_json_member_string(json, "kind", box->kind);
    sp_json_member_int(json, "nodes", box->count);
    sp_json_member_double(json, "seconds", box->seconds);
    sp_json_member_double(json, "collective_seconds", box->collective_seconds);
    sp_json_member_double(json, "flops", box->flops);
    sp_json_member_double(json, "weights_bytes", box->weights_bytes);
    write_stages(graph, box, json);
    write_operators(graph, box, json);
    if (box->node != NULL)
        sp_json_member_string(json, "node", box->node);
    sp_json_end_object(json);
}

static void write_boxes(struct sp_graph_slice *graph, struct sp_json *json)
{
    static const char *const labels[] = {"before", "after"};
    sp_json_key(json, "boxes");
    sp_json_begin_array(json);
    for (uint32_t b = 0; b < graph->box_count; b++)
        write_box(graph, b, &graph->boxes[b], json);
    for (uint32_t side = 0; side < 2; side++) {
        const struct sp_graph_box outside = {.kind = "outside", .path = "", .label = labels[side]};
        if (graph->outside_id[side] != SP_INDEX_NONE)
            write_box(graph, graph->outside_id[side], &outside, json);
    }
    sp_json_end_array(json);
}

static void write_parent(struct sp_graph_slice *graph, size_t size, const char *label, struct sp_json *json)
{
    const struct sp_index_path path = {graph->selection.module, size, 0, SP_INDEX_NONE - 1};
    const char *text = sp_index_path_write(graph->arena, &path);
    sp_json_begin_object(json);
    sp_json_member_string(json, "path", text != NULL ? text : "");
    sp_json_member_string(json, "label", label != NULL ? label : "");
    sp_json_end_object(json);
}

/* The modules that what is shown is in, from the model on; of very many the first ones. */
static void write_parents(struct sp_graph_slice *graph, struct sp_json *json)
{
    const struct sp_index_selection *selection = &graph->selection;
    const char *module = selection->module;
    const size_t size = selection->module_size;
    size_t from = 0;
    sp_json_key(json, "parents");
    sp_json_begin_array(json);
    if (size > 0 || selection->is_run)
        write_parent(graph, 0, "model", json);
    for (uint32_t i = 0; i < SP_INDEX_MOST_PARENTS && from < size; i++) {
        const char *cut = memchr(module + from + 1, selection->separator, size - from - 1);
        const size_t to = cut != NULL ? (size_t)(cut - module) : size;
        const size_t begin = from + (module[from] == selection->separator && to > from + 1);
        if (to < size || selection->is_run)
            write_parent(graph, to, sp_index_label_new(graph->arena, module + begin, to - begin, SP_INDEX_MOST_LABEL),
                         json);
        from = to;
    }
    sp_json_end_array(json);
}

static enum sp_status answer(struct sp_graph_slice *graph, struct sp_json *json, struct sp_error *err)
{
    const struct sp_index_graph_query *query = graph->query;
    enum sp_status status = sp_index_select(graph->index, query->path, query->stage, query->hash_seed, graph->arena,
                                            &graph->selection, err);
    if (status == SP_OK)
        status = query->by_stage ? box_stages(graph, err) : box_modules(graph, err);
    if (status == SP_OK)
        status = sort_members(graph, err);
    if (status == SP_OK)
        status = number_operators(graph, err);
    graph->boxes = SP_NEW_ARRAY(graph->arena, graph->box_count, struct sp_graph_box);
    if (graph->boxes == NULL && status == SP_OK)
        status = sp_fail_memory(err);
    for (uint32_t b = 0; status == SP_OK && b < graph->box_count; b++)
        status = sp_graph_describe(graph, b, err);
    if (status == SP_OK)
        status = sp_graph_find_edges(graph, err);
    if (status != SP_OK)
        return status;
    sp_json_begin_object(json);
    sp_json_member_string(json, "path", query->path);
    write_parents(graph, json);
    sp_json_member_int(json, "depth", graph->depth);
    sp_json_key(json, "stage");
    if (query->stage == SP_INDEX_NONE)
        sp_json_null(json);
    else
        sp_json_int(json, query->stage);
    sp_json_member_string(json, "group", query->by_stage ? "stage" : "module");
    sp_json_member_int(json, "node_count", graph->selection.count);
    sp_json_member_bool(json, "truncated", graph->is_truncated);
    write_boxes(graph, json);
    sp_graph_write_edges(graph, json);
    sp_json_end_object(json);
    return SP_OK;
}

enum sp_status sp_index_graph(const struct sp_index *index, const struct sp_index_graph_query *query,
                              struct sp_json *json, struct sp_error *err)
{
    if (query->stage != SP_INDEX_NONE && query->stage >= index->count.stages)
        return sp_fail(err, SP_ERR_REQUEST, "NO_SUCH_STAGE", "There is no stage %u: the plan has %u, from 0 on.",
                       query->stage, index->count.stages);
    struct sp_graph_slice graph = {.index = index, .query = query, .arena = sp_arena_create(NULL)};
    const enum sp_status status = graph.arena != NULL ? answer(&graph, json, err) : sp_fail_memory(err);
    sp_arena_destroy(graph.arena);
    return status;
}
