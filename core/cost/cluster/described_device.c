/*
 * A device of a cluster as JSON: a name of the catalog, or its figures.
 */
#include "cost/cluster/internal.h"

#define COUNT_OF(array) (sizeof array / sizeof array[0])

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
static const struct sp_members_range figure_price = {"US dollars of one device and hour", 0, SP_MAX_FIGURE};

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
        enum sp_dtype dtype = SP_DTYPE_UNDEFINED;
        enum sp_status status = sp_described_dtype(reader, at, name, &dtype);
        if (status != SP_OK)
            return status;
        status = sp_members_number(reader, flops, at, name, &figure_flops, true, &device->flops[dtype]);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

static enum sp_status read_kind(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                struct sp_device *device)
{
    const json_t *kind = json_object_get(json, "kind");

    if (kind == NULL)
        return SP_OK;
    if (json_is_string(kind))
        device->kind = sp_device_kind_parse(json_string_value(kind));
    if (device->kind == SP_DEVICE_OF_NO_KIND)
        return sp_members_refuse(reader, sp_members_child(reader, pointer, "kind"), "DEVICE_KIND",
                                 "'kind' must be gpu, tpu, npu (any other accelerator) or cpu.");
    return SP_OK;
}

static enum sp_status read_counts(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                  struct sp_device *device)
{
    enum sp_status status = SP_OK;

    if (json_object_get(json, "units") != NULL)
        status = sp_members_count(reader, json, pointer, "units", SP_MAX_DEVICE_UNITS, &device->units);
    if (status == SP_OK && json_object_get(json, "link_group") != NULL)
        status = sp_members_count(reader, json, pointer, "link_group", SP_MAX_DEVICE_UNITS, &device->link_group);
    return status;
}

static enum sp_status read_price(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                 struct sp_device_price *price)
{
    static const char *const members[] = {"usd", "provider", "date"};
    const char *at = sp_members_child(reader, pointer, "price_per_hour");
    json_t *object = json_object_get(json, "price_per_hour");
    enum sp_status status;

    if (object == NULL)
        return SP_OK;
    if (at == NULL)
        return sp_fail_memory(reader->err);
    status = sp_members_check(reader, object, at, "A price", members, COUNT_OF(members));
    if (status == SP_OK)
        status = sp_members_number(reader, object, at, "usd", &figure_price, true, &price->usd);
    if (status == SP_OK)
        status = sp_members_text(reader, object, at, "provider", SP_MAX_NAME_BYTES, &price->provider);
    if (status == SP_OK)
        status = sp_members_text(reader, object, at, "date", SP_MAX_NAME_BYTES, &price->date);
    return status;
}

static enum sp_status read_sources(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                   struct sp_device *device)
{
    const char *at = sp_members_child(reader, pointer, "sources"), *path;
    json_t *object = json_object_get(json, "sources"), *text;
    struct sp_device_source *sources;

    if (object == NULL)
        return SP_OK;
    if (!json_is_object(object) || json_object_size(object) > SP_MAX_DEVICE_SOURCES)
        return sp_members_refuse(reader, at, "MEMBER_TYPE",
                                 "'sources' must be an object of at most %d texts, named by the figures that they are "
                                 "for, such as \"flops.float16\".",
                                 SP_MAX_DEVICE_SOURCES);
    sources = SP_NEW_ARRAY(reader->arena, json_object_size(object), struct sp_device_source);
    if (at == NULL || sources == NULL)
        return sp_fail_memory(reader->err);
    device->sources = sources;
    json_object_foreach(object, path, text)
    {
        struct sp_device_source *source = &sources[device->source_count];
        enum sp_status status = sp_members_text(reader, object, at, path, SP_MAX_NAME_BYTES, &source->text);
        if (status != SP_OK)
            return status;
        source->path = sp_arena_string(reader->arena, path, strlen(path));
        if (source->path == NULL)
            return sp_fail_memory(reader->err);
        device->source_count++;
    }
    return SP_OK;
}

/* What is said about a device beside its figures. */
static enum sp_status read_texts(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                 struct sp_device *device)
{
    const char *name = NULL;
    enum sp_status status = sp_members_text(reader, json, pointer, "name", SP_DEVICE_NAME_SIZE - 1, &name);

    if (status != SP_OK)
        return status;
    if (name == NULL)
        return sp_members_refuse(reader, pointer, "MEMBER_MISSING",
                                 "The member 'name' is missing here: what the device is called.");
    (void)snprintf(device->name, sizeof device->name, "%s", name);
    status = sp_members_text(reader, json, pointer, "title", SP_MAX_NAME_BYTES, &device->title);
    if (status == SP_OK)
        status = sp_members_text(reader, json, pointer, "note", SP_MAX_NAME_BYTES, &device->note);
    if (status == SP_OK)
        status = sp_members_text(reader, json, pointer, "source", SP_MAX_NAME_BYTES, &device->source);
    return status;
}

static enum sp_status read_described_device(struct sp_members_reader *reader, json_t *json, const char *pointer,
                                            struct sp_device *device)
{
    static const char *const members[] = {"name",
                                          "title",
                                          "kind",
                                          "memory_bytes",
                                          "memory_reported_bytes",
                                          "units",
                                          "flops",
                                          "flops_tf32",
                                          "memory_bandwidth",
                                          "permuted_bandwidth",
                                          "unhidden",
                                          "link_group",
                                          "products",
                                          "convolutions",
                                          "narrowing",
                                          "residuals",
                                          "functions_per_second",
                                          "link_bandwidth",
                                          "link_latency",
                                          "host_bandwidth",
                                          "watts",
                                          "attention",
                                          "other",
                                          "norm",
                                          "price_per_hour",
                                          "collectives",
                                          "measured",
                                          "note",
                                          "source",
                                          "sources"};
    enum sp_status status = sp_members_check(reader, json, pointer, "A device", members, COUNT_OF(members));

    *device = (struct sp_device){.link_latency = SP_HOST_LATENCY, .source = ""};
    const struct sp_described_number numbers[] = {
        {"memory_bytes", &figure_bytes, true, &device->memory_bytes},
        {"memory_reported_bytes", &figure_bytes, false, &device->memory_reported_bytes},
        {"memory_bandwidth", &figure_bandwidth, true, &device->memory_bandwidth},
        {"permuted_bandwidth", &figure_optional_permuted, false, &device->permuted_bandwidth},
        {"functions_per_second", &figure_functions, false, &device->functions_per_second},
        {"unhidden", &figure_unhidden, false, &device->unhidden},
        {"flops_tf32", &figure_flops, false, &device->flops_tf32},
        {"link_bandwidth", &figure_optional_bandwidth, false, &device->link_bandwidth},
        {"link_latency", &figure_seconds, false, &device->link_latency},
        {"host_bandwidth", &figure_optional_bandwidth, false, &device->host_bandwidth},
        {"watts", &figure_watts, false, &device->watts}};
    if (status == SP_OK)
        status = read_texts(reader, json, pointer, device);
    if (status == SP_OK)
        status = read_kind(reader, json, pointer, device);
    if (status == SP_OK)
        status = sp_described_numbers(reader, json, pointer, numbers, COUNT_OF(numbers));
    if (status == SP_OK)
        status = read_counts(reader, json, pointer, device);
    if (status == SP_OK)
        status = read_flops(reader, json, pointer, device);
    if (status == SP_OK)
        status = sp_described_kernels(reader, json, pointer, device);
    if (status == SP_OK)
        status = read_price(reader, json, pointer, &device->price);
    if (status == SP_OK)
        status = read_sources(reader, json, pointer, device);
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
