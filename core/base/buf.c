#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/shortage.h"

void sp_buf_init(struct sp_buf *buf, size_t ceiling)
{
    memset(buf, 0, sizeof *buf);
    buf->ceiling = ceiling;
}

void sp_buf_release(struct sp_buf *buf)
{
    if (buf == NULL)
        return;
    free(buf->data);
    memset(buf, 0, sizeof *buf);
}

void sp_buf_clear(struct sp_buf *buf)
{
    buf->size = 0;
    buf->failed = false;
    if (buf->data != NULL)
        buf->data[0] = '\0';
}

/* Makes room for `size` more bytes and the NUL. */
static bool reserve(struct sp_buf *buf, size_t size)
{
    size_t need;
    if (buf->failed)
        return false;
    if (!sp_add_size(buf->size, size, &need) || need > buf->ceiling || need == SIZE_MAX) {
        buf->failed = true;
        return false;
    }
    need++;
    if (need <= buf->capacity)
        return true;
    size_t capacity = buf->capacity < 64 ? 64 : buf->capacity;
    while (capacity < need)
        capacity = capacity > SIZE_MAX / 2 ? need : capacity * 2;
    char *data = realloc(buf->data, capacity);
    if (data == NULL) {
        sp_shortage_note();
        buf->failed = true;
        return false;
    }
    buf->data = data;
    buf->capacity = capacity;
    return true;
}

void sp_buf_append(struct sp_buf *buf, const void *bytes, size_t size)
{
    if (!reserve(buf, size))
        return;
    if (size > 0)
        memcpy(buf->data + buf->size, bytes, size);
    buf->size += size;
    buf->data[buf->size] = '\0';
}

void sp_buf_text(struct sp_buf *buf, const char *text)
{
    sp_buf_append(buf, text, strlen(text));
}

void sp_buf_printf(struct sp_buf *buf, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0) {
        buf->failed = true;
    } else if (reserve(buf, (size_t)length)) {
        (void)vsnprintf(buf->data + buf->size, (size_t)length + 1, format, again);
        buf->size += (size_t)length;
    }
    va_end(again);
}
