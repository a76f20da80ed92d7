#include "verify/index_sets.h"

#include <string.h>

#include "base/arith.h"
#include "base/limits.h"

#define LARGE_ELEMENTS (INT64_C(1) << 24) /* of all tensors of a model */
#define MAX_PARTS      64
#define MAX_FACTORS    8
#define INNER_INDICES  3
#define MAX_DEPTH      8
#define MAX_INDICES    (1 << 16)

enum split_kind { WHOLE = 1, PRODUCT, SUM };

/* What a model makes of an axis; of several the first kind counts. */
struct split {
    enum split_kind kind;
    uint32_t count;
    int64_t extents[MAX_FACTORS];
};

static enum sp_status learn(struct sp_index_sets *sets, int64_t extent, const struct split *split, struct sp_error *err)
{
    if (extent <= SP_WHOLE_EXTENT)
        return SP_OK;
    struct sp_hash_slot *slot = sp_hash_map_put(&sets->splits, (uint64_t)extent);
    if (slot == NULL)
        return sp_fail_memory(err);
    struct split *own = slot->item;
    if (own == NULL && (slot->item = own = SP_NEW(sets->arena, struct split)) == NULL)
        return sp_fail_memory(err);
    if (own->kind == 0 || split->kind < own->kind)
        *own = *split;
    return SP_OK;
}

static bool extents_of(const struct sp_value *value, uint32_t *ret_rank, int64_t *ret_extents)
{
    if (value == NULL || value->type.kind != SP_TYPE_TENSOR || !value->type.shape.has_rank ||
        value->type.shape.rank > SP_MAX_RANK)
        return false;
    *ret_rank = value->type.shape.rank;
    for (uint32_t i = 0; i < *ret_rank; i++) {
        ret_extents[i] = sp_dim_estimate(value->type.shape.dims[i]);
        if (ret_extents[i] < 1)
            return false;
    }
    return true;
}

/* The products of the last axes, of one shape after the other: where the digits of indices end. */
static uint32_t add_ends(const int64_t *extents, uint32_t count, int64_t *ends, uint32_t end_count)
{
    int64_t product = 1;
    for (uint32_t i = count; i-- > 0;) {
        uint32_t place = end_count;
        product *= extents[i];
        while (place > 0 && ends[place - 1] > product)
            place--;
        if (end_count == 2 * SP_MAX_RANK || (place > 0 && ends[place - 1] == product))
            continue;
        memmove(&ends[place + 1], &ends[place], (end_count - place) * sizeof *ends);
        ends[place] = product;
        end_count++;
    }
    return end_count;
}

/* The axes of one shape that have several digits. */
static enum sp_status learn_digits(struct sp_index_sets *sets, const int64_t *extents, uint32_t count,
                                   const int64_t *ends, uint32_t end_count, struct sp_error *err)
{
    int64_t low = 1;
    enum sp_status status = SP_OK;
    for (uint32_t i = count; status == SP_OK && i-- > 0;) {
        struct split split = {.kind = PRODUCT};
        int64_t digits[MAX_FACTORS], last = low;
        const int64_t high = low * extents[i];
        uint32_t digit_count = 0;
        for (uint32_t k = 0; k < end_count && digit_count < MAX_FACTORS; k++) {
            if (ends[k] <= low || ends[k] > high)
                continue;
            if (ends[k] % last != 0)
                return SP_OK; /* digits of no common shape */
            digits[digit_count++] = ends[k] / last;
            last = ends[k];
        }
        while (digit_count > 0) /* major first */
            split.extents[split.count++] = digits[--digit_count];
        if (split.count > 1 && last == high)
            status = learn(sets, extents[i], &split, err);
        low = high;
    }
    return status;
}

static enum sp_status learn_reshape(struct sp_index_sets *sets, const struct sp_node *node, struct sp_error *err)
{
    int64_t in[SP_MAX_RANK], out[SP_MAX_RANK];
    uint32_t in_rank, out_rank, i = 0, j = 0;
    enum sp_status status = SP_OK;
    if (!extents_of(node->inputs[0], &in_rank, in) || !extents_of(node->outputs[0], &out_rank, out))
        return SP_OK;
    while (status == SP_OK && (i < in_rank || j < out_rank)) {
        const uint32_t i0 = i, j0 = j;
        int64_t old = 1, new = 1;
        do {
            if (j >= out_rank || (i < in_rank && old <= new))
                old *= in[i++];
            else
                new *= out[j++];
        } while (old != new && (i < in_rank || j < out_rank));
        int64_t ends[2 * SP_MAX_RANK + 1];
        const uint32_t end_count = add_ends(&out[j0], j - j0, ends, add_ends(&in[i0], i - i0, ends, 0));
        status = learn_digits(sets, &in[i0], i - i0, ends, end_count, err);
        if (status == SP_OK)
            status = learn_digits(sets, &out[j0], j - j0, ends, end_count, err);
    }
    return status;
}

/* A whole that differs from its parts in one axis. */
static enum sp_status learn_parts(struct sp_index_sets *sets, const struct sp_value *whole,
                                  struct sp_value *const *parts, uint32_t count, struct sp_error *err)
{
    int64_t extents[SP_MAX_RANK], own[SP_MAX_RANK];
    struct split splits[SP_MAX_RANK];
    uint32_t rank, own_rank;
    enum sp_status status = SP_OK;
    if (!extents_of(whole, &rank, extents) || count > MAX_FACTORS)
        return SP_OK;
    memset(splits, 0, sizeof splits);
    for (uint32_t k = 0; k < count; k++) {
        if (!extents_of(parts[k], &own_rank, own) || own_rank != rank)
            return SP_OK;
        for (uint32_t i = 0; i < rank; i++)
            splits[i].extents[k] = own[i];
    }
    for (uint32_t i = 0; status == SP_OK && i < rank; i++) {
        int64_t sum = 0;
        splits[i].kind = SUM;
        splits[i].count = count;
        for (uint32_t k = 0; k < count; k++)
            sum += splits[i].extents[k];
        /* one of several equal parts: the others are taken elsewhere */
        for (;
             count == 1 && extents[i] % splits[i].extents[0] == 0 && sum < extents[i] && splits[i].count < MAX_FACTORS;
             sum += splits[i].extents[0])
            splits[i].extents[splits[i].count++] = splits[i].extents[0];
        if (sum == extents[i] && splits[i].count > 1)
            status = learn(sets, extents[i], &splits[i], err);
    }
    return status;
}

/* Axes that are evaluated as a whole: those behind the first two, and one that is put in order. */
static enum sp_status learn_whole(struct sp_index_sets *sets, const struct sp_value *value, bool all_axes,
                                  struct sp_error *err)
{
    const struct split split = {.kind = WHOLE};
    int64_t extents[SP_MAX_RANK];
    uint32_t rank;
    enum sp_status status = SP_OK;
    if (!extents_of(value, &rank, extents))
        return SP_OK;
    for (uint32_t i = all_axes ? 0 : 2; status == SP_OK && i < rank; i++)
        status = learn(sets, extents[i], &split, err);
    return status;
}

static bool is_one_of(const struct sp_node *node, const char *const *names)
{
    while (*names != NULL && strcmp(*names, node->op_type) != 0)
        names++;
    return *names != NULL;
}

static enum sp_status learn_node(struct sp_index_sets *sets, const struct sp_node *node, struct sp_error *err)
{
    static const char *const shapes[] = {"Reshape", "Flatten", NULL}, *const cuts[] = {"Split", "Slice", NULL},
                             *const windows[] = {"Conv", "MaxPool", "AveragePool", "Resize", "Upsample", NULL},
                             *const orders[] = {"TopK", "ArgMax", "ArgMin", "LSTM", NULL};
    if (node->input_count == 0 || node->output_count == 0)
        return SP_OK;
    if (is_one_of(node, shapes))
        return learn_reshape(sets, node, err);
    if (strcmp(node->op_type, "Concat") == 0)
        return learn_parts(sets, node->outputs[0], node->inputs, node->input_count, err);
    if (is_one_of(node, cuts))
        return learn_parts(sets, node->inputs[0], node->outputs, node->output_count, err);
    if (is_one_of(node, orders))
        return learn_whole(sets, node->inputs[0], true, err);
    if (!is_one_of(node, windows))
        return SP_OK;
    enum sp_status status = learn_whole(sets, node->inputs[0], false, err);
    return status == SP_OK ? learn_whole(sets, node->outputs[0], false, err) : status;
}

enum sp_status sp_index_sets_learn(struct sp_index_sets *sets, const struct sp_model *model, uint32_t ranks,
                                   struct sp_error *err)
{
    const struct sp_graph *graph = model->graph;
    int64_t elements = 0;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const int64_t own = sp_shape_estimate(&graph->values[i]->type.shape);
        if (own > 0 && !sp_add_i64(elements, own, &elements))
            elements = INT64_MAX;
    }
    sets->sets.arena = sets->splits.arena = sets->arena;
    sets->is_used = elements > LARGE_ELEMENTS;
    sets->parts = ranks < 8 ? 8 : ranks > MAX_PARTS ? MAX_PARTS : ranks;
    for (uint32_t i = 0; sets->is_used && status == SP_OK && i < graph->node_count; i++)
        status = learn_node(sets, &graph->nodes[i], err);
    return status;
}

/* ---- sets ------------------------------------------------------------------------------------------------------- */

struct list {
    SP_ARRAY(int64_t) at;
};

static enum sp_status add(struct sp_index_sets *sets, struct list *list, int64_t index, struct sp_error *err)
{
    if (list->at.count > 0 && list->at.items[list->at.count - 1] >= index)
        return SP_OK;
    return list->at.count < MAX_INDICES && SP_PUSH(sets->arena, &list->at, index) ? SP_OK : sp_fail_memory(err);
}

/* Few indices do for the factors of a product but the first, which is the one that ranks share. */
static enum sp_status fill_inner(struct sp_index_sets *sets, int64_t extent, struct list *list, struct sp_error *err)
{
    const int64_t few[INNER_INDICES] = {0, extent / 2, extent - 1};
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < INNER_INDICES; i++)
        status = add(sets, list, few[i], err);
    return status;
}

static bool is_split(const struct sp_index_sets *sets, int64_t extent)
{
    return sp_hash_map_get(&sets->splits, (uint64_t)extent) != NULL;
}

/* An extent whose parts are filled one after the other. */
struct filling {
    int64_t extent;
    const struct split *split; /* NULL: nothing is known of the extent, or it is too deep among others */
    uint32_t part;             /* the next one */
    struct list own[MAX_FACTORS];
};

static struct filling begin(const struct sp_index_sets *sets, int64_t extent, uint32_t depth)
{
    const struct sp_hash_slot *slot = sp_hash_map_get(&sets->splits, (uint64_t)extent);
    return (struct filling){.extent = extent, .split = slot != NULL && depth < MAX_DEPTH ? slot->item : NULL};
}

static enum sp_status join_sum(struct sp_index_sets *sets, const struct filling *filling, struct list *list,
                               struct sp_error *err)
{
    const struct split *split = filling->split;
    int64_t base = 0;
    enum sp_status status = SP_OK;
    for (uint32_t k = 0; status == SP_OK && k < split->count; base += split->extents[k++]) {
        for (uint32_t i = 0; status == SP_OK && i < filling->own[k].at.count; i++)
            status = add(sets, list, base + filling->own[k].at.items[i], err);
    }
    return status;
}

static enum sp_status join_product(struct sp_index_sets *sets, const struct filling *filling, struct list *list,
                                   struct sp_error *err)
{
    const struct split *split = filling->split;
    const struct list *own = filling->own;
    uint64_t count = 1;
    enum sp_status status = SP_OK;
    for (uint32_t k = 0; k < split->count; k++)
        count *= own[k].at.count;
    for (uint64_t item = 0; status == SP_OK && item < count && item <= MAX_INDICES; item++) {
        int64_t index = 0, stride = 1;
        uint64_t rest = item;
        for (uint32_t k = split->count; k-- > 0;) {
            index += own[k].at.items[rest % own[k].at.count] * stride;
            rest /= own[k].at.count;
            stride *= split->extents[k];
        }
        status = add(sets, list, index, err);
    }
    return status;
}

/* The indices of an extent whose parts are filled. */
static enum sp_status join_parts(struct sp_index_sets *sets, const struct filling *filling, struct list *list,
                                 struct sp_error *err)
{
    const int64_t extent = filling->extent, parts = sets->parts;
    const struct split *split = filling->split;
    enum sp_status status = SP_OK;
    if (extent <= SP_WHOLE_EXTENT || (split != NULL && split->kind == WHOLE)) {
        for (int64_t i = 0; status == SP_OK && i < extent; i++)
            status = add(sets, list, i, err);
        return status;
    }
    if (split != NULL)
        return split->kind == SUM ? join_sum(sets, filling, list, err) : join_product(sets, filling, list, err);
    for (int64_t i = 0; status == SP_OK && i < parts; i++)
        status = add(sets, list, i * extent / parts, err);
    return status == SP_OK ? add(sets, list, extent - 1, err) : status;
}

static enum sp_status fill(struct sp_index_sets *sets, int64_t extent, struct list *list, struct sp_error *err)
{
    struct filling fillings[MAX_DEPTH + 1]; /* each a part of the one before it */
    uint32_t depth = 0;
    enum sp_status status = SP_OK;
    fillings[0] = begin(sets, extent, 0);
    while (status == SP_OK) {
        struct filling *top = &fillings[depth];
        const struct split *split = top->split;
        if (split == NULL || top->part == split->count) {
            struct filling *outer = depth > 0 ? &fillings[depth - 1] : NULL;
            status = join_parts(sets, top, outer != NULL ? &outer->own[outer->part++] : list, err);
            if (depth-- == 0)
                break;
        } else if (split->kind == PRODUCT && top->part > 0 && !is_split(sets, split->extents[top->part])) {
            status = fill_inner(sets, split->extents[top->part], &top->own[top->part], err);
            top->part++;
        } else {
            depth++;
            fillings[depth] = begin(sets, split->extents[top->part], depth);
        }
    }
    return status;
}

enum sp_status sp_index_sets_axis(struct sp_index_sets *sets, int64_t extent, struct sp_index_axis *ret,
                                  struct sp_error *err)
{
    struct list list = {0};
    if (!sets->is_used || extent <= SP_WHOLE_EXTENT) {
        if (extent < 0 || extent > SP_MAX_EVALUATED_NUMBERS)
            return sp_fail(err, SP_ERR_UNSUPPORTED, "EXTENT_UNKNOWN", "a tensor has an axis of %lld elements",
                           (long long)extent);
        *ret = sp_index_all(extent);
        return SP_OK;
    }
    struct sp_hash_slot *slot = sp_hash_map_put(&sets->sets, (uint64_t)extent);
    if (slot == NULL)
        return sp_fail_memory(err);
    if (slot->item == NULL) {
        enum sp_status status = fill(sets, extent, &list, err);
        struct sp_index_axis *axis = SP_NEW(sets->arena, struct sp_index_axis);
        if (status != SP_OK || axis == NULL)
            return status != SP_OK ? status : sp_fail_memory(err);
        *axis = (struct sp_index_axis){extent, list.at.count, list.at.count == extent ? NULL : list.at.items};
        /* the table may have grown meanwhile */
        if ((slot = sp_hash_map_put(&sets->sets, (uint64_t)extent)) == NULL)
            return sp_fail_memory(err);
        slot->item = axis;
    }
    *ret = *(const struct sp_index_axis *)slot->item;
    return SP_OK;
}
