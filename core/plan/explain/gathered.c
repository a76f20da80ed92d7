#include "plan/explain/gathered.h"

#include <math.h>

#include "plan/answer/readable_text.h"

#define NOTE_BYTES 1024

/* Of one stage, or of several together. */
struct sums {
    uint32_t count;
    double bytes;           /* that one device gets for each request */
    double buffer_bytes;    /* on a device, at most */
    double seconds, waited; /* of gathering; of these, not beside computing */
};

static const struct sp_strategy *gathering(const struct sp_sharded_stage *sharded, uint32_t i)
{
    const struct sp_strategy *strategy =
        &sp_strategy_of(sharded->table, sharded->nodes[i])->items[sharded->strategy_of[i]];
    return strategy->gathered != SP_STRATEGY_NO_FACTOR ? strategy : NULL;
}

/* The weight that a node of the stage gathers. */
static uint32_t weight_of(const struct sp_plan *plan, uint32_t node, const struct sp_strategy *strategy)
{
    return plan->workload->nodes[node].node->inputs[strategy->gathered]->id;
}

static void add(const struct sp_plan *plan, uint32_t stage, struct sums *sums)
{
    const struct sp_sharded_stage *sharded = sp_plan_sharded(plan, stage);
    for (uint32_t i = 0; sharded != NULL && i < sharded->node_count; i++) {
        const struct sp_strategy *strategy = gathering(sharded, i);
        if (strategy == NULL)
            continue;
        const double held = sp_strategy_local_bytes(sharded->table, weight_of(plan, sharded->nodes[i], strategy),
                                                    strategy->layouts[strategy->gathered]);
        sums->count++;
        sums->bytes += strategy->gather_bytes;
        sums->buffer_bytes = fmax(sums->buffer_bytes, 2 * held);
        sums->seconds += strategy->gather_seconds;
        sums->waited += sp_strategy_waits(strategy);
    }
}

static void write_members(const struct sp_plan *plan, uint32_t stage, const struct sums *sums, struct sp_json *json)
{
    const struct sp_sharded_stage *sharded = sp_plan_sharded(plan, stage);
    const double runs = sp_plan_runs(plan);
    sp_json_member_double(json, "bytes", runs * sums->bytes);
    sp_json_member_double(json, "buffer_bytes", sums->buffer_bytes);
    sp_json_member_double(json, "seconds", runs * sums->seconds);
    sp_json_member_double(json, "waiting_seconds", runs * sums->waited);
    sp_json_key(json, "tensors");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < sharded->node_count; i++) {
        const struct sp_strategy *strategy = gathering(sharded, i);
        if (strategy == NULL)
            continue;
        const uint32_t node = sharded->nodes[i], tensor = weight_of(plan, node, strategy);
        sp_json_begin_object(json);
        sp_json_member_string(json, "name", plan->workload->tensors[tensor].name);
        sp_json_member_string(json, "node", plan->workload->nodes[node].name);
        sp_json_member_int(json, "axis", strategy->gathered_axis);
        sp_json_member_int(json, "shards", sp_strategy_joins(sharded->table, strategy));
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

void sp_gathered_write_json(const struct sp_plan *plan, uint32_t stage, struct sp_json *json)
{
    struct sums sums = {0};
    add(plan, stage, &sums);
    if (sums.count == 0)
        return;
    sp_json_key(json, "gathered");
    sp_json_begin_object(json);
    write_members(plan, stage, &sums, json);
    sp_json_end_object(json);
}

static struct sums sums_of(const struct sp_plan *plan)
{
    struct sums sums = {0};
    for (uint32_t s = 0; s < plan->result->evaluation->stage_count; s++)
        add(plan, s, &sums);
    return sums;
}

void sp_gathered_write_manifest(const struct sp_plan *plan, int64_t count, const uint32_t *devices,
                                struct sp_json *json)
{
    const struct sp_arena_mark mark = sp_arena_mark(plan->arena);
    const uint32_t *stages = sums_of(plan).count > 0 ? sp_plan_device_stages(plan) : NULL;
    if (stages == NULL)
        return;
    sp_json_key(json, "gathered");
    sp_json_begin_array(json);
    for (uint32_t s = 0; s < plan->result->evaluation->stage_count; s++) {
        struct sums sums = {0};
        add(plan, s, &sums);
        if (sums.count == 0)
            continue;
        sp_json_begin_object(json);
        sp_json_key(json, "devices");
        sp_json_begin_array(json);
        for (int64_t i = 0; i < count; i++)
            if (stages[devices[i]] == s)
                sp_json_int(json, i);
        sp_json_end_array(json);
        write_members(plan, s, &sums, json);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
    sp_arena_rewind(plan->arena, mark);
}

void sp_gathered_say(const struct sp_plan *plan, uint32_t stage, struct sp_buf *buf)
{
    struct sums sums = {0};
    add(plan, stage, &sums);
    if (sums.count == 0)
        return;
    sp_buf_text(buf, "; ");
    sp_text_bytes(buf, sp_plan_runs(plan) * sums.bytes);
    sp_buf_text(buf, " of its weights are gathered on each device for each request, in ");
    sp_text_seconds(buf, sp_plan_runs(plan) * sums.seconds);
    sp_buf_text(buf, " beside computing");
}

bool sp_note_gathered(const struct sp_plan *plan, struct sp_bindings *bindings)
{
    const struct sums sums = sums_of(plan);
    struct sp_buf text;
    if (sums.count == 0)
        return true;
    sp_buf_init(&text, NOTE_BYTES);
    sp_buf_printf(&text, "%u weight%s kept in shards and gathered for each request: ", sums.count,
                  sums.count == 1 ? " is" : "s are");
    sp_text_bytes(&text, sp_plan_runs(plan) * sums.bytes);
    sp_buf_text(&text, " on each device. The plan counts on a runtime that does so while it computes, which ONNX "
                       "cannot say: the devices' models gather each just before it is read.");
    const struct sp_plan_note note = {
        .code = "WEIGHTS_GATHERED",
        .severity = "note",
        .message = sp_buf_failed(&text) ? NULL : sp_arena_string(bindings->arena, text.data, text.size),
        .hint = "Which weights: 'gathered' of the plan's stages, and of the manifest of the devices' models.",
    };
    sp_buf_release(&text);
    return note.message != NULL && sp_note_add(bindings, &note);
}
