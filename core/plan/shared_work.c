#include "plan/shared_work.h"

#include <string.h>

#include "plan/internal.h"

/* Whether operators take equally long, on one as on the other: they are the same but for their memory. */
static bool same_device(const struct sp_device *a, const struct sp_device *b)
{
    unsigned char x[sizeof(struct sp_device)], y[sizeof(struct sp_device)];
    const size_t bytes = offsetof(struct sp_device, memory_bytes);
    const size_t reported = offsetof(struct sp_device, memory_reported_bytes);
    memcpy(x, a, sizeof x);
    memcpy(y, b, sizeof y);
    memset(x + bytes, 0, sizeof a->memory_bytes);
    memset(y + bytes, 0, sizeof b->memory_bytes);
    memset(x + reported, 0, sizeof a->memory_reported_bytes);
    memset(y + reported, 0, sizeof b->memory_reported_bytes);
    return memcmp(x, y, sizeof x) == 0;
}

/* Whether the smaller one's workload is the larger one's, on its first devices. */
static bool same_workload(const struct sp_cluster *a, const struct sp_cluster *b)
{
    const uint32_t devices = a->device_count < b->device_count ? a->device_count : b->device_count;
    if (a->group_count != b->group_count || a->efficiency != b->efficiency || a->launch_seconds != b->launch_seconds)
        return false;
    for (uint32_t g = 0; g < a->group_count; g++)
        if (!same_device(&a->groups[g].device, &b->groups[g].device))
            return false;
    for (uint32_t d = 0; d < devices; d++)
        if (a->group_of[d] != b->group_of[d])
            return false;
    return true;
}

/* The workload's devices become those of a larger cluster. */
static bool extend(struct sp_arena *arena, struct sp_shared_work *work, const struct sp_cluster *cluster)
{
    const struct sp_cluster *known = work->cluster;
    uint32_t *kind_of = SP_NEW_ARRAY(arena, cluster->device_count, uint32_t);
    if (kind_of == NULL)
        return false;
    for (uint32_t d = 0; d < cluster->device_count; d++) {
        uint32_t same = 0; /* of its group: each has devices */
        while (same + 1 < known->device_count && known->group_of[same] != cluster->group_of[d])
            same++;
        kind_of[d] = work->workload->kind_of[same];
    }
    work->workload->kind_of = kind_of;
    work->cluster = cluster;
    return true;
}

static enum sp_status make(struct sp_job *base, const struct sp_cluster *cluster, struct sp_shared_work *work,
                           struct sp_error *err)
{
    work->cluster = cluster;
    enum sp_status status =
        sp_workload_from_model(base->arena, base->model, cluster, base->watch, &work->workload, err);
    if (status == SP_OK)
        status = sp_workload_contract(base->arena, work->workload, cluster, &work->contraction, err);
    if (status == SP_OK)
        status = sp_dataflow_create(base->arena, base->model, &work->dataflow, err);
    if (status != SP_OK || work->contraction.workload != work->workload)
        return status;
    work->store = sp_search_store_create(&base->budget, work->workload, work->dataflow);
    return work->store == NULL ? sp_fail_memory(err) : SP_OK;
}

enum sp_status sp_shared_work_find(struct sp_job *base, const struct sp_cluster *cluster,
                                   const struct sp_shared_work **ret_work, struct sp_error *err)
{
    struct sp_shared_work *work = base->shared_work;
    while (work != NULL && !same_workload(work->cluster, cluster))
        work = work->next;
    if (work == NULL) {
        if ((work = SP_NEW(base->arena, struct sp_shared_work)) == NULL)
            return sp_fail_memory(err);
        enum sp_status status = make(base, cluster, work, err);
        if (status != SP_OK)
            return status;
        work->next = base->shared_work;
        base->shared_work = work;
    } else if (work->cluster->device_count < cluster->device_count && !extend(base->arena, work, cluster)) {
        return sp_fail_memory(err);
    }
    *ret_work = work->store != NULL ? work : NULL;
    return SP_OK;
}

void sp_shared_work_release(struct sp_shared_work *first)
{
    for (struct sp_shared_work *work = first; work != NULL; work = work->next)
        sp_search_store_destroy(work->store);
}
