#include "service/phases.h"

#include <math.h>

double sp_phases_busy_seconds(uint32_t count, const struct sp_phase_load *loads)
{
    double busy = 0;
    for (uint32_t i = 0; i < count; i++)
        busy += loads[i].runs * loads[i].seconds;
    return busy;
}

double sp_phases_wait_seconds(uint32_t count, const struct sp_phase_load *loads, double rate)
{
    const double busy = sp_phases_busy_seconds(count, loads);
    double always = 0, mean = 0, squares = 0;
    if (rate * busy >= 1)
        return INFINITY;
    /* What every request needs is a constant; of the rest a request needs one, or none, of the phases. */
    for (uint32_t i = 0; i < count; i++)
        always += loads[i].runs >= 1 ? loads[i].runs * loads[i].seconds : 0;
    for (uint32_t i = 0; i < count; i++) {
        if (loads[i].runs < 1) {
            mean += loads[i].runs * loads[i].seconds;
            squares += loads[i].runs * loads[i].seconds * loads[i].seconds;
        }
    }
    return rate * (always * always + 2 * always * mean + squares) / (2 * (1 - rate * busy));
}
