#pragma once
/*
 * why - why this plan: what binds it, and what the second best one is.
 *
 * The binding constraint is the first of these that holds:
 *
 *   memory    a plan with a better objective was evaluated, and all that it lacks is memory. It is named, with the
 *             memory that it needs
 *   bound     the plan's objective is its lower bound, or every plan was tried: none of the strategies that were
 *             allowed is better under the cost model
 *   else      what most of the objective's time goes to: arithmetic ("compute"), "memory_bandwidth", "launch" (the
 *             floor of an operator's time), "link" (collectives, sends, receives), "host" (waiting for weights from the
 *             memory of the host). Of the slowest stage, or for a
 *             latency of the stages on the longest path. For the fewest devices nothing more is known: "none"
 *
 * An operator's time counts as arithmetic or as memory bandwidth, whichever of its FLOPs and bytes takes longer on the
 * stage's device (roofline), its launch apart. Seconds of a graph of costs are arithmetic: it does not say more.
 *
 * The second best is the best plan of another form (search/joint/pareto_front.h) that was evaluated and fits. Where the
 * plan is not the best that was found, but near it (search/joint/run/near_best.h), the best one is named, too.
 * Differences are of the objective: seconds, or devices. One that is smaller than the error of the estimate
 * (error_bars.h) is said to be: both plans share most of that error, but not all.
 */
#include "plan/internal.h"

enum sp_binding {
    SP_BINDING_COMPUTE,
    SP_BINDING_MEMORY_BANDWIDTH,
    SP_BINDING_LAUNCH,
    SP_BINDING_LINK,
    SP_BINDING_HOST,
    SP_BINDING_MEMORY,
    SP_BINDING_BOUND,
    SP_BINDING_NONE
};

struct sp_why {
    enum sp_binding kind;
    uint32_t stage;                      /* of the plan, that it is about; SP_NO_STAGE: of a plan that does not fit */
    uint32_t first_device, device_count; /* its devices, or the one that lacks memory */
    const char *node;                    /* most of it, or NULL */
    double seconds, share;               /* of what binds in the objective's time; 0 for memory, bound and none */
    double better_seconds, needed_bytes; /* of the plan that memory is in the way of; else 0 */
    const char *sentence;
    const struct sp_front_plan *second; /* NULL: none */
    double worse_by, worse_share;       /* seconds, or devices for SP_OBJECTIVE_DEVICES */
    bool is_within_error;               /* the plan's own interval (error_bars.h) reaches the second best's figure */
    bool less_latency, less_interval, less_memory, fewer_devices; /* what the second best is better in */
    const char *second_sentence;                                  /* also where there is none */
    double better_by, better_share; /* of result->best: seconds less, and what share of its own seconds that is */
    const char *best_sentence;      /* NULL: this plan is the best that was found */
};

/* In the plan's arena. False without memory. */
bool sp_plan_why(const struct sp_plan *plan, struct sp_why *ret_why);

const char *sp_binding_name(enum sp_binding kind); /* "compute", "memory_bandwidth", ... */

/* "why": in JSON, and for people. */
void sp_why_write_json(const struct sp_plan *plan, struct sp_json *json);
void sp_why_write_text(const struct sp_plan *plan, struct sp_buf *buf);
