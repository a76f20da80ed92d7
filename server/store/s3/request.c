#include "store/s3/request.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "server_limits.h"

/* One transfer while it runs. */
struct transfer {
    CURL *curl;
    const struct s3_request *request;
    struct s3_answer *answer;
    const atomic_bool *stop;
    uint64_t sent;
};

static int status_of(const struct transfer *transfer)
{
    long status = 0;
    (void)curl_easy_getinfo(transfer->curl, CURLINFO_RESPONSE_CODE, &status);
    return (int)status;
}

static size_t on_body(char *bytes, size_t unit, size_t count, void *context)
{
    struct transfer *transfer = context;
    size_t size = unit * count;
    int status = status_of(transfer);
    if (transfer->request->take != NULL && (status == 200 || status == 206))
        return transfer->request->take(transfer->request->context, status, bytes, size) ? size : 0;
    sp_buf_append(&transfer->answer->body, bytes, size);
    return sp_buf_failed(&transfer->answer->body) ? 0 : size;
}

/* Only the entity tag is kept. */
static size_t on_header(char *bytes, size_t unit, size_t count, void *context)
{
    static const char name[] = "etag:";
    struct transfer *transfer = context;
    size_t size = unit * count, at = sizeof name - 1;
    if (size < at || strncasecmp(bytes, name, at) != 0)
        return size;
    while (at < size && bytes[at] == ' ')
        at++;
    size_t end = size;
    while (end > at && (bytes[end - 1] == '\r' || bytes[end - 1] == '\n' || bytes[end - 1] == ' '))
        end--;
    if (end - at < sizeof transfer->answer->etag)
        (void)snprintf(transfer->answer->etag, sizeof transfer->answer->etag, "%.*s", (int)(end - at), bytes + at);
    return size;
}

static size_t on_send(char *bytes, size_t unit, size_t count, void *context)
{
    struct transfer *transfer = context;
    const struct s3_request *request = transfer->request;
    size_t size = unit * count;
    if (size > request->size - transfer->sent)
        size = (size_t)(request->size - transfer->sent);
    if (size == 0)
        return 0;
    ssize_t got = pread(request->file, bytes, size, (off_t)(request->offset + transfer->sent));
    if (got <= 0)
        return CURL_READFUNC_ABORT;
    transfer->sent += (uint64_t)got;
    return (size_t)got;
}

/* libcurl sends a body again when a connection that it kept turns out to be closed. */
static int on_seek(void *context, curl_off_t offset, int origin)
{
    struct transfer *transfer = context;
    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > transfer->request->size)
        return CURL_SEEKFUNC_FAIL;
    transfer->sent = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

static int on_progress(void *context, curl_off_t to_get, curl_off_t got, curl_off_t to_send, curl_off_t sent)
{
    const struct transfer *transfer = context;
    (void)to_get;
    (void)got;
    (void)to_send;
    (void)sent;
    return transfer->stop != NULL && atomic_load(transfer->stop);
}

static bool add_header(struct curl_slist **headers, const char *name, const char *value)
{
    char line[SPD_MAX_S3_TOKEN + 64];
    (void)snprintf(line, sizeof line, "%s%s", name, value);
    struct curl_slist *longer = curl_slist_append(*headers, line);
    explicit_bzero(line, sizeof line);
    if (longer == NULL)
        return false;
    *headers = longer;
    return true;
}

static bool add_headers(struct curl_slist **headers, const struct s3_request *request)
{
    bool ok = add_header(headers, "x-amz-content-sha256: ", request->sha256);
    if (ok && request->keys != NULL && request->keys->token[0] != '\0')
        ok = add_header(headers, "x-amz-security-token: ", request->keys->token);
    for (size_t i = 0; ok && i < sizeof request->headers / sizeof request->headers[0] && request->headers[i] != NULL;
         i++)
        ok = add_header(headers, "", request->headers[i]);
    return ok;
}

/* Headers are copied by libcurl nowhere: a session's token is wiped out of the list. */
static void free_headers(struct curl_slist *headers)
{
    for (struct curl_slist *header = headers; header != NULL; header = header->next)
        explicit_bzero(header->data, strlen(header->data));
    curl_slist_free_all(headers);
}

static void set_common(CURL *curl, const struct s3_request *request, struct transfer *transfer,
                       const struct curl_slist *headers)
{
    (void)curl_easy_setopt(curl, CURLOPT_URL, request->url);
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(curl, CURLOPT_USERAGENT, "shardpland/" SPD_VERSION);
    (void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)SPD_S3_CONNECT_MS);
    (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, (long)SPD_S3_LEAST_RATE);
    (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME,
                           (long)(request->is_slow ? SPD_S3_WORK_SECONDS : SPD_S3_SILENCE_SECONDS));
    (void)curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, (long)SPD_S3_BLOCK);
    (void)curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, (long)SPD_S3_BLOCK);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, transfer);
    (void)curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(curl, CURLOPT_HEADERDATA, transfer);
    (void)curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    (void)curl_easy_setopt(curl, CURLOPT_XFERINFODATA, transfer);
    if (request->keys != NULL) {
        (void)curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, request->signing);
        (void)curl_easy_setopt(curl, CURLOPT_USERNAME, request->keys->id);
        (void)curl_easy_setopt(curl, CURLOPT_PASSWORD, request->keys->secret);
    }
    if (request->is_near)
        (void)curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
}

static void set_body(CURL *curl, const struct s3_request *request, struct transfer *transfer)
{
    if (request->file >= 0) {
        (void)curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
        (void)curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->size);
        (void)curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_send);
        (void)curl_easy_setopt(curl, CURLOPT_READDATA, transfer);
        (void)curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, on_seek);
        (void)curl_easy_setopt(curl, CURLOPT_SEEKDATA, transfer);
    } else if (request->text != NULL) {
        (void)curl_easy_setopt(curl, CURLOPT_POST, 1L);
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->text);
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(request->text));
    } else if (strcmp(request->method, "HEAD") == 0) {
        (void)curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    }
    if (strcmp(request->method, "DELETE") == 0 || (request->text != NULL && strcmp(request->method, "PUT") == 0))
        (void)curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
}

void s3_send(CURL *curl, const struct s3_request *request, const atomic_bool *stop, struct s3_answer *ret_answer)
{
    struct transfer transfer = {.curl = curl, .request = request, .answer = ret_answer, .stop = stop};
    struct curl_slist *headers = NULL;
    curl_off_t length = -1;
    *ret_answer = (struct s3_answer){.result = CURLE_OUT_OF_MEMORY, .length = -1};
    sp_buf_init(&ret_answer->body, SPD_MAX_S3_ANSWER);
    curl_easy_reset(curl); /* the connection stays */
    if (add_headers(&headers, request)) {
        set_common(curl, request, &transfer, headers);
        set_body(curl, request, &transfer);
        ret_answer->result = curl_easy_perform(curl);
        ret_answer->status = status_of(&transfer);
        (void)curl_easy_getinfo(curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
        ret_answer->length = length;
    }
    curl_easy_reset(curl); /* and no secret does */
    free_headers(headers);
}
