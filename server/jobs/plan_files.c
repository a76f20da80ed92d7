#include "jobs/plan_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "index/index.h"
#include "observe/log.h"
#include "onnx/splice.h"
#include "server_limits.h"
#include "store/files.h"

/* In the order in which they get their names: who finds plan.json finds the others. */
enum { SPLICE, TEXT, SHEET, JSON, RESULTS };
static const char *const names[RESULTS] = {"annotated.splice", "plan.txt", "plan.sheet", "plan.json"};

bool plan_files_prepare(const char *data, const char *owner, struct handover **ret_handover, struct problem *problem)
{
    struct handover *handover = handover_create();
    bool ok = handover != NULL || problem_no_memory(problem);
    for (int i = 0; ok && i < RESULTS; i++)
        ok = handover_add_result(handover, names[i], files_temporary(data, owner), problem);
    if (ok)
        *ret_handover = handover;
    else
        handover_destroy(handover);
    return ok;
}

static bool has_input(const struct handover *handover, const char *name)
{
    for (unsigned i = 0; i < handover->input_count; i++) {
        if (strcmp(handover->inputs[i].name, name) == 0)
            return true;
    }
    return false;
}

/* Of a plan that follows another one, the JSON of that. */
static bool add_past(const char *data, const struct plan_row *plan, struct handover *handover, struct problem *problem)
{
    json_t *request = json_loads(plan->request, 0, NULL);
    const json_t *from = json_object_get(request, "from");
    const char *id = json_string_value(json_object_get(from, "plan"));
    const int64_t attempt = json_integer_value(json_object_get(from, "attempt"));
    const bool ok = id == NULL || has_input(handover, "plan") ||
                    handover_add_input(handover, "plan", files_plan_file(data, id, attempt, names[JSON]));
    if (!ok && errno == ENOENT)
        (void)problem_set(problem, 404, "PLAN_NOT_FOUND", "The plan that is to be followed is not there any more.");
    else if (!ok)
        (void)problem_from_errno(problem, errno, "Opening the plan that is to be followed");
    json_decref(request);
    return ok;
}

bool plan_files_add_inputs(const char *data, const struct plan_row *plan, const char *blob, struct handover *handover,
                           struct problem *problem)
{
    if (!has_input(handover, "model") && !handover_add_input(handover, "model", files_blob(data, blob)))
        return problem_from_errno(problem, errno, "Opening the model");
    return add_past(data, plan, handover, problem);
}

/* ---- checking ---- */

/* The JSON is one object: what stands in it is read by place (the sheet) or by clients. */
static bool is_json(const struct result *json)
{
    char first = '\0', last = '\0';
    return json->size >= 2 && files_read_at(json->file, 0, &first, 1) && first == '{' &&
           files_read_at(json->file, json->size - 1, &last, 1) && (last == '}' || last == '\n');
}

static bool is_sheet_of(const struct result *sheet, const struct result *json)
{
    char head[SP_INDEX_HEAD_BYTES];
    uint64_t plan_size;
    struct sp_error err = {0};
    return sheet->size >= sizeof head && files_read_at(sheet->file, 0, head, sizeof head) &&
           sp_index_find_plan(head, sheet->size, &plan_size, &err) == SP_OK && plan_size == json->size;
}

/* Over the plan's own model; a graph of costs has none. */
static bool is_splice_of(const struct result *splice, uint64_t model_size)
{
    char head[SP_SPLICE_HEAD_BYTES];
    return splice->size == 0 || (splice->size >= sizeof head && files_read_at(splice->file, 0, head, sizeof head) &&
                                 sp_splice_is_over(head, model_size));
}

static bool is_plausible(const struct handover *handover, const char **ret_name)
{
    const struct result *results = handover->results;
    struct stat model = {0};
    for (unsigned i = 0; i < handover->input_count; i++) {
        if (strcmp(handover->inputs[i].name, "model") == 0)
            (void)fstat(handover->inputs[i].file, &model);
    }
    *ret_name = names[TEXT];
    if (results[TEXT].size > SPD_MAX_TEXT_BYTES)
        return false;
    *ret_name = names[JSON];
    if (!is_json(&results[JSON]))
        return false;
    *ret_name = names[SHEET];
    if (!is_sheet_of(&results[SHEET], &results[JSON]))
        return false;
    *ret_name = names[SPLICE];
    return is_splice_of(&results[SPLICE], (uint64_t)model.st_size);
}

bool plan_files_refused(const struct problem *problem)
{
    return strcmp(problem->code, "RESULT_DAMAGED") == 0;
}

/* ---- storing ---- */

static bool make_folder(const char *path)
{
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static bool name_result(const char *data, const struct plan_row *plan, struct result *result)
{
    char *path = files_plan_file(data, plan->id, plan->attempts, result->name);
    const bool ok = path != NULL && fsync(result->file) == 0 && files_rename(result->path, path, result->file);
    const int error = path != NULL ? errno : ENOMEM;
    result->is_stored = ok;
    free(path);
    errno = error;
    return ok;
}

static bool name_all(const char *data, const struct plan_row *plan, struct handover *handover)
{
    char *folder = files_plan_folder(data, plan->id), *attempt = files_attempt_folder(data, plan->id, plan->attempts);
    char *plans = NULL;
    bool ok = folder != NULL && attempt != NULL && asprintf(&plans, "%s/plans", data) >= 0;
    if (!ok)
        errno = ENOMEM;
    ok = ok && make_folder(folder) && make_folder(attempt);
    for (unsigned i = 0; ok && i < handover->result_count; i++)
        ok = name_result(data, plan, &handover->results[i]);
    ok = ok && files_sync_folder(attempt) && files_sync_folder(folder) && files_sync_folder(plans);
    const int error = errno;
    free(folder);
    free(attempt);
    free(plans);
    errno = error;
    return ok;
}

bool plan_files_store(const char *data, const struct plan_row *plan, struct handover *handover, struct problem *problem)
{
    const char *name;
    if (!is_plausible(handover, &name)) {
        LOG(LOG_ERROR, "a worker saved no plan", log_s("plan", plan->id), log_s("file", name));
        return problem_set(problem, 500, "RESULT_DAMAGED",
                           "What a worker saved is no plan of this model (%s); submit it anew.", name);
    }
    return name_all(data, plan, handover) || problem_from_errno(problem, errno, "Storing the plan");
}
