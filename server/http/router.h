#pragma once
/* router - the table of everything that is served. */
#include "http/request.h"

/* The whole table, ended by an entry without a method. */
extern const struct route routes[];

/*
 * Finds the route of method and path and the {id} in it, and checks the names of the query parameters. False with a
 * problem: 404, 405 (with the Allow header added to the request) or 400. For OPTIONS there is no route; `allow` of the
 * request then says what the path serves.
 */
bool router_find(struct request *request, struct problem *problem);
