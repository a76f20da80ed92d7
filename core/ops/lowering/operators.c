#include <string.h>

#include "base/limits.h"
#include "ops/lowering/internal.h"

/* ---- operators -------------------------------------------------------------------------------------------------- */

static bool copy_text(struct sp_lowering *lower, const char **text)
{
    if (*text == NULL)
        return true;
    *text = sp_arena_string(lower->arena, *text, strlen(*text));
    if (*text == NULL)
        sp_lower_failed(lower, sp_fail_memory(lower->err));
    return *text != NULL;
}

void *sp_lower_copy(struct sp_lowering *lower, const void *from, uint32_t count, size_t size)
{
    void *array = sp_lower_array(lower, count, size);
    if (array != NULL && from != NULL && count > 0)
        memcpy(array, from, count * size);
    return array;
}

static bool copy_attribute(struct sp_lowering *lower, struct sp_lower_attribute *attribute)
{
    if (!copy_text(lower, &attribute->name) || !copy_text(lower, &attribute->s))
        return false;
    if (attribute->type == SP_ATTR_INTS)
        attribute->ints = sp_lower_copy(lower, attribute->ints, attribute->count, sizeof *attribute->ints);
    if (attribute->type == SP_ATTR_FLOATS)
        attribute->floats = sp_lower_copy(lower, attribute->floats, attribute->count, sizeof *attribute->floats);
    if (attribute->type == SP_ATTR_STRINGS) {
        const char **strings = sp_lower_copy(lower, attribute->strings, attribute->count, sizeof *strings);
        for (uint32_t i = 0; strings != NULL && i < attribute->count; i++)
            if (!copy_text(lower, &strings[i]))
                return false;
        attribute->strings = strings;
    }
    return sp_lower_is_fine(lower);
}

/* The call and its outputs, copied into an event; NULL after an error. What it reads is there. */
static struct sp_lower_event *record_op(struct sp_lowering *lower, const struct sp_lower_call *call,
                                        struct sp_piece *const *outputs)
{
    const char *domain = call->domain, *op_type = call->op_type;
    struct sp_piece **inputs_kept = sp_lower_copy(lower, call->inputs, call->input_count, sizeof *inputs_kept);
    struct sp_piece **outputs_kept = sp_lower_copy(lower, outputs, call->output_count, sizeof *outputs_kept);
    struct sp_lower_attribute *kept = sp_lower_copy(lower, call->attributes, call->attribute_count, sizeof *kept);
    if (!sp_lower_is_fine(lower) || !copy_text(lower, &domain) || !copy_text(lower, &op_type))
        return NULL;
    for (uint32_t i = 0; i < call->attribute_count; i++)
        if (!copy_attribute(lower, &kept[i]))
            return NULL;
    struct sp_lower_event *event = sp_lower_event(lower, SP_LOWER_OP);
    if (event == NULL)
        return NULL;
    event->op.domain = domain;
    event->op.op_type = op_type;
    event->op.input_count = call->input_count;
    event->op.inputs = inputs_kept;
    event->op.attribute_count = call->attribute_count;
    event->op.attributes = kept;
    event->op.output_count = call->output_count;
    event->op.outputs = outputs_kept;
    return event;
}

/* A transposition that brings axis 1 last, or the last axis to 1. */
static void record_turn(struct sp_lowering *lower, struct sp_piece *from, bool to_last, struct sp_piece *to)
{
    int64_t order[SP_MAX_RANK];
    for (uint32_t axis = 0; axis < from->rank; axis++) {
        uint32_t other = sp_like_axis(from->rank, axis);
        order[to_last ? other : axis] = to_last ? axis : other;
    }
    const struct sp_lower_attribute perm = SP_INTS_ATTR("perm", from->rank, order);
    (void)record_op(lower, &(struct sp_lower_call){"", "Transpose", 1, &from, 1, &perm, 1}, &to);
}

void sp_lower_write(struct sp_lowering *lower, struct sp_piece *piece)
{
    if (!sp_lower_is_fine(lower) || piece == NULL || piece->stored == NULL || piece->is_written)
        return;
    piece->is_written = true;
    record_turn(lower, piece->stored, false, piece);
}

struct sp_piece *sp_lower_store(struct sp_lowering *lower, struct sp_piece *piece)
{
    int64_t dims[SP_MAX_RANK];
    if (piece == NULL || piece->stored != NULL)
        return piece == NULL ? NULL : piece->stored;
    struct sp_piece *stored = sp_lower_piece(lower, "Transpose", piece->dtype);
    if (stored == NULL)
        return NULL;
    for (uint32_t axis = 0; piece->dims != NULL && axis < piece->rank; axis++)
        dims[sp_like_axis(piece->rank, axis)] = piece->dims[axis];
    if (piece->dims != NULL)
        sp_piece_set_dims(lower, stored, piece->rank, dims);
    record_turn(lower, piece, true, stored);
    return stored;
}

static struct sp_lower_event *add_op(struct sp_lowering *lower, const struct sp_lower_call *call,
                                     struct sp_piece *const *outputs)
{
    for (uint32_t i = 0; i < call->input_count; i++)
        sp_lower_write(lower, call->inputs[i]);
    return record_op(lower, call, outputs);
}

/* The piece of an output's part, or NULL where the node does not have the output. */
static struct sp_piece *output_piece(struct sp_lowering *lower, uint32_t output)
{
    const struct sp_lower_operand *operand = &lower->outputs[output];
    const struct sp_value *value = operand->value;
    if (value == NULL)
        return NULL;
    const bool is_tensor = value->type.kind == SP_TYPE_TENSOR || value->type.kind == SP_TYPE_SPARSE_TENSOR;
    struct sp_piece *piece = sp_lower_piece(lower, value->name, is_tensor ? value->type.dtype : SP_DTYPE_UNDEFINED);
    int64_t *dims = SP_LOWER_ARRAY(lower, operand->rank, int64_t);
    if (piece == NULL || dims == NULL || !is_tensor || !value->type.shape.has_rank)
        return piece;
    for (uint32_t i = 0; i < operand->rank; i++)
        dims[i] = operand->axes[i].size;
    sp_piece_set_dims(lower, piece, operand->rank, dims);
    return piece;
}

/* ---- the node's own operator -------------------------------------------------------------------------------------- */

/* Where input i of a call is in the node, also one that the node itself leaves out at its end. */
static uint32_t place_of(const struct sp_lowering *lower, uint32_t i)
{
    const struct sp_op_like *like = lower->view->own->node->op->like;
    if (i < lower->view->other.node.input_count)
        return lower->view->other.inputs[i];
    return like->input_count == 0 ? i : i < like->input_count ? like->inputs[i] : UINT32_MAX;
}

/* The node's inputs: what the other operator's function gives, and where that operator has none the node's own. */
static struct sp_piece **own_inputs(struct sp_lowering *lower, uint32_t given, struct sp_piece *const *inputs,
                                    uint32_t *ret_count)
{
    struct sp_lowering *own = lower->view->own;
    uint32_t count = own->input_count;
    for (uint32_t i = 0; i < given; i++)
        if (inputs[i] != NULL && place_of(lower, i) != UINT32_MAX && place_of(lower, i) >= count)
            count = place_of(lower, i) + 1;
    struct sp_piece **pieces = SP_LOWER_ARRAY(own, count, struct sp_piece *);
    bool *is_seen = SP_LOWER_ARRAY(own, count, bool);
    if (pieces == NULL || is_seen == NULL)
        return NULL;
    for (uint32_t i = 0; i < lower->view->other.node.input_count || i < given; i++) {
        struct sp_piece *piece = i < given ? inputs[i] : NULL;
        uint32_t place = place_of(lower, i);
        if (place >= count)
            continue;
        is_seen[place] = true;
        bool is_last = i < lower->input_count && sp_lower_is_input_last(lower, i);
        pieces[place] = is_last ? sp_lower_store(lower, piece) : piece;
    }
    for (uint32_t i = 0; i < count; i++)
        if (!is_seen[i])
            pieces[i] = sp_lower_input(own, i);
    *ret_count = count;
    return pieces;
}

void sp_lower_same_many(struct sp_lowering *lower, uint32_t input_count, struct sp_piece *const *inputs,
                        uint32_t attribute_count, const struct sp_lower_attribute *attributes,
                        struct sp_piece **ret_outputs)
{
    struct sp_lowering *own = lower->view != NULL ? lower->view->own : lower;
    if (inputs == NULL) {
        struct sp_piece **parts = SP_LOWER_ARRAY(own, own->input_count, struct sp_piece *);
        for (uint32_t i = 0; parts != NULL && i < own->input_count; i++)
            parts[i] = sp_lower_input(own, i);
        inputs = parts;
        input_count = own->input_count;
    } else if (lower->view != NULL) {
        inputs = own_inputs(lower, input_count, inputs, &input_count);
    }
    for (uint32_t i = 0; i < own->output_count; i++)
        ret_outputs[i] = NULL;
    for (uint32_t i = 0; i < own->output_count && sp_lower_is_fine(own); i++)
        ret_outputs[i] = output_piece(own, i);
    if (!sp_lower_is_fine(own))
        return;
    const struct sp_lower_call call = {own->node->domain, own->node->op_type, input_count,      inputs,
                                       attribute_count,   attributes,         own->output_count};
    struct sp_lower_event *event = add_op(own, &call, ret_outputs);
    if (event != NULL)
        event->op.is_same = true;
    for (uint32_t i = 0; lower->view != NULL && i < own->output_count; i++)
        if (sp_lower_is_output_last(lower, i))
            ret_outputs[i] = sp_lower_show(lower, ret_outputs[i]);
}

struct sp_piece *sp_lower_same(struct sp_lowering *lower, uint32_t input_count, struct sp_piece *const *inputs,
                               uint32_t attribute_count, const struct sp_lower_attribute *attributes)
{
    struct sp_piece **outputs = SP_LOWER_ARRAY(lower, (size_t)lower->output_count + 1, struct sp_piece *);
    if (outputs == NULL || !sp_lower_is_fine(lower))
        return NULL;
    sp_lower_same_many(lower, input_count, inputs, attribute_count, attributes, outputs);
    return sp_lower_is_fine(lower) ? outputs[0] : NULL;
}

void sp_lower_op_many(struct sp_lowering *lower, const struct sp_lower_call *call, const enum sp_dtype *dtypes,
                      struct sp_piece **ret_outputs)
{
    for (uint32_t i = 0; i < call->output_count; i++)
        ret_outputs[i] = NULL;
    for (uint32_t i = 0; i < call->output_count && sp_lower_is_fine(lower); i++)
        ret_outputs[i] = sp_lower_piece(lower, call->op_type, dtypes[i]);
    if (sp_lower_is_fine(lower))
        (void)add_op(lower, call, ret_outputs);
}

struct sp_piece *sp_lower_op(struct sp_lowering *lower, const char *op_type, enum sp_dtype dtype, uint32_t input_count,
                             struct sp_piece *const *inputs, uint32_t attribute_count,
                             const struct sp_lower_attribute *attributes)
{
    struct sp_piece *piece;
    const struct sp_lower_call call = {"", op_type, input_count, inputs, attribute_count, attributes, 1};
    sp_lower_op_many(lower, &call, &dtype, &piece);
    return sp_lower_is_fine(lower) ? piece : NULL;
}
