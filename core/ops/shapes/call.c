#include "base/limits.h"
#include "onnx/reader.h"
#include "ops/shapes/internal.h"
#include "ops/table/shape_helpers.h"

/* Float constants handed into a function call are read up to this many elements: sizes and scales, no weights. */
#define MAX_CALL_REALS 64

/* A loop comes to a call again with other types; the body is the same. */
static enum sp_status expand(struct sp_shape_walk *walk, struct sp_node *node, const struct sp_function *function)
{
    struct sp_graph *body = NULL;
    if (node->body != NULL)
        return SP_OK;
    enum sp_status status = sp_onnx_expand(walk->model, node, function, &body, walk->err);
    if (status != SP_OK)
        return status;
    walk->expanded += body->node_count;
    if (walk->expanded > SP_MAX_EXPANDED_NODES)
        return sp_fail_limit(walk->err, "TOO_MANY_EXPANDED_NODES", "SP_MAX_EXPANDED_NODES", SP_MAX_EXPANDED_NODES,
                             (int64_t)walk->expanded, "The function calls expand to more than %d nodes.",
                             SP_MAX_EXPANDED_NODES);
    node->body = body;
    return SP_OK;
}

static void set_formals(struct sp_shape_walk *walk, const struct sp_node *node)
{
    const struct sp_graph *body = node->body;
    for (uint32_t i = 0; i < body->input_count; i++) {
        struct sp_value *formal = body->inputs[i], *actual = i < node->input_count ? node->inputs[i] : NULL;
        if (formal == NULL)
            continue;
        formal->type = (struct sp_type){0};
        formal->data = NULL;
        formal->is_constant = false;
        sp_shape_copy_stored(formal, actual);
        if (actual == NULL)
            continue;
        bool is_float = actual->type.kind == SP_TYPE_TENSOR && sp_dtype_is_float(actual->type.dtype);
        bool is_small = !is_float || sp_shape_elements(&actual->type.shape) <= MAX_CALL_REALS;
        formal->type = actual->type;
        formal->data = is_small ? (struct sp_data *)sp_value_elements(walk->model, actual) : actual->data;
        formal->is_constant = actual->is_constant;
    }
}

enum sp_status sp_shape_open_call(struct sp_shape_walk *walk, struct sp_node *node, const struct sp_function *function)
{
    char label[264];
    if (walk->calls >= SP_MAX_CALL_DEPTH)
        return sp_fail_limit(walk->err, "CALLS_TOO_DEEP", "SP_MAX_CALL_DEPTH", SP_MAX_CALL_DEPTH, walk->calls + 1,
                             "%s calls functions more than %d levels deep.", sp_op_subject(node, label, sizeof label),
                             SP_MAX_CALL_DEPTH);
    enum sp_status status = expand(walk, node, function);
    if (status != SP_OK)
        return status;
    set_formals(walk, node);
    status = sp_shape_initializers(walk, node->body);
    if (status != SP_OK)
        return status;
    if (sp_shape_push(walk, SP_FRAME_CALL, node->body, node) == NULL)
        return sp_fail_memory(walk->err);
    walk->calls++;
    return SP_OK;
}

enum sp_status sp_shape_close_call(struct sp_shape_walk *walk, const struct sp_shape_frame *frame)
{
    struct sp_node *node = frame->node;
    uint32_t known = 0, outputs = 0;
    for (uint32_t i = 0; i < node->output_count; i++) {
        struct sp_value *to = node->outputs[i];
        struct sp_value *from = i < frame->graph->output_count ? frame->graph->outputs[i] : NULL;
        if (to == NULL || from == NULL)
            continue;
        to->type = from->type;
        to->data = (struct sp_data *)sp_value_elements(walk->model, from);
        to->is_constant = from->is_constant;
        sp_shape_copy_stored(to, from);
        outputs++;
        known += from->is_constant;
    }
    node->is_folded = outputs != 0 && known == outputs;
    return SP_OK;
}
