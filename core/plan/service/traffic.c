#include "plan/service/traffic.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_reader.h"
#include "plan/service/expert_load.h"
#include "plan/sizes/given_states.h"

#define COUNT_OF(array) (sizeof array / sizeof array[0])

static const char *const symbol_names[] = {[SP_SYMBOL_BATCH] = "batch",
                                           [SP_SYMBOL_POSITIONS] = "positions",
                                           [SP_SYMBOL_PAST] = "past",
                                           [SP_SYMBOL_TOTAL] = "total"};

const char *sp_traffic_symbol_name(enum sp_traffic_symbol symbol)
{
    return symbol_names[symbol];
}

static const struct sp_members_range tokens = {"a number of tokens", 1, SP_MAX_TOKENS};

/* A member that is an object, and the members that it may have. */
struct object_form {
    const char *name;
    size_t count;
    const char *const *members;
};

/* *ret_object is NULL where it is not there; *ret_pointer is where it stands. */
static enum sp_status open_object(struct sp_members_reader *r, json_t *json, const char *pointer,
                                  const struct object_form *form, json_t **ret_object, const char **ret_pointer)
{
    json_t *object = json_object_get(json, form->name);
    char what[64];
    *ret_object = object;
    *ret_pointer = sp_members_child(r, pointer, form->name);
    if (*ret_pointer == NULL)
        return sp_fail_memory(r->err);
    (void)snprintf(what, sizeof what, "\"%s\"", form->name);
    return object == NULL ? SP_OK : sp_members_check(r, object, *ret_pointer, what, form->members, form->count);
}

/* ---- lengths ------------------------------------------------------------------------------------------------------ */

static enum sp_status refuse_lengths(struct sp_members_reader *r, const char *pointer)
{
    return sp_members_refuse(r, pointer, "WORKLOAD_LENGTHS",
                             "Lengths are a number of tokens, a list of them, or a mean and one percentile, like "
                             "{\"mean\": 800, \"p90\": 2000}.");
}

static enum sp_status read_list(struct sp_members_reader *r, const json_t *json, const char *pointer,
                                struct sp_lengths *ret_lengths)
{
    const size_t count = json_array_size(json);
    if (count == 0)
        return refuse_lengths(r, pointer);
    if (count > SP_MAX_LENGTHS)
        return sp_fail_limit(r->err, "TOO_MANY_LENGTHS", "SP_MAX_LENGTHS", SP_MAX_LENGTHS, (int64_t)count,
                             "A list may have at most %d lengths.", SP_MAX_LENGTHS);
    double *lengths = SP_NEW_ARRAY(r->arena, count, double);
    if (lengths == NULL)
        return sp_fail_memory(r->err);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(json, i);
        lengths[i] = json_number_value(item);
        if (!json_is_number(item) || !(lengths[i] >= tokens.low && lengths[i] <= tokens.high))
            return sp_members_refuse(r, sp_members_item(r, pointer, i), "MEMBER_RANGE",
                                     "A length must be a number of tokens from 1 to %.0f.", SP_MAX_TOKENS);
    }
    *ret_lengths = sp_lengths_of_list((uint32_t)count, lengths);
    return SP_OK;
}

/* {"mean": M, "p90": N} */
static enum sp_status read_percentile(struct sp_members_reader *r, json_t *json, const char *pointer,
                                      struct sp_lengths *ret_lengths)
{
    const char *name;
    json_t *value;
    double mean = 0, length = 0;
    long percent = 0;
    json_object_foreach(json, name, value)
    {
        char *end = NULL;
        const bool is_percentile = name[0] == 'p' && name[1] >= '0' && name[1] <= '9';
        const long number = is_percentile ? strtol(name + 1, &end, 10) : 0;
        if (strcmp(name, "mean") == 0)
            continue;
        if (!is_percentile || *end != '\0' || number < 51 || number > 99 || percent != 0)
            return refuse_lengths(r, pointer);
        percent = number;
        enum sp_status status = sp_members_number(r, json, pointer, name, &tokens, true, &length);
        if (status != SP_OK)
            return status;
    }
    enum sp_status status = sp_members_number(r, json, pointer, "mean", &tokens, true, &mean);
    if (status != SP_OK)
        return status;
    *ret_lengths = (struct sp_lengths){.mean = mean};
    if (percent != 0 && !sp_lengths_of_percentile(mean, (double)percent, length, ret_lengths))
        return sp_members_refuse(r, pointer, "WORKLOAD_LENGTHS",
                                 "No log-normal distribution has this mean and this percentile: give a list of "
                                 "lengths instead.");
    return SP_OK;
}

static enum sp_status read_lengths(struct sp_members_reader *r, const json_t *json, const char *pointer,
                                   const char *member, struct sp_lengths *ret_lengths)
{
    json_t *value = json_object_get(json, member);
    const char *at = sp_members_child(r, pointer, member);
    if (at == NULL)
        return sp_fail_memory(r->err);
    if (json_is_array(value))
        return read_list(r, value, at, ret_lengths);
    if (json_is_object(value))
        return read_percentile(r, value, at, ret_lengths);
    if (value != NULL && !json_is_number(value))
        return refuse_lengths(r, at);
    ret_lengths->variation = 0;
    return sp_members_number(r, json, pointer, member, &tokens, true, &ret_lengths->mean);
}

/* ---- language models ---------------------------------------------------------------------------------------------- */

static enum sp_status read_llm(struct sp_members_reader *r, json_t *json, const char *pointer,
                               struct sp_traffic *traffic)
{
    static const char *const members[] = {"input", "output", "shared_prefix"};
    static const struct object_form form = {"llm", COUNT_OF(members), members};
    static const struct sp_members_range prefix = {"a number of tokens", 0, SP_MAX_TOKENS};
    const char *at;
    json_t *llm;
    enum sp_status status = open_object(r, json, pointer, &form, &llm, &at);
    if (status == SP_OK)
        status = read_lengths(r, llm, at, "input", &traffic->input);
    if (status == SP_OK)
        status = read_lengths(r, llm, at, "output", &traffic->output);
    if (status == SP_OK)
        status = sp_members_number(r, llm, at, "shared_prefix", &prefix, false, &traffic->shared_prefix);
    if (status == SP_OK && traffic->shared_prefix > traffic->input.mean - 1)
        status = sp_members_refuse(r, sp_members_child(r, at, "shared_prefix"), "WORKLOAD_LENGTHS",
                                   "The shared prefix is a part of the input: it must be shorter.");
    traffic->is_llm = true;
    return status;
}

/* Of phases the batch alone, which is the first. */
static enum sp_status read_symbols(struct sp_members_reader *r, json_t *json, const char *pointer,
                                   struct sp_traffic *traffic)
{
    const int count = traffic->is_llm ? SP_SYMBOL_COUNT : SP_SYMBOL_BATCH + 1;
    const struct object_form form = {"symbols", (size_t)count, symbol_names};
    const char *at;
    json_t *symbols;
    enum sp_status status = open_object(r, json, pointer, &form, &symbols, &at);
    for (int i = 0; status == SP_OK && symbols != NULL && i < count; i++)
        status = sp_members_text(r, symbols, at, symbol_names[i], SP_MAX_NAME_BYTES, &traffic->symbols[i]);
    return status;
}

static enum sp_status read_concurrency(struct sp_members_reader *r, const json_t *json, const char *pointer,
                                       struct sp_traffic *traffic)
{
    const json_t *value = json_object_get(json, "concurrency");
    const char *text = json_string_value(value);
    traffic->best_concurrency = text != NULL && strcmp(text, "best") == 0;
    traffic->concurrency = json_integer_value(value);
    if (value == NULL || traffic->best_concurrency)
        return SP_OK;
    if (!json_is_integer(value) || traffic->concurrency < 1 || traffic->concurrency > SP_MAX_CONCURRENCY)
        return sp_members_refuse(r, sp_members_child(r, pointer, "concurrency"), "MEMBER_RANGE",
                                 "The concurrency must be a whole number from 1 to %d, or \"best\".",
                                 SP_MAX_CONCURRENCY);
    return SP_OK;
}

/* "batch": "best". */
static enum sp_status read_batch(struct sp_members_reader *r, const json_t *json, const char *pointer, bool *ret_best)
{
    const json_t *value = json_object_get(json, "batch");
    const char *text = json_string_value(value);
    *ret_best = text != NULL && strcmp(text, "best") == 0;
    if (value == NULL || *ret_best)
        return SP_OK;
    return sp_members_refuse(r, sp_members_child(r, pointer, "batch"), "WORKLOAD_BATCH",
                             "\"batch\" is \"best\", or it is not there: a phase of a batch that is given has it in "
                             "\"dims\", and a language model has \"concurrency\".");
}

/* Of a language model the batch of a step is the sequences in flight: the best one is the best concurrency. */
static enum sp_status read_llm_batch(struct sp_members_reader *r, const json_t *json, const char *pointer,
                                     struct sp_traffic *traffic)
{
    bool is_best;
    enum sp_status status = read_batch(r, json, pointer, &is_best);
    if (status == SP_OK && is_best && traffic->concurrency > 0)
        status = sp_members_refuse(r, sp_members_child(r, pointer, "batch"), "WORKLOAD_BATCH",
                                   "Of a language model \"batch\": \"best\" means \"concurrency\": \"best\", and the "
                                   "concurrency is given as %lld: leave one of both out.",
                                   (long long)traffic->concurrency);
    traffic->best_concurrency = traffic->best_concurrency || is_best;
    return status;
}

static enum sp_status read_pools(struct sp_members_reader *r, const json_t *json, const char *pointer,
                                 struct sp_traffic *traffic)
{
    static const char *const names[] = {
        [SP_POOLS_SHARED] = "shared", [SP_POOLS_SEPARATE] = "separate", [SP_POOLS_BEST] = "best"};
    const json_t *value = json_object_get(json, "pools");
    const char *text = json_string_value(value);
    if (value == NULL)
        return SP_OK;
    for (size_t i = 0; text != NULL && i < COUNT_OF(names); i++) {
        if (strcmp(text, names[i]) == 0) {
            traffic->pools = (enum sp_traffic_pools)i;
            return SP_OK;
        }
    }
    return sp_members_refuse(r, sp_members_child(r, pointer, "pools"), "WORKLOAD_POOLS",
                             "\"pools\" is \"shared\", \"separate\" or \"best\".");
}

static enum sp_status read_chunk(struct sp_members_reader *r, const json_t *json, const char *pointer,
                                 struct sp_traffic *traffic)
{
    const json_t *value = json_object_get(json, "chunked_prefill");
    const char *text = json_string_value(value), *at = sp_members_child(r, pointer, "chunked_prefill");
    traffic->best_chunk = text != NULL && strcmp(text, "best") == 0;
    traffic->chunk = json_integer_value(value);
    if (value == NULL || (traffic->best_chunk && traffic->pools != SP_POOLS_SEPARATE))
        return SP_OK;
    if (at == NULL)
        return sp_fail_memory(r->err);
    if (traffic->pools == SP_POOLS_SEPARATE)
        return sp_members_refuse(
            r, at, "WORKLOAD_CHUNKS",
            "Chunks of prompts run beside decode steps: \"pools\" must be \"shared\" or \"best\".");
    if (!json_is_integer(value) || traffic->chunk < 1 || traffic->chunk > SP_MAX_CHUNK)
        return sp_members_refuse(r, at, "MEMBER_RANGE",
                                 "\"chunked_prefill\" must be a whole number of tokens from 1 to %d, or \"best\".",
                                 SP_MAX_CHUNK);
    return SP_OK;
}

/* ---- phases ------------------------------------------------------------------------------------------------------- */

/* `of_all`: the batch of all phases is left open. */
static enum sp_status read_phase(struct sp_members_reader *r, json_t *json, const char *pointer, bool of_all,
                                 struct sp_traffic_phase *phase)
{
    static const char *const members[] = {"name", "dims", "values", "batch", "share", "per_request", "requests"};
    static const struct sp_members_range share = {"a share", 1e-9, 1}, runs = {"a number of runs", 1, SP_MAX_TOKENS},
                                         served = {"a number of requests", 1, SP_MAX_CONCURRENCY};
    enum sp_status status = sp_members_check(r, json, pointer, "A phase", members, COUNT_OF(members));
    if (status == SP_OK)
        status = sp_members_text(r, json, pointer, "name", SP_MAX_NAME_BYTES, &phase->name);
    if (status == SP_OK && phase->name == NULL)
        status = sp_members_refuse(r, pointer, "MEMBER_MISSING", "A phase needs a \"name\".");
    phase->share = phase->per_request = phase->requests = 1;
    if (status == SP_OK)
        status = sp_members_number(r, json, pointer, "share", &share, false, &phase->share);
    if (status == SP_OK)
        status = sp_members_number(r, json, pointer, "per_request", &runs, false, &phase->per_request);
    if (status == SP_OK)
        status = sp_members_number(r, json, pointer, "requests", &served, false, &phase->requests);
    if (status == SP_OK)
        status = read_batch(r, json, pointer, &phase->best_batch);
    phase->is_batch_given = phase->best_batch;
    phase->best_batch = phase->best_batch || of_all;
    if (status == SP_OK && phase->best_batch && phase->requests > 1)
        status = sp_members_refuse(r, sp_members_child(r, pointer, "requests"), "WORKLOAD_BATCH",
                                   "A run of the best batch serves as many requests as its batch: leave \"requests\" "
                                   "out.");
    return status == SP_OK ? sp_sizes_parse(r->arena, json, pointer, &phase->sizes, r->err) : status;
}

static enum sp_status read_phases(struct sp_members_reader *r, const json_t *json, const char *pointer,
                                  struct sp_traffic *traffic)
{
    const json_t *list = json_object_get(json, "phases");
    const size_t count = json_array_size(list);
    const char *at = sp_members_child(r, pointer, "phases");
    if (!json_is_array(list) || count == 0)
        return sp_members_refuse(r, at, "WORKLOAD_PHASES",
                                 "\"phases\" must be a list, like [{\"name\": \"single\", \"dims\": {\"batch\": 1}}].");
    if (count > SP_MAX_PHASES)
        return sp_fail_limit(r->err, "TOO_MANY_PHASES", "SP_MAX_PHASES", SP_MAX_PHASES, (int64_t)count,
                             "A workload may have at most %d phases.", SP_MAX_PHASES);
    struct sp_traffic_phase *phases = SP_NEW_ARRAY(r->arena, count, struct sp_traffic_phase);
    if (phases == NULL || at == NULL)
        return sp_fail_memory(r->err);
    bool of_all;
    enum sp_status status = read_batch(r, json, pointer, &of_all);
    for (size_t i = 0; i < count; i++) {
        const char *item = sp_members_item(r, at, i);
        if (status == SP_OK)
            status = item != NULL ? read_phase(r, json_array_get(list, i), item, of_all, &phases[i])
                                  : sp_fail_memory(r->err);
        if (status != SP_OK)
            return status;
        for (size_t j = 0; j < i; j++) {
            if (strcmp(phases[j].name, phases[i].name) == 0)
                return sp_members_refuse(r, sp_members_child(r, item, "name"), "WORKLOAD_PHASES",
                                         "Two phases have the name '%.80s'.", phases[i].name);
        }
    }
    traffic->phase_count = (uint32_t)count;
    traffic->phases = phases;
    return SP_OK;
}

/* ---- all of it ---------------------------------------------------------------------------------------------------- */

static enum sp_status read_limits(struct sp_members_reader *r, json_t *json, const char *pointer,
                                  struct sp_traffic *traffic)
{
    static const char *const of_llm[] = {"ttft_seconds", "tpot_seconds", "request_seconds"};
    static const struct sp_members_range seconds = {"seconds", 1e-9, SP_MAX_TRAFFIC_SECONDS};
    double *const values[] = {&traffic->limits.ttft_seconds, &traffic->limits.tpot_seconds,
                              &traffic->limits.request_seconds};
    const size_t first = traffic->is_llm ? 0 : 2; /* of phases there is no first token */
    const struct object_form form = {"limits", COUNT_OF(of_llm) - first, of_llm + first};
    const char *at;
    json_t *limits;
    enum sp_status status = open_object(r, json, pointer, &form, &limits, &at);
    for (size_t i = first; status == SP_OK && limits != NULL && i < COUNT_OF(of_llm); i++)
        status = sp_members_number(r, limits, at, of_llm[i], &seconds, false, values[i]);
    return status;
}

static enum sp_status read_states(struct sp_members_reader *r, const json_t *json, const char *pointer,
                                  struct sp_traffic *traffic)
{
    json_t *states = json_object_get(json, "state");
    const char *at = sp_members_child(r, pointer, "state");
    if (at == NULL)
        return sp_fail_memory(r->err);
    return states != NULL ? sp_given_states_parse(r, states, at, &traffic->states) : SP_OK;
}

/* The same members in one order. */
static const char *text_of(struct sp_arena *arena, const json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
    const char *copy = text != NULL ? sp_arena_string(arena, text, strlen(text)) : NULL;
    free(text);
    return copy;
}

enum sp_status sp_traffic_parse(struct sp_arena *arena, const json_t *given, const char *pointer,
                                const struct sp_traffic **ret_traffic, struct sp_error *err)
{
    static const char *const of_llm[] = {"llm",          "limits",  "rate_per_second", "budget_per_hour", "state",
                                         "concurrency",  "symbols", "pools",           "chunked_prefill", "expert_load",
                                         "expert_order", "batch"};
    static const char *const of_phases[] = {"phases", "limits",      "rate_per_second", "budget_per_hour", "batch",
                                            "state",  "expert_load", "expert_order",    "symbols"};
    static const struct sp_members_range rate = {"a number of requests a second", 1e-9, 1e9},
                                         budget = {"US dollars", 1e-9, 1e9};
    json_t *json = (json_t *)(uintptr_t)given; /* it is only read */
    struct sp_members_reader r = {arena, err};
    struct sp_traffic *traffic = SP_NEW(arena, struct sp_traffic);
    if (traffic == NULL)
        return sp_fail_memory(err);
    const bool has_llm = json_object_get(json, "llm") != NULL, has_phases = json_object_get(json, "phases") != NULL;
    if (json_is_object(json) && has_llm == has_phases)
        return sp_members_refuse(&r, pointer, "WORKLOAD_FORM",
                                 "A workload has either \"llm\", like {\"input\": 2048, \"output\": 256}, or "
                                 "\"phases\".");
    enum sp_status status =
        has_llm ? sp_members_check(&r, json, pointer, "A workload", of_llm, COUNT_OF(of_llm))
                : sp_members_check(&r, json, pointer, "A workload of phases", of_phases, COUNT_OF(of_phases));
    if (status == SP_OK)
        status = has_llm ? read_llm(&r, json, pointer, traffic) : read_phases(&r, json, pointer, traffic);
    if (status == SP_OK)
        status = read_symbols(&r, json, pointer, traffic);
    if (status == SP_OK && has_llm)
        status = read_concurrency(&r, json, pointer, traffic);
    if (status == SP_OK && has_llm)
        status = read_llm_batch(&r, json, pointer, traffic);
    if (status == SP_OK && has_llm)
        status = read_pools(&r, json, pointer, traffic);
    if (status == SP_OK && has_llm)
        status = read_chunk(&r, json, pointer, traffic);
    if (status == SP_OK)
        status = read_limits(&r, json, pointer, traffic);
    if (status == SP_OK)
        status = read_states(&r, json, pointer, traffic);
    if (status == SP_OK)
        status = sp_expert_load_parse(&r, json, pointer, &traffic->loads);
    if (status == SP_OK)
        status = sp_members_number(&r, json, pointer, "rate_per_second", &rate, false, &traffic->rate_per_second);
    if (status == SP_OK)
        status = sp_members_number(&r, json, pointer, "budget_per_hour", &budget, false, &traffic->budget_per_hour);
    if (status != SP_OK)
        return status;
    traffic->best_concurrency =
        traffic->best_concurrency || (has_llm && traffic->concurrency == 0 && traffic->rate_per_second <= 0);
    traffic->text = text_of(arena, json);
    if (traffic->text == NULL)
        return sp_fail_memory(err);
    *ret_traffic = traffic;
    return SP_OK;
}

void sp_traffic_write(const struct sp_traffic *traffic, struct sp_json *json)
{
    sp_json_raw(json, traffic->text, strlen(traffic->text));
}
