#include "infer/interned_shardings.h"

#include <string.h>

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

struct numbers {
    uint32_t count;
    const int64_t *numbers;
};

static bool is_same_numbers(const void *item, const void *key)
{
    const struct numbers *a = item, *b = key;
    return a->count == b->count && (a->count == 0 || memcmp(a->numbers, b->numbers, a->count * sizeof(int64_t)) == 0);
}

const int64_t *sp_keep_numbers(struct sp_interned *kept, uint32_t count, const int64_t *numbers)
{
    struct numbers key = {count, numbers};
    struct sp_digest digest;
    sp_digest_begin(&digest, kept->seed);
    sp_digest_number(&digest, count);
    sp_digest_add(&digest, numbers, count * sizeof(int64_t));
    uint64_t hash = sp_digest_end(&digest);
    const struct numbers *same = sp_hash_set_find(&kept->same, hash, is_same_numbers, &key);
    if (same != NULL)
        return same->numbers;
    struct numbers *own = SP_NEW(kept->same.arena, struct numbers);
    int64_t *copy = SP_NEW_ARRAY(kept->same.arena, count, int64_t);
    if (own == NULL || copy == NULL || !sp_hash_set_add(&kept->same, hash, own))
        return NULL;
    if (count > 0)
        memcpy(copy, numbers, count * sizeof(int64_t));
    *own = (struct numbers){count, copy};
    return copy;
}

/* ---- shardings -------------------------------------------------------------------------------------------------- */

static bool is_same_list(const struct sp_axis_list *a, const struct sp_axis_list *b)
{
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++) {
        if (!sp_axis_equal(a->refs[i], b->refs[i]))
            return false;
    }
    return true;
}

bool sp_is_same_axes(const struct sp_sharding *a, const struct sp_sharding *b)
{
    if (a->rank != b->rank || a->combiner != b->combiner || !is_same_list(&a->replicated, &b->replicated) ||
        !is_same_list(&a->partial, &b->partial) || !is_same_list(&a->manual, &b->manual))
        return false;
    for (uint32_t axis = 0; axis < a->rank; axis++) {
        const struct sp_dim_sharding *x = &a->dims[axis], *y = &b->dims[axis];
        if (x->is_open != y->is_open || x->has_priority != y->has_priority || x->priority != y->priority ||
            !is_same_list(&x->axes, &y->axes))
            return false;
    }
    return true;
}

static bool is_same_sharding(const void *item, const void *key)
{
    const struct sp_sharding *a = item, *b = key;
    return a->mesh == b->mesh && sp_is_same_axes(a, b);
}

static void digest_list(struct sp_digest *digest, const struct sp_axis_list *list)
{
    sp_digest_number(digest, list->count);
    for (uint32_t i = 0; i < list->count; i++) {
        const uint64_t numbers[] = {list->refs[i].axis, (uint64_t)list->refs[i].pre, (uint64_t)list->refs[i].size};
        sp_digest_add(digest, numbers, sizeof numbers);
    }
}

static uint64_t digest_sharding(const struct sp_interned *kept, const struct sp_sharding *sharding)
{
    struct sp_digest digest;
    sp_digest_begin(&digest, kept->seed);
    sp_digest_number(&digest, (uint64_t)(uintptr_t)sharding->mesh);
    sp_digest_number(&digest, sharding->rank);
    digest_list(&digest, &sharding->replicated);
    digest_list(&digest, &sharding->partial);
    digest_list(&digest, &sharding->manual);
    for (uint32_t axis = 0; axis < sharding->rank; axis++) {
        const struct sp_dim_sharding *dim = &sharding->dims[axis];
        if (dim->axes.count == 0 && dim->is_open && !dim->has_priority)
            continue;
        sp_digest_number(&digest, axis | (uint64_t)dim->is_open << 32 | (uint64_t)dim->has_priority << 33);
        sp_digest_number(&digest, (uint64_t)dim->priority);
        digest_list(&digest, &dim->axes);
    }
    return sp_digest_end(&digest);
}

static bool copy_list(struct sp_arena *arena, const struct sp_axis_list *from, struct sp_axis_list *to)
{
    *to = (struct sp_axis_list){0};
    if (from->count == 0)
        return true;
    to->refs = SP_NEW_ARRAY(arena, from->count, struct sp_axis_ref);
    if (to->refs == NULL)
        return false;
    memcpy(to->refs, from->refs, from->count * sizeof(struct sp_axis_ref));
    to->count = from->count;
    return true;
}

const struct sp_sharding *sp_keep_sharding(struct sp_interned *kept, const struct sp_sharding *sharding)
{
    struct sp_arena *arena = kept->same.arena;
    uint64_t hash = digest_sharding(kept, sharding);
    struct sp_sharding *same = sp_hash_set_find(&kept->same, hash, is_same_sharding, sharding);
    if (same != NULL)
        return same;
    struct sp_sharding *own = SP_NEW(arena, struct sp_sharding);
    struct sp_dim_sharding *dims = SP_NEW_ARRAY(arena, sharding->rank, struct sp_dim_sharding);
    if (own == NULL || dims == NULL)
        return NULL;
    *own = *sharding;
    own->dims = dims;
    if (!copy_list(arena, &sharding->replicated, &own->replicated) ||
        !copy_list(arena, &sharding->partial, &own->partial) || !copy_list(arena, &sharding->manual, &own->manual))
        return NULL;
    for (uint32_t axis = 0; axis < sharding->rank; axis++) {
        dims[axis] = sharding->dims[axis];
        if (!copy_list(arena, &sharding->dims[axis].axes, &dims[axis].axes))
            return NULL;
    }
    return sp_hash_set_add(&kept->same, hash, own) ? own : NULL;
}
