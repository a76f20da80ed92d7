#include "graph/given.h"

#include <inttypes.h>
#include <string.h>

#include "graph/states.h"

/* ---- values ---------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static enum sp_status refuse_value(const struct sp_given_value *value,
                                                                         struct sp_error *err, const char *format, ...)
{
    char text[SP_ERROR_MESSAGE_SIZE];
    SP_FORMAT(text, format);
    (void)sp_fail(err, SP_ERR_REQUEST, "VALUE_CONTRADICTED", "The value given for the input '%.200s' %s.", value->input,
                  text);
    return sp_error_at(err, "/options/values");
}

/* How many elements the input gets: what is given, or as many as it has of one number. */
static enum sp_status count_elements(const struct sp_given_value *value, const struct sp_value *input,
                                     int64_t *ret_count, struct sp_error *err)
{
    const struct sp_shape *shape = &input->declared.shape;
    *ret_count = value->count;
    if (value->rank == 0 && shape->has_rank) {
        *ret_count = sp_shape_elements(shape);
        if (*ret_count < 0 && shape->rank > 0)
            return refuse_value(value, err,
                                "is one number, but its shape is not known: give all of them, or its sizes");
        if (*ret_count > SP_MAX_DATA_ELEMENTS)
            return refuse_value(value, err, "would have more than %d elements", SP_MAX_DATA_ELEMENTS);
        return SP_OK;
    }
    if (shape->has_rank && shape->rank != value->rank)
        return refuse_value(value, err, "has %u axes, but the input has %u", value->rank, shape->rank);
    for (uint32_t axis = 0; shape->has_rank && axis < shape->rank; axis++) {
        if (sp_dim_is_known(shape->dims[axis]) && shape->dims[axis].value != value->dims[axis])
            return refuse_value(value, err, "has %" PRId64 " elements on axis %u, but the input has %" PRId64,
                                value->dims[axis], axis, shape->dims[axis].value);
    }
    return SP_OK;
}

static enum sp_status set_shape(struct sp_model *model, const struct sp_given_value *value, struct sp_value *input,
                                struct sp_error *err)
{
    struct sp_shape *shape = &input->declared.shape;
    if (shape->has_rank && sp_shape_elements(shape) >= 0)
        return SP_OK;
    struct sp_dim *dims = SP_NEW_ARRAY(model->arena, value->rank, struct sp_dim);
    if (dims == NULL)
        return sp_fail_memory(err);
    for (uint32_t axis = 0; axis < value->rank; axis++) {
        const bool is_named = shape->has_rank && shape->dims[axis].kind == SP_DIM_SYMBOLIC;
        dims[axis] = is_named ? shape->dims[axis] : sp_dim_known(value->dims[axis]); /* names are bound by the caller */
    }
    input->declared.kind = SP_TYPE_TENSOR;
    *shape = (struct sp_shape){true, value->rank, dims};
    return SP_OK;
}

static enum sp_status give_value(struct sp_model *model, const struct sp_given_value *value, struct sp_error *err)
{
    struct sp_value *input = NULL;
    for (uint32_t i = 0; i < model->graph->input_count; i++) {
        if (strcmp(model->graph->inputs[i]->name, value->input) == 0)
            input = model->graph->inputs[i];
    }
    if (input == NULL) {
        (void)sp_fail(err, SP_ERR_REQUEST, "UNKNOWN_INPUT", "The model has no input '%.200s' to give a value to.",
                      value->input);
        return sp_error_at(err, "/options/values");
    }
    const enum sp_dtype dtype = input->declared.dtype;
    const bool is_real = sp_dtype_is_float(dtype);
    if (input->tensor != NULL || input->sparse != NULL)
        return refuse_value(value, err, "is not taken: the file has a value for it");
    if (!is_real && !sp_dtype_is_integer(dtype) && dtype != SP_DTYPE_BOOL)
        return refuse_value(value, err, "is not taken: the input holds no numbers");
    if (!is_real && value->ints == NULL)
        return refuse_value(value, err, "has a fraction, but the input holds %s", sp_dtype_name(dtype));
    int64_t count = 0;
    enum sp_status status = count_elements(value, input, &count, err);
    if (status == SP_OK)
        status = set_shape(model, value, input, err);
    if (status != SP_OK)
        return status;
    struct sp_data *data = SP_NEW(model->arena, struct sp_data);
    if (data == NULL)
        return sp_fail_memory(err);
    data->count = (uint32_t)count;
    data->reals = is_real ? SP_NEW_ARRAY(model->arena, data->count, double) : NULL;
    data->ints = is_real ? NULL : SP_NEW_ARRAY(model->arena, data->count, struct sp_dim);
    if (data->reals == NULL && data->ints == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < data->count; i++) {
        const uint32_t from = value->count == data->count ? i : 0;
        if (is_real)
            data->reals[i] = value->reals[from];
        else
            data->ints[i] = sp_dim_known(dtype == SP_DTYPE_BOOL ? value->ints[from] != 0 : value->ints[from]);
    }
    input->data = data;
    return SP_OK;
}

/* ---- shapes ---------------------------------------------------------------------------------------------------- */

/* What the file leaves open of an input. */
static void fill_input(struct sp_value *input, struct sp_given_type *item)
{
    struct sp_shape *declared = &input->declared.shape;
    const struct sp_shape *given = &item->type.shape;
    item->value = input;
    if (input->declared.kind == SP_TYPE_TENSOR && !declared->has_rank)
        *declared = *given;
    for (uint32_t axis = 0; declared->rank == given->rank && axis < declared->rank; axis++) {
        if (declared->dims[axis].kind == SP_DIM_UNKNOWN)
            declared->dims[axis] = given->dims[axis];
    }
}

static enum sp_status give_shape(struct sp_model *model, const struct sp_given_shape *shape, struct sp_given_type *item,
                                 struct sp_error *err)
{
    const uint32_t id = sp_intern_find(model->names, shape->tensor, strlen(shape->tensor));
    struct sp_dim *dims = SP_NEW_ARRAY(model->arena, shape->rank, struct sp_dim);
    if (dims == NULL)
        return sp_fail_memory(err);
    for (uint32_t axis = 0; axis < shape->rank; axis++) {
        const struct sp_given_extent *extent = &shape->extents[axis];
        if (extent->text != NULL)
            dims[axis] = sp_dim_parse(model->dims, extent->text);
        else if (extent->value >= 0)
            dims[axis] = sp_dim_known(extent->value);
    }
    *item = (struct sp_given_type){
        .tensor = id != SP_NO_NAME ? sp_intern_name(model->names, id) : shape->tensor,
        .type = {.kind = SP_TYPE_TENSOR, .dtype = shape->dtype, .shape = {true, shape->rank, dims}}};
    struct sp_hash_slot *slot = sp_hash_map_put(&model->given->by_name, (uintptr_t)item->tensor);
    if (slot == NULL)
        return sp_fail_memory(err);
    slot->item = item;
    for (uint32_t i = 0; i < model->graph->input_count; i++) {
        if (model->graph->inputs[i]->name == item->tensor)
            fill_input(model->graph->inputs[i], item);
    }
    return SP_OK;
}

enum sp_status sp_model_give(struct sp_model *model, const struct sp_given *given, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    model->operators = given->operators;
    model->given_states = given->states;
    if (given->shape_count > 0) {
        model->given = SP_NEW(model->arena, struct sp_given_types);
        if (model->given != NULL)
            model->given->items = SP_NEW_ARRAY(model->arena, given->shape_count, struct sp_given_type);
        if (model->given == NULL || model->given->items == NULL)
            return sp_fail_memory(err);
        model->given->by_name.arena = model->arena;
    }
    for (uint32_t i = 0; status == SP_OK && i < given->shape_count; i++) {
        status = give_shape(model, &given->shapes[i], &model->given->items[i], err);
        model->given->count++;
    }
    for (uint32_t i = 0; status == SP_OK && i < given->value_count; i++)
        status = give_value(model, &given->values[i], err);
    return status;
}

/* Where nobody says what the elements are, they are taken to be those of what the tensor is made of. */
static enum sp_dtype likely_dtype(const struct sp_value *value)
{
    for (uint32_t i = 0; value->producer != NULL && i < value->producer->input_count; i++) {
        const struct sp_value *input = value->producer->inputs[i];
        if (input != NULL && input->type.kind == SP_TYPE_TENSOR && input->type.dtype != SP_DTYPE_UNDEFINED)
            return input->type.dtype;
    }
    return SP_DTYPE_FLOAT;
}

const struct sp_type *sp_given_type(const struct sp_model *model, struct sp_value *value)
{
    struct sp_hash_slot *slot =
        model->given != NULL ? sp_hash_map_get(&model->given->by_name, (uintptr_t)value->name) : NULL;
    if (slot == NULL)
        return NULL;
    struct sp_given_type *item = slot->item;
    const struct sp_shape *declared = &value->declared.shape;
    item->value = value;
    if (item->type.dtype == SP_DTYPE_UNDEFINED)
        item->type.dtype = value->declared.dtype != SP_DTYPE_UNDEFINED ? value->declared.dtype
                           : value->type.dtype != SP_DTYPE_UNDEFINED   ? value->type.dtype
                                                                       : likely_dtype(value);
    for (uint32_t axis = 0; declared->has_rank && declared->rank == item->type.shape.rank && axis < declared->rank;
         axis++) {
        if (item->type.shape.dims[axis].kind == SP_DIM_UNKNOWN)
            item->type.shape.dims[axis] = declared->dims[axis];
    }
    return &item->type;
}

static enum sp_status verify(const struct sp_given_type *item, struct sp_error *err)
{
    const struct sp_shape *given = &item->type.shape;
    if (item->value == NULL)
        return sp_fail(err, SP_ERR_REQUEST, "UNKNOWN_TENSOR", "The model has no tensor '%.200s' to give a shape to.",
                       item->tensor);
    const struct sp_type *own = &item->value->type;
    if (own->kind != SP_TYPE_TENSOR || !own->shape.has_rank || own->shape.rank != given->rank)
        return sp_fail(err, SP_ERR_REQUEST, "SHAPE_CONTRADICTED",
                       "The shape given for '%.200s' has %u axes, but the model gives it another rank, or no tensor.",
                       item->tensor, given->rank);
    for (uint32_t axis = 0; axis < given->rank; axis++) {
        const struct sp_dim left = given->dims[axis], right = own->shape.dims[axis];
        if (sp_dim_is_known(left) && sp_dim_is_known(right) && left.value != right.value)
            return sp_fail(err, SP_ERR_REQUEST, "SHAPE_CONTRADICTED",
                           "Axis %u of '%.200s' is given as %" PRId64 ", but the model gives it %" PRId64 " elements.",
                           axis, item->tensor, left.value, right.value);
    }
    return SP_OK;
}

/* The states that the caller names are the model's. */
static enum sp_status verify_states(const struct sp_model *model, struct sp_error *err)
{
    struct sp_states states;
    struct sp_arena *arena = sp_arena_create(sp_arena_budget(model->arena));
    enum sp_status status = arena != NULL ? sp_model_states(arena, model, &states, err) : sp_fail_memory(err);
    sp_arena_destroy(arena);
    return status;
}

enum sp_status sp_model_verify_given(const struct sp_model *model, struct sp_error *err)
{
    for (uint32_t i = 0; model->given != NULL && i < model->given->count; i++) {
        if (verify(&model->given->items[i], err) != SP_OK) {
            (void)sp_error_at(err, "/options/shapes");
            return SP_ERR_REQUEST;
        }
    }
    return model->given_states != NULL ? verify_states(model, err) : SP_OK;
}
