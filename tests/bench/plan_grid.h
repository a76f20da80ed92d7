#pragma once
/*
 * plan_grid - the plans that people write by hand, evaluated by the same cost model as the search's.
 *
 *  Megatron  tensor, pipeline and data parallelism (Narayanan et al., SC 2021): products whose columns, then products
 *            whose rows are split along one axis of a mesh, the batch along the other; stages of equally many layers,
 *            the embedding in the first, the head in the last. What no role fixes is chosen best, under the memory of
 *            a device, so each of these plans is as good as it can be made. Over devices of several kinds stages also
 *            have layers in proportion to the speed or to the memory of their devices.
 *  experts   the same with the experts of each layer split instead of the columns and rows of each expert
 *  FSDP      all weights in parts on all devices, those of a layer gathered before it runs (Zhao et al., VLDB 2023);
 *            the batch is split. Time: that of data parallelism and the gathers, one after the other; memory: the
 *            part, the two largest layers, activations.
 *
 * Where devices have a host (cost/streaming.h), pipelines may stream, and there are two more:
 *
 *  offload   all weights in the host (ZeRO-Inference, Aminabadi et al., SC 2022; FlexGen with all weights on the host):
 *            each device copies its part of a layer, the layers are gathered as with FSDP; copies overlap with the rest
 *  ngl       so many of the first layers on the accelerators as they have memory for, in equal numbers, the rest on the
 *            processor (llama.cpp's --n-gpu-layers)
 */
#include "plan/explain/error_bars.h"
#include "plan_subject.h"
#include "search/joint/stage_options.h"

#define PLAN_GRID_WHERE 20

struct hand_plan {
    char name[64];               /* "TP4 DP2 PP8" */
    char where[PLAN_GRID_WHERE]; /* "all", or the number of the class of devices that it is on: "class 0" */
    bool fits;
    double latency_seconds, interval_seconds, memory_bytes;
    struct sp_error_bars bars; /* but for FSDP */
};

struct plan_grid {
    uint32_t count, capacity;
    struct hand_plan *plans;
    double seconds; /* processor time of all of them */
};

/* All of the grid. The plans are in the subject's arena. False, with a message printed, where something fails; a plan
   that does not fit is no failure. */
bool plan_grid_make(struct plan_subject *subject, struct plan_grid *grid);

/* A layout that somebody measured: Megatron's, or one whose experts lie whole on all devices of a stage, where the rest
   has tensor and data parallelism (attention of a part of the sequences on each device). */
struct plan_layout {
    uint32_t tensor, stages, data;
    bool splits_experts;
};

/* The one layout: a grid of one plan, or of none where it does not fit. */
bool plan_grid_make_layout(struct plan_subject *subject, const struct plan_layout *layout, struct plan_grid *grid);

/* The plan that is best for throughput or latency among those on `where` (NULL: anywhere); NULL: none fits. */
const struct hand_plan *plan_grid_best(const struct plan_grid *grid, enum sp_objective objective, const char *where);

static inline double hand_plan_value(const struct hand_plan *plan, enum sp_objective objective)
{
    return objective == SP_OBJECTIVE_LATENCY ? plan->latency_seconds : plan->interval_seconds;
}
