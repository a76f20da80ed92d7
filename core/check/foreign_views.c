/* What Distributed* nodes make devices exchange, by the rule of the operator that they distribute. */
#include <inttypes.h>
#include <string.h>

#include "base/limits.h"
#include "check/foreign.h"

/* No annotation is for it: the specs are those of the nodes' attributes alone. */
#define NO_CONFIGURATION "(attributes of Distributed operators)"

static enum sp_status create_assignment(struct sp_foreign_check *check)
{
    return sp_assignment_create(check->list->arena, check->dataflow, NO_CONFIGURATION, SP_MAX_DEVICES, NULL,
                                &check->assignment, check->err);
}

/* Whether all devices of the mesh have numbers that can be compared. */
static bool is_small(const struct sp_ort_operand *operand)
{
    for (int64_t i = 0; i < operand->spec.element_count; i++) {
        if (operand->spec.mesh_elements[i] >= SP_MAX_DEVICES)
            return false;
    }
    return true;
}

static void state(struct sp_foreign_check *check, uint32_t node, uint32_t operand, const struct sp_ort_operand *from)
{
    const struct sp_value *value = from->value;
    if (value == NULL || from->sharding == NULL || value->type.kind != SP_TYPE_TENSOR || !value->type.shape.has_rank ||
        value->type.shape.rank != from->spec.rank || !is_small(from))
        return;
    *sp_spec_of(check->assignment, node, operand) =
        (struct sp_spec_entry){.sharding = from->sharding, .origin = SP_SPEC_GIVEN};
    for (int64_t i = 0; i < from->spec.element_count; i++) {
        if (from->spec.mesh_elements[i] >= check->device_count)
            check->device_count = from->spec.mesh_elements[i] + 1;
    }
}

enum sp_status sp_ort_state(struct sp_foreign_check *check, const struct sp_ort_node *ort)
{
    const uint32_t id = sp_dataflow_node(check->dataflow, ort->node);
    enum sp_status status = check->assignment == NULL ? create_assignment(check) : SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < ort->input_count && i < ort->node->input_count; i++)
        state(check, id, i, &ort->inputs[i]);
    for (uint32_t i = 0; status == SP_OK && i < ort->output_count && i < ort->node->output_count; i++)
        state(check, id, ort->node->input_count + i, &ort->outputs[i]);
    return status;
}

static enum sp_status report(struct sp_foreign_check *check, const struct sp_communications *list)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < list->count; i++) {
        const struct sp_communication *one = &list->items[i];
        const struct sp_finding finding = {
            .code = "ORT_COMMUNICATION", .node = one->node, .tensor = one->tensor, .bytes = one->bytes};
        status = sp_diagnose(check->list, &finding, check->err, "%s It takes %s of '%.120s' among %" PRId64 " devices.",
                             one->because, one->steps == NULL || one->steps[0] == '\0' ? "a copy" : one->steps,
                             one->tensor, one->group_size);
    }
    return status;
}

static enum sp_status check_view(struct sp_foreign_check *check, const struct sp_relation *relation)
{
    struct sp_view *view = NULL;
    struct sp_communications list = {0};
    enum sp_status status = sp_view_create(check->scratch, check->assignment, relation, &view, check->err);
    if (status != SP_OK || view->is_too_large)
        return status;
    for (uint32_t i = 0; status == SP_OK && i < view->conflict_count; i++)
        status = sp_foreign_report(check, "ORT_OPERANDS", relation->node, NULL, "%s", view->conflicts[i].message);
    if (status == SP_OK)
        status = sp_view_communications(check->assignment, relation, view, &list, check->err);
    return status == SP_OK ? report(check, &list) : status;
}

enum sp_status sp_check_ort_views(struct sp_foreign_check *check)
{
    enum sp_status status = SP_OK;
    /* Known only now; what is counted by device should be small. */
    check->assignment->device_count = check->device_count > 0 ? check->device_count : 1;
    for (uint32_t i = 0; status == SP_OK && i < check->dataflow->relation_count; i++) {
        const struct sp_relation *relation = &check->dataflow->relations[i];
        if (relation->kind != SP_RELATION_NODE || !sp_is_ort_distributed(relation->node))
            continue;
        struct sp_arena_mark mark = sp_arena_mark(check->scratch);
        status = check_view(check, relation);
        sp_arena_rewind(check->scratch, mark);
    }
    return status;
}
