/*
 * The protobuf JSON mapping of ShardingSpecProto. Members in camelCase or with the names of the schema, 64-bit integers
 * as numbers or as strings, null as an absent member. index_to_device_group_map is a repeated message with `key` and
 * `value`; an object from key to list, which says the same, is read as well.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/json_writer.h"
#include "sharding/dialect.h"

#define COUNT_OF(array) (sizeof array / sizeof array[0])
#define POINTER_BYTES   192
#define EXACT_DOUBLE    9007199254740992.0 /* 2^53: up to here a double names one integer */

struct json_reader {
    struct sp_arena *arena;
    struct sp_error *err;
};

struct member {
    const char *name, *schema_name;
    const char *used; /* the name that the text uses, `name` when it is absent */
    const json_t *value;
};

/* A JSON pointer (RFC 6901), shortened when it is very long. */
struct pointer {
    char text[POINTER_BYTES];
};

__attribute__((format(printf, 1, 2))) static struct pointer pointer_of(const char *format, ...)
{
    struct pointer pointer;
    SP_FORMAT(pointer.text, format);
    return pointer;
}

__attribute__((format(printf, 3, 4))) static enum sp_status refuse(struct json_reader *reader, const char *pointer,
                                                                   const char *format, ...)
{
    char message[512];
    SP_FORMAT(message, format);
    (void)sp_fail(reader->err, SP_ERR_MALFORMED, "ONNX_JSON", "%s", message);
    return sp_error_at(reader->err, "%s", pointer);
}

/* The member of `table` with this name, or NULL. */
static struct member *find_member(struct member *table, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(table[i].name, name) == 0 || strcmp(table[i].schema_name, name) == 0)
            return &table[i];
    }
    return NULL;
}

/* A member as pointer: '~' is ~0 and '/' is ~1. */
static struct pointer member_pointer(const char *parent, const char *name)
{
    char text[64];
    size_t used = 0;
    for (; *name != '\0' && used + 3 < sizeof text; name++) {
        if (*name == '~' || *name == '/') {
            text[used++] = '~';
            text[used++] = *name == '~' ? '0' : '1';
        } else {
            text[used++] = *name;
        }
    }
    text[used] = '\0';
    return pointer_of("%s/%s", parent, text);
}

/* Sorts the members of an object into `table`; null counts as absent, as protobuf says. `what`: "A sharded dim". */
static enum sp_status read_members(struct json_reader *reader, const json_t *json, const char *pointer,
                                   const char *what, struct member *table, size_t count)
{
    const char *name;
    json_t *value;
    for (size_t i = 0; i < count; i++) {
        table[i].used = table[i].name;
        table[i].value = NULL;
    }
    if (!json_is_object(json))
        return refuse(reader, pointer, "%s must be a JSON object.", what);
    json_object_foreach((json_t *)json, name, value)
    {
        struct member *member = find_member(table, count, name);
        if (member == NULL)
            return refuse(reader, member_pointer(pointer, name).text, "%s has no member '%.64s'.", what, name);
        if (json_is_null(value))
            continue;
        if (member->value != NULL)
            return refuse(reader, member_pointer(pointer, name).text,
                          "'%s' and '%s' are the same member and may not both be given.", member->name,
                          member->schema_name);
        member->value = value;
        member->used = name;
    }
    return SP_OK;
}

/* The canonical decimal form only: no blanks, no leading zeros, no plus. */
static bool parse_decimal(const char *text, int64_t *ret_value)
{
    char *end, again[32];
    if (*text != '-' && (*text < '0' || *text > '9'))
        return false;
    errno = 0;
    int64_t value = strtoll(text, &end, 10);
    (void)snprintf(again, sizeof again, "%" PRId64, value);
    if (errno != 0 || *end != '\0' || strcmp(again, text) != 0)
        return false;
    *ret_value = value;
    return true;
}

static enum sp_status read_int(struct json_reader *reader, const json_t *json, const char *pointer, int64_t *ret_value)
{
    if (json_is_integer(json)) {
        *ret_value = json_integer_value(json);
        return SP_OK;
    }
    if (json_is_string(json) && parse_decimal(json_string_value(json), ret_value))
        return SP_OK;
    double real = json_is_real(json) ? json_real_value(json) : NAN;
    if (!(fabs(real) <= EXACT_DOUBLE) || real != floor(real))
        return refuse(reader, pointer, "Expected a 64-bit integer here, as a number or as a string of its digits.");
    *ret_value = (int64_t)real;
    return SP_OK;
}

static enum sp_status read_text(struct json_reader *reader, const json_t *json, const char *pointer,
                                const char **ret_text)
{
    if (!json_is_string(json))
        return refuse(reader, pointer, "Expected a string here.");
    if (json_string_length(json) > SP_MAX_NAME_BYTES)
        return sp_fail_limit(reader->err, "NAME_TOO_LONG", "SP_MAX_NAME_BYTES", SP_MAX_NAME_BYTES,
                             (int64_t)json_string_length(json), "The name at %s is longer than %d bytes.", pointer,
                             SP_MAX_NAME_BYTES);
    *ret_text = sp_arena_string(reader->arena, json_string_value(json), json_string_length(json));
    return *ret_text == NULL ? sp_fail_memory(reader->err) : SP_OK;
}

static enum sp_status read_ints(struct json_reader *reader, const json_t *json, const char *pointer,
                                uint32_t *ret_count, int64_t **ret_items)
{
    size_t count = json_array_size(json);
    int64_t *items;
    if (json != NULL && !json_is_array(json))
        return refuse(reader, pointer, "Expected a list of devices here.");
    items = SP_NEW_ARRAY(reader->arena, count, int64_t);
    if (items == NULL)
        return sp_fail_memory(reader->err);
    for (size_t i = 0; i < count; i++) {
        struct pointer here = pointer_of("%s/%zu", pointer, i);
        enum sp_status status = read_int(reader, json_array_get(json, i), here.text, &items[i]);
        if (status != SP_OK)
            return status;
    }
    *ret_count = (uint32_t)count;
    *ret_items = items;
    return SP_OK;
}

/* ---- groups ---- */

static enum sp_status read_entry(struct json_reader *reader, const json_t *json, const char *pointer,
                                 struct sp_device_group *group)
{
    enum { KEY, VALUE };
    struct member table[] = {{.name = "key", .schema_name = "key"}, {.name = "value", .schema_name = "value"}};
    enum sp_status status = read_members(reader, json, pointer, "A group of devices", table, COUNT_OF(table));
    if (status != SP_OK)
        return status;
    if (table[KEY].value == NULL)
        return refuse(reader, pointer, "A group of devices needs its 'key'.");
    status = read_int(reader, table[KEY].value, pointer_of("%s/key", pointer).text, &group->key);
    if (status != SP_OK)
        return status;
    return read_ints(reader, table[VALUE].value, pointer_of("%s/value", pointer).text, &group->count, &group->devices);
}

static enum sp_status read_group_object(struct json_reader *reader, const json_t *json, const char *pointer,
                                        struct sp_sharding_spec *spec)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)json, name, value)
    {
        struct sp_device_group *group = &spec->groups[spec->group_count++];
        struct pointer here = member_pointer(pointer, name);
        if (!parse_decimal(name, &group->key))
            return refuse(reader, here.text, "The key of a group of devices must be a 64-bit integer.");
        if (!json_is_array(value))
            return refuse(reader, here.text, "Expected a list of devices here.");
        enum sp_status status = read_ints(reader, value, here.text, &group->count, &group->devices);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

static enum sp_status read_groups(struct json_reader *reader, const json_t *json, const char *pointer,
                                  struct sp_sharding_spec *spec)
{
    size_t count = json_is_object(json) ? json_object_size(json) : json_array_size(json);
    enum sp_status status = SP_OK;
    if (json != NULL && !json_is_array(json) && !json_is_object(json))
        return refuse(reader, pointer, "Expected a list of groups here: [{\"key\": -1, \"value\": [0, 1]}].");
    spec->groups = SP_NEW_ARRAY(reader->arena, count, struct sp_device_group);
    if (spec->groups == NULL)
        return sp_fail_memory(reader->err);
    if (json_is_object(json))
        return read_group_object(reader, json, pointer, spec);
    for (size_t i = 0; status == SP_OK && i < count; i++)
        status = read_entry(reader, json_array_get(json, i), pointer_of("%s/%zu", pointer, i).text,
                            &spec->groups[spec->group_count++]);
    return status;
}

/* ---- dims ---- */

static enum sp_status read_part(struct json_reader *reader, const json_t *json, const char *pointer,
                                struct sp_sharded_dim_part *part)
{
    enum { VALUE, PARAM, SHARDS };
    struct member table[] = {{.name = "dimValue", .schema_name = "dim_value"},
                             {.name = "dimParam", .schema_name = "dim_param"},
                             {.name = "numShards", .schema_name = "num_shards"}};
    enum sp_status status = read_members(reader, json, pointer, "A simple sharding", table, COUNT_OF(table));
    if (status != SP_OK)
        return status;
    part->has_value = table[VALUE].value != NULL;
    part->has_shards = table[SHARDS].value != NULL;
    if (part->has_value && table[PARAM].value != NULL)
        return refuse(reader, pointer, "A simple sharding has either 'dimValue' or 'dimParam', not both.");
    if (part->has_value)
        status = read_int(reader, table[VALUE].value, pointer_of("%s/%s", pointer, table[VALUE].used).text,
                          &part->dim_value);
    if (status == SP_OK && table[PARAM].value != NULL)
        status = read_text(reader, table[PARAM].value, pointer_of("%s/%s", pointer, table[PARAM].used).text,
                           &part->dim_param);
    if (status == SP_OK && part->has_shards)
        status = read_int(reader, table[SHARDS].value, pointer_of("%s/%s", pointer, table[SHARDS].used).text,
                          &part->num_shards);
    return status;
}

static enum sp_status read_axis(struct json_reader *reader, const json_t *json, const char *pointer,
                                struct sp_sharded_axis *axis)
{
    enum { AXIS, PARTS };
    struct member table[] = {{.name = "axis", .schema_name = "axis"},
                             {.name = "simpleSharding", .schema_name = "simple_sharding"}};
    enum sp_status status = read_members(reader, json, pointer, "A sharded dim", table, COUNT_OF(table));
    if (status != SP_OK)
        return status;
    const json_t *parts = table[PARTS].value;
    axis->has_axis = table[AXIS].value != NULL;
    if (axis->has_axis)
        status = read_int(reader, table[AXIS].value, pointer_of("%s/axis", pointer).text, &axis->axis);
    if (status != SP_OK)
        return status;
    struct pointer here = pointer_of("%s/%s", pointer, table[PARTS].used);
    if (parts != NULL && !json_is_array(parts))
        return refuse(reader, here.text, "Expected a list of simple shardings here: [{\"numShards\": 2}].");
    axis->parts = SP_NEW_ARRAY(reader->arena, json_array_size(parts), struct sp_sharded_dim_part);
    if (axis->parts == NULL)
        return sp_fail_memory(reader->err);
    for (size_t i = 0; status == SP_OK && i < json_array_size(parts); i++)
        status = read_part(reader, json_array_get(parts, i), pointer_of("%s/%zu", here.text, i).text,
                           &axis->parts[axis->part_count++]);
    return status;
}

static enum sp_status read_axes(struct json_reader *reader, const json_t *json, const char *pointer,
                                struct sp_sharding_spec *spec)
{
    enum sp_status status = SP_OK;
    if (json != NULL && !json_is_array(json))
        return refuse(reader, pointer,
                      "Expected a list of sharded dims here: [{\"axis\": 0, \"simpleSharding\": [{\"numShards\": "
                      "2}]}].");
    spec->axes = SP_NEW_ARRAY(reader->arena, json_array_size(json), struct sp_sharded_axis);
    if (spec->axes == NULL)
        return sp_fail_memory(reader->err);
    for (size_t i = 0; status == SP_OK && i < json_array_size(json); i++)
        status = read_axis(reader, json_array_get(json, i), pointer_of("%s/%zu", pointer, i).text,
                           &spec->axes[spec->axis_count++]);
    return status;
}

static enum sp_status read_spec(struct json_reader *reader, const json_t *json, struct sp_sharding_spec *spec)
{
    enum { NAME, DEVICE, GROUPS, DIMS };
    struct member table[] = {{.name = "tensorName", .schema_name = "tensor_name"},
                             {.name = "device", .schema_name = "device"},
                             {.name = "indexToDeviceGroupMap", .schema_name = "index_to_device_group_map"},
                             {.name = "shardedDim", .schema_name = "sharded_dim"}};
    enum sp_status status = read_members(reader, json, "", "A sharding spec", table, COUNT_OF(table));
    if (status == SP_OK && table[NAME].value != NULL)
        status = read_text(reader, table[NAME].value, pointer_of("/%s", table[NAME].used).text, &spec->tensor_name);
    if (status == SP_OK)
        status = read_ints(reader, table[DEVICE].value, "/device", &spec->device_count, &spec->devices);
    if (status == SP_OK)
        status = read_groups(reader, table[GROUPS].value, pointer_of("/%s", table[GROUPS].used).text, spec);
    if (status == SP_OK)
        status = read_axes(reader, table[DIMS].value, pointer_of("/%s", table[DIMS].used).text, spec);
    return status;
}

enum sp_status sp_onnx_spec_read_json(struct sp_arena *arena, const char *text, size_t size,
                                      struct sp_sharding_spec *ret_spec, struct sp_error *err)
{
    struct json_reader reader = {arena, err};
    struct sp_sharding_spec spec = {0};
    json_error_t problem;
    if (size > SP_MAX_SHARDING_BYTES)
        return sp_fail_limit(err, "SHARDING_TOO_LONG", "SP_MAX_SHARDING_BYTES", SP_MAX_SHARDING_BYTES, (int64_t)size,
                             "A sharding may have at most %d bytes.", (int)SP_MAX_SHARDING_BYTES);
    json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &problem);
    if (json == NULL) {
        (void)sp_fail(err, SP_ERR_MALFORMED, "ONNX_JSON", "The sharding spec is not JSON (%s).", problem.text);
        return sp_error_at(err, "offset %d", problem.position);
    }
    enum sp_status status = read_spec(&reader, json, &spec);
    json_decref(json);
    if (status == SP_OK)
        *ret_spec = spec;
    return status;
}

/* ---- writing ---- */

static void write_ints(const char *name, uint32_t count, const int64_t *items, struct sp_json *json)
{
    sp_json_key(json, name);
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < count; i++)
        sp_json_int(json, items[i]);
    sp_json_end_array(json);
}

/* The members' names: as protobuf's JSON has them, and as they stand in the .proto. */
struct names {
    const char *tensor_name, *groups, *sharded_dim, *simple_sharding, *value, *param, *shards;
};
static const struct names json_names = {
    "tensorName", "indexToDeviceGroupMap", "shardedDim", "simpleSharding", "dimValue", "dimParam", "numShards"};
static const struct names proto_names = {
    "tensor_name", "index_to_device_group_map", "sharded_dim", "simple_sharding", "dim_value", "dim_param",
    "num_shards"};

static void write_axis(const struct sp_sharded_axis *axis, const struct names *names, struct sp_json *json)
{
    sp_json_begin_object(json);
    if (axis->has_axis)
        sp_json_member_int(json, "axis", axis->axis);
    sp_json_key(json, names->simple_sharding);
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < axis->part_count; i++) {
        const struct sp_sharded_dim_part *part = &axis->parts[i];
        sp_json_begin_object(json);
        if (part->has_value)
            sp_json_member_int(json, names->value, part->dim_value);
        else if (part->dim_param != NULL)
            sp_json_member_string(json, names->param, part->dim_param);
        if (part->has_shards)
            sp_json_member_int(json, names->shards, part->num_shards);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
    sp_json_end_object(json);
}

static void write_spec(const struct sp_sharding_spec *spec, const struct names *names, struct sp_json *json)
{
    sp_json_begin_object(json);
    if (spec->tensor_name != NULL)
        sp_json_member_string(json, names->tensor_name, spec->tensor_name);
    write_ints("device", spec->device_count, spec->devices, json);
    if (spec->group_count > 0) {
        sp_json_key(json, names->groups);
        sp_json_begin_array(json);
        for (uint32_t i = 0; i < spec->group_count; i++) {
            sp_json_begin_object(json);
            sp_json_member_int(json, "key", spec->groups[i].key);
            write_ints("value", spec->groups[i].count, spec->groups[i].devices, json);
            sp_json_end_object(json);
        }
        sp_json_end_array(json);
    }
    if (spec->axis_count > 0) {
        sp_json_key(json, names->sharded_dim);
        sp_json_begin_array(json);
        for (uint32_t i = 0; i < spec->axis_count; i++)
            write_axis(&spec->axes[i], names, json);
        sp_json_end_array(json);
    }
    sp_json_end_object(json);
}

void sp_onnx_spec_write_json(const struct sp_sharding_spec *spec, struct sp_json *json)
{
    write_spec(spec, &json_names, json);
}

void sp_onnx_spec_write_json_fields(const struct sp_sharding_spec *spec, struct sp_json *json)
{
    write_spec(spec, &proto_names, json);
}
