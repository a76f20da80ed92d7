#pragma once
/*
 * proof - that the devices of a plan, or of an annotated model, compute what the model computes.
 *
 * The simulation is made in memory, without weights, and verified against the model (verify/verify.h). So what is proved
 * is the partition, its reshards and what is written of them, by a part that uses none of these.
 */
#include "plan/subject.h"
#include "verify/verify.h"

struct sp_proof;

#define SP_MAX_PROOF_NODES 65536 /* of all devices together: with more a plan is for `verify` to look at */

/* Errors: those of sp_realize_simulation() and sp_verify(); SP_ERR_REQUEST for a graph of costs, which has no operators. The
   caller destroys the proof before the subject. */
struct sp_proof_options {
    const struct sp_watch *watch;
    size_t number_bytes; /* that the verification may take beside what the nodes do; 0: SP_DEFAULT_JOB_BYTES in all */
    bool is_brief;       /* sp_verify_request.is_brief */
};
enum sp_status sp_proof_create(const struct sp_subject *subject, const struct sp_proof_options *options,
                               struct sp_proof **ret_proof, struct sp_error *err);
void sp_proof_destroy(struct sp_proof *proof); /* NULL is allowed */

/*
 * Verifies a plan that was made, and keeps what came of it as plan->proof, whose seconds the caller sets. The look is a brief
 * one: its memory is bounded, and so are the nodes of all devices together; what it refutes is looked at again at length.
 * SP_ERR_INTERNAL "PLAN_REFUTED", with the report: the plan must not be used. Whatever else prevents a proof (the watch,
 * too) is a reason of an undecided one. Of a graph of costs there is none.
 */
enum sp_status sp_plan_prove(struct sp_job *job, struct sp_plan *plan, uint64_t most_nodes,
                             const struct sp_watch *watch, struct sp_error *err);

/* What was found; lives as long as the proof. */
const struct sp_verification *sp_proof_verification(const struct sp_proof *proof);
