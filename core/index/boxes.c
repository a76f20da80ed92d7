/* What the boxes of a graph are: their kinds, paths and labels, and what their nodes take together. */
#include <string.h>

#include "index/graph_internal.h"

#define MOST_END_LABEL ((SP_INDEX_MOST_LABEL - 3) / 2) /* characters of either end of a run */

static const char *name_of(const struct sp_graph_slice *graph, uint32_t node)
{
    return sp_index_text(graph->index, graph->index->nodes[node].name);
}

/* A name without what it is below of. */
static const char *behind(const struct sp_graph_slice *graph, const char *name)
{
    const char *rest = name + graph->selection.module_size;
    return *rest == graph->selection.separator && rest[1] != '\0' ? rest + 1 : rest;
}

/* The label of what one child of the module is, or several levels below it. */
static const char *label_part(const struct sp_graph_slice *graph, uint32_t node)
{
    const char *name = name_of(graph, node), *from = behind(graph, name);
    bool is_node;
    const size_t size = sp_index_prefix(&graph->selection, name, 1, &is_node);
    const size_t skipped = (size_t)(from - name);
    return sp_index_label_new(graph->arena, from, size > skipped ? size - skipped : 0, MOST_END_LABEL);
}

static enum sp_status describe_run(struct sp_graph_slice *graph, struct sp_graph_box *box, struct sp_error *err)
{
    struct sp_index_path path = {graph->selection.module, graph->selection.module_size, UINT32_MAX, 0};
    uint32_t first = box->nodes[0], last = box->nodes[0];
    for (uint32_t i = 0; i < box->count; i++) {
        const uint32_t child = graph->child_of[box->nodes[i]];
        if (child < path.first_child) {
            path.first_child = child;
            first = box->nodes[i];
        }
        if (child > path.last_child) {
            path.last_child = child;
            last = box->nodes[i];
        }
    }
    const char *from = label_part(graph, first), *to = label_part(graph, last);
    box->kind = "run";
    box->path = sp_index_path_write(graph->arena, &path);
    box->label = from != NULL && to != NULL ? sp_arena_printf(graph->arena, "%s … %s", from, to) : NULL;
    return box->path != NULL && box->label != NULL ? SP_OK : sp_fail_memory(err);
}

static enum sp_status describe_stage(struct sp_graph_slice *graph, struct sp_graph_box *box, struct sp_error *err)
{
    const uint32_t first = graph->index->nodes[box->nodes[0]].stage;
    uint32_t low = first, high = first;
    for (uint32_t i = 0; i < box->count; i++) {
        const uint32_t stage = graph->index->nodes[box->nodes[i]].stage;
        low = stage < low ? stage : low;
        high = stage > high ? stage : high;
    }
    box->kind = "stage";
    box->path = "";
    box->label = low == high ? sp_arena_printf(graph->arena, "stage %u", low)
                             : sp_arena_printf(graph->arena, "stages %u … %u", low, high);
    return box->label != NULL ? SP_OK : sp_fail_memory(err);
}

static enum sp_status describe_module(struct sp_graph_slice *graph, struct sp_graph_box *box, struct sp_error *err)
{
    const char *name = name_of(graph, box->nodes[0]);
    const size_t size = sp_index_common_module(&graph->selection, box->nodes, box->count);
    const struct sp_index_path path = {name, size, 0, SP_INDEX_NONE - 1};
    const size_t skipped = (size_t)(behind(graph, name) - name);
    box->kind = "module";
    box->path = sp_index_path_write(graph->arena, &path);
    box->label =
        sp_index_label_new(graph->arena, name + skipped, size > skipped ? size - skipped : 0, SP_INDEX_MOST_LABEL);
    return box->path != NULL && box->label != NULL ? SP_OK : sp_fail_memory(err);
}

/* A box of several nodes is a run where they are of several children of the module that it was joined from. */
static bool is_run(const struct sp_graph_slice *graph, const struct sp_graph_box *box)
{
    bool is_node;
    const char *name = name_of(graph, box->nodes[0]);
    (void)sp_index_prefix(&graph->selection, name, 1, &is_node);
    if (!graph->has_runs)
        return false;
    for (uint32_t i = 1; i < box->count; i++) {
        if (graph->child_of[box->nodes[i]] != graph->child_of[box->nodes[0]])
            return true;
    }
    return is_node;
}

static enum sp_status describe_node(struct sp_graph_slice *graph, struct sp_graph_box *box, struct sp_error *err)
{
    const char *label = behind(graph, name_of(graph, box->nodes[0]));
    box->kind = "node";
    box->node = name_of(graph, box->nodes[0]);
    box->label = sp_index_label_new(graph->arena, label, strlen(label), SP_INDEX_MOST_LABEL);
    return box->label != NULL ? SP_OK : sp_fail_memory(err);
}

/* Whether a box has nodes of more stages than are listed. */
static bool has_more_stages(struct sp_graph_slice *graph, const struct sp_graph_box *box)
{
    uint32_t stages = 0;
    for (uint32_t i = 0; i < box->count; i++)
        stages += graph->stage_nodes[graph->index->nodes[box->nodes[i]].stage]++ == 0;
    for (uint32_t i = 0; i < box->count; i++)
        graph->stage_nodes[graph->index->nodes[box->nodes[i]].stage] = 0;
    return stages > SP_INDEX_MOST_BOX_STAGES;
}

enum sp_status sp_graph_describe(struct sp_graph_slice *graph, uint32_t number, struct sp_error *err)
{
    struct sp_graph_box *box = &graph->boxes[number];
    *box = (struct sp_graph_box){.nodes = graph->members.items + graph->members.start[number],
                                 .count = graph->members.start[number + 1] - graph->members.start[number],
                                 .path = ""};
    for (uint32_t i = 0; i < box->count; i++) {
        const struct sp_index_node *node = &graph->index->nodes[box->nodes[i]];
        box->seconds += node->seconds;
        box->collective_seconds += node->collective_seconds;
        box->flops += node->flops;
        box->weights_bytes += node->weights_bytes;
    }
    graph->is_truncated = graph->is_truncated || has_more_stages(graph, box);
    if (graph->query->by_stage)
        return describe_stage(graph, box, err);
    if (box->count > 1)
        return is_run(graph, box) ? describe_run(graph, box, err) : describe_module(graph, box, err);
    return describe_node(graph, box, err);
}
