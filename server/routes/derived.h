#pragma once
/*
 * derived - a file that is made of a stored model, as the body of an answer: the model's file and a splice
 * (onnx/splice.h) or a recipe (realize/recipe.h) over it, whichever a worker saved.
 *
 * What says how is in memory while it is sent (and charged to the request, net/accounts.h), the model never is.
 */
#include "http/respond.h"

#define DERIVED_DIGEST_SIZE 65

/* `path` is what a worker saved for the stored model `model`. On success the stream is the caller's to send;
   `ret_digest`, unless NULL, identifies its bytes. `damaged` is the code of the problem when the two cannot be read or
   do not belong together; over the tenant's share it is 429. */
bool derived_open(struct request *request, const char *model, const char *path, const char *damaged,
                  struct stream *ret_stream, char *ret_digest, struct problem *problem);
