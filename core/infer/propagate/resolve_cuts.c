/*
 * resolve_cuts - what the cuts of a node's factors are in its operands, and which can be used together.
 */
#include <string.h>

#include "infer/propagate/resolve_internal.h"

const struct sp_factor_split *sp_resolve_split(const struct sp_resolving *all, uint32_t operand, uint32_t factor)
{
    if (all->operands[operand].is_absent || !all->projected[operand].splits[factor].is_present)
        return NULL;
    return &all->projected[operand].splits[factor];
}

bool sp_resolve_needs_whole(const struct sp_factor *factor)
{
    return factor->kind == SP_FACTOR_REPLICATE || factor->kind == SP_FACTOR_SEQUENTIAL;
}

bool sp_resolve_is_same(const struct sp_axis_list *a, const struct sp_axis_list *b)
{
    return a->count == b->count && (a->count == 0 || memcmp(a->refs, b->refs, a->count * sizeof *a->refs) == 0);
}

bool sp_resolve_can_join(const struct sp_axis_list *a, const struct sp_axis_list *b)
{
    for (uint32_t i = 0; i < a->count; i++) {
        for (uint32_t k = 0; k < b->count; k++) {
            if (!sp_axis_can_coexist_without_overlap(a->refs[i], b->refs[k]))
                return false;
        }
    }
    return true;
}

void sp_resolve_truncate(struct sp_axis_list *list, const struct sp_axis_list *other)
{
    sp_axes_truncate_by_overlap(list, other);
    while (list->count > 0 && !sp_resolve_can_join(list, other))
        list->count--;
}

bool sp_resolve_divides(const struct sp_resolving *all, uint32_t factor, const struct sp_axis_list *list)
{
    for (uint32_t i = 0; i < all->operand_count; i++) {
        const struct sp_factor_split *split = sp_resolve_split(all, i, factor);
        if (split != NULL && split->room >= 0 && split->room % sp_axes_size(list) != 0)
            return false;
    }
    return true;
}

enum sp_status sp_resolve_dim(struct sp_resolving *all, uint32_t operand, uint32_t axis, struct sp_axis_list *ret_axes)
{
    const struct sp_axis_factors *dim = &sp_rule_operand(all->rule, operand)->axes[axis];
    enum sp_status status = SP_OK;
    *ret_axes = (struct sp_axis_list){0};
    for (uint8_t k = 0; status == SP_OK && k < dim->count; k++)
        status = sp_axes_append(all->scratch, ret_axes, &all->lists[dim->factors[k]], ret_axes, all->err);
    return status;
}
