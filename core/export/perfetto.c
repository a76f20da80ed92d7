/*
 * The first requests of a pipeline as a Perfetto trace: when each device computes what, sends and receives, and how
 * much memory is in use.
 *
 * It shows the execution model of cost/evaluate.h: request r enters stage s at start_seconds(s) + r * interval, is
 * computed node by node, and what the stage sends leaves when it has finished. So in each interval a device is busy for
 * just the plan's compute_seconds, and its sends and receives take its communication_seconds. Times are rounded to
 * nanoseconds where they begin and end, so that no error adds up. Nodes that take no time are left out.
 *
 * A device is a process of the trace with these rows:
 *   compute          a slice for each node, and "idle" up to the next request
 *   send to D, ..    a slice for each tensor; an arrow leads to the same slice of the receiver
 *   memory           weights, buffers of what crosses the border, and live activations, in bytes
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "export/internal.h"
#include "perfetto_trace.pb-c.h"

#define REQUESTS 3 /* that are shown */

#define NO_FLOW 0

/* Rows of a device: numbers that differ between all of them. */
enum row { ROW_DEVICE, ROW_COMPUTE, ROW_MEMORY, ROW_COUNT };

struct trace {
    struct export *out;
    const struct sp_plan *plan;
    const struct sp_evaluation *evaluation;
    struct sp_evaluator *evaluator;
    uint32_t *order, *first; /* nodes by stage, ascending: order[first[s]] .. */
    struct sp_live_bytes *course;
    uint32_t packets;
    double memory; /* that was written last for the stage at hand */
    struct sp_buf packed;
    bool is_broken;
};

static uint64_t nanoseconds(double seconds)
{
    return seconds > 0 && seconds < 9e9 ? (uint64_t)llround(seconds * 1e9) : 0;
}

static uint64_t row_id(uint32_t stage, enum row row)
{
    return 1 + (uint64_t)stage * ROW_COUNT + row;
}

/* The row of what `stage` sends to another stage, or receives from it. */
static uint64_t link_id(const struct trace *trace, uint32_t stage, uint32_t other, bool is_send)
{
    const uint64_t stages = trace->evaluation->stage_count;
    return 1 + stages * ROW_COUNT + 2 * (stage * stages + other) + is_send;
}

/* ---- packets --------------------------------------------------------------------------------------------------- */

static void put_packet(struct trace *trace, Perfetto__Protos__TracePacket *packet)
{
    enum { TRACE_PACKET = 1 };
    unsigned char stack[2048], *bytes = stack;
    const size_t size = perfetto__protos__trace_packet__get_packed_size(packet) + 16;
    struct sp_arena_mark mark = sp_arena_mark(trace->out->scratch);
    packet->has_trusted_packet_sequence_id = 1;
    packet->trusted_packet_sequence_id = 1;
    packet->has_sequence_flags = trace->packets++ == 0;
    packet->sequence_flags = PERFETTO__PROTOS__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_INCREMENTAL_STATE_CLEARED;
    if (size > sizeof stack)
        bytes = sp_arena_alloc(trace->out->scratch, size);
    if (bytes == NULL) {
        trace->is_broken = true;
        return;
    }
    sp_buf_clear(&trace->packed);
    export_put_field(&trace->packed, TRACE_PACKET, bytes, perfetto__protos__trace_packet__pack(packet, bytes));
    trace->is_broken = trace->is_broken || sp_buf_failed(&trace->packed);
    export_bytes(trace->out, trace->packed.data, trace->packed.size);
    sp_arena_rewind(trace->out->scratch, mark);
}

static void put_row(struct trace *trace, uint64_t id, uint64_t parent, const char *name, bool is_counter)
{
    Perfetto__Protos__TracePacket packet = PERFETTO__PROTOS__TRACE_PACKET__INIT;
    Perfetto__Protos__TrackDescriptor track = PERFETTO__PROTOS__TRACK_DESCRIPTOR__INIT;
    Perfetto__Protos__CounterDescriptor counter = PERFETTO__PROTOS__COUNTER_DESCRIPTOR__INIT;
    counter.has_unit = 1;
    counter.unit = PERFETTO__PROTOS__COUNTER_DESCRIPTOR__UNIT__UNIT_SIZE_BYTES;
    track.has_uuid = track.has_parent_uuid = 1;
    track.uuid = id;
    track.parent_uuid = parent;
    track.name = (char *)(uintptr_t)name;
    track.counter = is_counter ? &counter : NULL;
    packet.track_descriptor = &track;
    put_packet(trace, &packet);
}

static void put_device(struct trace *trace, uint32_t stage)
{
    Perfetto__Protos__TracePacket packet = PERFETTO__PROTOS__TRACE_PACKET__INIT;
    Perfetto__Protos__TrackDescriptor track = PERFETTO__PROTOS__TRACK_DESCRIPTOR__INIT;
    Perfetto__Protos__ProcessDescriptor process = PERFETTO__PROTOS__PROCESS_DESCRIPTOR__INIT;
    const uint32_t device = trace->evaluation->stages[stage].device;
    char name[SP_DEVICE_NAME_SIZE + 48];
    (void)snprintf(name, sizeof name, "stage %u on %s:%u", stage, sp_cluster_device(trace->plan->cluster, device)->name,
                   device);
    process.has_pid = 1;
    process.pid = (int32_t)stage + 1;
    process.process_name = name;
    track.has_uuid = 1;
    track.uuid = row_id(stage, ROW_DEVICE);
    track.name = name;
    track.process = &process;
    packet.track_descriptor = &track;
    put_packet(trace, &packet);
}

/* What a slice is, and what stands beside it. */
struct slice {
    uint64_t row;
    const char *name, *category;
    uint64_t begin, end;
    uint32_t request;
    const char *text_name, *text; /* or NULL */
    const char *number_names[2];  /* or NULL */
    double numbers[2];
    uint64_t flow; /* NO_FLOW */
    bool is_flow_end;
};

static void put_end(struct trace *trace, const struct slice *slice)
{
    Perfetto__Protos__TracePacket packet = PERFETTO__PROTOS__TRACE_PACKET__INIT;
    Perfetto__Protos__TrackEvent event = PERFETTO__PROTOS__TRACK_EVENT__INIT;
    event.has_type = event.has_track_uuid = packet.has_timestamp = 1;
    event.type = PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_SLICE_END;
    event.track_uuid = slice->row;
    packet.timestamp = slice->end;
    packet.track_event = &event;
    put_packet(trace, &packet);
}

static void put_slice(struct trace *trace, struct slice *slice)
{
    Perfetto__Protos__TracePacket packet = PERFETTO__PROTOS__TRACE_PACKET__INIT;
    Perfetto__Protos__TrackEvent event = PERFETTO__PROTOS__TRACK_EVENT__INIT;
    Perfetto__Protos__DebugAnnotation annotations[4], *pointers[4];
    char *categories[1] = {(char *)(uintptr_t)slice->category};
    size_t count = 0;
    for (size_t i = 0; i < 4; i++) {
        perfetto__protos__debug_annotation__init(&annotations[i]);
        pointers[i] = &annotations[i];
    }
    annotations[count].name = (char *)(uintptr_t) "request";
    annotations[count].has_int_value = 1;
    annotations[count++].int_value = slice->request;
    if (slice->text != NULL) {
        annotations[count].name = (char *)(uintptr_t)slice->text_name;
        annotations[count++].string_value = (char *)(uintptr_t)slice->text;
    }
    for (size_t i = 0; i < 2 && slice->number_names[i] != NULL; i++) {
        annotations[count].name = (char *)(uintptr_t)slice->number_names[i];
        annotations[count].has_double_value = 1;
        annotations[count++].double_value = slice->numbers[i];
    }
    event.n_debug_annotations = count;
    event.debug_annotations = pointers;
    event.has_type = event.has_track_uuid = packet.has_timestamp = 1;
    event.type = PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN;
    event.track_uuid = slice->row;
    event.n_categories = 1;
    event.categories = categories;
    event.name = (char *)(uintptr_t)slice->name;
    event.n_flow_ids = slice->flow != NO_FLOW && !slice->is_flow_end;
    event.n_terminating_flow_ids = slice->flow != NO_FLOW && slice->is_flow_end;
    event.flow_ids = event.terminating_flow_ids = &slice->flow;
    packet.timestamp = slice->begin;
    packet.track_event = &event;
    put_packet(trace, &packet);
    put_end(trace, slice);
}

static void put_memory(struct trace *trace, uint32_t stage, uint64_t time, double bytes)
{
    Perfetto__Protos__TracePacket packet = PERFETTO__PROTOS__TRACE_PACKET__INIT;
    Perfetto__Protos__TrackEvent event = PERFETTO__PROTOS__TRACK_EVENT__INIT;
    if (bytes == trace->memory)
        return;
    trace->memory = bytes;
    event.has_type = event.has_track_uuid = event.has_counter_value = packet.has_timestamp = 1;
    event.type = PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_COUNTER;
    event.track_uuid = row_id(stage, ROW_MEMORY);
    event.counter_value = bytes < 9e18 ? llround(bytes) : INT64_MAX;
    packet.timestamp = time;
    packet.track_event = &event;
    put_packet(trace, &packet);
}

/* ---- a stage --------------------------------------------------------------------------------------------------- */

static double begin_of(const struct trace *trace, uint32_t stage, uint32_t request)
{
    return trace->evaluation->stages[stage].start_seconds + request * trace->evaluation->interval_seconds;
}

static void put_idle(struct trace *trace, uint32_t stage, uint32_t request, double from, double to)
{
    struct slice idle = {.row = row_id(stage, ROW_COMPUTE),
                         .name = "idle",
                         .category = "idle",
                         .begin = nanoseconds(from),
                         .end = nanoseconds(to),
                         .request = request};
    if (idle.end > idle.begin)
        put_slice(trace, &idle);
}

/* The nodes of one request in a stage. */
static void put_request(struct trace *trace, uint32_t stage, uint32_t request)
{
    const struct sp_workload *workload = trace->plan->workload;
    const struct sp_stage_cost *cost = &trace->evaluation->stages[stage];
    const uint32_t kind = workload->kind_of[cost->device];
    const double base = cost->weights_bytes + cost->communication_bytes, begin = begin_of(trace, stage, request);
    double at = begin;
    for (uint32_t i = trace->first[stage]; i < trace->first[stage + 1]; i++) {
        const struct sp_work_node *node = &workload->nodes[trace->order[i]];
        const double end = node->folded ? at : at + node->seconds[kind];
        struct slice slice = {.row = row_id(stage, ROW_COMPUTE),
                              .name = node->name,
                              .category = "compute",
                              .begin = nanoseconds(at),
                              .end = nanoseconds(end),
                              .request = request,
                              .text_name = "operator",
                              .text = node->node != NULL ? node->node->op_type : NULL,
                              .number_names = {"flops", "bytes"},
                              .numbers = {node->flops, node->bytes}};
        if (slice.end > slice.begin)
            put_slice(trace, &slice);
        if (!node->folded) {
            const struct sp_live_bytes *live = &trace->course[i - trace->first[stage]];
            put_memory(trace, stage, slice.begin, base + live->during);
            put_memory(trace, stage, slice.end, base + live->after);
        }
        at = end;
    }
    put_memory(trace, stage, nanoseconds(at), base);
    put_idle(trace, stage, request, at, begin_of(trace, stage, request + 1));
}

static void put_stage(struct trace *trace, uint32_t stage)
{
    struct sp_stage_cost cost;
    const uint32_t first = trace->first[stage], count = trace->first[stage + 1] - first;
    const struct sp_stage_cost *told = &trace->evaluation->stages[stage];
    sp_evaluator_course(trace->evaluator, &trace->plan->result->placement, stage, trace->order + first, count, &cost,
                        trace->course);
    put_device(trace, stage);
    put_row(trace, row_id(stage, ROW_COMPUTE), row_id(stage, ROW_DEVICE), "compute", false);
    put_row(trace, row_id(stage, ROW_MEMORY), row_id(stage, ROW_DEVICE), "memory", true);
    trace->memory = -1;
    put_memory(trace, stage, 0, told->weights_bytes + told->communication_bytes);
    put_idle(trace, stage, 0, 0, begin_of(trace, stage, 0));
    for (uint32_t r = 0; r < REQUESTS; r++)
        put_request(trace, stage, r);
}

/* ---- transfers ------------------------------------------------------------------------------------------------- */

static int by_link(const void *a, const void *b)
{
    const struct sp_tensor_transfer *x = *(const struct sp_tensor_transfer *const *)a;
    const struct sp_tensor_transfer *y = *(const struct sp_tensor_transfer *const *)b;
    if (x->from_stage != y->from_stage)
        return x->from_stage < y->from_stage ? -1 : 1;
    if (x->to_stage != y->to_stage)
        return x->to_stage < y->to_stage ? -1 : 1;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

static void put_link_rows(struct trace *trace, const struct sp_tensor_transfer *transfer)
{
    char name[64];
    const uint32_t from = transfer->from_stage, to = transfer->to_stage;
    (void)snprintf(name, sizeof name, "send to stage %u", to);
    put_row(trace, link_id(trace, from, to, true), row_id(from, ROW_DEVICE), name, false);
    (void)snprintf(name, sizeof name, "receive from stage %u", from);
    put_row(trace, link_id(trace, to, from, false), row_id(to, ROW_DEVICE), name, false);
}

/* One after the other on a link, beginning when the sender has finished. */
static void put_link(struct trace *trace, const struct sp_tensor_transfer *const *transfers, uint32_t count,
                     uint32_t request, uint64_t *flow)
{
    const uint32_t from = transfers[0]->from_stage, to = transfers[0]->to_stage;
    double at = begin_of(trace, from, request) + trace->evaluation->stages[from].compute_seconds;
    for (uint32_t i = 0; i < count; i++) {
        const double end = at + transfers[i]->seconds;
        struct slice slice = {.row = link_id(trace, from, to, true),
                              .name = trace->plan->workload->tensors[transfers[i]->tensor].name,
                              .category = "send",
                              .begin = nanoseconds(at),
                              .end = nanoseconds(end),
                              .request = request,
                              .number_names = {"bytes"},
                              .numbers = {transfers[i]->bytes},
                              .flow = ++*flow};
        put_slice(trace, &slice);
        slice.row = link_id(trace, to, from, false);
        slice.category = "receive";
        slice.is_flow_end = true;
        put_slice(trace, &slice);
        at = end;
    }
}

static enum sp_status put_transfers(struct trace *trace, struct sp_error *err)
{
    const struct sp_evaluation *evaluation = trace->evaluation;
    const uint32_t count = evaluation->transfer_count;
    const struct sp_tensor_transfer **sorted =
        SP_NEW_ARRAY(trace->out->scratch, count, const struct sp_tensor_transfer *);
    uint64_t flow = NO_FLOW;
    if (sorted == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < count; i++)
        sorted[i] = &evaluation->transfers[i];
    if (count > 1)
        qsort(sorted, count, sizeof *sorted, by_link);
    for (uint32_t i = 0; i < count;) {
        uint32_t end = i + 1;
        while (end < count && sorted[end]->from_stage == sorted[i]->from_stage &&
               sorted[end]->to_stage == sorted[i]->to_stage)
            end++;
        put_link_rows(trace, sorted[i]);
        for (uint32_t r = 0; r < REQUESTS; r++)
            put_link(trace, sorted + i, end - i, r, &flow);
        i = end;
    }
    return SP_OK;
}

/* ---- all ------------------------------------------------------------------------------------------------------- */

static enum sp_status begin_trace(struct trace *trace, struct sp_error *err)
{
    const struct sp_plan *plan = trace->plan;
    const struct sp_placement *placement = &plan->result->placement;
    struct sp_arena *scratch = trace->out->scratch;
    const uint32_t nodes = plan->workload->node_count;
    trace->order = SP_NEW_ARRAY(scratch, nodes, uint32_t);
    trace->first = SP_NEW_ARRAY(scratch, (size_t)placement->stage_count + 2, uint32_t);
    trace->course = SP_NEW_ARRAY(scratch, nodes, struct sp_live_bytes);
    trace->evaluator = sp_evaluator_create(scratch, plan->workload, plan->cluster);
    if (trace->order == NULL || trace->first == NULL || trace->course == NULL || trace->evaluator == NULL)
        return sp_fail_memory(err);
    for (uint32_t n = 0; n < nodes; n++)
        trace->first[placement->stage_of[n] + 2]++;
    for (uint32_t s = 2; s <= placement->stage_count; s++)
        trace->first[s] += trace->first[s - 1];
    for (uint32_t n = 0; n < nodes; n++)
        trace->order[trace->first[placement->stage_of[n] + 1]++] = n;
    return SP_OK;
}

enum sp_status export_perfetto(struct export *out, struct sp_error *err)
{
    const struct sp_plan *plan = out->subject->plan;
    struct trace trace = {.out = out, .plan = plan, .evaluation = plan->result->evaluation};
    sp_buf_init(&trace.packed, SP_MAX_RECORD_BYTES);
    enum sp_status status = begin_trace(&trace, err);
    for (uint32_t s = 0; status == SP_OK && s < trace.evaluation->stage_count; s++)
        put_stage(&trace, s);
    if (status == SP_OK)
        status = put_transfers(&trace, err);
    if (status == SP_OK && trace.is_broken)
        status = sp_fail_memory(err);
    sp_buf_release(&trace.packed);
    return status;
}
