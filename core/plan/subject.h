#pragma once
/*
 * subject - a model together with the complete assignment of its shardings: what exports and realisations read.
 *
 * There are three ways to one:
 *
 *   a model    its annotations for one configuration, completed by propagation (infer/propagate/propagate.h), or
 *              forward only (infer/forward.h) where no mesh explains all of them
 *   a plan     of a job: what sp_plan_annotate() would write into the model, completed in the same way. So the plan and
 *              the model that is annotated with it make the same subject
 *   plan.json  what sp_plan_write_json() wrote, and the model: the plan is made again from the placement record in
 *              the file (plan/answer/placement_record.h), without a search; it must come out with the same id, stages
 *              and estimate. Of a plan without a placement record, which an older version made, the search is repeated:
 *              it is deterministic
 *
 * Devices are numbered as in the annotated model: those that are used, from 0, in the cluster's order.
 */
#include <jansson.h>

#include "infer/assignment.h"
#include "plan/job.h"

/* Where a node of the main graph runs. */
struct sp_subject_node {
    bool has_stage;
    int32_t stage;
    int64_t device_count;   /* 0: nothing says where */
    const int64_t *devices; /* ascending; equal lists are one pointer */
};

/* What steps of a language model's service have: on one copy, where prompts and steps share its devices. */
struct sp_subject_steps {
    bool are_known;    /* the plan is of such a service */
    int64_t chunk;     /* positions of prompts at most; 0: prompts run whole */
    int64_t sequences; /* in flight */
};

struct sp_subject {
    struct sp_arena *arena; /* of the job */
    const char *name;       /* of the model, as the caller calls it */
    struct sp_model *model; /* bound and with shapes; NULL: the plan is one of a graph of costs, and so are dataflow and
                               assignment */
    const struct sp_model_file *file;
    struct sp_dataflow *dataflow;
    struct sp_assignment *assignment;
    int64_t device_count;
    const char *const *device_names;     /* device_count of them, or NULL */
    const struct sp_subject_node *nodes; /* by index in the main graph, or of the plan's workload */
    int32_t stage_count;                 /* 1 + the largest stage, 0 without stages */
    struct sp_subject_steps steps;
    const struct sp_plan *plan;      /* with figures; NULL for a model that only has annotations */
    const uint32_t *cluster_devices; /* with a plan: which device of its cluster each device is */

    struct sp_job *job; /* that the model, or the plan, is of */

    struct sp_job *owned_job; /* the rest is the subject's own affair */
    struct sp_arena *owned_arena;
};

/*
 * An annotated model. `configuration` names one, or is NULL where the model has one only: SP_ERR_REQUEST
 * "WHICH_CONFIGURATION", "NO_CONFIGURATION". Annotations that are not sound are SP_ERR_MODEL with the first finding.
 * The bytes must stay as long as the subject.
 */
enum sp_status sp_subject_from_model(const struct sp_job_options *options, const char *configuration,
                                     struct sp_subject **ret_subject, struct sp_error *err);

/* A job's plan; both must stay as long as the subject. The configurations that the model in memory has are replaced by
   the plan's. */
enum sp_status sp_subject_from_plan(struct sp_job *job, const struct sp_plan *plan, struct sp_subject **ret_subject,
                                    struct sp_error *err);

/* The same for another route of a plan that has several (search/routes/routed.h), whose devices have the same numbers on all
   of them. Other subjects of the plan stay. */
enum sp_status sp_subject_on_route(const struct sp_subject *subject, uint32_t route, struct sp_subject **ret_subject,
                                   struct sp_error *err);

/*
 * A plan's JSON and the model it was made for; options->sha256 must be set, since it tells one model from another.
 * SP_ERR_REQUEST: "NO_PLAN" (not a plan, or a member is missing), "OTHER_MODEL", "PLAN_STOPPED" (it has no
 * record and its search was ended early, so it cannot be made again), "OTHER_PLAN" (another version made it, or it was
 * edited).
 */
enum sp_status sp_subject_from_json(const struct sp_job_options *options, const json_t *plan,
                                    struct sp_subject **ret_subject, struct sp_error *err);

/* The plan alone, as sp_subject_from_json() makes it again. `within` gets the cluster, and must stay as long as the
   job; the sweep, what if and notes of the plan are those of the job, which need not be all that the file has. */
enum sp_status sp_plan_from_json(const struct sp_job_options *options, const json_t *plan, struct sp_arena *within,
                                 struct sp_job **ret_job, struct sp_plan **ret_plan, struct sp_error *err);

void sp_subject_destroy(struct sp_subject *subject); /* NULL is allowed */
