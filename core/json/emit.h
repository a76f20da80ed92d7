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

struct emit {
    struct sp_buf *buf;
    uint32_t depth;
    size_t open[SP_MAX_NESTING + 8]; /* where payloads begin of messages and packed runs that are not ended */
};

void emit_varint(struct emit *emit, uint64_t value);
void emit_fixed32(struct emit *emit, uint32_t value);
void emit_fixed64(struct emit *emit, uint64_t value);
void emit_tag(struct emit *emit, uint32_t field, enum sp_wire_type type);

/* Whole fields. */
void emit_int(struct emit *emit, uint32_t field, int64_t value);
void emit_bytes(struct emit *emit, uint32_t field, const void *bytes, size_t size);
void emit_word(struct emit *emit, uint32_t field, const char *word);

/* A writer whose depth an input decides asks emit_is_full() first; a few messages more have room. */
void emit_begin(struct emit *emit, uint32_t field);
void emit_end(struct emit *emit);

static inline bool emit_is_full(const struct emit *emit)
{
    return emit->depth >= SP_MAX_NESTING;
}
