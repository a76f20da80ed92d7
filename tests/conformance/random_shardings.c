#include "random_shardings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t random_next(struct random *random)
{
    uint64_t x = random->state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t random_below(struct random *random, uint64_t count)
{
    return random_next(random) % count;
}

bool random_chance(struct random *random, uint32_t percent)
{
    return random_below(random, 100) < percent;
}

__attribute__((noreturn)) static void give_up(const char *what, const struct sp_error *err)
{
    printf("not ok random/%s: %s: %s\n", what, err->code, err->message);
    exit(1);
}

static void shuffle(struct random *random, int64_t count, int64_t *items)
{
    for (int64_t i = count; i > 1; i--) {
        int64_t j = (int64_t)random_below(random, (uint64_t)i), item = items[i - 1];
        items[i - 1] = items[j];
        items[j] = item;
    }
}

/* Devices in another order: a transposed grid, which stays computed, or a shuffled list, at times with other numbers.
 */
static enum sp_status random_order(struct sp_arena *arena, struct random *random, uint32_t axis_count,
                                   const struct sp_mesh_axis *axes, int64_t count, struct sp_device_order *ret_order,
                                   struct sp_error *err)
{
    int64_t dims[8], perm[8];
    for (uint32_t i = 0; i < axis_count; i++) {
        dims[i] = axes[i].size;
        perm[i] = i;
    }
    if (axis_count > 1 && random_chance(random, 40)) {
        shuffle(random, axis_count, dims);
        shuffle(random, axis_count, perm);
        return sp_device_order_iota(arena, axis_count, dims, perm, ret_order, err);
    }
    int64_t *ids = SP_NEW_ARRAY(arena, (size_t)count, int64_t);
    if (!ids)
        return sp_fail_memory(err);
    for (int64_t i = 0; i < count; i++)
        ids[i] = i;
    shuffle(random, count, ids);
    return sp_device_order_list(arena, count, ids, ret_order, err);
}

struct sp_mesh *random_mesh(struct sp_arena *arena, struct random *random, const struct random_mesh_options *options)
{
    static const int64_t sizes[] = {2, 2, 2, 2, 3, 3, 4, 4, 5, 6, 8, 12, 16};
    static const char *const names[] = {"x", "y", "z", "w", "data", "model", "axis_0", "axis_1"};
    struct sp_mesh_axis axes[8];
    uint32_t wanted = 1 + (uint32_t)random_below(random, options->max_axes), count = 0;
    uint32_t first_name = random_chance(random, 80) ? 0 : 4;
    int64_t devices = 1;
    for (uint32_t tries = 0; count < wanted && tries < 12; tries++) {
        int64_t size = sizes[random_below(random, sizeof(sizes) / sizeof(sizes[0]))];
        if (devices * size > options->max_devices)
            continue;
        axes[count] = (struct sp_mesh_axis){.name = names[first_name + count], .size = size};
        devices *= size;
        count++;
    }
    struct sp_error err = {0};
    struct sp_device_order order;
    struct sp_mesh *mesh;
    bool permuted = random_chance(random, options->permuted);
    enum sp_status status = SP_OK;
    if (permuted)
        status = random_order(arena, random, count, axes, devices, &order, &err);
    if (status == SP_OK)
        status = sp_mesh_create(arena, count, axes, permuted ? &order : NULL, &mesh, &err);
    if (status != SP_OK)
        give_up("mesh", &err);
    return mesh;
}

struct part {
    struct sp_axis_ref ref;
    uint32_t use; /* tensor axis, or one of the following */
};
enum { USE_NOTHING = 1000, USE_REPLICATED, USE_PARTIAL };
#define MAX_PARTS 32

/* The parts of all axes: whole ones, or cut at one or more divisors. */
static uint32_t cut_axes(struct random *random, const struct sp_mesh *mesh, uint32_t percent, struct part *parts)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < mesh->axis_count; i++) {
        int64_t pre = 1, rest = mesh->axes[i].size;
        while (rest > 1) {
            int64_t size = rest;
            if (random_chance(random, percent))
                do
                    size = 2 + (int64_t)random_below(random, (uint64_t)rest - 1);
                while (rest % size != 0);
            parts[count++] = (struct part){.ref = {.axis = i, .pre = pre, .size = size}};
            pre *= size;
            rest /= size;
        }
    }
    return count;
}

static void place_parts(struct random *random, uint32_t rank, const struct random_sharding_options *options,
                        uint32_t count, struct part *parts)
{
    bool is_partial = random_chance(random, options->partial);
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = (uint32_t)random_below(random, i);
        struct part part = parts[i - 1];
        parts[i - 1] = parts[j];
        parts[j] = part;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (rank > 0 && random_chance(random, 65))
            parts[i].use = (uint32_t)random_below(random, rank);
        else if (is_partial && random_chance(random, 60))
            parts[i].use = USE_PARTIAL;
        else
            parts[i].use = random_chance(random, options->explicit) ? USE_REPLICATED : USE_NOTHING;
    }
}

static struct sp_axis_list collect(struct sp_arena *arena, uint32_t count, const struct part *parts, uint32_t use)
{
    struct sp_axis_list list = {0};
    list.refs = SP_NEW_ARRAY(arena, count, struct sp_axis_ref);
    if (!list.refs)
        give_up("memory", &(struct sp_error){.code = "OUT_OF_MEMORY"});
    for (uint32_t i = 0; i < count; i++)
        if (parts[i].use == use)
            list.refs[list.count++] = parts[i].ref;
    return list;
}

struct sp_sharding *random_sharding(struct sp_arena *arena, struct random *random, const struct sp_mesh *mesh,
                                    uint32_t rank, const struct random_sharding_options *options)
{
    struct part parts[MAX_PARTS];
    struct sp_sharding *sharding;
    struct sp_error err = {0};
    uint32_t count = cut_axes(random, mesh, options->sub_axes, parts);
    place_parts(random, rank, options, count, parts);
    if (sp_sharding_create_axes(arena, mesh, rank, &sharding, &err) != SP_OK)
        give_up("sharding", &err);
    for (uint32_t a = 0; a < rank; a++) {
        struct sp_dim_sharding *dim = &sharding->dims[a];
        dim->axes = collect(arena, count, parts, a);
        sp_axes_merge(&dim->axes);
        dim->is_open = random_chance(random, options->open);
        dim->has_priority = random_chance(random, options->open / 2) && (dim->axes.count > 0 || dim->is_open);
        dim->priority = dim->has_priority ? (int64_t)random_below(random, 4) : 0;
    }
    sharding->replicated = collect(arena, count, parts, USE_REPLICATED);
    sharding->partial = collect(arena, count, parts, USE_PARTIAL);
    sp_axes_sort_and_merge(&sharding->replicated);
    sp_axes_sort_and_merge(&sharding->partial);
    if (sharding->partial.count > 0)
        sharding->combiner = (enum sp_combiner[]){SP_COMBINE_SUM, SP_COMBINE_SUM, SP_COMBINE_MAX,
                                                  SP_COMBINE_MIN}[random_below(random, 4)];
    if (sp_sharding_check(sharding, rank, NULL, 0, &err) != SP_OK)
        give_up("sharding", &err);
    return sharding;
}

void random_links(struct random *random, int64_t devices, struct sp_mesh_level levels[3], struct sp_links *ret_links)
{
    static const char *const names[] = {"pod", "node", "chip"};
    uint32_t wanted = 1 + (uint32_t)random_below(random, 3), count = 0;
    int64_t rest = devices;
    while (count < wanted) {
        int64_t size = rest;
        if (count + 1 < wanted)
            do
                size = 1 + (int64_t)random_below(random, (uint64_t)rest);
            while (rest % size != 0);
        rest /= size;
        levels[count] = (struct sp_mesh_level){.name = names[count],
                                               .size = (uint32_t)size,
                                               .bandwidth = pow(10, 8 + (double)random_below(random, 400) / 100),
                                               .latency = pow(10, -7 + (double)random_below(random, 400) / 100)};
        count++;
    }
    const double host = random_chance(random, 30) ? pow(10, -7 + (double)random_below(random, 400) / 100) : 0;
    for (uint32_t l = 0; l < count; l++)
        levels[l].host_seconds = host;
    *ret_links = (struct sp_links){.level_count = count, .levels = levels};
}
