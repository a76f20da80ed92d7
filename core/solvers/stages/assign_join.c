/* Units joined without loss, and units joined for a coarser view. */
#include <math.h>

#include "base/union_find.h"
#include "solvers/stages/assign.h"

static void number_roots(uint32_t *parent, uint32_t count, uint32_t *map, uint32_t *ret_count)
{
    uint32_t next = 0;
    for (uint32_t u = 0; u < count; u++)
        if (sp_union_root(parent, u) == u)
            map[u] = next++;
    for (uint32_t u = 0; u < count; u++)
        map[u] = map[sp_union_root(parent, u)];
    *ret_count = next;
}

/* Whether one stage of everything fits under every option, so that no set of units ever does not. */
static bool memory_is_ample(const struct sp_assign_model *model)
{
    for (uint32_t o = 0; o < model->problem->option_count; o++) {
        const struct sp_stages_option *option = &model->problem->options[o];
        double bytes = 0, held = 0;
        for (uint32_t u = 0; u < model->unit_count; u++) {
            bytes += model->weight[o][u];
            held = fmax(held, model->held[o][u]);
        }
        for (uint32_t w = 0; w < model->shared_count; w++)
            bytes += model->shared_bytes[w] * option->memory_scale;
        if (bytes + held > option->memory_bytes)
            return false;
    }
    return true;
}

struct sums {
    double seconds, made, taken;
};

/* The unit's seconds and transfers under an option, without link `except`, each as often as it may be sent. */
static struct sums sums_of(const struct sp_assign_model *model, uint32_t unit, uint32_t option, uint32_t except)
{
    struct sums sums = {.seconds = model->seconds[option][unit]};
    const bool is_each = sp_assign_sends_to_each(model->problem);
    for (uint32_t i = model->makes.start[unit]; i < model->makes.start[unit + 1]; i++)
        if (model->makes.items[i] != except)
            sums.made +=
                model->transfer[option][model->makes.items[i]] *
                (is_each ? model->users.start[model->makes.items[i] + 1] - model->users.start[model->makes.items[i]]
                         : 1);
    for (uint32_t i = model->takes.start[unit]; i < model->takes.start[unit + 1]; i++)
        if (model->takes.items[i] != except)
            sums.taken += model->transfer[option][model->takes.items[i]];
    return sums;
}

/*
 * A unit that makes one link for one user, and nothing else, goes to its user: there it adds its seconds and what it
 * takes, and saves receiving the link; where it was it saves sending that, and at most has to send what it takes.
 * A unit that takes one link that only it uses goes to its producer alike. Where tensors go to each receiver, what the
 * first one takes may be sent once more by others, so it must take nothing.
 */
static bool saves(const struct sp_assign_model *model, uint32_t unit, uint32_t link, bool makes_it)
{
    bool adds_up = model->problem->combine == SP_STAGES_SUM;
    if (makes_it && sp_assign_sends_to_each(model->problem) && model->takes.start[unit] != model->takes.start[unit + 1])
        return false;
    for (uint32_t o = 0; o < model->problem->option_count; o++) {
        struct sums sums = sums_of(model, unit, o, link);
        double other = makes_it ? sums.taken : sums.made, saved = model->transfer[o][link];
        if (!(sums.seconds < INFINITY) || other > saved || (adds_up ? sums.seconds + other > saved : sums.seconds > 0))
            return false;
    }
    return true;
}

static uint32_t sure_neighbour(const struct sp_assign_model *model, uint32_t unit)
{
    uint32_t makes = model->makes.start[unit + 1] - model->makes.start[unit];
    uint32_t takes = model->takes.start[unit + 1] - model->takes.start[unit];
    if (makes == 1) {
        uint32_t l = model->makes.items[model->makes.start[unit]];
        if (model->users.start[l + 1] - model->users.start[l] == 1 && saves(model, unit, l, true))
            return model->users.items[model->users.start[l]];
    }
    if (takes == 1) {
        uint32_t l = model->takes.items[model->takes.start[unit]];
        if (model->users.start[l + 1] - model->users.start[l] == 1 && saves(model, unit, l, false))
            return model->producer[l];
    }
    return unit;
}

enum sp_status sp_assign_join_sure(struct sp_arena *arena, const struct sp_assign_model *model, uint32_t *map,
                                   uint32_t *ret_count, struct sp_error *err)
{
    uint32_t *parent = sp_union_find(arena, model->unit_count);   /* where each unit went */
    bool *is_busy = SP_NEW_ARRAY(arena, model->unit_count, bool); /* joined in this pass: its figures are old */
    if (parent == NULL || is_busy == NULL)
        return sp_fail_memory(err);
    bool is_ample = memory_is_ample(model);
    for (uint32_t u = 0; is_ample && u < model->unit_count; u++) {
        uint32_t other = is_busy[u] ? u : sure_neighbour(model, u);
        if (other == u || is_busy[other])
            continue;
        parent[u] = other;
        is_busy[u] = is_busy[other] = true;
    }
    number_roots(parent, model->unit_count, map, ret_count);
    return SP_OK;
}

static double least_seconds(const struct sp_assign_model *model, uint32_t unit)
{
    double least = INFINITY;
    for (uint32_t o = 0; o < model->problem->option_count; o++)
        least = fmin(least, model->seconds[o][unit]);
    return least;
}

static bool can_be_together(const struct sp_assign_model *model, uint32_t a, uint32_t b)
{
    for (uint32_t o = 0; o < model->problem->option_count; o++)
        if (model->seconds[o][a] < INFINITY && model->seconds[o][b] < INFINITY)
            return true;
    return false;
}

/* Users of one link that are looked at. */
#define COARSE_USERS 16

struct coarse {
    const struct sp_assign_model *model;
    const double *size;
    const bool *is_busy;
    double most_seconds;
    uint64_t seed;
    uint32_t best;
    double rating;
};

/* What is saved by being together, for each second of the larger unit, a little at random. */
static void rate(struct coarse *coarse, uint32_t unit, uint32_t other, double transfer)
{
    double size = coarse->size[unit] + coarse->size[other];
    if (other == unit || coarse->is_busy[other] || size > coarse->most_seconds ||
        !can_be_together(coarse->model, unit, other))
        return;
    double rating = transfer * (0.5 + sp_random_fraction(&coarse->seed)) / (size + 1e-3 * coarse->most_seconds);
    if (rating > coarse->rating) {
        coarse->rating = rating;
        coarse->best = other;
    }
}

static void rate_neighbours(struct coarse *coarse, uint32_t unit, const double *transfer)
{
    const struct sp_assign_model *model = coarse->model;
    coarse->best = unit;
    coarse->rating = -1;
    for (uint32_t i = model->makes.start[unit]; i < model->makes.start[unit + 1]; i++) {
        uint32_t l = model->makes.items[i], first = model->users.start[l], end = model->users.start[l + 1];
        for (uint32_t j = first; j < end && j < first + COARSE_USERS; j++)
            rate(coarse, unit, model->users.items[j], transfer[l] / (end - first));
    }
    for (uint32_t i = model->takes.start[unit]; i < model->takes.start[unit + 1]; i++) {
        uint32_t l = model->takes.items[i];
        rate(coarse, unit, model->producer[l], transfer[l] / (model->users.start[l + 1] - model->users.start[l]));
    }
}

/* The option with the dearest transfers says what it is worth to be together. */
static const double *dearest_transfers(const struct sp_assign_model *model)
{
    uint32_t best = 0;
    for (uint32_t o = 1; model->link_count > 0 && o < model->problem->option_count; o++)
        if (model->transfer[o][0] > model->transfer[best][0])
            best = o;
    return model->transfer[best];
}

uint32_t sp_assign_join_coarse(struct sp_arena *arena, const struct sp_assign_model *model, uint32_t wanted,
                               double most_seconds, uint64_t seed, uint32_t *map)
{
    uint32_t count = model->unit_count, left = count;
    uint32_t *parent = SP_NEW_ARRAY(arena, count, uint32_t), *order = SP_NEW_ARRAY(arena, count, uint32_t);
    bool *is_busy = SP_NEW_ARRAY(arena, count, bool);
    double *size = SP_NEW_ARRAY(arena, count, double);
    if (parent == NULL || order == NULL || is_busy == NULL || size == NULL)
        return 0;
    struct coarse coarse = {
        .model = model, .size = size, .is_busy = is_busy, .most_seconds = most_seconds, .seed = seed};
    for (uint32_t u = 0; u < count; u++) {
        uint32_t at = sp_random_below(&coarse.seed, u + 1);
        order[u] = order[at];
        order[at] = u;
        parent[u] = u;
        size[u] = least_seconds(model, u);
    }
    const double *transfer = dearest_transfers(model);
    for (uint32_t i = 0; i < count && left > wanted; i++) {
        uint32_t u = order[i];
        if (is_busy[u])
            continue;
        rate_neighbours(&coarse, u, transfer);
        if (coarse.best == u)
            continue;
        parent[u] = coarse.best;
        is_busy[u] = is_busy[coarse.best] = true;
        left--;
    }
    number_roots(parent, count, map, &left);
    return left;
}
