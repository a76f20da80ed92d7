#pragma once
/*
 * generation - a server that generates tokens with continuous batching, by a mean field.
 *
 * Model. One copy of a model has C sequences in flight. A decode step makes the next token of all of them; when a
 * request comes, its prompt runs first (the prefill), and the sequences in flight wait. All times and lengths are means:
 *
 *   s   seconds of a decode step of the sequences in flight
 *   p   seconds for which a prefill keeps the others waiting: of its slowest stage
 *   t   seconds of a prefill from its start to its first token, t >= p
 *   L   tokens of a request, the first of which the prefill makes
 *
 * A *closed loop* has C sequences at any time: an ended one is followed at once. In the L - 1 steps of a request each of
 * the C - 1 others ends once, and another one follows it:
 *
 *   time per output token     TPOT = s + (C - 1) p / (L - 1)
 *   in prefills of others     u = (C - 1) p / (p + (L - 1) TPOT) of the time
 *   in decode steps           d = 1 - u of it, 0 without others
 *
 * In an *open loop* r requests a second come at random (Poisson), and so many are in flight as follow from that; s is to
 * be that of so many:
 *
 *   u = r p,   d = (1 - u) (1 - exp(-r (L - 1) s / (1 - u)))
 *   TPOT = s / (1 - u) + u (W + p) / ((1 - u) (L - 1))
 *   sequences in flight       N = r R
 *
 * where the second part is the prompts that came while the request waited and was computed: they go before its steps.
 *
 * A request waits for what runs, and prompts go before steps: the mean is that of a queue with priorities whose service
 * is not interrupted (Cobham, Operations Research 2, 1954), where v is the squared coefficient of variation of prefills:
 *
 *   wait                      W = (u p (1 + v) + d s) / (2 (1 - u))
 *   time to first token       TTFT = a + t + W, with a what the server itself adds to a request
 *   a whole request           R = TTFT + (L - 1) TPOT
 *   requests a second         C / R, never more than the devices do: 1 / (p + (L - 1) s / C)
 *
 * A measurement begins with all C requests at once, which are computed one behind the other: of the first of n rounds of C
 * requests each waits for (C - 1) / 2 others in the mean, so that (C - 1) p / (2 n) come to the mean TTFT.
 *
 * Where no more than K may be in flight, requests wait for a place. So many are in flight as in a birth and death process
 * whose deaths are what the devices serve with n of them: m(K) = m, and at the mean number the rate r, in between a power
 * of n (insensitive to the lengths: Bonald and Proutiere, 2003). With q(n) the chance of n, the requests beyond places are
 * a geometric series, and wait half of it, as in a queue that takes equally long for each:
 *
 *   m(n) = m (n / K)^b,   b = log(r / m) / log(N / K) within 0 to 1,   q(n - 1) = q(n) m(n) / r
 *   W' = q(K) r / (m (1 - r/m)^2) / (2 r)
 *
 * which with one place is that of M/D/1, r / (2 m (m - r)).
 */
struct sp_generation {
    double request_seconds;                 /* a */
    double step_seconds;                    /* s */
    double prompt_seconds, prefill_seconds; /* p, t */
    double concurrency, output;             /* C, of a closed loop; L: 1 or more */
    double rate;                            /* r; 0: a closed loop */
    double prompt_variation;                /* v */
    double rounds;                          /* n; 0: the service runs for ever */
};

struct sp_generation_figures {
    double ttft_seconds, tpot_seconds, request_seconds; /* TPOT is 0 where a request has one token; all are
                                                           INFINITY where an open loop has too many prompts */
    double wait_seconds;                                /* of TTFT */
    double requests_per_second, in_flight;
    double prompt_share; /* of the time of the devices, in prefills */
};

void sp_generation_figures(const struct sp_generation *of, struct sp_generation_figures *ret_figures);

/* Mean seconds for which a request waits for one of K places, at `rate` where at most `capacity` a second are served and
   so many are in flight; INFINITY where these are not enough. */
double sp_generation_place_seconds(double rate, double capacity, double in_flight, double places);
