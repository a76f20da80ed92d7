#include "verify/operators/steps.h"

#include <string.h>

#include "base/limits.h"

struct sp_numbers *sp_step(struct sp_steps *steps, const struct sp_numbers *a, const struct sp_numbers *b,
                           sp_number2 function)
{
    struct sp_numbers *out = NULL;
    if (steps->status == SP_OK)
        steps->status = sp_numbers_binary(steps->call->arena, a, b, a->dtype, function, &out, steps->call->err);
    sp_call_tell(steps->call, out);
    return out;
}

struct sp_numbers *sp_step_number(struct sp_steps *steps, enum sp_dtype dtype, double value)
{
    struct sp_numbers *out = NULL;
    if (steps->status == SP_OK)
        steps->status = sp_numbers_create(steps->call->arena, dtype, 0, NULL, &out, steps->call->err);
    if (steps->status != SP_OK)
        return NULL;
    out->items[0] = sp_dtype_is_float(dtype) ? sp_number_of_real(value) : sp_number_of_int((int64_t)value);
    out->is_known = true;
    return out;
}

struct sp_numbers *sp_step_fold(struct sp_steps *steps, const struct sp_numbers *x, uint64_t mask, sp_number2 function)
{
    struct sp_numbers *out = NULL;
    if (steps->status == SP_OK)
        steps->status = sp_numbers_fold(steps->call->arena, x, mask, function, &out, steps->call->err);
    sp_call_tell(steps->call, out);
    return out;
}

struct sp_numbers *sp_step_mean(struct sp_steps *steps, const struct sp_numbers *x, uint64_t mask)
{
    const bool is_float = steps->status == SP_OK && sp_dtype_is_float(x->dtype);
    double count = 1;
    struct sp_numbers *sum = sp_step_fold(steps, x, mask, is_float ? sp_number_add : sp_integer_add);
    for (uint32_t i = 0; steps->status == SP_OK && i < x->rank; i++)
        count *= (mask >> i & 1) != 0 ? (double)x->axes[i].extent : 1;
    return steps->status == SP_OK ? sp_step(steps, sum, sp_step_number(steps, x->dtype, count),
                                            is_float ? sp_number_divide : sp_integer_divide)
                                  : NULL;
}

struct sp_numbers *sp_step_apply(struct sp_steps *steps, const struct sp_numbers *x, const char *name,
                                 double (*real)(double))
{
    struct sp_numbers *out = NULL;
    if (steps->status == SP_OK && real == sp_real_exp)
        steps->status = sp_numbers_exp(steps->call->arena, x, &out, steps->call->err);
    else if (steps->status == SP_OK)
        steps->status = sp_numbers_create(steps->call->arena, x->dtype, x->rank, x->axes, &out, steps->call->err);
    if (steps->status != SP_OK || real == sp_real_exp)
        return out;
    const uint64_t tag = sp_tag(name);
    for (uint64_t i = 0; i < x->count; i++)
        out->items[i] = sp_number_function(tag, real, x->is_known, x->items[i]);
    out->is_known = x->is_known;
    sp_call_tell(steps->call, out);
    return out;
}

struct sp_numbers *sp_step_along(struct sp_steps *steps, const struct sp_numbers *x, uint32_t rank, uint32_t axis)
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

struct sp_numbers *sp_step_reshape(struct sp_steps *steps, const struct sp_numbers *x, uint32_t rank,
                                   const int64_t *extents)
{
    struct sp_numbers *out = NULL;
    if (steps->status == SP_OK)
        steps->status = sp_numbers_reshape(steps->call->arena, x, rank, extents, &out, steps->call->err);
    return out;
}

struct sp_numbers *sp_step_transpose(struct sp_steps *steps, const struct sp_numbers *x, const uint32_t *perm)
{
    struct sp_numbers *out = NULL;
    if (steps->status == SP_OK)
        steps->status = sp_numbers_transpose(steps->call->arena, x, perm, &out, steps->call->err);
    return out;
}

/* With the axis of channels moved to axis 1 from the end, or to the end from axis 1. */
struct sp_numbers *sp_step_channels(struct sp_steps *steps, const struct sp_numbers *x, uint32_t to)
{
    uint32_t perm[SP_MAX_RANK];
    if (steps->status != SP_OK)
        return NULL;
    for (uint32_t i = 0; i < x->rank; i++)
        perm[i] = i == 0 ? 0 : i == to ? (to == 1 ? x->rank - 1 : 1) : to == 1 ? i - 1 : i + 1;
    return sp_step_transpose(steps, x, perm);
}

struct sp_numbers *sp_step_product(struct sp_steps *steps, const struct sp_labelled *a, const struct sp_labelled *b,
                                   uint32_t rank, const uint8_t *labels)
{
    struct sp_numbers *out = NULL;
    const struct sp_labelled operands[] = {*a, *b};
    if (steps->status == SP_OK)
        steps->status = sp_numbers_contract(steps->call->arena, 2, operands, rank, labels, &out, steps->call->err);
    sp_call_tell(steps->call, out);
    return out;
}

struct sp_numbers *sp_step_choose(struct sp_steps *steps, const struct sp_numbers *which, const struct sp_numbers *a,
                                  const struct sp_numbers *b)
{
    struct sp_numbers *out = NULL;
    if (steps->status == SP_OK)
        steps->status =
            sp_numbers_choose(steps->call->arena, (const struct sp_numbers *[]){which, a, b}, &out, steps->call->err);
    return out;
}

struct sp_numbers *sp_step_softmax(struct sp_steps *steps, const struct sp_numbers *x, uint64_t mask)
{
    struct sp_numbers *distance = sp_step(steps, x, sp_step_fold(steps, x, mask, sp_number_max), sp_number_subtract);
    struct sp_numbers *powers = sp_step_apply(steps, distance, "Exp", sp_real_exp);
    return sp_step(steps, powers, sp_step_fold(steps, powers, mask, sp_number_add), sp_number_divide);
}
