/*
 * refine_tensors - tensors of an inference by pieces of their axes (refine.h), and their shardings there and
 * back.
 */
#include <string.h>

#include "base/arith.h"
#include "base/limits.h"
#include "infer/propagate/internal.h"
#include "infer/view/internal.h"
#include "sharding/convert_forms.h"

/* ---- stated blocks as parts ------------------------------------------------------------------------------------- */

/* The simplest parts of an axis, all with their extents; false where one is not known or cannot be a piece. */
static bool copy_parts(const struct sp_block_dim *dim, int64_t extent, struct sp_block_dim *ret_dim)
{
    int64_t known = 1;
    uint32_t open = UINT32_MAX;
    ret_dim->part_count = dim->part_count;
    for (uint32_t i = 0; i < dim->part_count; i++) {
        ret_dim->parts[i] = dim->parts[i];
        if (dim->parts[i].extent <= 0)
            open = i;
        else if (!sp_mul_i64(known, dim->parts[i].extent, &known))
            return false;
    }
    if (dim->part_count == 0)
        return true;
    if (extent <= 0 || extent % known != 0 || (open == UINT32_MAX && known != extent))
        return dim->part_count == 1 && open == 0; /* an even split of an extent that is not known */
    if (open != UINT32_MAX)
        ret_dim->parts[open].extent = extent / known;
    sp_cut_simplify(ret_dim);
    for (uint32_t i = 0; ret_dim->part_count > 1 && i < ret_dim->part_count; i++) {
        if (ret_dim->parts[i].extent == 1) /* one element in several shards: most are empty */
            return false;
    }
    return true;
}

enum sp_status sp_infer_parts(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t rank,
                              const int64_t *shape, struct sp_sharding **ret_blocks,
                              const struct sp_refined **ret_parts, struct sp_error *err)
{
    struct sp_sharding *closed = NULL, *blocks = SP_NEW(arena, struct sp_sharding);
    struct sp_refined *refined = SP_NEW(arena, struct sp_refined);
    const struct sp_sharding *regular = NULL;
    struct sp_block_dim dims[SP_MAX_RANK];
    uint32_t total = 0;
    *ret_parts = NULL;
    if (blocks == NULL || refined == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_sharding_to_blocks(arena, sharding, rank, 0, &closed, NULL, err);
    if (status == SP_OK)
        status = sp_sharding_regular(arena, closed, shape, &regular, err);
    if (status != SP_OK || regular == NULL)
        return status;
    for (uint32_t axis = 0; axis < rank; axis++) {
        dims[axis].parts = SP_NEW_ARRAY(arena, regular->blocks[axis].part_count, struct sp_block_part);
        if (dims[axis].parts == NULL)
            return sp_fail_memory(err);
        if (!copy_parts(&regular->blocks[axis], shape[axis], &dims[axis]))
            return SP_OK;
        total += dims[axis].part_count == 0 ? 1 : dims[axis].part_count;
    }
    if (total > SP_MAX_RANK)
        return SP_OK;
    uint8_t *counts = SP_NEW_ARRAY(arena, rank, uint8_t);
    int64_t *extents = SP_NEW_ARRAY(arena, total, int64_t);
    struct sp_block_dim *single = SP_NEW_ARRAY(arena, total, struct sp_block_dim);
    if (counts == NULL || extents == NULL || single == NULL)
        return sp_fail_memory(err);
    uint32_t used = 0;
    for (uint32_t axis = 0; axis < rank; axis++) {
        uint32_t count = dims[axis].part_count;
        counts[axis] = (uint8_t)(count == 0 ? 1 : count);
        if (count <= 1) {
            extents[used] = shape[axis];
            single[used++] = dims[axis];
        }
        for (uint32_t i = 0; count > 1 && i < count; i++) {
            extents[used] = dims[axis].parts[i].extent;
            single[used++] = (struct sp_block_dim){1, &dims[axis].parts[i]};
        }
    }
    *blocks = *regular;
    blocks->rank = total;
    blocks->blocks = single;
    *refined = (struct sp_refined){total, counts, extents};
    *ret_blocks = blocks;
    *ret_parts = refined;
    return SP_OK;
}

/* ---- what is stated --------------------------------------------------------------------------------------------- */

/* Notes one part of an axis, that begins at the stride `high` and ends at `low`, and what splits it. */
static enum sp_status note_part(struct sp_inference *all, struct sp_refinement *refinement, uint32_t tensor,
                                uint32_t axis, int64_t high, int64_t low, const struct sp_axis_list *list)
{
    int64_t extent = high / low, shards = 1, all_shards = sp_axes_size(list);
    enum sp_status status = sp_refine_cut(refinement, tensor, axis, low, all->err);
    if (status == SP_OK && (all_shards < 0 || extent % all_shards != 0))
        return sp_refine_fix(refinement, tensor, axis, low, all->err);
    for (uint32_t i = 0; status == SP_OK && i < list->count; i++) {
        shards *= list->refs[i].size;
        status = sp_refine_reserve(refinement, tensor, axis, extent / shards * low, all->err);
    }
    return status;
}

static enum sp_status note_stated(struct sp_inference *all, struct sp_refinement *refinement, uint32_t tensor)
{
    const struct sp_statement *stated = all->given.stated[all->tensor.statement_of[tensor] - 1].says;
    uint32_t part = 0;
    enum sp_status status = SP_OK;
    for (uint32_t axis = 0; axis < all->tensor.ranks[tensor] && status == SP_OK; axis++) {
        uint32_t count = stated->parts == NULL ? 1 : stated->parts->counts[axis];
        int64_t extent = all->tensor.shapes[tensor][axis], high = extent;
        for (uint32_t i = 0; i < count && extent > 0 && status == SP_OK; i++) {
            int64_t own = stated->parts == NULL ? extent : stated->parts->shape[part + i];
            status = note_part(all, refinement, tensor, axis, high, high / own, &stated->axes->dims[part + i].axes);
            high /= own;
        }
        part += count;
    }
    return status;
}

/* Deals the axes of one part to the pieces that it is cut in: all but the last that gets some are split up. */
static enum sp_status deal_part(struct sp_inference *all, const struct sp_axis_list *list, int64_t extent,
                                const int64_t *pieces, struct sp_dim_sharding *dims, uint32_t *ret_count)
{
    struct sp_axis_list rest = *list, after = {0};
    uint32_t count = 0;
    for (int64_t left = extent; count == 0 || left > 1; count++) {
        int64_t piece = pieces[count], shards = sp_axes_size(&rest);
        bool is_last = piece == left || extent <= 0, is_ok = true;
        if (is_last || rest.count == 0 || piece % shards == 0) {
            dims[count].axes = rest;
            rest = (struct sp_axis_list){0};
        } else {
            enum sp_status status =
                sp_axes_slice(all->arena, &rest, piece, &is_ok, &dims[count].axes, &after, all->err);
            if (status == SP_OK && !is_ok)
                status = sp_fail(all->err, SP_ERR_INTERNAL, "INTERNAL", "A stated split does not fit its pieces.");
            if (status != SP_OK)
                return status;
            rest = after;
        }
        left = is_last ? 1 : left / piece;
    }
    *ret_count = count;
    return SP_OK;
}

/* What the tensor starts with: the stated sharding over its pieces. */
static enum sp_status start_tensor(struct sp_inference *all, uint32_t tensor)
{
    const struct sp_statement *stated = all->given.stated[all->tensor.statement_of[tensor] - 1].says;
    const struct sp_refined *refined = all->tensor.refined[tensor];
    struct sp_sharding *own = NULL;
    uint32_t from = 0, to = 0;
    if (refined == NULL) {
        all->tensor.shardings[tensor] = stated->axes;
        return SP_OK;
    }
    enum sp_status status = sp_sharding_create_axes(all->arena, all->mesh, refined->rank, &own, all->err);
    while (status == SP_OK && to < refined->rank) {
        int64_t extent = 1;
        uint32_t count = 0;
        if (stated->parts != NULL) {
            extent = stated->parts->shape[from];
        } else {
            for (uint8_t i = 0; i < refined->counts[from]; i++)
                extent *= refined->shape[to + i];
        }
        status = deal_part(all, &stated->axes->dims[from].axes, extent, &refined->shape[to], &own->dims[to], &count);
        from++;
        to += count;
    }
    all->tensor.shardings[tensor] = own;
    return status;
}

/* ---- all tensors and rules -------------------------------------------------------------------------------------- */

static enum sp_status refine_tensor(struct sp_inference *all, struct sp_refinement *refinement, uint32_t tensor)
{
    if (!sp_infer_has_rank(all->tensor.values[tensor]))
        return SP_OK;
    enum sp_status status = sp_refine_tensor(refinement, tensor, &all->tensor.refined[tensor], all->err);
    if (status == SP_OK && all->tensor.statement_of[tensor] > 0)
        status = start_tensor(all, tensor);
    return status;
}

/* The rule of a flow over the pieces of its tensors, kept; NULL where it is too much. */
static enum sp_status make_rule(struct sp_inference *all, struct sp_refinement *refinement, uint32_t id,
                                const struct sp_rule **ret_rule)
{
    struct sp_arena_mark mark = sp_arena_mark(all->passing);
    struct sp_rule *kept = NULL;
    enum sp_status status = sp_refine_rule(refinement, all->passing, id, ret_rule, all->err);
    if (status == SP_OK && *ret_rule != all->flow.items[id].rule) {
        status = sp_rules_keep(sp_dataflow_rules(all->assignment->dataflow), *ret_rule, &kept, all->err);
        *ret_rule = kept;
    }
    sp_arena_rewind(all->passing, mark);
    return status;
}

/* The same, as it was made last for a flow of the same rule and tensors like these. */
static enum sp_status recall_rule(struct sp_inference *all, struct sp_refinement *refinement, uint32_t id,
                                  const struct sp_rule **ret_rule)
{
    const struct sp_flow *flow = &all->flow.items[id];
    struct sp_recent_key key = {0};
    bool is_known = false;
    if (flow->operand_count > SP_RECENT_OPERANDS)
        return make_rule(all, refinement, id, ret_rule);
    sp_recent_pointer(&key, flow->rule);
    for (uint32_t i = 0; i < flow->operand_count; i++) {
        uint32_t tensor = flow->tensors[i];
        sp_recent_pointer(&key, tensor == SP_NO_TENSOR ? NULL : all->tensor.shapes[tensor]);
        sp_recent_pointer(&key, tensor == SP_NO_TENSOR ? NULL : all->tensor.refined[tensor]);
    }
    uint32_t slot = sp_recent_slot(&all->recent->refined, &key, &is_known);
    if (is_known) {
        *ret_rule = all->recent->rules[slot];
        return SP_OK;
    }
    enum sp_status status = make_rule(all, refinement, id, ret_rule);
    all->recent->rules[slot] = *ret_rule;
    return status;
}

/* A flow whose rule would be too much to keep carries nothing. */
static enum sp_status refine_flow(struct sp_inference *all, struct sp_refinement *refinement, uint32_t id)
{
    struct sp_flow *flow = &all->flow.items[id];
    const struct sp_rule *rule = NULL;
    enum sp_status status = recall_rule(all, refinement, id, &rule);
    if (status != SP_OK)
        return status;
    if (rule != NULL) {
        flow->rule = rule;
        return SP_OK;
    }
    flow->input_count = flow->operand_count = 0;
    return sp_infer_leave_out(all, all->assignment->dataflow->relations[all->flow.relation_of[id]].node);
}

static enum sp_status refine_all(struct sp_inference *all, struct sp_refinement *refinement)
{
    enum sp_status status = SP_OK;
    for (uint32_t t = 0; status == SP_OK && t < all->tensor.count; t++) {
        if (all->tensor.statement_of[t] > 0)
            status = note_stated(all, refinement, t);
    }
    if (status == SP_OK)
        status = sp_refine_run(refinement, all->err);
    for (uint32_t t = 0; status == SP_OK && t < all->tensor.count; t++)
        status = refine_tensor(all, refinement, t);
    for (uint32_t f = 0; status == SP_OK && f < all->flow.count; f++)
        status = refine_flow(all, refinement, f);
    for (uint32_t t = 0; status == SP_OK && t < all->tensor.count; t++) {
        if (all->tensor.refined[t] == NULL)
            continue;
        all->tensor.ranks[t] = all->tensor.refined[t]->rank;
        all->tensor.shapes[t] = all->tensor.refined[t]->shape;
    }
    return status;
}

enum sp_status sp_infer_refine(struct sp_inference *all)
{
    struct sp_refinement *refinement = NULL;
    struct sp_arena *arena = sp_arena_create(sp_arena_budget(all->scratch));
    if (arena == NULL)
        return sp_fail_memory(all->err);
    const struct sp_propagation graph = {.tensor_count = all->tensor.count,
                                         .flow_count = all->flow.count,
                                         .ranks = all->tensor.ranks,
                                         .shapes = all->tensor.shapes,
                                         .flows = all->flow.items};
    enum sp_status status = sp_refine_create(arena, &all->pieces, &graph, &refinement, all->err);
    if (status == SP_OK)
        status = refine_all(all, refinement);
    sp_arena_destroy(arena);
    return status;
}

/* ---- back ------------------------------------------------------------------------------------------------------- */

/* Whether the pieces of an axis together are one contiguous split: those before the last that is split are split up. */
static bool is_contiguous(const struct sp_dim_sharding *dims, const int64_t *pieces, uint8_t count)
{
    uint8_t last = count;
    while (last > 0 && dims[last - 1].axes.count == 0)
        last--;
    for (uint8_t i = 0; i + 1 < last; i++) {
        if (sp_axes_size(&dims[i].axes) != pieces[i])
            return false;
    }
    return true;
}

static enum sp_status join_axes(struct sp_arena *arena, const struct sp_refined *refined, uint32_t rank,
                                const struct sp_sharding *sharding, const struct sp_mesh *mesh,
                                struct sp_sharding **ret_sharding, struct sp_error *err)
{
    struct sp_sharding *own = NULL;
    uint32_t at = 0;
    enum sp_status status = sp_sharding_create_axes(arena, mesh, rank, &own, err);
    for (uint32_t axis = 0; axis < rank; axis++) {
        for (uint8_t i = 0; i < refined->counts[axis] && status == SP_OK; i++, at++)
            status = sp_axes_append(arena, &own->dims[axis].axes, &sharding->dims[at].axes, &own->dims[axis].axes, err);
    }
    if (status == SP_OK)
        *ret_sharding = own;
    return status;
}

/* The blocks of pieces as parts of axes: the shards keep their numbers. */
static enum sp_status join_blocks(struct sp_arena *arena, const struct sp_refined *refined, uint32_t rank,
                                  struct sp_sharding *blocks, struct sp_error *err)
{
    struct sp_block_dim *dims = SP_NEW_ARRAY(arena, rank, struct sp_block_dim);
    struct sp_block_part *parts = SP_NEW_ARRAY(arena, refined->rank, struct sp_block_part);
    uint32_t at = 0;
    if (dims == NULL || parts == NULL)
        return sp_fail_memory(err);
    for (uint32_t axis = 0; axis < rank; axis++) {
        dims[axis] = (struct sp_block_dim){refined->counts[axis], &parts[at]};
        for (uint8_t i = 0; i < refined->counts[axis]; i++, at++) {
            int64_t shards = blocks->blocks[at].part_count == 0 ? 1 : blocks->blocks[at].parts[0].shards;
            parts[at] = (struct sp_block_part){refined->shape[at] < 0 ? 0 : refined->shape[at], NULL, shards};
        }
        sp_cut_simplify(&dims[axis]);
    }
    blocks->rank = rank;
    blocks->blocks = dims;
    return SP_OK;
}

enum sp_status sp_infer_join(struct sp_arena *arena, const struct sp_refined *refined, uint32_t rank,
                             const struct sp_sharding *sharding, const struct sp_mesh *mesh,
                             const struct sp_sharding **ret_sharding, struct sp_error *err)
{
    struct sp_sharding *own = NULL, on_mesh = *sharding;
    bool is_plain = true;
    uint32_t at = 0;
    for (uint32_t axis = 0; axis < rank; axis++) {
        is_plain = is_plain && is_contiguous(&sharding->dims[at], &refined->shape[at], refined->counts[axis]);
        at += refined->counts[axis];
    }
    if (is_plain) {
        enum sp_status status = join_axes(arena, refined, rank, sharding, mesh, &own, err);
        *ret_sharding = own;
        return status;
    }
    on_mesh.mesh = mesh;
    enum sp_status status = sp_sharding_to_blocks(arena, &on_mesh, refined->rank, 0, &own, NULL, err);
    if (status == SP_OK)
        status = join_blocks(arena, refined, rank, own, err);
    if (status == SP_OK)
        *ret_sharding = own;
    return status;
}
