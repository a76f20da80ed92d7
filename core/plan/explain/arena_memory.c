/*
 * What the stages of a plan take of a runtime's memory, and a note where that is more than there is.
 */
#include <string.h>

#include "base/units.h"
#include "cost/buffer_reuse.h"
#include "cost/live_bytes.h"
#include "plan/internal.h"

#define SENTENCE_BYTES 1024

static bool sort_nodes(struct sp_plan *plan)
{
    const struct sp_placement *placement = &plan->result->placement;
    return sp_rows_sort(plan->arena, placement->stage_of, plan->workload->node_count, placement->stage_count,
                        &plan->stage_nodes);
}

/* What a runtime takes on a device of each stage: its arena, and beside it the inputs that its caller holds. NULL
   without memory. */
static const double *find_runtime_bytes(struct sp_plan *plan)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    double *bytes = SP_NEW_ARRAY(plan->arena, evaluation->stage_count, double);
    struct sp_places places;
    if (bytes == NULL || !sp_places_init(plan, &places))
        return NULL;
    for (uint32_t s = 0; s < evaluation->stage_count; s++) {
        const struct sp_stage_cost *cost = &evaluation->stages[s];
        bytes[s] = cost->weights_bytes + cost->cache_bytes + cost->communication_bytes + plan->arena_bytes[s];
    }
    for (uint32_t t = 0; t < plan->workload->tensor_count; t++) {
        if (!sp_work_is_held(&plan->workload->tensors[t], false))
            continue;
        if (!sp_plan_places(plan, t, &places))
            return NULL;
        for (uint32_t i = 0; i < places.place_count; i++)
            bytes[places.places[i].stage] +=
                sp_plan_local_bytes(plan, places.places[i].stage, places.places[i].layout, t);
    }
    return bytes;
}

/* One note for all stages that fit, but not with an arena: it names the one that lacks most. */
static bool note_arenas(struct sp_plan *plan)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    const double *runtime_bytes = find_runtime_bytes(plan);
    uint32_t worst = 0, count = 0;
    double lack = 0;
    if (runtime_bytes == NULL)
        return false;
    for (uint32_t s = 0; s < evaluation->stage_count; s++) {
        const double more = runtime_bytes[s] - evaluation->stages[s].capacity_bytes;
        count += more > 0;
        if (more > lack) {
            lack = more;
            worst = s;
        }
    }
    if (count == 0)
        return true;
    struct sp_buf text;
    sp_buf_init(&text, SENTENCE_BYTES);
    sp_buf_printf(&text, "Stage %u fits the memory of device%s ", worst,
                  sp_plan_stage_devices(plan, worst) > 1 ? "s" : "");
    sp_reason_devices(plan, worst, &text);
    sp_buf_text(&text, ", but ONNX Runtime would take about ");
    sp_text_bytes(&text, runtime_bytes[worst]);
    sp_buf_text(&text, " of ");
    sp_text_bytes(&text, evaluation->stages[worst].capacity_bytes);
    sp_buf_text(&text, ": its arena gives the memory of a tensor only to tensors of the same shape");
    if (count > 1)
        sp_buf_printf(&text, "; so it is with %u more stages", count - 1);
    sp_buf_text(&text, ".");
    const char *message = sp_buf_failed(&text) ? NULL : sp_arena_string(plan->arena, text.data, text.size);
    sp_buf_release(&text);
    const struct sp_plan_note note = {
        .code = "ARENA_OVER_CAPACITY",
        .severity = "warning",
        .message = message,
        .hint = "Runtimes that cut memory freely are not concerned; otherwise keep a reserve by a smaller "
                "memory_limit_bytes of the cluster.",
    };
    return message != NULL && sp_plan_add_note(plan, &note);
}

/* ---- stages that split their operators --------------------------------------------------------------------------- */

/* The workload as one device of each stage has it: what nodes of blocks make is a part of it. NULL without memory. */
static const struct sp_workload *local_workload(const struct sp_plan *plan)
{
    const struct sp_workload *whole = plan->workload;
    struct sp_workload *local = SP_NEW(plan->arena, struct sp_workload);
    struct sp_work_node *nodes = SP_NEW_ARRAY(plan->arena, whole->node_count, struct sp_work_node);
    struct sp_work_tensor *tensors = SP_NEW_ARRAY(plan->arena, whole->tensor_count, struct sp_work_tensor);
    if (local == NULL || nodes == NULL || tensors == NULL)
        return NULL;
    *local = *whole;
    local->nodes = nodes;
    local->tensors = tensors;
    memcpy(nodes, whole->nodes, whole->node_count * sizeof *nodes);
    memcpy(tensors, whole->tensors, whole->tensor_count * sizeof *tensors);
    for (uint32_t n = 0; n < whole->node_count; n++) {
        const struct sp_strategy *strategy = sp_plan_strategy(plan, n);
        if (strategy == NULL)
            continue;
        nodes[n].workspace_bytes = strategy->workspace_bytes;
        for (uint32_t o = 0; o < nodes[n].output_count; o++) {
            const uint32_t t = nodes[n].outputs[o];
            tensors[t].bytes =
                sp_plan_local_bytes(plan, plan->result->placement.stage_of[n], sp_plan_layout(plan, n, t), t);
        }
    }
    return local;
}

/* The last node of the stage that has this tensor in this layout: a copy that was brought stays until then. */
static uint32_t last_use(const struct sp_plan *plan, uint32_t stage, const struct sp_intra_use *use)
{
    const struct sp_work_tensor *tensor = &plan->workload->tensors[use->tensor];
    uint32_t last = use->node;
    for (uint32_t i = 0; i < tensor->consumer_count; i++) {
        const uint32_t node = tensor->consumers[i];
        if (plan->result->placement.stage_of[node] == stage && sp_plan_layout(plan, node, use->tensor) == use->to)
            last = node > last ? node : last;
    }
    return last;
}

/* The largest sum of copies in other layouts that are there at one time; -1 without memory. */
static double copies_peak(const struct sp_plan *plan, uint32_t stage)
{
    const struct sp_sharded_stage *sharded = sp_plan_sharded(plan, stage);
    const struct sp_arena_mark mark = sp_arena_mark(plan->arena);
    const struct sp_intra_result *intra = sharded->intra;
    struct sp_live live;
    if (!sp_live_init(&live, plan->arena, plan->workload->node_count))
        return -1;
    for (uint32_t i = 0; intra != NULL && i < intra->use_count; i++) {
        const struct sp_intra_use *use = &intra->uses[i];
        if (use->seconds > 0)
            sp_live_add(&live, use->node, last_use(plan, stage, use),
                        sp_plan_local_bytes(plan, stage, use->to, use->tensor));
    }
    for (uint32_t n = 0; n < plan->workload->node_count; n++)
        (void)sp_live_step(&live, n, 0);
    sp_arena_rewind(plan->arena, mark);
    return live.peak;
}

/* ---- all -------------------------------------------------------------------------------------------------------- */

static enum sp_status measure_arenas(struct sp_plan *plan, struct sp_error *err)
{
    const struct sp_workload *workload = plan->result->sharded != NULL ? local_workload(plan) : plan->workload;
    if (workload == NULL)
        return sp_fail_memory(err);
    for (uint32_t s = 0; s < plan->result->evaluation->stage_count; s++) {
        const uint32_t begin = plan->stage_nodes.start[s], count = plan->stage_nodes.start[s + 1] - begin;
        plan->arena_bytes[s] = sp_reuse_peak(
            plan->arena, workload,
            &(struct sp_placed_stage){&plan->result->placement, s, count, &plan->stage_nodes.items[begin]});
        const double copies = sp_plan_sharded(plan, s) != NULL ? copies_peak(plan, s) : 0;
        if (plan->arena_bytes[s] < 0 || copies < 0)
            return sp_fail_memory(err);
        plan->arena_bytes[s] += copies;
    }
    return SP_OK;
}

enum sp_status sp_plan_measure_memory(struct sp_plan *plan, struct sp_error *err)
{
    plan->arena_bytes = SP_NEW_ARRAY(plan->arena, plan->result->evaluation->stage_count, double);
    if (plan->arena_bytes == NULL || !sort_nodes(plan))
        return sp_fail_memory(err);
    if (plan->model == NULL) { /* a graph of costs: no runtime of which anything is known */
        for (uint32_t s = 0; s < plan->result->evaluation->stage_count; s++)
            plan->arena_bytes[s] = plan->result->evaluation->stages[s].activations_peak_bytes;
        return SP_OK;
    }
    const struct sp_arena_mark mark = sp_arena_mark(plan->arena);
    enum sp_status status = measure_arenas(plan, err);
    sp_arena_rewind(plan->arena, mark); /* the workload of one device */
    if (status == SP_OK && !note_arenas(plan))
        status = sp_fail_memory(err);
    return status;
}
