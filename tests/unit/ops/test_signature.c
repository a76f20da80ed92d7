/*
 * Signatures of operator versions. Histories are those of ONNX's published operator pages (onnx.ai/onnx/operators),
 * each test says which page; the newest versions and the counts are those of ONNX's main branch with operator set 28.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "ops/table/op.h"
#include "ops/table/signature.h"
#include "ops/table/signature_internal.h"

#define MANY UINT32_MAX

static const struct sp_signature *find(const char *name, int64_t version)
{
    const struct sp_signature *signature = sp_signature_find("", name, version);
    cr_assert_not_null(signature, "%s in version %ld", name, (long)version);
    return signature;
}

static const struct sp_signature_attribute *attribute(const struct sp_signature *signature, const char *name)
{
    for (uint32_t i = 0; i < signature->attribute_count; i++) {
        if (strcmp(signature->attributes[i].name, name) == 0)
            return &signature->attributes[i];
    }
    return NULL;
}

static void expect_input(const struct sp_signature *signature, uint32_t i, const char *name, bool is_optional)
{
    cr_assert_lt(i, signature->input_count, "%s-%ld", signature->name, (long)signature->since);
    cr_expect_str_eq(signature->inputs[i].name, name, "%s-%ld", signature->name, (long)signature->since);
    cr_expect_eq(signature->inputs[i].is_optional, is_optional, "%s-%ld", signature->name, (long)signature->since);
}

static void expect_inputs(const struct sp_signature *signature, uint32_t least, uint32_t most)
{
    cr_expect_eq(signature->min_inputs, least, "%s-%ld", signature->name, (long)signature->since);
    cr_expect_eq(signature->max_inputs, most, "%s-%ld", signature->name, (long)signature->since);
}

Test(signature, takes_the_newest_version_that_is_not_newer)
{
    /* Add: 1, 6, 7, 13, 14. */
    cr_expect_eq(find("Add", 1)->since, 1);
    cr_expect_eq(find("Add", 5)->since, 1);
    cr_expect_eq(find("Add", 6)->since, 6);
    cr_expect_eq(find("Add", 12)->since, 7);
    cr_expect_eq(find("Add", 13)->since, 13);
    cr_expect_eq(find("Add", 28)->since, 14);
    cr_expect_eq(find("Add", INT32_MAX)->since, 14);
    cr_expect_eq(sp_signature_find("ai.onnx", "Add", 14), find("Add", 14));
    cr_expect_null(sp_signature_find("", "Gelu", 19)); /* Gelu: 20 */
    cr_expect_null(sp_signature_find("", "Ad", 14));
    cr_expect_null(sp_signature_find("", "NoSuchOperator", 14));
    cr_expect_null(sp_signature_find("org.example", "Add", 14));
    cr_expect_eq(sp_signature_first("", "Gelu"), 20);
    cr_expect_eq(sp_signature_first("", "NoSuchOperator"), 0);
}

/* ReduceMean: axes is an attribute up to 17 and an input from 18 on; ReduceSum: from 13 on. */
Test(signature, reductions_took_their_axes_as_attribute)
{
    static const char *const names[] = {"ReduceL1",   "ReduceL2",  "ReduceLogSum", "ReduceLogSumExp", "ReduceMax",
                                        "ReduceMean", "ReduceMin", "ReduceProd",   "ReduceSumSquare", "ReduceSum"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const int64_t change = strcmp(names[i], "ReduceSum") == 0 ? 13 : 18;
        const struct sp_signature *before = find(names[i], change - 1), *after = find(names[i], change);
        expect_inputs(before, 1, 1);
        cr_assert_not_null(attribute(before, "axes"));
        cr_expect_eq(attribute(before, "axes")->type, SP_ATTR_INTS);
        expect_inputs(after, 1, 2);
        expect_input(after, 1, "axes", true);
        cr_expect_null(attribute(after, "axes"));
        cr_expect_not_null(attribute(after, "noop_with_empty_axes"));
    }
}

/* Slice 10, Split 2/13/18, Squeeze 13, Unsqueeze 13, Pad 11/18, Clip 11, TopK 10, Dropout 12, Reshape 5. */
Test(signature, attributes_became_inputs)
{
    cr_expect_not_null(attribute(find("Slice", 9), "starts"));
    expect_inputs(find("Slice", 10), 3, 5);
    cr_expect_not_null(attribute(find("Split", 11), "split"));
    cr_expect_null(attribute(find("Split", 17), "num_outputs"));
    cr_expect_not_null(attribute(find("Split", 18), "num_outputs"));
    expect_inputs(find("Split", 13), 1, 2);
    cr_expect_not_null(attribute(find("Squeeze", 12), "axes"));
    expect_inputs(find("Squeeze", 13), 1, 2);
    cr_expect(attribute(find("Unsqueeze", 11), "axes")->is_required);
    expect_inputs(find("Unsqueeze", 13), 2, 2);
    cr_expect(attribute(find("Pad", 10), "pads")->is_required);
    expect_inputs(find("Pad", 11), 2, 3);
    expect_inputs(find("Pad", 18), 2, 4);
    expect_input(find("Pad", 18), 3, "axes", true);
    cr_expect_not_null(attribute(find("Clip", 6), "min"));
    expect_inputs(find("Clip", 11), 1, 3);
    cr_expect(attribute(find("TopK", 9), "k")->is_required);
    expect_inputs(find("TopK", 10), 2, 2);
    cr_expect_not_null(attribute(find("Dropout", 10), "ratio"));
    expect_inputs(find("Dropout", 12), 1, 3);
    expect_inputs(find("Reshape", 4), 1, 1);
    expect_inputs(find("Reshape", 5), 2, 2);
}

/* Cast 19/24, AveragePool 19, LpPool 18, DFT 20, QuantizeLinear and DequantizeLinear 13/19/21/23, Resize 18,
   Attention 23/24/25, GroupNormalization 18/21, Reshape 14. */
Test(signature, attributes_were_added)
{
    cr_expect_null(attribute(find("Cast", 18), "saturate"));
    cr_expect_not_null(attribute(find("Cast", 19), "saturate"));
    cr_expect_null(attribute(find("Cast", 23), "round_mode"));
    cr_expect_not_null(attribute(find("Cast", 24), "round_mode"));
    cr_expect(attribute(find("Cast", 9), "to")->is_required);
    cr_expect_eq(attribute(find("Cast", 5), "to")->type, SP_ATTR_STRING); /* a name, before 6 */
    cr_expect_eq(attribute(find("Cast", 6), "to")->type, SP_ATTR_INT);
    cr_expect_null(attribute(find("AveragePool", 18), "dilations"));
    cr_expect_not_null(attribute(find("AveragePool", 19), "dilations"));
    cr_expect_null(attribute(find("LpPool", 17), "ceil_mode"));
    cr_expect_not_null(attribute(find("LpPool", 18), "ceil_mode"));
    cr_expect_not_null(attribute(find("DFT", 17), "axis"));
    cr_expect_null(attribute(find("DFT", 20), "axis"));
    expect_input(find("DFT", 20), 2, "axis", true);
    cr_expect_null(attribute(find("DequantizeLinear", 12), "axis"));
    cr_expect_not_null(attribute(find("DequantizeLinear", 13), "axis"));
    cr_expect_null(attribute(find("DequantizeLinear", 19), "block_size"));
    cr_expect_not_null(attribute(find("DequantizeLinear", 21), "block_size"));
    cr_expect_null(attribute(find("DequantizeLinear", 21), "output_dtype"));
    cr_expect_not_null(attribute(find("DequantizeLinear", 23), "output_dtype"));
    cr_expect_not_null(attribute(find("QuantizeLinear", 19), "saturate"));
    cr_expect_not_null(attribute(find("QuantizeLinear", 21), "output_dtype"));
    cr_expect_null(attribute(find("QuantizeLinear", 21), "precision"));
    cr_expect_not_null(attribute(find("QuantizeLinear", 23), "precision"));
    cr_expect_null(attribute(find("Resize", 17), "antialias"));
    cr_expect_not_null(attribute(find("Resize", 18), "keep_aspect_ratio_policy"));
    expect_inputs(find("Attention", 23), 3, 6);
    expect_inputs(find("Attention", 24), 3, 7);
    cr_expect_null(attribute(find("Attention", 24), "left_window_size"));
    cr_expect_not_null(attribute(find("Attention", 25), "left_window_size"));
    cr_expect_null(attribute(find("GroupNormalization", 18), "stash_type"));
    cr_expect_not_null(attribute(find("GroupNormalization", 21), "stash_type"));
    cr_expect_null(attribute(find("Reshape", 13), "allowzero"));
    cr_expect_not_null(attribute(find("Reshape", 14), "allowzero"));
}

/* BatchNormalization: five outputs up to 13, three from 14 on; Scatter, Upsample and GroupNormalization-18. */
Test(signature, outputs_and_deprecation)
{
    cr_expect_eq(find("BatchNormalization", 9)->max_outputs, 5);
    cr_expect_eq(find("BatchNormalization", 14)->max_outputs, 3);
    cr_expect_eq(find("BatchNormalization", 15)->min_outputs, 1);
    cr_expect_not(find("Scatter", 10)->is_deprecated);
    cr_expect(find("Scatter", 11)->is_deprecated);
    cr_expect_not(find("Upsample", 9)->is_deprecated);
    cr_expect(find("Upsample", 10)->is_deprecated);
    cr_expect(find("GroupNormalization", 20)->is_deprecated);
    cr_expect_not(find("GroupNormalization", 21)->is_deprecated);
    cr_expect(sp_signature_find("ai.onnx.ml", "TreeEnsembleClassifier", 5)->is_deprecated);
    cr_expect_not(sp_signature_find("ai.onnx.ml", "TreeEnsembleClassifier", 3)->is_deprecated);
}

Test(signature, operands_that_vary)
{
    const struct sp_signature *concat = find("Concat", 13), *loop = find("Loop", 21), *branch = find("If", 21);
    expect_inputs(concat, 1, MANY);
    cr_expect(concat->inputs[0].is_variadic && concat->inputs[0].is_homogeneous);
    expect_inputs(loop, 2, MANY);
    cr_expect(loop->inputs[2].is_variadic && !loop->inputs[2].is_homogeneous && loop->inputs[0].is_optional);
    expect_inputs(branch, 1, 1);
    cr_expect_eq(branch->min_outputs, 1);
    cr_expect_eq(branch->max_outputs, MANY);
    cr_expect_eq(attribute(branch, "then_branch")->type, SP_ATTR_GRAPH);
    /* LSTM: any of its outputs may be left out. */
    cr_expect_eq(find("LSTM", 14)->min_outputs, 0);
    cr_expect_eq(find("LSTM", 14)->max_outputs, 3);
}

static bool allows(const struct sp_signature_operand *operand, enum sp_dtype dtype)
{
    return (operand->dtypes & 1u << dtype) != 0;
}

/* Add-7 and Add-14, Equal-13 and 19, Conv-11 and 22, Reshape-13 and 25, Identity-16. */
Test(signature, types_grew_with_versions)
{
    cr_expect_not(allows(&find("Add", 7)->inputs[0], SP_DTYPE_INT8));
    cr_expect(allows(&find("Add", 14)->inputs[0], SP_DTYPE_INT8));
    cr_expect_not(allows(&find("Add", 14)->inputs[0], SP_DTYPE_BOOL));
    cr_expect_str_eq(find("Add", 14)->inputs[0].type, "T");
    cr_expect(find("Add", 14)->inputs[0].is_parameter);
    cr_expect_not(allows(&find("Equal", 13)->inputs[0], SP_DTYPE_STRING));
    cr_expect(allows(&find("Equal", 19)->inputs[0], SP_DTYPE_STRING));
    cr_expect_not(allows(&find("Conv", 11)->inputs[0], SP_DTYPE_BFLOAT16));
    cr_expect(allows(&find("Conv", 22)->inputs[0], SP_DTYPE_BFLOAT16));
    cr_expect_not(allows(&find("Reshape", 13)->inputs[0], SP_DTYPE_FLOAT8E5M2));
    cr_expect(allows(&find("Reshape", 25)->inputs[0], SP_DTYPE_UINT2));
    cr_expect_eq(find("Reshape", 25)->inputs[1].dtypes, 1u << SP_DTYPE_INT64);
    cr_expect_not(find("Reshape", 25)->inputs[1].is_parameter);
    cr_expect_eq(find("Identity", 16)->inputs[0].kinds, 1u << SP_TYPE_SEQUENCE | 1u << SP_TYPE_OPTIONAL);
    cr_expect_eq(find("Identity", 13)->inputs[0].kinds, 0);
}

/* 203 names of ai.onnx, 19 of ai.onnx.ml, 1 of ai.onnx.preview, 4 of ai.onnx.preview.training. */
Test(signature, the_table_is_whole_and_sorted)
{
    uint32_t count, names = 0, ml = 0, preview = 0, training = 0;
    const struct sp_signature *all = sp_signature_all(&count), *previous = NULL;
    for (uint32_t i = 0; i < count; previous = &all[i++]) {
        const bool same = previous != NULL && strcmp(previous->domain, all[i].domain) == 0;
        const int order = same ? strcmp(previous->name, all[i].name) : -1;
        cr_expect(order < 0 || (order == 0 && previous->since < all[i].since), "%s-%ld", all[i].name,
                  (long)all[i].since);
        cr_expect(all[i].since >= 1 && all[i].since <= 28);
        cr_expect_leq(all[i].min_inputs, all[i].max_inputs);
        cr_expect_leq(all[i].min_outputs, all[i].max_outputs);
        cr_expect_eq(sp_signature_find(all[i].domain, all[i].name, all[i].since), &all[i]);
        if (order == 0)
            continue;
        names += all[i].domain[0] == '\0';
        ml += strcmp(all[i].domain, "ai.onnx.ml") == 0;
        preview += strcmp(all[i].domain, "ai.onnx.preview") == 0;
        training += strcmp(all[i].domain, "ai.onnx.preview.training") == 0;
    }
    cr_expect_eq(names, 203);
    cr_expect_eq(ml, 19);
    cr_expect_eq(preview, 1);
    cr_expect_eq(training, 4);
    cr_expect(sp_signature_domain("") && sp_signature_domain("ai.onnx") && sp_signature_domain("ai.onnx.training"));
    cr_expect_not(sp_signature_domain("com.microsoft"));
}

/* ---- signatures that entries state ---------------------------------------------------------------------------- */

static struct sp_op entry(const char *text)
{
    return (struct sp_op){
        .domain = "org", .name = "Op", .since = 1, .min_inputs = 1, .max_inputs = 3, .signature = text};
}

Test(signature, reads_what_an_entry_states)
{
    struct sp_op op = entry("(X, W,B?) -> (Y,*rest) {alpha:float=1.0,mode!:string,to:int!,pads:ints=[0,0],b:graph}");
    struct sp_signature signature = {0};
    struct sp_arena *arena = sp_arena_create(NULL);
    cr_assert(sp_signature_parse(&op, arena, &signature));
    cr_assert(signature.input_count == 3 && signature.output_count == 2 && signature.attribute_count == 5);
    expect_input(&signature, 0, "X", false);
    expect_input(&signature, 1, "W", false);
    expect_input(&signature, 2, "B", true);
    cr_expect_str_eq(signature.outputs[1].name, "rest");
    cr_expect(signature.outputs[1].is_variadic && !signature.outputs[0].is_variadic);
    cr_expect(attribute(&signature, "alpha")->type == SP_ATTR_FLOAT && !attribute(&signature, "alpha")->is_required);
    cr_expect(attribute(&signature, "mode")->type == SP_ATTR_STRING && attribute(&signature, "mode")->is_required);
    cr_expect(attribute(&signature, "to")->type == SP_ATTR_INT && attribute(&signature, "to")->is_required);
    cr_expect_eq(attribute(&signature, "pads")->type, SP_ATTR_INTS);
    cr_expect_eq(attribute(&signature, "b")->type, SP_ATTR_GRAPH);
    expect_inputs(&signature, 1, 3); /* the entry's arity */
    sp_arena_destroy(arena);
}

Test(signature, refuses_other_texts)
{
    static const char *const texts[] = {"",
                                        "(X)",
                                        "(X) -> (Y)",
                                        "(X -> (Y) {}",
                                        "(X) (Y) {}",
                                        "(X) -> (Y) {a}",
                                        "(X) -> (Y) {a:real}",
                                        "(X*,Y) -> (Z) {}",
                                        "(X!) -> (Y) {}",
                                        "(X) -> (Y) {} more"};
    struct sp_arena *arena = sp_arena_create(NULL);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct sp_op op = entry(texts[i]);
        struct sp_signature signature = {0};
        cr_expect_not(sp_signature_parse(&op, arena, &signature), "%s", texts[i]);
    }
    sp_arena_destroy(arena);
}

/* Every entry has a signature: a published one, or one that it states and that can be read. Runtimes keep operators of
   their own in ai.onnx too; those are not ONNX's, and not found there. */
Test(signature, every_entry_has_one)
{
    uint32_t count;
    const struct sp_op *const *ops = sp_op_all(&count);
    struct sp_arena *arena = sp_arena_create(NULL);
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_op *op = ops[i];
        const struct sp_signature *found = sp_signature_find(op->domain, op->name, op->since);
        struct sp_signature stated = {0};
        const bool is_read = op->signature != NULL && sp_signature_parse(op, arena, &stated);
        cr_expect(op->signature == NULL || is_read, "%s %s: %s", op->domain, op->name, op->signature);
        cr_expect(found != NULL || (is_read && sp_signature_domain(op->domain)), "%s %s-%ld has no signature",
                  op->domain, op->name, (long)op->since);
    }
    sp_arena_destroy(arena);
}
