/*
 * ai.onnx.ml: operators that prepare features.
 *
 *     Binarizer, CategoryMapper, LabelEncoder, Imputer, Scaler   [d..] -> [d..]
 *     OneHotEncoder                                              [d..] -> [d.., k]
 *     Normalizer                                                 [n, c] -> [n, c]              c max or sum
 *     ArrayFeatureExtractor                                      [d.., v] [i..] -> [d.., i..]  v sum
 *     FeatureVectorizer                                          [n, j] [n, j].. -> [n, j]     j whole
 *
 * A list attribute with an entry for each feature is split with the features: a device uses its part of the list.
 *
 * FLOPs: 1 for each output element; 2 for Scaler (subtract, multiply), 3 for Normalizer (norm and quotient); what only
 * moves elements has none.
 */
#include <string.h>

#include "base/arith.h"
#include "base/limits.h"
#include "ops/lowering/functions.h"
#include "ops/table/factors.h"
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

#define ML "ai.onnx.ml"

/* ---- elementwise ---------------------------------------------------------------------------------------------- */

static enum sp_status shapes_same(struct sp_op_context *context)
{
    return sp_set_output_shape(context, 0, sp_in_dtype(context, 0), sp_in_shape(context, 0));
}

static enum sp_status shapes_float(struct sp_op_context *context)
{
    return sp_set_output_shape(context, 0, SP_DTYPE_FLOAT, sp_in_shape(context, 0));
}

/* Strings become their numbers and numbers their strings. */
static enum sp_status shapes_mapper(struct sp_op_context *context)
{
    enum sp_dtype from = sp_in_dtype(context, 0), to = SP_DTYPE_UNDEFINED;
    if (from == SP_DTYPE_STRING)
        to = SP_DTYPE_INT64;
    else if (from == SP_DTYPE_INT64)
        to = SP_DTYPE_STRING;
    else if (from != SP_DTYPE_UNDEFINED)
        return sp_op_fail(context, "WRONG_DATA_TYPE", "it maps strings or int64, not %s", sp_dtype_name(from));
    return sp_set_output_shape(context, 0, to, sp_in_shape(context, 0));
}

/* The result has the type of the values, whichever attribute holds them. */
static enum sp_status shapes_encoder(struct sp_op_context *context)
{
    static const struct {
        const char *attribute;
        enum sp_dtype dtype;
    } lists[] = {
        {"values_strings", SP_DTYPE_STRING}, {"values_int64s", SP_DTYPE_INT64}, {"values_floats", SP_DTYPE_FLOAT}};
    if (context->version < 2)
        return shapes_mapper(context);
    const struct sp_attribute *tensor = sp_node_attribute(context->node, "values_tensor");
    if (tensor != NULL && tensor->type == SP_ATTR_TENSOR)
        return sp_set_output_shape(context, 0, tensor->tensors[0]->dtype, sp_in_shape(context, 0));
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        const struct sp_attribute *values = sp_node_attribute(context->node, lists[i].attribute);
        if (values != NULL && values->count > 0)
            return sp_set_output_shape(context, 0, lists[i].dtype, sp_in_shape(context, 0));
    }
    return sp_op_fail(context, "MISSING_ATTRIBUTE", "it has no attribute with the values that it maps to");
}

/* ---- Normalizer ----------------------------------------------------------------------------------------------- */

static enum sp_status read_norm(struct sp_op_context *context, enum sp_combiner *ret_combiner)
{
    const char *norm = sp_node_string(context->node, "norm", "MAX");
    bool is_max = strcmp(norm, "MAX") == 0;
    if (!is_max && strcmp(norm, "L1") != 0 && strcmp(norm, "L2") != 0)
        return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute 'norm' is '%.40s' instead of MAX, L1 or L2", norm);
    *ret_combiner = is_max ? SP_COMBINE_MAX : SP_COMBINE_SUM;
    return SP_OK;
}

static enum sp_status shapes_normalizer(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    enum sp_combiner combiner;
    if (x != NULL && x->rank != 1 && x->rank != 2)
        return sp_op_fail(context, "OPERAND_SHAPE", "its input has rank %u instead of 1 or 2", x->rank);
    enum sp_status status = read_norm(context, &combiner);
    return status != SP_OK ? status : shapes_float(context);
}

/* A row is divided by its norm: partial norms are combined. */
static enum sp_status rule_normalizer(struct sp_op_context *context, struct sp_rule *rule)
{
    enum sp_combiner combiner = SP_COMBINE_NONE;
    enum sp_status status = read_norm(context, &combiner);
    if (status == SP_OK)
        status = sp_rule_from_text(
            context, rule, combiner == SP_COMBINE_MAX ? "[d.., j] -> [d.., j]; j max" : "[d.., j] -> [d.., j]; j sum",
            0, NULL);
    sp_rule_term_output(rule, 3);
    return status;
}

/* ---- OneHotEncoder -------------------------------------------------------------------------------------------- */

static enum sp_status shapes_one_hot(struct sp_op_context *context)
{
    const struct sp_attribute *ints = sp_node_attribute(context->node, "cats_int64s");
    const struct sp_attribute *strings = sp_node_attribute(context->node, "cats_strings");
    const struct sp_shape *x = sp_in_shape(context, 0);
    uint32_t int_count = ints != NULL ? ints->count : 0, string_count = strings != NULL ? strings->count : 0;
    struct sp_dim dims[SP_MAX_RANK + 1];
    if ((int_count == 0) == (string_count == 0))
        return sp_op_fail(context, "ATTRIBUTE_VALUE",
                          "exactly one of the attributes 'cats_int64s' and 'cats_strings' must hold the categories");
    if (x == NULL)
        return sp_set_output_unranked(context, 0, SP_DTYPE_FLOAT);
    for (uint32_t axis = 0; axis < x->rank; axis++)
        dims[axis] = x->dims[axis];
    dims[x->rank] = sp_dim_known((int64_t)int_count + string_count);
    return sp_set_output(context, 0, SP_DTYPE_FLOAT, x->rank + 1, dims);
}

/* ---- ArrayFeatureExtractor ------------------------------------------------------------------------------------ */

/* The picked elements of the last axis; what is picked from a vector is a matrix of one row. */
static enum sp_status shapes_extractor(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0), *indices = sp_in_shape(context, 1);
    struct sp_dim dims[SP_MAX_RANK] = {{0}};
    enum sp_dtype dtype = sp_in_dtype(context, 0);
    if (x == NULL)
        return sp_set_output_unranked(context, 0, dtype);
    if (x->rank == 0)
        return sp_op_fail(context, "OPERAND_SHAPE", "it picks from the last axis of its input, which is a scalar");
    uint32_t rank = x->rank == 1 ? 2 : x->rank;
    dims[0] = sp_dim_known(1);
    for (uint32_t axis = 0; axis + 1 < x->rank; axis++)
        dims[axis] = x->dims[axis];
    dims[rank - 1] = indices != NULL ? sp_product(context, indices->dims, 0, indices->rank) : sp_dim_unknown();
    return sp_set_output(context, 0, dtype, rank, dims);
}

/* Where the picked axis is split a device gives what it has and zeros for the rest; strings have no such sum. */
static enum sp_status rule_extractor(struct sp_op_context *context, struct sp_rule *rule)
{
    uint32_t last = rule->inputs[0].rank - 1, to = rule->outputs[0].rank - 1;
    bool is_text = sp_in_dtype(context, 0) == SP_DTYPE_STRING;
    for (uint32_t axis = 0; axis < last; axis++)
        sp_rule_map_output(rule, 0, axis, sp_rule_input_axis(context, rule, 'd', 0, axis, SP_FACTOR_PARALLEL));
    uint8_t picked =
        sp_rule_input_axis(context, rule, 'v', 0, last, is_text ? SP_FACTOR_REPLICATE : SP_FACTOR_REDUCTION);
    rule->factors[picked].combiner = is_text ? SP_COMBINE_NONE : SP_COMBINE_SUM;
    sp_rule_positions_input(rule, 1, picked);
    for (uint32_t axis = 0; axis < rule->inputs[1].rank; axis++)
        sp_rule_map_output(rule, 0, to, sp_rule_input_axis(context, rule, 'i', 1, axis, SP_FACTOR_PARALLEL));
    rule->bytes = 2 * sp_output_bytes(context, 0) + sp_input_bytes(context, 1);
    return SP_OK;
}

/* ---- FeatureVectorizer ---------------------------------------------------------------------------------------- */

static enum sp_status read_columns(struct sp_op_context *context, struct sp_dim *columns)
{
    uint32_t count;
    const int64_t *given = sp_node_ints(context->node, "inputdimensions", &count);
    int64_t total = 0;
    if (given == NULL || count == 0)
        return SP_OK;
    if (count != context->node->input_count)
        return sp_op_fail(context, "ATTRIBUTE_RANK", "attribute 'inputdimensions' has %u items for %u inputs", count,
                          context->node->input_count);
    for (uint32_t i = 0; i < count; i++) {
        if (given[i] < 0 || !sp_add_i64(total, given[i], &total))
            return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute 'inputdimensions' holds %lld",
                              (long long)given[i]);
    }
    *columns = sp_dim_known(total);
    return SP_OK;
}

/* A vector is a matrix of one row. */
static enum sp_status shapes_vectorizer(struct sp_op_context *context)
{
    struct sp_dim rows = sp_dim_unknown(), columns = sp_dim_known(0);
    for (uint32_t input = 0; input < context->node->input_count; input++) {
        const struct sp_shape *x = sp_in_shape(context, input);
        if (x != NULL && x->rank != 1 && x->rank != 2)
            return sp_op_fail(context, "OPERAND_SHAPE", "its input %u has rank %u instead of 1 or 2", input, x->rank);
        struct sp_dim own = x == NULL ? sp_dim_unknown() : x->rank == 1 ? sp_dim_known(1) : x->dims[0];
        columns = sp_dim_add(context->dims, columns, x != NULL ? x->dims[x->rank - 1] : sp_dim_unknown());
        enum sp_status status = sp_join_dims(context, rows, own, &rows);
        if (status != SP_OK)
            return status;
    }
    enum sp_status status = read_columns(context, &columns);
    const struct sp_dim dims[2] = {rows, columns};
    return status != SP_OK ? status : sp_set_output(context, 0, SP_DTYPE_FLOAT, 2, dims);
}

/* Columns of any number are joined: their shards do not line up with those of the result. */
static enum sp_status rule_vectorizer(struct sp_op_context *context, struct sp_rule *rule)
{
    uint8_t row = sp_rule_output_axis(context, rule, 'n', 0, 0, SP_FACTOR_PARALLEL);
    struct sp_dim columns = context->node->outputs[0]->type.shape.dims[1];
    uint8_t joined = sp_factor_resized(rule, "j", SP_FACTOR_REPLICATE, columns);
    sp_rule_map_output(rule, 0, 1, joined);
    for (uint32_t input = 0; input < rule->input_count; input++) {
        if (rule->inputs[input].rank == 2)
            sp_rule_map_input(rule, input, 0, row);
        if (rule->inputs[input].rank != 0)
            sp_rule_map_input(rule, input, rule->inputs[input].rank - 1, joined);
    }
    return SP_OK;
}

const struct sp_op sp_ops_ml_features[] = {
    SP_ENTRY(ML, "ArrayFeatureExtractor", 1, 0, 2, 2, 1, 1, "[d.., v] [i..] -> [d.., i..]; v sum, whole for strings",
             ML " operator ArrayFeatureExtractor (1)", .shapes = shapes_extractor, .rule = rule_extractor,
             .lower = sp_lower_feature_extractor),
    SP_ENTRY(ML, "Binarizer", 1, 0, 1, 1, 1, 1, "[d..] -> [d..]", ML " operator Binarizer (1)", .shapes = shapes_same,
             .flops = 1),
    SP_ENTRY(ML, "CategoryMapper", 1, 0, 1, 1, 1, 1, "[d..] -> [d..]", ML " operator CategoryMapper (1)",
             .shapes = shapes_mapper, .flops = 1),
    SP_ENTRY(ML, "FeatureVectorizer", 1, 0, 1, UINT32_MAX, 1, 1, "[n, j].. -> [n, j]; j whole",
             ML " operator FeatureVectorizer (1)", .shapes = shapes_vectorizer, .rule = rule_vectorizer),
    SP_ENTRY(ML, "Imputer", 1, 0, 1, 1, 1, 1, "[d..] -> [d..]", ML " operator Imputer (1)", .shapes = shapes_same,
             .flops = 1, .lower = sp_lower_imputer),
    SP_ENTRY(ML, "LabelEncoder", 1, 0, 1, 1, 1, 1, "[d..] -> [d..]", ML " operator LabelEncoder (1, 2, 4)",
             .shapes = shapes_encoder, .flops = 1),
    SP_ENTRY(ML, "Normalizer", 1, 0, 1, 1, 1, 1, "[n, c] -> [n, c]; c max or sum", ML " operator Normalizer (1)",
             .shapes = shapes_normalizer, .rule = rule_normalizer, .lower = sp_lower_ml_normalizer),
    SP_ENTRY(ML, "OneHotEncoder", 1, 0, 1, 1, 1, 1, "[d..] -> [d.., k]", ML " operator OneHotEncoder (1)",
             .shapes = shapes_one_hot, .flops = 1, .lower = sp_lower_made_whole),
    SP_ENTRY(ML, "Scaler", 1, 0, 1, 1, 1, 1, "[d..] -> [d..]", ML " operator Scaler (1)", .shapes = shapes_float,
             .flops = 2, .lower = sp_lower_scaler),
    {.name = NULL},
};
