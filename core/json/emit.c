#include "json/emit.h"

#include <assert.h>
#include <string.h>

void sp_emit_varint(struct sp_emit *emit, uint64_t value)
{
    unsigned char bytes[10];
    const uint32_t width = sp_wire_varint_size(value);
    sp_wire_put_varint(bytes, value, width);
    sp_buf_append(emit->buf, bytes, width);
}

static void put_fixed(struct sp_emit *emit, uint64_t value, size_t width)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < width; i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
    sp_buf_append(emit->buf, bytes, width);
}

void sp_emit_fixed32(struct sp_emit *emit, uint32_t value)
{
    put_fixed(emit, value, 4);
}

void sp_emit_fixed64(struct sp_emit *emit, uint64_t value)
{
    put_fixed(emit, value, 8);
}

void sp_emit_tag(struct sp_emit *emit, uint32_t field, enum sp_wire_type type)
{
    sp_emit_varint(emit, (uint64_t)field << 3 | (uint64_t)type);
}

void sp_emit_int(struct sp_emit *emit, uint32_t field, int64_t value)
{
    sp_emit_tag(emit, field, SP_WIRE_VARINT);
    sp_emit_varint(emit, (uint64_t)value);
}

void sp_emit_bytes(struct sp_emit *emit, uint32_t field, const void *bytes, size_t size)
{
    sp_emit_tag(emit, field, SP_WIRE_LEN);
    sp_emit_varint(emit, size);
    sp_buf_append(emit->buf, bytes, size);
}

void sp_emit_word(struct sp_emit *emit, uint32_t field, const char *word)
{
    sp_emit_bytes(emit, field, word, strlen(word));
}

void sp_emit_begin(struct sp_emit *emit, uint32_t field)
{
    assert(emit->depth < sizeof emit->open / sizeof emit->open[0]);
    sp_emit_tag(emit, field, SP_WIRE_LEN);
    sp_buf_append(emit->buf, "", 1); /* room for a short length */
    emit->open[emit->depth++] = emit->buf->size;
}

void sp_emit_end(struct sp_emit *emit)
{
    static const unsigned char room[10];
    assert(emit->depth > 0);
    const size_t start = emit->open[--emit->depth], size = emit->buf->size - start;
    const uint32_t width = sp_wire_varint_size(size);
    if (width > 1)
        sp_buf_append(emit->buf, room, width - 1);
    if (sp_buf_failed(emit->buf))
        return;
    unsigned char *at = (unsigned char *)emit->buf->data + start - 1;
    if (width > 1)
        memmove(at + width, at + 1, size);
    sp_wire_put_varint(at, size, width);
}
