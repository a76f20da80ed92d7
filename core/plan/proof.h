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

/* Errors: those of sp_realize_simulation() and sp_verify(); SP_ERR_REQUEST for a graph of costs, which has no operators. The
   caller destroys the proof before the subject. */
enum sp_status sp_proof_create(const struct sp_subject *subject, const struct sp_watch *watch,
                               struct sp_proof **ret_proof, struct sp_error *err);
void sp_proof_destroy(struct sp_proof *proof); /* NULL is allowed */

/* What was found; lives as long as the proof. */
const struct sp_verification *sp_proof_verification(const struct sp_proof *proof);
