/*
 * All assignments of a small problem, by branch and bound.
 *
 * Units are placed one after the other, in a stage that is there or in a new one, with each option and number of
 * replicas that is left. Loads of a partial assignment count what is certain, so that they only grow: a transfer as
 * soon as both of its ends are placed.
 */
#include <math.h>
#include <string.h>

#include "solvers/stages/assign.h"

#define NOTHING      UINT32_MAX
#define MAX_CHOICES  64 /* options times replicas */
#define MAX_UNITS    64
#define MAX_PARTS    24 /* parts are bits of 32 */
#define SPEND_PERIOD 4096

struct part {
    struct sp_stages_choice choice;
    double compute, receive, send, weight, held;
};

struct exact {
    const struct sp_assign_model *model;
    uint32_t choice_count, max_parts;
    struct sp_stages_choice choices[MAX_CHOICES];
    uint32_t order[MAX_UNITS];
    uint32_t part_of[MAX_UNITS];
    /* Per depth: the parts so far, and what was tried. */
    struct part parts[MAX_UNITS + 1][MAX_PARTS];
    uint32_t part_count[MAX_UNITS + 1], tried[MAX_UNITS + 1];
    uint32_t *class_left;
    uint32_t *shared_in; /* [shared weight][part] */
    struct sp_assign_state *state;
    struct sp_assign_best *best;
    const struct sp_assign_judge *judge;
};

static bool list_choices(struct exact *exact, const struct sp_stages_problem *problem)
{
    for (uint32_t o = 0; o < problem->option_count; o++) {
        uint32_t most = sp_assign_most_replicas(problem, &problem->options[o]);
        if (sp_assign_is_free(problem, o))
            continue;
        if (exact->judge != NULL && most > 1)
            most = 1;
        for (uint32_t replicas = 1; replicas <= most; replicas++) {
            if (exact->choice_count == MAX_CHOICES)
                return false;
            exact->choices[exact->choice_count++] = (struct sp_stages_choice){.option = o, .replicas = replicas};
        }
    }
    return true;
}

static double load_of(const struct sp_stages_problem *problem, const struct part *part)
{
    double load = part->compute + part->receive + part->send;
    if (problem->combine == SP_STAGES_MAX)
        load = fmax(part->compute, fmax(part->receive, part->send));
    return load / part->choice.replicas;
}

/* Whether the parts are worse than what is known, which they can only become more. */
static bool is_worse(struct exact *exact, const struct part *parts, uint32_t count)
{
    const struct sp_stages_problem *problem = exact->model->problem;
    double value = 0, seconds[MAX_PARTS];
    for (uint32_t p = 0; p < count; p++) {
        value = fmax(value, load_of(problem, &parts[p]));
        seconds[p] = parts[p].compute + parts[p].receive + parts[p].send;
    }
    if (exact->judge != NULL)
        value = exact->judge->value(exact->judge->context, exact->part_of, seconds);
    return value >= exact->best->value * (1 - 1e-12);
}

/* The parts that use a link, as bits; placed users only. */
static uint32_t parts_using(const struct exact *exact, uint32_t l)
{
    uint32_t bits = 0;
    for (uint32_t i = exact->model->users.start[l]; i < exact->model->users.start[l + 1]; i++)
        if (exact->part_of[exact->model->users.items[i]] != NOTHING)
            bits |= 1u << exact->part_of[exact->model->users.items[i]];
    return bits;
}

/* Adds the transfers that become certain when the unit goes to part `to`. */
static void add_transfers(const struct exact *exact, uint32_t unit, uint32_t to, struct part *parts)
{
    const struct sp_assign_model *model = exact->model;
    const bool is_each = sp_assign_sends_to_each(model->problem);
    for (uint32_t i = model->makes.start[unit]; i < model->makes.start[unit + 1]; i++) {
        uint32_t l = model->makes.items[i], bits = parts_using(exact, l) & ~(1u << to);
        const uint32_t sends = is_each ? (uint32_t)__builtin_popcount(bits) : bits != 0;
        parts[to].send += sends * model->transfer[parts[to].choice.option][l];
        for (uint32_t p = 0; bits != 0; p++, bits >>= 1)
            if (bits & 1)
                parts[p].receive += model->transfer[parts[p].choice.option][l];
    }
    for (uint32_t i = model->takes.start[unit]; i < model->takes.start[unit + 1]; i++) {
        uint32_t l = model->takes.items[i], from = exact->part_of[model->producer[l]];
        if (from == NOTHING || from == to)
            continue;
        uint32_t bits = parts_using(exact, l);
        if ((bits >> to & 1) == 0)
            parts[to].receive += model->transfer[parts[to].choice.option][l];
        if (is_each ? (bits >> to & 1) == 0 : (bits & ~(1u << from)) == 0)
            parts[from].send += model->transfer[parts[from].choice.option][l];
    }
}

/* Places the unit of a depth in a part: false where that cannot lead to anything better. */
static bool place(struct exact *exact, uint32_t depth, uint32_t to, const struct sp_stages_choice *opened)
{
    const struct sp_assign_model *model = exact->model;
    const struct sp_stages_problem *problem = model->problem;
    uint32_t unit = exact->order[depth], count = exact->part_count[depth];
    struct part *parts = exact->parts[depth + 1];
    memcpy(parts, exact->parts[depth], count * sizeof *parts);
    if (opened != NULL) {
        parts[to] = (struct part){.choice = *opened};
        count++;
    }
    uint32_t option = parts[to].choice.option;
    const struct sp_stages_option *limits = &problem->options[option];
    if (!(model->seconds[option][unit] < INFINITY) || (exact->judge != NULL && !exact->judge->allowed[option][unit]))
        return false;
    parts[to].compute += model->seconds[option][unit];
    parts[to].weight += model->weight[option][unit];
    parts[to].held = fmax(parts[to].held, model->held[option][unit]);
    for (uint32_t i = model->shared.start[unit]; i < model->shared.start[unit + 1]; i++)
        if (exact->shared_in[model->shared.items[i] * MAX_PARTS + to] == 0)
            parts[to].weight += model->shared_bytes[model->shared.items[i]] * limits->memory_scale;
    double bytes = parts[to].weight + parts[to].held;
    if (bytes > limits->memory_bytes * (1 + SP_STAGES_SLACK) && !sp_assign_is_free(problem, option))
        return false;
    add_transfers(exact, unit, to, parts);
    exact->part_count[depth + 1] = count;
    exact->part_of[unit] = to; /* as the judge looks at it; commit() is for good */
    bool is_better = !is_worse(exact, parts, count);
    exact->part_of[unit] = NOTHING;
    return is_better;
}

static void commit(struct exact *exact, uint32_t unit, uint32_t to, bool is_there)
{
    const struct sp_assign_model *model = exact->model;
    exact->part_of[unit] = is_there ? to : NOTHING;
    for (uint32_t i = model->shared.start[unit]; i < model->shared.start[unit + 1]; i++) {
        uint32_t *in = &exact->shared_in[model->shared.items[i] * MAX_PARTS + to];
        *in = is_there ? *in + 1 : *in - 1;
    }
}

/* All units are placed: sums are made anew. */
static void keep(struct exact *exact)
{
    const struct sp_assign_model *model = exact->model;
    struct sp_stages_choice choices[MAX_PARTS];
    uint32_t count = exact->part_count[model->unit_count];
    for (uint32_t p = 0; p < exact->max_parts; p++) /* the empty ones come last; what they are is not looked at */
        choices[p] = exact->parts[model->unit_count][p < count ? p : 0].choice;
    sp_assign_state_load(exact->state, choices, exact->part_of);
    double value = sp_assign_state_value(exact->state), seconds[MAX_PARTS];
    if (exact->judge != NULL) {
        for (uint32_t p = 0; p < count; p++)
            seconds[p] =
                sp_assign_compute(exact->state, p, true) + exact->state->slots[p].receive + exact->state->slots[p].send;
        value = exact->judge->value(exact->judge->context, exact->part_of, seconds);
    }
    if (value >= exact->best->value || !sp_assign_state_fits(exact->state))
        return;
    exact->best->value = value;
    exact->best->slot_count = count;
    memcpy(exact->best->choices, choices, count * sizeof *choices);
    memcpy(exact->best->slot_of, exact->part_of, model->unit_count * sizeof(uint32_t));
}

static void take_devices(struct exact *exact, struct sp_stages_choice choice, bool gives_back)
{
    const struct sp_stages_option *option = &exact->model->problem->options[choice.option];
    uint32_t devices = option->devices * choice.replicas;
    exact->class_left[option->device_class] += gives_back ? devices : 0 - devices;
}

/* Undoes what the depth has tried last, if it went deeper from it. */
static void undo(struct exact *exact, uint32_t depth)
{
    uint32_t unit = exact->order[depth], to = exact->part_of[unit];
    if (to == NOTHING)
        return;
    commit(exact, unit, to, false);
    if (to == exact->part_count[depth])
        take_devices(exact, exact->parts[depth + 1][to].choice, true);
}

/* The next place for the unit of a depth, if there is one. */
static bool advance(struct exact *exact, uint32_t depth)
{
    const struct sp_stages_problem *problem = exact->model->problem;
    uint32_t count = exact->part_count[depth];
    while (exact->tried[depth] < count + exact->choice_count) {
        uint32_t next = exact->tried[depth]++;
        bool opens = next >= count;
        uint32_t to = opens ? count : next;
        const struct sp_stages_choice *choice = opens ? &exact->choices[next - count] : NULL;
        if (opens) {
            const struct sp_stages_option *option = &problem->options[choice->option];
            if (count == exact->max_parts ||
                (uint64_t)option->devices * choice->replicas > exact->class_left[option->device_class])
                continue;
        }
        if (!place(exact, depth, to, choice))
            continue;
        commit(exact, exact->order[depth], to, true);
        if (opens)
            take_devices(exact, *choice, false);
        return true;
    }
    return false;
}

/* False where the limit or the run has ended it. */
static bool search(struct exact *exact, struct sp_stages_run *run, uint64_t limit)
{
    uint32_t depth = 0, units = exact->model->unit_count;
    for (uint64_t steps = 0; steps < limit; steps++) {
        if (steps % SPEND_PERIOD == SPEND_PERIOD - 1 && !sp_stages_spend(run, SPEND_PERIOD * 32))
            return false;
        if (depth < units) {
            undo(exact, depth);
            if (advance(exact, depth)) {
                depth++;
                exact->tried[depth] = 0;
                continue;
            }
        } else {
            keep(exact);
        }
        if (depth == 0)
            return true;
        depth--;
    }
    return false;
}

/* Large units first: what they cannot bear is seen early. */
static void order_units(struct exact *exact)
{
    const struct sp_assign_model *model = exact->model;
    double size[MAX_UNITS];
    for (uint32_t u = 0; u < model->unit_count; u++) {
        size[u] = INFINITY;
        for (uint32_t o = 0; o < model->problem->option_count; o++)
            size[u] = fmin(size[u], model->seconds[o][u]);
        uint32_t at = u;
        for (; at > 0 && size[exact->order[at - 1]] < size[u]; at--)
            exact->order[at] = exact->order[at - 1];
        exact->order[at] = u;
        exact->part_of[u] = NOTHING;
    }
}

enum sp_status sp_assign_exact(struct sp_stages_run *run, const struct sp_assign_model *model,
                               const struct sp_assign_judge *judge, struct sp_assign_best *best, uint64_t limit,
                               double *ret_bound)
{
    const struct sp_stages_problem *problem = model->problem;
    uint64_t devices = 0;
    struct exact *exact = SP_NEW(run->scratch, struct exact);
    *ret_bound = 0;
    if (exact == NULL)
        return sp_fail_memory(run->err);
    exact->model = model;
    exact->judge = judge;
    if (model->unit_count > MAX_UNITS || model->unit_count == 0 || !list_choices(exact, problem))
        return SP_OK;
    exact->best = best;
    exact->class_left = SP_NEW_ARRAY(run->scratch, problem->class_count, uint32_t);
    exact->shared_in = SP_NEW_ARRAY(run->scratch, (size_t)model->shared_count * MAX_PARTS, uint32_t);
    if (exact->class_left == NULL || exact->shared_in == NULL)
        return sp_fail_memory(run->err);
    for (uint32_t c = 0; c < problem->class_count; c++)
        devices += exact->class_left[c] = problem->class_size[c];
    exact->max_parts = model->unit_count;
    exact->max_parts = devices < exact->max_parts ? (uint32_t)devices : exact->max_parts;
    if (problem->max_stages != 0 && problem->max_stages < exact->max_parts)
        exact->max_parts = problem->max_stages;
    exact->max_parts += judge != NULL ? judge->free_count : 0;
    if (exact->max_parts > MAX_PARTS)
        return SP_OK;
    exact->part_count[0] = judge != NULL ? judge->free_count : 0;
    for (uint32_t f = 0; f < exact->part_count[0]; f++)
        exact->parts[0][f].choice = judge->free_choices[f];
    if (best->slot_count < exact->max_parts) { /* it may end with more stages than were looked at before */
        struct sp_stages_choice *choices = SP_NEW_ARRAY(run->scratch, exact->max_parts, struct sp_stages_choice);
        if (choices == NULL)
            return sp_fail_memory(run->err);
        for (uint32_t s = 0; s < best->slot_count; s++)
            choices[s] = best->choices[s];
        best->choices = choices;
    }
    enum sp_status status = sp_assign_state_create(run->scratch, model, exact->max_parts, &exact->state, run->err);
    if (status != SP_OK)
        return status;
    order_units(exact);
    if (judge != NULL)
        memcpy(exact->order, judge->order, model->unit_count * sizeof *judge->order);
    if (search(exact, run, limit))
        *ret_bound = best->value;
    return SP_OK;
}
