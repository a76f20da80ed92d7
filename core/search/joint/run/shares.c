/*
 * One stage of all devices of a cluster that are not equal: each has a share of what is cut, in blocks of equal size.
 *
 * Shares are tried in any number of blocks, near the devices' ratio of speed, of which each has no more than fits its
 * memory. Those with the least time of the slowest device, which does alone what so many blocks do not divide, become
 * plans.
 */
#include <math.h>
#include <string.h>

#include "search/joint/rechoose.h"
#include "search/joint/run/run.h"

#define MOST_BLOCKS 32
#define MOST_TRIED  6 /* of the numbers of blocks at once */
#define MOST_ROUNDS 3 /* of them: what devices hold beside weights is known when plans were evaluated */

struct shares {
    uint32_t blocks;
    uint32_t of[SP_STRATEGY_MEMBERS];
    double seconds; /* about, without communication */
};

/* What of the model's seconds on device 0 is in operators that so many blocks do not divide, by number of blocks. */
static enum sp_status find_undivided(const struct sp_search_run *search, double undivided[MOST_BLOCKS + 1])
{
    const struct sp_joint *joint = &search->joint;
    const uint32_t kind = joint->workload->kind_of[0];
    struct sp_arena *scratch = sp_arena_create(sp_arena_budget(joint->arena));
    enum sp_status status = scratch == NULL ? sp_fail_memory(search->err) : SP_OK;
    for (uint32_t r = 0; status == SP_OK && r < joint->dataflow->relation_count; r++) {
        const struct sp_relation *relation = &joint->dataflow->relations[r];
        const struct sp_node *node = relation->node;
        struct sp_error why = {0};
        struct sp_rule *rule = NULL;
        if (relation->kind != SP_RELATION_NODE || node->graph != joint->dataflow->model->graph)
            continue;
        struct sp_arena_mark mark = sp_arena_mark(scratch);
        status = sp_dataflow_rule(joint->dataflow, relation, scratch, &rule, &why);
        const uint32_t weight = sp_strategy_weight_of(node);
        const uint64_t numbers = status != SP_OK || rule->input_count != node->input_count
                                     ? 0
                                     : sp_strategy_divisors(rule, weight == UINT32_MAX ? NULL : &rule->inputs[weight]);
        for (uint32_t blocks = 2; blocks <= MOST_BLOCKS; blocks++)
            if ((numbers >> (blocks - 1) & 1) == 0)
                undivided[blocks] += joint->workload->nodes[node->index].seconds[kind];
        status = status == SP_ERR_MEMORY ? sp_fail_memory(search->err) : SP_OK;
        sp_arena_rewind(scratch, mark);
    }
    sp_arena_destroy(scratch);
    return status;
}

static double speed_of(const struct sp_joint *joint, uint32_t device)
{
    double seconds = 0;
    for (uint32_t n = 0; n < joint->workload->node_count; n++)
        seconds += joint->workload->nodes[n].seconds[joint->workload->kind_of[device]];
    return seconds > 0 ? 1 / seconds : 0;
}

static bool are_unequal(const struct sp_joint *joint)
{
    const uint32_t *kind_of = joint->workload->kind_of;
    for (uint32_t d = 1; d < joint->cluster->device_count; d++)
        if (kind_of[d] != kind_of[0] || sp_cluster_memory(joint->cluster, d) != sp_cluster_memory(joint->cluster, 0))
            return true;
    return false;
}

/* What all divisions are made of. */
struct dividing {
    const struct sp_joint *joint;
    double speeds[SP_STRATEGY_MEMBERS];
    double
        spare[SP_STRATEGY_MEMBERS]; /* least bytes that devices held beside their shares of the weights; 0: unknown */
    bool is_known;                  /* some plan was evaluated */
    double undivided[MOST_BLOCKS + 1];
    bool lacks; /* some plan had too little memory */
};

/* So many blocks one by one to the device that is then the first to end, among those with memory for it. A part of the
   work is done by each. */
static bool divide(const struct dividing *dividing, uint32_t blocks, struct shares *ret_shares)
{
    const struct sp_cluster *cluster = dividing->joint->cluster;
    const uint32_t count = cluster->device_count;
    const double block = dividing->joint->workload->weight_bytes / blocks;
    const double undivided = fmin(1, dividing->undivided[blocks] * dividing->speeds[0]);
    struct shares shares = {.blocks = blocks};
    for (uint32_t given = 0; given < blocks; given++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t d = 0; d < count; d++) {
            const double held = (shares.of[d] + 1) * block + dividing->spare[d];
            if (held <= sp_cluster_memory(cluster, d) &&
                (best == UINT32_MAX ||
                 (shares.of[d] + 1) / dividing->speeds[d] < (shares.of[best] + 1) / dividing->speeds[best]))
                best = d;
        }
        if (best == UINT32_MAX)
            return false;
        shares.of[best]++;
    }
    for (uint32_t d = 0; d < count; d++) {
        if (shares.of[d] == 0)
            return false;
        shares.seconds =
            fmax(shares.seconds, (shares.of[d] * (1 - undivided) / blocks + undivided) / dividing->speeds[d]);
    }
    *ret_shares = shares;
    return true;
}

/* The numbers of blocks whose divisions take least, ascending by that; *ret_best has room for MOST_TRIED. */
static uint32_t best_divisions(const struct dividing *dividing, struct shares *ret_best)
{
    uint32_t kept = 0;
    for (uint32_t blocks = dividing->joint->cluster->device_count; blocks <= MOST_BLOCKS; blocks++) {
        struct shares own;
        if (!divide(dividing, blocks, &own))
            continue;
        uint32_t at = kept;
        while (at > 0 && own.seconds < ret_best[at - 1].seconds)
            at--;
        if (at == MOST_TRIED)
            continue;
        kept += kept < MOST_TRIED;
        memmove(&ret_best[at + 1], &ret_best[at], (kept - 1 - at) * sizeof *ret_best);
        ret_best[at] = own;
    }
    return kept;
}

/* ---- plans ------------------------------------------------------------------------------------------------------ */

/* What the devices of a plan hold beside their shares of the weights: least where most of the model is divided. */
static void note_spare(struct dividing *dividing, const struct sp_evaluation *evaluation, const struct shares *shares)
{
    for (uint32_t d = 0; d < dividing->joint->cluster->device_count; d++) {
        const double weights = dividing->joint->workload->weight_bytes * shares->of[d] / shares->blocks;
        const double own = fmax(0, evaluation->members[d].total_bytes - weights);
        dividing->spare[d] = dividing->is_known ? fmin(dividing->spare[d], own) : own;
    }
    dividing->is_known = true;
    dividing->lacks = dividing->lacks || evaluation->worst_excess_bytes > 0;
}

static enum sp_status propose(struct sp_search_run *search, struct dividing *dividing, const struct shares *shares)
{
    struct sp_joint *joint = &search->joint;
    struct sp_profile_request request = {
        .workload = joint->workload,
        .option = sp_space_add_shares(joint->space, joint->workload, 0, joint->cluster->device_count, shares->of),
        .blocks = joint->blocks,
        .memory_limit = INFINITY,
        .seed = joint->options->seed,
        .choice_work = SP_JOINT_CHOICE_WORK,
        .executor = joint->options->executor,
        .watch = joint->options->watch};
    struct sp_model_choice *profile = NULL;
    const uint32_t profile_of = 0;
    if (request.option == NULL)
        return SP_OK;
    enum sp_status status = sp_joint_table(joint, request.option, &request.table, search->err);
    if (status == SP_OK)
        status = sp_profile_create(joint->arena, &request, &profile, search->err);
    if (status != SP_OK || profile == NULL)
        return status;
    struct sp_joint_candidate *candidate = sp_joint_candidate_create(joint, 1);
    if (candidate == NULL)
        return sp_fail_memory(search->err);
    candidate->options[0] = request.option;
    candidate->placement.stage_size[0] = request.option->size;
    candidate->placement.stage_replicas[0] = 1;
    status =
        sp_joint_rechoose(joint, candidate, (const struct sp_model_choice *const *)&profile, &profile_of, search->err);
    if (status != SP_OK)
        return status;
    note_spare(dividing, candidate->evaluation, shares);
    return candidate->fits ? sp_run_take(search, candidate, SP_STRATEGY_TENSOR) : SP_OK;
}

/* The best divisions that were not tried before: `tried` has `*count` of them. */
static enum sp_status propose_best(struct sp_search_run *search, struct dividing *dividing, struct shares *tried,
                                   uint32_t *count)
{
    struct shares best[MOST_TRIED];
    const uint32_t kept = best_divisions(dividing, best), before = *count;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < kept && status == SP_OK && sp_run_goes_on(search, 0.9); i++) {
        bool is_known = false;
        for (uint32_t k = 0; k < before && !is_known; k++)
            is_known = memcmp(tried[k].of, best[i].of, sizeof best[i].of) == 0;
        if (is_known)
            continue;
        tried[(*count)++] = best[i];
        status = propose(search, dividing, &best[i]);
    }
    return status;
}

bool sp_run_tries_shares(const struct sp_search_run *search)
{
    const struct sp_joint *joint = &search->joint;
    const enum sp_search_strategy strategy = joint->options->strategy;
    const uint32_t devices = joint->cluster->device_count;
    return joint->dataflow != NULL && joint->options->constraints == NULL && devices > 1 &&
           devices <= SP_STRATEGY_MEMBERS && joint->cluster->level_count > 0 && strategy != SP_STRATEGY_PIPELINE &&
           strategy != SP_STRATEGY_GROUPING && are_unequal(joint);
}

enum sp_status sp_run_propose_shares(struct sp_search_run *search)
{
    const struct sp_joint *joint = &search->joint;
    const uint32_t devices = joint->cluster->device_count;
    struct dividing dividing = {.joint = joint};
    struct shares tried[MOST_ROUNDS * MOST_TRIED];
    uint32_t count = 0;
    if (!sp_run_tries_shares(search))
        return SP_OK;
    for (uint32_t d = 0; d < devices; d++) {
        dividing.speeds[d] = speed_of(joint, d);
        if (dividing.speeds[d] <= 0)
            return SP_OK;
    }
    enum sp_status status = find_undivided(search, dividing.undivided);
    for (uint32_t round = 0; status == SP_OK && round < MOST_ROUNDS && (round == 0 || dividing.lacks); round++) {
        dividing.lacks = false;
        status = propose_best(search, &dividing, tried, &count);
    }
    return status;
}
