#pragma once
/*
 * step_times - what prompts and decode steps of one copy of a model take, as tables between whose rows times are linear.
 *
 * A prompt takes an interval, after which the next one may begin, and a latency, after which its first token is there. A
 * decode step of some sequences takes so many seconds where their caches have `past` positions in the mean, and more or
 * less by a slope, since each position of a cache is read once:
 *
 *   seconds(sequences, past) = row.seconds + row.seconds_per_position (past - row.past)
 *
 * Where prompts are cut (*chunked prefill*: Agrawal et al., Sarathi-Serve, OSDI 2024), a step has a chunk of a prompt
 * beside the sequences in flight. A chunk of c positions behind k others of its prompt takes, alone,
 *
 *   chunk(c, k) = row.interval_seconds + row.seconds_per_position k
 *
 * and the step of both takes what they would take one after the other, less what they share: matrices of weights are read
 * and kernels are started once. That is what n + c positions without a cache save against n and c apart,
 *
 *   mixed(n, c, k) = seconds(n, past) + chunk(c, k) - (chunk(n, 0) + chunk(c, 0) - chunk(n + c, 0))
 *
 * never less than the longer of both. Attention, which reads caches of their own, is not shared.
 *
 * Rows ascend by positions and by sequences, at least one of each. Before the first row its times hold, behind the last
 * one the line through the last two goes on.
 */
#include <stdint.h>

struct sp_prompt_time {
    double positions; /* that the prompt computes */
    double latency_seconds, interval_seconds;
};

struct sp_step_time {
    double sequences, past; /* past: positions of each cache, in the mean */
    double seconds, seconds_per_position;
};

/* Of a chunk of a prompt, at its start; seconds_per_position: of the interval, for each position before it. */
struct sp_chunk_time {
    double positions, latency_seconds, interval_seconds, seconds_per_position;
};

struct sp_step_times {
    uint32_t prompt_count, step_count;
    const struct sp_prompt_time *prompts;
    const struct sp_step_time *steps;
    double chunk; /* positions of prompts that a step has at most; 0: prompts run whole, and there are no chunks */
    uint32_t chunk_count;
    const struct sp_chunk_time *chunks;
};

/* Of a prompt with so many positions to compute. */
void sp_prompt_seconds(const struct sp_step_times *times, double positions, double *ret_latency, double *ret_interval);

/* Of a step. Never below a thousandth of the nearest row's, however short the caches are. */
double sp_step_seconds(const struct sp_step_times *times, double sequences, double past);

/* Of a step with a chunk. `sequences` below 1 are the share of the steps that have one,
   and 0 leaves the chunk alone. */
struct sp_mixed_step {
    double sequences, past;       /* in flight, and their caches */
    double positions, chunk_past; /* of the chunk: above 0; and before it */
};
double sp_mixed_seconds(const struct sp_step_times *times, const struct sp_mixed_step *step);

/* What passes from when a next step may begin to when the first token of a prompt is there whose last chunk that is. */
double sp_chunk_lag_seconds(const struct sp_step_times *times, double positions);
