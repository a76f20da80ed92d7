#include <criterion/criterion.h>
#include <string.h>

#include "build_export.h"
#include "onnx_files.h"

/* Plans of every form are made again from their record, and are what they were. */

static const struct onnx_mlp wide = {.layers = 4, .width = 8192, .batch = "64"};

static const char *const two_nodes =
    "{\"groups\": [{\"name\": \"box\", \"count\": 8, \"device\": \"a100-sxm4-80gb\"}],"
    " \"mesh\": [{\"name\": \"node\", \"size\": 2, \"bandwidth\": 25e9, \"latency\": 5e-6},"
    "            {\"name\": \"gpu\", \"size\": 4, \"bandwidth\": 300e9, \"latency\": 2e-6}]}";
static const char *const two_kinds = "{\"groups\": [{\"name\": \"a\", \"count\": 4, \"device\": \"a100-sxm4-80gb\"},"
                                     "              {\"name\": \"h\", \"count\": 4, \"device\": \"h100-sxm-80gb\"}]}";
static const char *const eight = "{\"device\": \"a100-sxm4-80gb\", \"count\": 8}";

/* A plan and its JSON. */
struct recorded {
    struct planned_model model;
    json_t *cluster, *objective, *options, *json;
};

static void recorded_make(struct recorded *ret, const char *cluster, const char *objective, const char *given)
{
    struct sp_error err = {0};
    struct sp_plan_options options;
    struct planned_model *model = &ret->model;
    *ret = (struct recorded){.cluster = json_loads(cluster, 0, NULL),
                             .objective = json_string(objective),
                             .options = json_loads(given, 0, NULL)};
    onnx_mlp(&model->file, &wide);
    const struct sp_job_options job_options = {
        .bytes = model->file.data, .size = model->file.size, .name = "model.onnx", .sha256 = PLANNED_SHA256};
    model->arena = sp_arena_create(NULL);
    cr_assert_eq(sp_cluster_parse(model->arena, ret->cluster, "", &model->cluster, &err), SP_OK, "%s", err.message);
    cr_assert_eq(sp_plan_options_parse(model->arena, ret->objective, ret->options, &options, &err), SP_OK, "%s",
                 err.message);
    cr_assert_eq(sp_job_plan(&job_options, model->cluster, &options, &model->job, &model->plan, &err), SP_OK, "%s",
                 err.message);
    ret->json = planned_json(model);
    cr_assert_eq(sp_subject_from_plan(model->job, model->plan, &model->subject, &err), SP_OK, "%s", err.message);
}

static void recorded_release(struct recorded *recorded)
{
    planned_release(&recorded->model);
    json_decref(recorded->cluster);
    json_decref(recorded->objective);
    json_decref(recorded->options);
    json_decref(recorded->json);
}

static enum sp_status again(const struct recorded *recorded, const json_t *json, struct sp_subject **ret_subject,
                            struct sp_error *err)
{
    const struct sp_job_options options = {.bytes = recorded->model.file.data,
                                           .size = recorded->model.file.size,
                                           .name = "model.onnx",
                                           .sha256 = PLANNED_SHA256};
    return sp_subject_from_json(&options, json, ret_subject, err);
}

/* Everything that is exported: figures, shardings, collectives, times. */
static void expect_same_files(const struct sp_subject *a, const struct sp_subject *b)
{
    static const char *const formats[] = {"csv",      "csv-devices", "csv-tensors", "csv-collectives",
                                          "perfetto", "op-sharding", "shardy"};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        struct exported x = export_of(a, formats[i]), y = export_of(b, formats[i]);
        cr_expect_eq(x.bytes.size, y.bytes.size, "%s", formats[i]);
        cr_expect(x.bytes.size == y.bytes.size && memcmp(x.bytes.data, y.bytes.data, x.bytes.size) == 0, "%s",
                  formats[i]);
        exported_release(&x);
        exported_release(&y);
    }
}

/* Which forms a plan's stages have: 1 blocks of one device, 2 of several, 4 replicas, 8 an axis that ends elsewhere. */
static unsigned forms(const struct sp_plan *plan)
{
    unsigned found = 0;
    for (uint32_t s = 0; s < plan->result->placement.stage_count; s++) {
        found |= sp_placement_size(&plan->result->placement, s) > 1 ? 2u : 1u;
        found |= sp_placement_replicas(&plan->result->placement, s) > 1 ? 4u : 0u;
    }
    return found;
}

Test(placement_record, every_form_of_plan_is_made_again)
{
    const struct {
        const char *cluster, *objective, *options;
        unsigned forms;
    } cases[] = {
        {eight, "latency", "{\"strategy\": \"tensor\"}", 2},
        {two_nodes, "latency", "{\"strategy\": \"auto\"}", 2},
        {two_nodes, "throughput", "{\"strategy\": \"pipeline\", \"replicas\": 4}", 4},
        {two_nodes, "throughput", "{\"strategy\": \"auto\", \"replicas\": 8}", 0},
        {two_kinds, "throughput", "{\"strategy\": \"auto\"}", 0},
        {two_kinds, "latency", "{\"strategy\": \"tensor\"}", 2},
        {eight, "throughput", "{\"strategy\": \"grouping\"}", 1},
        {eight, "devices", "{\"constraints\": {\"max_stages\": 2}}", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct recorded recorded;
        struct sp_error err = {0};
        struct sp_subject *subject = NULL, *searched = NULL;
        recorded_make(&recorded, cases[i].cluster, cases[i].objective, cases[i].options);
        const struct sp_plan *plan = recorded.model.plan;
        cr_expect_eq(forms(plan) & cases[i].forms, cases[i].forms, "case %zu has %u", i, forms(plan));
        cr_assert_eq(again(&recorded, recorded.json, &subject, &err), SP_OK, "case %zu: %s", i, err.message);
        cr_expect_eq(subject->plan->result->explored, 0, "nothing was searched");
        cr_expect_str_eq(subject->plan->id, plan->id);
        expect_same_files(subject, recorded.model.subject);
        /* An older version wrote no record: the search is repeated. */
        json_object_del(recorded.json, "outline");
        cr_assert_eq(again(&recorded, recorded.json, &searched, &err), SP_OK, "case %zu: %s", i, err.message);
        cr_expect_gt(searched->plan->result->explored, 0);
        expect_same_files(subject, searched);
        sp_subject_destroy(searched);
        sp_subject_destroy(subject);
        recorded_release(&recorded);
    }
}

/* It says so again, and needs no search. */
Test(placement_record, a_plan_whose_search_was_stopped)
{
    struct recorded recorded;
    struct sp_error err = {0};
    struct sp_subject *subject = NULL;
    recorded_make(&recorded, eight, "latency", "{}");
    json_array_append_new(json_object_get(recorded.json, "diagnostics"), json_pack("{s:s}", "code", "SEARCH_STOPPED"));
    cr_assert_eq(again(&recorded, recorded.json, &subject, &err), SP_OK, "%s", err.message);
    cr_expect(subject->plan->result->stopped);
    cr_expect_str_eq(subject->plan->notes[subject->plan->note_count - 1].code, "SEARCH_STOPPED");
    expect_same_files(subject, recorded.model.subject);
    sp_subject_destroy(subject);
    json_object_del(recorded.json, "outline");
    cr_expect_eq(again(&recorded, recorded.json, &subject, &err), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "PLAN_STOPPED");
    recorded_release(&recorded);
}

/* ---- what was edited ------------------------------------------------------------------------------------------- */

/* `path` in the record, parts with blanks between, becomes `value`; "-": it is taken away. */
static void edit(json_t *plan, const char *path, const char *value)
{
    char part[32];
    int length;
    json_t *at = json_object_get(plan, "outline");
    while (sscanf(path, "%31s%n", part, &length) == 1 && path[length] != '\0') {
        at = json_is_array(at) ? json_array_get(at, strtoul(part, NULL, 10)) : json_object_get(at, part);
        path += length;
    }
    json_t *with = json_loads(value, JSON_DECODE_ANY, NULL);
    if (with == NULL && json_is_array(at))
        json_array_remove(at, strtoul(part, NULL, 10));
    else if (with == NULL)
        json_object_del(at, part);
    else if (json_is_array(at))
        json_array_set_new(at, strtoul(part, NULL, 10), with);
    else
        json_object_set_new(at, part, with);
}

static void expect_other_plan(const struct recorded *recorded, const char *path, const char *value)
{
    struct sp_error err = {0};
    struct sp_subject *subject = NULL;
    json_t *changed = json_deep_copy(recorded->json);
    edit(changed, path, value);
    cr_expect_eq(again(recorded, changed, &subject, &err), SP_ERR_REQUEST, "%s = %s", path, value);
    cr_expect_str_eq(err.code, "OTHER_PLAN", "%s = %s: %s", path, value, err.message);
    cr_expect_null(subject);
    sp_subject_destroy(subject);
    json_decref(changed);
}

Test(placement_record, an_record_that_was_edited)
{
    static const char *const changes[][2] = {
        {"stages", "[]"},
        {"stages", "-"},
        {"stages 0 device", "1"},
        {"stages 0 device", "-1"},
        {"stages 0 device", "4294967295"},
        {"stages 0 size", "0"},
        {"stages 0 size", "4"},
        {"stages 0 size", "16"},
        {"stages 0 size", "\"8\""},
        {"stages 0 replicas", "0"},
        {"stages 0 replicas", "2"},
        {"stages 0 replicas", "536870912"},
        {"stages 0 axes", "[]"},
        {"stages 0 axes", "[8]"},
        {"stages 0 axes", "[3, 3]"},
        {"stages 0 axes", "[1, 8]"},
        {"stages 0 axes", "[2, 2, 2, 1, 1]"},
        {"stages 0 axes", "[65536, 65536, 65536, 65536]"},
        {"nodes", "[]"},
        {"nodes", "[[0, 0, 4294967295]]"},
        {"nodes", "[[0, 0, 1000000]]"},
        {"nodes 0", "-"},
        {"nodes 0", "[0, 0]"},
        {"nodes 0 0", "1"},
        {"nodes 0 0", "-7"},
        {"nodes 0 1", "511"},
        {"nodes 0 1", "4294967294"},
        {"nodes 0 1", "0.5"},
    };
    struct recorded recorded;
    recorded_make(&recorded, eight, "latency", "{\"strategy\": \"tensor\"}");
    cr_assert_gt(json_integer_value(json_array_get(
                     json_array_get(json_object_get(json_object_get(recorded.json, "outline"), "nodes"), 0), 1)),
                 0, "the first node is split");
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
        expect_other_plan(&recorded, changes[i][0], changes[i][1]);
    expect_other_plan(&recorded, "nodes 0 1", "0"); /* what could be, but is another plan */
    recorded_release(&recorded);

    recorded_make(&recorded, eight, "throughput", "{\"strategy\": \"pipeline\"}");
    cr_assert_gt(recorded.model.plan->result->placement.stage_count, 1);
    expect_other_plan(&recorded, "stages 1 device", "0"); /* there twice */
    expect_other_plan(&recorded, "nodes 0 0", "1");       /* against the edges, or another plan */
    expect_other_plan(&recorded, "stages 0", "-");
    recorded_release(&recorded);
}
