#pragma once
/* serve - the way of each request through guard, router, credentials and handler: what the HTTP library calls. */
#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "server.h"

/* Where requests come in; the context of the functions below. */
struct serve_port {
    struct server *server;
    atomic_uint *active; /* requests that are not answered completely */
    bool admin;          /* of --admin-listen: few routes, no credentials */
};

/* The library's first word about a request: its target as it came, before any decoding. */
void *serve_arrives(void *context, const char *uri, struct MHD_Connection *connection);

/* For the headers, for each piece of the body, for its end, and after each resume. */
enum MHD_Result serve_access(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                             const char *version, const char *upload_data, size_t *upload_data_size,
                             void **request_context);

/* The last word: answered, or broken off. */
void serve_completed(void *context, struct MHD_Connection *connection, void **request_context,
                     enum MHD_RequestTerminationCode code);
