/* Slices of a graph: what is published for small ones, and slow and obvious code for random ones. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build_index.h"
#include "index/graph.h"
#include "index/rows.h"
#include "random_workload.h"

#define MOST BUILT_RANDOM_NODES

/* A query; what is not said of it is what most of them have. */
static struct sp_index_graph_query complete(struct sp_index_graph_query query)
{
    query.path = query.path == NULL ? "" : query.path;
    query.depth = query.depth == 0 ? 1 : query.depth;
    query.limit = query.limit == 0 ? 200 : query.limit;
    return query;
}
#define OF_STAGE(...) complete((struct sp_index_graph_query){.stage = __VA_ARGS__})
#define ALL(...)      OF_STAGE(SP_INDEX_NONE, __VA_ARGS__)

static json_t *ask(const struct sp_index *index, struct sp_index_graph_query query)
{
    struct sp_error err = {0};
    struct sp_json json;
    struct sp_buf text;
    sp_buf_init(&text, (size_t)1 << 28);
    sp_json_init_buf(&json, false, &text);
    cr_assert_eq(sp_index_graph(index, &query, &json, &err), SP_OK, "%s: %s", err.code, err.message);
    cr_assert_eq(sp_json_finish(&json, &err), SP_OK);
    json_t *graph = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, NULL);
    cr_assert_not_null(graph, "%.*s", (int)text.size, text.data);
    sp_buf_release(&text);
    return graph;
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    cr_assert_not_null(text, "no %s", name);
    return text;
}

static double number(const json_t *object, const char *name)
{
    cr_assert(json_is_number(json_object_get(object, name)), "no %s", name);
    return json_number_value(json_object_get(object, name));
}

static bool is_kind(const json_t *box, const char *kind)
{
    return strcmp(text_of(box, "kind"), kind) == 0;
}

static const char *name_of(const struct sp_index *index, uint32_t n)
{
    return sp_index_text(index, index->nodes[n].name);
}

/* ---- published cases -------------------------------------------------------------------------------------------- */

static void expect(const struct sp_index *index, struct sp_index_graph_query query, const char *expected)
{
    json_t *graph = ask(index, query), *other = json_loads(expected, 0, NULL);
    char *text = json_dumps(graph, 0);
    cr_assert_not_null(other, "%s", expected);
    cr_assert(json_equal(graph, other), "%s", text);
    free(text);
    json_decref(graph);
    json_decref(other);
}

static struct built_index *two_layers(void)
{
    struct built_index *built = built_new();
    built_node(built, "/m/embed/Gather", "Gather", 0, 1);
    built_node(built, "/m/layer.0/fc/MatMul", "MatMul", 0, 4);
    built_node(built, "/m/layer.0/Relu", "Relu", 0, 2);
    built_node(built, "/m/layer.1/fc/MatMul", "MatMul", 1, 4);
    built_node(built, "/m/layer.1/Relu", "Relu", 1, 2);
    built_tensor(built, "a", 100, 0, 2, (uint32_t[]){1, 3});
    built_tensor(built, "b", 10, 1, 1, (uint32_t[]){2});
    built_tensor(built, "c", 30, 2, 1, (uint32_t[]){3});
    built_tensor(built, "d", 10, 3, 1, (uint32_t[]){4});
    return built;
}

Test(index_graph, shows_modules_and_what_flows_between_them)
{
    struct built_index *built = two_layers();
    expect(built_finish(built), OF_STAGE(SP_INDEX_NONE),
           "{\"path\":\"\",\"parents\":[{\"path\":\"\",\"label\":\"model\"}],\"depth\":1,\"stage\":null,\"group\":"
           "\"module\",\"node_count\":5,"
           "\"truncated\":false,\"boxes\":["
           "{\"id\":0,\"path\":\"\",\"label\":\"embed/Gather\",\"kind\":\"node\",\"nodes\":1,\"seconds\":1,"
           "\"collective_seconds\":0.5,\"flops\":1000000,\"weights_bytes\":100,"
           "\"stages\":[{\"stage\":0,\"nodes\":1,\"seconds\":1}],\"operators\":[{\"operator\":\"Gather\",\"nodes\":1}],"
           "\"node\":\"/m/embed/Gather\"},"
           "{\"id\":1,\"path\":\"/m/layer.0\",\"label\":\"layer.0\",\"kind\":\"module\",\"nodes\":2,\"seconds\":6,"
           "\"collective_seconds\":3,\"flops\":6000000,\"weights_bytes\":600,"
           "\"stages\":[{\"stage\":0,\"nodes\":2,\"seconds\":6}],"
           "\"operators\":[{\"operator\":\"MatMul\",\"nodes\":1},{\"operator\":\"Relu\",\"nodes\":1}]},"
           "{\"id\":2,\"path\":\"/m/layer.1\",\"label\":\"layer.1\",\"kind\":\"module\",\"nodes\":2,\"seconds\":6,"
           "\"collective_seconds\":3,\"flops\":6000000,\"weights_bytes\":600,"
           "\"stages\":[{\"stage\":1,\"nodes\":2,\"seconds\":6}],"
           "\"operators\":[{\"operator\":\"MatMul\",\"nodes\":1},{\"operator\":\"Relu\",\"nodes\":1}]}],"
           "\"edges\":["
           "{\"from\":0,\"to\":1,\"tensors\":1,\"bytes\":100,\"crossing_bytes\":0,\"tensor\":\"a\"},"
           "{\"from\":0,\"to\":2,\"tensors\":1,\"bytes\":100,\"crossing_bytes\":100,\"tensor\":\"a\"},"
           "{\"from\":1,\"to\":2,\"tensors\":1,\"bytes\":30,\"crossing_bytes\":30,\"tensor\":\"c\"}]}");
    built_release(built);
}

static void expect_labels(const struct sp_index *index, struct sp_index_graph_query query, const char *expected)
{
    json_t *graph = ask(index, query), *box, *parent;
    struct sp_buf text;
    size_t i;
    sp_buf_init(&text, 1 << 16);
    json_array_foreach(json_object_get(graph, "parents"), i, parent)
        sp_buf_printf(&text, "%s=%s > ", text_of(parent, "path"), text_of(parent, "label"));
    json_array_foreach(json_object_get(graph, "boxes"), i, box) sp_buf_printf(
        &text, "%s%s %s %s", i > 0 ? ", " : "", text_of(box, "kind"), text_of(box, "label"), text_of(box, "path"));
    sp_buf_append(&text, "", 1);
    cr_assert_str_eq(text.data, expected);
    sp_buf_release(&text);
    json_decref(graph);
}

Test(index_graph, goes_down)
{
    struct built_index *built = two_layers();
    const struct sp_index *index = built_finish(built);
    expect_labels(index, ALL(.path = "/m/layer.1"), "=model > /m=m > node fc/MatMul , node Relu , outside before ");
    expect_labels(index, ALL(.path = "/m/layer.0"),
                  "=model > /m=m > node fc/MatMul , node Relu , outside before , outside after ");
    expect_labels(
        index, ALL(.depth = 2),
        "=model > node embed/Gather , node layer.0/fc/MatMul , node layer.0/Relu , node layer.1/fc/MatMul , node "
        "layer.1/Relu ");
    expect_labels(index, ALL(.depth = 2, .limit = 4),
                  "=model > node embed/Gather , module layer.0 /m/layer.0, module layer.1 /m/layer.1");
    expect_labels(index, ALL(.limit = 2), "=model > run embed … layer.0 0-1@/m, module layer.1 /m/layer.1");
    expect_labels(index, ALL(.path = "0-1@/m"),
                  "=model > /m=m > node embed/Gather , module layer.0 /m/layer.0, outside after ");
    expect_labels(index, OF_STAGE(1), "=model > /m=m > node fc/MatMul , node Relu , outside before ");
    expect_labels(index, ALL(.by_stage = true), "=model > stage stage 0 , stage stage 1 ");
    built_release(built);
}

Test(index_graph, shows_where_it_is)
{
    struct built_index *built = built_new();
    static const char *const names[] = {"a.b.c.x", "a.b.c.y", "a.b.d", "a.q.x", "a.q.y"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        built_node(built, names[i], "Add", 0, 1);
    const struct sp_index *index = built_finish(built);
    expect_labels(index, ALL(.path = ""), "=model > module b a.b, module q a.q");
    expect_labels(index, ALL(.path = "a"), "=model > module b a.b, module q a.q");
    expect_labels(index, ALL(.path = "a.b"), "=model > a=a > module c a.b.c, node d ");
    expect_labels(index, ALL(.path = "a.b.c"), "=model > a=a > a.b=b > node x , node y ");
    expect_labels(index, ALL(.path = "1-1@a.b.c"), "=model > a=a > a.b=b > a.b.c=c > node y ");
    built_release(built);
}

Test(index_graph, refuses_what_is_not_there)
{
    static const struct {
        struct sp_index_graph_query query;
        const char *code;
    } cases[] = {
        {{.path = "/m/x", .depth = 1, .stage = SP_INDEX_NONE, .limit = 2}, "NO_SUCH_MODULE"},
        {{.path = "/m/embed/Gather", .depth = 1, .stage = SP_INDEX_NONE, .limit = 2}, "NO_SUCH_MODULE"},
        {{.path = "3-4@/m", .depth = 1, .stage = SP_INDEX_NONE, .limit = 2}, "NO_SUCH_MODULE"},
        {{.path = "2-1@/m", .depth = 1, .stage = SP_INDEX_NONE, .limit = 2}, "NO_SUCH_MODULE"},
        {{.path = "0-99999999999@/m", .depth = 1, .stage = SP_INDEX_NONE, .limit = 2}, "NO_SUCH_MODULE"},
        {{.path = "", .depth = 1, .stage = 2, .limit = 2}, "NO_SUCH_STAGE"},
    };
    struct built_index *built = two_layers();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sp_error err = {0};
        struct sp_json json;
        struct sp_buf text;
        sp_buf_init(&text, 1 << 16);
        sp_json_init_buf(&json, false, &text);
        cr_expect_eq(sp_index_graph(built_finish(built), &cases[i].query, &json, &err), SP_ERR_REQUEST);
        cr_expect_str_eq(err.code, cases[i].code);
        cr_expect_eq(json.used + text.size, 0);
        sp_buf_release(&text);
    }
    built_release(built);
}

/* ---- slow and obvious: what is below a path --------------------------------------------------------------------- */

struct below {
    bool is_in[MOST];
};

static char cut_of(const struct sp_index *index)
{
    for (uint32_t n = 0; n < index->count.nodes; n++) {
        if (strchr(name_of(index, n), '/') != NULL)
            return '/';
    }
    return '.';
}

/* Of nodes below a module of `size` bytes: those in the children `first` to `last`. */
static void keep_children(const struct sp_index *index, struct below *below, size_t size, unsigned first, unsigned last)
{
    unsigned child_of[MOST], count = 0;
    for (uint32_t n = 0; n < index->count.nodes; n++) {
        const char *rest = name_of(index, n) + size;
        const char *end = below->is_in[n] && *rest != '\0' ? strchr(rest + 1, cut_of(index)) : NULL;
        child_of[n] = count;
        for (uint32_t m = 0; m < n && end != NULL; m++) {
            if (below->is_in[m] && strncmp(name_of(index, m) + size, rest, (size_t)(end - rest) + 1) == 0)
                child_of[n] = child_of[m];
        }
        count += below->is_in[n] && child_of[n] == count;
    }
    for (uint32_t n = 0; n < index->count.nodes; n++)
        below->is_in[n] = below->is_in[n] && child_of[n] >= first && child_of[n] <= last;
}

/* "/a/b", "3-17@/a/b"; an '@' before a module that looks like a run, or begins with one. */
static struct below find_below(const struct sp_index *index, const char *path)
{
    struct below below;
    const char *at = strchr(path, '@');
    const bool is_run = at != NULL && at > path && strspn(path, "0123456789-") == (size_t)(at - path);
    const char *module = is_run ? at + 1 : path[0] == '@' ? path + 1 : path;
    const size_t size = strlen(module);
    for (uint32_t n = 0; n < index->count.nodes; n++)
        below.is_in[n] =
            size == 0 || (strncmp(name_of(index, n), module, size) == 0 && name_of(index, n)[size] == cut_of(index));
    if (is_run) {
        char *end;
        const unsigned long first = strtoul(path, &end, 10), last = strtoul(end + 1, NULL, 10);
        keep_children(index, &below, size, (unsigned)first, (unsigned)last);
    }
    return below;
}

/* ---- slow and obvious: an answer -------------------------------------------------------------------------------- */

struct answer {
    const struct sp_index *index;
    struct sp_index_graph_query query;
    json_t *graph, *boxes;
    bool in[SP_INDEX_MOST_BOXES + 2][MOST]; /* by box: its nodes */
    uint32_t count;
};

/* Boxes with paths say by themselves what they hold; nodes are what remains of their names, in order. */
static void find_nodes(struct answer *answer)
{
    const struct sp_index *index = answer->index;
    const struct below all = find_below(index, answer->query.path);
    bool is_taken[MOST];
    json_t *box;
    size_t b;
    for (uint32_t n = 0; n < index->count.nodes; n++)
        is_taken[n] =
            !all.is_in[n] || (answer->query.stage != SP_INDEX_NONE && index->nodes[n].stage != answer->query.stage);
    json_array_foreach(answer->boxes, b, box)
    {
        const char *path = text_of(box, "path");
        const struct below below = find_below(index, path);
        if (!answer->query.by_stage)
            cr_assert_eq(path[0] != '\0', is_kind(box, "module") || is_kind(box, "run"));
        for (uint32_t n = 0; n < index->count.nodes; n++) {
            bool is_in = path[0] != '\0' && below.is_in[n];
            for (size_t s = 0; answer->query.by_stage && s < json_array_size(json_object_get(box, "stages")); s++)
                is_in = is_in ||
                        index->nodes[n].stage == number(json_array_get(json_object_get(box, "stages"), s), "stage");
            answer->in[b][n] = is_in && !is_taken[n] && !is_kind(box, "outside");
            is_taken[n] = is_taken[n] || answer->in[b][n];
        }
    }
    json_array_foreach(answer->boxes, b, box)
    {
        bool is_found = !is_kind(box, "node");
        for (uint32_t n = 0; n < index->count.nodes && !is_found; n++) {
            is_found = !is_taken[n] && strcmp(name_of(index, n), text_of(box, "node")) == 0;
            answer->in[b][n] = is_taken[n] = is_taken[n] || is_found;
            answer->in[b][n] = is_found;
        }
        cr_assert(is_found);
    }
    for (uint32_t n = 0; n < index->count.nodes; n++)
        cr_assert(is_taken[n], "node %u is in no box", n);
}

/* What is outside: not in any box, but next to one. */
static void find_outside(struct answer *answer)
{
    bool is_inside[MOST] = {false};
    uint32_t outside = 0;
    for (uint32_t n = 0; n < answer->index->count.nodes; n++) {
        for (uint32_t b = 0; b < answer->count; b++)
            is_inside[n] = is_inside[n] || answer->in[b][n];
    }
    for (uint32_t b = 0; b < answer->count; b++) {
        const json_t *box = json_array_get(answer->boxes, b);
        if (!is_kind(box, "outside"))
            continue;
        outside++;
        const bool is_before = strcmp(text_of(box, "label"), "before") == 0;
        cr_assert(is_before || strcmp(text_of(box, "label"), "after") == 0);
        for (uint32_t t = 0; t < answer->index->count.tensors; t++) {
            const struct sp_index_tensor *tensor = &answer->index->tensors[t];
            for (uint32_t i = 0; tensor->producer != SP_INDEX_NONE && i < tensor->consumer_count; i++) {
                const uint32_t p = tensor->producer, c = answer->index->consumers[tensor->first_consumer + i];
                if (is_before && !is_inside[p] && is_inside[c])
                    answer->in[b][p] = true;
                if (!is_before && is_inside[p] && !is_inside[c])
                    answer->in[b][c] = true;
            }
        }
    }
    cr_assert_leq(answer->count - outside, answer->query.limit);
    if (answer->count > outside)
        cr_assert(!is_kind(json_array_get(answer->boxes, answer->count - outside - 1), "outside"));
}

static void expect_near(double a, double b, const char *what)
{
    cr_assert(fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)), "%s: %.17g, not %.17g", what, a, b);
}

static void expect_stages(const struct answer *answer, uint32_t b, const json_t *stages)
{
    uint32_t listed = 0;
    for (uint32_t s = 0; s < answer->index->count.stages; s++) {
        uint32_t nodes = 0;
        double seconds = 0;
        for (uint32_t n = 0; n < answer->index->count.nodes; n++) {
            if (answer->in[b][n] && answer->index->nodes[n].stage == s) {
                nodes++;
                seconds += answer->index->nodes[n].seconds;
            }
        }
        if (nodes == 0)
            continue;
        const json_t *entry = json_array_get(stages, listed++);
        cr_assert_eq(number(entry, "stage"), s);
        cr_assert_eq(number(entry, "nodes"), nodes);
        expect_near(number(entry, "seconds"), seconds, "seconds of a stage");
    }
    cr_assert_eq(listed, json_array_size(stages));
}

static uint32_t count_operator(const struct answer *answer, uint32_t b, const char *operator_type)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < answer->index->count.nodes; n++)
        count += answer->in[b][n] &&
                 strcmp(sp_index_text(answer->index, answer->index->nodes[n].operator_type), operator_type) == 0;
    return count;
}

/* The largest ones: no other has more nodes than the least of those listed. */
static void expect_operators(const struct answer *answer, uint32_t b, const json_t *operators)
{
    const size_t count = json_array_size(operators);
    cr_assert(count >= 1 && count <= 5);
    const double least = number(json_array_get(operators, count - 1), "nodes");
    for (size_t i = 0; i < count; i++) {
        const json_t *entry = json_array_get(operators, i);
        cr_assert_eq(number(entry, "nodes"), count_operator(answer, b, text_of(entry, "operator")));
        for (size_t k = 0; k < i; k++)
            cr_assert_str_neq(text_of(entry, "operator"), text_of(json_array_get(operators, k), "operator"));
        if (i > 0)
            cr_assert_leq(number(entry, "nodes"), number(json_array_get(operators, i - 1), "nodes"));
    }
    for (uint32_t n = 0; n < answer->index->count.nodes; n++) {
        const char *operator_type = sp_index_text(answer->index, answer->index->nodes[n].operator_type);
        bool is_listed = !answer->in[b][n];
        for (size_t i = 0; i < count; i++)
            is_listed = is_listed || strcmp(text_of(json_array_get(operators, i), "operator"), operator_type) == 0;
        cr_assert(is_listed || (count == 5 && count_operator(answer, b, operator_type) <= least));
    }
}

static void expect_sums(const struct answer *answer)
{
    double shown = 0;
    for (uint32_t b = 0; b < answer->count; b++) {
        const json_t *box = json_array_get(answer->boxes, b);
        struct sp_index_node sum = {0};
        uint32_t nodes = 0;
        for (uint32_t n = 0; n < answer->index->count.nodes; n++) {
            const struct sp_index_node *node = &answer->index->nodes[n];
            if (!answer->in[b][n])
                continue;
            nodes++;
            sum.seconds += node->seconds;
            sum.collective_seconds += node->collective_seconds;
            sum.flops += node->flops;
            sum.weights_bytes += node->weights_bytes;
        }
        cr_assert_eq(number(box, "id"), b);
        if (is_kind(box, "outside")) { /* what is there is not told */
            cr_assert(nodes > 0 && number(box, "nodes") == 0 && number(box, "seconds") == 0);
            continue;
        }
        cr_assert_gt(nodes, 0);
        cr_assert_eq(number(box, "nodes"), nodes);
        expect_near(number(box, "seconds"), sum.seconds, "seconds");
        expect_near(number(box, "collective_seconds"), sum.collective_seconds, "collective seconds");
        expect_near(number(box, "flops"), sum.flops, "flops");
        expect_near(number(box, "weights_bytes"), sum.weights_bytes, "weights");
        expect_stages(answer, b, json_object_get(box, "stages"));
        expect_operators(answer, b, json_object_get(box, "operators"));
        shown += nodes;
    }
    cr_assert_eq(number(answer->graph, "node_count"), shown);
}

/* What flows from one box into another. Nothing does from outside to outside. */
static struct sp_index_tensor flow(const struct answer *answer, uint32_t from, uint32_t to, double *ret_crossing)
{
    struct sp_index_tensor sum = {0}; /* consumer_count: tensors; bytes_per_device: of the largest */
    *ret_crossing = 0;
    const bool are_outside = is_kind(json_array_get(answer->boxes, from), "outside") &&
                             is_kind(json_array_get(answer->boxes, to), "outside");
    for (uint32_t t = 0; t < answer->index->count.tensors && from != to && !are_outside; t++) {
        const struct sp_index_tensor *tensor = &answer->index->tensors[t];
        bool flows = false, crosses = false;
        if (tensor->producer == SP_INDEX_NONE || !answer->in[from][tensor->producer])
            continue;
        for (uint32_t i = 0; i < tensor->consumer_count; i++) {
            const uint32_t c = answer->index->consumers[tensor->first_consumer + i];
            flows = flows || answer->in[to][c];
            crosses = crosses || (answer->in[to][c] &&
                                  answer->index->nodes[c].stage != answer->index->nodes[tensor->producer].stage);
        }
        sum.consumer_count += flows;
        sum.bytes += flows ? tensor->bytes : 0;
        *ret_crossing += crosses ? tensor->bytes : 0;
        if (flows && (sum.consumer_count == 1 || tensor->bytes > sum.bytes_per_device)) {
            sum.bytes_per_device = tensor->bytes;
            sum.name = tensor->name;
        }
    }
    return sum;
}

/* The box before feeds boxes only, and the box after is only fed, though a node may be in both. */
static bool may_flow(const struct answer *answer, uint32_t from, uint32_t to)
{
    return strcmp(text_of(json_array_get(answer->boxes, from), "label"), "after") != 0 &&
           strcmp(text_of(json_array_get(answer->boxes, to), "label"), "before") != 0;
}

static void expect_edges(const struct answer *answer)
{
    const json_t *edges = json_object_get(answer->graph, "edges");
    const size_t count = json_array_size(edges), most = 4096;
    double least = INFINITY;
    uint32_t listed = 0;
    for (size_t i = 0; i < count; i++)
        least = fmin(least, number(json_array_get(edges, i), "bytes"));
    for (uint32_t from = 0; from < answer->count; from++) {
        for (uint32_t to = 0; to < answer->count; to++) {
            double crossing;
            const struct sp_index_tensor sum = flow(answer, from, to, &crossing);
            if (sum.consumer_count == 0 || !may_flow(answer, from, to))
                continue;
            const json_t *edge = json_array_get(edges, listed);
            if (edge == NULL || number(edge, "from") != from || number(edge, "to") != to) {
                cr_assert(count == most && sum.bytes <= least &&
                          json_is_true(json_object_get(answer->graph, "truncated")));
                continue;
            }
            listed++;
            cr_assert_eq(number(edge, "tensors"), sum.consumer_count);
            expect_near(number(edge, "bytes"), sum.bytes, "bytes");
            expect_near(number(edge, "crossing_bytes"), crossing, "crossing bytes");
            cr_assert_str_eq(text_of(edge, "tensor"), sp_index_text(answer->index, sum.name));
        }
    }
    cr_assert_eq(listed, count);
}

static bool is_left_out(const struct answer *answer, uint32_t n)
{
    return answer->query.stage != SP_INDEX_NONE && answer->index->nodes[n].stage != answer->query.stage;
}

/* Each parent is there, and holds what is shown of the next one. */
static void expect_parents(const struct answer *answer)
{
    const json_t *parents = json_object_get(answer->graph, "parents");
    for (size_t i = 0; i < json_array_size(parents); i++) {
        const json_t *next = json_array_get(parents, i + 1);
        const char *path = text_of(json_array_get(parents, i), "path");
        const struct below outer = find_below(answer->index, path),
                           inner = find_below(answer->index, next != NULL ? text_of(next, "path") : answer->query.path);
        for (uint32_t n = 0; n < answer->index->count.nodes; n++)
            cr_assert(outer.is_in[n] || !inner.is_in[n] || is_left_out(answer, n));
        cr_assert_str_eq(i == 0 ? path : "", "");
    }
}

/* Said where, and only where, the limit joined boxes or took levels away, or edges are left out. */
static void expect_truncated(const struct answer *answer)
{
    const bool is_told = json_is_true(json_object_get(answer->graph, "truncated"));
    bool is_limited = json_array_size(json_object_get(answer->graph, "edges")) == SP_INDEX_MOST_EDGES ||
                      (!answer->query.by_stage && number(answer->graph, "depth") < answer->query.depth);
    json_t *box;
    size_t b;
    json_array_foreach(answer->boxes, b, box) is_limited =
        is_limited || is_kind(box, "run") ||
        (is_kind(box, "stage") && json_array_size(json_object_get(box, "stages")) > 1);
    cr_assert_eq(is_told, is_limited);
}

static struct answer *check(const struct sp_index *index, struct sp_index_graph_query query)
{
    struct answer *answer = calloc(1, sizeof *answer);
    cr_assert_not_null(answer);
    answer->index = index;
    answer->query = query;
    answer->graph = ask(index, query);
    answer->boxes = json_object_get(answer->graph, "boxes");
    answer->count = (uint32_t)json_array_size(answer->boxes);
    cr_assert_str_eq(text_of(answer->graph, "path"), query.path);
    find_nodes(answer);
    find_outside(answer);
    expect_sums(answer);
    expect_edges(answer);
    expect_parents(answer);
    expect_truncated(answer);
    return answer;
}

static void release(struct answer *answer)
{
    json_decref(answer->graph);
    free(answer);
}

/* ---- random indexes ---------------------------------------------------------------------------------------------- */

static void expect_rows(const struct sp_index *index, const char *path)
{
    const struct sp_index_rows_query query = {
        .path = path, .stage = SP_INDEX_NONE, .index = SP_INDEX_NONE, .split = -1, .limit = SP_INDEX_MOST_ROWS};
    const struct below below = find_below(index, path);
    struct sp_index_rows rows;
    struct sp_error err = {0};
    uint32_t next = 0;
    cr_assert_eq(sp_index_rows(index, &query, &rows, &err), SP_OK, "%s", err.message);
    for (uint32_t n = 0; n < index->count.nodes; n++) {
        if (below.is_in[n])
            cr_assert(next < rows.count && rows.rows[next++] == n, "%s: %s", path, name_of(index, n));
    }
    cr_assert_eq(next, rows.total);
}

/* Goes down from the whole model, each time as deep and with the limit that chance says. */
static void walk(const struct sp_index *index, uint64_t *seed)
{
    struct {
        char path[160];
    } *paths = calloc((size_t)4 * MOST, sizeof *paths);
    uint32_t reached[MOST] = {0}, count = 1;
    cr_assert_not_null(paths);
    for (uint32_t i = 0; i < count; i++) {
        struct answer *answer = check(index, ALL(.path = paths[i].path, .depth = 1 + pick(seed, SP_INDEX_MOST_LEVELS),
                                                 .limit = 2 + pick(seed, pick(seed, 2) == 0 ? 4 : 40)));
        expect_rows(index, paths[i].path);
        for (uint32_t b = 0; b < answer->count; b++) {
            const json_t *box = json_array_get(answer->boxes, b);
            for (uint32_t n = 0; n < index->count.nodes; n++)
                reached[n] += is_kind(box, "node") && answer->in[b][n];
            if (is_kind(box, "module") || is_kind(box, "run")) {
                cr_assert_gt(number(box, "nodes"), 1);
                cr_assert_lt(count, 4 * MOST);
                (void)snprintf(paths[count++].path, sizeof paths->path, "%s", text_of(box, "path"));
            }
        }
        release(answer);
    }
    for (uint32_t n = 0; n < index->count.nodes; n++)
        cr_assert_eq(reached[n], 1, "node %u: %u times", n, reached[n]);
    free(paths);
}

Test(index_graph, reaches_every_node_once)
{
    for (uint64_t round = 1; round <= 150; round++) {
        uint64_t seed = round;
        struct built_index *built = built_random(&seed);
        walk(built_finish(built), &seed);
        built_release(built);
    }
}

Test(index_graph, filters_and_groups_by_stage)
{
    for (uint64_t round = 1; round <= 150; round++) {
        uint64_t seed = round;
        struct built_index *built = built_random(&seed);
        const struct sp_index *index = built_finish(built);
        for (uint32_t s = 0; s < index->count.stages; s++) {
            release(check(index, OF_STAGE(s, .depth = 1 + s % SP_INDEX_MOST_LEVELS, .limit = 2 + pick(&seed, 30))));
            release(check(index, OF_STAGE(s, .by_stage = true, .limit = 2)));
        }
        struct answer *answer = check(index, ALL(.by_stage = true));
        for (uint32_t b = 0; b < answer->count; b++)
            cr_assert(is_kind(json_array_get(answer->boxes, b), "stage"));
        release(answer);
        release(check(index, ALL(.by_stage = true, .limit = 2)));
        built_release(built);
    }
}

/* ---- limits ----------------------------------------------------------------------------------------------------- */

/* What a naive count finds of the tensors that leave their box, once for each other box that uses them. */
static double leaving(const struct sp_index *index, const uint32_t *box_of, uint32_t boxes)
{
    double bytes = 0;
    for (uint32_t t = 0; t < index->count.tensors; t++) {
        const struct sp_index_tensor *tensor = &index->tensors[t];
        for (uint32_t b = 0; b < boxes; b++) {
            bool flows = false;
            for (uint32_t i = 0; i < tensor->consumer_count; i++)
                flows = flows || box_of[index->consumers[tensor->first_consumer + i]] == b;
            bytes += flows && box_of[tensor->producer] != b ? tensor->bytes : 0;
        }
    }
    return bytes;
}

Test(index_graph, joins_stages_beyond_the_limit_and_says_so)
{
    enum { STAGES = 40 };
    struct built_index *built = built_stages(STAGES);
    const struct sp_index *index = built_finish(built);
    for (uint32_t limit = 2; limit <= STAGES + 1; limit++) {
        struct answer *answer = check(index, ALL(.by_stage = true, .limit = limit));
        const uint32_t boxes = limit < STAGES ? limit : STAGES;
        uint32_t box_of[MOST];
        double bytes = 0;
        json_t *edge;
        size_t e;
        cr_assert_eq(answer->count, boxes);
        cr_assert_eq(json_is_true(json_object_get(answer->graph, "truncated")), limit < STAGES);
        for (uint32_t n = 0; n < STAGES; n++) {
            for (uint32_t b = 0; b < boxes; b++)
                box_of[n] = answer->in[b][n] ? b : box_of[n];
        }
        json_array_foreach(json_object_get(answer->graph, "edges"), e, edge) bytes += number(edge, "bytes");
        cr_assert_eq(bytes, leaving(index, box_of, boxes));
        release(answer);
        /* Modules are joined in the same way: each stage is one here. */
        answer = check(index, ALL(.limit = limit));
        cr_assert_eq(answer->count, boxes);
        cr_assert_eq(json_is_true(json_object_get(answer->graph, "truncated")), limit < STAGES);
        bytes = 0;
        json_array_foreach(json_object_get(answer->graph, "edges"), e, edge) bytes += number(edge, "bytes");
        cr_assert_eq(bytes, leaving(index, box_of, boxes));
        release(answer);
    }
    built_release(built);
}

/* One module with more stages than are listed of a box. */
Test(index_graph, lists_the_first_stages_of_a_box_and_says_so)
{
    for (uint32_t stages = SP_INDEX_MOST_BOX_STAGES; stages <= SP_INDEX_MOST_BOX_STAGES + 1; stages++) {
        struct built_index *built = built_new();
        for (uint32_t s = 0; s < stages; s++)
            built_node(built, s % 2 == 0 ? "/m/a/x" : "/m/a/y", "Add", s, 1);
        built_node(built, "/m/z", "Add", 0, 1);
        json_t *graph = ask(built_finish(built), ALL()), *box = json_array_get(json_object_get(graph, "boxes"), 0),
               *listed = json_object_get(box, "stages");
        cr_assert_eq(json_array_size(listed), SP_INDEX_MOST_BOX_STAGES);
        cr_assert_eq(number(json_array_get(listed, SP_INDEX_MOST_BOX_STAGES - 1), "stage"),
                     SP_INDEX_MOST_BOX_STAGES - 1);
        cr_assert_eq(number(box, "nodes"), stages);
        cr_assert_eq(json_is_true(json_object_get(graph, "truncated")), stages > SP_INDEX_MOST_BOX_STAGES);
        json_decref(graph);
        built_release(built);
    }
}

/* ---- hostile names ---------------------------------------------------------------------------------------------- */

/* Goes down and counts nodes; at most `most` answers are needed. */
static void count_down(const struct sp_index *index, uint32_t limit, uint32_t most)
{
    json_t *paths = json_array(), *box;
    uint64_t reached = 0;
    json_array_append_new(paths, json_string(""));
    for (size_t i = 0, b; i < json_array_size(paths); i++) {
        json_t *graph =
            ask(index, ALL(.path = json_string_value(json_array_get(paths, i)), .limit = limit, .depth = 2));
        json_array_foreach(json_object_get(graph, "boxes"), b, box)
        {
            reached += is_kind(box, "node");
            if (text_of(box, "path")[0] != '\0')
                json_array_append(paths, json_object_get(box, "path"));
        }
        json_decref(graph);
    }
    cr_assert_eq(reached, index->count.nodes);
    cr_assert_leq(json_array_size(paths), most);
    json_decref(paths);
}

Test(index_graph, reaches_nodes_of_equal_and_empty_names)
{
    static const char *const names[] = {"", "/", "///", "a", "[0-1]", "/[0-1]", "\xe2\x82\xac/</script>"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct built_index *built = built_new();
        for (uint32_t n = 0; n < 1000; n++)
            built_node(built, names[i], "Add", n % 3, 1);
        count_down(built_finish(built), 7, 1000);
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
            built_node(built, names[k], "Add", 0, 1);
        count_down(built_finish(built), 40, 1000);
        built_release(built);
    }
}

Test(index_graph, takes_names_of_any_length_and_depth)
{
    struct built_index *built = built_new();
    static const char *const ends[] = {"x", "y", "x/y", "x/z", "\xe2\x82\xac", "/", ""};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char *deep = built_name('/', 100000, ends[i]), *large = built_name('n', 1000000, ends[i]);
        built_node(built, deep, "Add", 0, 1);
        built_node(built, large, "Relu", 0, 1);
        free(deep);
        free(large);
    }
    count_down(built_finish(built), 5, 100);
    built_release(built);
}

/* Each level tells one node apart, so an answer is needed for each. */
Test(index_graph, goes_down_a_stair)
{
    struct built_index *built = built_new();
    for (size_t i = 0; i < 300; i++) {
        char *name = built_name('/', i, "x");
        built_node(built, name, "Add", 0, 1);
        free(name);
    }
    count_down(built_finish(built), 9, 300);
    built_release(built);
}

Test(index_graph, has_an_answer_without_nodes)
{
    struct built_index *built = built_new();
    json_t *graph = ask(built_finish(built), ALL(.depth = 4));
    cr_assert_eq(json_array_size(json_object_get(graph, "boxes")), 0);
    json_decref(graph);
    graph = ask(built_finish(built), ALL(.by_stage = true));
    cr_assert_eq(json_array_size(json_object_get(graph, "boxes")), 0);
    json_decref(graph);
    built_release(built);
}

/* More pairs of boxes than edges are listed. */
Test(index_graph, lists_the_largest_edges)
{
    enum { NODES = 80, TENSORS = NODES * (NODES - 1), LISTED = 4096 };
    struct built_index *built = built_new();
    char name[32];
    for (uint32_t n = 0; n < NODES; n++) {
        (void)snprintf(name, sizeof name, "n%u", n);
        built_node(built, name, "Add", 0, 1);
    }
    for (uint32_t t = 0; t < TENSORS; t++) {
        const uint32_t to = (t % NODES + 1 + t / NODES) % NODES;
        (void)snprintf(name, sizeof name, "t%u", t);
        built_tensor(built, name, t, t % NODES, 1, &to);
    }
    json_t *graph = ask(built_finish(built), ALL(.limit = NODES)), *edges = json_object_get(graph, "edges"), *edge;
    size_t e;
    cr_assert(json_is_true(json_object_get(graph, "truncated")));
    cr_assert_eq(json_array_size(edges), LISTED);
    json_array_foreach(edges, e, edge) cr_assert_geq(number(edge, "bytes"), TENSORS - LISTED);
    json_decref(graph);
    built_release(built);
}
