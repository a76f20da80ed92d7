#pragma once
/*
 * leaf - small records through the generated protobuf-c code; private to core/onnx.
 *
 * Generated code has no bound on depth, merges repeated singular messages in quadratic time, cuts strings at a NUL and
 * does not check UTF-8. So a record is walked against its descriptor before it is unpacked, and unpacked into the
 * reader's scratch arena, which the caller rewinds when it has copied what it keeps.
 */
#include <protobuf-c/protobuf-c.h>

#include "onnx/read.h"

/* The record in `span`. SP_ERR_LIMIT over SP_MAX_RECORD_BYTES or SP_MAX_NESTING, SP_ERR_MALFORMED, SP_ERR_MEMORY. */
enum sp_status sp_leaf_unpack(struct sp_reader *r, const ProtobufCMessageDescriptor *descriptor, struct sp_span span,
                              ProtobufCMessage **ret_message);

/* The model's copy of a text of an unpacked record; NULL becomes "". False without memory. */
bool sp_leaf_intern(struct sp_reader *r, const char *text, const char **ret_text);
