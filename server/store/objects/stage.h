#pragma once
/*
 * stage - large models on their way to an object store.
 *
 * A model's key is the hash of all its bytes, which is known when the last one has come. So that the store has most of
 * them by then, they are sent in parts while they come, as the object staged/OWNER/NUMBER; then the store copies that to
 * its place, and the other one goes. Half of the threads that wait for the store send parts, of all uploads together.
 *
 * What this costs: a copy within the store, and parts for nothing when the model turns out to be wrong, or to be there
 * already. Beyond SPD_S3_MAX_COPY a model is sent to its place when it is complete. What a daemon leaves that is killed
 * is below its OWNER, and swept when that one lives no more.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/objects/blobs_owner.h"
#include "store/objects/transfers.h"
#include "store/s3/s3.h"
#include "util/problem.h"

struct store;

struct stages {
    struct s3 *s3;
    struct blobs_owner *prefix;
    struct transfers *transfers;
    const char *owner; /* this daemon */
    atomic_uint helpers;
    atomic_uint_fast64_t counter;
};

struct stage;

/* For a file that grows; a descriptor of it is kept. NULL without memory: then it is sent when it is complete. */
struct stage *stage_create(struct stages *stages, int file);

/* So many bytes of the file are there. Quick. */
void stage_grow(struct stage *stage, uint64_t size);

/* Network: the file is complete; makes the object `key` of what was sent and the rest, also when it is there already:
   whether it is does not show in the time. False with a problem. */
bool stage_store(struct stage *stage, uint64_t size, const char *key, struct problem *problem);

/* Whether stage_store() may succeed. */
bool stage_works(struct stage *stage);

/* Frees what the store has of it, when that is not in its place, and it. Quick; NULL is allowed. */
void stage_drop(struct stage *stage);

/* Network: a file of this size, which is larger than one part, from its start. */
bool stage_send(struct stages *stages, int file, uint64_t size, const char *key, struct problem *problem);

/* Network: frees what daemons left that live no more. */
bool stages_sweep(struct stages *stages, struct store *store, const atomic_bool *stop, struct problem *problem);
