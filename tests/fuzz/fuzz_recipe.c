/*
 * Saved recipes, without the checksum at their end: that is put there, so that what lies behind it is reached.
 * Properties: an error says what; a recipe that is loaded is saved as the same bytes, reads only what its boxes may
 * touch, and gives the same bytes at any offset, however it is read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/buf.h"
#include "fuzz.h"
#include "realize/recipe.h"

#define LOOK ((size_t)5000)

static void expect(bool is_true, const char *what)
{
    if (is_true)
        return;
    (void)fprintf(stderr, "broken: %s\n", what);
    abort();
}

/* A byte is a function of its place, so no source is needed. */
static unsigned char byte_at(uint32_t source, uint64_t offset)
{
    return (unsigned char)((offset * UINT64_C(0x9e3779b97f4a7c15) >> 56) + source);
}

static bool read_source(void *context, uint32_t source, uint64_t offset, void *bytes, size_t size)
{
    const struct sp_recipe *recipe = context;
    expect(source < sp_recipe_source_count(recipe), "a source that there is");
    expect(offset <= INT64_MAX && size <= INT64_MAX - offset, "a range that there can be");
    for (size_t i = 0; i < size; i++)
        ((unsigned char *)bytes)[i] = byte_at(source, offset + i);
    return true;
}

static bool append(void *context, const void *bytes, size_t size)
{
    sp_buf_append(context, bytes, size);
    return !sp_buf_failed(context);
}

/* The same bytes in one read and byte by byte. */
static void look_at(const struct sp_recipe *recipe, uint64_t offset)
{
    static unsigned char all[LOOK], some[LOOK];
    const struct sp_recipe_reader reader = {read_source, (void *)recipe};
    size_t size, part;
    expect(sp_recipe_read(recipe, &reader, offset, all, LOOK, &size, NULL) == SP_OK, "a read");
    expect(size == LOOK || offset + size == sp_recipe_size(recipe) || offset >= sp_recipe_size(recipe), "its size");
    for (size_t at = 0; at < size; at += part) {
        const size_t want = 1 + at % 37;
        expect(sp_recipe_read(recipe, &reader, offset + at, some, want, &part, NULL) == SP_OK && part > 0, "a piece");
        expect(memcmp(some, all + at, part < size - at ? part : size - at) == 0, "the same bytes");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    unsigned char *sealed = malloc(size + 8);
    struct sp_recipe *recipe = NULL;
    struct sp_error err = {0};
    if (sealed == NULL)
        return 0;
    if (size > 0)
        memcpy(sealed, bytes, size);
    const uint64_t hash = XXH3_64bits(sealed, size);
    for (unsigned i = 0; i < 8; i++)
        sealed[size + i] = (unsigned char)(hash >> (8 * i));
    enum sp_status status = sp_recipe_load(sealed, size + 8, &recipe, &err);
    if (status != SP_OK) {
        expect(err.status == status && err.code[0] != '\0' && err.message[0] != '\0', "an error that says what");
    } else {
        struct sp_buf saved;
        sp_buf_init(&saved, (size_t)1 << 28);
        const struct sp_sink sink = {.write = append, .context = &saved};
        expect(sp_recipe_save(recipe, &sink, &err) == SP_OK, "saving");
        struct sp_recipe *again = NULL;
        expect(sp_recipe_load(saved.data, saved.size, &again, &err) == SP_OK, "loading what was saved");
        expect(sp_recipe_size(again) == sp_recipe_size(recipe), "the same size");
        look_at(recipe, 0);
        look_at(again, sp_recipe_size(recipe) / 2);
        look_at(recipe, sp_recipe_size(recipe) - (sp_recipe_size(recipe) < 99 ? sp_recipe_size(recipe) : 99));
        sp_recipe_destroy(again);
        sp_buf_release(&saved);
    }
    sp_recipe_destroy(recipe);
    free(sealed);
    return 0;
}
