/* From a path over codes to steps for people and programs: shardings, axes, moves, transfers. */
#include <math.h>
#include <string.h>

#include "sharding/reshard/internal.h"

/* The digits of a set as refs in the order of a list, merged. */
static enum sp_status refs_of(struct sp_arena *arena, const struct sp_grid *grid, uint32_t count, const uint8_t *digits,
                              struct sp_axis_list *ret_list, struct sp_error *err)
{
    struct sp_axis_list list = {.refs = SP_NEW_ARRAY(arena, count, struct sp_axis_ref)};

    if (list.refs == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < count; i++)
        list.refs[list.count++] = grid->digits[digits[i]].ref;
    sp_axes_merge(&list);
    *ret_list = list;
    return SP_OK;
}

/* Per tensor axis the end of the longer of two lists, by which it surpasses the other. */
static enum sp_status surplus(struct sp_arena *arena, const struct sp_solution *solution, uint32_t rank,
                              const struct sp_lists *shorter, const struct sp_lists *longer,
                              const struct sp_axis_list **ret_dims, struct sp_error *err)
{
    const struct sp_problem *problem = &solution->problem;
    const struct sp_grid *grid = problem->grids[longer->grid];
    struct sp_axis_list *dims = SP_NEW_ARRAY(arena, rank, struct sp_axis_list);

    if (dims == NULL)
        return sp_fail_memory(err);
    for (uint32_t a = 0; a < problem->rank; a++) {
        uint32_t first = shorter->count[a];
        enum sp_status status =
            refs_of(arena, grid, longer->count[a] - first, longer->list[a] + first, &dims[problem->axes[a]], err);

        if (status != SP_OK)
            return status;
    }
    *ret_dims = dims;
    return SP_OK;
}

/* The moves of an all-to-all: each axis that lost digits gave its end to one other. */
static enum sp_status moves_of(struct sp_arena *arena, const struct sp_solution *solution,
                               const struct sp_lists *before, const struct sp_lists *after,
                               struct sp_reshard_step *step, struct sp_error *err)
{
    const struct sp_problem *problem = &solution->problem;
    struct sp_axis_move *moves = SP_NEW_ARRAY(arena, problem->rank, struct sp_axis_move);

    if (moves == NULL)
        return sp_fail_memory(err);
    for (uint32_t a = 0; a < problem->rank; a++) {
        uint32_t kept = after->count[a], target = 0;

        if (kept >= before->count[a])
            continue;
        uint8_t first = before->list[a][kept];
        while (target + 1 < problem->rank && memchr(after->list[target], first, after->count[target]) == NULL)
            target++;
        struct sp_axis_move *move = &moves[step->move_count++];
        move->source = problem->axes[a];
        move->target = problem->axes[target];
        enum sp_status status = refs_of(arena, problem->grids[before->grid], before->count[a] - kept,
                                        before->list[a] + kept, &move->axes, err);
        if (status != SP_OK)
            return status;
    }
    step->moves = moves;
    return SP_OK;
}

static enum sp_status axes_of(struct sp_arena *arena, const struct sp_grid *grid, uint32_t set,
                              struct sp_axis_list *ret_axes, struct sp_error *err)
{
    uint8_t digits[SP_SEARCH_DIGITS];
    uint32_t count = 0;

    for (uint32_t d = 0; d < grid->count; d++)
        if (set >> d & 1)
            digits[count++] = (uint8_t)d;
    enum sp_status status = refs_of(arena, grid, count, digits, ret_axes, err);
    if (status == SP_OK)
        sp_axes_sort_and_merge(ret_axes);
    return status;
}

static enum sp_status describe(struct sp_arena *arena, const struct sp_reshard_request *request,
                               const struct sp_solution *solution, const struct sp_path_step *path_step,
                               struct sp_reshard_step *step, struct sp_error *err)
{
    const struct sp_problem *problem = &solution->problem;
    const struct sp_grid *grid = problem->grids[path_step->before.grid];
    struct sp_lists before, after;

    sp_lists_of(problem, &path_step->before, &before);
    sp_lists_of(problem, &path_step->after, &after);
    if (path_step->kind == SP_COLLECTIVE_PERMUTE)
        return sp_reshard_permute_transfers(arena, request, problem, path_step, step, err);
    step->total_bytes = path_step->bytes * (double)grid->device_count;
    if (path_step->kind == SP_ALL_SLICE)
        return surplus(arena, solution, request->rank, &before, &after, &step->dims, err);
    enum sp_status status = axes_of(arena, grid, path_step->set, &step->axes, err);
    if (status != SP_OK)
        return status;
    if (path_step->kind == SP_ALL_GATHER)
        return surplus(arena, solution, request->rank, &after, &before, &step->dims, err);
    if (path_step->kind == SP_REDUCE_SCATTER)
        return surplus(arena, solution, request->rank, &before, &after, &step->dims, err);
    return path_step->kind == SP_ALL_TO_ALL ? moves_of(arena, solution, &before, &after, step, err) : SP_OK;
}

enum sp_status sp_reshard_add(struct sp_arena *arena, struct sp_reshard *reshard, const struct sp_reshard_step *step,
                              struct sp_error *err)
{
    struct sp_reshard_step *steps = SP_NEW_ARRAY(arena, (size_t)reshard->step_count + 1, struct sp_reshard_step);

    if (steps == NULL)
        return sp_fail_memory(err);
    if (reshard->step_count > 0)
        memcpy(steps, reshard->steps, reshard->step_count * sizeof *steps);
    steps[reshard->step_count++] = *step;
    reshard->steps = steps;
    reshard->seconds += step->seconds;
    reshard->bytes += step->bytes;
    reshard->total_bytes += step->total_bytes;
    reshard->peak_bytes = fmax(reshard->peak_bytes, step->peak_bytes);
    return SP_OK;
}

/* The combiner of partial axes is that of the source or the target. */
struct combiners {
    enum sp_combiner on_the_way, at_the_end;
};

/* A layout as a sharding of this rank on its grid's mesh. */
static enum sp_status sharding_of(struct sp_arena *arena, const struct sp_problem *problem, uint32_t rank,
                                  const struct sp_code *code, const struct combiners *combiners,
                                  struct sp_sharding **ret_sharding, struct sp_error *err)
{
    const struct sp_grid *grid = problem->grids[code->grid];
    struct sp_sharding *sharding;
    struct sp_lists lists;
    enum sp_status status = sp_sharding_create_axes(arena, grid->mesh, rank, &sharding, err);

    if (status != SP_OK)
        return status;
    sp_lists_of(problem, code, &lists);
    for (uint32_t a = 0; a < problem->rank; a++) {
        struct sp_axis_list *axes = &sharding->dims[problem->axes[a]].axes;

        axes->refs = SP_NEW_ARRAY(arena, lists.count[a], struct sp_axis_ref);
        if (axes->refs == NULL)
            return sp_fail_memory(err);
        for (uint32_t i = 0; i < lists.count[a]; i++)
            axes->refs[axes->count++] = grid->digits[lists.list[a][i]].ref;
        sp_axes_merge(axes);
    }
    uint32_t partial = lists.partial | lists.partial_to;
    sharding->partial.refs = SP_NEW_ARRAY(arena, grid->count, struct sp_axis_ref);
    if (sharding->partial.refs == NULL)
        return sp_fail_memory(err);
    for (uint32_t d = 0; d < grid->count; d++)
        if (partial >> d & 1)
            sharding->partial.refs[sharding->partial.count++] = grid->digits[d].ref;
    sp_axes_sort_and_merge(&sharding->partial);
    if (partial != 0)
        sharding->combiner = lists.partial_to != 0 ? combiners->at_the_end : combiners->on_the_way;
    *ret_sharding = sharding;
    return SP_OK;
}

enum sp_status sp_reshard_steps(struct sp_arena *arena, const struct sp_reshard_request *request,
                                const struct sp_solution *solution, const struct sp_sharding *from,
                                const struct sp_sharding *to, struct sp_reshard *reshard, struct sp_error *err)
{
    const struct sp_path *path = &solution->path;
    const struct sp_problem *problem = &solution->problem;
    const bool has_own = problem->two_combiners || from->partial.count > 0;
    const struct combiners combiners = {has_own ? from->combiner : to->combiner, to->combiner};

    for (uint32_t i = 0; i < path->count; i++) {
        const struct sp_path_step *path_step = &path->steps[i];
        struct sp_sharding *before = NULL, *after = NULL;
        struct sp_reshard_step step = {.kind = path_step->kind,
                                       .group_size = (int64_t)path_step->group_size,
                                       .bytes = path_step->bytes,
                                       .seconds = path_step->seconds,
                                       .peak_bytes = path_step->peak};
        enum sp_status status =
            sharding_of(arena, problem, request->rank, &path_step->before, &combiners, &before, err);

        if (status == SP_OK)
            status = sharding_of(arena, problem, request->rank, &path_step->after, &combiners, &after, err);
        if (status != SP_OK)
            return status;
        step.before = before;
        step.after = after;
        status = describe(arena, request, solution, path_step, &step, err);
        if (status == SP_OK)
            status = sp_reshard_add(arena, reshard, &step, err);
        if (status != SP_OK)
            return status;
    }
    reshard->peak_bytes = fmax(reshard->peak_bytes, path->peak);
    return SP_OK;
}
