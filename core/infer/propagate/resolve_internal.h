#pragma once
/*
 * resolve_internal - what the files of sp_resolve_node() (internal.h) share: the node at hand, and the choice of one
 * way to cut each of its factors.
 */
#include "infer/propagate/factor_step.h"
#include "infer/propagate/internal.h"

struct sp_resolving {
    struct sp_interned *kept;
    struct sp_arena *scratch;
    const struct sp_rule *rule;
    const struct sp_mesh *mesh;
    struct sp_resolve_operand *operands;
    uint32_t operand_count;
    struct sp_projected *projected;
    struct sp_axis_list lists[SP_RULE_MAX_FACTORS]; /* as each factor is cut */
    bool is_decided[SP_RULE_MAX_FACTORS];
    struct sp_error *err;
};

/* How the tensor is cut along the factor, or NULL: it does not have it. */
const struct sp_factor_split *sp_resolve_split(const struct sp_resolving *all, uint32_t operand, uint32_t factor);

bool sp_resolve_needs_whole(const struct sp_factor *factor);

/* Whether the lists are the same, ref by ref. */
bool sp_resolve_is_same(const struct sp_axis_list *a, const struct sp_axis_list *b);

/* Whether both can be used at once: no part of an axis twice, and one grid that cuts it for both. */
bool sp_resolve_can_join(const struct sp_axis_list *a, const struct sp_axis_list *b);

/* Shortens the list to what can be used together with the other. */
void sp_resolve_truncate(struct sp_axis_list *list, const struct sp_axis_list *other);

/* Whether all pieces of the factor are equal in all operands. */
bool sp_resolve_divides(const struct sp_resolving *all, uint32_t factor, const struct sp_axis_list *list);

/* What follows for a dim of an operand from the cuts of the factors. */
enum sp_status sp_resolve_dim(struct sp_resolving *all, uint32_t operand, uint32_t axis, struct sp_axis_list *ret_axes);

/*
 * Decides the factors that are not decided. Candidates are the cuts that operands have of a factor, less what is taken:
 * first those that are stated of tensors that are no constants, last those that were carried to constants. Of all ways
 * that leave no candidate the one with the smallest sp_resolve_bytes() is taken; of equal ones, and beyond
 * SP_MAX_RESOLVED_WAYS, that of the larger tensors.
 */
enum sp_status sp_resolve_choose(struct sp_resolving *all);

/*
 * Bytes that a device receives, on average, when the factors are cut as in all->lists: what each input needs beyond
 * what the device holds of it, partial results, and what outputs that are wanted otherwise need beyond what is made.
 */
enum sp_status sp_resolve_bytes(struct sp_resolving *all, double *ret_bytes);
