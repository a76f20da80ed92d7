/* The times of prompts and steps of many sizes, on the placement of a service. */
#include <math.h>

#include "plan/service/internal.h"

static enum sp_status take_prompts(const struct sp_trial *trial, struct sp_step_times *times, struct sp_error *err)
{
    const struct sp_llm *llm = &trial->serving->llm;
    const int64_t mean = sp_llm_prompt_positions(llm);
    const int64_t positions[] = {1, mean / 4, mean / 2, mean, mean * 2, mean * 4};
    const uint32_t most = sizeof positions / sizeof positions[0];
    struct sp_prompt_time *rows = SP_NEW_ARRAY(trial->serving->arena, most, struct sp_prompt_time);
    uint32_t count = 0;
    if (rows == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < most; i++) {
        const struct sp_phase_figures *figures;
        struct sp_sizes sizes;
        struct sp_error why = {0};
        if (count > 0 && (double)positions[i] <= rows[count - 1].positions)
            continue;
        enum sp_status status = sp_llm_prompt_sizes(llm, positions[i], &sizes, &why);
        if (status == SP_OK)
            status = sp_copy_evaluate(trial->copy, &(struct sp_cut_sizes){sizes, 1}, &figures, &why);
        if (status != SP_OK && positions[i] != mean && sp_llm_is_of_size(status))
            continue;
        if (status != SP_OK) {
            if (err != NULL)
                *err = why;
            return status;
        }
        rows[count++] = (struct sp_prompt_time){(double)positions[i], figures->latency_seconds.value,
                                                figures->interval_seconds.value};
    }
    times->prompt_count = count;
    times->prompts = rows;
    return SP_OK;
}

/* A step at mean caches, and by how much it is faster with caches half as long. */
static enum sp_status take_step(const struct sp_trial *trial, int64_t sequences, struct sp_step_time *row,
                                struct sp_error *err)
{
    const struct sp_llm *llm = &trial->serving->llm;
    const int64_t past = sp_llm_step_past(llm), half = past / 2;
    struct sp_llm_step mean, shorter;
    enum sp_status status = sp_llm_find_step(llm, trial->copy, sequences, past, &mean, err);
    if (status == SP_OK)
        status = sp_llm_find_step(llm, trial->copy, sequences, half, &shorter, err);
    if (status == SP_OK)
        *row = (struct sp_step_time){
            (double)sequences, (double)past, mean.seconds.value,
            past > half ? fmax(mean.seconds.value - shorter.seconds.value, 0) / (double)(past - half) : 0};
    return status;
}

static enum sp_status take_steps(const struct sp_trial *trial, int64_t planned, int64_t places,
                                 struct sp_step_times *times, struct sp_error *err)
{
    struct sp_step_time *rows = SP_NEW_ARRAY(trial->serving->arena, SP_MOST_STEP_ROWS, struct sp_step_time);
    int64_t sequences = 1;
    uint32_t count = 0;
    enum sp_status status = rows != NULL ? SP_OK : sp_fail_memory(err);
    while (status == SP_OK && count < SP_MOST_STEP_ROWS) {
        status = take_step(trial, sequences, &rows[count++], err);
        if (sequences == places)
            break;
        /* The next power of two, or what the service has in flight, or at most. */
        int64_t next = 1;
        while (next <= sequences)
            next *= 2;
        next = planned > sequences && planned < next ? planned : next;
        sequences = next < places ? next : places;
    }
    times->step_count = count;
    times->steps = rows;
    return status;
}

enum sp_status sp_serve_llm_times(const struct sp_trial *trial, const struct sp_trial_figures *figures,
                                  struct sp_service *service, struct sp_error *err)
{
    struct sp_service_times *times = SP_NEW(trial->serving->arena, struct sp_service_times);
    const int64_t planned = figures->llm.concurrency, allowed = service->limit_concurrency / trial->copies;
    if (times == NULL)
        return sp_fail_memory(err);
    times->request_seconds = sp_llm_request_seconds(trial->copy);
    times->places = allowed > planned ? allowed : planned;
    enum sp_status status = take_prompts(trial, &times->of, err);
    if (status == SP_OK)
        status = take_steps(trial, planned, times->places, &times->of, err);
    if (status == SP_OK && trial->serving->llm.chunk > 0)
        status = sp_llm_chunk_times(&trial->serving->llm, trial->copy, times->places, &times->of, err);
    service->times = times;
    return status;
}
