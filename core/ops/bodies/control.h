#pragma once
/*
 * control - how the subgraphs of If, Loop, Scan and SequenceMap hang together with their nodes.
 *
 * One description serves whoever follows values into a body and out again: shape inference, rules of bodies, costs.
 *
 *            node inputs             body inputs                 body outputs               node outputs
 *   If       cond                    -                           results of either          results
 *   Loop     M, cond, states         iteration, cond, states     cond, states, stacked      states, stacked
 *   Scan     states, scanned         states, scanned             states, stacked            states, stacked
 *   Scan-8   lengths, then as Scan; every operand has a batch axis 0 that the body does not see
 *   SequenceMap   scanned            scanned                     stacked                    stacked
 *
 * Glossary
 *  state    a value that each turn gets from the one before (loop-carried)
 *  scanned  an operand that each turn sees a slice of, or an element of where it is a sequence
 *  stacked  a result that the turns make slice by slice, or element by element
 */
#include "ops/table/op.h"

enum sp_control_kind { SP_CONTROL_NONE = 0, SP_CONTROL_IF, SP_CONTROL_LOOP, SP_CONTROL_SCAN, SP_CONTROL_MAP };

struct sp_control {
    enum sp_control_kind kind;
    uint32_t graph_count;
    struct sp_graph *graphs[2]; /* If: then_branch, else_branch; else: body */
    bool has_batch;             /* Scan-8 */
    uint32_t state_count, first_state, first_body_state,
        first_body_result; /* results: states as the body returns them */
    uint32_t scanned_count, first_scanned, first_body_scanned;
    uint32_t stacked_count, first_body_stacked; /* node outputs: states, then stacked */
};

/* SP_CONTROL_NONE for operators that are no control flow. */
enum sp_control_kind sp_control_kind(const struct sp_op *op);

/* Describes a node whose op is of control flow; SP_ERR_MODEL when graphs are missing or have other numbers of inputs
   and outputs than the node. */
enum sp_status sp_control_describe(struct sp_op_context *context, struct sp_control *ret_control);

/* If: the number of the branch that is taken, where the condition is known; else -1. */
int sp_control_taken(const struct sp_node *node);

/* The branch of an If that runs alone, in place of the node, because the condition is known; NULL for other nodes. Its
   outputs are the node's. */
struct sp_graph *sp_control_branch(const struct sp_node *node);

/* Scan: the axis of scanned operand `index` that the turns go along, and the one of stacked result `index` (of its
   `rank` axes) that they make. Loop: axis 0. Scan-8: 1. */
enum sp_status sp_control_scanned_axis(struct sp_op_context *context, const struct sp_control *control, uint32_t index,
                                       uint32_t rank, uint32_t *ret_axis);
enum sp_status sp_control_stacked_axis(struct sp_op_context *context, const struct sp_control *control, uint32_t index,
                                       uint32_t rank, uint32_t *ret_axis);

/*
 * How many turns a loop takes; unknown where that depends on data.
 *  Loop: M, when neither the condition at the start nor the one that the body returns (as inferred) ends it before.
 *  Scan: the extent of the scanned axes (SP_ERR_MODEL when they differ); with lengths (Scan-8) unknown.
 */
/* What a Loop never exceeds, M, or unknown. */
struct sp_dim sp_control_most_trips(struct sp_op_context *context, const struct sp_control *control);
enum sp_status sp_control_trips(struct sp_op_context *context, const struct sp_control *control,
                                struct sp_dim *ret_trips);
