/* Shardings in words. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "infer/assignment.h"

/* So many shards, or devices that are no run of numbers, are written out. */
#define LISTED 6

struct text {
    char *bytes;
    size_t size, used;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text->bytes + text->used, text->size - text->used, format, args);
    va_end(args);
    if (length > 0)
        text->used += (size_t)length;
    if (text->used >= text->size) {
        text->used = text->size - 1;
        if (text->size > 3)
            memcpy(text->bytes + text->size - 3, "..", 3);
    }
}

/* ---- devices ---- */

/* "0, 1, 4", "0..7". */
static void add_devices(struct text *text, const int64_t *devices, int64_t count)
{
    if (count > 2 && devices[count - 1] - devices[0] == count - 1) {
        add(text, "%" PRId64 "..%" PRId64, devices[0], devices[count - 1]);
        return;
    }
    for (int64_t i = 0; i < count && i < LISTED; i++)
        add(text, "%s%" PRId64, i > 0 ? ", " : "", devices[i]);
    if (count > LISTED)
        add(text, ", ..");
}

/* Whether the shards are on consecutive devices, one each. */
static bool is_run(const struct sp_sharding *blocks)
{
    if (blocks->run != SP_RUN_UNKNOWN)
        return blocks->run == SP_RUN_YES;
    for (int64_t i = 0; i < blocks->shard_count; i++)
        if (blocks->first[i] != i || blocks->devices[i] != blocks->devices[0] + i)
            return false;
    return blocks->first[blocks->shard_count] == blocks->shard_count;
}

static void add_placement(struct text *text, const struct sp_sharding *blocks)
{
    if (blocks->first == NULL) {
        add(text, " on devices that are left open");
        return;
    }
    uint32_t all = blocks->first[blocks->shard_count];
    add(text, all == 1 ? " on device " : " on devices ");
    if (blocks->shard_count == 1 || is_run(blocks)) {
        add_devices(text, blocks->devices, all);
        return;
    }
    for (int64_t i = 0; i < blocks->shard_count && i < LISTED; i++) {
        uint32_t begin = blocks->first[i], count = blocks->first[i + 1] - begin;
        add(text, i > 0 ? ", " : "");
        if (count != 1)
            add(text, "{");
        add_devices(text, blocks->devices + begin, count);
        if (count != 1)
            add(text, "}");
    }
    if (blocks->shard_count > LISTED)
        add(text, ", ..");
}

/* ---- cuts ---- */

static void add_parts(struct text *text, const struct sp_block_dim *dim)
{
    if (dim->part_count == 1) {
        add(text, " in %" PRId64, dim->parts[0].shards);
        return;
    }
    for (uint32_t i = 0; i < dim->part_count; i++) {
        const struct sp_block_part *part = &dim->parts[i];
        add(text, i > 0 ? " * " : " as ");
        if (part->extent > 0)
            add(text, "{%" PRId64 " in %" PRId64 "}", part->extent, part->shards);
        else
            add(text, "{rest in %" PRId64 "}", part->shards);
    }
}

static void add_refs(struct text *text, const struct sp_mesh *mesh, const struct sp_axis_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        struct sp_axis_ref ref = list->refs[i];
        add(text, "%s\"%.40s\"", i > 0 ? ", " : "", mesh->axes[ref.axis].name);
        if (!sp_axis_is_full(mesh, ref))
            add(text, ":(%" PRId64 ")%" PRId64, ref.pre, ref.size);
    }
}

static void add_mesh(struct text *text, const struct sp_mesh *mesh)
{
    add(text, "the mesh [");
    for (uint32_t i = 0; i < mesh->axis_count; i++)
        add(text, "%s\"%.40s\"=%" PRId64, i > 0 ? ", " : "", mesh->axes[i].name, mesh->axes[i].size);
    add(text, "]");
}

static void add_axes(struct text *text, const struct sp_sharding *axes)
{
    uint32_t split = 0;
    for (uint32_t i = 0; i < axes->rank; i++) {
        if (axes->dims[i].axes.count == 0)
            continue;
        add(text, "%saxis %" PRIu32 " in %" PRId64 " over ", split++ > 0 ? ", " : "", i,
            sp_axes_size(&axes->dims[i].axes));
        add_refs(text, axes->mesh, &axes->dims[i].axes);
    }
    add(text, split > 0 ? " of " : "whole on ");
    add_mesh(text, axes->mesh);
    if (axes->partial.count > 0) {
        add(text, ", partial over ");
        add_refs(text, axes->mesh, &axes->partial);
    }
}

static void add_blocks(struct text *text, const struct sp_sharding *blocks)
{
    uint32_t split = 0;
    for (uint32_t i = 0; i < blocks->rank; i++) {
        if (blocks->blocks[i].part_count == 0)
            continue;
        add(text, "%saxis %" PRIu32, split++ > 0 ? ", " : "", i);
        add_parts(text, &blocks->blocks[i]);
    }
    if (split == 0)
        add(text, "whole");
    add_placement(text, blocks);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): it is written through `out` */
const char *sp_spec_text(const struct sp_sharding *sharding, char *text, size_t size)
{
    struct text out = {text, size, 0};
    if (sharding == NULL) {
        add(&out, "without a sharding");
        return text;
    }
    switch (sharding->kind) {
    case SP_SHARDING_AXES:
        add_axes(&out, sharding);
        break;
    case SP_SHARDING_BLOCKS:
        add_blocks(&out, sharding);
        break;
    case SP_SHARDING_SINGLE:
        add(&out, "whole on device %" PRId64, sharding->device);
        break;
    case SP_SHARDING_REPLICATED:
        add(&out, "whole on all devices");
        break;
    default:
        add(&out, "of a kind that says not what a device holds");
        break;
    }
    return text;
}
