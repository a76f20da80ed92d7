/*
 * dynamic - operators whose results are as long as the data say: Compress, Unique, NonMaxSuppression.
 *
 * The extent is a fresh symbol, or a number where the elements that decide are known. What is kept is gathered in one
 * list, so the axis is whole on every device; Compress keeps the other axes as they are.
 *
 * FLOPs: Unique n * log2(n) comparisons; NonMaxSuppression 8 for each pair of boxes (their intersection over union) of
 * each class, the worst case, and no less than the run needs.
 */
#include <math.h>
#include <string.h>

#include "base/limits.h"
#include "ops/families/tensor/axis_lines.h"
#include "ops/table/factors.h"
#include "ops/table/families.h"
#include "ops/table/known_values.h"

/* The axis of Compress and Unique; false where they work on all elements in order. */
static enum sp_status read_axis(struct sp_op_context *context, const struct sp_shape *x, bool *ret_has, uint32_t *ret)
{
    const struct sp_attribute *axis = sp_node_attribute(context->node, "axis");
    *ret_has = axis != NULL && axis->type == SP_ATTR_INT;
    *ret = 0;
    return *ret_has && x != NULL ? sp_normalize_axis(context, axis->i, x->rank, ret) : SP_OK;
}

/* ---- Compress ------------------------------------------------------------------------------------------------- */

/* The input positions that the condition picks along `x`'s axis (or of all elements), in order. NULL when not known. */
static const int64_t *picked(struct sp_op_context *context, struct sp_dim extent, uint32_t *ret_count)
{
    const struct sp_data *condition = sp_in_known_ints(context, 1);
    int64_t *places = condition != NULL ? SP_NEW_ARRAY(context->arena, condition->count, int64_t) : NULL;
    *ret_count = 0;
    for (uint32_t i = 0; places != NULL && i < condition->count; i++) {
        if (condition->ints[i].value == 0)
            continue;
        if (sp_dim_is_known(extent) && i >= extent.value)
            return NULL; /* a wrong model; the run tells */
        places[(*ret_count)++] = i;
    }
    return places;
}

static enum sp_status compress_elements(struct sp_op_context *context, bool has_axis, uint32_t axis,
                                        const int64_t *places, uint32_t place_count)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    int64_t count = sp_data_room(context, 0);
    if (count < 0 || !sp_data_available(context, 0) || sp_shape_elements(x) < 0)
        return SP_OK;
    uint32_t *index = SP_NEW_ARRAY(context->arena, (size_t)count, uint32_t);
    if (index == NULL)
        return sp_fail_memory(context->err);
    struct sp_shape tail = {true, x->rank - axis - 1, x->dims + axis + 1};
    int64_t inner = has_axis ? sp_shape_elements(&tail) : 1;
    int64_t extent = has_axis ? x->dims[axis].value : 0;
    for (int64_t i = 0; i < count && place_count > 0 && inner > 0; i++) {
        int64_t outer = i / inner / place_count;
        index[i] = (uint32_t)((outer * extent + places[i / inner % place_count]) * inner + i % inner);
    }
    return sp_data_pick(context, 0, index, NULL);
}

static enum sp_status shapes_compress(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0), *condition = sp_in_shape(context, 1);
    struct sp_dim dims[SP_MAX_RANK] = {{0}};
    uint32_t axis = 0, count = 0, rank = 1;
    bool has_axis = false;
    if (condition != NULL && condition->rank != 1)
        return sp_op_fail(context, "OPERAND_SHAPE", "its condition has rank %u instead of 1", condition->rank);
    enum sp_status status = read_axis(context, x, &has_axis, &axis);
    if (status != SP_OK)
        return status;
    if (has_axis && x == NULL)
        return sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
    struct sp_dim extent = sp_dim_unknown();
    if (has_axis) {
        memcpy(dims, x->dims, x->rank * sizeof *dims);
        rank = x->rank;
        extent = dims[axis];
    } else if (x != NULL) {
        extent = sp_product(context, x->dims, 0, x->rank);
    }
    const int64_t *places = picked(context, extent, &count);
    dims[axis] = places != NULL ? sp_dim_known(count) : sp_dim_fresh(context->dims, "Compress", extent);
    status = sp_set_output(context, 0, sp_in_dtype(context, 0), rank, dims);
    if (status != SP_OK || places == NULL || x == NULL)
        return status;
    return compress_elements(context, has_axis, axis, places, count);
}

static enum sp_status rule_compress(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    bool has_axis = false;
    uint32_t picked_axis = 0;
    enum sp_status status = read_axis(context, x, &has_axis, &picked_axis);
    for (uint32_t axis = 0; status == SP_OK && axis < x->rank; axis++) {
        bool is_free = has_axis && axis != picked_axis;
        enum sp_factor_kind kind = is_free ? SP_FACTOR_PARALLEL : SP_FACTOR_REPLICATE;
        uint8_t factor = sp_rule_input_axis(context, rule, is_free ? 'd' : 'i', 0, axis, kind);
        if (is_free)
            sp_rule_map_output(rule, 0, axis, factor);
    }
    if (status == SP_OK) {
        (void)sp_rule_output_axis(context, rule, 'o', 0, has_axis ? picked_axis : 0, SP_FACTOR_REPLICATE);
        (void)sp_rule_input_axis(context, rule, 'c', 1, 0, SP_FACTOR_REPLICATE);
    }
    rule->bytes = 2 * sp_output_bytes(context, 0) + sp_input_bytes(context, 1);
    return status;
}

/* ---- Unique --------------------------------------------------------------------------------------------------- */

/* The input as items that are compared: its elements, or the slices along an axis. */
struct items {
    const struct sp_data *data;
    uint32_t count, outer, inner; /* an item has outer * inner elements */
};

static uint32_t item_element(const struct items *items, uint32_t item, uint32_t k)
{
    return (k / items->inner * items->count + item) * items->inner + k % items->inner;
}

static int compare_items(const struct items *items, uint32_t a, uint32_t b)
{
    for (uint32_t k = 0; k < items->outer * items->inner; k++) {
        uint32_t left = item_element(items, a, k), right = item_element(items, b, k);
        int order = sp_data_order(items->data, left, right);
        if (order != 0)
            return order;
    }
    return 0;
}

/* False where the elements are not all known, or a NaN is among them (their number differs between runtimes). */
static bool read_items(struct sp_op_context *context, bool has_axis, uint32_t axis, struct items *ret_items)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    const struct sp_data *data = sp_in_numbers(context, 0);
    if (data == NULL || data->count == 0)
        return false;
    struct sp_shape head = {true, axis, x->dims}, tail = {true, x->rank - axis - 1, x->dims + axis + 1};
    *ret_items = (struct items){.data = data, .count = data->count, .outer = 1, .inner = 1};
    if (has_axis)
        *ret_items = (struct items){.data = data,
                                    .count = (uint32_t)x->dims[axis].value,
                                    .outer = (uint32_t)sp_shape_elements(&head),
                                    .inner = (uint32_t)sp_shape_elements(&tail)};
    return true;
}

/* The distinct items in their order in the result. */
struct distinct {
    uint32_t count;
    uint32_t *first;  /* per distinct item: where it occurs first */
    uint32_t *of;     /* per item: which distinct item it is */
    uint32_t *counts; /* per distinct item */
};

static bool find_distinct(struct sp_op_context *context, const struct items *items, struct distinct *found)
{
    bool is_sorted = sp_node_int(context->node, "sorted", 1) != 0;
    found->first = SP_NEW_ARRAY(context->arena, items->count, uint32_t);
    found->of = SP_NEW_ARRAY(context->arena, items->count, uint32_t);
    found->counts = SP_NEW_ARRAY(context->arena, items->count, uint32_t);
    if (found->first == NULL || found->of == NULL || found->counts == NULL)
        return false;
    for (uint32_t item = 0; item < items->count; item++) {
        uint32_t at = 0;
        int order = 1;
        while (at < found->count && (order = compare_items(items, found->first[at], item)) != 0 &&
               (order < 0 || !is_sorted))
            at++;
        if (at < found->count && order == 0)
            continue;
        memmove(found->first + at + 1, found->first + at, (found->count - at) * sizeof *found->first);
        found->first[at] = item;
        found->count++;
    }
    for (uint32_t item = 0; item < items->count; item++) {
        while (compare_items(items, found->first[found->of[item]], item) != 0)
            found->of[item]++;
        found->counts[found->of[item]]++;
    }
    return true;
}

static enum sp_status set_list(struct sp_op_context *context, uint32_t output, uint32_t count, const uint32_t *values)
{
    struct sp_dim *ints = sp_new_dims(context, count);
    if (ints == NULL)
        return sp_fail_memory(context->err);
    for (uint32_t i = 0; i < count; i++)
        ints[i] = sp_dim_known(values[i]);
    return sp_set_data_ints(context, output, count, ints);
}

static enum sp_status unique_elements(struct sp_op_context *context, const struct items *items,
                                      const struct distinct *found)
{
    uint32_t width = items->outer * items->inner;
    uint32_t *index = SP_NEW_ARRAY(context->arena, (size_t)found->count * width, uint32_t);
    if (index == NULL)
        return sp_fail_memory(context->err);
    for (uint32_t at = 0; at < found->count; at++) {
        for (uint32_t k = 0; k < width; k++)
            index[(k / items->inner * found->count + at) * items->inner + k % items->inner] =
                item_element(items, found->first[at], k);
    }
    enum sp_status status = sp_data_room(context, 0) >= 0 ? sp_data_pick(context, 0, index, NULL) : SP_OK;
    if (status == SP_OK)
        status = set_list(context, 1, found->count, found->first);
    if (status == SP_OK)
        status = set_list(context, 2, items->count, found->of);
    return status != SP_OK ? status : set_list(context, 3, found->count, found->counts);
}

static enum sp_status shapes_unique(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    struct sp_dim dims[SP_MAX_RANK] = {{0}}, all = sp_dim_unknown();
    struct distinct found = {0};
    struct items items = {0};
    bool has_axis = false;
    uint32_t axis = 0;
    enum sp_status status = read_axis(context, x, &has_axis, &axis);
    if (status != SP_OK)
        return status;
    bool is_known = read_items(context, has_axis, axis, &items);
    if (is_known && !find_distinct(context, &items, &found))
        return sp_fail_memory(context->err);
    if (x != NULL)
        all = has_axis ? x->dims[axis] : sp_product(context, x->dims, 0, x->rank);
    struct sp_dim count = is_known ? sp_dim_known(found.count) : sp_dim_fresh(context->dims, "Unique", all);
    if (has_axis && x != NULL)
        memcpy(dims, x->dims, x->rank * sizeof *dims);
    dims[axis] = count;
    status = has_axis && x == NULL ? sp_set_output_unranked(context, 0, sp_in_dtype(context, 0))
                                   : sp_set_output(context, 0, sp_in_dtype(context, 0), has_axis ? x->rank : 1, dims);
    for (uint32_t output = 1; status == SP_OK && output < 4; output++)
        status = sp_set_output(context, output, SP_DTYPE_INT64, 1, output == 2 ? &all : &count);
    return status != SP_OK || !is_known ? status : unique_elements(context, &items, &found);
}

static enum sp_status rule_unique(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    int64_t elements = sp_shape_elements(x);
    struct sp_factor_list work = {0};
    for (uint32_t axis = 0; axis < x->rank; axis++)
        sp_factor_list_add(&work, sp_rule_input_axis(context, rule, 'i', 0, axis, SP_FACTOR_REPLICATE));
    for (uint32_t output = 0; output < rule->output_count; output++) {
        for (uint32_t axis = 0; axis < rule->outputs[output].rank; axis++)
            (void)sp_rule_output_axis(context, rule, 'o', output, axis, SP_FACTOR_REPLICATE);
    }
    sp_rule_term_list(rule, elements > 2 ? log2((double)elements) : 1, &work);
    return SP_OK;
}

/* ---- NonMaxSuppression ---------------------------------------------------------------------------------------- */

/* Of each class of each image at most so many boxes, and no more than there are. */
static struct sp_dim most_selected(struct sp_op_context *context, const struct sp_shape *scores)
{
    const struct sp_data *most = sp_in_data(context, 2);
    if (scores == NULL)
        return sp_dim_unknown();
    struct sp_dim each = scores->dims[2];
    if (most != NULL && most->ints != NULL && most->count == 1 && most->ints[0].kind != SP_DIM_UNKNOWN)
        each = each.kind == SP_DIM_UNKNOWN ? most->ints[0] : sp_dim_min(context->dims, each, most->ints[0]);
    return sp_dim_mul(context->dims, sp_dim_mul(context->dims, scores->dims[0], scores->dims[1]), each);
}

static enum sp_status shapes_suppression(struct sp_op_context *context)
{
    const struct sp_shape *boxes = sp_in_shape(context, 0), *scores = sp_in_shape(context, 1);
    struct sp_dim dims[2] = {sp_dim_known(0), sp_dim_known(3)}, ignored;
    enum sp_status status = SP_OK;
    if ((boxes != NULL && boxes->rank != 3) || (scores != NULL && scores->rank != 3))
        return sp_op_fail(context, "OPERAND_SHAPE", "its boxes and scores must have rank 3");
    if (boxes != NULL && sp_dim_is_known(boxes->dims[2]) && boxes->dims[2].value != 4)
        return sp_op_fail(context, "OPERAND_SHAPE", "its boxes have %lld coordinates instead of 4",
                          (long long)boxes->dims[2].value);
    if (boxes != NULL && scores != NULL)
        status = sp_join_dims(context, boxes->dims[0], scores->dims[0], &ignored);
    if (status == SP_OK && boxes != NULL && scores != NULL)
        status = sp_join_dims(context, boxes->dims[1], scores->dims[2], &ignored);
    const struct sp_data *most = sp_in_known_ints(context, 2);
    /* The default is to select none. */
    if (sp_has_input(context, 2) && !(most != NULL && most->count == 1 && most->ints[0].value <= 0))
        dims[0] = sp_dim_fresh(context->dims, "NonMaxSuppression", most_selected(context, scores));
    return status != SP_OK ? status : sp_set_output(context, 0, SP_DTYPE_INT64, 2, dims);
}

/* Images and classes are independent, but what is selected of them is one list. */
static enum sp_status rule_suppression(struct sp_op_context *context, struct sp_rule *rule)
{
    uint8_t b = sp_rule_input_axis(context, rule, 'b', 0, 0, SP_FACTOR_REPLICATE);
    uint8_t s = sp_rule_input_axis(context, rule, 's', 0, 1, SP_FACTOR_REPLICATE);
    (void)sp_rule_input_axis(context, rule, 'x', 0, 2, SP_FACTOR_REPLICATE);
    sp_rule_map_input(rule, 1, 0, b);
    uint8_t c = sp_rule_input_axis(context, rule, 'c', 1, 1, SP_FACTOR_REPLICATE);
    sp_rule_map_input(rule, 1, 2, s);
    for (uint32_t axis = 0; axis < 2; axis++)
        (void)sp_rule_output_axis(context, rule, 'o', 0, axis, SP_FACTOR_REPLICATE);
    const uint8_t work[] = {b, c, s, s};
    sp_rule_term(rule, 8, 4, work);
    return SP_OK;
}

const struct sp_op sp_ops_dynamic[] = {
    SP_ENTRY("", "Compress", 9, 0, 2, 2, 1, 1, "[d.., i] [c] -> [d.., o]; i, c, o whole",
             "ONNX Operators.md, Compress-9, Compress-11", .shapes = shapes_compress, .rule = rule_compress),
    SP_ENTRY("", "Unique", 11, 0, 1, 1, 1, 4, "[i..] -> [o] [o] [i] [o]; all whole", "ONNX Operators.md, Unique-11",
             .shapes = shapes_unique, .rule = rule_unique),
    SP_ENTRY("", "NonMaxSuppression", 10, 0, 2, 5, 1, 1, "[b, s, 4] [b, c, s] -> [o, 3]; all whole",
             "ONNX Operators.md, NonMaxSuppression-10, -11", .shapes = shapes_suppression, .rule = rule_suppression),
    {.name = NULL},
};
