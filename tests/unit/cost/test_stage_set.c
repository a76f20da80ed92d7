/* The memory of sets of parts, put together and taken apart at random, against the evaluation of the same stage. */
#include <criterion/criterion.h>
#include <math.h>

#include "build_workload.h"
#include "cost/evaluate.h"
#include "cost/stage_set.h"
#include "cost/streaming.h"
#include "random_workload.h"

#define NODES 40

static uint64_t state = 5;
static uint32_t streamed_sets; /* that have enough to stream */

struct subject {
    struct sp_arena *arena;
    struct sp_cluster *cluster;
    struct sp_workload *workload;
    struct sp_stage_block blocks[2]; /* the second has half of everything */
    uint32_t part_count, *part_of;
    struct sp_stage_parts *parts;
};

/* Whole operators, in parts of one to `longest` neighbouring nodes. */
static void open_subject(struct subject *s, uint32_t nodes, uint32_t longest)
{
    s->arena = sp_arena_create(NULL);
    s->cluster = build_cluster(s->arena, 3, 1e9, 3, 0.25);
    s->workload = workload_random(s->arena, s->cluster, nodes, &state);
    const struct sp_workload *workload = s->workload;
    double *kept = SP_NEW_ARRAY(s->arena, workload->node_count, double);
    double *workspace = SP_NEW_ARRAY(s->arena, workload->node_count, double);
    double *bytes = SP_NEW_ARRAY(s->arena, workload->tensor_count, double);
    double *half_kept = SP_NEW_ARRAY(s->arena, workload->node_count, double);
    double *half_workspace = SP_NEW_ARRAY(s->arena, workload->node_count, double);
    double *half_bytes = SP_NEW_ARRAY(s->arena, workload->tensor_count, double);
    uint32_t room = 0;
    s->part_of = SP_NEW_ARRAY(s->arena, workload->node_count, uint32_t);
    s->part_count = 0;
    for (uint32_t n = 0; n < workload->node_count; n++) {
        kept[n] = workload->nodes[n].inner_weight_bytes + workload->nodes[n].resident_bytes;
        workspace[n] = workload->nodes[n].workspace_bytes;
        s->part_of[n] = SP_NO_WORK;
        if (workload->nodes[n].folded)
            continue;
        if (room == 0) {
            s->part_count++;
            room = 1 + pick(&state, longest);
        }
        room--;
        s->part_of[n] = s->part_count - 1;
    }
    for (uint32_t t = 0; t < workload->tensor_count; t++)
        bytes[t] = workload->tensors[t].bytes;
    const uint32_t *users = sp_work_users(s->arena, workload);
    double *streamable = SP_NEW_ARRAY(s->arena, workload->node_count, double);
    for (uint32_t n = 0; n < workload->node_count; n++)
        streamable[n] = workload->nodes[n].folded ? 0 : sp_stream_own_bytes(workload, users, n);
    for (uint32_t n = 0; n < workload->node_count; n++) {
        half_kept[n] = kept[n] / 2;
        half_workspace[n] = workspace[n] / 2;
    }
    for (uint32_t t = 0; t < workload->tensor_count; t++)
        half_bytes[t] = bytes[t] / 2;
    s->blocks[0] = (struct sp_stage_block){
        .persistent_bytes = kept, .workspace_bytes = workspace, .tensor_bytes = bytes, .streamable_bytes = streamable};
    s->blocks[1] = (struct sp_stage_block){
        .persistent_bytes = half_kept, .workspace_bytes = half_workspace, .tensor_bytes = half_bytes};
    s->parts = sp_stage_parts_create(s->arena, workload, s->part_count, s->part_of, 2, s->blocks);
    cr_assert(s->parts != NULL);
}

/* What the evaluation says of the parts that are in as one stage; it counts what is sent for each stage that uses it, so
   all others are one. */
static struct sp_stage_cost evaluate(struct subject *s, const bool *is_in)
{
    uint32_t *stage_of = SP_NEW_ARRAY(s->arena, s->workload->node_count, uint32_t), device[2] = {0, 1}, count = 0;
    uint32_t *nodes = SP_NEW_ARRAY(s->arena, s->workload->node_count, uint32_t);
    struct sp_placement placement = {2, stage_of, device};
    struct sp_stage_cost cost;
    for (uint32_t n = 0; n < s->workload->node_count; n++) {
        stage_of[n] = s->part_of[n] == SP_NO_WORK || !is_in[s->part_of[n]];
        if (stage_of[n] == 0)
            nodes[count++] = n;
    }
    sp_evaluator_stage(sp_evaluator_create(s->arena, s->workload, s->cluster),
                       &(struct sp_placed_stage){&placement, 0, count, nodes}, &cost, NULL);
    return cost;
}

/* Of the parts that are in, what the evaluation would stream where `lacking` bytes lack. */
static double streamed(struct subject *s, const bool *is_in, double lacking)
{
    struct sp_streamable items[NODES];
    struct sp_stream_size sizes[NODES];
    struct sp_streamed_weights chosen;
    uint32_t count = 0;
    for (uint32_t n = 0; n < s->workload->node_count; n++)
        if (s->part_of[n] != SP_NO_WORK && is_in[s->part_of[n]] && s->blocks[0].streamable_bytes[n] > 0)
            items[count++] = (struct sp_streamable){n, s->blocks[0].streamable_bytes[n], false};
    return sp_stream_choose(count, items, sizes, lacking + SP_STREAM_MORE, &chosen) ? chosen.bytes : INFINITY;
}

static void walk(uint32_t nodes, uint32_t longest, uint32_t steps)
{
    struct subject s;
    open_subject(&s, nodes, longest);
    struct sp_stage_set *set = sp_stage_set_create(s.arena, s.parts);
    bool *is_in = SP_NEW_ARRAY(s.arena, s.part_count, bool);
    for (uint32_t step = 0; step < steps && s.part_count > 0; step++) {
        double weights = 0, held = 0;
        const uint32_t part = pick(&state, s.part_count);
        (is_in[part] ? sp_stage_set_take : sp_stage_set_put)(set, part);
        is_in[part] = !is_in[part];
        const struct sp_stage_cost cost = evaluate(&s, is_in);
        cr_assert_float_eq(sp_stage_set_bytes(set, 0), cost.total_bytes, 1e-6, "%g bytes, not %g",
                           sp_stage_set_bytes(set, 0), cost.total_bytes);
        cr_assert_float_eq(sp_stage_set_peak(set, 0), cost.activations_peak_bytes, 1e-6);
        cr_assert_eq(sp_stage_set_bytes(set, 1), sp_stage_set_bytes(set, 0) / 2);
        const double lacking = cost.weights_bytes * pick(&state, 20) / 100;
        const double want = streamed(&s, is_in, lacking), got = sp_stage_set_streamed(set, 0, lacking);
        cr_assert(got == want || fabs(got - want) <= 1e-6, "%g of %g bytes, not %g", got, lacking, want);
        streamed_sets += isfinite(want);
        for (uint32_t p = 0; p < s.part_count; p++) {
            double own_weights, own_held;
            sp_stage_part_minimum(s.parts, 0, p, &own_weights, &own_held);
            weights += is_in[p] ? own_weights : 0;
            held = is_in[p] ? fmax(held, own_held) : held;
        }
        cr_assert_leq(weights + held, cost.total_bytes + 1e-6);
        cr_assert_leq(cost.total_bytes, sp_stage_parts_maximum(s.parts, 0) + 1e-6);
    }
    sp_arena_destroy(s.arena);
}

Test(stage_set, sets_of_nodes_need_what_the_evaluation_says)
{
    for (uint32_t round = 0; round < 40; round++)
        walk(1 + pick(&state, NODES), 1, 150);
    cr_assert_gt(streamed_sets, 200, "%u", streamed_sets);
}

Test(stage_set, sets_of_longer_parts_need_what_the_evaluation_says)
{
    for (uint32_t round = 0; round < 40; round++)
        walk(1 + pick(&state, NODES), 8, 150);
}
