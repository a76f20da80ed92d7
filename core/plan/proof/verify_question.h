#pragma once
/*
 * verify_question - which models `verify` looks at, as a request of the daemon states it.
 *
 *     {"original": MODEL, "ranks": [MODEL, ..]}                             the ranks in their order
 *     {"original": MODEL, "simulation": MODEL}                              one model that does what all ranks do
 *     {"original": MODEL, "manifest": {..}, "ranks": {NAME: MODEL, ..}}     NAME: what the manifest calls it
 *     {"annotated": MODEL}                                                  what the annotations say, against the model
 *
 * each with "dims", "values", "shapes" and "operators" of plan/sizes/sizes.h, and all but the last with "weights": true, to
 * have all bytes of weights compared. A manifest is one of devices' models (realize/realize.h), or a genai_config.json that
 * lists a pipeline (import/import.h), of which "phase": "prompt" or "token" chooses the stages that run then. MODEL is what
 * the caller calls a model: the
 * id of a stored one in the daemon, a path on the command line, which fills the structure by itself.
 */
#include <jansson.h>

#include "plan/sizes/sizes.h"

#define SP_MAX_VERIFY_MODELS 512 /* beside the original, of one request in JSON */

struct sp_verify_question {
    const char *original;   /* or the annotated model */
    bool is_annotated;      /* there are no ranks then */
    const json_t *manifest; /* or NULL; of the caller */
    const char *phase;      /* "prompt", "token", or NULL */
    uint32_t rank_count;
    const char *const *ranks; /* MODEL of each */
    const char *const *names; /* of each in the manifest; NULL: the manifest's names are MODELs */
    bool weights;             /* struct sp_verify_request.weights */
    struct sp_sizes sizes;
};

/* Reads a request into `arena`; `json` must stay as long as the question, which has its manifest. SP_ERR_REQUEST with a
   JSON pointer. */
enum sp_status sp_verify_question_parse(struct sp_arena *arena, const json_t *json,
                                        struct sp_verify_question *ret_question, struct sp_error *err);
