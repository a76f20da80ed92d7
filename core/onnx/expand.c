#include <string.h>

#include "onnx/read.h"

static enum sp_status read_body(struct sp_model *model, struct sp_arena *arena, const struct sp_function *function,
                                struct sp_node *call, struct sp_graph **ret_body, struct sp_error *err)
{
    struct sp_graph *graph = SP_NEW(arena, struct sp_graph);
    struct sp_reader *r = calloc(1, sizeof *r);
    if (graph == NULL || r == NULL) {
        free(r);
        return sp_fail_memory(err);
    }
    sp_reader_init(r, model, err);
    r->arena = arena;
    r->function = function;
    r->call = call;
    r->scratch = sp_arena_create(sp_arena_budget(model->arena));
    r->local = r->scratch == NULL ? NULL : sp_intern_create(r->scratch, 0);
    graph->span = function->span;
    graph->owner = call;
    enum sp_status status = r->local == NULL ? sp_fail_memory(err) : sp_read_graph(r, graph);
    sp_reader_release(r);
    free(r);
    if (status == SP_OK)
        *ret_body = graph;
    return status;
}

enum sp_status sp_onnx_expand(struct sp_model *model, struct sp_node *call, const struct sp_function *function,
                              struct sp_graph **ret_body, struct sp_error *err)
{
    if (call->input_count > function->input_count || call->output_count > function->output_count) {
        char label[SP_ERROR_WHERE_SIZE];
        sp_fail(err, SP_ERR_MODEL, "WRONG_CALL",
                "The call has %u inputs and %u outputs, but function '%.80s' has %u and %u.", call->input_count,
                call->output_count, function->name, function->input_count, function->output_count);
        sp_error_at(err, "%s", sp_node_label(call, label, sizeof label));
        return SP_ERR_MODEL;
    }
    return read_body(model, model->arena, function, call, ret_body, err);
}

enum sp_status sp_onnx_body(struct sp_model *model, struct sp_arena *arena, const struct sp_function *function,
                            struct sp_graph **ret_body, struct sp_error *err)
{
    return read_body(model, arena, function, NULL, ret_body, err);
}
