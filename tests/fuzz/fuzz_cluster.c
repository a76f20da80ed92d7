/* The cluster description: whatever is accepted is written out and read again as the same text. */
#include <jansson.h>

#include "cost/cluster/cluster.h"
#include "fuzz.h"

#define MAX_TEXT ((size_t)64 << 20)

static void write_cluster(const struct sp_cluster *cluster, struct sp_buf *buf)
{
    struct sp_json json;
    sp_buf_init(buf, MAX_TEXT);
    sp_json_init_buf(&json, false, buf);
    sp_cluster_write(cluster, &json);
    if (sp_json_finish(&json, NULL) != SP_OK)
        abort();
}

static void check_round_trip(struct sp_arena *arena, const struct sp_cluster *cluster)
{
    struct sp_buf first, second;
    write_cluster(cluster, &first);
    json_t *json = json_loadb(first.data, first.size, JSON_REJECT_DUPLICATES, NULL);
    struct sp_cluster *again;
    struct sp_error err = {0};
    if (json == NULL || sp_cluster_parse(arena, json, "", &again, &err) != SP_OK) {
        (void)fprintf(stderr, "refused its own text: %s\n%s\n", err.message, first.data);
        abort();
    }
    write_cluster(again, &second);
    if (first.size != second.size || memcmp(first.data, second.data, first.size) != 0)
        abort();
    json_decref(json);
    sp_buf_release(&first);
    sp_buf_release(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct sp_budget budget = {.limit = (size_t)64 << 20};
    struct sp_arena *arena = sp_arena_create(&budget);
    json_t *json = json_loadb((const char *)bytes, size, JSON_REJECT_DUPLICATES, NULL);
    if (arena != NULL && json != NULL) {
        struct sp_cluster *cluster;
        struct sp_error err = {0};
        enum sp_status status = sp_cluster_parse(arena, json, "", &cluster, &err);
        if (status == SP_OK)
            check_round_trip(arena, cluster);
        else if (err.message[0] == '\0' || err.code[0] == '\0')
            abort();
    }
    json_decref(json);
    sp_arena_destroy(arena);
    return 0;
}
