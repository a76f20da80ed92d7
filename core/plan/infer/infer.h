#pragma once
/*
 * infer - the answer to "complete these shardings", as the command line and the daemon give it.
 *
 *   asks     {"configuration": NAME, "mode": "forward" or "propagate", "devices": N, "mesh": TEXT or OBJECT,
 *             "set": {TENSOR: SPEC, ..}, "set_weights": {NODE: SPEC, ..}, "all": false,
 *             and "dims", "values", "shapes", "operators" of plan/sizes/sizes.h}, all optional
 *   answers  {"configuration", "mode", "devices", "added",
 *             "specs": [{"node", "tensor", "operand": "input 0", "origin", "spec": {"onnx", "text"}, "because"}],
 *             "communication": [{"kind", "node", "producer", "tensor", "steps", "group_size", "bytes", "total_bytes",
 *             "because"}],
 *             "stops": [{"code", "node", "tensor", "message"}],
 *             "notes": [{"code", "message"}]}, what the standard forbids and is taken all the same
 *
 * A SPEC is in any notation that `convert` reads. A TENSOR with '*' in it is a pattern, each '*' any text, unless a
 * tensor has that very name; a NODE likewise names the largest constant operand of each node that it matches. The text
 * lists what is split, with "all" also what is whole. The configuration is the model's only one, or a new one "shardplan".
 *
 * Operands that contradict each other are stated as their node needs them (infer/settle.h); what a check of the completed
 * model would still find wrong is SP_ERR_MODEL, and there is no completion. Communications are those of the models that
 * are exported of it, one for each collective.
 *
 * The completed model has every spec that was given, set or inferred, and is the file's bytes with these insertions;
 * sp_onnx_strip() gives the file back. What was assumed (unannotated weights and inputs are whole) is not written.
 */
#include <jansson.h>

#include "infer/view/view.h"
#include "plan/job.h"

struct sp_completion;

/* Annotations that are not sound are SP_ERR_MODEL with the first finding; the caller destroys the completion before the
   bytes are unmapped. `request` may be NULL. */
enum sp_status sp_completion_create(const struct sp_job_options *options, const json_t *request,
                                    struct sp_completion **ret_completion, struct sp_error *err);
void sp_completion_destroy(struct sp_completion *completion); /* NULL is allowed */

/* What the devices send each other in the models that are exported of the completed one. */
const struct sp_communications *sp_completion_communications(const struct sp_completion *completion);

/* The model that was given, while the completion is there. */
const struct sp_model *sp_completion_model(const struct sp_completion *completion);
enum sp_status sp_completion_json(const struct sp_completion *completion, struct sp_json *json, struct sp_error *err);
enum sp_status sp_completion_text(const struct sp_completion *completion, struct sp_buf *buf, struct sp_error *err);

/* The completed model; the caller destroys the splice. */
enum sp_status sp_completion_annotate(const struct sp_completion *completion, struct sp_splice **ret_splice,
                                      struct sp_error *err);
