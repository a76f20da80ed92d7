#pragma once
/*
 * derived - a file that is made of a stored model, as the body of an answer: the model's file and a splice
 * (onnx/splice.h) or a recipe (realize/recipe.h) over it, whichever a worker saved.
 *
 * What says how is in memory while it is sent (and charged to the request, net/accounts.h), the model never is.
 */
#include "http/respond.h"

struct beside;

#define DERIVED_DIGEST_SIZE 65

/* What it is made of. */
struct derived_of {
    const char *model;           /* a stored one */
    const struct beside *beside; /* the files beside the model that a recipe may read, or NULL */
    const char *damaged;         /* the code of the problem when these cannot be read, or do not belong together */
};

/* `saved` is what a worker saved for it; it is released in any case. On success the stream is the caller's to send;
   `ret_digest`, unless NULL, identifies its bytes. Over the tenant's share it is 429. */
bool derived_open(struct request *request, const struct derived_of *of, const struct stream *saved,
                  struct stream *ret_stream, char *ret_digest, struct problem *problem);

/* Of a file that was saved just now. */
bool derived_open_file(struct request *request, const struct derived_of *of, const char *path,
                       struct stream *ret_stream, char *ret_digest, struct problem *problem);
