#include <criterion/criterion.h>

#include "build_workload.h"
#include "search/grouping/grouping.h"

static struct sp_arena *arena;
static struct sp_cluster *cluster;

static void setup(void)
{
    arena = sp_arena_create(NULL);
    cluster = build_cluster(arena, 4, 1e9, 1e9, 0);
}

static void teardown(void)
{
    sp_arena_destroy(arena);
}

TestSuite(subgraphs, .init = setup, .fini = teardown);

static struct sp_subgraphs *find(struct work_builder *builder)
{
    struct sp_subgraphs *subgraphs = NULL;
    struct sp_error err = {0};
    struct sp_workload *workload = work_finish(builder, cluster);
    cr_assert_eq(sp_find_subgraphs(arena, workload, &subgraphs, &err), SP_OK, "%s", err.message);
    return subgraphs;
}

/* x -> a -> b -> Add(b, x): each of three such blocks is a candidate's closure. */
Test(subgraphs, grow_backwards_from_where_activations_meet)
{
    struct work_builder b;
    work_init(&b, arena, 9, 20, 1);
    uint32_t x = work_input(&b, 8);
    for (int i = 0; i < 3; i++) {
        uint32_t y = WORK_NODE(&b, 1, 8, x, work_weight(&b, 100));
        y = WORK_NODE(&b, 1, 8, y);
        x = WORK_NODE(&b, 1, 8, y, x);
    }
    struct sp_subgraphs *subgraphs = find(&b);
    cr_assert_eq(subgraphs->candidate_count, 3);
    cr_assert_eq(subgraphs->count, 3);
    for (uint32_t id = 0; id < 9; id++)
        cr_expect_eq(subgraphs->of[id], id / 3);
    for (uint32_t i = 0; i < 3; i++) {
        cr_expect_eq(subgraphs->bytes[i], 100);
        cr_expect_eq(subgraphs->seconds[i], 3);
        cr_expect_eq(subgraphs->flops[i], 3e12);
    }
}

Test(subgraphs, without_candidates_every_node_is_one)
{
    struct work_builder b;
    work_init(&b, arena, 5, 20, 1);
    uint32_t x = work_input(&b, 8);
    for (int i = 0; i < 5; i++)
        x = WORK_NODE(&b, 1, 8, x, work_weight(&b, 10));
    struct sp_subgraphs *subgraphs = find(&b);
    cr_expect_eq(subgraphs->candidate_count, 5);
    cr_expect_eq(subgraphs->count, 5);
}

/* Early blocks with much work and few weights, late ones the other way round: either is enough to stand alone. */
Test(subgraphs, much_work_or_many_weights_is_enough)
{
    struct work_builder b;
    work_init(&b, arena, 8, 20, 1);
    uint32_t x = work_input(&b, 8);
    for (int i = 0; i < 4; i++) {
        bool early = i < 2;
        uint32_t y = WORK_NODE(&b, early ? 9 : 1, 8, x, work_weight(&b, early ? 1 : 1000));
        x = WORK_NODE(&b, 0, 8, y, x);
    }
    cr_expect_eq(find(&b)->count, 4);
}

Test(subgraphs, light_ones_join_the_next_that_reaches_them)
{
    struct work_builder b;
    work_init(&b, arena, 8, 20, 1);
    uint32_t x = work_input(&b, 8);
    for (int i = 0; i < 4; i++) { /* the first and the third block are light */
        uint32_t y = WORK_NODE(&b, i % 2 == 0 ? 1 : 9, 8, x, work_weight(&b, i % 2 == 0 ? 1 : 99));
        x = WORK_NODE(&b, 0, 8, y, x);
    }
    struct sp_subgraphs *subgraphs = find(&b);
    cr_assert_eq(subgraphs->count, 2);
    for (uint32_t id = 0; id < 8; id++)
        cr_expect_eq(subgraphs->of[id], id / 4);
}

/* Two towers whose nodes alternate in the file: light clusters of one do not swallow those of the other. */
Test(subgraphs, parallel_towers_stay_apart)
{
    struct work_builder b;
    work_init(&b, arena, 13, 40, 1);
    uint32_t tower[2] = {work_input(&b, 8), work_input(&b, 8)};
    for (int i = 0; i < 6; i++) {
        uint32_t y = WORK_NODE(&b, 1, 8, tower[i % 2], work_weight(&b, 10 + i));
        tower[i % 2] = WORK_NODE(&b, 0.5 * (i >= 4), 8, y, tower[i % 2]);
    }
    WORK_NODE(&b, 1, 8, tower[0], tower[1]);
    struct sp_subgraphs *subgraphs = find(&b);
    for (uint32_t id = 0; id < 12; id++)
        for (uint32_t other = 0; other < 12; other++)
            if (id / 2 % 2 != other / 2 % 2)
                cr_expect_neq(subgraphs->of[id], subgraphs->of[other], "%u %u", id, other);
}

/* What no candidate reaches: a heavy tail is cut up too, a light one follows its producer. */
Test(subgraphs, leftovers_follow_their_producers)
{
    struct work_builder b;
    work_init(&b, arena, 8, 30, 1);
    uint32_t x = work_input(&b, 8), y = WORK_NODE(&b, 4, 8, x, work_weight(&b, 40));
    uint32_t z = WORK_NODE(&b, 4, 8, y, x);
    z = WORK_NODE(&b, 4, 8, y, z);
    z = WORK_NODE(&b, 10, 8, z, work_weight(&b, 1));
    z = WORK_NODE(&b, 10, 8, z, work_weight(&b, 1));
    WORK_NODE(&b, 0.1, 8, z);
    WORK_NODE(&b, 0.1, 8, y); /* a light result of the first node */
    struct sp_subgraphs *subgraphs = find(&b);
    /* Averages: 21 bytes and 16.1 seconds. The second candidate is light and joins the tail, which reaches 24. */
    static const uint32_t expected[] = {0, 0, 1, 1, 1, 1, 0};
    cr_expect_eq(subgraphs->candidate_count, 2);
    for (uint32_t id = 0; id < 7; id++)
        cr_expect_eq(subgraphs->of[id], expected[id], "node %u is in %u", id, subgraphs->of[id]);
}

Test(subgraphs, a_shared_weight_counts_in_the_first_subgraph)
{
    struct work_builder b;
    work_init(&b, arena, 4, 20, 1);
    uint32_t x = work_input(&b, 8), shared = work_weight(&b, 100);
    for (int i = 0; i < 2; i++) {
        uint32_t y = WORK_NODE(&b, 1, 8, x, shared);
        x = WORK_NODE(&b, 1, 8, y, x);
    }
    struct sp_subgraphs *subgraphs = find(&b);
    cr_assert_eq(subgraphs->count, 2);
    cr_expect_eq(subgraphs->bytes[0], 100);
    cr_expect_eq(subgraphs->bytes[1], 0);
}

Test(subgraphs, folded_nodes_go_where_they_are_used_first)
{
    struct work_builder b;
    work_init(&b, arena, 6, 20, 1);
    uint32_t x = work_input(&b, 8);
    uint32_t folded = work_folded(&b, 50, (uint32_t[]){work_weight(&b, 50), SP_NO_WORK});
    folded = work_folded(&b, 50, (uint32_t[]){folded, SP_NO_WORK});
    x = WORK_NODE(&b, 1, 8, x);
    x = WORK_NODE(&b, 1, 8, x);
    x = WORK_NODE(&b, 1, 8, x, folded);
    WORK_NODE(&b, 1, 8, x);
    struct sp_subgraphs *subgraphs = find(&b);
    cr_expect_eq(subgraphs->of[0], subgraphs->of[4]);
    cr_expect_eq(subgraphs->of[1], subgraphs->of[4]);
    cr_expect_eq(subgraphs->candidate_count, 4);
}

Test(subgraphs, nothing_to_do)
{
    struct work_builder b;
    work_init(&b, arena, 1, 4, 1);
    cr_expect_eq(find(&b)->count, 0);
    work_init(&b, arena, 1, 4, 1);
    work_folded(&b, 4, (uint32_t[]){work_weight(&b, 4), SP_NO_WORK});
    struct sp_subgraphs *subgraphs = find(&b);
    cr_expect_eq(subgraphs->count, 1);
    cr_expect_eq(subgraphs->of[0], 0);
}

static uint32_t random_below(uint64_t *state, uint32_t bound)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % bound;
}

/* The contracted graph is acyclic and numbered topologically: no edge goes to a smaller subgraph. Also, every subgraph
   has a node, and the figures add up. */
Test(subgraphs, numbers_never_fall_along_an_edge)
{
    uint64_t state = 1;
    for (int round = 0; round < 400; round++) {
        struct work_builder b;
        uint32_t count = 1 + random_below(&state, 60), made[64], used = 0;
        work_init(&b, arena, count, 4 * count + 1, 1);
        made[used++] = work_input(&b, 8);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t inputs[5], n = 0;
            for (uint32_t j = random_below(&state, 3) + 1; j > 0; j--) {
                uint32_t pick = made[used - 1 - random_below(&state, used < 9 ? used : 9)];
                if (n == 0 || (inputs[n - 1] != pick && inputs[0] != pick))
                    inputs[n++] = pick;
            }
            if (random_below(&state, 2) == 0)
                inputs[n++] = work_weight(&b, random_below(&state, 100));
            inputs[n] = SP_NO_WORK;
            made[used++] = work_node(&b, random_below(&state, 10), 8, inputs);
        }
        struct sp_subgraphs *subgraphs = find(&b);
        const struct sp_workload *workload = b.workload;
        double seconds = 0, bytes = 0;
        uint32_t members[64] = {0};
        for (uint32_t id = 0; id < count; id++) {
            members[subgraphs->of[id]]++;
            for (uint32_t i = 0; i < workload->nodes[id].input_count; i++) {
                uint32_t producer = workload->tensors[workload->nodes[id].inputs[i]].producer;
                if (producer != SP_NO_WORK)
                    cr_assert_leq(subgraphs->of[producer], subgraphs->of[id], "round %d", round);
            }
            seconds += workload->nodes[id].seconds[0];
        }
        for (uint32_t i = 0; i < subgraphs->count; i++) {
            cr_assert_gt(members[i], 0, "round %d: subgraph %u is empty", round, i);
            seconds -= subgraphs->seconds[i];
            bytes += subgraphs->bytes[i];
        }
        cr_assert_lt(seconds * seconds, 1e-12);
        cr_assert_eq(bytes, workload->weight_bytes);
    }
}
