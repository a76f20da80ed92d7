#include "plan/answer/readable_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

#define WHOLE_RATE 1e3 /* requests per second from which fractions do not matter */

void sp_text_integer(struct sp_buf *buf, uint64_t value)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, value);
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            sp_buf_append(buf, ",", 1);
        sp_buf_append(buf, &digits[i], 1);
    }
}

static bool starts_character(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

static void put_printable(struct sp_buf *buf, const char *text, size_t size)
{
    for (size_t i = 0; i < size;) {
        char shown[SP_SHOWN_SIZE];
        uint32_t point;
        size_t taken = sp_utf8_control(text + i, size - i, &point);
        if (taken > 0) {
            sp_utf8_show(point, shown);
            sp_buf_text(buf, shown);
            i += taken;
            continue;
        }
        do
            taken++;
        while (i + taken < size && !starts_character(text[i + taken]));
        sp_buf_append(buf, &text[i], taken);
        i += taken;
    }
}

void sp_text_rate(struct sp_buf *buf, double rate)
{
    if (rate >= WHOLE_RATE && rate < 1e15)
        sp_text_integer(buf, (uint64_t)(rate + 0.5));
    else
        sp_buf_printf(buf, "%.4g", rate);
}

void sp_text_cut(struct sp_buf *buf, const char *text, size_t width)
{
    size_t size = strlen(text), columns = 0, head = 0, tail = size;
    for (size_t i = 0; i < size; i++)
        columns += starts_character(text[i]) ? 1 : 0;
    if (columns <= width || width < 6) {
        put_printable(buf, text, size);
        return;
    }
    for (size_t kept = 0; kept <= (width - 2) / 2; head++)
        kept += starts_character(text[head]) ? 1 : 0;
    head--; /* back to the start of the first character that is left out */
    for (size_t kept = 0; kept < width - 2 - (width - 2) / 2;)
        kept += starts_character(text[--tail]) ? 1 : 0;
    put_printable(buf, text, head);
    sp_buf_text(buf, "..");
    put_printable(buf, text + tail, size - tail);
}

void sp_text_wrapped(struct sp_buf *buf, const char *text, size_t indent, size_t width)
{
    size_t column = indent;
    bool first = true;
    while (*text != '\0') {
        size_t size = strcspn(text, " "), columns = 0;
        for (size_t i = 0; i < size; i++)
            columns += starts_character(text[i]) ? 1 : 0;
        if (!first && column + 1 + columns > width) {
            sp_buf_printf(buf, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!first) {
            sp_buf_text(buf, " ");
            column++;
        }
        sp_buf_append(buf, text, size);
        column += columns;
        first = false;
        text += size;
        text += strspn(text, " ");
    }
    sp_buf_text(buf, "\n");
}

void sp_text_shape(struct sp_buf *buf, const struct sp_shape *shape)
{
    if (!shape->has_rank) {
        sp_buf_text(buf, "unknown rank");
        return;
    }
    sp_buf_text(buf, "[");
    for (uint32_t i = 0; i < shape->rank; i++) {
        if (i > 0)
            sp_buf_text(buf, ", ");
        sp_dim_print(shape->dims[i], buf);
    }
    sp_buf_text(buf, "]");
}

void sp_json_dim(struct sp_json *json, struct sp_dim dim, struct sp_buf *scratch)
{
    switch (dim.kind) {
    case SP_DIM_KNOWN:
        sp_json_int(json, dim.value);
        break;
    case SP_DIM_SYMBOLIC:
        sp_dim_print(dim, scratch);
        sp_json_string(json, sp_buf_failed(scratch) ? NULL : scratch->data);
        sp_buf_clear(scratch);
        break;
    case SP_DIM_UNKNOWN:
        sp_json_null(json);
        break;
    }
}
