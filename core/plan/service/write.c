/* A service as JSON and as text. */
#include <math.h>
#include <stdio.h>

#include "plan/answer/readable_text.h"
#include "plan/internal.h"
#include "plan/service/service.h"

#define NAME_COLUMNS        34
#define DESCRIPTION_COLUMNS 40
#define TEXT_COLUMNS        100
#define TEXT_CANDIDATES     16 /* listed before they are only counted */
#define TEXT_FRONT          8
#define HOUR                3600.0

static const char *const states[] = {
    [SP_LIMIT_KEPT] = "kept", [SP_LIMIT_UNCERTAIN] = "uncertain", [SP_LIMIT_BROKEN] = "broken"};

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static void write_bar(struct sp_json *json, const char *name, const char *range, const struct sp_error_bar *bar)
{
    sp_json_member_double(json, name, bar->value);
    sp_json_key(json, range);
    sp_json_begin_object(json);
    sp_json_member_double(json, "value", bar->value);
    sp_json_member_double(json, "low", bar->low);
    sp_json_member_double(json, "high", bar->high);
    sp_json_end_object(json);
}

static void write_chunk(struct sp_json *json, int64_t chunk)
{
    if (chunk > 0)
        sp_json_member_int(json, "chunked_prefill", chunk);
}

static void write_rates(const struct sp_service *service, struct sp_json *json)
{
    write_bar(json, "requests_per_second", "requests_range", &service->requests_per_second);
    sp_json_member_double(json, "requests_per_second_per_device",
                          service->requests_per_second.value / service->devices);
    if (service->is_llm) {
        write_bar(json, "tokens_per_second", "tokens_range", &service->tokens_per_second);
        sp_json_member_double(json, "tokens_per_second_per_device",
                              service->tokens_per_second.value / service->devices);
    }
    write_bar(json, "capacity_per_second", "capacity_range", &service->capacity_per_second);
    if (service->price_per_hour <= 0)
        return;
    sp_json_member_double(json, "price_per_hour", service->price_per_hour);
    sp_json_member_double(json, "requests_per_dollar",
                          service->requests_per_second.value * HOUR / service->price_per_hour);
    if (service->is_llm)
        sp_json_member_double(json, "tokens_per_dollar",
                              service->tokens_per_second.value * HOUR / service->price_per_hour);
}

static void write_limits(const struct sp_service *service, struct sp_json *json)
{
    sp_json_key(json, "limits");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < service->limit_count; i++) {
        const struct sp_service_limit *limit = &service->limits[i];
        sp_json_begin_object(json);
        sp_json_member_string(json, "name", limit->name);
        sp_json_member_double(json, "limit", limit->limit);
        write_bar(json, "value", "range", &limit->figure);
        sp_json_member_string(json, "state", states[limit->state]);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static void write_pool(struct sp_json *json, const char *name, uint32_t copies, uint32_t devices,
                       const char *description)
{
    sp_json_key(json, name);
    sp_json_begin_object(json);
    sp_json_member_int(json, "copies", copies);
    sp_json_member_int(json, "devices_per_copy", devices);
    sp_json_member_string(json, "description", description);
}

static void write_pools(const struct sp_service_pools *pools, struct sp_json *json)
{
    if (pools == NULL)
        return;
    sp_json_key(json, "pools");
    sp_json_begin_object(json);
    write_pool(json, "prefill", pools->prompt_copies, pools->prompt_devices, pools->prompt_description);
    sp_json_member_double(json, "capacity_per_second", pools->prompt_rate);
    sp_json_member_double(json, "time_share", pools->prompt_share);
    sp_json_member_double(json, "memory_bytes", pools->prompt_memory_bytes);
    sp_json_end_object(json);
    write_pool(json, "decode", pools->step_copies, pools->step_devices, pools->step_description);
    sp_json_member_double(json, "capacity_per_second", pools->step_rate);
    sp_json_member_double(json, "place_share", pools->place_share);
    sp_json_end_object(json);
    sp_json_key(json, "transfer");
    sp_json_begin_object(json);
    sp_json_member_double(json, "bytes_per_request", pools->cache_bytes);
    sp_json_member_double(json, "seconds", pools->transfer_seconds);
    sp_json_member_double(json, "link_share", pools->link_share);
    sp_json_end_object(json);
    sp_json_end_object(json);
}

static void write_chunks(const struct sp_step_times *times, struct sp_json *json)
{
    if (times->chunk <= 0)
        return;
    sp_json_member_double(json, "chunk", times->chunk);
    sp_json_key(json, "chunks");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < times->chunk_count; i++) {
        const struct sp_chunk_time *chunk = &times->chunks[i];
        sp_json_begin_object(json);
        sp_json_member_double(json, "positions", chunk->positions);
        sp_json_member_double(json, "latency_seconds", chunk->latency_seconds);
        sp_json_member_double(json, "interval_seconds", chunk->interval_seconds);
        sp_json_member_double(json, "seconds_per_position", chunk->seconds_per_position);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static void write_times(const struct sp_service_times *times, struct sp_json *json)
{
    if (times == NULL)
        return;
    sp_json_key(json, "times");
    sp_json_begin_object(json);
    sp_json_member_double(json, "request_seconds", times->request_seconds);
    sp_json_member_int(json, "places", times->places);
    sp_json_key(json, "prompts");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < times->of.prompt_count; i++) {
        const struct sp_prompt_time *prompt = &times->of.prompts[i];
        sp_json_begin_object(json);
        sp_json_member_double(json, "positions", prompt->positions);
        sp_json_member_double(json, "latency_seconds", prompt->latency_seconds);
        sp_json_member_double(json, "interval_seconds", prompt->interval_seconds);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
    sp_json_key(json, "steps");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < times->of.step_count; i++) {
        const struct sp_step_time *step = &times->of.steps[i];
        sp_json_begin_object(json);
        sp_json_member_double(json, "sequences", step->sequences);
        sp_json_member_double(json, "past", step->past);
        sp_json_member_double(json, "seconds", step->seconds);
        sp_json_member_double(json, "seconds_per_position", step->seconds_per_position);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
    write_chunks(&times->of, json);
    sp_json_end_object(json);
}

/* What the phases take on the best plan for this one alone. */
static void write_alone(const struct sp_service *service, uint32_t index, struct sp_json *json)
{
    const struct sp_service_alone *alone = service->phases[index].alone;
    if (alone == NULL)
        return;
    sp_json_key(json, "alone");
    sp_json_begin_object(json);
    sp_json_member_double(json, "latency_seconds", alone[index].latency_seconds);
    sp_json_member_double(json, "interval_seconds", alone[index].interval_seconds);
    sp_json_key(json, "others");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < service->phase_count; i++) {
        if (i == index)
            continue;
        sp_json_begin_object(json);
        sp_json_member_string(json, "name", service->phases[i].name);
        sp_json_member_double(json, "latency_seconds", alone[i].latency_seconds);
        sp_json_member_double(json, "interval_seconds", alone[i].interval_seconds);
        sp_json_member_bool(json, "fits", alone[i].fits);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
    sp_json_end_object(json);
}

static void write_phases(const struct sp_service *service, struct sp_json *json)
{
    sp_json_key(json, "phases");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < service->phase_count; i++) {
        const struct sp_service_phase *phase = &service->phases[i];
        sp_json_begin_object(json);
        sp_json_member_string(json, "name", phase->name);
        sp_json_member_bool(json, "planned", phase->is_planned);
        sp_json_key(json, "dims");
        sp_json_begin_object(json);
        for (uint32_t d = 0; d < phase->sizes.dim_count; d++)
            sp_json_member_int(json, phase->sizes.dim_names[d], phase->sizes.dim_values[d]);
        sp_json_end_object(json);
        if (phase->configuration != NULL)
            sp_json_member_string(json, "configuration", phase->configuration);
        if (phase->batch > 0)
            sp_json_member_int(json, "batch", phase->batch);
        if (phase->fill_seconds > 0)
            sp_json_member_double(json, "fill_seconds", phase->fill_seconds);
        sp_json_member_int(json, "micro_batches", phase->micro_batches);
        sp_json_member_double(json, "runs_per_request", phase->runs);
        write_bar(json, "latency_seconds", "latency_range", &phase->latency_seconds);
        write_bar(json, "interval_seconds", "interval_range", &phase->interval_seconds);
        sp_json_member_double(json, "memory_bytes", phase->memory_bytes);
        sp_json_member_double(json, "time_share", phase->time_share);
        sp_json_member_double(json, "moved_weight_bytes", phase->moved_bytes);
        sp_json_member_string(json, "bottleneck", phase->bottleneck);
        write_alone(service, i, json);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static void write_candidates(const struct sp_service *service, struct sp_json *json)
{
    sp_json_key(json, "candidates");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < service->candidate_count; i++) {
        const struct sp_service_candidate *one = &service->candidates[i];
        sp_json_begin_object(json);
        sp_json_member_int(json, "copies", one->copies);
        sp_json_member_int(json, "devices_per_copy", one->devices);
        sp_json_member_string(json, "description", one->description);
        if (one->prompt_copies > 0) {
            sp_json_member_int(json, "prefill_copies", one->prompt_copies);
            sp_json_member_int(json, "devices_per_prefill_copy", one->prompt_devices);
        }
        sp_json_member_string(json, "planned", one->planned);
        if (one->planned_batch > 0)
            sp_json_member_int(json, "planned_batch", one->planned_batch);
        sp_json_member_bool(json, "planned_for_all", one->is_for_all);
        if (service->is_llm) {
            sp_json_member_int(json, "concurrency", one->concurrency);
            write_chunk(json, one->chunk);
            sp_json_member_double(json, "ttft_seconds", one->ttft_seconds);
            sp_json_member_double(json, "tpot_seconds", one->tpot_seconds);
        }
        sp_json_member_double(json, "request_seconds", one->request_seconds);
        sp_json_member_double(json, "requests_per_second", one->requests_per_second);
        sp_json_member_bool(json, "fits", one->fits);
        sp_json_member_bool(json, "keeps_limits", one->limit_ratio <= 1);
        sp_json_member_bool(json, "chosen", one->is_chosen);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static void write_front(struct sp_json *json, const char *name, uint32_t count, const struct sp_service_point *points)
{
    if (count == 0)
        return;
    sp_json_key(json, name);
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_service_point *point = &points[i];
        sp_json_begin_object(json);
        sp_json_member_int(json, "copies", point->copies);
        sp_json_member_int(json, "devices_per_copy", point->devices);
        if (point->prompt_copies > 0) {
            sp_json_member_int(json, "prefill_copies", point->prompt_copies);
            sp_json_member_int(json, "devices_per_prefill_copy", point->prompt_devices);
        }
        sp_json_member_string(json, "description", point->description);
        sp_json_member_int(json, "concurrency", point->concurrency);
        write_chunk(json, point->chunk);
        sp_json_member_double(json, "ttft_seconds", point->ttft_seconds);
        sp_json_member_double(json, "tpot_seconds", point->tpot_seconds);
        sp_json_member_double(json, "request_seconds", point->request_seconds);
        sp_json_member_double(json, "tokens_per_second_per_device", point->tokens_per_second_per_device);
        if (point->dollars_per_million_tokens > 0)
            sp_json_member_double(json, "dollars_per_million_tokens", point->dollars_per_million_tokens);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static void write_clusters(const struct sp_service *service, struct sp_json *json)
{
    if (service->cluster_count == 0)
        return;
    sp_json_key(json, "clusters");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < service->cluster_count; i++) {
        const struct sp_service_cluster *row = &service->clusters[i];
        sp_json_begin_object(json);
        sp_json_member_string(json, "device", row->device);
        sp_json_member_int(json, "devices_available", row->devices_available);
        sp_json_member_bool(json, "fits", row->fits);
        sp_json_member_string(json, "message", row->message);
        if (row->fits) {
            sp_json_member_int(json, "copies", row->copies);
            sp_json_member_int(json, "devices", row->devices);
            if (service->is_llm)
                sp_json_member_int(json, "concurrency", row->concurrency);
            sp_json_member_double(json, "request_seconds", row->request_seconds);
            sp_json_member_double(json, "requests_per_second", row->requests_per_second);
            if (row->price_per_hour > 0)
                sp_json_member_double(json, "price_per_hour", row->price_per_hour);
        }
        sp_json_member_bool(json, "chosen", row->is_chosen);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

void sp_service_write_json(const struct sp_plan *plan, struct sp_json *json)
{
    const struct sp_service *service = plan->service;
    if (service == NULL)
        return;
    sp_json_key(json, "service");
    sp_json_begin_object(json);
    sp_json_member_string(json, "objective", service->objective);
    sp_json_member_int(json, "copies", service->copies);
    sp_json_member_int(json, "devices", service->devices);
    if (service->is_llm) {
        sp_json_member_int(json, "concurrency", service->concurrency);
        sp_json_member_int(json, "micro_batches", service->micro_batches);
        write_chunk(json, service->chunk);
        write_bar(json, "ttft_seconds", "ttft_range", &service->ttft_seconds);
        write_bar(json, "tpot_seconds", "tpot_range", &service->tpot_seconds);
    }
    write_bar(json, "request_seconds", "request_range", &service->request_seconds);
    write_rates(service, json);
    sp_json_member_double(json, "cache_bytes", service->cache_bytes);
    sp_json_member_double(json, "memory_bytes", service->memory_bytes);
    if (service->is_llm) {
        sp_json_member_int(json, "memory_concurrency", service->memory_concurrency);
        sp_json_member_int(json, "limit_concurrency", service->limit_concurrency);
    }
    write_limits(service, json);
    write_phases(service, json);
    write_pools(service->pools, json);
    write_times(service->times, json);
    write_candidates(service, json);
    write_front(json, "front_by_tpot", service->by_tpot_count, service->by_tpot);
    write_front(json, "front_by_price", service->by_price_count, service->by_price);
    write_clusters(service, json);
    sp_json_end_object(json);
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

/* "12.1 ms (90%: 10.9 ms to 14.2 ms)" */
static void text_bar(struct sp_buf *buf, const struct sp_error_bar *bar, void (*write)(struct sp_buf *, double))
{
    write(buf, bar->value);
    if (!(bar->low < bar->high))
        return;
    sp_buf_text(buf, " (90%: ");
    write(buf, bar->low);
    sp_buf_text(buf, " to ");
    write(buf, bar->high);
    sp_buf_text(buf, ")");
}

/* A line of a paragraph under a name of ten letters; `cell` is empty afterwards. */
static void paragraph(struct sp_buf *buf, const char *name, struct sp_buf *cell)
{
    sp_buf_printf(buf, "%-12s", name);
    sp_text_wrapped(buf, cell->size > 0 ? cell->data : "", 12, TEXT_COLUMNS);
    sp_buf_clear(cell);
}

static void text_users(const struct sp_service *service, struct sp_buf *cell, struct sp_buf *buf)
{
    if (service->is_llm) {
        sp_buf_text(cell, "first token after ");
        text_bar(cell, &service->ttft_seconds, sp_text_seconds);
        sp_buf_text(cell, ", then one every ");
        text_bar(cell, &service->tpot_seconds, sp_text_seconds);
        sp_buf_text(cell, "; ");
    }
    sp_buf_text(cell, "a request takes ");
    text_bar(cell, &service->request_seconds, sp_text_seconds);
    paragraph(buf, "Users see", cell);
    text_bar(cell, &service->requests_per_second, sp_text_rate);
    sp_buf_text(cell, " requests per second");
    if (service->is_llm) {
        sp_buf_text(cell, ", ");
        text_bar(cell, &service->tokens_per_second, sp_text_rate);
        sp_buf_text(cell, " tokens per second; of a device ");
        sp_text_rate(cell, service->tokens_per_second.value / service->devices);
    }
    if (service->has_rate) {
        sp_buf_text(cell, "; at most ");
        text_bar(cell, &service->capacity_per_second, sp_text_rate);
        sp_buf_text(cell, " requests per second");
    }
    if (service->price_per_hour > 0) {
        sp_buf_printf(cell, "; %.2f US dollars an hour, ", service->price_per_hour);
        sp_text_rate(cell, service->requests_per_second.value * HOUR / service->price_per_hour);
        sp_buf_text(cell, " requests a dollar");
    }
    paragraph(buf, "Served", cell);
}

static void text_memory(const struct sp_service *service, struct sp_buf *cell, struct sp_buf *buf)
{
    sp_text_bytes(cell, service->memory_bytes);
    sp_buf_text(cell, " on the fullest device; ");
    sp_text_bytes(cell, service->cache_bytes);
    sp_buf_text(cell, " of state on all of them");
    if (service->is_llm)
        sp_buf_printf(cell, "; memory allows %lld sequences in flight, memory and limits %lld",
                      (long long)service->memory_concurrency, (long long)service->limit_concurrency);
    paragraph(buf, "Memory", cell);
}

static void text_pools(const struct sp_service_pools *pools, struct sp_buf *cell, struct sp_buf *buf)
{
    if (pools == NULL)
        return;
    sp_buf_printf(cell, "%u x %s for prompts, at most ", pools->prompt_copies, pools->prompt_description);
    sp_text_rate(cell, pools->prompt_rate);
    sp_buf_printf(cell, " a second; %u x %s for decode steps, at most ", pools->step_copies, pools->step_description);
    sp_text_rate(cell, pools->step_rate);
    sp_buf_text(cell, " a second; the cache of a request, ");
    sp_text_bytes(cell, pools->cache_bytes);
    sp_buf_text(cell, ", is sent in ");
    sp_text_seconds(cell, pools->transfer_seconds);
    sp_buf_printf(cell, "; prompts keep their devices for %.0f%% of the time, caches the links for %.0f%%",
                  100 * pools->prompt_share, 100 * pools->link_share);
    paragraph(buf, "Pools", cell);
}

static void text_limits(const struct sp_service *service, struct sp_buf *cell, struct sp_buf *buf)
{
    for (uint32_t i = 0; i < service->limit_count; i++) {
        const struct sp_service_limit *limit = &service->limits[i];
        sp_buf_printf(cell, "%s%s %.4g is %s (%.4g)", i > 0 ? "; " : "", limit->name, limit->limit,
                      states[limit->state], limit->figure.value);
    }
    if (service->limit_count > 0)
        paragraph(buf, "Limits", cell);
}

static void cell_end(struct sp_buf *buf, struct sp_buf *cell, int width)
{
    sp_buf_printf(buf, "%*s", width, cell->size == 0 ? "" : cell->data);
    sp_buf_clear(cell);
}

static void cell_seconds(struct sp_buf *buf, struct sp_buf *cell, double seconds)
{
    sp_text_seconds(cell, seconds);
    cell_end(buf, cell, 11);
}

static void name_cell(struct sp_buf *buf, struct sp_buf *cell, const char *name, int width)
{
    sp_text_cut(cell, name, (size_t)width - 1);
    sp_buf_printf(buf, "%-*s", width, cell->size == 0 ? "" : cell->data);
    sp_buf_clear(cell);
}

/* "9.8 ms (3 % less)" of what the plan takes. */
static void text_change(struct sp_buf *buf, double seconds, double of_plan)
{
    const double share = 100 * (seconds / of_plan - 1);
    sp_text_seconds(buf, seconds);
    if (fabs(share) < 0.05)
        sp_buf_text(buf, " (the same)");
    else
        sp_buf_printf(buf, " (%.3g %% %s)", fabs(share), share < 0 ? "less" : "more");
}

/* What a plan for the phase alone takes, and what the others would. */
static void text_alone(const struct sp_service *service, uint32_t index, struct sp_buf *cell, struct sp_buf *buf)
{
    const struct sp_service_phase *phase = &service->phases[index];
    if (phase->alone == NULL)
        return;
    sp_buf_text(cell, "A plan for this phase alone takes ");
    text_change(cell, phase->alone[index].latency_seconds, phase->latency_seconds.value);
    for (uint32_t i = 0; i < service->phase_count; i++) {
        if (i == index)
            continue;
        sp_buf_printf(cell, ", '%.80s' then ", service->phases[i].name);
        text_change(cell, phase->alone[i].latency_seconds, service->phases[i].latency_seconds.value);
        if (!phase->alone[i].fits)
            sp_buf_text(cell, ", for which memory does not suffice");
    }
    sp_buf_text(cell, ".");
    sp_buf_text(buf, "  ");
    sp_text_wrapped(buf, cell->data, 2, TEXT_COLUMNS);
    sp_buf_clear(cell);
}

/* The batch that was chosen, and how long requests wait for each other. */
static void text_batch(const struct sp_service_phase *phase, struct sp_buf *cell, struct sp_buf *buf)
{
    if (phase->batch > 0)
        sp_buf_printf(buf, "  of a batch of %lld, the best one\n", (long long)phase->batch);
    if (phase->fill_seconds <= 0)
        return;
    sp_text_seconds(cell, phase->fill_seconds);
    sp_buf_printf(buf, "  after %s in the mean, until as many requests are there\n", cell->data);
    sp_buf_clear(cell);
}

static void text_phases(const struct sp_service *service, struct sp_buf *cell, struct sp_buf *buf)
{
    sp_buf_printf(buf, "\n%-34s%12s%11s%11s%11s%7s\n", "Phase", "Runs/request", "Latency", "Interval", "Memory",
                  "Time");
    for (uint32_t i = 0; i < service->phase_count; i++) {
        const struct sp_service_phase *phase = &service->phases[i];
        name_cell(buf, cell, phase->name, NAME_COLUMNS);
        sp_buf_printf(buf, "%12.4g", phase->runs);
        cell_seconds(buf, cell, phase->latency_seconds.value);
        cell_seconds(buf, cell, phase->interval_seconds.value);
        sp_text_bytes(cell, phase->memory_bytes);
        cell_end(buf, cell, 11);
        sp_buf_printf(buf, "%6.0f%%%s\n", 100 * phase->time_share, phase->is_planned ? "  planned" : "");
        text_batch(phase, cell, buf);
        if (phase->micro_batches > 1)
            sp_buf_printf(buf, "  in %u micro-batches, one behind the other\n", phase->micro_batches);
        sp_buf_text(buf, "  ");
        sp_text_wrapped(buf, phase->bottleneck, 2, TEXT_COLUMNS);
        text_alone(service, i, cell, buf);
    }
}

static void text_candidates(const struct sp_service *service, struct sp_buf *cell, struct sp_buf *buf)
{
    char name[256];
    if (service->candidate_count < 2)
        return;
    sp_buf_printf(buf, "\n%-41s%-10s%11s%11s%12s\n", "Services that were looked at", "Planned", "In flight", "Request",
                  "Requests/s");
    for (uint32_t i = 0; i < service->candidate_count && i < TEXT_CANDIDATES; i++) {
        const struct sp_service_candidate *one = &service->candidates[i];
        (void)snprintf(name, sizeof name, "%u x %s", one->copies, one->description);
        if (one->prompt_copies > 0)
            (void)snprintf(name, sizeof name, "pools, prefill %u x %u, decode %u x %u", one->prompt_copies,
                           one->prompt_devices, one->copies, one->devices);
        if (one->chunk > 0)
            (void)snprintf(name, sizeof name, "%u x %s, chunks of %lld", one->copies, one->description,
                           (long long)one->chunk);
        name_cell(buf, cell, name, DESCRIPTION_COLUMNS + 1);
        name_cell(buf, cell, one->is_for_all ? "all" : one->planned, 10);
        sp_buf_printf(buf, "%11lld", (long long)one->concurrency);
        cell_seconds(buf, cell, one->request_seconds);
        sp_text_rate(cell, one->requests_per_second);
        cell_end(buf, cell, 12);
        sp_buf_printf(buf, "%s\n",
                      one->is_chosen         ? "  this plan"
                      : !one->fits           ? "  lacks memory"
                      : one->limit_ratio > 1 ? "  breaks a limit"
                                             : "");
    }
    if (service->candidate_count > TEXT_CANDIDATES)
        sp_buf_printf(buf, "and %u more (the JSON form lists them)\n", service->candidate_count - TEXT_CANDIDATES);
}

/* So many of them, the first and the last among them. */
static void text_front(const struct sp_service *service, struct sp_buf *cell, struct sp_buf *buf)
{
    const uint32_t count = service->by_tpot_count, shown = count < TEXT_FRONT ? count : TEXT_FRONT;
    char name[256];
    if (count < 2)
        return;
    sp_buf_printf(buf, "\n%-41s%11s%11s%11s%14s%12s\n", "Services that no other one beats", "In flight", "TTFT", "TPOT",
                  "Tokens/s/dev", "USD/Mtoken");
    for (uint32_t i = 0; i < shown; i++) {
        const struct sp_service_point *point = &service->by_tpot[i * (count - 1) / (shown - 1)];
        (void)snprintf(name, sizeof name, "%u x %s", point->copies, point->description);
        if (point->prompt_copies > 0)
            (void)snprintf(name, sizeof name, "pools, prefill %u x %u, decode %u x %u", point->prompt_copies,
                           point->prompt_devices, point->copies, point->devices);
        name_cell(buf, cell, name, DESCRIPTION_COLUMNS + 1);
        sp_buf_printf(buf, "%11lld", (long long)point->concurrency);
        cell_seconds(buf, cell, point->ttft_seconds);
        cell_seconds(buf, cell, point->tpot_seconds);
        sp_text_rate(cell, point->tokens_per_second_per_device);
        cell_end(buf, cell, 14);
        if (point->dollars_per_million_tokens > 0)
            sp_buf_printf(buf, "%12.3g", point->dollars_per_million_tokens);
        sp_buf_text(buf, "\n");
    }
    if (count > shown)
        sp_buf_printf(buf, "and %u more (the JSON form lists them)\n", count - shown);
}

static void text_clusters(const struct sp_service *service, struct sp_buf *cell, struct sp_buf *buf)
{
    char name[256];
    if (service->cluster_count == 0)
        return;
    sp_buf_printf(buf, "\n%-41s%8s%10s%11s%12s%12s\n", "Clusters that were asked about", "Copies", "Devices", "Request",
                  "Requests/s", "USD/hour");
    for (uint32_t i = 0; i < service->cluster_count; i++) {
        const struct sp_service_cluster *row = &service->clusters[i];
        (void)snprintf(name, sizeof name, "%u x %s", row->devices_available, row->device);
        name_cell(buf, cell, name, DESCRIPTION_COLUMNS + 1);
        if (!row->fits) {
            sp_buf_text(buf, "    none keeps the limits\n");
            continue;
        }
        sp_buf_printf(buf, "%8u%10u", row->copies, row->devices);
        cell_seconds(buf, cell, row->request_seconds);
        sp_text_rate(cell, row->requests_per_second);
        cell_end(buf, cell, 12);
        sp_buf_printf(buf, "%12.2f%s\n", row->price_per_hour, row->is_chosen ? "  this plan" : "");
    }
}

void sp_service_write_text(const struct sp_plan *plan, struct sp_buf *buf)
{
    const struct sp_service *service = plan->service;
    struct sp_buf cell;
    if (service == NULL)
        return;
    sp_buf_init(&cell, SP_REASON_BYTES);
    sp_buf_printf(buf, "\nService     %u %s of the model on %u devices", service->copies,
                  service->copies == 1 ? "copy" : "copies", service->devices);
    if (service->is_llm)
        sp_buf_printf(buf, ", %lld sequences in flight", (long long)service->concurrency);
    if (service->chunk > 0)
        sp_buf_printf(buf, ", prompts in chunks of %lld tokens", (long long)service->chunk);
    if (service->micro_batches > 1)
        sp_buf_printf(buf, ", in %u micro-batches on each copy", service->micro_batches);
    sp_buf_text(buf, "\n");
    text_users(service, &cell, buf);
    text_memory(service, &cell, buf);
    text_pools(service->pools, &cell, buf);
    text_limits(service, &cell, buf);
    text_phases(service, &cell, buf);
    text_candidates(service, &cell, buf);
    text_front(service, &cell, buf);
    text_clusters(service, &cell, buf);
    if (sp_buf_failed(&cell))
        buf->failed = true;
    sp_buf_release(&cell);
}
