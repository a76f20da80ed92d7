/* What `nvidia-smi topo -m` prints, or anything else: what comes out is a cluster, or the error is a sentence. */
#include <jansson.h>
#include <stdlib.h>

#include "cost/cluster/cluster.h"
#include "cost/cluster/nvidia_topology.h"
#include "fuzz.h"

static void require(bool condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct sp_budget budget = {.limit = (size_t)64 << 20};
    struct sp_arena *arena = sp_arena_create(&budget);
    struct sp_error err = {0};
    struct sp_buf made;
    struct sp_json json;
    if (arena == NULL)
        return 0;
    sp_buf_init(&made, (size_t)1 << 20);
    sp_json_init_buf(&json, false, &made);
    const struct sp_device *device = sp_device_find(size % 2 == 0 ? "a100-sxm4-80gb" : "l40s-48gb");
    if (sp_cluster_from_topology(arena, (const char *)bytes, size, device, &json, &err) == SP_OK) {
        struct sp_cluster *cluster;
        require(sp_json_finish(&json, NULL) == SP_OK);
        json_t *described = json_loadb(made.data, made.size, JSON_REJECT_DUPLICATES, NULL);
        require(described != NULL && sp_cluster_parse(arena, described, "", &cluster, &err) == SP_OK);
        json_decref(described);
    } else {
        require(err.message[0] != '\0' && err.code[0] != '\0');
    }
    sp_buf_release(&made);
    sp_arena_destroy(arena);
    return 0;
}
