#include "util/problem.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "util/text.h"

__attribute__((format(printf, 4, 0))) static void record(struct problem *problem, int status, const char *code,
                                                         const char *format, va_list args)
{
    memset(problem, 0, sizeof *problem);
    problem->status = status;
    (void)snprintf(problem->code, sizeof problem->code, "%s", code);
    (void)vsnprintf(problem->detail, sizeof problem->detail, format, args);
}

bool problem_set(struct problem *problem, int status, const char *code, const char *format, ...)
{
    if (problem->status != 0)
        return false;
    va_list args;
    va_start(args, format);
    record(problem, status, code, format, args);
    va_end(args);
    return false;
}

bool problem_set_limit(struct problem *problem, int status, const char *code, const char *limit, int64_t limit_value,
                       int64_t actual, const char *format, ...)
{
    if (problem->status != 0)
        return false;
    va_list args;
    va_start(args, format);
    record(problem, status, code, format, args);
    va_end(args);
    (void)snprintf(problem->limit, sizeof problem->limit, "%s", limit);
    problem->limit_value = limit_value;
    problem->actual = actual;
    return false;
}

int problem_http_status(enum sp_status status)
{
    switch (status) {
    case SP_ERR_MALFORMED:
        return 400;
    case SP_ERR_LIMIT:
    case SP_ERR_MODEL:
    case SP_ERR_UNSUPPORTED:
    case SP_ERR_REQUEST:
    case SP_ERR_NOFIT:
        return 422;
    case SP_ERR_MEMORY:
        return 503;
    default:
        return 500;
    }
}

/* What a path or a query names and is not there, or cannot be meant; everything else goes by the kind of the error. */
static int http_status_of(const struct sp_error *err)
{
    static const struct {
        const char *code;
        int status;
    } named[] = {{"NO_SUCH_DEVICE", 404}, {"NO_DEVICE", 404},    {"NO_SUCH_PART", 404}, {"NO_SUCH_MODULE", 404},
                 {"NO_SUCH_STAGE", 404},  {"NO_SUCH_LANE", 404}, {"BAD_SPAN", 400}};
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        if (err->status == SP_ERR_REQUEST && strcmp(err->code, named[i].code) == 0)
            return named[i].status;
    }
    return problem_http_status(err->status);
}

void problem_from_error(struct problem *problem, const struct sp_error *err)
{
    if (problem->status != 0)
        return;
    (void)problem_set(problem, http_status_of(err), err->code[0] != '\0' ? err->code : "INTERNAL", "%s", err->message);
    (void)snprintf(problem->kind, sizeof problem->kind, "%s", sp_status_name(err->status));
    (void)snprintf(problem->where, sizeof problem->where, "%s", err->where);
    if (err->limit != NULL) {
        (void)snprintf(problem->limit, sizeof problem->limit, "%s", err->limit);
        problem->limit_value = err->limit_value;
        problem->actual = err->actual;
    }
    problem->least_memory_bytes = err->least_memory_bytes;
    problem->too_little_memory_bytes = err->too_little_memory_bytes;
}

bool problem_from_errno(struct problem *problem, int error, const char *what)
{
    if (error == ENOSPC || error == EDQUOT)
        return problem_set(problem, 507, "DISK_FULL",
                           "The disk of the data folder is full (%s); delete plans or models, or add space.", what);
    if (error == EROFS)
        return problem_set(problem, 503, "DATA_FOLDER_READ_ONLY",
                           "The data folder cannot be written at the moment (%s); what is stored can be read.", what);
    if (error == EFBIG)
        return problem_set(
            problem, 507, "FILE_TOO_LARGE",
            "%s failed: the file would be larger than the file system or the limit of the process lets it "
            "be.",
            what);
    if (error == EMFILE || error == ENFILE)
        return problem_set(problem, 503, "TOO_MANY_OPEN_FILES",
                           "%s failed: as many files are open as the system allows; try again later.", what);
    if (error == ENOMEM)
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory (%s); try again later.", what);
    return problem_set(problem, 500, "IO_ERROR", "%s failed: %s.", what, strerrordesc_np(error));
}

bool problem_no_memory(struct problem *problem)
{
    return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
}

bool problem_of_stored(struct problem *problem, int error, const char *damaged, const char *what)
{
    char reading[96];
    if (error == ENOENT || error == ENOTDIR || error == ELOOP || error == EINVAL)
        return problem_set(problem, 500, damaged, "What is stored cannot be read: %s is missing or damaged.", what);
    (void)snprintf(reading, sizeof reading, "Reading %s", what);
    return problem_from_errno(problem, error, reading);
}

bool problem_is_of_files(const struct problem *problem)
{
    return strcmp(problem->code, "IO_ERROR") == 0 || strcmp(problem->code, "DATA_FOLDER_READ_ONLY") == 0;
}

const char *problem_title(int status)
{
    static const struct {
        int status;
        const char *title;
    } titles[] = {
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {411, "Length Required"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {507, "Insufficient Storage"},
    };
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++) {
        if (titles[i].status == status)
            return titles[i].title;
    }
    return "Error";
}

void problem_write_members(const struct problem *problem, struct sp_json *json)
{
    sp_json_member_int(json, "status", problem->status);
    sp_json_member_string(json, "code", problem->code);
    sp_json_member_string(json, "detail", problem->detail);
    if (problem->kind[0] != '\0')
        sp_json_member_string(json, "kind", problem->kind);
    if (problem->where[0] != '\0')
        sp_json_member_string(json, "where", problem->where);
    if (problem->limit[0] != '\0') {
        sp_json_member_string(json, "limit", problem->limit);
        sp_json_member_int(json, "limit_value", problem->limit_value);
        sp_json_member_int(json, "actual", problem->actual);
    }
    if (problem->least_memory_bytes > 0) {
        sp_json_member_int(json, "least_memory_bytes", problem->least_memory_bytes);
        sp_json_member_int(json, "too_little_memory_bytes", problem->too_little_memory_bytes);
    }
}

char *problem_to_text(const struct problem *problem)
{
    struct sp_buf buf;
    struct sp_json json;
    sp_buf_init(&buf, 64 * 1024);
    sp_json_init_buf(&json, false, &buf);
    sp_json_begin_object(&json);
    problem_write_members(problem, &json);
    sp_json_end_object(&json);
    if (sp_json_finish(&json, NULL) != SP_OK || sp_buf_failed(&buf)) {
        sp_buf_release(&buf);
        return NULL;
    }
    return buf.data;
}

static void take_text(char *to, size_t size, const json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));
    (void)snprintf(to, size, "%s", text != NULL ? text : "");
    text_clean(to); /* cutting may have split a character */
}

void problem_from_json(struct problem *problem, const json_t *json)
{
    memset(problem, 0, sizeof *problem);
    json_int_t status = json_integer_value(json_object_get(json, "status"));
    problem->status = status >= 400 && status <= 599 ? (int)status : 500;
    take_text(problem->code, sizeof problem->code, json, "code");
    take_text(problem->detail, sizeof problem->detail, json, "detail");
    take_text(problem->kind, sizeof problem->kind, json, "kind");
    take_text(problem->where, sizeof problem->where, json, "where");
    take_text(problem->limit, sizeof problem->limit, json, "limit");
    problem->limit_value = json_integer_value(json_object_get(json, "limit_value"));
    problem->actual = json_integer_value(json_object_get(json, "actual"));
    problem->least_memory_bytes = json_integer_value(json_object_get(json, "least_memory_bytes"));
    problem->too_little_memory_bytes = json_integer_value(json_object_get(json, "too_little_memory_bytes"));
    if (problem->code[0] == '\0')
        (void)snprintf(problem->code, sizeof problem->code, "INTERNAL");
    if (problem->detail[0] == '\0')
        (void)snprintf(problem->detail, sizeof problem->detail, "The job failed without saying why.");
}
