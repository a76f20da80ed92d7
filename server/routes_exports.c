/*
 * Files that are made of a plan: a worker makes the plan again from its question, which takes milliseconds, and saves
 * how the file is put together; the answer streams it out of the stored model.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "export/files.h"
#include "files.h"
#include "respond.h"
#include "routes.h"
#include "store.h"

/* What the worker is asked: see worker_export.c. */
static char *make_body(const struct request *request, const char *plan, const char *format)
{
    char *path = files_plan_file(request->server->config->data, plan, "plan.json"), *body = NULL;
    json_t *json = path != NULL ? json_pack("{s:s, s:s}", "plan", path, "format", format) : NULL;
    if (json != NULL)
        body = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    free(path);
    return body;
}

static enum verdict send_file(struct request *request, const char *format, const char *type)
{
    struct plan_row row;
    enum verdict verdict;
    if (!store_get_plan(request->server->store, request->id, &row))
        return plan_missing(request);
    if (row.state != PLAN_SUCCEEDED) {
        verdict = respond_error(request, 409, "PLAN_NOT_READY", "The plan is %s; nothing can be made of it.",
                                store_state_name(row.state));
    } else {
        char *body = make_body(request, row.id, format);
        verdict = body != NULL ? ask_for_file(request, "export", row.model, type, body)
                               : respond_error(request, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    }
    store_release_plan(&row);
    return verdict;
}

enum verdict plan_simulation_finish(struct request *request)
{
    return send_file(request, "simulation", sp_file_media_type("simulation"));
}

enum verdict plan_timeline_finish(struct request *request)
{
    return send_file(request, "perfetto", sp_file_media_type("perfetto"));
}

enum verdict plan_export_finish(struct request *request)
{
    const char *type = sp_file_media_type(request->item);
    if (type == NULL)
        return respond_error(request, 404, "UNKNOWN_FORMAT",
                             "There is no export format '%s'; the contract at /openapi.json lists them.",
                             request->item);
    return send_file(request, request->item, type);
}
