/*
 * The models of a pipeline as a manifest. Stages run one after the other; what one gives is there for all behind it by
 * its name, and of several the last one counts. What is named as an input of the model is that.
 */
#include <inttypes.h>
#include <string.h>

#include "base/limits.h"
#include "import/internal.h"

struct pipeline {
    const struct sp_graph *original;
    uint32_t count;
    const struct sp_genai_stage *stages; /* of the phase */
    json_t *given;                       /* {name: [stage, output]} of those before */
    struct sp_error *err;
};

static bool is_named(struct sp_value *const *values, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(values[i]->name, name) == 0)
            return true;
    }
    return false;
}

/* Takes the reference to `entry`. */
static enum sp_status append(const struct pipeline *all, json_t *list, json_t *entry)
{
    return entry != NULL && json_array_append_new(list, entry) == 0 ? SP_OK : sp_fail_memory(all->err);
}

static enum sp_status add_input(const struct pipeline *all, uint32_t stage, const char *name, json_t *inputs)
{
    const json_t *from = json_object_get(all->given, name);
    if (from != NULL)
        return append(all, inputs,
                      json_pack("{s:s, s:s, s:O, s:i, s:O, s:n}", "name", name, "from", "device", "device",
                                json_array_get(from, 0), "part", 0, "output", json_array_get(from, 1), "box"));
    if (is_named(all->original->inputs, all->original->input_count, name))
        return append(all, inputs,
                      json_pack("{s:s, s:s, s:s, s:n}", "name", name, "from", "input", "tensor", name, "box"));
    for (uint32_t i = stage; i < all->count; i++) {
        for (size_t k = 0; k < json_array_size(all->stages[i].outputs); k++) {
            if (strcmp(
                    sp_genai_forwarded(&all->stages[i], json_string_value(json_array_get(all->stages[i].outputs, k))),
                    name) == 0)
                return sp_fail(all->err, SP_ERR_REQUEST, "PLACEMENT_FILE",
                               "The stage '%.80s' takes '%.200s', which the stage '%.80s' gives: that runs no earlier.",
                               all->stages[stage].name, name, all->stages[i].name);
        }
    }
    return sp_fail(all->err, SP_ERR_REQUEST, "PLACEMENT_FILE",
                   "The stage '%.80s' takes '%.200s', which is no input of the model and which no stage gives.",
                   all->stages[stage].name, name);
}

static enum sp_status add_output(struct pipeline *all, uint32_t stage, const char *name, json_t *outputs)
{
    json_t *given = json_pack("[i, s]", (int)stage, name);
    if (given == NULL || json_object_set_new(all->given, sp_genai_forwarded(&all->stages[stage], name), given) != 0)
        return sp_fail_memory(all->err);
    if (!is_named(all->original->outputs, all->original->output_count, name))
        return append(all, outputs, json_pack("{s:s, s:s}", "name", name, "to", "devices"));
    return append(all, outputs, json_pack("{s:s, s:s, s:s, s:n}", "name", name, "to", "output", "tensor", name, "box"));
}

static enum sp_status add_stage(struct pipeline *all, uint32_t number, json_t *devices)
{
    const struct sp_genai_stage *stage = &all->stages[number];
    json_t *inputs = json_array(), *outputs = json_array();
    enum sp_status status = inputs != NULL && outputs != NULL ? SP_OK : sp_fail_memory(all->err);
    for (size_t i = 0; status == SP_OK && i < json_array_size(stage->inputs); i++)
        status = add_input(all, number, json_string_value(json_array_get(stage->inputs, i)), inputs);
    for (size_t i = 0; status == SP_OK && i < json_array_size(stage->outputs); i++)
        status = add_output(all, number, json_string_value(json_array_get(stage->outputs, i)), outputs);
    if (status == SP_OK)
        status = append(all, devices,
                        json_pack("{s:i, s:i, s:i, s:[{s:i, s:s, s:O, s:O}]}", "id", (int)number, "world", (int)number,
                                  "rank", 0, "parts", "part", 0, "model", stage->file, "inputs", inputs, "outputs",
                                  outputs));
    json_decref(inputs);
    json_decref(outputs);
    return status;
}

/* The stages of the phase, at the beginning of `stages`. */
static enum sp_status choose(struct sp_genai_stage *stages, uint32_t *count, enum sp_import_phase phase,
                             struct sp_error *err)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *count; i++) {
        const struct sp_genai_stage stage = stages[i];
        if (phase == SP_PHASE_ANY && stage.on_prompt != stage.on_token)
            return sp_fail(err, SP_ERR_REQUEST, "PLACEMENT_FILE",
                           "The stage '%.80s' runs for %s only, so that there are two pipelines: choose the "
                           "phase, prompt or token.",
                           stage.name, stage.on_prompt ? "prompts" : "tokens");
        if (phase == SP_PHASE_TOKEN ? stage.on_token : stage.on_prompt)
            stages[kept++] = stage;
    }
    *count = kept;
    return kept > 0 ? SP_OK
                    : sp_fail(err, SP_ERR_REQUEST, "PLACEMENT_FILE", "No stage of the pipeline runs in that phase.");
}

enum sp_status sp_import_stages(const json_t *config, const struct sp_model *original, enum sp_import_phase phase,
                                json_t **ret_manifest, struct sp_error *err)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_members_reader reader = {arena, err};
    struct pipeline all = {.original = original->graph, .given = json_object(), .err = err};
    struct sp_genai_stage *stages = NULL;
    json_t *devices = json_array();
    enum sp_status status = arena != NULL && all.given != NULL && devices != NULL ? SP_OK : sp_fail_memory(err);
    if (status == SP_OK)
        status = sp_genai_stages(&reader, config, &all.count, &stages);
    if (status == SP_OK)
        status = choose(stages, &all.count, phase, err);
    all.stages = stages;
    for (uint32_t i = 0; status == SP_OK && i < all.count; i++)
        status = add_stage(&all, i, devices);
    json_t *manifest = status == SP_OK ? json_pack("{s:O}", "devices", devices) : NULL;
    if (status == SP_OK && manifest == NULL)
        status = sp_fail_memory(err);
    if (status == SP_OK)
        *ret_manifest = manifest;
    json_decref(devices);
    json_decref(all.given);
    sp_arena_destroy(arena);
    return status;
}
