/* What `convert` and `reshard` share: options that become members of a request, and the answer to it, from the library
   or from a daemon. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "cli.h"
#include "plan/convert/convert.h"

static const char lost[] = "# lost: ";

/* ---- options ---- */

static enum sp_status put_text(json_t *request, const char *member, const char *text, size_t size, struct sp_error *err)
{
    if (!sp_utf8_valid(text, size))
        return sp_fail(err, SP_ERR_REQUEST, "NOT_TEXT",
                       "What is given for '%s' is not UTF-8 text; bytes are written as \\XX or in hexadecimal.",
                       member);
    return json_object_set_new(request, member, json_stringn(text, size)) == 0 ? SP_OK : sp_fail_memory(err);
}

enum sp_status put_spec(json_t *request, const char *member, const char *spec, struct sp_error *err)
{
    struct sp_buf buf;
    if (strcmp(spec, "-") != 0)
        return put_text(request, member, spec, strlen(spec), err);
    enum sp_status status = read_small_file(spec, SP_MAX_SHARDING_BYTES, "SP_MAX_SHARDING_BYTES", &buf, err);
    if (status == SP_OK)
        status = put_text(request, member, buf.data != NULL ? buf.data : "", buf.size, err);
    sp_buf_release(&buf);
    return status;
}

/* "2,2", "[2, 2]", "[]", "2,?" */
static json_t *parse_shape(const char *text)
{
    json_t *shape = json_array();
    bool bracketed = text[0] == '[';
    const char *at = text + bracketed;
    bool ok = shape != NULL, more = !bracketed || strcmp(at, "]") != 0;
    while (ok && more) {
        char number[24] = "";
        int64_t extent = 0;
        at += strspn(at, " ");
        size_t size = strcspn(at, ",] ");
        ok = size > 0 && size < sizeof number;
        if (!ok)
            break;
        memcpy(number, at, size);
        bool unknown = strcmp(number, "?") == 0;
        ok = (unknown || parse_integer(number, 0, &extent)) &&
             json_array_append_new(shape, unknown ? json_null() : json_integer(extent)) == 0;
        at += size;
        at += strspn(at, " ");
        more = *at == ',';
        at += more;
    }
    if (ok && strcmp(at, bracketed ? "]" : "") == 0)
        return shape;
    json_decref(shape);
    return NULL;
}

static int put_value(const struct common *common, const struct member_option *option, char *value, json_t *request)
{
    struct sp_error err = {0};
    enum sp_status status = SP_OK;
    json_t *json = NULL;
    int64_t integer;
    double number;
    switch (option->kind) {
    case MEMBER_LOCAL:
        *option->value = value;
        return EXIT_DONE;
    case MEMBER_EACH:
        status = option->put(request, value, &err);
        return status == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
    case MEMBER_TEXT:
        status = put_text(request, option->member, value, strlen(value), &err);
        return status == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
    case MEMBER_FLAG:
        json = json_true();
        break;
    case MEMBER_COUNT:
        if (!parse_integer(value, option->least, &integer))
            return report_usage(common, "--%s takes a whole number of %d or more, not '%.64s'.", option->name,
                                option->least, value);
        json = json_integer(integer);
        break;
    case MEMBER_BYTES:
        if (!parse_bytes(value, &number))
            return report_usage(common, "--%s takes a number of bytes, like 80e9, not '%.64s'.", option->name, value);
        json = json_real(number);
        break;
    case MEMBER_SHAPE:
        json = parse_shape(value);
        if (json == NULL)
            return report_usage(common, "--%s takes extents like 2,2 or [2,2], not '%.64s'.", option->name, value);
        break;
    }
    if (json_object_set_new(request, option->member, json) == 0)
        return EXIT_DONE;
    (void)sp_fail_memory(&err);
    return report_error(common, &err, NULL);
}

int parse_members(struct common *common, int argc, char **argv, const struct member_options *taken, json_t *request,
                  bool *ret_help)
{
    const struct member_option *members = taken->members;
    const size_t count = taken->count;
    enum { OPT_HELP = 256, OPT_JSON, OPT_MEMBER, COMMON_COUNT = 2 + SERVER_OPTION_COUNT };
    char letters[MAX_MEMBER_OPTIONS * 2 + 4] = ":h";
    struct option options[MAX_MEMBER_OPTIONS + COMMON_COUNT + 1] = {
        {"help", no_argument, NULL, OPT_HELP},
        {"json", no_argument, NULL, OPT_JSON},
        SERVER_OPTIONS,
    };
    int option, code = EXIT_DONE;
    for (size_t i = 0; i < count && i < MAX_MEMBER_OPTIONS; i++)
        options[i + COMMON_COUNT] =
            (struct option){members[i].name, members[i].kind == MEMBER_FLAG ? no_argument : required_argument, NULL,
                            OPT_MEMBER + (int)i};
    for (size_t i = 0; i < count && i < MAX_MEMBER_OPTIONS; i++) {
        size_t used = strlen(letters);
        if (members[i].kind == MEMBER_LOCAL && members[i].least != 0)
            (void)snprintf(letters + used, sizeof letters - used, "%c:", members[i].least);
    }
    *ret_help = false;
    opterr = 0;
    while (code == EXIT_DONE && (option = getopt_long(argc, argv, letters, options, NULL)) != -1) {
        if (option == 'h' || option == OPT_HELP) {
            struct sp_error err = {0};
            *ret_help = true;
            (void)fputs(taken->help, stdout);
            return finish_stdout(&err) == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
        }
        if (take_server_option(common, option, optarg))
            continue;
        if (option == ':' || option == '?')
            code = report_bad_option(common, option, argv[optind - 1]);
        for (size_t i = 0; i < count && option < OPT_HELP; i++) {
            if (members[i].kind == MEMBER_LOCAL && members[i].least == option)
                option = OPT_MEMBER + (int)i;
        }
        if (option >= OPT_MEMBER)
            code = put_value(common, &members[option - OPT_MEMBER], optarg, request);
    }
    return code == EXIT_DONE ? complete_server_options(common) : code;
}

/* ---- answers ---- */

/* Lines that say what is lost are notes: what stands on standard output can be read again. */
static enum sp_status print_lines(const char *text, size_t size, struct sp_error *err)
{
    const char *end = text + size;
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t length = newline != NULL ? (size_t)(newline + 1 - text) : (size_t)(end - text);
        size_t head = sizeof lost - 1;
        if (length > head && memcmp(text, lost, head) == 0)
            print_note("%.*s", (int)(length - head - (newline != NULL)), text + head);
        else
            (void)write_stdout(NULL, text, length);
        text += length;
    }
    return finish_stdout(err);
}

static enum sp_status answer_json(bool is_reshard, struct sp_arena *arena, const json_t *request, struct sp_error *err)
{
    struct sp_json json;
    sp_json_init(&json, false, write_stdout, NULL);
    enum sp_status status =
        is_reshard ? sp_reshard_json(arena, request, &json, err) : sp_convert_json(arena, request, &json, err);
    if (status != SP_OK)
        return status;
    (void)sp_json_finish(&json, NULL);
    (void)write_stdout(NULL, "\n", 1);
    return finish_stdout(err);
}

static enum sp_status answer_text(bool is_reshard, struct sp_arena *arena, const json_t *request, struct sp_error *err)
{
    struct sp_buf buf;
    sp_buf_init(&buf, SP_MAX_ANSWER_BYTES);
    enum sp_status status =
        is_reshard ? sp_reshard_text(arena, request, &buf, err) : sp_convert_text(arena, request, &buf, err);
    if (status == SP_OK)
        status = print_lines(buf.data != NULL ? buf.data : "", buf.size, err);
    sp_buf_release(&buf);
    return status;
}

static enum sp_status answer_here(const struct common *common, bool is_reshard, const json_t *request,
                                  struct sp_error *err)
{
    struct sp_budget budget = {.limit = SP_DEFAULT_JOB_BYTES};
    struct sp_arena *arena = sp_arena_create(&budget);
    enum sp_status status;
    if (arena == NULL)
        return sp_fail_memory(err);
    status = common->json ? answer_json(is_reshard, arena, request, err) : answer_text(is_reshard, arena, request, err);
    sp_arena_destroy(arena);
    return status;
}

static enum sp_status answer_there(const struct common *common, bool is_reshard, const json_t *request,
                                   struct sp_error *err)
{
    struct sp_buf body, answer;
    char *text = json_dumps(request, JSON_COMPACT);
    sp_buf_init(&body, CLI_MAX_CLUSTER_BYTES);
    memset(&answer, 0, sizeof answer);
    if (text != NULL)
        sp_buf_text(&body, text);
    enum sp_status status = text == NULL || sp_buf_failed(&body) ? sp_fail_memory(err) : SP_OK;
    free(text);
    if (status == SP_OK)
        status = remote_ask(common, is_reshard ? "/v1/reshard" : "/v1/convert", &body, &answer, err);
    if (status == SP_OK && common->json) {
        (void)write_stdout(NULL, answer.data != NULL ? answer.data : "", answer.size);
        (void)write_stdout(NULL, "\n", 1);
        status = finish_stdout(err);
    } else if (status == SP_OK) {
        status = print_lines(answer.data != NULL ? answer.data : "", answer.size, err);
    }
    sp_buf_release(&body);
    sp_buf_release(&answer);
    return status;
}

int answer_sharding(const struct common *common, bool is_reshard, const json_t *request)
{
    struct sp_error err = {0};
    enum sp_status status = common->server != NULL ? answer_there(common, is_reshard, request, &err)
                                                   : answer_here(common, is_reshard, request, &err);
    return status == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
}
