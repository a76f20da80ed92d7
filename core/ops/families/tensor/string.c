/*
 * Strings. A host's work, counted 1 for each element as other elementwise operators.
 *
 *     StringConcat      [i..] [i..] -> [i..]           size-1 axes broadcast
 *     RegexFullMatch    [d..] -> [d..]
 *     StringSplit       [d..] -> [d.., w] [d..]        d.. whole: w is the greatest number of parts of any element
 *     StringNormalizer  [c] or [1, c] -> [c]           c whole with stopwords: who removes elements moves the others
 *     TfIdfVectorizer   [c] or [n, c] -> [o] or [n, o] c whole: n-grams reach across every border
 */
#include "base/arith.h"
#include "base/limits.h"
#include "ops/lowering/functions.h"
#include "ops/table/factors.h"
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

/* ---- elementwise ---------------------------------------------------------------------------------------------- */

static enum sp_status shapes_concat(struct sp_op_context *context)
{
    const struct sp_shape *a = sp_in_shape(context, 0), *b = sp_in_shape(context, 1);
    struct sp_shape result = {0};
    enum sp_status status = a != NULL && b != NULL ? sp_broadcast(context, a, b, &result) : SP_OK;
    return status != SP_OK ? status : sp_set_output_shape(context, 0, SP_DTYPE_STRING, &result);
}

static enum sp_status shapes_match(struct sp_op_context *context)
{
    return sp_set_output_shape(context, 0, SP_DTYPE_BOOL, sp_in_shape(context, 0));
}

/* ---- StringSplit ---------------------------------------------------------------------------------------------- */

static enum sp_status shapes_split(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    struct sp_dim dims[SP_MAX_RANK + 1];
    enum sp_status status = sp_set_output_shape(context, 1, SP_DTYPE_INT64, x);
    if (status != SP_OK || x == NULL)
        return status != SP_OK ? status : sp_set_output_unranked(context, 0, SP_DTYPE_STRING);
    for (uint32_t axis = 0; axis < x->rank; axis++)
        dims[axis] = x->dims[axis];
    dims[x->rank] = sp_dim_fresh(context->dims, "StringSplit", sp_dim_unknown());
    return sp_set_output(context, 0, SP_DTYPE_STRING, x->rank + 1, dims);
}

/* ---- StringNormalizer ----------------------------------------------------------------------------------------- */

static bool has_stopwords(const struct sp_op_context *context)
{
    const struct sp_attribute *words = sp_node_attribute(context->node, "stopwords");
    return words != NULL && words->count > 0;
}

/* What is left of no elements is one empty string. */
static enum sp_status shapes_normalizer(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    struct sp_dim dims[2];
    if (x == NULL)
        return sp_set_output_unranked(context, 0, SP_DTYPE_STRING);
    if (x->rank != 1 && (x->rank != 2 || (sp_dim_is_known(x->dims[0]) && !sp_dim_is(x->dims[0], 1))))
        return sp_op_fail(context, "OPERAND_SHAPE", "its input must be a vector or a matrix of one row");
    dims[0] = sp_dim_known(1);
    dims[x->rank - 1] = has_stopwords(context) ? sp_dim_fresh(context->dims, "StringNormalizer", sp_dim_unknown())
                                               : sp_dim_max(context->dims, x->dims[x->rank - 1], sp_dim_known(1));
    return sp_set_output(context, 0, SP_DTYPE_STRING, x->rank, dims);
}

static enum sp_status rule_normalizer(struct sp_op_context *context, struct sp_rule *rule)
{
    uint32_t last = rule->inputs[0].rank - 1;
    bool is_whole = has_stopwords(context) || sp_dim_is(sp_in_shape(context, 0)->dims[last], 0);
    enum sp_status status = sp_rule_from_text(context, rule, is_whole ? "[c] -> [_]; c whole" : "[c] -> [c]", 0, NULL);
    sp_rule_term_all(rule, 1);
    return status;
}

/* ---- TfIdfVectorizer ------------------------------------------------------------------------------------------ */

/* One output for each index that an n-gram has. */
static enum sp_status vocabulary(struct sp_op_context *context, struct sp_dim *ret_count)
{
    uint32_t count;
    const int64_t *indexes = sp_node_ints(context->node, "ngram_indexes", &count);
    int64_t greatest = -1, size = 0;
    if (indexes == NULL || count == 0)
        return sp_op_fail(context, "MISSING_ATTRIBUTE", "the attribute 'ngram_indexes' is missing");
    for (uint32_t i = 0; i < count; i++) {
        if (indexes[i] < 0)
            return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute 'ngram_indexes' holds %lld",
                              (long long)indexes[i]);
        greatest = indexes[i] > greatest ? indexes[i] : greatest;
    }
    if (!sp_add_i64(greatest, 1, &size))
        return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute 'ngram_indexes' holds %lld", (long long)greatest);
    *ret_count = sp_dim_known(size);
    return SP_OK;
}

static enum sp_status shapes_tf_idf(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    struct sp_dim dims[2];
    if (x == NULL)
        return sp_set_output_unranked(context, 0, SP_DTYPE_FLOAT);
    if (x->rank != 1 && x->rank != 2)
        return sp_op_fail(context, "OPERAND_SHAPE", "its input has rank %u instead of 1 or 2", x->rank);
    dims[0] = x->dims[0];
    enum sp_status status = vocabulary(context, &dims[x->rank - 1]);
    return status != SP_OK ? status : sp_set_output(context, 0, SP_DTYPE_FLOAT, x->rank, dims);
}

/* 1 FLOP for each element, length of n-grams and skip: what is looked up. */
static enum sp_status rule_tf_idf(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_node *node = context->node;
    double lengths = (double)sp_node_int(node, "max_gram_length", 1) - (double)sp_node_int(node, "min_gram_length", 1);
    double skips = (double)sp_node_int(node, "max_skip_count", 0);
    enum sp_status status = sp_rule_from_entry(context, rule, node->op);
    sp_rule_term_named(rule, (lengths > 0 ? lengths + 1 : 1) * (skips > 0 ? skips + 1 : 1), "n c");
    return status;
}

const struct sp_op sp_ops_string[] = {
    SP_ENTRY("", "StringConcat", 20, 0, 2, 2, 1, 1, "[i..] [i..] -> [i..]; size-1 axes broadcast",
             "ONNX operator StringConcat (20)", .shapes = shapes_concat, .flops = 1),
    SP_ENTRY("", "RegexFullMatch", 20, 0, 1, 1, 1, 1, "[d..] -> [d..]", "ONNX operator RegexFullMatch (20)",
             .shapes = shapes_match, .flops = 1),
    SP_ENTRY("", "StringSplit", 20, 0, 1, 1, 2, 2, "[d..] -> [d.., _] [d..]; d.. whole",
             "ONNX operator StringSplit (20)", .shapes = shapes_split, .flops = 1),
    SP_ENTRY("", "StringNormalizer", 10, 0, 1, 1, 1, 1, "[c] -> [c]; with stopwords c whole",
             "ONNX operator StringNormalizer (10)", .shapes = shapes_normalizer, .rule = rule_normalizer),
    SP_ENTRY("", "TfIdfVectorizer", 9, 0, 1, 1, 1, 1, "[n, c] -> [n, o]; c whole", "ONNX operator TfIdfVectorizer (9)",
             .shapes = shapes_tf_idf, .rule = rule_tf_idf, .lower = sp_lower_made_whole),
    {.name = NULL},
};
