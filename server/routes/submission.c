#include "routes/submission.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "plan/replan/replan.h"
#include "plan/variants/variants.h"
#include "routes/reference.h"
#include "util/json_memory.h"
#include "util/text.h"

static void free_submission(void *state)
{
    submission_drop(state);
    free(state);
}

void submission_drop(struct submission *submission)
{
    json_decref(submission->request);
    free(submission->canonical);
    submission->request = NULL;
    submission->canonical = NULL;
}

bool submission_settle(struct submission *submission, struct problem *problem)
{
    char *canonical = json_memory_text(submission->request, JSON_COMPACT | JSON_SORT_KEYS);
    submission_drop(submission);
    submission->canonical = canonical;
    return canonical != NULL || problem_no_memory(problem);
}

/* Cache-Control: no-cache or no-store among its directives. */
static bool asks_anew(const char *control)
{
    return control != NULL && (strcasestr(control, "no-cache") != NULL || strcasestr(control, "no-store") != NULL);
}

struct submission *submission_create(struct request *request)
{
    struct submission *submission = calloc(1, sizeof *submission);
    request->state = submission;
    request->free_state = submission != NULL ? free_submission : NULL;
    if (submission != NULL)
        submission->anew = asks_anew(request_header(request, "Cache-Control"));
    return submission;
}

const char *submission_priority_name(enum plan_priority priority)
{
    return priority > PRIORITY_NORMAL ? "high" : priority < PRIORITY_NORMAL ? "low" : "normal";
}

/* The library checks cluster or sweep, objective and options; its JSON pointers fit the request. */
static bool check_request(const json_t *request, struct problem *problem)
{
    struct sp_budget budget = {.limit = 32u << 20};
    struct sp_arena *arena = sp_arena_create(&budget);
    struct sp_plan_target target;
    struct sp_plan_options options;
    struct sp_error err = {0};
    if (arena == NULL)
        return problem_no_memory(problem);
    if (sp_plan_target_parse(arena, json_object_get(request, "cluster"), json_object_get(request, "sweep"), &target,
                             &err) == SP_OK)
        (void)sp_plan_options_parse(arena, json_object_get(request, "objective"), json_object_get(request, "options"),
                                    &options, &err);
    if (err.status != SP_OK)
        problem_from_error(problem, &err);
    sp_arena_destroy(arena);
    return err.status == SP_OK;
}

#define WRONG_PRIORITY "The priority must be low, normal or high."

static bool read_priority(const char *name, enum plan_priority *ret_priority)
{
    for (int i = PRIORITY_LOW; i <= PRIORITY_HIGH; i++) {
        if (name != NULL && strcmp(name, submission_priority_name((enum plan_priority)i)) == 0) {
            *ret_priority = (enum plan_priority)i;
            return true;
        }
    }
    return false;
}

static bool wrong_member(struct problem *problem, const char *pointer, const char *message)
{
    (void)problem_set(problem, 422, "BAD_REQUEST", "%s", message);
    (void)snprintf(problem->where, sizeof problem->where, "%s", pointer);
    return false;
}

/* A parameter that is true or false; false when it is not there. */
static bool take_flag(const struct request *request, const char *name, bool *ret_flag, struct problem *problem)
{
    const char *text = request_parameter(request, name);
    if (text != NULL && strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
        return problem_set(problem, 422, "BAD_REQUEST", "'%s' must be true or false.", name);
    *ret_flag = text != NULL && strcmp(text, "true") == 0;
    return true;
}

/* ---- the JSON form ---- */

/* Constraints and the workload are kept among the options, where a plan has them: it is made again from what stands
   there. */
static bool take_beside(struct submission *submission, const json_t *body, const char *name, struct problem *problem)
{
    json_t *value = json_object_get(body, name);
    const json_t *given = json_object_get(submission->request, "options");
    if (value == NULL || (given != NULL && !json_is_object(given)))
        return true; /* what is no object is refused with the options */
    if (json_object_get(given, name) != NULL) {
        char pointer[32], message[96];
        (void)snprintf(pointer, sizeof pointer, "/%s", name);
        (void)snprintf(message, sizeof message, "\"%s\" is given twice, here and among the options.", name);
        return wrong_member(problem, pointer, message);
    }
    json_t *options = given != NULL ? json_copy((json_t *)(uintptr_t)given) : json_object();
    if (options == NULL || json_object_set(options, name, value) != 0 ||
        json_object_set(submission->request, "options", options) != 0) {
        json_decref(options);
        return problem_no_memory(problem);
    }
    json_decref(options);
    return true;
}

/* Members that are no part of the question. */
static bool is_ours(const char *key)
{
    static const char *const ours[] = {"model",         "constraints", "workload",        "priority",
                                       "validate_only", "from",        "horizon_seconds", "map"};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        if (strcmp(key, ours[i]) == 0)
            return true;
    }
    return false;
}

/* How the plan is to be treated. */
static bool take_treatment(struct submission *submission, const json_t *body, struct problem *problem)
{
    const json_t *priority = json_object_get(body, "priority"), *validate = json_object_get(body, "validate_only");
    if (priority != NULL && !read_priority(json_string_value(priority), &submission->priority))
        return wrong_member(problem, "/priority", WRONG_PRIORITY);
    if (validate != NULL && !json_is_boolean(validate))
        return wrong_member(problem, "/validate_only", "\"validate_only\" must be true or false.");
    submission->validate_only = submission->validate_only || json_is_true(validate);
    return true;
}

/* The plan that it follows. Which attempt of that has the result is found out later. */
static bool take_from(struct submission *submission, const json_t *body, struct problem *problem)
{
    static const char *const names[] = {"from", "horizon_seconds", "map"};
    const char *from = json_string_value(json_object_get(body, "from"));
    struct sp_replan_terms terms;
    struct sp_error err = {0};
    if (json_object_get(json_object_get(body, "options"), "replan") != NULL)
        return wrong_member(
            problem, "/options/replan",
            "What is said of the plan that runs stands beside the options: from, horizon_seconds, map.");
    if (json_object_get(body, "from") == NULL) {
        for (size_t i = 1; i < 3; i++) {
            char pointer[32];
            (void)snprintf(pointer, sizeof pointer, "/%s", names[i]);
            if (json_object_get(body, names[i]) != NULL)
                return wrong_member(problem, pointer,
                                    "This is for a plan that follows another one: give its id as \"from\", too.");
        }
        return true;
    }
    if (from == NULL || !text_is_hex(from, STORE_ID_SIZE - 1))
        return wrong_member(problem, "/from", "\"from\" must be the id of a plan of this service.");
    if (json_object_get(body, "sweep") != NULL)
        return wrong_member(problem, "/sweep", "A plan that follows another one is for one cluster, not for a sweep.");
    json_t *given = json_object();
    struct sp_arena *arena = sp_arena_create(NULL);
    bool ok = given != NULL && arena != NULL;
    for (size_t i = 0; ok && i < 3; i++) {
        json_t *value = json_object_get(body, names[i]);
        ok = value == NULL || json_object_set(given, names[i], value) == 0;
    }
    if (ok && sp_replan_terms_parse(arena, given, "", &terms, &err) != SP_OK)
        problem_from_error(problem, &err);
    ok = ok && json_object_del(given, "from") == 0 && json_object_set_new(given, "plan", json_string(from)) == 0 &&
         json_object_set(submission->request, "from", given) == 0;
    json_decref(given);
    sp_arena_destroy(arena);
    (void)snprintf(submission->from, sizeof submission->from, "%s", from);
    return ok ? err.status == SP_OK : problem_no_memory(problem);
}

/* The model is fetched. One that follows a plan has that plan's model. */
static bool take_url(struct submission *submission, const json_t *model, struct problem *problem)
{
    const char *url = reference_url(model, problem);
    if (url == NULL)
        return false;
    if (submission->from[0] != '\0')
        return wrong_member(problem, "/model", "A plan that follows another one has its model; leave it out.");
    if (strlen(url) > SPD_MAX_SOURCE_URL)
        return wrong_member(problem, "/model", "The address of the model is too long.");
    (void)snprintf(submission->url, sizeof submission->url, "%s", url);
    return true;
}

static bool has_target(const json_t *body, struct problem *problem)
{
    return json_object_get(body, "cluster") != NULL || json_object_get(body, "sweep") != NULL ||
           wrong_member(problem, "/cluster",
                        "\"cluster\" is missing; give one like {\"device\": \"a100-sxm4-80gb\", \"count\": 4}, or "
                        "a \"sweep\" over several.");
}

static bool take_members(struct submission *submission, const json_t *body, struct problem *problem)
{
    const char *key;
    json_t *value;
    const char *model = json_string_value(json_object_get(body, "model"));
    if (!json_is_object(body))
        return wrong_member(problem, "", "The body must be an object with \"model\" and \"cluster\" or \"sweep\".");
    json_object_foreach((json_t *)(uintptr_t)body, key, value)
    {
        if (is_ours(key))
            continue;
        char pointer[256];
        (void)snprintf(pointer, sizeof pointer, "/%.200s", key);
        if (strcmp(key, "cluster") != 0 && strcmp(key, "sweep") != 0 && strcmp(key, "objective") != 0 &&
            strcmp(key, "options") != 0)
            return wrong_member(problem, pointer,
                                "This member is not known; known are model, cluster, sweep, objective, options, "
                                "constraints, workload, priority, validate_only, from, horizon_seconds and map.");
        if (json_object_set(submission->request, key, value) != 0)
            return problem_no_memory(problem);
    }
    if (!take_from(submission, body, problem))
        return false;
    if (json_is_object(json_object_get(body, "model")))
        return take_url(submission, json_object_get(body, "model"), problem) && has_target(body, problem);
    if (model == NULL && submission->from[0] != '\0' && json_object_get(body, "model") == NULL)
        model = "";
    else if (model == NULL || !text_is_hex(model, 64))
        return wrong_member(problem, "/model",
                            "\"model\" must be the id of a stored model, 64 lower-case hexadecimal digits.");
    (void)snprintf(submission->model, sizeof submission->model, "%s", model);
    return has_target(body, problem);
}

bool submission_from_body(const struct request *request, struct submission *submission, struct problem *problem)
{
    json_error_t error;
    (void)json_memory_was_short(); /* of an earlier request */
    json_t *body = json_loadb(request->body.data != NULL ? request->body.data : "", request->body.size,
                              JSON_REJECT_DUPLICATES, &error);
    if (body == NULL && json_memory_was_short())
        return problem_no_memory(problem);
    if (body == NULL)
        return problem_set(problem, 400, "MALFORMED_JSON", "The body is not JSON (line %d, column %d): %s.", error.line,
                           error.column, error.text);
    submission->request = json_object();
    bool ok = take_flag(request, "validate_only", &submission->validate_only, problem) &&
              take_members(submission, body, problem) && take_treatment(submission, body, problem) &&
              take_beside(submission, body, "constraints", problem) &&
              take_beside(submission, body, "workload", problem) && check_request(submission->request, problem);
    json_decref(body);
    if (json_memory_was_short() && !ok) {
        *problem = (struct problem){0}; /* what was found wrong may be what there was no memory for */
        return problem_no_memory(problem);
    }
    return ok;
}

/* ---- the query form ---- */

static bool take_target(const struct request *request, struct submission *submission, struct problem *problem)
{
    const struct sp_plan_lists lists = {.devices = request_parameter(request, "devices"),
                                        .types = request_parameter(request, "device"),
                                        .choose = request_parameter(request, "choose")};
    if (lists.devices == NULL || !sp_is_count_list(lists.devices))
        return problem_set(
            problem, 422, "BAD_REQUEST",
            "With a model as the body, ?devices=N&device=NAME says what to plan for; 'devices' must be a "
            "number from 1 up, or several with commas between them.");
    json_t *target = sp_plan_lists_json(&lists);
    if (target == NULL)
        return problem_set(problem, 422, "BAD_REQUEST",
                           "?device=NAME is missing, or has an empty part; GET /v1/devices lists the names.");
    return json_object_set_new(submission->request, sp_plan_lists_sweep(&lists) ? "sweep" : "cluster", target) == 0 ||
           problem_no_memory(problem);
}

bool submission_add_sizes(const struct request *request, json_t *json, struct problem *problem)
{
    static const char *const names[] = {"dims", "values", "shapes", "operators", "state"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = request_parameter(request, names[i]);
        if (text == NULL)
            continue;
        (void)json_memory_was_short(); /* of an earlier request */
        json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        if (value == NULL && !json_memory_was_short())
            return problem_set(problem, 422, "BAD_REQUEST", "'%s' must be JSON, like dims={\"seq\": 128}.", names[i]);
        if (value == NULL || json_object_set_new(json, names[i], value) != 0)
            return problem_no_memory(problem);
    }
    return true;
}

bool submission_from_query(const struct request *request, struct submission *submission, struct problem *problem)
{
    const char *objective = request_parameter(request, "objective"), *batch = request_parameter(request, "batch");
    const char *strategy = request_parameter(request, "strategy"), *priority = request_parameter(request, "priority");
    bool what_if = false;
    int64_t batch_value = 0;
    if (batch != NULL && !text_to_int(batch, 1, INT32_MAX, &batch_value))
        return problem_set(problem, 422, "BAD_REQUEST", "'batch' must be a number from 1 up.");
    if (priority != NULL && !read_priority(priority, &submission->priority))
        return problem_set(problem, 422, "BAD_REQUEST", WRONG_PRIORITY);
    if (!take_flag(request, "what_if", &what_if, problem) ||
        !take_flag(request, "validate_only", &submission->validate_only, problem))
        return false;
    submission->request = json_object();
    json_t *options = json_object();
    bool ok = submission->request != NULL && options != NULL;
    ok =
        ok && (objective == NULL || json_object_set_new(submission->request, "objective", json_string(objective)) == 0);
    ok = ok && (batch == NULL || json_object_set_new(options, "batch", json_integer(batch_value)) == 0);
    ok = ok && (strategy == NULL || json_object_set_new(options, "strategy", json_string(strategy)) == 0);
    if (ok && !submission_add_sizes(request, options, problem)) {
        json_decref(options);
        return false;
    }
    if (what_if)
        ok = ok && json_object_set_new(options, "what_if", json_true()) == 0;
    ok = ok && (json_object_size(options) == 0 || json_object_set(submission->request, "options", options) == 0);
    json_decref(options);
    if (!ok)
        return problem_no_memory(problem);
    return take_target(request, submission, problem) && check_request(submission->request, problem);
}
