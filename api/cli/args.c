#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

void dims_release(struct dims *dims)
{
    for (uint32_t i = 0; i < dims->count; i++)
        free((char *)dims->names[i]);
    free(dims->names);
    free(dims->values);
    memset(dims, 0, sizeof *dims);
}

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
    if (*end != '\0' || !isfinite(value) || value <= 0 || value > most)
        return false;
    *ret_value = value;
    return true;
}

bool parse_seconds(const char *text, double *ret_value)
{
    return parse_number(text, CLI_MAX_TIME_LIMIT, ret_value);
}

bool parse_bytes(const char *text, double *ret_value)
{
    return parse_number(text, CLI_MAX_BYTES, ret_value) && *ret_value >= 1;
}

bool dims_add(struct dims *dims, const char *text)
{
    const char *equals = strrchr(text, '='); /* names may hold '=' */
    int64_t value;
    if (equals == NULL || equals == text || dims->count >= SP_MAX_BOUND_DIMS || !parse_integer(equals + 1, 1, &value))
        return false;
    const char **names = realloc(dims->names, (dims->count + 1) * sizeof *names);
    if (names == NULL)
        return false;
    dims->names = names;
    int64_t *values = realloc(dims->values, (dims->count + 1) * sizeof *values);
    if (values == NULL)
        return false;
    dims->values = values;
    dims->names[dims->count] = strndup(text, (size_t)(equals - text));
    dims->values[dims->count] = value;
    if (dims->names[dims->count] == NULL)
        return false;
    dims->count++;
    return true;
}
