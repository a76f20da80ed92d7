#include "plan/service/service.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/array.h"
#include "plan/micro/micro.h"
#include "plan/service/cuts.h"
#include "plan/service/internal.h"

#define FIRST_CONCURRENCY 16 /* of a copy, at which a placement is planned before it is known which one is best */
#define ROUNDING          1e-9

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

/* ---- judging ------------------------------------------------------------------------------------------------------ */

/* What was found so far. */
struct choosing {
    struct sp_serving serving;
    struct sp_trial best; /* copy NULL: none */
    struct sp_trial_figures figures;
    uint32_t best_candidate, devices;
    struct sp_pools_choice pools; /* found, and best: these are the answer */
    bool pools_are_best;
    double closest;            /* of those that fit memory and break a limit: the smallest ratio */
    struct sp_service nearest; /* this one */
    struct sp_trial near;      /* and its copy, while there is no best one; else NULL */
    struct sp_error nofit;     /* of the first copy that does not fit, or SP_OK */
    struct sp_error uneven; /* of a phase whose batch the options' number of micro-batches does not divide, or SP_OK */
};

static enum sp_status add_candidate(struct choosing *c, const struct sp_trial *trial,
                                    const struct sp_trial_figures *figures, struct sp_error *err)
{
    struct sp_serving *serving = &c->serving;
    const struct sp_plan *plan = sp_copy_plan_of(trial->copy);
    const struct sp_service *service = &figures->service;
    if (!SP_MAKE_ROOM(serving->arena, serving->candidates, serving->candidate_count, serving->candidate_capacity, 1))
        return sp_fail_memory(err);
    struct sp_service_candidate *candidate = &serving->candidates[serving->candidate_count++];
    *candidate = (struct sp_service_candidate){
        .copies = trial->copies,
        .devices = sp_plan_devices_used(plan),
        .description = sp_trial_description(trial),
        .planned = trial->planned,
        .is_for_all = trial->is_for_all,
        .concurrency = service->concurrency,
        .chunk = service->chunk,
        .ttft_seconds = service->ttft_seconds.value,
        .tpot_seconds = service->tpot_seconds.value,
        .request_seconds = service->request_seconds.value,
        .requests_per_second = service->requests_per_second.value,
        .limit_ratio = figures->limit_ratio,
        .fits = figures->fits,
    };
    return candidate->description != NULL ? SP_OK : sp_fail_memory(err);
}

/* Takes over the copy: it becomes the best one, or is destroyed. */
static enum sp_status judge(struct choosing *c, const struct sp_trial *trial, struct sp_trial_figures *ret_figures,
                            struct sp_error *err)
{
    struct sp_trial_figures figures;
    enum sp_status status =
        c->serving.traffic->is_llm ? sp_serve_llm(trial, &figures, err) : sp_serve_phases(trial, &figures, err);
    if (status == SP_OK)
        status = add_candidate(c, trial, &figures, err);
    if (status == SP_OK && c->serving.traffic->is_llm && c->serving.traffic->rate_per_second <= 0)
        status = sp_serve_llm_points(trial, &figures, c->serving.candidates[c->serving.candidate_count - 1].description,
                                     err);
    if (status != SP_OK) {
        sp_copy_destroy(trial->copy);
        return status;
    }
    const uint32_t devices = trial->copies * sp_plan_devices_used(sp_copy_plan_of(trial->copy));
    const bool keeps = figures.limit_ratio <= 1;
    if ((c->serving.by_price || c->serving.traffic->budget_per_hour > 0) && trial->price_per_hour <= 0) {
        sp_copy_destroy(trial->copy);
        (void)sp_fail(err, SP_ERR_REQUEST, "PRICE_UNKNOWN",
                      "A device has no price: give price_per_hour of each group of the cluster.");
        return sp_error_at(err, "/cluster");
    }
    figures.service.devices = devices;
    *ret_figures = figures;
    if (figures.fits && !keeps && c->best.copy == NULL && (c->closest <= 0 || figures.limit_ratio < c->closest)) {
        c->closest = figures.limit_ratio;
        c->nearest = figures.service;
        sp_copy_destroy(c->near.copy);
        c->near = *trial;
        return SP_OK;
    }
    if (!figures.fits || !keeps ||
        (c->best.copy != NULL && !sp_service_is_better(&c->serving, &figures.service, &c->figures.service))) {
        sp_copy_destroy(trial->copy);
        return SP_OK;
    }
    sp_copy_destroy(c->best.copy);
    sp_copy_destroy(c->near.copy);
    c->near.copy = NULL;
    c->best = *trial;
    c->figures = figures;
    c->devices = devices;
    c->best_candidate = c->serving.candidate_count - 1;
    return SP_OK;
}

/* ---- placements --------------------------------------------------------------------------------------------------- */

/* Judges a copy that was planned, or not; one that does not fit is none. */
static enum sp_status take_copy(struct choosing *c, struct sp_trial *trial, enum sp_status planned,
                                const struct sp_error *why, struct sp_trial_figures *ret_figures, struct sp_error *err)
{
    *ret_figures = (struct sp_trial_figures){0};
    if (planned == SP_ERR_NOFIT) {
        if (c->nofit.status == SP_OK)
            c->nofit = *why;
        return SP_OK;
    }
    if (planned == SP_OK) {
        sp_trial_find_price(trial);
        return judge(c, trial, ret_figures, err);
    }
    if (err != NULL)
        *err = *why;
    return planned;
}

/* Plans at these sizes and judges. */
static enum sp_status try_sizes(struct choosing *c, const struct sp_cluster *cluster, uint32_t copies,
                                const struct sp_cut_sizes *at, const char *planned,
                                struct sp_trial_figures *ret_figures, struct sp_error *err)
{
    struct sp_trial trial = {.serving = &c->serving, .copies = copies, .planned = planned};
    struct sp_error why = {0};
    enum sp_status status = sp_copy_plan(&c->serving.question, cluster, at, &trial.copy, &why);
    return take_copy(c, &trial, status, &why, ret_figures, err);
}

/* Plans for all phases and judges. The copy is written at the sizes of the phase that takes most of a request's runs.
   Phases that are not of one graph have no such placement. */
static enum sp_status try_together(struct choosing *c, const struct sp_cluster *cluster, uint32_t copies,
                                   uint32_t count, const struct sp_copy_phase *phases, struct sp_error *err)
{
    struct sp_trial trial = {.serving = &c->serving, .copies = copies, .is_for_all = true};
    struct sp_trial_figures figures;
    struct sp_error why = {0};
    uint32_t planned = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (phases[i].runs <= 0)
            return SP_OK;
        planned = phases[i].runs > phases[planned].runs ? i : planned;
    }
    if (count < 2)
        return SP_OK;
    trial.planned = phases[planned].name;
    enum sp_status status =
        sp_copy_plan_phases(&c->serving.question, cluster, count, phases, planned, &trial.copy, &why);
    if (status == SP_ERR_REQUEST && strcmp(why.code, "PHASES_DIFFER") == 0)
        return SP_OK;
    return take_copy(c, &trial, status, &why, &figures, err);
}

/* ---- placements with micro-batches -------------------------------------------------------------------------------- */

/* The options' number; 1 where it is open. */
static uint32_t asked_cuts(const struct choosing *c)
{
    const uint32_t asked = c->serving.options.micro_batches;
    return asked > 1 && asked != SP_MICRO_BATCHES_AUTO ? asked : 1;
}

/* What a copy is planned for, in some number of parts. */
struct cut_trials {
    const struct sp_cluster *cluster;
    uint32_t copies;
    const char *planned;
    const struct sp_sizes *sizes; /* of whole runs; NULL: of decode steps */
    int64_t sequences;            /* of these */
};

/* Steps of a language model are cut in groups of sequences, each planned as a step of its own. */
static enum sp_status try_cut(struct choosing *c, const struct cut_trials *trials, uint32_t parts,
                              struct sp_trial_figures *ret_figures, struct sp_error *err)
{
    struct sp_cut_sizes at = {.micro_batches = 1};
    enum sp_status status = SP_OK;
    if (trials->sizes != NULL)
        at = (struct sp_cut_sizes){*trials->sizes, parts};
    else
        status = sp_llm_decode_sizes(&c->serving.llm, (trials->sequences + parts - 1) / parts, &at.sizes, err);
    if (status == SP_OK)
        status = try_sizes(c, trials->cluster, trials->copies, &at, trials->planned, ret_figures, err);
    return status;
}

static double value_of(const struct choosing *c, const struct sp_trial_figures *figures)
{
    return figures->fits && figures->limit_ratio <= 1 ? sp_service_value(&c->serving, &figures->service) : INFINITY;
}

/* Placements that are planned for 2, 4 .. parts, where the options ask for the best number: until one is no better than the
   one before, or the batch cannot be cut. */
static enum sp_status try_more_cuts(struct choosing *c, const struct cut_trials *trials,
                                    const struct sp_trial_figures *whole, struct sp_error *err)
{
    const bool is_auto = c->serving.options.micro_batches == SP_MICRO_BATCHES_AUTO;
    double before = value_of(c, whole);
    for (uint32_t parts = 2; is_auto && trials->cluster->device_count > 1 && parts <= SP_MOST_MICRO_BATCHES;
         parts *= 2) {
        struct sp_trial_figures figures;
        struct sp_error why = {0};
        if (trials->sizes == NULL && parts > trials->sequences)
            break;
        enum sp_status status = try_cut(c, trials, parts, &figures, &why);
        if (sp_cannot_be_cut(status, &why))
            break;
        if (status != SP_OK) {
            if (err != NULL)
                *err = why;
            return status;
        }
        const double now = value_of(c, &figures);
        if (now >= before && isfinite(before))
            break;
        before = now;
    }
    return SP_OK;
}

static enum sp_status try_llm(struct choosing *c, const struct sp_cluster *cluster, uint32_t copies,
                              struct sp_error *err)
{
    const struct sp_traffic *traffic = c->serving.traffic;
    const bool is_given = traffic->concurrency > 0 && traffic->rate_per_second <= 0;
    const int64_t first = is_given ? (traffic->concurrency + copies - 1) / copies : FIRST_CONCURRENCY;
    struct cut_trials trials = {cluster, copies, "decode", NULL, first};
    struct sp_trial_figures figures = {0}, of_prefill;
    struct sp_cut_sizes prefill = {.micro_batches = 1}, decode = {.micro_batches = 1};
    if (is_given && traffic->concurrency < copies)
        return SP_OK; /* some would have nothing to do */
    enum sp_status status = try_cut(c, &trials, asked_cuts(c), &figures, err);
    const int64_t found = figures.llm.concurrency;
    trials.sequences = is_given || found == 0 ? first : found;
    if (status == SP_OK && trials.sequences != first)
        status = try_cut(c, &trials, asked_cuts(c), &figures, err);
    if (status == SP_OK)
        status = try_more_cuts(c, &trials, &figures, err);
    if (status == SP_OK)
        status = sp_llm_decode_sizes(&c->serving.llm, trials.sequences, &decode.sizes, err);
    if (status == SP_OK)
        status = sp_llm_prefill_sizes(&c->serving.llm, &prefill.sizes, err);
    if (status == SP_OK)
        status = try_sizes(c, cluster, copies, &prefill, "prefill", &of_prefill, err);
    const struct sp_copy_phase phases[] = {
        {"prefill", prefill.sizes, 1}, {"decode", decode.sizes, (traffic->output.mean - 1) / (double)trials.sequences}};
    return status == SP_OK ? try_together(c, cluster, copies, 2, phases, err) : status;
}

/* As the options ask; whole where they ask for a number that does not divide this batch. */
static enum sp_status try_phase(struct choosing *c, const struct cut_trials *trials, bool *ret_cut,
                                struct sp_error *err)
{
    const uint32_t asked = asked_cuts(c);
    struct sp_trial_figures figures;
    struct sp_error why = {0};
    enum sp_status status = try_cut(c, trials, asked, &figures, &why);
    *ret_cut = !sp_is_uneven_cut(status, &why);
    if (!*ret_cut) {
        c->uneven = why;
        status = try_cut(c, trials, 1, &figures, &why);
    }
    if (status != SP_OK) {
        if (err != NULL)
            *err = why;
        return status;
    }
    return try_more_cuts(c, trials, &figures, err);
}

static enum sp_status try_phases(struct choosing *c, const struct sp_cluster *cluster, uint32_t copies,
                                 struct sp_error *err)
{
    const struct sp_traffic *traffic = c->serving.traffic;
    struct sp_copy_phase *phases = SP_NEW_ARRAY(c->serving.arena, traffic->phase_count, struct sp_copy_phase);
    enum sp_status status = SP_OK;
    bool is_any_cut = false;
    if (phases == NULL || c->serving.phases == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && i < traffic->phase_count; i++) {
        const struct sp_traffic_phase *phase = &traffic->phases[i];
        bool is_cut;
        phases[i] = (struct sp_copy_phase){phase->name, c->serving.phases[i],
                                           phase->share * phase->per_request / phase->requests};
        status = try_phase(c, &(struct cut_trials){cluster, copies, phase->name, &phases[i].sizes, 0}, &is_cut, err);
        is_any_cut = is_any_cut || is_cut;
    }
    if (status == SP_OK && !is_any_cut) {
        if (err != NULL)
            *err = c->uneven;
        return c->uneven.status;
    }
    return status == SP_OK ? try_together(c, cluster, copies, traffic->phase_count, phases, err) : status;
}

static enum sp_status try_copies(struct choosing *c, const struct sp_cluster *part, uint32_t copies,
                                 struct sp_error *err)
{
    return c->serving.traffic->is_llm ? try_llm(c, part, copies, err) : try_phases(c, part, copies, err);
}

/* So many copies of a size at most: as there is room for, and as the options allow. */
static uint32_t most_copies(const struct choosing *c, uint32_t size)
{
    const uint32_t room = c->serving.cluster->device_count / size, allowed = c->serving.options.max_replicas;
    return allowed > 0 && allowed < room ? allowed : room; /* not given it is the largest number */
}

/* For the fewest devices, or the cheapest, which is the same among equal ones: as few copies of a size as keep the
   limits, and none with more devices than the best. */
static enum sp_status try_fewest(struct choosing *c, const struct sp_cluster *part, struct sp_error *err)
{
    const uint32_t size = part->device_count, most = most_copies(c, size);
    enum sp_status status = SP_OK;
    bool is_found = false;
    for (uint32_t copies = 1; status == SP_OK && copies <= most && !is_found; copies++) {
        const uint32_t before = c->serving.candidate_count;
        if (most > 1 && c->best.copy != NULL && (uint64_t)size * copies > c->devices)
            break;
        status = try_copies(c, part, copies, err);
        for (uint32_t i = before; i < c->serving.candidate_count; i++)
            is_found = is_found || (c->serving.candidates[i].fits && c->serving.candidates[i].limit_ratio <= 1);
        if (c->serving.candidate_count == before)
            break; /* it does not fit */
    }
    return status;
}

/* All sizes of copies, each so often as there is room for. */
static enum sp_status try_all(struct choosing *c, struct sp_error *err)
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
            status = try_copies(c, part, most_copies(c, size), err);
    }
    return status;
}

/* ---- chunks ------------------------------------------------------------------------------------------------------- */

/* Prompts whole, or in chunks, or both. */
static enum sp_status try_schedules(struct choosing *c, struct sp_error *err)
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

static enum sp_status add_pools_candidate(struct choosing *c, struct sp_error *err)
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
static enum sp_status try_pools(struct choosing *c, struct sp_error *err)
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

/* ---- the answer --------------------------------------------------------------------------------------------------- */

/* "tpot_seconds 0.05 (it has 0.062, 24 % over)" for each limit that the closest service breaks. */
static void list_broken(const struct sp_service *nearest, struct sp_buf *buf)
{
    for (uint32_t i = 0; i < nearest->limit_count; i++) {
        const struct sp_service_limit *limit = &nearest->limits[i];
        const bool is_rate = strcmp(limit->name, "rate_per_second") == 0;
        const double off = is_rate ? 1 - limit->figure.value / limit->limit : limit->figure.value / limit->limit - 1;
        if (limit->state == SP_LIMIT_BROKEN)
            sp_buf_printf(buf, "%s%s %.4g (it has %.4g, %.3g %% %s)", buf->size > 0 ? " and " : "", limit->name,
                          limit->limit, limit->figure.value, 100 * off, is_rate ? "too few" : "over");
    }
}

/* So many times the copies of the closest service serve the rate, where it keeps all other limits. */
static bool add_copies(const struct choosing *c, struct sp_buf *buf)
{
    const struct sp_service *nearest = &c->nearest;
    const double of_copy = nearest->capacity_per_second.value / nearest->copies;
    const double copies = floor(nearest->rate_per_second / of_copy) + 1;
    for (uint32_t i = 0; i < nearest->limit_count; i++) {
        const bool is_rate = strcmp(nearest->limits[i].name, "rate_per_second") == 0;
        if (strcmp(nearest->limits[i].name, "budget_per_hour") == 0) /* which more copies need more of */
            return false;
        if (is_rate == (nearest->limits[i].state != SP_LIMIT_BROKEN))
            return false;
    }
    if (!nearest->has_rate || !(copies <= SP_MAX_DEVICES))
        return false;
    sp_buf_printf(buf, " %.0f copies like it, on %.0f devices, serve that rate.", copies,
                  copies * sp_plan_devices_used(sp_copy_plan_of(c->near.copy)));
    return true;
}

/* What would do, as far as the closest service says it. */
static enum sp_status add_remedy(const struct choosing *c, struct sp_buf *buf, struct sp_error *err)
{
    const struct sp_traffic *traffic = c->serving.traffic;
    struct sp_service at = {0};
    enum sp_status status = SP_OK;
    if (c->near.copy != NULL && add_copies(c, buf))
        return SP_OK;
    if (c->near.copy != NULL && traffic->is_llm && traffic->rate_per_second <= 0)
        status = sp_serve_llm_limits(&c->near, &at, err);
    if (at.limit_concurrency > 0)
        sp_buf_printf(buf, " With %lld sequences in flight it keeps them.", (long long)at.limit_concurrency);
    else
        sp_buf_text(buf, " Give it more or faster devices, or change the limits.");
    return status;
}

static enum sp_status refuse_limits(const struct choosing *c, struct sp_error *err)
{
    const struct sp_service *nearest = &c->nearest;
    struct sp_buf broken, remedy;
    sp_buf_init(&broken, SP_ERROR_MESSAGE_SIZE);
    sp_buf_init(&remedy, SP_ERROR_MESSAGE_SIZE);
    list_broken(nearest, &broken);
    enum sp_status status = add_remedy(c, &remedy, err);
    if (status == SP_OK && (sp_buf_failed(&broken) || sp_buf_failed(&remedy)))
        status = sp_fail_memory(err);
    if (status == SP_OK && nearest->is_llm)
        status = sp_fail(err, SP_ERR_NOFIT, "LIMIT_NOT_KEPT",
                         "No plan keeps the limits. The closest, %u copies of the model with %lld sequences in flight, "
                         "breaks %s.%s",
                         nearest->copies, (long long)nearest->concurrency, broken.data, remedy.data);
    else if (status == SP_OK)
        status = sp_fail(err, SP_ERR_NOFIT, "LIMIT_NOT_KEPT",
                         "No plan keeps the limits. The closest, %u copies of the model, breaks %s.%s", nearest->copies,
                         broken.data, remedy.data);
    sp_buf_release(&broken);
    sp_buf_release(&remedy);
    return status;
}

/* Nothing keeps the limits, or fits. */
static enum sp_status refuse(const struct choosing *c, struct sp_error *err)
{
    if (c->closest > 0)
        return refuse_limits(c, err);
    if (err != NULL)
        *err = c->nofit;
    return c->nofit.status != SP_OK
               ? c->nofit.status
               : sp_fail(err, SP_ERR_NOFIT, "SERVICE_NO_MEMORY",
                         "Plans of one phase fit the devices, but none has memory for all phases of the workload: "
                         "give it more devices, or fewer sequences in flight.");
}

/* What a reader of the plan has to know of it. */
static enum sp_status add_notes(const struct choosing *c, struct sp_plan *plan, struct sp_error *err)
{
    const struct sp_service *service = plan->service;
    struct sp_bindings notes = {.arena = plan->arena};
    bool ok = true;
    for (uint32_t i = 0; ok && i < plan->note_count; i++)
        ok = sp_note_add(&notes, &plan->notes[i]);
    if (service->is_llm)
        ok = ok && sp_note_symbols(&c->serving.llm.symbols, c->serving.traffic, &notes);
    ok = ok && sp_note_service(service, &notes);
    plan->note_count = notes.note_count;
    plan->notes = notes.notes;
    return ok ? SP_OK : sp_fail_memory(err);
}

/* The chosen service, complete, as a part of its plan. */
static enum sp_status deliver(struct choosing *c, struct sp_job **ret_job, struct sp_plan **ret_plan,
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
    serving->candidates[c->best_candidate].is_chosen = true;
    status = sp_service_find_front(serving, service, err);
    if (status != SP_OK)
        return status;
    service->candidate_count = serving->candidate_count;
    service->candidates = serving->candidates;
    for (uint32_t i = 0; i < service->phase_count; i++) {
        struct sp_service_phase *phase = (struct sp_service_phase *)(uintptr_t)&service->phases[i];
        phase->is_planned = strcmp(phase->name, serving->candidates[c->best_candidate].planned) == 0;
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

static enum sp_status begin(struct choosing *c, struct sp_error *err)
{
    struct sp_serving *serving = &c->serving;
    const struct sp_traffic *traffic = serving->traffic;
    if (traffic->is_llm)
        return sp_llm_init(&serving->question, traffic, &serving->llm, err);
    struct sp_sizes *phases = SP_NEW_ARRAY(serving->arena, traffic->phase_count, struct sp_sizes);
    if (phases == NULL)
        return sp_fail_memory(err);
    serving->phases = phases;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < traffic->phase_count; i++)
        status = sp_copy_sizes(&serving->question, &traffic->phases[i].sizes, &phases[i], err);
    return status;
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
    if (options->traffic->loads != NULL)
        own.sizes.given.loads = options->traffic->loads;
    return own;
}

enum sp_status sp_service_plan(struct sp_arena *arena, const struct sp_job_options *job_options,
                               const struct sp_cluster *cluster, const struct sp_plan_options *options,
                               struct sp_job **ret_job, struct sp_plan **ret_plan, struct sp_error *err)
{
    struct choosing c = {.serving = {.arena = arena,
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
        status = refuse(&c, err);
    if (status == SP_OK)
        status = deliver(&c, ret_job, ret_plan, err);
    if (status != SP_OK)
        sp_copy_destroy(c.best.copy);
    sp_copy_destroy(c.near.copy);
    return status;
}
