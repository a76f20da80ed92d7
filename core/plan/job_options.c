#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/internal.h"
#include "plan/micro/micro.h"
#include "plan/service/traffic.h"

static const char *const objective_names[] = {
    [SP_OBJECTIVE_THROUGHPUT] = "throughput",
    [SP_OBJECTIVE_LATENCY] = "latency",
    [SP_OBJECTIVE_DEVICES] = "devices",
};

const char *sp_objective_name(enum sp_objective objective)
{
    return objective_names[objective];
}

bool sp_objective_parse(const char *name, enum sp_objective *ret_objective)
{
    for (size_t i = 0; i < sizeof objective_names / sizeof objective_names[0]; i++) {
        if (strcmp(name, objective_names[i]) == 0) {
            *ret_objective = (enum sp_objective)i;
            return true;
        }
    }
    return false;
}

bool sp_plan_options_aim(struct sp_plan_options *options, const char *objective)
{
    options->by_price = strcmp(objective, "cost") == 0;
    if (options->by_price)
        options->objective = SP_OBJECTIVE_DEVICES;
    return options->by_price || sp_objective_parse(objective, &options->objective);
}

void sp_plan_options_init(struct sp_plan_options *options)
{
    memset(options, 0, sizeof *options);
    options->objective = SP_OBJECTIVE_THROUGHPUT;
    options->strategy = SP_STRATEGY_AUTO;
    options->max_replicas = SP_REPLICAS_NOT_GIVEN;
    options->tolerance = SP_PLAN_TOLERANCE;
    options->optimal = true;
}

__attribute__((format(printf, 3, 4))) static enum sp_status refuse(struct sp_error *err, const char *pointer,
                                                                   const char *format, ...)
{
    char text[SP_ERROR_MESSAGE_SIZE];
    SP_FORMAT(text, format);
    (void)sp_fail(err, SP_ERR_REQUEST, "INVALID_OPTION", "%s", text);
    return sp_error_at(err, "%s", pointer);
}

/* "/options/<name>" with the two characters that a JSON pointer escapes (RFC 6901). */
static void pointer_to(char *text, size_t size, const char *parent, const char *name)
{
    int head = snprintf(text, size, "%s/", parent);
    size_t used = head < 0 ? size : (size_t)head;
    for (; *name != '\0' && used + 3 < size; name++) {
        if (*name == '~' || *name == '/') {
            text[used++] = '~';
            text[used++] = *name == '~' ? '0' : '1';
        } else {
            text[used++] = *name;
        }
    }
    if (used < size)
        text[used] = '\0';
}

static enum sp_status parse_objective(const json_t *json, struct sp_plan_options *options, struct sp_error *err)
{
    const char *name = json_string_value(json);
    if (json == NULL || json_is_null(json))
        return SP_OK;
    if (name == NULL)
        return refuse(err, "/objective", "The objective must be a string: throughput, latency, devices or cost.");
    if (!sp_plan_options_aim(options, name))
        return refuse(err, "/objective",
                      "There is no objective '%.64s'; it must be throughput, latency, "
                      "devices or cost.",
                      name);
    return SP_OK;
}

static enum sp_status parse_strategy(const json_t *json, const char *pointer, struct sp_plan_options *options,
                                     struct sp_error *err)
{
    const char *name = json_string_value(json);
    if (name == NULL)
        return refuse(err, pointer, "The strategy must be a string: auto, grouping, pipeline, tensor or routes.");
    if (!sp_search_strategy_parse(name, &options->strategy))
        return refuse(err, pointer,
                      "There is no strategy '%.64s'; it must be auto, grouping, pipeline, tensor or routes.", name);
    return SP_OK;
}

bool sp_placement_parse(const char *name, bool *ret_any_sets)
{
    *ret_any_sets = strcmp(name, "any") == 0;
    return *ret_any_sets || strcmp(name, "contiguous") == 0;
}

static enum sp_status parse_placement(const json_t *json, const char *pointer, struct sp_plan_options *options,
                                      struct sp_error *err)
{
    const char *name = json_string_value(json);
    if (name == NULL)
        return refuse(err, pointer, "The placement must be a string: contiguous or any.");
    if (!sp_placement_parse(name, &options->any_sets))
        return refuse(err, pointer, "There is no placement '%.64s'; it must be contiguous or any.", name);
    return SP_OK;
}

static enum sp_status parse_positive(const json_t *json, const char *pointer, const char *what, int64_t *ret_value,
                                     struct sp_error *err)
{
    if (!json_is_integer(json) || json_integer_value(json) < 1)
        return refuse(err, pointer, "%s must be a whole number of 1 or more.", what);
    *ret_value = json_integer_value(json);
    return SP_OK;
}

bool sp_micro_batches_parse(const char *text, uint32_t *ret_count)
{
    char *end;
    if (strcmp(text, "auto") == 0) {
        *ret_count = SP_MICRO_BATCHES_AUTO;
        return true;
    }
    const unsigned long count = text[0] >= '1' && text[0] <= '9' ? strtoul(text, &end, 10) : 0;
    if (count == 0 || count > SP_MAX_MICRO_BATCHES || *end != '\0')
        return false;
    *ret_count = (uint32_t)count;
    return true;
}

static enum sp_status parse_micro_batches(const json_t *json, const char *pointer, struct sp_plan_options *options,
                                          struct sp_error *err)
{
    char number[32] = "";
    if (json_is_integer(json))
        (void)snprintf(number, sizeof number, "%lld", (long long)json_integer_value(json));
    if (!sp_micro_batches_parse(json_is_string(json) ? json_string_value(json) : number, &options->micro_batches))
        return refuse(err, pointer, "The number of micro-batches must be a whole number from 1 to %d, or \"auto\".",
                      SP_MAX_MICRO_BATCHES);
    return SP_OK;
}

static enum sp_status parse_replicas(const json_t *json, const char *pointer, struct sp_plan_options *options,
                                     struct sp_error *err)
{
    int64_t replicas = 1;
    enum sp_status status = parse_positive(json, pointer, "The most replicas of a stage", &replicas, err);
    options->max_replicas = replicas < SP_MAX_DEVICES ? (uint32_t)replicas : SP_MAX_DEVICES;
    return status;
}

bool sp_tolerance_is_valid(double tolerance)
{
    return tolerance >= 0 && tolerance < 1;
}

static enum sp_status parse_tolerance(const json_t *json, const char *pointer, struct sp_plan_options *options,
                                      struct sp_error *err)
{
    const double tolerance = json_number_value(json);
    if (!json_is_number(json) || !sp_tolerance_is_valid(tolerance))
        return refuse(err, pointer, "The tolerance must be a share from 0 to below 1, like 0.02.");
    options->tolerance = tolerance;
    return SP_OK;
}

static enum sp_status parse_flag(const json_t *json, const char *pointer, const char *name, bool *ret_flag,
                                 struct sp_error *err)
{
    if (!json_is_boolean(json))
        return refuse(err, pointer, "\"%s\" must be true or false.", name);
    *ret_flag = json_is_true(json);
    return SP_OK;
}

static enum sp_status parse_member(struct sp_arena *arena, const char *name, const json_t *value,
                                   struct sp_plan_options *options, struct sp_error *err)
{
    char pointer[SP_ERROR_WHERE_SIZE];
    pointer_to(pointer, sizeof pointer, "/options", name);
    if (json_is_null(value))
        return refuse(err, pointer, "This option may not be null; leave it out for its default.");
    if (strcmp(name, "strategy") == 0)
        return parse_strategy(value, pointer, options, err);
    if (strcmp(name, "placement") == 0)
        return parse_placement(value, pointer, options, err);
    if (strcmp(name, "batch") == 0)
        return parse_positive(value, pointer, "The batch", &options->batch, err);
    if (strcmp(name, "micro_batches") == 0)
        return parse_micro_batches(value, pointer, options, err);
    if (strcmp(name, "replicas") == 0)
        return parse_replicas(value, pointer, options, err);
    if (sp_sizes_is_member(name))
        return SP_OK; /* read together */
    if (strcmp(name, "profile") == 0) {
        struct sp_profile *profile;
        enum sp_status status = sp_profile_parse(arena, value, pointer, &profile, err);
        if (status == SP_OK)
            options->profile = profile;
        return status;
    }
    if (strcmp(name, "constraints") == 0)
        return sp_demands_parse(arena, value, "/constraints", &options->constraints, err);
    if (strcmp(name, "workload") == 0)
        return sp_traffic_parse(arena, value, "/workload", &options->traffic, err);
    if (strcmp(name, "replan") == 0) {
        struct sp_replan_terms *terms = SP_NEW(arena, struct sp_replan_terms);
        if (terms == NULL)
            return sp_fail_memory(err);
        options->replan = terms;
        return sp_replan_terms_parse(arena, value, pointer, terms, err);
    }
    if (strcmp(name, "optimal") == 0)
        return parse_flag(value, pointer, name, &options->optimal, err);
    if (strcmp(name, "tolerance") == 0)
        return parse_tolerance(value, pointer, options, err);
    if (strcmp(name, "what_if") == 0)
        return parse_flag(value, pointer, name, &options->what_if, err);
    if (strcmp(name, "proof") == 0) {
        bool is_wanted = true;
        const enum sp_status status = parse_flag(value, pointer, name, &is_wanted, err);
        options->skips_proof = !is_wanted;
        return status;
    }
    if (strcmp(name, "seed") == 0) {
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return refuse(err, pointer, "The seed must be a whole number of 0 or more.");
        options->seed = (uint64_t)json_integer_value(value);
        return SP_OK;
    }
    if (strcmp(name, "time_limit_seconds") == 0) {
        double seconds = json_number_value(value);
        if (!json_is_number(value) || !isfinite(seconds) || seconds <= 0)
            return refuse(err, pointer, "The time limit must be a number of seconds above 0.");
        options->time_limit_seconds = seconds;
        return SP_OK;
    }
    return refuse(
        err, pointer,
        "There is no option '%.64s'; known are strategy, placement, replicas, batch, micro_batches, dims, "
        "values, shapes, "
        "operators, state, optimal, tolerance, seed, profile, proof, what_if, constraints, workload, replan and "
        "time_limit_seconds.",
        name);
}

enum sp_status sp_plan_options_parse(struct sp_arena *arena, const json_t *objective, const json_t *options,
                                     struct sp_plan_options *ret_options, struct sp_error *err)
{
    struct sp_plan_options parsed;
    const char *name;
    json_t *value;
    sp_plan_options_init(&parsed);
    enum sp_status status = parse_objective(objective, &parsed, err);
    if (status != SP_OK)
        return status;
    if (options != NULL && !json_is_null(options)) {
        if (!json_is_object(options))
            return refuse(err, "/options", "The options must be an object, like {\"batch\": 8}.");
        json_object_foreach((json_t *)options, name, value)
        {
            status = parse_member(arena, name, value, &parsed, err);
            if (status != SP_OK)
                return status;
        }
        status = sp_sizes_parse(arena, options, "/options", &parsed.sizes, err);
        if (status != SP_OK)
            return status;
    }
    *ret_options = parsed;
    return SP_OK;
}

enum sp_status sp_plan_options_check_routes(const struct sp_plan_options *options, struct sp_error *err)
{
    const bool is_throughput = options->objective == SP_OBJECTIVE_THROUGHPUT,
               has_replicas = options->max_replicas != SP_REPLICAS_NOT_GIVEN && options->max_replicas != 1;
    if (options->strategy != SP_STRATEGY_ROUTES || (is_throughput && !has_replicas && options->constraints == NULL))
        return SP_OK;
    (void)sp_fail(
        err, SP_ERR_REQUEST, "ROUTES_UNSUPPORTED",
        "The strategy 'routes' is for the objective throughput, without replicas or constraints: change these, "
        "or leave the strategy out.");
    return sp_error_at(err, !is_throughput ? "/objective" : has_replicas ? "/options/replicas" : "/constraints");
}
