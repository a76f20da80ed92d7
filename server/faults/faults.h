#pragma once
/*
 * faults - failures on purpose, in builds with -Dfaults=true and in no other.
 *
 * Every allocation of the daemon and of jansson and SQLite, and every call of the
 * store, asks here whether it must fail. A test decides, through a file of struct faults that both map:
 * SHARDPLAN_FAULTS names it. Workers do not ask.
 */
#include <stdbool.h>
#include <stdint.h>

enum fault_kind { FAULT_NONE, FAULT_MEMORY, FAULT_STORE };

enum fault_mode {
    FAULT_ONCE,     /* the call with the number `at` */
    FAULT_FROM,     /* that one, and all after it */
    FAULT_NEW_SITE, /* the first call with a chain of callers that none had that failed before */
};

/* Numbers of eight bytes in the order of the machine. The test writes `kind` last, and 0 to disarm. */
struct faults {
    uint64_t kind, mode, at;
    uint64_t seen;  /* calls of this kind since it was armed */
    uint64_t fired; /* of which failed */
};

#ifdef SPD_FAULTS
/* At the start of the program, before any thread. Does nothing without the variable. */
void faults_set_up(void);

/* Whether this call must fail. Any thread. */
bool faults_hit(enum fault_kind kind);
#else
static inline void faults_set_up(void)
{
}

static inline bool faults_hit(enum fault_kind kind)
{
    (void)kind;
    return false;
}
#endif
