#include "http/serve.h"

#include <gnutls/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "auth/auth.h"
#include "http/body.h"
#include "http/cors.h"
#include "http/guard.h"
#include "http/identify.h"
#include "http/record.h"
#include "http/respond.h"
#include "http/router.h"
#include "http/upload.h"
#include "net/connections.h"
#include "observe/log.h"
#include "references/references.h"
#include "routes/held.h"
#include "routes/ingest.h"
#include "util/text.h"

static void request_free(struct request *request)
{
    ingest_destroy(request->ingest);
    upload_destroy(request->upload);
    reference_close(request->reference);
    body_end_part(request);
    body_release(request);
    sp_buf_release(&request->body);
    if (request->free_state != NULL)
        request->free_state(request->state);
    held_destroy(request->held);
    account_close(request->account, request->charged);
    free(request->uri);
    free(request);
}

/* Who it is until credentials were looked at. */
static struct principal first_principal(const struct serve_port *port)
{
    if (!port->admin && auth_is_on(port->server->auth))
        return (struct principal){.name = "anonymous"};
    return (struct principal){.name = "local", .scopes = SCOPE_READ | SCOPE_PLAN | SCOPE_ADMIN};
}

void *serve_arrives(void *context, const char *uri, struct MHD_Connection *connection)
{
    const struct serve_port *port = context;
    struct request *request = uri != NULL ? calloc(1, sizeof *request) : NULL;
    if (request == NULL)
        return NULL;
    unsigned char random[8];
    request->server = port->server;
    request->admin = port->admin;
    request->principal = first_principal(port);
    request->layout.target = uri;
    request->layout.target_size = strlen(uri);
    request->connection = connection;
    request->uri = strdup(uri);
    request->started_ms = server_now_ms();
    sp_buf_init(&request->body, SPD_MAX_JSON_BYTES);
    if (request->uri == NULL || gnutls_rnd(GNUTLS_RND_NONCE, random, sizeof random) != 0) {
        free(request->uri);
        free(request);
        return NULL;
    }
    text_to_hex(random, sizeof random, request->request_id);
    (void)atomic_fetch_add(port->active, 1);
    return request;
}

void serve_completed(void *context, struct MHD_Connection *connection, void **request_context,
                     enum MHD_RequestTerminationCode code)
{
    const struct serve_port *port = context;
    struct request *request = *request_context;
    if (request == NULL)
        return;
    *request_context = NULL;
    request->uri[strcspn(request->uri, "?")] = '\0'; /* it is logged, and a query may hold anything */
    record_ended(request, code != MHD_REQUEST_TERMINATED_COMPLETED_OK && !request->unread_body);
    connections_request_ended(port->server->connections, connection, request->unread_body);
    request_free(request);
    (void)atomic_fetch_sub(port->active, 1);
}

/* The request is its tenant's from here on, and so is the connection. */
static bool open_account(struct request *request, struct problem *problem)
{
    struct server *server = request->server;
    if (request->admin)
        return true;
    request->account = accounts_open(server->accounts, request->principal.tenant);
    if (request->account == NULL)
        return problem_no_memory(problem);
    if (request->principal.scopes == 0) /* nobody knows whose it is */
        return true;
    request->closes = !connections_identified(server->connections, request->connection, request->account, problem);
    return !request->closes;
}

/* Headers are known: everything that can be refused now is refused now. */
static enum verdict request_begin(struct request *request, const char *method, const char *version)
{
    struct problem problem = {0};
    request->method = method;
    request->layout.method = method;
    request->layout.version = version;
    connections_request_started(request->server->connections, request->connection);
    if (!guard_headers(request, version, &problem)) {
        request->unread_body = true; /* where it ends is not certain: nothing that follows is looked at */
        return respond_problem(request, &problem);
    }
    if (!guard_target(request, &problem) || !router_find(request, &problem))
        return respond_problem(request, &problem);
    if (request->route == NULL) {
        cors_preflight(request, request->allow);
        return respond_empty(request, MHD_HTTP_NO_CONTENT);
    }
    if (!identify_check(request, &problem) || !open_account(request, &problem))
        return respond_problem(request, &problem);
    record_began(request);
    if (request->body_kind == BODY_SHARDING)
        sp_buf_init(&request->body, SPD_MAX_SHARDING_BODY);
    if ((request->body_kind == BODY_JSON || request->body_kind == BODY_SHARDING) && request->has_length &&
        request->content_length > request->body.ceiling) {
        (void)body_too_large(request, request->content_length, &problem);
        return respond_problem(request, &problem);
    }
    enum verdict verdict = request->route->begin != NULL ? request->route->begin(request) : VERDICT_GO_ON;
    if (verdict == VERDICT_GO_ON && !body_begin(request, &problem))
        return respond_problem(request, &problem);
    return verdict;
}

/* A piece of the body. */
static enum verdict request_body(struct request *request, const char *bytes, size_t size)
{
    struct problem problem = {0};
    uint64_t now = server_now_ms();
    if (request->received == 0)
        request->body_started_ms = now;
    request->received += size;
    uint64_t elapsed = now - request->body_started_ms;
    if (elapsed > SPD_SLOW_BODY_SECONDS * 1000 && request->received < elapsed / 1000 * SPD_SLOW_BODY_RATE) {
        (void)problem_set(&problem, 408, "BODY_TOO_SLOW", "The body came at less than %d bytes per second.",
                          SPD_SLOW_BODY_RATE);
        body_end_part(request);
        return respond_raw(request, &problem);
    }
    if (!body_take(request, bytes, size, &problem)) {
        body_end_part(request);
        return respond_raw(request, &problem);
    }
    return VERDICT_GO_ON;
}

/* The body is complete, or there is none. */
static enum verdict request_end(struct request *request)
{
    struct problem problem = {0};
    if (request->has_body)
        connections_body(request->server->connections, request->connection, false);
    request->body_complete = true;
    return body_end(request, &problem) ? request->route->finish(request) : respond_problem(request, &problem);
}

/* The library calls this for the headers, for each piece of the body, for its end, and after each resume. */
enum MHD_Result serve_access(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                             const char *version, const char *upload_data, size_t *upload_data_size,
                             void **request_context)
{
    (void)context;
    (void)url;
    struct request *request = *request_context;
    enum verdict verdict;
    if (request == NULL)
        return MHD_NO; /* out of memory when it arrived */
    request->connection = connection;
    if (!request->started) {
        request->started = true;
        verdict = request_begin(request, method, version);
        if (verdict == VERDICT_GO_ON && request->has_body)
            connections_body(request->server->connections, connection, true);
    } else if (*upload_data_size > 0) {
        verdict = request_body(request, upload_data, *upload_data_size);
        *upload_data_size = 0;
    } else {
        verdict = request->step != NULL ? request->step(request) : request_end(request);
    }
    return verdict == VERDICT_ABORT ? MHD_NO : MHD_YES;
}
