#pragma once
/*
 * fleet - which device of the new cluster is which one of before.
 *
 * A *holder* is a device that has weights; a *seat* is a device number of the new cluster, for which the new plan says
 * what it needs. Who sits where decides what has to be moved. There are two cases.
 *
 *  known     The request says which device is which, or the new cluster is the old one's description of which devices
 *            are left out ("exclude"). Seats and holders are then the same devices, the new cluster's.
 *            Equal devices may still change their seats, where no figure of the plan changes with that: kinds and
 *            memory are the same, and so is the level of links between any two (an automorphism of the tree of links).
 *  free      The request does not say. A holder of before may be any device of its type: the one that moves least.
 *            Nodes stay together: where both clusters have as many levels of links, the devices of one part of a level
 *            are devices of one part. Holders without a seat are lost, seats without a holder are new.
 *
 * The best seats keep the most bytes. Along the tree from the innermost level: what a part of the new cluster keeps of
 * a part of the old one is an assignment of their children (Hungarian method), up to the whole. That is exact; equal to
 * trying all automorphisms (tests). O(n^3) for n devices of one level.
 *
 * Source: SpotServe (ASPLOS 2024) maps devices by bipartite matching of what they keep; the tree is ours.
 */
#include "cost/cluster/cluster.h"

#define SP_NO_HOLDER     UINT32_MAX
#define SP_FLEET_MATCHED 1024 /* more children of one part than that are taken in their order */

struct sp_fleet {
    const struct sp_cluster *now;    /* the seats */
    const struct sp_cluster *before; /* the holders; `now` where is_known */
    bool is_known;
};

/* Whether a holder may have a seat, as far as these two are concerned. */
bool sp_fleet_pair(const struct sp_fleet *fleet, uint32_t seat, uint32_t holder);

/* Whether the seats of all holders together are allowed. holder_of is per seat. */
bool sp_fleet_allows(const struct sp_fleet *fleet, const uint32_t *holder_of);

/* The seats that keep most: keep[seat * holders + holder] are bytes. ret_holder_of has a place per seat. Ties stay as
   numbered. */
enum sp_status sp_fleet_match(struct sp_arena *scratch, const struct sp_fleet *fleet, const double *keep,
                              uint32_t *ret_holder_of, struct sp_error *err);
