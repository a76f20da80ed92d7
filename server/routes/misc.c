#include <string.h>

#include "http/respond.h"
#include "observe/metrics.h"
#include "plan/answer/device_catalog.h"
#include "plan/plan.h"
#include "routes/openapi.h"
#include "routes/routes.h"
#include "store/folder.h"
#include "version.h"

static enum verdict finish_json(struct request *request, int status, struct sp_json *json, struct sp_buf *buf)
{
    if (sp_json_finish(json, NULL) != SP_OK)
        buf->failed = true;
    return respond_buf(request, status, "application/json", buf);
}

static enum verdict index_json(struct request *request)
{
    struct sp_buf buf;
    struct sp_json json;
    sp_buf_init(&buf, 64 * 1024);
    sp_json_init_buf(&json, false, &buf);
    sp_json_begin_object(&json);
    sp_json_member_string(&json, "service", "shardplan");
    sp_json_member_string(&json, "version", SPD_VERSION);
    sp_json_key(&json, "routes");
    sp_json_begin_array(&json);
    for (const struct route *route = request->server->routes; route->method != NULL; route++) {
        sp_json_begin_object(&json);
        sp_json_member_string(&json, "method", route->method);
        sp_json_member_string(&json, "path", route->pattern);
        sp_json_member_string(&json, "summary", route->summary);
        sp_json_end_object(&json);
    }
    sp_json_end_array(&json);
    sp_json_end_object(&json);
    return finish_json(request, 200, &json, &buf);
}

enum verdict index_finish(struct request *request)
{
    int as_json = request_accepts(request, "application/json"), as_text = request_accepts(request, "text/plain");
    int as_page = request_accepts(request, "text/html");
    if (as_page > as_json && as_page > as_text)
        return dashboard_page(request);
    if (as_json >= as_text)
        return index_json(request);
    struct sp_buf buf;
    sp_buf_init(&buf, 64 * 1024);
    sp_buf_text(&buf, "Shardplan " SPD_VERSION " plans how an ONNX model runs on several devices.\n\n");
    for (const struct route *route = request->server->routes; route->method != NULL; route++)
        sp_buf_printf(&buf, "%-6s  %-26s  %s\n", route->method, route->pattern, route->summary);
    return respond_buf(request, 200, "text/plain; charset=utf-8", &buf);
}

enum verdict store_is_away(struct request *request)
{
    struct problem problem = {0};
    if (folder_look(request->server->folder, &problem))
        (void)problem_set(&problem, 503, "STORE_UNAVAILABLE",
                          "The store does not answer at the moment; try again later.");
    return respond_problem(request, &problem);
}

enum verdict metrics_finish(struct request *request)
{
    struct sp_buf buf;
    sp_buf_init(&buf, 1u << 20);
    metrics_write(request->server->metrics, request->server, &buf);
    return respond_buf(request, 200, "text/plain; version=0.0.4; charset=utf-8", &buf);
}

enum verdict version_finish(struct request *request)
{
    struct sp_buf buf;
    struct sp_json json;
    sp_buf_init(&buf, 4096);
    sp_json_init_buf(&json, false, &buf);
    sp_json_begin_object(&json);
    sp_json_member_string(&json, "name", "shardplan");
    sp_json_member_string(&json, "version", SPD_VERSION);
    sp_json_member_string(&json, "api", "v1");
    sp_json_member_int(&json, "onnx_ir_version", SPD_ONNX_IR_VERSION);
    sp_json_member_string(&json, "compiler", __VERSION__);
    sp_json_end_object(&json);
    return finish_json(request, 200, &json, &buf);
}

enum verdict openapi_finish(struct request *request)
{
    struct sp_buf buf;
    sp_buf_init(&buf, SIZE_MAX);
    sp_buf_text(&buf, openapi_json);
    return respond_fixed(request, "application/json", &buf);
}

enum verdict schema_finish(struct request *request)
{
    const struct openapi_schema *schema = openapi_schemas;
    struct sp_buf buf;
    while (schema->name != NULL && strcmp(schema->name, request->item) != 0)
        schema++;
    if (schema->name == NULL)
        return respond_error(request, 404, "SCHEMA_NOT_FOUND",
                             "There is no schema '%s'; the contract at /openapi.json lists them.", request->item);
    sp_buf_init(&buf, SIZE_MAX);
    sp_buf_text(&buf, schema->json);
    return respond_fixed(request, "application/schema+json", &buf);
}

enum verdict devices_finish(struct request *request)
{
    return respond_table(request, request_parameter(request, "name"), sp_devices_text, sp_devices_json);
}

enum verdict model_missing(struct request *request)
{
    return respond_error(request, 404, "MODEL_NOT_FOUND", "There is no model with this id.");
}
