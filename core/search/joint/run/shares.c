/*
 * Blocks of devices that are not equal: each device has a share of what is cut, in blocks of equal size.
 *
 * Tried are rows of neighbouring devices: all of them, the parts of the links' levels, and those others that would take
 * least time for the model; each in its best divisions (divisions.h) where it has the whole model, the part of it that its
 * memory is of all memory, or as little as one likes. They become options: plans of one stage, and stages beside blocks of
 * the devices that they leave.
 *
 * Not tried are blocks of devices that are not neighbours. Where links do not tell devices apart, those alike are
 * neighbours (cost/cluster/arrange.c), so of A A B B no two blocks have an A and a B each. They could win where a model
 * has too few operators for [A A] and [B B] to have parts of it by their speed: against a brute force over 200 models of
 * up to three operators no latency was lower, and two intervals were, by 1 and 8 %, both of two operators; on chains of
 * four to six operators one of 21 was, by 5 % (test_shares).
 */
#include <math.h>
#include <string.h>

#include "search/joint/run/divisions.h"
#include "search/joint/run/run.h"
#include "search/joint/unequal/unequal.h"

#define FEW_TRIED  2 /* numbers of blocks at once, for some of the devices */
#define MOST_ROWS  8 /* of devices */
#define OTHER_ROWS 4 /* that are no part of a level */

static bool differ(const struct sp_joint *joint, uint32_t a, uint32_t b)
{
    return joint->workload->kind_of[a] != joint->workload->kind_of[b] ||
           sp_cluster_memory(joint->cluster, a) != sp_cluster_memory(joint->cluster, b);
}

static bool are_unequal(const struct sp_joint *joint, uint32_t first, uint32_t size)
{
    return sp_space_is_unequal(joint->space, joint->workload, first, size);
}

/* Of the memory of all devices, what the row has. */
static double memory_part(const struct sp_device_row *row)
{
    const struct sp_cluster *cluster = row->joint->cluster;
    double own = 0, all = 0;
    for (uint32_t d = 0; d < cluster->device_count; d++) {
        all += sp_cluster_memory(cluster, d);
        own += d >= row->first && d - row->first < row->size ? sp_cluster_memory(cluster, d) : 0;
    }
    return own / all;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* All rows that are worth trying, the best ones first. */
struct rows {
    struct sp_search_run *search;
    double undivided[SP_SHARES_BLOCKS + 1];
    uint32_t count;
    struct sp_device_row of[MOST_ROWS];
};

/* Whether devices are all of a part of some level of the links. */
static bool is_part(const struct sp_cluster *cluster, uint32_t first, uint32_t size)
{
    const uint32_t last = first + size - 1, devices = cluster->device_count;
    const struct sp_mesh_level *link = sp_cluster_link(cluster, first, last);
    return (first == 0 || sp_cluster_link(cluster, first - 1, last) < link) &&
           (last + 1 == devices || sp_cluster_link(cluster, first, last + 1) < link);
}

/* False where the devices cannot run the model, or nothing divides it. */
static bool make_row(const struct rows *rows, uint32_t first, uint32_t size, struct sp_device_row *ret_row)
{
    const struct sp_joint *joint = &rows->search->joint;
    struct sp_device_row row = {.joint = joint, .undivided = rows->undivided, .first = first, .size = size};
    struct sp_shares best[1 + SP_SHARES_FINER];
    if (!are_unequal(joint, first, size))
        return false;
    for (uint32_t d = 0; d < size; d++) {
        row.speeds[d] = sp_device_speed(joint, first + d);
        if (row.speeds[d] <= 0)
            return false;
    }
    if (sp_row_divisions(&row, 1, 1, best) == 0 && sp_row_divisions(&row, memory_part(&row), 1, best) == 0)
        return false;
    row.seconds = best[0].seconds;
    *ret_row = row;
    return true;
}

/* Whether the devices are blocks of a row that is known, which follow one another. */
static bool is_repeated(const struct rows *rows, const struct sp_device_row *row)
{
    const struct sp_joint *joint = row->joint;
    for (uint32_t i = 0; i < rows->count; i++) {
        const struct sp_device_row *other = &rows->of[i];
        uint32_t d = other->first;
        if (other->size != row->size || row->first < d || (row->first - d) % row->size != 0)
            continue;
        while (d < row->first && !differ(joint, d, d + row->size))
            d++;
        if (d == row->first)
            return true;
    }
    return false;
}

/* Whether one row comes before another: for few devices the one with fewer. */
static bool is_before(const struct sp_device_row *a, const struct sp_device_row *b)
{
    if (a->joint->options->objective == SP_OBJECTIVE_DEVICES && a->size != b->size)
        return a->size < b->size;
    return a->seconds < b->seconds;
}

/* Adds a row behind those from `from` on that come before it, and drops the last one of more than `most`. */
static void add_row(struct rows *rows, uint32_t from, uint32_t most, const struct sp_device_row *row)
{
    uint32_t at = rows->count;
    const uint32_t room = from + most < MOST_ROWS ? from + most : MOST_ROWS;
    while (at > from && is_before(row, &rows->of[at - 1]))
        at--;
    if (at >= room)
        return;
    rows->count += rows->count < room;
    memmove(&rows->of[at + 1], &rows->of[at], (rows->count - 1 - at) * sizeof *rows->of);
    rows->of[at] = *row;
}

static void list_rows(struct rows *rows)
{
    const struct sp_cluster *cluster = rows->search->joint.cluster;
    const uint32_t devices = cluster->device_count;
    for (uint32_t round = 0; round < 2; round++) {
        const uint32_t from = rows->count;
        for (uint32_t first = 0; first < devices; first++) {
            for (uint32_t size = 2; size <= SP_STRATEGY_MEMBERS && first + size <= devices; size++) {
                struct sp_device_row row;
                if (is_part(cluster, first, size) == (round == 0) && make_row(rows, first, size, &row) &&
                    !is_repeated(rows, &row))
                    add_row(rows, from, round == 0 ? MOST_ROWS : OTHER_ROWS, &row);
            }
        }
    }
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */

/* What the devices of a plan hold beside their shares of the weights: least where most of the model is divided. */
static void note_spare(struct sp_device_row *row, const struct sp_evaluation *evaluation, struct sp_shares *shares)
{
    double most = 0;
    for (uint32_t d = 0; d < row->size; d++) {
        const struct sp_stage_cost *cost = &evaluation->members[row->first + d];
        const double weights = row->joint->workload->weight_bytes * shares->of[d] / shares->blocks;
        const double own = fmax(0, cost->total_bytes - weights);
        row->spare[d] = row->is_known ? fmin(row->spare[d], own) : own;
        if (cost->total_bytes - cost->capacity_bytes <= most)
            continue;
        most = cost->total_bytes - cost->capacity_bytes;
        shares->lacking = d + 1;
    }
    row->is_known = true;
    row->lacks = row->lacks || evaluation->worst_excess_bytes > 0;
}

/* The whole model on one block of the row. */
static enum sp_status propose_whole(struct sp_search_run *search, struct sp_device_row *row, struct sp_shares *shares,
                                    const struct sp_model_choice *profile)
{
    struct sp_joint *joint = &search->joint;
    const struct sp_proposal proposal = {
        .profile_count = 1, .profiles = &profile, .objective = search->proposed, .max_stages = 1, .max_replicas = 1};
    struct sp_joint_candidate *candidate = NULL;
    sp_space_lay(joint->space, row->class_bit, true);
    enum sp_status status = joint->options->constraints == NULL
                                ? sp_joint_propose_whole(joint, &proposal, &candidate, search->err)
                                : sp_joint_propose(joint, &proposal, &candidate, search->err);
    sp_space_lay(joint->space, 0, true);
    if (status != SP_OK || candidate == NULL)
        return status;
    note_spare(row, candidate->evaluation, shares);
    return candidate->fits ? sp_run_take(search, candidate, SP_STRATEGY_TENSOR) : SP_OK;
}

/* Strategies for the whole model in these shares, for stages of any part of it, too. */
static enum sp_status try_shares(struct sp_search_run *search, struct sp_device_row *row, struct sp_shares *shares)
{
    struct sp_joint *joint = &search->joint;
    struct sp_profile_request request = {
        .workload = joint->workload,
        .option = sp_space_add_shares(joint->space, joint->workload, row->first, row->size, shares->of),
        .blocks = joint->blocks,
        .constraints = joint->options->constraints,
        .memory_limit = INFINITY,
        .seed = joint->options->seed,
        .choice_work = SP_JOINT_CHOICE_WORK,
        .executor = joint->options->executor,
        .watch = joint->options->watch};
    struct sp_model_choice *profile = NULL;
    if (request.option == NULL)
        return SP_OK;
    enum sp_status status = sp_joint_table(joint, request.option, &request.table, search->err);
    if (status == SP_OK)
        status = sp_profile_create(joint->arena, &request, &profile, search->err);
    if (status != SP_OK || profile == NULL)
        return status;
    row->seconds = row->class_bit == 0 ? profile->total_seconds : fmin(row->seconds, profile->total_seconds);
    row->class_bit = sp_space_unequal_bit(joint->space, request.option);
    search->profiles[search->profile_count++] = search->plain[search->plain_count++] = profile;
    return propose_whole(search, row, shares, profile);
}

/* The divisions of a row where it has a part of the weights that were not tried before. */
static enum sp_status try_best(struct sp_search_run *search, struct sp_device_row *row, double part, uint32_t most)
{
    struct sp_shares best[SP_SHARES_TRIED + SP_SHARES_FINER];
    const uint32_t kept = sp_row_divisions(row, part, most, best), before = row->tried_count;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < kept && status == SP_OK && sp_run_goes_on(search, 0.9); i++) {
        bool is_known = false;
        for (uint32_t k = 0; k < before && !is_known; k++)
            is_known = memcmp(row->tried[k].of, best[i].of, sizeof best[i].of) == 0;
        if (is_known)
            continue;
        struct sp_shares *tried = &row->tried[row->tried_count++];
        *tried = best[i];
        status = try_shares(search, row, tried);
    }
    return status;
}

static enum sp_status try_row(struct sp_search_run *search, struct sp_device_row *row)
{
    const bool is_all = row->size == search->joint.cluster->device_count;
    const uint32_t most = is_all ? SP_SHARES_TRIED : FEW_TRIED;
    enum sp_status status = SP_OK;
    for (uint32_t round = 0; status == SP_OK && round < SP_SHARES_ROUNDS && (round == 0 || row->lacks); round++) {
        row->lacks = false;
        status = try_best(search, row, 1, most);
    }
    /* Of stages whose part of the model is smaller: as much as their memory is, and as little as one likes. */
    if (status == SP_OK && !is_all)
        status = try_best(search, row, memory_part(row), 1);
    if (status == SP_OK && !is_all)
        status = try_best(search, row, 0, 1);
    return status;
}

/* Whether a block gains anything beside others: its devices one after the other, each with the part that its memory is of
   theirs, would take longer. */
static bool gains(const struct sp_device_row *row)
{
    const struct sp_cluster *cluster = row->joint->cluster;
    double memory = 0, seconds = 0;
    for (uint32_t d = 0; d < row->size; d++) {
        memory += sp_cluster_memory(cluster, row->first + d);
        seconds += sp_cluster_memory(cluster, row->first + d) / row->speeds[d];
    }
    return row->class_bit != 0 && row->size < cluster->device_count && row->seconds * memory < seconds;
}

/* Stages of these blocks and of what they leave. */
static enum sp_status propose_stages(struct sp_search_run *search, uint32_t classes)
{
    if (classes == 0 || search->joint.options->strategy == SP_STRATEGY_TENSOR || !sp_run_goes_on(search, 0.92))
        return SP_OK;
    sp_space_lay(search->joint.space, classes, true);
    const enum sp_status status = sp_run_propose_laid(search);
    sp_space_lay(search->joint.space, 0, true);
    return status;
}

/* Rows that have no device in common, as many as there are. */
static uint32_t rows_together(const struct rows *rows)
{
    uint32_t classes = 0, count = 0;
    const struct sp_device_row *taken[MOST_ROWS];
    for (uint32_t i = 0; i < rows->count; i++) {
        const struct sp_device_row *row = &rows->of[i];
        uint32_t k = 0;
        if (!gains(row))
            continue;
        while (k < count &&
               (row->first + row->size <= taken[k]->first || taken[k]->first + taken[k]->size <= row->first))
            k++;
        if (k < count)
            continue;
        taken[count++] = row;
        classes |= row->class_bit;
    }
    return count > 1 ? classes : 0;
}

bool sp_run_tries_shares(const struct sp_search_run *search)
{
    const struct sp_joint *joint = &search->joint;
    const enum sp_search_strategy strategy = joint->options->strategy;
    const uint32_t devices = joint->cluster->device_count;
    return joint->dataflow != NULL && devices > 1 && joint->cluster->level_count > 0 &&
           strategy != SP_STRATEGY_PIPELINE && strategy != SP_STRATEGY_GROUPING && are_unequal(joint, 0, devices);
}

enum sp_status sp_run_propose_shares(struct sp_search_run *search)
{
    struct sp_space *space = search->joint.space;
    struct rows rows = {.search = search};
    if (!sp_run_tries_shares(search))
        return SP_OK;
    search->proposed = search->options.objective;
    enum sp_status status = sp_undivided_find(&search->joint, rows.undivided, search->err);
    if (status == SP_OK)
        list_rows(&rows);
    for (uint32_t i = 0; status == SP_OK && i < rows.count; i++)
        status = try_row(search, &rows.of[i]);
    for (uint32_t i = 0; status == SP_OK && i < rows.count; i++)
        status = propose_stages(search, gains(&rows.of[i]) ? rows.of[i].class_bit : 0);
    if (status == SP_OK)
        status = propose_stages(search, rows_together(&rows));
    sp_space_lay(space, UINT32_MAX, false);
    if (status == SP_OK)
        status = sp_run_propose_mixed(search);
    sp_space_lay(space, 0, true);
    return status;
}
