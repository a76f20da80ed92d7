#include <string.h>

#include "realize/device.h"

/* ---- what the partition tells -------------------------------------------------------------------------------------
 */

static enum sp_status on_source(void *context, const struct sp_part_source *source, struct sp_error *err)
{
    struct sp_device_walk *walk = context;
    struct sp_device_piece *known = sp_device_add(walk, source->piece);
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
    struct sp_device_piece *known = sp_device_add(walk, constant->piece);
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
    if (sp_device_is_derived(walk, op))
        return sp_device_derive(walk, op, err);
    for (uint32_t i = 0; status == SP_OK && i < op->input_count; i++)
        status = op->inputs[i] == NULL ? SP_OK : sp_device_bring(walk, op->inputs[i], err);
    for (uint32_t i = 0; status == SP_OK && i < op->capture_count; i++)
        status = sp_device_bring(walk, op->captures[i].piece, err);
    for (uint32_t i = 0; status == SP_OK && i < op->output_count; i++) {
        const bool is_own = op->is_same && i < op->node->output_count;
        if (op->outputs[i] != NULL)
            status = sp_device_make(walk, op->outputs[i], is_own ? op->node->outputs[i] : NULL, err);
    }
    if (status != SP_OK || !sp_device_walk_writes(walk, op->device))
        return status;
    return sp_device_put_op(walk, op, err);
}

static enum sp_status on_exchange(void *context, const struct sp_exchange *exchange, struct sp_error *err)
{
    struct sp_device_walk *walk = context;
    const struct sp_arena_mark mark = sp_arena_mark(walk->scratch);
    walk->time++;
    enum sp_status status = sp_device_exchange(walk, exchange, err);
    for (uint32_t i = 0; status == SP_OK && i < exchange->member_count; i++) {
        if (exchange->members[i].after != NULL)
            status = sp_device_make(walk, exchange->members[i].after, exchange->value, err);
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
        if (known->is_source || sp_device_is_anywhere(known)) {
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

static enum sp_status on_note(void *context, const struct sp_part_note *note, struct sp_error *err)
{
    return sp_device_tell(context, note, err);
}

struct sp_partition_request sp_device_partition(const struct sp_device_plan *plan,
                                                const struct sp_realize_request *request)
{
    struct sp_partition_request partition = request->partition;
    if (plan->forms.is_whole)
        partition.results = plan->target == SP_TARGET_TENSORRT ? SP_RESULTS_EVERYWHERE : SP_RESULTS_WHOLE;
    return partition;
}

enum sp_status sp_device_walk_run(struct sp_device_walk *walk, struct sp_error *err)
{
    const struct sp_partition_request partition = sp_device_partition(walk->plan, walk->request);
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
    return sp_partition_run(walk->arena, &partition, &sink, err);
}
