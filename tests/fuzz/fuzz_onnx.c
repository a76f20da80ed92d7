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
#include "onnx/reader.h"
#include "onnx/writer.h"

#define BUDGET        ((size_t)256 << 20)
#define MAX_OUTPUT    ((size_t)256 << 20)
#define MAX_EXPANDED  64 /* calls that are expanded: each is bounded by the file's size */
#define CONFIGURATION "fuzz"

static void check(bool condition)
{
    if (!condition)
        abort();
}

static void check_error(enum sp_status status, const struct sp_error *err)
{
    check(status == err->status && err->code[0] != '\0' && err->message[0] != '\0');
    check((status == SP_ERR_LIMIT) == (err->limit != NULL));
    check(status != SP_ERR_INTERNAL);
}

static bool append(void *context, const void *bytes, size_t size)
{
    sp_buf_append(context, bytes, size);
    return !sp_buf_failed(context);
}

static bool read_original(void *context, uint64_t offset, void *bytes, size_t size)
{
    memcpy(bytes, (const uint8_t *)context + offset, size);
    return true;
}

static struct sp_buf realise(struct sp_splice *splice, const void *bytes)
{
    struct sp_source source = {.read = read_original, .context = (void *)(uintptr_t)bytes};
    struct sp_buf buf;
    struct sp_sink sink = {.write = append, .context = &buf};
    sp_buf_init(&buf, MAX_OUTPUT);
    check(sp_splice_stream(splice, &source, &sink, NULL) == SP_OK && buf.size == sp_splice_size(splice));
    sp_splice_destroy(splice);
    return buf;
}

static bool is_visible(const struct sp_graph *from, const struct sp_graph *graph)
{
    while (from != NULL && from != graph)
        from = from->parent;
    return from != NULL;
}

static void check_node(const struct sp_graph *graph, uint32_t index)
{
    const struct sp_node *node = &graph->nodes[index];
    check(node->graph == graph && node->index == index && node->op_type[0] != '\0');
    check(node->span.offset >= graph->span.offset &&
          node->span.offset + node->span.size <= graph->span.offset + graph->span.size);
    for (uint32_t i = 0; i < node->input_count; i++) {
        const struct sp_value *value = node->inputs[i];
        check(value == NULL || is_visible(graph, value->graph));
        check(value == NULL || value->graph != graph || value->producer == NULL || value->producer->index < index);
    }
    for (uint32_t i = 0; i < node->output_count; i++)
        check(node->outputs[i] == NULL ||
              (node->outputs[i]->producer == node && node->outputs[i]->producer_output == i));
}

static void check_graph(const struct sp_graph *graph)
{
    for (uint32_t i = 0; i < graph->node_count; i++)
        check_node(graph, i);
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const struct sp_value *value = graph->values[i];
        check(value->id == i && value->graph == graph);
        for (uint32_t k = 0; k < value->use_count; k++) {
            const struct sp_use *use = &value->uses[k];
            check(use->node->graph == graph);
            check(use->input == UINT32_MAX || use->node->inputs[use->input] == value);
            check(k == 0 || value->uses[k - 1].node->index <= use->node->index);
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
        check(tensor->elements >= 0 && tensor->bytes >= 0);
        enum sp_status status = sp_onnx_tensor_data(model, model->arena, tensor, &data, &err);
        if (status != SP_OK)
            check_error(status, &err);
        else
            check(data == NULL || (int64_t)data->count == tensor->elements);
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
            check_error(status, &err);
    }
}

/* Whether the bytes mention the name: then annotations of others may be replaced, which strip cannot undo. */
static bool mentions(const uint8_t *bytes, size_t size, const char *text)
{
    const size_t length = strlen(text);
    for (size_t i = 0; i + length <= size; i++) {
        if (memcmp(bytes + i, text, length) == 0)
            return true;
    }
    return false;
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
        check(sp_onnx_strip(model, &splice, &err) == SP_OK);
        struct sp_buf stripped = realise(splice, annotated->data);
        check(mentions(bytes, size, CONFIGURATION) || mentions(bytes, size, SP_WRITER_METADATA_KEY) ||
              (stripped.size == size && memcmp(stripped.data, bytes, size) == 0));
        sp_buf_release(&stripped);
    } else {
        /* One metadata entry or configuration more may be one too many. */
        check(status == SP_ERR_LIMIT || status == SP_ERR_MEMORY);
    }
    sp_arena_destroy(arena);
}

static void annotate(const struct sp_model *model, const uint8_t *bytes, size_t size)
{
    const uint32_t count = model->graph->node_count;
    struct sp_annotation *nodes = calloc(count + 1, sizeof *nodes);
    struct sp_splice *splice;
    struct sp_error err = {0};
    check(nodes != NULL);
    for (uint32_t i = 0; i < count; i++) {
        nodes[i].node = &model->graph->nodes[i];
        nodes[i].configuration.has_stage = true;
        nodes[i].configuration.stage = (int32_t)i;
    }
    struct sp_annotations annotations = {
        .configuration = CONFIGURATION, .num_devices = 2, .count = count, .nodes = nodes};
    enum sp_status status = sp_onnx_annotate(model, &annotations, &splice, &err);
    if (status == SP_OK) {
        struct sp_buf annotated = realise(splice, bytes);
        check_strip(&annotated, bytes, size);
        sp_buf_release(&annotated);
    } else {
        check_error(status, &err);
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
    check(arena != NULL);
    enum sp_status status = sp_onnx_read(arena, bytes, size, NULL, &model, &err);
    if (status == SP_OK) {
        check_graph(model->graph);
        decode_constants(model);
        expand_calls(model);
        annotate(model, bytes, size);
        status = sp_onnx_strip(model, &splice, &err);
        if (status == SP_OK) {
            struct sp_buf stripped = realise(splice, bytes);
            check(stripped.size <= size + 16); /* a restored ir_version may be longer */
            sp_buf_release(&stripped);
        }
    }
    if (status != SP_OK)
        check_error(status, &err);
    sp_arena_destroy(arena);
    check(budget.used == 0);
    return 0;
}
