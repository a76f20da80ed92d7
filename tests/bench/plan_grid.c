#include "plan_grid.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "search/grouping/internal.h"

#define WORK       ((uint64_t)10000000) /* of one choice of strategies, as the search has */
#define MAX_DEGREE 16                   /* of tensor parallelism, of a whole grid */
#define SPARE      1.02

enum role { ROLE_NONE, ROLE_COLUMNS, ROLE_ROWS, ROLE_ATTENTION, ROLE_EXPERTS };
enum family { FAMILY_MEGATRON, FAMILY_EXPERTS, FAMILY_WIDE_EXPERTS, FAMILY_FSDP, FAMILY_OFFLOAD, FAMILY_NGL };
enum division { DIVISION_EQUAL, DIVISION_SPEED, DIVISION_MEMORY, DIVISION_COUNT };

/* One point of the grid and what is made for it. */
struct degrees {
    enum family family;
    uint32_t tensor, data, stages;
    uint32_t first_class, class_count; /* of devices */
    enum division division;            /* of the layers over the stages */
    uint32_t layers;                   /* of each accelerator; 0: equally many everywhere */
};

struct maker {
    struct plan_subject *subject;
    struct plan_grid *grid;
    struct sp_space *space;
    struct sp_blocks *blocks;
    struct sp_error *err;
    uint32_t layer_count;
    uint32_t *layer_of; /* per work node; 0: before the first one, layer_count + 1: behind the last */
    enum role *role_of;
    bool has_experts;
    int64_t batch;
    struct sp_strategy_table **tables; /* of the data and tensor degrees under way, per class */
    struct degrees at;
};

/* ---- reading the model ------------------------------------------------------------------------------------------ */

static bool has_any(const char *name, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (strstr(name, *words) != NULL)
            return true;
    }
    return false;
}

/* Models of tests/bench/models.py: the names that their reference implementations give. */
static enum role role_of_node(const struct sp_work_node *node)
{
    static const char *const columns[] = {
        "/q_proj/", "/k_proj/", "/v_proj/", "/gate_proj/", "/up_proj/", "/q_b_proj/", "/kv_b_proj/", "/c_attn/",
        "/c_fc/",   "/fc1/",    "/attn/q/", "/attn/k/",    "/attn/v/",  "/lm_head/",  "/head/",      NULL};
    static const char *const rows[] = {"/o_proj/", "/down_proj/", "/c_proj/", "/fc2/", "/attn/out/", NULL};
    const char *type = node->node->op_type;
    if (strcmp(type, "MoE") == 0)
        return ROLE_EXPERTS;
    if (strcmp(type, "Attention") == 0)
        return ROLE_ATTENTION;
    if (strcmp(type, "MatMul") != 0 && strcmp(type, "Gemm") != 0)
        return ROLE_NONE;
    return has_any(node->name, columns) ? ROLE_COLUMNS : has_any(node->name, rows) ? ROLE_ROWS : ROLE_NONE;
}

/* The number in "/layers.7/", "/h.7/", "/encoder.7/"; UINT32_MAX: none. */
static uint32_t layer_number(const char *name)
{
    static const char *const words[] = {"/layers.", "/h.", "/encoder."};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const char *found = strstr(name, words[i]);
        if (found != NULL)
            return (uint32_t)strtoul(found + strlen(words[i]), NULL, 10);
    }
    return UINT32_MAX;
}

static enum sp_status read_nodes(struct maker *maker)
{
    const struct sp_workload *workload = maker->subject->workload;
    uint32_t layer = 0;
    maker->layer_of = SP_NEW_ARRAY(maker->subject->arena, workload->node_count, uint32_t);
    maker->role_of = SP_NEW_ARRAY(maker->subject->arena, workload->node_count, enum role);
    if (maker->layer_of == NULL || maker->role_of == NULL)
        return sp_fail_memory(maker->err);
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const uint32_t number = layer_number(workload->nodes[n].name);
        if (number != UINT32_MAX && number + 1 > maker->layer_count)
            maker->layer_count = number + 1;
    }
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const uint32_t number = layer_number(workload->nodes[n].name);
        if (number != UINT32_MAX)
            layer = number + 1;
        else if (layer == maker->layer_count)
            layer = maker->layer_count + 1;
        maker->layer_of[n] = layer;
        maker->role_of[n] = role_of_node(&workload->nodes[n]);
        maker->has_experts = maker->has_experts || maker->role_of[n] == ROLE_EXPERTS;
    }
    const struct sp_value *input = maker->subject->model->graph->inputs[0];
    maker->batch = input->type.shape.dims[0].value;
    return SP_OK;
}

/* ---- strategies ------------------------------------------------------------------------------------------------- */

static uint8_t major_factor(const struct sp_operand_rule *operand, uint32_t axis)
{
    if (axis >= operand->rank || operand->axes[axis].count == 0)
        return SP_STRATEGY_NO_FACTOR;
    return operand->axes[axis].factors[0];
}

/* The factor that a role splits along the axis of tensor parallelism; NO_FACTOR: the role does not say. */
static uint8_t tensor_factor(const struct maker *maker, const struct sp_rule *rule, enum role role)
{
    const struct sp_operand_rule *weight;
    switch (role) {
    case ROLE_COLUMNS:
        return major_factor(&rule->outputs[0], rule->outputs[0].rank - 1);
    case ROLE_ROWS:
        return major_factor(&rule->inputs[0], rule->inputs[0].rank - 1);
    case ROLE_EXPERTS: /* [experts, inner, hidden] */
        weight = &rule->inputs[2];
        return major_factor(weight, maker->at.family == FAMILY_MEGATRON ? 1 : 0);
    case ROLE_ATTENTION: /* follows from the columns before it */
    case ROLE_NONE:
        break;
    }
    return SP_STRATEGY_NO_FACTOR;
}

static bool keeps_role(const struct maker *maker, const struct sp_strategies *strategies, uint32_t strategy,
                       enum role role)
{
    const struct sp_rule *rule = strategies->rule;
    const struct sp_strategy *item = &strategies->items[strategy];
    const uint8_t batch = major_factor(&rule->outputs[0], 0), tensor = tensor_factor(maker, rule, role);
    uint32_t axis = 0;
    if (maker->at.data > 1) {
        const uint8_t wanted = role == ROLE_EXPERTS && maker->at.family == FAMILY_WIDE_EXPERTS ? tensor : batch;
        if (wanted != SP_STRATEGY_NO_FACTOR && item->factor_of[axis] != wanted)
            return false;
        axis++;
    }
    return maker->at.tensor == 1 || tensor == SP_STRATEGY_NO_FACTOR || item->factor_of[axis] == tensor;
}

/* A node that cannot be split as its role says (a vocabulary of an odd number of words) is free. */
static bool is_allowed(const void *context, uint32_t node, const struct sp_strategies *strategies, uint32_t strategy)
{
    const struct maker *maker = context;
    const enum role role = maker->role_of[node];
    if (role == ROLE_NONE || strategies->rule == NULL || keeps_role(maker, strategies, strategy, role))
        return true;
    for (uint32_t s = 0; s < strategies->count; s++) {
        if (keeps_role(maker, strategies, s, role))
            return false;
    }
    return true;
}

static const struct sp_space_option *find_option(const struct maker *maker, uint32_t class_index, uint32_t size)
{
    for (uint32_t i = 0; i < maker->space->option_count; i++) {
        const struct sp_space_option *option = &maker->space->options[i];
        if (option->class_index == class_index && option->size == size)
            return option;
    }
    return NULL;
}

static void drop_tables(struct maker *maker)
{
    for (uint32_t c = 0; c < maker->space->class_count; c++) {
        sp_strategy_table_destroy(maker->tables[c]);
        maker->tables[c] = NULL;
    }
}

/* Mesh [data, tensor] on a block of the class. */
static enum sp_status make_table(struct maker *maker, struct sp_arena *arena, uint32_t class_index)
{
    const struct sp_space_option *option = find_option(maker, class_index, maker->at.data * maker->at.tensor);
    struct sp_strategy_mesh mesh;
    if (option->size == 1 || maker->tables[class_index] != NULL)
        return SP_OK;
    mesh = option->mesh;
    mesh.axis_count = 0;
    if (maker->at.data > 1)
        mesh.size[mesh.axis_count++] = maker->at.data;
    if (maker->at.tensor > 1)
        mesh.size[mesh.axis_count++] = maker->at.tensor;
    return sp_strategy_table_create(arena, maker->subject->workload, maker->subject->dataflow, &mesh, NULL,
                                    &maker->tables[class_index], maker->err);
}

/* The best strategies of the nodes under the roles; *ret_result is NULL where none is within the limit. */
static enum sp_status choose(struct maker *maker, struct sp_arena *arena, struct sp_strategy_table *table,
                             uint32_t count, const uint32_t *nodes, double limit, struct sp_intra_result **ret_result)
{
    const struct sp_intra_options intra_options = {.node_count = count,
                                                   .nodes = nodes,
                                                   .blocks = maker->blocks,
                                                   .memory_limit = limit,
                                                   .allowed = is_allowed,
                                                   .context = maker};
    const struct sp_choice_options options = {.work_limit = WORK};
    struct sp_choice_result *choice;
    struct sp_intra *intra;
    *ret_result = NULL;
    enum sp_status status = sp_intra_create(arena, table, &intra_options, &intra, maker->err);
    if (status == SP_OK)
        status = sp_choice_solve(arena, sp_intra_problem(intra), &options, &choice, maker->err);
    if (status == SP_OK && choice->is_feasible)
        status = sp_intra_result(arena, intra, choice->choice, ret_result, maker->err);
    return status;
}

/* ---- pipelines -------------------------------------------------------------------------------------------------- */

struct pipeline {
    struct sp_placement placement;
    struct sp_sharded_stage *sharded;
    uint32_t *class_of; /* per stage */
    double reserved;    /* bytes of each device for what crosses borders */
    bool is_feasible;
};

/* Equally many layers in each stage, of which the first ones have one more where they do not divide; or as many as its
   devices are fast, or have memory. `parts` are per stage. */
static uint32_t stage_of_layer(const struct maker *maker, const double *parts, uint32_t layer)
{
    double sum = 0, part = 0;
    uint32_t stage = 0;
    if (layer == 0)
        return 0;
    if (layer > maker->layer_count)
        return maker->at.stages - 1;
    if (maker->at.layers > 0)
        return (layer - 1) / maker->at.layers < maker->at.stages ? (layer - 1) / maker->at.layers
                                                                 : maker->at.stages - 1;
    if (maker->at.division == DIVISION_EQUAL)
        return (uint32_t)((uint64_t)(layer - 1) * maker->at.stages / maker->layer_count);
    for (uint32_t s = 0; s < maker->at.stages; s++)
        sum += parts[s];
    for (part = parts[0]; stage + 1 < maker->at.stages && part / sum * maker->layer_count < layer - 0.5;)
        part += parts[++stage];
    return stage;
}

static double part_of(const struct maker *maker, uint32_t class_index)
{
    const struct sp_workload *workload = maker->subject->workload;
    const struct sp_space_class *class = &maker->space->classes[class_index];
    double seconds = 0;
    for (uint32_t n = 0; n < workload->node_count; n++)
        seconds += workload->nodes[n].folded ? 0 : workload->nodes[n].seconds[workload->kind_of[class->first]];
    return maker->at.division == DIVISION_MEMORY ? sp_cluster_memory(maker->subject->cluster, class->first)
                                                 : 1 / seconds;
}

static bool allocate(struct sp_arena *arena, const struct sp_workload *workload, uint32_t stages,
                     struct pipeline *pipeline)
{
    pipeline->placement = (struct sp_placement){.stage_count = stages,
                                                .stage_of = SP_NEW_ARRAY(arena, workload->node_count, uint32_t),
                                                .stage_device = SP_NEW_ARRAY(arena, stages, uint32_t),
                                                .stage_size = SP_NEW_ARRAY(arena, stages, uint32_t),
                                                .stage_replicas = SP_NEW_ARRAY(arena, stages, uint32_t)};
    pipeline->sharded = SP_NEW_ARRAY(arena, stages, struct sp_sharded_stage);
    pipeline->class_of = SP_NEW_ARRAY(arena, stages, uint32_t);
    return pipeline->placement.stage_of != NULL && pipeline->placement.stage_device != NULL &&
           pipeline->placement.stage_size != NULL && pipeline->placement.stage_replicas != NULL &&
           pipeline->sharded != NULL && pipeline->class_of != NULL;
}

static enum sp_status place(const struct maker *maker, struct sp_arena *arena, struct pipeline *pipeline)
{
    const struct sp_workload *workload = maker->subject->workload;
    const uint32_t size = maker->at.data * maker->at.tensor;
    double *parts = SP_NEW_ARRAY(arena, maker->at.stages, double);
    uint32_t stage = 0;
    if (parts == NULL || !allocate(arena, workload, maker->at.stages, pipeline))
        return sp_fail_memory(maker->err);
    for (uint32_t c = maker->at.first_class; c < maker->at.first_class + maker->at.class_count; c++) {
        const struct sp_space_class *class = &maker->space->classes[c];
        for (uint32_t block = 0; block < class->count / size && stage < maker->at.stages; block++, stage++) {
            pipeline->class_of[stage] = c;
            parts[stage] = part_of(maker, c);
            pipeline->placement.stage_device[stage] = class->first + block * size;
            pipeline->placement.stage_size[stage] = size;
            pipeline->placement.stage_replicas[stage] = 1;
        }
    }
    for (uint32_t n = 0; n < workload->node_count; n++)
        pipeline->placement.stage_of[n] = stage_of_layer(maker, parts, maker->layer_of[n]);
    sp_place_folded(workload, pipeline->placement.stage_of);
    for (uint32_t s = 0; s < maker->at.stages; s++) {
        uint32_t *nodes = SP_NEW_ARRAY(arena, workload->node_count, uint32_t);
        if (nodes == NULL)
            return sp_fail_memory(maker->err);
        for (uint32_t n = 0; n < workload->node_count; n++) {
            if (pipeline->placement.stage_of[n] == s && !workload->nodes[n].folded)
                nodes[pipeline->sharded[s].node_count++] = n;
        }
        pipeline->sharded[s].nodes = nodes;
    }
    return SP_OK;
}

static bool same_stage(const struct maker *maker, const struct pipeline *pipeline, uint32_t a, uint32_t b)
{
    const struct sp_sharded_stage *x = &pipeline->sharded[a], *y = &pipeline->sharded[b];
    if (pipeline->class_of[a] != pipeline->class_of[b] || x->node_count != y->node_count)
        return false;
    for (uint32_t i = 0; i < x->node_count; i++) {
        if (maker->blocks->class_of[x->nodes[i]] != maker->blocks->class_of[y->nodes[i]])
            return false;
    }
    return true;
}

/* Strategies of every stage; equal stages have equal ones. */
static enum sp_status choose_stages(struct maker *maker, struct sp_arena *arena, struct pipeline *pipeline)
{
    pipeline->is_feasible = true;
    for (uint32_t s = 0; s < maker->at.stages && maker->at.data * maker->at.tensor > 1; s++) {
        struct sp_sharded_stage *stage = &pipeline->sharded[s];
        const struct sp_space_class *class = &maker->space->classes[pipeline->class_of[s]];
        struct sp_intra_result *result;
        uint32_t same = 0;
        stage->intra = NULL;
        while (same < s && !same_stage(maker, pipeline, same, s))
            same++;
        if (same < s) {
            stage->table = pipeline->sharded[same].table;
            stage->strategy_of = pipeline->sharded[same].strategy_of;
            continue;
        }
        enum sp_status status = make_table(maker, maker->subject->arena, pipeline->class_of[s]);
        if (status == SP_OK)
            status = choose(maker, arena, maker->tables[pipeline->class_of[s]], stage->node_count, stage->nodes,
                            class->capacity - pipeline->reserved, &result);
        if (status != SP_OK)
            return status;
        if (result == NULL) {
            pipeline->is_feasible = false;
            return SP_OK;
        }
        stage->table = maker->tables[pipeline->class_of[s]];
        stage->strategy_of = result->strategy_of;
    }
    return SP_OK;
}

static bool add_plan(struct maker *maker, const struct hand_plan *plan)
{
    struct plan_grid *grid = maker->grid;
    if (grid->count == grid->capacity) {
        const uint32_t capacity = grid->capacity == 0 ? 64 : 2 * grid->capacity;
        struct hand_plan *plans = SP_NEW_ARRAY(maker->subject->arena, capacity, struct hand_plan);
        if (plans == NULL)
            return false;
        if (grid->count > 0)
            memcpy(plans, grid->plans, grid->count * sizeof *plans);
        grid->plans = plans;
        grid->capacity = capacity;
    }
    grid->plans[grid->count++] = *plan;
    return true;
}

static void name_plan(const struct maker *maker, struct hand_plan *plan)
{
    static const char *const families[] = {"TP", "EP", "EP", "FSDP"}, *const divisions[] = {"", " by speed",
                                                                                            " by memory"};
    if (maker->at.family == FAMILY_FSDP || maker->at.family == FAMILY_OFFLOAD)
        (void)snprintf(plan->name, sizeof plan->name, maker->at.family == FAMILY_FSDP ? "FSDP%u" : "offload %u",
                       maker->at.data);
    else if (maker->at.family == FAMILY_NGL)
        (void)snprintf(plan->name, sizeof plan->name, "ngl %u", maker->at.layers * (maker->at.stages - 1));
    else
        (void)snprintf(plan->name, sizeof plan->name, "%s%u DP%u PP%u%s", families[maker->at.family], maker->at.tensor,
                       maker->at.data, maker->at.stages, divisions[maker->at.division]);
    if (maker->at.class_count == maker->space->class_count)
        (void)snprintf(plan->where, sizeof plan->where, "all");
    else
        (void)snprintf(plan->where, sizeof plan->where, "class %u", maker->at.first_class);
}

/* Where a stage does not fit for what crosses its border, strategies are chosen once more within less. */
static enum sp_status make_pipeline(struct maker *maker, struct sp_arena *arena)
{
    struct plan_subject *subject = maker->subject;
    struct pipeline pipeline = {0};
    struct sp_evaluation *evaluation;
    struct hand_plan plan = {0};
    enum sp_status status = place(maker, arena, &pipeline);
    for (int round = 0; status == SP_OK && round < 2 && !plan.fits; round++) {
        status = choose_stages(maker, arena, &pipeline);
        if (status != SP_OK || !pipeline.is_feasible)
            return status;
        status = sp_joint_evaluate(arena, subject->workload, subject->cluster, &pipeline.placement, pipeline.sharded,
                                   &evaluation, maker->err);
        if (status != SP_OK)
            return status;
        plan.fits = evaluation->worst_excess_bytes <= 0;
        plan.memory_bytes = 0;
        for (uint32_t s = 0; s < maker->at.stages; s++) {
            pipeline.reserved = fmax(pipeline.reserved, SPARE * evaluation->stages[s].communication_bytes);
            plan.memory_bytes = fmax(plan.memory_bytes, evaluation->stages[s].total_bytes);
        }
    }
    if (status != SP_OK || !plan.fits)
        return status;
    plan.latency_seconds = evaluation->latency_seconds;
    plan.interval_seconds = evaluation->interval_seconds;
    if (!sp_error_bars(arena, subject->workload, subject->cluster,
                       &(struct sp_search_result){
                           .placement = pipeline.placement, .evaluation = evaluation, .sharded = pipeline.sharded},
                       NULL, &plan.bars))
        return sp_fail_memory(maker->err);
    name_plan(maker, &plan);
    return add_plan(maker, &plan) ? SP_OK : sp_fail_memory(maker->err);
}

/* ---- weights gathered layer by layer ---------------------------------------------------------------------------- */

static void gather_layers(const struct maker *maker, const struct sp_space_option *option, const double *bytes,
                          double *ret_seconds, double *ret_largest)
{
    uint32_t span[SP_SPACE_LEVELS];
    double largest[2] = {0, 0};
    for (uint32_t l = 0; l < option->mesh.links.level_count; l++)
        span[l] = option->levels[l].size;
    *ret_seconds = 0;
    for (uint32_t layer = 0; layer < maker->layer_count + 2; layer++) {
        *ret_seconds += sp_collective_seconds(&option->mesh.links, SP_ALL_GATHER, span, bytes[layer]);
        if (bytes[layer] > largest[0]) {
            largest[1] = largest[0];
            largest[0] = bytes[layer];
        } else {
            largest[1] = fmax(largest[1], bytes[layer]);
        }
    }
    *ret_largest = largest[0] + largest[1];
}

static enum sp_status layer_bytes(const struct maker *maker, struct sp_arena *arena, double **ret_bytes)
{
    const struct sp_workload *workload = maker->subject->workload;
    double *bytes = SP_NEW_ARRAY(arena, (size_t)maker->layer_count + 2, double);
    bool *seen = SP_NEW_ARRAY(arena, workload->tensor_count, bool);
    if (bytes == NULL || seen == NULL)
        return sp_fail_memory(maker->err);
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const struct sp_work_node *node = &workload->nodes[n];
        for (uint32_t i = 0; !node->folded && i < node->input_count; i++) {
            const uint32_t root = sp_work_root(workload, node->inputs[i]);
            if (workload->tensors[root].kind != SP_WORK_WEIGHT || seen[root])
                continue;
            seen[root] = true;
            bytes[maker->layer_of[n]] += workload->tensors[root].bytes;
        }
    }
    *ret_bytes = bytes;
    return SP_OK;
}

static enum sp_status make_gathered(struct maker *maker, struct sp_arena *arena)
{
    const struct sp_workload *workload = maker->subject->workload;
    const uint32_t class_index = maker->at.first_class;
    const struct sp_space_option *option = find_option(maker, class_index, maker->at.data);
    uint32_t *nodes = SP_NEW_ARRAY(arena, workload->node_count, uint32_t), count = 0;
    struct sp_intra_result *result = NULL;
    struct hand_plan plan = {0};
    double *bytes = NULL, gathers, largest;
    if (nodes == NULL)
        return sp_fail_memory(maker->err);
    for (uint32_t n = 0; n < workload->node_count; n++) {
        if (!workload->nodes[n].folded)
            nodes[count++] = n;
    }
    enum sp_status status = make_table(maker, maker->subject->arena, class_index);
    if (status == SP_OK)
        status = choose(maker, arena, maker->tables[class_index], count, nodes, INFINITY, &result);
    if (status == SP_OK)
        status = layer_bytes(maker, arena, &bytes);
    if (status != SP_OK || result == NULL || bytes == NULL)
        return status;
    gather_layers(maker, option, bytes, &gathers, &largest);
    const uint32_t first = maker->space->classes[class_index].first;
    const bool is_offloaded = maker->at.family == FAMILY_OFFLOAD;
    const double part = workload->weight_bytes / maker->at.data;
    plan.memory_bytes = (is_offloaded ? 0 : part) + largest + result->activation_peak_bytes + result->resident_bytes;
    plan.fits = plan.memory_bytes <= sp_cluster_memory(maker->subject->cluster, first);
    plan.latency_seconds = plan.interval_seconds = result->compute_seconds + result->communication_seconds + gathers;
    if (is_offloaded) {
        const struct sp_cluster *cluster = maker->subject->cluster;
        const double rate = fmin(sp_cluster_host_bandwidth(cluster, first),
                                 sp_cluster_host(cluster, first)->bandwidth / maker->at.data);
        plan.latency_seconds = plan.interval_seconds = fmax(plan.interval_seconds, part / rate);
    }
    if (!plan.fits)
        return SP_OK;
    name_plan(maker, &plan);
    return add_plan(maker, &plan) ? SP_OK : sp_fail_memory(maker->err);
}

/* ---- the grid --------------------------------------------------------------------------------------------------- */

static enum sp_status make_one(struct maker *maker)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    if (arena == NULL)
        return sp_fail_memory(maker->err);
    const bool is_gathered = maker->at.family == FAMILY_FSDP || maker->at.family == FAMILY_OFFLOAD;
    enum sp_status status = is_gathered ? make_gathered(maker, arena) : make_pipeline(maker, arena);
    sp_arena_destroy(arena);
    return status;
}

/* Stages: powers of two, and as many as there are blocks or layers. */
static enum sp_status vary_stages(struct maker *maker)
{
    const uint32_t size = maker->at.data * maker->at.tensor;
    uint32_t most = 0;
    for (uint32_t c = maker->at.first_class; c < maker->at.first_class + maker->at.class_count; c++) {
        if (find_option(maker, c, size) == NULL)
            return SP_OK;
        most += maker->space->classes[c].count / size;
    }
    most = most < maker->layer_count ? most : maker->layer_count;
    for (uint32_t stages = 1; stages <= most; stages = stages == most      ? most + 1
                                                       : 2 * stages < most ? 2 * stages
                                                                           : most) {
        maker->at.stages = stages;
        enum sp_status status = make_one(maker);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

static enum sp_status vary_classes(struct maker *maker)
{
    const uint32_t classes = maker->space->class_count;
    enum sp_status status = SP_OK;
    maker->at.class_count = 1;
    for (uint32_t c = 0; status == SP_OK && c < classes; c++) {
        maker->at.first_class = c;
        status = vary_stages(maker);
    }
    maker->at.first_class = 0;
    maker->at.class_count = classes;
    for (; status == SP_OK && classes > 1 && maker->at.division < DIVISION_COUNT; maker->at.division++)
        status = vary_stages(maker);
    maker->at.division = DIVISION_EQUAL;
    return status;
}

static enum sp_status vary_degrees(struct maker *maker)
{
    enum sp_status status = SP_OK;
    for (uint32_t tensor = 1; status == SP_OK && tensor <= MAX_DEGREE; tensor *= 2) {
        for (uint32_t data = 1; status == SP_OK && maker->batch % data == 0; data *= 2) {
            maker->at = (struct degrees){.family = FAMILY_MEGATRON, .tensor = tensor, .data = data};
            status = vary_classes(maker);
            maker->at.family = FAMILY_EXPERTS;
            if (status == SP_OK && maker->has_experts && tensor > 1)
                status = vary_classes(maker);
            for (uint32_t c = 0; status == SP_OK && tensor == 1 && data > 1 && c < maker->space->class_count; c++) {
                maker->at = (struct degrees){FAMILY_FSDP, 1, data, 1, c, 1, DIVISION_EQUAL, 0};
                if (find_option(maker, c, data) == NULL)
                    continue;
                status = make_one(maker);
                maker->at.family = FAMILY_OFFLOAD;
                if (status == SP_OK && sp_cluster_host(maker->subject->cluster, maker->space->classes[c].first) != NULL)
                    status = make_one(maker);
            }
            drop_tables(maker);
        }
    }
    return status;
}

/* Accelerators and a processor: the most layers that the former have memory for, none of them streamed. */
static enum sp_status fill_accelerators(struct maker *maker)
{
    struct plan_subject *subject = maker->subject;
    struct sp_cluster *cluster = subject->cluster, alone = *cluster;
    const struct sp_space_class *classes = maker->space->classes;
    const uint32_t before = maker->grid->count;
    enum sp_status status = SP_OK;
    if (maker->space->class_count != 2 || classes[1].count != 1 ||
        sp_cluster_device(cluster, classes[1].first)->kind != SP_DEVICE_CPU)
        return SP_OK;
    alone.host_of = NULL;
    subject->cluster = &alone;
    for (uint32_t layers = maker->layer_count / classes[0].count; status == SP_OK && layers > 0; layers--) {
        maker->at = (struct degrees){FAMILY_NGL, 1, 1, classes[0].count + 1, 0, 2, DIVISION_EQUAL, layers};
        status = make_one(maker);
        if (maker->grid->count > before)
            break;
    }
    subject->cluster = cluster;
    return status;
}

static enum sp_status make_layout(struct maker *maker, const struct plan_layout *layout)
{
    const uint32_t size = layout->tensor * layout->data;
    maker->at = (struct degrees){.family = layout->splits_experts ? FAMILY_WIDE_EXPERTS : FAMILY_MEGATRON,
                                 .tensor = layout->tensor,
                                 .data = layout->data,
                                 .stages = layout->stages,
                                 .class_count = maker->space->class_count};
    if (find_option(maker, 0, size) == NULL)
        return sp_fail(maker->err, SP_ERR_REQUEST, "LAYOUT", "The cluster has no groups of %u devices.", size);
    return make_one(maker);
}

/* All of the grid, or the one layout. */
static bool make_grid(struct plan_subject *subject, const struct plan_layout *layout, struct plan_grid *grid)
{
    struct sp_error err = {0};
    struct maker maker = {.subject = subject, .grid = grid, .err = &err};
    const double start = plan_user_seconds();
    *grid = (struct plan_grid){0};
    struct sp_cluster *roomy = SP_NEW(subject->arena, struct sp_cluster); /* whose stages may stream */
    if (roomy == NULL)
        return false;
    *roomy = *subject->cluster;
    roomy->spilled_bytes = subject->workload->weight_bytes;
    enum sp_status status =
        sp_space_create(subject->arena, subject->workload, roomy, roomy->device_count, &maker.space, &err);
    if (status == SP_OK)
        status = sp_blocks_find(subject->arena, subject->workload, &maker.blocks, &err);
    if (status == SP_OK)
        status = read_nodes(&maker);
    if (status == SP_OK) {
        maker.tables = SP_NEW_ARRAY(subject->arena, maker.space->class_count, struct sp_strategy_table *);
        if (maker.tables == NULL)
            status = sp_fail_memory(&err);
        else
            status = layout != NULL ? make_layout(&maker, layout) : vary_degrees(&maker);
        if (status == SP_OK && layout == NULL)
            status = fill_accelerators(&maker);
    }
    if (maker.tables != NULL)
        drop_tables(&maker);
    grid->seconds = plan_user_seconds() - start;
    if (status != SP_OK)
        (void)fprintf(stderr, "The grid of plans cannot be made: %s\n", err.message);
    return status == SP_OK;
}

bool plan_grid_make(struct plan_subject *subject, struct plan_grid *grid)
{
    return make_grid(subject, NULL, grid);
}

bool plan_grid_make_layout(struct plan_subject *subject, const struct plan_layout *layout, struct plan_grid *grid)
{
    return make_grid(subject, layout, grid);
}

const struct hand_plan *plan_grid_best(const struct plan_grid *grid, enum sp_objective objective, const char *where)
{
    const struct hand_plan *best = NULL;
    for (uint32_t i = 0; i < grid->count; i++) {
        const struct hand_plan *plan = &grid->plans[i];
        if (where != NULL && strcmp(plan->where, where) != 0)
            continue;
        if (best == NULL || hand_plan_value(plan, objective) < hand_plan_value(best, objective))
            best = plan;
    }
    return best;
}
