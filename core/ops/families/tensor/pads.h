#pragma once
/* pads - what Pad and CenterCropPad add to each axis, as their versions say it in attributes and operands. */
#include "base/limits.h"
#include "ops/table/shape_helpers.h"

/* What is added below and above each axis; unknown where not known. */
struct sp_pads {
    struct sp_dim low[SP_MAX_RANK], high[SP_MAX_RANK];
    uint32_t count;             /* axes that the list of pads is for; 0 where they are not known */
    uint32_t axes[SP_MAX_RANK]; /* which ones */
};

enum sp_status sp_pad_amounts(struct sp_op_context *context, uint32_t rank, struct sp_pads *ret_pads);

/* Of CenterCropPad: what is added before an axis. Of an odd difference the larger half is at the end. */
static inline int64_t sp_center_low(int64_t before, int64_t after)
{
    return (after - before) / 2;
}

/* Where the element comes from that is at `place` of an axis with `extent` elements (places below 0 and from `extent`
   on are added ones), -1 for the constant. */
int64_t sp_pad_source(const char *mode, int64_t place, int64_t extent);
