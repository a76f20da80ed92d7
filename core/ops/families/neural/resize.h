#pragma once
/*
 * resize - what Resize and Upsample say about each axis of their input, in every version; shared by the rule and by the
 * parts that devices compute.
 */
#include "ops/table/op.h"

struct sp_resize {
    uint32_t rank;
    uint32_t scales_input; /* UINT32_MAX: attributes */
    uint32_t axis_count;   /* what scales and sizes list, in their order: all axes without the attribute */
    uint32_t *axes;
    double *scales;       /* one for each axis, 1 for axes not named; NULL when not known */
    struct sp_dim *sizes; /* the extents given instead; NULL when there are none */
    bool is_sized;        /* sizes are given, known or not, and no scales */
    bool is_crop;         /* tf_crop_and_resize: the output shows a part of the input */
    bool *is_cropped;     /* false: the output shows all of the axis, as far as that is known */
    bool keeps_aspect;    /* one scale for all named axes */
    bool *is_named;       /* false: the axis is not resized */
};

/* Reads a node whose input has a known rank; results are in the context's arena. */
enum sp_status sp_resize_read(struct sp_op_context *context, struct sp_resize *ret_resize);
