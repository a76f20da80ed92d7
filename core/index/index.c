#include "index/index.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/limits.h"
#include "base/utf8.h"
#include "index/layout.h"

/* ---- parts ------------------------------------------------------------------------------------------------------ */

static bool is_number(double value)
{
    return isfinite(value) && value >= 0;
}

static bool are_numbers(uint32_t count, const double *values)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!is_number(values[i]))
            return false;
    }
    return true;
}
#define ARE_NUMBERS(...)                                                                                               \
    are_numbers(sizeof((const double[]){__VA_ARGS__}) / sizeof(double), (const double[]){__VA_ARGS__})

/* Where a text begins. */
static bool is_text(const struct sp_index *index, uint32_t text)
{
    return text < index->count.texts && (text == 0 || index->texts[text - 1] == '\0');
}

static bool is_text_or_none(const struct sp_index *index, uint32_t text)
{
    return text == SP_INDEX_NONE || is_text(index, text);
}

static bool is_index_or_none(uint32_t index, uint32_t count)
{
    return index == SP_INDEX_NONE || index < count;
}

static bool is_row(const struct sp_index *index, const struct sp_index_row *row)
{
    return row->offset <= index->plan_size && row->size <= index->plan_size - row->offset;
}

/* A range that begins where the one before it ended. */
static bool takes(uint32_t *next, uint32_t count, uint32_t first, uint32_t taken)
{
    if (first != *next || taken > count - *next)
        return false;
    *next += taken;
    return true;
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

static bool check_texts(const struct sp_index *index)
{
    if (index->count.texts > 0 && index->texts[index->count.texts - 1] != '\0')
        return false;
    for (uint64_t at = 0; at < index->count.texts;) {
        const size_t size = strlen(index->texts + at);
        if (!sp_utf8_valid(index->texts + at, size))
            return false;
        at += size + 1;
    }
    return sp_utf8_valid(index->summary.bytes, (size_t)index->summary.size) &&
           sp_utf8_valid(index->line.bytes, (size_t)index->line.size);
}

static bool check_nodes(const struct sp_index *index)
{
    uint32_t next = 0;
    for (uint32_t n = 0; n < index->count.nodes; n++) {
        const struct sp_index_node *node = &index->nodes[n];
        if (!is_text(index, node->name) || !is_text_or_none(index, node->operator_type) ||
            node->stage >= index->count.stages || node->folded > 1 ||
            !takes(&next, index->count.operands, node->first_operand, node->input_count) ||
            !takes(&next, index->count.operands, next, node->output_count) ||
            !ARE_NUMBERS(node->seconds, node->collective_seconds, node->flops, node->bytes, node->weights_bytes))
            return false;
    }
    for (uint32_t i = 0; i < index->count.operands; i++) {
        if (index->operands[i] >= index->count.tensors)
            return false;
    }
    return next == index->count.operands;
}

static bool check_tensors(const struct sp_index *index)
{
    uint32_t next = 0;
    for (uint32_t t = 0; t < index->count.tensors; t++) {
        const struct sp_index_tensor *tensor = &index->tensors[t];
        if (!is_text(index, tensor->name) || !is_text_or_none(index, tensor->spec) || tensor->kind > SP_INDEX_WEIGHT ||
            tensor->is_split > 1 || !is_index_or_none(tensor->producer, index->count.nodes) ||
            !takes(&next, index->count.consumers, tensor->first_consumer, tensor->consumer_count) ||
            !ARE_NUMBERS(tensor->bytes, tensor->bytes_per_device) || !is_row(index, &tensor->row) ||
            (tensor->spec == SP_INDEX_NONE) != (tensor->row.size == 0))
            return false;
        for (uint32_t i = 0; i < tensor->consumer_count; i++) {
            const uint32_t *consumer = &index->consumers[tensor->first_consumer + i];
            if (*consumer >= index->count.nodes || (i > 0 && consumer[-1] >= *consumer))
                return false;
        }
    }
    return next == index->count.consumers;
}

static bool check_collectives(const struct sp_index *index)
{
    uint32_t stage = 0; /* that the one before, within a stage, is of */
    bool is_within = false;
    for (uint32_t c = 0; c < index->count.collectives; c++) {
        const struct sp_index_collective *collective = &index->collectives[c];
        if (!is_text(index, collective->kind) || !is_index_or_none(collective->tensor, index->count.tensors) ||
            !is_index_or_none(collective->after_node, index->count.nodes) ||
            !is_index_or_none(collective->before_node, index->count.nodes) ||
            collective->stage >= index->count.stages || !is_index_or_none(collective->to_stage, index->count.stages) ||
            !ARE_NUMBERS(collective->bytes, collective->seconds) || !is_row(index, &collective->row))
            return false;
        if (collective->to_stage != SP_INDEX_NONE ? is_within : collective->stage < stage)
            return false;
        if (collective->to_stage == SP_INDEX_NONE) {
            is_within = true;
            stage = collective->stage;
        }
    }
    return true;
}

static bool check_findings(const struct sp_index *index)
{
    for (uint32_t f = 0; f < index->count.findings; f++) {
        const struct sp_index_finding *finding = &index->findings[f];
        if (!is_text(index, finding->severity) || !is_text(index, finding->code) || !is_text(index, finding->message) ||
            !is_index_or_none(finding->node, index->count.nodes) ||
            !is_index_or_none(finding->tensor, index->count.tensors) || !is_row(index, &finding->row))
            return false;
    }
    return true;
}

/* ---- stages ----------------------------------------------------------------------------------------------------- */

static bool is_item(const struct sp_index *index, uint32_t stage, const struct sp_index_slice *slice)
{
    if (slice->what == SP_INDEX_COMPUTE)
        return slice->item < index->count.nodes && index->nodes[slice->item].stage == stage;
    if (slice->item >= index->count.collectives)
        return false;
    const struct sp_index_collective *collective = &index->collectives[slice->item];
    if (slice->what == SP_INDEX_COLLECTIVE)
        return collective->to_stage == SP_INDEX_NONE && collective->stage == stage;
    return collective->to_stage != SP_INDEX_NONE &&
           (slice->what == SP_INDEX_SEND ? collective->stage : collective->to_stage) == stage;
}

static bool check_slices(const struct sp_index *index, uint32_t stage)
{
    const struct sp_index_slice *before = NULL;
    for (uint32_t i = 0; i < index->stages[stage].slices.count; i++) {
        const struct sp_index_slice *slice = &index->slices[index->stages[stage].slices.first + i];
        if (!ARE_NUMBERS(slice->begin, slice->end) || slice->end < slice->begin || slice->what >= SP_INDEX_WHATS ||
            !is_item(index, stage, slice))
            return false;
        if (before != NULL && before->what > slice->what)
            return false;
        if (before != NULL && before->what == slice->what &&
            (slice->what <= SP_INDEX_COLLECTIVE ? before->end : before->begin) > slice->begin)
            return false;
        before = slice;
    }
    return true;
}

static bool check_points(const struct sp_index *index, uint32_t stage)
{
    const struct sp_index_point *before = NULL;
    for (uint32_t i = 0; i < index->stages[stage].points.count; i++) {
        const struct sp_index_point *point = &index->points[index->stages[stage].points.first + i];
        if (!ARE_NUMBERS(point->at, point->bytes) || point->node >= index->count.nodes ||
            index->nodes[point->node].stage != stage)
            return false;
        if (before != NULL && (before->at > point->at || before->node >= point->node))
            return false;
        before = point;
    }
    return is_index_or_none(index->stages[stage].peak_point, index->stages[stage].points.count);
}

static bool check_alive(const struct sp_index *index, uint32_t stage)
{
    const struct sp_index_alive *before = NULL;
    for (uint32_t i = 0; i < index->stages[stage].alive.count; i++) {
        const struct sp_index_alive *alive = &index->alive[index->stages[stage].alive.first + i];
        const bool is_workspace = alive->holds == SP_INDEX_HELD_WORKSPACE;
        const bool has_tensor = alive->holds < SP_INDEX_HELD_WORKSPACE;
        if (!is_number(alive->bytes) || alive->holds > SP_INDEX_HELD_WAITING ||
            (has_tensor ? alive->tensor >= index->count.tensors : alive->tensor != SP_INDEX_NONE) ||
            (is_workspace ? alive->node >= index->count.nodes : alive->node != SP_INDEX_NONE))
            return false;
        if (before != NULL && before->bytes < alive->bytes)
            return false;
        before = alive;
    }
    return true;
}

/* Marks the devices of a stage; false where one of them is another stage's, or beyond what a cluster has. Where devices
   are shared, a stage has one. */
static bool take_devices(const struct sp_index *index, const struct sp_index_stage *stage, unsigned char *taken)
{
    const bool shares = index->shares_devices;
    const uint64_t count = (uint64_t)stage->device_count * stage->replicas;
    if (count == 0 || count > SP_MAX_DEVICES || stage->first_device > SP_MAX_DEVICES - count)
        return false;
    if (index->numbers != NULL && stage->first_device + count > index->count.numbers)
        return false;
    if (shares)
        return count == 1;
    for (uint64_t d = stage->first_device; d < stage->first_device + count; d++) {
        if ((taken[d / 8] >> (d % 8) & 1) != 0)
            return false;
        taken[d / 8] |= (unsigned char)(1 << (d % 8));
    }
    return true;
}

static bool check_stages(const struct sp_index *index)
{
    unsigned char taken[SP_MAX_DEVICES / 8] = {0};
    uint32_t slices = 0, points = 0, alive = 0, nodes = 0;
    for (uint32_t s = 0; s < index->count.stages; s++) {
        const struct sp_index_stage *stage = &index->stages[s];
        if (!take_devices(index, stage, taken) || !is_text(index, stage->device_name) ||
            !takes(&nodes, index->count.nodes, nodes, stage->node_count) ||
            !takes(&slices, index->count.slices, stage->slices.first, stage->slices.count) ||
            !takes(&points, index->count.points, stage->points.first, stage->points.count) ||
            !takes(&alive, index->count.alive, stage->alive.first, stage->alive.count) || stage->is_critical > 1 ||
            stage->is_bottleneck > 1 ||
            !ARE_NUMBERS(stage->start_seconds, stage->compute_seconds, stage->interval_seconds, stage->weights_bytes,
                         stage->cache_bytes, stage->communication_bytes, stage->activations_peak_bytes,
                         stage->total_bytes, stage->capacity_bytes))
            return false;
        if (!check_slices(index, s) || !check_points(index, s) || !check_alive(index, s))
            return false;
    }
    return index->count.stages > 0 && nodes == index->count.nodes && slices == index->count.slices &&
           points == index->count.points && alive == index->count.alive;
}

/* ---- all -------------------------------------------------------------------------------------------------------- */

/* Finds the tables; nothing in them is looked at. */
static bool find_tables(const struct sp_index_head *head, uint64_t size, uint64_t ret_offsets[SP_TABLE_TABLES])
{
    uint64_t at = sizeof *head;
    if (memcmp(head->magic, SP_INDEX_MAGIC, sizeof head->magic) != 0 || head->version != SP_INDEX_VERSION ||
        memcmp(head->sizes, index_sizes, sizeof index_sizes) != 0)
        return false;
    for (int t = 0; t < SP_TABLE_TABLES; t++) {
        const bool is_long = t == SP_TABLE_SUMMARY || t == SP_TABLE_LINE;
        if (head->counts[t] > (size - at) / index_sizes[t] || (!is_long && head->counts[t] >= SP_INDEX_NONE))
            return false;
        const uint64_t taken = head->counts[t] * index_sizes[t];
        ret_offsets[t] = at;
        at += taken;
        if (sp_index_gap(taken) > size - at)
            return false;
        at += sp_index_gap(taken);
    }
    return at == size;
}

static bool read_head(const char *bytes, uint64_t size, struct sp_index *index)
{
    const void *tables[SP_TABLE_TABLES];
    uint64_t offsets[SP_TABLE_TABLES];
    struct sp_index_head head;
    if (size < sizeof head || (uintptr_t)bytes % 8 != 0)
        return false;
    memcpy(&head, bytes, sizeof head);
    if (!find_tables(&head, size, offsets))
        return false;
    for (int t = 0; t < SP_TABLE_TABLES; t++)
        tables[t] = bytes + offsets[t];
    *index = (struct sp_index){
        .latency_seconds = head.latency_seconds,
        .interval_seconds = head.interval_seconds,
        .count = {.nodes = (uint32_t)head.counts[SP_TABLE_NODES],
                  .tensors = (uint32_t)head.counts[SP_TABLE_TENSORS],
                  .operands = (uint32_t)head.counts[SP_TABLE_OPERANDS],
                  .consumers = (uint32_t)head.counts[SP_TABLE_CONSUMERS],
                  .numbers = (uint32_t)head.counts[SP_TABLE_NUMBERS],
                  .collectives = (uint32_t)head.counts[SP_TABLE_COLLECTIVES],
                  .findings = (uint32_t)head.counts[SP_TABLE_FINDINGS],
                  .stages = (uint32_t)head.counts[SP_TABLE_STAGES],
                  .slices = (uint32_t)head.counts[SP_TABLE_SLICES],
                  .points = (uint32_t)head.counts[SP_TABLE_POINTS],
                  .alive = (uint32_t)head.counts[SP_TABLE_ALIVE],
                  .texts = head.counts[SP_TABLE_TEXTS]},
        .shares_devices = head.shares_devices != 0,
        .requests = head.requests,
        .plan_size = head.plan_size,
        .nodes = tables[SP_TABLE_NODES],
        .tensors = tables[SP_TABLE_TENSORS],
        .operands = tables[SP_TABLE_OPERANDS],
        .numbers = head.counts[SP_TABLE_NUMBERS] > 0 ? tables[SP_TABLE_NUMBERS] : NULL,
        .consumers = tables[SP_TABLE_CONSUMERS],
        .collectives = tables[SP_TABLE_COLLECTIVES],
        .findings = tables[SP_TABLE_FINDINGS],
        .stages = tables[SP_TABLE_STAGES],
        .slices = tables[SP_TABLE_SLICES],
        .points = tables[SP_TABLE_POINTS],
        .alive = tables[SP_TABLE_ALIVE],
        .texts = tables[SP_TABLE_TEXTS],
        .summary = {tables[SP_TABLE_SUMMARY], head.counts[SP_TABLE_SUMMARY]},
        .line = {tables[SP_TABLE_LINE], head.counts[SP_TABLE_LINE]},
    };
    return ARE_NUMBERS(index->latency_seconds, index->interval_seconds) && index->requests > 0 &&
           index->requests <= SP_INDEX_MOST_REQUESTS;
}

static enum sp_status of_another_version(struct sp_error *err)
{
    return sp_fail(err, SP_ERR_MODEL, "SHEET_DAMAGED",
                   "The plan's sheet is damaged, or another version of the program wrote it.");
}

/* The head of a file of this size, and where its tables are. */
static bool take_head(const void *head, uint64_t size, struct sp_index_head *ret_head,
                      uint64_t ret_offsets[SP_TABLE_TABLES])
{
    static_assert(SP_INDEX_HEAD_BYTES == sizeof *ret_head, "what is to be read of a file");
    memcpy(ret_head, head, sizeof *ret_head);
    return size >= sizeof *ret_head && find_tables(ret_head, size, ret_offsets);
}

enum sp_status sp_index_find_line(const void *head, uint64_t size, struct sp_index_row *ret_place, struct sp_error *err)
{
    uint64_t offsets[SP_TABLE_TABLES];
    struct sp_index_head copy;
    if (!take_head(head, size, &copy, offsets))
        return of_another_version(err);
    *ret_place = (struct sp_index_row){offsets[SP_TABLE_LINE], copy.counts[SP_TABLE_LINE]};
    return SP_OK;
}

enum sp_status sp_index_find_plan(const void *head, uint64_t size, uint64_t *ret_plan_size, struct sp_error *err)
{
    uint64_t offsets[SP_TABLE_TABLES];
    struct sp_index_head copy;
    if (!take_head(head, size, &copy, offsets))
        return of_another_version(err);
    *ret_plan_size = copy.plan_size;
    return SP_OK;
}

enum sp_status sp_index_open(const void *bytes, uint64_t size, struct sp_index *ret_index, struct sp_error *err)
{
    static const struct {
        bool (*check)(const struct sp_index *index);
        const char *what;
    } checks[] = {{check_texts, "texts"},       {check_nodes, "nodes"},
                  {check_tensors, "tensors"},   {check_collectives, "collectives"},
                  {check_findings, "findings"}, {check_stages, "stages"}};
    struct sp_index index;
    if (!read_head(bytes, size, &index))
        return of_another_version(err);
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        if (!checks[i].check(&index))
            return sp_fail(err, SP_ERR_MODEL, "SHEET_DAMAGED", "The plan's sheet is damaged: its %s are not sound.",
                           checks[i].what);
    }
    *ret_index = index;
    return SP_OK;
}
