#pragma once
/*
 * emit - protobuf's bytes, written front to back.
 *
 * A message inside a message is begun, filled and ended; its length prefix gets the shortest form. Failures (the
 * buffer's ceiling, memory) stick in the buffer and are asked for once, at the end.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/limits.h"
#include "onnx/wire.h"

struct sp_emit {
    struct sp_buf *buf;
    uint32_t depth;
    size_t open[SP_MAX_NESTING + 8]; /* where payloads begin of messages and packed runs that are not ended */
};

void sp_emit_varint(struct sp_emit *emit, uint64_t value);
void sp_emit_fixed32(struct sp_emit *emit, uint32_t value);
void sp_emit_fixed64(struct sp_emit *emit, uint64_t value);
void sp_emit_tag(struct sp_emit *emit, uint32_t field, enum sp_wire_type type);

/* Whole fields. */
void sp_emit_int(struct sp_emit *emit, uint32_t field, int64_t value);
void sp_emit_bytes(struct sp_emit *emit, uint32_t field, const void *bytes, size_t size);
void sp_emit_word(struct sp_emit *emit, uint32_t field, const char *word);

/* A writer whose depth an input decides asks sp_emit_is_full() first; a few messages more have room. */
void sp_emit_begin(struct sp_emit *emit, uint32_t field);
void sp_emit_end(struct sp_emit *emit);

static inline bool sp_emit_is_full(const struct sp_emit *emit)
{
    return emit->depth >= SP_MAX_NESTING;
}
