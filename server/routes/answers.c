#include "routes/answers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "server_limits.h"

#define BUCKETS 1024 /* a power of two */

struct kept {
    struct kept_answer answer; /* first: what callers have is this */
    struct sp_buf body;
    char tenant[SPD_MAX_PRINCIPAL + 1], plan[STORE_ID_SIZE];
    unsigned users;    /* callers that have it, and the table */
    struct kept *next; /* in its bucket */
    struct kept *newer, *older;
};

struct answers {
    pthread_mutex_t mutex;
    struct kept *buckets[BUCKETS];
    struct kept *newest, *oldest;
    size_t bytes;
    uint64_t generation;
};

/* Ids are random digits: any of them tell as much as a hash would. */
static struct kept **bucket_of(struct answers *answers, const char *plan)
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

static void give_up(struct kept *kept)
{
    if (--kept->users > 0)
        return;
    sp_buf_release(&kept->body);
    free(kept);
}

static void unlink_age(struct answers *answers, struct kept *kept)
{
    *(kept->newer != NULL ? &kept->newer->older : &answers->newest) = kept->older;
    *(kept->older != NULL ? &kept->older->newer : &answers->oldest) = kept->newer;
}

static void link_newest(struct answers *answers, struct kept *kept)
{
    kept->newer = NULL;
    kept->older = answers->newest;
    *(answers->newest != NULL ? &answers->newest->newer : &answers->oldest) = kept;
    answers->newest = kept;
}

/* Takes it out of the table. */
static void drop(struct answers *answers, struct kept *kept)
{
    struct kept **at = bucket_of(answers, kept->plan);
    while (*at != kept)
        at = &(*at)->next;
    *at = kept->next;
    unlink_age(answers, kept);
    answers->bytes -= kept->answer.size;
    give_up(kept);
}

static void drop_all(struct answers *answers)
{
    for (struct kept *kept = answers->newest, *older; kept != NULL; kept = older) {
        older = kept->older;
        give_up(kept);
    }
    memset(answers->buckets, 0, sizeof answers->buckets);
    answers->newest = answers->oldest = NULL;
    answers->bytes = 0;
}

static struct kept *find(struct answers *answers, const char *plan)
{
    struct kept *kept = *bucket_of(answers, plan);
    while (kept != NULL && strcmp(kept->plan, plan) != 0)
        kept = kept->next;
    return kept;
}

void answers_destroy(struct answers *answers)
{
    if (answers == NULL)
        return;
    drop_all(answers);
    (void)pthread_mutex_destroy(&answers->mutex);
    free(answers);
}

const struct kept_answer *answers_get(struct answers *answers, const char *tenant, const char *plan)
{
    (void)pthread_mutex_lock(&answers->mutex);
    struct kept *kept = find(answers, plan);
    if (kept != NULL && tenant != NULL && strcmp(kept->tenant, tenant) != 0)
        kept = NULL;
    if (kept != NULL) {
        kept->users++;
        unlink_age(answers, kept);
        link_newest(answers, kept);
    }
    (void)pthread_mutex_unlock(&answers->mutex);
    return kept != NULL ? &kept->answer : NULL;
}

void answers_release(struct answers *answers, const struct kept_answer *answer)
{
    (void)pthread_mutex_lock(&answers->mutex);
    give_up((struct kept *)(uintptr_t)answer);
    (void)pthread_mutex_unlock(&answers->mutex);
}

uint64_t answers_generation(struct answers *answers)
{
    (void)pthread_mutex_lock(&answers->mutex);
    uint64_t generation = answers->generation;
    (void)pthread_mutex_unlock(&answers->mutex);
    return generation;
}

const struct kept_answer *answers_keep(struct answers *answers, const struct plan_row *row, const char *etag,
                                       struct sp_buf *body, uint64_t generation)
{
    if (sp_buf_failed(body) || body->size > SPD_MAX_ANSWER_BYTES)
        return NULL;
    struct kept *kept = calloc(1, sizeof *kept);
    if (kept == NULL)
        return NULL;
    memcpy(kept->tenant, row->tenant, sizeof kept->tenant);
    memcpy(kept->plan, row->id, sizeof kept->plan);
    (void)pthread_mutex_lock(&answers->mutex);
    bool keep = answers->generation == generation && find(answers, row->id) == NULL;
    if (keep) {
        kept->body = *body;
        *body = (struct sp_buf){0};
        kept->answer =
            (struct kept_answer){.bytes = kept->body.data, .size = kept->body.size, .modified = row->finished_at};
        (void)snprintf(kept->answer.etag, sizeof kept->answer.etag, "%s", etag);
        kept->users = 2;
        struct kept **bucket = bucket_of(answers, kept->plan);
        kept->next = *bucket;
        *bucket = kept;
        link_newest(answers, kept);
        answers->bytes += kept->answer.size;
        while (answers->bytes > SPD_ANSWERS_BYTES && answers->oldest != kept)
            drop(answers, answers->oldest);
    }
    (void)pthread_mutex_unlock(&answers->mutex);
    if (!keep)
        free(kept);
    return keep ? &kept->answer : NULL;
}

void answers_forget(struct answers *answers, const char *plan)
{
    (void)pthread_mutex_lock(&answers->mutex);
    answers->generation++;
    struct kept *kept = plan != NULL ? find(answers, plan) : NULL;
    if (kept != NULL)
        drop(answers, kept);
    if (plan == NULL)
        drop_all(answers);
    (void)pthread_mutex_unlock(&answers->mutex);
}
