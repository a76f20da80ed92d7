#pragma once
/*
 * latency_branches - what a stage with one end of a branch beside a path takes for it.
 *
 * A stage has a part of the path, the places from `a` to `b`. A branch leaves the path at one place and comes back at a
 * later one.
 */
#include "solvers/stages/latency/latency.h"

/* Where nodes and tensors lie beside a path. Places count from 1. */
struct sp_latency_places {
    uint32_t count;
    const uint32_t *path;
    /* Per node: the last place from which it is reached (0: none), and the first that it reaches (count + 1: none); for
       nodes of the path both are their place. */
    uint32_t *after, *until;
    uint32_t *tensor_after; /* per tensor: the largest `after` of its users */
};

/* Seconds beside those that follow from what lies between places of the stage. */
struct sp_latency_branch {
    uint32_t from, first, end;
    double seconds;
};

struct sp_latency_branches {
    /* [option]: of a stage with a <= from and first <= b < end, for what it sends; by `from`, those of a place from
       send_start[option][place] up to the next. */
    struct sp_latency_branch **sends;
    uint32_t **send_start;
    /* [option][branch]: of a stage with from < a <= end <= b, for what it receives; `ends` are the branches by
       `end`. */
    struct sp_latency_branch **receives;
    struct sp_rows ends;
};

/* Lists branches in `arena`. False without memory. */
bool sp_latency_branches_list(struct sp_arena *arena, const struct sp_latency_graph *graph,
                              const struct sp_latency_places *places, struct sp_latency_branches *ret_branches);
