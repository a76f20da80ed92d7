/* Phases of any model on some copies. */
#include <math.h>
#include <string.h>

#include "base/sorted.h"
#include "plan/service/batches.h"
#include "service/phases.h"

/* One end of the error bars of the phases, or their middle. */
enum side { SIDE_VALUE, SIDE_LOW, SIDE_HIGH, SIDES };

static double at_side(const struct sp_error_bar *bar, enum side side)
{
    return side == SIDE_VALUE ? bar->value : side == SIDE_LOW ? bar->low : bar->high;
}

/* The longest that a request may take: what all need, and the one of the others that takes longest. */
static double request_seconds(const struct sp_traffic *traffic, const struct sp_phase_choice *const *picks,
                              enum side side)
{
    double always = 0, longest = 0;
    for (uint32_t i = 0; i < traffic->phase_count; i++) {
        const double seconds = traffic->phases[i].per_request *
                               (picks[i]->fill_seconds + at_side(&picks[i]->figures->latency_seconds, side));
        if (traffic->phases[i].share < 1)
            longest = fmax(longest, seconds);
        else
            always += seconds;
    }
    return always + longest;
}

/* ---- a service with one choice for each phase --------------------------------------------------------------------- */

static void serve(const struct sp_trial *trial, const struct sp_phase_choice *const *picks,
                  struct sp_trial_figures *ret_figures)
{
    const struct sp_traffic *traffic = trial->serving->traffic;
    struct sp_service *service = &ret_figures->service;
    struct sp_phase_load loads[SP_MAX_PHASES];
    double capacity[SIDES], request[SIDES];
    *ret_figures = (struct sp_trial_figures){.fits = true};
    service->copies = trial->copies;
    service->price_per_hour = trial->price_per_hour;
    service->price_is_listed = trial->price_is_listed;
    for (uint32_t i = 0; i < traffic->phase_count; i++) {
        const struct sp_phase_figures *figures = picks[i]->figures;
        ret_figures->batches[i] = picks[i]->batch;
        ret_figures->fits = ret_figures->fits && figures->excess_bytes <= 0;
        service->memory_bytes = fmax(service->memory_bytes, figures->memory_bytes);
        service->cache_bytes = fmax(service->cache_bytes, trial->copies * figures->state_bytes);
    }
    for (int side = 0; side < SIDES; side++) {
        for (uint32_t i = 0; i < traffic->phase_count; i++)
            loads[i] =
                (struct sp_phase_load){at_side(&picks[i]->figures->interval_seconds, (enum side)side), picks[i]->runs};
        capacity[side] = trial->copies / sp_phases_busy_seconds(traffic->phase_count, loads);
        request[side] = request_seconds(traffic, picks, (enum side)side);
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

/* ---- the best choices --------------------------------------------------------------------------------------------- */

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

/* The answer so far. */
struct best {
    const struct sp_trial *trial;
    const struct sp_phase_choice **picks;
    struct sp_trial_figures *figures;
};

static void consider(const struct best *best, const struct sp_phase_choice *const *picks)
{
    struct sp_trial_figures now;
    serve(best->trial, picks, &now);
    if (compare(best->trial->serving, &now, best->figures) >= 0)
        return;
    *best->figures = now;
    memcpy(best->picks, picks, best->trial->serving->traffic->phase_count * sizeof *picks);
}

#define MOST_COMBINATIONS (1 << 14)

static bool are_few(uint32_t count, const struct sp_phase_choices *phases)
{
    uint64_t combinations = 1;
    for (uint32_t i = 0; i < count && combinations <= MOST_COMBINATIONS; i++)
        combinations *= phases[i].count;
    return combinations <= MOST_COMBINATIONS;
}

static void look_at_all(const struct best *best, uint32_t count, const struct sp_phase_choices *phases)
{
    const struct sp_phase_choice *picks[SP_MAX_PHASES];
    uint32_t at[SP_MAX_PHASES] = {0};
    for (uint32_t i = 0; i < count; i++)
        picks[i] = &phases[i].items[0];
    for (uint32_t i = 0; i < count;) {
        consider(best, picks);
        for (i = 0; i < count; i++) { /* the next one: the first phase goes round fastest */
            at[i] = at[i] + 1 < phases[i].count ? at[i] + 1 : 0;
            picks[i] = &phases[i].items[at[i]];
            if (at[i] > 0)
                break;
        }
    }
}

/* Those of the hull, and then each phase for itself. */
static enum sp_status look_at_hull(const struct best *best, uint32_t count, const struct sp_phase_choices *phases,
                                   struct sp_error *err)
{
    const struct sp_phase_choice *picks[SP_MAX_PHASES];
    const double *weights;
    uint32_t weight_count;
    enum sp_status status =
        sp_phase_choices_weights(best->trial->serving->arena, count, phases, &weight_count, &weights, err);
    if (status != SP_OK)
        return status;
    for (uint32_t w = 0; w < weight_count; w++) {
        sp_phase_choices_pick(count, phases, weights[w], picks);
        consider(best, picks);
    }
    for (uint32_t i = 0; i < count; i++) {
        memcpy(picks, best->picks, count * sizeof *picks);
        for (uint32_t k = 0; k < phases[i].count; k++) {
            picks[i] = &phases[i].items[k];
            consider(best, picks);
        }
    }
    return SP_OK;
}

/* Of what was looked at. */
static enum sp_status choose_among(const struct best *best, const struct sp_phase_batches *batches,
                                   struct sp_error *err)
{
    const struct sp_serving *serving = best->trial->serving;
    const uint32_t count = serving->traffic->phase_count;
    struct sp_phase_choices *phases = SP_NEW_ARRAY(serving->arena, count, struct sp_phase_choices);
    enum sp_status status = phases != NULL ? SP_OK : sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && i < count; i++)
        status = sp_phase_choices_useful(serving->arena, &batches[i].choices, &phases[i], err);
    if (status != SP_OK)
        return status;
    sp_phase_choices_pick(count, phases, 0, best->picks);
    serve(best->trial, best->picks, best->figures);
    if (!are_few(count, phases))
        return look_at_hull(best, count, phases, err);
    look_at_all(best, count, phases);
    return SP_OK;
}

/* Of each phase the batch, where it is open, and the number of micro-batches with which the service is best; the smallest
   within the tolerance. */
static enum sp_status choose(const struct sp_trial *trial, const struct sp_phase_choice **ret_picks,
                             struct sp_trial_figures *ret_figures, struct sp_error *err)
{
    const struct sp_serving *serving = trial->serving;
    const uint32_t count = serving->traffic->phase_count;
    const struct best best = {trial, ret_picks, ret_figures};
    struct sp_phase_batches *batches = SP_NEW_ARRAY(serving->arena, count, struct sp_phase_batches);
    enum sp_status status = SP_OK;
    bool has_grown = true;
    if (batches == NULL) {
        (void)sp_fail_memory(err);
        return SP_ERR_MEMORY;
    }
    for (uint32_t i = 0; status == SP_OK && i < count; i++)
        status = sp_phase_batches_begin(trial, i, &batches[i], err);
    while (status == SP_OK && has_grown) {
        has_grown = false;
        status = choose_among(&best, batches, err);
        for (uint32_t i = 0; status == SP_OK && i < count; i++)
            status = sp_phase_batches_near(trial, i, ret_picks[i]->batch, &batches[i], &has_grown, err);
    }
    return status;
}

enum sp_status sp_serve_phases(const struct sp_trial *trial, struct sp_trial_figures *ret_figures, struct sp_error *err)
{
    const struct sp_phase_choice *picks[SP_MAX_PHASES];
    return choose(trial, picks, ret_figures, err);
}

enum sp_status sp_serve_phases_phases(const struct sp_trial *trial, struct sp_service *service, struct sp_error *err)
{
    const struct sp_serving *serving = trial->serving;
    const struct sp_traffic *traffic = serving->traffic;
    const struct sp_phase_choice *picks[SP_MAX_PHASES];
    struct sp_trial_figures chosen;
    struct sp_service_phase *phases = SP_NEW_ARRAY(serving->arena, traffic->phase_count, struct sp_service_phase);
    double busy = 0;
    if (phases == NULL)
        return sp_fail_memory(err);
    enum sp_status status = choose(trial, picks, &chosen, err);
    for (uint32_t i = 0; status == SP_OK && i < traffic->phase_count; i++)
        busy += picks[i]->runs * picks[i]->figures->interval_seconds.value;
    for (uint32_t i = 0; status == SP_OK && i < traffic->phase_count; i++) {
        const struct sp_phase_choice *pick = picks[i];
        const struct sp_phase_figures *figures = pick->figures;
        phases[i] = (struct sp_service_phase){.name = traffic->phases[i].name,
                                              .batch = pick->batch,
                                              .fill_seconds = pick->fill_seconds,
                                              .micro_batches = pick->micro_batches,
                                              .runs = pick->runs,
                                              .latency_seconds = figures->latency_seconds,
                                              .interval_seconds = figures->interval_seconds,
                                              .memory_bytes = figures->memory_bytes,
                                              .moved_bytes = figures->moved_bytes,
                                              .time_share = pick->runs * figures->interval_seconds.value / busy,
                                              .bottleneck = figures->bottleneck};
        status = sp_phase_sizes(serving, i, pick->batch, &phases[i].sizes, err);
    }
    service->phase_count = traffic->phase_count;
    service->phases = phases;
    return status;
}
