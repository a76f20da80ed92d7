/* Pieces by what they are, and operators that make them. */
#include <string.h>

#include "realize/device.h"

struct sp_device_piece *sp_device_lookup(struct sp_device_walk *walk, const struct sp_piece *piece)
{
    const uint32_t id = sp_intern_find(walk->pieces, (const char *)&piece, sizeof piece);
    return id == SP_NO_NAME ? NULL : *sp_intern_mark(sp_intern_name(walk->pieces, id));
}

struct sp_device_piece *sp_device_add(struct sp_device_walk *walk, const struct sp_piece *piece)
{
    struct sp_device_piece *made = SP_NEW(walk->arena, struct sp_device_piece);
    void **entry = sp_program_entry(walk->pieces, &piece, sizeof piece);
    if (made == NULL || entry == NULL)
        return NULL;
    made->piece = piece;
    made->part = sp_device_walk_part(walk, piece->device);
    made->last = made->part + 1;
    *entry = made;
    walk->plan->devices[piece->device].is_used = true;
    if (sp_device_walk_writes(walk, piece->device)) {
        void **named = sp_program_entry(walk->named, piece->name, strlen(piece->name));
        if (named == NULL)
            return NULL;
        *named = made;
    }
    return made;
}

/* What is all of an output has the output's name from the start: a runtime gives memory to every copy under another. */
static enum sp_status name_results(struct sp_device_walk *walk, const struct sp_part_op *op, struct sp_error *err)
{
    const uint32_t part = sp_device_walk_part(walk, op->device);
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < op->output_count; i++) {
        const struct sp_piece *piece = op->outputs[i];
        const struct sp_device_port *port =
            piece == NULL ? NULL : sp_device_find_result(walk->plan, op->device, part, piece->name);
        if (port != NULL)
            status = sp_program_alias(walk->program, piece, port->name, err);
    }
    return status;
}

enum sp_status sp_device_put_op(struct sp_device_walk *walk, const struct sp_part_op *op, struct sp_error *err)
{
    enum sp_status status = name_results(walk, op, err);
    return status == SP_OK ? sp_program_operator(walk->program, op, err) : status;
}
