/* Windows: their variables, and what these cost and use with everything else as it is. */
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "solvers/choice/improve_internal.h"

/* Allocates an array for `field`, and says whether there was memory. */
#define ARRAY(field, count) ((window->field = sp_arena_array(arena, (count), sizeof *window->field)) != NULL)

static bool allocate_order(struct sp_improve_window *window, struct sp_arena *arena)
{
    size_t places = window->most_places;

    return ARRAY(order.links, places * ((places + 63) / 64)) && ARRAY(order.weight, places) &&
           ARRAY(order.around, places) && ARRAY(order.variable, places) && ARRAY(order.first, places) &&
           ARRAY(order.size, places) && ARRAY(order.eliminated, places) && ARRAY(order.place_of, places);
}

static bool allocate_tables(struct sp_improve_window *window, struct sp_arena *arena, size_t states, size_t widest)
{
    size_t places = window->most_places, terms = (size_t)window->most_inner + places;

    return ARRAY(variable, places) && ARRAY(first, places) && ARRAY(size, places) && ARRAY(state, states) &&
           ARRAY(own, states) && ARRAY(priced, states) && ARRAY(chosen, places) && ARRAY(best, places) &&
           ARRAY(tables.scope, places * SP_WINDOW_WIDTH) && ARRAY(tables.widths, places) && ARRAY(tables.of, places) &&
           ARRAY(tables.first_term, places + 1) && ARRAY(tables.term, 2 * terms) &&
           ARRAY(tables.stride, terms * SP_WINDOW_WIDTH) && ARRAY(tables.cells, window->most_cells + places) &&
           ARRAY(tables.copies, window->most_copies) && ARRAY(tables.value, widest) &&
           ARRAY(enumeration.ranked, states) && ARRAY(enumeration.regret, states) &&
           ARRAY(enumeration.candidates, places) && ARRAY(enumeration.tried, places) &&
           ARRAY(enumeration.spent, places);
}

static bool allocate_segments(struct sp_improve_window *window, struct sp_arena *arena, size_t ranges)
{
    return ARRAY(segments.first_part, window->most_places + 1) && ARRAY(segments.from, ranges) &&
           ARRAY(segments.to, ranges) && ARRAY(segments.cap, 2 * ranges + 1) && ARRAY(segments.used, 2 * ranges + 1) &&
           ARRAY(segments.price, 2 * ranges + 1) && ARRAY(segments.best_price, 2 * ranges + 1) &&
           ARRAY(segments.price_before, 2 * ranges + 2) && ARRAY(segments.edges, 2 * ranges);
}

static uint32_t least_of(uint64_t a, uint32_t b)
{
    return a < b ? (uint32_t)a : b;
}

static void limit_room(struct sp_improve_window *window, const struct sp_reduced *reduced, size_t widest)
{
    uint64_t copies = 0;

    for (uint32_t e = 0; e < reduced->edge_count; e++) {
        const struct sp_reduced_edge *edge = &reduced->edges[e];

        copies += (uint64_t)(reduced->first[edge->u + 1] - reduced->first[edge->u]) *
                  (reduced->first[edge->v + 1] - reduced->first[edge->v]);
    }
    window->most_places = least_of(reduced->variable_count, SP_WINDOW_PLACES);
    window->most_listed = least_of((uint64_t)window->most_places * widest, reduced->first[reduced->variable_count]);
    window->most_inner = least_of(reduced->edge_count, SP_WINDOW_TERMS);
    window->most_copies = least_of(copies, SP_WINDOW_CELLS);
    window->most_cells = least_of(1024 * (uint64_t)reduced->first[reduced->variable_count], SP_WINDOW_CELLS);
}

enum sp_status sp_window_init(struct sp_improve_window *window, struct sp_improver *improver)
{
    const struct sp_reduced *reduced = improver->reduced;
    size_t variables = reduced->variable_count, widest = 1;

    for (uint32_t v = 0; v < variables; v++) {
        if (reduced->first[v + 1] - reduced->first[v] > widest)
            widest = reduced->first[v + 1] - reduced->first[v];
    }
    limit_room(window, reduced, widest);
    return allocate_order(window, improver->arena) &&
                   allocate_tables(window, improver->arena, window->most_listed + widest, widest) &&
                   allocate_segments(window, improver->arena, reduced->first_range[variables])
               ? SP_OK
               : SP_ERR_MEMORY;
}

void sp_window_clear(struct sp_improver *improver)
{
    struct sp_improve_window *window = &improver->window;

    for (uint32_t a = 0; a < window->added; a++)
        improver->place[window->order.variable[a]] = SP_IMPROVE_NONE;
    window->count = 0;
    window->added = 0;
    window->listed = 0;
    window->copied = 0;
    window->inner = 0;
}

bool sp_window_add(struct sp_improver *improver, uint32_t variable, uint32_t size)
{
    const struct sp_reduced *reduced = improver->reduced;
    struct sp_improve_window *window = &improver->window;
    uint32_t a = window->added, inner = 0;
    uint64_t copied = window->copied;

    if (a == window->most_places || window->listed + size > window->most_listed)
        return false;
    for (uint32_t l = reduced->first_link[variable]; l < reduced->first_link[variable + 1]; l++) {
        uint32_t other = improver->place[improver->other[l]];

        if (other != SP_IMPROVE_NONE) {
            copied += (uint64_t)size * window->order.size[other];
            inner++;
        }
    }
    improver->work += reduced->first_link[variable + 1] - reduced->first_link[variable] + size;
    if (copied > window->most_copies || window->inner + inner > window->most_inner)
        return false;
    window->copied = (uint32_t)copied;
    window->inner += inner;
    window->order.variable[a] = variable;
    window->order.first[a] = window->listed;
    window->order.size[a] = size;
    window->listed += size;
    window->added++;
    improver->place[variable] = a;
    return true;
}

/* Costs of each candidate with the variables outside as they are. */
static void prepare_own(struct sp_improver *improver)
{
    const struct sp_reduced *reduced = improver->reduced;
    struct sp_improve_window *window = &improver->window;

    for (uint32_t i = 0; i < window->count; i++) {
        uint32_t v = window->variable[i], states = reduced->first[v + 1] - reduced->first[v], size = window->size[i];
        int64_t *own = window->own + window->first[i];
        const uint32_t *state = window->state + window->first[i];

        for (uint32_t s = 0; s < size; s++) {
            own[s] = reduced->cost[reduced->first[v] + state[s]];
            if (state[s] == improver->states[v])
                window->chosen[i] = s;
        }
        for (uint32_t l = reduced->first_link[v]; l < reduced->first_link[v + 1]; l++) {
            uint32_t other = improver->other[l];
            const int64_t *row = improver->rows[l] + (size_t)improver->states[other] * states;

            if (improver->place[other] != SP_IMPROVE_NONE)
                continue;
            for (uint32_t s = 0; s < size; s++) {
                own[s] += row[state[s]];
                own[s] = own[s] > SP_CHOICE_INFINITE ? SP_CHOICE_INFINITE : own[s];
            }
        }
        improver->work += (uint64_t)size * (reduced->first_link[v + 1] - reduced->first_link[v] + 1);
    }
}

SP_ASCENDING_NUMBERS(compare_edges, uint64_t)

/* Where ranges of the window begin and end, sorted; returns how many. */
static uint32_t list_edges(struct sp_improver *improver)
{
    const struct sp_reduced *reduced = improver->reduced;
    struct sp_improve_window *window = &improver->window;
    uint32_t parts = 0, edges = 0;

    for (uint32_t i = 0; i < window->count; i++) {
        uint32_t v = window->variable[i];

        window->segments.first_part[i] = parts;
        for (uint32_t r = reduced->first_range[v]; r < reduced->first_range[v + 1]; r++, parts++) {
            window->segments.edges[edges++] = ((uint64_t)reduced->ranges[r].from << 32) | (2 * parts);
            window->segments.edges[edges++] = ((uint64_t)reduced->ranges[r].to << 32) | (2 * parts + 1);
        }
    }
    window->segments.first_part[window->count] = parts;
    qsort(window->segments.edges, edges, sizeof *window->segments.edges, compare_edges);
    improver->work += (uint64_t)edges * 8;
    return edges;
}

/* Cuts time where a range of the window begins or ends; moments at which none is live have no segment. */
static void prepare_segments(struct sp_improver *improver)
{
    struct sp_improve_window *window = &improver->window;
    uint32_t edges = list_edges(improver), live = 0;

    window->segments.count = 0;
    for (uint32_t e = 0; e < edges;) {
        uint32_t at = (uint32_t)(window->segments.edges[e] >> 32);

        for (; e < edges && (uint32_t)(window->segments.edges[e] >> 32) == at; e++) {
            uint32_t which = (uint32_t)window->segments.edges[e];

            if (which % 2 == 0) {
                window->segments.from[which / 2] = window->segments.count;
                live++;
            } else {
                window->segments.to[which / 2] = window->segments.count;
                live--;
            }
        }
        if (live == 0 || e == edges)
            continue;
        uint32_t end = (uint32_t)(window->segments.edges[e] >> 32), k = window->segments.count++;

        window->segments.cap[k] = sp_slack_tree_minimum(&improver->slack, at, end);
        window->segments.price[k] = improver->prices.before[end] - improver->prices.before[at];
        window->segments.best_price[k] = improver->prices.penalty_before[end] - improver->prices.penalty_before[at];
    }
}

void sp_window_usage(struct sp_improver *improver, const uint32_t *chosen)
{
    const struct sp_reduced *reduced = improver->reduced;
    struct sp_improve_window *window = &improver->window;
    int64_t running = 0;

    memset(window->segments.used, 0, ((size_t)window->segments.count + 1) * sizeof *window->segments.used);
    for (uint32_t i = 0; i < window->count; i++) {
        uint32_t begin = window->segments.first_part[i], count = window->segments.first_part[i + 1] - begin;
        uint32_t state = window->state[window->first[i] + chosen[i]];
        const int64_t *usage = reduced->usage + reduced->first_usage[window->variable[i]] + (uint64_t)state * count;

        for (uint32_t r = 0; r < count; r++) {
            window->segments.used[window->segments.from[begin + r]] += usage[r];
            window->segments.used[window->segments.to[begin + r]] -= usage[r];
        }
    }
    for (uint32_t k = 0; k < window->segments.count; k++) {
        running += window->segments.used[k];
        window->segments.used[k] = running;
    }
    improver->work += window->segments.first_part[window->count] + window->segments.count;
}

void sp_window_price(struct sp_improver *improver, const double *price, const int64_t *source, int64_t *target)
{
    const struct sp_reduced *reduced = improver->reduced;
    struct sp_improve_window *window = &improver->window;
    double *before = window->segments.price_before;

    before[0] = 0;
    for (uint32_t k = 0; k < window->segments.count; k++)
        before[k + 1] = before[k] + price[k];
    for (uint32_t i = 0; i < window->count; i++) {
        uint32_t begin = window->segments.first_part[i], count = window->segments.first_part[i + 1] - begin;
        const int64_t *usage = reduced->usage + reduced->first_usage[window->variable[i]];

        for (uint32_t c = window->first[i]; c < window->first[i] + window->size[i]; c++) {
            double sum = 0;

            for (uint32_t r = 0; r < count; r++)
                sum += (double)usage[(uint64_t)window->state[c] * count + r] *
                       (before[window->segments.to[begin + r]] - before[window->segments.from[begin + r]]);
            target[c] = source[c] + sp_improve_whole(sum);
        }
        improver->work += (uint64_t)window->size[i] * count;
    }
}

void sp_window_prepare(struct sp_improver *improver, double width)
{
    struct sp_improve_window *window = &improver->window;

    sp_window_order(improver, width);
    prepare_own(improver);
    prepare_segments(improver);
    sp_window_usage(improver, window->chosen);
    for (uint32_t k = 0; k < window->segments.count; k++) {
        /* What the window may use: all that is left; where the states are over, as much as they use now. */
        window->segments.cap[k] =
            window->segments.used[k] + (window->segments.cap[k] > 0 ? window->segments.cap[k] : 0);
    }
    if (improver->over > 0)
        sp_window_price(improver, window->segments.best_price, window->own, window->own);
    window->current = sp_window_cost(improver, window->chosen);
    sp_window_terms(improver);
}
