#include "fuzz_models.h"

#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "onnx/reader.h"
#include "onnx/writer.h"
#include "ops/shapes/shapes.h"

#define MAX_OUTPUT ((size_t)256 << 20)
#define BUDGET     ((size_t)256 << 20)
#define MAX_SETS   4

void fuzz_require(bool condition)
{
    if (!condition)
        abort();
}

void fuzz_check_error(enum sp_status status, const struct sp_error *err)
{
    fuzz_require(status == err->status && err->code[0] != '\0' && err->message[0] != '\0');
    fuzz_require((status == SP_ERR_LIMIT) == (err->limit != NULL));
    fuzz_require(status != SP_ERR_INTERNAL);
}

/* ---- files ---------------------------------------------------------------------------------------------------- */

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

struct sp_buf fuzz_realise(struct sp_splice *splice, const uint8_t *bytes)
{
    struct sp_source source = {.read = read_original, .context = (void *)(uintptr_t)bytes};
    struct sp_buf buf;
    struct sp_sink sink = {.write = append, .context = &buf};
    sp_buf_init(&buf, MAX_OUTPUT);
    fuzz_require(sp_splice_stream(splice, &source, &sink, NULL) == SP_OK && buf.size == sp_splice_size(splice));
    sp_splice_destroy(splice);
    return buf;
}

static bool mentions(const uint8_t *bytes, size_t size, const char *text)
{
    return memmem(bytes, size, text, strlen(text)) != NULL;
}

void fuzz_check_strip(const struct sp_buf *written, const uint8_t *bytes, size_t size)
{
    struct sp_budget budget = {.limit = BUDGET};
    struct sp_arena *arena = sp_arena_create(&budget);
    struct sp_model *model;
    struct sp_splice *splice;
    struct sp_error err = {0};
    enum sp_status status = sp_onnx_read(arena, written->data, written->size, NULL, &model, &err);
    if (status == SP_OK) {
        fuzz_require(sp_onnx_strip(model, &splice, &err) == SP_OK);
        struct sp_buf stripped = fuzz_realise(splice, (const uint8_t *)written->data);
        fuzz_require(mentions(bytes, size, SP_WRITER_METADATA_KEY) ||
                     (stripped.size == size && memcmp(stripped.data, bytes, size) == 0));
        sp_buf_release(&stripped);
    } else {
        fuzz_require(status == SP_ERR_LIMIT || status == SP_ERR_MEMORY);
    }
    sp_arena_destroy(arena);
}

void fuzz_check_annotations(const struct sp_buf *written)
{
    struct sp_budget budget = {.limit = BUDGET};
    struct sp_arena *arena = sp_arena_create(&budget);
    struct sp_diagnostics list = {.arena = arena};
    struct sp_shape_summary summary;
    struct sp_model *model;
    struct sp_error err = {0};
    if (sp_onnx_read(arena, written->data, written->size, NULL, &model, &err) == SP_OK &&
        sp_infer_shapes(model, NULL, &summary, &err) == SP_OK &&
        sp_check_annotations(model, NULL, &list, &err) == SP_OK)
        fuzz_require(list.errors == 0);
    sp_arena_destroy(arena);
}

/* ---- requests ------------------------------------------------------------------------------------------------- */

/* {"device": [0, .., n - 1], "shardedDim": [{"axis": a, "simpleSharding": [{"numShards": n}]}]} */
static json_t *split(uint64_t axis, uint64_t devices)
{
    json_t *list = json_array();
    for (uint64_t i = 0; i < devices; i++)
        (void)json_array_append_new(list, json_integer((json_int_t)i));
    return json_pack("{s:o, s:[{s:I, s:[{s:I}]}]}", "device", list, "shardedDim", "axis", (json_int_t)axis,
                     "simpleSharding", "numShards", (json_int_t)devices);
}

/* The next number of a sequence that the seed starts (splitmix64). */
static uint64_t next(uint64_t *seed)
{
    uint64_t value = *seed += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

static void add_sets(const struct sp_graph *graph, uint64_t seed, uint64_t devices, json_t *sets)
{
    for (uint64_t i = next(&seed) % MAX_SETS; graph->value_count > 0 && i > 0; i--) {
        const struct sp_value *value = graph->values[next(&seed) % graph->value_count];
        uint64_t rank = value->declared.shape.has_rank ? value->declared.shape.rank
                        : value->tensor != NULL        ? value->tensor->rank
                                                       : 2;
        if (value->name[0] != '\0')
            (void)json_object_set_new(sets, value->name, split(next(&seed) % (rank + (rank == 0)), devices));
    }
}

json_t *fuzz_request(const uint8_t *bytes, size_t size, const char *mode, uint64_t seed)
{
    struct sp_budget budget = {.limit = BUDGET};
    struct sp_arena *arena = sp_arena_create(&budget);
    struct sp_model *model;
    json_t *request = NULL;
    if (sp_onnx_read(arena, bytes, size, NULL, &model, NULL) == SP_OK) {
        uint64_t devices = 2 + next(&seed) % 3;
        json_t *sets = json_object();
        add_sets(model->graph, seed, devices, sets);
        request = json_pack("{s:s, s:o}", "mode", mode, "set", sets);
        if (model->configuration_count == 0)
            (void)json_object_set_new(request, "devices", json_integer((json_int_t)devices));
        else
            (void)json_object_set_new(
                request, "configuration",
                json_string(model->configurations[next(&seed) % model->configuration_count].name));
    }
    sp_arena_destroy(arena);
    return request;
}
