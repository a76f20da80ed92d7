#include <math.h>
#include <string.h>

#include "solvers/stages/orders.h"

/* Orders of the units, each cut as well as it can be. */

#define MOST_BLOCKS 1024 /* cuts that are looked at in one order */
#define FEW_BLOCKS  64   /* and before that, so that there is something to be better than */

enum sp_status sp_stages_line(struct sp_arena *arena, const uint32_t *order, const uint32_t *start, uint32_t blocks,
                              struct sp_stages_lattice **ret_lattice, struct sp_error *err)
{
    struct sp_stages_lattice *lattice = SP_NEW(arena, struct sp_stages_lattice);
    uint32_t *first = SP_NEW_ARRAY(arena, (size_t)blocks + 2, uint32_t);
    uint32_t *block = SP_NEW_ARRAY(arena, blocks, uint32_t), *target = SP_NEW_ARRAY(arena, blocks, uint32_t);
    if (lattice == NULL || first == NULL || block == NULL || target == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < blocks; i++) {
        block[i] = target[i] = i;
        first[i + 2] = i + 1; /* ideal 0 has no step, ideal i + 1 one */
    }
    *lattice = (struct sp_stages_lattice){.count = blocks + 1,
                                          .block_count = blocks,
                                          .start = first,
                                          .block = block,
                                          .target = target,
                                          .first = start,
                                          .units = order};
    *ret_lattice = lattice;
    return SP_OK;
}

/* Bytes over each cut: a link is over those between its first and its last unit. */
static void weigh_cuts(struct sp_stages_orders *orders, const uint32_t *place)
{
    const struct sp_stages_prepared *prepared = orders->prepared;
    memset(orders->cut, 0, ((size_t)prepared->unit_count + 1) * sizeof *orders->cut);
    for (uint32_t link = 0; link < prepared->link_count; link++) {
        uint32_t first = place[prepared->links[link].producer], last = first;
        for (uint32_t i = prepared->users.start[link]; i < prepared->users.start[link + 1]; i++) {
            uint32_t at = place[prepared->users.list[i]];
            first = at < first ? at : first;
            last = at > last ? at : last;
        }
        orders->cut[first] += prepared->links[link].bytes;
        orders->cut[last] -= prepared->links[link].bytes;
    }
    for (uint32_t i = 1; i < prepared->unit_count; i++)
        orders->cut[i] += orders->cut[i - 1];
}

/* Cuts the order in blocks of about equal time, each where the least is sent; returns how many. */
static uint32_t make_blocks(struct sp_stages_orders *orders, uint32_t most)
{
    const struct sp_stages_prepared *prepared = orders->prepared;
    uint32_t count = prepared->unit_count, blocks = 0;
    if (count <= most) {
        for (uint32_t i = 0; i <= count; i++)
            orders->start[i] = i;
        return count;
    }
    for (uint32_t i = 0; i < count; i++)
        orders->waits[orders->order[i]] = i;
    weigh_cuts(orders, orders->waits);
    double step = orders->rates->time_sum / most + 1e-300, time = 0;
    uint32_t best = 0, size = 0, most_size = 2 * (count / most) + 1;
    for (uint32_t i = 0; i < count; i++) {
        time += orders->rates->time[orders->order[i]];
        if (size == 0 || orders->cut[i] <= orders->cut[best])
            best = i;
        size++;
        if (time < step && size < most_size && i + 1 < count)
            continue;
        if (i + 1 == count)
            best = i;
        orders->start[++blocks] = best + 1;
        i = best; /* what is behind the cut begins the next block */
        time = 0;
        size = 0;
    }
    return blocks;
}

static enum sp_status slice(struct sp_stages_orders *orders, uint32_t most, double limit,
                            struct sp_stages_solution *solution)
{
    struct sp_stages_run *run = orders->run;
    struct sp_stages_lattice *lattice = NULL;
    bool is_complete;
    uint32_t blocks = make_blocks(orders, most);
    struct sp_arena *arena = sp_arena_create(sp_arena_budget(run->scratch));
    if (arena == NULL)
        return sp_fail_memory(run->err);
    enum sp_status status = sp_stages_line(arena, orders->order, orders->start, blocks, &lattice, run->err);
    if (status == SP_OK)
        status = sp_stages_chain_best(run, orders->prepared, lattice, orders->rates, limit, solution, &is_complete);
    sp_arena_destroy(arena);
    return status;
}

enum sp_status sp_stages_slice(struct sp_stages_orders *orders, double limit, struct sp_stages_solution *solution)
{
    return slice(orders, MOST_BLOCKS, limit, solution);
}

/* Cuts orders->order; the best so far is kept. */
static enum sp_status try_order(struct sp_stages_orders *orders, uint32_t most)
{
    struct sp_stages_solution found = {0};
    double limit = orders->best->is_feasible ? orders->best->value * (1 - 1e-12) : INFINITY;
    enum sp_status status = slice(orders, most, limit, &found);
    if (status == SP_OK && found.is_feasible && (!orders->best->is_feasible || found.value < orders->best->value))
        *orders->best = found;
    return status;
}

void sp_stages_heap_push(uint32_t *heap, uint32_t count, uint32_t item, const double *key)
{
    uint32_t at = count;
    for (; at > 0; at = (at - 1) / 2) {
        uint32_t above = heap[(at - 1) / 2];
        if (key[above] < key[item] || (key[above] == key[item] && above < item))
            break;
        heap[at] = above;
    }
    heap[at] = item;
}

uint32_t sp_stages_heap_pop(uint32_t *heap, uint32_t count, const double *key)
{
    uint32_t top = heap[0], item = heap[--count], at = 0;
    for (uint32_t child = 1; child < count; at = child, child = 2 * at + 1) {
        uint32_t right = child + 1;
        if (right < count && (key[heap[right]] < key[heap[child]] ||
                              (key[heap[right]] == key[heap[child]] && heap[right] < heap[child])))
            child = right;
        if (key[item] < key[heap[child]] || (key[item] == key[heap[child]] && item < heap[child]))
            break;
        heap[at] = heap[child];
    }
    heap[at] = item;
    return top;
}

/* Puts next what became ready last: chains are followed to their end. With `is_late` from the end backwards. */
static void follow_chains(struct sp_stages_orders *orders, bool is_late)
{
    const struct sp_stages_prepared *prepared = orders->prepared;
    const struct sp_stages_lists *before = is_late ? &prepared->after : &prepared->before;
    const struct sp_stages_lists *after = is_late ? &prepared->before : &prepared->after;
    uint32_t count = prepared->unit_count, ready = 0, done = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t unit = prepared->order[is_late ? i : count - 1 - i];
        orders->waits[unit] = before->start[unit + 1] - before->start[unit];
        if (orders->waits[unit] == 0)
            orders->ready[ready++] = unit;
    }
    while (ready > 0) {
        uint32_t unit = orders->ready[--ready];
        orders->order[is_late ? count - 1 - done : done] = unit;
        done++;
        for (uint32_t i = after->start[unit]; i < after->start[unit + 1]; i++)
            if (--orders->waits[after->list[i]] == 0)
                orders->ready[ready++] = after->list[i];
    }
}

static bool init(struct sp_stages_orders *orders)
{
    struct sp_arena *arena = orders->run->scratch;
    size_t room = (size_t)orders->prepared->unit_count + 2;
    orders->order = SP_NEW_ARRAY(arena, room, uint32_t);
    orders->start = SP_NEW_ARRAY(arena, room, uint32_t);
    orders->waits = SP_NEW_ARRAY(arena, room, uint32_t);
    orders->ready = SP_NEW_ARRAY(arena, room, uint32_t);
    orders->cut = SP_NEW_ARRAY(arena, room, double);
    return orders->order != NULL && orders->start != NULL && orders->waits != NULL && orders->ready != NULL &&
           orders->cut != NULL;
}

enum sp_status sp_stages_order_line(struct sp_stages_run *run, const struct sp_stages_prepared *prepared,
                                    const struct sp_stages_rates *rates, struct sp_stages_lattice **ret_lattice)
{
    struct sp_stages_orders orders = {.run = run, .prepared = prepared, .rates = rates};
    if (!init(&orders))
        return sp_fail_memory(run->err);
    memcpy(orders.order, prepared->order, prepared->unit_count * sizeof *orders.order);
    return sp_stages_line(run->scratch, orders.order, orders.start, make_blocks(&orders, MOST_BLOCKS), ret_lattice,
                          run->err);
}

enum sp_status sp_stages_linear(struct sp_stages_run *run, const struct sp_stages_prepared *prepared,
                                const struct sp_stages_rates *rates, struct sp_stages_solution *solution)
{
    struct sp_stages_orders orders = {.run = run, .prepared = prepared, .rates = rates, .best = solution};
    if (!init(&orders))
        return sp_fail_memory(run->err);
    memcpy(orders.order, prepared->order, prepared->unit_count * sizeof *orders.order);
    enum sp_status status = try_order(&orders, FEW_BLOCKS);
    if (status == SP_OK && prepared->unit_count > FEW_BLOCKS && sp_stages_goes_on(run))
        status = try_order(&orders, MOST_BLOCKS);
    for (uint32_t i = 0; i < 2 && status == SP_OK && sp_stages_goes_on(run); i++) {
        follow_chains(&orders, i == 1);
        status = try_order(&orders, MOST_BLOCKS);
    }
    return status;
}

enum sp_status sp_stages_better_orders(struct sp_stages_run *run, const struct sp_stages_prepared *prepared,
                                       const struct sp_stages_rates *rates, double bound,
                                       struct sp_stages_solution *solution)
{
    struct sp_stages_orders orders = {.run = run, .prepared = prepared, .rates = rates, .best = solution};
    return init(&orders) ? sp_stages_improve(&orders, bound) : sp_fail_memory(run->err);
}
