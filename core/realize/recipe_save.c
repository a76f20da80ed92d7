#include <string.h>
#include <xxhash.h>

#include "base/words.h"
#include "realize/recipe_internal.h"

/*
 * A saved recipe is, in little-endian 64-bit words: magic, number of segments, number of box words, bytes of locations,
 * bytes of literals; three words for each segment (4 * source + kind; offset; size); the boxes one after the other
 * (number of axes, and for each, outermost first, its extent in indices, number of ranges, start and limit of each);
 * the locations, each with a NUL; the literals; and the XXH3 hash of all that.
 */
#define MAGIC         "SPRECIP1"
#define WORD          sizeof(uint64_t)
#define HEADER_WORDS  5
#define SEGMENT_WORDS 3

/* ---- saving ----------------------------------------------------------------------------------------------------- */

struct output {
    const struct sp_sink *sink;
    XXH3_state_t *hash;
    bool ok;
};

static void emit(struct output *out, const void *bytes, size_t size)
{
    out->ok = out->ok && (size == 0 || (XXH3_64bits_update(out->hash, bytes, size) == XXH_OK &&
                                        out->sink->write(out->sink->context, bytes, size)));
}

static void emit_word(struct output *out, uint64_t word)
{
    unsigned char bytes[WORD];
    sp_put_word(bytes, word);
    emit(out, bytes, WORD);
}

static uint64_t box_words(const struct sp_recipe *recipe, const struct sp_segment *segment)
{
    uint64_t words = 0;
    if (segment->kind != SP_SEGMENT_BOX)
        return 0;
    for (uint32_t i = 0; i < segment->axis_count; i++)
        words += 2 + 2 * (uint64_t)recipe->axes[segment->axis + i].range_count;
    return words + 1;
}

static void emit_box(struct output *out, const struct sp_recipe *recipe, const struct sp_segment *segment)
{
    if (segment->kind != SP_SEGMENT_BOX)
        return;
    emit_word(out, segment->axis_count);
    for (uint32_t i = segment->axis_count; i-- > 0;) {
        const struct sp_box_axis *axis = &recipe->axes[segment->axis + i];
        emit_word(out, axis->dim);
        emit_word(out, axis->range_count);
        for (uint32_t k = 0; k < axis->range_count; k++) {
            emit_word(out, recipe->ranges[axis->first_range + k].start);
            emit_word(out, recipe->ranges[axis->first_range + k].limit);
        }
    }
}

static void save(struct output *out, const struct sp_recipe *recipe)
{
    uint64_t words = 0, location_bytes = 0;
    for (uint32_t i = 0; i < recipe->segment_count; i++)
        words += box_words(recipe, &recipe->segments[i]);
    for (uint32_t i = 1; i < sp_recipe_source_count(recipe); i++)
        location_bytes += strlen(sp_recipe_location(recipe, i)) + 1;
    emit(out, MAGIC, WORD);
    emit_word(out, recipe->segment_count);
    emit_word(out, words);
    emit_word(out, location_bytes);
    emit_word(out, recipe->literals.size);
    for (uint32_t i = 0; i < recipe->segment_count; i++) {
        const struct sp_segment *segment = &recipe->segments[i];
        emit_word(out, (uint64_t)segment->source << 2 | segment->kind);
        emit_word(out, segment->offset);
        emit_word(out, segment->size);
    }
    for (uint32_t i = 0; i < recipe->segment_count; i++)
        emit_box(out, recipe, &recipe->segments[i]);
    for (uint32_t i = 1; i < sp_recipe_source_count(recipe); i++)
        emit(out, sp_recipe_location(recipe, i), strlen(sp_recipe_location(recipe, i)) + 1);
    emit(out, recipe->literals.data, recipe->literals.size);
}

enum sp_status sp_recipe_save(const struct sp_recipe *recipe, const struct sp_sink *sink, struct sp_error *err)
{
    unsigned char digest[WORD];
    struct output out = {sink, XXH3_createState(), true};
    if (out.hash == NULL)
        return sp_fail_memory(err);
    out.ok = XXH3_64bits_reset(out.hash) == XXH_OK;
    save(&out, recipe);
    sp_put_word(digest, XXH3_64bits_digest(out.hash));
    out.ok = out.ok && sink->write(sink->context, digest, WORD);
    XXH3_freeState(out.hash);
    return out.ok ? SP_OK : sp_fail(err, SP_ERR_IO, "WRITE_FAILED", "The result could not be written.");
}

/* ---- loading ---------------------------------------------------------------------------------------------------- */

struct input {
    struct sp_recipe *recipe;
    const unsigned char *boxes, *literals;
    uint64_t box_words, literal_size; /* words that are left */
};

static bool take_word(struct input *in, uint64_t most, uint64_t *ret)
{
    if (in->box_words == 0 || sp_get_word(in->boxes) > most)
        return false;
    *ret = sp_get_word(in->boxes);
    in->boxes += WORD;
    in->box_words--;
    return true;
}

static bool take_axis(struct input *in, int64_t *ret_dim, struct sp_axis_ranges *ret_axis, struct sp_arena *arena)
{
    uint64_t dim, count, start, limit;
    if (!take_word(in, INT64_MAX, &dim) || !take_word(in, in->box_words / 2, &count))
        return false;
    struct sp_range *ranges = SP_NEW_ARRAY(arena, count, struct sp_range);
    if (ranges == NULL)
        return sp_recipe_failed(in->recipe, SP_ERR_MEMORY, NULL, 0);
    for (uint64_t i = 0; i < count; i++) {
        if (!take_word(in, INT64_MAX, &start) || !take_word(in, INT64_MAX, &limit))
            return false;
        ranges[i] = (struct sp_range){(int64_t)start, (int64_t)limit};
    }
    *ret_dim = (int64_t)dim;
    *ret_axis = (struct sp_axis_ranges){(uint32_t)count, ranges};
    return true;
}

static bool load_box(struct input *in, uint32_t source, uint64_t offset, struct sp_arena *arena)
{
    int64_t dims[SP_BOX_MAX_AXES];
    struct sp_axis_ranges axes[SP_BOX_MAX_AXES];
    uint64_t rank;
    const struct sp_arena_mark mark = sp_arena_mark(arena);
    bool ok = take_word(in, SP_BOX_MAX_AXES, &rank);
    for (uint64_t i = 0; ok && i < rank; i++)
        ok = take_axis(in, &dims[i], &axes[i], arena);
    ok = ok && sp_recipe_box(in->recipe, source, offset, (uint32_t)rank, dims, 8, axes);
    sp_arena_rewind(arena, mark);
    return ok;
}

static bool load_segment(struct input *in, const unsigned char *words, struct sp_arena *arena)
{
    struct sp_recipe *recipe = in->recipe;
    const uint64_t head = sp_get_word(words), offset = sp_get_word(words + WORD), size = sp_get_word(words + 2 * WORD);
    const uint64_t source = head >> 2, before = recipe->size;
    bool ok = size > 0 && source < sp_recipe_source_count(recipe);
    switch (head & 3) {
    case SP_SEGMENT_LITERAL:
        ok = ok && source == 0 && offset == recipe->literals.size && size <= in->literal_size - offset &&
             sp_recipe_add(recipe, in->literals + offset, (size_t)size);
        break;
    case SP_SEGMENT_RANGE:
        ok = ok && sp_recipe_keep(recipe, (uint32_t)source, offset, size);
        break;
    case SP_SEGMENT_BOX:
        ok = ok && load_box(in, (uint32_t)source, offset, arena);
        break;
    default:
        return false;
    }
    return ok && recipe->size - before == size;
}

static bool load_locations(struct sp_recipe *recipe, const char *text, uint64_t size)
{
    while (size > 0) {
        const char *end = memchr(text, '\0', (size_t)size);
        const uint32_t expected = sp_recipe_source_count(recipe);
        uint32_t source;
        if (end == NULL || end == text || !sp_recipe_source(recipe, text, &source) || source != expected)
            return false;
        size -= (uint64_t)(end - text) + 1;
        text = end + 1;
    }
    return true;
}

static bool load(struct input *in, const unsigned char *segments, uint64_t count, const char *locations,
                 uint64_t location_bytes)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    if (arena == NULL)
        return sp_recipe_failed(in->recipe, SP_ERR_MEMORY, NULL, 0);
    bool ok = load_locations(in->recipe, locations, location_bytes);
    for (uint64_t i = 0; ok && i < count; i++)
        ok = load_segment(in, segments + i * SEGMENT_WORDS * WORD, arena);
    sp_arena_destroy(arena);
    return ok && in->box_words == 0 && in->recipe->literals.size == in->literal_size;
}

enum sp_status sp_recipe_load(const void *bytes, size_t size, struct sp_recipe **ret_recipe, struct sp_error *err)
{
    static const char broken[] = "The saved recipe is damaged (%s).";
    const unsigned char *in = bytes;
    const size_t header = HEADER_WORDS * WORD;
    if (size < header + WORD || memcmp(in, MAGIC, WORD) != 0)
        return sp_fail(err, SP_ERR_MALFORMED, "BAD_RECIPE", broken, "it is too short or does not begin as one");
    const uint64_t count = sp_get_word(in + WORD), words = sp_get_word(in + 2 * WORD);
    const uint64_t location_bytes = sp_get_word(in + 3 * WORD), literal_size = sp_get_word(in + 4 * WORD);
    const uint64_t body = size - header - WORD;
    if (count > body / (SEGMENT_WORDS * WORD) || words > (body - count * SEGMENT_WORDS * WORD) / WORD ||
        location_bytes > body - (count * SEGMENT_WORDS + words) * WORD ||
        literal_size != body - (count * SEGMENT_WORDS + words) * WORD - location_bytes ||
        literal_size > SP_SPLICE_MAX_LITERAL)
        return sp_fail(err, SP_ERR_MALFORMED, "BAD_RECIPE", broken, "its parts do not fill it");
    if (XXH3_64bits(in, size - WORD) != sp_get_word(in + size - WORD))
        return sp_fail(err, SP_ERR_MALFORMED, "BAD_RECIPE", broken, "its checksum is wrong");
    struct sp_recipe *recipe = sp_recipe_create();
    if (recipe == NULL)
        return sp_fail_memory(err);
    const unsigned char *boxes = in + header + count * SEGMENT_WORDS * WORD, *locations = boxes + words * WORD;
    struct input input = {recipe, boxes, locations + location_bytes, words, literal_size};
    if (!load(&input, in + header, count, (const char *)locations, location_bytes)) {
        const enum sp_status failed = recipe->failed;
        sp_recipe_destroy(recipe);
        return failed == SP_ERR_MEMORY
                   ? sp_fail_memory(err)
                   : sp_fail(err, SP_ERR_MALFORMED, "BAD_RECIPE", broken, "a part lies outside its source");
    }
    *ret_recipe = recipe;
    return SP_OK;
}
