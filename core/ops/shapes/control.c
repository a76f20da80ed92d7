#include <string.h>

#include "ops/shapes/declared.h"
#include "ops/shapes/internal.h"
#include "ops/shapes/merge.h"
#include "ops/table/shape_helpers.h"

/* ---- If ------------------------------------------------------------------------------------------------------ */

static enum sp_status enter_branch(struct sp_shape_walk *walk, struct sp_shape_frame *frame, uint32_t branch)
{
    int taken = sp_control_taken(frame->node);
    walk->quiet -= frame->is_quiet;
    frame->is_quiet = taken >= 0 && (uint32_t)taken != branch;
    walk->quiet += frame->is_quiet;
    frame->branch = branch;
    frame->graph = frame->control.graphs[branch];
    frame->next = 0;
    return sp_shape_initializers(walk, frame->graph);
}

/* What either branch gives. */
static enum sp_status join_branches(struct sp_shape_walk *walk, const struct sp_shape_frame *frame, uint32_t output)
{
    struct sp_op_context context = sp_shape_context(walk, frame->node);
    struct sp_value *a = frame->control.graphs[0]->outputs[output], *b = frame->control.graphs[1]->outputs[output];
    struct sp_value *to = frame->node->outputs[output];
    enum sp_status status = sp_merge_types(walk->model->arena, &a->type, &b->type, &to->type, walk->err);
    if (status == SP_ERR_MODEL)
        return sp_op_fail(&context, "BRANCHES_DISAGREE", "its branches give output %u ('%.120s') different types",
                          output, to->name);
    if (status != SP_OK)
        return status;
    if (!sp_name_merged_axes(walk->model, &to->type, to->name, &a->type, &b->type))
        return sp_fail_memory(walk->err);
    to->data = sp_merge_data(walk->model->arena, sp_value_elements(walk->model, a), sp_value_elements(walk->model, b));
    to->is_constant = a->is_constant && b->is_constant;
    return SP_OK;
}

enum sp_status sp_shape_close_branch(struct sp_shape_walk *walk, struct sp_shape_frame *frame, bool *ret_again)
{
    struct sp_node *node = frame->node;
    int taken = sp_control_taken(node);
    enum sp_status status = SP_OK;
    bool is_constant = node->inputs[0]->is_constant;
    if (frame->branch == 0) {
        *ret_again = true;
        return enter_branch(walk, frame, 1);
    }
    for (uint32_t i = 0; status == SP_OK && i < node->output_count; i++) {
        struct sp_value *to = node->outputs[i];
        if (to == NULL)
            continue;
        if (taken >= 0) {
            struct sp_value *from = frame->control.graphs[taken]->outputs[i];
            to->type = from->type;
            to->data = (struct sp_data *)sp_value_elements(walk->model, from);
            to->is_constant = from->is_constant;
            sp_shape_copy_stored(to, from);
        } else {
            status = join_branches(walk, frame, i);
        }
        is_constant = is_constant && to->is_constant;
    }
    if (status == SP_OK)
        sp_shape_set_constant(node, is_constant || sp_shape_has_known_results(node));
    return status;
}

/* ---- what goes into a loop's body ---------------------------------------------------------------------------- */

static struct sp_data *one_int(struct sp_arena *arena, int64_t value)
{
    struct sp_data *data = SP_NEW(arena, struct sp_data);
    struct sp_dim *ints = SP_NEW(arena, struct sp_dim);
    if (data == NULL || ints == NULL)
        return NULL;
    ints[0] = sp_dim_known(value);
    *data = (struct sp_data){1, ints, NULL};
    return data;
}

/* The iteration number or the condition: one element, of which some files make a vector. */
static enum sp_status enter_scalar(struct sp_shape_walk *walk, struct sp_value *input, enum sp_dtype dtype,
                                   const struct sp_data *data)
{
    input->type = (struct sp_type){.kind = SP_TYPE_TENSOR, .dtype = dtype};
    input->data = (struct sp_data *)data;
    input->is_constant = false;
    enum sp_status status = sp_shape_join(walk, walk->top->node, input, UINT32_MAX);
    if (status == SP_OK && !input->type.shape.has_rank)
        input->type.shape = (struct sp_shape){true, 0, NULL};
    return status;
}

static bool drop_axis(struct sp_arena *arena, struct sp_shape *shape, uint32_t axis)
{
    struct sp_dim *dims = SP_NEW_ARRAY(arena, shape->rank, struct sp_dim);
    if (dims == NULL)
        return false;
    for (uint32_t i = 0, to = 0; i < shape->rank; i++) {
        if (i != axis)
            dims[to++] = shape->dims[i];
    }
    *shape = (struct sp_shape){true, shape->rank - 1, dims};
    return true;
}

/* What a turn sees of a scanned operand. */
static enum sp_status enter_scanned(struct sp_shape_walk *walk, const struct sp_shape_frame *frame, uint32_t index)
{
    struct sp_op_context context = sp_shape_context(walk, frame->node);
    const struct sp_control *control = &frame->control;
    struct sp_value *from = frame->node->inputs[control->first_scanned + index];
    struct sp_value *to = frame->graph->inputs[control->first_body_scanned + index];
    enum sp_status status = SP_OK;
    uint32_t axis = 0;
    to->type = from == NULL ? (struct sp_type){0} : from->type;
    to->data = NULL;
    to->is_constant = false;
    if (control->kind == SP_CONTROL_MAP && to->type.kind == SP_TYPE_SEQUENCE) {
        to->type = to->type.elem != NULL ? *to->type.elem : (struct sp_type){0};
    } else if (control->kind == SP_CONTROL_MAP && from != NULL) {
        to->data = (struct sp_data *)sp_value_elements(walk->model, from); /* a tensor that every turn sees whole */
        to->is_constant = from->is_constant;
    } else if (to->type.shape.has_rank) {
        status = sp_control_scanned_axis(&context, control, index, to->type.shape.rank, &axis);
        if (status != SP_OK)
            return status;
        if (!drop_axis(walk->model->arena, &to->type.shape, axis) ||
            (control->has_batch && !drop_axis(walk->model->arena, &to->type.shape, 0)))
            return sp_fail_memory(walk->err);
    }
    return sp_shape_join(walk, frame->node, to, UINT32_MAX);
}

static enum sp_status enter_body(struct sp_shape_walk *walk, struct sp_shape_frame *frame)
{
    enum sp_status status = SP_OK;
    frame->next = 0;
    if (frame->control.kind == SP_CONTROL_LOOP) {
        status = enter_scalar(walk, frame->graph->inputs[0], SP_DTYPE_INT64, NULL);
        if (status == SP_OK)
            status = enter_scalar(walk, frame->graph->inputs[1], SP_DTYPE_BOOL, frame->condition);
    }
    if (status == SP_OK)
        status = sp_carried_enter(walk, frame);
    for (uint32_t i = 0; status == SP_OK && i < frame->control.scanned_count; i++)
        status = enter_scanned(walk, frame, i);
    return status;
}

enum sp_status sp_shape_open_control(struct sp_shape_walk *walk, struct sp_node *node)
{
    struct sp_op_context context = sp_shape_context(walk, node);
    struct sp_control control;
    enum sp_status status = sp_control_describe(&context, &control);
    if (status != SP_OK)
        return status;
    bool is_if = control.kind == SP_CONTROL_IF;
    struct sp_shape_frame *frame =
        sp_shape_push(walk, is_if ? SP_FRAME_BRANCH : SP_FRAME_LOOP, control.graphs[0], node);
    if (frame == NULL)
        return sp_fail_memory(walk->err);
    frame->control = control;
    frame->symbols_before = sp_dims_symbol_count(walk->model->dims);
    (void)sp_in_data(&context, 0); /* the condition, or the number of turns: read before anybody looks */
    if (is_if)
        return enter_branch(walk, frame, 0);
    if (control.kind == SP_CONTROL_LOOP)
        frame->condition = sp_has_input(&context, 1) ? sp_in_data(&context, 1) : one_int(walk->model->arena, 1);
    status = sp_shape_initializers(walk, frame->graph);
    if (status == SP_OK)
        status = sp_carried_begin(walk, frame);
    return status != SP_OK ? status : enter_body(walk, frame);
}

/* ---- what comes out of a loop -------------------------------------------------------------------------------- */

static bool add_axis(struct sp_arena *arena, struct sp_shape *shape, uint32_t axis, struct sp_dim extent)
{
    struct sp_dim *dims = SP_NEW_ARRAY(arena, shape->rank + 1, struct sp_dim);
    if (dims == NULL)
        return false;
    for (uint32_t i = 0, from = 0; i <= shape->rank; i++)
        dims[i] = i == axis ? extent : shape->dims[from++];
    *shape = (struct sp_shape){true, shape->rank + 1, dims};
    return true;
}

/* Elements may differ in what the body makes anew for each. */
static enum sp_status stack_elements(struct sp_shape_walk *walk, const struct sp_shape_frame *frame, uint32_t index)
{
    struct sp_op_context context = sp_shape_context(walk, frame->node);
    struct sp_type type = frame->graph->outputs[index]->type;
    if (!sp_forget_new_symbols(walk->model, &type, frame->symbols_before))
        return sp_fail_memory(walk->err);
    return sp_set_output_sequence(&context, index, &type);
}

static enum sp_status stack_slices(struct sp_shape_walk *walk, const struct sp_shape_frame *frame, uint32_t index,
                                   struct sp_dim trips, struct sp_dim batch)
{
    struct sp_op_context context = sp_shape_context(walk, frame->node);
    const struct sp_control *control = &frame->control;
    uint32_t output = control->state_count + index, axis = 0;
    struct sp_type type = frame->graph->outputs[control->first_body_stacked + index]->type;
    if (type.kind != SP_TYPE_TENSOR && type.kind != SP_TYPE_NONE)
        return sp_op_fail(&context, "WRONG_TYPE", "output %u of its body is stacked, but no tensor",
                          control->first_body_stacked + index);
    if (type.shape.has_rank) {
        enum sp_status status =
            sp_control_stacked_axis(&context, control, index, type.shape.rank + 1 + control->has_batch, &axis);
        if (status != SP_OK)
            return status;
        if ((control->has_batch && !add_axis(walk->model->arena, &type.shape, 0, batch)) ||
            !add_axis(walk->model->arena, &type.shape, axis, trips))
            return sp_fail_memory(walk->err);
        return sp_set_output_element(&context, output, &type);
    }
    return type.kind == SP_TYPE_NONE ? SP_OK : sp_set_output_unranked(&context, output, type.dtype);
}

static enum sp_status finish_loop(struct sp_shape_walk *walk, struct sp_shape_frame *frame)
{
    struct sp_op_context context = sp_shape_context(walk, frame->node);
    const struct sp_control *control = &frame->control;
    struct sp_dim trips = sp_dim_unknown(), batch = sp_dim_unknown();
    enum sp_status status = sp_control_trips(&context, control, &trips);
    if (status == SP_OK)
        status = sp_carried_finish(walk, frame, trips);
    if (trips.kind == SP_DIM_UNKNOWN && control->kind != SP_CONTROL_MAP && control->stacked_count > 0)
        trips = sp_dim_fresh(walk->model->dims, control->kind == SP_CONTROL_LOOP ? "Loop" : "Scan",
                             sp_control_most_trips(&context, control));
    for (uint32_t i = control->first_state; control->has_batch && i < frame->node->input_count; i++) {
        const struct sp_shape *shape = sp_in_shape(&context, i);
        if (status == SP_OK && shape != NULL && shape->rank > 0)
            status = sp_join_dims(&context, batch, shape->dims[0], &batch);
    }
    for (uint32_t i = 0; status == SP_OK && i < control->stacked_count; i++) {
        if (frame->node->outputs[control->state_count + i] == NULL)
            continue;
        status = control->kind == SP_CONTROL_MAP ? stack_elements(walk, frame, i)
                                                 : stack_slices(walk, frame, i, trips, batch);
    }
    if (status == SP_OK)
        sp_shape_set_constant(frame->node, sp_shape_has_known_results(frame->node));
    return status;
}

enum sp_status sp_shape_close_loop(struct sp_shape_walk *walk, struct sp_shape_frame *frame, bool *ret_again)
{
    bool is_changed = false;
    enum sp_status status = sp_carried_leave(walk, frame, &is_changed);
    if (status != SP_OK)
        return status;
    if (frame->control.kind == SP_CONTROL_LOOP) {
        const struct sp_data *returned = sp_value_elements(walk->model, frame->graph->outputs[0]);
        const struct sp_data *merged = sp_merge_data(walk->model->arena, frame->condition, returned);
        is_changed = is_changed || !sp_elements_same(merged, frame->condition);
        frame->condition = merged;
    }
    frame->passes++;
    if (!is_changed)
        return finish_loop(walk, frame);
    *ret_again = true;
    return enter_body(walk, frame);
}
