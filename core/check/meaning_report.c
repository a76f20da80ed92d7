/* Findings about what annotations mean. */
#include <stdio.h>

#include "base/units.h"
#include "check/meaning.h"

#define MAX_MESSAGE 2048

enum sp_status sp_meaning_report(struct sp_meaning *meaning, const char *code, const struct sp_node *node,
                                 const char *tensor, const char *hint, double bytes, const char *format, ...)
{
    const struct sp_finding finding = {.code = code,
                                       .node = node,
                                       .tensor = tensor,
                                       .configuration = meaning->configuration,
                                       .hint = hint,
                                       .bytes = bytes};
    char message[MAX_MESSAGE];
    SP_FORMAT(message, format);
    return sp_diagnose(meaning->list, &finding, meaning->err, "%s", message);
}

const char *sp_meaning_bytes(double bytes, char *text, size_t size)
{
    struct sp_buf buf;
    sp_buf_init(&buf, 256);
    sp_text_bytes(&buf, bytes);
    (void)snprintf(text, size, "%s", buf.data == NULL ? "" : buf.data);
    sp_buf_release(&buf);
    return text;
}
