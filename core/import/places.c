/* Places, nodes by name, and findings. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "base/limits.h"
#include "import/internal.h"

enum sp_status sp_import_refuse(struct sp_import_reader *reader, const char *where, const char *format, ...)
{
    char message[SP_ERROR_MESSAGE_SIZE];
    SP_FORMAT(message, format);
    return sp_members_refuse(&reader->json, where, "PLACEMENT_FILE", "%s", message);
}

enum sp_status sp_import_find(struct sp_import_reader *reader, const char *code, const struct sp_node *node,
                              const char *format, ...)
{
    char message[SP_ERROR_MESSAGE_SIZE];
    SP_FORMAT(message, format);
    const struct sp_finding finding = {.code = code, .node = node, .configuration = SP_IMPORT_NAME};
    return sp_diagnose(reader->list, &finding, reader->err, "%s", message);
}

enum sp_status sp_import_add_place(struct sp_import_reader *reader, const struct sp_import_place *place,
                                   uint32_t *ret_place)
{
    struct sp_import_place own = *place;
    if (reader->places.count == SP_MAX_IMPORT_PLACES)
        return sp_fail_limit(reader->err, "TOO_MANY_GROUPS", "SP_MAX_IMPORT_PLACES", SP_MAX_IMPORT_PLACES,
                             SP_MAX_IMPORT_PLACES + 1, "The file has more than %d partitions, devices or stages.",
                             SP_MAX_IMPORT_PLACES);
    own.stage = (int32_t)reader->places.count;
    *ret_place = reader->places.count;
    if (sp_import_place_named(reader, own.name) != SP_NOT_PLACED)
        return sp_import_refuse(reader, "", "'%.200s' is there twice.", own.name);
    if (sp_intern_add(reader->place_names, own.name, strlen(own.name)) != SP_NO_NAME &&
        SP_PUSH(reader->arena, &reader->places, own))
        return SP_OK;
    (void)sp_fail_memory(reader->err);
    return SP_ERR_MEMORY;
}

uint32_t sp_import_place_named(const struct sp_import_reader *reader, const char *name)
{
    const uint32_t id = sp_intern_find(reader->place_names, name, strlen(name)); /* places in their order */
    return id != SP_NO_NAME ? id : SP_NOT_PLACED;
}

/* Text that is an integer, as a device's number; -1 where it is none. */
int64_t sp_import_device_number(const char *text)
{
    char *end;
    const long number = text[0] >= '0' && text[0] <= '9' ? strtol(text, &end, 10) : -1;
    return number >= 0 && *end == '\0' && number < SP_MAX_DEVICES ? number : -1;
}

enum sp_status sp_import_one_device(struct sp_import_reader *reader, int64_t device, struct sp_import_place *place)
{
    int64_t *own = SP_NEW(reader->arena, int64_t);
    if (own == NULL)
        return sp_fail_memory(reader->err);
    *own = device;
    place->has_devices = true;
    place->device_count = 1;
    place->devices = own;
    reader->device_count = device >= reader->device_count ? device + 1 : reader->device_count;
    return SP_OK;
}

struct sp_node *sp_import_node(struct sp_import_reader *reader, const char *name, size_t size)
{
    const uint32_t id = size > 0 ? sp_intern_find(reader->names, name, size) : SP_NO_NAME;
    return id != SP_NO_NAME ? *sp_intern_mark(sp_intern_name(reader->names, id)) : NULL;
}

enum sp_status sp_import_place(struct sp_import_reader *reader, const struct sp_node *node, uint32_t place)
{
    const uint32_t other = reader->place_of[node->index];
    char label[SP_ERROR_WHERE_SIZE];
    if (other != SP_NOT_PLACED && other != place)
        return sp_import_find(reader, "PLACED_TWICE", node, "%s is in '%.80s' and in '%.80s'; the first counts.",
                              sp_node_label(node, label, sizeof label), reader->places.items[other].name,
                              reader->places.items[place].name);
    reader->place_of[node->index] = place;
    return SP_OK;
}

enum sp_status sp_import_text(struct sp_import_reader *reader, const json_t *json, const char *pointer,
                              const char *member, const char **ret_text)
{
    *ret_text = NULL;
    enum sp_status status = sp_members_text(&reader->json, json, pointer, member, SP_MAX_NAME_BYTES, ret_text);
    if (status == SP_OK && *ret_text == NULL)
        status = sp_import_refuse(reader, pointer, "The member \"%s\" is missing: a text.", member);
    return status;
}

enum sp_status sp_import_integer(struct sp_import_reader *reader, const json_t *json, const char *pointer,
                                 const char *member, int64_t high, int64_t otherwise, int64_t *ret_value)
{
    const json_t *value = json_object_get(json, member);
    *ret_value = otherwise;
    if (value == NULL && otherwise >= 0)
        return SP_OK;
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > high)
        return sp_import_refuse(reader, sp_members_child(&reader->json, pointer, member),
                                "\"%s\" must be an integer from 0 to %" PRId64 ".", member, high);
    *ret_value = json_integer_value(value);
    return SP_OK;
}

enum sp_status sp_import_number_stages(struct sp_import_reader *reader)
{
    const struct sp_graph *graph = reader->model->graph;
    bool *is_seen = SP_NEW_ARRAY(reader->arena, reader->places.count, bool);
    int32_t next = 0;
    reader->has_stages = false;
    if (is_seen == NULL)
        return sp_fail_memory(reader->err);
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const uint32_t place = reader->place_of[i];
        if (place == SP_NOT_PLACED || is_seen[place] || graph->nodes[i].is_folded)
            continue;
        is_seen[place] = true;
        reader->places.items[place].stage = next++;
    }
    for (uint32_t p = 0; p < reader->places.count; p++)
        reader->places.items[p].stage = is_seen[p] ? reader->places.items[p].stage : next++;
    return SP_OK;
}
