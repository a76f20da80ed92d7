#pragma once
/*
 * http - the HTTP library's daemons and what is around them: listening sockets, TLS, credentials.
 *
 * There are two at most: one for the API, on several threads, and one for --admin-listen on a thread of its own, so
 * that health and metrics answer when the first one has all the connections that it may have. Each connection comes
 * from the acceptor and is known to connections.h before the library sees it.
 */
#include <stdbool.h>
#include <stdint.h>

#include "util/problem.h"

struct http;
struct server;

/*
 * Reads the certificates, binds or takes the socket that the service manager passed (`passed` of them, as
 * sockets_take_passed() has said), and starts to serve; logs the addresses. *ret_http is the caller's.
 */
bool http_start(struct server *server, unsigned passed, struct http **ret_http, struct problem *problem);

/* Reads certificate and key again, and logs it. On failure the old ones stay. */
bool http_reload(struct http *http, struct problem *problem);

/* Main thread, several times a second: looks whether the certificate has changed. */
void http_tick(struct http *http, uint64_t now_ms);

/* Stops accepting connections, except those of the admin listener; open ones go on. */
void http_quiesce(struct http *http);

/* Requests that are not answered completely. */
unsigned http_active(const struct http *http);

/* Ends everything and frees. No request may be suspended any more: the library aborts the process on that. */
void http_stop(struct http *http);
