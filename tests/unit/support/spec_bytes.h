#pragma once
/* spec_bytes - a ShardingSpecProto as the library's reader of models takes it: as the one annotation of a model of one
   node. */
#include "base/error.h"
#include "graph/model.h"

/* The record is in `arena`, without a name where that is empty; errors are those of sp_onnx_read(). */
enum sp_status spec_read_bytes(struct sp_arena *arena, const void *bytes, size_t size,
                               struct sp_sharding_spec *ret_spec, struct sp_error *err);
