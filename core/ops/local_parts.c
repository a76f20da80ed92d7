#include "ops/local_parts.h"

#include "base/arith.h"
#include "ops/infer.h"
#include "ops/local_places.h"

struct sp_op_context sp_local_context(const struct sp_local *local)
{
    return (struct sp_op_context){local->model, local->arena,   local->model->dims,
                                  local->node,  local->version, local->err};
}

bool sp_local_is_split(const struct sp_local *local, uint8_t factor)
{
    return factor < local->factor_count && local->factors[factor].is_split;
}

struct sp_range sp_local_shard(const struct sp_local_factor *factor, int64_t shard)
{
    int64_t chunk = factor->extent / factor->shards + (factor->extent % factor->shards != 0), start, limit;
    if (!sp_mul_i64(shard, chunk, &start) || start > factor->extent)
        start = factor->extent;
    if (!sp_add_i64(start, chunk, &limit) || limit > factor->extent)
        limit = factor->extent;
    return (struct sp_range){start, limit};
}

void sp_local_refuse(struct sp_local *local, uint8_t factor, const char *why)
{
    char subject[300];
    if (sp_local_is_split(local, factor))
        sp_local_whole(local, factor,
                       "%s has no form for a split of factor %s: %s. It is computed with the factor whole on every "
                       "device.",
                       sp_op_subject(local->node, subject, sizeof subject), local->rule->factors[factor].name, why);
}

bool sp_local_is_first(struct sp_local *local)
{
    uint32_t count;
    const uint8_t *factors = sp_local_partial_factors(local, 0, &count);
    for (uint32_t i = 0; i < count; i++)
        if (local->factors[factors[i]].shard != 0)
            return false;
    return true;
}

struct sp_piece *sp_local_input_once(struct sp_local *local, uint32_t input)
{
    uint32_t count;
    struct sp_piece *piece = sp_local_input(local, input);
    (void)sp_local_partial_factors(local, 0, &count);
    if (piece == NULL || count == 0)
        return piece;
    const int64_t *dims = sp_local_part_dims(local, &local->inputs[input]);
    if (dims != NULL)
        return sp_local_is_first(local) ? piece : sp_local_full(local, piece->dtype, piece->rank, dims, 0);
    return sp_local_binary(local, "Mul", piece, sp_local_scalar(local, piece->dtype, sp_local_is_first(local) ? 1 : 0));
}

enum sp_status sp_local_give_sum(struct sp_local *local, struct sp_piece *y)
{
    uint32_t count;
    const uint8_t *factors = sp_local_partial_factors(local, 0, &count);
    sp_local_output_partial(local, 0, y, SP_COMBINE_SUM, count, factors);
    return sp_local_status(local);
}

const int64_t *sp_local_list(struct sp_local *local, const struct sp_axis_ranges *ranges, int64_t size)
{
    int64_t *list = SP_NEW_ARRAY(local->arena, (size_t)size, int64_t), next = 0;
    if (list == NULL) {
        sp_local_failed(local, sp_fail_memory(local->err));
        return NULL;
    }
    for (uint32_t i = 0; i < ranges->count; i++)
        for (int64_t at = ranges->ranges[i].start; at < ranges->ranges[i].limit && next < size; at++)
            list[next++] = at;
    return list;
}

struct sp_piece *sp_local_cut(struct sp_local *local, struct sp_piece *x, uint32_t axis, uint8_t factor)
{
    const struct sp_local_factor *cut = &local->factors[factor];
    if (cut->is_contiguous)
        return sp_local_slice(local, x, axis, cut->start, cut->start + cut->size);
    return sp_local_gather(local, x, sp_local_indices(local, factor, &cut->ranges), axis);
}

struct sp_piece *sp_local_reals(struct sp_local *local, enum sp_dtype dtype, uint32_t rank, const int64_t *dims,
                                const double *values)
{
    size_t count = 1;
    bool is_double = dtype == SP_DTYPE_DOUBLE;
    for (uint32_t i = 0; i < rank; i++)
        if (dims[i] < 0 || !sp_mul_size(count, (size_t)dims[i], &count))
            return NULL;
    if (is_double)
        return sp_local_tensor(local, dtype, rank, dims, values, count * sizeof(double));
    float *floats = SP_NEW_ARRAY(local->arena, count, float);
    if (floats == NULL) {
        sp_local_failed(local, sp_fail_memory(local->err));
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        floats[i] = (float)values[i];
    struct sp_piece *piece = sp_local_tensor(local, SP_DTYPE_FLOAT, rank, dims, floats, count * sizeof(float));
    return sp_local_cast(local, piece, dtype);
}
