#pragma once
/*
 * server - the parts of the daemon and how they hang together.
 *
 *   HTTP threads (libmicrohttpd)          main thread (libuv)              worker processes
 *   guard, route, upload, answer   -->    jobs: queue, waiters      -->    read, plan, write
 *            |                            worker pool, signals                    |
 *            +---- store (SQLite) --------+                             job folders of the data folder
 *
 * Requests that must wait (an inspection, Prefer: wait) are suspended and resumed by the main thread. HTTP threads
 * reach the main thread only through jobs.h and connections.h, which queue under a mutex and wake the loop.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "config.h"

struct server {
    const struct config *config;
    struct store *store;
    struct jobs *jobs;
    struct metrics *metrics;
    struct connections *connections;
    /* Publishing a blob and its row, or removing both, happens under this lock: the pair never splits. */
    pthread_mutex_t models_mutex;
    atomic_bool draining;              /* SIGTERM was received */
    atomic_size_t loaded_splice_bytes; /* held by downloads, see SPD_MAX_LOADED_SPLICES */
};

/* Milliseconds of a clock that never jumps. */
uint64_t server_now_ms(void);
