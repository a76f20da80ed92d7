#include "routes/slices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "http/respond.h"
#include "http/send.h"
#include "jobs/jobs.h"
#include "observe/log.h"
#include "routes/held.h"
#include "routes/indexes.h"
#include "routes/routes.h"
#include "store/files.h"
#include "store/integrity/stored.h"
#include "store/objects/results.h"

/* A slice on its way. */
struct slicing {
    const struct slice *slice;
    struct slice_asked asked;
    struct indexes *indexes;
    char etag[SLICE_HASH_SIZE];
    /* While a worker makes an index: */
    struct sliced *making;
    struct errand errand;
    char *model, *plan, *output;
    struct model_row model_row;
};

static void free_making(struct slicing *slicing)
{
    if (slicing->output != NULL)
        (void)unlink(slicing->output);
    store_release_model(&slicing->model_row);
    memset(&slicing->model_row, 0, sizeof slicing->model_row);
    free(slicing->model);
    free(slicing->output);
    free(slicing->plan);
    slicing->model = slicing->output = slicing->plan = NULL;
}

static void free_slicing(void *state)
{
    struct slicing *slicing = state;
    struct sliced *const plans[] = {&slicing->asked.plan, &slicing->asked.other};
    free_making(slicing);
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        indexes_release(slicing->indexes, plans[i]->index);
        if (plans[i]->has_row)
            store_release_plan(&plans[i]->row);
    }
    free(slicing);
}

static enum verdict no_memory(struct request *request)
{
    return respond_error(request, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
}

/* A plan's files go after its row, so they are no matter of a plan that was deleted meanwhile. */
static enum verdict refuse(struct request *request, const struct sliced *sliced, const struct problem *problem)
{
    if (problem->status >= 500 && store_find_plan(request->server->store, NULL, sliced->id) == STORE_NOT_FOUND)
        return plan_missing(request);
    return respond_problem(request, problem);
}

/* ---- making an index ---- */

static enum verdict go_on(struct request *request);

static char *file_of(const struct request *request, const struct sliced *sliced, const char *name)
{
    return files_plan_file(request->server->config->data, sliced->row.id, sliced->row.attempts, name);
}

/* Which index it is; false with a problem. */
static bool identify(const struct request *request, const struct sliced *sliced, struct index_of *ret_of,
                     struct problem *problem)
{
    struct stat stat_of;
    struct blob_file file;
    uint64_t size = 0;
    *ret_of = (struct index_of){sliced->row.id, sliced->row.attempts, 0};
    if (results_file(&sliced->row, "plan.json", &file, &size)) {
        ret_of->plan_size = size;
        return true;
    }
    char *path = file_of(request, sliced, "plan.json");
    const bool ok = path != NULL && stat(path, &stat_of) == 0;
    const int error = path != NULL ? errno : ENOMEM;
    free(path);
    if (!ok) /* what is lost is told as where it is read */
        return stored_check_result(request->server->stored, &sliced->row, problem) &&
               problem_of_stored(problem, error, "PLAN_DAMAGED", "the stored plan");
    ret_of->plan_size = (uint64_t)stat_of.st_size;
    return true;
}

/* The worker's file is the plan's from now on. Where that cannot be, it is made again some day. */
static void publish(const struct request *request, const struct slicing *slicing)
{
    char *path = file_of(request, slicing->making, "plan.sheet"), *sums = files_sums(path);
    if (sums != NULL)
        (void)unlink(sums); /* of the one before */
    if (sums != NULL && rename(slicing->output, path) != 0)
        LOG(LOG_WARNING, "sheet not kept", log_s("plan", slicing->making->row.id), log_i("errno", errno));
    free(sums);
    free(path);
}

static enum index_found open_made(const struct slicing *slicing, const struct index_of *of,
                                  const struct sp_index **ret_index, struct problem *problem)
{
    struct stream file;
    *ret_index = indexes_find(slicing->indexes, of); /* another request's was faster */
    if (*ret_index != NULL)
        return INDEX_OPEN;
    if (!send_open(slicing->output, &file)) {
        (void)problem_of_stored(problem, errno, "PLAN_DAMAGED", "what was made of the stored plan");
        return INDEX_REFUSED;
    }
    const enum index_found found = indexes_read(slicing->indexes, of, &file, ret_index, problem);
    file.release(file.context);
    return found;
}

static enum verdict made(struct request *request)
{
    struct slicing *slicing = request->state;
    struct sliced *sliced = slicing->making;
    struct problem problem = slicing->errand.problem;
    struct index_of of;
    enum index_found found = INDEX_REFUSED;
    if (problem.status == 0 && identify(request, sliced, &of, &problem))
        found = open_made(slicing, &of, &sliced->index, &problem);
    if (found == INDEX_MISSING) {
        jobs_refuse(request->server->jobs, &slicing->errand);
        (void)problem_set(&problem, 500, "PLAN_DAMAGED", "The stored plan and what is made of it do not fit together.");
    }
    if (found != INDEX_OPEN)
        return refuse(request, sliced, &problem);
    publish(request, slicing);
    free_making(slicing);
    return go_on(request);
}

static void errand_done(struct errand *errand)
{
    request_resume(errand->context);
}

static bool prepare(const struct request *request, struct slicing *slicing, const struct sliced *sliced)
{
    const char *data = request->server->config->data;
    slicing->plan = file_of(request, sliced, "plan.json");
    slicing->model = files_blob(data, slicing->model_row.blob);
    slicing->output = files_temporary(data, request->server->owner);
    return slicing->plan != NULL && slicing->model != NULL && slicing->output != NULL;
}

/* Has a worker make the index of a plan that has none. */
static enum verdict make(struct request *request, struct slicing *slicing, struct sliced *sliced)
{
    enum verdict verdict = held_result(request, &sliced->row, "plan.json", go_on);
    if (verdict != VERDICT_GO_ON)
        return verdict;
    enum store_found found =
        store_get_model(request->server->store, sliced->row.tenant, sliced->row.model, &slicing->model_row);
    if (found != STORE_DONE) /* a plan's model stays as long as the plan */
        return found == STORE_NOT_FOUND ? plan_missing(request) : store_is_away(request);
    struct problem problem = {0};
    if (!stored_check_result(request->server->stored, &sliced->row, &problem))
        return refuse(request, sliced, &problem);
    if (!prepare(request, slicing, sliced))
        return no_memory(request);
    slicing->making = sliced;
    slicing->errand = (struct errand){
        .kind = "sheet",
        .tenant = request->principal.tenant,
        .output = slicing->output,
        .request = request->request_id,
        .form = ANSWER_MODEL,
        .model = slicing->model,
        .id = sliced->row.model,
        .name = slicing->model_row.name,
        .sync = true,
        .apart = request_sees_all(request),
        .plan = slicing->plan,
        .done = errand_done,
        .context = request,
    };
    verdict = request_suspend(request, made);
    held_send(request, &slicing->errand);
    return verdict;
}

/* ---- the answer ---- */

static enum verdict write_answer(struct request *request, struct slicing *slicing)
{
    struct problem problem = {0};
    struct sp_buf buf;
    sp_buf_init(&buf, SPD_MAX_SLICE_BYTES);
    if (!slicing->slice->write(slicing->slice, &slicing->asked, &buf, &problem) && problem.status != 0) {
        sp_buf_release(&buf);
        return refuse(request, &slicing->asked.plan, &problem);
    }
    return respond_tagged(request, 200, "application/json", &buf, slicing->etag);
}
/* The index that is kept, or the one that is stored. */
static enum index_found open_stored(const struct request *request, const struct slicing *slicing, struct sliced *sliced,
                                    const struct index_of *of, struct problem *problem)
{
    sliced->index = indexes_find(slicing->indexes, of);
    if (sliced->index != NULL)
        return INDEX_OPEN;
    struct stored_file *sheet = stored_open_sheet(request->server->stored, &sliced->row, problem);
    if (sheet == NULL)
        return problem->status == 0 ? INDEX_MISSING : INDEX_REFUSED;
    const struct stream file = send_stream(sheet);
    const enum index_found found = indexes_read(slicing->indexes, of, &file, &sliced->index, problem);
    stored_close(sheet);
    return found;
}

/* Opens what is not open yet, one after the other, and answers when all is. */
static enum verdict go_on(struct request *request)
{
    struct slicing *slicing = request->state;
    struct sliced *const plans[] = {&slicing->asked.plan, &slicing->asked.other};
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        struct problem problem = {0};
        struct index_of of;
        if (!plans[i]->has_row || plans[i]->index != NULL)
            continue;
        const enum verdict verdict = held_result(request, &plans[i]->row, "plan.sheet", go_on);
        if (verdict != VERDICT_GO_ON)
            return verdict;
        if (!identify(request, plans[i], &of, &problem))
            return refuse(request, plans[i], &problem);
        const enum index_found found = open_stored(request, slicing, plans[i], &of, &problem);
        if (found == INDEX_REFUSED)
            return refuse(request, plans[i], &problem);
        if (found == INDEX_MISSING)
            return make(request, slicing, plans[i]);
    }
    const enum verdict verdict = slicing->slice->quotes_plan
                                     ? held_result(request, &slicing->asked.plan.row, "plan.json", go_on)
                                     : VERDICT_GO_ON;
    return verdict == VERDICT_GO_ON ? write_answer(request, slicing) : verdict;
}

/* ---- the question ---- */

/* VERDICT_GO_ON when the plan, if one is asked for, is there and has a result. */
static enum verdict look_up(struct request *request, struct sliced *sliced)
{
    if (sliced->id == NULL)
        return VERDICT_GO_ON;
    enum store_found found = store_get_plan(request->server->store, request_view(request), sliced->id, &sliced->row);
    if (found != STORE_DONE)
        return found == STORE_NOT_FOUND ? plan_missing(request) : store_is_away(request);
    sliced->has_row = true;
    if (!sliced->row.has_result)
        return respond_error(request, 409, "PLAN_NOT_READY", "The plan %s is %s; there is nothing to show of it.",
                             sliced->row.id, store_state_name(sliced->row.state));
    return VERDICT_GO_ON;
}

enum verdict slice_answer(struct request *request, const struct slice *slice)
{
    struct problem problem = {0};
    struct slicing *slicing = calloc(1, sizeof *slicing);
    if (slicing == NULL)
        return no_memory(request);
    request->state = slicing;
    request->free_state = free_slicing;
    slicing->slice = slice;
    slicing->indexes = request->server->indexes;
    slicing->asked.request = request;
    slicing->asked.plan.id = request->id;
    if (slice->read != NULL && !slice->read(slice, &slicing->asked, &problem))
        return respond_problem(request, &problem);
    enum verdict verdict = look_up(request, &slicing->asked.plan);
    if (verdict == VERDICT_GO_ON)
        verdict = look_up(request, &slicing->asked.other);
    if (verdict != VERDICT_GO_ON)
        return verdict;
    if (!slice_hash(&slicing->asked, false, slicing->etag))
        return no_memory(request);
    if (slice->read_page != NULL && !slice->read_page(slice, &slicing->asked, &problem))
        return respond_problem(request, &problem);
    request->modified = slicing->asked.plan.row.finished_at;
    if (slicing->asked.other.has_row && slicing->asked.other.row.finished_at > request->modified)
        request->modified = slicing->asked.other.row.finished_at;
    verdict = respond_if_known(request, "application/json", slicing->etag);
    return verdict == VERDICT_GO_ON ? go_on(request) : verdict;
}
