/*
 * PopRT's points of manual sharding. They are gone through in the order of the model; from each one walks towards the
 * inputs and takes every node that is not taken yet. What is left in the end goes to the next device and stage.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/limits.h"
#include "import/internal.h"

struct point {
    const struct sp_node *node;
    int64_t device, stage; /* -1: none is said */
};

struct points {
    uint32_t count;
    struct point *items;
    bool has_stages;
};

static int by_node(const void *a, const void *b)
{
    const uint32_t left = ((const struct point *)a)->node->index, right = ((const struct point *)b)->node->index;
    return (left > right) - (left < right);
}

static enum sp_status read_point(struct sp_import_reader *reader, const json_t *json, const char *pointer,
                                 struct points *points)
{
    struct point point = {0};
    const char *name = NULL;
    const bool has_stage = json_object_get(json, "stage") != NULL;
    enum sp_status status = sp_import_text(reader, json, pointer, "node", &name);
    if (status == SP_OK)
        status = sp_import_integer(reader, json, pointer, "device", SP_MAX_DEVICES - 1, -1, &point.device);
    if (status == SP_OK)
        status = sp_import_integer(reader, json, pointer, "stage", SP_MAX_DEVICES - 1, 0, &point.stage);
    if (status != SP_OK)
        return status;
    if (points->count > 0 && points->has_stages != has_stage)
        return sp_import_refuse(reader, pointer, "Either each point has a stage or none has.");
    points->has_stages = has_stage;
    point.node = sp_import_node(reader, name, strlen(name));
    if (point.node == NULL)
        return sp_import_find(reader, "PLACED_NAME_UNKNOWN", NULL, "The model has no node '%.200s' (at %.40s).", name,
                              pointer);
    points->items[points->count++] = point;
    return SP_OK;
}

/* The place of a device and stage, made when it is first asked for. */
static enum sp_status find_place(struct sp_import_reader *reader, const struct points *points, int64_t device,
                                 int64_t stage, uint32_t *ret_place)
{
    struct sp_import_place place = {
        .name = points->has_stages ? sp_arena_printf(reader->arena, "device %" PRId64 ", stage %" PRId64, device, stage)
                                   : sp_arena_printf(reader->arena, "device %" PRId64, device)};
    if (place.name == NULL)
        return sp_fail_memory(reader->err);
    *ret_place = sp_import_place_named(reader, place.name);
    if (*ret_place != SP_NOT_PLACED)
        return SP_OK;
    enum sp_status status = sp_import_one_device(reader, device, &place);
    if (status == SP_OK)
        status = sp_import_add_place(reader, &place, ret_place);
    if (status == SP_OK && points->has_stages)
        reader->places.items[*ret_place].stage = (int32_t)stage;
    return status;
}

static enum sp_status place_rest(struct sp_import_reader *reader, const struct points *points)
{
    const struct sp_graph *graph = reader->model->graph;
    uint32_t place = SP_NOT_PLACED;
    int64_t device = -1, stage = -1;
    enum sp_status status = SP_OK;
    for (uint32_t p = 0; p < reader->places.count; p++) {
        const struct sp_import_place *other = &reader->places.items[p];
        device = other->devices[0] > device ? other->devices[0] : device;
        stage = other->stage > stage ? other->stage : stage;
    }
    for (uint32_t i = 0; status == SP_OK && i < graph->node_count; i++) {
        if (reader->place_of[i] != SP_NOT_PLACED)
            continue;
        if (place == SP_NOT_PLACED)
            status = find_place(reader, points, device + 1, stage + 1, &place);
        reader->place_of[i] = place;
    }
    return status;
}

enum sp_status sp_import_poprt(struct sp_import_reader *reader, const json_t *json)
{
    const size_t count = json_array_size(json);
    struct points points = {0};
    struct sp_import_walk walk = {0};
    enum sp_status status = SP_OK;
    reader->tool = "PopRT's points of sharding";
    if (count > SP_MAX_NODES)
        return sp_import_refuse(reader, "", "There are more points than a model may have nodes.");
    points.items = SP_NEW_ARRAY(reader->arena, count, struct point);
    if (points.items == NULL)
        return sp_fail_memory(reader->err);
    for (size_t i = 0; status == SP_OK && i < count; i++)
        status = read_point(reader, json_array_get(json, i), sp_members_item(&reader->json, "", i), &points);
    if (status != SP_OK)
        return status;
    if (points.count > 0)
        qsort(points.items, points.count, sizeof *points.items, by_node);
    for (uint32_t i = 0; status == SP_OK && i < points.count; i++) {
        const struct point *point = &points.items[i];
        uint32_t place = 0;
        if (i > 0 && point->node == points.items[i - 1].node) {
            status = sp_import_find(reader, "PLACED_TWICE", point->node, "'%.200s' is a point twice; the first counts.",
                                    point->node->name);
            continue;
        }
        status = find_place(reader, &points, point->device, point->stage, &place);
        if (status == SP_OK)
            status = sp_import_walk(reader, &walk, point->node, place);
    }
    if (status == SP_OK)
        status = place_rest(reader, &points);
    return status == SP_OK && !points.has_stages ? sp_import_number_stages(reader) : status;
}
