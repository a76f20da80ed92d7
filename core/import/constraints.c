/* An import as constraints of a plan: nodes are pinned to stages and devices, and tensors to shards. */
#include <inttypes.h>
#include <string.h>

#include "base/limits.h"
#include "import/internal.h"

static enum sp_status refuse(struct sp_error *err, const char *why, const char *name)
{
    return sp_fail(err, SP_ERR_REQUEST, "PLACEMENT_FILE", "%s: '%.200s'.", why, name);
}

/* The names of a place's nodes that run; *ret_list NULL where there is none. */
static enum sp_status list_nodes(const struct sp_model *model, const struct sp_import *import, uint32_t place,
                                 json_t **ret_list, struct sp_error *err)
{
    const struct sp_graph *graph = model->graph;
    json_t *list = json_array();
    enum sp_status status = list != NULL ? SP_OK : sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && i < graph->node_count; i++) {
        const struct sp_node *node = &graph->nodes[i];
        if (import->place_of[i] != place || node->is_folded || node->name[0] == '\0')
            continue;
        if (strpbrk(node->name, "*?") != NULL)
            status = refuse(err, "A constraint cannot name a node with '*' or '?' in its name", node->name);
        else if (json_array_append_new(list, json_string(node->name)) != 0)
            status = sp_fail_memory(err);
    }
    if (status == SP_OK && json_array_size(list) > 0) {
        *ret_list = list;
        return SP_OK;
    }
    json_decref(list);
    *ret_list = NULL;
    return status;
}

static enum sp_status add_pin(json_t *pins, json_t *nodes, const char *member, int64_t number, struct sp_error *err)
{
    json_t *pin = json_pack("{s:O, s:I}", "nodes", nodes, member, (json_int_t)number);
    return pin != NULL && json_array_append_new(pins, pin) == 0 ? SP_OK : sp_fail_memory(err);
}

/* The stages of a plan, which has one on each set of devices: places one behind the other on the same device are one. */
static enum sp_status number_stages(struct sp_arena *arena, const struct sp_import *import, int32_t **ret_stages,
                                    struct sp_error *err)
{
    int32_t *stages = SP_NEW_ARRAY(arena, import->place_count, int32_t);
    uint32_t *order = SP_NEW_ARRAY(arena, import->place_count, uint32_t);
    int32_t next = -1;
    if (stages == NULL || order == NULL) {
        (void)sp_fail_memory(err);
        return SP_ERR_MEMORY; /* said so that an analyser sees it */
    }
    for (uint32_t p = 0; p < import->place_count; p++) {
        uint32_t at = p;
        for (; at > 0 && import->places[order[at - 1]].stage > import->places[p].stage; at--)
            order[at] = order[at - 1];
        order[at] = p;
    }
    for (uint32_t i = 0; i < import->place_count; i++) {
        const struct sp_import_place *place = &import->places[order[i]],
                                     *before = i > 0 ? &import->places[order[i - 1]] : NULL;
        const bool is_same = before != NULL &&
                             (before->stage == place->stage || (place->device_count == 1 && before->device_count == 1 &&
                                                                before->devices[0] == place->devices[0]));
        next += !is_same;
        stages[order[i]] = next;
    }
    *ret_stages = stages;
    return SP_OK;
}

static enum sp_status pin_place(const struct sp_model *model, const struct sp_import *import, uint32_t number,
                                int32_t stage, int64_t device_count, json_t *pins, struct sp_error *err)
{
    const struct sp_import_place *place = &import->places[number];
    json_t *nodes = NULL;
    if (place->has_devices && place->devices[place->device_count - 1] >= device_count)
        return sp_fail(err, SP_ERR_REQUEST, "PLACEMENT_FILE",
                       "'%.80s' of %s is on device %" PRId64 ", and the cluster has %" PRId64 " devices.", place->name,
                       import->tool, place->devices[place->device_count - 1], device_count);
    if (!place->has_devices && !import->has_stages)
        return refuse(err, "The file does not number this device, as \"gpu:0\" would", place->name);
    enum sp_status status = list_nodes(model, import, number, &nodes, err);
    if (status == SP_OK && nodes != NULL && import->has_stages)
        status = add_pin(pins, nodes, "stage", stage, err);
    if (status == SP_OK && nodes != NULL && place->device_count == 1)
        status = add_pin(pins, nodes, "device", place->devices[0], err);
    json_decref(nodes);
    return status;
}

/* Whether some node takes the tensor whole. */
static bool is_gathered(const struct sp_import *import, const struct sp_value *value)
{
    for (uint32_t i = 0; i < import->split_count; i++) {
        if (import->splits[i].at != NULL && import->splits[i].value == value)
            return true;
    }
    return false;
}

/*
 * A tensor that is split is in as many shards as there are devices. A constraint is for all nodes that take the tensor: so
 * none is made of one that attention gathers. What attention gathers follows from the others.
 */
static enum sp_status add_split(const struct sp_import *import, const struct sp_import_split *split,
                                int64_t device_count, json_t *specs, struct sp_error *err)
{
    const struct sp_shape *shape = &split->value->type.shape;
    if (split->at != NULL || is_gathered(import, split->value))
        return SP_OK;
    if (!shape->has_rank)
        return refuse(err, "How many axes this tensor has is not known", split->value->name);
    json_t *shards = json_array();
    json_t *spec = json_pack("{s:s, s:O*}", "tensor", split->value->name, "shards", shards);
    bool is_made = shards != NULL && spec != NULL;
    for (uint32_t i = 0; is_made && i < shape->rank; i++)
        is_made = json_array_append_new(shards, json_integer((int32_t)i == split->axis ? device_count : 1)) == 0;
    json_decref(shards);
    is_made = is_made && json_array_append(specs, spec) == 0;
    json_decref(spec);
    return is_made ? SP_OK : sp_fail_memory(err);
}

static enum sp_status write_constraints(const struct sp_model *model, const struct sp_import *import,
                                        int64_t device_count, json_t *json, struct sp_error *err)
{
    json_t *pins = json_array(), *specs = json_array();
    int32_t *stages = NULL;
    enum sp_status status =
        pins != NULL && specs != NULL ? number_stages(model->arena, import, &stages, err) : sp_fail_memory(err);
    for (uint32_t p = 0; status == SP_OK && stages != NULL && p < import->place_count; p++)
        status = pin_place(model, import, p, stages[p], device_count, pins, err);
    for (uint32_t i = 0; status == SP_OK && i < import->split_count; i++)
        status = add_split(import, &import->splits[i], device_count, specs, err);
    if (status == SP_OK && json_array_size(pins) > 0 && json_object_set(json, "pins", pins) != 0)
        status = sp_fail_memory(err);
    if (status == SP_OK && json_array_size(specs) > 0 && json_object_set(json, "specs", specs) != 0)
        status = sp_fail_memory(err);
    json_decref(pins);
    json_decref(specs);
    return status;
}

enum sp_status sp_import_constraints(struct sp_model *model, const char *text, size_t size, int64_t device_count,
                                     json_t **ret_constraints, struct sp_error *err)
{
    struct sp_diagnostics list = {.arena = model->arena};
    struct sp_import import = {0};
    enum sp_status status = sp_import_read(model->arena, model, text, size, &list, &import, err);
    for (uint32_t i = 0; status == SP_OK && i < list.count; i++) {
        if (list.items[i].severity == SP_SEVERITY_ERROR)
            status = sp_fail(err, SP_ERR_REQUEST, "PLACEMENT_FILE", "%s", list.items[i].message);
    }
    if (status == SP_OK && import.device_count > device_count && import.place_of == NULL)
        status = sp_fail(err, SP_ERR_REQUEST, "PLACEMENT_FILE",
                         "%s are for %" PRId64 " devices, and the cluster has %" PRId64 ".", import.tool,
                         import.device_count, device_count);
    if (status != SP_OK)
        return status;
    json_t *json = json_object();
    status = json != NULL ? write_constraints(model, &import, device_count, json, err) : sp_fail_memory(err);
    if (status == SP_OK)
        *ret_constraints = json;
    else
        json_decref(json);
    return status;
}
