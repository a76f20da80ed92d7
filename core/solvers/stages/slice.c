/* One order of the units, cut as well as it can be. */
#include <string.h>

#include "solvers/stages/orders.h"

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
            uint32_t at = place[prepared->users.items[i]];
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
uint32_t sp_stages_blocks(struct sp_stages_orders *orders, uint32_t most)
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

enum sp_status sp_stages_slice(struct sp_stages_orders *orders, uint32_t most, double limit,
                               struct sp_stages_solution *solution, bool *ret_complete)
{
    struct sp_stages_run *run = orders->run;
    struct sp_stages_lattice *lattice = NULL;
    uint32_t blocks = sp_stages_blocks(orders, most);
    struct sp_arena *arena = sp_arena_create(sp_arena_budget(run->scratch));
    if (arena == NULL)
        return sp_fail_memory(run->err);
    enum sp_status status = sp_stages_line(arena, orders->order, orders->start, blocks, &lattice, run->err);
    if (status == SP_OK)
        status = sp_stages_chain_best(run, orders->prepared, lattice, orders->rates, limit, solution, ret_complete);
    sp_arena_destroy(arena);
    return status;
}
