#include "json/cost_graph.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/intern.h"
#include "base/limits.h"
#include "json/graph.h"
#include "json/scalar.h"

#define CYCLE_NODES 6 /* of a cycle that are named */

struct reader {
    const struct sp_tree *tree;
    struct sp_arena *arena;
    struct sp_cost_graph *graph;
    /* Names to numbers. Ids are in the order of the nodes; tensors by what tells them apart: see read_tensor(). */
    struct sp_intern *ids, *devices, *groups, *tensors;
    struct sp_arena *scratch; /* of `tensors` */
};

/* ---- members ------------------------------------------------------------------------------------------------------
 */

static enum sp_status check_count(const struct reader *reader, uint32_t array, uint32_t count, int64_t limit,
                                  const char *limit_name, const char *what)
{
    if (count <= limit)
        return SP_OK;
    enum sp_status status = sp_fail_limit(
        reader->tree->err, "GRAPH_TOO_LARGE", limit_name, limit, count,
        "The graph has %" PRIu32 " %s; at most %" PRId64 " can be planned (limit %s).", count, what, limit, limit_name);
    (void)sp_tree_at(reader->tree, array);
    return status;
}

/* A number of seconds or bytes from 0 to `most`. */
static enum sp_status read_figure(const struct reader *reader, uint32_t value, const char *what, double most,
                                  double *ret_figure)
{
    double figure = 0;
    if (sp_tree_kind(reader->tree, value) != SP_TREE_NUMBER)
        return sp_tree_fail(reader->tree, value, "NUMBER_EXPECTED", "A number of %s is expected here, 0 or more.",
                            what);
    enum sp_status status = sp_scalar_double(reader->tree, value, &figure);
    if (status != SP_OK)
        return status;
    if (!(figure >= 0) || figure > most)
        return sp_tree_fail(reader->tree, value, "NUMBER_OUT_OF_RANGE", "A number of %s from 0 to %g is expected here.",
                            what, most);
    *ret_figure = figure + 0.0; /* no negative zero */
    return SP_OK;
}

/* A name as a text without NULs, of 1 to SP_MAX_NAME_BYTES. */
static enum sp_status read_name(const struct reader *reader, uint32_t value, const char *what,
                                struct sp_tree_text *ret_text)
{
    struct sp_tree_text text = {"", 0};
    if (sp_tree_kind(reader->tree, value) != SP_TREE_STRING)
        return sp_tree_fail(reader->tree, value, "TEXT_EXPECTED", "%s is a text.", what);
    enum sp_status status = sp_tree_text(reader->tree, value, &text);
    if (status != SP_OK)
        return status;
    if (text.size == 0 || memchr(text.bytes, '\0', text.size) != NULL)
        return sp_tree_fail(reader->tree, value, "NAME_EXPECTED", "%s is neither empty nor has a NUL in it.", what);
    if (text.size > SP_MAX_NAME_BYTES) {
        status = sp_fail_limit(
            reader->tree->err, "NAME_TOO_LONG", "SP_MAX_NAME_BYTES", SP_MAX_NAME_BYTES, (int64_t)text.size,
            "%s has %zu bytes; at most %d are allowed (limit SP_MAX_NAME_BYTES).", what, text.size, SP_MAX_NAME_BYTES);
        (void)sp_tree_at(reader->tree, value);
        return status;
    }
    *ret_text = text;
    return SP_OK;
}

/* An id or a group: a text, or an integer, which is the same as its digits. */
struct label {
    struct sp_tree_text text; /* of the document, or `digits` */
    char digits[24];
};

static enum sp_status read_label(const struct reader *reader, uint32_t value, const char *what, struct label *label)
{
    if (sp_tree_kind(reader->tree, value) == SP_TREE_NUMBER && sp_scalar_is_integer(reader->tree, value)) {
        int64_t number = 0;
        enum sp_status status = sp_scalar_int(reader->tree, value, INT64_MIN, INT64_MAX, &number);
        if (status != SP_OK)
            return status;
        (void)snprintf(label->digits, sizeof label->digits, "%" PRId64, number);
        label->text = (struct sp_tree_text){label->digits, strlen(label->digits)};
        return SP_OK;
    }
    if (sp_tree_kind(reader->tree, value) != SP_TREE_STRING)
        return sp_tree_fail(reader->tree, value, "LABEL_EXPECTED", "%s is a text or an integer.", what);
    return read_name(reader, value, what, &label->text);
}

/* ---- nodes --------------------------------------------------------------------------------------------------------
 */

static enum sp_status add_time(struct reader *reader, struct sp_cost_node *node, uint32_t name)
{
    struct sp_cost_graph *graph = reader->graph;
    struct sp_tree_text text = {"", 0};
    double seconds = 0;
    enum sp_status status = read_name(reader, name, "The name of a device", &text);
    if (status == SP_OK)
        status = read_figure(reader, name + 1, "seconds", SP_MAX_COST_SECONDS, &seconds);
    if (status != SP_OK)
        return status;
    const uint32_t device = sp_intern_add(reader->devices, text.bytes, text.size);
    if (device == SP_NO_NAME)
        return sp_fail_memory(reader->tree->err);
    if (device >= SP_MAX_DEVICE_GROUPS)
        return check_count(reader, name, SP_MAX_DEVICE_GROUPS + 1, SP_MAX_DEVICE_GROUPS, "SP_MAX_DEVICE_GROUPS",
                           "devices or more with times of their own");
    for (uint32_t i = node->first_time; i < graph->time_count; i++) {
        if (graph->times[i].device == device)
            return sp_tree_fail(reader->tree, name, "MEMBER_TWICE", "The seconds on this device are there twice.");
    }
    graph->times[graph->time_count++] = (struct sp_cost_time){device, seconds};
    node->time_count++;
    return SP_OK;
}

/* A number for all devices, or {DEVICE: number}. */
static enum sp_status read_seconds(struct reader *reader, uint32_t value, struct sp_cost_node *node)
{
    const struct sp_tree *tree = reader->tree;
    enum sp_status status = SP_OK;
    node->first_time = reader->graph->time_count;
    if (sp_tree_kind(tree, value) == SP_TREE_NUMBER)
        return read_figure(reader, value, "seconds", SP_MAX_COST_SECONDS, &node->seconds);
    if (sp_tree_kind(tree, value) != SP_TREE_OBJECT || sp_tree_begin(value) == sp_tree_end(tree, value))
        return sp_tree_fail(tree, value, "SECONDS_EXPECTED",
                            "'seconds' is a number, or an object with the number of each device, as in "
                            "{\"a100-sxm4-80gb\": 0.002}; a device that is left out cannot run the node.");
    node->seconds = SP_COST_UNSAID;
    for (uint32_t name = sp_tree_begin(value); status == SP_OK && name != sp_tree_end(tree, value);
         name = sp_tree_after(tree, name + 1))
        status = add_time(reader, node, name);
    return status;
}

static enum sp_status read_node_names(struct reader *reader, uint32_t id, uint32_t name, uint32_t group,
                                      struct sp_cost_node *node)
{
    struct sp_tree_text text = {"", 0};
    struct label label = {.text = text};
    const uint32_t known = sp_intern_count(reader->ids);
    enum sp_status status = read_label(reader, id, "The id of a node", &label);
    if (status != SP_OK)
        return status;
    const uint32_t number = sp_intern_add(reader->ids, label.text.bytes, label.text.size);
    if (number == SP_NO_NAME)
        return sp_fail_memory(reader->tree->err);
    if (number < known)
        return sp_tree_fail(reader->tree, id, "ID_TWICE", "Node %" PRIu32 " of the list has the id '%.100s' already.",
                            number, sp_intern_name(reader->ids, number));
    node->id = node->name = sp_intern_name(reader->ids, number);
    if (name != SP_TREE_NONE) {
        status = read_name(reader, name, "The name of a node", &text);
        if (status != SP_OK)
            return status;
        node->name = sp_arena_string(reader->arena, text.bytes, text.size);
    }
    node->group = SP_COST_NONE;
    if (group != SP_TREE_NONE && sp_tree_kind(reader->tree, group) != SP_TREE_NULL) {
        status = read_label(reader, group, "A group", &label);
        if (status != SP_OK)
            return status;
        node->group = sp_intern_add(reader->groups, label.text.bytes, label.text.size);
        if (node->group == SP_NO_NAME)
            return sp_fail_memory(reader->tree->err);
    }
    return node->name != NULL ? SP_OK : sp_fail_memory(reader->tree->err);
}

static enum sp_status read_node(struct reader *reader, uint32_t value, struct sp_cost_node *node)
{
    enum { ID, NAME, SECONDS, MEMORY, OUTPUT, GROUP, COUNT };
    static const char *const names[] = {"id", "name", "seconds", "memory_bytes", "output_bytes", "group"};
    uint32_t slots[COUNT];
    enum sp_status status = sp_description_members(reader->tree, value, "A node of a cost graph", names, COUNT, slots);
    if (status != SP_OK)
        return status;
    if (slots[ID] == SP_TREE_NONE || slots[SECONDS] == SP_TREE_NONE)
        return sp_tree_fail(reader->tree, value, "MEMBER_MISSING", "A node of a cost graph needs the member '%s'.",
                            names[slots[ID] == SP_TREE_NONE ? ID : SECONDS]);
    status = read_node_names(reader, slots[ID], slots[NAME], slots[GROUP], node);
    if (status == SP_OK)
        status = read_seconds(reader, slots[SECONDS], node);
    if (status == SP_OK && slots[MEMORY] != SP_TREE_NONE)
        status = read_figure(reader, slots[MEMORY], "bytes", SP_MAX_COST_BYTES, &node->memory_bytes);
    if (status == SP_OK && slots[OUTPUT] != SP_TREE_NONE)
        status = read_figure(reader, slots[OUTPUT], "bytes", SP_MAX_COST_BYTES, &node->output_bytes);
    return status;
}

/* How many times the nodes have at most: so many members the objects among their seconds have. */
static uint32_t count_times(const struct sp_tree *tree, uint32_t nodes)
{
    uint32_t count = 0;
    for (uint32_t i = sp_tree_begin(nodes); i != sp_tree_end(tree, nodes); i = sp_tree_after(tree, i)) {
        for (uint32_t name = i + 1; sp_tree_kind(tree, i) == SP_TREE_OBJECT && name != sp_tree_end(tree, i);
             name = sp_tree_after(tree, name + 1)) {
            if (sp_tree_kind(tree, name + 1) == SP_TREE_OBJECT)
                count += sp_tree_end(tree, name + 1) - sp_tree_begin(name + 1);
        }
    }
    return count;
}

static enum sp_status read_nodes(struct reader *reader, uint32_t nodes)
{
    const struct sp_tree *tree = reader->tree;
    struct sp_cost_graph *graph = reader->graph;
    enum sp_status status = sp_description_array(tree, nodes, "'nodes'");
    if (status != SP_OK)
        return status;
    const uint32_t count = sp_tree_count(tree, nodes);
    status = check_count(reader, nodes, count, SP_MAX_NODES, "SP_MAX_NODES", "nodes");
    if (status != SP_OK)
        return status;
    graph->nodes = SP_NEW_ARRAY(reader->arena, count, struct sp_cost_node);
    graph->times = SP_NEW_ARRAY(reader->arena, count_times(tree, nodes), struct sp_cost_time);
    if (graph->nodes == NULL || graph->times == NULL)
        return sp_fail_memory(tree->err);
    sp_intern_reserve(reader->ids, count);
    for (uint32_t i = sp_tree_begin(nodes); status == SP_OK && i != sp_tree_end(tree, nodes);
         i = sp_tree_after(tree, i))
        status = read_node(reader, i, &graph->nodes[graph->node_count++]);
    return status;
}

/* ---- edges --------------------------------------------------------------------------------------------------------
 */

static enum sp_status read_end(const struct reader *reader, uint32_t value, uint32_t *ret_node)
{
    struct label label = {.text = {"", 0}};
    enum sp_status status = read_label(reader, value, "The id of a node", &label);
    if (status != SP_OK)
        return status;
    *ret_node = sp_intern_find(reader->ids, label.text.bytes, label.text.size);
    return *ret_node != SP_NO_NAME ? SP_OK
                                   : sp_tree_fail(reader->tree, value, "ID_UNKNOWN", "No node has the id '%.*s'.",
                                                  label.text.size < 100 ? (int)label.text.size : 100, label.text.bytes);
}

/*
 * What the edge carries. Edges of one node that name the same tensor carry the same one; without names those do that
 * say the same bytes and seconds.
 */
static enum sp_status read_tensor(struct reader *reader, uint32_t name, const struct sp_cost_tensor *said, uint32_t at,
                                  uint32_t *ret_tensor)
{
    struct sp_cost_graph *graph = reader->graph;
    struct sp_arena_mark mark = sp_arena_mark(reader->tree->arena);
    struct sp_tree_text text = {"", 0};
    enum sp_status status = name != SP_TREE_NONE ? read_name(reader, name, "The name of a tensor", &text) : SP_OK;
    if (status != SP_OK)
        return status;
    char *key = name != SP_TREE_NONE
                    ? sp_arena_printf(reader->tree->arena, "%" PRIu32 ":%.*s", said->from, (int)text.size, text.bytes)
                    : sp_arena_printf(reader->tree->arena, "%" PRIu32 " %a %a", said->from, said->bytes, said->seconds);
    const uint32_t number = key != NULL ? sp_intern_add(reader->tensors, key, strlen(key)) : SP_NO_NAME;
    sp_arena_rewind(reader->tree->arena, mark);
    if (number == SP_NO_NAME)
        return sp_fail_memory(reader->tree->err);
    *ret_tensor = number;
    if (number < graph->tensor_count) {
        const struct sp_cost_tensor *known = &graph->tensors[number];
        if (known->bytes != said->bytes || known->seconds != said->seconds)
            return sp_tree_fail(reader->tree, at, "TENSOR_CONTRADICTS",
                                "Another edge of this node carries the tensor '%.100s' too, but says other bytes or "
                                "seconds.",
                                known->name);
        return SP_OK;
    }
    graph->tensors[number] = *said;
    graph->tensor_count++;
    if (name == SP_TREE_NONE)
        return SP_OK;
    graph->tensors[number].name = sp_arena_string(reader->arena, text.bytes, text.size);
    return graph->tensors[number].name != NULL ? SP_OK : sp_fail_memory(reader->tree->err);
}

static enum sp_status read_edge(struct reader *reader, uint32_t value, struct sp_cost_edge *edge)
{
    enum { FROM, TO, BYTES, SECONDS, TENSOR, COUNT };
    static const char *const names[] = {"from", "to", "bytes", "seconds", "tensor"};
    uint32_t slots[COUNT];
    enum sp_status status = sp_description_members(reader->tree, value, "An edge of a cost graph", names, COUNT, slots);
    if (status != SP_OK)
        return status;
    if (slots[FROM] == SP_TREE_NONE || slots[TO] == SP_TREE_NONE)
        return sp_tree_fail(reader->tree, value, "MEMBER_MISSING", "An edge needs the member '%s'.",
                            names[slots[FROM] == SP_TREE_NONE ? FROM : TO]);
    status = read_end(reader, slots[FROM], &edge->from);
    if (status == SP_OK)
        status = read_end(reader, slots[TO], &edge->to);
    if (status != SP_OK)
        return status;
    if (edge->from == edge->to)
        return sp_tree_fail(reader->tree, value, "SELF_EDGE", "This edge goes from node '%.100s' to itself.",
                            reader->graph->nodes[edge->from].id);
    struct sp_cost_tensor said = {
        .from = edge->from, .bytes = reader->graph->nodes[edge->from].output_bytes, .seconds = SP_COST_UNSAID};
    if (slots[BYTES] != SP_TREE_NONE)
        status = read_figure(reader, slots[BYTES], "bytes", SP_MAX_COST_BYTES, &said.bytes);
    if (status == SP_OK && slots[SECONDS] != SP_TREE_NONE)
        status = read_figure(reader, slots[SECONDS], "seconds", SP_MAX_COST_SECONDS, &said.seconds);
    return status == SP_OK ? read_tensor(reader, slots[TENSOR], &said, value, &edge->tensor) : status;
}

static enum sp_status read_edges(struct reader *reader, uint32_t edges)
{
    const struct sp_tree *tree = reader->tree;
    struct sp_cost_graph *graph = reader->graph;
    if (edges == SP_TREE_NONE)
        return SP_OK;
    enum sp_status status = sp_description_array(tree, edges, "'edges'");
    if (status != SP_OK)
        return status;
    const uint32_t count = sp_tree_count(tree, edges);
    status = check_count(reader, edges, count, SP_MAX_COST_EDGES, "SP_MAX_COST_EDGES", "edges");
    if (status != SP_OK)
        return status;
    graph->edges = SP_NEW_ARRAY(reader->arena, count, struct sp_cost_edge);
    graph->tensors = SP_NEW_ARRAY(reader->arena, count, struct sp_cost_tensor);
    if (graph->edges == NULL || graph->tensors == NULL)
        return sp_fail_memory(tree->err);
    for (uint32_t i = sp_tree_begin(edges); status == SP_OK && i != sp_tree_end(tree, edges);
         i = sp_tree_after(tree, i))
        status = read_edge(reader, i, &graph->edges[graph->edge_count++]);
    return status;
}

/* ---- the whole ----------------------------------------------------------------------------------------------------
 */

/* "a -> b -> c -> a", at the first of its edges. */
static enum sp_status refuse_cycle(const struct reader *reader, uint32_t edges, const uint32_t *cycle, uint32_t length)
{
    const struct sp_cost_graph *graph = reader->graph;
    char text[CYCLE_NODES * 80] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < length && i < CYCLE_NODES && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "'%.60s' -> ",
                                 graph->nodes[graph->edges[cycle[i]].from].id);
    uint32_t at = sp_tree_begin(edges);
    for (uint32_t i = 0; i < cycle[0]; i++)
        at = sp_tree_after(reader->tree, at);
    return sp_tree_fail(
        reader->tree, at, "CYCLE",
        "The graph has a cycle of %" PRIu32 " nodes: %s%s'%.60s'. A node cannot wait for its own result.", length, text,
        length > CYCLE_NODES ? ".. -> " : "", graph->nodes[graph->edges[cycle[0]].from].id);
}

static enum sp_status check_order(const struct reader *reader, uint32_t edges)
{
    struct sp_arena_mark mark = sp_arena_mark(reader->tree->arena);
    uint32_t *order, *cycle = NULL, length = 0;
    enum sp_status status =
        sp_cost_graph_order(reader->tree->arena, reader->graph, &order, &cycle, &length, reader->tree->err);
    if (status == SP_OK && cycle != NULL)
        status = refuse_cycle(reader, edges, cycle, length);
    sp_arena_rewind(reader->tree->arena, mark);
    return status;
}

static bool list_names(struct sp_arena *arena, const struct sp_intern *names, uint32_t *ret_count,
                       const char ***ret_names)
{
    *ret_count = sp_intern_count(names);
    *ret_names = SP_NEW_ARRAY(arena, *ret_count, const char *);
    for (uint32_t i = 0; *ret_names != NULL && i < *ret_count; i++)
        (*ret_names)[i] = sp_intern_name(names, i);
    return *ret_names != NULL;
}

static enum sp_status read_document(struct reader *reader)
{
    enum { NAME, NODES, EDGES, COUNT };
    static const char *const names[] = {"name", "nodes", "edges"};
    const struct sp_tree *tree = reader->tree;
    struct sp_cost_graph *graph = reader->graph;
    struct sp_tree_text name = {"", 0};
    uint32_t slots[COUNT];
    enum sp_status status = sp_description_members(tree, 0, "A cost graph", names, COUNT, slots);
    if (status != SP_OK)
        return status;
    if (slots[NODES] == SP_TREE_NONE)
        return sp_tree_fail(tree, 0, "MEMBER_MISSING", "A cost graph needs the member 'nodes'.");
    if (slots[NAME] != SP_TREE_NONE)
        status = read_name(reader, slots[NAME], "The name of a graph", &name);
    graph->name = sp_arena_string(reader->arena, name.bytes, name.size);
    if (status == SP_OK && graph->name == NULL)
        return sp_fail_memory(tree->err);
    if (status == SP_OK)
        status = read_nodes(reader, slots[NODES]);
    if (status == SP_OK)
        status = read_edges(reader, slots[EDGES]);
    if (status == SP_OK)
        status = check_order(reader, slots[EDGES]);
    if (status == SP_OK && (!list_names(reader->arena, reader->devices, &graph->device_count, &graph->devices) ||
                            !list_names(reader->arena, reader->groups, &graph->group_count, &graph->groups)))
        return sp_fail_memory(tree->err);
    return status;
}

enum sp_status sp_cost_graph_read(const struct sp_tree *tree, struct sp_arena *arena, uint64_t seed,
                                  struct sp_cost_graph *graph)
{
    struct reader reader = {.tree = tree,
                            .arena = arena,
                            .graph = graph,
                            .ids = sp_intern_create(arena, seed),
                            .devices = sp_intern_create(arena, seed),
                            .groups = sp_intern_create(arena, seed),
                            .scratch = sp_arena_create(sp_arena_budget(tree->arena))};
    enum sp_status status = SP_ERR_MEMORY;
    *graph = (struct sp_cost_graph){.name = ""};
    if (reader.scratch != NULL)
        reader.tensors = sp_intern_create(reader.scratch, seed);
    if (reader.ids == NULL || reader.devices == NULL || reader.groups == NULL || reader.tensors == NULL)
        (void)sp_fail_memory(tree->err);
    else
        status = read_document(&reader);
    sp_arena_destroy(reader.scratch);
    return status;
}
