#include "base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SECONDS 1e12

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

bool sp_parse_seconds(const char *text, double *ret_seconds)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"", 1}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}, {"d", 86400}};
    char *end;
    if ((text[0] < '0' || text[0] > '9') && text[0] != '.') /* strtod would skip blanks and take a sign */
        return false;
    const double number = strtod(text, &end);
    for (size_t i = 0; end != text && i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].unit) != 0 || !(number * units[i].seconds <= MAX_SECONDS))
            continue;
        *ret_seconds = number * units[i].seconds;
        return true;
    }
    return false;
}
