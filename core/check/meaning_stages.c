/* Pipeline stages along edges. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash_map.h"
#include "base/limits.h"
#include "base/sorted.h"
#include "check/meaning.h"

/* A node with a stage, and on which devices it is. */
struct staged {
    int32_t stage;
    uint32_t node;
    uint64_t devices; /* a hash of their numbers; 0: none is named */
};

static bool has_stage(const struct sp_meaning *meaning, uint32_t node)
{
    return meaning->assignment->nodes[node].has_stage;
}

/* ---- edges ---------------------------------------------------------------------------------------------------- */

static enum sp_status check_edge(struct sp_meaning *meaning, const struct sp_node *producer,
                                 const struct sp_node *consumer, const char *tensor, int32_t from, int32_t to)
{
    char left[SP_ERROR_WHERE_SIZE], right[SP_ERROR_WHERE_SIZE];
    (void)sp_node_label(producer, left, sizeof left);
    (void)sp_node_label(consumer, right, sizeof right);
    if (to < from)
        return sp_meaning_report(meaning, "STAGE_BACKWARDS", consumer, tensor, NULL, 0,
                                 "%s is in pipeline stage %" PRId32 ", but uses '%.120s' of %s, which is in the later "
                                 "stage %" PRId32 ".",
                                 right, to, tensor, left, from);
    if ((int64_t)to - from > 1)
        return sp_meaning_report(meaning, "STAGE_SKIPPED", consumer, tensor, NULL, 0,
                                 "'%.120s' goes from %s in pipeline stage %" PRId32 " to %s in stage %" PRId32
                                 " and skips those between.",
                                 tensor, left, from, right, to);
    return SP_OK;
}

static enum sp_status check_edges(struct sp_meaning *meaning)
{
    const struct sp_dataflow *dataflow = meaning->assignment->dataflow;
    enum sp_status status = SP_OK;
    for (uint32_t n = 0; status == SP_OK && n < dataflow->node_count; n++) {
        const struct sp_node *node = dataflow->nodes[n];
        if (!has_stage(meaning, n))
            continue;
        for (uint32_t i = 0; status == SP_OK && i < node->input_count; i++) {
            const struct sp_value *value = node->inputs[i];
            const uint32_t from =
                value == NULL || value->producer == NULL ? UINT32_MAX : sp_dataflow_node(dataflow, value->producer);
            if (from != UINT32_MAX && has_stage(meaning, from))
                status = check_edge(meaning, value->producer, node, value->name, meaning->assignment->nodes[from].stage,
                                    meaning->assignment->nodes[n].stage);
        }
    }
    return status;
}

/* ---- nodes without a stage ------------------------------------------------------------------------------------ */

static enum sp_status check_missing(struct sp_meaning *meaning)
{
    const struct sp_dataflow *dataflow = meaning->assignment->dataflow;
    const struct sp_node *first = NULL;
    uint32_t with = 0, without = 0;
    char label[SP_ERROR_WHERE_SIZE];
    for (uint32_t n = 0; n < dataflow->node_count; n++) {
        const struct sp_node *node = dataflow->nodes[n];
        /* Inside a subgraph or a function, a node is where its owner is; what is folded runs at load. */
        if (node->graph != meaning->model->graph || node->is_folded)
            continue;
        with += has_stage(meaning, n);
        if (!has_stage(meaning, n) && without++ == 0)
            first = node;
    }
    if (with == 0 || without == 0)
        return SP_OK;
    return sp_meaning_report(meaning, "STAGE_MISSING", first, NULL, NULL, 0,
                             "%" PRIu32 " nodes have a pipeline stage and %" PRIu32
                             " have none; the first of these is %s.",
                             with, without, sp_node_label(first, label, sizeof label));
}

/* ---- devices of a stage --------------------------------------------------------------------------------------- */

SP_ASCENDING(by_stage, struct staged, stage, node)

/* The devices that the node's own specs name. */
static enum sp_status hash_devices(struct sp_meaning *meaning, uint32_t node, uint8_t *is_named, uint64_t *ret_hash)
{
    const struct sp_node *of = meaning->assignment->dataflow->nodes[node];
    const int64_t all = meaning->assignment->device_count;
    bool any = false;
    memset(is_named, 0, (size_t)all);
    for (uint32_t i = 0; i < of->input_count + of->output_count; i++) {
        const struct sp_spec_entry *entry = sp_spec_of(meaning->assignment, node, i);
        struct sp_arena_mark mark = sp_arena_mark(meaning->scratch);
        const int64_t *devices = NULL;
        int64_t count = 0;
        if (entry->origin != SP_SPEC_GIVEN || entry->sharding == NULL)
            continue;
        enum sp_status status =
            sp_sharding_devices(meaning->scratch, entry->sharding, all, &count, &devices, meaning->err);
        for (int64_t d = 0; status == SP_OK && d < count; d++) {
            any = true;
            is_named[devices[d]] = 1;
        }
        sp_arena_rewind(meaning->scratch, mark);
        if (status != SP_OK)
            return status;
    }
    *ret_hash = any ? sp_digest(is_named, (size_t)all, 0) | 1 : 0;
    return SP_OK;
}

/* Sorted by stage: the first node of each stage that is on other devices than the first that names some. */
static enum sp_status compare_stages(struct sp_meaning *meaning, const struct staged *sorted, uint32_t count)
{
    const struct sp_dataflow *dataflow = meaning->assignment->dataflow;
    char left[SP_ERROR_WHERE_SIZE], right[SP_ERROR_WHERE_SIZE];
    enum sp_status status = SP_OK;
    const struct staged *first = NULL;
    bool is_told = false;
    for (uint32_t i = 0; status == SP_OK && i < count; i++) {
        if (first == NULL || first->stage != sorted[i].stage) {
            first = NULL;
            is_told = false;
        }
        if (sorted[i].devices == 0)
            continue;
        if (first == NULL)
            first = &sorted[i];
        if (is_told || first->devices == sorted[i].devices)
            continue;
        is_told = true;
        status = sp_meaning_report(meaning, "STAGE_DEVICES_DIFFER", dataflow->nodes[sorted[i].node], NULL, NULL, 0,
                                   "Pipeline stage %" PRId32
                                   " is not on one set of devices: %s and %s are on different ones.",
                                   first->stage, sp_node_label(dataflow->nodes[first->node], left, sizeof left),
                                   sp_node_label(dataflow->nodes[sorted[i].node], right, sizeof right));
    }
    return status;
}

static enum sp_status check_devices(struct sp_meaning *meaning)
{
    const struct sp_dataflow *dataflow = meaning->assignment->dataflow;
    struct sp_arena_mark mark = sp_arena_mark(meaning->scratch);
    struct staged *list = SP_NEW_ARRAY(meaning->scratch, dataflow->node_count, struct staged);
    uint8_t *is_named = SP_NEW_ARRAY(meaning->scratch, (size_t)meaning->assignment->device_count, uint8_t);
    uint64_t work = 0;
    uint32_t count = 0;
    enum sp_status status = list == NULL || is_named == NULL ? sp_fail_memory(meaning->err) : SP_OK;
    for (uint32_t n = 0; status == SP_OK && n < dataflow->node_count; n++) {
        if (!has_stage(meaning, n) || dataflow->nodes[n]->is_folded) /* that runs at load, wherever it is used */
            continue;
        list[count] = (struct staged){.stage = meaning->assignment->nodes[n].stage, .node = n};
        work += (uint64_t)meaning->assignment->device_count;
        if (work <= SP_MAX_COMPOSE_STEPS)
            status = hash_devices(meaning, n, is_named, &list[count].devices);
        count++;
    }
    if (status == SP_OK && count > 0) {
        qsort(list, count, sizeof *list, by_stage);
        status = compare_stages(meaning, list, count);
    }
    sp_arena_rewind(meaning->scratch, mark);
    return status;
}

enum sp_status sp_check_meaning_stages(struct sp_meaning *meaning)
{
    enum sp_status status = check_edges(meaning);
    if (status == SP_OK)
        status = check_missing(meaning);
    if (status == SP_OK)
        status = check_devices(meaning);
    return status;
}
