#include <criterion/criterion.h>
#include <math.h>

#include "random_workload.h"
#include "recount.h"

/* 100 bytes per second and 1 second latency between any two devices. */
#define SLOW_PAIR                                                                                                      \
    "{\"groups\": [{\"name\": \"box\", \"count\": 2, \"device\": {\"name\": \"d\", \"memory_bytes\": 5000,"            \
    " \"memory_bandwidth\": 1000, \"flops\": {\"float32\": 1000}}}],"                                                  \
    " \"mesh\": [{\"name\": \"link\", \"size\": 2, \"bandwidth\": 100, \"latency\": 1}]}"
#define NODE_OF_BOXES                                                                                                  \
    "{\"groups\": [{\"count\": 2, \"device\": {\"name\": \"d\", \"memory_bytes\": 5000,"                               \
    " \"memory_bandwidth\": 1000, \"flops\": {\"float32\": 1000}}}, {\"count\": 2, \"device\": {\"name\": \"e\","      \
    " \"memory_bytes\": 2000, \"memory_bandwidth\": 1000, \"flops\": {\"float32\": 500}}}],"                           \
    " \"mesh\": [{\"name\": \"node\", \"size\": 2, \"bandwidth\": 128, \"latency\": 1},"                               \
    " {\"name\": \"gpu\", \"size\": 2, \"bandwidth\": 512, \"latency\": 0.25}]}"

static struct sp_arena *arena;
static struct sp_error err;

static void setup(void)
{
    arena = sp_arena_create(NULL);
    sp_error_clear(&err);
}

static void teardown(void)
{
    sp_arena_destroy(arena);
}

TestSuite(evaluate, .init = setup, .fini = teardown);

static void assert_near(double actual, double expected, const char *what)
{
    cr_assert(fabs(actual - expected) <= 1e-9 * (1 + fabs(expected)), "%s is %.17g, expected %.17g", what, actual,
              expected);
}

static struct sp_evaluation *evaluate(const struct sp_workload *work, const struct sp_cluster *cluster,
                                      uint32_t stage_count, uint32_t *stage_of, uint32_t *stage_device)
{
    struct sp_placement placement = {stage_count, stage_of, stage_device};
    struct sp_evaluation *evaluation = NULL;
    cr_assert_eq(sp_evaluate(arena, work, cluster, &placement, &evaluation, &err), SP_OK, "%s", err.message);
    recount_expect(work, cluster, &placement, NULL, evaluation, false);
    return evaluation;
}

/*
 * x(400) -> [a 2s, w1 1000] -> t(100) -> [b 3s, w2 2000] -> y(50)
 *
 * One device: 5 s; weights 3000; at a: x + t = 500, at b: t + y = 150, and x, which the caller holds: 550.
 */
static struct sp_workload *chain(const struct sp_cluster *cluster)
{
    struct sp_workload *work = workload_new(arena, cluster);
    uint32_t x = workload_input(work, 400), w1 = workload_weight(work, 1000), w2 = workload_weight(work, 2000);
    uint32_t a = workload_node(work, 2, 2, (uint32_t[]){x, w1});
    uint32_t t = workload_result(work, a, 100);
    uint32_t b = workload_node(work, 3, 2, (uint32_t[]){t, w2});
    uint32_t y = workload_result(work, b, 50);
    work->tensors[y].is_output = true;
    workload_finish(work);
    return work;
}

Test(evaluate, one_device)
{
    struct sp_cluster *cluster = cluster_from(arena, SLOW_PAIR);
    struct sp_evaluation *one = evaluate(chain(cluster), cluster, 1, (uint32_t[]){0, 0}, (uint32_t[]){0});
    assert_near(one->latency_seconds, 5, "latency");
    assert_near(one->interval_seconds, 5, "interval");
    assert_near(one->stages[0].weights_bytes, 3000, "weights");
    assert_near(one->stages[0].activations_peak_bytes, 550, "activations");
    assert_near(one->stages[0].communication_bytes, 0, "communication");
    assert_near(one->worst_excess_bytes, 3550 - 5000, "excess");
    cr_assert_eq(one->transfer_count, 0);
}

/* t crosses: 1 + 100/100 = 2 s. Latency 2 + 2 + 3; intervals max(2, 2, 0) and max(3, 0, 2). Memory of stage 0: 1000 +
   (x + t = 500) + 2 * 100; of stage 1: 2000 + (t + y = 150) + 2 * 100. */
Test(evaluate, two_stages)
{
    struct sp_cluster *cluster = cluster_from(arena, SLOW_PAIR);
    struct sp_evaluation *two = evaluate(chain(cluster), cluster, 2, (uint32_t[]){0, 1}, (uint32_t[]){1, 0});
    assert_near(two->latency_seconds, 7, "latency");
    assert_near(two->interval_seconds, 3, "interval");
    cr_assert_eq(two->bottleneck_stage, 1);
    assert_near(two->stages[1].start_seconds, 4, "start");
    assert_near(two->stages[0].send_seconds, 2, "send");
    assert_near(two->stages[1].receive_seconds, 2, "receive");
    assert_near(two->stages[0].total_bytes, 1700, "total 0");
    assert_near(two->stages[1].total_bytes, 2350, "total 1");
    assert_near(two->worst_excess_bytes, 2350 - 5000, "excess");
    cr_assert_eq(two->worst_stage, 1);
    assert_near(two->communication_bytes, 100, "traffic");
    cr_assert_eq(two->transfer_count, 1);
    cr_assert_eq(two->transfers[0].from_stage, 0);
    cr_assert_eq(two->transfers[0].to_stage, 1);
    cr_assert_eq(two->stages[0].device, 1);
}

/*
 * A residual block: a -> t(300) -> b -> u(300) -> c(t, u) -> y(300). t lives until c, and the input of 10 to the end:
 * the peak is 10 + t + u + y = 910, not the 610 of two neighbouring tensors.
 */
Test(evaluate, residual_keeps_its_input_alive)
{
    struct sp_cluster *cluster = cluster_from(arena, SLOW_PAIR);
    struct sp_workload *work = workload_new(arena, cluster);
    uint32_t x = workload_input(work, 10);
    uint32_t t = workload_result(work, workload_node(work, 1, 1, &x), 300);
    uint32_t u = workload_result(work, workload_node(work, 1, 1, &t), 300);
    (void)workload_result(work, workload_node(work, 1, 2, (uint32_t[]){t, u}), 300);
    workload_finish(work);
    assert_near(evaluate(work, cluster, 1, (uint32_t[]){0, 0, 0}, (uint32_t[]){0})->stages[0].activations_peak_bytes,
                910, "peak");
}

/* a -> t(300) -> view v -> b; t's memory lives under the name v: at b there are t and y, 310, beside the input of 5,
   and nothing more. */
Test(evaluate, views_have_no_memory_but_keep_their_root)
{
    struct sp_cluster *cluster = cluster_from(arena, SLOW_PAIR);
    struct sp_workload *work = workload_new(arena, cluster);
    uint32_t x = workload_input(work, 5);
    uint32_t t = workload_result(work, workload_node(work, 1, 1, &x), 300);
    uint32_t v = workload_result(work, workload_node(work, 0, 1, &t), 300);
    (void)workload_result(work, workload_node(work, 1, 1, &v), 10);
    workload_alias(work, v, t);
    workload_finish(work);
    assert_near(evaluate(work, cluster, 1, (uint32_t[]){0, 0, 0}, (uint32_t[]){0})->stages[0].activations_peak_bytes,
                315, "peak");
}

/* A weight that two nodes of a stage share counts once there, and once more on another device; it is never sent, even
   when a folded node in stage 0 makes it. */
Test(evaluate, weights_are_resident_and_never_sent)
{
    struct sp_cluster *cluster = cluster_from(arena, SLOW_PAIR);
    struct sp_workload *work = workload_new(arena, cluster);
    uint32_t raw = workload_weight(work, 4000), x = workload_input(work, 1);
    uint32_t fold = workload_node(work, 0, 1, &raw);
    work->nodes[fold].folded = true;
    uint32_t w = workload_result(work, fold, 700);
    uint32_t a = workload_result(work, workload_node(work, 1, 2, (uint32_t[]){x, w}), 1);
    uint32_t b = workload_result(work, workload_node(work, 1, 2, (uint32_t[]){a, w}), 1);
    (void)workload_result(work, workload_node(work, 1, 2, (uint32_t[]){b, w}), 1);
    workload_finish(work);
    struct sp_evaluation *two = evaluate(work, cluster, 2, (uint32_t[]){0, 0, 0, 1}, (uint32_t[]){0, 1});
    assert_near(two->stages[0].weights_bytes, 700, "weights 0");
    assert_near(two->stages[1].weights_bytes, 700, "weights 1");
    cr_assert_eq(two->transfer_count, 1);
    cr_assert_eq(two->transfers[0].tensor, b);
}

/*
 * A diamond over four stages: 0 -> {1, 2} -> 3, devices 0 1 (one node) and 2 3 (the other).
 * t(64) from 0: to 1 inside a node 0.25 + 64/512 = 0.375, to 2 between nodes 1 + 64/128 = 1.5.
 * u(128) from 1 to 3: 1 + 1 = 2; v(128) from 2 to 3: 0.25 + 0.25 = 0.5.
 * Ends: 0 at 1; 1 at 1.375 + 8 = 9.375; 2 at 2.5 + 1 = 3.5; 3 starts at max(11.375, 4) and ends at 12.375.
 */
Test(evaluate, parallel_stages_overlap)
{
    struct sp_cluster *cluster = cluster_from(arena, NODE_OF_BOXES);
    struct sp_workload *work = workload_new(arena, cluster);
    uint32_t x = workload_input(work, 1);
    uint32_t t = workload_result(work, workload_node(work, 1, 1, &x), 64);
    uint32_t u = workload_result(work, workload_node(work, 8, 1, &t), 128);
    uint32_t v = workload_result(work, workload_node(work, 1, 1, &t), 128);
    (void)workload_result(work, workload_node(work, 1, 2, (uint32_t[]){u, v}), 1);
    workload_finish(work);
    struct sp_evaluation *four = evaluate(work, cluster, 4, (uint32_t[]){0, 1, 2, 3}, (uint32_t[]){0, 1, 2, 3});
    assert_near(four->stages[0].send_seconds, 1.875, "send");
    assert_near(four->stages[1].start_seconds, 1.375, "start 1");
    assert_near(four->stages[2].start_seconds, 2.5, "start 2");
    assert_near(four->stages[3].start_seconds, 11.375, "start 3");
    assert_near(four->stages[3].receive_seconds, 2.5, "receive");
    assert_near(four->latency_seconds, 12.375, "latency");
    assert_near(four->interval_seconds, 8, "interval");
    cr_assert_eq(four->transfer_count, 4);
    assert_near(four->stages[2].capacity_bytes, 2000, "capacity");
}

/* Three stages of 1 ms under one switch of 100 bytes per second: each of two transfers of 10 bytes takes 0.1 s alone,
   and for each request the switch carries both. Two devices under a switch of their own leave it alone. */
Test(evaluate, stages_share_switches)
{
    static const struct {
        const char *switches;
        double interval;
    } cases[] = {
        {"{\"members\": [0, 1, 2], \"bandwidth\": 100, \"latency\": 0}", 0.2},
        {"{\"name\": \"a\", \"members\": [0, 1], \"bandwidth\": 100, \"latency\": 0},"
         " {\"members\": [\"a\", 2], \"bandwidth\": 100, \"latency\": 0}",
         0.2},
        {"{\"members\": [0, 1], \"bandwidth\": 100, \"latency\": 0},"
         " {\"members\": [1, 2], \"bandwidth\": 100, \"latency\": 0}",
         0.1},
        {"{\"members\": [0, 1, 2], \"bandwidth\": 200, \"member_bandwidth\": 100, \"latency\": 0}", 0.1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024];
        (void)snprintf(text, sizeof text,
                       "{\"device\": {\"name\": \"d\", \"memory_bytes\": 5000, \"memory_bandwidth\": 1000,"
                       " \"flops\": {\"float32\": 1000}}, \"count\": 3, \"switches\": [%s]}",
                       cases[i].switches);
        struct sp_cluster *cluster = cluster_from(arena, text);
        struct sp_workload *work = workload_new(arena, cluster);
        uint32_t x = workload_input(work, 10), devices[3];
        for (uint32_t n = 0; n < 3; n++) {
            x = workload_result(work, workload_node(work, 1e-3, 1, &x), 10);
            devices[n] = sp_cluster_numbered(cluster, n);
        }
        work->tensors[x].is_output = true;
        workload_finish(work);
        struct sp_evaluation *evaluation = evaluate(work, cluster, 3, (uint32_t[]){0, 1, 2}, devices);
        cr_expect_float_eq(evaluation->interval_seconds, cases[i].interval, 1e-9, "%zu: %g", i,
                           evaluation->interval_seconds);
        cr_expect_geq(evaluation->latency_seconds, evaluation->interval_seconds, "%zu", i);
    }
}

Test(evaluate, wrong_placements_are_refused)
{
    struct sp_cluster *cluster = cluster_from(arena, SLOW_PAIR);
    struct sp_workload *work = chain(cluster);
    struct sp_evaluation *evaluation;
    struct {
        struct sp_placement placement;
        const char *code;
    } cases[] = {{{2, (uint32_t[]){1, 0}, (uint32_t[]){0, 1}}, "PLACEMENT_ORDER"},
                 {{2, (uint32_t[]){0, 2}, (uint32_t[]){0, 1}}, "PLACEMENT_STAGE"},
                 {{2, (uint32_t[]){0, 1}, (uint32_t[]){0, 2}}, "PLACEMENT_DEVICE"},
                 {{3, (uint32_t[]){0, 1}, (uint32_t[]){0, 1, 1}}, "PLACEMENT_STAGES"},
                 {{0, (uint32_t[]){0, 0}, (uint32_t[]){0, 1}}, "PLACEMENT_STAGES"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sp_error_clear(&err);
        cr_assert_eq(sp_evaluate(arena, work, cluster, &cases[i].placement, &evaluation, &err), SP_ERR_INTERNAL);
        cr_assert_str_eq(err.code, cases[i].code);
    }
}

Test(evaluate, missing_memory_is_an_error)
{
    struct sp_cluster *cluster = cluster_from(arena, SLOW_PAIR);
    struct sp_workload *work = chain(cluster);
    struct sp_budget budget = {.limit = 1};
    struct sp_arena *small = sp_arena_create(&budget);
    struct sp_placement placement = {1, (uint32_t[]){0, 0}, (uint32_t[]){0}};
    struct sp_evaluation *evaluation;
    if (small == NULL)
        return;
    cr_assert_eq(sp_evaluate(small, work, cluster, &placement, &evaluation, &err), SP_ERR_MEMORY);
    sp_arena_destroy(small);
}

/* ---- against a slow evaluation by the letter of the header ----------------------------------------------------- */

struct slow {
    const struct sp_workload *work;
    const struct sp_cluster *cluster;
    const struct sp_placement *placement;
};

static uint32_t root(const struct sp_workload *work, uint32_t t)
{
    return work->tensors[t].alias_of == SP_NO_WORK ? t : work->tensors[t].alias_of;
}

static bool uses(const struct sp_work_node *node, uint32_t t)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i] == t)
            return true;
    }
    return false;
}

static bool makes(const struct sp_work_node *node, uint32_t t)
{
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] == t)
            return true;
    }
    return false;
}

/* Some node that works in the stage uses t. */
static bool used_in(const struct slow *slow, uint32_t t, uint32_t stage)
{
    for (uint32_t n = 0; n < slow->work->node_count; n++) {
        if (!slow->work->nodes[n].folded && slow->placement->stage_of[n] == stage && uses(&slow->work->nodes[n], t))
            return true;
    }
    return false;
}

/* The stage that makes t during a request, or -1. */
static int made_in(const struct slow *slow, uint32_t t)
{
    for (uint32_t n = 0; n < slow->work->node_count; n++) {
        if (!slow->work->nodes[n].folded && makes(&slow->work->nodes[n], t) &&
            slow->work->tensors[root(slow->work, t)].kind != SP_WORK_WEIGHT)
            return (int)slow->placement->stage_of[n];
    }
    return -1;
}

static bool crosses(const struct slow *slow, uint32_t t, uint32_t from, uint32_t to)
{
    return from != to && made_in(slow, t) == (int)from && used_in(slow, t, to);
}

/* First and last node that has a tensor of the memory `r` as operand; false when it is not in the stage. */
static bool life(const struct slow *slow, uint32_t r, uint32_t stage, uint32_t *ret_first, uint32_t *ret_last)
{
    const struct sp_workload *work = slow->work;
    bool found = false;
    for (uint32_t n = 0; n < work->node_count; n++) {
        if (work->nodes[n].folded || slow->placement->stage_of[n] != stage)
            continue;
        for (uint32_t t = 0; t < work->tensor_count; t++) {
            if (root(work, t) != r || !(uses(&work->nodes[n], t) || makes(&work->nodes[n], t)))
                continue;
            if (!found)
                *ret_first = n;
            found = true;
            *ret_last = n;
        }
    }
    for (uint32_t t = 0; found && t < work->tensor_count; t++) {
        if (root(work, t) != r)
            continue;
        bool stays = made_in(slow, t) == (int)stage && work->tensors[t].is_output;
        if (work->tensors[t].kind == SP_WORK_INPUT && used_in(slow, t, stage)) {
            *ret_first = 0;
            stays = true;
        }
        for (uint32_t to = 0; to < slow->placement->stage_count; to++)
            stays = stays || crosses(slow, t, stage, to);
        if (stays)
            *ret_last = UINT32_MAX;
    }
    return found;
}

static double slow_activations(const struct slow *slow, uint32_t stage)
{
    double peak = 0;
    for (uint32_t n = 0; n < slow->work->node_count; n++) {
        double live = slow->work->nodes[n].workspace_bytes;
        if (slow->work->nodes[n].folded || slow->placement->stage_of[n] != stage)
            continue;
        for (uint32_t r = 0; r < slow->work->tensor_count; r++) {
            uint32_t first, last;
            if (root(slow->work, r) == r && slow->work->tensors[r].kind != SP_WORK_WEIGHT &&
                life(slow, r, stage, &first, &last) && first <= n && n <= last)
                live += slow->work->tensors[r].bytes;
        }
        peak = live > peak ? live : peak;
    }
    return peak;
}

static double slow_weights(const struct slow *slow, uint32_t stage)
{
    double bytes = 0;
    for (uint32_t r = 0; r < slow->work->tensor_count; r++) {
        uint32_t first, last;
        if (root(slow->work, r) == r && slow->work->tensors[r].kind == SP_WORK_WEIGHT &&
            life(slow, r, stage, &first, &last))
            bytes += slow->work->tensors[r].bytes;
    }
    for (uint32_t n = 0; n < slow->work->node_count; n++) {
        if (!slow->work->nodes[n].folded && slow->placement->stage_of[n] == stage)
            bytes += slow->work->nodes[n].inner_weight_bytes;
    }
    return bytes;
}

static double slow_compute(const struct slow *slow, uint32_t stage)
{
    double seconds = 0;
    uint32_t kind = slow->work->kind_of[slow->placement->stage_device[stage]];
    for (uint32_t n = 0; n < slow->work->node_count; n++) {
        if (!slow->work->nodes[n].folded && slow->placement->stage_of[n] == stage)
            seconds += slow->work->nodes[n].seconds[kind];
    }
    return seconds;
}

/* Seconds and bytes that go from one stage to another. */
static double slow_traffic(const struct slow *slow, uint32_t from, uint32_t to, double *ret_bytes, uint32_t *ret_count)
{
    double seconds = 0;
    *ret_bytes = 0;
    *ret_count = 0;
    for (uint32_t t = 0; t < slow->work->tensor_count; t++) {
        if (!crosses(slow, t, from, to))
            continue;
        *ret_bytes += slow->work->tensors[t].bytes;
        seconds += sp_cluster_transfer_seconds(slow->cluster, slow->placement->stage_device[from],
                                               slow->placement->stage_device[to], slow->work->tensors[t].bytes);
        (*ret_count)++;
    }
    return seconds;
}

/* Every path, one by one. */
static double slow_start(const struct slow *slow, uint32_t stage)
{
    double start = 0, bytes;
    uint32_t count;
    for (uint32_t from = 0; from < stage; from++) {
        double seconds = slow_traffic(slow, from, stage, &bytes, &count);
        if (count == 0)
            continue;
        double arrival = slow_start(slow, from) + slow_compute(slow, from) + seconds;
        start = arrival > start ? arrival : start;
    }
    return start;
}

static void compare(const struct slow *slow, const struct sp_evaluation *fast)
{
    double latency = 0, traffic = 0, worst = -INFINITY, interval = 0;
    uint32_t stages = slow->placement->stage_count, transfers = 0, count;
    for (uint32_t s = 0; s < stages; s++) {
        const struct sp_stage_cost *stage = &fast->stages[s];
        double send = 0, receive = 0, in = 0, out = 0, bytes, compute = slow_compute(slow, s);
        for (uint32_t other = 0; other < stages; other++) {
            send += slow_traffic(slow, s, other, &bytes, &count);
            out += bytes;
            transfers += count;
            receive += slow_traffic(slow, other, s, &bytes, &count);
            in += bytes;
        }
        traffic += out;
        assert_near(stage->compute_seconds, compute, "compute");
        assert_near(stage->send_seconds, send, "send");
        assert_near(stage->receive_seconds, receive, "receive");
        assert_near(stage->interval_seconds, fmax(compute, fmax(send, receive)), "interval of a stage");
        assert_near(stage->start_seconds, slow_start(slow, s), "start");
        assert_near(stage->weights_bytes, slow_weights(slow, s), "weights");
        assert_near(stage->activations_peak_bytes, slow_activations(slow, s), "activations");
        assert_near(stage->communication_bytes, 2 * (in + out), "communication");
        assert_near(stage->total_bytes,
                    stage->weights_bytes + stage->activations_peak_bytes + stage->communication_bytes, "total");
        latency = fmax(latency, stage->start_seconds + compute);
        interval = fmax(interval, stage->interval_seconds);
        worst = fmax(worst, stage->total_bytes - stage->capacity_bytes);
    }
    assert_near(fast->latency_seconds, latency, "latency");
    assert_near(fast->interval_seconds, interval, "interval");
    assert_near(fast->communication_bytes, traffic, "traffic");
    assert_near(fast->worst_excess_bytes, worst, "excess");
    assert_near(fast->stages[fast->bottleneck_stage].interval_seconds, interval, "bottleneck");
    cr_assert_eq(fast->transfer_count, transfers);
    for (uint32_t i = 1; i < transfers; i++) {
        const struct sp_tensor_transfer *a = &fast->transfers[i - 1], *b = &fast->transfers[i];
        cr_assert(a->tensor < b->tensor || (a->tensor == b->tensor && a->to_stage < b->to_stage));
    }
}

/* A stage starts when all that it is sent by the stage it waits for has arrived, one after the other. */
static void expect_waiting(const struct sp_evaluation *evaluation)
{
    for (uint32_t s = 0; s < evaluation->stage_count; s++) {
        const uint32_t from = evaluation->stages[s].waits_for;
        cr_assert_eq(from == SP_NO_WORK, evaluation->stages[s].start_seconds <= 0);
        if (from == SP_NO_WORK)
            continue;
        cr_assert_lt(from, s);
        double at = evaluation->stages[from].start_seconds + evaluation->stages[from].compute_seconds;
        for (uint32_t i = 0; i < evaluation->transfer_count; i++) {
            if (evaluation->transfers[i].from_stage == from && evaluation->transfers[i].to_stage == s)
                at += evaluation->transfers[i].seconds;
        }
        cr_assert_eq(at, evaluation->stages[s].start_seconds);
    }
}

Test(evaluate, agrees_with_a_slow_evaluation)
{
    struct sp_cluster *cluster = cluster_from(arena, NODE_OF_BOXES);
    uint64_t seed = 1;
    uint32_t crossing = 0;
    for (int round = 0; round < 600; round++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        struct sp_workload *work = workload_random(arena, cluster, 1 + pick(&seed, 28), &seed);
        uint32_t stage_of[WORKLOAD_NODES], devices[4] = {0, 1, 2, 3}, stages = 1 + pick(&seed, 4);
        for (uint32_t i = 3; i > 0; i--) {
            uint32_t j = pick(&seed, i + 1), device = devices[i];
            devices[i] = devices[j];
            devices[j] = device;
        }
        for (uint32_t n = 0; n < work->node_count; n++) {
            uint32_t earliest = 0;
            for (uint32_t i = 0; i < work->nodes[n].input_count; i++) {
                const struct sp_work_tensor *tensor = &work->tensors[work->nodes[n].inputs[i]];
                if (tensor->kind == SP_WORK_ACTIVATION && stage_of[tensor->producer] > earliest)
                    earliest = stage_of[tensor->producer];
            }
            stage_of[n] = earliest + pick(&seed, stages - earliest);
        }
        struct sp_placement placement = {stages, stage_of, devices};
        struct slow slow = {work, cluster, &placement};
        struct sp_evaluation *fast = evaluate(work, cluster, stages, stage_of, devices);
        crossing += fast->transfer_count;
        compare(&slow, fast);
        expect_waiting(fast);
        sp_arena_rewind(arena, mark);
    }
    cr_assert_gt(crossing, 1000, "the random placements must exercise transfers; %u did", crossing);
}

/* One evaluator, stages in any order: the same figures as sp_evaluate(). */
Test(evaluate, stages_one_by_one)
{
    struct sp_cluster *cluster = cluster_from(arena, NODE_OF_BOXES);
    uint64_t seed = 7;
    struct sp_workload *work = workload_random(arena, cluster, 30, &seed);
    struct sp_evaluator *evaluator = sp_evaluator_create(arena, work, cluster);
    uint32_t stage_of[30], devices[] = {2, 0, 1}, nodes[30];
    struct sp_placement placement = {3, stage_of, devices};
    for (uint32_t n = 0; n < 30; n++)
        stage_of[n] = n / 10;
    struct sp_evaluation *whole = evaluate(work, cluster, 3, stage_of, devices);
    for (int round = 0; round < 9; round++) {
        uint32_t s = (uint32_t)(2 * round) % 3;
        struct sp_stage_cost cost, expected = whole->stages[s];
        for (uint32_t i = 0; i < 10; i++)
            nodes[i] = 10 * s + i;
        sp_evaluator_stage(evaluator, &(struct sp_placed_stage){&placement, s, 10, nodes}, &cost, NULL);
        expected.start_seconds = 0;
        expected.waits_for = SP_NO_WORK;
        cr_assert_arr_eq(&cost, &expected, sizeof cost);
    }
}

/* What is alive while a node runs adds up to the live bytes of that node: for each node of each stage. */
Test(evaluate, what_is_alive_adds_up_to_the_live_bytes)
{
    struct sp_cluster *cluster = cluster_from(arena, NODE_OF_BOXES);
    uint32_t listed = 0, inputs = 0;
    for (uint64_t round = 0; round < 300; round++) {
        uint64_t seed = round;
        const uint32_t nodes = 2 + pick(&seed, 40), stages = 1 + pick(&seed, 3);
        struct sp_workload *work = workload_random(arena, cluster, nodes, &seed);
        struct sp_evaluator *evaluator = sp_evaluator_create(arena, work, cluster);
        uint32_t stage_of[64], devices[] = {0, 1, 2}, in_stage[64];
        struct sp_placement placement = {stages, stage_of, devices};
        for (uint32_t n = 0; n < nodes; n++)
            stage_of[n] = n * stages / nodes;
        for (uint32_t s = 0; s < stages; s++) {
            struct sp_live_bytes live[64];
            struct sp_stage_cost cost;
            uint32_t count = 0, fullest = SP_NO_WORK;
            for (uint32_t n = 0; n < nodes; n++) {
                if (stage_of[n] == s)
                    in_stage[count++] = n;
            }
            const struct sp_placed_stage placed = {&placement, s, count, in_stage};
            sp_evaluator_stage(evaluator, &placed, &cost, live);
            for (uint32_t i = 0; i < count; i++) {
                const struct sp_work_node *node = &work->nodes[in_stage[i]];
                struct sp_alive_list alive;
                cr_assert(sp_evaluator_alive(evaluator, arena, &placed, i, &alive));
                cr_assert_eq(alive.node, in_stage[i]);
                double sum = node->folded ? 0 : node->workspace_bytes;
                cr_assert_eq(alive.workspace_bytes, sum);
                for (uint32_t k = 0; k < alive.count; k++) {
                    const struct sp_work_tensor *tensor = &work->tensors[alive.items[k].tensor];
                    cr_assert_eq(tensor->alias_of, SP_NO_WORK);
                    cr_assert_eq(alive.items[k].bytes, tensor->bytes);
                    for (uint32_t l = 0; l < k; l++)
                        cr_assert_neq(alive.items[l].tensor, alive.items[k].tensor);
                    sum += tensor->bytes;
                    inputs += tensor->kind == SP_WORK_INPUT;
                }
                assert_near(sum, live[i].during, "alive");
                listed += alive.count;
                fullest =
                    !node->folded && (fullest == SP_NO_WORK || live[i].during > live[fullest].during) ? i : fullest;
            }
            struct sp_alive_list peak;
            cr_assert(sp_evaluator_alive(evaluator, arena, &placed, SP_ENTRY_FULLEST, &peak));
            cr_assert_eq(peak.node, fullest == SP_NO_WORK ? SP_NO_WORK : in_stage[fullest]);
        }
    }
    cr_expect_gt(listed, 10000);
    cr_expect_gt(inputs, 100);
}
