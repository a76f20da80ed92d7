/*
 * The notation of sp_op.signature: "(X,W,B?) -> (Y,*rest) {alpha:float=1.0,mode!:string}".
 *
 * The text is copied once and cut into names where they stand. A star may stand before or behind its name, a mark `!`
 * behind the name or the type; defaults are passed over.
 */
#include <string.h>

#include "ops/table/signature_internal.h"

static const struct {
    const char *name;
    enum sp_attr_type type;
} attribute_types[] = {
    {"float", SP_ATTR_FLOAT},
    {"int", SP_ATTR_INT},
    {"string", SP_ATTR_STRING},
    {"tensor", SP_ATTR_TENSOR},
    {"graph", SP_ATTR_GRAPH},
    {"floats", SP_ATTR_FLOATS},
    {"ints", SP_ATTR_INTS},
    {"strings", SP_ATTR_STRINGS},
    {"tensors", SP_ATTR_TENSORS},
    {"graphs", SP_ATTR_GRAPHS},
    {"sparse_tensor", SP_ATTR_SPARSE_TENSOR},
    {"sparse_tensors", SP_ATTR_SPARSE_TENSORS},
    {"type_proto", SP_ATTR_TYPE_PROTO},
    {"type_protos", SP_ATTR_TYPE_PROTOS},
};

static char *skip_blanks(char *at)
{
    while (*at == ' ')
        at++;
    return at;
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* The text between `open` and `close`, which is cut off there; NULL when it does not stand at *at. */
static char *bracketed(char **at, char open, char close)
{
    char *start = skip_blanks(*at);
    if (*start != open)
        return NULL;
    char *end = strchr(start, close);
    if (end == NULL)
        return NULL;
    *end = '\0';
    *at = end + 1;
    return start + 1;
}

/* The next item of a list: up to a comma outside of square brackets. NULL at the end of the list. */
static char *next_item(char **list)
{
    char *item = skip_blanks(*list), *at = item;
    int depth = 0;
    if (*item == '\0')
        return NULL;
    for (; *at != '\0' && (*at != ',' || depth > 0); at++)
        depth += *at == '[' ? 1 : *at == ']' ? -1 : 0;
    *list = *at == '\0' ? at : at + 1;
    *at = '\0';
    return item;
}

/* The end of the name at `at`; what marks it on either side is told and cut off. */
static char *end_of_name(char *at)
{
    while (is_name(*at))
        at++;
    return at;
}

static bool parse_operand(char *item, struct sp_signature_operand *operand)
{
    bool is_variadic = false;
    for (; *item == '*'; item++)
        is_variadic = true;
    char *end = end_of_name(item), *mark = end;
    operand->name = item;
    for (; *mark == '*' || *mark == '?'; mark++) {
        is_variadic = is_variadic || *mark == '*';
        operand->is_optional = operand->is_optional || *mark == '?';
    }
    const bool is_whole = end > item && *mark == '\0';
    *end = '\0';
    operand->is_variadic = is_variadic;
    return is_whole;
}

static bool parse_attribute(char *item, struct sp_signature_attribute *attribute)
{
    char *end = end_of_name(item), *at = end;
    attribute->name = item;
    if (*at == '!') {
        attribute->is_required = true;
        at++;
    }
    if (end == item || *at != ':')
        return false;
    *end = '\0';
    at = skip_blanks(at + 1);
    if (strncmp(at, "[]", 2) == 0)
        at += 2;
    for (size_t i = 0; i < sizeof attribute_types / sizeof attribute_types[0]; i++) {
        const size_t length = strlen(attribute_types[i].name);
        if (strncmp(at, attribute_types[i].name, length) != 0 || is_name(at[length]))
            continue;
        attribute->type = attribute_types[i].type;
        at += length;
        attribute->is_required = attribute->is_required || *at == '!';
        at += *at == '!' ? 1 : 0;
        return *at == '\0' || *at == '=';
    }
    return false;
}

static bool parse_operands(char *list, struct sp_signature_operand *operands, uint32_t *ret_count)
{
    char *item;
    for (*ret_count = 0; (item = next_item(&list)) != NULL; (*ret_count)++) {
        if (*ret_count > 0 && operands[*ret_count - 1].is_variadic)
            return false; /* nothing stands behind a variadic one */
        if (!parse_operand(item, &operands[*ret_count]))
            return false;
    }
    return true;
}

static bool parse(char *text, struct sp_signature *signature, struct sp_signature_operand *operands,
                  struct sp_signature_attribute *attributes)
{
    char *inputs = bracketed(&text, '(', ')');
    text = skip_blanks(text);
    if (inputs == NULL || strncmp(text, "->", 2) != 0)
        return false;
    text += 2;
    char *outputs = bracketed(&text, '(', ')'), *list = outputs == NULL ? NULL : bracketed(&text, '{', '}'), *item;
    if (list == NULL || *skip_blanks(text) != '\0' || !parse_operands(inputs, operands, &signature->input_count))
        return false;
    signature->inputs = operands;
    signature->outputs = operands + signature->input_count;
    if (!parse_operands(outputs, operands + signature->input_count, &signature->output_count))
        return false;
    signature->attributes = attributes;
    for (; (item = next_item(&list)) != NULL; signature->attribute_count++) {
        if (!parse_attribute(item, &attributes[signature->attribute_count]))
            return false;
    }
    return true;
}

bool sp_signature_parse(const struct sp_op *op, struct sp_arena *arena, struct sp_signature *ret_signature)
{
    size_t most = 3; /* items of a list are one more than its commas, and there are three lists */
    for (const char *at = op->signature; *at != '\0'; at++)
        most += *at == ',' ? 1 : 0;
    char *text = sp_arena_string(arena, op->signature, strlen(op->signature));
    struct sp_signature_operand *operands = SP_NEW_ARRAY(arena, most, struct sp_signature_operand);
    struct sp_signature_attribute *attributes = SP_NEW_ARRAY(arena, most, struct sp_signature_attribute);
    struct sp_signature signature = {
        .domain = op->domain,
        .name = op->name,
        .since = op->since,
        .min_inputs = op->min_inputs,
        .max_inputs = op->max_inputs,
        .min_outputs = op->min_outputs,
        .max_outputs = op->max_outputs,
    };
    if (text == NULL || operands == NULL || attributes == NULL || !parse(text, &signature, operands, attributes))
        return false;
    *ret_signature = signature;
    return true;
}
