/*
 * factor_projection - from the dims of a tensor to the factors of a rule and back.
 */
#include <assert.h>

#include "base/arith.h"
#include "infer/propagate/factor_step.h"

static int64_t extent_of(const struct sp_factor *factor)
{
    return sp_dim_is_known(factor->extent) ? factor->extent.value : -1;
}

/* Moves refs from the front of `rest` to the factor, as far as they divide its extent; what is left of a ref that does
   not divide stays in front of `rest`. *ret_stuck: nothing may follow. */
static enum sp_status deal(struct sp_arena *arena, int64_t extent, struct sp_axis_list *rest,
                           struct sp_factor_split *split, bool *ret_stuck, struct sp_error *err)
{
    split->axes.refs = SP_NEW_ARRAY(arena, rest->count, struct sp_axis_ref);
    if (split->axes.refs == NULL)
        return sp_fail_memory(err);
    *ret_stuck = false;
    for (int64_t left = extent; rest->count > 0 && left != 1 && !*ret_stuck;) {
        struct sp_axis_ref ref = rest->refs[0];
        int64_t part = left < 0 ? ref.size : sp_gcd(left, ref.size);
        assert(part >= 1); /* refs have a size */
        if (part == ref.size) {
            split->axes.refs[split->axes.count++] = ref;
            rest->refs++;
            rest->count--;
            left = left < 0 ? left : left / part;
            continue;
        }
        *ret_stuck = part != left; /* the factor is not used up, and the rest of the ref does not divide it */
        if (part > 1) {
            split->axes.refs[split->axes.count++] = (struct sp_axis_ref){ref.axis, ref.pre, part};
            rest->refs[0] = (struct sp_axis_ref){ref.axis, ref.pre * part, ref.size / part};
        }
        left /= part;
    }
    return SP_OK;
}

static enum sp_status project_dim(struct sp_arena *arena, const struct sp_rule *rule,
                                  const struct sp_axis_factors *factors, const struct sp_dim_sharding *dim,
                                  int64_t extent, struct sp_factor_split *splits, struct sp_error *err)
{
    struct sp_axis_list rest = {0};
    enum sp_status status = dim == NULL ? SP_OK : sp_axes_copy(arena, &dim->axes, &rest, err);
    for (uint8_t i = 0; status == SP_OK && i < factors->count; i++) {
        const struct sp_factor *factor = &rule->factors[factors->factors[i]];
        struct sp_factor_split *split = &splits[factors->factors[i]];
        int64_t own = factors->count == 1 ? extent : extent_of(factor);
        *split = (struct sp_factor_split){.is_present = true,
                                          .is_closed = dim != NULL && !dim->is_open,
                                          .is_minor = i + 1 == factors->count,
                                          .has_block = factor->block > 1};
        split->room = own > 0 && factor->block > 1 ? own / factor->block : own;
        if (split->is_minor) {
            split->axes = rest;
            break;
        }
        bool is_stuck = false;
        status = deal(arena, extent_of(factor), &rest, split, &is_stuck, err);
        if (status == SP_OK && is_stuck) {
            split->overflow = rest;
            rest = (struct sp_axis_list){0};
        }
    }
    return status;
}

enum sp_status sp_project(struct sp_arena *arena, const struct sp_rule *rule, const struct sp_operand_rule *operand,
                          const struct sp_sharding *sharding, const int64_t *shape, struct sp_projected *ret_projected,
                          struct sp_error *err)
{
    struct sp_projected projected = {.splits = SP_NEW_ARRAY(arena, rule->factor_count, struct sp_factor_split),
                                     .elements = 1};
    enum sp_status status = SP_OK;
    if (projected.splits == NULL)
        return sp_fail_memory(err);
    for (uint32_t axis = 0; status == SP_OK && axis < operand->rank; axis++) {
        const struct sp_dim_sharding *dim = sharding == NULL ? NULL : &sharding->dims[axis];
        projected.elements *= shape[axis] < 0 ? 1 : (double)shape[axis];
        status = project_dim(arena, rule, &operand->axes[axis], dim, shape[axis], projected.splits, err);
    }
    if (status == SP_OK && sharding != NULL) {
        projected.barred[0] = &sharding->replicated;
        projected.barred[1] = &sharding->partial;
        projected.barred[2] = &sharding->manual;
    }
    if (status == SP_OK)
        *ret_projected = projected;
    return status;
}

enum sp_status sp_unproject_dim(struct sp_arena *arena, const struct sp_rule *rule, const struct sp_axis_factors *dim,
                                const struct sp_projected *projected, struct sp_axis_list *ret_axes,
                                struct sp_error *err)
{
    struct sp_axis_list axes = {0};
    enum sp_status status = SP_OK;
    for (uint8_t i = 0; status == SP_OK && i < dim->count; i++) {
        const struct sp_factor_split *split = &projected->splits[dim->factors[i]];
        status = sp_axes_append(arena, &axes, &split->axes, &axes, err);
        if (status == SP_OK)
            status = sp_axes_append(arena, &axes, &split->overflow, &axes, err);
        int64_t shards = sp_axes_size(&split->axes);
        if (split->overflow.count > 0 || shards != extent_of(&rule->factors[dim->factors[i]]))
            break; /* what comes behind is another cut than the one of the axis */
    }
    if (status == SP_OK)
        *ret_axes = axes;
    return status;
}
