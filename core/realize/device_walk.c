#include <string.h>

#include "realize/device.h"

/* ---- pieces -------------------------------------------------------------------------------------------------------
 */

struct sp_device_piece *sp_device_lookup(struct sp_device_walk *walk, const struct sp_piece *piece)
{
    const uint32_t id = sp_intern_find(walk->pieces, (const char *)&piece, sizeof piece);
    return id == SP_NO_NAME ? NULL : *sp_intern_mark(sp_intern_name(walk->pieces, id));
}

/* A piece that is there from now on. */
static struct sp_device_piece *add_piece(struct sp_device_walk *walk, const struct sp_piece *piece)
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

/* A piece that the part at work makes. */
static enum sp_status make_piece(struct sp_device_walk *walk, const struct sp_piece *piece,
                                 const struct sp_value *value, struct sp_error *err)
{
    struct sp_device_piece *made = add_piece(walk, piece);
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

/* ---- bringing pieces into the part at work ------------------------------------------------------------------------
 */

/* A part of a model input comes in once for each part that needs it. */
static enum sp_status bring_input(struct sp_device_walk *walk, struct sp_device_piece *known, struct sp_error *err)
{
    const struct sp_part_source *source = &known->source;
    const struct sp_piece *piece = known->piece;
    const uint32_t part = sp_device_walk_part(walk, piece->device);
    struct sp_buf key;
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

enum sp_status sp_device_bring(struct sp_device_walk *walk, const struct sp_piece *piece, struct sp_error *err)
{
    struct sp_device_piece *known = sp_device_lookup(walk, piece);
    if (known == NULL)
        return sp_fail(err, SP_ERR_INTERNAL, "PIECE_UNKNOWN", "The piece '%.200s' is used before it is made.",
                       piece->name);
    const uint32_t part = sp_device_walk_part(walk, piece->device);
    const bool writes = sp_device_walk_writes(walk, piece->device);
    if (known->last > part)
        return SP_OK;
    known->last = part + 1;
    if (known->is_constant)
        return writes ? sp_program_constant(walk->program, &known->constant, err) : SP_OK;
    if (known->is_source && known->source.is_weight)
        return writes ? sp_program_weight(walk->program, &known->source, err) : SP_OK;
    return known->is_source ? bring_input(walk, known, err) : carry_over(walk, known, err);
}

/* ---- what the partition tells -------------------------------------------------------------------------------------
 */

static enum sp_status on_source(void *context, const struct sp_part_source *source, struct sp_error *err)
{
    struct sp_device_walk *walk = context;
    struct sp_device_piece *known = add_piece(walk, source->piece);
    if (known == NULL)
        return sp_fail_memory(err);
    known->is_source = true;
    known->last = 0;
    known->source = *source;
    return sp_device_copy_box(walk->arena, &source->box, &known->source.box, err);
}

static enum sp_status on_constant(void *context, const struct sp_part_constant *constant, struct sp_error *err)
{
    struct sp_device_walk *walk = context;
    struct sp_device_piece *known = add_piece(walk, constant->piece);
    if (known == NULL)
        return sp_fail_memory(err);
    known->is_constant = true;
    known->last = 0;
    known->constant = *constant;
    if (!sp_device_walk_writes(walk, constant->device))
        return SP_OK;
    int64_t *dims = SP_NEW_ARRAY(walk->arena, constant->rank, int64_t);
    void *bytes = sp_arena_alloc(walk->arena, constant->size);
    if (dims == NULL || bytes == NULL)
        return sp_fail_memory(err);
    if (constant->rank > 0)
        memcpy(dims, constant->dims, constant->rank * sizeof *dims);
    if (constant->size > 0)
        memcpy(bytes, constant->bytes, constant->size);
    known->constant.dims = dims;
    known->constant.bytes = bytes;
    return SP_OK;
}

static enum sp_status on_op(void *context, const struct sp_part_op *op, struct sp_error *err)
{
    struct sp_device_walk *walk = context;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < op->input_count; i++)
        status = op->inputs[i] == NULL ? SP_OK : sp_device_bring(walk, op->inputs[i], err);
    for (uint32_t i = 0; status == SP_OK && i < op->capture_count; i++)
        status = sp_device_bring(walk, op->captures[i].piece, err);
    for (uint32_t i = 0; status == SP_OK && i < op->output_count; i++) {
        const bool is_own = op->is_same && i < op->node->output_count;
        if (op->outputs[i] != NULL)
            status = make_piece(walk, op->outputs[i], is_own ? op->node->outputs[i] : NULL, err);
    }
    if (status == SP_OK && sp_device_walk_writes(walk, op->device))
        status = sp_program_operator(walk->program, op, err);
    return status;
}

static enum sp_status on_exchange(void *context, const struct sp_exchange *exchange, struct sp_error *err)
{
    struct sp_device_walk *walk = context;
    const struct sp_arena_mark mark = sp_arena_mark(walk->scratch);
    walk->time++;
    enum sp_status status = sp_device_exchange(walk, exchange, err);
    for (uint32_t i = 0; status == SP_OK && i < exchange->member_count; i++) {
        if (exchange->members[i].after != NULL)
            status = make_piece(walk, exchange->members[i].after, exchange->value, err);
    }
    sp_arena_rewind(walk->scratch, mark);
    return status;
}

/* Every device gives what it has of an output; the same box comes from several where it is replicated. */
static enum sp_status on_result(void *context, const struct sp_part_result *result, struct sp_error *err)
{
    struct sp_device_walk *walk = context;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < result->holder_count; i++) {
        const struct sp_exchange_member *holder = &result->holders[i];
        struct sp_device_piece *known = sp_device_lookup(walk, holder->before);
        if (known == NULL)
            return sp_fail(err, SP_ERR_INTERNAL, "PIECE_UNKNOWN", "The output '%.200s' is not made.",
                           result->value->name);
        if (known->is_source || known->is_constant) {
            status = sp_device_bring(walk, holder->before, err);
            known->part = sp_device_walk_part(walk, holder->device);
        }
        const struct sp_device_port port = {.kind = SP_PORT_MODEL,
                                            .key = result->value->name,
                                            .name = result->value->name,
                                            .piece = holder->before->name,
                                            .is_whole = true,
                                            .dtype = holder->before->dtype,
                                            .rank = holder->before->rank,
                                            .dims = holder->before->dims,
                                            .value = result->value,
                                            .tensor = holder->held};
        if (status == SP_OK && walk->program == NULL)
            status = sp_device_add_port(walk->plan, holder->device, known->part, true, &port, err);
    }
    return status;
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

static enum sp_status on_note(void *context, const struct sp_part_note *note, struct sp_error *err)
{
    return sp_device_tell(context, note, err);
}

enum sp_status sp_device_walk_run(struct sp_device_walk *walk, struct sp_error *err)
{
    const struct sp_part_sink sink = {.context = walk,
                                      .source = on_source,
                                      .constant = on_constant,
                                      .op = on_op,
                                      .exchange = on_exchange,
                                      .result = on_result,
                                      .note = on_note};
    struct sp_budget *budget = sp_arena_budget(walk->request->partition.model->arena);
    walk->arena = sp_arena_create(budget);
    walk->scratch = sp_arena_create(budget);
    walk->pieces = walk->arena == NULL ? NULL : sp_intern_create(walk->arena, 0);
    walk->named = walk->arena == NULL ? NULL : sp_intern_create(walk->arena, 0);
    walk->parts = walk->arena == NULL ? NULL : SP_NEW_ARRAY(walk->arena, walk->plan->world_count, uint32_t);
    walk->has_given = walk->arena == NULL ? NULL : SP_NEW_ARRAY(walk->arena, walk->plan->world_count, bool);
    if (walk->scratch == NULL || walk->pieces == NULL || walk->named == NULL || walk->parts == NULL ||
        walk->has_given == NULL)
        return sp_fail_memory(err);
    return sp_partition_run(walk->arena, &walk->request->partition, &sink, err);
}
