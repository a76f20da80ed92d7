/* GET /v1/plans/{id}/summary, graph, timeline, memory: slices that are one object of the index. */
#include <string.h>

#include "http/respond.h"
#include "routes/routes.h"
#include "routes/slices.h"

static bool finish(struct sp_json *json, struct sp_buf *buf, enum sp_status status, const struct sp_error *err,
                   struct problem *problem)
{
    if (status != SP_OK) {
        problem_from_error(problem, err);
        return false;
    }
    if (sp_json_finish(json, NULL) != SP_OK)
        buf->failed = true;
    return !sp_buf_failed(buf);
}

/* ---- summary ---- */

/* The index's object, with the plan as a job of this service put in front. */
static bool write_summary(const struct slice *slice, struct slice_asked *asked, struct sp_buf *buf,
                          struct problem *problem)
{
    (void)slice;
    const struct sp_index *index = asked->plan.index;
    const struct plan_row *row = &asked->plan.row;
    struct sp_json json;
    if (index->summary.size < 3 || index->summary.bytes[0] != '{')
        return problem_set(problem, 500, "PLAN_DAMAGED", "The stored plan has no summary.");
    sp_json_init_buf(&json, false, buf);
    sp_json_begin_object(&json);
    sp_json_key(&json, "job");
    sp_json_begin_object(&json);
    plan_write_members(&json, asked->request, row);
    sp_json_key(&json, "request");
    sp_json_raw(&json, row->request, strlen(row->request));
    sp_json_end_object(&json);
    sp_json_end_object(&json);
    if (!finish(&json, buf, SP_OK, NULL, problem))
        return false;
    buf->data[buf->size - 1] = ','; /* the brace; the rest of the index's object follows */
    sp_buf_append(buf, index->summary.bytes + 1, (size_t)index->summary.size - 1);
    return !sp_buf_failed(buf);
}

enum verdict plan_summary_finish(struct request *request)
{
    static const struct slice slice = {.write = write_summary};
    return slice_answer(request, &slice);
}

/* ---- graph ---- */

static bool read_graph(const struct slice *slice, struct slice_asked *asked, struct problem *problem)
{
    (void)slice;
    struct sp_index_graph_query *query = &asked->query.graph;
    const char *path = request_parameter(asked->request, "path");
    int group = 0;
    *query = (struct sp_index_graph_query){
        .path = path != NULL ? path : "",
        .depth = 1,
        .stage = SP_INDEX_NONE,
        .limit = SPD_DEFAULT_BOXES,
        .hash_seed = slice_seed(),
    };
    if (!slice_number(asked, "depth", 1, SP_INDEX_MOST_LEVELS, &query->depth, problem) ||
        !slice_number(asked, "stage", 0, SP_INDEX_NONE - 1, &query->stage, problem) ||
        !slice_number(asked, "limit", 2, SP_INDEX_MOST_BOXES, &query->limit, problem) ||
        !slice_word(asked, "group", "module stage", &group, problem))
        return false;
    query->by_stage = group == 1;
    if (query->by_stage && query->path[0] != '\0')
        return problem_set(problem, 400, "BAD_PARAMETER",
                           "The parameter path goes with group=module: stages have none.");
    return true;
}

static bool write_graph(const struct slice *slice, struct slice_asked *asked, struct sp_buf *buf,
                        struct problem *problem)
{
    (void)slice;
    struct sp_error err = {0};
    struct sp_json json;
    sp_json_init_buf(&json, false, buf);
    const enum sp_status status = sp_index_graph(asked->plan.index, &asked->query.graph, &json, &err);
    return finish(&json, buf, status, &err, problem);
}

enum verdict plan_graph_finish(struct request *request)
{
    static const struct slice slice = {.read = read_graph, .write = write_graph};
    return slice_answer(request, &slice);
}

/* ---- timeline ---- */

static bool read_timeline(const struct slice *slice, struct slice_asked *asked, struct problem *problem)
{
    (void)slice;
    struct sp_index_timeline_query *query = &asked->query.timeline;
    *query = (struct sp_index_timeline_query){.lanes = SPD_DEFAULT_LANES};
    return slice_seconds(asked, "from", &query->from, problem) && slice_seconds(asked, "to", &query->to, problem) &&
           slice_seconds(asked, "resolution", &query->resolution, problem) &&
           slice_number(asked, "first_lane", 0, SP_INDEX_NONE - 1, &query->first_lane, problem) &&
           slice_number(asked, "lanes", 1, SP_INDEX_MOST_LANES, &query->lanes, problem);
}

static bool write_timeline(const struct slice *slice, struct slice_asked *asked, struct sp_buf *buf,
                           struct problem *problem)
{
    (void)slice;
    struct sp_error err = {0};
    struct sp_json json;
    sp_json_init_buf(&json, false, buf);
    const enum sp_status status = sp_index_timeline(asked->plan.index, &asked->query.timeline, &json, &err);
    return finish(&json, buf, status, &err, problem);
}

bool plan_timeline_is_slice(const struct request *request)
{
    return request->parameter_count > 0 ||
           request_accepts(request, "application/json") > request_accepts(request, "application/x-protobuf");
}

enum verdict plan_timeline_slice(struct request *request)
{
    static const struct slice slice = {.read = read_timeline, .write = write_timeline};
    return slice_answer(request, &slice);
}

/* ---- memory ---- */

static bool read_memory(const struct slice *slice, struct slice_asked *asked, struct problem *problem)
{
    (void)slice;
    asked->query.memory.stage = 0;
    asked->query.memory.points = SPD_DEFAULT_POINTS;
    return slice_number(asked, "stage", 0, SP_INDEX_NONE - 1, &asked->query.memory.stage, problem) &&
           slice_number(asked, "resolution", 16, SP_INDEX_MOST_POINTS, &asked->query.memory.points, problem);
}

static bool write_memory(const struct slice *slice, struct slice_asked *asked, struct sp_buf *buf,
                         struct problem *problem)
{
    (void)slice;
    struct sp_error err = {0};
    struct sp_json json;
    sp_json_init_buf(&json, false, buf);
    const enum sp_status status =
        sp_index_memory(asked->plan.index, asked->query.memory.stage, asked->query.memory.points, &json, &err);
    return finish(&json, buf, status, &err, problem);
}

enum verdict plan_memory_finish(struct request *request)
{
    static const struct slice slice = {.read = read_memory, .write = write_memory};
    return slice_answer(request, &slice);
}
