#include "service/lengths.h"

#include <math.h>

struct sp_lengths sp_lengths_of_list(uint32_t count, const double *lengths)
{
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += lengths[i];
        squares += lengths[i] * lengths[i];
    }
    const double mean = sum / count;
    return (struct sp_lengths){mean, fmax(squares / count / (mean * mean) - 1, 0), count, lengths};
}

/* The quantile of the standard normal distribution at a share above a half, by bisection of its distribution. */
static double normal_quantile(double share)
{
    double low = 0, high = 10;
    for (int i = 0; i < 64; i++) {
        const double middle = (low + high) / 2;
        if (erfc(-middle / sqrt(2)) / 2 < share)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

bool sp_lengths_of_percentile(double mean, double percent, double length, struct sp_lengths *ret_lengths)
{
    const double z = normal_quantile(percent / 100), ratio = log(length / mean);
    const double root = z * z - 2 * ratio;
    if (ratio < 0 || root < 0)
        return false;
    const double deviation = z - sqrt(root);
    *ret_lengths = (struct sp_lengths){.mean = mean, .variation = expm1(deviation * deviation)};
    return true;
}

double sp_lengths_in_flight(const struct sp_lengths *lengths)
{
    return lengths->mean / 2 * (1 + lengths->variation);
}
