#include "service/birth_death.h"

#define LARGE      1e200 /* sums are scaled down beyond it */
#define NEGLIGIBLE 1e-15 /* of what was added up, once chances become less */

static void scale(struct sp_in_flight_sums *sums, double by)
{
    sums->all *= by;
    sums->none *= by;
    sums->requests *= by;
    sums->steps *= by;
}

struct sp_in_flight_sums sp_birth_death_sums(double rate, uint32_t places,
                                             struct sp_in_flight (*flow_of)(const void *context, uint32_t sequences),
                                             const void *context)
{
    struct sp_in_flight_sums sums = {.all = 1, .none = 1};
    struct sp_in_flight flow = {0};
    double chance = 1, load = 0;
    for (uint32_t n = 1; n <= places; n++) {
        flow = flow_of(context, n);
        load = rate / flow.ended;
        chance *= load;
        sums.all += chance;
        sums.requests += n * chance;
        sums.steps += flow.step * chance;
        if (load < 1 && chance < NEGLIGIBLE * sums.all)
            return sums;
        if (chance > LARGE) {
            scale(&sums, 1 / LARGE);
            chance /= LARGE;
        }
    }
    /* Behind the last place chances are a geometric series. */
    const double behind = chance * load / (1 - load);
    sums.beyond = behind / (1 - load);
    sums.all += behind;
    sums.requests += places * behind + sums.beyond;
    sums.steps += flow.step * behind;
    return sums;
}
