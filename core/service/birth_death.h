#pragma once
/*
 * birth_death - how many requests are in flight where they come at random: their number goes up by one and down by one.
 *
 * With n of them m(n) end a second, r come, and q(n) = q(n - 1) r / m(n) is the chance of n. Beyond K places as many end as
 * with K. A caller says m(n), and how long a step with n takes.
 */
#include <stdint.h>

struct sp_in_flight {
    double ended; /* requests that end a second */
    double step;  /* seconds of a step */
};

/* Sums over the chances of so many requests in flight, up to a common factor. */
struct sp_in_flight_sums {
    double all, none; /* of q(n); of q(0) */
    double requests;  /* n q(n) */
    double steps;     /* s(n) q(n), of n of 1 or more */
    double beyond;    /* (n - K) q(n), of more than K */
};

/* `rate` is less than what `flow_of` says of `places`, which is 1 or more; `flow_of` is asked for 1, 2, .. in order. */
struct sp_in_flight_sums sp_birth_death_sums(double rate, uint32_t places,
                                             struct sp_in_flight (*flow_of)(const void *context, uint32_t sequences),
                                             const void *context);
