#include "infer/stored.h"

#include <string.h>

#include "base/limits.h"
#include "onnx/writer.h"
#include "sharding/dialect.h"

/* A context of the value's rank and extents; false for what has none. */
static bool fill_context(const struct sp_assignment *assignment, const struct sp_value *value, int64_t *extents,
                         struct sp_dialect_context *ret_context)
{
    const struct sp_shape *shape = &value->type.shape;
    if (value->type.kind != SP_TYPE_TENSOR || !shape->has_rank || shape->rank > SP_MAX_RANK)
        return false;
    for (uint32_t i = 0; i < shape->rank; i++)
        extents[i] = sp_dim_is_known(shape->dims[i]) ? shape->dims[i].value : -1;
    *ret_context = (struct sp_dialect_context){
        .rank = shape->rank, .shape = extents, .device_count = assignment->device_count, .tensor_name = value->name};
    return true;
}

enum sp_status sp_assignment_store(struct sp_assignment *assignment, uint32_t value, const struct sp_sharding *sharding,
                                   struct sp_error *err)
{
    if (assignment->stored == NULL)
        assignment->stored = SP_NEW_ARRAY(assignment->arena, assignment->dataflow->model->graph->value_count,
                                          const struct sp_sharding *);
    if (assignment->stored == NULL)
        return sp_fail_memory(err);
    assignment->stored[value] = sharding;
    return SP_OK;
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

/* NULL in *ret_sharding where the text is no sharding of the value with a placement. */
static enum sp_status read_one(struct sp_assignment *assignment, const struct sp_value *value, const char *text,
                               const struct sp_sharding **ret_sharding)
{
    int64_t extents[SP_MAX_RANK];
    struct sp_dialect_context context;
    struct sp_sharding_spec spec;
    struct sp_sharding *sharding = NULL, *blocks = NULL;
    struct sp_error why = {0};
    *ret_sharding = NULL;
    if (value->producer != NULL || !fill_context(assignment, value, extents, &context))
        return SP_OK;
    enum sp_status status = sp_onnx_spec_read_json(assignment->arena, text, strlen(text), &spec, &why);
    if (status == SP_OK)
        status = sp_onnx_spec_to_sharding(assignment->arena, &spec, &context, &sharding, NULL, &why);
    if (status == SP_OK)
        status = sp_sharding_check(sharding, context.rank, extents, context.device_count, &why);
    if (status == SP_OK)
        status = sp_sharding_to_blocks(assignment->arena, sharding, (uint32_t)context.rank, context.device_count,
                                       &blocks, NULL, &why);
    if (status == SP_OK && blocks->first != NULL)
        status = sp_view_cache_sharding(assignment->cache, blocks, true, ret_sharding, &why);
    return status == SP_ERR_MEMORY ? status : SP_OK;
}

enum sp_status sp_assignment_take_stored(struct sp_assignment *assignment, json_t *tensors, struct sp_error *err)
{
    const struct sp_graph *graph = assignment->dataflow->model->graph;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < graph->value_count; i++) {
        const struct sp_sharding *sharding = NULL;
        json_t *spec = json_object_get(tensors, graph->values[i]->name);
        char *text = spec == NULL ? NULL : json_dumps(spec, JSON_COMPACT);
        if (text == NULL)
            continue;
        status = read_one(assignment, graph->values[i], text, &sharding);
        free(text);
        if (status == SP_OK && sharding != NULL)
            status = sp_assignment_store(assignment, i, sharding, NULL);
    }
    return status == SP_OK ? SP_OK : sp_fail_memory(err);
}

enum sp_status sp_assignment_read_stored(struct sp_assignment *assignment, struct sp_error *err)
{
    const struct sp_model *model = assignment->dataflow->model;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < model->metadata_count; i++) {
        const char *text = model->metadata[i].value;
        if (strcmp(model->metadata[i].key, SP_WRITER_METADATA_KEY) != 0 || text == NULL ||
            strlen(text) > SP_MAX_RECORD_BYTES)
            continue;
        json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        json_t *tensors = json_object_get(json_object_get(root, "stored"), assignment->configuration);
        if (json_object_size(tensors) > 0)
            status = sp_assignment_take_stored(assignment, tensors, err);
        json_decref(root);
    }
    return status;
}

/* ---- writing ------------------------------------------------------------------------------------------------------ */

/* Per value of the main graph: whether some node takes it otherwise than it is stored. */
static enum sp_status find_others(const struct sp_assignment *assignment, struct sp_arena *scratch, bool *is_other,
                                  struct sp_error *err)
{
    const struct sp_dataflow *dataflow = assignment->dataflow;
    enum sp_status status = SP_OK;
    for (uint32_t n = 0; n < dataflow->node_count && status == SP_OK; n++) {
        const struct sp_node *node = dataflow->nodes[n];
        for (uint32_t i = 0; assignment->nodes[n].operands != NULL && i < node->input_count && status == SP_OK; i++) {
            const struct sp_value *value = node->inputs[i];
            const struct sp_sharding *used = assignment->nodes[n].operands[i].sharding, *stored;
            struct sp_dialect_context context;
            int64_t extents[SP_MAX_RANK];
            bool is_same = false;
            if (value == NULL || value->graph != dataflow->model->graph || is_other[value->id] || used == NULL ||
                (stored = assignment->stored[value->id]) == NULL || stored == used ||
                !fill_context(assignment, value, extents, &context))
                continue;
            struct sp_arena_mark mark = sp_arena_mark(scratch);
            status = sp_sharding_equal(scratch, stored, used, (uint32_t)context.rank, NULL, &is_same, err);
            sp_arena_rewind(scratch, mark);
            is_other[value->id] = !is_same;
        }
    }
    return status;
}

json_t *sp_stored_spec(const struct sp_sharding_spec *spec)
{
    struct sp_buf buf;
    struct sp_json json;
    json_t *result = NULL;
    sp_buf_init(&buf, SP_MAX_RECORD_BYTES);
    sp_json_init_buf(&json, false, &buf);
    sp_onnx_spec_write_json(spec, &json);
    if (sp_json_finish(&json, NULL) == SP_OK)
        result = json_loadb(buf.data, buf.size, 0, NULL);
    sp_buf_release(&buf);
    return result;
}

/* The record of one value as JSON, or NULL without memory. */
static json_t *spec_of(const struct sp_assignment *assignment, const struct sp_value *value, struct sp_arena *scratch)
{
    int64_t extents[SP_MAX_RANK];
    struct sp_dialect_context context;
    struct sp_sharding_spec spec;
    struct sp_losses losses = {0};
    if (!fill_context(assignment, value, extents, &context) ||
        sp_onnx_spec_from_sharding(scratch, assignment->stored[value->id], &context, &spec, &losses, NULL) != SP_OK)
        return NULL;
    return sp_stored_spec(&spec);
}

enum sp_status sp_assignment_drop_stored(struct sp_assignment *assignment, struct sp_error *err)
{
    const struct sp_graph *graph = assignment->dataflow->model->graph;
    if (assignment->stored == NULL)
        return SP_OK;
    struct sp_arena *scratch = sp_arena_create(sp_arena_budget(assignment->arena));
    bool *is_other = scratch == NULL ? NULL : SP_NEW_ARRAY(scratch, graph->value_count, bool);
    enum sp_status status = is_other == NULL ? sp_fail_memory(err) : find_others(assignment, scratch, is_other, err);
    for (uint32_t i = 0; status == SP_OK && is_other != NULL && i < graph->value_count; i++)
        assignment->stored[i] = is_other[i] ? assignment->stored[i] : NULL;
    sp_arena_destroy(scratch);
    return status;
}

enum sp_status sp_assignment_write_stored(const struct sp_assignment *assignment, json_t **ret_stored,
                                          struct sp_error *err)
{
    const struct sp_graph *graph = assignment->dataflow->model->graph;
    struct sp_arena *scratch = sp_arena_create(sp_arena_budget(assignment->arena));
    json_t *stored = json_object();
    enum sp_status status = scratch == NULL || stored == NULL ? sp_fail_memory(err) : SP_OK;
    for (uint32_t i = 0; status == SP_OK && assignment->stored != NULL && i < graph->value_count; i++) {
        json_t *spec = assignment->stored[i] == NULL ? NULL : spec_of(assignment, graph->values[i], scratch);
        if (assignment->stored[i] != NULL &&
            (spec == NULL || json_object_set_new(stored, graph->values[i]->name, spec) != 0))
            status = sp_fail_memory(err);
    }
    *ret_stored = status == SP_OK && json_object_size(stored) > 0 ? json_incref(stored) : NULL;
    json_decref(stored);
    sp_arena_destroy(scratch);
    return status;
}
