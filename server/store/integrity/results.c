/* Whole results: the sums of their files. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/files.h"
#include "store/integrity/internal.h"

/* What a worker writes of a plan, but for the sheet, which may be made again in another form. */
static const char *const names[] = {"annotated.splice", "plan.json", "plan.txt"};

#define SUMS_WORD "sums " /* in plan_row.files */

static struct stored_subject subject_of(const char *plan, int64_t attempt)
{
    struct stored_subject subject = {.kind = STORED_RESULT, .attempt = attempt};
    (void)snprintf(subject.id, sizeof subject.id, "%s", plan);
    (void)snprintf(subject.key, sizeof subject.key, "plans/%s/%lld", plan, (long long)attempt);
    return subject;
}

struct stored_subject stored_subject_of_plan(const struct plan_row *row)
{
    struct stored_subject subject = subject_of(row->id, row->attempts);
    if (row->files != NULL && strncmp(row->files, SUMS_WORD, strlen(SUMS_WORD)) == 0)
        (void)snprintf(subject.digest, sizeof subject.digest, "%.64s", row->files + strlen(SUMS_WORD));
    return subject;
}

static bool add_file(struct sums *sums, const char *path, const char *name, stored_pace pace, void *context)
{
    uint64_t size;
    const int fd = files_open_read(path, &size);
    if (fd < 0)
        return errno == ENOENT; /* sums of what is there: they have another digest then */
    bool ok = sums_begin(sums, name);
    int error = ENOMEM;
    if (ok) {
        ok = stored_sum_bytes(fd, sums, NULL, pace, context);
        error = errno;
    }
    (void)close(fd);
    errno = error;
    return ok;
}

/* Sums of the files as they are. NULL with errno. */
static struct sums *sum_result(const struct stored *stored, const struct stored_subject *subject, char ret_digest[65],
                               stored_pace pace, void *context)
{
    struct sums *sums = sums_create();
    bool ok = sums != NULL;
    int error = ENOMEM;
    for (size_t i = 0; ok && i < sizeof names / sizeof names[0]; i++) {
        char *path = files_plan_file(stored->options.data, subject->id, subject->attempt, names[i]);
        ok = path != NULL && add_file(sums, path, names[i], pace, context);
        error = path != NULL ? errno : ENOMEM;
        free(path);
    }
    if (ok && sums_end(sums, subject->id, ret_digest))
        return sums;
    sums_destroy(sums);
    errno = ok ? ENOMEM : error;
    return NULL;
}

static struct sums *make(struct stored *stored, const struct stored_subject *subject, const char *path,
                         stored_pace pace, void *context)
{
    char digest[65];
    struct sums *sums = sum_result(stored, subject, digest, pace, context);
    if (sums == NULL || subject->digest[0] == '\0' || strcmp(digest, subject->digest) == 0) {
        if (sums != NULL)
            stored_put_sums(stored, sums, path);
        return sums;
    }
    sums_destroy(sums);
    errno = EBADMSG;
    return NULL;
}

struct sums *stored_result_sums(struct stored *stored, const struct stored_subject *subject, stored_pace pace,
                                void *context)
{
    char *path = files_plan_file(stored->options.data, subject->id, subject->attempt, "sums");
    const char *digest = subject->digest[0] != '\0' ? subject->digest : NULL;
    errno = ENOMEM;
    struct sums *sums = path != NULL ? sums_load(path, subject->id, digest) : NULL;
    if (sums == NULL && path != NULL && (errno == ENOENT || errno == EBADMSG)) {
        if (pace == NULL) /* who takes their time lets nobody wait */
            (void)pthread_mutex_lock(&stored->sealing);
        sums = make(stored, subject, path, pace, context);
        if (pace == NULL)
            (void)pthread_mutex_unlock(&stored->sealing);
    }
    const int error = errno;
    free(path);
    errno = error;
    return sums;
}

char *stored_seal_result(struct stored *stored, const char *plan, int64_t attempt)
{
    const struct stored_subject subject = subject_of(plan, attempt);
    char digest[65], *text = NULL;
    struct sums *sums = sum_result(stored, &subject, digest, NULL, NULL);
    if (sums == NULL && errno == ENOMEM)
        return NULL;
    /* Without its JSON the folder may be away: nothing can be said. */
    const bool ok = sums != NULL && sums_find(sums, "plan.json") != NULL;
    char *path = ok ? files_plan_file(stored->options.data, plan, attempt, "sums") : NULL;
    if (path != NULL)
        stored_put_sums(stored, sums, path);
    free(path);
    sums_destroy(sums);
    path = files_plan_file(stored->options.data, plan, attempt, "plan.sheet");
    if (path != NULL)
        stored_seal_file(path, plan);
    free(path);
    return asprintf(&text, "%s%s%s", ok ? SUMS_WORD : "", ok ? digest : "", ok ? "\n" : "") >= 0 ? text : NULL;
}

/* One file of the result against its sums. The sums say which there are. */
static bool read_one(struct stored *stored, const struct stored_subject *subject, const char *name, stored_pace pace,
                     void *context)
{
    uint64_t size;
    struct sums *sums = stored_result_sums(stored, subject, pace, context);
    if (sums == NULL)
        return false;
    const bool expected = sums_find(sums, name) != NULL;
    char *path = expected ? files_plan_file(stored->options.data, subject->id, subject->attempt, name) : NULL;
    const int fd = expected ? files_open_read(path, &size) : -1;
    int error = errno;
    free(path);
    if (fd < 0) {
        sums_destroy(sums);
        errno = error;
        return !expected;
    }
    struct checked *checked = checked_create(fd, size, sums, name);
    const bool ok = checked != NULL && checked_read_all(checked, pace, context);
    error = errno;
    checked_destroy(checked);
    errno = error;
    return ok;
}

bool stored_read_result(struct stored *stored, const struct stored_subject *subject, stored_pace pace, void *context)
{
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof names / sizeof names[0]; i++)
        ok = read_one(stored, subject, names[i], pace, context);
    return ok;
}
