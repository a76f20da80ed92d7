#include "plan/explain/experts.h"

#include <math.h>

#include "cost/kernels/expert_loads.h"
#include "ops/table/load.h"
#include "ops/table/traffic.h"

#define NOTE_BYTES 1024

/* A layer whose experts lie on several devices. */
struct layer {
    const struct sp_load *load;
    uint32_t node, shards;
    uint32_t *order; /* that balances the shards; NULL: not known */
    double in_model, balanced;
};

/* Of several layers: how many, and the largest. */
struct sums {
    uint32_t count;
    double in_model, balanced;
};

static uint32_t shards_of(const struct sp_sharded_stage *sharded, const struct sp_strategy *strategy, uint8_t factor)
{
    const struct sp_strategy_mesh *mesh = sp_strategy_table_mesh(sharded->table);
    uint32_t shards = 1;
    for (uint32_t a = 0; a < mesh->axis_count; a++)
        shards *= strategy->factor_of[a] == factor ? mesh->size[a] : 1;
    return shards;
}

/* What entry `i` of a stage is; false where it has no experts on several devices, or without memory. Memory is given back
   by the caller. */
static bool read_layer(const struct sp_plan *plan, const struct sp_sharded_stage *sharded, uint32_t i,
                       struct layer *ret)
{
    const struct sp_strategies *strategies = sp_strategy_of(sharded->table, sharded->nodes[i]);
    const struct sp_rule *rule = strategies != NULL ? strategies->rule : NULL;
    if (rule == NULL || rule->drawn == NULL || rule->drawn->load == NULL)
        return false;
    struct layer layer = {.load = rule->drawn->load, .node = sharded->nodes[i]};
    layer.shards = shards_of(sharded, &strategies->items[sharded->strategy_of[i]], rule->drawn->factor);
    if (layer.shards < 2)
        return false;
    layer.order = SP_NEW_ARRAY(plan->arena, layer.load->count, uint32_t);
    if (layer.order == NULL ||
        !sp_load_balance(plan->arena, layer.load->count, layer.load->chances, layer.shards, layer.order))
        return false;
    layer.in_model = sp_load_most_in(layer.load, layer.shards, NULL);
    layer.balanced = sp_load_most_in(layer.load, layer.shards, layer.order);
    *ret = layer;
    return true;
}

static bool is_balanced(const struct sp_plan *plan)
{
    return plan->model->loads != NULL && plan->model->loads->is_balanced;
}

static void write_layer(const struct sp_plan *plan, const struct layer *layer, struct sp_json *json)
{
    sp_json_begin_object(json);
    sp_json_member_string(json, "node", plan->workload->nodes[layer->node].name);
    sp_json_member_int(json, "shards", layer->shards);
    sp_json_member_double(json, "load", is_balanced(plan) ? layer->balanced : layer->in_model);
    sp_json_member_double(json, "model_load", layer->in_model);
    sp_json_member_double(json, "balanced_load", layer->balanced);
    sp_json_key(json, "expert_order");
    sp_json_begin_array(json);
    for (uint32_t e = 0; e < layer->load->count; e++)
        sp_json_int(json, layer->order[e]);
    sp_json_end_array(json);
    sp_json_end_object(json);
}

/* Adds up the layers of a stage, and writes each where `json` is not NULL. */
static void walk(const struct sp_plan *plan, uint32_t stage, struct sums *sums, struct sp_json *json)
{
    const struct sp_sharded_stage *sharded = sp_plan_sharded(plan, stage);
    const struct sp_arena_mark mark = sp_arena_mark(plan->arena);
    for (uint32_t i = 0; sharded != NULL && sharded->table != NULL && i < sharded->node_count; i++) {
        struct layer layer;
        if (!read_layer(plan, sharded, i, &layer))
            continue;
        sums->count++;
        sums->in_model = fmax(sums->in_model, layer.in_model);
        sums->balanced = fmax(sums->balanced, layer.balanced);
        if (json != NULL)
            write_layer(plan, &layer, json);
        sp_arena_rewind(plan->arena, mark);
    }
}

/* The member "experts" of the stages from `first` to before `end`. */
static void write_stages(const struct sp_plan *plan, uint32_t first, uint32_t end, struct sp_json *json)
{
    struct sums sums = {0};
    for (uint32_t s = first; s < end; s++)
        walk(plan, s, &sums, NULL);
    if (sums.count == 0)
        return;
    sp_json_key(json, "experts");
    sp_json_begin_array(json);
    for (uint32_t s = first; s < end; s++)
        walk(plan, s, &sums, json);
    sp_json_end_array(json);
}

void sp_experts_write_json(const struct sp_plan *plan, uint32_t stage, struct sp_json *json)
{
    write_stages(plan, stage, stage + 1, json);
}

void sp_experts_write_manifest(const struct sp_plan *plan, struct sp_json *json)
{
    write_stages(plan, 0, plan->result->evaluation->stage_count, json);
}

void sp_experts_say(const struct sp_plan *plan, uint32_t stage, struct sp_buf *buf)
{
    struct sums sums = {0};
    walk(plan, stage, &sums, NULL);
    if (sums.count > 0)
        sp_buf_printf(buf, "; of %u layer%s of experts the device with most is sent %.2f times the mean", sums.count,
                      sums.count == 1 ? "" : "s", is_balanced(plan) ? sums.balanced : sums.in_model);
}

bool sp_note_experts(const struct sp_plan *plan, struct sp_bindings *bindings)
{
    struct sums sums = {0};
    struct sp_buf text;
    if (plan->model == NULL || plan->model->loads == NULL)
        return true;
    for (uint32_t s = 0; s < plan->result->evaluation->stage_count; s++)
        walk(plan, s, &sums, NULL);
    if (sums.count == 0)
        return true;
    sp_buf_init(&text, NOTE_BYTES);
    if (is_balanced(plan))
        sp_buf_printf(&text,
                      "Times are of a server that places the experts of %u layer%s as 'expert_order' of the plan's "
                      "stages says: the device with most is sent at most %.2f times the mean. ONNX cannot say this "
                      "order. The files of this plan have the experts in the model's order, where it is up to %.2f "
                      "times the mean, and take longer.",
                      sums.count, sums.count == 1 ? "" : "s", sums.balanced, sums.in_model);
    else
        sp_buf_printf(&text,
                      "The experts of %u layer%s lie on devices in the model's order, where the device with most is "
                      "sent up to %.2f times the mean; times are of that. In 'expert_order' of the plan's stages it "
                      "would be at most %.2f times the mean.",
                      sums.count, sums.count == 1 ? "" : "s", sums.in_model, sums.balanced);
    const struct sp_plan_note note = {
        .code = is_balanced(plan) ? "EXPERTS_ORDERED" : "EXPERTS_UNEQUAL",
        .severity = "note",
        .message = sp_buf_failed(&text) ? NULL : sp_arena_string(bindings->arena, text.data, text.size),
        .hint = is_balanced(plan) ? "\"expert_order\": \"model\" of the workload counts what the files do."
                                  : "\"expert_order\": \"balanced\" of the workload counts on a server that places "
                                    "experts by their load, as vLLM and SGLang do with --enable-eplb.",
    };
    sp_buf_release(&text);
    return note.message != NULL && sp_note_add(bindings, &note);
}
