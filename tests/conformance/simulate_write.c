#include <stdlib.h>
#include <string.h>

#include "simulate.h"

void simulate_account_release(struct simulate_account *account)
{
    json_decref(account->notes);
    account->notes = NULL;
}

/* ---- what a partition tells ------------------------------------------------------------------------------------- */

static enum sp_status on_source(void *context, const struct sp_part_source *source, struct sp_error *err)
{
    (void)err;
    struct simulate_account *account = context;
    account->cut_sources += !source->box.is_whole;
    if (source->value->kind != SP_VALUE_INITIALIZER || account->weight_bytes == NULL ||
        !sp_dtype_is_float(source->piece->dtype))
        return SP_OK;
    int64_t elements = 1;
    for (uint32_t axis = 0; axis < source->piece->rank; axis++)
        elements *= source->piece->dims[axis];
    account->weight_bytes[source->device] += (double)sp_dtype_bytes(source->piece->dtype, elements);
    return SP_OK;
}

static bool is_part(const struct sp_piece *piece, const struct sp_value *value)
{
    for (uint32_t a = 0; piece != NULL && value != NULL && a < piece->rank && a < value->type.shape.rank; a++) {
        if (piece->dims[a] >= 0 && piece->dims[a] < value->type.shape.dims[a].value)
            return true;
    }
    return false;
}

/* Whether an operand of the node itself is a part of what it would be. */
static bool is_cut(const struct sp_part_op *op)
{
    for (uint32_t o = 0; op->is_same && o < op->output_count && o < op->node->output_count; o++) {
        if (is_part(op->outputs[o], op->node->outputs[o]))
            return true;
    }
    for (uint32_t i = 0; op->is_same && i < op->input_count && i < op->node->input_count; i++) {
        if (is_part(op->inputs[i], op->node->inputs[i]))
            return true;
    }
    return false;
}

static enum sp_status on_op(void *context, const struct sp_part_op *op, struct sp_error *err)
{
    (void)err;
    struct simulate_account *account = context;
    account->ops++;
    /* The branch of a known condition runs in place of its node. */
    account->cut_inside += (account->depth > 0 || op->node->graph->parent != NULL) && is_cut(op);
    return SP_OK;
}

static enum sp_status on_control(void *context, const struct sp_part_control *control, struct sp_error *err)
{
    (void)control;
    (void)err;
    ((struct simulate_account *)context)->controls++;
    return SP_OK;
}

static enum sp_status on_body(void *context, const struct sp_part_body *body, struct sp_error *err)
{
    (void)body;
    (void)err;
    ((struct simulate_account *)context)->depth++;
    return SP_OK;
}

static enum sp_status on_body_end(void *context, const struct sp_part_body *body, struct sp_error *err)
{
    (void)body;
    (void)err;
    ((struct simulate_account *)context)->depth--;
    return SP_OK;
}

static enum sp_status on_control_end(void *context, const struct sp_part_control *control, struct sp_error *err)
{
    (void)context;
    (void)control;
    (void)err;
    return SP_OK;
}

static enum sp_status on_exchange(void *context, const struct sp_exchange *exchange, struct sp_error *err)
{
    (void)err;
    struct simulate_account *account = context;
    account->exchanges++;
    account->kinds[(unsigned)exchange->kind % (sizeof(account->kinds) / sizeof(account->kinds[0]))]++;
    return SP_OK;
}

static enum sp_status on_result(void *context, const struct sp_part_result *result, struct sp_error *err)
{
    (void)err;
    struct simulate_account *account = context;
    for (uint32_t i = 0; i < result->holder_count; i++)
        account->cut_results += !result->holders[i].held.is_whole;
    return SP_OK;
}

static enum sp_status on_note(void *context, const struct sp_part_note *note, struct sp_error *err)
{
    (void)err;
    struct simulate_account *account = context;
    json_t *item = json_pack("{s:s, s:s, s:s}", "code", note->code, "node",
                             note->node != NULL ? note->node->op_type : "", "message", note->message);
    account->is_whole |= strcmp(note->code, "FACTOR_WHOLE") == 0;
    (void)json_array_append_new(account->notes, item);
    return SP_OK;
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

static bool read_model(void *context, uint32_t source, uint64_t offset, void *bytes, size_t size)
{
    const struct sp_model *model = context;
    if (source != 0 || offset > model->size || size > model->size - offset)
        return false;
    memcpy(bytes, model->bytes + offset, size);
    return true;
}

static bool write_file(void *context, const void *bytes, size_t size)
{
    return fwrite(bytes, 1, size, context) == size;
}

enum sp_status simulate_stream(const struct sp_recipe *recipe, struct sp_model *model, const char *path,
                               struct sp_error *err)
{
    struct sp_recipe_reader reader = {read_model, model};
    FILE *file = fopen(path, "wb");
    struct sp_sink sink = {.write = write_file, .context = file};
    if (file == NULL)
        return sp_fail(err, SP_ERR_IO, "NO_FILE", "The file %s cannot be written.", path);
    enum sp_status status = sp_recipe_stream(recipe, &reader, &sink, err);
    bool is_closed = fclose(file) == 0;
    return status != SP_OK || is_closed ? status : sp_fail(err, SP_ERR_IO, "NO_FILE", "%s is not complete.", path);
}

static void start_account(struct sp_arena *arena, const struct sp_assignment *assignment,
                          struct simulate_account *account)
{
    account->notes = json_array();
    account->device_count = assignment->device_count;
    if (account->weight_bytes == NULL)
        account->weight_bytes = SP_NEW_ARRAY(arena, (size_t)assignment->device_count, double);
}

enum sp_status simulate_tell_parts(struct sp_arena *arena, struct sp_model *model,
                                   const struct sp_assignment *assignment, struct simulate_account *account,
                                   bool tells_notes, struct sp_error *err)
{
    struct sp_part_sink sink = {.context = account,
                                .source = on_source,
                                .op = on_op,
                                .exchange = on_exchange,
                                .result = on_result,
                                .control_begin = on_control,
                                .body_begin = on_body,
                                .body_end = on_body_end,
                                .control_end = on_control_end,
                                .note = tells_notes ? on_note : NULL};
    struct sp_partition_request request = {.model = model, .assignment = assignment};
    if (account->notes == NULL)
        start_account(arena, assignment, account);
    return sp_partition_run(arena, &request, &sink, err);
}

enum sp_status simulate_write(struct sp_arena *arena, struct sp_model *model, const struct sp_assignment *assignment,
                              const char *path, struct simulate_account *account, struct sp_error *err)
{
    struct sp_realize_request request = {
        .partition = {.model = model, .assignment = assignment}, .note = on_note, .note_context = account};
    struct sp_recipe *recipe = NULL;
    start_account(arena, assignment, account);
    enum sp_status status = simulate_tell_parts(arena, model, assignment, account, false, err);
    if (status == SP_OK)
        status = sp_realize_simulation(&request, &recipe, err);
    if (status == SP_OK)
        status = simulate_stream(recipe, model, path, err);
    sp_recipe_destroy(recipe);
    return status == SP_OK ? simulate_write_devices(arena, model, assignment, path, err) : status;
}

/* ---- the list --------------------------------------------------------------------------------------------------- */

void simulate_tell(FILE *list, json_t *line)
{
    (void)json_dumpf(line, list, JSON_COMPACT);
    (void)fputc('\n', list);
    json_decref(line);
}

json_t *simulate_outputs(const struct sp_model *model)
{
    json_t *outputs = json_array();
    for (uint32_t i = 0; i < model->graph->output_count; i++) {
        const struct sp_value *output = model->graph->outputs[i];
        enum sp_dtype dtype = output->type.kind == SP_TYPE_TENSOR ? output->type.dtype : SP_DTYPE_UNDEFINED;
        (void)json_array_append_new(outputs, json_pack("{s:s, s:i}", "name", output->name, "type", (int)dtype));
    }
    return outputs;
}
