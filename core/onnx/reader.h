#pragma once
/*
 * reader - from the bytes of an ONNX file to a model, without reading weights.
 *
 * The reader walks the protobuf wire format of the whole file, which the caller has mapped. Containers (ModelProto,
 * GraphProto, NodeProto, AttributeProto, TensorProto, FunctionProto) are walked field by field, because they may hold
 * gigabytes or nest deeply; small leaf records (value infos, types, opsets, metadata, device configurations) are handed
 * to the generated protobuf-c code in a scratch arena that is rewound after each. The payload of a large tensor is
 * never touched: only its place is kept.
 *
 * Limits (base/limits.h) on nesting, counts, names, UTF-8 and NUL bytes are checked before memory of that size is
 * asked for; a repeated singular message (a second `graph`) is refused, so reading is linear in the file's structure.
 * No recursion: nesting uses an explicit stack.
 *
 * What the reader checks beyond the wire: names are defined once, nodes form no cycle (those that stand in no
 * topological order are sorted, as runtimes do), uses refer to something, tensor sizes agree with their dims and
 * storage, functions are unique and do not call each other in a cycle, expanded calls stay under SP_MAX_EXPANDED_NODES.
 * Everything semantic is left to check/.
 *
 * What it takes as it comes: fields in any order, packed and unpacked numbers, absent zeros (proto3 writers), negative
 * extents in value infos ("any"), tensors without data (weights taken out), unknown fields. Domain "ai.onnx" is "".
 * Functions are sorted by domain, name and overload. Text attributes and metadata values above SP_MAX_RECORD_BYTES are
 * payloads of other programs: the attribute is left empty, the metadata value is cut.
 *
 * Source: onnx.proto of IR 14 (proto/onnx.proto), docs/IR.md.
 */
#include "base/cancel.h"
#include "base/error.h"
#include "graph/given.h"

struct sp_read_options {
    uint64_t hash_seed;           /* any number; results do not depend on it */
    const struct sp_watch *watch; /* may be NULL */
    uint32_t binding_count;       /* --dim NAME=N: bound before shapes are read */
    const char *const *binding_names;
    const int64_t *binding_values;
    const struct sp_given *given; /* what is known beside the file, or NULL */
};

/*
 * Reads the model in bytes[0..size). Everything is allocated in `arena`; the bytes must stay mapped and unchanged as
 * long as the model is used. `options` may be NULL.
 *
 * Errors: SP_ERR_MALFORMED (not protobuf, truncated, not a model; `where` is "byte N"), SP_ERR_LIMIT, SP_ERR_MODEL
 * (`where` is a node path), SP_ERR_MEMORY, SP_ERR_CANCELLED. An input that is empty or is recognisably something else
 * (PNG, gzip, zip, JSON, HTML, text, pickle, safetensors) is named in the message.
 */
enum sp_status sp_onnx_read(struct sp_arena *arena, const void *bytes, uint64_t size,
                            const struct sp_read_options *options, struct sp_model **ret_model, struct sp_error *err);

/*
 * The body of `function` as a graph of its own for the call `call`: formal inputs and outputs are its inputs and
 * outputs, attribute references are replaced by the call's attributes or the defaults. The result belongs to the
 * model's arena. ret_body->owner is `call`.
 */
enum sp_status sp_onnx_expand(struct sp_model *model, struct sp_node *call, const struct sp_function *function,
                              struct sp_graph **ret_body, struct sp_error *err);

/*
 * The body of `function` as it stands: nothing is called, and attributes keep their references. In `arena`, for a look
 * that drops it again; texts and dimensions belong to the model.
 */
enum sp_status sp_onnx_body(struct sp_model *model, struct sp_arena *arena, const struct sp_function *function,
                            struct sp_graph **ret_body, struct sp_error *err);

/* The model-local function that this node calls (by domain, operator type and overload), or NULL. */
const struct sp_function *sp_onnx_function(const struct sp_model *model, const struct sp_node *node);

/*
 * The elements of a small constant tensor, in `arena`. Integers and bool come as ints, floats as reals (see sp_data).
 * SP_OK with *ret_data == NULL when the tensor has more than SP_MAX_DATA_ELEMENTS, is external, is a string or complex
 * tensor. Reads the tensor's bytes, and only those.
 */
enum sp_status sp_onnx_tensor_data(const struct sp_model *model, struct sp_arena *arena, const struct sp_tensor *tensor,
                                   struct sp_data **ret_data, struct sp_error *err);
