/*
 * Lower bounds for any sets of units as stages.
 *
 * Alone: the stage with a unit has at least the load of the best set with it, a minimum cut: what else is in the set
 * adds seconds, what is not adds transfers. Options under which that is more than what is known already are left out
 * for the unit; the other bounds need not think of them, as they hold for everything better than that.
 *
 * Shared: prices for the seconds of two classes of devices, and each unit in the cheaper one, where a link between the
 * classes costs both their transfers: a minimum cut for each pair of prices. No price is needed for stages of one class
 * among each other.
 *
 * Counted: of k * n + 1 units that only k stages can take, n + 1 are in one.
 */
#include <math.h>
#include <stdlib.h>

#include "solvers/stages/assign.h"
#include "solvers/stages/cut.h"

#define CUT_WORK     ((uint64_t)100000000) /* arcs looked at for all cuts of one bound */
#define PRICE_STEPS  40
#define ABOVE(value) ((value) * (1 + 1e-9))

struct bounding {
    const struct sp_assign_model *model;
    const struct sp_stages_problem *problem;
    double best;
    uint32_t *most; /* replicas, per option */
    bool **allowed; /* [option][unit]: in something better than `best` */
    double *least;  /* per unit: the least load of a stage with it */
    struct sp_cut *cut;
    uint32_t *unit_arc; /* per unit: from the source, and to the sink after it */
    uint32_t *link_arc; /* per link: the first of its arcs */
};

static bool is_single(const struct sp_assign_model *model, uint32_t l)
{
    return model->users.start[l + 1] - model->users.start[l] == 1;
}

/* The network of units and links: a link with several users has one vertex for sending and one for receiving. */
static bool build_network(struct sp_arena *arena, struct bounding *bounding)
{
    const struct sp_assign_model *model = bounding->model;
    uint32_t uses = model->users.start[model->link_count];
    bounding->unit_arc = SP_NEW_ARRAY(arena, model->unit_count, uint32_t);
    bounding->link_arc = SP_NEW_ARRAY(arena, model->link_count, uint32_t);
    struct sp_cut *cut = bounding->cut = sp_cut_create(arena, 2 + model->unit_count + 2 * model->link_count,
                                                       2 * model->unit_count + 2 * model->link_count + 2 * uses);
    if (cut == NULL || bounding->unit_arc == NULL || bounding->link_arc == NULL)
        return false;
    for (uint32_t u = 0; u < model->unit_count; u++) {
        uint32_t vertex = sp_cut_vertex(cut); /* 2 + u */
        bounding->unit_arc[u] = sp_cut_arc(cut, SP_CUT_SOURCE, vertex, 0, 0);
        sp_cut_arc(cut, vertex, SP_CUT_SINK, 0, 0);
    }
    for (uint32_t l = 0; l < model->link_count; l++) {
        uint32_t producer = 2 + model->producer[l], first = model->users.start[l];
        if (is_single(model, l)) {
            bounding->link_arc[l] = sp_cut_arc(cut, producer, 2 + model->users.items[first], 0, 0);
            continue;
        }
        uint32_t sends = sp_cut_vertex(cut), receives = sp_cut_vertex(cut);
        bounding->link_arc[l] = sp_cut_arc(cut, producer, sends, 0, 0);
        sp_cut_arc(cut, receives, producer, 0, 0);
        for (uint32_t i = first; i < model->users.start[l + 1]; i++) {
            sp_cut_arc(cut, sends, 2 + model->users.items[i], INFINITY, 0);
            sp_cut_arc(cut, 2 + model->users.items[i], receives, INFINITY, 0);
        }
    }
    return true;
}

/* What it costs when the producer is on the source's side and a user is not, and the other way round. */
static void set_link(struct bounding *bounding, uint32_t l, double sent, double received)
{
    uint32_t arc = bounding->link_arc[l];
    bounding->cut->capacity[arc] = sent;
    bounding->cut->capacity[is_single(bounding->model, l) ? arc + 1 : arc + 2] = received;
}

static void set_unit(struct bounding *bounding, uint32_t u, double outside, double inside)
{
    bounding->cut->capacity[bounding->unit_arc[u]] = outside;
    bounding->cut->capacity[bounding->unit_arc[u] + 2] = inside;
}

static bool fits_alone(const struct bounding *bounding, uint32_t o, uint32_t u)
{
    const struct sp_assign_model *model = bounding->model;
    const struct sp_stages_option *option = &bounding->problem->options[o];
    double bytes = model->weight[o][u] + model->held[o][u];
    for (uint32_t i = model->shared.start[u]; i < model->shared.start[u + 1]; i++)
        bytes += model->shared_bytes[model->shared.items[i]] * option->memory_scale;
    return bytes <= option->memory_bytes * (1 + SP_STAGES_SLACK);
}

static bool has_transfers(const struct sp_stages_option *option)
{
    return option->transfer_fixed > 0 || option->transfer_per_byte > 0;
}

/* The least load of a stage with the unit under the option, as if it had one replica. With MAX a load is at least any
   mean of its parts: here of the seconds, and of seconds and transfers. */
static double alone(struct bounding *bounding, uint32_t o, uint32_t u, double enough)
{
    const struct sp_assign_model *model = bounding->model;
    double seconds = model->seconds[o][u];
    if (!(seconds < INFINITY) || !fits_alone(bounding, o, u))
        return INFINITY;
    if (seconds > enough || !has_transfers(&bounding->problem->options[o]) || bounding->cut->work > CUT_WORK)
        return seconds;
    bool is_sum = bounding->problem->combine == SP_STAGES_SUM;
    bounding->cut->capacity[bounding->unit_arc[u]] = INFINITY;
    double value = sp_cut_value(bounding->cut, is_sum ? enough : 3 * enough);
    bounding->cut->capacity[bounding->unit_arc[u]] = 0;
    return is_sum ? value : fmax(seconds, value / 3);
}

/* The bound of units alone, and the options that are left to them. */
static double bound_alone(struct bounding *bounding)
{
    const struct sp_assign_model *model = bounding->model;
    const struct sp_stages_problem *problem = bounding->problem;
    for (uint32_t u = 0; u < model->unit_count; u++)
        bounding->least[u] = INFINITY;
    for (uint32_t o = 0; o < problem->option_count; o++) {
        if (bounding->most[o] == 0)
            continue;
        for (uint32_t u = 0; u < model->unit_count; u++)
            set_unit(bounding, u, 0, model->seconds[o][u]);
        for (uint32_t l = 0; l < model->link_count; l++)
            set_link(bounding, l, model->transfer[o][l], model->transfer[o][l]);
        for (uint32_t u = 0; u < model->unit_count; u++) {
            double load = alone(bounding, o, u, 2 * bounding->best * bounding->most[o]) / bounding->most[o];
            bounding->allowed[o][u] = load <= ABOVE(bounding->best);
            bounding->least[u] = fmin(bounding->least[u], load);
        }
    }
    double bound = 0;
    for (uint32_t u = 0; u < model->unit_count; u++)
        bound = fmax(bound, bounding->least[u]);
    return bound;
}

/* The fewest seconds of devices that the unit takes of a class. */
static double class_seconds(const struct bounding *bounding, uint32_t c, uint32_t u)
{
    double least = INFINITY;
    for (uint32_t o = 0; o < bounding->problem->option_count; o++)
        if (bounding->problem->options[o].device_class == c && bounding->allowed[o][u])
            least = fmin(least, bounding->problem->options[o].devices * bounding->model->seconds[o][u]);
    return least;
}

/* And that a link does which leaves or enters a stage on the class. With MAX, transfers hide behind seconds. */
static double class_transfer(const struct bounding *bounding, uint32_t c, uint32_t l)
{
    double least = INFINITY;
    for (uint32_t o = 0; o < bounding->problem->option_count; o++)
        if (bounding->problem->options[o].device_class == c)
            least = fmin(least, bounding->problem->options[o].devices * bounding->model->transfer[o][l]);
    return least < INFINITY && bounding->problem->combine == SP_STAGES_SUM ? least : 0;
}

/* What all units take at least at a price for the first class's seconds, the second one's being such that all devices
   for a second cost one: no load is below that. */
static double shared_value(struct bounding *bounding, double price)
{
    const struct sp_assign_model *model = bounding->model;
    const uint32_t *size = bounding->problem->class_size;
    double other = (1 - price) / size[1];
    price /= size[0];
    for (uint32_t u = 0; u < model->unit_count; u++) {
        double first = class_seconds(bounding, 0, u), second = class_seconds(bounding, 1, u);
        set_unit(bounding, u, second < INFINITY ? other * second : INFINITY,
                 first < INFINITY ? price * first : INFINITY);
        if (!(first < INFINITY) && !(second < INFINITY))
            return INFINITY;
    }
    for (uint32_t l = 0; l < model->link_count; l++) {
        double cost = price * class_transfer(bounding, 0, l) + other * class_transfer(bounding, 1, l);
        set_link(bounding, l, cost, cost);
    }
    return sp_cut_value(bounding->cut, INFINITY);
}

/* The best prices for two classes: the value is concave in the price. */
static double bound_shared(struct bounding *bounding)
{
    const struct sp_stages_problem *problem = bounding->problem;
    if (problem->class_count != 2 || problem->class_size[0] == 0 || problem->class_size[1] == 0)
        return 0;
    double low = 0, high = 1, bound = 0;
    const double golden = 0.6180339887498949;
    double a = high - golden * (high - low), b = low + golden * (high - low);
    double at_a = shared_value(bounding, a), at_b = shared_value(bounding, b);
    for (uint32_t i = 0; i < PRICE_STEPS && bounding->cut->work < 2 * CUT_WORK; i++) {
        bound = fmax(bound, fmax(at_a, at_b));
        if (at_a > at_b) {
            high = b;
            b = a;
            at_b = at_a;
            a = high - golden * (high - low);
            at_a = shared_value(bounding, a);
        } else {
            low = a;
            a = b;
            at_a = at_b;
            b = low + golden * (high - low);
            at_b = shared_value(bounding, b);
        }
    }
    return bound;
}

static int compare_falling(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* Stages that a class can have, if none of them has replicas; 0 where that is not so. */
static uint32_t stages_of_class(const struct bounding *bounding, uint32_t c)
{
    const struct sp_stages_problem *problem = bounding->problem;
    uint32_t devices = UINT32_MAX;
    for (uint32_t o = 0; o < problem->option_count; o++) {
        if (problem->options[o].device_class != c || bounding->most[o] == 0)
            continue;
        if (bounding->most[o] > 1)
            return 0;
        devices = problem->options[o].devices < devices ? problem->options[o].devices : devices;
    }
    uint32_t count = devices == UINT32_MAX ? 0 : problem->class_size[c] / devices;
    return problem->max_stages != 0 && problem->max_stages < count ? problem->max_stages : count;
}

/* Units that only one class can take, counted: the smallest that must be together. */
static double bound_counted(struct sp_arena *arena, const struct bounding *bounding)
{
    const struct sp_assign_model *model = bounding->model;
    double *seconds = SP_NEW_ARRAY(arena, model->unit_count, double), bound = 0;
    if (seconds == NULL)
        return 0;
    for (uint32_t c = 0; c < bounding->problem->class_count; c++) {
        uint32_t stages = stages_of_class(bounding, c), count = 0;
        for (uint32_t u = 0; stages > 0 && u < model->unit_count; u++) {
            bool elsewhere = false;
            double least = INFINITY;
            for (uint32_t o = 0; o < bounding->problem->option_count; o++) {
                if (bounding->problem->options[o].device_class == c)
                    least = fmin(least, bounding->allowed[o][u] ? model->seconds[o][u] : INFINITY);
                else
                    elsewhere |= bounding->allowed[o][u];
            }
            if (!elsewhere && least < INFINITY)
                seconds[count++] = least;
        }
        qsort(seconds, count, sizeof *seconds, compare_falling);
        for (uint32_t together = 2; stages > 0 && (uint64_t)stages * (together - 1) < count; together++) {
            double sum = 0;
            for (uint32_t i = 0; i < together; i++)
                sum += seconds[stages * (together - 1) - i];
            bound = fmax(bound, sum);
        }
    }
    return bound;
}

enum sp_status sp_assign_bound(struct sp_stages_run *run, const struct sp_assign_model *model, double best_value,
                               double *ret_bound)
{
    const struct sp_stages_problem *problem = model->problem;
    struct sp_arena *arena = sp_arena_create(sp_arena_budget(run->scratch));
    struct bounding bounding = {.model = model, .problem = problem, .best = best_value};
    enum sp_status status = SP_ERR_MEMORY;
    if (arena == NULL)
        return sp_fail_memory(run->err);
    bounding.most = SP_NEW_ARRAY(arena, problem->option_count, uint32_t);
    bounding.allowed = SP_NEW_ARRAY(arena, problem->option_count, bool *);
    bounding.least = SP_NEW_ARRAY(arena, model->unit_count, double);
    if (bounding.most == NULL || bounding.allowed == NULL || bounding.least == NULL || !build_network(arena, &bounding))
        goto cleanup;
    for (uint32_t o = 0; o < problem->option_count; o++) {
        bounding.most[o] = sp_assign_most_replicas(problem, &problem->options[o]);
        bounding.allowed[o] = SP_NEW_ARRAY(arena, model->unit_count, bool);
        if (bounding.allowed[o] == NULL)
            goto cleanup;
    }
    status = SP_OK;
    double bound = bound_alone(&bounding);
    bound = fmax(bound, bound_shared(&bounding));
    bound = fmax(bound, bound_counted(arena, &bounding));
    bound = fmax(bound, *ret_bound);
    *ret_bound = fmin(bound * (1 - 1e-12), best_value);
    sp_stages_spend(run, bounding.cut->work);

cleanup:
    sp_arena_destroy(arena);
    return status == SP_OK ? SP_OK : sp_fail_memory(run->err);
}
