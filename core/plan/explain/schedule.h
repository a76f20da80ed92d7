#pragma once
/*
 * schedule - what the devices of a plan do in the course of a request, event by event: the execution model of
 * cost/evaluate.h, that traces and timelines show.
 *
 * Request r enters stage s at start_seconds(s) + r * interval, is computed node by node with what is exchanged for
 * each, and what the stage sends leaves when it has finished: what goes to one stage one after the other, to different
 * stages at the same time. A receiver is as busy with it as the sender. Replicas of a stage take requests in turn. So
 * for each request a device is busy for just the plan's compute_seconds, and its sends and receives take its
 * communication_seconds.
 */
#include "plan/stage_strategies.h"

/* Requests that are shown: each replica of a stage has one, up to the second number. One where devices are shared: the
   stages of later requests take turns with those of the first one, in periods (evaluate.h). */
#define SP_SCHEDULE_REQUESTS      3
#define SP_SCHEDULE_MOST_REQUESTS 16
uint32_t sp_schedule_requests(const struct sp_plan *plan);

/* When a request enters a stage, counted from the arrival of the first one at the model. */
double sp_schedule_begin(const struct sp_plan *plan, uint32_t stage, uint32_t request);

/* ---- a stage ---- */

struct sp_schedule;

/* Its tables live in `arena`, which must not be the plan's. NULL without memory. */
struct sp_schedule *sp_schedule_create(struct sp_arena *arena, const struct sp_plan *plan);

/* Makes ready to walk through a stage; what was told of another one is gone. */
enum sp_status sp_schedule_enter(struct sp_schedule *schedule, uint32_t stage, struct sp_error *err);

/* The exchanges of the stage that was entered, in order, as sp_plan_collectives() tells them. */
const struct sp_plan_collective *sp_schedule_collectives(const struct sp_schedule *schedule, uint32_t *ret_count);

/* A node of the stage, folded ones too; then what was exchanged before and after it has been told as well, and of a
   node that runs its memory: live->during from `begin`, when the node began, live->after at `end`. */
enum sp_schedule_what { SP_SCHEDULE_NODE, SP_SCHEDULE_COLLECTIVE, SP_SCHEDULE_LIVE };
struct sp_schedule_event {
    enum sp_schedule_what what;
    uint32_t node;             /* that it is, or that it is done for */
    uint32_t collective;       /* SP_SCHEDULE_COLLECTIVE: of sp_schedule_collectives() */
    struct sp_live_bytes live; /* SP_SCHEDULE_LIVE: activations of one device */
    double begin, end;
};

/* What one device does for a request that enters at `begin`, in order; returns when it has finished. */
double sp_schedule_walk(const struct sp_schedule *schedule, double begin,
                        void (*tell)(void *context, const struct sp_schedule_event *event), void *context);

/* What one device of the stage that was entered holds while the node runs at which most is alive. */
struct sp_schedule_held {
    uint32_t tensor;
    bool is_copy; /* in another layout than that in which it was made, or came */
    double bytes; /* more than 0 */
};
struct sp_schedule_fullest {
    uint32_t node; /* SP_NO_WORK: the stage has none that runs */
    double workspace_bytes;
    double waiting_bytes; /* cost/evaluate.h */
    uint32_t count;
    struct sp_schedule_held *held; /* with these two, the stage's activations_peak_bytes */
};

/* In `arena`, which may be the schedule's. */
enum sp_status sp_schedule_find_fullest(struct sp_schedule *schedule, struct sp_arena *arena,
                                        struct sp_schedule_fullest *ret_fullest, struct sp_error *err);

/* ---- between stages ---- */

/* What goes from one stage to one other, in the order in which it is sent. */
struct sp_schedule_link {
    uint32_t from_stage, to_stage, count;
    const struct sp_tensor_transfer *const *transfers;
};

/* All links, by sender, then by receiver; in `arena`. SP_ERR_MEMORY. */
enum sp_status sp_schedule_links(struct sp_arena *arena, const struct sp_plan *plan, uint32_t *ret_count,
                                 const struct sp_schedule_link **ret_links, struct sp_error *err);

/* When the first of a link's transfers begins, for a request that enters the sender at `begin`. */
double sp_schedule_leave(const struct sp_plan *plan, const struct sp_schedule_link *link, double begin);
