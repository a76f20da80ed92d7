#pragma once
/*
 * cache - the copies of objects in the data folder, and which of them go when they are too many.
 *
 * A copy lies in DATA/blobs or DATA/plans under the key of its object. What no object store has lies there as well: that
 * stays.
 *
 * The copy that was held last longest ago goes first: holding one sets when its file was accessed. One that somebody holds
 * stays, whatever its size.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct cache {
    const char *data;
    uint64_t most; /* bytes; 0: no limit */
    atomic_uint_fast64_t bytes;
    pthread_mutex_t trimming;
    bool (*may_go)(void *context, const char *key); /* whether the object store has it */
    void *context;
};

/* Counts what is there. The members `data`, `most`, `may_go` and `context` are set. */
void cache_open(struct cache *cache);
void cache_close(struct cache *cache);

/* A descriptor that holds the copy until it is closed; -1 when there is none of this size (UINT64_MAX: any). */
int cache_hold(const struct cache *cache, const char *key, uint64_t size);

/* So much was added; what is too much goes, when it may. */
void cache_added(struct cache *cache, uint64_t bytes);
