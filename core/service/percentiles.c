#include "service/percentiles.h"

#include <math.h>
#include <stdlib.h>

#include "base/sorted.h"

SP_ASCENDING_NUMBERS(by_value, double)

static double at_percent(uint32_t count, const double *sorted, double percent)
{
    const double rank = ceil(percent / 100 * count);
    return sorted[rank < 1 ? 0 : (uint32_t)rank - 1];
}

struct sp_percentiles sp_percentiles_of(uint32_t count, double *values)
{
    double sum = 0;
    if (count == 0)
        return (struct sp_percentiles){0};
    qsort(values, count, sizeof *values, by_value);
    for (uint32_t i = 0; i < count; i++)
        sum += values[i];
    return (struct sp_percentiles){sum / count,
                                   at_percent(count, values, 50),
                                   at_percent(count, values, 90),
                                   at_percent(count, values, 95),
                                   at_percent(count, values, 99),
                                   values[count - 1]};
}
