#pragma once
/*
 * control_internal - what the files of control flow share: control_carried.c says how what goes in and comes out of
 * graphs is cut, control.c brings it there.
 */
#include "partition/node_internal.h"

/* One operand that goes in or comes out of a graph. */
struct sp_carried_value {
    const struct sp_value *outer;       /* of the node; NULL: omitted, or it has none */
    const struct sp_value *inner;       /* of the graph at work; NULL likewise */
    const struct sp_sharding *sharding; /* of the inner one */
    int32_t extra_axis;                 /* that the outer one has more, or -1 */
};

struct sp_part_control_run {
    const struct sp_node *node;
    struct sp_part_control told;
    struct sp_part_body body;
    uint32_t graph_count, next, mark; /* `mark`: of the undo list */
    const struct sp_graph *graphs[2];
    const char *attributes[2];
    uint32_t first_in;                 /* inputs of the node that are not states: conditions */
    uint32_t in_count, out_count;      /* what the graph takes and gives behind turn number and condition */
    struct sp_carried_value *in, *out; /* states first */
    uint32_t state_count;
};

/* The graphs of a node that are run here, and their attributes' names; 0 where it is none of these operators. */
uint32_t sp_control_graphs(const struct sp_node *node, const struct sp_graph **ret_graphs, const char **ret_names);

/* Pairs the node's operands with those of the graph that is next. */
enum sp_status sp_control_pair(struct sp_partitioner *part, struct sp_part_control_run *run);

/* The sharding of everything that is carried; the node's devices are known. */
enum sp_status sp_control_choose(struct sp_partitioner *part, struct sp_part_control_run *run);

/* That of the outer side. */
enum sp_status sp_control_outer_sharding(struct sp_partitioner *part, const struct sp_carried_value *carried,
                                         const struct sp_sharding **ret_sharding);

/* Whole on all devices of the node. */
enum sp_status sp_control_whole(struct sp_partitioner *part, const struct sp_part_control_run *run,
                                const struct sp_value *value, const struct sp_sharding **ret_sharding);

/* Whether each device has one piece of the value that is not empty: a cut needs an extent. */
enum sp_status sp_control_find_fit(struct sp_partitioner *part, const struct sp_value *value,
                                   const struct sp_sharding *sharding, bool *ret_fits);
