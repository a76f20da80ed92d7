#include "recurrent_text.h"

#include <stdio.h>

void recurrent_text(struct sp_buf *text, uint32_t layers, uint32_t rows, uint32_t width)
{
    const char *below = "x", *comma = "";
    char name[32];
    sp_buf_init(text, (size_t)1 << 20);
    sp_buf_printf(text, "{\"opset\":17,\"inputs\":[{\"name\":\"x\",\"dtype\":\"float32\",\"shape\":[%u,%u]}", rows,
                  width);
    for (uint32_t l = 0; l < layers; l++)
        sp_buf_printf(text, ",{\"name\":\"state_%u\",\"dtype\":\"float32\",\"shape\":[%u,%u]}", l, rows, width);
    sp_buf_text(text, "],\"initializers\":[");
    for (uint32_t l = 0; l < layers; l++, comma = ",")
        sp_buf_printf(text,
                      "%s{\"name\":\"W%u\",\"dtype\":\"float32\",\"shape\":[%u,%u]},"
                      "{\"name\":\"U%u\",\"dtype\":\"float32\",\"shape\":[%u,%u]}",
                      comma, l, width, width, l, width, width);
    sp_buf_text(text, "],\"nodes\":[");
    comma = "";
    for (uint32_t l = 0; l < layers; l++, comma = ",") {
        sp_buf_printf(text,
                      "%s{\"op\":\"MatMul\",\"inputs\":[\"%s\",\"W%u\"],\"outputs\":[\"t%u\"]},"
                      "{\"op\":\"MatMul\",\"inputs\":[\"state_%u\",\"U%u\"],\"outputs\":[\"k%u\"]},"
                      "{\"op\":\"Add\",\"inputs\":[\"t%u\",\"k%u\"],\"outputs\":[\"s%u\"]},"
                      "{\"op\":\"Tanh\",\"inputs\":[\"s%u\"],\"outputs\":[\"new_state_%u\"]}",
                      comma, below, l, l, l, l, l, l, l, l, l, l);
        (void)snprintf(name, sizeof name, "new_state_%u", l);
        below = name;
    }
    sp_buf_text(text, "],\"outputs\":[");
    comma = "";
    for (uint32_t l = 0; l < layers; l++, comma = ",")
        sp_buf_printf(text, "%s\"new_state_%u\"", comma, l);
    sp_buf_text(text, "]}");
}
