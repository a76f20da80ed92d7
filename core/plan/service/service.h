#pragma once
/*
 * service - a plan for a service: so many copies of a model, each on a part of the devices, and what users see of them.
 *
 * A plan of a service is the plan of one copy at the sizes of one phase; the other phases run on the same placement of
 * the weights, and the copies are equal. What is looked at:
 *
 *   copies      1, and every other number for which a copy's devices are a block whose links are those of the next
 *               one's; copies divide the sequences in flight evenly. No more than the options' replicas, where these are
 *               given: a copy is one, its plan has none of its own. Only where all devices are of one group
 *               For the fewest or the cheapest devices: from small copies up, no more of a size than keep the limits
 *   placements  of each phase the best plan at its sizes (by the latency of a step, where the phases are those of a
 *               language model), and the best one for all phases together, each as often as a request runs it
 *               (search/phases.h): the whole service is judged on each
 *   batches     of phases that leave it open (batches.h); placements are planned for batches of 1, 4, 16 .., and
 *               the number of devices times these where it is no power of two, for the largest that fits, and for the
 *               best one
 *   pools       where the workload has them: prompts and steps on copies of their own, each of a power of two devices and
 *               planned for its phase, in all numbers of either (service/pools.h)
 *   chunks      prompts whole, or cut as the workload says, or with "best" both, in chunks of 512, 2048 and 8192 tokens up to
 *               the first that has all of a prompt
 *   concurrency where it is to be the best one: the most that memory and limits allow, or fewer where these give as
 *               many requests within the tolerance. The placement is then planned again for so many
 *
 * Of those that keep the limits the objective decides: throughput, most requests a second (at a rate of their own: the
 * shortest request); latency, the shortest request; devices, the fewest; cost, the lowest price of the devices in use,
 * which a cluster's groups state or, where they do not, the catalog lists. Within the tolerance the fewest devices decide,
 * then the request. Figures are means with the error bars of their times; a limit that the mean keeps and the upper end
 * of its bar does not is said to be uncertain.
 *
 * Realised. Weights, states and stages of all phases are the plan's; in between, a phase may lay its tensors in a way of its
 * own. The annotated model has a configuration for each such way ("shardplan" for the plan itself, "shardplan.prefill"),
 * and each phase has models of the devices, which share the files of their weights.
 *
 * Sources: service/generation.h, service/phases.h.
 */
#include "plan/job.h"
#include "plan/service/traffic.h"
#include "plan/variants/variants.h"
#include "service/step_times.h"

/* What a simulation of a language model needs of a copy: the times of prompts and steps of many sizes. */
struct sp_service_times {
    double request_seconds; /* what the runtime adds to a request */
    int64_t places;         /* sequences in flight on a copy, at most: what memory and limits allow */
    struct sp_step_times of;
};

/* Devices of their own for prompts and for steps (service/pools.h). The plan is that of a copy for steps; that of a copy for
   prompts goes with its job. */
#define SP_PROMPTS_FOLDER "prefill" /* of the files of a copy for prompts, beside those of a copy for steps */

struct sp_service_pools {
    uint32_t prompt_copies, prompt_devices, step_copies, step_devices; /* devices: of one copy */
    const char *prompt_description, *step_description;                 /* of one copy */
    double prompt_rate, step_rate;        /* requests a second that each pool serves at most */
    double prompt_share, place_share;     /* of the time of copies for prompts; sequences in steps over places */
    double prompt_memory_bytes;           /* of the fullest device for prompts */
    double cache_bytes, transfer_seconds; /* of one request, and over the links of one copy */
    double link_share;                    /* of the time of these links */
    struct sp_job *prompt_job;
    const struct sp_plan *prompt_plan;
};

enum sp_limit_state { SP_LIMIT_KEPT, SP_LIMIT_UNCERTAIN, SP_LIMIT_BROKEN };

struct sp_service_limit {
    const char *name; /* as in the request: "tpot_seconds" */
    double limit;
    struct sp_error_bar figure;
    enum sp_limit_state state;
};
#define SP_SERVICE_LIMITS 5

/* Of a phase, on the plan for one of them alone. */
struct sp_service_alone {
    double latency_seconds, interval_seconds;
    bool fits;
};

#define SP_PHASE_NAME_IN_FILES 48 /* bytes of a phase's name that stands in names of files */

/* A phase on the placement of the plan. */
struct sp_service_phase {
    const char *name;
    bool is_planned; /* the plan is at these sizes */
    struct sp_sizes sizes;
    int64_t batch;          /* that the planner chose; 0: it is not left open */
    double fill_seconds;    /* until as many requests as a run serves are there, in the mean */
    uint32_t micro_batches; /* in which a run of these sizes is cut; 1: it is whole */
    double runs;            /* of it that a request needs, in the mean */
    struct sp_error_bar latency_seconds, interval_seconds;
    double memory_bytes; /* of the fullest device */
    double time_share;   /* of what the devices do */
    double moved_bytes;  /* of weights that would have to lie elsewhere at these sizes: 0, but where an operator cannot
                            be split as the plan has it */
    const char *bottleneck;
    /* What devices run in this phase: the plan at its sizes, with the plan's weights. */
    const char *configuration; /* of the annotated model; NULL: it could not be written */
    const char *file_name;     /* in the names of its models; NULL: they are those of the plan */
    struct sp_job *job;        /* with file_name: of its plan. Both go with the plan's job */
    const struct sp_plan *plan;
    /* Per phase of the service, what it takes on the best plan for this phase alone on the devices of a copy; NULL: that was
       not looked at. */
    const struct sp_service_alone *alone;
};

/* One that was looked at. */
struct sp_service_candidate {
    uint32_t copies, devices;               /* of one copy */
    const char *description;                /* of a copy, "1 stage of 4 devices" */
    const char *planned;                    /* the phase at whose sizes it was planned, or is written */
    int64_t planned_batch;                  /* of this phase, where it is left open; else 0 */
    bool is_for_all;                        /* it was planned for all phases together */
    int64_t concurrency;                    /* of all copies; 0: of phases */
    int64_t chunk;                          /* of chunked prefill; 0: prompts run whole */
    uint32_t prompt_copies, prompt_devices; /* of a pool of their own, which the devices are beside; 0: there is none */
    double ttft_seconds, tpot_seconds, request_seconds, requests_per_second;
    double limit_ratio; /* the largest of figure / limit; 0: no limits. Above 1 it is no answer */
    bool fits;          /* memory */
    bool is_chosen;
};

/* A service with some sequences in flight, that fits and keeps the limits. */
struct sp_service_point {
    uint32_t copies, devices, prompt_copies, prompt_devices; /* as of a candidate */
    const char *description;
    int64_t concurrency, chunk;
    double ttft_seconds, tpot_seconds, request_seconds;
    double tokens_per_second_per_device, dollars_per_million_tokens; /* 0: no price is known */
};

/* A cluster of a sweep. */
struct sp_service_cluster {
    const char *device; /* as in a sweep's rows: "l4-24gb" */
    uint32_t devices_available;
    bool fits;           /* some service keeps the limits */
    const char *message; /* why none does; else NULL */
    uint32_t copies, devices;
    int64_t concurrency; /* 0: of phases */
    double request_seconds, requests_per_second, price_per_hour;
    bool is_chosen;
};

struct sp_service {
    const char *objective; /* that decided */
    bool is_llm;
    uint32_t copies, devices; /* of all copies */
    int64_t concurrency;      /* of all copies */
    uint32_t micro_batches;
    int64_t chunk; /* positions of prompts that a step has at most; 0: prompts run whole */
    bool has_rate;
    double rate_per_second; /* asked for */
    struct sp_error_bar ttft_seconds, tpot_seconds, request_seconds;
    struct sp_error_bar requests_per_second,
        tokens_per_second;                   /* output tokens; at the rate asked for, where there is one */
    struct sp_error_bar capacity_per_second; /* requests, at most */
    double price_per_hour;                   /* 0: not known */
    bool price_is_listed;             /* by the catalog, of some device at least: the cluster does not state it */
    double cache_bytes, memory_bytes; /* of all copies; of the fullest device */
    int64_t memory_concurrency, limit_concurrency; /* most sequences in flight; 0: not known */
    const struct sp_service_pools *pools;          /* NULL: prompts and steps share the devices */
    const struct sp_service_times *times;          /* of a copy of a language model; else NULL */
    uint32_t limit_count;
    struct sp_service_limit limits[SP_SERVICE_LIMITS];
    uint32_t phase_count;
    const struct sp_service_phase *phases;
    uint32_t candidate_count;
    const struct sp_service_candidate *candidates;
    uint32_t by_tpot_count, by_price_count;  /* of a language model without a rate: services that no other one beats, */
    const struct sp_service_point *by_tpot;  /* in tokens per second of a device, in order of the time per token, */
    const struct sp_service_point *by_price; /* and in the price of tokens, in order of the time of a request */
    uint32_t cluster_count;                  /* of a sweep; else 0 */
    const struct sp_service_cluster *clusters;
};

/*
 * Plans the service that options->traffic asks for; the plan has `service` set. All of it is in `arena`, which must
 * outlive the plan. SP_ERR_NOFIT "LIMIT_NOT_KEPT": plans fit, and none keeps the limits; the message says which limits
 * the closest one breaks, by how much, and how many sequences in flight, or copies of it, would keep them. Other errors
 * are those of sp_job_plan().
 */
enum sp_status sp_service_plan(struct sp_arena *arena, const struct sp_job_options *job_options,
                               const struct sp_cluster *cluster, const struct sp_plan_options *options,
                               struct sp_job **ret_job, struct sp_plan **ret_plan, struct sp_error *err);

/*
 * The same for each cluster of a sweep: the objective decides between them, or with "choose": "smallest" and another
 * objective than cost the number of their devices first. The plan's service has a row for each.
 */
enum sp_status sp_service_sweep(struct sp_arena *arena, const struct sp_job_options *job_options,
                                const struct sp_sweep *sweep, const struct sp_plan_options *options,
                                struct sp_job **ret_job, struct sp_plan **ret_plan, struct sp_error *err);

/*
 * Sets `alone` of the phases of a plan, which is the job's: a search more for each of them that the plan is not for. One
 * that the memory of a job or the time does not suffice for stays without.
 */
enum sp_status sp_service_look_alone(struct sp_arena *arena, const struct sp_job_options *job_options,
                                     const struct sp_plan_options *options, const struct sp_job *job,
                                     const struct sp_plan *plan, struct sp_error *err);

/* The member "service" of a plan's JSON; nothing where there is none. */
void sp_service_write_json(const struct sp_plan *plan, struct sp_json *json);

/* The same for people. */
void sp_service_write_text(const struct sp_plan *plan, struct sp_buf *buf);
