/*
 * Recurrent layers.
 *
 *     LSTM    X [t, b, i]  W [d, gate*h, i]  R [d, gate*h, k]  B [d, 2*gate*h]  ->  Y [t, d, b, h]  Y_h [d, b, h]
 *
 * gate counts the gates (LSTM 4, GRU 3, RNN 1), k runs over the hidden state of the step before. t is a recurrence; h,
 * k and the gates stay whole, because every step needs the whole state of the one before; i is a reduction (sum).
 * layout = 1 (since opset 14) puts the batch axis first.
 *
 * FLOPs, 1 multiply-add = 2: 2 * t * b * d * gate * h * (i + h); the gates' elementwise functions are not counted.
 */
#include <string.h>

#include "ops/lowering/functions.h"
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

enum { IN_X, IN_W, IN_R, IN_B, IN_LENGTHS, IN_H, IN_C, IN_P };

struct layer {
    int64_t gates, directions;
    struct sp_dim hidden;
    bool batch_first;
};

/* Axis `axis` of an input has `extent` elements, as far as both are numbers. */
static enum sp_status check_extent(struct sp_op_context *context, uint32_t input, uint32_t axis, struct sp_dim extent)
{
    const struct sp_shape *shape = sp_in_shape(context, input);
    if (shape == NULL || axis >= shape->rank || !sp_dim_is_known(shape->dims[axis]) || !sp_dim_is_known(extent))
        return SP_OK;
    if (shape->dims[axis].value != extent.value)
        return sp_op_fail(context, "SHAPES_DISAGREE", "axis %u of its input %u has %lld elements instead of %lld", axis,
                          input, (long long)shape->dims[axis].value, (long long)extent.value);
    return SP_OK;
}

static enum sp_status read_layer(struct sp_op_context *context, int64_t gates, struct layer *ret_layer)
{
    const char *direction = sp_node_string(context->node, "direction", "forward");
    const struct sp_attribute *hidden = sp_node_attribute(context->node, "hidden_size");
    const struct sp_shape *recurrence = sp_in_shape(context, IN_R);
    struct layer layer = {.gates = gates, .directions = 1};
    if (strcmp(direction, "bidirectional") == 0)
        layer.directions = 2;
    else if (strcmp(direction, "forward") != 0 && strcmp(direction, "reverse") != 0)
        return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute 'direction' is '%.40s'", direction);
    layer.batch_first = context->version >= 14 && sp_node_int(context->node, "layout", 0) != 0;
    for (uint32_t input = IN_X; input <= IN_P; input++) {
        static const uint32_t ranks[] = {3, 3, 3, 2, 1, 3, 3, 2};
        enum sp_status status = sp_check_rank(context, input, ranks[input]);
        if (status != SP_OK)
            return status;
    }
    if (hidden != NULL && hidden->type == SP_ATTR_INT) {
        if (hidden->i < 1)
            return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute 'hidden_size' is %lld", (long long)hidden->i);
        layer.hidden = sp_dim_known(hidden->i);
    } else if (recurrence != NULL) {
        layer.hidden = recurrence->dims[2];
    }
    *ret_layer = layer;
    return SP_OK;
}

static enum sp_status check_layer(struct sp_op_context *context, const struct layer *layer)
{
    const struct sp_shape *x = sp_in_shape(context, IN_X);
    struct sp_dim rows = sp_dim_mul(context->dims, layer->hidden, sp_dim_known(layer->gates));
    enum sp_status status = SP_OK;
    for (uint32_t input = IN_W; status == SP_OK && input <= IN_B; input++)
        status = check_extent(context, input, 0, sp_dim_known(layer->directions));
    if (status == SP_OK)
        status = check_extent(context, IN_W, 1, rows);
    if (status == SP_OK)
        status = check_extent(context, IN_R, 1, rows);
    if (status == SP_OK)
        status = check_extent(context, IN_R, 2, layer->hidden);
    if (status == SP_OK)
        status = check_extent(context, IN_B, 1, sp_dim_mul(context->dims, rows, sp_dim_known(2)));
    if (status == SP_OK && x != NULL)
        status = check_extent(context, IN_W, 2, x->dims[2]);
    if (status == SP_OK && x != NULL)
        status = check_extent(context, IN_LENGTHS, 0, x->dims[!layer->batch_first]);
    for (uint32_t input = IN_H; status == SP_OK && input <= IN_C; input++)
        status = check_extent(context, input, 2, layer->hidden);
    return status;
}

static enum sp_status shapes_layer(struct sp_op_context *context, int64_t gates)
{
    const struct sp_shape *x = sp_in_shape(context, IN_X);
    enum sp_dtype dtype = sp_in_dtype(context, IN_X);
    struct layer layer = {0};
    enum sp_status status = read_layer(context, gates, &layer);
    if (status == SP_OK)
        status = check_layer(context, &layer);
    if (status != SP_OK)
        return status;
    struct sp_dim steps = x != NULL ? x->dims[layer.batch_first] : sp_dim_unknown();
    struct sp_dim batch = x != NULL ? x->dims[!layer.batch_first] : sp_dim_unknown();
    struct sp_dim directions = sp_dim_known(layer.directions);
    const struct sp_dim all_first[] = {batch, steps, directions, layer.hidden};
    const struct sp_dim all[] = {steps, directions, batch, layer.hidden};
    const struct sp_dim last_first[] = {batch, directions, layer.hidden};
    const struct sp_dim last[] = {directions, batch, layer.hidden};
    status = sp_set_output(context, 0, dtype, 4, layer.batch_first ? all_first : all);
    for (uint32_t output = 1; status == SP_OK && output < context->node->output_count; output++)
        status = sp_set_output(context, output, dtype, 3, layer.batch_first ? last_first : last);
    return status;
}

/* ---- the rule ------------------------------------------------------------------------------------------------- */

static enum sp_status rule_layer(struct sp_op_context *context, struct sp_rule *rule, int64_t gates)
{
    static const char steps_first[] =
        "[t, b, i] [d, gate*h, i] [d, gate*h, k] [d, wr*gate*h] [b] [d, b, h] [d, b, h] [d, p*h] -> [t, d, b, h] "
        "[d, b, h]; t sequential; i sum; gate, h, k, wr, p whole";
    static const char batch_first[] =
        "[b, t, i] [d, gate*h, i] [d, gate*h, k] [d, wr*gate*h] [b] [b, d, h] [b, d, h] [d, p*h] -> [b, t, d, h] "
        "[b, d, h]; t sequential; i sum; gate, h, k, wr, p whole";
    struct layer layer = {0};
    enum sp_status status = read_layer(context, gates, &layer);
    if (status != SP_OK)
        return status;
    const struct sp_dim open = sp_dim_unknown();
    const struct sp_text_size sizes[] = {{"t", open},
                                         {"b", open},
                                         {"d", sp_dim_known(layer.directions)},
                                         {"i", open},
                                         {"gate", sp_dim_known(gates)},
                                         {"h", layer.hidden},
                                         {"k", layer.hidden}};
    status = sp_rule_from_text(context, rule, layer.batch_first ? batch_first : steps_first,
                               sizeof sizes / sizeof sizes[0], sizes);
    sp_rule_term_named(rule, 2, "t b d gate h i");
    sp_rule_term_named(rule, 2, "t b d gate h k");
    return status;
}

#define LAYER(suffix, gates)                                                                                           \
    static enum sp_status shapes_##suffix(struct sp_op_context *context)                                               \
    {                                                                                                                  \
        return shapes_layer(context, gates);                                                                           \
    }                                                                                                                  \
    static enum sp_status rule_##suffix(struct sp_op_context *context, struct sp_rule *rule)                           \
    {                                                                                                                  \
        return rule_layer(context, rule, gates);                                                                       \
    }

LAYER(lstm, 4)
LAYER(gru, 3)
LAYER(rnn, 1)

const struct sp_op sp_ops_recurrent[] = {
    SP_ENTRY(
        "", "LSTM", 1, 0, 3, 8, 0, 3,
        "[t, b, i] [d, gate*h, i] [d, gate*h, k] -> [t, d, b, h] [d, b, h]..; t sequential, i sum, gate, h, k whole",
        "ONNX operator LSTM", .shapes = shapes_lstm, .rule = rule_lstm, .lower = sp_lower_lstm),
    SP_ENTRY(
        "", "GRU", 1, 0, 3, 6, 0, 2,
        "[t, b, i] [d, gate*h, i] [d, gate*h, k] -> [t, d, b, h] [d, b, h]..; t sequential, i sum, gate, h, k whole",
        "ONNX operator GRU", .shapes = shapes_gru, .rule = rule_gru, .lower = sp_lower_gru),
    SP_ENTRY(
        "", "RNN", 1, 0, 3, 6, 0, 2,
        "[t, b, i] [d, gate*h, i] [d, gate*h, k] -> [t, d, b, h] [d, b, h]..; t sequential, i sum, gate, h, k whole",
        "ONNX operator RNN", .shapes = shapes_rnn, .rule = rule_rnn, .lower = sp_lower_rnn),
    {.name = NULL},
};
