#include "ops/table/known_values.h"

bool sp_data_available(const struct sp_op_context *context, uint32_t input)
{
    return sp_has_input(context, input) && sp_value_has_elements(context->node->inputs[input]);
}

/* ---- broadcasting -------------------------------------------------------------------------------------------- */

void sp_walk_init(struct sp_walk *walk, const struct sp_shape *over)
{
    walk->rank = over->rank;
    walk->index = 0;
    for (uint32_t axis = 0; axis < over->rank; axis++) {
        walk->extents[axis] = (uint64_t)over->dims[axis].value;
        walk->positions[axis] = walk->strides[axis] = 0;
    }
}

void sp_walk_broadcast(struct sp_walk *walk, const struct sp_shape *over, const struct sp_shape *from)
{
    uint64_t stride = 1;
    sp_walk_init(walk, over);
    for (uint32_t back = 1; back <= from->rank; back++) {
        const uint64_t own = (uint64_t)from->dims[from->rank - back].value;
        walk->strides[over->rank - back] = own == 1 ? 0 : stride;
        stride *= own;
    }
}

uint32_t *sp_walk_indices(struct sp_op_context *context, struct sp_walk *walk, int64_t count)
{
    uint32_t *indices = SP_NEW_ARRAY(context->arena, (size_t)count, uint32_t);
    for (int64_t i = 0; indices != NULL && i < count; i++, sp_walk_step(walk))
        indices[i] = (uint32_t)walk->index;
    return indices;
}

/* The elements of an input that broadcasts to output 0, or NULL. */
static const struct sp_data *operand(struct sp_op_context *context, uint32_t input)
{
    const struct sp_shape *shape = sp_in_shape(context, input), *to = &context->node->outputs[0]->type.shape;
    if (shape == NULL || shape->rank > to->rank)
        return NULL;
    for (uint32_t back = 1; back <= shape->rank; back++) {
        struct sp_dim own = shape->dims[shape->rank - back];
        if (!sp_dim_is(own, 1) && !sp_dim_equal(own, to->dims[to->rank - back]))
            return NULL;
    }
    const struct sp_data *data = sp_in_data(context, input);
    return data != NULL && data->count == (uint64_t)sp_shape_elements(shape) ? data : NULL;
}

/* Over the elements of output 0, with the index of an input that broadcasts to it. */
static void walk_operand(const struct sp_op_context *context, uint32_t input, struct sp_walk *walk)
{
    sp_walk_broadcast(walk, &context->node->outputs[0]->type.shape, &context->node->inputs[input]->type.shape);
}

/* ---- elementwise --------------------------------------------------------------------------------------------- */

enum sp_status sp_data_unary(struct sp_op_context *context, sp_data_int1 on_ints, sp_data_real1 on_reals)
{
    if (sp_data_room(context, 0) < 0 || !sp_data_available(context, 0))
        return SP_OK;
    const struct sp_data *from = operand(context, 0);
    if (from == NULL || (from->reals != NULL ? on_reals == NULL : on_ints == NULL))
        return SP_OK;
    struct sp_data *data = sp_data_new(context, 0, from->reals != NULL);
    if (data == NULL || data->count != from->count)
        return SP_OK;
    for (uint32_t i = 0; i < data->count; i++) {
        if (data->reals != NULL && from->reals != NULL)
            data->reals[i] = on_reals(from->reals[i]);
        else
            data->ints[i] = on_ints(context->dims, from->ints[i]);
    }
    sp_data_attach(context, 0, data);
    return SP_OK;
}

/* Folds inputs first.. into output 0; all of one kind. */
static enum sp_status fold(struct sp_op_context *context, sp_data_int2 on_ints, sp_data_real2 on_reals)
{
    struct sp_data *data = NULL;
    if (sp_data_room(context, 0) < 0)
        return SP_OK;
    for (uint32_t input = 0; input < context->node->input_count; input++) {
        if (!sp_data_available(context, input))
            return SP_OK;
    }
    for (uint32_t input = 0; input < context->node->input_count; input++) {
        const struct sp_data *from = operand(context, input);
        if (from == NULL || (from->reals != NULL ? on_reals == NULL : on_ints == NULL))
            return SP_OK;
        if (data == NULL && (data = sp_data_new(context, 0, from->reals != NULL)) == NULL)
            return SP_OK;
        if ((data->reals != NULL) != (from->reals != NULL))
            return SP_OK;
        struct sp_walk walk;
        walk_operand(context, input, &walk);
        for (uint32_t i = 0; i < data->count; i++, sp_walk_step(&walk)) {
            const uint32_t k = (uint32_t)walk.index;
            if (input == 0)
                sp_data_copy(data, i, from, k);
            else if (data->reals != NULL)
                data->reals[i] = on_reals(data->reals[i], from->reals[k]);
            else
                data->ints[i] = on_ints(context->dims, data->ints[i], from->ints[k]);
        }
    }
    if (data != NULL)
        sp_data_attach(context, 0, data);
    return SP_OK;
}

enum sp_status sp_data_binary(struct sp_op_context *context, sp_data_int2 on_ints, sp_data_real2 on_reals)
{
    return context->node->input_count == 2 ? fold(context, on_ints, on_reals) : SP_OK;
}

enum sp_status sp_data_nary(struct sp_op_context *context, sp_data_int2 on_ints, sp_data_real2 on_reals)
{
    return fold(context, on_ints, on_reals);
}

enum sp_status sp_data_compare(struct sp_op_context *context, sp_data_int2 on_ints, sp_data_test on_reals)
{
    if (sp_data_room(context, 0) < 0 || !sp_data_available(context, 0) || !sp_data_available(context, 1))
        return SP_OK;
    const struct sp_data *a = operand(context, 0), *b = operand(context, 1);
    if (a == NULL || b == NULL || (a->reals != NULL) != (b->reals != NULL))
        return SP_OK;
    if (a->reals != NULL ? on_reals == NULL : on_ints == NULL)
        return SP_OK;
    struct sp_data *data = sp_data_new(context, 0, false);
    if (data == NULL)
        return SP_OK;
    struct sp_walk walks[2];
    for (uint32_t input = 0; input < 2; input++)
        walk_operand(context, input, &walks[input]);
    for (uint32_t i = 0; i < data->count; i++, sp_walk_step(&walks[0]), sp_walk_step(&walks[1])) {
        const uint32_t left = (uint32_t)walks[0].index, right = (uint32_t)walks[1].index;
        if (a->reals != NULL)
            data->ints[i] = sp_dim_known(on_reals(a->reals[left], b->reals[right]));
        else
            data->ints[i] = on_ints(context->dims, a->ints[left], b->ints[right]);
    }
    sp_data_attach(context, 0, data);
    return SP_OK;
}

enum sp_status sp_data_where(struct sp_op_context *context)
{
    if (sp_data_room(context, 0) < 0)
        return SP_OK;
    for (uint32_t input = 0; input < 3; input++) {
        if (!sp_data_available(context, input))
            return SP_OK;
    }
    const struct sp_data *condition = operand(context, 0), *yes = operand(context, 1), *no = operand(context, 2);
    if (condition == NULL || yes == NULL || no == NULL || condition->ints == NULL ||
        (yes->reals != NULL) != (no->reals != NULL))
        return SP_OK;
    struct sp_data *data = sp_data_new(context, 0, yes->reals != NULL);
    if (data == NULL)
        return SP_OK;
    struct sp_walk walks[3];
    for (uint32_t input = 0; input < 3; input++)
        walk_operand(context, input, &walks[input]);
    for (uint32_t i = 0; i < data->count; i++) {
        const struct sp_dim test = condition->ints[walks[0].index];
        const uint32_t left = (uint32_t)walks[1].index, right = (uint32_t)walks[2].index;
        for (uint32_t input = 0; input < 3; input++)
            sp_walk_step(&walks[input]);
        if (sp_dim_is_known(test))
            sp_data_copy(data, i, test.value != 0 ? yes : no, test.value != 0 ? left : right);
        else if (data->reals != NULL)
            return SP_OK; /* a real is known or the whole value is not */
        else if (sp_dim_equal(yes->ints[left], no->ints[right]))
            data->ints[i] = yes->ints[left];
    }
    sp_data_attach(context, 0, data);
    return SP_OK;
}

/* ---- moving -------------------------------------------------------------------------------------------------- */

static struct sp_dim real_to_int(double value)
{
    /* Both bounds are exact doubles; NaN fails the test. */
    return value >= -9223372036854775808.0 && value < 9223372036854775808.0 ? sp_dim_known((int64_t)value)
                                                                            : sp_dim_unknown();
}

static struct sp_dim int_to_bool(struct sp_op_context *context, struct sp_dim value)
{
    if (sp_dim_is_known(value))
        return sp_dim_known(value.value != 0);
    return sp_dim_differs(context->dims, value, sp_dim_known(0)) ? sp_dim_known(1) : sp_dim_unknown();
}

enum sp_status sp_data_cast(struct sp_op_context *context)
{
    if (sp_data_room(context, 0) < 0 || !sp_data_available(context, 0))
        return SP_OK;
    const struct sp_data *from = sp_in_data(context, 0);
    enum sp_dtype dtype = context->node->outputs[0]->type.dtype;
    bool to_bool = dtype == SP_DTYPE_BOOL, to_real = sp_dtype_is_float(dtype);
    struct sp_data *data = from == NULL ? NULL : sp_data_new(context, 0, to_real);
    if (data == NULL || data->count != from->count)
        return SP_OK;
    for (uint32_t i = 0; i < data->count; i++) {
        if (to_real && from->reals != NULL)
            data->reals[i] = from->reals[i];
        else if (to_real && sp_dim_is_known(from->ints[i]))
            data->reals[i] = (double)from->ints[i].value;
        else if (to_real)
            return SP_OK;
        else if (from->reals != NULL)
            data->ints[i] = to_bool ? sp_dim_known(from->reals[i] != 0) : real_to_int(from->reals[i]);
        else
            data->ints[i] = to_bool ? int_to_bool(context, from->ints[i]) : from->ints[i];
    }
    sp_data_attach(context, 0, data);
    return SP_OK;
}

enum sp_status sp_data_same(struct sp_op_context *context)
{
    struct sp_value *output = context->node->outputs[0];
    if (!sp_data_available(context, 0) || output == NULL)
        return SP_OK;
    const struct sp_data *from = sp_in_data(context, 0);
    if (from != NULL && sp_data_room(context, 0) == from->count)
        output->data = context->node->inputs[0]->data; /* immutable, so shared */
    return SP_OK;
}

enum sp_status sp_data_pick(struct sp_op_context *context, uint32_t output, const uint32_t *from,
                            const struct sp_data *fill)
{
    const struct sp_data *source = sp_in_data(context, 0);
    struct sp_data *data = source == NULL ? NULL : sp_data_new(context, output, source->reals != NULL);
    if (data == NULL)
        return SP_OK;
    if (fill != NULL && (fill->count != 1 || (fill->reals != NULL) != (source->reals != NULL)))
        return SP_OK;
    for (uint32_t i = 0; i < data->count; i++) {
        if (from[i] < source->count)
            sp_data_copy(data, i, source, from[i]);
        else if (fill != NULL)
            sp_data_copy(data, i, fill, 0);
        else if (data->ints != NULL)
            data->ints[i] = sp_dim_known(0);
    }
    sp_data_attach(context, output, data);
    return SP_OK;
}
