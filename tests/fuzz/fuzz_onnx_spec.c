/*
 * ShardingSpecProto: JSON when the input begins with '{', else bytes. Properties: an error says what and where; a
 * record comes out of JSON and bytes as it went in; a sharding is written and read again as the same.
 */
#include "../unit/support/spec_bytes.h"
#include "dialect_checks.h"
#include "onnx/writer.h"

static struct sp_buf json_of(const struct sp_sharding_spec *spec)
{
    struct sp_buf buf;
    struct sp_json json;
    sp_buf_init(&buf, DIALECT_MAX_TEXT);
    sp_json_init_buf(&json, false, &buf);
    sp_onnx_spec_write_json(spec, &json);
    dialect_check(sp_json_finish(&json, NULL) == SP_OK, "no JSON", NULL);
    return buf;
}

static void check_record(struct sp_arena *arena, struct sp_sharding_spec *spec)
{
    if (spec->tensor_name != NULL && spec->tensor_name[0] == '\0')
        spec->tensor_name = NULL; /* the bytes do not tell them apart once they are read */
    struct sp_buf first = json_of(spec), bytes, second = {0};
    struct sp_sharding_spec again;
    struct sp_error err = {0};
    sp_buf_init(&bytes, DIALECT_MAX_TEXT);
    enum sp_status status = sp_encode_sharding_spec(spec, arena, &bytes, &err);
    if (status == SP_OK)
        status = spec_read_bytes(arena, bytes.data, bytes.size, &again, &err);
    dialect_check(status == SP_OK || dialect_gave_up(status), "its bytes are refused", &err);
    if (status == SP_OK) {
        second = json_of(&again);
        dialect_check(first.size == second.size && memcmp(first.data, second.data, first.size) == 0,
                      "its bytes say something else", NULL);
        sp_buf_release(&second);
        status = sp_onnx_spec_read_json(arena, first.data, first.size, &again, &err);
        dialect_check(status == SP_OK || dialect_gave_up(status), first.data, &err);
    }
    if (status == SP_OK) {
        second = json_of(&again);
        dialect_check(first.size == second.size && memcmp(first.data, second.data, first.size) == 0, first.data, NULL);
        sp_buf_release(&second);
    }
    sp_buf_release(&bytes);
    sp_buf_release(&first);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct sp_budget budget = {.limit = (size_t)256 << 20};
    struct sp_arena *arena = sp_arena_create(&budget);
    struct sp_sharding_spec spec;
    struct sp_error err = {0};
    if (arena == NULL)
        return 0;
    enum sp_status status = size > 0 && bytes[0] == '{'
                                ? sp_onnx_spec_read_json(arena, (const char *)bytes, size, &spec, &err)
                                : spec_read_bytes(arena, bytes, size, &spec, &err);
    if (status == SP_OK)
        check_record(arena, &spec);
    else
        dialect_check_error(status, &err);
    for (int i = 0; status == SP_OK && i < DIALECT_CONTEXTS; i++) {
        struct sp_dialect_context context = dialect_context(i);
        struct sp_losses losses = {0};
        struct sp_sharding *sharding;
        struct sp_error why = {0};
        enum sp_status meaning = sp_onnx_spec_to_sharding(arena, &spec, &context, &sharding, &losses, &why);
        if (meaning == SP_OK) {
            dialect_check_written(arena, SP_DIALECT_ONNX, sharding, &context, true);
            dialect_check_sharding(arena, sharding, &context);
        } else {
            dialect_check_error(meaning, &why);
        }
    }
    sp_arena_destroy(arena);
    return 0;
}
