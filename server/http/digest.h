#pragma once
/*
 * digest - Repr-Digest and Content-Digest (RFC 9530) with sha-256; other algorithms are not looked at.
 *
 * Both are of the body as it is sent, codings included: this service takes no parts, so they are the same.
 */
#include <stdbool.h>
#include <stddef.h>

#include "util/problem.h"

#define DIGEST_TEXT_SIZE 64 /* of "sha-256=:44 characters:" and a NUL */

struct digest;

/* From the two headers (NULL: not there); *ret_digest is NULL when there is nothing to compare with. False with a
   problem: 400 for a sha-256 that is none, 503. */
bool digest_create(const char *repr_digest, const char *content_digest, struct digest **ret_digest,
                   struct problem *problem);
bool digest_update(struct digest *digest, const void *bytes, size_t size);

/* The body has ended: false with a problem that has both digests when they differ. */
bool digest_finish(struct digest *digest, struct problem *problem);
void digest_destroy(struct digest *digest); /* NULL is allowed */

/* The header's text for a SHA-256 in hexadecimal digits; "" when it is none. */
void digest_text(const char *hex, char ret[DIGEST_TEXT_SIZE]);
