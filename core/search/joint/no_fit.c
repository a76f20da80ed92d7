/* Nothing fits: the plan that lacks least says where, when and of what there is too much. */
#include <math.h>

#include "base/buf.h"
#include "base/units.h"
#include "search/joint/bounds.h"
#include "search/joint/memory_peak.h"

#define TENSORS_NAMED  3
#define SENTENCE_BYTES SP_ERROR_MESSAGE_SIZE

/* "'x' (1.0 GB), 'y' (0.5 GB) and 7 more (0.1 GB) are alive": the largest ones, and what the others are together. */
static void name_tensors(const struct sp_workload *workload, const struct sp_memory_peak *peak, struct sp_buf *buf)
{
    double named = peak->workspace_bytes;
    for (uint32_t i = 0; i < peak->tensor_count && i < TENSORS_NAMED; i++) {
        sp_buf_printf(buf, "%s'%.48s' (", i == 0 ? ", where " : ", ", workload->tensors[peak->tensors[i].tensor].name);
        sp_text_bytes(buf, peak->tensors[i].bytes);
        sp_buf_text(buf, ")");
        named += peak->tensors[i].bytes;
    }
    if (peak->tensor_count > TENSORS_NAMED) {
        sp_buf_printf(buf, " and %u more (", peak->tensor_count - TENSORS_NAMED);
        sp_text_bytes(buf, peak->alive_bytes + peak->workspace_bytes - named);
        sp_buf_text(buf, ")");
    }
    if (peak->tensor_count > 0)
        sp_buf_text(buf, peak->tensor_count == 1 ? " is alive" : " are alive");
    if (peak->workspace_bytes > 0) {
        sp_buf_text(buf, peak->tensor_count > 0 ? " and it works on " : ", which works on ");
        sp_text_bytes(buf, peak->workspace_bytes);
    }
}

static void describe_stage(const struct sp_workload *workload, const struct sp_cluster *cluster,
                           const struct sp_stage_cost *cost, double capacity, const struct sp_memory_peak *peak,
                           struct sp_buf *buf)
{
    sp_text_bytes(buf, cost->total_bytes - capacity);
    sp_buf_printf(buf, " on device %u (%s): it needs ", cost->device, sp_cluster_device(cluster, cost->device)->name);
    sp_text_bytes(buf, cost->total_bytes);
    sp_buf_text(buf, " of ");
    sp_text_bytes(buf, capacity);
    sp_buf_text(buf, ", of which ");
    sp_text_bytes(buf, cost->weights_bytes);
    sp_buf_text(buf, " are weights");
    if (cost->cache_bytes > 0) {
        sp_buf_text(buf, ", ");
        sp_text_bytes(buf, cost->cache_bytes);
        sp_buf_text(buf, " caches");
    }
    if (cost->communication_bytes > 0) {
        sp_buf_text(buf, ", ");
        sp_text_bytes(buf, cost->communication_bytes);
        sp_buf_text(buf, " buffers of transfers");
    }
    if (peak->node != SP_NO_WORK) {
        sp_buf_printf(buf, "; it is fullest at node '%.60s'", workload->nodes[peak->node].name);
        name_tensors(workload, peak, buf);
    }
    sp_buf_text(buf, ".");
}

enum sp_status sp_joint_describe_lack(struct sp_arena *arena, const struct sp_workload *workload,
                                      const struct sp_cluster *cluster, const struct sp_evaluated_plan *plan,
                                      struct sp_error *err)
{
    const struct sp_evaluation *evaluation = plan->evaluation;
    struct sp_memory_peak peak;
    struct sp_buf buf;
    double most = -INFINITY, capacity = 0;
    uint32_t worst = 0;
    for (uint32_t s = 0; s < evaluation->stage_count; s++) {
        const struct sp_stage_cost *cost = &evaluation->stages[s];
        const double own = sp_cluster_memory(cluster, cost->device) - cluster->reserved_bytes;
        if (cost->total_bytes - own <= most)
            continue;
        most = cost->total_bytes - own;
        capacity = own;
        worst = s;
    }
    const enum sp_status status = sp_memory_peak_of_stage(arena, workload, cluster, plan, worst, &peak, err);
    if (status != SP_OK)
        return status;
    sp_buf_init(&buf, (size_t)4 * SENTENCE_BYTES);
    sp_buf_printf(&buf, "No plan fits. The closest has %u stage%s and lacks ", evaluation->stage_count,
                  evaluation->stage_count == 1 ? "" : "s");
    describe_stage(workload, cluster, &evaluation->stages[worst], capacity, &peak, &buf);
    if (sp_buf_failed(&buf))
        (void)sp_fail_memory(err);
    else
        (void)sp_fail(err, SP_ERR_NOFIT, "NO_PLAN_FITS", "%s", buf.data);
    sp_buf_release(&buf);
    return err->status == SP_ERR_NOFIT ? SP_OK : err->status;
}

enum sp_status sp_joint_nofit(struct sp_joint *joint, const struct sp_joint_candidate *closest,
                              const struct sp_error *grouping, struct sp_error *err)
{
    struct sp_error none = {0};
    struct sp_error *why = err != NULL ? err : &none;
    if (joint->options->any_plan || closest == NULL || (grouping->status == SP_ERR_NOFIT && joint->dataflow == NULL)) {
        if (grouping->status != SP_OK)
            *why = *grouping;
        else
            sp_fail(why, SP_ERR_NOFIT, "NO_PLAN_FITS", "No plan fits the devices' memory.");
        return SP_ERR_NOFIT;
    }
    const struct sp_evaluated_plan plan = {&closest->placement, closest->sharded, closest->evaluation};
    const enum sp_status status = sp_joint_describe_lack(joint->arena, joint->workload, joint->cluster, &plan, why);
    if (status != SP_OK)
        return status;
    if (grouping->status == SP_ERR_NOFIT && grouping->limit_value > 0) {
        why->limit = grouping->limit;
        why->limit_value = grouping->limit_value;
        why->actual = grouping->actual;
    }
    /* A guess for sp_joint_minimum_memory(): with so much this plan would fit. */
    why->least_memory_bytes = closest->memory_bytes < 9e18 ? (int64_t)closest->memory_bytes + 1 : 0;
    return SP_ERR_NOFIT;
}
