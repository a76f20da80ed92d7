/* The completed shardings as JSON and as text. */
#include <string.h>

#include "plan/answer/readable_text.h"
#include "plan/infer/internal.h"
#include "sharding/dialect.h"

#define TEXT_COLUMNS 110
#define TEXT_STOPS   50 /* places where propagation stopped that the text lists; the JSON has all */

static const char *origin_name(enum sp_spec_origin origin)
{
    static const char *const names[] = {"none", "given", "set", "inferred", "assumed"};
    return names[origin];
}

static const char *communication_name(enum sp_communication_kind kind)
{
    static const char *const names[] = {"reshard", "reduce", "halo", "gather", "permute"};
    return names[kind];
}

/* The readable form of a sharding: as ONNX Runtime writes it where it can, else XLA's. */
static enum sp_status write_text(const struct sp_completion *completion, struct sp_arena *arena,
                                 const struct sp_value *value, const struct sp_sharding *sharding, struct sp_buf *buf)
{
    const struct sp_shape *shape = &value->type.shape;
    struct sp_dialect_context context = {.rank = -1, .device_count = completion->device_count};
    struct sp_losses losses = {0};
    struct sp_error none = {0};
    if (value->type.kind == SP_TYPE_TENSOR && shape->has_rank)
        context.rank = shape->rank;
    sp_buf_clear(buf);
    enum sp_status status = sp_dialect_write(arena, SP_DIALECT_ORT, sharding, &context, buf, &losses, &none);
    if (status == SP_OK || status == SP_ERR_MEMORY)
        return status;
    sp_error_clear(&none);
    sp_buf_clear(buf);
    status = sp_dialect_write(arena, SP_DIALECT_HLO, sharding, &context, buf, &losses, &none);
    if (status != SP_OK && status != SP_ERR_MEMORY)
        sp_buf_clear(buf); /* the ONNX form says it all */
    return status == SP_ERR_MEMORY ? status : SP_OK;
}

/* How many devices the readable and the ONNX form of a sharding list, or less. */
static int64_t listed_devices(const struct sp_completion *completion, const struct sp_sharding *sharding)
{
    switch (sharding->kind) {
    case SP_SHARDING_SINGLE:
        return 1;
    case SP_SHARDING_AXES:
        return sharding->mesh->order.count;
    case SP_SHARDING_BLOCKS:
        return sharding->first != NULL ? sharding->first[sharding->shard_count] : 0;
    default:
        return completion->device_count;
    }
}

/* Each spec may list all devices: said before the first byte, not after gigabytes of them. */
static enum sp_status check_size(const struct sp_completion *completion, struct sp_error *err)
{
    int64_t total = 0;
    for (uint32_t i = 0; i < completion->dataflow->node_count; i++) {
        const struct sp_node *node = completion->dataflow->nodes[i];
        const struct sp_spec_entry *operands = completion->assignment->nodes[i].operands;
        for (uint32_t k = 0; operands != NULL && k < node->input_count + node->output_count; k++) {
            if (operands[k].sharding != NULL)
                total += listed_devices(completion, operands[k].sharding);
        }
    }
    if (total > SP_MAX_ANSWER_DEVICES)
        return sp_fail_limit(err, "ANSWER_TOO_LARGE", "SP_MAX_ANSWER_DEVICES", SP_MAX_ANSWER_DEVICES, total,
                             "The specs would list %lld devices in all; take the completed model instead of the list.",
                             (long long)total);
    return SP_OK;
}

static void write_place(const struct sp_node *node, struct sp_buf *buf)
{
    char label[SP_MAX_NAME_BYTES + 128];
    sp_buf_clear(buf);
    sp_buf_text(buf, sp_node_label(node, label, sizeof label));
}

/* ---- JSON ----------------------------------------------------------------------------------------------------- */

static enum sp_status write_spec(const struct sp_completion *completion, struct sp_arena *arena, uint32_t id,
                                 uint32_t operand, struct sp_buf *buf, struct sp_json *json, struct sp_error *err)
{
    const struct sp_node *node = completion->dataflow->nodes[id];
    const struct sp_spec_entry *entry = &completion->assignment->nodes[id].operands[operand];
    const struct sp_value *value = sp_completion_value(node, operand);
    struct sp_sharding_spec spec;
    char position[32];
    bool is_input = operand < node->input_count;
    if (value == NULL || entry->sharding == NULL)
        return SP_OK;
    enum sp_status status = sp_completion_spec(completion, arena, value, entry->sharding, &spec, err);
    if (status != SP_OK)
        return status;
    (void)snprintf(position, sizeof position, "%s %u", is_input ? "input" : "output",
                   is_input ? operand : operand - node->input_count);
    sp_json_begin_object(json);
    write_place(node, buf);
    sp_json_member_string(json, "node", buf->data);
    sp_json_member_string(json, "tensor", value->name);
    sp_json_member_string(json, "operand", position);
    sp_json_member_string(json, "origin", origin_name(entry->origin));
    sp_json_member_bool(json, "written", sp_completion_writes(completion, id, operand));
    sp_json_key(json, "spec");
    sp_json_begin_object(json);
    sp_json_key(json, "onnx");
    sp_onnx_spec_write_json(&spec, json);
    if (write_text(completion, arena, value, entry->sharding, buf) != SP_OK)
        return sp_fail_memory(err);
    sp_json_member_string(json, "text", buf->size > 0 ? buf->data : NULL);
    sp_json_end_object(json);
    sp_json_member_string(json, "because", entry->because);
    sp_json_end_object(json);
    return SP_OK;
}

static enum sp_status write_specs(const struct sp_completion *completion, struct sp_buf *buf, struct sp_json *json,
                                  struct sp_error *err)
{
    struct sp_arena *arena = sp_arena_create(sp_arena_budget(completion->arena));
    enum sp_status status = arena != NULL ? SP_OK : sp_fail_memory(err);
    sp_json_begin_array(json);
    for (uint32_t i = 0; status == SP_OK && i < completion->dataflow->node_count; i++) {
        const struct sp_node *node = completion->dataflow->nodes[i];
        struct sp_arena_mark mark = sp_arena_mark(arena);
        uint32_t count = completion->assignment->nodes[i].operands == NULL ? 0 : node->input_count + node->output_count;
        for (uint32_t k = 0; status == SP_OK && k < count; k++)
            status = write_spec(completion, arena, i, k, buf, json, err);
        sp_arena_rewind(arena, mark);
    }
    sp_json_end_array(json);
    sp_arena_destroy(arena);
    return status;
}

static void write_communications(const struct sp_completion *completion, struct sp_buf *buf, struct sp_json *json)
{
    const struct sp_communications *told = sp_completion_communications(completion);
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < told->count; i++) {
        const struct sp_communication *item = &told->items[i];
        sp_json_begin_object(json);
        sp_json_member_string(json, "kind", communication_name(item->kind));
        if (item->node != NULL) /* else it is for a result of the model */
            write_place(item->node, buf);
        sp_json_member_string(json, "node", item->node != NULL ? buf->data : NULL);
        if (item->producer != NULL)
            write_place(item->producer, buf);
        sp_json_member_string(json, "producer", item->producer != NULL ? buf->data : NULL);
        sp_json_member_string(json, "tensor", item->tensor);
        sp_json_member_string(json, "steps", item->steps);
        sp_json_member_int(json, "group_size", item->group_size);
        sp_json_member_double(json, "bytes", item->bytes);
        sp_json_member_double(json, "total_bytes", item->total_bytes);
        sp_json_member_string(json, "because", item->because);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static void write_stops(const struct sp_completion *completion, struct sp_buf *buf, struct sp_json *json)
{
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < completion->assignment->stop_count; i++) {
        const struct sp_stop *stop = &completion->assignment->stops[i];
        sp_json_begin_object(json);
        sp_json_member_string(json, "code", stop->code);
        if (stop->node != NULL)
            write_place(stop->node, buf);
        sp_json_member_string(json, "node", stop->node != NULL ? buf->data : NULL);
        sp_json_member_string(json, "tensor", stop->tensor);
        sp_json_member_string(json, "message", stop->message);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static void write_notes(const struct sp_completion *completion, struct sp_json *json)
{
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < completion->accepted.count; i++) {
        sp_json_begin_object(json);
        sp_json_member_string(json, "code", completion->accepted.notes[i].code);
        sp_json_member_string(json, "message", completion->accepted.notes[i].message);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

enum sp_status sp_completion_json(const struct sp_completion *completion, struct sp_json *json, struct sp_error *err)
{
    struct sp_buf buf;
    enum sp_status status = check_size(completion, err);
    if (status != SP_OK)
        return status;
    sp_buf_init(&buf, SP_MAX_ANSWER_BYTES);
    sp_json_begin_object(json);
    sp_json_member_string(json, "configuration", completion->configuration);
    sp_json_member_string(json, "mode", completion->propagates ? "propagate" : "forward");
    sp_json_member_int(json, "devices", completion->device_count);
    sp_json_member_int(json, "added", (int64_t)completion->added);
    sp_json_key(json, "specs");
    status = write_specs(completion, &buf, json, err);
    if (status == SP_OK) {
        sp_json_key(json, "communication");
        write_communications(completion, &buf, json);
        sp_json_key(json, "stops");
        write_stops(completion, &buf, json);
        sp_json_key(json, "notes");
        write_notes(completion, json);
        sp_json_end_object(json);
    }
    if (status == SP_OK && sp_buf_failed(&buf))
        status = sp_fail_memory(err);
    sp_buf_release(&buf);
    return status;
}

/* ---- text ----------------------------------------------------------------------------------------------------- */

static void count_text(uint64_t count, const char *what, struct sp_buf *buf)
{
    sp_text_integer(buf, count);
    sp_buf_printf(buf, " %s%s", what, count == 1 ? "" : "s");
}

/* Whether every device that has the tensor has all of it. */
static bool is_whole(const struct sp_completion *completion, struct sp_arena *arena, const struct sp_value *value,
                     const struct sp_sharding *sharding)
{
    struct sp_sharding_spec spec;
    struct sp_error ignored = {0};
    return sp_completion_spec(completion, arena, value, sharding, &spec, &ignored) == SP_OK && spec.axis_count == 0;
}

static enum sp_status specs_text(const struct sp_completion *completion, struct sp_buf *scratch, struct sp_buf *buf,
                                 struct sp_error *err)
{
    uint64_t whole = 0;
    struct sp_arena *arena = sp_arena_create(sp_arena_budget(completion->arena));
    enum sp_status status = arena != NULL ? SP_OK : sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && i < completion->dataflow->node_count; i++) {
        const struct sp_node *node = completion->dataflow->nodes[i];
        const struct sp_node_specs *specs = &completion->assignment->nodes[i];
        struct sp_arena_mark mark = sp_arena_mark(arena);
        for (uint32_t k = 0; specs->operands != NULL && k < node->input_count + node->output_count; k++) {
            const struct sp_spec_entry *entry = &specs->operands[k];
            if (!sp_completion_writes(completion, i, k) || entry->origin != SP_SPEC_INFERRED)
                continue;
            if (!completion->lists_all && is_whole(completion, arena, sp_completion_value(node, k), entry->sharding)) {
                whole++;
                continue;
            }
            if (write_text(completion, arena, sp_completion_value(node, k), entry->sharding, scratch) != SP_OK)
                status = sp_fail_memory(err);
            sp_text_cut(buf, sp_completion_value(node, k)->name, TEXT_COLUMNS / 2);
            sp_buf_printf(buf, "  %s\n  ", scratch->size > 0 ? scratch->data : "device lists, see --json");
            sp_text_wrapped(buf, entry->because != NULL ? entry->because : "", 2, TEXT_COLUMNS);
        }
        sp_arena_rewind(arena, mark);
    }
    if (whole > 0) {
        count_text(whole, "more spec", buf);
        sp_buf_text(buf, " of tensors that are whole on their devices (--all lists them)\n");
    }
    sp_arena_destroy(arena);
    return status;
}

enum sp_status sp_completion_text(const struct sp_completion *completion, struct sp_buf *buf, struct sp_error *err)
{
    const struct sp_assignment *assignment = completion->assignment;
    const struct sp_communications *told = sp_completion_communications(completion);
    struct sp_buf scratch;
    enum sp_status status = check_size(completion, err);
    if (status != SP_OK)
        return status;
    sp_buf_init(&scratch, SP_MAX_ANSWER_BYTES);
    status = specs_text(completion, &scratch, buf, err);
    for (uint32_t i = 0; i < told->count; i++) {
        const struct sp_communication *item = &told->items[i];
        sp_buf_printf(buf, "%s: ", item->steps);
        sp_text_bytes(buf, item->bytes);
        sp_buf_text(buf, "\n  ");
        sp_text_wrapped(buf, item->because, 2, TEXT_COLUMNS);
    }
    for (uint32_t i = 0; i < assignment->stop_count && i < TEXT_STOPS; i++) {
        sp_buf_text(buf, "stopped: ");
        sp_text_wrapped(buf, assignment->stops[i].message, 9, TEXT_COLUMNS);
    }
    if (assignment->stop_count > TEXT_STOPS)
        sp_buf_printf(buf, "stopped at %u more places (the JSON form lists them)\n",
                      assignment->stop_count - TEXT_STOPS);
    for (uint32_t i = 0; i < completion->accepted.count; i++) {
        sp_buf_text(buf, "note: ");
        sp_text_wrapped(buf, completion->accepted.notes[i].message, 6, TEXT_COLUMNS);
    }
    count_text(completion->added, "spec", buf);
    sp_buf_text(buf, " added to configuration '");
    sp_text_cut(buf, completion->configuration, TEXT_COLUMNS / 2);
    sp_buf_printf(buf, "' of %lld devices, ", (long long)completion->device_count);
    count_text(told->count, "communication", buf);
    sp_buf_text(buf, "\n");
    sp_buf_release(&scratch);
    if (status == SP_OK && sp_buf_failed(buf))
        status = sp_fail_limit(err, "ANSWER_TOO_LARGE", "SP_MAX_ANSWER_BYTES", SP_MAX_ANSWER_BYTES,
                               (int64_t)SP_MAX_ANSWER_BYTES + 1,
                               "The answer would be larger than %u bytes; ask for JSON.", SP_MAX_ANSWER_BYTES);
    return status;
}
