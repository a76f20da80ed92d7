#include "routes/held.h"

#include <stdlib.h>
#include <string.h>

#include "http/respond.h"
#include "store/blobs.h"
#include "store/store.h"

struct held {
    struct transfer transfer;
    struct request *request;
    struct errand *errand; /* to be sent afterwards, or NULL */
    struct problem problem;
    size_t count;
    struct held_file {
        char blob[STORE_BLOB_SIZE];
        struct blob_hold hold;
    } files[];
};

void held_destroy(struct held *held)
{
    if (held == NULL)
        return;
    for (size_t i = 0; i < held->count; i++)
        blobs_release(&held->files[i].hold);
    free(held);
}

/* Takes the place of what the request held before. NULL without memory. */
static struct held *new_held(struct request *request, struct errand *errand, size_t room)
{
    struct held *held = calloc(1, sizeof *held + room * sizeof held->files[0]);
    held_destroy(request->held);
    request->held = held;
    if (held == NULL)
        return NULL;
    held->request = request;
    held->errand = errand;
    return held;
}

/* A model that is gone has no file: whoever reads it will see. */
static void add_file(struct held *held, const char *id)
{
    (void)store_find_blob(held->request->server->store, NULL, id, held->files[held->count++].blob);
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
    for (size_t i = 0; ok && i < held->count; i++)
        ok = blobs_hold(request->server->blobs, held->files[i].blob, &held->files[i].hold, &held->problem);
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

void held_send(struct request *request, struct errand *errand, const char (*others)[65], size_t count)
{
    struct problem problem = {0};
    bool has_own = errand->model != NULL && !errand->is_upload;
    struct held *held = NULL;
    if (blobs_are_remote(request->server->blobs) && (has_own || count > 0)) {
        held = new_held(request, errand, count + 1);
        if (held == NULL)
            (void)problem_no_memory(&problem);
    }
    if (held == NULL) {
        hand_on(request, errand, &problem);
        return;
    }
    if (has_own)
        add_file(held, errand->id);
    for (size_t i = 0; i < count; i++)
        add_file(held, others[i]);
    begin(held);
}

enum verdict held_bring(struct request *request, const char *id)
{
    struct held *held = request->held;
    if (!blobs_are_remote(request->server->blobs))
        return VERDICT_GO_ON;
    if (held != NULL && held->count == 1 && strncmp(held->files[0].blob, id, 64) == 0)
        return held->problem.status == 0 ? VERDICT_GO_ON : respond_problem(request, &held->problem);
    if (store_find_model(request->server->store, request_view(request), id) != STORE_DONE)
        return VERDICT_GO_ON;
    held = new_held(request, NULL, 1);
    if (held == NULL)
        return respond_error(request, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    add_file(held, id);
    if (blobs_hold_copy(request->server->blobs, held->files[0].blob, &held->files[0].hold))
        return VERDICT_GO_ON;
    enum verdict verdict = request_suspend(request, request->route->finish);
    begin(held);
    return verdict;
}
