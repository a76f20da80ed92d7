/* Which variables a window has, and which of their states. */
#include <string.h>

#include "solvers/choice/improve_internal.h"

/* Puts candidates of a variable behind those listed: all states when they are few, else those that the messages (or the
   reduced costs of a bound) rate best, with those that states at hand have. Returns how many. */
static uint32_t list_candidates(struct sp_improver *improver, uint32_t v, uint32_t most)
{
    const struct sp_reduced *reduced = improver->reduced;
    struct sp_improve_window *window = &improver->window;
    uint32_t states = reduced->first[v + 1] - reduced->first[v], *list = window->state + window->listed, count = 0;
    int64_t *rate = improver->messages.belief;

    if (states <= most) {
        for (uint32_t s = 0; s < states; s++)
            list[s] = s;
        return states;
    }
    sp_messages_rate(improver, v);
    rate[improver->best[v]] = INT64_MIN + 1;
    rate[improver->messages.states[v]] = INT64_MIN + 1;
    rate[improver->states[v]] = INT64_MIN;
    for (uint32_t s = 0; s < states; s++) {
        if (count == most && rate[s] >= rate[list[most - 1]])
            continue;
        uint32_t at = count < most ? count++ : most - 1;

        for (; at > 0 && rate[list[at - 1]] > rate[s]; at--)
            list[at] = list[at - 1];
        list[at] = s;
    }
    for (uint32_t a = 1; a < count; a++) { /* ascending */
        uint32_t state = list[a], at = a;

        for (; at > 0 && list[at - 1] > state; at--)
            list[at] = list[at - 1];
        list[at] = state;
    }
    improver->work += 4 * (uint64_t)states;
    return count;
}

static void push_neighbours(struct sp_improver *improver, uint32_t v, uint32_t *length)
{
    const struct sp_reduced *reduced = improver->reduced;

    for (uint32_t l = reduced->first_link[v]; l < reduced->first_link[v + 1]; l++) {
        if (improver->place[improver->other[l]] == SP_IMPROVE_NONE && *length < reduced->variable_count)
            improver->queue[(*length)++] = improver->other[l];
    }
    improver->work += reduced->first_link[v + 1] - reduced->first_link[v];
}

/* Adds a connected set of at most `size` variables around `seed`. */
static void grow(struct sp_improver *improver, uint32_t seed, uint32_t size, uint32_t most)
{
    uint32_t length = 1;

    improver->queue[0] = seed;
    for (uint32_t added = 0; added < size && length > 0;) {
        uint32_t at = sp_random_below(&improver->random, length), v = improver->queue[at];

        improver->queue[at] = improver->queue[--length];
        if (improver->place[v] != SP_IMPROVE_NONE)
            continue;
        if (!sp_window_add(improver, v, list_candidates(improver, v, most)))
            return;
        push_neighbours(improver, v, &length);
        added++;
    }
}

static bool is_live(const struct sp_reduced *reduced, uint32_t v, uint32_t moment)
{
    for (uint32_t r = reduced->first_range[v]; r < reduced->first_range[v + 1]; r++) {
        if (reduced->ranges[r].from <= moment && moment < reduced->ranges[r].to)
            return true;
    }
    return false;
}

/* A moment of the variable at which little is left, the best of a few. */
static bool scarce_moment(struct sp_improver *improver, uint32_t v, uint32_t *ret_moment)
{
    const struct sp_reduced *reduced = improver->reduced;
    uint32_t begin = reduced->first_range[v], count = reduced->first_range[v + 1] - begin;
    int64_t least = INT64_MAX;

    for (uint32_t i = 0; count > 0 && i < 8; i++) {
        const struct sp_reduced_range *range = &reduced->ranges[begin + sp_random_below(&improver->random, count)];
        uint32_t moment = range->from + sp_random_below(&improver->random, range->to - range->from);
        int64_t slack = sp_slack_tree_minimum(&improver->slack, moment, moment + 1);

        if (slack < least) {
            least = slack;
            *ret_moment = moment;
        }
    }
    return count > 0;
}

/* A variable that is live at the moment, after a number of tries; or none. */
static uint32_t find_live(struct sp_improver *improver, uint32_t moment)
{
    for (uint32_t tries = 0; tries < 100; tries++) {
        uint32_t v = sp_random_below(&improver->random, improver->reduced->variable_count);

        improver->work += 4;
        if (is_live(improver->reduced, v, moment))
            return v;
    }
    return SP_IMPROVE_NONE;
}

void sp_window_grow(struct sp_improver *improver, uint32_t size, uint32_t most)
{
    uint32_t count = improver->reduced->variable_count, seed = sp_random_below(&improver->random, count), moment = 0;
    uint32_t parts = 1 + sp_random_below(&improver->random, 4), each = size / parts > 0 ? size / parts : 1;
    bool is_at_worst = improver->over > 0 && sp_random_below(&improver->random, 4) > 0;

    sp_window_clear(improver);
    if (is_at_worst) {
        moment = sp_slack_tree_worst(&improver->slack);
    } else {
        if (improver->region_count > 0 && sp_random_below(&improver->random, 4) > 0)
            seed = improver->region[sp_random_below(&improver->random, improver->region_count)];
        grow(improver, seed, each, most);
        if (parts == 1 || !scarce_moment(improver, seed, &moment))
            return;
    }
    for (uint32_t part = 0; part < parts; part++) {
        seed = find_live(improver, moment);
        if (seed != SP_IMPROVE_NONE)
            grow(improver, seed, each, most);
    }
}

/* Variables on which the states and others differ, with both as candidates. */
void sp_window_between(struct sp_improver *improver, const uint32_t *others)
{
    struct sp_improve_window *window = &improver->window;
    uint32_t count = improver->reduced->variable_count, begin = sp_random_below(&improver->random, count);

    sp_window_clear(improver);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t v = i < count - begin ? begin + i : i - (count - begin), a = improver->states[v], b = others[v];
        uint32_t *list = window->state + window->listed;

        if (a == b)
            continue;
        list[0] = a < b ? a : b;
        list[1] = a < b ? b : a;
        if (!sp_window_add(improver, v, 2))
            break;
    }
    improver->work += count;
}

/* A ball of variables around a random one, into improver->region. */
void sp_improver_choose_region(struct sp_improver *improver, uint32_t size)
{
    const struct sp_reduced *reduced = improver->reduced;
    uint32_t *region = improver->region, count = 0, *mark = improver->mark;

    memset(mark, 0, reduced->variable_count * sizeof *mark);
    for (uint32_t next = 0; count < size; next++) {
        if (next == count) { /* nothing more is reached */
            uint32_t v = sp_random_below(&improver->random, reduced->variable_count);

            while (mark[v] != 0)
                v = v + 1 == reduced->variable_count ? 0 : v + 1;
            mark[v] = 1;
            region[count++] = v;
        }
        uint32_t v = region[next];

        for (uint32_t l = reduced->first_link[v]; l < reduced->first_link[v + 1] && count < size; l++) {
            if (mark[improver->other[l]] == 0) {
                mark[improver->other[l]] = 1;
                region[count++] = improver->other[l];
            }
        }
    }
    improver->region_count = count;
    improver->work += reduced->variable_count / 8 + 8 * (uint64_t)count;
}
