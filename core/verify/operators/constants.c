/*
 * Operators whose results follow from shapes and attributes.
 */
#include <string.h>

#include "base/limits.h"
#include "verify/operators/evaluate.h"
#include "verify/sources.h"

static enum sp_status give_ints(struct sp_call *call, uint32_t rank, int64_t count, const int64_t *values)
{
    enum sp_status status = sp_numbers_create_full(call->arena, SP_DTYPE_INT64, rank, &count, &call->out[0], call->err);
    for (uint64_t i = 0; status == SP_OK && i < call->out[0]->count; i++)
        call->out[0]->items[i] = sp_number_of_int(values[i]);
    if (status == SP_OK)
        call->out[0]->is_known = true;
    return status;
}

static enum sp_status evaluate_shape(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    int64_t extents[SP_MAX_RANK];
    if (x == NULL)
        return sp_call_refuse(call, "an operand is missing");
    const int64_t rank = x->rank, start = sp_node_int(call->node, "start", 0),
                  end = sp_node_int(call->node, "end", rank);
    const int64_t from = start < 0 ? start + rank : start, to = end < 0 ? end + rank : end;
    for (uint32_t i = 0; i < x->rank; i++)
        extents[i] = x->axes[i].extent;
    const int64_t first = from < 0 ? 0 : from > rank ? rank : from, last = to < first ? first : to > rank ? rank : to;
    return give_ints(call, 1, last - first, extents + first);
}

static enum sp_status evaluate_size(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    int64_t total = 1;
    if (x == NULL)
        return sp_call_refuse(call, "an operand is missing");
    for (uint32_t i = 0; i < x->rank; i++)
        total *= x->axes[i].extent;
    return give_ints(call, 0, 1, &total);
}

static enum sp_status evaluate_constant(struct sp_call *call)
{
    const struct sp_node *node = call->node;
    for (uint32_t i = 0; i < node->attribute_count; i++) {
        const struct sp_attribute *a = &node->attributes[i];
        int64_t count = a->count;
        if (strcmp(a->name, "value") == 0 && a->type == SP_ATTR_TENSOR && a->count == 1)
            return sp_numbers_of_tensor(call->arena, call->model, a->tensors[0], SP_SOURCE_LITERAL, &call->out[0],
                                        call->err);
        if (strcmp(a->name, "value_int") == 0)
            return give_ints(call, 0, 1, &a->i);
        if (strcmp(a->name, "value_ints") == 0)
            return give_ints(call, 1, a->count, a->ints);
        if (strcmp(a->name, "value_float") != 0 && strcmp(a->name, "value_floats") != 0)
            continue;
        const bool is_one = a->type == SP_ATTR_FLOAT;
        enum sp_status status =
            sp_numbers_create_full(call->arena, SP_DTYPE_FLOAT, is_one ? 0 : 1, &count, &call->out[0], call->err);
        for (uint64_t k = 0; status == SP_OK && k < call->out[0]->count; k++)
            call->out[0]->items[k] = sp_number_of_real(is_one ? a->f : a->floats[k]);
        if (status == SP_OK)
            call->out[0]->is_known = true;
        return status;
    }
    return sp_call_refuse(call, "its value is not one of numbers");
}

static enum sp_status evaluate_fill(struct sp_call *call)
{
    const struct sp_attribute *value = sp_node_attribute(call->node, "value");
    struct sp_numbers *fill = NULL;
    const int64_t *shape;
    uint32_t rank;
    enum sp_status status = sp_call_ints(call, 0, &rank, &shape);
    if (status == SP_OK && value != NULL && value->type == SP_ATTR_TENSOR && value->count == 1)
        status = sp_numbers_of_tensor(call->arena, call->model, value->tensors[0], SP_SOURCE_LITERAL, &fill, call->err);
    if (status == SP_OK && fill != NULL && fill->count != 1)
        return sp_call_refuse(call, "its value is no single number");
    if (status == SP_OK)
        status = sp_numbers_create_full(call->arena, fill != NULL ? fill->dtype : SP_DTYPE_FLOAT, rank, shape,
                                        &call->out[0], call->err);
    for (uint64_t i = 0; status == SP_OK && i < call->out[0]->count; i++)
        call->out[0]->items[i] = fill != NULL ? fill->items[0] : (struct sp_number){0, 0};
    if (status == SP_OK)
        call->out[0]->is_known = true;
    return status;
}

static enum sp_status evaluate_range(struct sp_call *call)
{
    const struct sp_numbers *start = sp_call_in(call, 0), *limit = sp_call_in(call, 1), *step = sp_call_in(call, 2);
    if (start == NULL || limit == NULL || start->count != 1 || limit->count != 1 || !start->is_known ||
        !limit->is_known || (step != NULL && (step->count != 1 || !step->is_known || step->items[0].real == 0)))
        return sp_call_refuse(call, "its bounds are not known");
    const double by = step != NULL ? step->items[0].real : 1;
    const double length = ceil((limit->items[0].real - start->items[0].real) / by);
    const int64_t count = length > 0 ? (int64_t)fmin(length, 2.0 * SP_MAX_EVALUATED_NUMBERS) : 0;
    enum sp_status status = sp_numbers_create_full(call->arena, start->dtype, 1, &count, &call->out[0], call->err);
    for (int64_t i = 0; status == SP_OK && i < count; i++) {
        const double real = start->items[0].real + (double)i * by;
        call->out[0]->items[i] =
            sp_dtype_is_float(start->dtype) ? sp_number_of_real(real) : sp_number_of_int((int64_t)real);
    }
    if (status == SP_OK)
        call->out[0]->is_known = true;
    return status;
}

/* Sums of cosines, by the published coefficients. */
static enum sp_status evaluate_window(struct sp_call *call)
{
    static const double hann[] = {0.5, 0.5, 0}, hamming[] = {25.0 / 46, 1 - 25.0 / 46, 0},
                        blackman[] = {0.42, 0.5, 0.08};
    const struct sp_numbers *size = sp_call_in(call, 0);
    const char *name = call->node->op_type;
    const double *a = name[0] == 'B' ? blackman : name[2] == 'm' ? hamming : hann;
    const int64_t to = sp_node_int(call->node, "output_datatype", SP_DTYPE_FLOAT);
    if (size == NULL || size->count != 1 || !size->is_known || to <= 0 || to >= SP_DTYPE_COUNT ||
        !sp_dtype_is_float((enum sp_dtype)to))
        return sp_call_refuse(call, "its size is not known");
    const int64_t count = sp_numbers_int(size, 0);
    const double period = (double)(count - (sp_node_int(call->node, "periodic", 1) == 0));
    enum sp_status status = sp_numbers_create_full(call->arena, (enum sp_dtype)to, 1, &count, &call->out[0], call->err);
    for (int64_t i = 0; status == SP_OK && i < count; i++) {
        const double angle = period > 0 ? 2 * M_PI * (double)i / period : 0;
        call->out[0]->items[i] = sp_number_of_real((float)(a[0] - a[1] * cos(angle) + a[2] * cos(2 * angle)));
    }
    if (status == SP_OK)
        call->out[0]->is_known = true;
    return status;
}

/* A matrix that follows from five numbers: of its values nothing is known but that. */
static enum sp_status evaluate_mel_weights(struct sp_call *call)
{
    const int64_t to = sp_node_int(call->node, "output_datatype", SP_DTYPE_FLOAT);
    uint64_t hash = sp_tag("MelWeightMatrix");
    for (uint32_t i = 0; i < 5; i++) {
        const struct sp_numbers *x = sp_call_in(call, i);
        if (x == NULL || x->count != 1 || (i < 2 && !x->is_known))
            return sp_call_refuse(call, "its sizes are not known");
        hash = sp_field_hash(hash, x->items[0].field);
    }
    const int64_t bins = sp_numbers_int(call->in[0], 0), points = sp_numbers_int(call->in[1], 0);
    if (to <= 0 || to >= SP_DTYPE_COUNT || !sp_dtype_is_float((enum sp_dtype)to) || points < 0)
        return sp_call_refuse(call, "its sizes are not known");
    const int64_t extents[] = {points / 2 + 1, bins};
    enum sp_status status =
        sp_numbers_create_full(call->arena, (enum sp_dtype)to, 2, extents, &call->out[0], call->err);
    for (uint64_t i = 0; status == SP_OK && i < call->out[0]->count; i++)
        call->out[0]->items[i] = (struct sp_number){sp_field_hash(hash, i), NAN};
    return status;
}

const struct sp_evaluator_entry sp_evaluators_constants[] = {
    {"Shape", evaluate_shape},
    {"Size", evaluate_size},
    {"Constant", evaluate_constant},
    {"ConstantOfShape", evaluate_fill},
    {"Range", evaluate_range},
    {"HannWindow", evaluate_window},
    {"HammingWindow", evaluate_window},
    {"BlackmanWindow", evaluate_window},
    {"MelWeightMatrix", evaluate_mel_weights},
    {NULL, NULL},
};
