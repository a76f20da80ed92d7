#include <math.h>
#include <string.h>

#include "solvers/stages/orders.h"

/* Orders of the units, each cut as well as it can be. */

#define FEW_BLOCKS 64 /* and before that, so that there is something to be better than */

/* Cuts orders->order; the best so far is kept. */
static enum sp_status try_order(struct sp_stages_orders *orders, uint32_t most, bool *ret_complete)
{
    struct sp_stages_solution found = {0};
    double limit = orders->best->is_feasible ? orders->best->value * (1 - 1e-12) : INFINITY;
    enum sp_status status = sp_stages_slice(orders, most, limit, &found, ret_complete);
    if (status == SP_OK && found.is_feasible && (!orders->best->is_feasible || found.value < orders->best->value))
        *orders->best = found;
    return status;
}

/* Puts next what became ready last: chains are followed to their end. With `is_late` from the end backwards. */
static void follow_chains(struct sp_stages_orders *orders, bool is_late)
{
    const struct sp_stages_prepared *prepared = orders->prepared;
    const struct sp_rows *before = is_late ? &prepared->after : &prepared->before;
    const struct sp_rows *after = is_late ? &prepared->before : &prepared->after;
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
            if (--orders->waits[after->items[i]] == 0)
                orders->ready[ready++] = after->items[i];
    }
}

/* Whether each unit uses what the one before it makes, so that there is no other order. */
static bool is_line(const struct sp_stages_prepared *prepared)
{
    for (uint32_t i = 1; i < prepared->unit_count; i++) {
        const uint32_t unit = prepared->order[i];
        uint32_t at = prepared->before.start[unit];
        while (at < prepared->before.start[unit + 1] && prepared->before.items[at] != prepared->order[i - 1])
            at++;
        if (at == prepared->before.start[unit + 1])
            return false;
    }
    return true;
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
                                    const struct sp_stages_rates *rates, uint32_t which,
                                    struct sp_stages_lattice **ret_lattice)
{
    struct sp_stages_orders orders = {.run = run, .prepared = prepared, .rates = rates};
    if (!init(&orders))
        return sp_fail_memory(run->err);
    if (which == 0)
        memcpy(orders.order, prepared->order, prepared->unit_count * sizeof *orders.order);
    else
        follow_chains(&orders, which == 2);
    return sp_stages_line(run->scratch, orders.order, orders.start, sp_stages_blocks(&orders, SP_STAGES_MOST_BLOCKS),
                          ret_lattice, run->err);
}

enum sp_status sp_stages_linear(struct sp_stages_run *run, const struct sp_stages_prepared *prepared,
                                const struct sp_stages_rates *rates, struct sp_stages_solution *solution,
                                bool *ret_complete)
{
    struct sp_stages_orders orders = {.run = run, .prepared = prepared, .rates = rates, .best = solution};
    const uint32_t units = prepared->unit_count;
    bool is_complete = false;
    *ret_complete = false;
    if (!init(&orders))
        return sp_fail_memory(run->err);
    memcpy(orders.order, prepared->order, units * sizeof *orders.order);
    enum sp_status status = try_order(&orders, FEW_BLOCKS, &is_complete);
    if (status == SP_OK && units > FEW_BLOCKS && sp_stages_goes_on(run))
        status = try_order(&orders, SP_STAGES_MOST_BLOCKS, &is_complete);
    if (is_line(prepared)) {
        *ret_complete = is_complete && units <= SP_STAGES_MOST_BLOCKS;
        return status;
    }
    for (uint32_t i = 0; i < 2 && status == SP_OK && sp_stages_goes_on(run); i++) {
        follow_chains(&orders, i == 1);
        status = try_order(&orders, SP_STAGES_MOST_BLOCKS, &is_complete);
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
