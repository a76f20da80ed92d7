#pragma once
/*
 * staging - the bytes of uploads under way, by tenant.
 *
 * The store counts a model when it is complete. Until then its bytes lie in tmp, and a tenant could fill the disk with
 * uploads that never end. So a tenant may have as many bytes under way as it may store (--tenant-bytes), and as many
 * uploads as it may have models (--tenant-models). What others have under way does not count: no answer depends on it.
 * Any thread.
 */
#include <stdint.h>

#include "util/problem.h"

struct staging; /* of one tenant, with at least one upload */

/* What a tenant may have under way; 0: no limit. */
struct staging_limits {
    uint64_t bytes, uploads;
};

/* One more upload of the tenant. NULL with a problem: 429 QUOTA_MODELS, or no memory. */
struct staging *staging_begin(const char *tenant, const struct staging_limits *limits, struct problem *problem);

/* So many bytes more of an upload. False with 429 QUOTA_BYTES, and they do not count. */
bool staging_add(struct staging *staging, uint64_t bytes, const struct staging_limits *limits, struct problem *problem);

/* The end of an upload that had so many bytes; NULL is allowed. */
void staging_end(struct staging *staging, uint64_t bytes);
