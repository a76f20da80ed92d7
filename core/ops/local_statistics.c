#include "ops/local_statistics.h"

#include "base/arith.h"
#include "base/limits.h"
#include "ops/local_places.h"

struct sp_local_span sp_local_reductions(struct sp_local *local, uint32_t input)
{
    struct sp_local_span span = {.share = 1};
    const struct sp_operand_rule *operand = &local->rule->inputs[input];
    uint8_t *factors = SP_NEW_ARRAY(local->arena, local->factor_count, uint8_t);
    if (factors == NULL) {
        sp_local_failed(local, sp_fail_memory(local->err));
        return span;
    }
    for (uint32_t axis = 0; axis < operand->rank; axis++) {
        for (uint8_t i = 0; i < operand->axes[axis].count; i++) {
            if (local->rule->factors[operand->axes[axis].factors[i]].kind == SP_FACTOR_REDUCTION)
                span.axes |= (uint64_t)1 << axis;
        }
    }
    for (uint32_t i = 0; i < local->factor_count; i++) {
        const struct sp_local_factor *factor = &local->factors[i];
        if (!factor->is_split || local->rule->factors[i].kind != SP_FACTOR_REDUCTION)
            continue;
        factors[span.factor_count++] = (uint8_t)i;
        span.share *= (double)factor->size / (double)factor->extent;
    }
    span.factors = factors;
    return span;
}

enum sp_dtype sp_local_wide(enum sp_dtype dtype)
{
    return dtype == SP_DTYPE_DOUBLE || !sp_dtype_is_float(dtype) ? SP_DTYPE_DOUBLE : SP_DTYPE_FLOAT;
}

enum sp_dtype sp_local_output_dtype(const struct sp_local *local, uint32_t output)
{
    const struct sp_value *value = output < local->output_count ? local->outputs[output].value : NULL;
    return value != NULL ? value->type.dtype : SP_DTYPE_UNDEFINED;
}

void sp_local_give(struct sp_local *local, uint32_t output, struct sp_piece *piece)
{
    enum sp_dtype dtype = sp_local_output_dtype(local, output);
    if (dtype != SP_DTYPE_UNDEFINED)
        sp_local_output(local, output, sp_local_cast(local, piece, dtype));
}

#define BROADCASTS_SINCE 7

struct sp_piece *sp_local_with(struct sp_local *local, const char *op_type, struct sp_piece *a, struct sp_piece *b)
{
    if (a != NULL && b != NULL && local->opset < BROADCASTS_SINCE && a->dims != NULL && b->rank > 0)
        b = sp_local_expand(local, b, a->rank, a->dims);
    return sp_local_binary(local, op_type, a, b);
}

struct sp_piece *sp_local_mean(struct sp_local *local, struct sp_piece *x, const struct sp_local_span *span,
                               bool keep_dims)
{
    if (x == NULL)
        return NULL;
    struct sp_piece *mean = sp_local_reduce(local, "ReduceMean", x, span->axes, keep_dims);
    if (span->factor_count == 0)
        return mean;
    mean = sp_local_binary(local, "Mul", mean, sp_local_scalar(local, x->dtype, span->share));
    return sp_local_all_reduce(local, mean, SP_COMBINE_SUM, span->factor_count, span->factors);
}

struct sp_local_moments sp_local_moments_of(struct sp_local *local, struct sp_piece *x,
                                            const struct sp_local_span *span, bool has_mean)
{
    struct sp_local_moments moments = {.centred = x};
    if (has_mean) {
        moments.mean = sp_local_mean(local, x, span, true);
        moments.centred = sp_local_with(local, "Sub", x, moments.mean);
    }
    struct sp_piece *squares = sp_local_binary(local, "Mul", moments.centred, moments.centred);
    moments.variance = sp_local_mean(local, squares, span, true);
    return moments;
}

struct sp_piece *sp_local_inverse_deviation(struct sp_local *local, struct sp_piece *variance, double epsilon)
{
    if (variance == NULL)
        return NULL;
    struct sp_piece *least = sp_local_scalar(local, variance->dtype, epsilon);
    struct sp_piece *deviation = sp_local_unary(local, "Sqrt", sp_local_binary(local, "Add", variance, least));
    return sp_local_unary(local, "Reciprocal", deviation);
}

struct sp_piece *sp_local_reduce_all(struct sp_local *local, const char *op_type, enum sp_combiner combiner,
                                     struct sp_piece *x, const struct sp_local_span *span, bool keep_dims)
{
    struct sp_piece *part = sp_local_reduce(local, op_type, x, span->axes, keep_dims);
    return sp_local_all_reduce(local, part, combiner, span->factor_count, span->factors);
}

/* ---- positions -------------------------------------------------------------------------------------------------- */

/* The indices less `base`, one by one. */
static struct sp_piece *listed(struct sp_local *local, const struct sp_axis_ranges *ranges, int64_t base)
{
    int64_t size = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < ranges->count; i++)
        size += ranges->ranges[i].limit - ranges->ranges[i].start;
    if ((uint64_t)size > SP_MAX_LOCAL_CONSTANT / sizeof(int64_t)) {
        char label[264];
        sp_local_any_whole(
            local,
            "Node %s is computed whole on every device: a device has %lld elements of an axis, in several "
            "ranges, and a list of them is too long for its program.",
            sp_node_label(local->node, label, sizeof(label)), (long long)size);
        return NULL;
    }
    int64_t *indices = SP_NEW_ARRAY(local->arena, (size_t)size, int64_t);
    if (indices == NULL) {
        sp_local_failed(local, sp_fail_memory(local->err));
        return NULL;
    }
    for (uint32_t i = 0; i < ranges->count; i++) {
        for (int64_t at = ranges->ranges[i].start; at < ranges->ranges[i].limit; at++)
            indices[count++] = at - base;
    }
    return sp_local_ints(local, count, indices);
}

struct sp_piece *sp_local_own_indices(struct sp_local *local, uint8_t factor)
{
    const struct sp_local_factor *own = &local->factors[factor];
    return own->is_contiguous ? sp_local_iota(local, own->start, own->start + own->size)
                              : listed(local, &own->ranges, 0);
}

struct sp_piece *sp_local_keep_own(struct sp_local *local, struct sp_piece *piece, uint32_t axis, uint8_t factor,
                                   int64_t start)
{
    const struct sp_local_factor *own = &local->factors[factor];
    if (own->is_contiguous)
        return sp_local_slice(local, piece, axis, own->start - start, own->start - start + own->size);
    return sp_local_gather(local, piece, listed(local, &own->ranges, start), axis);
}

struct sp_piece *sp_local_to_global(struct sp_local *local, struct sp_piece *positions,
                                    const struct sp_axis_ranges *ranges)
{
    int64_t start = ranges->ranges[0].start;
    if (ranges->count > 1)
        return sp_local_gather(local, listed(local, ranges, 0), positions, 0);
    return start == 0 ? positions
                      : sp_local_binary(local, "Add", positions, sp_local_int(local, SP_DTYPE_INT64, start));
}

void sp_local_coordinates(struct sp_local *local, struct sp_piece *positions, uint32_t rank, const int64_t *extents,
                          struct sp_piece **ret_coordinates)
{
    for (uint32_t axis = rank; axis-- > 1;) {
        struct sp_piece *extent = sp_local_int(local, SP_DTYPE_INT64, extents[axis]);
        struct sp_piece *rows = sp_local_binary(local, "Div", positions, extent);
        ret_coordinates[axis] = sp_local_binary(local, "Sub", positions, sp_local_binary(local, "Mul", rows, extent));
        positions = rows;
    }
    ret_coordinates[0] = positions;
}

struct sp_piece *sp_local_flat(struct sp_local *local, uint32_t rank, const int64_t *extents,
                               struct sp_piece *const *coordinates)
{
    struct sp_piece *positions = coordinates[0];
    for (uint32_t axis = 1; axis < rank; axis++) {
        struct sp_piece *extent = sp_local_int(local, SP_DTYPE_INT64, extents[axis]);
        positions = sp_local_binary(local, "Add", sp_local_binary(local, "Mul", positions, extent), coordinates[axis]);
    }
    return positions;
}

struct sp_piece *sp_local_numbers(struct sp_local *local, uint32_t input, uint64_t axes, int64_t *ret_count)
{
    const struct sp_local_operand *x = &local->inputs[input];
    struct sp_piece *sum = NULL;
    int64_t stride = 1;
    for (uint32_t axis = x->rank; axis-- > 0;) {
        if ((axes >> axis & 1) == 0)
            continue;
        struct sp_piece *own = sp_local_own_indices(local, sp_local_input_factor(local, input, axis));
        if (stride > 1)
            own = sp_local_binary(local, "Mul", own, sp_local_int(local, SP_DTYPE_INT64, stride));
        for (uint32_t behind = axis + 1; behind < x->rank; behind++)
            own = sp_local_unsqueeze(local, own, behind - axis);
        sum = sum == NULL ? own : sp_local_binary(local, "Add", sum, own);
        if (!sp_mul_i64(stride, x->axes[axis].extent, &stride)) {
            sp_local_failed(local, sp_fail(local->err, SP_ERR_LIMIT, "TOO_MANY_ELEMENTS",
                                           "Input %u of node '%.200s' has more elements than can be numbered.", input,
                                           local->node->name));
            return NULL;
        }
    }
    *ret_count = stride;
    return sum;
}

#define WHERE_SINCE 9

/* Without Where in the only type that operators of old versions have for such numbers. */
struct sp_piece *sp_local_candidates(struct sp_local *local, struct sp_piece *positions, struct sp_piece *mask,
                                     int64_t count, bool is_last)
{
    if (local->opset >= WHERE_SINCE) {
        struct sp_piece *none = sp_local_int(local, SP_DTYPE_INT64, is_last ? -1 : count);
        return sp_local_where(local, mask, none, positions);
    }
    struct sp_piece *step = sp_local_int(local, SP_DTYPE_DOUBLE, is_last ? -count : count);
    struct sp_piece *away = sp_local_binary(local, "Mul", sp_local_cast(local, mask, SP_DTYPE_DOUBLE), step);
    positions = sp_local_binary(local, "Add", away, sp_local_cast(local, positions, SP_DTYPE_DOUBLE));
    return sp_local_cast(local, positions, SP_DTYPE_INT64);
}

#define EXTREMES_OF_DOUBLES_SINCE 8
#define EXTREMES_OF_INTS_SINCE    12
#define WHOLE_FLOATS              (INT64_C(1) << 24) /* all positions up to here are numbers of float32, too */

/* Versions of Max and Min before 12 have floats only, and the kernels of the oldest of them no double. */
struct sp_piece *sp_local_first_of_all(struct sp_local *local, struct sp_piece *candidates, int64_t count, bool is_last,
                                       const struct sp_local_span *span)
{
    enum sp_combiner combiner = is_last ? SP_COMBINE_MAX : SP_COMBINE_MIN;
    bool is_narrow = local->opset < EXTREMES_OF_DOUBLES_SINCE && count <= WHOLE_FLOATS;
    if (local->opset < EXTREMES_OF_INTS_SINCE)
        candidates = sp_local_cast(local, candidates, is_narrow ? SP_DTYPE_FLOAT : SP_DTYPE_DOUBLE);
    candidates = sp_local_all_reduce(local, candidates, combiner, span->factor_count, span->factors);
    return sp_local_cast(local, candidates, SP_DTYPE_INT64);
}

bool sp_local_is_even(const struct sp_local *local, uint8_t factor)
{
    const struct sp_local_factor *own = &local->factors[factor];
    int64_t block = (own->extent + own->shards - 1) / own->shards, start = own->shard * block;
    int64_t limit = start + block < own->extent ? start + block : own->extent;
    return own->is_contiguous && own->start == start && own->start + own->size == limit;
}

struct sp_piece *sp_local_along_channels(struct sp_local *local, struct sp_piece *vector, uint32_t rank)
{
    for (uint32_t axis = 1; axis + 1 < rank && vector != NULL; axis++)
        vector = sp_local_unsqueeze(local, vector, axis);
    return vector;
}
