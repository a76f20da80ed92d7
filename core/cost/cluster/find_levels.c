/* Levels of links out of a graph of links. */
#include <math.h>
#include <stdlib.h>

#include "base/union_find.h"
#include "cost/cluster/finding.h"

#define NEARLY     0.9 /* links whose shares differ by less are of one level */
#define RING_PARTS 4   /* more parts than these along links are levels of their own, so many in the innermost at most */

static bool is_used(const struct sp_level_finding *f, uint32_t device)
{
    return f->parts->excluded == NULL || !f->parts->excluded[device];
}

/* ---- edges ------------------------------------------------------------------------------------------------------- */

/* Ends that lead nowhere, because their devices are left out, have no edges. */
static void add_edge(struct sp_level_finding *f, const struct sp_level_edge *edge)
{
    const uint32_t a = edge->ends[0], b = edge->ends[1];
    if (f->beneath[a] == 0 || f->beneath[b] == 0)
        return;
    f->edges[f->edge_count++] = *edge;
    if (edge->is_direct) {
        f->width[a * f->device_count + b] += edge->bandwidth;
        f->width[b * f->device_count + a] += edge->bandwidth;
    }
}

static void add_switches(struct sp_level_finding *f)
{
    for (uint32_t s = 0; s < f->parts->switch_count; s++) {
        const struct sp_cluster_switch *one = &f->parts->switches[s];
        const uint32_t vertex = f->device_count + s;
        for (uint32_t m = 0; m < one->member_count; m++)
            f->beneath[vertex] += f->beneath[one->members[m]];
        for (uint32_t m = 0; m < one->member_count; m++) {
            const uint32_t behind = f->beneath[one->members[m]];
            double bandwidth = one->bandwidth * behind / f->beneath[vertex];
            if (one->member_bandwidth > 0)
                bandwidth = fmin(bandwidth, one->member_bandwidth);
            add_edge(f, &(struct sp_level_edge){.ends = {one->members[m], vertex},
                                                .bandwidth = bandwidth,
                                                .latency = one->latency,
                                                .alone = one->member_bandwidth > 0
                                                             ? fmin(one->member_bandwidth, one->bandwidth)
                                                             : one->bandwidth,
                                                .share = bandwidth / behind});
        }
    }
}

static void add_links(struct sp_level_finding *f)
{
    for (uint32_t i = 0; i < f->parts->link_count; i++) {
        const struct sp_cluster_wire *link = &f->parts->links[i];
        const uint32_t a = f->beneath[link->ends[0]], b = f->beneath[link->ends[1]];
        if (a == 0 || b == 0)
            continue;
        add_edge(f, &(struct sp_level_edge){.ends = {link->ends[0], link->ends[1]},
                                            .bandwidth = link->bandwidth,
                                            .latency = link->latency,
                                            .alone = link->bandwidth,
                                            .share = link->bandwidth / (a < b ? a : b),
                                            .is_direct =
                                                link->ends[0] < f->device_count && link->ends[1] < f->device_count});
    }
}

/* A level of the mesh is a switch for each of its parts, at which every device has the level's bandwidth. */
static void add_mesh(struct sp_level_finding *f, uint32_t vertex)
{
    uint64_t parts = 1;
    for (uint32_t l = 0; l < f->parts->level_count; l++) {
        const struct sp_mesh_level *level = &f->parts->levels[l];
        for (uint32_t d = 0; d < f->device_count; d++) {
            const uint32_t part = vertex + (uint32_t)(d * parts / f->device_count);
            if (is_used(f, d))
                f->beneath[part]++;
            add_edge(f, &(struct sp_level_edge){.ends = {d, part},
                                                .bandwidth = level->bandwidth,
                                                .latency = level->latency,
                                                .alone = level->bandwidth,
                                                .share = level->bandwidth});
        }
        vertex += (uint32_t)parts;
        parts *= level->size;
    }
}

/* The host joins what nothing else does, where all devices say how they reach it. */
static void add_host(struct sp_level_finding *f)
{
    double bandwidth = INFINITY;
    const uint32_t vertex = f->vertex_count - 1;
    for (uint32_t g = 0, d = 0; g < f->parts->group_count; g++) {
        for (uint32_t i = 0; i < f->parts->groups[g].count; i++, d++) {
            if (is_used(f, d))
                bandwidth = fmin(bandwidth, f->parts->groups[g].device.host_bandwidth);
        }
    }
    f->beneath[vertex] = f->used_count;
    for (uint32_t d = 0; bandwidth > 0 && d < f->device_count; d++)
        add_edge(f, &(struct sp_level_edge){.ends = {d, vertex},
                                            .bandwidth = bandwidth,
                                            .latency = SP_HOST_LATENCY,
                                            .alone = bandwidth,
                                            .share = bandwidth});
}

static int by_share(const void *a, const void *b)
{
    const double x = ((const struct sp_level_edge *)a)->share, y = ((const struct sp_level_edge *)b)->share;
    return (x < y) - (x > y);
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

/* Parts of all vertices that are joined now, of those that are devices; how many there are. */
static uint32_t list_cells(const struct sp_level_finding *f, uint32_t *parent, uint32_t *cell)
{
    uint32_t count = 0;
    for (uint32_t d = 0; d < f->device_count; d++) {
        cell[d] = is_used(f, d) ? sp_union_root(parent, d) : SP_NO_CELL;
        count += cell[d] == d; /* the smallest number names a part, and devices have the smallest */
    }
    return count;
}

static const char *level_name(const struct sp_level_finding *f, const struct sp_level_edge *edge)
{
    const uint32_t vertex = edge->ends[1];
    const char *name = "links";
    if (!edge->is_direct && vertex >= f->device_count) {
        const uint32_t s = vertex - f->device_count;
        name = s < f->parts->switch_count      ? f->parts->switches[s].name
               : vertex + 1 == f->vertex_count ? "host"
                                               : "mesh";
    }
    for (uint32_t l = 0; l < f->level_count; l++) {
        if (strcmp(f->levels[l].name, name) == 0)
            return sp_arena_printf(f->arena, "%.200s (level %u)", name, f->level_count);
    }
    return name;
}

/* Joins along ever narrower edges from `first` on; a level for each share at which parts are joined. */
static bool join(struct sp_level_finding *f, uint32_t first, uint32_t *parent, uint32_t *ret_parts)
{
    uint32_t count = *ret_parts;
    bool is_direct = first == 0;
    for (uint32_t e = first, end; e < f->edge_count && count > 1; e = end) {
        double latency = 0;
        for (end = e; end < f->edge_count && f->edges[end].share >= NEARLY * f->edges[e].share; end++) {
            sp_union_join(parent, f->edges[end].ends[0], f->edges[end].ends[1]);
            latency = fmax(latency, f->edges[end].latency);
            is_direct = is_direct && f->edges[end].is_direct;
        }
        uint32_t *cell = SP_NEW_ARRAY(f->arena, f->device_count, uint32_t);
        if (cell == NULL)
            return false;
        const uint32_t fewer = list_cells(f, parent, cell);
        if (fewer == count)
            continue;
        const char *name = level_name(f, &f->edges[e]);
        if (name == NULL)
            return false;
        /* Beyond as many levels as there may be, everything further out is one. */
        const uint32_t level = f->level_count < SP_MAX_MESH_AXES / 2 ? f->level_count++ : f->level_count - 1;
        f->levels[level] = (struct sp_mesh_level){.name = name, .latency = latency};
        f->is_direct[level] = is_direct;
        f->edge_end[level] = end;
        f->cell[level] = cell;
        count = fewer;
    }
    *ret_parts = count;
    return true;
}

/* Where links and switches leave devices apart, the host joins them. */
static bool join_all(struct sp_level_finding *f, bool *ret_by_host)
{
    uint32_t *parent = sp_union_find(f->arena, f->vertex_count), count = f->used_count;
    const uint32_t stated = f->edge_count;
    if (parent == NULL || !join(f, 0, parent, &count))
        return false;
    if (count == 1)
        return true;
    *ret_by_host = true;
    add_host(f);
    return join(f, stated, parent, &count);
}

/* ---- along links ------------------------------------------------------------------------------------------------- */

/* The devices of a part in an order in which each has the most links to those that its run of `run` has already. */
static void order_run(const struct sp_level_finding *f, uint32_t run, uint32_t count, uint32_t *devices)
{
    for (uint32_t at = 0; at < count; at++) {
        uint32_t best = at;
        double most = -1;
        for (uint32_t i = at; i < count; i++) {
            double width = 0;
            for (uint32_t j = at - at % run; j < at; j++)
                width += f->width[devices[i] * f->device_count + devices[j]];
            if (width > most || (width == most && devices[i] < devices[best])) {
                most = width;
                best = i;
            }
        }
        const uint32_t next = devices[best];
        memmove(&devices[at + 1], &devices[at], (best - at) * sizeof *devices);
        devices[at] = next;
    }
}

/* How many neighbours of a part of so many make a part of their own. */
static uint32_t run_of(uint32_t count)
{
    for (uint32_t divisor = 2; count > RING_PARTS && divisor < count; divisor++) {
        if (count % divisor == 0)
            return count / divisor;
    }
    return count;
}

/* The innermost level, where it is of links alone and all parts are as large, is cut into runs along the links. */
static bool cut_links(struct sp_level_finding *f)
{
    uint32_t *cell = f->cell[0], *devices = SP_NEW_ARRAY(f->arena, f->device_count, uint32_t), size = 0;
    uint32_t *run_of_device = SP_NEW_ARRAY(f->arena, f->device_count, uint32_t);
    if (devices == NULL || run_of_device == NULL)
        return false;
    for (uint32_t d = 0; d < f->device_count; d++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < f->device_count && cell[d] == d; i++)
            count += cell[i] == d;
        if (cell[d] == d && size != 0 && count != size)
            return true;
        size = cell[d] == d ? count : size;
    }
    const uint32_t run = run_of(size);
    for (uint32_t c = 0; c < f->device_count; c++) {
        uint32_t count = 0;
        for (uint32_t d = 0; d < f->device_count && cell[c] == c; d++) {
            if (cell[d] == c)
                devices[count++] = d;
        }
        order_run(f, run, count, devices);
        for (uint32_t i = 0; i < count; i++) {
            f->rank[devices[i]] = c * f->device_count + i;
            run_of_device[devices[i]] = devices[i - i % run];
        }
    }
    if (run == size || f->level_count == SP_MAX_MESH_AXES)
        return true;
    memmove(&f->cell[1], &f->cell[0], f->level_count * sizeof f->cell[0]);
    memmove(&f->levels[1], &f->levels[0], f->level_count * sizeof f->levels[0]);
    memmove(&f->is_direct[1], &f->is_direct[0], f->level_count * sizeof f->is_direct[0]);
    memmove(&f->edge_end[1], &f->edge_end[0], f->level_count * sizeof f->edge_end[0]);
    f->level_count++;
    f->cell[0] = run_of_device;
    for (uint32_t d = 0; d < f->device_count; d++)
        f->cell[0][d] = is_used(f, d) ? f->cell[0][d] : SP_NO_CELL;
    f->levels[0].name = sp_arena_printf(f->arena, "%.200s of %u", f->levels[1].name, run);
    return f->levels[0].name != NULL;
}

/* ---- the layout -------------------------------------------------------------------------------------------------- */

/* Coordinates, outermost first: the turn of each device's part within the part of the level outside. */
static bool lay_out(const struct sp_level_finding *f, struct sp_cluster *cluster, struct sp_cluster_layout *ret_layout)
{
    uint32_t(*at)[SP_MAX_MESH_AXES] = sp_arena_alloc(f->arena, f->device_count * sizeof *at);
    uint32_t *seen = SP_NEW_ARRAY(f->arena, f->device_count, uint32_t);
    if (at == NULL || seen == NULL)
        return false;
    for (uint32_t l = 0; l < f->level_count; l++) {
        const uint32_t *cell = f->cell[l], *inner = l > 0 ? f->cell[l - 1] : NULL, axis = f->level_count - 1 - l;
        if (cell == NULL) /* a device alone */
            continue;
        memset(seen, 0, f->device_count * sizeof *seen);
        for (uint32_t d = 0; d < f->device_count; d++) {
            if (!is_used(f, d) || (inner != NULL && inner[d] != d))
                continue;
            at[d][axis] = seen[cell[d]]++;
            const uint32_t size = seen[cell[d]];
            cluster->levels[axis].size = size > cluster->levels[axis].size ? size : cluster->levels[axis].size;
        }
        for (uint32_t d = 0; d < f->device_count && inner != NULL; d++) {
            if (is_used(f, d))
                at[d][axis] = at[inner[d]][axis];
        }
    }
    *ret_layout = (struct sp_cluster_layout){at, f->rank};
    return true;
}

static enum sp_status make_edges(struct sp_level_finding *f, struct sp_error *err)
{
    const struct sp_cluster_parts *parts = f->parts;
    size_t edges = parts->link_count + (size_t)f->device_count * (parts->level_count + 1), cells = 0;
    for (uint32_t s = 0; s < parts->switch_count; s++)
        edges += parts->switches[s].member_count;
    for (uint32_t l = 0, size = 1; l < parts->level_count; size *= parts->levels[l++].size)
        cells += size;
    f->vertex_count = f->device_count + parts->switch_count + (uint32_t)cells + 1;
    f->edges = SP_NEW_ARRAY(f->arena, edges, struct sp_level_edge);
    f->beneath = SP_NEW_ARRAY(f->arena, f->vertex_count, uint32_t);
    f->rank = SP_NEW_ARRAY(f->arena, f->device_count, uint32_t);
    f->width = SP_NEW_ARRAY(f->arena, (size_t)f->device_count * f->device_count, double);
    if (f->edges == NULL || f->beneath == NULL || f->rank == NULL || f->width == NULL)
        return sp_fail_memory(err);
    for (uint32_t d = 0; d < f->device_count; d++) {
        f->beneath[d] = is_used(f, d);
        f->used_count += is_used(f, d);
        f->rank[d] = d * f->device_count;
    }
    add_switches(f);
    add_links(f);
    add_mesh(f, f->device_count + parts->switch_count);
    qsort(f->edges, f->edge_count, sizeof *f->edges, by_share);
    return SP_OK;
}

/* The two first devices that are in no part together. */
static enum sp_status check_joined(const struct sp_level_finding *f, struct sp_error *err)
{
    const uint32_t *cell = f->level_count > 0 ? f->cell[f->level_count - 1] : NULL;
    uint32_t first = 0;
    while (!is_used(f, first))
        first++;
    for (uint32_t d = first + 1; d < f->device_count; d++) {
        if (is_used(f, d) && (cell == NULL || cell[d] != cell[first]))
            return sp_fail(err, SP_ERR_REQUEST, "CLUSTER_LINK",
                           "No links or switches join devices %u and %u: give one, or the devices' host_bandwidth.",
                           first, d);
    }
    return SP_OK;
}

enum sp_status sp_cluster_find_levels(struct sp_arena *arena, const struct sp_cluster_parts *parts,
                                      struct sp_cluster *cluster, struct sp_cluster_layout *ret_layout,
                                      struct sp_error *err)
{
    struct sp_level_finding f = {.arena = arena, .parts = parts, .device_count = cluster->device_count};
    enum sp_status status = make_edges(&f, err);
    if (status == SP_OK && !join_all(&f, &cluster->links_assumed))
        status = sp_fail_memory(err);
    if (status == SP_OK)
        status = check_joined(&f, err);
    if (status == SP_OK && f.level_count > 0 && f.is_direct[0] && !cut_links(&f))
        status = sp_fail_memory(err);
    for (uint32_t l = 0; status == SP_OK && l < f.level_count; l++)
        status = sp_measure_level(&f, l) ? SP_OK : sp_fail_memory(err);
    if (status != SP_OK)
        return status;
    if (f.level_count == 0) /* a device alone */
        f.levels[f.level_count++] = (struct sp_mesh_level){.name = "links", .size = 1, .bandwidth = SP_MAX_FIGURE};
    cluster->level_count = f.level_count;
    cluster->levels = SP_NEW_ARRAY(arena, f.level_count, struct sp_mesh_level);
    if (cluster->levels == NULL)
        return sp_fail_memory(err);
    for (uint32_t l = 0; l < f.level_count; l++)
        cluster->levels[f.level_count - 1 - l] = f.levels[l];
    return lay_out(&f, cluster, ret_layout) ? SP_OK : sp_fail_memory(err);
}
