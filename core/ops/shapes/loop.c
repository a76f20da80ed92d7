#include <string.h>

#include "base/limits.h"
#include "ops/shapes/declared.h"
#include "ops/shapes/internal.h"
#include "ops/shapes/merge.h"
#include "ops/table/shape_helpers.h"

/* After so many passes ranks are given up, and then all that is known of states: what widens one state in each pass may
   take as many passes as there are states. */
#define PRECISE_PASSES  16
#define UNRANKED_PASSES 20

/* A value that a loop carries. */
struct sp_carried {
    struct sp_type type;        /* true before every turn */
    struct sp_type first;       /* before the first one; extents that it leaves open are named in `type` */
    const struct sp_data *data; /* elements before every turn */
    uint64_t open;              /* axes whose extent in `type` is a symbol of its own: it differs from turn to turn */
    bool is_filled;             /* an optional state that comes back as its element */
};

static bool is_hurried(const struct sp_shape_walk *walk)
{
    return walk->visited > walk->free_visits + SP_LOOP_VISIT_FACTOR * walk->expanded;
}

static struct sp_value *body_state(const struct sp_shape_frame *frame, uint32_t index)
{
    return frame->graph->inputs[frame->control.first_body_state + index];
}

/* What the body sees before the first turn. */
static enum sp_status begin_state(struct sp_shape_walk *walk, struct sp_shape_frame *frame, uint32_t index)
{
    struct sp_op_context context = sp_shape_context(walk, frame->node);
    struct sp_carried *state = &frame->carried[index];
    struct sp_value *from = frame->node->inputs[frame->control.first_state + index], *to = body_state(frame, index);
    if (from == NULL)
        return sp_op_fail(&context, "MISSING_INPUT", "the first value of its state %u is missing", index);
    to->type = from->type;
    if (frame->control.has_batch && to->type.kind == SP_TYPE_TENSOR && to->type.shape.has_rank) {
        if (to->type.shape.rank == 0)
            return sp_op_fail(&context, "WRONG_SHAPE", "its state %u has no batch axis", index);
        to->type.shape.dims++;
        to->type.shape.rank--;
    }
    enum sp_status status = sp_shape_join(walk, frame->node, to, UINT32_MAX);
    if (status != SP_OK)
        return status;
    state->type = state->first = to->type;
    state->data = frame->control.has_batch ? NULL : sp_value_elements(walk->model, from);
    if (!sp_name_open_axes(walk->model, &state->type, to->name, &state->open))
        return sp_fail_memory(walk->err);
    return SP_OK;
}

/* Forgets more than was found to change, so that few passes follow. */
static void give_up(struct sp_shape_frame *frame, bool keeps_types)
{
    for (uint32_t i = 0; i < frame->control.state_count; i++) {
        struct sp_carried *state = &frame->carried[i];
        bool is_tensor = state->type.kind == SP_TYPE_TENSOR;
        state->type = keeps_types && is_tensor ? (struct sp_type){.kind = SP_TYPE_TENSOR, .dtype = state->type.dtype}
                                               : (struct sp_type){0};
        state->data = NULL;
        state->open = 0;
    }
    frame->condition = NULL;
}

/* Past the budget nothing is found out of states: then one pass is enough, where two would double in each loop that is
   inside another. */
enum sp_status sp_carried_begin(struct sp_shape_walk *walk, struct sp_shape_frame *frame)
{
    enum sp_status status = SP_OK;
    frame->carried = SP_NEW_ARRAY(walk->model->arena, frame->control.state_count, struct sp_carried);
    if (frame->carried == NULL)
        return sp_fail_memory(walk->err);
    for (uint32_t i = 0; status == SP_OK && i < frame->control.state_count; i++)
        status = begin_state(walk, frame, i);
    if (status == SP_OK && is_hurried(walk))
        give_up(frame, false);
    return status;
}

/* A state of which nothing is known is what the body declares. */
enum sp_status sp_carried_enter(struct sp_shape_walk *walk, struct sp_shape_frame *frame)
{
    (void)walk;
    for (uint32_t i = 0; i < frame->control.state_count; i++) {
        struct sp_value *to = body_state(frame, i);
        const struct sp_carried *state = &frame->carried[i];
        to->type = state->type.kind != SP_TYPE_NONE ? state->type : to->declared;
        to->data = (struct sp_data *)state->data;
        to->is_constant = false;
    }
    return SP_OK;
}

/* ---- after a turn -------------------------------------------------------------------------------------------- */

/* An optional may come back as what it holds. */
static enum sp_status merge_filled(struct sp_shape_walk *walk, struct sp_carried *state, const struct sp_type *returned,
                                   struct sp_type *ret_type)
{
    struct sp_type elem = {0};
    enum sp_status status = sp_merge_types(walk->model->arena, state->type.elem, returned, &elem, walk->err);
    if (status != SP_OK)
        return status;
    struct sp_type *copy = SP_NEW(walk->model->arena, struct sp_type);
    if (copy == NULL)
        return sp_fail_memory(walk->err);
    *copy = elem;
    *ret_type = (struct sp_type){.kind = SP_TYPE_OPTIONAL, .elem = copy};
    state->is_filled = true;
    return SP_OK;
}

/* Axes that have a symbol keep it: it stands for any extent. Others that differ get one. */
static bool widen_axes(struct sp_shape_walk *walk, struct sp_carried *state, struct sp_type *merged, const char *hint)
{
    uint64_t opened = 0;
    if (merged->kind != SP_TYPE_TENSOR || !merged->shape.has_rank) {
        state->open = 0;
        return true;
    }
    if (!sp_name_open_axes(walk->model, merged, hint, &opened))
        return false;
    for (uint32_t axis = 0; axis < merged->shape.rank; axis++) {
        if (opened >> axis & state->open >> axis & 1)
            merged->shape.dims[axis] = state->type.shape.dims[axis]; /* the dims are new: some axis got a name */
    }
    state->open |= opened;
    return true;
}

static enum sp_status leave_state(struct sp_shape_walk *walk, struct sp_shape_frame *frame, uint32_t index,
                                  bool *ret_changed)
{
    struct sp_op_context context = sp_shape_context(walk, frame->node);
    struct sp_carried *state = &frame->carried[index];
    struct sp_value *from = frame->graph->outputs[frame->control.first_body_result + index];
    struct sp_type merged = {0};
    enum sp_status status = sp_merge_types(walk->model->arena, &state->type, &from->type, &merged, walk->err);
    if (status == SP_ERR_MODEL && state->type.kind == SP_TYPE_OPTIONAL)
        status = merge_filled(walk, state, &from->type, &merged);
    if (status == SP_ERR_MODEL)
        return sp_op_fail(&context, "STATE_CHANGES_TYPE", "its body returns state %u ('%.120s') with another type",
                          index, from->name);
    if (status != SP_OK)
        return status;
    if (!widen_axes(walk, state, &merged, body_state(frame, index)->name))
        return sp_fail_memory(walk->err);
    const struct sp_data *data = sp_merge_data(walk->model->arena, state->data, sp_value_elements(walk->model, from));
    *ret_changed = *ret_changed || !sp_type_same(&merged, &state->type) || !sp_elements_same(data, state->data);
    state->type = merged;
    state->data = data;
    return SP_OK;
}

enum sp_status sp_carried_leave(struct sp_shape_walk *walk, struct sp_shape_frame *frame, bool *ret_changed)
{
    enum sp_status status = SP_OK;
    bool changed = false;
    for (uint32_t i = 0; status == SP_OK && i < frame->control.state_count; i++)
        status = leave_state(walk, frame, i, &changed);
    if (status == SP_OK && changed && (is_hurried(walk) || frame->passes >= UNRANKED_PASSES))
        give_up(frame, false);
    else if (status == SP_OK && changed && frame->passes >= PRECISE_PASSES)
        give_up(frame, true);
    if (status == SP_OK)
        *ret_changed = changed;
    return status;
}

/* ---- after the last turn ------------------------------------------------------------------------------------- */

/* The extent of an open axis at the end. It is the first one still when no turn changes it, and follows from the number
   of turns when each adds the same. */
static struct sp_dim last_extent(struct sp_shape_walk *walk, const struct sp_carried *state, const struct sp_type *from,
                                 uint32_t axis, struct sp_dim trips, uint32_t symbols_before)
{
    struct sp_dims *dims = walk->model->dims;
    struct sp_dim before = state->type.shape.dims[axis], first = sp_dim_unknown(), step = sp_dim_unknown();
    if (state->first.shape.has_rank && state->first.shape.rank == state->type.shape.rank)
        first = state->first.shape.dims[axis];
    if (from->kind == SP_TYPE_TENSOR && from->shape.has_rank && from->shape.rank == state->type.shape.rank)
        step = sp_dim_sub(dims, from->shape.dims[axis], before);
    if (sp_dim_is(step, 0))
        return first.kind != SP_DIM_UNKNOWN ? first : before;
    /* What is made anew in each turn may be another number each time. */
    struct sp_type same = {.kind = SP_TYPE_TENSOR, .shape = {true, 1, &step}};
    if (!sp_forget_new_symbols(walk->model, &same, symbols_before))
        return sp_dim_unknown();
    return sp_dim_add(dims, first, sp_dim_mul(dims, trips, same.shape.dims[0]));
}

static enum sp_status finish_state(struct sp_shape_walk *walk, struct sp_shape_frame *frame, uint32_t index,
                                   struct sp_dim trips)
{
    const struct sp_carried *state = &frame->carried[index];
    const struct sp_value *from = frame->graph->outputs[frame->control.first_body_result + index];
    struct sp_value *to = frame->node->outputs[index];
    struct sp_type type = state->is_filled ? from->type : state->type;
    if (to == NULL)
        return SP_OK;
    if (type.kind == SP_TYPE_TENSOR && type.shape.has_rank) {
        uint32_t batch = frame->control.has_batch;
        struct sp_dim *dims = SP_NEW_ARRAY(walk->model->arena, batch + type.shape.rank, struct sp_dim);
        if (dims == NULL)
            return sp_fail_memory(walk->err);
        const struct sp_shape *whole = &frame->node->inputs[frame->control.first_state + index]->type.shape;
        if (batch != 0 && whole->has_rank && whole->rank != 0)
            dims[0] = whole->dims[0];
        for (uint32_t axis = 0; axis < type.shape.rank; axis++)
            dims[batch + axis] = !state->is_filled && state->open >> axis & 1
                                     ? last_extent(walk, state, &from->type, axis, trips, frame->symbols_before)
                                     : type.shape.dims[axis];
        type.shape = (struct sp_shape){true, batch + type.shape.rank, dims};
    }
    to->type = type;
    if (!sp_name_open_axes(walk->model, &to->type, to->name, NULL))
        return sp_fail_memory(walk->err);
    to->data = frame->control.has_batch ? NULL : (struct sp_data *)state->data;
    return SP_OK;
}

enum sp_status sp_carried_finish(struct sp_shape_walk *walk, struct sp_shape_frame *frame, struct sp_dim trips)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < frame->control.state_count; i++)
        status = finish_state(walk, frame, i, trips);
    return status;
}
