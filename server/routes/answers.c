#include "routes/answers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "server_limits.h"

#define BUCKETS 1024 /* a power of two */

struct cached {
    struct cached_answer answer; /* first: what callers have is this */
    struct sp_buf body;
    char tenant[SPD_MAX_PRINCIPAL + 1], plan[STORE_ID_SIZE];
    unsigned users;      /* callers that have it, and the table */
    struct cached *next; /* in its bucket */
    struct cached *newer, *older;
};

struct answers {
    pthread_mutex_t mutex;
    struct cached *buckets[BUCKETS];
    struct cached *newest, *oldest;
    size_t bytes;
    uint64_t generation;
};

/* Ids are random digits: any of them tell as much as a hash would. */
static struct cached **bucket_of(struct answers *answers, const char *plan)
{
    unsigned hash = 0;
    for (const char *c = plan; *c != '\0'; c++)
        hash = hash * 31 + (unsigned char)*c;
    return &answers->buckets[hash % BUCKETS];
}

struct answers *answers_create(void)
{
    struct answers *answers = calloc(1, sizeof *answers);
    if (answers != NULL)
        (void)pthread_mutex_init(&answers->mutex, NULL);
    return answers;
}

static void give_up(struct cached *cached)
{
    if (--cached->users > 0)
        return;
    sp_buf_release(&cached->body);
    free(cached);
}

static void unlink_age(struct answers *answers, struct cached *cached)
{
    *(cached->newer != NULL ? &cached->newer->older : &answers->newest) = cached->older;
    *(cached->older != NULL ? &cached->older->newer : &answers->oldest) = cached->newer;
}

static void link_newest(struct answers *answers, struct cached *cached)
{
    cached->newer = NULL;
    cached->older = answers->newest;
    *(answers->newest != NULL ? &answers->newest->newer : &answers->oldest) = cached;
    answers->newest = cached;
}

/* Takes it out of the table. */
static void drop(struct answers *answers, struct cached *cached)
{
    struct cached **at = bucket_of(answers, cached->plan);
    while (*at != cached)
        at = &(*at)->next;
    *at = cached->next;
    unlink_age(answers, cached);
    answers->bytes -= cached->answer.size;
    give_up(cached);
}

static void drop_all(struct answers *answers)
{
    for (struct cached *cached = answers->newest, *older; cached != NULL; cached = older) {
        older = cached->older;
        give_up(cached);
    }
    memset(answers->buckets, 0, sizeof answers->buckets);
    answers->newest = answers->oldest = NULL;
    answers->bytes = 0;
}

static struct cached *find(struct answers *answers, const char *plan)
{
    struct cached *cached = *bucket_of(answers, plan);
    while (cached != NULL && strcmp(cached->plan, plan) != 0)
        cached = cached->next;
    return cached;
}

void answers_destroy(struct answers *answers)
{
    if (answers == NULL)
        return;
    drop_all(answers);
    (void)pthread_mutex_destroy(&answers->mutex);
    free(answers);
}

const struct cached_answer *answers_get(struct answers *answers, const char *tenant, const char *plan)
{
    (void)pthread_mutex_lock(&answers->mutex);
    struct cached *cached = find(answers, plan);
    if (cached != NULL && tenant != NULL && strcmp(cached->tenant, tenant) != 0)
        cached = NULL;
    if (cached != NULL) {
        cached->users++;
        unlink_age(answers, cached);
        link_newest(answers, cached);
    }
    (void)pthread_mutex_unlock(&answers->mutex);
    return cached != NULL ? &cached->answer : NULL;
}

void answers_release(struct answers *answers, const struct cached_answer *answer)
{
    (void)pthread_mutex_lock(&answers->mutex);
    give_up((struct cached *)(uintptr_t)answer);
    (void)pthread_mutex_unlock(&answers->mutex);
}

uint64_t answers_generation(struct answers *answers)
{
    (void)pthread_mutex_lock(&answers->mutex);
    uint64_t generation = answers->generation;
    (void)pthread_mutex_unlock(&answers->mutex);
    return generation;
}

const struct cached_answer *answers_keep(struct answers *answers, const struct plan_row *row, const char *etag,
                                         struct sp_buf *body, uint64_t generation)
{
    if (sp_buf_failed(body) || body->size > SPD_MAX_ANSWER_BYTES)
        return NULL;
    struct cached *cached = calloc(1, sizeof *cached);
    if (cached == NULL)
        return NULL;
    memcpy(cached->tenant, row->tenant, sizeof cached->tenant);
    memcpy(cached->plan, row->id, sizeof cached->plan);
    (void)pthread_mutex_lock(&answers->mutex);
    bool keep = answers->generation == generation && find(answers, row->id) == NULL;
    if (keep) {
        cached->body = *body;
        *body = (struct sp_buf){0};
        cached->answer =
            (struct cached_answer){.bytes = cached->body.data, .size = cached->body.size, .modified = row->finished_at};
        (void)snprintf(cached->answer.etag, sizeof cached->answer.etag, "%s", etag);
        cached->users = 2;
        struct cached **bucket = bucket_of(answers, cached->plan);
        cached->next = *bucket;
        *bucket = cached;
        link_newest(answers, cached);
        answers->bytes += cached->answer.size;
        while (answers->bytes > SPD_ANSWERS_BYTES && answers->oldest != cached)
            drop(answers, answers->oldest);
    }
    (void)pthread_mutex_unlock(&answers->mutex);
    if (!keep)
        free(cached);
    return keep ? &cached->answer : NULL;
}

void answers_forget(struct answers *answers, const char *plan)
{
    (void)pthread_mutex_lock(&answers->mutex);
    answers->generation++;
    struct cached *cached = plan != NULL ? find(answers, plan) : NULL;
    if (cached != NULL)
        drop(answers, cached);
    if (plan == NULL)
        drop_all(answers);
    (void)pthread_mutex_unlock(&answers->mutex);
}
