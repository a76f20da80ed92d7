/* Plans of graphs of costs: the workload, what must be together, what cannot run, against all placements there are. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "cost/contract.h"
#include "plan/job.h"
#include "random_workload.h"
#include "recount.h"
#include "json/json.h"

struct planned {
    struct sp_arena *arena;
    struct sp_cluster *cluster;
    struct sp_job *job;
    struct sp_plan *plan;
    struct sp_error err;
};

static enum sp_status try_strategy(struct planned *p, const char *text, const char *cluster,
                                   enum sp_objective objective, enum sp_search_strategy strategy)
{
    const struct sp_job_options options = {.bytes = text, .size = strlen(text), .name = "graph"};
    struct sp_plan_options asked;
    *p = (struct planned){.arena = sp_arena_create(NULL)};
    p->cluster = cluster_from(p->arena, cluster);
    sp_plan_options_init(&asked);
    asked.max_replicas = 1; /* one plan, no copies */
    asked.objective = objective;
    asked.strategy = strategy;
    enum sp_status status = sp_job_plan(&options, p->cluster, &asked, &p->job, &p->plan, &p->err);
    if (status == SP_OK)
        recount_expect_result(p->plan->workload, p->plan->cluster, p->plan->result);
    return status;
}

static enum sp_status try_plan(struct planned *p, const char *text, const char *cluster, enum sp_objective objective)
{
    return try_strategy(p, text, cluster, objective, SP_STRATEGY_AUTO);
}

static void make_plan(struct planned *p, const char *text, const char *cluster)
{
    enum sp_status status = try_plan(p, text, cluster, SP_OBJECTIVE_THROUGHPUT);
    cr_assert_eq(status, SP_OK, "%s: %s", p->err.code, p->err.message);
}

static void release(struct planned *p)
{
    sp_job_destroy(p->job);
    sp_arena_destroy(p->arena);
}

static const struct sp_stage_cost *stage_at(const struct planned *p, uint32_t stage)
{
    cr_assert_lt(stage, p->plan->result->evaluation->stage_count);
    return &p->plan->result->evaluation->stages[stage];
}

#define DEVICE(name, memory)                                                                                           \
    "{\"name\":\"" name "\",\"memory_bytes\":" memory ",\"memory_bandwidth\":1e12,\"flops\":{\"float32\":1e12},"       \
    "\"link_bandwidth\":1e9,\"link_latency\":0}"
#define TWO_X "{\"device\":" DEVICE("X", "1e9") ",\"count\":2}"
#define X_AND_Y                                                                                                        \
    "{\"groups\":[{\"count\":1,\"device\":" DEVICE("X", "1e9") "},{\"count\":1,\"device\":" DEVICE("Y", "1e9") "}]}"

/* Two nodes of 2 s each on two devices; 1e8 bytes at 1e9 bytes per second take 0.1 s. */
Test(costs, figures_of_a_plan)
{
    struct planned p;
    make_plan(&p,
              "{\"nodes\":[{\"id\":\"a\",\"seconds\":2,\"memory_bytes\":1000,\"output_bytes\":100000000},"
              "{\"id\":\"b\",\"seconds\":2,\"output_bytes\":30}],\"edges\":[{\"from\":\"a\",\"to\":\"b\"}]}",
              TWO_X);
    cr_assert_eq(p.plan->result->evaluation->stage_count, 2);
    cr_expect_float_eq(p.plan->result->evaluation->interval_seconds, 2, 1e-12);
    cr_expect_float_eq(p.plan->result->evaluation->latency_seconds, 4.1, 1e-12);
    cr_expect_float_eq(stage_at(&p, 0)->send_seconds, 0.1, 1e-12);
    cr_expect_eq(stage_at(&p, 0)->weights_bytes, 1000);
    cr_expect_eq(stage_at(&p, 0)->activations_peak_bytes, 1e8);
    cr_expect_eq(stage_at(&p, 0)->communication_bytes, 2e8); /* two buffers */
    cr_expect_eq(stage_at(&p, 1)->activations_peak_bytes, 1e8 + 30);
    cr_expect_null(p.plan->model);
    release(&p);
}

/* The same with a time for the edge: the link does not matter. 3 s for sending are longer than either node. */
Test(costs, edges_with_seconds)
{
    struct planned p;
    make_plan(&p,
              "{\"nodes\":[{\"id\":\"a\",\"seconds\":2,\"output_bytes\":400},{\"id\":\"b\",\"seconds\":2}],"
              "\"edges\":[{\"from\":\"a\",\"to\":\"b\",\"seconds\":1.5}]}",
              TWO_X);
    cr_assert_eq(p.plan->result->evaluation->stage_count, 2);
    cr_expect_float_eq(stage_at(&p, 0)->send_seconds, 1.5, 1e-12);
    cr_expect_float_eq(stage_at(&p, 1)->receive_seconds, 1.5, 1e-12);
    cr_expect_float_eq(p.plan->result->evaluation->latency_seconds, 5.5, 1e-12);
    release(&p);
    make_plan(&p,
              "{\"nodes\":[{\"id\":\"a\",\"seconds\":2},{\"id\":\"b\",\"seconds\":2}],"
              "\"edges\":[{\"from\":\"a\",\"to\":\"b\",\"seconds\":5}]}",
              TWO_X);
    cr_expect_eq(p.plan->result->evaluation->stage_count, 1); /* 4 s together, 5 s for sending alone */
    release(&p);
}

Test(costs, one_tensor_is_sent_once)
{
    struct planned p;
    /* b and c on the second device both use what a makes: one transfer, or two where the edges say other bytes. */
#define FAN(bytes)                                                                                                     \
    "{\"nodes\":[{\"id\":\"a\",\"seconds\":2,\"output_bytes\":100},{\"id\":\"b\",\"seconds\":1},"                      \
    "{\"id\":\"c\",\"seconds\":1}],\"edges\":[{\"from\":\"a\",\"to\":\"b\"},{\"from\":\"a\",\"to\":\"c\"" bytes "}]}"
    make_plan(&p, FAN(""), TWO_X);
    cr_expect_eq(p.plan->result->evaluation->transfer_count, 1);
    cr_expect_eq(p.plan->result->evaluation->communication_bytes, 100);
    cr_expect_str_eq(p.plan->workload->tensors[p.plan->result->evaluation->transfers[0].tensor].name, "a");
    release(&p);
    make_plan(&p, FAN(",\"bytes\":30"), TWO_X);
    cr_expect_eq(p.plan->result->evaluation->transfer_count, 2);
    cr_expect_eq(p.plan->result->evaluation->communication_bytes, 130);
    release(&p);
}

/* A node runs only where it has seconds; names of devices have no case. */
Test(costs, devices_that_cannot_run_a_node)
{
    struct planned p;
    const char *text = "{\"nodes\":[{\"id\":\"a\",\"seconds\":{\"x\":9,\"Y\":1}},{\"id\":\"b\",\"seconds\":{\"Y\":1}},"
                       "{\"id\":\"c\",\"seconds\":{\"X\":1}}],\"edges\":[{\"from\":\"a\",\"to\":\"b\"}]}";
    make_plan(&p, text, X_AND_Y);
    const struct sp_workload *workload = p.plan->workload;
    for (uint32_t i = 0; i < workload->node_count; i++) {
        const uint32_t device = p.plan->result->placement.stage_device[p.plan->result->placement.stage_of[i]];
        const char *expected = workload->nodes[i].name[0] == 'c' ? "X" : "Y";
        cr_expect_str_eq(sp_cluster_device(p.cluster, device)->name, expected, "%s", workload->nodes[i].name);
    }
    cr_expect_float_eq(p.plan->result->evaluation->interval_seconds, 2, 1e-12);
    release(&p);
}

Test(costs, what_no_placement_can_run)
{
    struct planned p;
    /* Stages follow the edges: from X to Y and back to X needs a second X. */
    const char *text = "{\"nodes\":[{\"id\":\"a\",\"seconds\":{\"X\":1}},{\"id\":\"b\",\"seconds\":{\"Y\":1}},"
                       "{\"id\":\"c\",\"seconds\":{\"X\":1}}],\"edges\":[{\"from\":\"a\",\"to\":\"b\"},"
                       "{\"from\":\"b\",\"to\":\"c\"}]}";
    cr_expect_eq(try_plan(&p, text, X_AND_Y, SP_OBJECTIVE_THROUGHPUT), SP_ERR_NOFIT);
    cr_expect_str_eq(p.err.code, "NO_DEVICE_LEFT", "%s", p.err.message);
    release(&p);
    cr_expect_eq(try_plan(&p, text, X_AND_Y, SP_OBJECTIVE_DEVICES), SP_ERR_NOFIT);
    cr_expect_str_eq(p.err.code, "NO_DEVICE_LEFT", "%s", p.err.message);
    release(&p);
    cr_expect_eq(try_plan(&p, text, TWO_X, SP_OBJECTIVE_THROUGHPUT), SP_ERR_MODEL);
    cr_expect_str_eq(p.err.code, "NO_DEVICE_RUNS");
    cr_expect_not_null(strstr(p.err.message, "\"b\""), "%s", p.err.message);
    release(&p);
    cr_expect_eq(try_plan(&p, "{\"nodes\":[{\"id\":1,\"seconds\":{\"Z\":1}}]}", TWO_X, SP_OBJECTIVE_THROUGHPUT),
                 SP_ERR_MODEL);
    cr_expect_str_eq(p.err.code, "DEVICE_WITHOUT_SECONDS");
    cr_expect_not_null(strstr(p.err.message, "'Z'"), "%s", p.err.message);
    release(&p);
    text = "{\"nodes\":[{\"id\":1,\"seconds\":{\"X\":1},\"group\":0},{\"id\":2,\"seconds\":{\"Y\":1},\"group\":0}]}";
    cr_expect_eq(try_plan(&p, text, X_AND_Y, SP_OBJECTIVE_THROUGHPUT), SP_ERR_MODEL);
    cr_expect_str_eq(p.err.code, "NO_DEVICE_RUNS", "%s", p.err.message);
    release(&p);
}

Test(costs, unknown_devices_are_told)
{
    struct planned p;
    make_plan(&p, "{\"nodes\":[{\"id\":1,\"seconds\":{\"X\":1,\"a100-sxm4-80gb\":2,\"typo\":3}}]}", TWO_X);
    cr_assert_eq(p.plan->note_count, 1);
    cr_expect_str_eq(p.plan->notes[0].code, "UNKNOWN_DEVICE");
    cr_expect_not_null(strstr(p.plan->notes[0].message, "'typo'"));
    release(&p);
}

Test(costs, names_are_told_apart)
{
    struct planned p;
    make_plan(&p,
              "{\"nodes\":[{\"id\":1,\"name\":\"Add\",\"seconds\":1},{\"id\":2,\"name\":\"Add\",\"seconds\":1},"
              "{\"id\":\"Mul\",\"seconds\":1}]}",
              TWO_X);
    cr_expect_str_eq(p.plan->workload->nodes[0].name, "Add [1]");
    cr_expect_str_eq(p.plan->workload->nodes[1].name, "Add [2]");
    cr_expect_str_eq(p.plan->workload->nodes[2].name, "Mul");
    release(&p);
}

Test(costs, there_is_nothing_to_bind)
{
    static const char text[] = "{\"nodes\":[{\"id\":1,\"seconds\":1}]}";
    const char *names[] = {"seq"};
    const int64_t values[] = {4};
    const struct sp_sizes sizes = {.dim_count = 1, .dim_names = names, .dim_values = values};
    const struct sp_job_options options = {.bytes = text, .size = strlen(text), .name = "", .sizes = &sizes};
    struct sp_error err = {0};
    struct sp_job *job = NULL;
    cr_expect_eq(sp_job_open(&options, &job, &err), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "UNKNOWN_DIMENSION");
}

/* ---- what is together ---------------------------------------------------------------------------------------------
 */

/* a and c are a group; b, which lies between, has to be with them, and d need not. In one row they are one node: what a
   and b make is 30 bytes at a time, of which its result of 7 bytes takes a part; what it uses stays outside. */
Test(costs, contraction)
{
    struct planned p;
    make_plan(&p,
              "{\"nodes\":[{\"id\":\"z\",\"seconds\":4,\"output_bytes\":1},"
              "{\"id\":\"a\",\"seconds\":1,\"output_bytes\":10,\"group\":0,\"memory_bytes\":5},"
              "{\"id\":\"d\",\"seconds\":8,\"output_bytes\":3},{\"id\":\"b\",\"seconds\":2,\"output_bytes\":20},"
              "{\"id\":\"c\",\"seconds\":1,\"output_bytes\":7,\"group\":0,\"memory_bytes\":6}],"
              "\"edges\":[{\"from\":\"z\",\"to\":\"a\"},{\"from\":\"a\",\"to\":\"b\"},{\"from\":\"b\",\"to\":\"c\"},"
              "{\"from\":\"z\",\"to\":\"d\"}]}",
              TWO_X);
    const struct sp_workload *workload = p.plan->workload;
    struct sp_contraction contraction;
    static const char *const order[] = {"z", "a", "b", "c", "d"};
    for (uint32_t i = 0; i < 5; i++)
        cr_expect_str_eq(workload->nodes[i].name, order[i]);
    cr_assert_eq(sp_workload_contract(p.arena, workload, p.cluster, &contraction, &p.err), SP_OK);
    cr_assert_eq(contraction.workload->node_count, 3);
    const struct sp_work_node *row = &contraction.workload->nodes[1];
    cr_expect_eq(row->seconds[0], 4);
    cr_expect_eq(row->inner_weight_bytes, 11);
    cr_expect_eq(row->workspace_bytes, 23);
    cr_assert_eq(row->input_count, 1);
    cr_assert_eq(row->output_count, 1);
    cr_expect_eq(contraction.workload->tensors[row->outputs[0]].bytes, 7);
    cr_expect_eq(contraction.workload->tensors[row->inputs[0]].consumer_count, 2);
    /* 8 s on each device: z with a, b and c. */
    cr_expect_float_eq(p.plan->result->evaluation->interval_seconds, 8, 1e-12);
    release(&p);
}

/* Every placement that keeps stages along the edges, groups together and nodes where they run; the shortest interval.
 */
static double best_of_all(const struct planned *p, const uint32_t *group)
{
    const struct sp_workload *workload = p->plan->workload;
    const uint32_t devices = p->cluster->device_count, nodes = workload->node_count;
    uint32_t stage_of[8], stage_device[4];
    struct sp_placement placement = {devices, stage_of, stage_device};
    uint64_t all = 1;
    double best = INFINITY;
    for (uint32_t i = 0; i < nodes; i++)
        all *= devices;
    for (uint32_t turn = 0; turn < devices; turn++) { /* two devices: both orders; more are equal */
        for (uint32_t s = 0; s < devices; s++)
            stage_device[s] = (s + turn) % devices;
        for (uint64_t number = 0; number < all; number++) {
            uint64_t rest = number;
            bool is_good = true;
            for (uint32_t i = 0; i < nodes; i++, rest /= devices)
                stage_of[i] = (uint32_t)(rest % devices);
            for (uint32_t i = 0; i < nodes && is_good; i++) {
                const struct sp_work_node *node = &workload->nodes[i];
                is_good = isfinite(node->seconds[workload->kind_of[stage_device[stage_of[i]]]]);
                for (uint32_t j = 0; j < node->input_count; j++)
                    is_good = is_good && stage_of[workload->tensors[node->inputs[j]].producer] <= stage_of[i];
                for (uint32_t j = 0; j < i; j++)
                    is_good = is_good && (group[i] == 0 || group[i] != group[j] || stage_of[i] == stage_of[j]);
            }
            struct sp_evaluation *evaluation;
            if (!is_good)
                continue;
            cr_assert_eq(sp_evaluate(p->arena, workload, p->cluster, &placement, &evaluation, NULL), SP_OK);
            if (evaluation->interval_seconds < best)
                best = evaluation->interval_seconds;
        }
    }
    return best;
}

/* A random graph of `nodes` nodes; with `kinds` of 2 some nodes lack a kind. group_of_id: by the number of the node. */
static void random_graph(struct sp_buf *text, uint32_t nodes, uint32_t kinds, uint64_t *seed, uint32_t *group_of_id)
{
    bool is_first = true;
    sp_buf_clear(text);
    sp_buf_text(text, "{\"nodes\":[");
    for (uint32_t i = 0; i < nodes; i++) {
        const uint32_t x = 1 + pick(seed, 9), y = 1 + pick(seed, 9), lacks = kinds == 1 ? 0 : pick(seed, 4);
        sp_buf_printf(text, "%s{\"id\":%u,\"memory_bytes\":%u,\"output_bytes\":%u,\"seconds\":{", i > 0 ? "," : "", i,
                      pick(seed, 1000), pick(seed, 4) * 500000000);
        if (lacks != 1)
            sp_buf_printf(text, "\"X\":%u%s", x, lacks == 2 || kinds == 1 ? "" : ",");
        if (lacks != 2 && kinds > 1)
            sp_buf_printf(text, "\"Y\":%u", y);
        group_of_id[i] = pick(seed, 3) == 0 ? 1 + pick(seed, 2) : 0;
        sp_buf_text(text, "}");
        if (group_of_id[i] > 0)
            sp_buf_printf(text, ",\"group\":%u", group_of_id[i]);
        sp_buf_text(text, "}");
    }
    sp_buf_text(text, "],\"edges\":[");
    for (uint32_t from = 0; from < nodes; from++) {
        for (uint32_t to = from + 1; to < nodes; to++) {
            if (pick(seed, 3) > 0)
                continue;
            sp_buf_printf(text, "%s{\"from\":%u,\"to\":%u", is_first ? "" : ",", from, to);
            if (pick(seed, 3) == 0)
                sp_buf_printf(text, ",\"seconds\":%u", pick(seed, 6));
            sp_buf_text(text, "}");
            is_first = false;
        }
    }
    sp_buf_text(text, "]}");
}

static void compare_with_all(const char *cluster, uint32_t kinds, uint64_t seed, uint32_t runs)
{
    struct sp_buf text;
    uint32_t planned = 0, refused = 0, grouped = 0, routed = 0;
    sp_buf_init(&text, (size_t)1 << 20);
    for (uint32_t run = 0; run < runs; run++) {
        uint32_t of_id[8], group[8];
        struct planned p;
        random_graph(&text, 3 + pick(&seed, 4), kinds, &seed, of_id);
        enum sp_status status = try_plan(&p, text.data, cluster, SP_OBJECTIVE_THROUGHPUT);
        if (status == SP_OK && p.plan->result->routes != NULL) { /* better than the best of one route */
            const double interval = p.plan->result->evaluation->interval_seconds;
            release(&p);
            status = try_strategy(&p, text.data, cluster, SP_OBJECTIVE_THROUGHPUT, SP_STRATEGY_PIPELINE);
            cr_assert_eq(status, SP_OK, "%s: %s", text.data, p.err.message);
            cr_expect_lt(interval, p.plan->result->evaluation->interval_seconds, "%s", text.data);
            routed++;
        }
        if (status == SP_OK) {
            const struct sp_placement *placement = &p.plan->result->placement;
            for (uint32_t i = 0; i < p.plan->workload->node_count; i++)
                group[i] = of_id[strtoul(p.plan->workload->nodes[i].name, NULL, 10)];
            for (uint32_t i = 0; i < p.plan->workload->node_count; i++) {
                for (uint32_t j = 0; j < i; j++) {
                    grouped += group[i] != 0 && group[i] == group[j];
                    cr_assert(group[i] == 0 || group[i] != group[j] || placement->stage_of[i] == placement->stage_of[j],
                              "%s", text.data);
                }
            }
            cr_expect_float_eq(p.plan->result->evaluation->interval_seconds, best_of_all(&p, group), 1e-9, "%s",
                               text.data);
            cr_expect_leq(p.plan->result->bounds.interval_seconds,
                          p.plan->result->evaluation->interval_seconds * (1 + 1e-9), "%s", text.data);
            planned++;
        } else {
            refused++;
            cr_assert(kinds == 2 &&
                          (strcmp(p.err.code, "NO_DEVICE_LEFT") == 0 || strcmp(p.err.code, "NO_DEVICE_RUNS") == 0 ||
                           strcmp(p.err.code, "DEVICE_WITHOUT_SECONDS") == 0),
                      "%s: %s", text.data, p.err.message);
        }
        release(&p);
    }
    cr_expect_geq(planned, runs / 4);
    cr_expect_geq(grouped, runs / 8);
    cr_expect(kinds == 1 || refused > 0);
    cr_expect_eq(kinds > 1, routed > 0);
    sp_buf_release(&text);
}

Test(costs, no_placement_is_better_on_equal_devices)
{
    compare_with_all("{\"device\":" DEVICE("X", "1e12") ",\"count\":3}", 1, 3, 60);
}

Test(costs, no_placement_is_better_on_different_devices)
{
    compare_with_all("{\"groups\":[{\"count\":1,\"device\":" DEVICE("X", "1e12") "},{\"count\":1,\"device\":" DEVICE(
                         "Y", "1e12") "}]}",
                     2, 5, 120);
}
