/* Slices of an index: compared with what a search through the whole index finds. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "build_index.h"
#include "build_sharded.h"
#include "data_files.h"
#include "index/graph.h"
#include "index/label.h"
#include "index/rows.h"
#include "index/timeline.h"
#include "plan_index.h"

#define NEAR       1e-9 /* of sums: the share by which their rounding may differ */
#define MOST_NODES 80
#define MOST_NAMES (1 << 16)

static bool is_near(double a, double b)
{
    return fabs(a - b) <= NEAR * fmax(fabs(a), fabs(b));
}

static double number(const json_t *object, const char *name)
{
    const json_t *member = json_object_get(object, name);
    cr_assert(json_is_number(member), "no %s", name);
    return json_number_value(member);
}

static const char *text(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

/* ---- asking ----------------------------------------------------------------------------------------------------- */

static json_t *parsed(enum sp_status status, struct sp_json *json, struct sp_buf *buf, const struct sp_error *err)
{
    json_t *answer = NULL;
    if (status == SP_OK) {
        cr_assert_eq(sp_json_finish(json, NULL), SP_OK);
        answer = json_loadb(buf->data, buf->size, JSON_REJECT_DUPLICATES, NULL);
        cr_assert_not_null(answer);
    } else {
        cr_assert_eq(status, SP_ERR_REQUEST, "%s", err->message);
    }
    sp_buf_release(buf);
    return answer;
}

static json_t *ask_graph(const struct sp_index *index, const struct sp_index_graph_query *query)
{
    struct sp_json json;
    struct sp_buf buf;
    struct sp_error err = {0};
    sp_buf_init(&buf, SIZE_MAX);
    sp_json_init_buf(&json, false, &buf);
    return parsed(sp_index_graph(index, query, &json, &err), &json, &buf, &err);
}

static json_t *ask_timeline(const struct sp_index *index, const struct sp_index_timeline_query *query)
{
    struct sp_json json;
    struct sp_buf buf;
    struct sp_error err = {0};
    sp_buf_init(&buf, SIZE_MAX);
    sp_json_init_buf(&json, false, &buf);
    return parsed(sp_index_timeline(index, query, &json, &err), &json, &buf, &err);
}

static json_t *ask_memory(const struct sp_index *index, uint32_t stage, uint32_t points)
{
    struct sp_json json;
    struct sp_buf buf;
    struct sp_error err = {0};
    sp_buf_init(&buf, SIZE_MAX);
    sp_json_init_buf(&json, false, &buf);
    return parsed(sp_index_memory(index, stage, points, &json, &err), &json, &buf, &err);
}

static const struct sp_index_rows_query all_rows = {
    .stage = SP_INDEX_NONE, .index = SP_INDEX_NONE, .split = -1, .limit = SP_INDEX_MOST_ROWS};

/* ---- graphs ----------------------------------------------------------------------------------------------------- */

/* An index of random names, stages and tensors: few pieces, so that modules meet, end within each other and are empty.
 */
struct made_up {
    struct sp_index index;
    struct sp_index_node nodes[MOST_NODES];
    struct sp_index_tensor tensors[MOST_NODES];
    struct sp_index_stage stages[4];
    uint32_t consumers[MOST_NODES * 4];
    uint32_t text_size;
    char texts[MOST_NAMES];
};

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static uint32_t add_name(struct made_up *made, uint64_t *state, char separator)
{
    static const char *const pieces[] = {"a", "b", "c", "layer.0", "layer.1", "", "@", "0-1@", "Add"};
    const uint32_t at = made->text_size;
    const uint64_t depth = next_random(state) % 5;
    for (uint64_t i = 0; i <= depth; i++) {
        const char *piece = pieces[next_random(state) % (i == 0 ? 9 : 6)];
        made->text_size += (uint32_t)snprintf(made->texts + made->text_size, sizeof made->texts - made->text_size,
                                              "%.*s%s", i > 0 || next_random(state) % 4 == 0, &separator, piece);
    }
    made->text_size++;
    return at;
}

static void make_up(struct made_up *made, uint64_t seed)
{
    uint64_t state = seed * 77 + 5;
    const uint32_t count = 1 + (uint32_t)(next_random(&state) % MOST_NODES);
    const char separator = seed % 5 == 0 ? '.' : '/';
    memset(made, 0, sizeof *made);
    for (uint32_t n = 0; n < count; n++) {
        made->nodes[n] = (struct sp_index_node){.name = add_name(made, &state, separator),
                                                .operator_type = SP_INDEX_NONE,
                                                .stage = (uint32_t)(next_random(&state) % 4),
                                                .seconds = 1 + n,
                                                .flops = 3 * n};
        made->tensors[n] = (struct sp_index_tensor){.name = made->nodes[n].name,
                                                    .spec = SP_INDEX_NONE,
                                                    .producer = n,
                                                    .first_consumer = made->index.count.consumers,
                                                    .bytes = 1 + (double)(next_random(&state) % 9)};
        for (uint32_t c = n + 1; c < count && made->tensors[n].consumer_count < 4; c += 1 + next_random(&state) % 9) {
            made->consumers[made->index.count.consumers++] = c;
            made->tensors[n].consumer_count++;
        }
    }
    for (uint32_t s = 0; s < 4; s++)
        made->stages[s].replicas = made->stages[s].device_count = 1;
    made->index.count.nodes = made->index.count.tensors = count;
    made->index.count.stages = 4;
    made->index.nodes = made->nodes;
    made->index.tensors = made->tensors;
    made->index.stages = made->stages;
    made->index.consumers = made->consumers;
    made->index.texts = made->texts;
}

/* The nodes of a box: those of the table of nodes below its path, or those of its stage or its name. A name that
   several nodes have is looked for among those that no box has yet. */
static void find_members(const struct sp_index *index, const struct sp_index_graph_query *query, const json_t *box,
                         uint32_t id, uint32_t *box_of)
{
    struct sp_index_rows rows;
    struct sp_index_rows_query asked = all_rows;
    struct sp_error err = {0};
    const bool is_node = strcmp(text(box, "kind"), "node") == 0;
    uint32_t found = 0;
    asked.path = is_node || query->by_stage ? query->path : text(box, "path");
    asked.name = is_node ? text(box, "node") : NULL;
    asked.stage =
        query->by_stage ? (uint32_t)number(json_array_get(json_object_get(box, "stages"), 0), "stage") : query->stage;
    cr_assert_eq(sp_index_rows(index, &asked, &rows, &err), SP_OK, "%s", err.message);
    for (uint32_t i = 0; i < rows.count && (!is_node || found == 0); i++) {
        if (is_node && box_of[rows.rows[i]] != SP_INDEX_NONE)
            continue;
        cr_assert_eq(box_of[rows.rows[i]], SP_INDEX_NONE, "a node in two boxes");
        box_of[rows.rows[i]] = id;
        found++;
    }
    cr_assert_eq(found, number(box, "nodes"), "box %s", text(box, "label"));
}

/* Each pair of boxes by itself. */
static void expect_edges(const struct sp_index *index, const json_t *graph, const uint32_t *box_of)
{
    const json_t *boxes = json_object_get(graph, "boxes"), *edges = json_object_get(graph, "edges");
    uint32_t outside[2] = {SP_INDEX_NONE, SP_INDEX_NONE};
    const size_t count = json_array_size(boxes);
    size_t next = 0;
    for (uint32_t b = 0; b < count; b++) {
        const json_t *box = json_array_get(boxes, b);
        cr_assert_eq(number(box, "id"), b);
        if (strcmp(text(box, "kind"), "outside") == 0)
            outside[strcmp(text(box, "label"), "after") == 0] = b;
    }
    for (uint32_t from = 0; from < count; from++) {
        for (uint32_t to = 0; to < count; to++) {
            double bytes = 0, crossing = 0, tensors = 0;
            for (uint32_t t = 0; t < index->count.tensors && from != to; t++) {
                const struct sp_index_tensor *tensor = &index->tensors[t];
                bool flows = false, crosses = false;
                if (tensor->producer == SP_INDEX_NONE)
                    continue;
                const uint32_t made_in =
                    box_of[tensor->producer] != SP_INDEX_NONE ? box_of[tensor->producer] : outside[0];
                for (uint32_t i = 0; i < tensor->consumer_count; i++) {
                    const uint32_t user = index->consumers[tensor->first_consumer + i];
                    const uint32_t used_in = box_of[user] != SP_INDEX_NONE ? box_of[user] : outside[1];
                    if (made_in != from || used_in != to || (from == outside[0] && to == outside[1]))
                        continue;
                    flows = true;
                    crosses = crosses || index->nodes[user].stage != index->nodes[tensor->producer].stage;
                }
                tensors += flows;
                bytes += flows ? tensor->bytes : 0;
                crossing += crosses ? tensor->bytes : 0;
            }
            if (tensors == 0)
                continue;
            const json_t *edge = json_array_get(edges, next++);
            cr_assert(number(edge, "from") == from && number(edge, "to") == to);
            cr_assert(number(edge, "tensors") == tensors && is_near(number(edge, "bytes"), bytes));
            cr_assert(is_near(number(edge, "crossing_bytes"), crossing));
        }
    }
    cr_assert_eq(next, json_array_size(edges));
}

/* Looks at one slice; returns it. */
static json_t *expect_graph(const struct sp_index *index, const struct sp_index_graph_query *query, uint32_t *box_of)
{
    json_t *graph = ask_graph(index, query), *box;
    double nodes = 0, seconds = 0, flops = 0;
    struct sp_index_rows_query asked = all_rows;
    struct sp_index_rows rows;
    struct sp_error err = {0};
    size_t i, inside = 0;
    cr_assert_not_null(graph, "%s", query->path);
    asked.path = query->path;
    asked.stage = query->stage;
    cr_assert_eq(sp_index_rows(index, &asked, &rows, &err), SP_OK, "%s", err.message);
    for (i = 0; i < index->count.nodes; i++)
        box_of[i] = SP_INDEX_NONE;
    json_array_foreach(json_object_get(graph, "boxes"), i, box)
    {
        if (strcmp(text(box, "kind"), "outside") == 0)
            continue;
        find_members(index, query, box, (uint32_t)i, box_of);
        nodes += number(box, "nodes");
        seconds += number(box, "seconds");
        flops += number(box, "flops");
        inside++;
    }
    cr_assert_leq(inside, query->limit);
    cr_assert_eq(nodes, rows.total);
    cr_assert_eq(nodes, number(graph, "node_count"));
    for (i = 0; i < rows.count; i++) {
        seconds -= index->nodes[rows.rows[i]].seconds;
        flops -= index->nodes[rows.rows[i]].flops;
    }
    cr_assert(fabs(seconds) < 1e-6 && fabs(flops) < 1e-6);
    expect_edges(index, graph, box_of);
    return graph;
}

/* Goes down from the whole model: each node is come to once. */
static void expect_all_reached(const struct sp_index *index, uint32_t depth, uint32_t stage, uint32_t limit)
{
    json_t *paths = json_array();
    uint32_t *box_of = calloc(index->count.nodes, sizeof *box_of),
             *reached = calloc(index->count.nodes, sizeof *reached);
    cr_assert(box_of != NULL && reached != NULL);
    (void)json_array_append_new(paths, json_string(""));
    for (size_t p = 0; p < json_array_size(paths); p++) {
        const struct sp_index_graph_query query = {
            .path = json_string_value(json_array_get(paths, p)), .depth = depth, .stage = stage, .limit = limit};
        json_t *graph = expect_graph(index, &query, box_of), *box;
        size_t i;
        json_array_foreach(json_object_get(graph, "boxes"), i, box)
        {
            const char *kind = text(box, "kind");
            if (strcmp(kind, "module") == 0 || strcmp(kind, "run") == 0)
                (void)json_array_append_new(paths, json_string(text(box, "path")));
        }
        for (uint32_t n = 0; n < index->count.nodes; n++) {
            if (box_of[n] != SP_INDEX_NONE)
                reached[n] +=
                    strcmp(text(json_array_get(json_object_get(graph, "boxes"), box_of[n]), "kind"), "node") == 0;
        }
        json_decref(graph);
        cr_assert_lt(json_array_size(paths), 4 * index->count.nodes + 4, "paths that do not end");
    }
    for (uint32_t n = 0; n < index->count.nodes; n++)
        cr_assert_eq(reached[n], stage == SP_INDEX_NONE || index->nodes[n].stage == stage, "node %u", n);
    free(reached);
    free(box_of);
    json_decref(paths);
}

Test(index_graph, reaches_each_node_of_any_names)
{
    struct made_up *made = malloc(sizeof *made);
    cr_assert_not_null(made);
    for (uint64_t seed = 0; seed < 300; seed++) {
        make_up(made, seed);
        expect_all_reached(&made->index, 1 + seed % 4, seed % 3 == 0 ? (uint32_t)(seed / 3 % 4) : SP_INDEX_NONE,
                           2 + (uint32_t)(seed % 11));
    }
    free(made);
}

Test(index_graph, has_the_stages)
{
    struct made_up *made = malloc(sizeof *made);
    uint32_t box_of[MOST_NODES];
    cr_assert_not_null(made);
    for (uint64_t seed = 0; seed < 50; seed++) {
        make_up(made, seed);
        const struct sp_index_graph_query query = {
            .path = "", .depth = 1, .stage = SP_INDEX_NONE, .by_stage = true, .limit = 4};
        json_decref(expect_graph(&made->index, &query, box_of));
    }
    free(made);
}

Test(index_graph, refuses_what_is_not_there)
{
    struct made_up *made = malloc(sizeof *made);
    cr_assert_not_null(made);
    make_up(made, 3);
    cr_assert_null(ask_graph(&made->index, &(struct sp_index_graph_query){
                                               .path = "nowhere", .depth = 1, .limit = 9, .stage = SP_INDEX_NONE}));
    cr_assert_null(
        ask_graph(&made->index, &(struct sp_index_graph_query){.path = "", .depth = 1, .limit = 9, .stage = 4}));
    free(made);
}

static size_t characters(const char *text)
{
    size_t count = 0;
    for (; *text != '\0'; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

static bool ends_in_ellipsis(const char *text)
{
    const size_t size = strlen(text);
    return size >= 3 && strcmp(text + size - 3, "\xe2\x80\xa6") == 0;
}

/* jansson takes well-formed UTF-8 only, so no character is cut. */
Test(index_graph, cuts_labels_and_keeps_what_is_handed_back)
{
    const size_t most = SP_INDEX_MOST_LABEL;
    for (size_t count = most - 3; count <= most + 5; count++) {
        struct built_index *built = built_new();
        char *module = built_wide_name("/m/", count, ""), *node = built_wide_name("/m/", count, "/x"),
             *other = built_wide_name("/m/", count, "/y"), *alone = built_wide_name("/m/", count, "z");
        built_node(built, node, "Add", 0, 1);
        built_node(built, other, "Add", 0, 1);
        built_node(built, alone, "Add", 0, 1);
        const struct sp_index *index = built_finish(built);
        json_t *graph = ask_graph(
                   index, &(struct sp_index_graph_query){.path = "", .depth = 1, .stage = SP_INDEX_NONE, .limit = 9}),
               *boxes = json_object_get(graph, "boxes"), *first = json_array_get(boxes, 0),
               *second = json_array_get(boxes, 1);
        cr_assert_str_eq(text(first, "path"), module);
        cr_assert_eq(characters(text(first, "label")), count < most ? count : most);
        cr_assert_eq(ends_in_ellipsis(text(first, "label")), count > most);
        cr_assert_eq(strncmp(text(first, "label"), module + 3, strlen(text(first, "label")) - 3), 0);
        cr_assert_str_eq(text(second, "node"), alone);
        cr_assert_eq(characters(text(second, "label")), count + 1 < most ? count + 1 : most);
        cr_assert_eq(ends_in_ellipsis(text(second, "label")), count + 1 > most);
        json_decref(graph);
        graph = ask_graph(
            index, &(struct sp_index_graph_query){.path = module, .depth = 1, .stage = SP_INDEX_NONE, .limit = 9});
        cr_assert_str_eq(text(json_array_get(json_object_get(graph, "boxes"), 1), "label"), "y");
        cr_assert_eq(json_array_size(json_object_get(graph, "parents")), 2);
        json_decref(graph);
        built_release(built);
        free(module);
        free(node);
        free(other);
        free(alone);
    }
}

/* The largest answer: more modules than boxes, of names about as long as a file may have them. */
Test(index_graph, has_a_size_that_boxes_bound)
{
    enum { MODULES = 700, LONG = 4000 };
    struct built_index *built = built_new();
    char end[32], *name;
    for (uint32_t n = 0; n < 2 * MODULES; n++) {
        (void)snprintf(end, sizeof end, "%u/%u", n / 2, n);
        name = built_name('\x01', LONG, end);
        built_node(built, name, "Add", n % 300, 1);
        free(name);
    }
    for (uint32_t t = 0; t < 16000; t++) {
        const uint32_t to = (t % (2 * MODULES) + 2 + 2 * (t / (2 * MODULES))) % (2 * MODULES);
        (void)snprintf(end, sizeof end, "%u", t % 10);
        name = built_name('\x01', LONG, end);
        built_tensor(built, name, 1, t % (2 * MODULES), 1, &to);
        free(name);
    }
    json_t *graph = ask_graph(built_finish(built),
                              &(struct sp_index_graph_query){
                                  .path = "", .depth = 1, .stage = SP_INDEX_NONE, .limit = SP_INDEX_MOST_BOXES}),
           *item;
    char *dumped = json_dumps(graph, JSON_COMPACT);
    size_t i;
    cr_assert_eq(json_array_size(json_object_get(graph, "boxes")), SP_INDEX_MOST_BOXES);
    cr_assert_eq(json_array_size(json_object_get(graph, "edges")), SP_INDEX_MOST_EDGES);
    json_array_foreach(json_object_get(graph, "boxes"), i, item)
        cr_assert_leq(characters(text(item, "label")), SP_INDEX_MOST_LABEL);
    json_array_foreach(json_object_get(graph, "edges"), i, item)
        cr_assert_eq(characters(text(item, "tensor")), SP_INDEX_MOST_TENSOR_NAME);
    /* Escaped, a character has up to 6 bytes; numbers and names of members take the rest. */
    cr_assert_lt(strlen(dumped), SP_INDEX_MOST_BOXES * 6 * (LONG + SP_INDEX_MOST_LABEL + 300) +
                                     SP_INDEX_MOST_EDGES * (6 * SP_INDEX_MOST_TENSOR_NAME + 200));
    free(dumped);
    json_decref(graph);
    built_release(built);
}

/* ---- a real plan ------------------------------------------------------------------------------------------------ */

static void with_plan(void (*look)(const struct plan_index *made))
{
    static const char *const names[] = {"transformer_tiny.onnx", "resnet50.onnx"};
    for (uint64_t seed = 0; seed < 8; seed++) {
        struct sharded_model model;
        struct plan_index made;
        struct sp_buf file;
        char path[512];
        size_t size;
        (void)snprintf(path, sizeof path, SOURCE_ROOT "/tests/data/%s", names[seed % 2]);
        unsigned char *bytes = data_read(path, &size);
        cr_assert_not_null(bytes);
        sp_buf_init(&file, size + 1);
        sp_buf_append(&file, bytes, size);
        free(bytes);
        sharded_make(&model, file,
                     &(struct sharded_options){.stages = 1 + seed % 3,
                                               .replicas = 1 + seed % 4,
                                               .axis_count = 2,
                                               .sizes = {2, 2},
                                               .choose = sharded_choose_any,
                                               .context = &seed});
        plan_index_make(&made, model.plan);
        look(&made);
        plan_index_release(&made);
        sharded_release(&model);
    }
}

static void look_at_graph(const struct plan_index *made)
{
    expect_all_reached(&made->index, 1, SP_INDEX_NONE, 200);
    expect_all_reached(&made->index, 2, 0, 12);
}

Test(index_graph, reaches_each_node_of_plans)
{
    with_plan(look_at_graph);
}

/* All lanes as fine as may be: each request of a lane takes its stage's time, and each slice lies in the span. */
static void look_at_whole_timeline(const struct plan_index *made)
{
    const struct sp_index *index = &made->index;
    json_t *timeline = ask_timeline(index, &(struct sp_index_timeline_query){.lanes = SP_INDEX_MOST_LANES}), *lane,
           *row, *slice;
    size_t l, r, s;
    cr_assert_not_null(timeline);
    json_array_foreach(json_object_get(timeline, "lanes"), l, lane)
    {
        const struct sp_index_stage *stage = &index->stages[(uint32_t)number(lane, "stage")];
        const uint32_t replica = (uint32_t)number(lane, "replica");
        double busy[2] = {0}, requests = 0;
        cr_assert_eq(number(lane, "first_device"), stage->first_device + replica * stage->device_count);
        json_array_foreach(json_object_get(lane, "rows"), r, row)
        {
            const bool is_exchange = text(row, "row")[0] == 's' || text(row, "row")[0] == 'r';
            json_array_foreach(json_object_get(row, "slices"), s, slice)
            {
                const double begin = json_number_value(json_array_get(slice, 0)),
                             end = json_number_value(json_array_get(slice, 1));
                cr_assert(begin >= 0 && end <= number(timeline, "end") * (1 + NEAR) && begin < end);
                cr_assert_eq((uint32_t)json_number_value(json_array_get(slice, 2)) % stage->replicas, replica);
                busy[is_exchange] += json_number_value(json_array_get(slice, 5));
            }
        }
        for (uint32_t q = replica; q < index->requests; q += stage->replicas)
            requests++;
        cr_assert(is_near(busy[0], requests * stage->compute_seconds));
    }
    json_decref(timeline);
}

/* A span of the first lane, fine enough that nothing is joined: each slice that overlaps it, and no other. */
static void look_at_span(const struct plan_index *made)
{
    const struct sp_index *index = &made->index;
    const struct sp_index_stage *stage = &index->stages[0];
    const double at = stage->start_seconds + stage->compute_seconds / 3, span = stage->compute_seconds / 50;
    const struct sp_index_timeline_query query = {.from = at, .to = at + span, .resolution = 1e-30, .lanes = 1};
    json_t *timeline = ask_timeline(index, &query), *row;
    double count = 0, found = 0;
    size_t r, s;
    json_t *slice;
    cr_assert_not_null(timeline);
    cr_assert_eq(json_array_size(json_object_get(timeline, "lanes")), 1);
    for (uint32_t i = 0; i < stage->slices.count; i++) {
        const struct sp_index_slice *one = &index->slices[stage->slices.first + i];
        for (uint32_t q = 0; q < index->requests; q += stage->replicas) {
            const double later = q * index->interval_seconds;
            count += one->begin + later < query.to && one->end + later > query.from;
        }
    }
    json_array_foreach(json_object_get(json_array_get(json_object_get(timeline, "lanes"), 0), "rows"), r, row)
        json_array_foreach(json_object_get(row, "slices"), s, slice) found +=
        json_number_value(json_array_get(slice, 4));
    cr_assert_eq(found, count);
    cr_assert_gt(count, 0);
    json_decref(timeline);
}

Test(index_timeline, has_what_lanes_do)
{
    with_plan(look_at_whole_timeline);
    with_plan(look_at_span);
}

static void look_at_bad_spans(const struct plan_index *made)
{
    const struct sp_index *index = &made->index;
    static const double bad[][2] = {{2, 1}, {1, 1}, {-1, 1}, {NAN, 1}, {0, INFINITY}, {1e30, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_null(
            ask_timeline(index, &(struct sp_index_timeline_query){.from = bad[i][0], .to = bad[i][1], .lanes = 1}));
    cr_assert_null(ask_timeline(index, &(struct sp_index_timeline_query){.first_lane = 4096, .lanes = 1}));
    cr_assert_null(ask_memory(index, index->count.stages, 100));
}

/* ---- a timeline of many lanes, each of many slices --------------------------------------------------------------- */

enum { LANES = 100, DENSE = 1000 };

struct dense {
    struct sp_index index;
    struct sp_index_node nodes[1];
    struct sp_index_stage stages[LANES];
    struct sp_index_slice slices[LANES * DENSE];
    char texts[500];
};

/* Stages that compute the whole time, in slices of equal length. */
static struct dense *make_dense(void)
{
    struct dense *dense = calloc(1, sizeof *dense);
    cr_assert_not_null(dense);
    for (uint32_t s = 0; s < LANES; s++) {
        dense->stages[s] = (struct sp_index_stage){.first_device = s,
                                                   .device_count = 1,
                                                   .replicas = 1,
                                                   .device_name = sizeof dense->texts - 1,
                                                   .slices = {s * DENSE, DENSE}};
        for (uint32_t i = 0; i < DENSE; i++)
            dense->slices[s * DENSE + i] = (struct sp_index_slice){.begin = i, .end = i + 1};
    }
    for (size_t i = 0; i + 4 < sizeof dense->texts; i += 3)
        memcpy(dense->texts + i, "\xe2\x82\xac", 3);
    dense->index = (struct sp_index){.count = {.nodes = 1, .stages = LANES, .slices = LANES * DENSE},
                                     .requests = 1,
                                     .nodes = dense->nodes,
                                     .stages = dense->stages,
                                     .slices = dense->slices,
                                     .texts = dense->texts};
    return dense;
}

/* Whatever is joined, all of it is there; no name is longer than a label. */
static void expect_dense(const json_t *timeline, double lanes, double slices)
{
    json_t *lane, *slice;
    double shown = 0, busy = 0, count = 0;
    size_t l, s;
    json_array_foreach(json_object_get(timeline, "lanes"), l, lane)
    {
        const json_t *row = json_array_get(json_object_get(lane, "rows"), 0);
        json_array_foreach(json_object_get(row, "slices"), s, slice)
        {
            count += json_number_value(json_array_get(slice, 4));
            busy += json_number_value(json_array_get(slice, 5));
            shown++;
            cr_assert_eq(strlen(json_string_value(json_array_get(slice, 6))), (size_t)3 * SP_INDEX_MOST_LABEL);
        }
    }
    cr_assert(count == lanes * DENSE && is_near(busy, lanes * DENSE));
    cr_assert_eq(shown, slices);
}

Test(index_timeline, is_coarser_where_it_would_be_too_large)
{
    struct dense *dense = make_dense();
    json_t *timeline = ask_timeline(&dense->index, &(struct sp_index_timeline_query){.resolution = 0.75, .lanes = 60});
    cr_assert_eq(number(timeline, "resolution"), 0.75);
    expect_dense(timeline, 60, 60 * DENSE);
    json_decref(timeline);
    timeline = ask_timeline(&dense->index, &(struct sp_index_timeline_query){.resolution = 0.75, .lanes = 128});
    cr_assert_eq(number(timeline, "resolution"), 3, "%g", number(timeline, "resolution"));
    expect_dense(timeline, LANES, LANES * DENSE / 2);
    json_decref(timeline);
    timeline = ask_timeline(&dense->index, &(struct sp_index_timeline_query){
                                               .resolution = 0.75, .first_lane = LANES - 1, .lanes = UINT32_MAX});
    cr_assert_eq(json_array_size(json_object_get(timeline, "lanes")), 1);
    expect_dense(timeline, 1, DENSE);
    json_decref(timeline);
    timeline =
        ask_timeline(&dense->index, &(struct sp_index_timeline_query){.from = 5 * DENSE, .to = 6 * DENSE, .lanes = 1});
    expect_dense(timeline, 0, 0);
    json_decref(timeline);
    free(dense);
}

/* Sends to many stages at once, none of which a resolution within the span joins, in a span of no length to speak of.
 */
Test(index_timeline, joins_what_overlaps)
{
    struct dense *dense = make_dense();
    static const struct sp_index_collective send = {.tensor = SP_INDEX_NONE};
    for (uint32_t i = 0; i < LANES * DENSE; i++)
        dense->slices[i] = (struct sp_index_slice){.begin = 0, .end = DENSE, .what = SP_INDEX_SEND};
    dense->index.collectives = &send;
    dense->index.count.collectives = 1;
    for (int tiny = 0; tiny < 2; tiny++) {
        json_t *timeline = ask_timeline(
            &dense->index, &(struct sp_index_timeline_query){.to = tiny ? 5e-324 : 1, .lanes = SP_INDEX_MOST_LANES});
        const json_t *lane = json_array_get(json_object_get(timeline, "lanes"), LANES - 1);
        const json_t *slices = json_object_get(json_array_get(json_object_get(lane, "rows"), 0), "slices");
        cr_assert_eq(json_array_size(slices), 1);
        cr_assert_eq(json_number_value(json_array_get(json_array_get(slices, 0), 4)), DENSE);
        json_decref(timeline);
    }
    free(dense);
}

Test(index_timeline, refuses_what_is_no_span)
{
    with_plan(look_at_bad_spans);
}

static void look_at_memory(const struct plan_index *made)
{
    const struct sp_index *index = &made->index;
    for (uint32_t stage = 0; stage < index->count.stages; stage++) {
        json_t *memory = ask_memory(index, stage, 16), *point, *held;
        double most = 0, alive = 0, before = -1;
        size_t i;
        cr_assert_leq(json_array_size(json_object_get(memory, "course")), 16);
        json_array_foreach(json_object_get(memory, "course"), i, point)
        {
            most = fmax(most, json_number_value(json_array_get(point, 1)));
            cr_assert_geq(json_number_value(json_array_get(point, 0)), before);
            before = json_number_value(json_array_get(point, 0));
        }
        json_array_foreach(json_object_get(memory, "alive"), i, held) alive += number(held, "bytes");
        if (json_object_get(memory, "alive_more") != NULL)
            alive += number(json_object_get(memory, "alive_more"), "bytes");
        cr_assert(is_near(most, index->stages[stage].activations_peak_bytes));
        cr_assert(is_near(alive, most));
        cr_assert_leq(before, number(memory, "seconds"));
        json_decref(memory);
    }
}

Test(index_memory, keeps_the_peak)
{
    with_plan(look_at_memory);
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

static void expect_rows(const struct sp_index *index, const struct sp_index_rows_query *query, uint32_t count,
                        bool (*matches)(const struct sp_index *index, uint32_t row))
{
    struct sp_index_rows found;
    struct sp_error err = {0};
    uint32_t next = 0;
    cr_assert_eq(sp_index_rows(index, query, &found, &err), SP_OK, "%s", err.message);
    for (uint32_t row = 0; row < count; row++) {
        if (!matches(index, row))
            continue;
        if (next < found.count)
            cr_assert_eq(found.rows[next], row);
        next++;
    }
    cr_assert_eq(found.total, next);
    cr_assert_eq(found.count, next < query->limit ? next : query->limit);
}

static bool is_of_stage_0(const struct sp_index *index, uint32_t row)
{
    return index->nodes[row].stage == 0;
}

static bool has_matmul(const struct sp_index *index, uint32_t row)
{
    return strcasestr(sp_index_text(index, index->nodes[row].name), "MATMUL") != NULL ||
           strcasestr(sp_index_text(index, index->nodes[row].operator_type), "matmul") != NULL;
}

static bool uses_tensor_of_first(const struct sp_index *index, uint32_t row)
{
    const struct sp_index_node *node = &index->nodes[row];
    for (uint32_t i = 0; i < node->input_count + node->output_count; i++) {
        if (index->operands[node->first_operand + i] == index->operands[index->nodes[0].first_operand])
            return true;
    }
    return false;
}

static bool is_split_weight(const struct sp_index *index, uint32_t row)
{
    const struct sp_index_tensor *tensor = &index->tensors[row];
    return tensor->row.size > 0 && tensor->kind == SP_INDEX_WEIGHT && tensor->is_split;
}

static bool is_send(const struct sp_index *index, uint32_t row)
{
    return strcmp(sp_index_text(index, index->collectives[row].kind), "send") == 0;
}

/* Page by page in descending order: all of them, each once, none larger than the one before it. */
static void expect_pages(const struct sp_index *index)
{
    struct sp_index_rows_query query = all_rows;
    struct sp_index_rows page;
    struct sp_error err = {0};
    double before = INFINITY;
    uint32_t count = 0;
    query.order = SP_INDEX_BY_SECONDS;
    query.descending = true;
    query.limit = 7;
    do {
        query.skip = count;
        cr_assert_eq(sp_index_rows(index, &query, &page, &err), SP_OK);
        for (uint32_t i = 0; i < page.count; i++) {
            cr_assert_leq(index->nodes[page.rows[i]].seconds, before);
            before = index->nodes[page.rows[i]].seconds;
        }
        count += page.count;
    } while (page.count > 0);
    cr_assert_eq(count, index->count.nodes);
}

static void look_at_rows(const struct plan_index *made)
{
    const struct sp_index *index = &made->index;
    struct sp_index_rows_query query = all_rows;
    struct sp_index_rows found;
    struct sp_error err = {0};
    query.stage = 0;
    expect_rows(index, &query, index->count.nodes, is_of_stage_0);
    query = all_rows;
    query.search = "MatMul";
    expect_rows(index, &query, index->count.nodes, has_matmul);
    query = all_rows;
    query.tensor = sp_index_text(index, index->tensors[index->operands[index->nodes[0].first_operand]].name);
    expect_rows(index, &query, index->count.nodes, uses_tensor_of_first);
    query = all_rows;
    query.table = SP_INDEX_TENSORS;
    query.kind = "weight";
    query.split = 1;
    expect_rows(index, &query, index->count.tensors, is_split_weight);
    query = all_rows;
    query.table = SP_INDEX_COLLECTIVES;
    query.kind = "send";
    expect_rows(index, &query, index->count.collectives, is_send);
    query = all_rows;
    query.table = SP_INDEX_TENSORS;
    query.differs_from = index;
    cr_assert_eq(sp_index_rows(index, &query, &found, &err), SP_OK);
    cr_assert_eq(found.total, 0, "nothing differs from itself");
    query = all_rows;
    query.path = "no such module";
    cr_assert_eq(sp_index_rows(index, &query, &found, &err), SP_ERR_REQUEST);
    expect_pages(index);
}

Test(index_rows, are_those_that_match)
{
    with_plan(look_at_rows);
}
