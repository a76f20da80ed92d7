#include "sheet/sheet.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/limits.h"
#include "base/utf8.h"
#include "sheet/layout.h"

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
static bool is_text(const struct sp_sheet *sheet, uint32_t text)
{
    return text < sheet->text_size && (text == 0 || sheet->texts[text - 1] == '\0');
}

static bool is_text_or_none(const struct sp_sheet *sheet, uint32_t text)
{
    return text == SP_SHEET_NONE || is_text(sheet, text);
}

static bool is_index_or_none(uint32_t index, uint32_t count)
{
    return index == SP_SHEET_NONE || index < count;
}

static bool is_row(const struct sp_sheet *sheet, const struct sp_sheet_row *row)
{
    return row->offset <= sheet->plan_size && row->size <= sheet->plan_size - row->offset;
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

static bool check_texts(const struct sp_sheet *sheet)
{
    if (sheet->text_size > 0 && sheet->texts[sheet->text_size - 1] != '\0')
        return false;
    for (uint64_t at = 0; at < sheet->text_size;) {
        const size_t size = strlen(sheet->texts + at);
        if (!sp_utf8_valid(sheet->texts + at, size))
            return false;
        at += size + 1;
    }
    return sp_utf8_valid(sheet->summary, (size_t)sheet->summary_size) &&
           sp_utf8_valid(sheet->line, (size_t)sheet->line_size);
}

static bool check_nodes(const struct sp_sheet *sheet)
{
    uint32_t next = 0;
    for (uint32_t n = 0; n < sheet->node_count; n++) {
        const struct sp_sheet_node *node = &sheet->nodes[n];
        if (!is_text(sheet, node->name) || !is_text_or_none(sheet, node->operator_type) ||
            node->stage >= sheet->stage_count || node->folded > 1 ||
            !takes(&next, sheet->operand_count, node->first_operand, node->input_count) ||
            !takes(&next, sheet->operand_count, next, node->output_count) ||
            !ARE_NUMBERS(node->seconds, node->collective_seconds, node->flops, node->bytes, node->weights_bytes))
            return false;
    }
    for (uint32_t i = 0; i < sheet->operand_count; i++) {
        if (sheet->operands[i] >= sheet->tensor_count)
            return false;
    }
    return next == sheet->operand_count;
}

static bool check_tensors(const struct sp_sheet *sheet)
{
    uint32_t next = 0;
    for (uint32_t t = 0; t < sheet->tensor_count; t++) {
        const struct sp_sheet_tensor *tensor = &sheet->tensors[t];
        if (!is_text(sheet, tensor->name) || !is_text_or_none(sheet, tensor->spec) || tensor->kind > SP_SHEET_WEIGHT ||
            tensor->is_split > 1 || !is_index_or_none(tensor->producer, sheet->node_count) ||
            !takes(&next, sheet->consumer_count, tensor->first_consumer, tensor->consumer_count) ||
            !ARE_NUMBERS(tensor->bytes, tensor->bytes_per_device) || !is_row(sheet, &tensor->row) ||
            (tensor->spec == SP_SHEET_NONE) != (tensor->row.size == 0))
            return false;
        for (uint32_t i = 0; i < tensor->consumer_count; i++) {
            const uint32_t *consumer = &sheet->consumers[tensor->first_consumer + i];
            if (*consumer >= sheet->node_count || (i > 0 && consumer[-1] >= *consumer))
                return false;
        }
    }
    return next == sheet->consumer_count;
}

static bool check_collectives(const struct sp_sheet *sheet)
{
    uint32_t stage = 0; /* that the one before, within a stage, is of */
    bool is_within = false;
    for (uint32_t c = 0; c < sheet->collective_count; c++) {
        const struct sp_sheet_collective *collective = &sheet->collectives[c];
        if (!is_text(sheet, collective->kind) || !is_index_or_none(collective->tensor, sheet->tensor_count) ||
            !is_index_or_none(collective->after_node, sheet->node_count) ||
            !is_index_or_none(collective->before_node, sheet->node_count) || collective->stage >= sheet->stage_count ||
            !is_index_or_none(collective->to_stage, sheet->stage_count) ||
            !ARE_NUMBERS(collective->bytes, collective->seconds) || !is_row(sheet, &collective->row))
            return false;
        if (collective->to_stage != SP_SHEET_NONE ? is_within : collective->stage < stage)
            return false;
        if (collective->to_stage == SP_SHEET_NONE) {
            is_within = true;
            stage = collective->stage;
        }
    }
    return true;
}

static bool check_findings(const struct sp_sheet *sheet)
{
    for (uint32_t f = 0; f < sheet->finding_count; f++) {
        const struct sp_sheet_finding *finding = &sheet->findings[f];
        if (!is_text(sheet, finding->severity) || !is_text(sheet, finding->code) || !is_text(sheet, finding->message) ||
            !is_index_or_none(finding->node, sheet->node_count) ||
            !is_index_or_none(finding->tensor, sheet->tensor_count) || !is_row(sheet, &finding->row))
            return false;
    }
    return true;
}

/* ---- stages ----------------------------------------------------------------------------------------------------- */

static bool is_item(const struct sp_sheet *sheet, uint32_t stage, const struct sp_sheet_slice *slice)
{
    if (slice->what == SP_SHEET_COMPUTE)
        return slice->item < sheet->node_count && sheet->nodes[slice->item].stage == stage;
    if (slice->item >= sheet->collective_count)
        return false;
    const struct sp_sheet_collective *collective = &sheet->collectives[slice->item];
    if (slice->what == SP_SHEET_COLLECTIVE)
        return collective->to_stage == SP_SHEET_NONE && collective->stage == stage;
    return collective->to_stage != SP_SHEET_NONE &&
           (slice->what == SP_SHEET_SEND ? collective->stage : collective->to_stage) == stage;
}

static bool check_slices(const struct sp_sheet *sheet, uint32_t stage)
{
    const struct sp_sheet_slice *before = NULL;
    for (uint32_t i = 0; i < sheet->stages[stage].slice_count; i++) {
        const struct sp_sheet_slice *slice = &sheet->slices[sheet->stages[stage].first_slice + i];
        if (!ARE_NUMBERS(slice->begin, slice->end) || slice->end < slice->begin || slice->what >= SP_SHEET_WHATS ||
            !is_item(sheet, stage, slice))
            return false;
        if (before != NULL && before->what > slice->what)
            return false;
        if (before != NULL && before->what == slice->what &&
            (slice->what <= SP_SHEET_COLLECTIVE ? before->end : before->begin) > slice->begin)
            return false;
        before = slice;
    }
    return true;
}

static bool check_moments(const struct sp_sheet *sheet, uint32_t stage)
{
    const struct sp_sheet_moment *before = NULL;
    for (uint32_t i = 0; i < sheet->stages[stage].moment_count; i++) {
        const struct sp_sheet_moment *moment = &sheet->moments[sheet->stages[stage].first_moment + i];
        if (!ARE_NUMBERS(moment->at, moment->bytes) || moment->node >= sheet->node_count ||
            sheet->nodes[moment->node].stage != stage)
            return false;
        if (before != NULL && (before->at > moment->at || before->node >= moment->node))
            return false;
        before = moment;
    }
    return is_index_or_none(sheet->stages[stage].peak_moment, sheet->stages[stage].moment_count);
}

static bool check_alive(const struct sp_sheet *sheet, uint32_t stage)
{
    const struct sp_sheet_alive *before = NULL;
    for (uint32_t i = 0; i < sheet->stages[stage].alive_count; i++) {
        const struct sp_sheet_alive *alive = &sheet->alive[sheet->stages[stage].first_alive + i];
        const bool is_workspace = alive->holds == SP_SHEET_HELD_WORKSPACE;
        if (!is_number(alive->bytes) || alive->holds > SP_SHEET_HELD_WORKSPACE ||
            (is_workspace ? alive->tensor != SP_SHEET_NONE || alive->node >= sheet->node_count
                          : alive->tensor >= sheet->tensor_count || alive->node != SP_SHEET_NONE))
            return false;
        if (before != NULL && before->bytes < alive->bytes)
            return false;
        before = alive;
    }
    return true;
}

/* Marks the devices of a stage; false where one of them is another stage's, or beyond what a cluster has. */
static bool take_devices(const struct sp_sheet_stage *stage, unsigned char *taken)
{
    const uint64_t count = (uint64_t)stage->device_count * stage->replicas;
    if (count == 0 || count > SP_MAX_DEVICES || stage->first_device > SP_MAX_DEVICES - count)
        return false;
    for (uint64_t d = stage->first_device; d < stage->first_device + count; d++) {
        if ((taken[d / 8] >> (d % 8) & 1) != 0)
            return false;
        taken[d / 8] |= (unsigned char)(1 << (d % 8));
    }
    return true;
}

static bool check_stages(const struct sp_sheet *sheet)
{
    unsigned char taken[SP_MAX_DEVICES / 8] = {0};
    uint32_t slices = 0, moments = 0, alive = 0, nodes = 0;
    for (uint32_t s = 0; s < sheet->stage_count; s++) {
        const struct sp_sheet_stage *stage = &sheet->stages[s];
        if (!take_devices(stage, taken) || !is_text(sheet, stage->device_name) ||
            !takes(&nodes, sheet->node_count, nodes, stage->node_count) ||
            !takes(&slices, sheet->slice_count, stage->first_slice, stage->slice_count) ||
            !takes(&moments, sheet->moment_count, stage->first_moment, stage->moment_count) ||
            !takes(&alive, sheet->alive_count, stage->first_alive, stage->alive_count) || stage->is_critical > 1 ||
            stage->is_bottleneck > 1 ||
            !ARE_NUMBERS(stage->start_seconds, stage->compute_seconds, stage->interval_seconds, stage->weights_bytes,
                         stage->cache_bytes, stage->communication_bytes, stage->activations_peak_bytes,
                         stage->total_bytes, stage->capacity_bytes))
            return false;
        if (!check_slices(sheet, s) || !check_moments(sheet, s) || !check_alive(sheet, s))
            return false;
    }
    return sheet->stage_count > 0 && nodes == sheet->node_count && slices == sheet->slice_count &&
           moments == sheet->moment_count && alive == sheet->alive_count;
}

/* ---- all -------------------------------------------------------------------------------------------------------- */

/* Finds the tables; nothing in them is looked at. */
static bool find_tables(const struct sheet_head *head, uint64_t size, uint64_t ret_offsets[SHEET_TABLES])
{
    uint64_t at = sizeof *head;
    if (memcmp(head->magic, SP_SHEET_MAGIC, sizeof head->magic) != 0 || head->version != SP_SHEET_VERSION ||
        memcmp(head->sizes, sheet_sizes, sizeof sheet_sizes) != 0)
        return false;
    for (int t = 0; t < SHEET_TABLES; t++) {
        const bool is_long = t == SHEET_SUMMARY || t == SHEET_LINE;
        if (head->counts[t] > (size - at) / sheet_sizes[t] || (!is_long && head->counts[t] >= SP_SHEET_NONE))
            return false;
        const uint64_t taken = head->counts[t] * sheet_sizes[t];
        ret_offsets[t] = at;
        at += taken;
        if (sheet_gap(taken) > size - at)
            return false;
        at += sheet_gap(taken);
    }
    return at == size;
}

static bool read_head(const char *bytes, uint64_t size, struct sp_sheet *sheet)
{
    const void *tables[SHEET_TABLES];
    uint64_t offsets[SHEET_TABLES];
    struct sheet_head head;
    if (size < sizeof head || (uintptr_t)bytes % 8 != 0)
        return false;
    memcpy(&head, bytes, sizeof head);
    if (!find_tables(&head, size, offsets))
        return false;
    for (int t = 0; t < SHEET_TABLES; t++)
        tables[t] = bytes + offsets[t];
    *sheet = (struct sp_sheet){
        .latency_seconds = head.latency_seconds,
        .interval_seconds = head.interval_seconds,
        .node_count = (uint32_t)head.counts[SHEET_NODES],
        .tensor_count = (uint32_t)head.counts[SHEET_TENSORS],
        .operand_count = (uint32_t)head.counts[SHEET_OPERANDS],
        .consumer_count = (uint32_t)head.counts[SHEET_CONSUMERS],
        .collective_count = (uint32_t)head.counts[SHEET_COLLECTIVES],
        .finding_count = (uint32_t)head.counts[SHEET_FINDINGS],
        .stage_count = (uint32_t)head.counts[SHEET_STAGES],
        .slice_count = (uint32_t)head.counts[SHEET_SLICES],
        .moment_count = (uint32_t)head.counts[SHEET_MOMENTS],
        .alive_count = (uint32_t)head.counts[SHEET_ALIVE],
        .requests = head.requests,
        .text_size = head.counts[SHEET_TEXTS],
        .plan_size = head.plan_size,
        .nodes = tables[SHEET_NODES],
        .tensors = tables[SHEET_TENSORS],
        .operands = tables[SHEET_OPERANDS],
        .consumers = tables[SHEET_CONSUMERS],
        .collectives = tables[SHEET_COLLECTIVES],
        .findings = tables[SHEET_FINDINGS],
        .stages = tables[SHEET_STAGES],
        .slices = tables[SHEET_SLICES],
        .moments = tables[SHEET_MOMENTS],
        .alive = tables[SHEET_ALIVE],
        .texts = tables[SHEET_TEXTS],
        .summary = tables[SHEET_SUMMARY],
        .summary_size = head.counts[SHEET_SUMMARY],
        .line = tables[SHEET_LINE],
        .line_size = head.counts[SHEET_LINE],
    };
    return ARE_NUMBERS(sheet->latency_seconds, sheet->interval_seconds) && sheet->requests > 0 &&
           sheet->requests <= SP_SHEET_MOST_REQUESTS;
}

static enum sp_status of_another_version(struct sp_error *err)
{
    return sp_fail(err, SP_ERR_MODEL, "SHEET_DAMAGED",
                   "The plan's sheet is damaged, or another version of the program wrote it.");
}

enum sp_status sp_sheet_find_line(const void *head, uint64_t size, struct sp_sheet_row *ret_place, struct sp_error *err)
{
    static_assert(SP_SHEET_HEAD_BYTES == sizeof(struct sheet_head), "what is to be read of a file");
    uint64_t offsets[SHEET_TABLES];
    struct sheet_head copy;
    memcpy(&copy, head, sizeof copy);
    if (size < sizeof copy || !find_tables(&copy, size, offsets))
        return of_another_version(err);
    *ret_place = (struct sp_sheet_row){offsets[SHEET_LINE], copy.counts[SHEET_LINE]};
    return SP_OK;
}

enum sp_status sp_sheet_open(const void *bytes, uint64_t size, struct sp_sheet *ret_sheet, struct sp_error *err)
{
    static const struct {
        bool (*check)(const struct sp_sheet *sheet);
        const char *what;
    } checks[] = {{check_texts, "texts"},       {check_nodes, "nodes"},
                  {check_tensors, "tensors"},   {check_collectives, "collectives"},
                  {check_findings, "findings"}, {check_stages, "stages"}};
    struct sp_sheet sheet;
    if (!read_head(bytes, size, &sheet))
        return of_another_version(err);
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        if (!checks[i].check(&sheet))
            return sp_fail(err, SP_ERR_MODEL, "SHEET_DAMAGED", "The plan's sheet is damaged: its %s are not sound.",
                           checks[i].what);
    }
    *ret_sheet = sheet;
    return SP_OK;
}
