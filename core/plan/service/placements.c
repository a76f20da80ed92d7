/* The placements of a copy that are looked at: planned for each phase, for micro-batches and batches of it, and for all
   phases. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "plan/micro/micro.h"
#include "plan/service/batches.h"
#include "plan/service/choosing.h"
#include "plan/service/cuts.h"

#define FIRST_CONCURRENCY 16 /* of a copy, at which a placement is planned before it is known which one is best */

/* ---- placements --------------------------------------------------------------------------------------------------- */

/* Plans at these sizes and judges. */
static enum sp_status try_sizes(struct sp_choosing *c, const struct sp_cluster *cluster, uint32_t copies,
                                const struct sp_cut_sizes *at, const struct sp_planned_phase *planned,
                                struct sp_trial_figures *ret_figures, struct sp_error *err)
{
    struct sp_trial trial = {.serving = &c->serving, .copies = copies, .planned = *planned};
    struct sp_error why = {0};
    enum sp_status status = sp_copy_plan(&c->serving.question, cluster, at, &trial.copy, &why);
    return sp_choosing_take(c, &trial, status, &why, ret_figures, err);
}

/* Plans for all phases and judges. The copy is written at the sizes of the phase that takes most of a request's runs.
   Phases that are not of one graph have no such placement. `batches` of phases that leave them open, or NULL. */
static enum sp_status try_together(struct sp_choosing *c, const struct sp_cluster *cluster, uint32_t copies,
                                   uint32_t count, const struct sp_copy_phase *phases, const int64_t *batches,
                                   struct sp_error *err)
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
    trial.planned = (struct sp_planned_phase){phases[planned].name, planned, batches != NULL ? batches[planned] : 0};
    enum sp_status status =
        sp_copy_plan_phases(&c->serving.question, cluster, count, phases, planned, &trial.copy, &why);
    if (status == SP_ERR_REQUEST && strcmp(why.code, "PHASES_DIFFER") == 0)
        return SP_OK;
    return sp_choosing_take(c, &trial, status, &why, &figures, err);
}

/* ---- placements with micro-batches -------------------------------------------------------------------------------- */

/* The options' number; 1 where it is open. */
static uint32_t asked_cuts(const struct sp_choosing *c)
{
    const uint32_t asked = c->serving.options.micro_batches;
    return asked > 1 && asked != SP_MICRO_BATCHES_AUTO ? asked : 1;
}

/* What a copy is planned for, in some number of parts. */
struct cut_trials {
    const struct sp_cluster *cluster;
    uint32_t copies;
    struct sp_planned_phase planned;
    const struct sp_sizes *sizes; /* of whole runs; NULL: of decode steps */
    int64_t sequences;            /* of these */
};

/* Steps of a language model are cut in groups of sequences, each planned as a step of its own. */
static enum sp_status try_cut(struct sp_choosing *c, const struct cut_trials *trials, uint32_t parts,
                              struct sp_trial_figures *ret_figures, struct sp_error *err)
{
    struct sp_cut_sizes at = {.micro_batches = 1};
    enum sp_status status = SP_OK;
    if (trials->sizes != NULL)
        at = (struct sp_cut_sizes){*trials->sizes, parts};
    else
        status = sp_llm_decode_sizes(&c->serving.llm, (trials->sequences + parts - 1) / parts, &at.sizes, err);
    if (status == SP_OK)
        status = try_sizes(c, trials->cluster, trials->copies, &at, &trials->planned, ret_figures, err);
    return status;
}

static double value_of(const struct sp_choosing *c, const struct sp_trial_figures *figures)
{
    return figures->fits && figures->limit_ratio <= 1 ? sp_service_value(&c->serving, &figures->service) : INFINITY;
}

/* Placements that are planned for 2, 4 .. parts, where the options ask for the best number: until one is no better than the
   one before, or the batch cannot be cut. */
static enum sp_status try_more_cuts(struct sp_choosing *c, const struct cut_trials *trials,
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

static enum sp_status try_llm(struct sp_choosing *c, const struct sp_cluster *cluster, uint32_t copies,
                              struct sp_error *err)
{
    const struct sp_traffic *traffic = c->serving.traffic;
    const bool is_given = traffic->concurrency > 0 && traffic->rate_per_second <= 0;
    const int64_t first = is_given ? (traffic->concurrency + copies - 1) / copies : FIRST_CONCURRENCY;
    struct cut_trials trials = {cluster, copies, {"decode", 1, 0}, NULL, first};
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
        status = try_sizes(c, cluster, copies, &prefill, &(struct sp_planned_phase){"prefill", 0, 0}, &of_prefill, err);
    const struct sp_copy_phase phases[] = {
        {"prefill", prefill.sizes, 1}, {"decode", decode.sizes, (traffic->output.mean - 1) / (double)trials.sequences}};
    return status == SP_OK ? try_together(c, cluster, copies, 2, phases, NULL, err) : status;
}

/* As the options ask; whole where they ask for a number that does not divide this batch. */
static enum sp_status try_phase(struct sp_choosing *c, const struct cut_trials *trials, bool *ret_cut,
                                struct sp_trial_figures *ret_figures, struct sp_error *err)
{
    const uint32_t asked = asked_cuts(c);
    struct sp_error why = {0};
    enum sp_status status = try_cut(c, trials, asked, ret_figures, &why);
    *ret_cut = !sp_is_uneven_cut(status, &why);
    if (!*ret_cut) {
        c->uneven = why;
        status = try_cut(c, trials, 1, ret_figures, &why);
    }
    if (status != SP_OK) {
        if (err != NULL)
            *err = why;
        return status;
    }
    return try_more_cuts(c, trials, ret_figures, err);
}

/* ---- placements with batches -------------------------------------------------------------------------------------- */

#define BATCH_STEP   4 /* between batches of a phase that leaves it open, at which a placement is planned */
#define MOST_REPLANS 3

/* The batch of a phase that is open, while placements for some of them are tried. */
struct open_phase {
    const struct sp_cluster *cluster;
    uint32_t copies, phase;
    int64_t best; /* on the best placement; 0: none keeps the limits so far */
    double value; /* of it */
    bool is_any_cut, is_any;
};

/* *ret_fits: there is a plan at this batch. */
static enum sp_status try_batch(struct sp_choosing *c, struct open_phase *open, int64_t batch, bool *ret_fits,
                                struct sp_error *err)
{
    const uint32_t before = c->serving.candidate_count;
    const struct sp_planned_phase planned = {c->serving.traffic->phases[open->phase].name, open->phase, batch};
    struct sp_trial_figures figures;
    struct sp_sizes sizes;
    bool is_cut = false;
    enum sp_status status = sp_phase_sizes(&c->serving, open->phase, batch, &sizes, err);
    if (status == SP_OK)
        status =
            try_phase(c, &(struct cut_trials){open->cluster, open->copies, planned, &sizes, 0}, &is_cut, &figures, err);
    *ret_fits = c->serving.candidate_count > before;
    if (status != SP_OK || !*ret_fits)
        return status;
    const double now = value_of(c, &figures);
    open->is_any_cut = open->is_any_cut || is_cut;
    if (!open->is_any || now < open->value) {
        open->value = now;
        open->best = figures.batches[open->phase];
    }
    open->is_any = true;
    return SP_OK;
}

/* Placements for batches of first, 4 first, 16 first .., as far as these fit, and for the largest that fits. */
static enum sp_status try_more_batches(struct sp_choosing *c, struct open_phase *open, int64_t first,
                                       struct sp_error *err)
{
    int64_t largest = 0, lacking = first;
    bool fits = true;
    enum sp_status status = SP_OK;
    while (status == SP_OK && lacking <= SP_MOST_BATCH) {
        status = try_batch(c, open, lacking, &fits, err);
        if (!fits)
            break;
        largest = lacking;
        lacking *= BATCH_STEP;
    }
    while (status == SP_OK && !fits && lacking - largest > 1) {
        const int64_t half = (largest + lacking) / 2;
        bool half_fits;
        status = try_batch(c, open, half, &half_fits, err);
        *(half_fits ? &largest : &lacking) = half;
    }
    return status;
}

/* And for the one that is best. */
static enum sp_status try_batches(struct sp_choosing *c, struct open_phase *open, struct sp_error *err)
{
    const int64_t devices = open->cluster->device_count;
    int64_t planned = 0;
    bool fits;
    enum sp_status status = try_more_batches(c, open, 1, err);
    if (status == SP_OK && (devices & (devices - 1)) != 0)
        status = try_more_batches(c, open, devices, err);
    for (int i = 0; status == SP_OK && i < MOST_REPLANS && open->is_any && open->best != planned; i++) {
        planned = open->best;
        status = try_batch(c, open, planned, &fits, err);
    }
    return status;
}

static enum sp_status try_phases(struct sp_choosing *c, const struct sp_cluster *cluster, uint32_t copies,
                                 struct sp_error *err)
{
    const struct sp_traffic *traffic = c->serving.traffic;
    struct sp_copy_phase *phases = SP_NEW_ARRAY(c->serving.arena, traffic->phase_count, struct sp_copy_phase);
    enum sp_status status = SP_OK;
    int64_t batches[SP_MAX_PHASES];
    bool is_any_cut = false;
    if (phases == NULL || c->serving.phases == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && i < traffic->phase_count; i++) {
        const struct sp_planned_phase planned = {traffic->phases[i].name, i, 0};
        struct open_phase open = {.cluster = cluster, .copies = copies, .phase = i};
        struct sp_trial_figures figures;
        bool is_cut = false;
        if (c->serving.batch_is_open[i]) {
            status = try_batches(c, &open, err);
            is_cut = open.is_any_cut;
        } else {
            const struct cut_trials trials = {cluster, copies, planned, &c->serving.phases[i], 0};
            status = try_phase(c, &trials, &is_cut, &figures, err);
        }
        is_any_cut = is_any_cut || is_cut;
        batches[i] = c->serving.batch_is_open[i] && open.best == 0 ? 1 : open.best;
        phases[i] = (struct sp_copy_phase){.name = planned.name, .runs = sp_phase_runs(&c->serving, i, batches[i])};
        if (status == SP_OK)
            status = sp_phase_sizes(&c->serving, i, batches[i], &phases[i].sizes, err);
    }
    if (status == SP_OK && !is_any_cut && c->uneven.status != SP_OK) {
        if (err != NULL)
            *err = c->uneven;
        return c->uneven.status;
    }
    return status == SP_OK ? try_together(c, cluster, copies, traffic->phase_count, phases, batches, err) : status;
}

enum sp_status sp_choosing_try_copies(struct sp_choosing *c, const struct sp_cluster *part, uint32_t copies,
                                      struct sp_error *err)
{
    return c->serving.traffic->is_llm ? try_llm(c, part, copies, err) : try_phases(c, part, copies, err);
}
