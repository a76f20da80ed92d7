/*
 * ai.onnx.ml: models whose parameters are attributes.
 *
 *     regressors    [n, f] -> [n, e]           n examples of f features, e targets
 *     classifiers   [n, f] -> [n] [n, e]       the label of the best of e classes, and the scores of all
 *
 * A vector of features is one example. Linear models add up features: a split leaves partial sums, joined before
 * anything that is not linear. Their classes and targets are computed one by one with their part of the parameters; the
 * label is a selection among them, a softmax behind the scores takes them together. A tree may ask for any feature and
 * gives to any target, and kernels of support vectors stand between both, so these have all features and all targets.
 *
 * FLOPs: linear 2 for each example, feature and target; support vectors 2 for each example, feature and vector, and 2
 * for each example, vector and class; trees, taken as balanced, 1 for each comparison on the way down each tree.
 */
#include <math.h>
#include <string.h>

#include "ops/lowering/functions.h"
#include "ops/table/factors.h"
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

#define ML "ai.onnx.ml"

/* ---- shapes --------------------------------------------------------------------------------------------------- */

static enum sp_status read_rows(struct sp_op_context *context, struct sp_dim *ret_rows)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    if (x != NULL && x->rank != 1 && x->rank != 2)
        return sp_op_fail(context, "OPERAND_SHAPE", "its input has rank %u instead of 1 or 2", x->rank);
    *ret_rows = x == NULL ? sp_dim_unknown() : x->rank == 1 ? sp_dim_known(1) : x->dims[0];
    return SP_OK;
}

static enum sp_status set_scores(struct sp_op_context *context, uint32_t output, enum sp_dtype dtype,
                                 struct sp_dim columns)
{
    struct sp_dim dims[2] = {sp_dim_unknown(), columns};
    enum sp_status status = read_rows(context, &dims[0]);
    return status != SP_OK ? status : sp_set_output(context, output, dtype, 2, dims);
}

/* Labels of their own type, scores one for each label; `has_scores` is false where the specification leaves open how
   many scores there are. */
static enum sp_status shapes_classes(struct sp_op_context *context, const char *int_labels, bool has_scores)
{
    const struct sp_attribute *strings = sp_node_attribute(context->node, "classlabels_strings");
    const struct sp_attribute *ints = sp_node_attribute(context->node, int_labels);
    bool is_text = strings != NULL && strings->count > 0;
    uint32_t count = is_text ? strings->count : ints != NULL ? ints->count : 0;
    struct sp_dim rows = sp_dim_unknown(), columns = sp_dim_known(count);
    enum sp_status status = read_rows(context, &rows);
    if (status == SP_OK)
        status = sp_set_output(context, 0, is_text ? SP_DTYPE_STRING : SP_DTYPE_INT64, 1, &rows);
    if (count == 0 || !has_scores)
        columns = sp_dim_fresh(context->dims, "Scores", sp_dim_unknown());
    return status != SP_OK ? status : set_scores(context, 1, SP_DTYPE_FLOAT, columns);
}

static enum sp_status shapes_linear_classifier(struct sp_op_context *context)
{
    return shapes_classes(context, "classlabels_ints", true);
}

static enum sp_status shapes_tree_classifier(struct sp_op_context *context)
{
    return shapes_classes(context, "classlabels_int64s", true);
}

/* Without probabilities the scores are raw, and runtimes differ in whether these are of classes or of pairs of them. */
static enum sp_status shapes_svm_classifier(struct sp_op_context *context)
{
    const struct sp_attribute *probabilities = sp_node_attribute(context->node, "prob_a");
    return shapes_classes(context, "classlabels_ints", probabilities != NULL && probabilities->count > 0);
}

static enum sp_status shapes_linear_regressor(struct sp_op_context *context)
{
    return set_scores(context, 0, SP_DTYPE_FLOAT, sp_dim_known(sp_node_int(context->node, "targets", 1)));
}

static enum sp_status shapes_svm_regressor(struct sp_op_context *context)
{
    return set_scores(context, 0, SP_DTYPE_FLOAT, sp_dim_known(1));
}

static enum sp_status shapes_trees(struct sp_op_context *context, enum sp_dtype dtype)
{
    bool is_given = sp_node_attribute(context->node, "n_targets") != NULL;
    return set_scores(context, 0, dtype,
                      is_given ? sp_dim_known(sp_node_int(context->node, "n_targets", 1))
                               : sp_dim_fresh(context->dims, "Targets", sp_dim_unknown()));
}

static enum sp_status shapes_tree_regressor(struct sp_op_context *context)
{
    return shapes_trees(context, SP_DTYPE_FLOAT);
}

static enum sp_status shapes_tree_ensemble(struct sp_op_context *context)
{
    return shapes_trees(context, sp_in_dtype(context, 0));
}

/* ---- factors -------------------------------------------------------------------------------------------------- */

struct parts {
    struct sp_factor_list row; /* the examples' factor, or nothing for one example */
    uint8_t feature, score;
};

/* Whether the scores are put through a softmax. */
static bool has_softmax(const struct sp_op_context *context)
{
    return strncmp(sp_node_string(context->node, "post_transform", "NONE"), "SOFTMAX", 7) == 0;
}

static struct parts map_model(struct sp_op_context *context, struct sp_rule *rule, bool is_linear)
{
    uint32_t last = rule->inputs[0].rank - 1, scores = rule->output_count > 1 ? 1 : 0;
    struct parts parts = {0};
    if (last == 1) {
        uint8_t row = sp_rule_input_axis(context, rule, 'n', 0, 0, SP_FACTOR_PARALLEL);
        for (uint32_t output = 0; output < rule->output_count; output++) {
            if (rule->outputs[output].rank > 0)
                sp_rule_map_output(rule, output, 0, row);
        }
        sp_factor_list_add(&parts.row, row);
    }
    parts.feature =
        sp_rule_input_axis(context, rule, 'f', 0, last, is_linear ? SP_FACTOR_REDUCTION : SP_FACTOR_REPLICATE);
    rule->factors[parts.feature].combiner = is_linear ? SP_COMBINE_SUM : SP_COMBINE_NONE;
    const struct sp_value *value = context->node->outputs[scores];
    struct sp_dim extent = value != NULL ? value->type.shape.dims[1] : sp_dim_unknown();
    parts.score = sp_rule_factor(rule, "e", is_linear ? SP_FACTOR_PARALLEL : SP_FACTOR_REPLICATE, extent);
    if (is_linear && (scores == 1 || has_softmax(context))) {
        rule->factors[parts.score].kind = SP_FACTOR_REDUCTION;
        rule->factors[parts.score].combiner = scores == 1 ? SP_COMBINE_SELECT : SP_COMBINE_SOFTMAX;
    }
    if (value != NULL)
        sp_rule_map_output(rule, scores, 1, parts.score);
    return parts;
}

/* `times` FLOPs for each example and each of a factor. */
static void term_with(struct sp_rule *rule, double times, const struct parts *parts, uint8_t factor)
{
    struct sp_factor_list work = parts->row;
    sp_factor_list_add(&work, factor);
    sp_rule_term_list(rule, times, &work);
}

static void term_linear(struct sp_rule *rule, const struct parts *parts)
{
    struct sp_factor_list work = parts->row;
    sp_factor_list_add(&work, parts->feature);
    sp_factor_list_add(&work, parts->score);
    sp_rule_term_list(rule, 2, &work);
}

static enum sp_status rule_linear(struct sp_op_context *context, struct sp_rule *rule)
{
    struct parts parts = map_model(context, rule, true);
    term_linear(rule, &parts);
    return SP_OK;
}

/* Support vectors of a regressor, or of all classes; 0 for a linear model, which has coefficients only. */
static double support_vectors(const struct sp_op_context *context)
{
    uint32_t count;
    const int64_t *per_class = sp_node_ints(context->node, "vectors_per_class", &count);
    double total = (double)sp_node_int(context->node, "n_supports", 0);
    for (uint32_t i = 0; per_class != NULL && i < count; i++)
        total += (double)per_class[i];
    return total > 0 ? total : 0;
}

static enum sp_status rule_svm(struct sp_op_context *context, struct sp_rule *rule)
{
    double vectors = support_vectors(context);
    struct parts parts = map_model(context, rule, false);
    if (vectors == 0) {
        term_linear(rule, &parts);
        return SP_OK;
    }
    term_with(rule, 2 * vectors, &parts, parts.feature);
    term_with(rule, 2 * vectors, &parts, parts.score);
    return SP_OK;
}

/* Comparisons of one example. TreeEnsemble-5 lists roots and inner nodes; before it, leaves are nodes too, and nodes
   of one tree follow each other. */
static double comparisons(const struct sp_op_context *context)
{
    uint32_t roots, nodes;
    double trees = 0, inner;
    if (sp_node_ints(context->node, "tree_roots", &roots) != NULL) {
        (void)sp_node_ints(context->node, "nodes_featureids", &nodes);
        trees = roots;
        inner = nodes;
    } else {
        const int64_t *tree = sp_node_ints(context->node, "nodes_treeids", &nodes);
        for (uint32_t i = 0; i < nodes; i++)
            trees += i == 0 || tree[i] != tree[i - 1];
        inner = (nodes - trees) / 2;
    }
    return trees > 0 ? trees * ceil(log2(inner / trees + 1)) : 0;
}

static enum sp_status rule_trees(struct sp_op_context *context, struct sp_rule *rule)
{
    struct parts parts = map_model(context, rule, false);
    sp_rule_term_list(rule, comparisons(context), &parts.row);
    return SP_OK;
}

const struct sp_op sp_ops_ml_models[] = {
    SP_ENTRY(ML, "LinearClassifier", 1, 0, 1, 1, 2, 2, "[n, f] -> [n] [n, e]; f sum, e select",
             ML " operator LinearClassifier (1)", .shapes = shapes_linear_classifier, .rule = rule_linear,
             .lower = sp_lower_linear_model),
    SP_ENTRY(ML, "LinearRegressor", 1, 0, 1, 1, 1, 1, "[n, f] -> [n, e]; f sum, e softmax where the scores are",
             ML " operator LinearRegressor (1)", .shapes = shapes_linear_regressor, .rule = rule_linear,
             .lower = sp_lower_linear_model),
    SP_ENTRY(ML, "SVMClassifier", 1, 0, 1, 1, 2, 2, "[n, f] -> [n] [n, e]; f, e whole",
             ML " operator SVMClassifier (1)", .shapes = shapes_svm_classifier, .rule = rule_svm),
    SP_ENTRY(ML, "SVMRegressor", 1, 0, 1, 1, 1, 1, "[n, f] -> [n, e]; f, e whole", ML " operator SVMRegressor (1)",
             .shapes = shapes_svm_regressor, .rule = rule_svm),
    SP_ENTRY(ML, "TreeEnsemble", 5, 0, 1, 1, 1, 1, "[n, f] -> [n, e]; f, e whole", ML " operator TreeEnsemble (5)",
             .shapes = shapes_tree_ensemble, .rule = rule_trees),
    SP_ENTRY(ML, "TreeEnsembleClassifier", 1, 4, 1, 1, 2, 2, "[n, f] -> [n] [n, e]; f, e whole",
             ML " operator TreeEnsembleClassifier (1, 3), deprecated in 5", .shapes = shapes_tree_classifier,
             .rule = rule_trees),
    SP_ENTRY(ML, "TreeEnsembleRegressor", 1, 4, 1, 1, 1, 1, "[n, f] -> [n, e]; f, e whole",
             ML " operator TreeEnsembleRegressor (1, 3), deprecated in 5", .shapes = shapes_tree_regressor,
             .rule = rule_trees),
    {.name = NULL},
};
