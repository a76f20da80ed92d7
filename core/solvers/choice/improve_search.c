/*
 * The plan of a search: first relax, for prices and for states to begin with; then rounds. A round disturbs the best
 * states in a region, makes them fit again and improves them by windows, and goes back when they have not become
 * better.
 */
#include <string.h>

#include "solvers/choice/improve_internal.h"

#define PASSES          1000                  /* of messages, at most, in the beginning */
#define PASSES_CHECK    100                   /* of them are a part of the beginning; it ends after one */
#define LEAST_RISE      3e-4                  /* with less rise of the bound than this part of it */
#define PASSES_WORK     UINT64_C(10000000000) /* nor more than this, where a hundred passes are more */
#define PENALTY         0.003                 /* of being over, in the beginning, as a part of what all costs */
#define PENALTY_GROWTH  1.3
#define PENALTY_WINDOWS 10   /* after so many, and more when there are many variables, it grows */
#define ROUND_PASSES    2    /* of messages, for better prices, before a round */
#define SLOW            3e-5 /* gain of as many windows as the patience, as a part of the cost: too little to go on */
#define KINDS           6

/* Windows of several sizes: many variables with few states, or few with many. */
static const struct {
    uint32_t variables, states;
    double width; /* binary logarithm of the largest table */
} kinds[KINDS] = {{12, 4096, 13}, {30, 4096, 13}, {60, 16, 13}, {120, 8, 13}, {250, 4, 13}, {800, 3, 13}};

/* Raises the price of being over where the states are. */
static void penalise(struct sp_improver *improver)
{
    uint32_t moments = improver->reduced->moment_count;

    for (uint32_t t = 0; t < moments; t++) {
        bool is_over = sp_slack_tree_minimum(&improver->slack, t, t + 1) < 0;
        double unit = ((double)improver->cost + 1) / (double)(improver->reduced->limit[t] + 1);

        improver->prices.penalty[t] = is_over ? improver->prices.penalty_scale * unit : 0;
    }
    sp_improver_sum_prices(improver->prices.penalty, improver->prices.penalty_before, moments);
    improver->work += 16 * (uint64_t)moments;
}

/* Kinds that have improved much for their work are chosen more often. */
static uint32_t choose_kind(struct sp_improver *improver)
{
    double rate[KINDS], sum = 0, most = 0;

    for (uint32_t k = 0; k < KINDS; k++) {
        rate[k] = (improver->kind_gain[k] + 1) / (improver->kind_work[k] + 1e6);
        most = rate[k] > most ? rate[k] : most;
    }
    for (uint32_t k = 0; k < KINDS; k++) {
        rate[k] = rate[k] < 0.1 * most ? 0.1 * most : rate[k];
        sum += rate[k];
    }
    double at = (double)sp_random_below(&improver->random, 1 << 30) / (1 << 30) * sum;
    uint32_t kind = 0;

    while (kind + 1 < KINDS && at >= rate[kind])
        at -= rate[kind++];
    return kind;
}

/* Solves the window that was grown; true when the states became better. */
static bool solve(struct sp_improver *improver, double width, uint64_t steps, const volatile bool *stop)
{
    struct sp_improve_window *window = &improver->window;

    sp_window_prepare(improver, width);
    int64_t was = window->current;

    if (!sp_window_solve(improver, was + 1, 10, steps, stop))
        return false;
    sp_improver_take(improver, window->best);
    sp_improver_remember(improver);
    return window->best_cost < was;
}

static bool try_window(struct sp_improver *improver, const volatile bool *stop)
{
    uint32_t kind = choose_kind(improver), most = kinds[kind].variables;
    uint64_t work = improver->work;

    sp_window_grow(improver, most / 4 + sp_random_below(&improver->random, most - most / 4 + 1), kinds[kind].states);
    bool is_better = solve(improver, kinds[kind].width, 2000, stop);

    improver->kind_gain[kind] = 0.999 * improver->kind_gain[kind] + (is_better ? 1 : 0);
    improver->kind_work[kind] = 0.999 * improver->kind_work[kind] + (double)(improver->work - work);
    return is_better;
}

static void go_back(struct sp_improver *improver)
{
    memcpy(improver->states, improver->best, improver->reduced->variable_count * sizeof *improver->best);
    sp_improver_refresh(improver);
}

/* Begins a round: a region of the best states is replaced by what disturbed prices say. */
static void begin_round(struct sp_improver *improver, const volatile bool *stop)
{
    uint32_t count = improver->reduced->variable_count, size = count;

    for (uint32_t halvings = sp_random_below(&improver->random, 8); halvings > 0 && size > 40; halvings--)
        size /= 2;
    for (uint32_t pass = 0; pass < ROUND_PASSES; pass++)
        sp_improver_relax(improver, stop);
    go_back(improver);
    sp_improver_disturb(improver, 2, stop);
    sp_improver_choose_region(improver, size);
    for (uint32_t i = 0; i < improver->region_count; i++) {
        uint32_t v = improver->region[i];

        improver->states[v] = improver->messages.states[v];
    }
    sp_improver_refresh(improver);
    improver->prices.penalty_scale = PENALTY;
    improver->windows = 0;
    improver->idle = 0;
    improver->patience = 50 + size / 16;
    improver->over_before = INT64_MAX;
}

/* Ends a round: what is best in either, the round's states or the best ones, before the latter are gone back to. */
static void end_round(struct sp_improver *improver, const volatile bool *stop)
{
    if (improver->over == 0 && improver->infinite == 0) {
        sp_window_between(improver, improver->best);
        if (improver->window.added > 0)
            solve(improver, 16, 4000, stop);
    }
    improver->rounds++;
    begin_round(improver, stop);
}

/* While the states are over, being so gets dearer and dearer, the sooner where that does not help. */
static void press(struct sp_improver *improver)
{
    uint32_t every = PENALTY_WINDOWS + improver->reduced->variable_count / 64;

    if (improver->windows % every != 0)
        return;
    if (improver->windows > 0)
        improver->prices.penalty_scale *= improver->over < improver->over_before ? PENALTY_GROWTH : 2 * PENALTY_GROWTH;
    improver->over_before = improver->over;
    penalise(improver);
}

/* One window of a round, or its end: when windows have not helped for long, or hardly. */
static void step_round(struct sp_improver *improver, const volatile bool *stop)
{
    if (improver->over > 0)
        press(improver);
    improver->idle = try_window(improver, stop) || improver->over > 0 ? 0 : improver->idle + 1;
    improver->windows++;
    bool is_slow = false;

    if (improver->windows % improver->patience == 0 && improver->over == 0) {
        is_slow = improver->over_before == 0 &&
                  (double)(improver->cost_before - improver->cost) < SLOW * (double)improver->cost;
        improver->cost_before = improver->cost;
        improver->over_before = 0;
    }
    if (improver->idle > improver->patience || is_slow || improver->windows > 100 * improver->patience)
        end_round(improver, stop);
}

/* A pass of the beginning; ends it when passes no longer help. */
static void step_beginning(struct sp_improver *improver, const volatile bool *stop)
{
    sp_improver_relax(improver, stop);
    if (improver->prices.passes % PASSES_CHECK == 0) {
        double rise = improver->prices.bound - improver->prices.bound_before;
        double size = improver->prices.bound > 0 ? improver->prices.bound : -improver->prices.bound;

        improver->is_begun =
            rise < LEAST_RISE * size || improver->prices.passes >= PASSES || improver->work > PASSES_WORK;
        improver->prices.bound_before = improver->prices.bound;
    }
    if (!improver->is_begun)
        return;
    improver->prices.penalty_scale = PENALTY;
    improver->windows = 0;
    improver->idle = 0;
    improver->patience = 200 + improver->reduced->variable_count / 16;
    improver->over_before = INT64_MAX;
}

void sp_improver_run(struct sp_improver *improver, uint64_t work, int64_t bound, const volatile bool *stop,
                     uint64_t *ret_work)
{
    uint64_t begin = improver->work;
    int64_t fixed = improver->reduced->fixed_cost, target = bound > fixed ? bound - fixed : 0;

    while (improver->work - begin < work && !(stop != NULL && *stop) && improver->reduced->variable_count > 0) {
        if (improver->best_infinite == 0 && improver->best_over == 0 && improver->best_cost <= target)
            break;
        if (!improver->is_begun)
            step_beginning(improver, stop);
        else
            step_round(improver, stop);
    }
    *ret_work = improver->work - begin;
}
