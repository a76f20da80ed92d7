#pragma once
/*
 * sources - from where models may be fetched, and by whom.
 *
 * --model-sources lists them with blanks between them: s3://BUCKET/PREFIX/. The daemon's keys may reach far more than
 * that, and than a tenant may see, so nothing else is ever asked for. {tenant} in an entry stands for the tenant that asks;
 * where nobody is identified it stands for nothing, and such an entry permits nothing. An entry without it is for all
 * tenants. Buckets are of the object store of --blobs-endpoint, --blobs-region and --blobs-credentials-file, whether
 * or not --blobs is given.
 *
 * An address has one form only, so that what is compared is what is asked for: letters, digits and "-._/", no empty
 * segment, none that is "." or "..", no query.
 */
#include <stdatomic.h>
#include <stdbool.h>

#include "store/s3/s3.h"
#include "util/problem.h"

struct config;
struct sources;

/* *ret_sources is NULL where there are none. False with a problem: 422 SOURCES_OPTION, or the object store's. */
bool sources_open(const struct config *config, const atomic_bool *stop, struct sources **ret_sources,
                  struct problem *problem);
void sources_close(struct sources *sources); /* no call of s3 may run; NULL is allowed */

/* Where an address leads: an object of a bucket. The key is within the address. */
struct source {
    struct s3 *s3;
    const char *key;
};

/* Whether the tenant may fetch it. False with a problem: 422 BAD_REFERENCE, 403 SOURCE_NOT_ALLOWED. */
bool sources_find(const struct sources *sources, const char *tenant, const char *url, struct source *ret_source,
                  struct problem *problem);
