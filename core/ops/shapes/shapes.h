#pragma once
/*
 * shapes - infers shapes and known values over a whole model.
 *
 * The walk takes the nodes of a graph in order. It finds each node's entry in the operator table (or expands the
 * function of the model that the node calls), runs the entry's `shapes` function, and marks constants and folded nodes.
 * It walks subgraphs of control flow and bodies of calls where their node stands, however deep they nest.
 *
 * Declared types (graph outputs, value_info) fill what the walk leaves unknown. A declared shape that contradicts what the
 * walk finds does not count, as in runtimes; a declared element type or kind that does is SP_ERR_MODEL. A declared symbol
 * is dropped where the walk knows the dimension better.
 *
 * An axis of a graph input with neither number nor name gets a symbol of its own, so that the dimensions that depend on
 * it stay connected.
 *
 * A node is folded, and its outputs are constant, in three cases: it is not random and all inputs that it uses are
 * constant; it reads only a shape, which is known in numbers; or all its results are known numbers whatever its inputs.
 *
 * Small constants (SP_MAX_DATA_ELEMENTS) are read from the file when an operator needs their elements. value->data of a
 * weight that no operator reads stays NULL.
 *
 * Control flow
 *
 *   If           An output is what both branches give. Extents that differ become a new symbol; ranks that differ
 *                become unknown. Where the condition is known, only the branch that runs counts, and errors in the
 *                other one are not reported.
 *   Loop, Scan   The body is walked with the types before the first iteration. A carried extent that comes back
 *                different stands for any extent from then on, and the body is walked again until nothing changes.
 *                Values inside keep what the last pass found, which is true of every iteration. Values that an
 *                iteration gets from the one before are not constant; constants from outside are constant inside. A
 *                carried extent that grows by the same number in each of a known number of iterations has its size at
 *                the end; a stacked result has the number of iterations, where it is known (ops/bodies/control.h).
 *   SequenceMap  The body sees what is true of every element.
 *
 * Quantised tensors
 *
 *   Runtimes make QuantizeLinear and DequantizeLinear a part of the operators around them, so what counts is the form
 *   in which a tensor is read and written, `stored_bits` for each element:
 *
 *     DequantizeLinear of a constant    never a float weight: its quantised elements, their scales and zero points
 *     DequantizeLinear otherwise        as its input is stored
 *     QuantizeLinear                    where its results are only dequantised: as its input is stored
 *     the only use is QuantizeLinear    what makes the tensor writes the quantised elements
 *
 *   Views keep the form of their input, and so do folded nodes that only change the order or the float type of its
 *   elements. A result of the model that is dequantised from anything but such a QuantizeLinear is made by a node of
 *   its own, and a constant one is stored as its type says. Sources: ONNX Runtime,
 *   core/optimizer/qdq_transformer (selectors of QDQ node groups; constant folding leaves DequantizeLinear alone);
 *   NVIDIA TensorRT, "Working with Quantized Types" (explicit quantization).
 *
 * An operator without an entry and without a function body is not an error here. Its outputs keep their declared types,
 * and the summary counts it, so that callers can refuse it or add a note.
 *
 * Afterwards node->op, node->version, node->body, node->is_folded, value->type, value->data, value->is_constant,
 * value->quantized_as and value->stored_bits are final, in subgraphs and bodies too.
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
     * declared types or stay unknown, and the walk goes on; any status but SP_OK ends it. Errors of memory,
     * limits and cancelling always end it. NULL: the first error ends it. The node may be one of a body
     * (node->graph->owner is the call).
     */
    enum sp_status (*report)(void *context, const struct sp_node *node, const struct sp_error *error);
    void *report_context;
    /*
     * Called, with the same context, for what the standard forbids and runtimes take as it is meant: a declared shape
     * that contradicts what the operators give (this one counts), a signal of STFT without its last axis. At most once
     * for a value or node; any status but SP_OK ends the walk. NULL: nobody is told.
     */
    enum sp_status (*accept)(void *context, const struct sp_node *node, const struct sp_error *error);
};

enum sp_status sp_infer_shapes(struct sp_model *model, const struct sp_watch *watch,
                               struct sp_shape_summary *ret_summary, struct sp_error *err);

/* As sp_infer_shapes(), with options. */
enum sp_status sp_infer_shapes_with(struct sp_model *model, const struct sp_shape_options *options,
                                    struct sp_shape_summary *ret_summary, struct sp_error *err);
