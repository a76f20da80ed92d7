/*
 * Losses.
 *
 *     NegativeLogLikelihoodLoss  [n, c, d..] [n, d..] [c] -> [n, d..] or []                c sum; n, d.. sum
 *     SoftmaxCrossEntropyLoss    [n, c, d..] [n, d..] [c] -> [n, d..] or [], [n, c, d..]   c softmax; n, d.. sum
 *
 * With `reduction` none every place n, d.. is parallel. With sum and mean they are reductions; mean needs two sums, of
 * the losses and of their weights (which are 0 where the target is ignored), and divides behind the reduction.
 *
 * A target is a position along c. A device that has a part of the classes picks where the target is one of its own and
 * has zero elsewhere, so c is a sum; in the cross entropy the scores are normalised over c too, and the combination of
 * maxima and rescaled sums carries the picked score along.
 *
 * FLOPs: 1 for each target, 1 more where targets are summed up, and 5 for each score of the cross entropy as in
 * Softmax.
 */
#include <string.h>

#include "base/limits.h"
#include "ops/lowering/functions.h"
#include "ops/table/factors.h"
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

static enum sp_status read_reduction(struct sp_op_context *context, bool *ret_reduces)
{
    const char *reduction = sp_node_string(context->node, "reduction", "mean");
    *ret_reduces = strcmp(reduction, "none") != 0;
    if (*ret_reduces && strcmp(reduction, "sum") != 0 && strcmp(reduction, "mean") != 0)
        return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute 'reduction' is '%.40s' instead of none, sum or mean",
                          reduction);
    return SP_OK;
}

/* The shape of the targets from both inputs: that of the scores without the axis of the classes. */
static enum sp_status join_places(struct sp_op_context *context, struct sp_dim *places, uint32_t *ret_rank)
{
    const struct sp_shape *scores = sp_in_shape(context, 0), *target = sp_in_shape(context, 1);
    const struct sp_shape *weight = sp_in_shape(context, 2);
    if (scores == NULL && target == NULL)
        return SP_OK;
    if (scores != NULL && scores->rank < 2)
        return sp_op_fail(context, "OPERAND_SHAPE", "its scores have rank %u; they need a batch and a class axis",
                          scores->rank);
    if (scores != NULL && target != NULL && scores->rank != target->rank + 1)
        return sp_op_fail(context, "SHAPES_DISAGREE",
                          "its targets have %u axes and its scores %u; there must be one "
                          "more, that of the classes",
                          target->rank, scores->rank);
    if (weight != NULL && weight->rank != 1)
        return sp_op_fail(context, "OPERAND_SHAPE", "its weights have rank %u instead of 1", weight->rank);
    if (weight != NULL && scores != NULL && sp_dim_differs(context->dims, weight->dims[0], scores->dims[1]))
        return sp_op_fail(context, "SHAPES_DISAGREE", "it does not have one weight for each class");
    *ret_rank = target != NULL ? target->rank : scores->rank - 1;
    for (uint32_t place = 0; place < *ret_rank; place++) {
        uint32_t axis = place == 0 ? 0 : place + 1;
        struct sp_dim own = scores != NULL ? scores->dims[axis] : sp_dim_unknown();
        enum sp_status status =
            sp_join_dims(context, own, target != NULL ? target->dims[place] : sp_dim_unknown(), &places[place]);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

static enum sp_status shapes_loss(struct sp_op_context *context)
{
    enum sp_dtype dtype = sp_in_dtype(context, 0);
    struct sp_dim places[SP_MAX_RANK];
    uint32_t rank = 0;
    bool reduces = false, is_known = sp_in_shape(context, 0) != NULL || sp_in_shape(context, 1) != NULL;
    enum sp_status status = read_reduction(context, &reduces);
    if (status == SP_OK && is_known)
        status = join_places(context, places, &rank);
    if (status != SP_OK)
        return status;
    if (reduces)
        return sp_set_output(context, 0, dtype, 0, NULL);
    return is_known ? sp_set_output(context, 0, dtype, rank, places) : sp_set_output_unranked(context, 0, dtype);
}

static enum sp_status shapes_cross_entropy(struct sp_op_context *context)
{
    enum sp_status status = shapes_loss(context);
    return status != SP_OK ? status : sp_set_output_shape(context, 1, sp_in_dtype(context, 0), sp_in_shape(context, 0));
}

/* The factors of all operands and the work of picking; `places` are those of the targets, `all` those of the scores. */
static enum sp_status map_loss(struct sp_op_context *context, struct sp_rule *rule, enum sp_combiner combiner,
                               struct sp_factor_list *all)
{
    const struct sp_shape *scores = sp_in_shape(context, 0), *weight = sp_in_shape(context, 2);
    bool reduces = false;
    enum sp_status status = read_reduction(context, &reduces);
    struct sp_factor_list places = {0};
    for (uint32_t axis = 0; status == SP_OK && axis < scores->rank; axis++) {
        bool is_class = axis == 1;
        uint32_t place = axis == 0 ? 0 : axis - 1;
        uint8_t factor = sp_rule_input_axis(context, rule, is_class ? 'c' : 'd', 0, axis,
                                            is_class || reduces ? SP_FACTOR_REDUCTION : SP_FACTOR_PARALLEL);
        rule->factors[factor].combiner = is_class ? combiner : reduces ? SP_COMBINE_SUM : SP_COMBINE_NONE;
        if (!is_class && !sp_dim_is_known(scores->dims[axis]))
            rule->factors[factor].extent = sp_in_shape(context, 1)->dims[place];
        sp_factor_list_add(all, factor);
        if (rule->output_count > 1 && axis < rule->outputs[1].rank)
            sp_rule_map_output(rule, 1, axis, factor);
        if (is_class) {
            sp_rule_positions_input(rule, 1, factor);
            if (weight != NULL)
                sp_rule_map_input(rule, 2, 0, factor);
            continue;
        }
        sp_factor_list_add(&places, factor);
        sp_rule_map_input(rule, 1, place, factor);
        if (!reduces)
            sp_rule_map_output(rule, 0, place, factor);
    }
    sp_rule_term_list(rule, reduces ? 2 : 1, &places);
    return status;
}

/* Of the scores only those that are picked are read. */
static enum sp_status rule_likelihood(struct sp_op_context *context, struct sp_rule *rule)
{
    struct sp_factor_list all = {0};
    enum sp_status status = map_loss(context, rule, SP_COMBINE_SUM, &all);
    int64_t picked = sp_dtype_bytes(sp_in_dtype(context, 0), sp_shape_elements(sp_in_shape(context, 1)));
    if (picked >= 0)
        rule->bytes =
            (double)picked + sp_input_bytes(context, 1) + sp_input_bytes(context, 2) + sp_output_bytes(context, 0);
    return status;
}

static enum sp_status rule_cross_entropy(struct sp_op_context *context, struct sp_rule *rule)
{
    struct sp_factor_list all = {0};
    enum sp_status status = map_loss(context, rule, SP_COMBINE_SOFTMAX, &all);
    sp_rule_term_list(rule, 5, &all);
    return status;
}

const struct sp_op sp_ops_loss[] = {
    SP_ENTRY("", "NegativeLogLikelihoodLoss", 12, 0, 2, 3, 1, 1,
             "[n, c, d..] [n, d..] [c] -> [n, d..] or []; c sum, n and d.. sum with reduction",
             "ONNX operator NegativeLogLikelihoodLoss (12, 13, 22)", .shapes = shapes_loss, .rule = rule_likelihood,
             .lower = sp_lower_negative_log_likelihood),
    SP_ENTRY("", "SoftmaxCrossEntropyLoss", 12, 0, 2, 3, 1, 2,
             "[n, c, d..] [n, d..] [c] -> [n, d..] or [], [n, c, d..]; c softmax, n and d.. sum with reduction",
             "ONNX operator SoftmaxCrossEntropyLoss (12, 13)", .shapes = shapes_cross_entropy,
             .rule = rule_cross_entropy, .lower = sp_lower_softmax_cross_entropy),
    {.name = NULL},
};
