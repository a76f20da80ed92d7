#include "cost/workload.h"

double sp_roofline_seconds(const struct sp_device *device, const struct sp_cluster *cluster, enum sp_dtype dtype,
                           double flops, double bytes)
{
    double compute, memory;

    if (flops <= 0 && bytes <= 0)
        return 0;
    compute = flops > 0 ? flops / (cluster->efficiency * sp_device_flops(device, dtype)) : 0;
    memory = bytes / (cluster->efficiency * device->memory_bandwidth);
    return (compute > memory ? compute : memory) + cluster->launch_seconds;
}

enum sp_dtype sp_node_dtype(const struct sp_node *node)
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
