#include "ops/bodies/unify.h"

#include "base/arith.h"
#include "base/array.h"

uint32_t sp_unifier_add(struct sp_unifier *unifier, const struct sp_factor *factor)
{
    if (!SP_PUSH(unifier->arena, unifier, (struct sp_unified){unifier->count, *factor})) {
        unifier->is_out_of_memory = true;
        return UINT32_MAX;
    }
    return unifier->count - 1;
}

uint32_t sp_unifier_root(struct sp_unifier *unifier, uint32_t factor)
{
    while (unifier->items[factor].parent != factor) {
        unifier->items[factor].parent = unifier->items[unifier->items[factor].parent].parent;
        factor = unifier->items[factor].parent;
    }
    return factor;
}

void sp_unifier_replicate(struct sp_unifier *unifier, uint32_t factor)
{
    unifier->items[sp_unifier_root(unifier, factor)].factor.kind = SP_FACTOR_REPLICATE;
}

void sp_unifier_replicate_axis(struct sp_unifier *unifier, const struct sp_unified_axis *axis)
{
    for (uint32_t i = 0; i < axis->count; i++)
        sp_unifier_replicate(unifier, axis->factors[i]);
}

void sp_unifier_replicate_axes(struct sp_unifier *unifier, const struct sp_unified_axes *axes)
{
    for (uint32_t i = 0; i < axes->rank; i++)
        sp_unifier_replicate_axis(unifier, &axes->axes[i]);
}

/* ---- kinds --------------------------------------------------------------------------------------------------- */

static uint32_t severity(enum sp_factor_kind kind)
{
    switch (kind) {
    case SP_FACTOR_PARALLEL:
        return 0;
    case SP_FACTOR_PERMUTATION:
        return 1;
    case SP_FACTOR_HALO:
        return 2;
    case SP_FACTOR_REDUCTION:
        return 3;
    case SP_FACTOR_SEQUENTIAL:
        return 4;
    case SP_FACTOR_REPLICATE:
        break;
    }
    return 5;
}

static int64_t lcm(int64_t a, int64_t b)
{
    const int64_t common = sp_gcd(a, b);
    int64_t product;
    return common <= 0 || !sp_mul_i64(a / common, b, &product) ? 0 : product;
}

static void join_factor(struct sp_factor *to, const struct sp_factor *other)
{
    const struct sp_factor *stricter = severity(other->kind) > severity(to->kind) ? other : to;
    const struct sp_factor *milder = stricter == to ? other : to;
    struct sp_factor result = *stricter;
    bool is_both_halo = to->kind == SP_FACTOR_HALO && other->kind == SP_FACTOR_HALO;
    bool clashes = stricter->kind == SP_FACTOR_REDUCTION
                       ? (milder->kind == SP_FACTOR_REDUCTION && milder->combiner != stricter->combiner) ||
                             milder->kind == SP_FACTOR_HALO || milder->kind == SP_FACTOR_PERMUTATION
                       : stricter->kind == SP_FACTOR_HALO && milder->kind == SP_FACTOR_PERMUTATION;
    if (is_both_halo) {
        clashes = __builtin_add_overflow(to->halo_low, other->halo_low, &result.halo_low) ||
                  __builtin_add_overflow(to->halo_high, other->halo_high, &result.halo_high);
    }
    result.block = lcm(to->block, other->block);
    result.is_blocked = to->is_blocked || other->is_blocked;
    if (!sp_dim_is_known(result.extent) && milder->extent.kind != SP_DIM_UNKNOWN)
        result.extent =
            sp_dim_is_known(milder->extent) || result.extent.kind == SP_DIM_UNKNOWN ? milder->extent : result.extent;
    if (clashes || result.block == 0)
        result.kind = SP_FACTOR_REPLICATE;
    if (result.block == 0)
        result.block = 1;
    *to = result;
}

static void unite(struct sp_unifier *unifier, uint32_t a, uint32_t b)
{
    uint32_t left = sp_unifier_root(unifier, a), right = sp_unifier_root(unifier, b);
    if (left == right)
        return;
    join_factor(&unifier->items[left].factor, &unifier->items[right].factor);
    unifier->items[right].parent = left;
}

/* ---- axes ---------------------------------------------------------------------------------------------------- */

static bool extents_fit(struct sp_unifier *unifier, const struct sp_unified_axis *a, const struct sp_unified_axis *b)
{
    for (uint32_t i = 0; i < a->count; i++) {
        struct sp_dim left = unifier->items[sp_unifier_root(unifier, a->factors[i])].factor.extent;
        struct sp_dim right = unifier->items[sp_unifier_root(unifier, b->factors[i])].factor.extent;
        bool has_numbers = sp_dim_is_known(left) && sp_dim_is_known(right);
        /* One factor each is the whole axis here and there; lists are cut in the same places only if that is sure. */
        if (has_numbers ? left.value != right.value : a->count > 1 && !sp_dim_equal(left, right))
            return false;
    }
    return true;
}

void sp_unifier_join_axis(struct sp_unifier *unifier, struct sp_unified_axis *axis, const struct sp_unified_axis *other,
                          struct sp_dim extent)
{
    if (axis->count == other->count && extents_fit(unifier, axis, other)) {
        for (uint32_t i = 0; i < axis->count; i++)
            unite(unifier, axis->factors[i], other->factors[i]);
        return;
    }
    if (axis->count != 0 && other->count != 0 ? true : !sp_dim_is(extent, 1)) {
        sp_unifier_replicate_axis(unifier, axis);
        sp_unifier_replicate_axis(unifier, other);
    }
    if (axis->count == 0)
        *axis = *other;
}

static struct sp_unified_axes new_axes(struct sp_unifier *unifier, uint32_t rank)
{
    struct sp_unified_axes axes = {true, rank, SP_NEW_ARRAY(unifier->arena, rank, struct sp_unified_axis)};
    if (axes.axes == NULL) {
        unifier->is_out_of_memory = true;
        axes.rank = 0;
    }
    return axes;
}

struct sp_unified_axes sp_unifier_operand(struct sp_unifier *unifier, const struct sp_operand_rule *operand,
                                          uint32_t base)
{
    struct sp_unified_axes axes = new_axes(unifier, operand->rank);
    for (uint32_t i = 0; i < axes.rank; i++) {
        const struct sp_axis_factors *from = &operand->axes[i];
        struct sp_unified_axis *to = &axes.axes[i];
        to->factors = SP_NEW_ARRAY(unifier->arena, from->count, uint32_t);
        if (to->factors == NULL) {
            unifier->is_out_of_memory = true;
            break;
        }
        for (uint8_t k = 0; k < from->count; k++)
            to->factors[to->count++] = base + from->factors[k];
    }
    return axes;
}

static struct sp_dim extent_of(const struct sp_shape *shape, uint32_t axis)
{
    return shape->has_rank && axis < shape->rank ? shape->dims[axis] : sp_dim_unknown();
}

void sp_unifier_join(struct sp_unifier *unifier, struct sp_unified_axes *axes, const struct sp_unified_axes *other,
                     const struct sp_shape *shape)
{
    if (!axes->is_set) {
        *axes = *other;
        return;
    }
    if (axes->rank != other->rank) { /* one of them does not know it */
        sp_unifier_replicate_axes(unifier, axes);
        sp_unifier_replicate_axes(unifier, other);
        return;
    }
    for (uint32_t i = 0; i < axes->rank; i++)
        sp_unifier_join_axis(unifier, &axes->axes[i], &other->axes[i], extent_of(shape, i));
}

void sp_unifier_complete(struct sp_unifier *unifier, struct sp_unified_axes *axes, const struct sp_shape *shape)
{
    if (axes->is_set)
        return;
    *axes = new_axes(unifier, shape->has_rank ? shape->rank : 0);
    for (uint32_t i = 0; i < axes->rank; i++) {
        struct sp_factor factor = {.kind = SP_FACTOR_PARALLEL, .extent = shape->dims[i], .block = 1};
        uint32_t id = sp_unifier_add(unifier, &factor);
        axes->axes[i].factors = SP_NEW(unifier->arena, uint32_t);
        if (id == UINT32_MAX || axes->axes[i].factors == NULL) {
            unifier->is_out_of_memory = true;
            return;
        }
        axes->axes[i].factors[0] = id;
        axes->axes[i].count = 1;
    }
}
