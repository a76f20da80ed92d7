#pragma once
/*
 * phases - devices that run the phases of a model in turn: how many requests they serve, and how long these wait.
 *
 * A *phase* is the model at one setting of its sizes. A request needs a mean number of runs of each phase; a run that
 * serves several requests at once counts as a part of a run for each. Runs keep the devices busy for their interval,
 * the time of the slowest stage, so with n runs of interval T of each phase
 *
 *   busy seconds of a request   B = sum of n T
 *   most requests a second      1 / B
 *
 * Requests that come at random (Poisson) and are served one after the other wait, by the formula of Pollaczek and
 * Khinchine (Kleinrock, Queueing Systems I, 1975, 5.7), W = r E[T^2] / (2 (1 - r B)) for r requests a second, with E[T^2]
 * the mean of a request's own. Requests that need several runs are taken as one whole.
 */
#include <stdint.h>

struct sp_phase_load {
    double seconds; /* between the ends of two runs, where runs follow each other */
    double runs;    /* of it that a request needs, in the mean */
};

/* Busy seconds of a request. */
double sp_phases_busy_seconds(uint32_t count, const struct sp_phase_load *loads);

/* Mean seconds for which a request waits at `rate` requests a second; INFINITY where these are too many. Phases whose
   runs are below 1 are what only that share of the requests needs. */
double sp_phases_wait_seconds(uint32_t count, const struct sp_phase_load *loads, double rate);
