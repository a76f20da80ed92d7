#include "plan/service/batches.h"

#include <math.h>
#include <string.h>

#include "plan/micro/micro.h"
#include "plan/service/cuts.h"

/* ---- sizes -------------------------------------------------------------------------------------------------------- */

static bool binds(const struct sp_sizes *sizes, const char *name)
{
    for (uint32_t i = 0; i < sizes->dim_count; i++) {
        if (strcmp(sizes->dim_names[i], name) == 0)
            return true;
    }
    return false;
}

static enum sp_status find_symbol(struct sp_serving *serving, struct sp_error *err)
{
    struct sp_job_options options = *serving->question.job_options;
    struct sp_job *job = NULL;
    uint32_t symbol;
    options.sizes = &serving->question.options->sizes;
    enum sp_status status = sp_job_open(&options, &job, err);
    if (status == SP_OK) {
        const struct sp_model *model = sp_job_model(job);
        const char *name = model != NULL ? sp_batch_symbol(model, &symbol) : NULL;
        if (name != NULL)
            serving->batch_symbol = sp_arena_string(serving->arena, name, strlen(name));
        if (name != NULL && serving->batch_symbol == NULL)
            status = sp_fail_memory(err);
    }
    sp_job_destroy(job);
    if (status != SP_OK || serving->batch_symbol != NULL)
        return status;
    (void)sp_fail(err, SP_ERR_REQUEST, "WORKLOAD_SYMBOLS",
                  "No dimension of the model's inputs is a symbol that may be the batch: name it in \"symbols\" of the "
                  "workload, or give each phase its batch in \"dims\".");
    return sp_error_at(err, "/workload/symbols");
}

/* Phases that leave their batch open are those that say so, and where all do, those whose dims do not bind it. */
static enum sp_status open_batches(struct sp_serving *serving, bool *is_open, struct sp_error *err)
{
    const struct sp_traffic *traffic = serving->traffic;
    bool is_any = false;
    for (uint32_t i = 0; i < traffic->phase_count; i++)
        is_any = is_any || traffic->phases[i].best_batch;
    serving->batch_symbol = traffic->symbols[SP_SYMBOL_BATCH];
    if (!is_any)
        return SP_OK;
    enum sp_status status = serving->batch_symbol == NULL ? find_symbol(serving, err) : SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < traffic->phase_count; i++) {
        const struct sp_traffic_phase *phase = &traffic->phases[i];
        const bool is_bound = binds(&phase->sizes, serving->batch_symbol);
        is_open[i] = phase->best_batch && !is_bound;
        if (!phase->is_batch_given || !is_bound)
            continue;
        (void)sp_fail(
            err, SP_ERR_REQUEST, "WORKLOAD_BATCH",
            "The phase '%.80s' leaves its batch open and binds it, '%.80s', in \"dims\": leave one of both out.",
            phase->name, serving->batch_symbol);
        status = sp_error_at(err, "/workload/phases");
    }
    return status;
}

enum sp_status sp_phases_open(struct sp_serving *serving, struct sp_error *err)
{
    const struct sp_traffic *traffic = serving->traffic;
    struct sp_sizes *phases = SP_NEW_ARRAY(serving->arena, traffic->phase_count, struct sp_sizes);
    bool *is_open = SP_NEW_ARRAY(serving->arena, traffic->phase_count, bool);
    if (phases == NULL || is_open == NULL)
        return sp_fail_memory(err);
    memset(is_open, 0, traffic->phase_count * sizeof *is_open);
    serving->phases = phases;
    serving->batch_is_open = is_open;
    enum sp_status status = open_batches(serving, is_open, err);
    for (uint32_t i = 0; status == SP_OK && i < traffic->phase_count; i++)
        status = sp_copy_sizes(&serving->question, &traffic->phases[i].sizes, &phases[i], err);
    return status;
}

enum sp_status sp_phase_sizes(const struct sp_serving *serving, uint32_t phase, int64_t batch,
                              struct sp_sizes *ret_sizes, struct sp_error *err)
{
    *ret_sizes = serving->phases[phase];
    if (batch == 0)
        return SP_OK;
    const struct sp_sizes *given = &serving->traffic->phases[phase].sizes;
    const char **names = SP_NEW_ARRAY(serving->arena, (size_t)given->dim_count + 1, const char *);
    int64_t *values = SP_NEW_ARRAY(serving->arena, (size_t)given->dim_count + 1, int64_t);
    struct sp_sizes with_batch = *given;
    if (names == NULL || values == NULL)
        return sp_fail_memory(err);
    names[0] = serving->batch_symbol;
    values[0] = batch;
    for (uint32_t i = 0; i < given->dim_count; i++) {
        names[i + 1] = given->dim_names[i];
        values[i + 1] = given->dim_values[i];
    }
    with_batch.dim_count = given->dim_count + 1;
    with_batch.dim_names = names;
    with_batch.dim_values = values;
    return sp_copy_sizes(&serving->question, &with_batch, ret_sizes, err);
}

static double requests_of(const struct sp_serving *serving, uint32_t phase, int64_t batch)
{
    return batch > 0 ? (double)batch : serving->traffic->phases[phase].requests;
}

double sp_phase_runs(const struct sp_serving *serving, uint32_t phase, int64_t batch)
{
    const struct sp_traffic_phase *of = &serving->traffic->phases[phase];
    return of->share * of->per_request / requests_of(serving, phase, batch);
}

/* ---- what is looked at -------------------------------------------------------------------------------------------- */

/* What a batch brought. */
struct seen {
    bool is_new, can_be_computed, fits;
    double busy_seconds, latency_seconds; /* the least of its numbers of micro-batches */
};

static bool note(struct sp_phase_batches *batches, int64_t batch)
{
    uint32_t at = batches->count;
    for (uint32_t i = 0; i < batches->count; i++) {
        if (batches->batches[i] == batch)
            return false;
    }
    if (batches->count == SP_MOST_BATCHES)
        return false;
    for (; at > 0 && batches->batches[at - 1] > batch; at--)
        batches->batches[at] = batches->batches[at - 1];
    batches->batches[at] = batch;
    batches->count++;
    return true;
}

/* Mean seconds until as many requests as a run serves are there, where they come at random: half of those of all but one. */
static double fill_seconds(const struct sp_trial *trial, uint32_t phase, int64_t batch)
{
    const struct sp_traffic *traffic = trial->serving->traffic;
    const struct sp_traffic_phase *of = &traffic->phases[phase];
    const double rate = traffic->rate_per_second / trial->copies * of->share * of->per_request;
    return rate > 0 ? (requests_of(trial->serving, phase, batch) - 1) / (2 * rate) : 0;
}

static enum sp_status add_cuts(const struct sp_trial *trial, uint32_t phase, int64_t batch,
                               const struct sp_phase_cuts *cuts, struct sp_phase_batches *batches, struct seen *seen,
                               struct sp_error *err)
{
    for (uint32_t k = 0; k < cuts->count; k++) {
        const struct sp_phase_figures *figures = cuts->items[k].figures;
        const struct sp_phase_choice choice = {batch, cuts->items[k].micro_batches,
                                               sp_phase_runs(trial->serving, phase, batch),
                                               fill_seconds(trial, phase, batch), figures};
        if (!sp_phase_choices_add(trial->serving->arena, &batches->choices, &choice))
            return sp_fail_memory(err);
        seen->fits = seen->fits || figures->excess_bytes <= 0;
        seen->busy_seconds = fmin(seen->busy_seconds, choice.runs * figures->interval_seconds.value);
        seen->latency_seconds = fmin(seen->latency_seconds, figures->latency_seconds.value);
    }
    return SP_OK;
}

/* A batch beside the first one that the model cannot have is none. */
static enum sp_status look(const struct sp_trial *trial, uint32_t phase, int64_t batch,
                           struct sp_phase_batches *batches, struct seen *ret_seen, struct sp_error *err)
{
    const struct sp_serving *serving = trial->serving;
    const bool is_shorter_better = serving->objective == SP_OBJECTIVE_LATENCY ||
                                   serving->traffic->rate_per_second > 0 ||
                                   serving->traffic->limits.request_seconds > 0;
    const bool is_first = batches->count == 0;
    struct sp_phase_cuts cuts;
    struct sp_sizes sizes;
    struct sp_error why = {0};
    *ret_seen = (struct seen){note(batches, batch), false, false, INFINITY, INFINITY};
    if (!ret_seen->is_new)
        return SP_OK;
    enum sp_status status = sp_phase_sizes(serving, phase, batch, &sizes, &why);
    if (status == SP_OK)
        status =
            sp_phase_cuts_find(trial->copy, &sizes, serving->options.micro_batches, is_shorter_better, &cuts, &why);
    if (status == SP_OK) {
        ret_seen->can_be_computed = true;
        return add_cuts(trial, phase, batch, &cuts, batches, ret_seen, err);
    }
    if (!is_first && sp_llm_is_of_size(status))
        return SP_OK;
    if (err != NULL)
        *err = why;
    return status;
}

/* first, 2 first, 4 first .. */
static enum sp_status look_at_doubles(const struct sp_trial *trial, uint32_t phase, int64_t first,
                                      struct sp_phase_batches *batches, struct sp_error *err)
{
    const struct sp_serving *serving = trial->serving;
    const struct sp_traffic *traffic = serving->traffic;
    const bool is_latency = serving->objective == SP_OBJECTIVE_LATENCY && traffic->rate_per_second <= 0;
    const double limit = traffic->limits.request_seconds;
    double best = INFINITY;
    uint32_t in_vain = 0;
    for (int64_t batch = first; in_vain < 2 && batch <= SP_MOST_BATCH; batch *= 2) {
        struct seen seen;
        enum sp_status status = look(trial, phase, batch, batches, &seen, err);
        if (status != SP_OK)
            return status;
        const double now = is_latency ? seen.latency_seconds : seen.busy_seconds;
        if (seen.is_new && (!seen.can_be_computed || !seen.fits))
            break;
        if (limit > 0 && isfinite(seen.latency_seconds) &&
            traffic->phases[phase].per_request * seen.latency_seconds > limit)
            break;
        in_vain = now < best ? 0 : in_vain + 1;
        best = fmin(best, now);
    }
    return SP_OK;
}

static int64_t devices_of(const struct sp_trial *trial)
{
    return sp_copy_plan_of(trial->copy)->cluster->device_count;
}

enum sp_status sp_phase_batches_begin(const struct sp_trial *trial, uint32_t phase,
                                      struct sp_phase_batches *ret_batches, struct sp_error *err)
{
    const int64_t devices = devices_of(trial);
    struct seen seen;
    ret_batches->count = 0;
    ret_batches->choices = (struct sp_phase_choices){.waits = trial->serving->traffic->phases[phase].per_request};
    if (!trial->serving->batch_is_open[phase])
        return look(trial, phase, 0, ret_batches, &seen, err);
    enum sp_status status = look_at_doubles(trial, phase, 1, ret_batches, err);
    if (status == SP_OK && (devices & (devices - 1)) != 0)
        status = look_at_doubles(trial, phase, devices, ret_batches, err);
    return status;
}

enum sp_status sp_phase_batches_near(const struct sp_trial *trial, uint32_t phase, int64_t best,
                                     struct sp_phase_batches *batches, bool *ret_grown, struct sp_error *err)
{
    const int64_t devices = devices_of(trial);
    int64_t below = 0, above = 0;
    if (best == 0)
        return SP_OK;
    for (uint32_t i = 0; i < batches->count; i++) {
        const int64_t batch = batches->batches[i];
        below = batch < best ? batch : below;
        above = batch > best && above == 0 ? batch : above;
    }
    const int64_t near[] = {(below + best) / 2, above > 0 ? (best + above) / 2 : 0, best - best % devices,
                            best - best % devices + devices};
    enum sp_status status = SP_OK;
    for (size_t i = 0; status == SP_OK && i < sizeof near / sizeof *near; i++) {
        struct seen seen;
        if (near[i] < 1 || near[i] > SP_MOST_BATCH)
            continue;
        status = look(trial, phase, near[i], batches, &seen, err);
        *ret_grown = *ret_grown || (status == SP_OK && seen.is_new && seen.can_be_computed);
    }
    return status;
}
