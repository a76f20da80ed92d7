#include "plan/check.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_reader.h"
#include "cost/cluster/cluster.h"
#include "import/import.h"
#include "plan/answer/readable_text.h"
#include "plan/cost_graph.h"
#include "plan/model_file.h"
#include "plan/sizes/bind.h"

#define TEXT_COLUMNS 110

struct sp_check_answer {
    struct sp_budget budget;
    struct sp_model_file file;
    struct sp_arena *arena;
    struct sp_diagnostics list;
    struct sp_model *model; /* NULL when it could not be read */
    const char *name;
    const char *placement; /* text of a file that places nodes, or NULL */
};

/* ---- the request ---------------------------------------------------------------------------------------------- */

static enum sp_status read_device(struct sp_members_reader *reader, const json_t *request, double *ret_bytes)
{
    static const struct sp_members_range range = {"a number of bytes", 1, 1e24};
    const char *name = NULL;
    enum sp_status status = sp_members_text(reader, request, "", "device", SP_MAX_NAME_BYTES, &name);
    if (status == SP_OK)
        status = sp_members_number(reader, request, "", "memory_bytes", &range, false, ret_bytes);
    if (status != SP_OK || name == NULL)
        return status;
    const struct sp_device *device = sp_device_find(name);
    if (device == NULL) {
        (void)sp_cluster_unknown_device(name, reader->err);
        return sp_error_at(reader->err, "/device");
    }
    if (*ret_bytes == 0)
        *ret_bytes = device->memory_bytes;
    return SP_OK;
}

static enum sp_status read_request(struct sp_arena *arena, const json_t *request, struct sp_check_options *options,
                                   struct sp_sizes *sizes, const char **ret_placement, struct sp_error *err)
{
    static const char *const members[] = {"configuration", "device",    "memory_bytes", "dims",     "values",
                                          "shapes",        "operators", "state",        "placement"};
    struct sp_members_reader reader = {arena, err};
    if (request == NULL)
        return SP_OK;
    enum sp_status status = sp_members_check(&reader, (json_t *)(uintptr_t)request, "", "A request to check", members,
                                             sizeof members / sizeof members[0]);
    if (status == SP_OK)
        status = sp_members_text(&reader, request, "", "configuration", SP_MAX_NAME_BYTES, &options->configuration);
    if (status == SP_OK)
        status = read_device(&reader, request, &options->memory_bytes);
    if (status == SP_OK)
        status = sp_members_text(&reader, request, "", "placement", SP_MAX_PLACEMENT_BYTES, ret_placement);
    if (status == SP_OK)
        status = sp_sizes_parse(arena, request, "", sizes, err);
    return status;
}

enum sp_status sp_check_request_verify(const json_t *request, struct sp_error *err)
{
    struct sp_check_options options = {0};
    struct sp_sizes sizes;
    const char *placement = NULL;
    struct sp_arena *arena = sp_arena_create(NULL);
    enum sp_status status =
        arena != NULL ? read_request(arena, request, &options, &sizes, &placement, err) : sp_fail_memory(err);
    sp_arena_destroy(arena);
    return status;
}

/* ---- the answer ----------------------------------------------------------------------------------------------- */

void sp_check_answer_destroy(struct sp_check_answer *answer)
{
    if (answer == NULL)
        return;
    sp_arena_destroy(answer->arena);
    sp_model_file_release(&answer->file);
    free(answer);
}

/* A model that cannot be read is looked at without sizes: then the check says what is wrong with it. */
static enum sp_status bind_sizes(const struct sp_check_answer *answer, const struct sp_sizes *sizes,
                                 struct sp_read_options *read, struct sp_error *err)
{
    struct sp_error what = {0};
    enum sp_status status =
        sp_sizes_read_options(answer->arena, answer->file.bytes, answer->file.size, read, sizes, read, &what);
    if (status == SP_OK || status == SP_ERR_MODEL || status == SP_ERR_UNSUPPORTED)
        return SP_OK;
    if (err != NULL)
        *err = what;
    return status;
}

/* The model is checked, and then where the file puts its nodes. */
static enum sp_status run(struct sp_check_answer *answer, const struct sp_check_options *check, struct sp_error *err)
{
    enum sp_status status =
        sp_check_run(answer->arena, answer->file.bytes, answer->file.size, check, &answer->list, &answer->model, err);
    if (status == SP_OK && answer->placement != NULL && answer->model != NULL && answer->list.errors == 0)
        status = sp_import_check(answer->model, answer->placement, strlen(answer->placement), check->memory_bytes,
                                 &answer->list, err);
    return status;
}

enum sp_status sp_check_answer_create(const struct sp_job_options *options, const json_t *request,
                                      struct sp_check_answer **ret_answer, struct sp_error *err)
{
    struct sp_check_options check = {.read = {.hash_seed = options->hash_seed, .watch = options->watch}};
    struct sp_sizes sizes = {0};
    struct sp_check_answer *answer = calloc(1, sizeof *answer);
    if (answer == NULL)
        return sp_fail_memory(err);
    const size_t placement = json_string_length(json_object_get(request, "placement"));
    sp_budget_for_file(&answer->budget, options->size + placement, 0, options->memory_budget);
    answer->arena = sp_arena_create(&answer->budget);
    enum sp_status status = answer->arena != NULL ? SP_OK : sp_fail_memory(err);
    if (status == SP_OK) {
        const char *name = options->name != NULL ? options->name : "";
        answer->name = sp_arena_string(answer->arena, name, strlen(name));
        status = answer->name != NULL ? SP_OK : sp_fail_memory(err);
    }
    if (status == SP_OK)
        status = read_request(answer->arena, request, &check, &sizes, &answer->placement, err);
    if (status == SP_OK)
        status = sp_model_file_open_any(&answer->budget, options->bytes, options->size, options->hash_seed,
                                        options->watch, &answer->file, err);
    if (status == SP_OK && answer->file.costs != NULL && check.configuration != NULL)
        status = sp_fail(err, SP_ERR_REQUEST, "NO_CONFIGURATION",
                         "A graph of costs has no configuration '%.200s', and no other.", check.configuration);
    if (status == SP_OK && answer->file.costs != NULL && answer->placement != NULL)
        status = sp_fail(err, SP_ERR_REQUEST, "PLACEMENT_FILE",
                         "A graph of costs is not what a file of another tool places: give the model.");
    if (status == SP_OK && answer->file.costs != NULL)
        status = sp_costs_check_options(&sizes, 0, err);
    else if (status == SP_OK)
        status = bind_sizes(answer, &sizes, &check.read, err);
    /* Of a graph of costs all that can be wrong is its form, which is right since it was read. */
    if (status == SP_OK && answer->file.costs == NULL)
        status = run(answer, &check, err);
    if (status != SP_OK) {
        status = sp_budget_explain(&answer->budget, err);
        sp_check_answer_destroy(answer);
        return status;
    }
    *ret_answer = answer;
    return SP_OK;
}

const struct sp_model *sp_check_answer_model(const struct sp_check_answer *answer)
{
    return answer->file.is_converted ? NULL : answer->model;
}

bool sp_check_answer_is_valid(const struct sp_check_answer *answer)
{
    return answer->list.errors == 0;
}

/* ---- JSON ----------------------------------------------------------------------------------------------------- */

static const char *hint_of(const struct sp_diagnostic *item)
{
    return item->hint != NULL ? item->hint : item->code->remedy;
}

void sp_diagnostics_write_json(const struct sp_diagnostics *list, struct sp_json *json)
{
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < list->count; i++) {
        const struct sp_diagnostic *item = &list->items[i];
        sp_json_begin_object(json);
        sp_json_member_string(json, "code", item->code->code);
        sp_json_member_string(json, "severity", sp_severity_name(item->severity));
        sp_json_member_string(json, "message", item->message);
        sp_json_member_string(json, "node", item->place);
        sp_json_member_string(json, "tensor", item->tensor);
        sp_json_member_string(json, "configuration", item->configuration);
        sp_json_member_string(json, "hint", hint_of(item));
        sp_json_key(json, "bytes");
        if (item->bytes > 0)
            sp_json_double(json, item->bytes);
        else
            sp_json_null(json);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

void sp_check_answer_json(const struct sp_check_answer *answer, struct sp_json *json)
{
    const struct sp_diagnostics *list = &answer->list;
    sp_json_begin_object(json);
    sp_json_member_bool(json, "valid", sp_check_answer_is_valid(answer));
    sp_json_member_int(json, "errors", (int64_t)list->errors);
    sp_json_member_int(json, "warnings", (int64_t)list->warnings);
    sp_json_member_int(json, "notes", (int64_t)list->notes);
    sp_json_key(json, "diagnostics");
    sp_diagnostics_write_json(list, json);
    sp_json_end_object(json);
}

/* ---- text ----------------------------------------------------------------------------------------------------- */

static void write_finding(const struct sp_diagnostic *item, struct sp_buf *buf)
{
    sp_buf_printf(buf, "%s %s\n  ", sp_severity_name(item->severity), item->code->code);
    sp_text_wrapped(buf, item->message, 2, TEXT_COLUMNS);
    sp_buf_text(buf, "  ");
    sp_text_wrapped(buf, hint_of(item), 2, TEXT_COLUMNS);
}

static void write_count(const char *what, uint64_t count, const char *end, struct sp_buf *buf)
{
    sp_text_integer(buf, count);
    sp_buf_printf(buf, " %s%s%s", what, count == 1 ? "" : "s", end);
}

void sp_check_answer_text(const struct sp_check_answer *answer, struct sp_buf *buf)
{
    const struct sp_diagnostics *list = &answer->list;
    uint64_t found = list->errors + list->warnings + list->notes;
    for (uint32_t i = 0; i < list->count; i++)
        write_finding(&list->items[i], buf);
    if (found > list->count) {
        write_count("more finding", found - list->count, " not listed\n", buf);
    }
    sp_text_cut(buf, answer->name[0] != '\0' ? answer->name : "The model", TEXT_COLUMNS / 2);
    sp_buf_text(buf, sp_check_answer_is_valid(answer) ? " is valid: " : " is not valid: ");
    write_count("error", list->errors, ", ", buf);
    write_count("warning", list->warnings, ", ", buf);
    write_count("note", list->notes, "\n", buf);
}
