#include "ops/lowering/statistics.h"

#include "base/arith.h"
#include "base/limits.h"
#include "ops/lowering/parts.h"
#include "ops/lowering/places.h"

struct sp_lower_span sp_lower_reductions(struct sp_lowering *lower, uint32_t input)
{
    struct sp_lower_span span = {.share = 1};
    const struct sp_operand_rule *operand = &lower->rule->inputs[input];
    uint8_t *factors = SP_NEW_ARRAY(lower->arena, lower->factor_count, uint8_t);
    if (factors == NULL) {
        sp_lower_failed(lower, sp_fail_memory(lower->err));
        return span;
    }
    for (uint32_t axis = 0; axis < operand->rank; axis++) {
        for (uint8_t i = 0; i < operand->axes[axis].count; i++) {
            if (lower->rule->factors[operand->axes[axis].factors[i]].kind == SP_FACTOR_REDUCTION)
                span.axes |= (uint64_t)1 << axis;
        }
    }
    for (uint32_t i = 0; i < lower->factor_count; i++) {
        const struct sp_lower_factor *factor = &lower->factors[i];
        if (!factor->is_split || lower->rule->factors[i].kind != SP_FACTOR_REDUCTION)
            continue;
        factors[span.factor_count++] = (uint8_t)i;
        span.share *= (double)factor->size / (double)factor->extent;
    }
    span.factors = factors;
    return span;
}

enum sp_dtype sp_lower_wide(enum sp_dtype dtype)
{
    return dtype == SP_DTYPE_DOUBLE || !sp_dtype_is_float(dtype) ? SP_DTYPE_DOUBLE : SP_DTYPE_FLOAT;
}

enum sp_dtype sp_lower_output_dtype(const struct sp_lowering *lower, uint32_t output)
{
    const struct sp_value *value = output < lower->output_count ? lower->outputs[output].value : NULL;
    return value != NULL ? value->type.dtype : SP_DTYPE_UNDEFINED;
}

void sp_lower_give(struct sp_lowering *lower, uint32_t output, struct sp_piece *piece)
{
    enum sp_dtype dtype = sp_lower_output_dtype(lower, output);
    if (dtype != SP_DTYPE_UNDEFINED)
        sp_lower_output(lower, output, sp_lower_cast(lower, piece, dtype));
}

#define BROADCASTS_SINCE 7

struct sp_piece *sp_lower_with(struct sp_lowering *lower, const char *op_type, struct sp_piece *a, struct sp_piece *b)
{
    if (a != NULL && b != NULL && lower->opset < BROADCASTS_SINCE && a->dims != NULL && b->rank > 0)
        b = sp_lower_expand(lower, b, a->rank, a->dims);
    return sp_lower_binary(lower, op_type, a, b);
}

struct sp_piece *sp_lower_mean(struct sp_lowering *lower, struct sp_piece *x, const struct sp_lower_span *span,
                               bool keep_dims)
{
    if (x == NULL)
        return NULL;
    struct sp_piece *mean = sp_lower_reduce(lower, "ReduceMean", x, span->axes, keep_dims);
    if (span->factor_count == 0)
        return mean;
    mean = sp_lower_binary(lower, "Mul", mean, sp_lower_scalar(lower, x->dtype, span->share));
    return sp_lower_all_reduce(lower, mean, SP_COMBINE_SUM, span->factor_count, span->factors);
}

struct sp_lower_moments sp_lower_moments_of(struct sp_lowering *lower, struct sp_piece *x,
                                            const struct sp_lower_span *span, bool has_mean)
{
    struct sp_lower_moments moments = {.centred = x};
    if (has_mean) {
        moments.mean = sp_lower_mean(lower, x, span, true);
        moments.centred = sp_lower_with(lower, "Sub", x, moments.mean);
    }
    struct sp_piece *squares = sp_lower_binary(lower, "Mul", moments.centred, moments.centred);
    moments.variance = sp_lower_mean(lower, squares, span, true);
    return moments;
}

struct sp_piece *sp_lower_inverse_deviation(struct sp_lowering *lower, struct sp_piece *variance, double epsilon)
{
    if (variance == NULL)
        return NULL;
    struct sp_piece *least = sp_lower_scalar(lower, variance->dtype, epsilon);
    struct sp_piece *deviation = sp_lower_unary(lower, "Sqrt", sp_lower_binary(lower, "Add", variance, least));
    return sp_lower_unary(lower, "Reciprocal", deviation);
}

struct sp_piece *sp_lower_reduce_all(struct sp_lowering *lower, const char *op_type, enum sp_combiner combiner,
                                     struct sp_piece *x, const struct sp_lower_span *span, bool keep_dims)
{
    struct sp_piece *part = sp_lower_reduce(lower, op_type, x, span->axes, keep_dims);
    return sp_lower_all_reduce(lower, part, combiner, span->factor_count, span->factors);
}

/* ---- positions -------------------------------------------------------------------------------------------------- */

/* The indices less `base`, one by one. */
static struct sp_piece *listed(struct sp_lowering *lower, const struct sp_axis_ranges *ranges, int64_t base)
{
    int64_t size = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < ranges->count; i++)
        size += ranges->ranges[i].limit - ranges->ranges[i].start;
    if ((uint64_t)size > SP_MAX_LOCAL_CONSTANT / sizeof(int64_t)) {
        char label[264];
        sp_lower_any_whole(
            lower,
            "Node %s is computed whole on every device: a device has %lld elements of an axis, in several "
            "ranges, and a list of them is too long for its program.",
            sp_node_label(lower->node, label, sizeof label), (long long)size);
        return NULL;
    }
    int64_t *indices = SP_NEW_ARRAY(lower->arena, (size_t)size, int64_t);
    if (indices == NULL) {
        sp_lower_failed(lower, sp_fail_memory(lower->err));
        return NULL;
    }
    for (uint32_t i = 0; i < ranges->count; i++) {
        for (int64_t at = ranges->ranges[i].start; at < ranges->ranges[i].limit; at++)
            indices[count++] = at - base;
    }
    return sp_lower_ints(lower, count, indices);
}

struct sp_piece *sp_lower_own_indices(struct sp_lowering *lower, uint8_t factor)
{
    const struct sp_lower_factor *own = &lower->factors[factor];
    return own->is_contiguous ? sp_lower_iota(lower, own->start, own->start + own->size)
                              : listed(lower, &own->ranges, 0);
}

struct sp_piece *sp_lower_keep_own(struct sp_lowering *lower, struct sp_piece *piece, uint32_t axis, uint8_t factor,
                                   int64_t start)
{
    const struct sp_lower_factor *own = &lower->factors[factor];
    if (own->is_contiguous)
        return sp_lower_slice(lower, piece, axis, own->start - start, own->start - start + own->size);
    return sp_lower_gather(lower, piece, listed(lower, &own->ranges, start), axis);
}

struct sp_piece *sp_lower_to_global(struct sp_lowering *lower, struct sp_piece *positions,
                                    const struct sp_axis_ranges *ranges)
{
    int64_t start = ranges->ranges[0].start;
    if (ranges->count > 1)
        return sp_lower_gather(lower, listed(lower, ranges, 0), positions, 0);
    return start == 0 ? positions
                      : sp_lower_binary(lower, "Add", positions, sp_lower_int(lower, SP_DTYPE_INT64, start));
}

void sp_lower_coordinates(struct sp_lowering *lower, struct sp_piece *positions, uint32_t rank, const int64_t *extents,
                          struct sp_piece **ret_coordinates)
{
    for (uint32_t axis = rank; axis-- > 1;) {
        struct sp_piece *extent = sp_lower_int(lower, SP_DTYPE_INT64, extents[axis]);
        struct sp_piece *rows = sp_lower_binary(lower, "Div", positions, extent);
        ret_coordinates[axis] = sp_lower_binary(lower, "Sub", positions, sp_lower_binary(lower, "Mul", rows, extent));
        positions = rows;
    }
    ret_coordinates[0] = positions;
}

struct sp_piece *sp_lower_flat(struct sp_lowering *lower, uint32_t rank, const int64_t *extents,
                               struct sp_piece *const *coordinates)
{
    struct sp_piece *positions = coordinates[0];
    for (uint32_t axis = 1; axis < rank; axis++) {
        struct sp_piece *extent = sp_lower_int(lower, SP_DTYPE_INT64, extents[axis]);
        positions = sp_lower_binary(lower, "Add", sp_lower_binary(lower, "Mul", positions, extent), coordinates[axis]);
    }
    return positions;
}

struct sp_piece *sp_lower_numbers(struct sp_lowering *lower, uint32_t input, uint64_t axes, int64_t *ret_count)
{
    const struct sp_lower_operand *x = &lower->inputs[input];
    struct sp_piece *sum = NULL;
    int64_t stride = 1;
    for (uint32_t axis = x->rank; axis-- > 0;) {
        if ((axes >> axis & 1) == 0)
            continue;
        struct sp_piece *own = sp_lower_own_indices(lower, sp_lower_input_factor(lower, input, axis));
        if (stride > 1)
            own = sp_lower_binary(lower, "Mul", own, sp_lower_int(lower, SP_DTYPE_INT64, stride));
        for (uint32_t behind = axis + 1; behind < x->rank; behind++)
            own = sp_lower_unsqueeze(lower, own, behind - axis);
        sum = sum == NULL ? own : sp_lower_binary(lower, "Add", sum, own);
        if (!sp_mul_i64(stride, x->axes[axis].extent, &stride)) {
            sp_lower_failed(lower, sp_fail(lower->err, SP_ERR_LIMIT, "TOO_MANY_ELEMENTS",
                                           "Input %u of node '%.200s' has more elements than can be numbered.", input,
                                           lower->node->name));
            return NULL;
        }
    }
    *ret_count = stride;
    return sum;
}

#define WHERE_SINCE 9

/* Without Where in the only type that operators of old versions have for such numbers. */
struct sp_piece *sp_lower_candidates(struct sp_lowering *lower, struct sp_piece *positions, struct sp_piece *mask,
                                     int64_t count, bool is_last)
{
    if (lower->opset >= WHERE_SINCE) {
        struct sp_piece *none = sp_lower_int(lower, SP_DTYPE_INT64, is_last ? -1 : count);
        return sp_lower_where(lower, mask, none, positions);
    }
    struct sp_piece *step = sp_lower_int(lower, SP_DTYPE_DOUBLE, is_last ? -count : count);
    struct sp_piece *away = sp_lower_binary(lower, "Mul", sp_lower_cast(lower, mask, SP_DTYPE_DOUBLE), step);
    positions = sp_lower_binary(lower, "Add", away, sp_lower_cast(lower, positions, SP_DTYPE_DOUBLE));
    return sp_lower_cast(lower, positions, SP_DTYPE_INT64);
}

#define EXTREMES_OF_DOUBLES_SINCE 8
#define EXTREMES_OF_INTS_SINCE    12
#define WHOLE_FLOATS              (INT64_C(1) << 24) /* all positions up to here are numbers of float32, too */

/* Versions of Max and Min before 12 have floats only, and the kernels of the oldest of them no double. */
struct sp_piece *sp_lower_first_of_all(struct sp_lowering *lower, struct sp_piece *candidates, int64_t count,
                                       bool is_last, const struct sp_lower_span *span)
{
    enum sp_combiner combiner = is_last ? SP_COMBINE_MAX : SP_COMBINE_MIN;
    bool is_narrow = lower->opset < EXTREMES_OF_DOUBLES_SINCE && count <= WHOLE_FLOATS;
    if (lower->opset < EXTREMES_OF_INTS_SINCE)
        candidates = sp_lower_cast(lower, candidates, is_narrow ? SP_DTYPE_FLOAT : SP_DTYPE_DOUBLE);
    candidates = sp_lower_all_reduce(lower, candidates, combiner, span->factor_count, span->factors);
    return sp_lower_cast(lower, candidates, SP_DTYPE_INT64);
}

bool sp_lower_is_even(const struct sp_lowering *lower, uint8_t factor)
{
    const struct sp_lower_factor *own = &lower->factors[factor];
    struct sp_range range = sp_lower_shard(own, own->shard);
    return own->is_contiguous && own->start == range.start && own->start + own->size == range.limit;
}

struct sp_piece *sp_lower_along_channels(struct sp_lowering *lower, struct sp_piece *vector, uint32_t rank)
{
    for (uint32_t axis = 1; axis + 1 < rank && vector != NULL; axis++)
        vector = sp_lower_unsqueeze(lower, vector, axis);
    return vector;
}
