/* What users see of one copy of a language model. */
#include <assert.h>
#include <math.h>

#include "plan/service/llm.h"

/* Device by device: a group's step beside the caches of the other groups, and a prefill beside those of all others. */
static void add_memory(struct sp_llm_figures *figures, const struct sp_phase_figures *prefill)
{
    const struct sp_phase_figures *decode = figures->decode;
    const double groups = figures->micro_batches;
    figures->cache_bytes = groups * decode->state_bytes;
    figures->excess_bytes = -INFINITY;
    figures->memory_bytes = 0;
    for (uint32_t s = 0; s < decode->stage_count; s++) {
        const double cache = groups * decode->stage_state_bytes[s];
        const double others = cache * (double)(figures->concurrency - 1) / (double)figures->concurrency;
        const double step = decode->stage_bytes[s] + cache - decode->stage_state_bytes[s];
        const double most = fmax(step, prefill->stage_bytes[s] + others);
        figures->memory_bytes = fmax(figures->memory_bytes, most);
        figures->excess_bytes = fmax(figures->excess_bytes, most - decode->stage_capacity[s]);
    }
}

enum sp_status sp_llm_evaluate(const struct sp_llm *llm, struct sp_copy *copy, int64_t concurrency, double rate,
                               struct sp_llm_figures *ret_figures, struct sp_error *err)
{
    struct sp_llm_figures figures = {.chunk = llm->chunk, .concurrency = concurrency};
    struct sp_llm_step step;
    struct sp_sizes sizes;
    enum sp_status status = sp_llm_prefill_sizes(llm, &sizes, err);
    if (status == SP_OK)
        status = sp_copy_evaluate(copy, &(struct sp_cut_sizes){sizes, 1}, &figures.prefill, err);
    if (status == SP_OK)
        status = sp_llm_find_step(llm, copy, concurrency, sp_llm_step_past(llm), &step, err);
    if (status != SP_OK)
        return status;
    assert(step.group != NULL); /* one group at least was tried */
    figures.decode = step.group;
    figures.micro_batches = step.micro_batches;
    const struct sp_llm_times times = {step.seconds, figures.prefill->interval_seconds,
                                       figures.prefill->latency_seconds};
    const struct sp_generation of = {.request_seconds = sp_llm_request_seconds(copy),
                                     .concurrency = (double)concurrency,
                                     .rate = rate,
                                     .output = llm->traffic->output.mean,
                                     .prompt_variation = llm->traffic->input.variation};
    const struct sp_phase_figures *largest = figures.prefill;
    if (llm->chunk > 0)
        status = sp_llm_chunked(llm, copy, &times, &of, &figures.bars, &largest, err);
    else
        sp_llm_bars(&times, &of, &figures.bars);
    if (status != SP_OK)
        return status;
    add_memory(&figures, largest);
    *ret_figures = figures;
    return SP_OK;
}
