#pragma once
/*
 * suffix - what the right side of every cut of a line costs, in one pass from its end.
 *
 * The left side of a cut is a window that grows to the right (window.c). The right side grows to the left: a tensor
 * that it uses is received as long as its producer is not in it. What is received counts as alive from the start of the
 * stage, which makes the live bytes at a position independent of the cut; only tensors that leave the stage raise the
 * positions behind their last use when their producer comes in, hence the tree over positions in suffix.c.
 */
#include "search/grouping/internal.h"

/* One side of a cut. memory = resident + peak + 2 * (in + out). */
struct sp_side {
    double compute, receive, send;
    double resident; /* weights */
    double peak, in, out;
    double in_outside; /* the part of `in` that comes from outside the line */
};

static inline double sp_side_interval(const struct sp_side *side)
{
    double transfer = side->send > side->receive ? side->send : side->receive;
    return side->compute > transfer ? side->compute : transfer;
}

static inline double sp_side_memory(const struct sp_side *side)
{
    return side->resident + side->peak + 2 * (side->in + side->out);
}

/* sides[p] (line_length + 1 of them): the nodes from position p to the end of the loaded line as a stage on device
   `right`, the ones before it on `left`. */
enum sp_status sp_suffix_scan(struct sp_grouping_search *search, const struct sp_candidate *around, uint32_t left,
                              uint32_t right, struct sp_side *sides);
