#pragma once
/*
 * window_steps - how windows slide over the places of a tensor: of Conv, MaxPool and AveragePool.
 *
 * A place of a result is looked at where its window's anchor is: its middle tap, or the nearest one that is inside. Taps
 * that are not looked at count as zeros (for a maximum, as nothing), in the original and in a device's part alike.
 */
#include "graph/model.h"

#define SP_WINDOW_AXES 6 /* axes of places */

struct sp_window_steps {
    int64_t kernel, stride, dilation, low, high;
};

/* Those of `places` axes with these extents and kernels; NULL, or the clause that says why there are none. */
const char *sp_window_steps(const struct sp_node *node, uint32_t places, const int64_t *extents, const int64_t *kernel,
                            struct sp_window_steps *ret_steps);
/* How many places the result has; -1 where a window does not fit. */
int64_t sp_window_places(struct sp_window_steps along, int64_t extent, bool rounds_up);

/* The tap that is the anchor of a place of the result; -1 where all taps are padding. */
int64_t sp_window_anchor(struct sp_window_steps along, int64_t extent, int64_t place);

static inline int64_t sp_window_index(struct sp_window_steps along, int64_t place, int64_t tap)
{
    return place * along.stride - along.low + tap * along.dilation;
}
