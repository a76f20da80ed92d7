#pragma once
/* internal - the text of the dialect of ONNX Runtime; private to core/sharding. */
#include "base/buf.h"
#include "sharding/dialect.h"

/* `S[0]R device_mesh_shape=[2] device_mesh_elements=[0,1]`, the bare spec, or JSON with these members. A spec without
   mesh has mesh_rank and element_count 0. */
enum sp_status sp_ort_read_text(struct sp_arena *arena, const char *text, size_t size, struct sp_ort_spec *ret_spec,
                                struct sp_error *err);
void sp_ort_write_text(const struct sp_ort_spec *spec, struct sp_buf *buf);
