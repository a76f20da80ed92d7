#pragma once
/*
 * onnx_bytes - ONNX files put together byte by byte, for tests of what begins with a file.
 *
 *     struct sp_buf file;
 *     onnx_mlp(&file, &(struct onnx_mlp){.layers = 4, .width = 64, .batch = "n"});
 *     ... sp_job_open(file.data, file.size, ...)
 *     sp_buf_release(&file);
 *
 * Field numbers are those of onnx.proto.
 */
#include "base/buf.h"

/* x [batch, width] -> (MatMul with a weight [width, width], Relu) per layer -> y. Nodes "mm0", "relu0", "mm1"...,
   weights "w0".. (external), activations "h0", "a0"...; the last activation is "y". */
struct onnx_mlp {
    uint32_t layers;
    int64_t width;
    const char *batch; /* a number or a symbol; NULL: a dimension without a name or value */
    const char *extra; /* or NULL: a second input "s" [batch, extra], a node Relu "id" on it, and the output "z" */
};
void onnx_mlp(struct sp_buf *ret_file, const struct onnx_mlp *options);

/* The wire, for other files: fields appended to `buf`. */
void wire_int(struct sp_buf *buf, uint32_t field, uint64_t value);
void wire_text(struct sp_buf *buf, uint32_t field, const char *text);
/* Takes the message's bytes and releases it. */
void wire_message(struct sp_buf *buf, uint32_t field, struct sp_buf *message);
/* An empty message of a sensible ceiling. */
struct sp_buf wire_begin(void);
