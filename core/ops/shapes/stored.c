/*
 * The form in which quantised tensors are stored: see shapes.h.
 *
 * Nodes come in order, so the form of an input is known. QuantizeLinear looks ahead at the uses of its result, and goes
 * back to the node that makes its input; each of both once.
 */
#include "ops/shapes/internal.h"
#include "ops/table/op.h"

#define BOTH (SP_OP_QUANTIZES | SP_OP_DEQUANTIZES)

void sp_shape_copy_stored(struct sp_value *to, const struct sp_value *from)
{
    to->quantized_as = from != NULL ? from->quantized_as : SP_DTYPE_UNDEFINED;
    to->stored_bits = from != NULL ? from->stored_bits : 0;
}

static double bits_of(const struct sp_value *value)
{
    return value->stored_bits > 0 ? value->stored_bits : sp_dtype_bits(value->type.dtype);
}

/* The quantised elements with the scale and the zero point of each. */
static double bits_with_scales(const struct sp_node *node)
{
    const int64_t elements = sp_shape_elements(&node->inputs[0]->type.shape);
    double bytes = 0;
    for (uint32_t i = 1; elements > 0 && i < node->input_count; i++) {
        const int64_t own = node->inputs[i] != NULL ? sp_value_stored_bytes(node->inputs[i]) : 0;
        bytes += own > 0 ? (double)own : 0;
    }
    return bits_of(node->inputs[0]) + (elements > 0 ? 8 * bytes / (double)elements : 0);
}

static void dequantize(const struct sp_node *node)
{
    const struct sp_value *from = node->inputs[0];
    struct sp_value *to = node->outputs[0];
    if (from->stored_bits > 0)
        to->stored_bits = from->stored_bits; /* the input of a QuantizeLinear, or a constant in that form */
    else if (!to->is_graph_output)
        to->stored_bits = bits_with_scales(node);
    if (to->stored_bits > 0)
        to->quantized_as = from->type.dtype;
}

/* Whether the value is dequantised and nothing else; *ret_is_result: one of the results is a result of the graph. */
static bool is_only_dequantized(struct sp_shape_walk *walk, const struct sp_value *value, bool *ret_is_result)
{
    *ret_is_result = false;
    for (uint32_t i = 0; i < value->use_count; i++) {
        struct sp_node *user = value->uses[i].node;
        if (value->uses[i].input != 0)
            return false;
        sp_shape_find_op(walk, user);
        if (user->op == NULL || (user->op->flags & SP_OP_DEQUANTIZES) == 0)
            return false;
        *ret_is_result =
            *ret_is_result || (user->output_count > 0 && user->outputs[0] != NULL && user->outputs[0]->is_graph_output);
    }
    return value->use_count > 0 && !value->is_graph_output;
}

/* The operator that makes a value writes it quantised, through views. */
static void write_quantized(const struct sp_graph *graph, struct sp_value *value, double bits)
{
    while (value != NULL && value->graph == graph && value->use_count == 1 && !value->is_graph_output &&
           value->producer != NULL && value->producer->op != NULL && !value->producer->is_folded &&
           (value->producer->op->flags & (SP_OP_CONTROL | BOTH)) == 0) {
        value->stored_bits = bits;
        if ((value->producer->op->flags & SP_OP_VIEW) == 0)
            return;
        value = value->producer->inputs[0];
    }
}

static void quantize(struct sp_shape_walk *walk, const struct sp_node *node)
{
    struct sp_value *from = node->inputs[0], *to = node->outputs[0];
    bool is_result;
    if (node->is_folded || !is_only_dequantized(walk, to, &is_result))
        return;
    if (!is_result)
        write_quantized(node->graph, from, sp_dtype_bits(to->type.dtype));
    to->stored_bits = bits_of(from);
}

/* Whether output 0 has the elements of input 0, each for itself. */
static bool keeps_elements(const struct sp_node *node)
{
    if ((node->op->flags & SP_OP_VIEW) != 0)
        return true;
    return node->is_folded && ((node->op->flags & SP_OP_PERMUTES) != 0 || sp_node_is(node, "Cast")) &&
           sp_dtype_is_float(node->outputs[0]->type.dtype);
}

void sp_shape_set_stored(struct sp_shape_walk *walk, struct sp_node *node)
{
    if (node->input_count == 0 || node->output_count == 0 || node->inputs[0] == NULL || node->outputs[0] == NULL ||
        node->outputs[0]->type.kind != SP_TYPE_TENSOR)
        return;
    if ((node->op->flags & SP_OP_DEQUANTIZES) != 0)
        dequantize(node);
    else if ((node->op->flags & SP_OP_QUANTIZES) != 0)
        quantize(walk, node);
    else if (node->inputs[0]->quantized_as != SP_DTYPE_UNDEFINED && keeps_elements(node) &&
             !(node->is_folded && node->outputs[0]->is_graph_output))
        sp_shape_copy_stored(node->outputs[0], node->inputs[0]);
}
