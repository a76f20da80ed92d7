/* What becomes of what is wrong. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "observe/log.h"
#include "store/blobs.h"
#include "store/files.h"
#include "store/folder.h"
#include "store/integrity/internal.h"
#include "store/integrity/quarantine.h"

#define PLAN_LOST                                                                                                      \
    "{\"status\":500,\"code\":\"PLAN_DAMAGED\",\"detail\":\"The stored result of this plan is missing or damaged; "    \
    "submit the request again.\"}"

struct stored_subject stored_subject_of_file(const struct blob_file *file)
{
    struct stored_subject subject = {.kind = strncmp(file->key, "blobs/", 6) == 0 ? STORED_MODEL : STORED_RESULT_COPY};
    (void)snprintf(subject.key, sizeof subject.key, "%s", file->key);
    (void)snprintf(subject.sha256, sizeof subject.sha256, "%s", file->sha256);
    if (subject.kind == STORED_MODEL) /* or its inspection: blobs/ab/cdef.. */
        (void)snprintf(subject.id, sizeof subject.id, "%.2s%.62s", file->key + 6, file->key + 9);
    else /* plans/ID/ATTEMPT/NAME */
        (void)snprintf(subject.id, sizeof subject.id, "%.*s", STORE_ID_SIZE - 1, file->key + 6);
    return subject;
}

static bool is_copy(const struct stored *stored, const struct stored_subject *subject)
{
    return subject->kind == STORED_RESULT_COPY ||
           (subject->kind == STORED_MODEL && blobs_are_remote(stored->options.blobs));
}

static const char *name_of(const struct stored *stored, const struct stored_subject *subject)
{
    static const char *const names[] = {"model", "inspection", "result", "copy", "sheet"};
    return is_copy(stored, subject) ? "copy" : names[subject->kind];
}

void stored_tell(const struct stored *stored, const char *what, const struct stored_subject *subject, const char *how,
                 const char *became)
{
    LOG(LOG_ERROR, "stored file wrong", log_s("what", what), log_s("id", subject->id), log_s("how", how),
        log_s("became", became));
    if (stored->options.found != NULL)
        stored->options.found(stored->options.context, what, how);
}

static void tell(const struct stored *stored, const struct stored_subject *subject, const char *how, const char *became)
{
    stored_tell(stored, name_of(stored, subject), subject, how, became);
}

/* Whether the path still names the file that was read: another one may have taken its place. */
static bool is_same(const char *path, int fd)
{
    struct stat now, found;
    return lstat(path, &now) == 0 && fstat(fd, &found) == 0 && now.st_ino == found.st_ino && now.st_dev == found.st_dev;
}

/* Whether it has been moved away. */
static bool put_away(struct stored *stored, const struct stored_subject *subject, const char *path, const char *how)
{
    const struct quarantined quarantined = {path, name_of(stored, subject), subject->id, how,
                                            store_time(stored->options.store)};
    return quarantine_take(stored->options.data, &quarantined, stored->options.quarantine_bytes);
}

/* A file that stands alone. Its name never means another file (files.h), but a copy's: that is another one's then. */
static bool condemn_file(struct stored *stored, const struct stored_subject *subject, int fd, const char *how)
{
    char *path = files_at(stored->options.data, subject->key), *beside = files_sums(path);
    const bool ok = beside != NULL && is_same(path, fd) && put_away(stored, subject, path, how);
    if (ok)
        (void)unlink(beside);
    free(beside);
    free(path);
    return ok;
}

bool stored_lose_result(struct stored *stored, const struct stored_subject *subject)
{
    return store_lose_result(stored->options.store, subject->id, subject->attempt, PLAN_LOST) == STORE_CHANGED;
}

static bool condemn_result(struct stored *stored, const struct stored_subject *subject, const char *how)
{
    if (!stored_lose_result(stored, subject))
        return false; /* deleted, told before, or the store is away */
    char *path = files_at(stored->options.data, subject->key);
    if (path != NULL)
        (void)put_away(stored, subject, path, how);
    free(path);
    return true;
}

/* Whether it is there. False with errno. */
static bool look_again(struct stored *stored, const struct stored_subject *subject)
{
    if (subject->kind == STORED_RESULT)
        return stored_read_result(stored, subject, NULL, NULL);
    char *path = files_at(stored->options.data, subject->key);
    errno = ENOMEM;
    const bool is_there = path != NULL && access(path, F_OK) == 0;
    const int error = errno;
    free(path);
    errno = error;
    return is_there;
}

/* Whether it is wrong in a folder that is there. A folder that was away, or another one in its place, looks like lost files
   for a moment: they are looked at again. False with a problem that says to try again. */
static bool is_certain(struct stored *stored, const struct stored_subject *subject, int fd, struct problem *problem)
{
    if (!folder_look(stored->options.folder, problem))
        return false;
    if (fd >= 0)
        return true;
    errno = 0;
    if (look_again(stored, subject))
        return problem_from_errno(problem, EIO, "Reading what is stored");
    return stored_is_damage(errno) || problem_from_errno(problem, errno, "Reading what is stored");
}

static bool condemn(struct stored *stored, const struct stored_subject *subject, int fd, int error)
{
    const char *how = error == EBADMSG ? "changed" : "missing";
    if (subject->kind == STORED_RESULT) {
        if (!condemn_result(stored, subject, how))
            return false;
        tell(stored, subject, how, "the plan has failed");
        return true;
    }
    if (fd < 0) { /* nothing is there to be moved: as long as the tenant has it, that is worth a word */
        if (!is_copy(stored, subject) && subject->kind != STORED_SHEET &&
            store_find_model(stored->options.store, NULL, subject->id) == STORE_DONE)
            tell(stored, subject, how, "until it is sent again");
        return true;
    }
    if (!condemn_file(stored, subject, fd, how))
        return false;
    tell(stored, subject, how, "quarantined");
    return true;
}

bool stored_condemn(struct stored *stored, const struct stored_subject *subject, int fd, int error)
{
    struct problem problem = {0};
    return is_certain(stored, subject, fd, &problem) && condemn(stored, subject, fd, error);
}

/* ---- what is said ---- */

bool stored_is_damage(int error)
{
    return error == EBADMSG || error == ENOENT || error == ENOTDIR || error == ELOOP || error == EINVAL;
}

static void describe(const struct stored *stored, const struct stored_subject *subject, int error,
                     struct problem *problem)
{
    static const char *const whats[] = {"the file of this model", "the stored inspection of this model",
                                        "the result of this plan", "the result of this plan",
                                        "what is shown of this plan"};
    if (!stored_is_damage(error)) {
        char reading[96];
        (void)snprintf(reading, sizeof reading, "Reading %s", whats[subject->kind]);
        (void)problem_from_errno(problem, error, reading);
    } else if (is_copy(stored, subject)) {
        (void)problem_set(problem, 503, "COPY_DAMAGED",
                          "The copy of what the object store has is missing or damaged (%s) and is fetched again; send "
                          "the request again.",
                          whats[subject->kind]);
    } else if (subject->kind == STORED_RESULT || subject->kind == STORED_SHEET) {
        (void)problem_set(problem, 500, "PLAN_DAMAGED",
                          "The stored result of this plan is missing or damaged; submit the request again.");
    } else {
        (void)problem_set(problem, 500, "MODEL_DAMAGED",
                          "What is stored of this model is missing or damaged (%s); send the same model again.",
                          whats[subject->kind]);
    }
}

void stored_refuse(struct stored *stored, const struct stored_subject *subject, int fd, int error,
                   struct problem *problem)
{
    if (stored_is_damage(error)) {
        if (!is_certain(stored, subject, fd, problem))
            return;
        (void)condemn(stored, subject, fd, error);
    }
    describe(stored, subject, error, problem);
}
