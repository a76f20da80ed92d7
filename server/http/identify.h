#pragma once
/*
 * identify - who asks, and whether they may.
 *
 * Where credentials are asked for, a route with a scope needs a principal that has it: 401 without one, and the same
 * 401 for tokens that are unknown, malformed or expired; 403 for one without the scope. Routes without a scope are for
 * anybody, also with wrong credentials.
 *
 * Where none are asked for, whoever reaches the socket may do everything. A browser on the same machine reaches it on
 * behalf of any page, so what a page could do is refused: requests that another site makes (Origin), and requests to a
 * name that is not this machine's (Host: a page's own name can be made to mean 127.0.0.1). Origins that the operator
 * allows are let through.
 */
#include "http/request.h"

/* Fills the principal, before the body is read. False with a problem: 401, 403 or 421. */
bool identify_check(struct request *request, struct problem *problem);
