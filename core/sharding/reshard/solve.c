/* A task on digits: which search to run on which cut, and the plain sequence that every search has to beat. */
#include <math.h>
#include <string.h>

#include "sharding/reshard/internal.h"

/* Where more layouts than this are possible, joined digits are searched first: what that finds bounds the rest. */
#define MANY_LAYOUTS 4000

/* ---- the problem ---- */

static bool is_listed(uint8_t axis)
{
    return axis != SP_LAYOUT_REPLICATED && axis != SP_LAYOUT_PARTIAL;
}

static bool uses_axis(const struct sp_layout *layout, uint32_t count, uint32_t axis)
{
    for (uint32_t d = 0; d < count; d++)
        if (is_listed(layout->axis[d]) && layout->axis[d] == axis)
            return true;
    return false;
}

/* The grid that the target is on. */
static const struct sp_grid *last_grid(const struct sp_reshard_task *task)
{
    return task->other != NULL ? task->other : task->pair.grid;
}

/* The tensor axes of the search: those in use, then the others from the first as far as there is room. *ret_all is
   false when one was left out that a sequence could have used as a stop-over. */
static bool choose_axes(const struct sp_reshard_task *task, struct sp_problem *problem, bool *ret_all)
{
    bool chosen[SP_MAX_RANK] = {false};
    uint32_t count = 0;

    *ret_all = true;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t a = 0; a < task->rank; a++) {
            bool is_used = uses_axis(&task->pair.from, task->pair.grid->count, a) ||
                           uses_axis(&task->pair.to, last_grid(task)->count, a);

            if (is_used != (pass == 0))
                continue;
            if (count == SP_SEARCH_AXES) {
                *ret_all = false;
                if (pass == 0)
                    return false;
                continue;
            }
            chosen[a] = true;
            count++;
        }
    problem->rank = 0;
    problem->element_bytes = task->element_bytes;
    for (uint32_t a = 0; a < task->rank; a++) {
        if (!chosen[a]) {
            problem->element_bytes *= (double)task->shape[a];
            continue;
        }
        problem->axes[problem->rank] = a;
        problem->extents[problem->rank++] = task->shape[a];
    }
    return true;
}

static struct sp_code encode(const struct sp_problem *problem, uint32_t grid, const struct sp_layout *layout,
                             uint8_t partial)
{
    struct sp_code code;

    memset(&code, 0, sizeof code);
    code.grid = (uint8_t)grid;
    for (uint32_t d = 0; d < problem->grids[grid]->count; d++) {
        uint32_t axis = 0;

        if (!is_listed(layout->axis[d])) {
            code.at[d] = layout->axis[d] == SP_LAYOUT_PARTIAL ? partial : SP_LAYOUT_REPLICATED;
            continue;
        }
        while (problem->axes[axis] != layout->axis[d])
            axis++;
        code.at[d] = (uint8_t)(axis * SP_SEARCH_DIGITS + layout->place[d]);
    }
    return code;
}

static bool has_partial(const struct sp_layout *layout, uint32_t count)
{
    return memchr(layout->axis, SP_LAYOUT_PARTIAL, count) != NULL;
}

/* False when there are more digits or axes than a search takes. */
static bool make_problem(const struct sp_reshard_task *task, struct sp_problem *problem, bool *ret_all)
{
    uint32_t last = task->other != NULL ? 1 : 0;

    memset(problem, 0, sizeof *problem);
    problem->links = task->links;
    problem->grid_count = last + 1;
    problem->grids[0] = task->pair.grid;
    problem->grids[1] = task->other;
    problem->memory_limit = task->memory_limit;
    problem->two_combiners = task->two_combiners;
    problem->has_partial =
        has_partial(&task->pair.from, task->pair.grid->count) || has_partial(&task->pair.to, last_grid(task)->count);
    if (task->pair.grid->count > SP_SEARCH_DIGITS || last_grid(task)->count > SP_SEARCH_DIGITS ||
        !choose_axes(task, problem, ret_all))
        return false;
    problem->from = encode(problem, 0, &task->pair.from, SP_LAYOUT_PARTIAL);
    problem->to = encode(problem, last, &task->pair.to, task->two_combiners ? SP_CODE_PARTIAL_TO : SP_LAYOUT_PARTIAL);
    return true;
}

/* ---- the plain sequence ---- */

static enum sp_status add_step(struct sp_reshard_search *search, const struct sp_problem *problem,
                               enum sp_collective kind, const struct sp_lists *lists, struct sp_code *at,
                               struct sp_path *path, struct sp_error *err)
{
    struct sp_code after = sp_code_of(problem, lists);
    struct sp_path_step *step = &path->steps[path->count];

    if (memcmp(&after, at, sizeof after) == 0)
        return SP_OK;
    enum sp_status status = sp_step_measure(problem, &search->near, kind, at, &after, step, err);
    if (status != SP_OK)
        return status;
    *at = after;
    path->seconds += step->seconds;
    path->bytes += step->bytes;
    path->peak = fmax(path->peak, step->peak);
    path->count++;
    return SP_OK;
}

/* How much of an axis's list the target has in common so that blocks nest on both ways. */
static uint32_t common_prefix(const struct sp_problem *problem, const struct sp_lists *lists,
                              const struct sp_lists *target, uint32_t axis)
{
    uint32_t common = 0;
    int64_t extent = problem->extents[axis];

    while (common < lists->count[axis] && common < target->count[axis] &&
           lists->list[axis][common] == target->list[axis][common])
        common++;
    while (common > 0) {
        int64_t shards = sp_lists_shards(problem, lists, axis, common);

        if (sp_blocks_nest(extent, shards, sp_lists_shards(problem, lists, axis, lists->count[axis])) &&
            sp_blocks_nest(extent, shards, sp_lists_shards(problem, target, axis, target->count[axis])))
            break;
        common--;
    }
    return common;
}

/* Reduce, gather what differs, slice. */
static enum sp_status plain_sequence(struct sp_reshard_search *search, const struct sp_problem *problem,
                                     struct sp_path *path, struct sp_error *err)
{
    struct sp_lists lists, target;
    struct sp_code at = problem->from;
    bool crosses = problem->grid_count > 1;

    sp_lists_of(problem, &problem->from, &lists);
    sp_lists_of(problem, &problem->to, &target);
    path->count = 0;
    path->seconds = path->bytes = 0;
    path->peak = sp_lists_tile(problem, &target);
    uint32_t reduced = crosses ? lists.partial : lists.partial & ~target.partial;
    lists.partial &= ~reduced;
    lists.replicated |= reduced;
    enum sp_status status = add_step(search, problem, SP_ALL_REDUCE, &lists, &at, path, err);
    for (uint32_t a = 0; a < problem->rank; a++) {
        uint32_t kept = crosses ? 0 : common_prefix(problem, &lists, &target, a);

        for (uint32_t i = kept; i < lists.count[a]; i++)
            lists.replicated |= 1u << lists.list[a][i];
        lists.count[a] = (uint8_t)kept;
    }
    if (status == SP_OK)
        status = add_step(search, problem, SP_ALL_GATHER, &lists, &at, path, err);
    if (crosses) {
        /* Everything is everywhere: the same on the other grid, without a step. */
        lists.grid = 1;
        lists.replicated = (1u << problem->grids[1]->count) - 1;
        at = sp_code_of(problem, &lists);
    }
    uint32_t added = (target.partial & ~lists.partial) | target.partial_to;
    lists.partial = target.partial;
    lists.partial_to = target.partial_to;
    lists.replicated &= ~added;
    if (status == SP_OK)
        status = add_step(search, problem, SP_TO_PARTIAL, &lists, &at, path, err);
    if (status == SP_OK)
        status = add_step(search, problem, SP_ALL_SLICE, &target, &at, path, err);
    return status;
}

/* ---- the sequence around one permute ---- */

/* Adds digits out of `*unused` to a list until it has `factor` times the shards: those of `wanted` first, so that the
   permute has less to move. False when no digits multiply to the factor. */
static bool add_digits(const struct sp_grid *grid, struct sp_lists *lists, uint32_t axis, int64_t factor,
                       uint32_t wanted, uint32_t *unused)
{
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t d = 0; d < grid->count && factor > 1; d++) {
            uint32_t digit = 1u << d;

            if ((*unused & digit) == 0 || factor % grid->digits[d].size != 0 || (pass == 0 && (wanted & digit) == 0))
                continue;
            lists->list[axis][lists->count[axis]++] = (uint8_t)d;
            *unused &= ~digit;
            factor /= grid->digits[d].size;
        }
    return factor == 1;
}

static uint32_t digits_of(const struct sp_lists *lists, uint32_t axis)
{
    uint32_t digits = 0;

    for (uint32_t i = 0; i < lists->count[axis]; i++)
        digits |= 1u << lists->list[axis][i];
    return digits;
}

/* Makes every axis of `lists` that has fewer shards than in `other` as finely split; false when that cannot be. */
static bool refine(const struct sp_problem *problem, const struct sp_lists *other, struct sp_lists *lists)
{
    for (uint32_t a = 0; a < problem->rank; a++) {
        int64_t have = sp_lists_shards(problem, lists, a, lists->count[a]);
        int64_t need = sp_lists_shards(problem, other, a, other->count[a]);

        if (need > have &&
            (need % have != 0 || !sp_blocks_nest(problem->extents[a], have, need) ||
             !add_digits(problem->grids[lists->grid], lists, a, need / have, digits_of(other, a), &lists->replicated)))
            return false;
    }
    return true;
}

/*
 * Slice what is too coarse, permute into the target with what is too fine left at the minor ends, gather that. On large
 * meshes a search does not get as far as this, and a gather of everything is what it must not fall back to. *ret_exists
 * is false when there is no such sequence.
 */
static enum sp_status permute_sequence(struct sp_reshard_search *search, const struct sp_problem *problem,
                                       bool *ret_exists, struct sp_path *path, struct sp_error *err)
{
    struct sp_lists lists, target, finer;
    struct sp_code at = problem->from;

    sp_lists_of(problem, &problem->from, &lists);
    sp_lists_of(problem, &problem->to, &target);
    finer = target;
    *ret_exists = problem->grid_count == 1 && !problem->has_partial && refine(problem, &target, &lists) &&
                  refine(problem, &lists, &finer);
    for (uint32_t a = 0; a < problem->rank && *ret_exists; a++)
        *ret_exists =
            sp_lists_shards(problem, &lists, a, lists.count[a]) == sp_lists_shards(problem, &finer, a, finer.count[a]);
    if (!*ret_exists)
        return SP_OK;
    path->count = 0;
    path->seconds = path->bytes = 0;
    path->peak = sp_lists_tile(problem, &target);
    enum sp_status status = add_step(search, problem, SP_ALL_SLICE, &lists, &at, path, err);
    if (status == SP_OK)
        status = add_step(search, problem, SP_COLLECTIVE_PERMUTE, &finer, &at, path, err);
    return status == SP_OK ? add_step(search, problem, SP_ALL_GATHER, &target, &at, path, err) : status;
}

/* ---- solving ---- */

static double value_of(const struct sp_path *path, enum sp_goal goal)
{
    return goal == SP_GOAL_SECONDS ? path->seconds : path->peak;
}

/* Takes a path if it is better than what there is. */
static void take(struct sp_solution *solution, const struct sp_problem *problem, const struct sp_path *path,
                 enum sp_goal goal)
{
    if (problem->memory_limit > 0 && path->peak > problem->memory_limit)
        return;
    if (solution->is_found) {
        double have = value_of(&solution->path, goal), new = value_of(path, goal);

        if (new > have *(1 + 1e-12) || (new > have *(1 - 1e-12) && path->count >= solution->path.count))
            return;
    }
    solution->problem = *problem;
    solution->path = *path;
    solution->is_found = true;
}

/* One search on one cut; *ret_complete is false when it does not answer for the optimum. */
static enum sp_status search_cut(struct sp_reshard_search *search, const struct sp_reshard_task *task,
                                 enum sp_goal goal, struct sp_solution *solution, bool *ret_complete,
                                 struct sp_error *err)
{
    struct sp_problem problem;
    struct sp_path path;
    bool all_axes, found, exists;

    *ret_complete = false;
    if (!make_problem(task, &problem, &all_axes))
        return SP_OK;
    enum sp_status status = plain_sequence(search, &problem, &path, err);
    if (status != SP_OK)
        return status;
    take(solution, &problem, &path, goal);
    status = permute_sequence(search, &problem, &exists, &path, err);
    if (status != SP_OK)
        return status;
    if (exists)
        take(solution, &problem, &path, goal);
    double limit = solution->is_found ? value_of(&solution->path, goal) : INFINITY;
    status = sp_search_run(search, &problem, goal, limit, &found, &path, err);
    if (status != SP_OK)
        return status;
    if (found)
        take(solution, &problem, &path, goal);
    *ret_complete = !search->is_cut && all_axes;
    return SP_OK;
}

/* How many layouts there are, roughly: orders of the digits times ways to deal them out. */
static double layout_count(uint32_t digits, uint32_t rank)
{
    double count = 1;

    for (uint32_t d = 0; d < digits; d++)
        count *= rank + d + 1;
    return count;
}

/* Whether what was found is at most one step and no longer than the bound of the whole task. */
static bool is_proved(const struct sp_reshard_task *task, enum sp_goal goal, const struct sp_solution *solution)
{
    struct sp_problem problem;
    struct sp_lists from, to;
    struct sp_fastest fastest;
    bool ignored;

    if (!solution->is_found || goal != SP_GOAL_SECONDS || solution->path.count > 1 ||
        !make_problem(task, &problem, &ignored))
        return false;
    sp_lists_of(&problem, &problem.from, &from);
    sp_lists_of(&problem, &problem.to, &to);
    sp_problem_fastest(&problem, &fastest);
    return solution->path.seconds <= sp_problem_bound(&problem, &from, &to, &fastest) * (1 + 1e-12);
}

enum sp_status sp_reshard_solve(struct sp_arena *arena, struct sp_reshard_search *search,
                                const struct sp_reshard_task *task, enum sp_goal goal, struct sp_solution *ret_solution,
                                struct sp_error *err)
{
    uint32_t digits = task->pair.grid->count;
    bool complete = true;
    enum sp_status status = SP_OK;

    ret_solution->is_found = ret_solution->is_optimal = false;
    if (task->other != NULL) {
        status = search_cut(search, task, goal, ret_solution, &complete, err);
        ret_solution->is_optimal = complete && !task->is_joined;
        return status;
    }
    if (digits > SP_SEARCH_DIGITS || layout_count(digits, task->rank) > MANY_LAYOUTS) {
        struct sp_reshard_task joined = *task;
        bool ignored;

        status = sp_grid_rearrange(arena, &task->pair, -1, &joined.pair, err);
        if (status == SP_OK)
            status = search_cut(search, &joined, goal, ret_solution, &ignored, err);
        complete = digits <= SP_SEARCH_DIGITS;
    }
    if (status == SP_OK && is_proved(task, goal, ret_solution)) {
        ret_solution->is_optimal = !task->is_joined;
        return SP_OK;
    }
    for (int order = 0; status == SP_OK && digits <= SP_SEARCH_DIGITS; order++) {
        struct sp_reshard_task other = *task;
        bool this_complete;

        if (order == SP_RESHARD_MAX_ORDERS) {
            complete = false;
            break;
        }
        if (order > 0)
            status = sp_grid_rearrange(arena, &task->pair, order, &other.pair, err);
        if (status != SP_OK || other.pair.grid == NULL)
            break;
        status = search_cut(search, &other, goal, ret_solution, &this_complete, err);
        complete = complete && this_complete;
    }
    ret_solution->is_optimal = complete && !task->is_joined;
    return status;
}
