#include "plan/plan.h"

#include <string.h>
#include <xxhash.h>

#include "plan/internal.h"
#include "plan/version.h"

/* Everything that the answer depends on, each part ended by a NUL so that no two questions run together. */
static enum sp_status make_id(struct sp_plan *plan, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    struct sp_buf text;
    struct sp_json json;
    XXH128_canonical_t canonical;
    char *id;
    sp_buf_init(&text, (size_t)128 << 20);
    sp_buf_printf(&text, "shardplan %s%c", SP_VERSION, 0);
    if (plan->model_sha256[0] != '\0')
        sp_buf_printf(&text, "%s%c", plan->model_sha256, 0);
    else
        sp_buf_printf(&text, "%s %llu%c", plan->model_name,
                      (unsigned long long)(plan->model != NULL ? plan->model->size : plan->file->given_size), 0);
    sp_json_init_buf(&json, false, &text);
    sp_cluster_write(plan->cluster, &json);
    if (sp_json_finish(&json, NULL) != SP_OK)
        text.failed = true;
    sp_buf_printf(&text, "%c%s%c%s%c", 0, sp_objective_name(plan->objective), 0, plan->options_json, 0);
    if (sp_buf_failed(&text) || (id = sp_arena_alloc(plan->arena, 2 * sizeof canonical + 1)) == NULL) {
        status = sp_fail_memory(err);
        goto out;
    }
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(text.data, text.size));
    for (size_t i = 0; i < sizeof canonical; i++)
        (void)snprintf(id + 2 * i, 3, "%02x", canonical.digest[i]);
    plan->id = id;
out:
    sp_buf_release(&text);
    return status;
}

/* The strategies by node, of all stages. */
static enum sp_status sort_strategies(struct sp_plan *plan, struct sp_error *err)
{
    if (plan->result->sharded == NULL)
        return SP_OK;
    plan->node_strategy = SP_NEW_ARRAY(plan->arena, plan->workload->node_count, uint32_t);
    if (plan->node_strategy == NULL)
        return sp_fail_memory(err);
    for (uint32_t s = 0; s < plan->result->placement.stage_count; s++) {
        const struct sp_sharded_stage *sharded = sp_plan_sharded(plan, s);
        for (uint32_t i = 0; sharded != NULL && i < sharded->node_count; i++)
            plan->node_strategy[sharded->nodes[i]] = sharded->strategy_of[i];
    }
    return SP_OK;
}

/* Where the limit on latency is kept by the estimate, but not by all of its range. */
static bool note_limit(struct sp_plan *plan)
{
    const struct sp_error_bar *latency = &plan->bars.latency_seconds;
    if (plan->max_latency_seconds <= 0 || latency->high <= plan->max_latency_seconds)
        return true;
    const struct sp_plan_note note = {
        .code = "LATENCY_NEAR_LIMIT",
        .severity = "warning",
        .message = sp_arena_printf(plan->arena,
                                   "A request may take %.4g ms and is estimated to take %.4g ms, but that may be "
                                   "%.4g ms: the limit lies within the range of the estimate.",
                                   plan->max_latency_seconds * 1e3, latency->value * 1e3, latency->high * 1e3),
        .hint = "Ask for less, or measure the device: 'shardplan calibrate', or a profile of the model.",
    };
    return note.message != NULL && sp_plan_add_note(plan, &note);
}

enum sp_status sp_plan_finish(struct sp_plan *plan, struct sp_error *err)
{
    struct sp_buf text;
    enum sp_status status = sort_strategies(plan, err);
    if (status == SP_OK)
        status = sp_plan_measure_memory(plan, err);
    if (status == SP_OK)
        status = sp_plan_find_cuts(plan, err);
    if (status == SP_OK &&
        (!sp_error_bars(plan->arena, plan->workload, plan->cluster, plan->result, plan->cut_seconds, &plan->bars) ||
         !note_limit(plan)))
        status = sp_fail_memory(err);
    if (status != SP_OK)
        return status;
    sp_buf_init(&text, SP_REASON_BYTES);
    sp_reason_bottleneck(plan, &text);
    plan->bottleneck = sp_buf_failed(&text) ? NULL : sp_arena_string(plan->arena, text.data, text.size);
    sp_buf_release(&text);
    if (plan->bottleneck == NULL)
        return sp_fail_memory(err);
    return make_id(plan, err);
}
