/*
 * Where the pieces of an exchange come from.
 *
 * A member's new piece is cut along each axis wherever the pieces of its group begin or end; each cell of that grid is
 * then inside or outside of every one of them. Neighbouring cells that one device has side by side become one.
 */
#include <string.h>

#include "base/limits.h"
#include "base/sorted.h"
#include "partition/partition_internal.h"

/* A stretch along an axis: indices of the whole. */
struct stretch {
    int64_t start, limit;
};

struct cutter {
    struct sp_arena *arena;
    const struct sp_exchange *exchange;
    const struct sp_exchange_member *to;
    uint32_t first, last; /* members of the group: [first, last) */
    uint32_t rank;
    uint32_t counts[SP_MAX_RANK];
    struct stretch *stretches[SP_MAX_RANK];
    struct sp_error *err;
};

/* Where [start, limit) of the whole lies in the piece that has these ranges, or -1. Nothing lies everywhere. */
static int64_t inside(const struct sp_axis_ranges *ranges, struct stretch stretch)
{
    int64_t before = 0;
    if (stretch.start == stretch.limit)
        return 0;
    for (uint32_t i = 0; i < ranges->count; i++) {
        if (stretch.start >= ranges->ranges[i].start && stretch.limit <= ranges->ranges[i].limit)
            return before + stretch.start - ranges->ranges[i].start;
        before += ranges->ranges[i].limit - ranges->ranges[i].start;
    }
    return -1;
}

/* Whether the piece has all that is needed, each range of it in one run. */
static bool has_all(const struct sp_box *held, const struct sp_box *needed)
{
    for (uint32_t a = 0; a < needed->rank; a++)
        for (uint32_t i = 0; i < needed->axes[a].count; i++) {
            struct sp_range range = needed->axes[a].ranges[i];
            if (inside(&held->axes[a], (struct stretch){range.start, range.limit}) < 0)
                return false;
        }
    return true;
}

static bool is_reduction(const struct sp_exchange *exchange)
{
    return exchange->kind == SP_ALL_REDUCE || exchange->kind == SP_REDUCE_SCATTER;
}

/* The member itself where it has all, then any that has all; else SP_NO_TENSOR: they have it together. */
static uint32_t sole_source(const struct cutter *cutter, uint32_t member)
{
    const struct sp_exchange_member *members = cutter->exchange->members;
    if (members[member].before != NULL && has_all(&members[member].held, &cutter->to->needed))
        return member;
    for (uint32_t i = cutter->first; i < cutter->last; i++)
        if (members[i].before != NULL && has_all(&members[i].held, &cutter->to->needed))
            return i;
    return SP_NO_TENSOR;
}

SP_ASCENDING_NUMBERS(compare_marks, int64_t)

/* The stretches of one axis: what is needed, cut at every border of a source. */
static enum sp_status cut_axis(struct cutter *cutter, uint32_t axis, uint32_t sole)
{
    const struct sp_axis_ranges *needed = &cutter->to->needed.axes[axis];
    const struct sp_exchange_member *members = cutter->exchange->members;
    uint64_t marks = 2 * (uint64_t)needed->count, used = 0;
    for (uint32_t i = cutter->first; i < cutter->last && sole == SP_NO_TENSOR; i++)
        marks += members[i].before != NULL ? 2 * (uint64_t)members[i].held.axes[axis].count : 0;
    int64_t *at = SP_NEW_ARRAY(cutter->arena, marks, int64_t);
    struct stretch *stretches = SP_NEW_ARRAY(cutter->arena, marks + needed->count, struct stretch);
    if (at == NULL || stretches == NULL) {
        (void)sp_fail_memory(cutter->err);
        return SP_ERR_MEMORY;
    }
    for (uint32_t i = cutter->first; i < cutter->last && sole == SP_NO_TENSOR; i++)
        for (uint32_t j = 0; members[i].before != NULL && j < members[i].held.axes[axis].count; j++) {
            at[used++] = members[i].held.axes[axis].ranges[j].start;
            at[used++] = members[i].held.axes[axis].ranges[j].limit;
        }
    if (used > 1)
        qsort(at, used, sizeof *at, compare_marks);
    uint32_t count = 0;
    for (uint32_t i = 0; i < needed->count; i++) {
        int64_t start = needed->ranges[i].start, limit = needed->ranges[i].limit;
        for (uint64_t m = 0; m < used; m++)
            if (at[m] > start && at[m] < limit) {
                stretches[count++] = (struct stretch){start, at[m]};
                start = at[m];
            }
        stretches[count++] = (struct stretch){start, limit};
    }
    cutter->counts[axis] = count;
    cutter->stretches[axis] = stretches;
    return SP_OK;
}

/* Who has a cell: the member itself, then the first of the group. */
static uint32_t source_of(const struct cutter *cutter, uint32_t member, const uint32_t *index)
{
    const struct sp_exchange_member *members = cutter->exchange->members;
    for (uint32_t turn = cutter->first; turn <= cutter->last; turn++) {
        uint32_t i = turn == cutter->first ? member : turn - 1;
        bool has = members[i].before != NULL;
        for (uint32_t a = 0; a < cutter->rank && has; a++)
            has = inside(&members[i].held.axes[a], cutter->stretches[a][index[a]]) >= 0;
        if (has)
            return i;
    }
    return SP_NO_TENSOR;
}

static enum sp_status fill_cell(struct cutter *cutter, uint32_t member, uint32_t sole, const uint32_t *index,
                                struct sp_exchange_cell *cell)
{
    const struct sp_exchange *exchange = cutter->exchange;
    bool reduces = is_reduction(exchange);
    uint32_t source = sole != SP_NO_TENSOR ? sole : source_of(cutter, member, index), count = 0;
    uint32_t *sources = SP_NEW_ARRAY(cutter->arena, reduces ? cutter->last - cutter->first : 1, uint32_t);
    struct sp_range *box = SP_NEW_ARRAY(cutter->arena, cutter->rank, struct sp_range);
    if (sources == NULL || box == NULL)
        return sp_fail_memory(cutter->err);
    if (source == SP_NO_TENSOR)
        return sp_fail(cutter->err, SP_ERR_INTERNAL, "EXCHANGE_INCOMPLETE",
                       "A device needs a part of %s%s%s that no device of its group has.",
                       exchange->value != NULL ? "'" : "a statistic",
                       exchange->value != NULL ? exchange->value->name : "", exchange->value != NULL ? "'" : "");
    for (uint32_t a = 0; a < cutter->rank; a++) {
        struct stretch stretch = cutter->stretches[a][index[a]];
        int64_t start = inside(&exchange->members[source].held.axes[a], stretch);
        box[a] = (struct sp_range){start, start + stretch.limit - stretch.start};
    }
    if (!reduces)
        sources[count++] = source;
    for (uint32_t i = cutter->first; i < cutter->last && reduces; i++)
        if (exchange->members[i].before != NULL)
            sources[count++] = i;
    *cell = (struct sp_exchange_cell){count, sources, box};
    return SP_OK;
}

/* One cell without a box: the piece is the source's. */
static enum sp_status whole_cell(struct cutter *cutter, uint32_t member, struct sp_exchange_grid *ret_grid)
{
    const struct sp_exchange_member *members = cutter->exchange->members;
    struct sp_exchange_cell *cell = SP_NEW(cutter->arena, struct sp_exchange_cell);
    uint32_t *sources = SP_NEW_ARRAY(cutter->arena, cutter->last - cutter->first, uint32_t), count = 0;
    if (cell == NULL || sources == NULL)
        return sp_fail_memory(cutter->err);
    if (!is_reduction(cutter->exchange) && members[member].before != NULL)
        sources[count++] = member;
    for (uint32_t i = cutter->first; i < cutter->last; i++)
        if (members[i].before != NULL && (is_reduction(cutter->exchange) || count == 0))
            sources[count++] = i;
    if (count == 0)
        return sp_fail(cutter->err, SP_ERR_INTERNAL, "EXCHANGE_INCOMPLETE", "A device needs what no device has.");
    *cell = (struct sp_exchange_cell){count, sources, NULL};
    *ret_grid = (struct sp_exchange_grid){.cell_count = 1, .cells = cell};
    return SP_OK;
}

enum sp_status sp_exchange_cells(struct sp_arena *arena, const struct sp_exchange *exchange, uint32_t member,
                                 struct sp_exchange_grid *ret_grid, struct sp_error *err)
{
    const struct sp_exchange_member *to = &exchange->members[member];
    struct cutter cutter = {.arena = arena,
                            .exchange = exchange,
                            .to = to,
                            .rank = exchange->rank,
                            .first = member,
                            .last = member + 1,
                            .err = err};
    uint64_t total = 1;
    while (cutter.first > 0 && exchange->members[cutter.first - 1].group == to->group)
        cutter.first--;
    while (cutter.last < exchange->member_count && exchange->members[cutter.last].group == to->group)
        cutter.last++;
    if (exchange->rank == 0)
        return whole_cell(&cutter, member, ret_grid);
    uint32_t sole = sole_source(&cutter, member);
    for (uint32_t a = 0; a < cutter.rank; a++) {
        enum sp_status status = cut_axis(&cutter, a, sole);
        if (status != SP_OK)
            return status;
        total *= cutter.counts[a];
        if (total > SP_MAX_EXCHANGE_CELLS)
            return sp_fail_limit(err, "EXCHANGE_TOO_FINE", "SP_MAX_EXCHANGE_CELLS", SP_MAX_EXCHANGE_CELLS,
                                 (int64_t)total, "A piece of '%.200s' would be put together of more than %d pieces.",
                                 exchange->value != NULL ? exchange->value->name : "", SP_MAX_EXCHANGE_CELLS);
    }
    struct sp_exchange_cell *cells = SP_NEW_ARRAY(arena, total, struct sp_exchange_cell);
    uint32_t *counts = SP_NEW_ARRAY(arena, cutter.rank, uint32_t), index[SP_MAX_RANK] = {0};
    if (cells == NULL || counts == NULL)
        return sp_fail_memory(err);
    memcpy(counts, cutter.counts, cutter.rank * sizeof *counts);
    for (uint64_t i = 0; i < total; i++) {
        enum sp_status status = fill_cell(&cutter, member, sole, index, &cells[i]);
        if (status != SP_OK)
            return status;
        for (uint32_t a = cutter.rank; a-- > 0 && ++index[a] == counts[a];)
            index[a] = 0;
    }
    *ret_grid = (struct sp_exchange_grid){exchange->rank, counts, total, cells};
    return SP_OK;
}
