/* Layouts of one problem: taken apart and put together, their tiles, bounds, and what a step between two of them is. */
#include <math.h>
#include <string.h>

#include "sharding/reshard/internal.h"

void sp_lists_of(const struct sp_problem *problem, const struct sp_code *code, struct sp_lists *ret_lists)
{
    uint32_t count = problem->grids[code->grid]->count;

    ret_lists->grid = code->grid;
    ret_lists->replicated = ret_lists->partial = ret_lists->partial_to = 0;
    memset(ret_lists->count, 0, sizeof ret_lists->count);
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

    memset(&code, 0, sizeof code);
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

void sp_problem_fastest(const struct sp_problem *problem, struct sp_fastest *ret_fastest)
{
    const struct sp_grid *grid = problem->grids[problem->grid_count - 1];
    const struct sp_links *links = problem->links;

    ret_fastest->latency = ret_fastest->per_byte = ret_fastest->host = INFINITY;
    ret_fastest->level_count = 0;
    bool is_nested = grid->is_nested;
    for (uint32_t d = 0; d < grid->count; d++)
        is_nested = is_nested && grid->digits[d].span[grid->digits[d].level] == grid->digits[d].size;
    for (uint32_t l = 0; l < links->level_count; l++) {
        bool is_used = !grid->is_nested;

        for (uint32_t d = 0; d < grid->count && !is_used; d++)
            is_used = grid->digits[d].span[l] > 1;
        if (!is_used)
            continue;
        ret_fastest->least[l] = sp_level_least(&links->levels[l], problem->has_partial);
        ret_fastest->latency = fmin(ret_fastest->latency, ret_fastest->least[l].fixed);
        ret_fastest->per_byte = fmin(ret_fastest->per_byte, ret_fastest->least[l].slope);
        ret_fastest->host = fmin(ret_fastest->host, links->levels[l].host_seconds);
        if (is_nested)
            ret_fastest->levels[ret_fastest->level_count++] = l;
    }
    if (isinf(ret_fastest->latency))
        ret_fastest->latency = ret_fastest->per_byte = ret_fastest->host = 0;
}

/* Rounds until somebody has heard of so many, if each round multiplies what is known by at most `factor`. */
static double rounds(double count, double factor)
{
    double needed = 0;

    for (double reached = 1; reached < count; reached *= factor)
        needed++;
    return needed;
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

/* Nodes: the blocks of devices inside one place of a level and of all levels outside it. */
struct nodes {
    uint32_t level;
    double share;                      /* of what a node needs together, what it holds together, at worst */
    double blocks;                     /* of nodes, that what a node needs is spread over */
    double own;                        /* of what a device needs, what it holds, on average over the node */
    uint32_t leader[SP_SEARCH_DIGITS]; /* digits whose values are equal where a device holds what it needs */
};

static uint32_t lead(struct nodes *nodes, uint32_t digit)
{
    while (nodes->leader[digit] != digit)
        digit = nodes->leader[digit];
    return digit;
}

/*
 * A digit that splits the tensor now, of `before` major shards, against the target's digits of its axis. Where the
 * target has the same digit, nothing is missing; where it has none, all other values are; where it has another one,
 * those devices hold what they need in which both digits are equal. Cuts that do not match count as nothing missing.
 */
static void compare_digit(const struct sp_grid *grid, const struct sp_lists *target, uint32_t axis, uint32_t digit,
                          int64_t before, struct nodes *nodes)
{
    int64_t at = 1, size = grid->digits[digit].size;
    uint32_t i = 0;
    bool is_outside = grid->digits[digit].level <= nodes->level;

    while (i < target->count[axis] && at < before)
        at *= grid->digits[target->list[axis][i++]].size;
    if (i < target->count[axis]) {
        uint32_t other = target->list[axis][i];

        if (at != before || grid->digits[other].size != size || other == digit)
            return;
        if (is_outside && grid->digits[other].level <= nodes->level)
            nodes->share = 0;
        else if (is_outside) {
            nodes->share /= (double)size;
            nodes->blocks *= (double)size;
        }
        uint32_t a = lead(nodes, digit), b = lead(nodes, other);
        if (a != b)
            nodes->own /= (double)size;
        nodes->leader[a] = b;
        return;
    }
    if (before % at != 0)
        return;
    nodes->own /= (double)size;
    if (is_outside) {
        nodes->share /= (double)size;
        nodes->blocks *= (double)size;
    }
}

/* What is between a layout and the target. */
struct distance {
    const struct sp_problem *problem;
    const struct sp_lists *lists, *target;
    double bytes, tiles; /* of a target's tile; how many tiles of the layout a device must hear of for it */
    uint32_t reduced;    /* the digits along which partial values are combined */
};

/*
 * What a node lacks comes in over its outer links, which its devices share; what else a device lacks comes over the
 * fastest ones.
 */
static double node_bound(const struct distance *distance, const struct sp_fastest *fastest, uint32_t level)
{
    const struct sp_problem *problem = distance->problem;
    const struct sp_lists *lists = distance->lists, *target = distance->target;
    const double bytes = distance->bytes;
    const uint32_t reduced = distance->reduced;
    const struct sp_grid *grid = problem->grids[lists->grid];
    const struct sp_collective_line *link = &fastest->least[level];
    struct nodes nodes = {.level = level, .share = 1, .blocks = 1, .own = 1};
    double devices = 1, union_bytes = bytes;

    for (uint32_t d = 0; d < grid->count; d++) {
        nodes.leader[d] = d;
        if (grid->digits[d].level > level)
            devices *= (double)grid->digits[d].size;
    }
    for (uint32_t a = 0; a < problem->rank; a++) {
        int64_t before = 1;

        for (uint32_t i = 0; i < lists->count[a]; i++) {
            compare_digit(grid, target, a, lists->list[a][i], before, &nodes);
            before *= grid->digits[lists->list[a][i]].size;
        }
        for (uint32_t i = 0; i < target->count[a]; i++)
            if (grid->digits[target->list[a][i]].level > level)
                union_bytes *= (double)grid->digits[target->list[a][i]].size;
    }
    for (uint32_t d = 0; reduced >> d != 0; d++)
        if (reduced >> d & 1) {
            nodes.own = 0;
            if (grid->digits[d].level <= level) {
                nodes.share = 0;
                nodes.blocks *= (double)grid->digits[d].size;
            }
        }
    if (nodes.share == 1)
        return 0;
    double outer = union_bytes * (1 - nodes.share) / devices, all = nodes.share == 0 ? bytes : bytes * (1 - nodes.own);
    /* In one round every device of a node may hear of another node. */
    double outer_rounds = fmax(rounds(nodes.blocks, 1 + devices), 1);
    double inner_rounds = fmax(rounds(distance->tiles, 2) - outer_rounds, 0);
    return outer_rounds * link->fixed + inner_rounds * fastest->latency + outer * link->slope +
           fmax(all - outer, 0) * fastest->per_byte;
}

static double digits_product(const struct sp_grid *grid, uint32_t set)
{
    double product = 1;

    for (uint32_t d = 0; set >> d != 0; d++)
        if (set >> d & 1)
            product *= (double)grid->digits[d].size;
    return product;
}

/*
 * Bytes that a device must receive for its partial values alone. Scattered over p devices, a tile costs 1 - 1/p of it,
 * in one step or in several; nothing reduces for less. Before that, a tile becomes smaller only by slices over what it
 * is replicated on.
 */
static double reduction_bytes(const struct sp_problem *problem, const struct sp_lists *lists, uint32_t reduced)
{
    const struct sp_grid *grid = problem->grids[lists->grid];
    double tile = problem->element_bytes;

    for (uint32_t a = 0; a < problem->rank; a++) {
        tile *= (double)problem->extents[a];
        for (uint32_t i = 0; i < lists->count[a]; i++)
            tile /= (double)grid->digits[lists->list[a][i]].size;
    }
    return tile / digits_product(grid, lists->replicated) * (1 - 1 / digits_product(grid, reduced));
}

/* Whether permutes and slices alone do not lead to the target: a block has to become larger along an axis. */
static bool needs_collective(const struct sp_problem *problem, const struct sp_lists *lists,
                             const struct sp_lists *target)
{
    bool grows = false;

    for (uint32_t a = 0; a < problem->rank && !grows; a++)
        grows =
            sp_lists_shards(problem, target, a, target->count[a]) < sp_lists_shards(problem, lists, a, lists->count[a]);
    return grows;
}

/*
 * A device must receive what it lacks of its tile, over links that are at best the fastest ones, and a message for each
 * doubling of the number of devices that it has heard of; for partial values, reduction_bytes() if that is more. That
 * holds for ideal blocks; real tiles are not smaller. Then the same for what nodes lack together. What the host adds to
 * a collective comes once, where there has to be one.
 */
double sp_problem_bound(const struct sp_problem *problem, const struct sp_lists *lists, const struct sp_lists *target,
                        const struct sp_fastest *fastest)
{
    const struct sp_grid *grid = problem->grids[lists->grid];
    double share = 1, tiles = 1, bytes = problem->element_bytes;
    uint32_t reduced = (lists->partial & ~target->partial) | (lists->partial_to & ~target->partial_to);

    if (lists->grid != target->grid)
        return 0;
    for (uint32_t a = 0; a < problem->rank; a++) {
        bytes *= (double)problem->extents[a];
        bytes /= (double)sp_lists_shards(problem, target, a, target->count[a]);
        compare_axis(grid, lists, target, a, &share, &tiles);
    }
    double lacks = 0;
    if (reduced != 0) {
        tiles *= digits_product(grid, reduced);
        share = 0;
        lacks = reduction_bytes(problem, lists, reduced);
    }
    if (share == 1)
        return 0;
    lacks = fmax(lacks, bytes * (1 - share));
    double bound = fmax(rounds(tiles, 2), 1) * fastest->latency + lacks * fastest->per_byte;
    const struct distance distance = {problem, lists, target, bytes, tiles, reduced};
    for (uint32_t i = 0; i + 1 < fastest->level_count; i++)
        bound = fmax(bound, node_bound(&distance, fastest, fastest->levels[i]));
    if (fastest->host > 0 && (reduced != 0 || needs_collective(problem, lists, target)))
        bound += fastest->host;
    return bound;
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
    if (level == problem->links->level_count)
        step->peak = tile;
}

enum sp_status sp_step_measure(const struct sp_problem *problem, struct sp_near *near, enum sp_collective kind,
                               const struct sp_code *before, const struct sp_code *after, struct sp_path_step *ret_step,
                               struct sp_error *err)
{
    struct sp_lists from = {0}, to = {0};
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
    struct sp_grid *grid = problem->grids[before->grid];
    const struct sp_group *group = sp_grid_group(grid, step.set);
    if (group == NULL)
        return sp_fail_memory(err);
    if (kind == SP_ALL_GATHER)
        bytes = tile_after;
    else if (kind == SP_ALL_TO_ALL)
        bytes = group->size * fmax(tile, tile_after);
    if (kind != SP_ALL_SLICE)
        step.group_size = group->size;
    step.bytes = sp_collective_bytes(kind, group->size, bytes);
    if (kind == SP_ALL_TO_ALL || kind == SP_ALL_GATHER || kind == SP_REDUCE_SCATTER || kind == SP_ALL_REDUCE)
        step.seconds = sp_group_seconds(grid, group, kind, bytes);
    *ret_step = step;
    return SP_OK;
}
