#pragma once
/*
 * body - what arrives behind the headers: held to its limits, compared with its digest, decoded, and kept.
 */
#include "http/request.h"

/* The route has let the headers pass and has said of what kind the body is. False with a problem. */
bool body_begin(struct request *request, struct problem *problem);

/* A piece of it. False with a problem. */
bool body_take(struct request *request, const char *bytes, size_t size, struct problem *problem);

/* It is complete. False with a problem: it was broken off, or is not what its digest says. */
bool body_end(struct request *request, struct problem *problem);

/* The 413 of a body that is kept in memory. Returns false. */
bool body_too_large(const struct request *request, uint64_t actual, struct problem *problem);

/* The part of an upload, if there is one, ends before the answer: the next one may come as soon as that has arrived. */
void body_end_part(struct request *request);
void body_release(struct request *request);
