/*
 * Strategies: small rules by hand, and with whole models the promise that each strategy is what the partition runs.
 *
 * Times of collectives follow from the formulas of sharding/reshard/collective_cost.h (Thakur, Rabenseifner, Gropp
 * 2005) with the figures of the cluster; seconds of operators from the roofline (cost/workload.h).
 */
#include <math.h>
#include <string.h>

#include "partition/partition.h"
#include "search/strategy/strategy_internal.h"
#include "strategy_models.h"

static struct strategy_model subject;

static void end(void)
{
    if (subject.arena)
        strategy_model_close(&subject);
    if (build.arena)
        stop();
}

TestSuite(strategy, .fini = end);

/* ---- products --------------------------------------------------------------------------------------------------- */

static struct sp_strategy_table *product(const char *a, const char *b, uint32_t axis_count, const uint32_t *sizes)
{
    start(18);
    input("A", a);
    build_weight(&build, "B", SP_DTYPE_FLOAT, b);
    build_node(&build, "MatMul", "A B", "Y");
    build_outputs(&build, "Y");
    strategy_model_built(&subject, "a100-sxm4-80gb", 8);
    return strategy_table_of(&subject, axis_count, sizes);
}

/* "m", "k", "k>0", "m,k>1": the factors of the mesh's axes by name, and where a reduction is scattered to. */
static const char *way_text(const struct sp_strategies *strategies, uint32_t index, uint32_t axis_count)
{
    const struct sp_strategy *strategy = &strategies->items[index];
    const char *text = "";
    for (uint32_t a = 0; a < axis_count; a++) {
        uint8_t factor = strategy->factor_of[a];
        text = sp_arena_printf(subject.arena, "%s%s%s", text, a > 0 ? "," : "",
                               factor == SP_STRATEGY_NO_FACTOR ? "-" : strategies->rule->factors[factor].name);
        if (strategy->scatter_of[a] != SP_STRATEGY_NO_FACTOR)
            text = sp_arena_printf(subject.arena, "%s>%u", text, strategy->scatter_of[a]);
    }
    return text;
}

static const struct sp_strategy *find_way(const struct sp_strategies *strategies, const char *text, uint32_t axis_count)
{
    for (uint32_t i = 0; i < strategies->count; i++)
        if (strcmp(way_text(strategies, i, axis_count), text) == 0)
            return &strategies->items[i];
    cr_assert_fail("there is no strategy %s", text);
    return NULL;
}

static const char *all_ways(const struct sp_strategies *strategies, uint32_t axis_count)
{
    const char *text = "";
    for (uint32_t i = 0; i < strategies->count; i++)
        text = sp_arena_printf(subject.arena, "%s%s%s", text, i > 0 ? " " : "", way_text(strategies, i, axis_count));
    return text;
}

Test(strategy, a_product_on_two_devices)
{
    struct sp_strategy_table *table = product("8,16", "16,4", 1, (uint32_t[]){2});
    const struct sp_strategies *ways = sp_strategy_of(table, 0);
    cr_expect_str_eq(all_ways(ways, 1), "- m n k k>0 k>1", "%s", all_ways(ways, 1));

    /* Y has 8 * 4 floats: 128 bytes. */
    EXPECT_NEAR(find_way(ways, "k", 1)->communication_seconds,
                strategy_model_nccl(&subject, SP_DEVICE_ALL_REDUCE, 2, 128));
    EXPECT_NEAR(find_way(ways, "k", 1)->communication_bytes, 128);
    EXPECT_NEAR(find_way(ways, "k>0", 1)->communication_seconds,
                strategy_model_nccl(&subject, SP_DEVICE_REDUCE_SCATTER, 2, 128));
    EXPECT_NEAR(find_way(ways, "k>0", 1)->communication_bytes, 64);
    cr_expect_eq(find_way(ways, "m", 1)->communication_seconds, 0);

    /* 2 * 8 * 16 * 4 FLOPs; B has 256 bytes, A 512. */
    EXPECT_NEAR(find_way(ways, "-", 1)->flops, 1024);
    EXPECT_NEAR(find_way(ways, "n", 1)->flops, 512);
    EXPECT_NEAR(find_way(ways, "n", 1)->bytes, 512 + 128 + 64);
    EXPECT_NEAR(find_way(ways, "n", 1)->weight_bytes, 128);
    EXPECT_NEAR(find_way(ways, "m", 1)->weight_bytes, 256);
    EXPECT_NEAR(find_way(ways, "k", 1)->weight_bytes, 128);
    EXPECT_NEAR(find_way(ways, "k", 1)->output_bytes, 128);
    EXPECT_NEAR(find_way(ways, "k>1", 1)->output_bytes, 64);
    sp_strategy_table_destroy(table);
}

Test(strategy, local_seconds_are_the_roofline_of_the_shard)
{
    struct sp_strategy_table *table = product("512,2048", "2048,1024", 1, (uint32_t[]){4});
    const struct sp_strategies *ways = sp_strategy_of(table, 0);
    struct sp_kernel_work work = {.flops = 2.0 * 512 * 2048 * 256,
                                  .bytes = 4.0 * (512 * 2048 + 2048 * 256 + 512 * 256),
                                  .kind = SP_KERNEL_PRODUCT};
    EXPECT_NEAR(find_way(ways, "n", 1)->compute_seconds,
                sp_roofline_seconds(sp_cluster_device(subject.cluster, 0), subject.cluster, SP_DTYPE_FLOAT, &work));
    cr_expect_eq(ways->items[0].compute_seconds, subject.workload->nodes[0].seconds[0]);
    sp_strategy_table_destroy(table);
}

Test(strategy, a_product_on_a_grid)
{
    struct sp_strategy_table *table = product("8,16", "16,4", 2, (uint32_t[]){2, 2});
    const struct sp_strategies *ways = sp_strategy_of(table, 0);
    /* 4 choices for each axis, and reductions scattered to either axis where that divides: with all else on it. */
    cr_expect_str_eq(all_ways(ways, 2),
                     "-,- -,m -,n -,k -,k>0 -,k>1 "
                     "m,- m,m m,n m,k m,k>0 m,k>1 "
                     "n,- n,m n,n n,k n,k>0 n,k>1 "
                     "k,- k>0,- k>1,- k,m k>0,m k>1,m k,n k>0,n k>1,n k,k k>0,k>0 k>1,k>1",
                     "%s", all_ways(ways, 2));
    /* Rows on x, scattered to rows along y: axis 0 over {x, y}. */
    const struct sp_strategy *way = find_way(ways, "m,k>0", 2);
    const struct sp_layout *y = sp_strategy_layout(table, way->layouts[2]);
    cr_expect_eq(y->axis[0], 0);
    cr_expect_eq(y->axis[1], 0);
    cr_expect_eq(y->place[0], 0);
    cr_expect_eq(y->place[1], 1);
    /* The other way round y is major: what x adds comes behind it. */
    way = find_way(ways, "k>0,m", 2);
    y = sp_strategy_layout(table, way->layouts[2]);
    cr_expect_eq(y->place[0], 1);
    cr_expect_eq(y->place[1], 0);
    /* 4 rows of 16 bytes are reduced among 2. */
    EXPECT_NEAR(find_way(ways, "m,k", 2)->communication_seconds,
                strategy_model_nccl(&subject, SP_DEVICE_ALL_REDUCE, 2, 64));
    sp_strategy_table_destroy(table);
}

Test(strategy, only_even_cuts_are_made)
{
    struct sp_strategy_table *table = product("6,16", "16,5", 1, (uint32_t[]){4});
    const struct sp_strategies *ways = sp_strategy_of(table, 0);
    cr_expect_str_eq(all_ways(ways, 1), "- k", "%s", all_ways(ways, 1));
    sp_strategy_table_destroy(table);
}

/* As measured, not as a reduce-scatter and an all-gather. */
Test(strategy, eight_devices_reduce_as_measured)
{
    struct sp_strategy_table *table = product("8,16", "16,8", 1, (uint32_t[]){8});
    const struct sp_strategies *ways = sp_strategy_of(table, 0);
    EXPECT_NEAR(find_way(ways, "k", 1)->communication_seconds,
                strategy_model_nccl(&subject, SP_DEVICE_ALL_REDUCE, 8, 256));
    sp_strategy_table_destroy(table);
}

/* ---- other operators -------------------------------------------------------------------------------------------- */

static const struct sp_strategies *ways_of(struct sp_strategy_table **ret_table, uint32_t axis_count,
                                           const uint32_t *sizes)
{
    strategy_model_built(&subject, "a100-sxm4-80gb", 8);
    *ret_table = strategy_table_of(&subject, axis_count, sizes);
    return sp_strategy_of(*ret_table, subject.workload->node_count - 1);
}

/* A split softmax exchanges the maxima and the sums of its rows: [8, 1] floats each. */
Test(strategy, a_softmax_has_two_small_reductions)
{
    struct sp_strategy_table *table;
    start(18);
    input("X", "8,64");
    build_node(&build, "Softmax", "X", "Y");
    build_outputs(&build, "Y");
    const struct sp_strategies *ways = ways_of(&table, 1, (uint32_t[]){2});
    const struct sp_mesh_level *link = &subject.cluster->levels[0];
    cr_expect_eq(ways->count, 3);
    /* Two all-reduces of 32 bytes among two devices, as the level's forms have them. */
    const uint32_t span[] = {2};
    EXPECT_NEAR(ways->items[2].communication_seconds,
                2 * sp_collective_seconds(&(struct sp_links){1, link}, SP_ALL_REDUCE, span, 32));
    cr_expect_eq(ways->items[1].communication_seconds, 0);
    cr_expect_gt(ways->items[2].compute_seconds, ways->items[1].compute_seconds, "it takes several operators");
    sp_strategy_table_destroy(table);
}

/* A reshape is free in any of its ways, and of its compound axis the major factor is cut. */
Test(strategy, views_cost_nothing)
{
    struct sp_strategy_table *table;
    start(18);
    input("X", "4,6,64");
    build_node(&build, "Relu", "X", "H");
    build_ints(&build, "shape", 4, (int64_t[]){4, 6, 8, 8});
    build_node(&build, "Reshape", "H shape", "Y");
    build_outputs(&build, "Y");
    const struct sp_strategies *ways = ways_of(&table, 1, (uint32_t[]){2});
    cr_expect_eq(ways->count, 4, "%u", ways->count); /* whole, 4, 6, and the 8 that comes first */
    for (uint32_t i = 0; i < ways->count; i++) {
        cr_expect_eq(ways->items[i].compute_seconds, 0);
        cr_expect_eq(ways->items[i].communication_seconds, 0);
        cr_expect_eq(ways->items[i].output_bytes, 0);
    }
    sp_strategy_table_destroy(table);
}

/* A convolution that is cut along its height fetches rows of its neighbours: 3 x 3 with padding needs one on each side,
   [2, 8, 1, 16] floats of the input. */
Test(strategy, a_convolution_exchanges_borders)
{
    struct sp_strategy_table *table;
    start(18);
    input("X", "2,8,16,16");
    build_weight(&build, "W", SP_DTYPE_FLOAT, "4,8,3,3");
    build_node(&build, "Relu", "X", "H");
    struct sp_node *conv = build_node(&build, "Conv", "H W", "Y");
    build_attr_ints(&build, conv, "pads", 4, (int64_t[]){1, 1, 1, 1});
    build_outputs(&build, "Y");
    const struct sp_strategies *ways = ways_of(&table, 1, (uint32_t[]){4});
    const struct sp_mesh_level *link = &subject.cluster->levels[0];
    bool is_found = false;
    for (uint32_t i = 0; i < ways->count; i++) {
        const struct sp_strategy *way = &ways->items[i];
        if (way->factor_of[0] == SP_STRATEGY_NO_FACTOR || ways->rule->factors[way->factor_of[0]].kind != SP_FACTOR_HALO)
            continue;
        is_found = true;
        EXPECT_NEAR(way->communication_bytes, 2 * 2 * 8 * 16 * 4);
        EXPECT_NEAR(way->communication_seconds, 1 * link->latency + 2048 / link->bandwidth);
    }
    cr_expect(is_found);
    sp_strategy_table_destroy(table);
}

/* Nodes that are alike share what they can do; those that are not do not. */
Test(strategy, equal_nodes_share)
{
    start(18);
    input("X", "8,16");
    build_weight(&build, "A", SP_DTYPE_FLOAT, "16,16");
    build_weight(&build, "B", SP_DTYPE_FLOAT, "16,16");
    build_weight(&build, "C", SP_DTYPE_FLOAT, "16,32");
    build_node(&build, "MatMul", "X A", "U");
    build_node(&build, "MatMul", "U B", "V");
    build_node(&build, "MatMul", "V C", "W");
    build_outputs(&build, "W");
    strategy_model_built(&subject, "a100-sxm4-80gb", 8);
    struct sp_strategy_table *table = strategy_table_of(&subject, 1, (uint32_t[]){2});
    /* X is a model input, U is made: not the same, V the same as U's user. */
    cr_expect_neq(sp_strategy_of(table, 0), sp_strategy_of(table, 1));
    cr_expect_neq(sp_strategy_of(table, 1), sp_strategy_of(table, 2));
    cr_expect_eq(sp_strategy_operand(table, 1, build_value(&build, "U")->id), 0);
    cr_expect_eq(sp_strategy_operand(table, 1, build_value(&build, "V")->id), 2);
    cr_expect_eq(sp_strategy_operand(table, 1, build_value(&build, "W")->id), UINT32_MAX);
    sp_strategy_table_destroy(table);
}

Test(strategy, one_device_has_one_strategy)
{
    struct sp_strategy_table *table = product("8,16", "16,4", 0, NULL);
    const struct sp_strategies *ways = sp_strategy_of(table, 0);
    const struct sp_sharding *sharding;
    cr_expect_eq(ways->count, 1);
    cr_expect_eq(ways->items[0].compute_seconds, subject.workload->nodes[0].seconds[0]);
    cr_assert_eq(sp_strategy_sharding(table, subject.arena, 2, 0, 3, &sharding, &subject.err), SP_OK);
    cr_expect_eq(sharding->mesh->order.count, 1);
    cr_expect_eq(sp_device_order_at(&sharding->mesh->order, 0), 3);
    sp_strategy_table_destroy(table);
}

/* A layout's sharding is read back as the same digits by the planner of reshards. */
Test(strategy, layouts_are_those_of_their_shardings)
{
    struct sp_strategy_table *table = product("64,64", "64,64", 3, (uint32_t[]){4, 2, 2});
    const struct sp_strategies *ways = sp_strategy_of(table, 0);
    for (uint32_t i = 0; i < ways->count; i++)
        for (uint32_t o = 0; o < ways->operand_count; o++) {
            const struct sp_sharding *sharding;
            struct sp_layout read;
            uint32_t layout = ways->items[i].layouts[o], digits = sp_reshard_costs_digits(table->costs);
            cr_assert_eq(sp_strategy_sharding(table, subject.arena, 2, layout, 0, &sharding, &subject.err), SP_OK);
            cr_assert_eq(sp_sharding_check(sharding, 2, NULL, 16, &subject.err), SP_OK, "%s", subject.err.message);
            cr_assert_eq(sp_layout_of(table->costs, sharding, &read, &subject.err), SP_OK, "%s", subject.err.message);
            cr_expect(memcmp(read.axis, sp_strategy_layout(table, layout)->axis, digits) == 0);
            cr_expect(memcmp(read.place, sp_strategy_layout(table, layout)->place, digits) == 0);
        }
    sp_strategy_table_destroy(table);
}

/* Where mesh axes are prime, and tensors divide, reshards cost what the planner of all prime parts says. */
Test(strategy, reshards_cost_what_the_planner_says)
{
    struct sp_strategy_table *table = product("36,36", "36,36", 2, (uint32_t[]){2, 3});
    const struct sp_strategies *ways = sp_strategy_of(table, 0);
    struct sp_reshard_costs *costs = NULL;
    uint32_t tensor = build_value(&build, "Y")->id, compared = 0;
    cr_assert_eq(sp_reshard_costs_create(NULL, &table->mesh.links, table->axes, 1 << 20, &costs, &subject.err), SP_OK);
    for (uint32_t i = 0; i < ways->count; i++)
        for (uint32_t j = 0; j < ways->count; j++) {
            uint32_t from = ways->items[i].layouts[2], to = ways->items[j].layouts[0];
            double want = sp_reshard_cost(costs, 2, (int64_t[]){36, 36}, 4, sp_strategy_layout(table, from),
                                          sp_strategy_layout(table, to), NULL);
            double cost = sp_strategy_reshard_seconds(table, tensor, from, to);
            cr_expect(fabs(cost - want) <= 1e-12 * want, "%u to %u: %.17g, not %.17g", from, to, cost, want);
            compared += want > 0;
        }
    cr_expect_gt(compared, 100);
    sp_reshard_costs_destroy(costs);
    sp_strategy_table_destroy(table);
}

/* Whether a layout cuts axes that a tensor has. */
static bool fits(const struct sp_strategy_table *table, uint32_t layout, uint32_t rank)
{
    const struct sp_strategy_layout *cut = table->layouts[layout];
    return cut->cut_count == 0 || cut->axes[cut->cut_count - 1] < rank;
}

/* Answers are kept for all tensors of as many bytes, up to the names of axes; they are those to the question itself. */
Test(strategy, reshards_of_all_tensors_cost_what_each_costs_alone)
{
    static const char *const names[] = {"A", "B", "C", "D", "E", "F", "G"};
    uint32_t state = 1, draws[3], compared = 0;
    start(18);
    input("A", "24,16,8");
    input("B", "8,24,16");
    input("C", "12,10");
    build_weight(&build, "W", SP_DTYPE_FLOAT, "8,16");
    build_node(&build, "MatMul", "A W", "D");
    build_node(&build, "Transpose", "B", "E");
    build_node(&build, "Relu", "D", "F");
    build_node(&build, "Softmax", "C", "G");
    build_outputs(&build, "E F G");
    strategy_model_built(&subject, "a100-sxm4-80gb", 8);
    struct sp_strategy_table *table = strategy_table_of(&subject, 3, (uint32_t[]){2, 2, 2});
    for (uint32_t i = 0; i < 20000; i++) {
        for (uint32_t k = 0; k < 3; k++) {
            state = state * 1664525u + 1013904223u; /* Numerical Recipes, section 7.1 */
            draws[k] = state >> 8;
        }
        const struct sp_value *value = build_value(&build, names[draws[0] % 7]);
        const struct sp_shape *shape = &value->type.shape;
        uint32_t from = draws[1] % table->layout_count, to = draws[2] % table->layout_count;
        int64_t extents[3];
        double bytes, want_bytes;
        if (!fits(table, from, shape->rank) || !fits(table, to, shape->rank))
            continue;
        for (uint32_t a = 0; a < shape->rank; a++)
            extents[a] = shape->dims[a].value;
        double cost = sp_strategy_reshard(table, value->id, from, to, &bytes);
        double want = sp_reshard_cost(table->costs, shape->rank, extents, 4, sp_strategy_layout(table, from),
                                      sp_strategy_layout(table, to), &want_bytes);
        cr_expect(fabs(cost - want) <= 1e-12 * want && fabs(bytes - want_bytes) <= 1e-12 * want_bytes,
                  "%s from %u to %u: %.17g and %.17g, not %.17g and %.17g", value->name, from, to, cost, bytes, want,
                  want_bytes);
        compared += want > 0;
    }
    cr_expect_gt(compared, 5000, "%u", compared);
    sp_strategy_table_destroy(table);
}

/* An axis of 8 over two nodes of four has two digits, and its collectives use both levels of links. */
Test(strategy, axes_are_cut_where_links_change)
{
    struct sp_mesh_level levels[] = {{"node", 2, 25e9, 5e-6}, {"gpu", 4, 450e9, 2e-6}};
    struct sp_strategy_mesh mesh = {.axis_count = 1, .size = {8}, .links = {2, levels}};
    struct sp_strategy_table *table = NULL;
    uint32_t span[] = {2, 4};
    sp_strategy_table_destroy(product("8,16", "16,8", 1, (uint32_t[]){8}));
    mesh.cluster = subject.cluster;
    mesh.device = sp_cluster_device(subject.cluster, 0);
    cr_assert_eq(
        sp_strategy_table_create(subject.arena, subject.workload, subject.dataflow, &mesh, NULL, &table, &subject.err),
        SP_OK);
    cr_expect_eq(sp_reshard_costs_digits(table->costs), 2);
    cr_expect_eq(table->span[0][0], 2);
    cr_expect_eq(table->span[0][1], 4);
    EXPECT_NEAR(find_way(sp_strategy_of(table, 0), "k", 1)->communication_seconds,
                sp_collective_seconds(&mesh.links, SP_ALL_REDUCE, span, 256));
    sp_strategy_table_destroy(table);
}

/* ---- what the partition makes of it ----------------------------------------------------------------------------- */

struct honesty {
    struct sp_strategy_table *table;
    const uint32_t *chosen;                      /* per node */
    uint32_t *ops;                               /* per node: parts of it on any device */
    uint32_t *scattered;                         /* per node: its results that are reduce-scattered */
    uint32_t *reduced;                           /* per node: its results that are all-reduced */
    uint32_t axis_count, notes, split, scatters; /* nodes that were run split, and with a reduce-scatter */
};

static enum sp_status count_op(void *context, const struct sp_part_op *op, struct sp_error *err)
{
    struct honesty *honesty = context;
    (void)err;
    if (op->node->graph == subject.model->graph)
        honesty->ops[op->node->index]++;
    return SP_OK;
}

static enum sp_status count_exchange(void *context, const struct sp_exchange *exchange, struct sp_error *err)
{
    struct honesty *honesty = context;
    (void)err;
    if (!exchange->node || exchange->node->graph != subject.model->graph || !exchange->value ||
        exchange->value->producer != exchange->node)
        return SP_OK;
    honesty->scattered[exchange->node->index] += exchange->kind == SP_REDUCE_SCATTER && exchange->is_regular;
    honesty->reduced[exchange->node->index] += exchange->kind == SP_ALL_REDUCE;
    return SP_OK;
}

static enum sp_status count_note(void *context, const struct sp_part_note *note, struct sp_error *err)
{
    struct honesty *honesty = context;
    (void)err;
    if (strcmp(note->code, "FACTOR_WHOLE") == 0 || strcmp(note->code, "NODE_WHOLE") == 0 ||
        strcmp(note->code, "SHARDS_UNEVEN") == 0 || strcmp(note->code, "OPERANDS_DISAGREE") == 0) {
        const struct sp_strategies *ways = sp_strategy_of(honesty->table, note->node->index);
        honesty->notes++;
        cr_expect(false, "%s as %s: %s", note->node->op_type,
                  way_text(ways, honesty->chosen[note->node->index], honesty->axis_count), note->message);
    }
    return SP_OK;
}

/* A node that the dataflow sees through its rule, and that is run. */
static bool is_subject(const struct sp_dataflow *dataflow, const struct sp_relation *relation)
{
    return relation->kind == SP_RELATION_NODE && relation->node->graph == dataflow->model->graph &&
           !relation->node->is_folded;
}

static struct sp_assignment *assign(struct honesty *honesty, struct sp_arena *arena)
{
    struct sp_assignment *assignment = NULL;
    uint32_t devices = honesty->table->device_count;
    cr_assert_eq(sp_assignment_create(arena, subject.dataflow, "c", devices, NULL, &assignment, &subject.err), SP_OK);
    for (uint32_t r = 0; r < subject.dataflow->relation_count; r++) {
        const struct sp_relation *relation = &subject.dataflow->relations[r];
        if (!is_subject(subject.dataflow, relation))
            continue;
        const struct sp_strategies *ways = sp_strategy_of(honesty->table, relation->node->index);
        const struct sp_strategy *way = &ways->items[honesty->chosen[relation->node->index]];
        for (uint32_t o = 0; o < relation->operand_count; o++) {
            const struct sp_value *value =
                relation->tensors[o] == SP_NO_TENSOR ? NULL : subject.dataflow->tensors[relation->tensors[o]];
            const struct sp_sharding *sharding;
            if (!value || value->type.kind != SP_TYPE_TENSOR || !value->type.shape.has_rank)
                continue;
            cr_assert_eq(sp_strategy_sharding(honesty->table, arena, value->type.shape.rank, way->layouts[o], 0,
                                              &sharding, &subject.err),
                         SP_OK);
            *sp_spec_of(assignment, relation->node_id, o) = (struct sp_spec_entry){sharding, SP_SPEC_GIVEN, NULL};
        }
    }
    return assignment;
}

/* The view takes the operands' layouts as they are, and sees each factor cut as the strategy says. */
static void expect_view(struct honesty *honesty, struct sp_arena *arena, const struct sp_assignment *assignment,
                        const struct sp_relation *relation)
{
    const struct sp_strategies *ways = sp_strategy_of(honesty->table, relation->node->index);
    uint32_t chosen = honesty->chosen[relation->node->index];
    const struct sp_strategy *way = &ways->items[chosen];
    struct sp_view *view = NULL;
    cr_assert_eq(sp_view_create(arena, assignment, relation, &view, &subject.err), SP_OK, "%s", subject.err.message);
    cr_expect(view->conflict_count == 0, "%s as %s: %s", relation->node->op_type,
              way_text(ways, chosen, honesty->axis_count), view->conflict_count > 0 ? view->conflicts[0].message : "");
    for (uint32_t f = 0; ways->rule && f < ways->rule->factor_count && view->conflict_count == 0; f++) {
        int64_t shards = 1, seen = 1;
        bool in_inputs = false;
        for (uint32_t a = 0; a < honesty->axis_count; a++)
            if (way->factor_of[a] == f)
                shards *= honesty->table->mesh.size[a];
        for (uint32_t p = 0; p < view->splits[f].part_count; p++)
            seen *= view->splits[f].parts[p].shards;
        for (uint32_t i = 0; i < ways->rule->input_count; i++)
            for (uint32_t x = 0; x < ways->rule->inputs[i].rank; x++)
                for (uint32_t j = 0; j < ways->rule->inputs[i].axes[x].count; j++)
                    in_inputs = in_inputs || ways->rule->inputs[i].axes[x].factors[j] == f;
        if (in_inputs) /* the view looks at inputs; what outputs add the partition sees */
            cr_expect_eq(seen, shards, "%s as %s: %s in %lld", relation->node->op_type,
                         way_text(ways, chosen, honesty->axis_count), ways->rule->factors[f].name, (long long)seen);
    }
}

/* Whether a node's results are combined as its strategy says. */
static void expect_run(struct honesty *honesty, const struct sp_node *node)
{
    const struct sp_strategies *ways = sp_strategy_of(honesty->table, node->index);
    uint32_t chosen = honesty->chosen[node->index];
    const struct sp_strategy *way = &ways->items[chosen];
    bool scatters = false;
    for (uint32_t a = 0; a < honesty->axis_count; a++)
        scatters = scatters || way->scatter_of[a] != SP_STRATEGY_NO_FACTOR;
    if (honesty->ops[node->index] == 0)
        return;                            /* nobody needs it, or its elements are known */
    if (strcmp(node->op_type, "Pad") != 0) /* devices in the middle have nothing to pad */
        cr_expect_geq(honesty->ops[node->index], honesty->table->device_count, "%s", node->op_type);
    cr_expect_eq(honesty->scattered[node->index], scatters, "%s as %s: %u reduce-scatters", node->op_type,
                 way_text(ways, chosen, honesty->axis_count), honesty->scattered[node->index]);
    if (scatters && node->output_count == 1)
        cr_expect_eq(honesty->reduced[node->index], 0, "%s", node->op_type);
    honesty->split += chosen > 0;
    honesty->scatters += scatters;
}

/* All nodes at once, each with its next strategy in each round, until all have had theirs. */
static void expect_honest(uint32_t axis_count, const uint32_t *sizes)
{
    struct honesty honesty = {.axis_count = axis_count};
    uint32_t count = subject.workload->node_count, rounds = 1;
    uint32_t *chosen = SP_NEW_ARRAY(subject.arena, count, uint32_t);
    struct sp_part_sink sink = {.context = &honesty, .op = count_op, .exchange = count_exchange, .note = count_note};
    honesty.table = strategy_table_of(&subject, axis_count, sizes);
    honesty.chosen = chosen;
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_strategies *ways = sp_strategy_of(honesty.table, i);
        rounds = ways && ways->count > rounds ? ways->count : rounds;
    }
    for (uint32_t round = 0; round < rounds && honesty.notes < 8; round++) {
        struct sp_arena *arena = sp_arena_create(NULL);
        honesty.ops = SP_NEW_ARRAY(arena, count, uint32_t);
        honesty.scattered = SP_NEW_ARRAY(arena, count, uint32_t);
        honesty.reduced = SP_NEW_ARRAY(arena, count, uint32_t);
        for (uint32_t i = 0; i < count; i++)
            chosen[i] = sp_strategy_of(honesty.table, i) ? round % sp_strategy_of(honesty.table, i)->count : 0;
        struct sp_assignment *assignment = assign(&honesty, arena);
        for (uint32_t r = 0; r < subject.dataflow->relation_count; r++)
            if (is_subject(subject.dataflow, &subject.dataflow->relations[r]))
                expect_view(&honesty, arena, assignment, &subject.dataflow->relations[r]);
        struct sp_partition_request request = {.model = subject.model, .assignment = assignment};
        cr_assert_eq(sp_partition_run(arena, &request, &sink, &subject.err), SP_OK, "%s", subject.err.message);
        for (uint32_t r = 0; r < subject.dataflow->relation_count; r++)
            if (is_subject(subject.dataflow, &subject.dataflow->relations[r]))
                expect_run(&honesty, subject.dataflow->relations[r].node);
        sp_arena_destroy(arena);
    }
    cr_expect_gt(honesty.split, 40);
    cr_expect_gt(honesty.scatters, 0);
    sp_strategy_table_destroy(honesty.table);
}

static void expect_honest_model(const char *name)
{
    if (!strategy_model_open(&subject, name, "a100-sxm4-80gb", 8))
        cr_skip_test("%s is not here", name);
    expect_honest(1, (uint32_t[]){2});
    expect_honest(1, (uint32_t[]){4});
    expect_honest(2, (uint32_t[]){2, 2});
}

/* Operators with forms of their own: positions, borders, moved elements, statistics. */
Test(strategy, operators_run_as_said)
{
    start(18);
    input("X", "4,8,16");
    input("I", "2,8,16,16");
    build_node(&build, "Relu", "X", "H");
    build_node(&build, "Relu", "I", "J");
    build_ints(&build, "zero", 1, (int64_t[]){0});
    build_ints(&build, "two", 1, (int64_t[]){2});
    build_ints(&build, "six", 1, (int64_t[]){6});
    build_ints(&build, "one", 1, (int64_t[]){1});
    build_ints(&build, "minus", 1, (int64_t[]){-1});
    build_ints(&build, "picks", 4, (int64_t[]){0, 3, 5, 7});
    build_ints(&build, "pads", 6, (int64_t[]){0, 2, 0, 0, 2, 0});
    build_ints(&build, "wide", 4, (int64_t[]){3, 4, 8, 16});
    build_ints(&build, "three", 1, (int64_t[]){3});
    build_node(&build, "Slice", "H two six one", "slice");
    build_node(&build, "Slice", "H minus minus one", "last");
    build_node(&build, "Pad", "H pads", "pad");
    build_node(&build, "Expand", "H wide", "expand");
    build_attr_int(&build, build_node(&build, "Gather", "H picks", "gather"), "axis", 1);
    build_attr_int(&build, build_node(&build, "Concat", "H H", "concat"), "axis", 1);
    build_attr_int(&build, build_node(&build, "ArgMax", "H", "argmax"), "axis", 2);
    build_attr_int(&build, build_node(&build, "Softmax", "H", "softmax"), "axis", 1);
    build_node(&build, "ReduceMean", "H one", "mean");
    build_node(&build, "ReduceMax", "H two", "max");
    build_node(&build, "ReduceProd", "H zero", "product");
    build_node(&build, "CumSum", "H one", "sums");
    build_node(&build, "TopK", "H three", "values indices");
    build_node(&build, "Transpose", "H", "transposed");
    build_weight(&build, "W", SP_DTYPE_FLOAT, "4,8,3,3");
    build_attr_ints(&build, build_node(&build, "Conv", "J W", "conv"), "pads", 4, (int64_t[]){1, 1, 1, 1});
    struct sp_node *pool = build_node(&build, "MaxPool", "J", "pool");
    build_attr_ints(&build, pool, "kernel_shape", 2, (int64_t[]){2, 2});
    build_attr_ints(&build, pool, "strides", 2, (int64_t[]){2, 2});
    build_node(&build, "GlobalAveragePool", "J", "average");
    build_outputs(&build, "slice last pad expand gather concat argmax softmax mean max product sums values indices "
                          "transposed conv pool average");
    strategy_model_built(&subject, "a100-sxm4-80gb", 8);
    expect_honest(1, (uint32_t[]){2});
    expect_honest(2, (uint32_t[]){2, 2});
}

/* Weights that are several in one: cut behind the parts, together with everything else. */
Test(strategy, fused_weights_run_as_said)
{
    start(18);
    input("X", "2,4,16");
    input("I", "2,16,4,4");
    build_weight(&build, "W", SP_DTYPE_FLOAT, "16,48");
    build_weight(&build, "bias", SP_DTYPE_FLOAT, "48");
    build_weight(&build, "G", SP_DTYPE_FLOAT, "16,32");
    build_weight(&build, "C", SP_DTYPE_FLOAT, "32,16,1,1");
    build_weight(&build, "D", SP_DTYPE_FLOAT, "16,16");
    build_ints(&build, "parts", 3, (int64_t[]){16, 16, 16});
    build_ints(&build, "five", 5, (int64_t[]){2, 4, 3, 4, 4});
    build_ints(&build, "zero", 1, (int64_t[]){0});
    build_ints(&build, "end", 1, (int64_t[]){16});
    build_ints(&build, "last", 1, (int64_t[]){2});
    build_node(&build, "MatMul", "X W", "M");
    build_node(&build, "Add", "M bias", "Y");
    build_attr_int(&build, build_node(&build, "Split", "Y parts", "q k v"), "axis", 2);
    build_node(&build, "Slice", "Y zero end last", "slice");
    build_node(&build, "Reshape", "Y five", "R");
    build_attr_int(&build, build_node(&build, "Gather", "R zero", "gather"), "axis", 2);
    build_node(&build, "MatMul", "X G", "both");
    struct sp_node *gated = build_node(&build, "Split", "both", "gate up");
    build_attr_int(&build, gated, "num_outputs", 2);
    build_attr_int(&build, gated, "axis", 2);
    build_node(&build, "Mul", "gate up", "inner");
    build_node(&build, "MatMul", "inner D", "down");
    build_node(&build, "Conv", "I C", "channels");
    struct sp_node *halves = build_node(&build, "Split", "channels", "left right");
    build_attr_int(&build, halves, "num_outputs", 2);
    build_attr_int(&build, halves, "axis", 1);
    build_outputs(&build, "q k v slice gather down left right");
    strategy_model_built(&subject, "a100-sxm4-80gb", 8);
    expect_honest(1, (uint32_t[]){2});
    expect_honest(2, (uint32_t[]){2, 2});
}

Test(strategy, bert_runs_as_said)
{
    expect_honest_model("bert_tiny.onnx");
}

Test(strategy, gpt2_runs_as_said)
{
    expect_honest_model("gpt2_tiny.onnx");
}

Test(strategy, llama_runs_as_said)
{
    expect_honest_model("llama_tiny.onnx");
}

Test(strategy, llama_with_shapes_runs_as_said)
{
    expect_honest_model("llama_tiny_dyn.onnx");
}

Test(strategy, moe_runs_as_said)
{
    expect_honest_model("moe_tiny.onnx");
}

Test(strategy, lstm_runs_as_said)
{
    expect_honest_model("lstm_tiny.onnx");
}

Test(strategy, unet_runs_as_said)
{
    expect_honest_model("unet_tiny.onnx");
}

Test(strategy, swin_runs_as_said)
{
    if (!strategy_model_open(&subject, "swin_t.onnx", "a100-sxm4-80gb", 8))
        cr_skip_test("the model is not here");
    expect_honest(1, (uint32_t[]){2});
}

Test(strategy, resnet_runs_as_said)
{
    expect_honest_model("resnet50.onnx");
}
