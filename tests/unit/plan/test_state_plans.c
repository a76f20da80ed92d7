/*
 * Plans of models with states, by every objective and strategy: each state stays where it is made, by a comparison of
 * the plan's own layouts and stages; and a plan that need not keep them is never worse.
 */
#include <criterion/criterion.h>
#include <math.h>

#include "plan/job.h"
#include "recurrent_text.h"
#include "search/joint/evaluate.h"
#include "search/states.h"

struct planned {
    struct sp_arena *arena;
    struct sp_cluster *cluster;
    struct sp_job *job;
    struct sp_plan *plan;
    struct sp_error err;
    enum sp_status status;
};

static void make(struct planned *p, const struct sp_buf *model, uint32_t devices, double memory,
                 const struct sp_plan_options *options)
{
    char text[512];
    (void)snprintf(
        text, sizeof text,
        "{\"runtime\":\"generic\",\"launch_seconds\":1e-9,\"groups\":[{\"name\":\"slow\",\"count\":%u,\"device\":"
        "{\"name\":\"slow\",\"memory_bytes\":%.0f,\"memory_bandwidth\":1e9,\"flops\":{\"float32\":1e7}}}],"
        "\"mesh\":[{\"name\":\"link\",\"size\":%u,\"bandwidth\":1e10,\"latency\":1e-8}]}",
        devices, memory, devices);
    json_t *json = json_loads(text, 0, NULL);
    *p = (struct planned){.arena = sp_arena_create(NULL)};
    cr_assert_eq(sp_cluster_parse(p->arena, json, "", &p->cluster, &p->err), SP_OK, "%s", p->err.message);
    json_decref(json);
    const struct sp_job_options job = {.bytes = model->data, .size = model->size, .name = "m"};
    p->status = sp_job_plan(&job, p->cluster, options, &p->job, &p->plan, &p->err);
}

static void release(struct planned *p)
{
    sp_job_destroy(p->job);
    sp_arena_destroy(p->arena);
}

static uint32_t find(const struct sp_workload *workload, const char *name)
{
    uint32_t t = 0;
    while (strcmp(workload->tensors[t].name, name) != 0)
        t++;
    return t;
}

/* Where and how a node has a tensor. */
static void place_of(const struct sp_plan *plan, uint32_t node, uint32_t tensor, uint32_t *ret_stage,
                     uint32_t *ret_layout)
{
    const struct sp_search_result *result = plan->result;
    const uint32_t stage = result->placement.stage_of[node];
    *ret_stage = stage;
    *ret_layout = 0;
    for (uint32_t i = 0;
         result->sharded != NULL && result->sharded[stage].table != NULL && i < result->sharded[stage].node_count;
         i++) {
        if (result->sharded[stage].nodes[i] == node)
            *ret_layout =
                sp_joint_layout(result->sharded[stage].table, node, result->sharded[stage].strategy_of[i], tensor);
    }
}

static void expect_kept(const struct sp_plan *plan, uint32_t layers, const char *what)
{
    for (uint32_t l = 0; l < layers; l++) {
        char past[32], present[32];
        uint32_t stages[2], layouts[2];
        (void)snprintf(past, sizeof past, "state_%u", l);
        (void)snprintf(present, sizeof present, "new_state_%u", l);
        const uint32_t in = find(plan->workload, past), out = find(plan->workload, present);
        place_of(plan, plan->workload->tensors[in].consumers[0], in, &stages[0], &layouts[0]);
        place_of(plan, plan->workload->tensors[out].producer, out, &stages[1], &layouts[1]);
        cr_expect(stages[0] == stages[1] && layouts[0] == layouts[1],
                  "%s, layer %u: stages %u and %u, layouts %u and %u", what, l, stages[0], stages[1], layouts[0],
                  layouts[1]);
    }
}

static double figure(const struct planned *p, enum sp_objective objective)
{
    const struct sp_evaluation *evaluation = p->plan->result->evaluation;
    return objective == SP_OBJECTIVE_LATENCY ? evaluation->latency_seconds : evaluation->interval_seconds;
}

Test(state_plans, states_stay_where_they_are_made)
{
    static const struct sp_given_states none = {.are_all = true};
    static const uint32_t sizes[][3] = {{1, 3, 32}, {2, 3, 64}, {2, 4, 32}, {6, 3, 32}};
    uint32_t moved = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct sp_buf model;
        recurrent_text(&model, sizes[i][0], sizes[i][1], sizes[i][2]);
        for (uint32_t variant = 0; variant < 12; variant++) {
            const uint32_t devices = variant / 6 + 2;
            struct sp_plan_options options;
            struct planned bound, loose;
            char what[96];
            sp_plan_options_init(&options);
            options.max_replicas = 1; /* one plan, no copies */
            options.objective = variant % 2 == 0 ? SP_OBJECTIVE_THROUGHPUT : SP_OBJECTIVE_LATENCY;
            options.strategy = variant / 2 % 3 == 0   ? SP_STRATEGY_AUTO
                               : variant / 2 % 3 == 1 ? SP_STRATEGY_TENSOR
                                                      : SP_STRATEGY_PIPELINE;
            options.tolerance = 0;
            (void)snprintf(what, sizeof what, "%u layers of %u x %u, %u devices, objective %d, strategy %d",
                           sizes[i][0], sizes[i][1], sizes[i][2], devices, (int)options.objective,
                           (int)options.strategy);
            make(&bound, &model, devices, 1e9, &options);
            options.sizes.given.states = &none;
            make(&loose, &model, devices, 1e9, &options);
            cr_assert_eq(bound.status, SP_OK, "%s: %s", what, bound.err.message);
            cr_assert_eq(loose.status, SP_OK, "%s: %s", what, loose.err.message);
            expect_kept(bound.plan, sizes[i][0], what);
            cr_expect_leq(figure(&loose, options.objective), figure(&bound, options.objective) * (1 + 1e-9),
                          "%s: %g, %g", what, figure(&loose, options.objective), figure(&bound, options.objective));
            struct sp_workload tied = *loose.plan->workload;
            tied.state_count = bound.plan->workload->state_count;
            tied.states = bound.plan->workload->states;
            moved += !sp_states_are_kept(&tied, &loose.plan->result->placement, loose.plan->result->sharded);
            release(&bound);
            release(&loose);
        }
        sp_buf_release(&model);
    }
    cr_expect_gt(moved, 0, "of plans that need not keep them, some move states: else this tests nothing");
}

/* x and a state go through three large products; no device has room for all. */
Test(state_plans, a_state_moves_where_nothing_else_fits)
{
    static const char text[] =
        "{\"opset\":17,\"inputs\":[{\"name\":\"state\",\"dtype\":\"float32\",\"shape\":[1,1024]}],\"initializers\":["
        "{\"name\":\"A\",\"dtype\":\"float32\",\"shape\":[1024,1024]},"
        "{\"name\":\"B\",\"dtype\":\"float32\",\"shape\":[1024,1024]}],\"nodes\":["
        "{\"op\":\"MatMul\",\"inputs\":[\"state\",\"A\"],\"outputs\":[\"h\"]},"
        "{\"op\":\"MatMul\",\"inputs\":[\"h\",\"B\"],\"outputs\":[\"new_state\"]}],\"outputs\":[\"new_state\"]}";
    const struct sp_buf model = {.data = (char *)(uintptr_t)text, .size = sizeof text - 1};
    struct sp_plan_options options;
    struct planned p;
    bool is_told = false;
    sp_plan_options_init(&options);
    options.max_replicas = 1; /* one plan, no copies */
    options.strategy = SP_STRATEGY_PIPELINE;
    make(&p, &model, 2, 6e6, &options); /* each product has 4.2 MB of weights */
    cr_assert_eq(p.status, SP_OK, "%s", p.err.message);
    cr_expect_eq(p.plan->result->placement.stage_count, 2);
    for (uint32_t i = 0; i < p.plan->note_count; i++)
        is_told = is_told || strcmp(p.plan->notes[i].code, "STATE_MOVES") == 0;
    cr_expect(is_told);
    release(&p);
    options.strategy = SP_STRATEGY_AUTO; /* split, both fit, and the state stays */
    make(&p, &model, 2, 6e6, &options);
    cr_assert_eq(p.status, SP_OK, "%s", p.err.message);
    cr_expect_eq(p.plan->result->placement.stage_count, 1);
    for (uint32_t i = 0; i < p.plan->note_count; i++)
        cr_expect_str_neq(p.plan->notes[i].code, "STATE_MOVES");
    release(&p);
    make(&p, &model, 2, 3e6, &options);
    cr_expect_eq(p.status, SP_ERR_NOFIT, "and where nothing fits at all, nothing does");
    release(&p);
}
