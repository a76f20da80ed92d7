/* What values came to, and what was found wrong. */
#include <string.h>

#include "base/limits.h"
#include "verify/programs.h"

enum sp_status sp_verify_fail(struct sp_verification *all, struct sp_verify_failure failure, struct sp_error *err)
{
    if (all->failures.count == SP_MAX_VERIFY_FAILURES)
        return SP_OK;
    return SP_PUSH(all->arena, &all->failures, failure) ? SP_OK : sp_fail_memory(err);
}

/* A value of the original's main graph. */
static const struct sp_value *named(const struct sp_verification *all, const char *name, size_t size)
{
    const struct sp_hash_slot *slot = sp_hash_map_get(&all->names, sp_digest(name, size, 0));
    const struct sp_value *value = slot != NULL ? slot->item : NULL;
    return value != NULL && strlen(value->name) == size && memcmp(value->name, name, size) == 0 ? value : NULL;
}

enum sp_status sp_original_index(struct sp_verification *all, struct sp_error *err)
{
    const struct sp_graph *graph = all->original.model->graph;
    all->names.arena = all->arena;
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const char *name = graph->values[i]->name;
        struct sp_hash_slot *slot = sp_hash_map_put(&all->names, sp_digest(name, strlen(name), 0));
        if (slot == NULL)
            return sp_fail_memory(err);
        slot->item = graph->values[i];
    }
    return SP_OK;
}

const struct sp_value *sp_original_value(const struct sp_verification *all, const char *name)
{
    const struct sp_value *value = named(all, name, strlen(name));
    const char *at = strrchr(name, '@');
    while (at != NULL && at > name && at[-1] == '@')
        at--;
    return value != NULL || at == NULL || at == name ? value : named(all, name, (size_t)(at - name));
}

enum sp_status sp_guess_box(struct sp_verification *all, const struct sp_verify_run *run,
                            const struct sp_numbers *whole, uint32_t rank, const int64_t *extents,
                            struct sp_axis_ranges **ret, struct sp_error *err)
{
    *ret = NULL;
    if (rank != whole->rank)
        return SP_OK;
    struct sp_axis_ranges *box = SP_NEW_ARRAY(all->arena, rank, struct sp_axis_ranges);
    struct sp_range *ranges = SP_NEW_ARRAY(all->arena, rank, struct sp_range);
    bool is_part = false;
    if (box == NULL || ranges == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < rank; i++) {
        const int64_t extent = whole->axes[i].extent, own = extents[i] > 0 ? extents[i] : extent;
        const int64_t parts = own > 0 ? (extent + own - 1) / own : 1;
        const int64_t start = own < extent ? run->program->rank % parts * own : 0;
        ranges[i] = (struct sp_range){start, start + own < extent ? start + own : extent};
        box[i] = (struct sp_axis_ranges){1, &ranges[i]};
        is_part = is_part || own < extent;
    }
    *ret = is_part ? box : NULL;
    return SP_OK;
}

struct sp_outcome *sp_run_outcome(const struct sp_verify_run *run, const struct sp_value *value)
{
    const struct sp_hash_slot *slot = sp_hash_map_get(&run->outcomes, (uint64_t)(uintptr_t)value);
    return slot != NULL ? slot->item : NULL;
}

enum sp_status sp_run_set(struct sp_verification *all, struct sp_verify_run *run, const struct sp_value *value,
                          struct sp_outcome outcome, struct sp_error *err)
{
    struct sp_hash_slot *slot = sp_hash_map_put(&run->outcomes, (uint64_t)(uintptr_t)value);
    struct sp_outcome *item = SP_NEW(all->arena, struct sp_outcome);
    if (slot == NULL || item == NULL)
        return sp_fail_memory(err);
    *item = outcome;
    slot->item = item;
    return SP_OK;
}

bool sp_is_variable(const struct sp_numbers *x)
{
    return x != NULL && !x->is_known && sp_dtype_is_float(x->dtype) && x->count > 0;
}

struct sp_outcome *sp_variable_of(const struct sp_verify_run *run, const struct sp_value *value)
{
    struct sp_outcome *outcome = value != NULL ? sp_run_outcome(run, value) : NULL;
    return outcome != NULL && sp_is_variable(outcome->numbers) ? outcome : NULL;
}
