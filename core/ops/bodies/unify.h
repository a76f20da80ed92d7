#pragma once
/*
 * unify - factors that turn out to be one; private to ops/body_rule.
 *
 * Factors of many rules live in one union-find; an axis is a list of them, major to minor.
 */
#include "ops/table/op.h"

struct sp_unified {
    uint32_t parent;
    struct sp_factor factor; /* of the root: the join */
};

struct sp_unifier {
    struct sp_arena *arena;
    uint32_t count, capacity;
    struct sp_unified *items;
    bool is_out_of_memory;
};

struct sp_unified_axis {
    uint32_t count;
    uint32_t *factors;
};

/* The axes of one value. */
struct sp_unified_axes {
    bool is_set;
    uint32_t rank;
    struct sp_unified_axis *axes;
};

/* A new factor; UINT32_MAX without memory. */
uint32_t sp_unifier_add(struct sp_unifier *unifier, const struct sp_factor *factor);
uint32_t sp_unifier_root(struct sp_unifier *unifier, uint32_t factor);
/* Never split. */
void sp_unifier_replicate(struct sp_unifier *unifier, uint32_t factor);
void sp_unifier_replicate_axis(struct sp_unifier *unifier, const struct sp_unified_axis *axis);
void sp_unifier_replicate_axes(struct sp_unifier *unifier, const struct sp_unified_axes *axes);
/* One axis from here on: `axis` also stands for `other`. */
void sp_unifier_join_axis(struct sp_unifier *unifier, struct sp_unified_axis *axis, const struct sp_unified_axis *other,
                          struct sp_dim extent);
/* The axes of an operand of a rule whose factors were added from `base` on. */
struct sp_unified_axes sp_unifier_operand(struct sp_unifier *unifier, const struct sp_operand_rule *operand,
                                          uint32_t base);
/* Joins what one place says about a value (of this shape) with what others said. */
void sp_unifier_join(struct sp_unifier *unifier, struct sp_unified_axes *axes, const struct sp_unified_axes *other,
                     const struct sp_shape *shape);
/* Axes of which nobody said anything get a parallel factor each. */
void sp_unifier_complete(struct sp_unifier *unifier, struct sp_unified_axes *axes, const struct sp_shape *shape);
