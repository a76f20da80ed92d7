#pragma once
/*
 * shapes - shape and value inference over a whole model.
 *
 * Walks the graph in order, finds each node's operator entry (or expands the model-local function it calls), runs its
 * `shapes` function, and marks constants and folded nodes. Subgraphs of control flow and bodies of calls are walked where
 * their node stands, however they nest.
 *
 * Declared types (graph outputs, value_info) fill what inference leaves unknown and are checked against what it finds:
 * a contradiction is SP_ERR_MODEL. A declared symbol for a dimension that inference knows better is dropped.
 *
 * An axis of a graph input with neither number nor name gets a symbol of its own, so that what follows from it stays
 * connected.
 *
 * A node is folded, and its outputs are constant, when it is not random and its used inputs are all constant, or it
 * looks only at a shape that is known in numbers, or all its results are known numbers whatever its inputs are.
 *
 * Small constants (SP_MAX_DATA_ELEMENTS) are read from the file when an operator asks for their elements, so
 * value->data of a weight that nobody looked at stays NULL.
 *
 * Control flow
 *  If           An output is what both branches give: extents that differ are a new symbol, ranks that differ unknown.
 *               Where the condition is known only the branch that is taken counts, and what is wrong in the other,
 * which never runs, is not told. Loop, Scan   The body is walked with the types before the first turn. Where a carried
 * extent comes back different it stands for any extent from then on, and the body is walked again, until nothing
 * changes. Values inside keep what the last pass found: what is true of every turn. Values that a turn gets from the
 * one before are not constant; constants from outside are constants inside. A carried extent that grows by the same
 * number in each of so many turns has its size at the end; a stacked result has the number of turns where that is known
 * (ops/bodies/control.h). SequenceMap  The body sees what is true of every element.
 *
 * An operator without an entry and without a function body is not an error here: its outputs keep their declared types,
 * and it is listed in the summary, so that callers can refuse or note it.
 *
 * Afterwards node->op, node->version, node->body, node->is_folded, value->type, value->data and value->is_constant are
 * final, in subgraphs and bodies too.
 */
#include "base/cancel.h"
#include "graph/model.h"

struct sp_shape_summary {
    uint64_t values, full_values;           /* of the main graph: all, and those with full dtype and shape */
    uint64_t unknown_op_count;              /* nodes without a rule, subgraphs and bodies included */
    const struct sp_node *first_unknown_op; /* or NULL */
};

struct sp_shape_options {
    const struct sp_watch *watch; /* may be NULL */
    /*
     * Tolerance: called with each error that concerns one node (SP_ERR_MODEL, SP_ERR_UNSUPPORTED), at most once for a
     * node, or one value that no node makes (`node` NULL; `error->where` names it). The node's outputs keep their
     * declared types or stay unknown, and inference goes on; what SP_OK is not returned for ends it. Errors of memory,
     * limits and cancelling always end it. NULL: the first error ends it. The node may be one of a body
     * (node->graph->owner is the call).
     */
    enum sp_status (*report)(void *context, const struct sp_node *node, const struct sp_error *error);
    void *report_context;
};

enum sp_status sp_infer_shapes(struct sp_model *model, const struct sp_watch *watch,
                               struct sp_shape_summary *ret_summary, struct sp_error *err);

/* As sp_infer_shapes(), with options. */
enum sp_status sp_infer_shapes_with(struct sp_model *model, const struct sp_shape_options *options,
                                    struct sp_shape_summary *ret_summary, struct sp_error *err);
