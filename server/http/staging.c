#include "http/staging.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "auth/principal.h"

struct staging {
    struct staging *next;
    char tenant[SPD_MAX_PRINCIPAL + 1];
    uint64_t bytes, uploads;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct staging *tenants;

static bool too_many(const struct staging *staging, const struct staging_limits *limits, struct problem *problem)
{
    return problem_set_limit(
        problem, 429, "QUOTA_MODELS", "--tenant-models", (int64_t)limits->uploads, (int64_t)staging->uploads + 1,
        "This tenant may store %" PRIu64 " models and has %" PRIu64 " uploads under way; wait for some to finish.",
        limits->uploads, staging->uploads);
}

static bool too_large(uint64_t would_be, const struct staging_limits *limits, struct problem *problem)
{
    return problem_set_limit(problem, 429, "QUOTA_BYTES", "--tenant-bytes", (int64_t)limits->bytes, (int64_t)would_be,
                             "This tenant may have %" PRIu64 " bytes of models, and its uploads under way alone would "
                             "have %" PRIu64 "; send them one after another, or smaller ones.",
                             limits->bytes, would_be);
}

/* The mutex is held. */
static struct staging *find(const char *tenant)
{
    struct staging *at = tenants;
    while (at != NULL && strcmp(at->tenant, tenant) != 0)
        at = at->next;
    if (at != NULL)
        return at;
    at = calloc(1, sizeof *at);
    if (at == NULL)
        return NULL;
    (void)snprintf(at->tenant, sizeof at->tenant, "%s", tenant);
    at->next = tenants;
    tenants = at;
    return at;
}

/* The mutex is held. */
static void forget_idle(struct staging *staging)
{
    struct staging **link = &tenants;
    while (*link != NULL && *link != staging)
        link = &(*link)->next;
    if (*link == NULL || staging->uploads > 0)
        return;
    *link = staging->next;
    free(staging);
}

struct staging *staging_begin(const char *tenant, const struct staging_limits *limits, struct problem *problem)
{
    (void)pthread_mutex_lock(&lock);
    struct staging *staging = find(tenant);
    if (staging == NULL) {
        (void)problem_no_memory(problem);
    } else if (limits->uploads > 0 && staging->uploads >= limits->uploads) {
        (void)too_many(staging, limits, problem);
        staging = NULL;
    } else {
        staging->uploads++;
    }
    (void)pthread_mutex_unlock(&lock);
    return staging;
}

bool staging_add(struct staging *staging, uint64_t bytes, const struct staging_limits *limits, struct problem *problem)
{
    (void)pthread_mutex_lock(&lock);
    const bool fits =
        limits->bytes == 0 || (staging->bytes <= limits->bytes && bytes <= limits->bytes - staging->bytes);
    if (fits)
        staging->bytes += bytes;
    else
        (void)too_large(staging->bytes + bytes, limits, problem);
    (void)pthread_mutex_unlock(&lock);
    return fits;
}

void staging_end(struct staging *staging, uint64_t bytes)
{
    if (staging == NULL)
        return;
    (void)pthread_mutex_lock(&lock);
    staging->bytes -= bytes;
    staging->uploads--;
    forget_idle(staging);
    (void)pthread_mutex_unlock(&lock);
}
