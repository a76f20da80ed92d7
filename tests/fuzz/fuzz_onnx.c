/*
 * The ONNX reader and writer alone, which gets a fuzzer through many more bytes than the whole way of a model does
 * (fuzz_model.c): read, decode constants, expand calls, annotate every node, read that, strip.
 *
 * Properties: an error has a code and a message; a model that was read holds its invariants (core/graph/model.h); an
 * annotated model is read again; stripping it gives back the original bytes, unless that had annotations of the same
 * name or a record of its own.
 */
#include "base/buf.h"
#include "base/limits.h"
#include "fuzz.h"
#include "fuzz_models.h"
#include "onnx/reader.h"
#include "onnx/writer.h"

#define BUDGET        ((size_t)256 << 20)
#define MAX_EXPANDED  64 /* calls that are expanded: each is bounded by the file's size */
#define CONFIGURATION "fuzz"

static bool is_visible(const struct sp_graph *from, const struct sp_graph *graph)
{
    while (from != NULL && from != graph)
        from = from->parent;
    return from != NULL;
}

static void check_node(const struct sp_graph *graph, uint32_t index)
{
    const struct sp_node *node = &graph->nodes[index];
    fuzz_require(node->graph == graph && node->index == index && node->op_type[0] != '\0');
    fuzz_require(node->span.offset >= graph->span.offset &&
                 node->span.offset + node->span.size <= graph->span.offset + graph->span.size);
    for (uint32_t i = 0; i < node->input_count; i++) {
        const struct sp_value *value = node->inputs[i];
        fuzz_require(value == NULL || is_visible(graph, value->graph));
        fuzz_require(value == NULL || value->graph != graph || value->producer == NULL ||
                     value->producer->index < index);
    }
    for (uint32_t i = 0; i < node->output_count; i++)
        fuzz_require(node->outputs[i] == NULL ||
                     (node->outputs[i]->producer == node && node->outputs[i]->producer_output == i));
}

static void check_graph(const struct sp_graph *graph)
{
    for (uint32_t i = 0; i < graph->node_count; i++)
        check_node(graph, i);
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const struct sp_value *value = graph->values[i];
        fuzz_require(value->id == i && value->graph == graph);
        for (uint32_t k = 0; k < value->use_count; k++) {
            const struct sp_use *use = &value->uses[k];
            fuzz_require(use->node->graph == graph);
            fuzz_require(use->input == UINT32_MAX || use->node->inputs[use->input] == value);
            fuzz_require(k == 0 || value->uses[k - 1].node->index <= use->node->index);
        }
    }
}

static void decode_constants(const struct sp_model *model)
{
    for (uint32_t i = 0; i < model->graph->initializer_count; i++) {
        const struct sp_tensor *tensor = model->graph->initializers[i]->tensor;
        struct sp_data *data = NULL;
        struct sp_error err = {0};
        if (tensor == NULL)
            continue;
        fuzz_require(tensor->elements >= 0 && tensor->bytes >= 0);
        enum sp_status status = sp_onnx_tensor_data(model, model->arena, tensor, &data, &err);
        if (status != SP_OK)
            fuzz_check_error(status, &err);
        else
            fuzz_require(data == NULL || (int64_t)data->count == tensor->elements);
    }
}

static void expand_calls(struct sp_model *model)
{
    uint32_t expanded = 0;
    for (uint32_t i = 0; i < model->graph->node_count && expanded < MAX_EXPANDED; i++) {
        struct sp_node *node = &model->graph->nodes[i];
        const struct sp_function *function = sp_onnx_function(model, node);
        struct sp_graph *body;
        struct sp_error err = {0};
        if (function == NULL)
            continue;
        expanded++;
        enum sp_status status = sp_onnx_expand(model, node, function, &body, &err);
        if (status == SP_OK)
            check_graph(body);
        else
            fuzz_check_error(status, &err);
    }
}

/* Whether the bytes mention the name: then annotations of others may be replaced, which strip cannot undo. */
static bool mentions(const uint8_t *bytes, size_t size, const char *text)
{
    return memmem(bytes, size, text, strlen(text)) != NULL;
}

static void check_strip(const struct sp_buf *annotated, const uint8_t *bytes, size_t size)
{
    struct sp_budget budget = {.limit = BUDGET};
    struct sp_arena *arena = sp_arena_create(&budget);
    struct sp_model *model;
    struct sp_splice *splice;
    struct sp_error err = {0};
    enum sp_status status = sp_onnx_read(arena, annotated->data, annotated->size, NULL, &model, &err);
    if (status == SP_OK) {
        fuzz_require(sp_onnx_strip(model, &splice, &err) == SP_OK);
        struct sp_buf stripped = fuzz_realise(splice, (const uint8_t *)annotated->data);
        fuzz_require(mentions(bytes, size, CONFIGURATION) || mentions(bytes, size, SP_WRITER_METADATA_KEY) ||
                     (stripped.size == size && memcmp(stripped.data, bytes, size) == 0));
        sp_buf_release(&stripped);
    } else {
        /* One metadata entry or configuration more may be one too many. */
        fuzz_require(status == SP_ERR_LIMIT || status == SP_ERR_MEMORY);
    }
    sp_arena_destroy(arena);
}

static void annotate(const struct sp_model *model, const uint8_t *bytes, size_t size)
{
    const uint32_t count = model->graph->node_count;
    struct sp_annotation *nodes = calloc(count + 1, sizeof *nodes);
    struct sp_splice *splice;
    struct sp_error err = {0};
    fuzz_require(nodes != NULL);
    for (uint32_t i = 0; i < count; i++) {
        nodes[i].node = &model->graph->nodes[i];
        nodes[i].configuration.has_stage = true;
        nodes[i].configuration.stage = (int32_t)i;
    }
    struct sp_annotations annotations = {
        .configuration = CONFIGURATION, .num_devices = 2, .count = count, .nodes = nodes};
    enum sp_status status = sp_onnx_annotate(model, &annotations, &splice, &err);
    if (status == SP_OK) {
        struct sp_buf annotated = fuzz_realise(splice, bytes);
        check_strip(&annotated, bytes, size);
        sp_buf_release(&annotated);
    } else {
        fuzz_check_error(status, &err);
    }
    free(nodes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct sp_budget budget = {.limit = BUDGET};
    struct sp_arena *arena = sp_arena_create(&budget);
    struct sp_model *model;
    struct sp_splice *splice;
    struct sp_error err = {0};
    fuzz_require(arena != NULL);
    enum sp_status status = sp_onnx_read(arena, bytes, size, NULL, &model, &err);
    if (status == SP_OK) {
        check_graph(model->graph);
        decode_constants(model);
        expand_calls(model);
        annotate(model, bytes, size);
        status = sp_onnx_strip(model, &splice, &err);
        if (status == SP_OK) {
            struct sp_buf stripped = fuzz_realise(splice, bytes);
            fuzz_require(stripped.size <= size + 16); /* a restored ir_version may be longer */
            sp_buf_release(&stripped);
        }
    }
    if (status != SP_OK)
        fuzz_check_error(status, &err);
    sp_arena_destroy(arena);
    fuzz_require(budget.used == 0);
    return 0;
}
