/* A device as JSON, with the members that described_device.c reads. */
#include "cost/cluster/cluster.h"

#define COUNT_OF(array) (sizeof array / sizeof array[0])

struct number {
    const char *member;
    double value;
};

/* The numbers that are stated. */
static void write_numbers(struct sp_json *json, const struct number *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (numbers[i].value > 0)
            sp_json_member_double(json, numbers[i].member, numbers[i].value);
    }
}

static void write_object(struct sp_json *json, const char *name, const struct number *numbers, size_t count)
{
    sp_json_key(json, name);
    sp_json_begin_object(json);
    write_numbers(json, numbers, count);
    sp_json_end_object(json);
}

static void write_text(struct sp_json *json, const char *name, const char *text)
{
    if (text != NULL && text[0] != '\0')
        sp_json_member_string(json, name, text);
}

static bool is_stated(const struct sp_device_product *product)
{
    return product->start_seconds > 0 || product->flops_share > 0 || product->memory_share > 0;
}

static void write_products(const struct sp_device *device, struct sp_json *json)
{
    bool is_open = false;

    for (int dtype = 0; dtype < SP_DTYPE_COUNT; dtype++) {
        const struct sp_device_product *product = &device->products[dtype];
        const struct number numbers[] = {{"start_seconds", product->start_seconds},
                                         {"flops_share", product->flops_share},
                                         {"memory_share", product->memory_share}};
        if (!is_stated(product))
            continue;
        if (!is_open) {
            sp_json_key(json, "products");
            sp_json_begin_object(json);
        }
        is_open = true;
        write_object(json, sp_dtype_name(dtype), numbers, COUNT_OF(numbers));
    }
    if (is_open)
        sp_json_end_object(json);
}

static void write_convolutions(const struct sp_device *device, struct sp_json *json)
{
    static const char *const names[] = {"dense", "grouped"};
    const struct sp_device_convolution *const convolutions[] = {&device->dense, &device->grouped};

    if (device->dense.memory_ratio <= 0 && device->grouped.memory_ratio <= 0)
        return;
    sp_json_key(json, "convolutions");
    sp_json_begin_object(json);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const struct number numbers[] = {{"start_ratio", convolutions[i]->start_ratio},
                                         {"flops_ratio", convolutions[i]->flops_ratio},
                                         {"memory_ratio", convolutions[i]->memory_ratio}};
        if (convolutions[i]->memory_ratio > 0)
            write_object(json, names[i], numbers, COUNT_OF(numbers));
    }
    sp_json_end_object(json);
}

static void write_narrowing(const struct sp_device *device, struct sp_json *json)
{
    if (device->narrowing_count == 0)
        return;
    sp_json_key(json, "narrowing");
    sp_json_begin_object(json);
    for (uint32_t i = 0; i < device->narrowing_count; i++) {
        const struct sp_device_narrowing *narrowing = &device->narrowings[i];
        const struct number numbers[] = {{"start_seconds", narrowing->start_seconds},
                                         {"memory_share", narrowing->memory_share},
                                         {"row_seconds", narrowing->row_seconds}};
        write_object(json, narrowing->runtime, numbers, COUNT_OF(numbers));
    }
    sp_json_end_object(json);
}

static void write_stream(struct sp_json *json, const char *name, const struct sp_device_other *kernels)
{
    const struct number numbers[] = {{"start_seconds", kernels->start_seconds},
                                     {"memory_share", kernels->memory_share}};

    if (kernels->memory_share > 0)
        write_object(json, name, numbers, COUNT_OF(numbers));
}

static void write_residual(struct sp_json *json, const char *name, const struct sp_device_residual *residual)
{
    const struct number numbers[] = {{"low", residual->low}, {"high", residual->high}};

    write_object(json, name, numbers, COUNT_OF(numbers));
}

static void write_residuals(const struct sp_device *device, struct sp_json *json)
{
    bool is_open = false;

    for (int class = 0; class < SP_DEVICE_CLASS_COUNT; class ++) {
        const struct sp_device_residual *residual = &device->residuals[class];
        if (residual->low <= 0)
            continue;
        if (!is_open) {
            sp_json_key(json, "residuals");
            sp_json_begin_object(json);
        }
        is_open = true;
        write_residual(json, sp_device_class_name((enum sp_device_class) class), residual);
    }
    if (is_open)
        sp_json_end_object(json);
}

static void write_attention(const struct sp_device *device, struct sp_json *json)
{
    const struct sp_device_prefill *prefill = &device->prefill;
    const struct sp_device_decode *decode = &device->decode;
    const struct number of_prefill[] = {{"start_seconds", prefill->start_seconds},
                                        {"flops_share", prefill->flops_share},
                                        {"memory_share", prefill->memory_share},
                                        {"half_queries", prefill->half_queries}};
    const struct number of_decode[] = {{"start_seconds", decode->start_seconds},
                                       {"memory_share", decode->memory_share},
                                       {"tile_keys", decode->tile_keys}};

    if (prefill->memory_share <= 0 && decode->memory_share <= 0)
        return;
    sp_json_key(json, "attention");
    sp_json_begin_object(json);
    if (prefill->memory_share > 0)
        write_object(json, "prefill", of_prefill, COUNT_OF(of_prefill));
    if (decode->memory_share > 0)
        write_object(json, "decode", of_decode, COUNT_OF(of_decode));
    sp_json_end_object(json);
}

static void write_collective(const struct sp_device_collective *collective, struct sp_json *json)
{
    const double *shares = collective->link_share;
    const struct number sizes[SP_DEVICE_GROUP_SIZES] = {{"2", shares[0]}, {"4", shares[1]}, {"8", shares[2]}};

    sp_json_begin_object(json);
    sp_json_member_double(json, "start_seconds", collective->start_seconds);
    sp_json_member_double(json, "rank_seconds", collective->rank_seconds);
    if (collective->half_bytes > 0)
        sp_json_member_double(json, "half_bytes", collective->half_bytes);
    write_object(json, "link_share", sizes, COUNT_OF(sizes));
    sp_json_end_object(json);
}

static void write_collectives(const struct sp_device *device, struct sp_json *json)
{
    if (device->library_count == 0)
        return;
    sp_json_key(json, "collectives");
    sp_json_begin_object(json);
    for (uint32_t i = 0; i < device->library_count; i++) {
        const struct sp_device_library *library = &device->libraries[i];
        sp_json_key(json, library->name);
        sp_json_begin_object(json);
        for (int operation = 0; operation < SP_DEVICE_OPERATION_COUNT; operation++) {
            if (library->operations[operation].start_seconds <= 0)
                continue;
            sp_json_key(json, sp_device_operation_name((enum sp_device_operation)operation));
            write_collective(&library->operations[operation], json);
        }
        if (library->residual.low > 0)
            write_residual(json, "residual", &library->residual);
        sp_json_end_object(json);
    }
    sp_json_end_object(json);
}

static void write_measured(const struct sp_device *device, struct sp_json *json)
{
    bool is_any = false;

    for (int part = 0; part < SP_DEVICE_FIGURES_COUNT; part++)
        is_any = is_any || device->measured[part];
    if (!is_any)
        return;
    sp_json_key(json, "measured");
    sp_json_begin_object(json);
    for (int part = 0; part < SP_DEVICE_FIGURES_COUNT; part++) {
        if (device->measured[part])
            sp_json_member_bool(json, sp_device_figures_name((enum sp_device_figures)part), true);
    }
    sp_json_end_object(json);
}

static void write_price(const struct sp_device_price *price, struct sp_json *json)
{
    if (price->usd <= 0)
        return;
    sp_json_key(json, "price_per_hour");
    sp_json_begin_object(json);
    sp_json_member_double(json, "usd", price->usd);
    write_text(json, "provider", price->provider);
    write_text(json, "date", price->date);
    sp_json_end_object(json);
}

/* Peaks, links and the like. A link of 0 is said: there is none. */
static void write_figures(const struct sp_device *device, struct sp_json *json)
{
    const struct number numbers[] = {{"memory_reported_bytes", device->memory_reported_bytes},
                                     {"memory_bandwidth", device->memory_bandwidth},
                                     {"permuted_bandwidth", device->permuted_bandwidth},
                                     {"functions_per_second", device->functions_per_second},
                                     {"unhidden", device->unhidden}};

    sp_json_member_double(json, "memory_bytes", device->memory_bytes);
    write_numbers(json, numbers, COUNT_OF(numbers));
    if (device->units > 0)
        sp_json_member_int(json, "units", device->units);
    sp_json_key(json, "flops");
    sp_json_begin_object(json);
    for (int dtype = 0; dtype < SP_DTYPE_COUNT; dtype++) {
        if (device->flops[dtype] > 0)
            sp_json_member_double(json, sp_dtype_name(dtype), device->flops[dtype]);
    }
    sp_json_end_object(json);
    if (device->flops_tf32 > 0)
        sp_json_member_double(json, "flops_tf32", device->flops_tf32);
    sp_json_member_double(json, "link_bandwidth", device->link_bandwidth);
    sp_json_member_double(json, "link_latency", device->link_latency);
    if (device->link_group > 0)
        sp_json_member_int(json, "link_group", device->link_group);
    sp_json_member_double(json, "host_bandwidth", device->host_bandwidth);
    sp_json_member_double(json, "watts", device->watts);
}

void sp_device_write(const struct sp_device *device, bool with_sources, struct sp_json *json)
{
    sp_json_begin_object(json);
    sp_json_member_string(json, "name", device->name);
    write_text(json, "title", device->title);
    if (device->kind != SP_DEVICE_OF_NO_KIND)
        sp_json_member_string(json, "kind", sp_device_kind_name(device->kind));
    write_figures(device, json);
    write_products(device, json);
    write_convolutions(device, json);
    write_narrowing(device, json);
    write_attention(device, json);
    write_stream(json, "other", &device->other);
    write_stream(json, "norm", &device->norm);
    write_collectives(device, json);
    write_residuals(device, json);
    write_measured(device, json);
    write_price(&device->price, json);
    write_text(json, "note", device->note);
    write_text(json, "source", device->source);
    if (with_sources && device->source_count > 0) {
        sp_json_key(json, "sources");
        sp_json_begin_object(json);
        for (uint32_t i = 0; i < device->source_count; i++)
            sp_json_member_string(json, device->sources[i].path, device->sources[i].text);
        sp_json_end_object(json);
    }
    sp_json_end_object(json);
}
