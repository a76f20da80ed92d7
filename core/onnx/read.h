#pragma once
/*
 * read - what the parts of the ONNX reader share; private to core/onnx.
 *
 * A graph is read in one walk over its nodes with an explicit stack of frames, one per open graph:
 *
 *   frame 0: main graph   ... node 7 (If) <- here
 *   frame 1:   then_branch  ... node 2 (Loop) <- here
 *   frame 2:     body         ... node 0 <- being read
 *
 * Opening a frame defines the graph's inputs and initializers, wherever they stand on the wire. Then each node's inputs
 * are resolved, its subgraphs are read in frames of their own, and its outputs are defined: the scope table holds at
 * any moment exactly the names that are visible at that node, so one lookup finds undefined names and wrong orders.
 * Closing a frame reads outputs and value_info, lays out values and uses, and takes the graph's names out of scope.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/cancel.h"
#include "base/limits.h"
#include "graph/model.h"
#include "onnx/reader.h"
#include "onnx/wire.h"

/* What a name meant before a graph defined it. */
struct sp_scope_undo {
    void **scope;
    void *value;
};

/* A subgraph's use of an outer value. `node` is of value->graph. */
struct sp_capture {
    struct sp_value *value;
    struct sp_node *node;
};

/* A call of a model-local function; `caller` is a function's index or SP_MAIN_CALLER. */
struct sp_call_edge {
    uint32_t caller, callee;
};
#define SP_MAIN_CALLER UINT32_MAX

/* An input, output, attribute or device configuration of a node: found when the node is counted, read afterwards. */
struct sp_node_field {
    uint32_t number;
    struct sp_span payload;
    uint64_t hash; /* of a name */
};

struct sp_frame {
    struct sp_graph *graph;
    struct sp_wire cursor;        /* the next node */
    const struct sp_span *sorted; /* the nodes' payloads in topological order; NULL: as the cursor meets them */
    struct sp_node *node;         /* the node whose subgraphs are being read, or NULL */
    uint32_t attribute, item;
    uint32_t next_node;
    uint32_t undo_start, capture_start;
    struct sp_wire inputs, initializers, declarations; /* around the fields of these kinds */
    uint32_t fields_start;                             /* of the node's operands and attributes in the reader's list */
};

struct sp_reader {
    struct sp_model *model;
    const unsigned char *bytes;
    struct sp_arena *arena;   /* where graphs go: the model's, or a throw-away one while function bodies are checked */
    struct sp_arena *scratch; /* leaf records, rewound after each */
    struct sp_intern *local;  /* scopes of an expansion; NULL: the model's own names carry them */
    const struct sp_watch *watch;
    struct sp_error *err;

    /* The message that is open as a graph: GraphProto, or FunctionProto for a body. */
    const struct sp_function *function; /* the function whose body is being read, or NULL */
    struct sp_node *call;               /* the call that is being expanded, or NULL */
    uint32_t caller;

    struct sp_frame frames[SP_MAX_NESTING + 1];
    uint32_t depth; /* open frames */

    struct sp_scope_undo *undo;
    struct sp_capture *captures;
    struct sp_call_edge *edges;
    struct sp_node_field *fields; /* of the nodes that are open, innermost last */
    uint32_t *stamps;             /* by name id: the last node or list that used the name, to find duplicates */
    uint32_t undo_count, undo_capacity, capture_count, capture_capacity, edge_count, edge_capacity, stamp_capacity,
        stamp, field_count, field_capacity;

    uint64_t empty_records, unknown_fields;
    bool counting; /* whether what is read adds to model->counts (expansions do not) */
    uint64_t ticks;
};

/* The newest frame. */
static inline struct sp_frame *sp_reader_top(struct sp_reader *r)
{
    return &r->frames[r->depth - 1];
}

/* Whether the newest frame is a function's body (not a graph inside one). */
static inline bool sp_reader_in_body(const struct sp_reader *r)
{
    return r->function != NULL && r->depth == 1;
}

/* Field numbers of GraphProto, and of FunctionProto where a body differs. */
enum {
    SP_GRAPH_NODE = 1,
    SP_GRAPH_NAME = 2,
    SP_GRAPH_INITIALIZER = 5,
    SP_GRAPH_DOC_STRING = 10,
    SP_GRAPH_INPUT = 11,
    SP_GRAPH_OUTPUT = 12,
    SP_GRAPH_VALUE_INFO = 13,
    SP_GRAPH_QUANTIZATION = 14,
    SP_GRAPH_SPARSE_INITIALIZER = 15,
    SP_GRAPH_METADATA_PROPS = 16,

    SP_NODE_INPUT = 1,
    SP_NODE_OUTPUT = 2,

    SP_FUNCTION_INPUT = 4,
    SP_FUNCTION_OUTPUT = 5,
    SP_FUNCTION_NODE = 7,
    SP_FUNCTION_VALUE_INFO = 12
};

/* A name with the place of what it means at the node that is being read: a value, or NULL. */
struct sp_name {
    const char *text;
    void **scope; /* NULL for the empty name */
};

/* ---- reader.c: shared services --------------------------------------------------------------------------------- */

void sp_reader_init(struct sp_reader *r, struct sp_model *model, struct sp_error *err);
void sp_reader_release(struct sp_reader *r);

/* Counts a field that the schema does not know. */
enum sp_status sp_reader_unknown(struct sp_reader *r, const struct sp_wire_field *field);

/* Checks that the field is a message, and counts it when it is empty. */
enum sp_status sp_reader_message(struct sp_reader *r, const struct sp_wire_field *field);

/* As sp_reader_message() for a singular message; *seen says whether it was there before. */
enum sp_status sp_reader_single(struct sp_reader *r, const struct sp_wire_field *field, bool *seen);

/* Checks a text: wire type, length, UTF-8, no NUL. */
enum sp_status sp_reader_check_text(struct sp_reader *r, const struct sp_wire_field *field);

/* Text that is checked and interned. */
enum sp_status sp_reader_text(struct sp_reader *r, const struct sp_wire_field *field, const char **ret_text);

/* The same, with what sp_intern_hash() says of it in the model's names. */
enum sp_status sp_reader_hashed(struct sp_reader *r, const struct sp_wire_field *field, uint64_t hash,
                                const char **ret_text);

/* A text that nothing is found by: copied, not interned. */
enum sp_status sp_reader_copy(struct sp_reader *r, const struct sp_wire_field *field, const char **ret_text);

/* As sp_reader_text() for the name of a value, with its scope. */
enum sp_status sp_reader_name(struct sp_reader *r, const struct sp_wire_field *field, struct sp_name *ret_name);

/* The scope of a name whose text is already interned in the model. */
enum sp_status sp_reader_scope(struct sp_reader *r, struct sp_name *name);

/* A domain: "ai.onnx" becomes "". */
enum sp_status sp_reader_domain(struct sp_reader *r, const struct sp_wire_field *field, const char **ret_text);

/* The last value wins, as protobuf says. */
enum sp_status sp_reader_int(struct sp_reader *r, const struct sp_wire_field *field, int64_t *ret_value);

/* Appends the items of one occurrence of a repeated int64 to values[*count..capacity). */
enum sp_status sp_reader_ints(struct sp_reader *r, const struct sp_wire_field *field, int64_t *values, uint32_t *count);

/* Adds `more` to *count; SP_ERR_LIMIT with this limit's name when the sum passes it. */
enum sp_status sp_reader_count(struct sp_reader *r, uint64_t *count, uint64_t more, const char *limit,
                               uint64_t limit_value, const char *what);

/* As sp_reader_count() for one more of the few things that one node or function has. */
enum sp_status sp_reader_count_one(struct sp_reader *r, uint32_t *count, uint32_t limit_value, const char *limit,
                                   const char *what);

/* Adds axes to *rank; SP_ERR_LIMIT above SP_MAX_RANK. */
enum sp_status sp_reader_rank(struct sp_reader *r, uint32_t *rank, uint64_t more);

/* Starts a new list for duplicate checks, and marks a name in it; false when the name is there already. */
void sp_reader_new_list(struct sp_reader *r);
enum sp_status sp_reader_mark(struct sp_reader *r, const char *text, bool *ret_new);

enum sp_status sp_reader_tick(struct sp_reader *r, uint64_t at);

/* SP_ERR_MODEL at the node that is being read (or at the graph). */
__attribute__((format(printf, 3, 4))) enum sp_status sp_reader_fail(struct sp_reader *r, const char *code,
                                                                    const char *format, ...);

/* Sets the error's `where` to the path of the node that is being read, and returns `status`. */
enum sp_status sp_reader_where(struct sp_reader *r, enum sp_status status);

/* ---- the parts ------------------------------------------------------------------------------------------------- */

/* read_model.c: fields of ModelProto but for the graph; *ret_graph is where the graph lies. */
enum sp_status sp_read_model(struct sp_reader *r, struct sp_span *ret_graph);

/* read_graph.c: the graph in root->span, its nodes and everything below. `root` has parent and owner set. With
   r->function set, the span is a FunctionProto. */
enum sp_status sp_read_graph(struct sp_reader *r, struct sp_graph *root);

/* read_order.c: the payloads of the newest frame's nodes in topological order, a node
   right before what needs it; for as long as the reader is there, NULL where the file has such an order. */
enum sp_status sp_read_order(struct sp_reader *r, const struct sp_span **ret_order);

/* read_values.c: the values of the graph in the newest frame. Sources are inputs and initializers (a body's formal
   inputs), read when it is opened; declarations are outputs and value_info, read when all nodes are known. */
enum sp_status sp_read_sources(struct sp_reader *r);
enum sp_status sp_read_formals(struct sp_reader *r, struct sp_graph *graph);
enum sp_status sp_read_declarations(struct sp_reader *r);
/* Makes the value of a node's output and brings its name into scope. */
enum sp_status sp_define_output(struct sp_reader *r, struct sp_node *node, struct sp_name name, uint32_t position);

/* read_scope.c */
enum sp_status sp_scope_define(struct sp_reader *r, struct sp_name name, struct sp_value *value);
static inline struct sp_value *sp_scope_find(struct sp_name name) /* NULL when undefined */
{
    return *name.scope;
}
enum sp_status sp_scope_use(struct sp_reader *r, struct sp_graph *graph, struct sp_value *value);
void sp_scope_leave(struct sp_reader *r, const struct sp_frame *frame);
/* Forgets what the names of the main graph mean, before function bodies are read by the same names. */
void sp_scope_clear(const struct sp_model *model);
enum sp_status sp_scope_uses(struct sp_reader *r, const struct sp_frame *frame);

/* read_node.c: everything of a node but its outputs and the inside of its subgraphs; then its outputs. */
enum sp_status sp_read_node(struct sp_reader *r, struct sp_node *node);
enum sp_status sp_read_node_outputs(struct sp_reader *r, struct sp_node *node);

/* read_attribute.c; `node` may be NULL (a function's default), in which case graphs are refused. */
enum sp_status sp_read_attribute(struct sp_reader *r, struct sp_span span, struct sp_node *node,
                                 struct sp_attribute *attribute);

/* read_tensor.c */
enum sp_status sp_read_tensor(struct sp_reader *r, struct sp_span span, struct sp_tensor **ret_tensor);
enum sp_status sp_read_sparse(struct sp_reader *r, struct sp_span span, struct sp_sparse_tensor **ret_sparse);

/* read_type.c, read_opset.c, read_device.c: records that go through protobuf-c (leaf.h). */
enum sp_status sp_read_type(struct sp_reader *r, struct sp_span span, struct sp_type *ret_type);
enum sp_status sp_read_opset(struct sp_reader *r, struct sp_span span, struct sp_opset *ret_opset);
enum sp_status sp_read_device_configuration(struct sp_reader *r, struct sp_span span,
                                            struct sp_device_configuration *ret_configuration);
enum sp_status sp_read_node_configuration(struct sp_reader *r, struct sp_span span,
                                          struct sp_node_configuration *ret_configuration);

/* read_metadata.c: an entry of a node's or value's metadata, kept when something reads its key; *list NULL at first */
enum sp_status sp_read_metadata_entry(struct sp_reader *r, const struct sp_wire_field *outer,
                                      struct sp_metadata_list **list);

/* read_function.c */
enum sp_status sp_read_function(struct sp_reader *r, struct sp_span span, struct sp_function *function);
/* Sorts the functions, refuses duplicates. */
enum sp_status sp_sort_functions(struct sp_reader *r);
/* Reads every body once, and checks cycles, depth and the size of the expanded model. */
enum sp_status sp_check_functions(struct sp_reader *r);

/* expand.c: replaces attribute references by the call's attributes or the defaults; what has neither goes. */
enum sp_status sp_resolve_references(struct sp_reader *r, struct sp_node *node);

/* function_calls.c: own_nodes[i] is the number of nodes in function i's body. */
enum sp_status sp_check_calls(const struct sp_model *model, const struct sp_call_edge *edges, uint32_t edge_count,
                              const uint64_t *own_nodes, uint64_t main_nodes, struct sp_error *err);

/* identify.c: what the bytes look like ("a PNG image"), or NULL. */
const char *sp_identify(const unsigned char *bytes, uint64_t size);
