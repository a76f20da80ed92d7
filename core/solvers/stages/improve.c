#include <math.h>
#include <string.h>

#include "base/random.h"
#include "solvers/stages/lists.h"
#include "solvers/stages/orders.h"

/*
 * Better orders of the units.
 *
 * A *corridor* is a lattice around one solution: near the borders of its stages units may come in any order that their
 * predecessors allow, elsewhere they stay in the order they have. The best chain of a corridor is found exactly, and
 * makes the next corridor. Where that ends, units change places at random (those far away less likely), the order is
 * cut anew, and its corridors are followed.
 */

#define CORRIDOR_IDEALS 20000
#define CORRIDOR_BLOCKS 512
#define WIDEST_WINDOW   64
#define STALE_ROUNDS    40 /* random orders in a row that led to nothing better */

struct corridor {
    struct sp_stages_orders *orders;
    struct sp_arena *arena; /* of one lattice */
    uint32_t *order;        /* of units; stages one after the other */
    uint32_t *border;       /* where stages begin, but the first */
    uint32_t border_count;
    bool *is_free; /* per place: in a window */
    double *key;   /* per unit, for random orders */
    uint64_t random;
};

/* Units of the solution's stages one after the other, each stage's in the order they had. */
static void order_by_stage(struct corridor *corridor, const struct sp_stages_solution *solution)
{
    const struct sp_stages_prepared *prepared = corridor->orders->prepared;
    uint32_t count = prepared->unit_count, *next = corridor->orders->waits;
    memset(next, 0, ((size_t)solution->stage_count + 1) * sizeof *next);
    for (uint32_t unit = 0; unit < count; unit++)
        next[solution->stage_of[unit] + 1]++;
    corridor->border_count = 0;
    for (uint32_t stage = 1; stage < solution->stage_count; stage++) {
        next[stage] += next[stage - 1];
        corridor->border[corridor->border_count++] = next[stage];
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t unit = corridor->orders->order[i];
        corridor->order[next[solution->stage_of[unit]]++] = unit;
    }
    memcpy(corridor->orders->order, corridor->order, count * sizeof *corridor->order);
}

/* Opens windows of at most `width` units on each side of the borders. */
static void open_windows(struct corridor *corridor, uint32_t width)
{
    uint32_t count = corridor->orders->prepared->unit_count;
    memset(corridor->is_free, false, count * sizeof *corridor->is_free);
    for (uint32_t i = 0; i < corridor->border_count; i++) {
        uint32_t border = corridor->border[i], end = count - border < width ? count : border + width;
        for (uint32_t place = border < width ? 0 : border - width; place < end; place++)
            corridor->is_free[place] = true;
    }
}

struct blocks {
    uint32_t count, *start, *of; /* of units: the block of each */
    struct sp_stages_pairs after;
    uint32_t gate, gate_end; /* the blocks that all that follows comes after */
};

static void follow_gate(struct blocks *blocks, uint32_t block)
{
    for (uint32_t i = blocks->gate; i < blocks->gate_end; i++)
        sp_stages_pairs_add(&blocks->after, i, block);
}

/* A window's units, one block each, after the gate and after their own predecessors. */
static void add_window(struct corridor *corridor, struct blocks *blocks, uint32_t from, uint32_t end)
{
    const struct sp_rows *before = &corridor->orders->prepared->before;
    uint32_t first = blocks->count;
    for (uint32_t place = from; place < end; place++) {
        uint32_t unit = corridor->order[place], block = blocks->count++;
        blocks->start[block] = place;
        blocks->of[unit] = block;
        follow_gate(blocks, block);
        for (uint32_t i = before->start[unit]; i < before->start[unit + 1]; i++)
            if (blocks->of[before->items[i]] >= first)
                sp_stages_pairs_add(&blocks->after, blocks->of[before->items[i]], block);
    }
    blocks->gate = first;
    blocks->gate_end = blocks->count;
}

/* What lies between windows: runs of equal length in the order as it is. */
static void add_line(struct corridor *corridor, struct blocks *blocks, uint32_t from, uint32_t end)
{
    uint32_t count = corridor->orders->prepared->unit_count;
    uint32_t length = (count + CORRIDOR_BLOCKS - 1) / CORRIDOR_BLOCKS;
    while (from < end) {
        uint32_t block = blocks->count++, until = end - from < length ? end : from + length;
        blocks->start[block] = from;
        for (uint32_t place = from; place < until; place++)
            blocks->of[corridor->order[place]] = block;
        follow_gate(blocks, block);
        blocks->gate = block;
        blocks->gate_end = block + 1;
        from = until;
    }
}

/* The corridor's lattice with windows as they are open; NULL where it has too many ideals. */
static enum sp_status make_lattice(struct corridor *corridor, struct sp_stages_lattice **ret_lattice)
{
    struct sp_stages_run *run = corridor->orders->run;
    uint32_t count = corridor->orders->prepared->unit_count;
    struct blocks blocks = {0};
    struct sp_stages_prepared shape = {.kind = SP_STAGES_UNITS_CHAIN};
    blocks.start = SP_NEW_ARRAY(corridor->arena, (size_t)count + 1, uint32_t);
    blocks.of = SP_NEW_ARRAY(corridor->arena, count, uint32_t);
    /* One block of the line gates a window, and a window one block of the line. */
    size_t room = 2 * (size_t)count + corridor->orders->prepared->before.start[count];
    if (blocks.start == NULL || blocks.of == NULL || !sp_stages_pairs_init(corridor->arena, &blocks.after, room))
        return sp_fail_memory(run->err);
    *ret_lattice = NULL;
    for (uint32_t from = 0, end = 0; from < count; from = end) {
        while (end < count && corridor->is_free[end] == corridor->is_free[from])
            end++;
        (corridor->is_free[from] ? add_window : add_line)(corridor, &blocks, from, end);
    }
    blocks.start[blocks.count] = count;
    shape.unit_count = blocks.count;
    shape.order = SP_NEW_ARRAY(corridor->arena, blocks.count, uint32_t);
    if (shape.order == NULL ||
        !sp_stages_lists_make(corridor->arena, &blocks.after, blocks.count, blocks.count, &shape.after) ||
        !sp_stages_lists_turn(corridor->arena, &shape.after, blocks.count, blocks.count, &shape.before))
        return sp_fail_memory(run->err);
    for (uint32_t i = 0; i < blocks.count; i++)
        shape.order[i] = i;
    shape.place = shape.order;
    enum sp_status status = sp_stages_ideals(run, corridor->arena, &shape, CORRIDOR_IDEALS, ret_lattice);
    if (status == SP_OK && *ret_lattice != NULL) {
        (*ret_lattice)->first = blocks.start;
        (*ret_lattice)->units = corridor->order;
    }
    return status;
}

/* The best chain of the corridor around `solution` with windows of one width; what is better replaces it. */
static enum sp_status search_corridor(struct corridor *corridor, uint32_t width, struct sp_stages_solution *solution,
                                      bool *ret_better, bool *ret_large)
{
    struct sp_stages_orders *orders = corridor->orders;
    struct sp_stages_lattice *lattice = NULL;
    struct sp_stages_solution found = {0};
    bool is_complete;
    *ret_better = *ret_large = false;
    corridor->arena = sp_arena_create(sp_arena_budget(orders->run->scratch));
    if (corridor->arena == NULL)
        return sp_fail_memory(orders->run->err);
    order_by_stage(corridor, solution);
    open_windows(corridor, width);
    enum sp_status status = make_lattice(corridor, &lattice);
    *ret_large = status == SP_OK && lattice == NULL;
    if (status == SP_OK && lattice != NULL)
        status = sp_stages_chain_best(orders->run, orders->prepared, lattice, orders->rates,
                                      solution->value * (1 - 1e-12), &found, &is_complete);
    sp_arena_destroy(corridor->arena);
    if (status == SP_OK && found.is_feasible && found.value < solution->value) {
        *solution = found;
        *ret_better = true;
    }
    return status;
}

/* Corridors as wide as they may be, as long as they lead to something better. */
static enum sp_status follow(struct corridor *corridor, struct sp_stages_solution *solution)
{
    enum sp_status status = SP_OK;
    for (uint32_t width = WIDEST_WINDOW; status == SP_OK && width >= 4 && sp_stages_goes_on(corridor->orders->run);) {
        bool is_better = false, is_large = false;
        status = search_corridor(corridor, width, solution, &is_better, &is_large);
        if (is_large)
            width /= 2;
        else if (!is_better)
            break;
    }
    return status;
}

/* Sorts units by key as far as their predecessors allow, into orders->order. */
static void sort_by_key(struct corridor *corridor)
{
    struct sp_stages_orders *orders = corridor->orders;
    const struct sp_stages_prepared *prepared = orders->prepared;
    uint32_t *heap = orders->ready, ready = 0, done = 0;
    for (uint32_t i = 0; i < prepared->unit_count; i++) {
        orders->waits[i] = prepared->before.start[i + 1] - prepared->before.start[i];
        if (orders->waits[i] == 0)
            sp_stages_heap_push(heap, ready++, i, corridor->key);
    }
    while (ready > 0) {
        uint32_t unit = sp_stages_heap_pop(heap, ready--, corridor->key);
        orders->order[done++] = unit;
        for (uint32_t i = prepared->after.start[unit]; i < prepared->after.start[unit + 1]; i++)
            if (--orders->waits[prepared->after.items[i]] == 0)
                sp_stages_heap_push(heap, ready++, prepared->after.items[i], corridor->key);
    }
}

/* An order near the best one: each unit some way off, a few far. */
static void shake(struct corridor *corridor, uint32_t round)
{
    uint32_t count = corridor->orders->prepared->unit_count;
    double stage = (double)count / (corridor->border_count + 1), reach = stage * ldexp(1, -(int)(round % 6));
    for (uint32_t i = 0; i < count; i++)
        corridor->key[corridor->order[i]] = i + reach * (sp_random_fraction(&corridor->random) - 0.5);
    sort_by_key(corridor);
}

static bool init(struct corridor *corridor)
{
    struct sp_arena *arena = corridor->orders->run->scratch;
    size_t count = (size_t)corridor->orders->prepared->unit_count + 1;
    corridor->order = SP_NEW_ARRAY(arena, count, uint32_t);
    corridor->border = SP_NEW_ARRAY(arena, count, uint32_t);
    corridor->is_free = SP_NEW_ARRAY(arena, count, bool);
    corridor->key = SP_NEW_ARRAY(arena, count, double);
    return corridor->order != NULL && corridor->border != NULL && corridor->is_free != NULL && corridor->key != NULL;
}

enum sp_status sp_stages_improve(struct sp_stages_orders *orders, double bound)
{
    struct corridor corridor = {.orders = orders, .random = orders->run->options->seed};
    struct sp_stages_run *run = orders->run;
    struct sp_stages_solution *best = orders->best;
    if (!init(&corridor))
        return sp_fail_memory(run->err);
    memcpy(orders->order, orders->prepared->order, orders->prepared->unit_count * sizeof *orders->order);
    enum sp_status status = follow(&corridor, best);
    for (uint32_t round = 0, stale = 0; status == SP_OK && stale < STALE_ROUNDS && sp_stages_goes_on(run); round++) {
        struct sp_stages_solution other = {0};
        bool is_complete;
        double before = best->value;
        if (before <= bound * (1 + 1e-9))
            break;
        order_by_stage(&corridor, best);
        shake(&corridor, round);
        /* A cut of the new order need not be better at once: its corridors may be. */
        status = sp_stages_slice(orders, SP_STAGES_MOST_BLOCKS, INFINITY, &other, &is_complete);
        if (status == SP_OK && other.is_feasible && other.value < 1.1 * before)
            status = follow(&corridor, &other);
        if (status == SP_OK && other.is_feasible && other.value < before)
            *best = other;
        run->best = best->value;
        stale = best->value < before ? 0 : stale + 1;
    }
    return status;
}
