#include "onnx/splice.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/array.h"
#include "base/sorted.h"
#include "base/words.h"

/*
 * Segments with the place where each begins in the result, so that any offset is found by binary search:
 *
 *   segments: | keep 0..120 | add 0..7 | keep 121..900 | ...
 *   result:   0            120        127            906
 *
 * A saved splice is, in little-endian 64-bit words: magic, original size, number of segments, size of the literals;
 * then two words for each segment (offset; size, with the highest bit set for literals); the literals; and the XXH3
 * hash of all that.
 */
struct segment {
    uint64_t at;     /* in the result */
    uint64_t offset; /* in the original or the literals */
    uint64_t size;
    bool is_literal;
};

struct sp_splice {
    uint64_t original_size, size;
    struct segment *segments;
    uint32_t count, capacity;
    struct sp_buf literals;
    bool lacked_memory; /* why something could not be added, and not that it does not fit */
};

#define MAGIC        "SPSPLIC1"
#define WORD         sizeof(uint64_t)
#define HEADER_WORDS 4
#define LITERAL_MARK (UINT64_C(1) << 63)
#define CHUNK        ((size_t)16 << 10) /* bytes copied at a time through a source */

struct sp_splice *sp_splice_create(uint64_t original_size)
{
    struct sp_splice *splice = calloc(1, sizeof *splice);
    if (splice == NULL)
        return NULL;
    splice->original_size = original_size;
    sp_buf_init(&splice->literals, SP_SPLICE_MAX_LITERAL);
    return splice;
}

void sp_splice_destroy(struct sp_splice *splice)
{
    if (splice == NULL)
        return;
    sp_buf_release(&splice->literals);
    free(splice->segments);
    free(splice);
}

static bool append(struct sp_splice *splice, bool is_literal, uint64_t offset, uint64_t size)
{
    struct segment *last = splice->count == 0 ? NULL : &splice->segments[splice->count - 1];
    if (size > UINT64_MAX / 2 - splice->size)
        return false;
    if (last != NULL && last->is_literal == is_literal && last->offset + last->size == offset) {
        last->size += size;
        splice->size += size;
        return true;
    }
    if (!SP_MAKE_ROOM(NULL, splice->segments, splice->count, splice->capacity, 1)) {
        splice->lacked_memory = true;
        return false;
    }
    assert(splice->segments != NULL);
    splice->segments[splice->count++] = (struct segment){splice->size, offset, size, is_literal};
    splice->size += size;
    return true;
}

bool sp_splice_keep(struct sp_splice *splice, uint64_t offset, uint64_t size)
{
    if (offset > splice->original_size || size > splice->original_size - offset)
        return false;
    return size == 0 || append(splice, false, offset, size);
}

bool sp_splice_add(struct sp_splice *splice, const void *bytes, size_t size)
{
    const uint64_t offset = splice->literals.size;
    if (size == 0)
        return true;
    sp_buf_append(&splice->literals, bytes, size);
    if (sp_buf_failed(&splice->literals)) {
        splice->lacked_memory = size <= splice->literals.ceiling - offset;
        return false;
    }
    return append(splice, true, offset, size);
}

uint64_t sp_splice_size(const struct sp_splice *splice)
{
    return splice->size;
}

uint64_t sp_splice_original_size(const struct sp_splice *splice)
{
    return splice->original_size;
}

/* ---- reading the result ---------------------------------------------------------------------------------------- */

static enum sp_status read_failed(struct sp_error *err)
{
    return sp_fail(err, SP_ERR_IO, "READ_FAILED", "The original model could not be read.");
}

static enum sp_status write_failed(struct sp_error *err)
{
    return sp_fail(err, SP_ERR_IO, "WRITE_FAILED", "The result could not be written.");
}

static enum sp_status copy_original(const struct segment *segment, const struct sp_source *source,
                                    const struct sp_sink *sink, struct sp_error *err)
{
    unsigned char chunk[CHUNK];
    if (sink->copy != NULL)
        return sink->copy(sink->context, segment->offset, segment->size) ? SP_OK : write_failed(err);
    for (uint64_t done = 0; done < segment->size;) {
        size_t size = segment->size - done < CHUNK ? (size_t)(segment->size - done) : CHUNK;
        if (source == NULL || !source->read(source->context, segment->offset + done, chunk, size))
            return read_failed(err);
        if (!sink->write(sink->context, chunk, size))
            return write_failed(err);
        done += size;
    }
    return SP_OK;
}

enum sp_status sp_splice_stream(const struct sp_splice *splice, const struct sp_source *source,
                                const struct sp_sink *sink, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    for (size_t i = 0; status == SP_OK && i < splice->count; i++) {
        const struct segment *segment = &splice->segments[i];
        if (!segment->is_literal)
            status = copy_original(segment, source, sink, err);
        else if (!sink->write(sink->context, splice->literals.data + segment->offset, (size_t)segment->size))
            status = write_failed(err);
    }
    return status;
}

/* The segment that holds this offset of the result, which is inside it. */
static size_t find_segment(const struct sp_splice *splice, uint64_t offset)
{
    size_t after;
    SP_LOWER_BOUND(after, splice->count, splice->segments[after].at <= offset);
    return after - 1;
}

enum sp_status sp_splice_read(const struct sp_splice *splice, const struct sp_source *source, uint64_t offset,
                              void *bytes, size_t size, size_t *ret_size, struct sp_error *err)
{
    unsigned char *out = bytes;
    size_t done = 0;
    if (offset < splice->size) {
        for (size_t i = find_segment(splice, offset); i < splice->count && done < size; i++) {
            const struct segment *segment = &splice->segments[i];
            const uint64_t skip = offset + done - segment->at, left = segment->size - skip;
            const size_t part = left < size - done ? (size_t)left : size - done;
            if (segment->is_literal)
                memcpy(out + done, splice->literals.data + segment->offset + skip, part);
            else if (source == NULL || !source->read(source->context, segment->offset + skip, out + done, part))
                return read_failed(err);
            done += part;
        }
    }
    *ret_size = done;
    return SP_OK;
}

/* ---- keeping --------------------------------------------------------------------------------------------------- */

/* Writes and hashes. */
static bool emit(const struct sp_sink *sink, XXH3_state_t *hash, const void *bytes, size_t size)
{
    return size == 0 || (XXH3_64bits_update(hash, bytes, size) == XXH_OK && sink->write(sink->context, bytes, size));
}

static bool save(const struct sp_splice *splice, const struct sp_sink *sink, XXH3_state_t *hash)
{
    unsigned char words[HEADER_WORDS * WORD];
    memcpy(words, MAGIC, WORD);
    sp_put_word(words + WORD, splice->original_size);
    sp_put_word(words + 2 * WORD, splice->count);
    sp_put_word(words + 3 * WORD, splice->literals.size);
    if (XXH3_64bits_reset(hash) != XXH_OK || !emit(sink, hash, words, sizeof words))
        return false;
    for (size_t i = 0; i < splice->count; i++) {
        const struct segment *segment = &splice->segments[i];
        sp_put_word(words, segment->offset);
        sp_put_word(words + WORD, segment->size | (segment->is_literal ? LITERAL_MARK : 0));
        if (!emit(sink, hash, words, 2 * WORD))
            return false;
    }
    if (!emit(sink, hash, splice->literals.data, splice->literals.size))
        return false;
    sp_put_word(words, XXH3_64bits_digest(hash));
    return sink->write(sink->context, words, WORD);
}

enum sp_status sp_splice_save(const struct sp_splice *splice, const struct sp_sink *sink, struct sp_error *err)
{
    XXH3_state_t *hash = XXH3_createState();
    if (hash == NULL)
        return sp_fail_memory(err);
    enum sp_status status = save(splice, sink, hash) ? SP_OK : write_failed(err);
    XXH3_freeState(hash);
    return status;
}

/* Rebuilds the segments through the same functions that made them; false when something does not fit. */
static bool load_segments(struct sp_splice *splice, const unsigned char *words, uint64_t count,
                          const unsigned char *literals, uint64_t literal_size)
{
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t offset = sp_get_word(words + 2 * i * WORD), word = sp_get_word(words + (2 * i + 1) * WORD);
        const uint64_t size = word & ~LITERAL_MARK;
        if (size == 0)
            return false;
        if ((word & LITERAL_MARK) == 0) {
            if (!sp_splice_keep(splice, offset, size))
                return false;
        } else if (offset != splice->literals.size || size > literal_size - offset ||
                   !sp_splice_add(splice, literals + offset, (size_t)size)) {
            return false;
        }
    }
    return splice->literals.size == literal_size;
}

enum sp_status sp_splice_load(const void *bytes, size_t size, struct sp_splice **ret_splice, struct sp_error *err)
{
    static const char broken[] = "The saved splice is damaged (%s).";
    const unsigned char *in = bytes;
    const size_t header = HEADER_WORDS * WORD;
    if (size < header + WORD || memcmp(in, MAGIC, WORD) != 0)
        return sp_fail(err, SP_ERR_MALFORMED, "BAD_SPLICE", broken, "it is too short or does not begin as one");
    const uint64_t count = sp_get_word(in + 2 * WORD), literal_size = sp_get_word(in + 3 * WORD);
    const uint64_t body = size - header - WORD;
    if (count > body / (2 * WORD) || literal_size != body - count * 2 * WORD || literal_size > SP_SPLICE_MAX_LITERAL)
        return sp_fail(err, SP_ERR_MALFORMED, "BAD_SPLICE", broken, "its parts do not fill it");
    if (XXH3_64bits(in, size - WORD) != sp_get_word(in + size - WORD))
        return sp_fail(err, SP_ERR_MALFORMED, "BAD_SPLICE", broken, "its checksum is wrong");
    struct sp_splice *splice = sp_splice_create(sp_get_word(in + WORD));
    if (splice == NULL)
        return sp_fail_memory(err);
    if (!load_segments(splice, in + header, count, in + header + count * 2 * WORD, literal_size)) {
        const bool lacked_memory = splice->lacked_memory;
        sp_splice_destroy(splice);
        if (lacked_memory)
            return sp_fail_memory(err);
        return sp_fail(err, SP_ERR_MALFORMED, "BAD_SPLICE", broken, "a part lies outside the original");
    }
    *ret_splice = splice;
    return SP_OK;
}

bool sp_splice_is_over(const void *head, uint64_t original_size)
{
    static_assert(SP_SPLICE_HEAD_BYTES == HEADER_WORDS * WORD, "what is to be read of a file");
    const unsigned char *in = head;
    return memcmp(in, MAGIC, WORD) == 0 && sp_get_word(in + WORD) == original_size;
}
