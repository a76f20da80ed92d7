#include "ops/families/tensor/slice.h"

#include "ops/table/shape_helpers.h"

static enum sp_status check_counts(struct sp_op_context *context, const struct sp_list *starts,
                                   const struct sp_list *others, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (others[i].is_given && others[i].has_count && starts->has_count && others[i].count != starts->count)
            return sp_op_fail(context, "SHAPES_DISAGREE",
                              "its starts, ends, axes and steps have different lengths (%u and %u)", starts->count,
                              others[i].count);
    }
    return SP_OK;
}

static struct sp_dim item(const struct sp_list *list, uint32_t i, struct sp_dim otherwise)
{
    if (!list->is_given)
        return otherwise;
    return list->has_values && i < list->count ? list->values[i] : sp_dim_unknown();
}

enum sp_status sp_slice_ranges(struct sp_op_context *context, uint32_t rank, struct sp_slice_range *ranges,
                               bool *ret_known)
{
    struct sp_list starts = {0}, others[3] = {{0}}; /* ends, axes, steps */
    enum sp_status status = sp_get_list(context, "starts", 10, 1, &starts);
    if (status == SP_OK)
        status = sp_get_list(context, "ends", 10, 2, &others[0]);
    if (status == SP_OK)
        status = sp_get_list(context, "axes", 10, 3, &others[1]);
    if (status == SP_OK && context->version >= 10)
        status = sp_get_list(context, "steps", 10, 4, &others[2]);
    if (status == SP_OK)
        status = check_counts(context, &starts, others, 3);
    if (status != SP_OK)
        return status;
    if (!starts.is_given || !others[0].is_given)
        return sp_op_fail(context, "MISSING_ATTRIBUTE", "its starts or ends are missing");
    const struct sp_list *axes = &others[1];
    *ret_known = starts.has_count && (!axes->is_given || axes->is_known);
    if (!*ret_known)
        return SP_OK;
    uint64_t mask = 0;
    if (starts.count > rank)
        return sp_op_fail(context, "SHAPES_DISAGREE", "it slices %u axes of a tensor with %u", starts.count, rank);
    if (axes->is_given)
        status = sp_get_axes(context, axes, rank, &mask);
    for (uint32_t i = 0; status == SP_OK && i < starts.count; i++) {
        uint32_t axis = i;
        if (axes->is_given)
            status = sp_normalize_axis(context, axes->values[i].value, rank, &axis);
        struct sp_dim step = item(&others[2], i, sp_dim_known(1));
        if (sp_dim_is(step, 0))
            return sp_op_fail(context, "ZERO_STEP", "its step on axis %u is zero", axis);
        ranges[axis] = (struct sp_slice_range){true, i, item(&starts, i, sp_dim_unknown()),
                                               item(&others[0], i, sp_dim_unknown()), step};
    }
    return status;
}

bool sp_slice_is_known(const struct sp_slice_range *range)
{
    return sp_dim_is_known(range->start) && sp_dim_is_known(range->end) && sp_dim_is_known(range->step);
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

int64_t sp_slice_count(int64_t extent, const struct sp_slice_range *range, int64_t *ret_first)
{
    int64_t start = range->start.value, end = range->end.value, step = range->step.value;
    start += start < 0 ? extent : 0; /* extent >= 0, so no overflow */
    end += end < 0 ? extent : 0;
    if (step > 0) {
        start = clamp(start, 0, extent);
        end = clamp(end, 0, extent);
        *ret_first = start;
        return end <= start ? 0 : (end - start - 1) / step + 1;
    }
    start = clamp(start, 0, extent - 1);
    end = clamp(end, -1, extent - 1);
    *ret_first = start;
    if (start <= end || extent == 0)
        return 0;
    return step == INT64_MIN ? 1 : (start - end - 1) / -step + 1;
}
