#include "search/joint/shared/store.h"

#include <math.h>
#include <string.h>

struct table {
    struct sp_strategy_table *table;
    struct sp_strategy_mesh mesh; /* of the table: with a device and a cluster of the store's own */
    struct table *next;
};

struct profile {
    struct sp_model_choice *choice; /* its option is not the store's to keep */
    uint32_t kind;                  /* of the device, where there is no table */
    bool is_plain;
    uint64_t seed, choice_work;
    struct sp_units *units[2]; /* by its seconds; NULL: nobody asked */
    struct profile *next;
};

struct sp_search_store {
    const struct sp_workload *workload;
    const struct sp_dataflow *dataflow;
    struct sp_arena *arena;
    struct sp_blocks *blocks; /* NULL: nobody asked */
    struct table *tables;
    struct profile *profiles;
};

struct sp_search_store *sp_search_store_create(struct sp_budget *budget, const struct sp_workload *workload,
                                               const struct sp_dataflow *dataflow)
{
    struct sp_arena *arena = sp_arena_create(budget);
    struct sp_search_store *store = arena == NULL ? NULL : SP_NEW(arena, struct sp_search_store);
    if (store == NULL) {
        sp_arena_destroy(arena);
        return NULL;
    }
    *store = (struct sp_search_store){.workload = workload, .dataflow = dataflow, .arena = arena};
    return store;
}

void sp_search_store_destroy(struct sp_search_store *store)
{
    if (store == NULL)
        return;
    for (struct table *table = store->tables; table != NULL; table = table->next)
        sp_strategy_table_destroy(table->table);
    sp_arena_destroy(store->arena);
}

bool sp_search_store_is_of(const struct sp_search_store *store, const struct sp_workload *workload,
                           const struct sp_dataflow *dataflow)
{
    return store->workload == workload && store->dataflow == dataflow;
}

enum sp_status sp_search_store_blocks(struct sp_search_store *store, const struct sp_blocks **ret_blocks,
                                      struct sp_error *err)
{
    enum sp_status status =
        store->blocks == NULL ? sp_blocks_find(store->arena, store->workload, &store->blocks, err) : SP_OK;
    if (status == SP_OK)
        *ret_blocks = store->blocks;
    return status;
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static bool same_level(const struct sp_mesh_level *a, const struct sp_mesh_level *b)
{
    return a->size == b->size && a->bandwidth == b->bandwidth && a->latency == b->latency &&
           a->host_seconds == b->host_seconds && a->forms == b->forms && a->stated_bandwidth == b->stated_bandwidth &&
           a->stated_latency == b->stated_latency && a->send_bandwidth == b->send_bandwidth &&
           a->bandwidth_of_size == b->bandwidth_of_size && strcmp(a->name, b->name) == 0;
}

/* Whether equal strategies follow: devices of one kind of the workload take equally long. What is gathered has to have
   room. */
static bool same_mesh(const struct sp_strategy_mesh *a, const struct sp_strategy_mesh *b)
{
    if (a->axis_count != b->axis_count || a->kind != b->kind || a->gathers != b->gathers ||
        (a->gathers && a->device->memory_bytes != b->device->memory_bytes) ||
        a->links.level_count != b->links.level_count || a->links.place != NULL || b->links.place != NULL ||
        a->cluster->efficiency != b->cluster->efficiency || a->cluster->launch_seconds != b->cluster->launch_seconds)
        return false;
    for (uint32_t i = 0; i < a->axis_count; i++)
        if (a->size[i] != b->size[i])
            return false;
    for (uint32_t l = 0; l < a->links.level_count; l++)
        if (!same_level(&a->links.levels[l], &b->links.levels[l]))
            return false;
    return true;
}

/* A copy that outlives the search: of the cluster only what kernels take from it. */
static struct table *new_table(struct sp_arena *arena, const struct sp_strategy_mesh *mesh)
{
    struct table *made = SP_NEW(arena, struct table);
    struct sp_device *device = SP_NEW(arena, struct sp_device);
    struct sp_cluster *cluster = SP_NEW(arena, struct sp_cluster);
    struct sp_mesh_level *levels = SP_NEW_ARRAY(arena, mesh->links.level_count, struct sp_mesh_level);
    if (made == NULL || device == NULL || cluster == NULL || levels == NULL)
        return NULL;
    *device = *mesh->device;
    cluster->efficiency = mesh->cluster->efficiency;
    cluster->launch_seconds = mesh->cluster->launch_seconds;
    memcpy(levels, mesh->links.levels, mesh->links.level_count * sizeof *levels);
    made->mesh = *mesh;
    made->mesh.device = device;
    made->mesh.cluster = cluster;
    made->mesh.links.levels = levels;
    return made;
}

enum sp_status sp_search_store_table(struct sp_search_store *store, const struct sp_strategy_mesh *mesh,
                                     const struct sp_watch *watch, struct sp_strategy_table **ret_table,
                                     struct sp_error *err)
{
    struct table *table = store->tables;
    enum sp_status status = SP_OK;
    while (table != NULL && !same_mesh(&table->mesh, mesh))
        table = table->next;
    if (table == NULL) {
        if ((table = new_table(store->arena, mesh)) == NULL)
            return sp_fail_memory(err);
        status = sp_strategy_table_create(store->arena, store->workload, store->dataflow, &table->mesh, watch,
                                          &table->table, err);
        if (status == SP_OK) {
            table->next = store->tables;
            store->tables = table;
        }
    }
    if (status == SP_OK)
        *ret_table = table->table;
    return status;
}

/* ---- profiles and units ------------------------------------------------------------------------------------------ */

static bool is_asked(const struct profile *profile, const struct sp_profile_request *request)
{
    return profile->choice->table == request->table &&
           (request->table != NULL || profile->kind == request->option->mesh.kind) &&
           profile->is_plain == request->is_plain && profile->seed == request->seed &&
           profile->choice_work == request->choice_work;
}

enum sp_status sp_search_store_profile(struct sp_search_store *store, struct sp_arena *arena,
                                       const struct sp_profile_request *request, struct sp_model_choice **ret_profile,
                                       struct sp_error *err)
{
    struct profile *profile = store->profiles;
    struct sp_model_choice *copy = SP_NEW(arena, struct sp_model_choice), *choice = NULL;
    if (copy == NULL)
        return sp_fail_memory(err);
    while (profile != NULL && !is_asked(profile, request))
        profile = profile->next;
    if (profile == NULL) {
        enum sp_status status = sp_profile_create(store->arena, request, &choice, err);
        profile = status == SP_OK ? SP_NEW(store->arena, struct profile) : NULL;
        if (status != SP_OK)
            return status;
        if (profile == NULL)
            return sp_fail_memory(err);
        *ret_profile = choice;
        if (choice == NULL || !sp_watch_tick(request->watch, "search", 0, 0, 0))
            return SP_OK;
        *profile = (struct profile){.choice = choice,
                                    .kind = request->option->mesh.kind,
                                    .is_plain = request->is_plain,
                                    .seed = request->seed,
                                    .choice_work = request->choice_work,
                                    .next = store->profiles};
        store->profiles = profile;
        if (choice->known != NULL)
            choice->known->is_shared = true;
    }
    *copy = *profile->choice;
    copy->option = request->option;
    *ret_profile = copy;
    return SP_OK;
}

enum sp_status sp_search_store_units(struct sp_search_store *store, const struct sp_model_choice *choice,
                                     struct sp_units *const **ret_units, struct sp_error *err)
{
    static const uint32_t most_nodes[2] = {SP_UNITS_NODES, SP_UNITS_FEWER};
    struct profile *profile = store->profiles;
    while (profile != NULL && profile->choice->seconds != choice->seconds)
        profile = profile->next;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; profile != NULL && status == SP_OK && i < 2; i++) {
        if (profile->units[i] != NULL)
            continue;
        status =
            sp_units_create(store->arena, store->workload, choice->seconds, most_nodes[i], &profile->units[i], err);
        if (status == SP_OK)
            profile->units[i]->is_shared = true;
    }
    if (status == SP_OK)
        *ret_units = profile == NULL ? NULL : profile->units;
    return status;
}
