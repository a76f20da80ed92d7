#pragma once
/*
 * json - descriptions of a model in JSON, turned into the bytes of an ONNX file.
 *
 * Everything behind works on ONNX files and needs to know no other form. Which description it is follows from its
 * members:
 *
 *   a tensor graph    {"name", "opset", "inputs", "initializers", "outputs", "nodes"}: ONNX's operators, in few words
 *   a ModelProto      the JSON mapping that protobuf publishes for every message: {"irVersion", "opsetImport", "graph"}
 *   a cost graph      {"nodes": [{"id", "seconds", ..}], "edges"}: recognised, and refused by this version
 *
 * Tensor graph
 *
 *   document     name, doc, opset (a number, or {DOMAIN: N}), ir_version, metadata {KEY: TEXT}, configurations
 *                [DeviceConfigurationProto], and the members of a graph; "opset" and "nodes" must be there
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
 * SP_ERR_LIMIT, SP_ERR_UNSUPPORTED (a cost graph), SP_ERR_MEMORY, SP_ERR_CANCELLED. What a model must be beyond its
 * form is left to the reader of the result.
 */
enum sp_status sp_json_to_onnx(struct sp_budget *budget, const char *text, uint64_t size, const struct sp_watch *watch,
                               struct sp_buf *ret_bytes, struct sp_error *err);
