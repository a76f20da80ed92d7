#pragma once
/*
 * faults - failures on purpose, in builds with -Dfaults=true and in no other.
 *
 * Every allocation of the daemon, of its workers, and of jansson and SQLite in them, and every call of the store, asks
 * here whether it must fail. A test decides, through a file of struct faults that all of these processes map:
 * SHARDPLAN_FAULTS names it.
 */
#include <stdbool.h>
#include <stdint.h>

#define FAULT_SITES 65536u /* a power of two; what a program has is far less */

enum fault_kind {
    FAULT_NONE,
    FAULT_MEMORY, /* in the daemon */
    FAULT_STORE,
    FAULT_WORKER, /* memory, in its workers */
};

enum fault_mode {
    FAULT_ONCE,     /* the call with the number `at` */
    FAULT_FROM,     /* that one, and all after it */
    FAULT_NEW_SITE, /* the first call with a chain of callers that none had that failed before; `at` says nothing */
};

/* Numbers of eight bytes in the order of the machine. The test writes `kind` last, and 0 to disarm. */
struct faults {
    uint64_t kind, mode, at;
    uint64_t seen;               /* calls of this kind since it was armed */
    uint64_t fired;              /* of which failed */
    uint64_t sites[FAULT_SITES]; /* that failed in FAULT_NEW_SITE: hashes, 0: empty */
};

#ifdef SPD_FAULTS
/* At the start of the program, before any thread and before a worker gives up its rights. Does nothing without the
   variable. */
void faults_set_up(bool is_worker);

/* Whether this call must fail. Any thread. */
bool faults_hit(enum fault_kind kind);

/* After a job of a worker in which something failed: under AddressSanitizer, a report of what the job lost. */
void faults_job_over(void);
#else
static inline void faults_set_up(bool is_worker)
{
    (void)is_worker;
}

static inline bool faults_hit(enum fault_kind kind)
{
    (void)kind;
    return false;
}

static inline void faults_job_over(void)
{
}
#endif
