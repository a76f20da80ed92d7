/*
 * Files of other tools that say where nodes run, for a small decoder: Qualcomm's partitions, ONNX Runtime's layers, PopRT's
 * points, GenAI's pipeline, Polygraphy's hints.
 *
 * Properties: nothing breaks; an error says what; the same file twice gets the same findings; what becomes constraints is
 * taken as such; a pipeline's manifest is read, and names the pipeline's models in their order.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "import/import.h"
#include "plan/check.h"
#include "plan/request/constraints.h"
#include "plan/request/placed.h"
#include "verify/verify.h"

#define MAX_SIZE ((size_t)64 << 10)
#define BUDGET   ((size_t)256 << 20)

static const char cluster_text[] =
    "{\"groups\":[{\"count\":4,\"device\":{\"name\":\"d\",\"memory_bytes\":1e9,\"memory_bandwidth\":1e9,"
    "\"flops\":{\"float32\":1e9}}}],\"mesh\":[{\"name\":\"all\",\"size\":4,\"bandwidth\":1e9,\"latency\":1e-6}]}";

static const char model_text[] =
    "{\"opset\":23,\"inputs\":[{\"name\":\"ids\",\"dtype\":\"int64\",\"shape\":[1,8]}],"
    "\"initializers\":[{\"name\":\"table\",\"dtype\":\"float32\",\"shape\":[16,8]},"
    "{\"name\":\"w\",\"dtype\":\"float32\",\"shape\":[8,8]},{\"name\":\"head\",\"dtype\":\"float32\",\"shape\":[8,16]}]"
    ","
    "\"nodes\":[{\"name\":\"embed/gather\",\"op\":\"Gather\",\"inputs\":[\"table\",\"ids\"],\"outputs\":[\"x\"]},"
    "{\"name\":\"fold\",\"op\":\"Transpose\",\"inputs\":[\"w\"],\"outputs\":[\"wt\"],\"attributes\":{\"perm\":[1,0]}},"
    "{\"name\":\"layer0/q\",\"op\":\"MatMul\",\"inputs\":[\"x\",\"wt\"],\"outputs\":[\"q\"]},"
    "{\"name\":\"layer0/"
    "turn\",\"op\":\"Transpose\",\"inputs\":[\"x\"],\"outputs\":[\"k\"],\"attributes\":{\"perm\":[0,2,1]}},"
    "{\"name\":\"layer0/scores\",\"op\":\"MatMul\",\"inputs\":[\"q\",\"k\"],\"outputs\":[\"s\"]},"
    "{\"name\":\"layer0/softmax\",\"op\":\"Softmax\",\"inputs\":[\"s\"],\"outputs\":[\"p\"]},"
    "{\"name\":\"layer0/mix\",\"op\":\"MatMul\",\"inputs\":[\"p\",\"x\"],\"outputs\":[\"m\"]},"
    "{\"name\":\"\",\"op\":\"Relu\",\"inputs\":[\"m\"],\"outputs\":[\"h\"]},"
    "{\"name\":\"head\",\"op\":\"MatMul\",\"inputs\":[\"h\",\"head\"],\"outputs\":[\"logits\"]}],\"outputs\":["
    "\"logits\"]}";

static const struct sp_job_options options = {
    .bytes = model_text, .size = sizeof model_text - 1, .memory_budget = BUDGET, .name = "fuzz"};

static void expect(bool is_true, const char *what, const struct sp_error *err)
{
    if (is_true)
        return;
    (void)fprintf(stderr, "broken: %s: %s %s\n", what, err != NULL ? err->code : "", err != NULL ? err->message : "");
    abort();
}

static void expect_words(const struct sp_error *err)
{
    expect(err->code[0] != '\0' && err->message[0] != '\0' && err->status != SP_ERR_INTERNAL, "an error that says what",
           err);
}

/* The findings as JSON, or the error; released by the caller. */
static void check(const json_t *request, struct sp_buf *answer)
{
    struct sp_check_answer *made = NULL;
    struct sp_error err = {0};
    struct sp_json json;
    sp_buf_init(answer, (size_t)1 << 26);
    if (sp_check_answer_create(&options, request, &made, &err) != SP_OK) {
        expect_words(&err);
        sp_buf_printf(answer, "%s %s", err.where, err.message);
        return;
    }
    sp_json_init_buf(&json, false, answer);
    sp_check_answer_json(made, &json);
    expect(sp_json_finish(&json, NULL) == SP_OK, "an answer", NULL);
    sp_check_answer_destroy(made);
}

static void constrain(struct sp_arena *arena, const char *text, size_t size)
{
    const struct sp_demands *demands;
    struct sp_plan_options asked;
    struct sp_cluster *cluster;
    struct sp_error err = {0};
    json_t *devices = json_loads(cluster_text, 0, NULL), *constraints = json_object();
    sp_plan_options_init(&asked);
    expect(sp_cluster_parse(arena, devices, "", &cluster, &err) == SP_OK, "a cluster", &err);
    if (sp_placed_constraints(&options, cluster, &asked, text, size, constraints, &err) != SP_OK)
        expect_words(&err);
    else
        expect(sp_demands_parse(arena, constraints, "", &demands, &err) == SP_OK, "constraints", &err);
    json_decref(constraints);
    json_decref(devices);
}

/* ---- pipelines -------------------------------------------------------------------------------------------------- */

static enum sp_status find(void *context, const char *name, const void **ret_bytes, uint64_t *ret_size,
                           struct sp_error *err)
{
    (void)name;
    (void)err;
    ++*(uint32_t *)context;
    *ret_bytes = "";
    *ret_size = 0;
    return SP_OK;
}

static void list_stages(struct sp_arena *arena, const json_t *config)
{
    /* of a model, only names of inputs and outputs are looked at */
    struct sp_value ids = {.name = "ids"}, logits = {.name = "logits"}, *inputs[] = {&ids}, *outputs[] = {&logits};
    struct sp_graph graph = {.input_count = 1, .inputs = inputs, .output_count = 1, .outputs = outputs};
    const struct sp_model original = {.graph = &graph};
    for (enum sp_import_phase phase = SP_PHASE_ANY; phase <= SP_PHASE_TOKEN; phase++) {
        struct sp_verify_program *programs = NULL;
        struct sp_error err = {0};
        json_t *manifest = NULL;
        uint32_t count = 0, found = 0;
        if (sp_import_stages(config, &original, phase, &manifest, &err) != SP_OK) {
            expect_words(&err);
            continue;
        }
        const enum sp_status status = sp_verify_read_manifest(arena, manifest, find, &found, &count, &programs, &err);
        expect(status == SP_OK && count > 0 && count == found, "a manifest", &err);
        for (uint32_t i = 0; i < count; i++)
            expect(programs[i].device == i && programs[i].name != NULL, "stages in their order", NULL);
        json_decref(manifest);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct sp_buf answers[2];
    if (size > MAX_SIZE || size == 0)
        return 0;
    json_t *request = json_pack("{s:o*}", "placement", json_stringn((const char *)bytes, size));
    struct sp_arena *arena = sp_arena_create(NULL);
    expect(arena != NULL, "memory", NULL);
    if (json_object_size(request) == 1) {
        for (int i = 0; i < 2; i++)
            check(request, &answers[i]);
        expect(answers[0].size == answers[1].size && memcmp(answers[0].data, answers[1].data, answers[0].size) == 0,
               "the same answer twice", NULL);
        sp_buf_release(&answers[0]);
        sp_buf_release(&answers[1]);
    }
    constrain(arena, (const char *)bytes, size);
    json_t *config = json_loadb((const char *)bytes, size, 0, NULL);
    if (sp_import_is_pipeline(config))
        list_stages(arena, config);
    json_decref(config);
    json_decref(request);
    sp_arena_destroy(arena);
    return 0;
}
