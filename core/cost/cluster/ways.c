#include "cost/cluster/ways.h"

#include <math.h>

#include "cost/cluster/internal.h"

uint32_t sp_cluster_switch_count(const struct sp_cluster *cluster)
{
    return cluster->stated == NULL ? 0 : cluster->stated->switch_count;
}

double sp_cluster_switch_bandwidth(const struct sp_cluster *cluster, uint32_t index)
{
    return cluster->stated->switches[index].bandwidth;
}

/* The widest way from a device up to each switch; width 0: there is none. */
static void climb(const struct sp_cluster_stated *stated, uint32_t number, double *width, uint32_t *from)
{
    for (uint32_t s = 0; s < stated->switch_count; s++) {
        const struct sp_cluster_switch *at = &stated->switches[s];
        const double one = at->member_bandwidth > 0 ? at->member_bandwidth : at->bandwidth;
        width[s] = 0;
        for (uint32_t m = 0; m < at->member_count; m++) {
            const uint32_t member = at->members[m];
            const double below = member >= stated->device_count ? width[member - stated->device_count]
                                 : member == number             ? INFINITY
                                                                : 0;
            if (fmin(below, one) > width[s]) {
                width[s] = fmin(below, one);
                from[s] = member;
            }
        }
    }
}

/* Switches below `top` on the way that was climbed. */
static uint32_t descend(const struct sp_cluster_stated *stated, uint32_t top, const uint32_t *from,
                        uint32_t *ret_switches)
{
    uint32_t count = 0;
    for (uint32_t end = from[top]; end >= stated->device_count; end = from[end - stated->device_count])
        ret_switches[count++] = end - stated->device_count;
    return count;
}

bool sp_cluster_ways_create(struct sp_arena *arena, const struct sp_cluster *cluster, struct sp_cluster_ways *ret_ways)
{
    const uint32_t count = sp_cluster_switch_count(cluster);
    *ret_ways =
        (struct sp_cluster_ways){.width = {SP_NEW_ARRAY(arena, count, double), SP_NEW_ARRAY(arena, count, double)},
                                 .from = {SP_NEW_ARRAY(arena, count, uint32_t), SP_NEW_ARRAY(arena, count, uint32_t)},
                                 .switches = SP_NEW_ARRAY(arena, 2 * (size_t)count + 1, uint32_t)};
    return ret_ways->width[0] != NULL && ret_ways->width[1] != NULL && ret_ways->from[0] != NULL &&
           ret_ways->from[1] != NULL && ret_ways->switches != NULL;
}

uint32_t sp_cluster_way(const struct sp_cluster *cluster, uint32_t a, uint32_t b, struct sp_cluster_ways *ways)
{
    const struct sp_cluster_stated *stated = cluster->stated;
    const uint32_t numbers[] = {sp_cluster_number(cluster, a), sp_cluster_number(cluster, b)};
    double widest = 0;
    uint32_t top = UINT32_MAX;
    for (uint32_t l = 0; l < stated->link_count; l++) {
        const struct sp_cluster_wire *link = &stated->links[l];
        if ((link->ends[0] == numbers[0] && link->ends[1] == numbers[1]) ||
            (link->ends[0] == numbers[1] && link->ends[1] == numbers[0]))
            widest = fmax(widest, link->bandwidth);
    }
    for (uint32_t i = 0; i < 2; i++)
        climb(stated, numbers[i], ways->width[i], ways->from[i]);
    for (uint32_t s = 0; s < stated->switch_count; s++) {
        if (fmin(ways->width[0][s], ways->width[1][s]) > widest) {
            widest = fmin(ways->width[0][s], ways->width[1][s]);
            top = s;
        }
    }
    if (top == UINT32_MAX)
        return 0;
    ways->switches[0] = top;
    uint32_t count = 1;
    for (uint32_t i = 0; i < 2; i++)
        count += descend(stated, top, ways->from[i], &ways->switches[count]);
    return count;
}
