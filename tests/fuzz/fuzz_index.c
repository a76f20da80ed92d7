/*
 * The file of a plan's index, and before it the text that is scanned for one.
 *
 * The bytes are a file. Properties: what is not sound is refused with a code and a message; of an index that is open
 * all that it promises can be visited. The same bytes are a text, too: however it is cut, the scan finds the same in
 * it, and what it finds lies in it.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "index/graph.h"
#include "index/index.h"
#include "index/rows.h"
#include "index/scan.h"
#include "index/timeline.h"

static void require(bool is_true, const char *what)
{
    if (is_true)
        return;
    (void)fprintf(stderr, "broken: %s\n", what);
    abort();
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

static void visit_text(const struct sp_index *index, uint32_t text)
{
    const char *found = sp_index_text(index, text);
    require(found == NULL || strlen(found) < index->count.texts, "a text that ends");
}

static void visit_row(const struct sp_index *index, const struct sp_index_row *row)
{
    require(row->offset <= index->plan_size && row->size <= index->plan_size - row->offset, "a row of the plan");
}

static void visit_lists(const struct sp_index *index)
{
    uint64_t operands = 0, consumers = 0;
    for (uint32_t n = 0; n < index->count.nodes; n++) {
        const struct sp_index_node *node = &index->nodes[n];
        visit_text(index, node->name);
        visit_text(index, node->operator_type);
        require(index->stages[node->stage].replicas > 0, "a stage");
        for (uint32_t i = 0; i < node->input_count + node->output_count; i++, operands++)
            require(index->tensors[index->operands[node->first_operand + i]].bytes >= 0, "an operand");
    }
    for (uint32_t t = 0; t < index->count.tensors; t++) {
        const struct sp_index_tensor *tensor = &index->tensors[t];
        visit_text(index, tensor->name);
        visit_text(index, tensor->spec);
        visit_row(index, &tensor->row);
        require(tensor->producer == SP_INDEX_NONE || index->nodes[tensor->producer].flops >= 0, "a producer");
        for (uint32_t i = 0; i < tensor->consumer_count; i++, consumers++)
            require(index->nodes[index->consumers[tensor->first_consumer + i]].seconds >= 0, "a consumer");
    }
    require(operands == index->count.operands && consumers == index->count.consumers, "each entry once");
    for (uint32_t c = 0; c < index->count.collectives; c++) {
        visit_text(index, index->collectives[c].kind);
        visit_row(index, &index->collectives[c].row);
        require(index->stages[index->collectives[c].stage].device_count > 0, "a collective's stage");
    }
    for (uint32_t f = 0; f < index->count.findings; f++) {
        visit_text(index, index->findings[f].severity);
        visit_text(index, index->findings[f].code);
        visit_text(index, index->findings[f].message);
        visit_row(index, &index->findings[f].row);
    }
}

static void visit_stage(const struct sp_index *index, const struct sp_index_stage *stage)
{
    visit_text(index, stage->device_name);
    for (uint32_t i = 0; i < stage->slices.count; i++) {
        const struct sp_index_slice *slice = &index->slices[stage->slices.first + i];
        const double seconds = slice->what == SP_INDEX_COMPUTE ? index->nodes[slice->item].seconds
                                                               : index->collectives[slice->item].seconds;
        require(slice->end >= slice->begin && isfinite(slice->end) && seconds >= 0, "a slice");
    }
    for (uint32_t i = 0; i < stage->points.count; i++) {
        const struct sp_index_point *point = &index->points[stage->points.first + i];
        require(isfinite(point->bytes) && &index->stages[index->nodes[point->node].stage] == stage, "a point");
    }
    for (uint32_t i = 0; i < stage->alive.count; i++) {
        const struct sp_index_alive *alive = &index->alive[stage->alive.first + i];
        visit_text(index, alive->holds == SP_INDEX_HELD_WORKSPACE ? index->nodes[alive->node].name
                                                                  : index->tensors[alive->tensor].name);
    }
}

/* ---- slices ----------------------------------------------------------------------------------------------------- */

/* What a slice wrote: JSON, or an error and nothing. */
static void expect_answer(enum sp_status status, const struct sp_error *err, struct sp_json *json, struct sp_buf *buf)
{
    if (status == SP_OK) {
        require(sp_json_finish(json, NULL) == SP_OK && !sp_buf_failed(buf), "all of the answer");
        json_t *answer = json_loadb(buf->data, buf->size, JSON_REJECT_DUPLICATES, NULL);
        require(answer != NULL, "JSON");
        json_decref(answer);
    } else {
        require(status == SP_ERR_REQUEST && err->message[0] != '\0', "an error that says what");
    }
}

static void ask_graph(const struct sp_index *index)
{
    static const char *const paths[] = {"", "/a", "0-1@", "@", "1-0@a"};
    for (uint32_t i = 0; i < 10; i++) {
        const struct sp_index_graph_query query = {.path = paths[i % 5],
                                                   .depth = 1 + i % SP_INDEX_MOST_LEVELS,
                                                   .stage = i < 5 ? SP_INDEX_NONE : 0,
                                                   .by_stage = i == 5,
                                                   .limit = 2 + i};
        struct sp_error err = {0};
        struct sp_json json;
        struct sp_buf buf;
        sp_buf_init(&buf, SIZE_MAX);
        sp_json_init_buf(&json, false, &buf);
        const enum sp_status status = sp_index_graph(index, &query, &json, &err);
        expect_answer(status, &err, &json, &buf);
        sp_buf_release(&buf);
    }
}

static void ask_stages(const struct sp_index *index)
{
    for (uint32_t i = 0; i < 4; i++) {
        const struct sp_index_timeline_query query = {
            .from = i * 1e-3, .to = i == 3 ? 1 : 0, .resolution = i * 1e-4, .first_lane = i / 2, .lanes = 1 + i};
        struct sp_error err = {0};
        struct sp_json json;
        struct sp_buf buf;
        sp_buf_init(&buf, SIZE_MAX);
        sp_json_init_buf(&json, false, &buf);
        enum sp_status status = sp_index_timeline(index, &query, &json, &err);
        expect_answer(status, &err, &json, &buf);
        sp_buf_clear(&buf);
        sp_error_clear(&err);
        sp_json_init_buf(&json, false, &buf);
        status = sp_index_memory(index, i, 16 << i, &json, &err);
        expect_answer(status, &err, &json, &buf);
        sp_buf_release(&buf);
    }
}

static void ask_tables(const struct sp_index *index)
{
    for (uint32_t i = 0; i < 16; i++) {
        const enum sp_index_table table = (enum sp_index_table)(i % 4);
        const enum sp_index_order order = (enum sp_index_order)(i % 6);
        struct sp_index_rows found;
        struct sp_error err = {0};
        const struct sp_index_rows_query query = {
            .table = table,
            .search = i % 3 == 0 ? "a" : NULL,
            .node = i % 5 == 1 && table != SP_INDEX_NODES ? "n" : NULL,
            .tensor = i % 5 == 2 && (table == SP_INDEX_NODES || table == SP_INDEX_COLLECTIVES) ? "t" : NULL,
            .path = i == 8 ? "0-1@" : NULL,
            .stage = i % 7 == 1 && table != SP_INDEX_FINDINGS ? 0 : SP_INDEX_NONE,
            .index = SP_INDEX_NONE,
            .split = -1,
            .differs_from = table == SP_INDEX_TENSORS && i > 8 ? index : NULL,
            .order = sp_index_table_sorts(table, order) ? order : SP_INDEX_BY_INDEX,
            .descending = i % 2 == 1,
            .skip = i / 8,
            .limit = 1 + i};
        const enum sp_status status = sp_index_rows(index, &query, &found, &err);
        require(status == SP_OK || status == SP_ERR_REQUEST, "rows, or no such module");
        require(status != SP_OK || (found.count <= query.limit && found.count <= found.total), "a page");
        for (uint32_t row = 0; status == SP_OK && row < found.count; row++) {
            const struct sp_index_row entry = sp_index_entry(index, table, found.rows[row]);
            require(entry.offset + entry.size <= index->plan_size, "a row of the plan");
        }
    }
}

static void check_file(const uint8_t *bytes, size_t size)
{
    struct sp_error err = {0};
    struct sp_index index;
    uint64_t blocks = 0;
    void *copy = malloc(size > 0 ? size : 1); /* at a multiple of 8 */
    require(copy != NULL, "memory");
    if (size > 0)
        memcpy(copy, bytes, size);
    if (sp_index_open(copy, size, &index, &err) != SP_OK) {
        require(strcmp(err.code, "SHEET_DAMAGED") == 0 && err.message[0] != '\0', "an error that says what");
    } else {
        visit_lists(&index);
        for (uint32_t s = 0; s < index.count.stages; s++) {
            visit_stage(&index, &index.stages[s]);
            blocks += index.stages[s].replicas;
        }
        require(blocks <= 65536, "as many blocks as devices");
        require(memchr(index.summary.bytes, '\0', index.summary.size) == NULL, "a summary");
        ask_graph(&index);
        ask_stages(&index);
        ask_tables(&index);
    }
    free(copy);
}

/* ---- the text --------------------------------------------------------------------------------------------------- */

static struct sp_index_scan *scan_of(struct sp_arena *arena, const uint8_t *bytes, size_t size, size_t piece)
{
    struct sp_index_scan *scan = sp_index_scan_create(arena);
    require(scan != NULL, "memory");
    for (size_t at = 0; at < size; at += piece)
        sp_index_scan_take(scan, (const char *)bytes + at, piece < size - at ? piece : size - at);
    return scan;
}

static void expect_same_rows(const struct sp_index_scan *a, const struct sp_index_scan *b, enum sp_index_list list,
                             const uint8_t *bytes, size_t size)
{
    uint32_t count, others;
    const struct sp_index_row *rows = sp_index_scan_rows(a, list, &count), *same = sp_index_scan_rows(b, list, &others);
    require(count == others, "as many rows");
    for (uint32_t i = 0; i < count; i++) {
        require(rows[i].offset == same[i].offset && rows[i].size == same[i].size, "the same row");
        require(rows[i].size >= 2 && rows[i].offset + rows[i].size <= size, "a row of the text");
        require(bytes[rows[i].offset] == '{' && bytes[rows[i].offset + rows[i].size - 1] == '}', "an object");
    }
}

static void check_text(const uint8_t *bytes, size_t size)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    require(arena != NULL, "memory");
    const struct sp_index_scan *a = scan_of(arena, bytes, size, size + 1), *b = scan_of(arena, bytes, size, 1);
    size_t sizes[4];
    const char *members = sp_index_scan_members(a, &sizes[0]), *same = sp_index_scan_members(b, &sizes[1]);
    require(sizes[0] == sizes[1] && memcmp(members, same, sizes[0]) == 0, "the same members");
    members = sp_index_scan_estimate(a, &sizes[2]);
    same = sp_index_scan_estimate(b, &sizes[3]);
    require(sizes[2] == sizes[3] && memcmp(members, same, sizes[2]) == 0, "the same estimate");
    require(sp_index_scan_is_whole(a) == sp_index_scan_is_whole(b), "whole or not");
    for (int list = 0; list < SP_INDEX_LISTS; list++)
        expect_same_rows(a, b, (enum sp_index_list)list, bytes, size);
    sp_arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    check_file(bytes, size);
    check_text(bytes, size);
    return 0;
}
