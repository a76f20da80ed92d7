/*
 * The operators of a stage as a choice problem, and what a choice means: against the evaluation of one device, against
 * a slow recount written on its own, and with small problems whose best choice is known.
 */
#include <math.h>
#include <string.h>

#include "cost/evaluate.h"
#include "search/joint/joint.h"
#include "search/strategy/intra.h"
#include "strategy_models.h"

static struct strategy_model subject;
static struct sp_strategy_table *table;

static void end(void)
{
    sp_strategy_table_destroy(table);
    if (subject.arena)
        strategy_model_close(&subject);
    if (build.arena)
        stop();
}

TestSuite(intra, .fini = end);

static const char *const models[] = {"bert_tiny.onnx", "gpt2_tiny.onnx", "llama_tiny.onnx", "llama_tiny_dyn.onnx",
                                     "moe_tiny.onnx",  "lstm_tiny.onnx", "unet_tiny.onnx"};
#define MODELS (sizeof models / sizeof models[0])

/* A few roundings to parts of a second are between them. */
#define EXPECT_COST(cost, want)                                                                                        \
    cr_expect(fabs((double)(cost) / SP_INTRA_SECOND - (want)) <= 16 / SP_INTRA_SECOND, "%.17g, not %.17g",             \
              (double)(cost) / SP_INTRA_SECOND, (double)(want))

/* Nodes first .. last - 1 that are not folded. */
static uint32_t stage_nodes(uint32_t first, uint32_t last, uint32_t **ret_nodes)
{
    uint32_t *nodes = SP_NEW_ARRAY(subject.arena, subject.workload->node_count, uint32_t), count = 0;
    for (uint32_t i = first; i < last; i++)
        if (!subject.workload->nodes[i].folded)
            nodes[count++] = i;
    *ret_nodes = nodes;
    return count;
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* ---- one device ------------------------------------------------------------------------------------------------- */

/* A stage on one device is what cost/evaluate.h says of it. */
static void expect_as_evaluated(const struct sp_placement *placement, uint32_t stage, uint32_t first, uint32_t last)
{
    struct sp_evaluator *evaluator = sp_evaluator_create(subject.arena, subject.workload, subject.cluster);
    uint32_t *nodes, count = stage_nodes(first, last, &nodes);
    uint32_t *whole = SP_NEW_ARRAY(subject.arena, count, uint32_t);
    struct sp_stage_cost cost;
    struct sp_intra_result *result = NULL;
    sp_evaluator_stage(evaluator, &(struct sp_placed_stage){placement, stage, count, nodes}, &cost, NULL);
    cr_assert_eq(sp_intra_evaluate(subject.arena, table, count, nodes, whole, &result, &subject.err), SP_OK, "%s",
                 subject.err.message);
    EXPECT_NEAR(result->compute_seconds, cost.compute_seconds);
    EXPECT_NEAR(result->weight_bytes, cost.weights_bytes);
    EXPECT_NEAR(result->activation_peak_bytes, cost.activations_peak_bytes);
    cr_expect_eq(result->communication_seconds, 0);
    cr_expect_eq(result->use_count, 0);
}

Test(intra, one_device_is_as_evaluated)
{
    for (size_t m = 0; m < MODELS; m++) {
        if (!strategy_model_open(&subject, models[m], "a100-sxm4-80gb", 2))
            cr_skip_test("the models are not here");
        uint32_t count = subject.workload->node_count, half = count / 2;
        uint32_t *stage_of = SP_NEW_ARRAY(subject.arena, count, uint32_t), devices[] = {0, 1};
        struct sp_placement placement = {2, stage_of, devices};
        table = strategy_table_of(&subject, 0, NULL);
        for (uint32_t i = half; i < count; i++)
            stage_of[i] = 1;
        expect_as_evaluated(&placement, 0, 0, half);
        expect_as_evaluated(&placement, 1, half, count);
        memset(stage_of, 0, count * sizeof *stage_of);
        placement.stage_count = 1;
        expect_as_evaluated(&placement, 0, 0, count);
        sp_strategy_table_destroy(table);
        table = NULL;
        strategy_model_close(&subject);
    }
}

/* A stage that is sent a view of a model input, and later uses the input itself, holds the input from the start. */
Test(intra, an_input_whose_view_comes_first_is_there_from_the_start)
{
    uint32_t stage_of[] = {0, 1, 1, 1}, devices[] = {0, 1};
    struct sp_placement placement = {2, stage_of, devices};
    start(18);
    input("X", "8,16,4");
    input("Y", "64,64");
    build_node(&build, "Flatten", "X", "V");
    build_node(&build, "Relu", "Y", "A");
    build_node(&build, "Relu", "V", "B");
    build_node(&build, "Relu", "X", "C");
    build_outputs(&build, "B C");
    strategy_model_built(&subject, "a100-sxm4-80gb", 2);
    cr_assert_neq(subject.workload->tensors[subject.workload->nodes[0].outputs[0]].alias_of, SP_NO_WORK);
    table = strategy_table_of(&subject, 0, NULL);
    expect_as_evaluated(&placement, 1, 1, 4);
}

/* ---- a recount on its own --------------------------------------------------------------------------------------- */

/* Something that a device holds for a while. */
struct thing {
    uint32_t tensor, layout, memory; /* `memory`: which of the buffers it is */
};

struct slow {
    uint32_t thing_count, memory_count;
    struct thing things[4096];
    double bytes[4096];
    int64_t birth[4096], death[4096];
    double compute, communication, weights, peak;
    uint32_t reshards;
};

static const struct thing *slow_find(const struct slow *slow, uint32_t tensor, uint32_t layout)
{
    for (uint32_t i = 0; i < slow->thing_count; i++)
        if (slow->things[i].tensor == tensor && slow->things[i].layout == layout)
            return &slow->things[i];
    return NULL;
}

static uint32_t slow_add(struct slow *slow, uint32_t tensor, uint32_t layout, int64_t birth, uint32_t memory)
{
    cr_assert_lt(slow->thing_count, 4096);
    if (memory == UINT32_MAX) {
        memory = slow->memory_count++;
        slow->bytes[memory] = sp_strategy_local_bytes(table, tensor, layout);
        slow->birth[memory] = slow->death[memory] = birth;
    }
    slow->things[slow->thing_count++] = (struct thing){tensor, layout, memory};
    return memory;
}

/* A kernel that is split at a tensor writes it, `starts` again and reads it. */
static bool slow_is_inside(uint32_t tensor, uint32_t user)
{
    const uint32_t kind = subject.workload->kind_of[0], producer = subject.workload->tensors[tensor].producer;
    const struct sp_node_kernel *made =
        producer == SP_NO_WORK ? NULL : sp_work_kernel(subject.workload, kind, producer);
    return made != NULL && made->hands_on && made->kernel == sp_work_kernel(subject.workload, kind, user)->kernel;
}

static double slow_move(uint32_t tensor, uint32_t layout, bool starts)
{
    const struct sp_device *device = sp_cluster_device(subject.cluster, 0);
    const uint32_t kind = subject.workload->kind_of[0], producer = subject.workload->tensors[tensor].producer;
    const struct sp_node_kernel *made =
        producer == SP_NO_WORK ? NULL : sp_work_kernel(subject.workload, kind, producer);
    const struct sp_device_other other =
        made != NULL && made->goes_by_rows ? sp_device_norm(device) : sp_device_other(device);
    const double start = fmax(other.start_seconds, sp_device_runtime(device)->kernel_seconds);
    return (starts ? start : 0) +
           sp_strategy_local_bytes(table, tensor, layout) / (device->memory_bandwidth * other.memory_share);
}

/* Where the border of a stage of whole operators splits kernels. */
static double slow_border(uint32_t count, const uint32_t *nodes)
{
    const struct sp_workload *workload = subject.workload;
    bool *is_here = SP_NEW_ARRAY(subject.arena, workload->node_count, bool);
    double sum = 0;
    for (uint32_t n = 0; n < count; n++)
        is_here[nodes[n]] = true;
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        const struct sp_work_tensor *tensor = &workload->tensors[t];
        bool is_read = false, is_written = false;
        for (uint32_t i = 0; i < tensor->consumer_count; i++) {
            if (!slow_is_inside(t, tensor->consumers[i]))
                continue;
            is_read = is_read || (is_here[tensor->consumers[i]] && !is_here[tensor->producer]);
            is_written = is_written || (!is_here[tensor->consumers[i]] && is_here[tensor->producer]);
        }
        sum += (is_read ? slow_move(t, 0, true) : 0) + (is_written ? slow_move(t, 0, false) : 0);
    }
    return sum;
}

static uint32_t slow_use(struct slow *slow, uint32_t tensor, uint32_t layout, int64_t now, uint32_t user)
{
    const struct sp_work_tensor *work = &subject.workload->tensors[tensor];
    const struct thing *there = slow_find(slow, tensor, layout), *from = NULL;
    uint32_t memory;
    if (there) {
        memory = there->memory;
    } else if (work->kind == SP_WORK_INPUT) {
        memory = slow_add(slow, tensor, layout, -1, UINT32_MAX);
    } else {
        for (uint32_t i = 0; i < slow->thing_count && !from; i++)
            if (slow->things[i].tensor == tensor &&
                sp_strategy_reshard_seconds(table, tensor, slow->things[i].layout, layout) == 0)
                from = &slow->things[i];
        for (uint32_t i = 0; i < slow->thing_count && !from; i++)
            if (slow->things[i].tensor == tensor) {
                from = &slow->things[i];
                slow->communication += sp_strategy_reshard_seconds(table, tensor, from->layout, layout);
                if (slow_is_inside(tensor, user))
                    slow->compute += slow_move(tensor, layout, false) + slow_move(tensor, layout, true);
                slow->reshards++;
            }
        if (from)
            slow->death[from->memory] = now;
        memory = slow_add(slow, tensor, layout, now, UINT32_MAX);
    }
    slow->death[memory] = now;
    return memory;
}

/* The whole model as one stage. */
static void slow_count(struct slow *slow, uint32_t count, const uint32_t *nodes, const uint32_t *chosen)
{
    const struct sp_workload *workload = subject.workload;
    *slow = (struct slow){0};
    for (uint32_t n = 0; n < count; n++) {
        const struct sp_work_node *work = &workload->nodes[nodes[n]];
        const struct sp_strategy *way = &sp_strategy_of(table, nodes[n])->items[chosen[n]];
        uint32_t memory = UINT32_MAX, first = UINT32_MAX;
        slow->compute += way->compute_seconds;
        slow->communication += way->communication_seconds;
        slow->weights += way->weight_bytes;
        for (uint32_t i = 0; i < work->node->input_count; i++) {
            const struct sp_value *value = work->node->inputs[i];
            if (!value || workload->tensors[sp_work_root(workload, value->id)].kind == SP_WORK_WEIGHT)
                continue;
            memory = slow_use(slow, value->id, way->layouts[i], n, nodes[n]);
            first = i == 0 ? memory : first;
        }
        for (uint32_t o = 0; o < work->node->output_count; o++) {
            const struct sp_value *value = work->node->outputs[o];
            if (!value || workload->tensors[sp_work_root(workload, value->id)].kind == SP_WORK_WEIGHT)
                continue;
            memory = slow_add(slow, value->id, way->layouts[work->node->input_count + o], n,
                              workload->tensors[value->id].alias_of == SP_NO_WORK ? UINT32_MAX : first);
            if (workload->tensors[value->id].is_output)
                slow->birth[memory] -= 1000000; /* marks it: it stays */
        }
    }
    for (int64_t n = -1; n < (int64_t)count; n++) {
        double live = n < 0 ? 0 : workload->nodes[nodes[n]].workspace_bytes;
        for (uint32_t m = 0; m < slow->memory_count; m++) {
            bool stays = slow->birth[m] < 0; /* a result, or a model input */
            int64_t birth = slow->birth[m] < -1 ? slow->birth[m] + 1000000 : slow->birth[m];
            if (birth <= n && (stays || slow->death[m] >= n))
                live += slow->bytes[m];
        }
        slow->peak = fmax(slow->peak, live);
    }
}

/* Whether one node alone uses a weight, under whatever name. */
static bool is_own(uint32_t tensor)
{
    const struct sp_workload *workload = subject.workload;
    uint32_t root = sp_work_root(workload, tensor), users = 0;
    for (uint32_t t = 0; t < workload->tensor_count; t++)
        users += sp_work_root(workload, t) == root ? workload->tensors[t].consumer_count : 0;
    return users == 1;
}

/* Weights that several nodes share, once in each layout; where they are whole other names are the same. */
static double shared_weights(uint32_t count, const uint32_t *nodes, const uint32_t *chosen)
{
    const struct sp_workload *workload = subject.workload;
    uint64_t seen[1024];
    uint32_t seen_count = 0;
    double sum = 0;
    for (uint32_t n = 0; n < count; n++) {
        const struct sp_node *node = workload->nodes[nodes[n]].node;
        for (uint32_t i = 0; i < node->input_count; i++) {
            uint32_t at = 0, layout = sp_strategy_of(table, nodes[n])->items[chosen[n]].layouts[i];
            uint32_t tensor = node->inputs[i] ? node->inputs[i]->id : 0, root = sp_work_root(workload, tensor);
            uint64_t key = (uint64_t)(layout == 0 ? root : tensor) << 32 | layout;
            if (!node->inputs[i] || workload->tensors[root].kind != SP_WORK_WEIGHT || is_own(tensor))
                continue;
            while (at < seen_count && seen[at] != key)
                at++;
            if (at < seen_count)
                continue;
            cr_assert_lt(seen_count, 1024);
            seen[seen_count++] = key;
            sum += sp_strategy_local_bytes(table, tensor, layout);
        }
    }
    return sum;
}

Test(intra, counts_as_a_slow_recount_does)
{
    static struct slow slow;
    uint64_t state = 1;
    for (size_t m = 0; m < MODELS; m++) {
        if (!strategy_model_open(&subject, models[m], "a100-sxm4-80gb", 4))
            cr_skip_test("the models are not here");
        table = strategy_table_of(&subject, 2, (uint32_t[]){2, 2});
        uint32_t *nodes, count = stage_nodes(0, subject.workload->node_count, &nodes), reshards = 0;
        uint32_t *chosen = SP_NEW_ARRAY(subject.arena, count, uint32_t);
        for (uint32_t round = 0; round < 20; round++) {
            struct sp_intra_result *result = NULL;
            for (uint32_t n = 0; n < count; n++)
                chosen[n] = (uint32_t)(next_random(&state) % sp_strategy_of(table, nodes[n])->count);
            slow_count(&slow, count, nodes, chosen);
            cr_assert_eq(sp_intra_evaluate(subject.arena, table, count, nodes, chosen, &result, &subject.err), SP_OK);
            EXPECT_NEAR(result->compute_seconds, slow.compute);
            EXPECT_NEAR(result->communication_seconds, slow.communication);
            EXPECT_NEAR(result->activation_peak_bytes, slow.peak);
            EXPECT_NEAR(result->weight_bytes, slow.weights + shared_weights(count, nodes, chosen));
            cr_expect_eq(result->use_count, slow.reshards);
            reshards += slow.reshards;
        }
        cr_expect_gt(reshards, 0);
        sp_strategy_table_destroy(table);
        table = NULL;
        strategy_model_close(&subject);
    }
}

/* ---- the problem ------------------------------------------------------------------------------------------------ */

static struct sp_intra *create(uint32_t count, const uint32_t *nodes, const struct sp_blocks *blocks, double limit)
{
    struct sp_intra_options options = {.node_count = count, .nodes = nodes, .blocks = blocks, .memory_limit = limit};
    struct sp_intra *intra = NULL;
    cr_assert_eq(sp_intra_create(subject.arena, table, &options, &intra, &subject.err), SP_OK, "%s",
                 subject.err.message);
    return intra;
}

/* The best choice of a small problem by looking at all; its cost, or INT64_MAX. */
static int64_t best_of_all(const struct sp_choice_problem *problem, uint32_t *best)
{
    uint32_t *choice = SP_NEW_ARRAY(subject.arena, problem->node_count, uint32_t);
    int64_t least = INT64_MAX;
    for (;;) {
        int64_t cost, peak, moment;
        cr_assert_eq(sp_choice_evaluate(subject.arena, problem, choice, &cost, &peak, &moment, &subject.err), SP_OK);
        if (peak <= problem->limit && cost < least) {
            least = cost;
            memcpy(best, choice, problem->node_count * sizeof *best);
        }
        uint32_t v = 0;
        while (v < problem->node_count && ++choice[v] == problem->first[v + 1] - problem->first[v])
            choice[v++] = 0;
        if (v == problem->node_count)
            return least;
    }
}

/* One row, so that it cannot be split, through two large products; the softmax at the end needs sums of whole rows. */
static void build_perceptron(void)
{
    start(18);
    input("X", "1,4096");
    build_weight(&build, "A", SP_DTYPE_FLOAT, "4096,16384");
    build_weight(&build, "B", SP_DTYPE_FLOAT, "16384,4096");
    build_node(&build, "MatMul", "X A", "H");
    build_node(&build, "Relu", "H", "R");
    build_node(&build, "MatMul", "R B", "S");
    build_node(&build, "Softmax", "S", "Y");
    build_outputs(&build, "Y");
    strategy_model_built(&subject, "a100-sxm4-80gb", 2);
    table = strategy_table_of(&subject, 1, (uint32_t[]){2});
}

static const char *factor_name(uint32_t node, uint32_t strategy)
{
    const struct sp_strategies *ways = sp_strategy_of(table, node);
    uint8_t factor = ways->items[strategy].factor_of[0];
    return factor == SP_STRATEGY_NO_FACTOR ? "-" : ways->rule->factors[factor].name;
}

/* Megatron-LM (Shoeybi et al., 2019): the first product by columns, the second by rows, and one all-reduce. */
Test(intra, a_perceptron_is_cut_by_columns_and_rows)
{
    uint32_t nodes[] = {0, 1, 2, 3}, choice[16];
    struct sp_intra_result *result = NULL;
    build_perceptron();
    struct sp_intra *intra = create(4, nodes, NULL, INFINITY);
    const struct sp_choice_problem *problem = sp_intra_problem(intra);
    cr_expect_eq(problem->node_count, 4, "no hubs, no shadows");
    int64_t cost = best_of_all(problem, choice);
    cr_assert_eq(sp_intra_result(subject.arena, intra, choice, &result, &subject.err), SP_OK);
    cr_expect_str_eq(factor_name(0, result->strategy_of[0]), "n");
    cr_expect_str_eq(factor_name(2, result->strategy_of[2]), "k");
    cr_expect_eq(sp_strategy_of(table, 2)->items[result->strategy_of[2]].scatter_of[0], SP_STRATEGY_NO_FACTOR);
    cr_expect_str_eq(factor_name(3, result->strategy_of[3]), "-");
    cr_expect_eq(result->use_count, 0);
    /* One all-reduce of 4096 floats among two. */
    EXPECT_NEAR(result->communication_seconds, strategy_model_nccl(&subject, SP_DEVICE_ALL_REDUCE, 2, 16384));
    EXPECT_COST(cost, result->compute_seconds + result->communication_seconds);
    EXPECT_NEAR(result->weight_bytes, 4.0 * (4096 * 16384 + 16384 * 4096) / 2);
}

/* A limit that only split weights are within; below it nothing is. */
Test(intra, memory_forces_splits)
{
    uint32_t nodes[] = {0, 1, 2, 3}, *choice;
    double half = 4.0 * (4096 * 16384 + 16384 * 4096) / 2;
    build_perceptron();
    struct sp_intra *intra = create(4, nodes, NULL, half + 1e6);
    cr_assert_eq(sp_intra_choice(subject.arena, intra, (uint32_t[]){0, 0, 0, 0}, &choice, &subject.err), SP_OK);
    int64_t cost, peak, moment;
    cr_assert_eq(
        sp_choice_evaluate(subject.arena, sp_intra_problem(intra), choice, &cost, &peak, &moment, &subject.err), SP_OK);
    cr_expect_gt(peak, sp_intra_problem(intra)->limit);
    cr_expect_eq((double)peak, 2 * half + 4 * (2 * 16384 + 4096), "weights, H, R, and X, which the caller holds");
}

static bool only_whole(const void *context, uint32_t node, const struct sp_strategies *strategies, uint32_t strategy)
{
    (void)strategies;
    return node != *(const uint32_t *)context || strategy == 0;
}

Test(intra, what_is_not_allowed_is_forbidden)
{
    uint32_t nodes[] = {0, 1, 2, 3}, pinned = 2, choice[16];
    struct sp_intra *intra = NULL;
    struct sp_intra_result *result = NULL;
    build_perceptron();
    struct sp_intra_options options = {
        .node_count = 4, .nodes = nodes, .memory_limit = INFINITY, .allowed = only_whole, .context = &pinned};
    cr_assert_eq(sp_intra_create(subject.arena, table, &options, &intra, &subject.err), SP_OK);
    cr_assert_lt(best_of_all(sp_intra_problem(intra), choice), SP_CHOICE_INFINITE);
    cr_assert_eq(sp_intra_result(subject.arena, intra, choice, &result, &subject.err), SP_OK);
    cr_expect_eq(result->strategy_of[2], 0);
}

/* A tensor with two users has a hub: gathered once for both. */
Test(intra, a_hub_is_gathered_once)
{
    uint32_t nodes[] = {0, 1, 2}, *choice;
    struct sp_intra_result *result = NULL;
    start(18);
    input("X", "8,16");
    build_node(&build, "Relu", "X", "H");
    build_node(&build, "Tanh", "H", "U");
    build_node(&build, "Exp", "H", "V");
    build_outputs(&build, "U V");
    strategy_model_built(&subject, "a100-sxm4-80gb", 2);
    table = strategy_table_of(&subject, 1, (uint32_t[]){2});
    struct sp_intra *intra = create(3, nodes, NULL, INFINITY);
    cr_expect_eq(sp_intra_problem(intra)->node_count, 4);
    cr_assert_eq(sp_intra_choice(subject.arena, intra, (uint32_t[]){1, 0, 0}, &choice, &subject.err), SP_OK);
    int64_t cost, peak, moment;
    cr_assert_eq(
        sp_choice_evaluate(subject.arena, sp_intra_problem(intra), choice, &cost, &peak, &moment, &subject.err), SP_OK);
    cr_assert_eq(sp_intra_result(subject.arena, intra, choice, &result, &subject.err), SP_OK);
    cr_expect_eq(result->use_count, 1);
    EXPECT_COST(cost, result->compute_seconds + result->communication_seconds);
    EXPECT_NEAR(result->communication_seconds, strategy_model_nccl(&subject, SP_DEVICE_ALL_GATHER, 2, 512));
}

/* ---- models ----------------------------------------------------------------------------------------------------- */

/* Where nothing is split, the problem's figures are those of the recount, tied and untied, but for kernels that the
   border of the stage splits. */
static void expect_exact_where_whole(const struct sp_blocks *blocks, uint32_t count, const uint32_t *nodes)
{
    uint32_t *whole = SP_NEW_ARRAY(subject.arena, count, uint32_t), *choice;
    struct sp_intra_result *result = NULL;
    int64_t cost, peak, moment;
    struct sp_intra *intra = create(count, nodes, blocks, 1e12);
    cr_assert_eq(sp_intra_choice(subject.arena, intra, whole, &choice, &subject.err), SP_OK);
    cr_assert_eq(
        sp_choice_evaluate(subject.arena, sp_intra_problem(intra), choice, &cost, &peak, &moment, &subject.err), SP_OK);
    cr_assert_eq(sp_intra_result(subject.arena, intra, choice, &result, &subject.err), SP_OK);
    cr_expect_lt(fabs((double)cost / SP_INTRA_SECOND + slow_border(count, nodes) - result->compute_seconds),
                 count / SP_INTRA_SECOND);
    EXPECT_NEAR((double)peak, result->weight_bytes + result->activation_peak_bytes);
}

/* Equal strategies in all blocks: the tied problem has the cost of the untied one, but for hubs, which have one layout
   for all blocks there. */
static void expect_ties(const struct sp_blocks *blocks, uint32_t count, const uint32_t *nodes)
{
    struct sp_intra *tied = create(count, nodes, blocks, INFINITY), *untied = create(count, nodes, NULL, INFINITY);
    uint32_t *strategy_of = SP_NEW_ARRAY(subject.arena, subject.workload->node_count, uint32_t);
    uint32_t *chosen = SP_NEW_ARRAY(subject.arena, count, uint32_t), *choice;
    uint64_t state = 5;
    for (uint32_t round = 0; round < 20; round++) {
        struct sp_intra_result *result[2] = {NULL, NULL};
        int64_t cost[2], peak, moment;
        for (uint32_t n = 0; n < count; n++) {
            uint32_t same = blocks->same_as[nodes[n]];
            if (same == nodes[n])
                strategy_of[same] = (uint32_t)(next_random(&state) % sp_strategy_of(table, same)->count);
            chosen[n] = sp_strategy_of(table, nodes[n]) == sp_strategy_of(table, same) ? strategy_of[same] : 0;
        }
        for (int i = 0; i < 2; i++) {
            struct sp_intra *intra = i == 0 ? tied : untied;
            cr_assert_eq(sp_intra_choice(subject.arena, intra, chosen, &choice, &subject.err), SP_OK);
            cr_assert_eq(sp_choice_evaluate(subject.arena, sp_intra_problem(intra), choice, &cost[i], &peak, &moment,
                                            &subject.err),
                         SP_OK);
            cr_assert_eq(sp_intra_result(subject.arena, intra, choice, &result[i], &subject.err), SP_OK);
            cr_expect(memcmp(result[i]->strategy_of, chosen, count * sizeof *chosen) == 0);
        }
        double tolerance = 4.0 * count; /* each node and edge is rounded */
        cr_expect_geq((double)cost[0], (double)cost[1] - tolerance);
        cr_expect_leq((double)cost[0], 1.3 * (double)cost[1]);
    }
}

Test(intra, problems_of_models)
{
    for (size_t m = 0; m < MODELS; m++) {
        struct sp_blocks *blocks = NULL;
        if (!strategy_model_open(&subject, models[m], "a100-sxm4-80gb", 4))
            cr_skip_test("the models are not here");
        table = strategy_table_of(&subject, 2, (uint32_t[]){2, 2});
        uint32_t *nodes, count = stage_nodes(0, subject.workload->node_count, &nodes);
        cr_assert_eq(sp_blocks_find(subject.arena, subject.workload, &blocks, &subject.err), SP_OK);
        expect_exact_where_whole(NULL, count, nodes);
        expect_exact_where_whole(blocks, count, nodes);
        expect_exact_where_whole(blocks, count / 2, nodes);
        expect_exact_where_whole(blocks, count / 2, nodes + count / 2);
        expect_ties(blocks, count, nodes);
        sp_strategy_table_destroy(table);
        table = NULL;
        strategy_model_close(&subject);
    }
}

/* ---- kernels ---------------------------------------------------------------------------------------------------- */

/* A product and its bias are one kernel. Apart they are two: the first writes, the second starts and reads. */
Test(intra, a_border_inside_a_kernel_costs_a_start_and_bytes)
{
    uint32_t stage_of[] = {0, 0, 0}, devices[] = {0, 1};
    struct sp_placement placement = {1, stage_of, devices};
    struct sp_evaluation *whole = NULL, *inside = NULL, *behind = NULL;
    start(18);
    input("X", "128,256");
    build_weight(&build, "W", SP_DTYPE_FLOAT, "256,512");
    build_weight(&build, "B", SP_DTYPE_FLOAT, "512");
    build_node(&build, "MatMul", "X W", "M");
    build_node(&build, "Add", "M B", "S");
    build_node(&build, "Softmax", "S", "Y");
    build_outputs(&build, "Y");
    strategy_model_built(&subject, "a100-sxm4-80gb", 2);
    table = strategy_table_of(&subject, 0, NULL);
    cr_assert_eq(sp_evaluate(subject.arena, subject.workload, subject.cluster, &placement, &whole, &subject.err),
                 SP_OK);
    placement.stage_count = 2;
    stage_of[1] = stage_of[2] = 1;
    cr_assert_eq(sp_evaluate(subject.arena, subject.workload, subject.cluster, &placement, &inside, &subject.err),
                 SP_OK);
    const uint32_t product = subject.workload->nodes[0].outputs[0];
    EXPECT_NEAR(inside->stages[0].compute_seconds + inside->stages[1].compute_seconds,
                whole->stages[0].compute_seconds + slow_move(product, 0, true) + slow_move(product, 0, false));
    cr_expect_gt(inside->stages[1].compute_seconds, slow_move(product, 0, true));
    expect_as_evaluated(&placement, 0, 0, 1);
    expect_as_evaluated(&placement, 1, 1, 3);
    stage_of[1] = 0;
    cr_assert_eq(sp_evaluate(subject.arena, subject.workload, subject.cluster, &placement, &behind, &subject.err),
                 SP_OK);
    EXPECT_NEAR(behind->stages[0].compute_seconds + behind->stages[1].compute_seconds,
                whole->stages[0].compute_seconds);
}

/* Split over what it adds up, a product has a collective between itself and its bias. */
Test(intra, a_collective_inside_a_kernel_costs_a_start_and_bytes)
{
    start(18);
    input("X", "128,256");
    build_weight(&build, "W", SP_DTYPE_FLOAT, "256,512");
    build_weight(&build, "B", SP_DTYPE_FLOAT, "512");
    build_node(&build, "MatMul", "X W", "M");
    build_node(&build, "Add", "M B", "Y");
    build_outputs(&build, "Y");
    strategy_model_built(&subject, "a100-sxm4-80gb", 2);
    double seconds[2] = {0, 0};
    const uint32_t product = subject.workload->nodes[0].outputs[0];
    for (int alone = 0; alone < 2; alone++) {
        if (alone == 1)
            subject.workload->kernels[0]->nodes[0].hands_on = false;
        table = strategy_table_of(&subject, 1, (uint32_t[]){2});
        const struct sp_strategies *strategies = sp_strategy_of(table, 0);
        for (uint32_t s = 0; s < strategies->count; s++)
            if (strategies->items[s].layouts[0] != 0 && strategies->items[s].layouts[2] == 0)
                seconds[alone] = strategies->items[s].compute_seconds;
        if (alone == 0)
            sp_strategy_table_destroy(table);
    }
    cr_expect_gt(seconds[1], 0);
    EXPECT_NEAR(seconds[0], seconds[1] + slow_move(product, 0, true) + slow_move(product, 0, false));
}

/* The placement with all of a kernel in one stage, the first or the last of its parts'. */
static double interval_with_whole(const struct sp_placement *placement, uint32_t kernel, bool is_first)
{
    const struct sp_workload *workload = subject.workload;
    uint32_t *stage_of = SP_NEW_ARRAY(subject.arena, workload->node_count, uint32_t);
    struct sp_placement whole = *placement;
    struct sp_evaluation *evaluation = NULL;
    uint32_t stage = UINT32_MAX;
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const uint32_t at = stage_of[n] = placement->stage_of[n];
        if (sp_work_kernel(workload, workload->kind_of[0], n)->kernel == kernel &&
            (stage == UINT32_MAX || (is_first ? at < stage : at > stage)))
            stage = at;
    }
    for (uint32_t n = 0; n < workload->node_count; n++) {
        if (sp_work_kernel(workload, workload->kind_of[0], n)->kernel == kernel)
            stage_of[n] = stage;
    }
    whole.stage_of = stage_of;
    /* What lies between parts of the kernel may be in another stage: then that is no placement. */
    if (sp_evaluate(subject.arena, workload, subject.cluster, &whole, &evaluation, &subject.err) != SP_OK)
        return INFINITY;
    return evaluation->interval_seconds;
}

/* Stages of a transformer, of which one would end between a product and its bias, end inside a kernel only where this
   is worth the start of its other half. */
Test(intra, no_stage_ends_inside_a_kernel_for_nothing)
{
    struct sp_joint_options options;
    struct sp_search_result *result = NULL;
    if (!strategy_model_open(&subject, "bert_base.onnx", "a100-sxm4-80gb", 4))
        cr_skip_test("the models are not here");
    sp_joint_options_init(&options);
    options.tolerance = 0;
    cr_assert_eq(
        sp_joint_search(subject.arena, subject.workload, NULL, subject.cluster, &options, &result, &subject.err),
        SP_OK);
    const struct sp_evaluation *evaluation = result->evaluation;
    cr_expect_gt(evaluation->stage_count, 1);
    for (uint32_t i = 0; i < evaluation->transfer_count; i++) {
        const uint32_t t = evaluation->transfers[i].tensor;
        const struct sp_work_tensor *tensor = &subject.workload->tensors[t];
        for (uint32_t c = 0; c < tensor->consumer_count; c++) {
            if (result->placement.stage_of[tensor->consumers[c]] != evaluation->transfers[i].to_stage ||
                !slow_is_inside(t, tensor->consumers[c]))
                continue;
            const uint32_t kernel =
                sp_work_kernel(subject.workload, subject.workload->kind_of[0], tensor->producer)->kernel;
            for (int is_first = 0; is_first < 2; is_first++)
                cr_expect_gt(interval_with_whole(&result->placement, kernel, is_first), evaluation->interval_seconds,
                             "%s", tensor->name);
        }
    }
    sp_search_result_release(result);
}
