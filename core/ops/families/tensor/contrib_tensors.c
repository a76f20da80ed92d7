/*
 * Operators of ONNX Runtime (com.microsoft) that move, compare or transform tensors, and those that are opaque.
 *
 *     GatherND, Pad, Trilu, TorchEmbedding   as the operators of ai.onnx
 *     CDist          [m, k] [n, k] -> [m, n]              k whole: a distance is a root, or a maximum
 *     ComplexMul     [i.., two] [i.., two] -> [i.., two]  two whole: the real and the imaginary part
 *     Inverse        [b.., m, n] -> [b.., m, n]           m, n whole
 *     Rfft, Irfft    [b.., n..] -> [b.., m.., 2]          n.., m.. whole
 *     UnfoldTensor   [i.., n] -> [i.., w, s]              n, w, s whole
 *     EPContext      a compiled part of a graph: whole
 *
 * FLOPs: 1 for each element that comes out, but CDist 3 for each pair, ComplexMul 6 for each product, Inverse 2 n for
 * each element, and transforms 5 log2(n) for each.
 */
#include <math.h>

#include "ops/lowering/functions.h"
#include "ops/table/factors.h"
#include "ops/table/families.h"
#include "ops/table/like.h"
#include "ops/table/shape_helpers.h"

#define DOMAIN "com.microsoft"
#define LIKE(...)                                                                                                      \
    .like = &(const struct sp_op_like){__VA_ARGS__}, .shapes = sp_shapes_like, .rule = sp_rule_like,                   \
    .lower = sp_lower_like

static enum sp_status shapes_same(struct sp_op_context *context)
{
    return sp_set_output_shape(context, 0, sp_in_dtype(context, 0), sp_in_shape(context, 0));
}

/* ---- ExpandDims, UnfoldTensor, Unique ----------------------------------------------------------------------------- */

/* The axis is an input: where it is not known, neither is any extent. */
static bool expanded_axis(struct sp_op_context *context, uint32_t rank, uint32_t *ret_axis)
{
    const struct sp_data *data = sp_in_known_ints(context, 1);
    if (data == NULL || data->count != 1)
        return false;
    int64_t axis = data->ints[0].value < 0 ? data->ints[0].value + (int64_t)rank + 1 : data->ints[0].value;
    *ret_axis = (uint32_t)axis;
    return axis >= 0 && axis <= (int64_t)rank;
}

static enum sp_status shapes_expand_dims(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    uint32_t at = 0;
    if (x == NULL)
        return sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
    struct sp_dim *dims = sp_new_dims(context, (uint64_t)x->rank + 1);
    if (dims == NULL)
        return sp_fail_memory(context->err);
    if (expanded_axis(context, x->rank, &at)) {
        for (uint32_t axis = 0; axis <= x->rank; axis++)
            dims[axis] = axis == at ? sp_dim_known(1) : x->dims[axis - (axis > at)];
    } else if (sp_in_known_ints(context, 1) != NULL) {
        return sp_op_fail(context, "AXIS_OUT_OF_RANGE", "its axis is not within the %u axes of its result",
                          x->rank + 1);
    }
    return sp_set_output(context, 0, sp_in_dtype(context, 0), x->rank + 1, dims);
}

static enum sp_status rule_expand_dims(struct sp_op_context *context, struct sp_rule *rule)
{
    uint32_t rank = rule->inputs[0].rank, at = 0;
    bool is_known = expanded_axis(context, rank, &at);
    for (uint32_t axis = 0; axis < rank; axis++) {
        uint8_t factor =
            sp_rule_input_axis(context, rule, 'd', 0, axis, is_known ? SP_FACTOR_PARALLEL : SP_FACTOR_REPLICATE);
        if (is_known)
            sp_rule_map_output(rule, 0, axis + (axis >= at), factor);
    }
    return SP_OK;
}

static enum sp_status unfolded_axis(struct sp_op_context *context, uint32_t rank, uint32_t *ret_axis)
{
    return sp_normalize_axis(context, sp_node_int(context->node, "dim", -1), rank, ret_axis);
}

static enum sp_status shapes_unfold(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    int64_t size = sp_node_int(context->node, "size", 0), step = sp_node_int(context->node, "step", 1);
    uint32_t along = 0;
    if (size < 1 || step < 1)
        return sp_op_fail(context, "ATTRIBUTE_VALUE", "attributes 'size' and 'step' must be positive");
    if (x == NULL)
        return sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
    enum sp_status status = unfolded_axis(context, x->rank, &along);
    struct sp_dim *dims = sp_new_dims(context, (uint64_t)x->rank + 1);
    if (status != SP_OK || dims == NULL)
        return status != SP_OK ? status : sp_fail_memory(context->err);
    for (uint32_t axis = 0; axis < x->rank; axis++)
        dims[axis] = x->dims[axis];
    struct sp_dim room = sp_dim_sub(context->dims, x->dims[along], sp_dim_known(size));
    if (sp_dim_is_known(room) && room.value < 0)
        return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute 'size' is %lld for an axis of %lld", (long long)size,
                          (long long)x->dims[along].value);
    dims[along] = sp_dim_add(context->dims, sp_dim_floordiv(context->dims, room, sp_dim_known(step)), sp_dim_known(1));
    dims[x->rank] = sp_dim_known(size);
    return sp_set_output(context, 0, sp_in_dtype(context, 0), x->rank + 1, dims);
}

static enum sp_status rule_unfold(struct sp_op_context *context, struct sp_rule *rule)
{
    uint32_t along = 0;
    enum sp_status status = unfolded_axis(context, rule->inputs[0].rank, &along);
    for (uint32_t axis = 0; status == SP_OK && axis < rule->inputs[0].rank; axis++) {
        if (axis == along) {
            (void)sp_rule_input_axis(context, rule, 'n', 0, axis, SP_FACTOR_REPLICATE);
            (void)sp_rule_output_axis(context, rule, 'w', 0, axis, SP_FACTOR_REPLICATE);
            continue;
        }
        sp_rule_map_output(rule, 0, axis, sp_rule_input_axis(context, rule, 'd', 0, axis, SP_FACTOR_PARALLEL));
    }
    (void)sp_rule_output_axis(context, rule, 's', 0, rule->inputs[0].rank, SP_FACTOR_REPLICATE);
    sp_rule_term_output(rule, 1);
    return status;
}

/* The first output and the counts have an element for each value that occurs. */
static enum sp_status shapes_unique(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    struct sp_dim found =
        sp_dim_fresh(context->dims, "Unique", x != NULL ? sp_product(context, x->dims, 0, x->rank) : sp_dim_unknown());
    enum sp_status status = sp_set_output(context, 0, sp_in_dtype(context, 0), 1, &found);
    if (status == SP_OK)
        status = sp_set_output_shape(context, 1, SP_DTYPE_INT64, sp_in_shape(context, 0));
    return status != SP_OK ? status : sp_set_output(context, 2, SP_DTYPE_INT64, 1, &found);
}

/* ---- distances, products, transforms ------------------------------------------------------------------------------ */

static enum sp_status shapes_cdist(struct sp_op_context *context)
{
    const struct sp_shape *a = sp_in_shape(context, 0), *b = sp_in_shape(context, 1);
    enum sp_status status = sp_check_rank(context, 0, 2);
    if (status == SP_OK)
        status = sp_check_rank(context, 1, 2);
    if (status != SP_OK)
        return status;
    if (a != NULL && b != NULL && sp_dim_differs(context->dims, a->dims[1], b->dims[1]))
        return sp_op_fail(context, "SHAPES_DISAGREE", "its inputs have vectors of different lengths");
    const struct sp_dim dims[] = {a != NULL ? a->dims[0] : sp_dim_unknown(), b != NULL ? b->dims[0] : sp_dim_unknown()};
    return sp_set_output(context, 0, sp_in_dtype(context, 0), 2, dims);
}

static enum sp_status shapes_complex(struct sp_op_context *context)
{
    const struct sp_shape *a = sp_in_shape(context, 0), *b = sp_in_shape(context, 1);
    struct sp_shape shape;
    if (a == NULL || b == NULL)
        return sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
    enum sp_status status = sp_broadcast(context, a, b, &shape);
    return status != SP_OK ? status : sp_set_output_shape(context, 0, sp_in_dtype(context, 0), &shape);
}

static enum sp_status shapes_sparse(struct sp_op_context *context)
{
    const struct sp_value *value = context->node->inputs[0];
    const struct sp_shape *a = value != NULL && value->type.shape.has_rank ? &value->type.shape : NULL;
    const struct sp_shape *b = sp_in_shape(context, 1);
    bool is_a = sp_node_int(context->node, "transA", 0) != 0, is_b = sp_node_int(context->node, "transB", 0) != 0;
    if ((a != NULL && a->rank != 2) || (b != NULL && b->rank != 2))
        return sp_op_fail(context, "OPERAND_SHAPE", "it multiplies two matrices of rank 2");
    const struct sp_dim dims[] = {a != NULL ? a->dims[is_a] : sp_dim_unknown(),
                                  b != NULL ? b->dims[!is_b] : sp_dim_unknown()};
    return sp_set_output(context, 0, sp_in_dtype(context, 1), 2, dims);
}

/* Only columns of the dense matrix can be cut: the sparse one has no pieces. */
static enum sp_status rule_sparse(struct sp_op_context *context, struct sp_rule *rule)
{
    bool is_b = sp_node_int(context->node, "transB", 0) != 0;
    uint8_t n = sp_rule_input_axis(context, rule, 'n', 1, is_b ? 0 : 1, SP_FACTOR_PARALLEL);
    sp_rule_map_output(rule, 0, 1, n);
    uint8_t m = sp_rule_output_axis(context, rule, 'm', 0, 0, SP_FACTOR_REPLICATE);
    uint8_t k = sp_rule_input_axis(context, rule, 'k', 1, is_b ? 1 : 0, SP_FACTOR_REPLICATE);
    const uint8_t work[] = {m, n, k};
    sp_rule_term(rule, 2, 3, work);
    return SP_OK;
}

/* How many axes are transformed, and the last extent before and behind. */
static enum sp_status shapes_fft(struct sp_op_context *context, bool is_inverse)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    bool is_half = sp_node_int(context->node, "onesided", 1) != 0;
    if (x == NULL)
        return sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
    if (x->rank < (is_inverse ? 2U : 1U))
        return sp_op_fail(context, "OPERAND_SHAPE", "its input has rank %u", x->rank);
    uint32_t rank = is_inverse ? x->rank - 1 : x->rank + 1;
    struct sp_dim *dims = sp_new_dims(context, rank), one = sp_dim_known(1), two = sp_dim_known(2);
    if (dims == NULL)
        return sp_fail_memory(context->err);
    for (uint32_t axis = 0; axis < rank && axis < x->rank; axis++)
        dims[axis] = x->dims[axis];
    if (!is_inverse)
        dims[rank - 1] = two;
    uint32_t last = is_inverse ? rank - 1 : rank - 2;
    if (is_half && is_inverse)
        dims[last] = sp_dim_mul(context->dims, sp_dim_sub(context->dims, x->dims[last], one), two);
    else if (is_half)
        dims[last] = sp_dim_add(context->dims, sp_dim_floordiv(context->dims, x->dims[last], two), one);
    return sp_set_output(context, 0, sp_in_dtype(context, 0), rank, dims);
}

static enum sp_status shapes_rfft(struct sp_op_context *context)
{
    return shapes_fft(context, false);
}

static enum sp_status shapes_irfft(struct sp_op_context *context)
{
    return shapes_fft(context, true);
}

static enum sp_status rule_fft(struct sp_op_context *context, struct sp_rule *rule)
{
    uint32_t in = rule->inputs[0].rank, out = rule->outputs[0].rank, all = in < out ? in : out;
    int64_t count = sp_node_int(context->node, "signal_ndim", 1);
    uint32_t batch = count > 0 && count < (int64_t)all ? all - (uint32_t)count : 0;
    for (uint32_t axis = 0; axis < in; axis++) {
        uint8_t factor = sp_rule_input_axis(context, rule, axis < batch ? 'b' : 'n', 0, axis,
                                            axis < batch ? SP_FACTOR_PARALLEL : SP_FACTOR_REPLICATE);
        if (axis < batch)
            sp_rule_map_output(rule, 0, axis, factor);
    }
    for (uint32_t axis = batch; axis < out; axis++)
        (void)sp_rule_output_axis(context, rule, 'm', 0, axis, SP_FACTOR_REPLICATE);
    struct sp_dim last = sp_in_shape(context, 0)->dims[all - 1];
    sp_rule_term_output(rule, 5 * (sp_dim_is_known(last) && last.value > 1 ? log2((double)last.value) : 1));
    return SP_OK;
}

/* ---- what is whole ------------------------------------------------------------------------------------------------ */

static enum sp_status shapes_finite(struct sp_op_context *context)
{
    return sp_set_output(context, 0, SP_DTYPE_BOOL, 0, NULL);
}

static enum sp_status shapes_hash(struct sp_op_context *context)
{
    bool is_positive = sp_node_int(context->node, "positive", 1) != 0;
    return sp_set_output_shape(context, 0, is_positive ? SP_DTYPE_UINT32 : SP_DTYPE_INT32, sp_in_shape(context, 0));
}

/* Two rows of as many indices as the path is long. */
static enum sp_status shapes_warping(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    struct sp_dim most = sp_dim_unknown(); /* each step goes along one of the last two axes at least */
    if (x != NULL && x->rank >= 2)
        most = sp_dim_add(context->dims, x->dims[x->rank - 2], x->dims[x->rank - 1]);
    const struct sp_dim dims[] = {sp_dim_known(2), sp_dim_fresh(context->dims, "DynamicTimeWarping", most)};
    return sp_set_output(context, 0, SP_DTYPE_INT32, 2, dims);
}

/* Only the file says what comes out. */
static enum sp_status shapes_opaque(struct sp_op_context *context)
{
    (void)context;
    return SP_OK;
}

static enum sp_status rule_opaque(struct sp_op_context *context, struct sp_rule *rule)
{
    (void)context;
    (void)rule;
    return SP_OK;
}

#define ENTRY(name_, least, most, outputs, text, ...)                                                                  \
    SP_ENTRY(DOMAIN, name_, 1, 0, least, most, 1, outputs, text, "ONNX Runtime contrib operator " name_, __VA_ARGS__)

const struct sp_op sp_ops_contrib_tensors[] = {
    ENTRY("GatherND", 2, 2, 1, "[b.., v.., d..] [b.., i.., t] -> [b.., i.., d..]; v.. sum, t whole",
          LIKE("", "GatherND", 11, .keeps_values = true), .signature = "(data,indices) -> (output) {}"),
    ENTRY("TorchEmbedding", 2, 4, 1, "[v, e..] [i..] [] [] -> [i.., e..]; v sum",
          LIKE("", "Gather", 13, .input_count = 2, .inputs = {0, 1}),
          .signature = "(weight,indices,padding_idx?,scale_grad_by_freq?) -> (Y) {}"),
    ENTRY("Pad", 2, 3, 1, "[d.., i] [_] [] -> [d.., i]; i moves, or is whole where the pads are not known",
          LIKE("", "Pad", 13, .keeps_values = true),
          .signature = "(data,pads,value?) -> (output) "
                       "{mode:string='constant'}"),
    ENTRY("Trilu", 1, 2, 1, "[b.., m, n] [] -> [b.., m, n]", LIKE("", "Trilu", 14, .keeps_values = true),
          .signature = "(X,k?) -> (Y) {upper:int=1}"),
    ENTRY("ExpandDims", 2, 2, 1, "[i..] [] -> [i.., 1..]; all whole where the axis is not known", .flags = SP_OP_VIEW,
          .shapes = shapes_expand_dims, .rule = rule_expand_dims, .signature = "(X,axis) -> (Y) {}"),
    ENTRY("UnfoldTensor", 1, 1, 1, "[i.., n] -> [i.., w, s]; n, w, s whole", .shapes = shapes_unfold,
          .rule = rule_unfold, .signature = "(input) -> (output) {dim:int=-1,size!:int,step:int=1}"),
    ENTRY("Unique", 1, 1, 3, "[i] -> [o] [i] [o]; all whole", .shapes = shapes_unique, .flops = 1,
          .signature = "(x) -> (y,idx,counts) {}"),
    ENTRY("SampleOp", 1, 1, 1, "[i..] -> [i..]", .shapes = shapes_same, .flops = 1, .signature = "(X) -> (Y) {}"),
    ENTRY("MurmurHash3", 1, 1, 1, "[i..] -> [i..]", .shapes = shapes_hash, .flops = 1,
          .signature = "(X) -> (Y) {positive:int=1,seed:int=0}"),
    ENTRY("CDist", 2, 2, 1, "[m, k] [n, k] -> [m, n]; k whole", .shapes = shapes_cdist, .flops = 3,
          .signature = "(A,B) -> (C) {metric:string='sqeuclidean'}"),
    ENTRY("ComplexMul", 2, 2, 1, "[i.., two] [i.., two] -> [i.., two]; two whole", .shapes = shapes_complex, .flops = 3,
          .signature = "(A,B) -> (C) {}"),
    ENTRY("ComplexMulConj", 2, 2, 1, "[i.., two] [i.., two] -> [i.., two]; two whole", .shapes = shapes_complex,
          .flops = 3, .signature = "(A,B) -> (C) {}"),
    ENTRY("Inverse", 1, 1, 1, "[b.., m, n] -> [b.., m, n]; m, n whole", .shapes = shapes_same, .flops = 1,
          .signature = "(X) -> (Y) {}"),
    ENTRY("Rfft", 1, 1, 1, "[b.., n..] -> [b.., m..]; n.., m.. whole", .shapes = shapes_rfft, .rule = rule_fft,
          .signature = "(X) -> (Y) {normalized!:int,onesided!:int,signal_ndim!:int}"),
    ENTRY("Irfft", 1, 1, 1, "[b.., n..] -> [b.., m..]; n.., m.. whole", .shapes = shapes_irfft, .rule = rule_fft,
          .signature = "(X) -> (Y) {normalized!:int,onesided!:int,signal_ndim!:int}"),
    ENTRY("SparseToDenseMatMul", 2, 2, 1, "[m, k] [k, n] -> [m, n], either transposed; m, k whole",
          .shapes = shapes_sparse, .rule = rule_sparse,
          .signature = "(A,B) -> (Y) {alpha:float=1.0,transA:int=0,transB:int=0}"),
    ENTRY("IsAllFinite", 1, UINT32_MAX, 1, "[_..] -> []; all whole", .shapes = shapes_finite, .rule = rule_opaque,
          .signature = "(*input) -> (output) {isinf_only:int=0,isnan_only:int=0}"),
    ENTRY("DynamicTimeWarping", 1, 1, 1, "[_..] -> [_] [_]; all whole", .shapes = shapes_warping, .rule = rule_opaque,
          .signature = "(input) -> (output) {}"),
    ENTRY("EPContext", 1, UINT32_MAX, UINT32_MAX, "[_..] -> [_..]; all whole", .shapes = shapes_opaque,
          .rule = rule_opaque,
          .signature = "(*inputs) -> (*outputs) {embed_mode:int=1,ep_cache_context:string,ep_sdk_version:string,"
                       "hardware_architecture:string,main_context:int=1,max_size:int=0,notes:string,"
                       "onnx_model_filename:string,partition_name:string,source:string}"),
    ENTRY("Snpe", 1, UINT32_MAX, UINT32_MAX, "[_..] -> [_..]; all whole", .shapes = shapes_opaque, .rule = rule_opaque,
          .signature = "(*inputs) -> (*outputs) {DLC!:string,notes:string,snpe_version:string,target_device:string}"),
    {.name = NULL},
};
