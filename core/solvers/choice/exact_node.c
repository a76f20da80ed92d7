/* One node of branch and bound: what fits, what it costs at least, how it is divided. */
#include "solvers/choice/exact_node.h"

#include <math.h>

#include "solvers/choice/bounder.h"

/* Rounds of sweeps at a node, colder each time; as long as they are of use: two nodes raise the bound by more than a
   slow round of one. */
#define MAX_ROUNDS 4
#define SWEEPS     10
#define WARMTH     0.05
#define COOLING    0.6
#define LEAST_GAIN 0.02 /* of the gap, in a round */

const struct sp_reduced *sp_bound_reduced(const struct sp_bound_state *bound)
{
    return bound->reduced;
}

struct sp_exact_worker *sp_exact_worker_create(struct sp_arena *arena, const struct sp_bound_state *bound)
{
    const struct sp_reduced *reduced = bound->reduced;
    struct sp_exact_worker *worker = SP_NEW(arena, struct sp_exact_worker);
    if (worker == NULL)
        return NULL;
    worker->state = sp_bound_fork(arena, bound);
    worker->dead = SP_NEW_ARRAY(arena, reduced->first[reduced->variable_count], bool);
    worker->least = SP_NEW_ARRAY(arena, (size_t)reduced->moment_count + 1, int64_t);
    worker->use = SP_NEW_ARRAY(arena, (size_t)reduced->moment_count + 1, int64_t);
    worker->found = SP_NEW_ARRAY(arena, reduced->variable_count, uint32_t);
    worker->trial = SP_NEW_ARRAY(arena, reduced->variable_count, uint32_t);
    bool is_good = worker->state != NULL && worker->dead != NULL && worker->least != NULL && worker->use != NULL &&
                   worker->found != NULL && worker->trial != NULL;
    if (is_good)
        worker->state->dead = worker->dead;
    return is_good ? worker : NULL;
}

struct sp_exact_node *sp_exact_node_create(struct sp_arena *arena, const struct sp_exact_worker *worker)
{
    const struct sp_reduced *reduced = worker->state->reduced;
    struct sp_exact_node *node = SP_NEW(arena, struct sp_exact_node);
    if (node == NULL)
        return NULL;
    node->dead = SP_NEW_ARRAY(arena, reduced->first[reduced->variable_count], bool);
    node->messages = SP_NEW_ARRAY(arena, worker->state->message_count, double);
    node->prices = SP_NEW_ARRAY(arena, reduced->moment_count, double);
    return node->dead != NULL && node->messages != NULL && node->prices != NULL ? node : NULL;
}

size_t sp_exact_node_bytes(const struct sp_bound_state *bound)
{
    const struct sp_reduced *reduced = bound->reduced;
    return sizeof(struct sp_exact_node) + reduced->first[reduced->variable_count] * sizeof(bool) +
           (bound->message_count + reduced->moment_count) * sizeof(double);
}

void sp_exact_node_root(struct sp_exact_node *node, const struct sp_bound_state *bound)
{
    memcpy(node->messages, bound->best_messages, bound->message_count * sizeof(double));
    memcpy(node->prices, bound->prices.best, bound->reduced->moment_count * sizeof(double));
    node->bound = sp_bound_best(bound);
}

static void load(struct sp_exact_worker *worker, const struct sp_exact_node *node)
{
    struct sp_bound_state *state = worker->state;
    const struct sp_reduced *reduced = state->reduced;
    memcpy(worker->dead, node->dead, reduced->first[reduced->variable_count] * sizeof(bool));
    memcpy(state->messages, node->messages, state->message_count * sizeof(double));
    state->has_best = false;
    sp_bound_warm(state, node->prices);
    for (uint32_t m = 0; m <= reduced->moment_count; m++)
        state->prices.step[m] = state->prices.last_over[m] = 0;
}

static void save(const struct sp_exact_worker *worker, struct sp_exact_node *node, int64_t bound)
{
    const struct sp_bound_state *state = worker->state;
    const struct sp_reduced *reduced = state->reduced;
    memcpy(node->dead, worker->dead, reduced->first[reduced->variable_count] * sizeof(bool));
    memcpy(node->messages, state->best_messages, state->message_count * sizeof(double));
    memcpy(node->prices, state->prices.best, reduced->moment_count * sizeof(double));
    node->bound = bound;
}

/* What everything uses at least, at each moment; how much is left of the limits is `use`. False when that is less than
   nothing. */
static bool find_room(struct sp_exact_worker *worker)
{
    const struct sp_reduced *reduced = worker->state->reduced;
    memset(worker->least, 0, ((size_t)reduced->moment_count + 1) * sizeof(int64_t));
    for (uint32_t v = 0; v < reduced->variable_count; v++) {
        uint32_t ranges = reduced->first_range[v + 1] - reduced->first_range[v];
        for (uint32_t r = 0; r < ranges; r++) {
            const int64_t *usage = &reduced->usage[reduced->first_usage[v] + r];
            int64_t least = INT64_MAX;
            for (uint32_t s = 0; s < sp_states_of(reduced, v); s++)
                if (!worker->dead[reduced->first[v] + s] && usage[(size_t)s * ranges] < least)
                    least = usage[(size_t)s * ranges];
            if (least == INT64_MAX)
                return false; /* no state is left */
            worker->least[reduced->ranges[reduced->first_range[v] + r].from] += least;
            worker->least[reduced->ranges[reduced->first_range[v] + r].to] -= least;
        }
    }
    int64_t sum = 0;
    for (uint32_t m = 0; m < reduced->moment_count; m++) {
        sum += worker->least[m];
        worker->use[m] = reduced->limit[m] - sum;
        if (worker->use[m] < 0)
            return false;
    }
    return true;
}

/* Forbids states that use more than is left when all others use the least. Returns how many. */
static uint32_t drop_too_large(struct sp_exact_worker *worker)
{
    const struct sp_reduced *reduced = worker->state->reduced;
    uint32_t dropped = 0;
    for (uint32_t v = 0; v < reduced->variable_count; v++) {
        uint32_t ranges = reduced->first_range[v + 1] - reduced->first_range[v];
        for (uint32_t r = 0; r < ranges; r++) {
            const struct sp_reduced_range *range = &reduced->ranges[reduced->first_range[v] + r];
            const int64_t *usage = &reduced->usage[reduced->first_usage[v] + r];
            int64_t room = INT64_MAX, least = INT64_MAX;
            for (uint32_t m = range->from; m < range->to; m++)
                room = worker->use[m] < room ? worker->use[m] : room;
            for (uint32_t s = 0; s < sp_states_of(reduced, v); s++)
                if (!worker->dead[reduced->first[v] + s] && usage[(size_t)s * ranges] < least)
                    least = usage[(size_t)s * ranges];
            for (uint32_t s = 0; s < sp_states_of(reduced, v) && least < INT64_MAX; s++)
                if (!worker->dead[reduced->first[v] + s] && usage[(size_t)s * ranges] - least > room) {
                    worker->dead[reduced->first[v] + s] = true;
                    dropped++;
                }
        }
    }
    worker->state->work += reduced->first_usage[reduced->variable_count];
    return dropped;
}

static bool fit(struct sp_exact_worker *worker)
{
    do {
        if (!find_room(worker))
            return false;
    } while (drop_too_large(worker) > 0);
    return true;
}

/* The likeliest alive state of each variable, as a choice of its own. */
static void try_likeliest(struct sp_exact_worker *worker)
{
    const struct sp_bound_state *state = worker->state;
    const struct sp_reduced *reduced = state->reduced;
    __int128 cost = reduced->fixed_cost;
    memset(worker->use, 0, ((size_t)reduced->moment_count + 1) * sizeof(int64_t));
    for (uint32_t v = 0; v < reduced->variable_count; v++) {
        uint32_t best = UINT32_MAX, first = reduced->first[v];
        for (uint32_t s = 0; s < sp_states_of(reduced, v); s++)
            if (!worker->dead[first + s] &&
                (best == UINT32_MAX || state->shares[first + s] > state->shares[first + best]))
                best = s;
        if (best == UINT32_MAX)
            return;
        worker->trial[v] = best;
        cost += reduced->cost[first + best];
        uint32_t ranges = reduced->first_range[v + 1] - reduced->first_range[v];
        for (uint32_t r = 0; r < ranges; r++) {
            int64_t usage = reduced->usage[reduced->first_usage[v] + (uint64_t)best * ranges + r];
            worker->use[reduced->ranges[reduced->first_range[v] + r].from] += usage;
            worker->use[reduced->ranges[reduced->first_range[v] + r].to] -= usage;
        }
    }
    for (uint32_t e = 0; e < reduced->edge_count; e++) {
        const struct sp_reduced_edge *edge = &reduced->edges[e];
        int64_t here =
            edge->cost[(size_t)worker->trial[edge->u] * sp_states_of(reduced, edge->v) + worker->trial[edge->v]];
        if (here >= SP_CHOICE_INFINITE)
            return;
        cost += here;
    }
    int64_t sum = 0;
    for (uint32_t m = 0; m < reduced->moment_count; m++) {
        sum += worker->use[m];
        if (sum > reduced->limit[m])
            return;
    }
    if (cost >= worker->cost)
        return;
    worker->cost = worker->found_cost = (int64_t)cost;
    worker->has_found = true;
    memcpy(worker->found, worker->trial, reduced->variable_count * sizeof(uint32_t));
}

/* Improves the bound; false when nothing better can be here. */
static bool tighten(struct sp_exact_worker *worker, int64_t *bound, const volatile bool *stop)
{
    struct sp_bound_state *state = worker->state;
    const struct sp_reduced *reduced = state->reduced;
    double before = (double)*bound,
           temperature = WARMTH * ((double)worker->cost - before) / (reduced->variable_count + 1);
    bool is_slow = false;
    for (uint32_t round = 0; round < MAX_ROUNDS && !is_slow && (stop == NULL || !*stop); round++) {
        if (!fit(worker))
            return false;
        sp_bound_apply_prices(state);
        for (uint32_t i = 0; i < SWEEPS; i++) {
            sp_bound_soft_sweep(state, i % 2 == 1, temperature);
            sp_bound_move_prices(state, temperature);
        }
        (void)sp_bound_evaluate(state);
        if (stop != NULL && *stop)
            break;
        int64_t now = sp_bound_best(state);
        *bound = now > *bound ? now : *bound;
        try_likeliest(worker);
        if (*bound >= worker->cost)
            return false;
        uint32_t dropped = sp_bound_mark_dead(state, worker->cost, worker->dead);
        is_slow = (double)now - before < LEAST_GAIN * (double)(worker->cost - now) && dropped == 0;
        before = (double)now > before ? (double)now : before;
        temperature *= COOLING;
    }
    return true;
}

struct division {
    uint32_t v;
    double score;
    bool is_by_usage;
    double at; /* priced usage up to here is less */
    uint32_t likeliest;
};

static double priced_usage(const struct sp_bound_state *state, uint32_t v, uint32_t s)
{
    const struct sp_reduced *reduced = state->reduced;
    uint32_t first = reduced->first_range[v], ranges = reduced->first_range[v + 1] - first;
    double sum = 0;
    for (uint32_t r = 0; r < ranges; r++)
        sum +=
            (state->prices.sums[reduced->ranges[first + r].to] - state->prices.sums[reduced->ranges[first + r].from]) *
            (double)reduced->usage[reduced->first_usage[v] + (uint64_t)s * ranges + r];
    return sum;
}

/* Where the shares are divided most: between states that use more and less, or, where usage is not the matter, between
   any. */
static struct division divide_variable(const struct sp_exact_worker *worker, uint32_t v, double unit)
{
    const struct sp_bound_state *state = worker->state;
    const struct sp_reduced *reduced = state->reduced;
    struct division division = {.v = v, .score = -1, .likeliest = UINT32_MAX};
    double mean = 0, square = 0, sum = 0, most = 0;
    uint32_t alive = 0;
    for (uint32_t s = 0; s < sp_states_of(reduced, v); s++) {
        if (worker->dead[reduced->first[v] + s])
            continue;
        double share = state->shares[reduced->first[v] + s] + 1e-9, usage = priced_usage(state, v, s);
        alive++;
        sum += share;
        mean += share * usage;
        square += share * usage * usage;
        if (share > most) {
            most = share;
            division.likeliest = s;
        }
    }
    if (alive < 2)
        return division;
    mean /= sum;
    double spread = sqrt(fmax(0, square / sum - mean * mean));
    double doubt = 1 - most / sum;
    division.is_by_usage = spread > 0.1 * unit;
    division.at = mean;
    division.score = spread + unit * doubt + 1e-9 * unit * alive;
    return division;
}

/* Writes both parts; the one with the likeliest state is the second. */
static void divide(struct sp_exact_worker *worker, const struct division *division,
                   struct sp_exact_node *const children[2], int64_t bound)
{
    const struct sp_bound_state *state = worker->state;
    const struct sp_reduced *reduced = state->reduced;
    uint32_t first = reduced->first[division->v], parts[2] = {0, 0};
    save(worker, children[0], bound);
    save(worker, children[1], bound);
    bool is_by_usage = division->is_by_usage;
    for (uint32_t attempt = 0; attempt < 2 && (parts[0] == 0 || parts[1] == 0); attempt++, is_by_usage = false) {
        parts[0] = parts[1] = 0;
        bool is_likely_low = is_by_usage && priced_usage(state, division->v, division->likeliest) <= division->at;
        for (uint32_t s = 0; s < sp_states_of(reduced, division->v); s++) {
            if (worker->dead[first + s])
                continue;
            bool is_second = is_by_usage ? (priced_usage(state, division->v, s) <= division->at) == is_likely_low
                                         : s == division->likeliest;
            children[0]->dead[first + s] = is_second;
            children[1]->dead[first + s] = !is_second;
            parts[is_second]++;
        }
    }
}

void sp_exact_work_on(struct sp_exact_worker *worker, const struct sp_exact_node *node,
                      struct sp_exact_node *const children[2], const volatile bool *stop)
{
    struct sp_bound_state *state = worker->state;
    const struct sp_reduced *reduced = state->reduced;
    uint64_t start = state->work;
    int64_t bound = node->bound;
    worker->has_found = false;
    state->stop = stop;
    load(worker, node);
    bool is_open = tighten(worker, &bound, stop);
    worker->outcome = SP_EXACT_CLOSED;
    worker->work = 0;
    if (stop != NULL && *stop) {
        worker->outcome = SP_EXACT_STOPPED;
    } else if (is_open) {
        double unit = ((double)worker->cost - (double)bound) / (reduced->variable_count + 1);
        struct division best = {.score = -1};
        for (uint32_t v = 0; v < reduced->variable_count; v++) {
            struct division division = divide_variable(worker, v, unit);
            if (division.score > best.score)
                best = division;
        }
        if (best.score >= 0) {
            worker->outcome = SP_EXACT_BRANCHED;
            divide(worker, &best, children, bound);
        }
    }
    worker->work = state->work - start;
}
