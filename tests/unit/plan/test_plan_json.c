#include <criterion/criterion.h>

#include "onnx_bytes.h"
#include "plan/job.h"
#include "recount.h"

/* One planned model and its JSON. */
struct planned {
    struct sp_buf file;
    struct sp_arena *arena;
    struct sp_cluster *cluster;
    struct sp_job *job;
    struct sp_plan *plan;
    struct sp_error err;
    json_t *json;
};

static json_t *plan_json(const struct sp_plan *plan)
{
    struct sp_buf text;
    struct sp_json json;
    json_error_t where;
    sp_buf_init(&text, (size_t)1 << 26);
    sp_json_init_buf(&json, false, &text);
    sp_plan_write_json(plan, 0.25, &json);
    cr_assert_eq(sp_json_finish(&json, NULL), SP_OK);
    json_t *parsed = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, &where);
    cr_assert_not_null(parsed, "%s", where.text);
    sp_buf_release(&text);
    return parsed;
}

static enum sp_status make(struct planned *p, const struct onnx_mlp *model, int64_t devices,
                           const struct sp_plan_options *options)
{
    memset(p, 0, sizeof *p);
    onnx_mlp(&p->file, model);
    p->arena = sp_arena_create(NULL);
    cr_assert_eq(sp_cluster_uniform(p->arena, "a100-sxm4-80gb", devices, &p->cluster, &p->err), SP_OK);
    const struct sp_job_options job_options = {
        .bytes = p->file.data, .size = p->file.size, .name = "mlp.onnx", .sha256 = "00ff"};
    enum sp_status status = sp_job_plan(&job_options, p->cluster, options, &p->job, &p->plan, &p->err);
    if (status != SP_OK)
        return status;
    recount_expect_result(p->plan->workload, p->plan->cluster, p->plan->result);
    p->json = plan_json(p->plan);
    return SP_OK;
}

static void release(struct planned *p)
{
    json_decref(p->json);
    sp_job_destroy(p->job);
    sp_arena_destroy(p->arena);
    sp_buf_release(&p->file);
}

/* Eight layers that take far longer to compute than to send. */
static const struct onnx_mlp deep = {.layers = 8, .width = 4096, .batch = "512"};

/* The best plan is the answer: two stages, which send something, though one of two devices is nearly as good. */
static struct sp_plan_options defaults(void)
{
    struct sp_plan_options options;
    sp_plan_options_init(&options);
    options.max_replicas = 1; /* one plan, no copies */
    options.tolerance = 0;
    return options;
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    cr_assert_not_null(text, "%s is missing", name);
    return text;
}

static double number_of(const json_t *object, const char *name)
{
    const json_t *number = json_object_get(object, name);
    cr_assert(json_is_number(number), "%s is no number", name);
    return json_number_value(number);
}

static const json_t *find(const json_t *array, const char *key, const char *name)
{
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)array, i, item)
    {
        if (strcmp(text_of(item, key), name) == 0)
            return item;
    }
    cr_assert_fail("no entry '%s'", name);
    return NULL;
}

Test(plan_json, every_member_of_the_contract_is_there)
{
    static const char *const members[] = {"plan",        "id",          "model",  "cluster", "objective",
                                          "options",     "estimate",    "stages", "devices", "tensors",
                                          "collectives", "diagnostics", "search", "why"};
    static const char *const estimate[] = {"latency_seconds", "throughput_per_second", "communication_bytes",
                                           "lower_bound_seconds", "gap"};
    struct planned p;
    struct sp_plan_options options = defaults();
    cr_assert_eq(make(&p, &deep, 2, &options), SP_OK, "%s", p.err.message);
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        cr_expect_not_null(json_object_get(p.json, members[i]), "%s", members[i]);
    for (size_t i = 0; i < sizeof estimate / sizeof estimate[0]; i++)
        (void)number_of(json_object_get(p.json, "estimate"), estimate[i]);
    cr_assert_str_eq(text_of(p.json, "plan"), "1");
    cr_assert_str_eq(text_of(json_object_get(p.json, "model"), "sha256"), "00ff");
    cr_assert_str_eq(text_of(json_object_get(p.json, "search"), "strategy"), "auto");
    cr_assert_eq(number_of(json_object_get(p.json, "search"), "seconds"), 0.25);
    release(&p);
}

Test(plan_json, stages_hold_every_node_once_and_devices_agree)
{
    struct planned p;
    struct sp_plan_options options = defaults();
    cr_assert_eq(make(&p, &deep, 2, &options), SP_OK, "%s", p.err.message);
    const json_t *stages = json_object_get(p.json, "stages"), *devices = json_object_get(p.json, "devices");
    json_t *seen = json_object();
    cr_assert_eq(json_array_size(stages), 2);
    cr_assert_eq(json_array_size(devices), 2);
    for (size_t s = 0; s < 2; s++) {
        const json_t *stage = json_array_get(stages, s), *nodes = json_object_get(stage, "nodes");
        size_t device = (size_t)json_integer_value(json_array_get(json_object_get(stage, "devices"), 0));
        cr_assert(json_equal(nodes, json_object_get(json_array_get(devices, device), "nodes")));
        for (size_t n = 0; n < json_array_size(nodes); n++)
            (void)json_object_set_new(seen, json_string_value(json_array_get(nodes, n)), json_true());
        /* Equal layers on equal devices: half of the weights on each. */
        const json_t *memory = json_object_get(json_array_get(devices, device), "memory");
        cr_expect_eq(number_of(memory, "weights_bytes"), 4.0 * 4096 * 4096 * 4);
        cr_expect_leq(number_of(memory, "total_bytes"), number_of(memory, "capacity_bytes"));
        cr_expect_geq(number_of(json_array_get(devices, device), "idle_seconds"), 0);
    }
    cr_assert_eq(json_object_size(seen), 16);
    json_decref(seen);
    release(&p);
}

Test(plan_json, tensors_say_where_they_are_and_why)
{
    struct planned p;
    struct sp_plan_options options = defaults();
    cr_assert_eq(make(&p, &deep, 2, &options), SP_OK, "%s", p.err.message);
    const json_t *tensors = json_object_get(p.json, "tensors");
    const json_t *collectives = json_object_get(p.json, "collectives");
    cr_assert_str_eq(text_of(find(tensors, "name", "w0"), "because"), "weight used only by stage 0");
    cr_assert_str_eq(text_of(find(tensors, "name", "x"), "because"), "input of the model, used on device 0");
    cr_assert_str_eq(text_of(find(tensors, "name", "y"), "because"), "result of the model, produced on device 1");
    cr_assert_eq(json_array_size(collectives), 1);
    const json_t *send = json_array_get(collectives, 0);
    cr_assert_str_eq(text_of(send, "kind"), "send");
    cr_assert_str_eq(text_of(send, "tensor"), "a3");
    cr_assert_str_eq(text_of(send, "after_node"), "relu3");
    cr_assert_eq(number_of(send, "bytes"), 512.0 * 4096 * 4);
    const json_t *sent = find(tensors, "name", "a3");
    cr_assert_str_eq(text_of(sent, "because"), "produced on device 0, used on device 1: sent there once");
    const json_t *spec = json_object_get(sent, "spec"), *onnx = json_object_get(spec, "onnx");
    cr_assert_str_eq(text_of(spec, "text"), "RR");
    cr_assert_str_eq(text_of(onnx, "tensor_name"), "a3");
    cr_assert_eq(json_array_size(json_object_get(onnx, "device")), 2);
    cr_assert_null(json_object_get(onnx, "sharded_dim"));
    release(&p);
}

Test(plan_json, the_gap_is_between_estimate_and_bound)
{
    struct planned p;
    struct sp_plan_options options = defaults();
    cr_assert_eq(make(&p, &deep, 2, &options), SP_OK, "%s", p.err.message);
    const json_t *estimate = json_object_get(p.json, "estimate");
    double interval = number_of(estimate, "interval_seconds"), bound = number_of(estimate, "lower_bound_seconds");
    cr_assert_leq(bound, interval * (1 + 1e-9));
    cr_assert_float_eq(number_of(estimate, "gap"), interval > bound ? (interval - bound) / interval : 0, 1e-12);
    cr_assert_float_eq(number_of(estimate, "throughput_per_second") * interval, 1, 1e-12);
    cr_assert_not_null(strstr(text_of(estimate, "bottleneck"), "limits the throughput"));
    release(&p);
    options.objective = SP_OBJECTIVE_LATENCY;
    cr_assert_eq(make(&p, &deep, 2, &options), SP_OK, "%s", p.err.message);
    estimate = json_object_get(p.json, "estimate");
    cr_assert_leq(number_of(estimate, "lower_bound_seconds"), number_of(estimate, "latency_seconds") * (1 + 1e-9));
    cr_assert_not_null(strstr(text_of(estimate, "bottleneck"), "of the latency"));
    release(&p);
}

Test(plan_json, the_same_question_has_the_same_answer)
{
    struct planned a, b;
    struct sp_plan_options options = defaults();
    cr_assert_eq(make(&a, &deep, 4, &options), SP_OK);
    cr_assert_eq(make(&b, &deep, 4, &options), SP_OK);
    cr_assert(json_equal(a.json, b.json));
    cr_assert_eq(strlen(a.plan->id), 32);
    release(&b);
    options.seed = 1;
    cr_assert_eq(make(&b, &deep, 4, &options), SP_OK);
    cr_assert_str_neq(a.plan->id, b.plan->id);
    release(&b);
    options = defaults();
    cr_assert_eq(make(&b, &deep, 3, &options), SP_OK);
    cr_assert_str_neq(a.plan->id, b.plan->id);
    release(&b);
    release(&a);
}

Test(plan_json, devices_that_stay_free_are_listed)
{
    struct planned p;
    struct sp_plan_options options = defaults();
    options.objective = SP_OBJECTIVE_DEVICES;
    cr_assert_eq(make(&p, &deep, 3, &options), SP_OK, "%s", p.err.message);
    const json_t *devices = json_object_get(p.json, "devices");
    cr_assert_eq(json_array_size(json_object_get(p.json, "stages")), 1);
    cr_assert_eq(json_array_size(devices), 3);
    cr_assert(json_is_null(json_object_get(json_array_get(devices, 2), "stage")));
    cr_assert_eq(number_of(json_array_get(devices, 2), "flops"), 0);
    cr_assert_str_eq(text_of(json_array_get(json_object_get(p.json, "stages"), 0), "because"),
                     "the whole model fits on one device");
    release(&p);
}

/* ---- binding dimensions ---- */

static const json_t *shape_of(const struct planned *p, const char *tensor)
{
    return json_object_get(find(json_object_get(p->json, "tensors"), "name", tensor), "shape");
}

Test(plan_json, unbound_dimensions_are_assumed_and_noted)
{
    struct planned p;
    struct sp_plan_options options = defaults();
    const struct onnx_mlp model = {.layers = 1, .width = 16, .batch = "n", .extra = "seq"};
    cr_assert_eq(make(&p, &model, 1, &options), SP_OK, "%s", p.err.message);
    const json_t *notes = json_object_get(p.json, "diagnostics");
    cr_assert_eq(json_array_size(notes), 2);
    cr_assert_str_eq(text_of(json_array_get(notes, 0), "code"), "DIMENSION_ASSUMED");
    cr_assert_str_eq(text_of(json_array_get(notes, 0), "severity"), "note");
    cr_assert_eq(json_integer_value(json_array_get(shape_of(&p, "s"), 0)), SP_ASSUMED_BATCH);
    cr_assert_eq(json_integer_value(json_array_get(shape_of(&p, "s"), 1)), SP_ASSUMED_DIMENSION);
    release(&p);
}

Test(plan_json, batch_and_dims_bind)
{
    struct planned p;
    struct sp_plan_options options = defaults();
    const struct onnx_mlp model = {.layers = 1, .width = 16, .batch = "n", .extra = "seq"};
    options.batch = 6;
    options.sizes.dim_count = 1;
    options.sizes.dim_names = (const char *[]){"seq"};
    options.sizes.dim_values = (int64_t[]){11};
    cr_assert_eq(make(&p, &model, 1, &options), SP_OK, "%s", p.err.message);
    cr_assert_eq(json_array_size(json_object_get(p.json, "diagnostics")), 0);
    cr_assert_eq(json_integer_value(json_array_get(shape_of(&p, "z"), 0)), 6);
    cr_assert_eq(json_integer_value(json_array_get(shape_of(&p, "z"), 1)), 11);
    release(&p);
    options.sizes.dim_names = (const char *[]){"n"};
    cr_assert_eq(make(&p, &model, 1, &options), SP_ERR_REQUEST);
    cr_assert_str_eq(p.err.code, "BATCH_CONTRADICTED");
    release(&p);
}

Test(plan_json, a_nameless_batch_is_bound_too)
{
    struct planned p;
    struct sp_plan_options options = defaults();
    const struct onnx_mlp model = {.layers = 1, .width = 16, .batch = NULL};
    options.batch = 3;
    cr_assert_eq(make(&p, &model, 1, &options), SP_OK, "%s", p.err.message);
    cr_assert_eq(json_integer_value(json_array_get(shape_of(&p, "y"), 0)), 3);
    release(&p);
    options.batch = 0;
    cr_assert_eq(make(&p, &model, 1, &options), SP_OK, "%s", p.err.message);
    cr_assert_eq(json_array_size(json_object_get(p.json, "diagnostics")), 1);
    release(&p);
}

Test(plan_json, a_fixed_batch_takes_no_other)
{
    struct planned p;
    struct sp_plan_options options = defaults();
    const struct onnx_mlp model = {.layers = 1, .width = 16, .batch = "4"};
    options.batch = 8;
    cr_assert_eq(make(&p, &model, 1, &options), SP_ERR_REQUEST);
    cr_assert_str_eq(p.err.code, "BATCH_IS_FIXED");
    cr_assert_null(p.job);
    release(&p);
    options.batch = 4;
    cr_assert_eq(make(&p, &model, 1, &options), SP_OK, "%s", p.err.message);
    release(&p);
}

Test(plan_json, what_does_not_fit_is_refused)
{
    struct planned p;
    struct sp_plan_options options = defaults();
    /* Two weights of 64 GB do not fit one device of 80 GB, and each fits one. */
    const struct onnx_mlp model = {.layers = 2, .width = 126491, .batch = "1"};
    cr_assert_eq(make(&p, &model, 1, &options), SP_ERR_NOFIT);
    cr_assert_eq(p.err.limit_value, 2, "%s", p.err.message);
    release(&p);
    cr_assert_eq(make(&p, &model, 2, &options), SP_OK, "%s", p.err.message);
    release(&p);
}

/* Whatever the budget, the job is done or says that memory is missing; leaks are the sanitizer's to find. */
static bool until_something_fits(void *context, const char *phase, double fraction, double best, double bound)
{
    (void)phase;
    (void)fraction;
    (void)bound;
    return *(const bool *)context && best == 0;
}

/* A watch that says stop ends the search: with a plan that says so once one was found, as cancelled before. */
Test(plan_json, a_stopped_search_is_noted)
{
    struct sp_buf file;
    struct sp_error err = {0};
    struct sp_cluster *cluster;
    struct sp_plan_options options = defaults();
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_job *job = NULL;
    struct sp_plan *plan;
    bool go_on = true;
    const struct sp_watch watch = {.tick = until_something_fits, .context = &go_on};
    onnx_mlp(&file, &(struct onnx_mlp){.layers = 3000, .width = 64, .batch = "4"});
    const struct sp_job_options job_options = {.bytes = file.data, .size = file.size, .watch = &watch};
    cr_assert_eq(sp_cluster_uniform(arena, "a100-sxm4-80gb", 4, &cluster, &err), SP_OK);
    cr_assert_eq(sp_job_plan(&job_options, cluster, &options, &job, &plan, &err), SP_OK, "%s", err.message);
    recount_expect_result(plan->workload, plan->cluster, plan->result);
    json_t *json = plan_json(plan);
    cr_assert_not_null(find(json_object_get(json, "diagnostics"), "code", "SEARCH_STOPPED"));
    json_decref(json);
    sp_job_destroy(job);
    go_on = false;
    cr_assert_eq(sp_job_plan(&job_options, cluster, &options, &job, &plan, &err), SP_ERR_CANCELLED);
    sp_buf_release(&file);
    sp_arena_destroy(arena);
}

Test(plan_json, any_budget_ends_well)
{
    struct sp_buf file;
    struct sp_error err;
    struct sp_cluster *cluster;
    struct sp_plan_options options = defaults();
    struct sp_arena *arena = sp_arena_create(NULL);
    int refused = 0, done = 0;
    onnx_mlp(&file, &(struct onnx_mlp){.layers = 30, .width = 16, .batch = "n"});
    cr_assert_eq(sp_cluster_uniform(arena, "a100-sxm4-80gb", 3, &cluster, &err), SP_OK);
    for (size_t budget = 4096; budget < ((size_t)64 << 20); budget += budget / 8) {
        const struct sp_job_options job_options = {.bytes = file.data, .size = file.size, .memory_budget = budget};
        struct sp_job *job = NULL;
        struct sp_plan *plan;
        sp_error_clear(&err);
        enum sp_status status = sp_job_plan(&job_options, cluster, &options, &job, &plan, &err);
        if (status == SP_OK) {
            struct sp_buf text;
            struct sp_json json;
            recount_expect_result(plan->workload, plan->cluster, plan->result);
            sp_buf_init(&text, (size_t)1 << 24);
            sp_json_init_buf(&json, false, &text);
            sp_plan_write_json(plan, 0, &json);
            done += sp_json_finish(&json, NULL) == SP_OK;
            sp_buf_release(&text);
        } else {
            cr_assert_eq(status, SP_ERR_MEMORY, "with %zu bytes: %s", budget, err.message);
            cr_assert_null(job);
            refused++;
        }
        sp_job_destroy(job);
    }
    cr_assert_gt(refused, 10);
    cr_assert_gt(done, 10);
    sp_buf_release(&file);
    sp_arena_destroy(arena);
}

/* ---- text ---- */

Test(plan_json, the_text_is_made_for_a_terminal)
{
    struct planned p;
    struct sp_plan_options options = defaults();
    struct sp_buf text;
    cr_assert_eq(make(&p, &deep, 2, &options), SP_OK, "%s", p.err.message);
    sp_buf_init(&text, (size_t)1 << 20);
    sp_plan_write_text(p.plan, &text);
    cr_assert_not(sp_buf_failed(&text));
    cr_assert_not_null(strstr(text.data, "mlp.onnx"), "%s", text.data);
    cr_assert_not_null(strstr(text.data, "mm0 .. relu3"), "%s", text.data);
    cr_assert_not_null(strstr(text.data, "0 -> 1"), "%s", text.data);
    cr_assert_not_null(strstr(text.data, p.plan->id), "%s", text.data);
    for (const char *line = text.data; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        cr_expect_leq(length, 110, "%.*s", (int)length, line);
        line += length + (line[length] == '\n');
    }
    sp_buf_release(&text);
    release(&p);
}
