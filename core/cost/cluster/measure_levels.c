/* What the links of each level bring. */
#include <math.h>
#include <stdlib.h>

#include "base/union_find.h"
#include "cost/cluster/finding.h"
#include "cost/cluster/gather.h"

/* What the parts within one part of a level reach together; `to` has a vertex of theirs for each, or SP_NO_CELL. */
static double measure_cell(struct sp_level_finding *f, uint32_t level, uint32_t parts, uint32_t *to)
{
    struct sp_gather_edge *edges = SP_NEW_ARRAY(f->arena, f->edge_count, struct sp_gather_edge);
    uint32_t count = 0;
    if (edges == NULL)
        return -1;
    for (uint32_t v = f->device_count; v < f->vertex_count; v++)
        to[v] = parts + v - f->device_count;
    const uint32_t end = f->is_direct[level] ? f->edge_count : f->edge_end[level];
    for (uint32_t e = 0; e < end; e++) {
        const uint32_t a = to[f->edges[e].ends[0]], b = to[f->edges[e].ends[1]];
        if (a == SP_NO_CELL || b == SP_NO_CELL || a == b || (f->is_direct[level] && !f->edges[e].is_direct))
            continue;
        edges[count++] = (struct sp_gather_edge){{a, b}, f->edges[e].bandwidth};
    }
    return sp_gather_bandwidth(f->arena, parts, parts + f->vertex_count - f->device_count, count, edges);
}

static int by_alone(const void *a, const void *b)
{
    const double x = ((const struct sp_level_edge *)a)->alone, y = ((const struct sp_level_edge *)b)->alone;
    return (x < y) - (x > y);
}

/* The widest way from a device to another over links of the level and inside it; below 0 without memory. */
static double measure_send(struct sp_level_finding *f, uint32_t level, uint32_t from, uint32_t to)
{
    uint32_t *parent = sp_union_find(f->arena, f->vertex_count), count = f->edge_end[level];
    struct sp_level_edge *edges = SP_NEW_ARRAY(f->arena, count, struct sp_level_edge);
    if (parent == NULL || edges == NULL)
        return -1;
    memcpy(edges, f->edges, count * sizeof *edges);
    qsort(edges, count, sizeof *edges, by_alone);
    for (uint32_t e = 0; e < count; e++) {
        sp_union_join(parent, edges[e].ends[0], edges[e].ends[1]);
        if (sp_union_root(parent, from) == sp_union_root(parent, to))
            return edges[e].alone;
    }
    return 0;
}

/* The first `most` parts within part `name` of a level get numbers; returns how many there are. */
static uint32_t number_parts(const struct sp_level_finding *f, uint32_t level, uint32_t name, uint32_t most,
                             uint32_t *to, uint32_t *ret_devices)
{
    const uint32_t *cell = f->cell[level], *inner = level > 0 ? f->cell[level - 1] : NULL;
    uint32_t parts = 0;
    memset(to, 0xff, f->vertex_count * sizeof *to);
    *ret_devices = 0;
    for (uint32_t turn = 0; turn < f->device_count && parts < most; turn++) {
        for (uint32_t d = 0; inner == NULL && d < f->device_count && parts < most; d++) {
            if (cell[d] == name && f->rank[d] % f->device_count == turn)
                to[d] = parts++;
        }
        if (inner != NULL && cell[turn] == name && to[inner[turn]] == SP_NO_CELL)
            to[inner[turn]] = parts++;
    }
    for (uint32_t d = 0; d < f->device_count; d++) {
        if (cell[d] == name && inner != NULL)
            to[d] = to[inner[d]];
        *ret_devices += to[d] != SP_NO_CELL;
    }
    return parts;
}

/* What a level brings to each device with at most so many parts: the least of all its parts; 0 without memory. */
static double measure_parts(struct sp_level_finding *f, uint32_t level, uint32_t most)
{
    uint32_t *to = SP_NEW_ARRAY(f->arena, f->vertex_count, uint32_t);
    double bandwidth = INFINITY;
    for (uint32_t c = 0; to != NULL && c < f->device_count; c++) {
        uint32_t devices, parts = f->cell[level][c] == c ? number_parts(f, level, c, most, to, &devices) : 0;
        if (parts < 2)
            continue;
        const double all = measure_cell(f, level, parts, to);
        if (all < 0)
            return 0;
        bandwidth = fmin(bandwidth, all * parts / devices);
    }
    return to == NULL ? 0 : bandwidth;
}

/* Along links a part of the innermost level may bring less to fewer devices. */
static bool measure_sizes(struct sp_level_finding *f, uint32_t size)
{
    struct sp_mesh_level *level = &f->levels[0];
    double *of_size = SP_NEW_ARRAY(f->arena, (size_t)size + 1, double);
    bool is_same = true;
    if (of_size == NULL)
        return false;
    for (uint32_t s = 2; s <= size; s++) {
        of_size[s] = s == size ? level->bandwidth : measure_parts(f, 0, s);
        is_same = is_same && of_size[s] == level->bandwidth;
        if (of_size[s] <= 0)
            return false;
    }
    level->bandwidth_of_size = is_same ? NULL : of_size;
    return true;
}

bool sp_measure_level(struct sp_level_finding *f, uint32_t l)
{
    struct sp_mesh_level *level = &f->levels[l];
    uint32_t *to = SP_NEW_ARRAY(f->arena, f->vertex_count, uint32_t), size = 0;
    level->bandwidth = measure_parts(f, l, UINT32_MAX);
    if (to == NULL || level->bandwidth <= 0)
        return false;
    for (uint32_t c = 0; c < f->device_count; c++) {
        uint32_t devices, second = 0, parts = f->cell[l][c] == c ? number_parts(f, l, c, UINT32_MAX, to, &devices) : 0;
        size = parts > size ? parts : size;
        if (parts < 2)
            continue;
        while (to[second] != (to[c] == 0 ? 1 : 0))
            second++;
        const double alone = measure_send(f, l, c, second);
        if (alone < 0)
            return false;
        level->send_bandwidth = level->send_bandwidth > 0 ? fmin(level->send_bandwidth, alone) : alone;
    }
    if (level->send_bandwidth == level->bandwidth)
        level->send_bandwidth = 0;
    return l > 0 || !f->is_direct[0] || measure_sizes(f, size);
}
