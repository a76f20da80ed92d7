#pragma once
/*
 * chunked - service/generation.h where prompts are cut into chunks and run beside the decode steps (chunked prefill:
 * Agrawal et al., Sarathi-Serve, OSDI 2024), by a mean field.
 *
 * Model. A copy makes one step after the other. Each has all sequences in flight, and up to B positions of the prompts
 * that wait, of the first one first; the first token of a prompt is there with its last chunk. With service/step_times.h,
 * s(n) a step of n sequences, M(n, c, k) one with c positions of a prompt behind k others:
 *
 *   S, v   positions of a prompt, and their squared coefficient of variation
 *   x      S / B;  A = x rounded up, steps of a prompt alone: 1 or more, x + 1/2 where lengths vary
 *   h      prompts that come in one step (Poisson)
 *   K      steps with a chunk, per prompt, of which those that wait share some:
 *          max(x, min(A (1 - exp(-h)) / h, x + (A - x) (1 - h x)))
 *   e(n)   sum of M(n, c, k) - s(n) over the K steps of a prompt: by so much it lengthens the steps of n others
 *   g(n)   sum of M(n, c, k) over them; own(n) that over the steps of a prompt itself
 *   Y      further steps for which a prompt waits: those of a queue whose steps take one chunk each, with the mean
 *          E[Y] = (h x^2 (1 + v) + (1 - h x)^2 - E[i^2]) / (2 (1 - h x)) + h x / 2 of chunks ahead, where i is the part of a
 *          chunk that stays empty (Lindley's recursion, squared); of prompts shorter than a chunk several are done in one
 *
 * In a *closed loop* of C sequences each one goes through N steps: L - 1 with its tokens, those of its prompt and those for
 * which this waits:
 *
 *   N = L - 1 + A' + Y,   h = (C - 1) / N,   o = (C - 1) (L - 1) / N others with tokens
 *   TPOT = s(1 + o) + h e(1 + o)
 *   TTFT = a + own(o) + Y steps,   R = TTFT + (L - 1) TPOT
 *
 * of which h is found by bisection; A' is A, less where prompts share steps. In an *open loop* of r requests a second, with
 * so many sequences in a step as are given,
 *
 *   TPOT = s / (1 - r e),   h = r TPOT,   u = r g,   d = (1 - u) (1 - exp(-r (L - 1) TPOT))
 *   TTFT = a + own + W,     W = (u g (1 + v) + d s) / (2 (1 - u))
 *
 * where of prompts of half a chunk or less, S (1 + v) <= B / 2, which do not wait for each other, W is the rest of the step
 * that runs, and Y steps. Where the number of sequences goes up and down (service/birth_death.h), as in
 * service/open_loop.h, its deaths m(n) = n / R(n) are those of the closed loop of n, without a. To TPOT come then the prompts that wait when a first
 * token is there, more than when a step ends: r (W + own) (1 - K TPOT / g) e / (L - 1), over s / TPOT.
 */
#include "service/generation.h"
#include "service/step_times.h"

struct sp_chunked {
    const struct sp_step_times *times; /* with a chunk */
    double positions;                  /* S, 1 or more */
    double prefix;                     /* positions that are in the cache before a prompt */
    double past;                       /* mean positions of the cache of a sequence in flight */
};

/* As sp_generation_figures(): `of` has no times. In an open loop its concurrency is that of a step. */
void sp_chunked_figures(const struct sp_generation *of, const struct sp_chunked *chunked,
                        struct sp_generation_figures *ret_figures);

/* As sp_open_loop_figures(). */
void sp_chunked_open_loop_figures(const struct sp_generation *of, const struct sp_chunked *chunked, uint32_t places,
                                  struct sp_generation_figures *ret_figures);
