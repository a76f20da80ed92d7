#pragma once
/*
 * refine_internal - what refine.c and refine_rule.c share.
 */
#include "infer/propagate/refine.h"

#define SP_MAX_AXIS_MARKS 63 /* strides that divide each other */

struct sp_cut_mark {
    int64_t stride;
    bool is_cut;   /* else reserved */
    bool is_fixed; /* nothing comes between it and the next one */
};

/* What is noted of one axis. */
struct sp_marks {
    uint8_t axis, count;
    bool is_fixed; /* nothing comes before the first mark */
    uint32_t capacity;
    struct sp_cut_mark *marks;
};

struct sp_tensor_marks {
    uint32_t cut_count;
    uint32_t axis_capacity;
    uint8_t axis_count;
    struct sp_marks *axes;            /* those of which something is noted, ascending */
    const struct sp_refined *refined; /* what follows, once it was asked for */
};

struct sp_factor_marks {
    uint8_t count;
    struct sp_cut_mark marks[SP_MAX_AXIS_MARKS];
};

struct sp_refinement {
    struct sp_arena *arena;
    uint32_t tensor_count, flow_count;
    const uint32_t *ranks;
    const int64_t *const *shapes;
    const struct sp_flow *flows;
    struct sp_interned *pieces;
    struct sp_tensor_marks **tensors; /* NULL: nothing is noted */
    uint64_t *barred;                 /* per tensor, a bit per axis: cuts do not travel there */
    struct sp_rows flows_of;          /* per tensor, ascending */
    uint32_t *queue;                  /* a ring */
    uint32_t queue_from, queue_count;
    bool *is_queued;
    /* Of the flow that is looked at. */
    const struct sp_rule *seen; /* whose factors is_refinable is about */
    bool is_refinable[SP_RULE_MAX_FACTORS];
    struct sp_factor_marks factors[SP_RULE_MAX_FACTORS];
};

/* Fills is_refinable. */
void sp_refine_see_factors(struct sp_refinement *all, const struct sp_rule *rule);

/* Notes the marks of all operands in the factors; of cuts only, when wanted. False where there are none. */
bool sp_refine_collect(struct sp_refinement *all, const struct sp_flow *flow, bool of_cuts);

/* What is noted of an axis, or NULL. */
static inline const struct sp_marks *sp_refine_marks(const struct sp_refinement *all, uint32_t tensor, uint32_t axis)
{
    const struct sp_tensor_marks *of = all->tensors[tensor];
    for (uint8_t i = 0; of != NULL && i < of->axis_count; i++) {
        if (of->axes[i].axis == axis)
            return &of->axes[i];
    }
    return NULL;
}
