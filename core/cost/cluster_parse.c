/*
 * The cluster as JSON: a description by a stranger, so every member is checked for presence, type and range, and each
 * error says where (JSON pointer) and what is expected there.
 */
#include <math.h>

#include "base/intern.h"
#include "cost/cluster_internal.h"

#define COUNT_OF(array)    (sizeof(array) / sizeof(array)[0])
#define MAX_QUOTED_MEMBER  64 /* bytes of an unknown member's name that an error repeats; longer ones are left out */
#define INTERN_SEED        0  /* the table holds at most SP_MAX_DEVICE_GROUPS names: collisions cannot hurt */
#define MEMBERS_OF_CLUSTER "mesh", "memory_limit_bytes", "efficiency", "launch_seconds"

struct reader {
    struct sp_arena *arena;
    struct sp_error *err;
};

/* A range and how messages call it. */
struct number_rule {
    const char *what;
    double low, high;
};

static const struct number_rule figure_bytes = {"a number of bytes", 1, SP_MAX_FIGURE};
static const struct number_rule figure_bandwidth = {"a number of bytes per second", 1, SP_MAX_FIGURE};
static const struct number_rule figure_flops = {"a number of FLOP per second", 1, SP_MAX_FIGURE};
static const struct number_rule figure_watts = {"a number of watts", 0, SP_MAX_FIGURE};
static const struct number_rule figure_seconds = {"a number of seconds", 0, SP_MAX_SECONDS};
static const struct number_rule figure_efficiency = {"a share of peak", SP_MIN_EFFICIENCY, 1};
/* What the written form holds where a device has no such link: none. */
static const struct number_rule figure_optional_bandwidth = {"a number of bytes per second (0: no such link)", 0,
                                                             SP_MAX_FIGURE};

static char *child(struct reader *reader, const char *pointer, const char *member)
{
    return sp_arena_printf(reader->arena, "%s/%s", pointer, member);
}

static char *item(struct reader *reader, const char *pointer, size_t index)
{
    return sp_arena_printf(reader->arena, "%s/%zu", pointer, index);
}

/* Records `message` at `pointer`; a NULL pointer means that there was no memory to make it. */
__attribute__((format(printf, 4, 5))) static enum sp_status refuse(struct reader *reader, const char *pointer,
                                                                   const char *code, const char *format, ...)
{
    char message[SP_ERROR_MESSAGE_SIZE];
    va_list args;

    if (pointer == NULL)
        return sp_fail_memory(reader->err);
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    (void)sp_fail(reader->err, SP_ERR_REQUEST, code, "%s", message);
    (void)sp_error_at(reader->err, "%s", pointer);
    return SP_ERR_REQUEST;
}

/* A member's name as a reference token of RFC 6901: '~' is ~0 and '/' is ~1. */
static char *escaped(struct reader *reader, const char *member)
{
    char *token = sp_arena_alloc(reader->arena, 2 * strlen(member) + 1);
    size_t size = 0;

    if (token == NULL)
        return NULL;
    for (const char *c = member; *c != '\0'; c++) {
        if (*c == '~' || *c == '/') {
            token[size++] = '~';
            token[size++] = *c == '~' ? '0' : '1';
        } else {
            token[size++] = *c;
        }
    }
    return token;
}

/* `json` is an object and has no other members than these. */
static enum sp_status check_members(struct reader *reader, json_t *json, const char *pointer, const char *what,
                                    const char *const *members, size_t count)
{
    char known[SP_ERROR_MESSAGE_SIZE / 2] = "";
    const char *name;
    json_t *value;

    if (!json_is_object(json))
        return refuse(reader, pointer, "CLUSTER_TYPE", "%s must be a JSON object.", what);
    for (size_t i = 0, size = 0; i < count && size < sizeof known; i++)
        size += (size_t)snprintf(known + size, sizeof known - size, "%s%s", i == 0 ? "" : ", ", members[i]);
    json_object_foreach(json, name, value)
    {
        size_t i = 0;
        while (i < count && strcmp(members[i], name) != 0)
            i++;
        if (i < count)
            continue;
        if (strlen(name) > MAX_QUOTED_MEMBER)
            return refuse(reader, pointer, "CLUSTER_MEMBER", "%s has an unknown member with a long name; known are %s.",
                          what, known);
        name = escaped(reader, name);
        return refuse(reader, name == NULL ? NULL : child(reader, pointer, name), "CLUSTER_MEMBER",
                      "%s has the unknown member '%s'; known are %s.", what, name, known);
    }
    return SP_OK;
}

/* A number in the rule's range. An absent member is an error when `required`, else *ret_value stays. */
static enum sp_status read_number(struct reader *reader, const json_t *json, const char *pointer, const char *member,
                                  const struct number_rule *rule, bool required, double *ret_value)
{
    const json_t *value = json_object_get(json, member);
    double number;

    if (value == NULL && !required)
        return SP_OK;
    if (value == NULL)
        return refuse(reader, pointer, "CLUSTER_MISSING", "The member '%s' is missing here: %s.", member, rule->what);
    number = json_is_number(value) ? json_number_value(value) : NAN;
    if (!(number >= rule->low && number <= rule->high))
        return refuse(reader, child(reader, pointer, member), "CLUSTER_NUMBER",
                      "'%s' must be %s, a JSON number from %g to %g.", member, rule->what, rule->low, rule->high);
    *ret_value = number;
    return SP_OK;
}

static enum sp_status read_count(struct reader *reader, const json_t *json, const char *pointer, const char *member,
                                 uint32_t high, uint32_t *ret_value)
{
    const json_t *value = json_object_get(json, member);
    json_int_t number;

    if (value == NULL)
        return refuse(reader, pointer, "CLUSTER_MISSING", "The member '%s' is missing here: an integer.", member);
    number = json_integer_value(value);
    if (!json_is_integer(value) || number < 1 || number > (json_int_t)high)
        return refuse(reader, child(reader, pointer, member), "CLUSTER_COUNT", "'%s' must be an integer from 1 to %u.",
                      member, high);
    *ret_value = (uint32_t)number;
    return SP_OK;
}

/* A non-empty string without NULs of at most `limit` bytes; an absent one leaves *ret_text. */
static enum sp_status read_text(struct reader *reader, const json_t *json, const char *pointer, const char *member,
                                size_t limit, const char **ret_text)
{
    const json_t *value = json_object_get(json, member);
    size_t size = json_string_length(value);
    const char *text = json_string_value(value);

    if (value == NULL)
        return SP_OK;
    if (text == NULL || size == 0 || size > limit || strlen(text) != size)
        return refuse(reader, child(reader, pointer, member), "CLUSTER_TEXT",
                      "'%s' must be a string of 1 to %zu bytes.", member, limit);
    *ret_text = sp_arena_string(reader->arena, text, size);
    return *ret_text == NULL ? sp_fail_memory(reader->err) : SP_OK;
}

static enum sp_status read_flops(struct reader *reader, const json_t *json, const char *pointer,
                                 struct sp_device *device)
{
    json_t *flops = json_object_get(json, "flops"), *value;
    const char *at = child(reader, pointer, "flops"), *name;

    if (flops == NULL)
        return refuse(reader, pointer, "CLUSTER_MISSING",
                      "The member 'flops' is missing here: FLOP per second by element type, such as {\"float16\": "
                      "312e12}.");
    if (!json_is_object(flops) || json_object_size(flops) == 0)
        return refuse(reader, at, "CLUSTER_TYPE",
                      "'flops' must be an object with a figure for at least one element type, such as {\"float16\": "
                      "312e12}.");
    if (at == NULL)
        return sp_fail_memory(reader->err);
    json_object_foreach(flops, name, value)
    {
        enum sp_dtype dtype = sp_dtype_parse(name);
        enum sp_status status;
        if (dtype == SP_DTYPE_UNDEFINED && strlen(name) > MAX_QUOTED_MEMBER)
            return refuse(reader, at, "CLUSTER_DTYPE", "A member's name is no element type; write float32, int8, ...");
        if (dtype == SP_DTYPE_UNDEFINED) {
            const char *token = escaped(reader, name);
            return refuse(reader, token == NULL ? NULL : child(reader, at, token), "CLUSTER_DTYPE",
                          "'%s' is no element type; write float32, float16, bfloat16, int8 or another one's name.",
                          token);
        }
        status = read_number(reader, flops, at, name, &figure_flops, true, &device->flops[dtype]);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

static enum sp_status read_described_device(struct reader *reader, json_t *json, const char *pointer,
                                            struct sp_device *device)
{
    static const char *const members[] = {"name",           "memory_bytes",   "memory_bandwidth",
                                          "flops",          "link_bandwidth", "link_latency",
                                          "host_bandwidth", "watts",          "source"};
    const char *name = NULL;
    enum sp_status status = check_members(reader, json, pointer, "A device", members, COUNT_OF(members));

    *device = (struct sp_device){.link_latency = -1, .source = ""};
    if (status != SP_OK || (status = read_text(reader, json, pointer, "name", SP_DEVICE_NAME_SIZE - 1, &name)) != SP_OK)
        return status;
    if (name == NULL)
        return refuse(reader, pointer, "CLUSTER_MISSING",
                      "The member 'name' is missing here: what the device is called.");
    (void)snprintf(device->name, sizeof device->name, "%s", name);

    const struct {
        const char *member;
        const struct number_rule *rule;
        bool required;
        double *ret;
    } numbers[] = {{"memory_bytes", &figure_bytes, true, &device->memory_bytes},
                   {"memory_bandwidth", &figure_bandwidth, true, &device->memory_bandwidth},
                   {"link_bandwidth", &figure_optional_bandwidth, false, &device->link_bandwidth},
                   {"link_latency", &figure_seconds, false, &device->link_latency},
                   {"host_bandwidth", &figure_optional_bandwidth, false, &device->host_bandwidth},
                   {"watts", &figure_watts, false, &device->watts}};
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        status =
            read_number(reader, json, pointer, numbers[i].member, numbers[i].rule, numbers[i].required, numbers[i].ret);
        if (status != SP_OK)
            return status;
    }
    if (device->link_latency < 0)
        device->link_latency = SP_HOST_LATENCY;
    status = read_flops(reader, json, pointer, device);
    if (status == SP_OK)
        status = read_text(reader, json, pointer, "source", SP_MAX_NAME_BYTES, &device->source);
    return status;
}

static enum sp_status read_device(struct reader *reader, const json_t *parent, const char *parent_pointer,
                                  struct sp_device *device)
{
    json_t *json = json_object_get(parent, "device");
    const char *pointer = child(reader, parent_pointer, "device");
    const struct sp_device *known;

    if (json == NULL)
        return refuse(reader, parent_pointer, "CLUSTER_MISSING",
                      "The member 'device' is missing here: a name of the catalog or a described device.");
    if (pointer == NULL)
        return sp_fail_memory(reader->err);
    if (json_is_object(json))
        return read_described_device(reader, json, pointer, device);
    if (!json_is_string(json))
        return refuse(reader, pointer, "CLUSTER_TYPE",
                      "'device' must be a name of the catalog (a string) or a described device (an object).");
    known = sp_device_find(json_string_value(json));
    if (known == NULL) {
        (void)cluster_unknown_device(json_string_value(json), reader->err);
        (void)sp_error_at(reader->err, "%s", pointer);
        return SP_ERR_REQUEST;
    }
    *device = *known;
    return SP_OK;
}

/* Device and count; members and name are the caller's. */
static enum sp_status read_group(struct reader *reader, const json_t *json, const char *pointer, uint32_t devices_left,
                                 struct sp_device_group_spec *group)
{
    enum sp_status status = read_device(reader, json, pointer, &group->device);
    return status == SP_OK ? read_count(reader, json, pointer, "count", devices_left, &group->count) : status;
}

static enum sp_status read_groups(struct reader *reader, const json_t *json, const char *pointer,
                                  struct cluster_parts *parts)
{
    static const char *const members[] = {"name", "count", "device"};
    const char *at = child(reader, pointer, "groups");
    const json_t *groups = json_object_get(json, "groups");
    size_t count = json_array_size(groups);
    uint32_t left = SP_MAX_DEVICES;
    struct sp_intern *names = sp_intern_create(reader->arena, INTERN_SEED);

    if (at == NULL || names == NULL)
        return sp_fail_memory(reader->err);
    if (count == 0 || count > SP_MAX_DEVICE_GROUPS)
        return refuse(reader, at, "CLUSTER_GROUPS", "'groups' must be an array of 1 to %d device groups.",
                      SP_MAX_DEVICE_GROUPS);
    parts->group_count = (uint32_t)count;
    parts->groups = SP_NEW_ARRAY(reader->arena, count, struct sp_device_group_spec);
    if (parts->groups == NULL)
        return sp_fail_memory(reader->err);
    for (uint32_t i = 0; i < parts->group_count; i++) {
        struct sp_device_group_spec *group = &parts->groups[i];
        json_t *entry = json_array_get(groups, i);
        const char *here = item(reader, at, i);
        enum sp_status status;

        group->name = sp_arena_printf(reader->arena, "group%u", i);
        if (here == NULL || group->name == NULL)
            return sp_fail_memory(reader->err);
        status = check_members(reader, entry, here, "A device group", members, COUNT_OF(members));
        if (status == SP_OK)
            status = read_text(reader, entry, here, "name", SP_MAX_NAME_BYTES, &group->name);
        if (status == SP_OK && left == 0)
            status = refuse(reader, here, "CLUSTER_COUNT", "A cluster may have at most %d devices.", SP_MAX_DEVICES);
        if (status == SP_OK)
            status = read_group(reader, entry, here, left, group);
        if (status != SP_OK)
            return status;
        left -= group->count;
        if (sp_intern_add(names, group->name, strlen(group->name)) != i)
            return refuse(reader, here, "CLUSTER_NAME", "Another device group has the same name; names must differ.");
    }
    return SP_OK;
}

static enum sp_status read_mesh(struct reader *reader, const json_t *json, const char *pointer, uint32_t device_count,
                                struct cluster_parts *parts)
{
    static const char *const members[] = {"name", "size", "bandwidth", "latency"};
    const char *at = child(reader, pointer, "mesh");
    const json_t *mesh = json_object_get(json, "mesh");
    size_t count = json_array_size(mesh);
    uint64_t product = 1;

    if (mesh == NULL)
        return SP_OK;
    if (count == 0 || count > SP_MAX_MESH_AXES)
        return refuse(reader, at, "CLUSTER_MESH", "'mesh' must be an array of 1 to %d link levels, outermost first.",
                      SP_MAX_MESH_AXES);
    parts->level_count = (uint32_t)count;
    parts->levels = SP_NEW_ARRAY(reader->arena, count, struct sp_mesh_level);
    if (at == NULL || parts->levels == NULL)
        return sp_fail_memory(reader->err);
    for (uint32_t i = 0; i < parts->level_count; i++) {
        struct sp_mesh_level *level = &parts->levels[i];
        json_t *entry = json_array_get(mesh, i);
        const char *here = item(reader, at, i);
        enum sp_status status;

        *level =
            (struct sp_mesh_level){.name = sp_arena_printf(reader->arena, "level%u", i), .latency = SP_HOST_LATENCY};
        if (here == NULL || level->name == NULL)
            return sp_fail_memory(reader->err);
        status = check_members(reader, entry, here, "A link level", members, COUNT_OF(members));
        if (status == SP_OK)
            status = read_text(reader, entry, here, "name", SP_MAX_NAME_BYTES, &level->name);
        if (status == SP_OK)
            status = read_count(reader, entry, here, "size", SP_MAX_DEVICES, &level->size);
        if (status == SP_OK)
            status = read_number(reader, entry, here, "bandwidth", &figure_bandwidth, true, &level->bandwidth);
        if (status == SP_OK)
            status = read_number(reader, entry, here, "latency", &figure_seconds, false, &level->latency);
        if (status != SP_OK)
            return status;
        for (uint32_t j = 0; j < i; j++) {
            if (strcmp(parts->levels[j].name, level->name) == 0)
                return refuse(reader, here, "CLUSTER_NAME", "Another link level has the same name; names must differ.");
        }
        product *= level->size; /* both factors are at most SP_MAX_DEVICES */
        if (product > device_count)
            break;
    }
    if (product != device_count)
        return refuse(reader, at, "CLUSTER_MESH",
                      "The sizes of the mesh must multiply to the number of devices, %u; they multiply to %s%llu.",
                      device_count, product > device_count ? "at least " : "", (unsigned long long)product);
    return SP_OK;
}

/* Groups of either form, their mesh and the common members. */
static enum sp_status read_parts(struct reader *reader, json_t *json, const char *pointer, struct cluster_parts *parts)
{
    static const char *const short_members[] = {"device", "count", MEMBERS_OF_CLUSTER};
    static const char *const full_members[] = {"groups", "device_count", MEMBERS_OF_CLUSTER};
    bool full = json_object_get(json, "groups") != NULL;
    uint32_t device_count = 0;
    enum sp_status status;

    if (json_is_object(json) && !full && json_object_get(json, "device") == NULL)
        return refuse(reader, pointer, "CLUSTER_MISSING",
                      "A cluster has either the members 'device' and 'count', or 'groups'.");
    status = check_members(reader, json, pointer, "A cluster", full ? full_members : short_members,
                           full ? COUNT_OF(full_members) : COUNT_OF(short_members));
    if (status != SP_OK)
        return status;
    if (full) {
        status = read_groups(reader, json, pointer, parts);
    } else {
        parts->group_count = 1;
        parts->groups = SP_NEW(reader->arena, struct sp_device_group_spec);
        if (parts->groups == NULL)
            return sp_fail_memory(reader->err);
        status = read_group(reader, json, pointer, SP_MAX_DEVICES, parts->groups);
        parts->groups[0].name = parts->groups[0].device.name;
    }
    for (uint32_t i = 0; status == SP_OK && i < parts->group_count; i++)
        device_count += parts->groups[i].count;
    if (status == SP_OK)
        status = read_mesh(reader, json, pointer, device_count, parts);
    if (status == SP_OK)
        status =
            read_number(reader, json, pointer, "memory_limit_bytes", &figure_bytes, false, &parts->memory_limit_bytes);
    if (status == SP_OK)
        status = read_number(reader, json, pointer, "efficiency", &figure_efficiency, false, &parts->efficiency);
    if (status == SP_OK)
        status = read_number(reader, json, pointer, "launch_seconds", &figure_seconds, false, &parts->launch_seconds);
    return status;
}

enum sp_status sp_cluster_parse(struct sp_arena *arena, const json_t *json, const char *pointer,
                                struct sp_cluster **ret_cluster, struct sp_error *err)
{
    struct cluster_parts parts = {.efficiency = SP_DEFAULT_EFFICIENCY, .launch_seconds = SP_DEFAULT_LAUNCH_SECONDS};
    struct reader reader = {arena, err};
    struct sp_cluster *cluster;
    uint32_t linkless = 0, count = 0;
    bool is_prefix = json_object_get(json, "device_count") != NULL;
    /* jansson's iterators take no const objects; nothing here changes one. */
    enum sp_status status = read_parts(&reader, (json_t *)(uintptr_t)json, pointer, &parts);

    if (status != SP_OK)
        return status;
    status = cluster_build(arena, &parts, &cluster, &linkless, err);
    if (status == SP_ERR_REQUEST && json_object_get(json, "groups") != NULL)
        (void)sp_error_at(err, "%s/groups/%u/device", pointer, linkless);
    else if (status == SP_ERR_REQUEST)
        (void)sp_error_at(err, "%s/device", pointer);
    if (status != SP_OK || !is_prefix) {
        if (status == SP_OK)
            *ret_cluster = cluster;
        return status;
    }
    status = read_count(&reader, json, pointer, "device_count", cluster->device_count, &count);
    if (status != SP_OK)
        return status;
    cluster = sp_cluster_prefix(arena, cluster, count);
    if (cluster == NULL)
        return sp_fail_memory(err);
    *ret_cluster = cluster;
    return SP_OK;
}
