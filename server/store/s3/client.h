#pragma once
/* client - what the files of s3 share: the bucket, and calls with retries. */
#include <pthread.h>

#include "store/s3/credentials.h"
#include "store/s3/request.h"
#include "store/s3/retry.h"
#include "store/s3/s3.h"

struct s3 {
    char base[SPD_MAX_S3_URL / 2]; /* URL of the bucket */
    char bucket[64];
    bool is_private;                 /* nobody is on the way who could change what is sent */
    char prefix[SPD_MAX_S3_URL / 4]; /* of keys, "" or ended by '/' */
    char region[64], signing[96];
    const atomic_bool *stop;
    struct credentials *credentials;
    struct s3_budget budget;
    atomic_uint_fast64_t requests, retries, failures;

    pthread_mutex_t mutex; /* guards the rest: handles that nobody uses, with their connections */
    CURL *idle[SPD_S3_HANDLES];
    unsigned idle_count;
};

/* A call: `request` without its URL, keys and signing. */
struct s3_call {
    struct s3_request request;
    const char *key;               /* below the prefix, or NULL for the bucket */
    const char *query;             /* as request.h says, or NULL */
    unsigned retries;              /* at most */
    bool (*rewind)(void *context); /* before each retry; false ends it. NULL: nothing to do */
};

/* Sends it until it is answered. False with a problem. The answer is to be released in any case. */
bool s3_do(struct s3 *s3, struct s3_call *call, struct s3_answer *ret_answer, struct problem *problem);

/* Records that the store said no, with the code of the answer. Returns false. */
bool s3_refused(struct problem *problem, const struct s3_answer *answer);
