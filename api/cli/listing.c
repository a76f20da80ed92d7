/* Lists of a server, page after page, and ids that are named by their first digits. */
#include <stdio.h>
#include <string.h>

#include "client.h"

#define PAGE_SIZE    500
#define MAX_PAGES    20000 /* a server whose pages never end has something wrong */
#define MAX_PATH     1024
#define LEAST_DIGITS 4

static enum sp_status bad_page(const char *what, struct sp_error *err)
{
    return sp_fail(err, SP_ERR_IO, "SERVER_ERROR", "The server's list of %s makes no sense.", what);
}

/* A token goes into the next address as it came; only what may stand there is taken. */
static bool is_plain(const char *token)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~=";
    return token[0] != '\0' && strlen(token) < MAX_PATH / 2 && strspn(token, plain) == strlen(token);
}

enum sp_status client_list(struct client *client, const char *what, const char *filter, list_take take, void *context,
                           struct sp_error *err)
{
    char path[MAX_PATH];
    const char *and = filter != NULL ? "&" : "";
    filter = filter != NULL ? filter : "";
    (void)snprintf(path, sizeof path, "/v1/%s?page_size=%d%s%s", what, PAGE_SIZE, and, filter);
    for (unsigned i = 0; i < MAX_PAGES; i++) {
        struct answer answer;
        const struct call call = {.method = "GET", .path = path};
        bool goes_on = true;
        enum sp_status status = client_ask(client, &call, &answer, err);
        json_t *page = status == SP_OK && answer.body.size > 0
                           ? json_loadb(answer.body.data, answer.body.size, JSON_REJECT_DUPLICATES, NULL)
                           : NULL;
        sp_buf_release(&answer.body);
        const json_t *items = json_object_get(page, what), *next = json_object_get(page, "next_page_token");
        if (status == SP_OK && (!json_is_array(items) || (next != NULL && !json_is_string(next)) ||
                                (next != NULL && !is_plain(json_string_value(next)))))
            status = bad_page(what, err);
        for (size_t j = 0; status == SP_OK && goes_on && j < json_array_size(items); j++)
            goes_on = take(context, json_array_get(items, j));
        const bool is_last = status != SP_OK || !goes_on || next == NULL;
        if (!is_last)
            (void)snprintf(path, sizeof path, "/v1/%s?page_size=%d%s%s&page_token=%s", what, PAGE_SIZE, and, filter,
                           json_string_value(next));
        json_decref(page);
        if (is_last)
            return status;
    }
    return bad_page(what, err);
}

struct search {
    const char *prefix;
    size_t length;
    char *id;
    size_t size;
    unsigned found;
};

static bool take_match(void *context, const json_t *item)
{
    struct search *search = context;
    const char *id = json_string_value(json_object_get(item, "id"));
    if (id == NULL || strlen(id) >= search->size || strncmp(id, search->prefix, search->length) != 0)
        return true;
    (void)snprintf(search->id, search->size, "%s", id);
    return ++search->found < 2;
}

enum sp_status client_find(struct client *client, const char *what, const char *given, char *ret_id, size_t size,
                           struct sp_error *err)
{
    struct search search = {.prefix = given, .length = strlen(given), .id = ret_id, .size = size};
    const int singular = (int)strlen(what) - 1; /* "models", "plans" */
    if (search.length < LEAST_DIGITS || search.length >= size || strspn(given, "0123456789abcdef") != search.length)
        return sp_fail(err, SP_ERR_REQUEST, "BAD_ID",
                       "'%.80s' is no id: it has %zu hexadecimal digits, or the first %d or more of them.", given,
                       size - 1, LEAST_DIGITS);
    if (search.length == size - 1) {
        (void)snprintf(ret_id, size, "%s", given);
        return SP_OK;
    }
    enum sp_status status = client_list(client, what, NULL, take_match, &search, err);
    if (status != SP_OK || search.found == 1)
        return status;
    if (search.found > 1)
        return sp_fail(err, SP_ERR_REQUEST, "AMBIGUOUS_ID", "Several %s begin with '%s': give more digits.", what,
                       given);
    return sp_fail(err, SP_ERR_IO, what[0] == 'm' ? "MODEL_NOT_FOUND" : "PLAN_NOT_FOUND",
                   "No %.*s of the server begins with '%s'.", singular, what, given);
}
