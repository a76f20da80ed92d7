#include "plan/explain/streamed.h"

#include "plan/answer/readable_text.h"

#define NOTE_BYTES 1024

/* The names of the weights that a node alone uses. */
static void write_weights(const struct sp_workload *workload, const uint32_t *users, uint32_t node,
                          struct sp_json *json)
{
    const struct sp_work_node *work = &workload->nodes[node];
    for (uint32_t i = 0; i < work->input_count; i++) {
        const uint32_t root = sp_work_root(workload, work->inputs[i]);
        if (workload->tensors[root].kind == SP_WORK_WEIGHT && users[root] == 1)
            sp_json_string(json, workload->tensors[root].name);
    }
}

static void write_members(const struct sp_plan *plan, const uint32_t *users, uint32_t stage, struct sp_json *json)
{
    const struct sp_stage_cost *cost = &plan->result->evaluation->stages[stage];
    sp_json_member_double(json, "bytes", cost->streamed_bytes);
    sp_json_member_double(json, "buffer_bytes", cost->stream_buffer_bytes);
    sp_json_member_double(json, "seconds", cost->stream_seconds);
    sp_json_key(json, "nodes");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < cost->streamed_count; i++)
        sp_json_string(json, plan->workload->nodes[cost->streamed_nodes[i]].name);
    sp_json_end_array(json);
    sp_json_key(json, "tensors");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < cost->streamed_count; i++)
        write_weights(plan->workload, users, cost->streamed_nodes[i], json);
    sp_json_end_array(json);
}

static const uint32_t *users_of(const struct sp_plan *plan, struct sp_json *json)
{
    const uint32_t *users = sp_work_users(plan->arena, plan->workload);
    if (users == NULL)
        json->failed = true;
    return users;
}

void sp_streamed_write_json(const struct sp_plan *plan, uint32_t stage, struct sp_json *json)
{
    const struct sp_stage_cost *cost = &plan->result->evaluation->stages[stage];
    const struct sp_arena_mark mark = sp_arena_mark(plan->arena);
    const uint32_t *users = sp_plan_streams(plan, stage) ? users_of(plan, json) : NULL;
    if (users != NULL) {
        sp_json_key(json, "streamed");
        sp_json_begin_object(json);
        write_members(plan, users, stage, json);
        sp_json_member_double(json, "waiting_seconds", cost->stall_seconds);
        sp_json_member_double(json, "host_seconds", cost->shared_seconds);
        sp_json_end_object(json);
    }
    sp_arena_rewind(plan->arena, mark);
}

static bool streams_any(const struct sp_plan *plan)
{
    bool any = false;
    for (uint32_t s = 0; s < plan->result->evaluation->stage_count; s++)
        any = any || sp_plan_streams(plan, s);
    return any;
}

void sp_streamed_write_manifest(const struct sp_plan *plan, int64_t count, const uint32_t *devices,
                                struct sp_json *json)
{
    const struct sp_arena_mark mark = sp_arena_mark(plan->arena);
    const uint32_t *users = streams_any(plan) ? users_of(plan, json) : NULL;
    const uint32_t *stages = users != NULL ? sp_plan_device_stages(plan) : NULL;
    json->failed = json->failed || (users != NULL && stages == NULL);
    if (stages != NULL) {
        sp_json_key(json, "streamed");
        sp_json_begin_array(json);
        for (int64_t i = 0; i < count; i++) {
            const uint32_t stage = stages[devices[i]];
            if (!sp_plan_streams(plan, stage))
                continue;
            sp_json_begin_object(json);
            sp_json_member_int(json, "device", i);
            write_members(plan, users, stage, json);
            sp_json_end_object(json);
        }
        sp_json_end_array(json);
    }
    sp_arena_rewind(plan->arena, mark);
}

void sp_streamed_say(const struct sp_plan *plan, uint32_t stage, struct sp_buf *buf)
{
    const struct sp_stage_cost *cost = &plan->result->evaluation->stages[stage];
    if (!sp_plan_streams(plan, stage))
        return;
    sp_buf_text(buf, "; ");
    sp_text_bytes(buf, cost->streamed_bytes);
    sp_buf_text(buf, " of its weights stay in host memory and are copied for each request, in ");
    sp_text_seconds(buf, cost->stream_seconds);
}

bool sp_note_streamed(const struct sp_plan *plan, struct sp_bindings *bindings)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    double bytes = 0;
    struct sp_buf text;
    if (!streams_any(plan))
        return true;
    for (uint32_t s = 0; s < evaluation->stage_count; s++)
        bytes += evaluation->stages[s].streamed_bytes * sp_plan_stage_devices(plan, s);
    sp_buf_init(&text, NOTE_BYTES);
    sp_buf_text(&text, "The devices lack memory: ");
    sp_text_bytes(&text, bytes);
    sp_buf_text(&text, " of weights stay in host memory and are copied to them for each request. ONNX cannot say so: a "
                       "runtime has to do it.");
    const struct sp_plan_note note = {
        .code = "WEIGHTS_STREAMED",
        .severity = "note",
        .message = sp_buf_failed(&text) ? NULL : sp_arena_string(bindings->arena, text.data, text.size),
        .hint = "Which weights: 'streamed' of the plan's stages, and of the manifest of the devices' models.",
    };
    sp_buf_release(&text);
    return note.message != NULL && sp_note_add(bindings, &note);
}
