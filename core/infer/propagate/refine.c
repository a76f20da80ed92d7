/*
 * refine - where the axes of tensors are cut (refine.h).
 */
#include "infer/propagate/refine.h"

#include <string.h>

#include "base/arith.h"
#include "base/array.h"
#include "base/limits.h"
#include "infer/propagate/refine_internal.h"

/* ---- marks of one axis or factor -------------------------------------------------------------------------------- */

enum noted { NOTED_NOTHING = 0, NOTED_FITS, NOTED_THERE };

/* Where a mark may stand in a list. What does not fit a neighbour is made coarser until it does: of 4*6 and 6*4 both
   begin with 2, and what is split in 2 is so in either. */
static enum noted find_mark(const struct sp_cut_mark *marks, uint8_t count, bool is_fixed, int64_t extent,
                            int64_t *stride, uint8_t *ret_at)
{
    if (*stride < 1 || extent % *stride != 0)
        return NOTED_NOTHING;
    while (*stride > 1 && *stride < extent) {
        uint8_t at = 0;
        while (at < count && marks[at].stride < *stride)
            at++;
        *ret_at = at;
        if (at < count && marks[at].stride == *stride)
            return NOTED_THERE;
        int64_t below = at == 0 ? 1 : marks[at - 1].stride, above = at < count ? marks[at].stride : extent;
        if (at == 0 ? is_fixed : marks[at - 1].is_fixed)
            return NOTED_NOTHING;
        if (above % *stride == 0 && *stride % below == 0)
            return NOTED_FITS;
        int64_t neighbour = above % *stride != 0 ? above : below;
        *stride = extent / sp_gcd(extent / neighbour, extent / *stride);
    }
    return NOTED_NOTHING;
}

static void put_mark(struct sp_cut_mark *marks, uint8_t *count, uint8_t at, struct sp_cut_mark mark)
{
    memmove(&marks[at + 1], &marks[at], (size_t)(*count - at) * sizeof *marks);
    marks[at] = mark;
    (*count)++;
}

static void note_in_factor(struct sp_factor_marks *factor, int64_t extent, int64_t stride, bool is_cut)
{
    uint8_t at = 0;
    enum noted noted = find_mark(factor->marks, factor->count, false, extent, &stride, &at);
    if (noted == NOTED_THERE)
        factor->marks[at].is_cut = factor->marks[at].is_cut || is_cut;
    else if (noted == NOTED_FITS)
        put_mark(factor->marks, &factor->count, at, (struct sp_cut_mark){.stride = stride, .is_cut = is_cut});
}

/* What is noted of an axis; new where nothing is. */
static enum sp_status marks_of(struct sp_refinement *all, uint32_t tensor, uint32_t axis, struct sp_marks **ret_marks,
                               struct sp_error *err)
{
    struct sp_tensor_marks *of = all->tensors[tensor];
    if (of == NULL)
        of = all->tensors[tensor] = SP_NEW(all->arena, struct sp_tensor_marks);
    if (of == NULL)
        return sp_fail_memory(err);
    uint8_t at = 0;
    while (at < of->axis_count && of->axes[at].axis < axis)
        at++;
    if (at == of->axis_count || of->axes[at].axis != axis) {
        if (!SP_MAKE_ROOM(all->arena, of->axes, of->axis_count, of->axis_capacity, 1))
            return sp_fail_memory(err);
        memmove(&of->axes[at + 1], &of->axes[at], (size_t)(of->axis_count - at) * sizeof *of->axes);
        of->axes[at] = (struct sp_marks){.axis = (uint8_t)axis};
        of->axis_count++;
    }
    *ret_marks = &of->axes[at];
    return SP_OK;
}

static bool is_barred(const struct sp_refinement *all, uint32_t tensor, uint32_t axis)
{
    return (all->barred[tensor] >> axis & 1) != 0;
}

/* *ret_changed, which may be NULL, is set where something is new. */
static enum sp_status note(struct sp_refinement *all, uint32_t tensor, uint32_t axis, int64_t stride, bool is_cut,
                           bool *ret_changed, struct sp_error *err)
{
    struct sp_marks *marks = NULL;
    uint8_t at = 0;
    int64_t extent = all->shapes[tensor][axis];
    if (stride <= 1 || stride >= extent)
        return SP_OK;
    enum sp_status status = marks_of(all, tensor, axis, &marks, err);
    if (status != SP_OK)
        return status;
    struct sp_tensor_marks *of = all->tensors[tensor];
    enum noted noted = find_mark(marks->marks, marks->count, marks->is_fixed, extent, &stride, &at);
    bool is_new_cut = is_cut && (noted == NOTED_FITS || (noted == NOTED_THERE && !marks->marks[at].is_cut));
    if (noted == NOTED_NOTHING || (noted == NOTED_THERE && !is_new_cut) ||
        (is_new_cut && all->ranks[tensor] + of->cut_count >= SP_MAX_RANK))
        return SP_OK;
    of->cut_count += is_new_cut;
    if (ret_changed != NULL)
        *ret_changed = true;
    if (noted == NOTED_THERE) {
        marks->marks[at].is_cut = true;
        return SP_OK;
    }
    if (!SP_MAKE_ROOM(all->arena, marks->marks, marks->count, marks->capacity, 1))
        return sp_fail_memory(err);
    put_mark(marks->marks, &marks->count, at, (struct sp_cut_mark){.stride = stride, .is_cut = is_cut});
    return SP_OK;
}

/* ---- factors of a flow ------------------------------------------------------------------------------------------ */

static bool is_mapped_once(const struct sp_operand_rule *operand, uint8_t factor)
{
    for (uint32_t axis = 0; axis < operand->rank; axis++) {
        uint32_t count = 0;
        for (uint8_t i = 0; i < operand->axes[axis].count; i++)
            count += operand->axes[axis].factors[i] == factor;
        if (count > 1)
            return false;
    }
    return true;
}

void sp_refine_see_factors(struct sp_refinement *all, const struct sp_rule *rule)
{
    if (all->seen == rule)
        return;
    all->seen = rule;
    for (uint32_t f = 0; f < rule->factor_count; f++) {
        const struct sp_factor *factor = &rule->factors[f];
        all->is_refinable[f] = factor->kind != SP_FACTOR_HALO && factor->kind != SP_FACTOR_PERMUTATION &&
                               factor->block <= 1 && !factor->is_blocked && !factor->is_resized &&
                               sp_dim_is_known(factor->extent) && factor->extent.value > 0;
    }
    for (uint32_t i = 0; i < rule->input_count + rule->output_count; i++) {
        const struct sp_operand_rule *operand = sp_rule_operand(rule, i);
        for (uint8_t k = 0; k < operand->position_count; k++)
            all->is_refinable[operand->positions[k]] = false;
        for (uint32_t axis = 0; axis < operand->rank; axis++) {
            for (uint8_t k = 0; operand->axes[axis].count > 1 && k < operand->axes[axis].count; k++) {
                uint8_t f = operand->axes[axis].factors[k];
                all->is_refinable[f] = all->is_refinable[f] && is_mapped_once(operand, f);
            }
        }
    }
}

/* The strides of an operand's axis' factors in it; false where the axis is not the product of known extents. */
static bool find_strides(const struct sp_rule *rule, const struct sp_axis_factors *list, int64_t extent,
                         int64_t *ret_strides)
{
    int64_t stride = 1;
    for (uint8_t i = list->count; i-- > 0;) {
        struct sp_dim own = rule->factors[list->factors[i]].extent;
        ret_strides[i] = stride;
        if (!sp_dim_is_known(own) || !sp_mul_i64(stride, own.value, &stride))
            return false;
    }
    return stride == extent && extent > 0 && list->count > 0;
}

/* The tensor of an operand whose axes can be looked at, or SP_NO_TENSOR. */
static uint32_t tensor_of(const struct sp_refinement *all, const struct sp_flow *flow, uint32_t operand)
{
    uint32_t tensor = flow->tensors[operand];
    bool is_usable = tensor != SP_NO_TENSOR && all->shapes[tensor] != NULL &&
                     all->ranks[tensor] == sp_rule_operand(flow->rule, operand)->rank;
    return is_usable ? tensor : SP_NO_TENSOR;
}

static void collect_axis(struct sp_refinement *all, const struct sp_rule *rule, const struct sp_axis_factors *list,
                         const struct sp_marks *marks, int64_t extent, bool of_cuts)
{
    int64_t strides[SP_RULE_MAX_FACTORS];
    if (marks->count == 0 || !find_strides(rule, list, extent, strides))
        return;
    for (uint8_t i = 0; i < list->count; i++) {
        uint8_t f = list->factors[i];
        int64_t own = rule->factors[f].extent.value;
        for (uint8_t k = 0; all->is_refinable[f] && k < marks->count; k++) {
            int64_t stride = marks->marks[k].stride;
            if (stride > strides[i] && stride % strides[i] == 0 && (!of_cuts || marks->marks[k].is_cut))
                note_in_factor(&all->factors[f], own, stride / strides[i], marks->marks[k].is_cut);
        }
    }
}

bool sp_refine_collect(struct sp_refinement *all, const struct sp_flow *flow, bool of_cuts)
{
    bool is_any = false;
    for (uint32_t f = 0; f < flow->rule->factor_count; f++)
        all->factors[f].count = 0;
    for (uint32_t i = 0; i < flow->operand_count; i++) {
        const struct sp_operand_rule *operand = sp_rule_operand(flow->rule, i);
        uint32_t tensor = tensor_of(all, flow, i);
        const struct sp_tensor_marks *of = tensor == SP_NO_TENSOR ? NULL : all->tensors[tensor];
        for (uint8_t k = 0; of != NULL && k < of->axis_count; k++) {
            uint32_t axis = of->axes[k].axis;
            collect_axis(all, flow->rule, &operand->axes[axis], &of->axes[k], all->shapes[tensor][axis], of_cuts);
        }
    }
    for (uint32_t f = 0; f < flow->rule->factor_count; f++)
        is_any = is_any || all->factors[f].count > 0;
    return is_any;
}

/* ---- the fixpoint ----------------------------------------------------------------------------------------------- */

static void enqueue(struct sp_refinement *all, uint32_t flow)
{
    if (all->is_queued[flow])
        return;
    all->is_queued[flow] = true;
    uint64_t at = (uint64_t)all->queue_from + all->queue_count;
    all->queue[at % all->flow_count] = flow;
    all->queue_count++;
}

static void enqueue_flows_of(struct sp_refinement *all, uint32_t tensor)
{
    for (uint32_t i = all->flows_of.start[tensor]; i < all->flows_of.start[tensor + 1]; i++)
        enqueue(all, all->flows_of.items[i]);
}

/* Notes in the axis what its factors have. */
static enum sp_status spread_axis(struct sp_refinement *all, const struct sp_rule *rule,
                                  const struct sp_axis_factors *list, uint32_t tensor, uint32_t axis, bool *ret_changed,
                                  struct sp_error *err)
{
    int64_t strides[SP_RULE_MAX_FACTORS];
    bool is_any = false;
    enum sp_status status = SP_OK;
    for (uint8_t i = 0; i < list->count; i++)
        is_any = is_any || all->factors[list->factors[i]].count > 0;
    if (!is_any || !find_strides(rule, list, all->shapes[tensor][axis], strides))
        return SP_OK;
    for (uint8_t i = 0; status == SP_OK && i < list->count; i++) {
        const struct sp_factor_marks *factor = &all->factors[list->factors[i]];
        for (uint8_t k = 0; status == SP_OK && k < factor->count; k++) {
            if (!factor->marks[k].is_cut || !is_barred(all, tensor, axis))
                status = note(all, tensor, axis, factor->marks[k].stride * strides[i], factor->marks[k].is_cut,
                              ret_changed, err);
        }
    }
    return status;
}

static enum sp_status run_flow(struct sp_refinement *all, uint32_t id, struct sp_error *err)
{
    const struct sp_flow *flow = &all->flows[id];
    enum sp_status status = SP_OK;
    sp_refine_see_factors(all, flow->rule);
    if (!sp_refine_collect(all, flow, false))
        return SP_OK;
    for (uint32_t i = 0; i < flow->operand_count && status == SP_OK; i++) {
        const struct sp_operand_rule *operand = sp_rule_operand(flow->rule, i);
        uint32_t tensor = tensor_of(all, flow, i);
        bool is_changed = false;
        for (uint32_t axis = 0; tensor != SP_NO_TENSOR && axis < operand->rank && status == SP_OK; axis++)
            status = spread_axis(all, flow->rule, &operand->axes[axis], tensor, axis, &is_changed, err);
        if (is_changed)
            enqueue_flows_of(all, tensor);
    }
    return status;
}

/* Where one loop of an axis ends and the next begins. */
static enum sp_status note_loops(struct sp_refinement *all, const struct sp_flow *flow, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < flow->operand_count; i++) {
        const struct sp_operand_rule *operand = sp_rule_operand(flow->rule, i);
        uint32_t tensor = tensor_of(all, flow, i);
        for (uint32_t axis = 0; tensor != SP_NO_TENSOR && axis < operand->rank; axis++) {
            const struct sp_axis_factors *list = &operand->axes[axis];
            int64_t strides[SP_RULE_MAX_FACTORS];
            if (list->count < 2 || is_barred(all, tensor, axis) ||
                !find_strides(flow->rule, list, all->shapes[tensor][axis], strides))
                continue;
            for (uint8_t k = 0; status == SP_OK && k + 1 < list->count; k++)
                status = note(all, tensor, axis, strides[k], true, NULL, err);
        }
    }
    return status;
}

static enum sp_status run_queue(struct sp_refinement *all, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    while (status == SP_OK && all->queue_count > 0) {
        uint32_t flow = all->queue[all->queue_from];
        all->queue_from = (all->queue_from + 1) % all->flow_count;
        all->queue_count--;
        all->is_queued[flow] = false;
        status = run_flow(all, flow, err);
    }
    return status;
}

static void enqueue_noted(struct sp_refinement *all)
{
    for (uint32_t t = 0; t < all->tensor_count; t++) {
        if (all->tensors[t] != NULL)
            enqueue_flows_of(all, t);
    }
}

enum sp_status sp_refine_run(struct sp_refinement *all, struct sp_error *err)
{
    enqueue_noted(all);
    enum sp_status status = run_queue(all, err);
    for (uint32_t f = 0; status == SP_OK && f < all->flow_count; f++)
        status = note_loops(all, &all->flows[f], err);
    enqueue_noted(all);
    return status == SP_OK ? run_queue(all, err) : status;
}

/* ---- before it -------------------------------------------------------------------------------------------------- */

/* Bars the axes that have a factor which cannot be refined, or that are not what the rule says. */
static void bar_axes(struct sp_refinement *all, const struct sp_flow *flow)
{
    sp_refine_see_factors(all, flow->rule);
    for (uint32_t i = 0; i < flow->operand_count; i++) {
        const struct sp_operand_rule *operand = sp_rule_operand(flow->rule, i);
        uint32_t tensor = tensor_of(all, flow, i);
        for (uint32_t axis = 0; tensor != SP_NO_TENSOR && axis < operand->rank; axis++) {
            const struct sp_axis_factors *list = &operand->axes[axis];
            int64_t strides[SP_RULE_MAX_FACTORS];
            if (all->shapes[tensor][axis] <= 1 || list->count == 0)
                continue;
            bool is_clear = find_strides(flow->rule, list, all->shapes[tensor][axis], strides);
            for (uint8_t k = 0; k < list->count; k++)
                is_clear = is_clear && all->is_refinable[list->factors[k]];
            if (!is_clear)
                all->barred[tensor] |= UINT64_C(1) << axis;
        }
    }
}

bool sp_flows_by_tensor(struct sp_arena *arena, const struct sp_flow *flows, uint32_t flow_count, uint32_t tensor_count,
                        struct sp_rows *ret_rows)
{
    if (!sp_rows_begin(arena, tensor_count, ret_rows))
        return false;
    for (uint32_t f = 0; f < flow_count; f++)
        for (uint32_t i = 0; i < flows[f].operand_count; i++)
            if (flows[f].tensors[i] != SP_NO_TENSOR)
                sp_rows_count(ret_rows, flows[f].tensors[i]);
    if (!sp_rows_end_count(arena, tensor_count, ret_rows))
        return false;
    for (uint32_t f = 0; f < flow_count; f++)
        for (uint32_t i = 0; i < flows[f].operand_count; i++)
            if (flows[f].tensors[i] != SP_NO_TENSOR)
                sp_rows_put(ret_rows, flows[f].tensors[i], f);
    return true;
}

static enum sp_status index_flows(struct sp_refinement *all, struct sp_error *err)
{
    all->queue = SP_NEW_ARRAY(all->arena, all->flow_count, uint32_t);
    all->is_queued = SP_NEW_ARRAY(all->arena, all->flow_count, bool);
    if (all->queue == NULL || all->is_queued == NULL ||
        !sp_flows_by_tensor(all->arena, all->flows, all->flow_count, all->tensor_count, &all->flows_of))
        return sp_fail_memory(err);
    return SP_OK;
}

enum sp_status sp_refine_create(struct sp_arena *arena, struct sp_interned *pieces, const struct sp_propagation *graph,
                                struct sp_refinement **ret_refinement, struct sp_error *err)
{
    struct sp_refinement *all = SP_NEW(arena, struct sp_refinement);
    if (all == NULL)
        return sp_fail_memory(err);
    all->arena = arena;
    all->pieces = pieces;
    all->tensor_count = graph->tensor_count;
    all->flow_count = graph->flow_count;
    all->ranks = graph->ranks;
    all->shapes = graph->shapes;
    all->flows = graph->flows;
    all->tensors = SP_NEW_ARRAY(arena, graph->tensor_count, struct sp_tensor_marks *);
    all->barred = SP_NEW_ARRAY(arena, graph->tensor_count, uint64_t);
    if (all->tensors == NULL || all->barred == NULL)
        return sp_fail_memory(err);
    enum sp_status status = index_flows(all, err);
    for (uint32_t f = 0; status == SP_OK && f < graph->flow_count; f++)
        bar_axes(all, &graph->flows[f]);
    if (status == SP_OK)
        *ret_refinement = all;
    return status;
}

enum sp_status sp_refine_cut(struct sp_refinement *all, uint32_t tensor, uint32_t axis, int64_t stride,
                             struct sp_error *err)
{
    return note(all, tensor, axis, stride, true, NULL, err);
}

enum sp_status sp_refine_reserve(struct sp_refinement *all, uint32_t tensor, uint32_t axis, int64_t stride,
                                 struct sp_error *err)
{
    return note(all, tensor, axis, stride, false, NULL, err);
}

enum sp_status sp_refine_fix(struct sp_refinement *all, uint32_t tensor, uint32_t axis, int64_t stride,
                             struct sp_error *err)
{
    struct sp_marks *marks = NULL;
    enum sp_status status = marks_of(all, tensor, axis, &marks, err);
    if (status != SP_OK || marks == NULL)
        return status;
    if (stride <= 1)
        marks->is_fixed = true;
    for (uint8_t i = 0; i < marks->count; i++)
        marks->marks[i].is_fixed = marks->marks[i].is_fixed || marks->marks[i].stride == stride;
    return SP_OK;
}

/* ---- behind it -------------------------------------------------------------------------------------------------- */

struct pieces {
    struct sp_refined refined;
    uint32_t axes; /* of the tensor */
};

static bool is_same_pieces(const void *item, const void *key)
{
    const struct pieces *a = item, *b = key;
    return a->axes == b->axes && a->refined.rank == b->refined.rank &&
           memcmp(a->refined.counts, b->refined.counts, a->axes) == 0 &&
           memcmp(a->refined.shape, b->refined.shape, a->refined.rank * sizeof(int64_t)) == 0;
}

/* The copy that is equal, new where there is none. */
static enum sp_status keep_pieces(struct sp_interned *kept, const struct pieces *pieces,
                                  const struct sp_refined **ret_refined, struct sp_error *err)
{
    struct sp_arena *arena = kept->same.arena;
    struct sp_digest digest;
    sp_digest_begin(&digest, kept->seed);
    sp_digest_add(&digest, pieces->refined.counts, pieces->axes);
    sp_digest_add(&digest, pieces->refined.shape, pieces->refined.rank * sizeof(int64_t));
    uint64_t hash = sp_digest_end(&digest);
    struct pieces *own = sp_hash_set_find(&kept->same, hash, is_same_pieces, pieces);
    if (own == NULL) {
        own = SP_NEW(arena, struct pieces);
        uint8_t *counts = SP_NEW_ARRAY(arena, pieces->axes, uint8_t);
        int64_t *shape = SP_NEW_ARRAY(arena, pieces->refined.rank, int64_t);
        if (own == NULL || counts == NULL || shape == NULL || !sp_hash_set_add(&kept->same, hash, own))
            return sp_fail_memory(err);
        memcpy(counts, pieces->refined.counts, pieces->axes);
        memcpy(shape, pieces->refined.shape, pieces->refined.rank * sizeof(int64_t));
        *own = (struct pieces){{pieces->refined.rank, counts, shape}, pieces->axes};
    }
    *ret_refined = &own->refined;
    return SP_OK;
}

enum sp_status sp_refine_tensor(struct sp_refinement *all, uint32_t tensor, const struct sp_refined **ret_refined,
                                struct sp_error *err)
{
    struct sp_tensor_marks *of = all->tensors[tensor];
    uint32_t rank = all->ranks[tensor], used = 0;
    uint8_t counts[SP_MAX_RANK];
    int64_t shape[SP_MAX_RANK];
    *ret_refined = of == NULL ? NULL : of->refined;
    if (of == NULL || of->cut_count == 0 || of->refined != NULL)
        return SP_OK;
    for (uint32_t axis = 0; axis < rank; axis++) {
        const struct sp_marks *marks = sp_refine_marks(all, tensor, axis);
        int64_t above = all->shapes[tensor][axis];
        counts[axis] = 1;
        for (uint8_t i = marks == NULL ? 0 : marks->count; i-- > 0;) {
            if (!marks->marks[i].is_cut)
                continue;
            shape[used++] = above / marks->marks[i].stride;
            above = marks->marks[i].stride;
            counts[axis]++;
        }
        shape[used++] = above;
    }
    const struct pieces pieces = {{used, counts, shape}, rank};
    enum sp_status status = keep_pieces(all->pieces, &pieces, &of->refined, err);
    *ret_refined = of->refined;
    return status;
}
