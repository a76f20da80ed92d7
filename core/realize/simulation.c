#include <string.h>

#include "onnx/wire.h"
#include "realize/program.h"
#include "realize/protobuf_fields.h"
#include "realize/simulation.h"

struct simulation {
    struct sp_program program;
    struct sp_recipe *interface; /* inputs and outputs of the graph, as they are declared in the file */
    struct sp_simulated_control *control;
};

/* ---- the graph's inputs and outputs ------------------------------------------------------------------------------ */

/* Before IR version 4 all weights are inputs too, which a runtime takes as weights. */
static bool keeps_defaults(const struct sp_model *model)
{
    return !model->has_ir_version || model->ir_version >= 4;
}

/* The name in a ValueInfoProto. */
static struct sp_span name_of(const struct sp_model *model, struct sp_span info)
{
    struct sp_wire wire = sp_wire_of(model->bytes, info);
    struct sp_wire_field field;
    while (sp_wire_next(&wire, &field, NULL) == SP_OK && field.number != 0) {
        if (field.number == 1 && field.type == SP_WIRE_LEN)
            return field.payload;
    }
    return (struct sp_span){0, 0};
}

/* An input with a default: either both stay, or it is a weight as any other. */
static enum sp_status put_default(struct sp_program *program, const struct sp_value *value, struct sp_error *err)
{
    void **entry = sp_program_entry(program->defaults, &value, sizeof value);
    bool done;
    if (entry == NULL)
        return sp_fail_memory(err);
    sp_recipe_clear(program->message);
    enum sp_status status =
        value->sparse != NULL
            ? sp_weight_put_sparse(&program->weights, program->message, value->name, value->sparse, err)
            : sp_weight_put(&program->weights, program->message, value->name, value->tensor, NULL, &done, err);
    if (status == SP_OK)
        status = sp_program_add_initializer(
            program, value->sparse != NULL ? SP_PUT_GRAPH_SPARSE_INITIALIZER : SP_PUT_GRAPH_INITIALIZER, value->name,
            err);
    return status;
}

static enum sp_status copy_interface(struct simulation *simulation, struct sp_error *err)
{
    struct sp_program *program = &simulation->program;
    const struct sp_model *model = program->model;
    struct sp_wire wire = sp_wire_of(model->bytes, model->graph->span);
    struct sp_wire_field field;
    enum sp_status status;
    while ((status = sp_wire_next(&wire, &field, err)) == SP_OK && field.number != 0) {
        if (field.number != SP_PUT_GRAPH_INPUT && field.number != SP_PUT_GRAPH_OUTPUT)
            continue;
        const struct sp_span name = name_of(model, field.payload);
        const uint32_t id = sp_intern_find(model->names, (const char *)model->bytes + name.offset, name.size);
        const struct sp_value *value =
            id == SP_NO_NAME ? NULL : sp_graph_value(model->graph, sp_intern_name(model->names, id));
        const bool has_default =
            field.number == SP_PUT_GRAPH_INPUT && value != NULL && (value->tensor != NULL || value->sparse != NULL);
        if (has_default && !keeps_defaults(model))
            continue;
        if (has_default && (status = put_default(program, value, err)) != SP_OK)
            return status;
        sp_put_original(simulation->interface, model, (struct sp_span){field.at, wire.at - field.at});
    }
    return status;
}

/* ---- what the partition tells ------------------------------------------------------------------------------------ */

static enum sp_status on_source(void *context, const struct sp_part_source *source, struct sp_error *err)
{
    struct sp_program *program = &((struct simulation *)context)->program;
    const bool is_default =
        sp_intern_find(program->defaults, (const char *)&source->value, sizeof source->value) != SP_NO_NAME;
    return source->is_weight && !is_default ? sp_program_weight(program, source, err)
                                            : sp_program_input(program, source, err);
}

static enum sp_status on_constant(void *context, const struct sp_part_constant *constant, struct sp_error *err)
{
    return sp_program_constant(&((struct simulation *)context)->program, constant, err);
}

static enum sp_status on_op(void *context, const struct sp_part_op *op, struct sp_error *err)
{
    return sp_program_operator(&((struct simulation *)context)->program, op, err);
}

/* Equal sums and gathered pieces of several devices are written once. */
static enum sp_status on_exchange(void *context, const struct sp_exchange *exchange, struct sp_error *err)
{
    struct sp_program *program = &((struct simulation *)context)->program;
    const struct sp_arena_mark mark = sp_arena_mark(program->scratch);
    program->taken = sp_intern_create(program->scratch, 0);
    enum sp_status status = program->taken == NULL ? sp_fail_memory(err) : SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < exchange->member_count; i++) {
        if (exchange->members[i].after != NULL)
            status = sp_program_member(program, exchange, i, err);
    }
    program->taken = NULL;
    sp_arena_rewind(program->scratch, mark);
    return status;
}

/* A tensor under a second name. Identity has types that a runtime has no kernels for where Cast has them. */
static enum sp_status rename_as(struct sp_program *program, const char *name, const struct sp_value *value,
                                struct sp_error *err)
{
    const enum sp_dtype dtype = value->type.dtype, carrier = sp_program_carrier(program, dtype);
    const struct sp_program_op copy = {.op_type = "Identity", .input_count = 1, .inputs = &name, .want = value->name};
    if (value->type.kind != SP_TYPE_TENSOR || carrier == dtype)
        return sp_program_emit(program, &copy, &name, err);
    enum sp_status status = sp_program_cast(program, name, carrier, NULL, &name, err);
    return status == SP_OK ? sp_program_cast(program, name, dtype, value->name, &name, err) : status;
}

/* All of an output is brought to one more, imagined device, whose piece is the output. */
static enum sp_status on_result(void *context, const struct sp_part_result *result, struct sp_error *err)
{
    struct sp_program *program = &((struct simulation *)context)->program;
    const struct sp_value *value = result->value;
    const struct sp_arena_mark mark = sp_arena_mark(program->scratch);
    struct sp_exchange_member *members =
        SP_NEW_ARRAY(program->scratch, (size_t)result->holder_count + 1, struct sp_exchange_member);
    struct sp_axis_ranges *axes = SP_NEW_ARRAY(program->scratch, result->rank, struct sp_axis_ranges);
    struct sp_range *ranges = SP_NEW_ARRAY(program->scratch, result->rank, struct sp_range);
    struct sp_piece *piece = SP_NEW(program->arena, struct sp_piece);
    if (members == NULL || axes == NULL || ranges == NULL || piece == NULL)
        return sp_fail_memory(err);
    *piece = (struct sp_piece){.name = value->name, .device = -1, .rank = result->rank, .dims = result->shape};
    for (uint32_t i = 0; i < result->holder_count; i++) {
        members[i] = result->holders[i];
        members[i].group = 0;
        members[i].after = NULL;
    }
    for (uint32_t i = 0; i < result->rank; i++) {
        ranges[i] = (struct sp_range){0, result->shape[i]};
        axes[i] = (struct sp_axis_ranges){1, &ranges[i]};
    }
    members[result->holder_count] = (struct sp_exchange_member){
        .device = -1, .after = piece, .needed = {.rank = result->rank, .axes = axes, .is_whole = true}};
    const struct sp_exchange exchange = {.kind = SP_SEND_RECEIVE,
                                         .dtype = value->type.dtype,
                                         .rank = result->rank,
                                         .shape = result->shape,
                                         .value = value,
                                         .group_count = 1,
                                         .member_count = result->holder_count + 1,
                                         .members = members};
    enum sp_status status = sp_program_member(program, &exchange, result->holder_count, err);
    const char *name = sp_program_name(program, piece);
    if (status == SP_OK && strcmp(name, value->name) != 0)
        status = rename_as(program, name, value, err);
    sp_arena_rewind(program->scratch, mark);
    return status;
}

static enum sp_status on_note(void *context, const struct sp_part_note *note, struct sp_error *err)
{
    const struct sp_realize_request *request = ((struct simulation *)context)->program.request;
    return request->note == NULL ? SP_OK : request->note(request->note_context, note, err);
}

static enum sp_status on_control_begin(void *context, const struct sp_part_control *control, struct sp_error *err)
{
    struct simulation *simulation = context;
    return sp_simulation_control_begin(&simulation->program, &simulation->control, control, err);
}

static enum sp_status on_body_begin(void *context, const struct sp_part_body *body, struct sp_error *err)
{
    struct simulation *simulation = context;
    return sp_simulation_body_begin(&simulation->program, simulation->control, body, err);
}

static enum sp_status on_body_end(void *context, const struct sp_part_body *body, struct sp_error *err)
{
    struct simulation *simulation = context;
    return sp_simulation_body_end(&simulation->program, simulation->control, body, err);
}

static enum sp_status on_control_end(void *context, const struct sp_part_control *control, struct sp_error *err)
{
    struct simulation *simulation = context;
    (void)control;
    return sp_simulation_control_end(&simulation->program, &simulation->control, err);
}

enum sp_status sp_realize_simulation(const struct sp_realize_request *request, struct sp_recipe **ret_recipe,
                                     struct sp_error *err)
{
    struct simulation simulation = {.interface = sp_recipe_create()};
    const struct sp_part_sink sink = {.context = &simulation,
                                      .source = on_source,
                                      .constant = on_constant,
                                      .op = on_op,
                                      .exchange = on_exchange,
                                      .result = on_result,
                                      .note = on_note,
                                      .control_begin = on_control_begin,
                                      .body_begin = on_body_begin,
                                      .body_end = on_body_end,
                                      .control_end = on_control_end};
    if (simulation.interface == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_program_init(&simulation.program, request, err);
    simulation.program.weights.shares = true;
    if (request->cuts != NULL)
        simulation.program.encoder.node_field = SP_PUT_FUNCTION_NODE;
    if (status == SP_OK)
        status = copy_interface(&simulation, err);
    if (status == SP_OK)
        status = sp_partition_run(simulation.program.arena, &request->partition, &sink, err);
    if (status == SP_OK && request->cuts != NULL)
        status = sp_simulation_repeat(&simulation.program, request->cuts, err);
    struct sp_part_note old;
    if (status == SP_OK && sp_program_is_old(request, &old))
        status = on_note(&simulation, &old, err);
    if (status == SP_OK)
        status = sp_program_finish(&simulation.program, simulation.interface,
                                   request->name != NULL ? request->name : request->partition.model->graph->name,
                                   ret_recipe, err);
    sp_simulation_control_release(&simulation.program, &simulation.control);
    sp_program_release(&simulation.program);
    sp_recipe_destroy(simulation.interface);
    return status;
}
