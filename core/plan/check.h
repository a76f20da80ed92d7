#pragma once
/*
 * check - the answer to "is this model sound?", as the command line and the daemon give it.
 *
 *   asks     {"configuration": NAME, "device": TYPE or "memory_bytes": N, "dims", "values", "shapes", "operators",
 *             "placement": TEXT}, all optional; "dims" to "operators" are those of plan/sizes/sizes.h, and "placement" is
 *            the text of a file of another tool that says where nodes run (import/import.h)
 *   answers  {"valid": bool, "errors", "warnings", "notes",
 *             "diagnostics": [{"code", "severity", "message", "node", "tensor", "configuration", "hint", "bytes"}]}
 *
 * `valid` says that there is no error. `node` is the node's path over graphs, `bytes` what an implied communication
 * sends; members that do not apply are null. The codes are explained in api/diagnostics.md.
 */
#include <jansson.h>

#include "check/check.h"
#include "plan/job.h"

struct sp_check_answer;

/* Whether the request makes sense, before there is a model: the errors of sp_check_answer_create() about it. */
enum sp_status sp_check_request_verify(const json_t *request, struct sp_error *err);

/* Unknown members and devices are SP_ERR_REQUEST with a JSON pointer. The caller destroys the answer before the bytes
   are unmapped. `request` may be NULL: nothing asked in particular. */
enum sp_status sp_check_answer_create(const struct sp_job_options *options, const json_t *request,
                                      struct sp_check_answer **ret_answer, struct sp_error *err);
void sp_check_answer_destroy(struct sp_check_answer *answer); /* NULL is allowed */

bool sp_check_answer_is_valid(const struct sp_check_answer *answer);
/* The model of an ONNX file, for as long as the answer is there; NULL where it cannot be read. */
const struct sp_model *sp_check_answer_model(const struct sp_check_answer *answer);
void sp_check_answer_json(const struct sp_check_answer *answer, struct sp_json *json);
/* For people: a line per finding with what to do below it, and the count at the end. */
void sp_check_answer_text(const struct sp_check_answer *answer, struct sp_buf *buf);

/* An array of findings alone, for documents that have them as a member. */
void sp_diagnostics_write_json(const struct sp_diagnostics *list, struct sp_json *json);
