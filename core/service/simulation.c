#include "service/simulation.h"

#include <assert.h>
#include <math.h>

#include "base/array.h"
#include "base/heap.h"
#include "base/random.h"

#define NONE        UINT32_MAX
#define TICK_EVENTS 65536 /* between two questions whether to go on */

/* When a copy is free, or has something to do again. Those of an earlier turn of the copy mean nothing any more. */
struct event {
    double at;
    uint32_t copy, turn;
};

/* A sequence whose first token is, or will be, there. */
struct joining {
    double ready;
    uint32_t request;
};

/* A sequence that ends with a step of its copy. */
struct ending {
    uint64_t step;
    uint32_t request;
};

struct copy {
    uint32_t turn;
    bool is_idle, is_stepping;
    uint32_t load;                 /* requests that it has */
    uint32_t waiting, first, last; /* a queue, through next[] */
    uint32_t joining_count, joining_capacity, live, live_capacity;
    struct joining *joining;
    struct ending *endings;
    bool has_begun; /* a prompt that is cut into chunks */
    uint32_t begun; /* the request whose prompt that is */
    double done;    /* positions of it */
    uint64_t step;
    double cached; /* positions of the caches of all live sequences */
};

/* A level over the window. */
struct counter {
    uint32_t now, most;
    double since, area;
};

struct simulating {
    const struct sp_simulation *of;
    struct sp_arena *arena;
    struct sp_error *err;
    double now;
    uint64_t random;
    uint32_t arrived, left; /* requests that came; counted ones that have not ended */
    struct copy *copies;
    uint32_t *next; /* behind each waiting request */
    double *came;   /* when each request came */
    struct sp_simulated_times *times;
    uint32_t event_count, event_capacity;
    struct event *events;
    bool is_in_window;
    double window_start, window_end, ended, tokens;
    struct counter waiting, in_flight;
};

static bool is_earlier_event(const void *unused, struct event a, struct event b)
{
    (void)unused;
    return a.at != b.at ? a.at < b.at : a.copy != b.copy ? a.copy < b.copy : a.turn < b.turn;
}

static bool is_earlier_joining(const void *unused, struct joining a, struct joining b)
{
    (void)unused;
    return a.ready != b.ready ? a.ready < b.ready : a.request < b.request;
}

static bool is_earlier_ending(const void *unused, struct ending a, struct ending b)
{
    (void)unused;
    return a.step != b.step ? a.step < b.step : a.request < b.request;
}

SP_HEAP(event, struct event, const void *, is_earlier_event)
SP_HEAP(joining, struct joining, const void *, is_earlier_joining)
SP_HEAP(ending, struct ending, const void *, is_earlier_ending)

/* ---- figures ------------------------------------------------------------------------------------------------------ */

/* Also of a moment that has passed: what was counted since then is corrected by as much. */
static void change(const struct simulating *s, struct counter *counter, double at, int by)
{
    if (s->is_in_window)
        counter->area += counter->now * (at - fmax(counter->since, s->window_start));
    counter->since = at;
    counter->now += (uint32_t)by;
    if (s->is_in_window && counter->now > counter->most)
        counter->most = counter->now;
}

static struct sp_simulated_times *times_of(struct simulating *s, uint32_t request)
{
    const uint32_t at = request - s->of->first; /* wraps for those before, which are then too many */
    return at < s->of->count ? &s->times[at] : NULL;
}

/* ---- events ------------------------------------------------------------------------------------------------------- */

/* The copy is busy, or sleeps, until then. */
static bool plan_event(struct simulating *s, uint32_t copy, double at)
{
    if (!SP_MAKE_ROOM(s->arena, s->events, s->event_count, s->event_capacity, 1))
        return false;
    event_push(s->events, s->event_count++, (struct event){at, copy, ++s->copies[copy].turn}, NULL);
    return true;
}

static uint32_t choose_copy(struct simulating *s)
{
    uint32_t best = 0;
    if (s->of->balance == SP_BALANCE_RANDOM)
        return sp_random_below(&s->random, s->of->copies);
    for (uint32_t c = 1; c < s->of->copies; c++)
        best = s->copies[c].load < s->copies[best].load ? c : best;
    return best;
}

/* The next request comes. */
static bool arrive(struct simulating *s, double at)
{
    const uint32_t request = s->arrived++, to = choose_copy(s);
    struct copy *copy = &s->copies[to];
    if (request == s->of->first) {
        s->is_in_window = true;
        s->window_start = at;
    }
    s->came[request] = at;
    s->next[request] = NONE;
    if (copy->waiting++ == 0)
        copy->first = request;
    else
        s->next[copy->last] = request;
    copy->last = request;
    copy->load++;
    change(s, &s->waiting, at, 1);
    if (!copy->is_idle)
        return true;
    copy->is_idle = false;
    return plan_event(s, to, s->now);
}

/* Its last token is there; in a closed loop another one comes. */
static bool end_request(struct simulating *s, struct copy *copy, uint32_t request, double at)
{
    struct sp_simulated_times *times = times_of(s, request);
    copy->load--;
    change(s, &s->in_flight, at, -1);
    if (s->is_in_window) {
        s->ended++;
        s->tokens += s->of->requests[request].output;
    }
    if (times != NULL) {
        times->end = fmax(at - s->came[request], times->first); /* sums of the same seconds may differ by a rounding */
        s->window_end = fmax(s->window_end, at);
        s->left--;
    }
    return s->of->closed_loop == 0 || s->arrived == s->of->request_count || arrive(s, at);
}

/* Sequences whose first token is there take part in steps from now on, or have no more to do. */
static bool join(struct simulating *s, struct copy *copy)
{
    while (copy->joining_count > 0 && copy->joining[0].ready <= s->now) {
        const struct joining joined = joining_pop(copy->joining, copy->joining_count--, NULL);
        const struct sp_simulated_request *request = &s->of->requests[joined.request];
        if (request->output == 1) {
            if (!end_request(s, copy, joined.request, joined.ready))
                return false;
            continue;
        }
        if (!SP_MAKE_ROOM(s->arena, copy->endings, copy->live, copy->live_capacity, 1))
            return false;
        ending_push(copy->endings, copy->live++, (struct ending){copy->step + request->output - 1, joined.request},
                    NULL);
        copy->cached += request->input;
    }
    return true;
}

/* The request that has waited longest waits no more. */
static uint32_t take_waiting(struct simulating *s, struct copy *copy)
{
    const uint32_t request = copy->first;
    struct sp_simulated_times *times = times_of(s, request);
    copy->first = s->next[request];
    copy->waiting--;
    change(s, &s->waiting, s->now, -1);
    change(s, &s->in_flight, s->now, 1);
    if (times != NULL)
        times->prompt = s->now - s->came[request];
    return request;
}

/* Its first token is there at `ready`. */
static bool add_joining(struct simulating *s, struct copy *copy, uint32_t request, double ready)
{
    struct sp_simulated_times *times = times_of(s, request);
    if (times != NULL)
        times->first = ready - s->came[request];
    if (!SP_MAKE_ROOM(s->arena, copy->joining, copy->joining_count, copy->joining_capacity, 1))
        return false;
    joining_push(copy->joining, copy->joining_count++, (struct joining){ready, request}, NULL);
    return true;
}

/* The prompt of the request that has waited longest. */
static bool begin_prompt(struct simulating *s, uint32_t at)
{
    struct copy *copy = &s->copies[at];
    const uint32_t request = take_waiting(s, copy);
    const struct sp_simulated_request *of = &s->of->requests[request];
    return add_joining(s, copy, request, s->now + of->latency_seconds) &&
           plan_event(s, at, s->now + of->interval_seconds);
}

static bool has_place(const struct simulating *s, const struct copy *copy)
{
    return copy->live + copy->joining_count < s->of->places;
}

/* Positions of prompts for a step: the rest of the one that has begun, then those that have waited longest. Prompts that
   end with it are a list through next[]. */
static void fill_chunk(struct simulating *s, struct copy *copy, struct sp_mixed_step *step, uint32_t *ret_ended)
{
    double past = 0;
    uint32_t ending = 0;
    *ret_ended = NONE;
    while (step->positions < s->of->times->chunk) {
        if (!copy->has_begun) {
            if (copy->waiting == 0 || copy->live + copy->joining_count + ending >= s->of->places)
                break;
            copy->begun = take_waiting(s, copy);
            copy->done = 0;
            copy->has_begun = true;
        }
        const struct sp_simulated_request *of = &s->of->requests[copy->begun];
        const double take = fmin(of->positions - copy->done, s->of->times->chunk - step->positions);
        past += take * (of->input - of->positions + copy->done);
        step->positions += take;
        copy->done += take;
        if (copy->done < of->positions)
            continue;
        s->next[copy->begun] = *ret_ended;
        *ret_ended = copy->begun;
        copy->has_begun = false;
        ending++;
    }
    if (step->positions > 0)
        step->chunk_past = past / step->positions;
}

/* A step with a chunk: there is a prompt for it. */
static bool begin_mixed(struct simulating *s, uint32_t at)
{
    struct copy *copy = &s->copies[at];
    struct sp_mixed_step step = {.sequences = copy->live};
    uint32_t ended;
    fill_chunk(s, copy, &step, &ended);
    if (copy->live > 0)
        step.past = copy->cached / copy->live;
    const double seconds = sp_mixed_seconds(s->of->times, &step);
    while (ended != NONE) {
        const uint32_t request = ended;
        const double lag = sp_chunk_lag_seconds(s->of->times, step.positions);
        ended = s->next[request];
        if (!add_joining(s, copy, request, s->now + seconds + lag))
            return false;
    }
    copy->is_stepping = true;
    return plan_event(s, at, s->now + seconds);
}

/* What the copy does next. */
static bool decide(struct simulating *s, uint32_t at)
{
    struct copy *copy = &s->copies[at];
    if (!join(s, copy))
        return false;
    const bool has_prompt = copy->has_begun || (copy->waiting > 0 && has_place(s, copy));
    if (has_prompt && s->of->times->chunk <= 0)
        return begin_prompt(s, at);
    if (has_prompt)
        return begin_mixed(s, at);
    copy->is_stepping = copy->live > 0;
    if (copy->is_stepping)
        return plan_event(s, at, s->now + sp_step_seconds(s->of->times, copy->live, copy->cached / copy->live));
    copy->is_idle = true;
    return copy->joining_count == 0 || plan_event(s, at, copy->joining[0].ready);
}

static bool end_step(struct simulating *s, struct copy *copy)
{
    copy->is_stepping = false;
    copy->step++;
    copy->cached += copy->live;
    while (copy->live > 0 && copy->endings[0].step == copy->step) {
        const struct ending ended = ending_pop(copy->endings, copy->live--, NULL);
        const struct sp_simulated_request *request = &s->of->requests[ended.request];
        copy->cached -= request->input + request->output - 1;
        if (!end_request(s, copy, ended.request, s->now))
            return false;
    }
    return true;
}

/* ---- all of it ---------------------------------------------------------------------------------------------------- */

/* The next thing that happens: a request comes, or a copy is free. False without memory. */
static bool advance(struct simulating *s)
{
    const bool is_open = s->of->closed_loop == 0 && s->arrived < s->of->request_count;
    const double arrival = is_open ? s->of->requests[s->arrived].arrival : INFINITY;
    if (s->event_count == 0 || arrival <= s->events[0].at) {
        assert(is_open); /* else something counted would never end */
        s->now = arrival;
        return arrive(s, arrival);
    }
    const struct event event = event_pop(s->events, s->event_count--, NULL);
    struct copy *copy = &s->copies[event.copy];
    if (event.turn != copy->turn)
        return true;
    s->now = event.at;
    copy->is_idle = false;
    return (!copy->is_stepping || end_step(s, copy)) && decide(s, event.copy);
}

static enum sp_status begin(struct simulating *s)
{
    const struct sp_simulation *of = s->of;
    s->copies = SP_NEW_ARRAY(s->arena, of->copies, struct copy);
    s->next = SP_NEW_ARRAY(s->arena, of->request_count, uint32_t);
    s->came = SP_NEW_ARRAY(s->arena, of->request_count, double);
    s->times = SP_NEW_ARRAY(s->arena, of->count, struct sp_simulated_times);
    if (s->copies == NULL || s->next == NULL || s->came == NULL || s->times == NULL)
        return sp_fail_memory(s->err);
    for (uint32_t c = 0; c < of->copies; c++)
        s->copies[c].is_idle = true;
    while (of->closed_loop > s->arrived && s->arrived < of->request_count) {
        if (!arrive(s, 0))
            return sp_fail_memory(s->err);
    }
    return SP_OK;
}

static enum sp_status run(struct simulating *s)
{
    for (int64_t events = 0; s->left > 0; events++) {
        if (events == SP_MAX_SIMULATED_EVENTS)
            return sp_fail_limit(s->err, "SIMULATION_TOO_LONG", "SP_MAX_SIMULATED_EVENTS", SP_MAX_SIMULATED_EVENTS,
                                 events + 1, "The requests need more than %lld steps: simulate fewer of them.",
                                 (long long)SP_MAX_SIMULATED_EVENTS);
        const double fraction = 1 - (double)s->left / s->of->count;
        if (events % TICK_EVENTS == 0 && !sp_watch_tick(s->of->watch, "simulate", fraction, 0, 0))
            return sp_fail(s->err, SP_ERR_CANCELLED, "CANCELLED", "The simulation was cancelled.");
        if (!advance(s))
            return sp_fail_memory(s->err);
    }
    return SP_OK;
}

static struct sp_simulated_level level_of(struct simulating *s, struct counter *counter)
{
    const double seconds = s->window_end - s->window_start;
    change(s, counter, s->window_end, 0);
    return (struct sp_simulated_level){seconds > 0 ? counter->area / seconds : 0, counter->most};
}

enum sp_status sp_simulate(struct sp_arena *arena, const struct sp_simulation *simulation, struct sp_simulated *ret,
                           struct sp_error *err)
{
    struct simulating s = {
        .of = simulation, .arena = arena, .err = err, .random = simulation->seed, .left = simulation->count};
    assert(simulation->count > 0 && simulation->first + simulation->count <= simulation->request_count);
    enum sp_status status = begin(&s);
    if (status == SP_OK)
        status = run(&s);
    if (status != SP_OK)
        return status;
    *ret = (struct sp_simulated){.times = s.times,
                                 .window_seconds = s.window_end - s.window_start,
                                 .ended = s.ended,
                                 .tokens = s.tokens,
                                 .waiting = level_of(&s, &s.waiting),
                                 .in_flight = level_of(&s, &s.in_flight)};
    return SP_OK;
}
