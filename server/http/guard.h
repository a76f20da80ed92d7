#pragma once
/*
 * guard - what a request must look like before anything else looks at it.
 *
 * The HTTP library accepts framings on which it and a proxy in front of it may disagree (both Content-Length and
 * Transfer-Encoding, repeated ones, unknown codings), control bytes in values, a missing Host, and line ends that are
 * none (layout.h). The guard walks the header once, in the first callback, and refuses these; the connection is closed,
 * so nothing that follows can be taken for another request. A body in chunks ends the connection as well: the library
 * is as lenient about the lines between them, and they are gone before anybody else sees them. The guard also fills the
 * framing members of the request.
 */
#include "http/request.h"

/* False with a problem when the request is to be refused. */
bool guard_headers(struct request *request, const char *version, struct problem *problem);

/* Checks the raw request target and splits it into path and parameters. */
bool guard_target(struct request *request, struct problem *problem);
