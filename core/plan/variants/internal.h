#pragma once
/*
 * internal - what the sources of the answers around a plan share: looking at one cluster after the other.
 */
#include "plan/internal.h"
#include "plan/variants/variants.h"

/* One request, while its clusters are looked at. It lives as long as the plan, whose job keeps the watch. */
struct sp_variants_run {
    struct sp_arena *arena;            /* of the rows */
    struct sp_job_options job_options; /* of the request */
    const struct sp_plan_options *options;

    struct sp_job *base;       /* the model, open, and what its searches have in common (plan/shared_work.h); or NULL */
    bool is_alone;             /* each plan has a job of its own: there is no base, or no memory for one */
    const struct sp_job *held; /* its plan stays in memory meanwhile; NULL: none */
    const char *phase;         /* as the caller's watch is told */
    uint32_t done, total;      /* clusters */
    double best_seconds;       /* that were found, as the watch is told; 0: what the search says */
    double within;             /* of the one that is looked at, so far */
    bool stopped;              /* by the watch */
    bool is_over;              /* all have been looked at: what is done with the plan now is told as it is */
    struct sp_watch watch;     /* of the clusters' jobs */
};

/* ---- one_cluster.c ---- */

/* sp_job_plan(), which shares with the run's other plans what they have in common; of a workload sp_service_plan(). */
enum sp_status sp_variants_plan(struct sp_variants_run *run, const struct sp_job_options *job_options,
                                const struct sp_cluster *cluster, struct sp_job **ret_job, struct sp_plan **ret_plan,
                                struct sp_error *err);

/* The model is closed as soon as no plan is of it; further plans have jobs of their own. */
void sp_variants_drop_base(struct sp_variants_run *run);

/*
 * Plans on one cluster. With SP_VARIANT_FITS the job and its plan are the caller's, where it wants them (both or none
 * NULL). What is wrong with this cluster alone (or its memory, or its time) is in the row; *ret_why is then the error.
 * Only memory for the row itself is an error of its own.
 */
enum sp_status sp_variants_look(struct sp_variants_run *run, const struct sp_cluster *cluster, struct sp_variant *row,
                                struct sp_job **ret_job, struct sp_plan **ret_plan, struct sp_error *ret_why);

/* The plan's figures and description. */
enum sp_status sp_variants_take_figures(struct sp_arena *arena, const struct sp_plan *plan, struct sp_variant *row,
                                        struct sp_error *err);

/* Like memcmp(); differences of rounding are none. */
int sp_variants_compare_values(double a, double b);

/* By which rows are compared: at a rate that is given, a service serves as many requests anyway, and the shortest one
   decides. */
enum sp_objective sp_variants_objective(const struct sp_plan_options *options);

/* Below 0 where `a` is better by the objective, ties broken as the search does; differences of rounding are none. */
int sp_variants_compare(const struct sp_plan_options *options, const struct sp_variant *a, const struct sp_variant *b);

/* ---- what_if.c ---- */

/* Makes plan->what_if. */
enum sp_status sp_variants_what_if(struct sp_variants_run *run, const struct sp_cluster *cluster, struct sp_plan *plan,
                                   struct sp_error *err);

/* Nothing fits: adds to the error which changes would help. */
void sp_variants_explain_nofit(struct sp_variants_run *run, const struct sp_cluster *cluster, struct sp_error *err);
