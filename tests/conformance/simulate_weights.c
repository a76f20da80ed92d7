#include "simulate_weights.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

/* A part of a weight that a device has by the assignment. */
struct part {
    const struct sp_value *value;
    int64_t device;
    struct sp_held held;
};

struct parts {
    uint32_t count, capacity;
    struct part *items;
};

struct counting {
    const struct sp_assignment *assignment;
    struct parts parts;
    double *stated, *assumed;
    struct sp_error *err;
};

static bool is_same_held(const struct sp_held *a, const struct sp_held *b)
{
    if (a->rank != b->rank || a->shard_count != b->shard_count)
        return false;
    for (uint32_t i = 0; i < a->shard_count * a->rank; i++) {
        if (a->shards[i].count != b->shards[i].count ||
            (a->shards[i].count > 0 &&
             memcmp(a->shards[i].ranges, b->shards[i].ranges, a->shards[i].count * sizeof(struct sp_range)) != 0))
            return false;
    }
    return true;
}

static double bytes_of(const struct sp_value *value, const struct sp_held *held)
{
    double elements = 0;
    for (uint32_t s = 0; s < held->shard_count; s++) {
        double product = 1;
        for (uint32_t axis = 0; axis < held->rank; axis++) {
            const struct sp_axis_ranges *ranges = &held->shards[s * held->rank + axis];
            double extent = 0;
            for (uint32_t i = 0; i < ranges->count; i++)
                extent += (double)(ranges->ranges[i].limit - ranges->ranges[i].start);
            product *= extent;
        }
        elements += product;
    }
    return elements * sp_dtype_bits(value->type.dtype) / 8;
}

static bool add_part(struct parts *parts, const struct part *part)
{
    for (uint32_t i = 0; i < parts->count; i++) {
        const struct part *other = &parts->items[i];
        if (other->value == part->value && other->device == part->device && is_same_held(&other->held, &part->held))
            return false;
    }
    if (parts->count == parts->capacity) {
        parts->capacity = 2 * parts->capacity + 64;
        parts->items = realloc(parts->items, parts->capacity * sizeof(*parts->items));
    }
    parts->items[parts->count++] = *part;
    return true;
}

static enum sp_status count_operand(struct counting *counting, const struct sp_value *value,
                                    const struct sp_spec_entry *entry)
{
    struct sp_arena *arena = counting->assignment->arena;
    int64_t shape[SP_MAX_RANK], count;
    const int64_t *devices;
    uint32_t rank = value->type.shape.rank;
    for (uint32_t axis = 0; axis < rank; axis++)
        shape[axis] = value->type.shape.dims[axis].value;
    enum sp_status status = sp_sharding_devices(arena, entry->sharding, counting->assignment->device_count, &count,
                                                &devices, counting->err);
    for (int64_t i = 0; status == SP_OK && i < count; i++) {
        struct part part = {value, devices[i], {0}};
        status = sp_sharding_held(arena, entry->sharding, rank, shape, devices[i], &part.held, counting->err);
        if (status == SP_OK && add_part(&counting->parts, &part))
            (entry->origin == SP_SPEC_ASSUMED ? counting->assumed : counting->stated)[devices[i]] +=
                bytes_of(value, &part.held);
    }
    return status;
}

enum sp_status simulate_count_weights(const struct sp_assignment *assignment, double *stated, double *assumed,
                                      struct sp_error *err)
{
    struct counting counting = {.assignment = assignment, .stated = stated, .assumed = assumed, .err = err};
    enum sp_status status = SP_OK;
    const struct sp_graph *graph = assignment->dataflow->model->graph;
    for (uint32_t n = 0; status == SP_OK && n < graph->node_count; n++) {
        const struct sp_node *node = &graph->nodes[n];
        for (uint32_t i = 0; status == SP_OK && i < node->input_count; i++) {
            const struct sp_value *value = node->inputs[i];
            const struct sp_spec_entry *entry = sp_spec_of(assignment, sp_dataflow_node(assignment->dataflow, node), i);
            if (value != NULL && value->kind == SP_VALUE_INITIALIZER && sp_dtype_is_float(value->type.dtype) &&
                entry->sharding != NULL)
                status = count_operand(&counting, value, entry);
        }
    }
    free(counting.parts.items);
    return status;
}
