#include <string.h>

#include "cost/workload.h"

/* Queries that a block of a fused attention works on (FlashAttention 2 and 3), and how much longer few blocks take at
   most: kernels share the keys out, too, where these are few. As api/devices/fitting/forms.py. */
#define QUERY_TILE 128
#define MOST_IDLE  8

#define NARROW_BITS 8 /* of elements of narrow products, at most */

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* What kernels of a class reach on a device, whatever states it. */
struct reach {
    double start_seconds, flops_share, memory_share, half_queries, tile_keys, row_seconds;
    double peak; /* that the share is of, FLOP per second */
};

/* Of the device's runtime; NULL: not known. */
static const struct sp_device_narrowing *narrowing_of(const struct sp_device *device)
{
    for (uint32_t i = 0; i < device->narrowing_count; i++)
        if (strcmp(device->narrowings[i].runtime, sp_device_runtime(device)->name) == 0)
            return &device->narrowings[i];
    return NULL;
}

static double or_default(double figure, double otherwise)
{
    return figure > 0 ? figure : otherwise;
}

static struct reach product_reach(const struct sp_device *device, enum sp_dtype dtype, enum sp_kernel_class kind)
{
    const bool is_grouped = kind == SP_KERNEL_GROUPED_CONVOLUTION;
    const struct sp_device_product product = sp_device_product(device, dtype);
    const struct sp_device_convolution ratios = sp_device_convolution(device, is_grouped);
    const double peak = sp_device_product_flops(device, dtype);
    if (kind == SP_KERNEL_PRODUCT || ratios.memory_ratio <= 0)
        return (struct reach){product.start_seconds, product.flops_share, product.memory_share, .peak = peak};
    return (struct reach){.start_seconds = product.start_seconds * ratios.start_ratio,
                          .flops_share = product.flops_share * ratios.flops_ratio,
                          .memory_share = product.memory_share * ratios.memory_ratio,
                          .peak = is_grouped ? sp_device_flops(device, SP_DTYPE_FLOAT) : peak};
}

static struct reach own_reach(const struct sp_device *device, enum sp_dtype dtype, enum sp_kernel_class kind)
{
    const struct sp_device_narrowing *narrowing = kind == SP_KERNEL_NARROWING ? narrowing_of(device) : NULL;
    struct reach reach = {.flops_share = sp_device_product(device, dtype).flops_share,
                          .peak = sp_device_flops(device, dtype)};
    if (kind == SP_KERNEL_PRODUCT || kind == SP_KERNEL_CONVOLUTION || kind == SP_KERNEL_GROUPED_CONVOLUTION)
        return product_reach(device, dtype, kind);
    if (kind == SP_KERNEL_PREFILL) {
        const struct sp_device_prefill prefill = sp_device_prefill(device);
        return (struct reach){.start_seconds = prefill.start_seconds,
                              .flops_share = prefill.flops_share,
                              .memory_share = prefill.memory_share,
                              .half_queries = prefill.half_queries,
                              .peak = reach.peak};
    }
    if (kind == SP_KERNEL_DECODE) {
        const struct sp_device_decode decode = sp_device_decode(device);
        reach.start_seconds = decode.start_seconds;
        reach.memory_share = decode.memory_share;
        reach.tile_keys = decode.tile_keys;
    } else if (narrowing != NULL) {
        reach.start_seconds = narrowing->start_seconds;
        reach.memory_share = narrowing->memory_share;
        reach.row_seconds = narrowing->row_seconds;
    } else {
        const struct sp_device_other other = kind == SP_KERNEL_NORM ? sp_device_norm(device) : sp_device_other(device);
        reach.start_seconds = other.start_seconds;
        reach.memory_share = other.memory_share;
    }
    return reach;
}

/* Of a cluster, a device, its kind or its runtime. */
static struct reach reach_of(const struct sp_device *device, const struct sp_cluster *cluster, enum sp_dtype dtype,
                             enum sp_kernel_class kind)
{
    struct reach reach = own_reach(device, dtype, kind);
    if (cluster->efficiency > 0)
        reach = (struct reach){reach.start_seconds, cluster->efficiency, cluster->efficiency, .peak = reach.peak};
    reach.flops_share = or_default(reach.flops_share, SP_DEFAULT_EFFICIENCY);
    reach.memory_share = or_default(reach.memory_share, SP_DEFAULT_EFFICIENCY);
    if (cluster->launch_seconds >= 0) {
        reach.start_seconds = cluster->launch_seconds;
        return reach;
    }
    reach.start_seconds = or_default(reach.start_seconds, SP_DEFAULT_LAUNCH_SECONDS);
    if (device->kind == SP_DEVICE_GPU)
        reach.start_seconds = larger(reach.start_seconds, sp_device_runtime(device)->kernel_seconds);
    return reach;
}

struct sp_kernel_reach sp_roofline_reach(const struct sp_device *device, const struct sp_cluster *cluster,
                                         enum sp_dtype dtype, enum sp_kernel_class kind)
{
    const struct reach reach = reach_of(device, cluster, dtype, kind);
    return (struct sp_kernel_reach){reach.start_seconds, reach.flops_share, reach.memory_share};
}

/* How many times the arithmetic of a prefill takes what the same FLOPs of a long one take. */
static double prefill_slowness(const struct sp_device *device, const struct sp_attention_shape *shape,
                               double half_queries)
{
    double tiles = shape->batch * shape->heads * larger(shape->queries / QUERY_TILE, 1), idle = 1;
    if (half_queries <= 0 || shape->queries <= 0)
        return 1;
    if (device->units > 0 && tiles > 0)
        idle = smaller(larger(device->units / tiles, 1), MOST_IDLE);
    return (1 + half_queries / shape->queries) * idle;
}

/* Keys and values that a head of fewer positions than tile_keys takes as long as. */
static double absent_bytes(const struct sp_attention_shape *shape, enum sp_dtype dtype, double tile_keys)
{
    const double vectors = 2 * shape->batch * shape->kv_heads * larger(tile_keys - shape->keys, 0);
    return vectors * shape->size * sp_dtype_bits(dtype) / 8;
}

enum sp_device_class sp_roofline_class(enum sp_dtype dtype, enum sp_kernel_class kind)
{
    switch (kind) {
    case SP_KERNEL_PRODUCT:
    case SP_KERNEL_CONVOLUTION:
    case SP_KERNEL_GROUPED_CONVOLUTION:
        return sp_dtype_bits(dtype) <= NARROW_BITS ? SP_DEVICE_CLASS_NARROW_PRODUCTS : SP_DEVICE_CLASS_PRODUCTS;
    case SP_KERNEL_PREFILL:
        return SP_DEVICE_CLASS_PREFILL;
    case SP_KERNEL_DECODE:
        return SP_DEVICE_CLASS_DECODE;
    case SP_KERNEL_NARROWING: /* measured as a part of these */
        return SP_DEVICE_CLASS_NARROW_PRODUCTS;
    case SP_KERNEL_NORM:
        return SP_DEVICE_CLASS_NORM;
    case SP_KERNEL_OTHER:
        break;
    }
    return SP_DEVICE_CLASS_OTHER;
}

struct sp_device_residual sp_roofline_residual(const struct sp_device *device, const struct sp_cluster *cluster,
                                               enum sp_device_class class)
{
    static const struct sp_device unknown = {.kind = SP_DEVICE_OF_NO_KIND};
    const bool is_stated = cluster->efficiency > 0 || cluster->launch_seconds >= 0;
    return sp_device_residual(is_stated ? &unknown : device, class);
}

static double starts_of(const struct sp_kernel_work *work)
{
    return (work->pays_no_start ? 0 : 1) + work->more_starts;
}

double sp_roofline_start_seconds(const struct sp_device *device, const struct sp_cluster *cluster, enum sp_dtype dtype,
                                 const struct sp_kernel_work *work)
{
    if (work->flops <= 0 && work->bytes <= 0)
        return 0;
    return starts_of(work) * reach_of(device, cluster, dtype, work->kind).start_seconds;
}

double sp_roofline_seconds(const struct sp_device *device, const struct sp_cluster *cluster, enum sp_dtype dtype,
                           const struct sp_kernel_work *work)
{
    double bandwidth = device->memory_bandwidth, compute = 0, functions = 0, memory, longest;

    if (work->flops <= 0 && work->bytes <= 0)
        return 0;
    const struct reach reach = reach_of(device, cluster, dtype, work->kind);
    if (work->permutes && device->permuted_bandwidth > 0)
        bandwidth = device->permuted_bandwidth;
    memory = work->bytes / bandwidth / reach.memory_share + work->rows * reach.row_seconds;
    if (work->kind == SP_KERNEL_DECODE)
        memory += absent_bytes(&work->attention, dtype, reach.tile_keys) / bandwidth / reach.memory_share;
    if (work->flops > 0)
        compute = work->flops / reach.peak / reach.flops_share;
    if (work->kind == SP_KERNEL_PREFILL)
        compute *= prefill_slowness(device, &work->attention, reach.half_queries);
    if (work->functions > 0 && device->functions_per_second > 0)
        functions = work->functions / device->functions_per_second / reach.memory_share;
    longest = larger(memory, larger(compute, functions));
    longest += device->unhidden * (memory + compute + functions - longest);
    return longest + starts_of(work) * reach.start_seconds;
}

double sp_roofline_cut_seconds(const struct sp_device *device, const struct sp_cluster *cluster,
                               enum sp_kernel_class class, double bytes, bool starts)
{
    return sp_roofline_seconds(device, cluster, SP_DTYPE_UNDEFINED,
                               &(struct sp_kernel_work){.bytes = bytes, .kind = class, .pays_no_start = !starts});
}

/* The type of an operand that is quantised: dequantised before the node, or by it. */
static enum sp_dtype quantized_operand(const struct sp_value *value)
{
    if (value == NULL || value->quantized_as != SP_DTYPE_UNDEFINED)
        return value != NULL ? value->quantized_as : SP_DTYPE_UNDEFINED;
    const bool is_narrow = sp_dtype_bits(value->type.dtype) <= 8 && value->type.dtype != SP_DTYPE_BOOL;
    return is_narrow ? value->type.dtype : SP_DTYPE_UNDEFINED;
}

/* What a node multiplies its first operand by: of its other quantised operands the heaviest. */
static enum sp_dtype heaviest_quantized(const struct sp_node *node)
{
    enum sp_dtype heaviest = SP_DTYPE_UNDEFINED;
    int64_t most = -2; /* unknown is -1 */
    for (uint32_t i = 1; i < node->input_count; i++) {
        const enum sp_dtype dtype = quantized_operand(node->inputs[i]);
        if (dtype == SP_DTYPE_UNDEFINED || sp_value_bytes(node->inputs[i]) <= most)
            continue;
        most = sp_value_bytes(node->inputs[i]);
        heaviest = dtype;
    }
    return heaviest;
}

/* The type in which a node multiplies two quantised operands: the wider one of both. */
static enum sp_dtype quantized_type(const struct sp_node *node)
{
    const enum sp_dtype a = node->input_count > 1 ? quantized_operand(node->inputs[0]) : SP_DTYPE_UNDEFINED,
                        b = a != SP_DTYPE_UNDEFINED ? heaviest_quantized(node) : SP_DTYPE_UNDEFINED;
    if (b == SP_DTYPE_UNDEFINED)
        return SP_DTYPE_UNDEFINED;
    return sp_dtype_bits(a) < sp_dtype_bits(b) ? b : a;
}

static enum sp_dtype stated_type(const struct sp_node *node)
{
    const struct sp_value *output = node->output_count > 0 ? node->outputs[0] : NULL;
    const struct sp_value *input = node->input_count > 0 ? node->inputs[0] : NULL;
    const struct sp_value *heaviest = NULL;

    if (output == NULL || !sp_dtype_is_float(output->type.dtype)) {
        const struct sp_value *decisive = input != NULL ? input : output;
        return decisive != NULL ? decisive->type.dtype : SP_DTYPE_UNDEFINED;
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        const struct sp_value *value = node->inputs[i];
        if (value != NULL && sp_dtype_is_float(value->type.dtype) &&
            (heaviest == NULL || sp_value_bytes(value) > sp_value_bytes(heaviest))) /* unknown is -1: the smallest */
            heaviest = value;
    }
    return heaviest != NULL ? heaviest->type.dtype : output->type.dtype;
}

enum sp_dtype sp_node_dtype(const struct sp_device *device, const struct sp_node *node)
{
    const enum sp_dtype stated = stated_type(node), narrow = quantized_type(node);
    const bool is_faster =
        narrow != SP_DTYPE_UNDEFINED && sp_device_flops(device, narrow) > sp_device_product_flops(device, stated);
    return is_faster ? narrow : stated;
}
