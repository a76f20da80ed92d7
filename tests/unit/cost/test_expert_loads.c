/*
 * Expected loads of experts on the nodes of a model: whose they are, what is refused, and what a device with a part of the
 * experts then computes and reads, counted expert by expert.
 */
#include "cost/kernels/expert_loads.h"

#include "kernel_parts.h"
#include "ops/table/load.h"

#define TOKENS  16
#define EXPERTS 8
#define CHOSEN  2
#define HIDDEN  64
#define INNER   96

static struct sp_node *nodes[2];
static struct sp_load_list lists[2];
static struct sp_given_loads given = {.where = "/workload/expert_load", .lists = lists};

static void layers(void)
{
    start(18);
    build_opset(&build, CONTRIB, 1);
    half_input("x", "16,64");
    half_input("router", "16,8");
    build_weight(&build, "w1", SP_DTYPE_FLOAT16, "8,96,64");
    build_weight(&build, "w2", SP_DTYPE_FLOAT16, "8,64,96");
    nodes[0] = build_node_in(&build, CONTRIB, "MoE", "x router w1 - w2", "h");
    nodes[1] = build_node_in(&build, CONTRIB, "MoE", "h router w1 - w2", "y");
    for (uint32_t i = 0; i < 2; i++) {
        nodes[i]->name = i == 0 ? "first" : "second";
        build_attr_int(&build, nodes[i], "k", CHOSEN);
        build_attr_int(&build, nodes[i], "normalize_routing_weights", 1);
    }
    build_outputs(&build, "y");
    infer();
    given.is_balanced = false;
    build.model->loads = &given;
}

static void end(void)
{
    if (build.arena)
        stop();
}

TestSuite(expert_loads, .init = layers, .fini = end);

static enum sp_status attach(uint32_t count, struct sp_load_list first, struct sp_load_list second)
{
    lists[0] = first;
    lists[1] = second;
    given.count = count;
    sp_error_clear(&build.err);
    return sp_expert_loads_attach(build.model, &build.err);
}

static const struct sp_load_list none;
static const double skewed[EXPERTS] = {0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05}; /* of two each: 0.8, 0.2, 0.1 */

/* What the first `count` experts are sent, and how many of them are read. */
static double sent(uint32_t count)
{
    double sum = 0;
    for (uint32_t e = 0; e < count; e++)
        sum += TOKENS * CHOSEN * skewed[e];
    return sum;
}

static double read(uint32_t count)
{
    double sum = 0;
    for (uint32_t e = 0; e < count; e++)
        sum += 1 - pow(1 - CHOSEN * skewed[e], TOKENS);
    return sum;
}

/* Input, router's answer and output whole; twice what the two products give, of all that is sent. */
static double expected_bytes(double rows, double experts)
{
    return TOKENS * (2.0 * HIDDEN + EXPERTS) * 2 + 2 * rows * (INNER + INNER + HIDDEN) * 2 +
           experts * 2 * HIDDEN * INNER * 2;
}

static double expected_flops(double rows)
{
    return 4 * rows * HIDDEN * INNER + 5.0 * TOKENS * EXPERTS;
}

Test(expert_loads, the_device_with_most_is_what_counts)
{
    cr_assert_eq(attach(1, (struct sp_load_list){NULL, EXPERTS, skewed, 0}, none), SP_OK, "%s", build.err.message);
    cr_expect_eq(nodes[0]->load, nodes[1]->load);
    const struct sp_kernel_work whole = work_of(nodes[0], SP_CACHES_APART, NULL, 1);
    EXPECT_NEAR(whole.flops, expected_flops(TOKENS * CHOSEN));
    EXPECT_NEAR(whole.bytes, expected_bytes(TOKENS * CHOSEN, read(EXPERTS)));
    for (uint32_t parts = 2; parts <= 4; parts *= 2) {
        const struct sp_kernel_work part = work_of(nodes[0], SP_CACHES_APART, "x", parts);
        EXPECT_NEAR(part.flops, expected_flops(sent(EXPERTS / parts)));
        EXPECT_NEAR(part.bytes, expected_bytes(sent(EXPERTS / parts), read(EXPERTS / parts)));
    }
}

/* Two shards of 0.5 each: the first expert with the three that are asked least, 0.05, 0.05 and 0.1 of them 0.6; the others
   0.4. */
Test(expert_loads, a_balanced_order_is_less_for_the_device_with_most)
{
    given.is_balanced = true;
    cr_assert_eq(attach(1, (struct sp_load_list){NULL, EXPERTS, skewed, 0}, none), SP_OK, "%s", build.err.message);
    EXPECT_NEAR(work_of(nodes[0], SP_CACHES_APART, "x", 2).flops, expected_flops(0.6 * TOKENS * CHOSEN));
}

Test(expert_loads, equal_shares_change_nothing)
{
    static const double equal[EXPERTS] = {3, 3, 3, 3, 3, 3, 3, 3};
    const struct sp_kernel_work before = work_of(nodes[0], SP_CACHES_APART, "x", 4);
    const struct sp_load_list zipf = {.node = NULL, .zipf = 0};
    cr_assert_eq(attach(1, (struct sp_load_list){NULL, EXPERTS, equal, 0}, none), SP_OK);
    cr_expect_null(nodes[0]->load);
    cr_assert_eq(attach(1, zipf, none), SP_OK);
    cr_expect_null(nodes[0]->load);
    const struct sp_kernel_work after = work_of(nodes[0], SP_CACHES_APART, "x", 4);
    cr_expect_eq(before.bytes, after.bytes);
    cr_expect_eq(before.flops, after.flops);
}

Test(expert_loads, lists_are_those_of_their_nodes)
{
    const struct sp_load_list first = {"first", EXPERTS, skewed, 0}, rest = {.zipf = 1};
    cr_assert_eq(attach(1, first, none), SP_OK);
    cr_expect_not_null(nodes[0]->load);
    cr_expect_null(nodes[1]->load);
    cr_assert_eq(attach(2, first, rest), SP_OK);
    EXPECT_NEAR(nodes[0]->load->chances[0], 0.8);
    EXPECT_NEAR(nodes[1]->load->chances[0] / nodes[1]->load->chances[3], 4);
}

static void expect_refused(struct sp_load_list list, const char *code)
{
    cr_expect_eq(attach(1, list, none), SP_ERR_REQUEST);
    cr_expect_str_eq(build.err.code, code);
    cr_expect_str_eq(build.err.where, "/workload/expert_load");
}

Test(expert_loads, lists_of_other_layers_are_refused)
{
    expect_refused((struct sp_load_list){NULL, 7, skewed, 0}, "EXPERT_LOAD_COUNT");
    expect_refused((struct sp_load_list){"third", EXPERTS, skewed, 0}, "UNKNOWN_EXPERTS");
    stop();
    start(18);
    half_input("a", "4");
    build_node(&build, "Relu", "a", "b");
    build_outputs(&build, "b");
    infer();
    build.model->loads = &given;
    expect_refused((struct sp_load_list){NULL, EXPERTS, skewed, 0}, "NO_EXPERTS");
}
