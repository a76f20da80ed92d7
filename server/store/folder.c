#include "store/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "observe/log.h"
#include "store/files.h"

enum part { PART_LOCK, PART_BLOBS, PART_PLANS, PART_TMP, PART_COUNT };

static const char *const names[PART_COUNT] = {"lock", "blobs", "plans", "tmp"};

/* Which file or folder it is, whatever it is called. */
struct identity {
    dev_t device;
    ino_t number;
};

struct folder {
    const char *data, *owner;
    bool is_shared;
    int lock;

    pthread_mutex_t mutex; /* guards `lock` and the rest up to the next blank line */
    struct identity parts[PART_COUNT];
    char code[sizeof((struct problem *)NULL)->code]; /* of the problem that was told last, "" for none */

    atomic_bool usable;
};

static struct identity identity_of(const struct stat *info)
{
    return (struct identity){info->st_dev, info->st_ino};
}

static bool is_same(const struct identity *a, const struct identity *b)
{
    return a->device == b->device && a->number == b->number;
}

/* False with errno, and the part that is not there. */
static bool identify(const struct folder *folder, struct identity ret_parts[PART_COUNT], const char **ret_missing)
{
    for (int i = 0; i < PART_COUNT; i++) {
        char *path = NULL;
        struct stat info;
        bool ok = asprintf(&path, "%s/%s", folder->data, names[i]) >= 0 && stat(path, &info) == 0;
        int error = errno;
        if (ok && i != PART_LOCK && !S_ISDIR(info.st_mode)) {
            ok = false;
            error = ENOTDIR;
        }
        free(path);
        if (!ok) {
            *ret_missing = names[i];
            errno = error;
            return false;
        }
        ret_parts[i] = identity_of(&info);
    }
    return true;
}

/* The lock of the folder that is there now takes the place of the one that is held. */
static bool take_lock(const struct folder *folder, struct problem *problem)
{
    char *path = NULL;
    int fd = asprintf(&path, "%s/lock", folder->data) >= 0 ? open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW) : -1;
    int error = errno;
    free(path);
    if (fd < 0)
        return problem_from_errno(problem, error, "Opening the lock file of the data folder");
    bool ok = flock(fd, (folder->is_shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0 &&
              dup3(fd, folder->lock, O_CLOEXEC) == folder->lock;
    error = errno;
    (void)close(fd);
    if (ok)
        return true;
    if (error == EWOULDBLOCK)
        return problem_set(problem, 503, "DATA_FOLDER_IN_USE",
                           "There is another data folder in the place of this daemon's, and another daemon uses it.");
    return problem_from_errno(problem, error, "Locking the data folder");
}

/* One level only: a folder that is not there is never made anew. Whether something can be written shows in a change: a
   file system that stopped after an error does not always say that it is read-only. */
static bool touch_own(const struct folder *folder, struct problem *problem)
{
    char *path = NULL;
    if (asprintf(&path, "%s/tmp/%s", folder->data, folder->owner) < 0)
        return problem_no_memory(problem);
    bool ok = (mkdir(path, 0700) == 0 || errno == EEXIST) && utimensat(AT_FDCWD, path, NULL, 0) == 0;
    if (!ok)
        (void)problem_from_errno(problem, errno, "Changing the folder of temporary files");
    free(path);
    return ok;
}

static bool examine(struct folder *folder, struct problem *problem)
{
    struct identity parts[PART_COUNT];
    const char *missing = NULL;
    if (!identify(folder, parts, &missing) && errno == ENOMEM)
        return problem_from_errno(problem, errno, "Looking at the data folder");
    if (missing != NULL)
        return problem_set(problem, 503, "DATA_FOLDER_AWAY",
                           "The data folder is not there at the moment (%s: %s); what was accepted waits for it.",
                           missing, strerrordesc_np(errno));
    if (!is_same(&parts[PART_LOCK], &folder->parts[PART_LOCK])) {
        if (!take_lock(folder, problem))
            return false;
        folder->parts[PART_LOCK] = parts[PART_LOCK];
    }
    bool is_other = false;
    for (int i = PART_BLOBS; i < PART_COUNT; i++) {
        is_other = is_other || !is_same(&parts[i], &folder->parts[i]);
        folder->parts[i] = parts[i];
    }
    if (is_other)
        LOG(LOG_WARNING, "another data folder is in the place of the old one", log_s("path", folder->data));
    return touch_own(folder, problem);
}

/* Once for each change. */
static void tell(struct folder *folder, const struct problem *problem)
{
    if (strcmp(folder->code, problem->code) == 0)
        return;
    memcpy(folder->code, problem->code, sizeof folder->code);
    if (problem->status != 0)
        LOG(LOG_ERROR, "data folder not usable", log_s("code", problem->code), log_s("detail", problem->detail));
    else
        LOG(LOG_INFO, "data folder usable again");
}

bool folder_look(struct folder *folder, struct problem *problem)
{
    struct problem why = {0};
    (void)pthread_mutex_lock(&folder->mutex);
    bool ok = examine(folder, &why);
    atomic_store(&folder->usable, ok);
    tell(folder, &why);
    (void)pthread_mutex_unlock(&folder->mutex);
    if (!ok && problem->status == 0)
        *problem = why;
    return ok;
}

bool folder_usable(const struct folder *folder)
{
    return atomic_load(&folder->usable);
}

struct folder *folder_create(const char *data, const char *owner, bool is_shared, int lock)
{
    struct folder *folder = calloc(1, sizeof *folder);
    const char *missing;
    if (folder == NULL) {
        (void)close(lock);
        return NULL;
    }
    *folder = (struct folder){.data = data, .owner = owner, .is_shared = is_shared, .lock = lock};
    (void)pthread_mutex_init(&folder->mutex, NULL);
    atomic_store(&folder->usable, true);
    (void)identify(folder, folder->parts, &missing); /* else the next look finds another folder */
    return folder;
}

void folder_destroy(struct folder *folder)
{
    if (folder == NULL)
        return;
    (void)close(folder->lock);
    (void)pthread_mutex_destroy(&folder->mutex);
    free(folder);
}
