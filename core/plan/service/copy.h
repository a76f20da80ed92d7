#pragma once
/*
 * copy - one copy of a model on some devices: a placement that was planned at the sizes of one phase, and what the
 * phases take on it.
 *
 * A copy is a plan of its own, of a job of its own. Another phase is the same model bound to other sizes, on the same
 * placement (search/same_weights.h); what it takes is kept, since a service asks for the same sizes several times.
 */
#include "plan/explain/error_bars.h"
#include "plan/internal.h"

/* What all copies of a request share. */
struct sp_copy_question {
    struct sp_arena *arena; /* of texts and of what is kept */
    const struct sp_job_options *job_options;
    const struct sp_plan_options *options; /* its dims hold for all phases, but for those that a phase binds */
};

/* The model at the sizes of a phase on a copy's placement. */
struct sp_phase_figures {
    struct sp_error_bar latency_seconds, interval_seconds;
    double memory_bytes; /* of the fullest device */
    double excess_bytes; /* of the device that lacks most; 0 or less: it fits */
    double moved_bytes;  /* of weights that lie elsewhere at these sizes (search/same_weights.h) */
    double state_bytes;  /* of all states that a run leaves, of all devices together, each once */
    uint32_t stage_count;
    const double *stage_bytes;       /* per stage: of one device, all that it holds */
    const double *stage_state_bytes; /* per stage: of this, states */
    const double *stage_capacity;    /* per stage */
    const char *bottleneck;          /* one sentence */
};

struct sp_copy;

/* The sizes of a run, and in how many parts it is cut along its batch (plan/micro/micro.h); 1: it is whole. */
struct sp_cut_sizes {
    struct sp_sizes sizes;
    uint32_t micro_batches;
};

/* Plans at these sizes on the cluster, which must outlive the copy. Errors are those of sp_job_plan(). */
enum sp_status sp_copy_plan(const struct sp_copy_question *question, const struct sp_cluster *cluster,
                            const struct sp_cut_sizes *at, struct sp_copy **ret_copy, struct sp_error *err);

/* A phase of several that one copy is planned for. */
struct sp_copy_phase {
    const char *name;
    struct sp_sizes sizes;
    double runs; /* of it that a request needs */
};

/* Plans one placement for all of these phases (search/phases.h), as a copy that is planned at the sizes of phase `planned`.
   SP_ERR_REQUEST "PHASES_DIFFER" where the model has other nodes in one of them. */
enum sp_status sp_copy_plan_phases(const struct sp_copy_question *question, const struct sp_cluster *cluster,
                                   uint32_t count, const struct sp_copy_phase *phases, uint32_t planned,
                                   struct sp_copy **ret_copy, struct sp_error *err);
void sp_copy_destroy(struct sp_copy *copy); /* NULL is allowed */

/* At these sizes, which may be those that were planned; figures are of whole runs. *ret_figures lives as long as the
   question's arena. Errors "MICRO_BATCHES_.." of micro.h where a run cannot be cut like that. */
enum sp_status sp_copy_evaluate(struct sp_copy *copy, const struct sp_cut_sizes *at,
                                const struct sp_phase_figures **ret_figures, struct sp_error *err);

/* The plan of a phase at these sizes, in a job of its own that goes with the copy's: the model's tensors where the phase has
   them, on the copy's weights. *ret_plan NULL: the sizes are those that were planned. */
enum sp_status sp_copy_add_phase(struct sp_copy *copy, const struct sp_cut_sizes *at, struct sp_job **ret_job,
                                 struct sp_plan **ret_plan, struct sp_error *err);

const struct sp_plan *sp_copy_plan_of(const struct sp_copy *copy);

/* Takes over the job and the plan of another copy, which has no more use than to be destroyed: they go with this copy's. */
void sp_copy_join(struct sp_copy *copy, struct sp_copy *other, struct sp_job **ret_job,
                  const struct sp_plan **ret_plan);

/* The copy's job, with those of its phases, and its plan become the caller's; the copy has no more use than to be destroyed. */
void sp_copy_take(struct sp_copy *copy, struct sp_job **ret_job, struct sp_plan **ret_plan);

/* The sizes of the options with `count` dims more; a dim that both have is the phase's. `values` of the phase, where it
   has any, are in the place of those of the options. In the question's arena. */
enum sp_status sp_copy_sizes(const struct sp_copy_question *question, const struct sp_sizes *of_phase,
                             struct sp_sizes *ret_sizes, struct sp_error *err);
