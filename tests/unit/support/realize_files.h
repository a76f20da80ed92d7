#pragma once
/* realize_files - recipes as bytes, for tests of what is made of a model that was read (onnx_files.h). */
#include <criterion/criterion.h>

#include "onnx_files.h"
#include "realize/recipe.h"

/* What recipes read: the model's file as source 0, any other location as one file of 10,000 bytes. */
struct realize_world {
    const char *model;
    size_t model_size;
    const unsigned char *other;
    size_t other_size;
};

static inline bool realize_read(void *context, uint32_t source, uint64_t offset, void *bytes, size_t size)
{
    const struct realize_world *world = context;
    const char *from = source == 0 ? world->model : (const char *)world->other;
    const size_t all = source == 0 ? world->model_size : world->other_size;
    cr_assert(offset <= all && size <= all - offset, "source %u: %zu bytes at %lu", source, size,
              (unsigned long)offset);
    memcpy(bytes, from + offset, size);
    return true;
}

static inline bool realize_append(void *context, const void *bytes, size_t size)
{
    sp_buf_append(context, bytes, size);
    return !sp_buf_failed(context);
}

static inline struct sp_buf realize_bytes(const struct sp_recipe *recipe, struct realize_world *world)
{
    struct sp_buf buf;
    struct sp_error err = {0};
    const struct sp_recipe_reader reader = {realize_read, world};
    sp_buf_init(&buf, (size_t)1 << 24);
    const struct sp_sink sink = {.write = realize_append, .context = &buf};
    cr_assert_eq(sp_recipe_stream(recipe, &reader, &sink, &err), SP_OK, "%s", err.message);
    cr_assert_eq(buf.size, sp_recipe_size(recipe));
    return buf;
}
