#include "search/joint/violations.h"

#include <string.h>

bool sp_constraints_split(const struct sp_constraints *constraints)
{
    return constraints != NULL && (constraints->split_count > 0 || constraints->is_whole != NULL);
}

bool sp_split_refuses(const struct sp_split_rules *rules)
{
    return sp_constraints_split(rules->constraints) ||
           (rules->table != NULL && !rules->gathers && sp_strategy_gathers(rules->table));
}

bool sp_split_allowed(const void *context, uint32_t node, const struct sp_strategies *strategies, uint32_t strategy)
{
    const struct sp_split_rules *rules = context;
    if (!rules->gathers && strategies->items[strategy].gathered != SP_STRATEGY_NO_FACTOR)
        return false;
    if (!sp_constraints_split(rules->constraints))
        return true;
    if (rules->unable != NULL && rules->unable[node])
        return true;
    return sp_constraints_allow(rules->constraints, rules->workload, rules->table, rules->mesh, node, strategies,
                                strategy);
}

bool sp_split_possible(const struct sp_split_rules *rules, uint32_t node)
{
    if (rules->table == NULL)
        return sp_constraints_allow_whole(rules->constraints, rules->workload, node);
    const struct sp_strategies *strategies = sp_strategy_of(rules->table, node);
    for (uint32_t s = 0; s < strategies->count; s++) {
        if (sp_constraints_allow(rules->constraints, rules->workload, rules->table, rules->mesh, node, strategies, s))
            return true;
    }
    return false;
}

/* ---- what a plan breaks ------------------------------------------------------------------------------------------ */

struct keeping {
    const struct sp_constraints *constraints;
    const struct sp_workload *workload;
    const struct sp_cluster *cluster;
    const struct sp_placement *placement;
    const struct sp_sharded_stage *sharded;
    struct sp_error *err;
};

static enum sp_status broken(const struct keeping *k, const char *where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static enum sp_status broken(const struct keeping *k, const char *where, const char *format, ...)
{
    char message[SP_ERROR_MESSAGE_SIZE];
    SP_FORMAT(message, format);
    (void)sp_fail(k->err, SP_ERR_REQUEST, "CONSTRAINT_NOT_KEPT", "%s", message);
    return sp_error_at(k->err, "%s", where == NULL ? "" : where);
}

static bool has_device(const struct sp_placement *placement, uint32_t stage, uint32_t device)
{
    const uint32_t first = placement->stage_device[stage];
    return device >= first &&
           device - first < sp_placement_size(placement, stage) * sp_placement_replicas(placement, stage);
}

static enum sp_status keep_pins(const struct keeping *k)
{
    const struct sp_constraints *c = k->constraints;
    for (uint32_t n = 0; n < k->workload->node_count; n++) {
        const struct sp_work_node *node = &k->workload->nodes[n];
        const uint32_t stage = k->placement->stage_of[n];
        if (node->folded)
            continue;
        if (c->stage_of != NULL && c->stage_of[n] != SP_UNPINNED && c->stage_of[n] != stage)
            return broken(k, c->stage_where[n], "Node '%.80s' is pinned to stage %u, but would be in stage %u.",
                          node->name, c->stage_of[n], stage);
        if (c->device_of != NULL && c->device_of[n] != SP_UNPINNED && !has_device(k->placement, stage, c->device_of[n]))
            return broken(k, c->device_where[n],
                          "Node '%.80s' is pinned to device %u, but its stage has the devices from %u on.", node->name,
                          sp_cluster_number(k->cluster, c->device_of[n]),
                          sp_cluster_number(k->cluster, k->placement->stage_device[stage]));
    }
    return SP_OK;
}

static enum sp_status keep_groups(struct sp_arena *scratch, const struct keeping *k)
{
    const struct sp_constraints *c = k->constraints;
    uint32_t *first = SP_NEW_ARRAY(scratch, (size_t)c->together_count + 1, uint32_t); /* node + 1 */
    if (first == NULL)
        return sp_fail_memory(k->err);
    for (uint32_t n = 0; c->together_of != NULL && n < k->workload->node_count; n++) {
        const uint32_t group = c->together_of[n];
        if (group == SP_UNPINNED)
            continue;
        if (first[group] != 0 && k->placement->stage_of[first[group] - 1] != k->placement->stage_of[n])
            return broken(k, c->where, "Nodes '%.80s' and '%.80s' must be together, but would be in stages %u and %u.",
                          k->workload->nodes[first[group] - 1].name, k->workload->nodes[n].name,
                          k->placement->stage_of[first[group] - 1], k->placement->stage_of[n]);
        first[group] = n + 1;
    }
    return SP_OK;
}

static enum sp_status keep_levels(const struct keeping *k)
{
    const struct sp_links links = sp_cluster_links(k->cluster);
    for (uint32_t s = 0; s < k->placement->stage_count; s++) {
        const uint32_t first = k->placement->stage_device[s], size = sp_placement_size(k->placement, s);
        if (size < 2)
            continue;
        for (uint32_t l = sp_links_between(&links, first, (int64_t)first + size - 1); l < links.level_count; l++) {
            for (uint32_t i = 0; links.levels[l].size > 1 && i < k->constraints->level_count; i++) {
                if (strcmp(links.levels[l].name, k->constraints->levels[i]) == 0)
                    return broken(k, k->constraints->where, "Stage %u would be split over the links '%.80s'.", s,
                                  links.levels[l].name);
            }
        }
    }
    return SP_OK;
}

static enum sp_status keep_stage_splits(const struct keeping *k, const struct sp_sharded_stage *stage)
{
    const struct sp_strategy_mesh *mesh = sp_strategy_table_mesh(stage->table);
    for (uint32_t i = 0; i < stage->node_count; i++) {
        const uint32_t n = stage->nodes[i];
        if (!sp_constraints_allow(k->constraints, k->workload, stage->table, mesh, n, sp_strategy_of(stage->table, n),
                                  stage->strategy_of[i]))
            return broken(k, k->constraints->where, "Node '%.80s' would not be split as is demanded.",
                          k->workload->nodes[n].name);
    }
    return SP_OK;
}

static enum sp_status keep_splits(const struct keeping *k)
{
    for (uint32_t n = 0; n < k->workload->node_count; n++) {
        const uint32_t stage = k->placement->stage_of[n];
        if (k->workload->nodes[n].folded || (k->sharded != NULL && k->sharded[stage].table != NULL))
            continue;
        if (!sp_constraints_allow_whole(k->constraints, k->workload, n))
            return broken(k, k->constraints->where, "Node '%.80s' would not be split as is demanded.",
                          k->workload->nodes[n].name);
    }
    for (uint32_t s = 0; k->sharded != NULL && s < k->placement->stage_count; s++) {
        enum sp_status status = k->sharded[s].table == NULL ? SP_OK : keep_stage_splits(k, &k->sharded[s]);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

enum sp_status sp_constraints_violation(struct sp_arena *scratch, const struct sp_constraints *constraints,
                                        const struct sp_workload *workload, const struct sp_cluster *cluster,
                                        const struct sp_placement *placement, const struct sp_sharded_stage *sharded,
                                        struct sp_error *err)
{
    const struct keeping k = {constraints, workload, cluster, placement, sharded, err};
    struct sp_arena_mark mark = sp_arena_mark(scratch);
    enum sp_status status = SP_OK;
    if (constraints->max_stages != 0 && placement->stage_count > constraints->max_stages)
        status = broken(&k, constraints->where, "There may be %u stages, but there would be %u.",
                        constraints->max_stages, placement->stage_count);
    if (status == SP_OK)
        status = keep_pins(&k);
    if (status == SP_OK)
        status = keep_groups(scratch, &k);
    if (status == SP_OK && constraints->level_count > 0)
        status = keep_levels(&k);
    if (status == SP_OK && sp_constraints_split(constraints))
        status = keep_splits(&k);
    sp_arena_rewind(scratch, mark);
    return status;
}

enum sp_status sp_constraints_latency(const struct sp_constraints *constraints, double latency_seconds,
                                      struct sp_error *err)
{
    if (constraints == NULL || constraints->max_latency_seconds <= 0 ||
        latency_seconds <= constraints->max_latency_seconds)
        return SP_OK;
    (void)sp_fail(err, SP_ERR_REQUEST, "CONSTRAINT_NOT_KEPT", "A request may take %.4g ms, but would take %.4g ms.",
                  constraints->max_latency_seconds * 1e3, latency_seconds * 1e3);
    return sp_error_at(err, "%s", constraints->where == NULL ? "" : constraints->where);
}
