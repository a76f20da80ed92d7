#pragma once
/*
 * ingest - from the headers of an upload to a stored model: what POST /v1/models and POST /v1/plans share.
 *
 *   ingest_begin()   the headers: type, coding, length; creates the upload
 *   ingest_finish()  the body is there: a known model ends at once, a new one is inspected while the request sleeps
 *   ingest_publish()  called from the step after either: publishes the model, or says what is wrong with it
 */
#include "http/request.h"

struct ingest; /* lives in request->ingest */

/* True when this Content-Type (NULL: none given) is a model's. */
bool ingest_is_model_type(const char *type);

/* VERDICT_GO_ON, or an early refusal. `publishes` as below. */
enum verdict ingest_begin(struct request *request, bool publishes);

/* Suspends, or calls `step` itself; the step must begin with ingest_publish() when the model `publishes`, else with
   ingest_inspected(). */
enum verdict ingest_finish(struct request *request, enum verdict (*step)(struct request *request), bool publishes);

/* Instead of ingest_publish(), where the model is only to be looked at: false with a problem when it is refused,
   otherwise its id. Nothing is stored. */
bool ingest_inspected(const struct request *request, const char **ret_id, struct problem *problem);

/* False with a problem when the model was refused; otherwise its id, and whether it is new. */
bool ingest_publish(struct request *request, const char **ret_id, bool *ret_new, struct problem *problem);

void ingest_destroy(struct ingest *ingest); /* NULL is allowed */
