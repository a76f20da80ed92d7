#pragma once
/*
 * factors - shorthands for the families' rule functions: factors of one kind, lists of them, one axis at a time.
 *
 * All are safe on a rule that has failed (see sp_rule_factor() in op.h).
 */
#include "ops/table/op.h"

/* A set of factors that a term runs over, in the making. Beyond the limit of a rule items are dropped; sp_op_rule()
   reports that limit. */
struct sp_factor_list {
    uint32_t count;
    uint8_t items[SP_RULE_MAX_FACTORS];
};

static inline void sp_factor_list_add(struct sp_factor_list *list, uint8_t factor)
{
    if (list->count < SP_RULE_MAX_FACTORS)
        list->items[list->count++] = factor;
}

static inline uint8_t sp_factor_reduction(struct sp_rule *rule, const char *name, struct sp_dim extent,
                                          enum sp_combiner combiner)
{
    uint8_t factor = sp_rule_factor(rule, name, SP_FACTOR_REDUCTION, extent);
    if (factor < rule->factor_count)
        rule->factors[factor].combiner = combiner;
    return factor;
}

/* A factor of neighbours: an even split of it needs `low` and `high` elements of the input from next door. */
static inline uint8_t sp_factor_halo(struct sp_rule *rule, const char *name, struct sp_dim extent, int64_t low,
                                     int64_t high)
{
    uint8_t factor = sp_rule_factor(rule, name, SP_FACTOR_HALO, extent);
    if (factor < rule->factor_count) {
        rule->factors[factor].halo_low = low;
        rule->factors[factor].halo_high = high;
    }
    return factor;
}

/* A factor whose axes differ in extent; see sp_factor.is_resized. */
static inline uint8_t sp_factor_resized(struct sp_rule *rule, const char *name, enum sp_factor_kind kind,
                                        struct sp_dim extent)
{
    uint8_t factor = sp_rule_factor(rule, name, kind, extent);
    if (factor < rule->factor_count)
        rule->factors[factor].is_resized = true;
    return factor;
}

static inline void sp_rule_term_list(struct sp_rule *rule, double coefficient, const struct sp_factor_list *list)
{
    sp_rule_term(rule, coefficient, list->count, list->items);
}

/* Whether two extents are not surely different and not a broadcast of 1: what maps both to one factor. */
static inline bool sp_axis_takes(struct sp_dim axis, struct sp_dim factor)
{
    return !sp_dim_is(axis, 1) || sp_dim_is(factor, 1);
}

/* "h" or "kh": the name of a spatial axis or, with a prefix, of what belongs to it; d, h, w for up to three axes. */
const char *sp_window_axis_name(char text[SP_FACTOR_NAME_SIZE], const char *prefix, uint32_t rank, uint32_t axis);
