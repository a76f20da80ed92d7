/*
 * Losses on shards (rules in loss.c).
 *
 * Where the classes are whole, the operator adds up what a device has. A mean is the sum of all losses by the sum of
 * all weights, so both are combined before the quotient is taken; where every target counts alike it is the sum of each
 * device's mean times its share of the targets.
 *
 * Where the classes are split, a device picks the scores of the targets that are classes of its own, and zero for the
 * others: a sum over the classes' devices. The cross entropy takes the softmax first, by the maximum and the sum of
 * all.
 */
#include <string.h>

#include "ops/lowering/functions.h"
#include "ops/lowering/parts.h"
#include "ops/lowering/places.h"
#include "ops/lowering/statistics.h"

enum { IN_SCORES, IN_TARGET, IN_WEIGHT };

struct loss {
    bool is_mean, is_reduced, has_weight;
    const struct sp_attribute *ignored; /* NULL: all targets count */
    uint8_t classes;                    /* factor */
    enum sp_dtype dtype, wide;
    uint32_t factor_count; /* split ones that the loss does not have */
    const uint8_t *factors;
};

static struct loss read_loss(struct sp_lowering *lower)
{
    const char *reduction = sp_node_string(lower->node, "reduction", "mean");
    struct loss loss = {.is_mean = strcmp(reduction, "mean") == 0, .is_reduced = strcmp(reduction, "none") != 0};
    loss.has_weight = lower->input_count > IN_WEIGHT && lower->inputs[IN_WEIGHT].value != NULL;
    loss.ignored = sp_node_attribute(lower->node, "ignore_index");
    loss.classes = sp_lower_input_factor(lower, IN_SCORES, 1);
    loss.dtype = lower->inputs[IN_SCORES].value->type.dtype;
    loss.wide = sp_lower_wide(loss.dtype);
    loss.factors = sp_lower_partial_factors(lower, 0, &loss.factor_count);
    return loss;
}

/* Which of the targets count; NULL where all do. */
static struct sp_piece *counted(struct sp_lowering *lower, const struct loss *loss, struct sp_piece *target)
{
    if (loss->ignored == NULL)
        return NULL;
    struct sp_piece *index = sp_lower_int(lower, SP_DTYPE_INT64, loss->ignored->i);
    return sp_lower_unary(lower, "Not", sp_lower_compare(lower, "Equal", target, index));
}

/* The whole of a sum over all targets, and over what else is split. */
static struct sp_piece *total(struct sp_lowering *lower, const struct loss *loss, struct sp_piece *x)
{
    const uint64_t axes = (UINT64_C(1) << lower->inputs[IN_TARGET].rank) - 1;
    struct sp_piece *sum = sp_lower_reduce(lower, "ReduceSum", x, axes, false);
    return sp_lower_all_reduce(lower, sum, SP_COMBINE_SUM, loss->factor_count, loss->factors);
}

/* The quotient of two sums over all. */
static void give_mean(struct sp_lowering *lower, const struct loss *loss, struct sp_piece *sum,
                      struct sp_piece *weights)
{
    struct sp_piece *mean = sp_lower_binary(lower, "Div", sum, weights);
    sp_lower_output(lower, 0, sp_lower_cast(lower, mean, loss->dtype));
}

/* The weight of each target's class, 0 where it does not count. `places` are indices into the weights of this device,
   `is_here` says where they are any (NULL: everywhere). */
static struct sp_piece *weights_of(struct sp_lowering *lower, const struct loss *loss, struct sp_piece *places,
                                   struct sp_piece *is_here)
{
    struct sp_piece *one = sp_lower_scalar(lower, loss->wide, 1), *zero = sp_lower_scalar(lower, loss->wide, 0);
    struct sp_piece *weight = one;
    if (loss->has_weight)
        weight = sp_lower_gather(lower, sp_lower_cast(lower, sp_lower_input(lower, IN_WEIGHT), loss->wide), places, 0);
    return is_here == NULL ? weight : sp_lower_where(lower, is_here, weight, zero);
}

/* ---- whole classes ---------------------------------------------------------------------------------------------- */

/* The operator with another way of reducing; its loss, and its other output is given. */
static struct sp_piece *run(struct sp_lowering *lower, const char *reduction)
{
    const struct sp_lower_attribute attribute = {.name = "reduction", .type = SP_ATTR_STRING, .s = reduction};
    struct sp_piece *outputs[2] = {NULL, NULL};
    sp_lower_same_many(lower, 0, NULL, 1, &attribute, outputs);
    if (outputs[1] != NULL)
        sp_lower_output(lower, 1, outputs[1]);
    return outputs[0];
}

static enum sp_status mean_of_targets(struct sp_lowering *lower, const struct loss *loss)
{
    if (!loss->has_weight && loss->ignored == NULL) {
        double share = 1;
        for (uint32_t i = 0; i < loss->factor_count; i++)
            share *= (double)lower->factors[loss->factors[i]].size / (double)lower->factors[loss->factors[i]].extent;
        struct sp_piece *mean = sp_lower_cast(lower, run(lower, "mean"), loss->wide);
        mean = sp_lower_binary(lower, "Mul", mean, sp_lower_scalar(lower, loss->wide, share));
        mean = sp_lower_cast(lower, mean, loss->dtype);
        sp_lower_output_partial(lower, 0, mean, SP_COMBINE_SUM, loss->factor_count, loss->factors);
        return sp_lower_status(lower);
    }
    struct sp_piece *sum = sp_lower_cast(lower, run(lower, "sum"), loss->wide);
    sum = sp_lower_all_reduce(lower, sum, SP_COMBINE_SUM, loss->factor_count, loss->factors);
    struct sp_piece *target = sp_lower_cast(lower, sp_lower_input(lower, IN_TARGET), SP_DTYPE_INT64);
    struct sp_piece *is_counted = counted(lower, loss, target), *places = target;
    if (is_counted != NULL)
        places = sp_lower_where(lower, is_counted, target, sp_lower_int(lower, SP_DTYPE_INT64, 0));
    struct sp_piece *weights = weights_of(lower, loss, places, is_counted);
    give_mean(lower, loss, sum, total(lower, loss, weights));
    return sp_lower_status(lower);
}

/* ---- split classes ---------------------------------------------------------------------------------------------- */

/* The loss from the logarithms of all probabilities of this device's classes. */
static enum sp_status pick(struct sp_lowering *lower, const struct loss *loss, struct sp_piece *scores)
{
    struct sp_piece *target = sp_lower_cast(lower, sp_lower_input(lower, IN_TARGET), SP_DTYPE_INT64), *is_here = NULL;
    struct sp_piece *is_counted = counted(lower, loss, target), *zero = sp_lower_int(lower, SP_DTYPE_INT64, 0);
    struct sp_piece *places = sp_lower_locate(lower, loss->classes, target, &is_here);
    if (is_counted != NULL)
        is_here = sp_lower_binary(lower, "And", is_here, is_counted);
    places = sp_lower_where(lower, is_here, places, zero);
    struct sp_piece *const inputs[] = {scores, sp_lower_unsqueeze(lower, places, 1)};
    const struct sp_lower_attribute axis = SP_INT_ATTR("axis", 1);
    struct sp_piece *picked = sp_lower_op(lower, "GatherElements", loss->wide, 2, inputs, 1, &axis);
    if (picked != NULL && inputs[1] != NULL && inputs[1]->dims != NULL)
        sp_piece_set_dims(lower, picked, inputs[1]->rank, inputs[1]->dims);
    picked = sp_lower_squeeze(lower, picked, 1);
    struct sp_piece *weights = weights_of(lower, loss, places, is_here);
    /* A score of another class may be infinite: it is not multiplied by 0. */
    picked = sp_lower_where(lower, is_here, picked, sp_lower_scalar(lower, loss->wide, 0));
    struct sp_piece *losses = sp_lower_unary(lower, "Neg", sp_lower_binary(lower, "Mul", picked, weights));
    if (!loss->is_reduced) {
        losses = sp_lower_cast(lower, losses, loss->dtype);
        sp_lower_output_partial(lower, 0, losses, SP_COMBINE_SUM, loss->factor_count, loss->factors);
        return sp_lower_status(lower);
    }
    struct sp_piece *sum = total(lower, loss, losses);
    if (loss->is_mean)
        give_mean(lower, loss, sum, total(lower, loss, weights));
    else
        sp_lower_output(lower, 0, sp_lower_cast(lower, sum, loss->dtype));
    return sp_lower_status(lower);
}

/* x - maximum - log(sum of exponentials), over all classes. */
static struct sp_piece *log_softmax(struct sp_lowering *lower, const struct loss *loss, struct sp_piece *x)
{
    const struct sp_lower_span span = {.axes = 2, .factor_count = 1, .factors = &loss->classes};
    struct sp_piece *most = sp_lower_reduce_all(lower, "ReduceMax", SP_COMBINE_MAX, x, &span, true);
    struct sp_piece *rest = sp_lower_binary(lower, "Sub", x, most);
    struct sp_piece *powers = sp_lower_unary(lower, "Exp", rest);
    struct sp_piece *sum = sp_lower_reduce_all(lower, "ReduceSum", SP_COMBINE_SUM, powers, &span, true);
    return sp_lower_binary(lower, "Sub", rest, sp_lower_unary(lower, "Log", sum));
}

static enum sp_status run_loss(struct sp_lowering *lower, bool has_softmax)
{
    struct loss loss = read_loss(lower);
    if (!sp_lower_is_split(lower, loss.classes)) {
        if (loss.is_mean && loss.factor_count > 0)
            return mean_of_targets(lower, &loss);
        struct sp_piece *own = run(lower, sp_node_string(lower->node, "reduction", "mean"));
        sp_lower_output_partial(lower, 0, own, SP_COMBINE_SUM, loss.factor_count, loss.factors);
        return sp_lower_status(lower);
    }
    struct sp_piece *scores = sp_lower_cast(lower, sp_lower_input(lower, IN_SCORES), loss.wide);
    if (has_softmax)
        scores = log_softmax(lower, &loss, scores);
    if (lower->output_count > 1 && lower->outputs[1].value != NULL)
        sp_lower_output(lower, 1, sp_lower_cast(lower, scores, loss.dtype));
    return pick(lower, &loss, scores);
}

enum sp_status sp_lower_negative_log_likelihood(struct sp_lowering *lower)
{
    return run_loss(lower, false);
}

enum sp_status sp_lower_softmax_cross_entropy(struct sp_lowering *lower)
{
    return run_loss(lower, true);
}
