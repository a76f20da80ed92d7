#pragma once
/*
 * blocks_internal - the steps of blocks.h: numbers of nodes, repetitions in a sequence of numbers, runs in a
 * repetition.
 */
#include "search/strategy/blocks.h"

/* ---- blocks_classes.c ---- */

/* Whether a weight is not compared: known integers (those that make a difference are part of the class), and single
   elements, which cannot be split. */
bool sp_blocks_is_plain(const struct sp_work_tensor *tensor);

/* Fills class_of (per work node), class_count and steps. Classes are numbered as they are met. */
enum sp_status sp_blocks_classify(struct sp_arena *arena, const struct sp_workload *workload, uint32_t *class_of,
                                  uint32_t *ret_class_count, uint64_t *steps, struct sp_error *err);

/* ---- blocks_repeats.c ---- */

/* symbols[begin, end) has the period `period` and at least two of them, no smaller period, and ends on both sides where
   the period does. */
struct sp_blocks_repeat {
    uint32_t begin, end, period;
};

struct sp_blocks_repeat_list {
    uint32_t count;
    const struct sp_blocks_repeat *items;
};

/* All of them, by begin and period. `seed` is of hashes; the result does not depend on it. */
enum sp_status sp_blocks_repeats(struct sp_arena *arena, const uint32_t *symbols, uint32_t count, uint64_t seed,
                                 struct sp_blocks_repeat_list *ret_repeats, uint64_t *steps, struct sp_error *err);

/* ---- blocks_match.c ---- */

#define SP_BLOCKS_OUTSIDE (-1) /* the position of what no node makes: inputs of the model */

/* What is read off the workload once. Positions are those of the order of nodes that are not folded. */
struct sp_blocks_graph {
    const struct sp_workload *workload;
    uint32_t count;
    const uint32_t *order, *class_of;
    int32_t *made_at;         /* per tensor: its producer's position, or SP_BLOCKS_OUTSIDE */
    uint32_t *output_of;      /* per tensor: which output of its producer */
    bool *is_plain;           /* per tensor: a constant that is not compared */
    uint64_t *live;           /* per position: bytes of what is made before it and read at it or behind */
    uint32_t *partner, *back; /* per tensor: while blocks are compared */
    uint32_t *partner_stamp, *back_stamp, *carry, *carry_stamp, *read_at;
    uint32_t stamp;
    /* Per position of a repetition, from its begin, while it is looked at. */
    int32_t *against; /* operands that forbid a run to begin there */
    uint32_t *breaks; /* the first node from there on that ends a run */
    uint32_t *saved;  /* nodes that runs from there on may save */
    uint64_t *steps;
};

/* Fills in the rest of a graph that has its workload, order, classes and steps, and else nothing. */
enum sp_status sp_blocks_graph_init(struct sp_arena *arena, struct sp_blocks_graph *graph, struct sp_error *err);

struct sp_blocks_run_list {
    struct sp_arena *arena;
    uint32_t count, capacity;
    struct sp_block_run *runs;
};

/* False without memory. */
bool sp_blocks_add_run(struct sp_blocks_run_list *list, const struct sp_block_run *run);

/* Adds the runs of blocks of `length` nodes in [begin, end), disjoint and ascending. How many nodes they have is added
   to *covered. False without memory. */
bool sp_blocks_match(struct sp_blocks_graph *graph, uint32_t begin, uint32_t end, uint32_t length,
                     struct sp_blocks_run_list *list, uint32_t *covered);
