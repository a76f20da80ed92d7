/* Whether a service keeps its limits, and what has to be said of it. */
#include <math.h>
#include <string.h>

#include "plan/service/internal.h"

static double add_limit(struct sp_service *service, const char *name, double limit, struct sp_error_bar figure)
{
    if (limit <= 0)
        return 0;
    struct sp_service_limit *entry = &service->limits[service->limit_count++];
    *entry = (struct sp_service_limit){name, limit, figure, SP_LIMIT_KEPT};
    if (figure.value > limit)
        entry->state = SP_LIMIT_BROKEN;
    else if (figure.high > limit)
        entry->state = SP_LIMIT_UNCERTAIN;
    return figure.value / limit;
}

double sp_service_judge(const struct sp_traffic *traffic, struct sp_service *service)
{
    double ratio = 0;
    service->limit_count = 0;
    ratio = fmax(ratio, add_limit(service, "ttft_seconds", traffic->limits.ttft_seconds, service->ttft_seconds));
    ratio = fmax(ratio, add_limit(service, "tpot_seconds", traffic->limits.tpot_seconds, service->tpot_seconds));
    ratio =
        fmax(ratio, add_limit(service, "request_seconds", traffic->limits.request_seconds, service->request_seconds));
    ratio = fmax(ratio, add_limit(service, "budget_per_hour", traffic->budget_per_hour,
                                  (struct sp_error_bar){service->price_per_hour, service->price_per_hour,
                                                        service->price_per_hour}));
    if (service->has_rate) { /* more must be served than are asked */
        const struct sp_error_bar *most = &service->capacity_per_second;
        struct sp_service_limit *entry = &service->limits[service->limit_count++];
        *entry = (struct sp_service_limit){"rate_per_second", service->rate_per_second, *most, SP_LIMIT_KEPT};
        if (service->rate_per_second > most->value)
            entry->state = SP_LIMIT_BROKEN;
        else if (service->rate_per_second > most->low)
            entry->state = SP_LIMIT_UNCERTAIN;
        ratio = fmax(ratio, service->rate_per_second / most->value);
    }
    return ratio;
}

#define ROUNDING 1e-9

double sp_service_value(const struct sp_serving *serving, const struct sp_service *service)
{
    if (serving->by_price)
        return service->price_per_hour;
    if (serving->objective == SP_OBJECTIVE_LATENCY || service->has_rate)
        return service->request_seconds.value;
    return 1 / service->requests_per_second.value;
}

bool sp_service_is_better(const struct sp_serving *serving, const struct sp_service *now, const struct sp_service *best)
{
    const double a = sp_service_value(serving, now), b = sp_service_value(serving, best);
    if (serving->objective == SP_OBJECTIVE_DEVICES && !serving->by_price && now->devices != best->devices)
        return now->devices < best->devices;
    if (fmax(a, b) > fmin(a, b) * (1 + serving->tolerance + ROUNDING))
        return a < b;
    if (now->devices != best->devices)
        return now->devices < best->devices;
    return now->request_seconds.value < best->request_seconds.value * (1 - ROUNDING);
}

/* ---- notes -------------------------------------------------------------------------------------------------------- */

bool sp_note_symbols(const struct sp_decoder_symbols *symbols, const struct sp_traffic *traffic,
                     struct sp_bindings *bindings)
{
    const char *past = symbols->dims[SP_SYMBOL_PAST], *total = symbols->dims[SP_SYMBOL_TOTAL];
    bool are_given = false;
    for (int i = 0; i < SP_SYMBOL_COUNT; i++)
        are_given = are_given || traffic->symbols[i] != NULL;
    const char *cache = past != NULL
                            ? sp_arena_printf(bindings->arena, "those of the cache '%.80s'", past)
                            : "there is no cache, so that each step computes all positions of a sequence again";
    const char *sum = total != NULL ? sp_arena_printf(bindings->arena, ", of both together '%.80s'", total) : "";
    const struct sp_plan_note note = {
        .code = "WORKLOAD_SYMBOLS",
        .severity = past != NULL ? "note" : "warning",
        .message =
            cache == NULL || sum == NULL
                ? NULL
                : sp_arena_printf(bindings->arena,
                                  "By %s, the batch of the model is '%.80s', the positions of a step are '%.80s', "
                                  "%s%s.",
                                  are_given ? "what was given and its inputs" : "its inputs",
                                  symbols->dims[SP_SYMBOL_BATCH], symbols->dims[SP_SYMBOL_POSITIONS], cache, sum),
        .hint = past != NULL ? "\"symbols\" of the workload names them where this is not so."
                             : "Export the model with past keys and values as inputs.",
    };
    return note.message != NULL && sp_note_add(bindings, &note);
}

/* Which symbol it is, and what was chosen for it. */
static void say_batches(const struct sp_serving *serving, const struct sp_service *service, struct sp_buf *buf)
{
    const bool is_given = serving->traffic->symbols[SP_SYMBOL_BATCH] != NULL;
    const char *before = ": ";
    sp_buf_printf(buf, "By %s, the batch of the model is '%.80s'. Of a phase that leaves it open it is the best one",
                  is_given ? "what was given" : "its inputs", serving->batch_symbol);
    for (uint32_t i = 0; i < service->phase_count; i++) {
        if (service->phases[i].batch == 0)
            continue;
        sp_buf_printf(buf, "%s%lld for '%.80s'", before, (long long)service->phases[i].batch, service->phases[i].name);
        before = ", ";
    }
    sp_buf_text(buf, ".");
}

bool sp_note_batches(const struct sp_serving *serving, const struct sp_service *service, struct sp_bindings *bindings)
{
    struct sp_plan_note note = {
        .code = "WORKLOAD_SYMBOLS",
        .severity = "note",
        .hint = "\"symbols\" of the workload names it where this is not so.",
    };
    struct sp_buf buf;
    bool is_any = false;
    for (uint32_t i = 0; i < service->phase_count; i++)
        is_any = is_any || service->phases[i].batch > 0;
    if (!is_any)
        return true;
    sp_buf_init(&buf, SP_ERROR_MESSAGE_SIZE * (size_t)SP_MAX_PHASES);
    say_batches(serving, service, &buf);
    note.message = sp_buf_failed(&buf) ? NULL : sp_arena_string(bindings->arena, buf.data, buf.size);
    sp_buf_release(&buf);
    return note.message != NULL && sp_note_add(bindings, &note);
}

static bool note_limit(const struct sp_service_limit *limit, struct sp_bindings *bindings)
{
    const struct sp_plan_note note = {
        .code = "LIMIT_UNCERTAIN",
        .severity = "warning",
        .message =
            sp_arena_printf(bindings->arena,
                            "The limit %s %.4g is kept by the estimate, %.4g, but not by all of its 90 %% interval "
                            "(%.4g to %.4g): it may be broken.",
                            limit->name, limit->limit, limit->figure.value, limit->figure.low, limit->figure.high),
        .hint = "Measure the devices ('shardplan calibrate'), or leave more room.",
    };
    return note.message != NULL && sp_note_add(bindings, &note);
}

bool sp_note_service(const struct sp_service *service, struct sp_bindings *bindings)
{
    const struct sp_plan_note listed = {
        .code = "PRICE_LISTED",
        .severity = "note",
        .message =
            "The price is that of the catalog ('shardplan devices NAME' has its source), since the cluster states "
            "none.",
        .hint = "price_per_hour of a group of the cluster is what you pay.",
    };
    const struct sp_plan_note pool = {
        .code = "POOLS_SEPARATE",
        .severity = "note",
        .message = "The plan and its files are those of a copy for decode steps; a copy for prompts is a plan of its "
                   "own, whose "
                   "files '--emit' writes to the folder 'prefill' beside them.",
        .hint = "Elsewhere plan that one with the devices of a copy for prompts, '--objective latency', and the sizes "
                "of the "
                "phase prefill as '--dim'.",
    };
    bool ok = !service->price_is_listed || sp_note_add(bindings, &listed);
    ok = ok && (service->pools == NULL || sp_note_add(bindings, &pool));
    for (uint32_t i = 0; ok && i < service->limit_count; i++) {
        if (service->limits[i].state == SP_LIMIT_UNCERTAIN)
            ok = note_limit(&service->limits[i], bindings);
    }
    for (uint32_t i = 0; ok && i < service->phase_count; i++) {
        const struct sp_service_phase *phase = &service->phases[i];
        if (phase->moved_bytes <= 0)
            continue;
        const struct sp_plan_note note = {
            .code = "WEIGHTS_MOVE",
            .severity = "warning",
            .message =
                sp_arena_printf(bindings->arena,
                                "In the phase '%.80s' some operators cannot run on the parts of weights and states "
                                "that the plan has: %.4g bytes would have to lie elsewhere, which is in no figure.",
                                phase->name, phase->moved_bytes),
        };
        ok = note.message != NULL && sp_note_add(bindings, &note);
    }
    return ok;
}
