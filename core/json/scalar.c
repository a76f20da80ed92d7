#include "json/scalar.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

/* Integers up to this are exact in a double: 2^53. */
#define EXACT_DOUBLE 9007199254740992.0

/* The text of a number, as a number or as text in `to`. */
static enum sp_status number_text(const struct sp_tree *tree, uint32_t value, char to[SP_MAX_JSON_NUMBER + 1])
{
    struct sp_tree_text text = sp_tree_raw_text(tree, value);
    const enum sp_tree_kind kind = sp_tree_kind(tree, value);
    if (kind == SP_TREE_STRING) {
        enum sp_status status = sp_tree_text(tree, value, &text);
        if (status != SP_OK)
            return status;
    } else if (kind != SP_TREE_NUMBER) {
        return sp_tree_fail(tree, value, "NUMBER_EXPECTED", "A number is expected here.");
    }
    if (text.size == 0 || text.size > SP_MAX_JSON_NUMBER)
        return sp_tree_fail(tree, value, "NUMBER_EXPECTED",
                            "A number is expected here, in at most %d characters (limit SP_MAX_JSON_NUMBER).",
                            SP_MAX_JSON_NUMBER);
    memcpy(to, text.bytes, text.size);
    to[text.size] = '\0';
    return SP_OK;
}

/* Only what JSON has as a number: strtod() takes more. The decimal point is a point in every locale that the programs
   here set. */
static bool is_decimal(const char *text)
{
    const char *digits = text[0] == '-' ? text + 1 : text;
    return digits[0] >= '0' && digits[0] <= '9' && text[strspn(text, "0123456789+-.eE")] == '\0';
}

/* False when it is no number at all or out of a double's range. */
static bool parse_real(const char *text, double *ret_number)
{
    char *end;
    if (!is_decimal(text))
        return false;
    *ret_number = strtod(text, &end);
    return *end == '\0' && isfinite(*ret_number);
}

static bool parse_digits(const char *digits, uint64_t *ret_number)
{
    uint64_t number = 0;
    if (digits[0] == '\0')
        return false;
    for (; *digits != '\0'; digits++) {
        if (*digits < '0' || *digits > '9' || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(*digits - '0'), &number))
            return false;
    }
    *ret_number = number;
    return true;
}

/* An integer as sign and magnitude. */
static enum sp_status read_integer(const struct sp_tree *tree, uint32_t value, bool *ret_negative,
                                   uint64_t *ret_magnitude)
{
    char text[SP_MAX_JSON_NUMBER + 1];
    double real;
    enum sp_status status = number_text(tree, value, text);
    if (status != SP_OK)
        return status;
    *ret_negative = text[0] == '-';
    if (parse_digits(text + *ret_negative, ret_magnitude))
        return SP_OK;
    if (!parse_real(text, &real) || real != floor(real) || fabs(real) > EXACT_DOUBLE)
        return sp_tree_fail(tree, value, "INTEGER_EXPECTED", "An integer of at most 64 bits is expected here.");
    *ret_magnitude = (uint64_t)fabs(real);
    return SP_OK;
}

enum sp_status sp_scalar_int(const struct sp_tree *tree, uint32_t value, int64_t low, int64_t high, int64_t *ret_number)
{
    bool negative;
    uint64_t magnitude;
    enum sp_status status = read_integer(tree, value, &negative, &magnitude);
    if (status != SP_OK)
        return status;
    const uint64_t most = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
    int64_t number = 0;
    if (magnitude <= most)
        number = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    if (magnitude > most || number < low || number > high)
        return sp_tree_fail(tree, value, "NUMBER_OUT_OF_RANGE", "An integer from %lld to %lld is expected here.",
                            (long long)low, (long long)high);
    *ret_number = number;
    return SP_OK;
}

enum sp_status sp_scalar_uint(const struct sp_tree *tree, uint32_t value, uint64_t high, uint64_t *ret_number)
{
    bool negative;
    uint64_t magnitude;
    enum sp_status status = read_integer(tree, value, &negative, &magnitude);
    if (status != SP_OK)
        return status;
    if ((negative && magnitude > 0) || magnitude > high)
        return sp_tree_fail(tree, value, "NUMBER_OUT_OF_RANGE", "An integer from 0 to %llu is expected here.",
                            (unsigned long long)high);
    *ret_number = magnitude;
    return SP_OK;
}

static enum sp_status read_real(const struct sp_tree *tree, uint32_t value, char text[SP_MAX_JSON_NUMBER + 1],
                                double *ret_number)
{
    enum sp_status status = number_text(tree, value, text);
    if (status != SP_OK)
        return status;
    const bool is_text = sp_tree_kind(tree, value) == SP_TREE_STRING;
    if (is_text && strcmp(text, "NaN") == 0)
        *ret_number = NAN;
    else if (is_text && strcmp(text, "Infinity") == 0)
        *ret_number = INFINITY;
    else if (is_text && strcmp(text, "-Infinity") == 0)
        *ret_number = -INFINITY;
    else if (!parse_real(text, ret_number))
        return sp_tree_fail(
            tree, value, "NUMBER_EXPECTED",
            "A number that fits into 64 bits, \"NaN\", \"Infinity\" or \"-Infinity\" is expected here.");
    return SP_OK;
}

enum sp_status sp_scalar_double(const struct sp_tree *tree, uint32_t value, double *ret_number)
{
    char text[SP_MAX_JSON_NUMBER + 1];
    return read_real(tree, value, text, ret_number);
}

enum sp_status sp_scalar_float(const struct sp_tree *tree, uint32_t value, float *ret_number)
{
    char text[SP_MAX_JSON_NUMBER + 1];
    double number;
    enum sp_status status = read_real(tree, value, text, &number);
    if (status != SP_OK)
        return status;
    if (!isfinite(number)) {
        *ret_number = (float)number;
        return SP_OK;
    }
    const float nearest = strtof(text, NULL); /* from the text: rounding twice may give the neighbour */
    if (!isfinite(nearest))
        return sp_tree_fail(tree, value, "NUMBER_OUT_OF_RANGE", "This number does not fit into a float of 32 bits.");
    *ret_number = nearest;
    return SP_OK;
}

bool sp_scalar_is_integer(const struct sp_tree *tree, uint32_t value)
{
    const struct sp_tree_text text = sp_tree_raw_text(tree, value);
    for (size_t i = 0; i < text.size; i++) {
        if (text.bytes[i] == '.' || text.bytes[i] == 'e' || text.bytes[i] == 'E')
            return false;
    }
    return true;
}

/* ---- base64 ---------------------------------------------------------------------------------------------------- */

static int digit64(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

enum sp_status sp_scalar_base64(const struct sp_tree *tree, uint32_t value, struct sp_tree_text *ret_bytes)
{
    struct sp_tree_text text;
    size_t used = 0;
    uint32_t bits = 0, held = 0;
    if (sp_tree_kind(tree, value) != SP_TREE_STRING)
        return sp_tree_fail(tree, value, "BASE64_EXPECTED", "Bytes are expected here, as text in base64.");
    enum sp_status status = sp_tree_text(tree, value, &text);
    if (status != SP_OK)
        return status;
    const size_t whole = text.size;
    while (text.size > 0 && whole - text.size < 2 && text.bytes[text.size - 1] == '=')
        text.size--;
    if (text.size % 4 == 1 || (whole != text.size && whole % 4 != 0))
        return sp_tree_fail(tree, value, "BASE64_EXPECTED", "This text is not base64: its length cannot be.");
    unsigned char *bytes = sp_arena_alloc(tree->arena, text.size / 4 * 3 + 2);
    if (bytes == NULL)
        return sp_fail_memory(tree->err);
    for (size_t i = 0; i < text.size; i++) {
        const int digit = digit64(text.bytes[i]);
        if (digit < 0)
            return sp_tree_fail(tree, value, "BASE64_EXPECTED", "This text is not base64: character %zu is none of it.",
                                i + 1);
        bits = bits << 6 | (uint32_t)digit;
        held += 6;
        if (held >= 8) {
            held -= 8;
            bytes[used++] = (unsigned char)(bits >> held);
        }
    }
    *ret_bytes = (struct sp_tree_text){(const char *)bytes, used};
    return SP_OK;
}
