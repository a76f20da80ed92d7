/*
 * The pipeline of a genai_config.json: stages in their order, each with the names of what it takes and gives. Of a whole
 * model, a stage is what its outputs need that its inputs do not give. Members of a stage that GenAI does not know are
 * errors, as they are there.
 */
#include <inttypes.h>
#include <string.h>

#include "base/limits.h"
#include "import/internal.h"

#define PIPELINE "/model/decoder/pipeline"

static const json_t *pipeline_of(const json_t *config)
{
    return json_object_get(json_object_get(json_object_get(config, "model"), "decoder"), "pipeline");
}

bool sp_import_is_pipeline(const json_t *config)
{
    return pipeline_of(config) != NULL;
}

/* ---- stages ----------------------------------------------------------------------------------------------------- */

static enum sp_status read_names(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                 const char *member, const json_t **ret_names)
{
    const json_t *names = json_object_get(json, member);
    const char *where = sp_members_child(reader, pointer, member);
    if (!json_is_array(names) || json_array_size(names) > SP_MAX_IMPORT_NAMES)
        return sp_members_refuse(reader, where, "PLACEMENT_FILE", "\"%s\" must be a list of at most %d names.", member,
                                 SP_MAX_IMPORT_NAMES);
    for (size_t i = 0; i < json_array_size(names); i++) {
        if (json_string_length(json_array_get(names, i)) == 0)
            return sp_members_refuse(reader, sp_members_item(reader, where, i), "PLACEMENT_FILE",
                                     "\"%s\" must hold names.", member);
    }
    *ret_names = names;
    return SP_OK;
}

static enum sp_status read_flag(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                const char *member, bool *ret_value)
{
    const json_t *value = json_object_get(json, member);
    *ret_value = value == NULL || json_is_true(value);
    if (value == NULL || json_is_boolean(value))
        return SP_OK;
    return sp_members_refuse(reader, sp_members_child(reader, pointer, member), "PLACEMENT_FILE",
                             "\"%s\" must be true or false.", member);
}

static enum sp_status read_stage(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                 struct sp_genai_stage *stage)
{
    static const char *const members[] = {"filename",         "inputs",
                                          "outputs",          "session_options",
                                          "run_options",      "output_names_forwarder",
                                          "run_on_prompt",    "run_on_token_gen",
                                          "is_lm_head",       "inherit_session_options",
                                          "reset_session_idx"};
    size_t count;
    enum sp_status status = sp_members_check(reader, (json_t *)(uintptr_t)json, pointer, "A stage of the pipeline",
                                             members, sizeof members / sizeof members[0]);
    if (status == SP_OK)
        status = sp_members_text(reader, json, pointer, "filename", SP_MAX_NAME_BYTES, &stage->file);
    if (status == SP_OK && stage->file == NULL)
        status = sp_members_refuse(reader, pointer, "PLACEMENT_FILE", "The stage '%.200s' has no \"filename\".",
                                   stage->name);
    if (status == SP_OK)
        status = read_names(reader, json, pointer, "inputs", &stage->inputs);
    if (status == SP_OK)
        status = read_names(reader, json, pointer, "outputs", &stage->outputs);
    if (status == SP_OK)
        status = read_flag(reader, json, pointer, "run_on_prompt", &stage->on_prompt);
    if (status == SP_OK)
        status = read_flag(reader, json, pointer, "run_on_token_gen", &stage->on_token);
    stage->options = json_object_get(json, "session_options");
    stage->forwarder = json_object_get(json, "output_names_forwarder");
    const json_t *forwarder = stage->forwarder;
    const char *name;
    json_t *value;
    if (status != SP_OK || forwarder == NULL)
        return status;
    count = json_object_size(forwarder);
    json_object_foreach((json_t *)(uintptr_t)forwarder, name, value) count -= json_string_length(value) > 0;
    if (!json_is_object(forwarder) || count > 0)
        return sp_members_refuse(reader, sp_members_child(reader, pointer, "output_names_forwarder"), "PLACEMENT_FILE",
                                 "\"output_names_forwarder\" must be an object with a name for each output.");
    return SP_OK;
}

/* The object, or the one in the list. */
enum sp_status sp_genai_stages(struct sp_members_reader *reader, const json_t *config, uint32_t *ret_count,
                               struct sp_genai_stage **ret_stages)
{
    const json_t *pipeline = pipeline_of(config);
    const bool is_list = json_is_array(pipeline) && json_array_size(pipeline) == 1;
    const json_t *stages = is_list ? json_array_get(pipeline, 0) : pipeline;
    const size_t size = json_object_size(stages);
    const char *where = is_list ? PIPELINE "/0" : PIPELINE;
    uint32_t count = 0;
    const char *name;
    json_t *value;
    enum sp_status status = SP_OK;
    if (!json_is_object(stages) || size == 0 || size > SP_MAX_IMPORT_PLACES)
        return sp_members_refuse(
            reader, where, "PLACEMENT_FILE",
            "The pipeline must be a list of one object that has from 1 to %d stages as its members.",
            SP_MAX_IMPORT_PLACES);
    struct sp_genai_stage *made = SP_NEW_ARRAY(reader->arena, size, struct sp_genai_stage);
    if (made == NULL)
        return sp_fail_memory(reader->err);
    json_object_foreach((json_t *)(uintptr_t)stages, name, value)
    {
        made[count].name = sp_arena_string(reader->arena, name, strlen(name));
        if (made[count].name == NULL)
            return sp_fail_memory(reader->err);
        if (status == SP_OK)
            status = read_stage(reader, value, sp_members_child(reader, where, name), &made[count++]);
    }
    *ret_count = count;
    *ret_stages = made;
    return status;
}

const char *sp_genai_forwarded(const struct sp_genai_stage *stage, const char *output)
{
    const char *name = json_string_value(json_object_get(stage->forwarder, output));
    return name != NULL ? name : output;
}

/* ---- as places -------------------------------------------------------------------------------------------------- */

/* "session_options": {"provider_options": [{"cuda": {"device_id": "1"}}]}: the first that says a device. */
static int64_t device_of(const struct sp_genai_stage *stage)
{
    const json_t *providers = json_object_get(stage->options, "provider_options");
    for (size_t i = 0; i < json_array_size(providers); i++) {
        const char *name;
        json_t *value;
        json_object_foreach(json_array_get(providers, i), name, value)
        {
            const char *device = json_string_value(json_object_get(value, "device_id"));
            if (device != NULL)
                return sp_import_device_number(device);
        }
    }
    return -1;
}

/* `renamed`: the names that earlier stages have given tensors, {name: output}. */
static struct sp_value *find_tensor(const struct sp_import_reader *reader, const json_t *renamed, const char *name)
{
    const char *output = json_string_value(json_object_get(renamed, name));
    struct sp_value *value = output != NULL ? sp_graph_value(reader->model->graph, output) : NULL;
    return value != NULL ? value : sp_graph_value(reader->model->graph, name);
}

static enum sp_status report_names(struct sp_import_reader *reader, const struct sp_genai_stage *stage,
                                   const json_t *renamed, const json_t *names)
{
    const char *first = NULL;
    uint64_t count = 0;
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        const bool is_known = find_tensor(reader, renamed, name) != NULL;
        count += !is_known;
        first = !is_known && first == NULL ? name : first;
    }
    if (count == 0)
        return SP_OK;
    return sp_import_find(reader, "PLACED_NAME_UNKNOWN", NULL,
                          "The stage '%.80s' names %" PRIu64 " tensors that the model does not have; the first is "
                          "'%.200s'.",
                          stage->name, count, first);
}

static enum sp_status place_stage(struct sp_import_reader *reader, const struct sp_genai_stage *stage,
                                  const json_t *renamed, struct sp_import_walk *walk, uint32_t *border)
{
    struct sp_import_place place = {.name = stage->name};
    const int64_t device = device_of(stage);
    uint32_t number = 0;
    enum sp_status status = device >= 0 ? sp_import_one_device(reader, device, &place) : SP_OK;
    if (status == SP_OK)
        status = sp_import_add_place(reader, &place, &number);
    if (status == SP_OK)
        status = report_names(reader, stage, renamed, stage->inputs);
    if (status == SP_OK)
        status = report_names(reader, stage, renamed, stage->outputs);
    walk->is_border = border;
    walk->border = number + 1;
    for (size_t i = 0; i < json_array_size(stage->inputs); i++) {
        const struct sp_value *value =
            find_tensor(reader, renamed, json_string_value(json_array_get(stage->inputs, i)));
        if (value != NULL)
            border[value->id] = number + 1;
    }
    for (size_t i = 0; status == SP_OK && i < json_array_size(stage->outputs); i++) {
        const struct sp_value *value =
            find_tensor(reader, renamed, json_string_value(json_array_get(stage->outputs, i)));
        if (value != NULL && value->producer != NULL && value->producer->graph == reader->model->graph)
            status = sp_import_walk(reader, walk, value->producer, number);
    }
    return status;
}

enum sp_status sp_import_genai(struct sp_import_reader *reader, const json_t *json)
{
    struct sp_genai_stage *stages = NULL;
    struct sp_import_walk walk = {0};
    json_t *renamed = json_object();
    uint32_t count = 0;
    uint32_t *border = SP_NEW_ARRAY(reader->arena, reader->model->graph->value_count, uint32_t);
    reader->tool = "GenAI's pipeline";
    enum sp_status status = border != NULL && renamed != NULL ? sp_genai_stages(&reader->json, json, &count, &stages)
                                                              : sp_fail_memory(reader->err);
    for (uint32_t i = 0; status == SP_OK && i < count; i++) {
        const char *output;
        json_t *name;
        status = place_stage(reader, &stages[i], renamed, &walk, border);
        json_object_foreach((json_t *)(uintptr_t)stages[i].forwarder, output, name)
        {
            if (json_object_set_new(renamed, json_string_value(name), json_string(output)) != 0)
                status = sp_fail_memory(reader->err);
        }
    }
    json_decref(renamed);
    return status;
}
