/* Services whose prompts and decode steps have devices of their own. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/array.h"
#include "plan/service/internal.h"
#include "service/pools.h"

#define FIRST_SEQUENCES 16   /* at which copies for steps are planned */
#define HALVINGS        40   /* of a rate */
#define LEAST_RATE      1e-6 /* of the capacity: limits that are broken there are broken at any rate */
#define FULL_SHARE      0.02 /* below the capacity, where no limit is nearer */

/* Copies of one number of devices, for either pool. */
struct part {
    uint32_t devices;
    bool prompts_fit, steps_fit;
    const char *prompts_name, *steps_name; /* their descriptions */
    double price, prompts_memory, cache_bytes;
    bool price_is_listed;
    struct sp_error_bar prompt, prefill, step; /* p, t, and a step of places with mean caches */
    const struct sp_service_times *times;      /* of the copy for steps */
};

struct searching {
    struct sp_serving *serving;
    uint32_t count, capacity;
    struct part *parts;
    struct sp_pools_choice best;
};

enum { SIDES = 3 };

static double side_of(const struct sp_error_bar *bar, int side)
{
    return side == 0 ? bar->value : side == 1 ? bar->low : bar->high;
}

/* ---- copies ------------------------------------------------------------------------------------------------------- */

static enum sp_status plan_prompts(const struct searching *s, const struct sp_cluster *cluster, struct part *part,
                                   struct sp_error *err)
{
    struct sp_trial trial = {.serving = s->serving, .copies = 1, .planned = {.name = "prefill"}};
    const struct sp_phase_figures *figures;
    struct sp_sizes sizes;
    enum sp_status status = sp_llm_prefill_sizes(&s->serving->llm, &sizes, err);
    if (status == SP_OK)
        status = sp_copy_plan(&s->serving->question, cluster, &(struct sp_cut_sizes){sizes, 1}, &trial.copy, err);
    if (status == SP_OK)
        status = sp_copy_evaluate(trial.copy, &(struct sp_cut_sizes){sizes, 1}, &figures, err);
    if (status == SP_OK) {
        sp_trial_find_price(&trial);
        part->prompts_fit = figures->excess_bytes <= 0;
        part->prompts_name = sp_trial_description(&trial);
        part->price = trial.price_per_hour;
        part->price_is_listed = trial.price_is_listed;
        part->prompts_memory = figures->memory_bytes;
        part->cache_bytes = figures->state_bytes;
        part->prompt = figures->interval_seconds;
        part->prefill = figures->latency_seconds;
        if (part->prompts_name == NULL)
            status = sp_fail_memory(err);
    }
    sp_copy_destroy(trial.copy);
    return status;
}

/* The copy for steps; the caller's. `times` has the steps of as many sequences as memory allows. */
static enum sp_status plan_steps(const struct searching *s, const struct sp_cluster *cluster, int64_t sequences,
                                 struct sp_trial *trial, struct sp_service *ret_limits, struct sp_error *err)
{
    struct sp_trial_figures figures = {.llm = {.concurrency = 1}};
    struct sp_sizes sizes;
    *trial = (struct sp_trial){.serving = s->serving, .copies = 1, .planned = {.name = "decode", .index = 1}};
    *ret_limits = (struct sp_service){.is_llm = true};
    enum sp_status status = sp_llm_decode_sizes(&s->serving->llm, sequences, &sizes, err);
    if (status == SP_OK)
        status = sp_copy_plan(&s->serving->question, cluster, &(struct sp_cut_sizes){sizes, 1}, &trial->copy, err);
    if (status == SP_OK)
        status = sp_serve_llm_limits(trial, ret_limits, err);
    ret_limits->limit_concurrency = ret_limits->memory_concurrency;
    if (status == SP_OK && ret_limits->memory_concurrency > 0)
        status = sp_serve_llm_times(trial, &figures, ret_limits, err);
    return status;
}

static enum sp_status take_steps(const struct searching *s, const struct sp_cluster *cluster, struct part *part,
                                 struct sp_error *err)
{
    struct sp_trial trial;
    struct sp_service limits;
    struct sp_llm_step step;
    const struct sp_llm *llm = &s->serving->llm;
    enum sp_status status = plan_steps(s, cluster, FIRST_SEQUENCES, &trial, &limits, err);
    if (status == SP_OK && limits.times != NULL) {
        status = sp_llm_find_step(llm, trial.copy, limits.times->places, sp_llm_step_past(llm), &step, err);
        part->steps_fit = status == SP_OK;
        part->steps_name = sp_trial_description(&trial);
        part->step = step.seconds;
        part->times = limits.times;
    }
    sp_copy_destroy(trial.copy);
    return status;
}

/* Copies that do not fit are none. */
static enum sp_status add_part(struct searching *s, uint32_t devices, struct sp_error *err)
{
    struct sp_serving *serving = s->serving;
    const struct sp_cluster *cluster = sp_cluster_prefix(serving->arena, serving->cluster, devices);
    struct part part = {.devices = devices};
    struct sp_error why = {0};
    if (cluster == NULL || !SP_MAKE_ROOM(serving->arena, s->parts, s->count, s->capacity, 1))
        return sp_fail_memory(err);
    enum sp_status status = plan_prompts(s, cluster, &part, &why);
    if (status == SP_OK)
        status = take_steps(s, cluster, &part, &why);
    if (status == SP_ERR_NOFIT)
        return SP_OK;
    if (status != SP_OK && err != NULL)
        *err = why;
    if (status == SP_OK)
        s->parts[s->count++] = part;
    return status;
}

/* ---- figures ------------------------------------------------------------------------------------------------------ */

static double transfer_of(const struct searching *s, const struct part *prompts, const struct part *steps)
{
    const struct sp_cluster *cluster = s->serving->cluster;
    const uint32_t last = cluster->device_count - 1;
    const double wide = fmin(prompts->devices, steps->devices);
    return sp_cluster_transfer_seconds(cluster, 0, prompts->devices < last ? prompts->devices : last,
                                       prompts->cache_bytes / wide);
}

/* One end of the error bars. `rows` has room for those of the steps. */
static struct sp_pools pools_of(const struct searching *s, const struct sp_pools_choice *at, int side,
                                struct sp_step_times *scaled, struct sp_step_time *rows)
{
    const struct sp_llm *llm = &s->serving->llm;
    const struct part *prompts = &s->parts[at->prompts], *steps = &s->parts[at->steps];
    const double factor = side_of(&steps->step, side) / steps->step.value;
    *scaled = steps->times->of;
    for (uint32_t i = 0; side > 0 && i < scaled->step_count; i++) {
        rows[i] = steps->times->of.steps[i];
        rows[i].seconds *= factor;
        rows[i].seconds_per_position *= factor;
    }
    if (side > 0)
        scaled->steps = rows;
    return (struct sp_pools){.request_seconds = steps->times->request_seconds,
                             .output = llm->traffic->output.mean,
                             .prompt_variation = llm->traffic->input.variation,
                             .prompt_seconds = side_of(&prompts->prompt, side),
                             .prefill_seconds = side_of(&prompts->prefill, side),
                             .transfer_seconds = transfer_of(s, prompts, steps),
                             .prompt_copies = at->prompt_copies,
                             .step_copies = at->step_copies,
                             .steps = scaled,
                             .past = (double)sp_llm_step_past(llm),
                             .places = (uint32_t)steps->times->places};
}

static bool keeps(const struct sp_traffic *traffic, const struct sp_pools *pools, double rate)
{
    const struct sp_traffic_limits *limits = &traffic->limits;
    struct sp_pools_figures figures;
    sp_pools_figures(pools, rate, &figures);
    return (limits->ttft_seconds <= 0 || figures.all.ttft_seconds <= limits->ttft_seconds) &&
           (limits->tpot_seconds <= 0 || figures.all.tpot_seconds <= limits->tpot_seconds) &&
           (limits->request_seconds <= 0 || figures.all.request_seconds <= limits->request_seconds);
}

/* The most requests a second within the limits; where none keeps them, next to none. */
static double most_within(const struct sp_traffic *traffic, const struct sp_pools *pools)
{
    const double capacity = sp_pools_capacity(pools);
    double low = LEAST_RATE * capacity, high = capacity * (1 - FULL_SHARE);
    if (keeps(traffic, pools, high))
        return high;
    for (int i = 0; i < HALVINGS && high - low > 1e-6 * high; i++) {
        const double middle = (low + high) / 2;
        if (keeps(traffic, pools, middle))
            low = middle;
        else
            high = middle;
    }
    return low;
}

static struct sp_error_bar bar_of(double value, double low, double high)
{
    return (struct sp_error_bar){value, low, high};
}

/* What users see of these pools, with error bars where `sides` is 3. */
static struct sp_service serve(const struct searching *s, const struct sp_pools_choice *at, int sides,
                               struct sp_pools_figures *ret_figures)
{
    const struct sp_traffic *traffic = s->serving->traffic;
    const struct part *prompts = &s->parts[at->prompts], *steps = &s->parts[at->steps];
    struct sp_step_time rows[SP_MOST_STEP_ROWS];
    struct sp_step_times scaled;
    struct sp_pools_figures figures[SIDES];
    double most[SIDES], rates[SIDES], closed = (double)traffic->concurrency, in_flight_at_most = 0;
    for (int i = 0; i < sides; i++) {
        const struct sp_pools pools = pools_of(s, at, i, &scaled, rows);
        most[i] = most_within(traffic, &pools);
        if (i == 0) {
            sp_pools_figures(&pools, most[0], &figures[0]);
            in_flight_at_most = floor(figures[0].all.in_flight);
        }
        if (i == 0 && traffic->concurrency <= 0)
            closed = fmax(figures[0].all.in_flight, 1);
        rates[i] = traffic->rate_per_second > 0 ? traffic->rate_per_second : sp_pools_closed_rate(&pools, closed);
        sp_pools_figures(&pools, rates[i], &figures[i]);
    }
    for (int i = sides; i < SIDES; i++) {
        most[i] = most[0];
        rates[i] = rates[0];
        figures[i] = figures[0];
    }
    *ret_figures = figures[0];
    const struct sp_generation_figures *all[] = {&figures[0].all, &figures[1].all, &figures[2].all};
    const bool has_rate = traffic->rate_per_second > 0;
    const double output = traffic->output.mean, in_flight = all[0]->in_flight;
    struct sp_service service = {
        .is_llm = true,
        .copies = at->step_copies,
        .devices = at->prompt_copies * prompts->devices + at->step_copies * steps->devices,
        .price_per_hour = at->prompt_copies * prompts->price + at->step_copies * steps->price,
        .price_is_listed = prompts->price_is_listed || steps->price_is_listed,
        .concurrency = isfinite(in_flight) ? (int64_t)fmax(round(in_flight), 1) : 0,
        .micro_batches = 1,
        .limit_concurrency = (int64_t)in_flight_at_most,
        .has_rate = has_rate,
        .rate_per_second = traffic->rate_per_second,
        .ttft_seconds = bar_of(all[0]->ttft_seconds, all[1]->ttft_seconds, all[2]->ttft_seconds),
        .tpot_seconds = bar_of(all[0]->tpot_seconds, all[1]->tpot_seconds, all[2]->tpot_seconds),
        .request_seconds = bar_of(all[0]->request_seconds, all[1]->request_seconds, all[2]->request_seconds),
        .requests_per_second = bar_of(fmin(rates[0], most[0]), fmin(rates[2], most[2]), fmin(rates[1], most[1])),
        .capacity_per_second = bar_of(most[0], most[2], most[1]),
    };
    service.tokens_per_second =
        bar_of(output * service.requests_per_second.value, output * service.requests_per_second.low,
               output * service.requests_per_second.high);
    return service;
}

/* ---- the search --------------------------------------------------------------------------------------------------- */

static void look(struct searching *s, const struct sp_pools_choice *at)
{
    struct sp_serving *serving = s->serving;
    struct sp_pools_figures figures;
    struct sp_pools_choice now = *at;
    if ((serving->by_price || serving->traffic->budget_per_hour > 0) &&
        s->parts[at->prompts].price * s->parts[at->steps].price <= 0)
        return;
    now.service = serve(s, at, 1, &figures);
    now.limit_ratio = sp_service_judge(serving->traffic, &now.service);
    now.is_found = true;
    const bool was = s->best.is_found && s->best.limit_ratio <= 1, is = now.limit_ratio <= 1;
    if (was && !is)
        return;
    const bool is_better = was == is && s->best.is_found
                               ? (is ? sp_service_is_better(serving, &now.service, &s->best.service)
                                     : now.limit_ratio < s->best.limit_ratio)
                               : true;
    if (is_better)
        s->best = now;
}

/* All numbers of copies for prompts, each with as many for steps as there is room for; of the fewest devices, or the
   cheapest, and at a rate, each number that serves it. */
static void try_pair(struct searching *s, uint32_t prompts, uint32_t steps)
{
    const struct sp_serving *serving = s->serving;
    const struct part *a = &s->parts[prompts], *b = &s->parts[steps];
    const uint32_t all = serving->cluster->device_count;
    const bool is_least = serving->objective == SP_OBJECTIVE_DEVICES || serving->by_price;
    if (!a->prompts_fit || !b->steps_fit)
        return;
    for (uint32_t n = 1; n * a->devices + b->devices <= all; n++) {
        const uint32_t room = (all - n * a->devices) / b->devices;
        for (uint32_t k = is_least ? 1 : room; k <= room; k++) {
            const struct sp_pools_choice at = {
                .prompts = prompts, .steps = steps, .prompt_copies = n, .step_copies = k};
            const int64_t asked = serving->traffic->concurrency;
            if (asked == 0 || serving->traffic->rate_per_second > 0 || asked >= k)
                look(s, &at);
        }
    }
}

static bool is_power_of_two(uint32_t size)
{
    return (size & (size - 1)) == 0;
}

enum sp_status sp_service_find_pools(struct sp_serving *serving, struct sp_pools_choice *ret_choice,
                                     struct sp_error *err)
{
    struct searching s = {.serving = serving};
    const struct sp_cluster *cluster = serving->cluster;
    enum sp_status status = SP_OK;
    *ret_choice = (struct sp_pools_choice){0};
    if (cluster->group_count != 1)
        return SP_OK; /* copies would not be equal */
    for (uint32_t size = 1; status == SP_OK && size < cluster->device_count; size++) {
        if (is_power_of_two(size))
            status = add_part(&s, size, err);
    }
    for (uint32_t a = 0; status == SP_OK && a < s.count; a++) {
        for (uint32_t b = 0; b < s.count; b++)
            try_pair(&s, a, b);
    }
    if (status != SP_OK || !s.best.is_found)
        return status;
    const struct part *prompts = &s.parts[s.best.prompts], *steps = &s.parts[s.best.steps];
    struct sp_pools_figures figures;
    struct sp_service service = serve(&s, &s.best, SIDES, &figures);
    struct sp_service_pools *pools = SP_NEW(serving->arena, struct sp_service_pools);
    if (pools == NULL)
        return sp_fail_memory(err);
    *pools = (struct sp_service_pools){.prompt_copies = s.best.prompt_copies,
                                       .prompt_devices = prompts->devices,
                                       .step_copies = s.best.step_copies,
                                       .step_devices = steps->devices,
                                       .prompt_description = prompts->prompts_name,
                                       .step_description = steps->steps_name,
                                       .prompt_share = figures.all.prompt_share,
                                       .place_share = figures.place_share,
                                       .prompt_memory_bytes = prompts->prompts_memory,
                                       .cache_bytes = prompts->cache_bytes,
                                       .transfer_seconds = transfer_of(&s, prompts, steps),
                                       .link_share = figures.link_share,
                                       .prompt_rate = s.best.prompt_copies / prompts->prompt.value};
    const double steps_of_request = serving->traffic->output.mean - 1;
    pools->step_rate = steps_of_request > 0
                           ? s.best.step_copies * (double)steps->times->places / (steps_of_request * steps->step.value)
                           : INFINITY;
    service.pools = pools;
    s.best.limit_ratio = sp_service_judge(serving->traffic, &service);
    s.best.service = service;
    *ret_choice = s.best;
    return SP_OK;
}

/* ---- the answer --------------------------------------------------------------------------------------------------- */

enum sp_status sp_service_deliver_pools(struct sp_serving *serving, const struct sp_pools_choice *choice,
                                        struct sp_service *service, struct sp_copy **ret_steps, struct sp_error *err)
{
    const struct searching s = {.serving = serving};
    const struct sp_service_pools *pools = choice->service.pools;
    const struct sp_llm *llm = &serving->llm;
    const struct sp_cluster *of_prompts = sp_cluster_prefix(serving->arena, serving->cluster, pools->prompt_devices);
    const struct sp_cluster *of_steps = sp_cluster_prefix(serving->arena, serving->cluster, pools->step_devices);
    struct sp_trial prompts = {.serving = serving, .copies = 1, .planned = {.name = "prefill"}}, steps = {0};
    struct sp_service limits, of_prompt = {.limit_concurrency = 1};
    struct sp_trial_figures figures = {.llm = {.concurrency = 1}};
    struct sp_service_times *times = SP_NEW(serving->arena, struct sp_service_times);
    struct sp_sizes sizes;
    if (of_prompts == NULL || of_steps == NULL || times == NULL)
        return sp_fail_memory(err);
    enum sp_status status = plan_steps(&s, of_steps, FIRST_SEQUENCES, &steps, &limits, err);
    if (status == SP_OK)
        status = sp_llm_prefill_sizes(llm, &sizes, err);
    if (status == SP_OK)
        status = sp_copy_plan(&serving->question, of_prompts, &(struct sp_cut_sizes){sizes, 1}, &prompts.copy, err);
    if (status == SP_OK)
        status = sp_serve_llm_times(&prompts, &figures, &of_prompt, err);
    if (status == SP_OK)
        status = sp_copy_evaluate(prompts.copy, &(struct sp_cut_sizes){sizes, 1}, &figures.llm.prefill, err);
    *service = choice->service;
    const double live = pools->place_share * (double)(limits.times != NULL ? limits.times->places : 1);
    struct sp_llm_step step = {0};
    figures.llm.concurrency = (int64_t)fmax(ceil(live), 1);
    if (status == SP_OK)
        status = sp_llm_find_step(llm, steps.copy, figures.llm.concurrency, sp_llm_step_past(llm), &step, err);
    if (status == SP_OK) {
        figures.llm.micro_batches = step.micro_batches;
        figures.llm.decode = step.group;
        status = sp_serve_llm_phases(&steps, &figures, service, err);
    }
    struct sp_service_pools *delivered = SP_NEW(serving->arena, struct sp_service_pools);
    if (status == SP_OK && delivered == NULL)
        status = sp_fail_memory(err);
    if (status != SP_OK || delivered == NULL) {
        sp_copy_destroy(prompts.copy);
        sp_copy_destroy(steps.copy);
        return status;
    }
    *delivered = *pools;
    sp_copy_join(steps.copy, prompts.copy, &delivered->prompt_job, &delivered->prompt_plan);
    service->pools = delivered;
    assert(limits.times != NULL); /* as when the pools were searched */
    *times = *limits.times;
    times->of.prompt_count = of_prompt.times->of.prompt_count;
    times->of.prompts = of_prompt.times->of.prompts;
    service->times = times;
    service->micro_batches = step.micro_batches;
    service->memory_concurrency = limits.memory_concurrency * pools->step_copies;
    service->cache_bytes = pools->step_copies * step.micro_batches * step.group->state_bytes;
    service->memory_bytes = fmax(pools->prompt_memory_bytes, step.group->memory_bytes);
    *ret_steps = steps.copy;
    return SP_OK;
}
