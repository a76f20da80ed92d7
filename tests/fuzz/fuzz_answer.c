/*
 * What a request's headers and query choose of an answer: the range, the coding, the conditions, the page. What is sent
 * is what its headers say, and a page's token leads to the next page and to no other.
 *
 * The HTTP library is played (below), so that a request is no more than its headers. An input is lines: a header
 * "Name: value", or a query "?a=b&c=d".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fuzz.h"
#include "http/coding.h"
#include "http/guard.h"
#include "http/page.h"
#include "http/respond.h"
#include "observe/log.h"
#include "observe/metrics.h"

#define MAX_LINES 32
#define BODY_SIZE 5000u
#define ETAG      "abcdef"
#define MODIFIED  784111777000 /* Sun, 06 Nov 1994 08:49:37 GMT */

/* ---- the library, played ---- */

struct MHD_Response {
    struct sp_buf body;
    const char *from; /* the bytes as they lie in memory, NULL: not known */
    char content_range[128], coding[32];
};

static struct {
    unsigned count;
    char *names[MAX_LINES], *values[MAX_LINES];
    int status; /* of the answer */
    struct MHD_Response *answer;
} played;

const char *MHD_lookup_connection_value(struct MHD_Connection *connection, enum MHD_ValueKind kind, const char *key)
{
    (void)connection;
    (void)kind;
    for (unsigned i = 0; i < played.count; i++) {
        if (strcasecmp(played.names[i], key) == 0)
            return played.values[i];
    }
    return NULL;
}

static struct MHD_Response *new_response(const void *bytes, size_t size)
{
    struct MHD_Response *response = calloc(1, sizeof *response);
    if (response == NULL)
        abort();
    sp_buf_init(&response->body, (size_t)1 << 24);
    sp_buf_append(&response->body, bytes, size);
    return response;
}

struct MHD_Response *MHD_create_response_from_buffer(size_t size, void *bytes, enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *response = new_response(bytes, size);
    if (mode == MHD_RESPMEM_MUST_FREE)
        free(bytes);
    return response;
}

struct MHD_Response *MHD_create_response_from_buffer_with_free_callback_cls(size_t size, void *bytes,
                                                                            MHD_ContentReaderFreeCallback release,
                                                                            void *context)
{
    struct MHD_Response *response = new_response(bytes, size);
    response->from = bytes;
    release(context);
    return response;
}

struct MHD_Response *MHD_create_response_from_callback(uint64_t size, size_t block, MHD_ContentReaderCallback read,
                                                       void *context, MHD_ContentReaderFreeCallback release)
{
    struct MHD_Response *response = new_response("", 0);
    char bytes[512];
    ssize_t got;
    (void)block;
    while (response->body.size < size) {
        uint64_t left = size - response->body.size;
        got = read(context, response->body.size, bytes, left < sizeof bytes ? (size_t)left : sizeof bytes);
        if (got < 0)
            break;
        sp_buf_append(&response->body, bytes, (size_t)got);
    }
    release(context);
    return response;
}

enum MHD_Result MHD_add_response_header(struct MHD_Response *response, const char *name, const char *value)
{
    if (strpbrk(name, "\r\n") != NULL || strpbrk(value, "\r\n") != NULL)
        abort();
    if (strcmp(name, "Content-Range") == 0)
        (void)snprintf(response->content_range, sizeof response->content_range, "%s", value);
    if (strcmp(name, "Content-Encoding") == 0)
        (void)snprintf(response->coding, sizeof response->coding, "%s", value);
    return MHD_YES;
}

enum MHD_Result MHD_queue_response(struct MHD_Connection *connection, unsigned status, struct MHD_Response *response)
{
    (void)connection;
    if (played.answer != NULL)
        abort(); /* two answers */
    played.status = (int)status;
    played.answer = response;
    return MHD_YES;
}

void MHD_destroy_response(struct MHD_Response *response)
{
    (void)response; /* forget_answer() */
}

static void forget_answer(void)
{
    if (played.answer != NULL)
        sp_buf_release(&played.answer->body);
    free(played.answer);
    played.answer = NULL;
    played.status = 0;
}

/* ---- a stream ---- */

static char body[BODY_SIZE];

static bool read_body(void *context, uint64_t offset, void *bytes, size_t size)
{
    (void)context;
    if (offset > BODY_SIZE || size > BODY_SIZE - offset)
        abort();
    memcpy(bytes, body + offset, size);
    return true;
}

static void release_body(void *context)
{
    ++*(unsigned *)context;
}

static bool compare(void *context, const void *bytes, size_t size, struct problem *problem)
{
    size_t *at = context;
    (void)problem;
    if (size > BODY_SIZE - *at || memcmp(body + *at, bytes, size) != 0)
        abort();
    *at += size;
    return true;
}

static void check_coded(const struct MHD_Response *answer)
{
    struct decoder *decoder;
    struct problem problem = {0};
    size_t decoded = 0;
    if (!decoder_create(answer->coding, BODY_SIZE, "limit", &decoder, &problem) || decoder == NULL ||
        !decoder_push(decoder, answer->body.data, answer->body.size, compare, &decoded, &problem) ||
        !decoder_finish(decoder, &problem) || decoded != BODY_SIZE)
        abort();
    decoder_destroy(decoder);
}

/* "bytes FIRST-LAST/SIZE" must be of the body, and these bytes must be what is sent. */
static void check_part(const struct MHD_Response *answer)
{
    static const char unit[] = "bytes ";
    const char *text = answer->content_range;
    char *end;
    if (strncmp(text, unit, sizeof unit - 1) != 0)
        abort();
    uint64_t first = strtoull(text + sizeof unit - 1, &end, 10), last = *end == '-' ? strtoull(end + 1, &end, 10) : 0;
    uint64_t size = *end == '/' ? strtoull(end + 1, &end, 10) : 0;
    if (*end != '\0' || first > last || last >= size || size != BODY_SIZE || answer->body.size != last - first + 1 ||
        memcmp(answer->body.data, body + first, answer->body.size) != 0 || answer->coding[0] != '\0')
        abort();
}

static void check_stream(const struct MHD_Response *answer)
{
    if (played.status == 206) {
        check_part(answer);
    } else if (played.status == 200 && answer->coding[0] != '\0') {
        check_coded(answer);
    } else if (played.status == 200) {
        if (answer->body.size != BODY_SIZE || memcmp(answer->body.data, body, BODY_SIZE) != 0)
            abort();
    } else if (played.status != 304 && played.status != 412 && played.status != 416) {
        abort();
    }
}

static void try_stream(struct request *request, const char *type, bool in_memory)
{
    unsigned released = 0;
    struct stream stream = {.size = BODY_SIZE,
                            .read = read_body,
                            .release = release_body,
                            .context = &released,
                            .bytes = in_memory ? body : NULL};
    request->header_count = 0;
    request->modified = MODIFIED;
    if (respond_stream(request, 200, type, &stream, ETAG) != VERDICT_ANSWERED || released != 1)
        abort();
    check_stream(played.answer);
    forget_answer();
}

/* ---- a page ---- */

/* Begins a page with this token, which must be a good one that leads behind `expected`. */
static void follow(struct request *request, const char *token, int64_t expected)
{
    static char name[] = "page_token";
    enum verdict verdict;
    struct page page;
    request->parameter_count = 1;
    request->parameters[0] = (struct parameter){.name = name, .value = (char *)(uintptr_t)token};
    if (page_begin(&page, request, "models", "other", &verdict))
        abort(); /* a token of one list is none of another */
    forget_answer();
    if (!page_begin(&page, request, "models", "filter", &verdict) || page.before != expected)
        abort();
    (void)page_finish(&page, request, true);
    forget_answer();
}

static void try_page(struct request *request)
{
    enum verdict verdict;
    struct page page;
    request->header_count = 0;
    if (!page_begin(&page, request, "models", "filter", &verdict)) {
        if (played.status != 400)
            abort();
        forget_answer();
        return;
    }
    if (page.before <= 0 || page.size < 1 || page.size > SPD_MAX_PAGE)
        abort();
    int64_t seq = page.before < 4711 ? page.before : 4711;
    for (int i = 0; i <= page.size; i++) {
        if (page_item(&page, seq - i, true))
            page_item_end(&page);
    }
    int64_t before = page.before;
    if (page_finish(&page, request, true) != VERDICT_ANSWERED)
        abort();
    static const char key[] = "\"next_page_token\":\"";
    char token[32] = "", *at = strstr(played.answer->body.data, key);
    bool has_token = at != NULL && sscanf(at + sizeof key - 1, "%31[^\"]", token) == 1;
    bool is_plain = played.answer->coding[0] == '\0';
    forget_answer();
    if (is_plain && before > 0) {
        if (!has_token)
            abort();
        follow(request, token, before);
    }
}

/* ---- inputs ---- */

static void take_line(char *line, struct request *request)
{
    struct problem problem = {0};
    char *colon = strchr(line, ':');
    if (line[0] == '?' && request->uri == NULL) {
        if (asprintf(&request->uri, "/%s", line) < 0)
            abort();
        if (!guard_target(request, &problem))
            request->parameter_count = 0;
    } else if (colon != NULL && played.count < MAX_LINES) {
        *colon = '\0';
        played.names[played.count] = line;
        played.values[played.count++] = colon + 1 + strspn(colon + 1, " ");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const struct config config = {.cors_origins = ""};
    static struct server server = {.config = &config};
    struct request request = {.server = &server, .method = "GET", .request_id = "request"};
    if (server.metrics == NULL) {
        server.metrics = metrics_create();
        log_init(true, (enum log_level)(LOG_ERROR + 1));
        for (size_t i = 0; i < BODY_SIZE; i++)
            body[i] = (char)('a' + i * i % 23);
    }
    char *text = malloc(size + 1);
    if (text == NULL || server.metrics == NULL)
        abort();
    memcpy(text, bytes, size);
    text[size] = '\0';
    played.count = 0;
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;)
        take_line(line, &request);
    try_stream(&request, "application/json", true);
    try_stream(&request, "application/json", false);
    try_stream(&request, "application/onnx", false);
    try_page(&request);
    free(request.uri);
    free(text);
    return 0;
}
