/* A language model whose prompts are cut into chunks: what these take on a copy, and what follows. */
#include <math.h>

#include "plan/service/llm.h"

#define FIRST_ROW 16 /* positions of the second row; each further one has twice as many */
#define MOST_ROWS 40

/* Whether a model that cannot have a size, of a prompt longer than any that was asked for, is no error of the request. */
bool sp_llm_is_of_size(enum sp_status status)
{
    return status == SP_ERR_MODEL || status == SP_ERR_REQUEST || status == SP_ERR_UNSUPPORTED || status == SP_ERR_LIMIT;
}

/* A chunk at the start of a prompt, and what a position before it adds. */
static enum sp_status take_row(const struct sp_llm *llm, struct sp_copy *copy, int64_t positions,
                               struct sp_chunk_time *row, struct sp_error *err)
{
    const int64_t past = sp_llm_prompt_positions(llm) + llround(llm->traffic->shared_prefix);
    const struct sp_phase_figures *first, *later;
    struct sp_sizes sizes;
    enum sp_status status = sp_llm_chunk_sizes(llm, positions, 0, &sizes, err);
    if (status == SP_OK)
        status = sp_copy_evaluate(copy, &(struct sp_cut_sizes){sizes, 1}, &first, err);
    if (status == SP_OK)
        status = sp_llm_chunk_sizes(llm, positions, past, &sizes, err);
    if (status == SP_OK)
        status = sp_copy_evaluate(copy, &(struct sp_cut_sizes){sizes, 1}, &later, err);
    if (status == SP_OK)
        *row = (struct sp_chunk_time){(double)positions, first->latency_seconds.value, first->interval_seconds.value,
                                      fmax(later->interval_seconds.value - first->interval_seconds.value, 0) /
                                          (double)past};
    return status;
}

enum sp_status sp_llm_chunk_times(const struct sp_llm *llm, struct sp_copy *copy, int64_t sequences,
                                  struct sp_step_times *of, struct sp_error *err)
{
    struct sp_chunk_time *rows = SP_NEW_ARRAY(llm->question->arena, MOST_ROWS, struct sp_chunk_time);
    const int64_t longest = sp_llm_prompt_positions(llm);
    const int64_t most = (llm->chunk < longest ? llm->chunk : longest) + sequences;
    enum sp_status status = rows != NULL ? SP_OK : sp_fail_memory(err);
    uint32_t count = 0;
    for (int64_t at = 1; status == SP_OK && count < MOST_ROWS; at = at < FIRST_ROW ? FIRST_ROW : 2 * at) {
        struct sp_error why = {0};
        status = take_row(llm, copy, at, &rows[count], &why);
        if (count > 0 && at > longest && sp_llm_is_of_size(status)) { /* the line goes on */
            status = SP_OK;
            break;
        }
        if (status != SP_OK && err != NULL)
            *err = why;
        count++;
        if (at >= most)
            break;
    }
    of->chunk = (double)llm->chunk;
    of->chunk_count = count;
    of->chunks = rows;
    return status;
}

static double side_of(const struct sp_error_bar *bar, int side)
{
    return side == 0 ? bar->value : side == 1 ? bar->low : bar->high;
}

/* Steps of all sequences and of half of them, and chunks, at one end of the error bars. */
struct scaled {
    struct sp_step_times times;
    struct sp_step_time steps[2];
    struct sp_chunk_time chunks[MOST_ROWS];
};

static void scale(const struct sp_step_times *of, const struct sp_llm_times *times, int side, struct scaled *to)
{
    const double step = side_of(&times->step, side) / times->step.value;
    const double chunk = side_of(&times->prompt, side) / times->prompt.value;
    to->times = *of;
    for (uint32_t i = 0; i < of->step_count; i++) {
        to->steps[i] = of->steps[i];
        to->steps[i].seconds *= step;
    }
    for (uint32_t i = 0; i < of->chunk_count; i++) {
        const struct sp_chunk_time *row = &of->chunks[i];
        to->chunks[i] = (struct sp_chunk_time){row->positions, row->latency_seconds * chunk,
                                               row->interval_seconds * chunk, row->seconds_per_position * chunk};
    }
    to->times.steps = to->steps;
    to->times.chunks = to->chunks;
}

/* The last chunk of a prompt, which has the longest cache. */
static enum sp_status find_largest(const struct sp_llm *llm, struct sp_copy *copy,
                                   const struct sp_phase_figures **ret_largest, struct sp_error *err)
{
    const int64_t all = sp_llm_prompt_positions(llm), chunk = llm->chunk < all ? llm->chunk : all;
    struct sp_sizes sizes;
    enum sp_status status =
        sp_llm_chunk_sizes(llm, chunk, llround(llm->traffic->shared_prefix) + all - chunk, &sizes, err);
    return status == SP_OK ? sp_copy_evaluate(copy, &(struct sp_cut_sizes){sizes, 1}, ret_largest, err) : status;
}

enum sp_status sp_llm_chunked(const struct sp_llm *llm, struct sp_copy *copy, const struct sp_llm_times *times,
                              const struct sp_generation *of, struct sp_llm_bars *ret_bars,
                              const struct sp_phase_figures **ret_largest, struct sp_error *err)
{
    const int64_t past = sp_llm_step_past(llm), all = (int64_t)of->concurrency, half = all / 2;
    struct sp_step_time steps[2] = {{0}};
    struct sp_step_times table = {.steps = steps};
    struct sp_llm_step of_half;
    enum sp_status status = find_largest(llm, copy, ret_largest, err);
    if (status == SP_OK)
        status = sp_llm_chunk_times(llm, copy, all, &table, err);
    if (status == SP_OK && half > 0)
        status = sp_llm_find_step(llm, copy, half, past, &of_half, err);
    if (status != SP_OK)
        return status;
    if (half > 0)
        steps[table.step_count++] = (struct sp_step_time){(double)half, (double)past, of_half.seconds.value, 0};
    steps[table.step_count++] = (struct sp_step_time){(double)all, (double)past, times->step.value, 0};
    struct sp_generation_figures at[3];
    for (int side = 0; side < 3; side++) {
        struct scaled scaled;
        scale(&table, times, side, &scaled);
        const struct sp_chunked chunked = {&scaled.times, (double)sp_llm_prompt_positions(llm),
                                           llm->traffic->shared_prefix, (double)past};
        sp_chunked_figures(of, &chunked, &at[side]);
    }
    *ret_bars = sp_llm_bars_of(at);
    return SP_OK;
}
