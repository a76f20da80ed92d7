/* Whole models: when they are read. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server_limits.h"
#include "store/blobs.h"
#include "store/files.h"
#include "store/integrity/internal.h"

static bool make_sums(struct stored *stored, const char *sha256, int fd, const char *beside, stored_pace pace,
                      void *context)
{
    char sha[65];
    struct sums *sums = stored_sum_file(fd, sha256, sha, pace, context);
    if (sums == NULL)
        return false;
    const bool ok = strcmp(sha, sha256) == 0;
    if (ok)
        stored_put_sums(stored, sums, beside);
    sums_destroy(sums);
    errno = EBADMSG;
    return ok;
}

static bool compare(struct sums *sums, int fd, uint64_t size, stored_pace pace, void *context)
{
    const int kept = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    struct checked *checked = kept >= 0 ? checked_create(kept, size, sums, "") : NULL;
    if (kept < 0)
        sums_destroy(sums);
    const bool ok = checked != NULL && checked_read_all(checked, pace, context);
    const int error = errno;
    checked_destroy(checked);
    errno = error;
    return ok;
}

static char *sums_path(const struct stored *stored, const char *key, char **ret_path)
{
    *ret_path = files_at(stored->options.data, key);
    return files_sums(*ret_path);
}

bool stored_read_whole(struct stored *stored, const struct stored_subject *subject, int fd, uint64_t size,
                       stored_pace pace, void *context)
{
    char *path, *beside = sums_path(stored, subject->key, &path);
    struct sums *sums = beside != NULL ? sums_load(beside, subject->sha256, NULL) : NULL;
    bool ok = beside != NULL;
    if (ok && sums != NULL)
        ok = compare(sums, fd, size, pace, context);
    else if (ok)
        ok = make_sums(stored, subject->sha256, fd, beside, pace, context);
    const int error = beside != NULL ? errno : ENOMEM;
    if (ok)
        (void)utimensat(AT_FDCWD, beside, NULL, AT_SYMLINK_NOFOLLOW); /* all was read now */
    free(beside);
    free(path);
    errno = error;
    return ok;
}

static bool is_before(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

/* At the same time is not later: the clock of files goes in steps, and the file may have been changed after its sums were
   made in the same one. */
static bool has_sums(const struct stored *stored, const char *key)
{
    struct stat file, sums;
    char *path, *beside = sums_path(stored, key, &path);
    const bool has = beside != NULL && lstat(path, &file) == 0 && lstat(beside, &sums) == 0 &&
                     is_before(&file.st_mtim, &sums.st_mtim);
    free(beside);
    free(path);
    return has;
}

bool stored_has_sums(const struct stored *stored, const struct blob_file *file)
{
    return has_sums(stored, file->key);
}

/* Reads the file, all of it unless that need not be. `problem` may be NULL. */
static bool check(struct stored *stored, const struct blob_file *file, bool all, struct problem *problem)
{
    const struct stored_subject subject = stored_subject_of_file(file);
    struct problem unused = {0};
    uint64_t size = 0;
    char *path = files_at(stored->options.data, file->key);
    const int fd = files_open_read(path, &size);
    bool ok = fd >= 0;
    free(path);
    if (ok && (all || size <= SPD_CHECK_WHOLE_BYTES || !has_sums(stored, file->key)))
        ok = stored_read_whole(stored, &subject, fd, size, NULL, NULL);
    if (!ok)
        stored_refuse(stored, &subject, fd, errno, problem != NULL ? problem : &unused);
    if (fd >= 0)
        (void)close(fd);
    return ok;
}

bool stored_is_right(struct stored *stored, const char *blob)
{
    const struct blob_file file = blobs_model(blob, BLOB_ANY_SIZE);
    return check(stored, &file, true, NULL);
}

bool stored_hold(struct stored *stored, const struct blob_file *file, struct blob_hold *ret_hold,
                 struct problem *problem)
{
    struct problem found = {0};
    for (int tries = 0; tries < 2; tries++) { /* a copy that was wrong is fetched again */
        found = (struct problem){0};
        char *wrong = NULL;
        const enum blob_held held = blobs_hold(stored->options.blobs, file, ret_hold, &wrong, problem);
        if (held == BLOB_MISSING || held == BLOB_CHANGED)
            stored_lose_object(stored, file, wrong, problem);
        free(wrong);
        if (held != BLOB_HELD)
            return false;
        if (check(stored, file, false, &found))
            return true;
        blobs_release(ret_hold);
        if (!blobs_are_remote(stored->options.blobs))
            break;
    }
    *problem = found;
    return false;
}
