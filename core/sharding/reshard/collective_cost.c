#include "sharding/reshard/collective_cost.h"

#include <math.h>

const char *sp_collective_name(enum sp_collective kind)
{
    static const char *const names[SP_COLLECTIVE_COUNT] = {
        [SP_ALL_SLICE] = "all-slice",       [SP_ALL_GATHER] = "all-gather",
        [SP_ALL_TO_ALL] = "all-to-all",     [SP_COLLECTIVE_PERMUTE] = "collective-permute",
        [SP_ALL_REDUCE] = "all-reduce",     [SP_REDUCE_SCATTER] = "reduce-scatter",
        [SP_SEND_RECEIVE] = "send-receive", [SP_TO_PARTIAL] = "to-partial",
    };

    return (unsigned)kind < SP_COLLECTIVE_COUNT ? names[kind] : "unknown";
}

/* ceil(log2 devices) without rounding errors. */
static double rounds(double devices)
{
    double count = 0;

    for (double reached = 1; reached < devices; reached *= 2)
        count++;
    return count;
}

/*
 * An all-gather level by level, outermost first: at level l each device gathers p_l parts, and what it has then is the
 * whole value divided by what the levels inside are still to gather. A reduce-scatter is the same backwards.
 */
static struct sp_collective_line by_levels(const struct sp_links *links, const uint32_t *span)
{
    struct sp_collective_line line = {0, 0};
    double inside = 1;

    for (uint32_t l = links->level_count; l-- > 0;) {
        const struct sp_mesh_level *level = &links->levels[l];
        double p = span[l];

        if (p < 2)
            continue;
        line.fixed += rounds(p) * level->latency;
        line.slope += (p - 1) / p / inside / level->bandwidth;
        inside *= p;
    }
    return line;
}

uint32_t sp_collective_lines(const struct sp_links *links, enum sp_collective kind, const uint32_t *span,
                             struct sp_collective_line ret_lines[SP_COLLECTIVE_LINES])
{
    double p = 1, latency = 0, bandwidth = INFINITY;
    double twice = kind == SP_ALL_REDUCE ? 2 : 1;
    uint32_t count = 0;

    for (uint32_t l = 0; l < links->level_count; l++) {
        if (span[l] < 2)
            continue;
        p *= span[l];
        latency = fmax(latency, links->levels[l].latency);
        bandwidth = fmin(bandwidth, links->levels[l].bandwidth);
    }
    if (p < 2)
        return 0;
    switch (kind) {
    case SP_ALL_TO_ALL:
        ret_lines[count++] = (struct sp_collective_line){(p - 1) * latency, (p - 1) / p / p / bandwidth};
        break;
    case SP_ALL_GATHER:
    case SP_REDUCE_SCATTER:
    case SP_ALL_REDUCE:
        ret_lines[0] = (struct sp_collective_line){(p - 1) * latency, (p - 1) / p / bandwidth};
        ret_lines[1] = (struct sp_collective_line){rounds(p) * latency, (p - 1) / p / bandwidth};
        ret_lines[2] = by_levels(links, span);
        count = 3;
        for (uint32_t i = 0; i < count; i++) {
            ret_lines[i].fixed *= twice;
            ret_lines[i].slope *= twice;
        }
        break;
    case SP_ALL_SLICE:
    case SP_COLLECTIVE_PERMUTE:
    case SP_SEND_RECEIVE:
    case SP_TO_PARTIAL:
    case SP_COLLECTIVE_COUNT:
        break;
    }
    return count;
}

double sp_collective_seconds(const struct sp_links *links, enum sp_collective kind, const uint32_t *span, double bytes)
{
    struct sp_collective_line lines[SP_COLLECTIVE_LINES];
    uint32_t count = sp_collective_lines(links, kind, span, lines);
    double least = count > 0 ? INFINITY : 0;

    for (uint32_t i = 0; i < count; i++)
        least = fmin(least, lines[i].fixed + lines[i].slope * bytes);
    return least;
}

double sp_collective_bytes(enum sp_collective kind, double devices, double bytes)
{
    if (devices < 2)
        return 0;
    switch (kind) {
    case SP_ALL_GATHER:
    case SP_REDUCE_SCATTER:
        return (devices - 1) / devices * bytes;
    case SP_ALL_REDUCE:
        return 2 * (devices - 1) / devices * bytes;
    case SP_ALL_TO_ALL:
        return (devices - 1) / devices / devices * bytes;
    case SP_COLLECTIVE_PERMUTE:
    case SP_SEND_RECEIVE:
        return bytes;
    case SP_ALL_SLICE:
    case SP_TO_PARTIAL:
    case SP_COLLECTIVE_COUNT:
        break;
    }
    return 0;
}

uint32_t sp_links_between(const struct sp_links *links, int64_t a, int64_t b)
{
    int64_t inside = 1;

    if (a == b)
        return links->level_count;
    for (uint32_t l = 0; l < links->level_count; l++) {
        if (__builtin_mul_overflow(inside, (int64_t)links->levels[l].size, &inside))
            inside = INT64_MAX;
    }
    if (a >= inside || b >= inside)
        return 0;
    for (uint32_t l = 0; l < links->level_count; l++) {
        inside /= links->levels[l].size;
        if (a / inside != b / inside)
            return l;
        a %= inside;
        b %= inside;
    }
    return links->level_count;
}
