/* XLA's OpSharding of each value: one JSON object in a line. */
#include "export/internal.h"
#include "sharding/hlo/hlo.h"

static void write_base64(struct sp_export *out, const unsigned char *bytes, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        const size_t left = size - i;
        const uint32_t bits =
            (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) | (left > 2 ? bytes[i + 2] : 0);
        const char group[4] = {digits[bits >> 18], digits[bits >> 12 & 63], left > 1 ? digits[bits >> 6 & 63] : '=',
                               left > 2 ? digits[bits & 63] : '='};
        sp_export_bytes(out, group, sizeof group);
    }
}

/* "input 0" */
static void write_operand(struct sp_export *out, const struct sp_export_value *item)
{
    const struct sp_node *node = item->node;
    sp_export_text(out, ", \"node\": ");
    if (node == NULL) {
        sp_export_text(out, "null, \"operand\": null");
        return;
    }
    sp_export_quoted(out, node->name);
    const bool is_input = item->operand < node->input_count;
    sp_export_printf(out, ", \"operand\": \"%s %u\"", is_input ? "input" : "output",
                     is_input ? item->operand : item->operand - node->input_count);
}

static enum sp_status write_value(struct sp_export *out, const struct sp_export_value *item, void *context,
                                  struct sp_error *err)
{
    struct sp_buf text, bytes;
    struct sp_hlo *hlo;
    struct sp_error why = {0};
    (void)context;
    const struct sp_dialect_context of = {.rank = item->rank, .shape = item->shape, .hlo_version = SP_HLO_AUTO};
    enum sp_status status = sp_hlo_from_sharding(out->scratch, item->sharding, &of, &hlo, NULL, &why);
    if (status == SP_ERR_UNSUPPORTED)
        return sp_export_note(out, why.code, item->node, err, "'%.200s' is left out: %s", item->value->name,
                              why.message);
    sp_buf_init(&text, SP_MAX_ANSWER_BYTES);
    sp_buf_init(&bytes, SP_MAX_ANSWER_BYTES);
    if (status == SP_OK)
        status = sp_hlo_write_proto(out->scratch, hlo, &bytes, &why);
    if (status == SP_OK) {
        sp_hlo_write_text(hlo, false, &text);
        if (sp_buf_failed(&text) || sp_buf_failed(&bytes))
            status = sp_fail_memory(&why);
    }
    if (status == SP_OK) {
        sp_export_text(out, "{\"tensor\": ");
        sp_export_quoted(out, item->value->name);
        write_operand(out, item);
        sp_export_text(out, ", \"text\": ");
        sp_export_quoted(out, text.data);
        sp_export_text(out, ", \"bytes\": \"");
        write_base64(out, (const unsigned char *)bytes.data, bytes.size);
        sp_export_text(out, "\"}\n");
    } else if (err != NULL) {
        *err = why;
    }
    sp_buf_release(&text);
    sp_buf_release(&bytes);
    return status;
}

enum sp_status sp_export_op_sharding(struct sp_export *out, struct sp_error *err)
{
    enum sp_status status = sp_export_note_inner(out, err);
    return status == SP_OK ? sp_export_values(out, write_value, NULL, err) : status;
}
