/*
 * Dominated states (Goldstein's criterion of dead-end elimination, with usage): a state that another can stand in for,
 * whatever the rest is, is dropped. At leaves the same is asked for each state of the neighbour: a pair is forbidden
 * where the leaf has something that is as cheap and as small beside it.
 */
#include "base/sorted.h"
#include "solvers/choice/reducer.h"

/* What a node's test may cost, in table entries looked at; larger ones are tested in part. */
#define MAX_NODE_WORK 4000000
#define SAMPLES       8

static bool uses_no_more(const struct sp_reducer_node *node, uint32_t a, uint32_t b)
{
    for (uint32_t r = 0; r < node->range_count; r++)
        if (node->usage[(size_t)a * node->range_count + r] > node->usage[(size_t)b * node->range_count + r])
            return false;
    return true;
}

/* By how much a can be dearer than b across the edge, at worst; SP_CHOICE_INFINITE where only b is possible. */
static int64_t worst_difference(const struct sp_reducer *reducer, const struct sp_reducer_view *view, uint32_t a,
                                uint32_t b)
{
    const struct sp_reducer_node *other = &reducer->nodes[view->other];
    int64_t worst = -SP_CHOICE_INFINITE;
    for (uint32_t i = 0; i < other->alive_count; i++) {
        int64_t of_b = sp_reducer_cost(view, b, other->alive[i]);
        if (of_b >= SP_CHOICE_INFINITE)
            continue;
        int64_t of_a = sp_reducer_cost(view, a, other->alive[i]);
        if (of_a >= SP_CHOICE_INFINITE)
            return SP_CHOICE_INFINITE;
        worst = of_a - of_b > worst ? of_a - of_b : worst;
    }
    return worst;
}

/* Samples of what states cost beside some states of the neighbours: nearly all pairs in which neither can stand in for
   the other are told apart by them. Writes SAMPLES sums for each state of v. */
static void take_samples(const struct sp_reducer *reducer, uint32_t v, int64_t *samples)
{
    const struct sp_reducer_node *node = &reducer->nodes[v];
    for (uint32_t i = 0; i < node->alive_count; i++)
        for (uint32_t k = 0; k < SAMPLES; k++)
            samples[node->alive[i] * SAMPLES + k] = node->cost[node->alive[i]];
    uint32_t index = 0;
    for (uint32_t e; (e = sp_reducer_next_link(reducer, v, &index)) != UINT32_MAX;) {
        struct sp_reducer_view view = sp_reducer_view(reducer, e, v);
        const struct sp_reducer_node *other = &reducer->nodes[view.other];
        for (uint32_t k = 0; k < SAMPLES; k++) {
            uint32_t x = other->alive[(e * 2654435761u + k * 40503u) % other->alive_count];
            for (uint32_t i = 0; i < node->alive_count; i++) {
                int64_t *sample = &samples[node->alive[i] * SAMPLES + k];
                *sample = sp_choice_add(*sample, sp_reducer_cost(&view, node->alive[i], x));
            }
        }
    }
}

static bool stands_in(const struct sp_reducer *reducer, uint32_t v, uint32_t a, uint32_t b, const int64_t *samples,
                      uint64_t *work)
{
    const struct sp_reducer_node *node = &reducer->nodes[v];
    (*work)++;
    for (uint32_t k = 0; k < SAMPLES; k++)
        if (samples[a * SAMPLES + k] > samples[b * SAMPLES + k])
            return false;
    (*work) += node->range_count;
    if (!uses_no_more(node, a, b))
        return false;
    int64_t sum = node->cost[a] - node->cost[b];
    uint32_t index = 0;
    for (uint32_t e; (e = sp_reducer_next_link(reducer, v, &index)) != UINT32_MAX;) {
        struct sp_reducer_view view = sp_reducer_view(reducer, e, v);
        (*work) += reducer->nodes[view.other].alive_count;
        int64_t worst = worst_difference(reducer, &view, a, b);
        if (worst >= SP_CHOICE_INFINITE)
            return false;
        sum += worst;
        if (sum < -SP_CHOICE_INFINITE)
            sum = -SP_CHOICE_INFINITE;
    }
    return sum <= 0;
}

static void dominate_states(struct sp_reducer *reducer, uint32_t v, int64_t *samples)
{
    struct sp_reducer_node *node = &reducer->nodes[v];
    uint64_t work = 0;
    take_samples(reducer, v, samples);
    for (uint32_t i = node->alive_count; i-- > 0 && work < MAX_NODE_WORK;) {
        uint32_t b = node->alive[i];
        for (uint32_t j = 0; j < node->alive_count && work < MAX_NODE_WORK; j++)
            if (j != i && stands_in(reducer, v, node->alive[j], b, samples, &work)) {
                sp_reducer_kill_state(reducer, v, b);
                break;
            }
    }
}

/* A leaf's state beside one of its neighbour's. */
struct pair {
    int64_t cost, usage; /* over all ranges: what is smaller everywhere is so here */
    uint32_t state;
};

SP_ASCENDING(by_cost, struct pair, cost, usage, state)

/* Sorts the pairs; those that are not dominated come first then. Returns how many. */
static uint32_t find_fronts(const struct sp_reducer_node *node, struct pair *pairs, uint32_t count)
{
    uint32_t kept = 0;
    qsort(pairs, count, sizeof *pairs, by_cost);
    for (uint32_t i = 0; i < count; i++) {
        bool is_dominated = false;
        for (uint32_t k = 0; k < kept && !is_dominated; k++)
            is_dominated = pairs[k].usage <= pairs[i].usage && uses_no_more(node, pairs[k].state, pairs[i].state);
        if (is_dominated)
            continue;
        struct pair front = pairs[i];
        pairs[i] = pairs[kept];
        pairs[kept++] = front;
    }
    return kept;
}

/* Pairs at a leaf. Of equal ones the first stays. */
static void dominate_pairs(struct sp_reducer *reducer, uint32_t v, struct pair *pairs)
{
    const struct sp_reducer_node *node = &reducer->nodes[v];
    uint32_t index = 0, e = sp_reducer_next_link(reducer, v, &index);
    struct sp_reducer_view view = sp_reducer_view(reducer, e, v);
    const struct sp_reducer_node *other = &reducer->nodes[view.other];
    bool has_changed = false;
    for (uint32_t i = 0; i < other->alive_count; i++) {
        uint32_t x = other->alive[i], count = 0;
        for (uint32_t j = 0; j < node->alive_count; j++) {
            uint32_t s = node->alive[j];
            struct pair pair = {sp_choice_add(node->cost[s], sp_reducer_cost(&view, s, x)), 0, s};
            for (uint32_t r = 0; r < node->range_count; r++)
                pair.usage += node->usage[(size_t)s * node->range_count + r] >> 8; /* so that sums fit */
            if (pair.cost < SP_CHOICE_INFINITE)
                pairs[count++] = pair;
        }
        uint32_t kept = find_fronts(node, pairs, count);
        if (kept == count)
            continue;
        int64_t *table = sp_reducer_own_table(reducer, e);
        if (table == NULL)
            return;
        view.cost = table;
        for (uint32_t k = kept; k < count; k++)
            table[pairs[k].state * view.row + x * view.column] = SP_CHOICE_INFINITE;
        has_changed = true;
    }
    if (has_changed) {
        reducer->has_changed = true;
        sp_reducer_enqueue(reducer, e);
    }
}

/* A state that does not fit at some moment even when everything else is as small as can be. */
static void drop_too_large(struct sp_reducer *reducer, uint32_t v, int64_t least_room)
{
    struct sp_reducer_node *node = &reducer->nodes[v];
    for (uint32_t i = node->alive_count; i-- > 0;) {
        uint32_t s = node->alive[i];
        bool is_too_large = false;
        for (uint32_t r = 0; r < node->range_count && !is_too_large; r++) {
            int64_t use = node->usage[(size_t)s * node->range_count + r];
            for (uint32_t m = node->ranges[r].from; m < node->ranges[r].to && use > least_room && !is_too_large; m++)
                is_too_large = use > reducer->room[m];
        }
        if (is_too_large)
            sp_reducer_kill_state(reducer, v, s);
    }
}

/* Without usage a node is taken out where the table this makes is not larger than those that go. */
static bool is_eliminable(const struct sp_reducer *reducer, uint32_t v)
{
    const struct sp_reducer_node *node = &reducer->nodes[v];
    if (node->range_count > 0 || node->degree > 2)
        return false;
    if (node->degree < 2)
        return true;
    uint32_t index = 0;
    uint32_t e = sp_reducer_next_link(reducer, v, &index), f = sp_reducer_next_link(reducer, v, &index);
    uint64_t a = reducer->nodes[sp_reducer_view(reducer, e, v).other].alive_count;
    uint64_t b = reducer->nodes[sp_reducer_view(reducer, f, v).other].alive_count;
    return a * b <= 2 * node->alive_count * (a + b) && a * b * node->alive_count <= MAX_NODE_WORK;
}

void sp_reducer_dominate(struct sp_reducer *reducer)
{
    int64_t least_room = INT64_MAX;
    uint32_t most = 1;
    for (uint32_t v = 0; v < reducer->problem->node_count; v++)
        most = reducer->nodes[v].states > most ? reducer->nodes[v].states : most;
    int64_t *samples = SP_NEW_ARRAY(reducer->scratch, (size_t)most * SAMPLES, int64_t);
    struct pair *pairs = SP_NEW_ARRAY(reducer->scratch, most, struct pair);
    if (samples == NULL || pairs == NULL) {
        reducer->is_out_of_memory = true;
        return;
    }
    for (uint32_t m = 0; m < reducer->moment_count; m++)
        least_room = reducer->room[m] < least_room ? reducer->room[m] : least_room;
    for (uint32_t v = 0; v < reducer->problem->node_count && !sp_reducer_is_stopped(reducer); v++) {
        if (!sp_reducer_is_variable(reducer, v))
            continue;
        if (is_eliminable(reducer, v)) {
            sp_reducer_eliminate(reducer, v);
            continue;
        }
        if (!reducer->nodes[v].is_dirty)
            continue;
        reducer->nodes[v].is_dirty = false;
        drop_too_large(reducer, v, least_room);
        if (sp_reducer_is_done(reducer))
            return;
        dominate_states(reducer, v, samples);
        if (is_eliminable(reducer, v))
            sp_reducer_eliminate(reducer, v);
        else if (reducer->nodes[v].degree == 1 && reducer->nodes[v].alive_count > 1)
            dominate_pairs(reducer, v, pairs);
    }
}
