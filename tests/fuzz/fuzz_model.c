/*
 * The whole way of an uploaded model: read, infer, inspect, plan on two devices, annotate, strip.
 *
 * Properties: an error always has a code and a message; stripping the annotated model gives the original bytes, unless
 * the original has annotations of its own.
 */
#include "base/buf.h"
#include "fuzz.h"
#include "onnx/reader.h"
#include "onnx/writer.h"
#include "plan/job.h"

#define BUDGET     ((size_t)64 << 20)
#define MAX_OUTPUT ((size_t)256 << 20)

static void check_error(const struct sp_error *err)
{
    if (err->code[0] == '\0' || err->message[0] == '\0')
        abort();
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

/* The result of a splice over `bytes`, in a buffer that the caller releases. */
static void realise(struct sp_splice *splice, const uint8_t *bytes, struct sp_buf *buf)
{
    struct sp_source source = {.read = read_original, .context = (void *)(uintptr_t)bytes};
    struct sp_sink sink = {.write = append, .context = buf};
    sp_buf_init(buf, MAX_OUTPUT);
    if (sp_splice_stream(splice, &source, &sink, NULL) != SP_OK || buf->size != sp_splice_size(splice))
        abort();
    sp_splice_destroy(splice);
}

static bool has_annotations(const struct sp_model *model)
{
    if (model->configuration_count > 0)
        return true;
    for (uint32_t i = 0; i < model->metadata_count; i++) {
        if (strcmp(model->metadata[i].key, SP_WRITER_METADATA_KEY) == 0)
            return true;
    }
    for (uint32_t i = 0; i < model->graph->node_count; i++) {
        if (model->graph->nodes[i].configuration_count > 0)
            return true;
    }
    return false;
}

static void check_strip(const struct sp_plan *plan, const uint8_t *bytes, size_t size)
{
    struct sp_splice *splice;
    struct sp_buf annotated, stripped;
    struct sp_error err = {0};
    if (sp_plan_annotate(plan, &splice, &err) != SP_OK) {
        check_error(&err);
        return;
    }
    realise(splice, bytes, &annotated);
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_model *model;
    if (arena == NULL)
        abort();
    if (sp_onnx_read(arena, annotated.data, annotated.size, NULL, &model, &err) != SP_OK) {
        (void)fprintf(stderr, "the annotated model is refused: %s\n", err.message);
        abort();
    }
    if (sp_onnx_strip(model, &splice, &err) != SP_OK)
        abort();
    realise(splice, (const uint8_t *)annotated.data, &stripped);
    if (!has_annotations(plan->model) && (stripped.size != size || memcmp(stripped.data, bytes, size) != 0))
        abort();
    sp_arena_destroy(arena);
    sp_buf_release(&annotated);
    sp_buf_release(&stripped);
}

static void inspect(const struct sp_job_options *options)
{
    struct sp_error err = {0};
    struct sp_job *job;
    if (sp_job_open(options, &job, &err) != SP_OK) {
        check_error(&err);
        return;
    }
    struct sp_buf text;
    struct sp_json json;
    sp_buf_init(&text, MAX_OUTPUT);
    sp_json_init_buf(&json, false, &text);
    if (sp_job_inspect_json(job, true, &json, &err) != SP_OK)
        check_error(&err);
    sp_buf_release(&text);
    sp_job_destroy(job);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct sp_job_options options = {.bytes = bytes, .size = size, .memory_budget = BUDGET, .name = "fuzz"};
    inspect(&options);

    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_cluster *cluster;
    struct sp_plan_options plan_options;
    struct sp_error err = {0};
    struct sp_job *job;
    struct sp_plan *plan;
    sp_plan_options_init(&plan_options);
    if (arena == NULL || sp_cluster_uniform(arena, "a100-sxm4-80gb", 2, &cluster, &err) != SP_OK)
        abort();
    if (sp_job_plan(&options, cluster, &plan_options, &job, &plan, &err) == SP_OK) {
        check_strip(plan, bytes, size);
        sp_job_destroy(job);
    } else {
        check_error(&err);
    }
    sp_arena_destroy(arena);
    return 0;
}
