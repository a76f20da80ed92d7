#pragma once
/*
 * schedule - which piece of work a free worker gets next.
 *
 * Deficit round robin by tenant over all kinds of work. Each tenant has an account with a balance of worker time. In
 * each round an account gets SPD_QUANTUM_US times the tenant's weight, but no more than makes it that amount; a job
 * takes from it what it takes of a worker, while it runs. A new round begins when a worker is free and everybody who could use it
 * has spent the balance. Of those who wait, the tenant with the highest balance by weight has the next turn, so one that
 * used little never waits for the flood of another one, and two that always wait get worker time as their weights say,
 * however long their jobs are. A job that has just started takes a quantum at once, which its end gives back: a tenant
 * does not get all free workers at one moment. Debts stay when a tenant has nothing to do any more; they are
 * forgotten when a worker is free and nobody waits.
 *
 * A job is of a class: short errands, long errands, plans. Each class has a floor, a number of workers that the other
 * classes together leave to it: a class may take a free worker when enough remain for the floors of the others. So a
 * worker is idle while work waits only where a floor says so.
 *
 * Within a tenant errands go first, in the order in which they came, for somebody waits for them; a plan has its turn
 * after SPD_ERRANDS_PER_PLAN errands all the same.
 *
 *   schedule_add() -> waits --schedule_pick()--> runs --schedule_end()--> forgotten
 *                       \-- schedule_remove() --> forgotten
 *
 * Plans that lie in the store wait too: schedule_offer() says whose. One that is picked is a turn without work, for the
 * caller to claim.
 *
 * No clock, threads or I/O: the caller passes times in microseconds of one clock and holds the lock. Finding the next
 * turn looks at each tenant that waits or runs something. Pieces of work are the caller's memory.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/principal.h"

enum work_class { WORK_SHORT, WORK_LONG, WORK_PLAN, WORK_CLASSES };

struct account;
struct schedule;

/* A piece of work that waits. The caller sets the first two; the rest is the schedule's. */
struct work {
    enum work_class class;
    void *owner;

    struct work *before, *after;
    struct account *account; /* NULL: it does not wait */
    uint64_t number;         /* grows in the order of arrival */
    uint64_t since_us;
};

/* What a worker does, or is to do. */
struct turn {
    struct account *account; /* NULL: none */
    enum work_class class;
    struct work *work; /* which waits no more; NULL: a plan of this tenant, which is in the store */
};

struct schedule_options {
    unsigned workers;
    unsigned floors[WORK_CLASSES]; /* together at most `workers` */
    unsigned max_waiting;          /* errands of one tenant */
    /* The weight of a tenant, 1 or more; asked when it has its first work. NULL: all have 1. */
    unsigned (*weight)(const void *context, const char *tenant);
    const void *context;
};

enum schedule_added {
    SCHEDULE_ADDED,
    SCHEDULE_FULL,      /* so many errands of this tenant wait already */
    SCHEDULE_NO_MEMORY, /* or too many tenants wait */
};

struct schedule_waiting {
    unsigned count;
    uint64_t longest_us;
};

struct schedule *schedule_create(const struct schedule_options *options); /* NULL without memory */
void schedule_destroy(struct schedule *schedule); /* what waits is left alone; NULL is allowed */

/* Work waits. `again`: it was picked before, and no limit counts. */
enum schedule_added schedule_add(struct schedule *schedule, const char *tenant, struct work *work, bool again,
                                 uint64_t now_us);

/* It waits no more. Work that does not wait is left alone. */
void schedule_remove(struct schedule *schedule, struct work *work);

/* The tenants that have plans in the store, instead of those that were said before. One that no memory is left for is
   not among them. */
void schedule_offer(struct schedule *schedule, const char (*tenants)[SPD_MAX_PRINCIPAL + 1], size_t count,
                    uint64_t now_us);

/* This tenant has plans in the store too. */
void schedule_offer_one(struct schedule *schedule, const char *tenant, uint64_t now_us);

/* A worker is free: false when nothing may run now. `may_claim`: plans of the store may be picked. */
bool schedule_pick(struct schedule *schedule, bool may_claim, uint64_t now_us, struct turn *ret_turn);

/* The worker of this turn is free again, or never was needed; the turn is emptied. An empty one is allowed. */
void schedule_end(struct schedule *schedule, struct turn *turn, uint64_t now_us);

const char *turn_tenant(const struct turn *turn);

/* Any errand that waits, which then waits no more; NULL: there is none. */
struct work *schedule_take_errand(struct schedule *schedule);

/* What waits of a class, without the plans in the store. */
struct schedule_waiting schedule_waiting(const struct schedule *schedule, enum work_class class, uint64_t now_us);
