/* What is remembered is what would be worked out again, and what is too much is said. */
#include <string.h>

#include "base/limits.h"
#include "check/check.h"
#include "expect_view.h"
#include "infer/view/cache.h"

TestSuite(cache, .fini = stop);

static const struct sp_sharding *same(const struct sp_sharding *sharding, bool stays)
{
    const struct sp_sharding *found = NULL;
    cr_assert_eq(sp_view_cache_sharding(assignment->cache, sharding, stays, &found, &build.err), SP_OK);
    return found;
}

static void two_nodes(int64_t devices)
{
    start(18);
    input("A", "8,8");
    input("B", "8,8");
    build_node(&build, "MatMul", "A B", "Y");
    build_node(&build, "MatMul", "A B", "Z");
    plan(devices);
}

/* Equal ones are one pointer, also when what was asked for is gone. */
Test(cache, keeps_equal_shardings_once)
{
    two_nodes(4);
    struct sp_block_part halves = {0, NULL, 2}, quarters = {0, NULL, 4};
    struct sp_block_dim by_2[2] = {{1, &halves}, {0, NULL}}, by_4[2] = {{1, &quarters}, {0, NULL}};
    uint32_t first[5] = {0, 1, 2, 3, 4};
    int64_t devices[4] = {0, 1, 2, 3}, others[4] = {0, 1, 3, 2};
    struct sp_sharding a = {.kind = SP_SHARDING_BLOCKS, .rank = 2, .blocks = by_2, .shard_count = 2};
    a.first = first;
    a.devices = devices;
    const struct sp_sharding *kept = same(&a, false);
    cr_expect_eq(kept->run, SP_RUN_YES);
    cr_expect_neq(kept->devices, devices);
    struct sp_sharding b = a;
    b.devices = (int64_t[2]){0, 1};
    cr_expect_eq(same(&b, true), kept);
    cr_expect_eq(same(&b, true), kept);
    b.devices = (int64_t[2]){1, 2};
    cr_expect_neq(same(&b, false), kept);
    struct sp_sharding c = {.kind = SP_SHARDING_BLOCKS, .rank = 2, .blocks = by_4, .shard_count = 4};
    c.first = first;
    c.devices = devices;
    const struct sp_sharding *four = same(&c, false);
    c.devices = others;
    cr_expect_neq(same(&c, false), four);
    cr_expect_eq(same(&c, false)->run, SP_RUN_NO);
}

/* The union of all devices, made once. */
Test(cache, unites_devices)
{
    two_nodes(8);
    struct sp_block_part halves = {0, NULL, 2};
    struct sp_block_dim dims[1] = {{1, &halves}};
    uint32_t first[3] = {0, 1, 2};
    struct sp_sharding a = {.kind = SP_SHARDING_BLOCKS, .rank = 1, .blocks = dims, .shard_count = 2, .first = first};
    struct sp_sharding b = a;
    a.devices = (int64_t[2]){5, 1};
    b.devices = (int64_t[2]){1, 7};
    const struct sp_sharding *both[2] = {&a, &b}, *whole = NULL, *again = NULL;
    cr_assert_eq(sp_view_cache_whole(assignment->cache, 1, 8, 2, both, &whole, &build.err), SP_OK);
    cr_expect_eq(whole->first[1], 3);
    cr_expect_arr_eq(whole->devices, ((int64_t[3]){1, 5, 7}), 3 * sizeof(int64_t));
    cr_assert_eq(sp_view_cache_whole(assignment->cache, 1, 8, 2, both, &again, &build.err), SP_OK);
    cr_expect_eq(whole, again);
    cr_assert_eq(sp_view_cache_whole(assignment->cache, 1, 8, 0, both, &whole, &build.err), SP_OK);
    cr_expect_null(whole);
}

static void expect_same_view(const struct sp_view *a, const struct sp_view *b)
{
    cr_expect_eq(a->participant_count, b->participant_count);
    cr_expect_arr_eq(a->participants, b->participants, (size_t)a->participant_count * sizeof(int64_t));
    cr_expect_eq(a->results[0], b->results[0]);
    cr_expect_eq(a->is_partial[0], b->is_partial[0]);
}

/* The second node is the first one again, but for its name in what is told. */
Test(cache, sees_a_node_again)
{
    two_nodes(4);
    for (uint32_t i = 0; i < 2; i++) {
        given(dataflow->nodes[i], "A", "| 2", "0; 1");
        given(dataflow->nodes[i], "B", "2 |", "0; 1");
    }
    struct sp_view *first = view_of(dataflow->nodes[0]), *second = view_of(dataflow->nodes[1]);
    cr_expect_not_null(first->known);
    cr_expect_eq(first->known, second->known);
    expect_same_view(first, second);
    for (uint32_t i = 0; i < 2; i++)
        given(dataflow->nodes[i], "B", "4 |", "0; 1; 2; 3");
    first = view_of(dataflow->nodes[0]);
    second = view_of(dataflow->nodes[1]);
    cr_expect_eq(first->known, second->known);
    cr_assert_eq(first->conflict_count, 1);
    cr_assert_eq(second->conflict_count, 1);
    cr_expect_str_eq(first->conflicts[0].message + strlen("Node 0"), second->conflicts[0].message + strlen("Node 1"));
    cr_expect(strncmp(second->conflicts[0].message, "Node 1 (MatMul) takes 'A' (axis 1 in 2 on", 40) == 0, "%s",
              second->conflicts[0].message);
}

/* The same reductions and reshards for the second node, which finds them, as for the first, which works them out. */
Test(cache, communicates_alike)
{
    two_nodes(4);
    for (uint32_t i = 0; i < 2; i++) {
        given(dataflow->nodes[i], "A", "| 4", "0; 1; 2; 3");
        given(dataflow->nodes[i], "B", "4 |", "0; 1; 2; 3");
        given(dataflow->nodes[i], i == 0 ? "Y" : "Z", "4 |", "0; 1; 2; 3");
    }
    struct sp_communications list = {0};
    cr_assert_eq(sp_assignment_communications(assignment, &list, &build.err), SP_OK, "%s", build.err.message);
    cr_assert_eq(list.count, 2);
    cr_expect_str_eq(list.items[0].steps, "reduce-scatter");
    cr_expect_str_eq(list.items[1].steps, "reduce-scatter");
    cr_expect_eq(list.items[0].bytes, list.items[1].bytes);
    cr_expect_eq(list.items[0].total_bytes, list.items[1].total_bytes);
    cr_expect_eq(list.items[0].group_size, list.items[1].group_size);
    /* 8 * 8 floats of 4 bytes in 4 parts: each device sends the three parts of others. */
    cr_expect_float_eq(list.items[0].bytes, 8 * 8 * 4 / 4 * 3, 1e-9);
}

/* Without anything left to spend, nothing new is looked at; what is known still is. */
Test(cache, stops_at_what_may_be_spent)
{
    two_nodes(4);
    for (uint32_t i = 0; i < 2; i++) {
        given(dataflow->nodes[i], "A", "| 2", "0; 1");
        given(dataflow->nodes[i], "B", "2 |", "0; 1");
    }
    cr_expect_not(view_of(dataflow->nodes[0])->is_too_large);
    while (sp_view_cache_spend(assignment->cache, 1 << 16))
        continue;
    while (sp_view_cache_spend(assignment->cache, 1))
        continue;
    cr_expect_not(view_of(dataflow->nodes[1])->is_too_large);
    given(dataflow->nodes[1], "A", "| 2", "1; 2");
    given(dataflow->nodes[1], "B", "2 |", "1; 2");
    cr_expect(view_of(dataflow->nodes[1])->is_too_large);
    cr_expect_null(view_of(dataflow->nodes[1])->results[0]);
}

/* Reshards beyond the budget are told without their steps' bytes. */
Test(cache, leaves_reshards_open)
{
    two_nodes(4);
    given(dataflow->nodes[0], "A", "| 2", "0; 1");
    given(dataflow->nodes[0], "B", "2 |", "0; 1");
    given(dataflow->nodes[0], "Y", "2 |", "0; 1");
    *sp_view_cache_ways_left(assignment->cache) = 0;
    struct sp_communications list = {0};
    cr_assert_eq(sp_assignment_communications(assignment, &list, &build.err), SP_OK, "%s", build.err.message);
    cr_assert_eq(list.count, 2);
    cr_expect_str_eq(list.items[0].steps, "all-reduce");
    cr_expect_str_eq(list.items[1].steps, "reshard");
    cr_expect_eq(list.items[1].bytes, -1);
}
