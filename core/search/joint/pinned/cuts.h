#pragma once
/*
 * cuts - where a model may be cut into stages, and what each piece between two cuts takes.
 *
 * A cut is a set of nodes that comes before all others: the nodes on one side of a place on a line or, where there are
 * few nodes, any set that holds with each node what that needs. A piece is what is in one cut and not in an earlier
 * one. Long lines have SP_PINNED_CUTS cuts at most: where nodes with pins begin and end, and every so many seconds.
 */
#include "search/joint/pinned/pinned.h"

#define SP_PINNED_CUTS   96
#define SP_PINNED_IDEALS 14 /* models of so many nodes that run, or fewer, are cut in any way that has so few cuts */

#define SP_PINNED_RECEIVED 8
struct sp_pinned_received {
    uint32_t place; /* in `live`: who makes it */
    double bytes;
};

struct sp_pinned_piece {
    bool is_possible;        /* it may be a stage by its pins and groups */
    uint32_t stage;          /* where its nodes are pinned to one, or SP_UNPINNED */
    uint32_t low, high;      /* the first and last device that nodes of it are pinned to; low > high: none */
    uint32_t received_count; /* tensors that come from outside, the first SP_PINNED_RECEIVED of them: */
    struct sp_pinned_received *received;
    double *seconds, *weights, *bytes; /* per profile; weights are part of the bytes */
};

struct sp_pinned_cuts {
    uint32_t count;                 /* the first has no nodes, the last all */
    struct sp_pinned_piece *pieces; /* from cut i to j: [i * count + j] */
    uint32_t live_count;
    const uint32_t *live; /* in the line's order */
    uint64_t *sets;       /* per cut: live nodes in it, a bit each; NULL: a line */
    uint32_t *ends;       /* line: per cut how many live nodes are before it */
};

/* `line` are the nodes that run in an order in which they can run. */
enum sp_status sp_pinned_cuts_create(struct sp_joint *joint, const struct sp_proposal *proposal, const uint32_t *line,
                                     uint32_t count, struct sp_pinned_cuts **ret_cuts, struct sp_error *err);

static inline const struct sp_pinned_piece *sp_pinned_piece(const struct sp_pinned_cuts *cuts, uint32_t from,
                                                            uint32_t to)
{
    return &cuts->pieces[(size_t)from * cuts->count + to];
}

/* Whether a live node, by its place in `live`, is in the piece. */
bool sp_pinned_has(const struct sp_pinned_cuts *cuts, uint32_t from, uint32_t to, uint32_t place);
