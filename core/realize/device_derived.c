/*
 * What is made of weights and constants alone is there in any part of a device: each part that needs it has the operators
 * that make it, once, in place of an output of one part and an input of another.
 */
#include <string.h>

#include "base/array.h"
#include "realize/device.h"

static bool copy_attribute(struct sp_arena *arena, struct sp_lower_attribute *attribute)
{
    attribute->name = sp_arena_string(arena, attribute->name, strlen(attribute->name));
    if (attribute->s != NULL)
        attribute->s = sp_arena_string(arena, attribute->s, strlen(attribute->s));
    if (attribute->ints != NULL) {
        int64_t *ints = SP_NEW_ARRAY(arena, attribute->count, int64_t);
        if (ints == NULL)
            return false;
        memcpy(ints, attribute->ints, attribute->count * sizeof *ints);
        attribute->ints = ints;
    }
    return attribute->name != NULL;
}

/* A text, or the name of an optional one. */
static const char *copy_text(struct sp_arena *arena, const char *text)
{
    return sp_arena_string(arena, text != NULL ? text : "", text != NULL ? strlen(text) : 0);
}

static enum sp_status copy_op(struct sp_arena *arena, const struct sp_part_op *op, struct sp_part_op *ret_op,
                              struct sp_error *err)
{
    const struct sp_piece **inputs = SP_NEW_ARRAY(arena, op->input_count, const struct sp_piece *);
    const struct sp_piece **outputs = SP_NEW_ARRAY(arena, op->output_count, const struct sp_piece *);
    struct sp_lower_attribute *attributes = SP_NEW_ARRAY(arena, op->attribute_count, struct sp_lower_attribute);
    *ret_op = *op;
    ret_op->domain = op->domain != NULL ? copy_text(arena, op->domain) : NULL;
    ret_op->op_type = copy_text(arena, op->op_type);
    ret_op->name = copy_text(arena, op->name);
    if (inputs == NULL || outputs == NULL || attributes == NULL || ret_op->op_type == NULL || ret_op->name == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < op->input_count; i++)
        inputs[i] = op->inputs[i];
    for (uint32_t i = 0; i < op->output_count; i++)
        outputs[i] = op->outputs[i];
    for (uint32_t i = 0; i < op->attribute_count; i++) {
        attributes[i] = op->attributes[i];
        if (!copy_attribute(arena, &attributes[i]))
            return sp_fail_memory(err);
    }
    ret_op->inputs = inputs;
    ret_op->outputs = outputs;
    ret_op->attributes = attributes;
    ret_op->captures = NULL;
    return SP_OK;
}

bool sp_device_is_derived(struct sp_device_walk *walk, const struct sp_part_op *op)
{
    bool has_input = false;
    if (!op->node->is_folded || op->capture_count > 0)
        return false;
    for (uint32_t i = 0; i < op->attribute_count; i++) {
        const enum sp_attr_type type = op->attributes[i].type;
        if (type == SP_ATTR_FLOATS || type == SP_ATTR_STRINGS || type == SP_ATTR_TENSOR)
            return false; /* these are not kept */
    }
    for (uint32_t i = 0; i < op->input_count; i++) {
        const struct sp_device_piece *known = op->inputs[i] == NULL ? NULL : sp_device_lookup(walk, op->inputs[i]);
        has_input = has_input || known != NULL;
        if (known != NULL && !sp_device_is_anywhere(known))
            return false;
    }
    return has_input;
}

enum sp_status sp_device_derive(struct sp_device_walk *walk, const struct sp_part_op *op, struct sp_error *err)
{
    struct sp_device_derived *derived = SP_NEW(walk->arena, struct sp_device_derived);
    if (derived == NULL)
        return sp_fail_memory(err);
    derived->number = walk->derived++;
    enum sp_status status = copy_op(walk->arena, op, &derived->op, err);
    for (uint32_t i = 0; status == SP_OK && i < op->output_count; i++) {
        struct sp_device_piece *made = op->outputs[i] == NULL ? NULL : sp_device_add(walk, op->outputs[i]);
        if (op->outputs[i] == NULL)
            continue;
        if (made == NULL)
            return sp_fail_memory(err);
        made->derived = derived;
        made->last = 0;
        if (op->is_same && i < op->node->output_count)
            made->source.value = op->node->outputs[i];
    }
    return status;
}

static enum sp_status want(struct sp_device_walk *walk, struct sp_device_wanted *wanted,
                           struct sp_device_derived *derived, struct sp_error *err)
{
    const uint32_t mark = 1 + sp_device_walk_part(walk, derived->op.device);
    if (derived->last == mark)
        return SP_OK;
    derived->last = mark;
    if (!SP_MAKE_ROOM(walk->arena, wanted->items, wanted->count, wanted->capacity, 1))
        return sp_fail_memory(err);
    uint32_t at = wanted->count++;
    for (; at > 0 && wanted->items[at - 1]->number < derived->number; at--)
        wanted->items[at] = wanted->items[at - 1];
    wanted->items[at] = derived;
    return SP_OK;
}

enum sp_status sp_device_want(struct sp_device_walk *walk, struct sp_device_derived *last,
                              struct sp_device_wanted *wanted, struct sp_error *err)
{
    enum sp_status status = want(walk, wanted, last, err);
    for (uint32_t i = 0; status == SP_OK && i < wanted->count; i++) {
        const struct sp_part_op *op = &wanted->items[i]->op;
        for (uint32_t k = 0; status == SP_OK && k < op->input_count; k++) {
            const struct sp_device_piece *known = op->inputs[k] == NULL ? NULL : sp_device_lookup(walk, op->inputs[k]);
            if (known != NULL && known->derived != NULL)
                status = want(walk, wanted, known->derived, err);
        }
    }
    return status;
}
