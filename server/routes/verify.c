#include <stdlib.h>
#include <string.h>

#include "http/respond.h"
#include "plan/proof/verify_question.h"
#include "routes/ask.h"
#include "routes/routes.h"
#include "util/json_memory.h"
#include "util/text.h"

/*
 * POST /v1/verify: whether stored models together compute what a stored model computes.
 *
 * The body names models, and a worker knows no tenants; so it is read here, and the worker gets the files that are meant.
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
};

static bool no_id(struct problem *problem, const char *text)
{
    return problem_set(problem, 422, "BAD_REQUEST",
                       "'%.80s' is not the id of a stored model, 64 lower-case hexadecimal digits.", text);
}

static bool is_named(const struct naming *naming, const char *id)
{
    for (size_t i = 0; i < naming->count; i++) {
        if (strcmp(naming->ids[i], id) == 0)
            return true;
    }
    return false;
}

static bool name_ranks(const struct sp_verify_question *question, struct naming *naming, struct problem *problem)
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

static bool read_naming(const struct request *request, struct naming *naming, struct problem *problem)
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
    if (ok)
        (void)snprintf(naming->original, sizeof naming->original, "%s", question.original);
    ok = ok && name_ranks(&question, naming, problem);
    sp_arena_destroy(arena);
    json_decref(json);
    return ok;
}

enum verdict verify_finish(struct request *request)
{
    struct problem problem = {0};
    struct naming naming = {0};
    (void)json_memory_was_short(); /* of an earlier request */
    bool ok = read_naming(request, &naming, &problem);
    if (json_memory_was_short()) { /* what was found wrong may be what there was no memory for */
        problem = (struct problem){0};
        ok = problem_no_memory(&problem);
    }
    if (ok)
        return ask_about_models(request, &verify, naming.original, naming.ids, naming.count);
    free(naming.ids);
    return respond_problem(request, &problem);
}
