/* Shardings that other programs write into a model. */
#include "check/foreign.h"

#include <string.h>

#include "infer/dataflow.h"

/* Most models have nothing of the kind, and the names that the reader met tell. */
static bool has_foreign(const struct sp_model *model)
{
    return model->has_kept_metadata ||
           sp_intern_find(model->names, SP_ORT_DOMAIN, sizeof SP_ORT_DOMAIN - 1) != SP_NO_NAME;
}

static enum sp_status check_nodes(struct sp_foreign_check *check)
{
    const struct sp_dataflow *dataflow = check->dataflow;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < dataflow->tensor_count; i++) {
        struct sp_arena_mark mark = sp_arena_mark(check->scratch);
        status = sp_check_hlo_value(check, dataflow->tensors[i]);
        sp_arena_rewind(check->scratch, mark);
    }
    for (uint32_t i = 0; status == SP_OK && i < dataflow->node_count; i++) {
        struct sp_arena_mark mark = sp_arena_mark(check->scratch);
        status = sp_check_hlo_node(check, dataflow->nodes[i]);
        if (status == SP_OK && sp_is_ort_distributed(dataflow->nodes[i]))
            status = sp_check_ort_node(check, dataflow->nodes[i]);
        sp_arena_rewind(check->scratch, mark);
    }
    return status;
}

enum sp_status sp_check_foreign(struct sp_model *model, struct sp_diagnostics *list, struct sp_error *err)
{
    struct sp_foreign_check check = {
        .model = model, .list = list, .err = err, .scratch = sp_arena_create(sp_arena_budget(list->arena))};
    struct sp_dataflow *dataflow = NULL;
    if (check.scratch == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_check_hlo_model(&check);
    if (status == SP_OK && has_foreign(model)) {
        status = sp_dataflow_create(list->arena, model, &dataflow, err);
        check.dataflow = dataflow;
        if (status == SP_OK)
            status = check_nodes(&check);
    }
    if (status == SP_OK && check.assignment != NULL)
        status = sp_check_ort_views(&check);
    sp_arena_destroy(check.scratch);
    return status;
}
