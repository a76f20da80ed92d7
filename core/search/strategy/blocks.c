/*
 * Repeated blocks: from repetitions of the sequence to runs that do not overlap.
 */
#include "search/strategy/blocks.h"

#include <stdlib.h>

#include "base/sorted.h"
#include "search/strategy/blocks_internal.h"

struct finder {
    struct sp_arena *scratch;
    struct sp_blocks_graph graph;
    struct sp_blocks_run_list candidates, chosen;
    bool *is_taken; /* per position */
    uint64_t steps;
};

static uint64_t saved_by(const struct sp_block_run *run)
{
    return (uint64_t)run->length * (run->count - 1);
}

/* Of those that save as much first the small blocks: more of them are left where one is taken away. */
static int by_savings(const void *left, const void *right)
{
    const struct sp_block_run *a = left, *b = right;
    if (saved_by(a) != saved_by(b))
        return saved_by(a) > saved_by(b) ? -1 : 1;
    if (a->length != b->length)
        return a->length < b->length ? -1 : 1;
    return a->first_node < b->first_node ? -1 : a->first_node > b->first_node;
}

SP_ASCENDING(by_place, struct sp_block_run, first_node)

/* ---- candidates ------------------------------------------------------------------------------------------------- */

/* Blocks of one period; of more where that leaves a block or more of the repetition uncovered. */
static bool match_repeat(struct finder *f, const struct sp_blocks_repeat *repeat)
{
    const uint32_t size = repeat->end - repeat->begin;
    for (uint32_t periods = 1; periods <= SP_BLOCKS_MOST_PERIODS; periods++) {
        const uint64_t length = (uint64_t)periods * repeat->period;
        uint32_t covered = 0;
        if (2 * length > size || size - length < SP_BLOCKS_LEAST_SAVED)
            return true;
        if (!sp_blocks_match(&f->graph, repeat->begin, repeat->end, (uint32_t)length, &f->candidates, &covered))
            return false;
        if (covered + length > size)
            return true;
    }
    return true;
}

/* ---- choice ----------------------------------------------------------------------------------------------------- */

static bool is_free(struct finder *f, uint32_t begin, uint32_t end)
{
    f->steps += end - begin;
    while (begin < end && !f->is_taken[begin])
        begin++;
    return begin == end;
}

static void take(struct finder *f, const struct sp_block_run *run)
{
    for (uint32_t i = run->first_node; i < run->first_node + run->length * run->count; i++)
        f->is_taken[i] = true;
}

/* Blocks of the same length in what is free of [begin, end). */
static bool match_free(struct finder *f, uint32_t begin, uint32_t end, uint32_t length)
{
    f->steps += end - begin;
    for (uint32_t at = begin; at < end; at++) {
        const uint32_t first = at, before = f->chosen.count;
        uint32_t covered = 0;
        while (at < end && !f->is_taken[at])
            at++;
        if (!sp_blocks_match(&f->graph, first, at, length, &f->chosen, &covered))
            return false;
        for (uint32_t i = before; i < f->chosen.count; i++)
            take(f, &f->chosen.runs[i]);
    }
    return true;
}

/* The candidate; where another took some of it, what is left, which may begin or end almost a block further out. */
static bool choose(struct finder *f, const struct sp_block_run *run)
{
    const uint32_t end = run->first_node + run->length * run->count;
    if (is_free(f, run->first_node, end)) {
        take(f, run);
        return sp_blocks_add_run(&f->chosen, run);
    }
    const uint32_t begin = run->first_node > run->length ? run->first_node - run->length : 0;
    const uint32_t limit = f->graph.count - end > run->length ? end + run->length : f->graph.count;
    return match_free(f, begin, limit, run->length);
}

static bool choose_all(struct finder *f)
{
    struct sp_blocks_run_list *list = &f->candidates;
    if (list->count > 1)
        qsort(list->runs, list->count, sizeof *list->runs, by_savings);
    for (uint32_t i = 0; i < list->count; i++) {
        if (!choose(f, &list->runs[i]))
            return false;
    }
    if (f->chosen.count > 1)
        qsort(f->chosen.runs, f->chosen.count, sizeof *f->chosen.runs, by_place);
    return true;
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

static enum sp_status find_runs(struct finder *f, const struct sp_workload *workload, const struct sp_blocks *blocks,
                                struct sp_error *err)
{
    const struct sp_node *node = workload->node_count > 0 ? workload->nodes[0].node : NULL;
    uint32_t *symbols = SP_NEW_ARRAY(f->scratch, blocks->order_count, uint32_t);
    struct sp_blocks_repeat_list repeats = {0};
    f->is_taken = SP_NEW_ARRAY(f->scratch, blocks->order_count, bool);
    if (symbols == NULL || f->is_taken == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < blocks->order_count; i++)
        symbols[i] = blocks->class_of[blocks->order[i]];
    enum sp_status status =
        sp_blocks_repeats(f->scratch, symbols, blocks->order_count, node != NULL ? node->graph->model->hash_seed : 0,
                          &repeats, &f->steps, err);
    f->graph = (struct sp_blocks_graph){.workload = workload,
                                        .count = blocks->order_count,
                                        .order = blocks->order,
                                        .class_of = blocks->class_of,
                                        .steps = &f->steps};
    if (status == SP_OK)
        status = sp_blocks_graph_init(f->scratch, &f->graph, err);
    for (uint32_t i = 0; status == SP_OK && i < repeats.count; i++) {
        if (!match_repeat(f, &repeats.items[i]))
            status = sp_fail_memory(err);
    }
    if (status == SP_OK && !choose_all(f))
        status = sp_fail_memory(err);
    return status;
}

/* Copies the chosen runs, and fills same_as. */
static bool finish(struct sp_arena *arena, const struct finder *f, uint32_t *same_as, struct sp_blocks *blocks)
{
    struct sp_block_run *runs = SP_NEW_ARRAY(arena, f->chosen.count, struct sp_block_run);
    if (runs == NULL)
        return false;
    for (uint32_t i = 0; i < f->chosen.count; i++) {
        const struct sp_block_run *run = &f->chosen.runs[i];
        runs[i] = *run;
        for (uint32_t at = 0; at < run->length * run->count; at++)
            same_as[blocks->order[run->first_node + at]] = blocks->order[run->first_node + at % run->length];
    }
    blocks->run_count = f->chosen.count;
    blocks->runs = runs;
    blocks->steps = f->steps;
    return true;
}

static uint32_t fill_order(const struct sp_workload *workload, uint32_t *order, uint32_t *same_as)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < workload->node_count; n++) {
        same_as[n] = n;
        if (!workload->nodes[n].folded)
            order[count++] = n;
    }
    return count;
}

enum sp_status sp_blocks_find(struct sp_arena *arena, const struct sp_workload *workload, struct sp_blocks **ret_blocks,
                              struct sp_error *err)
{
    struct sp_blocks *blocks = SP_NEW(arena, struct sp_blocks);
    uint32_t *order = SP_NEW_ARRAY(arena, workload->node_count, uint32_t);
    uint32_t *same_as = SP_NEW_ARRAY(arena, workload->node_count, uint32_t);
    uint32_t *class_of = SP_NEW_ARRAY(arena, workload->node_count, uint32_t);
    struct finder f = {.scratch = sp_arena_create(sp_arena_budget(arena))};
    enum sp_status status = SP_OK;
    f.candidates.arena = f.chosen.arena = f.scratch;
    if (blocks == NULL || order == NULL || same_as == NULL || class_of == NULL || f.scratch == NULL) {
        status = sp_fail_memory(err);
        goto done;
    }
    *blocks = (struct sp_blocks){
        .order_count = fill_order(workload, order, same_as), .order = order, .same_as = same_as, .class_of = class_of};
    status = sp_blocks_classify(f.scratch, workload, class_of, &blocks->class_count, &f.steps, err);
    if (status == SP_OK)
        status = find_runs(&f, workload, blocks, err);
    if (status == SP_OK && !finish(arena, &f, same_as, blocks))
        status = sp_fail_memory(err);
    if (status == SP_OK)
        *ret_blocks = blocks;
done:
    sp_arena_destroy(f.scratch);
    return status;
}
