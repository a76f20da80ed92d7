/*
 * Partitions for Qualcomm's Cloud AI compiler, qaic-compile -mdp-load-partition-config:
 *
 *   {"connections": [{"devices": [0, 1], "type": "p2p"}],
 *    "partitions": [{"name": "Partition0", "nodeList": ["conv1", ..], "devices": [{"deviceId": 0, "numCores": 16}]},
 * ..]}
 *
 * A partition is what one stage does on the same devices. How the compiler splits operators of a partition with several
 * devices is its own affair.
 */
#include <inttypes.h>

#include "export/internal.h"

#define CORES 16 /* of one Cloud AI 100 device; all of them */

#define TOOL "Qualcomm's compiler"

struct partition {
    int32_t stage;
    const int64_t *devices;
    int64_t device_count;
    uint32_t first; /* of its nodes in the sorted list; while counting: how many */
};

struct partitions {
    uint32_t count;
    struct partition *items; /* in order of their first nodes */
    uint32_t *of;            /* by node */
    uint32_t *nodes;         /* by partition, in order */
};

static enum sp_status find(struct sp_export *out, struct partitions *all, uint32_t node, struct sp_error *err)
{
    const struct sp_subject_node *place = &out->subject->nodes[node];
    const int32_t stage = sp_export_stage(out, node);
    uint32_t i = all->count;
    if (place->device_count == 0) {
        int64_t none;
        return sp_export_device(out, node, TOOL, &none, err);
    }
    while (i > 0 && (all->items[i - 1].stage != stage || all->items[i - 1].devices != place->devices))
        i--;
    if (i == 0 && all->count == SP_MAX_EXPORT_MESHES)
        return sp_fail_limit(err, "TOO_MANY_GROUPS", "SP_MAX_EXPORT_MESHES", SP_MAX_EXPORT_MESHES,
                             SP_MAX_EXPORT_MESHES + 1, "The model is in more than %d partitions.",
                             SP_MAX_EXPORT_MESHES);
    if (i == 0) {
        all->items[all->count++] = (struct partition){stage, place->devices, place->device_count, 0};
        i = all->count;
    }
    all->of[node] = i - 1;
    all->items[i - 1].first++;
    return SP_OK;
}

static enum sp_status sort_nodes(struct sp_export *out, struct partitions *all, struct sp_error *err)
{
    const uint32_t count = out->subject->model->graph->node_count;
    enum sp_status status = SP_OK;
    all->items = SP_NEW_ARRAY(out->scratch, SP_MAX_EXPORT_MESHES + 1, struct partition);
    all->of = SP_NEW_ARRAY(out->scratch, count, uint32_t);
    all->nodes = SP_NEW_ARRAY(out->scratch, count, uint32_t);
    if (all->items == NULL || all->of == NULL || all->nodes == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && i < count; i++)
        status = find(out, all, i, err);
    uint32_t end = count;
    for (uint32_t p = all->count; p-- > 0;) {
        end -= all->items[p].first;
        all->items[p].first = end;
    }
    all->items[all->count].first = count;
    uint32_t *next = SP_NEW_ARRAY(out->scratch, all->count, uint32_t);
    if (next == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && i < count; i++)
        all->nodes[all->items[all->of[i]].first + next[all->of[i]]++] = i;
    return status;
}

static void write_connections(const struct sp_export *out, struct sp_json *json)
{
    sp_json_key(json, "connections");
    sp_json_begin_array(json);
    sp_json_begin_object(json);
    sp_json_key(json, "devices");
    sp_json_begin_array(json);
    for (int64_t d = 0; d < out->subject->device_count; d++)
        sp_json_int(json, d);
    sp_json_end_array(json);
    sp_json_member_string(json, "type", "p2p");
    sp_json_end_object(json);
    sp_json_end_array(json);
}

static void write_partition(const struct sp_export *out, const struct partitions *all, uint32_t number,
                            struct sp_json *json)
{
    const struct sp_graph *graph = out->subject->model->graph;
    const struct partition *partition = &all->items[number];
    char name[32];
    (void)snprintf(name, sizeof name, "Partition%" PRIu32, number);
    sp_json_begin_object(json);
    sp_json_member_string(json, "name", name);
    sp_json_key(json, "nodeList");
    sp_json_begin_array(json);
    for (uint32_t i = partition->first; i < partition[1].first; i++)
        sp_json_string(json, graph->nodes[all->nodes[i]].name);
    sp_json_end_array(json);
    sp_json_key(json, "devices");
    sp_json_begin_array(json);
    for (int64_t d = 0; d < partition->device_count; d++) {
        sp_json_begin_object(json);
        sp_json_member_int(json, "deviceId", partition->devices[d]);
        sp_json_member_int(json, "numCores", CORES);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
    sp_json_end_object(json);
}

static enum sp_status note_splits(struct sp_export *out, const struct partitions *all, struct sp_error *err)
{
    for (uint32_t p = 0; p < all->count; p++) {
        if (all->items[p].device_count > 1)
            return sp_export_note(out, "SPLITS_LOST", NULL, err,
                                  "Partitions with several devices name these only: the compiler chooses itself how "
                                  "operators are split over them.");
    }
    return SP_OK;
}

enum sp_status sp_export_mdp(struct sp_export *out, struct sp_error *err)
{
    struct partitions all = {0};
    struct sp_json json;
    enum sp_status status = sp_export_check_names(out, TOOL, err);
    if (status == SP_OK)
        status = sort_nodes(out, &all, err);
    if (status == SP_OK)
        status = note_splits(out, &all, err);
    if (status != SP_OK)
        return status;
    sp_export_json(out, true, &json);
    sp_json_begin_object(&json);
    write_connections(out, &json);
    sp_json_key(&json, "partitions");
    sp_json_begin_array(&json);
    for (uint32_t p = 0; p < all.count; p++)
        write_partition(out, &all, p, &json);
    sp_json_end_array(&json);
    sp_json_end_object(&json);
    (void)sp_json_finish(&json, NULL); /* a failure is the export's own */
    sp_export_text(out, "\n");
    return SP_OK;
}
