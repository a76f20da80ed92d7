#pragma once
/* compose - ONNX proposal 0007 from devices alone, written on its own: what views are compared with. */
#include "sharding/convert_forms.h"

/*
 * The sharding of the result of a broadcasting elementwise operator (proposal 0007): inputs are aligned at their last
 * axes; on an axis where an input has extent 1 it broadcasts. All inputs that do not broadcast on an axis must split it
 * the same way; an input must not split an axis on which it broadcasts. The devices of a result shard are the
 * intersection of the devices of the input shards it is computed from. Errors, each naming the inputs by index:
 * SP_ERR_MODEL "SPLIT_MISMATCH", "EMPTY_INTERSECTION". Inputs may be of any kind with known holdings; the result is
 * BLOCKS. `shapes[i]` has ranks[i] extents; device_count names
 * the devices 0..N-1 of kinds that name none.
 */
enum sp_status compose_shardings(struct sp_arena *arena, uint32_t input_count, const struct sp_sharding *const *inputs,
                                 const uint32_t *ranks, const int64_t *const *shapes, int64_t device_count,
                                 struct sp_sharding **ret_result, struct sp_error *err);
