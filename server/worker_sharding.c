#include "plan/convert.h"
#include "worker.h"

static enum sp_status load(const char *body, size_t size, json_t **ret_request, struct sp_error *err)
{
    json_error_t error;
    *ret_request = json_loadb(body, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (*ret_request != NULL)
        return SP_OK;
    if (json_error_code(&error) == json_error_out_of_memory)
        return sp_fail_memory(err);
    return sp_fail(err, SP_ERR_MALFORMED, "MALFORMED_JSON", "The body is not JSON (line %d, column %d): %s.",
                   error.line, error.column, error.text);
}

static enum sp_status write_text(bool is_reshard, struct sp_arena *arena, const json_t *request, struct output *output,
                                 struct sp_error *err)
{
    struct sp_buf buf;
    sp_buf_init(&buf, SP_MAX_ANSWER_BYTES);
    enum sp_status status =
        is_reshard ? sp_reshard_text(arena, request, &buf, err) : sp_convert_text(arena, request, &buf, err);
    if (status == SP_OK)
        (void)output_write(output, buf.data != NULL ? buf.data : "", buf.size);
    sp_buf_release(&buf);
    return status;
}

static enum sp_status write_json(bool is_reshard, struct sp_arena *arena, const json_t *request, struct output *output,
                                 struct sp_error *err)
{
    struct sp_json json;
    sp_json_init(&json, false, output_write, output);
    enum sp_status status =
        is_reshard ? sp_reshard_json(arena, request, &json, err) : sp_convert_json(arena, request, &json, err);
    return status == SP_OK ? sp_json_finish(&json, err) : status;
}

enum sp_status worker_sharding(bool is_reshard, bool text, const char *body, size_t size, size_t memory,
                               struct output *output, struct sp_error *err)
{
    struct sp_budget budget = {.limit = memory};
    struct sp_arena *arena = sp_arena_create(&budget);
    json_t *request = NULL;
    enum sp_status status = arena != NULL ? load(body, size, &request, err) : sp_fail_memory(err);
    if (status == SP_OK)
        status = text ? write_text(is_reshard, arena, request, output, err)
                      : write_json(is_reshard, arena, request, output, err);
    json_decref(request);
    sp_arena_destroy(arena);
    return status;
}
