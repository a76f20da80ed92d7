/*
 * The first requests of a pipeline as a Perfetto trace: when each device computes what, sends and receives, and how
 * much memory is in use.
 *
 * It shows what plan/explain/schedule.h tells. Times are rounded to nanoseconds where they begin and end, so that no
 * error adds up. Nodes that take no time are left out.
 *
 * The devices of a block do the same at the same time, so a block is one process of the trace, and each replica of a
 * stage is another: request r is computed by replica r modulo their number. Its rows, each of every device:
 *   compute          a slice for each node, and "idle" up to the next request
 *   collectives      in blocks of several devices: what they exchange between two nodes
 *   send to D, ..    a slice for each tensor; an arrow leads to the same slice of the receiver
 *   memory           weights, buffers of what crosses the border, and live activations, in bytes
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "export/internal.h"
#include "perfetto_trace.pb-c.h"
#include "plan/explain/schedule.h"

#define LIST_BYTES ((size_t)1 << 20) /* the devices of one block */
#define NO_FLOW    0

/* Rows of a block: numbers that differ between all of them. */
enum row { ROW_DEVICE, ROW_COMPUTE, ROW_COLLECTIVES, ROW_MEMORY, ROW_COUNT };

struct trace {
    struct sp_export *out;
    const struct sp_plan *plan;
    const struct sp_evaluation *evaluation;
    struct sp_schedule *schedule;
    uint32_t requests;
    uint32_t *first_block; /* per stage: the number of its first replica's block; behind it how many there are */
    uint32_t packets;
    double memory; /* that was written last for the block at hand */
    struct sp_buf packed;
    bool is_broken;
};

static uint64_t nanoseconds(double seconds)
{
    return seconds > 0 && seconds < 9e9 ? (uint64_t)llround(seconds * 1e9) : 0;
}

static uint64_t row_id(uint32_t block, enum row row)
{
    return 1 + (uint64_t)block * ROW_COUNT + row;
}

/* The row of what a block sends to another one, or receives from it. */
static uint64_t link_id(const struct trace *trace, uint32_t block, uint32_t other, bool is_send)
{
    const uint64_t blocks = trace->first_block[trace->evaluation->stage_count];
    return 1 + blocks * ROW_COUNT + 2 * (block * blocks + other) + is_send;
}

static uint32_t replicas_of(const struct trace *trace, uint32_t stage)
{
    return sp_placement_replicas(&trace->plan->result->placement, stage);
}

/* The block that computes a request in a stage. */
static uint32_t block_of(const struct trace *trace, uint32_t stage, uint32_t request)
{
    return trace->first_block[stage] + request % replicas_of(trace, stage);
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
    sp_export_put_field(&trace->packed, TRACE_PACKET, bytes, perfetto__protos__trace_packet__pack(packet, bytes));
    trace->is_broken = trace->is_broken || sp_buf_failed(&trace->packed);
    sp_export_bytes(trace->out, trace->packed.data, trace->packed.size);
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

static void put_block(struct trace *trace, uint32_t stage, uint32_t replica)
{
    Perfetto__Protos__TracePacket packet = PERFETTO__PROTOS__TRACE_PACKET__INIT;
    Perfetto__Protos__TrackDescriptor track = PERFETTO__PROTOS__TRACK_DESCRIPTOR__INIT;
    Perfetto__Protos__ProcessDescriptor process = PERFETTO__PROTOS__PROCESS_DESCRIPTOR__INIT;
    const uint32_t size = sp_placement_size(&trace->plan->result->placement, stage);
    const uint32_t device = trace->evaluation->stages[stage].device + replica * size;
    const uint32_t block = trace->first_block[stage] + replica;
    const struct sp_routed *routed = trace->plan->result->routes;
    char name[SP_DEVICE_NAME_SIZE + 128], route[48] = "";
    struct sp_buf list;
    sp_buf_init(&list, LIST_BYTES);
    sp_text_numbers(&list, trace->plan->cluster->number, device, size);
    if (routed != NULL)
        (void)snprintf(route, sizeof route, "route 1 of %u (%.3g %%), ", routed->route_count,
                       100 * routed->routes[0].share);
    (void)snprintf(name, sizeof name, "%sstage %u on %s:%.30s", route, stage,
                   sp_cluster_device(trace->plan->cluster, device)->name, sp_buf_failed(&list) ? "" : list.data);
    sp_buf_release(&list);
    process.has_pid = 1;
    process.pid = (int32_t)block + 1;
    process.process_name = name;
    track.has_uuid = 1;
    track.uuid = row_id(block, ROW_DEVICE);
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

static void put_memory(struct trace *trace, uint32_t block, uint64_t time, double bytes)
{
    Perfetto__Protos__TracePacket packet = PERFETTO__PROTOS__TRACE_PACKET__INIT;
    Perfetto__Protos__TrackEvent event = PERFETTO__PROTOS__TRACK_EVENT__INIT;
    if (bytes == trace->memory)
        return;
    trace->memory = bytes;
    event.has_type = event.has_track_uuid = event.has_counter_value = packet.has_timestamp = 1;
    event.type = PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_COUNTER;
    event.track_uuid = row_id(block, ROW_MEMORY);
    event.counter_value = bytes < 9e18 ? llround(bytes) : INT64_MAX;
    packet.timestamp = time;
    packet.track_event = &event;
    put_packet(trace, &packet);
}

/* ---- a stage --------------------------------------------------------------------------------------------------- */

static void put_idle(struct trace *trace, uint32_t block, uint32_t request, double from, double to)
{
    struct slice idle = {.row = row_id(block, ROW_COMPUTE),
                         .name = "idle",
                         .category = "idle",
                         .begin = nanoseconds(from),
                         .end = nanoseconds(to),
                         .request = request};
    if (idle.end > idle.begin)
        put_slice(trace, &idle);
}

/* What is put of one request in a stage. */
struct put {
    struct trace *trace;
    uint32_t block, request;
    double base; /* bytes that are there all the time */
};

static void put_collective(const struct put *put, const struct sp_schedule_event *event)
{
    uint32_t count;
    const struct sp_plan_collective *collective =
        &sp_schedule_collectives(put->trace->schedule, &count)[event->collective];
    const uint32_t tensor = collective->tensor;
    struct slice slice = {.row = row_id(put->block, ROW_COLLECTIVES),
                          .name = collective->kind,
                          .category = "collective",
                          .begin = nanoseconds(event->begin),
                          .end = nanoseconds(event->end),
                          .request = put->request,
                          .text_name = "tensor",
                          .text = tensor != SP_NO_WORK ? put->trace->plan->workload->tensors[tensor].name : NULL,
                          .number_names = {"bytes"},
                          .numbers = {collective->bytes}};
    if (slice.end > slice.begin)
        put_slice(put->trace, &slice);
}

static void put_node(const struct put *put, const struct sp_schedule_event *event)
{
    const struct sp_work_node *node = &put->trace->plan->workload->nodes[event->node];
    const struct sp_strategy *strategy = sp_plan_strategy(put->trace->plan, event->node);
    struct slice slice = {.row = row_id(put->block, ROW_COMPUTE),
                          .name = node->name,
                          .category = "compute",
                          .begin = nanoseconds(event->begin),
                          .end = nanoseconds(event->end),
                          .request = put->request,
                          .text_name = "operator",
                          .text = node->node != NULL ? node->node->op_type : NULL,
                          .number_names = {"flops", "bytes"},
                          .numbers = {strategy != NULL ? strategy->flops : node->flops,
                                      sp_plan_node_bytes(put->trace->plan, event->node)}};
    if (slice.end > slice.begin)
        put_slice(put->trace, &slice);
}

static void put_event(void *context, const struct sp_schedule_event *event)
{
    const struct put *put = context;
    switch (event->what) {
    case SP_SCHEDULE_NODE:
        put_node(put, event);
        break;
    case SP_SCHEDULE_COLLECTIVE:
        put_collective(put, event);
        break;
    case SP_SCHEDULE_LIVE:
        put_memory(put->trace, put->block, nanoseconds(event->begin), put->base + event->live.during);
        put_memory(put->trace, put->block, nanoseconds(event->end), put->base + event->live.after);
        break;
    }
}

/* The nodes of one request in a stage. */
static void put_request(struct trace *trace, uint32_t stage, uint32_t request)
{
    const struct sp_stage_cost *cost = &trace->evaluation->stages[stage];
    struct put put = {.trace = trace,
                      .block = block_of(trace, stage, request),
                      .request = request,
                      .base = cost->weights_bytes + cost->communication_bytes};
    const double at =
        sp_schedule_walk(trace->schedule, sp_schedule_begin(trace->plan, stage, request), put_event, &put);
    put_memory(trace, put.block, nanoseconds(at), put.base);
    put_idle(trace, put.block, request, at, sp_schedule_begin(trace->plan, stage, request + replicas_of(trace, stage)));
}

static enum sp_status put_stage(struct trace *trace, uint32_t stage, struct sp_error *err)
{
    const struct sp_stage_cost *told = &trace->evaluation->stages[stage];
    const uint32_t replicas = replicas_of(trace, stage);
    enum sp_status status = sp_schedule_enter(trace->schedule, stage, err);
    for (uint32_t replica = 0; status == SP_OK && replica < replicas; replica++) {
        const uint32_t block = trace->first_block[stage] + replica;
        put_block(trace, stage, replica);
        put_row(trace, row_id(block, ROW_COMPUTE), row_id(block, ROW_DEVICE), "compute", false);
        if (sp_plan_sharded(trace->plan, stage) != NULL)
            put_row(trace, row_id(block, ROW_COLLECTIVES), row_id(block, ROW_DEVICE), "collectives", false);
        put_row(trace, row_id(block, ROW_MEMORY), row_id(block, ROW_DEVICE), "memory", true);
        trace->memory = -1;
        put_memory(trace, block, 0, told->weights_bytes + told->communication_bytes);
        put_idle(trace, block, replica, 0, sp_schedule_begin(trace->plan, stage, replica));
        for (uint32_t r = replica; r < trace->requests; r += replicas)
            put_request(trace, stage, r);
    }
    return status;
}

/* ---- transfers ------------------------------------------------------------------------------------------------- */

/* "send to stage 2", or of one with replicas "send to stage 2, replica 1". */
static void link_name(const struct trace *trace, const char *what, uint32_t stage, uint32_t block, char *name,
                      size_t size)
{
    int length = snprintf(name, size, "%s stage %u", what, stage);
    if (replicas_of(trace, stage) > 1 && length > 0 && (size_t)length < size)
        (void)snprintf(name + length, size - (size_t)length, ", replica %u", block - trace->first_block[stage]);
}

/* The rows of a link between two blocks, unless an earlier request went the same way. */
static void put_link_rows(struct trace *trace, const struct sp_schedule_link *link, uint32_t request)
{
    char name[64];
    const uint32_t from = block_of(trace, link->from_stage, request);
    const uint32_t to = block_of(trace, link->to_stage, request);
    for (uint32_t r = 0; r < request; r++) {
        if (block_of(trace, link->from_stage, r) == from && block_of(trace, link->to_stage, r) == to)
            return;
    }
    link_name(trace, "send to", link->to_stage, to, name, sizeof name);
    put_row(trace, link_id(trace, from, to, true), row_id(from, ROW_DEVICE), name, false);
    link_name(trace, "receive from", link->from_stage, from, name, sizeof name);
    put_row(trace, link_id(trace, to, from, false), row_id(to, ROW_DEVICE), name, false);
}

/* One after the other on a link, beginning when the sender has finished. */
static void put_link(struct trace *trace, const struct sp_schedule_link *link, uint32_t request, uint64_t *flow)
{
    const uint32_t from = block_of(trace, link->from_stage, request), to = block_of(trace, link->to_stage, request);
    double at = sp_schedule_leave(trace->plan, link, sp_schedule_begin(trace->plan, link->from_stage, request));
    put_link_rows(trace, link, request);
    for (uint32_t i = 0; i < link->count; i++) {
        const struct sp_tensor_transfer *transfer = link->transfers[i];
        const double end = at + transfer->seconds;
        struct slice slice = {.row = link_id(trace, from, to, true),
                              .name = trace->plan->workload->tensors[transfer->tensor].name,
                              .category = "send",
                              .begin = nanoseconds(at),
                              .end = nanoseconds(end),
                              .request = request,
                              .number_names = {"bytes"},
                              .numbers = {transfer->bytes},
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
    const struct sp_schedule_link *links;
    uint32_t count = 0;
    uint64_t flow = NO_FLOW;
    enum sp_status status = sp_schedule_links(trace->out->scratch, trace->plan, &count, &links, err);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t r = 0; r < trace->requests; r++)
            put_link(trace, &links[i], r, &flow);
    }
    return status;
}

/* ---- all ------------------------------------------------------------------------------------------------------- */

static enum sp_status begin_trace(struct trace *trace, struct sp_error *err)
{
    const struct sp_plan *plan = trace->plan;
    const struct sp_placement *placement = &plan->result->placement;
    trace->first_block = SP_NEW_ARRAY(trace->out->scratch, (size_t)placement->stage_count + 1, uint32_t);
    trace->schedule = sp_schedule_create(trace->out->scratch, plan);
    if (trace->first_block == NULL || trace->schedule == NULL)
        return sp_fail_memory(err);
    trace->requests = sp_schedule_requests(plan);
    for (uint32_t s = 0; s < placement->stage_count; s++)
        trace->first_block[s + 1] = trace->first_block[s] + sp_placement_replicas(placement, s);
    return SP_OK;
}

enum sp_status sp_export_perfetto(struct sp_export *out, struct sp_error *err)
{
    const struct sp_plan *plan = out->subject->plan;
    struct trace trace = {.out = out, .plan = plan, .evaluation = plan->result->evaluation};
    sp_buf_init(&trace.packed, SP_MAX_RECORD_BYTES);
    enum sp_status status = begin_trace(&trace, err);
    for (uint32_t s = 0; status == SP_OK && s < trace.evaluation->stage_count; s++)
        status = put_stage(&trace, s, err);
    if (status == SP_OK)
        status = put_transfers(&trace, err);
    if (status == SP_OK && trace.is_broken)
        status = sp_fail_memory(err);
    sp_buf_release(&trace.packed);
    return status;
}
