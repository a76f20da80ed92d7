#pragma once
/*
 * stage_set - the memory of a stage while nodes are put in and taken out.
 *
 * A search cuts a model into *parts*, each a node or several neighbouring ones, and asks of many sets of parts how much
 * memory a stage of them needs. A set answers that by the definitions of evaluate.h, under several *blocks* at a time:
 * what a block says of nodes and tensors is what one of its devices has of them.
 *
 *     bytes  =  weights and caches  +  peak of what is alive  +  2 * (received + sent)
 *
 * A tensor that is sent counts once: to how many stages it goes, a set cannot know.
 *
 * How it works. What is alive changes inside a part only where a tensor that other parts know of begins or ends;
 * between two such places the part needs a constant more (live_bytes.h). So positions become *segments*, few where
 * parts are long, and what a tensor adds is an interval of segments. A tree over the segments keeps the largest sum;
 * putting a part in or taking it out moves the ends of the intervals of the tensors that it touches: O(operands *
 * log(segments)).
 */
#include "cost/workload.h"

/* What one device of a block has. */
struct sp_stage_block {
    const double *persistent_bytes; /* per work node: weights inside it, and what it keeps from request to request */
    const double *workspace_bytes;  /* per work node */
    const double *tensor_bytes;     /* per tensor; weights, too */
    const double *streamable_bytes; /* per work node: weights that it alone uses, where they may be streamed; or NULL */
};

struct sp_stage_parts;
struct sp_stage_set;

/* Parts of a workload: `part_of` per work node, SP_NO_WORK for folded ones. Everything given has to live as long. In
   `arena`; NULL without memory. */
struct sp_stage_parts *sp_stage_parts_create(struct sp_arena *arena, const struct sp_workload *workload,
                                             uint32_t part_count, const uint32_t *part_of, uint32_t block_count,
                                             const struct sp_stage_block *blocks);

/* Bytes that no set of parts needs more than. */
double sp_stage_parts_maximum(const struct sp_stage_parts *parts, uint32_t block);

/* Bytes that each set with this part needs at least: *ret_weights adds up over the parts of a set, of *ret_held the
   largest counts. */
void sp_stage_part_minimum(const struct sp_stage_parts *parts, uint32_t block, uint32_t part, double *ret_weights,
                           double *ret_held);

/* An empty set, in `arena`; NULL without memory. Sets of the same parts may be used side by side. */
struct sp_stage_set *sp_stage_set_create(struct sp_arena *arena, const struct sp_stage_parts *parts);

/* Puts in a part that is not in, or takes out one that is. */
void sp_stage_set_put(struct sp_stage_set *set, uint32_t part);
void sp_stage_set_take(struct sp_stage_set *set, uint32_t part);

double sp_stage_set_bytes(const struct sp_stage_set *set, uint32_t block);

/* Bytes that a stage of the set streams so that `lacking` more are free (streaming.h): the same as in its evaluation.
   INFINITY where that cannot be. Writes to scratch of the set. */
double sp_stage_set_streamed(const struct sp_stage_set *set, uint32_t block, double lacking);

/* Of these bytes weights and caches, and the peak of what is alive. */
double sp_stage_set_weights(const struct sp_stage_set *set, uint32_t block);
double sp_stage_set_peak(const struct sp_stage_set *set, uint32_t block);
