/*
 * Qualcomm's partition configuration. Names are those of the compiler's graph: CALL/NODE for the nodes of functions that
 * it inlines. It passes over names that it does not have, and computes itself what depends on constants alone.
 */
#include <inttypes.h>
#include <string.h>

#include "base/intern.h"
#include "base/limits.h"
#include "import/internal.h"
#include "onnx/reader.h"

struct mdp {
    struct sp_import_reader *reader;
    struct sp_intern *inlined; /* "CALL/NODE"; mark: the call */
    uint32_t all;              /* the partition without a list, or SP_NOT_PLACED */
    uint32_t *used;            /* by device: 1 + the partition that has it */
};

static int ascending(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* Names of nodes inside of calls, where the list has a name that no node has. */
static enum sp_status find_inlined(struct mdp *mdp)
{
    struct sp_import_reader *reader = mdp->reader;
    const struct sp_graph *graph = reader->model->graph;
    enum sp_status status = SP_OK;
    mdp->inlined = sp_intern_create(reader->arena, reader->model->hash_seed);
    if (mdp->inlined == NULL)
        return sp_fail_memory(reader->err);
    for (uint32_t i = 0; status == SP_OK && i < graph->node_count; i++) {
        struct sp_node *node = &graph->nodes[i];
        const struct sp_function *function = sp_onnx_function(reader->model, node);
        struct sp_graph *body = NULL;
        if (function == NULL || node->name[0] == '\0')
            continue;
        status = sp_onnx_body(reader->model, reader->arena, function, &body, reader->err);
        for (uint32_t k = 0; status == SP_OK && k < body->node_count; k++) {
            const char *name = sp_arena_printf(reader->arena, "%s/%s", node->name, body->nodes[k].name);
            const char *own = name != NULL ? sp_intern_text(mdp->inlined, name, strlen(name)) : NULL;
            if (own == NULL)
                return sp_fail_memory(reader->err);
            *sp_intern_mark(own) = node;
        }
    }
    return status;
}

static enum sp_status find_node(struct mdp *mdp, const char *name, size_t size, const struct sp_node **ret)
{
    enum sp_status status = SP_OK;
    *ret = sp_import_node(mdp->reader, name, size);
    if (*ret == NULL && mdp->inlined == NULL)
        status = find_inlined(mdp);
    if (*ret == NULL && status == SP_OK) {
        const uint32_t id = sp_intern_find(mdp->inlined, name, size);
        *ret = id != SP_NO_NAME ? *sp_intern_mark(sp_intern_name(mdp->inlined, id)) : NULL;
    }
    return status;
}

static enum sp_status place_nodes(struct mdp *mdp, uint32_t place, const json_t *list, const char *pointer)
{
    struct sp_import_reader *reader = mdp->reader;
    const char *first = NULL;
    uint64_t unknown = 0;
    enum sp_status status = SP_OK;
    for (size_t i = 0; status == SP_OK && i < json_array_size(list); i++) {
        const json_t *name = json_array_get(list, i);
        const struct sp_node *node = NULL;
        if (!json_is_string(name))
            return sp_import_refuse(reader, sp_members_item(&reader->json, pointer, i),
                                    "A list of nodes must hold names.");
        status = find_node(mdp, json_string_value(name), json_string_length(name), &node);
        if (status == SP_OK && node != NULL) {
            status = sp_import_place(reader, node, place);
        } else if (status == SP_OK) {
            first = unknown++ == 0 ? json_string_value(name) : first;
        }
    }
    if (status == SP_OK && unknown > 0)
        status = sp_import_find(reader, "PLACED_NAME_IGNORED", NULL,
                                "'%.80s' lists %" PRIu64 " names that no node of the model has; the first is '%.200s'.",
                                reader->places.items[place].name, unknown, first);
    return status;
}

static enum sp_status read_devices(struct mdp *mdp, const json_t *list, const char *pointer,
                                   struct sp_import_place *place)
{
    struct sp_import_reader *reader = mdp->reader;
    const size_t count = json_array_size(list);
    int64_t *devices = count <= SP_MAX_DEVICES ? SP_NEW_ARRAY(reader->arena, count, int64_t) : NULL;
    if (count == 0 || count > SP_MAX_DEVICES)
        return sp_import_refuse(reader, pointer, "A partition must list from 1 to %d devices.", SP_MAX_DEVICES);
    if (devices == NULL)
        return sp_fail_memory(reader->err);
    for (size_t i = 0; i < count; i++) {
        enum sp_status status =
            sp_import_integer(reader, json_array_get(list, i), sp_members_item(&reader->json, pointer, i), "deviceId",
                              SP_MAX_DEVICES - 1, -1, &devices[i]);
        if (status != SP_OK)
            return status;
    }
    qsort(devices, count, sizeof *devices, ascending);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && devices[i] == devices[i - 1])
            return sp_import_refuse(reader, pointer, "The partition lists device %" PRId64 " twice.", devices[i]);
        reader->device_count = devices[i] >= reader->device_count ? devices[i] + 1 : reader->device_count;
    }
    place->has_devices = true;
    place->device_count = (uint32_t)count;
    place->devices = devices;
    return SP_OK;
}

/* Of devices that two partitions have: the first one. */
static enum sp_status note_devices(struct mdp *mdp, uint32_t place)
{
    const struct sp_import_place *own = &mdp->reader->places.items[place];
    for (uint32_t d = 0; d < own->device_count; d++) {
        uint32_t *used = &mdp->used[own->devices[d]];
        if (*used > 0)
            return sp_import_find(mdp->reader, "PLACED_DEVICE_SHARED", NULL,
                                  "Device %" PRId64 " runs '%.80s' and '%.80s'.", own->devices[d],
                                  mdp->reader->places.items[*used - 1].name, own->name);
        *used = place + 1;
    }
    return SP_OK;
}

static enum sp_status read_partition(struct mdp *mdp, const json_t *json, const char *pointer)
{
    struct sp_import_reader *reader = mdp->reader;
    const json_t *nodes = json_object_get(json, "nodeList");
    struct sp_import_place place = {0};
    uint32_t number;
    enum sp_status status = sp_import_text(reader, json, pointer, "name", &place.name);
    if (status == SP_OK)
        status = read_devices(mdp, json_object_get(json, "devices"),
                              sp_members_child(&reader->json, pointer, "devices"), &place);
    if (status == SP_OK)
        status = sp_import_add_place(reader, &place, &number);
    if (status == SP_OK)
        status = note_devices(mdp, number);
    if (status != SP_OK)
        return status;
    if (nodes == NULL && mdp->all == SP_NOT_PLACED) {
        mdp->all = number;
        return SP_OK;
    }
    if (!json_is_array(nodes))
        return sp_import_refuse(reader, pointer, "At most one partition is without a list of nodes: it runs the rest.");
    return place_nodes(mdp, number, nodes, sp_members_child(&reader->json, pointer, "nodeList"));
}

/* Devices that no connection lists, where there are connections. */
static enum sp_status check_connections(struct mdp *mdp, const json_t *connections)
{
    struct sp_import_reader *reader = mdp->reader;
    bool *is_connected = SP_NEW_ARRAY(reader->arena, (size_t)reader->device_count, bool);
    if (is_connected == NULL)
        return sp_fail_memory(reader->err);
    if (json_array_size(connections) == 0)
        return SP_OK;
    for (size_t c = 0; c < json_array_size(connections); c++) {
        const json_t *devices = json_object_get(json_array_get(connections, c), "devices");
        for (size_t i = 0; i < json_array_size(devices); i++) {
            const json_int_t device = json_integer_value(json_array_get(devices, i));
            if (device >= 0 && device < reader->device_count)
                is_connected[device] = true;
        }
    }
    for (int64_t d = 0; d < reader->device_count; d++) {
        if (mdp->used[d] > 0 && !is_connected[d])
            return sp_import_find(reader, "PLACED_DEVICE_UNKNOWN", NULL,
                                  "'%.80s' runs on device %" PRId64 ", which no connection of the file lists.",
                                  reader->places.items[mdp->used[d] - 1].name, d);
    }
    return SP_OK;
}

enum sp_status sp_import_mdp(struct sp_import_reader *reader, const json_t *json)
{
    const json_t *partitions = json_object_get(json, "partitions");
    struct mdp mdp = {.reader = reader, .all = SP_NOT_PLACED};
    enum sp_status status = SP_OK;
    reader->tool = "Qualcomm's partition configuration";
    mdp.used = SP_NEW_ARRAY(reader->arena, SP_MAX_DEVICES, uint32_t);
    if (mdp.used == NULL)
        return sp_fail_memory(reader->err);
    if (json_array_size(partitions) == 0)
        return sp_import_refuse(reader, "/partitions", "\"partitions\" must be a list of one partition or more.");
    for (size_t i = 0; status == SP_OK && i < json_array_size(partitions); i++)
        status = read_partition(&mdp, json_array_get(partitions, i), sp_members_item(&reader->json, "/partitions", i));
    if (status == SP_OK)
        status = check_connections(&mdp, json_object_get(json, "connections"));
    for (uint32_t i = 0; status == SP_OK && mdp.all != SP_NOT_PLACED && i < reader->model->graph->node_count; i++) {
        if (reader->place_of[i] == SP_NOT_PLACED)
            reader->place_of[i] = mdp.all;
    }
    return status;
}
