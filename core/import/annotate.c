/*
 * An import as annotations in memory: a stage for each node that is placed, its device where that is one, and the axes of
 * tensors that are split; then their check.
 */
#include <inttypes.h>
#include <string.h>

#include "base/limits.h"
#include "check/check.h"
#include "import/internal.h"

#define ASSUMED_DEVICES 2 /* of hints, which need not say how many there are */
#define NO_SPLIT        UINT32_MAX

struct annotator {
    struct sp_model *model;
    const struct sp_import *import;
    struct sp_diagnostics *list;
    int64_t device_count;
    int64_t *devices;         /* 0, 1, .. device_count - 1 */
    uint32_t *of_value;       /* by value: its split */
    uint32_t *of_node, *next; /* by node: the first split that is of one node's operands; by split: the next one */
    struct sp_error *err;
};

/* ---- tensors ---------------------------------------------------------------------------------------------------- */

static enum sp_status index_splits(struct annotator *all)
{
    const struct sp_graph *graph = all->model->graph;
    struct sp_arena *arena = all->model->arena;
    all->of_value = SP_NEW_ARRAY(arena, graph->value_count, uint32_t);
    all->of_node = SP_NEW_ARRAY(arena, graph->node_count, uint32_t);
    all->next = SP_NEW_ARRAY(arena, all->import->split_count, uint32_t);
    if (all->of_value == NULL || all->of_node == NULL || all->next == NULL) {
        (void)sp_fail_memory(all->err);
        return SP_ERR_MEMORY; /* said so that an analyser sees it */
    }
    memset(all->of_value, 0xff, graph->value_count * sizeof *all->of_value);
    memset(all->of_node, 0xff, graph->node_count * sizeof *all->of_node);
    for (uint32_t i = 0; i < all->import->split_count; i++) {
        const struct sp_import_split *split = &all->import->splits[i];
        all->next[i] = NO_SPLIT;
        if (split->at == NULL) {
            all->of_value[split->value->id] = i;
            continue;
        }
        all->next[i] = all->of_node[split->at->index];
        all->of_node[split->at->index] = i;
    }
    return SP_OK;
}

static uint32_t split_of(const struct annotator *all, const struct sp_node *node, const struct sp_value *value)
{
    for (uint32_t i = all->of_node[node->index]; i != NO_SPLIT; i = all->next[i]) {
        if (all->import->splits[i].value == value)
            return i;
    }
    return all->of_value[value->id];
}

/* Along one axis, or whole, on all devices. */
static enum sp_status split_spec(const struct annotator *all, const struct sp_import_split *split,
                                 struct sp_sharding_spec *spec)
{
    struct sp_arena *arena = all->model->arena;
    const bool is_whole = split->axis < 0;
    spec->device_count = is_whole ? 1 : (uint32_t)all->device_count;
    spec->devices = all->devices;
    spec->axes = SP_NEW(arena, struct sp_sharded_axis);
    spec->groups = SP_NEW(arena, struct sp_device_group);
    struct sp_sharded_dim_part *part = SP_NEW(arena, struct sp_sharded_dim_part);
    int64_t *key = SP_NEW(arena, int64_t);
    if (spec->axes == NULL || spec->groups == NULL || part == NULL || key == NULL) {
        (void)sp_fail_memory(all->err);
        return SP_ERR_MEMORY;
    }
    if (is_whole) {
        *key = -1;
        spec->devices = key;
        spec->group_count = 1;
        *spec->groups = (struct sp_device_group){-1, (uint32_t)all->device_count, all->devices};
        return SP_OK;
    }
    *part = (struct sp_sharded_dim_part){.has_shards = true, .num_shards = all->device_count};
    spec->axis_count = 1;
    *spec->axes = (struct sp_sharded_axis){.has_axis = true, .axis = split->axis, .part_count = 1, .parts = part};
    return SP_OK;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------ */

static bool has_spec(const struct sp_node_configuration *entry, const char *tensor)
{
    for (uint32_t i = 0; i < entry->spec_count; i++) {
        if (strcmp(entry->specs[i].tensor_name, tensor) == 0)
            return true;
    }
    return false;
}

/* Specs of a node's operands: of those that are split, or of all where the node is on one device. */
static enum sp_status add_specs(struct annotator *all, const struct sp_node *node, const struct sp_import_place *place,
                                struct sp_node_configuration *entry)
{
    const uint32_t count = node->input_count + node->output_count;
    const bool is_on_one = place != NULL && place->device_count == 1;
    if (all->import->split_count == 0 && !is_on_one)
        return SP_OK;
    entry->specs = SP_NEW_ARRAY(all->model->arena, count, struct sp_sharding_spec);
    if (entry->specs == NULL)
        return sp_fail_memory(all->err);
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_value *value = i < node->input_count ? node->inputs[i] : node->outputs[i - node->input_count];
        struct sp_sharding_spec spec = {0};
        if (value == NULL || value->name[0] == '\0' || value->graph != all->model->graph ||
            has_spec(entry, value->name))
            continue;
        if (is_on_one) {
            spec.device_count = 1;
            spec.devices = all->devices + place->devices[0];
        } else {
            const uint32_t split = split_of(all, node, value);
            if (split == NO_SPLIT)
                continue;
            enum sp_status status = split_spec(all, &all->import->splits[split], &spec);
            if (status != SP_OK)
                return status;
        }
        spec.tensor_name = value->name;
        entry->specs[entry->spec_count++] = spec;
    }
    return SP_OK;
}

static enum sp_status annotate_node(struct annotator *all, struct sp_node *node)
{
    const uint32_t number = all->import->place_of != NULL ? all->import->place_of[node->index] : SP_NOT_PLACED;
    const struct sp_import_place *place = number != SP_NOT_PLACED ? &all->import->places[number] : NULL;
    node->configuration_count = 0;
    if (place == NULL && all->import->place_of != NULL)
        return SP_OK;
    struct sp_node_configuration *entry = SP_NEW(all->model->arena, struct sp_node_configuration);
    if (entry == NULL)
        return sp_fail_memory(all->err);
    *entry = (struct sp_node_configuration){.configuration_id = SP_IMPORT_NAME};
    if (place != NULL) {
        entry->has_stage = true;
        entry->stage = place->stage;
    }
    node->configurations = entry;
    node->configuration_count = 1;
    return add_specs(all, node, place, entry);
}

/* ---- the places ------------------------------------------------------------------------------------------------- */

/* "devices 0 to 3", "device 1", "devices 0, 2". */
static void devices_text(const struct sp_import_place *place, char *text, size_t size)
{
    const uint32_t count = place->device_count;
    const bool is_row = count > 2 && place->devices[count - 1] - place->devices[0] == count - 1;
    size_t at = (size_t)snprintf(text, size, count == 1 ? "device" : "devices");
    for (uint32_t i = 0; i < count && at < size; i++) {
        if (is_row && i > 0 && i + 1 < count)
            continue;
        at += (size_t)snprintf(text + at, size - at, "%s %" PRId64,
                               i == 0   ? ""
                               : is_row ? " to"
                                        : ",",
                               place->devices[i]);
    }
}

static enum sp_status tell_place(const struct annotator *all, uint32_t number)
{
    const struct sp_import_place *place = &all->import->places[number];
    const struct sp_graph *graph = all->model->graph;
    const struct sp_node *first = NULL, *last = NULL;
    char left[SP_ERROR_WHERE_SIZE], right[SP_ERROR_WHERE_SIZE], devices[128] = "devices that the file does not number";
    uint64_t count = 0;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (all->import->place_of[i] != number)
            continue;
        first = count++ == 0 ? &graph->nodes[i] : first;
        last = &graph->nodes[i];
    }
    if (place->has_devices)
        devices_text(place, devices, sizeof devices);
    const struct sp_finding finding = {.code = "PLACED", .node = first, .configuration = SP_IMPORT_NAME};
    if (count == 0)
        return sp_diagnose(all->list, &finding, all->err, "'%.80s' (stage %" PRId32 ", %s) has no node.", place->name,
                           place->stage, devices);
    return sp_diagnose(all->list, &finding, all->err,
                       "'%.80s' (stage %" PRId32 ", %s) has %" PRIu64 " node%s, from %s to %s.", place->name,
                       place->stage, devices, count, count == 1 ? "" : "s", sp_node_label(first, left, sizeof left),
                       sp_node_label(last, right, sizeof right));
}

static enum sp_status tell_places(const struct annotator *all)
{
    enum sp_status status = SP_OK;
    if (all->import->place_of == NULL) {
        const struct sp_finding finding = {.code = "PLACED", .configuration = SP_IMPORT_NAME};
        return sp_diagnose(all->list, &finding, all->err, "All nodes run on all devices%s.",
                           all->import->device_count > 0 ? "" : "; the file does not say how many: 2 are assumed");
    }
    const uint64_t steps = (uint64_t)all->import->place_count * all->model->graph->node_count;
    for (uint32_t p = 0; status == SP_OK && p < all->import->place_count && steps <= SP_MAX_IMPORT_STEPS; p++)
        status = tell_place(all, p);
    return status;
}

static enum sp_status annotate(struct annotator *all)
{
    const struct sp_graph *graph = all->model->graph;
    all->device_count = all->import->device_count > 0 ? all->import->device_count : ASSUMED_DEVICES;
    all->devices = SP_NEW_ARRAY(all->model->arena, (size_t)all->device_count, int64_t);
    if (all->devices == NULL) {
        (void)sp_fail_memory(all->err);
        return SP_ERR_MEMORY;
    }
    for (int64_t d = 0; d < all->device_count; d++)
        all->devices[d] = d;
    enum sp_status status = index_splits(all);
    for (uint32_t i = 0; status == SP_OK && i < graph->node_count; i++)
        status = annotate_node(all, &graph->nodes[i]);
    return status;
}

enum sp_status sp_import_check(struct sp_model *model, const char *text, size_t size, double memory_bytes,
                               struct sp_diagnostics *list, struct sp_error *err)
{
    struct sp_import import = {0};
    struct annotator all = {.model = model, .import = &import, .list = list, .err = err};
    const uint64_t before = list->errors;
    enum sp_status status = sp_import_read(model->arena, model, text, size, list, &import, err);
    if (status == SP_OK)
        status = tell_places(&all);
    if (status != SP_OK || list->errors > before)
        return status; /* what follows would be about another placement than was meant */
    status = annotate(&all);
    struct sp_device_configuration *configuration = SP_NEW(model->arena, struct sp_device_configuration);
    if (status != SP_OK || configuration == NULL)
        return configuration != NULL ? status : sp_fail_memory(err);
    *configuration = (struct sp_device_configuration){
        .name = SP_IMPORT_NAME, .has_num_devices = true, .num_devices = (int32_t)all.device_count};
    model->configurations = configuration;
    model->configuration_count = 1;
    return sp_check_meaning(model, SP_IMPORT_NAME, memory_bytes, list, err);
}
