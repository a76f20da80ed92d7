/*
 * Cuts behind the major part of an axis: where a weight holds several and something takes them apart, and nowhere else.
 * Reshards of such cuts cost what the planner of reshards says, which knows nothing of layouts.
 */
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

TestSuite(strategy_inner, .fini = end);

/* X [1,2,16] times W [16,48] and a bias, as Y [1,2,48]: the product is node 0, the bias node 1. */
static void fused(void)
{
    start(18);
    input("X", "1,2,16");
    build_weight(&build, "W", SP_DTYPE_FLOAT, "16,48");
    build_weight(&build, "bias", SP_DTYPE_FLOAT, "48");
    build_node(&build, "MatMul", "X W", "M");
    build_node(&build, "Add", "M bias", "Y");
}

static void split(const char *from, int64_t axis, const int64_t *parts)
{
    build_ints(&build, "parts", 3, parts);
    build_attr_int(&build, build_node(&build, "Split", sp_arena_printf(build.arena, "%s parts", from), "q k v"), "axis",
                   axis);
    build_outputs(&build, "q k v");
}

static struct sp_strategy_table *table_on(uint32_t axis_count, const uint32_t *sizes)
{
    strategy_model_built(&subject, "a100-sxm4-80gb", 8);
    return strategy_table_of(&subject, axis_count, sizes);
}

/* The way of a node in which an operand is cut behind `before` elements of some axis; NULL: none. */
static const struct sp_strategy *inner_way(const struct sp_strategy_table *table, uint32_t node, uint32_t operand,
                                           int64_t before)
{
    const struct sp_strategies *ways = sp_strategy_of(table, node);
    for (uint32_t i = 0; i < ways->count; i++) {
        const struct sp_strategy_layout *layout = table->layouts[ways->items[i].layouts[operand]];
        for (uint32_t c = 0; c < layout->cut_count; c++)
            if (layout->axes[c] >= SP_STRATEGY_INNER &&
                sp_strategy_tensor_axis(table, layout->axes[c]).before == before)
                return &ways->items[i];
    }
    return NULL;
}

Test(strategy_inner, a_fused_weight_is_cut_behind_its_parts)
{
    fused();
    split("Y", 2, (int64_t[]){16, 16, 16});
    struct sp_strategy_table *table = table_on(1, (uint32_t[]){4});
    const struct sp_strategy *product = inner_way(table, 0, 2, 3), *bias = inner_way(table, 1, 2, 3);
    const struct sp_strategy *apart = inner_way(table, 2, 0, 3);
    const struct sp_sharding *sharding;
    cr_assert(product != NULL && bias != NULL && apart != NULL);
    cr_expect_eq(product->layouts[2], bias->layouts[0]);
    cr_expect_eq(bias->layouts[2], apart->layouts[0]);
    cr_expect_eq(product->communication_seconds + bias->communication_seconds + apart->communication_seconds, 0);
    EXPECT_NEAR(product->weight_bytes, 16 * 48 * 4 / 4);
    EXPECT_NEAR(product->flops, sp_strategy_of(table, 0)->items[0].flops / 4);
    /* each of the parts is cut in 4, as its own weight would be */
    cr_assert_eq(sp_strategy_sharding(table, subject.arena, 2, product->layouts[1], 0, &sharding, &subject.err), SP_OK);
    cr_assert_eq(sharding->kind, SP_SHARDING_BLOCKS);
    cr_assert_eq(sharding->blocks[1].part_count, 2);
    cr_expect_eq(sharding->blocks[1].parts[0].extent, 3);
    cr_expect_eq(sharding->blocks[1].parts[0].shards, 1);
    cr_expect_eq(sharding->blocks[1].parts[1].shards, 4);
    for (uint32_t o = 0; o < 3; o++)
        cr_expect_eq(sp_strategy_layout(table, apart->layouts[2 + o])->axis[0], 2);
    sp_strategy_table_destroy(table);
}

/* Each of 4 devices lacks 3 of 4 pieces of the whole; where it has 12 elements in a row, it has one of 3 parts. */
Test(strategy_inner, what_is_cut_so_is_sent_in_pieces)
{
    fused();
    split("Y", 2, (int64_t[]){16, 16, 16});
    struct sp_strategy_table *table = table_on(1, (uint32_t[]){4});
    const struct sp_mesh_level *link = &subject.cluster->levels[0];
    const uint32_t tensor = build_value(&build, "Y")->id, inner = inner_way(table, 1, 2, 3)->layouts[2];
    const double size = 1 * 2 * 48 * 4;
    const struct sp_strategies *ways = sp_strategy_of(table, 1);
    uint32_t plain = 0;
    for (uint32_t i = 0; i < ways->count; i++)
        if (ways->items[i].layouts[2] != 0 && ways->items[i].layouts[2] != inner)
            plain = ways->items[i].layouts[2];
    cr_assert_neq(plain, 0);
    cr_expect_eq(sp_strategy_layout(table, plain)->axis[0], 2);
    cr_expect_eq(sp_strategy_reshard_seconds(table, tensor, 0, inner), 0);
    cr_expect_eq(sp_strategy_reshard_seconds(table, tensor, inner, inner), 0);
    EXPECT_NEAR(sp_strategy_reshard_seconds(table, tensor, inner, 0), sp_level_messages_seconds(link, 3, size * 3 / 4));
    EXPECT_NEAR(sp_strategy_reshard_seconds(table, tensor, plain, inner),
                sp_level_messages_seconds(link, 2, size / 4 * 2 / 3));
    sp_strategy_table_destroy(table);
}

/* What picks one of three later needs the axis of three whole, also where three devices could have one each. */
Test(strategy_inner, an_axis_that_is_picked_from_is_no_place_to_cut)
{
    start(18);
    input("X", "1,1,18");
    build_weight(&build, "W", SP_DTYPE_FLOAT, "18,36");
    build_node(&build, "MatMul", "X W", "Y");
    build_ints(&build, "shape", 5, (int64_t[]){1, 1, 3, 6, 2});
    build_node(&build, "Reshape", "Y shape", "five");
    build_attr_ints(&build, build_node(&build, "Transpose", "five", "first"), "perm", 5, (int64_t[]){2, 0, 3, 1, 4});
    build_ints(&build, "zero", 1, (int64_t[]){0});
    build_node(&build, "Gather", "first zero", "q");
    build_outputs(&build, "q");
    struct sp_strategy_table *table = table_on(1, (uint32_t[]){3});
    const struct sp_strategy *product = inner_way(table, 0, 2, 3), *reshape = inner_way(table, 1, 0, 3);
    cr_assert(product != NULL && reshape != NULL);
    cr_expect_eq(product->layouts[2], reshape->layouts[0]);
    cr_expect_eq(sp_strategy_layout(table, reshape->layouts[2])->axis[0], 3);
    sp_strategy_table_destroy(table);
}

static void expect_no_inner(const struct sp_strategy_table *table)
{
    for (uint32_t i = 0; i < table->layout_count; i++)
        for (uint32_t c = 0; c < table->layouts[i]->cut_count; c++)
            cr_expect_lt(table->layouts[i]->axes[c], SP_STRATEGY_INNER);
    cr_expect_gt(table->layout_count, 1);
}

Test(strategy_inner, unequal_parts_are_no_places)
{
    fused();
    split("Y", 2, (int64_t[]){32, 8, 8});
    struct sp_strategy_table *table = table_on(1, (uint32_t[]){4});
    expect_no_inner(table);
    sp_strategy_table_destroy(table);
}

/* Heads in front of what is taken apart are cut themselves. */
Test(strategy_inner, what_has_a_major_part_to_cut_is_cut_there)
{
    fused();
    build_ints(&build, "shape", 4, (int64_t[]){1, 2, 4, 12});
    build_node(&build, "Reshape", "Y shape", "four");
    split("four", 3, (int64_t[]){4, 4, 4});
    struct sp_strategy_table *table = table_on(1, (uint32_t[]){4});
    cr_expect_null(inner_way(table, 0, 2, 4));
    expect_no_inner(table);
    sp_strategy_table_destroy(table);
}

Test(strategy_inner, what_no_product_makes_keeps_its_ways)
{
    start(18);
    input("X", "1,2,48");
    build_node(&build, "Relu", "X", "Y");
    split("Y", 2, (int64_t[]){16, 16, 16});
    struct sp_strategy_table *table = table_on(1, (uint32_t[]){4});
    expect_no_inner(table);
    sp_strategy_table_destroy(table);
}
