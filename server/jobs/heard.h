#pragma once
/*
 * heard - queued plans of which other daemons told, and when this one may look for them.
 *
 * Each daemon of a store hears of each plan. If all that are idle asked the store for it at once, what a plan costs the
 * store would grow with the daemons. So the one that queued a plan claims it first; each other waits for a time of its
 * own, between SPD_HEARD_MS and SPD_HEARD_SPREAD_MS more, and forgets the plan when it hears that somebody has it.
 * Whoever is still free then claims it, and the rest hears of that.
 *
 * What is not heard is found by the look that the jobs have at the queue every SPD_CLAIM_MS; nothing depends on it that
 * all is heard.
 *
 * No clock, threads or I/O: the caller passes milliseconds of one clock and holds the lock.
 */
#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

struct heard;

struct heard *heard_create(const char *owner); /* this daemon's name; NULL without memory */
void heard_destroy(struct heard *heard);       /* NULL is allowed */

/* A plan of the tenant waits; `is_own`: this daemon queued it. False when there are too many: look at all. */
bool heard_add(struct heard *heard, const char *plan, const char *tenant, bool is_own, uint64_t now_ms);
void heard_remove(struct heard *heard, const char *plan); /* it waits no more; any plan is allowed */

/* A tenant whose plan is due, which is forgotten. False when none is. */
bool heard_take(struct heard *heard, uint64_t now_ms, char ret_tenant[SPD_MAX_PRINCIPAL + 1]);
uint64_t heard_due(const struct heard *heard); /* when the next one is; UINT64_MAX: never */

/* What is heard after this has higher numbers. */
uint64_t heard_mark(const struct heard *heard);
void heard_forget(struct heard *heard, uint64_t mark); /* what was heard until then: somebody has looked at all */
