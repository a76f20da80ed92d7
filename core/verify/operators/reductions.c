/*
 * Reductions, and what is made of them: Softmax and normalisations, in the steps that files write them in.
 */
#include <string.h>

#include "base/limits.h"
#include "verify/operators/steps.h"

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

static struct sp_number integer_size(struct sp_number a, struct sp_number b)
{
    return (struct sp_number){(int64_t)a.field < 0 ? -b.field : b.field, fabs(b.real)};
}

/* By the largest exponent, as everybody computes it. */
static struct sp_numbers *log_sum_exp(struct sp_steps *steps, const struct sp_numbers *x, uint64_t mask)
{
    struct sp_numbers *most = sp_step_fold(steps, x, mask, sp_number_max);
    struct sp_numbers *powers = sp_step_apply(steps, sp_step(steps, x, most, sp_number_subtract), "Exp", sp_real_exp);
    return sp_step(steps, sp_step_apply(steps, sp_step_fold(steps, powers, mask, sp_number_add), "Log", log), most,
                   sp_number_add);
}

static enum sp_status evaluate_reduce(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    const char *name = call->node->op_type + strlen("Reduce");
    struct sp_steps steps = {call, SP_OK};
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
        strcmp(name, "Prod") != 0 && strcmp(name, "Mean") != 0 && strcmp(name, "SumSquare") != 0 &&
        strcmp(name, "SumInteger") != 0 && strcmp(name, "L1") != 0)
        return sp_evaluate_by_rule(call);
    struct sp_numbers *out = NULL;
    if (strcmp(name, "Max") == 0)
        out = sp_step_fold(&steps, x, mask, is_float ? sp_number_max : sp_integer_max);
    else if (strcmp(name, "Min") == 0)
        out = sp_step_fold(&steps, x, mask, is_float ? sp_number_min : sp_integer_min);
    else if (strcmp(name, "Prod") == 0)
        out = sp_step_fold(&steps, x, mask, is_float ? sp_number_multiply : sp_integer_multiply);
    else if (strcmp(name, "Mean") == 0)
        out = sp_step_mean(&steps, x, mask);
    else if (strcmp(name, "SumSquare") == 0 || strcmp(name, "L2") == 0)
        out = sp_step_fold(&steps, sp_step(&steps, x, x, is_float ? sp_number_multiply : sp_integer_multiply), mask,
                           is_float ? sp_number_add : sp_integer_add);
    else if (strcmp(name, "L1") == 0)
        out = is_float ? sp_step_fold(&steps, sp_step_apply(&steps, x, "Abs", fabs), mask, sp_number_add)
                       : sp_step_fold(&steps, sp_step(&steps, x, x, integer_size), mask, sp_integer_add);
    else if (strcmp(name, "LogSumExp") == 0)
        out = log_sum_exp(&steps, x, mask);
    else
        out = sp_step_fold(&steps, x, mask, is_float ? sp_number_add : sp_integer_add);
    if (strcmp(name, "L2") == 0 && is_float) {
        const struct sp_numbers *sum = out;
        out = sp_step_apply(&steps, sum, "Sqrt", sqrt);
        if (steps.status == SP_OK && !sum->is_known) {
            out->radicands = sum->items;
            out->degree = 2;
        }
    } else if (strcmp(name, "L2") == 0)
        out = sp_step_apply(&steps, out, "Sqrt", sqrt);
    else if (strcmp(name, "LogSum") == 0)
        out = sp_step_apply(&steps, out, "Log", log);
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
    struct sp_steps steps = {call, SP_OK};
    if (x == NULL || x->rank < 3)
        return sp_call_refuse(call, "its input has no places");
    const uint64_t mask = ((UINT64_C(1) << x->rank) - 1) & ~UINT64_C(3);
    call->out[0] = strcmp(call->node->op_type, "GlobalMaxPool") == 0 ? sp_step_fold(&steps, x, mask, sp_number_max)
                                                                     : sp_step_mean(&steps, x, mask);
    return steps.status;
}

/* The root of the sum of all places' sizes to a power. */
static enum sp_status evaluate_global_lp_pool(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    struct sp_steps steps = {call, SP_OK};
    const int64_t power = sp_node_int(call->node, "p", 2);
    if (x == NULL || x->rank < 3 || power < 1 || x->is_known || !sp_dtype_is_float(x->dtype))
        return sp_evaluate_by_rule(call);
    const uint64_t mask = ((UINT64_C(1) << x->rank) - 1) & ~UINT64_C(3);
    const struct sp_numbers *sizes = power == 2 ? x : sp_step_apply(&steps, x, "Abs", fabs), *powers = sizes;
    for (int64_t i = 1; i < power && i < 64; i++)
        powers = sp_step(&steps, powers, sizes, sp_number_multiply);
    const struct sp_numbers *sum = sp_step_fold(&steps, powers, mask, sp_number_add);
    if (steps.status == SP_OK)
        steps.status = sp_numbers_create(call->arena, x->dtype, sum->rank, sum->axes, &call->out[0], call->err);
    for (uint64_t i = 0; steps.status == SP_OK && i < sum->count; i++)
        call->out[0]->items[i] = sp_pool_root(sum->items[i], power);
    if (steps.status == SP_OK) {
        call->out[0]->radicands = sum->items;
        call->out[0]->degree = power;
    }
    return steps.status;
}

static enum sp_status evaluate_softmax(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    struct sp_steps steps = {call, SP_OK};
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
    const struct sp_numbers *distance =
        sp_step(&steps, x, sp_step_fold(&steps, x, mask, sp_number_max), sp_number_subtract);
    const struct sp_numbers *powers = sp_step_apply(&steps, distance, "Exp", sp_real_exp);
    const struct sp_numbers *sum = sp_step_fold(&steps, powers, mask, sp_number_add);
    call->out[0] = call->node->op_type[0] == 'S'
                       ? sp_step(&steps, powers, sum, sp_number_divide)
                       : sp_step(&steps, distance, sp_step_apply(&steps, sum, "Log", log), sp_number_subtract);
    return steps.status;
}

/* One at the first of the largest along the axis, or along all behind it. */
static enum sp_status evaluate_hardmax(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    uint32_t axis;
    if (x == NULL)
        return sp_call_refuse(call, "an operand is missing");
    enum sp_status status =
        sp_call_axis(call, sp_node_int(call->node, "axis", call->version < 13 ? 1 : -1), x->rank, &axis);
    if (status != SP_OK || x->count == 0)
        return status != SP_OK ? status : sp_evaluate_by_rule(call);
    uint64_t inner = 1, count = 1;
    for (uint32_t i = axis; i < x->rank; i++) {
        if (x->axes[i].count != x->axes[i].extent)
            return sp_evaluate_by_rule(call);
        if (i == axis || call->version < 13) /* all axes behind it are one with it */
            count *= x->axes[i].count;
        else
            inner *= x->axes[i].count;
    }
    status = sp_numbers_create(call->arena, x->dtype, x->rank, x->axes, &call->out[0], call->err);
    for (uint64_t row = 0; status == SP_OK && row < x->count / count; row++) {
        const uint64_t base = row / inner * count * inner + row % inner;
        uint64_t best[2] = {base, base};
        for (uint64_t i = 1; i < count; i++) {
            const uint64_t at = base + i * inner;
            best[0] = sp_field_is_less(x->items[best[0]].field, x->items[at].field) ? at : best[0];
            best[1] = x->items[best[1]].real < x->items[at].real ? at : best[1];
        }
        call->out[0]->items[best[0]].field = 1;
        call->out[0]->items[best[1]].real = 1;
    }
    return status;
}

const struct sp_evaluator_entry sp_evaluators_reductions[] = {
    {"ReduceSum", evaluate_reduce},          {"ReduceSumInteger", evaluate_reduce},
    {"ReduceMean", evaluate_reduce},         {"ReduceMax", evaluate_reduce},
    {"ReduceMin", evaluate_reduce},          {"ReduceProd", evaluate_reduce},
    {"ReduceSumSquare", evaluate_reduce},    {"ReduceL1", evaluate_reduce},
    {"ReduceL2", evaluate_reduce},           {"ReduceLogSum", evaluate_reduce},
    {"ReduceLogSumExp", evaluate_reduce},    {"GlobalAveragePool", evaluate_global_pool},
    {"GlobalMaxPool", evaluate_global_pool}, {"GlobalLpPool", evaluate_global_lp_pool},
    {"Softmax", evaluate_softmax},           {"Hardmax", evaluate_hardmax},
    {"LogSoftmax", evaluate_softmax},        {NULL, NULL},
};
