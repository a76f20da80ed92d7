#pragma once
/*
 * held - the files of stored models and plans that a request needs, held until it is answered (store/blobs.h).
 *
 * Where they are in an object store, a file may have to be fetched first; and it is looked whether it is right
 * (integrity/stored.h). The request sleeps meanwhile.
 */
#include "http/request.h"
#include "jobs/jobs.h"
#include "store/blobs.h"
#include "store/store.h"

struct held; /* lives in request->held */

/* Sends the errand to a worker, when the file of its model (errand->id, unless errand->is_upload), those of the models
   beside it and what lies beside them are there. The request is suspended already; what goes wrong becomes the errand's problem, and the request
   goes on. */
void held_send(struct request *request, struct errand *errand);

/* The functions below give VERDICT_GO_ON when the file is there; else the request is answered, or suspended and `step` is
   called later, which comes here again. So this is done before anything that must not be done twice. */

/* The file of a model. Also VERDICT_GO_ON when the request may not see it. */
enum verdict held_model(struct request *request, const char *id, enum verdict (*step)(struct request *request));

/* What is said of a model when it is stored. */
enum verdict held_inspection(struct request *request, const struct model_row *row,
                             enum verdict (*step)(struct request *request));

/* A file of a plan that has a result. Also VERDICT_GO_ON when the row names none, and when the plan is gone: then the
   file in the data folder tells. */
enum verdict held_result(struct request *request, const struct plan_row *row, const char *name,
                         enum verdict (*step)(struct request *request));

/* All of these files. */
enum verdict held_files(struct request *request, const struct blob_file *files, size_t count,
                        enum verdict (*step)(struct request *request));

/* All of these files as far as the object store has them; none is held, so that many do not take many descriptors. */
enum verdict held_try(struct request *request, const struct blob_file *files, size_t count,
                      enum verdict (*step)(struct request *request));

void held_destroy(struct held *held); /* NULL is allowed */
