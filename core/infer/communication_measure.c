#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/array.h"
#include "base/limits.h"
#include "infer/communication_internal.h"

enum sp_status sp_communicate(struct sp_communicator *all, const struct sp_communication *what, const char *format, ...)
{
    struct sp_communications *list = all->list;
    struct sp_arena *arena = all->assignment->arena;
    char text[SP_ERROR_MESSAGE_SIZE];
    if (!SP_MAKE_ROOM(arena, list->items, list->count, list->capacity, 1))
        return sp_fail_memory(all->err);
    SP_FORMAT(text, format);
    struct sp_communication *item = &list->items[list->count];
    *item = *what;
    item->node = all->relation->node;
    item->because = sp_arena_string(arena, text, strlen(text));
    if (item->because == NULL)
        return sp_fail_memory(all->err);
    list->count++;
    return SP_OK;
}

const struct sp_value *sp_communicated_value(const struct sp_communicator *all, uint32_t operand)
{
    uint32_t tensor = all->relation->tensors[operand];
    const struct sp_value *value = tensor == SP_NO_TENSOR ? NULL : all->assignment->dataflow->tensors[tensor];
    bool has_rank = value != NULL && value->type.kind == SP_TYPE_TENSOR && value->type.shape.has_rank &&
                    value->type.shape.rank <= SP_MAX_RANK;
    return has_rank ? value : NULL;
}

bool sp_communicated_shape(const struct sp_value *value, const struct sp_sharding *a, const struct sp_sharding *b,
                           int64_t *ret_shape)
{
    const struct sp_shape *shape = &value->type.shape;
    bool is_known = true;
    for (uint32_t i = 0; i < shape->rank; i++) {
        ret_shape[i] = shape->dims[i].value;
        if (sp_dim_is_known(shape->dims[i]))
            continue;
        is_known = false;
        if (!sp_mul_i64(sp_sharding_shards(a, i), sp_sharding_shards(b, i), &ret_shape[i]))
            ret_shape[i] = 1;
    }
    return is_known;
}

/* "all-gather, all-slice": the kinds of the steps, each once in a row; "" when nothing is sent. */
enum sp_status sp_name_steps(struct sp_communicator *all, const struct sp_reshard *reshard, const char **ret_steps)
{
    char text[256] = "";
    size_t used = 0;
    *ret_steps = "";
    if (reshard->total_bytes <= 0)
        return SP_OK;
    for (uint32_t i = 0; i < reshard->step_count && used < sizeof text; i++) {
        if (i > 0 && reshard->steps[i].kind == reshard->steps[i - 1].kind)
            continue;
        int length = snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? ", " : "",
                              sp_collective_name(reshard->steps[i].kind));
        used += length > 0 ? (size_t)length : 0;
    }
    *ret_steps = sp_arena_string(all->assignment->arena, text, strlen(text));
    return *ret_steps != NULL ? SP_OK : sp_fail_memory(all->err);
}

/* The devices that talk, where one step does. */
int64_t sp_group_of(const struct sp_reshard *reshard)
{
    int64_t size = 0;
    for (uint32_t i = 0; i < reshard->step_count; i++) {
        if (reshard->steps[i].bytes <= 0)
            continue;
        if (size > 0)
            return 0;
        size = reshard->steps[i].group_size;
    }
    return size > 1 ? size : 0;
}

/* Pieces are compared with pieces, and sequences of collectives are searched for: a model of thousands of nodes, each
   with another long list of devices, would take minutes. What is beyond the budget is needed all the same, but not
   worked out. */
enum sp_status sp_plan_way(struct sp_communicator *all, const struct sp_value *value, const int64_t *shape,
                           const struct sp_sharding *from, const struct sp_sharding *to,
                           struct sp_reshard **ret_reshard)
{
    const int64_t devices = all->assignment->device_count;
    const uint64_t a = (uint64_t)sp_placed_devices(from, devices), b = (uint64_t)sp_placed_devices(to, devices);
    uint64_t *left = sp_view_cache_ways_left(all->assignment->cache);
    *ret_reshard = NULL;
    if (a > UINT32_MAX || b > UINT32_MAX || SP_WAY_WORK + a * b > *left)
        return SP_OK;
    *left -= SP_WAY_WORK + a + b;
    const uint64_t steps = *left / SP_WAY_STEP_WORK;
    uint64_t steps_left = steps;
    struct sp_mesh_level level = {.name = "link", .size = (uint32_t)devices, .bandwidth = 1};
    struct sp_links links = {1, &level};
    struct sp_reshard_request request = {.links = &links,
                                         .rank = value->type.shape.rank,
                                         .shape = shape,
                                         .dtype = value->type.dtype,
                                         .from = from,
                                         .to = to,
                                         .device_count = devices,
                                         .counts_transfers = true,
                                         .steps_left = &steps_left};
    struct sp_error why = {0};
    enum sp_status status = sp_reshard_plan(all->scratch, &request, ret_reshard, &why);
    *left -= (steps - steps_left) * SP_WAY_STEP_WORK;
    if (status != SP_OK)
        *ret_reshard = NULL;
    return status == SP_ERR_MEMORY ? sp_fail_memory(all->err) : SP_OK;
}

struct sp_view_cache_key sp_way_key(const struct sp_communicator *all, enum sp_view_cache_about about,
                                    const struct sp_sharding *from, const struct sp_sharding *to,
                                    const struct sp_value *value, const int64_t *shape)
{
    struct sp_view_cache_key key = sp_view_cache_key(all->scratch, about);
    sp_view_cache_key_add(&key, &from, sizeof from);
    sp_view_cache_key_add(&key, &to, sizeof to);
    sp_view_cache_key_add(&key, &all->assignment->device_count, sizeof all->assignment->device_count);
    sp_view_cache_key_add(&key, &value->type.dtype, sizeof value->type.dtype);
    sp_view_cache_key_add(&key, shape, value->type.shape.rank * sizeof *shape);
    return key;
}

/* A largest piece that was worked out. */
struct known_tile {
    bool is_known;
    int64_t extents[]; /* as many as the rank */
};

static const struct known_tile *find_tile(const struct sp_communicator *all, const struct sp_value *value,
                                          const struct sp_sharding *sharding, const int64_t *shape)
{
    struct sp_view_cache *cache = all->assignment->cache;
    const uint32_t rank = value->type.shape.rank;
    if (sp_view_cache_sharding(cache, sharding, true, &sharding, NULL) != SP_OK)
        return NULL;
    struct sp_view_cache_key key = sp_way_key(all, SP_CACHE_TILE, sharding, NULL, value, shape);
    struct known_tile *known = sp_view_cache_get(cache, &key);
    if (known != NULL)
        return known;
    known = sp_view_cache_put(cache, &key, sizeof *known + rank * sizeof *known->extents);
    if (known != NULL)
        known->is_known = sp_sharding_tile_shape(sharding, rank, shape, known->extents, NULL) == SP_OK;
    return known;
}

double sp_communicated_tile(const struct sp_communicator *all, const struct sp_value *value,
                            const struct sp_sharding *sharding, int64_t *ret_tile)
{
    int64_t shape[SP_MAX_RANK];
    double elements = 1;
    if (!sp_communicated_shape(value, sharding, sharding, shape))
        return -1;
    const struct known_tile *known = find_tile(all, value, sharding, shape);
    if (known == NULL || !known->is_known)
        return -1;
    for (uint32_t i = 0; i < value->type.shape.rank; i++) {
        ret_tile[i] = known->extents[i];
        elements *= (double)ret_tile[i];
    }
    return elements * (double)sp_dtype_bytes(value->type.dtype, 8) / 8; /* small types are packed */
}

int64_t sp_view_shards(const struct sp_view *view, uint8_t factor)
{
    int64_t shards = 1;
    for (uint32_t i = 0; i < view->splits[factor].part_count; i++)
        shards *= view->splits[factor].parts[i].shards;
    return shards;
}
