/*
 * The layouts that a search has reached, with the best way to each, and those that are still to be expanded.
 *
 * A layout may be reached again on a better way after it was expanded, because ties are broken by steps and bytes and
 * sums are rounded; it is then simply put on the heap once more. Entries of the heap that are out of date are skipped.
 */
#include <math.h>
#include <string.h>

#include "base/array.h"
#include "base/heap.h"
#include "sharding/reshard/internal.h"

/* More digits than this are seldom searched to the end: less work is put into them. */
#define FEW_DIGITS 6

/* Values closer than this are equal: the same sums in another order. */
#define SLACK 1e-12

struct sp_reshard_search *sp_search_create(struct sp_arena *arena)
{
    struct sp_reshard_search *search = SP_NEW(arena, struct sp_reshard_search);

    if (search != NULL)
        search->arena = arena;
    return search;
}

static uint64_t hash_code(const struct sp_code *code)
{
    uint64_t words[2];

    memcpy(words, code, sizeof words);
    uint64_t hash = (words[0] ^ words[1] * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    return hash ^ hash >> 29;
}

_Static_assert(sizeof(struct sp_code) == 16, "codes are hashed and compared as two words");

static uint32_t *find_slot(struct sp_reshard_search *search, const struct sp_code *code)
{
    uint32_t at = (uint32_t)hash_code(code) & (search->table_size - 1);

    while (search->table[at] != 0 && memcmp(&search->nodes[search->table[at] - 1].code, code, sizeof *code) != 0)
        at = (at + 1) & (search->table_size - 1);
    return &search->table[at];
}

/* Puts a new node into the table. */
static void enter(struct sp_reshard_search *search, uint32_t node)
{
    uint32_t *slot = find_slot(search, &search->nodes[node].code);

    *slot = node + 1;
    search->nodes[node].slot = (uint32_t)(slot - search->table);
}

/* Room for one more node, with a table that is at most a quarter full. It is not one of base/hash_map.h: searches are
   many, and each takes what the one before has entered out of the table again, node by node. */
static bool make_room(struct sp_reshard_search *search)
{
    if (search->node_count < search->node_capacity)
        return true;
    const uint32_t capacity = search->node_capacity > 0 ? 2 * search->node_capacity : 256;
    uint32_t *table = SP_NEW_ARRAY(search->arena, 4 * (size_t)capacity, uint32_t);
    search->out_of_memory = table == NULL || !SP_MAKE_ROOM(search->arena, search->nodes, search->node_count,
                                                           search->node_capacity, capacity - search->node_count);
    if (search->out_of_memory)
        return false;
    search->table = table;
    search->table_size = 4 * capacity;
    for (uint32_t n = 0; n < search->node_count; n++)
        enter(search, n);
    return true;
}

/* ---- the heap ---- */

static bool before(const void *nothing, struct sp_heap_entry a, struct sp_heap_entry b)
{
    (void)nothing;
    if (a.key != b.key)
        return a.key < b.key;
    if (a.steps != b.steps)
        return a.steps < b.steps;
    if (a.bytes != b.bytes)
        return a.bytes < b.bytes;
    return a.node < b.node;
}

SP_HEAP(open, struct sp_heap_entry, const void *, before)

static void push(struct sp_reshard_search *search, uint32_t node)
{
    const struct sp_search_node *of = &search->nodes[node];
    struct sp_heap_entry entry = {of->value + of->bound, of->value, of->bytes, node, of->steps};

    if (SP_MAKE_ROOM(search->arena, search->heap, search->heap_count, search->heap_capacity, 1))
        open_push(search->heap, search->heap_count++, entry, NULL);
    else
        search->out_of_memory = true;
}

/* ---- offers ---- */

static bool is_better(const struct sp_search_node *a, const struct sp_search_node *b)
{
    double slack = SLACK * fmax(a->value, b->value);

    if (fabs(a->value - b->value) > slack)
        return a->value < b->value;
    if (a->steps != b->steps)
        return a->steps < b->steps;
    return a->bytes < b->bytes * (1 - SLACK);
}

void sp_search_offer(struct sp_reshard_search *search, enum sp_collective kind, const struct sp_lists *lists,
                     double seconds, double bytes, double peak)
{
    const struct sp_problem *problem = search->problem;
    const struct sp_search_node *from = &search->nodes[search->at];
    bool is_local = kind == SP_ALL_SLICE || kind == SP_TO_PARTIAL;
    struct sp_search_node node = {.parent = search->at, .kind = kind, .bytes = from->bytes + bytes};

    if (search->is_cut || search->out_of_memory)
        return;
    if (++search->work > search->most_work) {
        search->is_cut = true;
        return;
    }
    if (problem->memory_limit > 0 && peak > problem->memory_limit)
        return;
    node.value = search->goal == SP_GOAL_SECONDS ? from->value + seconds : fmax(from->value, peak);
    node.steps = from->steps + (is_local && from->kind == kind && search->at != 0 ? 0 : 1);
    if (node.value > search->best * (1 + SLACK))
        return;
    node.code = sp_code_of(problem, lists);
    const uint32_t *slot = find_slot(search, &node.code);
    uint32_t at;
    if (*slot == 0) {
        if (search->goal == SP_GOAL_SECONDS)
            node.bound = sp_problem_bound(problem, lists, &search->target, &search->fastest);
        if (node.value + node.bound > search->best * (1 + 16 * SLACK))
            return;
        if (search->node_count == SP_RESHARD_MAX_STATES) {
            search->is_cut = true;
            return;
        }
        if (!make_room(search))
            return;
        at = search->node_count++;
        search->nodes[at].code = node.code;
        enter(search, at);
    } else {
        at = *slot - 1;
        node.bound = search->nodes[at].bound;
        if (!is_better(&node, &search->nodes[at]))
            return;
    }
    node.slot = search->nodes[at].slot;
    search->nodes[at] = node;
    if (memcmp(&node.code, &search->target_code, sizeof node.code) == 0)
        search->best = fmin(search->best, node.value);
    push(search, at);
}

/* ---- a search ---- */

bool sp_search_begin(struct sp_reshard_search *search, const struct sp_problem *problem, enum sp_goal goal,
                     double limit)
{
    struct sp_lists start;

    for (uint32_t n = 0; n < search->node_count; n++)
        search->table[search->nodes[n].slot] = 0;
    if (++search->generation == 0) {
        search->generation = 1;
        for (uint32_t m = 0; m < search->mark_size; m++)
            search->marks[m].generation = 0;
    }
    search->problem = problem;
    search->goal = goal;
    search->best = limit;
    search->work = 0;
    search->most_work = problem->grids[0]->count <= FEW_DIGITS ? SP_RESHARD_MAX_WORK : SP_RESHARD_MAX_WORK / 8;
    if (search->left != NULL && *search->left < search->most_work)
        search->most_work = *search->left;
    search->is_cut = search->out_of_memory = false;
    search->node_count = search->heap_count = search->mark_count = 0;
    search->target_code = problem->to;
    sp_lists_of(problem, &problem->to, &search->target);
    sp_lists_of(problem, &problem->from, &start);
    sp_problem_fastest(problem, &search->fastest);
    if (!make_room(search))
        return false;
    search->nodes[0] = (struct sp_search_node){.code = problem->from, .parent = SP_SEARCH_NONE};
    if (goal == SP_GOAL_SECONDS)
        search->nodes[0].bound = sp_problem_bound(problem, &start, &search->target, &search->fastest);
    else
        search->nodes[0].value = fmax(sp_lists_tile(problem, &start), sp_lists_tile(problem, &search->target));
    search->node_count = 1;
    enter(search, 0);
    push(search, 0);
    return !search->out_of_memory;
}

bool sp_search_next(struct sp_reshard_search *search, struct sp_lists *ret_lists)
{
    while (search->heap_count > 0 && !search->is_cut && !search->out_of_memory) {
        struct sp_heap_entry entry = open_pop(search->heap, search->heap_count--, NULL);
        const struct sp_search_node *node = &search->nodes[entry.node];

        if (entry.value != node->value || entry.steps != node->steps || entry.bytes != node->bytes)
            continue;
        if (entry.key > search->best * (1 + 16 * SLACK))
            return false;
        if (memcmp(&node->code, &search->target_code, sizeof node->code) == 0)
            continue; /* nothing beyond it is of use, but a way of fewer steps may still come */
        search->at = entry.node;
        sp_lists_of(search->problem, &node->code, ret_lists);
        return true;
    }
    return false;
}

bool sp_search_is_proved(struct sp_reshard_search *search)
{
    uint32_t target = sp_search_target(search);

    if (target == SP_SEARCH_NONE || search->goal != SP_GOAL_SECONDS)
        return false;
    const struct sp_search_node *node = &search->nodes[target];
    return node->steps <= 1 && node->value <= search->nodes[0].bound * (1 + SLACK);
}

uint32_t sp_search_target(struct sp_reshard_search *search)
{
    uint32_t at = *find_slot(search, &search->target_code);
    return at != 0 ? at - 1 : SP_SEARCH_NONE;
}
