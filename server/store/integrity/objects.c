/* What becomes of objects that are wrong, or that the object store lost. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "observe/log.h"
#include "store/blobs.h"
#include "store/files.h"
#include "store/integrity/internal.h"
#include "store/integrity/quarantine.h"
#include "store/objects/results.h"
#include "util/text.h"

struct lost {
    struct stored *stored;
    struct stored_subject subject;
    const char *what, *how;
    const char *wrong; /* NULL: missing */
};

static bool is_inspection(const char *key)
{
    const size_t length = strlen(key);
    return length > 5 && strcmp(key + length - 5, ".json") == 0;
}

/* Keeps what was fetched. */
static void put_away(const struct lost *lost)
{
    const struct stored_options *options = &lost->stored->options;
    const struct quarantined quarantined = {lost->wrong, lost->what, lost->subject.id, lost->how,
                                            store_time(options->store)};
    if (lost->wrong != NULL)
        (void)quarantine_take(options->data, &quarantined, options->quarantine_bytes);
}

/* The object goes, so that every daemon sees that it is not there, and an upload puts another one in its place. */
static void lose_model(const struct lost *lost)
{
    const struct stored_options *options = &lost->stored->options;
    struct problem problem = {0};
    if (lost->wrong != NULL && !blobs_delete(options->blobs, lost->subject.key, &problem))
        LOG(LOG_WARNING, "object not removed", log_s("object", lost->subject.key), log_s("detail", problem.detail));
    char blob[STORE_BLOB_SIZE];
    if (lost->wrong == NULL && store_find_model(options->store, NULL, lost->subject.id) != STORE_DONE &&
        store_find_file(options->store, lost->subject.id, blob) != STORE_DONE)
        return; /* it was deleted meanwhile */
    put_away(lost);
    stored_tell(lost->stored, lost->what, &lost->subject, lost->how, "until it is sent again");
}

/* All of the result goes, the objects and the copies. */
static void lose_result(const struct lost *lost)
{
    const struct stored_options *options = &lost->stored->options;
    if (!stored_lose_result(lost->stored, &lost->subject))
        return; /* deleted, told before, or the store is away */
    put_away(lost);
    files_remove_attempts(options->data, lost->subject.id, lost->subject.attempt + 1);
    results_remove(options->blobs, lost->subject.id, lost->subject.attempt + 1);
    stored_tell(lost->stored, lost->what, &lost->subject, lost->how, "the plan has failed");
}

/* The attempt of plans/ID/ATTEMPT/NAME. */
static int64_t attempt_of(const char *key)
{
    char digits[24];
    int64_t attempt = -1;
    const char *from = key + strlen("plans/") + STORE_ID_SIZE;
    (void)snprintf(digits, sizeof digits, "%.*s", (int)strcspn(from, "/"), from);
    return text_to_int(digits, 0, INT64_MAX, &attempt) ? attempt : -1;
}

void stored_lose_object(struct stored *stored, const struct blob_file *file, const char *wrong, struct problem *problem)
{
    struct lost lost = {.stored = stored,
                        .subject = stored_subject_of_file(file),
                        .how = wrong != NULL ? "changed" : "missing",
                        .wrong = wrong};
    const bool is_result = lost.subject.kind == STORED_RESULT_COPY;
    lost.what = is_result ? "result" : is_inspection(file->key) ? "inspection" : "model";
    if (blobs_look(stored->options.blobs, problem)) {
        if (is_result) {
            lost.subject.attempt = attempt_of(file->key);
            lose_result(&lost);
            (void)problem_set(problem, 500, "PLAN_DAMAGED",
                              "The stored result of this plan is missing or damaged; submit the request again.");
        } else {
            lose_model(&lost);
            (void)problem_set(problem, 500, "MODEL_DAMAGED",
                              "What is stored of this model is missing or damaged (the object store's %s of it); send "
                              "the same model again.",
                              is_inspection(file->key) ? "inspection" : "file");
        }
    }
    if (wrong != NULL)
        (void)unlink(wrong); /* unless it was put away */
}
