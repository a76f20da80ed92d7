/*
 * Annealing over rows of groups. The nodes of a group hold the same interval, groups stand one behind the other, and
 * each is as long as it can be at a rate that is wanted. What is measured is how many layers the row covers: unlike the
 * flow this changes with every group. When all are covered more is wanted.
 */
#include <math.h>
#include <string.h>

#include "solvers/routes/internal.h"

#define COOL_INTERVAL 256
#define PERIOD        20000 /* steps from hot to cold */
#define HOT           2.0   /* layers */
#define COLD          0.05
#define LINK_WEIGHT   8.0 /* layers that a border without links counts */

static enum sp_status create_row(struct sp_arena *arena, uint32_t nodes, struct sp_routes_row *ret_row,
                                 struct sp_error *err)
{
    *ret_row = (struct sp_routes_row){.order = SP_NEW_ARRAY(arena, nodes, uint32_t),
                                      .size = SP_NEW_ARRAY(arena, nodes + 1, uint32_t)};
    return ret_row->order == NULL || ret_row->size == NULL ? sp_fail_memory(err) : SP_OK;
}

enum sp_status sp_routes_groups_create(struct sp_arena *arena, const struct sp_routes_table *table,
                                       struct sp_routes_groups *ret_groups, struct sp_error *err)
{
    struct sp_routes_groups groups = {.table = table,
                                      .best = SP_NEW_ARRAY(arena, table->nodes, struct sp_routes_interval),
                                      .intervals = SP_NEW_ARRAY(arena, table->nodes, struct sp_routes_interval),
                                      .sums = SP_NEW_ARRAY(arena, table->layers + 1, double),
                                      .in = SP_NEW_ARRAY(arena, table->side, double)};
    if (groups.best == NULL || groups.intervals == NULL || groups.sums == NULL || groups.in == NULL)
        return sp_fail_memory(err);
    enum sp_status status = create_row(arena, table->nodes, &groups.row, err);
    if (status == SP_OK)
        status = create_row(arena, table->nodes, &groups.other, err);
    if (status == SP_OK)
        status = sp_routes_flow_create(arena, table, &groups.flow, err);
    *ret_groups = groups;
    return status;
}

static void copy_row(struct sp_routes_row *to, const struct sp_routes_row *from, uint32_t nodes)
{
    to->count = from->count;
    memcpy(to->order, from->order, nodes * sizeof *to->order);
    memcpy(to->size, from->size, from->count * sizeof *to->size);
}

static uint32_t group_at(const struct sp_routes_row *row, uint32_t place, uint32_t *ret_start)
{
    uint32_t group = 0, start = 0;
    while (group < row->count && start + row->size[group] <= place)
        start += row->size[group++];
    *ret_start = start;
    return group;
}

static uint32_t start_of(const struct sp_routes_row *row, uint32_t group)
{
    uint32_t start = 0;
    for (uint32_t g = 0; g < group; g++)
        start += row->size[g];
    return start;
}

static void rotate(uint32_t *items, uint32_t from, uint32_t to)
{
    const uint32_t item = items[from];
    if (from < to)
        memmove(items + from, items + from + 1, (to - from) * sizeof *items);
    else
        memmove(items + to + 1, items + to, (from - to) * sizeof *items);
    items[to] = item;
}

static void drop_group(struct sp_routes_row *row, uint32_t group)
{
    memmove(row->size + group, row->size + group + 1, (row->count - group - 1) * sizeof *row->size);
    row->count--;
}

/* One node to another group, to a new one of its own, or (the number of groups) to those that hold nothing. */
static void move_node(struct sp_routes_row *row, uint32_t nodes, uint64_t *seed)
{
    uint32_t start, place = sp_random_below(seed, nodes), from = group_at(row, place, &start);
    const bool is_new = sp_random_below(seed, 4) == 0;
    if (from < row->count && --row->size[from] == 0)
        drop_group(row, from);
    uint32_t to = sp_random_below(seed, row->count + 1);
    if (is_new) {
        memmove(row->size + to + 1, row->size + to, (row->count - to) * sizeof *row->size);
        row->size[to] = 0;
        row->count++;
    }
    uint32_t target = start_of(row, to);
    rotate(row->order, place, to == row->count ? nodes - 1 : target);
    if (to < row->count)
        row->size[to]++;
}

static void swap_nodes(const struct sp_routes_table *table, struct sp_routes_row *row, uint64_t *seed)
{
    const uint32_t a = sp_random_below(seed, table->nodes), b = sp_random_below(seed, table->nodes);
    const uint32_t node = row->order[a];
    row->order[a] = row->order[b];
    row->order[b] = node;
}

/* A group goes to another place of the row. */
static void move_group(struct sp_routes_row *row, uint64_t *seed)
{
    const uint32_t from = sp_random_below(seed, row->count), to = sp_random_below(seed, row->count);
    const uint32_t start = start_of(row, from), size = row->size[from];
    rotate(row->size, from, to);
    const uint32_t target = start_of(row, to);
    for (uint32_t i = 0; i < size; i++)
        if (target > start)
            rotate(row->order, start, target + size - 1);
        else
            rotate(row->order, start + i, target + i);
}

/* A group joins its neighbour, or is cut in two. */
static void join_or_cut(struct sp_routes_row *row, uint32_t nodes, uint64_t *seed)
{
    const uint32_t group = sp_random_below(seed, row->count), size = row->size[group];
    if (sp_random_below(seed, 2) == 0 && group + 1 < row->count) {
        row->size[group] += row->size[group + 1];
        drop_group(row, group + 1);
    } else if (size > 1 && row->count < nodes) {
        memmove(row->size + group + 1, row->size + group, (row->count - group) * sizeof *row->size);
        row->count++;
        row->size[group] = 1 + sp_random_below(seed, size - 1);
        row->size[group + 1] = size - row->size[group];
    }
}

static void propose(struct sp_routes_groups *groups)
{
    const uint32_t kind = sp_random_below(&groups->seed, 16), nodes = groups->table->nodes;
    struct sp_routes_row *row = &groups->row;
    if (kind < 7 || row->count == 0)
        move_node(row, nodes, &groups->seed);
    else if (kind < 13)
        swap_nodes(groups->table, row, &groups->seed);
    else if (kind < 15)
        move_group(row, &groups->seed);
    else
        join_or_cut(row, nodes, &groups->seed);
}

/* The longest interval from `first` on that the nodes together hold at the wanted rate; `*ret_part` says how near they
   are to one more layer, 0 to 1. */
static uint32_t length(struct sp_routes_groups *groups, const uint32_t *nodes, uint32_t count, uint32_t first,
                       double *ret_part)
{
    const struct sp_routes_table *table = groups->table;
    const uint32_t rest = table->layers - first;
    double *sums = groups->sums;
    uint32_t most = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_routes_node *node = &table->problem->nodes[nodes[i]];
        const double *rates = node->rates + (size_t)first * node->stride;
        const uint32_t own = node->most < rest ? node->most : rest;
        for (uint32_t k = most; k < own; k++)
            sums[k] = 0;
        most = own > most ? own : most;
        for (uint32_t k = 0; k < own; k++)
            sums[k] += rates[k];
    }
    uint32_t k = most;
    while (k > 0 && sums[k - 1] < groups->wanted)
        k--;
    *ret_part = k >= most ? 0 : sums[k] / groups->wanted;
    return k;
}

/* How much of the wanted rate cannot pass from one group (the source: none) to the next (the sink: none), 0 to 1. */
static double shortage(struct sp_routes_groups *groups, const uint32_t *from, uint32_t from_count, const uint32_t *to,
                       uint32_t to_count, uint32_t next)
{
    const struct sp_routes_table *table = groups->table;
    const uint32_t outside = table->nodes;
    double sent = 0, received = 0;
    memset(groups->in, 0, (to_count + 1) * sizeof *groups->in);
    for (uint32_t i = 0; i < (from_count == 0 ? 1 : from_count); i++) {
        const uint32_t u = from_count == 0 ? outside : from[i];
        double out = 0;
        for (uint32_t j = 0; j < (to_count == 0 ? 1 : to_count); j++) {
            const double capacity = sp_routes_capacity(table, u, to_count == 0 ? outside : to[j], next);
            out += capacity;
            groups->in[j] += capacity;
        }
        const double rate =
            u == outside ? INFINITY : sp_routes_rate(table, u, groups->intervals[u].first, groups->intervals[u].count);
        sent += out < rate ? out : rate;
    }
    for (uint32_t j = 0; j < (to_count == 0 ? 1 : to_count); j++) {
        const uint32_t v = to_count == 0 ? outside : to[j];
        const double rate =
            v == outside ? INFINITY : sp_routes_rate(table, v, groups->intervals[v].first, groups->intervals[v].count);
        received += groups->in[j] < rate ? groups->in[j] : rate;
    }
    const double passed = (sent < received ? sent : received) / groups->wanted;
    return passed < 1 - 1e-9 ? 1 - passed : 0;
}

/* Gives the groups their intervals. Layers that are covered, less what links lack; nodes of groups that need not be are
   left without. */
static double layers(struct sp_routes_groups *groups, bool *ret_is_done)
{
    const struct sp_routes_table *table = groups->table;
    const struct sp_routes_row *row = &groups->row;
    const uint32_t *previous = NULL, *nodes = row->order;
    uint32_t first = 0, previous_count = 0;
    double sum = 0, part = 0, lack = 0;
    for (uint32_t i = 0; i < table->nodes; i++)
        groups->intervals[i].count = 0;
    for (uint32_t g = 0; g < row->count && first < table->layers; nodes += row->size[g++]) {
        const uint32_t count = row->size[g], k = length(groups, nodes, count, first, &part);
        sum += k + 0.9 * part;
        if (k == 0)
            continue;
        for (uint32_t i = 0; i < count; i++)
            if (k <= table->problem->nodes[nodes[i]].most)
                groups->intervals[nodes[i]] = (struct sp_routes_interval){first, k};
        if (!table->is_ample)
            lack += shortage(groups, previous, previous_count, nodes, count, first);
        previous = nodes;
        previous_count = count;
        first += k;
    }
    if (!table->is_ample && previous_count > 0)
        lack += shortage(groups, previous, previous_count, NULL, 0, first);
    *ret_is_done = first == table->layers && lack == 0;
    return sum - LINK_WEIGHT * lack;
}

/* More is wanted than what the intervals can do, where that is more than ever before. */
static double want_more(struct sp_routes_groups *groups)
{
    const double value = sp_routes_flow_value(&groups->flow, groups->intervals);
    const double lack = 1 - value / groups->wanted;
    if (value > groups->value * (1 + 1e-12)) {
        groups->value = value;
        memcpy(groups->best, groups->intervals, groups->table->nodes * sizeof *groups->best);
    }
    if (value * (1 + 1e-9) > groups->wanted) {
        bool is_done;
        groups->wanted = value * (1 + 1e-6);
        return layers(groups, &is_done);
    }
    return groups->table->layers - LINK_WEIGHT * lack;
}

void sp_routes_groups_run(struct sp_routes_groups *groups, uint64_t steps)
{
    const uint32_t nodes = groups->table->nodes;
    bool is_done;
    const double factor = pow(COLD / HOT, COOL_INTERVAL / (double)PERIOD);
    if (groups->done == 0)
        groups->now = layers(groups, &is_done);
    for (uint64_t i = 0; i < steps; i++, groups->done++) {
        if (groups->done % COOL_INTERVAL == 0)
            groups->temperature = groups->done % PERIOD < COOL_INTERVAL ? HOT : groups->temperature * factor;
        copy_row(&groups->other, &groups->row, nodes);
        propose(groups);
        double score = layers(groups, &is_done);
        if (is_done)
            score = want_more(groups);
        if (score >= groups->now + groups->temperature * log(sp_random_fraction(&groups->seed) + 1e-300) ||
            (is_done && score < groups->now)) {
            groups->now = score;
            continue;
        }
        const struct sp_routes_row row = groups->row;
        groups->row = groups->other;
        groups->other = row;
    }
}
