#include "build_sharding.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct sp_mesh *build_mesh(struct sp_arena *arena, const char *axes, const struct sp_device_order *order)
{
    struct sp_mesh_axis list[16];
    struct sp_mesh *mesh = NULL;
    struct sp_error err = {0};
    uint32_t count = 0;
    int used;
    char name[32];
    while (sscanf(axes, " %31[^=]=%" SCNd64 "%n", name, &list[count].size, &used) == 2) {
        list[count++].name = sp_arena_string(arena, name, strlen(name));
        axes += used;
    }
    cr_assert_eq(sp_mesh_create(arena, count, list, order, &mesh, &err), SP_OK, "%s", err.message);
    return mesh;
}

/* Refs up to '|' or the end; moves *at there. */
static struct sp_axis_list read_refs(struct sp_arena *arena, const struct sp_mesh *mesh, const char **at)
{
    struct sp_axis_list list = {.refs = SP_NEW_ARRAY(arena, 64, struct sp_axis_ref)};
    for (;;) {
        *at += strspn(*at, " ");
        size_t length = strcspn(*at, " :|");
        if (length == 0)
            return list;
        const char *name = sp_arena_string(arena, *at, length);
        int64_t axis = sp_mesh_find_axis(mesh, name);
        cr_assert_geq(axis, 0, "no axis %s", name);
        struct sp_axis_ref ref = sp_axis_full(mesh, (uint32_t)axis);
        *at += length;
        int used = 0;
        if (sscanf(*at, ":(%" SCNd64 ")%" SCNd64 "%n", &ref.pre, &ref.size, &used) == 2)
            *at += used;
        list.refs[list.count++] = ref;
    }
}

struct sp_axis_list build_refs(struct sp_arena *arena, const struct sp_mesh *mesh, const char *refs)
{
    return read_refs(arena, mesh, &refs);
}

struct sp_sharding *build_axes(struct sp_arena *arena, const struct sp_mesh *mesh, const char *dims)
{
    struct sp_sharding *sharding = NULL;
    struct sp_error err = {0};
    uint32_t rank = *dims != 0;
    for (const char *at = dims; *at; at++)
        rank += *at == '|';
    cr_assert_eq(sp_sharding_create_axes(arena, mesh, rank, &sharding, &err), SP_OK, "%s", err.message);
    for (uint32_t i = 0; i < rank; i++) {
        sharding->dims[i].axes = read_refs(arena, mesh, &dims);
        dims += *dims == '|';
    }
    return sharding;
}

static void read_parts(struct sp_arena *arena, struct sp_block_dim *dim, int64_t *shard_count, const char **at)
{
    dim->parts = SP_NEW_ARRAY(arena, 8, struct sp_block_part);
    for (;;) {
        struct sp_block_part part = {0};
        int used = 0;
        *at += strspn(*at, " ,");
        if (**at == 0 || **at == '|')
            return;
        if (sscanf(*at, "%" SCNd64 "*%" SCNd64 "%n", &part.extent, &part.shards, &used) != 2 || used == 0) {
            part.extent = 0;
            cr_assert_eq(sscanf(*at, "%" SCNd64 "%n", &part.shards, &used), 1);
        }
        *at += used;
        *shard_count *= part.shards;
        dim->parts[dim->part_count++] = part;
    }
}

struct sp_sharding *build_blocks(struct sp_arena *arena, const char *dims, const char *placement)
{
    struct sp_sharding *blocks = SP_NEW(arena, struct sp_sharding);
    *blocks = (struct sp_sharding){.kind = SP_SHARDING_BLOCKS, .rank = *dims != 0, .shard_count = 1};
    for (const char *at = dims; *at; at++)
        blocks->rank += *at == '|';
    blocks->blocks = SP_NEW_ARRAY(arena, blocks->rank, struct sp_block_dim);
    for (uint32_t i = 0; i < blocks->rank; i++) {
        read_parts(arena, &blocks->blocks[i], &blocks->shard_count, &dims);
        dims += *dims == '|';
    }
    if (!placement)
        return blocks;
    uint32_t *first = SP_NEW_ARRAY(arena, (size_t)blocks->shard_count + 1, uint32_t), shard = 0;
    int64_t *devices = SP_NEW_ARRAY(arena, strlen(placement) + 1, int64_t);
    for (const char *at = placement; *at;) {
        at += strspn(at, " ");
        if (*at == ';') {
            first[shard + 2] = first[shard + 1];
            shard++;
            at++;
            continue;
        }
        devices[first[shard + 1]++] = strtoll(at, (char **)&at, 10);
    }
    cr_assert_eq(shard + 1, blocks->shard_count);
    blocks->first = first;
    blocks->devices = devices;
    return blocks;
}

const char *held_text(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t rank, const int64_t *shape,
                      int64_t device)
{
    struct sp_held held;
    struct sp_error err = {0};
    const char *text = "";
    cr_assert_eq(sp_sharding_held(arena, sharding, rank, shape, device, &held, &err), SP_OK, "%s", err.message);
    for (uint32_t i = 0; i < held.shard_count; i++) {
        text = i > 0 ? sp_arena_printf(arena, "%s + ", text) : text;
        for (uint32_t axis = 0; axis < rank; axis++) {
            const struct sp_axis_ranges *ranges = &held.shards[i * rank + axis];
            text = axis > 0 ? sp_arena_printf(arena, "%s x ", text) : text;
            for (uint32_t j = 0; j < ranges->count; j++)
                text = sp_arena_printf(arena, "%s%s%" PRId64 "..%" PRId64, text, j > 0 ? "," : "",
                                       ranges->ranges[j].start, ranges->ranges[j].limit);
            text = ranges->count == 0 ? sp_arena_printf(arena, "%s-", text) : text;
        }
    }
    return held.shard_count == 0 ? "nothing" : text;
}

const char *refs_text(struct sp_arena *arena, const struct sp_mesh *mesh, const struct sp_axis_list *list)
{
    const char *text = "";
    for (uint32_t i = 0; i < list->count; i++) {
        struct sp_axis_ref ref = list->refs[i];
        text = sp_arena_printf(arena, "%s%s%s", text, i > 0 ? " " : "", mesh->axes[ref.axis].name);
        if (!sp_axis_is_full(mesh, ref))
            text = sp_arena_printf(arena, "%s:(%" PRId64 ")%" PRId64, text, ref.pre, ref.size);
    }
    return text;
}

const char *placement_text(struct sp_arena *arena, const struct sp_sharding *blocks)
{
    const char *text = "";
    for (int64_t shard = 0; shard < blocks->shard_count; shard++)
        for (uint32_t i = blocks->first[shard]; i < blocks->first[shard + 1]; i++)
            text = sp_arena_printf(arena, "%s%s%" PRId64, text,
                                   i == 0                      ? ""
                                   : i == blocks->first[shard] ? "; "
                                                               : " ",
                                   blocks->devices[i]);
    return text;
}

/* ---- chance ---- */

/* The same grid with an axis of size 1 before it, on devices that do not start at 0. */
static const struct sp_mesh *move_mesh(struct sp_arena *arena, const struct sp_mesh *mesh)
{
    struct sp_mesh_axis axes[8] = {{.name = "one", .size = 1}};
    struct sp_device_order order;
    struct sp_mesh *moved = NULL;
    struct sp_error err = {0};
    int64_t ids[64];
    for (int64_t i = 0; i < mesh->order.count; i++)
        ids[i] = sp_device_order_at(&mesh->order, i) + 5;
    memcpy(axes + 1, mesh->axes, mesh->axis_count * sizeof *axes);
    cr_assert_eq(sp_device_order_list(arena, mesh->order.count, ids, &order, &err), SP_OK, "%s", err.message);
    cr_assert_eq(sp_mesh_create(arena, mesh->axis_count + 1, axes, &order, &moved, &err), SP_OK, "%s", err.message);
    return moved;
}

struct sp_sharding *random_axes(struct sp_arena *arena, struct random *random, uint32_t rank)
{
    const struct random_mesh_options meshes = {.max_devices = 64, .max_axes = 4, .permuted = 66};
    const struct random_sharding_options shardings = {.sub_axes = 50, .explicit = 40};
    const struct sp_mesh *mesh = random_mesh(arena, random, &meshes);
    if (random_chance(random, 20))
        mesh = move_mesh(arena, mesh);
    return random_sharding(arena, random, mesh, rank, &shardings);
}
