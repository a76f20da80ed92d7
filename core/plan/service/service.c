#include "plan/service/service.h"

#include <assert.h>
#include <string.h>

#include "base/array.h"
#include "plan/service/batches.h"
#include "plan/service/choosing.h"

/* ---- copies ------------------------------------------------------------------------------------------------------- */

/* Whether each further `size` devices are linked as the first ones are: they are a part of one level, or whole parts. */
static bool is_block(const struct sp_cluster *cluster, uint32_t size)
{
    uint64_t inner = 1;
    for (uint32_t l = cluster->level_count; l-- > 0;) {
        const uint64_t outer = inner * cluster->levels[l].size;
        if (size % inner == 0 && (outer % size == 0 || l == 0))
            return true;
        inner = outer;
    }
    return size == 1;
}

/* Whether a copy may have so many devices: with more, there would be fewer copies. */
static bool is_size(const struct sp_cluster *cluster, uint32_t size)
{
    if (size == cluster->device_count)
        return true;
    return cluster->group_count == 1 && cluster->device_count / size > cluster->device_count / (size + 1) &&
           is_block(cluster, size);
}

/* So many copies of a size at most: as there is room for, and as the options allow. */
static uint32_t most_copies(const struct sp_choosing *c, uint32_t size)
{
    const uint32_t room = c->serving.cluster->device_count / size, allowed = c->serving.options.max_replicas;
    return allowed > 0 && allowed < room ? allowed : room; /* not given it is the largest number */
}

/* For the fewest devices, or the cheapest, which is the same among equal ones: as few copies of a size as keep the
   limits, and none with more devices than the best. */
static enum sp_status try_fewest(struct sp_choosing *c, const struct sp_cluster *part, struct sp_error *err)
{
    const uint32_t size = part->device_count, most = most_copies(c, size);
    enum sp_status status = SP_OK;
    bool is_found = false;
    for (uint32_t copies = 1; status == SP_OK && copies <= most && !is_found; copies++) {
        const uint32_t before = c->serving.candidate_count;
        if (most > 1 && c->best.copy != NULL && (uint64_t)size * copies > c->devices)
            break;
        status = sp_choosing_try_copies(c, part, copies, err);
        for (uint32_t i = before; i < c->serving.candidate_count; i++)
            is_found = is_found || (c->serving.candidates[i].fits && c->serving.candidates[i].limit_ratio <= 1);
        if (c->serving.candidate_count == before)
            break; /* it does not fit */
    }
    return status;
}

/* All sizes of copies, each so often as there is room for. */
static enum sp_status try_all(struct sp_choosing *c, struct sp_error *err)
{
    const struct sp_cluster *cluster = c->serving.cluster;
    enum sp_status status = SP_OK;
    for (uint32_t size = 1; status == SP_OK && size <= cluster->device_count; size++) {
        if (!is_size(cluster, size))
            continue;
        const struct sp_cluster *part =
            size == cluster->device_count ? cluster : sp_cluster_prefix(c->serving.arena, cluster, size);
        if (part == NULL)
            return sp_fail_memory(err);
        if (c->serving.objective == SP_OBJECTIVE_DEVICES)
            status = try_fewest(c, part, err);
        else
            status = sp_choosing_try_copies(c, part, most_copies(c, size), err);
    }
    return status;
}

/* ---- chunks ------------------------------------------------------------------------------------------------------- */

/* Prompts whole, or in chunks, or both. */
static enum sp_status try_schedules(struct sp_choosing *c, struct sp_error *err)
{
    static const int64_t chunks[] = {512, 2048, 8192};
    const struct sp_traffic *traffic = c->serving.traffic;
    struct sp_llm *llm = &c->serving.llm;
    llm->chunk = traffic->chunk;
    enum sp_status status = try_all(c, err);
    if (!traffic->best_chunk || llm->symbols.dims[SP_SYMBOL_PAST] == NULL)
        return status;
    const double longest = (double)sp_llm_prompt_positions(llm) * (1 + traffic->input.variation);
    for (size_t i = 0; status == SP_OK && i < sizeof chunks / sizeof *chunks; i++) {
        llm->chunk = chunks[i];
        status = try_all(c, err);
        if ((double)chunks[i] >= longest)
            break;
    }
    return status;
}

/* ---- pools -------------------------------------------------------------------------------------------------------- */

static enum sp_status add_pools_candidate(struct sp_choosing *c, struct sp_error *err)
{
    struct sp_serving *serving = &c->serving;
    const struct sp_service *service = &c->pools.service;
    const struct sp_service_pools *pools = service->pools;
    if (!SP_MAKE_ROOM(serving->arena, serving->candidates, serving->candidate_count, serving->candidate_capacity, 1))
        return sp_fail_memory(err);
    serving->candidates[serving->candidate_count++] = (struct sp_service_candidate){
        .copies = pools->step_copies,
        .devices = pools->step_devices,
        .prompt_copies = pools->prompt_copies,
        .prompt_devices = pools->prompt_devices,
        .description = pools->step_description,
        .planned = "decode",
        .concurrency = service->concurrency,
        .ttft_seconds = service->ttft_seconds.value,
        .tpot_seconds = service->tpot_seconds.value,
        .request_seconds = service->request_seconds.value,
        .requests_per_second = service->requests_per_second.value,
        .limit_ratio = c->pools.limit_ratio,
        .fits = true,
    };
    const struct sp_service_point point = {.copies = pools->step_copies,
                                           .devices = pools->step_devices,
                                           .prompt_copies = pools->prompt_copies,
                                           .prompt_devices = pools->prompt_devices,
                                           .description = pools->step_description};
    return !service->has_rate && c->pools.limit_ratio <= 1 ? sp_service_add_point(serving, service, &point, err)
                                                           : SP_OK;
}

/* Devices of their own for prompts and steps, where the workload has them looked at. */
static enum sp_status try_pools(struct sp_choosing *c, struct sp_error *err)
{
    enum sp_status status = sp_service_find_pools(&c->serving, &c->pools, err);
    if (status == SP_OK && c->pools.is_found)
        status = add_pools_candidate(c, err);
    if (status != SP_OK || !c->pools.is_found)
        return status;
    const struct sp_service *service = &c->pools.service;
    if (c->pools.limit_ratio > 1) {
        if (c->closest <= 0 || c->pools.limit_ratio < c->closest) {
            c->closest = c->pools.limit_ratio;
            c->nearest = *service;
            sp_copy_destroy(c->near.copy);
            c->near.copy = NULL;
        }
        return SP_OK;
    }
    c->pools_are_best = c->best.copy == NULL || sp_service_is_better(&c->serving, service, &c->figures.service);
    if (c->pools_are_best) {
        c->best_candidate = c->serving.candidate_count - 1;
        c->devices = service->devices;
    }
    return SP_OK;
}

/* What a reader of the plan has to know of it. */
static enum sp_status add_notes(const struct sp_choosing *c, struct sp_plan *plan, struct sp_error *err)
{
    const struct sp_service *service = plan->service;
    struct sp_bindings notes = {.arena = plan->arena};
    bool ok = true;
    for (uint32_t i = 0; ok && i < plan->note_count; i++)
        ok = sp_note_add(&notes, &plan->notes[i]);
    if (service->is_llm)
        ok = ok && sp_note_symbols(&c->serving.llm.symbols, c->serving.traffic, &notes);
    else
        ok = ok && sp_note_batches(&c->serving, service, &notes);
    ok = ok && sp_note_service(service, &notes);
    plan->note_count = notes.note_count;
    plan->notes = notes.notes;
    return ok ? SP_OK : sp_fail_memory(err);
}

/* The chosen service, complete, as a part of its plan. */
static enum sp_status deliver(struct sp_choosing *c, struct sp_job **ret_job, struct sp_plan **ret_plan,
                              struct sp_error *err)
{
    struct sp_serving *serving = &c->serving;
    struct sp_service *service = SP_NEW(serving->arena, struct sp_service);
    enum sp_status status = SP_OK;
    if (service == NULL)
        return sp_fail_memory(err);
    *service = c->figures.service;
    if (c->pools_are_best) {
        sp_copy_destroy(c->best.copy);
        c->best.copy = NULL;
        status = sp_service_deliver_pools(serving, &c->pools, service, &c->best.copy, err);
    } else if (serving->traffic->is_llm) {
        status = sp_serve_llm_limits(&c->best, service, err);
        if (status == SP_OK)
            status = sp_serve_llm_phases(&c->best, &c->figures, service, err);
        if (status == SP_OK)
            status = sp_serve_llm_times(&c->best, &c->figures, service, err);
    } else {
        status = sp_serve_phases_phases(&c->best, service, err);
    }
    if (status != SP_OK)
        return status;
    assert(serving->candidates != NULL && service->phases != NULL);
    struct sp_service_candidate *chosen = &serving->candidates[c->best_candidate];
    chosen->is_chosen = true;
    status = sp_service_find_front(serving, service, err);
    if (status != SP_OK)
        return status;
    service->candidate_count = serving->candidate_count;
    service->candidates = serving->candidates;
    for (uint32_t i = 0; i < service->phase_count; i++) {
        struct sp_service_phase *phase = (struct sp_service_phase *)(uintptr_t)&service->phases[i];
        phase->is_planned = strcmp(phase->name, chosen->planned) == 0 && phase->batch == chosen->planned_batch;
    }
    if (!c->pools_are_best) /* whose phases are plans of their own */
        status = sp_serve_phase_plans(&c->best, (struct sp_service_phase *)(uintptr_t)service->phases,
                                      service->phase_count, err);
    if (status != SP_OK)
        return status;
    service->objective = serving->by_price ? "cost" : sp_objective_name(serving->objective);
    sp_copy_take(c->best.copy, ret_job, ret_plan);
    (*ret_plan)->service = service;
    return add_notes(c, *ret_plan, err);
}

static enum sp_status begin(struct sp_choosing *c, struct sp_error *err)
{
    struct sp_serving *serving = &c->serving;
    if (serving->traffic->is_llm)
        return sp_llm_init(&serving->question, serving->traffic, &serving->llm, err);
    return sp_phases_open(serving, err);
}

struct sp_plan_options sp_service_copy_options(const struct sp_plan_options *options)
{
    struct sp_plan_options own = *options;
    own.by_price = false;
    if (options->traffic->is_llm)
        own.objective = SP_OBJECTIVE_LATENCY;
    else if (options->objective != SP_OBJECTIVE_LATENCY)
        own.objective = SP_OBJECTIVE_THROUGHPUT;
    if (options->traffic->states != NULL)
        own.sizes.given.states = options->traffic->states;
    return own;
}

enum sp_status sp_service_plan(struct sp_arena *arena, const struct sp_job_options *job_options,
                               const struct sp_cluster *cluster, const struct sp_plan_options *options,
                               struct sp_job **ret_job, struct sp_plan **ret_plan, struct sp_error *err)
{
    struct sp_choosing c = {.serving = {.arena = arena,
                                        .traffic = options->traffic,
                                        .cluster = cluster,
                                        .objective = options->objective,
                                        .tolerance = options->tolerance,
                                        .by_price = options->by_price,
                                        .options = sp_service_copy_options(options)}};
    c.serving.question = (struct sp_copy_question){arena, job_options, &c.serving.options};
    enum sp_status status = begin(&c, err);
    if (status == SP_OK && options->traffic->pools != SP_POOLS_SEPARATE)
        status = try_schedules(&c, err);
    c.serving.llm.chunk = 0;
    if (status == SP_OK && options->traffic->pools != SP_POOLS_SHARED)
        status = try_pools(&c, err);
    const bool is_none = c.best.copy == NULL && !c.pools_are_best;
    if (!c.pools_are_best) /* what is asked of the answer now is asked with its chunks */
        c.serving.llm.chunk = is_none ? c.nearest.chunk : c.figures.service.chunk;
    if (status == SP_OK && is_none)
        status = sp_choosing_refuse(&c, err);
    if (status == SP_OK)
        status = deliver(&c, ret_job, ret_plan, err);
    if (status != SP_OK)
        sp_copy_destroy(c.best.copy);
    sp_copy_destroy(c.near.copy);
    return status;
}
