/*
 * What the stages of a plan take of a runtime's memory, and a note where that is more than there is.
 */
#include "base/units.h"
#include "cost/reuse.h"
#include "plan/internal.h"

#define SENTENCE_BYTES 1024

static bool sort_nodes(struct sp_plan *plan)
{
    const struct sp_placement *placement = &plan->result->placement;
    const uint32_t nodes = plan->workload->node_count, stages = placement->stage_count;
    plan->stage_nodes = SP_NEW_ARRAY(plan->arena, nodes, uint32_t);
    plan->stage_begin = SP_NEW_ARRAY(plan->arena, (size_t)stages + 2, uint32_t);
    if (plan->stage_nodes == NULL || plan->stage_begin == NULL)
        return false;
    for (uint32_t n = 0; n < nodes; n++)
        plan->stage_begin[placement->stage_of[n] + 2]++;
    for (uint32_t s = 2; s < stages + 2; s++)
        plan->stage_begin[s] += plan->stage_begin[s - 1];
    for (uint32_t n = 0; n < nodes; n++)
        plan->stage_nodes[plan->stage_begin[placement->stage_of[n] + 1]++] = n;
    return true;
}

static double runtime_bytes(const struct sp_plan *plan, uint32_t stage)
{
    const struct sp_stage_cost *cost = &plan->result->evaluation->stages[stage];
    return cost->weights_bytes + cost->communication_bytes + plan->arena_bytes[stage];
}

/* One note for all stages that fit, but not with an arena: it names the one that lacks most. */
static bool note_arenas(struct sp_plan *plan)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    uint32_t worst = 0, count = 0;
    double lack = 0;
    for (uint32_t s = 0; s < evaluation->stage_count; s++) {
        const double more = runtime_bytes(plan, s) - evaluation->stages[s].capacity_bytes;
        count += more > 0;
        if (more > lack) {
            lack = more;
            worst = s;
        }
    }
    if (count == 0)
        return true;
    struct sp_plan_note *notes = SP_NEW_ARRAY(plan->arena, (size_t)plan->note_count + 1, struct sp_plan_note);
    struct sp_buf text;
    sp_buf_init(&text, SENTENCE_BYTES);
    sp_buf_printf(&text, "Stage %u fits the memory of device %u, but ONNX Runtime would take about ", worst,
                  evaluation->stages[worst].device);
    sp_text_bytes(&text, runtime_bytes(plan, worst));
    sp_buf_text(&text, " of ");
    sp_text_bytes(&text, evaluation->stages[worst].capacity_bytes);
    sp_buf_text(&text, ": its arena gives the memory of a tensor only to tensors of the same shape");
    if (count > 1)
        sp_buf_printf(&text, "; so it is with %u more stages", count - 1);
    sp_buf_text(&text, ".");
    const char *message = sp_buf_failed(&text) ? NULL : sp_arena_string(plan->arena, text.data, text.size);
    sp_buf_release(&text);
    if (notes == NULL || message == NULL)
        return false;
    if (plan->note_count > 0)
        memcpy(notes, plan->notes, plan->note_count * sizeof *notes);
    notes[plan->note_count++] = (struct sp_plan_note){
        .code = "ARENA_OVER_CAPACITY",
        .severity = "warning",
        .message = message,
        .hint = "Runtimes that cut memory freely are not concerned; otherwise keep a reserve by a smaller "
                "memory_limit_bytes of the cluster.",
    };
    plan->notes = notes;
    return true;
}

enum sp_status sp_plan_measure_memory(struct sp_plan *plan, struct sp_error *err)
{
    const uint32_t stages = plan->result->evaluation->stage_count;
    plan->arena_bytes = SP_NEW_ARRAY(plan->arena, stages, double);
    if (plan->arena_bytes == NULL || !sort_nodes(plan))
        return sp_fail_memory(err);
    for (uint32_t s = 0; s < stages; s++) {
        const uint32_t begin = plan->stage_begin[s], count = plan->stage_begin[s + 1] - begin;
        plan->arena_bytes[s] =
            sp_reuse_peak(plan->arena, plan->workload, &plan->result->placement, s, &plan->stage_nodes[begin], count);
        if (plan->arena_bytes[s] < 0)
            return sp_fail_memory(err);
    }
    return note_arenas(plan) ? SP_OK : sp_fail_memory(err);
}
