#pragma once
/*
 * transfers - threads that wait for an object store, so that nobody else has to.
 *
 * A transfer is a call that some thread makes, in the order in which they came. Whoever sends one owns it, and leaves it
 * alone until `run` has been called; then it is the owner's again, who may free it in there.
 */
#include <stdbool.h>

struct transfers;

struct transfer {
    struct transfer *next;
    void (*run)(struct transfer *transfer);
    void *context;
};

struct transfers *transfers_create(unsigned threads); /* NULL without memory */

/* Any thread. */
void transfers_send(struct transfers *transfers, struct transfer *transfer);
bool transfers_idle(struct transfers *transfers); /* none waits or runs */

/* Runs what was sent, and ends the threads; NULL is allowed. */
void transfers_destroy(struct transfers *transfers);
