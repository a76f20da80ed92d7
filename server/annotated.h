#pragma once
/*
 * annotated - a stored model with annotations as the body of an answer: its file and a splice over it.
 *
 * The splice is in memory while it is sent (SPD_MAX_LOADED_SPLICES bounds all of them together), the model never is.
 */
#include "respond.h"

#define ANNOTATED_DIGEST_SIZE 65

/* `splice` is the path of what a worker saved for the stored model `model`. On success the stream is the caller's to
   send; `ret_digest`, unless NULL, identifies its bytes. `damaged` is the code of the problem when the two cannot be
   read or do not belong together. */
bool annotated_open(struct server *server, const char *model, const char *splice, const char *damaged,
                    struct stream *ret_stream, char *ret_digest, struct problem *problem);
