/* Elimination of a window's places, last to first: see struct sp_improve_window. */
#include <string.h>

#include "solvers/choice/improve_internal.h"

/* The position of `place` in the scope of place i. */
static uint32_t position(const struct sp_improve_window *window, uint32_t i, uint32_t place)
{
    uint32_t at = 0;

    while (window->tables.scope[(size_t)i * SP_WINDOW_WIDTH + at] != place)
        at++;
    return at;
}

/* The rows of an edge's table between place i (columns) and an earlier one: a copy unless all states are candidates. */
static const int64_t *edge_rows(struct sp_improver *improver, uint32_t i, uint32_t earlier, const int64_t *rows)
{
    const struct sp_reduced *reduced = improver->reduced;
    struct sp_improve_window *window = &improver->window;
    uint32_t v = window->variable[i], w = window->variable[earlier];
    uint32_t states = reduced->first[v + 1] - reduced->first[v], others = reduced->first[w + 1] - reduced->first[w];

    if (window->size[i] == states && window->size[earlier] == others)
        return rows;
    int64_t *copy = window->tables.copies + window->copied;

    for (uint32_t o = 0; o < window->size[earlier]; o++) {
        const int64_t *row = rows + (size_t)window->state[window->first[earlier] + o] * states;

        for (uint32_t s = 0; s < window->size[i]; s++)
            copy[(size_t)o * window->size[i] + s] = row[window->state[window->first[i] + s]];
    }
    window->copied += window->size[earlier] * window->size[i];
    improver->work += (uint64_t)window->size[earlier] * window->size[i];
    return copy;
}

static uint32_t *new_term(struct sp_improve_window *window, uint32_t term, const int64_t *rows)
{
    uint32_t *stride = window->tables.stride + (size_t)term * SP_WINDOW_WIDTH;

    memset(stride, 0, SP_WINDOW_WIDTH * sizeof *stride);
    window->tables.term[term] = rows;
    return stride;
}

/* Where each place's table is; tables of places without a scope are one cell. */
static void lay_tables(struct sp_improve_window *window)
{
    int64_t *at = window->tables.cells;

    for (uint32_t i = 0; i < window->count; i++) {
        window->tables.of[i] = at;
        size_t size = 1;

        for (uint32_t k = 0; k < window->tables.widths[i]; k++)
            size *= window->size[window->tables.scope[(size_t)i * SP_WINDOW_WIDTH + k]];
        at += size;
    }
}

void sp_window_terms(struct sp_improver *improver)
{
    const struct sp_reduced *reduced = improver->reduced;
    struct sp_improve_window *window = &improver->window;
    uint32_t terms = 0;

    lay_tables(window);
    window->copied = 0;
    for (uint32_t i = 0; i < window->count; i++) {
        uint32_t v = window->variable[i];

        window->tables.first_term[i] = terms;
        for (uint32_t l = reduced->first_link[v]; l < reduced->first_link[v + 1]; l++) {
            uint32_t earlier = improver->place[improver->other[l]];

            if (earlier != SP_IMPROVE_NONE && earlier < i)
                new_term(window, terms++,
                         edge_rows(improver, i, earlier, improver->rows[l]))[position(window, i, earlier)] =
                    window->size[i];
        }
        for (uint32_t c = i + 1; c < window->count; c++) {
            const uint32_t *scope = window->tables.scope + (size_t)c * SP_WINDOW_WIDTH;
            uint32_t width = window->tables.widths[c], step = window->size[i];

            if (width == 0 || scope[width - 1] != i)
                continue;
            uint32_t *stride = new_term(window, terms++, window->tables.of[c]);

            for (uint32_t k = width - 1; k-- > 0;) {
                stride[position(window, i, scope[k])] = step;
                step *= window->size[scope[k]];
            }
        }
    }
    window->tables.first_term[window->count] = terms;
}

/* Sums own costs and a row of each term, into `value`; returns the least. */
static int64_t sum_rows(struct sp_improve_window *window, uint32_t i, const int64_t **rows, uint32_t terms)
{
    uint32_t size = window->size[i];
    int64_t *value = window->tables.value, least = INT64_MAX;

    memcpy(value, window->priced + window->first[i], size * sizeof *value);
    for (uint32_t t = 0; t < terms; t++) {
        const int64_t *row = rows[t];

        for (uint32_t s = 0; s < size; s++)
            value[s] += row[s];
        if (t % SP_IMPROVE_TERMS == SP_IMPROVE_TERMS - 1)
            sp_improve_clamp(value, size);
    }
    for (uint32_t s = 0; s < size; s++)
        least = value[s] < least ? value[s] : least;
    return least;
}

/* Fills the table of place i: all combinations of its scope, the last fastest. */
static void eliminate(struct sp_improver *improver, uint32_t i)
{
    struct sp_improve_window *window = &improver->window;
    uint32_t width = window->tables.widths[i], begin = window->tables.first_term[i],
             terms = window->tables.first_term[i + 1] - begin;
    const uint32_t *scope = window->tables.scope + (size_t)i * SP_WINDOW_WIDTH;
    uint32_t digit[SP_WINDOW_WIDTH] = {0};
    const int64_t **rows =
        window->tables.term + window->tables.first_term[window->count]; /* scratch behind all terms */
    int64_t *table = window->tables.of[i];

    memcpy(rows, window->tables.term + begin, terms * sizeof *rows);
    for (;;) {
        int64_t least = sum_rows(window, i, rows, terms);
        uint32_t k = width;

        *table++ = least > SP_CHOICE_INFINITE ? SP_CHOICE_INFINITE : least;
        improver->work += (uint64_t)window->size[i] * (terms + 1);
        while (k > 0) {
            const uint32_t *stride = window->tables.stride + (size_t)begin * SP_WINDOW_WIDTH + (k - 1);
            bool is_over = ++digit[k - 1] == window->size[scope[k - 1]];
            int64_t steps = is_over ? -(int64_t)(digit[k - 1] - 1) : 1;

            for (uint32_t t = 0; t < terms; t++, stride += SP_WINDOW_WIDTH)
                rows[t] += steps * (int64_t)*stride;
            if (!is_over)
                break;
            digit[--k] = 0;
        }
        if (k == 0)
            break;
    }
}

void sp_window_values(struct sp_improver *improver, uint32_t i)
{
    struct sp_improve_window *window = &improver->window;
    uint32_t begin = window->tables.first_term[i], terms = window->tables.first_term[i + 1] - begin;
    const uint32_t *scope = window->tables.scope + (size_t)i * SP_WINDOW_WIDTH;
    const int64_t **rows = window->tables.term + window->tables.first_term[window->count];

    for (uint32_t t = 0; t < terms; t++) {
        const uint32_t *stride = window->tables.stride + (size_t)(begin + t) * SP_WINDOW_WIDTH;

        rows[t] = window->tables.term[begin + t];
        for (uint32_t k = 0; k < window->tables.widths[i]; k++)
            rows[t] += (size_t)stride[k] * window->chosen[scope[k]];
    }
    sum_rows(window, i, rows, terms);
    improver->work += (uint64_t)window->size[i] * (terms + 1) + (uint64_t)terms * window->tables.widths[i];
}

int64_t sp_window_minimum(struct sp_improver *improver)
{
    struct sp_improve_window *window = &improver->window;
    __int128 total = 0;

    for (uint32_t i = window->count; i-- > 0;)
        eliminate(improver, i);
    for (uint32_t i = 0; i < window->count; i++) {
        uint32_t best = 0;

        sp_window_values(improver, i);
        for (uint32_t s = 1; s < window->size[i]; s++)
            best = window->tables.value[s] < window->tables.value[best] ? s : best;
        window->chosen[i] = best;
        if (window->tables.widths[i] == 0)
            total += window->tables.value[best];
    }
    return sp_improve_narrow(total);
}

int64_t sp_window_cost(const struct sp_improver *improver, const uint32_t *chosen)
{
    const struct sp_reduced *reduced = improver->reduced;
    const struct sp_improve_window *window = &improver->window;
    __int128 cost = 0;

    for (uint32_t i = 0; i < window->count; i++) {
        uint32_t v = window->variable[i], states = reduced->first[v + 1] - reduced->first[v];

        cost += window->own[window->first[i] + chosen[i]];
        for (uint32_t l = reduced->first_link[v]; l < reduced->first_link[v + 1]; l++) {
            uint32_t earlier = improver->place[improver->other[l]];

            if (earlier != SP_IMPROVE_NONE && earlier < i)
                cost += improver->rows[l][(size_t)window->state[window->first[earlier] + chosen[earlier]] * states +
                                          window->state[window->first[i] + chosen[i]]];
        }
    }
    return sp_improve_narrow(cost);
}
