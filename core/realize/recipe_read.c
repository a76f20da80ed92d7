#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "realize/recipe_internal.h"

static enum sp_status read_failed(const struct sp_recipe *recipe, uint32_t source, struct sp_error *err)
{
    if (source == 0)
        return sp_fail(err, SP_ERR_IO, "READ_FAILED", "The original model could not be read.");
    return sp_fail(err, SP_ERR_IO, "READ_FAILED", "The external data '%.200s' could not be read.",
                   sp_recipe_location(recipe, source));
}

static enum sp_status write_failed(struct sp_error *err)
{
    return sp_fail(err, SP_ERR_IO, "WRITE_FAILED", "The result could not be written.");
}

/* The segment that holds this offset of the result, which is inside it. */
static uint32_t find_segment(const struct sp_recipe *recipe, uint64_t offset)
{
    uint32_t after;
    SP_LOWER_BOUND(after, recipe->segment_count, recipe->segments[after].at <= offset);
    return after - 1;
}

enum sp_status sp_recipe_read(const struct sp_recipe *recipe, const struct sp_recipe_reader *reader, uint64_t offset,
                              void *bytes, size_t size, size_t *ret_size, struct sp_error *err)
{
    unsigned char *out = bytes;
    size_t done = 0;
    if (offset < recipe->size) {
        for (uint32_t i = find_segment(recipe, offset); i < recipe->segment_count && done < size; i++) {
            const struct sp_segment *segment = &recipe->segments[i];
            const uint64_t skip = offset + done - segment->at, left = segment->size - skip;
            const size_t part = left < size - done ? (size_t)left : size - done;
            bool ok = true;
            if (segment->kind == SP_SEGMENT_LITERAL)
                memcpy(out + done, recipe->literals.data + segment->offset + skip, part);
            else if (reader == NULL)
                ok = false;
            else if (segment->kind == SP_SEGMENT_RANGE)
                ok = reader->read(reader->context, segment->source, segment->offset + skip, out + done, part);
            else
                ok = sp_recipe_read_box(recipe, segment, reader, skip, out + done, part);
            if (!ok)
                return read_failed(recipe, segment->source, err);
            done += part;
        }
    }
    *ret_size = done;
    return SP_OK;
}

static bool is_copied(const struct sp_segment *segment, const struct sp_sink *sink)
{
    return sink->copy != NULL && segment->kind == SP_SEGMENT_RANGE && segment->source == 0;
}

/* Sends [*at, end) through the buffer; many small segments become few writes. */
static enum sp_status send(const struct sp_recipe *recipe, const struct sp_recipe_reader *reader,
                           const struct sp_sink *sink, uint64_t at, uint64_t end, unsigned char *buffer,
                           struct sp_error *err)
{
    while (at < end) {
        const size_t most = end - at < SP_RECIPE_BUFFER ? (size_t)(end - at) : SP_RECIPE_BUFFER;
        size_t size = 0;
        enum sp_status status = sp_recipe_read(recipe, reader, at, buffer, most, &size, err);
        if (status != SP_OK)
            return status;
        if (!sink->write(sink->context, buffer, size))
            return write_failed(err);
        at += size;
    }
    return SP_OK;
}

enum sp_status sp_recipe_stream(const struct sp_recipe *recipe, const struct sp_recipe_reader *reader,
                                const struct sp_sink *sink, struct sp_error *err)
{
    unsigned char *buffer = malloc(SP_RECIPE_BUFFER);
    enum sp_status status = SP_OK;
    uint64_t at = 0;
    if (buffer == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && sink->copy != NULL && i < recipe->segment_count; i++) {
        const struct sp_segment *segment = &recipe->segments[i];
        if (!is_copied(segment, sink))
            continue;
        status = send(recipe, reader, sink, at, segment->at, buffer, err);
        if (status == SP_OK && !sink->copy(sink->context, segment->offset, segment->size))
            status = write_failed(err);
        at = segment->at + segment->size;
    }
    if (status == SP_OK)
        status = send(recipe, reader, sink, at, recipe->size, buffer, err);
    free(buffer);
    return status;
}
