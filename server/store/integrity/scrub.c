#include "store/integrity/scrub.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "observe/log.h"
#include "server.h"
#include "server_limits.h"
#include "store/blobs.h"
#include "store/files.h"
#include "store/folder.h"
#include "store/integrity/internal.h"
#include "store/integrity/overdue.h"
#include "store/objects/results.h"

#define SECOND_NS 1000000000ll

struct scrub {
    struct stored *stored;
    uint64_t rate, due_us; /* bytes in a second; when the bytes so far may have been read */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_stopped;
    struct scrub_counts counts;
};

/* ---- pacing ---- */

/* Sleeps until then. False when the scrub ends. */
static bool rest(struct scrub *scrub, uint64_t until_us)
{
    const struct timespec until = {.tv_sec = (time_t)(until_us / 1000000),
                                   .tv_nsec = (long)(until_us % 1000000 * 1000)};
    int error = 0;
    (void)pthread_mutex_lock(&scrub->mutex);
    while (!scrub->is_stopped && error == 0 && server_now_us() < until_us)
        error = pthread_cond_timedwait(&scrub->changed, &scrub->mutex, &until);
    const bool goes_on = !scrub->is_stopped;
    (void)pthread_mutex_unlock(&scrub->mutex);
    return goes_on;
}

/* What was not read while there was nothing to read is not made up for. */
static bool pace(void *context, size_t bytes)
{
    struct scrub *scrub = context;
    const uint64_t now = server_now_us();
    if (scrub->due_us < now)
        scrub->due_us = now;
    scrub->due_us += (uint64_t)bytes * 1000000 / scrub->rate;
    if (!rest(scrub, scrub->due_us))
        return false;
    (void)pthread_mutex_lock(&scrub->mutex);
    scrub->counts.bytes += bytes;
    (void)pthread_mutex_unlock(&scrub->mutex);
    return true;
}

static void count(struct scrub *scrub, unsigned files, unsigned wrong)
{
    (void)pthread_mutex_lock(&scrub->mutex);
    scrub->counts.files += files;
    scrub->counts.wrong += wrong;
    (void)pthread_mutex_unlock(&scrub->mutex);
}

/* ---- reading ---- */

/* `error` is what reading said; 0: nothing. */
static void judge(struct scrub *scrub, const struct stored_subject *subject, int fd, int error)
{
    const bool is_wrong = stored_is_damage(error) && stored_condemn(scrub->stored, subject, fd, error);
    if (error != 0 && error != ECANCELED && !is_wrong)
        LOG(LOG_WARNING, "stored file not read", log_s("key", subject->key), log_s("error", strerrordesc_np(error)));
    count(scrub, error == 0 || is_wrong, is_wrong);
}

/* A file that stands alone. One that is gone by now was deleted, or is told to who asks for it. */
static void read_file(struct scrub *scrub, const struct blob_file *file)
{
    const struct stored_subject subject = stored_subject_of_file(file);
    uint64_t size = 0;
    char *path = files_at(scrub->stored->options.data, file->key);
    const int fd = files_open_read(path, &size);
    free(path);
    if (fd < 0)
        return;
    (void)fcntl(fd, F_SETFL, O_NOATIME); /* a copy goes when nobody has used it for long */
    const bool ok = stored_read_whole(scrub->stored, &subject, fd, size, pace, scrub);
    judge(scrub, &subject, fd, ok ? 0 : errno);
    (void)close(fd);
}

static void read_result(struct scrub *scrub, const struct stored_subject *subject)
{
    const bool ok = stored_read_result(scrub->stored, subject, pace, scrub);
    const int error = ok ? 0 : errno;
    char *sums = ok ? overdue_sums(scrub->stored->options.data, subject->key) : NULL;
    if (sums != NULL)
        (void)utimensat(AT_FDCWD, sums, NULL, AT_SYMLINK_NOFOLLOW); /* all was read now */
    free(sums);
    judge(scrub, subject, -1, error);
}

/* What the plan has by now: its result in the folder, or copies of some files of it. */
static void read_plan(struct scrub *scrub, const char *key)
{
    char id[STORE_ID_SIZE];
    struct plan_row row;
    struct blob_file file;
    (void)snprintf(id, sizeof id, "%.*s", STORE_ID_SIZE - 1, key + 6); /* plans/ID/.. */
    if (store_get_plan(scrub->stored->options.store, NULL, id, &row) != STORE_DONE)
        return;
    const struct stored_subject subject = stored_subject_of_plan(&row);
    const bool is_copy = results_file(&row, strrchr(key, '/') + 1, &file, NULL);
    const bool has_result = row.has_result;
    store_release_plan(&row);
    if (is_copy && strcmp(file.key, key) == 0)
        read_file(scrub, &file);
    else if (has_result && strcmp(subject.key, key) == 0)
        read_result(scrub, &subject);
}

static void read_overdue(struct scrub *scrub, const struct overdue *overdue)
{
    struct blob_file file = {.size = BLOB_ANY_SIZE};
    const char *key = overdue->key;
    if (overdue_read_at(scrub->stored->options.data, key) != overdue->read_at)
        return; /* somebody has read it meanwhile */
    if (strncmp(key, "blobs/", 6) != 0) {
        read_plan(scrub, key);
        return;
    }
    (void)snprintf(file.key, sizeof file.key, "%s", key);
    (void)snprintf(file.sha256, sizeof file.sha256, "%.2s%.62s", key + 6, key + 9); /* blobs/ab/cdef.. */
    read_file(scrub, &file);
}

/* ---- rounds ---- */

static int64_t clock_ns(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * SECOND_NS + now.tv_nsec;
}

/* Whether all that was overdue has been read. */
static bool read_all(struct scrub *scrub)
{
    const struct stored_options *options = &scrub->stored->options;
    const int64_t until = clock_ns() - SPD_SCRUB_AGE_SECONDS * SECOND_NS;
    struct overdue last = {0};
    struct overdue_list list;
    struct problem problem = {0};
    bool goes_on = true, has_more = true;
    while (goes_on && has_more) {
        if (!folder_look(options->folder, &problem) ||
            !overdue_find(options->data, options->store, until, last.key[0] != '\0' ? &last : NULL, &list))
            return false;
        for (size_t i = 0; goes_on && i < list.count; i++) {
            last = list.files[i];
            read_overdue(scrub, &last);
            goes_on = rest(scrub, 0);
        }
        has_more = list.has_more;
        free(list.files);
    }
    return goes_on;
}

static bool turn(struct scrub *scrub)
{
    struct scrub_counts before, after;
    const uint64_t began = server_now_us();
    (void)scrub_count(scrub, &before);
    if (!read_all(scrub))
        return false;
    (void)pthread_mutex_lock(&scrub->mutex);
    scrub->counts.round = (double)clock_ns() / SECOND_NS;
    (void)pthread_mutex_unlock(&scrub->mutex);
    (void)scrub_count(scrub, &after);
    LOG(LOG_INFO, "stored files read", log_i("files", (int64_t)(after.files - before.files)),
        log_i("bytes", (int64_t)(after.bytes - before.bytes)), log_i("wrong", (int64_t)(after.wrong - before.wrong)),
        log_i("seconds", (int64_t)((server_now_us() - began) / 1000000)));
    return true;
}

/* A round, unless another daemon of this folder is at one. Where the folder cannot be locked (some shares), the times of sums
   keep them apart well enough. */
static bool take_turn(struct scrub *scrub)
{
    char *path = files_at(scrub->stored->options.data, "blobs");
    const int lock = path != NULL ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    free(path);
    const bool is_taken = lock < 0 || (flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK);
    const bool ok = !is_taken && turn(scrub);
    if (lock >= 0)
        (void)close(lock);
    return ok;
}

static void *run(void *context)
{
    struct scrub *scrub = context;
    uint64_t seconds = 0;
    uint64_t began = server_now_us();
    while (rest(scrub, began + seconds * 1000000)) {
        began = server_now_us();
        seconds = take_turn(scrub) ? SPD_SCRUB_ROUND_SECONDS : SPD_SCRUB_RETRY_SECONDS;
    }
    return NULL;
}

struct scrub *scrub_start(struct stored *stored, uint64_t rate)
{
    struct scrub *scrub = calloc(1, sizeof *scrub);
    pthread_condattr_t attributes;
    if (scrub == NULL)
        return NULL;
    scrub->stored = stored;
    scrub->rate = rate;
    (void)pthread_mutex_init(&scrub->mutex, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&scrub->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    if (pthread_create(&scrub->thread, NULL, run, scrub) == 0)
        return scrub;
    (void)pthread_cond_destroy(&scrub->changed);
    (void)pthread_mutex_destroy(&scrub->mutex);
    free(scrub);
    return NULL;
}

void scrub_stop(struct scrub *scrub)
{
    if (scrub == NULL)
        return;
    (void)pthread_mutex_lock(&scrub->mutex);
    scrub->is_stopped = true;
    (void)pthread_cond_signal(&scrub->changed);
    (void)pthread_mutex_unlock(&scrub->mutex);
}

void scrub_destroy(struct scrub *scrub)
{
    if (scrub == NULL)
        return;
    scrub_stop(scrub);
    (void)pthread_join(scrub->thread, NULL);
    (void)pthread_cond_destroy(&scrub->changed);
    (void)pthread_mutex_destroy(&scrub->mutex);
    free(scrub);
}

bool scrub_count(struct scrub *scrub, struct scrub_counts *ret_counts)
{
    if (scrub == NULL)
        return false;
    (void)pthread_mutex_lock(&scrub->mutex);
    *ret_counts = scrub->counts;
    (void)pthread_mutex_unlock(&scrub->mutex);
    return true;
}
