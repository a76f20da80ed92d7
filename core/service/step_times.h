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

struct sp_step_times {
    uint32_t prompt_count, step_count;
    const struct sp_prompt_time *prompts;
    const struct sp_step_time *steps;
};

/* Of a prompt with so many positions to compute. */
void sp_prompt_seconds(const struct sp_step_times *times, double positions, double *ret_latency, double *ret_interval);

/* Of a step. Never below a thousandth of the nearest row's, however short the caches are. */
double sp_step_seconds(const struct sp_step_times *times, double sequences, double past);
