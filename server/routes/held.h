#pragma once
/*
 * held - the files of stored models that a request needs, held until it is answered (store/blobs.h).
 *
 * Where models are in an object store, a file may have to be fetched first; the request sleeps meanwhile. In a folder
 * nothing happens here.
 */
#include "http/request.h"
#include "jobs/jobs.h"

struct held; /* lives in request->held */

/* Sends the errand to a worker, when the file of its model (errand->id, unless errand->is_upload) and those of `count`
   other models are there. The request is suspended already; what goes wrong becomes the errand's problem, and the request
   goes on. `others` must live as long as the errand. */
void held_send(struct request *request, struct errand *errand, const char (*others)[65], size_t count);

/* VERDICT_GO_ON when the model's file is there, or the request may not see the model; else the request is answered, or
   suspended, and the route's `finish` is called once more. So this comes before anything that must not be done twice. */
enum verdict held_bring(struct request *request, const char *id);

void held_destroy(struct held *held); /* NULL is allowed */
