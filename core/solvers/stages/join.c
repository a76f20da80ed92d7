#include <math.h>
#include <string.h>

#include "solvers/stages/lists.h"

/*
 * Units that take no time and no memory that matters, and touch one other unit only: in any solution they can go where
 * that one is, which saves a transfer and changes nothing else. So they are joined to it, and there are fewer ideals.
 */

struct idle {
    const struct sp_stages_problem *problem;
    uint32_t units;
    struct sp_rows near; /* units that a tensor goes to or comes from */
    uint32_t *left;      /* of these: not joined yet */
    uint32_t *into;      /* the unit it was joined to; itself */
    bool *is_idle;
    uint32_t *queue;
};

static double node_weight(const struct sp_stages_problem *problem, const struct sp_stages_option *option, uint32_t node)
{
    return option->weight_bytes != NULL ? option->weight_bytes[node]
                                        : problem->nodes[node].weight_bytes * option->memory_scale;
}

static double node_held(const struct sp_stages_problem *problem, const struct sp_stages_option *option, uint32_t node)
{
    return option->held_bytes != NULL ? option->held_bytes[node]
                                      : problem->nodes[node].held_bytes * option->memory_scale;
}

/* Whether all nodes together fit in one stage under the option, and nothing has to be copied. */
static bool is_roomy(const struct sp_stages_problem *problem, const struct sp_stages_option *option)
{
    const double room =
        option->copy_per_byte > 0 ? fmin(option->own_bytes, option->memory_bytes) : option->memory_bytes;
    double sum = 0, held = 0;
    if (room == INFINITY || problem->memory != NULL)
        return room == INFINITY;
    for (uint32_t node = 0; node < problem->node_count; node++) {
        sum += node_weight(problem, option, node);
        held = fmax(held, node_held(problem, option, node));
    }
    for (uint32_t i = 0; i < problem->weight_count; i++)
        sum += problem->weights[i].bytes * option->memory_scale;
    return sum + held <= room;
}

static void find_idle(struct idle *idle, const uint32_t *unit_of)
{
    const struct sp_stages_problem *problem = idle->problem;
    memset(idle->is_idle, true, idle->units * sizeof *idle->is_idle);
    for (uint32_t i = 0; i < problem->option_count; i++) {
        const struct sp_stages_option *option = &problem->options[i];
        bool roomy = is_roomy(problem, option);
        for (uint32_t node = 0; node < problem->node_count; node++) {
            bool takes = !roomy && (node_weight(problem, option, node) > 0 || node_held(problem, option, node) > 0);
            if (option->seconds[node] != 0 || takes)
                idle->is_idle[unit_of[node]] = false;
        }
        for (uint32_t j = 0; !roomy && j < problem->weight_count; j++)
            for (uint32_t k = 0; k < problem->weights[j].user_count; k++)
                idle->is_idle[unit_of[problem->weights[j].users[k]]] = false;
    }
}

static bool find_near(struct sp_arena *scratch, struct idle *idle, const uint32_t *unit_of)
{
    const struct sp_stages_problem *problem = idle->problem;
    struct sp_stages_pairs pairs;
    size_t room = 0;
    for (uint32_t i = 0; i < problem->tensor_count; i++)
        room += 2 * (size_t)problem->tensors[i].consumer_count;
    if (!sp_stages_pairs_init(scratch, &pairs, room))
        return false;
    for (uint32_t i = 0; i < problem->tensor_count; i++)
        for (uint32_t j = 0; j < problem->tensors[i].consumer_count; j++) {
            uint32_t from = unit_of[problem->tensors[i].producer], to = unit_of[problem->tensors[i].consumers[j]];
            if (from != to) {
                sp_stages_pairs_add(&pairs, from, to);
                sp_stages_pairs_add(&pairs, to, from);
            }
        }
    return sp_stages_lists_make(scratch, &pairs, idle->units, idle->units, &idle->near);
}

/* The one neighbour that is left. */
static uint32_t partner(const struct idle *idle, uint32_t unit)
{
    for (uint32_t i = idle->near.start[unit]; i < idle->near.start[unit + 1]; i++)
        if (idle->into[idle->near.items[i]] == idle->near.items[i])
            return idle->near.items[i];
    return unit;
}

static bool is_island(const struct idle *idle, uint32_t unit)
{
    return idle->into[unit] == unit && idle->is_idle[unit] && idle->left[unit] == 0;
}

/* What takes nothing and touches nothing can be anywhere: with a unit that is no such, if there is one. */
static void join_islands(struct idle *idle)
{
    uint32_t home = UINT32_MAX;
    for (uint32_t unit = 0; unit < idle->units && home == UINT32_MAX; unit++)
        if (idle->into[unit] == unit && !is_island(idle, unit))
            home = unit;
    for (uint32_t unit = 0; unit < idle->units; unit++) {
        if (!is_island(idle, unit))
            continue;
        if (home == UINT32_MAX)
            home = unit;
        else
            idle->into[unit] = home;
    }
}

/* Takes units off the graph's ends as long as there are such. */
static void join_ends(struct idle *idle)
{
    uint32_t filled = 0;
    for (uint32_t unit = 0; unit < idle->units; unit++) {
        idle->into[unit] = unit;
        idle->left[unit] = idle->near.start[unit + 1] - idle->near.start[unit];
        if (idle->is_idle[unit] && idle->left[unit] == 1)
            idle->queue[filled++] = unit;
    }
    for (uint32_t done = 0; done < filled; done++) {
        uint32_t unit = idle->queue[done], other = partner(idle, unit);
        if (idle->left[unit] != 1)
            continue; /* its last neighbour was joined to it */
        idle->into[unit] = other;
        if (--idle->left[other] == 1 && idle->is_idle[other])
            idle->queue[filled++] = other;
    }
    join_islands(idle);
}

static uint32_t end_of(const struct idle *idle, uint32_t unit)
{
    while (idle->into[unit] != unit)
        unit = idle->into[unit];
    return unit;
}

bool sp_stages_join_idle(struct sp_arena *scratch, const struct sp_stages_problem *problem, uint32_t units,
                         uint32_t *unit_of)
{
    struct idle idle = {.problem = problem, .units = units};
    idle.left = SP_NEW_ARRAY(scratch, units, uint32_t);
    idle.into = SP_NEW_ARRAY(scratch, units, uint32_t);
    idle.queue = SP_NEW_ARRAY(scratch, units, uint32_t);
    idle.is_idle = SP_NEW_ARRAY(scratch, units, bool);
    if (idle.left == NULL || idle.into == NULL || idle.queue == NULL || idle.is_idle == NULL ||
        !find_near(scratch, &idle, unit_of))
        return false;
    find_idle(&idle, unit_of);
    join_ends(&idle);
    for (uint32_t unit = 0; unit < units; unit++) {
        uint32_t end = end_of(&idle, unit);
        for (uint32_t at = unit; idle.into[at] != at && idle.into[at] != end;) {
            uint32_t next = idle.into[at];
            idle.into[at] = end; /* long ways are walked once */
            at = next;
        }
    }
    for (uint32_t node = 0; node < problem->node_count; node++)
        unit_of[node] = idle.into[unit_of[node]];
    return true;
}
