#include "ops/families/math/broadcast.h"

#include "ops/table/shape_helpers.h"

enum sp_status sp_check_broadcasts_to(struct sp_op_context *context, uint32_t input, const struct sp_shape *to)
{
    const struct sp_shape *own = sp_in_shape(context, input);
    if (own == NULL || !to->has_rank)
        return SP_OK;
    if (own->rank > to->rank)
        return sp_op_fail(context, "CANNOT_BROADCAST", "its input %u has %u axes, and broadcasts to only %u", input,
                          own->rank, to->rank);
    for (uint32_t axis = 0; axis < own->rank; axis++) {
        struct sp_dim extent = own->dims[axis], result = to->dims[to->rank - own->rank + axis];
        if (sp_dim_is_known(extent) && extent.value != 1 && sp_dim_is_known(result) && extent.value != result.value)
            return sp_op_fail(context, "CANNOT_BROADCAST",
                              "axis %u of its input %u has %lld elements, which do not broadcast to %lld", axis, input,
                              (long long)extent.value, (long long)result.value);
    }
    return SP_OK;
}
