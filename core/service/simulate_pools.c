#include "service/simulate_pools.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/sorted.h"

/* A request behind its prompt. */
struct handed {
    double at;
    uint32_t request;
};

SP_ASCENDING(by_time, struct handed, at, request)

struct pools {
    struct sp_arena *arena;
    const struct sp_pools_simulation *of;
    struct sp_error *err;
    struct sp_simulated prompts, steps;
    struct sp_simulated_request *requests; /* of one pool */
    struct handed *handed;
    double *links; /* when each is free */
    struct sp_simulated_times *times;
};

static enum sp_status run_prompts(struct pools *p)
{
    struct sp_simulation prompts = p->of->of;
    for (uint32_t i = 0; i < prompts.request_count; i++) {
        p->requests[i] = prompts.requests[i];
        p->requests[i].output = 1;
    }
    prompts.copies = p->of->prompt_copies;
    prompts.places = prompts.request_count; /* a place is of a sequence that takes steps */
    prompts.requests = p->requests;
    prompts.first = 0;
    prompts.count = prompts.request_count;
    return sp_simulate(p->arena, &prompts, &p->prompts, p->err);
}

/* When the cache of each request is where its steps are; behind it, p->handed is in this order. */
static void send_caches(struct pools *p)
{
    const struct sp_simulation *of = &p->of->of;
    const uint32_t links = p->of->prompt_copies < of->copies ? p->of->prompt_copies : of->copies;
    for (uint32_t i = 0; i < of->request_count; i++)
        p->handed[i] = (struct handed){of->requests[i].arrival + p->prompts.times[i].first, i};
    sp_sort(p->handed, of->request_count, sizeof *p->handed, by_time);
    for (uint32_t i = 0; i < of->request_count; i++) {
        const double input = of->requests[p->handed[i].request].input;
        uint32_t free = 0;
        for (uint32_t l = 1; l < links; l++)
            free = p->links[l] < p->links[free] ? l : free;
        p->handed[i].at =
            fmax(p->handed[i].at, p->links[free]) + p->of->transfer_seconds * input / p->of->transfer_input;
        p->links[free] = p->handed[i].at;
    }
    sp_sort(p->handed, of->request_count, sizeof *p->handed, by_time);
}

static enum sp_status run_steps(struct pools *p)
{
    struct sp_simulation steps = p->of->of;
    for (uint32_t i = 0; i < steps.request_count; i++) {
        p->requests[i] = steps.requests[p->handed[i].request];
        p->requests[i].arrival = p->handed[i].at;
        p->requests[i].latency_seconds = p->requests[i].interval_seconds = 0;
    }
    steps.requests = p->requests;
    steps.first = 0;
    steps.count = steps.request_count;
    return sp_simulate(p->arena, &steps, &p->steps, p->err);
}

/* Of both pools: what the counted requests saw, and sums over the time in which they were there. */
static void put_together(const struct pools *p, struct sp_simulated *ret)
{
    const struct sp_simulation *of = &p->of->of;
    const double start = of->requests[of->first].arrival;
    double end = start, waits = 0, flights = 0;
    for (uint32_t i = 0; i < of->request_count; i++) {
        const uint32_t request = p->handed[i].request, at = request - of->first;
        const double first = p->handed[i].at - of->requests[request].arrival;
        if (at >= of->count) /* also those before, which wrap */
            continue;
        p->times[at] =
            (struct sp_simulated_times){p->prompts.times[request].prompt, first, first + p->steps.times[i].end};
        end = fmax(end, of->requests[request].arrival + p->times[at].end);
        ret->ended++;
        ret->tokens += of->requests[request].output;
        waits += p->times[at].prompt;
        flights += p->times[at].end - p->times[at].prompt;
    }
    ret->times = p->times;
    ret->window_seconds = end - start;
    ret->waiting = (struct sp_simulated_level){end > start ? waits / (end - start) : 0, p->prompts.waiting.most};
    ret->in_flight = (struct sp_simulated_level){end > start ? flights / (end - start) : 0,
                                                 p->prompts.in_flight.most + p->steps.in_flight.most};
}

enum sp_status sp_simulate_pools(struct sp_arena *arena, const struct sp_pools_simulation *simulation,
                                 struct sp_simulated *ret, struct sp_error *err)
{
    struct pools p = {.arena = arena, .of = simulation, .err = err};
    const uint32_t count = simulation->of.request_count;
    assert(simulation->of.closed_loop == 0);
    p.requests = SP_NEW_ARRAY(arena, count, struct sp_simulated_request);
    p.handed = SP_NEW_ARRAY(arena, count, struct handed);
    p.links = SP_NEW_ARRAY(arena, simulation->prompt_copies, double);
    p.times = SP_NEW_ARRAY(arena, simulation->of.count, struct sp_simulated_times);
    if (p.requests == NULL || p.handed == NULL || p.links == NULL || p.times == NULL)
        return sp_fail_memory(err);
    enum sp_status status = run_prompts(&p);
    if (status == SP_OK) {
        send_caches(&p);
        status = run_steps(&p);
    }
    if (status != SP_OK)
        return status;
    *ret = (struct sp_simulated){0};
    put_together(&p, ret);
    return SP_OK;
}
