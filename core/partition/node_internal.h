#pragma once
/*
 * node_internal - one node at work, for node*.c.
 */
#include "ops/bodies/captures.h"
#include "partition/partition_internal.h"

/* An input as it was asked for, and as it was brought: per device. */
struct sp_part_brought {
    const struct sp_piece **asked, **pieces;
};

struct sp_part_run {
    struct sp_partitioner *part;
    struct sp_node *node;
    const struct sp_relation *relation; /* NULL: the dataflow has none for it */
    const struct sp_rule *rule;
    struct sp_node_cut placement;
    struct sp_lower_recorder **records; /* per device of the placement */
    uint32_t brought_count, capture_count;
    struct sp_part_brought *brought;
    struct sp_part_capture **captures; /* per device: capture_count of them */
};

/* What devices do together: inputs, collectives, outputs. */
static inline bool sp_part_is_joint(const struct sp_lower_event *event)
{
    return event->kind != SP_LOWER_OP && event->kind != SP_LOWER_CONSTANT;
}

/* The piece that stands for one that a device's function asked for or made. */
const struct sp_piece *sp_part_resolved(const struct sp_part_run *run, uint32_t at, const struct sp_piece *piece);

/* node_events.c: all inputs, in the order in which they are asked for; then everything else. */
enum sp_status sp_part_bring_inputs(struct sp_part_run *run);
enum sp_status sp_part_tell_all(struct sp_part_run *run);

/* node_collective.c: events[at] is the device's joint event at work. */
enum sp_status sp_part_collective(struct sp_part_run *run, const uint32_t *events);
enum sp_status sp_part_output(struct sp_part_run *run, const uint32_t *events);

/* ---- control.c ---- */

struct sp_part_control_run;

/* Whether something in the node's graphs is cut. */
enum sp_status sp_part_is_cut_inside(struct sp_partitioner *part, const struct sp_node *node, bool *ret_is);

/* Whether the node is control flow of which something inside is cut, so that it is run graph by graph. */
enum sp_status sp_part_is_split_control(struct sp_partitioner *part, const struct sp_node *node, bool *ret_is);

/* Begins it: its inputs are brought, and its first graph is entered (*ret_graph). */
enum sp_status sp_control_begin(struct sp_partitioner *part, const struct sp_node *node,
                                struct sp_part_control_run **ret_run, const struct sp_graph **ret_graph);
/* A graph's nodes are done: its outputs are brought to where they belong. *ret_graph is the next graph, or NULL: the
   node is done and its outputs are there. */
enum sp_status sp_control_next(struct sp_partitioner *part, struct sp_part_control_run *run,
                               const struct sp_graph **ret_graph);
