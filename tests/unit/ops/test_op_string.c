/* Strings. Expected values follow ONNX' Operators.md; FLOPs are the conventions stated in core/ops/families/tensor/string.c. */
#include "expect_op.h"

TestSuite(op_string, .fini = stop);

static void text(const char *name, const char *dims)
{
    build_input(&build, name, SP_DTYPE_STRING, dims);
}

Test(op_string, concatenation_broadcasts)
{
    start(20);
    text("a", "3,1");
    text("b", "n");
    struct sp_node *node = build_node(&build, "StringConcat", "a b", "c");
    infer();
    EXPECT_TYPE("c", "string[3,n]");
    EXPECT_RULE(node, "[d0,_] [d1] -> [d0,d1]");
}

Test(op_string, match_is_a_truth_for_each)
{
    start(20);
    text("a", "2,3");
    struct sp_node *node = build_node(&build, "RegexFullMatch", "a", "m");
    infer();
    EXPECT_TYPE("m", "bool[2,3]");
    EXPECT_RULE(node, "[d0,d1] -> [d0,d1]");
    EXPECT_FLOPS(node, 6);
}

Test(op_string, split_is_as_wide_as_the_widest)
{
    start(20);
    text("a", "2,n");
    struct sp_node *node = build_node(&build, "StringSplit", "a", "y z");
    infer();
    EXPECT_TYPE("y", "string[2,n,StringSplit_0]");
    EXPECT_TYPE("z", "int64[2,n]");
    EXPECT_RULE(node, "[d0,d1] -> [d0,d1,_] [d0,d1]  d0: replicate; d1: replicate");
}

Test(op_string, normalizer_keeps_the_shape_unless_it_removes_words)
{
    start(10);
    text("a", "5");
    text("b", "1,5");
    text("e", "0");
    struct sp_node *upper = build_node(&build, "StringNormalizer", "a", "x");
    struct sp_node *stopped = build_node(&build, "StringNormalizer", "b", "y");
    struct sp_node *empty = build_node(&build, "StringNormalizer", "e", "z");
    build_attr_strings(&build, stopped, "stopwords", "monday tuesday");
    infer();
    EXPECT_TYPE("x", "string[5]");
    EXPECT_TYPE("y", "string[1,StringNormalizer_1]");
    EXPECT_TYPE("z", "string[1]"); /* of nothing, one empty string is left */
    EXPECT_RULE(upper, "[c] -> [c]");
    EXPECT_RULE(stopped, "[_,c] -> [_,_]  c: replicate");
    EXPECT_RULE(empty, "[c] -> [_]  c: replicate");
    stop();
    start(10);
    text("a", "2,5");
    build_node(&build, "StringNormalizer", "a", "x");
    refused("OPERAND_SHAPE");
    start(10);
}

static struct sp_node *tf_idf(const char *dims, uint32_t count, const int64_t *indexes)
{
    start(9);
    build_input(&build, "x", SP_DTYPE_INT32, dims);
    struct sp_node *node = build_node(&build, "TfIdfVectorizer", "x", "y");
    build_attr_int(&build, node, "min_gram_length", 1);
    build_attr_int(&build, node, "max_gram_length", 2);
    build_attr_int(&build, node, "max_skip_count", 5);
    build_attr_ints(&build, node, "ngram_indexes", count, indexes);
    return node;
}

Test(op_string, vectorizer_counts_into_its_indexes)
{
    static const int64_t indexes[] = {0, 1, 2, 3, 4, 6, 5};
    struct sp_node *node = tf_idf("2,6", 7, indexes);
    infer();
    EXPECT_TYPE("y", "float32[2,7]");
    EXPECT_RULE(node, "[n,c] -> [n,o]  c: replicate");
    EXPECT_FLOPS(node, 12.0 * 2 * 6); /* elements, two lengths, skips of 0 to 5 */
    stop();
    node = tf_idf("12", 7, indexes);
    infer();
    EXPECT_TYPE("y", "float32[7]");
    EXPECT_RULE(node, "[c] -> [o]  c: replicate");
    stop();
    tf_idf("12", 0, NULL);
    refused("MISSING_ATTRIBUTE");
    tf_idf("12", 1, (int64_t[]){-1});
    refused("ATTRIBUTE_VALUE");
    tf_idf("12", 1, (int64_t[]){INT64_MAX});
    refused("ATTRIBUTE_VALUE");
    tf_idf("1,2,3", 1, (int64_t[]){1});
    refused("OPERAND_SHAPE");
    start(9);
}
