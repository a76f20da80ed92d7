#pragma once
/*
 * llm - a language model as a service: its prefill and its decode steps on one copy, and what users of it see.
 *
 * Sizes, from the lengths of requests (service/lengths.h): a prefill is one request, with the positions of its input
 * that no other request shares; a decode step is one position of each sequence in flight, behind its input and so much
 * of its output as a sequence in flight has in the mean. Of a model without a cache a step computes all of these
 * positions anew.
 *
 * Micro-batches. Where the copy has several stages, the sequences in flight take turns in 1, 2, 4, 8 or 16 groups, so that
 * the stages work side by side: the next token of a sequence comes after the latency of a step of its group, and not
 * before every group has had its interval (cost/micro_batches.h). The number that is fastest counts, or the one that the
 * options ask for, as far as there are so many sequences.
 *
 * Chunks. Where prompts are cut (service/chunked.h), the prefill is one chunk, behind half of the rest of the prompt in the
 * mean. The model has no step of both: its time follows from those of its parts (service/step_times.h), of a copy with
 * several stages from their intervals.
 *
 * Memory. Keys and values of all sequences in flight are in memory, also while a prompt runs.
 */
#include "plan/service/copy.h"
#include "plan/service/symbols.h"
#include "service/chunked.h"

struct sp_llm {
    const struct sp_copy_question *question;
    const struct sp_traffic *traffic;
    struct sp_decoder_symbols symbols;
    int64_t chunk; /* positions of prompts that a step has at most; 0: prompts run whole */
};

/* Times of a copy with their error bars. */
struct sp_llm_times {
    struct sp_error_bar step, prompt, prefill; /* s, p and t of service/generation.h */
};
struct sp_llm_bars {
    struct sp_error_bar ttft_seconds, tpot_seconds, request_seconds, requests_per_second;
    double prompt_share; /* of the time */
    double in_flight;    /* sequences */
};

/* The times of `of` are not read. Errors of all times go together. */
void sp_llm_bars(const struct sp_llm_times *times, const struct sp_generation *of, struct sp_llm_bars *ret_bars);

/* Of one copy, with so many sequences in a step. */
struct sp_llm_figures {
    int64_t chunk; /* as of the sp_llm */
    int64_t concurrency;
    uint32_t micro_batches;
    struct sp_llm_bars bars;
    double excess_bytes;                             /* of the device that lacks most; 0 or less: it fits */
    double memory_bytes;                             /* of the fullest device */
    double cache_bytes;                              /* of all sequences, on all devices of the copy */
    const struct sp_phase_figures *prefill, *decode; /* decode: of one micro-batch */
};

/* Reads the model to find its symbols. */
enum sp_status sp_llm_init(const struct sp_copy_question *question, const struct sp_traffic *traffic,
                           struct sp_llm *ret_llm, struct sp_error *err);

/* Positions that the prompt of a request computes, and positions of the cache of a sequence in flight, in the mean. */
int64_t sp_llm_prompt_positions(const struct sp_llm *llm);
int64_t sp_llm_step_past(const struct sp_llm *llm);

/* Of a prompt with so many positions to compute; of the mean one; of a step of so many sequences with mean caches. */
enum sp_status sp_llm_prompt_sizes(const struct sp_llm *llm, int64_t positions, struct sp_sizes *ret_sizes,
                                   struct sp_error *err);
/* Of a part of a prompt behind so many positions of it. SP_ERR_REQUEST where the model has no cache. */
enum sp_status sp_llm_chunk_sizes(const struct sp_llm *llm, int64_t positions, int64_t past, struct sp_sizes *ret_sizes,
                                  struct sp_error *err);

/* Of the mean prompt, or the mean chunk of it. */
enum sp_status sp_llm_prefill_sizes(const struct sp_llm *llm, struct sp_sizes *ret_sizes, struct sp_error *err);
enum sp_status sp_llm_decode_sizes(const struct sp_llm *llm, int64_t sequences, struct sp_sizes *ret_sizes,
                                   struct sp_error *err);

/* A step of all sequences, in groups that take turns. */
struct sp_llm_step {
    struct sp_error_bar seconds;
    uint32_t micro_batches;
    const struct sp_phase_figures *group; /* of one of them */
};

/* The fastest one, where the caches have `past` positions. */
enum sp_status sp_llm_find_step(const struct sp_llm *llm, struct sp_copy *copy, int64_t concurrency, int64_t past,
                                struct sp_llm_step *ret_step, struct sp_error *err);

/* ---- chunks.c ---- */

/* Whether an error may be that a model cannot have a size. */
bool sp_llm_is_of_size(enum sp_status status);

/* Times of chunks, with as many sequences beside them as `sequences`, in the question's arena: `of` gets its chunk and the
   rows. */
enum sp_status sp_llm_chunk_times(const struct sp_llm *llm, struct sp_copy *copy, int64_t sequences,
                                  struct sp_step_times *of, struct sp_error *err);

/* The figures of chunked prefill, where a step of all sequences without a chunk is `step`; `of` as for sp_llm_bars().
   *ret_largest is the chunk that needs most memory. */
enum sp_status sp_llm_chunked(const struct sp_llm *llm, struct sp_copy *copy, const struct sp_llm_times *times,
                              const struct sp_generation *of, struct sp_llm_bars *ret_bars,
                              const struct sp_phase_figures **ret_largest, struct sp_error *err);

/* ---- llm.c ---- */

/* Of three ends of error bars: the middle, all times low, all times high. */
struct sp_llm_bars sp_llm_bars_of(const struct sp_generation_figures at[3]);

/* What the runtime of the copy's devices adds to a request. */
double sp_llm_request_seconds(const struct sp_copy *copy);

/* With a request behind each that ends, or, where `rate` is not 0, so many requests a second on this copy. */
enum sp_status sp_llm_evaluate(const struct sp_llm *llm, struct sp_copy *copy, int64_t concurrency, double rate,
                               struct sp_llm_figures *ret_figures, struct sp_error *err);
