/*
 * Our plans beside those that people write by hand (plan_grid.h), in the same cost model.
 *
 *   bench_plans [--list | --ours] MODEL CLUSTER [OBJECTIVE]
 *
 * A row for each objective: ours with its value, lower bound, gap, processor seconds and memory of the fullest device;
 * the best of the grid; ours / best, which should be at most 1. On a cluster of several kinds of devices the best plan
 * on one kind and the best equal split over all come on lines of their own. --list prints the whole grid, --ours makes
 * none: only our plans, which is for profiling. With OBJECTIVE (throughput or latency) only that row.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan_grid.h"

static const char *objective_name(enum sp_objective objective)
{
    return objective == SP_OBJECTIVE_LATENCY ? "latency" : "throughput";
}

static void print_value(double ours, const char *name, double value, double gigabytes, double grid_seconds)
{
    const double ratio = ours / value;
    printf("%s | %.6f | %.1f | %.1f | %.4f %s |\n", name, value, gigabytes, grid_seconds, ratio,
           ratio < 1 - 1e-9    ? "better"
           : ratio <= 1 + 1e-9 ? "equal"
                               : "WORSE");
}

static void print_ratio(double ours, const struct hand_plan *plan, enum sp_objective objective, double grid_seconds)
{
    if (plan == NULL) {
        printf("nothing fits | - | - | %.1f | - |\n", grid_seconds);
        return;
    }
    char name[sizeof plan->name + sizeof plan->where + 8];
    (void)snprintf(name, sizeof name, "%s on %s", plan->name, plan->where);
    print_value(ours, name, hand_plan_value(plan, objective), 1e-9 * plan->memory_bytes, grid_seconds);
}

/* Servers on each kind of device, side by side, each of which takes as many requests as it can. */
static void print_side_by_side(double ours, const struct plan_grid *grid, uint32_t kinds)
{
    double rate = 0, memory = 0;
    for (uint32_t c = 0; c < kinds; c++) {
        char where[PLAN_GRID_WHERE];
        (void)snprintf(where, sizeof where, "class %u", c);
        const struct hand_plan *plan = plan_grid_best(grid, SP_OBJECTIVE_THROUGHPUT, where);
        rate += plan != NULL ? 1 / plan->interval_seconds : 0;
        memory = plan != NULL ? fmax(memory, plan->memory_bytes) : memory;
    }
    printf("| | | | best on each kind, side by side | | | | | | ");
    if (rate > 0)
        print_value(ours, "all of these", 1 / rate, 1e-9 * memory, grid->seconds);
    else
        print_ratio(ours, NULL, SP_OBJECTIVE_THROUGHPUT, grid->seconds);
}

/* On devices of several kinds: the best plan on one kind of them, the best with equal stages on all. */
static void print_parts(double ours, const struct plan_grid *grid, enum sp_objective objective, uint32_t kinds)
{
    const struct hand_plan *all = plan_grid_best(grid, objective, "all"), *part = NULL;
    for (uint32_t i = 0; i < grid->count; i++) {
        const struct hand_plan *plan = &grid->plans[i];
        if (strcmp(plan->where, "all") != 0 &&
            (part == NULL || hand_plan_value(plan, objective) < hand_plan_value(part, objective)))
            part = plan;
    }
    printf("| | | | best on one kind of device | | | | | | ");
    print_ratio(ours, part, objective, grid->seconds);
    printf("| | | | best pipeline over all | | | | | | ");
    print_ratio(ours, all, objective, grid->seconds);
    if (objective == SP_OBJECTIVE_THROUGHPUT)
        print_side_by_side(ours, grid, kinds);
}

static bool compare(struct plan_subject *subject, const struct plan_grid *grid, enum sp_objective objective,
                    const char *model, const char *cluster)
{
    struct sp_joint_options options;
    struct sp_search_result *result;
    struct sp_error err = {0};
    double memory = 0;
    sp_joint_options_init(&options);
    options.objective = objective;
    const double start = plan_user_seconds();
    enum sp_status status = sp_joint_search(subject->arena, subject->workload, subject->dataflow, subject->cluster,
                                            &options, &result, &err);
    const double seconds = plan_user_seconds() - start;
    printf("| %s ", plan_short_name(model));
    printf("| %s | %s | ", plan_short_name(cluster), objective_name(objective));
    if (status != SP_OK) {
        const struct hand_plan *best = plan_grid_best(grid, objective, NULL);
        printf("%s | - | - | - | %.2f | - | ", err.message, seconds);
        print_ratio(INFINITY, best, objective, grid->seconds);
        return best == NULL && status == SP_ERR_NOFIT;
    }
    const bool is_latency = objective == SP_OBJECTIVE_LATENCY;
    const double value = is_latency ? result->evaluation->latency_seconds : result->evaluation->interval_seconds;
    const double bound = is_latency ? result->bounds.latency_seconds : result->bounds.interval_seconds;
    memory = result->front[0].memory_bytes;
    printf("%s | %.6f | %.6f | %.1f %% | %.2f | %.1f | ", result->front[0].description, value, bound,
           100 * (value - bound) / value, seconds, 1e-9 * memory);
    print_ratio(value, plan_grid_best(grid, objective, NULL), objective, grid->seconds);
    if (grid->count > 0 && subject->cluster->group_count > 1)
        print_parts(value, grid, objective, subject->cluster->group_count);
    sp_search_result_release(result);
    return true;
}

static void list_grid(const struct plan_grid *grid)
{
    for (uint32_t i = 0; i < grid->count; i++) {
        const struct hand_plan *plan = &grid->plans[i];
        printf("  %-20s %-8s latency %.6f interval %.6f memory %.1f GB\n", plan->name, plan->where,
               plan->latency_seconds, plan->interval_seconds, 1e-9 * plan->memory_bytes);
    }
}

int main(int argc, char **argv)
{
    struct plan_subject subject;
    struct plan_grid grid;
    const bool lists = argc > 1 && strcmp(argv[1], "--list") == 0, ours = argc > 1 && strcmp(argv[1], "--ours") == 0;
    const int first = 1 + (lists || ours);
    if (argc != first + 2 && argc != first + 3) {
        (void)fputs("usage: bench_plans [--list | --ours] MODEL CLUSTER [throughput | latency]\n", stderr);
        return 2;
    }
    const char *model = argv[first], *cluster = argv[first + 1], *objective = argc > first + 2 ? argv[first + 2] : "";
    if (!plan_subject_open(&subject, model, cluster))
        return 1;
    grid = (struct plan_grid){0};
    bool all = ours || plan_grid_make(&subject, &grid);
    if (all && lists)
        list_grid(&grid);
    if (strcmp(objective, "latency") != 0)
        all = all && compare(&subject, &grid, SP_OBJECTIVE_THROUGHPUT, model, cluster);
    (void)fflush(stdout);
    if (strcmp(objective, "throughput") != 0)
        all = all && compare(&subject, &grid, SP_OBJECTIVE_LATENCY, model, cluster);
    plan_subject_close(&subject);
    return all ? 0 : 1;
}
