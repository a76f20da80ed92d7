/* What evaluators read of a node's operands and attributes. */
#include "verify/operators/evaluate.h"

#include <string.h>

#define CHANNELS_LAST_PREFIX "Nhwc"

const char *sp_evaluated_name(const struct sp_node *node)
{
    const size_t prefix = strlen(CHANNELS_LAST_PREFIX);
    return strncmp(node->op_type, CHANNELS_LAST_PREFIX, prefix) == 0 ? node->op_type + prefix : node->op_type;
}

enum sp_status sp_call_ints(struct sp_call *call, uint32_t i, uint32_t *ret_count, const int64_t **ret_ints)
{
    const struct sp_numbers *x = sp_call_in(call, i);
    if (x == NULL || !x->is_known || !sp_numbers_is_complete(x) || x->rank > 1)
        return sp_call_refuse(call, "its shape or axes are not known");
    int64_t *ints = SP_NEW_ARRAY(call->arena, x->count, int64_t);
    if (ints == NULL)
        return sp_fail_memory(call->err);
    for (uint64_t k = 0; k < x->count; k++)
        ints[k] = sp_numbers_int(x, k);
    *ret_count = (uint32_t)x->count;
    *ret_ints = ints;
    return SP_OK;
}

enum sp_status sp_call_attribute_or_ints(struct sp_call *call, const char *name, uint32_t i, uint32_t *ret_count,
                                         const int64_t **ret_ints)
{
    const struct sp_attribute *attribute = sp_node_attribute(call->node, name);
    if (attribute != NULL && (attribute->type == SP_ATTR_INTS || attribute->type == SP_ATTR_INT)) {
        *ret_count = attribute->type == SP_ATTR_INTS ? attribute->count : 1;
        *ret_ints = attribute->type == SP_ATTR_INTS ? attribute->ints : &attribute->i;
        return SP_OK;
    }
    *ret_count = 0;
    *ret_ints = NULL;
    return sp_call_in(call, i) != NULL ? sp_call_ints(call, i, ret_count, ret_ints) : SP_OK;
}

enum sp_status sp_call_axis(struct sp_call *call, int64_t axis, uint32_t rank, uint32_t *ret_axis)
{
    const int64_t index = axis < 0 ? axis + rank : axis;
    if (index < 0 || index >= rank)
        return sp_fail(call->err, SP_ERR_MODEL, "AXIS_MISSING", "It names axis %lld of %u.", (long long)axis, rank);
    *ret_axis = (uint32_t)index;
    return SP_OK;
}
