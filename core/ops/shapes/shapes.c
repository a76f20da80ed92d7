#include "ops/shapes/shapes.h"

#include <stdio.h>

#include "base/limits.h"
#include "ops/shapes/internal.h"
#include "ops/table/private.h"

/* An input axis of no stated size is the same size wherever the input goes: it gets a symbol of its own. */
static enum sp_status set_input_type(struct sp_shape_walk *walk, struct sp_value *value)
{
    struct sp_shape *shape = &value->type.shape;
    value->type = value->declared;
    if (value->type.kind != SP_TYPE_TENSOR || !shape->has_rank)
        return SP_OK;
    struct sp_dim *dims = SP_NEW_ARRAY(walk->model->arena, shape->rank, struct sp_dim);
    if (dims == NULL)
        return sp_fail_memory(walk->err);
    for (uint32_t axis = 0; axis < shape->rank; axis++) {
        dims[axis] = shape->dims[axis];
        if (dims[axis].kind == SP_DIM_UNKNOWN || (sp_dim_is_known(dims[axis]) && dims[axis].value < 0))
            dims[axis] = sp_dim_of_axis(walk->model->dims, value->name, axis, sp_dim_unknown());
    }
    shape->dims = dims;
    return SP_OK;
}

static enum sp_status start(struct sp_shape_walk *walk)
{
    const struct sp_graph *graph = walk->model->graph;
    enum sp_status status = sp_shape_initializers(walk, walk->model->graph);
    for (uint32_t i = 0; status == SP_OK && i < graph->input_count; i++) {
        struct sp_value *input = graph->inputs[i];
        if (input != NULL && input->tensor == NULL && input->sparse == NULL)
            status = set_input_type(walk, input);
    }
    if (status == SP_OK && sp_shape_push(walk, SP_FRAME_MAIN, walk->model->graph, NULL) == NULL)
        status = sp_fail_memory(walk->err);
    return status;
}

enum sp_status sp_infer_shapes_with(struct sp_model *model, const struct sp_shape_options *options,
                                    struct sp_shape_summary *ret_summary, struct sp_error *err)
{
    struct sp_error own;
    struct sp_shape_walk walk = {
        .model = model, .options = options, .err = &own, .told.arena = model->arena, .kinds.arena = model->arena};
    sp_error_clear(&own);
    walk.free_visits = SP_FREE_LOOP_VISITS + SP_LOOP_VISIT_FACTOR * model->counts.nodes;
    enum sp_status status = sp_private_adopt(model, &own);
    if (status == SP_OK)
        status = start(&walk);
    if (status == SP_OK)
        status = sp_shape_walk(&walk);
    if (status != SP_OK) {
        if (err != NULL && err->status == SP_OK)
            *err = own;
        return status;
    }
    walk.summary.values = model->graph->value_count;
    for (uint32_t i = 0; i < model->graph->value_count; i++)
        walk.summary.full_values += sp_type_is_full(&model->graph->values[i]->type);
    *ret_summary = walk.summary;
    return SP_OK;
}

enum sp_status sp_infer_shapes(struct sp_model *model, const struct sp_watch *watch,
                               struct sp_shape_summary *ret_summary, struct sp_error *err)
{
    struct sp_shape_options options = {.watch = watch};
    return sp_infer_shapes_with(model, &options, ret_summary, err);
}
