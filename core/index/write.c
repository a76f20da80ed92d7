#include "index/write.h"

#include <assert.h>
#include <math.h>

#include "index/write_internal.h"

static_assert(SP_SCHEDULE_MOST_REQUESTS <= SP_INDEX_MOST_REQUESTS, "a timeline shows all requests of the trace");
static_assert(sizeof(struct sp_index_head) % 8 == 0, "tables begin at multiples of 8");

#define TEXT_BYTES ((size_t)1 << 30) /* of the summary */

/* ---- the file --------------------------------------------------------------------------------------------------- */

static void put(struct sp_writing *writing, const struct sp_sink *sink, const void *bytes, size_t size)
{
    if (writing->status == SP_OK && size > 0 && !sink->write(sink->context, bytes, size))
        writing->status = sp_fail(writing->err, SP_ERR_IO, "WRITE_FAILED", "Writing the plan's sheet failed.");
}

static void put_texts(struct sp_writing *writing, const struct sp_sink *sink)
{
    for (uint32_t i = 0; i < sp_intern_count(writing->texts); i++) {
        const char *text = sp_intern_name(writing->texts, i);
        put(writing, sink, text, strlen(text) + 1);
    }
}

static void put_file(struct sp_writing *writing, const struct sp_sink *sink)
{
    static const char zeros[8];
    const struct sp_evaluation *evaluation = writing->plan->result->evaluation;
    struct sp_index_head head = {
        .magic = SP_INDEX_MAGIC,
        .version = SP_INDEX_VERSION,
        .requests = sp_schedule_requests(writing->plan),
        .shares_devices = writing->plan->result->placement.shares_devices,
        .latency_seconds = sp_writing_number(evaluation->latency_seconds),
        /* of the first copy, whose requests the timeline has */
        .interval_seconds =
            sp_writing_number(evaluation->interval_seconds * sp_placement_copies(&writing->plan->result->placement)),
        .plan_size = sp_index_scan_size(writing->source->scan)};
    writing->counts[SP_TABLE_TEXTS] = writing->text_size;
    writing->counts[SP_TABLE_SUMMARY] = writing->summary.size;
    writing->counts[SP_TABLE_LINE] = writing->line.size;
    memcpy(head.counts, writing->counts, sizeof head.counts);
    memcpy(head.sizes, index_sizes, sizeof head.sizes);
    put(writing, sink, &head, sizeof head);
    for (int t = 0; t < SP_TABLE_TABLES; t++) {
        const uint64_t size = writing->counts[t] * index_sizes[t];
        if (t == SP_TABLE_TEXTS)
            put_texts(writing, sink);
        else if (t == SP_TABLE_SUMMARY)
            put(writing, sink, writing->summary.data, writing->summary.size);
        else if (t == SP_TABLE_LINE)
            put(writing, sink, writing->line.data, writing->line.size);
        else
            put(writing, sink, writing->tables[t], size);
        put(writing, sink, zeros, sp_index_gap(size));
    }
}

/* ---- all -------------------------------------------------------------------------------------------------------- */

/* The rows that the scan found are the plan's. */
static void give_rows(struct sp_writing *writing)
{
    const struct sp_index_scan *scan = writing->source->scan;
    uint32_t counts[SP_INDEX_LISTS];
    const struct sp_index_row *rows[SP_INDEX_LISTS];
    struct sp_index_tensor *tensors = writing->tables[SP_TABLE_TENSORS];
    struct sp_index_collective *collectives = writing->tables[SP_TABLE_COLLECTIVES];
    struct sp_index_finding *findings = writing->tables[SP_TABLE_FINDINGS];
    for (int l = 0; l < SP_INDEX_LISTS; l++)
        rows[l] = sp_index_scan_rows(scan, (enum sp_index_list)l, &counts[l]);
    if (writing->status != SP_OK)
        return;
    if (counts[SP_INDEX_LIST_TENSORS] != writing->tensor_rows ||
        counts[SP_INDEX_LIST_COLLECTIVES] != writing->counts[SP_TABLE_COLLECTIVES] ||
        counts[SP_INDEX_LIST_DIAGNOSTICS] != writing->counts[SP_TABLE_FINDINGS]) {
        writing->status = sp_fail(writing->err, SP_ERR_REQUEST, "OTHER_PLAN",
                                  "The plan's JSON lists other tensors, collectives or diagnostics than the plan has: "
                                  "it was edited, or another version of Shardplan made it. Plan again.");
        return;
    }
    for (uint64_t t = 0, next = 0; t < writing->counts[SP_TABLE_TENSORS]; t++) {
        if (tensors[t].spec != SP_INDEX_NONE)
            tensors[t].row = rows[SP_INDEX_LIST_TENSORS][next++];
    }
    for (uint64_t c = 0; c < writing->counts[SP_TABLE_COLLECTIVES]; c++)
        collectives[c].row = rows[SP_INDEX_LIST_COLLECTIVES][c];
    for (uint64_t f = 0; f < writing->counts[SP_TABLE_FINDINGS]; f++)
        findings[f].row = rows[SP_INDEX_LIST_DIAGNOSTICS][f];
}

static enum sp_status check_scan(const struct sp_index_scan *scan, struct sp_error *err)
{
    if (sp_index_scan_lacks_memory(scan))
        return sp_fail_memory(err);
    if (!sp_index_scan_is_whole(scan))
        return sp_fail(err, SP_ERR_REQUEST, "OTHER_PLAN", "The plan's JSON is cut short, or no JSON.");
    return SP_OK;
}

static void write_all(struct sp_writing *writing, const struct sp_sink *sink)
{
    const struct sp_arena_mark mark = sp_arena_mark(writing->plan->arena);
    writing->texts = sp_intern_create(writing->arena, writing->source->hash_seed);
    if (writing->texts == NULL)
        sp_writing_fail(writing, sp_fail_memory(writing->err));
    sp_writing_tensors(writing);
    sp_writing_nodes(writing);
    sp_writing_stages(writing);
    sp_writing_findings(writing);
    give_rows(writing);
    sp_writing_summary(writing);
    sp_writing_line(writing);
    put_file(writing, sink);
    sp_arena_rewind(writing->plan->arena, mark);
}

enum sp_status sp_index_write(const struct sp_index_source *source, const struct sp_sink *sink, struct sp_error *err)
{
    struct sp_budget *budget = sp_arena_budget(source->plan->arena);
    struct sp_writing writing = {.source = source,
                                 .plan = source->plan,
                                 .arena = sp_arena_create(budget),
                                 .scratch = sp_arena_create(budget),
                                 .status = check_scan(source->scan, err),
                                 .err = err};
    sp_buf_init(&writing.summary, TEXT_BYTES);
    sp_buf_init(&writing.line, TEXT_BYTES);
    if (writing.status == SP_OK && (writing.arena == NULL || writing.scratch == NULL))
        writing.status = sp_fail_memory(err);
    if (writing.status == SP_OK)
        write_all(&writing, sink);
    sp_buf_release(&writing.line);
    sp_buf_release(&writing.summary);
    sp_arena_destroy(writing.scratch);
    sp_arena_destroy(writing.arena);
    return writing.status;
}
