/*
 * Expressions in rule texts, "(l - k) / stride:1 + 1": read by operator precedence, with a stack of values and one of
 * operators. The same walk checks the form of an expression, and computes it for a node.
 */
#include <ctype.h>
#include <string.h>

#include "ops/table/rule_text_internal.h"

#define MAX_ATTRIBUTE_NAME 64

struct walk {
    const char *at;
    struct sp_dims *dims; /* NULL: only the form is checked */
    sp_text_resolve *resolve;
    void *context;
    enum sp_status status;
    uint32_t value_count, operator_count;
    struct sp_dim values[SP_TEXT_MAX_DEPTH];
    char operators[SP_TEXT_MAX_DEPTH];
};

static bool read_digits(struct walk *walk, int64_t *ret_number)
{
    int64_t number = 0;
    const char *start = walk->at;
    for (; isdigit((unsigned char)*walk->at) && number <= INT32_MAX; walk->at++)
        number = number * 10 + (*walk->at - '0');
    *ret_number = number;
    return walk->at > start && number <= INT32_MAX;
}

/* A name, with the index of an integer in a list and the value where there is no such attribute. */
static bool read_named(struct walk *walk, struct sp_dim *ret_value)
{
    char name[MAX_ATTRIBUTE_NAME];
    size_t length = 0;
    int64_t index = -1, number;
    struct sp_dim otherwise = sp_dim_unknown();
    for (; isalnum((unsigned char)*walk->at) || *walk->at == '_'; walk->at++) {
        if (length + 1 == sizeof name)
            return false;
        name[length++] = *walk->at;
    }
    name[length] = '\0';
    if (*walk->at == '[') {
        walk->at++;
        if (!read_digits(walk, &index) || *walk->at++ != ']')
            return false;
    }
    if (*walk->at == ':') {
        walk->at++;
        if (!read_digits(walk, &number))
            return false;
        otherwise = sp_dim_known(number);
    }
    if (length > 0 && walk->dims != NULL && walk->status == SP_OK)
        walk->status = walk->resolve(walk->context, name, index, otherwise, ret_value);
    return length > 0;
}

static bool read_value(struct walk *walk)
{
    struct sp_dim value = sp_dim_unknown();
    int64_t number;
    bool is_number = isdigit((unsigned char)*walk->at);
    if (is_number ? !read_digits(walk, &number) : !read_named(walk, &value))
        return false;
    if (walk->value_count == SP_TEXT_MAX_DEPTH)
        return false;
    walk->values[walk->value_count++] = is_number ? sp_dim_known(number) : value;
    return true;
}

static uint32_t precedence(char sign)
{
    return sign == '(' ? 0 : sign == '+' || sign == '-' ? 1 : 2;
}

/* The operator on top, with the two values below it. */
static void apply(struct walk *walk)
{
    char sign = walk->operators[--walk->operator_count];
    struct sp_dim b = walk->values[--walk->value_count], *a = &walk->values[walk->value_count - 1];
    if (walk->dims == NULL)
        return;
    if (sign == '+')
        *a = sp_dim_add(walk->dims, *a, b);
    else if (sign == '-')
        *a = sp_dim_sub(walk->dims, *a, b);
    else if (sign == '*')
        *a = sp_dim_mul(walk->dims, *a, b);
    else
        *a = sp_dim_floordiv(walk->dims, *a, b);
}

static bool push(struct walk *walk, char sign)
{
    while (sign != '(' && walk->operator_count > 0 &&
           precedence(walk->operators[walk->operator_count - 1]) >= precedence(sign))
        apply(walk);
    if (walk->operator_count == SP_TEXT_MAX_DEPTH)
        return false;
    walk->operators[walk->operator_count++] = sign;
    return true;
}

static bool close_bracket(struct walk *walk)
{
    while (walk->operator_count > 0 && walk->operators[walk->operator_count - 1] != '(')
        apply(walk);
    return walk->operator_count > 0 && walk->operator_count-- > 0;
}

static bool run(struct walk *walk)
{
    bool wants_value = true;
    for (;;) {
        walk->at += strspn(walk->at, " ");
        char c = *walk->at;
        if (c == '\0' || c == ';')
            break;
        if (wants_value && c != '(') {
            if (!read_value(walk))
                return false;
            wants_value = false;
            continue;
        }
        walk->at++;
        if (c == ')' && close_bracket(walk))
            continue;
        if (strchr(wants_value ? "(" : "+-*/", c) == NULL || !push(walk, c))
            return false;
        wants_value = true;
    }
    while (!wants_value && walk->operator_count > 0 && walk->operators[walk->operator_count - 1] != '(')
        apply(walk);
    return !wants_value && walk->operator_count == 0;
}

const char *sp_text_expression_end(const char *expression)
{
    struct walk walk = {.at = expression};
    return run(&walk) ? walk.at : NULL;
}

enum sp_status sp_text_evaluate(const char *expression, struct sp_dims *dims, sp_text_resolve *resolve, void *context,
                                struct sp_dim *ret_value)
{
    struct walk walk = {.at = expression, .dims = dims, .resolve = resolve, .context = context};
    *ret_value = run(&walk) ? walk.values[0] : sp_dim_unknown();
    return walk.status;
}
