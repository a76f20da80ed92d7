/* A language model on some copies: how many sequences are in flight, and what follows. */
#include <math.h>

#include "plan/service/internal.h"

#define EXACT_SHARE 128 /* a concurrency above it is found within a part of so many of it */

static struct sp_error_bar times(double factor, struct sp_error_bar bar)
{
    return (struct sp_error_bar){factor * bar.value, factor * bar.low, factor * bar.high};
}

static void add_seconds(struct sp_error_bar *bar, double seconds)
{
    bar->value += seconds;
    bar->low += seconds;
    bar->high += seconds;
}

/* With so many sequences in a step of each copy, and a request behind each that ends; or at the rate of the request. */
static enum sp_status evaluate(const struct sp_trial *trial, int64_t of_copy, bool at_rate,
                               struct sp_trial_figures *ret, struct sp_error *err)
{
    const struct sp_serving *serving = trial->serving;
    const double rate = at_rate ? serving->traffic->rate_per_second / trial->copies : 0;
    struct sp_service *service = &ret->service;
    *ret = (struct sp_trial_figures){0};
    enum sp_status status = sp_llm_evaluate(&serving->llm, trial->copy, of_copy, rate, &ret->llm, err);
    if (status != SP_OK)
        return status;
    const struct sp_llm_figures *llm = &ret->llm;
    *service = (struct sp_service){.is_llm = true,
                                   .copies = trial->copies,
                                   .price_per_hour = trial->price_per_hour,
                                   .price_is_listed = trial->price_is_listed,
                                   .concurrency = of_copy * trial->copies,
                                   .micro_batches = llm->micro_batches,
                                   .chunk = llm->chunk,
                                   .ttft_seconds = llm->bars.ttft_seconds,
                                   .tpot_seconds = llm->bars.tpot_seconds,
                                   .request_seconds = llm->bars.request_seconds,
                                   .requests_per_second = times(trial->copies, llm->bars.requests_per_second),
                                   .cache_bytes = trial->copies * llm->cache_bytes,
                                   .memory_bytes = llm->memory_bytes};
    service->capacity_per_second = service->requests_per_second;
    service->tokens_per_second = times(serving->traffic->output.mean, service->requests_per_second);
    ret->fits = llm->excess_bytes <= 0;
    ret->limit_ratio = sp_service_judge(serving->traffic, service);
    return SP_OK;
}

/* ---- searching a concurrency --------------------------------------------------------------------------------------- */

/* What a concurrency is to keep; of a rate: as many sequences as it has in flight. */
enum bound { BOUND_MEMORY, BOUND_LIMITS, BOUND_RATE };

/* Above 0: so many sequences are too many; of BOUND_RATE: enough. */
static double margin_of(const struct sp_trial_figures *at, enum bound bound)
{
    const double capacity = at->llm.decode->stage_capacity[0];
    const double memory = at->llm.excess_bytes / capacity;
    if (bound == BOUND_MEMORY)
        return memory;
    if (bound == BOUND_LIMITS)
        return fmax(memory, at->limit_ratio - 1);
    return (double)at->llm.concurrency / at->llm.bars.in_flight - 1;
}

/* The largest number of sequences on a copy whose margin is not above 0, up to `most`; 0: none. `best` ends it where more
   sequences bring no more requests. */
static enum sp_status find_largest(const struct sp_trial *trial, enum bound bound, int64_t most, bool best,
                                   int64_t *ret_count, struct sp_error *err)
{
    struct sp_trial_figures at;
    int64_t low = 0, high = 1;
    double low_margin = 0, high_margin = 0, rate = 0;
    enum sp_status status = SP_OK;
    while (status == SP_OK && high <= most) { /* the first that is too many, doubling */
        status = evaluate(trial, high, bound == BOUND_RATE, &at, err);
        if (status != SP_OK)
            return status;
        high_margin = margin_of(&at, bound);
        if (high_margin > 0)
            break;
        const bool gains = at.service.requests_per_second.value > rate * (1 + trial->serving->tolerance / 2);
        rate = at.service.requests_per_second.value;
        low = high;
        low_margin = high_margin;
        if ((best && !gains) || high == most)
            break;
        high = high * 2 < most ? high * 2 : most;
    }
    for (bool halves = false; low > 0 && high_margin > 0 && high - low > 1 + low / EXACT_SHARE; halves = !halves) {
        const double share = halves ? 0.5 : low_margin / (low_margin - high_margin);
        int64_t middle = low + (int64_t)(share * (double)(high - low));
        middle = middle <= low ? low + 1 : middle >= high ? high - 1 : middle;
        status = evaluate(trial, middle, bound == BOUND_RATE, &at, err);
        if (status != SP_OK)
            return status;
        const double margin = margin_of(&at, bound);
        if (margin > 0) {
            high = middle;
            high_margin = margin;
        } else {
            low = middle;
            low_margin = margin;
        }
    }
    *ret_count = low;
    return SP_OK;
}

/* Fewer sequences that bring as many requests within the tolerance. */
static enum sp_status find_fewer(const struct sp_trial *trial, int64_t count, int64_t *ret_count, struct sp_error *err)
{
    struct sp_trial_figures at;
    enum sp_status status = evaluate(trial, count, false, &at, err);
    const double least = at.service.requests_per_second.value * (1 - trial->serving->tolerance);
    while (status == SP_OK && count > 1) {
        status = evaluate(trial, count / 2, false, &at, err);
        if (status == SP_OK && at.service.requests_per_second.value < least)
            break;
        count /= 2;
    }
    *ret_count = count;
    return status;
}

/* ---- the concurrency of a request ---------------------------------------------------------------------------------- */

static int64_t most_of_copy(const struct sp_trial *trial)
{
    const struct sp_traffic *traffic = trial->serving->traffic;
    const int64_t most = traffic->concurrency > 0 ? traffic->concurrency : SP_MAX_CONCURRENCY;
    return (most + trial->copies - 1) / trial->copies;
}

/* The most that may be within memory and limits, and the least of them that serves the rate. */
static enum sp_status find_for_rate(const struct sp_trial *trial, int64_t *ret_most, int64_t *ret_count,
                                    struct sp_error *err)
{
    int64_t most, below = 0;
    enum sp_status status = find_largest(trial, BOUND_LIMITS, most_of_copy(trial), true, &most, err);
    if (status == SP_OK && most > 0)
        status = find_largest(trial, BOUND_RATE, most, false, &below, err);
    *ret_most = most > 0 ? most : 1;
    *ret_count = below < *ret_most ? below + 1 : *ret_most;
    return status;
}

/* Requests come at a rate of their own; they may wait for a place among the most sequences. */
static enum sp_status take_rate(const struct sp_trial *trial, int64_t most, struct sp_trial_figures *figures,
                                struct sp_error *err)
{
    const struct sp_traffic *traffic = trial->serving->traffic;
    struct sp_service *service = &figures->service;
    struct sp_trial_figures full;
    enum sp_status status = evaluate(trial, most, false, &full, err);
    const double rate = traffic->rate_per_second;
    if (status != SP_OK)
        return status;
    service->capacity_per_second = full.service.requests_per_second;
    const double wait =
        sp_generation_place_seconds(rate / trial->copies, service->capacity_per_second.value / trial->copies,
                                    figures->llm.bars.in_flight, (double)most);
    if (isfinite(wait)) {
        add_seconds(&service->ttft_seconds, wait);
        add_seconds(&service->request_seconds, wait);
    }
    service->has_rate = true;
    service->rate_per_second = rate;
    service->requests_per_second = (struct sp_error_bar){fmin(rate, service->capacity_per_second.value),
                                                         fmin(rate, service->capacity_per_second.low),
                                                         fmin(rate, service->capacity_per_second.high)};
    service->tokens_per_second = times(traffic->output.mean, service->requests_per_second);
    figures->limit_ratio = sp_service_judge(traffic, service);
    return SP_OK;
}

enum sp_status sp_serve_llm(const struct sp_trial *trial, struct sp_trial_figures *ret_figures, struct sp_error *err)
{
    const struct sp_traffic *traffic = trial->serving->traffic;
    int64_t count = most_of_copy(trial), most = count;
    enum sp_status status = SP_OK;
    if (traffic->rate_per_second > 0)
        status = find_for_rate(trial, &most, &count, err);
    else if (traffic->best_concurrency)
        status = find_largest(trial, BOUND_LIMITS, count, true, &count, err);
    if (status == SP_OK && traffic->rate_per_second <= 0 && traffic->best_concurrency && count > 1)
        status = find_fewer(trial, count, &count, err);
    if (status == SP_OK)
        status = evaluate(trial, count > 0 ? count : 1, traffic->rate_per_second > 0, ret_figures, err);
    if (status == SP_OK && traffic->rate_per_second > 0)
        status = take_rate(trial, most, ret_figures, err);
    return status;
}

enum sp_status sp_serve_llm_points(const struct sp_trial *trial, const struct sp_trial_figures *figures,
                                   const char *description, struct sp_error *err)
{
    const struct sp_service_point point = {.copies = trial->copies,
                                           .devices = sp_plan_devices_used(sp_copy_plan_of(trial->copy)),
                                           .chunk = trial->serving->llm.chunk,
                                           .description = description};
    const int64_t most = figures->llm.concurrency;
    enum sp_status status = SP_OK;
    for (int64_t count = 1; status == SP_OK && count <= most;
         count = count < most && 2 * count > most ? most : 2 * count) {
        struct sp_trial_figures at;
        status = evaluate(trial, count, false, &at, err);
        if (status == SP_OK && at.fits && at.limit_ratio <= 1)
            status = sp_service_add_point(trial->serving, &at.service, &point, err);
    }
    return status;
}

enum sp_status sp_serve_llm_limits(const struct sp_trial *trial, struct sp_service *service, struct sp_error *err)
{
    const int64_t most = SP_MAX_CONCURRENCY / trial->copies;
    int64_t memory = 0, limits = 0;
    enum sp_status status = find_largest(trial, BOUND_MEMORY, most, false, &memory, err);
    if (status == SP_OK && memory > 0)
        status = find_largest(trial, BOUND_LIMITS, memory, false, &limits, err);
    service->memory_concurrency = memory * trial->copies;
    service->limit_concurrency = limits * trial->copies;
    return status;
}

/* ---- phases -------------------------------------------------------------------------------------------------------- */

static struct sp_service_phase phase_of(const char *name, const struct sp_phase_figures *figures,
                                        const struct sp_sizes *sizes)
{
    return (struct sp_service_phase){.name = name,
                                     .sizes = *sizes,
                                     .micro_batches = 1,
                                     .latency_seconds = figures->latency_seconds,
                                     .interval_seconds = figures->interval_seconds,
                                     .memory_bytes = figures->memory_bytes,
                                     .moved_bytes = figures->moved_bytes,
                                     .bottleneck = figures->bottleneck};
}

enum sp_status sp_serve_llm_phases(const struct sp_trial *trial, const struct sp_trial_figures *figures,
                                   struct sp_service *service, struct sp_error *err)
{
    const struct sp_llm *llm = &trial->serving->llm;
    const struct sp_llm_figures *of = &figures->llm;
    const int64_t group = (of->concurrency + of->micro_batches - 1) / of->micro_batches;
    struct sp_service_phase *phases = SP_NEW_ARRAY(trial->serving->arena, 2, struct sp_service_phase);
    struct sp_sizes prefill, decode;
    if (phases == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_llm_prefill_sizes(llm, &prefill, err);
    if (status == SP_OK)
        status = sp_llm_decode_sizes(llm, group, &decode, err);
    if (status != SP_OK)
        return status;
    phases[0] = phase_of("prefill", of->prefill, &prefill);
    phases[1] = phase_of("decode", of->decode, &decode);
    phases[0].runs = of->chunk > 0 ? fmax(ceil((double)sp_llm_prompt_positions(llm) / (double)of->chunk), 1) : 1;
    phases[1].runs = (trial->serving->traffic->output.mean - 1) / (double)group;
    const double busy[] = {phases[0].runs * of->prefill->interval_seconds.value,
                           phases[1].runs * of->decode->interval_seconds.value};
    for (int i = 0; i < 2; i++)
        phases[i].time_share = busy[i] / (busy[0] + busy[1]);
    service->phase_count = 2;
    service->phases = phases;
    return SP_OK;
}
