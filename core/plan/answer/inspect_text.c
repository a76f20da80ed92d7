#include "plan/answer/readable_text.h"
#include "plan/cost_graph.h"

#define SP_TEXT_OPERATORS 40 /* kinds of operators listed before they are only counted */
#define SP_TEXT_VALUES    32 /* inputs, outputs and symbols likewise */
#define SP_TEXT_NAME      48 /* columns of a value's name */

static void value_line(const struct sp_value *value, struct sp_buf *buf)
{
    const char *dtype = sp_dtype_name(value->type.dtype);
    bool tensor = value->type.kind == SP_TYPE_TENSOR || value->type.kind == SP_TYPE_SPARSE_TENSOR;
    sp_buf_text(buf, "  ");
    sp_text_cut(buf, value->name, SP_TEXT_NAME);
    if (tensor) {
        sp_buf_printf(buf, "  %s ", dtype != NULL ? dtype : "undefined");
        sp_text_shape(buf, &value->type.shape);
        sp_buf_text(buf, "\n");
    } else {
        sp_buf_text(buf, value->type.kind == SP_TYPE_NONE ? "  unknown type\n" : "  not a tensor\n");
    }
}

static void value_list(const char *title, struct sp_value *const *values, uint32_t count, bool only_requests,
                       struct sp_buf *buf)
{
    uint32_t written = 0;
    sp_buf_printf(buf, "%s\n", title);
    for (uint32_t i = 0; i < count && written <= SP_TEXT_VALUES; i++) {
        if (only_requests && !sp_is_request_input(values[i]))
            continue;
        if (written++ == SP_TEXT_VALUES)
            sp_buf_text(buf, "  and more (the JSON form lists them)\n");
        else
            value_line(values[i], buf);
    }
}

static void head(const struct sp_job *job, struct sp_buf *buf)
{
    const struct sp_model *model = job->model;
    sp_buf_text(buf, "Model       ");
    sp_text_cut(buf, job->name[0] != '\0' ? job->name : model->graph->name, 80);
    sp_buf_text(buf, "\n            ");
    sp_text_bytes(buf, (double)job->file.given_size);
    if (model->has_ir_version)
        sp_buf_printf(buf, ", IR version %lld", (long long)model->ir_version);
    if (model->producer_name[0] != '\0') {
        sp_buf_text(buf, ", from ");
        sp_text_cut(buf, model->producer_name, 30);
        sp_buf_text(buf, " ");
        sp_text_cut(buf, model->producer_version, 20);
    }
    sp_buf_text(buf, "\nOpsets      ");
    for (uint32_t i = 0; i < model->opset_count && i < SP_TEXT_VALUES; i++) {
        sp_buf_text(buf, i > 0 ? ", " : "");
        sp_text_cut(buf, model->opsets[i].domain[0] == '\0' ? "ai.onnx" : model->opsets[i].domain, 40);
        sp_buf_printf(buf, " %lld", (long long)model->opsets[i].version);
    }
    sp_buf_text(buf, "\n");
}

static void work(const struct sp_inspection *inspection, struct sp_buf *buf)
{
    sp_buf_text(buf, "Parameters  ");
    sp_text_integer(buf, inspection->parameters);
    sp_buf_text(buf, " (");
    sp_text_bytes(buf, inspection->parameter_bytes);
    sp_buf_text(buf, ")\n");
    if (inspection->external_files > 0) {
        sp_buf_text(buf, "External    ");
        sp_text_bytes(buf, inspection->external_bytes);
        sp_buf_printf(buf, " in %llu other files\n", (unsigned long long)inspection->external_files);
    }
    sp_buf_text(buf, "FLOPs       ");
    if (inspection->has_flops) {
        sp_text_scaled(buf, inspection->flops);
        sp_buf_text(buf, "FLOP per request (a multiply-add counts as 2)\n");
    } else {
        sp_buf_text(buf, "depend on dimensions that are not bound or on operators without a rule\n");
    }
    for (uint32_t i = 0; i < inspection->symbol_count && i < SP_TEXT_VALUES; i++) {
        sp_buf_text(buf, i == 0 ? "Symbols     " : ", ");
        sp_text_cut(buf, inspection->symbols[i], SP_TEXT_NAME);
    }
    if (inspection->symbol_count > 0)
        sp_buf_text(buf, " (bind one with --dim NAME=N)\n");
}

static int by_count(const void *a, const void *b)
{
    const struct sp_operator_count *x = a, *y = b;
    return x->count > y->count ? -1 : x->count < y->count ? 1 : strcmp(x->name, y->name);
}

static void operators(const struct sp_job *job, struct sp_inspection *inspection, struct sp_buf *buf)
{
    if (inspection->operator_count > 1)
        qsort(inspection->operators, inspection->operator_count, sizeof *inspection->operators, by_count);
    sp_buf_text(buf, "Nodes       ");
    sp_text_integer(buf, job->model->graph->node_count);
    if (job->model->counts.nodes > job->model->graph->node_count) {
        sp_buf_text(buf, "; with subgraphs and functions ");
        sp_text_integer(buf, job->model->counts.nodes);
    }
    sp_buf_text(buf, "\n");
    for (uint32_t i = 0; i < inspection->operator_count && i < SP_TEXT_OPERATORS; i++) {
        sp_buf_printf(buf, "  %8llu  ", (unsigned long long)inspection->operators[i].count);
        sp_text_cut(buf, inspection->operators[i].name, SP_TEXT_NAME);
        sp_buf_text(buf, inspection->operators[i].is_known ? "\n" : "  (no rule for it)\n");
    }
    if (inspection->operator_count > SP_TEXT_OPERATORS)
        sp_buf_printf(buf, "  and %u more operators (the JSON form lists them)\n",
                      inspection->operator_count - SP_TEXT_OPERATORS);
}

static void states(const struct sp_states *states, struct sp_buf *buf)
{
    for (uint32_t i = 0; i < states->count && i < SP_TEXT_VALUES; i++) {
        const struct sp_state *state = &states->items[i];
        sp_buf_text(buf, i == 0 ? "States (an output that the next step takes as an input)\n  " : "  ");
        sp_text_cut(buf, state->present->name, SP_TEXT_NAME);
        sp_buf_text(buf, " -> ");
        sp_text_cut(buf, state->past->name, SP_TEXT_NAME);
        if (state->axis != SP_STATE_FIXED)
            sp_buf_printf(buf, ", grows along axis %u", state->axis);
        sp_buf_text(buf, state->origin == SP_STATE_GIVEN ? " (given)\n" : "\n");
    }
    if (states->count > SP_TEXT_VALUES)
        sp_buf_printf(buf, "  and %u more states (the JSON form lists them)\n", states->count - SP_TEXT_VALUES);
}

static void configurations(const struct sp_model *model, struct sp_buf *buf)
{
    for (uint32_t i = 0; i < model->configuration_count && i < SP_TEXT_VALUES; i++) {
        sp_buf_text(buf, i == 0 ? "Configurations\n  " : "  ");
        sp_text_cut(buf, model->configurations[i].name, SP_TEXT_NAME);
        sp_buf_printf(buf, "  %ld devices\n", (long)model->configurations[i].num_devices);
    }
}

enum sp_status sp_job_inspect_text(struct sp_job *job, bool values, struct sp_buf *buf, struct sp_error *err)
{
    if (job->model == NULL)
        return sp_costs_inspect_text(job, values, buf, err);
    const struct sp_graph *graph = job->model->graph;
    struct sp_arena_mark mark = sp_arena_mark(job->arena);
    struct sp_inspection inspection;
    enum sp_status status = sp_inspect(job, &inspection, err);
    if (status != SP_OK)
        return status;
    head(job, buf);
    work(&inspection, buf);
    operators(job, &inspection, buf);
    value_list("Inputs", graph->inputs, graph->input_count, true, buf);
    value_list("Outputs", graph->outputs, graph->output_count, false, buf);
    states(&inspection.states, buf);
    configurations(job->model, buf);
    if (values) {
        sp_buf_text(buf, "Values\n");
        for (uint32_t v = 0; v < graph->value_count; v++)
            value_line(graph->values[v], buf);
    }
    sp_arena_rewind(job->arena, mark);
    return sp_buf_failed(buf) ? sp_fail_memory(err) : SP_OK;
}
