#include "plan/service/simulate.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/json_reader.h"
#include "base/random.h"
#include "plan/service/traffic.h"
#include "service/chunked.h"
#include "service/open_loop.h"
#include "service/pools.h"
#include "service/requests.h"
#include "service/simulate_pools.h"

#define MOST_ROWS    1024 /* of a table of times */
#define MOST_SECONDS 1e12

/* What a plan says of its service, and what follows of the question. */
struct simulating {
    struct sp_members_reader reader;
    const struct sp_simulate_question *question;
    const struct sp_traffic *traffic;
    uint32_t copies, prompt_copies; /* prompt_copies: of a pool of their own; 0: prompts and steps share the copies */
    double transfer_seconds;        /* between pools, of a mean request */
    int64_t concurrency, places;    /* as planned, of all copies; at most on a copy */
    double overhead_seconds;        /* that the runtime adds to each request */
    struct sp_step_times times;
    double phase_latency[SP_MAX_PHASES], phase_interval[SP_MAX_PHASES], phase_requests[SP_MAX_PHASES];
    enum sp_arrivals arrivals;
    double rate;                            /* that requests are drawn at; 0: a closed loop */
    uint32_t all, first, counted;           /* requests */
    const struct sp_trace_request *lengths; /* of all */
    struct sp_simulated_request *requests;  /* all */
};

static const struct sp_members_range seconds = {"a number of seconds", 0, MOST_SECONDS},
                                     positions = {"a number of positions", 1, SP_MAX_TOKENS},
                                     some = {"a number", 0, MOST_SECONDS},
                                     whole = {"a number of sequences", 1, SP_MAX_CONCURRENCY};

/* ---- the plan ----------------------------------------------------------------------------------------------------- */

/* The rows of `member`, each with the numbers of these names one behind the other. */
static enum sp_status read_rows(struct simulating *s, const json_t *times, const char *member, uint32_t columns,
                                const char *const *names, double **ret_numbers, uint32_t *ret_count)
{
    struct sp_members_reader *r = &s->reader;
    const json_t *rows = json_object_get(times, member);
    const size_t count = json_array_size(rows);
    const char *pointer = sp_members_child(r, "/service/times", member);
    enum sp_status status = SP_OK;
    if (pointer == NULL)
        return sp_fail_memory(r->err);
    if (count < 1 || count > MOST_ROWS)
        return sp_members_refuse(r, pointer, "PLAN_INVALID", "\"%s\" must be a list of 1 to %d rows.", member,
                                 MOST_ROWS);
    double *numbers = SP_NEW_ARRAY(r->arena, count * columns, double);
    if (numbers == NULL)
        return sp_fail_memory(r->err);
    for (size_t i = 0; status == SP_OK && i < count; i++) {
        const char *at = sp_members_item(r, pointer, i);
        for (uint32_t c = 0; status == SP_OK && c < columns; c++)
            status = at == NULL ? sp_fail_memory(r->err)
                                : sp_members_number(r, json_array_get(rows, i), at, names[c], &some, true,
                                                    &numbers[i * columns + c]);
        if (status == SP_OK && i > 0 && numbers[i * columns] <= numbers[(i - 1) * columns])
            status = sp_members_refuse(r, at, "PLAN_INVALID", "The rows must ascend by \"%s\".", names[0]);
    }
    *ret_numbers = numbers;
    *ret_count = (uint32_t)count;
    return status;
}

static enum sp_status read_times(struct simulating *s, const json_t *service)
{
    static const char *const of_prompt[] = {"positions", "latency_seconds", "interval_seconds"},
                             *const of_chunk[] = {"positions", "latency_seconds", "interval_seconds",
                                                  "seconds_per_position"},
                             *const of_step[] = {"sequences", "past", "seconds", "seconds_per_position"};
    struct sp_members_reader *r = &s->reader;
    const json_t *times = json_object_get(service, "times");
    double *prompts = NULL, *steps = NULL, *chunks = NULL, places = 1;
    if (!json_is_object(times))
        return sp_members_refuse(r, "/service/times", "PLAN_INVALID",
                                 "The plan does not say what prompts and steps take: plan it again with this version.");
    enum sp_status status =
        sp_members_number(r, times, "/service/times", "request_seconds", &seconds, true, &s->overhead_seconds);
    if (status == SP_OK)
        status = sp_members_number(r, times, "/service/times", "places", &whole, true, &places);
    if (status == SP_OK)
        status = read_rows(s, times, "prompts", 3, of_prompt, &prompts, &s->times.prompt_count);
    if (status == SP_OK)
        status = read_rows(s, times, "steps", 4, of_step, &steps, &s->times.step_count);
    if (status == SP_OK && json_object_get(times, "chunk") != NULL) {
        status = sp_members_number(r, times, "/service/times", "chunk", &positions, true, &s->times.chunk);
        if (status == SP_OK)
            status = read_rows(s, times, "chunks", 4, of_chunk, &chunks, &s->times.chunk_count);
    }
    if (status != SP_OK)
        return status;
    s->places = (int64_t)places;
    /* The rows are these numbers in this order. */
    _Static_assert(sizeof(struct sp_prompt_time) == 3 * sizeof(double), "a row is its numbers");
    _Static_assert(sizeof(struct sp_step_time) == 4 * sizeof(double), "a row is its numbers");
    s->times.prompts = (const struct sp_prompt_time *)prompts;
    _Static_assert(sizeof(struct sp_chunk_time) == 4 * sizeof(double), "a row is its numbers");
    s->times.steps = (const struct sp_step_time *)steps;
    s->times.chunks = (const struct sp_chunk_time *)chunks;
    return SP_OK;
}

static enum sp_status read_phases(struct simulating *s, const json_t *service)
{
    const json_t *phases = json_object_get(service, "phases");
    struct sp_members_reader *r = &s->reader;
    enum sp_status status = SP_OK;
    if (json_array_size(phases) != s->traffic->phase_count)
        return sp_members_refuse(r, "/service/phases", "PLAN_INVALID", "The plan has other phases than its workload.");
    for (uint32_t i = 0; status == SP_OK && i < s->traffic->phase_count; i++) {
        const char *at = sp_members_item(r, "/service/phases", i);
        const json_t *phase = json_array_get(phases, i);
        status = at == NULL ? sp_fail_memory(r->err)
                            : sp_members_number(r, phase, at, "latency_seconds", &seconds, true, &s->phase_latency[i]);
        if (status == SP_OK)
            status = sp_members_number(r, phase, at, "interval_seconds", &seconds, true, &s->phase_interval[i]);
        s->phase_requests[i] = s->traffic->phases[i].requests;
        if (status == SP_OK) /* the batch that was chosen */
            status = sp_members_number(r, phase, at, "batch", &whole, false, &s->phase_requests[i]);
    }
    return status;
}

static enum sp_status read_pools(struct simulating *s, const json_t *service)
{
    struct sp_members_reader *r = &s->reader;
    const json_t *pools = json_object_get(service, "pools");
    if (pools == NULL)
        return SP_OK;
    enum sp_status status = sp_members_count(r, json_object_get(pools, "prefill"), "/service/pools/prefill", "copies",
                                             SP_MAX_DEVICES, &s->prompt_copies);
    if (status == SP_OK)
        status = sp_members_number(r, json_object_get(pools, "transfer"), "/service/pools/transfer", "seconds",
                                   &seconds, true, &s->transfer_seconds);
    return status;
}

static enum sp_status read_plan(struct simulating *s)
{
    struct sp_members_reader *r = &s->reader;
    const json_t *plan = s->question->plan, *service = json_object_get(plan, "service");
    const json_t *workload = json_object_get(json_object_get(plan, "options"), "workload");
    double concurrency = 1;
    if (!json_is_object(service) || !json_is_object(workload))
        return sp_fail(
            r->err, SP_ERR_REQUEST, "PLAN_WITHOUT_SERVICE",
            "The plan is of one step: a plan for a service ('shardplan plan --workload FILE --plan PLAN.json') "
            "can be simulated.");
    enum sp_status status = sp_traffic_parse(r->arena, workload, "/options/workload", &s->traffic, r->err);
    if (status == SP_OK)
        status = sp_members_count(r, service, "/service", "copies", SP_MAX_DEVICES, &s->copies);
    if (status == SP_OK && !s->traffic->is_llm)
        return read_phases(s, service);
    if (status == SP_OK)
        status = sp_members_number(r, service, "/service", "concurrency", &whole, true, &concurrency);
    s->concurrency = (int64_t)concurrency;
    if (status == SP_OK)
        status = read_pools(s, service);
    return status == SP_OK ? read_times(s, service) : status;
}

/* ---- requests ----------------------------------------------------------------------------------------------------- */

/* How many are drawn, before, among and behind those that are counted. */
static enum sp_status count_requests(struct simulating *s)
{
    const struct sp_simulate_question *question = s->question;
    const int64_t counted = question->requests > 0 ? question->requests : SP_SIMULATED_REQUESTS;
    if (counted > SP_MAX_SIMULATED_COUNTED)
        return sp_fail_limit(s->reader.err, "SIMULATED_REQUESTS", "SP_MAX_SIMULATED_COUNTED", SP_MAX_SIMULATED_COUNTED,
                             counted, "At most %d requests can be simulated.", SP_MAX_SIMULATED_COUNTED);
    const int64_t tenth = counted / 10, held = s->concurrency < counted / 2 ? s->concurrency : counted / 2;
    s->counted = (uint32_t)counted;
    s->first = (uint32_t)(tenth + 2 * held);
    s->all = s->first + s->counted + (uint32_t)(tenth + held);
    return SP_OK;
}

static enum sp_status draw_requests(struct simulating *s)
{
    struct sp_trace_request *drawn = SP_NEW_ARRAY(s->reader.arena, s->all, struct sp_trace_request);
    const struct sp_request_source source = {s->rate, s->traffic->input, s->traffic->output, s->question->seed};
    uint64_t random = sp_scramble(s->question->seed + 3);
    if (drawn == NULL)
        return sp_fail_memory(s->reader.err);
    sp_draw_requests(&source, s->all, drawn);
    /* The first round of a closed loop is found at work, each request somewhere in its output. */
    for (uint32_t i = 0; s->rate <= 0 && i < s->concurrency && i < s->first; i++)
        drawn[i].output = 1 + sp_random_below(&random, drawn[i].output);
    s->lengths = drawn;
    return SP_OK;
}

static double positions_of(const struct simulating *s, double input)
{
    return fmax(input - s->traffic->shared_prefix, 1);
}

/* Mean seconds until as many requests as a run of the phase serves are there; none where they follow each other. */
static double fill_seconds(const struct simulating *s, uint32_t phase)
{
    const struct sp_traffic_phase *of = &s->traffic->phases[phase];
    const double runs = of->share * of->per_request;
    return s->rate > 0 ? (s->phase_requests[phase] - 1) / (2 * s->rate / s->copies * runs) : 0;
}

/* What a request of any model keeps a copy for: all phases that every request needs, and of the others one or none. */
static void draw_phases(const struct simulating *s, uint64_t *random, struct sp_simulated_request *request)
{
    const double at = sp_random_fraction(random);
    double share = 0;
    for (uint32_t i = 0; i < s->traffic->phase_count; i++) {
        const struct sp_traffic_phase *phase = &s->traffic->phases[i];
        const bool is_needed = phase->share >= 1 || (at >= share && at < share + phase->share);
        share += phase->share < 1 ? phase->share : 0;
        if (!is_needed)
            continue;
        request->interval_seconds += phase->per_request / s->phase_requests[i] * s->phase_interval[i];
        request->latency_seconds += phase->per_request * (s->phase_latency[i] + fill_seconds(s, i));
    }
    request->latency_seconds = fmax(request->latency_seconds, request->interval_seconds);
}

static enum sp_status make_requests(struct simulating *s)
{
    uint64_t random = sp_scramble(s->question->seed + 1);
    s->requests = SP_NEW_ARRAY(s->reader.arena, s->all, struct sp_simulated_request);
    if (s->requests == NULL)
        return sp_fail_memory(s->reader.err);
    for (uint32_t i = 0; i < s->all; i++) {
        const struct sp_trace_request *from = &s->lengths[i];
        struct sp_simulated_request *to = &s->requests[i];
        *to = (struct sp_simulated_request){.arrival = from->seconds, .input = from->input, .output = 1};
        if (!s->traffic->is_llm) {
            draw_phases(s, &random, to);
            continue;
        }
        to->output = from->output;
        to->positions = positions_of(s, from->input);
        sp_prompt_seconds(&s->times, positions_of(s, from->input), &to->latency_seconds, &to->interval_seconds);
        to->latency_seconds = fmax(to->latency_seconds, to->interval_seconds);
    }
    return SP_OK;
}

static enum sp_status begin(struct simulating *s)
{
    const struct sp_simulate_question *question = s->question;
    const struct sp_trace *trace = question->trace;
    enum sp_status status = read_plan(s);
    if (status != SP_OK)
        return status;
    assert(s->traffic != NULL && s->copies > 0);
    s->rate = question->is_closed_loop ? 0 : question->rate > 0 ? question->rate : s->traffic->rate_per_second;
    s->arrivals = trace != NULL ? SP_ARRIVALS_TRACE : s->rate > 0 ? SP_ARRIVALS_POISSON : SP_ARRIVALS_CLOSED;
    if (s->prompt_copies > 0 && s->arrivals == SP_ARRIVALS_CLOSED)
        return sp_fail(s->reader.err, SP_ERR_REQUEST, "POOLS_CLOSED_LOOP",
                       "Pools are simulated with requests that come at times of their own: give a rate ('--rate') or a "
                       "trace ('--trace').");
    if (question->concurrency > 0)
        s->concurrency = question->concurrency;
    else if (!s->traffic->is_llm)
        s->concurrency = s->arrivals == SP_ARRIVALS_CLOSED ? s->copies : SP_MAX_CONCURRENCY;
    else if (s->arrivals != SP_ARRIVALS_CLOSED)
        s->concurrency = s->places * s->copies;
    s->places = (s->concurrency + s->copies - 1) / s->copies;
    if (trace != NULL) {
        s->all = s->counted = trace->count;
        s->lengths = trace->requests;
        return make_requests(s);
    }
    status = count_requests(s);
    if (status == SP_OK)
        status = draw_requests(s);
    return status == SP_OK ? make_requests(s) : status;
}

/* ---- figures ------------------------------------------------------------------------------------------------------ */

enum figure { FIGURE_TTFT, FIGURE_TPOT, FIGURE_REQUEST, FIGURE_QUEUE };

/* Of the counted requests that have it: one of a single token has no TPOT. */
static struct sp_percentiles percentiles_of(const struct simulating *s, const struct sp_simulated *seen,
                                            enum figure figure, double *values)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->counted; i++) {
        const struct sp_simulated_times *times = &seen->times[i];
        const uint32_t output = s->requests[s->first + i].output;
        if (figure == FIGURE_TPOT && output < 2)
            continue;
        values[count++] = figure == FIGURE_TTFT      ? times->first + s->overhead_seconds
                          : figure == FIGURE_TPOT    ? (times->end - times->first) / (output - 1)
                          : figure == FIGURE_REQUEST ? times->end + s->overhead_seconds
                                                     : times->prompt;
    }
    return sp_percentiles_of(count, values);
}

/* The means of the formulas for the same requests. */
static void add_formula(const struct simulating *s, struct sp_simulated_service *simulated)
{
    const struct sp_traffic *traffic = s->traffic;
    struct sp_generation of = {.request_seconds = s->overhead_seconds,
                               .concurrency = (double)s->concurrency / s->copies,
                               .output = traffic->output.mean,
                               .rate = s->rate / s->copies,
                               .prompt_variation = traffic->input.variation};
    const double past = traffic->input.mean + sp_lengths_in_flight(&traffic->output);
    sp_prompt_seconds(&s->times, positions_of(s, traffic->input.mean), &of.prefill_seconds, &of.prompt_seconds);
    simulated->has_formula = true;
    if (s->prompt_copies > 0) {
        struct sp_pools_figures figures;
        const struct sp_pools pools = {.request_seconds = s->overhead_seconds,
                                       .output = of.output,
                                       .prompt_variation = of.prompt_variation,
                                       .prompt_seconds = of.prompt_seconds,
                                       .prefill_seconds = of.prefill_seconds,
                                       .transfer_seconds = s->transfer_seconds,
                                       .prompt_copies = s->prompt_copies,
                                       .step_copies = s->copies,
                                       .steps = &s->times,
                                       .past = past,
                                       .places = (uint32_t)s->places};
        sp_pools_figures(&pools, s->rate, &figures);
        simulated->formula = figures.all;
        return;
    }
    const struct sp_chunked chunked = {&s->times, positions_of(s, traffic->input.mean), traffic->shared_prefix, past};
    if (s->times.chunk > 0 && s->rate > 0) {
        sp_chunked_open_loop_figures(&of, &chunked, (uint32_t)s->places, &simulated->formula);
    } else if (s->times.chunk > 0) {
        sp_chunked_figures(&of, &chunked, &simulated->formula);
    } else if (s->rate > 0) {
        sp_open_loop_figures(&of, &s->times, past, (uint32_t)s->places, &simulated->formula);
    } else {
        of.step_seconds = sp_step_seconds(&s->times, of.concurrency, past);
        sp_generation_figures(&of, &simulated->formula);
    }
    simulated->formula.requests_per_second *= s->copies;
    simulated->formula.in_flight *= s->copies;
}

static double rate_of(const struct simulating *s)
{
    const double last = s->lengths[s->all - 1].seconds;
    return s->arrivals != SP_ARRIVALS_TRACE ? s->rate : last > 0 ? (s->all - 1) / last : 0;
}

static enum sp_status finish(const struct simulating *s, const struct sp_simulated *seen,
                             struct sp_simulated_service *ret)
{
    double *values = SP_NEW_ARRAY(s->reader.arena, s->counted, double);
    if (values == NULL)
        return sp_fail_memory(s->reader.err);
    *ret = (struct sp_simulated_service){
        .plan = json_string_value(json_object_get(s->question->plan, "id")),
        .arrivals = s->arrivals,
        .is_llm = s->traffic->is_llm,
        .copies = s->copies,
        .requests = s->counted,
        .concurrency = s->concurrency,
        .seed = s->question->seed,
        .rate = rate_of(s),
        .window_seconds = seen->window_seconds,
        .requests_per_second = seen->window_seconds > 0 ? seen->ended / seen->window_seconds : 0,
        .tokens_per_second = seen->window_seconds > 0 ? seen->tokens / seen->window_seconds : 0,
        .ttft_seconds = percentiles_of(s, seen, FIGURE_TTFT, values),
        .tpot_seconds = percentiles_of(s, seen, FIGURE_TPOT, values),
        .request_seconds = percentiles_of(s, seen, FIGURE_REQUEST, values),
        .queue_seconds = percentiles_of(s, seen, FIGURE_QUEUE, values),
        .waiting = seen->waiting,
        .in_flight = seen->in_flight,
    };
    if (s->traffic->is_llm && s->arrivals != SP_ARRIVALS_TRACE)
        add_formula(s, ret);
    return SP_OK;
}

enum sp_status sp_service_simulate(struct sp_arena *arena, const struct sp_simulate_question *question,
                                   struct sp_simulated_service *ret_simulated, struct sp_error *err)
{
    struct simulating s = {.reader = {arena, err}, .question = question};
    struct sp_simulated seen;
    enum sp_status status = begin(&s);
    if (status != SP_OK)
        return status;
    const bool is_closed = s.arrivals == SP_ARRIVALS_CLOSED;
    const struct sp_simulation simulation = {.times = &s.times,
                                             .copies = s.copies,
                                             .places = (uint32_t)s.places,
                                             .balance = question->balance,
                                             .seed = sp_scramble(question->seed + 2),
                                             .closed_loop = is_closed ? (uint32_t)s.concurrency : 0,
                                             .request_count = s.all,
                                             .requests = s.requests,
                                             .first = s.first,
                                             .count = s.counted,
                                             .watch = question->watch};
    const struct sp_pools_simulation pools = {simulation, s.prompt_copies, s.transfer_seconds, s.traffic->input.mean};
    status = s.prompt_copies > 0 ? sp_simulate_pools(arena, &pools, &seen, err)
                                 : sp_simulate(arena, &simulation, &seen, err);
    return status == SP_OK ? finish(&s, &seen, ret_simulated) : status;
}
