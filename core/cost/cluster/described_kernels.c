/*
 * What a described device's kernels and collectives reach: the members "products", "convolutions", "narrowing",
 * "attention", "other", "norm", "collectives", "residuals" and "measured".
 */
#include "cost/cluster/internal.h"

#define COUNT_OF(array) (sizeof array / sizeof array[0])

/* A start of 0 would mean that none is stated. A share may pass 1: switches add up, and a fit gives what it gives. */
static const struct sp_members_range figure_start = {"a number of seconds", 1e-12, SP_MAX_SECONDS};
static const struct sp_members_range figure_seconds = {"a number of seconds", 0, SP_MAX_SECONDS};
static const struct sp_members_range figure_share = {"a share of what the data sheet says", SP_MIN_EFFICIENCY, 4};
static const struct sp_members_range figure_bytes = {"a number of bytes", 0, SP_MAX_FIGURE};
static const struct sp_members_range figure_count = {"a number", 0, SP_MAX_FIGURE};

/* The member `name` of `parent`, an object with no other members than these numbers; nothing where it is absent. */
static enum sp_status read_object(struct sp_members_reader *reader, const json_t *parent, const char *pointer,
                                  const char *name, const struct sp_described_number *numbers, size_t count)
{
    json_t *json = json_object_get(parent, name);
    const char *at = sp_members_child(reader, pointer, name), *members[8];
    enum sp_status status;

    if (json == NULL)
        return SP_OK;
    if (at == NULL)
        return sp_fail_memory(reader->err);
    for (size_t i = 0; i < count; i++)
        members[i] = numbers[i].member;
    status = sp_members_check(reader, json, at, "What kernels reach", members, count);
    return status == SP_OK ? sp_described_numbers(reader, json, at, numbers, count) : status;
}

/* An object with members of the reader's choice, such as element types; NULL at *ret_json where it is absent. */
static enum sp_status open_object(struct sp_members_reader *reader, const json_t *parent, const char *pointer,
                                  const char *name, json_t **ret_json, const char **ret_at)
{
    *ret_json = json_object_get(parent, name);
    *ret_at = sp_members_child(reader, pointer, name);
    if (*ret_at == NULL)
        return sp_fail_memory(reader->err);
    if (*ret_json != NULL && !json_is_object(*ret_json))
        return sp_members_refuse(reader, *ret_at, "MEMBER_TYPE", "'%s' must be a JSON object.", name);
    return SP_OK;
}

static enum sp_status read_products(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                    struct sp_device *device)
{
    json_t *products, *value;
    const char *at, *name;
    enum sp_status status = open_object(reader, json, pointer, "products", &products, &at);

    if (status != SP_OK)
        return status;
    json_object_foreach(products, name, value)
    {
        enum sp_dtype dtype = SP_DTYPE_UNDEFINED;
        status = sp_described_dtype(reader, at, name, &dtype);
        if (status != SP_OK)
            return status;
        struct sp_device_product *product = &device->products[dtype];
        const struct sp_described_number numbers[] = {{"start_seconds", &figure_start, false, &product->start_seconds},
                                                      {"flops_share", &figure_share, false, &product->flops_share},
                                                      {"memory_share", &figure_share, false, &product->memory_share}};
        status = read_object(reader, products, at, name, numbers, COUNT_OF(numbers));
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

static enum sp_status read_narrowing(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                     struct sp_device *device)
{
    struct sp_device_narrowing *narrowings;
    json_t *object, *value;
    const char *at, *runtime;
    enum sp_status status = open_object(reader, json, pointer, "narrowing", &object, &at);

    if (status != SP_OK || json_object_size(object) == 0)
        return status;
    if (json_object_size(object) > SP_MAX_DEVICE_LIBRARIES)
        return sp_members_refuse(reader, at, "MEMBER_TYPE", "'narrowing' must be an object of at most %d runtimes.",
                                 SP_MAX_DEVICE_LIBRARIES);
    narrowings = SP_NEW_ARRAY(reader->arena, json_object_size(object), struct sp_device_narrowing);
    if (narrowings == NULL)
        return sp_fail_memory(reader->err);
    device->narrowings = narrowings;
    json_object_foreach(object, runtime, value)
    {
        struct sp_device_narrowing *narrowing = &narrowings[device->narrowing_count++];
        const struct sp_described_number numbers[] = {{"start_seconds", &figure_start, true, &narrowing->start_seconds},
                                                      {"memory_share", &figure_share, true, &narrowing->memory_share},
                                                      {"row_seconds", &figure_seconds, false, &narrowing->row_seconds}};
        narrowing->runtime = sp_arena_string(reader->arena, runtime, strlen(runtime));
        if (narrowing->runtime == NULL)
            return sp_fail_memory(reader->err);
        status = read_object(reader, object, at, runtime, numbers, COUNT_OF(numbers));
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

static const struct sp_members_range figure_low = {"a ratio of predicted and measured from 0.001 to 1", 1e-3, 1},
                                     figure_high = {"a ratio of predicted and measured from 1 to 1000", 1, 1e3};

static enum sp_status read_residual(struct sp_members_reader *reader, json_t *json, const char *pointer,
                                    const char *name, struct sp_device_residual *residual)
{
    const struct sp_described_number numbers[] = {{"low", &figure_low, true, &residual->low},
                                                  {"high", &figure_high, true, &residual->high}};

    return read_object(reader, json, pointer, name, numbers, COUNT_OF(numbers));
}

static enum sp_status read_residuals(struct sp_members_reader *reader, json_t *json, const char *pointer,
                                     struct sp_device *device)
{
    const char *names[SP_DEVICE_CLASS_COUNT], *at;
    json_t *residuals;
    enum sp_status status = open_object(reader, json, pointer, "residuals", &residuals, &at);

    if (status != SP_OK || residuals == NULL)
        return status;
    for (int i = 0; i < SP_DEVICE_CLASS_COUNT; i++)
        names[i] = sp_device_class_name((enum sp_device_class)i);
    status = sp_members_check(reader, residuals, at, "'residuals'", names, COUNT_OF(names));
    for (int i = 0; status == SP_OK && i < SP_DEVICE_CLASS_COUNT; i++)
        status = read_residual(reader, residuals, at, names[i], &device->residuals[i]);
    return status;
}

static const struct sp_members_range figure_ratio = {"a multiple of what products have", SP_MIN_EFFICIENCY, 1e3};

static enum sp_status read_convolutions(struct sp_members_reader *reader, json_t *json, const char *pointer,
                                        struct sp_device *device)
{
    static const char *const names[] = {"dense", "grouped"};
    struct sp_device_convolution *const convolutions[] = {&device->dense, &device->grouped};
    json_t *object;
    const char *at;
    enum sp_status status = open_object(reader, json, pointer, "convolutions", &object, &at);

    if (status != SP_OK || object == NULL)
        return status;
    status = sp_members_check(reader, object, at, "'convolutions'", names, COUNT_OF(names));
    for (size_t i = 0; status == SP_OK && i < COUNT_OF(names); i++) {
        struct sp_device_convolution *of = convolutions[i];
        const struct sp_described_number numbers[] = {{"start_ratio", &figure_ratio, true, &of->start_ratio},
                                                      {"flops_ratio", &figure_ratio, true, &of->flops_ratio},
                                                      {"memory_ratio", &figure_ratio, true, &of->memory_ratio}};
        status = read_object(reader, object, at, names[i], numbers, COUNT_OF(numbers));
    }
    return status;
}

static enum sp_status read_attention(struct sp_members_reader *reader, json_t *json, const char *pointer,
                                     struct sp_device *device)
{
    static const char *const members[] = {"prefill", "decode"};
    struct sp_device_prefill *prefill = &device->prefill;
    struct sp_device_decode *decode = &device->decode;
    const struct sp_described_number of_prefill[] = {{"start_seconds", &figure_start, true, &prefill->start_seconds},
                                                     {"flops_share", &figure_share, true, &prefill->flops_share},
                                                     {"memory_share", &figure_share, true, &prefill->memory_share},
                                                     {"half_queries", &figure_count, false, &prefill->half_queries}};
    const struct sp_described_number of_decode[] = {{"start_seconds", &figure_start, true, &decode->start_seconds},
                                                    {"memory_share", &figure_share, true, &decode->memory_share},
                                                    {"tile_keys", &figure_count, false, &decode->tile_keys}};
    json_t *attention;
    const char *at;
    enum sp_status status = open_object(reader, json, pointer, "attention", &attention, &at);

    if (status != SP_OK || attention == NULL)
        return status;
    status = sp_members_check(reader, attention, at, "'attention'", members, COUNT_OF(members));
    if (status == SP_OK)
        status = read_object(reader, attention, at, "prefill", of_prefill, COUNT_OF(of_prefill));
    if (status == SP_OK)
        status = read_object(reader, attention, at, "decode", of_decode, COUNT_OF(of_decode));
    return status;
}

static enum sp_status read_stream(struct sp_members_reader *reader, json_t *json, const char *pointer, const char *name,
                                  struct sp_device_other *kernels)
{
    const struct sp_described_number numbers[] = {{"start_seconds", &figure_start, true, &kernels->start_seconds},
                                                  {"memory_share", &figure_share, true, &kernels->memory_share}};

    return read_object(reader, json, pointer, name, numbers, COUNT_OF(numbers));
}

static enum sp_status read_collective(struct sp_members_reader *reader, json_t *json, const char *pointer,
                                      struct sp_device_collective *collective)
{
    static const char *const members[] = {"start_seconds", "rank_seconds", "half_bytes", "link_share"};
    double *shares = collective->link_share;
    const struct sp_described_number numbers[] = {{"start_seconds", &figure_start, true, &collective->start_seconds},
                                                  {"rank_seconds", &figure_seconds, true, &collective->rank_seconds},
                                                  {"half_bytes", &figure_bytes, false, &collective->half_bytes}};
    const struct sp_described_number sizes[SP_DEVICE_GROUP_SIZES] = {{"2", &figure_share, false, &shares[0]},
                                                                     {"4", &figure_share, false, &shares[1]},
                                                                     {"8", &figure_share, false, &shares[2]}};
    enum sp_status status = sp_members_check(reader, json, pointer, "A collective", members, COUNT_OF(members));

    if (status == SP_OK)
        status = sp_described_numbers(reader, json, pointer, numbers, COUNT_OF(numbers));
    if (status == SP_OK)
        status = read_object(reader, json, pointer, "link_share", sizes, COUNT_OF(sizes));
    if (status == SP_OK && sp_device_link_share(collective, 2) <= 0)
        return sp_members_refuse(reader, pointer, "MEMBER_MISSING",
                                 "The member 'link_share' is missing here, or empty: shares of the link's bandwidth by "
                                 "the size of the group, such as {\"2\": 0.7, \"8\": 0.9}.");
    return status;
}

static enum sp_status read_library(struct sp_members_reader *reader, json_t *json, const char *pointer,
                                   struct sp_device_library *library)
{
    const char *names[SP_DEVICE_OPERATION_COUNT + 1] = {[SP_DEVICE_OPERATION_COUNT] = "residual"};
    enum sp_status status;

    for (int i = 0; i < SP_DEVICE_OPERATION_COUNT; i++)
        names[i] = sp_device_operation_name((enum sp_device_operation)i);
    status = sp_members_check(reader, json, pointer, "A library of collectives", names, COUNT_OF(names));
    for (int i = 0; status == SP_OK && i < SP_DEVICE_OPERATION_COUNT; i++) {
        json_t *operation = json_object_get(json, names[i]);
        const char *at = sp_members_child(reader, pointer, names[i]);
        if (at == NULL)
            return sp_fail_memory(reader->err);
        if (operation != NULL)
            status = read_collective(reader, operation, at, &library->operations[i]);
    }
    return status == SP_OK ? read_residual(reader, json, pointer, "residual", &library->residual) : status;
}

static enum sp_status read_collectives(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                       struct sp_device *device)
{
    struct sp_device_library *libraries;
    json_t *collectives, *value;
    const char *at, *name;
    enum sp_status status = open_object(reader, json, pointer, "collectives", &collectives, &at);

    if (status != SP_OK || json_object_size(collectives) == 0)
        return status;
    if (json_object_size(collectives) > SP_MAX_DEVICE_LIBRARIES)
        return sp_members_refuse(reader, at, "MEMBER_TYPE", "'collectives' must be an object of at most %d libraries.",
                                 SP_MAX_DEVICE_LIBRARIES);
    libraries = SP_NEW_ARRAY(reader->arena, json_object_size(collectives), struct sp_device_library);
    if (libraries == NULL)
        return sp_fail_memory(reader->err);
    device->libraries = libraries;
    json_object_foreach(collectives, name, value)
    {
        struct sp_device_library *library = &libraries[device->library_count++];
        const char *here = sp_members_child(reader, at, name);
        library->name = sp_arena_string(reader->arena, name, strlen(name));
        if (here == NULL || library->name == NULL)
            return sp_fail_memory(reader->err);
        status = read_library(reader, value, here, library);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

static enum sp_status read_measured(struct sp_members_reader *reader, json_t *json, const char *pointer,
                                    struct sp_device *device)
{
    const char *names[SP_DEVICE_FIGURES_COUNT], *at;
    json_t *measured;
    enum sp_status status = open_object(reader, json, pointer, "measured", &measured, &at);

    if (status != SP_OK || measured == NULL)
        return status;
    for (int i = 0; i < SP_DEVICE_FIGURES_COUNT; i++)
        names[i] = sp_device_figures_name((enum sp_device_figures)i);
    status = sp_members_check(reader, measured, at, "'measured'", names, COUNT_OF(names));
    for (int i = 0; status == SP_OK && i < SP_DEVICE_FIGURES_COUNT; i++) {
        const json_t *flag = json_object_get(measured, names[i]);
        if (flag != NULL && !json_is_boolean(flag))
            return sp_members_refuse(reader, sp_members_child(reader, at, names[i]), "MEMBER_TYPE",
                                     "'%s' must be true (these figures were measured on the device) or false.",
                                     names[i]);
        device->measured[i] = json_is_true(flag);
    }
    return status;
}

enum sp_status sp_described_kernels(struct sp_members_reader *reader, json_t *json, const char *pointer,
                                    struct sp_device *device)
{
    enum sp_status status = read_products(reader, json, pointer, device);

    if (status == SP_OK)
        status = read_convolutions(reader, json, pointer, device);
    if (status == SP_OK)
        status = read_narrowing(reader, json, pointer, device);
    if (status == SP_OK)
        status = read_attention(reader, json, pointer, device);
    if (status == SP_OK)
        status = read_stream(reader, json, pointer, "other", &device->other);
    if (status == SP_OK)
        status = read_stream(reader, json, pointer, "norm", &device->norm);
    if (status == SP_OK)
        status = read_collectives(reader, json, pointer, device);
    if (status == SP_OK)
        status = read_residuals(reader, json, pointer, device);
    if (status == SP_OK)
        status = read_measured(reader, json, pointer, device);
    return status;
}
