#pragma once
/*
 * reference - a body that says where a model is, instead of being it: {"upload": ID}, an upload by parts that is
 * complete, or {"model": {"url": ".."}}, an address from which the daemon fetches it (references/references.h).
 */
#include <jansson.h>

#include "http/request.h"

struct upload_row;

/* For a route that takes models, when the body is there: what it refers to becomes the request's upload, and a body that
   is a model itself stays that. Then `step` is called, now or when the model has been fetched. */
enum verdict reference_take(struct request *request, enum verdict (*step)(struct request *request));

/* Fetches what {"url": ".."} says; it becomes the request's upload, and `step` is called. Suspends, or a refusal. */
enum verdict reference_fetch(struct request *request, const char *url, enum verdict (*step)(struct request *request));

/* The URL of such an object, or NULL with a problem. */
const char *reference_url(const json_t *model, struct problem *problem);

/* The complete upload of this id becomes the request's, and its row is copied. VERDICT_GO_ON, or a refusal. */
enum verdict reference_take_upload(struct request *request, const char *id, struct upload_row *ret_row);
