/*
 * Annealing over intervals. Most choices differ by nothing in their flow, as one bottleneck decides; so what layers
 * lack counts a little, too. A move is refused without a flow where the holders of a layer cannot do enough.
 */
#include <math.h>
#include <string.h>

#include "solvers/routes/internal.h"

#define WEIGH_INTERVAL 256
#define COVER_SHARE    0.2 /* how much covers count beside the flow */

enum sp_status sp_routes_anneal_create(struct sp_arena *arena, const struct sp_routes_table *table,
                                       struct sp_routes_anneal *ret_anneal, struct sp_error *err)
{
    struct sp_routes_anneal anneal = {.table = table,
                                      .now = SP_NEW_ARRAY(arena, table->nodes, struct sp_routes_interval),
                                      .best = SP_NEW_ARRAY(arena, table->nodes, struct sp_routes_interval),
                                      .before = SP_NEW_ARRAY(arena, table->nodes, struct sp_routes_interval),
                                      .cover = SP_NEW_ARRAY(arena, table->layers, double),
                                      .changed = SP_NEW_ARRAY(arena, table->nodes, uint32_t),
                                      .stamp_of = SP_NEW_ARRAY(arena, table->nodes, uint32_t),
                                      .borders = SP_NEW_ARRAY(arena, 2 * (size_t)table->nodes + 2, uint32_t)};
    if (anneal.now == NULL || anneal.best == NULL || anneal.before == NULL || anneal.cover == NULL ||
        anneal.changed == NULL || anneal.stamp_of == NULL || anneal.borders == NULL)
        return sp_fail_memory(err);
    *ret_anneal = anneal;
    return sp_routes_flow_create(arena, table, &ret_anneal->flow, err);
}

static void add_cover(struct sp_routes_anneal *anneal, uint32_t node, struct sp_routes_interval interval, double sign)
{
    const double rate = sign * sp_routes_rate(anneal->table, node, interval.first, interval.count);
    for (uint32_t l = interval.first; l < interval.first + interval.count; l++)
        anneal->cover[l] += rate;
}

/* Notes that the node holds something else; false where it cannot. */
static bool change(struct sp_routes_anneal *anneal, uint32_t node, int64_t first, int64_t end)
{
    const struct sp_routes_table *table = anneal->table;
    if (first < 0 || end > table->layers || end <= first || end - first > table->problem->nodes[node].most)
        return false;
    const struct sp_routes_interval wanted = {(uint32_t)first, (uint32_t)(end - first)};
    if (sp_routes_rate(table, node, wanted.first, wanted.count) <= 0)
        return false;
    if (anneal->stamp_of[node] != anneal->stamp) {
        anneal->stamp_of[node] = anneal->stamp;
        anneal->before[node] = anneal->now[node];
        anneal->changed[anneal->changed_count++] = node;
    }
    anneal->now[node] = wanted;
    return true;
}

static uint32_t end_of(struct sp_routes_interval interval)
{
    return interval.first + interval.count;
}

/* A layer at which some node begins or ends, or the first or the one behind the last. */
static uint32_t any_border(struct sp_routes_anneal *anneal)
{
    const uint32_t which = sp_random_below(&anneal->seed, 2 * anneal->table->nodes + 2);
    if (which >= 2 * anneal->table->nodes)
        return which == 2 * anneal->table->nodes ? 0 : anneal->table->layers;
    const struct sp_routes_interval interval = anneal->now[which / 2];
    return which % 2 == 0 ? interval.first : end_of(interval);
}

/* One node goes to where another one begins or ends, or keeps one end. */
static bool move_one(struct sp_routes_anneal *anneal, uint32_t node)
{
    const uint32_t most = anneal->table->problem->nodes[node].most, kind = sp_random_below(&anneal->seed, 8);
    struct sp_routes_interval *now = anneal->now;
    int64_t first = now[node].first, end = end_of(now[node]);
    if (kind < 3) {
        first = any_border(anneal);
        end = any_border(anneal);
        if (first > end) {
            const int64_t other = first;
            first = end;
            end = other;
        }
    } else if (kind == 3) {
        first = any_border(anneal);
        end = first + 1 + sp_random_below(&anneal->seed, most);
    } else if (kind == 4) {
        end = any_border(anneal);
        first = end - 1 - sp_random_below(&anneal->seed, most);
    } else if (kind == 5) {
        end = any_border(anneal);
    } else if (kind == 6) {
        first = any_border(anneal);
    } else {
        const struct sp_routes_interval other = now[sp_random_below(&anneal->seed, anneal->table->nodes)];
        first = other.first;
        end = end_of(other);
    }
    return change(anneal, node, first, end);
}

/* All borders from `low` to `high` move by `by` layers: what ends and begins there stays together. */
static bool shift(struct sp_routes_anneal *anneal, uint32_t low, uint32_t high, int64_t by)
{
    for (uint32_t i = 0; i < anneal->table->nodes; i++) {
        const struct sp_routes_interval now = anneal->now[i];
        const uint32_t end = end_of(now);
        const bool moves_first = now.first >= low && now.first <= high, moves_end = end >= low && end <= high;
        if ((moves_first || moves_end) &&
            !change(anneal, i, now.first + (moves_first ? by : 0), end + (moves_end ? by : 0)))
            return false;
    }
    return true;
}

static bool move_borders(struct sp_routes_anneal *anneal)
{
    uint32_t low = any_border(anneal), high = sp_random_below(&anneal->seed, 2) == 0 ? low : any_border(anneal);
    int64_t by = 1 + (sp_random_below(&anneal->seed, 4) == 0 ? sp_random_below(&anneal->seed, 3) : 0);
    if (sp_random_below(&anneal->seed, 2) == 0)
        by = -by;
    if (low > high) {
        const uint32_t other = low;
        low = high;
        high = other;
    }
    return low > 0 && high < anneal->table->layers && shift(anneal, low, high, by);
}

/* Two nodes change places; one that cannot hold so much keeps one of the ends. */
static bool swap(struct sp_routes_anneal *anneal)
{
    const uint32_t one = sp_random_below(&anneal->seed, anneal->table->nodes);
    const uint32_t other = sp_random_below(&anneal->seed, anneal->table->nodes);
    const struct sp_routes_interval a = anneal->now[one], b = anneal->now[other];
    if (anneal->table->kind_of[one] == anneal->table->kind_of[other] || (a.first == b.first && a.count == b.count))
        return false;
    return change(anneal, one, b.first, end_of(b)) && change(anneal, other, a.first, end_of(a));
}

/* A node's interval is cut in two: it keeps one part, another node takes the other one. */
static bool cut(struct sp_routes_anneal *anneal)
{
    const uint32_t one = sp_random_below(&anneal->seed, anneal->table->nodes);
    const uint32_t other = sp_random_below(&anneal->seed, anneal->table->nodes);
    const struct sp_routes_interval now = anneal->now[one];
    if (one == other || now.count < 2)
        return false;
    const uint32_t middle = now.first + 1 + sp_random_below(&anneal->seed, now.count - 1);
    const bool keeps_front = sp_random_below(&anneal->seed, 2) == 0;
    return change(anneal, one, keeps_front ? now.first : middle, keeps_front ? middle : end_of(now)) &&
           change(anneal, other, keeps_front ? middle : now.first, keeps_front ? end_of(now) : middle);
}

static bool propose(struct sp_routes_anneal *anneal)
{
    const uint32_t nodes = anneal->table->nodes, kind = sp_random_below(&anneal->seed, 16);
    if (kind < 7)
        return move_one(anneal, sp_random_below(&anneal->seed, nodes));
    if (kind < 11)
        return move_borders(anneal);
    if (kind < 13)
        return swap(anneal);
    if (kind < 14)
        return cut(anneal);
    const bool is_moved = move_one(anneal, sp_random_below(&anneal->seed, nodes));
    return is_moved && move_one(anneal, sp_random_below(&anneal->seed, nodes));
}

/* The least that the holders of a layer can do, and what covers add to the value. */
static double least_cover(const struct sp_routes_anneal *anneal, double *ret_extra)
{
    const double enough = anneal->bound;
    double least = INFINITY, sum = 0;
    for (uint32_t l = 0; l < anneal->table->layers; l++) {
        const double cover = anneal->cover[l];
        least = cover < least ? cover : least;
        sum += cover < enough ? cover : enough;
    }
    *ret_extra = COVER_SHARE * sum / anneal->table->layers;
    return least;
}

static void record(struct sp_routes_anneal *anneal, double value)
{
    if (value <= anneal->value * (1 + 1e-12))
        return;
    anneal->value = value;
    memcpy(anneal->best, anneal->now, anneal->table->nodes * sizeof *anneal->best);
}

static void take_back(struct sp_routes_anneal *anneal, bool is_covered)
{
    for (uint32_t i = 0; i < anneal->changed_count; i++) {
        const uint32_t node = anneal->changed[i];
        if (is_covered) {
            add_cover(anneal, node, anneal->now[node], -1);
            add_cover(anneal, node, anneal->before[node], 1);
        }
        anneal->now[node] = anneal->before[node];
    }
}

static void step(struct sp_routes_anneal *anneal, double temperature)
{
    anneal->stamp++;
    anneal->changed_count = 0;
    if (!propose(anneal) || anneal->changed_count == 0) {
        take_back(anneal, false);
        return;
    }
    for (uint32_t i = 0; i < anneal->changed_count; i++) {
        const uint32_t node = anneal->changed[i];
        add_cover(anneal, node, anneal->before[node], -1);
        add_cover(anneal, node, anneal->now[node], 1);
    }
    double extra;
    const double wanted = anneal->now_value + temperature * log(sp_random_fraction(&anneal->seed) + 1e-300);
    const double least = least_cover(anneal, &extra);
    if (least + extra >= wanted) {
        const double value = sp_routes_flow_value(&anneal->flow, anneal->now);
        record(anneal, value);
        if (value + extra >= wanted) {
            anneal->now_value = value + extra;
            return;
        }
    }
    take_back(anneal, true);
}

/* What the choice at hand is worth, anew. */
static void weigh(struct sp_routes_anneal *anneal)
{
    double extra;
    memset(anneal->cover, 0, anneal->table->layers * sizeof *anneal->cover);
    for (uint32_t i = 0; i < anneal->table->nodes; i++)
        add_cover(anneal, i, anneal->now[i], 1);
    (void)least_cover(anneal, &extra);
    anneal->now_value = sp_routes_flow_value(&anneal->flow, anneal->now);
    record(anneal, anneal->now_value);
    anneal->now_value += extra;
}

void sp_routes_anneal_run(struct sp_routes_anneal *anneal, uint64_t steps)
{
    const double factor = pow(anneal->cold / anneal->hot, (double)WEIGH_INTERVAL / (double)(anneal->steps + 1));
    if (anneal->done == 0)
        anneal->temperature = anneal->hot;
    for (uint64_t i = 0; i < steps; i++) {
        if (anneal->done++ % WEIGH_INTERVAL == 0) {
            anneal->temperature *= factor;
            weigh(anneal);
        }
        step(anneal, anneal->temperature);
    }
}
