#include <math.h>
#include <stdlib.h>

#include "http/respond.h"
#include "plan/answer/operators.h"
#include "plan/check.h"
#include "routes/ask.h"
#include "routes/ingest.h"
#include "routes/routes.h"
#include "routes/submission.h"
#include "util/json_memory.h"

/*
 * What is sound, and what is missing: POST /v1/check and /v1/models/{id}/check, POST /v1/models/{id}/infer, and
 * GET /v1/operators. A model that contradicts itself cannot be stored; the first of them checks it all the same.
 */

static const struct ask check = {.kind = "check", .has_defaults = true};
static const struct ask infer = {.kind = "infer", .has_defaults = true, .gives_model = true};

/* ---- stored models ---- */

enum verdict model_check_begin(struct request *request)
{
    return ask_begin(request, &check);
}

enum verdict model_check_finish(struct request *request)
{
    return ask_about_model(request, &check);
}

enum verdict model_infer_begin(struct request *request)
{
    return ask_begin(request, &infer);
}

enum verdict model_infer_finish(struct request *request)
{
    return ask_about_model(request, &infer);
}

/* ---- POST /v1/check ---- */

static bool add_text(const struct request *request, const char *name, json_t *json)
{
    const char *text = request_parameter(request, name);
    return text == NULL || json_object_set_new(json, name, json_string(text)) == 0;
}

/* What is no number stays text, and is refused as such. */
static bool add_number(const struct request *request, const char *name, json_t *json)
{
    const char *text = request_parameter(request, name);
    char *end;
    double value = text != NULL ? strtod(text, &end) : 0;
    if (text == NULL || *text == '\0' || *end != '\0' || !isfinite(value))
        return add_text(request, name, json);
    return json_object_set_new(json, name, json_real(value)) == 0;
}

/* The query as the JSON that the other route has as its body; checked here, before a large model is sent. */
static json_t *query_request(const struct request *request, struct problem *problem)
{
    struct sp_error err = {0};
    json_t *json = json_object();
    if (json == NULL || !add_text(request, "configuration", json) || !add_text(request, "device", json) ||
        !add_number(request, "memory_bytes", json))
        (void)sp_fail_memory(&err);
    const bool has_sizes = err.status == SP_OK && submission_add_sizes(request, json, problem);
    if (has_sizes && sp_check_request_verify(json, &err) == SP_OK)
        return json;
    if (err.status != SP_OK)
        problem_from_error(problem, &err);
    json_decref(json);
    return NULL;
}

enum verdict check_begin(struct request *request)
{
    struct problem problem = {0};
    enum verdict verdict = ask_accepts(request, &check);
    if (verdict != VERDICT_GO_ON)
        return verdict;
    json_t *json = query_request(request, &problem);
    if (json == NULL)
        return respond_problem(request, &problem);
    json_decref(json);
    return ingest_begin(request, false);
}

enum verdict check_finish(struct request *request)
{
    struct problem problem = {0};
    json_t *json = query_request(request, &problem);
    char *body = json != NULL ? json_memory_text(json, JSON_COMPACT) : NULL;
    json_decref(json);
    if (body == NULL)
        return respond_error(request, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    return ask_about_upload(request, &check, body);
}

/* ---- GET /v1/operators ---- */

enum verdict operators_finish(struct request *request)
{
    const enum verdict verdict = ask_accepts(request, &check);
    if (verdict != VERDICT_GO_ON)
        return verdict;
    return respond_table(request, request_parameter(request, "name"), sp_operators_text, sp_operators_json);
}
