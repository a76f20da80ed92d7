/* The end of a plan's text: of the plans that were found the one that is the fastest for one request, and the one that
   takes the most requests. */
#include "plan/answer/readable_text.h"
#include "plan/internal.h"

#define COLUMNS 100
#define EQUAL   1e-9 /* differences of sums that count as none */

static const struct sp_front_plan *least(const struct sp_search_result *result, bool is_latency)
{
    const struct sp_front_plan *best = &result->front[0];
    for (uint32_t i = 1; i < result->front_count; i++) {
        const struct sp_front_plan *plan = &result->front[i];
        const double own = is_latency ? plan->latency_seconds : plan->interval_seconds;
        const double other = is_latency ? best->latency_seconds : best->interval_seconds;
        if (own < other * (1 - EQUAL))
            best = plan;
    }
    return best;
}

/* "2,105 requests per second, each in 1.89 ms: 4 copies of 1 stage of 1 device". */
static void say_plan(const struct sp_front_plan *plan, bool is_latency, struct sp_buf *cell)
{
    if (is_latency) {
        sp_buf_text(cell, "one request in ");
        sp_text_seconds(cell, plan->latency_seconds);
        sp_buf_text(cell, ", ");
    }
    if (plan->interval_seconds > 0) {
        sp_text_rate(cell, 1 / plan->interval_seconds);
        sp_buf_text(cell, " requests per second");
    } else {
        sp_buf_text(cell, "any number of requests");
    }
    if (!is_latency) {
        sp_buf_text(cell, ", each in ");
        sp_text_seconds(cell, plan->latency_seconds);
    }
    sp_buf_printf(cell, ": %s", plan->description);
}

/* How to ask for it, where it is not this plan. */
static void say_how(const struct sp_plan *plan, const struct sp_front_plan *found, bool is_latency, struct sp_buf *cell)
{
    const bool is_objective = plan->objective == (is_latency ? SP_OBJECTIVE_LATENCY : SP_OBJECTIVE_THROUGHPUT);
    if (found->is_chosen)
        sp_buf_text(cell, " (this plan)");
    else if (is_objective)
        sp_buf_text(cell, " (--tolerance 0)");
    else
        sp_buf_printf(cell, " (--objective %s)", is_latency ? "latency" : "throughput");
}

static void line(const struct sp_plan *plan, bool is_latency, struct sp_buf *buf)
{
    const struct sp_front_plan *found = least(plan->result, is_latency);
    struct sp_buf cell;
    sp_buf_init(&cell, SP_REASON_BYTES);
    say_plan(found, is_latency, &cell);
    say_how(plan, found, is_latency, &cell);
    sp_buf_text(buf, is_latency ? "Fastest     " : "Most        ");
    sp_text_wrapped(buf, cell.data != NULL ? cell.data : "", 12, COLUMNS);
    buf->failed = buf->failed || sp_buf_failed(&cell);
    sp_buf_release(&cell);
}

void sp_answers_write_text(const struct sp_plan *plan, struct sp_buf *buf)
{
    if (plan->result->front_count < 2)
        return;
    line(plan, true, buf);
    line(plan, false, buf);
}
