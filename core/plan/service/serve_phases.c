/* Phases of any model on some copies. */
#include <math.h>
#include <string.h>

#include "base/sorted.h"
#include "plan/service/cuts.h"
#include "plan/service/internal.h"
#include "service/phases.h"

/* One end of the error bars of the phases, or their middle. */
enum side { SIDE_VALUE, SIDE_LOW, SIDE_HIGH, SIDES };

static double at_side(const struct sp_error_bar *bar, enum side side)
{
    return side == SIDE_VALUE ? bar->value : side == SIDE_LOW ? bar->low : bar->high;
}

static double runs_of(const struct sp_traffic_phase *phase)
{
    return phase->share * phase->per_request / phase->requests;
}

/* The longest that a request may take: what all need, and the one of the others that takes longest. */
static double request_seconds(const struct sp_traffic *traffic, const struct sp_phase_figures *const *phases,
                              enum side side)
{
    double always = 0, longest = 0;
    for (uint32_t i = 0; i < traffic->phase_count; i++) {
        const double seconds = traffic->phases[i].per_request * at_side(&phases[i]->latency_seconds, side);
        if (traffic->phases[i].share < 1)
            longest = fmax(longest, seconds);
        else
            always += seconds;
    }
    return always + longest;
}

/* ---- a service with some number of micro-batches of each phase ---------------------------------------------------- */

static void serve(const struct sp_trial *trial, const struct sp_phase_cut *const *cuts,
                  struct sp_trial_figures *ret_figures)
{
    const struct sp_traffic *traffic = trial->serving->traffic;
    struct sp_service *service = &ret_figures->service;
    const struct sp_phase_figures *phases[SP_MAX_PHASES];
    struct sp_phase_load loads[SP_MAX_PHASES];
    double capacity[SIDES], request[SIDES];
    *ret_figures = (struct sp_trial_figures){.fits = true};
    service->copies = trial->copies;
    service->price_per_hour = trial->price_per_hour;
    service->price_is_listed = trial->price_is_listed;
    for (uint32_t i = 0; i < traffic->phase_count; i++) {
        phases[i] = cuts[i]->figures;
        ret_figures->fits = ret_figures->fits && phases[i]->excess_bytes <= 0;
        service->memory_bytes = fmax(service->memory_bytes, phases[i]->memory_bytes);
        service->cache_bytes = fmax(service->cache_bytes, trial->copies * phases[i]->state_bytes);
    }
    for (int side = 0; side < SIDES; side++) {
        for (uint32_t i = 0; i < traffic->phase_count; i++)
            loads[i] = (struct sp_phase_load){at_side(&phases[i]->interval_seconds, (enum side)side),
                                              runs_of(&traffic->phases[i])};
        capacity[side] = trial->copies / sp_phases_busy_seconds(traffic->phase_count, loads);
        request[side] = request_seconds(traffic, phases, (enum side)side);
        if (traffic->rate_per_second > 0)
            request[side] +=
                sp_phases_wait_seconds(traffic->phase_count, loads, traffic->rate_per_second / trial->copies);
    }
    service->capacity_per_second = (struct sp_error_bar){capacity[0], capacity[2], capacity[1]};
    service->request_seconds = (struct sp_error_bar){request[0], request[1], request[2]};
    service->requests_per_second = service->capacity_per_second;
    service->has_rate = traffic->rate_per_second > 0;
    service->rate_per_second = traffic->rate_per_second;
    if (service->has_rate)
        service->requests_per_second = (struct sp_error_bar){fmin(capacity[0], traffic->rate_per_second),
                                                             fmin(capacity[2], traffic->rate_per_second),
                                                             fmin(capacity[1], traffic->rate_per_second)};
    ret_figures->limit_ratio = sp_service_judge(traffic, service);
}

/* ---- the best numbers --------------------------------------------------------------------------------------------- */

/* Below 0: `a` is the answer before `b`. */
static int compare(const struct sp_serving *serving, const struct sp_trial_figures *a, const struct sp_trial_figures *b)
{
    const bool a_keeps = a->limit_ratio <= 1, b_keeps = b->limit_ratio <= 1;
    if (a->fits != b->fits)
        return a->fits ? -1 : 1;
    if (a_keeps != b_keeps)
        return a_keeps ? -1 : 1;
    if (!a_keeps)
        return SP_ORDER(a->limit_ratio, b->limit_ratio);
    const double of_a = sp_service_value(serving, &a->service), of_b = sp_service_value(serving, &b->service);
    if (of_a != of_b) {
        if (fmax(of_a, of_b) <= fmin(of_a, of_b) * (1 + serving->tolerance))
            return 0;
        return SP_ORDER(of_a, of_b);
    }
    return SP_ORDER(a->service.request_seconds.value, b->service.request_seconds.value);
}

/* Of each phase the number of micro-batches with which the service is best; the fewest within the tolerance. */
static enum sp_status choose_cuts(const struct sp_trial *trial, const struct sp_phase_cut **ret_cuts,
                                  struct sp_trial_figures *ret_figures, struct sp_error *err)
{
    const struct sp_serving *serving = trial->serving;
    const struct sp_traffic *traffic = serving->traffic;
    const bool is_shorter_better = serving->objective == SP_OBJECTIVE_LATENCY || traffic->rate_per_second > 0 ||
                                   traffic->limits.request_seconds > 0;
    struct sp_phase_cuts *phases = SP_NEW_ARRAY(serving->arena, traffic->phase_count, struct sp_phase_cuts);
    const struct sp_phase_cut *picks[SP_MAX_PHASES];
    const double *weights;
    uint32_t weight_count;
    if (phases == NULL) {
        (void)sp_fail_memory(err);
        return SP_ERR_MEMORY;
    }
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < traffic->phase_count; i++) {
        status = sp_phase_cuts_find(trial->copy, &serving->phases[i], serving->options.micro_batches, is_shorter_better,
                                    &phases[i], err);
        phases[i].runs = runs_of(&traffic->phases[i]);
        phases[i].waits = traffic->phases[i].per_request;
    }
    if (status == SP_OK)
        status = sp_phase_cuts_weights(serving->arena, traffic->phase_count, phases, &weight_count, &weights, err);
    if (status != SP_OK)
        return status;
    sp_phase_cuts_pick(traffic->phase_count, phases, 0, ret_cuts);
    serve(trial, ret_cuts, ret_figures);
    for (uint32_t w = 0; w < weight_count; w++) {
        struct sp_trial_figures now;
        sp_phase_cuts_pick(traffic->phase_count, phases, weights[w], picks);
        serve(trial, picks, &now);
        if (compare(serving, &now, ret_figures) >= 0)
            continue;
        *ret_figures = now;
        memcpy(ret_cuts, picks, traffic->phase_count * sizeof *picks);
    }
    return SP_OK;
}

enum sp_status sp_serve_phases(const struct sp_trial *trial, struct sp_trial_figures *ret_figures, struct sp_error *err)
{
    const struct sp_phase_cut *cuts[SP_MAX_PHASES];
    return choose_cuts(trial, cuts, ret_figures, err);
}

enum sp_status sp_serve_phases_phases(const struct sp_trial *trial, struct sp_service *service, struct sp_error *err)
{
    const struct sp_serving *serving = trial->serving;
    const struct sp_traffic *traffic = serving->traffic;
    const struct sp_phase_cut *cuts[SP_MAX_PHASES];
    struct sp_trial_figures chosen;
    struct sp_service_phase *phases = SP_NEW_ARRAY(serving->arena, traffic->phase_count, struct sp_service_phase);
    double busy = 0;
    if (phases == NULL)
        return sp_fail_memory(err);
    enum sp_status status = choose_cuts(trial, cuts, &chosen, err);
    if (status != SP_OK)
        return status;
    for (uint32_t i = 0; i < traffic->phase_count; i++)
        busy += runs_of(&traffic->phases[i]) * cuts[i]->figures->interval_seconds.value;
    for (uint32_t i = 0; i < traffic->phase_count; i++) {
        const double runs = runs_of(&traffic->phases[i]);
        const struct sp_phase_figures *figures = cuts[i]->figures;
        phases[i] = (struct sp_service_phase){.name = traffic->phases[i].name,
                                              .sizes = serving->phases[i],
                                              .micro_batches = cuts[i]->micro_batches,
                                              .runs = runs,
                                              .latency_seconds = figures->latency_seconds,
                                              .interval_seconds = figures->interval_seconds,
                                              .memory_bytes = figures->memory_bytes,
                                              .moved_bytes = figures->moved_bytes,
                                              .time_share = runs * figures->interval_seconds.value / busy,
                                              .bottleneck = figures->bottleneck};
    }
    service->phase_count = traffic->phase_count;
    service->phases = phases;
    return SP_OK;
}
