#pragma once
/*
 * ledger - the thread in which the jobs talk to the store, and remove files.
 *
 * A store in another machine may hang, and so may a disk. The main loop must turn all the same: it serves the workers,
 * the heartbeats and the deadlines. So it never calls the store; it queues orders here, and takes the answers when it
 * is woken. What the store refuses at the moment is tried again every SPD_STORE_RETRY_MS, for as long as it takes: an
 * answer means that the store knows. Orders of one kind are done in the order in which they came.
 *
 * No plan is claimed while the data folder cannot be written (store/folder.h), and one that failed for that is queued
 * again. The same failure in a folder that is as it should be counts as a crash does: the plan is tried once more.
 *
 * By itself the thread renews the leases of this daemon, queues plans again whose daemon is silent, and deletes plans
 * that are kept no longer.
 */
#include <stdbool.h>
#include <stdint.h>

#include "jobs/handover.h"
#include "store/store.h"

struct ledger;
struct server;
struct task;

enum order_kind {
    ORDER_CLAIM,     /* a plan of `tenant` when it `claims`: `found` and `row`, `name` of its model; STORE_ERROR is an
                       answer too. In any case the `tenants` that have queued plans then */
    ORDER_END,       /* how an attempt ended: `changed`, never STORE_BROKEN */
    ORDER_LOOK,      /* `found`, never STORE_ERROR, and `row` */
    ORDER_PROGRESS,  /* no answer; forgotten when the store refuses */
    ORDER_TIDY,      /* no answer: removes the files of an attempt, when the store does not need them */
    ORDER_UNRESERVE, /* no answer: ends the reservation of a file and removes what is of no use then; forgotten when
                        SPD_MAX_UNENDED wait */
    ORDER_KINDS,
};

struct order {
    struct order *next;
    enum order_kind kind;
    char plan[STORE_ID_SIZE];
    int64_t attempt;
    struct task *task; /* of the asker */

    /* ORDER_END */
    bool requeue, crashed; /* else: */
    bool is_stored;        /* its files have their names */
    bool of_files, judged; /* a failure to read or write a file; `requeue` says what became of it */
    int64_t crashes;       /* so far */
    enum plan_state state;
    bool has_result;
    char *error; /* owned, or NULL */
    bool stored; /* objects of the attempt may be there, though there is no result */
    char *files; /* owned, of the result (store/results.h), or NULL */
    enum store_changed changed;

    bool is_deleted; /* ORDER_LOOK and ORDER_TIDY: there is no such plan any more; the store is not asked */

    /* ORDER_CLAIM and ORDER_LOOK */
    enum store_found found;
    struct plan_row row;        /* owned when found */
    char *name;                 /* owned */
    char blob[STORE_BLOB_SIZE]; /* of its model; "" where the store did not say */
    uint64_t blob_bytes;
    /* Of a plan that was claimed, until the order is released: the files of its result, or why it has none. Those that it
       reads are added, and a result is stored, by transferring.c, before an ORDER_END tells of it. */
    struct handover *handover;
    struct problem problem;

    /* ORDER_CLAIM */
    bool claims;
    uint64_t mark; /* the asker's: what it had heard by then (heard.h) */
    char tenant[SPD_MAX_PRINCIPAL + 1];
    char (*tenants)[SPD_MAX_PRINCIPAL + 1]; /* owned */
    size_t tenant_count;
    bool lacks_memory; /* for all of them */
    bool has_all;      /* no other tenant has queued plans */

    struct job_progress progress; /* ORDER_PROGRESS */

    /* ORDER_UNRESERVE */
    char model[65]; /* or the SHA-256 of a file beside one */
    int64_t number;
};

/* NULL without memory. `answered` is called in the thread when there are answers. */
struct ledger *ledger_create(struct server *server, void (*answered)(void *context), void *context);
bool ledger_start(struct ledger *ledger); /* the thread, which makes one step after the other; false: there is none */

/* Does what is due, and one order; false when there was neither, and nothing will be for *ret_rest_ms unless an order
   comes. One thread at a time. */
bool ledger_step(struct ledger *ledger, uint64_t *ret_rest_ms);

/* Ends the thread, after the call that it is in; what is queued then stays undone. */
void ledger_stop(struct ledger *ledger);
void ledger_destroy(struct ledger *ledger); /* after the stop; NULL is allowed */

/* Any thread. The order is the ledger's until it comes back as an answer. */
void ledger_order(struct ledger *ledger, struct order *order);

/* Any thread: an ORDER_LOOK; `is_deleted` as there. NULL, or when too many are queued: see ledger_look_at_all(). */
void ledger_look(struct ledger *ledger, const char *plan, bool is_deleted);

/* Main thread: the answers so far, oldest first, linked by `next`; release each. */
struct order *ledger_answers(struct ledger *ledger);
void order_release(struct order *order); /* NULL is allowed */

/* Main thread: whether anything may have changed since the last question. */
bool ledger_look_at_all(struct ledger *ledger);
