/*
 * Reductions, and what is made of them: Softmax and normalisations, in the steps that files write them in.
 */
#include <string.h>

#include "base/limits.h"
#include "verify/evaluate.h"

/* A chain of steps, each of which is skipped after an error; its result, and so a later one's operand, is NULL then. */
struct steps {
    struct sp_call *call;
    enum sp_status status;
};

static struct sp_numbers *combine(struct steps *steps, const struct sp_numbers *a, const struct sp_numbers *b,
                                  sp_number2 function)
{
    struct sp_numbers *out = NULL;
    if (steps->status == SP_OK)
        steps->status = sp_numbers_binary(steps->call->arena, a, b, a->dtype, function, &out, steps->call->err);
    return out;
}

static struct sp_numbers *number(struct steps *steps, enum sp_dtype dtype, double value)
{
    struct sp_numbers *out = NULL;
    if (steps->status == SP_OK)
        steps->status = sp_numbers_create(steps->call->arena, dtype, 0, NULL, &out, steps->call->err);
    if (steps->status != SP_OK)
        return NULL;
    out->items[0] = sp_number_of_real(value);
    out->is_known = true;
    return out;
}

static struct sp_numbers *fold(struct steps *steps, const struct sp_numbers *x, uint64_t mask, sp_number2 function)
{
    struct sp_numbers *out = NULL;
    if (steps->status == SP_OK)
        steps->status = sp_numbers_fold(steps->call->arena, x, mask, function, &out, steps->call->err);
    return out;
}

static struct sp_numbers *mean(struct steps *steps, const struct sp_numbers *x, uint64_t mask)
{
    double count = 1;
    struct sp_numbers *sum = fold(steps, x, mask, sp_number_add);
    for (uint32_t i = 0; steps->status == SP_OK && i < x->rank; i++)
        count *= (mask >> i & 1) != 0 ? (double)x->axes[i].extent : 1;
    return steps->status == SP_OK ? combine(steps, sum, number(steps, x->dtype, count), sp_number_divide) : NULL;
}

static struct sp_numbers *apply(struct steps *steps, const struct sp_numbers *x, const char *name,
                                double (*real)(double))
{
    struct sp_numbers *out = NULL;
    if (steps->status == SP_OK)
        steps->status = sp_numbers_create(steps->call->arena, x->dtype, x->rank, x->axes, &out, steps->call->err);
    if (steps->status != SP_OK)
        return NULL;
    const uint64_t tag = sp_tag(name);
    for (uint64_t i = 0; i < x->count; i++)
        out->items[i] = real == sp_real_exp && x->items[i].field == SP_FIELD_LEAST
                            ? (struct sp_number){0, exp(x->items[i].real)}
                            : sp_number_function(tag, real, x->is_known, x->items[i]);
    out->is_known = x->is_known;
    return out;
}

/* A vector along one axis of a tensor of this rank. */
static const struct sp_numbers *along(struct steps *steps, const struct sp_numbers *x, uint32_t rank, uint32_t axis)
{
    struct sp_index_axis axes[SP_MAX_RANK];
    struct sp_numbers *out = NULL;
    for (uint32_t i = 0; i < rank; i++)
        axes[i] = sp_index_all(1);
    if (steps->status == SP_OK && (x == NULL || x->rank != 1))
        steps->status = sp_call_refuse(steps->call, "an operand is no vector");
    if (steps->status != SP_OK)
        return NULL;
    axes[axis] = x->axes[0];
    steps->status = sp_numbers_view(steps->call->arena, x, rank, axes, &out, steps->call->err);
    return out;
}

/* ---- reductions ------------------------------------------------------------------------------------------------- */

static enum sp_status axes_of(struct sp_call *call, const struct sp_numbers *x, uint64_t *ret_mask)
{
    const int64_t *list;
    uint32_t count = 0, axis = 0;
    *ret_mask = 0;
    enum sp_status status = sp_call_attribute_or_ints(call, "axes", 1, &count, &list);
    for (uint32_t i = 0; status == SP_OK && list != NULL && i < count; i++) {
        status = sp_call_axis(call, list[i], x->rank, &axis);
        *ret_mask |= UINT64_C(1) << axis;
    }
    if (status == SP_OK && (list == NULL || count == 0) && sp_node_int(call->node, "noop_with_empty_axes", 0) == 0)
        *ret_mask = x->rank == 64 ? UINT64_MAX : (UINT64_C(1) << x->rank) - 1;
    return status;
}

static enum sp_status evaluate_reduce(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    const char *name = call->node->op_type + strlen("Reduce");
    struct steps steps = {call, SP_OK};
    struct sp_index_axis axes[SP_MAX_RANK];
    uint64_t mask;
    uint32_t rank = 0;
    if (x == NULL)
        return sp_call_refuse(call, "an operand is missing");
    const bool is_float = sp_dtype_is_float(x->dtype);
    enum sp_status status = axes_of(call, x, &mask);
    if (status != SP_OK)
        return status;
    if (!is_float && strcmp(name, "Sum") != 0 && strcmp(name, "Max") != 0 && strcmp(name, "Min") != 0 &&
        strcmp(name, "Prod") != 0)
        return sp_evaluate_by_rule(call);
    struct sp_numbers *out = NULL;
    if (strcmp(name, "Max") == 0)
        out = fold(&steps, x, mask, is_float ? sp_number_max : sp_integer_max);
    else if (strcmp(name, "Min") == 0)
        out = fold(&steps, x, mask, is_float ? sp_number_min : sp_integer_min);
    else if (strcmp(name, "Prod") == 0)
        out = fold(&steps, x, mask, is_float ? sp_number_multiply : sp_integer_multiply);
    else if (strcmp(name, "Mean") == 0)
        out = mean(&steps, x, mask);
    else if (strcmp(name, "SumSquare") == 0 || strcmp(name, "L2") == 0)
        out = fold(&steps, combine(&steps, x, x, sp_number_multiply), mask, sp_number_add);
    else if (strcmp(name, "L1") == 0)
        out = fold(&steps, apply(&steps, x, "Abs", fabs), mask, sp_number_add);
    else if (strcmp(name, "LogSumExp") == 0)
        out = apply(&steps, fold(&steps, apply(&steps, x, "Exp", sp_real_exp), mask, sp_number_add), "Log", log);
    else
        out = fold(&steps, x, mask, is_float ? sp_number_add : sp_integer_add);
    if (strcmp(name, "L2") == 0)
        out = apply(&steps, out, "Sqrt", sqrt);
    else if (strcmp(name, "LogSum") == 0)
        out = apply(&steps, out, "Log", log);
    for (uint32_t i = 0; i < x->rank; i++) {
        if ((mask >> i & 1) == 0 || sp_node_int(call->node, "keepdims", 1) != 0)
            axes[rank++] = (mask >> i & 1) != 0 ? sp_index_all(1) : x->axes[i];
    }
    return steps.status == SP_OK ? sp_numbers_view(call->arena, out, rank, axes, &call->out[0], call->err)
                                 : steps.status;
}

static enum sp_status evaluate_global_pool(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    struct steps steps = {call, SP_OK};
    if (x == NULL || x->rank < 3)
        return sp_call_refuse(call, "its input has no places");
    const uint64_t mask = ((UINT64_C(1) << x->rank) - 1) & ~UINT64_C(3);
    call->out[0] = strcmp(call->node->op_type, "GlobalMaxPool") == 0 ? fold(&steps, x, mask, sp_number_max)
                                                                     : mean(&steps, x, mask);
    return steps.status;
}

static enum sp_status evaluate_softmax(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    struct steps steps = {call, SP_OK};
    uint32_t axis;
    if (x == NULL)
        return sp_call_refuse(call, "an operand is missing");
    enum sp_status status =
        sp_call_axis(call, sp_node_int(call->node, "axis", call->version < 13 ? 1 : -1), x->rank, &axis);
    if (status != SP_OK)
        return status;
    uint64_t mask = UINT64_C(1) << axis;
    for (uint32_t i = axis; call->version < 13 && i < x->rank; i++)
        mask |= UINT64_C(1) << i;
    const struct sp_numbers *distance = combine(&steps, x, fold(&steps, x, mask, sp_number_max), sp_number_subtract);
    const struct sp_numbers *powers = apply(&steps, distance, "Exp", sp_real_exp);
    const struct sp_numbers *sum = fold(&steps, powers, mask, sp_number_add);
    call->out[0] = call->node->op_type[0] == 'S'
                       ? combine(&steps, powers, sum, sp_number_divide)
                       : combine(&steps, distance, apply(&steps, sum, "Log", log), sp_number_subtract);
    return steps.status;
}

/* ---- normalisations --------------------------------------------------------------------------------------------- */

/* (x - mean) / sqrt(variance + epsilon) over the axes; without a mean where it is not taken off. */
static struct sp_numbers *normalize(struct steps *steps, const struct sp_numbers *x, uint64_t mask, bool has_mean,
                                    struct sp_numbers **ret_mean, struct sp_numbers **ret_root)
{
    const double epsilon = sp_node_float(steps->call->node, "epsilon", 1e-5F);
    const struct sp_numbers *distance = x;
    if (has_mean) {
        *ret_mean = mean(steps, x, mask);
        distance = combine(steps, x, *ret_mean, sp_number_subtract);
    }
    struct sp_numbers *variance = mean(steps, combine(steps, distance, distance, sp_number_multiply), mask);
    *ret_root = apply(steps, combine(steps, variance, number(steps, x->dtype, epsilon), sp_number_add), "Sqrt", sqrt);
    return combine(steps, distance, *ret_root, sp_number_divide);
}

static struct sp_numbers *scaled(struct steps *steps, struct sp_numbers *x, const struct sp_numbers *scale,
                                 const struct sp_numbers *bias)
{
    if (scale != NULL)
        x = combine(steps, x, scale, sp_number_multiply);
    return bias != NULL ? combine(steps, x, bias, sp_number_add) : x;
}

/* LayerNormalization, RMSNormalization and SimplifiedLayerNormalization. */
static enum sp_status evaluate_layer_norm(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    struct steps steps = {call, SP_OK};
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
        call->out[1] = has_mean ? average : combine(&steps, number(&steps, x->dtype, 1), root, sp_number_divide);
    if (call->out_count > 2)
        call->out[2] = combine(&steps, number(&steps, x->dtype, 1), root, sp_number_divide);
    return steps.status;
}

static enum sp_status evaluate_instance_norm(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    struct steps steps = {call, SP_OK};
    struct sp_numbers *average, *root;
    if (x == NULL || x->rank < 3)
        return sp_call_refuse(call, "its input has no places");
    const uint64_t mask = ((UINT64_C(1) << x->rank) - 1) & ~UINT64_C(3);
    call->out[0] =
        scaled(&steps, normalize(&steps, x, mask, true, &average, &root),
               along(&steps, sp_call_in(call, 1), x->rank, 1), along(&steps, sp_call_in(call, 2), x->rank, 1));
    return steps.status;
}

static enum sp_status evaluate_group_norm(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    struct steps steps = {call, SP_OK};
    struct sp_numbers *groups = NULL, *average, *root, *back = NULL;
    int64_t extents[3], own[SP_MAX_RANK];
    const int64_t count = sp_node_int(call->node, "num_groups", 1);
    if (x == NULL || x->rank < 3 || call->version < 21 || count < 1 || call->node->domain[0] != '\0')
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
    if (steps.status == SP_OK)
        steps.status = sp_numbers_reshape(call->arena, groups, x->rank, own, &back, call->err);
    if (steps.status != SP_OK)
        return steps.status;
    call->out[0] = scaled(&steps, back, along(&steps, sp_call_in(call, 1), x->rank, 1),
                          along(&steps, sp_call_in(call, 2), x->rank, 1));
    return steps.status;
}

static enum sp_status evaluate_batch_norm(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    struct steps steps = {call, SP_OK};
    if (x == NULL || x->rank < 2 || sp_node_int(call->node, "training_mode", 0) != 0)
        return sp_evaluate_by_rule(call);
    const struct sp_numbers *vectors[4];
    for (uint32_t i = 0; i < 4; i++)
        vectors[i] = along(&steps, sp_call_in(call, i + 1), x->rank, 1);
    if (steps.status != SP_OK)
        return steps.status;
    const struct sp_numbers *epsilon = number(&steps, x->dtype, sp_node_float(call->node, "epsilon", 1e-5F));
    const struct sp_numbers *root = apply(&steps, combine(&steps, vectors[3], epsilon, sp_number_add), "Sqrt", sqrt);
    struct sp_numbers *distance = combine(&steps, x, vectors[2], sp_number_subtract);
    call->out[0] = scaled(&steps, combine(&steps, distance, root, sp_number_divide), vectors[0], vectors[1]);
    return steps.status;
}

const struct sp_evaluator_entry sp_evaluators_reductions[] = {
    {"ReduceSum", evaluate_reduce},
    {"ReduceMean", evaluate_reduce},
    {"ReduceMax", evaluate_reduce},
    {"ReduceMin", evaluate_reduce},
    {"ReduceProd", evaluate_reduce},
    {"ReduceSumSquare", evaluate_reduce},
    {"ReduceL1", evaluate_reduce},
    {"ReduceL2", evaluate_reduce},
    {"ReduceLogSum", evaluate_reduce},
    {"ReduceLogSumExp", evaluate_reduce},
    {"GlobalAveragePool", evaluate_global_pool},
    {"GlobalMaxPool", evaluate_global_pool},
    {"Softmax", evaluate_softmax},
    {"LogSoftmax", evaluate_softmax},
    {"LayerNormalization", evaluate_layer_norm},
    {"RMSNormalization", evaluate_layer_norm},
    {"SimplifiedLayerNormalization", evaluate_layer_norm},
    {"InstanceNormalization", evaluate_instance_norm},
    {"GroupNormalization", evaluate_group_norm},
    {"BatchNormalization", evaluate_batch_norm},
    {NULL, NULL},
};
