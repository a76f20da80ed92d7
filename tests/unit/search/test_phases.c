/*
 * One placement for two phases of tiny models, against every plan there is: all placements of nodes in stages, all
 * blocks wherever they may stand, all strategies of both phases in which the weights lie alike. Each phase of each plan
 * is evaluated alone, and what both take together is added up here.
 */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "build_model.h"
#include "how_many.h"
#include "infer/dataflow.h"
#include "search/joint/stage_options.h"
#include "search/phases.h"

#define PROBLEMS      250
#define MANY_PROBLEMS 2000
#define MAX_NODES     6
#define MAX_STAGES    3
#define PHASES        2
#define MOST_PLANS    40000 /* of a phase, or pairs of one placement; larger problems are made smaller */

struct problem {
    struct build build[PHASES];
    struct sp_arena *arena;
    struct sp_cluster *cluster;
    struct sp_workload *workload[PHASES];
    struct sp_dataflow *dataflow[PHASES];
    double times[PHASES];
    struct sp_space *space;
    struct sp_strategy_table *tables[PHASES][SP_SPACE_MAX_OPTIONS + SP_SPACE_MAX_MESHES];
    struct sp_joint_options options;
};

static uint64_t state;

static uint32_t below(uint32_t bound)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % bound;
}

/* ---- problems ---------------------------------------------------------------------------------------------------- */

/* Products with weights, sums, elementwise and softmax on [rows, 16], the same for every number of rows. */
static void make_model(struct build *build, uint32_t nodes, uint32_t rows, uint64_t seed)
{
    char inputs[64], output[16], dims[16];
    state = seed;
    build_init(build, 21);
    (void)snprintf(dims, sizeof dims, "%u,16", rows);
    build_input(build, "t0", SP_DTYPE_FLOAT, dims);
    for (uint32_t i = 0; i < nodes; i++) {
        static const char *const unary[] = {"Relu", "Softmax", "Tanh"};
        const uint32_t kind = below(3), from = below(3) < 2 ? i : below(i + 1);
        (void)snprintf(output, sizeof output, "t%u", i + 1);
        if (kind == 0) {
            char weight[16];
            (void)snprintf(weight, sizeof weight, "w%u", below(4) == 0 ? 0 : i);
            bool is_there = false;
            for (uint32_t v = 0; v < build->graph->value_count; v++)
                is_there = is_there || strcmp(build->graph->values[v]->name, weight) == 0;
            if (!is_there)
                build_weight(build, weight, SP_DTYPE_FLOAT, "16,16");
            (void)snprintf(inputs, sizeof inputs, "t%u %s", from, weight);
            build_node(build, "MatMul", inputs, output);
        } else if (kind == 1) {
            (void)snprintf(inputs, sizeof inputs, "t%u t%u", from, below(i + 1));
            build_node(build, "Add", inputs, output);
        } else {
            (void)snprintf(inputs, sizeof inputs, "t%u", from);
            build_node(build, unary[below(3)], inputs, output);
        }
    }
    (void)snprintf(output, sizeof output, "t%u", nodes);
    build_outputs(build, output);
    cr_assert_eq(build_infer(build), SP_OK, "%s", build->err.message);
}

static void make_cluster(struct problem *problem, uint32_t devices)
{
    static const double flops[] = {1e8, 1e9, 1e11}, bandwidths[] = {1e7, 1e9, 1e11}, links[] = {1e6, 1e8, 1e10};
    static const double memories[] = {2000, 4000, 8000, 1e9}, latencies[] = {0, 1e-7, 1e-5};
    char text[512];
    struct sp_error err = {0};
    (void)snprintf(text, sizeof text,
                   "{\"groups\":[{\"count\":%u,\"device\":{\"name\":\"a\",\"memory_bytes\":%g,\"memory_bandwidth\":%g,"
                   "\"flops\":{\"float32\":%g}}}],\"mesh\":[{\"name\":\"in\",\"size\":%u,\"bandwidth\":%g,"
                   "\"latency\":%g}],\"launch_seconds\":%g}",
                   devices, memories[below(4)], bandwidths[below(3)], flops[below(3)], devices, links[below(3)],
                   latencies[below(3)], latencies[below(3)]);
    json_t *json = json_loads(text, 0, NULL);
    cr_assert_not_null(json, "%s", text);
    cr_assert_eq(sp_cluster_parse(problem->arena, json, "", &problem->cluster, &err), SP_OK, "%s", err.message);
    json_decref(json);
}

static void open_problem(struct problem *problem, uint32_t nodes, uint64_t seed)
{
    static const uint32_t rows[] = {1, 2, 4, 6, 12, 48};
    struct sp_error err = {0};
    *problem = (struct problem){.arena = sp_arena_create(NULL)};
    state = seed;
    const uint32_t first = below(6), second = below(6);
    make_model(&problem->build[0], nodes, rows[first], seed + 1);
    make_model(&problem->build[1], nodes, rows[second], seed + 1);
    make_cluster(problem, 1 + below(3));
    problem->times[0] = 1 + below(3);
    problem->times[1] = 1 + below(40);
    for (uint32_t p = 0; p < PHASES; p++) {
        struct sp_model *model = problem->build[p].model;
        cr_assert_eq(sp_workload_from_model(problem->arena, model, problem->cluster, NULL, &problem->workload[p], &err),
                     SP_OK, "%s", err.message);
        cr_assert_eq(sp_dataflow_create(problem->arena, model, &problem->dataflow[p], &err), SP_OK);
    }
    cr_assert_eq(sp_space_create(problem->arena, problem->workload[0], problem->cluster, problem->cluster->device_count,
                                 &problem->space, &err),
                 SP_OK);
    for (uint32_t p = 0; p < PHASES; p++)
        for (uint32_t i = 0; i < problem->space->option_count; i++)
            if (problem->space->options[i].mesh.axis_count > 0)
                cr_assert_eq(sp_strategy_table_create(problem->arena, problem->workload[p], problem->dataflow[p],
                                                      &problem->space->options[i].mesh, NULL, &problem->tables[p][i],
                                                      &err),
                             SP_OK, "%s", err.message);
    sp_joint_options_init(&problem->options);
    problem->options.objective = below(2) == 0 ? SP_OBJECTIVE_THROUGHPUT : SP_OBJECTIVE_LATENCY;
    problem->options.max_replicas = below(4) == 0 ? 2 : 1;
}

static void close_problem(struct problem *problem)
{
    for (uint32_t p = 0; p < PHASES; p++) {
        for (uint32_t i = 0; i < problem->space->option_count; i++)
            sp_strategy_table_destroy(problem->tables[p][i]);
        build_release(&problem->build[p]);
    }
    sp_arena_destroy(problem->arena);
}

/* ---- every plan -------------------------------------------------------------------------------------------------- */

/* One phase under some strategies. */
struct phase_plan {
    uint64_t weights; /* a number for each way in which the weights lie */
    double latency, compute[MAX_STAGES], send[MAX_STAGES], receive[MAX_STAGES];
    double weight_bytes[MAX_STAGES], alive[MAX_STAGES], buffers[MAX_STAGES];
};

struct every {
    const struct problem *problem;
    uint32_t node_count, stage_count, stage[MAX_NODES];
    uint32_t option[MAX_STAGES], replicas[MAX_STAGES], device[MAX_STAGES];
    uint32_t count[PHASES];
    struct phase_plan *plans[PHASES]; /* MOST_PLANS of each */
    uint64_t work;
    bool is_too_large;
    double best;
};

static bool count_digits(uint32_t *digits, uint32_t count, uint32_t low, const uint32_t *high)
{
    for (uint32_t i = 0; i < count; i++) {
        if (++digits[i] < high[i])
            return true;
        digits[i] = low;
    }
    return false;
}

/* How the weights lie, as a number. Layouts are compared as what they are: two tables number them in their own ways. */
static uint64_t weights_key(const struct every *every, uint32_t phase, const uint32_t *strategy)
{
    const struct sp_workload *workload = every->problem->workload[phase];
    uint64_t key = 1469598103934665603u;
    for (uint32_t n = 0; n < every->node_count; n++) {
        const struct sp_strategy_table *table = every->problem->tables[phase][every->option[every->stage[n]]];
        const struct sp_node *node = workload->nodes[n].node;
        for (uint32_t i = 0; table != NULL && i < node->input_count; i++) {
            if (workload->tensors[node->inputs[i]->id].kind != SP_WORK_WEIGHT)
                continue;
            const struct sp_layout *layout =
                sp_strategy_layout(table, sp_strategy_of(table, n)->items[strategy[n]].layouts[i]);
            for (size_t b = 0; b < sizeof *layout; b++)
                key = (key ^ ((const unsigned char *)layout)[b]) * 1099511628211u;
        }
    }
    return key;
}

static struct phase_plan evaluate(const struct every *every, uint32_t phase, const uint32_t *strategy)
{
    const struct problem *problem = every->problem;
    struct sp_arena *scratch = sp_arena_create(NULL);
    struct sp_sharded_stage sharded[MAX_STAGES] = {0};
    uint32_t nodes[MAX_STAGES][MAX_NODES], strategies[MAX_STAGES][MAX_NODES], sizes[MAX_STAGES];
    struct sp_placement placement = {.stage_count = every->stage_count,
                                     .stage_of = (uint32_t *)every->stage,
                                     .stage_device = (uint32_t *)every->device,
                                     .stage_size = sizes,
                                     .stage_replicas = (uint32_t *)every->replicas};
    struct phase_plan plan = {.weights = weights_key(every, phase, strategy)};
    struct sp_evaluation *evaluation;
    struct sp_error err = {0};
    for (uint32_t s = 0; s < every->stage_count; s++) {
        sizes[s] = problem->space->options[every->option[s]].size;
        sharded[s] = (struct sp_sharded_stage){
            .table = problem->tables[phase][every->option[s]], .nodes = nodes[s], .strategy_of = strategies[s]};
    }
    for (uint32_t n = 0; n < every->node_count; n++) {
        struct sp_sharded_stage *stage = &sharded[every->stage[n]];
        nodes[every->stage[n]][stage->node_count] = n;
        strategies[every->stage[n]][stage->node_count++] = strategy[n];
    }
    cr_assert_eq(
        sp_joint_evaluate(scratch, problem->workload[phase], problem->cluster, &placement, sharded, &evaluation, &err),
        SP_OK, "%s", err.message);
    plan.latency = evaluation->latency_seconds;
    for (uint32_t s = 0; s < every->stage_count; s++) {
        const struct sp_stage_cost *cost = &evaluation->stages[s];
        plan.compute[s] = cost->compute_seconds;
        plan.send[s] = cost->send_seconds;
        plan.receive[s] = cost->receive_seconds;
        plan.weight_bytes[s] = cost->weights_bytes;
        plan.alive[s] = cost->activations_peak_bytes;
        plan.buffers[s] = cost->communication_bytes;
    }
    sp_arena_destroy(scratch);
    return plan;
}

static bool beats(const struct phase_plan *a, const struct phase_plan *b, uint32_t stages)
{
    bool is = a->weights == b->weights && a->latency <= b->latency;
    for (uint32_t s = 0; s < stages && is; s++)
        is = a->compute[s] <= b->compute[s] && a->send[s] <= b->send[s] && a->receive[s] <= b->receive[s] &&
             a->alive[s] <= b->alive[s] && a->buffers[s] <= b->buffers[s];
    return is;
}

/* Keeps what no other plan with the same weights beats. */
static void list_plans(struct every *every, uint32_t phase)
{
    uint32_t strategy[MAX_NODES] = {0}, high[MAX_NODES];
    uint64_t ways = 1;
    every->count[phase] = 0;
    for (uint32_t n = 0; n < every->node_count; n++) {
        const struct sp_strategy_table *table = every->problem->tables[phase][every->option[every->stage[n]]];
        high[n] = table == NULL ? 1 : sp_strategy_of(table, n)->count;
        ways *= high[n];
    }
    every->work += ways;
    if (every->work > MOST_PLANS) {
        every->is_too_large = true;
        return;
    }
    do {
        const struct phase_plan plan = evaluate(every, phase, strategy);
        struct phase_plan *plans = every->plans[phase];
        uint32_t kept = 0, i = 0;
        while (i < every->count[phase] && !beats(&plans[i], &plan, every->stage_count))
            i++;
        if (i < every->count[phase])
            continue;
        for (i = 0; i < every->count[phase]; i++)
            if (!beats(&plan, &plans[i], every->stage_count))
                plans[kept++] = plans[i];
        plans[kept++] = plan;
        every->count[phase] = kept;
    } while (count_digits(strategy, every->node_count, 0, high));
}

/* Both phases of a request: weights once, each phase's activations while it runs, buffers of both. */
static void judge(struct every *every, const struct phase_plan *a, const struct phase_plan *b)
{
    const struct problem *problem = every->problem;
    const double *times = problem->times;
    double latency = times[0] * a->latency + times[1] * b->latency, interval = 0;
    for (uint32_t s = 0; s < every->stage_count; s++) {
        const double capacity = sp_cluster_memory(problem->cluster, every->device[s]);
        const double bytes = a->weight_bytes[s] + fmax(a->alive[s], b->alive[s]) + a->buffers[s] + b->buffers[s];
        const double compute = times[0] * a->compute[s] + times[1] * b->compute[s];
        const double send = times[0] * a->send[s] + times[1] * b->send[s];
        const double receive = times[0] * a->receive[s] + times[1] * b->receive[s];
        cr_assert_float_eq(a->weight_bytes[s], b->weight_bytes[s], 1e-6);
        if (bytes > capacity)
            return;
        interval = fmax(interval, fmax(compute, fmax(send, receive)) / every->replicas[s]);
    }
    every->best = fmin(every->best, problem->options.objective == SP_OBJECTIVE_LATENCY ? latency : interval);
}

static void every_strategy(struct every *every)
{
    for (uint32_t p = 0; p < PHASES && !every->is_too_large; p++)
        list_plans(every, p);
    if (every->is_too_large)
        return;
    for (uint32_t i = 0; i < every->count[0]; i++)
        for (uint32_t j = 0; j < every->count[1]; j++)
            if (every->plans[0][i].weights == every->plans[1][j].weights)
                judge(every, &every->plans[0][i], &every->plans[1][j]);
}

static bool stand_apart(const struct every *every)
{
    uint32_t used = 0;
    for (uint32_t s = 0; s < every->stage_count; s++) {
        const struct sp_space_option *option = &every->problem->space->options[every->option[s]];
        const uint32_t count = option->size * every->replicas[s];
        if (sp_space_place(every->problem->space, option, every->replicas[s], every->device[s]) != every->device[s])
            return false;
        for (uint32_t d = every->device[s]; d < every->device[s] + count; d++) {
            if ((used >> d & 1) != 0)
                return false;
            used |= 1u << d;
        }
    }
    return true;
}

static void every_block(struct every *every)
{
    const struct problem *problem = every->problem;
    uint32_t options[MAX_STAGES], replicas[MAX_STAGES], devices[MAX_STAGES];
    for (uint32_t s = 0; s < MAX_STAGES; s++) {
        options[s] = problem->space->option_count;
        replicas[s] = problem->options.max_replicas + 1;
        devices[s] = problem->cluster->device_count;
        every->option[s] = 0;
    }
    do {
        for (uint32_t s = 0; s < MAX_STAGES; s++)
            every->replicas[s] = 1;
        do {
            memset(every->device, 0, sizeof every->device);
            do {
                if (stand_apart(every)) {
                    every_strategy(every);
                    break; /* devices and links are equal: all places are */
                }
            } while (count_digits(every->device, every->stage_count, 0, devices));
        } while (!every->is_too_large && count_digits(every->replicas, every->stage_count, 1, replicas));
    } while (!every->is_too_large && count_digits(every->option, every->stage_count, 0, options));
}

static bool in_order(const struct every *every)
{
    const struct sp_workload *workload = every->problem->workload[0];
    uint32_t filled = 0;
    for (uint32_t n = 0; n < every->node_count; n++) {
        filled |= 1u << every->stage[n];
        for (uint32_t k = 0; k < workload->nodes[n].input_count; k++) {
            const uint32_t producer = workload->tensors[workload->nodes[n].inputs[k]].producer;
            if (producer != SP_NO_WORK && every->stage[producer] > every->stage[n])
                return false;
        }
    }
    return filled == (1u << every->stage_count) - 1;
}

/* False where there are too many plans. */
static bool try_every(struct every *every)
{
    const struct problem *problem = every->problem;
    const uint32_t devices = problem->cluster->device_count;
    const uint32_t most = devices < every->node_count ? devices : every->node_count;
    every->best = INFINITY;
    for (uint32_t p = 0; p < PHASES; p++)
        every->plans[p] = SP_NEW_ARRAY(problem->arena, MOST_PLANS, struct phase_plan);
    for (every->stage_count = 1; every->stage_count <= most && !every->is_too_large; every->stage_count++) {
        uint32_t stages[MAX_NODES];
        for (uint32_t i = 0; i < MAX_NODES; i++)
            stages[i] = every->stage_count;
        memset(every->stage, 0, sizeof every->stage);
        do {
            if (in_order(every))
                every_block(every);
        } while (!every->is_too_large && count_digits(every->stage, every->node_count, 0, stages));
    }
    return !every->is_too_large;
}

/* ---- the search against them ------------------------------------------------------------------------------------- */

static bool is_near(double value, double want)
{
    return fabs(value - want) <= 1e-9 * fabs(want);
}

/* The figures of the joint plan are those of its phases, each evaluated alone. */
static void expect_sums(const struct problem *problem, const struct sp_phases_result *result, uint32_t number)
{
    const struct sp_evaluation *all = result->all->evaluation;
    double latency = 0;
    for (uint32_t p = 0; p < PHASES; p++)
        latency += problem->times[p] * result->phases[p]->evaluation->latency_seconds;
    cr_expect(is_near(result->request_seconds, latency), "%u", number);
    for (uint32_t s = 0; s < all->stage_count; s++) {
        double compute = 0, alive = 0, weights = 0;
        for (uint32_t p = 0; p < PHASES; p++) {
            const struct sp_stage_cost *cost = &result->phases[p]->evaluation->stages[s];
            compute += problem->times[p] * cost->compute_seconds;
            alive = fmax(alive, cost->activations_peak_bytes);
            weights = fmax(weights, cost->weights_bytes);
        }
        cr_expect(is_near(all->stages[s].compute_seconds / result->scale, compute),
                  "%u: stage %u computes %.12g for %.12g", number, s, all->stages[s].compute_seconds / result->scale,
                  compute);
        cr_expect(is_near(all->stages[s].activations_peak_bytes, alive), "%u: stage %u has %g alive for %g", number, s,
                  all->stages[s].activations_peak_bytes, alive);
        cr_expect(is_near(all->stages[s].weights_bytes, weights), "%u: stage %u has weights of %g for %g", number, s,
                  all->stages[s].weights_bytes, weights);
    }
}

/* 1: equal, 0: the search has no plan, or a worse one. */
static uint32_t compare(const struct problem *problem, const struct every *every, uint32_t number)
{
    const struct sp_phase phases[] = {{"a", problem->times[0], problem->build[0].model, problem->workload[0]},
                                      {"b", problem->times[1], problem->build[1].model, problem->workload[1]}};
    const struct sp_phases_request request = {PHASES, phases, (const struct sp_dataflow *const *)problem->dataflow,
                                              problem->cluster, &problem->options};
    struct sp_phases_result *result;
    struct sp_error err = {0};
    enum sp_status status = sp_phases_search(problem->arena, &request, &result, &err);
    if (isinf(every->best)) {
        cr_expect_eq(status, SP_ERR_NOFIT, "%u: a plan where nothing fits", number);
        if (status == SP_OK)
            sp_phases_result_release(result);
        return 1;
    }
    if (status != SP_OK) {
        cr_log_warn("%u: %s", number, err.message);
        return 0;
    }
    expect_sums(problem, result, number);
    const double value =
        problem->options.objective == SP_OBJECTIVE_LATENCY ? result->request_seconds : result->interval_seconds;
    cr_expect(value >= every->best * (1 - 1e-9), "%u: %.12g is below the best of all plans %.12g", number, value,
              every->best);
    const bool is_equal = is_near(value, every->best);
    if (!is_equal)
        cr_log_warn("%u: %u nodes, %u devices, objective %d: %.6g for %.6g (%.3f)", number, every->node_count,
                    problem->cluster->device_count, problem->options.objective, value, every->best,
                    value / every->best);
    sp_phases_result_release(result);
    return is_equal;
}

Test(phases, equal_the_best_of_all_plans)
{
    const uint32_t problems = how_many(PROBLEMS, MANY_PROBLEMS);
    uint32_t done = 0, equal = 0, unfit = 0, large = 0;
    for (uint32_t number = 0; done < problems; number++) {
        struct problem problem;
        const uint32_t nodes = 1 + number % MAX_NODES;
        open_problem(&problem, nodes, 20261126 + 977 * (uint64_t)number);
        struct every every = {.problem = &problem, .node_count = problem.workload[0]->node_count};
        if (try_every(&every)) {
            equal += compare(&problem, &every, number);
            unfit += isinf(every.best);
            large += nodes > 3;
            done++;
        }
        close_problem(&problem);
    }
    cr_log_info("%u of %u equal", equal, problems);
    cr_expect_eq(equal, problems, "%u of %u are equal", equal, problems);
    cr_expect_gt(unfit, problems / 100, "%u", unfit);
    cr_expect_gt(large, problems / 10, "%u", large);
}
