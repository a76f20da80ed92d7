#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "search/grouping/internal.h"

/* How many different placements are improved to the end; of large models only the best one. */
#define MOST_KEPT 3

/* Orders of devices that are tried when they differ: as given, reversed, fastest, slowest and largest first. */
#define MOST_DEVICE_ORDERS 5

/* The best placements so far, best first, no two of the same score. */
struct kept {
    struct sp_candidate list[MOST_KEPT]; /* all with memory of their own, also beyond `count` */
    uint32_t count, room;
};

struct starts {
    struct sp_grouping_search *search;
    const struct sp_subgraphs *subgraphs;
    struct sp_candidate trial;
    struct kept kept;
    uint32_t *group_of;
    double *weights;
    uint32_t *line; /* room for a line */
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

/* Keeps a copy of the trial if it is among the best. */
static void keep(struct starts *starts)
{
    struct sp_grouping_search *search = starts->search;
    struct kept *kept = &starts->kept;
    const struct sp_candidate *trial = &starts->trial;
    uint32_t at = 0;
    note_best(search, trial);
    while (at < kept->count && !sp_score_better(search, &trial->score, &kept->list[at].score))
        at++;
    /* Not better than the one before and not worse either: the same for our purposes. */
    if (at == kept->room || (at > 0 && !sp_score_better(search, &kept->list[at - 1].score, &trial->score)))
        return;
    if (kept->count < kept->room)
        kept->count++;
    struct sp_candidate spare = kept->list[kept->count - 1];
    memmove(&kept->list[at + 1], &kept->list[at], (kept->count - 1 - at) * sizeof kept->list[0]);
    kept->list[at] = spare;
    sp_candidate_copy(search, &kept->list[at], trial);
}

static bool done_early(const struct starts *starts)
{
    return !starts->search->optimal && starts->kept.count > 0 && fits(&starts->kept.list[0]);
}

/* One start from the subgraphs: divided by `weights`, then moved. */
static enum sp_status start_divided(struct starts *starts, const double *weights)
{
    struct sp_grouping_search *search = starts->search;
    sp_initial_division(starts->subgraphs->count, weights, search->stage_limit, starts->group_of);
    enum sp_status status = sp_move_subgraphs(search, starts->subgraphs, starts->group_of, &starts->trial);
    if (status == SP_OK)
        keep(starts);
    return status;
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

/* One start from a line: as few stages as possible, then the shortest interval, then the exact cuts. */
static enum sp_status start_line(struct starts *starts, const uint32_t *line)
{
    struct sp_grouping_search *search = starts->search;
    struct sp_candidate *trial = &starts->trial;
    double ceiling = HUGE_VAL, interval;
    uint32_t stuck;
    bool packed;
    enum sp_status status = sp_pack(search, line, HUGE_VAL, trial, &packed, &interval, &stuck);
    if (status == SP_OK && packed && (status = sp_candidate_score(search, trial, NULL)) == SP_OK)
        keep(starts);
    if (status != SP_OK || done_early(starts))
        return status;
    if (packed && search->objective != SP_OBJECTIVE_LATENCY) {
        status = sp_pack_best(search, line, trial, &packed);
        if (status == SP_OK && packed && (status = sp_candidate_score(search, trial, NULL)) == SP_OK) {
            keep(starts);
            if (fits(trial))
                ceiling = trial->score.interval * (1 + 1e-9);
        }
    }
    if (status != SP_OK)
        return status;
    status = sp_pack_exact(search, line, ceiling, trial, &packed);
    if (status == SP_OK && packed && (status = sp_candidate_score(search, trial, NULL)) == SP_OK)
        keep(starts);
    return status;
}

/* Small models are also cut along other orders of their parallel parts: as many as come to this many nodes. */
#define SCRAMBLED_NODES 8000
#define MOST_SCRAMBLED  32

static enum sp_status start_scrambled(struct starts *starts)
{
    struct sp_grouping_search *search = starts->search;
    uint32_t count = SCRAMBLED_NODES / search->live_count;
    enum sp_status status = SP_OK;
    for (uint32_t seed = 1; seed <= count && seed <= MOST_SCRAMBLED && status == SP_OK && !done_early(starts); seed++) {
        status = sp_line_scrambled(search, seed, starts->line);
        if (status == SP_OK)
            status = start_line(starts, starts->line);
    }
    return status;
}

static enum sp_status start_branches(struct starts *starts)
{
    for (int behind_all_sources = 0; behind_all_sources < 2; behind_all_sources++) {
        bool made;
        enum sp_status status = sp_branches(starts->search, behind_all_sources, &starts->trial, &made);
        if (status == SP_OK && made && (status = sp_candidate_score(starts->search, &starts->trial, NULL)) == SP_OK)
            keep(starts);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
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
        double keys[MOST_DEVICE_ORDERS] = {i, -(double)i, time, -time, -sp_cluster_memory(search->cluster, i)};
        ranked[i] = (struct ranked){keys[order], i};
    }
    qsort(ranked, count, sizeof *ranked, by_rank);
    for (uint32_t i = 0; i < count; i++)
        search->devices[i] = ranked[i].device;
    sp_arena_rewind(search->arena, mark);
    return true;
}

/* ---- one share of memory ---- */

static enum sp_status start_all(struct starts *starts)
{
    struct sp_grouping_search *search = starts->search;
    uint32_t orders = search->same_devices ? 1 : MOST_DEVICE_ORDERS;
    enum sp_status status = SP_OK;
    for (uint32_t order = 0; order < orders && status == SP_OK && !done_early(starts); order++) {
        if (!order_devices(search, order))
            return sp_fail_memory(search->err);
        status = start_subgraphs(starts);
        for (uint32_t i = 0; i < search->line_count && status == SP_OK && !done_early(starts); i++)
            status = start_line(starts, search->lines[i]);
        if (status == SP_OK && search->line_count > 1)
            status = start_scrambled(starts);
        if (status == SP_OK && search->objective == SP_OBJECTIVE_LATENCY && !done_early(starts))
            status = start_branches(starts);
        if (status == SP_OK && search->live_count <= SP_EXHAUSTIVE_NODES && !done_early(starts)) {
            starts->trial.score.valid = false;
            status = sp_exhaust(search, &starts->trial);
            if (status == SP_OK && starts->trial.score.valid)
                keep(starts);
        }
    }
    return status;
}

static enum sp_status improve_all(struct starts *starts)
{
    struct sp_grouping_search *search = starts->search;
    struct kept *kept = &starts->kept;
    for (uint32_t i = 0; i < kept->count; i++) {
        if (!search->optimal && fits(&kept->list[0]))
            break;
        enum sp_status status = sp_sweep(search, &kept->list[i]);
        if (status == SP_OK && search->optimal)
            status = sp_move_nodes(search, &kept->list[i]);
        if (status != SP_OK)
            return status;
        note_best(search, &kept->list[i]);
    }
    return SP_OK;
}

enum sp_status sp_search_at_share(struct sp_grouping_search *search, const struct sp_subgraphs *subgraphs,
                                  struct sp_candidate *best)
{
    struct sp_arena_mark mark = sp_arena_mark(search->arena);
    struct starts starts = {.search = search, .subgraphs = subgraphs};
    starts.kept.room = search->live_count > SP_LARGE_MODEL ? 1 : MOST_KEPT;
    starts.group_of = SP_NEW_ARRAY(search->arena, subgraphs->count, uint32_t);
    starts.weights = SP_NEW_ARRAY(search->arena, subgraphs->count, double);
    starts.line = SP_NEW_ARRAY(search->arena, search->live_count, uint32_t);
    if (starts.group_of == NULL || starts.weights == NULL || starts.line == NULL)
        return sp_fail_memory(search->err);
    enum sp_status status = sp_candidate_init(search, &starts.trial);
    for (uint32_t i = 0; i < starts.kept.room && status == SP_OK; i++)
        status = sp_candidate_init(search, &starts.kept.list[i]);
    if (status == SP_OK)
        status = start_all(&starts);
    if (status == SP_OK)
        status = improve_all(&starts);
    if (status != SP_OK)
        return status;

    uint32_t first = 0;
    for (uint32_t i = 1; i < starts.kept.count; i++)
        if (sp_score_better(search, &starts.kept.list[i].score, &starts.kept.list[first].score))
            first = i;
    sp_candidate_copy(search, best, &starts.kept.list[first]);
    sp_arena_rewind(search->arena, mark);
    return search->optimal ? sp_sweep_polish(search, best) : SP_OK;
}

/* ---- the whole search ---- */

/* With the devices objective: how few stages can do, at the largest share of memory. */
static enum sp_status limit_stages(struct sp_grouping_search *search)
{
    struct sp_arena_mark mark = sp_arena_mark(search->arena);
    struct sp_candidate candidate;
    enum sp_status status = sp_candidate_init(search, &candidate);
    uint32_t orders = search->same_devices ? 1 : MOST_DEVICE_ORDERS;
    for (uint32_t order = 0; order < orders && status == SP_OK; order++) {
        if (!order_devices(search, order))
            return sp_fail_memory(search->err);
        for (uint32_t i = 0; i < 2 * search->line_count && status == SP_OK; i++) {
            double interval;
            uint32_t stuck;
            bool packed;
            if (i % 2 == 0)
                status = sp_pack(search, search->lines[i / 2], HUGE_VAL, &candidate, &packed, &interval, &stuck);
            else
                status = sp_pack_exact(search, search->lines[i / 2], HUGE_VAL, &candidate, &packed);
            if (status == SP_OK && packed)
                status = sp_candidate_score(search, &candidate, NULL);
            if (status != SP_OK || !packed)
                continue;
            note_best(search, &candidate);
            if (fits(&candidate) && candidate.stage_count < search->stage_limit)
                search->stage_limit = candidate.stage_count;
        }
        candidate.score.valid = false;
        if (status == SP_OK)
            status = sp_exhaust(search, &candidate); /* small models only */
        if (status == SP_OK && fits(&candidate) && candidate.stage_count < search->stage_limit)
            search->stage_limit = candidate.stage_count;
    }
    sp_arena_rewind(search->arena, mark);
    return status;
}

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
    if (search->objective == SP_OBJECTIVE_DEVICES) {
        search->share = shares[steps - 1];
        status = limit_stages(search);
    }
    for (uint32_t i = 0; i < steps && status == SP_OK; i++) {
        search->share = shares[i];
        search->fraction = (double)i / steps;
        status = sp_search_at_share(search, subgraphs, best);
        if (status == SP_OK && fits(best))
            return SP_OK;
    }
    return status != SP_OK ? status : sp_search_nofit(search, best);
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
    if (status == SP_OK)
        *ret_result = result;
out:
    sp_arena_destroy(scratch);
    return status;
}
