/* Pieces brought to where a device has them by name. */
#include <string.h>

#include "realize/device.h"

enum sp_status sp_device_make(struct sp_device_walk *walk, const struct sp_piece *piece, const struct sp_value *value,
                              struct sp_error *err)
{
    struct sp_device_piece *made = sp_device_add(walk, piece);
    if (made == NULL)
        return sp_fail_memory(err);
    made->source.value = value; /* for the types of what is no tensor */
    struct sp_device_part *part = walk->program != NULL ? NULL : sp_device_part(walk->plan, piece->device, made->part);
    if (walk->program == NULL && part == NULL)
        return sp_fail_memory(err);
    if (part != NULL && part->first.key == NULL) {
        part->first = (struct sp_device_port){.kind = SP_PORT_NOBODY,
                                              .key = piece->name,
                                              .name = piece->name,
                                              .piece = piece->name,
                                              .is_whole = true,
                                              .dtype = piece->dtype,
                                              .rank = piece->rank,
                                              .dims = piece->dims,
                                              .value = value};
        if (!sp_device_copy_port(walk->plan->arena, &part->first))
            return sp_fail_memory(err);
    }
    return SP_OK;
}

/* All of a model input comes in, and is cut here. */
static enum sp_status bring_whole(struct sp_device_walk *walk, const struct sp_device_piece *known,
                                  struct sp_error *err)
{
    const struct sp_part_source *source = &known->source;
    const struct sp_piece *piece = known->piece;
    const struct sp_device_port port = {.kind = SP_PORT_MODEL,
                                        .key = source->value->name,
                                        .name = source->value->name,
                                        .is_whole = true,
                                        .value = source->value,
                                        .tensor = {.is_whole = true}};
    const char *name = port.name;
    if (walk->program == NULL)
        return sp_device_add_port(walk->plan, piece->device, sp_device_walk_part(walk, piece->device), false, &port,
                                  err);
    if (!sp_device_walk_writes(walk, piece->device))
        return SP_OK;
    const struct sp_program_tensor whole = {.name = name, .rank = source->box.rank};
    enum sp_status status = SP_OK;
    walk->program->hint = piece->name;
    if (!source->box.is_whole)
        status = sp_program_cut(walk->program, &whole, piece->dtype, &source->box, NULL, &name, err);
    return status == SP_OK ? sp_program_alias(walk->program, piece, name, err) : status;
}

/* A part of a model input comes in once for each part that needs it. */
static enum sp_status bring_input(struct sp_device_walk *walk, struct sp_device_piece *known, struct sp_error *err)
{
    const struct sp_part_source *source = &known->source;
    const struct sp_piece *piece = known->piece;
    const uint32_t part = sp_device_walk_part(walk, piece->device);
    struct sp_buf key;
    if (walk->plan->forms.is_whole)
        return bring_whole(walk, known, err);
    sp_buf_init(&key, SP_MAX_RECORD_BYTES);
    sp_buf_text(&key, source->value->name);
    for (uint32_t i = 0; !source->box.is_whole && i < source->box.rank; i++) {
        sp_buf_text(&key, i == 0 ? "[" : ",");
        for (uint32_t k = 0; k < source->box.axes[i].count; k++)
            sp_buf_printf(&key, "%s%lld:%lld", k == 0 ? "" : "+", (long long)source->box.axes[i].ranges[k].start,
                          (long long)source->box.axes[i].ranges[k].limit);
    }
    if (!source->box.is_whole)
        sp_buf_text(&key, "]");
    enum sp_status status = sp_buf_failed(&key) ? sp_fail_memory(err) : SP_OK;
    if (status == SP_OK && walk->program == NULL) {
        const struct sp_device_port port = {.kind = SP_PORT_MODEL,
                                            .key = key.data,
                                            .name = key.data,
                                            .is_whole = true,
                                            .dtype = piece->dtype,
                                            .rank = piece->rank,
                                            .dims = piece->dims,
                                            .value = source->value,
                                            .tensor = source->box};
        status = sp_device_add_port(walk->plan, piece->device, part, false, &port, err);
    } else if (status == SP_OK && sp_device_walk_writes(walk, piece->device)) {
        const struct sp_device_port *port = sp_device_find_port(walk->plan, piece->device, part, false, key.data);
        status = port == NULL ? sp_fail(err, SP_ERR_INTERNAL, "PORT_MISSING", "An input is not in the plan.")
                              : sp_program_alias(walk->program, piece, port->name, err);
    }
    sp_buf_release(&key);
    return status;
}

/* What an earlier part made goes out of it and comes in again. */
static enum sp_status carry_over(struct sp_device_walk *walk, struct sp_device_piece *known, struct sp_error *err)
{
    const struct sp_piece *piece = known->piece;
    const uint32_t part = sp_device_walk_part(walk, piece->device);
    struct sp_device_port port = {.kind = SP_PORT_DEVICE,
                                  .key = piece->name,
                                  .name = piece->name,
                                  .piece = piece->name,
                                  .is_whole = true,
                                  .dtype = piece->dtype,
                                  .rank = piece->rank,
                                  .dims = piece->dims,
                                  .value = known->source.value,
                                  .device = piece->device,
                                  .part = known->part};
    if (walk->program != NULL) /* in the later part the piece has its own name */
        return SP_OK;
    enum sp_status status = sp_device_add_port(walk->plan, piece->device, known->part, true, &port, err);
    return status == SP_OK ? sp_device_add_port(walk->plan, piece->device, part, false, &port, err) : status;
}

/* A constant, or a part of a weight. */
static enum sp_status bring_given(struct sp_device_walk *walk, struct sp_device_piece *known, struct sp_error *err)
{
    const uint32_t part = sp_device_walk_part(walk, known->piece->device);
    if (known->last > part)
        return SP_OK;
    known->last = part + 1;
    if (!sp_device_walk_writes(walk, known->piece->device))
        return SP_OK;
    return known->is_constant ? sp_program_constant(walk->program, &known->constant, err)
                              : sp_program_weight(walk->program, &known->source, err);
}

/* Operators on weights alone, and what these need. */
static enum sp_status bring_derived(struct sp_device_walk *walk, struct sp_device_piece *known, struct sp_error *err)
{
    const bool writes = sp_device_walk_writes(walk, known->piece->device);
    struct sp_device_wanted wanted = {0};
    enum sp_status status = sp_device_want(walk, known->derived, &wanted, err);
    for (uint32_t i = wanted.count; status == SP_OK && i-- > 0;) {
        const struct sp_part_op *op = &wanted.items[i]->op;
        for (uint32_t k = 0; status == SP_OK && k < op->input_count; k++) {
            struct sp_device_piece *from = op->inputs[k] == NULL ? NULL : sp_device_lookup(walk, op->inputs[k]);
            if (from != NULL && from->derived == NULL)
                status = bring_given(walk, from, err);
        }
        if (status == SP_OK && writes)
            status = sp_device_put_op(walk, op, err);
    }
    return status;
}

enum sp_status sp_device_bring(struct sp_device_walk *walk, const struct sp_piece *piece, struct sp_error *err)
{
    struct sp_device_piece *known = sp_device_lookup(walk, piece);
    if (known == NULL)
        return sp_fail(err, SP_ERR_INTERNAL, "PIECE_UNKNOWN", "The piece '%.200s' is used before it is made.",
                       piece->name);
    if (known->derived != NULL)
        return bring_derived(walk, known, err);
    if (sp_device_is_anywhere(known))
        return bring_given(walk, known, err);
    const uint32_t part = sp_device_walk_part(walk, piece->device);
    if (known->last > part)
        return SP_OK;
    known->last = part + 1;
    return known->is_source ? bring_input(walk, known, err) : carry_over(walk, known, err);
}

enum sp_status sp_device_tell(struct sp_device_walk *walk, const struct sp_part_note *note, struct sp_error *err)
{
    if (walk->program != NULL) /* they are told once, with the plan */
        return SP_OK;
    const char *message = sp_intern_text(walk->plan->notes, note->message, strlen(note->message));
    if (message == NULL)
        return sp_fail_memory(err);
    void **mark = sp_intern_mark(message);
    if (*mark == NULL) {
        struct sp_device_note *kept = SP_NEW(walk->plan->arena, struct sp_device_note);
        if (kept == NULL)
            return sp_fail_memory(err);
        kept->code = note->code;
        kept->node = note->node != NULL && note->node->name[0] != '\0' ? note->node->name : NULL;
        *mark = kept;
    }
    return walk->request->note == NULL ? SP_OK : walk->request->note(walk->request->note_context, note, err);
}
