#include "infer/view/cache.h"

#include <string.h>

#include "base/hash_map.h"
#include "base/limits.h"
#include "infer/interned_shardings.h"

/* A sharding that was asked for by its address, and the one that is written like it. */
struct known_address {
    const struct sp_sharding *asked, *same;
};

struct keyed {
    size_t size;
    const unsigned char *key;
    void *value;
};

/* 0, 1, .. as places and as devices: what most placements are, so that all share them. */
struct numbers {
    int64_t count;
    uint32_t *first;
    int64_t *devices;
};

struct sp_view_cache {
    struct sp_arena *arena;
    uint64_t seed;
    struct sp_hash_map addresses, shardings, keys;
    struct numbers numbers;
    uint64_t points_left, listed, most_listed, ways_left;
    size_t view_room;
};

enum sp_status sp_view_cache_create(struct sp_arena *arena, const struct sp_model *model,
                                    struct sp_view_cache **ret_cache, struct sp_error *err)
{
    struct sp_view_cache *cache = SP_NEW(arena, struct sp_view_cache);
    if (cache == NULL)
        return sp_fail_memory(err);
    cache->arena = cache->addresses.arena = cache->shardings.arena = cache->keys.arena = arena;
    cache->seed = model->hash_seed;
    cache->points_left = SP_FREE_VIEW_POINTS + model->size * SP_VIEW_POINTS_PER_BYTE;
    cache->most_listed = SP_FREE_KEPT_DEVICES + model->size;
    cache->ways_left = SP_FREE_WAYS_WORK + model->size * SP_WAYS_WORK_PER_BYTE;
    cache->view_room = SP_MAX_KEPT_VIEW_BYTES;
    *ret_cache = cache;
    return SP_OK;
}

struct sp_arena *sp_view_cache_arena(const struct sp_view_cache *cache)
{
    return cache->arena;
}

bool sp_view_cache_spend(struct sp_view_cache *cache, int64_t points)
{
    if ((uint64_t)points > cache->points_left)
        return false;
    cache->points_left -= (uint64_t)points;
    return true;
}

bool sp_view_cache_is_full(const struct sp_view_cache *cache)
{
    return cache->listed > cache->most_listed;
}

size_t *sp_view_cache_view_room(struct sp_view_cache *cache)
{
    return &cache->view_room;
}

uint64_t *sp_view_cache_ways_left(struct sp_view_cache *cache)
{
    return &cache->ways_left;
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static const unsigned char *bytes_of(const struct sp_view_cache_key *key)
{
    return key->large != NULL ? key->large : key->small;
}

void sp_view_cache_key_add(struct sp_view_cache_key *key, const void *bytes, size_t size)
{
    if (size > key->capacity - key->size && !key->is_broken) {
        size_t wanted = 4 * key->capacity + size;
        unsigned char *larger = SP_NEW_ARRAY(key->arena, wanted, unsigned char);
        key->is_broken = larger == NULL;
        if (larger != NULL)
            memcpy(larger, bytes_of(key), key->size);
        key->large = larger;
        key->capacity = wanted;
    }
    if (key->is_broken || size == 0)
        return;
    memcpy((key->large != NULL ? key->large : key->small) + key->size, bytes, size);
    key->size += size;
}

struct sp_view_cache_key sp_view_cache_key(struct sp_arena *arena, enum sp_view_cache_about about)
{
    struct sp_view_cache_key key = {.arena = arena, .capacity = SP_CACHE_SMALL_KEY};
    sp_view_cache_key_add(&key, &about, sizeof about);
    return key;
}

static bool is_keyed(const void *item, const void *wanted)
{
    const struct keyed *keyed = item;
    const struct sp_view_cache_key *key = wanted;
    return keyed->size == key->size && memcmp(keyed->key, bytes_of(key), key->size) == 0;
}

void *sp_view_cache_get(const struct sp_view_cache *cache, const struct sp_view_cache_key *key)
{
    if (key->is_broken)
        return NULL;
    const uint64_t hash = sp_digest(bytes_of(key), key->size, cache->seed);
    const struct keyed *item = sp_hash_set_find(&cache->keys, hash, is_keyed, key);
    return item != NULL ? item->value : NULL;
}

void *sp_view_cache_put(struct sp_view_cache *cache, const struct sp_view_cache_key *key, size_t size)
{
    struct keyed *item = key->is_broken ? NULL : SP_NEW(cache->arena, struct keyed);
    unsigned char *copy = item != NULL ? SP_NEW_ARRAY(cache->arena, key->size, unsigned char) : NULL;
    void *value = copy != NULL ? sp_arena_alloc(cache->arena, size) : NULL;
    if (value == NULL)
        return NULL;
    memcpy(copy, bytes_of(key), key->size);
    *item = (struct keyed){key->size, copy, value};
    return sp_hash_set_add(&cache->keys, sp_digest(copy, key->size, cache->seed), item) ? value : NULL;
}

/* ---- equal shardings --------------------------------------------------------------------------------------------- */

static bool is_one_each(const struct sp_sharding *blocks)
{
    for (int64_t i = 0; i <= blocks->shard_count; i++)
        if (blocks->first[i] != i)
            return false;
    return true;
}

/* Whether each shard is on one device, and these count up. */
static enum sp_run run_of(const struct sp_sharding *blocks)
{
    if (blocks->run != SP_RUN_UNKNOWN || blocks->first == NULL)
        return blocks->run;
    bool is_run = is_one_each(blocks);
    for (int64_t i = 1; i < blocks->shard_count && is_run; i++)
        is_run = blocks->devices[i] == blocks->devices[0] + i;
    return is_run ? SP_RUN_YES : SP_RUN_NO;
}

static bool is_same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool is_same_blocks(const struct sp_sharding *a, const struct sp_sharding *b)
{
    if (a->shard_count != b->shard_count || a->is_rank_open != b->is_rank_open ||
        (a->first == NULL) != (b->first == NULL))
        return false;
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->blocks[i].part_count != b->blocks[i].part_count)
            return false;
        for (uint32_t k = 0; k < a->blocks[i].part_count; k++) {
            const struct sp_block_part *x = &a->blocks[i].parts[k], *y = &b->blocks[i].parts[k];
            if (x->shards != y->shards || x->extent != y->extent || !is_same_text(x->param, y->param))
                return false;
        }
    }
    if (a->first == NULL)
        return true;
    if (a->run == SP_RUN_YES && b->run == SP_RUN_YES)
        return a->devices[0] == b->devices[0];
    size_t places = (size_t)a->shard_count + 1, devices = a->first[a->shard_count];
    return (a->first == b->first || memcmp(a->first, b->first, places * sizeof *a->first) == 0) &&
           (a->devices == b->devices || memcmp(a->devices, b->devices, devices * sizeof *a->devices) == 0);
}

static bool is_same(const void *item, const void *wanted)
{
    const struct sp_sharding *a = item, *b = wanted;
    if (a->kind != b->kind || a->rank != b->rank)
        return false;
    return a->kind == SP_SHARDING_BLOCKS ? is_same_blocks(a, b)
                                         : sp_is_same_axes(a, b) && sp_mesh_equal(a->mesh, b->mesh, true);
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return sp_digest(&value, sizeof value, hash);
}

static uint64_t hash_blocks(const struct sp_sharding *blocks, uint64_t hash)
{
    for (uint32_t i = 0; i < blocks->rank; i++) {
        hash = mix(hash, blocks->blocks[i].part_count);
        for (uint32_t k = 0; k < blocks->blocks[i].part_count; k++) {
            hash = mix(hash, (uint64_t)blocks->blocks[i].parts[k].shards);
            hash = mix(hash, (uint64_t)blocks->blocks[i].parts[k].extent);
        }
    }
    if (blocks->first == NULL)
        return hash;
    if (blocks->run == SP_RUN_YES)
        return mix(hash, (uint64_t)blocks->devices[0]);
    size_t devices = blocks->first[blocks->shard_count];
    hash = sp_digest(blocks->first, ((size_t)blocks->shard_count + 1) * sizeof *blocks->first, hash);
    return devices == 0 ? hash : sp_digest(blocks->devices, devices * sizeof *blocks->devices, hash);
}

static uint64_t hash_list(const struct sp_axis_list *list, uint64_t hash)
{
    hash = mix(hash, list->count);
    for (uint32_t i = 0; i < list->count; i++) {
        hash = mix(hash, list->refs[i].axis);
        hash = mix(hash, (uint64_t)list->refs[i].pre);
        hash = mix(hash, (uint64_t)list->refs[i].size);
    }
    return hash;
}

static uint64_t hash_axes(const struct sp_sharding *axes, uint64_t hash)
{
    const struct sp_mesh *mesh = axes->mesh;
    hash = mix(hash, (uint64_t)mesh->order.count);
    for (uint32_t i = 0; i < mesh->axis_count; i++)
        hash = mix(hash, (uint64_t)mesh->axes[i].size);
    for (int64_t i = 0; i < mesh->order.count && i < 8; i++) /* of an order, some devices */
        hash = mix(hash, (uint64_t)sp_device_order_at(&mesh->order, i));
    for (uint32_t i = 0; i < axes->rank; i++)
        hash = hash_list(&axes->dims[i].axes, hash);
    return hash_list(&axes->partial, hash_list(&axes->replicated, hash));
}

static uint64_t hash_sharding(const struct sp_view_cache *cache, const struct sp_sharding *sharding)
{
    uint64_t hash = mix(mix(cache->seed, sharding->kind), sharding->rank);
    return sharding->kind == SP_SHARDING_BLOCKS ? hash_blocks(sharding, hash) : hash_axes(sharding, hash);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* 0, 1, .. up to `count` at least. */
static bool number(struct sp_view_cache *cache, int64_t count)
{
    struct numbers *numbers = &cache->numbers;
    if (numbers->devices != NULL && count <= numbers->count)
        return true;
    if (count < 2 * numbers->count)
        count = 2 * numbers->count;
    uint32_t *first = SP_NEW_ARRAY(cache->arena, (size_t)count + 1, uint32_t);
    int64_t *devices = SP_NEW_ARRAY(cache->arena, (size_t)count, int64_t);
    if (first == NULL || devices == NULL)
        return false;
    for (int64_t i = 0; i < count; i++) {
        first[i] = (uint32_t)i;
        devices[i] = i;
    }
    first[count] = (uint32_t)count;
    *numbers = (struct numbers){count, first, devices};
    return true;
}

static bool counts_up(const int64_t *devices, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (devices[i] != (int64_t)i)
            return false;
    return true;
}

/* The placement of a copy; what is 0, 1, .. is shared. */
static bool copy_placement(struct sp_view_cache *cache, const struct sp_sharding *from, struct sp_sharding *to)
{
    size_t count = from->first[from->shard_count], places = (size_t)from->shard_count + 1;
    const bool is_run = from->run == SP_RUN_YES;
    const bool is_plain = is_run || is_one_each(from);
    const bool is_range = is_run ? from->devices[0] == 0 : counts_up(from->devices, count);
    if ((is_plain || is_range) && !number(cache, (int64_t)count))
        return false;
    uint32_t *first = is_plain ? cache->numbers.first : SP_NEW_ARRAY(cache->arena, places, uint32_t);
    int64_t *devices = is_range ? cache->numbers.devices : SP_NEW_ARRAY(cache->arena, count, int64_t);
    if (first == NULL || devices == NULL)
        return false;
    if (!is_plain)
        memcpy(first, from->first, places * sizeof *first);
    if (!is_range && count > 0)
        memcpy(devices, from->devices, count * sizeof *devices);
    cache->listed += is_range && (is_plain || places == 2) ? 0 : count;
    to->first = first;
    to->devices = devices;
    return true;
}

/* A copy of BLOCKS. */
static struct sp_sharding *copy_blocks(struct sp_view_cache *cache, const struct sp_sharding *from)
{
    struct sp_sharding *copy = SP_NEW(cache->arena, struct sp_sharding);
    struct sp_block_dim *dims = SP_NEW_ARRAY(cache->arena, from->rank, struct sp_block_dim);
    if (copy == NULL || dims == NULL)
        return NULL;
    *copy = *from;
    copy->blocks = dims;
    for (uint32_t i = 0; i < from->rank; i++) {
        uint32_t count = from->blocks[i].part_count;
        dims[i] = (struct sp_block_dim){count, SP_NEW_ARRAY(cache->arena, count, struct sp_block_part)};
        if (dims[i].parts == NULL)
            return NULL;
        if (count > 0)
            memcpy(dims[i].parts, from->blocks[i].parts, count * sizeof *dims[i].parts);
    }
    return from->first == NULL || copy_placement(cache, from, copy) ? copy : NULL;
}

static bool is_asked(const void *item, const void *wanted)
{
    return ((const struct known_address *)item)->asked == wanted;
}

static bool add_address(struct sp_view_cache *cache, const struct sp_sharding *asked, const struct sp_sharding *same)
{
    struct known_address *known = SP_NEW(cache->arena, struct known_address);
    if (known == NULL)
        return false;
    *known = (struct known_address){asked, same};
    return sp_hash_set_add(&cache->addresses, mix(cache->seed, (uint64_t)(uintptr_t)asked), known);
}

static enum sp_status keep_sharding(struct sp_view_cache *cache, const struct sp_sharding *sharding, uint64_t hash,
                                    const struct sp_sharding **ret_same, struct sp_error *err)
{
    struct sp_sharding *kept = copy_blocks(cache, sharding);
    if (kept == NULL || !sp_hash_set_add(&cache->shardings, hash, kept) || !add_address(cache, kept, kept))
        return sp_fail_memory(err);
    *ret_same = kept;
    return SP_OK;
}

static enum sp_status find_same(struct sp_view_cache *cache, const struct sp_sharding *asked,
                                const struct sp_sharding **ret_same, struct sp_error *err)
{
    struct sp_sharding own = *asked, *sharding = &own;
    if (own.kind == SP_SHARDING_BLOCKS)
        own.run = run_of(asked);
    const uint64_t hash = hash_sharding(cache, sharding);
    const struct sp_sharding *same = sp_hash_set_find(&cache->shardings, hash, is_same, sharding);
    if (same != NULL) {
        *ret_same = same;
        return SP_OK;
    }
    if (sharding->kind == SP_SHARDING_BLOCKS)
        return keep_sharding(cache, sharding, hash, ret_same, err);
    struct sp_sharding *shallow = SP_NEW(cache->arena, struct sp_sharding);
    if (shallow == NULL)
        return sp_fail_memory(err);
    *shallow = *sharding;
    *ret_same = shallow;
    return sp_hash_set_add(&cache->shardings, hash, shallow) ? SP_OK : sp_fail_memory(err);
}

enum sp_status sp_view_cache_sharding(struct sp_view_cache *cache, const struct sp_sharding *sharding, bool stays,
                                      const struct sp_sharding **ret_same, struct sp_error *err)
{
    const uint64_t hash = mix(cache->seed, (uint64_t)(uintptr_t)sharding);
    if (sharding->kind != SP_SHARDING_BLOCKS && sharding->kind != SP_SHARDING_AXES) {
        *ret_same = sharding;
        return SP_OK;
    }
    const struct known_address *known = stays ? sp_hash_set_find(&cache->addresses, hash, is_asked, sharding) : NULL;
    if (known != NULL) {
        *ret_same = known->same;
        return SP_OK;
    }
    enum sp_status status = find_same(cache, sharding, ret_same, err);
    if (status != SP_OK || !stays)
        return status;
    return add_address(cache, sharding, *ret_same) ? SP_OK : sp_fail_memory(err);
}

/* ---- placements -------------------------------------------------------------------------------------------------- */

int64_t sp_placed_devices(const struct sp_sharding *sharding, int64_t device_count)
{
    switch (sharding->kind) {
    case SP_SHARDING_SINGLE:
        return 1;
    case SP_SHARDING_BLOCKS:
        return sharding->first != NULL ? sharding->first[sharding->shard_count] : device_count;
    case SP_SHARDING_AXES:
        return sp_mesh_is_empty(sharding->mesh) ? device_count : sharding->mesh->order.count;
    default:
        return device_count;
    }
}

/* Merges ascending lists without repetitions into `merged`, which has room for both. */
static int64_t merge(int64_t a_count, const int64_t *a, int64_t b_count, const int64_t *b, int64_t *merged)
{
    int64_t i = 0, k = 0, used = 0;
    while (i < a_count || k < b_count) {
        bool takes_a = k == b_count || (i < a_count && a[i] <= b[k]);
        int64_t device = takes_a ? a[i] : b[k];
        i += i < a_count && a[i] == device;
        k += k < b_count && b[k] == device;
        merged[used++] = device;
    }
    return used;
}

/* All devices that they name. */
static enum sp_status unite(struct sp_arena *scratch, int64_t device_count, uint32_t count,
                            const struct sp_sharding *const *shardings, int64_t *ret_count, const int64_t **ret_devices,
                            struct sp_error *err)
{
    *ret_count = 0;
    *ret_devices = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const int64_t *devices = NULL;
        int64_t named = 0;
        enum sp_status status = sp_sharding_devices(scratch, shardings[i], device_count, &named, &devices, err);
        if (status != SP_OK)
            return status;
        if (named == *ret_count && (named == 0 || memcmp(devices, *ret_devices, (size_t)named * sizeof *devices) == 0))
            continue;
        int64_t *merged = SP_NEW_ARRAY(scratch, (size_t)(named + *ret_count), int64_t);
        if (merged == NULL)
            return sp_fail_memory(err);
        *ret_count = merge(named, devices, *ret_count, *ret_devices, merged);
        *ret_devices = merged;
    }
    return SP_OK;
}

static enum sp_status put_sharding(struct sp_view_cache *cache, const struct sp_view_cache_key *key,
                                   const struct sp_sharding *sharding, struct sp_error *err)
{
    const struct sp_sharding **known = sp_view_cache_put(cache, key, sizeof(const struct sp_sharding *));
    if (known == NULL)
        return sp_fail_memory(err);
    *known = sharding;
    return SP_OK;
}

static enum sp_status make_whole(struct sp_view_cache *cache, uint32_t rank, int64_t device_count, uint32_t count,
                                 const struct sp_sharding *const *shardings, const struct sp_sharding **ret_whole,
                                 struct sp_error *err)
{
    struct sp_arena *scratch = sp_arena_create(sp_arena_budget(cache->arena));
    struct sp_block_dim dims[SP_MAX_RANK] = {{0}};
    const int64_t *devices = NULL;
    int64_t named = 0;
    if (scratch == NULL)
        return sp_fail_memory(err);
    enum sp_status status = unite(scratch, device_count, count, shardings, &named, &devices, err);
    uint32_t first[2] = {0, (uint32_t)named};
    const struct sp_sharding whole = {
        .kind = SP_SHARDING_BLOCKS, .rank = rank, .blocks = dims, .shard_count = 1, .first = first, .devices = devices};
    *ret_whole = NULL;
    if (status == SP_OK && named > 0)
        status = sp_view_cache_sharding(cache, &whole, false, ret_whole, err);
    sp_arena_destroy(scratch);
    return status;
}

enum sp_status sp_view_cache_whole(struct sp_view_cache *cache, uint32_t rank, int64_t device_count, uint32_t count,
                                   const struct sp_sharding *const *shardings, const struct sp_sharding **ret_whole,
                                   struct sp_error *err)
{
    struct sp_view_cache_key key = sp_view_cache_key(cache->arena, SP_CACHE_WHOLE);
    const struct sp_sharding *same = NULL, *last = NULL;
    sp_view_cache_key_add(&key, &rank, sizeof rank);
    sp_view_cache_key_add(&key, &device_count, sizeof device_count);
    for (uint32_t i = 0; i < count; i++) {
        enum sp_status status = sp_view_cache_sharding(cache, shardings[i], true, &same, err);
        if (status != SP_OK)
            return status;
        if (same != last)
            sp_view_cache_key_add(&key, &same, sizeof same);
        last = same;
    }
    const struct sp_sharding **known = sp_view_cache_get(cache, &key);
    if (known != NULL) {
        *ret_whole = *known;
        return SP_OK;
    }
    enum sp_status status = make_whole(cache, rank, device_count, count, shardings, ret_whole, err);
    return status == SP_OK ? put_sharding(cache, &key, *ret_whole, err) : status;
}

enum sp_status sp_view_cache_placed(struct sp_view_cache *cache, const struct sp_sharding *open, int64_t count,
                                    const int64_t *devices, const struct sp_sharding **ret_placed, struct sp_error *err)
{
    struct sp_view_cache_key key = sp_view_cache_key(cache->arena, SP_CACHE_PLACED);
    const struct sp_sharding *same = NULL;
    enum sp_status status = sp_view_cache_sharding(cache, open, true, &same, err);
    if (status != SP_OK || same == NULL)
        return status;
    sp_view_cache_key_add(&key, &same, sizeof same);
    sp_view_cache_key_add(&key, &count, sizeof count);
    sp_view_cache_key_add(&key, &devices, sizeof(const int64_t *));
    const struct sp_sharding **known = sp_view_cache_get(cache, &key);
    if (known != NULL) {
        *ret_placed = *known;
        return SP_OK;
    }
    uint32_t whole[2] = {0, (uint32_t)count};
    if (!number(cache, count))
        return sp_fail_memory(err);
    struct sp_sharding placed = *same;
    placed.first = open->shard_count == 1 ? whole : cache->numbers.first;
    placed.devices = devices != NULL ? devices : cache->numbers.devices;
    placed.run = devices == NULL && open->shard_count == count ? SP_RUN_YES : SP_RUN_UNKNOWN;
    status = sp_view_cache_sharding(cache, &placed, false, ret_placed, err);
    return status == SP_OK ? put_sharding(cache, &key, *ret_placed, err) : status;
}
