#pragma once
/*
 * live_bytes - the bytes that are alive while the nodes of an order run.
 *
 * Everything that counts memory over time counts it here. The caller says of each tensor, or of each buffer, from which
 * position of the order to which it is alive, both included, and then steps through the positions:
 *
 *     sp_live_init(&live, arena, node_count);
 *     sp_live_add(&live, producer, last_user, bytes);           for each tensor
 *     at = sp_live_step(&live, position, workspace);            for each position, ascending
 *     live.peak
 *
 * Which tensors share memory and how long each of them lives is the caller's model; that of a stage is in evaluate.h.
 */
#include "base/arena.h"

#define SP_LIVE_OUTSIDE UINT32_MAX /* as the first position: before all of them; as the last one: after them */

/* Bytes alive while a node runs, its workspace included, and after it. */
struct sp_live_bytes {
    double during, after;
};

struct sp_live {
    double now, peak;      /* after the last step; the most so far */
    double *begins, *ends; /* bytes per position */
};

/* For so many positions; false without memory. */
static inline bool sp_live_init(struct sp_live *live, struct sp_arena *arena, size_t count)
{
    *live = (struct sp_live){.begins = SP_NEW_ARRAY(arena, count, double), .ends = SP_NEW_ARRAY(arena, count, double)};
    return live->begins != NULL && live->ends != NULL;
}

static inline void sp_live_add(struct sp_live *live, uint32_t first, uint32_t last, double bytes)
{
    if (first == SP_LIVE_OUTSIDE)
        live->peak = live->now += bytes;
    else
        live->begins[first] += bytes;
    if (last != SP_LIVE_OUTSIDE)
        live->ends[last] += bytes;
}

/* Runs the node at a position. Positions where nothing begins or ends may be left out. */
static inline struct sp_live_bytes sp_live_step(struct sp_live *live, uint32_t position, double workspace)
{
    struct sp_live_bytes at;
    live->now += live->begins[position];
    at.during = live->now + workspace;
    live->peak = at.during > live->peak ? at.during : live->peak;
    live->now -= live->ends[position];
    at.after = live->now;
    return at;
}
