#include "sharding/equal_internal.h"

/* The axes of an iota's result, cut where groups of tiles begin: so many of them lie in each group. */
struct pieces {
    uint32_t count;
    uint32_t source[SP_MAX_SHARDING_AXES]; /* axis of the iota that it is a piece of */
    int64_t minor[SP_MAX_SHARDING_AXES];   /* product of the pieces of that axis that come after it */
    int64_t size[SP_MAX_SHARDING_AXES];
};

/* False when a group begins where the iota cannot be cut: its pieces cross the tiles ([3,2] over groups of 2 and 3). */
static bool cut_result(const struct sp_device_order *order, const int64_t *groups, struct pieces *pieces)
{
    uint32_t group = 0;
    int64_t left = groups[0]; /* of the group that is being filled */
    for (uint32_t i = 0; i < order->rank; i++) {
        int64_t rest = order->dims[order->perm[i]];
        while (rest > 1) {
            while (left == 1 && group < 3)
                left = groups[++group];
            int64_t size = rest < left ? rest : left;
            if (rest % size != 0 || left % size != 0)
                return false;
            rest /= size;
            left /= size;
            pieces->source[pieces->count] = order->perm[i];
            pieces->minor[pieces->count] = rest;
            pieces->size[pieces->count++] = size;
        }
    }
    return pieces->count > 0;
}

static bool comes_before(const struct pieces *pieces, uint32_t a, uint32_t b)
{
    return pieces->source[a] != pieces->source[b] ? pieces->source[a] < pieces->source[b]
                                                  : pieces->minor[a] > pieces->minor[b];
}

static void insertion_sort(const struct pieces *pieces, uint32_t *items, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        uint32_t item = items[i], at = i;
        for (; at > 0 && comes_before(pieces, item, items[at - 1]); at--)
            items[at] = items[at - 1];
        items[at] = item;
    }
}

/* The iota again, with the pieces of the last three groups in the order of their source; as it was when it has no such
   pieces. */
static enum sp_status sort_groups(struct sp_arena *arena, uint32_t rank, struct sp_tile_grid *grid,
                                  struct sp_error *err)
{
    struct pieces pieces = {0};
    uint32_t used[SP_MAX_SHARDING_AXES] = {0}, by_source[SP_MAX_SHARDING_AXES] = {0}, begin = 0;
    int64_t tiles = 1, groups[4], sizes[SP_MAX_SHARDING_AXES], perm[SP_MAX_SHARDING_AXES];
    for (uint32_t i = 0; i < rank; i++)
        tiles *= grid->dims[i];
    groups[0] = tiles;
    for (uint32_t i = 0; i < 3; i++)
        groups[i + 1] = grid->dims[rank + i];
    if (!cut_result(&grid->order, groups, &pieces))
        return SP_OK;
    for (uint32_t i = 0; i < pieces.count; i++)
        used[i] = by_source[i] = i;
    for (uint32_t group = 0; group < 4; group++) {
        uint32_t end = begin;
        for (int64_t product = 1; product < groups[group] && end < pieces.count; end++)
            product *= pieces.size[end];
        if (group > 0)
            insertion_sort(&pieces, used + begin, end - begin);
        begin = end;
    }
    insertion_sort(&pieces, by_source, pieces.count);
    for (uint32_t i = 0; i < pieces.count; i++) {
        sizes[i] = pieces.size[by_source[i]];
        for (uint32_t j = 0; j < pieces.count; j++)
            if (used[j] == by_source[i])
                perm[j] = i;
    }
    return sp_device_order_iota(arena, pieces.count, sizes, perm, &grid->order, err);
}

enum sp_status sp_tile_grid_of(struct sp_arena *arena, const struct sp_sharding *axes, struct sp_tile_grid *ret_grid,
                               struct sp_error *err)
{
    enum sp_status status = sp_sharding_device_array(arena, axes, ret_grid->dims, &ret_grid->order, err);
    if (status == SP_OK && ret_grid->order.ids == NULL && ret_grid->order.count > 1)
        status = sort_groups(arena, axes->rank, ret_grid, err);
    return status;
}
