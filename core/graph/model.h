#pragma once
/*
 * model - the in-memory form of one ONNX model: everything that planning needs and no weight bytes.
 *
 * A reader (onnx/reader.h) fills it; shape inference (ops/shapes/shapes.h) adds types and known values; everything
 * later reads it. It is one object graph in one arena.
 *
 *   model -> graph -> nodes  -> inputs/outputs -> values
 *                            -> attributes     -> tensors, subgraphs
 *         -> functions -> body graph
 *
 * Glossary
 *  value     a named tensor (or sequence, optional, map) of one graph: a graph input, an initializer or a node output
 *  outer     a value of an enclosing graph that a subgraph uses by name
 *  tensor    constant data in the file: dtype, dims and where its bytes lie; the bytes are not copied
 *  data      the elements of a value, where they are known and few: shapes, axes, sizes, scales
 *  span      a byte range of the model file
 *  folded    a node whose outputs depend on constants (and known shapes) alone: a runtime computes it once, at load
 *
 * Invariants after a successful read
 *  - Names are interned per model, those of nodes excepted: the same name is the same pointer. No name holds a NUL or
 *    invalid UTF-8.
 *  - nodes[] of a graph is in topological order. It is the file's order, unless is_sorted says that some graph's was not.
 *  - Every value has one definition. node->inputs[i] is NULL for an omitted optional input, outputs alike.
 *  - value->id is the index in its graph's values[]; node->index the one in nodes[].
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/intern.h"
#include "graph/dim.h"
#include "graph/dtype.h"

struct sp_model;
struct sp_graph;
struct sp_node;
struct sp_value;
struct sp_metadata_list;
struct sp_op; /* ops/table/op.h */
struct sp_given_types;
struct sp_given_states;
struct sp_given_loads;
struct sp_load;

struct sp_span {
    uint64_t offset, size; /* bytes from the start of the model file */
};

/* ---- types ---------------------------------------------------------------------------------------------------- */

struct sp_shape {
    bool has_rank;
    uint32_t rank;
    struct sp_dim *dims; /* `rank` of them */
};

enum sp_type_kind {
    SP_TYPE_NONE = 0, /* nothing known */
    SP_TYPE_TENSOR,
    SP_TYPE_SPARSE_TENSOR,
    SP_TYPE_SEQUENCE,
    SP_TYPE_OPTIONAL,
    SP_TYPE_MAP,
    SP_TYPE_OPAQUE
};

struct sp_type {
    enum sp_type_kind kind;
    enum sp_dtype dtype;        /* element type of a (sparse) tensor; key type of a map */
    struct sp_shape shape;      /* of a (sparse) tensor */
    const struct sp_type *elem; /* of a sequence, optional or map (its values); else NULL */
};

/* ---- constant data -------------------------------------------------------------------------------------------- */

enum sp_storage {
    SP_STORAGE_NONE = 0, /* no bytes: zero elements, or absent */
    SP_STORAGE_RAW,      /* little-endian bytes at `bytes` (TensorProto.raw_data) */
    SP_STORAGE_TYPED,    /* the repeated field `field` of the TensorProto at `span` (float_data, int64_data, ...) */
    SP_STORAGE_EXTERNAL, /* in another file, named by `external` */
    SP_STORAGE_VALUE,    /* an attribute's own value (Constant's value_float, value_ints, ...): see sp_attribute */
};

struct sp_external {
    const char *location; /* a key, never opened as a path */
    int64_t offset;       /* 0 when not given */
    int64_t length;       /* -1 when not given */
    const char *checksum; /* or NULL */
};

struct sp_tensor {
    const char *name; /* interned, "" when it has none */
    enum sp_dtype dtype;
    uint32_t rank;
    int64_t *dims;
    int64_t elements; /* product of dims, checked */
    int64_t bytes;    /* as a runtime holds it, sp_dtype_bytes(dtype, elements) */
    enum sp_storage storage;
    uint32_t field;      /* TYPED: the field number */
    struct sp_span span; /* the TensorProto's payload */
    struct sp_span raw;  /* RAW: where raw_data lies */
    struct sp_external external;
};

struct sp_sparse_tensor {
    struct sp_tensor *values, *indices;
    uint32_t rank;
    int64_t *dims;
};

/* Known elements of a value, row-major. Exactly one of the arrays is set: `ints` for integers and bool (they may be
   symbolic or unknown one by one), `reals` for floating point. At most SP_MAX_DATA_ELEMENTS. */
struct sp_data {
    uint32_t count;
    struct sp_dim *ints;
    double *reals;
};

/* ---- values, attributes, nodes -------------------------------------------------------------------------------- */

enum sp_value_kind { SP_VALUE_INPUT, SP_VALUE_INITIALIZER, SP_VALUE_NODE_OUTPUT };

struct sp_use {
    struct sp_node *node; /* the node of this graph that uses the value, or whose subgraph does */
    uint32_t input;       /* its position, or UINT32_MAX when a subgraph of the node uses it by name */
};

/* What each use of a value looks at comes first: in a large model the rest is seldom in a cache. */
struct sp_value {
    struct sp_graph *graph;
    uint32_t id;
    enum sp_value_kind kind;
    uint32_t use_count;
    bool is_graph_output;
    bool is_constant;     /* depends on constants and known shapes alone; set by shape inference */
    bool is_absent;       /* a body's input that the call leaves out: uses of it are omitted inputs */
    bool is_listed_again; /* several initializers have its name, and one of them counts */
    struct sp_type type;  /* what is known now; shape inference fills it */
    /* Of a tensor that runtimes have in quantised form (ops/shapes/shapes.h); set by shape inference. */
    enum sp_dtype quantized_as; /* the type of its quantised elements, or UNDEFINED */
    double stored_bits;         /* that a runtime has of each element, scales included; 0: as its type says */
    struct sp_data *data;       /* known elements, or NULL */
    struct sp_use *uses;
    const char *name;
    struct sp_node *producer; /* NODE_OUTPUT, else NULL */
    uint32_t producer_output; /* which output of it */
    uint32_t captured_by;     /* while reading: 1 + the last node of the graph whose subgraphs were seen to use it */
    struct sp_tensor *tensor; /* INITIALIZER (also of an input that has a default), else NULL */
    struct sp_sparse_tensor *sparse;
    struct sp_type declared;                 /* what the file says (input, output, value_info); kind NONE when silent */
    const struct sp_metadata_list *metadata; /* what is kept of it, or NULL */
};

/* AttributeProto.AttributeType; numbers are the wire's. */
enum sp_attr_type {
    SP_ATTR_UNDEFINED = 0,
    SP_ATTR_FLOAT = 1,
    SP_ATTR_INT = 2,
    SP_ATTR_STRING = 3,
    SP_ATTR_TENSOR = 4,
    SP_ATTR_GRAPH = 5,
    SP_ATTR_FLOATS = 6,
    SP_ATTR_INTS = 7,
    SP_ATTR_STRINGS = 8,
    SP_ATTR_TENSORS = 9,
    SP_ATTR_GRAPHS = 10,
    SP_ATTR_SPARSE_TENSOR = 11,
    SP_ATTR_SPARSE_TENSORS = 12,
    SP_ATTR_TYPE_PROTO = 13,
    SP_ATTR_TYPE_PROTOS = 14
};

struct sp_string {
    const char *bytes; /* NUL-terminated for convenience, may hold NULs: bytes fields are not names */
    size_t size;
};

struct sp_attribute {
    const char *name;
    enum sp_attr_type type;
    bool is_untyped; /* the file states no type: `type` is that of the value it has */
    const char *ref; /* ref_attr_name in a function body, else NULL */
    double f;
    int64_t i;
    struct sp_string s;
    uint32_t count; /* items of the repeated kinds, and 1 for TENSOR, GRAPH, SPARSE_TENSOR, TYPE_PROTO */
    double *floats;
    int64_t *ints;
    struct sp_string *strings;
    struct sp_tensor **tensors;
    struct sp_sparse_tensor **sparse_tensors;
    struct sp_graph **graphs;
    struct sp_type *types;
};

/* The multi-device annotation of a node for one configuration, as written in the file (proposal 0006). */
struct sp_sharded_dim_part {
    bool has_value;
    int64_t dim_value;     /* when has_value */
    const char *dim_param; /* or NULL */
    bool has_shards;
    int64_t num_shards;
};

struct sp_sharded_axis {
    bool has_axis;
    int64_t axis; /* 0 when absent */
    uint32_t part_count;
    struct sp_sharded_dim_part *parts;
};

struct sp_device_group {
    int64_t key;
    uint32_t count;
    int64_t *devices;
};

struct sp_sharding_spec {
    const char *tensor_name;
    uint32_t device_count, group_count, axis_count;
    int64_t *devices;
    struct sp_device_group *groups;
    struct sp_sharded_axis *axes;
};

struct sp_node_configuration {
    const char *configuration_id; /* "" when absent */
    bool has_stage;
    int32_t stage;
    uint32_t spec_count;
    struct sp_sharding_spec *specs;
};

struct sp_node {
    const char *name; /* "" when it has none */
    const char *op_type;
    const char *domain; /* "" for ai.onnx */
    const char *overload;
    uint32_t index;
    struct sp_graph *graph;
    uint32_t input_count, output_count, attribute_count, configuration_count;
    struct sp_value **inputs; /* NULL entries: omitted */
    struct sp_value **outputs;
    struct sp_attribute *attributes;
    struct sp_node_configuration *configurations;
    struct sp_span span;                     /* the NodeProto's payload in the file */
    const struct sp_metadata_list *metadata; /* what is kept of it, or NULL */

    /* Filled by ops/shapes/shapes.h. */
    uint32_t ordinal;           /* 1 + how many nodes of its operator stand before it: names new symbols */
    const struct sp_op *op;     /* its rule, or NULL when there is none */
    int64_t version;            /* opset version of its domain in force here */
    const struct sp_load *load; /* of its experts (cost/kernels/expert_loads.h), or NULL */
    struct sp_graph *body;      /* an expanded function call: the body, with this call's shapes; else NULL */
    bool is_folded;
};

struct sp_opset {
    const char *domain; /* "" for ai.onnx */
    int64_t version;
};

struct sp_graph {
    const char *name;
    struct sp_model *model;
    uint32_t opset_count; /* the operator sets in force: the model's, or the function's in an expanded body */
    const struct sp_opset *opsets;
    struct sp_graph *parent; /* the enclosing graph of a subgraph; NULL for the main graph and function bodies */
    struct sp_node *owner;   /* the node that holds this subgraph, or calls this expanded body; else NULL */
    uint32_t depth;          /* 0 for the main graph and function bodies */
    uint32_t node_count, value_count, input_count, output_count, initializer_count;
    struct sp_node *nodes;
    struct sp_value **values;  /* all values defined here, id order */
    struct sp_value **inputs;  /* declared inputs, in order; those with a default are initializers too */
    struct sp_value **outputs; /* declared outputs, in order; an entry may belong to an enclosing graph */
    struct sp_value **initializers;
    struct sp_span span; /* the GraphProto's payload */
};

struct sp_metadata {
    const char *key, *value;
};

/* Metadata of a node or value: only the keys that something here reads ("mhlo.sharding", "sharding", "layer_ann"). */
#define SP_KEPT_METADATA 4
struct sp_metadata_list {
    uint32_t count;
    struct sp_metadata items[SP_KEPT_METADATA];
};

struct sp_function {
    const char *name, *domain, *overload;
    uint32_t input_count, output_count, attribute_count, opset_count, default_count;
    const char **inputs, **outputs, **attributes; /* `attributes` have no default */
    struct sp_attribute *defaults;                /* attribute_proto: attributes with a default */
    struct sp_opset *opsets;
    struct sp_span span; /* the FunctionProto's payload; bodies are read again for each call (onnx/reader.h) */
};

struct sp_device_configuration {
    const char *name; /* "" when absent */
    bool has_num_devices;
    int32_t num_devices;
    uint32_t device_count;
    const char **devices;
};

/* What a model is made of, counted while reading; subgraphs and function bodies included. */
struct sp_model_counts {
    uint64_t nodes, values, tensors, attributes;
};

struct sp_private_operators;

struct sp_model {
    struct sp_arena *arena;
    struct sp_intern *names;
    uint64_t hash_seed; /* for tables of names: the reader's option */
    struct sp_dims *dims;
    const unsigned char *bytes; /* the mapped file; valid as long as the caller keeps it mapped */
    uint64_t size;
    bool has_ir_version;
    bool has_kept_metadata; /* some node or value has metadata that is kept */
    bool has_bound_sizes;   /* dimensions of the file are bound: what is made of the model is for these sizes */
    bool lists_again;       /* some value is_listed_again */
    bool is_sorted;         /* nodes stand in no topological order in the file, and were sorted: spans do not ascend */
    int64_t ir_version, model_version;
    const char *producer_name, *producer_version, *domain, *doc; /* doc is cut at SP_MAX_NAME_BYTES */
    uint32_t opset_count, metadata_count, function_count, configuration_count, training_count;
    struct sp_opset *opsets;
    struct sp_metadata *metadata;
    struct sp_function *functions;
    struct sp_device_configuration *configurations;
    struct sp_graph *graph;
    struct sp_model_counts counts;
    struct sp_given_types *given;                 /* shapes that the caller states (graph/given.h), or NULL */
    const struct sp_private_operators *operators; /* that the caller describes (ops/table/private.h), or NULL */
    const struct sp_given_states *given_states;   /* that the caller names (graph/states.h), or NULL */
    const struct sp_given_loads *loads; /* of experts, that the caller expects (cost/kernels/expert_loads.h), or NULL */
    uint64_t data_elements;             /* that shape inference has carried (SP_MAX_MODEL_DATA) */
};

/* The attribute of this name, or NULL. */
const struct sp_attribute *sp_node_attribute(const struct sp_node *node, const char *name);

/* Attribute values with their defaults; a wrong attribute type gives the default. */
int64_t sp_node_int(const struct sp_node *node, const char *name, int64_t otherwise);
double sp_node_float(const struct sp_node *node, const char *name, double otherwise);
const char *sp_node_string(const struct sp_node *node, const char *name, const char *otherwise);
/* `*ret_count` integers, or NULL (and 0) when the attribute is absent or no INTS. */
const int64_t *sp_node_ints(const struct sp_node *node, const char *name, uint32_t *ret_count);

#define SP_FIRST_IR_WITH_OPSETS 3 /* older files import no operator sets */

/* The version that this graph imports of a domain ("" and "ai.onnx" are one), or 0. */
int64_t sp_graph_import(const struct sp_graph *graph, const char *domain);

/* The version in force in this graph: the one that it imports; else, as runtimes take it, the newest of ONNX's own
   and 1 of any other. Files from before operator sets had versions have version 1. */
int64_t sp_graph_opset(const struct sp_graph *graph, const char *domain);

/* The value of this name in the graph itself (not outer graphs), or NULL. Names are compared as text. */
struct sp_value *sp_graph_value(const struct sp_graph *graph, const char *name);

/* Whether the node is ONNX's own operator of this name. */
static inline bool sp_node_is(const struct sp_node *node, const char *op_type)
{
    return node->domain[0] == '\0' && strcmp(node->op_type, op_type) == 0;
}

/* An input whose producer stands behind the node in the file, which the standard forbids, or NULL. */
const struct sp_value *sp_node_early_input(const struct sp_node *node);

/* How messages call a node: "'name' (Conv)" or "node 12 (Conv)"; written into `text`, which it returns. */
const char *sp_node_label(const struct sp_node *node, char *text, size_t size);

/* Elements of a shape, or -1 when it is not fully known or overflows. */
int64_t sp_shape_elements(const struct sp_shape *shape);

/* The extents of all axes, for at most SP_MAX_RANK; false where the rank or an extent is not known. */
bool sp_shape_extents(const struct sp_shape *shape, int64_t *ret_extents);

/* The same by what open extents are taken to be (sp_dim_estimate()); -1 where there is nothing to go by. */
int64_t sp_shape_estimate(const struct sp_shape *shape);

/* Bytes of a tensor value by sp_shape_estimate(), or -1. */
int64_t sp_value_bytes(const struct sp_value *value);

/* As sp_value_bytes(), of the form that a runtime reads and writes: that of a constant is what it keeps in memory. */
int64_t sp_value_stored_bytes(const struct sp_value *value);

/* True for a tensor with a dtype and a rank whose dims are all known or symbolic. */
bool sp_type_is_full(const struct sp_type *type);
