/* Partial sums: terms of several ranks that add up to what the original has. */
#include <string.h>

#include "base/limits.h"
#include "verify/blame/blame.h"

#define MAX_TERMS  64
#define MAX_PASSES 16

/* The terms of one sum, by the value that they are named after, or by their place in the order of each rank's nodes. */
struct group {
    const struct sp_value *whole;
    uint32_t count;
    uint64_t settled;                          /* the terms that are good */
    const struct sp_numbers *terms[MAX_TERMS]; /* without those that others repeat */
    const struct sp_verify_run *runs[MAX_TERMS];
    const struct sp_node *nodes[MAX_TERMS];
};

struct search {
    struct sp_verification *all;
    struct sp_recognised *known;
    struct sp_hash_map groups; /* by key: struct group * */
    SP_ARRAY(struct group *) list;
    struct sp_hash_map turns; /* how many alike a device has made already */
    bool is_full;
};

static bool are_equal(const struct sp_numbers *a, const struct sp_numbers *b)
{
    for (uint64_t i = 0; i < a->count; i++) {
        if (a->items[i].field != b->items[i].field)
            return false;
    }
    return true;
}

static bool have_same_extents(const struct sp_numbers *a, const struct sp_numbers *b)
{
    bool is_same = a->rank == b->rank && a->count == b->count;
    for (uint32_t i = 0; is_same && i < a->rank; i++)
        is_same = a->axes[i].extent == b->axes[i].extent;
    return is_same;
}

/* The group of a result: that of the n-th result of each device that has its name before the "@", is made by one operator and
   has one shape. Where names say nothing, it is that of the nodes in one place of each rank's order. */
static uint64_t key_of(struct search *search, const struct sp_verify_run *run, uint32_t position,
                       const struct sp_value *value, const struct sp_numbers *x)
{
    const char *kind = value->producer->op_type, *at = strrchr(value->name, '@');
    const size_t length = at != NULL ? (size_t)(at - value->name) : strlen(value->name);
    uint64_t key = sp_digest(kind, strlen(kind), sp_digest(value->name, length, 0));
    for (uint32_t i = 0; i < x->rank; i++)
        key = sp_scramble(key ^ (uint64_t)x->axes[i].extent);
    if (at == NULL && sp_original_value(search->all, value->name) == NULL)
        return sp_scramble(sp_digest(kind, strlen(kind), (uint64_t)run->program->world << 32 | position));
    const uint64_t device = (uint64_t)run->program->device << 32 ^ sp_blame_device(value);
    struct sp_hash_slot *turn = sp_hash_map_put(&search->turns, sp_scramble(key ^ sp_scramble(device)));
    if (turn == NULL) {
        search->is_full = true;
        return key;
    }
    return sp_scramble(key ^ ++turn->number);
}

static void add_term(struct search *search, uint64_t key, const struct sp_verify_run *run, const struct sp_node *node)
{
    const struct sp_value *whole = sp_original_value(search->all, node->outputs[0]->name);
    const struct sp_numbers *x = sp_variable_of(run, node->outputs[0])->numbers;
    struct sp_hash_slot *slot = sp_hash_map_put(&search->groups, key);
    struct group *group = slot != NULL ? slot->item : NULL;
    if (slot != NULL && group == NULL && (group = SP_NEW(search->all->scratch, struct group)) != NULL) {
        group->whole = whole;
        slot->item = group;
        if (!SP_PUSH(search->all->scratch, &search->list, group))
            search->is_full = true;
    }
    if (group == NULL) {
        search->is_full = true;
        return;
    }
    for (uint32_t i = 0; i < group->count; i++) {
        if (!have_same_extents(group->terms[i], x) || are_equal(group->terms[i], x))
            return;
    }
    if (group->count == MAX_TERMS)
        return;
    group->terms[group->count] = x;
    group->runs[group->count] = run;
    group->nodes[group->count++] = node;
}

static void gather(struct search *search)
{
    for (uint32_t i = 0; i < search->all->run_count; i++) {
        const struct sp_verify_run *run = &search->all->runs[i];
        for (uint32_t n = 0; !search->is_full && n < run->order_count; n++) {
            const struct sp_node *node = run->order[n];
            const struct sp_value *value = node->output_count > 0 ? node->outputs[0] : NULL;
            const struct sp_outcome *outcome = value != NULL ? sp_variable_of(run, value) : NULL;
            if (outcome != NULL && outcome->numbers->count > 0 && sp_dtype_is_float(outcome->numbers->dtype) &&
                !sp_blame_moves(node) && !sp_is_collective(node) && !sp_blame_is_good(search->known, outcome))
                add_term(search, key_of(search, run, n, value, outcome->numbers), run, node);
        }
    }
}

static bool put_term(struct search *search, uint64_t field, struct sp_partial_term term)
{
    struct sp_recognised *known = search->known;
    struct sp_hash_slot *good = sp_hash_map_put(&known->good, field), *slot = sp_hash_map_put(&known->terms, field);
    struct sp_partial_term *kept =
        good != NULL && slot != NULL && slot->item == NULL ? SP_NEW(search->all->arena, struct sp_partial_term) : NULL;
    if (kept == NULL) {
        search->is_full = search->is_full || good == NULL || slot == NULL || slot->item == NULL;
        return false;
    }
    *kept = term;
    good->number = 1;
    slot->item = kept;
    return true;
}

/* Whether the chosen terms add up to what the original has, or their mean is that, as parts have means of their own. */
static bool add_up(const struct search *search, const struct group *group, uint64_t members, uint64_t scale,
                   const struct sp_value **ret_whole)
{
    *ret_whole = group->whole;
    for (uint64_t i = 0; i < group->terms[0]->count; i++) {
        uint64_t sum = 0;
        for (uint32_t k = 0; k < group->count; k++) {
            const uint64_t field = (members >> k & 1) != 0 ? group->terms[k]->items[i].field : 0;
            if (!sp_field_is_finite(field))
                return false;
            sum = sp_field_add(sum, field);
        }
        sum = sp_field_multiply(sum, scale);
        if (!sp_blame_is_good_number(search->known, sum))
            return false;
        const struct sp_hash_slot *slot = sp_hash_map_get(&search->known->values, sum);
        *ret_whole = *ret_whole == NULL && slot != NULL ? slot->item : *ret_whole;
    }
    return true;
}

/* Takes the chosen terms for good where they add up. */
static bool judge(struct search *search, const struct group *group, uint64_t members)
{
    const uint64_t count = (uint64_t)__builtin_popcountll(members);
    const struct sp_value *whole;
    if (count < 2 || (!add_up(search, group, members, 1, &whole) &&
                      !add_up(search, group, members, sp_field_inverse(count), &whole)))
        return false;
    for (uint32_t k = 0; k < group->count; k++) {
        for (uint64_t i = 0; (members >> k & 1) != 0 && !search->is_full && i < group->terms[k]->count; i++) {
            if (group->terms[k]->items[i].field != 0)
                (void)put_term(
                    search, group->terms[k]->items[i].field,
                    (struct sp_partial_term){group->terms[__builtin_ctzll(members)], whole, i, UINT64_C(1) << k});
        }
    }
    return true;
}

#define MAX_CHOSEN 10 /* terms of which all choices are tried */

/* Terms of several sums have one name where a tensor is cut in other ways, too: looks for those that add up. */
static bool judge_choices(struct search *search, struct group *group)
{
    const uint64_t all = group->count == 64 ? UINT64_MAX : (UINT64_C(1) << group->count) - 1;
    bool has_changed = false;
    if (judge(search, group, all & ~group->settled)) {
        group->settled = all;
        return true;
    }
    for (uint64_t members = 3; group->count > 2 && group->count <= MAX_CHOSEN && members < all; members++) {
        if ((members & group->settled) != 0 || !judge(search, group, members))
            continue;
        group->settled |= members;
        has_changed = true;
    }
    return has_changed;
}

/* Of terms that do not add up, those that are made of what is wrong already are to blame, and the others are not. */
static bool acquit(struct search *search, const struct group *group)
{
    bool has_changed = false, is_any_bad = false;
    for (uint32_t k = 0; k < group->count; k++)
        is_any_bad = is_any_bad || !sp_blame_reads_well(search->known, group->runs[k], group->nodes[k]);
    for (uint32_t k = 0; is_any_bad && k < group->count; k++) {
        if ((group->settled >> k & 1) != 0 || !sp_blame_reads_well(search->known, group->runs[k], group->nodes[k]))
            continue;
        for (uint64_t i = 0; !search->is_full && i < group->terms[k]->count; i++) {
            const uint64_t field = group->terms[k]->items[i].field;
            if (sp_blame_is_good_number(search->known, field))
                continue;
            struct sp_hash_slot *slot = sp_hash_map_put(&search->known->good, field);
            search->is_full = slot == NULL;
            if (slot != NULL)
                slot->number = has_changed = true;
        }
    }
    return has_changed;
}

/* Adds one operand's item to what a sum has so far; false where they are no different terms of one. */
static bool join(const struct sp_recognised *known, uint64_t field, struct sp_partial_term *sum)
{
    const struct sp_hash_slot *slot = field != 0 ? sp_hash_map_get(&known->terms, field) : NULL;
    const struct sp_partial_term *term = slot != NULL ? slot->item : NULL;
    if (field == 0)
        return true;
    if (term == NULL)
        return false;
    if (sum->sum == NULL)
        *sum = *term;
    else if (sum->sum != term->sum || sum->place != term->place || (sum->members & term->members) != 0)
        return false;
    else
        sum->members |= term->members;
    return true;
}

/* Sums of some of the terms are on the way to the sum of all. */
static bool follow(struct search *search, const struct sp_numbers *const *operands, uint32_t count,
                   const struct sp_numbers *result)
{
    bool has_changed = false;
    for (uint32_t k = 0; k < count; k++) {
        if (operands[k] == NULL || operands[k]->count != result->count)
            return false;
    }
    for (uint64_t i = 0; !search->is_full && i < result->count; i++) {
        struct sp_partial_term sum = {0};
        bool is_sum = !sp_blame_is_good_number(search->known, result->items[i].field);
        for (uint32_t k = 0; is_sum && k < count; k++)
            is_sum = join(search->known, operands[k]->items[i].field, &sum);
        if (is_sum && sum.sum != NULL)
            has_changed = put_term(search, result->items[i].field, sum) || has_changed;
    }
    return has_changed;
}

static const struct sp_numbers *numbers_of(const struct sp_verify_run *run, const struct sp_value *value)
{
    const struct sp_outcome *outcome = value != NULL ? sp_run_outcome(run, value) : NULL;
    return outcome != NULL ? outcome->numbers : NULL;
}

static bool follow_all(struct search *search)
{
    const struct sp_numbers *operands[MAX_TERMS];
    bool has_changed = false;
    for (uint32_t i = 0; i < search->all->run_count; i++) {
        const struct sp_verify_run *run = &search->all->runs[i];
        for (uint32_t n = 0; n < run->order_count; n++) {
            const struct sp_node *node = run->order[n];
            const struct sp_numbers *result = node->output_count > 0 ? numbers_of(run, node->outputs[0]) : NULL;
            if (result == NULL || node->input_count > MAX_TERMS ||
                (strcmp(node->op_type, "Add") != 0 && strcmp(node->op_type, "Sum") != 0))
                continue;
            for (uint32_t k = 0; k < node->input_count; k++)
                operands[k] = numbers_of(run, node->inputs[k]);
            has_changed = follow(search, operands, node->input_count, result) || has_changed;
        }
    }
    for (uint32_t i = 0; i < search->all->exchanges.count; i++) {
        const struct sp_verify_exchange *exchange = &search->all->exchanges.items[i];
        const struct sp_numbers *result =
            exchange->nodes[0]->output_count > 0 ? numbers_of(exchange->runs[0], exchange->nodes[0]->outputs[0]) : NULL;
        if (result == NULL || exchange->member_count > MAX_TERMS || !sp_blame_reduces(exchange->nodes[0]))
            continue;
        for (uint32_t m = 0; m < exchange->member_count; m++)
            operands[m] = numbers_of(exchange->runs[m], exchange->nodes[m]->inputs[0]);
        has_changed = follow(search, operands, exchange->member_count, result) || has_changed;
    }
    return has_changed;
}

enum sp_status sp_blame_add_partial(struct sp_verification *all, struct sp_recognised *known, struct sp_error *err)
{
    const struct sp_arena_mark mark = sp_arena_mark(all->scratch);
    struct search search = {.all = all, .known = known};
    bool has_changed = true;
    search.groups.arena = search.turns.arena = all->scratch;
    gather(&search);
    for (uint32_t pass = 0; has_changed && !search.is_full && pass < MAX_PASSES; pass++) {
        has_changed = false;
        for (uint32_t i = 0; !search.is_full && i < search.list.count; i++) {
            struct group *group = search.list.items[i];
            if (group->count < 2)
                continue;
            has_changed = judge_choices(&search, group) || (pass > 0 && acquit(&search, group)) || has_changed;
        }
        has_changed = follow_all(&search) || has_changed || pass == 0;
    }
    sp_arena_rewind(all->scratch, mark);
    return search.is_full ? sp_fail_memory(err) : SP_OK;
}

const struct sp_partial_term *sp_blame_partial_term(const struct sp_recognised *known, const struct sp_numbers *x)
{
    for (uint64_t i = 0; i < x->count; i++) {
        const struct sp_hash_slot *slot =
            x->items[i].field != 0 ? sp_hash_map_get(&known->terms, x->items[i].field) : NULL;
        if (slot != NULL)
            return slot->item;
    }
    return NULL;
}
