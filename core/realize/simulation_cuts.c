/* Simulations of requests in parts. */
#include <string.h>

#include "base/array.h"
#include "realize/protobuf_fields.h"
#include "realize/simulation.h"

#define FUNCTION_NAME   "micro_batch"
#define FUNCTION_DOMAIN "shardplan"

/* Field numbers of FunctionProto. */
enum {
    FUNCTION_NAME_FIELD = 1,
    FUNCTION_INPUT = 4,
    FUNCTION_OUTPUT = 5,
    FUNCTION_OPSETS = 9,
    FUNCTION_DOMAIN_FIELD = 10
};

static bool is_input(const struct sp_request_cuts *cuts, const char *name)
{
    for (uint32_t i = 0; i < cuts->input_count; i++) {
        if (strcmp(cuts->inputs[i].name, name) == 0)
            return true;
    }
    return false;
}

/* What was written until now as a function, which takes the inputs and all weights. */
static enum sp_status make_function(struct sp_program *program, const struct sp_request_cuts *cuts,
                                    struct sp_error *err)
{
    struct sp_recipe *function = sp_recipe_create();
    if (function == NULL)
        return sp_fail_memory(err);
    program->function = function;
    sp_put_text(function, FUNCTION_NAME_FIELD, FUNCTION_NAME);
    for (uint32_t i = 0; i < cuts->input_count; i++)
        sp_put_text(function, FUNCTION_INPUT, cuts->inputs[i].name);
    for (uint32_t i = 0; i < program->constant_count; i++)
        sp_put_text(function, FUNCTION_INPUT, program->constants[i]);
    for (uint32_t i = 0; i < cuts->output_count; i++) {
        if (!is_input(cuts, cuts->outputs[i].name))
            sp_put_text(function, FUNCTION_OUTPUT, cuts->outputs[i].name);
    }
    (void)sp_recipe_append(function, program->nodes);
    sp_program_put_opsets(program, function, FUNCTION_OPSETS);
    sp_put_text(function, FUNCTION_DOMAIN_FIELD, FUNCTION_DOMAIN);
    sp_recipe_clear(program->nodes);
    program->encoder.node_field = SP_PUT_GRAPH_NODE;
    int64_t *version = SP_NEW(program->arena, int64_t);
    void **entry = sp_program_entry(program->opsets, FUNCTION_DOMAIN, strlen(FUNCTION_DOMAIN));
    if (version == NULL || entry == NULL)
        return sp_fail_memory(err);
    *version = 1;
    *entry = version;
    return sp_recipe_status(function, err);
}

/* Part `part` of an input. */
static enum sp_status cut_input(struct sp_program *program, const struct sp_cut_tensor *cut, uint32_t part,
                                const char **ret_name, struct sp_error *err)
{
    const struct sp_value *value = sp_graph_value(program->model->graph, cut->name);
    const struct sp_shape *shape = &value->type.shape;
    struct sp_axis_ranges *axes = SP_NEW_ARRAY(program->arena, shape->rank, struct sp_axis_ranges);
    struct sp_range *ranges = SP_NEW_ARRAY(program->arena, shape->rank, struct sp_range);
    *ret_name = cut->name;
    if (cut->axis == SP_CUT_WHOLE)
        return SP_OK;
    if (axes == NULL || ranges == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < shape->rank; i++) {
        ranges[i] = (struct sp_range){0, -1};
        axes[i] = (struct sp_axis_ranges){1, &ranges[i]};
    }
    ranges[cut->axis] = (struct sp_range){part * cut->extent, (part + 1) * cut->extent};
    const struct sp_program_tensor whole = {.name = cut->name, .rank = shape->rank};
    const struct sp_box box = {.rank = shape->rank, .axes = axes};
    program->hint = cut->name;
    return sp_program_cut(program, &whole, value->type.dtype, &box, NULL, ret_name, err);
}

/* The call for one part with the function's first `constants`; what it gives is called results[i], output by output. */
static enum sp_status call(struct sp_program *program, const struct sp_request_cuts *cuts, uint32_t constants,
                           uint32_t part, const char **results, struct sp_error *err)
{
    struct sp_recipe *node = sp_recipe_create();
    enum sp_status status = node != NULL ? SP_OK : sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && i < cuts->input_count; i++) {
        const char *name;
        status = cut_input(program, &cuts->inputs[i], part, &name, err);
        if (status == SP_OK)
            sp_put_text(node, SP_PUT_NODE_INPUT, name);
    }
    for (uint32_t i = 0; status == SP_OK && i < constants; i++)
        sp_put_text(node, SP_PUT_NODE_INPUT, program->constants[i]);
    for (uint32_t i = 0; status == SP_OK && i < cuts->output_count; i++) {
        const struct sp_cut_tensor *output = &cuts->outputs[i];
        if (is_input(cuts, output->name))
            continue;
        program->hint = output->name;
        results[i] = output->axis == SP_CUT_WHOLE && part == 0 ? output->name : sp_program_fresh(program, "part");
        if (results[i] == NULL)
            status = sp_fail_memory(err);
        else
            sp_put_text(node, SP_PUT_NODE_OUTPUT, results[i]);
    }
    const char *name = sp_program_node_name(program, FUNCTION_NAME);
    if (status == SP_OK && name == NULL)
        status = sp_fail_memory(err);
    if (status == SP_OK) {
        sp_put_text(node, SP_PUT_NODE_NAME, name);
        sp_put_text(node, SP_PUT_NODE_OP_TYPE, FUNCTION_NAME);
        sp_put_text(node, SP_PUT_NODE_DOMAIN, FUNCTION_DOMAIN);
        sp_put_message(program->nodes, SP_PUT_GRAPH_NODE, node);
        status = sp_recipe_status(program->nodes, err);
    }
    sp_recipe_destroy(node);
    return status;
}

/* The parts of an output, one behind the other. */
static enum sp_status join_output(struct sp_program *program, const struct sp_cut_tensor *output, uint32_t count,
                                  const char **parts, struct sp_error *err)
{
    const enum sp_dtype dtype = sp_graph_value(program->model->graph, output->name)->type.dtype;
    const enum sp_dtype carrier = sp_program_carrier(program, dtype);
    const char *name;
    enum sp_status status = SP_OK;
    program->hint = output->name;
    for (uint32_t i = 0; status == SP_OK && carrier != dtype && i < count; i++)
        status = sp_program_cast(program, parts[i], carrier, NULL, &parts[i], err);
    if (status == SP_OK)
        status =
            sp_program_concat(program, output->axis, count, parts, carrier == dtype ? output->name : NULL, &name, err);
    return status == SP_OK && carrier != dtype ? sp_program_cast(program, name, dtype, output->name, &name, err)
                                               : status;
}

enum sp_status sp_simulation_repeat(struct sp_program *program, const struct sp_request_cuts *cuts,
                                    struct sp_error *err)
{
    const char **results = SP_NEW_ARRAY(program->arena, (size_t)cuts->count * cuts->output_count, const char *);
    const char **parts = SP_NEW_ARRAY(program->arena, cuts->count, const char *);
    enum sp_status status = results != NULL && parts != NULL ? make_function(program, cuts, err) : sp_fail_memory(err);
    const uint32_t constants = program->constant_count; /* cutting makes others */
    for (uint32_t part = 0; status == SP_OK && part < cuts->count; part++)
        status = call(program, cuts, constants, part, results + (size_t)part * cuts->output_count, err);
    for (uint32_t i = 0; status == SP_OK && i < cuts->output_count; i++) {
        if (cuts->outputs[i].axis == SP_CUT_WHOLE || is_input(cuts, cuts->outputs[i].name))
            continue;
        for (uint32_t part = 0; part < cuts->count; part++)
            parts[part] = results[(size_t)part * cuts->output_count + i];
        status = join_output(program, &cuts->outputs[i], cuts->count, parts, err);
    }
    return status;
}

/* ---- what a manifest says ------------------------------------------------------------------------------------------ */

static void write_tensors(const char *name, uint32_t count, const struct sp_cut_tensor *tensors, struct sp_json *json)
{
    sp_json_key(json, name);
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < count; i++) {
        sp_json_begin_object(json);
        sp_json_member_string(json, "tensor", tensors[i].name);
        sp_json_key(json, "axis");
        if (tensors[i].axis == SP_CUT_WHOLE) {
            sp_json_null(json);
        } else {
            sp_json_int(json, tensors[i].axis);
            sp_json_member_int(json, "extent", tensors[i].extent);
        }
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

void sp_cuts_write(const struct sp_request_cuts *cuts, struct sp_json *json)
{
    sp_json_key(json, "micro_batches");
    sp_json_begin_object(json);
    sp_json_member_int(json, "count", cuts->count);
    write_tensors("inputs", cuts->input_count, cuts->inputs, json);
    write_tensors("outputs", cuts->output_count, cuts->outputs, json);
    sp_json_end_object(json);
}
