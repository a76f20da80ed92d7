#include <string.h>

#include "onnx/read.h"

static const struct sp_attribute *find_default(const struct sp_function *function, const char *name)
{
    for (uint32_t i = 0; i < function->default_count; i++) {
        if (strcmp(function->defaults[i].name, name) == 0)
            return &function->defaults[i];
    }
    return NULL;
}

enum sp_status sp_resolve_references(struct sp_reader *r, struct sp_node *node)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < node->attribute_count; i++) {
        struct sp_attribute *attribute = &node->attributes[i];
        const struct sp_attribute *value = NULL;
        if (attribute->ref != NULL) {
            value = sp_node_attribute(r->call, attribute->ref);
            if (value == NULL)
                value = find_default(r->function, attribute->ref);
            if (value == NULL)
                continue; /* not given and without default: the attribute is absent in this call */
            if (attribute->type != SP_ATTR_UNDEFINED && attribute->type != value->type)
                return sp_reader_fail(r, "ATTRIBUTE_MISMATCH",
                                      "Attribute '%.80s' refers to '%.80s', which has another type in this call.",
                                      attribute->name, attribute->ref);
        }
        struct sp_attribute resolved = value == NULL ? *attribute : *value;
        resolved.name = attribute->name;
        resolved.ref = NULL;
        node->attributes[kept++] = resolved;
    }
    node->attribute_count = kept;
    return SP_OK;
}

static enum sp_status read_body(struct sp_model *model, struct sp_arena *arena, const struct sp_function *function,
                                struct sp_node *call, struct sp_graph **ret_body, struct sp_error *err)
{
    struct sp_graph *graph = SP_NEW(arena, struct sp_graph);
    struct sp_reader *r = calloc(1, sizeof *r);
    if (graph == NULL || r == NULL) {
        free(r);
        return sp_fail_memory(err);
    }
    sp_reader_init(r, model, err);
    r->arena = arena;
    r->function = function;
    r->call = call;
    r->scratch = sp_arena_create(sp_arena_budget(model->arena));
    r->local = r->scratch == NULL ? NULL : sp_intern_create(r->scratch, 0);
    graph->span = function->span;
    graph->owner = call;
    enum sp_status status = r->local == NULL ? sp_fail_memory(err) : sp_read_graph(r, graph);
    sp_reader_release(r);
    free(r);
    if (status == SP_OK)
        *ret_body = graph;
    return status;
}

enum sp_status sp_onnx_expand(struct sp_model *model, struct sp_node *call, const struct sp_function *function,
                              struct sp_graph **ret_body, struct sp_error *err)
{
    if (call->input_count > function->input_count || call->output_count > function->output_count) {
        char label[SP_ERROR_WHERE_SIZE];
        sp_fail(err, SP_ERR_MODEL, "WRONG_CALL",
                "The call has %u inputs and %u outputs, but function '%.80s' has %u and %u.", call->input_count,
                call->output_count, function->name, function->input_count, function->output_count);
        sp_error_at(err, "%s", sp_node_label(call, label, sizeof label));
        return SP_ERR_MODEL;
    }
    return read_body(model, model->arena, function, call, ret_body, err);
}

enum sp_status sp_onnx_body(struct sp_model *model, struct sp_arena *arena, const struct sp_function *function,
                            struct sp_graph **ret_body, struct sp_error *err)
{
    return read_body(model, arena, function, NULL, ret_body, err);
}
