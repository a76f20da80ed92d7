#include "client_private.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plan/version.h"

#define CONNECT_SECONDS 10L
#define SILENCE_SECONDS 120L /* without a byte in either direction */
#define MAX_URL_BYTES   4096
#define MAX_PUT_OFF     5    /* times that a call is made again because the server said to */
#define MAX_WAIT        30.0 /* seconds until one of them; who is told to wait longer is told so */
#define FIRST_RETRY     0.3  /* seconds after a broken connection */

/* One call while it runs. */
struct transfer {
    struct client *client;
    const struct call *call;
    struct answer *answer;
    uint64_t sent, received;
    bool is_refused; /* by call->take */
};

enum sp_status client_open(const struct common *common, struct client **ret_client, struct sp_error *err)
{
    struct client *client = calloc(1, sizeof *client);
    if (client == NULL)
        return sp_fail_memory(err);
    enum sp_status status = client_read_token(common, client->token, err);
    if (status == SP_OK && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        status = sp_fail(err, SP_ERR_MEMORY, "NO_HTTP", "The HTTP library could not be started.");
    if (status == SP_OK && (client->curl = curl_easy_init()) == NULL) {
        curl_global_cleanup();
        status = sp_fail(err, SP_ERR_MEMORY, "NO_HTTP", "The HTTP library could not be started.");
    }
    if (status != SP_OK) {
        explicit_bzero(client->token, sizeof client->token);
        free(client);
        return status;
    }
    client->common = common;
    client->url = common->server;
    *ret_client = client;
    return SP_OK;
}

void client_close(struct client *client)
{
    if (client == NULL)
        return;
    curl_easy_cleanup(client->curl);
    curl_global_cleanup();
    explicit_bzero(client->token, sizeof client->token);
    free(client);
}

/* ---- the library's callbacks ---- */

static size_t on_body(char *bytes, size_t unit, size_t count, void *context)
{
    struct transfer *transfer = context;
    size_t size = unit * count;
    long status = 0;
    (void)curl_easy_getinfo(transfer->client->curl, CURLINFO_RESPONSE_CODE, &status);
    transfer->received += size;
    if (transfer->call->take != NULL && status == 200) {
        transfer->is_refused = !transfer->call->take(transfer->call->context, bytes, size);
        return transfer->is_refused ? 0 : size;
    }
    if (transfer->call->download != NULL && status == 200)
        return output_write(transfer->call->download, bytes, size) ? size : 0;
    sp_buf_append(&transfer->answer->body, bytes, size);
    return sp_buf_failed(&transfer->answer->body) ? 0 : size;
}

static size_t on_send(char *bytes, size_t unit, size_t count, void *context)
{
    struct transfer *transfer = context;
    const struct input *input = transfer->call->upload;
    const uint64_t at = transfer->call->offset + transfer->sent, left = input->size - at;
    size_t size = unit * count < left ? unit * count : (size_t)left;
    ssize_t got = size > 0 ? pread(input->fd, bytes, size, (off_t)at) : 0;
    if (got < 0)
        return CURL_READFUNC_ABORT;
    transfer->sent += (uint64_t)got;
    return (size_t)got;
}

/* The library sends a body again when the server answers in the middle of it on a reused connection. */
static int on_seek(void *context, curl_off_t offset, int origin)
{
    struct transfer *transfer = context;
    if (origin != SEEK_SET || offset < 0)
        return CURL_SEEKFUNC_CANTSEEK;
    transfer->sent = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

static int on_progress(void *context, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up)
{
    struct transfer *transfer = context;
    struct progress *progress = transfer->call->progress;
    if (interrupted)
        return 1;
    if (progress == NULL)
        return 0;
    if (transfer->call->upload != NULL && up_total > 0)
        progress_draw(progress, "upload", (double)up / (double)up_total, 0, 0);
    else if (transfer->call->download != NULL && down_total > 0)
        progress_draw(progress, "download", (double)down / (double)down_total, 0, 0);
    progress->timed_out = progress->limit > 0 && progress_elapsed(progress) > progress->limit;
    return progress->timed_out ? 1 : 0;
}

/* ---- calls ---- */

static void add_header(struct curl_slist **headers, bool *ok, const char *name, const char *value)
{
    char text[256];
    if (value == NULL || !*ok)
        return;
    (void)snprintf(text, sizeof text, "%s: %s", name, value);
    struct curl_slist *list = curl_slist_append(*headers, text);
    *ok = list != NULL;
    if (list != NULL)
        *headers = list;
}

static void set_body(CURL *curl, const struct call *call, struct transfer *transfer)
{
    if (call->upload != NULL) {
        (void)curl_easy_setopt(curl, CURLOPT_POST, 1L);
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)(call->upload->size - call->offset));
        (void)curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_send);
        (void)curl_easy_setopt(curl, CURLOPT_READDATA, transfer);
        (void)curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, on_seek);
        (void)curl_easy_setopt(curl, CURLOPT_SEEKDATA, transfer);
    } else if (call->body != NULL) {
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body->size);
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, call->body->size > 0 ? call->body->data : "");
    } else if (strcmp(call->method, "POST") == 0) {
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, 0L);
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "");
    } else if (strcmp(call->method, "HEAD") == 0) {
        (void)curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    }
}

/* Answers other than these end a connection before there is one. */
static enum sp_status tls_error(const struct client *client, CURLcode code, const char *reason, struct sp_error *err)
{
    const struct common *common = client->common;
    switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
        return sp_fail(err, SP_ERR_IO, "TLS_FAILED",
                       "The server's certificate is not trusted: %s. Where an authority of your own signed it, give "
                       "that authority's certificate: --ca-file FILE.",
                       reason);
    case CURLE_SSL_CACERT_BADFILE:
        return sp_fail(err, SP_ERR_IO, "TLS_FAILED", "The file of authorities '%.200s' cannot be used: %s.",
                       common->ca_file != NULL ? common->ca_file : "of the system", reason);
    case CURLE_SSL_CERTPROBLEM:
        return sp_fail(err, SP_ERR_IO, "TLS_FAILED", "The client's certificate '%.200s' or its key cannot be used: %s.",
                       common->certificate != NULL ? common->certificate : "", reason);
    default:
        return sp_fail(err, SP_ERR_IO, "TLS_FAILED", "No secure connection to the server came about: %s.", reason);
    }
}

static bool is_of_tls(CURLcode code)
{
    return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
           code == CURLE_SSL_CERTPROBLEM || code == CURLE_SSL_CONNECT_ERROR || code == CURLE_SSL_CIPHER ||
           code == CURLE_USE_SSL_FAILED || code == CURLE_SSL_ISSUER_ERROR;
}

static enum sp_status transport_error(const struct client *client, const struct transfer *transfer, CURLcode code,
                                      struct sp_error *err)
{
    const struct call *call = transfer->call;
    char reason[CURL_ERROR_SIZE];
    (void)snprintf(reason, sizeof reason, "%s",
                   client->curl_error[0] != '\0' ? client->curl_error : curl_easy_strerror(code));
    for (size_t size = strlen(reason); size > 0 && (reason[size - 1] == '.' || reason[size - 1] == '\n'); size--)
        reason[size - 1] = '\0';
    if (interrupted)
        return sp_fail(err, SP_ERR_CANCELLED, "INTERRUPTED", "The request was interrupted.");
    if (call->progress != NULL && call->progress->timed_out)
        return sp_fail(err, SP_ERR_CANCELLED, "TIME_LIMIT", "The time limit ran out before the server had an answer.");
    if (transfer->is_refused)
        return sp_fail(err, SP_ERR_IO, "SERVER_ERROR", "The server's stream of events makes no sense.");
    if (sp_buf_failed(&transfer->answer->body))
        return sp_fail(err, SP_ERR_MEMORY, "ANSWER_TOO_LARGE", "The server's answer is too large for this program.");
    if (code == CURLE_WRITE_ERROR && call->download != NULL)
        return sp_fail(err, SP_ERR_IO, "FILE_NOT_WRITABLE", "Cannot write '%s' to its end.", call->download->path);
    if (is_of_tls(code))
        (void)tls_error(client, code, reason, err);
    else if (code == CURLE_COULDNT_CONNECT)
        (void)sp_fail(err, SP_ERR_IO, "SERVER_UNREACHABLE", "There is no server at this address: %s.", reason);
    else
        (void)sp_fail(err, SP_ERR_IO, "SERVER_UNREACHABLE", "The request to the server failed: %s.", reason);
    return sp_error_at(err, "%s", client->url);
}

static void set_transfer(CURL *curl, struct transfer *transfer, const char *url)
{
    (void)curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, transfer->client->curl_error);
    (void)curl_easy_setopt(curl, CURLOPT_URL, url);
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(curl, CURLOPT_USERAGENT, "shardplan/" SP_VERSION);
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, SILENCE_SECONDS);
    (void)curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    (void)curl_easy_setopt(curl, CURLOPT_XFERINFODATA, transfer);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, transfer);
    set_body(curl, transfer->call, transfer);
}

/* The library keeps the token from other hosts and from proxies that it tunnels through. */
static void set_credentials(CURL *curl, const struct client *client)
{
    const struct common *common = client->common;
    if (client->token[0] != '\0') {
        (void)curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
        (void)curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, client->token);
    }
    (void)curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (common->ca_file != NULL) {
        (void)curl_easy_setopt(curl, CURLOPT_CAINFO, common->ca_file);
        (void)curl_easy_setopt(curl, CURLOPT_CAPATH, NULL); /* no other authority */
    }
    if (common->certificate != NULL) {
        (void)curl_easy_setopt(curl, CURLOPT_SSLCERT, common->certificate);
        (void)curl_easy_setopt(curl, CURLOPT_SSLKEY, common->key != NULL ? common->key : common->certificate);
    }
}

/* Makes the call once. *ret_again: the connection broke, and nothing speaks against another try. */
static enum sp_status call_once(struct client *client, const struct call *call, struct answer *answer, bool *ret_again,
                                struct sp_error *err)
{
    CURL *curl = client->curl;
    struct transfer transfer = {.client = client, .call = call, .answer = answer};
    struct curl_slist *headers = NULL;
    char url[MAX_URL_BYTES], offset[24];
    bool ok = true;
    curl_off_t wait = 0;
    *ret_again = false;
    *answer = (struct answer){0};
    sp_buf_init(&answer->body, CLI_MAX_TEXT_BYTES);
    int length = snprintf(url, sizeof url, "%s%s", client->url, call->path);
    if (length < 0 || (size_t)length >= sizeof url)
        return sp_fail(err, SP_ERR_REQUEST, "URL_TOO_LONG", "The server's URL is too long.");
    curl_easy_reset(curl);
    client->curl_error[0] = '\0';
    add_header(&headers, &ok, "Accept", call->accept != NULL ? call->accept : "application/json");
    add_header(&headers, &ok, "Prefer", call->prefer);
    add_header(&headers, &ok, "Content-Type", call->type);
    add_header(&headers, &ok, "Idempotency-Key", call->idempotency);
    add_header(&headers, &ok, "Last-Event-ID", call->last_event);
    (void)snprintf(offset, sizeof offset, "%llu", (unsigned long long)call->offset);
    add_header(&headers, &ok, "Upload-Offset", call->is_part ? offset : NULL);
    set_transfer(curl, &transfer, url);
    set_credentials(curl, client);
    if (strcmp(call->method, "DELETE") == 0 || strcmp(call->method, "PATCH") == 0)
        (void)curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, call->method);
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    CURLcode code = ok ? curl_easy_perform(curl) : CURLE_OUT_OF_MEMORY;
    (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer->status);
    (void)curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &wait);
    answer->retry_after = wait > 0 ? (long)wait : 0;
    curl_slist_free_all(headers);
    if (code == CURLE_OK)
        return SP_OK;
    *ret_again = call->take == NULL && (code == CURLE_GOT_NOTHING || code == CURLE_SEND_ERROR ||
                                        code == CURLE_RECV_ERROR || code == CURLE_PARTIAL_FILE);
    if (*ret_again && call->download != NULL && transfer.received > 0)
        *ret_again = output_restart(call->download);
    return transport_error(client, &transfer, code, err);
}

/* How long the server wants to be left alone before the call is made again; 0: that would be of no use. A plan that
   failed with such a status says a kind. */
static double put_off(const struct call *call, const struct answer *answer, unsigned times)
{
    const char *kind;
    size_t size;
    const double wait = (double)answer->retry_after;
    const struct progress *progress = call->progress;
    if ((answer->status != 429 && answer->status != 503) || wait <= 0 || wait > MAX_WAIT || times == MAX_PUT_OFF)
        return 0;
    if (json_member(answer->body.data, answer->body.size, "kind", &kind, &size))
        return 0;
    if (progress != NULL && progress->limit > 0 && progress_elapsed(progress) + wait > progress->limit)
        return 0;
    return wait;
}

enum sp_status client_call(struct client *client, const struct call *call, struct answer *answer, struct sp_error *err)
{
    bool may_again, is_broken = false;
    unsigned times = 0;
    for (;;) {
        enum sp_status status = call_once(client, call, answer, &may_again, err);
        double wait = status == SP_OK ? put_off(call, answer, times) : 0;
        if (status == SP_OK && wait > 0) {
            if (times++ == 0) {
                if (call->progress != NULL)
                    progress_clear(call->progress);
                print_note("the server is busy (status %ld): trying again for a while", answer->status);
            }
        } else if (status != SP_OK && may_again && !is_broken && !interrupted) {
            is_broken = true;
            wait = FIRST_RETRY;
            if (err != NULL)
                sp_error_clear(err);
        } else {
            /* What the first try deleted is not there for the second one. */
            if (status == SP_OK && is_broken && answer->status == 404 && strcmp(call->method, "DELETE") == 0)
                answer->status = 204;
            return status;
        }
        sp_buf_release(&answer->body);
        pause_seconds(wait);
    }
}
