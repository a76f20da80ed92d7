/* The operator table as a whole: lookup by version, and what every entry must have. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/table/op.h"
#include "ops/table/rule_text.h"
#include "ops/table/signature.h"

Test(op_table, finds_the_version_in_force)
{
    const struct sp_op *old = sp_op_find("", "Squeeze", 12), *newer = sp_op_find("", "Squeeze", 13);
    cr_assert(old != NULL && newer != NULL);
    cr_expect_eq(old->since, 1);
    cr_expect_eq(old->max_inputs, 1); /* axes are an attribute */
    cr_expect_eq(newer->since, 13);
    cr_expect_eq(newer->max_inputs, 2);
    cr_expect_eq(sp_op_find("", "Squeeze", 1000), newer);
    cr_expect_eq(sp_op_find("ai.onnx", "Squeeze", 13), newer);
}

Test(op_table, does_not_find_what_is_not_there)
{
    cr_expect_null(sp_op_find("", "Squeez", 13));
    cr_expect_null(sp_op_find("", "Squeezes", 13));
    cr_expect_null(sp_op_find("", "", 13));
    cr_expect_null(sp_op_find("com.example", "Squeeze", 13));
    cr_expect_null(sp_op_find("", "ConstantOfShape", 8)); /* before its first version */
    cr_expect_null(sp_op_find("", "Scatter", 11));        /* after its last */
    cr_expect_null(sp_op_find("", "Squeeze", 0));
}

Test(op_table, every_entry_is_complete_and_found)
{
    uint32_t count = 0;
    const struct sp_op *const *all = sp_op_all(&count);
    cr_assert_gt(count, 30);
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_op *op = all[i];
        cr_expect(op->domain != NULL && op->name != NULL && op->shapes != NULL, "entry %u", i);
        cr_expect(op->rule != NULL || op->read->is_read, "%s-%ld has no rule", op->name, (long)op->since);
        cr_expect(op->since >= 1 && (op->last == 0 || op->last >= op->since), "%s-%ld", op->name, (long)op->since);
        cr_expect(op->min_inputs <= op->max_inputs && op->min_outputs <= op->max_outputs, "%s", op->name);
        cr_expect(op->text != NULL && op->text[0] != '\0' && op->source != NULL && op->source[0] != '\0', "%s",
                  op->name);
        cr_expect_eq(sp_op_find(op->domain, op->name, op->since), op, "%s-%ld", op->name, (long)op->since);
        int64_t newest = op->last == 0 ? 1000000 : op->last;
        cr_expect_eq(sp_op_find(op->domain, op->name, newest), op, "%s-%ld", op->name, (long)newest);
        if (op->flags & (SP_OP_VIEW | SP_OP_METADATA))
            cr_expect_geq(op->min_inputs, 1, "%s", op->name);
        if (op->flags & SP_OP_CONSTANT)
            cr_expect_eq(op->max_inputs, 0, "%s", op->name);
    }
}

Test(op_table, versions_of_one_operator_do_not_overlap)
{
    uint32_t count = 0;
    const struct sp_op *const *all = sp_op_all(&count);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = i + 1; k < count; k++) {
            const struct sp_op *a = all[i], *b = all[k];
            if (strcmp(a->name, b->name) != 0 || strcmp(a->domain, b->domain) != 0)
                continue;
            bool is_apart = (a->last != 0 && a->last < b->since) || (b->last != 0 && b->last < a->since);
            cr_expect(is_apart, "%s-%ld and -%ld", a->name, (long)a->since, (long)b->since);
        }
    }
}

/* ---- completeness --------------------------------------------------------------------------------------------- */

/*
 * Every operator and the version in which it was last changed, from ONNX's lists of operators at operator set 28
 * (Operators.md, Operators-ml.md), and the last versions of those that are deprecated.
 */
/* clang-format off */
static const struct {
    const char *domain, *operators;
} published[] = {
    {"",
     "Abs-13 Acos-22 Acosh-22 Add-14 AffineGrid-20 And-7 ArgMax-13 ArgMin-13 Asin-22 Asinh-22 Atan-22 "
     "Atanh-22 Attention-25 AveragePool-22 BatchNormalization-15 Bernoulli-22 BitCast-26 BitShift-11 "
     "BitwiseAnd-18 BitwiseNot-18 BitwiseOr-18 BitwiseXor-18 BlackmanWindow-17 Cast-25 CastLike-25 "
     "CausalConvWithState-27 Ceil-13 Celu-28 CenterCropPad-18 Clip-13 Col2Im-18 Compress-11 Concat-13 "
     "ConcatFromSequence-11 Constant-25 ConstantOfShape-25 Conv-22 ConvInteger-10 ConvTranspose-22 Cos-22 "
     "Cosh-22 CumProd-26 CumSum-14 DFT-20 DeformConv-22 DepthToSpace-13 DequantizeLinear-25 Det-22 Div-14 "
     "Dropout-22 DynamicQuantizeLinear-11 Einsum-12 Elu-22 Equal-19 Erf-13 Exp-13 Expand-13 EyeLike-22 "
     "Flatten-25 Floor-13 GRU-22 Gather-13 GatherElements-13 GatherND-13 Gelu-20 Gemm-13 GlobalAveragePool-22 "
     "GlobalLpPool-22 GlobalMaxPool-22 Greater-13 GreaterOrEqual-16 GridSample-22 GroupNormalization-21 "
     "HammingWindow-17 HannWindow-17 HardSigmoid-22 HardSwish-22 Hardmax-13 Identity-25 If-25 ImageDecoder-20 "
     "InstanceNormalization-22 IsInf-20 IsNaN-20 LRN-13 LSTM-22 LayerNormalization-17 LeakyRelu-16 Less-13 "
     "LessOrEqual-16 LinearAttention-27 Log-13 LogSoftmax-13 Loop-25 LpNormalization-22 LpPool-22 MatMul-13 "
     "MatMulInteger-10 Max-13 MaxPool-22 MaxRoiPool-22 MaxUnpool-22 Mean-13 MeanVarianceNormalization-13 "
     "MelWeightMatrix-17 Min-13 Mish-22 Mod-13 Mul-14 Multinomial-22 Neg-13 NegativeLogLikelihoodLoss-22 "
     "NonMaxSuppression-11 NonZero-13 Not-1 OneHot-11 Optional-15 OptionalGetElement-18 OptionalHasElement-18 "
     "Or-7 PRelu-16 Pad-25 Pow-15 QLinearConv-10 QLinearMatMul-21 QuantizeLinear-25 RMSNormalization-23 "
     "RNN-22 RandomNormal-22 RandomNormalLike-22 RandomUniform-22 RandomUniformLike-22 Range-27 Reciprocal-13 "
     "ReduceL1-18 ReduceL2-18 ReduceLogSum-18 ReduceLogSumExp-18 ReduceMax-20 ReduceMean-18 ReduceMin-20 "
     "ReduceProd-18 ReduceSum-13 ReduceSumSquare-18 RegexFullMatch-20 Relu-14 Reshape-25 Resize-19 "
     "ReverseSequence-10 RoiAlign-22 RotaryEmbedding-23 Round-22 STFT-17 Scan-25 ScatterElements-18 "
     "ScatterND-18 Selu-22 SequenceAt-11 SequenceConstruct-11 SequenceEmpty-11 SequenceErase-11 "
     "SequenceInsert-11 SequenceLength-11 SequenceMap-17 Shape-25 Shrink-9 Sigmoid-13 Sign-13 Sin-22 Sinh-22 "
     "Size-25 Slice-13 Softmax-13 SoftmaxCrossEntropyLoss-13 Softplus-22 Softsign-22 SpaceToDepth-13 Split-18 "
     "SplitToSequence-24 Sqrt-13 Squeeze-25 StringConcat-20 StringNormalizer-10 StringSplit-20 Sub-14 Sum-13 "
     "SwiGLU-28 Swish-24 Tan-22 Tanh-13 TensorScatter-24 TfIdfVectorizer-9 ThresholdedRelu-22 Tile-13 TopK-24 "
     "Transpose-25 Trilu-14 Unique-11 Unsqueeze-25 Where-16 Xor-7"},
    {"ai.onnx.ml",
     "ArrayFeatureExtractor-1 Binarizer-1 CastMap-1 CategoryMapper-1 DictVectorizer-1 FeatureVectorizer-1 "
     "Imputer-1 LabelEncoder-4 LinearClassifier-1 LinearRegressor-1 Normalizer-1 OneHotEncoder-1 "
     "SVMClassifier-1 SVMRegressor-1 Scaler-1 TreeEnsemble-5 ZipMap-1"},
    {"ai.onnx.preview",
     "FlexAttention-1"},
    {"ai.onnx.preview.training",
     "Adagrad-1 Adam-1 Gradient-1 Momentum-1"},
};
static const struct {
    const char *domain, *operators;
} deprecated[] = {
    {"", "Scatter-9 Scatter-10 Upsample-7 Upsample-9"},
    {"ai.onnx.ml", "TreeEnsembleClassifier-1 TreeEnsembleClassifier-3 TreeEnsembleClassifier-4 TreeEnsembleRegressor-1 "
                   "TreeEnsembleRegressor-3 TreeEnsembleRegressor-4"},
};
/* clang-format on */

static void expect_entry(const char *domain, const char *name, int64_t version)
{
    const struct sp_op *op = sp_op_find(domain, name, version);
    cr_expect_not_null(op, "there is no entry for %s%s%s-%ld", domain, domain[0] == '\0' ? "" : ".", name,
                       (long)version);
}

/* The entries of a list "Name-version Name-version"; how many there are. */
static unsigned expect_entries(const char *domain, const char *operators, int64_t newest)
{
    unsigned count = 0;
    for (const char *text = operators; *text != '\0'; text += strspn(text, " ")) {
        char name[64];
        size_t size = strcspn(text, " "), length = strcspn(text, "-");
        cr_assert(length < size && length < sizeof(name));
        (void)snprintf(name, sizeof(name), "%.*s", (int)length, text);
        int64_t since = strtoll(text + length + 1, NULL, 10);
        expect_entry(domain, name, since);
        if (newest != 0)
            expect_entry(domain, name, newest);
        text += size;
        count++;
    }
    return count;
}

Test(op_table, has_every_published_operator)
{
    unsigned count = 0;
    for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++)
        count += expect_entries(published[i].domain, published[i].operators, published[i].domain[0] == '\0' ? 28 : 5);
    cr_expect_eq(count, 223);
    for (size_t i = 0; i < sizeof(deprecated) / sizeof(deprecated[0]); i++)
        (void)expect_entries(deprecated[i].domain, deprecated[i].operators, 0);
}

/* From its first version on, and with all the operands that any version has. */
Test(op_table, has_every_version_of_every_published_operator)
{
    uint32_t count = 0;
    const struct sp_signature *all = sp_signature_all(&count);
    cr_assert_gt(count, 500);
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_signature *signature = &all[i];
        const struct sp_op *op = sp_op_find(signature->domain, signature->name, signature->since);
        if (signature->is_deprecated)
            continue;
        expect_entry(signature->domain, signature->name, signature->since);
        if (op == NULL)
            continue;
        cr_expect(op->min_inputs <= signature->min_inputs && op->max_inputs >= signature->max_inputs,
                  "%s-%ld: %u to %u inputs, published %u to %u", op->name, (long)signature->since, op->min_inputs,
                  op->max_inputs, signature->min_inputs, signature->max_inputs);
        cr_expect(op->min_outputs <= signature->min_outputs && op->max_outputs >= signature->max_outputs,
                  "%s-%ld: %u to %u outputs, published %u to %u", op->name, (long)signature->since, op->min_outputs,
                  op->max_outputs, signature->min_outputs, signature->max_outputs);
    }
}
