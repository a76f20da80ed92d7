#include "verify/index_sets.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/limits.h"
#include "ops/table/op.h"
#include "verify/window_steps.h"

#define LARGE_ELEMENTS (INT64_C(1) << 24) /* of all tensors of a model */
#define BRIEF_ELEMENTS (INT64_C(1) << 12) /* the same for a brief look */
#define WHOLE_EXTENT   16                 /* evaluated at all indices */
#define BRIEF_EXTENT   4
#define MAX_PARTS      64
#define UNCUT_PARTS    2 /* of an axis of which it is known that no rank cuts it */
#define UNCUT_REACH    1
#define MAX_FACTORS    8
#define MAX_REACH      16 /* indices on either side of a border that a window reaches */
#define INNER_INDICES  3
#define BRIEF_INDICES  2
#define MAX_DEPTH      8
#define MAX_INDICES    (1 << 16)

enum split_kind { WHOLE = 1, PRODUCT, SUM };

struct list {
    SP_ARRAY(int64_t) at;
};

/* What a model makes of an axis; of several the first kind counts. */
struct split {
    enum split_kind kind; /* 0: none */
    uint32_t count;
    int64_t extents[MAX_FACTORS];
    int64_t parts;       /* into which ranks cut it, where that is known; 0: not at all */
    int64_t reach;       /* of the widest window that slides over it: so far on either side of borders */
    struct list anchors; /* of windows for what is looked at of their results */
};

/* The record of an extent, made where there is none. */
static enum sp_status split_of(struct sp_index_sets *sets, int64_t extent, struct split **ret, struct sp_error *err)
{
    struct sp_hash_slot *slot = sp_hash_map_put(&sets->splits, (uint64_t)extent);
    if (slot == NULL || (slot->item == NULL && (slot->item = SP_NEW(sets->arena, struct split)) == NULL)) {
        (void)sp_fail_memory(err);
        return SP_ERR_MEMORY; /* said so that an analyser sees it */
    }
    *ret = slot->item;
    return SP_OK;
}

static enum sp_status learn(struct sp_index_sets *sets, int64_t extent, const struct split *split, struct sp_error *err)
{
    struct split *own = NULL;
    if (extent <= sets->whole)
        return SP_OK;
    enum sp_status status = split_of(sets, extent, &own, err);
    if (status == SP_OK && (own->kind == 0 || split->kind < own->kind)) {
        own->kind = split->kind;
        own->count = split->count;
        memcpy(own->extents, split->extents, sizeof own->extents);
    }
    return status;
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

/* A window that slides over an axis of places. */
struct sliding {
    int64_t extent, places;
    struct sp_window_steps steps;
};
struct slidings {
    SP_ARRAY(struct sliding) windows;
};

/* Keeps the windows of a node for each extent once; what cannot be read as such is left to the evaluation. */
static enum sp_status learn_windows(struct sp_index_sets *sets, const struct sp_node *node, struct slidings *all,
                                    struct sp_error *err)
{
    const bool is_conv = strcmp(node->op_type, "Conv") == 0, rounds_up = sp_node_int(node, "ceil_mode", 0) != 0;
    int64_t extents[SP_MAX_RANK], weight[SP_MAX_RANK];
    struct sp_window_steps steps[SP_WINDOW_AXES];
    uint32_t rank, count = 0;
    if (!extents_of(node->inputs[0], &rank, extents) || rank < 3 || rank - 2 > SP_WINDOW_AXES)
        return SP_OK;
    const int64_t *kernel = is_conv ? &weight[2] : sp_node_ints(node, "kernel_shape", &count);
    if (is_conv && (node->input_count < 2 || !extents_of(node->inputs[1], &count, weight)))
        return SP_OK;
    if (kernel == NULL || count != (is_conv ? rank : rank - 2) ||
        sp_window_steps(node, rank - 2, &extents[2], kernel, steps) != NULL)
        return SP_OK;
    for (uint32_t i = 0; i < rank - 2; i++) {
        const struct sliding own = {extents[i + 2], sp_window_places(steps[i], extents[i + 2], rounds_up), steps[i]};
        uint32_t k = 0;
        while (k < all->windows.count && memcmp(&all->windows.items[k], &own, sizeof own) != 0)
            k++;
        if (k == all->windows.count && !SP_PUSH(sets->arena, &all->windows, own))
            return sp_fail_memory(err);
    }
    return SP_OK;
}

static bool is_one_of(const struct sp_node *node, const char *const *names)
{
    while (*names != NULL && strcmp(*names, node->op_type) != 0)
        names++;
    return *names != NULL;
}

/* Axes that the rule of an operator takes apart, as attention does with heads and their size. */
static enum sp_status learn_factors(struct sp_index_sets *sets, struct sp_model *model, struct sp_node *node,
                                    struct sp_error *err)
{
    struct sp_rule *rule = NULL;
    struct sp_error ignored = {0};
    enum sp_status status = SP_OK;
    if (sp_op_rule(model, node, sets->arena, &rule, &ignored) != SP_OK)
        return SP_OK; /* the evaluation says so */
    for (uint32_t k = 0; k < rule->input_count; k++) {
        for (uint32_t i = 0; status == SP_OK && i < rule->inputs[k].rank; i++) {
            const struct sp_axis_factors *axis = &rule->inputs[k].axes[i];
            struct split split = {.kind = PRODUCT};
            int64_t extent = 1;
            for (uint32_t f = 0; axis->count <= MAX_FACTORS && f < axis->count; f++) {
                const struct sp_dim dim = rule->factors[axis->factors[f]].extent;
                split.extents[split.count++] = sp_dim_is_known(dim) ? dim.value : 0;
                if (!sp_mul_i64(extent, split.extents[f], &extent))
                    extent = 0;
            }
            if (split.count > 1 && extent > 0)
                status = learn(sets, extent, &split, err);
        }
    }
    return status;
}

/* The choice among experts takes all of them, where they are not too many. */
static enum sp_status learn_scores(struct sp_index_sets *sets, const struct sp_node *node, struct sp_error *err)
{
    const struct split split = {.kind = WHOLE};
    int64_t extents[SP_MAX_RANK];
    uint32_t rank;
    return node->input_count > 1 && extents_of(node->inputs[1], &rank, extents) && rank > 0 &&
                   extents[rank - 1] <= MAX_PARTS
               ? learn(sets, extents[rank - 1], &split, err)
               : SP_OK;
}

static enum sp_status learn_node(struct sp_index_sets *sets, struct sp_model *model, struct sp_node *node,
                                 struct slidings *slidings, struct sp_error *err)
{
    static const char *const shapes[] = {"Reshape", "Flatten", NULL}, *const cuts[] = {"Split", "Slice", NULL},
                             *const windows[] = {"Conv", "MaxPool", "AveragePool", NULL},
                             *const sizes[] = {"Resize", "Upsample", "ConvTranspose", NULL},
                             *const orders[] = {"TopK", "ArgMax", "ArgMin", "LSTM", NULL},
                             *const experts[] = {"MoE", "QMoE", NULL};
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
    if (is_one_of(node, windows))
        return learn_windows(sets, node, slidings, err);
    if (is_one_of(node, experts)) {
        enum sp_status learnt = learn_scores(sets, node, err);
        return learnt == SP_OK ? learn_factors(sets, model, node, err) : learnt;
    }
    if (node->op != NULL && (node->op->flags & SP_OP_ATTENDS) != 0)
        return learn_factors(sets, model, node, err);
    if (!is_one_of(node, sizes))
        return SP_OK;
    enum sp_status status = learn_whole(sets, node->inputs[0], false, err);
    return status == SP_OK ? learn_whole(sets, node->outputs[0], false, err) : status;
}

/* ---- sets ------------------------------------------------------------------------------------------------------- */

static enum sp_status add(struct sp_index_sets *sets, struct list *list, int64_t index, struct sp_error *err)
{
    if (list->at.count > 0 && list->at.items[list->at.count - 1] >= index)
        return SP_OK;
    return list->at.count < MAX_INDICES && SP_PUSH(sets->arena, &list->at, index) ? SP_OK : sp_fail_memory(err);
}

/* Few indices do for the factors of a product but the first, which is the one that ranks share. */
static enum sp_status fill_inner(struct sp_index_sets *sets, int64_t extent, struct list *list, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < sets->inner; i++)
        status = add(sets, list, (extent - 1) * i / (sets->inner - 1), err);
    return status;
}

static bool is_split(const struct sp_index_sets *sets, int64_t extent)
{
    const struct sp_hash_slot *slot = sp_hash_map_get(&sets->splits, (uint64_t)extent);
    const struct split *split = slot != NULL ? slot->item : NULL;
    return split != NULL && (split->kind != 0 || split->parts > 0);
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

/* The first index of each part and the last one; on both sides of each border as far as windows reach. */
static enum sp_status add_borders(struct sp_index_sets *sets, int64_t extent, const struct split *split,
                                  struct list *list, struct sp_error *err)
{
    const int64_t cut = split != NULL && split->parts > 0 ? split->parts : 0, widest = split != NULL ? split->reach : 0;
    const bool is_whole = sets->knows_cuts && cut == 0;
    const int64_t parts = is_whole  ? UNCUT_PARTS
                          : cut > 0 ? cut
                                    : sets->parts,
                  block = (extent + parts - 1) / parts, reach = is_whole && widest > UNCUT_REACH ? UNCUT_REACH : widest;
    enum sp_status status = SP_OK;
    for (int64_t start = 0; status == SP_OK && start < extent; start += block) {
        for (int64_t i = start - reach; status == SP_OK && i <= start + reach; i++)
            status = i >= 0 && i < extent ? add(sets, list, i, err) : SP_OK;
    }
    for (int64_t i = extent - 1 - reach; status == SP_OK && i < extent; i++)
        status = i >= 0 ? add(sets, list, i, err) : SP_OK;
    return status;
}

/* Adds the indices of one list to another; both are ascending. */
static enum sp_status merge(struct sp_index_sets *sets, const struct list *more, struct list *list,
                            struct sp_error *err)
{
    struct list both = {0};
    uint32_t i = 0, k = 0;
    enum sp_status status = SP_OK;
    while (status == SP_OK && (i < list->at.count || k < more->at.count)) {
        const bool takes_more = i == list->at.count || (k < more->at.count && more->at.items[k] < list->at.items[i]);
        status = add(sets, &both, takes_more ? more->at.items[k] : list->at.items[i], err);
        k += takes_more;
        i += !takes_more;
    }
    *list = both;
    return status;
}

/* The indices of an extent whose parts are filled. */
static enum sp_status join_parts(struct sp_index_sets *sets, const struct filling *filling, struct list *list,
                                 struct sp_error *err)
{
    const int64_t extent = filling->extent;
    const struct split *split = filling->split;
    enum sp_status status = SP_OK;
    if (extent <= sets->whole || (split != NULL && split->kind == WHOLE)) {
        for (int64_t i = 0; status == SP_OK && i < extent; i++)
            status = add(sets, list, i, err);
        return status;
    }
    if (split != NULL && split->kind != 0)
        status = split->kind == SUM ? join_sum(sets, filling, list, err) : join_product(sets, filling, list, err);
    else
        status = add_borders(sets, extent, split, list, err);
    return status == SP_OK && split != NULL && split->anchors.at.count > 0 ? merge(sets, &split->anchors, list, err)
                                                                           : status;
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
    if (!sets->is_used || extent <= sets->whole) {
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

/* ---- windows ---------------------------------------------------------------------------------------------------- */

static int by_extent(const void *a, const void *b)
{
    const struct sliding *x = a, *y = b;
    return x->extent < y->extent ? -1 : x->extent > y->extent;
}

/* What windows need of their axis for what is looked at of their results: from the smallest axis on, as results are
   no larger. */
static enum sp_status add_anchors(struct sp_index_sets *sets, struct slidings *all, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    struct split *split = NULL;
    if (all->windows.count > 0)
        qsort(all->windows.items, all->windows.count, sizeof *all->windows.items, by_extent);
    for (uint32_t k = 0; status == SP_OK && k < all->windows.count; k++) {
        const struct sliding *own = &all->windows.items[k];
        const int64_t reach = own->steps.kernel * own->steps.dilation / 2;
        status = own->extent > sets->whole ? split_of(sets, own->extent, &split, err) : SP_OK;
        if (status == SP_OK && own->extent > sets->whole && reach > split->reach)
            split->reach = reach < MAX_REACH ? reach : MAX_REACH;
    }
    for (uint32_t k = 0; status == SP_OK && k < all->windows.count; k++) {
        const struct sliding *own = &all->windows.items[k];
        struct sp_index_axis places;
        struct list needed = {0};
        if (own->extent <= sets->whole || own->places < 1 || own->places >= own->extent)
            continue;
        status = sp_index_sets_axis(sets, own->places, &places, err);
        for (uint32_t i = 0; status == SP_OK && i < places.count; i++) {
            const int64_t place = sp_index_at(&places, i), tap = sp_window_anchor(own->steps, own->extent, place);
            if (tap >= 0)
                status = add(sets, &needed, sp_window_index(own->steps, place, tap), err);
        }
        if (status == SP_OK)
            status = split_of(sets, own->extent, &split, err);
        if (status == SP_OK)
            status = merge(sets, &needed, &split->anchors, err);
    }
    return status;
}

/* Cuts of an axis are also ones of what it is made of: each part of a sum, and the first factors of a product. */
static enum sp_status learn_cuts(struct sp_index_sets *sets, const struct sp_index_cuts *cuts, struct sp_error *err)
{
    SP_ARRAY(struct sp_index_cut) queue = {0};
    struct split *own = NULL;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < cuts->count; i++) {
        if (!SP_PUSH(sets->arena, &queue, cuts->items[i]))
            return sp_fail_memory(err);
    }
    for (uint32_t i = 0; status == SP_OK && i < queue.count; i++) {
        const struct sp_index_cut cut = queue.items[i];
        const int64_t parts = cut.parts < MAX_PARTS ? cut.parts : MAX_PARTS;
        if (cut.extent <= sets->whole || parts < 2)
            continue;
        status = split_of(sets, cut.extent, &own, err);
        if (status != SP_OK || own->parts >= parts)
            continue;
        own->parts = parts;
        int64_t left = parts;
        for (uint32_t k = 0; k < own->count && left > 1 && own->kind != WHOLE; k++) {
            const struct sp_index_cut inner = {own->extents[k], (uint32_t)left};
            if (!SP_PUSH(sets->arena, &queue, inner))
                return sp_fail_memory(err);
            left = own->kind == PRODUCT ? (left + own->extents[k] - 1) / own->extents[k] : left;
        }
    }
    return status;
}

enum sp_status sp_index_sets_learn(struct sp_index_sets *sets, struct sp_model *model, uint32_t parts,
                                   const struct sp_index_cuts *cuts, bool is_brief, struct sp_error *err)
{
    const struct sp_graph *graph = model->graph;
    struct slidings slidings = {0};
    int64_t elements = 0;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const int64_t own = sp_shape_estimate(&graph->values[i]->type.shape);
        if (own > 0 && !sp_add_i64(elements, own, &elements))
            elements = INT64_MAX;
    }
    sets->sets.arena = sets->splits.arena = sets->arena;
    sets->is_used = elements > (is_brief ? BRIEF_ELEMENTS : LARGE_ELEMENTS);
    sets->whole = is_brief ? BRIEF_EXTENT : WHOLE_EXTENT;
    sets->inner = is_brief ? BRIEF_INDICES : INNER_INDICES;
    sets->knows_cuts = cuts != NULL;
    sets->parts = parts < 2 ? 2 : parts > MAX_PARTS ? MAX_PARTS : parts;
    for (uint32_t i = 0; sets->is_used && status == SP_OK && i < graph->node_count; i++)
        status = learn_node(sets, model, &graph->nodes[i], &slidings, err);
    if (status == SP_OK && sets->is_used && cuts != NULL)
        status = learn_cuts(sets, cuts, err);
    return status == SP_OK && sets->is_used ? add_anchors(sets, &slidings, err) : status;
}
