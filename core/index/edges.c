/* What flows between the boxes of a graph: tensors, each once between two boxes, from where it is made to its users. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/rows.h"
#include "base/sorted.h"
#include "index/graph_internal.h"

/* Places of nodes: the boxes, then what is before them and what is after them. */
enum { BEFORE, AFTER };

SP_ASCENDING(by_place, struct sp_graph_edge, from, to)

static int by_bytes(const void *a, const void *b)
{
    const struct sp_graph_edge *left = a, *right = b;
    const int order = (left->bytes < right->bytes) - (left->bytes > right->bytes);
    return order != 0 ? order : by_place(a, b);
}

/* Edges from one place at a time. */
struct finding {
    struct sp_graph_slice *graph;
    uint32_t *edge_to;                 /* per place: the edge that leads there, and one; 0: there is none yet */
    uint32_t *tensor_to, *crossing_to; /* per place: the tensor, and one, that was counted last, or counted to cross */
    struct sp_graph_edge *edges;
    uint32_t count, capacity;
};

static struct sp_graph_edge *edge_to(struct finding *finding, uint32_t from, uint32_t to)
{
    if (finding->edge_to[to] == 0) {
        if (!SP_MAKE_ROOM(NULL, finding->edges, finding->count, finding->capacity, 1))
            return NULL;
        finding->edges[finding->count++] = (struct sp_graph_edge){.from = from, .to = to, .largest = SP_INDEX_NONE};
        finding->edge_to[to] = (uint32_t)finding->count;
    }
    return &finding->edges[finding->edge_to[to] - 1];
}

static bool add_tensor(struct finding *finding, uint32_t from, uint32_t number)
{
    const struct sp_index *index = finding->graph->index;
    const struct sp_index_tensor *tensor = &index->tensors[number];
    const uint32_t after = finding->graph->box_count + AFTER, before = finding->graph->box_count + BEFORE;
    for (uint32_t i = 0; i < tensor->consumer_count; i++) {
        const uint32_t consumer = index->consumers[tensor->first_consumer + i];
        const uint32_t box = finding->graph->box_of[consumer], to = box != SP_INDEX_NONE ? box : after;
        if (to == from || (from == before && to == after))
            continue;
        struct sp_graph_edge *edge = edge_to(finding, from, to);
        if (edge == NULL)
            return false;
        if (finding->tensor_to[to] != number + 1) {
            finding->tensor_to[to] = number + 1;
            edge->tensors++;
            edge->bytes += tensor->bytes;
            if (edge->largest == SP_INDEX_NONE || tensor->bytes > index->tensors[edge->largest].bytes)
                edge->largest = number;
        }
        if (index->nodes[consumer].stage != index->nodes[tensor->producer].stage &&
            finding->crossing_to[to] != number + 1) {
            finding->crossing_to[to] = number + 1;
            edge->crossing_bytes += tensor->bytes;
        }
    }
    return true;
}

/* The tensors that nodes make, by the place of their node. */
static bool sort_tensors(const struct sp_graph_slice *graph, struct sp_rows *ret_rows)
{
    const struct sp_index *index = graph->index;
    uint32_t *place_of = SP_NEW_ARRAY(graph->arena, index->count.tensors, uint32_t);
    for (uint32_t t = 0; t < index->count.tensors && place_of != NULL; t++) {
        const uint32_t producer = index->tensors[t].producer;
        const uint32_t box = producer == SP_INDEX_NONE ? SP_INDEX_NONE : graph->box_of[producer];
        place_of[t] = producer == SP_INDEX_NONE ? SP_NO_ROW : box != SP_INDEX_NONE ? box : graph->box_count + BEFORE;
    }
    return place_of != NULL &&
           sp_rows_sort(graph->arena, place_of, index->count.tensors, graph->box_count + 2, ret_rows);
}

static bool find_all(struct finding *finding)
{
    const struct sp_graph_slice *graph = finding->graph;
    const uint32_t places = graph->box_count + 2;
    struct sp_rows made;
    finding->edge_to = SP_NEW_ARRAY(graph->arena, places, uint32_t);
    finding->tensor_to = SP_NEW_ARRAY(graph->arena, places, uint32_t);
    finding->crossing_to = SP_NEW_ARRAY(graph->arena, places, uint32_t);
    if (finding->edge_to == NULL || finding->tensor_to == NULL || finding->crossing_to == NULL ||
        !sort_tensors(graph, &made))
        return false;
    for (uint32_t from = 0; from < places; from++) {
        const size_t begin = finding->count;
        for (uint32_t i = made.start[from]; i < made.start[from + 1]; i++) {
            if (!add_tensor(finding, from, made.items[i]))
                return false;
        }
        for (size_t e = begin; e < finding->count; e++)
            finding->edge_to[finding->edges[e].to] = 0;
    }
    return true;
}

/* The largest ones, where there are too many. */
static void cut(struct sp_graph_slice *graph, struct finding *finding)
{
    if (finding->count > SP_INDEX_MOST_EDGES) {
        qsort(finding->edges, finding->count, sizeof finding->edges[0], by_bytes);
        finding->count = SP_INDEX_MOST_EDGES;
        graph->is_truncated = true;
    }
    if (finding->count > 1)
        qsort(finding->edges, finding->count, sizeof finding->edges[0], by_place);
}

enum sp_status sp_graph_find_edges(struct sp_graph_slice *graph, struct sp_error *err)
{
    struct finding finding = {.graph = graph};
    enum sp_status status = SP_OK;
    uint32_t outside = 0;
    graph->outside_id[BEFORE] = graph->outside_id[AFTER] = SP_INDEX_NONE;
    if (!find_all(&finding)) {
        status = sp_fail_memory(err);
        goto cleanup;
    }
    cut(graph, &finding);
    graph->edges = SP_NEW_ARRAY(graph->arena, finding.count, struct sp_graph_edge);
    if (graph->edges == NULL) {
        status = sp_fail_memory(err);
        goto cleanup;
    }
    graph->edge_count = (uint32_t)finding.count;
    for (uint32_t side = BEFORE; side <= AFTER; side++) {
        bool is_there = false;
        for (size_t e = 0; e < finding.count; e++)
            is_there =
                is_there || (side == BEFORE ? finding.edges[e].from : finding.edges[e].to) == graph->box_count + side;
        if (is_there)
            graph->outside_id[side] = graph->box_count + outside++;
    }
    for (size_t e = 0; e < finding.count; e++) {
        struct sp_graph_edge *edge = &graph->edges[e];
        *edge = finding.edges[e];
        edge->from = edge->from >= graph->box_count ? graph->outside_id[BEFORE] : edge->from;
        edge->to = edge->to >= graph->box_count ? graph->outside_id[AFTER] : edge->to;
    }
cleanup:
    free(finding.edges);
    return status;
}

void sp_graph_write_edges(const struct sp_graph_slice *graph, struct sp_json *json)
{
    const struct sp_index *index = graph->index;
    sp_json_key(json, "edges");
    sp_json_begin_array(json);
    for (uint32_t e = 0; e < graph->edge_count; e++) {
        const struct sp_graph_edge *edge = &graph->edges[e];
        const char *name = sp_index_text(index, index->tensors[edge->largest].name);
        char label[SP_INDEX_LABEL_SIZE(SP_INDEX_MOST_TENSOR_NAME)];
        sp_json_begin_object(json);
        sp_json_member_int(json, "from", edge->from);
        sp_json_member_int(json, "to", edge->to);
        sp_json_member_int(json, "tensors", edge->tensors);
        sp_json_member_double(json, "bytes", edge->bytes);
        sp_json_member_double(json, "crossing_bytes", edge->crossing_bytes);
        sp_json_member_string(json, "tensor", sp_index_label(name, strlen(name), SP_INDEX_MOST_TENSOR_NAME, label));
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}
