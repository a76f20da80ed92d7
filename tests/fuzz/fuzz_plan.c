/*
 * The whole program end to end: a model is checked, completed in both modes, planned by every strategy on 1 to 8
 * devices, and each plan is written as everything that a plan is written as: the annotated model, the simulation, the
 * models of the devices for each kind of runtime, and all exports.
 *
 * The bytes are a model; how many devices there are is taken from a hash of them. Devices are slow, so that splitting
 * pays for the smallest model.
 *
 * Under libFuzzer the model is also changed as a model (mutate_model.h): nodes are dropped, repeated, rewired and put
 * into graphs and functions, types and attributes change.
 *
 * Properties: an error has a code and a message and is none of ours, and no small model lacks memory; a plan that was
 * found can be written; what is written is read again; a plan and the model annotated with it give the same points and
 * specs.
 */
#include <stdio.h>
#include <string.h>

#include "export/files.h"
#include "fuzz.h"
#include "fuzz_models.h"
#include "plan/job.h"

#define BUDGET      ((size_t)256 << 20) /* of one job */
#define MAX_PLANNED ((size_t)32 << 10)
#define MAX_DEVICES 8

static void refuse(const struct sp_error *err)
{
    (void)fprintf(stderr, "%s: %s\n", err->code, err->message);
    fuzz_require(false);
}

static void check_error(enum sp_status status, const struct sp_error *err)
{
    if (status != SP_ERR_NOFIT) /* a device's memory is no limit of ours, and has its figures */
        fuzz_check_error(status, err);
    if (status == SP_ERR_MEMORY)
        refuse(err);
}

/* ---- what devices run ------------------------------------------------------------------------------------------- */

static bool read_model(void *context, uint32_t source, uint64_t offset, void *bytes, size_t size)
{
    const struct sp_model_file *file = context;
    if (source == 0)
        memcpy(bytes, (const uint8_t *)file->bytes + offset, size);
    else
        memset(bytes, 0, size); /* external data, which nobody has */
    return true;
}

static bool append(void *context, const void *bytes, size_t size)
{
    sp_buf_append(context, bytes, size);
    return !sp_buf_failed(context);
}

/* A file is a model; destroys the recipe. */
static void check_file(const struct sp_subject *subject, struct sp_recipe *recipe)
{
    const struct sp_recipe_reader reader = {read_model, (void *)subject->file};
    struct sp_error err = {0};
    struct sp_buf file;
    const struct sp_sink sink = {.write = append, .context = &file};
    sp_buf_init(&file, BUDGET);
    if (sp_recipe_stream(recipe, &reader, &sink, &err) == SP_OK) {
        fuzz_check_file(&file);
    } else {
        fuzz_require(err.status == SP_ERR_IO); /* too large */
    }
    sp_buf_release(&file);
    sp_recipe_destroy(recipe);
}

static void check_simulation(const struct sp_subject *subject)
{
    const struct sp_file_request request = {.subject = subject, .format = "simulation", .device = SP_FILE_NO_DEVICE};
    struct sp_recipe *recipe = NULL;
    struct sp_error err = {0};
    enum sp_status status = sp_file_create(&request, &recipe, &err);
    if (status == SP_OK)
        check_file(subject, recipe);
    else
        check_error(status, &err);
}

static void check_devices(const struct sp_subject *subject, const char *format)
{
    const struct sp_file_request file = {.subject = subject, .format = format, .device = SP_FILE_NO_DEVICE};
    struct sp_links links;
    const struct sp_realize_request request = sp_file_realization(&file, &links);
    enum sp_realize_target target = SP_TARGET_ORT;
    struct sp_device_plan *plan = NULL;
    struct sp_error err = {0};
    struct sp_budget budget = {.limit = BUDGET};
    struct sp_arena *arena = sp_arena_create(&budget);
    fuzz_require(arena != NULL && sp_file_is_of_devices(format, &target));
    enum sp_status status = sp_device_plan_create(arena, &request, target, &plan, &err);
    for (int64_t device = 0; status == SP_OK && device < subject->device_count; device++) {
        struct sp_recipe **recipes = SP_NEW_ARRAY(arena, sp_device_plan_parts(plan, device), struct sp_recipe *);
        fuzz_require(recipes != NULL);
        status = sp_realize_device(&request, plan, device, recipes, &err);
        for (uint32_t i = 0; status == SP_OK && i < sp_device_plan_parts(plan, device); i++)
            if (recipes[i] != NULL)
                check_file(subject, recipes[i]);
    }
    if (status != SP_OK)
        check_error(status, &err);
    sp_arena_destroy(arena);
}

/* ---- plans ------------------------------------------------------------------------------------------------------ */

static void expect_same(const struct sp_subject *a, const struct sp_subject *b, const char *format)
{
    struct sp_buf x, y;
    const bool is_written = fuzz_export(a, format, &x);
    fuzz_require(fuzz_export(b, format, &y) == is_written);
    if (is_written)
        fuzz_require(x.size == y.size && (x.size == 0 || memcmp(x.data, y.data, x.size) == 0));
    sp_buf_release(&x);
    sp_buf_release(&y);
}

/* The model that the plan was written into says the same. */
static void check_annotated(const struct sp_subject *subject, const struct sp_buf *written)
{
    const struct sp_job_options options = {.bytes = written->data, .size = written->size, .memory_budget = BUDGET};
    struct sp_subject *read = NULL;
    struct sp_error err = {0};
    enum sp_status status = sp_subject_from_model(&options, "shardplan", &read, &err);
    if (status != SP_OK) {
        check_error(status, &err);
        return;
    }
    expect_same(subject, read, "poprt");
    bool is_known = true; /* the extents that the plan took are not in the file */
    for (uint32_t i = 0; i < read->model->graph->value_count; i++) {
        const struct sp_shape *shape = &read->model->graph->values[i]->type.shape;
        is_known = is_known && shape->has_rank;
        for (uint32_t axis = 0; is_known && axis < shape->rank; axis++)
            is_known = sp_dim_is_known(shape->dims[axis]);
    }
    if (is_known)
        expect_same(subject, read, "op-sharding");
    sp_subject_destroy(read);
}

/* Whether shapes can be inferred without the extents of a plan. */
static bool opens(const uint8_t *bytes, size_t size)
{
    const struct sp_job_options options = {.bytes = bytes, .size = size, .memory_budget = BUDGET};
    struct sp_job *job = NULL;
    bool is_ok = sp_job_open(&options, &job, NULL) == SP_OK;
    sp_job_destroy(job);
    return is_ok;
}

static void check_written(struct sp_job *job, const struct sp_plan *plan, const uint8_t *bytes, size_t size)
{
    struct sp_splice *splice = NULL;
    struct sp_subject *subject = NULL;
    struct sp_error err = {0};
    if (plan->result->failure != NULL) /* the plan is that of other ways of searching */
        fuzz_check_error(plan->result->failure->status, plan->result->failure);
    enum sp_status status = sp_plan_annotate(plan, &splice, &err);
    if (status != SP_OK) {
        check_error(status, &err);
        return;
    }
    struct sp_buf written = fuzz_realise(splice, bytes);
    fuzz_check_strip(&written, bytes, size);
    status = sp_subject_from_plan(job, plan, &subject, &err);
    if (status != SP_OK) {
        check_error(status, &err);
    } else {
        check_annotated(subject, &written);
        fuzz_check_formats(subject, opens(bytes, size));
        check_simulation(subject);
        check_devices(subject, "ort-collectives");
        check_devices(subject, "tensorrt");
        check_devices(subject, "sessions");
    }
    sp_subject_destroy(subject);
    sp_buf_release(&written);
}

static struct sp_cluster *make_cluster(struct sp_arena *arena, int64_t devices)
{
    json_t *json = json_pack("{s:[{s:s, s:I, s:{s:s, s:f, s:f, s:{s:f}}}], s:[{s:s, s:I, s:f, s:f}]}", "groups", "name",
                             "slow", "count", (json_int_t)devices, "device", "name", "slow", "memory_bytes", 1e12,
                             "memory_bandwidth", 1e12, "flops", "float32", 1e7, "mesh", "name", "link", "size",
                             (json_int_t)devices, "bandwidth", 1e12, "latency", 1e-7);
    struct sp_cluster *cluster = NULL;
    fuzz_require(json != NULL && sp_cluster_parse(arena, json, "", &cluster, NULL) == SP_OK);
    json_decref(json);
    return cluster;
}

static void check_plan(const uint8_t *bytes, size_t size, enum sp_search_strategy strategy, int64_t devices)
{
    const struct sp_job_options options = {.bytes = bytes, .size = size, .memory_budget = BUDGET};
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_plan_options asked;
    struct sp_job *job = NULL;
    struct sp_plan *plan;
    struct sp_error err = {0};
    sp_plan_options_init(&asked);
    asked.strategy = strategy;
    enum sp_status status = sp_job_plan(&options, make_cluster(arena, devices), &asked, &job, &plan, &err);
    if (status == SP_OK)
        check_written(job, plan, bytes, size);
    else
        check_error(status, &err);
    sp_job_destroy(job);
    sp_arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const uint64_t hash = fuzz_hash(bytes, size);
    if (size > MAX_PLANNED)
        return 0;
    const bool was_valid = fuzz_check_model(bytes, size);
    fuzz_complete_model(bytes, size, "forward", hash, was_valid);
    fuzz_complete_model(bytes, size, "propagate", hash >> 7, was_valid);
    for (int strategy = SP_STRATEGY_AUTO; strategy <= SP_STRATEGY_TENSOR; strategy++)
        check_plan(bytes, size, (enum sp_search_strategy)strategy, 1 + (int64_t)(hash >> 16) % MAX_DEVICES);
    return 0;
}
