/*
 * The normal form that XLA gives a tiled sharding when it is constructed.
 *
 * Iotas stay iotas wherever the tile dims cut them (internal.h); where they do not, XLA lists the devices, and so
 * do we up to SP_MAX_LISTED_DEVICES. Above that the order of replicas stays as it was given: it says the same.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "sharding/hlo/internal.h"

void sp_hlo_make_plain(struct sp_hlo *hlo, enum sp_hlo_type type)
{
    hlo->type = type;
    hlo->dim_count = 0;
    hlo->dims = NULL;
    hlo->order = (struct sp_device_order){0};
    hlo->replicate_last = false;
    hlo->subgroup_count = 0;
    hlo->subgroups = NULL;
    if (type != SP_HLO_UNREDUCED)
        hlo->combiner = SP_COMBINE_NONE;
}

bool sp_hlo_is_partial(const struct sp_hlo *hlo)
{
    if (hlo->type == SP_HLO_UNREDUCED)
        return true;
    for (uint32_t i = 0; hlo->type == SP_HLO_OTHER && i < hlo->subgroup_count; i++) {
        if (hlo->subgroups[i] == SP_HLO_UNREDUCED)
            return true;
    }
    return false;
}

/* Sets the order to an iota of these pieces, which stand in the order of the array. */
static enum sp_status set_pieces(struct sp_arena *arena, uint32_t count, const struct sp_hlo_piece *pieces,
                                 const uint32_t *index, struct sp_device_order *order, struct sp_error *err)
{
    int64_t dims[SP_HLO_MAX_PIECES], perm[SP_HLO_MAX_PIECES];
    for (uint32_t i = 0; i < count; i++) {
        dims[index[i]] = pieces[i].size;
        perm[i] = index[i];
    }
    return sp_device_order_iota(arena, count, dims, perm, order, err);
}

/* The devices one by one, in memory of their own; NULL without memory. */
static int64_t *list_devices(struct sp_arena *arena, const struct sp_device_order *order)
{
    int64_t *ids = SP_NEW_ARRAY(arena, (size_t)order->count, int64_t);
    for (int64_t i = 0; ids != NULL && i < order->count; i++)
        ids[i] = sp_device_order_at(order, i);
    return ids;
}

SP_ASCENDING_NUMBERS(compare_numbers, int64_t)

SP_ASCENDING_NUMBERS(compare_indices, uint32_t)

/* Puts the devices of each group of replicas, `size` neighbours each, in ascending order. */
static enum sp_status sort_replicas(struct sp_arena *arena, int64_t size, struct sp_device_order *order,
                                    struct sp_error *err)
{
    if (order->ids == NULL) {
        struct sp_hlo_piece pieces[SP_HLO_MAX_PIECES];
        uint32_t count, index[SP_HLO_MAX_PIECES] = {0}, first = 0;
        int64_t groups[2] = {order->count / size, size};
        sp_hlo_cut(2, groups, order, &count, pieces);
        if (count > 0) {
            while (pieces[first].tile == 0)
                first++;
            sp_hlo_index_pieces(count, pieces, index);
            /* The pieces move with their places, so that dims[index] stays the size of the piece there. */
            struct sp_hlo_piece sorted[SP_HLO_MAX_PIECES] = {0};
            uint32_t by_index[SP_HLO_MAX_PIECES];
            for (uint32_t i = 0; i < count; i++)
                by_index[index[i]] = i;
            qsort(index + first, count - first, sizeof *index, compare_indices);
            for (uint32_t i = 0; i < count; i++)
                sorted[i] = pieces[by_index[index[i]]];
            return set_pieces(arena, count, sorted, index, order, err);
        }
    }
    if (order->count > SP_MAX_LISTED_DEVICES)
        return SP_OK;
    int64_t *ids = list_devices(arena, order);
    if (ids == NULL)
        return sp_fail_memory(err);
    for (int64_t i = 0; i < order->count; i += size)
        qsort(ids + i, (size_t)size, sizeof *ids, compare_numbers);
    return sp_hlo_list_order(arena, order->count, ids, order, err);
}

/* A sharding whose last tile dim counts replicas. */
static enum sp_status normalize_replicas(struct sp_arena *arena, struct sp_hlo *hlo, struct sp_error *err)
{
    int64_t last = hlo->dims[hlo->dim_count - 1];
    hlo->replicate_last = true;
    hlo->subgroup_count = 0;
    hlo->subgroups = NULL;
    if (hlo->dim_count == 1 || last == hlo->order.count) {
        sp_hlo_make_plain(hlo, SP_HLO_REPLICATED);
        return SP_OK;
    }
    if (last == 1) {
        hlo->dim_count--;
        hlo->replicate_last = false;
        return SP_OK;
    }
    return sort_replicas(arena, last, &hlo->order, err);
}

/* New tile dims: those of the old that they are made of, in their new order. */
struct regrouping {
    uint32_t data, old_count;
    uint32_t *old; /* data dims and subgroup dims above 1 */
    uint32_t count;
    int64_t *dims;
    uint32_t subgroup_count;
    enum sp_hlo_type *subgroups;
};

static enum sp_status regroup(struct sp_arena *arena, const struct sp_hlo *hlo, struct regrouping *groups,
                              struct sp_error *err)
{
    static const enum sp_hlo_type order[] = {SP_HLO_MAXIMAL,   SP_HLO_TUPLE,      SP_HLO_OTHER,  SP_HLO_MANUAL,
                                             SP_HLO_UNREDUCED, SP_HLO_REPLICATED, SP_HLO_UNKNOWN};
    *groups = (struct regrouping){
        .data = hlo->dim_count - hlo->subgroup_count,
        .old = SP_NEW_ARRAY(arena, hlo->dim_count, uint32_t),
        .dims = SP_NEW_ARRAY(arena, hlo->dim_count, int64_t),
        .subgroups = SP_NEW_ARRAY(arena, hlo->subgroup_count, enum sp_hlo_type),
    };
    if (groups->old == NULL || groups->dims == NULL || groups->subgroups == NULL)
        return sp_fail_memory(err);
    for (; groups->count < groups->data; groups->count++) {
        groups->old[groups->old_count++] = groups->count;
        groups->dims[groups->count] = hlo->dims[groups->count];
    }
    for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
        int64_t size = 1;
        for (uint32_t i = 0; i < hlo->subgroup_count; i++) {
            if (hlo->subgroups[i] != order[k] || hlo->dims[groups->data + i] == 1)
                continue;
            groups->old[groups->old_count++] = groups->data + i;
            size *= hlo->dims[groups->data + i];
        }
        if (size == 1)
            continue;
        groups->dims[groups->count++] = size;
        groups->subgroups[groups->subgroup_count++] = order[k];
    }
    return SP_OK;
}

/* The device list in the new order of dims, by an odometer over the old dims that are above 1. */
static enum sp_status transpose_list(struct sp_arena *arena, const struct sp_hlo *hlo, const struct regrouping *groups,
                                     struct sp_device_order *order, struct sp_error *err)
{
    int64_t sizes[SP_HLO_MAX_PIECES], strides[SP_HLO_MAX_PIECES], at[SP_HLO_MAX_PIECES] = {0};
    uint32_t count = 0;
    int64_t *ids = SP_NEW_ARRAY(arena, (size_t)order->count, int64_t);
    if (ids == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < groups->old_count; i++) {
        uint32_t dim = groups->old[i];
        if (hlo->dims[dim] == 1)
            continue;
        sizes[count] = hlo->dims[dim];
        strides[count] = 1;
        for (uint32_t k = dim + 1; k < hlo->dim_count; k++)
            strides[count] *= hlo->dims[k];
        count++;
    }
    int64_t position = 0;
    for (int64_t i = 0; i < order->count; i++) {
        ids[i] = sp_device_order_at(order, position);
        for (uint32_t k = count; k-- > 0;) {
            position += strides[k];
            if (++at[k] < sizes[k])
                break;
            position -= sizes[k] * strides[k];
            at[k] = 0;
        }
    }
    return sp_hlo_list_order(arena, order->count, ids, order, err);
}

/* *ret_done is false when the devices would have to be listed and are too many. */
static enum sp_status transpose(struct sp_arena *arena, const struct sp_hlo *hlo, const struct regrouping *groups,
                                struct sp_device_order *order, bool *ret_done, struct sp_error *err)
{
    struct sp_hlo_piece pieces[SP_HLO_MAX_PIECES], moved[SP_HLO_MAX_PIECES] = {0};
    uint32_t count = 0, index[SP_HLO_MAX_PIECES], moved_index[SP_HLO_MAX_PIECES] = {0}, moved_count = 0;
    *ret_done = true;
    if (order->count == 1)
        return SP_OK;
    if (order->ids == NULL)
        sp_hlo_cut(hlo->dim_count, hlo->dims, order, &count, pieces);
    if (count == 0) {
        *ret_done = order->count <= SP_MAX_LISTED_DEVICES;
        return *ret_done ? transpose_list(arena, hlo, groups, order, err) : SP_OK;
    }
    sp_hlo_index_pieces(count, pieces, index);
    for (uint32_t i = 0; i < groups->old_count; i++) {
        for (uint32_t k = 0; k < count; k++) {
            if (pieces[k].tile != groups->old[i])
                continue;
            moved[moved_count] = pieces[k];
            moved_index[moved_count++] = index[k];
        }
    }
    return set_pieces(arena, count, moved, moved_index, order, err);
}

static bool is_all_of_one_type(const struct sp_hlo *hlo)
{
    for (uint32_t i = 1; i < hlo->subgroup_count; i++) {
        if (hlo->subgroups[i] != hlo->subgroups[0])
            return false;
    }
    return hlo->subgroups[0] == SP_HLO_MANUAL || hlo->subgroups[0] == SP_HLO_REPLICATED ||
           hlo->subgroups[0] == SP_HLO_UNREDUCED;
}

static int64_t data_tiles(const struct sp_hlo *hlo)
{
    int64_t product = 1;
    for (uint32_t i = 0; i < hlo->dim_count - hlo->subgroup_count; i++)
        product *= hlo->dims[i];
    return product;
}

static bool is_in_order(const struct regrouping *groups, const struct sp_hlo *hlo)
{
    if (groups->count != hlo->dim_count)
        return false;
    for (uint32_t i = 0; i < groups->old_count; i++) {
        if (groups->old[i] != i)
            return false;
    }
    return true;
}

static enum sp_status normalize_subgroups(struct sp_arena *arena, struct sp_hlo *hlo, struct sp_error *err)
{
    struct regrouping groups;
    bool done = true;
    if (is_all_of_one_type(hlo) && data_tiles(hlo) == 1) {
        sp_hlo_make_plain(hlo, hlo->subgroups[0]);
        return SP_OK;
    }
    enum sp_status status = regroup(arena, hlo, &groups, err);
    if (status == SP_OK && !is_in_order(&groups, hlo))
        status = transpose(arena, hlo, &groups, &hlo->order, &done, err);
    if (status != SP_OK || !done)
        return status;
    hlo->dim_count = groups.count;
    hlo->dims = groups.dims;
    hlo->subgroup_count = groups.subgroup_count;
    hlo->subgroups = groups.subgroups;
    if (groups.subgroup_count == 0)
        return SP_OK;
    if (groups.subgroup_count == 1 && groups.subgroups[0] == SP_HLO_REPLICATED)
        return normalize_replicas(arena, hlo, err);
    if (is_all_of_one_type(hlo) && data_tiles(hlo) == 1)
        sp_hlo_make_plain(hlo, groups.subgroups[0]);
    else if (groups.subgroups[groups.subgroup_count - 1] == SP_HLO_REPLICATED)
        return sort_replicas(arena, groups.dims[groups.count - 1], &hlo->order, err);
    return SP_OK;
}

enum sp_status sp_hlo_normalize(struct sp_arena *arena, struct sp_hlo *hlo, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    if (hlo->is_named || hlo->type != SP_HLO_OTHER)
        return SP_OK;
    if (hlo->subgroup_count > 0)
        status = normalize_subgroups(arena, hlo, err);
    else if (hlo->replicate_last)
        status = normalize_replicas(arena, hlo, err);
    if (status == SP_OK && !sp_hlo_is_partial(hlo))
        hlo->combiner = SP_COMBINE_NONE;
    return status;
}
