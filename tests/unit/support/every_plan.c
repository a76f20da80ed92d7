#include "every_plan.h"

#include <criterion/criterion.h>
#include <string.h>

#include "alike.h"
#include "base/array.h"
#include "every_block.h"
#include "recount.h"

#define SHARED_PLACES 256 /* of nodes on devices; with more of them devices have no shares here */
#define SAMPLED       256 /* of so many plans the memory of one is counted again */

uint64_t problem_state;

void prepare_problem(struct problem *problem, uint32_t largest)
{
    struct sp_error err = {0};
    cr_assert_eq(
        sp_workload_from_model(problem->arena, problem->build.model, problem->cluster, NULL, &problem->workload, &err),
        SP_OK, "%s", err.message);
    if (largest > 1)
        cr_assert_eq(sp_dataflow_create(problem->arena, problem->build.model, &problem->dataflow, &err), SP_OK);
    cr_assert_eq(sp_space_create(problem->arena, problem->workload, problem->cluster, largest, &problem->space, &err),
                 SP_OK);
    for (uint32_t n = 0; n < problem->workload->node_count; n++)
        if (!problem->workload->nodes[n].folded)
            problem->live[problem->live_count++] = n;
    if (largest > 1)
        add_every_block(problem->space, problem->workload,
                        pow(problem->cluster->device_count, problem->live_count) <= SHARED_PLACES);
    for (uint32_t i = 0; i < problem->space->option_count; i++) {
        if (problem->space->options[i].mesh.axis_count > 0)
            cr_assert_eq(sp_strategy_table_create(problem->arena, problem->workload, problem->dataflow,
                                                  &problem->space->options[i].mesh, NULL, &problem->tables[i], &err),
                         SP_OK, "%s", err.message);
    }
    sp_joint_options_init(&problem->options);
    problem->options.skips_routes = true; /* all plans that are tried here have one */
    problem->options.objective = below(2) == 0 ? SP_OBJECTIVE_THROUGHPUT : SP_OBJECTIVE_LATENCY;
    problem->options.max_replicas = below(3) == 0 ? 2 : 1;
}

void close_problem(struct problem *problem)
{
    for (uint32_t i = 0; i < problem->space->option_count; i++)
        sp_strategy_table_destroy(problem->tables[i]);
    sp_arena_destroy(problem->arena);
    build_release(&problem->build);
}

static bool count_digits(uint32_t *digits, uint32_t count, uint32_t low, const uint32_t *high)
{
    for (uint32_t i = 0; i < count; i++) {
        if (++digits[i] < high[i])
            return true;
        digits[i] = low;
    }
    return false;
}

bool keeps_pins(const struct problem *problem, const struct sp_placement *placement)
{
    const struct sp_constraints *c = &problem->constraints;
    for (uint32_t i = 0; i < problem->live_count; i++) {
        const uint32_t n = problem->live[i], stage = placement->stage_of[n];
        if (c->stage_of != NULL && c->stage_of[n] != SP_UNPINNED && c->stage_of[n] != stage)
            return false;
        if (c->device_of != NULL && c->device_of[n] != SP_UNPINNED &&
            (c->device_of[n] < placement->stage_device[stage] ||
             c->device_of[n] >= placement->stage_device[stage] +
                                    sp_placement_size(placement, stage) * sp_placement_replicas(placement, stage)))
            return false;
        for (uint32_t j = 0; c->together_of != NULL && j < i; j++) {
            const uint32_t other = problem->live[j];
            if (c->together_of[n] != SP_UNPINNED && c->together_of[n] == c->together_of[other] &&
                placement->stage_of[other] != stage)
                return false;
        }
    }
    return c->max_stages == 0 || placement->stage_count <= c->max_stages;
}

struct fitting fitting_of(const struct problem *problem, const struct sp_evaluation *evaluation, uint32_t copies)
{
    struct fitting plan = {problem->options.objective == SP_OBJECTIVE_LATENCY ? evaluation->latency_seconds
                                                                              : evaluation->interval_seconds,
                           0, 0, copies};
    for (uint32_t s = 0; s < evaluation->stage_count; s++) {
        plan.used_share =
            fmax(plan.used_share, evaluation->stages[s].total_bytes / evaluation->stages[s].capacity_bytes);
        plan.devices += evaluation->stages[s].device_count * copies;
    }
    return plan;
}

static void judge(struct every *every)
{
    const struct problem *problem = every->problem;
    struct sp_arena *scratch = sp_arena_create(NULL);
    uint32_t *stage_of = SP_NEW_ARRAY(scratch, problem->workload->node_count, uint32_t);
    struct sp_sharded_stage sharded[MAX_STAGES] = {0};
    uint32_t nodes[MAX_STAGES][MOST_NODES], strategies[MAX_STAGES][MOST_NODES], sizes[MAX_STAGES];
    struct sp_placement placement = {.stage_count = every->stage_count,
                                     .stage_of = stage_of,
                                     .stage_device = every->device,
                                     .stage_size = sizes,
                                     .stage_replicas = every->replicas};
    struct sp_evaluation *evaluation;
    struct sp_error err = {0};
    for (uint32_t s = 0; s < every->stage_count; s++) {
        sizes[s] = problem->space->options[every->option[s]].size;
        sharded[s] = (struct sp_sharded_stage){
            .table = problem->tables[every->option[s]], .nodes = nodes[s], .strategy_of = strategies[s]};
    }
    for (uint32_t i = 0; i < problem->live_count; i++) {
        struct sp_sharded_stage *stage = &sharded[every->stage[i]];
        stage_of[problem->live[i]] = every->stage[i];
        nodes[every->stage[i]][stage->node_count] = problem->live[i];
        strategies[every->stage[i]][stage->node_count++] = every->strategy[i];
    }
    cr_assert_eq(
        sp_joint_evaluate(scratch, problem->workload, problem->cluster, &placement, sharded, &evaluation, &err), SP_OK,
        "%s", err.message);
    if (every->plans++ % SAMPLED == 0)
        recount_expect(problem->workload, problem->cluster, &placement, sharded, evaluation, false);
    if (problem->options.constraints != NULL && !keeps_pins(problem, &placement)) {
        sp_arena_destroy(scratch);
        return;
    }
    every->least_interval = fmin(every->least_interval, evaluation->interval_seconds / every->copies);
    every->least_latency = fmin(every->least_latency, evaluation->latency_seconds);
    if (evaluation->worst_excess_bytes <= 0) {
        for (uint32_t copies = 1; copies <= every->copies; copies += every->copies > 1 ? every->copies - 1 : 1) {
            struct fitting plan = fitting_of(problem, evaluation, copies);
            plan.seconds /= problem->options.objective == SP_OBJECTIVE_THROUGHPUT ? copies : 1;
            every->best = fmin(every->best, plan.seconds);
            if (evaluation->members == NULL)
                every->best_equal = fmin(every->best_equal, plan.seconds);
            cr_assert(SP_MAKE_ROOM(problem->arena, every->fitting, every->fitting_count, every->fitting_capacity, 1));
            every->fitting[every->fitting_count++] = plan;
        }
    }
    sp_arena_destroy(scratch);
}

static void every_strategy(struct every *every)
{
    uint32_t high[MOST_NODES];
    memset(every->strategy, 0, sizeof every->strategy);
    for (uint32_t i = 0; i < every->problem->live_count; i++) {
        const struct sp_strategy_table *table = every->problem->tables[every->option[every->stage[i]]];
        high[i] = table == NULL ? 1 : sp_strategy_of(table, every->problem->live[i])->count;
    }
    do
        judge(every);
    while (every->plans <= every->most && count_digits(every->strategy, every->problem->live_count, 0, high));
}

static void every_block(struct every *every)
{
    const struct problem *problem = every->problem;
    uint32_t options[MAX_STAGES], replicas[MAX_STAGES], devices[MAX_STAGES];
    for (uint32_t s = 0; s < MAX_STAGES; s++) {
        options[s] = problem->space->option_count;
        replicas[s] = problem->options.max_replicas + 1;
        devices[s] = problem->cluster->device_count;
        every->option[s] = 0;
    }
    const struct alike_stages stages = {problem->workload, problem->space,  every->stage_count,
                                        every->option,     every->replicas, every->device};
    do {
        for (uint32_t s = 0; s < MAX_STAGES; s++)
            every->replicas[s] = 1;
        do {
            memset(every->device, 0, sizeof every->device);
            if (alike_devices(&stages) > problem->cluster->device_count)
                continue;
            do {
                if (!alike_stand_apart(&stages))
                    continue;
                every->copies = problem->options.max_copies == 1 ? 1 : alike_copies(&stages);
                every_strategy(every);
            } while (every->plans <= every->most && count_digits(every->device, every->stage_count, 0, devices));
        } while (every->plans <= every->most && count_digits(every->replicas, every->stage_count, 1, replicas));
    } while (every->plans <= every->most && count_digits(every->option, every->stage_count, 0, options));
}

static bool in_order(const struct every *every)
{
    const struct problem *problem = every->problem;
    uint32_t filled = 0;
    for (uint32_t i = 0; i < problem->live_count; i++) {
        const struct sp_work_node *node = &problem->workload->nodes[problem->live[i]];
        filled |= 1u << every->stage[i];
        for (uint32_t j = 0; j < i; j++) {
            for (uint32_t k = 0; k < node->input_count; k++) {
                if (problem->workload->tensors[node->inputs[k]].producer == problem->live[j] &&
                    every->stage[j] > every->stage[i])
                    return false;
            }
        }
    }
    return filled == (1u << every->stage_count) - 1;
}

bool try_every(struct every *every)
{
    const struct problem *problem = every->problem;
    uint32_t most =
        problem->cluster->device_count < problem->live_count ? problem->cluster->device_count : problem->live_count;
    every->best = every->best_equal = every->least_interval = every->least_latency = INFINITY;
    for (every->stage_count = 1; every->stage_count <= most; every->stage_count++) {
        uint32_t stages[MOST_NODES];
        for (uint32_t i = 0; i < MOST_NODES; i++)
            stages[i] = every->stage_count;
        memset(every->stage, 0, sizeof every->stage);
        do {
            if (in_order(every))
                every_block(every);
        } while (every->plans <= every->most && count_digits(every->stage, problem->live_count, 0, stages));
    }
    return every->plans <= every->most;
}
