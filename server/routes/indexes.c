#include "routes/indexes.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "http/respond.h"
#include "observe/log.h"
#include "server_limits.h"
#include "store/store.h"

struct kept {
    struct sp_index index; /* first: what callers have is this */
    void *bytes;
    uint64_t size;
    char plan[STORE_ID_SIZE];
    int64_t attempt;
    unsigned users;             /* callers that have it, and the list */
    struct kept *newer, *older; /* in the list */
};

struct indexes {
    pthread_mutex_t mutex;
    struct kept *newest, *oldest;
    unsigned count; /* in the list */
    uint64_t bytes; /* of all that are in memory, those that are being read included */
};

struct indexes *indexes_create(void)
{
    struct indexes *indexes = calloc(1, sizeof *indexes);
    if (indexes != NULL)
        (void)pthread_mutex_init(&indexes->mutex, NULL);
    return indexes;
}

/* ---- the list; its mutex is held ---- */

static void give_up(struct indexes *indexes, struct kept *kept)
{
    if (--kept->users > 0)
        return;
    indexes->bytes -= kept->size;
    free(kept->bytes);
    free(kept);
}

static void unlink_age(struct indexes *indexes, struct kept *kept)
{
    *(kept->newer != NULL ? &kept->newer->older : &indexes->newest) = kept->older;
    *(kept->older != NULL ? &kept->older->newer : &indexes->oldest) = kept->newer;
}

static void link_newest(struct indexes *indexes, struct kept *kept)
{
    kept->newer = NULL;
    kept->older = indexes->newest;
    *(indexes->newest != NULL ? &indexes->newest->newer : &indexes->oldest) = kept;
    indexes->newest = kept;
}

static void drop(struct indexes *indexes, struct kept *kept)
{
    unlink_age(indexes, kept);
    indexes->count--;
    give_up(indexes, kept);
}

/* Drops the oldest that nobody uses until so many bytes and one more index have room, or there are no more. */
static void make_room(struct indexes *indexes, uint64_t size)
{
    for (struct kept *kept = indexes->oldest, *newer; kept != NULL; kept = newer) {
        newer = kept->newer;
        if (indexes->bytes + size <= SPD_SHEETS_BYTES && indexes->count < SPD_MAX_INDEXES)
            return;
        if (kept->users == 1)
            drop(indexes, kept);
    }
}

static struct kept *find(struct indexes *indexes, const struct index_of *of)
{
    struct kept *kept = indexes->newest;
    while (kept != NULL && (kept->attempt != of->attempt || kept->index.plan_size != of->plan_size ||
                            strcmp(kept->plan, of->plan) != 0))
        kept = kept->older;
    if (kept != NULL) {
        kept->users++;
        unlink_age(indexes, kept);
        link_newest(indexes, kept);
    }
    return kept;
}

/* ---- reading ---- */

/* Counts the bytes of an index that is to be read. */
static bool reserve(struct indexes *indexes, uint64_t size, struct problem *problem)
{
    (void)pthread_mutex_lock(&indexes->mutex);
    make_room(indexes, size);
    const uint64_t held = indexes->bytes + size;
    const bool fits = held <= SPD_SHEETS_BYTES;
    indexes->bytes += fits ? size : 0;
    (void)pthread_mutex_unlock(&indexes->mutex);
    return fits || problem_set_limit(problem, 503, "BUSY", "SPD_SHEETS_BYTES", SPD_SHEETS_BYTES, (int64_t)held,
                                     "Too many large plans are looked at in this moment; try again later.");
}

static void release(struct indexes *indexes, struct kept *kept)
{
    (void)pthread_mutex_lock(&indexes->mutex);
    give_up(indexes, kept);
    (void)pthread_mutex_unlock(&indexes->mutex);
}

/* Puts it into the list, unless another thread was faster; then that thread's. */
static struct kept *keep(struct indexes *indexes, struct kept *kept, const struct index_of *of)
{
    (void)pthread_mutex_lock(&indexes->mutex);
    struct kept *there = find(indexes, of);
    if (there != NULL) {
        give_up(indexes, kept);
        kept = there;
    } else {
        kept->users++;
        indexes->count++;
        link_newest(indexes, kept);
    }
    (void)pthread_mutex_unlock(&indexes->mutex);
    return kept;
}

/* Reads and checks the file; the index's size is counted already, and its only user is the caller. */
static enum index_found load(struct kept *kept, const struct stream *file, const struct index_of *of,
                             struct problem *problem)
{
    struct sp_error err = {0};
    kept->bytes = malloc(kept->size > 0 ? (size_t)kept->size : 1);
    if (kept->bytes == NULL) {
        (void)problem_no_memory(problem);
        return INDEX_REFUSED;
    }
    if (!file->read(file->context, 0, kept->bytes, (size_t)kept->size)) {
        if (errno == EBADMSG)
            return INDEX_MISSING;
        (void)problem_from_errno(problem, errno, "Reading the plan");
        return INDEX_REFUSED;
    }
    if (sp_index_open(kept->bytes, kept->size, &kept->index, &err) == SP_OK && kept->index.plan_size == of->plan_size)
        return INDEX_OPEN;
    LOG(LOG_WARNING, "stored sheet damaged or of another version", log_s("plan", of->plan),
        log_s("detail", err.message));
    return INDEX_MISSING;
}

/* A worker that was taken over may have left anything: a file is read when its head is one of an index. */
static bool has_head(const struct stream *file)
{
    char head[SP_INDEX_HEAD_BYTES];
    struct sp_index_row place;
    return file->size >= sizeof head && file->read(file->context, 0, head, sizeof head) &&
           sp_index_find_line(head, file->size, &place, NULL) == SP_OK;
}

enum index_found indexes_read(struct indexes *indexes, const struct index_of *of, const struct stream *file,
                              const struct sp_index **ret_index, struct problem *problem)
{
    const uint64_t size = file->size;
    if (!has_head(file)) {
        LOG(LOG_WARNING, "stored sheet damaged or of another version", log_s("plan", of->plan),
            log_i("bytes", (int64_t)size));
        return INDEX_MISSING;
    }
    if (size > SPD_SHEETS_BYTES) {
        (void)problem_set_limit(problem, 422, "PLAN_TOO_LARGE", "SPD_SHEETS_BYTES", SPD_SHEETS_BYTES, (int64_t)size,
                                "What is shown of this plan has %llu bytes, more than the %u that are read; the plan "
                                "itself can be had.",
                                (unsigned long long)size, SPD_SHEETS_BYTES);
        return INDEX_REFUSED;
    }
    struct kept *kept = calloc(1, sizeof *kept);
    if (kept == NULL) {
        (void)problem_no_memory(problem);
        return INDEX_REFUSED;
    }
    if (!reserve(indexes, size, problem)) {
        free(kept);
        return INDEX_REFUSED;
    }
    kept->size = size;
    kept->attempt = of->attempt;
    kept->users = 1;
    (void)snprintf(kept->plan, sizeof kept->plan, "%s", of->plan);
    const enum index_found found = load(kept, file, of, problem);
    if (found == INDEX_OPEN)
        *ret_index = &keep(indexes, kept, of)->index;
    else
        release(indexes, kept);
    return found;
}

const struct sp_index *indexes_find(struct indexes *indexes, const struct index_of *of)
{
    (void)pthread_mutex_lock(&indexes->mutex);
    const struct kept *kept = find(indexes, of);
    (void)pthread_mutex_unlock(&indexes->mutex);
    return kept != NULL ? &kept->index : NULL;
}

void indexes_release(struct indexes *indexes, const struct sp_index *index)
{
    if (index != NULL)
        release(indexes, (struct kept *)(uintptr_t)index);
}

void indexes_forget(struct indexes *indexes, const char *plan)
{
    if (plan == NULL)
        return;
    (void)pthread_mutex_lock(&indexes->mutex);
    for (struct kept *kept = indexes->newest, *older; kept != NULL; kept = older) {
        older = kept->older;
        if (strcmp(kept->plan, plan) == 0)
            drop(indexes, kept);
    }
    (void)pthread_mutex_unlock(&indexes->mutex);
}

void indexes_destroy(struct indexes *indexes)
{
    if (indexes == NULL)
        return;
    for (struct kept *kept = indexes->newest, *older; kept != NULL; kept = older) {
        older = kept->older;
        give_up(indexes, kept);
    }
    (void)pthread_mutex_destroy(&indexes->mutex);
    free(indexes);
}
