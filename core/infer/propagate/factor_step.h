#pragma once
/*
 * factor_step - one step of propagation on the factors of one flow.
 *
 * A step knows no dims: per operand and factor it has a list of mesh axes. sp_factor_step_run() extends these lists;
 * propagate.c projects shardings on them and back.
 */
#include "infer/propagate/propagate.h"

/* The axes of one factor in one tensor. Lists are replaced, never written to. */
struct sp_factor_split {
    struct sp_axis_list axes, overflow;
    int64_t room; /* what the product of the axes must divide; -1: anything does */
    bool is_present, is_closed;
    bool is_minor; /* the last factor of its dim: axes may go beyond its extent, unless must_divide */
    bool has_block;
};

struct sp_projected {
    struct sp_factor_split *splits;       /* per factor */
    const struct sp_axis_list *barred[4]; /* lists whose axes this tensor does not take: replicated, .. */
    double elements;                      /* for preference */
    bool yields;                          /* where two factors want one axis, to all that do not */
};

struct sp_factor_step {
    struct sp_arena *arena;
    const struct sp_mesh *mesh;
    uint32_t factor_count, input_count, tensor_count; /* tensors are inputs, then outputs */
    const enum sp_direction *directions;              /* per factor */
    struct sp_projected *tensors;
    bool is_aggressive, is_elementwise, must_divide;
    bool is_conservative; /* sub-axes are not carried */
    /* Out, per factor: the tensor that the axes came from, UINT32_MAX where nothing changed; or NULL. */
    uint32_t *sources;
};

/* Extends the lists of axes; memory is the only error. *ret_changed says whether anything grew. */
enum sp_status sp_factor_step_run(struct sp_factor_step *step, bool *ret_changed, struct sp_error *err);

/* What stands against carrying a factor's axes to a tensor (both indices of the step). */
struct sp_factor_stop {
    uint8_t factor;
    uint32_t tensor, opponent;
    const char *code;
};

/* Up to `capacity` stops of a step at its fixpoint. */
enum sp_status sp_factor_step_stops(const struct sp_factor_step *step, uint32_t capacity, struct sp_factor_stop *stops,
                                    uint32_t *ret_count, struct sp_error *err);

/* Projection of one operand; `sharding` may be NULL. */
enum sp_status sp_project(struct sp_arena *arena, const struct sp_rule *rule, const struct sp_operand_rule *operand,
                          const struct sp_sharding *sharding, const int64_t *shape, struct sp_projected *ret_projected,
                          struct sp_error *err);

/* The axes of a dim from its factors' axes, merged; major factors that are not fully cut end it. */
enum sp_status sp_unproject_dim(struct sp_arena *arena, const struct sp_rule *rule, const struct sp_axis_factors *dim,
                                const struct sp_projected *projected, struct sp_axis_list *ret_axes,
                                struct sp_error *err);
