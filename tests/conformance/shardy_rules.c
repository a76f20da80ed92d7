/*
 * shardy_rules: the published operator rules of Shardy against the operator table.
 *
 * A case is one StableHLO operation with its factors. Where ONNX has an operator for it, the node is built and its rule
 * compared: the same axes must have the same factors, under whichever names, of the same extents and kinds.
 *
 *   pass-through                             parallel
 *   reduction                                reduction
 *   permutation                              halo, permutation (extents are not compared: one has the input's, one the
 *                                            output's)
 *   need_replication                         an axis that is needed whole: replicate, sequential, or no factor
 *
 * Factors of size 1 are left out. Axes of another order (NHWC) are permuted; axes that only one side has are left out.
 * The mapping is printed. A difference must be in the table of differences with its reason, and be found.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/support/build_model.h"
#include "../unit/support/build_rule.h"
#include "../unit/support/data_files.h"
#include "../unit/support/members.h"
#include "base/limits.h"

#define MAX_OPERANDS 8
#define LEFT_OUT     (-1)

/* Which operand of the node is the case's, and which of its axes are the case's. */
struct place {
    int operand; /* LEFT_OUT: the node has none */
    int axes[SP_MAX_RANK];
};

struct test {
    const json_t *json;
    const char *name;
    struct sp_arena *arena;
    struct build build;
    struct sp_node *node;
    struct place inputs[MAX_OPERANDS], outputs[MAX_OPERANDS];
    char why[2048];
};

/* ---- what is not compared, and what differs --------------------------------------------------------------------- */

static const struct {
    const char *op, *reason;
} without[] = {
    {"stablehlo.all_to_all", "a collective, not an operator"},
    {"stablehlo.dynamic_update_slice", "ONNX has no update of a window at runtime positions"},
    {"stablehlo.reduce_window", "ONNX's pools do not shift a window of 1"},
    {"stablehlo.scatter", "ONNX's scatters have neither batching dims nor windows inside an axis"},
    {"stablehlo.select_and_scatter", "the gradient of a pool is no ONNX operator"},
    {"stablehlo.triangular_solve", "ONNX has no linear algebra of matrices but Det"},
    {"stablehlo.bitcast_convert/upcast", "ONNX's BitCast keeps the shape"},
    {"stablehlo.bitcast_convert/downcast", "ONNX's BitCast keeps the shape"},
    {"stablehlo.fft/several", "ONNX's DFT transforms one axis"},
    {"stablehlo.clamp/tensors", "ONNX's Clip has scalar bounds"},
    {"X64SplitLow", "no ONNX operator"},
    {"Qr", "no ONNX operator"},
    {"QrDecompositionBlock", "no ONNX operator"},
    {"ProductOfElementaryHouseholderReflectors", "no ONNX operator"},
    {"PartialReduce", "no ONNX operator (an approximate TopK)"},
    {"foo", "an operator of its own"},
};

#define CONCAT                                                                                                         \
    "a rule sees its node, not that the inputs are slices of one tensor, so Concat needs the joined axis whole"
#define WINNERS "winners of parts can be merged, so the searched axis of TopK is a reduction here"
#define UNRELATED                                                                                                      \
    "parts of axes that share no divisor are factors of one side each in Shardy; no device can reshape its part of "   \
    "them, so they are needed whole here"

static const struct {
    const char *name, *reason;
} differences[] = {
    {"concat_operands_are_from_slices_of_the_same_tensor", CONCAT},
    {"concat_operands_are_on_the_same_tensor_one_is_slice", CONCAT},
    {"custom_call_topk_of_1d", WINNERS},
    {"custom_call_topk_of_2d", WINNERS},
    {"reshape_swap_dims_with_common_divisor", UNRELATED},
    {"reshape_swap_with_dim_before_and_in_between", UNRELATED},
    {"reshape_swap_and_merge", UNRELATED},
};

/* ---- nodes for cases -------------------------------------------------------------------------------------------- */

static const json_t *shape_of(const struct test *test, const char *side, size_t operand)
{
    return json_array_get(json_array_get(json_object_get(test->json, side), operand), 0);
}

static const char *attribute(const struct test *test, const char *name)
{
    const char *text = json_string_value(json_object_get(json_object_get(test->json, "attrs"), name));
    return text != NULL ? text : "";
}

static bool has_attribute(const struct test *test, const char *name, const char *value)
{
    return strcmp(attribute(test, name), value) == 0;
}

/* The numbers of "[1, -1] x [0]", list `side`. */
static int read_list(const char *text, int side, int64_t *numbers)
{
    int count = 0;
    const char *at = strchr(text, '[');
    for (; side > 0 && at != NULL; side--)
        at = strchr(at + 1, '[');
    for (at = at != NULL ? at + 1 : NULL; at != NULL && *at != ']' && *at != '\0' && count < SP_MAX_RANK;) {
        char *end;
        numbers[count++] = strtoll(at, &end, 10);
        at = end + strspn(end, ", ");
    }
    return count;
}

/* "2,1,4" of the case's operand, its axes in the order of `axes` (NULL: as they are). */
static const char *dims_text(struct test *test, const char *side, size_t operand, const int *axes)
{
    char text[SP_MAX_RANK * 8] = "";
    const json_t *shape = shape_of(test, side, operand);
    for (size_t axis = 0; axis < json_array_size(shape); axis++) {
        size_t from = axes != NULL ? (size_t)axes[axis] : axis, size = strlen(text);
        snprintf(text + size, sizeof(text) - size, "%s%" JSON_INTEGER_FORMAT, axis > 0 ? "," : "",
                 json_integer_value(json_array_get(shape, from)));
    }
    return sp_arena_string(test->arena, text, strlen(text));
}

static void input(struct test *test, const char *name, const char *dims)
{
    build_input(&test->build, name, SP_DTYPE_FLOAT, dims);
}

/* The case's axis i is the node's axis where[i]; NULL: i. */
static void put(struct place *place, int operand, size_t rank, const int *where)
{
    place->operand = operand;
    for (size_t axis = 0; axis < rank; axis++)
        place->axes[axis] = where != NULL ? where[axis] : (int)axis;
}

static void put_all(struct test *test)
{
    for (size_t i = 0; i < json_array_size(json_object_get(test->json, "operand_types")); i++)
        put(&test->inputs[i], (int)i, json_array_size(shape_of(test, "operand_types", i)), NULL);
    for (size_t i = 0; i < json_array_size(json_object_get(test->json, "result_types")); i++)
        put(&test->outputs[i], (int)i, json_array_size(shape_of(test, "result_types", i)), NULL);
}

/* Operands a, b, c as they are, and the node. */
static const char *build_plain(struct test *test, const char *op)
{
    static const char *const names[] = {"a", "b", "c"};
    size_t count = json_array_size(json_object_get(test->json, "operand_types"));
    for (size_t i = 0; i < count; i++)
        input(test, names[i], dims_text(test, "operand_types", i, NULL));
    put_all(test);
    test->node = build_node(&test->build, op, count == 1 ? "a" : count == 2 ? "a b" : "a b c", "y");
    return op;
}

static const char *build_select(struct test *test)
{
    build_input(&test->build, "p", SP_DTYPE_BOOL, dims_text(test, "operand_types", 0, NULL));
    input(test, "a", dims_text(test, "operand_types", 1, NULL));
    input(test, "b", dims_text(test, "operand_types", 2, NULL));
    put_all(test);
    test->node = build_node(&test->build, "Where", "p a b", "y");
    return "Where";
}

static const char *build_clamp(struct test *test)
{
    input(test, "x", dims_text(test, "operand_types", 1, NULL));
    input(test, "low", "");
    input(test, "high", "");
    put_all(test);
    test->inputs[0].operand = 1;
    test->inputs[1].operand = 0;
    test->node = build_node(&test->build, "Clip", "x low high", "y");
    return "Clip";
}

/* The channels are axis 1 in ONNX. */
static const char *build_batch_norm(struct test *test)
{
    static const int swapped[] = {0, 2, 1, 3};
    members_skip(json_object_get(test->json, "attrs"), "epsilon");
    if (strcmp(attribute(test, "feature_index"), "2") != 0)
        return NULL;
    input(test, "x", dims_text(test, "operand_types", 0, swapped));
    input(test, "s", dims_text(test, "operand_types", 1, NULL));
    input(test, "b", dims_text(test, "operand_types", 2, NULL));
    input(test, "m", dims_text(test, "operand_types", 3, NULL));
    input(test, "v", dims_text(test, "operand_types", 4, NULL));
    put_all(test);
    put(&test->inputs[0], 0, 4, swapped);
    put(&test->outputs[0], 0, 4, swapped);
    test->node = build_node(&test->build, "BatchNormalization", "x s b m v", "y");
    return "BatchNormalization (axes 0 2 1 3)";
}

/* New axes of size 1 are put in first, and axes moved: then Expand. */
static const char *build_broadcast(struct test *test)
{
    int64_t where[SP_MAX_RANK], from[SP_MAX_RANK], to[SP_MAX_RANK];
    int axes[SP_MAX_RANK];
    char dims[SP_MAX_RANK * 8] = "";
    const json_t *source = shape_of(test, "operand_types", 0), *result = shape_of(test, "result_types", 0);
    int rank = (int)json_array_size(result), count = read_list(attribute(test, "dims"), 0, where);
    for (int axis = 0; axis < rank; axis++) {
        from[axis] = 1;
        to[axis] = json_integer_value(json_array_get(result, (size_t)axis));
    }
    for (int i = 0; i < count; i++) {
        axes[i] = (int)where[i];
        from[where[i]] = json_integer_value(json_array_get(source, (size_t)i));
    }
    for (int axis = 0; axis < rank; axis++)
        snprintf(dims + strlen(dims), sizeof(dims) - strlen(dims), "%s%" PRId64, axis > 0 ? "," : "", from[axis]);
    input(test, "x", dims);
    build_ints(&test->build, "shape", rank, to);
    put_all(test);
    put(&test->inputs[0], 0, (size_t)count, axes);
    test->node = build_node(&test->build, "Expand", "x shape", "y");
    return "Expand, of an Unsqueeze";
}

static const char *build_concat(struct test *test)
{
    const char *op = build_plain(test, "Concat");
    build_attr_int(&test->build, test->node, "axis", strtoll(attribute(test, "dim"), NULL, 10));
    return op;
}

/* NHWC and HWIO to NCHW and OIHW. The spatial axes are left out: Shardy's input axis is a compound of windows and
   places in the window, and its kernel axis a reduction; ours is one halo factor of the windows, the kernel whole. */
static const char *build_conv(struct test *test)
{
    static const int channels_last[] = {0, 3, 1, 2}, filters[] = {3, 2, 0, 1};
    static const int image[] = {0, LEFT_OUT, LEFT_OUT, 1}, kernel[] = {LEFT_OUT, LEFT_OUT, 1, 0};
    int64_t strides[2], pads[4] = {0, 0, 1, 1};
    if (!has_attribute(test, "dim_numbers", "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]") ||
        !has_attribute(test, "pad", "[[0, 1], [0, 1]]") || !has_attribute(test, "batch_group_count", "1") ||
        !has_attribute(test, "lhs_dilations", "1") || !has_attribute(test, "rhs_dilations", "1"))
        return NULL;
    input(test, "x", dims_text(test, "operand_types", 0, channels_last));
    input(test, "w", dims_text(test, "operand_types", 1, filters));
    put(&test->inputs[0], 0, 4, image);
    put(&test->inputs[1], 1, 4, kernel);
    put(&test->outputs[0], 0, 4, image);
    read_list(attribute(test, "stride"), 0, strides);
    test->node = build_node(&test->build, "Conv", "x w", "y");
    build_attr_ints(&test->build, test->node, "strides", 2, strides);
    build_attr_ints(&test->build, test->node, "pads", 4, pads);
    build_attr_int(&test->build, test->node, "group", strtoll(attribute(test, "feature_group_count"), NULL, 10));
    return "Conv (NCHW, OIHW; spatial axes left out)";
}

static const char *build_top_k(struct test *test, int64_t axis, int64_t k)
{
    input(test, "x", dims_text(test, "operand_types", 0, NULL));
    build_ints(&test->build, "k", 1, &k);
    put_all(test);
    for (size_t i = 1; i < MAX_OPERANDS; i++)
        test->inputs[i].operand = LEFT_OUT; /* what is sorted along */
    test->node = build_node(&test->build, "TopK", "x k", "values indices");
    build_attr_int(&test->build, test->node, "axis", axis);
    return "TopK";
}

static const char *build_sort(struct test *test)
{
    int64_t axis = strtoll(attribute(test, "dimension"), NULL, 10);
    members_skip(json_object_get(test->json, "attrs"), "is_stable");
    return build_top_k(test, axis,
                       json_integer_value(json_array_get(shape_of(test, "operand_types", 0), (size_t)axis)));
}

/* a, b, .. for batch, free and contracted axes. */
static const char *build_dot_general(struct test *test)
{
    int64_t batch[2][SP_MAX_RANK], summed[2][SP_MAX_RANK];
    char names[2][SP_MAX_RANK + 1] = {{0}}, result[SP_MAX_RANK + 1] = "", next = 'a';
    int batch_count = 0, summed_count = 0;
    size_t size = 0;
    for (int side = 0; side < 2; side++) {
        batch_count = read_list(attribute(test, "batching_dims"), side, batch[side]);
        summed_count = read_list(attribute(test, "contracting_dims"), side, summed[side]);
    }
    for (int i = 0; i < batch_count; i++)
        result[size++] = names[0][batch[0][i]] = names[1][batch[1][i]] = next++;
    for (int i = 0; i < summed_count; i++)
        names[0][summed[0][i]] = names[1][summed[1][i]] = next++;
    for (size_t side = 0; side < 2; side++) {
        for (size_t axis = 0; axis < json_array_size(shape_of(test, "operand_types", side)); axis++) {
            if (names[side][axis] == '\0')
                result[size++] = names[side][axis] = next++;
        }
    }
    (void)build_plain(test, "Einsum");
    build_attr_string(&test->build, test->node, "equation",
                      sp_arena_printf(test->arena, "%s,%s->%s", names[0], names[1], result));
    return "Einsum";
}

/* Starts and ends are known only when it runs; the axes that are cut are. */
static const char *build_slice(struct test *test)
{
    int64_t sizes[SP_MAX_RANK], axes[SP_MAX_RANK];
    int count = read_list(attribute(test, "sizes"), 0, sizes), cut = 0;
    for (int axis = 0; axis < count; axis++) {
        if (sizes[axis] != json_integer_value(json_array_get(shape_of(test, "operand_types", 0), (size_t)axis)))
            axes[cut++] = axis;
    }
    input(test, "x", dims_text(test, "operand_types", 0, NULL));
    build_input(&test->build, "starts", SP_DTYPE_INT64, sp_arena_printf(test->arena, "%d", cut));
    build_input(&test->build, "ends", SP_DTYPE_INT64, sp_arena_printf(test->arena, "%d", cut));
    build_ints(&test->build, "axes", cut, axes);
    put_all(test);
    for (size_t i = 1; i < MAX_OPERANDS; i++)
        test->inputs[i].operand = LEFT_OUT; /* scalars */
    test->node = build_node(&test->build, "Slice", "x starts ends axes", "y");
    return "Slice (starts at run time)";
}

/* One axis; real and imaginary parts are one axis more. */
static const char *build_fft(struct test *test)
{
    int64_t axis = 2;
    const char *type = attribute(test, "type");
    bool is_real = strcmp(type, "RFFT") == 0;
    input(test, "x", sp_arena_printf(test->arena, "%s,%d", dims_text(test, "operand_types", 0, NULL), is_real ? 1 : 2));
    build_ints(&test->build, "axis", -1, &axis);
    put_all(test);
    test->node = build_node(&test->build, "DFT", "x - axis", "y");
    build_attr_int(&test->build, test->node, "onesided", is_real);
    build_attr_int(&test->build, test->node, "inverse", strcmp(type, "IFFT") == 0);
    return "DFT (with an axis of parts)";
}

static const char *build_pad(struct test *test)
{
    int64_t pads[2 * SP_MAX_RANK], between[SP_MAX_RANK];
    int rank = read_list(attribute(test, "low"), 0, pads);
    for (int i = read_list(attribute(test, "interior"), 0, between); i-- > 0;) {
        if (between[i] != 0)
            return NULL;
    }
    read_list(attribute(test, "high"), 0, pads + rank);
    input(test, "x", dims_text(test, "operand_types", 0, NULL));
    build_ints(&test->build, "pads", 2 * rank, pads);
    put_all(test);
    test->inputs[1].operand = LEFT_OUT; /* the filling */
    test->node = build_node(&test->build, "Pad", "x pads", "y");
    return "Pad";
}

static const char *build_reduce(struct test *test)
{
    int64_t axes[SP_MAX_RANK];
    int count = read_list(attribute(test, "dimensions"), 0, axes);
    input(test, "x", dims_text(test, "operand_types", 0, NULL));
    build_ints(&test->build, "axes", count, axes);
    put_all(test);
    for (size_t i = 1; i < MAX_OPERANDS; i++) /* initial values, and what is reduced beside it: by another node */
        test->inputs[i].operand = test->outputs[i].operand = LEFT_OUT;
    test->node = build_node(&test->build, "ReduceSum", "x axes", "y");
    build_attr_int(&test->build, test->node, "keepdims", 0);
    return "ReduceSum";
}

static const char *build_reshape(struct test *test)
{
    int64_t shape[SP_MAX_RANK];
    const json_t *result = shape_of(test, "result_types", 0);
    for (size_t axis = 0; axis < json_array_size(result); axis++)
        shape[axis] = json_integer_value(json_array_get(result, axis));
    input(test, "x", dims_text(test, "operand_types", 0, NULL));
    build_ints(&test->build, "shape", (int)json_array_size(result), shape);
    put_all(test);
    test->node = build_node(&test->build, "Reshape", "x shape", "y");
    return "Reshape";
}

static const char *build_bit_cast(struct test *test)
{
    const char *op = build_plain(test, "BitCast");
    build_attr_int(&test->build, test->node, "to", SP_DTYPE_INT32);
    return op;
}

static const char *build_topk_call(struct test *test)
{
    const json_t *shape = shape_of(test, "operand_types", 0);
    if (!has_attribute(test, "largest", "true"))
        return NULL;
    return build_top_k(test, (int64_t)json_array_size(shape) - 1, strtoll(attribute(test, "k"), NULL, 10));
}

static const char *build_transpose(struct test *test)
{
    int64_t order[SP_MAX_RANK];
    int count = read_list(attribute(test, "dims"), 0, order);
    const char *op = build_plain(test, "Transpose");
    build_attr_ints(&test->build, test->node, "perm", count, order);
    return op;
}

/* Windows of known starts, steps and ends; backwards. */
static const char *build_window(struct test *test, int count, const int64_t *axes, int64_t start, int64_t end,
                                int64_t step)
{
    int64_t starts[SP_MAX_RANK], ends[SP_MAX_RANK], steps[SP_MAX_RANK];
    const json_t *result = shape_of(test, "result_types", 0);
    for (int i = 0; i < count; i++) {
        starts[i] = start;
        steps[i] = step;
        ends[i] = end < 0 ? end : json_integer_value(json_array_get(result, (size_t)axes[i]));
    }
    input(test, "x", dims_text(test, "operand_types", 0, NULL));
    build_ints(&test->build, "starts", count, starts);
    build_ints(&test->build, "ends", count, ends);
    build_ints(&test->build, "axes", count, axes);
    build_ints(&test->build, "steps", count, steps);
    put_all(test);
    test->node = build_node(&test->build, "Slice", "x starts ends axes steps", "y");
    return "Slice";
}

static const char *build_reverse(struct test *test)
{
    int64_t axes[SP_MAX_RANK];
    int count = read_list(attribute(test, "dims"), 0, axes);
    return build_window(test, count, axes, -1, INT64_MIN / 2, -1);
}

/* Where a window lies does not change its rule. */
static const char *build_static_slice(struct test *test)
{
    int64_t axes[SP_MAX_RANK];
    const json_t *from = shape_of(test, "operand_types", 0), *to = shape_of(test, "result_types", 0);
    int count = 0;
    members_skip(test->json, "attrs");
    for (size_t axis = 0; axis < json_array_size(from); axis++) {
        if (!json_equal(json_array_get(from, axis), json_array_get(to, axis)))
            axes[count++] = (int64_t)axis;
    }
    return build_window(test, count, axes, 0, 0, 1);
}

/* Operators of the same operands, each a loop over all elements, and products of matrices. */
static const struct {
    const char *op, *onnx;
} plain[] = {
    {"stablehlo.abs", "Abs"},
    {"stablehlo.add", "Add"},
    {"stablehlo.and", "And"},
    {"stablehlo.ceil", "Ceil"},
    {"stablehlo.cosine", "Cos"},
    {"stablehlo.divide", "Div"},
    {"stablehlo.dot", "MatMul"},
    {"stablehlo.exponential", "Exp"},
    {"stablehlo.floor", "Floor"},
    {"stablehlo.log", "Log"},
    {"stablehlo.logistic", "Sigmoid"},
    {"stablehlo.maximum", "Max"},
    {"stablehlo.minimum", "Min"},
    {"stablehlo.multiply", "Mul"},
    {"stablehlo.negate", "Neg"},
    {"stablehlo.not", "Not"},
    {"stablehlo.or", "Or"},
    {"stablehlo.power", "Pow"},
    {"stablehlo.sign", "Sign"},
    {"stablehlo.sine", "Sin"},
    {"stablehlo.sqrt", "Sqrt"},
    {"stablehlo.subtract", "Sub"},
    {"stablehlo.tan", "Tan"},
    {"stablehlo.tanh", "Tanh"},
    {"stablehlo.xor", "Xor"},
    {"mhlo.erf", "Erf"},
};

static const struct {
    const char *op;
    const char *(*build)(struct test *test);
} builders[] = {
    {"stablehlo.batch_norm_inference", build_batch_norm},
    {"stablehlo.bitcast_convert", build_bit_cast},
    {"stablehlo.broadcast_in_dim", build_broadcast},
    {"stablehlo.clamp", build_clamp},
    {"stablehlo.concatenate", build_concat},
    {"stablehlo.convolution", build_conv},
    {"stablehlo.dot_general", build_dot_general},
    {"stablehlo.dynamic_slice", build_slice},
    {"stablehlo.fft", build_fft},
    {"stablehlo.pad", build_pad},
    {"stablehlo.reduce", build_reduce},
    {"stablehlo.reshape", build_reshape},
    {"stablehlo.reverse", build_reverse},
    {"stablehlo.select", build_select},
    {"stablehlo.slice", build_static_slice},
    {"stablehlo.sort", build_sort},
    {"stablehlo.transpose", build_transpose},
    {"mhlo.topk", build_topk_call},
};

/* ---- comparing -------------------------------------------------------------------------------------------------- */

struct factor_name {
    bool is_named[SP_RULE_MAX_FACTORS];
    char names[SP_RULE_MAX_FACTORS][48];
    unsigned count;
};

static const char *kind_of(const struct sp_factor *factor)
{
    switch (factor->kind) {
    case SP_FACTOR_PARALLEL:
        return "parallel";
    case SP_FACTOR_REDUCTION:
        return "reduction";
    case SP_FACTOR_HALO:
    case SP_FACTOR_PERMUTATION:
        return "permutation";
    case SP_FACTOR_REPLICATE:
    case SP_FACTOR_SEQUENTIAL:
        break;
    }
    return NULL; /* needed whole */
}

/* Names are numbers in order of appearance, with extent and kind. */
static void print_axis(const struct sp_rule *rule, const struct sp_axis_factors *axis, struct factor_name *names,
                       struct sp_buf *buf)
{
    unsigned printed = 0;
    for (uint8_t i = 0; i < axis->count; i++) {
        uint8_t f = axis->factors[i];
        const struct sp_factor *factor = &rule->factors[f];
        const char *kind = kind_of(factor);
        if (sp_dim_is(factor->extent, 1) || kind == NULL)
            continue;
        if (!names->is_named[f]) {
            names->is_named[f] = true;
            if (strcmp(kind, "permutation") == 0)
                snprintf(names->names[f], sizeof(names->names[f]), "%u:%s", names->count++, kind);
            else
                snprintf(names->names[f], sizeof(names->names[f]), "%u:%s=%" PRId64, names->count++, kind,
                         sp_dim_is_known(factor->extent) ? factor->extent.value : -1);
        }
        sp_buf_printf(buf, "%s%s", printed++ > 0 ? "*" : "", names->names[f]);
    }
    if (printed == 0)
        sp_buf_text(buf, "whole");
}

static void print_operand(const struct sp_rule *rule, const struct sp_operand_rule *operand, const int *axes,
                          size_t rank, struct factor_name *names, struct sp_buf *buf)
{
    sp_buf_text(buf, "[");
    for (size_t axis = 0; axis < rank; axis++) {
        sp_buf_text(buf, axis > 0 ? ", " : "");
        print_axis(rule, &operand->axes[axes != NULL ? (size_t)axes[axis] : axis], names, buf);
    }
    sp_buf_text(buf, "] ");
}

/* The places that are compared, of the case's rule (is_theirs) or ours. */
static const char *canonical(struct test *test, const struct sp_rule *rule, bool is_theirs)
{
    struct factor_name names = {0};
    struct sp_buf buf;
    sp_buf_init(&buf, 1 << 16);
    for (int side = 0; side < 2; side++) {
        const struct place *places = side == 0 ? test->inputs : test->outputs;
        const char *types = side == 0 ? "operand_types" : "result_types";
        for (size_t i = 0; i < json_array_size(json_object_get(test->json, types)); i++) {
            int theirs[SP_MAX_RANK], ours[SP_MAX_RANK];
            size_t rank = 0;
            for (size_t axis = 0; axis < json_array_size(shape_of(test, types, i)); axis++) {
                if (places[i].axes[axis] == LEFT_OUT)
                    continue;
                theirs[rank] = (int)axis;
                ours[rank++] = places[i].axes[axis];
            }
            if (places[i].operand == LEFT_OUT)
                continue;
            const struct sp_operand_rule *operands = side == 0 ? rule->inputs : rule->outputs;
            size_t operand = is_theirs ? i : (size_t)places[i].operand;
            print_operand(rule, &operands[operand], is_theirs ? theirs : ours, rank, &names, &buf);
        }
        sp_buf_text(&buf, side == 0 ? "-> " : "");
    }
    const char *text = sp_arena_string(test->arena, buf.data, buf.size);
    sp_buf_release(&buf);
    return text;
}

static const char *reason_without(const struct test *test, const char *op)
{
    const char *target = json_string_value(json_object_get(test->json, "target"));
    const char *variant = "";
    if (strcmp(op, "stablehlo.bitcast_convert") == 0)
        variant = strstr(test->name, "upcast") ? "/upcast" : strstr(test->name, "downcast") ? "/downcast" : "";
    else if (strcmp(op, "stablehlo.fft") == 0)
        variant = strchr(attribute(test, "length"), ',') ? "/several" : "";
    else if (strcmp(op, "stablehlo.clamp") == 0)
        variant = json_array_size(shape_of(test, "operand_types", 0)) > 0 ? "/tensors" : "";
    char key[128];
    snprintf(key, sizeof(key), "%s%s", target != NULL ? target : op, variant);
    for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++) {
        if (strcmp(without[i].op, key) == 0)
            return without[i].reason;
    }
    return NULL;
}

static const char *reason_for_difference(const char *name)
{
    for (size_t i = 0; i < sizeof(differences) / sizeof(differences[0]); i++) {
        if (strcmp(differences[i].name, name) == 0)
            return differences[i].reason;
    }
    return NULL;
}

static const char *build_case(struct test *test, const char *op)
{
    const char *target = json_string_value(json_object_get(test->json, "target")), *name = target != NULL ? target : op;
    (void)json_object_get(test->json, "attrs"); /* builders read what is in it */
    for (size_t i = 0; i < sizeof(builders) / sizeof(builders[0]); i++) {
        if (strcmp(builders[i].op, name) == 0)
            return builders[i].build(test);
    }
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        if (strcmp(plain[i].op, name) == 0)
            return build_plain(test, plain[i].onnx);
    }
    return NULL;
}

/* True when nothing differs that should not. */
static bool compare(struct test *test, const char *onnx)
{
    struct sp_rule *ours = NULL;
    struct sp_error err = {0};
    const struct sp_rule *theirs = build_rule_text(test->arena, json_string_value(json_object_get(test->json, "rule")));
    if (theirs == NULL || build_infer(&test->build) != SP_OK ||
        sp_op_rule(test->build.model, test->node, test->arena, &ours, &err) != SP_OK) {
        snprintf(test->why, sizeof(test->why), "%s: %.900s %.900s", onnx, test->build.err.message, err.message);
        return false;
    }
    const char *wanted = canonical(test, theirs, true), *found = canonical(test, ours, false);
    const char *reason = reason_for_difference(test->name);
    bool is_same = strcmp(wanted, found) == 0;
    if (is_same && reason == NULL)
        return true;
    if (is_same)
        snprintf(test->why, sizeof(test->why), "no longer differs: take it from the table");
    else if (reason == NULL)
        snprintf(test->why, sizeof(test->why), "%s: %s, not %s", onnx, found, wanted);
    else
        printf("# %s differs: %s\n", test->name, reason);
    return !is_same && reason != NULL;
}

int main(void)
{
    char path[4096];
    size_t size, index;
    unsigned compared = 0, left = 0, failed = 0;
    json_error_t problem;
    const json_t *json;
    snprintf(path, sizeof(path), "%s/sdy_op_rule_cases.json", data_folder());
    unsigned char *bytes = data_read(path, &size);
    if (bytes == NULL) {
        printf("1..0 # SKIP %s is not there\n", path);
        return 0;
    }
    json_t *root = json_loadb((const char *)bytes, size, 0, &problem);
    json_array_foreach(json_object_get(root, "cases"), index, json)
    {
        struct test test = {.json = json, .name = json_string_value(json_object_get(json, "name"))};
        const char *op = json_string_value(json_object_get(json, "op")), *reason = reason_without(&test, op);
        if (reason != NULL) {
            printf("ok %zu %s # SKIP %s: %s\n", index + 1, test.name, op, reason);
            left++;
            continue;
        }
        test.arena = sp_arena_create(NULL);
        build_init(&test.build, 26);
        const char *onnx = build_case(&test, op);
        bool is_right = onnx != NULL && compare(&test, onnx);
        members_skip(json, "src parsed conservative"); /* the rule once more; and whether sub-axes are carried */
        const char *unread = members_unread(json);
        if (is_right && unread != NULL) {
            is_right = false;
            snprintf(test.why, sizeof(test.why), "%s is not read", unread);
        }
        if (is_right)
            printf("ok %zu %s: %s -> %s\n", index + 1, test.name, op, onnx);
        else
            printf("not ok %zu %s: %s\n", index + 1, test.name,
                   onnx != NULL ? test.why : "no operator for it, and no reason");
        compared += is_right;
        failed += !is_right;
        build_release(&test.build);
        sp_arena_destroy(test.arena);
    }
    json_decref(root);
    free(bytes);
    printf("1..%u\n# shardy_rules: %u compared, %u without an ONNX operator, %u failed\n", compared + left + failed,
           compared, left, failed);
    return failed > 0 || compared == 0;
}
