/*
 * What ONNX Runtime's CUDA kernels do with the specs of Distributed* nodes: they have one path for each combination
 * that they know, refuse most others when they run, and of some compute a wrong result.
 */
#include <inttypes.h>
#include <string.h>

#include "check/foreign.h"
#include "ops/table/shape_helpers.h"

struct kernel {
    struct sp_foreign_check *check;
    const struct sp_ort_node *ort;
    char label[SP_ERROR_WHERE_SIZE];
};

static enum sp_status refused(struct kernel *kernel, const char *why)
{
    return sp_foreign_report(kernel->check, "ORT_REFUSED", kernel->ort->node, NULL,
                             "ONNX Runtime refuses to run %s: %s.", kernel->label, why);
}

static enum sp_status wrong(struct kernel *kernel, const char *why)
{
    return sp_foreign_report(kernel->check, "ORT_WRONG_RESULT", kernel->ort->node, NULL,
                             "ONNX Runtime runs %s, but the result is wrong: %s.", kernel->label, why);
}

/* The sharded axis counted from the back: -1 is the last; 0 for none. Operands of different ranks are aligned so. */
static int64_t from_back(const struct sp_ort_operand *operand)
{
    return operand->axis < 0 ? 0 : operand->axis - operand->spec.rank;
}

static bool same_mesh(const struct sp_ort_operand *a, const struct sp_ort_operand *b)
{
    return a->spec.mesh_rank == b->spec.mesh_rank && a->spec.element_count == b->spec.element_count &&
           memcmp(a->spec.mesh_shape, b->spec.mesh_shape, a->spec.mesh_rank * sizeof(int64_t)) == 0 &&
           memcmp(a->spec.mesh_elements, b->spec.mesh_elements, (size_t)a->spec.element_count * sizeof(int64_t)) == 0;
}

static bool same_spec(const struct sp_ort_operand *a, const struct sp_ort_operand *b)
{
    return a->spec.rank == b->spec.rank && a->axis == b->axis && same_mesh(a, b);
}

/* Known integers of an input; NULL when they are not known. */
static const struct sp_data *numbers(const struct kernel *kernel, uint32_t input)
{
    const struct sp_node *node = kernel->ort->node;
    struct sp_value *value = input < node->input_count ? node->inputs[input] : NULL;
    const struct sp_data *data = value == NULL ? NULL : sp_value_elements(kernel->check->model, value);
    if (data == NULL || data->ints == NULL)
        return NULL;
    for (uint32_t i = 0; i < data->count; i++) {
        if (!sp_dim_is_known(data->ints[i]))
            return NULL;
    }
    return data;
}

static bool is_input_sharded(const struct kernel *kernel, uint32_t first)
{
    for (uint32_t i = first; i < kernel->ort->input_count; i++) {
        if (kernel->ort->inputs[i].axis >= 0)
            return true;
    }
    return false;
}

/* Whether an axis is listed: `as_written` compares without counting negative ones from the back, as the kernels do. */
static bool lists(const struct sp_data *axes, int64_t axis, int64_t rank, bool as_written)
{
    for (uint32_t i = 0; i < axes->count; i++) {
        const int64_t listed = axes->ints[i].value;
        if (listed == axis || (!as_written && listed + rank == axis))
            return true;
    }
    return false;
}

/* ---- MatMul --------------------------------------------------------------------------------------------------- */

enum side { NONE, COLUMNS, ROWS, BATCH };

static enum side side_of(const struct sp_ort_operand *operand)
{
    const int64_t axis = from_back(operand);
    return axis == 0 ? NONE : axis == -1 ? COLUMNS : axis == -2 ? ROWS : BATCH;
}

static enum sp_status one_sided_matmul(struct kernel *kernel, enum side a, enum side b, enum side y)
{
    const struct sp_ort_node *ort = kernel->ort;
    if (a == NONE && b == NONE)
        return wrong(kernel, "where neither operand is sharded, the kernel returns without an output");
    if (b == COLUMNS && y != COLUMNS)
        return refused(kernel, "where B is split by columns, so must be the output");
    if (b == ROWS && y != NONE)
        return wrong(kernel,
                     "where B is split by rows, the output's spec is not looked at: the whole product is computed");
    if (b == BATCH)
        return refused(kernel, "B alone may not be split on a batch axis");
    if (a == COLUMNS && y != NONE)
        return refused(kernel, "where A is split by columns, the output may not be sharded");
    if (a == ROWS && y != ROWS)
        return refused(kernel, "where A is split by rows, so must be the output");
    if (a == BATCH && from_back(&ort->outputs[0]) != from_back(&ort->inputs[0]))
        return refused(kernel, "where A is split on a batch axis, so must be the output");
    return SP_OK;
}

static enum sp_status two_sided_matmul(struct kernel *kernel, enum side a, enum side b, enum side y)
{
    if (a == BATCH || b == BATCH)
        return refused(kernel, "both operands may not be sharded where one is split on a batch axis");
    if (a == COLUMNS && b == COLUMNS && (y == ROWS || y == BATCH))
        return refused(kernel, "where both operands are split by columns, the output may be whole or split by columns");
    if (a == COLUMNS && b == ROWS && y != NONE)
        return refused(kernel,
                       "where the axis that is summed is split, the output may not be sharded (a reduce-scatter "
                       "is not there)");
    if (a == ROWS && b == COLUMNS && y != NONE)
        return refused(kernel, "where A is split by rows and B by columns, the output may not be sharded");
    if (a == ROWS && b == ROWS && y != NONE)
        return refused(kernel, "where both operands are split by rows, the output may not be sharded");
    if (a == ROWS && b == ROWS)
        return wrong(kernel,
                     "where both operands are split by rows, the all-reduce is missing, and each device returns "
                     "its part of the sum");
    return SP_OK;
}

static enum sp_status check_matmul(struct kernel *kernel)
{
    const struct sp_ort_node *ort = kernel->ort;
    if (ort->input_count < 2 || ort->output_count < 1)
        return SP_OK;
    const enum side a = side_of(&ort->inputs[0]), b = side_of(&ort->inputs[1]), y = side_of(&ort->outputs[0]);
    if (ort->inputs[0].spec.rank < 2 || ort->inputs[1].spec.rank < 2)
        return refused(kernel, "an operand of one axis is not supported");
    return a != NONE && b != NONE ? two_sided_matmul(kernel, a, b, y) : one_sided_matmul(kernel, a, b, y);
}

/* ---- Slice ---------------------------------------------------------------------------------------------------- */

static enum sp_status check_slice(struct kernel *kernel)
{
    const struct sp_ort_operand *data = &kernel->ort->inputs[0], *output = &kernel->ort->outputs[0];
    const struct sp_data *axes = numbers(kernel, 3);
    if (data->axis < 0)
        return refused(kernel, "data must have one sharded axis");
    if (is_input_sharded(kernel, 1))
        return refused(kernel, "starts, ends, axes and steps may not be sharded");
    if (kernel->ort->node->input_count < 4)
        return refused(kernel, "the input axes must be given");
    if (axes == NULL)
        return SP_OK;
    if (lists(axes, data->axis, data->spec.rank, true))
        return SP_OK;
    if (lists(axes, data->axis, data->spec.rank, false))
        return wrong(kernel,
                     "a negative axis is not counted from the back, so that the slice of the sharded axis is cut "
                     "from each piece");
    if (output->axis < 0)
        return refused(kernel, "where the sharded axis is not sliced, the output must be sharded");
    return SP_OK;
}

/* ---- Reduce --------------------------------------------------------------------------------------------------- */

static enum sp_status check_reduce(struct kernel *kernel)
{
    const struct sp_ort_operand *data = &kernel->ort->inputs[0], *output = &kernel->ort->outputs[0];
    const struct sp_data *axes = numbers(kernel, 1);
    if (sp_node_int(kernel->ort->node, "keepdims", 1) == 0)
        return refused(kernel, "keepdims must be 1, as the specs of input and output must be equal");
    if (axes != NULL && data->axis >= 0 && lists(axes, data->axis, data->spec.rank, true))
        return refused(kernel, "the sharded axis may not be reduced");
    if (axes != NULL && data->axis >= 0 && lists(axes, data->axis, data->spec.rank, false))
        return wrong(kernel,
                     "a negative axis is not counted from the back, so that each device reduces its own piece of "
                     "the sharded axis");
    if (!same_spec(data, output))
        return refused(kernel, "input and output must have the same spec and device mesh");
    return SP_OK;
}

/* ---- Expand, Squeeze, Unsqueeze ------------------------------------------------------------------------------- */

static enum sp_status check_expand(struct kernel *kernel)
{
    const struct sp_ort_operand *data = &kernel->ort->inputs[0], *output = &kernel->ort->outputs[0];
    if (is_input_sharded(kernel, 1))
        return refused(kernel, "the shape may not be sharded");
    if (data->axis >= 0 && from_back(data) != from_back(output))
        return wrong(kernel, "that the output is sharded like the input is not looked at");
    return SP_OK;
}

/* The axis of the output that an axis of the input becomes; -1 when it is removed. */
static int64_t moved_axis(const struct sp_data *axes, int64_t axis, uint32_t input_rank, uint32_t output_rank,
                          bool inserts)
{
    const uint32_t rank = inserts ? output_rank : input_rank;
    int64_t from = 0, to = 0;
    for (uint32_t i = 0; i < rank; i++) {
        const bool is_listed = lists(axes, i, rank, false);
        if (!inserts && from == axis)
            return is_listed ? -1 : to;
        if (inserts && !is_listed && from == axis)
            return to;
        from += !(inserts && is_listed);
        to += inserts || !is_listed;
    }
    return -1;
}

static enum sp_status check_squeeze(struct kernel *kernel, bool inserts)
{
    const struct sp_ort_operand *data = &kernel->ort->inputs[0], *output = &kernel->ort->outputs[0];
    const struct sp_data *axes = numbers(kernel, 1);
    if (axes == NULL)
        return SP_OK;
    for (uint32_t i = 0; !inserts && i < data->spec.rank; i++) {
        const int64_t extent = sp_ort_extent(data, i);
        if (lists(axes, i, data->spec.rank, false) && extent >= 0 && extent != 1)
            return refused(kernel, "an axis may be removed only when it has one element");
    }
    const int64_t moved =
        data->axis < 0 ? -1 : moved_axis(axes, data->axis, data->spec.rank, output->spec.rank, inserts);
    if (moved != output->axis || !same_mesh(data, output))
        return refused(kernel, "the output must be sharded as the input is, on the same device mesh");
    return SP_OK;
}

/* ---- Reshape -------------------------------------------------------------------------------------------------- */

/* A spec with one sharded axis over a list of devices, possibly repeated. */
struct native {
    int64_t axis; /* -1: none that the kernel knows */
    int64_t repeats;
};

/* How often the mesh repeats its devices: [0,1,0,1] twice. 0: in no regular way. */
static int64_t repeats_of(const struct sp_ort_operand *operand)
{
    const int64_t count = operand->spec.element_count, *ids = operand->spec.mesh_elements;
    int64_t period = 1;
    while (period < count && (ids[period] != ids[0]))
        period++;
    for (int64_t i = 0; i < count; i++) {
        if (ids[i] != ids[i % period])
            return 0;
    }
    return period > 0 && count % period == 0 ? count / period : 0;
}

/* Axes f and f + 1 of the input become axis f of the output. */
static struct native fuse(int64_t axis, int64_t f, int64_t repeats, int64_t outer)
{
    if (axis == f)
        return (struct native){f, repeats};
    if (axis == f + 1)
        return (struct native){f, repeats * outer};
    return (struct native){axis > f ? axis - 1 : axis, repeats};
}

/* Axis f of extent `whole` becomes f and f + 1 of extents `outer` and `inner`; `parts` pieces over `unique` devices. */
static struct native divide(int64_t axis, int64_t f, int64_t repeats, int64_t unique, int64_t outer, int64_t inner)
{
    const struct native none = {-1, 0};
    const int64_t parts = repeats * unique;
    if (axis != f)
        return (struct native){axis > f ? axis + 1 : axis, repeats};
    if (outer < 1 || inner < 1 || parts < 1 || (outer * inner) % parts != 0)
        return none;
    const int64_t stride = outer * inner / parts;
    if (stride >= inner && stride % inner == 0)
        return (struct native){outer == 1 ? f + 1 : f, repeats};
    if (inner <= stride || inner % stride != 0)
        return none;
    if (outer == 1)
        return (struct native){f + 1, repeats};
    if (repeats == 1 && inner == stride * unique)
        return (struct native){f + 1, 1};
    return repeats > 1 && inner == stride * unique ? (struct native){f + 1, 1} : none;
}

/* The whole shapes of both sides; false when an extent is not known. */
static bool reshape_shapes(struct kernel *kernel, int64_t *from, int64_t *to)
{
    const struct sp_ort_operand *data = &kernel->ort->inputs[0], *output = &kernel->ort->outputs[0];
    const struct sp_data *shape = numbers(kernel, 1);
    int64_t rest = 1, open = -1;
    if (data->spec.rank > SP_MAX_RANK || output->spec.rank > SP_MAX_RANK || shape == NULL ||
        shape->count != output->spec.rank)
        return false;
    for (uint32_t i = 0; i < data->spec.rank; i++) {
        from[i] = sp_ort_extent(data, i);
        if (from[i] < 1 || __builtin_mul_overflow(rest, from[i], &rest))
            return false;
    }
    for (uint32_t i = 0; i < shape->count; i++) {
        to[i] = shape->ints[i].value == 0 && i < data->spec.rank ? from[i] : shape->ints[i].value;
        if (to[i] == -1 && open < 0)
            open = i;
        else if (to[i] < 1 || rest % to[i] != 0)
            return false;
        else
            rest /= to[i];
    }
    if (open >= 0)
        to[open] = rest;
    return open >= 0 || rest == 1;
}

/* The first place where two axes become one, or one becomes two, and all others stay. */
static bool find_pattern(const int64_t *longer, uint32_t rank, const int64_t *shorter, uint32_t *ret_axis)
{
    for (uint32_t f = 0; f + 1 < rank; f++) {
        bool fits = longer[f] * longer[f + 1] == shorter[f];
        for (uint32_t i = 0; fits && i < f; i++)
            fits = longer[i] == shorter[i];
        for (uint32_t i = f + 2; fits && i < rank; i++)
            fits = longer[i] == shorter[i - 1];
        if (fits) {
            *ret_axis = f;
            return true;
        }
    }
    return false;
}

static enum sp_status check_reshape(struct kernel *kernel)
{
    const struct sp_ort_operand *data = &kernel->ort->inputs[0], *output = &kernel->ort->outputs[0];
    int64_t from[SP_MAX_RANK], to[SP_MAX_RANK];
    struct native native = {-1, 0};
    uint32_t f = 0;
    if (is_input_sharded(kernel, 1))
        return refused(kernel, "the shape may not be sharded");
    if (data->axis < 0 && output->axis >= 0)
        return refused(kernel, "data that is whole cannot become a sharded output");
    if (data->axis < 0)
        return SP_OK;
    if (data->spec.mesh_rank != 1)
        return refused(kernel, "the device mesh of data must have one axis");
    const int64_t repeats = repeats_of(data);
    if (repeats == 0)
        return refused(kernel, "the device mesh repeats its devices in no regular way");
    const bool joins = data->spec.rank == output->spec.rank + 1, splits = data->spec.rank + 1 == output->spec.rank;
    if (!joins && !splits)
        return refused(kernel, "two axes must become one, or one two; no other reshape is supported");
    if (!reshape_shapes(kernel, from, to))
        return SP_OK;
    if (joins && find_pattern(from, data->spec.rank, to, &f))
        native = fuse(data->axis, f, repeats, from[f]);
    else if (splits && find_pattern(to, output->spec.rank, from, &f))
        native = divide(data->axis, f, repeats, data->spec.element_count / repeats, to[f], to[f + 1]);
    else
        return refused(kernel, "two axes must become one, or one two; no other reshape is supported");
    const int64_t period = data->spec.element_count / repeats;
    bool is_native = native.axis >= 0 && native.axis == output->axis && output->spec.mesh_rank == 1 &&
                     output->spec.element_count == period * native.repeats;
    for (int64_t i = 0; is_native && i < output->spec.element_count; i++)
        is_native = output->spec.mesh_elements[i] == data->spec.mesh_elements[i % period];
    return is_native
               ? SP_OK
               : refused(kernel, "the output's spec or device mesh is not what follows from the input's, and nothing "
                                 "is moved");
}

/* ---- all ------------------------------------------------------------------------------------------------------ */

static enum sp_status check_operand(struct kernel *kernel, const struct sp_ort_operand *operand)
{
    const struct sp_value *value = operand->value;
    if (operand->sharded_count > 1)
        return refused(kernel, "an operand may have only one sharded axis");
    if (operand->axis < 0 || value == NULL || value->type.kind != SP_TYPE_TENSOR || !value->type.shape.has_rank ||
        !sp_dim_is_known(value->type.shape.dims[operand->axis]))
        return SP_OK;
    const int64_t extent = value->type.shape.dims[operand->axis].value;
    if (operand->spec.element_count < 1 || extent % operand->spec.element_count == 0)
        return SP_OK;
    return sp_foreign_report(kernel->check, "ORT_UNEVEN", kernel->ort->node, value->name,
                             "Axis %" PRId64 " of '%.120s' has %" PRId64 " elements, which %" PRId64
                             " pieces at %s do not divide: ONNX Runtime refuses it, as each device must get as much.",
                             operand->axis, value->name, extent, operand->spec.element_count, kernel->label);
}

static enum sp_status check_operator(struct kernel *kernel)
{
    const char *op = kernel->ort->node->op_type + strlen("Distributed");
    if (kernel->ort->input_count < 1 || kernel->ort->output_count < 1)
        return SP_OK;
    if (strcmp(op, "MatMul") == 0)
        return check_matmul(kernel);
    if (strcmp(op, "Slice") == 0)
        return check_slice(kernel);
    if (strcmp(op, "Reshape") == 0)
        return check_reshape(kernel);
    if (strcmp(op, "Expand") == 0)
        return check_expand(kernel);
    if (strncmp(op, "Reduce", 6) == 0)
        return check_reduce(kernel);
    if (strcmp(op, "Squeeze") == 0 || strcmp(op, "Unsqueeze") == 0)
        return check_squeeze(kernel, op[0] == 'U');
    return SP_OK;
}

enum sp_status sp_check_ort_kernel(struct sp_foreign_check *check, const struct sp_ort_node *ort)
{
    struct kernel kernel = {.check = check, .ort = ort};
    bool has_several = false;
    enum sp_status status = SP_OK;
    (void)sp_node_label(ort->node, kernel.label, sizeof kernel.label);
    for (uint32_t i = 0; status == SP_OK && i < ort->input_count + ort->output_count; i++) {
        const struct sp_ort_operand *operand =
            i < ort->input_count ? &ort->inputs[i] : &ort->outputs[i - ort->input_count];
        has_several = has_several || operand->sharded_count > 1;
        status = check_operand(&kernel, operand);
    }
    return status == SP_OK && !has_several ? check_operator(&kernel) : status;
}
