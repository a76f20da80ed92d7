#include "http/router.h"

#include <string.h>

#include "routes/routes.h"
#include "util/text.h"

const struct route routes[] = {
    {"GET", "/", BODY_IGNORED, NULL, index_finish, 0, NULL, "this list; in a browser the dashboard"},
    {"GET", "/assets/{file}", BODY_IGNORED, NULL, dashboard_asset_finish, 0, NULL, "what the dashboard is made of"},
    {"GET", "/livez", BODY_IGNORED, NULL, livez_finish, 0, NULL, "the process serves"},
    {"GET", "/readyz", BODY_IGNORED, NULL, readyz_finish, 0, "verbose", "new work is welcome"},
    {"GET", "/metrics", BODY_IGNORED, NULL, metrics_finish, SCOPE_ADMIN, NULL, "Prometheus text"},
    {"GET", "/version", BODY_IGNORED, NULL, version_finish, 0, NULL, "version of the service and of ONNX"},
    {"GET", "/openapi.json", BODY_IGNORED, NULL, openapi_finish, 0, NULL, "the contract, OpenAPI 3.1"},
    {"GET", "/v1/schemas/{file}", BODY_IGNORED, NULL, schema_finish, 0, NULL, "a type of the contract as JSON Schema"},
    {"GET", "/v1/devices", BODY_IGNORED, NULL, devices_finish, SCOPE_READ, "name", "the device catalog"},
    {"GET", "/v1/operators", BODY_IGNORED, NULL, operators_finish, SCOPE_READ, "name",
     "the operators and their sharding rules"},
    {"POST", "/v1/check", BODY_MODEL, check_begin, check_finish, SCOPE_PLAN,
     "name configuration device memory_bytes dims values shapes", "whether a model is sound, without storing it"},
    {"POST", "/v1/verify", BODY_JSON, verify_begin, verify_finish, SCOPE_READ, NULL,
     "whether the models of ranks together compute what a model computes"},
    {"POST", "/v1/convert", BODY_SHARDING, sharding_begin, convert_finish, SCOPE_READ, NULL,
     "a sharding in another notation"},
    {"POST", "/v1/reshard", BODY_SHARDING, sharding_begin, reshard_finish, SCOPE_READ, NULL,
     "the way from one sharding to another"},
    {"POST", "/v1/models", BODY_MODEL, models_upload_begin, models_upload_finish, SCOPE_PLAN, "name",
     "store an ONNX model"},
    {"GET", "/v1/models", BODY_IGNORED, NULL, models_list_finish, SCOPE_READ, "page_size page_token", "stored models"},
    {"GET", "/v1/models/{id}", BODY_IGNORED, NULL, model_get_finish, SCOPE_READ, NULL, "what a model is"},
    {"DELETE", "/v1/models/{id}", BODY_IGNORED, NULL, model_delete_finish, SCOPE_PLAN, NULL, "delete a model"},
    {"GET", "/v1/models/{id}/content", BODY_IGNORED, NULL, model_content_finish, SCOPE_READ, NULL,
     "the bytes of a model"},
    {"POST", "/v1/models/{id}/files", BODY_JSON, NULL, model_files_add_finish, SCOPE_PLAN, NULL,
     "a complete upload becomes a file beside a model"},
    {"GET", "/v1/models/{id}/files", BODY_IGNORED, NULL, model_files_list_finish, SCOPE_READ, NULL,
     "the files beside a model"},
    {"POST", "/v1/models/{id}/inspect", BODY_JSON, NULL, model_inspect_finish, SCOPE_READ, NULL,
     "inspect, with every value"},
    {"POST", "/v1/models/{id}/check", BODY_SHARDING, model_check_begin, model_check_finish, SCOPE_READ, NULL,
     "whether a model is sound"},
    {"POST", "/v1/models/{id}/infer", BODY_SHARDING, model_infer_begin, model_infer_finish, SCOPE_READ, NULL,
     "complete the annotations of a model"},
    {"POST", "/v1/uploads", BODY_JSON, NULL, uploads_create_finish, SCOPE_PLAN, NULL,
     "begin an upload that comes by parts"},
    {"GET", "/v1/uploads", BODY_IGNORED, NULL, uploads_list_finish, SCOPE_READ, "page_size page_token",
     "uploads by parts"},
    {"GET", "/v1/uploads/{id}", BODY_IGNORED, NULL, upload_get_finish, SCOPE_READ, NULL, "how far an upload has come"},
    {"PATCH", "/v1/uploads/{id}", BODY_PART, upload_part_begin, upload_part_finish, SCOPE_PLAN, NULL,
     "the next bytes of an upload"},
    {"DELETE", "/v1/uploads/{id}", BODY_IGNORED, NULL, upload_delete_finish, SCOPE_PLAN, NULL, "give an upload up"},
    {"POST", "/v1/plans", BODY_EITHER, plans_submit_begin, plans_submit_finish, SCOPE_PLAN,
     "devices device choose objective strategy batch dims values shapes what_if name priority validate_only",
     "plan a model"},
    {"POST", "/v1/replan", BODY_EITHER, replan_begin, replan_finish, SCOPE_PLAN, "validate_only",
     "plan again where devices came, went or changed"},
    {"GET", "/v1/plans", BODY_IGNORED, NULL, plans_list_finish, SCOPE_READ, "page_size page_token state model",
     "plans, newest first"},
    {"GET", "/v1/summary", BODY_IGNORED, NULL, summary_finish, SCOPE_READ, "page_size page_token state model",
     "plans as flat rows, for tables and charts"},
    {"GET", "/v1/plans/{id}", BODY_IGNORED, NULL, plan_get_finish, SCOPE_READ, NULL, "state and plan"},
    {"DELETE", "/v1/plans/{id}", BODY_IGNORED, NULL, plan_delete_finish, SCOPE_PLAN, NULL, "cancel and delete a plan"},
    {"POST", "/v1/plans/{id}/cancel", BODY_IGNORED, NULL, plan_cancel_finish, SCOPE_PLAN, NULL, "cancel a plan"},
    {"GET", "/v1/plans/{id}/events", BODY_IGNORED, NULL, plan_events_finish, SCOPE_READ, NULL,
     "what happens to a plan, as server-sent events"},
    {"GET", "/v1/plans/{id}/model", BODY_IGNORED, NULL, plan_model_finish, SCOPE_READ, NULL, "the annotated model"},
    {"GET", "/v1/plans/{id}/simulation", BODY_IGNORED, NULL, plan_simulation_finish, SCOPE_READ, NULL,
     "one model that does what all devices do"},
    {"GET", "/v1/plans/{id}/timeline", BODY_IGNORED, NULL, plan_timeline_finish, SCOPE_READ,
     "from to resolution first_lane lanes",
     "the first requests on every device: a Perfetto trace, or a span of time as JSON"},
    {"GET", "/v1/plans/{id}/summary", BODY_IGNORED, NULL, plan_summary_finish, SCOPE_READ, NULL,
     "the plan without what grows with the model"},
    {"GET", "/v1/plans/{id}/graph", BODY_IGNORED, NULL, plan_graph_finish, SCOPE_READ, "path depth stage group limit",
     "a level of the model's modules, and what flows between them"},
    {"GET", "/v1/plans/{id}/memory", BODY_IGNORED, NULL, plan_memory_finish, SCOPE_READ, "stage resolution",
     "what a device holds in the course of a request"},
    {"GET", "/v1/plans/{id}/nodes", BODY_IGNORED, NULL, plan_nodes_finish, SCOPE_READ,
     "page_size page_token search sort order stage operator path name index tensor", "the nodes of a plan"},
    {"GET", "/v1/plans/{id}/tensors", BODY_IGNORED, NULL, plan_tensors_finish, SCOPE_READ,
     "page_size page_token search sort order kind node name stage split differs_from", "the tensors of a plan"},
    {"GET", "/v1/plans/{id}/collectives", BODY_IGNORED, NULL, plan_collectives_finish, SCOPE_READ,
     "page_size page_token search sort order kind stage tensor node index", "the messages between devices"},
    {"GET", "/v1/plans/{id}/diagnostics", BODY_IGNORED, NULL, plan_diagnostics_finish, SCOPE_READ,
     "page_size page_token search sort order severity code node", "what a plan has to say of its model"},
    {"GET", "/v1/plans/{id}/devices/{device}/model", BODY_IGNORED, NULL, plan_device_model_finish, SCOPE_READ,
     "format part form", "what one device runs"},
    {"GET", "/v1/plans/{id}/devices/{device}/data", BODY_IGNORED, NULL, plan_device_data_finish, SCOPE_READ,
     "format form", "the weights that lie beside the models of one device"},
    {"GET", "/v1/plans/{id}/exports/{format}", BODY_IGNORED, NULL, plan_export_finish, SCOPE_READ, "form",
     "the plan in the notation of another tool"},
    {0},
};

/* Takes one segment of a path; false where it is empty or too long. */
static bool take_segment(const char **path, char *ret_text, size_t size)
{
    size_t length = strcspn(*path, "/");
    if (length == 0 || length >= size)
        return false;
    memcpy(ret_text, *path, length);
    ret_text[length] = '\0';
    *path += length;
    return true;
}

/* What a path says where its pattern leaves it open. */
struct blanks {
    char id[REQUEST_ID_SIZE], item[REQUEST_ITEM_SIZE];
};

/* A word of a path: letters, digits, dashes and underscores, and between two of these a dot, as names of files have. */
static bool is_item(const char *text)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
    size_t length = strlen(text);
    return strspn(text, allowed) == length && text[0] != '.' && text[length - 1] != '.' && strstr(text, "..") == NULL;
}

/* Matches a path against a pattern; {id} takes one segment of hexadecimal digits, any other name in braces a word. */
static bool match(const char *pattern, const char *path, struct blanks *ret_blanks)
{
    *ret_blanks = (struct blanks){0};
    while (*pattern != '\0') {
        if (strncmp(pattern, "{id}", 4) == 0) {
            if (!take_segment(&path, ret_blanks->id, sizeof ret_blanks->id) ||
                !text_is_hex(ret_blanks->id, strlen(ret_blanks->id)))
                return false;
            pattern += 4;
        } else if (*pattern == '{') {
            if (!take_segment(&path, ret_blanks->item, sizeof ret_blanks->item) || !is_item(ret_blanks->item))
                return false;
            pattern += strcspn(pattern, "}") + 1;
        } else if (*pattern++ != *path++) {
            return false;
        }
    }
    return *path == '\0';
}

static bool has_word(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = words; at != NULL && *at != '\0';) {
        size_t size = strcspn(at, " ");
        if (size == length && memcmp(at, word, size) == 0)
            return true;
        at += size + strspn(at + size, " ");
    }
    return false;
}

static bool check_parameters(const struct request *request, struct problem *problem)
{
    for (unsigned i = 0; i < request->parameter_count; i++) {
        const char *name = request->parameters[i].name;
        if (!has_word(request->route->parameters, name))
            return problem_set(problem, 400, "UNKNOWN_PARAMETER",
                               "The query parameter '%.64s' is not known here; known are: %s.", name,
                               request->route->parameters != NULL ? request->route->parameters : "none");
    }
    return true;
}

/* What --admin-listen serves. */
static bool is_for_operators(const char *pattern)
{
    static const char *const served[] = {"/livez", "/readyz", "/metrics", "/version"};
    bool found = false;
    for (size_t i = 0; i < sizeof served / sizeof served[0]; i++)
        found = found || strcmp(served[i], pattern) == 0;
    return found;
}

bool router_find(struct request *request, struct problem *problem)
{
    const char *method = strcmp(request->method, "HEAD") == 0 ? "GET" : request->method;
    char allow[ROUTER_ALLOW_SIZE] = "";
    for (const struct route *route = routes; route->method != NULL; route++) {
        struct blanks blanks;
        if ((request->admin && !is_for_operators(route->pattern)) || !match(route->pattern, request->uri, &blanks))
            continue;
        if (strcmp(route->method, method) == 0) {
            request->route = route;
            request->body_kind = route->body;
            memcpy(request->id, blanks.id, sizeof blanks.id);
            memcpy(request->item, blanks.item, sizeof blanks.item);
            return check_parameters(request, problem);
        }
        size_t used = strlen(allow);
        (void)snprintf(allow + used, sizeof allow - used, "%s%s", used > 0 ? ", " : "",
                       strcmp(route->method, "GET") == 0 ? "GET, HEAD" : route->method);
    }
    if (allow[0] == '\0')
        return problem_set(problem, 404, "NOT_FOUND", "There is nothing at this path; GET / lists what there is.");
    if (strcmp(request->method, "OPTIONS") == 0) {
        (void)snprintf(request->allow, sizeof request->allow, "%s", allow);
        return true;
    }
    request_add_header(request, "Allow", "%s, OPTIONS", allow);
    return problem_set(problem, 405, "METHOD_NOT_ALLOWED", "This path serves %s only.", allow);
}
