#include "search/joint/run/divisions.h"

#include <math.h>
#include <string.h>

double sp_device_speed(const struct sp_joint *joint, uint32_t device)
{
    double seconds = 0;
    for (uint32_t n = 0; n < joint->workload->node_count; n++)
        seconds += joint->workload->nodes[n].seconds[joint->workload->kind_of[device]];
    return seconds > 0 && isfinite(seconds) ? 1 / seconds : 0;
}

enum sp_status sp_undivided_find(const struct sp_joint *joint, double undivided[SP_SHARES_BLOCKS + 1],
                                 struct sp_error *err)
{
    const uint32_t kind = joint->workload->kind_of[0];
    struct sp_arena *scratch = sp_arena_create(sp_arena_budget(joint->arena));
    enum sp_status status = scratch == NULL ? sp_fail_memory(err) : SP_OK;
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
        for (uint32_t blocks = 2; blocks <= SP_SHARES_BLOCKS; blocks++)
            if ((numbers >> (blocks - 1) & 1) == 0)
                undivided[blocks] += joint->workload->nodes[node->index].seconds[kind];
        status = status == SP_ERR_MEMORY ? sp_fail_memory(err) : SP_OK;
        sp_arena_rewind(scratch, mark);
    }
    const double speed = sp_device_speed(joint, 0);
    for (uint32_t blocks = 2; blocks <= SP_SHARES_BLOCKS; blocks++)
        undivided[blocks] = fmin(1, undivided[blocks] * speed);
    sp_arena_destroy(scratch);
    return status;
}

/* About what the slowest device takes for the model; a part of the work is done by each. */
static void measure(const struct sp_device_row *row, struct sp_shares *shares)
{
    const double undivided = row->undivided[shares->blocks];
    shares->seconds = 0;
    for (uint32_t d = 0; d < row->size; d++)
        shares->seconds =
            fmax(shares->seconds, (shares->of[d] * (1 - undivided) / shares->blocks + undivided) / row->speeds[d]);
}

/* So many blocks one by one to the device that is then the first to end, among those with memory for it where the row has
   `part` of the weights. False where one has none then. */
static bool divide(const struct sp_device_row *row, uint32_t blocks, double part, struct sp_shares *ret_shares)
{
    const struct sp_cluster *cluster = row->joint->cluster;
    const double block = part * row->joint->workload->weight_bytes / blocks;
    struct sp_shares shares = {.blocks = blocks};
    for (uint32_t given = 0; given < blocks; given++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t d = 0; d < row->size; d++) {
            const double held = (shares.of[d] + 1) * block + row->spare[d];
            if (held <= sp_cluster_memory(cluster, row->first + d) &&
                (best == UINT32_MAX || (shares.of[d] + 1) / row->speeds[d] < (shares.of[best] + 1) / row->speeds[best]))
                best = d;
        }
        if (best == UINT32_MAX)
            return false;
        shares.of[best]++;
    }
    for (uint32_t d = 0; d < row->size; d++)
        if (shares.of[d] == 0)
            return false;
    *ret_shares = shares;
    return true;
}

/* The same shares in as few blocks as there may be: these divide whatever more of them do. */
static void reduce(const struct sp_device_row *row, struct sp_shares *shares)
{
    uint32_t divisor = shares->blocks;
    for (uint32_t d = 0; d < row->size; d++) {
        for (uint32_t rest = shares->of[d], next; rest != 0; rest = next) {
            next = divisor % rest;
            divisor = rest;
        }
    }
    for (uint32_t d = 0; d < row->size; d++)
        shares->of[d] /= divisor;
    shares->blocks /= divisor;
    measure(row, shares);
}

/* Where a plan with these shares has lacked memory, a block less for the device that had too little. */
static void relieve(const struct sp_device_row *row, struct sp_shares *shares)
{
    for (uint32_t i = 0; i < row->tried_count; i++) {
        const struct sp_shares *tried = &row->tried[i];
        uint32_t d = 0, best = UINT32_MAX;
        while (d < row->size && tried->of[d] * shares->blocks == shares->of[d] * tried->blocks)
            d++;
        if (d < row->size || tried->lacking == 0 || shares->of[tried->lacking - 1] == 1)
            continue;
        for (d = 0; d < row->size; d++)
            if (d != tried->lacking - 1 && (best == UINT32_MAX || (shares->of[d] + 1) / row->speeds[d] <
                                                                      (shares->of[best] + 1) / row->speeds[best]))
                best = d;
        shares->of[tried->lacking - 1]--;
        shares->of[best]++;
        return;
    }
}

/* Puts a division among the `kept` best ones, of which there are at most `most`. Returns how many there are then. */
static uint32_t keep(struct sp_shares *best, uint32_t kept, uint32_t most, const struct sp_shares *own)
{
    uint32_t at = kept;
    while (at > 0 && own->seconds < best[at - 1].seconds)
        at--;
    if (at == most)
        return kept;
    kept += kept < most;
    memmove(&best[at + 1], &best[at], (kept - 1 - at) * sizeof *best);
    best[at] = *own;
    return kept;
}

static bool is_kept(const struct sp_shares *best, uint32_t kept, const struct sp_shares *own)
{
    for (uint32_t i = 0; i < kept; i++)
        if (memcmp(best[i].of, own->of, sizeof own->of) == 0)
            return true;
    return false;
}

uint32_t sp_row_divisions(const struct sp_device_row *row, double part, uint32_t most, struct sp_shares *ret_best)
{
    uint32_t kept = 0, finer = 0;
    for (uint32_t blocks = row->size; blocks <= SP_SHARES_BLOCKS; blocks++) {
        struct sp_shares own;
        if (!divide(row, blocks, part, &own))
            continue;
        relieve(row, &own);
        reduce(row, &own);
        if (is_kept(ret_best, kept + finer, &own))
            continue;
        if (blocks <= SP_SHARES_COARSE)
            kept = keep(ret_best, kept, most, &own);
        else if (own.blocks > SP_SHARES_COARSE && (kept == 0 || own.seconds < SP_SHARES_GAIN * ret_best[0].seconds))
            finer = keep(ret_best + kept, finer, SP_SHARES_FINER, &own);
    }
    return kept + finer;
}
