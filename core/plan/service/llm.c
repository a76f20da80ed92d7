#include "plan/service/llm.h"

#include <math.h>

#include "cost/micro_batches.h"
#include "plan/micro/micro.h"
#include "plan/service/cuts.h"

/* ---- sizes -------------------------------------------------------------------------------------------------------- */

enum sp_status sp_llm_init(const struct sp_copy_question *question, const struct sp_traffic *traffic,
                           struct sp_llm *ret_llm, struct sp_error *err)
{
    struct sp_job_options options = *question->job_options;
    struct sp_job *job = NULL;
    struct sp_llm llm = {question, traffic, {{NULL}}, 0};
    options.sizes = &question->options->sizes;
    enum sp_status status = sp_job_open(&options, &job, err);
    if (status == SP_OK && sp_job_model(job) == NULL) {
        status = sp_fail(err, SP_ERR_REQUEST, "WORKLOAD_SYMBOLS",
                         "A graph of costs has no sizes that a workload could bind: it is one step as it is.");
        (void)sp_error_at(err, "/workload/llm");
    }
    if (status == SP_OK)
        status = sp_decoder_symbols(question->arena, sp_job_model(job), traffic, &llm.symbols, err);
    sp_job_destroy(job);
    if (status == SP_OK)
        *ret_llm = llm;
    return status;
}

static enum sp_status bind(const struct sp_llm *llm, const int64_t values[SP_SYMBOL_COUNT], struct sp_sizes *ret_sizes,
                           struct sp_error *err)
{
    const char *names[SP_SYMBOL_COUNT];
    int64_t numbers[SP_SYMBOL_COUNT];
    struct sp_sizes bound = {.dim_names = names, .dim_values = numbers};
    for (int i = 0; i < SP_SYMBOL_COUNT; i++) {
        if (llm->symbols.dims[i] == NULL)
            continue;
        names[bound.dim_count] = llm->symbols.dims[i];
        numbers[bound.dim_count++] = values[i];
    }
    return sp_copy_sizes(llm->question, &bound, ret_sizes, err);
}

int64_t sp_llm_prompt_positions(const struct sp_llm *llm)
{
    const bool has_past = llm->symbols.dims[SP_SYMBOL_PAST] != NULL;
    return llround(llm->traffic->input.mean) - (has_past ? llround(llm->traffic->shared_prefix) : 0);
}

int64_t sp_llm_step_past(const struct sp_llm *llm)
{
    return llround(llm->traffic->input.mean + sp_lengths_in_flight(&llm->traffic->output));
}

/* A prompt of so many positions behind so many that are in the cache. */
static enum sp_status bind_prompt(const struct sp_llm *llm, int64_t positions, int64_t past, struct sp_sizes *ret_sizes,
                                  struct sp_error *err)
{
    return bind(llm,
                (const int64_t[]){[SP_SYMBOL_BATCH] = 1,
                                  [SP_SYMBOL_POSITIONS] = positions,
                                  [SP_SYMBOL_PAST] = past,
                                  [SP_SYMBOL_TOTAL] = past + positions},
                ret_sizes, err);
}

enum sp_status sp_llm_prompt_sizes(const struct sp_llm *llm, int64_t positions, struct sp_sizes *ret_sizes,
                                   struct sp_error *err)
{
    const bool has_past = llm->symbols.dims[SP_SYMBOL_PAST] != NULL;
    const int64_t past = has_past ? llround(llm->traffic->shared_prefix) : 0;
    return bind_prompt(llm, positions, past, ret_sizes, err);
}

enum sp_status sp_llm_chunk_sizes(const struct sp_llm *llm, int64_t positions, int64_t past, struct sp_sizes *ret_sizes,
                                  struct sp_error *err)
{
    if (llm->symbols.dims[SP_SYMBOL_PAST] == NULL) {
        (void)sp_fail(
            err, SP_ERR_REQUEST, "WORKLOAD_CHUNKS",
            "The model has no past keys and values as inputs, so that a prompt cannot be computed in chunks.");
        return sp_error_at(err, "/workload/chunked_prefill");
    }
    return bind_prompt(llm, positions, past, ret_sizes, err);
}

enum sp_status sp_llm_prefill_sizes(const struct sp_llm *llm, struct sp_sizes *ret_sizes, struct sp_error *err)
{
    const int64_t all = sp_llm_prompt_positions(llm), prefix = llround(llm->traffic->shared_prefix);
    if (llm->chunk > 0)
        return llm->chunk < all ? sp_llm_chunk_sizes(llm, llm->chunk, prefix + (all - llm->chunk) / 2, ret_sizes, err)
                                : sp_llm_chunk_sizes(llm, all, prefix, ret_sizes, err);
    return sp_llm_prompt_sizes(llm, sp_llm_prompt_positions(llm), ret_sizes, err);
}

static enum sp_status step_sizes(const struct sp_llm *llm, int64_t sequences, int64_t past, struct sp_sizes *ret_sizes,
                                 struct sp_error *err)
{
    const bool has_past = llm->symbols.dims[SP_SYMBOL_PAST] != NULL;
    return bind(llm,
                (const int64_t[]){[SP_SYMBOL_BATCH] = sequences,
                                  [SP_SYMBOL_POSITIONS] = has_past ? 1 : past + 1,
                                  [SP_SYMBOL_PAST] = past,
                                  [SP_SYMBOL_TOTAL] = past + 1},
                ret_sizes, err);
}

enum sp_status sp_llm_decode_sizes(const struct sp_llm *llm, int64_t sequences, struct sp_sizes *ret_sizes,
                                   struct sp_error *err)
{
    return step_sizes(llm, sequences, sp_llm_step_past(llm), ret_sizes, err);
}

/* ---- figures ------------------------------------------------------------------------------------------------------ */

void sp_llm_bars(const struct sp_llm_times *times, const struct sp_generation *of, struct sp_llm_bars *ret_bars)
{
    const struct sp_error_bar *step = &times->step, *prompt = &times->prompt, *prefill = &times->prefill;
    const double sides[3][3] = {{step->value, prompt->value, prefill->value},
                                {step->low, prompt->low, prefill->low},
                                {step->high, prompt->high, prefill->high}};
    struct sp_generation_figures at[3];
    for (int i = 0; i < 3; i++) {
        struct sp_generation side = *of;
        side.step_seconds = sides[i][0];
        side.prompt_seconds = sides[i][1];
        side.prefill_seconds = sides[i][2];
        sp_generation_figures(&side, &at[i]);
    }
    *ret_bars = sp_llm_bars_of(at);
}

struct sp_llm_bars sp_llm_bars_of(const struct sp_generation_figures at[3])
{
    return (struct sp_llm_bars){
        .ttft_seconds = {at[0].ttft_seconds, at[1].ttft_seconds, at[2].ttft_seconds},
        .tpot_seconds = {at[0].tpot_seconds, at[1].tpot_seconds, at[2].tpot_seconds},
        .request_seconds = {at[0].request_seconds, at[1].request_seconds, at[2].request_seconds},
        .requests_per_second = {at[0].requests_per_second, at[2].requests_per_second, at[1].requests_per_second},
        .prompt_share = at[0].prompt_share,
        .in_flight = at[0].in_flight};
}

enum sp_status sp_llm_find_step(const struct sp_llm *llm, struct sp_copy *copy, int64_t concurrency, int64_t past,
                                struct sp_llm_step *ret_step, struct sp_error *err)
{
    struct sp_llm_step best = {0};
    const bool has_stages = sp_copy_plan_of(copy)->result->placement.stage_count > 1;
    const uint32_t asked = llm->question->options->micro_batches;
    const bool is_open = asked == 0 || asked == SP_MICRO_BATCHES_AUTO;
    const int64_t given = asked < concurrency ? asked : concurrency;
    const int64_t first = is_open ? 1 : given, last = !is_open ? given : has_stages ? SP_MOST_MICRO_BATCHES : 1;
    for (int64_t groups = first; groups <= last && groups <= concurrency; groups *= 2) {
        const struct sp_phase_figures *of;
        struct sp_sizes sizes;
        enum sp_status status = step_sizes(llm, (concurrency + groups - 1) / groups, past, &sizes, err);
        if (status == SP_OK)
            status = sp_copy_evaluate(copy, &(struct sp_cut_sizes){sizes, 1}, &of, err);
        if (status != SP_OK)
            return status;
        const struct sp_error_bar *latency = &of->latency_seconds, *interval = &of->interval_seconds;
        const uint32_t parts = (uint32_t)groups;
        const struct sp_error_bar step = {sp_micro_step(parts, latency->value, interval->value),
                                          sp_micro_step(parts, latency->low, interval->low),
                                          sp_micro_step(parts, latency->high, interval->high)};
        if (best.group == NULL || step.value < best.seconds.value)
            best = (struct sp_llm_step){step, parts, of};
    }
    *ret_step = best;
    return SP_OK;
}

double sp_llm_request_seconds(const struct sp_copy *copy)
{
    const struct sp_plan *plan = sp_copy_plan_of(copy);
    return sp_device_runtime(sp_cluster_device(plan->cluster, plan->result->placement.stage_device[0]))
        ->request_seconds;
}
