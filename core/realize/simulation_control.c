/*
 * Control flow that is split, in a simulation: one If, Loop or Scan that does what all devices do.
 *
 * Every device takes the same branches and turns, so their nodes are put together: the conditions and the numbers of
 * turns are the first device's, and of each state, branch result, scanned or stacked operand all devices' pieces stand
 * side by side. What is said of a body is written into a graph of its own.
 */
#include <string.h>

#include "realize/program.h"
#include "realize/protobuf_fields.h"
#include "realize/simulation.h"

struct sp_simulated_control {
    struct sp_simulated_control *outer;
    struct sp_recipe *nodes; /* of the graph around it */
    struct sp_intern *made;
    struct sp_recipe *attributes; /* fields of NodeProto: the graphs that are done */
    struct sp_recipe *graph;      /* the graph at work: fields of GraphProto */
    const struct sp_part_control *told;
    uint32_t scalar_inputs, scalar_outputs;
    uint32_t node_field; /* of the graph, or the function, around it */
    uint32_t *counts;    /* pieces of each of the last graph's outputs, conditions left out */
};

enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_INT = 3, ATTRIBUTE_GRAPH = 6, ATTRIBUTE_INTS = 8, ATTRIBUTE_TYPE = 20 };

static bool is_op(const struct sp_part_control *control, const char *op_type)
{
    return strcmp(control->node->op_type, op_type) == 0;
}

enum sp_status sp_simulation_control_begin(struct sp_program *program, struct sp_simulated_control **stack,
                                           const struct sp_part_control *control, struct sp_error *err)
{
    struct sp_simulated_control *own = SP_NEW(program->arena, struct sp_simulated_control);
    if (own == NULL)
        return sp_fail_memory(err);
    own->outer = *stack;
    own->told = control;
    own->nodes = program->nodes;
    own->made = program->made;
    own->scalar_inputs = is_op(control, "Loop") ? 2 : is_op(control, "If") ? 1 : 0;
    own->scalar_outputs = is_op(control, "Loop") ? 1 : 0;
    own->attributes = sp_recipe_create();
    *stack = own;
    if (own->attributes == NULL)
        return sp_fail_memory(err);
    return sp_program_check_opset(program, control->node, control->node->domain, control->node->op_type, err);
}

void sp_simulation_control_release(struct sp_program *program, struct sp_simulated_control **stack)
{
    while (*stack != NULL) {
        struct sp_simulated_control *own = *stack;
        if (program->nodes != own->nodes)
            sp_recipe_destroy(program->nodes);
        program->nodes = own->nodes;
        program->made = own->made;
        sp_recipe_destroy(own->attributes);
        sp_recipe_destroy(own->graph);
        *stack = own->outer;
    }
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

/* Its extents matter where no turn is made: what would be stacked has them all the same. */
static enum sp_status put_port(struct sp_recipe *out, uint32_t field, const char *name, const struct sp_value *value,
                               const struct sp_piece *piece, struct sp_error *err)
{
    int64_t dims[SP_MAX_RANK];
    const uint32_t rank = value->type.shape.rank;
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = piece->dims != NULL && i < piece->rank ? piece->dims[i] : -1;
    return sp_put_tensor_info(out, field, name, value->type.dtype, rank, dims, err);
}

static const struct sp_piece *first_piece(const struct sp_part_port *port, uint32_t devices)
{
    for (uint32_t at = 0; port->pieces != NULL && at < devices; at++) {
        if (port->pieces[at] != NULL)
            return port->pieces[at];
    }
    return NULL;
}

static uint32_t piece_count(const struct sp_part_port *port, uint32_t devices)
{
    uint32_t count = 0;
    for (uint32_t at = 0; port->pieces != NULL && at < devices; at++)
        count += port->pieces[at] != NULL;
    return count;
}

/* All devices' turn numbers and conditions are those of the first one. */
static enum sp_status share(struct sp_program *program, const struct sp_part_port *port, uint32_t devices,
                            struct sp_error *err)
{
    const struct sp_piece *first = first_piece(port, devices);
    enum sp_status status = SP_OK;
    for (uint32_t at = 0; status == SP_OK && first != NULL && at < devices; at++) {
        if (port->pieces[at] != NULL && port->pieces[at] != first)
            status = sp_program_alias(program, port->pieces[at], sp_program_name(program, first), err);
    }
    return status;
}

enum sp_status sp_simulation_body_begin(struct sp_program *program, struct sp_simulated_control *own,
                                        const struct sp_part_body *body, struct sp_error *err)
{
    const struct sp_part_control *control = own->told;
    const uint32_t scalars = is_op(control, "Loop") ? 2 : 0;
    enum sp_status status = SP_OK;
    own->node_field = program->encoder.node_field;
    program->encoder.node_field = SP_PUT_GRAPH_NODE;
    program->nodes = sp_recipe_create();
    program->made =
        sp_intern_create(program->arena, program->model->hash_seed); /* what is made in a graph is not seen outside */
    own->graph = sp_recipe_create();
    if (program->nodes == NULL || program->made == NULL || own->graph == NULL)
        return sp_fail_memory(err);
    sp_put_text(own->graph, SP_PUT_GRAPH_NAME, body->graph->name[0] != '\0' ? body->graph->name : body->attribute);
    for (uint32_t i = 0; status == SP_OK && i < body->input_count; i++) {
        const struct sp_part_port *port = &body->inputs[i];
        if (i < scalars)
            status = share(program, port, control->device_count, err);
        for (uint32_t at = 0; status == SP_OK && at < (i < scalars ? 1 : control->device_count); at++) {
            const struct sp_piece *piece = i < scalars ? first_piece(port, control->device_count) : port->pieces[at];
            if (piece != NULL)
                status =
                    put_port(own->graph, SP_PUT_GRAPH_INPUT, sp_program_name(program, piece), port->value, piece, err);
        }
    }
    return status;
}

/* An output of a graph must be made in it. */
static enum sp_status put_output(struct sp_program *program, struct sp_simulated_control *own,
                                 const struct sp_part_port *port, const struct sp_piece *piece, struct sp_error *err)
{
    const char *name = sp_program_name(program, piece), *copy = NULL;
    const struct sp_program_op op = {.op_type = "Identity", .input_count = 1, .inputs = &name};
    program->hint = piece->name;
    enum sp_status status = sp_program_emit(program, &op, &copy, err);
    return status == SP_OK ? put_port(own->graph, SP_PUT_GRAPH_OUTPUT, copy, port->value, piece, err) : status;
}

enum sp_status sp_simulation_body_end(struct sp_program *program, struct sp_simulated_control *own,
                                      const struct sp_part_body *body, struct sp_error *err)
{
    const struct sp_part_control *control = own->told;
    enum sp_status status = SP_OK;
    own->counts = SP_NEW_ARRAY(program->arena, body->output_count, uint32_t);
    if (own->counts == NULL)
        return sp_fail_memory(err);
    for (uint32_t o = own->scalar_outputs; o < body->output_count; o++)
        own->counts[o - own->scalar_outputs] = piece_count(&body->outputs[o], control->device_count);
    for (uint32_t o = 0; status == SP_OK && o < body->output_count; o++) {
        const struct sp_part_port *port = &body->outputs[o];
        const bool is_scalar = o < own->scalar_outputs;
        for (uint32_t at = 0; status == SP_OK && at < (is_scalar ? 1 : control->device_count); at++) {
            const struct sp_piece *piece = is_scalar ? first_piece(port, control->device_count) : port->pieces[at];
            if (piece != NULL)
                status = put_output(program, own, port, piece, err);
        }
    }
    struct sp_recipe *attribute = sp_recipe_create();
    if (attribute == NULL || (status == SP_OK && !sp_recipe_append(own->graph, program->nodes)))
        status = status == SP_OK ? sp_fail_memory(err) : status;
    if (status == SP_OK) {
        sp_put_text(attribute, ATTRIBUTE_NAME, body->attribute);
        sp_put_message(attribute, ATTRIBUTE_GRAPH, own->graph);
        sp_put_int(attribute, ATTRIBUTE_TYPE, SP_ATTR_GRAPH);
        sp_put_message(own->attributes, SP_PUT_NODE_ATTRIBUTE, attribute);
        status = sp_recipe_status(own->attributes, err);
    }
    sp_recipe_destroy(attribute);
    sp_recipe_destroy(own->graph);
    sp_recipe_destroy(program->nodes);
    own->graph = NULL;
    program->encoder.node_field = own->node_field;
    program->nodes = own->nodes;
    program->made = own->made;
    return status;
}

/* ---- the node ---------------------------------------------------------------------------------------------------- */

static void put_pieces(struct sp_program *program, struct sp_recipe *out, uint32_t field,
                       const struct sp_part_port *port, uint32_t devices)
{
    for (uint32_t at = 0; port->pieces != NULL && at < devices; at++) {
        if (port->pieces[at] != NULL)
            sp_put_text(out, field, sp_program_name(program, port->pieces[at]));
    }
}

static void put_ints(struct sp_recipe *out, struct sp_recipe *scratch, const char *name, uint32_t count,
                     const int64_t *values)
{
    sp_recipe_clear(scratch);
    sp_put_text(scratch, ATTRIBUTE_NAME, name);
    for (uint32_t i = 0; i < count; i++)
        sp_put_int(scratch, ATTRIBUTE_INTS, values[i]);
    sp_put_int(scratch, ATTRIBUTE_TYPE, SP_ATTR_INTS);
    sp_put_message(out, SP_PUT_NODE_ATTRIBUTE, scratch);
}

/* A list with one item for each scanned operand, and the pieces that each of these becomes. */
struct scan_list {
    const char *name;
    uint32_t count;
    const uint32_t *pieces;
};

/* The list gets an item for each piece. */
static enum sp_status put_scan_list(struct sp_program *program, const struct sp_part_control *control,
                                    const struct scan_list *list, struct sp_recipe *out, struct sp_recipe *scratch,
                                    struct sp_error *err)
{
    uint32_t given = 0, used = 0;
    const int64_t *values = sp_node_ints(control->node, list->name, &given);
    if (values == NULL)
        return SP_OK;
    int64_t *all = SP_NEW_ARRAY(program->scratch, (size_t)list->count * control->device_count, int64_t);
    if (all == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < list->count; i++) {
        for (uint32_t k = 0; k < list->pieces[i]; k++)
            all[used++] = i < given ? values[i] : 0;
    }
    put_ints(out, scratch, list->name, used, all);
    return SP_OK;
}

static enum sp_status put_scan(struct sp_program *program, const struct sp_simulated_control *own,
                               struct sp_recipe *out, struct sp_recipe *scratch, struct sp_error *err)
{
    const struct sp_part_control *control = own->told;
    const uint32_t scanned = (uint32_t)sp_node_int(control->node, "num_scan_inputs", 0);
    const uint32_t states = control->input_count - scanned;
    uint32_t *pieces = SP_NEW_ARRAY(program->scratch, scanned, uint32_t);
    int64_t inputs = 0;
    if (pieces == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < scanned; i++) {
        pieces[i] = piece_count(&control->inputs[states + i], control->device_count);
        inputs += pieces[i];
    }
    sp_recipe_clear(scratch);
    sp_put_text(scratch, ATTRIBUTE_NAME, "num_scan_inputs");
    sp_put_int(scratch, ATTRIBUTE_INT, inputs);
    sp_put_int(scratch, ATTRIBUTE_TYPE, SP_ATTR_INT);
    sp_put_message(out, SP_PUT_NODE_ATTRIBUTE, scratch);
    const uint32_t stacked = control->output_count - states;
    const struct scan_list lists[] = {{"scan_input_axes", scanned, pieces},
                                      {"scan_output_axes", stacked, own->counts + states},
                                      {"scan_input_directions", scanned, pieces},
                                      {"scan_output_directions", stacked, own->counts + states}};
    enum sp_status status = SP_OK;
    for (size_t k = 0; k < sizeof lists / sizeof *lists && status == SP_OK; k++)
        status = put_scan_list(program, control, &lists[k], out, scratch, err);
    return status;
}

enum sp_status sp_simulation_control_end(struct sp_program *program, struct sp_simulated_control **stack,
                                         struct sp_error *err)
{
    struct sp_simulated_control *own = *stack;
    const struct sp_part_control *control = own->told;
    const struct sp_arena_mark mark = sp_arena_mark(program->scratch);
    struct sp_recipe *node = sp_recipe_create(), *scratch = sp_recipe_create();
    const char *name = sp_program_node_name(program, control->name);
    enum sp_status status = node == NULL || scratch == NULL || name == NULL ? sp_fail_memory(err) : SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < control->input_count; i++) {
        const struct sp_piece *first = first_piece(&control->inputs[i], control->device_count);
        if (i < own->scalar_inputs)
            sp_put_text(node, SP_PUT_NODE_INPUT, first != NULL ? sp_program_name(program, first) : "");
        else
            put_pieces(program, node, SP_PUT_NODE_INPUT, &control->inputs[i], control->device_count);
    }
    for (uint32_t o = 0; status == SP_OK && o < control->output_count; o++) {
        put_pieces(program, node, SP_PUT_NODE_OUTPUT, &control->outputs[o], control->device_count);
        for (uint32_t i = 0; control->outputs[o].pieces == NULL && i < own->counts[o] && status == SP_OK; i++) {
            /* The graph gives it, and nobody wants it: it has a name, for runtimes that need one. */
            const char *unused = sp_program_fresh(program, "unused");
            sp_put_text(node, SP_PUT_NODE_OUTPUT, unused != NULL ? unused : "");
            status = unused != NULL ? SP_OK : sp_fail_memory(err);
        }
    }
    if (status == SP_OK) {
        sp_put_text(node, SP_PUT_NODE_NAME, name);
        sp_put_text(node, SP_PUT_NODE_OP_TYPE, control->node->op_type);
        if (is_op(control, "Scan"))
            status = put_scan(program, own, node, scratch, err);
    }
    if (status == SP_OK && !sp_recipe_append(node, own->attributes))
        status = sp_fail_memory(err);
    if (status == SP_OK) {
        sp_put_message(program->nodes, program->encoder.node_field, node);
        status = sp_recipe_status(program->nodes, err);
    }
    sp_recipe_destroy(node);
    sp_recipe_destroy(scratch);
    sp_recipe_destroy(own->attributes);
    *stack = own->outer;
    sp_arena_rewind(program->scratch, mark);
    return status;
}
