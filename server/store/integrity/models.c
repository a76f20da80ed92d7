/* Whole models: their sums, and when they are read. */
#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server_limits.h"
#include "store/blobs.h"
#include "store/files.h"
#include "store/integrity/internal.h"
#include "util/text.h"

bool stored_sum_bytes(int fd, struct sums *sums, gnutls_hash_hd_t sha, stored_pace pace, void *context)
{
    unsigned char *block = malloc(SUMS_CHUNK);
    ssize_t got = 1;
    uint64_t at = 0;
    int error = block != NULL ? 0 : ENOMEM;
    while (error == 0 && got > 0) {
        if (pace != NULL && !pace(context, SUMS_CHUNK)) {
            error = ECANCELED;
            break;
        }
        got = pread(fd, block, SUMS_CHUNK, (off_t)at);
        if (got < 0)
            error = errno;
        else if (!sums_take(sums, block, (size_t)got) || (sha != NULL && gnutls_hash(sha, block, (size_t)got) != 0))
            error = ENOMEM;
        at += got > 0 ? (uint64_t)got : 0;
    }
    free(block);
    errno = error;
    return error == 0;
}

struct sums *stored_sum_file(int fd, const char *of, char ret_sha[65], stored_pace pace, void *context)
{
    gnutls_hash_hd_t sha = NULL;
    unsigned char digest[32];
    struct sums *sums = sums_create();
    bool ok =
        sums != NULL && sums_begin(sums, "") && (ret_sha == NULL || gnutls_hash_init(&sha, GNUTLS_DIG_SHA256) == 0);
    int error = ENOMEM;
    if (ok) {
        ok = stored_sum_bytes(fd, sums, sha, pace, context);
        error = errno;
    }
    if (sha != NULL) {
        gnutls_hash_deinit(sha, digest);
        text_to_hex(digest, sizeof digest, ret_sha);
    }
    if (ok && sums_end(sums, of, NULL))
        return sums;
    sums_destroy(sums);
    errno = ok ? ENOMEM : error;
    return NULL;
}

void stored_put_sums(const struct stored *stored, const struct sums *sums, const char *beside)
{
    char *path = files_temporary(stored->options.data, stored->options.owner);
    if (path != NULL && sums_save(sums, path) && rename(path, beside) != 0)
        (void)unlink(path);
    free(path);
}

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
    const int kept = dup(fd);
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

static bool has_sums(const struct stored *stored, const char *key)
{
    struct stat file, sums;
    char *path, *beside = sums_path(stored, key, &path);
    const bool has = beside != NULL && lstat(path, &file) == 0 && lstat(beside, &sums) == 0 &&
                     !is_before(&sums.st_mtim, &file.st_mtim);
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
        if (!blobs_hold(stored->options.blobs, file, ret_hold, problem))
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

void stored_seal_file(const char *path, const char *id)
{
    uint64_t size;
    char *beside = files_sums(path);
    const int fd = beside != NULL ? files_open_read(path, &size) : -1;
    struct sums *sums = fd >= 0 ? stored_sum_file(fd, id, NULL, NULL, NULL) : NULL;
    if (sums != NULL)
        (void)sums_save(sums, beside);
    sums_destroy(sums);
    if (fd >= 0)
        (void)close(fd);
    free(beside);
}
