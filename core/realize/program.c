#include "realize/program.h"

#include <string.h>

#define RUNTIME_OPSET 7 /* the first of ai.onnx that ONNX Runtime guarantees */

static enum sp_status import(struct sp_program *program, struct sp_error *err)
{
    const struct sp_model *model = program->model;
    for (uint32_t i = 0; i < model->opset_count; i++) {
        int64_t *version = SP_NEW(program->arena, int64_t);
        void **entry = sp_program_entry(program->opsets, model->opsets[i].domain, strlen(model->opsets[i].domain));
        if (version == NULL || entry == NULL)
            return sp_fail_memory(err);
        *version = model->opsets[i].version;
        *entry = version;
    }
    program->opset = sp_graph_opset(model->graph, "");
    return SP_OK;
}

bool sp_program_is_old(const struct sp_realize_request *request, struct sp_part_note *ret_note)
{
    const int64_t opset = sp_graph_opset(request->partition.model->graph, "");
    *ret_note = (struct sp_part_note){
        .code = "OPERATOR_SET_OLD",
        .message = "What is written for several devices cuts and joins tensors by operators of the model's own version "
                   "of ai.onnx, and ONNX Runtime supports version 7 and newer: convert the model to run it there."};
    return opset > 0 && opset < RUNTIME_OPSET && request->partition.assignment->device_count > 1;
}

static const char *outer_name(void *context, const struct sp_value *value)
{
    struct sp_program *program = context;
    const uint32_t id =
        program->captures == NULL ? SP_NO_NAME : sp_intern_find(program->captures, (const char *)&value, sizeof value);
    if (id == SP_NO_NAME) {
        program->missing = value;
        return value->name;
    }
    return sp_program_name(program, *sp_intern_mark(sp_intern_name(program->captures, id)));
}

/* A node of a subgraph that is copied. */
static enum sp_status check_inner(void *context, const struct sp_node *node, struct sp_error *err)
{
    return sp_program_check_opset(context, node, node->domain, node->op_type, err);
}

enum sp_status sp_program_init(struct sp_program *program, const struct sp_realize_request *request,
                               struct sp_error *err)
{
    memset(program, 0, sizeof *program);
    program->request = request;
    program->model = request->partition.model;
    struct sp_budget *budget = sp_arena_budget(program->model->arena);
    program->arena = sp_arena_create(budget);
    program->node_names.arena = program->arena;
    program->scratch = sp_arena_create(budget);
    program->nodes = sp_recipe_create();
    program->initializers = sp_recipe_create();
    program->message = sp_recipe_create();
    if (program->arena == NULL || program->scratch == NULL || program->nodes == NULL || program->initializers == NULL ||
        program->message == NULL)
        return sp_fail_memory(err);
    const uint64_t seed = program->model->hash_seed;
    program->aliases = sp_intern_create(program->arena, seed);
    program->made = sp_intern_create(program->arena, seed);
    program->opsets = sp_intern_create(program->arena, seed);
    program->defaults = sp_intern_create(program->arena, seed);
    program->marker = sp_part_marker(program->arena, program->model);
    if (program->aliases == NULL || program->made == NULL || program->opsets == NULL || program->defaults == NULL ||
        program->marker == NULL)
        return sp_fail_memory(err);
    program->hint = program->marker;
    program->inner_suffix = sp_arena_printf(program->arena, "%sf", program->marker);
    if (program->inner_suffix == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_weights_init(&program->weights, request, err);
    if (status == SP_OK)
        status = sp_encoder_init(&program->encoder, program->model, &program->weights, err);
    program->encoder.outer_name = outer_name;
    program->encoder.context = program;
    program->encoder.check = check_inner;
    return status == SP_OK ? import(program, err) : status;
}

void sp_program_release(struct sp_program *program)
{
    sp_encoder_release(&program->encoder);
    sp_weights_release(&program->weights);
    sp_recipe_destroy(program->nodes);
    sp_recipe_destroy(program->initializers);
    sp_recipe_destroy(program->message);
    sp_recipe_destroy(program->function);
    sp_arena_destroy(program->scratch);
    sp_arena_destroy(program->arena);
    memset(program, 0, sizeof *program);
}
