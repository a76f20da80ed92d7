#include "store/objects/results.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "observe/log.h"
#include "store/files.h"
#include "util/text.h"

static const char *const names[] = {"annotated.splice", "plan.txt", "plan.sheet", "plan.json"};

static struct blob_file file_of(const char *plan, int64_t attempt, const char *name)
{
    struct blob_file file = {.size = BLOB_ANY_SIZE};
    (void)snprintf(file.key, sizeof file.key, "plans/%s/%lld/%s", plan, (long long)attempt, name);
    return file;
}

/* ---- storing ---- */

static bool hash_file(const char *data, struct blob_file *file, uint64_t *ret_size, struct problem *problem)
{
    char *path = files_at(data, file->key);
    const int fd = files_open_read(path, ret_size);
    const bool ok = fd >= 0 && files_hash(fd, *ret_size, file->sha256);
    const int error = errno;
    if (fd >= 0)
        (void)close(fd);
    free(path);
    return ok || problem_from_errno(problem, error, "Reading a file of the plan");
}

bool results_store(struct blobs *blobs, const char *data, const char *plan, int64_t attempt, char **ret_files,
                   struct problem *problem)
{
    char *list = calloc(1, SPD_MAX_RESULT_LIST);
    size_t used = 0;
    bool ok = list != NULL || problem_no_memory(problem);
    for (size_t i = 0; ok && i < sizeof names / sizeof names[0]; i++) {
        struct blob_file file = file_of(plan, attempt, names[i]);
        uint64_t size = 0;
        ok = hash_file(data, &file, &size, problem) && blobs_put(blobs, &file, problem);
        if (ok)
            used += (size_t)snprintf(list + used, SPD_MAX_RESULT_LIST - used, "%s %llu %s\n", file.sha256,
                                     (unsigned long long)size, names[i]);
    }
    if (ok)
        *ret_files = list;
    else
        free(list);
    return ok;
}

/* ---- reading ---- */

/* "SHA256 SIZE NAME" up to `end`: whether it is the line of this name. */
static bool read_line(const char *line, const char *end, const char *name, char ret_sha256[65], int64_t *ret_size)
{
    char digits[24];
    const char *size = line + 65;
    if (end - line <= 66 || line[64] != ' ')
        return false;
    const char *blank = memchr(size, ' ', (size_t)(end - size));
    if (blank == NULL || (size_t)(blank - size) >= sizeof digits || (size_t)(end - blank - 1) != strlen(name) ||
        memcmp(blank + 1, name, strlen(name)) != 0)
        return false;
    (void)snprintf(ret_sha256, 65, "%.64s", line);
    (void)snprintf(digits, sizeof digits, "%.*s", (int)(blank - size), size);
    return text_is_hex(ret_sha256, 64) && text_to_int(digits, 0, INT64_MAX, ret_size);
}

bool results_file(const struct plan_row *row, const char *name, struct blob_file *ret_file, uint64_t *ret_size)
{
    const char *line = row->files != NULL && row->has_result ? row->files : "";
    for (const char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        int64_t size = 0;
        char sha256[65];
        if (!read_line(line, end, name, sha256, &size))
            continue;
        *ret_file = file_of(row->id, row->attempts, name);
        memcpy(ret_file->sha256, sha256, sizeof sha256);
        ret_file->size = (uint64_t)size;
        if (ret_size != NULL)
            *ret_size = (uint64_t)size;
        return true;
    }
    return false;
}

/* ---- removing ---- */

struct removal {
    struct transfer transfer;
    struct blobs *blobs;
    char plan[STORE_ID_SIZE];
    int64_t before;
};

/* The plan and the attempt that a key belongs to. */
static bool read_key(const char *key, char ret_plan[STORE_ID_SIZE], int64_t *ret_attempt)
{
    char attempt[24];
    const char *slash = NULL;
    if (strncmp(key, "plans/", 6) != 0 || strlen(key) < 6 + STORE_ID_SIZE || key[6 + STORE_ID_SIZE - 1] != '/')
        return false;
    (void)snprintf(ret_plan, STORE_ID_SIZE, "%s", key + 6);
    key += 6 + STORE_ID_SIZE;
    slash = strchr(key, '/');
    if (slash == NULL || (size_t)(slash - key) >= sizeof attempt || !text_is_hex(ret_plan, STORE_ID_SIZE - 1))
        return false;
    (void)snprintf(attempt, sizeof attempt, "%.*s", (int)(slash - key), key);
    return text_to_int(attempt, 0, INT64_MAX, ret_attempt);
}

static void remove_object(struct blobs *blobs, const char *key)
{
    struct problem problem = {0};
    if (!blobs_delete(blobs, key, &problem))
        LOG(LOG_WARNING, "object not removed", log_s("object", key), log_s("detail", problem.detail));
}

static bool remove_older(void *context, const char *key)
{
    const struct removal *removal = context;
    char plan[STORE_ID_SIZE];
    int64_t attempt;
    if (read_key(key, plan, &attempt) && attempt < removal->before)
        remove_object(removal->blobs, key);
    return true;
}

static void run_removal(struct transfer *transfer)
{
    struct removal *removal = transfer->context;
    struct problem problem = {0};
    char folder[SPD_MAX_OBJECT_KEY + 1];
    (void)snprintf(folder, sizeof folder, "plans/%s/", removal->plan);
    if (!blobs_list(removal->blobs, folder, remove_older, removal, &problem))
        LOG(LOG_WARNING, "objects not removed", log_s("plan", removal->plan), log_s("detail", problem.detail));
    free(removal);
}

void results_remove(struct blobs *blobs, const char *plan, int64_t before)
{
    struct removal *removal = blobs_are_remote(blobs) ? calloc(1, sizeof *removal) : NULL;
    if (removal == NULL)
        return; /* swept some time */
    removal->blobs = blobs;
    removal->before = before;
    removal->transfer = (struct transfer){.run = run_removal, .context = removal};
    (void)snprintf(removal->plan, sizeof removal->plan, "%s", plan);
    blobs_send(blobs, &removal->transfer);
}

struct sweep {
    struct blobs *blobs;
    struct store *store;
    const atomic_bool *stop;
    char plan[STORE_ID_SIZE]; /* that was looked up last: keys of a plan follow each other */
    int64_t before;           /* its attempts before this one go */
};

/* A plan that runs, or is queued again, may have the objects of its last attempt. */
static int64_t first_needed(struct store *store, const char *plan)
{
    struct plan_row row;
    const enum store_found found = store_get_plan(store, NULL, plan, &row);
    if (found != STORE_DONE)
        return found == STORE_NOT_FOUND ? INT64_MAX : 0;
    const bool is_open = row.state == PLAN_QUEUED || row.state == PLAN_RUNNING;
    const int64_t before = is_open || row.has_result ? row.attempts : INT64_MAX;
    store_release_plan(&row);
    return before;
}

static bool sweep_object(void *context, const char *key)
{
    struct sweep *sweep = context;
    char plan[STORE_ID_SIZE];
    int64_t attempt;
    if (read_key(key, plan, &attempt)) {
        if (strcmp(plan, sweep->plan) != 0) {
            memcpy(sweep->plan, plan, sizeof sweep->plan);
            sweep->before = first_needed(sweep->store, plan);
        }
        if (attempt < sweep->before) {
            LOG(LOG_INFO, "orphan removed", log_s("object", key));
            remove_object(sweep->blobs, key);
        }
    }
    return !atomic_load(sweep->stop);
}

bool results_sweep(struct blobs *blobs, struct store *store, const atomic_bool *stop)
{
    struct problem problem = {0};
    struct sweep sweep = {.blobs = blobs, .store = store, .stop = stop};
    if (!blobs_are_remote(blobs) || blobs_list(blobs, "plans/", sweep_object, &sweep, &problem))
        return true;
    LOG(LOG_WARNING, "object store not swept", log_s("code", problem.code), log_s("detail", problem.detail));
    return false;
}
