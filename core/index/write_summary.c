/* What an index says of the whole plan, as JSON: the plan's own members, and totals of its tables. */
#include <math.h>
#include <stdlib.h>

#include "base/sorted.h"
#include "index/write_internal.h"

static void write_counts(const struct sp_writing *writing, struct sp_json *json)
{
    static const char *const severities[] = {"error", "warning", "note"};
    const struct sp_plan *plan = writing->plan;
    uint32_t folded = 0;
    for (uint32_t n = 0; n < plan->workload->node_count; n++)
        folded += plan->workload->nodes[n].folded;
    sp_json_key(json, "counts");
    sp_json_begin_object(json);
    sp_json_member_int(json, "nodes", plan->workload->node_count);
    sp_json_member_int(json, "folded_nodes", folded);
    sp_json_member_int(json, "tensors", writing->tensor_rows);
    sp_json_member_int(json, "split_tensors", writing->split_tensors);
    sp_json_member_int(json, "collectives", (int64_t)writing->counts[SP_TABLE_COLLECTIVES]);
    sp_json_key(json, "diagnostics");
    sp_json_begin_object(json);
    for (size_t i = 0; i < sizeof severities / sizeof severities[0]; i++) {
        uint32_t count = 0;
        for (uint32_t k = 0; k < plan->note_count; k++)
            count += strcmp(plan->notes[k].severity, severities[i]) == 0;
        sp_json_member_int(json, severities[i], count);
    }
    sp_json_end_object(json);
    sp_json_end_object(json);
}

/* ---- collectives ------------------------------------------------------------------------------------------------ */

/* By seconds, descending; then by name. */
static bool comes_before(const struct sp_writing_total *a, const struct sp_writing_total *b)
{
    return a->seconds != b->seconds ? a->seconds > b->seconds : strcmp(a->kind, b->kind) < 0;
}

static void write_collectives(const struct sp_writing *writing, struct sp_json *json)
{
    const struct sp_writing_total *last = NULL;
    sp_json_key(json, "collectives");
    sp_json_begin_array(json);
    for (;;) { /* there are a few kinds: each time the largest of those that follow the last one */
        const struct sp_writing_total *next = NULL;
        for (const struct sp_writing_total *total = writing->totals; total != NULL; total = total->next) {
            if ((last == NULL || comes_before(last, total)) && (next == NULL || comes_before(total, next)))
                next = total;
        }
        if (next == NULL)
            break;
        sp_json_begin_object(json);
        sp_json_member_string(json, "kind", next->kind);
        sp_json_member_int(json, "count", next->count);
        sp_json_member_double(json, "bytes", next->bytes);
        sp_json_member_double(json, "seconds", next->seconds);
        sp_json_end_object(json);
        last = next;
    }
    sp_json_end_array(json);
}

/* ---- the longest path ------------------------------------------------------------------------------------------- */

SP_ASCENDING(by_stages, struct sp_schedule_link, from_stage, to_stage)

static void write_link(const struct sp_plan *plan, const struct sp_schedule_link *link, struct sp_json *json)
{
    double at = sp_schedule_leave(plan, link, sp_schedule_begin(plan, link->from_stage, 0));
    for (uint32_t i = 0; i < link->count; i++) {
        const double end = at + link->transfers[i]->seconds;
        sp_json_begin_object(json);
        sp_json_member_int(json, "from_stage", link->from_stage);
        sp_json_member_int(json, "to_stage", link->to_stage);
        sp_json_member_string(json, "tensor", plan->workload->tensors[link->transfers[i]->tensor].name);
        sp_json_member_double(json, "begin_seconds", at);
        sp_json_member_double(json, "end_seconds", end);
        sp_json_end_object(json);
        at = end;
    }
}

/* The stages of the first request on its longest path, and what each sends to the next. */
static enum sp_status write_path(const struct sp_writing *writing, struct sp_json *json, struct sp_error *err)
{
    const struct sp_plan *plan = writing->plan;
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    uint32_t *next = SP_NEW_ARRAY(writing->scratch, evaluation->stage_count, uint32_t), stage, link_count;
    const struct sp_schedule_link *links;
    const enum sp_status status = sp_schedule_links(writing->scratch, plan, &link_count, &links, err);
    if (status != SP_OK || next == NULL)
        return sp_fail_memory(err);
    stage = sp_plan_last_stage(plan);
    next[stage] = SP_NO_STAGE;
    for (; evaluation->stages[stage].waits_for != SP_NO_STAGE; stage = evaluation->stages[stage].waits_for)
        next[evaluation->stages[stage].waits_for] = stage;
    sp_json_key(json, "critical_path");
    sp_json_begin_array(json);
    for (; stage != SP_NO_STAGE; stage = next[stage]) {
        const double begin = sp_schedule_begin(plan, stage, 0);
        sp_json_begin_object(json);
        sp_json_member_int(json, "stage", stage);
        sp_json_member_int(json, "replica", 0); /* it computes the first request */
        sp_json_member_double(json, "begin_seconds", begin);
        sp_json_member_double(json, "end_seconds", begin + evaluation->stages[stage].compute_seconds);
        sp_json_end_object(json);
        const struct sp_schedule_link wanted = {.from_stage = stage, .to_stage = next[stage]};
        const struct sp_schedule_link *link =
            link_count > 0 ? bsearch(&wanted, links, link_count, sizeof *links, by_stages) : NULL;
        if (link != NULL)
            write_link(plan, link, json);
    }
    sp_json_end_array(json);
    return SP_OK;
}

/* ---- all -------------------------------------------------------------------------------------------------------- */

static void finish(struct sp_writing *writing, struct sp_json *json, const struct sp_buf *buf)
{
    enum sp_status status = sp_json_finish(json, NULL);
    if ((status != SP_OK || sp_buf_failed(buf)) && writing->status == SP_OK) /* buffers lack nothing but memory */
        writing->status = sp_fail_memory(writing->err);
}

void sp_writing_summary(struct sp_writing *writing)
{
    struct sp_json json;
    size_t size;
    const char *members = sp_index_scan_members(writing->source->scan, &size);
    if (writing->status != SP_OK)
        return;
    sp_json_init_buf(&json, false, &writing->summary);
    sp_json_begin_object(&json);
    if (size > 0)
        sp_json_raw(&json, members, size);
    write_counts(writing, &json);
    write_collectives(writing, &json);
    writing->status = write_path(writing, &json, writing->err);
    sp_json_end_object(&json);
    finish(writing, &json, &writing->summary);
}

/* The largest share of a device's memory that is needed. */
static double worst_ratio(const struct sp_plan *plan)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    double worst = 0;
    for (uint32_t s = 0; s < evaluation->stage_count; s++) {
        const struct sp_stage_cost *cost = &evaluation->stages[s];
        worst = fmax(worst, cost->capacity_bytes > 0 ? cost->total_bytes / cost->capacity_bytes : 0);
    }
    for (uint32_t h = 0; plan->result->routes != NULL && h < plan->result->routes->holder_count; h++) {
        const struct sp_stage_cost *cost = plan->result->routes->holders[h].cost;
        worst = fmax(worst, cost->capacity_bytes > 0 ? cost->total_bytes / cost->capacity_bytes : 0);
    }
    return worst;
}

void sp_writing_line(struct sp_writing *writing)
{
    const struct sp_plan *plan = writing->plan;
    struct sp_buf *line = &writing->line;
    struct sp_json json;
    size_t size;
    const char *estimate = sp_index_scan_estimate(writing->source->scan, &size);
    if (writing->status != SP_OK)
        return;
    sp_json_init_buf(&json, false, line);
    sp_json_begin_object(&json);
    sp_json_member_string(&json, "objective", sp_objective_name(plan->objective));
    sp_json_member_string(&json, "strategy", plan->strategy);
    sp_json_member_int(&json, "devices", plan->cluster->device_count);
    sp_json_member_int(&json, "stages", plan->result->evaluation->stage_count);
    sp_json_member_double(&json, "memory_worst_ratio", worst_ratio(plan));
    sp_json_member_double(&json, "search_seconds", writing->source->search_seconds);
    if (size > 0)
        sp_json_raw(&json, estimate, size);
    sp_json_end_object(&json);
    finish(writing, &json, line);
    if (writing->status != SP_OK)
        return;
    line->size -= 2; /* the braces */
    memmove(line->data, line->data + 1, line->size);
    line->data[line->size] = '\0';
}
