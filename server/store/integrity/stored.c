#include "store/integrity/stored.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server_limits.h"
#include "store/files.h"
#include "store/integrity/internal.h"
#include "store/objects/results.h"

struct stored_file {
    struct stored *stored;
    struct stored_subject subject;
    struct checked *checked;
    int fd; /* the checked one's */
};

struct stored *stored_create(const struct stored_options *options)
{
    struct stored *stored = calloc(1, sizeof *stored);
    if (stored == NULL)
        return NULL;
    stored->options = *options;
    (void)pthread_mutex_init(&stored->sealing, NULL);
    return stored;
}

void stored_destroy(struct stored *stored)
{
    if (stored == NULL)
        return;
    (void)pthread_mutex_destroy(&stored->sealing);
    free(stored);
}

/* ---- opening ---- */

/* The sums of a file that stands alone: those beside it, or made now. */
static struct sums *sums_beside(struct stored *stored, const char *path, int fd, const struct stored_subject *subject)
{
    char *beside = files_sums(path), sha[65];
    if (beside == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    const bool is_known = subject->sha256[0] != '\0';
    const char *of = is_known ? subject->sha256 : subject->id;
    struct sums *sums = sums_load(beside, of, NULL);
    if (sums == NULL && (errno == ENOENT || (errno == EBADMSG && is_known))) {
        (void)pthread_mutex_lock(&stored->sealing);
        sums = stored_sum_file(fd, of, is_known ? sha : NULL, NULL, NULL);
        if (sums != NULL && is_known && strcmp(sha, subject->sha256) != 0) {
            sums_destroy(sums);
            sums = NULL;
            errno = EBADMSG;
        } else if (sums != NULL) {
            stored_put_sums(stored, sums, beside);
        }
        (void)pthread_mutex_unlock(&stored->sealing);
    }
    const int error = errno;
    free(beside);
    errno = error;
    return sums;
}

static struct sums *sums_of(struct stored *stored, const char *path, int fd, const struct stored_subject *subject)
{
    return subject->kind == STORED_RESULT ? stored_result_sums(stored, subject, NULL, NULL)
                                          : sums_beside(stored, path, fd, subject);
}

/* Reads the first piece too: what is wrong there is known before an answer begins. */
static struct checked *open_checked(struct stored *stored, const struct stored_subject *subject, const char *path,
                                    const char *name, int *ret_fd)
{
    uint64_t size;
    char first;
    const int fd = files_open_read(path, &size);
    *ret_fd = fd;
    struct sums *sums = fd >= 0 ? sums_of(stored, path, fd, subject) : NULL;
    const int kept = sums != NULL ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    struct checked *checked = kept >= 0 ? checked_create(kept, size, sums, name) : NULL;
    if (sums != NULL && kept < 0)
        sums_destroy(sums);
    if (checked == NULL || size == 0 || checked_read(checked, 0, &first, 1))
        return checked;
    const int error = errno;
    checked_destroy(checked);
    errno = error;
    return NULL;
}

/* DATA/KEY, and of a result the file in that folder. NULL without memory. */
static char *path_of(const struct stored *stored, const struct stored_subject *subject, const char *name)
{
    char *path = NULL;
    const bool is_folder = subject->kind == STORED_RESULT;
    return subject->key[0] != '\0' &&
                   asprintf(&path, "%s/%s%s%s", stored->options.data, subject->key, is_folder ? "/" : "", name) >= 0
               ? path
               : NULL;
}

static struct stored_file *open_file(struct stored *stored, const struct stored_subject *subject, const char *name,
                                     struct problem *problem)
{
    struct stored_file *file = calloc(1, sizeof *file);
    char *path = path_of(stored, subject, name);
    int fd = -1;
    struct checked *checked = file != NULL && path != NULL ? open_checked(stored, subject, path, name, &fd) : NULL;
    const int error = file != NULL && path != NULL ? errno : ENOMEM;
    free(path);
    if (checked != NULL) {
        *file = (struct stored_file){stored, *subject, checked, fd};
        return file;
    }
    stored_refuse(stored, subject, fd, error, problem);
    if (fd >= 0)
        (void)close(fd);
    free(file);
    errno = error;
    return NULL;
}

struct stored_file *stored_open_model(struct stored *stored, const char *blob, struct problem *problem)
{
    const struct blob_file file = blobs_model(blob, BLOB_ANY_SIZE);
    const struct stored_subject subject = stored_subject_of_file(&file);
    return open_file(stored, &subject, "", problem);
}

static struct stored_subject inspection_of(const struct stored *stored, const struct model_row *row)
{
    struct stored_subject subject = {.kind = STORED_INSPECTION};
    if (row->inspection_sha256[0] != '\0') {
        const struct blob_file file = blobs_inspection(row->inspection, row->inspection_sha256);
        subject = stored_subject_of_file(&file);
    }
    (void)snprintf(subject.id, sizeof subject.id, "%s", row->id);
    char *path = files_inspection(stored->options.data, row->tenant, row->inspection);
    if (path != NULL)
        (void)snprintf(subject.key, sizeof subject.key, "%s", path + strlen(stored->options.data) + 1);
    free(path);
    return subject;
}

struct stored_file *stored_open_inspection(struct stored *stored, const struct model_row *row, struct problem *problem)
{
    const struct stored_subject subject = inspection_of(stored, row);
    return open_file(stored, &subject, "", problem);
}

struct stored_file *stored_open_result(struct stored *stored, const struct plan_row *row, const char *name,
                                       struct problem *problem)
{
    struct blob_file file;
    const bool is_copy = results_file(row, name, &file, NULL);
    const struct stored_subject subject = is_copy ? stored_subject_of_file(&file) : stored_subject_of_plan(row);
    return open_file(stored, &subject, is_copy ? "" : name, problem);
}

struct stored_file *stored_open_sheet(struct stored *stored, const struct plan_row *row, struct problem *problem)
{
    struct blob_file copy;
    if (results_file(row, "plan.sheet", &copy, NULL))
        return stored_open_result(stored, row, "plan.sheet", problem);
    struct stored_subject subject = {.kind = STORED_SHEET};
    (void)snprintf(subject.id, sizeof subject.id, "%s", row->id);
    (void)snprintf(subject.key, sizeof subject.key, "plans/%s/%lld/plan.sheet", row->id, (long long)row->attempts);
    struct stored_file *sheet = open_file(stored, &subject, "", problem);
    if (sheet == NULL && stored_is_damage(errno))
        *problem = (struct problem){0};
    return sheet;
}

/* ---- reading ---- */

uint64_t stored_size(const struct stored_file *file)
{
    return checked_size(file->checked);
}

bool stored_read(struct stored_file *file, uint64_t offset, void *bytes, size_t size)
{
    if (checked_read(file->checked, offset, bytes, size))
        return true;
    const int error = errno;
    if (stored_is_damage(error))
        (void)stored_condemn(file->stored, &file->subject, file->fd, error);
    errno = error;
    return false;
}

void stored_close(struct stored_file *file)
{
    if (file == NULL)
        return;
    checked_destroy(file->checked);
    (void)close(file->fd);
    free(file);
}

/* ---- reading whole ---- */

static bool read_small(struct stored *stored, const struct stored_subject *subject)
{
    int fd = -1;
    char *path = path_of(stored, subject, "");
    struct checked *checked = path != NULL ? open_checked(stored, subject, path, "", &fd) : NULL;
    bool ok = checked != NULL && checked_size(checked) <= SPD_CHECK_WHOLE_BYTES;
    ok = ok && checked_read_all(checked, NULL, NULL);
    checked_destroy(checked);
    if (fd >= 0)
        (void)close(fd);
    free(path);
    return ok;
}

bool stored_check_result(struct stored *stored, const struct plan_row *row, struct problem *problem)
{
    const struct stored_subject subject = stored_subject_of_plan(row);
    struct blob_file file;
    if (results_file(row, "plan.json", &file, NULL))
        return true; /* what the folder has are copies, which are checked when they are held */
    if (stored_read_result(stored, &subject, NULL, NULL))
        return true;
    stored_refuse(stored, &subject, -1, errno, problem);
    return false;
}

bool stored_is_whole(struct stored *stored, const struct model_row *row)
{
    const struct blob_file file = blobs_model(row->blob, (uint64_t)row->bytes);
    const struct stored_subject model = stored_subject_of_file(&file), inspection = inspection_of(stored, row);
    return read_small(stored, &model) && read_small(stored, &inspection);
}
