/*
 * A device of a cluster as JSON: a name of the catalog, or its figures.
 */
#include "cost/cluster/internal.h"

#define COUNT_OF(array)   (sizeof array / sizeof array[0])
#define MAX_QUOTED_MEMBER 64 /* bytes of a wrong member's name that an error repeats */

static const struct sp_members_range figure_bytes = {"a number of bytes", 1, SP_MAX_FIGURE};
static const struct sp_members_range figure_bandwidth = {"a number of bytes per second", 1, SP_MAX_FIGURE};
static const struct sp_members_range figure_flops = {"a number of FLOP per second", 1, SP_MAX_FIGURE};
static const struct sp_members_range figure_watts = {"a number of watts", 0, SP_MAX_FIGURE};
static const struct sp_members_range figure_seconds = {"a number of seconds", 0, SP_MAX_SECONDS};
/* What the written form holds where a device has no such link: none. */
static const struct sp_members_range figure_optional_bandwidth = {"a number of bytes per second (0: no such link)", 0,
                                                                  SP_MAX_FIGURE};

static const struct sp_members_range figure_optional_permuted = {
    "a number of bytes per second (0: as fast as memory_bandwidth)", 0, SP_MAX_FIGURE};
static const struct sp_members_range figure_functions = {
    "a number of functions per second (0: never slower than memory)", 0, SP_MAX_FIGURE};
static const struct sp_members_range figure_unhidden = {
    "a share from 0 (memory is read while others compute) to 1 (one after the other)", 0, 1};

static enum sp_status read_flops(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                 struct sp_device *device)
{
    json_t *flops = json_object_get(json, "flops"), *value;
    const char *at = sp_members_child(reader, pointer, "flops"), *name;

    if (flops == NULL)
        return sp_members_refuse(
            reader, pointer, "MEMBER_MISSING",
            "The member 'flops' is missing here: FLOP per second by element type, such as {\"float16\": 312e12}.");
    if (!json_is_object(flops) || json_object_size(flops) == 0)
        return sp_members_refuse(
            reader, at, "MEMBER_TYPE",
            "'flops' must be an object with a figure for at least one element type, such as {\"float16\": 312e12}.");
    if (at == NULL)
        return sp_fail_memory(reader->err);
    json_object_foreach(flops, name, value)
    {
        enum sp_dtype dtype = sp_dtype_parse(name);
        enum sp_status status;
        if (dtype == SP_DTYPE_UNDEFINED && strlen(name) > MAX_QUOTED_MEMBER)
            return sp_members_refuse(reader, at, "CLUSTER_DTYPE",
                                     "A member's name is no element type; write float32, int8, ...");
        if (dtype == SP_DTYPE_UNDEFINED)
            return sp_members_refuse(
                reader, sp_members_child(reader, at, name), "CLUSTER_DTYPE",
                "'%s' is no element type; write float32, float16, bfloat16, int8 or another one's name.", name);
        status = sp_members_number(reader, flops, at, name, &figure_flops, true, &device->flops[dtype]);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

static enum sp_status read_described_device(struct sp_members_reader *reader, json_t *json, const char *pointer,
                                            struct sp_device *device)
{
    static const char *const members[] = {
        "name",     "memory_bytes", "memory_bandwidth", "permuted_bandwidth", "functions_per_second",
        "unhidden", "flops",        "link_bandwidth",   "link_latency",       "host_bandwidth",
        "watts",    "source"};
    const char *name = NULL;
    enum sp_status status = sp_members_check(reader, json, pointer, "A device", members, COUNT_OF(members));

    *device = (struct sp_device){.link_latency = -1, .source = ""};
    if (status != SP_OK ||
        (status = sp_members_text(reader, json, pointer, "name", SP_DEVICE_NAME_SIZE - 1, &name)) != SP_OK)
        return status;
    if (name == NULL)
        return sp_members_refuse(reader, pointer, "MEMBER_MISSING",
                                 "The member 'name' is missing here: what the device is called.");
    (void)snprintf(device->name, sizeof device->name, "%s", name);

    const struct {
        const char *member;
        const struct sp_members_range *range;
        bool required;
        double *ret;
    } numbers[] = {{"memory_bytes", &figure_bytes, true, &device->memory_bytes},
                   {"memory_bandwidth", &figure_bandwidth, true, &device->memory_bandwidth},
                   {"permuted_bandwidth", &figure_optional_permuted, false, &device->permuted_bandwidth},
                   {"functions_per_second", &figure_functions, false, &device->functions_per_second},
                   {"unhidden", &figure_unhidden, false, &device->unhidden},
                   {"link_bandwidth", &figure_optional_bandwidth, false, &device->link_bandwidth},
                   {"link_latency", &figure_seconds, false, &device->link_latency},
                   {"host_bandwidth", &figure_optional_bandwidth, false, &device->host_bandwidth},
                   {"watts", &figure_watts, false, &device->watts}};
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        status = sp_members_number(reader, json, pointer, numbers[i].member, numbers[i].range, numbers[i].required,
                                   numbers[i].ret);
        if (status != SP_OK)
            return status;
    }
    if (device->link_latency < 0)
        device->link_latency = SP_HOST_LATENCY;
    status = read_flops(reader, json, pointer, device);
    if (status == SP_OK)
        status = sp_members_text(reader, json, pointer, "source", SP_MAX_NAME_BYTES, &device->source);
    return status;
}

enum sp_status sp_cluster_parse_device(struct sp_members_reader *reader, const json_t *parent,
                                       const char *parent_pointer, struct sp_device *device)
{
    json_t *json = json_object_get(parent, "device");
    const char *pointer = sp_members_child(reader, parent_pointer, "device");
    const struct sp_device *known;

    if (json == NULL)
        return sp_members_refuse(reader, parent_pointer, "MEMBER_MISSING",
                                 "The member 'device' is missing here: a name of the catalog or a described device.");
    if (pointer == NULL)
        return sp_fail_memory(reader->err);
    if (json_is_object(json))
        return read_described_device(reader, json, pointer, device);
    if (!json_is_string(json))
        return sp_members_refuse(
            reader, pointer, "MEMBER_TYPE",
            "'device' must be a name of the catalog (a string) or a described device (an object).");
    known = sp_device_find(json_string_value(json));
    if (known == NULL) {
        (void)sp_cluster_unknown_device(json_string_value(json), reader->err);
        (void)sp_error_at(reader->err, "%s", pointer);
        return SP_ERR_REQUEST;
    }
    *device = *known;
    return SP_OK;
}
