#pragma once
/*
 * pools - a service whose prompts and decode steps have devices of their own (disaggregation: Splitwise, ISCA 2024;
 * DistServe, OSDI 2024): copies that run prompts, copies that run steps, and links that carry the cache of each request
 * from one to the other.
 *
 * Requests come at random, r a second, and go to the copies evenly. With n copies for prompts, k for steps, p, t, a, v and L
 * as in service/generation.h, and x the seconds for which the cache of a request keeps the links of a copy:
 *
 *   prompts     wait as in a queue of one server:            U = (r/n) p^2 (1 + v) / (2 (1 - r p/n))
 *   caches      the same, on the links of the smaller pool:   V = (r/m) x^2 / (2 (1 - r x/m)),  m = min(n, k)
 *   steps       service/open_loop.h with r/k requests a second and no prompts; the waits for a step that runs and for a
 *               place are a part of its TPOT, since the first token is there by then
 *   TTFT        a + U + t + V + x
 *
 * No more than min(n/p, m/x, k K/((L - 1) s(K))) requests a second are served, with K places on a copy for steps: pools
 * whose rates match have these close to each other.
 */
#include "service/open_loop.h"

struct sp_pools {
    double request_seconds, output, prompt_variation; /* a, L, v */
    double prompt_seconds, prefill_seconds;           /* p, t of a copy for prompts */
    double transfer_seconds;                          /* x */
    uint32_t prompt_copies, step_copies;              /* n, k */
    const struct sp_step_times *steps;                /* of a copy for steps; prompts are not read */
    double past;                                      /* mean positions of a cache */
    uint32_t places;                                  /* K */
};

struct sp_pools_figures {
    struct sp_generation_figures all; /* prompt_share: of the time of the copies for prompts */
    double link_share, place_share;   /* of the time of the links; sequences in steps over places */
};

/* Requests a second, at most. */
double sp_pools_capacity(const struct sp_pools *pools);

/* At a rate; all seconds are INFINITY where it is not below the capacity. */
void sp_pools_figures(const struct sp_pools *pools, double rate, struct sp_pools_figures *ret_figures);

/* The rate at which so many requests are in flight, in all pools together, which is that of a closed loop of them. */
double sp_pools_closed_rate(const struct sp_pools *pools, double in_flight);
