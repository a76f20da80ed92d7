#include "export/ort_rules.h"

#include <string.h>

/* What an operator's rule says, and why. */
struct judgement {
    enum sp_ort_verdict verdict;
    const char *why;
};

static struct judgement accept(void)
{
    return (struct judgement){SP_ORT_ACCEPTED, NULL};
}

static struct judgement untested(void)
{
    return (struct judgement){SP_ORT_UNTESTED, "By its code ONNX Runtime does this, but none of its tests does."};
}

static struct judgement wrong(const char *why)
{
    return (struct judgement){SP_ORT_WRONG, why};
}

static struct judgement refuse(const char *why)
{
    return (struct judgement){SP_ORT_REFUSED, why};
}

/* ---- specs ----------------------------------------------------------------------------------------------------- */

#define NOT_SPLIT (-1)

static int64_t split_axis(const struct sp_ort_spec *spec)
{
    for (uint32_t i = 0; spec != NULL && i < spec->rank; i++) {
        if (spec->mesh_axes[i] >= 0)
            return i;
    }
    return NOT_SPLIT;
}

static bool is_split(const struct sp_ort_tensor *tensor)
{
    return split_axis(tensor->spec) != NOT_SPLIT;
}

static bool has_same_mesh(const struct sp_ort_spec *a, const struct sp_ort_spec *b)
{
    return a->element_count == b->element_count &&
           memcmp(a->mesh_elements, b->mesh_elements, (size_t)a->element_count * sizeof *a->mesh_elements) == 0;
}

static bool is_equal(const struct sp_ort_spec *a, const struct sp_ort_spec *b)
{
    const bool splits = split_axis(a) != NOT_SPLIT;
    return a->rank == b->rank && split_axis(a) == split_axis(b) && (!splits || has_same_mesh(a, b));
}

/* Devices of the mesh, which repeats them in turns: [0, 1, 0, 1] has 2. 0: it does not repeat in turns. */
static int64_t unique_devices(const struct sp_ort_spec *spec)
{
    int64_t period = 1;
    while (period < spec->element_count && spec->mesh_elements[period] != spec->mesh_elements[0])
        period++;
    for (int64_t i = period; i < spec->element_count; i++) {
        if (spec->mesh_elements[i] != spec->mesh_elements[i - period])
            return 0;
    }
    return spec->element_count % period == 0 ? period : 0;
}

/* Whether piece i is on rank i: what the kernels count on when they gather and slice. */
static bool is_by_rank(const struct sp_ort_spec *spec)
{
    for (int64_t i = 0; i < spec->element_count; i++) {
        if (spec->mesh_elements[i] != i)
            return false;
    }
    return true;
}

static struct judgement check_tensor(const struct sp_ort_case *it, const struct sp_ort_tensor *tensor)
{
    const struct sp_ort_spec *spec = tensor->spec;
    uint32_t splits = 0;
    for (uint32_t i = 0; spec != NULL && i < spec->rank; i++)
        splits += spec->mesh_axes[i] >= 0;
    if (splits == 0)
        return accept();
    if (splits > 1)
        return refuse("A tensor has two split axes; ONNX Runtime's kernels take one.");
    if (spec->mesh_rank != 1)
        return refuse("A tensor is on a mesh of several axes; ONNX Runtime's kernels take a mesh of one.");
    const int64_t unique = unique_devices(spec), extent = tensor->shape[split_axis(spec)];
    if (unique == 0)
        return refuse("A mesh repeats devices in no regular pattern.");
    if (extent < 0 || extent % spec->element_count != 0)
        return refuse("A split axis does not divide into equal pieces, which ONNX Runtime's kernels need.");
    if (unique != it->world)
        return wrong("A tensor is split over a part of the devices; ONNX Runtime's collectives are over all of them.");
    return accept();
}

/* ---- MatMul ---------------------------------------------------------------------------------------------------- */

enum matrix { WHOLE, COLUMNS, ROWS, BATCH };

static enum matrix matrix_of(const struct sp_ort_spec *spec)
{
    const int64_t axis = split_axis(spec);
    if (axis == NOT_SPLIT)
        return WHOLE;
    return axis + 1 == spec->rank ? COLUMNS : axis + 2 == spec->rank ? ROWS : BATCH;
}

/* A split along a batch axis. */
static struct judgement judge_batch(const struct sp_ort_case *it, enum matrix b)
{
    const struct sp_ort_spec *a = it->inputs[0].spec, *other = it->inputs[1].spec, *y = it->output.spec;
    const int64_t from_back = a->rank - split_axis(a);
    if (b != WHOLE)
        return refuse("Case 3-5: with both operands split, one of them along a batch axis, DistributedMatMul refuses.");
    if (matrix_of(y) != BATCH || y->rank - split_axis(y) != from_back)
        return refuse("Split along a batch axis, DistributedMatMul leaves its result split along the same axis only.");
    if (other->rank < from_back || it->inputs[1].shape[other->rank - from_back] == 1)
        return accept();
    if (is_by_rank(a) && other->rank > a->rank)
        return accept();
    return is_by_rank(a) ? untested() : wrong("Case 2-3-2 slices the other operand by rank, not as the mesh says.");
}

static struct judgement judge_matrices(enum matrix a, enum matrix b, enum matrix y, bool is_plain)
{
    static const char no_way[] = "DistributedMatMul has no path to this split of its result.";
    static const char by_rank[] = "DistributedMatMul gathers and slices by rank here, not as the mesh says.";
    const struct judgement moved = is_plain ? accept() : wrong(by_rank);
    if (a == WHOLE && b == WHOLE)
        return wrong("With both operands whole DistributedMatMul produces no output.");
    if (b == BATCH)
        return refuse("Case 1-3: the second operand alone is split along a batch axis.");
    if (a == WHOLE && b == COLUMNS)
        return y == COLUMNS ? accept() : refuse(no_way);
    if (a == WHOLE)
        return y == WHOLE ? moved : wrong("Case 1-2 computes the whole product whatever split is asked for.");
    if (a == COLUMNS && b == WHOLE)
        return y != WHOLE ? refuse(no_way) : is_plain ? untested() : wrong(by_rank);
    if (a == COLUMNS && b == COLUMNS)
        return y == WHOLE || y == COLUMNS ? moved : refuse(no_way);
    if (a == COLUMNS)
        return y == WHOLE ? accept() : refuse("Case 3-2 ends in an all-reduce: its result is whole.");
    if (b == WHOLE)
        return y == ROWS ? untested() : refuse(no_way);
    if (y != WHOLE)
        return refuse(no_way);
    return b == COLUMNS ? moved : wrong("Case 3-4 leaves the all-reduce out: each rank has a part of the sum.");
}

static struct judgement judge_matmul(const struct sp_ort_case *it)
{
    const struct sp_ort_spec *a = it->inputs[0].spec, *b = it->inputs[1].spec, *y = it->output.spec;
    if (a->rank < 2 || b->rank < 2)
        return refuse("DistributedMatMul takes no operands of one axis.");
    const enum matrix kind = matrix_of(a);
    const struct sp_ort_spec *mesh = kind != WHOLE ? a : b;
    if ((kind != WHOLE && is_split(&it->inputs[1]) && !has_same_mesh(a, b)) ||
        (is_split(&it->output) && split_axis(mesh) != NOT_SPLIT && !has_same_mesh(mesh, y)))
        return wrong("Operands and result are on different meshes, which DistributedMatMul does not look at.");
    if (kind == BATCH)
        return judge_batch(it, matrix_of(b));
    return judge_matrices(kind, matrix_of(b), matrix_of(y), is_by_rank(mesh));
}

/* ---- operators with axes --------------------------------------------------------------------------------------- */

static bool has_axis(const struct sp_ort_case *it, int64_t axis)
{
    for (uint32_t i = 0; i < it->axis_count; i++) {
        if (it->axes[i] == axis)
            return true;
    }
    return false;
}

static bool has_negative(const struct sp_ort_case *it)
{
    for (uint32_t i = 0; i < it->axis_count; i++) {
        if (it->axes[i] < 0)
            return true;
    }
    return false;
}

static bool is_parameter_split(const struct sp_ort_case *it)
{
    for (uint32_t i = 1; i < SP_ORT_MAX_INPUTS; i++) {
        if (is_split(&it->inputs[i]))
            return true;
    }
    return false;
}

static struct judgement judge_slice(const struct sp_ort_case *it)
{
    const int64_t axis = split_axis(it->inputs[0].spec), out = split_axis(it->output.spec);
    if (is_parameter_split(it))
        return refuse("DistributedSlice does not take split starts, ends, axes or steps.");
    if (axis == NOT_SPLIT)
        return refuse("DistributedSlice takes split data only.");
    if (!it->has_axes)
        return refuse("DistributedSlice needs the input 'axes'.");
    if (has_negative(it))
        return wrong("DistributedSlice does not count negative axes from the end.");
    const bool slices = has_axis(it, axis);
    if (!slices && out == NOT_SPLIT)
        return refuse("DistributedSlice of another axis than the split one has a split result only.");
    if (!slices && out == axis)
        return has_same_mesh(it->inputs[0].spec, it->output.spec)
                   ? accept()
                   : wrong("DistributedSlice does not look at meshes that differ.");
    if (!is_by_rank(it->inputs[0].spec) || (out != NOT_SPLIT && !is_by_rank(it->output.spec)))
        return wrong("DistributedSlice gathers and slices by rank here, not as the mesh says.");
    return slices && out == axis ? accept() : untested();
}

static struct judgement judge_reduce(const struct sp_ort_case *it)
{
    const struct sp_ort_spec *x = it->inputs[0].spec;
    const int64_t axis = split_axis(x);
    if (!it->has_axes || it->axis_count == 0)
        return wrong("Without axes a Distributed reduction hands its input on.");
    if (!it->keeps_dims)
        return refuse("A Distributed reduction compares the specs of input and output, so it needs keepdims=1.");
    if (axis != NOT_SPLIT && has_axis(it, axis))
        return refuse("A Distributed reduction does not reduce the split axis.");
    if (axis != NOT_SPLIT && has_axis(it, axis - (int64_t)x->rank))
        return wrong("A Distributed reduction does not see that the negative axis is the split one.");
    return is_equal(x, it->output.spec) ? accept()
                                        : refuse("A Distributed reduction leaves its result split as its input is.");
}

/* A spec of another rank; NULL without memory. */
static struct sp_ort_spec *respec(struct sp_arena *scratch, const struct sp_ort_spec *like, uint32_t rank)
{
    struct sp_ort_spec *spec = SP_NEW(scratch, struct sp_ort_spec);
    if (spec == NULL)
        return NULL;
    *spec = *like;
    spec->rank = rank;
    spec->mesh_axes = SP_NEW_ARRAY(scratch, (size_t)rank + 1, int64_t);
    if (spec->mesh_axes == NULL)
        return NULL;
    for (uint32_t i = 0; i < rank; i++)
        spec->mesh_axes[i] = -1;
    return spec;
}

/* Whether axis `axis` of a tensor of `rank` axes is among the axes, negative ones counted from the end. */
static bool names_axis(const struct sp_ort_case *it, uint32_t axis, uint32_t rank)
{
    return has_axis(it, axis) || has_axis(it, (int64_t)axis - rank);
}

static struct judgement judge_squeeze(const struct sp_ort_case *it, struct sp_arena *scratch, bool inserts)
{
    const struct sp_ort_spec *x = it->inputs[0].spec, *y = it->output.spec;
    const struct sp_ort_spec *longer = inserts ? y : x, *shorter = inserts ? x : y;
    const int64_t *extents = inserts ? it->output.shape : it->inputs[0].shape;
    struct sp_ort_spec *native = respec(scratch, x, y->rank);
    if (native == NULL)
        return refuse("There is not enough memory.");
    if (!it->has_axes)
        return refuse("The input 'axes' must be known.");
    if (inserts && it->axis_count > 1 && has_negative(it))
        return wrong("DistributedUnsqueeze counts several negative axes from the end of its input.");
    uint32_t other = 0;
    for (uint32_t i = 0; i < longer->rank; i++) {
        if (names_axis(it, i, longer->rank)) {
            if (!inserts && (extents[i] != 1 || x->mesh_axes[i] >= 0))
                return refuse("DistributedSqueeze takes axes of one element that are not split.");
            continue;
        }
        if (other < shorter->rank)
            native->mesh_axes[inserts ? i : other] = x->mesh_axes[inserts ? other : i];
        other++;
    }
    return is_equal(native, y) ? accept() : refuse("The result keeps the split of the input; another is refused.");
}

/* ---- Reshape and Expand ---------------------------------------------------------------------------------------- */

/* The first axis f of `longer` such that f and f + 1 are one axis of `shorter` and all others are the same; -1. */
static int64_t fused_axis(uint32_t rank, const int64_t *longer, const int64_t *shorter)
{
    for (uint32_t f = 0; f + 1 < rank; f++) {
        bool is = longer[f] * longer[f + 1] == shorter[f];
        for (uint32_t i = 0; is && i < rank; i++) {
            if (i < f || i > f + 1)
                is = longer[i] == shorter[i < f ? i : i - 1];
        }
        if (is)
            return f;
    }
    return -1;
}

static bool repeat_mesh(struct sp_arena *scratch, struct sp_ort_spec *spec, int64_t times)
{
    const int64_t count = spec->element_count;
    if (times < 1 || times > SP_MAX_LISTED_DEVICES / count)
        return false;
    int64_t *elements = SP_NEW_ARRAY(scratch, (size_t)(count * times), int64_t);
    if (elements == NULL)
        return false;
    for (int64_t i = 0; i < count * times; i++)
        elements[i] = spec->mesh_elements[i % count];
    spec->mesh_elements = elements;
    spec->element_count = count * times;
    return true;
}

static const char unsupported_pattern[] =
    "DistributedReshape takes two axes that become one, or one that becomes two, and leaves its result split as that "
    "gives; anything else is refused.";

static struct judgement judge_fusion(const struct sp_ort_case *it, struct sp_arena *scratch, uint32_t f)
{
    const struct sp_ort_spec *x = it->inputs[0].spec;
    struct sp_ort_spec *native = respec(scratch, x, it->output.spec->rank);
    const int64_t axis = split_axis(x);
    if (native == NULL || (axis == (int64_t)f + 1 && !repeat_mesh(scratch, native, it->inputs[0].shape[f])))
        return refuse(unsupported_pattern);
    native->mesh_axes[axis <= (int64_t)f ? axis : axis - 1] = 0;
    return is_equal(native, it->output.spec) ? accept() : refuse(unsupported_pattern);
}

/* Where the split lies in axes f and f + 1 of the result: which of them, and on which mesh. */
static struct judgement decompose(const struct sp_ort_case *it, uint32_t f, struct sp_ort_spec *native)
{
    const int64_t count = native->element_count, unique = unique_devices(native);
    const int64_t stride = it->inputs[0].shape[f] / count;
    const int64_t outer = it->output.shape[f], inner = it->output.shape[f + 1];
    if (stride >= inner && stride % inner == 0) {
        const bool is_inner = outer == 1;
        native->mesh_axes[is_inner ? f + 1 : f] = 0;
        return is_inner || outer / (stride / inner) == count ? accept() : refuse(unsupported_pattern);
    }
    if (inner <= stride || inner % stride != 0)
        return refuse(unsupported_pattern);
    native->mesh_axes[f + 1] = 0;
    if (outer == 1 || (unique == count && inner == stride * unique))
        return accept();
    if (unique == count || inner % (stride * unique) != 0)
        return refuse(unsupported_pattern);
    native->element_count = unique;
    return inner == stride * unique
               ? accept()
               : wrong("DistributedReshape makes a mesh whose shape and devices disagree for this pattern.");
}

static struct judgement judge_decomposition(const struct sp_ort_case *it, struct sp_arena *scratch, uint32_t f)
{
    const struct sp_ort_spec *x = it->inputs[0].spec;
    struct sp_ort_spec *native = respec(scratch, x, it->output.spec->rank);
    struct judgement judgement = accept();
    const int64_t axis = split_axis(x);
    if (native == NULL)
        return refuse("There is not enough memory.");
    if (axis == (int64_t)f)
        judgement = decompose(it, f, native);
    else
        native->mesh_axes[axis < (int64_t)f ? axis : axis + 1] = 0;
    if (judgement.verdict != SP_ORT_ACCEPTED)
        return judgement;
    return is_equal(native, it->output.spec) ? accept() : refuse(unsupported_pattern);
}

static struct judgement judge_reshape(const struct sp_ort_case *it, struct sp_arena *scratch)
{
    const struct sp_ort_spec *x = it->inputs[0].spec, *y = it->output.spec;
    if (is_parameter_split(it))
        return refuse("DistributedReshape does not take a split shape.");
    if (!is_split(&it->inputs[0]))
        return is_split(&it->output) ? refuse("DistributedReshape does not split a whole tensor.") : accept();
    int64_t f = x->rank == y->rank + 1 ? fused_axis(x->rank, it->inputs[0].shape, it->output.shape) : -1;
    if (f >= 0)
        return judge_fusion(it, scratch, (uint32_t)f);
    f = y->rank == x->rank + 1 ? fused_axis(y->rank, it->output.shape, it->inputs[0].shape) : -1;
    return f >= 0 ? judge_decomposition(it, scratch, (uint32_t)f) : refuse(unsupported_pattern);
}

static struct judgement judge_expand(const struct sp_ort_case *it)
{
    static const char unchecked[] =
        "DistributedExpand does not check that its result is split as its input is: the result would be wrong.";
    const struct sp_ort_spec *x = it->inputs[0].spec, *y = it->output.spec;
    const int64_t in = split_axis(x), out = split_axis(y);
    if (is_parameter_split(it))
        return refuse("DistributedExpand does not take a split shape.");
    if (in == NOT_SPLIT && out == NOT_SPLIT)
        return accept();
    if (out == NOT_SPLIT)
        return wrong(unchecked);
    const int64_t same = out - ((int64_t)y->rank - (int64_t)x->rank); /* of the input, or below 0 */
    if (in == NOT_SPLIT)
        return same < 0 || it->inputs[0].shape[same] == 1 ? accept() : wrong(unchecked);
    return in == same && has_same_mesh(x, y) && it->inputs[0].shape[in] == it->output.shape[out] ? accept()
                                                                                                 : wrong(unchecked);
}

/* ---- all ------------------------------------------------------------------------------------------------------- */

enum kind { MATMUL, SLICE, RESHAPE, EXPAND, REDUCE, UNSQUEEZE, SQUEEZE };

static const struct {
    const char *name;
    enum kind kind;
    bool has_int64; /* its kernel takes int64 beside float and float16 */
} operators[] = {
    {"MatMul", MATMUL, false},     {"Slice", SLICE, false},        {"Reshape", RESHAPE, true},
    {"Expand", EXPAND, true},      {"ReduceSum", REDUCE, false},   {"ReduceMax", REDUCE, false},
    {"ReduceMean", REDUCE, false}, {"Unsqueeze", UNSQUEEZE, true}, {"Squeeze", SQUEEZE, true},
};
#define OPERATOR_COUNT (sizeof operators / sizeof operators[0])

static size_t find_operator(const char *op_type)
{
    size_t i = 0;
    while (i < OPERATOR_COUNT && strcmp(operators[i].name, op_type) != 0)
        i++;
    return i;
}

bool sp_ort_has_distributed(const char *op_type)
{
    return find_operator(op_type) < OPERATOR_COUNT;
}

static struct judgement judge(const struct sp_ort_case *it, struct sp_arena *scratch)
{
    const size_t number = find_operator(it->op_type);
    if (number == OPERATOR_COUNT)
        return refuse("ONNX Runtime has no Distributed form of this operator.");
    if (it->dtype != SP_DTYPE_FLOAT && it->dtype != SP_DTYPE_FLOAT16 &&
        !(it->dtype == SP_DTYPE_INT64 && operators[number].has_int64))
        return refuse("The kernel of the Distributed operator does not take this element type.");
    struct judgement judgement = check_tensor(it, &it->output);
    for (uint32_t i = 0; i < SP_ORT_MAX_INPUTS && judgement.verdict == SP_ORT_ACCEPTED; i++)
        judgement = check_tensor(it, &it->inputs[i]);
    if (judgement.verdict != SP_ORT_ACCEPTED)
        return judgement;
    switch (operators[number].kind) {
    case MATMUL:
        return judge_matmul(it);
    case SLICE:
        return judge_slice(it);
    case RESHAPE:
        return judge_reshape(it, scratch);
    case EXPAND:
        return judge_expand(it);
    case REDUCE:
        return judge_reduce(it);
    case UNSQUEEZE:
        return judge_squeeze(it, scratch, true);
    case SQUEEZE:
        break;
    }
    return judge_squeeze(it, scratch, false);
}

enum sp_ort_verdict sp_ort_judge(const struct sp_ort_case *it, struct sp_arena *scratch, const char **ret_why)
{
    struct sp_arena_mark mark = sp_arena_mark(scratch);
    const struct judgement judgement = judge(it, scratch);
    sp_arena_rewind(scratch, mark);
    *ret_why = judgement.why;
    return judgement.verdict;
}
