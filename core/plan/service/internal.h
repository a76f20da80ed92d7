#pragma once
/*
 * internal - what the sources of a service's plan share: one candidate after the other is tried.
 */
#include "plan/service/llm.h"
#include "plan/service/service.h"

/* One request, while its candidates are looked at. */
struct sp_serving {
    struct sp_arena *arena;
    const struct sp_traffic *traffic;
    const struct sp_cluster *cluster;
    enum sp_objective objective; /* that decides between services */
    bool by_price;               /* the cheapest, in place of the fewest devices */
    double tolerance;
    struct sp_plan_options options; /* of the copies' plans */
    struct sp_copy_question question;
    struct sp_llm llm;             /* of a language model */
    const struct sp_sizes *phases; /* of any other: the sizes of each phase, without a batch that is open */
    const bool *batch_is_open;     /* per phase */
    const char *batch_symbol;      /* with one that is open */
    uint32_t candidate_count, candidate_capacity;
    struct sp_service_candidate *candidates;
    uint32_t point_count, point_capacity;
    struct sp_service_point *points;
};

/* The phase at whose sizes a copy is planned, or is written. */
struct sp_planned_phase {
    const char *name;
    uint32_t index;
    int64_t batch; /* of a phase that leaves it open; else 0 */
};

/* A copy, so many times, while it is looked at. */
struct sp_trial {
    struct sp_serving *serving;
    struct sp_copy *copy;
    uint32_t copies;
    double price_per_hour; /* of all copies; 0: not known */
    bool price_is_listed;
    struct sp_planned_phase planned;
    bool is_for_all; /* it is planned for all phases */
};

/* What users see of all copies. */
struct sp_trial_figures {
    struct sp_service service;      /* without names of devices, limits' states, phases and candidates */
    struct sp_llm_figures llm;      /* of one copy, of a language model */
    int64_t batches[SP_MAX_PHASES]; /* of phases: that are best; 0: as its dims say */
    double limit_ratio;             /* the largest of figure / limit */
    bool fits;
};

/* ---- service.c ---- */

/* What copies are planned by: the options of a service, with the objective of one copy. */
struct sp_plan_options sp_service_copy_options(const struct sp_plan_options *options);

/* ---- limits.c ---- */

/* The largest of figure / limit, 0 where there are none; fills in the limits of the service. */
double sp_service_judge(const struct sp_traffic *traffic, struct sp_service *service);

/* Says what is what in the model; the batches that were chosen; of limits that may be broken, and of weights that do not stay. False without memory. */
bool sp_note_symbols(const struct sp_decoder_symbols *symbols, const struct sp_traffic *traffic,
                     struct sp_bindings *bindings);
bool sp_note_batches(const struct sp_serving *serving, const struct sp_service *service, struct sp_bindings *bindings);
bool sp_note_service(const struct sp_service *service, struct sp_bindings *bindings);

/* What the objective has least, where limits are kept. */
double sp_service_value(const struct sp_serving *serving, const struct sp_service *service);

/* Whether `now` is the answer before `best`, by the objective; values within the tolerance are equal. */
bool sp_service_is_better(const struct sp_serving *serving, const struct sp_service *now,
                          const struct sp_service *best);

/* ---- trial.c ---- */

/* Of the devices in use, as the cluster states it or the catalog lists it; 0 where one has no price. */
void sp_trial_find_price(struct sp_trial *trial);

/* Of the copy, in the arena; NULL without memory. */
const char *sp_trial_description(const struct sp_trial *trial);

/* ---- front.c ---- */

/* Keeps the figures of a service; `of` says what it is. */
enum sp_status sp_service_add_point(struct sp_serving *serving, const struct sp_service *service,
                                    const struct sp_service_point *of, struct sp_error *err);

/* service->by_tpot and by_price, of all points. */
enum sp_status sp_service_find_front(const struct sp_serving *serving, struct sp_service *service,
                                     struct sp_error *err);

/* ---- pools.c ---- */

#define SP_MOST_STEP_ROWS 32 /* of times: powers of two up to the places, and two more */

struct sp_pools_choice {
    bool is_found;
    uint32_t prompts, steps; /* while they are searched: which sizes */
    uint32_t prompt_copies, step_copies;
    double limit_ratio;
    struct sp_service service; /* with pools; without what sp_service_deliver_pools() adds */
};

/* The best pools by the objective; where none keeps the limits, those that are closest to them; or none. */
enum sp_status sp_service_find_pools(struct sp_serving *serving, struct sp_pools_choice *ret_choice,
                                     struct sp_error *err);

/* All of the chosen service but its candidates, and a copy for steps, which is the caller's. */
enum sp_status sp_service_deliver_pools(struct sp_serving *serving, const struct sp_pools_choice *choice,
                                        struct sp_service *service, struct sp_copy **ret_steps, struct sp_error *err);

/* ---- serve_llm.c, serve_phases.c, times.c ---- */

/* At the concurrency that the request says, or the best one, or the least that serves its rate. */
enum sp_status sp_serve_llm(const struct sp_trial *trial, struct sp_trial_figures *ret_figures, struct sp_error *err);
enum sp_status sp_serve_phases(const struct sp_trial *trial, struct sp_trial_figures *ret_figures,
                               struct sp_error *err);

/* Adds points with 1, 2, 4 .. sequences in flight on each copy up to those of the figures, where these keep the limits. */
enum sp_status sp_serve_llm_points(const struct sp_trial *trial, const struct sp_trial_figures *figures,
                                   const char *description, struct sp_error *err);

/* The most sequences in flight, of all copies, that memory allows, and that memory and limits allow. */
enum sp_status sp_serve_llm_limits(const struct sp_trial *trial, struct sp_service *service, struct sp_error *err);

/* service->times of the chosen trial, whose limits are known. */
enum sp_status sp_serve_llm_times(const struct sp_trial *trial, const struct sp_trial_figures *figures,
                                  struct sp_service *service, struct sp_error *err);

/* service->phases of the chosen trial. */
enum sp_status sp_serve_llm_phases(const struct sp_trial *trial, const struct sp_trial_figures *figures,
                                   struct sp_service *service, struct sp_error *err);
enum sp_status sp_serve_phases_phases(const struct sp_trial *trial, struct sp_service *service, struct sp_error *err);

/* ---- phase_plans.c ---- */

/* Makes the plan of each phase of the chosen trial, and says in which configurations of the annotated model they are. One
   for which the memory of a job does not suffice has none. */
enum sp_status sp_serve_phase_plans(const struct sp_trial *trial, struct sp_service_phase *phases, uint32_t count,
                                    struct sp_error *err);
