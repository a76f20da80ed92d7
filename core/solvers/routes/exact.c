/*
 * All choices that matter, node by node, in the order of their first layers, and of the nodes where these are equal. A
 * node begins with the first layer or where another one ends, as nothing comes to it else. Of nodes that are alike the
 * one of the lowest number goes first. With partial intervals a node counts from where requests come to it on: that it
 * holds more layers in front of them, where it is faster so, is made up for in its rate.
 *
 * A choice is left where the nodes that are not placed yet cannot cover what is missing, in one way of weighing, or
 * where too little comes past the layer at which the next one begins.
 */
#include <string.h>

#include "solvers/routes/internal.h"

#define LOOK_INTERVAL 256
#define NONE          UINT32_MAX

struct frame {
    uint32_t first, node, count; /* what is tried; a count of 0: not placed */
};

struct search {
    struct sp_routes_exact *exact;
    const struct sp_routes_table *table;
    struct sp_routes_flow flow;
    struct frame *frames; /* per depth */
    uint32_t depth;
    struct sp_routes_interval *intervals; /* of nodes that are placed; else a count of 0 */
    double *rates[SP_ROUTES_MAX_NODES];   /* with partial intervals: [first * most + count - 1] */
    double wanted;
    double *cover[SP_ROUTES_WAYS]; /* weights of the holders of each layer */
    double *power[SP_ROUTES_WAYS]; /* per node */
    double rest[SP_ROUTES_WAYS];   /* sum of the power of nodes that are not placed */
    uint64_t steps;
};

/* What the interval really is: with partial intervals it may begin earlier. */
static struct sp_routes_interval widest(const struct search *search, uint32_t node, struct sp_routes_interval needed)
{
    struct sp_routes_interval best = needed;
    if (!search->table->problem->is_partial || needed.count == 0)
        return best;
    const uint32_t most = search->table->problem->nodes[node].most, end = needed.first + needed.count;
    for (uint32_t k = needed.count + 1; k <= most && k <= end; k++)
        if (sp_routes_rate(search->table, node, end - k, k) >
            sp_routes_rate(search->table, node, best.first, best.count))
            best = (struct sp_routes_interval){end - k, k};
    return best;
}

static double rate_of(const struct search *search, uint32_t node, uint32_t first, uint32_t count)
{
    const double *rates = search->rates[node];
    return rates != NULL ? rates[(size_t)first * search->table->problem->nodes[node].most + count - 1]
                         : sp_routes_rate(search->table, node, first, count);
}

static void add(struct search *search, uint32_t node, double sign)
{
    const struct sp_routes_interval interval = search->intervals[node];
    const double rate = rate_of(search, node, interval.first, interval.count);
    for (uint32_t way = 0; way < SP_ROUTES_WAYS; way++) {
        const double weight = sign * sp_routes_weight(rate, search->wanted, way);
        for (uint32_t l = interval.first; l < interval.first + interval.count; l++)
            search->cover[way][l] += weight;
        search->rest[way] -= sign * search->power[way][node];
    }
}

/* All weights anew: more is wanted. */
static void want(struct search *search, double wanted)
{
    search->wanted = wanted;
    for (uint32_t way = 0; way < SP_ROUTES_WAYS; way++) {
        search->rest[way] = sp_routes_power(search->table, wanted, way, search->power[way]);
        memset(search->cover[way], 0, search->table->layers * sizeof *search->cover[way]);
    }
    for (uint32_t i = 0; i < search->table->nodes; i++)
        if (search->intervals[i].count > 0)
            add(search, i, 1);
}

/* Whether the nodes that are left may cover what is missing from layer `first` on. */
static bool may_cover(const struct search *search, uint32_t first)
{
    for (uint32_t way = 0; way < SP_ROUTES_WAYS; way++) {
        double missing = 0;
        for (uint32_t l = first; l < search->table->layers; l++)
            missing += search->cover[way][l] < 1 ? 1 - search->cover[way][l] : 0;
        if (missing > search->rest[way] + 1e-9 * search->table->layers)
            return false;
    }
    return true;
}

/* Whether enough comes past `first`, in front of which nothing will be placed any more. */
static bool may_pass(struct search *search, uint32_t first)
{
    for (uint32_t l = 0; l < first; l++)
        if (search->cover[0][l] < 1 - 1e-9)
            return false;
    if (search->table->problem->is_partial) /* flows know nothing of where requests come to a node */
        return true;
    search->flow.horizon = first;
    const double value = sp_routes_flow_value(&search->flow, search->intervals);
    search->flow.horizon = NONE;
    return value >= search->wanted * (1 - 1e-12);
}

static void evaluate(struct search *search, struct sp_routes_interval *scratch)
{
    for (uint32_t l = 0; l < search->table->layers; l++)
        if (search->cover[0][l] < 1 - 1e-9)
            return;
    for (uint32_t i = 0; i < search->table->nodes; i++)
        scratch[i] = widest(search, i, search->intervals[i]);
    const double value = sp_routes_flow_value(&search->flow, scratch);
    if (value < search->wanted)
        return;
    search->exact->value = value;
    memcpy(search->exact->best, scratch, search->table->nodes * sizeof *scratch);
    want(search, value * (1 + 1e-9));
}

/* The lowest node from `node` on that is not placed, none of its kind in front of it, and of kind `kind` or behind it;
   NONE: no more. */
static uint32_t free_node(const struct search *search, uint32_t node, uint32_t kind)
{
    for (; node < search->table->nodes; node++) {
        if (search->intervals[node].count > 0 || search->table->kind_of[node] < kind)
            continue;
        bool is_lowest = true;
        for (uint32_t i = search->table->kind_of[node]; i < node && is_lowest; i++)
            is_lowest = search->table->kind_of[i] != search->table->kind_of[node] || search->intervals[i].count > 0;
        if (is_lowest)
            return node;
    }
    return NONE;
}

/* Where the next node may begin behind `first`: where one ends. */
static uint32_t next_first(const struct search *search, uint32_t first)
{
    uint32_t next = NONE;
    for (uint32_t i = 0; i < search->table->nodes; i++) {
        const uint32_t end = search->intervals[i].first + search->intervals[i].count;
        if (search->intervals[i].count > 0 && end > first && end < next && end < search->table->layers)
            next = end;
    }
    return next;
}

static uint32_t most_at(const struct search *search, uint32_t node, uint32_t first)
{
    const uint32_t most = search->table->problem->nodes[node].most, rest = search->table->layers - first;
    return most < rest ? most : rest;
}

/* The frame's next try; false where there is none. `after` is the frame below, or NULL. */
static bool advance(struct search *search, struct frame *frame, const struct frame *after)
{
    const uint32_t *kind_of = search->table->kind_of;
    for (;;) {
        if (frame->node != NONE && frame->count > 1) {
            frame->count--;
        } else {
            /* Nodes go in the order of their kinds where they begin together. */
            const bool is_beside = after != NULL && after->first == frame->first;
            frame->node =
                free_node(search, frame->node == NONE ? 0 : frame->node + 1, is_beside ? kind_of[after->node] : 0);
            if (frame->node == NONE) {
                frame->first = next_first(search, frame->first);
                if (frame->first == NONE || !may_pass(search, frame->first))
                    return false;
                continue;
            }
            frame->count = most_at(search, frame->node, frame->first);
            if (is_beside && kind_of[after->node] == kind_of[frame->node] && after->count < frame->count)
                frame->count = after->count;
        }
        if (rate_of(search, frame->node, frame->first, frame->count) > 0)
            return true;
    }
}

static void run(struct search *search, struct sp_routes_interval *scratch)
{
    struct frame *frames = search->frames;
    frames[0] = (struct frame){.node = NONE};
    for (uint32_t depth = 0;;) {
        struct frame *frame = &frames[depth];
        if (search->steps++ >= search->exact->limit ||
            (search->steps % LOOK_INTERVAL == 0 &&
             !sp_routes_goes_on(search->exact->options, search->exact->value, search->exact->bound)))
            return;
        if (!advance(search, frame, depth == 0 ? NULL : frame - 1)) {
            if (depth-- == 0)
                break;
            const uint32_t node = frames[depth].node;
            add(search, node, -1);
            search->intervals[node].count = 0;
            continue;
        }
        search->intervals[frame->node] = (struct sp_routes_interval){frame->first, frame->count};
        add(search, frame->node, 1);
        if (may_cover(search, frame->first)) {
            evaluate(search, scratch);
            frames[++depth] = (struct frame){.first = frame->first, .node = NONE};
        } else {
            add(search, frame->node, -1);
            search->intervals[frame->node].count = 0;
        }
    }
    search->exact->is_proved = true;
}

/* With partial intervals: the rates of the widest ones. */
static bool widen(struct sp_arena *arena, struct search *search)
{
    for (uint32_t i = 0; i < search->table->nodes; i++) {
        const uint32_t most = search->table->problem->nodes[i].most;
        double *rates = SP_NEW_ARRAY(arena, (size_t)search->table->layers * most, double);
        if (rates == NULL)
            return false;
        for (uint32_t first = 0; first < search->table->layers; first++)
            for (uint32_t k = 1; k <= most_at(search, i, first); k++) {
                const struct sp_routes_interval wide = widest(search, i, (struct sp_routes_interval){first, k});
                rates[(size_t)first * most + k - 1] = sp_routes_rate(search->table, i, wide.first, wide.count);
            }
        search->rates[i] = rates;
    }
    return true;
}

enum sp_status sp_routes_exact_run(struct sp_arena *arena, struct sp_routes_exact *exact, struct sp_error *err)
{
    const struct sp_routes_table *table = exact->table;
    struct search *search = SP_NEW(arena, struct search);
    struct sp_routes_interval *scratch = SP_NEW_ARRAY(arena, table->nodes, struct sp_routes_interval);
    if (search == NULL || scratch == NULL)
        return sp_fail_memory(err);
    search->exact = exact;
    search->table = table;
    search->frames = SP_NEW_ARRAY(arena, (size_t)table->nodes + 1, struct frame);
    search->intervals = SP_NEW_ARRAY(arena, table->nodes, struct sp_routes_interval);
    if (search->frames == NULL || search->intervals == NULL || (table->problem->is_partial && !widen(arena, search)))
        return sp_fail_memory(err);
    for (uint32_t way = 0; way < SP_ROUTES_WAYS; way++) {
        search->cover[way] = SP_NEW_ARRAY(arena, table->layers, double);
        search->power[way] = SP_NEW_ARRAY(arena, table->nodes, double);
        if (search->cover[way] == NULL || search->power[way] == NULL)
            return sp_fail_memory(err);
    }
    enum sp_status status = sp_routes_flow_create(arena, table, &search->flow, err);
    if (status != SP_OK)
        return status;
    want(search, exact->value > 0 ? exact->value * (1 + 1e-9) : table->most * 1e-9);
    run(search, scratch);
    exact->flows = search->flow.count;
    return SP_OK;
}
