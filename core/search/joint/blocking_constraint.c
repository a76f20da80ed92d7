/*
 * The search, and where constraints leave nothing, which of them does: it is made again without each kind in turn.
 */
#include <string.h>

#include "search/constraints.h"
#include "search/joint/blocking_constraint.h"
#include "search/joint/minimum_memory.h"
#include "search/joint/run/with_hosts.h"
#include "search/joint/shared/store.h"

enum kind {
    KIND_MAX_STAGES,
    KIND_MAX_LATENCY,
    KIND_RESERVED,
    KIND_PINS,
    KIND_TOGETHER,
    KIND_SPECS,
    KIND_FORBID,
    KIND_CACHE,
    KIND_COUNT
};
static const char *const kind_names[] = {
    "max_stages", "max_latency_seconds", "reserved_bytes", "pins", "together", "specs", "forbid", "kv_cache"};

/* Takes the splits of one sort out of `relaxed`; *ret_any says whether there were some. */
static bool drop_splits(struct sp_arena *arena, bool forbidden, struct sp_constraints *relaxed, bool *ret_any)
{
    struct sp_split_pin *kept = SP_NEW_ARRAY(arena, relaxed->split_count, struct sp_split_pin);
    uint32_t count = 0;
    if (kept == NULL)
        return false;
    for (uint32_t i = 0; i < relaxed->split_count; i++) {
        if (relaxed->splits[i].is_forbidden == forbidden)
            *ret_any = true;
        else
            kept[count++] = relaxed->splits[i];
    }
    relaxed->splits = kept;
    relaxed->split_count = count;
    return true;
}

/* The same work, of which nothing is kept from request to request. */
static bool drop_cache(struct sp_arena *arena, struct sp_workload *workload)
{
    struct sp_work_node *nodes = SP_NEW_ARRAY(arena, workload->node_count, struct sp_work_node);
    for (uint32_t n = 0; nodes != NULL && n < workload->node_count; n++) {
        nodes[n] = workload->nodes[n];
        nodes[n].resident_bytes = 0;
        nodes[n].cache = NULL;
    }
    workload->nodes = nodes;
    return nodes != NULL;
}

/* Constraints without one kind, and a cluster and a workload to match; *ret_any is false where there are none of it. */
static bool relax(struct sp_arena *arena, enum kind kind, struct sp_constraints *relaxed, struct sp_cluster *cluster,
                  struct sp_workload *workload, bool *ret_any)
{
    *ret_any = false;
    switch (kind) {
    case KIND_MAX_STAGES:
        *ret_any = relaxed->max_stages != 0;
        relaxed->max_stages = 0;
        return true;
    case KIND_MAX_LATENCY:
        *ret_any = relaxed->max_latency_seconds > 0;
        relaxed->max_latency_seconds = 0;
        return true;
    case KIND_RESERVED:
        *ret_any = cluster->reserved_bytes > 0;
        cluster->reserved_bytes = relaxed->reserved_bytes = 0;
        return true;
    case KIND_PINS:
        *ret_any = relaxed->stage_of != NULL || relaxed->device_of != NULL;
        relaxed->stage_of = relaxed->device_of = NULL;
        return true;
    case KIND_TOGETHER:
        *ret_any = relaxed->together_of != NULL;
        relaxed->together_of = NULL;
        relaxed->together_count = 0;
        return true;
    case KIND_SPECS:
        return drop_splits(arena, false, relaxed, ret_any);
    case KIND_CACHE:
        *ret_any = relaxed->cache_member != NULL;
        relaxed->cache_member = NULL;
        return !*ret_any || drop_cache(arena, workload);
    default:
        *ret_any = relaxed->is_whole != NULL || relaxed->level_count > 0;
        relaxed->is_whole = NULL;
        relaxed->level_count = 0;
        return drop_splits(arena, true, relaxed, ret_any);
    }
}

/* The name goes before what was said already: that may be long. */
static void name_kind(const struct sp_constraints *constraints, enum kind kind, struct sp_error *err)
{
    const struct sp_error said = *err;
    const char *name = kind == KIND_CACHE ? constraints->cache_member : kind_names[kind];
    sp_error_clear(err); /* or what was said first would stay */
    (void)sp_fail(err, said.status, said.code, "Without the constraint \"%s\" (%.80s/%s) there is a plan. %s", name,
                  constraints->where == NULL ? "" : constraints->where, name, said.message);
    err->limit = said.limit;
    err->limit_value = said.limit_value;
    err->actual = said.actual;
    err->least_memory_bytes = said.least_memory_bytes;
    err->too_little_memory_bytes = said.too_little_memory_bytes;
    (void)sp_error_at(err, "%s/%s", constraints->where == NULL ? "" : constraints->where, name);
}

/* Tries without each kind; the first without which there is a plan is named. */
static enum sp_status find_culprit(struct sp_arena *arena, const struct sp_workload *workload,
                                   const struct sp_dataflow *dataflow, const struct sp_cluster *cluster,
                                   const struct sp_joint_options *options, struct sp_error *err)
{
    const enum sp_status failed = err->status;
    for (uint32_t kind = 0; kind < KIND_COUNT; kind++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        struct sp_constraints relaxed = *options->constraints;
        struct sp_cluster room = *cluster;
        struct sp_workload less = *workload;
        struct sp_joint_options again = *options;
        struct sp_search_result *result = NULL;
        struct sp_error ignored = {0};
        bool any;
        again.constraints = &relaxed;
        again.optimal = false;
        again.any_plan = true;
        if (!relax(arena, kind, &relaxed, &room, &less, &any))
            return sp_fail_memory(err);
        if (!any)
            continue;
        enum sp_status status = sp_joint_search_once(arena, &less, dataflow, &room, &again, &result, &ignored);
        if (status == SP_OK) {
            sp_search_result_release(result);
            name_kind(options->constraints, kind, err);
        }
        sp_arena_rewind(arena, mark);
        if (status == SP_OK || status == SP_ERR_CANCELLED || status == SP_ERR_MEMORY)
            break;
    }
    return failed;
}

/* The memory that would do, and the constraint that is in the way, of a search that found nothing. */
static enum sp_status say_why(struct sp_arena *arena, const struct sp_workload *workload,
                              const struct sp_dataflow *dataflow, const struct sp_cluster *cluster,
                              const struct sp_joint_options *options, enum sp_status status, struct sp_error *why)
{
    struct sp_joint_options unheard = *options;
    const bool excluded = status == SP_ERR_REQUEST && strcmp(why->code, "CONSTRAINT_UNSUPPORTED") == 0;
    unheard.listener = NULL; /* of what is searched to say why nothing fits, nothing can be the answer */
    if (status == SP_ERR_NOFIT && options->skip_minimum_memory)
        why->least_memory_bytes = 0; /* a guess */
    else if (status == SP_ERR_NOFIT)
        sp_joint_minimum_memory(arena, workload, dataflow, cluster, &unheard, why);
    if (options->constraints == NULL || (status != SP_ERR_NOFIT && !excluded))
        return status;
    return find_culprit(arena, workload, dataflow, cluster, &unheard, why);
}

enum sp_status sp_joint_search(struct sp_arena *arena, const struct sp_workload *workload,
                               const struct sp_dataflow *dataflow, const struct sp_cluster *cluster,
                               const struct sp_joint_options *options, struct sp_search_result **ret_result,
                               struct sp_error *err)
{
    struct sp_error none = {0};
    struct sp_error *why = err != NULL ? err : &none;
    struct sp_search_store *own = NULL;
    struct sp_joint_options given = *options;
    if (options->store == NULL || !sp_search_store_is_of(options->store, workload, dataflow)) {
        own = given.store = sp_search_store_create(sp_arena_budget(arena), workload, dataflow);
        if (own == NULL)
            return sp_fail_memory(why);
    }
    enum sp_status status = sp_joint_search_with_hosts(arena, workload, dataflow, cluster, &given, ret_result, why);
    if (status == SP_OK) {
        (*ret_result)->store = own;
        return SP_OK;
    }
    status = say_why(arena, workload, dataflow, cluster, &given, status, why);
    sp_search_store_destroy(own);
    return status;
}
