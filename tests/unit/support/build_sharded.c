#include "build_sharded.h"

#include <criterion/criterion.h>
#include <string.h>

#include "recount.h"

uint32_t sharded_choose_any(const void *context, uint32_t node, const struct sp_strategies *strategies)
{
    uint64_t mixed = (*(const uint64_t *)context + node + 1) * 0x9e3779b97f4a7c15u;
    mixed ^= mixed >> 29;
    mixed *= 0xbf58476d1ce4e5b9u;
    return (uint32_t)((mixed >> 33) % strategies->count);
}

static uint32_t choose_fastest(const void *context, uint32_t node, const struct sp_strategies *strategies)
{
    uint32_t best = 0;
    (void)context;
    (void)node;
    for (uint32_t i = 1; i < strategies->count; i++) {
        const struct sp_strategy *a = &strategies->items[i], *b = &strategies->items[best];
        if (a->compute_seconds + a->communication_seconds < b->compute_seconds + b->communication_seconds)
            best = i;
    }
    return best;
}

/* Running nodes in equal parts; folded ones where their results are needed first. */
static uint32_t *cut_nodes(struct sp_arena *arena, const struct sp_workload *workload, uint32_t stages)
{
    uint32_t *of = SP_NEW_ARRAY(arena, workload->node_count, uint32_t), live = 0, seen = 0;
    for (uint32_t n = 0; n < workload->node_count; n++)
        live += !workload->nodes[n].folded;
    for (uint32_t n = 0; n < workload->node_count; n++)
        of[n] = workload->nodes[n].folded ? UINT32_MAX : (uint32_t)((uint64_t)seen++ * stages / live);
    for (uint32_t n = workload->node_count; n-- > 0;) {
        const struct sp_work_node *node = &workload->nodes[n];
        if (of[n] == UINT32_MAX)
            of[n] = 0; /* nobody needs it */
        for (uint32_t i = 0; i < node->input_count; i++) {
            const uint32_t made = workload->tensors[node->inputs[i]].producer;
            if (made != SP_NO_WORK && workload->nodes[made].folded && of[n] < of[made])
                of[made] = of[n];
        }
    }
    return of;
}

static void place(struct sp_arena *arena, const struct sp_workload *workload, const struct sharded_options *options,
                  struct sp_placement *placement)
{
    const uint32_t stages = options->stages > 0 ? options->stages : 1;
    uint32_t size = 1, device = 0;
    for (uint32_t a = 0; a < options->axis_count; a++)
        size *= options->sizes[a];
    placement->stage_count = stages;
    placement->stage_of = cut_nodes(arena, workload, stages);
    placement->stage_device = SP_NEW_ARRAY(arena, stages, uint32_t);
    placement->stage_size = SP_NEW_ARRAY(arena, stages, uint32_t);
    placement->stage_replicas = SP_NEW_ARRAY(arena, stages, uint32_t);
    for (uint32_t s = 0; s < stages; s++) {
        placement->stage_size[s] = options->is_first_whole && s == 0 ? 1 : size;
        placement->stage_replicas[s] = options->replicas > 0 ? options->replicas : 1;
        device = (device + placement->stage_size[s] - 1) / placement->stage_size[s] * placement->stage_size[s];
        placement->stage_device[s] = device;
        device += placement->stage_size[s] * placement->stage_replicas[s];
    }
}

static void choose(struct sp_arena *arena, const struct sp_workload *workload, const struct sharded_options *options,
                   uint32_t stage, const struct sp_placement *placement, struct sp_strategy_table *table,
                   struct sp_sharded_stage *sharded)
{
    uint32_t *nodes = SP_NEW_ARRAY(arena, workload->node_count, uint32_t);
    uint32_t *strategy_of = SP_NEW_ARRAY(arena, workload->node_count, uint32_t);
    uint32_t count = 0;
    for (uint32_t n = 0; n < workload->node_count; n++) {
        if (placement->stage_of[n] != stage || workload->nodes[n].folded)
            continue;
        const struct sp_strategies *strategies = sp_strategy_of(table, n);
        nodes[count] = n;
        strategy_of[count++] = options->choose != NULL ? options->choose(options->context, n, strategies)
                                                       : choose_fastest(NULL, n, strategies);
    }
    *sharded =
        (struct sp_sharded_stage){.table = table, .node_count = count, .nodes = nodes, .strategy_of = strategy_of};
}

static struct sp_strategy_table *make_table(struct sp_arena *arena, const struct planned_model *planned,
                                            const struct sharded_options *options)
{
    struct sp_strategy_mesh mesh = {.axis_count = options->axis_count, .links = sp_cluster_links(planned->cluster)};
    struct sp_strategy_table *table = NULL;
    struct sp_dataflow *dataflow = NULL;
    struct sp_error err = {0};
    for (uint32_t a = 0; a < options->axis_count; a++)
        mesh.size[a] = options->sizes[a];
    mesh.cluster = planned->cluster;
    mesh.device = sp_cluster_device(planned->cluster, 0);
    mesh.kind = planned->plan->workload->kind_of[0];
    struct sp_model *model = (struct sp_model *)(uintptr_t)planned->plan->model;
    cr_assert_eq(sp_dataflow_create(arena, model, &dataflow, &err), SP_OK, "%s", err.message);
    cr_assert_eq(sp_strategy_table_create(arena, planned->plan->workload, dataflow, &mesh, NULL, &table, &err), SP_OK,
                 "%s", err.message);
    return table;
}

/* The plan with this result, and its subject. */
static void finish(struct sharded_model *model, struct sp_plan *plan, const struct sp_search_result *result)
{
    struct sp_error err = {0};
    plan->result = result;
    plan->note_count = 0;
    cr_assert_eq(sp_plan_finish(plan, &err), SP_OK, "%s", err.message);
    sp_subject_destroy(model->planned.subject);
    model->planned.subject = NULL;
    model->plan = model->planned.plan = plan;
    cr_assert_eq(sp_subject_from_plan(model->planned.job, plan, &model->planned.subject, &err), SP_OK, "%s",
                 err.message);
}

void sharded_make(struct sharded_model *ret_model, struct sp_buf file, const struct sharded_options *options)
{
    struct sharded_model *model = ret_model;
    struct sp_error err = {0};
    const uint32_t stages = options->stages > 0 ? options->stages : 1;
    uint32_t devices = stages * (options->replicas > 0 ? options->replicas : 1) + 1;
    for (uint32_t a = 0; a < options->axis_count; a++)
        devices *= options->sizes[a];
    memset(model, 0, sizeof *model);
    planned_make(&model->planned, file, devices);
    struct sp_plan *plan = SP_NEW(model->planned.arena, struct sp_plan);
    const struct sp_workload *workload = model->planned.plan->workload;
    struct sp_arena *arena = model->planned.plan->arena;
    *plan = *model->planned.plan;
    struct sp_search_result *result = SP_NEW(arena, struct sp_search_result);
    *result = *plan->result;
    place(arena, workload, options, &result->placement);
    model->table = make_table(arena, &model->planned, options);
    struct sp_sharded_stage *sharded = SP_NEW_ARRAY(arena, stages, struct sp_sharded_stage);
    for (uint32_t s = 0; s < stages; s++) {
        if (result->placement.stage_size[s] > 1)
            choose(arena, workload, options, s, &result->placement, model->table, &sharded[s]);
    }
    cr_assert_eq(sp_joint_evaluate(arena, workload, model->planned.cluster, &result->placement, sharded,
                                   &result->evaluation, &err),
                 SP_OK, "%s", err.message);
    result->sharded = sharded;
    recount_expect(workload, model->planned.cluster, &result->placement, sharded, result->evaluation, false);
    finish(model, plan, result);
}

void sharded_search(struct sharded_model *ret_model, struct sp_buf file, int64_t devices, int64_t memory_limit,
                    const struct sp_joint_options *options)
{
    struct sharded_model *model = ret_model;
    struct sp_error err = {0};
    struct sp_dataflow *dataflow = NULL;
    memset(model, 0, sizeof *model);
    planned_make(&model->planned, file, devices);
    struct sp_arena *arena = model->planned.plan->arena;
    const struct sp_workload *workload = model->planned.plan->workload;
    struct sp_plan *plan = SP_NEW(model->planned.arena, struct sp_plan);
    *plan = *model->planned.plan;
    json_t *json = json_pack("{s:s, s:I}", "device", "a100-sxm4-80gb", "count", (json_int_t)devices);
    if (memory_limit > 0)
        (void)json_object_set_new(json, "memory_limit_bytes", json_integer(memory_limit));
    cr_assert_eq(sp_cluster_parse(model->planned.arena, json, "", &model->planned.cluster, &err), SP_OK, "%s",
                 err.message);
    json_decref(json);
    plan->cluster = model->planned.cluster;
    plan->objective = options->objective;
    cr_assert_eq(sp_dataflow_create(arena, (struct sp_model *)(uintptr_t)plan->model, &dataflow, &err), SP_OK);
    cr_assert_eq(sp_joint_search(arena, workload, dataflow, plan->cluster, options, &model->found, &err), SP_OK, "%s",
                 err.message);
    recount_expect_result(workload, plan->cluster, model->found);
    plan->strategy = sp_search_strategy_name(model->found->strategy);
    finish(model, plan, model->found);
}

void sharded_release(struct sharded_model *model)
{
    sp_strategy_table_destroy(model->table);
    sp_search_result_release(model->found);
    planned_release(&model->planned);
}
