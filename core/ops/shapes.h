#pragma once
/*
 * shapes - shape and value inference over a whole model.
 *
 * Walks the graph in order, finds each node's operator entry (or expands the model-local function it calls), runs its
 * infer function, and marks constants and folded nodes. Subgraphs of control flow are walked by their operator's entry.
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
 * An operator without an entry and without a function body is not an error here: its outputs keep their declared types,
 * and it is listed in the summary, so that callers can refuse or note it.
 *
 * Afterwards node->op, node->version, node->body, node->is_folded, value->type, value->data and value->is_constant are
 * final.
 */
#include "base/cancel.h"
#include "graph/model.h"

struct sp_shape_summary {
    uint64_t values, full_values;           /* of the main graph: all, and those with full dtype and shape */
    uint64_t unknown_op_count;              /* nodes without a rule */
    const struct sp_node *first_unknown_op; /* or NULL */
};

enum sp_status sp_infer_shapes(struct sp_model *model, const struct sp_watch *watch,
                               struct sp_shape_summary *ret_summary, struct sp_error *err);
