#include "store/blobs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "observe/log.h"
#include "server.h"
#include "server_limits.h"
#include "store/files.h"
#include "store/objects/blobs_owner.h"
#include "store/objects/cache.h"
#include "store/objects/stage.h"
#include "store/store.h"
#include "util/text.h"

/* A file that is being fetched; another thread that wants it waits for that. */
struct fetching {
    struct fetching *next;
    const char *key;
};

struct blobs {
    const char *data, *owner;
    struct store *store;
    struct transfers *transfers;
    struct s3 *s3; /* NULL: all is in the folder, and the rest is not used */
    struct cache cache;
    struct blobs_owner prefix;
    struct stages stages;
    atomic_bool stop;
    atomic_uint_fast64_t hits, misses;

    pthread_mutex_t mutex; /* guards the rest */
    pthread_cond_t fetched;
    struct fetching *fetching;
    struct problem seen; /* by the last look whether the store answers */
    uint64_t seen_ms;
    bool is_looking;
    struct transfer look;
};

/* A transfer that removes the objects of a model that the store does not name. */
struct removal {
    struct transfer transfer;
    struct blobs *blobs;
    char id[65];
};

struct blob_file blobs_model(const char *blob, uint64_t size)
{
    struct blob_file file = {.size = size};
    (void)snprintf(file.key, sizeof file.key, "blobs/%.2s/%s", blob, blob + 2);
    (void)snprintf(file.sha256, sizeof file.sha256, "%.64s", blob);
    return file;
}

struct blob_file blobs_inspection(const char *inspection, const char *sha256)
{
    struct blob_file file = {.size = BLOB_ANY_SIZE};
    (void)snprintf(file.key, sizeof file.key, "blobs/%.2s/%s.json", inspection, inspection + 2);
    (void)snprintf(file.sha256, sizeof file.sha256, "%s", sha256);
    return file;
}

/* ---- sending ---- */

/* `stage` has a part of it, or is NULL. */
static bool send_file(struct blobs *blobs, const struct blob_file *file, const char *path, struct stage *stage,
                      struct problem *problem)
{
    uint64_t size = 0;
    if (!blobs_own(&blobs->prefix, problem))
        return false;
    int fd = files_open_read(path, &size);
    if (fd < 0)
        return problem_from_errno(problem, errno, "Reading a file for the object store");
    bool ok;
    if (size <= SPD_S3_PART_BYTES)
        ok = s3_put(blobs->s3, file->key, fd, size, file->sha256, problem);
    else if (stage != NULL && stage_works(stage))
        ok = stage_store(stage, size, file->key, problem);
    else
        ok = stage_send(&blobs->stages, fd, size, file->key, problem);
    (void)close(fd);
    return ok;
}

struct stage *blobs_stage(struct blobs *blobs, int file)
{
    return blobs->s3 != NULL ? stage_create(&blobs->stages, file) : NULL;
}

bool blobs_put(struct blobs *blobs, const struct blob_file *file, struct problem *problem)
{
    struct stat info = {0};
    char *path = files_at(blobs->data, file->key);
    if (path == NULL)
        return problem_no_memory(problem);
    const bool ok = send_file(blobs, file, path, NULL, problem);
    if (ok && stat(path, &info) == 0)
        cache_added(&blobs->cache, (uint64_t)info.st_size);
    free(path);
    return ok;
}

static enum s3_found find(struct blobs *blobs, const char *key, struct problem *problem)
{
    return blobs_own(&blobs->prefix, problem) ? s3_head(blobs->s3, key, problem) : S3_FAILED;
}

bool blobs_have_copy(const struct blobs *blobs, const char *blob, uint64_t size)
{
    struct stat info;
    char *path = files_blob(blobs->data, blob);
    const bool have =
        path != NULL && lstat(path, &info) == 0 && S_ISREG(info.st_mode) && (uint64_t)info.st_size == size;
    free(path);
    return have;
}

bool blobs_have(struct blobs *blobs, const char *blob, uint64_t size, bool *ret_have, struct problem *problem)
{
    if (blobs->s3 == NULL) {
        *ret_have = blobs_have_copy(blobs, blob, size);
        return true;
    }
    const enum s3_found found = find(blobs, blobs_model(blob, size).key, problem);
    *ret_have = found == S3_FOUND;
    return found != S3_FAILED;
}

/* Sends what is said of a model, whose hash is not known yet. */
static bool send_inspection(struct blobs *blobs, const char *name, const char *path, char ret_sha256[65],
                            struct problem *problem)
{
    uint64_t size = 0;
    const int fd = files_open_read(path, &size);
    if (fd < 0 || !files_hash(fd, size, ret_sha256)) {
        (void)problem_from_errno(problem, errno, "Reading a file for the object store");
        if (fd >= 0)
            (void)close(fd);
        return false;
    }
    const struct blob_file file = blobs_inspection(name, ret_sha256);
    const bool ok = s3_put(blobs->s3, file.key, fd, size, file.sha256, problem);
    (void)close(fd);
    return ok;
}

bool blobs_publish(struct blobs *blobs, const char *name, const char *upload, struct stage *stage,
                   const char *inspection, char ret_sha256[65], struct problem *problem)
{
    struct stat info = {0};
    const struct blob_file file = blobs_model(name, BLOB_ANY_SIZE);
    ret_sha256[0] = '\0';
    if (blobs->s3 == NULL)
        return files_publish(blobs->data, name, upload, inspection, problem);
    (void)stat(upload, &info);
    if (!send_file(blobs, &file, upload, stage, problem) ||
        (inspection != NULL && !send_inspection(blobs, name, inspection, ret_sha256, problem)) ||
        !files_publish(blobs->data, name, upload, inspection, problem))
        return false;
    cache_added(&blobs->cache, (uint64_t)info.st_size);
    return true;
}

/* What the key of a model's file or inspection means; false when it is that of another one. */
static bool read_key(const char *key, struct files_name *ret)
{
    char prefix[3] = "";
    if (strncmp(key, "blobs/", 6) != 0 || strlen(key) <= 9 || key[8] != '/')
        return false;
    (void)snprintf(prefix, sizeof prefix, "%.2s", key + 6);
    return files_read_blob_name(prefix, key + 9, ret) && !ret->is_sums;
}

/* For the cache: a copy goes when the object is there. That of a model is sent when it is not. */
static bool may_go(void *context, const char *key)
{
    struct blobs *blobs = context;
    struct problem problem = {0};
    struct files_name of;
    struct blob_file file = {0};
    const enum s3_found found = find(blobs, key, &problem);
    if (found != S3_MISSING || !read_key(key, &of) || of.file != FILE_BLOB)
        return found == S3_FOUND;
    (void)snprintf(file.key, sizeof file.key, "%s", key);
    (void)snprintf(file.sha256, sizeof file.sha256, "%s", of.id);
    char *path = files_at(blobs->data, key);
    const bool ok = path != NULL && send_file(blobs, &file, path, NULL, &problem);
    free(path);
    return ok;
}

/* ---- fetching ---- */

static bool is_being_fetched(const struct blobs *blobs, const char *key)
{
    for (const struct fetching *fetching = blobs->fetching; fetching != NULL; fetching = fetching->next) {
        if (strcmp(fetching->key, key) == 0)
            return true;
    }
    return false;
}

/* One thread at a time fetches a file. */
static void begin_fetch(struct blobs *blobs, struct fetching *fetching)
{
    (void)pthread_mutex_lock(&blobs->mutex);
    while (is_being_fetched(blobs, fetching->key))
        (void)pthread_cond_wait(&blobs->fetched, &blobs->mutex);
    fetching->next = blobs->fetching;
    blobs->fetching = fetching;
    (void)pthread_mutex_unlock(&blobs->mutex);
}

static void end_fetch(struct blobs *blobs, const struct fetching *fetching)
{
    (void)pthread_mutex_lock(&blobs->mutex);
    struct fetching **link = &blobs->fetching;
    while (*link != fetching)
        link = &(*link)->next;
    *link = fetching->next;
    (void)pthread_cond_broadcast(&blobs->fetched);
    (void)pthread_mutex_unlock(&blobs->mutex);
}

/* The copy is held before it has its place, so that it cannot go at once. It may outlive the machine's next start, so it
   is whole before it has its name. Other bytes stay where they are. */
static enum blob_held fetch_to(struct blobs *blobs, const struct blob_file *file, const char *path,
                               struct blob_hold *ret_hold, struct problem *problem)
{
    uint64_t size = 0;
    if (!blobs_own(&blobs->prefix, problem))
        return BLOB_FAILED;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        (void)problem_from_errno(problem, errno, "Writing a copy of an object");
        return BLOB_FAILED;
    }
    enum s3_found found = s3_get(blobs->s3, file->key, fd, file->sha256, file->size, &size, problem);
    if (found == S3_FOUND &&
        (fsync(fd) != 0 || flock(fd, LOCK_SH | LOCK_NB) != 0 || !files_place(blobs->data, file->key, path))) {
        (void)problem_from_errno(problem, errno, "Writing a copy of an object");
        found = S3_FAILED;
    }
    if (found == S3_FOUND) {
        *ret_hold = (struct blob_hold){true, fd};
        cache_added(&blobs->cache, size);
        return BLOB_HELD;
    }
    if (found != S3_CHANGED)
        (void)unlink(path);
    (void)close(fd);
    return found == S3_CHANGED ? BLOB_CHANGED : found == S3_MISSING ? BLOB_MISSING : BLOB_FAILED;
}

static enum blob_held fetch(struct blobs *blobs, const struct blob_file *file, struct blob_hold *ret_hold,
                            char **ret_wrong, struct problem *problem)
{
    char *path = files_temporary(blobs->data, blobs->owner);
    if (path == NULL) {
        (void)problem_no_memory(problem);
        return BLOB_FAILED;
    }
    enum blob_held held = BLOB_CHANGED;
    for (int tries = 0; held == BLOB_CHANGED && tries < 2; tries++) /* it may have changed on its way */
        held = fetch_to(blobs, file, path, ret_hold, problem);
    if (held == BLOB_FAILED)
        LOG(LOG_WARNING, "object not fetched", log_s("object", file->key), log_s("code", problem->code),
            log_s("detail", problem->detail));
    if (held == BLOB_CHANGED)
        *ret_wrong = path;
    else
        free(path);
    return held;
}

bool blobs_hold_copy(const struct blobs *blobs, const struct blob_file *file, struct blob_hold *ret_hold)
{
    if (blobs->s3 == NULL)
        return true;
    int fd = cache_hold(&blobs->cache, file->key, file->size);
    if (fd >= 0)
        *ret_hold = (struct blob_hold){true, fd};
    return fd >= 0;
}

enum blob_held blobs_hold(struct blobs *blobs, const struct blob_file *file, struct blob_hold *ret_hold,
                          char **ret_wrong, struct problem *problem)
{
    struct fetching fetching = {.key = file->key};
    *ret_wrong = NULL;
    if (blobs_hold_copy(blobs, file, ret_hold)) {
        (void)atomic_fetch_add(&blobs->hits, blobs->s3 != NULL);
        return BLOB_HELD;
    }
    (void)atomic_fetch_add(&blobs->misses, 1);
    begin_fetch(blobs, &fetching);
    const enum blob_held held =
        blobs_hold_copy(blobs, file, ret_hold) ? BLOB_HELD : fetch(blobs, file, ret_hold, ret_wrong, problem);
    end_fetch(blobs, &fetching);
    return held;
}

void blobs_release(struct blob_hold *hold)
{
    if (hold->is_held)
        (void)close(hold->file);
    *hold = (struct blob_hold){0};
}

/* ---- removing ---- */

struct sweep {
    struct blobs *blobs;
    const char *id; /* of the only model that matters, or NULL */
    const atomic_bool *stop;
};

/* An object that the store does not name goes: no row will ever name it. */
static bool sweep_object(void *context, const char *key)
{
    const struct sweep *sweep = context;
    struct blobs *blobs = sweep->blobs;
    struct files_name of;
    struct problem problem = {0};
    if (read_key(key, &of) && store_names(blobs->store, of.id, of.number, of.file) == STORE_NOT_FOUND) {
        if (sweep->id == NULL)
            LOG(LOG_INFO, "orphan removed", log_s("object", key));
        if (!s3_delete(blobs->s3, key, &problem))
            LOG(LOG_WARNING, "object not removed", log_s("object", key), log_s("detail", problem.detail));
    }
    return !atomic_load(sweep->stop);
}

static void run_removal(struct transfer *transfer)
{
    struct removal *removal = transfer->context;
    struct problem problem = {0};
    struct sweep sweep = {.blobs = removal->blobs, .id = removal->id, .stop = &removal->blobs->stop};
    if (!blobs_own(&removal->blobs->prefix, &problem) ||
        !s3_list(removal->blobs->s3, blobs_model(removal->id, BLOB_ANY_SIZE).key, sweep_object, &sweep, &problem))
        LOG(LOG_WARNING, "objects not removed", log_s("model", removal->id), log_s("detail", problem.detail));
    free(removal);
}

void blobs_tidy(struct blobs *blobs, const char *id)
{
    files_tidy_model(blobs->data, blobs->store, id);
    struct removal *removal = blobs->s3 != NULL ? calloc(1, sizeof *removal) : NULL;
    if (removal == NULL)
        return; /* swept some time */
    removal->blobs = blobs;
    removal->transfer = (struct transfer){.run = run_removal, .context = removal};
    (void)snprintf(removal->id, sizeof removal->id, "%s", id);
    transfers_send(blobs->transfers, &removal->transfer);
}

bool blobs_sweep(struct blobs *blobs, const atomic_bool *stop)
{
    struct problem problem = {0};
    struct sweep sweep = {.blobs = blobs, .stop = stop};
    if (blobs->s3 == NULL)
        return true;
    bool ok = blobs_own(&blobs->prefix, &problem) && s3_list(blobs->s3, "blobs/", sweep_object, &sweep, &problem) &&
              stages_sweep(&blobs->stages, blobs->store, stop, &problem);
    if (!ok)
        LOG(LOG_WARNING, "object store not swept", log_s("code", problem.code), log_s("detail", problem.detail));
    return ok;
}

/* ---- life ---- */

bool blobs_are_remote(const struct blobs *blobs)
{
    return blobs != NULL && blobs->s3 != NULL;
}

bool blobs_look(struct blobs *blobs, struct problem *problem)
{
    return blobs_still_own(&blobs->prefix, problem);
}

bool blobs_delete(struct blobs *blobs, const char *key, struct problem *problem)
{
    return blobs_own(&blobs->prefix, problem) && s3_delete(blobs->s3, key, problem);
}

bool blobs_list(struct blobs *blobs, const char *folder, bool (*each)(void *context, const char *key), void *context,
                struct problem *problem)
{
    return blobs_own(&blobs->prefix, problem) && s3_list(blobs->s3, folder, each, context, problem);
}

void blobs_send(struct blobs *blobs, struct transfer *transfer)
{
    transfers_send(blobs->transfers, transfer);
}

static void run_look(struct transfer *transfer)
{
    struct blobs *blobs = transfer->context;
    struct problem seen = {0};
    (void)(s3_ready(blobs->s3, &seen) && blobs_own(&blobs->prefix, &seen));
    (void)pthread_mutex_lock(&blobs->mutex);
    blobs->seen = seen;
    blobs->seen_ms = server_now_ms();
    blobs->is_looking = false;
    (void)pthread_mutex_unlock(&blobs->mutex);
}

bool blobs_usable(struct blobs *blobs, struct problem *problem)
{
    if (blobs->s3 == NULL)
        return true;
    (void)pthread_mutex_lock(&blobs->mutex);
    *problem = blobs->seen;
    bool is_due = !blobs->is_looking && server_now_ms() - blobs->seen_ms >= SPD_BLOB_LOOK_MS;
    blobs->is_looking = blobs->is_looking || is_due;
    (void)pthread_mutex_unlock(&blobs->mutex);
    if (is_due) {
        blobs->look = (struct transfer){.run = run_look, .context = blobs};
        transfers_send(blobs->transfers, &blobs->look);
    }
    return problem->status == 0;
}

bool blobs_count(const struct blobs *blobs, struct blobs_counts *ret_counts)
{
    if (blobs->s3 == NULL)
        return false;
    s3_count(blobs->s3, &ret_counts->calls);
    ret_counts->cached_bytes = atomic_load(&blobs->cache.bytes);
    ret_counts->hits = atomic_load(&blobs->hits);
    ret_counts->misses = atomic_load(&blobs->misses);
    return true;
}

static bool open_remote(struct blobs *blobs, const struct config *config, struct problem *problem)
{
    const struct s3_options options = {.url = config->blobs,
                                       .endpoint = config->blobs_endpoint,
                                       .region = config->blobs_region,
                                       .credentials_file = config->blobs_credentials_file,
                                       .stop = &blobs->stop};
    if (!s3_open(&options, &blobs->s3, problem))
        return false;
    blobs_owner_init(&blobs->prefix, blobs->s3, config->data, blobs->store);
    blobs->stages = (struct stages){
        .s3 = blobs->s3, .prefix = &blobs->prefix, .transfers = blobs->transfers, .owner = blobs->owner};
    return blobs_owner_start(&blobs->prefix, &blobs->seen, problem);
}

bool blobs_open(const struct config *config, const char *owner, struct store *store, struct blobs **ret_blobs,
                struct problem *problem)
{
    struct blobs *blobs = calloc(1, sizeof *blobs);
    if (blobs == NULL)
        return problem_no_memory(problem);
    blobs->data = config->data;
    blobs->owner = owner;
    blobs->store = store;
    (void)pthread_mutex_init(&blobs->mutex, NULL);
    (void)pthread_cond_init(&blobs->fetched, NULL);
    blobs->cache =
        (struct cache){.data = config->data, .most = config->blob_cache_bytes, .may_go = may_go, .context = blobs};
    cache_open(&blobs->cache);
    blobs->transfers = transfers_create(SPD_BLOB_THREADS);
    if (blobs->transfers == NULL) {
        blobs_close(blobs);
        return problem_no_memory(problem);
    }
    if (config->blobs[0] != '\0' && !open_remote(blobs, config, problem)) {
        blobs_close(blobs);
        return false;
    }
    *ret_blobs = blobs;
    return true;
}

void blobs_stop(struct blobs *blobs)
{
    atomic_store(&blobs->stop, true);
}

bool blobs_quiet(struct blobs *blobs)
{
    return transfers_idle(blobs->transfers);
}

void blobs_close(struct blobs *blobs)
{
    if (blobs == NULL)
        return;
    blobs_stop(blobs);
    transfers_destroy(blobs->transfers);
    s3_close(blobs->s3);
    cache_close(&blobs->cache);
    (void)pthread_cond_destroy(&blobs->fetched);
    (void)pthread_mutex_destroy(&blobs->mutex);
    free(blobs);
}
