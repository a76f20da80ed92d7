#pragma once
/*
 * server - the parts of the daemon and how they hang together.
 *
 *   acceptor: a thread that counts connections and hands them to
 *   HTTP threads (libmicrohttpd)          main thread (libuv)              worker processes
 *   guard, route, upload, answer   -->    jobs: queue, waiters      -->    read, plan, write
 *            |                            worker pool, signals                    |
 *            |                            ledger: a thread for         descriptors of the job's files
 *            +---- store -----------------what the jobs tell the store
 *
 * The main thread never waits for the store or a disk: the ledger does (jobs/ledger.h). Requests that must wait (an
 * inspection, Prefer: wait) are suspended and resumed by the main thread. HTTP threads reach the main thread only
 * through jobs.h and connections.h, which queue under a mutex and wake the loop.
 * A thread reads stored files in the background (store/integrity/scrub.h).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "config/config.h"
#include "worker/sandbox.h"

struct route;

#define SERVER_KEY_BYTES 32

struct server {
    const struct config *config;
    const struct route *routes; /* all that is served (http/router.h) */
    struct sandbox_walls walls; /* of the workers, as this kernel and this build have them */
    struct auth *auth;
    struct folder *folder; /* of the data */
    struct store *store;
    struct blobs *blobs;
    struct uploads *uploads;
    struct stored *stored;
    struct scrub *scrub;           /* NULL: there is none */
    struct references *references; /* NULL: no model is taken by reference */
    struct jobs *jobs;
    struct answers *answers;
    struct indexes *indexes;
    struct metrics *metrics;
    struct accounts *accounts;
    struct connections *connections;
    unsigned char page_key[SERVER_KEY_BYTES]; /* of page tokens; all daemons of a store have the same one */
    char owner[33];                           /* this daemon's name in a shared store, random */
    atomic_bool leaving;                      /* SIGTERM was received: not ready, but serving for --shutdown-delay */
    atomic_bool draining;                     /* no new work is taken */
    atomic_uint_fast64_t heartbeat_ms;        /* when the main loop turned last */
};

/* Milliseconds of a clock that never jumps. */
uint64_t server_now_ms(void);
uint64_t server_now_us(void); /* microseconds of the same clock */
