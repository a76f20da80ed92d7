/*
 * How far a plan's figures may be off: against sums over its nodes and transfers, each times the residual of its class
 * as this file knows it.
 */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "build_sharded.h"
#include "plan/explain/why.h"
#include "plan/job.h"
#include "random_workload.h"

#define EXPECT_NEAR(value, want)                                                                                       \
    cr_expect(fabs((value) - (want)) <= 1e-9 * fabs((double)(want)), "%s is %.17g, not %.17g", #value,                 \
              (double)(value), (double)(want))

/* Predicted / measured, so that measured times lie from t / high to t / low. */
#define PRODUCTS_LOW     0.5
#define PRODUCTS_HIGH    2.0
#define OTHER_LOW        0.8
#define OTHER_HIGH       1.25
#define COLLECTIVES_LOW  0.4
#define COLLECTIVES_HIGH 1.6
#define MEMORY_LOW       0.5
#define MEMORY_HIGH      4.0

static const struct onnx_mlp wide = {.layers = 4, .width = 8192, .batch = "4096"};

/* A plan whose A100s have these residuals; their runtime starts collectives one by one. */
static void make(struct sharded_model *model, const struct sharded_options *options)
{
    struct sp_buf file;
    struct sp_error err = {0};
    onnx_mlp(&file, &wide);
    sharded_make(model, file, options);
    struct sp_cluster *cluster = model->planned.cluster;
    struct sp_device_residual *residuals = cluster->groups[0].device.residuals;
    cluster->groups[0].device.runtime = SP_RUNTIME_ONNXRUNTIME;
    cluster->efficiency = 0;
    cluster->launch_seconds = SP_LAUNCH_NOT_STATED;
    residuals[SP_DEVICE_CLASS_PRODUCTS] = (struct sp_device_residual){PRODUCTS_LOW, PRODUCTS_HIGH};
    residuals[SP_DEVICE_CLASS_OTHER] = (struct sp_device_residual){OTHER_LOW, OTHER_HIGH};
    residuals[SP_DEVICE_CLASS_COLLECTIVES] = (struct sp_device_residual){0.9, 1.1};
    residuals[SP_DEVICE_CLASS_EAGER_COLLECTIVES] = (struct sp_device_residual){COLLECTIVES_LOW, COLLECTIVES_HIGH};
    residuals[SP_DEVICE_CLASS_MEMORY] = (struct sp_device_residual){MEMORY_LOW, MEMORY_HIGH};
    cr_assert_eq(sp_plan_finish(model->plan, &err), SP_OK, "%s", err.message);
}

/* Seconds of a stage's products, of its other nodes, and of its collectives. */
static void sum_stage(const struct sp_plan *plan, uint32_t stage, double *ret_products, double *ret_other,
                      double *ret_collectives)
{
    *ret_products = *ret_other = 0;
    for (uint32_t n = 0; n < plan->workload->node_count; n++) {
        const struct sp_work_node *node = &plan->workload->nodes[n];
        if (plan->result->placement.stage_of[n] == stage)
            *(strcmp(node->node->op_type, "MatMul") == 0 ? ret_products : ret_other) += sp_plan_node_seconds(plan, n);
    }
    *ret_collectives = plan->result->evaluation->stages[stage].collective_seconds;
}

/* Two stages of which the second waits for the first: by hand from the seconds of each. */
static void expect_two_stages(const struct sp_plan *plan)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    double low[2], high[2], sent = 0;
    for (uint32_t s = 0; s < 2; s++) {
        double products, other, collectives;
        sum_stage(plan, s, &products, &other, &collectives);
        EXPECT_NEAR(products + other + collectives, evaluation->stages[s].compute_seconds);
        low[s] = products / PRODUCTS_HIGH + other / OTHER_HIGH + collectives / COLLECTIVES_HIGH;
        high[s] = products / PRODUCTS_LOW + other / OTHER_LOW + collectives / COLLECTIVES_LOW;
    }
    for (uint32_t i = 0; i < evaluation->transfer_count; i++)
        sent += evaluation->transfers[i].seconds;
    cr_assert_gt(sent, 0);
    cr_assert_lt(sent / COLLECTIVES_LOW, low[0]);
    EXPECT_NEAR(plan->bars.latency_seconds.value, evaluation->latency_seconds);
    EXPECT_NEAR(plan->bars.latency_seconds.low, low[0] + sent / COLLECTIVES_HIGH + low[1]);
    EXPECT_NEAR(plan->bars.latency_seconds.high, high[0] + sent / COLLECTIVES_LOW + high[1]);
    EXPECT_NEAR(plan->bars.interval_seconds.low, fmax(low[0], low[1]));
    EXPECT_NEAR(plan->bars.interval_seconds.high, fmax(high[0], high[1]));
    EXPECT_NEAR(plan->bars.throughput_per_second.value, 1 / evaluation->interval_seconds);
    EXPECT_NEAR(plan->bars.throughput_per_second.low, 1 / plan->bars.interval_seconds.high);
    EXPECT_NEAR(plan->bars.throughput_per_second.high, 1 / plan->bars.interval_seconds.low);
}

static void expect_memory(const struct sp_plan *plan)
{
    const struct sp_stage_cost *fullest = NULL;
    const double context = sp_runtime(SP_RUNTIME_ONNXRUNTIME)->context_bytes;
    for (uint32_t s = 0; s < 2; s++) {
        const struct sp_stage_cost *cost = &plan->result->evaluation->stages[s];
        fullest = fullest == NULL || cost->total_bytes > fullest->total_bytes ? cost : fullest;
    }
    const double rest = fullest->activations_peak_bytes + fullest->communication_bytes;
    EXPECT_NEAR(plan->bars.memory_bytes.value, fullest->weights_bytes + rest);
    EXPECT_NEAR(plan->bars.memory_bytes.low, fullest->weights_bytes + rest / MEMORY_HIGH);
    EXPECT_NEAR(plan->bars.memory_bytes.high, fullest->weights_bytes + rest / MEMORY_LOW);
    EXPECT_NEAR(plan->bars.process_bytes.low, context / MEMORY_HIGH);
    EXPECT_NEAR(plan->bars.process_bytes.high, context / MEMORY_LOW);
}

Test(error_bars, stages_of_one_device_add_up_by_class)
{
    struct sharded_model model;
    make(&model, &(struct sharded_options){.stages = 2});
    expect_two_stages(model.plan);
    expect_memory(model.plan);
    sharded_release(&model);
}

/* Products along what they sum over, so that devices add up; all else whole. */
static uint32_t split_the_sum(const void *context, uint32_t node, const struct sp_strategies *strategies)
{
    (void)context;
    (void)node;
    for (uint32_t i = 0; i < strategies->count; i++) {
        const struct sp_strategy *strategy = &strategies->items[i];
        if (strategy->factor_of[0] != SP_STRATEGY_NO_FACTOR && strategy->scatter_of[0] == SP_STRATEGY_NO_FACTOR &&
            strcmp(strategies->rule->factors[strategy->factor_of[0]].name, "k") == 0)
            return i;
    }
    return 0;
}

Test(error_bars, split_stages_have_the_errors_of_collectives)
{
    struct sharded_model model;
    make(&model, &(struct sharded_options){.stages = 2, .axis_count = 1, .sizes = {2}, .choose = split_the_sum});
    cr_expect_gt(model.plan->result->evaluation->stages[0].collective_seconds, 0);
    expect_two_stages(model.plan);
    expect_memory(model.plan);
    sharded_release(&model);
}

/* Of a plan on one device of a description, how many times the low end of the latency's interval the high end is. */
static double width_of(const char *device)
{
    const struct onnx_mlp small = {.layers = 4, .width = 1024, .batch = "64"};
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_plan_options options;
    struct sp_error err = {0};
    struct sp_job *job;
    struct sp_plan *plan;
    struct sp_buf file;
    onnx_mlp(&file, &small);
    sp_plan_options_init(&options);
    options.max_replicas = 1; /* one plan, no copies */
    options.objective = SP_OBJECTIVE_LATENCY;
    const struct sp_job_options job_options = {.bytes = file.data, .size = file.size, .name = "mlp"};
    cr_assert_eq(sp_job_plan(&job_options, cluster_from(arena, device), &options, &job, &plan, &err), SP_OK, "%s",
                 err.message);
    const double width = plan->bars.latency_seconds.high / plan->bars.latency_seconds.low;
    sp_job_destroy(job);
    sp_arena_destroy(arena);
    sp_buf_release(&file);
    return width;
}

#define FIGURES "\"memory_bytes\":80e9,\"memory_bandwidth\":2e12,\"flops\":{\"float32\":19.5e12}"

Test(error_bars, who_was_not_measured_may_be_further_off)
{
    const double measured = width_of("{\"count\":1,\"device\":\"a100-sxm4-80gb\"}");
    const double of_kind = width_of("{\"count\":1,\"device\":{\"name\":\"x\",\"kind\":\"gpu\"," FIGURES "}}");
    const double without = width_of("{\"count\":1,\"device\":{\"name\":\"x\"," FIGURES "}}");
    const double stated = width_of("{\"count\":1,\"efficiency\":0.5,\"device\":\"a100-sxm4-80gb\"}");
    const double own = width_of("{\"count\":1,\"device\":{\"name\":\"x\",\"kind\":\"gpu\"," FIGURES
                                ",\"residuals\":{\"products\":{\"low\":0.99,\"high\":1.01},"
                                "\"other\":{\"low\":0.99,\"high\":1.01}}}}");
    cr_expect_gt(measured, 1.2);
    cr_expect_gt(of_kind, measured);
    cr_expect_gt(without, of_kind);
    cr_expect_gt(stated, of_kind);
    EXPECT_NEAR(own, 1.01 / 0.99);
}

/* What somebody stated is not estimated. */
Test(error_bars, stated_times_have_no_error)
{
    static const char graph[] =
        "{\"nodes\":[{\"id\":\"a\",\"seconds\":2,\"output_bytes\":8},{\"id\":\"b\",\"seconds\":3,\"output_bytes\":8}],"
        "\"edges\":[{\"from\":\"a\",\"to\":\"b\",\"seconds\":1}]}";
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_plan_options options;
    struct sp_error err = {0};
    struct sp_job *job;
    struct sp_plan *plan;
    struct sp_why why;
    sp_plan_options_init(&options);
    options.max_replicas = 1; /* one plan, no copies */
    const struct sp_job_options job_options = {.bytes = graph, .size = strlen(graph), .name = "graph"};
    struct sp_cluster *cluster =
        cluster_from(arena, "{\"count\":2,\"device\":{\"name\":\"x\",\"link_bandwidth\":1e9," FIGURES "}}");
    cr_assert_eq(sp_job_plan(&job_options, cluster, &options, &job, &plan, &err), SP_OK, "%s", err.message);
    cr_expect_eq(plan->bars.latency_seconds.value, 6);
    cr_expect_eq(plan->bars.latency_seconds.low, 6);
    cr_expect_eq(plan->bars.latency_seconds.high, 6);
    cr_expect_eq(plan->bars.interval_seconds.high, 3);
    cr_expect_eq(plan->bars.memory_bytes.low, plan->bars.memory_bytes.high);
    cr_assert(sp_plan_why(plan, &why));
    cr_assert_not_null(why.second);
    cr_expect(!why.is_within_error);
    cr_expect_null(strstr(why.second_sentence, "error"));
    sp_job_destroy(job);
    sp_arena_destroy(arena);
}

/* Two halves of a chain against one device: the interval says whether the estimate can tell. */
Test(error_bars, why_says_what_the_estimate_cannot_tell)
{
    struct sharded_model model;
    struct sp_front_plan second = {.description = "another", .interval_seconds = 0};
    struct sp_search_result result;
    struct sp_why why;
    make(&model, &(struct sharded_options){.stages = 2});
    const struct sp_error_bar bar = model.plan->bars.interval_seconds;
    const struct sp_front_plan chosen = {.description = "this", .interval_seconds = bar.value, .is_chosen = true};
    result = *model.plan->result;
    result.front = &chosen;
    result.front_count = 1;
    result.best = NULL;
    result.second = &second;
    model.plan->result = &result;
    second.interval_seconds = 1.03 * bar.value;
    cr_assert(sp_plan_why(model.plan, &why));
    cr_expect(why.is_within_error);
    cr_expect_not_null(strstr(why.second_sentence, "The difference of 3 % is less than the error of the estimate ("),
                       "%s", why.second_sentence);
    second.interval_seconds = 1.01 * bar.high;
    cr_assert(sp_plan_why(model.plan, &why));
    cr_expect(!why.is_within_error);
    cr_expect_null(strstr(why.second_sentence, "error"), "%s", why.second_sentence);
    sharded_release(&model);
}

/* Each figure stands beside its interval, within it. */
Test(error_bars, the_document_has_the_intervals)
{
    static const char *const names[][2] = {{"latency_range", "latency_seconds"},
                                           {"interval_range", "interval_seconds"},
                                           {"throughput_range", "throughput_per_second"},
                                           {"memory_range", NULL}};
    struct sharded_model model;
    make(&model, &(struct sharded_options){.stages = 2});
    json_t *json = planned_json(&model.planned);
    const json_t *estimate = json_object_get(json, "estimate");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const json_t *range = json_object_get(estimate, names[i][0]);
        const double value = json_number_value(json_object_get(range, "value"));
        cr_expect_lt(json_number_value(json_object_get(range, "low")), value, "%s", names[i][0]);
        cr_expect_gt(json_number_value(json_object_get(range, "high")), value, "%s", names[i][0]);
        if (names[i][1] != NULL)
            cr_expect_eq(value, json_number_value(json_object_get(estimate, names[i][1])), "%s", names[i][0]);
    }
    json_decref(json);
    sharded_release(&model);
}
