#pragma once
/*
 * cors - which pages of other sites may use the API from a browser: those of --cors-origins, and by default none.
 *
 * Tokens travel in a header that a page must set itself, so no answer ever allows credentials that a browser adds on
 * its own (cookies, client certificates), and no answer ever says "*".
 */
#include "http/request.h"

/* Whether an origin is among the allowed ones (blanks between them). */
bool cors_allows(const char *origins, const char *origin);

/* Whether "NAME:PORT" of a Host header is the place of an allowed origin. */
bool cors_allows_host(const char *origins, const char *host);

/* Adds to an answer what the page needs for reading it. */
void cors_add(const struct request *request, struct MHD_Response *response);

/* Adds to the answer to OPTIONS what it says; `allow` lists the methods of the path. */
void cors_preflight(struct request *request, const char *allow);
