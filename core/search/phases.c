#include "search/phases.h"

#include <math.h>
#include <string.h>

#include "search/constraints.h"
#include "search/grouping/internal.h"
#include "search/joint/bounds.h"

/* ---- constraints ------------------------------------------------------------------------------------------------- */

/* A list of one phase's nodes, once for each phase; NULL stays NULL. */
static const void *repeat(struct sp_arena *arena, const void *list, uint32_t count, size_t size, uint32_t times,
                          bool *ok)
{
    char *all;
    if (list == NULL)
        return NULL;
    all = SP_NEW_ARRAY(arena, (size_t)count * size * times, char);
    *ok = *ok && all != NULL;
    for (uint32_t p = 0; all != NULL && p < times; p++)
        memcpy(all + (size_t)p * count * size, list, count * size);
    return all;
}

static bool repeat_constraints(struct sp_arena *arena, const struct sp_joined_phases *joined,
                               const struct sp_constraints *given, struct sp_constraints *ret_all)
{
    const uint32_t nodes = joined->node_count, times = joined->phase_count;
    bool ok = true;
    struct sp_split_pin *splits = SP_NEW_ARRAY(arena, (size_t)given->split_count * times, struct sp_split_pin);
    *ret_all = *given;
    ret_all->stage_of = repeat(arena, given->stage_of, nodes, sizeof *given->stage_of, times, &ok);
    ret_all->device_of = repeat(arena, given->device_of, nodes, sizeof *given->device_of, times, &ok);
    ret_all->together_of = repeat(arena, given->together_of, nodes, sizeof *given->together_of, times, &ok);
    ret_all->is_whole = repeat(arena, given->is_whole, nodes, sizeof *given->is_whole, times, &ok);
    ret_all->stage_where = repeat(arena, given->stage_where, nodes, sizeof *given->stage_where, times, &ok);
    ret_all->device_where = repeat(arena, given->device_where, nodes, sizeof *given->device_where, times, &ok);
    ret_all->split_count = 0;
    ret_all->splits = splits;
    for (uint32_t p = 0; splits != NULL && p < times; p++) {
        for (uint32_t i = 0; i < given->split_count; i++) {
            splits[ret_all->split_count] = given->splits[i];
            splits[ret_all->split_count++].tensor += p * joined->tensor_count;
        }
    }
    return ok && splits != NULL;
}

/* ---- one phase of a plan ----------------------------------------------------------------------------------------- */

/* A plan for a phase, while it is made. */
struct making {
    struct sp_arena *arena;
    const struct sp_workload *workload;
    const struct sp_dataflow *dataflow;
    const struct sp_cluster *cluster;
    const struct sp_watch *watch;
    const struct sp_search_result *from; /* the plan whose stages it has */
    struct sp_search_result *result;
    struct sp_sharded_stage *sharded;
    struct sp_error *err;
};

/* The table of the mesh that a table of the other plan has, made once. */
static enum sp_status table_of(struct making *m, uint32_t stage)
{
    const struct sp_strategy_table *wanted = m->from->sharded[stage].table;
    uint32_t s = 0;
    while (s < stage && m->from->sharded[s].table != wanted)
        s++;
    if (s < stage) {
        m->sharded[stage].table = m->sharded[s].table;
        return SP_OK;
    }
    struct sp_strategy_mesh mesh = *sp_strategy_table_mesh(wanted); /* what it points to may go with the other plan */
    mesh.cluster = m->cluster;
    if (mesh.member_count == 0)
        mesh.device = sp_cluster_device(m->cluster, m->from->placement.stage_device[stage]);
    enum sp_status status =
        sp_strategy_table_create(m->arena, m->workload, m->dataflow, &mesh, m->watch, &m->sharded[stage].table, m->err);
    if (status == SP_OK)
        m->result->tables[m->result->table_count++] = m->sharded[stage].table;
    return status;
}

/* The nodes that run in each stage. */
static bool list_nodes(struct making *m)
{
    const struct sp_placement *placement = &m->result->placement;
    for (uint32_t s = 0; s < placement->stage_count; s++) {
        uint32_t count = 0;
        for (uint32_t n = 0; n < m->workload->node_count; n++)
            count += placement->stage_of[n] == s && !m->workload->nodes[n].folded;
        uint32_t *nodes = SP_NEW_ARRAY(m->arena, count, uint32_t);
        if (nodes == NULL)
            return false;
        m->sharded[s].node_count = 0;
        for (uint32_t n = 0; n < m->workload->node_count; n++)
            if (placement->stage_of[n] == s && !m->workload->nodes[n].folded)
                nodes[m->sharded[s].node_count++] = n;
        m->sharded[s].nodes = nodes;
    }
    return true;
}

/* The stages of the other plan; `first_node` is where the phase's nodes begin in it. */
static bool copy_stages(struct making *m, uint32_t first_node)
{
    const struct sp_placement *from = &m->from->placement;
    struct sp_search_result *result = m->result = SP_NEW(m->arena, struct sp_search_result);
    if (result == NULL)
        return false;
    *result = *m->from;
    result->routes = NULL;
    result->best = result->second = NULL;
    result->beyond = NULL;
    result->front = NULL;
    result->front_count = result->table_count = 0;
    result->sharded = NULL;
    result->store = NULL; /* of the other one */
    result->is_proved = false;
    result->placement.stage_of = SP_NEW_ARRAY(m->arena, m->workload->node_count, uint32_t);
    result->tables = SP_NEW_ARRAY(m->arena, from->stage_count, struct sp_strategy_table *);
    m->sharded = SP_NEW_ARRAY(m->arena, from->stage_count, struct sp_sharded_stage);
    if (result->placement.stage_of == NULL || result->tables == NULL || m->sharded == NULL)
        return false;
    for (uint32_t n = 0; n < m->workload->node_count; n++)
        result->placement.stage_of[n] = from->stage_of[first_node + n];
    sp_place_folded(m->workload, result->placement.stage_of);
    return list_nodes(m);
}

/* What people call the plan that was chosen. */
static const char *description_of(const struct sp_search_result *plan)
{
    for (uint32_t i = 0; i < plan->front_count; i++)
        if (plan->front[i].is_chosen)
            return plan->front[i].description;
    return "";
}

/* Bounds, and the plan itself as its front. */
static enum sp_status finish(struct making *m)
{
    struct sp_search_result *result = m->result;
    bool is_split = false;
    for (uint32_t s = 0; s < result->placement.stage_count; s++)
        is_split = is_split || m->sharded[s].table != NULL;
    enum sp_status status = sp_joint_evaluate(m->arena, m->workload, m->cluster, &result->placement,
                                              is_split ? m->sharded : NULL, &result->evaluation, m->err);
    struct sp_front_plan *front = SP_NEW(m->arena, struct sp_front_plan);
    if (status != SP_OK)
        return status;
    if (front == NULL)
        return sp_fail_memory(m->err);
    result->sharded = is_split ? m->sharded : NULL;
    *front = (struct sp_front_plan){.description = description_of(m->from),
                                    .strategy = result->strategy,
                                    .stage_count = result->placement.stage_count,
                                    .devices_used = result->evaluation->device_count,
                                    .latency_seconds = result->evaluation->latency_seconds,
                                    .interval_seconds = result->evaluation->interval_seconds,
                                    .is_chosen = true};
    for (uint32_t s = 0; s < result->evaluation->stage_count; s++) {
        const struct sp_stage_cost *cost = &result->evaluation->stages[s];
        front->memory_bytes = fmax(front->memory_bytes, cost->total_bytes);
        front->used_share = fmax(front->used_share, cost->total_bytes / cost->capacity_bytes);
    }
    result->front = front;
    result->front_count = 1;
    return sp_joint_bounds(m->arena, m->workload, m->cluster, &result->bounds, m->err);
}

/* ---- taking a joint plan apart ----------------------------------------------------------------------------------- */

/* The strategy that lays the axes on the same factors. */
static uint32_t same_strategy(const struct sp_strategies *strategies, const struct sp_strategy *wanted)
{
    uint32_t s = 0;
    while (s < strategies->count &&
           (memcmp(strategies->items[s].factor_of, wanted->factor_of, sizeof wanted->factor_of) != 0 ||
            memcmp(strategies->items[s].scatter_of, wanted->scatter_of, sizeof wanted->scatter_of) != 0 ||
            strategies->items[s].gathered != wanted->gathered))
        s++;
    return s;
}

static enum sp_status take_strategies(struct making *m, uint32_t stage, uint32_t first_node)
{
    const struct sp_sharded_stage *from = &m->from->sharded[stage];
    struct sp_sharded_stage *to = &m->sharded[stage];
    uint32_t *strategy_of = SP_NEW_ARRAY(m->arena, to->node_count, uint32_t), at = 0;
    if (strategy_of == NULL)
        return sp_fail_memory(m->err);
    for (uint32_t i = 0; i < to->node_count; i++) {
        const struct sp_strategies *strategies = sp_strategy_of(to->table, to->nodes[i]);
        while (from->nodes[at] != first_node + to->nodes[i]) /* ascending, and among them */
            at++;
        strategy_of[i] =
            same_strategy(strategies, &sp_strategy_of(from->table, from->nodes[at])->items[from->strategy_of[at]]);
        if (strategy_of[i] == strategies->count)
            return sp_fail(m->err, SP_ERR_INTERNAL, "STRATEGY_UNKNOWN",
                           "A phase has not the strategy of a joint plan.");
    }
    to->strategy_of = strategy_of;
    return SP_OK;
}

static enum sp_status take_phase(struct sp_arena *arena, const struct sp_phases_request *request, uint32_t phase,
                                 const struct sp_phases_result *of, struct sp_search_result **ret_result,
                                 struct sp_error *err)
{
    const uint32_t first_node = phase * of->joined.node_count;
    struct making m = {.arena = arena,
                       .workload = request->phases[phase].workload,
                       .dataflow = request->dataflows == NULL ? NULL : request->dataflows[phase],
                       .cluster = request->cluster,
                       .watch = request->options->watch,
                       .from = of->all,
                       .err = err};
    if (!copy_stages(&m, first_node))
        return sp_fail_memory(err);
    *ret_result = m.result;
    enum sp_status status = SP_OK;
    for (uint32_t s = 0; of->all->sharded != NULL && s < m.result->placement.stage_count && status == SP_OK; s++) {
        if (of->all->sharded[s].table == NULL)
            continue;
        status = table_of(&m, s);
        if (status == SP_OK)
            status = take_strategies(&m, s, first_node);
    }
    return status == SP_OK ? finish(&m) : status;
}

/* ---- the search -------------------------------------------------------------------------------------------------- */

/* Times of phases so that they are of a request that runs one phase once, on average: the search's figures are then
   about those of a step. */
static struct sp_phase *scale_times(struct sp_arena *arena, const struct sp_phases_request *request, double *ret_scale)
{
    struct sp_phase *phases = SP_NEW_ARRAY(arena, request->count, struct sp_phase);
    double total = 0;
    for (uint32_t p = 0; p < request->count; p++)
        total += request->phases[p].times;
    for (uint32_t p = 0; phases != NULL && p < request->count; p++) {
        phases[p] = request->phases[p];
        phases[p].times /= total;
    }
    *ret_scale = 1 / total;
    return phases;
}

static enum sp_status search(struct sp_arena *arena, const struct sp_phases_request *request,
                             const struct sp_cluster *cluster, struct sp_phases_result *result, struct sp_error *err)
{
    struct sp_joint_options options = *request->options;
    struct sp_constraints constraints;
    struct sp_dataflow *dataflow = NULL;
    const struct sp_phase *phases = scale_times(arena, request, &result->scale);
    if (phases == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_phases_join(arena, request->count, phases, &result->joined, err);
    if (status == SP_OK && options.constraints != NULL &&
        !repeat_constraints(arena, &result->joined, options.constraints, &constraints))
        status = sp_fail_memory(err);
    if (status == SP_OK && result->joined.model != NULL)
        status = sp_dataflow_create(arena, result->joined.model, &dataflow, err);
    if (status != SP_OK)
        return status;
    if (options.constraints != NULL)
        options.constraints = &constraints;
    options.skips_routes = true;
    options.any_sets = false;
    options.listener = NULL;
    options.store = NULL;
    options.max_copies = 1;
    result->dataflow = dataflow;
    return sp_joint_search(arena, result->joined.workload, dataflow, cluster, &options, &result->all, err);
}

enum sp_status sp_phases_search(struct sp_arena *arena, const struct sp_phases_request *request,
                                struct sp_phases_result **ret_result, struct sp_error *err)
{
    struct sp_phases_result *result = SP_NEW(arena, struct sp_phases_result);
    struct sp_cluster *cluster = SP_NEW(arena, struct sp_cluster);
    if (result == NULL || cluster == NULL)
        return sp_fail_memory(err);
    result->phases = SP_NEW_ARRAY(arena, request->count, struct sp_search_result *);
    if (result->phases == NULL)
        return sp_fail_memory(err);
    *cluster = *request->cluster;
    cluster->host_of = NULL; /* what is copied for each run of a phase is not counted */
    cluster->host_count = 0;
    enum sp_status status = search(arena, request, cluster, result, err);
    for (uint32_t p = 0; p < request->count && status == SP_OK; p++) {
        status = take_phase(arena, request, p, result, &result->phases[p], err);
        if (status == SP_OK)
            result->request_seconds += request->phases[p].times * result->phases[p]->evaluation->latency_seconds;
    }
    if (status != SP_OK) {
        sp_phases_result_release(result);
        return status;
    }
    result->interval_seconds = result->all->evaluation->interval_seconds / result->scale;
    *ret_result = result;
    return SP_OK;
}

void sp_phases_result_release(struct sp_phases_result *result)
{
    if (result == NULL)
        return;
    sp_search_result_release(result->all);
    for (uint32_t p = 0; p < result->joined.phase_count; p++)
        sp_search_result_release(result->phases[p]);
}
