/*
 * scatter - operators that write by index: ScatterElements (Scatter before opset 11) and ScatterND.
 *
 * A device that holds a part of a written axis applies the writes that fall into it, so the axis is parallel and its
 * indices count along the whole. Which writes a device has does not matter where they are added or multiplied, or the
 * greatest or least counts: then the places of the writes are a reduction, and the data count once. Writes that replace
 * are needed by every device.
 */
#include <math.h>
#include <string.h>

#include "ops/lowering/functions.h"
#include "ops/table/factors.h"
#include "ops/table/families.h"
#include "ops/table/known_values.h"
#include "ops/table/traffic.h"

/* What a write does to what was there; NONE: it replaces it. */
static enum sp_status read_reduction(struct sp_op_context *context, enum sp_combiner *ret_combiner)
{
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    static const enum sp_combiner combiners[] = {SP_COMBINE_NONE, SP_COMBINE_SUM, SP_COMBINE_PROD, SP_COMBINE_MAX,
                                                 SP_COMBINE_MIN};
    const char *text = sp_node_string(context->node, "reduction", "none");
    *ret_combiner = SP_COMBINE_NONE;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret_combiner = combiners[i];
            return SP_OK;
        }
    }
    return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute 'reduction' is '%.40s'", text);
}

/* data[at] = update[i], or the two combined. */
static void write_element(struct sp_op_context *context, enum sp_combiner combiner, struct sp_data *data, uint32_t at,
                          const struct sp_data *updates, uint32_t i)
{
    if (combiner == SP_COMBINE_NONE) {
        sp_data_copy(data, at, updates, i);
    } else if (data->reals != NULL && updates->reals != NULL) {
        double old = data->reals[at], given = updates->reals[i];
        data->reals[at] = combiner == SP_COMBINE_SUM    ? old + given
                          : combiner == SP_COMBINE_PROD ? old * given
                          : combiner == SP_COMBINE_MAX  ? fmax(old, given)
                                                        : fmin(old, given);
    } else {
        struct sp_dim old = data->ints[at], given = updates->ints[i];
        data->ints[at] = combiner == SP_COMBINE_SUM    ? sp_dim_add(context->dims, old, given)
                         : combiner == SP_COMBINE_PROD ? sp_dim_mul(context->dims, old, given)
                         : combiner == SP_COMBINE_MAX  ? sp_dim_max(context->dims, old, given)
                                                       : sp_dim_min(context->dims, old, given);
    }
}

/* A factor of the places of the writes. */
static uint8_t place_factor(struct sp_op_context *context, struct sp_rule *rule, uint32_t axis,
                            enum sp_combiner combiner)
{
    bool is_joined = combiner != SP_COMBINE_NONE;
    uint8_t factor =
        sp_rule_input_axis(context, rule, 'i', 1, axis, is_joined ? SP_FACTOR_REDUCTION : SP_FACTOR_REPLICATE);
    if (factor < rule->factor_count)
        rule->factors[factor].combiner = combiner;
    return factor;
}

static const struct sp_shape *output_shape(const struct sp_op_context *context)
{
    return &context->node->outputs[0]->type.shape;
}

/* A copy of the data's elements for the writes to change, with everything that writing needs known, or NULL. */
static struct sp_data *start_elements(struct sp_op_context *context)
{
    if (sp_data_room(context, 0) < 0)
        return NULL;
    for (uint32_t input = 0; input < 3; input++) {
        if (!sp_data_available(context, input) || sp_shape_elements(sp_in_shape(context, input)) < 0)
            return NULL;
    }
    const struct sp_data *from = sp_in_data(context, 0), *updates = sp_in_data(context, 2);
    if (from == NULL || updates == NULL || sp_in_known_ints(context, 1) == NULL ||
        (from->reals != NULL) != (updates->reals != NULL))
        return NULL;
    struct sp_data *data = sp_data_new(context, 0, from->reals != NULL);
    if (data == NULL || data->count != from->count)
        return NULL;
    for (uint32_t i = 0; i < data->count; i++)
        sp_data_copy(data, i, from, i);
    return data;
}

static enum sp_status check_index(struct sp_op_context *context, int64_t *index, int64_t extent)
{
    if (*index < -extent || *index >= extent)
        return sp_op_fail(context, "INDEX_OUT_OF_RANGE", "index %lld is outside of an axis with %lld elements",
                          (long long)*index, (long long)extent);
    *index += *index < 0 ? extent : 0;
    return SP_OK;
}

/* ---- ScatterElements ----------------------------------------------------------------------------------------- */

static enum sp_status write_elements(struct sp_op_context *context, uint32_t written, enum sp_combiner combiner)
{
    const struct sp_shape *to = output_shape(context);
    struct sp_data *data = start_elements(context);
    if (data == NULL)
        return SP_OK;
    const struct sp_shape *shape = sp_in_shape(context, 1);
    const struct sp_data *indices = sp_in_data(context, 1), *updates = sp_in_data(context, 2);
    if (updates->count != indices->count)
        return sp_op_fail(context, "SHAPES_DISAGREE", "it has %u indices and %u updates", indices->count,
                          updates->count);
    for (uint32_t i = 0; i < indices->count; i++) {
        int64_t rest = i, position = 0, stride = 1;
        for (uint32_t axis = to->rank; axis-- > 0;) {
            int64_t extent = shape->dims[axis].value, at = rest % extent;
            if (axis == written)
                at = indices->ints[i].value;
            enum sp_status status = check_index(context, &at, to->dims[axis].value);
            if (status != SP_OK)
                return status;
            position += at * stride;
            stride *= to->dims[axis].value;
            rest /= extent;
        }
        write_element(context, combiner, data, (uint32_t)position, updates, i);
    }
    sp_data_attach(context, 0, data);
    return SP_OK;
}

/* Indices and updates have one shape. */
static enum sp_status check_updates(struct sp_op_context *context)
{
    const struct sp_shape *indices = sp_in_shape(context, 1), *updates = sp_in_shape(context, 2);
    enum sp_status status = SP_OK;
    struct sp_dim ignored;
    for (uint32_t axis = 0; status == SP_OK && indices != NULL && updates != NULL && axis < indices->rank; axis++)
        status = sp_join_dims(context, indices->dims[axis], updates->dims[axis], &ignored);
    return status;
}

static enum sp_status shapes_scatter_elements(struct sp_op_context *context)
{
    const struct sp_shape *data = sp_in_shape(context, 0);
    enum sp_status status = sp_set_output_shape(context, 0, sp_in_dtype(context, 0), data);
    enum sp_combiner combiner;
    uint32_t axis = 0;
    if (status == SP_OK)
        status = read_reduction(context, &combiner);
    if (status != SP_OK || data == NULL || context->node->outputs[0] == NULL)
        return status;
    for (uint32_t input = 1; input < 3; input++) {
        const struct sp_shape *shape = sp_in_shape(context, input);
        if (shape != NULL && shape->rank != data->rank)
            return sp_op_fail(context, "SHAPES_DISAGREE", "input %u has %u axes and its data %u", input, shape->rank,
                              data->rank);
    }
    status = sp_normalize_axis(context, sp_node_int(context->node, "axis", 0), data->rank, &axis);
    if (status == SP_OK)
        status = check_updates(context);
    return status != SP_OK ? status : write_elements(context, axis, combiner);
}

/* Every update is read, and written; the data are copied before, where they are not the output's own memory. */
static void write_in_place(const struct sp_op_context *context, struct sp_rule *rule)
{
    sp_rule_use_input(rule, 0, 0, NULL);
    sp_rule_use_input(rule, 2, 2, NULL);
    sp_rule_use_output(rule, 0, 0, NULL);
    sp_rule_past(context, rule, 0, 0);
}

/* An axis of as many indices as data is parallel with it; one of fewer writes to the first of the data. */
static enum sp_status rule_scatter_elements(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_shape *data = sp_in_shape(context, 0), *indices = sp_in_shape(context, 1);
    struct sp_factor_list work = {0};
    enum sp_combiner combiner = SP_COMBINE_NONE;
    uint32_t written = 0;
    enum sp_status status = sp_normalize_axis(context, sp_node_int(context->node, "axis", 0), data->rank, &written);
    if (status == SP_OK)
        status = read_reduction(context, &combiner);
    for (uint32_t axis = 0; status == SP_OK && axis < data->rank; axis++) {
        bool is_aligned = axis != written && sp_dim_equal(data->dims[axis], indices->dims[axis]);
        bool is_free = is_aligned || axis == written;
        uint8_t factor = sp_rule_input_axis(context, rule, axis == written ? 'v' : 'd', 0, axis,
                                            is_free ? SP_FACTOR_PARALLEL : SP_FACTOR_REPLICATE);
        uint8_t other = factor;
        sp_rule_map_output(rule, 0, axis, factor);
        if (is_aligned)
            sp_rule_map_input(rule, 1, axis, factor);
        else
            other = place_factor(context, rule, axis, axis == written ? combiner : SP_COMBINE_NONE);
        sp_rule_map_input(rule, 2, axis, other);
        sp_factor_list_add(&work, other);
        if (axis == written)
            sp_rule_positions_input(rule, 1, factor);
    }
    if (combiner != SP_COMBINE_NONE)
        sp_rule_term_list(rule, 1, &work);
    write_in_place(context, rule);
    return status;
}

/* ---- ScatterND ----------------------------------------------------------------------------------------------- */

/* data [depth axes.., rest..], indices [places.., depth], updates [places.., rest..]; 0: the depth is not known */
static enum sp_status get_depth(struct sp_op_context *context, uint32_t *ret_depth)
{
    const struct sp_shape *data = sp_in_shape(context, 0), *indices = sp_in_shape(context, 1);
    *ret_depth = 0;
    if (data == NULL || indices == NULL)
        return SP_OK;
    if (indices->rank == 0)
        return sp_op_fail(context, "SHAPES_DISAGREE", "its indices are a scalar");
    struct sp_dim depth = indices->dims[indices->rank - 1];
    if (!sp_dim_is_known(depth))
        return SP_OK;
    if (depth.value < 1 || depth.value > data->rank)
        return sp_op_fail(context, "SHAPES_DISAGREE", "index tuples of %lld entries do not fit data with %u axes",
                          (long long)depth.value, data->rank);
    *ret_depth = (uint32_t)depth.value;
    const struct sp_shape *updates = sp_in_shape(context, 2);
    if (updates != NULL && updates->rank != indices->rank - 1 + data->rank - *ret_depth)
        return sp_op_fail(context, "SHAPES_DISAGREE", "its updates have %u axes where indices and data ask for %u",
                          updates->rank, indices->rank - 1 + data->rank - *ret_depth);
    enum sp_status status = SP_OK;
    for (uint32_t axis = 0; status == SP_OK && updates != NULL && axis < updates->rank; axis++) {
        struct sp_dim ignored,
            place = axis + 1 < indices->rank ? indices->dims[axis] : data->dims[axis + 1 - indices->rank + *ret_depth];
        status = sp_join_dims(context, place, updates->dims[axis], &ignored);
    }
    return status;
}

static enum sp_status write_slices(struct sp_op_context *context, uint32_t depth, enum sp_combiner combiner)
{
    const struct sp_shape *to = output_shape(context);
    struct sp_data *data = start_elements(context);
    if (data == NULL)
        return SP_OK;
    const struct sp_data *indices = sp_in_data(context, 1), *updates = sp_in_data(context, 2);
    struct sp_shape tail = {true, to->rank - depth, to->dims + depth};
    uint32_t slice = (uint32_t)sp_shape_elements(&tail), places = indices->count / depth;
    if ((uint64_t)places * slice != updates->count)
        return sp_op_fail(context, "SHAPES_DISAGREE", "it has %u updates for %u places of %u elements", updates->count,
                          places, slice);
    for (uint32_t i = 0; i < places; i++) {
        int64_t position = 0;
        for (uint32_t axis = 0; axis < depth; axis++) {
            int64_t at = indices->ints[i * depth + axis].value;
            enum sp_status status = check_index(context, &at, to->dims[axis].value);
            if (status != SP_OK)
                return status;
            position = position * to->dims[axis].value + at;
        }
        for (uint32_t k = 0; k < slice; k++)
            write_element(context, combiner, data, (uint32_t)position * slice + k, updates, i * slice + k);
    }
    sp_data_attach(context, 0, data);
    return SP_OK;
}

static enum sp_status shapes_scatter_nd(struct sp_op_context *context)
{
    uint32_t depth = 0;
    enum sp_combiner combiner;
    enum sp_status status = sp_set_output_shape(context, 0, sp_in_dtype(context, 0), sp_in_shape(context, 0));
    if (status == SP_OK)
        status = read_reduction(context, &combiner);
    if (status == SP_OK)
        status = get_depth(context, &depth);
    if (status != SP_OK || depth == 0 || context->node->outputs[0] == NULL)
        return status;
    return write_slices(context, depth, combiner);
}

static enum sp_status rule_scatter_nd(struct sp_op_context *context, struct sp_rule *rule)
{
    uint32_t depth = 0, rank = rule->inputs[0].rank, places = rule->inputs[1].rank;
    struct sp_factor_list work = {0};
    enum sp_combiner combiner = SP_COMBINE_NONE;
    enum sp_status status = read_reduction(context, &combiner);
    if (status == SP_OK)
        status = get_depth(context, &depth);
    const bool is_known = depth > 0;
    for (uint32_t axis = 0; status == SP_OK && axis < rank; axis++) {
        bool is_slice = axis >= depth;
        uint8_t factor = sp_rule_input_axis(context, rule, is_known && !is_slice ? 'v' : 'd', 0, axis,
                                            is_known ? SP_FACTOR_PARALLEL : SP_FACTOR_REPLICATE);
        sp_rule_map_output(rule, 0, axis, factor);
        if (is_known && is_slice) {
            sp_rule_map_input(rule, 2, places - 1 + axis - depth, factor);
            sp_factor_list_add(&work, factor);
        } else if (is_known) {
            sp_rule_positions_input(rule, 1, factor);
        }
    }
    for (uint32_t axis = 0; status == SP_OK && is_known && axis < places; axis++) {
        bool is_tuple = axis + 1 == places;
        uint8_t factor = place_factor(context, rule, axis, is_tuple ? SP_COMBINE_NONE : combiner);
        if (is_tuple)
            continue;
        sp_rule_map_input(rule, 2, axis, factor);
        sp_factor_list_add(&work, factor);
    }
    if (rule->input_count > 1)
        rule->inputs[1].are_tuples = depth > 1;
    if (combiner != SP_COMBINE_NONE)
        sp_rule_term_list(rule, 1, &work);
    write_in_place(context, rule);
    return status;
}

#define ELEMENTS_TEXT "[d.., v] [d.., i] [d.., i] -> [d.., v]; i whole, or with a reduction sum, product, max or min"

const struct sp_op sp_ops_scatter[] = {
    SP_ENTRY("", "Scatter", 9, 10, 3, 3, 1, 1, "[d.., v] [d.., i] [d.., i] -> [d.., v]; i whole",
             "ONNX Operators.md, Scatter-9", .shapes = shapes_scatter_elements, .rule = rule_scatter_elements,
             .lower = sp_lower_node_scatter_elements),
    SP_ENTRY("", "ScatterElements", 11, 0, 3, 3, 1, 1, ELEMENTS_TEXT,
             "ONNX Operators.md, ScatterElements-11 to ScatterElements-18", .shapes = shapes_scatter_elements,
             .rule = rule_scatter_elements, .lower = sp_lower_node_scatter_elements),
    SP_ENTRY("", "ScatterND", 11, 0, 3, 3, 1, 1,
             "[v.., d..] [i.., t] [i.., d..] -> [v.., d..]; t whole; i.. whole, or with a reduction sum, product, max "
             "or min",
             "ONNX Operators.md, ScatterND-11 to ScatterND-18", .shapes = shapes_scatter_nd, .rule = rule_scatter_nd,
             .lower = sp_lower_node_scatter_nd),
    {.name = NULL},
};
