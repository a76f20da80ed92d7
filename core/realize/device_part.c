/* The model of a part, once all that it runs is known. */
#include "realize/device.h"
#include "realize/protobuf_fields.h"

static enum sp_status put_port_info(struct sp_recipe *interface, uint32_t field, const struct sp_device_port *port,
                                    struct sp_error *err)
{
    if (sp_device_port_is_as_value(port))
        return sp_put_value_info(interface, field, port->name, "", &port->value->type, err);
    return sp_put_tensor_info(interface, field, port->name, port->dtype, port->rank, port->dims, err);
}

/* An output is a piece, or a box of it, under the port's name. */
static enum sp_status put_output(struct sp_device_walk *walk, struct sp_program *program,
                                 const struct sp_device_port *port, struct sp_error *err)
{
    const uint32_t id = sp_intern_find(walk->named, port->piece, strlen(port->piece));
    if (id == SP_NO_NAME)
        return sp_fail(err, SP_ERR_INTERNAL, "PIECE_UNKNOWN", "The output '%.200s' was not made.", port->piece);
    const struct sp_device_piece *known = *sp_intern_mark(sp_intern_name(walk->named, id));
    const char *name = sp_program_name(program, known->piece);
    enum sp_status status = SP_OK;
    program->hint = port->name;
    if (!port->is_whole) {
        struct sp_axis_ranges *axes = SP_NEW_ARRAY(walk->scratch, port->rank, struct sp_axis_ranges);
        if (axes == NULL)
            return sp_fail_memory(err);
        for (uint32_t i = 0; i < port->rank; i++)
            axes[i] = (struct sp_axis_ranges){1, (struct sp_range *)&port->box[i]};
        const struct sp_box box = {.rank = port->rank, .axes = axes};
        const struct sp_program_tensor piece = {name, port->rank, known->piece->dims};
        status = sp_program_cut(program, &piece, port->dtype, &box, port->name, &name, err);
    }
    const struct sp_program_op copy = {.op_type = "Identity", .input_count = 1, .inputs = &name, .want = port->name};
    if (status == SP_OK && strcmp(name, port->name) != 0)
        status = sp_program_emit(program, &copy, &name, err);
    return status;
}

/* The model of a part that is done. */
static enum sp_status finish_part(struct sp_device_walk *walk, uint32_t part, struct sp_error *err)
{
    const struct sp_device_part *ports = walk->plan->devices[walk->device].parts[part];
    struct sp_recipe *interface = sp_recipe_create();
    enum sp_status status = SP_OK;
    if (interface == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && i < ports->outputs.count; i++) {
        const struct sp_device_port *port = ports->outputs.items[i];
        if (port->piece != NULL)
            status = put_output(walk, walk->program, port, err);
        if (status == SP_OK)
            status = put_port_info(interface, SP_PUT_GRAPH_OUTPUT, port, err);
    }
    for (uint32_t i = 0; status == SP_OK && i < ports->inputs.count; i++)
        status = put_port_info(interface, SP_PUT_GRAPH_INPUT, ports->inputs.items[i], err);
    walk->program->fingerprint = walk->plan->fingerprint;
    if (status == SP_OK)
        status = sp_program_finish(walk->program, interface,
                                   walk->request->name != NULL ? walk->request->name
                                                               : walk->request->partition.model->graph->name,
                                   &walk->recipes[part], err);
    sp_recipe_destroy(interface);
    return status;
}

/* Outputs are those of the plan, so a part need not wait for who takes them. */
enum sp_status sp_device_end_part(struct sp_device_walk *walk, struct sp_error *err)
{
    const uint32_t part = sp_device_walk_part(walk, walk->device);
    enum sp_status status = SP_OK;
    if (sp_device_plan_has(walk->plan, walk->device, part))
        status = finish_part(walk, part, err);
    sp_program_release(walk->program);
    return status == SP_OK ? sp_program_init(walk->program, walk->request, err) : status;
}
