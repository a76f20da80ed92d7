/*
 * ai.onnx.ml on shards: operators that prepare features (rules in ml_features.c), and linear models (ml_models.c).
 *
 * A list attribute with an entry for each feature is cut as the features are.
 *
 * Linear models: a device multiplies its features with its part of the coefficients, for its scores. The sums are
 * combined over the features and gathered over the scores; intercepts and what follows them (a softmax, the label of
 * the best) come after that, from the operator itself with one coefficient of 1 for each score. Runtimes have models of
 * scores of their own (one score for two classes, for example), and so each of these comes out as it would.
 */
#include <string.h>

#include "ops/lowering/functions.h"
#include "ops/lowering/internal.h"
#include "ops/lowering/parts.h"
#include "ops/lowering/places.h"
#include "ops/lowering/statistics.h"

#define ML "ai.onnx.ml"

/* ---- lists with an entry for each feature ----------------------------------------------------------------------- */

static int64_t range_count(const struct sp_axis_ranges *ranges)
{
    int64_t count = 0;
    for (uint32_t i = 0; i < ranges->count; i++)
        count += ranges->ranges[i].limit - ranges->ranges[i].start;
    return count;
}

/* The attribute's entries for this device's part of an axis, or the attribute as it is where it has no entry for each
   feature. False where there is nothing to replace. */
static bool cut_list(struct sp_lowering *lower, const char *name, const struct sp_lower_axis *axis,
                     struct sp_lower_attribute *ret_attribute)
{
    const struct sp_attribute *attribute = sp_node_attribute(lower->node, name);
    if (attribute == NULL || !axis->is_cut || (int64_t)attribute->count != axis->extent ||
        (attribute->type != SP_ATTR_FLOATS && attribute->type != SP_ATTR_INTS))
        return false;
    const uint32_t count = (uint32_t)range_count(&axis->ranges);
    double *floats = SP_LOWER_ARRAY(lower, count, double);
    int64_t *ints = SP_LOWER_ARRAY(lower, count, int64_t);
    uint32_t used = 0;
    for (uint32_t i = 0; floats != NULL && ints != NULL && i < axis->ranges.count; i++) {
        for (int64_t at = axis->ranges.ranges[i].start; at < axis->ranges.ranges[i].limit; at++, used++) {
            if (attribute->type == SP_ATTR_FLOATS)
                floats[used] = attribute->floats[at];
            else
                ints[used] = attribute->ints[at];
        }
    }
    *ret_attribute = (struct sp_lower_attribute){
        .name = name, .type = attribute->type, .count = count, .ints = ints, .floats = floats};
    return sp_lower_is_fine(lower);
}

/* Features are the elements of axis 1, or of a vector. */
static enum sp_status by_feature(struct sp_lowering *lower, uint32_t count, const char *const *names)
{
    const struct sp_lower_operand *x = &lower->inputs[0];
    struct sp_lower_attribute attributes[2];
    uint32_t used = 0;
    for (uint32_t axis = 2; axis < x->rank; axis++)
        sp_lower_refuse(lower, sp_lower_input_factor(lower, 0, axis), "its features are those of a matrix");
    for (uint32_t i = 0; i < count && x->rank > 0; i++)
        used += cut_list(lower, names[i], &x->axes[x->rank == 1 ? 0 : 1], &attributes[used]);
    sp_lower_output(lower, 0, sp_lower_same(lower, 0, NULL, used, attributes));
    return sp_lower_status(lower);
}

enum sp_status sp_lower_imputer(struct sp_lowering *lower)
{
    return by_feature(lower, 2, (const char *const[]){"imputed_value_floats", "imputed_value_int64s"});
}

enum sp_status sp_lower_scaler(struct sp_lowering *lower)
{
    return by_feature(lower, 2, (const char *const[]){"offset", "scale"});
}

/* ---- Normalizer ------------------------------------------------------------------------------------------------- */

/* Rows of zeros stay as they are. */
enum sp_status sp_lower_ml_normalizer(struct sp_lowering *lower)
{
    const struct sp_lower_span span = sp_lower_reductions(lower, 0);
    const char *norm = sp_node_string(lower->node, "norm", "MAX");
    if (span.factor_count == 0)
        return sp_lower_default(lower);
    const bool is_max = strcmp(norm, "MAX") == 0, is_square = strcmp(norm, "L2") == 0;
    struct sp_piece *x = sp_lower_cast(lower, sp_lower_input(lower, 0), SP_DTYPE_FLOAT), *size = x;
    if (is_square)
        size = sp_lower_binary(lower, "Mul", x, x);
    else if (!is_max)
        size = sp_lower_unary(lower, "Abs", x);
    size = sp_lower_reduce_all(lower, is_max ? "ReduceMax" : "ReduceSum", is_max ? SP_COMBINE_MAX : SP_COMBINE_SUM,
                               size, &span, true);
    if (is_square)
        size = sp_lower_unary(lower, "Sqrt", size);
    struct sp_piece *is_zero = sp_lower_compare(lower, "Equal", size, sp_lower_scalar(lower, SP_DTYPE_FLOAT, 0));
    size = sp_lower_where(lower, is_zero, sp_lower_scalar(lower, SP_DTYPE_FLOAT, 1), size);
    sp_lower_output(lower, 0, sp_lower_binary(lower, "Div", x, size));
    return sp_lower_status(lower);
}

/* ---- ArrayFeatureExtractor -------------------------------------------------------------------------------------- */

/* A device gives the features that it has, and zeros for the rest. */
enum sp_status sp_lower_feature_extractor(struct sp_lowering *lower)
{
    const uint8_t picked = sp_lower_input_factor(lower, 0, lower->inputs[0].rank - 1);
    struct sp_piece *inputs[] = {sp_lower_input(lower, 0), sp_lower_input(lower, 1)}, *is_here = NULL;
    if (!sp_lower_is_split(lower, picked)) {
        sp_lower_output(lower, 0, sp_lower_same(lower, 2, inputs, 0, NULL));
        return sp_lower_status(lower);
    }
    struct sp_piece *zero = sp_lower_int(lower, SP_DTYPE_INT64, 0);
    struct sp_piece *places = sp_lower_locate(lower, picked, inputs[1], &is_here);
    inputs[1] = sp_lower_where(lower, is_here, places, zero);
    struct sp_piece *y = sp_lower_same(lower, 2, inputs, 0, NULL);
    is_here = sp_lower_reshape(lower, is_here, 1, (const int64_t[]){-1});
    sp_lower_output_partial(lower, 0, sp_lower_masked(lower, is_here, y), SP_COMBINE_SUM, 1, &picked);
    return sp_lower_status(lower);
}

/* ---- linear models ---------------------------------------------------------------------------------------------- */

struct linear {
    uint8_t feature, score;                  /* factors */
    uint32_t scores;                         /* output that has them */
    int64_t features, rows;                  /* of the coefficients */
    const double *coefficients, *intercepts; /* intercepts may be NULL */
};

/* The coefficients of a model as its operator holds them: a row for each score. False, and everything whole, where the
   attributes are not those of this input. */
static bool read_linear(struct sp_lowering *lower, struct linear *ret_linear)
{
    const struct sp_attribute *coefficients = sp_node_attribute(lower->node, "coefficients");
    const struct sp_attribute *intercepts = sp_node_attribute(lower->node, "intercepts");
    const uint32_t last = lower->inputs[0].rank - 1;
    struct linear linear = {.scores = lower->output_count > 1 ? 1 : 0,
                            .feature = sp_lower_input_factor(lower, 0, last)};
    linear.features = lower->inputs[0].axes[last].extent;
    linear.score = sp_lower_output_factor(lower, linear.scores, 1);
    int64_t count = coefficients != NULL && coefficients->type == SP_ATTR_FLOATS ? coefficients->count : 0;
    if (linear.features <= 0 || count == 0 || count % linear.features != 0 ||
        (intercepts != NULL && intercepts->count > 0 && (int64_t)intercepts->count != count / linear.features)) {
        sp_lower_refuse(lower, linear.feature, "its coefficients are not one for each feature");
        sp_lower_refuse(lower, linear.score, "its coefficients are not one for each feature");
        return false;
    }
    linear.rows = count / linear.features;
    linear.coefficients = coefficients->floats;
    linear.intercepts = intercepts != NULL && intercepts->count > 0 ? intercepts->floats : NULL;
    *ret_linear = linear;
    return true;
}

/* This device's scores from its features, without intercepts: [n, rows here]. */
static struct sp_piece *own_scores(struct sp_lowering *lower, const struct linear *linear,
                                   const struct sp_axis_ranges *rows)
{
    const struct sp_axis_ranges *features = &lower->inputs[0].axes[lower->inputs[0].rank - 1].ranges;
    const int64_t row_count = range_count(rows), count = row_count * range_count(features);
    double *list = SP_LOWER_ARRAY(lower, (size_t)count, double);
    struct sp_piece *x = sp_lower_cast(lower, sp_lower_input(lower, 0), SP_DTYPE_FLOAT), *y;
    size_t used = 0;
    if (list == NULL || x == NULL)
        return NULL;
    for (uint32_t i = 0; i < rows->count; i++)
        for (int64_t row = rows->ranges[i].start; row < rows->ranges[i].limit; row++)
            for (uint32_t k = 0; k < features->count; k++)
                for (int64_t at = features->ranges[k].start; at < features->ranges[k].limit; at++)
                    list[used++] = linear->coefficients[row * linear->features + at];
    const struct sp_lower_attribute attributes[] = {
        {.name = "coefficients", .type = SP_ATTR_FLOATS, .count = (uint32_t)count, .floats = list},
        SP_INT_ATTR("targets", row_count)};
    const enum sp_dtype dtype = SP_DTYPE_FLOAT;
    sp_lower_op_many(lower, &(struct sp_lower_call){ML, "LinearRegressor", 1, &x, 2, attributes, 1}, &dtype, &y);
    const int64_t dims[] = {x->dims == NULL || x->rank == 1 ? 1 : x->dims[0], row_count};
    sp_piece_set_dims(lower, y, 2, dims);
    return y;
}

#define MOST_SCORES 256 /* of which each is multiplied with a row of as many coefficients */

/* The operator itself on all scores: intercepts, and what follows. `ret_outputs` are for all scores. */
static void finish(struct sp_lowering *lower, const struct linear *linear, struct sp_piece *scores,
                   struct sp_piece **ret_outputs)
{
    double *ones = SP_LOWER_ARRAY(lower, (size_t)(linear->rows * linear->rows), double);
    double *zeros = SP_LOWER_ARRAY(lower, (size_t)linear->rows, double);
    for (int64_t i = 0; ones != NULL && i < linear->rows; i++)
        ones[i * linear->rows + i] = 1;
    const struct sp_lower_attribute attributes[] = {
        {.name = "coefficients",
         .type = SP_ATTR_FLOATS,
         .count = (uint32_t)(linear->rows * linear->rows),
         .floats = ones},
        {.name = "intercepts",
         .type = SP_ATTR_FLOATS,
         .count = (uint32_t)linear->rows,
         .floats = linear->intercepts == NULL ? zeros : linear->intercepts}};
    for (uint32_t i = 0; i < lower->output_count; i++)
        ret_outputs[i] = NULL;
    if (sp_lower_is_fine(lower))
        sp_lower_same_many(lower, 1, &scores, 2, attributes, ret_outputs);
}

/* Says how many columns a matrix of scores has. */
static void set_rows(struct sp_lowering *lower, struct sp_piece *scores, int64_t rows)
{
    if (scores == NULL)
        return;
    const int64_t dims[] = {scores->dims == NULL ? -1 : scores->dims[0], rows};
    sp_piece_set_dims(lower, scores, 2, dims);
}

enum sp_status sp_lower_linear_model(struct sp_lowering *lower)
{
    struct linear linear;
    struct sp_piece *outputs[2] = {NULL, NULL};
    if (!read_linear(lower, &linear))
        return sp_lower_default(lower);
    const bool is_cut = sp_lower_is_split(lower, linear.score);
    if (!is_cut && !sp_lower_is_split(lower, linear.feature))
        return sp_lower_default(lower);
    if (is_cut && lower->factors[linear.score].extent != linear.rows)
        sp_lower_refuse(lower, linear.score, "it has not one row of coefficients for each score");
    if (is_cut && !sp_lower_is_even(lower, linear.score))
        sp_lower_refuse(lower, linear.score, "its parts are not one after the other");
    if (linear.rows > MOST_SCORES) {
        sp_lower_refuse(lower, linear.feature, "it has too many scores");
        sp_lower_refuse(lower, linear.score, "it has too many scores");
    }
    const struct sp_range all = {0, linear.rows};
    const struct sp_axis_ranges every = {1, (struct sp_range *)&all};
    struct sp_piece *scores = own_scores(lower, &linear, is_cut ? &lower->factors[linear.score].ranges : &every);
    scores = sp_lower_all_reduce(lower, scores, SP_COMBINE_SUM, 1, &linear.feature);
    if (is_cut) {
        scores = sp_lower_all_gather(lower, scores, linear.score, 1);
        set_rows(lower, scores, linear.rows);
    }
    finish(lower, &linear, scores, outputs);
    if (linear.scores == 1 && outputs[0] != NULL)
        sp_lower_output(lower, 0, outputs[0]);
    struct sp_piece *all_scores = outputs[linear.scores];
    if (all_scores != NULL && is_cut) {
        set_rows(lower, all_scores, linear.rows);
        all_scores = sp_lower_keep_own(lower, all_scores, 1, linear.score, 0);
    }
    if (all_scores != NULL)
        sp_lower_output(lower, linear.scores, all_scores);
    return sp_lower_status(lower);
}
