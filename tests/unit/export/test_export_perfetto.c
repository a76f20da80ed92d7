#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "build_export.h"
#include "build_sharded.h"
#include "data_files.h"
#include "perfetto_trace.pb-c.h"

#define REQUESTS 3
#define MAX_ROWS 512

/* A row of the trace and what its slices add up to, in nanoseconds. */
struct row {
    uint64_t id, parent;
    bool is_device, is_counter, is_open;
    char name[128];
    uint64_t opened, last;
    double busy, idle;
    int64_t most;
    uint32_t slices;
};

struct rows {
    uint32_t count;
    struct row items[MAX_ROWS];
    uint64_t flows, ended_flows;
};

static struct row *find(struct rows *rows, uint64_t id)
{
    for (uint32_t i = 0; i < rows->count; i++) {
        if (rows->items[i].id == id)
            return &rows->items[i];
    }
    cr_assert_fail("an event is on row %llu, which is not described", (unsigned long long)id);
    return NULL;
}

static void describe(struct rows *rows, const Perfetto__Protos__TrackDescriptor *track)
{
    cr_assert_lt(rows->count, MAX_ROWS);
    for (uint32_t i = 0; i < rows->count; i++)
        cr_assert_neq(rows->items[i].id, track->uuid, "two rows have one id");
    struct row *row = &rows->items[rows->count++];
    *row = (struct row){.id = track->uuid,
                        .parent = track->has_parent_uuid ? track->parent_uuid : 0,
                        .is_device = track->process != NULL,
                        .is_counter = track->counter != NULL};
    (void)snprintf(row->name, sizeof row->name, "%s", track->name);
    if (row->parent != 0)
        cr_assert(find(rows, row->parent)->is_device);
}

/* Slices of a row follow each other. */
static void take(struct rows *rows, const Perfetto__Protos__TracePacket *packet, const char **name)
{
    const Perfetto__Protos__TrackEvent *event = packet->track_event;
    struct row *row = find(rows, event->track_uuid);
    const uint64_t time = packet->timestamp;
    cr_assert_geq(time, row->last, "%s goes back", row->name);
    row->last = time;
    if (event->type == PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_COUNTER) {
        cr_assert(row->is_counter && event->has_counter_value);
        row->most = event->counter_value > row->most ? event->counter_value : row->most;
    } else if (event->type == PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN) {
        cr_assert_not(row->is_open, "%s has slices in each other", row->name);
        row->is_open = true;
        row->opened = time;
        *name = event->categories[0];
        row->slices++;
        rows->flows += event->n_flow_ids;
        rows->ended_flows += event->n_terminating_flow_ids;
    } else {
        cr_assert_eq(event->type, PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_SLICE_END);
        cr_assert(row->is_open);
        row->is_open = false;
        *(strcmp(*name, "idle") == 0 ? &row->idle : &row->busy) += (double)(time - row->opened);
    }
}

static void read_trace(const struct exported *bytes, struct rows *rows)
{
    Perfetto__Protos__Trace *trace =
        perfetto__protos__trace__unpack(NULL, bytes->bytes.size, (const uint8_t *)bytes->bytes.data);
    const char *name = "";
    cr_assert_not_null(trace);
    memset(rows, 0, sizeof *rows);
    cr_assert_gt(trace->n_packet, 0);
    cr_expect_eq(trace->packet[0]->sequence_flags,
                 PERFETTO__PROTOS__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_INCREMENTAL_STATE_CLEARED);
    for (size_t i = 0; i < trace->n_packet; i++) {
        const Perfetto__Protos__TracePacket *packet = trace->packet[i];
        cr_assert_eq(packet->trusted_packet_sequence_id, 1);
        if (packet->track_descriptor != NULL)
            describe(rows, packet->track_descriptor);
        else
            take(rows, packet, &name);
    }
    perfetto__protos__trace__free_unpacked(trace, NULL);
}

/* Per request a device is as busy as the plan's JSON says, to a nanosecond for each slice's two ends. */
static void expect_plan(const struct planned_model *model)
{
    static struct rows rows;
    struct exported bytes = export_of(model->subject, "perfetto");
    json_t *plan = planned_json(model);
    const struct sp_evaluation *evaluation = model->plan->result->evaluation;
    read_trace(&bytes, &rows);
    cr_expect_eq(rows.flows, (uint64_t)REQUESTS * evaluation->transfer_count);
    cr_expect_eq(rows.flows, rows.ended_flows);
    for (uint32_t s = 0; s < evaluation->stage_count; s++) {
        const json_t *device = json_array_get(json_object_get(plan, "devices"), evaluation->stages[s].device);
        const double compute = json_number_value(json_object_get(device, "compute_seconds"));
        const double communication = json_number_value(json_object_get(device, "communication_seconds"));
        const double first = evaluation->stages[s].start_seconds, interval = evaluation->interval_seconds;
        double busy = 0, idle = 0, links = 0;
        uint32_t link_slices = 0;
        int64_t most = 0;
        char prefix[32];
        (void)snprintf(prefix, sizeof prefix, "stage %u on ", s);
        const struct row *owner = NULL;
        for (uint32_t i = 0; i < rows.count; i++) {
            if (rows.items[i].is_device && strncmp(rows.items[i].name, prefix, strlen(prefix)) == 0)
                owner = &rows.items[i];
        }
        cr_assert_not_null(owner);
        for (uint32_t i = 0; i < rows.count; i++) {
            const struct row *row = &rows.items[i];
            cr_assert_not(row->is_open);
            if (row->parent != owner->id)
                continue;
            if (row->is_counter) {
                most = row->most;
            } else if (strcmp(row->name, "compute") == 0) {
                busy = row->busy;
                idle = row->idle;
            } else {
                links += row->busy;
                link_slices += row->slices;
            }
        }
        cr_expect_float_eq(busy, REQUESTS * compute * 1e9, REQUESTS);
        cr_expect_float_eq(links, REQUESTS * communication * 1e9, link_slices + 1.0);
        cr_expect_float_eq(idle, (first + REQUESTS * (interval - compute)) * 1e9, REQUESTS + 1);
        const json_t *memory = json_object_get(device, "memory");
        cr_expect_eq(most, llround(json_number_value(json_object_get(memory, "total_bytes"))));
    }
    json_decref(plan);
    exported_release(&bytes);
}

Test(export_perfetto, devices_are_as_busy_as_the_plan_says)
{
    struct planned_model model;
    for (int64_t devices = 1; devices <= 4; devices++) {
        planned_mlp(&model, &(struct onnx_mlp){.layers = 8, .width = 4096, .batch = "512"}, devices);
        expect_plan(&model);
        planned_release(&model);
    }
}

Test(export_perfetto, the_same_for_real_models)
{
    static const char *const names[] = {"transformer_tiny.onnx", "resnet50.onnx", "vit_l_16.onnx"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct planned_model model;
        struct sp_buf file;
        size_t size;
        char path[512];
        (void)snprintf(path, sizeof path, SOURCE_ROOT "/tests/data/%s", names[i]);
        unsigned char *bytes = data_read(path, &size);
        cr_assert_not_null(bytes);
        sp_buf_init(&file, size + 1);
        sp_buf_append(&file, bytes, size);
        free(bytes);
        planned_make(&model, file, 3);
        expect_plan(&model);
        planned_release(&model);
    }
}

/* Of all blocks of a stage together: what its rows of one name, or all rows of links, add up to. */
static double busy_of(const struct rows *rows, uint32_t stage, const char *name, uint32_t *ret_slices)
{
    char prefix[32];
    double busy = 0;
    *ret_slices = 0;
    (void)snprintf(prefix, sizeof prefix, "stage %u on ", stage);
    for (uint32_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->items[i];
        if (row->parent == 0 || row->is_counter)
            continue;
        const struct row *owner = find((struct rows *)(uintptr_t)rows, row->parent);
        const bool is_link = strcmp(row->name, "compute") != 0 && strcmp(row->name, "collectives") != 0;
        if (strncmp(owner->name, prefix, strlen(prefix)) != 0 ||
            (name != NULL ? strcmp(row->name, name) != 0 : !is_link))
            continue;
        busy += row->busy;
        *ret_slices += row->slices;
    }
    return busy;
}

/* Each request is computed once in each stage, by one of its replicas. */
static void expect_blocks(const struct sharded_model *model, uint32_t replicas)
{
    static struct rows rows;
    const uint32_t requests = replicas > REQUESTS ? replicas : REQUESTS;
    struct exported bytes = export_of(model->planned.subject, "perfetto");
    const struct sp_evaluation *evaluation = model->plan->result->evaluation;
    uint32_t owners = 0;
    read_trace(&bytes, &rows);
    cr_expect_eq(rows.flows, (uint64_t)requests * evaluation->transfer_count);
    cr_expect_eq(rows.flows, rows.ended_flows);
    for (uint32_t i = 0; i < rows.count; i++) {
        const struct row *row = &rows.items[i];
        owners += row->is_device;
        if (!row->is_counter || row->parent == 0)
            continue;
        const char *name = find(&rows, row->parent)->name;
        cr_assert_eq(strncmp(name, "stage ", 6), 0);
        const unsigned long stage = strtoul(name + 6, NULL, 10);
        cr_assert_lt(stage, evaluation->stage_count);
        cr_expect_eq(row->most, llround(evaluation->stages[stage].total_bytes));
    }
    cr_expect_eq(owners, evaluation->stage_count * replicas);
    for (uint32_t s = 0; s < evaluation->stage_count; s++) {
        const struct sp_stage_cost *cost = &evaluation->stages[s];
        uint32_t slices;
        const double compute = busy_of(&rows, s, "compute", &slices), rounding = slices;
        cr_expect_float_eq(compute, requests * (cost->compute_seconds - cost->collective_seconds) * 1e9, rounding + 1);
        const double exchanged = busy_of(&rows, s, "collectives", &slices);
        cr_expect_float_eq(exchanged, requests * cost->collective_seconds * 1e9, slices + 1.0);
        const double links = busy_of(&rows, s, NULL, &slices);
        cr_expect_float_eq(links, requests * (cost->send_seconds + cost->receive_seconds) * 1e9, slices + 1.0);
    }
    exported_release(&bytes);
}

Test(export_perfetto, blocks_and_replicas_are_processes)
{
    for (uint64_t seed = 0; seed < 12; seed++) {
        struct sharded_model model;
        struct sp_buf file;
        const uint32_t replicas = 1 + seed % 5;
        onnx_mlp(&file, &(struct onnx_mlp){.layers = 6, .width = 4096, .batch = "512"});
        sharded_make(&model, file,
                     &(struct sharded_options){.stages = 1 + seed % 3,
                                               .replicas = replicas,
                                               .axis_count = 2,
                                               .sizes = {2, 2},
                                               .choose = sharded_choose_any,
                                               .context = &seed});
        expect_blocks(&model, replicas);
        sharded_release(&model);
    }
}
