/*
 * resolve_votes - which of the cuts that tensors have of a node's factors are taken together.
 *
 * Taking one candidate shortens or removes those that it overlaps. Any way that leaves none takes the strongest
 * candidate, or one that stands against it: so the ways are a tree, which is walked with the strongest first.
 */
#include <string.h>

#include "base/limits.h"
#include "infer/propagate/resolve_internal.h"

/* Whose cuts come first. What is stated of a weight says as much as what was carried to an activation. */
enum tier { TIER_STATED = 0, TIER_ANY, TIER_CARRIED_TO_CONSTANT };

static uint8_t tier_of(const struct sp_resolve_operand *operand)
{
    if (operand->is_stated)
        return operand->is_constant ? TIER_ANY : TIER_STATED;
    return operand->is_constant ? TIER_CARRIED_TO_CONSTANT : TIER_ANY;
}

/* The cuts that operands have of one factor, each once, in the order of operands, and the elements of all that have
   it. */
struct cuts {
    uint32_t count;
    const struct sp_axis_list **lists;
    double *elements;
    bool *is_stated;
    uint8_t *tiers;          /* enum tier, the strongest of the operands that have it */
    struct sp_hash_map same; /* of `lists`: pointers to their places */
};

struct vote {
    uint32_t factor;
    struct sp_axis_list list;
    uint8_t tier;
    double elements;
    int kind; /* parallel 3, reduction 2, others 1 */
    int64_t shards;
};

/* The vote for a cut that operands have of a factor, less what is taken. False when nothing is left. */
static bool make_vote(struct sp_resolving *all, const struct cuts *cuts, uint32_t at, uint32_t factor,
                      struct vote *ret_vote)
{
    const struct sp_factor *of = &all->rule->factors[factor];
    struct vote vote = {.factor = factor, .tier = cuts->tiers[at], .elements = cuts->elements[at]};
    if (sp_axes_copy(all->scratch, cuts->lists[at], &vote.list, all->err) != SP_OK)
        return false;
    for (uint32_t f = 0; f < all->rule->factor_count; f++)
        sp_resolve_truncate(&vote.list, &all->lists[f]);
    while (vote.list.count > 0 && !cuts->is_stated[at] && !sp_resolve_divides(all, factor, &vote.list))
        vote.list.count--;
    vote.kind = of->kind == SP_FACTOR_PARALLEL ? 3 : of->kind == SP_FACTOR_REDUCTION ? 2 : 1;
    vote.shards = sp_axes_size(&vote.list);
    *ret_vote = vote;
    return vote.list.count > 0;
}

static bool is_stronger(const struct vote *a, const struct vote *b)
{
    if (a->elements != b->elements)
        return a->elements > b->elements;
    return a->kind != b->kind ? a->kind > b->kind : a->shards > b->shards;
}

static bool is_same_cut(const void *item, const void *key)
{
    const struct sp_axis_list *const *place = item;
    return sp_resolve_is_same(*place, key);
}

static enum sp_status add_cut(struct sp_resolving *all, struct cuts *cuts, uint32_t operand,
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
        cuts->tiers[place - cuts->lists] = TIER_CARRIED_TO_CONSTANT;
        if (!sp_hash_set_add(&cuts->same, hash, place))
            return sp_fail_memory(all->err);
    }
    const size_t at = (size_t)(place - cuts->lists);
    const uint8_t tier = tier_of(&all->operands[operand]);
    cuts->elements[at] += all->projected[operand].elements;
    cuts->is_stated[at] |= all->operands[operand].is_stated;
    cuts->tiers[at] = tier < cuts->tiers[at] ? tier : cuts->tiers[at];
    return SP_OK;
}

static enum sp_status find_cuts(struct sp_resolving *all, uint32_t factor, struct cuts *ret_cuts)
{
    struct cuts cuts = {.same = {.arena = all->scratch}};
    uint32_t most = 0;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < all->operand_count; i++) {
        const struct sp_factor_split *split = sp_resolve_split(all, i, factor);
        most += split != NULL && split->axes.count > 0;
    }
    cuts.lists = SP_NEW_ARRAY(all->scratch, most, const struct sp_axis_list *);
    cuts.elements = SP_NEW_ARRAY(all->scratch, most, double);
    cuts.tiers = SP_NEW_ARRAY(all->scratch, most, uint8_t);
    cuts.is_stated = SP_NEW_ARRAY(all->scratch, most, bool);
    if (cuts.lists == NULL || cuts.elements == NULL || cuts.tiers == NULL || cuts.is_stated == NULL)
        return sp_fail_memory(all->err);
    for (uint32_t i = 0; status == SP_OK && most > 0 && i < all->operand_count; i++) {
        const struct sp_factor_split *split = sp_resolve_split(all, i, factor);
        if (split != NULL && split->axes.count > 0)
            status = add_cut(all, &cuts, i, &split->axes);
    }
    if (status == SP_OK)
        *ret_cuts = cuts;
    return status;
}

static bool is_full(const struct sp_factor *factor, const struct sp_axis_list *axes)
{
    return sp_dim_is(factor->extent, sp_axes_size(axes));
}

/* Behind a factor that is not cut to single elements, a minor factor of the same axis cannot be cut. */
static void drop_unsayable(struct sp_resolving *all)
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

/* ---- walking the tree ------------------------------------------------------------------------------------------- */

struct level {
    struct vote *branches; /* the strongest candidate, then those that stand against it */
    uint32_t count, next;
};

struct search {
    struct sp_resolving *all;
    struct cuts *cuts;
    struct level levels[SP_RULE_MAX_FACTORS + 1]; /* each decides one factor */
    uint32_t depth, ways;
    struct sp_axis_list best[SP_RULE_MAX_FACTORS];
    double best_bytes;
};

static bool stands_against(const struct vote *a, const struct vote *b)
{
    return a->factor == b->factor || !sp_resolve_can_join(&a->list, &b->list);
}

/* The candidates of the first tier that has any left. */
static enum sp_status list_votes(struct search *search, struct vote **ret_votes, uint32_t *ret_count)
{
    struct sp_resolving *all = search->all;
    uint32_t most = 0, count = 0, kept = 0;
    uint8_t first = UINT8_MAX;
    for (uint32_t f = 0; f < all->rule->factor_count; f++)
        most += all->is_decided[f] ? 0 : search->cuts[f].count;
    struct vote *votes = SP_NEW_ARRAY(all->scratch, most, struct vote);
    if (votes == NULL)
        return sp_fail_memory(all->err);
    for (uint32_t f = 0; f < all->rule->factor_count; f++) {
        for (uint32_t i = 0; !all->is_decided[f] && i < search->cuts[f].count; i++)
            count += make_vote(all, &search->cuts[f], i, f, &votes[count]);
    }
    for (uint32_t i = 0; i < count; i++)
        first = votes[i].tier < first ? votes[i].tier : first;
    for (uint32_t i = 0; i < count; i++) {
        if (votes[i].tier == first)
            votes[kept++] = votes[i];
    }
    *ret_votes = votes;
    *ret_count = kept;
    return all->err->status;
}

static enum sp_status open_level(struct search *search)
{
    struct level *level = &search->levels[search->depth];
    uint32_t count = 0, best = 0;
    enum sp_status status = list_votes(search, &level->branches, &count);
    *level = (struct level){.branches = level->branches};
    for (uint32_t i = 1; i < count; i++) {
        if (is_stronger(&level->branches[i], &level->branches[best]))
            best = i;
    }
    if (status != SP_OK || count == 0)
        return status;
    struct vote strongest = level->branches[best];
    memmove(&level->branches[1], &level->branches[0], best * sizeof *level->branches);
    level->branches[level->count++] = strongest;
    for (uint32_t i = 1; i < count; i++) {
        if (stands_against(&strongest, &level->branches[i]))
            level->branches[level->count++] = level->branches[i];
    }
    return SP_OK;
}

/* A way that leaves no candidate. */
static enum sp_status judge(struct search *search)
{
    struct sp_resolving *all = search->all;
    struct sp_axis_list lists[SP_RULE_MAX_FACTORS];
    const size_t size = all->rule->factor_count * sizeof *lists;
    double bytes = 0;
    memcpy(lists, all->lists, size);
    drop_unsayable(all);
    enum sp_status status = sp_resolve_bytes(all, &bytes);
    if (status == SP_OK && (search->ways == 0 || bytes < search->best_bytes)) {
        search->best_bytes = bytes;
        memcpy(search->best, all->lists, size);
    }
    memcpy(all->lists, lists, size);
    search->ways++;
    return status;
}

static enum sp_status walk(struct search *search)
{
    struct sp_resolving *all = search->all;
    enum sp_status status = open_level(search);
    while (status == SP_OK) {
        struct level *level = &search->levels[search->depth];
        if (level->count == 0)
            status = judge(search);
        if (level->next < level->count && search->ways < SP_MAX_RESOLVED_WAYS) {
            const struct vote *vote = &level->branches[level->next++];
            all->lists[vote->factor] = vote->list;
            all->is_decided[vote->factor] = true;
            search->depth++;
            if (status == SP_OK)
                status = open_level(search);
            continue;
        }
        if (search->depth == 0)
            break;
        level = &search->levels[--search->depth];
        const uint32_t factor = level->branches[level->next - 1].factor;
        all->lists[factor] = (struct sp_axis_list){0};
        all->is_decided[factor] = false;
    }
    return status;
}

enum sp_status sp_resolve_choose(struct sp_resolving *all)
{
    struct search *search = SP_NEW(all->scratch, struct search);
    enum sp_status status = search != NULL ? SP_OK : sp_fail_memory(all->err);
    if (status != SP_OK)
        return status;
    search->all = all;
    search->cuts = SP_NEW_ARRAY(all->scratch, all->rule->factor_count, struct cuts);
    if (search->cuts == NULL)
        return sp_fail_memory(all->err);
    for (uint32_t f = 0; f < all->rule->factor_count && status == SP_OK; f++) {
        if (!all->is_decided[f] && !sp_resolve_needs_whole(&all->rule->factors[f]))
            status = find_cuts(all, f, &search->cuts[f]);
    }
    if (status == SP_OK)
        status = walk(search);
    if (status == SP_OK)
        memcpy(all->lists, search->best, all->rule->factor_count * sizeof *all->lists);
    return status;
}
