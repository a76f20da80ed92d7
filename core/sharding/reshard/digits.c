/* Meshes cut in digits: which digits two shardings need, and where their lists put them. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/array.h"
#include "sharding/reshard/internal.h"

/* Where the intervals of two shardings are compared: positions of one order of devices, or numbers of devices. */
struct space {
    struct sp_arena *arena;
    bool by_device;
    uint32_t count, capacity;
    int64_t *cuts;
};

static struct sp_interval interval_of(const struct sp_mesh *mesh, struct sp_axis_ref ref)
{
    int64_t inner = 1;

    for (uint32_t a = ref.axis + 1; a < mesh->axis_count; a++)
        inner *= mesh->axes[a].size;
    int64_t low = inner * (mesh->axes[ref.axis].size / (ref.pre * ref.size));
    return (struct sp_interval){low, low * ref.size};
}

/* The other way round, for an interval that lies in one dim. */
static struct sp_interval to_positions(const struct sp_device_order *order, struct sp_interval interval)
{
    int64_t outer = order->count, position = order->count;

    for (uint32_t j = 0; j < order->rank; j++) {
        int64_t inner = outer / order->dims[j];

        if (interval.low >= inner && interval.low < outer) {
            for (uint32_t i = 0; i < order->rank; i++) {
                position /= order->dims[order->perm[i]];
                if (order->perm[i] == j)
                    return (struct sp_interval){interval.low / inner * position, interval.high / inner * position};
            }
        }
        outer = inner;
    }
    return interval;
}

/* The pieces of a ref in the space, major to minor; -1 when there are none. */
static int pieces_of(const struct space *space, const struct sp_mesh *mesh, struct sp_axis_ref ref,
                     struct sp_interval *pieces)
{
    struct sp_interval interval = interval_of(mesh, ref);

    if (interval.low == interval.high)
        return 0;
    if (space->by_device)
        return sp_interval_to_devices(&mesh->order, interval, pieces);
    pieces[0] = interval;
    return 1;
}

static enum sp_status add_cut(struct space *space, int64_t cut, struct sp_error *err)
{
    for (uint32_t i = 0; i < space->count; i++)
        if (space->cuts[i] == cut)
            return SP_OK;
    if (!SP_MAKE_ROOM(space->arena, space->cuts, space->count, space->capacity, 1))
        return sp_fail_memory(err);
    space->cuts[space->count++] = cut;
    return SP_OK;
}

static enum sp_status add_ref(struct space *space, const struct sp_mesh *mesh, struct sp_axis_ref ref, bool *ret_ok,
                              struct sp_error *err)
{
    struct sp_interval pieces[SP_MAX_PIECES];
    int count = pieces_of(space, mesh, ref, pieces);
    enum sp_status status = SP_OK;

    if (count < 0)
        *ret_ok = false;
    for (int i = 0; i < count && status == SP_OK; i++) {
        status = add_cut(space, pieces[i].low, err);
        if (status == SP_OK)
            status = add_cut(space, pieces[i].high, err);
    }
    return status;
}

static enum sp_status add_sharding(struct space *space, const struct sp_sharding *sharding, bool *ret_ok,
                                   struct sp_error *err)
{
    for (uint32_t l = 0; l < sp_sharding_list_count(sharding); l++) {
        const struct sp_axis_list *list = sp_sharding_list(sharding, l);

        for (uint32_t i = 0; i < list->count && *ret_ok; i++) {
            enum sp_status status = add_ref(space, sharding->mesh, list->refs[i], ret_ok, err);

            if (status != SP_OK)
                return status;
        }
    }
    return SP_OK;
}

/* Where the mesh itself, and its order of devices, are cut. */
static enum sp_status add_mesh(struct space *space, const struct sp_mesh *mesh, bool *ret_ok, struct sp_error *err)
{
    enum sp_status status = add_cut(space, 1, err);

    if (status == SP_OK)
        status = add_cut(space, mesh->order.count, err);
    for (uint32_t a = 0; a < mesh->axis_count && status == SP_OK && *ret_ok; a++)
        status = add_ref(space, mesh, sp_axis_full(mesh, a), ret_ok, err);
    if (!space->by_device)
        return status;
    for (uint32_t j = 0, outer = 0; j < mesh->order.rank && status == SP_OK; j++) {
        int64_t inner = 1;

        for (outer = j + 1; outer < mesh->order.rank; outer++)
            inner *= mesh->order.dims[outer];
        status = add_cut(space, inner, err);
    }
    return status;
}

/* Adds the digits of one interval, major to minor; false when there is no room. */
static bool add_digits(struct sp_grid *grid, int64_t low, int64_t high, bool primes)
{
    int64_t size = high / low, prime = 2;

    while (size > 1) {
        if (!primes || prime > size / prime)
            prime = size;
        if (size % prime != 0) {
            prime++;
            continue;
        }
        if (grid->count == SP_RESHARD_MAX_DIGITS)
            return false;
        size /= prime;
        grid->digits[grid->count++] = (struct sp_digit){.size = prime, .weight = low * size};
    }
    return true;
}

/* The digits between the cuts, in the space; false when the cuts do not nest or are too many. */
static bool make_digits(const struct space *space, struct sp_grid *grid, bool primes)
{
    assert(space->cuts); /* a mesh has the cuts 1 and its number of devices */
    qsort(space->cuts, space->count, sizeof *space->cuts, sp_compare_numbers);
    for (uint32_t i = space->count; i-- > 1;) {
        if (space->cuts[i] % space->cuts[i - 1] != 0 || !add_digits(grid, space->cuts[i - 1], space->cuts[i], primes))
            return false;
    }
    return true;
}

static bool place_list(const struct sp_grid *grid, const struct space *space, const struct sp_mesh *mesh,
                       const struct sp_axis_list *list, uint8_t axis, struct sp_layout *layout)
{
    uint8_t place = 0;

    for (uint32_t r = 0; r < list->count; r++) {
        struct sp_interval pieces[SP_MAX_PIECES];
        int count = pieces_of(space, mesh, list->refs[r], pieces);

        if (count < 0)
            return false;
        for (int i = 0; i < count; i++) {
            int64_t high = pieces[i].high;

            for (uint32_t d = 0; d < grid->count; d++) {
                const struct sp_digit *digit = &grid->digits[d];

                if (digit->weight >= high || digit->weight < pieces[i].low)
                    continue;
                if (digit->weight * digit->size != high)
                    return false;
                high = digit->weight;
                layout->axis[d] = axis;
                layout->place[d] = axis == SP_LAYOUT_PARTIAL ? 0 : place++;
            }
            if (high != pieces[i].low)
                return false;
        }
    }
    return true;
}

/* Digits and intervals are in the same space here. */
static bool place(const struct sp_grid *grid, const struct space *space, const struct sp_sharding *sharding,
                  struct sp_layout *ret_layout)
{
    memset(ret_layout, 0, sizeof *ret_layout);
    memset(ret_layout->axis, SP_LAYOUT_REPLICATED, sizeof ret_layout->axis);
    for (uint32_t a = 0; a < sharding->rank; a++)
        if (!place_list(grid, space, sharding->mesh, &sharding->dims[a].axes, (uint8_t)a, ret_layout))
            return false;
    return place_list(grid, space, sharding->mesh, &sharding->partial, SP_LAYOUT_PARTIAL, ret_layout);
}

/* The refs of the digits on the grid's mesh; their weights are positions from here on. */
static void name_digits(struct sp_grid *grid, bool by_device)
{
    for (uint32_t d = 0; d < grid->count; d++) {
        struct sp_digit *digit = &grid->digits[d];
        int64_t outer = grid->device_count;

        if (by_device)
            digit->weight =
                to_positions(&grid->mesh->order, (struct sp_interval){digit->weight, digit->weight * digit->size}).low;
        for (uint32_t a = 0; a < grid->mesh->axis_count; a++) {
            int64_t inner = outer / grid->mesh->axes[a].size;

            if (digit->weight >= inner && digit->weight < outer)
                digit->ref = (struct sp_axis_ref){a, outer / (digit->weight * digit->size), digit->size};
            outer = inner;
        }
    }
}

static struct sp_grid *new_grid(struct sp_arena *arena, const struct sp_links *links, const struct sp_mesh *mesh)
{
    struct sp_grid *grid = SP_NEW(arena, struct sp_grid);

    if (grid != NULL) {
        grid->arena = arena;
        grid->mesh = mesh;
        grid->links = links;
        grid->device_count = mesh->order.count;
    }
    return grid;
}

enum sp_status sp_grid_common(struct sp_arena *arena, const struct sp_links *links, const struct sp_sharding *from,
                              const struct sp_sharding *to, bool primes, struct sp_grid_pair *ret_pair,
                              struct sp_error *err)
{
    const struct sp_mesh *a = from->mesh, *b = to->mesh;
    struct space space = {.arena = arena, .by_device = !sp_device_order_equal(&a->order, &b->order)};
    struct sp_grid *grid = new_grid(arena, links, a);
    bool ok = a->order.count == b->order.count && a->order.count > 0;

    if (grid == NULL)
        return sp_fail_memory(err);
    /* Orders that are both computed are compared on the numbers of the devices; lists only with themselves. */
    if (space.by_device && (a->order.ids != NULL || b->order.ids != NULL))
        ok = false;
    enum sp_status status = SP_OK;
    if (ok)
        status = add_mesh(&space, a, &ok, err);
    if (status == SP_OK && ok && space.by_device)
        status = add_mesh(&space, b, &ok, err);
    if (status == SP_OK && ok)
        status = add_sharding(&space, from, &ok, err);
    if (status == SP_OK && ok)
        status = add_sharding(&space, to, &ok, err);
    if (status != SP_OK)
        return status;
    ok = ok && make_digits(&space, grid, primes) && place(grid, &space, from, &ret_pair->from) &&
         place(grid, &space, to, &ret_pair->to);
    ret_pair->grid = ok ? grid : NULL;
    if (!ok)
        return SP_OK;
    name_digits(grid, space.by_device);
    return sp_grid_measure(grid, err);
}

/* Cuts where the levels of links begin, as far as they nest with what is cut already. */
static enum sp_status add_levels(struct space *space, const struct sp_links *links, struct sp_error *err)
{
    int64_t below = 1;
    enum sp_status status = SP_OK;

    for (uint32_t l = links->level_count; l-- > 1 && status == SP_OK;) {
        bool nests = sp_mul_i64(below, links->levels[l].size, &below) && below > 0;

        for (uint32_t i = 0; i < space->count && nests; i++)
            nests =
                space->cuts[i] % below == 0 || (below % space->cuts[i] == 0 && below < space->cuts[space->count - 1]);
        if (nests)
            status = add_cut(space, below, err);
        if (nests && status == SP_OK)
            qsort(space->cuts, space->count, sizeof *space->cuts, sp_compare_numbers);
    }
    return status;
}

enum sp_status sp_grid_of_mesh(struct sp_arena *arena, const struct sp_links *links, const struct sp_mesh *mesh,
                               bool primes, struct sp_grid **ret_grid, struct sp_error *err)
{
    struct space space = {.arena = arena};
    struct sp_grid *grid = new_grid(arena, links, mesh);
    bool ok = true;

    if (grid == NULL)
        return sp_fail_memory(err);
    if (mesh->order.count < 1)
        return sp_fail(err, SP_ERR_REQUEST, "DEVICES_UNKNOWN", "A mesh without devices has no digits to move.");
    enum sp_status status = add_mesh(&space, mesh, &ok, err);
    if (status == SP_OK && !primes) {
        assert(space.cuts);
        qsort(space.cuts, space.count, sizeof *space.cuts, sp_compare_numbers);
        status = add_levels(&space, links, err);
    }
    if (status != SP_OK)
        return status;
    if (!make_digits(&space, grid, primes))
        return sp_fail_limit(err, "TOO_MANY_DIGITS", "SP_RESHARD_MAX_DIGITS", SP_RESHARD_MAX_DIGITS, grid->count + 1,
                             "The mesh has more than %d prime parts.", SP_RESHARD_MAX_DIGITS);
    name_digits(grid, false);
    *ret_grid = grid;
    return sp_grid_measure(grid, err);
}

bool sp_grid_layout(const struct sp_grid *grid, const struct sp_sharding *sharding, struct sp_layout *ret_layout)
{
    const struct space space = {.by_device = false};

    return sharding->kind == SP_SHARDING_AXES && sharding->rank < SP_CODE_PARTIAL_TO &&
           sp_device_order_equal(&sharding->mesh->order, &grid->mesh->order) &&
           place(grid, &space, sharding, ret_layout);
}

/* ---- the same mesh cut otherwise ---- */

/* Whether digit d + 1 directly follows digit d in this layout, so that the two could be one. */
static bool follows(const struct sp_layout *layout, uint32_t d)
{
    if (layout->axis[d] != layout->axis[d + 1])
        return false;
    return layout->axis[d] == SP_LAYOUT_REPLICATED || layout->axis[d] == SP_LAYOUT_PARTIAL ||
           layout->place[d + 1] == layout->place[d] + 1;
}

/* The next order of numbers, larger in the sense of a dictionary; false at the last one, which becomes the first. */
static bool next_order(int64_t *numbers, uint32_t count)
{
    uint32_t i = count, j = count;

    while (i > 1 && numbers[i - 2] >= numbers[i - 1])
        i--;
    bool is_last = i <= 1;
    if (!is_last) {
        while (numbers[j - 1] <= numbers[i - 2])
            j--;
        int64_t number = numbers[j - 1];
        numbers[j - 1] = numbers[i - 2];
        numbers[i - 2] = number;
    } else {
        i = 1;
    }
    for (uint32_t low = i - 1, high = count; low + 1 < high; low++, high--) {
        int64_t number = numbers[low];
        numbers[low] = numbers[high - 1];
        numbers[high - 1] = number;
    }
    return !is_last;
}

/* Renumbers the places of an axis after digits were joined: their order stays. */
static void close_places(uint32_t count, struct sp_layout *layout)
{
    uint8_t places[SP_RESHARD_MAX_DIGITS];

    for (uint32_t d = 0; d < count; d++) {
        places[d] = 0;
        for (uint32_t e = 0; e < count; e++)
            if (layout->axis[e] == layout->axis[d] && layout->place[e] < layout->place[d])
                places[d]++;
    }
    memcpy(layout->place, places, count);
}

struct run {
    uint32_t first, count;
    int64_t sizes[SP_RESHARD_MAX_DIGITS];
};

static uint32_t find_runs(const struct sp_grid_pair *pair, struct run *runs)
{
    const struct sp_grid *grid = pair->grid;
    uint32_t count = 0;

    for (uint32_t d = 0; d < grid->count; d++) {
        const struct sp_digit *before = d > 0 ? &grid->digits[d - 1] : NULL, *digit = &grid->digits[d];
        bool joins = before != NULL && before->ref.axis == digit->ref.axis &&
                     before->weight == digit->weight * digit->size && follows(&pair->from, d - 1) &&
                     follows(&pair->to, d - 1);

        if (!joins)
            runs[count++] = (struct run){.first = d};
        runs[count - 1].sizes[runs[count - 1].count++] = digit->size;
    }
    return count;
}

enum sp_status sp_grid_rearrange(struct sp_arena *arena, const struct sp_grid_pair *pair, int order,
                                 struct sp_grid_pair *ret_pair, struct sp_error *err)
{
    const struct sp_grid *grid = pair->grid;
    const struct sp_layout *from = &pair->from, *to = &pair->to;
    struct run runs[SP_RESHARD_MAX_DIGITS];
    uint32_t run_count = find_runs(pair, runs);
    struct sp_grid *other = new_grid(arena, grid->links, grid->mesh);
    struct sp_layout layouts[2] = {*from, *to};
    bool ok = true;

    if (other == NULL)
        return sp_fail_memory(err);
    for (int step = 0; step < order; step++) {
        uint32_t r = 0;

        while (r < run_count && !next_order(runs[r].sizes, runs[r].count))
            r++;
        ok = ok && r < run_count;
    }
    *ret_pair = (struct sp_grid_pair){0};
    if (!ok)
        return SP_OK;
    for (uint32_t r = 0; r < run_count; r++) {
        const struct sp_digit *first = &grid->digits[runs[r].first];
        int64_t weight = first->weight * first->size, size = 1;

        for (uint32_t i = 0; i < runs[r].count; i++)
            size *= runs[r].sizes[i];
        for (uint32_t i = 0; i < runs[r].count; i++) {
            int64_t part = order < 0 ? size : runs[r].sizes[i];
            uint32_t d = runs[r].first + i;

            weight /= part;
            layouts[0].axis[other->count] = from->axis[d];
            layouts[0].place[other->count] = from->place[d];
            layouts[1].axis[other->count] = to->axis[d];
            layouts[1].place[other->count] = to->place[d];
            other->digits[other->count++] = (struct sp_digit){.size = part, .weight = weight};
            if (order < 0)
                break;
        }
    }
    close_places(other->count, &layouts[0]);
    close_places(other->count, &layouts[1]);
    name_digits(other, false);
    *ret_pair = (struct sp_grid_pair){other, layouts[0], layouts[1]};
    return sp_grid_measure(other, err);
}
