#include <criterion/criterion.h>

#include "onnx/reader.h"
#include "onnx_bytes.h"
#include "plan/job.h"
#include "recount.h"

/* Two stages, annotated and read again. */
struct annotated {
    struct sp_buf file, result;
    struct sp_arena *arena;
    struct sp_job *job;
    struct sp_plan *plan;
    struct sp_model *model;
};

static bool append(void *context, const void *bytes, size_t size)
{
    sp_buf_append(context, bytes, size);
    return !sp_buf_failed(context);
}

static bool read_original(void *context, uint64_t offset, void *bytes, size_t size)
{
    const struct sp_buf *file = context;
    if (offset > file->size || size > file->size - offset)
        return false;
    memcpy(bytes, file->data + offset, size);
    return true;
}

static void splice_to_buf(const struct sp_splice *splice, struct sp_buf *original, struct sp_buf *ret_result)
{
    struct sp_error err = {0};
    const struct sp_source source = {.read = read_original, .context = original};
    const struct sp_sink sink = {.write = append, .context = ret_result};
    sp_buf_init(ret_result, (size_t)1 << 24);
    cr_assert_eq(sp_splice_stream(splice, &source, &sink, &err), SP_OK, "%s", err.message);
}

static void make(struct annotated *a, int64_t devices, enum sp_objective objective)
{
    struct sp_error err = {0};
    struct sp_cluster *cluster;
    struct sp_plan_options options;
    struct sp_splice *splice;
    memset(a, 0, sizeof *a);
    onnx_mlp(&a->file, &(struct onnx_mlp){.layers = 4, .width = 4096, .batch = "512"});
    a->arena = sp_arena_create(NULL);
    sp_plan_options_init(&options);
    options.max_replicas = 1; /* one plan, no copies */
    options.objective = objective;
    options.tolerance = 0; /* two stages, though one of two devices is nearly as good */
    cr_assert_eq(sp_cluster_uniform(a->arena, "a100-sxm4-80gb", devices, &cluster, &err), SP_OK);
    cr_assert_eq(sp_job_plan(&(struct sp_job_options){.bytes = a->file.data, .size = a->file.size}, cluster, &options,
                             &a->job, &a->plan, &err),
                 SP_OK, "%s", err.message);
    recount_expect_result(a->plan->workload, a->plan->cluster, a->plan->result);
    cr_assert_eq(sp_plan_annotate(a->plan, &splice, &err), SP_OK, "%s", err.message);
    splice_to_buf(splice, &a->file, &a->result);
    sp_splice_destroy(splice);
    cr_assert_eq(sp_onnx_read(a->arena, a->result.data, a->result.size, NULL, &a->model, &err), SP_OK, "%s",
                 err.message);
}

static void release(struct annotated *a)
{
    sp_job_destroy(a->job);
    sp_arena_destroy(a->arena);
    sp_buf_release(&a->file);
    sp_buf_release(&a->result);
}

Test(annotate, the_configuration_names_the_devices_in_use)
{
    struct annotated a;
    make(&a, 2, SP_OBJECTIVE_THROUGHPUT);
    cr_assert_eq(a.model->ir_version, 11);
    cr_assert_eq(a.model->configuration_count, 1);
    const struct sp_device_configuration *configuration = &a.model->configurations[0];
    cr_assert_str_eq(configuration->name, SP_PLAN_CONFIGURATION);
    cr_assert_eq(configuration->num_devices, 2);
    cr_assert_eq(configuration->device_count, 2);
    cr_assert_str_eq(configuration->devices[0], "a100-sxm4-80gb:0");
    cr_assert_str_eq(configuration->devices[1], "a100-sxm4-80gb:1");
    release(&a);
    make(&a, 3, SP_OBJECTIVE_DEVICES);
    cr_assert_eq(a.model->configurations[0].num_devices, 1);
    release(&a);
}

Test(annotate, every_node_has_its_stage_and_the_place_of_each_operand)
{
    struct annotated a;
    make(&a, 2, SP_OBJECTIVE_THROUGHPUT);
    const struct sp_graph *graph = a.model->graph;
    cr_assert_eq(graph->node_count, 8);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct sp_node *node = &graph->nodes[n];
        uint32_t stage = a.plan->result->placement.stage_of[n];
        cr_assert_eq(node->configuration_count, 1);
        const struct sp_node_configuration *configuration = &node->configurations[0];
        cr_expect_str_eq(configuration->configuration_id, SP_PLAN_CONFIGURATION);
        cr_expect(configuration->has_stage);
        cr_expect_eq(configuration->stage, (int32_t)stage);
        cr_assert_eq(configuration->spec_count, node->input_count + node->output_count);
        for (uint32_t i = 0; i < configuration->spec_count; i++) {
            const struct sp_sharding_spec *spec = &configuration->specs[i];
            const struct sp_value *operand =
                i < node->input_count ? node->inputs[i] : node->outputs[i - node->input_count];
            cr_expect_str_eq(spec->tensor_name, operand->name);
            cr_assert_eq(spec->device_count, 1);
            cr_expect_eq(spec->devices[0], (int64_t)stage); /* devices 0 and 1 run stages 0 and 1 */
            cr_expect_eq(spec->axis_count, 0);
            cr_expect_eq(spec->group_count, 0);
        }
    }
    release(&a);
}

Test(annotate, stripping_gives_the_original_back)
{
    struct annotated a;
    struct sp_error err = {0};
    struct sp_splice *splice;
    struct sp_buf stripped;
    make(&a, 2, SP_OBJECTIVE_THROUGHPUT);
    cr_assert_eq(sp_onnx_strip(a.model, &splice, &err), SP_OK, "%s", err.message);
    splice_to_buf(splice, &a.result, &stripped);
    cr_assert_eq(stripped.size, a.file.size);
    cr_assert_arr_eq(stripped.data, a.file.data, a.file.size);
    sp_splice_destroy(splice);
    sp_buf_release(&stripped);
    release(&a);
}
