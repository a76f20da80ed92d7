#pragma once
/*
 * retry - which answers are asked for again, when, and how often.
 *
 * Again: a connection that failed or fell silent, 408, 409 ConditionalRequestConflict, 429, 500, 502, 503, 504, and an
 * answer 200 whose body is an <Error>. Before the nth try a random time between 0 and min(SPD_S3_MAX_PAUSE_MS,
 * SPD_S3_PAUSE_MS * 2^n) passes ("full jitter"), so that daemons do not come back all at once.
 *
 * All requests of a daemon share a budget: a retry costs SPD_S3_RETRY_COST, a request that succeeds gives back one, and
 * with less than that left a request fails at its first error. A store that is down is not asked by many at once.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "store/s3/request.h"

enum s3_class {
    S3_ANSWERED, /* 2xx, 404, 412 or 416: it is the caller's to read */
    S3_AGAIN,
    S3_REFUSED,  /* the same request will be refused again */
    S3_NEW_KEYS, /* the session has ended: once more with new keys */
};

/* What the answer means; `ret_code` gets the <Code> of its body, "" without one. */
enum s3_class s3_classify(const struct s3_answer *answer, char ret_code[64]);

struct s3_budget {
    pthread_mutex_t mutex;
    unsigned left;
};

void s3_budget_init(struct s3_budget *budget);
void s3_budget_release(struct s3_budget *budget);
void s3_budget_give(struct s3_budget *budget);
bool s3_budget_take(struct s3_budget *budget); /* false: no retry */

/* Waits before the nth retry, n from 0; false when it was stopped. */
bool s3_pause(unsigned n, const atomic_bool *stop);
