#pragma once
/*
 * lengths - how long the inputs and outputs of requests are: as much of a distribution as the arithmetic of a service
 * needs.
 *
 * Lengths are counts of tokens. `variation` is the squared coefficient of variation: the variance over the square of the
 * mean, 0 where all are equal. A mean and a percentile are taken for a log-normal distribution, which lengths of
 * prompts and answers are near to: with z the quantile of the normal distribution,
 *
 *   percentile / mean = exp(z s - s^2 / 2),   variation = exp(s^2) - 1
 *
 * A caller who looks at a random moment sees long sequences more often than short ones: the mean of what is generated
 * so far of the sequences in flight is mean / 2 (1 + variation) (the inspection paradox of renewal theory; Cox, Renewal
 * Theory, 1962).
 */
#include <stdbool.h>
#include <stdint.h>

struct sp_lengths {
    double mean, variation;
    uint32_t count; /* of observed lengths; 0: none are known */
    const double *list;
};

/* Of `count` observed lengths, at least 1, not all 0. The list stays the caller's, and is that of the result. */
struct sp_lengths sp_lengths_of_list(uint32_t count, const double *lengths);

/* Of a mean and the length that `percent` % (above 50, below 100) of all are not above. False where no log-normal
   distribution has them: the percentile is below the mean, or too far above it. */
bool sp_lengths_of_percentile(double mean, double percent, double length, struct sp_lengths *ret_lengths);

/* The mean of what the sequences in flight have of their lengths. */
double sp_lengths_in_flight(const struct sp_lengths *lengths);
