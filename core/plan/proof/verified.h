#pragma once
/*
 * verified - the answer to "do these models together compute what the original computes?", as the command line and the
 * daemon give it: that of verify/verify.h, with sp_verification_json() and sp_verification_text() as its only writers.
 */
#include "plan/job.h"
#include "plan/proof/verify_question.h"
#include "verify/verify.h"

struct sp_verified;

/* Where the models of a question come from, and what lies in files beside them. */
struct sp_verify_access {
    sp_verify_find find; /* the bytes of any MODEL but the original; called once for each program, in their order */
    /* Of struct sp_verify_weights; NULL: nothing that lies in other files is there. */
    bool (*read)(void *context, uint32_t program, const char *location, uint64_t offset, void *bytes, size_t size);
    void *context;
};

/* `original` has the bytes of the question's original, or annotated, model, and how much memory there is; its sizes are
   the question's. What `access` gives, and the question, stay as long as the answer, which the caller destroys. Errors: those of sp_verify() and sp_verify_read_manifest(), of `find`; for an annotated
   model those of sp_subject_from_model() and sp_proof_create(); SP_ERR_REQUEST for a model of the manifest that the
   question does not have. */
enum sp_status sp_verified_create(const struct sp_job_options *original, const struct sp_verify_question *question,
                                  const struct sp_verify_access *access, bool explains,
                                  struct sp_verified **ret_verified, struct sp_error *err);
void sp_verified_destroy(struct sp_verified *verified); /* NULL is allowed */

/* What was found; lives as long as the answer. */
const struct sp_verification *sp_verified_verification(const struct sp_verified *verified);
