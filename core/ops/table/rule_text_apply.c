#include <stdio.h>
#include <string.h>

#include "ops/table/factors.h"
#include "ops/table/rule_text_internal.h"
#include "ops/table/shape_helpers.h"

/* A text as it is laid over the operands of one node. */
struct filling {
    struct sp_op_context *context;
    struct sp_rule *rule;
    const struct sp_rule_text *text;
    uint32_t size_count;
    const struct sp_text_size *sizes;
    struct {
        bool is_made, is_held, is_missing; /* the rule has it; some input has an axis for it; one lacks it */
        uint8_t first;                     /* its index in the rule; of a group the first one's */
        uint32_t length;                   /* of a group */
    } factors[SP_TEXT_MAX_FACTORS];
};

/* An operand that is there, its text, and which axes of the text it has. */
struct operand {
    const struct sp_text_operand *text;
    const struct sp_shape *shape;
    bool is_output;
    uint32_t index, group_length;
    bool is_left_out[SP_TEXT_MAX_AXES];
};

const char *sp_window_axis_name(char text[SP_FACTOR_NAME_SIZE], const char *prefix, uint32_t rank, uint32_t axis)
{
    if (rank <= 3)
        (void)snprintf(text, SP_FACTOR_NAME_SIZE, "%s%c", prefix, "dhw"[3 - rank + axis]);
    else
        (void)snprintf(text, SP_FACTOR_NAME_SIZE, "%ss%u", prefix, axis);
    return text;
}

uint8_t sp_rule_named(const struct sp_rule *rule, const char *name)
{
    for (uint32_t i = 0; i < rule->factor_count; i++)
        if (strcmp(rule->factors[i].name, name) == 0)
            return (uint8_t)i;
    return SP_RULE_NO_FACTOR;
}

void sp_rule_term_named(struct sp_rule *rule, double coefficient, const char *names)
{
    struct sp_factor_list list = {0};
    char name[SP_FACTOR_NAME_SIZE];
    int length;
    for (; sscanf(names, " %11s%n", name, &length) == 1; names += length) {
        uint8_t factor = sp_rule_named(rule, name);
        if (factor != SP_RULE_NO_FACTOR)
            sp_factor_list_add(&list, factor);
    }
    sp_rule_term_list(rule, coefficient, &list);
}

void sp_rule_term_all(struct sp_rule *rule, double coefficient)
{
    struct sp_factor_list all = {0};
    for (uint32_t i = 0; i < rule->factor_count; i++)
        sp_factor_list_add(&all, (uint8_t)i);
    sp_rule_term_list(rule, coefficient, &all);
}

static const struct sp_shape *shape_of(const struct sp_op_context *context, bool is_output, uint32_t index)
{
    const struct sp_node *node = context->node;
    const struct sp_value *value = is_output ? node->outputs[index] : node->inputs[index];
    return value == NULL ? NULL : &value->type.shape;
}

/* ---- which axes an operand has ---------------------------------------------------------------------------------- */

/* False where the operand is omitted or the text does not speak of it. */
static bool find_operand(struct filling *filling, bool is_output, uint32_t index, struct operand *ret_operand)
{
    const struct sp_rule_text *text = filling->text;
    const struct sp_shape *shape = shape_of(filling->context, is_output, index);
    const struct sp_text_operand *said = sp_text_operand_of(text, is_output, index);
    if (shape == NULL || said == NULL)
        return false;
    struct operand operand = {.text = said, .shape = shape, .is_output = is_output, .index = index};
    for (uint32_t i = 0; is_output && i < said->count; i++) {
        const struct sp_text_axis *axis = &said->axes[i];
        operand.is_left_out[i] = !axis->is_group && axis->count == 1 && filling->factors[axis->factors[0]].is_missing &&
                                 !filling->factors[axis->factors[0]].is_held;
    }
    operand.group_length = sp_text_lay_out(text, said, shape->rank, operand.is_left_out);
    *ret_operand = operand;
    return true;
}

/* Which factors inputs have and lack, and how long groups are. */
static void measure(struct filling *filling, const struct operand *operand)
{
    for (uint32_t i = 0; i < operand->text->count; i++) {
        const struct sp_text_axis *axis = &operand->text->axes[i];
        for (uint32_t k = 0; k < axis->count; k++) {
            uint8_t factor = axis->factors[k];
            if (!operand->is_output && operand->is_left_out[i])
                filling->factors[factor].is_missing = true;
            else if (!operand->is_output)
                filling->factors[factor].is_held = true;
            if (axis->is_group && operand->group_length > filling->factors[factor].length)
                filling->factors[factor].length = operand->group_length;
        }
    }
}

/* ---- making factors --------------------------------------------------------------------------------------------- */

static bool is_one_of(const char *name, const char *letters)
{
    return name[1] == 0 && strchr(letters, name[0]) != NULL;
}

/* The name of a group's member, or of a single factor. `axis` is that of the operand. */
static void name_factor(const struct filling *filling, uint8_t factor, uint32_t member, uint32_t axis,
                        char text[SP_FACTOR_NAME_SIZE])
{
    const char *name = filling->text->factors[factor].name;
    bool is_group = filling->text->factors[factor].is_group;
    if (is_one_of(name, is_group ? "ijde" : "j"))
        (void)snprintf(text, SP_FACTOR_NAME_SIZE, "d%u", axis);
    else if (!is_group)
        (void)snprintf(text, SP_FACTOR_NAME_SIZE, "%s", name);
    else if (strcmp(name, "h") == 0 || strcmp(name, "kh") == 0)
        (void)sp_window_axis_name(text, name[0] == 'k' ? "k" : "", filling->factors[factor].length, member);
    else
        (void)snprintf(text, SP_FACTOR_NAME_SIZE, "%.6s%u", name, member);
}

static uint8_t make_one(struct filling *filling, uint8_t factor, const char *name, struct sp_dim extent)
{
    const struct sp_text_factor *said = &filling->text->factors[factor];
    uint8_t index = sp_rule_factor(filling->rule, name, said->kind, extent);
    if (index < filling->rule->factor_count)
        filling->rule->factors[index].combiner = said->combiner;
    return index;
}

static struct sp_dim size_of(const struct filling *filling, uint8_t factor)
{
    for (uint32_t i = 0; i < filling->size_count; i++)
        if (strcmp(filling->sizes[i].name, filling->text->factors[factor].name) == 0)
            return filling->sizes[i].extent;
    return sp_dim_unknown();
}

static void make_factor(struct filling *filling, uint8_t factor, struct sp_dim extent)
{
    struct sp_dim size = size_of(filling, factor);
    filling->factors[factor].is_made = true;
    filling->factors[factor].first =
        make_one(filling, factor, filling->text->factors[factor].name, size.kind != SP_DIM_UNKNOWN ? size : extent);
}

/* The factors of an axis that the rule does not have yet; also takes a known extent for one that only inputs have. */
static void make_axis(struct filling *filling, const struct operand *operand, const struct sp_text_axis *text,
                      uint32_t axis)
{
    char name[SP_FACTOR_NAME_SIZE];
    for (uint32_t k = 0; k < text->count; k++) {
        uint8_t factor = text->factors[k];
        bool is_alone = text->count == 1;
        if (text->is_group) {
            uint32_t length = filling->factors[factor].length;
            if (filling->factors[factor].is_made || operand->group_length < length)
                continue;
            for (uint32_t member = 0; member < length; member++) {
                name_factor(filling, factor, member, axis + member, name);
                uint8_t index = make_one(filling, factor, name, operand->shape->dims[axis + member]);
                filling->factors[factor].first = member == 0 ? index : filling->factors[factor].first;
            }
            filling->factors[factor].is_made = true;
        } else if (!filling->factors[factor].is_made) {
            make_factor(filling, factor, is_alone ? operand->shape->dims[axis] : sp_dim_unknown());
            name_factor(filling, factor, 0, axis, filling->rule->factors[filling->factors[factor].first].name);
        } else if (is_alone) {
            struct sp_factor *made = &filling->rule->factors[filling->factors[factor].first];
            bool is_better = made->kind == SP_FACTOR_REDUCTION && !sp_dim_is_known(made->extent) &&
                             sp_dim_is_known(operand->shape->dims[axis]);
            if (is_better || made->extent.kind == SP_DIM_UNKNOWN)
                made->extent = operand->shape->dims[axis];
        }
    }
}

/* Of an axis of several factors the one whose extent is open has what the others leave. */
static void divide_axis(struct filling *filling, const struct operand *operand, const struct sp_text_axis *text,
                        uint32_t axis)
{
    struct sp_factor *open = NULL;
    if (text->is_group && operand->group_length == 0)
        return;
    struct sp_dim rest = operand->shape->dims[axis];
    for (uint32_t k = 0; k < text->count; k++) {
        struct sp_factor *factor = &filling->rule->factors[filling->factors[text->factors[k]].first];
        if (factor->extent.kind != SP_DIM_UNKNOWN)
            rest = sp_dim_exact_div(filling->context->dims, rest, factor->extent);
        else if (open != NULL)
            return;
        else
            open = factor;
    }
    if (open != NULL)
        open->extent = rest;
}

static void map_axis(struct filling *filling, const struct operand *operand, const struct sp_text_axis *text,
                     uint32_t axis)
{
    struct sp_rule *rule = filling->rule;
    for (uint32_t k = 0; k < text->count; k++) {
        uint8_t first = filling->factors[text->factors[k]].first;
        uint32_t members = text->is_group ? operand->group_length : 1;
        uint32_t missing = text->is_group ? filling->factors[text->factors[k]].length - members : 0;
        for (uint32_t i = 0; i < members; i++) {
            uint8_t factor = (uint8_t)(first + missing + i);
            bool is_broadcast =
                factor < rule->factor_count &&
                (text->count == 1 ? !sp_axis_takes(operand->shape->dims[axis + i], rule->factors[factor].extent)
                                  : sp_dim_is(operand->shape->dims[axis], 1));
            if (operand->is_output)
                sp_rule_map_output(rule, operand->index, axis + i, factor);
            else if (!is_broadcast)
                sp_rule_map_input(rule, operand->index, axis + i, factor);
        }
    }
}

typedef void visit_axis(struct filling *filling, const struct operand *operand, const struct sp_text_axis *text,
                        uint32_t axis);

/* Each axis of the text that an operand has, with the operand's axis that it is; aligned at the right. */
static void each_axis(struct filling *filling, bool of_outputs, visit_axis *visit)
{
    uint32_t count = of_outputs ? filling->rule->output_count : filling->rule->input_count;
    for (uint32_t index = 0; index < count; index++) {
        struct operand operand;
        if (!find_operand(filling, of_outputs, index, &operand))
            continue;
        uint32_t axis = operand.shape->rank;
        uint32_t starts[SP_TEXT_MAX_AXES] = {0};
        for (uint32_t i = operand.text->count; i-- > 0;) {
            uint32_t width = operand.is_left_out[i] ? 0 : operand.text->axes[i].is_group ? operand.group_length : 1;
            starts[i] = axis -= width;
        }
        for (uint32_t i = 0; i < operand.text->count; i++)
            if (!operand.is_left_out[i])
                visit(filling, &operand, &operand.text->axes[i], starts[i]);
    }
}

static void fill(struct filling *filling)
{
    struct operand operand;
    for (uint32_t i = 0; i < filling->rule->input_count; i++)
        if (find_operand(filling, false, i, &operand))
            measure(filling, &operand);
    for (uint32_t i = 0; i < filling->rule->output_count; i++)
        if (find_operand(filling, true, i, &operand))
            measure(filling, &operand);
    for (uint32_t i = 0; i < filling->size_count; i++)
        for (uint8_t factor = 0; factor < filling->text->factor_count; factor++)
            if (strcmp(filling->text->factors[factor].name, filling->sizes[i].name) == 0 &&
                (filling->factors[factor].is_held || !filling->factors[factor].is_missing))
                make_factor(filling, factor, sp_dim_unknown());
    each_axis(filling, true, make_axis);
    each_axis(filling, false, make_axis);
    each_axis(filling, true, divide_axis);
    each_axis(filling, false, divide_axis);
    each_axis(filling, true, map_axis);
    each_axis(filling, false, map_axis);
}

/* ---- axes that attributes name ---------------------------------------------------------------------------------- */

/* The factors of input 0 in its order; j.. are those of `axes`. */
static void fill_by_axes(struct filling *filling, const struct sp_op_axes *axes)
{
    struct sp_rule *rule = filling->rule;
    const struct sp_shape *x = shape_of(filling->context, false, 0);
    const struct sp_text_factor *named = &filling->text->factors[1];
    uint32_t kept = 0;
    for (uint32_t axis = 0; axis < x->rank; axis++) {
        char name[SP_FACTOR_NAME_SIZE];
        bool is_named = !axes->is_unknown && (axes->mask >> axis & 1) != 0;
        enum sp_factor_kind kind = is_named ? named->kind : axes->is_unknown ? SP_FACTOR_REPLICATE : SP_FACTOR_PARALLEL;
        (void)snprintf(name, sizeof name, "d%u", axis);
        uint8_t factor = sp_rule_factor(rule, name, kind, x->dims[axis]);
        if (is_named && factor < rule->factor_count)
            rule->factors[factor].combiner = named->combiner;
        sp_rule_map_input(rule, 0, axis, factor);
        for (uint32_t input = 1; input < rule->input_count; input++) {
            const struct sp_shape *own = shape_of(filling->context, false, input);
            uint32_t missing = own != NULL && own->rank <= x->rank ? x->rank - own->rank : x->rank;
            bool is_meant = input < filling->text->input_count && filling->text->inputs[input].count != 0;
            if (is_meant && axis >= missing && sp_axis_takes(own->dims[axis - missing], x->dims[axis]))
                sp_rule_map_input(rule, input, axis - missing, factor);
        }
        for (uint32_t output = 0; output < rule->output_count; output++) {
            uint32_t last = (uint32_t)filling->text->output_count - 1;
            const struct sp_text_operand *text = &filling->text->outputs[output < last ? output : last];
            bool has_named = text->count == 2 && text->axes[1].count != 0;
            bool is_long = rule->outputs[output].rank == x->rank;
            if (rule->outputs[output].rank != 0 && !axes->is_unknown && (!is_named || has_named))
                sp_rule_map_output(rule, output, is_long ? axis : kept, factor);
        }
        kept += !is_named;
    }
}

/* ---- the interface ---------------------------------------------------------------------------------------------- */

/* Lays the text over the operands, with the extents that its equations tell. */
static enum sp_status fill_with_equations(struct filling *filling)
{
    struct sp_text_size sizes[SP_TEXT_MAX_FACTORS];
    if (filling->text->equation_count == 0) {
        fill(filling);
        return SP_OK;
    }
    enum sp_status status = sp_text_extents(filling->context, filling->text, sizes, &filling->size_count);
    filling->sizes = sizes;
    if (status == SP_OK)
        fill(filling);
    filling->sizes = NULL;
    return status;
}

static enum sp_status broken(struct sp_op_context *context, const char *text)
{
    return sp_fail(context->err, SP_ERR_INTERNAL, "BROKEN_RULE", "The text '%s' is not a rule.", text);
}

enum sp_status sp_rule_from_text(struct sp_op_context *context, struct sp_rule *rule, const char *text, uint32_t count,
                                 const struct sp_text_size *sizes)
{
    struct sp_rule_text read;
    struct filling filling = {.context = context, .rule = rule, .text = &read, .size_count = count, .sizes = sizes};
    if (!sp_rule_text_parse(text, &read))
        return broken(context, text);
    if (count == 0)
        return fill_with_equations(&filling);
    fill(&filling);
    return SP_OK;
}

enum sp_status sp_rule_from_entry(struct sp_op_context *context, struct sp_rule *rule, const struct sp_op *op)
{
    struct sp_rule_text read;
    struct filling filling = {.context = context, .rule = rule, .text = sp_rule_text_of(context, op, &read)};
    if (filling.text == NULL)
        return broken(context, op->text);
    if (op->axes == NULL)
        return fill_with_equations(&filling);
    struct sp_op_axes axes = {0};
    enum sp_status status = op->axes(context, rule->inputs[0].rank, &axes);
    if (status == SP_OK)
        fill_by_axes(&filling, &axes);
    return status;
}

enum sp_status sp_op_fill_rule(struct sp_op_context *context, struct sp_rule *rule, const struct sp_op *op)
{
    if (op->rule != NULL)
        return op->rule(context, rule);
    enum sp_status status = sp_rule_from_entry(context, rule, op);
    double flops = op->flops;
    for (uint32_t input = 0; input < rule->input_count; input++)
        flops += context->node->inputs[input] != NULL ? op->flops_each : 0;
    if (status == SP_OK && op->work != NULL)
        sp_rule_terms_of(rule, op->work);
    else if (status == SP_OK && flops != 0)
        sp_rule_term_all(rule, flops);
    if (op->flags & SP_OP_METADATA)
        rule->bytes = sp_output_bytes(context, 0);
    if (status == SP_OK && op->traffic != NULL && op->rule == NULL)
        op->traffic(context, rule);
    return status;
}
