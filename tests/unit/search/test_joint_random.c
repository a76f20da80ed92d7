/*
 * The joint search on tiny models and clusters against every plan there is: all placements of nodes in stages, all
 * blocks wherever they may stand, those of unequal devices in every share of a few blocks among them, all strategies of
 * all operators, each evaluated on its own. And what must hold of any answer: it fits, its figures are those of its
 * parts, the bounds are below every plan's.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "every_plan.h"
#include "expect_op.h"
#include "how_many.h"
#include "recount.h"
#include "search/joint/bounds.h"

#define PROBLEMS      100 /* usually, and */
#define MANY_PROBLEMS 2000
#define MAX_NODES     6

/* ---- problems --------------------------------------------------------------------------------------------------- */

/* Nodes on activations [8, 16] that exist already: products with weights, sums of two, elementwise and softmax. */
static void random_model(struct problem *problem, uint32_t nodes)
{
    char inputs[64], output[16];
    build_init(&problem->build, 21);
    build_input(&problem->build, "t0", SP_DTYPE_FLOAT, "8,16");
    for (uint32_t i = 0; i < nodes; i++) {
        static const char *const unary[] = {"Relu", "Softmax", "Tanh"};
        const uint32_t kind = below(4), from = below(i + 1) < 1 ? i : below(i + 1);
        (void)snprintf(output, sizeof output, "t%u", i + 1);
        if (kind == 0) {
            char weight[16];
            (void)snprintf(weight, sizeof weight, "w%u", i);
            build_weight(&problem->build, weight, SP_DTYPE_FLOAT, "16,16");
            (void)snprintf(inputs, sizeof inputs, "t%u %s", from, weight);
            build_node(&problem->build, "MatMul", inputs, output);
        } else if (kind == 1) {
            (void)snprintf(inputs, sizeof inputs, "t%u t%u", from, below(i + 1));
            build_node(&problem->build, "Add", inputs, output);
        } else {
            (void)snprintf(inputs, sizeof inputs, "t%u", from);
            build_node(&problem->build, unary[below(3)], inputs, output);
        }
    }
    (void)snprintf(output, sizeof output, "t%u", nodes);
    build_outputs(&problem->build, output);
    cr_assert_eq(build_infer(&problem->build), SP_OK, "%s", problem->build.err.message);
}

/* Devices whose times are dominated now by FLOPs, now by bytes, launches or links, with much memory or little. */
static void random_cluster(struct problem *problem, uint32_t devices)
{
    static const double flops[] = {1e8, 1e9, 1e11}, bandwidths[] = {1e7, 1e9, 1e11}, links[] = {1e6, 1e8, 1e10};
    static const double memories[] = {3000, 5000, 9000, 1e9}, latencies[] = {0, 1e-7, 1e-5};
    char text[1024], second[256] = "";
    const uint32_t other = devices > 1 && below(3) == 0 ? 1 + below(devices - 1) : 0;
    const double memory = memories[below(4)];
    if (other > 0)
        (void)snprintf(second, sizeof second,
                       ",{\"count\":%u,\"device\":{\"name\":\"b\",\"memory_bytes\":%g,\"memory_bandwidth\":%g,"
                       "\"flops\":{\"float32\":%g}}}",
                       other, memories[below(4)], bandwidths[below(3)], flops[below(3)]);
    const bool levels = devices == 4 && below(2) == 0;
    (void)snprintf(text, sizeof text,
                   "{\"groups\":[{\"count\":%u,\"device\":{\"name\":\"a\",\"memory_bytes\":%g,\"memory_bandwidth\":%g,"
                   "\"flops\":{\"float32\":%g}}}%s],\"mesh\":[%s{\"name\":\"in\",\"size\":%u,\"bandwidth\":%g,"
                   "\"latency\":%g}],\"launch_seconds\":%g}",
                   devices - other, memory, bandwidths[below(3)], flops[below(3)], second,
                   levels ? "{\"name\":\"out\",\"size\":2,\"bandwidth\":1e6,\"latency\":1e-6}," : "",
                   levels ? 2 : devices, links[below(3)], latencies[below(3)], latencies[below(3)]);
    json_t *json = json_loads(text, 0, NULL);
    struct sp_error err = {0};
    cr_assert_not_null(json, "%s", text);
    cr_assert_eq(sp_cluster_parse(problem->arena, json, "", &problem->cluster, &err), SP_OK, "%s: %s", text,
                 err.message);
    json_decref(json);
}

static void prepare(struct problem *problem)
{
    prepare_problem(problem, problem->cluster->device_count);
}

static void open_problem(struct problem *problem, uint32_t nodes, uint32_t devices)
{
    *problem = (struct problem){.arena = sp_arena_create(NULL)};
    random_model(problem, nodes);
    random_cluster(problem, devices);
    prepare(problem);
    problem->options.max_copies = below(2);
}

/* ---- the search against them ------------------------------------------------------------------------------------ */

/* Whether they may have. */
static bool may_have_shares(const struct problem *problem)
{
    for (uint32_t d = 1; d < problem->cluster->device_count; d++) {
        if (problem->workload->kind_of[d] != problem->workload->kind_of[0] ||
            sp_cluster_memory(problem->cluster, d) != sp_cluster_memory(problem->cluster, 0))
            return true;
    }
    return false;
}

static void compare(const struct problem *problem, const struct every *every, uint32_t number)
{
    struct sp_search_result *result;
    struct sp_error err = {0};
    enum sp_status status = sp_joint_search(problem->arena, problem->workload, problem->dataflow, problem->cluster,
                                            &problem->options, &result, &err);
    if (every->best == INFINITY) {
        cr_expect(status == SP_ERR_NOFIT || (status == SP_OK && has_shares(result)), "problem %u: nothing fits, but %s",
                  number, err.message);
        if (status == SP_OK)
            sp_search_result_release(result);
        return;
    }
    cr_assert_eq(status, SP_OK, "problem %u: %s", number, err.message);
    const struct sp_evaluation *evaluation = result->evaluation;
    const double value =
        problem->options.objective == SP_OBJECTIVE_LATENCY ? evaluation->latency_seconds : evaluation->interval_seconds;
    cr_expect(has_shares(result) ? value <= every->best * (1 + 1e-9) : is_near(value, every->best),
              "problem %u: %.17g, the best of %llu plans is %.17g", number, value, (unsigned long long)every->plans,
              every->best);
    cr_expect(evaluation->worst_excess_bytes <= 0, "problem %u: it does not fit", number);
    recount_expect_result(problem->workload, problem->cluster, result);
    cr_expect_geq(value * (1 + 1e-9), problem->options.objective == SP_OBJECTIVE_LATENCY
                                          ? result->bounds.latency_seconds
                                          : result->bounds.interval_seconds);
    sp_search_result_release(result);

    /* The bounds that hold for every plan, whether it fits or not. */
    struct sp_lower_bounds bounds;
    cr_assert_eq(sp_joint_bounds(problem->arena, problem->workload, problem->cluster, &bounds, &err), SP_OK);
    cr_expect(bounds.interval_seconds <= every->least_interval * (1 + 1e-9), "problem %u: interval bound %g above %g",
              number, bounds.interval_seconds, every->least_interval);
    cr_expect(bounds.latency_seconds <= every->least_latency * (1 + 1e-9), "problem %u: latency bound %g above %g",
              number, bounds.latency_seconds, every->least_latency);
}

/* With a tolerance: near the best of all plans, and of those that are as near it has copies only where all have, none has
   fewer devices, and with as many
   none leaves more memory free, unless by less than the tolerance. */
static void compare_near(struct problem *problem, const struct every *every, uint32_t number, uint32_t *others)
{
    static const double tolerances[] = {0.02, 0.1, 0.5};
    const double tolerance = tolerances[number % 3];
    struct sp_search_result *result;
    struct sp_error err = {0};
    if (every->best == INFINITY)
        return;
    problem->options.tolerance = tolerance;
    cr_assert_eq(sp_joint_search(problem->arena, problem->workload, problem->dataflow, problem->cluster,
                                 &problem->options, &result, &err),
                 SP_OK, "problem %u: %s", number, err.message);
    const struct fitting chosen = fitting_of(problem, result->evaluation, sp_placement_copies(&result->placement));
    const double best = result->best == NULL                                 ? chosen.seconds
                        : problem->options.objective == SP_OBJECTIVE_LATENCY ? result->best->latency_seconds
                                                                             : result->best->interval_seconds;
    const double most = fmin(best, every->best) * (1 + tolerance);
    cr_expect(result->evaluation->worst_excess_bytes <= 0, "problem %u: it does not fit", number);
    cr_expect_leq(chosen.seconds, most * (1 + 2e-9), "problem %u: %g, the best is %g", number, chosen.seconds,
                  every->best);
    for (uint32_t i = 0; i < every->fitting_count; i++) {
        const struct fitting *plan = &every->fitting[i];
        if (plan->seconds > most)
            continue;
        cr_expect(plan->copies > 1 || chosen.copies == 1, "problem %u: %u copies where none would do", number,
                  chosen.copies);
        if ((plan->copies > 1) != (chosen.copies > 1))
            continue;
        cr_expect_geq(plan->devices, chosen.devices, "problem %u: %u devices do, but it has %u", number, plan->devices,
                      chosen.devices);
        if (plan->devices == chosen.devices)
            cr_expect_leq(chosen.used_share, plan->used_share + tolerance + 1e-9,
                          "problem %u: it fills a device to %g where %g would do", number, chosen.used_share,
                          plan->used_share);
    }
    cr_expect(is_near(best, every->best) || (best < every->best && may_have_shares(problem)),
              "problem %u: the best was %g, but all plans' is %g", number, best, every->best);
    *others += result->best != NULL;
    sp_search_result_release(result);
}

Test(joint_random, equals_the_best_of_all_plans)
{
    uint64_t plans = 0;
    uint32_t others = 0; /* than the best one, with a tolerance */
    uint32_t done = 0, unfit = 0, several = 0;
    const uint32_t problems = how_many(PROBLEMS, MANY_PROBLEMS);
    problem_state = 20251122;
    for (uint32_t number = 0; done < problems; number++) {
        struct problem problem;
        const uint32_t devices = 1 + below(4), nodes = 1 + below(devices > 2 ? 4 : MAX_NODES);
        open_problem(&problem, nodes, devices);
        struct every every = {.problem = &problem, .most = MOST_PLANS};
        if (try_every(&every)) {
            compare(&problem, &every, number);
            compare_near(&problem, &every, number, &others);
            plans += every.plans;
            unfit += every.best == INFINITY;
            several += devices > 1;
            done++;
        }
        close_problem(&problem);
    }
    /* The problems are of all sorts, or this test would prove little. */
    cr_expect_gt(unfit, how_many(0, MANY_PROBLEMS / 100), "%u", unfit);
    cr_expect_gt(several, problems / 2);
    cr_expect_gt(others, problems / 20, "%u", others);
    cr_expect_gt(plans, 100 * (uint64_t)problems);
}

/* ---- with pins --------------------------------------------------------------------------------------------------- */

#define PINNED_PROBLEMS 40 /* usually; the others as MANY_PROBLEMS */

/* Pins of one to three nodes to stages or devices that there are, now and then a group and a limit of stages. */
static void draw_pins(struct problem *problem)
{
    const uint32_t devices = problem->cluster->device_count, live = problem->live_count;
    struct sp_constraints *c = &problem->constraints;
    c->where = "/constraints";
    problem->options.max_copies = 1;
    cr_assert_leq(problem->workload->node_count, MOST_WORK_NODES);
    for (uint32_t n = 0; n < MOST_WORK_NODES; n++) {
        problem->stage_of[n] = problem->device_of[n] = problem->together_of[n] = SP_UNPINNED;
        problem->where[n] = "/constraints/pins/0";
    }
    for (uint32_t pins = 1 + below(3); pins > 0; pins--) {
        const uint32_t node = problem->live[below(live)];
        if (below(2) == 0) {
            problem->stage_of[node] = below(devices < live ? devices : live);
            c->stage_of = problem->stage_of;
        } else {
            problem->device_of[node] = below(devices);
            c->device_of = problem->device_of;
        }
    }
    if (live > 1 && below(4) == 0) {
        problem->together_of[problem->live[below(live)]] = problem->together_of[problem->live[below(live)]] = 0;
        c->together_of = problem->together_of;
        c->together_count = 1;
    }
    c->max_stages = below(4) == 0 ? 1 + below(devices) : 0;
    c->stage_where = c->device_where = problem->where;
    problem->options.constraints = c;
}

struct against {
    uint32_t possible, refused, optimal;
    double worst, sum; /* value / the best one's */
};

static void compare_pinned(struct problem *problem, double best, uint32_t number, struct against *against)
{
    struct sp_search_result *result;
    struct sp_error err = {0};
    enum sp_status status =
        sp_constraints_check(problem->arena, &problem->constraints, problem->workload, problem->cluster, &err);
    if (status != SP_OK) {
        cr_expect_eq(best, INFINITY, "problem %u: %s", number, err.message);
        return;
    }
    status = sp_joint_search(problem->arena, problem->workload, problem->dataflow, problem->cluster, &problem->options,
                             &result, &err);
    against->possible += isfinite(best);
    if (status != SP_OK) {
        cr_expect(strlen(err.message) > 0);
        against->refused += isfinite(best);
        return;
    }
    const struct sp_evaluation *evaluation = result->evaluation;
    const double value =
        problem->options.objective == SP_OBJECTIVE_LATENCY ? evaluation->latency_seconds : evaluation->interval_seconds;
    cr_expect(evaluation->worst_excess_bytes <= 0, "problem %u: it does not fit", number);
    recount_expect_result(problem->workload, problem->cluster, result);
    cr_expect(keeps_pins(problem, &result->placement), "problem %u: pins are not kept", number);
    cr_expect(has_shares(result) || value * (1 + 1e-9) >= best, "problem %u: %.17g is less than all plans'", number,
              value);
    if (has_shares(result) && isinf(best)) {
        sp_search_result_release(result);
        return;
    }
    against->optimal += value < best || is_near(value, best);
    against->worst = fmax(against->worst, value / best);
    against->sum += value / best;
    sp_search_result_release(result);
}

/* Whatever can be planned with pins is planned: best of all where the model is small enough to try every plan. Larger
   ones are cut as pinned.h says; so are these where operators that must be whole are named, though these are none: they
   are compared with plans without shares. */
Test(joint_random, plans_with_pins_are_found_where_there_are_any)
{
    struct against tried = {0}, cut = {0};
    uint32_t done = 0;
    const uint32_t problems = how_many(PINNED_PROBLEMS, MANY_PROBLEMS);
    problem_state = 20261122;
    for (uint32_t number = 0; done < problems; number++) {
        struct problem problem;
        const uint32_t devices = 1 + below(4), nodes = 1 + below(devices > 2 ? 4 : MAX_NODES);
        open_problem(&problem, nodes, devices);
        draw_pins(&problem);
        struct every every = {.problem = &problem, .most = MOST_PLANS};
        if (try_every(&every)) {
            done++;
            compare_pinned(&problem, every.best, number, &tried);
            problem.constraints.is_whole = problem.is_whole;
            compare_pinned(&problem, every.best_equal, number, &cut);
        }
        close_problem(&problem);
    }
    cr_log_info("of %u: cut %u refused, %u optimal, worst %.3f, mean %.4f", cut.possible, cut.refused, cut.optimal,
                cut.worst, cut.sum / (cut.possible - cut.refused));
    cr_expect_gt(tried.possible, problems / 2);
    cr_expect_eq(tried.refused, 0);
    cr_expect_eq(tried.optimal, tried.possible);
    /* Of 1601 one was not found when this was written, and 1574 were the best; the worst took twice as long as that. */
    cr_expect_leq(cut.refused, 1);
    cr_expect_geq(cut.optimal, cut.possible - cut.possible / 50);
    cr_expect_leq(cut.sum / (cut.possible - cut.refused), 1.01);
}

/* ---- laws of all objectives and strategies ---------------------------------------------------------------------- */

#define LAW_PROBLEMS    8  /* of each kind, usually, but */
#define SHARED_PROBLEMS 24 /* of uneven shares; the others as MANY_PROBLEMS */
#define LAW_PLANS       20000

enum kind { MIXED_BLOCKS, SEVERAL_CLASSES, UNEVEN_SHARES, CONSTRAINED, LEFT_OUT };

/* Devices of so many classes, some of them very slow where some are to be left out. */
static void unequal_cluster(struct problem *problem, enum kind kind, uint32_t devices, uint32_t classes)
{
    static const double speeds[] = {1e8, 3e8, 1e9}, bandwidths[] = {1e8, 1e9, 1e11}, links[] = {1e7, 1e8, 1e10};
    static const double memories[] = {4000, 6000, 9000, 1e9}, latencies[] = {0, 1e-7, 1e-6};
    const bool shares = kind == UNEVEN_SHARES; /* links are quick, so that these are often best */
    const double bandwidth = links[shares ? 2 : below(3)], latency = latencies[below(shares ? 2 : 3)];
    const double launch = latencies[below(shares ? 2 : 3)];
    char groups[1024] = "", text[1536];
    for (uint32_t c = 0, left = devices; c < classes; c++) {
        const uint32_t rest = classes - c - 1, count = rest == 0 ? left : 1 + below(left - rest);
        const double slow = kind == LEFT_OUT && c > 0 && below(2) == 0 ? 100 : 1, memory = memories[below(4)];
        (void)snprintf(groups + strlen(groups), sizeof groups - strlen(groups),
                       "%s{\"count\":%u,\"device\":{\"name\":\"%c\",\"memory_bytes\":%g,\"memory_bandwidth\":%g,"
                       "\"flops\":{\"float32\":%g}}}",
                       c > 0 ? "," : "", count, 'a' + (int)c, memory, bandwidths[below(3)] / slow,
                       speeds[below(3)] / slow);
        left -= count;
    }
    (void)snprintf(text, sizeof text,
                   "{\"groups\":[%s],\"mesh\":[{\"name\":\"in\",\"size\":%u,\"bandwidth\":%g,\"latency\":%g}],"
                   "\"launch_seconds\":%g}",
                   groups, devices, bandwidth, latency, launch);
    json_t *json = json_loads(text, 0, NULL);
    struct sp_error err = {0};
    cr_assert_eq(sp_cluster_parse(problem->arena, json, "", &problem->cluster, &err), SP_OK, "%s: %s", text,
                 err.message);
    json_decref(json);
}

/* Of each kind but shares, which do not go with constraints, every other problem has a list of operators that must be
   whole, though none must: that keeps the search from trying every plan. */
static void open_lawful(struct problem *problem, enum kind kind, bool tries_all)
{
    const bool is_largest = kind == SEVERAL_CLASSES && below(4) == 0;
    const uint32_t devices = is_largest ? MAX_STAGES : 2 + below(3);
    const uint32_t nodes = kind == UNEVEN_SHARES ? (tries_all ? 1 + below(4) : 7)
                           : is_largest          ? MAX_NODES
                                                 : 1 + below(MAX_NODES);
    *problem = (struct problem){.arena = sp_arena_create(NULL)};
    random_model(problem, nodes);
    if (kind == MIXED_BLOCKS)
        random_cluster(problem, devices);
    else
        unequal_cluster(problem, kind, devices, is_largest ? devices : 1 + below(devices < 3 ? devices : 3));
    prepare(problem);
    problem->options.max_replicas = 1;
    if (kind == CONSTRAINED)
        draw_pins(problem);
    if (kind == UNEVEN_SHARES || (tries_all && kind != CONSTRAINED))
        return;
    problem->options.constraints = &problem->constraints;
    problem->constraints.where = "/constraints";
    problem->constraints.is_whole = tries_all ? NULL : problem->is_whole;
}

/* What a search finds for an objective with a strategy. */
struct found {
    double latency; /* INFINITY: refused */
    bool has_shares;
};

static struct found find(struct problem *problem, enum sp_objective objective, enum sp_search_strategy strategy)
{
    struct sp_search_result *result;
    struct sp_error err = {0};
    problem->options.objective = objective;
    problem->options.strategy = strategy;
    if (sp_joint_search(problem->arena, problem->workload, problem->dataflow, problem->cluster, &problem->options,
                        &result, &err) != SP_OK)
        return (struct found){INFINITY, false};
    const struct found found = {result->evaluation->latency_seconds, result->evaluation->members != NULL};
    cr_expect(result->evaluation->worst_excess_bytes <= 0);
    sp_search_result_release(result);
    return found;
}

struct lawful {
    uint32_t found, refused, missed, worse;
    uint32_t compared, optimal, unequal; /* with every plan; of them with six nodes and four unequal devices */
    uint32_t shared;                     /* whose best plan has shares */
    uint32_t far;                        /* over twice the best */
    double worst;
};

/* What one objective finds no other refuses, nor does `auto` what one strategy finds; and no plan that was found has a
   lower latency than the one that is found for the latency. */
static struct found expect_of_others(struct problem *problem, uint32_t number, struct lawful *lawful)
{
    const struct found best = find(problem, SP_OBJECTIVE_LATENCY, SP_STRATEGY_AUTO);
    const struct found others[] = {find(problem, SP_OBJECTIVE_THROUGHPUT, SP_STRATEGY_AUTO),
                                   find(problem, SP_OBJECTIVE_DEVICES, SP_STRATEGY_AUTO),
                                   find(problem, SP_OBJECTIVE_LATENCY, SP_STRATEGY_PIPELINE),
                                   find(problem, SP_OBJECTIVE_LATENCY, SP_STRATEGY_TENSOR),
                                   find(problem, SP_OBJECTIVE_LATENCY, SP_STRATEGY_GROUPING)};
    for (uint32_t i = 0; i < sizeof others / sizeof *others; i++) {
        const double other = others[i].latency;
        const bool is_refused = isinf(best.latency) && isfinite(other);
        const bool is_missed = i < 2 && isfinite(best.latency) && isinf(other);
        const bool is_worse = isfinite(best.latency) && best.latency > other * 1.001;
        lawful->refused += is_refused;
        lawful->missed += is_missed;
        lawful->worse += is_worse;
        if (is_refused || is_missed || is_worse)
            cr_log_warn("problem %u: latency %g, other %u %g", number, best.latency, i, other);
    }
    lawful->found += isfinite(best.latency);
    return best;
}

/* Against every plan, where there are not too many: none is better but those in more blocks; the best where the search
   tries all, else against those without shares. */
static void expect_of_all(struct problem *problem, uint32_t number, struct found found, bool tries_all,
                          struct lawful *lawful)
{
    struct every every = {.problem = problem, .most = LAW_PLANS};
    problem->options.objective = SP_OBJECTIVE_LATENCY;
    if (problem->live_count > MAX_NODES || !try_every(&every))
        return;
    const double best = tries_all ? every.best : every.best_equal;
    if (isinf(best))
        return;
    const bool is_best = is_near(found.latency, best) || (found.has_shares && found.latency < best);
    cr_expect(is_best || found.latency > best, "problem %u: %.17g is less than all plans' %.17g", number, found.latency,
              best);
    cr_expect(is_best || !tries_all, "problem %u: %.17g, the best is %.17g", number, found.latency, best);
    if (!is_best)
        cr_log_info("problem %u: latency %g, the best is %g", number, found.latency, best);
    lawful->compared++;
    lawful->optimal += is_best;
    lawful->unequal += problem->live_count == MAX_NODES && problem->space->class_count == MAX_STAGES;
    lawful->shared += every.best < every.best_equal;
    lawful->far += found.latency > 2 * best;
    lawful->worst = fmax(lawful->worst, found.latency / best);
}

static struct lawful expect_laws(enum kind kind, uint64_t seed)
{
    struct lawful lawful = {.worst = 1};
    const uint32_t problems = how_many(kind == UNEVEN_SHARES ? SHARED_PROBLEMS : LAW_PROBLEMS, MANY_PROBLEMS);
    problem_state = seed;
    for (uint32_t number = 0; number < problems; number++) {
        struct problem problem;
        const bool tries_all = number % 2 == 0;
        open_lawful(&problem, kind, tries_all);
        const struct found found = expect_of_others(&problem, number, &lawful);
        expect_of_all(&problem, number, found, tries_all, &lawful);
        close_problem(&problem);
    }
    cr_log_info("found %u, refused %u, missed %u, worse %u, compared %u, optimal %u, of 6 on 4 %u, with shares %u, "
                "worst %.3f",
                lawful.found, lawful.refused, lawful.missed, lawful.worse, lawful.compared, lawful.optimal,
                lawful.unequal, lawful.shared, lawful.worst);
    cr_expect_gt(lawful.found, kind == CONSTRAINED ? problems / 4 : problems / 2);
    cr_expect_eq(lawful.refused, 0, "%u", lawful.refused);
    cr_expect_eq(lawful.missed, 0, "%u", lawful.missed);
    cr_expect_eq(lawful.worse, 0, "%u", lawful.worse);
    /* Where it does not try all, one in a hundred was not the best when this was written, and one in 1,700 far from it:
       choices count what is alive in one layout, a plan what is in two, and the lower limit leaves out the best one. */
    cr_expect_geq(lawful.optimal, lawful.compared - lawful.compared / 20);
    cr_expect_leq(lawful.far, lawful.compared / 1000);
    return lawful;
}

Test(joint_laws, mixed_blocks, .timeout = 3600)
{
    (void)expect_laws(MIXED_BLOCKS, 20261126);
}

Test(joint_laws, several_classes, .timeout = 3600)
{
    const struct lawful lawful = expect_laws(SEVERAL_CLASSES, 20261127);
    cr_expect_geq(lawful.unequal, how_many(1, MANY_PROBLEMS / 20), "%u", lawful.unequal);
}

Test(joint_laws, uneven_shares, .timeout = 3600)
{
    const struct lawful lawful = expect_laws(UNEVEN_SHARES, 20261128);
    cr_expect_geq(lawful.shared, how_many(1, MANY_PROBLEMS / 20), "%u", lawful.shared);
}

Test(joint_laws, constraints, .timeout = 3600)
{
    (void)expect_laws(CONSTRAINED, 20261129);
}

Test(joint_laws, devices_left_out, .timeout = 3600)
{
    (void)expect_laws(LEFT_OUT, 20261130);
}
