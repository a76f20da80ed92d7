/*
 * GET /v1/plans/{id}/nodes, tensors, collectives, diagnostics: pages of a plan's tables.
 *
 * What the plan's JSON has an entry for is quoted from that file, byte for byte, with the row's number put in front.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "http/page.h"
#include "http/respond.h"
#include "routes/routes.h"
#include "routes/slices.h"
#include "store/integrity/stored.h"
#include "util/text.h"

/* As enum sp_index_order has them. */
static const char *const orders[] = {"index", "name", "seconds", "flops", "bytes", "bytes_per_device"};
#define ORDER_COUNT (sizeof orders / sizeof orders[0])

/* ---- the question ---- */

static bool read_order(const struct slice *slice, struct slice_asked *asked, struct problem *problem)
{
    struct sp_index_rows_query *query = &asked->query.page.query;
    char words[128] = "";
    int order = 0, descending = 0;
    enum sp_index_order sorted[ORDER_COUNT];
    for (size_t i = 0, count = 0; i < ORDER_COUNT; i++) {
        if (!sp_index_table_sorts(slice->table, (enum sp_index_order)i))
            continue;
        const size_t used = strlen(words);
        (void)snprintf(words + used, sizeof words - used, "%s%s", used > 0 ? " " : "", orders[i]);
        sorted[count++] = (enum sp_index_order)i;
    }
    if (!slice_word(asked, "sort", words, &order, problem) ||
        !slice_word(asked, "order", "asc desc", &descending, problem))
        return false;
    query->order = sorted[order];
    query->descending = descending == 1;
    return true;
}

/* Words of which there are no others; anything else is compared with what there is. */
static bool read_words(const struct slice *slice, struct slice_asked *asked, struct problem *problem)
{
    struct sp_index_rows_query *query = &asked->query.page.query;
    int ignored = 0;
    return (slice->table != SP_INDEX_TENSORS ||
            slice_word(asked, "kind", "activation input weight", &ignored, problem)) &&
           slice_word(asked, "severity", "error warning note", &ignored, problem) &&
           slice_word(asked, "split", "false true", &query->split, problem);
}

/* The other plan of a comparison. */
static bool read_other(struct slice_asked *asked, struct problem *problem)
{
    asked->other.id = request_parameter(asked->request, "differs_from");
    if (asked->other.id == NULL || text_is_hex(asked->other.id, STORE_ID_SIZE - 1))
        return true;
    return problem_set(problem, 400, "BAD_PARAMETER",
                       "The parameter differs_from is the id of a plan, %d lower-case hexadecimal digits.",
                       STORE_ID_SIZE - 1);
}

/* The router lets nobody ask a table for what it does not have. */
static bool read_table(const struct slice *slice, struct slice_asked *asked, struct problem *problem)
{
    const struct request *request = asked->request;
    struct sp_index_rows_query *query = &asked->query.page.query;
    *query = (struct sp_index_rows_query){
        .table = slice->table,
        .search = request_parameter(request, "search"),
        .name = request_parameter(request, "name"),
        .node = request_parameter(request, "node"),
        .tensor = request_parameter(request, "tensor"),
        .kind = request_parameter(request, "kind"),
        .operator_type = request_parameter(request, "operator"),
        .path = request_parameter(request, "path"),
        .severity = request_parameter(request, "severity"),
        .code = request_parameter(request, "code"),
        .stage = SP_INDEX_NONE,
        .index = SP_INDEX_NONE,
        .split = -1,
        .hash_seed = slice_seed(),
    };
    return slice_number(asked, "stage", 0, SP_INDEX_NONE - 1, &query->stage, problem) &&
           slice_number(asked, "index", 0, SP_INDEX_NONE - 1, &query->index, problem) &&
           read_order(slice, asked, problem) && read_words(slice, asked, problem) && read_other(asked, problem);
}

static bool read_page(const struct slice *slice, struct slice_asked *asked, struct problem *problem)
{
    (void)slice;
    struct slice_page *page = &asked->query.page;
    page->size = SPD_DEFAULT_TABLE_PAGE;
    if (!slice_hash(asked, true, page->list))
        return problem_no_memory(problem);
    if (!page_read(asked->request, page->list, &page->size, &page->skip, problem))
        return false;
    page->query.skip = (uint64_t)page->skip;
    page->query.limit = (uint32_t)page->size;
    return true;
}

/* ---- the answer ---- */

/* Rows on their way out. */
struct quoting {
    const struct slice_asked *asked;
    const struct sp_index_rows *rows;
    struct sp_json *json;
    struct stored_file *file; /* the plan's JSON, or NULL */
    struct problem *problem;
};

/* An entry between its braces. */
static void write_quoted(const struct quoting *quoting, uint32_t row, const char *entry, size_t size,
                         const char *other_text)
{
    struct sp_json *json = quoting->json;
    sp_json_begin_object(json);
    sp_json_member_int(json, "index", row);
    if (strspn(entry + 1, " \n") + 2 < size) /* else it has no members */
        sp_json_raw(json, entry + 1, size - 2);
    if (quoting->asked->other.index != NULL)
        sp_json_member_string(json, "other_text", other_text);
    sp_json_end_object(json);
}

static bool quote(const struct quoting *quoting, uint32_t i)
{
    const struct sp_index *index = quoting->asked->plan.index, *other = quoting->asked->other.index;
    const uint32_t row = quoting->rows->rows[i];
    const struct sp_index_row entry = sp_index_entry(index, quoting->asked->query.page.query.table, row);
    if (entry.size < 2 || entry.size > SPD_MAX_SLICE_BYTES)
        return problem_set(quoting->problem, 500, "PLAN_DAMAGED", "The stored plan has no such entry.");
    char *bytes = malloc((size_t)entry.size + 1);
    if (bytes == NULL)
        return problem_no_memory(quoting->problem);
    bytes[entry.size] = '\0';
    bool ok = stored_read(quoting->file, entry.offset, bytes, (size_t)entry.size);
    if (!ok)
        (void)problem_of_stored(quoting->problem, errno, "PLAN_DAMAGED", "the stored plan");
    else if (bytes[0] != '{' || bytes[entry.size - 1] != '}')
        ok = problem_set(quoting->problem, 500, "PLAN_DAMAGED", "The stored plan and its sheet do not fit together.");
    else
        write_quoted(quoting, row, bytes, (size_t)entry.size,
                     other != NULL ? sp_index_text(other, quoting->rows->others[i]) : NULL);
    free(bytes);
    return ok;
}

/* Ends the page early when it has become large: the next one goes on there. */
static bool write_items(const struct quoting *quoting, const struct sp_buf *buf, uint32_t *ret_count)
{
    const struct sp_index_rows *rows = quoting->rows;
    bool ok = true;
    uint32_t i = 0;
    sp_json_key(quoting->json, "items");
    sp_json_begin_array(quoting->json);
    for (; ok && i < rows->count && !sp_buf_failed(buf) && buf->size < SPD_TABLE_PAGE_BYTES; i++) {
        if (quoting->file == NULL)
            sp_index_write_node(quoting->asked->plan.index, rows->rows[i], quoting->json);
        else
            ok = quote(quoting, i);
    }
    sp_json_end_array(quoting->json);
    *ret_count = i;
    return ok;
}

static bool write_page(const struct quoting *quoting, struct sp_buf *buf)
{
    const struct slice_page *page = &quoting->asked->query.page;
    const struct sp_index_rows *rows = quoting->rows;
    char token[PAGE_TOKEN_SIZE];
    uint32_t count;
    sp_json_begin_object(quoting->json);
    sp_json_member_int(quoting->json, "total", (int64_t)rows->total);
    if (!write_items(quoting, buf, &count))
        return false;
    if (page->query.skip + count < rows->total) {
        if (!page_write_token(quoting->asked->request, page->list, page->skip + count, token))
            return problem_no_memory(quoting->problem);
        sp_json_member_string(quoting->json, "next_page_token", token);
    }
    sp_json_end_object(quoting->json);
    if (sp_json_finish(quoting->json, NULL) != SP_OK)
        buf->failed = true;
    return !sp_buf_failed(buf);
}

static bool write_table(const struct slice *slice, struct slice_asked *asked, struct sp_buf *buf,
                        struct problem *problem)
{
    struct sp_error err = {0};
    struct sp_index_rows rows;
    struct sp_json json;
    asked->query.page.query.differs_from = asked->other.index;
    if (sp_index_rows(asked->plan.index, &asked->query.page.query, &rows, &err) != SP_OK) {
        problem_from_error(problem, &err);
        return false;
    }
    struct quoting quoting = {.asked = asked, .rows = &rows, .json = &json, .problem = problem};
    if (slice->quotes_plan && (quoting.file = stored_open_result(asked->request->server->stored, &asked->plan.row,
                                                                 "plan.json", problem)) == NULL)
        return false;
    sp_json_init_buf(&json, false, buf);
    const bool ok = write_page(&quoting, buf);
    stored_close(quoting.file);
    return ok;
}

/* ---- routes ---- */

#define TABLE(of)                                                                                                      \
    (struct slice)                                                                                                     \
    {                                                                                                                  \
        .table = (of), .quotes_plan = (of) != SP_INDEX_NODES, .read = read_table, .read_page = read_page,              \
        .write = write_table                                                                                           \
    }

enum verdict plan_nodes_finish(struct request *request)
{
    static const struct slice slice = TABLE(SP_INDEX_NODES);
    return slice_answer(request, &slice);
}

enum verdict plan_tensors_finish(struct request *request)
{
    static const struct slice slice = TABLE(SP_INDEX_TENSORS);
    return slice_answer(request, &slice);
}

enum verdict plan_collectives_finish(struct request *request)
{
    static const struct slice slice = TABLE(SP_INDEX_COLLECTIVES);
    return slice_answer(request, &slice);
}

enum verdict plan_diagnostics_finish(struct request *request)
{
    static const struct slice slice = TABLE(SP_INDEX_FINDINGS);
    return slice_answer(request, &slice);
}
