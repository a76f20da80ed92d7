#pragma once
/*
 * request - one HTTP request on its way through the daemon.
 *
 *   headers -> guard -> route -> begin() -> body -> finish() -> answer
 *                                             suspended <-> resumed: step()
 *
 * `begin` sees the headers only and may refuse early, before a body is sent. `finish` is called when the body is
 * complete. Either answers (respond.h) or, in finish only, suspends: then `step` is called once after the resume.
 *
 * A request belongs to the HTTP thread of its connection, except between suspension and resume, when it belongs to the
 * main thread. It is freed when the answer has been sent or the client is gone.
 */
#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#include "auth/principal.h"
#include "base/buf.h"
#include "net/accounts.h"
#include "net/layout.h"
#include "server.h"
#include "server_limits.h"
#include "util/problem.h"

enum verdict {
    VERDICT_GO_ON,     /* nothing was answered yet */
    VERDICT_ANSWERED,  /* a response is queued */
    VERDICT_SUSPENDED, /* `step` is called after the resume */
    VERDICT_ABORT,     /* the connection is closed without (another) answer */
};

enum body_kind {
    BODY_IGNORED,  /* read and thrown away, up to SPD_MAX_IGNORED_BODY */
    BODY_JSON,     /* collected in `body` */
    BODY_SHARDING, /* as BODY_JSON, but larger, and not looked into here */
    BODY_MODEL,    /* streamed to disk by `upload` */
    BODY_PART,     /* appended to an upload by `part` */
    BODY_EITHER,   /* BODY_JSON or BODY_MODEL, by Content-Type */
};

#define REQUEST_MAX_PARAMETERS 16
#define REQUEST_MAX_HEADERS    16
#define REQUEST_ID_SIZE        65
#define REQUEST_ITEM_SIZE      48
#define ROUTER_ALLOW_SIZE      64

struct decoder;
struct digest;
struct held;
struct ingest;
struct part;
struct reference;
struct request;
struct upload;

struct route {
    const char *method;  /* "GET" also serves HEAD */
    const char *pattern; /* segments; {id} matches one of lower-case hexadecimal digits, {word} a word */
    enum body_kind body;
    enum verdict (*begin)(struct request *request); /* or NULL */
    enum verdict (*finish)(struct request *request);
    unsigned scope;         /* of auth/principal.h, that the principal must have; 0: anybody */
    const char *parameters; /* names of the query that are known, separated by blanks, or NULL for none */
    const char *summary;    /* for the index */
};

struct parameter {
    char *name, *value;
};

struct request {
    struct server *server;
    struct MHD_Connection *connection;
    const struct route *route;
    char *uri;                                         /* as received, cut at '?' after parsing: the path */
    struct layout layout;                              /* the request line in the library's buffer */
    bool admin;                                        /* it came in by --admin-listen */
    char id[REQUEST_ID_SIZE], item[REQUEST_ITEM_SIZE]; /* of the path */
    char request_id[SPD_MAX_REQUEST_ID + 1];
    char trace_id[33], span_id[17]; /* W3C trace context: the caller's trace or a new one; a span of this request */
    struct principal principal;
    struct account *account;         /* that it is charged to, from when the headers were looked at; or NULL */
    uint64_t charged[ACCOUNT_KINDS]; /* and what, until it is over */
    const char *method;
    char allow[ROUTER_ALLOW_SIZE]; /* of OPTIONS: the methods of the path */
    unsigned parameter_count;
    struct parameter parameters[REQUEST_MAX_PARAMETERS];
    bool started, answered, body_complete;
    bool in_flight;   /* counted as such (record.h) */
    bool unread_body; /* refused before the body was read: the connection lingers */
    bool closes;      /* the connection ends with the answer */
    bool expects_continue;

    enum body_kind body_kind;
    bool has_length, has_body;
    uint64_t content_length, received;
    uint64_t started_ms, body_started_ms;
    struct sp_buf body;
    struct decoder *decoder; /* of a compressed body */
    struct digest *digest;   /* that the body must have */
    struct upload *upload;
    struct part *part;           /* of an upload by parts */
    struct held *held;           /* files that it needs, see routes/held.h */
    struct ingest *ingest;       /* of a model's upload, see ingest.h */
    struct reference *reference; /* of a model that is fetched, see references/references.h */

    enum verdict (*step)(struct request *request);
    void *state; /* of the route, freed with `free_state` */
    void (*free_state)(void *state);

    int64_t modified;      /* when what is answered was made, in milliseconds; 0: not told */
    unsigned header_count; /* extra headers of the answer */
    struct {
        const char *name;
        char value[256];
    } headers[REQUEST_MAX_HEADERS];
    int status;
};

/* The tenant whose objects this request sees, for store.h: NULL sees all. */
const char *request_view(const struct request *request);
/* Whether that may be more than one tenant's: never where no credentials are asked for. */
bool request_sees_all(const struct request *request);

/* A header of the request, or NULL. */
const char *request_header(const struct request *request, const char *name);

/* A query parameter, or NULL. */
const char *request_parameter(const struct request *request, const char *name);

/* Adds a header to the answer to come; `name` must be static. */
__attribute__((format(printf, 3, 4))) void request_add_header(struct request *request, const char *name,
                                                              const char *format, ...);

/* How much the client wants `type` ("text/plain"), 0 (not at all) to 1000. Without an Accept header: 1000. */
int request_accepts(const struct request *request, const char *type);

/* Charges the request's tenant until the request is over. False with a problem (net/accounts.h). */
bool request_charge(struct request *request, enum account_kind kind, uint64_t amount, struct problem *problem);

/* Gives back early what was charged of this kind. */
void request_give_back(struct request *request, enum account_kind kind);

/* Stops this request until request_resume(); returns VERDICT_SUSPENDED. Call before handing the request on. */
enum verdict request_suspend(struct request *request, enum verdict (*step)(struct request *request));
void request_resume(struct request *request); /* from any thread */

/* The seconds of "Prefer: wait=N", at most SPD_MAX_WAIT_SECONDS; 0 without it. */
unsigned request_wait_seconds(const struct request *request);

/* "Prefer: respond-async". */
bool request_prefers_async(const struct request *request);
