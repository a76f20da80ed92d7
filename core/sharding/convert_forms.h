#pragma once
/*
 * convert_forms - from the mesh form to the device-list form and back.
 *
 * Both directions keep what every device holds, exactly. What the target form cannot say is added to `losses`: open
 * dims, priorities, names of axes, explicit replication, the order of replicas. What cannot be kept at all is an error
 * (SP_ERR_UNSUPPORTED) that says why: blocks that are not contiguous, device sets of different sizes or devices with
 * several shards have no mesh; partial and manual axes have no device list.
 */
#include "sharding/sharding.h"

/* What is known beside a sharding, or beside a text of it. Zeroes mean: nothing, save `rank`, which is -1 then. */
struct sp_dialect_context {
    int64_t rank;               /* -1: unknown */
    const int64_t *shape;       /* `rank` extents, or NULL */
    int64_t device_count;       /* 0: unknown */
    const struct sp_mesh *mesh; /* for ort and shardy texts that name none, and for what is written; or NULL */
    int hlo_version;            /* enum sp_hlo_version, for what is written */
    const char *tensor_name;    /* for onnx, or NULL */
};

/*
 * As BLOCKS. `device_count` names the devices 0..N-1 of kinds that name none (0: then SP_ERR_REQUEST). Uneven extents
 * are fine: one mesh split of an axis is one part; SP_ERR_UNSUPPORTED "PARTIAL_LOST", "MANUAL_LOST" for such axes.
 */
enum sp_status sp_sharding_to_blocks(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t rank,
                                     int64_t device_count, struct sp_sharding **ret_blocks, struct sp_losses *losses,
                                     struct sp_error *err);

/*
 * As AXES of the rank of the context, on a mesh with one axis per split ("axis_0", ..) and one for replicas; an AXES sharding comes
 * back as it is. Parts that together are one contiguous split become one (which needs extents: the context's or written
 * ones). REPLICATED, UNREDUCED and MANUAL need `device_count`; SINGLE becomes the single-device mesh. The context
 * must have the rank; its mesh and its version are not used.
 */
enum sp_status sp_sharding_to_axes(struct sp_arena *arena, const struct sp_sharding *sharding,
                                   const struct sp_dialect_context *context, struct sp_sharding **ret_axes,
                                   struct sp_losses *losses, struct sp_error *err);
