#pragma once
/*
 * open_loop - service/generation.h where requests come at random and the seconds of a step follow from how many take part,
 * whose number goes up and down.
 *
 * Requests in flight are a birth and death process: r come a second, and with n of them on a copy, of K places, as many end
 * as in a closed loop of n (insensitive to the lengths: Bonald and Proutiere, Performance Evaluation 2003):
 *
 *   m(n) = 1 / (p + (L - 1) s(n) / n),   n > K: m(K)
 *   q(n) = q(n - 1) r / m(n)             the chance of n
 *
 * With that, s the mean step of those times at which there is one, and u = r p, d = 1 - u - q(0) the shares of the time in
 * prompts and in steps:
 *
 *   wait for a place   W' = sum of (n - K) q(n) over n > K, / r
 *   wait for what runs  W = (u p (1 + v) + d s) / (2 (1 - u))
 *   TTFT               a + t + W + W'
 *   TPOT               ((sum of n q(n)) / r - p - W - W') / (L - 1)
 */
#include "service/generation.h"
#include "service/step_times.h"

/* `of` without step_seconds and concurrency, with a rate. `past` is the mean of the positions of a cache. All seconds are
   INFINITY where so many requests are not served. */
void sp_open_loop_figures(const struct sp_generation *of, const struct sp_step_times *times, double past,
                          uint32_t places, struct sp_generation_figures *ret_figures);
