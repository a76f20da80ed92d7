#include "plan/convert/convert.h"
#include "worker/internal.h"

static enum sp_status write_text(bool is_reshard, struct sp_arena *arena, const json_t *request, struct output *output,
                                 struct sp_error *err)
{
    struct sp_buf buf;
    sp_buf_init(&buf, SP_MAX_ANSWER_BYTES);
    enum sp_status status =
        is_reshard ? sp_reshard_text(arena, request, &buf, err) : sp_convert_text(arena, request, &buf, err);
    return work_write_text(output, &buf, status, err);
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

static enum sp_status answer(bool is_reshard, const struct work *work, const json_t *request, struct output *output,
                             struct sp_error *err)
{
    struct sp_budget budget = {.limit = work->memory};
    struct sp_arena *arena = sp_arena_create(&budget);
    enum sp_status status = arena == NULL             ? sp_fail_memory(err)
                            : work->form == WORK_TEXT ? write_text(is_reshard, arena, request, output, err)
                                                      : write_json(is_reshard, arena, request, output, err);
    sp_arena_destroy(arena);
    return status;
}

enum sp_status work_convert(struct work *work, const json_t *request, struct output *output, struct sp_error *err)
{
    return answer(false, work, request, output, err);
}

enum sp_status work_reshard(struct work *work, const json_t *request, struct output *output, struct sp_error *err)
{
    return answer(true, work, request, output, err);
}
