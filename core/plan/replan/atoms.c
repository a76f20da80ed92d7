/* The grid that the boxes of two placements cut a weight into. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/sorted.h"
#include "plan/replan/holdings.h"

struct grid {
    struct sp_arena *arena;
    uint32_t rank;
    uint32_t cut_count[SP_MAX_RANK]; /* borders along an axis, those at the ends among them */
    int64_t *cuts[SP_MAX_RANK];
    uint64_t cells;
    uint32_t *inside[SP_MAX_RANK]; /* of the box at hand: the intervals that it has */
    uint32_t inside_count[SP_MAX_RANK];
};

SP_ASCENDING_NUMBERS(by_number, int64_t)

/* Parts of an axis between borders; one that is empty has one, too. */
static uint32_t intervals(const struct grid *grid, uint32_t axis)
{
    return grid->cut_count[axis] > 1 ? grid->cut_count[axis] - 1 : 1;
}

/* The borders of all boxes along one axis, each once. */
static bool cut_axis(struct grid *grid, uint32_t axis, int64_t extent, const struct sp_weight_part *const *lists,
                     const uint32_t *counts)
{
    SP_ARRAY(int64_t) cuts = {0};
    if (!SP_PUSH(grid->arena, &cuts, 0) || !SP_PUSH(grid->arena, &cuts, extent))
        return false;
    for (uint32_t l = 0; l < 2; l++) {
        for (uint32_t i = 0; i < counts[l]; i++) {
            const struct sp_axis_ranges *of = lists[l][i].axes != NULL ? &lists[l][i].axes[axis] : NULL;
            for (uint32_t r = 0; of != NULL && r < of->count; r++) {
                if (!SP_PUSH(grid->arena, &cuts, of->ranges[r].start) ||
                    !SP_PUSH(grid->arena, &cuts, of->ranges[r].limit))
                    return false;
            }
        }
    }
    uint32_t kept = 0;
    qsort(cuts.items, cuts.count, sizeof *cuts.items, by_number);
    for (uint32_t i = 0; i < cuts.count; i++) {
        if (kept == 0 || cuts.items[kept - 1] != cuts.items[i])
            cuts.items[kept++] = cuts.items[i];
    }
    grid->cuts[axis] = cuts.items;
    grid->cut_count[axis] = kept;
    grid->inside[axis] = SP_NEW_ARRAY(grid->arena, kept, uint32_t);
    return grid->inside[axis] != NULL;
}

/* The intervals of each axis that a box has; false where it is empty. */
static bool find_inside(struct grid *grid, const struct sp_axis_ranges *axes)
{
    for (uint32_t a = 0; a < grid->rank; a++) {
        uint32_t r = 0;
        grid->inside_count[a] = 0;
        for (uint32_t i = 0; i + 1 < grid->cut_count[a]; i++) {
            while (r < axes[a].count && axes[a].ranges[r].limit <= grid->cuts[a][i])
                r++;
            if (r < axes[a].count && axes[a].ranges[r].start <= grid->cuts[a][i])
                grid->inside[a][grid->inside_count[a]++] = i;
        }
        if (grid->inside_count[a] == 0)
            return false;
    }
    return true;
}

/* Sets a device's bit in the atoms of its box. */
static void mark(struct grid *grid, struct sp_weight_atom *atoms, const struct sp_weight_part *part, bool is_now)
{
    uint32_t at[SP_MAX_RANK] = {0};
    if (part->axes == NULL || grid->rank == 0) {
        for (uint64_t c = 0; c < grid->cells; c++)
            (is_now ? atoms[c].needs : atoms[c].has)[part->device / 64] |= UINT64_C(1) << (part->device % 64);
        return;
    }
    if (!find_inside(grid, part->axes))
        return;
    for (;;) {
        uint64_t cell = 0;
        uint32_t a = grid->rank;
        for (uint32_t i = 0; i < grid->rank; i++)
            cell = cell * intervals(grid, i) + grid->inside[i][at[i]];
        (is_now ? atoms[cell].needs : atoms[cell].has)[part->device / 64] |= UINT64_C(1) << (part->device % 64);
        while (a > 0 && ++at[a - 1] == grid->inside_count[a - 1])
            at[--a] = 0;
        if (a == 0)
            return;
    }
}

/* The atoms of one weight, in order, with their boxes and bytes. */
static enum sp_status lay_out(struct grid *grid, const struct sp_work_tensor *tensor, struct sp_weight_atoms *atoms,
                              struct sp_error *err)
{
    const size_t has = (atoms->holder_count + 63) / 64, needs = (atoms->device_count + 63) / 64;
    double elements = 1;
    for (uint32_t a = 0; a < grid->rank; a++)
        elements *= (double)grid->cuts[a][grid->cut_count[a] - 1];
    struct sp_weight_atom *first = &atoms->items[atoms->count];
    uint64_t *bits = SP_NEW_ARRAY(grid->arena, grid->cells * (has + needs), uint64_t);
    struct sp_range *boxes = SP_NEW_ARRAY(grid->arena, grid->cells * grid->rank, struct sp_range);
    if (bits == NULL || boxes == NULL)
        return sp_fail_memory(err);
    for (uint64_t c = 0; c < grid->cells; c++) {
        struct sp_range *box = boxes + c * grid->rank;
        uint64_t rest = c;
        double own = 1;
        for (uint32_t a = grid->rank; a-- > 0;) {
            const uint64_t i = rest % intervals(grid, a);
            rest /= intervals(grid, a);
            box[a] = (struct sp_range){grid->cuts[a][i], grid->cuts[a][i + 1]};
            own *= (double)(box[a].limit - box[a].start);
        }
        first[c].bytes = tensor->bytes * (elements > 0 ? own / elements : 1);
        first[c].box = grid->rank > 0 ? box : NULL;
        first[c].has = bits + c * (has + needs);
        first[c].needs = first[c].has + has;
    }
    return SP_OK;
}

static enum sp_status cut_weight(struct sp_arena *arena, const struct sp_workload *workload, uint32_t weight,
                                 const struct sp_weight_part *const *lists, const uint32_t *counts,
                                 struct sp_weight_atoms *atoms, struct sp_error *err)
{
    const struct sp_work_tensor inner = {
        .bytes =
            weight >= workload->tensor_count ? workload->nodes[weight - workload->tensor_count].inner_weight_bytes : 0};
    const struct sp_work_tensor *tensor = weight < workload->tensor_count ? &workload->tensors[weight] : &inner;
    const struct sp_shape *shape = tensor->value != NULL ? &tensor->value->type.shape : NULL;
    struct grid grid = {.arena = arena, .cells = 1};
    bool is_cut = false;
    for (uint32_t l = 0; l < 2; l++) {
        for (uint32_t i = 0; i < counts[l]; i++)
            is_cut = is_cut || lists[l][i].axes != NULL;
    }
    grid.rank = is_cut && shape != NULL && tensor->bytes > 0 ? shape->rank : 0; /* an axis of extent 0 has no cells */
    for (uint32_t a = 0; a < grid.rank; a++) {
        if (!cut_axis(&grid, a, shape->dims[a].value, lists, counts))
            return sp_fail_memory(err);
        grid.cells *= intervals(&grid, a);
        if (grid.cells > SP_MAX_ATOMS - atoms->count)
            return sp_fail_limit(err, "REPLAN_TOO_FINE", "SP_MAX_ATOMS", SP_MAX_ATOMS, SP_MAX_ATOMS,
                                 "Both plans together cut the weights in more than %u pieces.", SP_MAX_ATOMS);
    }
    if (!SP_MAKE_ROOM(arena, atoms->items, atoms->count, atoms->capacity, grid.cells))
        return sp_fail_memory(err);
    struct sp_weight_atom *first = &atoms->items[atoms->count];
    enum sp_status status = lay_out(&grid, tensor, atoms, err);
    if (status != SP_OK)
        return status;
    for (uint32_t l = 0; l < 2; l++) {
        for (uint32_t i = 0; i < counts[l]; i++)
            mark(&grid, first, &lists[l][i], l == 1);
    }
    for (uint64_t c = 0; c < grid.cells; c++)
        first[c].weight = weight;
    atoms->count += (uint32_t)grid.cells;
    return SP_OK;
}

/* The parts of the weight at hand, behind those of earlier ones. */
static uint32_t take(const struct sp_weight_parts *parts, uint32_t weight, uint32_t *next)
{
    while (*next < parts->count && parts->items[*next].weight < weight)
        (*next)++;
    uint32_t count = 0;
    while (*next + count < parts->count && parts->items[*next + count].weight == weight)
        count++;
    return count;
}

enum sp_status sp_weight_atoms_make(struct sp_arena *arena, const struct sp_workload *workload,
                                    const struct sp_weight_parts *before, const struct sp_weight_parts *now,
                                    struct sp_weight_atoms *atoms, struct sp_error *err)
{
    uint32_t at_before = 0, at_now = 0;
    enum sp_status status = SP_OK;
    while (status == SP_OK && at_now < now->count) {
        const uint32_t weight = now->items[at_now].weight;
        const uint32_t counts[2] = {take(before, weight, &at_before), take(now, weight, &at_now)};
        const struct sp_weight_part *const lists[2] = {before->items + at_before, now->items + at_now};
        status = cut_weight(arena, workload, weight, lists, counts, atoms, err);
        at_now += counts[1];
    }
    return status;
}
