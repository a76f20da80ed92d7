#include "infer/stored.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/limits.h"
#include "sharding/dialect.h"

struct assigner {
    struct sp_assignment *assignment;
    struct sp_arena *arena;
    struct sp_arena *scratch; /* of one spec or node */
    struct sp_view_cache *cache;
    struct sp_error *err;
};

/* ---- stops ---------------------------------------------------------------------------------------------------- */

enum sp_status sp_assignment_stop(struct sp_assignment *assignment, const char *code, const struct sp_node *node,
                                  const char *tensor, struct sp_error *err, const char *format, ...)
{
    if (assignment->stop_count >= SP_MAX_STOPS)
        return SP_OK;
    if (!SP_MAKE_ROOM(assignment->arena, assignment->stops, assignment->stop_count, assignment->stop_capacity, 1))
        return sp_fail_memory(err);
    char message[SP_ERROR_MESSAGE_SIZE];
    SP_FORMAT(message, format);
    char *copy = sp_arena_string(assignment->arena, message, strlen(message));
    if (copy == NULL)
        return sp_fail_memory(err);
    assignment->stops[assignment->stop_count++] = (struct sp_stop){code, node, tensor, copy};
    return SP_OK;
}

/* ---- shardings in the form that assignments have ---------------------------------------------------------------- */

static const struct sp_shape *shape_of(const struct sp_value *value)
{
    bool has_rank = value != NULL && value->type.kind == SP_TYPE_TENSOR && value->type.shape.has_rank &&
                    value->type.shape.rank <= SP_MAX_RANK;
    return has_rank ? &value->type.shape : NULL;
}

/* The extents as numbers, -1 where they are not known. */
static void extents_of(const struct sp_shape *shape, int64_t *extents)
{
    for (uint32_t i = 0; i < shape->rank; i++)
        extents[i] = sp_dim_is_known(shape->dims[i]) ? shape->dims[i].value : -1;
}

/* With the tensor's rank, and devices where the kind names none. BLOCKS may keep an open placement. */
static enum sp_status normalize(struct assigner *all, const struct sp_sharding *sharding, uint32_t rank,
                                const struct sp_sharding **ret_sharding)
{
    struct sp_sharding *blocks = NULL;
    if (sharding->kind == SP_SHARDING_AXES && !sp_mesh_is_empty(sharding->mesh)) {
        if (sharding->partial.count > 0 || sharding->manual.count > 0)
            return sp_fail(all->err, SP_ERR_REQUEST, "PARTIAL_SPEC",
                           "A spec of a model's tensor cannot be partial or manual along mesh axes.");
        return sp_view_cache_sharding(all->cache, sharding, true, ret_sharding, all->err);
    }
    enum sp_status status =
        sp_sharding_to_blocks(all->scratch, sharding, rank, all->assignment->device_count, &blocks, NULL, all->err);
    return status == SP_OK ? sp_view_cache_sharding(all->cache, blocks, false, ret_sharding, all->err) : status;
}

/* ---- what the file says ----------------------------------------------------------------------------------------- */

static struct sp_value *operand_value(const struct sp_node *node, uint32_t operand)
{
    return operand < node->input_count ? node->inputs[operand] : node->outputs[operand - node->input_count];
}

static enum sp_status fail_node(struct assigner *all, const struct sp_node *node, const struct sp_error *why)
{
    char label[264];
    if (why->status == SP_ERR_MEMORY || why->status == SP_ERR_LIMIT) {
        *all->err = *why;
        return why->status;
    }
    (void)sp_fail(all->err, SP_ERR_MODEL, why->code, "The annotation of %s for configuration '%.80s' is not sound: %s",
                  sp_node_label(node, label, sizeof label), all->assignment->configuration, why->message);
    return sp_error_at(all->err, "node %.200s", label);
}

static enum sp_status fail_foreign(struct assigner *all, const struct sp_node *node, const char *tensor)
{
    struct sp_error why = {0};
    (void)sp_fail(&why, SP_ERR_MODEL, "UNKNOWN_TENSOR",
                  "it has a spec for '%.120s', which is no input or output of it.", tensor);
    return fail_node(all, node, &why);
}

/* Groups make few bytes list many devices. */
static enum sp_status count_devices(struct assigner *all, const struct sp_sharding *sharding)
{
    const bool is_listed = sharding->kind == SP_SHARDING_BLOCKS && sharding->first != NULL;
    if (!is_listed || (!sp_view_cache_is_full(all->cache) &&
                       sp_view_cache_spend(all->cache, (int64_t)sharding->first[sharding->shard_count])))
        return SP_OK;
    return sp_fail_limit(all->err, "TOO_MANY_SPEC_DEVICES", "SP_FREE_KEPT_DEVICES", SP_FREE_KEPT_DEVICES,
                         (int64_t)sharding->first[sharding->shard_count],
                         "The specs for configuration '%.80s' list too many devices for the size of the file.",
                         all->assignment->configuration);
}

static enum sp_status read_spec(struct assigner *all, const struct sp_sharding_spec *spec, const struct sp_shape *shape,
                                const struct sp_sharding **ret_sharding)
{
    int64_t extents[SP_MAX_RANK];
    struct sp_arena_mark mark = sp_arena_mark(all->scratch);
    struct sp_sharding *sharding = NULL;
    extents_of(shape, extents);
    struct sp_dialect_context context = {
        .rank = shape->rank, .shape = extents, .device_count = all->assignment->device_count};
    enum sp_status status = sp_onnx_spec_to_sharding(all->scratch, spec, &context, &sharding, NULL, all->err);
    if (status == SP_OK)
        status = count_devices(all, sharding);
    if (status == SP_OK)
        status = normalize(all, sharding, shape->rank, ret_sharding);
    sp_arena_rewind(all->scratch, mark);
    return status;
}

/* One spec to all operands of this name. */
static enum sp_status give_spec(struct assigner *all, uint32_t node_id, const struct sp_sharding_spec *spec)
{
    const struct sp_node *node = all->assignment->dataflow->nodes[node_id];
    const struct sp_sharding *normal = NULL;
    bool is_found = false;
    for (uint32_t i = 0; i < node->input_count + node->output_count; i++) {
        const struct sp_value *value = operand_value(node, i);
        if (value == NULL || spec->tensor_name == NULL || strcmp(value->name, spec->tensor_name) != 0)
            continue;
        is_found = true;
        const struct sp_shape *shape = shape_of(value);
        if (shape == NULL)
            return sp_assignment_stop(all->assignment, "RANK_UNKNOWN", node, value->name, all->err,
                                      "The number of axes of '%.120s' is not known, so its spec is not looked at.",
                                      value->name);
        struct sp_spec_entry *entry = sp_spec_of(all->assignment, node_id, i);
        struct sp_error why = {0};
        struct assigner within = *all;
        within.err = &why;
        if (normal == NULL && read_spec(&within, spec, shape, &normal) != SP_OK)
            return fail_node(all, node, &why);
        *entry = (struct sp_spec_entry){normal, SP_SPEC_GIVEN, NULL};
    }
    return is_found ? SP_OK : fail_foreign(all, node, spec->tensor_name != NULL ? spec->tensor_name : "");
}

static bool is_open(const struct sp_spec_entry *entry)
{
    return entry->sharding != NULL && entry->sharding->kind == SP_SHARDING_BLOCKS && entry->sharding->first == NULL;
}

/* The devices of the node's specs that have a placement, ascending. */
static enum sp_status devices_of_node(struct assigner *all, uint32_t node_id, int64_t *ret_count,
                                      const int64_t **ret_devices)
{
    const struct sp_node *node = all->assignment->dataflow->nodes[node_id];
    const uint32_t operands = node->input_count + node->output_count;
    struct sp_arena_mark mark = sp_arena_mark(all->scratch);
    const struct sp_sharding **named = SP_NEW_ARRAY(all->scratch, operands, const struct sp_sharding *), *whole = NULL;
    uint32_t count = 0;
    if (named == NULL)
        return sp_fail_memory(all->err);
    for (uint32_t i = 0; i < operands; i++) {
        const struct sp_spec_entry *entry = sp_spec_of(all->assignment, node_id, i);
        if (entry->sharding != NULL && !is_open(entry))
            named[count++] = entry->sharding;
    }
    enum sp_status status =
        sp_view_cache_whole(all->cache, 0, all->assignment->device_count, count, named, &whole, all->err);
    sp_arena_rewind(all->scratch, mark);
    if (status != SP_OK)
        return status;
    *ret_count = whole != NULL ? whole->first[1] : 0;
    *ret_devices = whole != NULL ? whole->devices : NULL;
    return SP_OK;
}

static enum sp_status fail_shards(struct assigner *all, const struct sp_node *node, int64_t shards)
{
    struct sp_error why = {0};
    (void)sp_fail(&why, SP_ERR_MODEL, "DEVICE_COUNT",
                  "a spec without devices has %" PRId64 " shards, and the configuration has %" PRId64 " devices.",
                  shards, all->assignment->device_count);
    return fail_node(all, node, &why);
}

static enum sp_status fill_open(struct assigner *all, uint32_t node_id)
{
    const struct sp_node *node = all->assignment->dataflow->nodes[node_id];
    const int64_t *devices = NULL;
    int64_t named = -1;
    for (uint32_t i = 0; i < node->input_count + node->output_count; i++) {
        struct sp_spec_entry *entry = sp_spec_of(all->assignment, node_id, i);
        if (!is_open(entry))
            continue;
        enum sp_status status = named < 0 ? devices_of_node(all, node_id, &named, &devices) : SP_OK;
        int64_t shards = entry->sharding->shard_count;
        if (status != SP_OK)
            return status;
        if (shards > all->assignment->device_count)
            return fail_shards(all, node, shards);
        if (shards == 1 && named > 0)
            status = sp_view_cache_placed(all->cache, entry->sharding, named, devices, &entry->sharding, all->err);
        else if (shards == 1)
            status = sp_view_cache_placed(all->cache, entry->sharding, all->assignment->device_count, NULL,
                                          &entry->sharding, all->err);
        else
            status = sp_view_cache_placed(all->cache, entry->sharding, shards, named == shards ? devices : NULL,
                                          &entry->sharding, all->err);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

/* `*entries` moves behind those of the node. */
static enum sp_status give_node(struct assigner *all, uint32_t node_id, struct sp_spec_entry **entries)
{
    struct sp_node_specs *specs = &all->assignment->nodes[node_id];
    const struct sp_node *node = all->assignment->dataflow->nodes[node_id];
    specs->operands = *entries;
    *entries += node->input_count + node->output_count;
    for (uint32_t i = 0; i < node->configuration_count; i++) {
        const struct sp_node_configuration *given = &node->configurations[i];
        if (strcmp(given->configuration_id, all->assignment->configuration) != 0)
            continue;
        specs->has_stage = given->has_stage;
        specs->stage = given->stage;
        for (uint32_t s = 0; s < given->spec_count; s++) {
            enum sp_status status = give_spec(all, node_id, &given->specs[s]);
            if (status != SP_OK)
                return status;
        }
        return fill_open(all, node_id);
    }
    return SP_OK;
}

/* ---- what the request says -------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const struct sp_value *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static int to_name(const void *key, const void *item)
{
    const struct sp_value *const *value = item;
    return strcmp(key, (*value)->name);
}

/* One spec, ready for any operand. */
static enum sp_status prepare_set(struct assigner *all, const struct sp_value *value, const struct sp_set_spec *set,
                                  const struct sp_sharding **ret_sharding)
{
    int64_t extents[SP_MAX_RANK];
    const struct sp_shape *shape = shape_of(value);
    if (shape == NULL)
        return sp_fail(all->err, SP_ERR_REQUEST, "RANK_UNKNOWN",
                       "'%.120s' gets a spec, but the number of its axes is not known.", set->tensor);
    extents_of(shape, extents);
    enum sp_status status =
        sp_sharding_check(set->sharding, shape->rank, extents, all->assignment->device_count, all->err);
    if (status == SP_OK)
        status = normalize(all, set->sharding, shape->rank, ret_sharding);
    if (status != SP_OK || (*ret_sharding)->kind != SP_SHARDING_BLOCKS || (*ret_sharding)->first != NULL)
        return status;
    int64_t shards = (*ret_sharding)->shard_count;
    if (shards > all->assignment->device_count)
        return sp_fail(all->err, SP_ERR_REQUEST, "DEVICE_COUNT",
                       "The spec of '%.120s' names no devices and has %" PRId64 " shards, and there are %" PRId64
                       " devices.",
                       set->tensor, shards, all->assignment->device_count);
    return sp_view_cache_placed(all->cache, *ret_sharding, shards == 1 ? all->assignment->device_count : shards, NULL,
                                ret_sharding, all->err);
}

/* Per value of the main graph the spec that is set on it, or NULL. */
static enum sp_status find_sets(struct assigner *all, uint32_t count, const struct sp_set_spec *sets,
                                const struct sp_sharding **by_value)
{
    const struct sp_graph *graph = all->assignment->dataflow->model->graph;
    struct sp_value **sorted = SP_NEW_ARRAY(all->arena, graph->value_count, struct sp_value *);
    if (sorted == NULL)
        return sp_fail_memory(all->err);
    if (graph->value_count > 0)
        memcpy(sorted, graph->values, graph->value_count * sizeof(struct sp_value *));
    qsort(sorted, graph->value_count, sizeof *sorted, by_name);
    for (uint32_t i = 0; i < count; i++) {
        struct sp_value **found = bsearch(sets[i].tensor, sorted, graph->value_count, sizeof *sorted, to_name);
        if (found == NULL)
            return sp_fail(all->err, SP_ERR_REQUEST, "UNKNOWN_TENSOR", "The model's graph has no tensor '%.120s'.",
                           sets[i].tensor);
        if (by_value[(*found)->id] != NULL)
            return sp_fail(all->err, SP_ERR_REQUEST, "DUPLICATE_TENSOR", "The tensor '%.120s' gets two specs.",
                           sets[i].tensor);
        enum sp_status status = prepare_set(all, *found, &sets[i], &by_value[(*found)->id]);
        if (status != SP_OK)
            return sp_error_at(all->err, "tensor %.200s", sets[i].tensor);
    }
    return SP_OK;
}

static enum sp_status set_specs(struct assigner *all, uint32_t count, const struct sp_set_spec *sets)
{
    struct sp_assignment *assignment = all->assignment;
    const struct sp_graph *graph = assignment->dataflow->model->graph;
    const struct sp_sharding **by_value = SP_NEW_ARRAY(all->arena, graph->value_count, const struct sp_sharding *);
    if (by_value == NULL)
        return sp_fail_memory(all->err);
    enum sp_status status = find_sets(all, count, sets, by_value);
    for (uint32_t n = 0; status == SP_OK && n < assignment->dataflow->node_count; n++) {
        const struct sp_node *node = assignment->dataflow->nodes[n];
        for (uint32_t i = 0; i < node->input_count + node->output_count; i++) {
            const struct sp_value *value = operand_value(node, i);
            struct sp_spec_entry *entry = sp_spec_of(assignment, n, i);
            if (value == NULL || value->graph != graph || by_value[value->id] == NULL)
                continue;
            if (i >= node->input_count || entry->origin == SP_SPEC_NONE)
                *entry = (struct sp_spec_entry){by_value[value->id], SP_SPEC_SET, "The request sets it."};
        }
    }
    for (uint32_t i = 0; status == SP_OK && i < graph->value_count; i++) {
        if (by_value[i] != NULL && graph->values[i]->producer == NULL)
            status = sp_assignment_store(assignment, i, by_value[i], all->err);
    }
    return status;
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

enum sp_status sp_assignment_create(struct sp_arena *arena, const struct sp_dataflow *dataflow,
                                    const char *configuration, int64_t device_count, const struct sp_set_specs *sets,
                                    struct sp_assignment **ret_assignment, struct sp_error *err)
{
    if (device_count < 1 || device_count > SP_MAX_DEVICES)
        return sp_fail_limit(err, "BAD_DEVICE_COUNT", "SP_MAX_DEVICES", SP_MAX_DEVICES, device_count,
                             "A configuration has 1 to %d devices, not %" PRId64 ".", SP_MAX_DEVICES, device_count);
    if (sets != NULL && sets->count > SP_MAX_SET_SPECS)
        return sp_fail_limit(err, "TOO_MANY_SPECS", "SP_MAX_SET_SPECS", SP_MAX_SET_SPECS, sets->count,
                             "At most %d specs can be set.", SP_MAX_SET_SPECS);
    struct sp_assignment *assignment = SP_NEW(arena, struct sp_assignment);
    if (assignment == NULL)
        return sp_fail_memory(err);
    struct assigner all = {.assignment = assignment, .arena = arena, .err = err};
    enum sp_status status = sp_view_cache_create(arena, dataflow->model, &assignment->cache, err);
    if (status != SP_OK)
        return status;
    all.cache = assignment->cache;
    assignment->arena = arena;
    assignment->dataflow = dataflow;
    assignment->configuration = configuration != NULL ? configuration : "";
    assignment->device_count = device_count;
    assignment->nodes = SP_NEW_ARRAY(arena, dataflow->node_count, struct sp_node_specs);
    uint64_t operands = 0;
    for (uint32_t i = 0; i < dataflow->node_count; i++)
        operands += (uint64_t)dataflow->nodes[i]->input_count + dataflow->nodes[i]->output_count;
    struct sp_spec_entry *entries = SP_NEW_ARRAY(arena, operands, struct sp_spec_entry);
    if (assignment->nodes == NULL || entries == NULL)
        return sp_fail_memory(err);
    all.scratch = sp_arena_create(sp_arena_budget(arena));
    if (all.scratch == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < dataflow->node_count && status == SP_OK; i++)
        status = give_node(&all, i, &entries);
    if (status == SP_OK)
        status = sp_assignment_read_stored(assignment, err);
    if (status == SP_OK && sets != NULL && sets->count > 0)
        status = set_specs(&all, sets->count, sets->items);
    sp_arena_destroy(all.scratch);
    if (status == SP_OK)
        *ret_assignment = assignment;
    return status;
}
