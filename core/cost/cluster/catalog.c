/* The catalog, and what a device's kernels reach by its own figures or by the defaults of its kind. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cost/cluster/catalog_table.h"

#define COUNT_OF(array) (sizeof array / sizeof array[0])

const struct sp_device *sp_device_catalog(uint32_t *ret_count)
{
    *ret_count = sp_catalog_device_count;
    return sp_catalog_devices;
}

const struct sp_device *sp_device_slices(uint32_t *ret_count)
{
    *ret_count = sp_catalog_slice_count;
    return sp_catalog_slices;
}

static const struct sp_device *find_in(const struct sp_device *devices, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcasecmp(devices[i].name, name) == 0)
            return &devices[i];
    }
    return NULL;
}

/* "NVIDIA A100-SXM4-80GB MIG 3g.40gb", as CUDA calls a slice, in our form. */
static bool slice_name(const char *name, char *ret_name)
{
    static const char maker[] = "NVIDIA ", middle[] = " MIG ";
    const char *slice;

    if (strncasecmp(name, maker, strlen(maker)) == 0)
        name += strlen(maker);
    slice = strcasestr(name, middle);
    return slice != NULL && snprintf(ret_name, SP_DEVICE_NAME_SIZE, "%.*s/%s", (int)(slice - name), name,
                                     slice + strlen(middle)) < SP_DEVICE_NAME_SIZE;
}

const struct sp_device *sp_device_find(const char *name)
{
    char own[SP_DEVICE_NAME_SIZE];
    const struct sp_device *device = find_in(sp_catalog_devices, sp_catalog_device_count, name);

    if (device == NULL)
        device = find_in(sp_catalog_slices, sp_catalog_slice_count, name);
    if (device == NULL && strlen(name) < 2 * SP_DEVICE_NAME_SIZE && slice_name(name, own))
        device = find_in(sp_catalog_slices, sp_catalog_slice_count, own);
    return device;
}

static const char *const kind_names[SP_DEVICE_KIND_COUNT] = {NULL, "gpu", "tpu", "npu", "cpu"};

const char *sp_device_kind_name(enum sp_device_kind kind)
{
    return kind_names[kind];
}

enum sp_device_kind sp_device_kind_parse(const char *text)
{
    for (int kind = SP_DEVICE_OF_NO_KIND + 1; kind < SP_DEVICE_KIND_COUNT; kind++) {
        if (strcmp(kind_names[kind], text) == 0)
            return (enum sp_device_kind)kind;
    }
    return SP_DEVICE_OF_NO_KIND;
}

const char *sp_device_figures_name(enum sp_device_figures part)
{
    static const char *const names[SP_DEVICE_FIGURES_COUNT] = {"products", "attention", "other", "collectives"};
    return names[part];
}

const char *sp_device_operation_name(enum sp_device_operation operation)
{
    static const char *const names[SP_DEVICE_OPERATION_COUNT] = {"all_reduce", "all_gather", "reduce_scatter",
                                                                 "all_to_all"};
    return names[operation];
}

const char *sp_device_class_name(enum sp_device_class class)
{
    static const char *const names[SP_DEVICE_CLASS_COUNT] = {
        "products", "narrow_products", "prefill",           "decode", "other",
        "norm",     "collectives",     "eager_collectives", "memory"};
    return names[class];
}

/* Takes what `figures` state and *product lacks. */
static void complete(struct sp_device_product *product, const struct sp_device_product *figures)
{
    if (product->start_seconds <= 0)
        product->start_seconds = figures->start_seconds;
    if (product->flops_share <= 0)
        product->flops_share = figures->flops_share;
    if (product->memory_share <= 0)
        product->memory_share = figures->memory_share;
}

/* From a device's own products: this type, types of as many bits, then the order of the contract. */
static void complete_from(struct sp_device_product *product, const struct sp_device *device, enum sp_dtype dtype)
{
    static const enum sp_dtype order[] = {SP_DTYPE_BFLOAT16,     SP_DTYPE_FLOAT16,    SP_DTYPE_FLOAT, SP_DTYPE_DOUBLE,
                                          SP_DTYPE_FLOAT8E4M3FN, SP_DTYPE_FLOAT8E5M2, SP_DTYPE_INT8};

    complete(product, &device->products[dtype]);
    for (int other = 0; other < SP_DTYPE_COUNT; other++) {
        if (sp_dtype_bits(other) == sp_dtype_bits(dtype))
            complete(product, &device->products[other]);
    }
    for (size_t i = 0; i < COUNT_OF(order); i++)
        complete(product, &device->products[order[i]]);
}

struct sp_device_product sp_device_product(const struct sp_device *device, enum sp_dtype dtype)
{
    struct sp_device_product product = {0};

    if ((unsigned)dtype >= SP_DTYPE_COUNT)
        dtype = SP_DTYPE_UNDEFINED;
    complete_from(&product, device, dtype);
    complete_from(&product, &sp_catalog_kinds[device->kind], dtype);
    return product;
}

struct sp_device_convolution sp_device_convolution(const struct sp_device *device, bool is_grouped)
{
    const struct sp_device_convolution *own = is_grouped ? &device->grouped : &device->dense;
    const struct sp_device *kind = &sp_catalog_kinds[device->kind];

    return own->memory_ratio > 0 ? *own : is_grouped ? kind->grouped : kind->dense;
}

struct sp_device_prefill sp_device_prefill(const struct sp_device *device)
{
    return device->prefill.memory_share > 0 ? device->prefill : sp_catalog_kinds[device->kind].prefill;
}

struct sp_device_decode sp_device_decode(const struct sp_device *device)
{
    return device->decode.memory_share > 0 ? device->decode : sp_catalog_kinds[device->kind].decode;
}

struct sp_device_other sp_device_other(const struct sp_device *device)
{
    return device->other.memory_share > 0 ? device->other : sp_catalog_kinds[device->kind].other;
}

struct sp_device_other sp_device_norm(const struct sp_device *device)
{
    const struct sp_device *kind = &sp_catalog_kinds[device->kind];

    if (device->norm.memory_share > 0)
        return device->norm;
    return device->other.memory_share <= 0 && kind->norm.memory_share > 0 ? kind->norm : sp_device_other(device);
}

struct sp_device_residual sp_device_residual(const struct sp_device *device, enum sp_device_class class)
{
    const struct sp_device *const owners[] = {device, &sp_catalog_kinds[device->kind],
                                              &sp_catalog_kinds[SP_DEVICE_OF_NO_KIND]};
    const enum sp_device_class otherwise = class == SP_DEVICE_CLASS_NORM ? SP_DEVICE_CLASS_OTHER : class;
    size_t at = 0;

    while (at + 1 < COUNT_OF(owners) && owners[at]->residuals[class].low <= 0 &&
           owners[at]->residuals[otherwise].low <= 0)
        at++;
    return owners[at]->residuals[owners[at]->residuals[class].low > 0 ? class : otherwise];
}

const struct sp_device_library *sp_device_libraries(const struct sp_device *device, uint32_t *ret_count)
{
    const struct sp_device *owner = device;

    if (device->library_count == 0 && device->link_bandwidth > 0)
        owner = &sp_catalog_kinds[device->kind];
    *ret_count = owner->library_count;
    return owner->libraries;
}

double sp_device_link_share(const struct sp_device_collective *collective, uint32_t size)
{
    double share = 0;

    for (uint32_t i = 0; i < SP_DEVICE_GROUP_SIZES; i++) {
        if (collective->link_share[i] > 0)
            share = collective->link_share[i];
        if (share > 0 && size <= UINT32_C(2) << i)
            break;
    }
    return share;
}
