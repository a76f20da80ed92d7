/* The order in which a window's variables are eliminated: greedily the one whose table is smallest (Dechter 1999). */
#include <math.h>
#include <string.h>

#include "solvers/choice/improve_internal.h"

static uint64_t *links_of(struct sp_improve_window *window, uint32_t a)
{
    return window->order.links + (size_t)a * ((window->most_places + 63) / 64);
}

/* Weights of all that the variable is linked with. */
static double weigh(struct sp_improve_window *window, uint32_t a, uint32_t words)
{
    const uint64_t *links = links_of(window, a);
    double sum = 0;

    for (uint32_t w = 0; w < words; w++) {
        for (uint64_t bits = links[w]; bits != 0; bits &= bits - 1)
            sum += window->order.weight[w * 64 + (uint32_t)__builtin_ctzll(bits)];
    }
    return sum;
}

static void link_all(struct sp_improver *improver, uint32_t words)
{
    const struct sp_reduced *reduced = improver->reduced;
    struct sp_improve_window *window = &improver->window;

    for (uint32_t a = 0; a < window->added; a++) {
        uint32_t v = window->order.variable[a];
        uint64_t *links = links_of(window, a);

        memset(links, 0, words * sizeof *links);
        window->order.weight[a] = log2((double)window->order.size[a]);
        for (uint32_t l = reduced->first_link[v]; l < reduced->first_link[v + 1]; l++) {
            uint32_t b = improver->place[improver->other[l]];

            if (b != SP_IMPROVE_NONE)
                links[b / 64] |= UINT64_C(1) << (b % 64);
        }
        improver->work += reduced->first_link[v + 1] - reduced->first_link[v];
    }
    for (uint32_t a = 0; a < window->added; a++)
        window->order.around[a] = weigh(window, a, words);
}

/* Takes a variable out of the graph; with `fill`, those around it are linked with each other. */
static void take_out(struct sp_improve_window *window, uint32_t a, uint32_t words, bool fill)
{
    uint64_t *links = links_of(window, a);

    for (uint32_t w = 0; w < words; w++) {
        for (uint64_t bits = links[w]; bits != 0; bits &= bits - 1) {
            uint32_t b = w * 64 + (uint32_t)__builtin_ctzll(bits);
            uint64_t *others = links_of(window, b);

            for (uint32_t k = 0; fill && k < words; k++)
                others[k] |= links[k];
            others[a / 64] &= ~(UINT64_C(1) << (a % 64));
            others[b / 64] &= ~(UINT64_C(1) << (b % 64));
            window->order.around[b] = weigh(window, b, words);
        }
    }
}

/* The variable to go next: the one with the least table; or, where that is too large, the most linked one. */
static uint32_t choose(const struct sp_improve_window *window, const uint8_t *is_gone, bool is_most)
{
    uint32_t chosen = SP_IMPROVE_NONE;

    for (uint32_t a = 0; a < window->added; a++) {
        if (is_gone[a])
            continue;
        if (chosen == SP_IMPROVE_NONE || (is_most ? window->order.around[a] > window->order.around[chosen]
                                                  : window->order.around[a] + window->order.weight[a] <
                                                        window->order.around[chosen] + window->order.weight[chosen]))
            chosen = a;
    }
    return chosen;
}

static void give_places(struct sp_improver *improver, uint32_t count, uint32_t words)
{
    struct sp_improve_window *window = &improver->window;

    window->count = count;
    for (uint32_t e = 0; e < count; e++) {
        uint32_t a = window->order.eliminated[e], i = count - 1 - e;

        window->order.place_of[a] = i;
        window->variable[i] = window->order.variable[a];
        window->first[i] = window->order.first[a];
        window->size[i] = window->order.size[a];
        improver->place[window->variable[i]] = i;
    }
    for (uint32_t e = 0; e < count; e++) {
        uint32_t a = window->order.eliminated[e], i = count - 1 - e, width = 0;
        uint32_t *scope = window->tables.scope + (size_t)i * SP_WINDOW_WIDTH;
        const uint64_t *links = links_of(window, a);

        for (uint32_t w = 0; w < words; w++) {
            for (uint64_t bits = links[w]; bits != 0; bits &= bits - 1) {
                uint32_t place = window->order.place_of[w * 64 + (uint32_t)__builtin_ctzll(bits)], at;

                if (place == SP_IMPROVE_NONE) /* left out after this one was eliminated: it stays as it is */
                    continue;
                for (at = width++; at > 0 && scope[at - 1] > place; at--)
                    scope[at] = scope[at - 1];
                scope[at] = place;
            }
        }
        window->tables.widths[i] = width;
    }
}

void sp_window_order(struct sp_improver *improver, double width)
{
    struct sp_improve_window *window = &improver->window;
    uint32_t words = (window->added + 63) / 64, count = 0;
    uint8_t is_gone[SP_WINDOW_PLACES] = {0};
    double cells = 0;

    link_all(improver, words);
    for (uint32_t left = window->added; left > 0; left--) {
        uint32_t a = choose(window, is_gone, false);
        double size = exp2(window->order.around[a]);
        bool is_large =
            window->order.around[a] + window->order.weight[a] > width || cells + size > (double)window->most_cells;

        if (is_large) {
            a = choose(window, is_gone, true);
            improver->place[window->order.variable[a]] = SP_IMPROVE_NONE;
            window->order.place_of[a] = SP_IMPROVE_NONE;
        } else {
            window->order.eliminated[count++] = a;
            cells += size;
        }
        is_gone[a] = 1;
        take_out(window, a, words, !is_large);
        improver->work += window->added;
    }
    give_places(improver, count, words);
}
