/*
 * Stages of unequal devices: what the search finds for one stage against every division in up to eight blocks, and for
 * several against every cut of a chain in rows of neighbouring devices with every division in up to four, each with
 * strategies chosen for it and evaluated on its own.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "build_model.h"
#include "expect_op.h"
#include "recount.h"
#include "search/joint/evaluate.h"
#include "search/joint/joint.h"
#include "search/joint/model_choice.h"
#include "search/joint/unequal/unequal.h"
#include "search/routes/routed.h"

#define PROBLEMS    40
#define LAYERS      6
#define TINY_LAYERS 3 /* few enough nodes for every other plan to be tried */
#define MOST_BLOCKS 8

#define PIPELINES     16 /* problems */
#define MOST_STAGES   3
#define MOST_FORMS    64
#define STAGE_BLOCKS  4
#define PIPELINE_NEAR 1.03

struct problem {
    struct build build;
    struct sp_arena *arena;
    struct sp_cluster *cluster;
    struct sp_workload *workload;
    struct sp_dataflow *dataflow;
    double best; /* of every division */
};

static uint64_t state;

static uint32_t below(uint32_t bound)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % bound;
}

/* Products with weights of 48 x 48, which most numbers of blocks divide. */
static void make_model(struct problem *problem, uint32_t layers)
{
    char inputs[64], output[16], weight[16];
    build_init(&problem->build, 21);
    build_input(&problem->build, "t0", SP_DTYPE_FLOAT, "7,48");
    for (uint32_t i = 0; i < layers; i++) {
        (void)snprintf(weight, sizeof weight, "w%u", i);
        build_weight(&problem->build, weight, SP_DTYPE_FLOAT, "48,48");
        (void)snprintf(inputs, sizeof inputs, "t%u w%u", i, i);
        (void)snprintf(output, sizeof output, "p%u", i);
        build_node(&problem->build, "MatMul", inputs, output);
        (void)snprintf(inputs, sizeof inputs, "p%u", i);
        (void)snprintf(output, sizeof output, "t%u", i + 1);
        build_node(&problem->build, "Tanh", inputs, output);
    }
    build_outputs(&problem->build, output);
    cr_assert_eq(build_infer(&problem->build), SP_OK, "%s", problem->build.err.message);
}

/* Devices of different speed, and now and then of little memory: the weights are 9 kB a layer. */
static void make_cluster(struct problem *problem, uint32_t devices, uint32_t layers)
{
    json_t *groups = json_array();
    for (uint32_t d = 0; d < devices; d++) {
        const double speed = 1 + below(4), memory = below(3) == 0 ? layers * (5000.0 + below(6667)) : 1e9;
        char name[16];
        (void)snprintf(name, sizeof name, "d%u", d);
        json_t *device = json_pack("{s:s, s:f, s:f, s:{s:f}}", "name", name, "memory_bytes", memory, "memory_bandwidth",
                                   speed * 1e7, "flops", "float32", speed * 1e8);
        (void)json_array_append_new(groups, json_pack("{s:i, s:o}", "count", 1, "device", device));
    }
    json_t *json =
        json_pack("{s:o, s:[{s:s, s:i, s:f, s:f}], s:f, s:s}", "groups", groups, "mesh", "name", "in", "size",
                  (int)devices, "bandwidth", 1e9, "latency", 1e-7, "launch_seconds", 1e-7, "runtime", "generic");
    struct sp_error err = {0};
    cr_assert_eq(sp_cluster_parse(problem->arena, json, "", &problem->cluster, &err), SP_OK, "%s", err.message);
    json_decref(json);
}

static void open_problem(struct problem *problem, uint32_t devices, uint32_t layers)
{
    struct sp_error err = {0};
    *problem = (struct problem){.arena = sp_arena_create(NULL), .best = INFINITY};
    make_model(problem, layers);
    make_cluster(problem, devices, layers);
    cr_assert_eq(
        sp_workload_from_model(problem->arena, problem->build.model, problem->cluster, NULL, &problem->workload, &err),
        SP_OK, "%s", err.message);
    cr_assert_eq(sp_dataflow_create(problem->arena, problem->build.model, &problem->dataflow, &err), SP_OK);
}

static void close_problem(struct problem *problem)
{
    sp_arena_destroy(problem->arena);
    build_release(&problem->build);
}

/* Strategies for these shares, evaluated; the best that fits is kept. */
static void try_shares(struct problem *problem, uint32_t devices, const uint32_t *shares)
{
    struct sp_arena *scratch = sp_arena_create(NULL);
    struct sp_space *space;
    struct sp_error err = {0};
    struct sp_model_choice *choice = NULL;
    struct sp_evaluation *evaluation;
    uint32_t *nodes = SP_NEW_ARRAY(scratch, problem->workload->node_count, uint32_t), count = 0;
    uint32_t *stage_of = SP_NEW_ARRAY(scratch, problem->workload->node_count, uint32_t);
    uint32_t *strategies = SP_NEW_ARRAY(scratch, problem->workload->node_count, uint32_t);
    uint32_t device = 0, size = devices, replicas = 1;
    cr_assert_eq(sp_space_create(scratch, problem->workload, problem->cluster, devices, &space, &err), SP_OK);
    struct sp_profile_request request = {.workload = problem->workload,
                                         .option = sp_space_add_shares(space, problem->workload, 0, devices, shares),
                                         .memory_limit = INFINITY,
                                         .choice_work = 1000000};
    cr_assert_eq(sp_strategy_table_create(scratch, problem->workload, problem->dataflow, &request.option->mesh, NULL,
                                          &request.table, &err),
                 SP_OK, "%s", err.message);
    cr_assert_eq(sp_profile_create(scratch, &request, &choice, &err), SP_OK, "%s", err.message);
    for (uint32_t n = 0; n < problem->workload->node_count; n++)
        if (!problem->workload->nodes[n].folded) {
            strategies[count] = choice->strategy_of[n];
            nodes[count++] = n;
        }
    struct sp_sharded_stage sharded = {
        .table = request.table, .nodes = nodes, .node_count = count, .strategy_of = strategies};
    struct sp_placement placement = {.stage_count = 1,
                                     .stage_of = stage_of,
                                     .stage_device = &device,
                                     .stage_size = &size,
                                     .stage_replicas = &replicas};
    cr_assert_eq(
        sp_joint_evaluate(scratch, problem->workload, problem->cluster, &placement, &sharded, &evaluation, &err), SP_OK,
        "%s", err.message);
    if (evaluation->worst_excess_bytes <= 0)
        problem->best = fmin(problem->best, evaluation->latency_seconds);
    sp_strategy_table_destroy(request.table);
    sp_arena_destroy(scratch);
}

/* All divisions of up to MOST_BLOCKS blocks. */
static void try_all(struct problem *problem, uint32_t devices)
{
    uint32_t shares[4] = {1, 1, 1, 1};
    for (;;) {
        uint32_t sum = 0, d = 0;
        for (uint32_t i = 0; i < devices; i++)
            sum += shares[i];
        if (sum <= MOST_BLOCKS)
            try_shares(problem, devices, shares);
        while (d < devices && ++shares[d] > MOST_BLOCKS)
            shares[d++] = 1;
        if (d == devices)
            return;
    }
}

/* Each device's own memory, and the shares of the devices, whose sum is the mesh. */
static void expect_sound(const struct problem *problem, const struct sp_search_result *result)
{
    const struct sp_evaluation *evaluation = result->evaluation;
    const struct sp_strategy_mesh *mesh = sp_strategy_table_mesh(result->sharded[0].table);
    uint32_t blocks = 0;
    double weights = 0;
    for (uint32_t m = 0; m < mesh->member_count; m++) {
        const uint32_t device = result->placement.stage_device[0] + m;
        const struct sp_stage_cost *own = &evaluation->members[device];
        cr_expect_leq(own->total_bytes, sp_cluster_memory(problem->cluster, device));
        cr_expect_float_eq(own->capacity_bytes, sp_cluster_memory(problem->cluster, device), 1);
        weights += own->weights_bytes;
        blocks += mesh->members[m].share;
    }
    cr_expect_eq(blocks, mesh->size[0]);
    cr_expect_geq(weights, problem->workload->weight_bytes * (1 - 1e-9));
}

static bool go_on(void *context, const char *phase, double fraction, double best_seconds, double lower_bound_seconds)
{
    (void)context, (void)phase, (void)fraction, (void)best_seconds, (void)lower_bound_seconds;
    return true;
}

static void expect_near(uint32_t layers)
{
    const struct sp_watch watch = {.tick = go_on}; /* the bound is found before there are shares */
    unsigned with_shares = 0;
    for (unsigned i = 0; i < PROBLEMS; i++) {
        struct problem problem;
        struct sp_joint_options options;
        struct sp_search_result *result = NULL;
        struct sp_error err = {0};
        state = i;
        const uint32_t devices = 2 + i % 3;
        open_problem(&problem, devices, layers);
        try_all(&problem, devices);
        sp_joint_options_init(&options);
        options.objective = SP_OBJECTIVE_LATENCY;
        options.strategy = SP_STRATEGY_AUTO;
        options.tolerance = 0;
        options.watch = &watch;
        const enum sp_status status = sp_joint_search(problem.arena, problem.workload, problem.dataflow,
                                                      problem.cluster, &options, &result, &err);
        if (isfinite(problem.best)) {
            cr_assert_eq(status, SP_OK, "%u: %s", i, err.message);
            cr_expect_leq(result->evaluation->latency_seconds, problem.best * 1.03, "%u: %g, not %g", i,
                          result->evaluation->latency_seconds, problem.best);
        }
        if (status == SP_OK) {
            cr_expect_geq(result->evaluation->latency_seconds, result->bounds.latency_seconds * (1 - 1e-9));
            if (result->evaluation->members != NULL && result->placement.stage_count == 1) {
                with_shares++;
                expect_sound(&problem, result);
            }
        }
        sp_search_result_release(result);
        close_problem(&problem);
    }
    cr_expect_geq(with_shares, PROBLEMS / 2);
}

Test(shares, near_every_division)
{
    expect_near(LAYERS);
}

Test(shares, near_every_division_of_tiny_models)
{
    expect_near(TINY_LAYERS);
}

/* ---- several stages ----------------------------------------------------------------------------------------------- */

/* What a stage may be: a row of devices, equal or with shares, with strategies for the whole model. */
struct form {
    uint32_t first, size;
    struct sp_strategy_table *table; /* NULL: one device */
    const struct sp_model_choice *choice;
};

struct pipelines {
    struct problem problem;
    struct sp_space *space;
    uint32_t form_count, live_count, live[2 * LAYERS];
    struct form forms[MOST_FORMS];
    double latency, interval; /* the least of all that fit */
};

/* Two nodes of two devices of any speed, with quick links inside and slow ones between. */
static void make_nodes(struct pipelines *all, uint32_t layers)
{
    json_t *groups = json_array();
    for (uint32_t d = 0; d < 4; d++) {
        const double speed = 1 + below(4), memory = layers * (2500.0 + below(12000));
        char name[16];
        (void)snprintf(name, sizeof name, "d%u", d);
        json_t *device = json_pack("{s:s, s:f, s:f, s:{s:f}}", "name", name, "memory_bytes", memory, "memory_bandwidth",
                                   speed * 1e7, "flops", "float32", speed * 1e8);
        (void)json_array_append_new(groups, json_pack("{s:i, s:o}", "count", 1, "device", device));
    }
    json_t *json = json_pack("{s:o, s:[{s:s, s:i, s:f, s:f}, {s:s, s:i, s:f, s:f}], s:f, s:s}", "groups", groups,
                             "mesh", "name", "out", "size", 2, "bandwidth", 2e7, "latency", 1e-6, "name", "in", "size",
                             2, "bandwidth", 1e9, "latency", 1e-7, "launch_seconds", 1e-7, "runtime", "generic");
    struct sp_error err = {0};
    cr_assert_eq(sp_cluster_parse(all->problem.arena, json, "", &all->problem.cluster, &err), SP_OK, "%s", err.message);
    json_decref(json);
}

static void add_form(struct pipelines *all, const struct sp_space_option *option, uint32_t first)
{
    struct problem *problem = &all->problem;
    struct sp_error err = {0};
    struct sp_model_choice *choice = NULL;
    struct sp_profile_request request = {
        .workload = problem->workload, .option = option, .memory_limit = INFINITY, .choice_work = 1000000};
    cr_assert_lt(all->form_count, MOST_FORMS);
    if (option->size > 1)
        cr_assert_eq(sp_strategy_table_create(problem->arena, problem->workload, problem->dataflow, &option->mesh, NULL,
                                              &request.table, &err),
                     SP_OK, "%s", err.message);
    cr_assert_eq(sp_profile_create(problem->arena, &request, &choice, &err), SP_OK, "%s", err.message);
    all->forms[all->form_count++] = (struct form){first, option->size, request.table, choice};
}

/* All rows of devices: equal ones as the space has them, others with every division. */
static void list_forms(struct pipelines *all)
{
    const uint32_t equal = all->space->option_count, devices = all->problem.cluster->device_count;
    for (uint32_t i = 0; i < equal; i++)
        for (uint32_t first = 0; first < devices; first++)
            if (sp_space_place(all->space, &all->space->options[i], 1, first) == first)
                add_form(all, &all->space->options[i], first);
    for (uint32_t first = 0; first < devices; first++) {
        for (uint32_t size = 2; first + size <= devices; size++) {
            uint32_t shares[4] = {1, 1, 1, 1}, d = 0;
            while (d < size) {
                uint32_t sum = 0;
                for (uint32_t i = 0; i < size; i++)
                    sum += shares[i];
                const struct sp_space_option *option =
                    sum > STAGE_BLOCKS ? NULL
                                       : sp_space_add_shares(all->space, all->problem.workload, first, size, shares);
                if (option != NULL)
                    add_form(all, option, first);
                for (d = 0; d < size && ++shares[d] > STAGE_BLOCKS; d++)
                    shares[d] = 1;
            }
        }
    }
}

/* The nodes up to before ends[0] in forms[0], and so on. */
static void judge(struct pipelines *all, uint32_t count, const struct form *const *forms, const uint32_t *ends)
{
    struct problem *problem = &all->problem;
    struct sp_arena *scratch = sp_arena_create(NULL);
    uint32_t *stage_of = SP_NEW_ARRAY(scratch, problem->workload->node_count, uint32_t);
    uint32_t devices[MOST_STAGES], sizes[MOST_STAGES], replicas[MOST_STAGES] = {1, 1, 1};
    uint32_t strategies[2 * LAYERS];
    struct sp_sharded_stage sharded[MOST_STAGES] = {0};
    struct sp_evaluation *evaluation;
    struct sp_error err = {0};
    for (uint32_t s = 0, i = 0; s < count; s++) {
        devices[s] = forms[s]->first;
        sizes[s] = forms[s]->size;
        sharded[s] = (struct sp_sharded_stage){
            .table = forms[s]->table, .nodes = all->live + i, .node_count = ends[s] - i, .strategy_of = strategies + i};
        for (; i < ends[s]; i++) {
            stage_of[all->live[i]] = s;
            strategies[i] = forms[s]->table == NULL ? 0 : forms[s]->choice->strategy_of[all->live[i]];
        }
    }
    const struct sp_placement placement = {.stage_count = count,
                                           .stage_of = stage_of,
                                           .stage_device = devices,
                                           .stage_size = sizes,
                                           .stage_replicas = replicas};
    cr_assert_eq(
        sp_joint_evaluate(scratch, problem->workload, problem->cluster, &placement, sharded, &evaluation, &err), SP_OK,
        "%s", err.message);
    recount_expect(problem->workload, problem->cluster, &placement, sharded, evaluation, false);
    if (evaluation->worst_excess_bytes <= 0) {
        all->latency = fmin(all->latency, evaluation->latency_seconds);
        all->interval = fmin(all->interval, evaluation->interval_seconds);
    }
    sp_arena_destroy(scratch);
}

/* All chains of up to MOST_STAGES stages on devices that are not used twice. */
static void try_chains(struct pipelines *all)
{
    const uint32_t last = all->live_count;
    for (uint32_t a = 0; a < all->form_count; a++) {
        const struct form *forms[MOST_STAGES] = {&all->forms[a]};
        const uint32_t used = ((1u << forms[0]->size) - 1) << forms[0]->first;
        judge(all, 1, forms, &last);
        for (uint32_t b = 0; b < all->form_count; b++) {
            forms[1] = &all->forms[b];
            const uint32_t more = ((1u << forms[1]->size) - 1) << forms[1]->first;
            for (uint32_t cut = 1; (used & more) == 0 && cut < last; cut++) {
                judge(all, 2, forms, (const uint32_t[]){cut, last});
                for (uint32_t c = 0; c < all->form_count; c++) {
                    forms[2] = &all->forms[c];
                    if (((((1u << forms[2]->size) - 1) << forms[2]->first) & (used | more)) != 0)
                        continue;
                    for (uint32_t end = cut + 1; end < last; end++)
                        judge(all, 3, forms, (const uint32_t[]){cut, end, last});
                }
            }
        }
    }
}

/* What a search for an objective finds against them; whether some of several stages has shares. */
static bool compare_pipelines(struct pipelines *all, unsigned number, enum sp_objective objective)
{
    struct problem *problem = &all->problem;
    struct sp_joint_options options;
    struct sp_search_result *result = NULL;
    struct sp_error err = {0};
    const bool is_latency = objective == SP_OBJECTIVE_LATENCY;
    const double best = is_latency ? all->latency : all->interval;
    sp_joint_options_init(&options);
    options.objective = objective;
    options.tolerance = 0;
    const enum sp_status status = sp_joint_search(problem->arena, problem->workload, problem->dataflow,
                                                  problem->cluster, &options, &result, &err);
    if (status != SP_OK) {
        cr_expect(isinf(best), "%u: %s", number, err.message);
        return false;
    }
    const double found = is_latency ? result->evaluation->latency_seconds : result->evaluation->interval_seconds;
    cr_expect_leq(found, best * PIPELINE_NEAR, "%u, %s: %g, not %g", number, is_latency ? "latency" : "throughput",
                  found, best);
    recount_expect_result(problem->workload, problem->cluster, result);
    const bool is_mixed = result->evaluation->members != NULL && result->placement.stage_count > 1;
    sp_search_result_release(result);
    return is_mixed;
}

static void open_pipelines(struct pipelines *all, uint32_t layers, void (*make)(struct pipelines *, uint32_t))
{
    struct problem *problem = &all->problem;
    struct sp_error err = {0};
    *all = (struct pipelines){.latency = INFINITY, .interval = INFINITY};
    problem->arena = sp_arena_create(NULL);
    make_model(problem, layers);
    make(all, layers);
    cr_assert_eq(
        sp_workload_from_model(problem->arena, problem->build.model, problem->cluster, NULL, &problem->workload, &err),
        SP_OK, "%s", err.message);
    cr_assert_eq(sp_dataflow_create(problem->arena, problem->build.model, &problem->dataflow, &err), SP_OK);
    cr_assert_eq(sp_space_create(problem->arena, problem->workload, problem->cluster, 4, &all->space, &err), SP_OK);
    for (uint32_t n = 0; n < problem->workload->node_count; n++)
        if (!problem->workload->nodes[n].folded)
            all->live[all->live_count++] = n;
}

static void close_pipelines(struct pipelines *all)
{
    for (uint32_t f = 0; f < all->form_count; f++)
        sp_strategy_table_destroy(all->forms[f].table);
    close_problem(&all->problem);
}

Test(shares, stages_of_pipelines_near_every_plan)
{
    unsigned mixed = 0;
    for (unsigned i = 0; i < PIPELINES; i++) {
        struct pipelines all;
        state = 100 + i;
        open_pipelines(&all, 2 + i % 2, make_nodes);
        list_forms(&all);
        try_chains(&all);
        mixed += compare_pipelines(&all, i, SP_OBJECTIVE_LATENCY);
        mixed += compare_pipelines(&all, i, SP_OBJECTIVE_THROUGHPUT);
        close_pipelines(&all);
    }
    cr_expect_geq(mixed, PIPELINES / 4, "%u", mixed);
}

/* ---- two pairs of unequal devices ---------------------------------------------------------------------------------- */

#define PAIRS      24 /* problems */
#define PAIRS_NEAR 1.1

/* Two devices of each of two kinds, all links alike, in this order. Names that differ keep them in it. */
static void make_pairs(struct pipelines *all, const uint32_t *order, const char *const *names, uint32_t layers)
{
    double speeds[2], memories[2];
    json_t *groups = json_array();
    for (uint32_t k = 0; k < 2; k++) {
        speeds[k] = 1 + below(4);
        memories[k] = layers * (2500.0 + below(12000));
    }
    for (uint32_t d = 0; d < 4; d++) {
        const double speed = speeds[order[d]];
        json_t *device = json_pack("{s:s, s:f, s:f, s:{s:f}}", "name", names[d], "memory_bytes", memories[order[d]],
                                   "memory_bandwidth", speed * 1e7, "flops", "float32", speed * 1e8);
        (void)json_array_append_new(groups, json_pack("{s:i, s:o}", "count", 1, "device", device));
    }
    json_t *json =
        json_pack("{s:o, s:[{s:s, s:i, s:f, s:f}], s:f, s:s}", "groups", groups, "mesh", "name", "in", "size", 4,
                  "bandwidth", 1e9, "latency", 1e-7, "launch_seconds", 1e-7, "runtime", "generic");
    struct sp_error err = {0};
    cr_assert_eq(sp_cluster_parse(all->problem.arena, json, "", &all->problem.cluster, &err), SP_OK, "%s", err.message);
    json_decref(json);
}

static void make_neighbours(struct pipelines *all, uint32_t layers)
{
    make_pairs(all, (const uint32_t[]){0, 0, 1, 1}, (const char *const[]){"a", "a", "b", "b"}, layers);
}

static void make_alternating(struct pipelines *all, uint32_t layers)
{
    make_pairs(all, (const uint32_t[]){0, 1, 0, 1}, (const char *const[]){"a", "b", "c", "d"}, layers);
}

/* What a search finds, with several routes if they are better. */
static double find_seconds(struct problem *problem, enum sp_objective objective)
{
    struct sp_joint_options options;
    struct sp_search_result *result = NULL;
    struct sp_error err = {0};
    sp_joint_options_init(&options);
    options.objective = objective;
    options.tolerance = 0;
    if (sp_joint_search(problem->arena, problem->workload, problem->dataflow, problem->cluster, &options, &result,
                        &err) != SP_OK)
        return INFINITY;
    const double seconds = objective == SP_OBJECTIVE_LATENCY ? result->evaluation->latency_seconds
                           : result->routes != NULL          ? result->routes->interval_seconds
                                                             : result->evaluation->interval_seconds;
    sp_search_result_release(result);
    return seconds;
}

/* Blocks are rows of neighbours, and like devices are neighbours: of A A B B no two blocks have an A and a B each. Such
   blocks are among the rows of A B A B. The search for A A B B finds plans with as low a latency, and nearly the same
   throughput: cuts elsewhere, finer shares, routes. */
Test(shares, two_blocks_of_one_device_of_each_kind_gain_little)
{
    unsigned gains[2] = {0}, fits = 0, behind = 0;
    for (unsigned i = 0; i < PAIRS; i++) {
        struct pipelines neighbours, alternating;
        state = 300 + i;
        open_pipelines(&neighbours, 2 + i % 2, make_neighbours);
        state = 300 + i;
        open_pipelines(&alternating, 2 + i % 2, make_alternating);
        list_forms(&neighbours);
        list_forms(&alternating);
        try_chains(&neighbours);
        try_chains(&alternating);
        const double latency = find_seconds(&neighbours.problem, SP_OBJECTIVE_LATENCY);
        const double interval = find_seconds(&neighbours.problem, SP_OBJECTIVE_THROUGHPUT);
        fits += isfinite(alternating.latency);
        gains[0] += alternating.latency < neighbours.latency * (1 - 1e-9);
        gains[1] += alternating.interval < neighbours.interval * (1 - 1e-9);
        if (isfinite(alternating.latency)) {
            cr_expect_leq(latency, alternating.latency * PIPELINE_NEAR, "%u: %g, not %g", i, latency,
                          alternating.latency);
            cr_expect_leq(interval, alternating.interval * PAIRS_NEAR, "%u: %g, not %g", i, interval,
                          alternating.interval);
            behind += interval > alternating.interval * PIPELINE_NEAR;
        }
        close_pipelines(&neighbours);
        close_pipelines(&alternating);
    }
    cr_log_info("of %u with a plan, in a few blocks %u latencies and %u intervals are shorter", fits, gains[0],
                gains[1]);
    cr_expect_geq(fits, PAIRS / 2, "%u", fits);
    cr_expect_leq(behind, PAIRS / 8, "%u", behind); /* one when this was written, by 4.6 % */
}
