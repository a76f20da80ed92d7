/* Plans of one model on several clusters that share what they have in common, against each planned alone. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "data_files.h"
#include "onnx_bytes.h"
#include "plan/internal.h"
#include "plan/shared_work.h"

#define MOST_CLUSTERS 16

static const struct onnx_mlp deep = {.layers = 8, .width = 2048, .batch = "256"};

struct asked {
    struct sp_arena *arena;
    struct sp_job_options job_options;
    struct sp_plan_options options;
    uint32_t cluster_count;
    const struct sp_cluster *clusters[MOST_CLUSTERS];
};

static void begin(struct asked *a, const void *bytes, size_t size)
{
    *a = (struct asked){.arena = sp_arena_create(NULL), .job_options = {.bytes = bytes, .size = size, .name = "m"}};
    sp_plan_options_init(&a->options);
}

static void add(struct asked *a, const char *text)
{
    json_error_t where;
    struct sp_error err = {0};
    struct sp_cluster *cluster;
    json_t *json = json_loads(text, 0, &where);
    cr_assert_not_null(json, "%s", where.text);
    cr_assert_eq(sp_cluster_parse(a->arena, json, "", &cluster, &err), SP_OK, "%s", err.message);
    json_decref(json);
    a->clusters[a->cluster_count++] = cluster;
}

static void add_fleets(struct asked *a, const char *device)
{
    for (int64_t count = 8; count >= 1; count /= 2) {
        struct sp_error err = {0};
        struct sp_cluster *cluster;
        cr_assert_eq(sp_cluster_uniform(a->arena, device, count, &cluster, &err), SP_OK);
        a->clusters[a->cluster_count++] = cluster;
    }
}

/* The plan as JSON, or the error. */
static void write_answer(enum sp_status status, const struct sp_plan *plan, const struct sp_error *err,
                         struct sp_buf *ret_text)
{
    struct sp_json json;
    struct sp_error failed = {0};
    sp_buf_init(ret_text, (size_t)64 << 20);
    if (status != SP_OK) {
        sp_buf_printf(ret_text, "%s %s %s", err->code, err->where, err->message);
        return;
    }
    sp_json_init_buf(&json, false, ret_text);
    sp_plan_write_json(plan, 0, &json);
    cr_assert_eq(sp_json_finish(&json, &failed), SP_OK);
}

static void plan(const struct asked *a, struct sp_job *base, const struct sp_cluster *cluster, struct sp_buf *ret_text)
{
    struct sp_job *job = NULL;
    struct sp_plan *made = NULL;
    struct sp_error err = {0};
    const enum sp_status status =
        base == NULL ? sp_job_plan(&a->job_options, cluster, &a->options, &job, &made, &err)
                     : sp_job_plan_on_base(base, &a->job_options, cluster, &a->options, &job, &made, &err);
    write_answer(status, made, &err, ret_text);
    sp_job_destroy(job);
}

/* How many workloads the plans had between them. */
static uint32_t compare(struct asked *a)
{
    struct sp_job *base = NULL;
    struct sp_error err = {0};
    uint32_t works = 0;
    cr_assert_eq(sp_job_open_base(&a->job_options, &a->options, &base, &err), SP_OK, "%s", err.message);
    for (uint32_t i = 0; i < a->cluster_count; i++) {
        struct sp_buf shared, alone;
        plan(a, base, a->clusters[i], &shared);
        plan(a, NULL, a->clusters[i], &alone);
        cr_expect(shared.size == alone.size && memcmp(shared.data, alone.data, alone.size) == 0,
                  "cluster %u:\n%.300s\nnot\n%.300s", i, shared.data, alone.data);
        sp_buf_release(&shared);
        sp_buf_release(&alone);
    }
    for (const struct sp_shared_work *work = base->shared_work; work != NULL; work = work->next)
        works++;
    sp_job_destroy(base);
    sp_arena_destroy(a->arena);
    return works;
}

static void compare_file(const char *name, enum sp_objective objective)
{
    struct asked a;
    size_t size;
    unsigned char *bytes = data_read(name, &size);
    cr_assert_not_null(bytes, "%s", name);
    begin(&a, bytes, size);
    a.options.objective = objective;
    add_fleets(&a, "l4-24gb");
    add_fleets(&a, "a100-sxm4-80gb");
    cr_expect_eq(compare(&a), 2);
    free(bytes);
}

Test(shared_work, fleets_of_several_types_get_the_plans_that_they_get_alone)
{
    compare_file(SOURCE_ROOT "/tests/data/transformer_tiny.onnx", SP_OBJECTIVE_THROUGHPUT);
    compare_file(SOURCE_ROOT "/tests/data/transformer_tiny.onnx", SP_OBJECTIVE_LATENCY);
    compare_file(SOURCE_ROOT "/tests/data/transformer_tiny.onnx", SP_OBJECTIVE_DEVICES);
    compare_file(SOURCE_ROOT "/tests/data/resnet50.onnx", SP_OBJECTIVE_THROUGHPUT);
}

#define DEVICE(memory, bandwidth)                                                                                      \
    "\"device\": {\"name\": \"s\", \"memory_bytes\": " memory ", \"memory_bandwidth\": " bandwidth                     \
    ", \"link_bandwidth\": 2.5e10, \"flops\": {\"float32\": 1e13}}"
#define MESH(bandwidth)                                                                                                \
    "\"mesh\": [{\"name\": \"node\", \"size\": 2, \"bandwidth\": 1e9, \"latency\": 1e-5}, "                            \
    "{\"name\": \"gpu\", \"size\": 4, \"bandwidth\": " bandwidth ", \"latency\": 1e-6}]"

/* Eight layers of 16 MB each: memory decides which stages there are, and on few devices that there are none. */
Test(shared_work, memory_and_links_are_each_clusters_own)
{
    static const char *const clusters[] = {
        "{\"count\": 4, " DEVICE("6e7", "1e12") "}",
        "{\"count\": 2, " DEVICE("6e7", "1e12") "}",
        "{\"count\": 1, " DEVICE("6e7", "1e12") "}",
        "{\"count\": 4, " DEVICE("9e7", "1e12") "}",
        "{\"count\": 8, " DEVICE("6e7", "1e12") ", " MESH("1e11") "}",
        "{\"count\": 8, " DEVICE("6e7", "1e12") ", " MESH("2e11") "}",
        "{\"count\": 4, " DEVICE("6e7", "2e12") "}",
    };
    static const enum sp_objective objectives[] = {SP_OBJECTIVE_THROUGHPUT, SP_OBJECTIVE_LATENCY, SP_OBJECTIVE_DEVICES};
    for (size_t o = 0; o < sizeof objectives / sizeof *objectives; o++) {
        struct asked a;
        struct sp_buf file;
        onnx_mlp(&file, &deep);
        begin(&a, file.data, file.size);
        a.options.objective = objectives[o];
        for (size_t i = 0; i < sizeof clusters / sizeof *clusters; i++)
            add(&a, clusters[i]);
        cr_expect_eq(compare(&a), 2); /* the last ones read faster */
        sp_buf_release(&file);
    }
}

Test(shared_work, a_plan_keeps_the_model_that_it_is_of)
{
    struct asked a;
    struct sp_buf file, text;
    struct sp_job *base = NULL, *job = NULL;
    struct sp_plan *made = NULL;
    struct sp_error err = {0};
    onnx_mlp(&file, &deep);
    begin(&a, file.data, file.size);
    add_fleets(&a, "a100-sxm4-80gb");
    cr_assert_eq(sp_job_open_base(&a.job_options, &a.options, &base, &err), SP_OK);
    cr_assert_eq(sp_job_plan_on_base(base, &a.job_options, a.clusters[0], &a.options, &job, &made, &err), SP_OK);
    sp_job_destroy(base);
    write_answer(SP_OK, made, &err, &text);
    cr_expect_gt(text.size, 0);
    sp_buf_release(&text);
    sp_job_destroy(job);
    sp_arena_destroy(a.arena);
    sp_buf_release(&file);
}

Test(shared_work, graphs_of_costs_have_none)
{
    static const char graph[] = "{\"nodes\":[{\"id\":1,\"seconds\":1}]}";
    struct asked a;
    struct sp_job *base = NULL;
    struct sp_error err = {0};
    begin(&a, graph, strlen(graph));
    cr_expect_eq(sp_job_open_base(&a.job_options, &a.options, &base, &err), SP_OK, "%s", err.message);
    cr_expect(base == NULL);
    sp_arena_destroy(a.arena);
}
