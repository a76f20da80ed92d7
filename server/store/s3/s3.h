#pragma once
/*
 * s3 - objects in a bucket of S3, or of a store that speaks its protocol.
 *
 * An object is named by a key below the prefix of the bucket, has its SHA-256 told, and never changes: it is written
 * only when it is not there. Keys consist of letters, digits and "-./_".
 *
 *   address        without an endpoint AWS's: https://BUCKET.s3.REGION.amazonaws.com/KEY. With one ENDPOINT/BUCKET/KEY,
 *                  or, where {bucket} stands in the endpoint, the address that this makes, and /KEY
 *   integrity      the server checks what it gets against the hash that is signed; for objects in parts see parts.h. What
 *                  is read is checked against the hash of the whole
 *   failures       retry.h. What still fails is a problem of 503, BLOBS_UNAVAILABLE where the store did not answer or
 *                  asked to wait, BLOBS_REFUSED with the store's code where it refused
 *
 * Any thread may call; calls wait for the network. They end early with 503 STOPPING once *stop is true.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/problem.h"

struct s3;

struct s3_options {
    const char *url;              /* s3://BUCKET or s3://BUCKET/PREFIX */
    const char *endpoint;         /* "" or a URL without a path */
    const char *region;           /* "": AWS_REGION, else us-east-1 */
    const char *credentials_file; /* "" or see credentials.h */
    const atomic_bool *stop;
};

/* False with a problem when the options make no sense or there are no credentials. The bucket is not asked yet. */
bool s3_open(const struct s3_options *options, struct s3 **ret_s3, struct problem *problem);
void s3_close(struct s3 *s3); /* no call may run; NULL is allowed */

enum s3_found {
    S3_FOUND,
    S3_MISSING,
    S3_CHANGED, /* it is there with other bytes: of s3_get() alone */
    S3_FAILED,  /* with a problem */
};

/* Stores `size` bytes of the file in one request; what is there already stays. `sha256` is that of all of it. */
bool s3_put(struct s3 *s3, const char *key, int file, uint64_t size, const char *sha256, struct problem *problem);

/* Writes the object to the file from its start. A broken transfer is taken up where it ended. Bytes of another hash are
   S3_CHANGED, and so is an object of more than `most` bytes, of which no more is written. */
enum s3_found s3_get(struct s3 *s3, const char *key, int file, const char *sha256, uint64_t most, uint64_t *ret_size,
                     struct problem *problem);

/* Reads an object that others wrote, whose hash nobody knows: `begin` is told its size, then `take` gets its bytes in
   order; false of either (which then knows why) ends it as S3_FAILED. One that changes meanwhile is S3_FAILED with
   SOURCE_CHANGED. */
struct s3_sink {
    bool (*begin)(void *context, uint64_t size);
    bool (*take)(void *context, const void *bytes, size_t size);
    void *context;
};
enum s3_found s3_read(struct s3 *s3, const char *key, const struct s3_sink *sink, struct problem *problem);

enum s3_found s3_head(struct s3 *s3, const char *key, struct problem *problem);

/* The server copies an object of at most SPD_S3_MAX_COPY bytes; what is there already is replaced. */
bool s3_copy(struct s3 *s3, const char *from, const char *to, struct problem *problem);

/* What is not there is fine. */
bool s3_delete(struct s3 *s3, const char *key, struct problem *problem);

/* Calls `each` with every key below `folder`, in order; ends early when that returns false. */
bool s3_list(struct s3 *s3, const char *folder, bool (*each)(void *context, const char *key), void *context,
             struct problem *problem);

/* An upload in parts that was neither completed nor aborted. */
struct s3_unfinished {
    const char *key, *upload;
    int64_t begun_ms; /* since 1970; INT64_MAX when it is not told */
};

/* Calls `each` for those below `folder`; ends early when that returns false. */
bool s3_list_unfinished(struct s3 *s3, const char *folder,
                        bool (*each)(void *context, const struct s3_unfinished *unfinished), void *context,
                        struct problem *problem);

/* `upload` as it is told of; what is not there is fine. */
bool s3_abort_upload(struct s3 *s3, const char *key, const char *upload, struct problem *problem);

/* Whether the bucket answers, without a retry. */
bool s3_ready(struct s3 *s3, struct problem *problem);

/* Requests that were sent, those of them that were sent again, and those that failed at last. */
struct s3_counts {
    uint64_t requests, retries, failures;
};
void s3_count(const struct s3 *s3, struct s3_counts *ret_counts);
