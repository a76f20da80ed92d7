#pragma once
/*
 * moves - what is sent to whom so that every device has what a plan needs, and how long it takes.
 *
 * Given the atoms (holdings.h) and who sits where (fleet.h), what a device needs and has is kept; every other atom that
 * it needs is one message to it, from a device that has it or, where none does, from the *store*: wherever the weights
 * are, a disk or another machine, that every device reaches at the bandwidth of its host link (where nothing is said of
 * that, of the cluster's slowest link).
 *
 * Time. A message takes what sp_cluster_transfer_seconds() says. A device sends one message at a time and receives one
 * at a time, both at once, and what any other two do is no matter. Then all is done after
 *
 *     T = max over devices of (sum of what it sends, sum of what it receives)
 *
 * in a schedule that may interrupt messages (Gonzalez and Sahni, "Open shop scheduling to minimize finish time", J. ACM
 * 23, 1976), and never before. Who sends what is chosen so that T is small: messages by falling bytes to the sender by
 * whom the two devices concerned end first; then single ones of the device that ends last go to others while that
 * helps; where all choices are few, they are tried. Seats are the ones that keep most bytes; where there are up to
 * SP_MOVES_TRIED ways to sit, the way with the least T, then the fewest bytes.
 *
 * Bounds, whatever is chosen: bytes that no device has must be loaded; a device needs at least the fastest way for each
 * message; who alone has something sends it.
 *
 * Requests in flight end before the moves, or begin anew after them: their activations and caches are not moved.
 */
#include "plan/replan/fleet.h"
#include "plan/replan/holdings.h"

#define SP_FROM_STORE  UINT32_MAX
#define SP_MOVES_TRIED 4          /* devices, before and now, up to which all ways to sit are tried */
#define SP_MOVES_EXACT 4096       /* choices of senders, up to which all are tried */
#define SP_MOVES_PAIRS (1u << 22) /* seats times holders; with more of them, devices stay as numbered */

struct sp_move {
    uint32_t weight, from, to; /* seats; from: or SP_FROM_STORE */
    struct sp_range *box;      /* per axis; NULL: all of it */
    double bytes;
};

/* What becomes of one seat. */
struct sp_seat {
    uint32_t holder; /* or SP_NO_HOLDER */
    double kept_bytes, received_bytes, sent_bytes, freed_bytes;
};

struct sp_moves {
    struct sp_seat *seats; /* per device of the new cluster */
    double bytes, kept_bytes, store_bytes, bytes_bound;
    double seconds, seconds_bound;
    uint32_t count; /* 0 unless they are listed */
    struct sp_move *items;
};

/* What moves are made of. */
struct sp_moving {
    const struct sp_workload *workload; /* on the new cluster */
    struct sp_fleet fleet;
    const struct sp_weight_parts *before; /* devices are holders; weights those of `workload` */
    const double *held_bytes;             /* per holder: of `before` */
};

/* Bytes that each holder has, per holder of `count`; in `arena`, NULL without memory. */
const double *sp_held_bytes(struct sp_arena *arena, const struct sp_workload *workload,
                            const struct sp_weight_parts *parts, uint32_t count);

/* From what there is to what `now` says. `lists`: with every move, adjacent atoms joined. In `arena`. */
enum sp_status sp_moves_find(struct sp_arena *arena, const struct sp_moving *moving, const struct sp_weight_parts *now,
                             bool lists, struct sp_moves *ret_moves, struct sp_error *err);
