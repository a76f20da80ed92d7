/*
 * GET /v1/summary: plans as flat rows, newest first, for tables and charts of other programs.
 *
 * What a result says stands in a line of its index, of which nothing else is read. The rows of the store are copied
 * first: files are not read while it lists them.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http/page.h"
#include "http/respond.h"
#include "index/index.h"
#include "routes/held.h"
#include "routes/routes.h"
#include "store/files.h"
#include "store/objects/results.h"
#include "util/json_memory.h"
#include "util/times.h"

/* What the line of an index says; all are null of a plan without one. */
static const char *const figures[] = {"devices",
                                      "devices_used",
                                      "stages",
                                      "latency_seconds",
                                      "interval_seconds",
                                      "throughput_per_second",
                                      "lower_bound_seconds",
                                      "gap",
                                      "communication_bytes",
                                      "memory_worst_ratio",
                                      "search_seconds"};

/* A plan of the list. */
struct listed {
    struct plan_row row; /* of its strings it has the request and the files, or NULL */
    bool wanted;
};

struct summing {
    struct page page;
    struct listed *plans; /* room for a page and one more */
    int count, room;
    struct blob_file *files; /* that lines are read from and an object store has */
    size_t file_count;
    char model[65], *model_name; /* of the plan before: plans of one model follow each other */
    char model_tenant[SPD_MAX_PRINCIPAL + 1];
    bool store_failed;      /* or */
    struct problem problem; /* why there is no answer: what cannot be read at the moment is not null */
};

/* ---- what a plan's index says ---- */

/* The line as an object, or NULL. */
static json_t *parse_line(int fd, const struct sp_index_row *place, struct problem *problem)
{
    json_t *json = NULL;
    if (place->size == 0 || place->size > SPD_MAX_INDEX_LINE)
        return NULL;
    char *text = malloc((size_t)place->size + 2);
    if (text != NULL && files_read_at(fd, place->offset, text + 1, (size_t)place->size)) {
        text[0] = '{';
        text[place->size + 1] = '}';
        json = json_loadb(text, (size_t)place->size + 2, 0, NULL);
    }
    if (text == NULL)
        (void)problem_no_memory(problem);
    free(text);
    return json;
}

/* NULL where the plan has no result, or no index that can be read: one is made when it is asked for a slice. */
static json_t *read_line(struct summing *summing, const struct plan_row *row)
{
    const struct request *request = summing->page.request;
    struct problem *problem = &summing->problem;
    char head[SP_INDEX_HEAD_BYTES];
    struct sp_index_row place;
    struct sp_error err = {0};
    uint64_t size = 0;
    json_t *line = NULL;
    if (!row->has_result)
        return NULL;
    if (summing->file_count <= SPD_MAX_PAGE &&
        results_file(row, "plan.sheet", &summing->files[summing->file_count], NULL))
        summing->file_count++;
    char *path = files_plan_file(request->server->config->data, row->id, row->attempts, "plan.sheet");
    const int fd = files_open_read(path, &size);
    if (fd < 0 && errno != ENOENT)
        (void)problem_of_stored(problem, errno, "PLAN_DAMAGED", "the stored plan");
    free(path);
    if (fd < 0)
        return NULL;
    if (size >= sizeof head && files_read_at(fd, 0, head, sizeof head) &&
        sp_index_find_line(head, size, &place, &err) == SP_OK)
        line = parse_line(fd, &place, problem);
    (void)close(fd);
    return line;
}

/* ---- rows ---- */

/* The name that the client gave the model; "" is none. */
static const char *name_of_model(struct summing *summing, const struct plan_row *row)
{
    struct model_row model;
    if (strcmp(summing->model, row->model) != 0 || strcmp(summing->model_tenant, row->tenant) != 0) {
        free(summing->model_name);
        summing->model_name = NULL;
        (void)snprintf(summing->model, sizeof summing->model, "%s", row->model);
        (void)snprintf(summing->model_tenant, sizeof summing->model_tenant, "%s", row->tenant);
        const enum store_found found =
            store_get_model(summing->page.request->server->store, row->tenant, row->model, &model);
        if (found == STORE_DONE) {
            summing->model_name = model.name[0] != '\0' ? strdup(model.name) : NULL;
            if (model.name[0] != '\0' && summing->model_name == NULL)
                (void)problem_no_memory(&summing->problem);
            store_release_model(&model);
        } else if (found != STORE_NOT_FOUND) {
            summing->store_failed = true;
        }
    }
    return summing->model_name;
}

static void write_stamp(struct sp_json *json, const char *name, int64_t milliseconds)
{
    char stamp[TIMES_SIZE];
    sp_json_member_string(json, name, milliseconds > 0 ? times_format(milliseconds, stamp) : NULL);
}

static void write_figures(struct sp_json *json, const json_t *line)
{
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        const json_t *value = json_object_get(line, figures[i]);
        sp_json_key(json, figures[i]);
        if (json_is_integer(value))
            sp_json_int(json, json_integer_value(value));
        else if (json_is_real(value))
            sp_json_double(json, json_real_value(value));
        else
            sp_json_null(json);
    }
    sp_json_member_string(json, "bottleneck", json_string_value(json_object_get(line, "bottleneck")));
}

/* The members of an open object. */
static void write_row(struct summing *summing, const struct plan_row *row)
{
    struct sp_json *json = &summing->page.json;
    json_t *asked = row->request != NULL ? json_loads(row->request, 0, NULL) : NULL;
    json_t *line = read_line(summing, row);
    const char *objective = json_string_value(json_object_get(line, "objective"));
    const char *strategy = json_string_value(json_object_get(line, "strategy"));
    if (objective == NULL) /* what is asked for, as far as it says */
        objective = json_string_value(json_object_get(asked, "objective"));
    if (strategy == NULL)
        strategy = json_string_value(json_object_get(json_object_get(asked, "options"), "strategy"));
    sp_json_member_string(json, "id", row->id);
    if (request_view(summing->page.request) == NULL && row->tenant[0] != '\0')
        sp_json_member_string(json, "tenant", row->tenant);
    sp_json_member_string(json, "state", store_state_name(row->state));
    sp_json_member_string(json, "model", row->model);
    sp_json_member_string(json, "model_name", name_of_model(summing, row));
    sp_json_member_string(json, "objective", objective);
    sp_json_member_string(json, "strategy", strategy);
    write_stamp(json, "created_at", row->created_at);
    write_stamp(json, "started_at", row->started_at);
    write_stamp(json, "finished_at", row->finished_at);
    write_figures(json, line);
    json_decref(line);
    json_decref(asked);
}

/* ---- the list ---- */

static void take_plan(void *context, const struct plan_row *row)
{
    struct summing *summing = context;
    if (summing->count == summing->room)
        return;
    struct listed *listed = &summing->plans[summing->count++];
    *listed = (struct listed){*row, plans_filter_takes(summing->page.request, row)};
    listed->row.error = NULL;
    listed->row.files = listed->wanted && row->files != NULL ? strdup(row->files) : NULL;
    listed->row.request = listed->wanted ? strdup(row->request) : NULL;
    if (listed->wanted && (listed->row.request == NULL || (row->files != NULL && listed->row.files == NULL)))
        (void)problem_no_memory(&summing->problem);
}

static void release_plans(struct summing *summing)
{
    for (int i = 0; i < summing->count; i++)
        store_release_plan(&summing->plans[i].row);
    summing->count = 0;
}

static bool list_rows(struct page *page, int limit)
{
    struct summing *summing = (struct summing *)page; /* its first member */
    const struct request *request = page->request;
    const bool ok = limit <= summing->room && store_list_plans(request->server->store, request_view(request),
                                                               page->before, limit, take_plan, summing);
    for (int i = 0; ok && i < summing->count; i++) {
        if (!page_item(page, summing->plans[i].row.seq, summing->plans[i].wanted))
            continue;
        write_row(summing, &summing->plans[i].row);
        page_item_end(page);
    }
    release_plans(summing);
    return ok && !summing->store_failed && summing->problem.status == 0;
}

enum verdict summary_finish(struct request *request)
{
    struct summing summing = {.room = SPD_MAX_PAGE + 1};
    char filter[PLANS_FILTER_SIZE], list[PLANS_FILTER_SIZE + 16];
    enum verdict verdict = plans_filter_check(request, filter);
    (void)snprintf(list, sizeof list, "summary %s", filter);
    if (verdict != VERDICT_GO_ON || !page_begin(&summing.page, request, "plans", list, &verdict))
        return verdict;
    summing.page.tagged = true;
    (void)json_memory_was_short(); /* of an earlier request */
    summing.plans = calloc((size_t)summing.room, sizeof *summing.plans);
    summing.files = calloc((size_t)summing.room, sizeof *summing.files);
    if (summing.plans == NULL || summing.files == NULL)
        (void)problem_no_memory(&summing.problem);
    const bool ok = summing.plans != NULL && summing.files != NULL && page_fill(&summing.page, list_rows);
    if (json_memory_was_short())
        (void)problem_no_memory(&summing.problem);
    free(summing.plans);
    free(summing.model_name);
    if (summing.problem.status == 0 && ok)
        verdict = held_try(request, summing.files, summing.file_count, summary_finish);
    free(summing.files);
    if (verdict == VERDICT_GO_ON && summing.problem.status == 0)
        return page_finish(&summing.page, request, ok);
    sp_buf_release(&summing.page.buf);
    if (verdict != VERDICT_GO_ON)
        return verdict;
    return respond_problem(request, &summing.problem);
}
