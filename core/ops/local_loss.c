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

#include "ops/infer.h"
#include "ops/local_functions.h"
#include "ops/local_parts.h"
#include "ops/local_places.h"
#include "ops/local_statistics.h"

enum { IN_SCORES, IN_TARGET, IN_WEIGHT };

struct loss {
    bool is_mean, is_reduced, has_weight;
    const struct sp_attribute *ignored; /* NULL: all targets count */
    uint8_t classes;                    /* factor */
    enum sp_dtype dtype, wide;
    uint32_t factor_count; /* split ones that the loss does not have */
    const uint8_t *factors;
};

static struct loss read_loss(struct sp_local *local)
{
    const char *reduction = sp_node_string(local->node, "reduction", "mean");
    struct loss loss = {.is_mean = strcmp(reduction, "mean") == 0, .is_reduced = strcmp(reduction, "none") != 0};
    loss.has_weight = local->input_count > IN_WEIGHT && local->inputs[IN_WEIGHT].value != NULL;
    loss.ignored = sp_node_attribute(local->node, "ignore_index");
    loss.classes = sp_local_input_factor(local, IN_SCORES, 1);
    loss.dtype = local->inputs[IN_SCORES].value->type.dtype;
    loss.wide = sp_local_wide(loss.dtype);
    loss.factors = sp_local_partial_factors(local, 0, &loss.factor_count);
    return loss;
}

/* Which of the targets count; NULL where all do. */
static struct sp_piece *counted(struct sp_local *local, const struct loss *loss, struct sp_piece *target)
{
    if (loss->ignored == NULL)
        return NULL;
    struct sp_piece *index = sp_local_int(local, SP_DTYPE_INT64, loss->ignored->i);
    return sp_local_unary(local, "Not", sp_local_compare(local, "Equal", target, index));
}

/* The whole of a sum over all targets, and over what else is split. */
static struct sp_piece *total(struct sp_local *local, const struct loss *loss, struct sp_piece *x)
{
    const uint64_t axes = (UINT64_C(1) << local->inputs[IN_TARGET].rank) - 1;
    struct sp_piece *sum = sp_local_reduce(local, "ReduceSum", x, axes, false);
    return sp_local_all_reduce(local, sum, SP_COMBINE_SUM, loss->factor_count, loss->factors);
}

/* The quotient of two sums over all. */
static void give_mean(struct sp_local *local, const struct loss *loss, struct sp_piece *sum, struct sp_piece *weights)
{
    struct sp_piece *mean = sp_local_binary(local, "Div", sum, weights);
    sp_local_output(local, 0, sp_local_cast(local, mean, loss->dtype));
}

/* The weight of each target's class, 0 where it does not count. `places` are indices into the weights of this device,
   `is_here` says where they are any (NULL: everywhere). */
static struct sp_piece *weights_of(struct sp_local *local, const struct loss *loss, struct sp_piece *places,
                                   struct sp_piece *is_here)
{
    struct sp_piece *one = sp_local_scalar(local, loss->wide, 1), *zero = sp_local_scalar(local, loss->wide, 0);
    struct sp_piece *weight = one;
    if (loss->has_weight)
        weight = sp_local_gather(local, sp_local_cast(local, sp_local_input(local, IN_WEIGHT), loss->wide), places, 0);
    return is_here == NULL ? weight : sp_local_where(local, is_here, weight, zero);
}

/* ---- whole classes ---------------------------------------------------------------------------------------------- */

/* The operator with another way of reducing; its loss, and its other output is given. */
static struct sp_piece *run(struct sp_local *local, const char *reduction)
{
    const struct sp_local_attribute attribute = {.name = "reduction", .type = SP_ATTR_STRING, .s = reduction};
    struct sp_piece *outputs[2] = {NULL, NULL};
    sp_local_same_many(local, 0, NULL, 1, &attribute, outputs);
    if (outputs[1] != NULL)
        sp_local_output(local, 1, outputs[1]);
    return outputs[0];
}

static enum sp_status mean_of_targets(struct sp_local *local, const struct loss *loss)
{
    if (!loss->has_weight && loss->ignored == NULL) {
        double share = 1;
        for (uint32_t i = 0; i < loss->factor_count; i++)
            share *= (double)local->factors[loss->factors[i]].size / (double)local->factors[loss->factors[i]].extent;
        struct sp_piece *mean = sp_local_cast(local, run(local, "mean"), loss->wide);
        mean = sp_local_binary(local, "Mul", mean, sp_local_scalar(local, loss->wide, share));
        mean = sp_local_cast(local, mean, loss->dtype);
        sp_local_output_partial(local, 0, mean, SP_COMBINE_SUM, loss->factor_count, loss->factors);
        return sp_local_status(local);
    }
    struct sp_piece *sum = sp_local_cast(local, run(local, "sum"), loss->wide);
    sum = sp_local_all_reduce(local, sum, SP_COMBINE_SUM, loss->factor_count, loss->factors);
    struct sp_piece *target = sp_local_cast(local, sp_local_input(local, IN_TARGET), SP_DTYPE_INT64);
    struct sp_piece *is_counted = counted(local, loss, target), *places = target;
    if (is_counted != NULL)
        places = sp_local_where(local, is_counted, target, sp_local_int(local, SP_DTYPE_INT64, 0));
    struct sp_piece *weights = weights_of(local, loss, places, is_counted);
    give_mean(local, loss, sum, total(local, loss, weights));
    return sp_local_status(local);
}

/* ---- split classes ---------------------------------------------------------------------------------------------- */

/* The loss from the logarithms of all probabilities of this device's classes. */
static enum sp_status pick(struct sp_local *local, const struct loss *loss, struct sp_piece *scores)
{
    struct sp_piece *target = sp_local_cast(local, sp_local_input(local, IN_TARGET), SP_DTYPE_INT64), *is_here = NULL;
    struct sp_piece *is_counted = counted(local, loss, target), *zero = sp_local_int(local, SP_DTYPE_INT64, 0);
    struct sp_piece *places = sp_local_locate(local, loss->classes, target, &is_here);
    if (is_counted != NULL)
        is_here = sp_local_binary(local, "And", is_here, is_counted);
    places = sp_local_where(local, is_here, places, zero);
    struct sp_piece *const inputs[] = {scores, sp_local_unsqueeze(local, places, 1)};
    const struct sp_local_attribute axis = SP_INT_ATTR("axis", 1);
    struct sp_piece *picked = sp_local_op(local, "GatherElements", loss->wide, 2, inputs, 1, &axis);
    if (picked != NULL && inputs[1] != NULL && inputs[1]->dims != NULL)
        sp_piece_set_dims(local, picked, inputs[1]->rank, inputs[1]->dims);
    picked = sp_local_squeeze(local, picked, 1);
    struct sp_piece *weights = weights_of(local, loss, places, is_here);
    /* A score of another class may be infinite: it is not multiplied by 0. */
    picked = sp_local_where(local, is_here, picked, sp_local_scalar(local, loss->wide, 0));
    struct sp_piece *losses = sp_local_unary(local, "Neg", sp_local_binary(local, "Mul", picked, weights));
    if (!loss->is_reduced) {
        losses = sp_local_cast(local, losses, loss->dtype);
        sp_local_output_partial(local, 0, losses, SP_COMBINE_SUM, loss->factor_count, loss->factors);
        return sp_local_status(local);
    }
    struct sp_piece *sum = total(local, loss, losses);
    if (loss->is_mean)
        give_mean(local, loss, sum, total(local, loss, weights));
    else
        sp_local_output(local, 0, sp_local_cast(local, sum, loss->dtype));
    return sp_local_status(local);
}

/* x - maximum - log(sum of exponentials), over all classes. */
static struct sp_piece *log_softmax(struct sp_local *local, const struct loss *loss, struct sp_piece *x)
{
    const struct sp_local_span span = {.axes = 2, .factor_count = 1, .factors = &loss->classes};
    struct sp_piece *most = sp_local_reduce_all(local, "ReduceMax", SP_COMBINE_MAX, x, &span, true);
    struct sp_piece *rest = sp_local_binary(local, "Sub", x, most);
    struct sp_piece *powers = sp_local_unary(local, "Exp", rest);
    struct sp_piece *sum = sp_local_reduce_all(local, "ReduceSum", SP_COMBINE_SUM, powers, &span, true);
    return sp_local_binary(local, "Sub", rest, sp_local_unary(local, "Log", sum));
}

static enum sp_status run_loss(struct sp_local *local, bool has_softmax)
{
    struct loss loss = read_loss(local);
    if (!sp_local_is_split(local, loss.classes)) {
        if (loss.is_mean && loss.factor_count > 0)
            return mean_of_targets(local, &loss);
        struct sp_piece *own = run(local, sp_node_string(local->node, "reduction", "mean"));
        sp_local_output_partial(local, 0, own, SP_COMBINE_SUM, loss.factor_count, loss.factors);
        return sp_local_status(local);
    }
    struct sp_piece *scores = sp_local_cast(local, sp_local_input(local, IN_SCORES), loss.wide);
    if (has_softmax)
        scores = log_softmax(local, &loss, scores);
    if (local->output_count > 1 && local->outputs[1].value != NULL)
        sp_local_output(local, 1, sp_local_cast(local, scores, loss.dtype));
    return pick(local, &loss, scores);
}

enum sp_status sp_local_negative_log_likelihood(struct sp_local *local)
{
    return run_loss(local, false);
}

enum sp_status sp_local_softmax_cross_entropy(struct sp_local *local)
{
    return run_loss(local, true);
}
