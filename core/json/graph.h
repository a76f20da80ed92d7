#pragma once
/*
 * graph - the tensor graph of json.h, on its way to a ModelProto; private to core/json.
 */
#include "graph/dtype.h"
#include "ops/table/signature.h"
#include "json/emit.h"
#include "json/tree.h"

/* Field numbers of onnx.proto, where this writes them by itself. */
enum {
    SP_FIELD_MODEL_IR_VERSION = 1,
    SP_FIELD_MODEL_DOC = 6,
    SP_FIELD_MODEL_GRAPH = 7,
    SP_FIELD_MODEL_OPSET = 8,
    SP_FIELD_MODEL_METADATA = 14,
    SP_FIELD_MODEL_CONFIGURATION = 26,
    SP_FIELD_OPSET_DOMAIN = 1,
    SP_FIELD_OPSET_VERSION = 2,
    SP_FIELD_ENTRY_KEY = 1,
    SP_FIELD_ENTRY_VALUE = 2,
    SP_FIELD_GRAPH_NODE = 1,
    SP_FIELD_GRAPH_NAME = 2,
    SP_FIELD_GRAPH_INITIALIZER = 5,
    SP_FIELD_GRAPH_INPUT = 11,
    SP_FIELD_GRAPH_OUTPUT = 12,
    SP_FIELD_GRAPH_VALUE = 13,
    SP_FIELD_NODE_INPUT = 1,
    SP_FIELD_NODE_OUTPUT = 2,
    SP_FIELD_NODE_NAME = 3,
    SP_FIELD_NODE_OP = 4,
    SP_FIELD_NODE_ATTRIBUTE = 5,
    SP_FIELD_NODE_DOMAIN = 7,
    SP_FIELD_NODE_OVERLOAD = 8,
    SP_FIELD_NODE_METADATA = 9,
    SP_FIELD_NODE_CONFIGURATION = 10,
    SP_FIELD_CONFIGURATION_ID = 1,
    SP_FIELD_CONFIGURATION_SPEC = 2,
    SP_FIELD_CONFIGURATION_STAGE = 3,
    SP_FIELD_VALUE_NAME = 1,
    SP_FIELD_VALUE_TYPE = 2,
    SP_FIELD_TYPE_TENSOR = 1,
    SP_FIELD_TENSOR_TYPE_ELEM = 1,
    SP_FIELD_TENSOR_TYPE_SHAPE = 2,
    SP_FIELD_SHAPE_DIM = 1,
    SP_FIELD_DIM_VALUE = 1,
    SP_FIELD_DIM_PARAM = 2,
    SP_FIELD_TENSOR_DIMS = 1,
    SP_FIELD_TENSOR_TYPE = 2,
    SP_FIELD_TENSOR_STRING_DATA = 6,
    SP_FIELD_TENSOR_NAME = 8,
    SP_FIELD_TENSOR_RAW_DATA = 9,
    SP_FIELD_TENSOR_EXTERNAL_DATA = 13,
    SP_FIELD_TENSOR_LOCATION = 14,
    SP_FIELD_TENSOR_IS_EXTERNAL = 1,
    SP_FIELD_ATTRIBUTE_NAME = 1,
    SP_FIELD_ATTRIBUTE_TYPE = 20
};

struct sp_description {
    const struct sp_tree *tree;
    struct sp_emit emit;
    uint32_t opset;               /* the member's value: a number or an object */
    int64_t weight_bytes;         /* of the weights so far: where the next begins in the file that is not there */
    int64_t ir_version;           /* the least that what was read needs */
    const struct sp_model *typed; /* see sp_description_model() */
    uint32_t untyped;
};

/* The least IR version that has something: 8 is the floor. */
static inline void sp_description_needs(struct sp_description *description, int64_t ir_version)
{
    if (ir_version > description->ir_version)
        description->ir_version = ir_version;
}

/*
 * Writes the ModelProto that the document describes. `typed` is the model that an earlier call wrote, with its shapes
 * inferred, or NULL; outputs of which only the name is said get their types from it. *ret_untyped counts those that
 * have none.
 */
enum sp_status sp_description_model(const struct sp_tree *tree, const struct sp_model *typed, struct sp_buf *buf,
                                    uint32_t *ret_untyped);

/*
 * The values of an object's members in the order of `names`, SP_TREE_NONE for absent ones. Other members, and one that is
 * there twice, are errors; `what` begins the sentence ("A node").
 */
enum sp_status sp_description_members(const struct sp_tree *tree, uint32_t object, const char *what,
                                      const char *const *names, uint32_t count, uint32_t *ret_slots);

/* An array, or an error that says what of. */
enum sp_status sp_description_array(const struct sp_tree *tree, uint32_t value, const char *what);

/* A text as a field; an absent one is none. */
enum sp_status sp_description_text(struct sp_description *description, uint32_t field, uint32_t value,
                                   const char *what);

/* {KEY: TEXT} as StringStringEntryProtos. */
/* Rules of operators as they stand, where the model's metadata has them (ops/table/private.h). */
enum sp_status sp_description_operators(struct sp_description *description, uint32_t value);
enum sp_status sp_description_metadata(struct sp_description *description, uint32_t field, uint32_t value);

/* ---- graph_value.c: VALUEs and tensors -------------------------------------------------------------------------- */

/* A ValueInfoProto. */
enum sp_status sp_description_value(struct sp_description *description, uint32_t field, uint32_t value);
/* The same, or only a name; `inferred` is what is known of it, or NULL. */
enum sp_status sp_description_output(struct sp_description *description, uint32_t value,
                                     const struct sp_value *inferred);
/* A TensorProto with a name, which may be a weight without data. */
enum sp_status sp_description_initializer(struct sp_description *description, uint32_t field, uint32_t value);
/* A TensorProto of an attribute. */
enum sp_status sp_description_tensor(struct sp_description *description, uint32_t field, uint32_t value);

/* ---- graph_attribute.c ------------------------------------------------------------------------------------------ */

/* Graphs of an attribute, which the caller writes: it ends the AttributeProto behind them. */
struct sp_description_graphs {
    uint32_t field;   /* AttributeProto.g or graphs; 0: the attribute has none and is written */
    uint32_t at, end; /* the first, and what follows the last */
};

/* An AttributeProto, but for its graphs. `signature` may be NULL. */
enum sp_status sp_description_attribute(struct sp_description *description, uint32_t name,
                                        const struct sp_signature *signature, struct sp_description_graphs *ret_graphs);
