#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "cli.h"

bool parse_integer(const char *text, int64_t least, int64_t *ret_value)
{
    char *end;
    if (text[0] < '0' || text[0] > '9') /* strtoll would skip blanks and take a sign */
        return false;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0' || value < least)
        return false;
    *ret_value = value;
    return true;
}

static bool parse_number(const char *text, double most, double *ret_value)
{
    char *end;
    if ((text[0] < '0' || text[0] > '9') && text[0] != '.')
        return false;
    double value = strtod(text, &end);
    if (*end != '\0' || !isfinite(value) || value < 0 || value > most)
        return false;
    *ret_value = value;
    return true;
}

bool parse_seconds(const char *text, double *ret_value)
{
    return parse_number(text, CLI_MAX_TIME_LIMIT, ret_value) && *ret_value > 0;
}

bool parse_share(const char *text, double *ret_value)
{
    return parse_number(text, 1, ret_value);
}

bool parse_bytes(const char *text, double *ret_value)
{
    return parse_number(text, CLI_MAX_BYTES, ret_value) && *ret_value >= 1;
}
