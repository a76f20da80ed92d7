/*
 * genai_config.json of onnxruntime-genai, with the devices' models as the stages of decoder.pipeline:
 *
 *   {"model": {"type": "decoder-pipeline", "decoder": {"num_hidden_layers": 2, .., "inputs": {"input_ids": "input_ids",
 *    "past_key_names": "past_key_values.%d.key", ..}, "outputs": {..},
 *    "pipeline": [{"device-0": {"filename": "device-0.onnx", "inputs": [..], "outputs": [..],
 *                               "session_options": {"provider_options": [{"cuda": {"device_id": "0"}}]}}, ..}]}}}
 *
 * Stages run one after the other, and hand on what they make by name: so a device has one model, and takes nothing that a
 * later one makes. There is no tensor parallelism. Of what GenAI wants besides (context_length, ids of tokens, search) a
 * graph says nothing: it is in the config that came with the model, which these members go into.
 *
 * Source: onnxruntime-genai, src/config.cpp (unknown members are errors there) and src/models/decoder_only_pipeline.cpp.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/limits.h"
#include "export/servers/repository.h"
#include "graph/states.h"

#define MAX_PATTERN 256

struct genai {
    struct sp_arena *arena;
    const struct sp_subject *subject;
    const struct sp_device_plan *plan;
    int64_t *order; /* devices, each behind those that it takes something from */
    int64_t stages;
    struct sp_error *err;
};

/* ---- the stages ------------------------------------------------------------------------------------------------- */

static bool is_ready(const struct genai *all, const bool *is_done, int64_t device)
{
    const uint32_t count = sp_device_plan_port_count(all->plan, device, 0, false);
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_model_port port = sp_device_plan_port(all->plan, device, 0, false, i, all->arena);
        if (port.tensor == NULL && !is_done[port.device])
            return false;
    }
    return true;
}

static enum sp_status order_stages(struct genai *all)
{
    const int64_t count = all->subject->device_count;
    bool *is_done = SP_NEW_ARRAY(all->arena, (size_t)count, bool);
    all->order = SP_NEW_ARRAY(all->arena, (size_t)count, int64_t);
    if (is_done == NULL || all->order == NULL)
        return sp_fail_memory(all->err);
    for (int64_t d = 0; d < count; d++) {
        if (sp_device_plan_parts(all->plan, d) > 1)
            return sp_fail(all->err, SP_ERR_UNSUPPORTED, "STAGES_NOT_IN_A_ROW",
                           "GenAI runs the stages of a pipeline one after the other, and device %" PRId64
                           " runs a part of "
                           "the model, waits for another device, and runs on: plan with --strategy pipeline.",
                           d);
        is_done[d] = sp_device_plan_parts(all->plan, d) == 0;
    }
    for (bool is_any = true; is_any;) {
        is_any = false;
        for (int64_t d = 0; d < count; d++) {
            if (is_done[d] || !is_ready(all, is_done, d))
                continue;
            is_done[d] = is_any = true;
            if (sp_device_plan_has(all->plan, d, 0))
                all->order[all->stages++] = d;
        }
    }
    return SP_OK;
}

static void put_names(const struct genai *all, int64_t device, bool is_output, struct sp_json *json)
{
    const uint32_t count = sp_device_plan_port_count(all->plan, device, 0, is_output);
    sp_json_key(json, is_output ? "outputs" : "inputs");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < count; i++)
        sp_json_string(json, sp_device_plan_port(all->plan, device, 0, is_output, i, all->arena).name);
    sp_json_end_array(json);
}

static void put_session(const struct genai *all, int64_t device, struct sp_json *json)
{
    const char *const *names = all->subject->device_names;
    char text[24];
    sp_json_key(json, "session_options");
    sp_json_begin_object(json);
    sp_json_key(json, "provider_options");
    sp_json_begin_array(json);
    if (names == NULL || strncasecmp(names[device], "cpu", 3) != 0) {
        (void)snprintf(text, sizeof text, "%" PRId64, device);
        sp_json_begin_object(json);
        sp_json_key(json, "cuda");
        sp_json_begin_object(json);
        sp_json_member_string(json, "device_id", text);
        sp_json_end_object(json);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
    sp_json_end_object(json);
}

static void put_pipeline(const struct genai *all, struct sp_json *json)
{
    char name[SP_DEVICE_MODEL_NAME_SIZE];
    sp_json_key(json, "pipeline");
    sp_json_begin_array(json);
    sp_json_begin_object(json);
    for (int64_t i = 0; i < all->stages; i++) {
        (void)snprintf(name, sizeof name, "device-%" PRId64, all->order[i]);
        sp_json_key(json, name);
        sp_json_begin_object(json);
        sp_json_member_string(json, "filename", sp_device_plan_model(NULL, all->order[i], 0, name));
        put_names(all, all->order[i], false, json);
        put_names(all, all->order[i], true, json);
        put_session(all, all->order[i], json);
        sp_json_end_object(json);
    }
    sp_json_end_object(json);
    sp_json_end_array(json);
}

/* ---- what GenAI manages itself ---------------------------------------------------------------------------------- */

static bool has_name(uint32_t count, struct sp_value *const *values, const char *name)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(values[i]->name, name) == 0)
            return true;
    }
    return false;
}

/* "past_key_values.%d.key" of "past_key_values.0.key": the first number as GenAI counts layers. */
static bool pattern_of(const char *name, char *text, size_t size, long *ret_layer)
{
    const size_t head = strcspn(name, "0123456789"), digits = strspn(name + head, "0123456789");
    if (digits == 0 || digits > 6 || strchr(name, '%') != NULL)
        return false;
    *ret_layer = strtol(name + head, NULL, 10);
    const int length = snprintf(text, size, "%.*s%%d%s", (int)head, name, name + head + digits);
    return length > 0 && (size_t)length < size;
}

struct caches {
    char past[2][MAX_PATTERN], present[2][MAX_PATTERN]; /* of keys, of values */
    long layers;
    int64_t heads, head_size; /* -1: not known */
};

static bool find_caches(const struct sp_states *states, struct caches *caches)
{
    *caches = (struct caches){.heads = -1, .head_size = -1};
    for (uint32_t i = 0; i < states->count; i++) {
        const struct sp_state *state = &states->items[i];
        const struct sp_shape *shape = &state->past->type.shape;
        const size_t length = strlen(state->past->name);
        const bool is_value = length >= 5 && strcmp(state->past->name + length - 5, "value") == 0;
        char past[MAX_PATTERN], present[MAX_PATTERN];
        long layer, other;
        if (!pattern_of(state->past->name, past, sizeof past, &layer) ||
            !pattern_of(state->present->name, present, sizeof present, &other) || other != layer)
            return false;
        if (caches->past[is_value][0] != '\0' && strcmp(caches->past[is_value], past) != 0)
            return false;
        memcpy(caches->past[is_value], past, sizeof past);
        memcpy(caches->present[is_value], present, sizeof present);
        caches->layers = layer + 1 > caches->layers ? layer + 1 : caches->layers;
        if (shape->has_rank && shape->rank == 4 && sp_dim_is_known(shape->dims[1]) && sp_dim_is_known(shape->dims[3])) {
            caches->heads = shape->dims[1].value;
            caches->head_size = shape->dims[3].value;
        }
    }
    return states->count > 0;
}

static void put_managed(const struct sp_graph *graph, const struct caches *caches, struct sp_json *json)
{
    static const char *const inputs[] = {"input_ids", "attention_mask", "position_ids"};
    sp_json_key(json, "inputs");
    sp_json_begin_object(json);
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        if (has_name(graph->input_count, graph->inputs, inputs[i]))
            sp_json_member_string(json, inputs[i], inputs[i]);
    }
    if (caches->past[0][0] != '\0')
        sp_json_member_string(json, "past_key_names", caches->past[0]);
    if (caches->past[1][0] != '\0')
        sp_json_member_string(json, "past_value_names", caches->past[1]);
    sp_json_end_object(json);
    sp_json_key(json, "outputs");
    sp_json_begin_object(json);
    sp_json_member_string(json, "logits", "logits");
    if (caches->present[0][0] != '\0')
        sp_json_member_string(json, "present_key_names", caches->present[0]);
    if (caches->present[1][0] != '\0')
        sp_json_member_string(json, "present_value_names", caches->present[1]);
    sp_json_end_object(json);
}

static enum sp_status write_config(const struct genai *all, const struct caches *caches, struct sp_buf *buf)
{
    struct sp_json json;
    sp_json_init_buf(&json, true, buf);
    sp_json_begin_object(&json);
    sp_json_key(&json, "model");
    sp_json_begin_object(&json);
    sp_json_member_string(&json, "type", "decoder-pipeline");
    sp_json_key(&json, "decoder");
    sp_json_begin_object(&json);
    if (caches->layers > 0)
        sp_json_member_int(&json, "num_hidden_layers", caches->layers);
    if (caches->heads > 0) {
        sp_json_member_int(&json, "num_key_value_heads", caches->heads);
        sp_json_member_int(&json, "head_size", caches->head_size);
    }
    put_managed(all->subject->model->graph, caches, &json);
    put_pipeline(all, &json);
    sp_json_end_object(&json);
    sp_json_end_object(&json);
    sp_json_end_object(&json);
    sp_buf_text(buf, "\n");
    return sp_json_finish(&json, all->err);
}

enum sp_status sp_genai_files(struct sp_arena *arena, const struct sp_subject *subject,
                              const struct sp_device_plan *plan, uint32_t *ret_count,
                              struct sp_repository_file **ret_files, struct sp_error *err)
{
    struct genai all = {.arena = arena, .subject = subject, .plan = plan, .err = err};
    const struct sp_graph *graph = subject->model->graph;
    struct sp_states states = {0};
    struct caches caches;
    struct sp_buf text;
    if (!has_name(graph->input_count, graph->inputs, "input_ids") ||
        !has_name(graph->output_count, graph->outputs, "logits"))
        return sp_fail(
            err, SP_ERR_UNSUPPORTED, "NOT_A_DECODER",
            "GenAI runs decoders of language models: the model has no input 'input_ids', or no output 'logits'.");
    enum sp_status status = sp_model_states(arena, subject->model, &states, err);
    if (status == SP_OK)
        status = order_stages(&all);
    if (status != SP_OK)
        return status;
    if (states.count > 0 && !find_caches(&states, &caches))
        return sp_fail(
            err, SP_ERR_UNSUPPORTED, "NOT_A_DECODER",
            "GenAI knows the caches of all layers by one name of keys and one of values with a number in it, and "
            "those of the model have others: '%.200s'.",
            states.items[0].past->name);
    if (states.count == 0)
        caches = (struct caches){.heads = -1};
    struct sp_repository_file *files = SP_NEW_ARRAY(arena, (size_t)all.stages + 1, struct sp_repository_file);
    if (files == NULL)
        return sp_fail_memory(err);
    sp_buf_init(&text, SP_MAX_EXPORT_BYTES);
    status = write_config(&all, &caches, &text);
    if (status == SP_OK && !sp_buf_failed(&text))
        files[0] = (struct sp_repository_file){.path = "genai_config.json",
                                               .text = sp_arena_string(arena, text.data, text.size)};
    sp_buf_release(&text);
    for (int64_t i = 0; status == SP_OK && i < all.stages; i++) {
        char name[SP_DEVICE_MODEL_NAME_SIZE];
        files[i + 1] = (struct sp_repository_file){
            .path = sp_arena_printf(arena, "%s", sp_device_plan_model(NULL, all.order[i], 0, name)),
            .is_model = true,
            .device = all.order[i]};
        status = files[i + 1].path != NULL ? SP_OK : sp_fail_memory(err);
    }
    if (status == SP_OK && files[0].text == NULL)
        return sp_fail_memory(err);
    *ret_count = (uint32_t)all.stages + 1;
    *ret_files = files;
    return status;
}
