/* Which file it is, and what it says. */
#include <string.h>

#include "base/intern.h"
#include "base/limits.h"
#include "import/internal.h"

#define NAMES  "session.name_based_layer_assignment"
#define LAYERS "session.layer_assignment_settings"

static enum sp_status index_names(struct sp_import_reader *reader)
{
    const struct sp_graph *graph = reader->model->graph;
    reader->names = sp_intern_create(reader->arena, reader->model->hash_seed);
    reader->place_names = sp_intern_create(reader->arena, reader->model->hash_seed);
    reader->place_of = SP_NEW_ARRAY(reader->arena, graph->node_count, uint32_t);
    if (reader->names == NULL || reader->place_names == NULL || reader->place_of == NULL) {
        (void)sp_fail_memory(reader->err);
        return SP_ERR_MEMORY; /* said so that an analyser sees it */
    }
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const char *name = graph->nodes[i].name;
        reader->place_of[i] = SP_NOT_PLACED;
        if (name[0] == '\0')
            continue;
        const char *own = sp_intern_text(reader->names, name, strlen(name));
        if (own == NULL)
            return sp_fail_memory(reader->err);
        void **mark = sp_intern_mark(own);
        *mark = *mark != NULL ? *mark : &graph->nodes[i];
    }
    return SP_OK;
}

static enum sp_status read_object(struct sp_import_reader *reader, const json_t *json)
{
    const char *names = json_string_value(json_object_get(json, NAMES)),
               *layers = json_string_value(json_object_get(json, LAYERS));
    if (json_object_get(json, "partitions") != NULL)
        return sp_import_mdp(reader, json);
    if (names != NULL && layers != NULL)
        return sp_import_refuse(reader, "", "ONNX Runtime takes one of the two layer assignments, not both.");
    if (names != NULL || layers != NULL)
        return names != NULL ? sp_import_ort_names(reader, names) : sp_import_ort_layers(reader, layers);
    if (sp_import_is_pipeline(json))
        return sp_import_genai(reader, json);
    if (json_object_get(json, "parallelism") != NULL)
        return sp_import_hints(reader, json);
    return sp_import_refuse(reader, "",
                            "The file is none that says where nodes run: Qualcomm's has \"partitions\", ONNX Runtime's "
                            "\"" NAMES "\" or \"" LAYERS
                            "\", GenAI's \"model\" with a \"decoder\" with a \"pipeline\", "
                            "Polygraphy's \"parallelism\", and PopRT's is a list of points in YAML.");
}

/* JSON is what begins with '{'; PopRT's list of points is YAML. */
static enum sp_status parse(const char *text, size_t size, json_t **ret_json, struct sp_error *err)
{
    size_t at = 0;
    json_error_t why;
    while (at < size && strchr(" \t\r\n", text[at]) != NULL && text[at] != '\0')
        at++;
    if (at == size || text[at] != '{')
        return sp_yaml_read(text, size, ret_json, err);
    *ret_json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
    if (*ret_json != NULL)
        return SP_OK;
    (void)sp_fail(err, SP_ERR_REQUEST, "PLACEMENT_FILE", "The file is not valid JSON: %s.", why.text);
    return sp_error_at(err, "line %d, column %d", why.line, why.column);
}

enum sp_status sp_import_read(struct sp_arena *arena, struct sp_model *model, const char *text, size_t size,
                              struct sp_diagnostics *list, struct sp_import *ret_import, struct sp_error *err)
{
    struct sp_import_reader reader = {
        .arena = arena, .model = model, .list = list, .json = {arena, err}, .err = err, .has_stages = true};
    json_t *json = NULL;
    enum sp_status status = SP_OK;
    if (size > SP_MAX_PLACEMENT_BYTES)
        status = sp_fail_limit(err, "PLACEMENT_FILE", "SP_MAX_PLACEMENT_BYTES", SP_MAX_PLACEMENT_BYTES, (int64_t)size,
                               "The file has more than %d bytes.", SP_MAX_PLACEMENT_BYTES);
    if (status == SP_OK)
        status = parse(text, size, &json, err);
    if (status == SP_OK)
        status = index_names(&reader);
    if (status == SP_OK && json_is_array(json))
        status = sp_import_poprt(&reader, json);
    else if (status == SP_OK)
        status = read_object(&reader, json);
    json_decref(json);
    if (status != SP_OK)
        return status;
    *ret_import = (struct sp_import){.tool = reader.tool,
                                     .place_count = reader.places.count,
                                     .places = reader.places.items,
                                     .place_of = reader.place_of,
                                     .split_count = reader.splits.count,
                                     .splits = reader.splits.items,
                                     .device_count = reader.device_count,
                                     .has_stages = reader.has_stages};
    return SP_OK;
}
