#include "service/chunked.h"

#include <math.h>

#include "service/birth_death.h"

#define HALVINGS    50
#define ITERATIONS  100   /* damped ones: what is left of a first error is below a double's */
#define NEGLIGIBLE  1e-15 /* chances and shares that are none */
#define SHARED      0.5   /* of a chunk: prompts below it share one */
#define MOST_CHUNKS 4096  /* of a prompt whose steps are added one by one */

/* A prompt, where so many sequences are beside its chunks. */
struct prompt {
    double steps, seconds, extra; /* K, g, e */
    double own, step;             /* of the prompt itself; one for which it waits */
    double packed;                /* seconds for which it keeps those behind it waiting */
};

/* What does not change with the load. */
struct lengths {
    double full, alone; /* x, A */
};

static struct lengths lengths_of(const struct sp_generation *of, const struct sp_chunked *chunked)
{
    const double full = chunked->positions / chunked->times->chunk;
    return (struct lengths){full, of->prompt_variation > 0 ? fmax(full + 0.5, 1) : ceil(full)};
}

/* K, with so many prompts in a step. */
static double steps_of(const struct lengths *lengths, double arrivals)
{
    const double full = lengths->full, alone = lengths->alone;
    const double apart = arrivals > 0 ? alone * -expm1(-arrivals) / arrivals : alone;
    return fmax(full, fmin(apart, full + (alone - full) * (1 - arrivals * full)));
}

/* Steps of a prompt itself, where others share them. */
static double own_steps(const struct lengths *lengths, double steps)
{
    const double spread = lengths->alone - lengths->full;
    const double apart = spread > 0 ? (steps - lengths->full) / spread : 1;
    return apart * lengths->alone + (1 - apart) * fmax(lengths->full, 1);
}

/* Further steps that it needs, behind Y chunks of others. */
static double waiting_steps(const struct lengths *lengths, double variation, double arrivals)
{
    const double full = lengths->full, steps = steps_of(lengths, arrivals), load = arrivals * full;
    if (!(load < 1))
        return INFINITY;
    const double unused = 1 - arrivals * steps + arrivals * (steps - full) * (lengths->alone - full);
    const double varies = arrivals * full * full * (1 + variation) + (1 - load) * (1 - load) - unused;
    const double ahead = fmax(varies, 0) / (2 * (1 - load)) + load / 2;
    const double some = fmin(arrivals * steps, ahead / full), stays = 1 - some * full / ahead;
    double further = 0;
    if (full >= 1 || ahead <= 0)
        return ahead;
    if (ahead > MOST_CHUNKS * full)
        return ahead; /* where it does not matter what a step has room for */
    for (double n = 1; n <= MOST_CHUNKS; n++) {
        const double chance = some * pow(stays, floor(n / full) - 1);
        further += chance;
        if (chance < NEGLIGIBLE)
            break;
    }
    return further;
}

/* A step without a chunk. */
static double step_of(const struct sp_chunked *chunked, double sequences)
{
    return sequences > 0 ? fmin(sequences, 1) * sp_step_seconds(chunked->times, fmax(sequences, 1), chunked->past) : 0;
}

static double mixed(const struct sp_chunked *chunked, double sequences, double positions, double before)
{
    const struct sp_mixed_step step = {sequences, chunked->past, positions, chunked->prefix + fmax(before, 0)};
    return sp_mixed_seconds(chunked->times, &step);
}

/* All steps of a prompt that shares them with no other prompt. */
static double alone_seconds(const struct sp_generation *of, const struct sp_chunked *chunked,
                            const struct lengths *lengths, double sequences)
{
    const double chunk = chunked->times->chunk, positions = chunked->positions;
    double seconds = 0, done = 0;
    if (of->prompt_variation > 0 || lengths->alone > MOST_CHUNKS) { /* full ones, and one that is not */
        const double full = lengths->alone - 1, rest = positions - full * chunk;
        const double all = positions * (1 + of->prompt_variation);
        return full * mixed(chunked, sequences, chunk, (all - chunk) / 2) +
               mixed(chunked, sequences, fmax(rest, 1), all - fmax(rest, 1));
    }
    for (; positions - done > chunk; done += chunk)
        seconds += mixed(chunked, sequences, chunk, done);
    return seconds + mixed(chunked, sequences, positions - done, done);
}

static struct prompt prompt_of(const struct sp_generation *of, const struct sp_chunked *chunked,
                               const struct lengths *lengths, double sequences, double arrivals)
{
    const double steps = steps_of(lengths, arrivals), full_steps = fmax(lengths->full, 1);
    const double weight =
        lengths->alone > lengths->full ? (steps - lengths->full) / (lengths->alone - lengths->full) : 1;
    const double all = chunked->positions * (1 + of->prompt_variation), chunk = chunked->times->chunk;
    const double full = mixed(chunked, sequences, chunk, (all - chunk) / 2);
    const double alone = alone_seconds(of, chunked, lengths, sequences);
    struct prompt prompt = {.steps = steps,
                            .seconds = weight * alone + (1 - weight) * lengths->full * full,
                            .own = weight * alone + (1 - weight) * full_steps * full,
                            .step = lengths->full < 1 ? full : weight * alone / lengths->alone + (1 - weight) * full};
    prompt.packed = prompt.seconds;
    if (lengths->full > 1) /* their last chunks are filled up by others, or are not: half of either */
        prompt.packed = fmin((lengths->full * full + prompt.seconds) / 2, prompt.seconds);
    if (lengths->full * (1 + of->prompt_variation) <= SHARED) { /* those of the same step run beside it */
        const double together = fmin(chunked->positions * (1 + arrivals), chunk);
        prompt.own = mixed(chunked, sequences, together, (all - chunked->positions) / 2);
        prompt.seconds = steps * mixed(chunked, sequences, chunked->positions / steps, (all - chunked->positions) / 2);
    }
    prompt.extra = fmax(prompt.seconds - steps * step_of(chunked, sequences), 0);
    return prompt;
}

/* ---- closed loop -------------------------------------------------------------------------------------------------- */

struct closed {
    double tpot, wait, own, step, prompt_seconds; /* wait, own: of TTFT, in seconds */
};

/* How far N is above the steps of a request, with so many prompts of others in a step. */
static double spare_steps(const struct sp_generation *of, const struct lengths *lengths, double arrivals)
{
    return (of->concurrency - 1) / arrivals - (of->output - 1) - own_steps(lengths, steps_of(lengths, arrivals)) -
           waiting_steps(lengths, of->prompt_variation, arrivals);
}

static struct closed closed_loop(const struct sp_generation *of, const struct sp_chunked *chunked)
{
    const struct lengths lengths = lengths_of(of, chunked);
    const double others = of->concurrency - 1;
    double low = 0, high = others > 0 ? 1 / lengths.full : 0;
    for (int i = 0; i < HALVINGS && others > 0; i++) {
        const double middle = (low + high) / 2;
        if (spare_steps(of, &lengths, middle) > 0)
            low = middle;
        else
            high = middle;
    }
    const double arrivals = low, beside = arrivals * (of->output - 1); /* h, o */
    const struct prompt mine = prompt_of(of, chunked, &lengths, beside, arrivals);
    const struct prompt of_others = prompt_of(of, chunked, &lengths, 1 + beside, arrivals);
    const double step = step_of(chunked, 1 + beside);
    return (struct closed){
        .tpot = of->output > 1 ? step + arrivals * of_others.extra : 0,
        .wait = others > 0 ? waiting_steps(&lengths, of->prompt_variation, arrivals) * mine.step : 0,
        .own = mine.own,
        .step = step,
        .prompt_seconds = mine.seconds,
    };
}

/* Seconds of a request on the devices. */
static double whole(const struct sp_generation *of, const struct closed *at)
{
    return at->wait + at->own + (of->output - 1) * at->tpot;
}

static double lag_of(const struct sp_chunked *chunked)
{
    return sp_chunk_lag_seconds(chunked->times, fmin(chunked->positions, chunked->times->chunk));
}

/* ---- figures ------------------------------------------------------------------------------------------------------ */

static void take(const struct sp_generation *of, double ttft, const struct closed *at,
                 struct sp_generation_figures *ret_figures)
{
    const double request = ttft + (of->output - 1) * at->tpot;
    const double served = of->rate > 0 ? of->rate : of->concurrency / request;
    *ret_figures = (struct sp_generation_figures){.ttft_seconds = ttft,
                                                  .tpot_seconds = at->tpot,
                                                  .request_seconds = request,
                                                  .wait_seconds = at->wait,
                                                  .requests_per_second = served,
                                                  .in_flight = of->rate > 0 ? of->rate * request : of->concurrency,
                                                  .prompt_share = served * at->prompt_seconds};
}

/* W. `decodes` is the share of the time of steps without a chunk, times one of them. */
static double wait_of(const struct sp_generation *of, const struct lengths *lengths, const struct prompt *prompt,
                      double share, double decodes)
{
    const double mixed_step = prompt->seconds / prompt->steps;
    const double busy = of->rate * prompt->packed;
    if (lengths->full * (1 + of->prompt_variation) > SHARED)
        return (busy * prompt->packed * (1 + of->prompt_variation) + decodes) / (2 * (1 - busy));
    return (share * mixed_step + decodes) / 2 +
           waiting_steps(lengths, of->prompt_variation, of->rate * mixed_step) * prompt->step;
}

static struct closed open_loop(const struct sp_generation *of, const struct sp_chunked *chunked)
{
    const struct lengths lengths = lengths_of(of, chunked);
    const double step = step_of(chunked, of->concurrency), steps = of->output - 1;
    struct prompt prompt = {0};
    double arrivals = of->rate * step, tpot = step;
    for (int i = 0; i < ITERATIONS; i++) {
        prompt = prompt_of(of, chunked, &lengths, of->concurrency, arrivals);
        const double left = fmax(1 - of->rate * prompt.extra, NEGLIGIBLE);
        tpot = step / left;
        arrivals = (arrivals + of->rate * tpot) / 2;
    }
    const double share = of->rate * prompt.seconds;
    if (!(share < 1))
        return (struct closed){.tpot = INFINITY, .wait = INFINITY, .prompt_seconds = prompt.seconds};
    const double decodes = steps > 0 ? (1 - share) * -expm1(-of->rate * steps * tpot) : 0;
    return (struct closed){
        .tpot = steps > 0 ? tpot : 0,
        .wait = wait_of(of, &lengths, &prompt, share, decodes * step),
        .own = prompt.own,
        .step = step,
        .prompt_seconds = prompt.seconds,
    };
}

void sp_chunked_figures(const struct sp_generation *of, const struct sp_chunked *chunked,
                        struct sp_generation_figures *ret_figures)
{
    const struct closed at = of->rate > 0 ? open_loop(of, chunked) : closed_loop(of, chunked);
    const double burst = of->rounds > 0 ? (of->concurrency - 1) * at.prompt_seconds / (2 * of->rounds) : 0;
    take(of, of->request_seconds + lag_of(chunked) + at.wait + at.own + burst, &at, ret_figures);
}

/* ---- a number of sequences that goes up and down -------------------------------------------------------------------- */

static struct closed closed_of(const struct sp_generation *of, const struct sp_chunked *chunked, uint32_t sequences)
{
    struct sp_generation closed = *of;
    closed.rate = 0;
    closed.concurrency = sequences;
    return closed_loop(&closed, chunked);
}

struct chunking {
    const struct sp_generation *of;
    const struct sp_chunked *chunked;
};

static struct sp_in_flight flow_of(const void *context, uint32_t sequences)
{
    const struct chunking *chunking = context;
    const struct closed at = closed_of(chunking->of, chunking->chunked, sequences);
    return (struct sp_in_flight){sequences / whole(chunking->of, &at), at.step};
}

void sp_chunked_open_loop_figures(const struct sp_generation *of, const struct sp_chunked *chunked, uint32_t places,
                                  struct sp_generation_figures *ret_figures)
{
    const struct closed full = closed_of(of, chunked, places);
    const double most = places / whole(of, &full), steps = of->output - 1;
    if (!(of->rate < most)) {
        *ret_figures = (struct sp_generation_figures){
            INFINITY, INFINITY, INFINITY, INFINITY, most, INFINITY, fmin(of->rate * full.prompt_seconds, 1)};
        return;
    }
    const struct chunking chunking = {of, chunked};
    const struct sp_in_flight_sums sums = sp_birth_death_sums(of->rate, places, flow_of, &chunking);
    const struct lengths lengths = lengths_of(of, chunked);
    const double some = sums.all - sums.none, seconds = sums.requests / sums.all / of->rate;
    const double step = some > 0 ? sums.steps / some : 0, place = sums.beyond / sums.all / of->rate;
    struct closed at = {.step = step};
    struct prompt prompt = {0};
    for (int i = 0; i < ITERATIONS; i++) {
        const double beside = of->rate * steps * at.tpot;
        prompt = prompt_of(of, chunked, &lengths, beside, of->rate * fmax(at.tpot, step));
        const double share = fmin(of->rate * prompt.seconds, 1 - NEGLIGIBLE);
        const double decodes = steps > 0 ? fmax(1 - share - sums.none / sums.all, 0) : 0;
        const double wait = wait_of(of, &lengths, &prompt, share, decodes * step) + place;
        const double tpot = steps > 0 ? fmax(seconds - prompt.own - wait, 0) / steps : 0;
        at = (struct closed){(at.tpot + tpot) / 2, wait, prompt.own, step, prompt.seconds};
    }
    if (steps > 0 && prompt.seconds > 0) {
        /* Prompts behind it are there at its first token; at the end of a step, which is short without one, fewer are. */
        const double left = 1 - fmin(prompt.steps * at.tpot / prompt.seconds, 1);
        at.tpot += of->rate * (at.wait + at.own) * left * prompt.extra / steps * at.tpot / step;
    }
    take(of, of->request_seconds + lag_of(chunked) + at.wait + at.own, &at, ret_figures);
}
