/*
 * resolve_cost - what one way to cut the factors of a node makes its devices receive.
 *
 * Only the volume counts, as if the best collective moved nothing twice: an all-gather, an all-to-all and a permutation
 * receive what is needed and not held. Where cuts of one dim have nothing in common, a device holds by chance what it
 * needs.
 */
#include "infer/propagate/resolve_internal.h"

/* Shards of what both lists begin with. */
static int64_t common_shards(const struct sp_axis_list *a, const struct sp_axis_list *b)
{
    int64_t shards = 1;
    for (uint32_t i = 0; i < a->count && i < b->count; i++) {
        const struct sp_axis_ref *x = &a->refs[i], *y = &b->refs[i];
        if (x->axis != y->axis || x->pre != y->pre)
            break;
        int64_t smaller = x->size < y->size ? x->size : y->size, larger = x->size < y->size ? y->size : x->size;
        if (larger % smaller == 0)
            shards *= smaller;
        if (x->size != y->size)
            break;
    }
    return shards;
}

/* Of a whole tensor: the share that is needed as `to` cuts a dim, and how much of it is there, as `from` cuts it. */
static void add_dim(const struct sp_axis_list *from, const struct sp_axis_list *to, double *needed, double *held)
{
    *needed /= (double)sp_axes_size(to);
    *held *= (double)common_shards(from, to) / (double)sp_axes_size(from) / (double)sp_axes_size(to);
}

/* Pieces that are not equal are gathered by the operator. */
static bool is_gathered(const struct sp_resolving *all, const struct sp_axis_factors *dim)
{
    for (uint8_t k = 0; k < dim->count; k++) {
        if (!sp_resolve_divides(all, dim->factors[k], &all->lists[dim->factors[k]]))
            return true;
    }
    return false;
}

static enum sp_status receive_input(struct sp_resolving *all, uint32_t operand, double *ret_share)
{
    const struct sp_sharding *from = all->operands[operand].sharding;
    const struct sp_operand_rule *rule = sp_rule_operand(all->rule, operand);
    double needed = 1, held = 1;
    for (uint32_t axis = 0; axis < rule->rank; axis++) {
        struct sp_axis_list none = {0}, to;
        enum sp_status status = sp_resolve_dim(all, operand, axis, &to);
        if (status != SP_OK)
            return status;
        add_dim(from != NULL ? &from->dims[axis].axes : &none, is_gathered(all, &rule->axes[axis]) ? &none : &to,
                &needed, &held);
    }
    *ret_share = needed - held;
    return SP_OK;
}

/* Whether a ref is one along which the node combines parts of this output. */
static bool is_combined(const struct sp_resolving *all, uint32_t operand, struct sp_axis_ref ref)
{
    for (uint32_t f = 0; f < all->rule->factor_count; f++) {
        if (all->rule->factors[f].kind != SP_FACTOR_REDUCTION || sp_resolve_split(all, operand, f) != NULL)
            continue;
        for (uint32_t i = 0; i < all->lists[f].count; i++) {
            if (sp_axis_overlaps(all->lists[f].refs[i], ref))
                return true;
        }
    }
    return false;
}

/* Devices that combine one part of this output. */
static double group_of(const struct sp_resolving *all, uint32_t operand)
{
    double group = 1;
    for (uint32_t f = 0; f < all->rule->factor_count; f++) {
        if (all->rule->factors[f].kind == SP_FACTOR_REDUCTION && sp_resolve_split(all, operand, f) == NULL)
            group *= (double)sp_axes_size(&all->lists[f]);
    }
    return group;
}

/* Shards of a dim that the combining leaves behind: `to` is `made` cut further along axes that are combined. */
static double scattered(const struct sp_resolving *all, uint32_t operand, const struct sp_axis_list *made,
                        const struct sp_axis_list *to)
{
    if (!sp_axes_is_prefix(made, to))
        return 1;
    for (uint32_t i = made->count; i < to->count; i++) {
        if (!is_combined(all, operand, to->refs[i]))
            return 1;
    }
    return (double)sp_axes_size(to) / (double)sp_axes_size(made);
}

static enum sp_status receive_output(struct sp_resolving *all, uint32_t operand, double *ret_share)
{
    const struct sp_sharding *to = all->operands[operand].sharding;
    const struct sp_operand_rule *rule = sp_rule_operand(all->rule, operand);
    double part = 1, needed = 1, held = 1, left = 1, group = group_of(all, operand);
    for (uint32_t axis = 0; axis < rule->rank; axis++) {
        struct sp_axis_list made;
        enum sp_status status = sp_resolve_dim(all, operand, axis, &made);
        if (status != SP_OK)
            return status;
        const struct sp_axis_list *wanted = to != NULL ? &to->dims[axis].axes : &made;
        double here = group > 1 ? scattered(all, operand, &made, wanted) : 1;
        part /= (double)sp_axes_size(&made);
        left *= here;
        add_dim(here > 1 ? wanted : &made, wanted, &needed, &held);
    }
    *ret_share = needed - held + part * (1 - 1 / left);
    if (left < group)
        *ret_share += 2 * part / left * (1 - left / group);
    return SP_OK;
}

enum sp_status sp_resolve_bytes(struct sp_resolving *all, double *ret_bytes)
{
    double bytes = 0;
    for (uint32_t i = 0; i < all->operand_count; i++) {
        double share = 0;
        if (all->operands[i].is_absent)
            continue;
        enum sp_status status =
            i < all->rule->input_count ? receive_input(all, i, &share) : receive_output(all, i, &share);
        if (status != SP_OK)
            return status;
        bytes += share * all->operands[i].bytes;
    }
    *ret_bytes = bytes;
    return SP_OK;
}
