#include <stdlib.h>
#include <string.h>

#include "http/respond.h"
#include "jobs/jobs.h"
#include "plan/proof/verify_question.h"
#include "routes/ask.h"
#include "routes/routes.h"
#include "server.h"
#include "server_limits.h"
#include "uploads/beside.h"
#include "util/json_memory.h"
#include "util/text.h"
#include "worker/worker.h"

/*
 * POST /v1/verify: whether stored models together compute what a stored model computes.
 *
 * The body names models, and a worker knows no tenants; so it is read here, and the worker gets the files that are meant:
 * those of the models, and where weights are compared, those that lie beside them.
 */

#define ID_SIZE 65

static const struct ask verify = {.kind = "verify"};

enum verdict verify_begin(struct request *request)
{
    return ask_begin(request, &verify);
}

static bool no_id(struct problem *problem, const char *text)
{
    return problem_set(problem, 422, "BAD_REQUEST",
                       "'%.80s' is not the id of a stored model, 64 lower-case hexadecimal digits.", text);
}

static bool is_named(const struct ask_models *naming, const char *id)
{
    for (size_t i = 0; i < naming->count; i++) {
        if (strcmp(naming->ids[i], id) == 0)
            return true;
    }
    return false;
}

/* Each once. */
static bool name_ranks(const struct sp_verify_question *question, struct ask_models *naming, struct problem *problem)
{
    naming->ids = calloc(question->rank_count + 1, sizeof *naming->ids);
    if (naming->ids == NULL)
        return problem_no_memory(problem);
    for (uint32_t i = 0; i < question->rank_count; i++) {
        const char *id = question->ranks[i];
        if (!text_is_hex(id, ID_SIZE - 1))
            return no_id(problem, id);
        if (!is_named(naming, id))
            memcpy(naming->ids[naming->count++], id, ID_SIZE);
    }
    return true;
}

static bool read_naming(const struct request *request, struct ask_models *naming, bool *ret_weights,
                        struct problem *problem)
{
    json_error_t error;
    struct sp_error err = {0};
    struct sp_verify_question question;
    json_t *json = json_loadb(request->body.data != NULL ? request->body.data : "", request->body.size,
                              JSON_REJECT_DUPLICATES, &error);
    if (json == NULL)
        return problem_set(problem, 400, "MALFORMED_JSON", "The body is not JSON (line %d, column %d): %s.", error.line,
                           error.column, error.text);
    struct sp_arena *arena = sp_arena_create(NULL);
    bool ok = arena != NULL || problem_no_memory(problem);
    if (ok && sp_verify_question_parse(arena, json, &question, &err) != SP_OK) {
        problem_from_error(problem, &err);
        ok = false;
    }
    if (ok && !text_is_hex(question.original, ID_SIZE - 1))
        ok = no_id(problem, question.original);
    if (ok) {
        (void)snprintf(naming->original, sizeof naming->original, "%s", question.original);
        *ret_weights = question.weights;
    }
    ok = ok && name_ranks(&question, naming, problem);
    sp_arena_destroy(arena);
    json_decref(json);
    return ok;
}

/* ---- files beside the models ---- */

static bool add_files(struct ask_models *naming, const char *id, const struct beside *beside, struct problem *problem)
{
    const size_t count = naming->file_count + beside->count;
    if (count > SPD_MAX_VERIFY_FILES)
        return problem_set_limit(problem, 422, "TOO_MANY_FILES", "SPD_MAX_VERIFY_FILES", SPD_MAX_VERIFY_FILES,
                                 (int64_t)count,
                                 "More than %u files lie beside these models; compare the weights of fewer ranks at a "
                                 "time, or with the command, which reads files in a folder.",
                                 SPD_MAX_VERIFY_FILES);
    struct errand_file *files = reallocarray(naming->files, count + 1, sizeof *files);
    if (files == NULL)
        return problem_no_memory(problem);
    naming->files = files;
    for (size_t i = 0; i < beside->count; i++) {
        const struct beside_file *from = &beside->files[i];
        struct errand_file *file = &files[naming->file_count++];
        if (!worker_name_beside(id, from->location, file->name))
            return problem_no_memory(problem);
        memcpy(file->blob, from->blob, sizeof file->blob);
        file->bytes = from->bytes;
    }
    return true;
}

/* What lies beside a model that the request sees; a model that is not there is found out by who asks about it. */
static bool name_files(struct request *request, struct ask_models *naming, const char *id, struct problem *problem)
{
    struct model_row row;
    struct beside beside;
    if (store_get_model(request->server->store, request_view(request), id, &row) != STORE_DONE)
        return true;
    const bool ok =
        beside_load(request->server, row.tenant, id, &beside, problem) && add_files(naming, id, &beside, problem);
    beside_release(&beside);
    store_release_model(&row);
    return ok;
}

static bool name_all_files(struct request *request, struct ask_models *naming, struct problem *problem)
{
    bool ok = name_files(request, naming, naming->original, problem);
    for (size_t i = 0; ok && i < naming->count; i++) {
        if (strcmp(naming->ids[i], naming->original) != 0)
            ok = name_files(request, naming, naming->ids[i], problem);
    }
    return ok;
}

enum verdict verify_finish(struct request *request)
{
    struct problem problem = {0};
    struct ask_models naming = {0};
    bool weights = false;
    (void)json_memory_was_short(); /* of an earlier request */
    bool ok = read_naming(request, &naming, &weights, &problem);
    if (json_memory_was_short()) { /* what was found wrong may be what there was no memory for */
        problem = (struct problem){0};
        ok = problem_no_memory(&problem);
    }
    if (ok && weights)
        ok = name_all_files(request, &naming, &problem);
    if (ok)
        return ask_about_models(request, &verify, &naming);
    free(naming.ids);
    free(naming.files);
    return respond_problem(request, &problem);
}
