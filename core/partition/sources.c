/*
 * What comes from outside, cut to measure: parts of model inputs and weights, and values that are known.
 */
#include <string.h>

#include "partition/partition_internal.h"

const struct sp_tensor *sp_part_weight(const struct sp_value *value)
{
    const struct sp_node *node = value->producer;
    if (node == NULL || strcmp(node->op_type, "Constant") != 0 || node->domain[0] != '\0')
        return value->tensor;
    const struct sp_attribute *attribute = sp_node_attribute(node, "value");
    return attribute != NULL && attribute->type == SP_ATTR_TENSOR && attribute->count == 1 ? attribute->tensors[0]
                                                                                           : NULL;
}

/* What a graph inside is given comes from the node around it. */
static bool is_source(const struct sp_partitioner *part, const struct sp_value *value)
{
    if (value->kind == SP_VALUE_INPUT && value->graph != part->model->graph && value->tensor == NULL)
        return false;
    return value->kind != SP_VALUE_NODE_OUTPUT || value->producer == NULL || sp_part_weight(value) != NULL;
}

/* Known integers of what a node made. */
static bool is_known(const struct sp_value *value)
{
    if (value->data == NULL || value->data->ints == NULL || value->type.kind != SP_TYPE_TENSOR ||
        sp_dtype_bytes(value->type.dtype, 8) < 8)
        return false;
    for (uint32_t i = 0; i < value->data->count; i++)
        if (!sp_dim_is_known(value->data->ints[i]))
            return false;
    return sp_shape_elements(&value->type.shape) == value->data->count;
}

bool sp_part_is_constant(const struct sp_value *value)
{
    return value->kind == SP_VALUE_NODE_OUTPUT && is_known(value);
}

bool sp_part_is_outside(const struct sp_partitioner *part, const struct sp_value *value)
{
    return is_source(part, value) || sp_part_is_constant(value);
}

/* One index of a box, row-major, as an index of the whole. */
static uint64_t element_of(const struct sp_value *value, const struct sp_box *box, uint64_t number)
{
    uint64_t index = 0, stride = 1;
    for (uint32_t a = box->rank; a-- > 0;) {
        int64_t size = 0, own;
        for (uint32_t i = 0; i < box->axes[a].count; i++)
            size += box->axes[a].ranges[i].limit - box->axes[a].ranges[i].start;
        if (size <= 0)
            return 0; /* no part of a box that is cut is empty */
        own = (int64_t)(number % (uint64_t)size);
        number /= (uint64_t)size;
        for (uint32_t i = 0; i < box->axes[a].count; i++) {
            int64_t length = box->axes[a].ranges[i].limit - box->axes[a].ranges[i].start;
            if (own < length) {
                index += (uint64_t)(box->axes[a].ranges[i].start + own) * stride;
                break;
            }
            own -= length;
        }
        stride *= (uint64_t)sp_part_extent(value, a);
    }
    return index;
}

static enum sp_status tell_constant(struct sp_partitioner *part, const struct sp_value *value,
                                    const struct sp_piece *piece, const struct sp_box *box)
{
    size_t width = (size_t)sp_dtype_bytes(value->type.dtype, 1);
    uint64_t count = 1;
    for (uint32_t a = 0; a < piece->rank; a++)
        count *= (uint64_t)piece->dims[a];
    unsigned char *bytes = SP_NEW_ARRAY(part->scratch, count * width, unsigned char);
    if (bytes == NULL)
        return sp_fail_memory(part->err);
    for (uint64_t i = 0; i < count; i++) {
        int64_t number = value->data->ints[element_of(value, box, i)].value;
        for (size_t byte = 0; byte < width; byte++)
            bytes[i * width + byte] = (unsigned char)((uint64_t)number >> (8 * byte));
    }
    struct sp_part_constant constant = {.device = piece->device,
                                        .piece = piece,
                                        .dtype = value->type.dtype,
                                        .rank = piece->rank,
                                        .dims = piece->dims,
                                        .bytes = bytes,
                                        .size = count * width};
    return part->sink->constant != NULL ? part->sink->constant(part->sink->context, &constant, part->err) : SP_OK;
}

static enum sp_status tell_source(struct sp_partitioner *part, const struct sp_value *value,
                                  const struct sp_piece *piece, const struct sp_box *box)
{
    struct sp_part_source source = {.value = value,
                                    .is_weight = sp_part_weight(value) != NULL || value->sparse != NULL,
                                    .tensor = sp_part_weight(value),
                                    .device = piece->device,
                                    .piece = piece,
                                    .box = *box};
    return part->sink->source != NULL ? part->sink->source(part->sink->context, &source, part->err) : SP_OK;
}

/* The pieces that are missing, cut to measure. */
enum sp_status sp_part_cut_outside(struct sp_partitioner *part, const struct sp_value *value,
                                   const struct sp_part_target *target, const struct sp_piece **pieces)
{
    for (uint32_t i = 0; i < target->count; i++) {
        if (pieces[i] != NULL || sp_box_is_nothing(&target->boxes[i]))
            continue;
        pieces[i] = sp_part_piece(part, value->name, target->devices[i], value->type.dtype, &target->boxes[i]);
        if (pieces[i] == NULL)
            return sp_fail_memory(part->err);
        enum sp_status status = is_source(part, value) ? tell_source(part, value, pieces[i], &target->boxes[i])
                                                       : tell_constant(part, value, pieces[i], &target->boxes[i]);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}
