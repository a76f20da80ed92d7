#include "ops/table/shape_helpers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "onnx/reader.h"
#include "ops/shapes/merge.h"
#include "ops/table/known_values.h"

/* ---- inputs -------------------------------------------------------------------------------------------------- */

bool sp_has_input(const struct sp_op_context *context, uint32_t input)
{
    return input < context->node->input_count && context->node->inputs[input] != NULL;
}

enum sp_dtype sp_in_dtype(const struct sp_op_context *context, uint32_t input)
{
    if (!sp_has_input(context, input))
        return SP_DTYPE_UNDEFINED;
    const struct sp_type *type = &context->node->inputs[input]->type;
    return type->kind == SP_TYPE_TENSOR || type->kind == SP_TYPE_SPARSE_TENSOR ? type->dtype : SP_DTYPE_UNDEFINED;
}

const struct sp_shape *sp_in_shape(const struct sp_op_context *context, uint32_t input)
{
    if (!sp_has_input(context, input))
        return NULL;
    const struct sp_type *type = &context->node->inputs[input]->type;
    if (type->kind != SP_TYPE_TENSOR && type->kind != SP_TYPE_SPARSE_TENSOR)
        return NULL;
    return type->shape.has_rank ? &type->shape : NULL;
}

/* The tensor in the file that a value stands for, or NULL. */
static const struct sp_tensor *constant_tensor(const struct sp_value *value)
{
    if (value->kind == SP_VALUE_INITIALIZER)
        return value->tensor;
    if (value->producer == NULL || value->producer->op == NULL || !(value->producer->op->flags & SP_OP_CONSTANT))
        return NULL;
    const struct sp_attribute *attribute = sp_node_attribute(value->producer, "value");
    return attribute != NULL && attribute->type == SP_ATTR_TENSOR ? attribute->tensors[0] : NULL;
}

bool sp_value_has_elements(const struct sp_value *value)
{
    if (value->data != NULL)
        return true;
    const struct sp_tensor *tensor = constant_tensor(value);
    return tensor != NULL && tensor->storage != SP_STORAGE_EXTERNAL && tensor->elements >= 0 &&
           tensor->elements <= SP_MAX_DATA_ELEMENTS &&
           (sp_dtype_is_integer(tensor->dtype) || sp_dtype_is_float(tensor->dtype) || tensor->dtype == SP_DTYPE_BOOL);
}

const struct sp_data *sp_value_elements(struct sp_model *model, struct sp_value *value)
{
    if (value->data == NULL && sp_value_has_elements(value) &&
        sp_data_is_affordable(model, constant_tensor(value)->elements)) {
        struct sp_data *data = NULL;
        struct sp_error ignored;
        sp_error_clear(&ignored);
        /* What cannot be read is not known; running out of memory shows at the next allocation. */
        if (sp_onnx_tensor_data(model, model->arena, constant_tensor(value), &data, &ignored) == SP_OK)
            value->data = data;
        model->data_elements += value->data == NULL ? 0 : value->data->count;
    }
    return value->data;
}

const struct sp_data *sp_in_data(const struct sp_op_context *context, uint32_t input)
{
    return sp_has_input(context, input) ? sp_value_elements(context->model, context->node->inputs[input]) : NULL;
}

const struct sp_data *sp_in_known_ints(const struct sp_op_context *context, uint32_t input)
{
    const struct sp_data *data = sp_in_data(context, input);
    if (data == NULL || data->ints == NULL)
        return NULL;
    for (uint32_t i = 0; i < data->count; i++) {
        if (!sp_dim_is_known(data->ints[i]))
            return NULL;
    }
    return data;
}

/* The first versions of Split, Tile and OneHot take counts as real numbers too; what is no whole number is no count. */
static enum sp_status list_of_reals(struct sp_op_context *context, const struct sp_data *data, struct sp_list *list)
{
    struct sp_dim *values = sp_new_dims(context, data->count);
    if (values == NULL)
        return sp_fail_memory(context->err);
    for (uint32_t i = 0; i < data->count; i++) {
        double real = data->reals[i];
        if (!(fabs(real) < 9e15) || real != floor(real))
            return SP_OK;
        values[i] = sp_dim_known((int64_t)real);
    }
    list->has_values = true;
    list->values = values;
    return SP_OK;
}

enum sp_status sp_get_list(struct sp_op_context *context, const char *attribute, int64_t input_since, uint32_t input,
                           struct sp_list *ret_list)
{
    struct sp_list list = {0};
    if (context->version >= input_since) {
        list.is_given = sp_has_input(context, input);
        const struct sp_shape *shape = sp_in_shape(context, input);
        const struct sp_data *data = sp_in_data(context, input);
        if (data != NULL && data->ints != NULL) {
            list.has_count = list.has_values = true;
            list.count = data->count;
            list.values = data->ints;
        } else if (shape != NULL && shape->rank <= 1) {
            struct sp_dim count = shape->rank == 0 ? sp_dim_known(1) : shape->dims[0];
            list.has_count = sp_dim_is_known(count) && count.value >= 0 && count.value <= UINT32_MAX;
            list.count = list.has_count ? (uint32_t)count.value : 0;
            if (data != NULL && data->reals != NULL && list.has_count && list.count == data->count) {
                enum sp_status status = list_of_reals(context, data, &list);
                if (status != SP_OK)
                    return status;
            }
        }
    } else {
        const struct sp_attribute *given = sp_node_attribute(context->node, attribute);
        bool is_one = given != NULL && given->type == SP_ATTR_INT;
        if (is_one || (given != NULL && given->type == SP_ATTR_INTS)) {
            list.count = is_one ? 1 : given->count;
            struct sp_dim *values = sp_new_dims(context, list.count);
            if (values == NULL)
                return sp_fail_memory(context->err);
            for (uint32_t i = 0; i < list.count; i++)
                values[i] = sp_dim_known(is_one ? given->i : given->ints[i]);
            list.is_given = list.has_count = list.has_values = true;
            list.values = values;
        }
    }
    list.is_known = list.has_values;
    for (uint32_t i = 0; list.has_values && i < list.count; i++)
        list.is_known = list.is_known && sp_dim_is_known(list.values[i]);
    *ret_list = list;
    return SP_OK;
}

enum sp_status sp_get_axes(struct sp_op_context *context, const struct sp_list *list, uint32_t rank, uint64_t *ret_mask)
{
    uint64_t mask = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        uint32_t axis = 0;
        enum sp_status status = sp_normalize_axis(context, list->values[i].value, rank, &axis);
        if (status != SP_OK)
            return status;
        if (mask >> axis & 1)
            return sp_op_fail(context, "AXIS_TWICE", "axis %u is given twice", axis);
        mask |= (uint64_t)1 << axis;
    }
    *ret_mask = mask;
    return SP_OK;
}

enum sp_status sp_get_dtype(struct sp_op_context *context, const char *attribute, enum sp_dtype otherwise,
                            enum sp_dtype *ret_dtype)
{
    int64_t number = sp_node_int(context->node, attribute, 0);
    if (number < 0 || number >= SP_DTYPE_COUNT)
        return sp_op_fail(context, "UNKNOWN_DATA_TYPE", "its attribute '%s' is %lld, which is not a data type",
                          attribute, (long long)number);
    *ret_dtype = number == SP_DTYPE_UNDEFINED ? otherwise : (enum sp_dtype)number;
    return SP_OK;
}

/* ---- outputs ------------------------------------------------------------------------------------------------- */

static struct sp_value *output_value(const struct sp_op_context *context, uint32_t output)
{
    return output < context->node->output_count ? context->node->outputs[output] : NULL;
}

/* Most results have the shape of one of the first operands: values share the dims, which nobody changes in place. */
static struct sp_dim *shared_dims(const struct sp_op_context *context, uint32_t rank, const struct sp_dim *dims)
{
    for (uint32_t i = 0; i < 2; i++) {
        const struct sp_shape *shape = sp_in_shape(context, i);
        bool is_same = shape != NULL && shape->rank == rank;
        for (uint32_t axis = 0; is_same && shape->dims != dims && axis < rank; axis++)
            is_same = sp_dim_equal(shape->dims[axis], dims[axis]);
        if (is_same)
            return shape->dims;
    }
    return NULL;
}

enum sp_status sp_set_output(struct sp_op_context *context, uint32_t output, enum sp_dtype dtype, uint32_t rank,
                             const struct sp_dim *dims)
{
    struct sp_value *value = output_value(context, output);
    if (value == NULL)
        return SP_OK;
    if (rank > SP_MAX_RANK)
        return sp_fail_limit(context->err, "RANK_TOO_LARGE", "SP_MAX_RANK", SP_MAX_RANK, rank,
                             "Output '%.120s' would have %u axes; at most %d are supported.", value->name, rank,
                             SP_MAX_RANK);
    for (uint32_t axis = 0; axis < rank; axis++) {
        if (sp_dim_is_known(dims[axis]) && dims[axis].value < 0)
            return sp_op_fail(context, "NEGATIVE_DIMENSION", "axis %u of its output '%.120s' would have %lld elements",
                              axis, value->name, (long long)dims[axis].value);
    }
    struct sp_dim *copy = shared_dims(context, rank, dims);
    if (copy == NULL)
        copy = SP_NEW_ARRAY(context->arena, rank, struct sp_dim);
    if (copy == NULL)
        return sp_fail_memory(context->err);
    if (rank != 0 && copy != dims)
        memcpy(copy, dims, rank * sizeof *copy);
    value->type = (struct sp_type){.kind = SP_TYPE_TENSOR, .dtype = dtype, .shape = {true, rank, copy}};
    return SP_OK;
}

enum sp_status sp_set_output_shape(struct sp_op_context *context, uint32_t output, enum sp_dtype dtype,
                                   const struct sp_shape *shape)
{
    if (shape == NULL || !shape->has_rank)
        return sp_set_output_unranked(context, output, dtype);
    return sp_set_output(context, output, dtype, shape->rank, shape->dims);
}

enum sp_status sp_set_output_unranked(struct sp_op_context *context, uint32_t output, enum sp_dtype dtype)
{
    struct sp_value *value = output_value(context, output);
    if (value != NULL)
        value->type = (struct sp_type){.kind = SP_TYPE_TENSOR, .dtype = dtype};
    return SP_OK;
}

static enum sp_status set_container(struct sp_op_context *context, uint32_t output, enum sp_type_kind kind,
                                    const struct sp_type *elem)
{
    struct sp_value *value = output_value(context, output);
    if (value == NULL)
        return SP_OK;
    struct sp_type *copy = SP_NEW(context->arena, struct sp_type);
    if (copy == NULL)
        return sp_fail_memory(context->err);
    *copy = *elem;
    value->type = (struct sp_type){.kind = kind, .elem = copy};
    return SP_OK;
}

enum sp_status sp_set_output_sequence(struct sp_op_context *context, uint32_t output, const struct sp_type *elem)
{
    return set_container(context, output, SP_TYPE_SEQUENCE, elem);
}

enum sp_status sp_set_output_optional(struct sp_op_context *context, uint32_t output, const struct sp_type *elem)
{
    return set_container(context, output, SP_TYPE_OPTIONAL, elem);
}

enum sp_status sp_set_output_element(struct sp_op_context *context, uint32_t output, const struct sp_type *type)
{
    struct sp_value *value = output_value(context, output);
    if (value == NULL)
        return SP_OK;
    value->type = *type;
    return sp_name_open_axes(context->model, &value->type, value->name, NULL) ? SP_OK : sp_fail_memory(context->err);
}

enum sp_status sp_set_data_ints(struct sp_op_context *context, uint32_t output, uint32_t count,
                                const struct sp_dim *ints)
{
    struct sp_data *data = sp_data_room(context, output) == count ? sp_data_new(context, output, false) : NULL;
    if (data == NULL)
        return SP_OK;
    if (count != 0)
        memcpy(data->ints, ints, count * sizeof *ints);
    sp_data_attach(context, output, data);
    return SP_OK;
}

enum sp_status sp_set_data_reals(struct sp_op_context *context, uint32_t output, uint32_t count, const double *reals)
{
    struct sp_data *data = sp_data_room(context, output) == count ? sp_data_new(context, output, true) : NULL;
    if (data == NULL)
        return SP_OK;
    if (count != 0)
        memcpy(data->reals, reals, count * sizeof *reals);
    sp_data_attach(context, output, data);
    return SP_OK;
}

struct sp_dim *sp_new_dims(struct sp_op_context *context, uint64_t count)
{
    return SP_NEW_ARRAY(context->arena, count, struct sp_dim); /* zeroed memory is unknown dims */
}

/* ---- common computations ------------------------------------------------------------------------------------- */

enum sp_status sp_check_rank(struct sp_op_context *context, uint32_t input, uint32_t rank)
{
    const struct sp_shape *shape = sp_in_shape(context, input);
    if (shape != NULL && shape->rank != rank)
        return sp_op_fail(context, "OPERAND_SHAPE", "its input %u has rank %u instead of %u", input, shape->rank, rank);
    return SP_OK;
}

enum sp_status sp_normalize_axis(struct sp_op_context *context, int64_t axis, uint32_t rank, uint32_t *ret_axis)
{
    if (axis < -(int64_t)rank || axis >= (int64_t)rank)
        return sp_op_fail(context, "AXIS_OUT_OF_RANGE", "axis %lld is outside of a tensor with %u axes",
                          (long long)axis, rank);
    *ret_axis = (uint32_t)(axis < 0 ? axis + (int64_t)rank : axis);
    return SP_OK;
}

/* In every run that is valid, two extents are equal or one of them is 1. So of two expressions the one that is never
   the smaller is the result: `seq`, when the other is `min(seq, 64)`. (0 against 1 would be the exception.) */
static struct sp_dim broadcast_dim(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)
{
    if (sp_dim_is(a, 1) || sp_dim_equal(a, b))
        return b;
    if (sp_dim_is(b, 1))
        return a;
    sp_dims_tie(dims, a, b);
    if (sp_dim_is_known(a)) /* not 1, so the other is 1 or the same */
        return a;
    if (sp_dim_is_known(b))
        return b;
    if (sp_dim_surely_ge(dims, a, b))
        return a;
    return sp_dim_surely_ge(dims, b, a) ? b : sp_dim_unknown();
}

enum sp_status sp_broadcast(struct sp_op_context *context, const struct sp_shape *a, const struct sp_shape *b,
                            struct sp_shape *ret_shape)
{
    uint32_t rank = a->rank > b->rank ? a->rank : b->rank;
    struct sp_dim *dims = sp_new_dims(context, rank);
    if (dims == NULL)
        return sp_fail_memory(context->err);
    for (uint32_t back = 1; back <= rank; back++) {
        struct sp_dim one = sp_dim_known(1);
        struct sp_dim left = back <= a->rank ? a->dims[a->rank - back] : one;
        struct sp_dim right = back <= b->rank ? b->dims[b->rank - back] : one;
        if (sp_dim_is_known(left) && sp_dim_is_known(right) && left.value != right.value && left.value != 1 &&
            right.value != 1)
            return sp_op_fail(context, "CANNOT_BROADCAST",
                              "axis %u from the end has %lld elements in one and %lld in "
                              "another input, so they do not broadcast",
                              back, (long long)left.value, (long long)right.value);
        dims[rank - back] = broadcast_dim(context->dims, left, right);
    }
    *ret_shape = (struct sp_shape){true, rank, dims};
    return SP_OK;
}

enum sp_status sp_join_dims(struct sp_op_context *context, struct sp_dim a, struct sp_dim b, struct sp_dim *ret_dim)
{
    if (sp_dim_is_known(a) && sp_dim_is_known(b) && a.value != b.value)
        return sp_op_fail(context, "SHAPES_DISAGREE", "one input has %lld and another %lld elements on the same axis",
                          (long long)a.value, (long long)b.value);
    sp_dims_tie(context->dims, a, b);
    bool takes_b = a.kind == SP_DIM_UNKNOWN || (a.kind == SP_DIM_SYMBOLIC && sp_dim_is_known(b));
    *ret_dim = takes_b ? b : a;
    return SP_OK;
}

struct sp_dim sp_product(struct sp_op_context *context, const struct sp_dim *dims, uint32_t from, uint32_t to)
{
    struct sp_dim product = sp_dim_known(1);
    for (uint32_t axis = from; axis < to; axis++)
        product = sp_dim_mul(context->dims, product, dims[axis]);
    return product;
}

const char *sp_op_subject(const struct sp_node *node, char *text, size_t size)
{
    char label[256];
    sp_node_label(node, label, sizeof label);
    bool is_numbered = strncmp(label, "node ", 5) == 0;
    (void)snprintf(text, size, "Node %s", label + (is_numbered ? 5 : 0));
    return text;
}

static void tell(const struct sp_op_context *context, struct sp_error *err, const char *code, const char *text)
{
    char subject[264];
    sp_op_subject(context->node, subject, sizeof subject);
    (void)sp_fail(err, SP_ERR_MODEL, code, "%s: %s.", subject, text);
    subject[0] = 'n';
    (void)sp_error_at(err, "%s", subject);
}

enum sp_status sp_op_fail(struct sp_op_context *context, const char *code, const char *format, ...)
{
    char text[SP_ERROR_MESSAGE_SIZE / 2];
    SP_FORMAT(text, format);
    tell(context, context->err, code, text);
    return SP_ERR_MODEL;
}

void sp_op_accept(struct sp_op_context *context, const char *code, const char *format, ...)
{
    char text[SP_ERROR_MESSAGE_SIZE / 2];
    SP_FORMAT(text, format);
    tell(context, context->accepted, code, text);
}

/* ---- shared rules -------------------------------------------------------------------------------------------- */

/* The letter and the number: every axis of every rule is named, so numbers as axes have them are not formatted. */
static void axis_name(char *text, size_t size, char letter, uint32_t axis)
{
    if (axis >= 100 || size < 4) {
        (void)snprintf(text, size, "%c%u", letter, axis);
        return;
    }
    *text++ = letter;
    if (axis >= 10)
        *text++ = (char)('0' + axis / 10);
    *text++ = (char)('0' + axis % 10);
    *text = '\0';
}

uint8_t sp_rule_input_axis(struct sp_op_context *context, struct sp_rule *rule, char letter, uint32_t input,
                           uint32_t axis, enum sp_factor_kind kind)
{
    char name[SP_FACTOR_NAME_SIZE];
    axis_name(name, sizeof name, letter, axis);
    uint8_t factor = sp_rule_factor(rule, name, kind, context->node->inputs[input]->type.shape.dims[axis]);
    sp_rule_map_input(rule, input, axis, factor);
    return factor;
}

uint8_t sp_rule_output_axis(struct sp_op_context *context, struct sp_rule *rule, char letter, uint32_t output,
                            uint32_t axis, enum sp_factor_kind kind)
{
    char name[SP_FACTOR_NAME_SIZE];
    axis_name(name, sizeof name, letter, axis);
    uint8_t factor = sp_rule_factor(rule, name, kind, context->node->outputs[output]->type.shape.dims[axis]);
    sp_rule_map_output(rule, output, axis, factor);
    return factor;
}

double sp_input_bytes(const struct sp_op_context *context, uint32_t input)
{
    int64_t bytes = sp_has_input(context, input) ? sp_value_stored_bytes(context->node->inputs[input]) : 0;
    return bytes > 0 ? (double)bytes : 0;
}

double sp_output_bytes(const struct sp_op_context *context, uint32_t output)
{
    const struct sp_value *value = output_value(context, output);
    int64_t bytes = value != NULL ? sp_value_stored_bytes(value) : 0;
    return bytes > 0 ? (double)bytes : 0;
}

enum sp_status sp_axes_from_axis(struct sp_op_context *context, uint32_t rank, struct sp_op_axes *ret_axes)
{
    uint32_t first = 0;
    enum sp_status status = sp_normalize_axis(context, sp_node_int(context->node, "axis", -1), rank, &first);
    ret_axes->mask = UINT64_MAX << first;
    return status;
}
