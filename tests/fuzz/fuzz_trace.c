/*
 * Traces: what is accepted is written as lines of seconds, input and output and read again as the same requests; then it
 * is served, and every request has its prompt, its first token and its last one in this order. What is refused is refused
 * in words.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "fuzz.h"
#include "service/simulation.h"
#include "service/trace.h"

#define MOST_SERVED 2000    /* requests */
#define MOST_TOKENS 2000000 /* of all outputs that are served */

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void read_again(struct sp_arena *arena, const struct sp_trace *trace)
{
    struct sp_buf text;
    struct sp_trace again;
    sp_buf_init(&text, (size_t)64 << 20);
    sp_buf_text(&text, "seconds,input,output\n");
    for (uint32_t i = 0; i < trace->count; i++)
        sp_buf_printf(&text, "%.17g,%u,%u\n", trace->requests[i].seconds, trace->requests[i].input,
                      trace->requests[i].output);
    if (!sp_buf_failed(&text) && sp_trace_parse(arena, text.data, text.size, &again, NULL) == SP_OK) {
        require(again.count == trace->count);
        for (uint32_t i = 0; i < again.count; i++)
            require(again.requests[i].seconds == trace->requests[i].seconds &&
                    again.requests[i].input == trace->requests[i].input &&
                    again.requests[i].output == trace->requests[i].output);
    }
    sp_buf_release(&text);
}

static void serve(struct sp_arena *arena, const struct sp_trace *trace)
{
    static const struct sp_prompt_time prompts[] = {{1, 0.01, 0.01}, {1000, 0.2, 0.1}};
    static const struct sp_step_time steps[] = {{1, 100, 0.01, 1e-6}, {64, 100, 0.05, 1e-5}};
    static struct sp_simulated_request requests[MOST_SERVED];
    const struct sp_step_times times = {2, 2, prompts, steps};
    struct sp_simulated seen;
    double tokens = 0;
    if (trace->count > MOST_SERVED)
        return;
    for (uint32_t i = 0; i < trace->count; i++) {
        const struct sp_trace_request *of = &trace->requests[i];
        require(of->seconds >= 0 && of->input >= 1 && of->output >= 1 && (i > 0 || of->seconds == 0));
        requests[i] = (struct sp_simulated_request){.arrival = of->seconds, .input = of->input, .output = of->output};
        sp_prompt_seconds(&times, of->input, &requests[i].latency_seconds, &requests[i].interval_seconds);
        tokens += of->output;
    }
    const struct sp_simulation simulation = {&times,       3,        8, SP_BALANCE_FEWEST, 0,   0,
                                             trace->count, requests, 0, trace->count,      NULL};
    if (tokens > MOST_TOKENS || sp_simulate(arena, &simulation, &seen, NULL) != SP_OK)
        return;
    for (uint32_t i = 0; i < trace->count; i++) {
        const struct sp_simulated_times *of = &seen.times[i];
        require(of->prompt >= 0 && of->first > of->prompt && of->end >= of->first);
    }
    require(seen.in_flight.most <= 24 && seen.waiting.most <= trace->count);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct sp_budget budget = {.limit = (size_t)256 << 20};
    struct sp_arena *arena = sp_arena_create(&budget);
    struct sp_error err = {0};
    struct sp_trace trace;
    if (arena == NULL)
        return 0;
    if (sp_trace_parse(arena, (const char *)bytes, size, &trace, &err) == SP_OK) {
        read_again(arena, &trace);
        serve(arena, &trace);
    } else {
        require(err.message[0] != '\0' && err.code[0] != '\0');
    }
    sp_arena_destroy(arena);
    return 0;
}
