#include "ops/families/tensor/pads.h"

#include <string.h>

/* Pad-18 may give pads for some axes only. */
static enum sp_status padded_axes(struct sp_op_context *context, uint32_t rank, uint32_t *ret_count,
                                  uint32_t axes[SP_MAX_RANK], bool *ret_known)
{
    struct sp_list list = {0};
    uint64_t mask = 0;
    enum sp_status status = sp_get_list(context, "axes", 18, 3, &list);
    *ret_known = !list.is_given || list.is_known;
    *ret_count = list.is_given ? list.count : rank;
    if (status != SP_OK || !*ret_known)
        return status;
    for (uint32_t i = 0; !list.is_given && i < rank; i++)
        axes[i] = i;
    if (list.is_given)
        status = sp_get_axes(context, &list, rank, &mask); /* checks: then there are at most `rank` of them */
    for (uint32_t i = 0; status == SP_OK && list.is_given && i < list.count; i++)
        status = sp_normalize_axis(context, list.values[i].value, rank, &axes[i]);
    return status;
}

enum sp_status sp_pad_amounts(struct sp_op_context *context, uint32_t rank, struct sp_pads *pads)
{
    struct sp_list list = {0};
    uint32_t axes[SP_MAX_RANK], count = 0;
    bool is_known = false;
    memset(pads, 0, sizeof *pads);
    enum sp_status status = sp_get_list(context, context->version < 2 ? "paddings" : "pads", 11, 1, &list);
    if (status != SP_OK)
        return status;
    if (!list.is_given)
        return sp_op_fail(context, "MISSING_ATTRIBUTE", "its pads are missing");
    status = padded_axes(context, rank, &count, axes, &is_known);
    if (status != SP_OK || !is_known)
        return status;
    if (list.has_count && list.count != 2 * count)
        return sp_op_fail(context, "WRONG_PADS", "it has %u pads for %u axes instead of two for each", list.count,
                          count);
    uint64_t padded = 0;
    pads->count = count;
    for (uint32_t i = 0; i < count; i++) {
        pads->axes[i] = axes[i];
        padded |= (uint64_t)1 << axes[i];
        pads->low[axes[i]] = list.has_values ? list.values[i] : sp_dim_unknown();
        pads->high[axes[i]] = list.has_values ? list.values[count + i] : sp_dim_unknown();
    }
    for (uint32_t axis = 0; axis < rank; axis++) {
        if (!(padded >> axis & 1))
            pads->low[axis] = pads->high[axis] = sp_dim_known(0);
    }
    return SP_OK;
}

int64_t sp_pad_source(const char *mode, int64_t place, int64_t extent)
{
    if ((place >= 0 && place < extent) || extent == 0)
        return extent == 0 ? -1 : place;
    if (strcmp(mode, "edge") == 0)
        return place < 0 ? 0 : extent - 1;
    int64_t period = strcmp(mode, "wrap") == 0 ? extent : strcmp(mode, "reflect") == 0 ? 2 * extent - 2 : 0;
    if (period == 0) /* constant, or one element that is reflected */
        return strcmp(mode, "reflect") == 0 ? 0 : -1;
    int64_t rest = place % period;
    rest += rest < 0 ? period : 0;
    return rest < extent ? rest : period - rest;
}
