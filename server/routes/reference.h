#pragma once
/*
 * reference - a body that says where a model is, instead of being it: {"upload": ID}, an upload by parts that is
 * complete.
 */
#include "http/request.h"

struct upload_row;

/* For a route that takes models, when the body is there: what it refers to becomes the request's upload, and a body that
   is a model itself stays that. VERDICT_GO_ON, or a refusal. */
enum verdict reference_take(struct request *request);

/* The complete upload of this id becomes the request's, and its row is copied. VERDICT_GO_ON, or a refusal. */
enum verdict reference_take_upload(struct request *request, const char *id, struct upload_row *ret_row);
