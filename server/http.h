#pragma once
/* http - the HTTP library's daemon: listening, and the way of each request through guard, router and handler. */
#include <stdbool.h>

#include "problem.h"

struct http;
struct server;

/* Binds and starts to serve; logs the address. *ret_http is the caller's. */
bool http_start(struct server *server, struct http **ret_http, struct problem *problem);

/* Stops accepting connections; open ones go on. */
void http_quiesce(struct http *http);

/* Requests that are not answered completely. */
unsigned http_active(const struct http *http);

/* Ends everything and frees. No request may be suspended any more: the library aborts the process on that. */
void http_stop(struct http *http);
