/* What digits mean on the links: levels, groups, and how far a permute has to reach. */
#include <math.h>
#include <string.h>

#include "sharding/reshard/internal.h"

#define MAX_ENUMERATED 65536 /* devices that are looked at one by one for the level of a digit */

/* Devices numbered below this have coordinates on the levels. */
static int64_t level_product(const struct sp_links *links)
{
    int64_t product = 1;

    for (uint32_t l = 0; l < links->level_count; l++)
        if (!sp_mul_i64(product, links->levels[l].size, &product))
            return INT64_MAX;
    return product;
}

/* Whether a link is never slower than one outside it, so that the outermost level on a way is its slowest. */
static bool are_ordered(const struct sp_links *links)
{
    for (uint32_t l = 1; l < links->level_count; l++)
        if (links->levels[l].latency > links->levels[l - 1].latency ||
            links->levels[l].bandwidth < links->levels[l - 1].bandwidth)
            return false;
    return true;
}

static int64_t largest_device(const struct sp_device_order *order)
{
    int64_t largest = order->count - 1;

    for (int64_t i = 0; order->ids != NULL && i < order->count; i++)
        largest = order->ids[i] > largest ? order->ids[i] : largest;
    return largest;
}

/* Divides a digit among the levels by arithmetic; false when it does not keep to them. */
static bool divide_digit(const struct sp_grid *grid, struct sp_digit *digit)
{
    const struct sp_links *links = grid->links;
    const struct sp_device_order *order = &grid->mesh->order;
    struct sp_interval pieces[SP_MAX_PIECES] = {{digit->weight, digit->weight * digit->size}};
    int count = 1;

    if (order->ids != NULL && !sp_device_order_is_range(order))
        return false;
    if (order->ids == NULL)
        count = sp_interval_to_devices(order, pieces[0], pieces);
    for (uint32_t l = 0; l < links->level_count; l++)
        digit->span[l] = 1;
    for (int i = 0; i < count; i++) {
        int64_t outer = level_product(links), size = pieces[i].high / pieces[i].low, divided = 1;

        for (uint32_t l = 0; l < links->level_count; l++) {
            int64_t inner = outer / links->levels[l].size;
            struct sp_interval part;

            if (!sp_interval_clip(pieces[i], inner, outer, &part))
                return false;
            digit->span[l] *= (uint32_t)(part.high / part.low);
            divided *= part.high / part.low;
            outer = inner;
        }
        if (divided != size)
            return false;
    }
    return count > 0;
}

/* The outermost level at which two devices differ that differ in this digit only, by looking at them. Neighbours in
   value suffice: no two values are further apart than the neighbours between them. */
static uint32_t look_up_level(const struct sp_grid *grid, const struct sp_digit *digit)
{
    uint32_t level = grid->links->level_count - 1;

    if (grid->device_count > MAX_ENUMERATED)
        return 0;
    for (int64_t position = 0; position < grid->device_count; position++) {
        int64_t device = sp_device_order_at(&grid->mesh->order, position);

        if (position / digit->weight % digit->size == digit->size - 1)
            continue;
        int64_t next = sp_device_order_at(&grid->mesh->order, position + digit->weight);
        uint32_t between = sp_links_between(grid->links, device, next);
        level = between < level ? between : level;
    }
    return level;
}

static uint32_t value_of(const struct sp_digit *digit, uint32_t position)
{
    return (uint32_t)(position / digit->weight % digit->size);
}

/* The devices ascending, where each stands, the levels between all of them, and their digits. */
static enum sp_status make_tables(struct sp_grid *grid, struct sp_error *err)
{
    size_t count = (size_t)grid->device_count;

    grid->devices = SP_NEW_ARRAY(grid->arena, count, int64_t);
    grid->positions = SP_NEW_ARRAY(grid->arena, count, uint32_t);
    grid->between = SP_NEW_ARRAY(grid->arena, count * count, uint8_t);
    grid->values = SP_NEW_ARRAY(grid->arena, grid->count * count, uint32_t);
    if (grid->devices == NULL || grid->positions == NULL || grid->between == NULL || grid->values == NULL)
        return sp_fail_memory(err);
    for (size_t d = 0; d < grid->count; d++)
        for (size_t p = 0; p < count; p++)
            grid->values[d * count + p] = value_of(&grid->digits[d], (uint32_t)p);
    for (size_t p = 0; p < count; p++) {
        size_t at = p;
        int64_t device = sp_device_order_at(&grid->mesh->order, (int64_t)p);

        for (; at > 0 && grid->devices[at - 1] > device; at--) {
            grid->devices[at] = grid->devices[at - 1];
            grid->positions[at] = grid->positions[at - 1];
        }
        grid->devices[at] = device;
        grid->positions[at] = (uint32_t)p;
    }
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            grid->between[i * count + j] = (uint8_t)sp_links_between(grid->links, grid->devices[i], grid->devices[j]);
    return SP_OK;
}

enum sp_status sp_grid_measure(struct sp_grid *grid, struct sp_error *err)
{
    const struct sp_links *links = grid->links;
    /* With one kind of links all devices are equally far from each other, whatever their numbers. */
    bool is_flat = links->level_count == 1;
    /* Of devices with places of their own the numbers say nothing: they are looked at one by one. */
    bool in_range = !is_flat && links->place == NULL && largest_device(&grid->mesh->order) < level_product(links);

    grid->is_nested = is_flat || (in_range && are_ordered(links));
    for (uint32_t d = 0; d < grid->count; d++) {
        struct sp_digit *digit = &grid->digits[d];

        if (in_range && divide_digit(grid, digit)) {
            digit->level = 0;
            while (digit->span[digit->level] == 1)
                digit->level++;
            continue;
        }
        grid->is_nested = is_flat;
        digit->level = is_flat ? 0 : look_up_level(grid, digit);
        for (uint32_t l = 0; l < links->level_count; l++)
            digit->span[l] = l == digit->level ? (uint32_t)(digit->size > UINT32_MAX ? UINT32_MAX : digit->size) : 1;
    }
    if (grid->count <= SP_SEARCH_DIGITS) {
        grid->groups = SP_NEW_ARRAY(grid->arena, (size_t)1 << grid->count, struct sp_group *);
        if (grid->groups == NULL)
            return sp_fail_memory(err);
    }
    grid->is_measured = grid->device_count <= SP_RESHARD_MEASURED;
    return grid->is_measured ? make_tables(grid, err) : SP_OK;
}

/* ---- groups ---- */

struct spans {
    uint32_t count;
    uint32_t span[SP_RESHARD_MEASURED][SP_MAX_MESH_AXES];
};

/* Where a device is on a level; devices beyond all levels are further places of the outermost one. */
static int64_t coordinate(const struct sp_grid *grid, uint32_t level, int64_t inside, int64_t device)
{
    const int64_t place = sp_links_place(grid->links, device);
    return level == 0 ? place / inside : place / inside % grid->links->levels[level].size;
}

/* How the group of the device of rank `base` lies on the levels. */
static void measure_group(const struct sp_grid *grid, uint32_t set, uint32_t base, uint32_t *span)
{
    const struct sp_links *links = grid->links;
    uint32_t count = (uint32_t)grid->device_count, size = 0, outermost = links->level_count - 1;
    uint64_t product = 1;
    int64_t inside = 1; /* devices within one place of the level */
    uint32_t members[SP_RESHARD_MEASURED];

    for (uint32_t i = 0; i < count; i++) {
        bool is_member = true;

        for (uint32_t d = 0; d < grid->count && is_member; d++)
            is_member = set >> d & 1 || grid->values[(size_t)d * count + grid->positions[i]] ==
                                            grid->values[(size_t)d * count + grid->positions[base]];
        if (!is_member)
            continue;
        members[size++] = i;
        uint32_t between = grid->between[base * count + i];
        outermost = between < outermost ? between : outermost;
    }
    /* The members fill a box of the levels when their coordinates, counted level by level, multiply to their number. */
    for (uint32_t l = links->level_count; l-- > 0;) {
        span[l] = 0;
        for (uint32_t m = 0; m < size; m++) {
            int64_t at = coordinate(grid, l, inside, grid->devices[members[m]]);
            bool is_new = true;

            for (uint32_t n = 0; n < m && is_new; n++)
                is_new = coordinate(grid, l, inside, grid->devices[members[n]]) != at;
            span[l] += is_new;
        }
        inside *= links->levels[l].size;
        product *= span[l];
    }
    for (uint32_t l = 0; product != size && l < links->level_count; l++)
        span[l] = l == outermost ? size : 1;
}

static void measure_groups(const struct sp_grid *grid, uint32_t set, struct spans *spans)
{
    spans->count = 0;
    for (uint32_t i = 0; i < grid->device_count; i++) {
        uint32_t span[SP_MAX_MESH_AXES] = {0}, known = 0;
        bool is_first = true;

        for (uint32_t d = 0; d < grid->count && is_first; d++)
            is_first = !(set >> d & 1) || grid->values[d * grid->device_count + grid->positions[i]] == 0;
        if (!is_first)
            continue;
        measure_group(grid, set, i, span);
        while (known < spans->count && memcmp(spans->span[known], span, sizeof span) != 0)
            known++;
        if (known == spans->count)
            memcpy(spans->span[spans->count++], span, sizeof span);
    }
}

static void multiply_spans(const struct sp_grid *grid, uint32_t set, struct spans *spans)
{
    spans->count = 1;
    for (uint32_t l = 0; l < grid->links->level_count; l++) {
        spans->span[0][l] = 1;
        for (uint32_t d = 0; d < grid->count; d++)
            if (set >> d & 1 && __builtin_mul_overflow(spans->span[0][l], grid->digits[d].span[l], &spans->span[0][l]))
                spans->span[0][l] = UINT32_MAX;
    }
}

const struct sp_group *sp_grid_group(struct sp_grid *grid, uint32_t set)
{
    struct spans spans;
    struct sp_group *group = grid->groups[set];

    if (group != NULL)
        return group;
    if (!grid->is_nested && grid->is_measured)
        measure_groups(grid, set, &spans);
    else
        multiply_spans(grid, set, &spans);
    group = sp_arena_alloc(grid->arena, sizeof *group + spans.count * sizeof group->shapes[0]);
    if (group == NULL)
        return NULL;
    group->size = 1;
    for (uint32_t d = 0; d < grid->count; d++)
        group->size *= set >> d & 1 ? (double)grid->digits[d].size : 1;
    group->shape_count = spans.count;
    for (uint32_t i = 0; i < spans.count; i++) {
        struct sp_group_shape *shape = &group->shapes[i];
        struct sp_collective_line lines[SP_COLLECTIVE_LINES] = {{0, 0}};

        memcpy(shape->span, spans.span[i], sizeof shape->span);
        shape->is_lines = sp_collective_is_lines(grid->links);
        shape->gather_lines = sp_collective_lines(grid->links, SP_ALL_GATHER, spans.span[i], shape->gather);
        sp_collective_lines(grid->links, SP_ALL_TO_ALL, spans.span[i], lines);
        shape->exchange = lines[0];
    }
    grid->groups[set] = group;
    return group;
}

/* By lines: an all-reduce is a reduce-scatter, which takes as long as an all-gather, and an all-gather. */
static double line_seconds(const struct sp_group_shape *shape, enum sp_collective kind, double bytes)
{
    double least = shape->gather_lines > 0 ? INFINITY : 0;

    if (kind == SP_ALL_TO_ALL)
        return shape->exchange.fixed + shape->exchange.slope * bytes;
    for (uint32_t i = 0; i < shape->gather_lines; i++)
        least = fmin(least, shape->gather[i].fixed + shape->gather[i].slope * bytes);
    return (kind == SP_ALL_REDUCE ? 2 : 1) * least;
}

double sp_group_seconds(const struct sp_grid *grid, const struct sp_group *group, enum sp_collective kind, double bytes)
{
    double slowest = 0;

    for (uint32_t i = 0; i < group->shape_count; i++) {
        const struct sp_group_shape *shape = &group->shapes[i];
        slowest = fmax(slowest, shape->is_lines ? line_seconds(shape, kind, bytes)
                                                : sp_collective_seconds(grid->links, kind, shape->span, bytes));
    }
    return slowest;
}

/* ---- permutes ---- */

static void append_digit(const struct sp_grid *grid, uint32_t digit, uint32_t *tiles)
{
    const uint32_t count = (uint32_t)grid->device_count, size = (uint32_t)grid->digits[digit].size;
    const uint32_t *values = grid->values + (size_t)digit * count;

    for (uint32_t p = 0; p < count; p++)
        tiles[p] = tiles[p] * size + values[p];
}

/* Which tile, of which addends, the device at each position has. The grid has tables. */
static void tiles_of(const struct sp_problem *problem, const struct sp_lists *lists, uint32_t *ret_tiles)
{
    const struct sp_grid *grid = problem->grids[lists->grid];
    const uint32_t summed = lists->partial | lists->partial_to;

    memset(ret_tiles, 0, (size_t)grid->device_count * sizeof *ret_tiles);
    for (uint32_t a = 0; a < problem->rank; a++)
        for (uint32_t i = 0; i < lists->count[a]; i++)
            append_digit(grid, lists->list[a][i], ret_tiles);
    for (uint32_t d = 0; summed >> d != 0; d++)
        if (summed >> d & 1)
            append_digit(grid, d, ret_tiles);
}

void sp_near_of(const struct sp_problem *problem, const struct sp_lists *from, struct sp_near *ret_near)
{
    const struct sp_grid *grid = problem->grids[from->grid];
    uint32_t count = (uint32_t)grid->device_count, tiles[SP_RESHARD_MEASURED];

    ret_near->grid = from->grid;
    ret_near->is_measured = grid->is_measured && (!grid->is_nested || problem->grid_count > 1);
    if (!ret_near->is_measured)
        return;
    memset(ret_near->level, 0, sizeof ret_near->level[0] * count);
    tiles_of(problem, from, tiles);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *levels = ret_near->level[tiles[grid->positions[i]]];
        const uint8_t *between = grid->between + (size_t)i * count;

        for (uint32_t j = 0; j < count; j++)
            levels[j] = between[j] > levels[j] ? between[j] : levels[j];
    }
}

static double send_seconds(const struct sp_links *links, uint32_t level, double bytes)
{
    return links->levels[level].latency + bytes / sp_level_permute_bandwidth(&links->levels[level]);
}

static double measured_permute(const struct sp_problem *problem, const struct sp_near *near, const struct sp_lists *to,
                               double tile, uint32_t *ret_level)
{
    const struct sp_grid *grid = problem->grids[to->grid];
    const struct sp_links *links = problem->links;
    double slowest = 0;
    uint32_t seen = 0; /* set of levels */
    uint32_t tiles[SP_RESHARD_MEASURED];

    *ret_level = links->level_count;
    tiles_of(problem, to, tiles);
    for (uint32_t i = 0; i < grid->device_count; i++) {
        uint32_t level = near->level[tiles[grid->positions[i]]][i];

        if (level == links->level_count || seen >> level & 1)
            continue;
        seen |= 1u << level;
        double seconds = send_seconds(links, level, tile);
        if (seconds > slowest || *ret_level == links->level_count) {
            slowest = seconds;
            *ret_level = level;
        }
    }
    return slowest;
}

/*
 * By digits: the nearest holder of the tile that a device needs differs from it in those digits only that split the
 * tensor before and have another value in the new tile's number. A digit that keeps its weight in that number never
 * does, every other one does for some device.
 */
static double nested_permute(const struct sp_problem *problem, const struct sp_lists *from, const struct sp_lists *to,
                             double tile, uint32_t *ret_level)
{
    const struct sp_grid *grid = problem->grids[from->grid];
    const struct sp_links *links = problem->links;
    uint32_t outermost = links->level_count;
    double slowest = 0;

    for (uint32_t a = 0; a < problem->rank; a++) {
        int64_t weight = 1, other = 1;
        uint32_t j = to->count[a];

        for (uint32_t i = from->count[a]; i-- > 0;) {
            const struct sp_digit *digit = &grid->digits[from->list[a][i]];

            while (j > 0 && other < weight)
                other *= grid->digits[to->list[a][--j]].size;
            bool stays = j > 0 && other == weight && to->list[a][j - 1] == from->list[a][i];
            weight *= digit->size;
            if (stays)
                continue;
            double seconds = send_seconds(links, digit->level, tile);
            slowest = seconds > slowest ? seconds : slowest;
            outermost = digit->level < outermost ? digit->level : outermost;
        }
    }
    *ret_level = outermost;
    return slowest;
}

double sp_permute_seconds(const struct sp_problem *problem, const struct sp_near *near, const struct sp_lists *from,
                          const struct sp_lists *to, double tile, uint32_t *ret_level)
{
    if (near->is_measured)
        return measured_permute(problem, near, to, tile, ret_level);
    if (from->grid == to->grid)
        return nested_permute(problem, from, to, tile, ret_level);
    /* Two orders of many devices: somebody will be far away, unless everybody has everything. */
    *ret_level = problem->links->level_count;
    for (uint32_t a = 0; a < problem->rank; a++)
        if (from->count[a] > 0)
            *ret_level = 0;
    return *ret_level == 0 ? send_seconds(problem->links, 0, tile) : 0;
}
