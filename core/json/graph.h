#pragma once
/*
 * graph - the tensor graph of json.h, on its way to a ModelProto; private to core/json.
 */
#include "graph/dtype.h"
#include "ops/signature.h"
#include "json/emit.h"
#include "json/tree.h"

/* Field numbers of onnx.proto, where this writes them by itself. */
enum {
    MODEL_IR_VERSION = 1,
    MODEL_DOC = 6,
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    MODEL_METADATA = 14,
    MODEL_CONFIGURATION = 26,
    OPSET_DOMAIN = 1,
    OPSET_VERSION = 2,
    ENTRY_KEY = 1,
    ENTRY_VALUE = 2,
    GRAPH_NODE = 1,
    GRAPH_NAME = 2,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    GRAPH_VALUE = 13,
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_NAME = 3,
    NODE_OP = 4,
    NODE_ATTRIBUTE = 5,
    NODE_DOMAIN = 7,
    NODE_OVERLOAD = 8,
    NODE_METADATA = 9,
    NODE_CONFIGURATION = 10,
    CONFIGURATION_ID = 1,
    CONFIGURATION_SPEC = 2,
    CONFIGURATION_STAGE = 3,
    VALUE_NAME = 1,
    VALUE_TYPE = 2,
    TYPE_TENSOR = 1,
    TENSOR_TYPE_ELEM = 1,
    TENSOR_TYPE_SHAPE = 2,
    SHAPE_DIM = 1,
    DIM_VALUE = 1,
    DIM_PARAM = 2,
    TENSOR_DIMS = 1,
    TENSOR_TYPE = 2,
    TENSOR_STRING_DATA = 6,
    TENSOR_NAME = 8,
    TENSOR_RAW_DATA = 9,
    TENSOR_EXTERNAL_DATA = 13,
    TENSOR_LOCATION = 14,
    TENSOR_IS_EXTERNAL = 1,
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_TYPE = 20
};

struct description {
    const struct tree *tree;
    struct emit emit;
    uint32_t opset;               /* the member's value: a number or an object */
    int64_t weight_bytes;         /* of the weights so far: where the next begins in the file that is not there */
    int64_t ir_version;           /* the least that what was read needs */
    const struct sp_model *typed; /* see description_model() */
    uint32_t untyped;
};

/* The least IR version that has something: 8 is the floor. */
static inline void description_needs(struct description *description, int64_t ir_version)
{
    if (ir_version > description->ir_version)
        description->ir_version = ir_version;
}

/*
 * Writes the ModelProto that the document describes. `typed` is the model that an earlier call wrote, with its shapes
 * inferred, or NULL; outputs of which only the name is said get their types from it. *ret_untyped counts those that
 * have none.
 */
enum sp_status description_model(const struct tree *tree, const struct sp_model *typed, struct sp_buf *buf,
                                 uint32_t *ret_untyped);

/*
 * The values of an object's members in the order of `names`, TREE_NONE for absent ones. Other members, and one that is
 * there twice, are errors; `what` begins the sentence ("A node").
 */
enum sp_status description_members(const struct tree *tree, uint32_t object, const char *what, const char *const *names,
                                   uint32_t count, uint32_t *ret_slots);

/* An array, or an error that says what of. */
enum sp_status description_array(const struct tree *tree, uint32_t value, const char *what);

/* A text as a field; an absent one is none. */
enum sp_status description_text(struct description *description, uint32_t field, uint32_t value, const char *what);

/* {KEY: TEXT} as StringStringEntryProtos. */
enum sp_status description_metadata(struct description *description, uint32_t field, uint32_t value);

/* ---- graph_value.c: VALUEs and tensors -------------------------------------------------------------------------- */

/* A ValueInfoProto. */
enum sp_status description_value(struct description *description, uint32_t field, uint32_t value);
/* The same, or only a name; `inferred` is what is known of it, or NULL. */
enum sp_status description_output(struct description *description, uint32_t value, const struct sp_value *inferred);
/* A TensorProto with a name, which may be a weight without data. */
enum sp_status description_initializer(struct description *description, uint32_t field, uint32_t value);
/* A TensorProto of an attribute. */
enum sp_status description_tensor(struct description *description, uint32_t field, uint32_t value);

/* ---- graph_attribute.c ------------------------------------------------------------------------------------------ */

/* Graphs of an attribute, which the caller writes: it ends the AttributeProto behind them. */
struct description_graphs {
    uint32_t field;   /* AttributeProto.g or graphs; 0: the attribute has none and is written */
    uint32_t at, end; /* the first, and what follows the last */
};

/* An AttributeProto, but for its graphs. `signature` may be NULL. */
enum sp_status description_attribute(struct description *description, uint32_t name,
                                     const struct sp_signature *signature, struct description_graphs *ret_graphs);
