/* The file of a plan's index: every figure is that of the plan's JSON, and nothing else is taken for an index. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "build_sharded.h"
#include "data_files.h"
#include "plan/stage_strategies.h"
#include "plan_index.h"
#include "random_workload.h"

#define NEAR 1e-9 /* of sums: the share by which their rounding may differ */

static void expect_near(double a, double b, const char *what)
{
    cr_expect(fabs(a - b) <= NEAR * fmax(fabs(a), fabs(b)), "%s: %.17g, not %.17g", what, a, b);
}

/* What the plan's JSON has as null, because it is no number, is 0. */
static double number(const json_t *object, const char *name)
{
    const json_t *member = json_object_get(object, name);
    cr_assert_not_null(member, "no %s", name);
    return json_number_value(member);
}

static void expect_text(const struct sp_index *index, uint32_t text, const json_t *object, const char *name)
{
    const char *expected = json_string_value(json_object_get(object, name));
    if (expected == NULL)
        cr_assert_eq(text, SP_INDEX_NONE, "%s", name);
    else
        cr_assert_str_eq(sp_index_text(index, text), expected);
}

static void expect_node(const struct sp_index *index, uint32_t node, const json_t *object, const char *name)
{
    expect_text(index, node == SP_INDEX_NONE ? SP_INDEX_NONE : index->nodes[node].name, object, name);
}

static void expect_tensor(const struct sp_index *index, uint32_t tensor, const json_t *object)
{
    expect_text(index, tensor == SP_INDEX_NONE ? SP_INDEX_NONE : index->tensors[tensor].name, object, "tensor");
}

/* The row is just the bytes of this entry. */
static void expect_row(const struct plan_index *made, const struct sp_index_row *row, const json_t *entry)
{
    cr_assert(row->size > 0 && row->offset + row->size <= made->json.size);
    json_t *found = json_loadb(made->json.data + row->offset, row->size, JSON_REJECT_DUPLICATES, NULL);
    cr_assert_not_null(found, "%.*s", (int)row->size, made->json.data + row->offset);
    cr_assert(json_equal(found, entry));
    json_decref(found);
}

/* ---- lists ------------------------------------------------------------------------------------------------------ */

static void expect_tensors(const struct plan_index *made, const json_t *plan)
{
    const struct sp_index *index = &made->index;
    const json_t *tensors = json_object_get(plan, "tensors");
    size_t next = 0;
    for (uint32_t t = 0; t < index->count.tensors; t++) {
        static const char *const kinds[] = {"activation", "input", "weight"};
        const struct sp_index_tensor *tensor = &index->tensors[t];
        if (tensor->row.size == 0)
            continue;
        const json_t *entry = json_array_get(tensors, next++);
        cr_assert_not_null(entry);
        expect_row(made, &tensor->row, entry);
        expect_text(index, tensor->name, entry, "name");
        expect_text(index, tensor->spec, json_object_get(entry, "spec"), "text");
        cr_assert_str_eq(json_string_value(json_object_get(entry, "kind")), kinds[tensor->kind]);
        cr_assert_eq(tensor->bytes, number(entry, "bytes"));
        cr_assert_eq(tensor->is_split, json_object_get(entry, "bytes_per_device") != NULL);
        cr_assert_eq(tensor->bytes_per_device, number(entry, tensor->is_split ? "bytes_per_device" : "bytes"));
    }
    cr_assert_eq(next, json_array_size(tensors));
}

static void expect_collectives(const struct plan_index *made, const json_t *plan)
{
    const struct sp_index *index = &made->index;
    const json_t *collectives = json_object_get(plan, "collectives");
    cr_assert_eq(index->count.collectives, json_array_size(collectives));
    for (uint32_t c = 0; c < index->count.collectives; c++) {
        const struct sp_index_collective *collective = &index->collectives[c];
        const json_t *entry = json_array_get(collectives, c);
        const bool is_send = json_object_get(entry, "to_stage") != NULL;
        expect_row(made, &collective->row, entry);
        expect_text(index, collective->kind, entry, "kind");
        expect_tensor(index, collective->tensor, entry);
        expect_node(index, collective->after_node, entry, "after_node");
        expect_node(index, collective->before_node, entry, "before_node");
        cr_assert_eq(collective->stage, number(entry, is_send ? "from_stage" : "stage"));
        if (is_send)
            cr_assert_eq(collective->to_stage, number(entry, "to_stage"));
        else
            cr_assert_eq(collective->to_stage, SP_INDEX_NONE);
        cr_assert_eq(collective->bytes, number(entry, "bytes"));
        cr_assert_eq(collective->seconds, number(entry, "seconds"));
    }
}

static void expect_findings(const struct plan_index *made, const json_t *plan)
{
    const struct sp_index *index = &made->index;
    const json_t *findings = json_object_get(plan, "diagnostics");
    cr_assert_eq(index->count.findings, json_array_size(findings));
    for (uint32_t f = 0; f < index->count.findings; f++) {
        const struct sp_index_finding *finding = &index->findings[f];
        const json_t *entry = json_array_get(findings, f);
        expect_row(made, &finding->row, entry);
        expect_text(index, finding->severity, entry, "severity");
        expect_text(index, finding->code, entry, "code");
        expect_text(index, finding->message, entry, "message");
        if (finding->node != SP_INDEX_NONE)
            expect_node(index, finding->node, entry, "node");
        if (finding->tensor != SP_INDEX_NONE)
            expect_tensor(index, finding->tensor, entry);
    }
}

/* Nodes are the workload's, with operands and users that point at each other. */
static void expect_nodes(const struct plan_index *made, const struct sp_plan *plan)
{
    const struct sp_index *index = &made->index;
    const struct sp_workload *workload = plan->workload;
    cr_assert_eq(index->count.nodes, workload->node_count);
    for (uint32_t n = 0; n < index->count.nodes; n++) {
        const struct sp_index_node *node = &index->nodes[n];
        const struct sp_work_node *work = &workload->nodes[n];
        cr_assert_str_eq(sp_index_text(index, node->name), work->name);
        cr_assert_eq(node->operator_type == SP_INDEX_NONE, work->node == NULL);
        if (work->node != NULL)
            cr_assert_str_eq(sp_index_text(index, node->operator_type), work->node->op_type);
        cr_assert_eq(node->folded, work->folded);
        cr_assert_eq(node->stage, plan->result->placement.stage_of[n]);
        cr_assert_eq(node->input_count, work->input_count);
        cr_assert_eq(node->output_count, work->output_count);
        for (uint32_t i = 0; i < node->input_count + node->output_count; i++) {
            const uint32_t tensor = i < node->input_count ? work->inputs[i] : work->outputs[i - node->input_count];
            const struct sp_index_tensor *operand = &index->tensors[index->operands[node->first_operand + i]];
            cr_assert_str_eq(sp_index_text(index, operand->name), workload->tensors[tensor].name);
            if (i >= node->input_count) {
                cr_assert_eq(operand->producer, n);
                continue;
            }
            bool is_user = node->folded;
            for (uint32_t k = 0; k < operand->consumer_count; k++)
                is_user = is_user || index->consumers[operand->first_consumer + k] == n;
            cr_assert(is_user);
        }
        if (node->folded)
            cr_assert(node->seconds == 0 && node->flops == 0 && node->bytes == 0 && node->collective_seconds == 0);
        else
            cr_assert_eq(node->seconds, sp_plan_node_seconds(plan, n));
    }
}

/* ---- stages ----------------------------------------------------------------------------------------------------- */

static void expect_memory(const struct sp_index *index, const struct sp_index_stage *stage, const json_t *device)
{
    const json_t *memory = json_object_get(device, "memory");
    double alive = 0, most = 0;
    cr_assert_eq(stage->weights_bytes, number(memory, "weights_bytes"));
    cr_assert_eq(stage->cache_bytes, number(memory, "cache_bytes"));
    cr_assert_eq(stage->communication_bytes, number(memory, "communication_bytes"));
    cr_assert_eq(stage->activations_peak_bytes, number(memory, "activations_peak_bytes"));
    cr_assert_eq(stage->total_bytes, number(memory, "total_bytes"));
    cr_assert_eq(stage->capacity_bytes, number(memory, "capacity_bytes"));
    for (uint32_t i = 0; i < stage->alive.count; i++) {
        const struct sp_index_alive *held = &index->alive[stage->alive.first + i];
        alive += held->bytes;
        if (held->holds != SP_INDEX_HELD_WORKSPACE)
            cr_assert_neq(index->tensors[held->tensor].kind, SP_INDEX_WEIGHT);
    }
    expect_near(alive, stage->activations_peak_bytes, "alive");
    for (uint32_t i = 0; i < stage->points.count; i++)
        most = fmax(most, index->points[stage->points.first + i].bytes);
    expect_near(most, stage->activations_peak_bytes, "points");
    if (stage->points.count > 0)
        cr_assert_eq(index->points[stage->points.first + stage->peak_point].bytes, most);
}

static void expect_slices(const struct sp_index *index, uint32_t s, const json_t *entry)
{
    const struct sp_index_stage *stage = &index->stages[s];
    double busy[SP_INDEX_WHATS] = {0}, until = stage->start_seconds;
    for (uint32_t i = 0; i < stage->slices.count; i++) {
        const struct sp_index_slice *slice = &index->slices[stage->slices.first + i];
        const double seconds = slice->end - slice->begin;
        busy[slice->what] += seconds;
        if (slice->what <= SP_INDEX_COLLECTIVE)
            until = fmax(until, slice->end);
        if (slice->what == SP_INDEX_COMPUTE)
            expect_near(seconds + slice->begin, index->nodes[slice->item].seconds + slice->begin, "slice");
        else
            expect_near(seconds + slice->begin, index->collectives[slice->item].seconds + slice->begin, "slice");
        cr_assert(slice->what == SP_INDEX_RECEIVE || slice->begin >= stage->start_seconds);
        if (slice->what == SP_INDEX_SEND)
            cr_assert(slice->begin >= (stage->start_seconds + stage->compute_seconds) * (1 - NEAR));
        if (slice->what == SP_INDEX_RECEIVE)
            cr_assert(slice->end <= stage->start_seconds * (1 + NEAR));
    }
    expect_near(busy[SP_INDEX_COLLECTIVE] + until, number(entry, "collective_seconds") + until, "collectives");
    expect_near(busy[SP_INDEX_COMPUTE] + busy[SP_INDEX_COLLECTIVE], number(entry, "compute_seconds"), "compute");
    expect_near(busy[SP_INDEX_SEND] + until, number(entry, "send_seconds") + until, "sends");
    expect_near(busy[SP_INDEX_RECEIVE] + until, number(entry, "receive_seconds") + until, "receives");
    expect_near(until, stage->start_seconds + stage->compute_seconds, "end");
}

static void expect_stages(const struct plan_index *made, const json_t *plan)
{
    const struct sp_index *index = &made->index;
    const json_t *stages = json_object_get(plan, "stages"), *devices = json_object_get(plan, "devices");
    cr_assert_eq(index->count.stages, json_array_size(stages));
    for (uint32_t s = 0; s < index->count.stages; s++) {
        const struct sp_index_stage *stage = &index->stages[s];
        const json_t *entry = json_array_get(stages, s), *all = json_object_get(entry, "devices");
        const json_t *names = json_object_get(entry, "nodes"), *device = json_array_get(devices, stage->first_device);
        double seconds = 0;
        size_t next = 0;
        cr_assert_eq(stage->first_device, json_integer_value(json_array_get(all, 0)));
        cr_assert_eq(stage->device_count * stage->replicas, json_array_size(all));
        cr_assert_eq(stage->replicas, number(entry, "replicas"));
        expect_text(index, stage->device_name, device, "name");
        cr_assert_eq(stage->start_seconds, number(entry, "start_seconds"));
        cr_assert_eq(stage->compute_seconds, number(entry, "compute_seconds"));
        cr_assert_eq(stage->interval_seconds, number(entry, "seconds"));
        for (uint32_t n = 0; n < index->count.nodes; n++) {
            if (index->nodes[n].stage != s)
                continue;
            cr_assert_str_eq(sp_index_text(index, index->nodes[n].name),
                             json_string_value(json_array_get(names, next++)));
            seconds += index->nodes[n].seconds + index->nodes[n].collective_seconds;
        }
        cr_assert_eq(next, json_array_size(names));
        cr_assert_eq(stage->node_count, next);
        expect_near(seconds, stage->compute_seconds, "nodes");
        expect_memory(index, stage, device);
        expect_slices(index, s, entry);
    }
}

/* ---- the whole plan --------------------------------------------------------------------------------------------- */

static void replace_nodes(json_t *list)
{
    size_t i;
    json_t *entry;
    json_array_foreach(list, i, entry)
    {
        const size_t count = json_array_size(json_object_get(entry, "nodes"));
        (void)json_object_del(entry, "nodes");
        (void)json_object_set_new(entry, "node_count", json_integer((json_int_t)count));
    }
}

static double take_at(const json_t *entry, double at)
{
    cr_assert_eq(number(entry, "begin_seconds"), at);
    return number(entry, "end_seconds");
}

/* From the arrival of the request to its end without a gap, and the stages are those that are said to be on it. */
static void expect_path(const struct sp_index *index, const json_t *path)
{
    uint32_t on_path = 0, critical = 0;
    double at = 0;
    size_t i;
    json_t *entry;
    for (uint32_t s = 0; s < index->count.stages; s++)
        critical += index->stages[s].is_critical;
    json_array_foreach(path, i, entry)
    {
        at = take_at(entry, at);
        if (json_object_get(entry, "stage") == NULL)
            continue;
        const uint32_t stage = (uint32_t)number(entry, "stage");
        cr_assert_eq(index->stages[stage].is_critical, 1);
        on_path++;
    }
    cr_assert_eq(at, index->latency_seconds);
    cr_assert_eq(on_path, critical);
}

static void expect_totals(const json_t *summary, const json_t *plan)
{
    const json_t *totals = json_object_get(summary, "collectives");
    double before = INFINITY;
    size_t i, k, counted = 0;
    json_t *total, *entry;
    json_array_foreach(totals, i, total)
    {
        double bytes = 0, seconds = 0;
        size_t count = 0;
        json_array_foreach(json_object_get(plan, "collectives"), k, entry)
        {
            if (!json_equal(json_object_get(entry, "kind"), json_object_get(total, "kind")))
                continue;
            bytes += number(entry, "bytes");
            seconds += number(entry, "seconds");
            count++;
        }
        cr_assert_eq(number(total, "count"), count);
        cr_assert_eq(number(total, "bytes"), bytes);
        cr_assert_eq(number(total, "seconds"), seconds);
        cr_assert_leq(seconds, before);
        before = seconds;
        counted += count;
    }
    cr_assert_eq(counted, json_array_size(json_object_get(plan, "collectives")));
}

static size_t count_if(const json_t *list, const char *name, const char *value)
{
    size_t i, count = 0;
    json_t *entry;
    json_array_foreach(list, i, entry)
    {
        const json_t *member = json_object_get(entry, name);
        count += value == NULL ? member != NULL : strcmp(json_string_value(member), value) == 0;
    }
    return count;
}

static void expect_summary(const struct plan_index *made, const json_t *plan)
{
    static const char *const added[] = {"counts", "critical_path", "collectives"};
    static const char *const left_out[] = {"tensors", "collectives", "diagnostics", "outline"};
    static const char *const severities[] = {"error", "warning", "note"};
    const struct sp_index *index = &made->index;
    json_t *summary = json_loadb(index->summary.bytes, index->summary.size, JSON_REJECT_DUPLICATES, NULL);
    json_t *expected = json_deep_copy(plan);
    cr_assert_not_null(summary, "%.*s", (int)index->summary.size, index->summary.bytes);
    const json_t *counts = json_object_get(summary, "counts");
    uint32_t folded = 0;
    for (uint32_t n = 0; n < index->count.nodes; n++)
        folded += index->nodes[n].folded;
    cr_assert_eq(number(counts, "nodes"), index->count.nodes);
    cr_assert_eq(number(counts, "folded_nodes"), folded);
    cr_assert_eq(number(counts, "tensors"), json_array_size(json_object_get(plan, "tensors")));
    cr_assert_eq(number(counts, "split_tensors"), count_if(json_object_get(plan, "tensors"), "bytes_per_device", NULL));
    cr_assert_eq(number(counts, "collectives"), json_array_size(json_object_get(plan, "collectives")));
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(number(json_object_get(counts, "diagnostics"), severities[i]),
                     count_if(json_object_get(plan, "diagnostics"), "severity", severities[i]));
    expect_path(index, json_object_get(summary, "critical_path"));
    expect_totals(summary, plan);
    for (size_t i = 0; i < sizeof added / sizeof added[0]; i++)
        (void)json_object_del(summary, added[i]);
    for (size_t i = 0; i < sizeof left_out / sizeof left_out[0]; i++)
        (void)json_object_del(expected, left_out[i]);
    replace_nodes(json_object_get(expected, "stages"));
    replace_nodes(json_object_get(expected, "devices"));
    cr_assert(json_equal(summary, expected));
    json_decref(expected);
    json_decref(summary);
}

static void expect_line(const struct sp_index *index, const json_t *plan)
{
    static const char *const figures[] = {"latency_seconds",
                                          "interval_seconds",
                                          "throughput_per_second",
                                          "lower_bound_seconds",
                                          "gap",
                                          "communication_bytes",
                                          "devices_used",
                                          "bottleneck"};
    const json_t *estimate = json_object_get(plan, "estimate");
    char *text = NULL;
    double worst = 0;
    size_t i;
    json_t *device;
    cr_assert_geq(asprintf(&text, "{%.*s}", (int)index->line.size, index->line.bytes), 0);
    json_t *line = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    cr_assert_not_null(line, "%s", text);
    for (i = 0; i < sizeof figures / sizeof figures[0]; i++)
        cr_assert(json_equal(json_object_get(line, figures[i]), json_object_get(estimate, figures[i])), "%s",
                  figures[i]);
    json_array_foreach(json_object_get(plan, "devices"), i, device)
    {
        const json_t *memory = json_object_get(device, "memory");
        worst = fmax(worst, number(memory, "total_bytes") / number(memory, "capacity_bytes"));
    }
    cr_assert_eq(number(line, "memory_worst_ratio"), worst);
    cr_assert_eq(number(line, "devices"), json_array_size(json_object_get(plan, "devices")));
    cr_assert_eq(number(line, "stages"), json_array_size(json_object_get(plan, "stages")));
    cr_assert_eq(number(line, "search_seconds"), PLAN_INDEX_SECONDS);
    json_decref(line);
    free(text);
}

static void expect_plan(const struct sp_plan *plan)
{
    struct plan_index made;
    plan_index_make(&made, plan);
    json_t *json = json_loadb(made.json.data, made.json.size, JSON_REJECT_DUPLICATES, NULL);
    cr_assert_not_null(json);
    cr_assert_eq(made.index.plan_size, made.json.size);
    cr_assert_eq(made.index.latency_seconds, plan->result->evaluation->latency_seconds);
    expect_nodes(&made, plan);
    expect_tensors(&made, json);
    expect_collectives(&made, json);
    expect_findings(&made, json);
    expect_stages(&made, json);
    expect_summary(&made, json);
    expect_line(&made.index, json);
    json_decref(json);
    plan_index_release(&made);
}

/* ---- plans ------------------------------------------------------------------------------------------------------ */

static void read_model(const char *name, struct sp_buf *ret_file)
{
    char path[512];
    size_t size;
    (void)snprintf(path, sizeof path, SOURCE_ROOT "/tests/data/%s", name);
    unsigned char *bytes = data_read(path, &size);
    cr_assert_not_null(bytes);
    sp_buf_init(ret_file, size + 1);
    sp_buf_append(ret_file, bytes, size);
    free(bytes);
}

Test(index_file, has_the_figures_of_pipelines)
{
    struct planned_model model;
    for (int64_t devices = 1; devices <= 4; devices++) {
        planned_mlp(&model, &(struct onnx_mlp){.layers = 8, .width = 4096, .batch = "512", .extra = "8"}, devices);
        expect_plan(model.plan);
        planned_release(&model);
    }
}

Test(index_file, has_the_figures_of_real_models)
{
    static const char *const names[] = {"transformer_tiny.onnx", "resnet50.onnx", "vit_l_16.onnx"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct planned_model model;
        struct sp_buf file;
        read_model(names[i], &file);
        planned_make(&model, file, 3);
        expect_plan(model.plan);
        planned_release(&model);
    }
}

/* Operators split in all ways, with replicas, and a stage of one device among blocks. */
Test(index_file, has_the_figures_of_blocks)
{
    uint32_t copies = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct sharded_model model;
        struct plan_index made;
        struct sp_buf file;
        if (seed % 2 == 0)
            onnx_mlp(&file, &(struct onnx_mlp){.layers = 6, .width = 4096, .batch = "512"});
        else
            read_model("transformer_tiny.onnx", &file);
        sharded_make(&model, file,
                     &(struct sharded_options){.stages = 1 + seed % 3,
                                               .replicas = 1 + seed % 5,
                                               .axis_count = 2,
                                               .sizes = {2, 2},
                                               .is_first_whole = seed % 4 == 2,
                                               .choose = sharded_choose_any,
                                               .context = &seed});
        expect_plan(model.plan);
        plan_index_make(&made, model.plan);
        for (uint32_t i = 0; i < made.index.count.alive; i++)
            copies += made.index.alive[i].holds == SP_INDEX_HELD_COPY;
        plan_index_release(&made);
        sharded_release(&model);
    }
    cr_expect_gt(copies, 0);
}

/* A graph of costs has neither operators nor shapes. */
Test(index_file, has_the_figures_of_graphs_of_costs)
{
    static const char cluster_text[] =
        "{\"device\":{\"name\":\"X\",\"memory_bytes\":1e9,\"memory_bandwidth\":1e12,\"flops\":{\"float32\":1e12},"
        "\"link_bandwidth\":1e9,\"link_latency\":0},\"count\":2}";
    static const char graph[] =
        "{\"nodes\":[{\"id\":0,\"name\":\"a\",\"seconds\":{\"X\":2},\"output_bytes\":1e8,\"memory_bytes\":5},"
        "{\"id\":1,\"name\":\"b\",\"seconds\":{\"X\":2},\"output_bytes\":0,\"memory_bytes\":7}],"
        "\"edges\":[{\"from\":0,\"to\":1,\"bytes\":1e8}]}";
    const struct sp_job_options options = {.bytes = graph, .size = strlen(graph), .name = "graph"};
    struct sp_plan_options asked;
    struct sp_error err = {0};
    struct sp_job *job;
    struct sp_plan *plan;
    struct sp_arena *arena = sp_arena_create(NULL);
    sp_plan_options_init(&asked);
    asked.max_replicas = 1; /* one plan, no copies */
    cr_assert_eq(sp_job_plan(&options, cluster_from(arena, cluster_text), &asked, &job, &plan, &err), SP_OK, "%s: %s",
                 err.code, err.message);
    cr_assert_null(plan->model);
    expect_plan(plan);
    sp_job_destroy(job);
    sp_arena_destroy(arena);
}

/* ---- what is no index ------------------------------------------------------------------------------------------- */

/* Visits all that an open index has: what it promises keeps this within the file. */
static double visit(const struct sp_index *index)
{
    double sum = 0;
    for (uint32_t n = 0; n < index->count.nodes; n++) {
        const struct sp_index_node *node = &index->nodes[n];
        sum += (double)strlen(sp_index_text(index, node->name)) + index->stages[node->stage].start_seconds;
        for (uint32_t i = 0; i < node->input_count + node->output_count; i++)
            sum += index->tensors[index->operands[node->first_operand + i]].bytes;
    }
    for (uint32_t t = 0; t < index->count.tensors; t++) {
        const struct sp_index_tensor *tensor = &index->tensors[t];
        for (uint32_t i = 0; i < tensor->consumer_count; i++)
            sum += index->nodes[index->consumers[tensor->first_consumer + i]].seconds;
        cr_assert_leq(tensor->row.size, index->plan_size);
    }
    for (uint32_t s = 0; s < index->count.stages; s++) {
        const struct sp_index_stage *stage = &index->stages[s];
        for (uint32_t i = 0; i < stage->slices.count; i++) {
            const struct sp_index_slice *slice = &index->slices[stage->slices.first + i];
            sum += slice->what == SP_INDEX_COMPUTE ? index->nodes[slice->item].seconds
                                                   : index->collectives[slice->item].seconds;
        }
        for (uint32_t i = 0; i < stage->points.count; i++)
            sum += index->nodes[index->points[stage->points.first + i].node].seconds;
        for (uint32_t i = 0; i < stage->alive.count; i++)
            sum += index->alive[stage->alive.first + i].bytes;
    }
    for (uint32_t f = 0; f < index->count.findings; f++)
        sum += (double)strlen(sp_index_text(index, index->findings[f].message));
    return sum;
}

Test(index_file, is_refused_when_it_is_cut_or_extended)
{
    struct planned_model model;
    struct plan_index made;
    struct sp_index index;
    void *copy;
    planned_mlp(&model, &(struct onnx_mlp){.layers = 2, .width = 4096, .batch = "512"}, 2);
    plan_index_make(&made, model.plan);
    char *longer = calloc(1, made.size + 8);
    memcpy(longer, made.file, made.size);
    for (size_t size = 0; size <= made.size + 8; size++) {
        cr_assert_eq(plan_index_open(longer, size, &index, &copy) == SP_OK, size == made.size, "%zu of %zu", size,
                     made.size);
        free(copy);
    }
    for (size_t shift = 1; shift < 8; shift++) { /* tables lie at multiples of 8 */
        memmove(longer + shift, made.file, made.size);
        cr_assert_neq(sp_index_open(longer + shift, made.size, &index, NULL), SP_OK);
    }
    free(longer);
    plan_index_release(&made);
    planned_release(&model);
}

/* Bytes are changed at random, words are set to what counts and offsets should not be: most of it is seen, and what is
   not can be visited. */
Test(index_file, is_sound_or_refused_whatever_its_bytes)
{
    static const uint32_t words[] = {0, 1, 7, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff, 0x7ff00000, 0xbff00000};
    struct sharded_model model;
    struct plan_index made;
    struct sp_buf file;
    uint64_t seed = 5;
    uint32_t refused = 0, rounds = 30000;
    onnx_mlp(&file, &(struct onnx_mlp){.layers = 4, .width = 4096, .batch = "512"});
    sharded_make(&model, file,
                 &(struct sharded_options){
                     .stages = 2, .axis_count = 1, .sizes = {2}, .choose = sharded_choose_any, .context = &seed});
    plan_index_make(&made, model.plan);
    for (uint32_t round = 0; round < rounds; round++) {
        struct sp_index index;
        uint32_t *changed = malloc(made.size);
        memcpy(changed, made.file, made.size);
        for (uint32_t i = 0; i <= pick(&seed, 3); i++) {
            const size_t at = pick(&seed, (uint32_t)(made.size / 4));
            if (pick(&seed, 3) == 0)
                changed[at] += pick(&seed, 5) - 2;
            else
                changed[at] = words[pick(&seed, sizeof words / sizeof words[0])];
        }
        if (sp_index_open(changed, made.size, &index, NULL) == SP_OK)
            cr_assert_geq(visit(&index), 0);
        else
            refused++;
        free(changed);
    }
    cr_expect_gt(refused, rounds / 4);
    plan_index_release(&made);
    sharded_release(&model);
}

/* The corpus of fuzz_index.c has files of this form: some of them are sound, each of the others is not for one reason.
 */
Test(index_file, knows_the_files_of_the_corpus)
{
    static const char *const sound[] = {"small", "one-stage", "numbered"};
    static const char *const others[] = {"no-stage",    "same-devices",   "not-finite",     "no-such-node",
                                         "not-ordered", "no-such-tensor", "range-too-long", "outside-of-plan",
                                         "no-text",     "not-utf8",       "half-a-text",    "too-many-requests",
                                         "truncated",   "text",           "same-consumer",  "few-numbers"};
    const size_t sound_count = sizeof sound / sizeof sound[0], count = sound_count + sizeof others / sizeof others[0];
    for (size_t i = 0; i < count; i++) {
        const char *name = i < sound_count ? sound[i] : others[i - sound_count];
        char path[512];
        struct sp_index index;
        size_t size;
        void *copy;
        (void)snprintf(path, sizeof path, SOURCE_ROOT "/tests/fuzz/corpus/index/%s", name);
        unsigned char *bytes = data_read(path, &size);
        cr_assert_not_null(bytes, "%s", path);
        cr_assert_eq(plan_index_open(bytes, size, &index, &copy) == SP_OK, i < sound_count, "%s", name);
        free(copy);
        free(bytes);
    }
}

/* ---- what is no plan's JSON ------------------------------------------------------------------------------------- */

static bool swallow(void *context, const void *bytes, size_t size)
{
    (void)bytes;
    *(size_t *)context += size;
    return true;
}

static void expect_other(const struct sp_plan *plan, const char *text, size_t size)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_index_scan *scan = sp_index_scan_create(arena);
    struct sp_error err = {0};
    size_t written = 0;
    const struct sp_sink sink = {.write = swallow, .context = &written};
    sp_index_scan_take(scan, text, size);
    cr_assert_eq(sp_index_write(&(struct sp_index_source){.plan = plan, .scan = scan}, &sink, &err), SP_ERR_REQUEST);
    cr_assert_str_eq(err.code, "OTHER_PLAN");
    cr_assert_eq(written, 0);
    sp_arena_destroy(arena);
}

Test(index_file, takes_no_other_plans_json)
{
    struct planned_model model, other;
    struct plan_index made;
    planned_mlp(&model, &(struct onnx_mlp){.layers = 4, .width = 4096, .batch = "512"}, 2);
    planned_mlp(&other, &(struct onnx_mlp){.layers = 5, .width = 4096, .batch = "512"}, 2);
    plan_index_make(&made, other.plan);
    expect_other(model.plan, made.json.data, made.json.size);
    expect_other(other.plan, made.json.data, made.json.size - 1);
    expect_other(other.plan, "", 0);
    expect_other(other.plan, "{}", 2);
    expect_other(other.plan, "{}}", 3);
    expect_other(other.plan, "[{}]", 4);
    plan_index_release(&made);
    planned_release(&other);
    planned_release(&model);
}

/* Any form of the text that says the same: names and values with brackets, quotes and commas in them, and blanks. */
Test(index_file, scans_texts_of_any_form)
{
    static const char text[] = "{ \"plan\" : \"1\",\n \"tensors\":[ {\"name\":\"a]}\\\"\",\"x\":[{},{}]} , "
                               "{\"b\":{\"tensors\":[{}]}} ],\"outline\":"
                               "{\"nodes\":[1]},\"stages\":[{\"index\":0,\"nodes\":[ "
                               "],\"z\":\"nodes\"},{\"nodes\":[\"a,b\",\"\\\\\"],\"y\":1}],"
                               "\"collectives\":[],\"diagnostics\":[{}],\"what\":{\"nodes\":[1,2]}}\n";
    static const char kept[] =
        "\"plan\":\"1\",\"stages\":[{\"index\":0,\"node_count\":0,\"z\":\"nodes\"},{\"node_count\":2,"
        "\"y\":1}],\"what\":{\"nodes\":[1,2]}";
    for (size_t piece = 1; piece < sizeof text; piece++) {
        struct sp_arena *arena = sp_arena_create(NULL);
        struct sp_index_scan *scan = sp_index_scan_create(arena);
        const size_t size = sizeof text - 1;
        uint32_t count;
        for (size_t at = 0; at < size; at += piece)
            sp_index_scan_take(scan, text + at, piece < size - at ? piece : size - at);
        cr_assert(sp_index_scan_is_whole(scan));
        cr_assert_eq(sp_index_scan_size(scan), size);
        const struct sp_index_row *rows = sp_index_scan_rows(scan, SP_INDEX_LIST_TENSORS, &count);
        cr_assert_eq(count, 2);
        cr_assert_eq(memcmp(text + rows[0].offset, "{\"name\"", 7), 0);
        cr_assert_eq(text[rows[0].offset + rows[0].size - 1], '}');
        cr_assert_eq(memcmp(text + rows[1].offset, "{\"b\":{\"tensors\":[{}]}}", rows[1].size), 0);
        (void)sp_index_scan_rows(scan, SP_INDEX_LIST_COLLECTIVES, &count);
        cr_assert_eq(count, 0);
        (void)sp_index_scan_rows(scan, SP_INDEX_LIST_DIAGNOSTICS, &count);
        cr_assert_eq(count, 1);
        size_t kept_size;
        const char *members = sp_index_scan_members(scan, &kept_size);
        cr_assert_eq(kept_size, sizeof kept - 1, "%.*s", (int)kept_size, members);
        cr_assert_eq(memcmp(members, kept, kept_size), 0, "%.*s", (int)kept_size, members);
        sp_arena_destroy(arena);
    }
}
