/* What a worker is handed, above all for an errand. */
#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/handover.h"
#include "jobs/internal.h"
#include "plan/proof/verify_question.h"
#include "server.h"
#include "server_limits.h"
#include "store/files.h"
#include "store/store.h"

static_assert(SP_MAX_VERIFY_MODELS + SPD_MAX_VERIFY_FILES + HANDOVER_RESULTS + 2 <= SPD_MAX_JOB_FILES,
              "a question about models has room");

static char *copy(const char *path)
{
    return path != NULL ? strdup(path) : NULL;
}

static bool add_others(const struct server *server, const struct errand *errand, struct problem *problem)
{
    for (size_t i = 0; i < errand->other_count; i++) {
        char blob[STORE_BLOB_SIZE] = "";
        const enum store_found found = store_find_blob(server->store, NULL, errand->others[i], blob);
        if (found == STORE_ERROR)
            return problem_set(problem, 503, "STORE_UNAVAILABLE",
                               "The store does not answer at the moment; try again later.");
        if (!handover_add_input(errand->files, errand->others[i], files_blob(server->config->data, blob)))
            return problem_of_stored(problem, errno, "OPEN_FAILED", "a stored model");
    }
    return true;
}

static bool add_beside(const struct server *server, const struct errand *errand, struct problem *problem)
{
    for (size_t i = 0; i < errand->beside_count; i++) {
        const struct errand_file *file = &errand->beside[i];
        if (!handover_add_input(errand->files, file->name, files_blob(server->config->data, file->blob)))
            return problem_of_stored(problem, errno, "FILE_DAMAGED", "a file beside a stored model");
    }
    return true;
}

/* Files of models beside others, and beside models, that are open, of all errands: each may have hundreds. */
static atomic_uint beside;

static unsigned count_beside(const struct errand *errand)
{
    return (unsigned)(errand->other_count + errand->beside_count);
}

static bool reserve(const struct errand *errand, struct problem *problem)
{
    const unsigned count = count_beside(errand), open = atomic_fetch_add(&beside, count) + count;
    if (open <= SPD_MAX_FILES_BESIDE)
        return true;
    (void)atomic_fetch_sub(&beside, count);
    return problem_set_limit(problem, 503, "BUSY", "SPD_MAX_FILES_BESIDE", SPD_MAX_FILES_BESIDE, (int64_t)open,
                             "Too many models are compared with each other at this moment; try again later.");
}

void errand_close_files(struct errand *errand)
{
    if (errand->files == NULL)
        return;
    (void)atomic_fetch_sub(&beside, count_beside(errand));
    handover_destroy(errand->files);
    errand->files = NULL;
}

bool errand_prepare(const struct server *server, struct errand *errand, struct problem *problem)
{
    if (!reserve(errand, problem))
        return false;
    errand->files = handover_create();
    if (errand->files == NULL) {
        (void)atomic_fetch_sub(&beside, count_beside(errand));
        return problem_no_memory(problem);
    }
    errand->files->is_of_errand = true;
    bool ok = true;
    if (errand->model != NULL && !handover_add_input(errand->files, "model", copy(errand->model)))
        ok = problem_from_errno(problem, errno, "Opening the model");
    if (ok && errand->plan != NULL && !handover_add_input(errand->files, "plan", copy(errand->plan)))
        ok = problem_of_stored(problem, errno, "PLAN_DAMAGED", "the stored plan");
    ok = ok && add_others(server, errand, problem) && add_beside(server, errand, problem) &&
         handover_add_result(errand->files, "result", strdup(errand->output), problem);
    if (!ok)
        errand_close_files(errand);
    return ok;
}

struct handover *jobs_files(const struct task *task)
{
    return task->errand != NULL ? task->errand->files : task->order->handover;
}
