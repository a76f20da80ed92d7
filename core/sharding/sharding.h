#pragma once
/*
 * sharding - which device holds which part of a tensor: the one form that everything in Shardplan works with.
 *
 * A sharding is written in one of two ways.
 *
 *  AXES    a mesh, and for each tensor axis the mesh axes that split it, major to minor. What a mesh axis is
 *          not used for is replicated. `replicated` says so explicitly (and bars it from use), `partial` axes
 *          hold summands of the value (or maxima, or minima: `combiner`) that are still to be combined, `manual`
 *          axes are the program's own affair.
 *
 *              mesh <["x"=2, "y"=4]>, [{"y"}, {}], unreduced={"x"}
 *
 *  BLOCKS  ONNX's device lists, where no mesh exists. Each tensor axis is cut in blocks, through one part or
 *          several: the axis is viewed as a row-major grid of the parts' extents, and part j is cut in `shards`
 *          pieces. Shards are numbered row-major over (axis, part), and each is held by a set of devices.
 *
 *              axis 0 of 8 = {2 in 1} * {4 in 2}, devices 0, 1
 *              device 0 holds 0, 1, 4, 5; device 1 holds 2, 3, 6, 7
 *
 * The other kinds know no rank: REPLICATED (whole, on whatever devices there are), SINGLE (whole on one device),
 * MANUAL, UNREDUCED and UNKNOWN (of XLA), TUPLE (of several tensors).
 *
 * Blocks. An axis of extent D in n shards is cut in blocks of c = ceil(D / n): shard i holds [min(i*c, D), min((i+1)*c,
 * D)), so the last blocks may be shorter or empty (as XLA and torch.chunk do). With parts, D = e_1 * .. * e_k and part
 * j is cut that way on its own; at most one part may leave its extent open (0), it is then what is left of D.
 *
 * One device may hold several shards (BLOCKS only); it holds them concatenated in the order of their numbers.
 *
 * Invariants (sp_sharding_check()): all refs of an AXES sharding obey axis.h, no two of all its lists overlap and all
 * can coexist, no list has neighbours that could be merged, the unordered lists (replicated, partial, manual) are
 * sorted. AXES has rank `rank` >= 0. In BLOCKS, `rank` counts the axes that are written down; `is_rank_open` says that
 * the form it came from does not say how many whole axes follow (ONNX).
 */
#include "base/ranges.h"
#include "ops/table/op.h"
#include "sharding/axis.h"

enum sp_sharding_kind {
    SP_SHARDING_REPLICATED = 0,
    SP_SHARDING_SINGLE,
    SP_SHARDING_MANUAL,
    SP_SHARDING_UNREDUCED,
    SP_SHARDING_UNKNOWN,
    SP_SHARDING_AXES,
    SP_SHARDING_BLOCKS,
    SP_SHARDING_TUPLE,
};

struct sp_dim_sharding {
    struct sp_axis_list axes;
    bool is_open; /* may be split further by inference (Shardy's '?') */
    bool has_priority;
    int64_t priority; /* Shardy's p0, p1, ..: 0 is the strongest */
};

struct sp_block_part {
    int64_t extent;    /* of this part, 0: what is left of the axis */
    const char *param; /* the symbol it was written with, or NULL; informative */
    int64_t shards;    /* 1 or more */
    /* Of a cut (infer/view/axis_cuts.h), never of a sharding: shards + 1 numbers, ascending from 0. The part has
       bounds[shards] blocks, and shard i is those from bounds[i] to bounds[i + 1]. NULL: a block each. */
    const int64_t *bounds;
};

struct sp_block_dim {
    uint32_t part_count; /* 0: the axis is whole */
    struct sp_block_part *parts;
};

/* Whether each shard is on one device and the devices count up, where somebody has looked. */
enum sp_run { SP_RUN_UNKNOWN = 0, SP_RUN_YES, SP_RUN_NO };

struct sp_sharding {
    enum sp_sharding_kind kind;
    uint32_t rank;             /* AXES, BLOCKS */
    int64_t device;            /* SINGLE */
    enum sp_combiner combiner; /* UNREDUCED, and AXES with partial axes: SUM, MAX or MIN */

    /* AXES */
    const struct sp_mesh *mesh;
    struct sp_dim_sharding *dims;
    struct sp_axis_list replicated, partial, manual;

    /* BLOCKS */
    bool is_rank_open;
    struct sp_block_dim *blocks;
    int64_t shard_count;   /* product over all parts */
    const uint32_t *first; /* shard s is held by devices[first[s]] .. devices[first[s + 1] - 1]; NULL: placement open */
    const int64_t *devices; /* ascending within a shard */
    enum sp_run run;        /* of this placement */

    /* TUPLE */
    uint32_t element_count;
    struct sp_sharding *elements;
};

/* What a conversion could not carry over: full sentences with a stable code. Same arena as the result. */
struct sp_loss {
    const char *code; /* static, e.g. "OPEN_DIMS_LOST" */
    const char *message;
};
struct sp_losses {
    uint32_t count, capacity;
    struct sp_loss *items;
};
/* Adds one, unless its code is there already. `losses` may be NULL. SP_ERR_MEMORY is the only error. */
__attribute__((format(printf, 5, 6))) enum sp_status sp_losses_add(struct sp_arena *arena, struct sp_losses *losses,
                                                                   struct sp_error *err, const char *code,
                                                                   const char *format, ...);

/* An AXES sharding of this rank in which nothing is split yet: closed empty dims. */
enum sp_status sp_sharding_create_axes(struct sp_arena *arena, const struct sp_mesh *mesh, uint32_t rank,
                                       struct sp_sharding **ret_sharding, struct sp_error *err);

/*
 * The invariants, and against a tensor and a number of devices where they are known: `shape` NULL or `rank` extents (0
 * is legal, -1 not known), `device_count` 0 when unknown. Messages say which axis, device or shard. Divisibility and
 * shards
 * <= extent are not required. A sharding of another rank is SP_ERR_REQUEST "RANK_MISMATCH".
 */
enum sp_status sp_sharding_check(const struct sp_sharding *sharding, int64_t rank, const int64_t *shape,
                                 int64_t device_count, struct sp_error *err);

/* Shards along a tensor axis: product of its mesh axes or parts; 1 for the kinds without rank. */
int64_t sp_sharding_shards(const struct sp_sharding *sharding, uint32_t axis);

/* The largest piece that a device holds: ceil blocks, shards on one device added up. `ret_tile` has `rank` entries. */
enum sp_status sp_sharding_tile_shape(const struct sp_sharding *sharding, uint32_t rank, const int64_t *shape,
                                      int64_t *ret_tile, struct sp_error *err);

/* ---- who holds what ---- */

/* The elements of one block of an axis of this extent: block `index`, row-major over the parts. `axis` is for messages.
 */
enum sp_status sp_block_ranges(struct sp_arena *arena, const struct sp_block_dim *dim, uint32_t axis, int64_t extent,
                               int64_t index, struct sp_axis_ranges *ret_ranges, struct sp_error *err);

/* One shard is the product of its axes' ranges: axis a of shard i is shards[i * rank + a]; without a range it is empty.
 */
struct sp_held {
    uint32_t rank, shard_count; /* no shards: the device holds nothing of the tensor */
    struct sp_axis_ranges *shards;
};

/* The devices named by the sharding, ascending and once each; SP_ERR_REQUEST "DEVICES_UNKNOWN" for the kinds that name
   none (REPLICATED, MANUAL, UNREDUCED, UNKNOWN, an empty mesh, an open placement) unless device_count > 0: then
   0..count-1. SP_ERR_LIMIT above SP_MAX_LISTED_DEVICES. */
enum sp_status sp_sharding_devices(struct sp_arena *arena, const struct sp_sharding *sharding, int64_t device_count,
                                   int64_t *ret_count, const int64_t **ret_devices, struct sp_error *err);

/* Who holds which shard of BLOCKS with a placement, by device, then shard. */
struct sp_holder {
    int64_t device, shard;
};
struct sp_holders {
    int64_t count;
    struct sp_holder *items;
};
enum sp_status sp_sharding_holders(struct sp_arena *arena, const struct sp_sharding *sharding,
                                   struct sp_holders *ret_holders, struct sp_error *err);

/* What one device holds of a tensor of this shape. Costs nothing for the other devices: lazy in the number of devices.
   A device that the sharding does not name holds nothing. MANUAL and UNKNOWN are SP_ERR_REQUEST "HOLDING_UNKNOWN". */
enum sp_status sp_sharding_held(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t rank,
                                const int64_t *shape, int64_t device, struct sp_held *ret_held, struct sp_error *err);

/* Several shards that are together a box (each axis' indices with each other's) as one shard; *ret_joined is false, and
   they stay as they are, where they are none. */
enum sp_status sp_held_join(struct sp_arena *arena, struct sp_held *held, bool *ret_joined, struct sp_error *err);

/* One device's tile, by tensor axis: its coordinate among the tiles, and the elements that it has. */
struct sp_tile {
    int64_t index[SP_MAX_RANK];
    struct sp_range ranges[SP_MAX_RANK];
};
/* Of all kinds but BLOCKS with several shards on the device. *ret_found is false for a device without a tile. */
enum sp_status sp_sharding_tile(const struct sp_sharding *sharding, uint32_t rank, const int64_t *shape, int64_t device,
                                bool *ret_found, struct sp_tile *ret_tile, struct sp_error *err);

/*
 * The devices of an AXES sharding in the order of tiles: row-major over the tensor axes' tiles, then manual, partial
 * and replicated axes, explicit or not (XLA's tile assignment, HloShardingV3 to V2). `ret_dims` gets rank entries and
 * then the sizes of the three groups, 1 where there is none. Lazy: an iota stays an iota.
 */
enum sp_status sp_sharding_device_array(struct sp_arena *arena, const struct sp_sharding *sharding, int64_t *ret_dims,
                                        struct sp_device_order *ret_order, struct sp_error *err);

/*
 * Whether each device holds the same elements under both, and the same axes are partial with the same combiner. With a
 * shape, exactly; without (NULL), for extents that all numbers of shards divide. Above SP_MAX_LISTED_DEVICES devices
 * the comparison is by structure, so that it is lazy: two iotas are compared as iotas.
 */
enum sp_status sp_sharding_equal(struct sp_arena *arena, const struct sp_sharding *a, const struct sp_sharding *b,
                                 uint32_t rank, const int64_t *shape, bool *ret_equal, struct sp_error *err);
