#include "calibrate/internal.h"

bool sp_text_next_line(const char *text, size_t size, size_t *at, struct sp_text_line *line)
{
    if (*at >= size)
        return false;
    const char *end = memchr(text + *at, '\n', size - *at);
    line->text = text + *at;
    line->size = end != NULL ? (size_t)(end - line->text) : size - *at;
    line->number++;
    *at += line->size + 1;
    if (line->size > 0 && line->text[line->size - 1] == '\r')
        line->size--;
    return true;
}
