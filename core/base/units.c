#include "base/units.h"

#include <math.h>

/* Three significant digits, at most one decimal above 100. */
static void number(struct sp_buf *buf, double value)
{
    if (value < 9.995)
        sp_buf_printf(buf, "%.2f", value);
    else if (value < 999.95)
        sp_buf_printf(buf, "%.1f", value);
    else
        sp_buf_printf(buf, "%.0f", value);
}

void sp_text_seconds(struct sp_buf *buf, double seconds)
{
    if (!isfinite(seconds)) {
        sp_buf_text(buf, "unbounded");
    } else if (seconds == 0) {
        sp_buf_text(buf, "0 s");
    } else if (seconds < 0.9995e-6) {
        number(buf, seconds * 1e9);
        sp_buf_text(buf, " ns");
    } else if (seconds < 0.9995e-3) {
        number(buf, seconds * 1e6);
        sp_buf_text(buf, " us");
    } else if (seconds < 0.9995) {
        number(buf, seconds * 1e3);
        sp_buf_text(buf, " ms");
    } else {
        number(buf, seconds);
        sp_buf_text(buf, " s");
    }
}

/* Divides by 1000 until the value prints with at most three digits before the point. */
static const char *scale(double *value)
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
    size_t prefix = 0;
    while (*value >= 999.5 && prefix + 1 < sizeof prefixes / sizeof prefixes[0]) {
        *value /= 1000;
        prefix++;
    }
    return prefixes[prefix];
}

void sp_text_bytes(struct sp_buf *buf, double bytes)
{
    const char *prefix = scale(&bytes);
    if (prefix[0] == '\0')
        sp_buf_printf(buf, "%.0f B", bytes);
    else
        sp_buf_printf(buf, "%.1f %sB", bytes, prefix);
}

void sp_text_scaled(struct sp_buf *buf, double value)
{
    const char *prefix = scale(&value);
    if (prefix[0] == '\0')
        sp_buf_printf(buf, "%.0f ", value);
    else
        sp_buf_printf(buf, "%.2f %s", value, prefix);
}

static uint32_t number_at(const uint32_t *numbers, uint32_t index)
{
    return numbers == NULL ? index : numbers[index];
}

void sp_text_numbers(struct sp_buf *buf, const uint32_t *numbers, uint32_t first, uint32_t count)
{
    for (uint32_t i = 0, end; i < count; i = end) {
        const uint32_t number = number_at(numbers, first + i);
        for (end = i + 1; end < count && number_at(numbers, first + end) == number + (end - i);)
            end++;
        sp_buf_printf(buf, "%s%u", i > 0 ? ", " : "", number);
        if (end > i + 1)
            sp_buf_printf(buf, "-%u", number + (end - i) - 1);
    }
}
