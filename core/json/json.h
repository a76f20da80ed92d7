#pragma once
/*
 * json - descriptions of a model in JSON, turned into the bytes of an ONNX file.
 *
 * Everything behind works on ONNX files and needs to know no other form. Which description it is follows from its
 * members:
 *
 *   a tensor graph    {"name", "opset", "inputs", "initializers", "outputs", "nodes"}: ONNX's operators, in few words
 *   a ModelProto      the JSON mapping that protobuf publishes for every message: {"irVersion", "opsetImport", "graph"}
 *   a cost graph      {"name", "nodes", "edges"}: no operators, only what each node costs; it stays what it is
 *
 * Tensor graph
 *
 *   document     name, doc, opset (a number, or {DOMAIN: N}), ir_version, metadata {KEY: TEXT}, configurations
 *                [DeviceConfigurationProto], operators [rules of operators of one's own: ops/table/private.h], and the
 *                members of a graph; "opset" and "nodes" must be there
 *   graph        name, inputs [VALUE], initializers [VALUE with "data"], outputs [NAME or VALUE], values [VALUE],
 *                nodes [NODE]
 *                (a NAME alone is an output whose type is inferred: files state it)
 *   VALUE        {"name", "dtype", "shape": [8, "seq", null]}, or {"name", "type": TypeProto} where it is no tensor;
 *                no shape: the rank is not known
 *   NODE         {"name", "op", "domain", "overload", "inputs", "outputs", "attributes", "metadata", "configurations":
 *                [{"configuration", "stage", "specs": [ShardingSpecProto]}]}; "" is an omitted input
 *   attributes   {NAME: A}; A is a number, text, a list of either, a boolean (1 or 0), or names its type: {"float": 1},
 *                also int, string, tensor, graph, type and their plurals. A number is what the operator asks for; of an
 *                operator that nobody knows it is an integer when it is written as one.
 *   tensors      {"dtype", "shape", "data": [..]}, the elements one behind the other. An initializer without data is a
 *                weight: external data in "weights.bin", all of them in the order of the description, without gaps
 *
 * Without "ir_version" it is the least that the operator set, the types and the annotations need (8 at least).
 * Messages in the places named above are in protobuf's mapping.
 *
 * Cost graph
 *
 *   NODE         {"id", "name", "seconds", "memory_bytes", "output_bytes", "group"}; id and seconds must be there. An
 * id is a text or an integer, which is the same as its digits. seconds: a number, or {DEVICE: number} by the names of
 * the catalog or of the cluster; a device that is left out cannot run the node. memory_bytes stay on the device
 * (weights), output_bytes are there until the last use, or are the result where nothing uses them. Nodes of one group
 * stay on one device. EDGE         {"from", "to", "bytes", "seconds", "tensor"}: bytes to send where the ends are on
 * different devices, output_bytes of `from` where nothing is said; with seconds that time is taken, whatever the link.
 * Edges of one node that say the same carry the same tensor, which is sent once to each device; so do those that name
 * the same one, and different names tell tensors apart.
 *
 * protobuf's mapping (https://protobuf.dev/programming-guides/json): camelCase or original names, enums by name or
 * number, integers as numbers or text, bytes as base64 (also the URL's alphabet), "NaN" and the infinities, null for an
 * absent member. Unknown members, a member twice and two of a oneof are errors.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cancel.h"
#include "base/error.h"
#include "graph/cost_graph.h"
#include "onnx/reader.h"

/* Whether these bytes are to be taken for such a description: they begin with an object. No ONNX file does. */
bool sp_json_is(const void *bytes, uint64_t size);

/*
 * The ONNX file that the description stands for, in *ret_bytes, which the caller releases. Memory counts against the
 * budget (6 bytes for each byte of text at most, and the result); the result stays counted when this returns.
 *
 * Where outputs of a tensor graph have no type, the result is read and its shapes are inferred, which `watch` (may be
 * NULL) can end; if the model contradicts itself, they stay without.
 *
 * Errors: SP_ERR_MALFORMED (`where` is "byte N" where it is no JSON, else the JSON pointer of what is wrong),
 * SP_ERR_LIMIT, SP_ERR_UNSUPPORTED "NO_OPERATORS" (a cost graph), SP_ERR_MEMORY, SP_ERR_CANCELLED. What a model must be
 * beyond its form is left to the reader of the result.
 */
enum sp_status sp_json_to_onnx(struct sp_budget *budget, const char *text, uint64_t size, const struct sp_watch *watch,
                               struct sp_buf *ret_bytes, struct sp_error *err);

/* A cost graph, in memory of its own: what that takes counts against the budget given, and stays counted. */
struct sp_json_graph {
    struct sp_budget budget;
    struct sp_arena *arena;
    struct sp_cost_graph graph;
};
void sp_json_graph_destroy(struct sp_json_graph *graph); /* NULL is allowed */

/* The same for whatever the text describes: *ret_graph is a cost graph, the caller's to destroy, or NULL, and then
 *ret_bytes is the ONNX file. Of the options the seed and the watch are used. */
enum sp_status sp_json_read(struct sp_budget *budget, const char *text, uint64_t size,
                            const struct sp_read_options *options, struct sp_buf *ret_bytes,
                            struct sp_json_graph **ret_graph, struct sp_error *err);
