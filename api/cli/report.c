#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "base/utf8.h"
#include "cli.h"

static enum exit_code exit_code_of(enum sp_status status)
{
    switch (status) {
    case SP_OK:
        return EXIT_DONE;
    case SP_ERR_MODEL:
    case SP_ERR_UNSUPPORTED:
        return EXIT_MODEL;
    case SP_ERR_MALFORMED:
    case SP_ERR_LIMIT:
    case SP_ERR_REQUEST:
        return EXIT_USAGE;
    case SP_ERR_NOFIT:
        return EXIT_NOFIT;
    case SP_ERR_MEMORY:
    case SP_ERR_IO:
    case SP_ERR_CANCELLED:
    case SP_ERR_INTERNAL:
        return EXIT_FAILED;
    }
    return EXIT_FAILED;
}

void make_utf8(char *text)
{
    size_t size = strlen(text);
    for (size_t at = 0; at < size;) {
        unsigned char c = (unsigned char)text[at];
        size_t length = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
        if (at + length > size || !sp_utf8_valid(text + at, length)) {
            text[at] = '?';
            length = 1;
        }
        at += length;
    }
}

static void print_json_error(const struct sp_error *err, const char *hint)
{
    struct sp_json json;
    sp_json_init(&json, false, write_stdout, NULL);
    sp_json_begin_object(&json);
    sp_json_key(&json, "error");
    sp_json_begin_object(&json);
    sp_json_member_string(&json, "status", sp_status_name(err->status));
    sp_json_member_string(&json, "code", err->code);
    sp_json_member_string(&json, "message", err->message);
    sp_json_member_string(&json, "where", err->where[0] != '\0' ? err->where : NULL);
    if (err->limit != NULL) {
        sp_json_member_string(&json, "limit", err->limit);
        sp_json_member_int(&json, "limit_value", err->limit_value);
        sp_json_member_int(&json, "actual", err->actual);
    }
    if (err->least_memory_bytes > 0) {
        sp_json_member_int(&json, "least_memory_bytes", err->least_memory_bytes);
        sp_json_member_int(&json, "too_little_memory_bytes", err->too_little_memory_bytes);
    }
    sp_json_member_string(&json, "hint", hint);
    sp_json_end_object(&json);
    sp_json_end_object(&json);
    (void)sp_json_finish(&json, NULL);
    (void)write_stdout(NULL, "\n", 1);
    (void)finish_stdout(NULL);
}

/* Where no plan fits, the limit is a number of devices that would do, and what was found are bytes that are lacking. */
static void print_limit(const struct sp_error *err)
{
    struct sp_buf text;
    sp_buf_init(&text, 256);
    if (strcmp(err->limit, "devices") != 0) {
        sp_buf_printf(&text, "limit %s = %lld, found %lld", err->limit, (long long)err->limit_value,
                      (long long)err->actual);
    } else {
        if (err->actual > 0) {
            sp_buf_text(&text, "lacking memory: ");
            sp_text_bytes(&text, (double)err->actual);
        }
        if (err->limit_value > 0)
            sp_buf_printf(&text, "%sdevices that would do: %lld", text.size > 0 ? "; " : "",
                          (long long)err->limit_value);
    }
    if (!sp_buf_failed(&text) && text.size > 0)
        (void)fprintf(stderr, "  %s\n", text.data);
    sp_buf_release(&text);
}

int report_error(const struct common *common, const struct sp_error *error, const char *hint)
{
    struct sp_error copy = *error, *err = &copy;
    make_utf8(err->message); /* it quotes arguments, and may be cut inside a character */
    make_utf8(err->where);
    (void)fprintf(stderr, "shardplan: %s [%s]", err->message, err->code);
    if (err->where[0] != '\0')
        (void)fprintf(stderr, " at %s", err->where);
    (void)fputc('\n', stderr);
    if (err->limit != NULL)
        print_limit(err);
    if (hint != NULL)
        (void)fprintf(stderr, "  %s\n", hint);
    if (common->json)
        print_json_error(err, hint);
    return (int)exit_code_of(err->status);
}

int report_usage(const struct common *common, const char *format, ...)
{
    char text[SP_ERROR_MESSAGE_SIZE], hint[80];
    struct sp_error err = {0};
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)sp_fail(&err, SP_ERR_REQUEST, "USAGE", "%s", text);
    (void)snprintf(hint, sizeof hint, "Try 'shardplan %s%s--help'.", common->command != NULL ? common->command : "",
                   common->command != NULL ? " " : "");
    return report_error(common, &err, hint);
}

int report_bad_option(const struct common *common, int option, const char *argument)
{
    if (option == ':')
        return report_usage(common, "The option '%.80s' needs a value.", argument);
    return report_usage(common, "There is no option '%.80s', or it takes no value.", argument);
}

void print_note(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    const int size = vasprintf(&text, format, args);
    va_end(args);
    if (size < 0)
        return;
    const size_t room = (size_t)size * 3 + 1; /* an escape takes six bytes in place of two */
    char *roomy = realloc(text, room);
    text = roomy != NULL ? roomy : text;
    sp_make_printable(text, roomy != NULL ? room : (size_t)size + 1);
    (void)fprintf(stderr, "shardplan: note: %s\n", text);
    free(text);
}
