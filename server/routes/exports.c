/*
 * Files that are made of a plan: a worker makes the plan again from its record (plan/answer/placement_record.h),
 * without a search, and saves how the file is put together; the answer streams it out of the stored model.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "export/files.h"
#include "http/respond.h"
#include "routes/ask.h"
#include "routes/held.h"
#include "routes/routes.h"
#include "store/integrity/stored.h"
#include "store/store.h"
#include "uploads/beside.h"
#include "util/json_memory.h"

/* What is made: see server/worker/export.c. */
struct wanted {
    const char *format;
    int64_t device, part;
    const char *forms; /* words of export/forms.h; NULL: none */
    bool gives_data;   /* the file of weights beside a device's models */
};

/* {LOCATION: BYTES} */
static json_t *sizes_of(const struct beside *beside)
{
    json_t *sizes = json_object();
    for (size_t i = 0; sizes != NULL && i < beside->count; i++) {
        if (json_object_set_new(sizes, beside->files[i].location, json_integer(beside->files[i].bytes)) != 0) {
            json_decref(sizes);
            return NULL;
        }
    }
    return sizes;
}

static char *make_body(const struct wanted *wanted, const struct beside *beside)
{
    json_t *json =
        json_pack("{s:s, s:I, s:I, s:s, s:b, s:o}", "format", wanted->format, "device", (json_int_t)wanted->device,
                  "part", (json_int_t)wanted->part, "forms", wanted->forms != NULL ? wanted->forms : "", "data",
                  (int)wanted->gives_data, "files", sizes_of(beside));
    char *body = json != NULL ? json_memory_text(json, JSON_COMPACT) : NULL;
    json_decref(json);
    return body;
}

/* The files beside the model, which are in the data folder then. */
static enum verdict hold_beside(struct request *request, const struct beside *beside)
{
    struct blob_file *files = calloc(beside->count + 1, sizeof *files);
    if (files == NULL)
        return respond_error(request, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    for (size_t i = 0; i < beside->count; i++)
        files[i] = blobs_model(beside->files[i].blob, (uint64_t)beside->files[i].bytes);
    const enum verdict verdict = held_files(request, files, beside->count, request->route->finish);
    free(files);
    return verdict;
}

/* Of a plan that has a result, which is there. The files beside the model are handed on. */
static enum verdict make_file(struct request *request, const struct wanted *wanted, const struct plan_row *row)
{
    struct problem problem = {0};
    struct beside beside;
    char *body = NULL;
    enum verdict verdict = VERDICT_GO_ON;
    const char *type = sp_file_media_type(wanted->format, wanted->device);
    if (!beside_load(request->server, row->tenant, row->model, &beside, &problem))
        verdict = respond_problem(request, &problem);
    else if (wanted->gives_data && beside.count == 0)
        verdict =
            respond_error(request, 404, "NO_DATA", "The models of device %lld have no file of weights beside them.",
                          (long long)wanted->device);
    if (verdict == VERDICT_GO_ON)
        verdict = hold_beside(request, &beside);
    if (verdict == VERDICT_GO_ON && (body = make_body(wanted, &beside)) == NULL)
        verdict = respond_error(request, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    if (verdict == VERDICT_GO_ON)
        return ask_for_file(request, &(struct ask_file){"export", type, row}, body, &beside);
    beside_release(&beside);
    return verdict;
}

static enum verdict send_file(struct request *request, const struct wanted *wanted)
{
    struct plan_row row;
    struct problem problem = {0};
    enum verdict verdict;
    enum store_found found = store_get_plan(request->server->store, request_view(request), request->id, &row);
    if (found != STORE_DONE)
        return found == STORE_NOT_FOUND ? plan_missing(request) : store_is_away(request);
    if (!row.has_result) {
        verdict = respond_error(request, 409, "PLAN_NOT_READY", "The plan is %s; nothing can be made of it.",
                                store_state_name(row.state));
    } else if ((verdict = held_result(request, &row, "plan.json", request->route->finish)) != VERDICT_GO_ON) {
        ; /* answered, or to be asked again */
    } else if (!stored_check_result(request->server->stored, &row, &problem)) {
        verdict = store_find_plan(request->server->store, row.tenant, row.id) == STORE_NOT_FOUND
                      ? plan_missing(request)
                      : respond_problem(request, &problem);
    } else {
        verdict = make_file(request, wanted, &row);
    }
    store_release_plan(&row);
    return verdict;
}

enum verdict plan_simulation_finish(struct request *request)
{
    return send_file(request, &(struct wanted){"simulation", SP_FILE_NO_DEVICE, 0});
}

enum verdict plan_timeline_finish(struct request *request)
{
    if (plan_timeline_is_slice(request))
        return plan_timeline_slice(request);
    return send_file(request, &(struct wanted){"perfetto", SP_FILE_NO_DEVICE, 0});
}

static bool read_forms(const struct request *request, struct wanted *wanted, struct sp_error *err)
{
    struct sp_file_forms forms;
    wanted->forms = request_parameter(request, "form");
    return wanted->forms == NULL || sp_file_forms_parse(wanted->forms, &forms, err) == SP_OK;
}

enum verdict plan_export_finish(struct request *request)
{
    if (sp_file_media_type(request->item, SP_FILE_NO_DEVICE) == NULL)
        return respond_error(request, 404, "UNKNOWN_FORMAT",
                             "There is no export format '%s'; the contract at /openapi.json lists them.",
                             request->item);
    struct wanted wanted = {request->item, SP_FILE_NO_DEVICE, 0};
    struct sp_error err = {0};
    if (!read_forms(request, &wanted, &err))
        return respond_error(request, 400, "UNKNOWN_FORM", "%s", err.message);
    return send_file(request, &wanted);
}

/* A whole number of a path or a query, with at most nine digits. */
static bool read_number(const char *text, int64_t *ret_number)
{
    size_t length = strlen(text);
    if (length == 0 || length > 9 || strspn(text, "0123456789") != length)
        return false;
    *ret_number = strtol(text, NULL, 10);
    return true;
}

enum verdict plan_device_data_finish(struct request *request)
{
    const char *format = request_parameter(request, "format");
    struct wanted wanted = {.format = format != NULL ? format : "ort-collectives", .gives_data = true};
    enum sp_realize_target target;
    struct sp_error err = {0};
    if (!read_forms(request, &wanted, &err))
        return respond_error(request, 400, "UNKNOWN_FORM", "%s", err.message);
    if (!read_number(request->item, &wanted.device))
        return respond_error(request, 404, "NO_SUCH_DEVICE", "A device is a number, not '%s'.", request->item);
    if (!sp_file_is_of_devices(wanted.format, &target))
        return respond_error(request, 400, "BAD_PARAMETER",
                             "The parameter format is ort-collectives, tensorrt, sessions, genai, triton or "
                             "triton-tensorrt.");
    return send_file(request, &wanted);
}

enum verdict plan_device_model_finish(struct request *request)
{
    const char *format = request_parameter(request, "format"), *part = request_parameter(request, "part");
    struct wanted wanted = {.format = format != NULL ? format : "ort-collectives"};
    enum sp_realize_target target;
    struct sp_error err = {0};
    if (!read_forms(request, &wanted, &err))
        return respond_error(request, 400, "UNKNOWN_FORM", "%s", err.message);
    if (!read_number(request->item, &wanted.device))
        return respond_error(request, 404, "NO_SUCH_DEVICE", "A device is a number, not '%s'.", request->item);
    if (part != NULL && !read_number(part, &wanted.part))
        return respond_error(request, 400, "BAD_PARAMETER",
                             "The parameter part is a whole number, with 9 digits at most.");
    if (strcmp(wanted.format, "ort") != 0 && !sp_file_is_of_devices(wanted.format, &target))
        return respond_error(
            request, 400, "BAD_PARAMETER",
            "The parameter format is ort-collectives, tensorrt, sessions, genai, triton, triton-tensorrt or ort.");
    if (strcmp(wanted.format, "ort") == 0 && wanted.part != 0)
        return respond_error(request, 404, "NO_SUCH_PART", "With the format ort a device has one model.");
    return send_file(request, &wanted);
}
