#include "onnx_bytes.h"

#include <stdio.h>
#include <stdlib.h>

#define FILE_BYTES ((size_t)16 << 20)

static void varint(struct sp_buf *buf, uint64_t value)
{
    while (value > 0x7f) {
        unsigned char byte = (unsigned char)(value | 0x80);
        sp_buf_append(buf, &byte, 1);
        value >>= 7;
    }
    unsigned char byte = (unsigned char)value;
    sp_buf_append(buf, &byte, 1);
}

void wire_int(struct sp_buf *buf, uint32_t field, uint64_t value)
{
    varint(buf, (uint64_t)field << 3);
    varint(buf, value);
}

static void wire_bytes(struct sp_buf *buf, uint32_t field, const void *bytes, size_t size)
{
    varint(buf, (uint64_t)field << 3 | 2);
    varint(buf, size);
    sp_buf_append(buf, bytes, size);
}

void wire_text(struct sp_buf *buf, uint32_t field, const char *text)
{
    wire_bytes(buf, field, text, strlen(text));
}

void wire_message(struct sp_buf *buf, uint32_t field, struct sp_buf *message)
{
    wire_bytes(buf, field, message->data, message->size);
    sp_buf_release(message);
}

struct sp_buf wire_begin(void)
{
    struct sp_buf buf;
    sp_buf_init(&buf, FILE_BYTES);
    return buf;
}

/* TensorShapeProto.Dimension: a number, a symbol, or neither. */
static void dimension(struct sp_buf *shape, const char *text)
{
    struct sp_buf dim = wire_begin();
    char *end;
    if (text != NULL) {
        long long value = strtoll(text, &end, 10);
        if (*end == '\0')
            wire_int(&dim, 1, (uint64_t)value);
        else
            wire_text(&dim, 2, text);
    }
    wire_message(shape, 1, &dim);
}

/* ValueInfoProto of a float tensor of two dimensions. */
static void value_info(struct sp_buf *graph, uint32_t field, const char *name, const char *first, const char *second)
{
    struct sp_buf info = wire_begin(), type = wire_begin(), tensor = wire_begin(), shape = wire_begin();
    dimension(&shape, first);
    dimension(&shape, second);
    wire_int(&tensor, 1, 1);
    wire_message(&tensor, 2, &shape);
    wire_message(&type, 1, &tensor);
    wire_text(&info, 1, name);
    wire_message(&info, 2, &type);
    wire_message(graph, field, &info);
}

static void node(struct sp_buf *graph, const char *name, const char *op, const char *a, const char *b, const char *out)
{
    struct sp_buf message = wire_begin();
    wire_text(&message, 1, a);
    if (b != NULL)
        wire_text(&message, 1, b);
    wire_text(&message, 2, out);
    wire_text(&message, 3, name);
    wire_text(&message, 4, op);
    wire_message(graph, 1, &message);
}

/* An initializer whose bytes lie in another file, which need not exist. */
static void weight(struct sp_buf *graph, const char *name, int64_t width)
{
    struct sp_buf tensor = wire_begin(), entry = wire_begin();
    wire_int(&tensor, 1, (uint64_t)width);
    wire_int(&tensor, 1, (uint64_t)width);
    wire_int(&tensor, 2, 1);
    wire_text(&tensor, 8, name);
    wire_text(&entry, 1, "location");
    wire_text(&entry, 2, "weights.bin");
    wire_message(&tensor, 13, &entry);
    wire_int(&tensor, 14, 1);
    wire_message(graph, 5, &tensor);
}

void onnx_mlp(struct sp_buf *ret_file, const struct onnx_mlp *options)
{
    struct sp_buf file = wire_begin(), graph = wire_begin(), opset = wire_begin();
    char name[32], op[32], w[32], h[32], a[32];
    (void)snprintf(a, sizeof a, "x");
    for (uint32_t layer = 0; layer < options->layers; layer++) {
        (void)snprintf(w, sizeof w, "w%u", layer);
        (void)snprintf(h, sizeof h, "h%u", layer);
        (void)snprintf(name, sizeof name, "mm%u", layer);
        (void)snprintf(op, sizeof op, "relu%u", layer);
        node(&graph, name, "MatMul", a, w, h);
        (void)snprintf(a, sizeof a, layer + 1 == options->layers ? "y" : "a%u", layer);
        node(&graph, op, "Relu", h, NULL, a);
    }
    if (options->extra != NULL)
        node(&graph, "id", "Relu", "s", NULL, "z");
    wire_text(&graph, 2, "mlp");
    for (uint32_t layer = 0; layer < options->layers; layer++) {
        (void)snprintf(w, sizeof w, "w%u", layer);
        weight(&graph, w, options->width);
    }
    (void)snprintf(name, sizeof name, "%lld", (long long)options->width);
    value_info(&graph, 11, "x", options->batch, name);
    value_info(&graph, 12, "y", options->batch, name);
    if (options->extra != NULL) {
        value_info(&graph, 11, "s", options->batch, options->extra);
        value_info(&graph, 12, "z", options->batch, options->extra);
    }
    wire_int(&file, 1, 8); /* ir_version */
    wire_text(&file, 2, "test");
    wire_int(&opset, 2, 16);
    wire_message(&file, 7, &graph);
    wire_message(&file, 8, &opset);
    *ret_file = file;
}
