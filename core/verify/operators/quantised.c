/*
 * Operators on quantised numbers, by their definition: integers less a zero point, times a scale.
 *
 * Rounding has no law in the field, so what is rounded there is a hash of the quotient and the zero point, an integer of
 * few enough digits that sums of products of such integers stay exact.
 */
#include <string.h>

#include "base/limits.h"
#include "verify/operators/steps.h"

#define HASH_DIGITS 24

/* Scales and zero points beside x: one number, one for each index of an axis, or one for each block of it. */
static const struct sp_numbers *beside(struct sp_steps *steps, const struct sp_numbers *scale,
                                       const struct sp_numbers *x, int64_t axis)
{
    struct sp_call *call = steps->call;
    const int64_t block = sp_node_int(call->node, "block_size", 0);
    struct sp_numbers *out = NULL;
    uint32_t at;
    if (steps->status != SP_OK || scale == NULL || scale->count == 1) {
        if (steps->status == SP_OK && scale != NULL)
            steps->status = sp_numbers_view(call->arena, scale, 0, NULL, &out, call->err);
        return out;
    }
    steps->status = sp_call_axis(call, axis, x->rank, &at);
    if (steps->status != SP_OK)
        return NULL;
    if (scale->rank == 1 && x->rank >= 1 && scale->axes[0].extent == x->axes[at].extent)
        return sp_step_along(steps, scale, x->rank, at);
    if (scale->rank != x->rank || block < 1 || !sp_numbers_is_complete(scale)) {
        steps->status = sp_call_refuse(call, "its scales do not fit its input");
        return NULL;
    }
    uint32_t *from = SP_NEW_ARRAY(call->arena, x->axes[at].count, uint32_t);
    if (from == NULL) {
        steps->status = sp_fail_memory(call->err);
        return NULL;
    }
    for (uint32_t i = 0; i < x->axes[at].count; i++) {
        from[i] = (uint32_t)(sp_index_at(&x->axes[at], i) / block);
        if (from[i] >= scale->axes[at].count) {
            steps->status = sp_call_refuse(call, "its scales do not fit its input");
            return NULL;
        }
    }
    steps->status = sp_numbers_take(call->arena, scale, at, &x->axes[at], from, &out, call->err);
    return out;
}

static struct sp_numbers *as_float(struct sp_steps *steps, const struct sp_numbers *x, enum sp_dtype dtype)
{
    struct sp_numbers *out = NULL;
    if (steps->status == SP_OK)
        steps->status = sp_numbers_create(steps->call->arena, dtype, x->rank, x->axes, &out, steps->call->err);
    for (uint64_t i = 0; steps->status == SP_OK && i < x->count; i++)
        out->items[i] = sp_dtype_is_float(x->dtype)
                            ? x->items[i]
                            : (struct sp_number){sp_field_of_int((int64_t)x->items[i].field), x->items[i].real};
    if (steps->status == SP_OK)
        out->is_known = x->is_known;
    return out;
}

/* Integers less their zero point. */
static const struct sp_numbers *centred(struct sp_steps *steps, const struct sp_numbers *x,
                                        const struct sp_numbers *zero, int64_t axis)
{
    struct sp_numbers *negative = NULL;
    if (zero == NULL || steps->status != SP_OK)
        return x;
    zero = beside(steps, zero, x, axis);
    negative = zero != NULL ? sp_step(steps, zero, sp_step_number(steps, zero->dtype, -1), sp_integer_multiply) : NULL;
    struct sp_numbers *out = negative != NULL ? sp_step(steps, x, negative, sp_integer_add) : NULL;
    if (out != NULL)
        out->dtype = SP_DTYPE_INT32;
    return out;
}

static double lowest_of(enum sp_dtype dtype)
{
    return dtype == SP_DTYPE_INT8 ? -128 : dtype == SP_DTYPE_INT16 ? -32768 : 0;
}

static double highest_of(enum sp_dtype dtype)
{
    return dtype == SP_DTYPE_INT8 ? 127 : dtype == SP_DTYPE_INT16 ? 32767 : dtype == SP_DTYPE_UINT16 ? 65535 : 255;
}

/* Rounds quotients and adds the zero point. */
static struct sp_numbers *rounded(struct sp_steps *steps, const struct sp_numbers *quotient,
                                  const struct sp_numbers *zero, enum sp_dtype dtype)
{
    const uint64_t tag = sp_tag("QuantizeLinear");
    struct sp_numbers *out = NULL;
    if (steps->status == SP_OK && zero == NULL)
        zero = sp_step_number(steps, dtype, 0);
    if (steps->status == SP_OK) /* of the right shape */
        out = sp_step(steps, quotient, as_float(steps, zero, quotient->dtype), sp_number_add);
    const struct sp_numbers *zeros =
        out != NULL ? sp_step(steps, as_float(steps, zero, quotient->dtype),
                              sp_step(steps, quotient, sp_step_number(steps, quotient->dtype, 0), sp_number_multiply),
                              sp_number_add)
                    : NULL;
    if (steps->status != SP_OK || zeros->count != out->count)
        return NULL;
    for (uint64_t i = 0; i < out->count; i++) {
        const double point = zeros->items[i].real;
        const double real =
            fmax(lowest_of(dtype), fmin(highest_of(dtype), nearbyint(out->items[i].real - point) + point));
        const uint64_t hash = sp_field_hash(tag ^ sp_scramble(zeros->items[i].field), out->items[i].field);
        out->items[i] = out->is_known ? sp_number_of_int((int64_t)real)
                                      : (struct sp_number){hash & ((UINT64_C(1) << HASH_DIGITS) - 1), real};
    }
    out->dtype = dtype;
    return out;
}

static enum sp_status evaluate_quantize(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0), *scale = sp_call_in(call, 1), *zero = sp_call_in(call, 2);
    struct sp_steps steps = {call, SP_OK};
    const int64_t axis = sp_node_int(call->node, "axis", 1),
                  to = sp_node_int(call->node, "output_dtype", SP_DTYPE_UINT8);
    const enum sp_dtype dtype = zero != NULL ? zero->dtype : to == 0 ? SP_DTYPE_UINT8 : (enum sp_dtype)to;
    if (x == NULL || scale == NULL)
        return sp_call_refuse(call, "an operand is missing");
    if (dtype != SP_DTYPE_INT8 && dtype != SP_DTYPE_UINT8 && dtype != SP_DTYPE_INT16 && dtype != SP_DTYPE_UINT16)
        return sp_evaluate_by_rule(call);
    const struct sp_numbers *by = beside(&steps, scale, x, axis);
    zero = zero != NULL ? beside(&steps, zero, x, axis) : NULL;
    struct sp_numbers *quotient =
        steps.status == SP_OK ? sp_step(&steps, as_float(&steps, x, scale->dtype), by, sp_number_divide) : NULL;
    call->out[0] = rounded(&steps, quotient, zero, dtype);
    return steps.status;
}

static enum sp_status evaluate_dequantize(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0), *scale = sp_call_in(call, 1);
    struct sp_steps steps = {call, SP_OK};
    const int64_t axis = sp_node_int(call->node, "axis", 1);
    if (x == NULL || scale == NULL)
        return sp_call_refuse(call, "an operand is missing");
    const struct sp_numbers *own = centred(&steps, x, sp_call_in(call, 2), axis), *by = beside(&steps, scale, x, axis);
    if (steps.status == SP_OK)
        call->out[0] = sp_step(&steps, as_float(&steps, own, scale->dtype), by, sp_number_multiply);
    return steps.status;
}

/* ---- products --------------------------------------------------------------------------------------------------- */

/* A product of matrices, whose rows and columns may have scales of their own. */
static struct sp_numbers *multiply(struct sp_steps *steps, const struct sp_numbers *a, const struct sp_numbers *b)
{
    enum { M = 40, N = 41, K = 42 };
    struct sp_labelled x = {.x = a}, y = {.x = b};
    uint8_t labels[SP_LABELS];
    if (steps->status != SP_OK)
        return NULL;
    if (a->rank < 2 || b->rank < 2 || a->rank > 32 || b->rank > 32 ||
        a->axes[a->rank - 1].extent != b->axes[b->rank - 2].extent) {
        steps->status = sp_call_refuse(steps->call, "its operands do not fit together");
        return NULL;
    }
    const uint32_t rank = a->rank > b->rank ? a->rank : b->rank;
    for (uint32_t i = 0; i + 2 < rank; i++) {
        labels[i] = (uint8_t)i;
        if (i + a->rank >= rank)
            x.labels[i + a->rank - rank] = (uint8_t)i;
        if (i + b->rank >= rank)
            y.labels[i + b->rank - rank] = (uint8_t)i;
    }
    x.labels[a->rank - 2] = labels[rank - 2] = M;
    y.labels[b->rank - 1] = labels[rank - 1] = N;
    x.labels[a->rank - 1] = y.labels[b->rank - 2] = K;
    struct sp_numbers *out = sp_step_product(steps, &x, &y, rank, labels);
    if (out != NULL)
        out->dtype = SP_DTYPE_INT32;
    return out;
}

static bool has_rows(const struct sp_numbers *x)
{
    return x != NULL && x->rank >= 2;
}

static enum sp_status evaluate_matmul_integer(struct sp_call *call)
{
    struct sp_steps steps = {call, SP_OK};
    if (!has_rows(sp_call_in(call, 0)) || !has_rows(sp_call_in(call, 1)))
        return sp_evaluate_by_rule(call);
    call->out[0] = multiply(&steps, centred(&steps, call->in[0], sp_call_in(call, 2), -2),
                            centred(&steps, call->in[1], sp_call_in(call, 3), -1));
    return steps.status;
}

/* The product of two scales by that of the result. */
static struct sp_numbers *factor_of(struct sp_steps *steps, const struct sp_numbers *a, const struct sp_numbers *b,
                                    const struct sp_numbers *y)
{
    struct sp_numbers *product = a != NULL && b != NULL ? sp_step(steps, a, b, sp_number_multiply) : NULL;
    return product != NULL && y != NULL ? sp_step(steps, product, y, sp_number_divide) : product;
}

/* (a, scale, zero, b, scale, zero, scale, zero) */
static enum sp_status evaluate_matmul_quantised(struct sp_call *call)
{
    struct sp_steps steps = {call, SP_OK};
    if (call->in_count < 8 || !has_rows(call->in[0]) || !has_rows(call->in[3]) || call->in[1] == NULL ||
        call->in[4] == NULL || call->in[6] == NULL || call->in[7] == NULL)
        return sp_evaluate_by_rule(call);
    const struct sp_numbers *a = call->in[0], *b = call->in[3];
    struct sp_numbers *product =
        multiply(&steps, centred(&steps, a, call->in[2], -2), centred(&steps, b, call->in[5], -1));
    const struct sp_numbers *factor = factor_of(&steps, beside(&steps, call->in[1], a, -2),
                                                beside(&steps, call->in[4], b, -1), beside(&steps, call->in[6], a, -2));
    if (steps.status == SP_OK && factor != NULL)
        product = sp_step(&steps, as_float(&steps, product, factor->dtype), factor, sp_number_multiply);
    const struct sp_numbers *zero = steps.status == SP_OK ? beside(&steps, call->in[7], product, -1) : NULL;
    call->out[0] = rounded(&steps, product, zero, call->in[7]->dtype);
    return steps.status;
}

/* (a, b, scale, scale, zero, zero, bias) */
static enum sp_status evaluate_matmul_to_float(struct sp_call *call)
{
    struct sp_steps steps = {call, SP_OK};
    const struct sp_numbers *bias = sp_call_in(call, 6);
    if (call->in_count < 4 || !has_rows(call->in[0]) || !has_rows(call->in[1]) || call->in[2] == NULL ||
        call->in[3] == NULL)
        return sp_evaluate_by_rule(call);
    struct sp_numbers *product = multiply(&steps, centred(&steps, call->in[0], sp_call_in(call, 4), -2),
                                          centred(&steps, call->in[1], sp_call_in(call, 5), -1));
    const struct sp_numbers *factor = factor_of(&steps, beside(&steps, call->in[2], call->in[0], -2),
                                                beside(&steps, call->in[3], call->in[1], -1), NULL);
    if (steps.status == SP_OK && factor != NULL)
        product = sp_step(&steps, as_float(&steps, product, factor->dtype), factor, sp_number_multiply);
    call->out[0] = bias != NULL ? sp_step(&steps, product, bias, sp_number_add) : product;
    return steps.status;
}

/* ---- by the range of what comes --------------------------------------------------------------------------------- */

struct dynamic {
    struct sp_numbers *y, *scale, *zero;
};

static struct dynamic quantise_by_range(struct sp_steps *steps, const struct sp_numbers *x)
{
    const uint64_t all = (UINT64_C(1) << x->rank) - 1;
    struct dynamic made = {NULL, NULL, NULL};
    const struct sp_numbers *none = sp_step_number(steps, x->dtype, 0);
    struct sp_numbers *low = sp_step(steps, sp_step_fold(steps, x, all, sp_number_min), none, sp_number_min),
                      *high = sp_step(steps, sp_step_fold(steps, x, all, sp_number_max), none, sp_number_max);
    low = sp_step_reshape(steps, low, 0, NULL);
    high = sp_step_reshape(steps, high, 0, NULL);
    made.scale = sp_step(steps, sp_step(steps, high, low, sp_number_subtract), sp_step_number(steps, x->dtype, 255),
                         sp_number_divide);
    const struct sp_numbers *point =
        sp_step(steps, sp_step(steps, none, low, sp_number_subtract), made.scale, sp_number_divide);
    made.zero = rounded(steps, point, NULL, SP_DTYPE_UINT8);
    made.y = made.zero != NULL
                 ? rounded(steps, sp_step(steps, x, made.scale, sp_number_divide), made.zero, SP_DTYPE_UINT8)
                 : NULL;
    return made;
}

static enum sp_status evaluate_dynamic(struct sp_call *call)
{
    struct sp_steps steps = {call, SP_OK};
    const struct sp_numbers *x = sp_call_in(call, 0);
    if (x == NULL || x->count == 0 || x->rank > 63)
        return sp_call_refuse(call, "an operand is missing");
    const struct dynamic made = quantise_by_range(&steps, x);
    struct sp_numbers *results[] = {made.y, made.scale, made.zero};
    for (uint32_t i = 0; steps.status == SP_OK && i < call->out_count && i < 3; i++)
        call->out[i] = results[i];
    return steps.status;
}

/* (a, b, scale, zero, bias) */
static enum sp_status evaluate_dynamic_matmul(struct sp_call *call)
{
    struct sp_steps steps = {call, SP_OK};
    const struct sp_numbers *x = sp_call_in(call, 0);
    if (!has_rows(x) || !has_rows(sp_call_in(call, 1)) || sp_call_in(call, 2) == NULL || x->count == 0)
        return sp_evaluate_by_rule(call);
    const struct dynamic made = quantise_by_range(&steps, x);
    const struct sp_numbers *in[] = {made.y,    call->in[1],         made.scale,         call->in[2],
                                     made.zero, sp_call_in(call, 3), sp_call_in(call, 4)};
    struct sp_call inner = *call;
    inner.in = in;
    inner.in_count = 7;
    return steps.status == SP_OK ? evaluate_matmul_to_float(&inner) : steps.status;
}

/* ---- convolutions ----------------------------------------------------------------------------------------------- */

static struct sp_numbers *convolve(struct sp_steps *steps, const struct sp_numbers *x, const struct sp_numbers *w,
                                   const struct sp_numbers *bias)
{
    const struct sp_numbers *in[] = {x, w, bias};
    struct sp_numbers *out = NULL;
    struct sp_call inner = *steps->call;
    inner.in = in;
    inner.in_count = 3;
    inner.out = &out;
    inner.out_count = 1;
    if (steps->status == SP_OK)
        steps->status = sp_evaluate_conv(&inner);
    return out;
}

static enum sp_status evaluate_conv_integer(struct sp_call *call)
{
    struct sp_steps steps = {call, SP_OK};
    if (sp_call_in(call, 0) == NULL || sp_call_in(call, 1) == NULL)
        return sp_call_refuse(call, "an operand is missing");
    call->out[0] = convolve(&steps, centred(&steps, call->in[0], sp_call_in(call, 2), 0),
                            centred(&steps, call->in[1], sp_call_in(call, 3), 0), NULL);
    return steps.status;
}

/* (x, scale, zero, w, scale, zero, scale, zero, bias) */
static enum sp_status evaluate_conv_quantised(struct sp_call *call)
{
    struct sp_steps steps = {call, SP_OK};
    if (call->in_count < 8 || call->in[0] == NULL || call->in[3] == NULL || call->in[0]->rank < 3 ||
        call->in[1] == NULL || call->in[4] == NULL || call->in[6] == NULL || call->in[7] == NULL)
        return sp_evaluate_by_rule(call);
    const bool is_last = sp_node_int(call->node, "channels_last", 0) != 0;
    const struct sp_numbers *x = is_last ? sp_step_channels(&steps, call->in[0], 1) : call->in[0];
    struct sp_numbers *sum = convolve(&steps, centred(&steps, x, call->in[2], 0),
                                      centred(&steps, call->in[3], call->in[5], 0), sp_call_in(call, 8));
    if (steps.status != SP_OK)
        return steps.status;
    const struct sp_numbers *factor =
        factor_of(&steps, beside(&steps, call->in[1], sum, 1), beside(&steps, call->in[4], sum, 1),
                  beside(&steps, call->in[6], sum, 1));
    if (steps.status == SP_OK)
        sum = sp_step(&steps, as_float(&steps, sum, factor->dtype), factor, sp_number_multiply);
    const struct sp_numbers *zero = steps.status == SP_OK ? beside(&steps, call->in[7], sum, 1) : NULL;
    sum = rounded(&steps, sum, zero, call->in[7]->dtype);
    call->out[0] = is_last ? sp_step_channels(&steps, sum, sum != NULL ? sum->rank - 1 : 0) : sum;
    return steps.status;
}

/* (x, scale, zero, scale, zero) */
static enum sp_status evaluate_pool_quantised(struct sp_call *call)
{
    struct sp_steps steps = {call, SP_OK};
    if (call->in_count < 4 || call->in[0] == NULL || call->in[1] == NULL || call->in[3] == NULL ||
        call->in[0]->rank < 3)
        return sp_evaluate_by_rule(call);
    const bool is_last = sp_node_int(call->node, "channels_last", 0) != 0;
    const enum sp_dtype dtype = call->in[0]->dtype;
    const struct sp_numbers *x = is_last ? sp_step_channels(&steps, call->in[0], 1) : call->in[0];
    x = centred(&steps, x, sp_call_in(call, 2), 0);
    const struct sp_numbers *by = beside(&steps, call->in[1], x, 0), *to = beside(&steps, call->in[3], x, 0);
    if (steps.status == SP_OK)
        x = sp_step(&steps, as_float(&steps, x, call->in[1]->dtype), by, sp_number_multiply);
    struct sp_numbers *y = NULL;
    struct sp_call inner = *call;
    inner.in = &x;
    inner.in_count = 1;
    inner.out = &y;
    if (steps.status == SP_OK)
        steps.status = sp_evaluate_pool(&inner);
    const struct sp_numbers *zero = steps.status == SP_OK ? beside(&steps, sp_call_in(call, 4), y, 0) : NULL;
    y = steps.status == SP_OK ? rounded(&steps, sp_step(&steps, y, to, sp_number_divide), zero, dtype) : NULL;
    call->out[0] = is_last && y != NULL ? sp_step_channels(&steps, y, y->rank - 1) : y;
    return steps.status;
}

/* (a, scale, zero, b, scale, zero, c, scale, zero): without the last two the result is not quantised. */
static enum sp_status evaluate_gemm_quantised(struct sp_call *call)
{
    static const uint32_t turned[] = {1, 0};
    struct sp_steps steps = {call, SP_OK};
    if (call->in_count < 6 || call->in[0] == NULL || call->in[0]->rank != 2 || call->in[3] == NULL ||
        call->in[3]->rank != 2 || call->in[1] == NULL || call->in[4] == NULL)
        return sp_evaluate_by_rule(call);
    const struct sp_numbers *a = call->in[0], *b = call->in[3], *c = sp_call_in(call, 6), *to = sp_call_in(call, 7),
                            *zero = sp_call_in(call, 8);
    if (sp_node_int(call->node, "transA", 0) != 0)
        a = sp_step_transpose(&steps, a, turned);
    if (sp_node_int(call->node, "transB", 0) != 0)
        b = sp_step_transpose(&steps, b, turned);
    if (steps.status != SP_OK)
        return steps.status;
    struct sp_numbers *sum = multiply(&steps, centred(&steps, a, call->in[2], 0), centred(&steps, b, call->in[5], -1));
    const struct sp_numbers *factor =
        factor_of(&steps, beside(&steps, call->in[1], a, 0), beside(&steps, call->in[4], b, -1), NULL);
    if (steps.status != SP_OK)
        return steps.status;
    const double alpha = sp_node_float(call->node, "alpha", 1);
    factor = sp_step(&steps, factor, sp_step_number(&steps, factor->dtype, alpha), sp_number_multiply);
    if (c != NULL)
        sum = sp_step(&steps, sum, c, sp_integer_add);
    if (steps.status == SP_OK)
        sum = sp_step(&steps, as_float(&steps, sum, factor->dtype), factor, sp_number_multiply);
    if (steps.status == SP_OK && to != NULL)
        sum = rounded(&steps, sp_step(&steps, sum, beside(&steps, to, sum, -1), sp_number_divide),
                      beside(&steps, zero, sum, -1), zero != NULL ? zero->dtype : SP_DTYPE_UINT8);
    call->out[0] = sum;
    return steps.status;
}

/* ---- packed tables ---------------------------------------------------------------------------------------------- */

/* Bytes that hold two numbers along the last axis, the lower half first. */
static struct sp_numbers *unpacked(struct sp_steps *steps, const struct sp_numbers *x, int64_t bits)
{
    struct sp_index_axis axes[SP_MAX_RANK];
    struct sp_numbers *out = NULL;
    const uint32_t halves = bits == 4 ? 2 : 1;
    if (steps->status == SP_OK && (x->rank == 0 || x->rank > SP_MAX_RANK || !x->is_known || !sp_numbers_is_complete(x)))
        steps->status = sp_call_refuse(steps->call, "its numbers are not known");
    for (uint32_t i = 0; steps->status == SP_OK && i < x->rank; i++)
        axes[i] = sp_index_all(x->axes[i].extent * (i + 1 == x->rank ? halves : 1));
    if (steps->status == SP_OK)
        steps->status = sp_numbers_create(steps->call->arena, x->dtype, x->rank, axes, &out, steps->call->err);
    for (uint64_t i = 0; steps->status == SP_OK && i < out->count; i++) {
        const int64_t byte = sp_numbers_int(x, i / halves);
        out->items[i] = sp_number_of_int(halves == 1 ? byte : i % 2 == 0 ? byte & 15 : byte >> 4 & 15);
    }
    if (steps->status == SP_OK)
        out->is_known = true;
    return out;
}

/* Rows along an axis at known indices. */
static struct sp_numbers *rows_at(struct sp_steps *steps, const struct sp_numbers *x, const struct sp_numbers *indices,
                                  uint32_t axis)
{
    int64_t extents[2 * SP_MAX_RANK];
    uint32_t rank = 0;
    struct sp_numbers *out = NULL;
    if (steps->status != SP_OK)
        return NULL;
    uint32_t *from = SP_NEW_ARRAY(steps->call->arena, indices->count, uint32_t);
    if (from == NULL) {
        steps->status = sp_fail_memory(steps->call->err);
        return NULL;
    }
    for (uint64_t i = 0; steps->status == SP_OK && i < indices->count; i++) {
        const int64_t own = sp_numbers_int(indices, i), at = own < 0 ? own + x->axes[axis].extent : own;
        if (at < 0 || at >= x->axes[axis].extent)
            steps->status = sp_call_refuse(steps->call, "an index is not among those that are looked at");
        from[i] = (uint32_t)at;
    }
    for (uint32_t i = 0; steps->status == SP_OK && i < x->rank; i++) {
        if (i != axis)
            extents[rank++] = x->axes[i].extent;
        for (uint32_t k = 0; i == axis && k < indices->rank; k++)
            extents[rank++] = indices->axes[k].extent;
    }
    const struct sp_index_axis places = sp_index_all(steps->status == SP_OK ? (int64_t)indices->count : 0);
    if (steps->status == SP_OK)
        steps->status = sp_numbers_take(steps->call->arena, x, axis, &places, from, &out, steps->call->err);
    return steps->status == SP_OK ? sp_step_reshape(steps, out, rank, extents) : NULL;
}

/* (table, indices, scales, zeros): rows of a table of bytes, in blocks along the last axis. */
static enum sp_status evaluate_rows_quantised(struct sp_call *call)
{
    struct sp_steps steps = {call, SP_OK};
    const struct sp_numbers *x = sp_call_in(call, 0), *indices = sp_call_in(call, 1), *scale = sp_call_in(call, 2),
                            *zeros = sp_call_in(call, 3);
    const int64_t bits = sp_node_int(call->node, "bits", 4);
    uint32_t axis, along;
    if (x == NULL || indices == NULL || scale == NULL || x->dtype != SP_DTYPE_UINT8 || (bits != 4 && bits != 8) ||
        !x->is_known || !indices->is_known || !sp_numbers_is_complete(indices) || x->rank + indices->rank > SP_MAX_RANK)
        return sp_evaluate_by_rule(call);
    enum sp_status status = sp_call_axis(call, sp_node_int(call->node, "gather_axis", 0), x->rank, &axis);
    if (status == SP_OK)
        status = sp_call_axis(call, sp_node_int(call->node, "quantize_axis", 1), x->rank, &along);
    if (status != SP_OK || along + 1 != x->rank || axis == along)
        return status != SP_OK ? status : sp_evaluate_by_rule(call);
    const struct sp_numbers *own = unpacked(&steps, x, bits),
                            *zero = zeros != NULL ? unpacked(&steps, zeros, bits)
                                                  : sp_step_number(&steps, SP_DTYPE_UINT8, bits == 4 ? 8 : 128);
    own = centred(&steps, own, zero, along);
    const struct sp_numbers *by = beside(&steps, scale, own, along);
    if (steps.status == SP_OK)
        own = sp_step(&steps, as_float(&steps, own, scale->dtype), by, sp_number_multiply);
    call->out[0] = rows_at(&steps, own, indices, axis);
    return steps.status;
}

const struct sp_evaluator_entry sp_evaluators_quantised[] = {
    {"QuantizeLinear", evaluate_quantize},
    {"DequantizeLinear", evaluate_dequantize},
    {"DynamicQuantizeLinear", evaluate_dynamic},
    {"MatMulInteger", evaluate_matmul_integer},
    {"MatMulInteger16", evaluate_matmul_integer},
    {"QLinearMatMul", evaluate_matmul_quantised},
    {"MatMulIntegerToFloat", evaluate_matmul_to_float},
    {"DynamicQuantizeMatMul", evaluate_dynamic_matmul},
    {"ConvInteger", evaluate_conv_integer},
    {"QLinearConv", evaluate_conv_quantised},
    {"QLinearAveragePool", evaluate_pool_quantised},
    {"QGemm", evaluate_gemm_quantised},
    {"GatherBlockQuantized", evaluate_rows_quantised},
    {NULL, NULL},
};
