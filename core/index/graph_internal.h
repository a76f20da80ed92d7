#pragma once
/* A slice of a graph while it is made: all of it lives in its arena. */
#include "base/rows.h"
#include "index/graph.h"
#include "index/label.h"
#include "index/modules.h"

#define SP_INDEX_MOST_PARENTS 64

struct sp_intern;

struct sp_graph_box {
    const uint32_t *nodes; /* ascending */
    uint32_t count;
    const char *kind, *path, *label, *node; /* node: NULL but of a single one */
    double seconds, collective_seconds, flops, weights_bytes;
};

struct sp_graph_edge {
    uint32_t from, to; /* boxes */
    uint32_t tensors, largest;
    double bytes, crossing_bytes;
};

struct sp_graph_slice {
    const struct sp_index *index;
    const struct sp_index_graph_query *query;
    struct sp_arena *arena;
    struct sp_index_selection selection;
    uint32_t depth, box_count;
    bool is_truncated, has_runs;
    uint32_t *box_of_member; /* per node of the selection */
    uint32_t *box_of;        /* per node; SP_INDEX_NONE outside */
    uint32_t *child_of;      /* per node below the module, where there are runs */
    struct sp_rows members;  /* the nodes of each box */
    struct sp_graph_box *boxes;
    struct sp_intern *operators;
    uint32_t *operator_of, *operator_nodes; /* per node; per operator, all 0 between two boxes */
    uint32_t *stage_nodes;                  /* per stage, all 0 between two boxes */
    double *stage_seconds;
    uint32_t outside_id[2]; /* of what is before, and after; SP_INDEX_NONE: nothing is */
    uint32_t edge_count;
    struct sp_graph_edge *edges; /* by the box that they come from, then by that which they lead to */
};

/* boxes.c: says what a box is, of which sort_members() says the nodes; stage_nodes is there, all 0. SP_ERR_MEMORY. */
enum sp_status sp_graph_describe(struct sp_graph_slice *graph, uint32_t number, struct sp_error *err);

/* edges.c: finds what flows between boxes, and which outside boxes there are; SP_ERR_MEMORY. */
enum sp_status sp_graph_find_edges(struct sp_graph_slice *graph, struct sp_error *err);
void sp_graph_write_edges(const struct sp_graph_slice *graph, struct sp_json *json);
