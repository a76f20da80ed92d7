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

const struct sp_value *sp_original_value(const struct sp_verification *all, const char *name)
{
    const struct sp_graph *graph = all->original.model->graph;
    const struct sp_value *value = sp_graph_value(graph, name);
    const char *at = strrchr(name, '@');
    while (at != NULL && at > name && at[-1] == '@')
        at--;
    if (value != NULL || at == NULL || at == name)
        return value;
    const char *base = sp_arena_string(all->arena, name, (size_t)(at - name));
    return base != NULL ? sp_graph_value(graph, base) : NULL;
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
