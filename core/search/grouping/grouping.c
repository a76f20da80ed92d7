#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "search/grouping/internal.h"

/* Orders of devices that are tried when they differ: as given, reversed, fastest, slowest and largest first. */
#define MOST_DEVICE_ORDERS 5

struct starts {
    struct sp_grouping_search *search;
    const struct sp_subgraphs *subgraphs;
    struct sp_candidate trial, *best;
    uint32_t *group_of;
    double *weights;
};

static bool fits(const struct sp_candidate *candidate)
{
    return candidate->score.valid && candidate->score.excess_bytes <= 0;
}

static void note_best(struct sp_grouping_search *search, const struct sp_candidate *candidate)
{
    if (!fits(candidate))
        return;
    double seconds = search->objective == SP_OBJECTIVE_LATENCY ? candidate->score.latency : candidate->score.interval;
    if (search->best_seconds == 0 || seconds < search->best_seconds)
        search->best_seconds = seconds;
    if (sp_score_better(search, &candidate->score, &search->incumbent.score))
        sp_candidate_copy(search, &search->incumbent, candidate);
}

static bool done_early(const struct starts *starts)
{
    return !starts->search->optimal && fits(starts->best);
}

/* One start from the subgraphs: divided by `weights`, then moved. */
static enum sp_status start_divided(struct starts *starts, const double *weights)
{
    struct sp_grouping_search *search = starts->search;
    sp_initial_division(starts->subgraphs->count, weights, search->stage_limit, starts->group_of);
    enum sp_status status = sp_move_subgraphs(search, starts->subgraphs, starts->group_of, &starts->trial);
    if (status != SP_OK)
        return status;
    note_best(search, &starts->trial);
    if (sp_score_better(search, &starts->trial.score, &starts->best->score))
        sp_candidate_copy(search, starts->best, &starts->trial);
    return SP_OK;
}

/* By memory as PopRT does, by work, and by number. */
static enum sp_status start_subgraphs(struct starts *starts)
{
    const struct sp_subgraphs *subgraphs = starts->subgraphs;
    uint64_t evaluations = starts->search->evaluations_left;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < subgraphs->count; i++)
        starts->weights[i] = 1;
    const double *weights[] = {subgraphs->bytes, subgraphs->seconds, starts->weights};
    for (int i = 0; i < 3 && status == SP_OK && !done_early(starts); i++) {
        starts->search->evaluations_left = evaluations / 3;
        status = start_divided(starts, weights[i]);
    }
    starts->search->evaluations_left = evaluations;
    return status;
}

/* ---- orders of devices ---- */

struct ranked {
    double key;
    uint32_t device;
};

SP_ASCENDING(by_rank, struct ranked, key, device)

/* The devices in order number `order`; false without memory. */
static bool order_devices(struct sp_grouping_search *search, uint32_t order)
{
    const struct sp_workload *workload = search->workload;
    uint32_t count = search->cluster->device_count;
    struct sp_arena_mark mark = sp_arena_mark(search->arena);
    struct ranked *ranked = SP_NEW_ARRAY(search->arena, count, struct ranked);
    double *seconds = SP_NEW_ARRAY(search->arena, workload->kind_count, double);
    if (ranked == NULL || seconds == NULL)
        return false;
    for (uint32_t i = 0; i < search->live_count; i++)
        for (uint32_t kind = 0; kind < workload->kind_count; kind++)
            seconds[kind] += workload->nodes[search->live[i]].seconds[kind];
    for (uint32_t i = 0; i < count; i++) {
        double time = seconds[workload->kind_of[i]];
        double keys[MOST_DEVICE_ORDERS] = {i, -(double)i, time, -time, -sp_cluster_room(search->cluster, i)};
        ranked[i] = (struct ranked){keys[order], i};
    }
    qsort(ranked, count, sizeof *ranked, by_rank);
    for (uint32_t i = 0; i < count; i++)
        search->devices[i] = ranked[i].device;
    sp_arena_rewind(search->arena, mark);
    return true;
}

/* ---- one share of memory ---- */

static enum sp_status search_at_share(struct sp_grouping_search *search, const struct sp_subgraphs *subgraphs,
                                      struct sp_candidate *best)
{
    struct sp_arena_mark mark = sp_arena_mark(search->arena);
    struct starts starts = {.search = search, .subgraphs = subgraphs, .best = best};
    starts.group_of = SP_NEW_ARRAY(search->arena, subgraphs->count, uint32_t);
    starts.weights = SP_NEW_ARRAY(search->arena, subgraphs->count, double);
    if (starts.group_of == NULL || starts.weights == NULL)
        return sp_fail_memory(search->err);
    enum sp_status status = sp_candidate_init(search, &starts.trial);
    uint32_t orders = search->same_devices ? 1 : MOST_DEVICE_ORDERS;
    best->score.valid = false;
    for (uint32_t order = 0; order < orders && status == SP_OK && !done_early(&starts); order++)
        status = order_devices(search, order) ? start_subgraphs(&starts) : sp_fail_memory(search->err);
    if (status == SP_OK && search->optimal) {
        status = sp_move_nodes(search, best);
        note_best(search, best);
    }
    sp_arena_rewind(search->arena, mark);
    return status;
}

/* ---- the whole search ---- */

static enum sp_status run_schedule(struct sp_grouping_search *search, const struct sp_grouping_options *options,
                                   const struct sp_subgraphs *subgraphs, struct sp_candidate *best)
{
    struct sp_grouping_options defaults;
    sp_grouping_options_init(&defaults);
    uint32_t steps = options->memory_step_count;
    const double *shares = options->memory_steps;
    if (steps == 0) {
        steps = defaults.memory_step_count;
        shares = defaults.memory_steps;
    }
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < steps && status == SP_OK; i++) {
        search->share = shares[i];
        search->fraction = (double)i / steps;
        status = search_at_share(search, subgraphs, best);
        if (status == SP_OK && fits(best))
            break;
    }
    return status;
}

/* A model without work: everything is folded, or there are no nodes. */
static void place_nothing(const struct sp_grouping_search *search, struct sp_candidate *best)
{
    best->stage_count = 1;
    best->stage_device[0] = 0;
    memset(best->stage_of, 0, search->workload->node_count * sizeof *best->stage_of);
}

static enum sp_status check_options(const struct sp_grouping_options *options, struct sp_error *err)
{
    if (options->memory_step_count > SP_MAX_MEMORY_STEPS)
        return sp_fail_limit(err, "TOO_MANY_MEMORY_STEPS", "SP_MAX_MEMORY_STEPS", SP_MAX_MEMORY_STEPS,
                             options->memory_step_count, "A search takes at most %d shares of memory; %u were given.",
                             SP_MAX_MEMORY_STEPS, options->memory_step_count);
    for (uint32_t i = 0; i < options->memory_step_count; i++)
        if (!(options->memory_steps[i] > 0) || options->memory_steps[i] > 1)
            return sp_fail(err, SP_ERR_REQUEST, "BAD_MEMORY_STEP",
                           "A share of a device's memory is above 0 and at most 1; %g is not.",
                           options->memory_steps[i]);
    return SP_OK;
}

enum sp_status sp_group(struct sp_arena *arena, const struct sp_workload *workload, const struct sp_cluster *cluster,
                        const struct sp_grouping_options *options, struct sp_grouping_result **ret_result,
                        struct sp_error *err)
{
    enum sp_status status = check_options(options, err);
    if (status != SP_OK)
        return status;
    struct sp_grouping_result *result = SP_NEW(arena, struct sp_grouping_result);
    uint32_t *stage_of = SP_NEW_ARRAY(arena, workload->node_count, uint32_t);
    uint32_t *stage_device = SP_NEW_ARRAY(arena, cluster->device_count, uint32_t);
    struct sp_arena *scratch = sp_arena_create(sp_arena_budget(arena));
    if (result == NULL || stage_of == NULL || stage_device == NULL || scratch == NULL) {
        sp_arena_destroy(scratch);
        return sp_fail_memory(err);
    }

    struct sp_grouping_search search;
    struct sp_subgraphs *subgraphs = NULL;
    struct sp_candidate best = {0, stage_of, stage_device, {0}};
    status = sp_search_init(&search, scratch, workload, cluster, options, err);
    if (status == SP_OK)
        status = sp_find_subgraphs(scratch, workload, &subgraphs, err);
    if (status != SP_OK)
        goto out;
    if (search.live_count == 0)
        place_nothing(&search, &best);
    else if ((status = sp_candidate_init(&search, &search.incumbent)) == SP_OK)
        status = run_schedule(&search, options, subgraphs, &best);
    if (status == SP_ERR_CANCELLED && search.incumbent.score.valid) {
        sp_candidate_copy(&search, &best, &search.incumbent);
        result->stopped = true;
        sp_error_clear(err);
        status = SP_OK;
    }
    if (status != SP_OK)
        goto out;
    result->placement = (struct sp_placement){best.stage_count, stage_of, stage_device};
    result->candidates = subgraphs->candidate_count;
    result->subgraphs = subgraphs->count;
    result->explored = search.explored;
    result->accepted = search.accepted;
    result->memory_share = search.share;
    status = sp_evaluate(arena, workload, cluster, &result->placement, &result->evaluation, err);
    if (status != SP_OK)
        goto out;
    *ret_result = result;
    if (search.live_count > 0 && !fits(&best))
        status = sp_fail(err, SP_ERR_NOFIT, "NO_FIT", "No grouping of whole operators fits.");
out:
    sp_arena_destroy(scratch);
    return status;
}

enum sp_status sp_group_improve(struct sp_arena *arena, const struct sp_workload *workload,
                                const struct sp_cluster *cluster, const struct sp_grouping_options *options,
                                struct sp_placement *placement, uint64_t *explored, struct sp_error *err)
{
    struct sp_arena *scratch = sp_arena_create(sp_arena_budget(arena));
    struct sp_grouping_search search;
    struct sp_candidate candidate;
    if (scratch == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_search_init(&search, scratch, workload, cluster, options, err);
    if (status == SP_OK)
        status = sp_candidate_init(&search, &candidate);
    if (status != SP_OK)
        goto out;
    candidate.stage_count = placement->stage_count;
    memcpy(candidate.stage_of, placement->stage_of, workload->node_count * sizeof *candidate.stage_of);
    memcpy(candidate.stage_device, placement->stage_device, placement->stage_count * sizeof *candidate.stage_device);
    status = sp_candidate_score(&search, &candidate, NULL);
    if (status == SP_OK)
        status = sp_move_nodes(&search, &candidate);
    if (status == SP_OK && options->saves_bytes && fits(&candidate)) {
        search.ceiling = candidate.score.interval * (1 + SP_SAVING_TOLERANCE);
        status = sp_move_nodes(&search, &candidate);
    }
    *explored += search.explored;
    if (status != SP_OK && status != SP_ERR_CANCELLED)
        goto out;
    sp_error_clear(err);
    status = SP_OK;
    placement->stage_count = candidate.stage_count;
    memcpy(placement->stage_of, candidate.stage_of, workload->node_count * sizeof *candidate.stage_of);
    memcpy(placement->stage_device, candidate.stage_device, candidate.stage_count * sizeof *candidate.stage_device);
out:
    sp_arena_destroy(scratch);
    return status;
}
