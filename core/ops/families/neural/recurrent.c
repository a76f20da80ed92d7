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
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "ops/lowering/functions.h"
#include "ops/table/factors.h"
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

enum { IN_X, IN_W, IN_R, IN_B, IN_LENGTHS, IN_H, IN_C, IN_P };

struct layer {
    int64_t gates, directions;
    struct sp_dim hidden;
    bool batch_first;
};

static enum sp_status check_rank(struct sp_op_context *context, uint32_t input, uint32_t rank)
{
    const struct sp_shape *shape = sp_in_shape(context, input);
    if (shape != NULL && shape->rank != rank)
        return sp_op_fail(context, "OPERAND_SHAPE", "its input %u has rank %u instead of %u", input, shape->rank, rank);
    return SP_OK;
}

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
        enum sp_status status = check_rank(context, input, ranks[input]);
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

struct layer_factors {
    uint8_t t, b, d, i, gate, h, k;
};

/* Maps an axis of an input that is there to up to two factors, major first. */
static void map2(struct sp_op_context *context, struct sp_rule *rule, uint32_t input, uint32_t axis, bool has_major,
                 uint8_t major, uint8_t minor)
{
    if (!sp_has_input(context, input))
        return;
    if (has_major)
        sp_rule_map_input(rule, input, axis, major);
    sp_rule_map_input(rule, input, axis, minor);
}

static void map_inputs(struct sp_op_context *context, struct sp_rule *rule, const struct layer *layer,
                       const struct layer_factors *f)
{
    bool has_gates = layer->gates > 1;
    map2(context, rule, IN_X, layer->batch_first, false, 0, f->t);
    map2(context, rule, IN_X, !layer->batch_first, false, 0, f->b);
    map2(context, rule, IN_X, 2, false, 0, f->i);
    map2(context, rule, IN_W, 0, false, 0, f->d);
    map2(context, rule, IN_W, 1, has_gates, f->gate, f->h);
    map2(context, rule, IN_W, 2, false, 0, f->i);
    map2(context, rule, IN_R, 0, false, 0, f->d);
    map2(context, rule, IN_R, 1, has_gates, f->gate, f->h);
    map2(context, rule, IN_R, 2, false, 0, f->k);
    if (sp_has_input(context, IN_B)) {
        uint8_t both = sp_rule_factor(rule, "wr", SP_FACTOR_REPLICATE, sp_dim_known(2)); /* bias of W, bias of R */
        sp_rule_map_input(rule, IN_B, 0, f->d);
        sp_rule_map_input(rule, IN_B, 1, both);
        map2(context, rule, IN_B, 1, has_gates, f->gate, f->h);
    }
    map2(context, rule, IN_LENGTHS, 0, false, 0, f->b);
    for (uint32_t input = IN_H; input <= IN_C; input++) {
        map2(context, rule, input, layer->batch_first, false, 0, f->d);
        map2(context, rule, input, !layer->batch_first, false, 0, f->b);
        map2(context, rule, input, 2, false, 0, f->h);
    }
    if (sp_has_input(context, IN_P)) {
        uint8_t peepholes = sp_rule_factor(rule, "p", SP_FACTOR_REPLICATE, sp_dim_known(3));
        sp_rule_map_input(rule, IN_P, 0, f->d);
        map2(context, rule, IN_P, 1, true, peepholes, f->h);
    }
}

static void map_outputs(struct sp_op_context *context, struct sp_rule *rule, const struct layer *layer,
                        const struct layer_factors *f)
{
    const uint8_t all_first[] = {f->b, f->t, f->d, f->h}, all[] = {f->t, f->d, f->b, f->h};
    const uint8_t last_first[] = {f->b, f->d, f->h}, last[] = {f->d, f->b, f->h};
    for (uint32_t output = 0; output < rule->output_count; output++) {
        if (context->node->outputs[output] == NULL)
            continue;
        const uint8_t *factors = layer->batch_first ? last_first : last;
        if (output == 0)
            factors = layer->batch_first ? all_first : all;
        for (uint32_t axis = 0; axis < (output == 0 ? 4u : 3u); axis++)
            sp_rule_map_output(rule, output, axis, factors[axis]);
    }
}

static enum sp_status rule_layer(struct sp_op_context *context, struct sp_rule *rule, int64_t gates)
{
    const struct sp_shape *x = sp_in_shape(context, IN_X);
    struct layer layer = {0};
    enum sp_status status = read_layer(context, gates, &layer);
    if (status != SP_OK)
        return status;
    struct layer_factors f;
    f.t = sp_rule_factor(rule, "t", SP_FACTOR_SEQUENTIAL, x->dims[layer.batch_first]);
    f.b = sp_rule_factor(rule, "b", SP_FACTOR_PARALLEL, x->dims[!layer.batch_first]);
    f.d = sp_rule_factor(rule, "d", SP_FACTOR_PARALLEL, sp_dim_known(layer.directions));
    f.i = sp_factor_reduction(rule, "i", x->dims[2], SP_COMBINE_SUM);
    f.gate = sp_rule_factor(rule, "gate", SP_FACTOR_REPLICATE, sp_dim_known(layer.gates));
    f.h = sp_rule_factor(rule, "h", SP_FACTOR_REPLICATE, layer.hidden);
    f.k = sp_rule_factor(rule, "k", SP_FACTOR_REPLICATE, layer.hidden);
    map_inputs(context, rule, &layer, &f);
    map_outputs(context, rule, &layer, &f);
    const uint8_t input_work[] = {f.t, f.b, f.d, f.gate, f.h, f.i}, state_work[] = {f.t, f.b, f.d, f.gate, f.h, f.k};
    sp_rule_term(rule, 2, 6, input_work);
    sp_rule_term(rule, 2, 6, state_work);
    return SP_OK;
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
