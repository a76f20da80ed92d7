/*
 * The first requests of a pipeline as a Perfetto trace: when each device computes what, sends and receives, and how
 * much memory is in use.
 *
 * It shows the execution model of cost/evaluate.h: request r enters stage s at start_seconds(s) + r * interval, is
 * computed node by node, and what the stage sends leaves when it has finished. So for each request a device is busy for
 * just the plan's compute_seconds, and its sends and receives take its communication_seconds. Times are rounded to
 * nanoseconds where they begin and end, so that no error adds up. Nodes that take no time are left out.
 *
 * The devices of a block do the same at the same time, so a block is one process of the trace, and each replica of a
 * stage is another: request r is computed by replica r modulo their number. Its rows, each of every device:
 *   compute          a slice for each node, and "idle" up to the next request
 *   collectives      in blocks of several devices: what they exchange between two nodes
 *   send to D, ..    a slice for each tensor; an arrow leads to the same slice of the receiver
 *   memory           weights, buffers of what crosses the border, and live activations, in bytes
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "export/internal.h"
#include "perfetto_trace.pb-c.h"

#define REQUESTS      3  /* that are shown, */
#define MOST_REQUESTS 16 /* or more, so that each replica has one */

#define NO_FLOW 0

/* Rows of a block: numbers that differ between all of them. */
enum row { ROW_DEVICE, ROW_COMPUTE, ROW_COLLECTIVES, ROW_MEMORY, ROW_COUNT };

struct trace {
    struct export *out;
    const struct sp_plan *plan;
    const struct sp_evaluation *evaluation;
    struct sp_evaluator *evaluator;
    uint32_t requests;
    uint32_t *order, *first; /* nodes by stage, ascending: order[first[s]] .. */
    uint32_t *first_block;   /* per stage: the number of its first replica's block; behind it how many there are */
    struct sp_live_bytes *course;
    uint32_t collective_count, collective_capacity;
    struct sp_plan_collective *collectives; /* of the stage at hand */
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

static void put_block(struct trace *trace, uint32_t stage, uint32_t replica)
{
    Perfetto__Protos__TracePacket packet = PERFETTO__PROTOS__TRACE_PACKET__INIT;
    Perfetto__Protos__TrackDescriptor track = PERFETTO__PROTOS__TRACK_DESCRIPTOR__INIT;
    Perfetto__Protos__ProcessDescriptor process = PERFETTO__PROTOS__PROCESS_DESCRIPTOR__INIT;
    const uint32_t size = sp_placement_size(&trace->plan->result->placement, stage);
    const uint32_t device = trace->evaluation->stages[stage].device + replica * size;
    const uint32_t block = trace->first_block[stage] + replica;
    char name[SP_DEVICE_NAME_SIZE + 64], last[16] = "";
    if (size > 1)
        (void)snprintf(last, sizeof last, "-%u", device + size - 1);
    (void)snprintf(name, sizeof name, "stage %u on %s:%u%s", stage,
                   sp_cluster_device(trace->plan->cluster, device)->name, device, last);
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

static double begin_of(const struct trace *trace, uint32_t stage, uint32_t request)
{
    return trace->evaluation->stages[stage].start_seconds + request * trace->evaluation->interval_seconds;
}

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

/* The exchange at `*next`, where it belongs here: before or after the node. */
static bool put_collective(struct trace *trace, uint32_t block, uint32_t request, uint32_t node, bool is_before,
                           uint32_t *next, double *at)
{
    if (*next == trace->collective_count)
        return false;
    const struct sp_plan_collective *collective = &trace->collectives[*next];
    if (collective->node != node || collective->is_before != is_before)
        return false;
    const uint32_t tensor = collective->tensor;
    const double end = *at + collective->seconds;
    struct slice slice = {.row = row_id(block, ROW_COLLECTIVES),
                          .name = collective->kind,
                          .category = "collective",
                          .begin = nanoseconds(*at),
                          .end = nanoseconds(end),
                          .request = request,
                          .text_name = "tensor",
                          .text = tensor != SP_NO_WORK ? trace->plan->workload->tensors[tensor].name : NULL,
                          .number_names = {"bytes"},
                          .numbers = {collective->bytes}};
    if (slice.end > slice.begin)
        put_slice(trace, &slice);
    *at = end;
    (*next)++;
    return true;
}

/* One node of a request and what is exchanged for it; `live` is NULL for a folded node. */
static void put_node(struct trace *trace, uint32_t block, uint32_t request, uint32_t index,
                     const struct sp_live_bytes *live, double base, uint32_t *next, double *at)
{
    const struct sp_work_node *node = &trace->plan->workload->nodes[index];
    const struct sp_strategy *strategy = sp_plan_strategy(trace->plan, index);
    while (put_collective(trace, block, request, index, true, next, at))
        ;
    const double end = *at + sp_plan_node_seconds(trace->plan, index);
    struct slice slice = {.row = row_id(block, ROW_COMPUTE),
                          .name = node->name,
                          .category = "compute",
                          .begin = nanoseconds(*at),
                          .end = nanoseconds(end),
                          .request = request,
                          .text_name = "operator",
                          .text = node->node != NULL ? node->node->op_type : NULL,
                          .number_names = {"flops", "bytes"},
                          .numbers = {strategy != NULL ? strategy->flops : node->flops,
                                      strategy != NULL ? strategy->bytes : node->bytes}};
    if (slice.end > slice.begin)
        put_slice(trace, &slice);
    *at = end;
    while (put_collective(trace, block, request, index, false, next, at))
        ;
    if (live != NULL) {
        put_memory(trace, block, slice.begin, base + live->during);
        put_memory(trace, block, nanoseconds(*at), base + live->after);
    }
}

/* The nodes of one request in a stage. */
static void put_request(struct trace *trace, uint32_t stage, uint32_t request)
{
    const struct sp_stage_cost *cost = &trace->evaluation->stages[stage];
    const uint32_t block = block_of(trace, stage, request);
    const double base = cost->weights_bytes + cost->communication_bytes;
    double at = begin_of(trace, stage, request);
    uint32_t next = 0;
    for (uint32_t i = trace->first[stage]; i < trace->first[stage + 1]; i++) {
        const bool is_folded = trace->plan->workload->nodes[trace->order[i]].folded;
        put_node(trace, block, request, trace->order[i], is_folded ? NULL : &trace->course[i - trace->first[stage]],
                 base, &next, &at);
    }
    put_memory(trace, block, nanoseconds(at), base);
    put_idle(trace, block, request, at, begin_of(trace, stage, request + replicas_of(trace, stage)));
}

static enum sp_status keep_collective(void *context, const struct sp_plan_collective *collective, struct sp_error *err)
{
    struct trace *trace = context;
    if (trace->collective_count == trace->collective_capacity) {
        const uint32_t capacity = trace->collective_capacity == 0 ? 256 : 2 * trace->collective_capacity;
        struct sp_plan_collective *grown = SP_NEW_ARRAY(trace->out->scratch, capacity, struct sp_plan_collective);
        if (grown == NULL)
            return sp_fail_memory(err);
        if (trace->collective_count > 0)
            memcpy(grown, trace->collectives, trace->collective_count * sizeof *grown);
        trace->collectives = grown;
        trace->collective_capacity = capacity;
    }
    trace->collectives[trace->collective_count++] = *collective;
    return SP_OK;
}

/* The live bytes after each node of a stage, in trace->course. */
static enum sp_status find_course(struct trace *trace, uint32_t stage, struct sp_error *err)
{
    const struct sp_sharded_stage *sharded = sp_plan_sharded(trace->plan, stage);
    const uint32_t first = trace->first[stage], count = trace->first[stage + 1] - first;
    struct sp_stage_cost cost;
    if (sharded == NULL) {
        sp_evaluator_course(trace->evaluator, &trace->plan->result->placement, stage, trace->order + first, count,
                            &cost, trace->course);
        return SP_OK;
    }
    enum sp_status status = sp_intra_course(trace->out->scratch, sharded->table, sharded->node_count, sharded->nodes,
                                            sharded->strategy_of, trace->course, err);
    /* It has the nodes that run; folded ones get a place among them, from the end. */
    uint32_t from = sharded->node_count;
    for (uint32_t i = count; status == SP_OK && i-- > 0;) {
        if (!trace->plan->workload->nodes[trace->order[first + i]].folded)
            trace->course[i] = trace->course[--from];
    }
    return status;
}

static enum sp_status put_stage(struct trace *trace, uint32_t stage, struct sp_error *err)
{
    const struct sp_stage_cost *told = &trace->evaluation->stages[stage];
    const uint32_t replicas = replicas_of(trace, stage);
    trace->collective_count = 0;
    enum sp_status status = find_course(trace, stage, err);
    if (status == SP_OK)
        status = sp_plan_collectives(trace->plan, stage, keep_collective, trace, err);
    for (uint32_t replica = 0; status == SP_OK && replica < replicas; replica++) {
        const uint32_t block = trace->first_block[stage] + replica;
        put_block(trace, stage, replica);
        put_row(trace, row_id(block, ROW_COMPUTE), row_id(block, ROW_DEVICE), "compute", false);
        if (sp_plan_sharded(trace->plan, stage) != NULL)
            put_row(trace, row_id(block, ROW_COLLECTIVES), row_id(block, ROW_DEVICE), "collectives", false);
        put_row(trace, row_id(block, ROW_MEMORY), row_id(block, ROW_DEVICE), "memory", true);
        trace->memory = -1;
        put_memory(trace, block, 0, told->weights_bytes + told->communication_bytes);
        put_idle(trace, block, replica, 0, begin_of(trace, stage, replica));
        for (uint32_t r = replica; r < trace->requests; r += replicas)
            put_request(trace, stage, r);
    }
    return status;
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

/* "send to stage 2", or of one with replicas "send to stage 2, replica 1". */
static void link_name(const struct trace *trace, const char *what, uint32_t stage, uint32_t block, char *name,
                      size_t size)
{
    int length = snprintf(name, size, "%s stage %u", what, stage);
    if (replicas_of(trace, stage) > 1 && length > 0 && (size_t)length < size)
        (void)snprintf(name + length, size - (size_t)length, ", replica %u", block - trace->first_block[stage]);
}

/* The rows of a link between two blocks, unless an earlier request went the same way. */
static void put_link_rows(struct trace *trace, const struct sp_tensor_transfer *transfer, uint32_t request)
{
    char name[64];
    const uint32_t from = block_of(trace, transfer->from_stage, request);
    const uint32_t to = block_of(trace, transfer->to_stage, request);
    for (uint32_t r = 0; r < request; r++) {
        if (block_of(trace, transfer->from_stage, r) == from && block_of(trace, transfer->to_stage, r) == to)
            return;
    }
    link_name(trace, "send to", transfer->to_stage, to, name, sizeof name);
    put_row(trace, link_id(trace, from, to, true), row_id(from, ROW_DEVICE), name, false);
    link_name(trace, "receive from", transfer->from_stage, from, name, sizeof name);
    put_row(trace, link_id(trace, to, from, false), row_id(to, ROW_DEVICE), name, false);
}

/* One after the other on a link, beginning when the sender has finished. */
static void put_link(struct trace *trace, const struct sp_tensor_transfer *const *transfers, uint32_t count,
                     uint32_t request, uint64_t *flow)
{
    const uint32_t stage = transfers[0]->from_stage;
    const uint32_t from = block_of(trace, stage, request), to = block_of(trace, transfers[0]->to_stage, request);
    double at = begin_of(trace, stage, request) + trace->evaluation->stages[stage].compute_seconds;
    put_link_rows(trace, transfers[0], request);
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
        for (uint32_t r = 0; r < trace->requests; r++)
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
    trace->first_block = SP_NEW_ARRAY(scratch, (size_t)placement->stage_count + 1, uint32_t);
    trace->evaluator = sp_evaluator_create(scratch, plan->workload, plan->cluster);
    if (trace->order == NULL || trace->first == NULL || trace->course == NULL || trace->first_block == NULL ||
        trace->evaluator == NULL)
        return sp_fail_memory(err);
    trace->requests = REQUESTS;
    for (uint32_t s = 0; s < placement->stage_count; s++) {
        const uint32_t replicas = sp_placement_replicas(placement, s);
        trace->first_block[s + 1] = trace->first_block[s] + replicas;
        trace->requests = replicas > trace->requests ? replicas : trace->requests;
    }
    if (trace->requests > MOST_REQUESTS)
        trace->requests = MOST_REQUESTS;
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
        status = put_stage(&trace, s, err);
    if (status == SP_OK)
        status = put_transfers(&trace, err);
    if (status == SP_OK && trace.is_broken)
        status = sp_fail_memory(err);
    sp_buf_release(&trace.packed);
    return status;
}
