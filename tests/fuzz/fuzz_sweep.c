/* What a request says of a sweep: whatever is accepted is a list of different clusters, each of which can be written
   out and read again; whatever is not is refused with a place in the request. */
#include <jansson.h>

#include "fuzz.h"
#include "plan/variants/variants.h"

#define MAX_TEXT ((size_t)64 << 20)

static void check_cluster(struct sp_arena *arena, const struct sp_cluster *cluster)
{
    struct sp_buf text;
    struct sp_json writer;
    struct sp_cluster *again = NULL;
    struct sp_error err = {0};
    sp_buf_init(&text, MAX_TEXT);
    sp_json_init_buf(&writer, false, &text);
    sp_cluster_write(cluster, &writer);
    if (sp_json_finish(&writer, NULL) != SP_OK)
        abort();
    json_t *json = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, NULL);
    enum sp_status status = json == NULL ? SP_ERR_INTERNAL : sp_cluster_parse(arena, json, "", &again, &err);
    if (status != SP_ERR_MEMORY && (status != SP_OK || again->device_count != cluster->device_count))
        abort();
    json_decref(json);
    sp_buf_release(&text);
}

static void check_sweep(struct sp_arena *arena, const struct sp_sweep *sweep)
{
    if (sweep == NULL || sweep->count == 0 || sweep->count > SP_MAX_VARIANTS)
        abort();
    for (uint32_t i = 0; i < sweep->count; i++) {
        if (sweep->devices[i] == NULL || sweep->devices[i][0] == '\0' || sweep->clusters[i]->device_count == 0)
            abort();
        check_cluster(arena, sweep->clusters[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct sp_budget budget = {.limit = (size_t)64 << 20};
    struct sp_arena *arena = sp_arena_create(&budget);
    json_t *json = json_loadb((const char *)bytes, size, JSON_REJECT_DUPLICATES, NULL);
    if (arena != NULL && json != NULL) {
        struct sp_plan_target target = {0};
        struct sp_error err = {0};
        enum sp_status status = sp_plan_target_parse(arena, NULL, json, &target, &err);
        if (status == SP_OK)
            check_sweep(arena, target.sweep);
        else if (status != SP_ERR_MEMORY && (err.message[0] == '\0' || strncmp(err.where, "/sweep", 6) != 0))
            abort();
    }
    json_decref(json);
    sp_arena_destroy(arena);
    return 0;
}
