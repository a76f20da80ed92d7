/*
 * resolve_operands - one way to cut each factor of a node, from what its tensors were propagated as.
 *
 * As Shardy inserts explicit reshards: candidates are the lists of axes that tensors have for a factor; the one whose
 * tensors are largest is taken, then what it overlaps is cut from the others, until none is left.
 */
#include <string.h>

#include "base/limits.h"
#include "infer/propagate/factor_step.h"
#include "infer/propagate/internal.h"

struct resolving {
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

static bool needs_whole(const struct sp_factor *factor)
{
    return factor->kind == SP_FACTOR_REPLICATE || factor->kind == SP_FACTOR_SEQUENTIAL;
}

static bool is_same_list(const struct sp_axis_list *a, const struct sp_axis_list *b)
{
    return a->count == b->count && (a->count == 0 || memcmp(a->refs, b->refs, a->count * sizeof *a->refs) == 0);
}

/* Whether both can be used at once: no part of an axis twice, and one grid that cuts it for both. */
static bool can_join(const struct sp_axis_list *a, const struct sp_axis_list *b)
{
    for (uint32_t i = 0; i < a->count; i++) {
        for (uint32_t k = 0; k < b->count; k++) {
            if (!sp_axis_can_coexist_without_overlap(a->refs[i], b->refs[k]))
                return false;
        }
    }
    return true;
}

/* Shortens the list to what can be used together with the other. */
static void truncate_by(struct sp_axis_list *list, const struct sp_axis_list *other)
{
    sp_axes_truncate_by_overlap(list, other);
    while (list->count > 0 && !can_join(list, other))
        list->count--;
}

static const struct sp_factor_split *split_of(const struct resolving *all, uint32_t operand, uint32_t factor)
{
    if (all->operands[operand].is_absent || !all->projected[operand].splits[factor].is_present)
        return NULL;
    return &all->projected[operand].splits[factor];
}

static bool is_full(const struct sp_factor *factor, const struct sp_axis_list *axes)
{
    return sp_dim_is(factor->extent, sp_axes_size(axes));
}

/* ---- whether anything is to be done ----------------------------------------------------------------------------- */

/* Each tensor's dims are nothing but its factors' cuts. */
static bool is_exact(const struct resolving *all, uint32_t operand)
{
    const struct sp_operand_rule *rule = sp_rule_operand(all->rule, operand);
    const struct sp_sharding *sharding = all->operands[operand].sharding;
    for (uint32_t axis = 0; sharding != NULL && axis < rule->rank; axis++) {
        int64_t shards = 1;
        for (uint8_t i = 0; i < rule->axes[axis].count; i++) {
            const struct sp_factor_split *split = split_of(all, operand, rule->axes[axis].factors[i]);
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
static bool agree(struct resolving *all)
{
    for (uint32_t f = 0; f < all->rule->factor_count; f++) {
        bool is_first = true;
        all->lists[f] = (struct sp_axis_list){0};
        for (uint32_t i = 0; i < all->operand_count; i++) {
            const struct sp_factor_split *split = split_of(all, i, f);
            if (split == NULL)
                continue;
            if (!is_first && !is_same_list(&all->lists[f], &split->axes))
                return false;
            all->lists[f] = split->axes;
            is_first = false;
        }
        if (needs_whole(&all->rule->factors[f]) && all->lists[f].count > 0)
            return false;
        for (uint32_t other = 0; all->lists[f].count > 0 && other < f; other++) {
            if (!can_join(&all->lists[f], &all->lists[other]))
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

/* When a stated operand decides: inputs that the file states, other inputs, of which constants come last, outputs. */
enum turn { TURN_FIXED = 0, TURN_INPUTS, TURN_CONSTANTS, TURN_OUTPUTS, TURN_COUNT };

static enum turn turn_of(const struct resolving *all, uint32_t operand)
{
    const struct sp_resolve_operand *of = &all->operands[operand];
    if (operand >= all->rule->input_count)
        return TURN_OUTPUTS;
    return of->is_fixed ? TURN_FIXED : of->is_constant ? TURN_CONSTANTS : TURN_INPUTS;
}

/* A stated operand decides the factors that it has, also those that it has whole; of two that use one axis for
   different factors, the first. */
static enum sp_status follow_stated(struct resolving *all, enum turn turn)
{
    for (uint32_t i = 0; i < all->operand_count; i++) {
        bool is_its_turn = all->operands[i].is_stated && turn_of(all, i) == turn;
        for (uint32_t f = 0; is_its_turn && f < all->rule->factor_count; f++) {
            const struct sp_factor_split *split = split_of(all, i, f);
            struct sp_axis_list list;
            if (split == NULL || all->is_decided[f])
                continue;
            all->is_decided[f] = true;
            if (needs_whole(&all->rule->factors[f]))
                continue;
            enum sp_status status = sp_axes_copy(all->scratch, &split->axes, &list, all->err);
            if (status != SP_OK)
                return status;
            for (uint32_t other = 0; other < all->rule->factor_count; other++)
                truncate_by(&list, &all->lists[other]);
            all->lists[f] = list;
        }
    }
    return SP_OK;
}

/* The cuts that operands have of one factor, each once, in the order of operands, and the elements of all that have
   it. */
struct cuts {
    uint32_t count;
    const struct sp_axis_list **lists;
    double *elements;
    bool *is_active;
    struct sp_hash_map same; /* of `lists`: pointers to their places */
};

struct vote {
    uint32_t factor;
    struct sp_axis_list list;
    bool is_active; /* a tensor that is no constant has this cut */
    double elements;
    int kind; /* parallel 3, reduction 2, others 1 */
    int64_t shards;
};

static bool divides(const struct resolving *all, uint32_t factor, int64_t shards)
{
    for (uint32_t i = 0; i < all->operand_count; i++) {
        const struct sp_factor_split *split = split_of(all, i, factor);
        if (split != NULL && split->room >= 0 && split->room % shards != 0)
            return false;
    }
    return true;
}

/* The vote for a cut that operands have of a factor, less what is taken. False when nothing is left. */
static bool make_vote(struct resolving *all, const struct cuts *cuts, uint32_t at, uint32_t factor,
                      struct vote *ret_vote)
{
    const struct sp_factor *of = &all->rule->factors[factor];
    struct vote vote = {.factor = factor, .is_active = cuts->is_active[at], .elements = cuts->elements[at]};
    if (sp_axes_copy(all->scratch, cuts->lists[at], &vote.list, all->err) != SP_OK)
        return false;
    for (uint32_t f = 0; f < all->rule->factor_count; f++)
        truncate_by(&vote.list, &all->lists[f]);
    while (vote.list.count > 0 && !divides(all, factor, sp_axes_size(&vote.list)))
        vote.list.count--;
    vote.kind = of->kind == SP_FACTOR_PARALLEL ? 3 : of->kind == SP_FACTOR_REDUCTION ? 2 : 1;
    vote.shards = sp_axes_size(&vote.list);
    *ret_vote = vote;
    return vote.list.count > 0;
}

static bool is_stronger(const struct vote *a, const struct vote *b)
{
    if (a->is_active != b->is_active)
        return a->is_active;
    if (a->elements != b->elements)
        return a->elements > b->elements;
    return a->kind != b->kind ? a->kind > b->kind : a->shards > b->shards;
}

static bool is_same_cut(const void *item, const void *key)
{
    const struct sp_axis_list *const *place = item;
    return is_same_list(*place, key);
}

static enum sp_status add_cut(struct resolving *all, struct cuts *cuts, uint32_t operand,
                              const struct sp_axis_list *list)
{
    struct sp_digest digest;
    sp_digest_begin(&digest, all->kept->seed);
    sp_digest_add(&digest, list->refs, list->count * sizeof *list->refs);
    uint64_t hash = sp_digest_end(&digest);
    const struct sp_axis_list **place = sp_hash_set_find(&cuts->same, hash, is_same_cut, list);
    if (place == NULL) {
        place = &cuts->lists[cuts->count++];
        *place = list;
        if (!sp_hash_set_add(&cuts->same, hash, place))
            return sp_fail_memory(all->err);
    }
    cuts->elements[place - cuts->lists] += all->projected[operand].elements;
    cuts->is_active[place - cuts->lists] |= !all->operands[operand].is_constant;
    return SP_OK;
}

static enum sp_status find_cuts(struct resolving *all, uint32_t factor, struct cuts *ret_cuts)
{
    struct cuts cuts = {.same = {.arena = all->scratch}};
    uint32_t most = 0;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < all->operand_count; i++) {
        const struct sp_factor_split *split = split_of(all, i, factor);
        most += split != NULL && split->axes.count > 0;
    }
    cuts.lists = SP_NEW_ARRAY(all->scratch, most, const struct sp_axis_list *);
    cuts.elements = SP_NEW_ARRAY(all->scratch, most, double);
    cuts.is_active = SP_NEW_ARRAY(all->scratch, most, bool);
    if (cuts.lists == NULL || cuts.elements == NULL || cuts.is_active == NULL)
        return sp_fail_memory(all->err);
    for (uint32_t i = 0; status == SP_OK && most > 0 && i < all->operand_count; i++) {
        const struct sp_factor_split *split = split_of(all, i, factor);
        if (split != NULL && split->axes.count > 0)
            status = add_cut(all, &cuts, i, &split->axes);
    }
    if (status == SP_OK)
        *ret_cuts = cuts;
    return status;
}

static enum sp_status count_votes(struct resolving *all)
{
    struct cuts *cuts = SP_NEW_ARRAY(all->scratch, all->rule->factor_count, struct cuts);
    if (cuts == NULL)
        return sp_fail_memory(all->err);
    for (uint32_t f = 0; f < all->rule->factor_count; f++) {
        enum sp_status status = SP_OK;
        if (!all->is_decided[f] && !needs_whole(&all->rule->factors[f]))
            status = find_cuts(all, f, &cuts[f]);
        if (status != SP_OK)
            return status;
    }
    for (uint32_t round = 0; round < all->rule->factor_count; round++) {
        struct vote best = {0};
        sp_error_clear(all->err);
        for (uint32_t f = 0; f < all->rule->factor_count; f++) {
            for (uint32_t i = 0; !all->is_decided[f] && i < cuts[f].count; i++) {
                struct vote vote;
                if (make_vote(all, &cuts[f], i, f, &vote) && (best.list.count == 0 || is_stronger(&vote, &best)))
                    best = vote;
            }
        }
        if (all->err->status != SP_OK)
            return all->err->status;
        if (best.list.count == 0)
            return SP_OK;
        all->lists[best.factor] = best.list;
        all->is_decided[best.factor] = true;
    }
    return SP_OK;
}

/* Behind a factor that is not cut to single elements, a minor factor of the same axis cannot be cut. */
static void drop_unsayable(struct resolving *all)
{
    for (bool is_changed = true; is_changed;) {
        is_changed = false;
        for (uint32_t i = 0; i < all->operand_count; i++) {
            const struct sp_operand_rule *rule = sp_rule_operand(all->rule, i);
            for (uint32_t axis = 0; !all->operands[i].is_absent && axis < rule->rank; axis++) {
                bool is_open = true;
                for (uint8_t k = 0; k < rule->axes[axis].count; k++) {
                    uint8_t f = rule->axes[axis].factors[k];
                    if (!is_open && all->lists[f].count > 0) {
                        all->lists[f].count = 0;
                        is_changed = true;
                    }
                    is_open = is_open && is_full(&all->rule->factors[f], &all->lists[f]);
                }
            }
        }
    }
}

/* ---- the results ------------------------------------------------------------------------------------------------ */

/* What follows for an operand from the cuts of the factors. */
static enum sp_status compose(struct resolving *all, uint32_t operand, struct sp_sharding **ret_sharding)
{
    const struct sp_operand_rule *rule = sp_rule_operand(all->rule, operand);
    struct sp_sharding *sharding = NULL;
    enum sp_status status = sp_sharding_create_axes(all->scratch, all->mesh, rule->rank, &sharding, all->err);
    for (uint32_t axis = 0; status == SP_OK && axis < rule->rank; axis++) {
        for (uint8_t k = 0; status == SP_OK && k < rule->axes[axis].count; k++)
            status = sp_axes_append(all->scratch, &sharding->dims[axis].axes, &all->lists[rule->axes[axis].factors[k]],
                                    &sharding->dims[axis].axes, all->err);
    }
    if (status == SP_OK)
        *ret_sharding = sharding;
    return status;
}

static bool is_same(const struct sp_sharding *a, const struct sp_sharding *b)
{
    for (uint32_t axis = 0; axis < a->rank; axis++) {
        struct sp_axis_list none = {0};
        if (!is_same_list(&a->dims[axis].axes, b == NULL ? &none : &b->dims[axis].axes))
            return false;
    }
    return true;
}

/* Whether `finer` is `made` cut further along axes that a reduction of the node joins: then each device keeps only its
   part of the sum. */
static bool is_scattered(const struct resolving *all, const struct sp_sharding *made, const struct sp_sharding *finer)
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

static void note_factors(struct resolving *all, uint32_t operand)
{
    struct sp_resolve_operand *of = &all->operands[operand];
    of->factor = SP_RULE_MAX_FACTORS;
    for (uint32_t f = all->rule->factor_count; f-- > 0;) {
        if (split_of(all, operand, f) != NULL && all->lists[f].count > 0)
            of->factor = (uint8_t)f;
    }
    for (uint32_t f = 0; operand >= all->rule->input_count && f < all->rule->factor_count; f++) {
        if (all->rule->factors[f].kind != SP_FACTOR_REDUCTION || all->lists[f].count == 0 ||
            split_of(all, operand, f) != NULL)
            continue;
        of->is_combined = true;
        of->factor = (uint8_t)f;
        return;
    }
}

static enum sp_status finish(struct resolving *all, bool is_agreed)
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
    struct resolving all = {.kept = kept,
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
    }
    if (status == SP_OK)
        is_agreed = agree(&all);
    if (status == SP_OK && !is_agreed) {
        memset(all.lists, 0, sizeof all.lists);
        for (enum turn turn = TURN_FIXED; turn < TURN_COUNT && status == SP_OK; turn++)
            status = follow_stated(&all, turn);
        if (status == SP_OK)
            status = count_votes(&all);
    }
    if (status == SP_OK && !is_agreed)
        drop_unsayable(&all);
    if (status == SP_OK)
        status = finish(&all, is_agreed);
    sp_arena_rewind(scratch, mark);
    if (status != SP_OK && err != NULL)
        *err = own;
    return status;
}
