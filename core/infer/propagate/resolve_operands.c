/*
 * resolve_operands - one way to cut each factor of a node, from what its tensors were propagated as.
 *
 * As Shardy inserts explicit reshards: candidates are the lists of axes that tensors have for a factor; what one that
 * is taken overlaps is cut from the others, until none is left. Which are taken is decided by what devices receive.
 */
#include <string.h>

#include "base/limits.h"
#include "infer/propagate/resolve_internal.h"

/* ---- whether anything is to be done ----------------------------------------------------------------------------- */

/* Each tensor's dims are nothing but its factors' cuts. */
static bool is_exact(const struct sp_resolving *all, uint32_t operand)
{
    const struct sp_operand_rule *rule = sp_rule_operand(all->rule, operand);
    const struct sp_sharding *sharding = all->operands[operand].sharding;
    for (uint32_t axis = 0; sharding != NULL && axis < rule->rank; axis++) {
        int64_t shards = 1;
        for (uint8_t i = 0; i < rule->axes[axis].count; i++) {
            const struct sp_factor_split *split = sp_resolve_split(all, operand, rule->axes[axis].factors[i]);
            if (split->overflow.count > 0)
                return false;
            shards *= sp_axes_size(&split->axes);
        }
        if (shards != sp_axes_size(&sharding->dims[axis].axes))
            return false;
    }
    return true;
}

/* Fills all->lists; true when all operands agree on each factor and nothing is cut twice. */
static bool agree(struct sp_resolving *all)
{
    for (uint32_t f = 0; f < all->rule->factor_count; f++) {
        bool is_first = true;
        all->lists[f] = (struct sp_axis_list){0};
        for (uint32_t i = 0; i < all->operand_count; i++) {
            const struct sp_factor_split *split = sp_resolve_split(all, i, f);
            if (split == NULL)
                continue;
            if (!is_first && !sp_resolve_is_same(&all->lists[f], &split->axes))
                return false;
            all->lists[f] = split->axes;
            is_first = false;
        }
        if (sp_resolve_needs_whole(&all->rule->factors[f]) && all->lists[f].count > 0)
            return false;
        for (uint32_t other = 0; all->lists[f].count > 0 && other < f; other++) {
            if (!sp_resolve_can_join(&all->lists[f], &all->lists[other]))
                return false;
        }
    }
    for (uint32_t i = 0; i < all->operand_count; i++) {
        if (!all->operands[i].is_absent && !is_exact(all, i))
            return false;
    }
    return true;
}

/* ---- deciding --------------------------------------------------------------------------------------------------- */

/* An input that stays as it is decides the factors that it has, also those that it has whole; of two that use one axis
   for different factors, the first. */
static enum sp_status follow_fixed(struct sp_resolving *all)
{
    for (uint32_t i = 0; i < all->rule->input_count; i++) {
        for (uint32_t f = 0; all->operands[i].is_fixed && f < all->rule->factor_count; f++) {
            const struct sp_factor_split *split = sp_resolve_split(all, i, f);
            struct sp_axis_list list;
            if (split == NULL || all->is_decided[f])
                continue;
            all->is_decided[f] = true;
            if (sp_resolve_needs_whole(&all->rule->factors[f]))
                continue;
            enum sp_status status = sp_axes_copy(all->scratch, &split->axes, &list, all->err);
            if (status != SP_OK)
                return status;
            for (uint32_t other = 0; other < all->rule->factor_count; other++)
                sp_resolve_truncate(&list, &all->lists[other]);
            all->lists[f] = list;
        }
    }
    return SP_OK;
}

/* ---- the results ------------------------------------------------------------------------------------------------ */

/* What follows for an operand from the cuts of the factors. */
static enum sp_status compose(struct sp_resolving *all, uint32_t operand, struct sp_sharding **ret_sharding)
{
    const struct sp_operand_rule *rule = sp_rule_operand(all->rule, operand);
    struct sp_sharding *sharding = NULL;
    enum sp_status status = sp_sharding_create_axes(all->scratch, all->mesh, rule->rank, &sharding, all->err);
    for (uint32_t axis = 0; status == SP_OK && axis < rule->rank; axis++)
        status = sp_resolve_dim(all, operand, axis, &sharding->dims[axis].axes);
    if (status == SP_OK)
        *ret_sharding = sharding;
    return status;
}

static bool is_same(const struct sp_sharding *a, const struct sp_sharding *b)
{
    for (uint32_t axis = 0; axis < a->rank; axis++) {
        struct sp_axis_list none = {0};
        if (!sp_resolve_is_same(&a->dims[axis].axes, b == NULL ? &none : &b->dims[axis].axes))
            return false;
    }
    return true;
}

/* Whether `finer` is `made` cut further along axes that a reduction of the node joins: then each device keeps only its
   part of the sum. */
static bool is_scattered(const struct sp_resolving *all, const struct sp_sharding *made,
                         const struct sp_sharding *finer)
{
    struct sp_axis_list joined = {.refs = SP_NEW_ARRAY(all->scratch, SP_MAX_SHARDING_AXES, struct sp_axis_ref)};
    if (joined.refs == NULL || finer == NULL)
        return false;
    for (uint32_t f = 0; f < all->rule->factor_count; f++) {
        for (uint32_t i = 0; all->rule->factors[f].kind == SP_FACTOR_REDUCTION && i < all->lists[f].count; i++) {
            if (joined.count < SP_MAX_SHARDING_AXES)
                joined.refs[joined.count++] = all->lists[f].refs[i];
        }
    }
    for (uint32_t axis = 0; axis < made->rank; axis++) {
        const struct sp_axis_list *from = &made->dims[axis].axes, *to = &finer->dims[axis].axes;
        if (!sp_axes_is_prefix(from, to))
            return false;
        for (uint32_t i = from->count; i < to->count; i++) {
            bool is_joined = false;
            for (uint32_t k = 0; k < joined.count; k++)
                is_joined = is_joined || sp_axis_equal(to->refs[i], joined.refs[k]);
            if (!is_joined)
                return false;
        }
    }
    return true;
}

static void note_factors(struct sp_resolving *all, uint32_t operand)
{
    struct sp_resolve_operand *of = &all->operands[operand];
    of->factor = SP_RULE_MAX_FACTORS;
    for (uint32_t f = all->rule->factor_count; f-- > 0;) {
        if (sp_resolve_split(all, operand, f) != NULL && all->lists[f].count > 0)
            of->factor = (uint8_t)f;
    }
    for (uint32_t f = 0; operand >= all->rule->input_count && f < all->rule->factor_count; f++) {
        if (all->rule->factors[f].kind != SP_FACTOR_REDUCTION || all->lists[f].count == 0 ||
            sp_resolve_split(all, operand, f) != NULL)
            continue;
        of->is_combined = true;
        of->factor = (uint8_t)f;
        return;
    }
}

/* Of an axis of several factors the minor one takes what the others leave, if its pieces are equal: else the pieces of
   the axis are none of its factors. */
static void cut_off_uneven(struct sp_resolving *all, uint32_t operand)
{
    const struct sp_operand_rule *rule = sp_rule_operand(all->rule, operand);
    for (uint32_t axis = 0; axis < rule->rank; axis++) {
        const struct sp_axis_factors *dim = &rule->axes[axis];
        if (dim->count < 2)
            continue;
        struct sp_factor_split *minor = &all->projected[operand].splits[dim->factors[dim->count - 1]];
        const struct sp_dim extent = all->rule->factors[dim->factors[dim->count - 1]].extent;
        while (minor->axes.count > 0 && sp_dim_is_known(extent) && extent.value % sp_axes_size(&minor->axes) != 0) {
            minor->overflow = (struct sp_axis_list){1, &minor->axes.refs[minor->axes.count - 1]};
            minor->axes.count--;
        }
    }
}

static enum sp_status finish(struct sp_resolving *all, bool is_agreed)
{
    for (uint32_t i = 0; i < all->operand_count; i++) {
        struct sp_resolve_operand *operand = &all->operands[i];
        struct sp_sharding *made = NULL;
        operand->result = operand->sharding;
        if (operand->is_absent)
            continue;
        note_factors(all, i);
        if (is_agreed || operand->is_fixed)
            continue;
        enum sp_status status = compose(all, i, &made);
        if (status != SP_OK)
            return status;
        bool is_kept = is_same(made, operand->sharding) ||
                       (i >= all->rule->input_count && is_scattered(all, made, operand->sharding));
        if (is_kept)
            continue;
        operand->result = sp_keep_sharding(all->kept, made);
        if (operand->result == NULL)
            return sp_fail_memory(all->err);
    }
    return SP_OK;
}

enum sp_status sp_resolve_node(struct sp_interned *kept, struct sp_arena *scratch, const struct sp_rule *rule,
                               const struct sp_mesh *mesh, struct sp_resolve_operand *operands, struct sp_error *err)
{
    struct sp_error own = {0};
    struct sp_arena_mark mark = sp_arena_mark(scratch);
    struct sp_resolving all = {.kept = kept,
                               .scratch = scratch,
                               .rule = rule,
                               .mesh = mesh,
                               .operands = operands,
                               .operand_count = rule->input_count + rule->output_count,
                               .err = &own};
    enum sp_status status = SP_OK;
    bool is_agreed = false;
    all.projected = SP_NEW_ARRAY(all.scratch, all.operand_count, struct sp_projected);
    if (all.projected == NULL)
        status = sp_fail_memory(&own);
    for (uint32_t i = 0; status == SP_OK && i < all.operand_count; i++) {
        if (!operands[i].is_absent)
            status = sp_project(all.scratch, rule, sp_rule_operand(rule, i), operands[i].sharding, operands[i].shape,
                                &all.projected[i], &own);
        if (!operands[i].is_absent && status == SP_OK)
            cut_off_uneven(&all, i);
    }
    if (status == SP_OK)
        is_agreed = agree(&all);
    if (status == SP_OK && !is_agreed) {
        memset(all.lists, 0, sizeof all.lists);
        status = follow_fixed(&all);
        if (status == SP_OK)
            status = sp_resolve_choose(&all);
    }
    if (status == SP_OK)
        status = finish(&all, is_agreed);
    sp_arena_rewind(scratch, mark);
    if (status != SP_OK && err != NULL)
        *err = own;
    return status;
}
