#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "build_export.h"
#include "onnx_files.h"
#include "plan/replan/from_plan.h"
#include "plan/subject.h"

/* Plans that follow another one: what must hold whatever the plans are. */

static const struct onnx_mlp wide = {.layers = 4, .width = 8192, .batch = "64"};

static const char *const two_nodes =
    "{\"groups\": [{\"name\": \"box\", \"count\": 8, \"device\": \"a100-sxm4-80gb\"}],"
    " \"mesh\": [{\"name\": \"node\", \"size\": 2, \"bandwidth\": 25e9, \"latency\": 5e-6},"
    "            {\"name\": \"gpu\", \"size\": 4, \"bandwidth\": 300e9, \"latency\": 2e-6}]}";
static const char *const slower =
    "{\"groups\": [{\"name\": \"box\", \"count\": 8, \"device\": \"a100-sxm4-80gb\"}],"
    " \"mesh\": [{\"name\": \"node\", \"size\": 2, \"bandwidth\": 5e9, \"latency\": 5e-6},"
    "            {\"name\": \"gpu\", \"size\": 4, \"bandwidth\": 100e9, \"latency\": 2e-6}]}";
static const char *const four = "{\"device\": \"a100-sxm4-80gb\", \"count\": 4}";
static const char *const three = "{\"device\": \"a100-sxm4-80gb\", \"count\": 3}";
static const char *const two_kinds = "{\"groups\": [{\"name\": \"a\", \"count\": 2, \"device\": \"a100-sxm4-80gb\"},"
                                     "              {\"name\": \"h\", \"count\": 2, \"device\": \"h100-sxm-80gb\"}]}";

/* A plan as its JSON, and what follows it. */
struct followed {
    struct sp_buf file;
    struct sp_arena *arena;
    json_t *before;
    struct sp_job *job;
    struct sp_plan *plan;
    struct sp_error err;
    enum sp_status status;
};

static struct sp_cluster *cluster_of(struct sp_arena *arena, const char *text)
{
    struct sp_cluster *cluster;
    struct sp_error err = {0};
    json_t *json = json_loads(text, 0, NULL);
    cr_assert_eq(sp_cluster_parse(arena, json, "", &cluster, &err), SP_OK, "%s", err.message);
    json_decref(json);
    return cluster;
}

static struct sp_job_options job_options(const struct followed *f)
{
    return (struct sp_job_options){
        .bytes = f->file.data, .size = f->file.size, .name = "model.onnx", .sha256 = PLANNED_SHA256};
}

static void plan_mlp(struct followed *f, const struct onnx_mlp *mlp, const char *cluster, const char *objective,
                     double tolerance)
{
    struct sp_plan_options options;
    struct planned_model model = {0};
    struct sp_error err = {0};
    *f = (struct followed){.arena = sp_arena_create(NULL)};
    onnx_mlp(&f->file, mlp);
    sp_plan_options_init(&options);
    options.max_replicas = 1; /* one plan, no copies */
    options.tolerance = tolerance;
    cr_assert(sp_objective_parse(objective, &options.objective));
    const struct sp_job_options job = job_options(f);
    cr_assert_eq(sp_job_plan(&job, cluster_of(f->arena, cluster), &options, &model.job, &model.plan, &err), SP_OK, "%s",
                 err.message);
    f->before = planned_json(&model);
    sp_job_destroy(model.job);
}

static void plan_before(struct followed *f, const char *cluster, const char *objective, double tolerance)
{
    plan_mlp(f, &wide, cluster, objective, tolerance);
}

static void follow(struct followed *f, const char *cluster, double horizon, const int64_t *map, uint32_t map_count)
{
    const struct sp_replan_terms terms = {.horizon_seconds = horizon, .map = map, .map_count = map_count};
    const struct sp_job_options job = job_options(f);
    const struct sp_replan_question question = {
        .plan = f->before, .cluster = cluster_of(f->arena, cluster), .terms = &terms};
    f->status = sp_plan_follow(f->arena, &job, &question, &f->job, &f->plan, &f->err);
}

static void expect_followed(const struct followed *f)
{
    cr_assert_eq(f->status, SP_OK, "%s", f->err.message);
    cr_assert_not_null(f->plan->migration);
}

static void drop(struct followed *f)
{
    sp_job_destroy(f->job);
    f->job = NULL;
    f->plan = NULL;
}

static void release(struct followed *f)
{
    drop(f);
    json_decref(f->before);
    sp_arena_destroy(f->arena);
    sp_buf_release(&f->file);
}

static double estimate(const json_t *plan, const char *name)
{
    return json_number_value(json_object_get(json_object_get(plan, "estimate"), name));
}

Test(replan, no_change_moves_nothing)
{
    static const char *const clusters[] = {two_nodes, two_kinds, four};
    static const char *const objectives[] = {"throughput", "latency", "devices"};
    const int64_t same[] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (size_t i = 0; i < 9; i++) {
        struct followed f;
        plan_before(&f, clusters[i / 3], objectives[i % 3], 0.02);
        for (size_t known = 0; known < 2; known++) {
            follow(&f, clusters[i / 3], 3600, known ? same : NULL, known ? i < 3 ? 8 : 4 : 0);
            expect_followed(&f);
            cr_expect_eq(f.plan->migration->moves.bytes, 0);
            cr_expect_eq(f.plan->migration->moves.count, 0);
            cr_expect_eq(f.plan->migration->moves.seconds, 0);
            cr_expect_eq(f.plan->result->evaluation->latency_seconds, estimate(f.before, "latency_seconds"));
            cr_expect_eq(f.plan->result->evaluation->interval_seconds, estimate(f.before, "interval_seconds"));
            for (uint32_t d = 0; d < f.plan->cluster->device_count; d++)
                cr_expect_eq(f.plan->migration->was[d], d);
            drop(&f);
        }
        release(&f);
    }
}

Test(replan, a_long_horizon_gives_the_plan_without_the_past)
{
    static const char *const objectives[] = {"throughput", "latency", "devices"};
    for (size_t i = 0; i < 3; i++) {
        struct followed f;
        struct sp_plan_options options;
        struct sp_job *job;
        struct sp_plan *fresh;
        struct sp_error err = {0};
        plan_before(&f, four, objectives[i], 0);
        sp_plan_options_init(&options);
        options.max_replicas = 1; /* one plan, no copies */
        options.tolerance = 0;
        cr_assert(sp_objective_parse(objectives[i], &options.objective));
        const struct sp_job_options job_of = job_options(&f);
        cr_assert_eq(sp_job_plan(&job_of, cluster_of(f.arena, three), &options, &job, &fresh, &err), SP_OK, "%s",
                     err.message);
        follow(&f, three, SP_REPLAN_MAX_HORIZON, NULL, 0);
        expect_followed(&f);
        const struct sp_evaluation *a = f.plan->result->evaluation, *b = fresh->result->evaluation;
        const double value[2] = {i == 0   ? a->interval_seconds
                                 : i == 1 ? a->latency_seconds
                                          : a->device_count,
                                 i == 0   ? b->interval_seconds
                                 : i == 1 ? b->latency_seconds
                                          : b->device_count};
        cr_expect_leq(value[0], value[1] * (1 + 1e-9), "%s", objectives[i]);
        cr_expect_float_eq(f.plan->migration->fresh.interval_seconds, b->interval_seconds, 1e-12);
        cr_expect_float_eq(f.plan->migration->fresh.latency_seconds, b->latency_seconds, 1e-12);
        sp_job_destroy(job);
        release(&f);
    }
}

Test(replan, no_horizon_stays_where_that_can_be)
{
    struct followed f;
    plan_before(&f, two_nodes, "latency", 0.02);
    follow(&f, slower, 0, NULL, 0);
    expect_followed(&f);
    cr_expect_eq(f.plan->migration->moves.bytes, 0);
    cr_expect_not_null(f.plan->migration->stay.description);
    cr_expect_eq(f.plan->migration->stay.bytes, 0);
    release(&f);
}

/* The longer the horizon, the better the plan, and the more it may move. */
Test(replan, figures_follow_the_horizon)
{
    static const double horizons[] = {0, 1e-3, 1e-2, 0.1, 1, 10, 100, 1e4, 1e8};
    const int64_t map[] = {0, 1, -1, 2};
    struct followed f;
    double last_value = INFINITY, last_seconds = 0;
    plan_before(&f, four, "throughput", 0);
    for (size_t i = 0; i < sizeof horizons / sizeof *horizons; i++) {
        follow(&f, three, horizons[i], map, 4);
        expect_followed(&f);
        const double value = f.plan->result->evaluation->interval_seconds;
        const double seconds = f.plan->migration->moves.seconds;
        cr_expect_leq(value, last_value * (1 + 1e-9), "horizon %g", horizons[i]);
        cr_expect_geq(seconds, last_seconds * (1 - 1e-9), "horizon %g", horizons[i]);
        cr_expect_geq(f.plan->migration->moves.bytes, f.plan->migration->moves.bytes_bound);
        last_value = value;
        last_seconds = seconds;
        drop(&f);
    }
    release(&f);
}

/* Equal devices under other numbers are the same devices. */
Test(replan, other_numbers_move_nothing)
{
    const int64_t map[] = {2, 0, 3, 1};
    struct followed f;
    plan_before(&f, four, "throughput", 0.02);
    follow(&f, four, 3600, map, 4);
    expect_followed(&f);
    cr_expect_eq(f.plan->migration->moves.bytes, 0);
    for (uint32_t d = 0; d < 4; d++)
        cr_expect_eq(map[f.plan->migration->was[d]], (int64_t)f.plan->migration->numbers[d]);
    release(&f);
}

Test(replan, a_device_that_was_free_is_not_missed)
{
    struct followed f;
    plan_before(&f, four, "devices", 0.02);
    cr_assert_lt(estimate(f.before, "devices_used"), 4);
    follow(&f, three, 3600, NULL, 0);
    expect_followed(&f);
    cr_expect_eq(f.plan->migration->moves.bytes, 0);
    cr_expect_eq(f.plan->migration->choice, SP_REPLAN_STAY);
    release(&f);
}

/* Devices that the new cluster leaves out are lost, and the others keep their numbers. */
Test(replan, what_is_left_out_is_lost)
{
    static const char *const clusters[][2] = {
        {four, "{\"device\": \"a100-sxm4-80gb\", \"count\": 4, \"exclude\": [1]}"},
        {two_nodes,
         "{\"groups\": [{\"name\": \"box\", \"count\": 8, \"device\": \"a100-sxm4-80gb\"}], \"exclude\": [1, 2],"
         " \"mesh\": [{\"name\": \"node\", \"size\": 2, \"bandwidth\": 25e9, \"latency\": 5e-6},"
         "            {\"name\": \"gpu\", \"size\": 4, \"bandwidth\": 300e9, \"latency\": 2e-6}]}"},
    };
    for (size_t i = 0; i < 2; i++) {
        struct followed f;
        uint32_t holder_of[8];
        plan_before(&f, clusters[i][0], "throughput", 0.02);
        follow(&f, clusters[i][1], 3600, NULL, 0);
        expect_followed(&f);
        const struct sp_cluster *now = f.plan->cluster;
        for (uint32_t d = 0; d < now->device_count; d++) {
            holder_of[d] = f.plan->migration->moves.seats[d].holder;
            cr_expect_eq(f.plan->migration->was[d], (int64_t)f.plan->migration->numbers[d]);
            cr_expect_neq(f.plan->migration->was[d], 1);
        }
        cr_expect(sp_fleet_allows(&(struct sp_fleet){now, now, true}, holder_of));
        cr_expect_geq(f.plan->migration->moves.bytes, f.plan->migration->moves.bytes_bound);
        cr_expect_gt(f.plan->migration->moves.bytes_bound, 0);
        release(&f);
    }
}

/* Of requests that take several routes, those whose devices are all there go on. */
Test(replan, routes_stay_or_lose_some)
{
    static const char *const unequal =
        "{\"groups\": [{\"count\": 2, \"device\": \"l4-24gb\"}, {\"count\": 1, \"device\": \"a100-sxm4-80gb\"}]}";
    static const char *const fewer =
        "{\"groups\": [{\"count\": 2, \"device\": \"l4-24gb\"}, {\"count\": 1, \"device\": \"a100-sxm4-80gb\"}],"
        " \"exclude\": [0]}";
    struct sp_plan_options options;
    struct planned_model model = {0};
    struct followed f = {.arena = sp_arena_create(NULL)};
    onnx_mlp(&f.file, &wide);
    sp_plan_options_init(&options);
    options.max_replicas = 1; /* one plan, no copies */
    options.strategy = SP_STRATEGY_ROUTES;
    options.tolerance = 0;
    const struct sp_job_options job = job_options(&f);
    cr_assert_eq(sp_job_plan(&job, cluster_of(f.arena, unequal), &options, &model.job, &model.plan, &f.err), SP_OK,
                 "%s", f.err.message);
    cr_assert_not_null(model.plan->result->routes);
    f.before = planned_json(&model);
    sp_job_destroy(model.job);
    follow(&f, unequal, 3600, NULL, 0);
    expect_followed(&f);
    cr_expect_eq(f.plan->migration->choice, SP_REPLAN_STAY);
    cr_expect_eq(f.plan->migration->moves.bytes, 0);
    cr_expect_not_null(f.plan->result->routes);
    drop(&f);
    follow(&f, fewer, 0, NULL, 0);
    expect_followed(&f);
    cr_expect_geq(f.plan->migration->moves.bytes, f.plan->migration->moves.bytes_bound);
    release(&f);
}

/* Two devices of so many MB beside a host. */
static const char *beside_host(char *text, size_t size, double first, double second, double host)
{
    (void)snprintf(text, size,
                   "{\"groups\": [{\"count\": 1, \"device\": {\"name\": \"a\", \"memory_bytes\": %g,"
                   " \"memory_bandwidth\": 1e12, \"flops\": {\"float32\": 1e13}}}, {\"count\": 1, \"device\":"
                   " {\"name\": \"b\", \"memory_bytes\": %g, \"memory_bandwidth\": 1e12,"
                   " \"flops\": {\"float32\": 1e13}}}], \"mesh\": [{\"size\": 2, \"bandwidth\": 1e10,"
                   " \"latency\": 1e-6}], \"host\": {\"memory_bytes\": %g, \"bandwidth\": 2e10}}",
                   1e6 * first, 1e6 * second, 1e6 * host);
    return text;
}

/* What devices have no room for, of what they had and what they get, counted from the moves. */
static double beside_devices(const struct followed *f)
{
    double bytes = 0;
    for (uint32_t d = 0; d < f->plan->cluster->device_count; d++) {
        const struct sp_seat *seat = &f->plan->migration->moves.seats[d];
        const double all = seat->kept_bytes + seat->freed_bytes + seat->received_bytes;
        bytes += fmax(0, all - sp_cluster_memory(f->plan->cluster, d));
    }
    return bytes;
}

/* 16 weights of 16.8 MB on two devices that hold eleven of them at most: the others are in the memory of their host, and
   so is what devices have no room for while old and new weights are there. */
Test(replan, what_devices_have_no_room_for_is_in_their_host)
{
    static const struct onnx_mlp deep = {.layers = 16, .width = 2048, .batch = "64"};
    char text[1024];
    struct followed f;
    uint32_t fit = 0, unfit = 0;
    plan_mlp(&f, &deep, beside_host(text, sizeof text, 100, 100, 1000), "throughput", 0);
    follow(&f, text, 3600, NULL, 0);
    expect_followed(&f);
    cr_expect_eq(f.plan->migration->moves.bytes, 0);
    cr_expect_gt(beside_devices(&f), 0);
    cr_expect(f.plan->migration->fits_beside);
    drop(&f);
    for (double host = 160; host <= 420; host += 20) {
        follow(&f, beside_host(text, sizeof text, 50, 150, host), 3600, (const int64_t[]){0, 1}, 2);
        if (f.status == SP_OK) {
            cr_expect_eq(f.plan->migration->fits_beside, beside_devices(&f) <= 1e6 * host, "%g MB", host);
            fit += f.plan->migration->fits_beside;
            unfit += !f.plan->migration->fits_beside;
        }
        sp_error_clear(&f.err);
        drop(&f);
    }
    cr_expect_gt(fit, 0);
    cr_expect_gt(unfit, 0);
    release(&f);
}

static void expect_refused(const int64_t *map, uint32_t count, const char *code)
{
    struct followed f;
    plan_before(&f, four, "throughput", 0.02);
    follow(&f, three, 3600, map, count);
    cr_expect_neq(f.status, SP_OK);
    cr_expect_str_eq(f.err.code, code, "%s", f.err.message);
    release(&f);
}

Test(replan, maps_that_make_no_sense_are_refused)
{
    expect_refused((const int64_t[]){0, 1, 2}, 3, "REPLAN_MAP");
    expect_refused((const int64_t[]){0, 1, 2, 3}, 4, "REPLAN_MAP");
    expect_refused((const int64_t[]){0, 1, 1, -1}, 4, "REPLAN_MAP");
}

Test(replan, the_plan_is_made_again_from_its_json)
{
    struct followed f;
    struct planned_model again = {0};
    struct sp_error err = {0};
    plan_before(&f, four, "throughput", 0.02);
    follow(&f, three, 60, NULL, 0);
    expect_followed(&f);
    json_t *json = planned_json(&(struct planned_model){.plan = f.plan});
    const struct sp_job_options job = job_options(&f);
    cr_assert_eq(sp_plan_from_json(&job, json, f.arena, &again.job, &again.plan, &err), SP_OK, "%s", err.message);
    cr_expect_str_eq(again.plan->id, f.plan->id);
    cr_expect_eq(json_array_size(json_object_get(json, "moves")), f.plan->migration->moves.count);
    sp_job_destroy(again.job);
    json_decref(json);
    release(&f);
}

/* ---- who sits where: against all ways ---------------------------------------------------------------------------- */

#define SEATS 6

static double kept(uint32_t seats, uint32_t holders, const double *keep, const uint32_t *holder_of)
{
    double sum = 0;
    for (uint32_t s = 0; s < seats; s++)
        sum += holder_of[s] == SP_NO_HOLDER ? 0 : keep[s * holders + holder_of[s]];
    return sum;
}

/* The most bytes that any way keeps. */
static double most_kept(const struct sp_fleet *fleet, const double *keep)
{
    const uint32_t seats = fleet->now->device_count, holders = fleet->before->device_count;
    uint32_t digits[SEATS] = {0}, holder_of[SEATS];
    double most = -1;
    for (;;) {
        uint32_t s = 0, used = 0;
        bool is_once = true;
        for (; s < seats; s++) {
            holder_of[s] = digits[s] == holders ? SP_NO_HOLDER : digits[s];
            is_once = is_once && (digits[s] == holders || (used >> digits[s] & 1) == 0);
            used |= digits[s] == holders ? 0 : 1u << digits[s];
        }
        if (is_once && sp_fleet_allows(fleet, holder_of))
            most = fmax(most, kept(seats, holders, keep, holder_of));
        for (s = 0; s < seats && ++digits[s] > holders - fleet->is_known; s++)
            digits[s] = 0;
        if (s == seats)
            return most;
    }
}

static void expect_most_kept(const char *now, const char *before, uint32_t rounds)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_fleet fleet = {.now = cluster_of(arena, now), .is_known = before == NULL};
    struct sp_error err = {0};
    uint64_t state = 7;
    fleet.before = before == NULL ? fleet.now : cluster_of(arena, before);
    const uint32_t seats = fleet.now->device_count, holders = fleet.before->device_count;
    for (uint32_t round = 0; round < rounds; round++) {
        double keep[SEATS * SEATS];
        uint32_t holder_of[SEATS];
        for (uint32_t i = 0; i < seats * holders; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            keep[i] = (double)((state >> 33) % (round % 2 == 0 ? 1000 : 3));
        }
        cr_assert_eq(sp_fleet_match(arena, &fleet, keep, holder_of, &err), SP_OK);
        cr_expect(sp_fleet_allows(&fleet, holder_of), "%s, round %u", now, round);
        cr_expect_eq(kept(seats, holders, keep, holder_of), most_kept(&fleet, keep), "%s, round %u", now, round);
    }
    sp_arena_destroy(arena);
}

#define BOX(count, more)  "{\"groups\": [{\"count\": " count ", \"device\": \"a100-sxm4-80gb\"}" more "], \"mesh\": ["
#define LEVEL(name, size) "{\"name\": \"" name "\", \"size\": " size ", \"bandwidth\": 1e9, \"latency\": 1e-6}"
#define OTHERS(count)     ", {\"count\": " count ", \"device\": \"l4-24gb\"}"

Test(replan, seats_keep_the_most_bytes)
{
    static const char *const three_twos = BOX("6", "") LEVEL("node", "3") "," LEVEL("gpu", "2") "]}";
    static const char *const two_threes = BOX("6", "") LEVEL("node", "2") "," LEVEL("gpu", "3") "]}";
    static const char *const kinds = BOX("3", OTHERS("2")) LEVEL("net", "5") "]}";
    static const char *const holes = BOX("6", "") LEVEL("node", "3") "," LEVEL("gpu", "2") "], \"exclude\": [1]}";
    static const char *const twos = BOX("4", "") LEVEL("node", "2") "," LEVEL("gpu", "2") "]}";
    static const char *const flat = BOX("5", "") LEVEL("net", "5") "]}";
    expect_most_kept(three_twos, NULL, 10);
    expect_most_kept(two_threes, NULL, 10);
    expect_most_kept(kinds, NULL, 40);
    expect_most_kept(holes, NULL, 20);
    expect_most_kept(twos, three_twos, 40);
    expect_most_kept(twos, holes, 40);
    expect_most_kept(flat, twos, 40);
    expect_most_kept(kinds, flat, 20);
}

static void expect_terms(const char *text, const char *where)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_replan_terms terms;
    struct sp_error err = {0};
    json_t *json = json_loads(text, 0, NULL);
    const enum sp_status status = sp_replan_terms_parse(arena, json, "/options/replan", &terms, &err);
    cr_expect_eq(status, where == NULL ? SP_OK : SP_ERR_REQUEST, "%s", text);
    if (where != NULL)
        cr_expect_str_eq(err.where, where, "%s: %s", text, err.where);
    json_decref(json);
    sp_arena_destroy(arena);
}

Test(replan, terms_are_checked)
{
    expect_terms("{\"from\": \"a\"}", NULL);
    expect_terms("{\"from\": \"a\", \"horizon_seconds\": 0, \"map\": [0, null, 2]}", NULL);
    expect_terms("{\"horizon_seconds\": 0}", "/options/replan/from");
    expect_terms("{\"from\": \"a\", \"horizon_seconds\": -1}", "/options/replan/horizon_seconds");
    expect_terms("{\"from\": \"a\", \"horizon_seconds\": \"1h\"}", "/options/replan/horizon_seconds");
    expect_terms("{\"from\": \"a\", \"map\": []}", "/options/replan/map");
    expect_terms("{\"from\": \"a\", \"map\": [-1]}", "/options/replan/map");
    expect_terms("{\"from\": \"a\", \"maps\": [0]}", "/options/replan");
}
