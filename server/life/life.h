#pragma once
/*
 * life - what the program does from its start to its end: serve, or one of the things that it does instead.
 *
 * Start:   data folder and lock, store, recovery, sweep, workers, and last the listening sockets. READY is told to the
 *          service manager (notify.h) when a worker runs too.
 * Reload:  SIGHUP reads the tokens and the certificates again; what is wrong with them is logged, and the old ones
 *          stay.
 * Stop:    the first SIGTERM or SIGINT makes /readyz answer 503, so that balancers look elsewhere; after
 *          --shutdown-delay no more connections are taken, who waits for a plan is answered, and running plans, uploads
 *          and downloads get --drain. Plans that still run then, or at a second signal, are queued again in the store.
 *
 * All times are of the clock that never jumps.
 */
#include "config/config.h"

/* Exit statuses: 0 stopped as asked, 4 could not serve. */
int life_serve(const struct config *config);

/* --check-config: reads every file that the configuration names. 0 and OK on standard output, else 2 and sentences. */
int life_check(const struct config *config);

/* --healthcheck: 0 when the daemon that is meant is ready, 1 when it is not, 2 when it is not known whom to ask; else a
   sentence. */
int life_health(const struct config *config);
