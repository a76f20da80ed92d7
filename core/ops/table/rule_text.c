#include "ops/table/rule_text_internal.h"

#include <ctype.h>
#include <string.h>

/* ---- reading ---------------------------------------------------------------------------------------------------- */

struct reader {
    const char *at;
    struct sp_rule_text *text;
    bool is_strict;
};

static void skip_blanks(struct reader *reader)
{
    while (*reader->at == ' ' || *reader->at == ',')
        reader->at++;
}

static bool skip(struct reader *reader, const char *token)
{
    size_t length = strlen(token);
    bool is_here = strncmp(reader->at, token, length) == 0;
    reader->at += is_here ? length : 0;
    return is_here;
}

/* A name, a number or `_`, and its length; 0 for anything else. */
static size_t read_name(struct reader *reader, const char **ret_name)
{
    *ret_name = reader->at;
    while (isalnum((unsigned char)*reader->at) || *reader->at == '_')
        reader->at++;
    return (size_t)(reader->at - *ret_name);
}

static uint8_t find_factor(const struct sp_rule_text *text, const char *name, size_t length)
{
    uint8_t i = 0;
    while (i < text->factor_count &&
           (strncmp(text->factors[i].name, name, length) != 0 || text->factors[i].name[length] != 0))
        i++;
    return i;
}

/* The factor of this name, added where it is new; false where there are too many. */
static bool add_factor(struct reader *reader, const char *name, size_t length, uint8_t *ret_factor)
{
    struct sp_rule_text *text = reader->text;
    *ret_factor = find_factor(text, name, length);
    if (*ret_factor < text->factor_count)
        return true;
    if (text->factor_count == SP_TEXT_MAX_FACTORS || length >= SP_FACTOR_NAME_SIZE)
        return false;
    memcpy(text->factors[text->factor_count++].name, name, length);
    return true;
}

static bool read_number(const char *digits, size_t length, struct sp_text_axis *axis)
{
    int64_t number = 0;
    for (size_t i = 0; i < length; i++) {
        number = number * 10 + (digits[i] - '0');
        if (!isdigit((unsigned char)digits[i]) || number > INT32_MAX)
            return false;
    }
    axis->extent = (int32_t)number;
    return true;
}

static bool read_axis(struct reader *reader, struct sp_text_axis *axis)
{
    do {
        const char *name;
        size_t length = read_name(reader, &name);
        if (length == 0 || axis->is_group || axis->count == SP_TEXT_MAX_PRODUCT)
            return false;
        axis->is_group = skip(reader, "..");
        if (isdigit((unsigned char)*name)) {
            if (!read_number(name, length, axis))
                return false;
            continue;
        }
        if (*name == '_') {
            axis->is_open = true;
            continue;
        }
        uint8_t factor;
        if (!add_factor(reader, name, length, &factor))
            return false;
        axis->factors[axis->count++] = factor;
        reader->text->factors[factor].is_group = axis->is_group;
    } while (skip(reader, "*"));
    /* A number of elements is a factor of its own in a product: "two*h; two = 2". */
    if (reader->is_strict && axis->count > 0 && (axis->extent > 0 || axis->is_open))
        return false;
    return !axis->is_group || axis->count < 2;
}

static bool read_operand(struct reader *reader, struct sp_text_operand *operand)
{
    uint32_t groups = 0;
    for (skip_blanks(reader); !skip(reader, "]"); skip_blanks(reader)) {
        if (operand->count == SP_TEXT_MAX_AXES || !read_axis(reader, &operand->axes[operand->count]))
            return false;
        groups += operand->axes[operand->count++].is_group;
    }
    (void)skip(reader, ".."); /* the last operand stands for more of them anyway */
    return groups <= 2;       /* two are i.. and j.. */
}

/* Up to the arrow, or the end of the operands. */
static bool read_operands(struct reader *reader, struct sp_text_operand *operands, uint8_t *ret_count)
{
    while (*reader->at != 0 && *reader->at != ';' && strncmp(reader->at, "->", 2) != 0) {
        if (!skip(reader, "[")) {
            if (reader->is_strict && *reader->at != ' ')
                return false;
            reader->at++; /* a blank, or a word: no tensor */
            continue;
        }
        if (*ret_count == SP_TEXT_MAX_OPERANDS || !read_operand(reader, &operands[(*ret_count)++]))
            return false;
    }
    return true;
}

struct kind {
    const char *word;
    enum sp_factor_kind kind;
    enum sp_combiner combiner;
};

static const struct kind *find_kind(const char *word, size_t length)
{
    static const struct kind kinds[] = {
        {"sum", SP_FACTOR_REDUCTION, SP_COMBINE_SUM},         {"max", SP_FACTOR_REDUCTION, SP_COMBINE_MAX},
        {"min", SP_FACTOR_REDUCTION, SP_COMBINE_MIN},         {"product", SP_FACTOR_REDUCTION, SP_COMBINE_PROD},
        {"softmax", SP_FACTOR_REDUCTION, SP_COMBINE_SOFTMAX}, {"moments", SP_FACTOR_REDUCTION, SP_COMBINE_MOMENTS},
        {"select", SP_FACTOR_REDUCTION, SP_COMBINE_SELECT},   {"whole", SP_FACTOR_REPLICATE, SP_COMBINE_NONE},
        {"moves", SP_FACTOR_PERMUTATION, SP_COMBINE_NONE},    {"sequential", SP_FACTOR_SEQUENTIAL, SP_COMBINE_NONE},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strncmp(kinds[i].word, word, length) == 0 && kinds[i].word[length] == 0)
            return &kinds[i];
    return NULL;
}

/* The length of the name that an expression is alone. */
static uint8_t lone_name(const char *expression, const char *end)
{
    const char *at = expression + strspn(expression, " "), *start = at;
    bool is_name = isalpha((unsigned char)*at) || *at == '_';
    while (at < end && (isalnum((unsigned char)*at) || *at == '_'))
        at++;
    size_t length = (size_t)(at - start);
    if (*at == ':') /* a default */
        at += 1 + strspn(at + 1, "0123456789");
    return is_name && length <= UINT8_MAX && at + strspn(at, " ") == end ? (uint8_t)length : 0;
}

/* "h*g = expression", up to the end of the clause; false, and nothing read, for another clause. What the expression says
   is read for each node (rule_text_shapes.c); here its form is checked. */
static bool read_equation(struct reader *reader)
{
    struct sp_rule_text *text = reader->text;
    struct sp_text_equation equation = {0};
    struct reader ahead = *reader;
    do {
        const char *name;
        skip_blanks(&ahead);
        size_t length = read_name(&ahead, &name);
        uint8_t factor = find_factor(text, name, length);
        if (length == 0 || factor == text->factor_count || equation.count == SP_TEXT_MAX_PRODUCT)
            return false;
        equation.factors[equation.count++] = factor;
    } while (skip(&ahead, "*"));
    ahead.at += strspn(ahead.at, " ");
    if (!skip(&ahead, "=") || text->equation_count == SP_TEXT_MAX_SIZES)
        return false;
    equation.expression = ahead.at + strspn(ahead.at, " ");
    const char *end = sp_text_expression_end(equation.expression);
    if (end == NULL)
        return false;
    uint8_t length = lone_name(equation.expression, end);
    if (find_factor(text, equation.expression, length) == text->factor_count)
        equation.attribute_length = length;
    text->equations[text->equation_count++] = equation;
    reader->at = end;
    return true;
}

/* Factors and their kind, as often as the clause has them; a clause that begins otherwise is a remark. */
static bool read_clause(struct reader *reader)
{
    struct sp_rule_text *text = reader->text;
    uint32_t named = 0; /* a bit for each factor that waits for its kind */
    if (read_equation(reader))
        return true;
    for (skip_blanks(reader); *reader->at != 0 && *reader->at != ';'; skip_blanks(reader)) {
        const char *word;
        size_t length = read_name(reader, &word);
        uint8_t factor = find_factor(text, word, length);
        const struct kind *kind = find_kind(word, length);
        if (length == 3 && strncmp(word, "all", 3) == 0) {
            named = ((uint32_t)1 << text->factor_count) - 1;
        } else if (length != 0 && factor < text->factor_count) {
            named |= (uint32_t)1 << factor;
            (void)skip(reader, "..");
        } else if (kind != NULL && (named != 0 || text->factor_count == 0)) {
            for (uint8_t i = 0; i < text->factor_count; i++) {
                if ((named >> i & 1) != 0) {
                    text->factors[i].kind = kind->kind;
                    text->factors[i].combiner = kind->combiner;
                }
            }
            named = 0;
        } else if (reader->is_strict) {
            reader->at = word;
            return false;
        } else {
            reader->at += strcspn(reader->at, ";");
        }
    }
    return named == 0 || text->factor_count == 0;
}

static bool parse(struct reader *reader)
{
    struct sp_rule_text *text = reader->text;
    *text = (struct sp_rule_text){.is_read = true};
    if (!read_operands(reader, text->inputs, &text->input_count) || !skip(reader, "->") ||
        !read_operands(reader, text->outputs, &text->output_count))
        return false;
    while (skip(reader, ";"))
        if (!read_clause(reader))
            return false;
    return *reader->at == 0;
}

bool sp_rule_text_parse(const char *text, struct sp_rule_text *ret_text)
{
    struct reader reader = {text, ret_text, false};
    return parse(&reader);
}

/* Whether names are of one axis or of any number of axes, but not both. */
static bool tells_groups(const struct sp_rule_text *text, const struct sp_text_operand *operands, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < operands[i].count; k++) {
            const struct sp_text_axis *axis = &operands[i].axes[k];
            for (uint32_t j = 0; j < axis->count; j++) {
                if (text->factors[axis->factors[j]].is_group != axis->is_group)
                    return false;
            }
        }
    }
    return true;
}

bool sp_rule_text_parse_strict(const char *text, struct sp_rule_text *ret_text, const char **ret_at)
{
    struct reader reader = {text, ret_text, true};
    bool is_fine = parse(&reader);
    *ret_at = reader.at;
    return is_fine && tells_groups(ret_text, ret_text->inputs, ret_text->input_count) &&
           tells_groups(ret_text, ret_text->outputs, ret_text->output_count);
}

const struct sp_rule_text *sp_rule_text_of(struct sp_op_context *context, const struct sp_op *op,
                                           struct sp_rule_text *room)
{
    if (op->form == NULL && op->read != NULL && op->read->is_read)
        return op->read;
    const char *text = op->form != NULL ? op->form(context) : op->text;
    return text != NULL && sp_rule_text_parse(text, room) ? room : NULL;
}

/* ---- axes of an operand ----------------------------------------------------------------------------------------- */

/* Whether an operand of too few axes lacks this one: in the first round only parallel factors. */
static bool may_lack(const struct sp_rule_text *text, const struct sp_text_axis *axis, uint32_t round)
{
    return !axis->is_group &&
           (round > 0 || axis->count == 0 || text->factors[axis->factors[0]].kind == SP_FACTOR_PARALLEL);
}

uint32_t sp_text_lay_out(const struct sp_rule_text *text, const struct sp_text_operand *operand, uint32_t rank,
                         bool is_left_out[SP_TEXT_MAX_AXES])
{
    uint32_t axes = 0, groups = 0;
    for (uint32_t i = 0; i < operand->count; i++) {
        groups += operand->axes[i].is_group;
        axes += !operand->axes[i].is_group && !is_left_out[i];
    }
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < operand->count && axes > rank; i++) {
            if (!is_left_out[i] && may_lack(text, &operand->axes[i], round)) {
                is_left_out[i] = true;
                axes--;
            }
        }
    }
    return groups != 0 ? rank - axes : 0;
}
