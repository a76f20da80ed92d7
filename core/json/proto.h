#pragma once
/*
 * proto - protobuf's JSON mapping of any message of the schema, by the descriptors that protobuf-c generates.
 *
 * There is no table of ONNX here: a new member in onnx.proto is read without a line of code.
 */
#include <protobuf-c/protobuf-c.h>

#include "json/emit.h"
#include "json/tree.h"

/* Writes the members of the message that `value` (an object) describes: its payload, without tag and length. */
enum sp_status sp_proto_message(const struct sp_tree *tree, uint32_t value,
                                const ProtobufCMessageDescriptor *descriptor, struct sp_emit *emit);
