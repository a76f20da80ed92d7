#include <criterion/criterion.h>
#include <math.h>

#include "how_many.h"
#include "onnx_bytes.h"
#include "plan/variants/variants.h"
#include "recount.h"

/* Six layers of 4096 x 4096 float32: 402,653,184 bytes of weights. */
static const struct onnx_mlp deep = {.layers = 6, .width = 4096, .batch = "512"};
#define DEEP_BYTES (6.0 * 4096 * 4096 * 4)

/* A request's members, its answer and what all of it lives in. */
struct asked {
    struct sp_buf file;
    struct sp_arena *arena;
    struct sp_plan_target target;
    struct sp_plan_options options;
    struct sp_job_options job_options;
    struct sp_job *job;
    struct sp_plan *plan;
    struct sp_error err;
};

static json_t *load(const char *text)
{
    json_error_t where;
    json_t *json = text == NULL ? NULL : json_loads(text, JSON_REJECT_DUPLICATES, &where);
    cr_assert(text == NULL || json != NULL, "%s: %s", text, where.text);
    return json;
}

static enum sp_status target_of(struct asked *a, const char *cluster, const char *sweep)
{
    json_t *cluster_json = load(cluster), *sweep_json = load(sweep);
    enum sp_status status = sp_plan_target_parse(a->arena, cluster_json, sweep_json, &a->target, &a->err);
    json_decref(cluster_json);
    json_decref(sweep_json);
    return status;
}

static struct asked begin(const char *cluster, const char *sweep)
{
    struct asked a = {.arena = sp_arena_create(NULL), .job_options = {.name = "mlp.onnx", .sha256 = "00ff"}};
    onnx_mlp(&a.file, &deep);
    a.job_options.bytes = a.file.data;
    a.job_options.size = a.file.size;
    sp_plan_options_init(&a.options);
    a.options.max_replicas = 1; /* one plan, no copies */
    cr_assert_eq(target_of(&a, cluster, sweep), SP_OK, "%s", a.err.message);
    return a;
}

static enum sp_status ask(struct asked *a)
{
    const enum sp_status status =
        sp_plan_answer(a->arena, &a->job_options, &a->target, &a->options, &a->job, &a->plan, &a->err);
    if (status == SP_OK)
        recount_expect_result(a->plan->workload, a->plan->cluster, a->plan->result);
    return status;
}

static void end(struct asked *a)
{
    sp_job_destroy(a->job);
    sp_arena_destroy(a->arena);
    sp_buf_release(&a->file);
}

/* A cluster of devices with so much memory, linked as an A100's hosts are. */
static const char *cluster_of(char *text, size_t size, int count, double memory)
{
    (void)snprintf(text, size,
                   "{\"count\": %d, \"device\": {\"name\": \"small\", \"memory_bytes\": %.0f, "
                   "\"memory_bandwidth\": 1e12, \"link_bandwidth\": 2.5e10, \"flops\": {\"float32\": 1e13}}}",
                   count, memory);
    return text;
}

static const struct sp_variant *row_of(const struct sp_variants *rows, const char *change)
{
    for (uint32_t i = 0; i < rows->count; i++) {
        if (strcmp(rows->rows[i].change, change) == 0)
            return &rows->rows[i];
    }
    cr_assert_fail("no row '%s'", change);
    return NULL;
}

/* The figures of a separate plan. */
static enum sp_status plan_alone(const struct asked *a, const struct sp_cluster *cluster, struct sp_variant *ret_row)
{
    struct sp_plan_options options = a->options;
    struct sp_job *job;
    struct sp_plan *plan;
    struct sp_error err = {0};
    options.what_if = false;
    enum sp_status status = sp_job_plan(&a->job_options, cluster, &options, &job, &plan, &err);
    memset(ret_row, 0, sizeof *ret_row);
    if (status != SP_OK)
        return status;
    recount_expect_result(plan->workload, plan->cluster, plan->result);
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    *ret_row = (struct sp_variant){.latency_seconds = evaluation->latency_seconds,
                                   .interval_seconds = evaluation->interval_seconds,
                                   .stage_count = evaluation->stage_count};
    for (uint32_t s = 0; s < evaluation->stage_count; s++) {
        ret_row->memory_bytes = fmax(ret_row->memory_bytes, evaluation->stages[s].total_bytes);
        ret_row->devices_used += evaluation->stages[s].device_count;
    }
    sp_job_destroy(job);
    return SP_OK;
}

static bool same_figures(const struct sp_variant *a, const struct sp_variant *b)
{
    return a->latency_seconds == b->latency_seconds && a->interval_seconds == b->interval_seconds &&
           a->stage_count == b->stage_count && a->memory_bytes == b->memory_bytes && a->devices_used == b->devices_used;
}

/* ---- what if ---------------------------------------------------------------------------------------------------- */

Test(variants, memory_decides_what_fits)
{
    char text[512];
    /* Two devices have room for the weights and a little more; half of that, or one of them, has not. */
    struct asked a = begin(cluster_of(text, sizeof text, 2, 0.75 * DEEP_BYTES), NULL);
    a.options.what_if = true;
    cr_assert_eq(ask(&a), SP_OK, "%s", a.err.message);
    const struct sp_variants *rows = a.plan->what_if;
    cr_assert_null(a.plan->sweep);
    cr_expect_eq(rows->count, 7);
    const struct sp_variant *half = row_of(rows, "half the memory on every device");
    cr_expect_eq(half->state, SP_VARIANT_NOFIT);
    cr_assert_not_null(strstr(half->message, "No plan fits"), "%s", half->message);
    cr_expect_eq(row_of(rows, "one small fewer")->state, SP_VARIANT_NOFIT);
    cr_expect_eq(row_of(rows, "one small fewer")->devices_available, 1);
    cr_expect_eq(row_of(rows, "twice the memory on every device")->state, SP_VARIANT_FITS);
    const struct sp_variant *more = row_of(rows, "one more small");
    cr_expect_eq(more->state, SP_VARIANT_FITS);
    cr_expect_eq(more->devices_available, 3);
    cr_expect_gt(more->gain, 0.1, "three devices are quicker than two: %g", more->gain);
    end(&a);

    /* Twice as much memory: half of it is enough again. */
    a = begin(cluster_of(text, sizeof text, 2, 1.5 * DEEP_BYTES), NULL);
    a.options.what_if = true;
    cr_assert_eq(ask(&a), SP_OK, "%s", a.err.message);
    cr_expect_eq(row_of(a.plan->what_if, "half the memory on every device")->state, SP_VARIANT_FITS);
    cr_expect_eq(row_of(a.plan->what_if, "one small fewer")->state, SP_VARIANT_FITS);
    end(&a);
}

Test(variants, compute_bound_work_gains_what_devices_gain)
{
    char text[512];
    struct asked a = begin(cluster_of(text, sizeof text, 1, 8 * DEEP_BYTES), NULL);
    a.options.what_if = true;
    cr_assert_eq(ask(&a), SP_OK, "%s", a.err.message);
    /* 512 rows against 4096 x 4096 weights: 17.2 GFLOP take 2.5 ms of a layer's time, its 84 MB of traffic 0.12 ms. So
       twice the FLOPs are nearly twice as fast, and twice the bandwidth is nothing. */
    cr_expect_float_eq(row_of(a.plan->what_if, "twice the compute speed of every device")->gain, 1, 0.05);
    cr_expect_float_eq(row_of(a.plan->what_if, "twice the memory bandwidth of every device")->gain, 0, 0.01);
    for (uint32_t i = 0; i < a.plan->what_if->count; i++) {
        cr_expect_null(strstr(a.plan->what_if->rows[i].change, "links"), "one device has no links");
        cr_expect_null(strstr(a.plan->what_if->rows[i].change, "fewer"), "and cannot be left out");
    }
    end(&a);
}

static double value_of(enum sp_objective objective, const struct sp_variant *row)
{
    return objective == SP_OBJECTIVE_LATENCY   ? row->latency_seconds
           : objective == SP_OBJECTIVE_DEVICES ? row->devices_used
                                               : row->interval_seconds;
}

/* The rule of variants.h, recomputed: what a change cannot make worse is never shown as worse, and what the search
   finds on the changed cluster is never hidden where it is better. */
static void check_rows(struct asked *a, const struct sp_cluster *const *changed)
{
    struct sp_variant given, found;
    cr_assert_eq(ask(a), SP_OK, "%s", a->err.message);
    cr_assert_eq(plan_alone(a, a->target.cluster, &given), SP_OK);
    for (uint32_t i = 0; i < a->plan->what_if->count; i++) {
        const struct sp_variant *row = &a->plan->what_if->rows[i];
        const bool is_less = strstr(row->change, "fewer") != NULL || strstr(row->change, "half") != NULL;
        if (row->state == SP_VARIANT_FITS && !is_less) {
            cr_expect_geq(row->gain, -1e-8, "%s", row->change);
            cr_expect_leq(value_of(a->options.objective, row), value_of(a->options.objective, &given) * (1 + 1e-8));
        }
        if (row->is_kept)
            cr_expect(same_figures(row, &given), "%s", row->change);
        if (changed[i] == NULL)
            continue;
        const enum sp_status status = plan_alone(a, changed[i], &found);
        cr_expect_eq(status == SP_OK || row->is_kept, row->state == SP_VARIANT_FITS, "%s", row->change);
        if (row->is_kept && status == SP_OK)
            cr_expect_leq(value_of(a->options.objective, &given), value_of(a->options.objective, &found) * (1 + 1e-8),
                          "%s", row->change);
        else if (status == SP_OK)
            cr_expect(same_figures(row, &found), "%s", row->change);
    }
    sp_job_destroy(a->job);
    a->job = NULL;
}

Test(variants, no_improvement_is_shown_as_a_loss)
{
    static const int counts[] = {1, 3};
    char text[512], more[512], fewer[512], half[512], twice[512];
    for (size_t c = 0; c < 2; c++) {
        /* Of the larger ones, which take longest, one objective everyday. */
        const int objectives = c == 0 ? 3 : (int)how_many(1, 3);
        for (int objective = 0; objective < objectives; objective++) {
            const double memory = 0.9 * DEEP_BYTES;
            struct asked a = begin(cluster_of(text, sizeof text, counts[c] + 1, memory), NULL), other;
            const struct sp_cluster *changed[16] = {0};
            const int count = counts[c] + 1;
            const char *texts[] = {cluster_of(more, sizeof more, count + 1, memory),
                                   cluster_of(fewer, sizeof fewer, count - 1, memory), NULL,
                                   cluster_of(half, sizeof half, count, memory / 2),
                                   cluster_of(twice, sizeof twice, count, memory * 2)};
            other = a;
            for (size_t i = 0; i < 5; i++) {
                if (texts[i] != NULL && target_of(&other, texts[i], NULL) == SP_OK)
                    changed[i] = other.target.cluster;
            }
            a.options.what_if = true;
            a.options.objective = (enum sp_objective)objective;
            check_rows(&a, changed);
            end(&a);
        }
    }
}

Test(variants, what_is_reserved_stays_reserved)
{
    char text[512], options[256];
    struct asked a = begin(cluster_of(text, sizeof text, 1, 2.5 * DEEP_BYTES), NULL);
    (void)snprintf(options, sizeof options, "{\"what_if\": true, \"constraints\": {\"reserved_bytes\": %.0f}}",
                   0.4 * DEEP_BYTES);
    json_t *json = load(options);
    cr_assert_eq(sp_plan_options_parse(a.arena, NULL, json, &a.options, &a.err), SP_OK, "%s", a.err.message);
    cr_assert_eq(ask(&a), SP_OK, "%s", a.err.message);
    /* 2.5 / 2 - 0.4 is less than the weights take. */
    cr_expect_eq(row_of(a.plan->what_if, "half the memory on every device")->state, SP_VARIANT_NOFIT);
    sp_job_destroy(a.job);
    json_decref(json);
    (void)snprintf(options, sizeof options, "{\"what_if\": true, \"constraints\": {\"reserved_bytes\": %.0f}}",
                   0.1 * DEEP_BYTES);
    json = load(options);
    cr_assert_eq(sp_plan_options_parse(a.arena, NULL, json, &a.options, &a.err), SP_OK, "%s", a.err.message);
    cr_assert_eq(ask(&a), SP_OK, "%s", a.err.message);
    cr_expect_eq(row_of(a.plan->what_if, "half the memory on every device")->state, SP_VARIANT_FITS);
    json_decref(json);
    end(&a);
}

Test(variants, what_does_not_fit_is_told_what_would_help)
{
    char text[512];
    struct asked a = begin(cluster_of(text, sizeof text, 2, 0.48 * DEEP_BYTES), NULL);
    a.options.what_if = true;
    cr_assert_eq(ask(&a), SP_ERR_NOFIT);
    cr_expect_not_null(strstr(a.err.message, "It fits with one more small or with twice the memory on every device."),
                       "%s", a.err.message);
    end(&a);
    a = begin(cluster_of(text, sizeof text, 2, 0.1 * DEEP_BYTES), NULL);
    a.options.what_if = true;
    cr_assert_eq(ask(&a), SP_ERR_NOFIT);
    cr_expect_not_null(strstr(a.err.message, "It does not fit with one more small or with twice the memory on every "
                                             "device either."),
                       "%s", a.err.message);
    a.options.what_if = false;
    sp_error_clear(&a.err);
    cr_assert_eq(ask(&a), SP_ERR_NOFIT);
    cr_expect_null(strstr(a.err.message, "one more"), "%s", a.err.message);
    end(&a);
}

Test(variants, kinds_of_devices_and_levels_have_a_row_each)
{
    static const char mixed[] =
        "{\"groups\": [{\"name\": \"a\", \"count\": 2, \"device\": \"a100-sxm4-80gb\"},"
        "{\"name\": \"b\", \"count\": 1, \"device\": \"l4-24gb\"}, {\"name\": \"c\", \"count\": 1, \"device\": "
        "\"a100-sxm4-80gb\"}], \"mesh\": [{\"name\": \"node\", \"size\": 2, \"bandwidth\": 2.5e10},"
        "{\"name\": \"gpu\", \"size\": 2, \"bandwidth\": 3e11}]}";
    static const char *const changes[] = {"one more a100-sxm4-80gb ('node' grows to 3)",
                                          "one more l4-24gb ('node' grows to 3)",
                                          "one a100-sxm4-80gb fewer",
                                          "links of 'node' twice as fast",
                                          "links of 'gpu' twice as fast",
                                          "half the memory on every device",
                                          "twice the memory on every device",
                                          "twice the compute speed of every device",
                                          "twice the memory bandwidth of every device"};
    struct asked a = begin(mixed, NULL);
    a.options.what_if = true;
    cr_assert_eq(ask(&a), SP_OK, "%s", a.err.message);
    cr_assert_eq(a.plan->what_if->count, sizeof changes / sizeof changes[0]);
    for (uint32_t i = 0; i < a.plan->what_if->count; i++)
        cr_expect_str_eq(a.plan->what_if->rows[i].change, changes[i]);
    end(&a);
}

Test(variants, the_question_is_part_of_the_plan)
{
    char text[512];
    struct asked a = begin(cluster_of(text, sizeof text, 2, 2 * DEEP_BYTES), NULL);
    cr_assert_eq(ask(&a), SP_OK);
    cr_expect_null(a.plan->what_if);
    cr_expect_null(strstr(a.plan->options_json, "what_if"));
    char id[64];
    (void)snprintf(id, sizeof id, "%s", a.plan->id);
    sp_job_destroy(a.job);
    a.options.what_if = true;
    cr_assert_eq(ask(&a), SP_OK);
    cr_expect_not_null(strstr(a.plan->options_json, "\"what_if\":true"), "%s", a.plan->options_json);
    cr_expect_str_neq(a.plan->id, id);
    end(&a);
}

/* ---- sweeps ----------------------------------------------------------------------------------------------------- */

/* Whether row a is to be taken rather than row b, by the definition. */
static bool is_preferred(const struct asked *a, const struct sp_variant *x, const struct sp_variant *y)
{
    const double u = value_of(a->options.objective, x), v = value_of(a->options.objective, y);
    if (a->target.sweep->choice == SP_SWEEP_SMALLEST && x->devices_available != y->devices_available)
        return x->devices_available < y->devices_available;
    return fabs(u - v) > 1e-8 * v ? u < v : x->devices_available < y->devices_available;
}

/* Each row against a plan of its own; the chosen one against all others. */
static void check_sweep(struct asked *a)
{
    const struct sp_sweep *sweep = a->target.sweep;
    cr_assert_eq(ask(a), SP_OK, "%s", a->err.message);
    const struct sp_variants *rows = a->plan->sweep;
    uint32_t chosen = UINT32_MAX;
    cr_assert_eq(rows->count, sweep->count);
    for (uint32_t i = 0; i < rows->count; i++) {
        struct sp_variant alone;
        const bool fits = plan_alone(a, sweep->clusters[i], &alone) == SP_OK;
        cr_expect_eq(fits ? SP_VARIANT_FITS : SP_VARIANT_NOFIT, rows->rows[i].state);
        cr_expect(!fits || same_figures(&alone, &rows->rows[i]), "row %u", i);
        cr_expect_eq(rows->rows[i].devices_available, sweep->clusters[i]->device_count);
        cr_expect_eq(fits, rows->rows[i].message == NULL);
        if (rows->rows[i].is_chosen) {
            cr_expect_eq(chosen, UINT32_MAX, "only one is chosen");
            chosen = i;
        }
    }
    cr_assert_neq(chosen, UINT32_MAX);
    cr_expect_eq(a->plan->cluster->device_count, sweep->clusters[chosen]->device_count);
    cr_expect(rows->rows[chosen].interval_seconds == a->plan->result->evaluation->interval_seconds);
    for (uint32_t i = 0; i < rows->count; i++) {
        bool is_beaten = false;
        for (uint32_t j = 0; j < rows->count; j++) {
            const struct sp_variant *x = &rows->rows[j], *y = &rows->rows[i];
            const double slack = 1 + 1e-8;
            is_beaten =
                is_beaten || (x->state == SP_VARIANT_FITS && x->devices_used <= y->devices_used &&
                              x->latency_seconds <= y->latency_seconds * slack &&
                              x->interval_seconds <= y->interval_seconds * slack &&
                              (x->devices_used < y->devices_used || x->latency_seconds * slack < y->latency_seconds ||
                               x->interval_seconds * slack < y->interval_seconds));
        }
        cr_expect_eq(rows->rows[i].is_pareto, rows->rows[i].state == SP_VARIANT_FITS && !is_beaten, "row %u", i);
        if (rows->rows[i].state == SP_VARIANT_FITS)
            cr_expect_not(i != chosen && is_preferred(a, &rows->rows[i], &rows->rows[chosen]), "row %u", i);
    }
}

Test(variants, smallest_is_what_trying_every_number_finds)
{
    static const double shares[] = {0.42, 0.6, 1.2};
    for (size_t s = 0; s < 3; s++) {
        char text[512], sweep[1024];
        (void)snprintf(sweep, sizeof sweep, "{\"cluster\": %s, \"devices\": [5, 1, 2, 3, 4]}",
                       cluster_of(text, sizeof text, 5, shares[s] * DEEP_BYTES));
        struct asked a = begin(NULL, sweep);
        check_sweep(&a);
        /* So many devices are needed for the weights alone. */
        cr_expect_geq(a.plan->cluster->device_count, ceil(1 / shares[s]));
        end(&a);
    }
}

Test(variants, best_is_best_over_numbers_and_types)
{
    static const char *const choices[] = {"smallest", "best"};
    for (int objective = 0; objective < 3; objective++) {
        for (size_t c = 0; c < 2; c++) {
            char sweep[256];
            (void)snprintf(sweep, sizeof sweep,
                           "{\"devices\": [1, 3], \"types\": [\"l4-24gb\", \"h100-sxm-80gb\"], \"choose\": \"%s\"}",
                           choices[c]);
            struct asked a = begin(NULL, sweep);
            a.options.objective = (enum sp_objective)objective;
            check_sweep(&a);
            /* An H100 is quicker in everything. */
            cr_expect_str_eq(a.plan->cluster->groups[0].device.name, "h100-sxm-80gb");
            cr_expect_str_eq(a.plan->sweep->rows[0].device, "l4-24gb");
            end(&a);
        }
    }
}

/* One X takes 101 s, two Y take 100 s between requests. */
Test(variants, best_is_the_smallest_cluster_within_the_tolerance)
{
    static const char graph[] = "{\"nodes\": [{\"id\": \"a\", \"seconds\": {\"X\": 100, \"Y\": 100}},"
                                " {\"id\": \"b\", \"seconds\": {\"X\": 1, \"Y\": 60}}],"
                                " \"edges\": [{\"from\": \"a\", \"to\": \"b\"}]}";
    static const char figures[] =
        "\"memory_bytes\": 1e9, \"memory_bandwidth\": 1e12, \"link_bandwidth\": 1e9, \"flops\": {\"float32\": 1e12}";
    char sweep[1024];
    (void)snprintf(
        sweep, sizeof sweep,
        "{\"devices\": [2, 1], \"types\": [{\"name\": \"X\", %s}, {\"name\": \"Y\", %s}], \"choose\": \"best\"}",
        figures, figures);
    for (int exact = 0; exact < 2; exact++) {
        struct asked a = begin(NULL, sweep);
        a.job_options.bytes = graph;
        a.job_options.size = sizeof graph - 1;
        a.options.tolerance = exact ? 0 : SP_PLAN_TOLERANCE;
        cr_assert_eq(ask(&a), SP_OK, "%s", a.err.message);
        const double interval = a.plan->result->evaluation->interval_seconds;
        cr_expect_eq(a.plan->cluster->device_count, exact ? 2 : 1);
        cr_expect_float_eq(interval, exact ? 100 : 101, 1e-6, "%g", interval);
        cr_expect_str_eq(a.plan->cluster->groups[0].device.name, "X");
        end(&a);
    }
}

Test(variants, a_sweep_is_the_plan_of_the_chosen_cluster)
{
    struct asked a = begin(NULL, "{\"devices\": [2, 1], \"types\": [\"a100-sxm4-80gb\"]}");
    struct asked b = begin("{\"device\": \"a100-sxm4-80gb\", \"count\": 1}", NULL);
    a.options.what_if = b.options.what_if = true; /* of the chosen one */
    cr_assert_eq(ask(&a), SP_OK);
    cr_assert_eq(ask(&b), SP_OK);
    cr_expect_str_eq(a.plan->id, b.plan->id);
    cr_assert_eq(a.plan->what_if->count, b.plan->what_if->count);
    for (uint32_t i = 0; i < a.plan->what_if->count; i++) {
        cr_expect_str_eq(a.plan->what_if->rows[i].change, b.plan->what_if->rows[i].change);
        cr_expect(same_figures(&a.plan->what_if->rows[i], &b.plan->what_if->rows[i]));
    }
    end(&a);
    end(&b);
}

Test(variants, where_none_fits_the_closest_is_told)
{
    char text[512], sweep[1024];
    (void)snprintf(sweep, sizeof sweep, "{\"cluster\": %s, \"devices\": [1, 3, 2]}",
                   cluster_of(text, sizeof text, 4, 0.2 * DEEP_BYTES));
    struct asked a = begin(NULL, sweep);
    cr_assert_eq(ask(&a), SP_ERR_NOFIT);
    cr_expect(strstr(a.err.message, "None of the 3 clusters fits. The closest has 3 devices (small): ") ==
                  a.err.message,
              "%s", a.err.message);
    end(&a);
}

/* ---- watches and memory ----------------------------------------------------------------------------------------- */

/* Stops when `phase` has come to its variant number `variant` (of `of`). */
struct stop {
    const char *phase;
    double fraction;
    double last; /* fraction of that phase so far */
    bool fell;   /* it went back */
    uint32_t told_after;
    bool is_over;
};

static bool stop_tick(void *context, const char *phase, double fraction, double best, double bound)
{
    struct stop *stop = context;
    (void)best;
    (void)bound;
    if (strcmp(phase, stop->phase) != 0)
        return true;
    stop->told_after += stop->is_over;
    stop->fell = stop->fell || fraction < stop->last - 1e-9;
    stop->last = fraction;
    stop->is_over = stop->is_over || fraction >= stop->fraction;
    return !stop->is_over;
}

static uint32_t count_open(const struct sp_variants *rows)
{
    uint32_t open = 0;
    for (uint32_t i = 0; i < rows->count; i++) {
        open += rows->rows[i].state == SP_VARIANT_OPEN;
        if (rows->rows[i].state == SP_VARIANT_OPEN)
            cr_expect_not_null(rows->rows[i].message);
    }
    return open;
}

Test(variants, a_stop_keeps_what_was_found)
{
    char text[512];
    struct stop stop = {.phase = "what-if", .fraction = 2.0 / 7};
    const struct sp_watch watch = {.tick = stop_tick, .context = &stop};
    struct asked a = begin(cluster_of(text, sizeof text, 2, 2 * DEEP_BYTES), NULL);
    a.options.what_if = true;
    a.job_options.watch = &watch;
    cr_assert_eq(ask(&a), SP_OK, "%s", a.err.message);
    cr_expect_eq(a.plan->what_if->count, 7);
    cr_expect_eq(count_open(a.plan->what_if), 5);
    cr_expect_eq(a.plan->what_if->rows[1].state, SP_VARIANT_FITS);
    cr_expect_eq(stop.told_after, 0, "nobody asks on after a stop");
    end(&a);

    stop = (struct stop){.phase = "sweep", .fraction = 0.5};
    a = begin(NULL, "{\"devices\": [2, 1], \"types\": [\"l4-24gb\"]}");
    a.job_options.watch = &watch;
    cr_assert_eq(ask(&a), SP_OK, "%s", a.err.message);
    cr_expect_eq(count_open(a.plan->sweep), 1);
    cr_expect(a.plan->sweep->rows[0].is_chosen);
    end(&a);

    stop = (struct stop){.phase = "sweep", .fraction = 0};
    a = begin(NULL, "{\"devices\": [2, 1], \"types\": [\"l4-24gb\"]}");
    a.job_options.watch = &watch;
    cr_assert_eq(ask(&a), SP_ERR_CANCELLED);
    end(&a);

    stop = (struct stop){.phase = "sweep", .fraction = 2};
    a = begin(NULL, "{\"devices\": [2, 1], \"types\": [\"l4-24gb\"]}");
    a.job_options.watch = &watch;
    cr_assert_eq(ask(&a), SP_OK);
    cr_expect_not(stop.fell, "progress never goes back");
    cr_expect_gt(stop.last, 0.5);
    end(&a);
}

/* With just enough memory for the plan there may be none for its variants: that ends rows, never the answer. */
Test(variants, memory_ends_rows_only)
{
    char text[512];
    bool some_open = false;
    for (size_t budget = (size_t)1 << 18; budget < (size_t)1 << 30; budget += budget / how_many(4, 8)) {
        struct asked a = begin(cluster_of(text, sizeof text, 4, DEEP_BYTES), NULL);
        a.options.what_if = true;
        a.job_options.memory_budget = budget;
        const enum sp_status status = ask(&a);
        cr_assert(status == SP_OK || status == SP_ERR_MEMORY || status == SP_ERR_LIMIT, "%s", a.err.message);
        const uint32_t open = status == SP_OK ? count_open(a.plan->what_if) : 0;
        some_open = some_open || open > 0;
        end(&a);
        if (status == SP_OK && open == 0)
            break;
    }
    cr_expect(some_open, "a budget that is enough for one job alone was tried");
}

static void write_twice(const char *cluster, const char *sweep, uint64_t seed, struct sp_buf *text)
{
    struct sp_json json;
    struct asked a = begin(cluster, sweep);
    a.options.what_if = true;
    a.job_options.hash_seed = seed;
    cr_assert_eq(ask(&a), SP_OK);
    sp_json_init_buf(&json, false, text);
    sp_plan_write_json(a.plan, 0, &json);
    cr_assert_eq(sp_json_finish(&json, NULL), SP_OK);
    sp_plan_write_text(a.plan, text);
    end(&a);
}

Test(variants, equal_questions_get_equal_answers)
{
    static const char sweep[] = "{\"devices\": [1, 3], \"types\": [\"a100-sxm4-80gb\", \"l4-24gb\"], "
                                "\"choose\": \"best\"}";
    struct sp_buf a, b;
    sp_buf_init(&a, (size_t)1 << 26);
    sp_buf_init(&b, (size_t)1 << 26);
    write_twice(NULL, sweep, 1, &a);
    write_twice(NULL, sweep, 2, &b);
    cr_assert_eq(a.size, b.size);
    cr_expect_eq(memcmp(a.data, b.data, a.size), 0);
    cr_expect_not_null(strstr(a.data, "Clusters that were asked about"));
    cr_expect_not_null(strstr(a.data, "What if"));
    sp_buf_release(&a);
    sp_buf_release(&b);
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

Test(variants, wrong_sweeps_are_refused_where_they_are_wrong)
{
    static const struct {
        const char *cluster, *sweep, *where;
    } wrong[] = {
        {NULL, "{}", "/sweep/types"},
        {NULL, "[]", "/sweep"},
        {NULL, "{\"devices\": [1], \"types\": []}", "/sweep/types"},
        {NULL, "{\"devices\": [1], \"types\": \"l4-24gb\"}", "/sweep/types"},
        {NULL, "{\"devices\": [1], \"types\": [\"abacus\"]}", "/sweep/types/0"},
        {NULL, "{\"devices\": [1], \"types\": [\"l4-24gb\", {\"name\": \"x\"}]}", "/sweep/types/1"},
        {NULL, "{\"devices\": [1], \"types\": [7]}", "/sweep/types/0"},
        {NULL, "{\"devices\": [1], \"types\": [\"l4-24gb\", \"L4-24GB\"]}", "/sweep/types/1"},
        {NULL, "{\"types\": [\"l4-24gb\"]}", "/sweep/devices"},
        {NULL, "{\"devices\": [], \"types\": [\"l4-24gb\"]}", "/sweep/devices"},
        {NULL, "{\"devices\": 4, \"types\": [\"l4-24gb\"]}", "/sweep/devices"},
        {NULL, "{\"devices\": [1, 0], \"types\": [\"l4-24gb\"]}", "/sweep/devices/1"},
        {NULL, "{\"devices\": [1, 2.0], \"types\": [\"l4-24gb\"]}", "/sweep/devices/1"},
        {NULL, "{\"devices\": [1, 65537], \"types\": [\"l4-24gb\"]}", "/sweep/devices/1"},
        {NULL, "{\"devices\": [2, 4, 2], \"types\": [\"l4-24gb\"]}", "/sweep/devices/2"},
        {NULL, "{\"devices\": [1], \"types\": [\"l4-24gb\"], \"choose\": \"first\"}", "/sweep/choose"},
        {NULL, "{\"devices\": [1], \"types\": [\"l4-24gb\"], \"choose\": null}", "/sweep/choose"},
        {NULL, "{\"devices\": [1], \"types\": [\"l4-24gb\"], \"count\": 1}", "/sweep/count"},
        {NULL, "{\"devices\": [1], \"types\": [\"l4-24gb\"], \"cluster\": {\"device\": \"l4-24gb\", \"count\": 2}}",
         "/sweep/types"},
        {NULL, "{\"devices\": [1], \"cluster\": {\"device\": \"l4-24gb\"}}", "/sweep/cluster"},
        {NULL, "{\"devices\": [3], \"cluster\": {\"device\": \"l4-24gb\", \"count\": 2}}", "/sweep/devices/0"},
        {NULL, "{\"cluster\": {\"device\": \"l4-24gb\", \"count\": 2}}", "/sweep/devices"},
        {"{\"device\": \"l4-24gb\", \"count\": 2}", "{\"devices\": [1], \"types\": [\"l4-24gb\"]}", "/sweep"},
        {"{\"device\": \"l4-24gb\"}", NULL, "/cluster"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct asked a = {.arena = sp_arena_create(NULL)};
        cr_expect_eq(target_of(&a, wrong[i].cluster, wrong[i].sweep), SP_ERR_REQUEST, "%s", wrong[i].sweep);
        cr_expect_str_eq(a.err.where, wrong[i].where, "%s: %s at %s", wrong[i].sweep, a.err.message, a.err.where);
        end(&a);
    }
}

Test(variants, sweeps_have_a_limit)
{
    struct asked a = {.arena = sp_arena_create(NULL)};
    json_t *counts = json_array(), *sweep;
    for (int i = 1; i <= SP_MAX_VARIANTS / 2 + 1; i++)
        json_array_append_new(counts, json_integer(i));
    sweep = json_pack("{s:O, s:[s, s]}", "devices", counts, "types", "l4-24gb", "a100-sxm4-80gb");
    cr_expect_eq(sp_plan_target_parse(a.arena, NULL, sweep, &a.target, &a.err), SP_ERR_LIMIT);
    cr_expect_str_eq(a.err.limit, "SP_MAX_VARIANTS");
    cr_expect_eq(a.err.actual, SP_MAX_VARIANTS + 2);
    cr_expect_str_eq(a.err.where, "/sweep");
    json_decref(sweep);
    for (int i = SP_MAX_VARIANTS / 2 + 2; i <= SP_MAX_VARIANTS + 1; i++)
        json_array_append_new(counts, json_integer(i));
    sweep = json_pack("{s:O, s:[s]}", "devices", counts, "types", "l4-24gb");
    sp_error_clear(&a.err);
    cr_expect_eq(sp_plan_target_parse(a.arena, NULL, sweep, &a.target, &a.err), SP_ERR_LIMIT);
    cr_expect_str_eq(a.err.where, "/sweep/devices");
    json_decref(sweep);
    json_decref(counts);
    end(&a);
}
