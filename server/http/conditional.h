#pragma once
/*
 * conditional - preconditions of a request (RFC 9110, 13): If-Match, If-None-Match and the two with dates.
 *
 * ETags are given without quotes, and are strong. An answer has one, a thing may have several, for its forms and
 * codings: they begin alike, ETAG, ETAG-text, ETAG-zstd, ETAG-text-gzip.
 */
#include <stdbool.h>
#include <stdint.h>

#include "http/request.h"

enum precondition {
    PRECONDITION_HOLDS,     /* or there is none: go on */
    PRECONDITION_UNCHANGED, /* 304 to a GET */
    PRECONDITION_FAILS,     /* 412 */
};

#define CONDITIONAL_DATE_SIZE 136 /* of any struct tm; dates take 29 */

/* The preconditions of a GET for the answer with this ETag, that was made at `modified` (milliseconds, 0: not known).
 */
enum precondition conditional_read(const struct request *request, const char *etag, int64_t modified);

/* Those of a change to a thing: If-Match names any of its ETags. PRECONDITION_HOLDS or PRECONDITION_FAILS. "" for a
   thing that has no ETag at the moment; then only If-Match: * holds. */
enum precondition conditional_change(const struct request *request, const char *etag, int64_t modified);

/* Whether a Range is to be served: If-Range is not there, or names exactly this. */
bool conditional_range(const struct request *request, const char *etag, int64_t modified);

/* A date as headers have it, into `ret` (CONDITIONAL_DATE_SIZE bytes). */
void conditional_date(int64_t milliseconds, char *ret);
