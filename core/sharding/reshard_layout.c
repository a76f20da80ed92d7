/* Layouts of one problem: taken apart and put together, their tiles, bounds, and what a step between two of them is. */
#include <math.h>
#include <string.h>

#include "sharding/reshard_internal.h"

void sp_lists_of(const struct sp_problem *problem, const struct sp_code *code, struct sp_lists *ret_lists)
{
    uint32_t count = problem->grids[code->grid]->count;

    ret_lists->grid = code->grid;
    ret_lists->replicated = ret_lists->partial = ret_lists->partial_to = 0;
    memset(ret_lists->count, 0, sizeof(ret_lists->count));
    for (uint32_t d = 0; d < count; d++) {
        uint8_t at = code->at[d];

        if (at == SP_LAYOUT_REPLICATED) {
            ret_lists->replicated |= 1u << d;
        } else if (at == SP_LAYOUT_PARTIAL) {
            ret_lists->partial |= 1u << d;
        } else if (at == SP_CODE_PARTIAL_TO) {
            ret_lists->partial_to |= 1u << d;
        } else {
            ret_lists->list[at / SP_SEARCH_DIGITS][at % SP_SEARCH_DIGITS] = (uint8_t)d;
            ret_lists->count[at / SP_SEARCH_DIGITS]++;
        }
    }
}

struct sp_code sp_code_of(const struct sp_problem *problem, const struct sp_lists *lists)
{
    struct sp_code code;
    uint32_t count = problem->grids[lists->grid]->count;

    memset(&code, 0, sizeof(code));
    memset(code.at, SP_LAYOUT_REPLICATED, count);
    code.grid = (uint8_t)lists->grid;
    for (uint32_t a = 0; a < problem->rank; a++)
        for (uint32_t i = 0; i < lists->count[a]; i++)
            code.at[lists->list[a][i]] = (uint8_t)(a * SP_SEARCH_DIGITS + i);
    if (lists->partial | lists->partial_to)
        for (uint32_t d = 0; d < count; d++) {
            if (lists->partial >> d & 1)
                code.at[d] = SP_LAYOUT_PARTIAL;
            if (lists->partial_to >> d & 1)
                code.at[d] = SP_CODE_PARTIAL_TO;
        }
    return code;
}

int64_t sp_lists_shards(const struct sp_problem *problem, const struct sp_lists *lists, uint32_t axis, uint32_t count)
{
    const struct sp_grid *grid = problem->grids[lists->grid];
    int64_t shards = 1;

    for (uint32_t i = 0; i < count; i++)
        shards *= grid->digits[lists->list[axis][i]].size;
    return shards;
}

double sp_lists_tile(const struct sp_problem *problem, const struct sp_lists *lists)
{
    double bytes = problem->element_bytes;

    for (uint32_t a = 0; a < problem->rank; a++)
        bytes *= (double)sp_block_size(problem->extents[a], sp_lists_shards(problem, lists, a, lists->count[a]));
    return bytes;
}

void sp_problem_fastest(const struct sp_problem *problem, double ret_fastest[2])
{
    const struct sp_grid *grid = problem->grids[problem->grid_count - 1];
    double latency = INFINITY, per_byte = INFINITY;

    for (uint32_t l = 0; l < problem->links->level_count; l++) {
        bool is_used = !grid->is_nested;

        for (uint32_t d = 0; d < grid->count && !is_used; d++)
            is_used = grid->digits[d].span[l] > 1;
        if (!is_used)
            continue;
        latency = fmin(latency, problem->links->levels[l].latency);
        per_byte = fmin(per_byte, 1 / problem->links->levels[l].bandwidth);
    }
    ret_fastest[0] = isfinite(latency) ? latency : 0;
    ret_fastest[1] = isfinite(per_byte) ? per_byte : 0;
}

/* Multiplies what is known of one tensor axis into the share of the target's tile that a device holds already, at
   worst, and the number of tiles that it takes its own from. */
static void compare_axis(const struct sp_grid *grid, const struct sp_lists *lists, const struct sp_lists *target,
                         uint32_t axis, double *share, double *tiles)
{
    uint32_t common = 0, count = lists->count[axis], wanted = target->count[axis];

    while (common < count && common < wanted && lists->list[axis][common] == target->list[axis][common])
        common++;
    if (common == count)
        return;
    if (common < wanted) {
        *share = 0;
        return;
    }
    for (uint32_t i = common; i < count; i++) {
        *share /= (double)grid->digits[lists->list[axis][i]].size;
        *tiles *= (double)grid->digits[lists->list[axis][i]].size;
    }
}

/*
 * A device must receive what it lacks of its tile, over links that are at best the fastest ones, and a message for each
 * doubling of the number of devices that it has heard of. That holds for ideal blocks; real tiles are not smaller.
 */
double sp_problem_bound(const struct sp_problem *problem, const struct sp_lists *lists, const struct sp_lists *target,
                        const double fastest[2])
{
    const struct sp_grid *grid = problem->grids[lists->grid];
    double share = 1, tiles = 1, bytes = problem->element_bytes, rounds = 0;
    uint32_t reduced = (lists->partial & ~target->partial) | (lists->partial_to & ~target->partial_to);

    if (lists->grid != target->grid)
        return 0;
    for (uint32_t a = 0; a < problem->rank; a++) {
        bytes *= (double)problem->extents[a];
        bytes /= (double)sp_lists_shards(problem, target, a, target->count[a]);
        compare_axis(grid, lists, target, a, &share, &tiles);
    }
    for (uint32_t d = 0; reduced >> d != 0; d++)
        if (reduced >> d & 1) {
            tiles *= (double)grid->digits[d].size;
            share = 0;
        }
    if (share == 1)
        return 0;
    for (double reached = 1; reached < tiles; reached *= 2)
        rounds++;
    return fmax(rounds, 1) * fastest[0] + bytes * (1 - share) * fastest[1];
}

/* The digits whose place differs. */
static uint32_t changed_digits(const struct sp_grid *grid, const struct sp_code *before, const struct sp_code *after)
{
    uint32_t set = 0;

    for (uint32_t d = 0; d < grid->count; d++) {
        uint8_t a = before->at[d], b = after->at[d];
        bool is_listed = a < SP_CODE_PARTIAL_TO && b < SP_CODE_PARTIAL_TO;

        if (is_listed ? a / SP_SEARCH_DIGITS != b / SP_SEARCH_DIGITS : a != b)
            set |= 1u << d;
    }
    return set;
}

static void measure_permute(const struct sp_problem *problem, struct sp_near *near, const struct sp_lists *before,
                            const struct sp_lists *after, double tile, struct sp_path_step *step)
{
    uint32_t level;

    sp_near_of(problem, before, near);
    step->set = 0;
    step->group_size = 1;
    step->seconds = sp_permute_seconds(problem, near, before, after, tile, &level);
    step->bytes = level < problem->links->level_count ? tile : 0;
}

enum sp_status sp_step_measure(const struct sp_problem *problem, struct sp_near *near, enum sp_collective kind,
                               const struct sp_code *before, const struct sp_code *after, struct sp_path_step *ret_step,
                               struct sp_error *err)
{
    struct sp_lists from, to;
    struct sp_path_step step = {.kind = kind, .before = *before, .after = *after, .group_size = 1};

    sp_lists_of(problem, before, &from);
    sp_lists_of(problem, after, &to);
    double tile = sp_lists_tile(problem, &from), tile_after = sp_lists_tile(problem, &to), bytes = tile;
    step.peak = kind == SP_ALL_SLICE || kind == SP_TO_PARTIAL ? tile : tile + tile_after;
    if (kind == SP_COLLECTIVE_PERMUTE) {
        measure_permute(problem, near, &from, &to, tile, &step);
        *ret_step = step;
        return SP_OK;
    }
    step.set = changed_digits(problem->grids[before->grid], before, after);
    const struct sp_group *group = sp_grid_group(problem->grids[before->grid], step.set);
    if (!group)
        return sp_fail_memory(err);
    if (kind == SP_ALL_GATHER)
        bytes = tile_after;
    else if (kind == SP_ALL_TO_ALL)
        bytes = group->size * fmax(tile, tile_after);
    if (kind != SP_ALL_SLICE)
        step.group_size = group->size;
    step.bytes = sp_collective_bytes(kind, group->size, bytes);
    if (kind == SP_ALL_TO_ALL)
        step.seconds = sp_group_exchange(group, bytes);
    else if (kind == SP_ALL_GATHER || kind == SP_REDUCE_SCATTER || kind == SP_ALL_REDUCE)
        step.seconds = (kind == SP_ALL_REDUCE ? 2 : 1) * sp_group_gather(group, bytes);
    *ret_step = step;
    return SP_OK;
}
