#include <stdlib.h>
#include <string.h>

#include "http/respond.h"
#include "plan/proof/verify_question.h"
#include "routes/ask.h"
#include "routes/routes.h"
#include "store/files.h"
#include "util/json_memory.h"
#include "util/text.h"

/*
 * POST /v1/verify: whether stored models together compute what a stored model computes.
 *
 * The body names models, and a worker knows no tenants; so it is read here, and the worker is told which files are meant:
 * {"question": the body, "files": {ID: PATH}}.
 */

#define ID_SIZE 65

static const struct ask verify = {.kind = "verify"};

enum verdict verify_begin(struct request *request)
{
    return ask_begin(request, &verify);
}

/* What is handed on. */
struct naming {
    char original[ID_SIZE];
    char (*ids)[ID_SIZE]; /* of the ranks, each once */
    size_t count;
    json_t *files;
};

static bool no_id(struct problem *problem, const char *text)
{
    return problem_set(problem, 422, "BAD_REQUEST",
                       "'%.80s' is not the id of a stored model, 64 lower-case hexadecimal digits.", text);
}

static bool name_ranks(const struct request *request, const struct sp_verify_question *question, struct naming *naming,
                       struct problem *problem)
{
    naming->ids = calloc(question->rank_count + 1, sizeof *naming->ids);
    naming->files = json_object();
    bool ok = naming->ids != NULL && naming->files != NULL;
    for (uint32_t i = 0; ok && i < question->rank_count; i++) {
        const char *id = question->ranks[i];
        if (!text_is_hex(id, ID_SIZE - 1))
            return no_id(problem, id);
        if (json_object_get(naming->files, id) != NULL)
            continue;
        char blob[STORE_BLOB_SIZE];
        if (store_find_blob(request->server->store, request_view(request), id, blob) == STORE_ERROR)
            return problem_set(problem, 503, "STORE_UNAVAILABLE",
                               "The store does not answer at the moment; try again later.");
        char *path = files_blob(request->server->config->data, blob);
        ok = path != NULL && json_object_set_new(naming->files, id, json_string(path)) == 0;
        free(path);
        memcpy(naming->ids[naming->count++], id, ID_SIZE);
    }
    return ok || problem_no_memory(problem);
}

/* Reads the body; *ret_json is the client's. */
static bool read_naming(const struct request *request, struct naming *naming, json_t **ret_json,
                        struct problem *problem)
{
    json_error_t error;
    struct sp_error err = {0};
    struct sp_verify_question question;
    *ret_json = json_loadb(request->body.data != NULL ? request->body.data : "", request->body.size,
                           JSON_REJECT_DUPLICATES, &error);
    if (*ret_json == NULL)
        return problem_set(problem, 400, "MALFORMED_JSON", "The body is not JSON (line %d, column %d): %s.", error.line,
                           error.column, error.text);
    struct sp_arena *arena = sp_arena_create(NULL);
    bool ok = arena != NULL || problem_no_memory(problem);
    if (ok && sp_verify_question_parse(arena, *ret_json, &question, &err) != SP_OK) {
        problem_from_error(problem, &err);
        ok = false;
    }
    if (ok && !text_is_hex(question.original, ID_SIZE - 1))
        ok = no_id(problem, question.original);
    if (ok)
        (void)snprintf(naming->original, sizeof naming->original, "%s", question.original);
    ok = ok && name_ranks(request, &question, naming, problem);
    sp_arena_destroy(arena);
    return ok;
}

/* The worker's JSON, from malloc. */
static char *body_of(const struct naming *naming, json_t *question, struct problem *problem)
{
    json_t *body = json_pack("{s:O, s:O}", "question", question, "files", naming->files);
    char *text = body != NULL ? json_memory_text(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (text == NULL) {
        (void)problem_no_memory(problem);
    } else if (strlen(text) > SPD_MAX_SHARDING_BODY) {
        (void)problem_set_limit(problem, 413, "BODY_TOO_LARGE", "SPD_MAX_SHARDING_BODY", SPD_MAX_SHARDING_BODY,
                                (int64_t)strlen(text),
                                "The request and the names of its models' files have %zu bytes; at most %u are taken.",
                                strlen(text), SPD_MAX_SHARDING_BODY);
        free(text);
        text = NULL;
    }
    return text;
}

enum verdict verify_finish(struct request *request)
{
    struct problem problem = {0};
    struct naming naming = {0};
    json_t *question = NULL;
    (void)json_memory_was_short(); /* of an earlier request */
    char *body = read_naming(request, &naming, &question, &problem) ? body_of(&naming, question, &problem) : NULL;
    json_decref(question);
    json_decref(naming.files);
    if (json_memory_was_short()) { /* what was found wrong may be what there was no memory for */
        problem = (struct problem){0};
        (void)problem_no_memory(&problem);
        free(body);
        body = NULL;
    }
    if (body != NULL)
        return ask_about_models(request, &verify, naming.original, naming.ids, naming.count, body);
    free(naming.ids);
    return respond_problem(request, &problem);
}
