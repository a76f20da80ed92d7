#include "cost/workload.h"

static double larger(double a, double b)
{
    return a > b ? a : b;
}

double sp_roofline_seconds(const struct sp_device *device, const struct sp_cluster *cluster, enum sp_dtype dtype,
                           const struct sp_kernel_work *work)
{
    double bandwidth = device->memory_bandwidth, compute = 0, functions = 0, memory, longest;

    if (work->flops <= 0 && work->bytes <= 0)
        return 0;
    if (work->permutes && device->permuted_bandwidth > 0)
        bandwidth = device->permuted_bandwidth;
    memory = work->bytes / bandwidth;
    if (work->flops > 0)
        compute = work->flops / sp_device_flops(device, dtype);
    if (work->functions > 0 && device->functions_per_second > 0)
        functions = work->functions / device->functions_per_second;
    longest = larger(memory, larger(compute, functions));
    longest += device->unhidden * (memory + compute + functions - longest);
    return longest / cluster->efficiency + cluster->launch_seconds;
}

/* The type of an operand that is quantised: dequantised before the node, or by it. */
static enum sp_dtype quantized_operand(const struct sp_value *value)
{
    if (value == NULL || value->quantized_as != SP_DTYPE_UNDEFINED)
        return value != NULL ? value->quantized_as : SP_DTYPE_UNDEFINED;
    const bool is_narrow = sp_dtype_bits(value->type.dtype) <= 8 && value->type.dtype != SP_DTYPE_BOOL;
    return is_narrow ? value->type.dtype : SP_DTYPE_UNDEFINED;
}

/* The type in which a node multiplies two quantised operands: the wider one of both. */
static enum sp_dtype quantized_type(const struct sp_node *node)
{
    const enum sp_dtype a = node->input_count > 1 ? quantized_operand(node->inputs[0]) : SP_DTYPE_UNDEFINED,
                        b = a != SP_DTYPE_UNDEFINED ? quantized_operand(node->inputs[1]) : SP_DTYPE_UNDEFINED;
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
        narrow != SP_DTYPE_UNDEFINED && sp_device_flops(device, narrow) > sp_device_flops(device, stated);
    return is_faster ? narrow : stated;
}
