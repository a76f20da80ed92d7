/*
 * Normalisations, in the steps that files write them in.
 */
#include <string.h>

#include "base/limits.h"
#include "verify/operators/steps.h"

/* (x - mean) / sqrt(variance + epsilon) over the axes; without a mean where it is not taken off. */
static struct sp_numbers *normalize(struct sp_steps *steps, const struct sp_numbers *x, uint64_t mask, bool has_mean,
                                    struct sp_numbers **ret_mean, struct sp_numbers **ret_root)
{
    const bool is_skip = strncmp(steps->call->node->op_type, "Skip", 4) == 0;
    const double epsilon = sp_node_float(steps->call->node, "epsilon", is_skip ? 1e-12F : 1e-5F);
    const struct sp_numbers *distance = x;
    if (has_mean) {
        *ret_mean = sp_step_mean(steps, x, mask);
        distance = sp_step(steps, x, *ret_mean, sp_number_subtract);
    }
    struct sp_numbers *variance = sp_step_mean(steps, sp_step(steps, distance, distance, sp_number_multiply), mask);
    *ret_root = sp_step_apply(steps, sp_step(steps, variance, sp_step_number(steps, x->dtype, epsilon), sp_number_add),
                              "Sqrt", sqrt);
    return sp_step(steps, distance, *ret_root, sp_number_divide);
}

static struct sp_numbers *scaled(struct sp_steps *steps, struct sp_numbers *x, const struct sp_numbers *scale,
                                 const struct sp_numbers *bias)
{
    if (scale != NULL)
        x = sp_step(steps, x, scale, sp_number_multiply);
    return bias != NULL ? sp_step(steps, x, bias, sp_number_add) : x;
}

/* LayerNormalization, RMSNormalization and SimplifiedLayerNormalization. */
static enum sp_status evaluate_layer_norm(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    struct sp_steps steps = {call, SP_OK};
    struct sp_numbers *average = NULL, *root = NULL;
    uint32_t axis;
    if (x == NULL)
        return sp_call_refuse(call, "an operand is missing");
    enum sp_status status = sp_call_axis(call, sp_node_int(call->node, "axis", -1), x->rank, &axis);
    if (status != SP_OK)
        return status;
    const bool has_mean = call->node->op_type[0] == 'L';
    const uint64_t mask = ((UINT64_C(1) << x->rank) - 1) & ~((UINT64_C(1) << axis) - 1);
    call->out[0] = scaled(&steps, normalize(&steps, x, mask, has_mean, &average, &root), sp_call_in(call, 1),
                          has_mean ? sp_call_in(call, 2) : NULL);
    if (call->out_count > 1)
        call->out[1] =
            has_mean ? average : sp_step(&steps, sp_step_number(&steps, x->dtype, 1), root, sp_number_divide);
    if (call->out_count > 2)
        call->out[2] = sp_step(&steps, sp_step_number(&steps, x->dtype, 1), root, sp_number_divide);
    return steps.status;
}

static enum sp_status evaluate_instance_norm(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    struct sp_steps steps = {call, SP_OK};
    struct sp_numbers *average, *root;
    if (x == NULL || x->rank < 3)
        return sp_call_refuse(call, "its input has no places");
    const uint64_t mask = ((UINT64_C(1) << x->rank) - 1) & ~UINT64_C(3);
    call->out[0] = scaled(&steps, normalize(&steps, x, mask, true, &average, &root),
                          sp_step_along(&steps, sp_call_in(call, 1), x->rank, 1),
                          sp_step_along(&steps, sp_call_in(call, 2), x->rank, 1));
    return steps.status;
}

static enum sp_status evaluate_group_norm(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    struct sp_steps steps = {call, SP_OK};
    struct sp_numbers *groups = NULL, *average, *root, *back = NULL;
    int64_t extents[3], own[SP_MAX_RANK];
    const int64_t count = sp_node_int(call->node, "num_groups", 1);
    if (x == NULL || x->rank < 3 || count < 1 || call->node->domain[0] != '\0')
        return sp_evaluate_by_rule(call);
    extents[0] = x->axes[0].extent;
    extents[1] = count;
    extents[2] = extents[0] * count == 0 ? 0 : 1;
    for (uint32_t i = 0; i < x->rank; i++) {
        own[i] = x->axes[i].extent;
        extents[2] *= i > 0 ? own[i] : 1;
    }
    extents[2] /= count;
    steps.status = sp_numbers_reshape(call->arena, x, 3, extents, &groups, call->err);
    if (steps.status != SP_OK)
        return steps.status;
    groups = normalize(&steps, groups, UINT64_C(4), true, &average, &root);
    if (call->version < 21) /* a scale for each group */
        groups = scaled(&steps, groups, sp_step_along(&steps, sp_call_in(call, 1), 3, 1),
                        sp_step_along(&steps, sp_call_in(call, 2), 3, 1));
    if (steps.status == SP_OK)
        steps.status = sp_numbers_reshape(call->arena, groups, x->rank, own, &back, call->err);
    if (steps.status != SP_OK)
        return steps.status;
    if (call->version < 21) {
        call->out[0] = back;
        return SP_OK;
    }
    call->out[0] = scaled(&steps, back, sp_step_along(&steps, sp_call_in(call, 1), x->rank, 1),
                          sp_step_along(&steps, sp_call_in(call, 2), x->rank, 1));
    return steps.status;
}

/* The old average with a share of the new one. */
static struct sp_numbers *running(struct sp_steps *steps, const struct sp_numbers *old, const struct sp_numbers *now)
{
    struct sp_call *call = steps->call;
    const double momentum = sp_node_float(call->node, "momentum", 0.9);
    struct sp_numbers *kept = NULL, *share = NULL;
    if (steps->status == SP_OK && old != NULL) {
        const int64_t extent = old->axes[0].extent;
        kept = sp_step(steps, old, sp_step_number(steps, old->dtype, (float)momentum), sp_number_multiply);
        share = sp_step_reshape(steps, now, 1, &extent);
        share = sp_step(steps, share, sp_step_number(steps, old->dtype, (float)(1 - momentum)), sp_number_multiply);
    }
    return kept != NULL && share != NULL ? sp_step(steps, kept, share, sp_number_add) : NULL;
}

static enum sp_status evaluate_batch_norm(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    struct sp_steps steps = {call, SP_OK};
    const bool is_training = sp_node_int(call->node, "training_mode", 0) != 0;
    if (x == NULL || x->rank < 2 || (call->out_count > 1 && call->version < 14))
        return sp_evaluate_by_rule(call);
    const struct sp_numbers *vectors[4];
    for (uint32_t i = 0; i < 4; i++)
        vectors[i] = sp_step_along(&steps, sp_call_in(call, i + 1), x->rank, 1);
    if (steps.status != SP_OK)
        return steps.status;
    if (is_training) {
        const uint64_t mask = ((UINT64_C(1) << x->rank) - 1) & ~UINT64_C(2);
        vectors[2] = sp_step_mean(&steps, x, mask);
        const struct sp_numbers *distance = sp_step(&steps, x, vectors[2], sp_number_subtract);
        vectors[3] = sp_step_mean(&steps, sp_step(&steps, distance, distance, sp_number_multiply), mask);
        for (uint32_t i = 1; i < 3 && i < call->out_count; i++)
            call->out[i] = running(&steps, sp_call_in(call, i + 2), vectors[i + 1]);
    }
    const struct sp_numbers *epsilon = sp_step_number(&steps, x->dtype, sp_node_float(call->node, "epsilon", 1e-5F));
    const struct sp_numbers *root =
        sp_step_apply(&steps, sp_step(&steps, vectors[3], epsilon, sp_number_add), "Sqrt", sqrt);
    struct sp_numbers *distance = sp_step(&steps, x, vectors[2], sp_number_subtract);
    call->out[0] = scaled(&steps, sp_step(&steps, distance, root, sp_number_divide), vectors[0], vectors[1]);
    return steps.status;
}

/* The two SkipLayerNormalizations: what is added up is normalised, and given out, too. */
static enum sp_status evaluate_skip_norm(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0), *skip = sp_call_in(call, 1);
    const bool has_mean = strcmp(call->node->op_type, "SkipLayerNormalization") == 0;
    const struct sp_numbers *beta = has_mean ? sp_call_in(call, 3) : NULL, *bias = sp_call_in(call, has_mean ? 4 : 3);
    struct sp_steps steps = {call, SP_OK};
    struct sp_numbers *average = NULL, *root = NULL;
    if (x == NULL || skip == NULL || x->rank == 0)
        return sp_call_refuse(call, "an operand is missing");
    struct sp_numbers *sum = sp_step(&steps, x, skip, sp_number_add);
    if (bias != NULL)
        sum = sp_step(&steps, sum, bias, sp_number_add);
    if (steps.status != SP_OK)
        return steps.status;
    call->out[0] = scaled(&steps, normalize(&steps, sum, UINT64_C(1) << (x->rank - 1), has_mean, &average, &root),
                          sp_call_in(call, 2), beta);
    if (call->out_count > 1)
        call->out[1] = average;
    if (call->out_count > 2)
        call->out[2] = sp_step(&steps, sp_step_number(&steps, x->dtype, 1), root, sp_number_divide);
    if (call->out_count > 3)
        call->out[3] = sum;
    return steps.status;
}

static enum sp_status evaluate_mean_variance(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    static const int64_t usual[] = {0, 2, 3};
    struct sp_steps steps = {call, SP_OK};
    uint32_t count, axis;
    uint64_t mask = 0;
    const int64_t *axes = sp_node_ints(call->node, "axes", &count);
    if (x == NULL)
        return sp_call_refuse(call, "an operand is missing");
    for (uint32_t i = 0; i < (axes != NULL ? count : 3); i++) {
        enum sp_status status = sp_call_axis(call, axes != NULL ? axes[i] : usual[i], x->rank, &axis);
        if (status != SP_OK)
            return status;
        mask |= UINT64_C(1) << axis;
    }
    const struct sp_numbers *distance = sp_step(&steps, x, sp_step_mean(&steps, x, mask), sp_number_subtract);
    const struct sp_numbers *variance =
        sp_step_mean(&steps, sp_step(&steps, distance, distance, sp_number_multiply), mask);
    const struct sp_numbers *root = sp_step_apply(&steps, variance, "Sqrt", sqrt);
    root = sp_step(&steps, root, sp_step_number(&steps, x->dtype, 1e-9F), sp_number_add);
    call->out[0] = sp_step(&steps, distance, root, sp_number_divide);
    return steps.status;
}

/* By the sum of sizes or the root of the sum of squares; where that is 0 the quotient is 0, too. */
static enum sp_status evaluate_lp_norm(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    struct sp_steps steps = {call, SP_OK};
    const int64_t p = sp_node_int(call->node, "p", 2);
    uint32_t axis;
    if (x == NULL || (p != 1 && p != 2))
        return sp_evaluate_by_rule(call);
    enum sp_status status = sp_call_axis(call, sp_node_int(call->node, "axis", -1), x->rank, &axis);
    if (status != SP_OK)
        return status;
    const struct sp_numbers *sizes =
        p == 1 ? sp_step_apply(&steps, x, "Abs", fabs) : sp_step(&steps, x, x, sp_number_multiply);
    struct sp_numbers *norm = sp_step_fold(&steps, sizes, UINT64_C(1) << axis, sp_number_add);
    if (p == 2)
        norm = sp_step_apply(&steps, norm, "Sqrt", sqrt);
    /* Greater than 0 or not is a choice of the field's order there: the same in every form */
    for (uint64_t i = 0; steps.status == SP_OK && i < norm->count; i++) {
        norm->items[i].field =
            sp_field_is_less(0, norm->items[i].field) ? norm->items[i].field : sp_field_add(norm->items[i].field, 1);
        norm->items[i].real += norm->items[i].real > 0 ? 0 : 1;
    }
    call->out[0] = sp_step(&steps, x, norm, sp_number_divide);
    return steps.status;
}

/* Each item by (bias + alpha / size times the sum of squares of the channels around it) to the power beta. */
static enum sp_status evaluate_local_response(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    const int64_t size = sp_node_int(call->node, "size", 0), before = (size - 1) / 2, after = size - 1 - before;
    if (x == NULL || x->rank < 2 || x->axes[1].at != NULL || size < 1 || !sp_dtype_is_float(x->dtype))
        return sp_evaluate_by_rule(call);
    const struct sp_number share = sp_number_divide(sp_number_of_real(sp_node_float(call->node, "alpha", 1e-4F)),
                                                    sp_number_of_int(size)),
                           bias = sp_number_of_real(sp_node_float(call->node, "bias", 1)),
                           beta = sp_number_of_real(sp_node_float(call->node, "beta", 0.75));
    enum sp_status status = sp_numbers_create(call->arena, x->dtype, x->rank, x->axes, &call->out[0], call->err);
    const int64_t channels = x->axes[1].extent;
    int64_t step = 1;
    for (uint32_t i = 2; i < x->rank; i++)
        step *= x->axes[i].count;
    for (uint64_t i = 0; status == SP_OK && i < x->count; i++) {
        const int64_t channel = (int64_t)(i / (uint64_t)step) % channels;
        const int64_t first = channel < before ? 0 : channel - before,
                      last = channel + after < channels ? channel + after : channels - 1;
        struct sp_number sum = {0, 0};
        for (int64_t c = first; c <= last; c++) {
            const struct sp_number other = x->items[(int64_t)i + (c - channel) * step];
            sum = sp_number_add(sum, sp_number_multiply(other, other));
        }
        const struct sp_number base = sp_number_add(bias, sp_number_multiply(share, sum));
        call->out[0]->items[i] = sp_number_divide(x->items[i], sp_number_power(base, beta));
    }
    return status;
}

/* ai.onnx.ml's: a row by the sum of its sizes, or the root of that of its squares; by 1 where that is 0. */
static enum sp_status evaluate_normalizer(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    struct sp_steps steps = {call, SP_OK};
    const bool is_l1 = strcmp(sp_node_string(call->node, "norm", "MAX"), "L1") == 0;
    struct sp_numbers *own = NULL;
    if (x == NULL || x->rank == 0 || (!is_l1 && strcmp(sp_node_string(call->node, "norm", "MAX"), "L2") != 0))
        return sp_evaluate_by_rule(call);
    steps.status = sp_numbers_create(call->arena, SP_DTYPE_FLOAT, x->rank, x->axes, &own, call->err);
    for (uint64_t i = 0; steps.status == SP_OK && i < x->count; i++)
        own->items[i] = sp_dtype_is_float(x->dtype)
                            ? x->items[i]
                            : (struct sp_number){sp_field_of_int((int64_t)x->items[i].field), x->items[i].real};
    if (steps.status == SP_OK)
        own->is_known = x->is_known;
    struct sp_numbers *sum = sp_step_fold(
        &steps, is_l1 ? sp_step_apply(&steps, own, "Abs", fabs) : sp_step(&steps, own, own, sp_number_multiply),
        UINT64_C(1) << (x->rank - 1), sp_number_add);
    if (!is_l1)
        sum = sp_step_apply(&steps, sum, "Sqrt", sqrt);
    for (uint64_t i = 0; steps.status == SP_OK && i < sum->count; i++) {
        sum->items[i].field += sum->items[i].field == 0;
        sum->items[i].real += sum->items[i].real == 0;
    }
    call->out[0] = sp_step(&steps, own, sum, sp_number_divide);
    return steps.status;
}

const struct sp_evaluator_entry sp_evaluators_norms[] = {
    {"LayerNormalization", evaluate_layer_norm},
    {"RMSNormalization", evaluate_layer_norm},
    {"SimplifiedLayerNormalization", evaluate_layer_norm},
    {"InstanceNormalization", evaluate_instance_norm},
    {"GroupNormalization", evaluate_group_norm},
    {"BatchNormalization", evaluate_batch_norm},
    {"SkipLayerNormalization", evaluate_skip_norm},
    {"SkipSimplifiedLayerNormalization", evaluate_skip_norm},
    {"MeanVarianceNormalization", evaluate_mean_variance},
    {"LpNormalization", evaluate_lp_norm},
    {"LRN", evaluate_local_response},
    {"Normalizer", evaluate_normalizer},
    {NULL, NULL},
};
