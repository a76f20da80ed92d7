#pragma once
/* slice - what a Slice takes of each axis, as its versions say it in attributes and operands. */
#include "ops/table/shape_helpers.h"

struct sp_slice_range {
    bool is_sliced;
    uint32_t item; /* of starts, ends, axes and steps */
    struct sp_dim start, end, step;
};

/* Fills ranges[axis]; *ret_known is false when not even the sliced axes are known. */
enum sp_status sp_slice_ranges(struct sp_op_context *context, uint32_t rank, struct sp_slice_range *ranges,
                               bool *ret_known);

/* Whether start, end and step are numbers. */
bool sp_slice_is_known(const struct sp_slice_range *range);

/* Of a known range on an axis of `extent` elements: how many it takes, and the first of them. */
int64_t sp_slice_count(int64_t extent, const struct sp_slice_range *range, int64_t *ret_first);
