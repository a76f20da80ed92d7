/* ai.onnx.ml. Expected values follow ONNX' Operators-ml.md; FLOPs are the conventions stated in core/ops/families/math/ml_features.c
   and core/ops/families/math/ml_models.c. */
#include "expect_op.h"

#define ML "ai.onnx.ml"

TestSuite(op_ml, .fini = stop);

static void start_ml(int64_t version)
{
    start(20);
    build_opset(&build, ML, version);
}

static struct sp_node *ml(const char *op, const char *inputs, const char *outputs)
{
    return build_node_in(&build, ML, op, inputs, outputs);
}

/* ---- features ------------------------------------------------------------------------------------------------- */

Test(op_ml, elementwise_operators_keep_the_shape)
{
    start_ml(1);
    build_input(&build, "i", SP_DTYPE_INT64, "n,4");
    build_input(&build, "s", SP_DTYPE_STRING, "n,4");
    ml("Binarizer", "i", "b");
    ml("Imputer", "i", "m");
    struct sp_node *scaler = ml("Scaler", "i", "f");
    ml("CategoryMapper", "i", "c");
    ml("CategoryMapper", "s", "d");
    ml("LabelEncoder", "s", "e"); /* version 1 goes by the input's type */
    infer();
    EXPECT_TYPE("b", "int64[n,4]");
    EXPECT_TYPE("m", "int64[n,4]");
    EXPECT_TYPE("f", "float32[n,4]");
    EXPECT_TYPE("c", "string[n,4]");
    EXPECT_TYPE("d", "int64[n,4]");
    EXPECT_TYPE("e", "int64[n,4]");
    EXPECT_RULE(scaler, "[d0,d1] -> [d0,d1]");
    stop();
    start_ml(1);
    input("x", "4");
    ml("CategoryMapper", "x", "y");
    refused("WRONG_DATA_TYPE");
    start_ml(1);
}

Test(op_ml, label_encoder_has_the_type_of_its_values)
{
    start_ml(2);
    build_input(&build, "s", SP_DTYPE_STRING, "2,3");
    struct sp_node *floats = ml("LabelEncoder", "s", "f");
    struct sp_node *strings = ml("LabelEncoder", "s", "t");
    struct sp_node *ints = ml("LabelEncoder", "s", "i");
    build_attr_floats(&build, floats, "values_floats", 1, (double[]){1});
    build_attr_strings(&build, strings, "values_strings", "a b");
    build_attr_ints(&build, ints, "values_int64s", 1, (int64_t[]){1});
    infer();
    EXPECT_TYPE("f", "float32[2,3]");
    EXPECT_TYPE("t", "string[2,3]");
    EXPECT_TYPE("i", "int64[2,3]");
    stop();
    start_ml(4);
    build_input(&build, "s", SP_DTYPE_STRING, "2,3");
    ml("LabelEncoder", "s", "y");
    refused("MISSING_ATTRIBUTE");
    start_ml(4);
}

Test(op_ml, normalizer_combines_norms)
{
    start_ml(1);
    build_input(&build, "x", SP_DTYPE_DOUBLE, "2,5");
    struct sp_node *max = ml("Normalizer", "x", "y"), *sum = ml("Normalizer", "x", "z");
    build_attr_string(&build, sum, "norm", "L2");
    infer();
    EXPECT_TYPE("y", "float32[2,5]");
    EXPECT_RULE(max, "[d0,d1] -> [d0,d1]  d1: max reduction");
    EXPECT_RULE(sum, "[d0,d1] -> [d0,d1]  d1: sum reduction");
    EXPECT_FLOPS(sum, 30);
    stop();
    start_ml(1);
    input("x", "2,5");
    build_attr_string(&build, ml("Normalizer", "x", "y"), "norm", "L3");
    refused("ATTRIBUTE_VALUE");
    start_ml(1);
    input("x", "2,5,1");
    ml("Normalizer", "x", "y");
    refused("OPERAND_SHAPE");
    start_ml(1);
}

Test(op_ml, one_hot_encoder_adds_an_axis)
{
    start_ml(1);
    build_input(&build, "x", SP_DTYPE_INT64, "n,2");
    struct sp_node *node = ml("OneHotEncoder", "x", "y");
    build_attr_ints(&build, node, "cats_int64s", 3, (int64_t[]){7, 8, 9});
    infer();
    EXPECT_TYPE("y", "float32[n,2,3]");
    EXPECT_RULE(node, "[d0,d1] -> [d0,d1,k]");
    stop();
    start_ml(1);
    input("x", "2");
    ml("OneHotEncoder", "x", "y");
    refused("ATTRIBUTE_VALUE");
    start_ml(1);
}

Test(op_ml, extractor_picks_from_the_last_axis)
{
    start_ml(1);
    input("x", "3,4");
    input("v", "4");
    build_input(&build, "t", SP_DTYPE_STRING, "3,4");
    build_input(&build, "i", SP_DTYPE_INT64, "1,2");
    struct sp_node *node = ml("ArrayFeatureExtractor", "x i", "y");
    struct sp_node *vector = ml("ArrayFeatureExtractor", "v i", "z");
    struct sp_node *strings = ml("ArrayFeatureExtractor", "t i", "u");
    infer();
    EXPECT_TYPE("y", "float32[3,2]");
    EXPECT_TYPE("z", "float32[1,2]");
    EXPECT_TYPE("u", "string[3,2]");
    EXPECT_RULE(node, "[d0,v1] [i0,i1]@v1 -> [d0,i0*i1]  v1: sum reduction");
    EXPECT_RULE(vector, "[v0] [i0,i1]@v0 -> [_,i0*i1]  v0: sum reduction");
    EXPECT_RULE(strings, "[d0,v1] [i0,i1]@v1 -> [d0,i0*i1]  v1: replicate");
    stop();
    start_ml(1);
    input("x", "");
    build_input(&build, "i", SP_DTYPE_INT64, "2");
    ml("ArrayFeatureExtractor", "x i", "y");
    refused("OPERAND_SHAPE");
    start_ml(1);
}

Test(op_ml, vectorizer_joins_columns)
{
    start_ml(1);
    input("a", "n,2");
    input("b", "n,3");
    input("v", "4");
    struct sp_node *node = ml("FeatureVectorizer", "a b", "y");
    struct sp_node *given = ml("FeatureVectorizer", "a b", "z");
    struct sp_node *row = ml("FeatureVectorizer", "v", "w");
    build_attr_ints(&build, given, "inputdimensions", 2, (int64_t[]){2, 5});
    infer();
    EXPECT_TYPE("y", "float32[n,5]");
    EXPECT_TYPE("z", "float32[n,7]");
    EXPECT_TYPE("w", "float32[1,4]");
    EXPECT_RULE(node, "[n0,j] [n0,j] -> [n0,j]  j: replicate, resized");
    EXPECT_RULE(row, "[j] -> [n0,j]  j: replicate, resized");
    stop();
    start_ml(1);
    input("a", "2,2");
    input("b", "3,2");
    ml("FeatureVectorizer", "a b", "y");
    refused("SHAPES_DISAGREE");
    start_ml(1);
    input("a", "2,2");
    build_attr_ints(&build, ml("FeatureVectorizer", "a", "y"), "inputdimensions", 2, (int64_t[]){1, 1});
    refused("ATTRIBUTE_RANK");
    start_ml(1);
}

/* ---- models --------------------------------------------------------------------------------------------------- */

Test(op_ml, linear_models_add_up_features)
{
    start_ml(1);
    input("x", "8,20");
    struct sp_node *regressor = ml("LinearRegressor", "x", "y");
    struct sp_node *classifier = ml("LinearClassifier", "x", "l s");
    struct sp_node *softmax = ml("LinearRegressor", "x", "z");
    build_attr_int(&build, regressor, "targets", 3);
    build_attr_strings(&build, classifier, "classlabels_strings", "cat dog");
    build_attr_string(&build, softmax, "post_transform", "SOFTMAX");
    infer();
    EXPECT_TYPE("y", "float32[8,3]");
    EXPECT_TYPE("l", "string[8]");
    EXPECT_TYPE("s", "float32[8,2]");
    EXPECT_RULE(regressor, "[n0,f1] -> [n0,e]  f1: sum reduction");
    EXPECT_RULE(classifier, "[n0,f1] -> [n0] [n0,e]  f1: sum reduction; e: select reduction");
    EXPECT_RULE(softmax, "[n0,f1] -> [n0,e]  f1: sum reduction; e: softmax reduction");
    EXPECT_FLOPS(regressor, 2.0 * 8 * 20 * 3);
}

Test(op_ml, a_vector_is_one_example)
{
    start_ml(1);
    input("x", "20");
    struct sp_node *node = ml("LinearClassifier", "x", "l s");
    build_attr_ints(&build, node, "classlabels_ints", 3, (int64_t[]){1, 2, 3});
    infer();
    EXPECT_TYPE("l", "int64[1]");
    EXPECT_TYPE("s", "float32[1,3]");
    EXPECT_RULE(node, "[f0] -> [_] [_,e]  f0: sum reduction; e: select reduction");
    EXPECT_FLOPS(node, 2.0 * 20 * 3);
    stop();
    start_ml(1);
    input("x", "2,3,4");
    ml("LinearRegressor", "x", "y");
    refused("OPERAND_SHAPE");
    start_ml(1);
}

Test(op_ml, support_vectors_are_work)
{
    start_ml(1);
    input("x", "8,20");
    struct sp_node *regressor = ml("SVMRegressor", "x", "y");
    struct sp_node *classifier = ml("SVMClassifier", "x", "l s");
    struct sp_node *likely = ml("SVMClassifier", "x", "m t");
    struct sp_node *linear = ml("SVMRegressor", "x", "z");
    build_attr_int(&build, regressor, "n_supports", 50);
    build_attr_ints(&build, classifier, "classlabels_ints", 3, (int64_t[]){0, 1, 2});
    build_attr_ints(&build, classifier, "vectors_per_class", 3, (int64_t[]){10, 20, 30});
    build_attr_ints(&build, likely, "classlabels_ints", 3, (int64_t[]){0, 1, 2});
    build_attr_floats(&build, likely, "prob_a", 3, (double[]){1, 1, 1});
    infer();
    EXPECT_TYPE("y", "float32[8,1]");
    EXPECT_TYPE("l", "int64[8]");
    EXPECT_TYPE("s", "float32[8,Scores_0]"); /* raw scores: of classes or of pairs */
    EXPECT_TYPE("t", "float32[8,3]");
    EXPECT_RULE(classifier, "[n0,f1] -> [n0] [n0,e]  f1: replicate; e: replicate");
    EXPECT_FLOPS(regressor, 2.0 * 8 * 20 * 50 + 2.0 * 8 * 50);
    EXPECT_FLOPS(linear, 2.0 * 8 * 20);
}

Test(op_ml, trees_need_all_features)
{
    static const int64_t trees[] = {0, 0, 0, 0, 0, 0, 0, 1, 1, 1}; /* of seven nodes and of three */
    start_ml(3);
    input("x", "8,20");
    struct sp_node *classifier = ml("TreeEnsembleClassifier", "x", "l s");
    struct sp_node *regressor = ml("TreeEnsembleRegressor", "x", "y");
    build_attr_ints(&build, classifier, "nodes_treeids", 10, trees);
    build_attr_ints(&build, classifier, "classlabels_int64s", 4, (int64_t[]){0, 1, 2, 3});
    build_attr_int(&build, regressor, "n_targets", 2);
    infer();
    EXPECT_TYPE("l", "int64[8]");
    EXPECT_TYPE("s", "float32[8,4]");
    EXPECT_TYPE("y", "float32[8,2]");
    EXPECT_RULE(classifier, "[n0,f1] -> [n0] [n0,e]  f1: replicate; e: replicate");
    EXPECT_RULE(regressor, "[n0,f1] -> [n0,e]  f1: replicate; e: replicate");
    EXPECT_FLOPS(classifier, 8 * 2 * 2); /* 4 inner nodes in 2 trees: 2 comparisons in each */
    EXPECT_FLOPS(regressor, 0);
}

Test(op_ml, tree_ensemble_keeps_the_type)
{
    start_ml(5);
    build_input(&build, "x", SP_DTYPE_DOUBLE, "n,20");
    struct sp_node *node = ml("TreeEnsemble", "x", "y"), *softmax = ml("TreeEnsemble", "x", "z");
    build_attr_int(&build, node, "n_targets", 2);
    build_attr_ints(&build, node, "tree_roots", 1, (int64_t[]){0});
    build_attr_ints(&build, node, "nodes_featureids", 3, (int64_t[]){0, 1, 2});
    build_attr_int(&build, softmax, "post_transform", 1);
    infer();
    EXPECT_TYPE("y", "float64[n,2]");
    EXPECT_RULE(node, "[n0,f1] -> [n0,e]  f1: replicate; e: replicate");
    EXPECT_RULE(softmax, "[n0,f1] -> [n0,e]  f1: replicate; e: replicate");
    cr_expect_null(sp_op_find(ML, "TreeEnsembleClassifier", 5)); /* deprecated */
    cr_expect_null(sp_op_find(ML, "TreeEnsembleRegressor", 5));
    cr_expect_null(sp_op_find(ML, "TreeEnsemble", 4));
}

/* ---- maps ----------------------------------------------------------------------------------------------------- */

/* A graph input that is a map from `key` to `dtype`. */
static void map_input(const char *name, enum sp_dtype key, enum sp_dtype dtype)
{
    struct sp_value *value = build_input(&build, name, dtype, "");
    struct sp_type *elem = SP_NEW(build.arena, struct sp_type);
    cr_assert_not_null(elem);
    *elem = value->type;
    value->type = value->declared = (struct sp_type){.kind = SP_TYPE_MAP, .dtype = key, .elem = elem};
}

Test(op_ml, maps_become_rows)
{
    start_ml(1);
    map_input("d", SP_DTYPE_STRING, SP_DTYPE_DOUBLE);
    map_input("m", SP_DTYPE_INT64, SP_DTYPE_FLOAT);
    struct sp_node *dict = ml("DictVectorizer", "d", "y");
    struct sp_node *dense = ml("CastMap", "m", "a"), *sparse = ml("CastMap", "m", "b");
    build_attr_strings(&build, dict, "string_vocabulary", "a c b z");
    build_attr_string(&build, dense, "cast_to", "TO_INT64");
    build_attr_string(&build, sparse, "map_form", "SPARSE");
    build_attr_int(&build, sparse, "max_map", 9);
    infer();
    EXPECT_TYPE("y", "float64[1,4]");
    EXPECT_TYPE("a", "int64[1,CastMap_0]");
    EXPECT_TYPE("b", "float32[1,9]");
    EXPECT_RULE(dict, "[] -> [_,_]");
}

Test(op_ml, a_declared_vector_is_a_vector)
{
    start_ml(1);
    map_input("d", SP_DTYPE_STRING, SP_DTYPE_FLOAT);
    struct sp_node *dict = ml("DictVectorizer", "d", "y");
    build_attr_strings(&build, dict, "string_vocabulary", "a c b z");
    struct sp_dim any = sp_dim_unknown();
    build_value(&build, "y")->declared =
        (struct sp_type){.kind = SP_TYPE_TENSOR, .dtype = SP_DTYPE_FLOAT, .shape = {true, 1, &any}};
    infer();
    EXPECT_TYPE("y", "float32[4]");
}

Test(op_ml, zip_map_gives_a_sequence_of_maps)
{
    start_ml(1);
    input("x", "n,3");
    struct sp_node *node = ml("ZipMap", "x", "z");
    build_attr_strings(&build, node, "classlabels_strings", "a b c");
    infer();
    const struct sp_type *type = &build_value(&build, "z")->type;
    cr_assert(type->kind == SP_TYPE_SEQUENCE && type->elem != NULL && type->elem->kind == SP_TYPE_MAP);
    cr_expect_eq(type->elem->dtype, SP_DTYPE_STRING);
    cr_assert_not_null(type->elem->elem);
    cr_expect_eq(type->elem->elem->dtype, SP_DTYPE_FLOAT);
    cr_expect_eq(type->elem->elem->kind, SP_TYPE_TENSOR);
    EXPECT_RULE(node, "[_,_] -> []");
}

Test(op_ml, refuses_operands_that_are_no_maps)
{
    start_ml(1);
    input("x", "3");
    build_attr_strings(&build, ml("DictVectorizer", "x", "y"), "string_vocabulary", "a");
    refused("WRONG_TYPE");
    start_ml(1);
    map_input("m", SP_DTYPE_INT64, SP_DTYPE_FLOAT);
    ml("DictVectorizer", "m", "y");
    refused("ATTRIBUTE_VALUE");
    start_ml(1);
    map_input("m", SP_DTYPE_INT64, SP_DTYPE_FLOAT);
    build_attr_string(&build, ml("CastMap", "m", "y"), "cast_to", "TO_BOOL");
    refused("ATTRIBUTE_VALUE");
    start_ml(1);
    input("x", "2,3");
    ml("ZipMap", "x", "z");
    refused("ATTRIBUTE_VALUE");
    start_ml(1);
}
