/* Sweeps: messages of one node after the other. */
#include <float.h>
#include <math.h>

#include "solvers/choice/bounder.h"

static inline double least_of(const double *table, const double *message, uint32_t count)
{
    double least[4] = {DBL_MAX, DBL_MAX, DBL_MAX, DBL_MAX};
    uint32_t s = 0;
    for (; s + 4 <= count; s += 4)
        for (uint32_t i = 0; i < 4; i++) {
            double value = table[s + i] - message[s + i];
            least[i] = value < least[i] ? value : least[i];
        }
    for (; s < count; s++) {
        double value = table[s] - message[s];
        least[0] = value < least[0] ? value : least[0];
    }
    least[0] = least[1] < least[0] ? least[1] : least[0];
    least[2] = least[3] < least[2] ? least[3] : least[2];
    return least[2] < least[0] ? least[2] : least[0];
}

/* A link of v as v sees it. */
struct end {
    const double *table, *turned; /* [state of v][state of the other]; the other way round */
    double *to_node;              /* message to v */
    const double *to_other;
    uint32_t other, count;
};

static struct end end_of(const struct sp_bound_state *state, uint32_t v, uint32_t e)
{
    const struct sp_reduced *reduced = state->reduced;
    const struct sp_reduced_edge *edge = &reduced->edges[e];
    double *to_u = &state->messages[state->first_message[e]], *to_v = to_u + sp_states_of(reduced, edge->u);
    if (edge->u == v)
        return (struct end){state->tables[e], state->turned[e], to_u, to_v, edge->v, sp_states_of(reduced, edge->v)};
    return (struct end){state->turned[e], state->tables[e], to_v, to_u, edge->u, sp_states_of(reduced, edge->u)};
}

/* Probabilities of v's states of costs `total`, scaled by `rate`. Returns the soft minimum. */
static double weigh(struct sp_bound_state *state, const double *total, uint32_t count, double temperature)
{
    double least = total[0], sum = 0, rate = 1 / temperature;
    for (uint32_t s = 1; s < count; s++)
        least = total[s] < least ? total[s] : least;
    for (uint32_t s = 0; s < count; s += SP_BOUND_LANES) {
        float x[SP_BOUND_LANES] = {0};
        for (uint32_t i = 0; i < SP_BOUND_LANES && s + i < count; i++)
            x[i] = (float)((least - total[s + i]) * rate);
        sp_bound_exponentials(x);
        for (uint32_t i = 0; i < SP_BOUND_LANES && s + i < count; i++) {
            state->scratch.weights[s + i] = (double)x[i];
            sum += (double)x[i];
        }
    }
    for (uint32_t s = 0; s < count; s++)
        state->scratch.weights[s] /= sum;
    return least - temperature * log(sum);
}

/* The best messages of all edges at v, with all others as they are: each of them and v itself then think the same of
   v's states (the star update of convex belief propagation). */
static double soften_node(struct sp_bound_state *state, uint32_t v, double temperature)
{
    const struct sp_reduced *reduced = state->reduced;
    uint32_t first = reduced->first_link[v], links = reduced->first_link[v + 1] - first;
    uint32_t count = sp_states_of(reduced, v);
    double *total = state->scratch.total;
    memcpy(total, &state->own[reduced->first[v]], count * sizeof(double));
    for (uint32_t i = 0; i < links; i++) {
        struct end end = end_of(state, v, reduced->links[first + i]);
        double *gather = &state->scratch.gather[(size_t)i * count];
        sp_bound_soft_leasts(&(struct sp_bound_columns){end.turned, end.to_other, end.count, count}, temperature,
                             gather);
        for (uint32_t s = 0; s < count; s++)
            total[s] += gather[s];
        state->work += (uint64_t)count * end.count;
    }
    for (uint32_t s = 0; s < count; s++)
        total[s] /= 1 + links;
    for (uint32_t i = 0; i < links; i++) {
        struct end end = end_of(state, v, reduced->links[first + i]);
        const double *gather = &state->scratch.gather[(size_t)i * count];
        for (uint32_t s = 0; s < count; s++)
            end.to_node[s] = gather[s] - total[s];
    }
    double soft = weigh(state, total, count, temperature);
    memcpy(&state->shares[reduced->first[v]], state->scratch.weights, count * sizeof(double));
    sp_bound_add_means(state, v, state->scratch.weights);
    state->work += (uint64_t)count * 4;
    return soft * (1 + links);
}

double sp_bound_soft_sweep(struct sp_bound_state *state, bool is_backward, double temperature)
{
    uint32_t variables = state->reduced->variable_count;
    double sum = 0;
    memset(state->prices.mean, 0, ((size_t)state->reduced->moment_count + 1) * sizeof(double));
    for (uint32_t i = 0; i < variables && !sp_bound_is_stopped(state); i++)
        sum += soften_node(state, is_backward ? variables - 1 - i : i, temperature);
    return sum;
}

/* Sequential reweighted message passing: what came from nodes before v goes on to those behind it, evenly. */
static void harden_node(struct sp_bound_state *state, uint32_t v, bool is_backward)
{
    const struct sp_reduced *reduced = state->reduced;
    uint32_t first = reduced->first_link[v], links = reduced->first_link[v + 1] - first;
    uint32_t count = sp_states_of(reduced, v), before = 0;
    double *total = state->scratch.total;
    memcpy(total, &state->own[reduced->first[v]], count * sizeof(double));
    for (uint32_t i = 0; i < links; i++) {
        struct end end = end_of(state, v, reduced->links[first + i]);
        bool is_before = (end.other < v) != is_backward;
        for (uint32_t s = 0; s < count && is_before; s++)
            end.to_node[s] = least_of(&end.table[(size_t)s * end.count], end.to_other, end.count);
        for (uint32_t s = 0; s < count; s++)
            total[s] += end.to_node[s];
        before += is_before;
        state->work += is_before ? (uint64_t)count * end.count : count;
    }
    uint32_t behind = links - before, parts = behind > before ? behind : before;
    if (behind == 0)
        return;
    for (uint32_t i = 0; i < links; i++) {
        struct end end = end_of(state, v, reduced->links[first + i]);
        if ((end.other < v) != is_backward)
            continue;
        for (uint32_t s = 0; s < count; s++)
            end.to_node[s] -= total[s] / parts;
    }
}

void sp_bound_hard_sweep(struct sp_bound_state *state, bool is_backward)
{
    uint32_t variables = state->reduced->variable_count;
    for (uint32_t i = 0; i < variables && !sp_bound_is_stopped(state); i++)
        harden_node(state, is_backward ? variables - 1 - i : i, is_backward);
}
