/*
 * Operators of ai.onnx.ml that no published case has. Shapes and factors follow the section of each operator in ONNX's
 * docs/Operators-ml.md; where it leaves a shape open, what ONNX Runtime returns.
 */
#include "own_cases.h"

/* Two trees of one inner node and two leaves each, that vote for the targets or classes 0 and 1. */
#define TREES                                                                                                          \
    "nodes_treeids=[0,0,0,1,1,1] nodes_nodeids=[0,1,2,0,1,2] nodes_featureids=[0,0,0,1,0,0] "                          \
    "nodes_modes=['BRANCH_LEQ','LEAF','LEAF','BRANCH_LEQ','LEAF','LEAF'] nodes_values=[0.5,0.0,0.0,0.5,0.0,0.0] "      \
    "nodes_truenodeids=[1,0,0,1,0,0] nodes_falsenodeids=[2,0,0,2,0,0] "

const struct own_case own_cases_ml[] = {
    /* ArrayFeatureExtractor: the last axis of X at the indices Y. */
    {"ai.onnx.ml.ArrayFeatureExtractor", 1, "float32[3,4] int64=0,2", "", "float32[3,2]",
     "[d0,v1] [i0]@v1 -> [d0,i0]  v1: sum reduction"},
    {"ai.onnx.ml.ArrayFeatureExtractor", 1, "string[3,4] int64[1,2]", "", "string[3,2]",
     "[d0,v1] [i0,i1]@v1 -> [d0,i0*i1]  v1: replicate"},

    /* One value in, one value out. */
    {"ai.onnx.ml.Binarizer", 1, "float32[3,n]", "threshold=0.5", "float32[3,n]", NULL},
    {"ai.onnx.ml.Imputer", 1, "float32[3,4]", "imputed_value_floats=[1.0]", "float32[3,4]", NULL},
    {"ai.onnx.ml.CategoryMapper", 1, "string[3]", "cats_int64s=[1,2] cats_strings=['a','b']", "int64[3]", NULL},
    {"ai.onnx.ml.CategoryMapper", 1, "int64[2,3]", "cats_int64s=[1,2] cats_strings=['a','b']", "string[2,3]", NULL},
    {"ai.onnx.ml.Scaler", 1, "int64[3,2]", "offset=[1.0,2.0] scale=[1.0,0.5]", "float32[3,2]", NULL},

    /* Maps become one row; what is dense is as long as the largest key, a symbol of its own. */
    {"ai.onnx.ml.CastMap", 1, "map(int64,float32[])", "cast_to='TO_INT64' map_form='SPARSE' max_map=7", "int64[1,7]",
     "[] -> [_,_]"},
    {"ai.onnx.ml.CastMap", 1, "map(int64,string[])", "cast_to='TO_STRING'", "string[1,CastMap_0]", "[] -> [_,_]"},
    {"ai.onnx.ml.DictVectorizer", 1, "map(string,int64[])", "string_vocabulary=['a','b','c']", "int64[1,3]",
     "[] -> [_,_]"},
    {"ai.onnx.ml.DictVectorizer", 1, "map(int64,float32[])", "int64_vocabulary=[3,5]", "float32[1,2]", "[] -> [_,_]"},
    {"ai.onnx.ml.ZipMap", 1, "float32[4,2]", "classlabels_strings=['a','b']", "seq(map(string,float32[]))",
     "[_,_] -> []"},
    {"ai.onnx.ml.ZipMap", 1, "float32[4,2]", "classlabels_int64s=[7,8]", "seq(map(int64,float32[]))", "[_,_] -> []"},

    /* FeatureVectorizer: rows side by side, as float. */
    {"ai.onnx.ml.FeatureVectorizer", 1, "float32[3,2] int64[3,4]", "inputdimensions=[2,4]", "float32[3,6]",
     "[n0,j] [n0,j] -> [n0,j]  j: replicate, resized"},

    /* Normalizer: a row divided by its maximum, its sum of values or of squares. */
    {"ai.onnx.ml.Normalizer", 1, "float32[3,4]", "norm='MAX'", "float32[3,4]", "[d0,d1] -> [d0,d1]  d1: max reduction"},
    {"ai.onnx.ml.Normalizer", 1, "int64[3,4]", "norm='L2'", "float32[3,4]", "[d0,d1] -> [d0,d1]  d1: sum reduction"},

    /* OneHotEncoder: a new last axis, as long as the list of categories. */
    {"ai.onnx.ml.OneHotEncoder", 1, "int64[3]", "cats_int64s=[1,2,3,4,5]", "float32[3,5]", "[d0] -> [d0,k]"},
    {"ai.onnx.ml.OneHotEncoder", 1, "string[2,3]", "cats_strings=['a','b']", "float32[2,3,2]", "[d0,d1] -> [d0,d1,k]"},

    /* LinearClassifier: the label of each row, and a score for each class. */
    {"ai.onnx.ml.LinearClassifier", 1, "float32[8,2]",
     "coefficients=[1.0,2.0,3.0,4.0,5.0,6.0] intercepts=[0.0,0.0,0.0] classlabels_ints=[0,1,2]",
     "int64[8] float32[8,3]", "[n0,f1] -> [n0] [n0,e]  f1: sum reduction; e: select reduction"},
    {"ai.onnx.ml.LinearClassifier", 1, "float32[n,2]",
     "coefficients=[1.0,2.0,3.0,4.0] classlabels_strings=['a','b'] post_transform='SOFTMAX'", "string[n] float32[n,2]",
     "[n0,f1] -> [n0] [n0,e]  f1: sum reduction; e: select reduction"},

    /* Regressors: a column for each target. */
    {"ai.onnx.ml.LinearRegressor", 1, "float32[8,2]", "coefficients=[1.0,2.0,3.0,4.0] targets=2", "float32[8,2]",
     "[n0,f1] -> [n0,e]  f1: sum reduction"},
    {"ai.onnx.ml.LinearRegressor", 1, "float32[8,2]",
     "coefficients=[1.0,2.0,3.0,4.0] targets=2 post_transform='SOFTMAX'", "float32[8,2]",
     "[n0,f1] -> [n0,e]  f1: sum reduction; e: softmax reduction"},
    {"ai.onnx.ml.SVMRegressor", 1, "float32[8,2]",
     "coefficients=[1.0,2.0] support_vectors=[1.0,2.0,3.0,4.0] n_supports=2 kernel_type='RBF' rho=[0.1] "
     "kernel_params=[0.1,0.0,3.0]",
     "float32[8,1]", "[n0,f1] -> [n0,e]  f1: replicate; e: replicate"},

    /* SVMClassifier: the labels, and a score for each class, or for each pair of classes without probabilities. */
    {"ai.onnx.ml.SVMClassifier", 1, "float32[8,2]",
     "coefficients=[1.0,2.0,3.0,4.0,5.0,6.0] support_vectors=[1.0,2.0,3.0,4.0,5.0,6.0] vectors_per_class=[1,1,1] "
     "rho=[0.1,0.2,0.3] prob_a=[1.0,1.0,1.0] prob_b=[0.0,0.0,0.0] classlabels_ints=[0,1,2] kernel_type='LINEAR'",
     "int64[8] float32[8,3]", "[n0,f1] -> [n0] [n0,e]  f1: replicate; e: replicate"},

    {"ai.onnx.ml.TreeEnsembleClassifier", 1, "float32[8,2]",
     TREES "class_treeids=[0,0,1,1] class_nodeids=[1,2,1,2] class_ids=[0,1,0,1] class_weights=[1.0,1.0,1.0,1.0] "
           "classlabels_int64s=[10,20]",
     "int64[8] float32[8,2]", "[n0,f1] -> [n0] [n0,e]  f1: replicate; e: replicate"},
    {"ai.onnx.ml.TreeEnsembleClassifier", 3, "double[n,2]",
     TREES "class_treeids=[0,0,1,1] class_nodeids=[1,2,1,2] class_ids=[0,1,0,1] class_weights=[1.0,1.0,1.0,1.0] "
           "classlabels_strings=['a','b']",
     "string[n] float32[n,2]", "[n0,f1] -> [n0] [n0,e]  f1: replicate; e: replicate"},
    {"ai.onnx.ml.TreeEnsembleRegressor", 1, "float32[8,2]",
     TREES "target_treeids=[0,0,1,1] target_nodeids=[1,2,1,2] target_ids=[0,1,0,1] target_weights=[1.0,1.0,1.0,1.0] "
           "n_targets=2",
     "float32[8,2]", "[n0,f1] -> [n0,e]  f1: replicate; e: replicate"},
    {"ai.onnx.ml.TreeEnsembleRegressor", 3, "float32[8,2]",
     TREES "target_treeids=[0,0,1,1] target_nodeids=[1,2,1,2] target_ids=[0,1,0,1] target_weights=[1.0,1.0,1.0,1.0] "
           "n_targets=2 post_transform='SOFTMAX'",
     "float32[8,2]", "[n0,f1] -> [n0,e]  f1: replicate; e: replicate"},
    {"ai.onnx.ml.SVMRegressor", 1, "float32[8,2]",
     "coefficients=[1.0,2.0] support_vectors=[1.0,2.0,3.0,4.0] n_supports=2 kernel_type='RBF' rho=[0.1] "
     "kernel_params=[0.1,0.0,3.0] post_transform='SOFTMAX_ZERO'",
     "float32[8,1]", "[n0,f1] -> [n0,e]  f1: replicate; e: replicate"},
    /* One tree of one inner node, two targets; post_transform 1 is SOFTMAX. */
    {"ai.onnx.ml.TreeEnsemble", 5, "float32[n,2]",
     "n_targets=2 post_transform=1 tree_roots=[0] nodes_featureids=[0] nodes_modes=uint8[1] nodes_splits=float32[1] "
     "nodes_truenodeids=[0] nodes_falsenodeids=[1] nodes_trueleafs=[1] nodes_falseleafs=[1] leaf_targetids=[0,1] "
     "leaf_weights=float32[2]",
     "float32[n,2]", "[n0,f1] -> [n0,e]  f1: replicate; e: replicate"},
    {.op = NULL},
};
