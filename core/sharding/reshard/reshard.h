#pragma once
/*
 * reshard - the cheapest way from one sharding of a tensor to another.
 *
 * Where both shardings can be written on one mesh, the way is a sequence of collectives on its axes, each of which
 * keeps the grid of devices and moves axes between the tensor axes' lists:
 *  - all-slice adds axes that are not used at the minor end of lists; no communication
 *  - all-gather drops axes from the minor end of lists; they become replicated
 *  - all-to-all moves axes from the minor end of one tensor axis's list to the minor end of another's
 *  - collective-permute is any change that keeps the number of shards of every tensor axis: each device gets one whole
 *    tile from one device
 *  - all-reduce makes partial axes replicated, reduce-scatter adds them at the minor end of lists
 *  - to-partial makes replicated axes partial: one device keeps the value, the others take the neutral element
 * The least-time sequence is found by A* (Dijkstra's algorithm with a bound) over the shardings that the finest common
 * cut of the axes allows, with the alpha-beta times of collective_cost.h. So there is no full gather where something
 * cheaper exists, and the result is an optimum over these steps, not a heuristic. Axes are cut finer than both
 * shardings need (prime parts); where these are too many for the limits of a search, `is_optimal` is false, parts that
 * stay together are moved together, and slicing, one permute and gathering is tried before a gather of everything.
 *
 * The steps, exactly. The digits of a sequence are the parts between all cuts that the two shardings and the mesh make,
 * each cut further into its prime factors, in every order of these. A step changes the digits' places as said above:
 *  - all-slice, all-gather, reduce-scatter act on any set of digits and any tensor axes at once; an all-to-all is any
 *    set of moves whose tensor axes, sources and targets, are all distinct; an all-reduce takes any set of digits.
 *  - A digit lies at the outermost level at which any two devices differ that differ in it only; the span of a step's
 *    groups is the product of its digits' sizes per level.
 *  - n of collective_cost.h is the result's tile (the fullest device's) for all-gather, the input tile for
 *    reduce-scatter and all-reduce, p times the larger of the tiles before and after for all-to-all.
 *  - A permute leaves partial digits where they are. A device that holds its new tile already receives nothing, the
 *    others take it from a nearest holder; the time is that of one tile over the slowest level used so.
 *  - Uneven blocks: where the list of a tensor axis of extent D changes from a to a * b shards or back, a = 1 or
 *    ceil(D / (a * b)) * b = ceil(D / a) is required; otherwise blocks would shift. A permute needs equal numbers of
 *    shards only.
 *  - Ways of equal time: fewer steps, then fewer bytes, then the lexicographically first.
 * Two meshes of the same devices on which no common digits exist (another device order, cuts that do not nest) are
 * bridged by one permute between sharding steps on the first and on the second mesh, when nothing is partial.
 *
 * Everything else (another set of devices, device lists that are no mesh, several shards per device, more parts than
 * the limit) is a send-receive step: each device takes each piece it lacks from the nearest device that holds it, ties
 * to the least loaded, then to the lower number; per link level it takes the latency per message and the bytes over the
 * bandwidth of the busiest device, sending or receiving; levels work at the same time. Partial values are reduced
 * first. Where a sequence of collectives exists as well, the cheaper way is taken, and the sequence if they are equal;
 * on more than SP_RESHARD_DIRECT_DEVICES devices pieces are only counted where they must be.
 *
 * Memory. The peak of a step is what a device holds before and after it together (an all-slice needs no second copy).
 * With `memory_limit_bytes` no step may pass it; SP_ERR_NOFIT "RESHARD_MEMORY" with the smallest peak that exists.
 */
#include "graph/dtype.h"
#include "sharding/convert_forms.h"
#include "sharding/reshard/collective_cost.h"

#define SP_RESHARD_MAX_DIGITS 20 /* parts of mesh axes in one search */

struct sp_axis_move {
    uint32_t source, target; /* tensor axes */
    struct sp_axis_list axes;
};

/* One piece on its way, or staying (source == target): the product of the axes' ranges. */
struct sp_transfer {
    int64_t source, target;     /* devices */
    const struct sp_range *box; /* rank ranges of the global index */
    double bytes;
};

struct sp_reshard_step {
    enum sp_collective kind;
    const struct sp_sharding *before, *after; /* `after` is AXES on the mesh of the sequence, or the target */
    const struct sp_axis_list *dims;          /* per tensor axis: axes added (all-slice, reduce-scatter) or dropped
                                                 (all-gather); NULL for other kinds */
    struct sp_axis_list axes; /* all axes along which devices talk to each other: the groups are the devices
                                 that differ in these only; empty for permute and send-receive */
    uint32_t move_count;      /* all-to-all */
    const struct sp_axis_move *moves;
    uint64_t transfer_count;             /* send-receive, collective-permute: who sends what to whom */
    const struct sp_transfer *transfers; /* NULL above SP_RESHARD_MAX_TRANSFERS */
    int64_t group_size;                  /* devices of one group; 1 for local steps */
    double bytes;                        /* sent by the busiest device */
    double total_bytes;                  /* sent by all devices together */
    double seconds;
    double peak_bytes; /* on the fullest device */
};

struct sp_reshard {
    uint32_t step_count; /* 0: nothing to do */
    struct sp_reshard_step *steps;
    double seconds, bytes, total_bytes,
        peak_bytes;  /* sums; the peak is the largest, at least what is held in the end */
    bool is_optimal; /* least time over all collective sequences; false when the search was cut at a limit */
};

/* Collectives behind a send-receive. */
struct sp_reshard_arrival {
    bool is_known, is_found;
    struct sp_reshard way; /* no steps */
};
#define SP_RESHARD_MAX_ARRIVALS (SP_MAX_RANK + 2)

struct sp_reshard_request {
    const struct sp_links *links;
    uint32_t rank;
    const int64_t *shape;
    enum sp_dtype dtype;
    const struct sp_sharding *from, *to; /* any kind with known holdings; MANUAL and UNKNOWN are SP_ERR_REQUEST */
    int64_t device_count;                /* for kinds that name no devices; 0: the devices of the other sharding */
    double memory_limit_bytes;           /* per device, 0: none */
    bool collectives_only;               /* no send-receive where there is a sequence of collectives, be it slower */
    bool counts_transfers;               /* who sends what to whom is counted, not listed: `transfers` are NULL */
    /* Steps that searches may still look at, for requests that share them: what a plan looks at is taken off, and a
       search that comes to the end is cut. SP_RESHARD_STEP_PAIRS pairs of pieces and devices are as much as one. NULL:
       each request as many as it may. */
    uint64_t *steps_left;
    /* SP_RESHARD_MAX_ARRIVALS of them, all zero at first, for requests that share all but `from` and have a `to` with a
       mesh, without limits of memory and steps: what collectives behind a send-receive take is found once. Their steps
       are not listed then. NULL: each request finds and lists its own. */
    struct sp_reshard_arrival *arrivals;
};

/* The steps, on `arena`. */
enum sp_status sp_reshard_plan(struct sp_arena *arena, const struct sp_reshard_request *request,
                               struct sp_reshard **ret_reshard, struct sp_error *err);

/* One line for people: "all-gather {"x"} on axis 0: 1.0 MB, 12.5 us". Appended. */
void sp_reshard_step_write(const struct sp_reshard_step *step, struct sp_buf *buf);

/* ---- costs for a search ---- */

/*
 * A sharding on a fixed mesh in a few words, for a search that compares millions of them: the mesh is cut in digits
 * (major to minor), and each digit is replicated, partial, or stands at a place in the list of a tensor axis.
 */
#define SP_LAYOUT_REPLICATED 0xff
#define SP_LAYOUT_PARTIAL    0xfe

struct sp_layout {
    uint8_t axis[SP_RESHARD_MAX_DIGITS];  /* tensor axis, REPLICATED or PARTIAL */
    uint8_t place[SP_RESHARD_MAX_DIGITS]; /* 0 is major; 0 when the axis is not a tensor axis */
};

struct sp_reshard_costs; /* a mesh's digits, its links, closed forms for the common cases and a cache for the others */

/* The digits of the mesh are the prime parts of its axes, major to minor; SP_ERR_LIMIT above SP_RESHARD_MAX_DIGITS.
   `cache_bytes` bounds the cache (0: none), which forgets when it is full. Not thread-safe. */
enum sp_status sp_reshard_costs_create(struct sp_budget *budget, const struct sp_links *links,
                                       const struct sp_mesh *mesh, size_t cache_bytes,
                                       struct sp_reshard_costs **ret_costs, struct sp_error *err);
/* The same for shardings that use whole axes of the mesh: its digits are the axes, cut only where a level of links
   begins. A question takes microseconds where that of all prime parts takes many milliseconds, and the steps that it
   leaves out, which move a part of an axis, hardly ever gain. Digits and levels of the mesh of 0..N-1. */
enum sp_status sp_reshard_costs_create_axes(struct sp_budget *budget, const struct sp_links *links,
                                            const struct sp_mesh *mesh, size_t cache_bytes,
                                            struct sp_reshard_costs **ret_costs, struct sp_error *err);
void sp_reshard_costs_destroy(struct sp_reshard_costs *costs);
uint32_t sp_reshard_costs_digits(const struct sp_reshard_costs *costs);

/* The layout of an AXES sharding on this mesh; SP_ERR_REQUEST when a sub-axis does not fall between digits. */
enum sp_status sp_layout_of(const struct sp_reshard_costs *costs, const struct sp_sharding *sharding,
                            struct sp_layout *ret_layout, struct sp_error *err);

/* Seconds of the least-time sequence of collectives from one layout to another of a tensor, the same as
   sp_reshard_plan() finds with `collectives_only`; INFINITY without memory. `*ret_bytes` (may be NULL): sent by the
   busiest device; of a permute one tile. */
double sp_reshard_cost(struct sp_reshard_costs *costs, uint32_t rank, const int64_t *shape, double element_bytes,
                       const struct sp_layout *from, const struct sp_layout *to, double *ret_bytes);

struct sp_reshard_counts {
    uint64_t fast, cached, searched;
};
struct sp_reshard_counts sp_reshard_costs_counts(const struct sp_reshard_costs *costs);
