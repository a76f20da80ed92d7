/* A whole model. */
#include "onnx/reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "onnx/read.h"

static enum sp_status bind_dims(struct sp_model *model, const struct sp_read_options *options, struct sp_error *err)
{
    for (uint32_t i = 0; options != NULL && i < options->binding_count; i++) {
        if (!sp_dims_bind(model->dims, options->binding_names[i], options->binding_values[i]))
            return sp_fail(err, SP_ERR_REQUEST, "BAD_DIMENSION_BINDING",
                           "The dimension '%.80s' cannot be bound to %" PRId64
                           ": it must be 0 or more and be given once.",
                           options->binding_names[i], options->binding_values[i]);
    }
    model->has_bound_sizes = options != NULL && options->binding_count > 0;
    return SP_OK;
}

static struct sp_model *create_model(struct sp_arena *arena, const void *bytes, uint64_t size, uint64_t seed)
{
    struct sp_model *model = SP_NEW(arena, struct sp_model);
    if (model == NULL)
        return NULL;
    model->arena = arena;
    model->bytes = bytes;
    model->size = size;
    model->hash_seed = seed;
    model->names = sp_intern_create(arena, seed);
    model->dims = sp_dims_create(arena);
    model->producer_name = model->producer_version = model->domain = model->doc = "";
    return model->names == NULL || model->dims == NULL ? NULL : model;
}

static enum sp_status read_all(struct sp_reader *r)
{
    struct sp_span span = {0, 0};
    struct sp_graph *graph;
    enum sp_status status = sp_read_model(r, &span);
    if (status != SP_OK)
        return status;
    graph = SP_NEW(r->arena, struct sp_graph);
    if (graph == NULL)
        return sp_fail_memory(r->err);
    graph->span = span;
    status = sp_read_graph(r, graph);
    if (status != SP_OK)
        return status;
    r->model->graph = graph;
    return sp_check_functions(r);
}

/* A file of another format fails somewhere as protobuf; what it is helps more than where it broke. */
static enum sp_status explain(struct sp_error *err, enum sp_status status, const unsigned char *bytes, uint64_t size)
{
    const char *what = status == SP_ERR_MALFORMED ? sp_identify(bytes, size) : NULL;
    if (what == NULL)
        return status;
    sp_error_clear(err);
    sp_fail(err, SP_ERR_MALFORMED, "NOT_ONNX", "The input is no ONNX model: it looks like %s.", what);
    sp_error_at(err, "byte 0");
    return SP_ERR_MALFORMED;
}

static enum sp_status read_as(struct sp_model *model, const struct sp_read_options *options, struct sp_error *err)
{
    enum sp_status status = bind_dims(model, options, err);
    if (status != SP_OK)
        return status;
    struct sp_reader *r = calloc(1, sizeof *r);
    if (r == NULL)
        return sp_fail_memory(err);
    sp_reader_init(r, model, err);
    r->watch = options == NULL ? NULL : options->watch;
    r->counting = true;
    r->scratch = sp_arena_create(sp_arena_budget(model->arena));
    status = r->scratch == NULL ? sp_fail_memory(err) : read_all(r);
    sp_reader_release(r);
    free(r);
    return status;
}

/* A model whose nodes stand in no topological order is read once more, and sorted; a cycle fails again. */
enum sp_status sp_onnx_read(struct sp_arena *arena, const void *bytes, uint64_t size,
                            const struct sp_read_options *options, struct sp_model **ret_model, struct sp_error *err)
{
    const struct sp_arena_mark mark = sp_arena_mark(arena);
    struct sp_error what;
    enum sp_status status;
    if (size == 0) {
        sp_fail(err, SP_ERR_MALFORMED, "EMPTY_INPUT", "The input is empty; an ONNX model is expected.");
        sp_error_at(err, "byte 0");
        return SP_ERR_MALFORMED;
    }
    for (int tries = 0;; tries++) {
        struct sp_model *model = create_model(arena, bytes, size, options == NULL ? 0 : options->hash_seed);
        if (model == NULL)
            return sp_fail_memory(err);
        sp_error_clear(&what);
        model->is_sorted = tries > 0;
        status = read_as(model, options, &what);
        if (status == SP_OK && options != NULL && options->given != NULL)
            status = sp_model_give(model, options->given, &what);
        if (status == SP_OK)
            *ret_model = model;
        if (status == SP_OK || tries > 0 || strcmp(what.code, "NOT_TOPOLOGICAL") != 0)
            break;
        sp_arena_rewind(arena, mark);
    }
    if (status == SP_OK)
        return SP_OK;
    if (err != NULL && err->status == SP_OK)
        *err = what;
    return explain(err, status, bytes, size);
}
