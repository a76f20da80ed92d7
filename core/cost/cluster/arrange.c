/* Devices of a cluster with gaps, or whose groups stand apart, in an order in which those that belong together follow
   one another. */
#include <stdlib.h>

#include "cost/cluster/internal.h"

/* A device that is used: where it is in the mesh, level by level. */
struct spot {
    uint32_t number, group, kind, rank; /* kind: the first group that is like its own */
    uint32_t at[SP_MAX_MESH_AXES];
};

/* The spots of one part of a level. */
struct cell {
    const struct spot *spots;
    uint32_t count;
};

static bool is_alike(const struct sp_device_group_spec *a, const struct sp_device_group_spec *b)
{
    return strcmp(a->device.name, b->device.name) == 0 && a->device.runtime == b->device.runtime &&
           a->device.memory_bytes == b->device.memory_bytes && a->reserved_bytes == b->reserved_bytes &&
           sp_cluster_device_link(&a->device) == sp_cluster_device_link(&b->device);
}

static uint32_t kind_of_group(const struct sp_cluster_parts *parts, uint32_t group)
{
    uint32_t kind = 0;
    while (!is_alike(&parts->groups[kind], &parts->groups[group]))
        kind++;
    return kind;
}

bool sp_cluster_is_irregular(const struct sp_cluster_parts *parts)
{
    if (parts->excluded != NULL || sp_cluster_is_wired(parts))
        return true;
    for (uint32_t g = 1; parts->level_count < 2 && g < parts->group_count; g++) {
        const uint32_t kind = kind_of_group(parts, g);
        if (kind != g && kind_of_group(parts, g - 1) != kind)
            return true;
    }
    return false;
}

/* ---- the order --------------------------------------------------------------------------------------------------- */

/* Full parts first, so that gaps come last; then by kind, so that devices alike are neighbours; else as numbered. */
static int by_content(const void *a, const void *b)
{
    const struct cell *x = a, *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    for (uint32_t i = 0; i < x->count; i++) {
        if (x->spots[i].kind != y->spots[i].kind)
            return x->spots[i].kind < y->spots[i].kind ? -1 : 1;
    }
    return x->spots[0].rank < y->spots[0].rank ? -1 : 1;
}

/* How many spots from the first on are in the same part of `level`. */
static uint32_t part_size(const struct spot *spots, uint32_t count, uint32_t level)
{
    uint32_t size = 1;
    while (size < count && memcmp(spots[size].at, spots[0].at, level * sizeof spots[0].at[0]) == 0)
        size++;
    return size;
}

/* Sorts the parts of a level within one part of the level outside, and numbers them anew. */
static void sort_cells(struct spot *spots, uint32_t count, uint32_t level, struct cell *cells, struct spot *sorted)
{
    uint32_t cell_count = 0, done = 0;
    for (uint32_t i = 0; i < count; i += cells[cell_count++].count)
        cells[cell_count] = (struct cell){&spots[i], part_size(&spots[i], count - i, level + 1)};
    qsort(cells, cell_count, sizeof *cells, by_content);
    for (uint32_t c = 0; c < cell_count; c++) {
        for (uint32_t i = 0; i < cells[c].count; i++) {
            sorted[done] = cells[c].spots[i];
            sorted[done++].at[level] = c;
        }
    }
    memcpy(spots, sorted, count * sizeof *spots);
}

static int by_place(const void *a, const void *b)
{
    const struct spot *x = a, *y = b;
    for (uint32_t l = 0; l < SP_MAX_MESH_AXES; l++) {
        if (x->at[l] != y->at[l])
            return x->at[l] < y->at[l] ? -1 : 1;
    }
    return 0;
}

/* ---- the cluster ------------------------------------------------------------------------------------------------- */

/* The devices that are used, as they are numbered. */
static uint32_t list_spots(const struct sp_cluster_parts *parts, const struct sp_cluster_layout *layout,
                           const struct sp_cluster *cluster, struct spot *spots)
{
    uint32_t count = 0, number = 0;
    for (uint32_t g = 0; g < parts->group_count; g++) {
        const uint32_t kind = kind_of_group(parts, g);
        for (uint32_t i = 0; i < parts->groups[g].count; i++, number++) {
            struct spot *spot = &spots[count];
            uint32_t rest = number;
            if (parts->excluded != NULL && parts->excluded[number])
                continue;
            *spot = (struct spot){.number = number, .group = g, .kind = kind, .rank = number};
            if (layout != NULL) {
                memcpy(spot->at, layout->at[number], sizeof spot->at);
                spot->rank = layout->rank[number];
            }
            for (uint32_t l = layout == NULL ? cluster->level_count : 0; l-- > 0; rest /= cluster->levels[l].size)
                spot->at[l] = rest % cluster->levels[l].size;
            count++;
        }
    }
    return count;
}

/* Levels as large as what is used of them. */
static void fit_levels(struct sp_cluster *cluster, const struct spot *spots)
{
    for (uint32_t l = 0; l < cluster->level_count; l++) {
        uint32_t size = 1;
        for (uint32_t d = 0; d < cluster->device_count; d++)
            size = spots[d].at[l] >= size ? spots[d].at[l] + 1 : size;
        if (size != cluster->levels[l].size)
            sp_level_resize(&cluster->levels[l], size);
    }
}

/* Numbers, places and groups of sorted spots. Arrays that say nothing are left out. */
static bool take_spots(struct sp_arena *arena, const struct sp_cluster_parts *parts, const struct spot *spots,
                       struct sp_cluster *cluster)
{
    const uint32_t count = cluster->device_count;
    uint32_t *number = SP_NEW_ARRAY(arena, count, uint32_t), *place = SP_NEW_ARRAY(arena, count, uint32_t);
    uint32_t *group_of = SP_NEW_ARRAY(arena, count, uint32_t);
    uint32_t *numbered = SP_NEW_ARRAY(arena, cluster->stated->device_count, uint32_t);
    bool is_numbered = false, is_placed = false;
    cluster->groups = SP_NEW_ARRAY(arena, count, struct sp_device_group_spec);
    if (number == NULL || place == NULL || group_of == NULL || numbered == NULL || cluster->groups == NULL)
        return false;
    memset(numbered, 0xff, cluster->stated->device_count * sizeof *numbered);
    cluster->group_count = 0;
    for (uint32_t d = 0; d < count; d++) {
        if (d == 0 || spots[d].group != spots[d - 1].group) {
            cluster->groups[cluster->group_count] = parts->groups[spots[d].group];
            cluster->groups[cluster->group_count++].count = 0;
        }
        cluster->groups[cluster->group_count - 1].count++;
        group_of[d] = cluster->group_count - 1;
        number[d] = spots[d].number;
        numbered[number[d]] = d;
        for (uint32_t l = 0; l < cluster->level_count; l++)
            place[d] = place[d] * cluster->levels[l].size + spots[d].at[l];
        is_numbered = is_numbered || number[d] != d;
        is_placed = is_placed || place[d] != d;
    }
    cluster->group_of = group_of;
    cluster->number = is_numbered ? number : NULL;
    cluster->numbered = is_numbered ? numbered : NULL;
    cluster->place = is_placed ? place : NULL;
    return true;
}

enum sp_status sp_cluster_arrange(struct sp_arena *arena, const struct sp_cluster_parts *parts,
                                  const struct sp_cluster_layout *layout, struct sp_cluster *cluster,
                                  struct sp_error *err)
{
    struct spot *spots = SP_NEW_ARRAY(arena, cluster->device_count, struct spot);
    struct spot *sorted = SP_NEW_ARRAY(arena, cluster->device_count, struct spot);
    struct cell *cells = SP_NEW_ARRAY(arena, cluster->device_count, struct cell);
    if (spots == NULL || sorted == NULL || cells == NULL)
        return sp_fail_memory(err);
    const uint32_t count = cluster->device_count = list_spots(parts, layout, cluster, spots);
    if (layout != NULL)
        qsort(spots, count, sizeof *spots, by_place);
    for (uint32_t l = cluster->level_count; l-- > 0;) {
        for (uint32_t i = 0, size; i < count; i += size) {
            size = part_size(&spots[i], count - i, l);
            sort_cells(&spots[i], size, l, cells, sorted);
        }
    }
    fit_levels(cluster, spots);
    return take_spots(arena, parts, spots, cluster) ? SP_OK : sp_fail_memory(err);
}
