#pragma once
/*
 * guard - what a request must look like before anything else looks at it.
 *
 * The HTTP library accepts framings on which it and a proxy in front of it may disagree (both Content-Length and
 * Transfer-Encoding, repeated ones, unknown codings), control bytes in values, and a missing Host. The guard walks the
 * header once, in the first callback, and refuses these; the connection is closed, so nothing that follows can be taken
 * for another request. It also fills the framing members of the request.
 */
#include "request.h"

/* False with a problem when the request is to be refused. */
bool guard_headers(struct request *request, const char *version, struct problem *problem);

/* Checks the raw request target and splits it into path and parameters. */
bool guard_target(struct request *request, struct problem *problem);
