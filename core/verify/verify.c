#include "verify/verify.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "verify/programs.h"
#include "verify/sources.h"

#define LEAST_PARTS 8 /* of an axis, where nobody says how many there are */

static enum sp_status run_original(struct sp_verification *all, struct sp_error *err)
{
    const struct sp_graph *graph;
    const uint32_t parts = all->run_count < LEAST_PARTS ? LEAST_PARTS : all->run_count;
    enum sp_status status = sp_run_open(all, &all->original, all->request->bytes, all->request->size, err);
    if (status != SP_OK)
        return status;
    graph = all->original.model->graph;
    all->sets.arena = all->arena;
    status = sp_original_index(all, err);
    if (status == SP_OK)
        status = sp_index_sets_learn(&all->sets, all->original.model, parts, all->request->cuts, all->request->is_brief,
                                     err);
    for (uint32_t i = 0; status == SP_OK && i < graph->input_count; i++) {
        struct sp_outcome outcome = {0};
        struct sp_numbers *numbers = NULL;
        struct sp_error why = {0};
        if (graph->inputs[i]->tensor != NULL)
            continue;
        status = sp_numbers_of_input(&all->sets, graph->inputs[i], &numbers, &why);
        outcome.numbers = numbers;
        if (status != SP_OK)
            outcome.why = sp_arena_printf(all->arena, "%s", why.message);
        status = status == SP_ERR_MEMORY || (numbers == NULL && outcome.why == NULL)
                     ? sp_fail_memory(err)
                     : sp_run_set(all, &all->original, graph->inputs[i], outcome, err);
    }
    return status == SP_OK ? sp_run_on(all, &all->original, err) : status;
}

/* One turn of all programs; *ret_any says whether anything happened. */
static enum sp_status take_turn(struct sp_verification *all, bool *ret_any, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    bool has_exchanged = false;
    *ret_any = false;
    for (uint32_t i = 0; status == SP_OK && i < all->run_count; i++) {
        struct sp_verify_run *run = &all->runs[i];
        if (run->state != SP_RUN_READY)
            continue;
        if (!run->has_inputs)
            status = sp_ports_give(all, run, &run->has_inputs, err);
        if (status != SP_OK || !run->has_inputs)
            continue;
        status = sp_run_on(all, run, err);
        *ret_any = true;
    }
    if (status == SP_OK)
        status = sp_exchange_all(all, &has_exchanged, err);
    *ret_any = *ret_any || has_exchanged;
    return status;
}

static enum sp_status tell_unstarted(struct sp_verification *all, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < all->run_count; i++) {
        if (!all->runs[i].has_inputs)
            status = sp_verify_fail(
                all,
                (struct sp_verify_failure){.verdict = SP_REFUTED,
                                           .run = &all->runs[i],
                                           .message = "It never runs: what it needs of other ranks is never there."},
                err);
    }
    return status;
}

/* Whether an integer input of the original is none of any program: they are made for a value that it has. */
static bool is_specialised(const struct sp_verification *all)
{
    const struct sp_graph *graph = all->original.model->graph;
    for (uint32_t i = 0; i < graph->input_count; i++) {
        bool is_read = sp_dtype_is_float(graph->inputs[i]->type.dtype) || graph->inputs[i]->tensor != NULL ||
                       graph->inputs[i]->use_count == 0;
        for (uint32_t k = 0; !is_read && k < all->run_count; k++)
            is_read = sp_ports_read(&all->runs[k], graph->inputs[i]->name);
        if (!is_read)
            return true;
    }
    return false;
}

/* Ranks that are made for one value of an input are not refuted by others. */
static enum sp_status settle(struct sp_verification *all, struct sp_error *err)
{
    if (all->failures.count == 0 || !is_specialised(all))
        return SP_OK;
    for (uint32_t i = 0; i < all->failures.count; i++)
        all->failures.items[i].verdict = SP_UNDECIDED;
    return sp_verify_fail(all,
                          (struct sp_verify_failure){
                              .verdict = SP_UNDECIDED,
                              .message = "The ranks do not read an integer input that the original reads: they may "
                                         "be made for one value of it."},
                          err);
}

static enum sp_status verify(struct sp_verification *all, struct sp_error *err)
{
    const struct sp_verify_request *request = all->request;
    bool goes_on = true;
    enum sp_status status = run_original(all, err);
    for (uint32_t i = 0; status == SP_OK && i < all->run_count; i++) {
        all->runs[i].program = &request->programs[i];
        status = sp_run_open(all, &all->runs[i], request->programs[i].bytes, request->programs[i].size, err);
        if (status == SP_OK)
            status = sp_ports_check(&all->runs[i], err);
    }
    while (status == SP_OK && goes_on)
        status = take_turn(all, &goes_on, err);
    if (status == SP_OK)
        status = sp_exchange_tell_stuck(all, err);
    if (status == SP_OK && all->failures.count == 0)
        status = tell_unstarted(all, err);
    const bool is_stuck = all->failures.count > 0;
    if (status == SP_OK && !is_stuck)
        status = sp_ports_compare(all, err);
    if (status == SP_OK && all->failures.count > 0 && !is_stuck && !request->is_brief)
        status = sp_blame(all, err);
    else if (status == SP_OK && request->explains)
        status = sp_recognise(all, err);
    if (status == SP_OK)
        status = settle(all, err);
    if (status == SP_OK && request->weights != NULL)
        status = sp_weights_compare(all, err);
    for (uint32_t i = 0; i < all->run_count; i++)
        all->nodes += all->runs[i].order_count;
    bool has_undecided = false, has_refuted = false;
    for (uint32_t i = 0; i < all->failures.count; i++) {
        has_refuted = has_refuted || all->failures.items[i].verdict == SP_REFUTED;
        has_undecided = has_undecided || all->failures.items[i].verdict == SP_UNDECIDED;
    }
    all->verdict = has_refuted ? SP_REFUTED : has_undecided ? SP_UNDECIDED : SP_PROVED;
    return status;
}

enum sp_status sp_verify(const struct sp_verify_request *request, struct sp_verification **ret_verification,
                         struct sp_error *err)
{
    if (request->program_count == 0 || request->program_count > SP_MAX_DEVICES)
        return sp_fail(err, SP_ERR_REQUEST, "NO_RANKS", "There is no model of a rank, or there are too many.");
    struct sp_verification *all = calloc(1, sizeof *all);
    if (all == NULL)
        return sp_fail_memory(err);
    all->budget.limit = request->memory_budget > 0 ? request->memory_budget : SP_DEFAULT_JOB_BYTES;
    all->request = request;
    all->run_count = request->program_count;
    all->arena = sp_arena_create(&all->budget);
    all->scratch = sp_arena_create(&all->budget);
    enum sp_status status = all->arena != NULL && all->scratch != NULL ? SP_OK : sp_fail_memory(err);
    if (status == SP_OK && ((all->runs = SP_NEW_ARRAY(all->arena, all->run_count, struct sp_verify_run)) == NULL ||
                            (all->window = SP_NEW_ARRAY(all->arena, SP_VERIFY_WINDOW_BYTES, unsigned char)) == NULL))
        status = sp_fail_memory(err);
    if (status == SP_OK)
        status = verify(all, err);
    if (status != SP_OK) {
        sp_verification_destroy(all);
        return status;
    }
    *ret_verification = all;
    return SP_OK;
}

void sp_verification_destroy(struct sp_verification *verification)
{
    if (verification == NULL)
        return;
    sp_arena_destroy(verification->scratch);
    sp_arena_destroy(verification->arena);
    free(verification);
}

enum sp_verdict sp_verification_verdict(const struct sp_verification *verification)
{
    return verification->verdict;
}
