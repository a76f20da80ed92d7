#include "ops/shapes/declared.h"
#include "ops/shapes/internal.h"
#include "ops/table/private.h"

struct sp_shape_frame *sp_shape_push(struct sp_shape_walk *walk, enum sp_frame_kind kind, struct sp_graph *graph,
                                     struct sp_node *node)
{
    struct sp_shape_frame *frame = walk->unused;
    if (frame != NULL)
        walk->unused = frame->below;
    else if ((frame = SP_NEW(walk->model->arena, struct sp_shape_frame)) == NULL)
        return NULL;
    *frame = (struct sp_shape_frame){.below = walk->top, .kind = kind, .graph = graph, .node = node};
    walk->top = frame;
    return frame;
}

struct sp_op_context sp_shape_context(const struct sp_shape_walk *walk, struct sp_node *node)
{
    struct sp_model *model = walk->model;
    return (struct sp_op_context){model, model->arena, model->dims, node, node->version, walk->err, NULL};
}

void sp_shape_find_op(struct sp_shape_walk *walk, struct sp_node *node)
{
    const struct sp_opset *opsets = node->graph->opsets;
    struct sp_known_op *known = &walk->known[((uintptr_t)node->op_type >> 4) % SP_KNOWN_OPS];
    if (known->op_type != node->op_type || known->domain != node->domain || known->opsets != opsets) {
        const int64_t version = sp_graph_opset(node->graph, node->domain);
        const struct sp_op *op = sp_private_find(walk->model->operators, node->domain, node->op_type, version);
        if (op == NULL)
            op = sp_op_find(node->domain, node->op_type, version);
        *known = (struct sp_known_op){node->op_type, node->domain, opsets, op, version};
    }
    node->version = known->version;
    node->op = known->op;
}

static bool is_fully_known(const struct sp_data *data)
{
    if (data == NULL)
        return false;
    for (uint32_t i = 0; data->ints != NULL && i < data->count; i++) {
        if (!sp_dim_is_known(data->ints[i]))
            return false;
    }
    return true;
}

bool sp_shape_has_known_results(const struct sp_node *node)
{
    bool has_results = false;
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] != NULL && !is_fully_known(node->outputs[i]->data))
            return false;
        has_results = has_results || node->outputs[i] != NULL;
    }
    return has_results;
}

void sp_shape_set_constant(struct sp_node *node, bool is_constant)
{
    node->is_folded = is_constant;
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] != NULL)
            node->outputs[i]->is_constant = is_constant;
    }
}

/* ---- errors ----------------------------------------------------------------------------------------------------- */

static bool is_news(struct sp_shape_walk *walk, const void *about, unsigned what)
{
    struct sp_hash_slot *slot = sp_hash_map_put(&walk->told, (uintptr_t)about + what);
    const bool is_new = slot == NULL || slot->number == 0;
    if (slot != NULL)
        slot->number = 1;
    return is_new;
}

bool sp_shape_is_news(struct sp_shape_walk *walk, const struct sp_node *node, unsigned what)
{
    return is_news(walk, node, what);
}

enum sp_status sp_shape_forgive(struct sp_shape_walk *walk, const struct sp_node *node, enum sp_status status)
{
    if (status != SP_ERR_MODEL && status != SP_ERR_UNSUPPORTED)
        return status;
    if (walk->quiet == 0 && walk->options->report == NULL)
        return status;
    struct sp_error error = *walk->err;
    sp_error_clear(walk->err);
    if (walk->quiet != 0 || (node != NULL && !sp_shape_is_news(walk, node, 0)))
        return SP_OK;
    return walk->options->report(walk->options->report_context, node, &error);
}

enum sp_status sp_shape_accept(struct sp_shape_walk *walk, const struct sp_node *node, const void *about,
                               const struct sp_error *accepted)
{
    if (accepted->status == SP_OK || walk->quiet != 0 || walk->options->accept == NULL || !is_news(walk, about, 0))
        return SP_OK;
    return walk->options->accept(walk->options->report_context, node, accepted);
}

enum sp_status sp_shape_join(struct sp_shape_walk *walk, const struct sp_node *node, struct sp_value *value,
                             uint32_t symbols_before)
{
    struct sp_error accepted;
    sp_error_clear(&accepted);
    enum sp_status status = sp_join_declared(walk->model, value, symbols_before, &accepted, walk->err);
    return status == SP_OK ? sp_shape_accept(walk, node, value, &accepted) : status;
}

/* ---- initializers ----------------------------------------------------------------------------------------------- */

static enum sp_status set_tensor_type(struct sp_shape_walk *walk, struct sp_value *value)
{
    const struct sp_tensor *tensor = value->tensor;
    const struct sp_sparse_tensor *sparse = value->sparse;
    uint32_t rank = tensor != NULL ? tensor->rank : sparse->rank;
    const int64_t *from = tensor != NULL ? tensor->dims : sparse->dims;
    struct sp_dim *dims = value->type.shape.dims; /* as read */
    if (!value->type.shape.has_rank || value->type.shape.rank != rank) {
        dims = SP_NEW_ARRAY(walk->model->arena, rank, struct sp_dim);
        if (dims == NULL)
            return sp_fail_memory(walk->err);
        for (uint32_t axis = 0; axis < rank; axis++)
            dims[axis] = sp_dim_known(from[axis]);
    }
    enum sp_dtype dtype = tensor != NULL ? tensor->dtype : sparse->values->dtype;
    value->type = (struct sp_type){.kind = SP_TYPE_TENSOR, .dtype = dtype, .shape = {true, rank, dims}};
    value->is_constant = true;
    if (value->declared.kind == SP_TYPE_SPARSE_TENSOR)
        return SP_OK; /* a sparse initializer is used as the dense tensor that it stands for */
    return sp_shape_forgive(walk, NULL, sp_shape_join(walk, NULL, value, UINT32_MAX));
}

enum sp_status sp_shape_initializers(struct sp_shape_walk *walk, struct sp_graph *graph)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < graph->initializer_count; i++) {
        if (!graph->initializers[i]->is_constant) /* a body that is walked again has them already */
            status = set_tensor_type(walk, graph->initializers[i]);
    }
    return status;
}
