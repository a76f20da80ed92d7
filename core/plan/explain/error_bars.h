#pragma once
/*
 * error_bars - how far a plan's figures may be off: intervals that cover 90 % of what is measured.
 *
 * A device says by class of kernel between which shares of what is estimated nine of ten measurements lie (its
 * residuals: core/cost/cluster/device.h). Errors of one class are common to all kernels of a plan, since layers repeat
 * the same few kernels: they do not cancel, and so they add up, between classes too. The plan is therefore evaluated
 * twice more, once with all times at the low end of their class and once with all at the high end:
 *
 *   a node        the residual of its kernel's class on its device. What the user measured
 *                 (plan/request/measured.h), or stated in a graph of costs, is taken as it is
 *   collectives   the class of collectives of the stage's device (another one where the host starts them one by one),
 *                 and so are the messages between stages, which nobody
 *                 measured apart: of two devices the wider residual. Over links that no library was measured on, the
 *                 residual of devices without a kind
 *   latency       the longest path of a request with these times
 *   interval      the slowest stage with these times, whichever that is then; throughput is one over it
 *   memory        of the fullest device. Weights and caches are known; activations and buffers have the class of
 *                 memory, and so has what the runtime's process takes, which is no part of the figure. That of a graph
 *                 of costs is stated
 *
 * Where a cluster states `efficiency` or `launch_seconds`, the residuals of its devices do not apply, and those of
 * devices without a kind do.
 */
#include "search/joint/joint.h"

struct sp_error_bar {
    double value, low, high;
};

struct sp_error_bars {
    struct sp_error_bar latency_seconds, interval_seconds, throughput_per_second;
    struct sp_error_bar memory_bytes, process_bytes; /* of the fullest device; of its runtime's process, beside it */
};

static inline struct sp_error_bar sp_error_bar_of(double value, struct sp_device_residual residual)
{
    return (struct sp_error_bar){value, value / residual.high, value / residual.low};
}

/* How far the time of a node on a device is off, and that of what goes over links: of devices, on which a library
   was measured or not. */
struct sp_device_residual sp_error_of_node(const struct sp_workload *workload, const struct sp_cluster *cluster,
                                           uint32_t node, uint32_t device);
struct sp_device_residual sp_error_of_links(const struct sp_cluster *cluster, uint32_t device, bool is_measured);

/* Of a plan's placement, evaluation and strategies; of the result nothing else is read. `cut_seconds` is
   that of sp_plan; NULL: no kernel is cut. Takes memory of `arena` that it
   gives back; false without memory. */
bool sp_error_bars(struct sp_arena *arena, const struct sp_workload *workload, const struct sp_cluster *cluster,
                   const struct sp_search_result *result, const double *cut_seconds, struct sp_error_bars *ret_bars);
