/* Nothing fits: the plan that lacks least says where, when and of what there is too much. */
#include "base/buf.h"
#include "base/units.h"
#include "search/joint/bounds.h"

#define TENSORS_NAMED  3
#define SENTENCE_BYTES SP_ERROR_MESSAGE_SIZE

struct moment {
    const struct sp_joint *joint;
    const struct sp_joint_candidate *candidate;
    uint32_t stage, node;
};

static double held_bytes(const struct moment *moment, uint32_t user, uint32_t tensor)
{
    const struct sp_sharded_stage *sharded =
        moment->candidate->sharded == NULL ? NULL : &moment->candidate->sharded[moment->stage];
    if (sharded == NULL || sharded->table == NULL)
        return moment->joint->workload->tensors[tensor].bytes;
    uint32_t i = 0;
    while (i + 1 < sharded->node_count && sharded->nodes[i] != user)
        i++;
    return sp_strategy_local_bytes(sharded->table, tensor,
                                   sp_joint_layout(sharded->table, user, sharded->strategy_of[i], tensor));
}

/* Whether an activation is alive in the stage while the node runs: made before or by it, used by it or later, or sent.
 */
static bool is_alive(const struct moment *moment, uint32_t tensor)
{
    const struct sp_work_tensor *t = &moment->joint->workload->tensors[tensor];
    const uint32_t *stage_of = moment->candidate->placement.stage_of;
    if (t->kind != SP_WORK_ACTIVATION || t->producer == SP_NO_WORK || t->alias_of != SP_NO_WORK ||
        stage_of[t->producer] != moment->stage || t->producer > moment->node)
        return false;
    if (t->is_output || t->producer == moment->node)
        return true;
    for (uint32_t i = 0; i < t->consumer_count; i++) {
        if (t->consumers[i] >= moment->node || stage_of[t->consumers[i]] != moment->stage)
            return true;
    }
    return false;
}

/* The node of the stage at which most is alive, by whole tensors: close enough to name it. */
static uint32_t fullest_node(const struct sp_joint *joint, const struct sp_joint_candidate *candidate, uint32_t stage)
{
    const struct sp_sharded_stage *sharded = candidate->sharded == NULL ? NULL : &candidate->sharded[stage];
    if (sharded != NULL && sharded->intra != NULL)
        return sharded->intra->peak_node;
    uint32_t fullest = SP_NO_WORK;
    double most = -1;
    for (uint32_t n = 0; n < joint->workload->node_count; n++) {
        const struct sp_work_node *node = &joint->workload->nodes[n];
        double bytes = node->workspace_bytes;
        if (node->folded || candidate->placement.stage_of[n] != stage)
            continue;
        for (uint32_t i = 0; i < node->output_count; i++)
            bytes += joint->workload->tensors[node->outputs[i]].bytes;
        for (uint32_t i = 0; i < node->input_count; i++) {
            const struct sp_work_tensor *tensor = &joint->workload->tensors[node->inputs[i]];
            bytes += tensor->kind == SP_WORK_ACTIVATION ? tensor->bytes : 0;
        }
        if (bytes > most) {
            most = bytes;
            fullest = n;
        }
    }
    return fullest;
}

/* "'x' (1.0 GB), 'y' (0.5 GB)": the largest tensors that are alive. */
static void name_tensors(const struct moment *moment, struct sp_buf *buf)
{
    const struct sp_workload *workload = moment->joint->workload;
    uint32_t named[TENSORS_NAMED];
    double bytes[TENSORS_NAMED];
    uint32_t count = 0;
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        if (!is_alive(moment, t))
            continue;
        const double held = held_bytes(moment, workload->tensors[t].producer, t);
        uint32_t at = count < TENSORS_NAMED ? count++ : TENSORS_NAMED;
        for (; at > 0 && held > bytes[at - 1]; at--) {
            if (at < TENSORS_NAMED) {
                named[at] = named[at - 1];
                bytes[at] = bytes[at - 1];
            }
        }
        if (at < TENSORS_NAMED) {
            named[at] = t;
            bytes[at] = held;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        sp_buf_printf(buf, "%s'%.60s' (", i == 0 ? "" : ", ", workload->tensors[named[i]].name);
        sp_text_bytes(buf, bytes[i]);
        sp_buf_text(buf, ")");
    }
}

static void describe(const struct moment *moment, const struct sp_stage_cost *cost, struct sp_buf *buf)
{
    const struct sp_joint *joint = moment->joint;
    sp_buf_printf(buf, "No plan fits. The closest has %u stages and lacks ", moment->candidate->placement.stage_count);
    sp_text_bytes(buf, cost->total_bytes - cost->capacity_bytes);
    sp_buf_printf(buf, " on device %u (%s): it needs ", cost->device,
                  sp_cluster_device(joint->cluster, cost->device)->name);
    sp_text_bytes(buf, cost->total_bytes);
    sp_buf_text(buf, " of ");
    sp_text_bytes(buf, cost->capacity_bytes);
    sp_buf_text(buf, ", of which ");
    sp_text_bytes(buf, cost->weights_bytes);
    sp_buf_text(buf, " are weights");
    if (moment->node != SP_NO_WORK) {
        sp_buf_printf(buf, "; it is fullest at node '%.60s'", joint->workload->nodes[moment->node].name);
        struct sp_buf tensors;
        sp_buf_init(&tensors, SENTENCE_BYTES);
        name_tensors(moment, &tensors);
        if (tensors.size > 0 && !sp_buf_failed(&tensors))
            sp_buf_printf(buf, ", where %s are alive", tensors.data);
        sp_buf_release(&tensors);
    }
    sp_buf_printf(buf, ". With %.0f bytes on each device it would fit.", moment->candidate->memory_bytes);
}

enum sp_status sp_joint_nofit(struct sp_joint *joint, const struct sp_joint_candidate *closest,
                              const struct sp_error *grouping, struct sp_error *err)
{
    if (closest == NULL || (grouping->status == SP_ERR_NOFIT && joint->net == NULL)) {
        if (grouping->status != SP_OK && err != NULL)
            *err = *grouping;
        else
            sp_fail(err, SP_ERR_NOFIT, "NO_PLAN_FITS", "No plan fits the devices' memory.");
        return SP_ERR_NOFIT;
    }
    const uint32_t stage = closest->evaluation->worst_stage;
    const struct sp_stage_cost *cost = &closest->evaluation->stages[stage];
    const struct moment moment = {joint, closest, stage, fullest_node(joint, closest, stage)};
    struct sp_buf buf;
    sp_buf_init(&buf, (size_t)4 * SENTENCE_BYTES);
    describe(&moment, cost, &buf);
    if (sp_buf_failed(&buf))
        (void)sp_fail_memory(err);
    else
        sp_fail(err, SP_ERR_NOFIT, "NO_PLAN_FITS", "%s", buf.data);
    sp_buf_release(&buf);
    if (err != NULL && grouping->status == SP_ERR_NOFIT && err->status == SP_ERR_NOFIT) {
        err->limit = grouping->limit;
        err->limit_value = grouping->limit_value;
        err->actual = grouping->actual;
    }
    return err != NULL ? err->status : SP_ERR_NOFIT;
}
