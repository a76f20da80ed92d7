/* A simulated service as JSON and as text. */
#include <stdio.h>

#include "base/units.h"
#include "plan/answer/readable_text.h"
#include "plan/service/simulate.h"

static const char *const arrivals[] = {
    [SP_ARRIVALS_TRACE] = "trace", [SP_ARRIVALS_POISSON] = "poisson", [SP_ARRIVALS_CLOSED] = "closed"};

/* ---- JSON --------------------------------------------------------------------------------------------------------- */

static void write_percentiles(struct sp_json *json, const char *name, const struct sp_percentiles *of)
{
    sp_json_key(json, name);
    sp_json_begin_object(json);
    sp_json_member_double(json, "mean", of->mean);
    sp_json_member_double(json, "p50", of->p50);
    sp_json_member_double(json, "p90", of->p90);
    sp_json_member_double(json, "p95", of->p95);
    sp_json_member_double(json, "p99", of->p99);
    sp_json_member_double(json, "max", of->most);
    sp_json_end_object(json);
}

static void write_level(struct sp_json *json, const char *name, const struct sp_simulated_level *level)
{
    sp_json_key(json, name);
    sp_json_begin_object(json);
    sp_json_member_double(json, "mean", level->mean);
    sp_json_member_int(json, "max", level->most);
    sp_json_end_object(json);
}

static void write_formula(const struct sp_simulated_service *simulated, struct sp_json *json)
{
    const struct sp_generation_figures *formula = &simulated->formula;
    if (!simulated->has_formula)
        return;
    sp_json_key(json, "formula");
    sp_json_begin_object(json);
    sp_json_member_double(json, "ttft_seconds", formula->ttft_seconds);
    sp_json_member_double(json, "tpot_seconds", formula->tpot_seconds);
    sp_json_member_double(json, "request_seconds", formula->request_seconds);
    sp_json_member_double(json, "requests_per_second", formula->requests_per_second);
    sp_json_member_double(json, "in_flight", formula->in_flight);
    sp_json_end_object(json);
}

void sp_simulated_write_json(const struct sp_simulated_service *simulated, struct sp_json *json)
{
    sp_json_begin_object(json);
    if (simulated->plan != NULL)
        sp_json_member_string(json, "plan", simulated->plan);
    sp_json_member_string(json, "arrivals", arrivals[simulated->arrivals]);
    sp_json_member_int(json, "requests", simulated->requests);
    sp_json_member_int(json, "copies", simulated->copies);
    sp_json_member_int(json, "concurrency", simulated->concurrency);
    sp_json_member_int(json, "seed", (int64_t)simulated->seed);
    if (simulated->rate > 0)
        sp_json_member_double(json, "rate_per_second", simulated->rate);
    sp_json_member_double(json, "seconds", simulated->window_seconds);
    if (simulated->is_llm) {
        write_percentiles(json, "ttft_seconds", &simulated->ttft_seconds);
        write_percentiles(json, "tpot_seconds", &simulated->tpot_seconds);
    }
    write_percentiles(json, "request_seconds", &simulated->request_seconds);
    write_percentiles(json, "queue_seconds", &simulated->queue_seconds);
    sp_json_member_double(json, "requests_per_second", simulated->requests_per_second);
    if (simulated->is_llm)
        sp_json_member_double(json, "tokens_per_second", simulated->tokens_per_second);
    write_level(json, "waiting", &simulated->waiting);
    write_level(json, "in_flight", &simulated->in_flight);
    write_formula(simulated, json);
    sp_json_end_object(json);
}

/* ---- text --------------------------------------------------------------------------------------------------------- */

static void cell(struct sp_buf *buf, double seconds)
{
    struct sp_buf text;
    sp_buf_init(&text, 64);
    sp_text_seconds(&text, seconds);
    sp_buf_printf(buf, "%11s", text.size == 0 ? "" : text.data);
    sp_buf_release(&text);
}

/* `formula` below 0: there is none. */
static void row(struct sp_buf *buf, const char *name, const struct sp_percentiles *of, double formula)
{
    sp_buf_printf(buf, "%-22s", name);
    cell(buf, of->mean);
    cell(buf, of->p50);
    cell(buf, of->p90);
    cell(buf, of->p95);
    cell(buf, of->p99);
    cell(buf, of->most);
    if (formula >= 0)
        cell(buf, formula);
    sp_buf_text(buf, "\n");
}

static void text_arrivals(const struct sp_simulated_service *simulated, struct sp_buf *buf)
{
    sp_buf_text(buf, "Requests    ");
    sp_text_integer(buf, simulated->requests);
    if (simulated->arrivals == SP_ARRIVALS_CLOSED) {
        sp_buf_printf(buf, ", %lld at any time", (long long)simulated->concurrency);
    } else {
        sp_buf_text(buf, simulated->arrivals == SP_ARRIVALS_TRACE ? " of a trace" : " at random");
        if (simulated->rate > 0) {
            sp_buf_text(buf, ", ");
            sp_text_rate(buf, simulated->rate);
            sp_buf_text(buf, " per second");
        }
    }
    sp_buf_printf(buf, ", on %u %s of the model\n", simulated->copies, simulated->copies == 1 ? "copy" : "copies");
}

static void text_served(const struct sp_simulated_service *simulated, struct sp_buf *buf)
{
    sp_buf_text(buf, "Served      ");
    sp_text_rate(buf, simulated->requests_per_second);
    sp_buf_text(buf, " requests per second");
    if (simulated->is_llm) {
        sp_buf_text(buf, ", ");
        sp_text_rate(buf, simulated->tokens_per_second);
        sp_buf_text(buf, " tokens per second");
    }
    sp_buf_text(buf, ", in ");
    sp_text_seconds(buf, simulated->window_seconds);
    sp_buf_printf(buf, "\nIn flight   %.4g in the mean, %u at most; waiting %.4g in the mean, %u at most\n\n",
                  simulated->in_flight.mean, simulated->in_flight.most, simulated->waiting.mean,
                  simulated->waiting.most);
}

void sp_simulated_write_text(const struct sp_simulated_service *simulated, struct sp_buf *buf)
{
    const struct sp_generation_figures *formula = &simulated->formula;
    const bool has = simulated->has_formula;
    text_arrivals(simulated, buf);
    text_served(simulated, buf);
    sp_buf_printf(buf, "%-22s%11s%11s%11s%11s%11s%11s%s\n", "", "Mean", "p50", "p90", "p95", "p99", "Max",
                  has ? "    Formula" : "");
    if (simulated->is_llm) {
        row(buf, "Time to first token", &simulated->ttft_seconds, has ? formula->ttft_seconds : -1);
        row(buf, "Time per output token", &simulated->tpot_seconds, has ? formula->tpot_seconds : -1);
    }
    row(buf, "Request", &simulated->request_seconds, has ? formula->request_seconds : -1);
    row(buf, "Wait in the queue", &simulated->queue_seconds, -1);
}
