/* Messages along edges, one pass over all variables and one back (TRW-S: Kolmogorov 2006), and states that follow them.
 */
#include <string.h>

#include "solvers/choice/improve_internal.h"

enum sp_status sp_messages_init(struct sp_messages *messages, struct sp_improver *improver)
{
    const struct sp_reduced *reduced = improver->reduced;
    struct sp_arena *arena = improver->arena;
    size_t links = 2 * (size_t)reduced->edge_count, total = 0, widest = 1;

    messages->first = SP_NEW_ARRAY(arena, links + 1, uint64_t);
    messages->twin = SP_NEW_ARRAY(arena, links, uint32_t);
    messages->priced = SP_NEW_ARRAY(arena, reduced->first[reduced->variable_count], int64_t);
    messages->states = SP_NEW_ARRAY(arena, reduced->variable_count, uint32_t);
    if (messages->first == NULL || messages->twin == NULL || messages->priced == NULL || messages->states == NULL)
        return SP_ERR_MEMORY;
    for (uint32_t v = 0; v < reduced->variable_count; v++) {
        uint32_t states = reduced->first[v + 1] - reduced->first[v];

        widest = states > widest ? states : widest;
        for (uint32_t l = reduced->first_link[v]; l < reduced->first_link[v + 1]; l++) {
            uint32_t other = improver->other[l];

            messages->first[l] = total;
            total += states;
            for (uint32_t k = reduced->first_link[other]; k < reduced->first_link[other + 1]; k++) {
                if (reduced->links[k] == reduced->links[l])
                    messages->twin[l] = k;
            }
        }
    }
    messages->value = SP_NEW_ARRAY(arena, total, int64_t);
    messages->belief = SP_NEW_ARRAY(arena, widest, int64_t);
    messages->scratch = SP_NEW_ARRAY(arena, widest, int64_t);
    return messages->value == NULL || messages->belief == NULL || messages->scratch == NULL ? SP_ERR_MEMORY : SP_OK;
}

/* What the variable's states cost by its own cost and all messages to it, into `belief`. */
static void believe(struct sp_improver *improver, uint32_t v)
{
    const struct sp_reduced *reduced = improver->reduced;
    struct sp_messages *messages = &improver->messages;
    uint32_t states = reduced->first[v + 1] - reduced->first[v];

    memcpy(messages->belief, messages->priced + reduced->first[v], states * sizeof *messages->belief);
    for (uint32_t l = reduced->first_link[v]; l < reduced->first_link[v + 1]; l++) {
        const int64_t *value = messages->value + messages->first[l];

        for (uint32_t s = 0; s < states; s++)
            messages->belief[s] += value[s];
        if ((l - reduced->first_link[v]) % SP_IMPROVE_TERMS == SP_IMPROVE_TERMS - 1)
            sp_improve_clamp(messages->belief, states);
    }
}

void sp_messages_rate(struct sp_improver *improver, uint32_t v)
{
    const struct sp_reduced *reduced = improver->reduced;

    if (improver->has_guide && sp_random_below(&improver->random, 2) == 0)
        memcpy(improver->messages.belief, improver->guide + reduced->first[v],
               (reduced->first[v + 1] - reduced->first[v]) * sizeof *improver->guide);
    else
        believe(improver, v);
}

/* The state with least of what the messages from variables not decided say, and edges to those that are. */
static void decide(struct sp_improver *improver, uint32_t v, bool is_forward)
{
    const struct sp_reduced *reduced = improver->reduced;
    struct sp_messages *messages = &improver->messages;
    uint32_t states = reduced->first[v + 1] - reduced->first[v], best = 0;
    int64_t *sum = messages->scratch;

    memcpy(sum, messages->priced + reduced->first[v], states * sizeof *sum);
    for (uint32_t l = reduced->first_link[v]; l < reduced->first_link[v + 1]; l++) {
        bool is_decided = (improver->other[l] < v) == is_forward;
        const int64_t *value = is_decided ? improver->rows[l] + (size_t)messages->states[improver->other[l]] * states
                                          : messages->value + messages->first[l];

        for (uint32_t s = 0; s < states; s++)
            sum[s] += value[s];
        if ((l - reduced->first_link[v]) % SP_IMPROVE_TERMS == SP_IMPROVE_TERMS - 1)
            sp_improve_clamp(sum, states);
    }
    for (uint32_t s = 1; s < states; s++)
        best = sum[s] < sum[best] ? s : best;
    messages->states[v] = best;
}

/* The least of part + table for each state of the other, whose row of the table is `states` long. */
static void find_leasts(const int64_t *part, const int64_t *table, uint32_t states, uint32_t others, int64_t *ret_least)
{
    for (uint32_t o = 0; o < others; o++, table += states) {
        int64_t least = INT64_MAX;

        for (uint32_t s = 0; s < states; s++) {
            int64_t value = part[s] + table[s];

            least = value < least ? value : least;
        }
        ret_least[o] = least;
    }
}

#ifdef __x86_64__
/* The same of the turned table, [state][other], for several others at a time. */
#define LANES 4
typedef int64_t wholes __attribute__((vector_size(LANES * sizeof(int64_t))));

__attribute__((target("avx2"))) static void find_leasts_wide(const int64_t *part, const int64_t *turned,
                                                             uint32_t states, uint32_t others, int64_t *ret_least)
{
    uint32_t o = 0;

    for (; o + LANES <= others; o += LANES) {
        wholes least = INT64_MAX - (wholes){0};

        for (uint32_t s = 0; s < states; s++) {
            wholes value;

            memcpy(&value, &turned[(size_t)s * others + o], sizeof value);
            value += part[s];
            const wholes is_less = value < least;

            least = (value & is_less) | (least & ~is_less);
        }
        memcpy(&ret_least[o], &least, sizeof least);
    }
    for (; o < others; o++) {
        int64_t least = INT64_MAX;

        for (uint32_t s = 0; s < states; s++) {
            int64_t value = part[s] + turned[(size_t)s * others + o];

            least = value < least ? value : least;
        }
        ret_least[o] = least;
    }
}
#endif

/* The message along link l of v, to the other: least of the link's share of belief - what came from there + edge. */
static int64_t send(struct sp_improver *improver, uint32_t v, uint32_t l)
{
    const struct sp_reduced *reduced = improver->reduced;
    struct sp_messages *messages = &improver->messages;
    uint32_t other = improver->other[l], twin = messages->twin[l];
    uint32_t states = reduced->first[v + 1] - reduced->first[v];
    uint32_t others = reduced->first[other + 1] - reduced->first[other];
    const int64_t *came = messages->value + messages->first[l];
    int64_t *target = messages->value + messages->first[twin], *part = messages->scratch, least = INT64_MAX;

    for (uint32_t s = 0; s < states; s++)
        part[s] = messages->belief[s] - came[s];
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        find_leasts_wide(part, improver->rows[twin], states, others, target);
    else
#endif
        find_leasts(part, improver->rows[l], states, others, target);
    for (uint32_t o = 0; o < others; o++)
        least = target[o] < least ? target[o] : least;
    for (uint32_t o = 0; o < others; o++) {
        target[o] -= least;
        target[o] = target[o] > SP_CHOICE_INFINITE ? SP_CHOICE_INFINITE : target[o];
    }
    improver->work += (uint64_t)states * others;
    return least;
}

double sp_messages_pass(struct sp_improver *improver, bool is_forward, const volatile bool *stop)
{
    const struct sp_reduced *reduced = improver->reduced;
    uint32_t count = reduced->variable_count;
    double bound = 0;

    for (uint32_t i = 0; i < count && !(stop != NULL && i % 256 == 0 && *stop); i++) {
        uint32_t v = is_forward ? i : count - 1 - i, later = 0, degree;

        believe(improver, v);
        decide(improver, v, is_forward);
        degree = reduced->first_link[v + 1] - reduced->first_link[v];
        for (uint32_t l = reduced->first_link[v]; l < reduced->first_link[v + 1]; l++)
            later += improver->other[l] > v;
        uint32_t states = reduced->first[v + 1] - reduced->first[v];
        int64_t least = INT64_MAX;

        for (uint32_t s = 0; s < states; s++)
            least = improver->messages.belief[s] < least ? improver->messages.belief[s] : least;
        const int64_t shares = later > degree - later ? later : degree > later ? degree - later : 1;

        for (uint32_t s = 0; s < states; s++)
            improver->messages.belief[s] = (improver->messages.belief[s] - least) / shares;
        bound += (double)least;

        for (uint32_t l = reduced->first_link[v]; l < reduced->first_link[v + 1]; l++) {
            if ((improver->other[l] > v) == is_forward)
                bound += (double)send(improver, v, l);
        }
    }
    return bound;
}

/* Costs of all states with prices, into messages->priced. */
void sp_messages_price(struct sp_improver *improver)
{
    const struct sp_reduced *reduced = improver->reduced;
    const double *before = improver->prices.before;

    for (uint32_t v = 0; v < reduced->variable_count; v++) {
        uint32_t begin = reduced->first_range[v], count = reduced->first_range[v + 1] - begin;
        const int64_t *usage = reduced->usage + reduced->first_usage[v];

        for (uint32_t s = reduced->first[v]; s < reduced->first[v + 1]; s++, usage += count) {
            double sum = 0;

            for (uint32_t r = 0; r < count; r++)
                sum += (double)usage[r] *
                       (before[reduced->ranges[begin + r].to] - before[reduced->ranges[begin + r].from]);
            improver->messages.priced[s] = reduced->cost[s] + sp_improve_whole(sum);
        }
    }
}
