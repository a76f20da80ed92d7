/*
 * Tables as RFC 4180 has them: a header, CRLF, quotes where a cell needs them; no cell has a line break. Each table is a
 * format of its own: their columns differ. A cell of which nothing is known is empty.
 *
 * Devices are numbered as in the annotated model; csv-devices says which ones of the cluster they are.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/sorted.h"
#include "base/utf8.h"
#include "export/internal.h"
#include "partition/communications.h"

/* ---- cells ----------------------------------------------------------------------------------------------------- */

/* A name out of a model. Controls are shown escaped, so that none breaks a row or turns text round; spreadsheets take what begins
   as a formula for one, also in quotes, unless an apostrophe is before it. */
static void write_text_cell(struct sp_export *out, const char *text)
{
    const bool has_quotes = strpbrk(text, ",\"") != NULL;
    const char *from = text;
    sp_export_text(out, has_quotes ? "\"" : "");
    sp_export_text(out, *text != '\0' && strchr("=+-@", *text) != NULL ? "'" : "");
    for (const char *c = text; *c != '\0';) {
        uint32_t point;
        const size_t taken = sp_utf8_control(c, strnlen(c, 4), &point);
        if (taken > 0 && point != SP_NO_CHARACTER) {
            sp_export_bytes(out, from, (size_t)(c - from));
            sp_export_printf(out, "\\u%04x", point);
            c += taken;
            from = c;
        } else if (*c++ == '"') {
            sp_export_bytes(out, from, (size_t)(c - from));
            from = c - 1; /* once more */
        }
    }
    sp_export_text(out, from);
    sp_export_text(out, has_quotes ? "\"" : "");
}

static void next_text(struct sp_export *out, const char *text)
{
    sp_export_text(out, ",");
    write_text_cell(out, text != NULL ? text : "");
}

static void next_number(struct sp_export *out, double value)
{
    sp_export_text(out, ",");
    if (isfinite(value) && value >= 0)
        sp_export_number(out, value);
}

static void next_int(struct sp_export *out, int64_t value)
{
    sp_export_printf(out, ",%" PRId64, value);
}

static void end_row(struct sp_export *out)
{
    sp_export_text(out, "\r\n");
}

/* "0-3 5" */
static void write_devices(struct sp_export *out, int64_t count, const int64_t *devices)
{
    for (int64_t i = 0; i < count;) {
        int64_t end = i;
        while (end + 1 < count && devices[end + 1] == devices[end] + 1)
            end++;
        sp_export_printf(out, "%s%" PRId64, i > 0 ? " " : "", devices[i]);
        if (end > i)
            sp_export_printf(out, "-%" PRId64, devices[end]);
        i = end + 1;
    }
}

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

/* Weights that the node uses, also those inside it; one that several nodes use counts at each. */
static double weight_bytes(const struct sp_workload *workload, uint32_t index)
{
    const struct sp_work_node *node = &workload->nodes[index];
    double bytes = node->inner_weight_bytes;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const struct sp_work_tensor *tensor = &workload->tensors[node->inputs[i]];
        if (tensor->kind == SP_WORK_WEIGHT)
            bytes += tensor->bytes;
    }
    return bytes;
}

static void write_figures(struct sp_export *out, uint32_t index)
{
    const struct sp_plan *plan = out->subject->plan;
    if (plan == NULL) {
        sp_export_text(out, ",,,,");
        return;
    }
    const struct sp_work_node *node = &plan->workload->nodes[index];
    const double runs = sp_plan_runs(plan);
    next_number(out, runs * node->flops);
    next_number(out, runs * sp_plan_node_all_bytes(plan, index));
    next_number(out, runs * (sp_plan_node_seconds(plan, index) + sp_plan_node_collective_seconds(plan, index)));
    next_number(out, weight_bytes(plan->workload, index));
}

static void write_place(struct sp_export *out, const struct sp_subject_node *place)
{
    sp_export_text(out, ",");
    if (place->has_stage)
        sp_export_printf(out, "%" PRId32, place->stage);
    sp_export_text(out, ",");
    write_devices(out, place->device_count, place->devices);
}

/* The nodes of a graph of costs, which have no operators. */
static void write_cost_nodes(struct sp_export *out)
{
    const struct sp_workload *workload = out->subject->plan->workload;
    for (uint32_t i = 0; i < workload->node_count; i++) {
        sp_export_printf(out, "%u", i);
        next_text(out, workload->nodes[i].name);
        sp_export_text(out, ",,");
        write_place(out, &out->subject->nodes[i]);
        next_text(out, "false");
        write_figures(out, i);
        end_row(out);
    }
}

enum sp_status sp_export_csv_nodes(struct sp_export *out, struct sp_error *err)
{
    const struct sp_graph *graph = out->subject->model != NULL ? out->subject->model->graph : NULL;
    (void)err;
    sp_export_text(out, "index,node,operator,domain,stage,devices,folded,flops,bytes,seconds,weight_bytes\r\n");
    if (graph == NULL)
        write_cost_nodes(out);
    for (uint32_t i = 0; graph != NULL && i < graph->node_count; i++) {
        const struct sp_node *node = &graph->nodes[i];
        sp_export_printf(out, "%u", i);
        next_text(out, node->name);
        next_text(out, node->op_type);
        next_text(out, node->domain);
        write_place(out, &out->subject->nodes[i]);
        next_text(out, node->is_folded ? "true" : "false");
        write_figures(out, i);
        end_row(out);
    }
    return SP_OK;
}

/* ---- devices --------------------------------------------------------------------------------------------------- */

/* Nodes on one list of devices. */
struct group {
    const int64_t *devices;
    int64_t count;
    uint32_t nodes;
};

/* How many nodes run on each device. Lists are many times the same. */
static enum sp_status count_nodes(struct sp_export *out, uint32_t **ret_counts, struct sp_error *err)
{
    const struct sp_subject *subject = out->subject;
    uint32_t *counts = SP_NEW_ARRAY(out->scratch, (size_t)subject->device_count, uint32_t);
    struct group *groups = SP_NEW_ARRAY(out->scratch, SP_MAX_EXPORT_MESHES, struct group);
    const uint32_t nodes = subject->model != NULL  ? subject->model->graph->node_count
                           : subject->plan != NULL ? subject->plan->workload->node_count
                                                   : 0;
    uint32_t group_count = 0, last = 0;
    if (counts == NULL || groups == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < nodes; i++) {
        const struct sp_subject_node *place = &subject->nodes[i];
        if (place->device_count == 0)
            continue;
        if (last >= group_count || groups[last].devices != place->devices) {
            for (last = 0; last < group_count && groups[last].devices != place->devices;)
                last++;
        }
        if (last == SP_MAX_EXPORT_MESHES)
            return sp_fail_limit(err, "TOO_MANY_GROUPS", "SP_MAX_EXPORT_MESHES", SP_MAX_EXPORT_MESHES,
                                 SP_MAX_EXPORT_MESHES + 1, "The nodes run on more than %d different sets of devices.",
                                 SP_MAX_EXPORT_MESHES);
        if (last == group_count)
            groups[group_count++] = (struct group){place->devices, place->device_count, 0};
        groups[last].nodes++;
    }
    for (uint32_t g = 0; g < group_count; g++) {
        for (int64_t d = 0; d < groups[g].count; d++)
            counts[groups[g].devices[d]] += groups[g].nodes;
    }
    *ret_counts = counts;
    return SP_OK;
}

static void write_device_figures(struct sp_export *out, int64_t device, const uint32_t *stages)
{
    const struct sp_plan *plan = out->subject->plan;
    if (plan == NULL || stages == NULL) {
        sp_export_text(out, ",,,,,,,,,,,");
        return;
    }
    const uint32_t number = out->subject->cluster_devices[device], stage = stages[number];
    const double runs = sp_plan_runs(plan);
    double busy = 0;
    const struct sp_stage_cost *cost = sp_plan_device_cost(plan, number, stage, &busy);
    next_int(out, sp_cluster_number(plan->cluster, number));
    if (stage != SP_NO_STAGE)
        next_int(out, stage);
    else
        sp_export_text(out, ","); /* on other routes than the first one */
    next_number(out, runs * cost->flops);
    next_number(out, runs * cost->compute_seconds);
    next_number(out, runs * cost->send_seconds);
    next_number(out, runs * cost->receive_seconds);
    next_number(out, runs * fmax(0, plan->result->evaluation->interval_seconds - busy));
    next_number(out, cost->weights_bytes);
    next_number(out, cost->activations_peak_bytes);
    next_number(out, cost->communication_bytes);
    next_number(out, cost->capacity_bytes);
}

enum sp_status sp_export_csv_devices(struct sp_export *out, struct sp_error *err)
{
    const struct sp_subject *subject = out->subject;
    const uint32_t *stages = subject->plan != NULL ? sp_plan_device_stages(subject->plan) : NULL;
    uint32_t *counts = NULL;
    char name[64];
    enum sp_status status = count_nodes(out, &counts, err);
    if (status == SP_OK && subject->plan != NULL && stages == NULL)
        return sp_fail_memory(err);
    if (status != SP_OK || counts == NULL)
        return status;
    sp_export_text(out, "device,name,nodes,cluster_device,stage,flops,compute_seconds,send_seconds,receive_seconds,"
                        "idle_seconds,weights_bytes,activations_peak_bytes,communication_bytes,capacity_bytes\r\n");
    for (int64_t d = 0; d < subject->device_count; d++) {
        sp_export_printf(out, "%" PRId64, d);
        next_text(out, sp_export_device_name(out, d, name, sizeof name));
        next_int(out, counts[d]);
        write_device_figures(out, d, stages);
        end_row(out);
    }
    return SP_OK;
}

/* ---- tensors --------------------------------------------------------------------------------------------------- */

/* Of the largest piece that one device holds, -1 where it is not known. */
static double piece_bytes(const struct sp_export_value *item)
{
    int64_t tile[SP_MAX_RANK] = {0};
    double elements = 1;
    for (uint32_t i = 0; i < item->rank; i++) {
        if (item->shape[i] < 0)
            return -1;
    }
    if (sp_sharding_tile_shape(item->sharding, item->rank, item->shape, tile, NULL) != SP_OK)
        return -1;
    for (uint32_t i = 0; i < item->rank; i++)
        elements *= (double)tile[i];
    return elements < 9e15 ? (double)sp_dtype_bytes(item->value->type.dtype, (int64_t)elements) : -1;
}

static void write_shape_cell(struct sp_export *out, const struct sp_export_value *item)
{
    sp_export_text(out, ",");
    for (uint32_t i = 0; i < item->rank; i++) {
        if (item->shape[i] >= 0)
            sp_export_printf(out, "%s%" PRId64, i > 0 ? "x" : "", item->shape[i]);
        else
            sp_export_text(out, i > 0 ? "x?" : "?");
    }
}

static enum sp_status write_tensor(struct sp_export *out, const struct sp_export_value *item, void *context,
                                   struct sp_error *err)
{
    char text[SP_SPEC_TEXT_SIZE];
    const struct sp_node *node = item->node;
    (void)context;
    (void)err;
    write_text_cell(out, item->value->name);
    next_text(out, node != NULL ? node->name : "");
    sp_export_text(out, ",");
    if (node != NULL && item->operand < node->input_count)
        sp_export_printf(out, "input %u", item->operand);
    else if (node != NULL)
        sp_export_printf(out, "output %u", item->operand - node->input_count);
    next_text(out, sp_dtype_name(item->value->type.dtype));
    write_shape_cell(out, item);
    next_number(out, (double)sp_value_bytes(item->value));
    next_text(out, sp_spec_text(item->sharding, text, sizeof text));
    next_number(out, piece_bytes(item));
    end_row(out);
    return SP_OK;
}

/* The tensors of a graph of costs are whole, and without a shape. */
static void write_cost_tensors(struct sp_export *out)
{
    const struct sp_workload *workload = out->subject->plan->workload;
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        const struct sp_work_tensor *tensor = &workload->tensors[t];
        const struct sp_work_node *node = &workload->nodes[tensor->producer];
        write_text_cell(out, tensor->name);
        next_text(out, node->name);
        sp_export_printf(out, ",output %u,,", t - node->outputs[0]);
        next_number(out, tensor->bytes);
        next_text(out, "");
        next_number(out, tensor->bytes);
        end_row(out);
    }
}

enum sp_status sp_export_csv_tensors(struct sp_export *out, struct sp_error *err)
{
    sp_export_text(out, "tensor,node,operand,dtype,shape,bytes,sharding,bytes_per_device\r\n");
    if (out->subject->model == NULL) {
        write_cost_tensors(out);
        return SP_OK;
    }
    enum sp_status status = sp_export_note_inner(out, err);
    return status == SP_OK ? sp_export_values(out, write_tensor, NULL, err) : status;
}

/* ---- communication --------------------------------------------------------------------------------------------- */

/* Which of the ascending devices of the cluster this is. */
static size_t number_of(const uint32_t *cluster, size_t count, uint32_t device)
{
    size_t at;
    SP_LOWER_BOUND(at, count, cluster[at] < device);
    return at;
}

/* The devices of one replica of a stage, as the annotated model numbers them. */
static void write_block(struct sp_export *out, uint32_t stage)
{
    const struct sp_plan *plan = out->subject->plan;
    const uint32_t first = plan->result->placement.stage_device[stage];
    const size_t number = number_of(out->subject->cluster_devices, (size_t)out->subject->device_count, first);
    const uint32_t size = sp_placement_size(&plan->result->placement, stage);
    sp_export_printf(out, "%zu", number);
    if (size > 1)
        sp_export_printf(out, "-%zu", number + size - 1);
}

static const char *work_name(const struct sp_plan *plan, uint32_t node)
{
    return node != SP_NO_WORK ? plan->workload->nodes[node].name : "";
}

static void write_transfers(struct sp_export *out, const struct sp_plan *plan)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    const double runs = sp_plan_runs(plan);
    for (uint32_t i = 0; i < evaluation->transfer_count; i++) {
        const struct sp_tensor_transfer *transfer = &evaluation->transfers[i];
        const struct sp_work_tensor *tensor = &plan->workload->tensors[transfer->tensor];
        sp_export_text(out, "send");
        next_text(out, tensor->name);
        next_text(out, work_name(plan, tensor->producer));
        next_text(out, "");
        next_text(out, "send-receive");
        sp_export_text(out, ",");
        write_block(out, transfer->from_stage);
        sp_export_text(out, " ");
        write_block(out, transfer->to_stage);
        next_number(out, runs * transfer->bytes / sp_placement_size(&plan->result->placement, transfer->from_stage));
        next_number(out, runs * transfer->bytes);
        next_number(out, runs * transfer->seconds);
        end_row(out);
    }
}

struct stage_rows {
    struct sp_export *out;
    uint32_t stage;
};

/* What is exchanged within a stage: kinds as those of communication (infer/view/view.h). */
static enum sp_status write_collective(void *context, const struct sp_plan_collective *collective, struct sp_error *err)
{
    const struct stage_rows *rows = context;
    struct sp_export *out = rows->out;
    const struct sp_plan *plan = out->subject->plan;
    const struct sp_work_tensor *tensor =
        collective->tensor != SP_NO_WORK ? &plan->workload->tensors[collective->tensor] : NULL;
    const bool is_halo = strcmp(collective->kind, "halo") == 0;
    const double runs = sp_plan_runs(plan);
    (void)err;
    sp_export_text(out, collective->is_before ? "reshard" : is_halo ? "halo" : "reduce");
    next_text(out, tensor != NULL ? tensor->name : "");
    next_text(out, tensor != NULL ? work_name(plan, tensor->producer) : "");
    next_text(out, work_name(plan, collective->node));
    next_text(out, collective->kind);
    sp_export_text(out, ",");
    write_block(out, rows->stage);
    next_number(out, runs * collective->bytes);
    next_number(out, runs * collective->bytes * sp_placement_size(&plan->result->placement, rows->stage));
    next_number(out, runs * collective->seconds);
    end_row(out);
    return SP_OK;
}

static const char *name_of(const struct sp_node *node)
{
    return node != NULL ? node->name : "";
}

static enum sp_status write_communications(struct sp_export *out, struct sp_error *err)
{
    static const char *const kinds[] = {"reshard", "reduce", "halo", "gather", "permute"};
    struct sp_communications list = {0};
    enum sp_status status = sp_part_communications(out->subject->assignment, NULL, &list, err);
    for (uint32_t i = 0; status == SP_OK && i < list.count; i++) {
        const struct sp_communication *item = &list.items[i];
        sp_export_text(out, kinds[item->kind]);
        next_text(out, item->tensor);
        next_text(out, name_of(item->producer));
        next_text(out, name_of(item->node));
        next_text(out, item->steps);
        sp_export_text(out, ",");
        next_number(out, item->bytes);
        next_number(out, item->total_bytes);
        sp_export_text(out, ",");
        end_row(out);
    }
    return status;
}

enum sp_status sp_export_csv_collectives(struct sp_export *out, struct sp_error *err)
{
    sp_export_text(out, "kind,tensor,producer,node,steps,devices,bytes_per_device,total_bytes,seconds\r\n");
    if (out->subject->plan == NULL)
        return write_communications(out, err);
    write_transfers(out, out->subject->plan);
    enum sp_status status = SP_OK;
    for (uint32_t stage = 0; status == SP_OK && stage < out->subject->plan->result->placement.stage_count; stage++) {
        struct stage_rows rows = {out, stage};
        status = sp_plan_collectives(out->subject->plan, stage, write_collective, &rows, err);
    }
    return status;
}
