#pragma once
/*
 * window - the sliding window that convolutions and pools share: its attributes, the extents it makes, its factors.
 *
 * Along one spatial axis of extent D a window of `kernel` taps, `dilation` apart, moves by `stride` over D elements
 * with `low` and `high` elements of padding. It spans dilation * (kernel - 1) + 1 elements and stops at
 *
 *     floor((D + low + high - span) / stride) + 1      places; with ceil_mode ceil, less one when the last window would
 *                                                      start in the high padding
 *     ceil(D / stride)                                 with auto_pad SAME_UPPER or SAME_LOWER
 *
 * (ONNX operators Conv, MaxPool, AveragePool; the last-window rule is in the text of MaxPool-22.)
 *
 * Factors: an output place `o` reads [o * stride - low, o * stride - low + span), so an even split of the output goes
 * with an even split of the input when neighbours exchange a halo. Two cases need no exchange: a window of one element,
 * and windows that tile the axis (kernel = stride, no padding, D = kernel * places), where the input axis is the
 * compound [place, tap].
 */
#include "ops/table/op.h"

enum sp_auto_pad { SP_PAD_NOTSET = 0, SP_PAD_SAME_UPPER, SP_PAD_SAME_LOWER, SP_PAD_VALID };

struct sp_window {
    uint32_t rank; /* spatial axes; the arrays have so many items */
    enum sp_auto_pad auto_pad;
    bool ceil;
    int64_t *kernel; /* taps, at least 1; 0 when not known */
    int64_t *stride, *dilation;
    int64_t *low, *high; /* explicit padding; 0 with another auto_pad than NOTSET */
    int64_t *span;       /* dilation * (kernel - 1) + 1; 0 when the kernel is not known */
};

struct sp_window_factors {
    uint8_t place; /* the output places */
    uint8_t tap;   /* the taps, or SP_RULE_NO_FACTOR for a window of one element */
    bool is_tiled; /* the input axis is [place, tap] */
    double kernel; /* taps, 1 when not known */
};

/*
 * Reads kernel_shape, strides, dilations, pads, auto_pad and ceil_mode of a node with `rank` spatial axes. Without
 * kernel_shape the kernel is `weight`'s axes from 2 (NULL: not known); a kernel_shape that contradicts the weight, a
 * count other than `rank`, and any value out of range is SP_ERR_MODEL.
 */
enum sp_status sp_window_read(struct sp_op_context *context, uint32_t rank, const struct sp_shape *weight,
                              struct sp_window *ret_window);

/* The output extent of spatial axis `axis` for an input extent; SP_ERR_MODEL when the window surely does not fit. */
enum sp_status sp_window_extent(struct sp_op_context *context, const struct sp_window *window, uint32_t axis,
                                struct sp_dim in, struct sp_dim *ret_out);

/* The padding in force along an axis for an input and an output extent. SAME with an unknown extent: what a multiple of
   the stride would need. */
void sp_window_padding(const struct sp_window *window, uint32_t axis, struct sp_dim in, struct sp_dim out,
                       int64_t *ret_low, int64_t *ret_high);

/* Adds the factors of spatial axis `axis`. When the windows tile the axis, splitting the taps leaves partial results
   that `combiner` joins; otherwise taps are kept whole. Nothing is mapped: see sp_window_map_input(). */
struct sp_window_factors sp_window_factors(struct sp_op_context *context, struct sp_rule *rule,
                                           const struct sp_window *window, uint32_t axis, struct sp_dim in,
                                           struct sp_dim out, enum sp_combiner combiner);

/* Maps an axis of an input to [place] or [place, tap]. */
void sp_window_map_input(struct sp_rule *rule, uint32_t input, uint32_t axis, const struct sp_window_factors *factors);
