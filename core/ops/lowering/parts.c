#include "ops/lowering/parts.h"

#include "base/arith.h"
#include "ops/lowering/places.h"
#include "ops/table/shape_helpers.h"

struct sp_op_context sp_lower_context(const struct sp_lowering *lower)
{
    return (struct sp_op_context){lower->model, lower->arena, lower->model->dims, lower->node, lower->version,
                                  lower->err,   NULL};
}

bool sp_lower_is_split(const struct sp_lowering *lower, uint8_t factor)
{
    return factor < lower->factor_count && lower->factors[factor].is_split;
}

struct sp_range sp_lower_shard(const struct sp_lower_factor *factor, int64_t shard)
{
    const int64_t *bounds = factor->bounds;
    if (bounds != NULL && (shard < 0 || shard >= factor->shards))
        return (struct sp_range){factor->extent, factor->extent};
    int64_t blocks = bounds != NULL ? bounds[factor->shards] : factor->shards, start, limit;
    int64_t chunk = factor->extent / blocks + (factor->extent % blocks != 0);
    if (!sp_mul_i64(bounds != NULL ? bounds[shard] : shard, chunk, &start) || start > factor->extent)
        start = factor->extent;
    if (!sp_mul_i64(bounds != NULL ? bounds[shard + 1] : shard + 1, chunk, &limit) || limit > factor->extent)
        limit = factor->extent;
    return (struct sp_range){start, limit};
}

void sp_lower_refuse(struct sp_lowering *lower, uint8_t factor, const char *why)
{
    char subject[300];
    if (sp_lower_is_split(lower, factor))
        sp_lower_whole(lower, factor,
                       "%s has no form for a split of factor %s: %s. It is computed with the factor whole on every "
                       "device.",
                       sp_op_subject(lower->node, subject, sizeof subject), lower->rule->factors[factor].name, why);
}

bool sp_lower_is_first(struct sp_lowering *lower)
{
    uint32_t count;
    const uint8_t *factors = sp_lower_partial_factors(lower, 0, &count);
    for (uint32_t i = 0; i < count; i++)
        if (lower->factors[factors[i]].shard != 0)
            return false;
    return true;
}

struct sp_piece *sp_lower_input_once(struct sp_lowering *lower, uint32_t input)
{
    uint32_t count;
    struct sp_piece *piece = sp_lower_input(lower, input);
    (void)sp_lower_partial_factors(lower, 0, &count);
    if (piece == NULL || count == 0)
        return piece;
    const int64_t *dims = sp_lower_part_dims(lower, &lower->inputs[input]);
    if (dims != NULL)
        return sp_lower_is_first(lower) ? piece : sp_lower_full(lower, piece->dtype, piece->rank, dims, 0);
    return sp_lower_binary(lower, "Mul", piece, sp_lower_scalar(lower, piece->dtype, sp_lower_is_first(lower) ? 1 : 0));
}

enum sp_status sp_lower_give_sum(struct sp_lowering *lower, struct sp_piece *y)
{
    uint32_t count;
    const uint8_t *factors = sp_lower_partial_factors(lower, 0, &count);
    sp_lower_output_partial(lower, 0, y, SP_COMBINE_SUM, count, factors);
    return sp_lower_status(lower);
}

const int64_t *sp_lower_list(struct sp_lowering *lower, const struct sp_axis_ranges *ranges, int64_t size)
{
    int64_t *list = SP_NEW_ARRAY(lower->arena, (size_t)size, int64_t), next = 0;
    if (list == NULL) {
        sp_lower_failed(lower, sp_fail_memory(lower->err));
        return NULL;
    }
    for (uint32_t i = 0; i < ranges->count; i++)
        for (int64_t at = ranges->ranges[i].start; at < ranges->ranges[i].limit && next < size; at++)
            list[next++] = at;
    return list;
}

struct sp_piece *sp_lower_cut(struct sp_lowering *lower, struct sp_piece *x, uint32_t axis, uint8_t factor)
{
    const struct sp_lower_factor *cut = &lower->factors[factor];
    if (cut->is_contiguous)
        return sp_lower_slice(lower, x, axis, cut->start, cut->start + cut->size);
    return sp_lower_gather(lower, x, sp_lower_indices(lower, factor, &cut->ranges), axis);
}

struct sp_piece *sp_lower_reals(struct sp_lowering *lower, enum sp_dtype dtype, uint32_t rank, const int64_t *dims,
                                const double *values)
{
    size_t count = 1;
    bool is_double = dtype == SP_DTYPE_DOUBLE;
    for (uint32_t i = 0; i < rank; i++)
        if (dims[i] < 0 || !sp_mul_size(count, (size_t)dims[i], &count))
            return NULL;
    if (is_double)
        return sp_lower_tensor(lower, dtype, rank, dims, values, count * sizeof(double));
    float *floats = SP_NEW_ARRAY(lower->arena, count, float);
    if (floats == NULL) {
        sp_lower_failed(lower, sp_fail_memory(lower->err));
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        floats[i] = (float)values[i];
    struct sp_piece *piece = sp_lower_tensor(lower, SP_DTYPE_FLOAT, rank, dims, floats, count * sizeof(float));
    return sp_lower_cast(lower, piece, dtype);
}
