#include "routes/held.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/respond.h"
#include "store/integrity/stored.h"
#include "store/objects/results.h"

/* A file, and who keeps its copy. */
struct held_file {
    struct blob_file file;
    struct blob_hold hold;
};

struct held {
    struct held *before; /* what the request has held before */
    struct transfer transfer;
    struct request *request;
    struct errand *errand; /* to be sent afterwards, or NULL */
    enum verdict (*step)(struct request *request);
    char plan[STORE_ID_SIZE]; /* whose file it is, or "" */
    bool tries;               /* a file that the object store lacks is no problem, and none is held */
    struct problem problem;
    size_t count;
    struct held_file files[];
};

void held_destroy(struct held *held)
{
    while (held != NULL) {
        struct held *before = held->before;
        for (size_t i = 0; i < held->count; i++)
            blobs_release(&held->files[i].hold);
        free(held);
        held = before;
    }
}

/* NULL without memory. */
static struct held *new_held(struct request *request, struct errand *errand, size_t room)
{
    struct held *held = calloc(1, sizeof *held + room * sizeof held->files[0]);
    if (held == NULL)
        return NULL;
    held->before = request->held;
    request->held = held;
    held->request = request;
    held->errand = errand;
    return held;
}

/* A model that is gone has no file: whoever reads it will see. */
static bool add_model(struct held *held, const char *id, struct problem *problem)
{
    struct model_row row;
    const enum store_found found = store_get_model(held->request->server->store, NULL, id, &row);
    if (found == STORE_ERROR)
        return problem_set(problem, 503, "STORE_UNAVAILABLE",
                           "The store does not answer at the moment; try again later.");
    if (found != STORE_DONE)
        return true;
    held->files[held->count++].file = blobs_model(row.blob, (uint64_t)row.bytes);
    store_release_model(&row);
    return true;
}

static void add_beside(struct held *held, const struct errand_file *file)
{
    held->files[held->count++].file = blobs_model(file->blob, (uint64_t)file->bytes);
}

static void hand_on(struct request *request, struct errand *errand, struct problem *problem)
{
    if (problem->status == 0 && jobs_send(request->server->jobs, errand, problem))
        return;
    errand->problem = *problem;
    request_resume(request);
}

/* In a thread of the blobs. */
static void bring_all(struct transfer *transfer)
{
    struct held *held = transfer->context;
    struct request *request = held->request;
    bool ok = true;
    for (size_t i = 0; ok && i < held->count; i++) {
        struct held_file *one = &held->files[i];
        struct problem problem = {0};
        ok = one->hold.is_held || stored_hold(request->server->stored, &one->file, &one->hold, &problem);
        if (held->tries)
            blobs_release(&one->hold);
        if (held->tries && problem.status == 500)
            ok = true;
        else if (!ok)
            held->problem = problem;
    }
    if (held->errand != NULL)
        hand_on(request, held->errand, &held->problem);
    else
        request_resume(request);
}

static void begin(struct held *held)
{
    held->transfer = (struct transfer){.run = bring_all, .context = held};
    blobs_send(held->request->server->blobs, &held->transfer);
}

void held_send(struct request *request, struct errand *errand)
{
    const size_t count = errand->other_count + errand->beside_count;
    struct problem problem = {0};
    bool has_own = errand->model != NULL && !errand->is_upload;
    struct held *held = NULL;
    if (has_own || count > 0) {
        held = new_held(request, errand, count + 1);
        if (held == NULL)
            (void)problem_no_memory(&problem);
    }
    bool ok = held != NULL && (!has_own || add_model(held, errand->id, &problem));
    for (size_t i = 0; ok && i < errand->other_count; i++)
        ok = add_model(held, errand->others[i], &problem);
    for (size_t i = 0; ok && i < errand->beside_count; i++)
        add_beside(held, &errand->beside[i]);
    if (ok)
        begin(held);
    else
        hand_on(request, errand, &problem);
}

/* ---- files that an answer is made of ---- */

/* What was asked for before, or NULL. */
static const struct held *find(const struct request *request, const struct blob_file *files, size_t count)
{
    for (const struct held *held = request->held; held != NULL; held = held->before) {
        size_t same = 0;
        while (held->count == count && same < count && strcmp(held->files[same].file.key, files[same].key) == 0)
            same++;
        if (held->count == count && same == count)
            return held;
    }
    return NULL;
}

/* A result that was found wrong has none any more by now: what was wrong is said all the same. */
static enum verdict came(struct request *request)
{
    const struct held *held = request->held;
    if (held->plan[0] != '\0' && held->problem.status != 0 &&
        store_find_plan(request->server->store, NULL, held->plan) == STORE_DONE)
        return respond_problem(request, &held->problem);
    return held->step(request);
}

/* `plan`: whose files they are, or "". */
static enum verdict bring(struct request *request, const struct blob_file *files, size_t count, const char *plan,
                          bool tries, enum verdict (*step)(struct request *request))
{
    const struct held *known = find(request, files, count);
    if (count == 0)
        return VERDICT_GO_ON;
    if (known != NULL)
        return known->problem.status == 0 ? VERDICT_GO_ON : respond_problem(request, &known->problem);
    struct held *held = new_held(request, NULL, count);
    if (held == NULL)
        return respond_error(request, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    held->tries = tries;
    held->step = step;
    (void)snprintf(held->plan, sizeof held->plan, "%s", plan);
    bool is_here = true;
    for (; held->count < count; held->count++) {
        struct held_file *one = &held->files[held->count];
        one->file = files[held->count];
        is_here = stored_has_sums(request->server->stored, &one->file) &&
                  blobs_hold_copy(request->server->blobs, &one->file, &one->hold) && is_here;
        if (tries)
            blobs_release(&one->hold);
    }
    if (is_here)
        return VERDICT_GO_ON;
    enum verdict verdict = request_suspend(request, came);
    begin(held);
    return verdict;
}

enum verdict held_model(struct request *request, const char *id, enum verdict (*step)(struct request *request))
{
    struct model_row row;
    if (store_get_model(request->server->store, request_view(request), id, &row) != STORE_DONE)
        return VERDICT_GO_ON;
    const struct blob_file file = blobs_model(row.blob, (uint64_t)row.bytes);
    store_release_model(&row);
    return bring(request, &file, 1, "", false, step);
}

enum verdict held_inspection(struct request *request, const struct model_row *row,
                             enum verdict (*step)(struct request *request))
{
    if (row->inspection_sha256[0] == '\0')
        return VERDICT_GO_ON;
    const struct blob_file file = blobs_inspection(row->inspection, row->inspection_sha256);
    return bring(request, &file, 1, "", false, step);
}

enum verdict held_result(struct request *request, const struct plan_row *row, const char *name,
                         enum verdict (*step)(struct request *request))
{
    struct blob_file file;
    if (!results_file(row, name, &file, NULL))
        return VERDICT_GO_ON;
    const struct held *known = find(request, &file, 1);
    if (known != NULL && known->problem.status != 0 &&
        store_find_plan(request->server->store, NULL, row->id) == STORE_NOT_FOUND)
        return VERDICT_GO_ON;
    return bring(request, &file, 1, row->id, false, step);
}

enum verdict held_files(struct request *request, const struct blob_file *files, size_t count,
                        enum verdict (*step)(struct request *request))
{
    return bring(request, files, count, "", false, step);
}

enum verdict held_try(struct request *request, const struct blob_file *files, size_t count,
                      enum verdict (*step)(struct request *request))
{
    return bring(request, files, count, "", true, step);
}
