#pragma once
/*
 * buf - a growable run of bytes with a mandatory ceiling.
 *
 * Text that is put together piece by piece (JSON, messages, literal parts of a written model) goes here. The ceiling is
 * given at initialisation; an append that would pass it fails and sets the sticky `failed` mark, after which every
 * append is ignored. So a caller may append many pieces and check once, with sp_buf_failed().
 *
 * Invariants: `data` is always NUL-terminated once non-NULL; `size` excludes that NUL; the memory is malloc'ed and
 * owned by the buffer.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sp_buf {
    char *data;
    size_t size, capacity, ceiling;
    bool failed;
};

void sp_buf_init(struct sp_buf *buf, size_t ceiling);
void sp_buf_release(struct sp_buf *buf); /* frees; the buffer may be initialised again */
void sp_buf_clear(struct sp_buf *buf);   /* empties and clears `failed`; keeps the memory */

void sp_buf_append(struct sp_buf *buf, const void *bytes, size_t size);
void sp_buf_text(struct sp_buf *buf, const char *text);
__attribute__((format(printf, 2, 3))) void sp_buf_printf(struct sp_buf *buf, const char *format, ...);

/* True after an append failed (ceiling or memory). */
static inline bool sp_buf_failed(const struct sp_buf *buf)
{
    return buf->failed;
}
