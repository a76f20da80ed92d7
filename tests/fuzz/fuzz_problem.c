/*
 * What the command makes of a server's refusal: whatever the body is, an error with a status that is none of success, a
 * code and a sentence, and nothing in them that a terminal would obey.
 *
 * An input is a byte that says the status of the answer and whether a token was given, and the body.
 */
#include <stdlib.h>
#include <string.h>

#include "client_private.h"
#include "fuzz.h"

/* What client_ask() would need: no call is made here. */
enum sp_status client_call(struct client *client, const struct call *call, struct answer *answer, struct sp_error *err)
{
    (void)client;
    (void)call;
    (void)answer;
    (void)err;
    abort();
}

static void expect_printable(const char *text, size_t size)
{
    char copy[SP_ERROR_MESSAGE_SIZE];
    if (strnlen(text, size) == size)
        abort();
    (void)memcpy(copy, text, strlen(text) + 1);
    sp_make_printable(copy, sizeof copy);
    if (strcmp(copy, text) != 0)
        abort();
}

static void check(enum sp_status status, const struct client *client, const struct sp_error *err)
{
    if (status == SP_OK || err->status != status || err->code[0] == '\0' || err->message[0] == '\0')
        abort();
    expect_printable(err->code, sizeof err->code);
    expect_printable(err->message, sizeof err->message);
    expect_printable(err->where, sizeof err->where);
    if (err->limit != NULL && err->limit != client->limit)
        abort();
    expect_printable(client->limit, sizeof client->limit);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const long statuses[] = {400, 401, 403, 404, 409, 413, 415, 422, 429, 500, 502, 503, 507, 301, 0, 1000};
    struct client client = {.url = "http://server:1/"};
    struct sp_error err = {0};
    if (size < 1 || size > 256 * 1024)
        return 0;
    const long status = statuses[bytes[0] % (sizeof statuses / sizeof *statuses)];
    if ((bytes[0] & 0x80) != 0)
        memcpy(client.token, "token", sizeof "token");
    char *body = malloc(size - 1 > 0 ? size - 1 : 1);
    memcpy(body, bytes + 1, size - 1);
    struct answer answer = {.status = status, .retry_after = bytes[0] & 0x40, .body = {.data = body, .size = size - 1}};
    check(client_problem(&client, &answer, &err), &client, &err);
    sp_error_clear(&err);
    client.limit[0] = '\0';
    check(client_problem_text(&client, 0, body, size - 1, &err), &client, &err); /* a status within the stream */
    free(body);
    return 0;
}
