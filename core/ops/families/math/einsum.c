/*
 * Einsum: every label of the equation is a factor.
 *
 *     "bik,bkj->bij"      b, i, j parallel, k reduction (sum)
 *
 * A label that occurs twice in one operand walks its diagonal: no split of the axes gives a split of the diagonal, so
 * it stays whole. The axes that an ellipsis stands for broadcast from the right and have factors e0, e1, ...
 *
 * FLOPs: operands are contracted pairwise from the left, labels that no later operand and not the result have being
 * summed on the way (as ONNX Runtime does it): 2 at each point of the labels of a pair, 1 when nothing is summed.
 */
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "ops/table/factors.h"
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

#define LETTERS 52
#define LABELS  (LETTERS + SP_MAX_RANK) /* the letters in ASCII order, then the axes of the ellipsis */

struct term {
    const char *text; /* in the equation */
    size_t size;
    uint32_t rank;
    uint8_t *labels; /* one for each axis */
};

struct equation {
    uint32_t operand_count;
    uint32_t ellipsis_rank; /* axes that the ellipsis stands for, at most */
    struct term *operands;
    struct term result;
    struct sp_dim extents[LABELS];
    bool is_used[LABELS], is_in_result[LABELS], is_diagonal[LABELS];
};

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static uint8_t letter_label(char c)
{
    return (uint8_t)(c <= 'Z' ? c - 'A' : 26 + (c - 'a'));
}

static enum sp_status fail(struct sp_op_context *context, const char *why)
{
    return sp_op_fail(context, "BAD_EQUATION", "its equation '%.120s' %s",
                      sp_node_string(context->node, "equation", ""), why);
}

/* Letters and ellipses of a term; anything else than these and blanks is an error. */
static enum sp_status scan_term(struct sp_op_context *context, const struct term *term, uint32_t *ret_letters,
                                bool *ret_ellipsis)
{
    uint32_t letters = 0, ellipses = 0;
    for (size_t i = 0; i < term->size; i++) {
        if (is_letter(term->text[i])) {
            letters++;
        } else if (term->size - i >= 3 && memcmp(term->text + i, "...", 3) == 0) {
            ellipses++;
            i += 2;
        } else if (term->text[i] != ' ') {
            return fail(context, "holds something else than letters, '...', ',' and '->'");
        }
    }
    if (ellipses > 1)
        return fail(context, "has two ellipses in one term");
    if (letters > SP_MAX_RANK)
        return fail(context, "has more labels in a term than a tensor has axes");
    *ret_letters = letters;
    *ret_ellipsis = ellipses == 1;
    return SP_OK;
}

/* The labels of a term of which `ellipsis` axes are the last ones of the equation's ellipsis. */
static enum sp_status label_term(struct sp_op_context *context, const struct equation *equation, struct term *term,
                                 uint32_t letters, uint32_t ellipsis)
{
    term->rank = 0;
    term->labels = SP_NEW_ARRAY(context->arena, (size_t)letters + ellipsis, uint8_t);
    if (term->labels == NULL)
        return sp_fail_memory(context->err);
    for (size_t i = 0; i < term->size; i++) {
        if (is_letter(term->text[i])) {
            term->labels[term->rank++] = letter_label(term->text[i]);
        } else if (term->text[i] == '.') {
            for (uint32_t k = 0; k < ellipsis; k++)
                term->labels[term->rank++] = (uint8_t)(LETTERS + equation->ellipsis_rank - ellipsis + k);
            i += 2;
        }
    }
    return SP_OK;
}

/* Cuts the left side at commas, and finds the right side (text NULL when there is none). */
static enum sp_status split(struct sp_op_context *context, struct equation *equation)
{
    const char *text = sp_node_string(context->node, "equation", NULL);
    if (text == NULL)
        return sp_op_fail(context, "ATTRIBUTE_MISSING", "attribute 'equation' is required");
    const char *arrow = strstr(text, "->");
    const char *end = arrow != NULL ? arrow : text + strlen(text);
    equation->operand_count = context->node->input_count;
    equation->operands = SP_NEW_ARRAY(context->arena, equation->operand_count, struct term);
    if (equation->operands == NULL)
        return sp_fail_memory(context->err);
    for (uint32_t i = 0; i < equation->operand_count; i++) {
        const char *comma = memchr(text, ',', (size_t)(end - text));
        if ((comma == NULL) != (i == equation->operand_count - 1))
            return fail(context, "has another number of terms than the node has inputs");
        const char *stop = comma != NULL ? comma : end;
        equation->operands[i].text = text;
        equation->operands[i].size = (size_t)(stop - text);
        text = comma != NULL ? comma + 1 : end;
    }
    if (arrow != NULL) {
        equation->result.text = arrow + 2;
        equation->result.size = strlen(arrow + 2);
    }
    return SP_OK;
}

/* Joins the extents of a label: numbers win over symbols, 1 broadcasts. */
static enum sp_status add_extent(struct sp_op_context *context, struct sp_dim *extent, bool is_first, struct sp_dim own)
{
    if (!is_first && sp_dim_is(own, 1))
        return SP_OK;
    bool takes_own = is_first || sp_dim_is(*extent, 1) || extent->kind == SP_DIM_UNKNOWN ||
                     (extent->kind == SP_DIM_SYMBOLIC && sp_dim_is_known(own));
    if (!takes_own && sp_dim_is_known(*extent) && sp_dim_is_known(own) && extent->value != own.value)
        return sp_op_fail(context, "SHAPES_DISAGREE", "one label of its equation stands for %lld and for %lld elements",
                          (long long)extent->value, (long long)own.value);
    if (takes_own)
        *extent = own;
    return SP_OK;
}

static enum sp_status read_operands(struct sp_op_context *context, struct equation *equation)
{
    uint32_t letters = 0;
    bool has_ellipsis = false;
    for (uint32_t i = 0; i < equation->operand_count; i++) {
        const struct sp_shape *shape = sp_in_shape(context, i);
        enum sp_status status = scan_term(context, &equation->operands[i], &letters, &has_ellipsis);
        if (status != SP_OK)
            return status;
        if (shape == NULL)
            return fail(context, "has a term for an input that is left out");
        if (shape->rank < letters || (!has_ellipsis && shape->rank != letters))
            return fail(context, "does not have a label for each axis of each input");
        if (shape->rank - letters > equation->ellipsis_rank)
            equation->ellipsis_rank = shape->rank - letters;
    }
    if (equation->ellipsis_rank > SP_MAX_RANK)
        return fail(context, "has an ellipsis for too many axes");
    for (uint32_t i = 0; i < equation->operand_count; i++) {
        const struct sp_shape *shape = sp_in_shape(context, i);
        bool is_here[LABELS] = {false};
        enum sp_status status = scan_term(context, &equation->operands[i], &letters, &has_ellipsis);
        if (status == SP_OK)
            status = label_term(context, equation, &equation->operands[i], letters, shape->rank - letters);
        for (uint32_t axis = 0; status == SP_OK && axis < shape->rank; axis++) {
            uint8_t label = equation->operands[i].labels[axis];
            status = add_extent(context, &equation->extents[label], !equation->is_used[label], shape->dims[axis]);
            equation->is_diagonal[label] = equation->is_diagonal[label] || is_here[label];
            equation->is_used[label] = is_here[label] = true;
        }
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

/* Without a right side: the ellipsis, then the letters that occur once, in ASCII order. */
static enum sp_status implicit_result(struct sp_op_context *context, struct equation *equation)
{
    uint32_t occurrences[LABELS] = {0};
    struct term *result = &equation->result;
    for (uint32_t i = 0; i < equation->operand_count; i++) {
        for (uint32_t axis = 0; axis < equation->operands[i].rank; axis++)
            occurrences[equation->operands[i].labels[axis]]++;
    }
    result->rank = 0;
    result->labels = SP_NEW_ARRAY(context->arena, LABELS, uint8_t);
    if (result->labels == NULL)
        return sp_fail_memory(context->err);
    for (uint32_t i = 0; i < equation->ellipsis_rank; i++)
        result->labels[result->rank++] = (uint8_t)(LETTERS + i);
    for (uint8_t label = 0; label < LETTERS; label++) {
        if (occurrences[label] == 1)
            result->labels[result->rank++] = label;
    }
    return SP_OK;
}

static enum sp_status read_equation(struct sp_op_context *context, struct equation *equation)
{
    uint32_t letters = 0;
    bool has_ellipsis = false;
    enum sp_status status = split(context, equation);
    if (status == SP_OK)
        status = read_operands(context, equation);
    if (status != SP_OK)
        return status;
    struct term *result = &equation->result;
    if (result->text == NULL) {
        status = implicit_result(context, equation);
    } else {
        status = scan_term(context, result, &letters, &has_ellipsis);
        if (status == SP_OK)
            status = label_term(context, equation, result, letters, has_ellipsis ? equation->ellipsis_rank : 0);
    }
    for (uint32_t axis = 0; status == SP_OK && axis < result->rank; axis++) {
        uint8_t label = result->labels[axis];
        if (!equation->is_used[label])
            status = fail(context, "has a label in its result that no input has");
        else if (equation->is_in_result[label])
            status = fail(context, "has a label twice in its result");
        equation->is_in_result[label] = true;
    }
    return status;
}

static enum sp_status shapes_einsum(struct sp_op_context *context)
{
    struct equation equation = {0};
    enum sp_dtype dtype = sp_in_dtype(context, 0);
    for (uint32_t i = 0; i < context->node->input_count; i++) {
        if (sp_in_shape(context, i) == NULL)
            return sp_set_output_unranked(context, 0, dtype);
    }
    enum sp_status status = read_equation(context, &equation);
    if (status != SP_OK)
        return status;
    struct sp_dim *dims = sp_new_dims(context, equation.result.rank);
    if (dims == NULL)
        return sp_fail_memory(context->err);
    for (uint32_t axis = 0; axis < equation.result.rank; axis++)
        dims[axis] = equation.extents[equation.result.labels[axis]];
    return sp_set_output(context, 0, dtype, equation.result.rank, dims);
}

/* ---- the rule ------------------------------------------------------------------------------------------------- */

static uint8_t label_factor(const struct equation *equation, struct sp_rule *rule, uint8_t label)
{
    char name[SP_FACTOR_NAME_SIZE];
    struct sp_dim extent = equation->extents[label];
    if (label < LETTERS)
        (void)snprintf(name, sizeof name, "%c", label < 26 ? 'A' + label : 'a' + (label - 26));
    else
        (void)snprintf(name, sizeof name, "e%d", label - LETTERS);
    if (equation->is_diagonal[label])
        return sp_rule_factor(rule, name, SP_FACTOR_REPLICATE, extent);
    if (equation->is_in_result[label])
        return sp_rule_factor(rule, name, SP_FACTOR_PARALLEL, extent);
    return sp_factor_reduction(rule, name, extent, SP_COMBINE_SUM);
}

/* One term over the labels in `set`; `coefficient` each. */
static void add_term(struct sp_rule *rule, double coefficient, const bool *set, const uint8_t *factors)
{
    struct sp_factor_list list = {0};
    for (uint32_t label = 0; label < LABELS; label++) {
        if (set[label])
            sp_factor_list_add(&list, factors[label]);
    }
    sp_rule_term_list(rule, coefficient, &list);
}

static void add_terms(const struct equation *equation, struct sp_rule *rule, const uint8_t *factors)
{
    bool set[LABELS] = {false};
    for (uint32_t axis = 0; axis < equation->operands[0].rank; axis++)
        set[equation->operands[0].labels[axis]] = true;
    if (equation->operand_count == 1) {
        if (equation->operands[0].rank > equation->result.rank)
            add_term(rule, 1, set, factors);
        return;
    }
    if (equation->operand_count - 1 > SP_RULE_MAX_TERMS) { /* as one loop over everything */
        add_term(rule, (double)equation->operand_count, equation->is_used, factors);
        return;
    }
    for (uint32_t i = 1; i < equation->operand_count; i++) {
        bool is_needed[LABELS], is_summed = false;
        memcpy(is_needed, equation->is_in_result, sizeof is_needed);
        for (uint32_t later = i + 1; later < equation->operand_count; later++) {
            for (uint32_t axis = 0; axis < equation->operands[later].rank; axis++)
                is_needed[equation->operands[later].labels[axis]] = true;
        }
        for (uint32_t axis = 0; axis < equation->operands[i].rank; axis++)
            set[equation->operands[i].labels[axis]] = true;
        for (uint32_t label = 0; label < LABELS; label++)
            is_summed = is_summed || (set[label] && !is_needed[label]);
        add_term(rule, is_summed ? 2 : 1, set, factors);
        for (uint32_t label = 0; label < LABELS; label++)
            set[label] = set[label] && is_needed[label];
    }
}

static enum sp_status rule_einsum(struct sp_op_context *context, struct sp_rule *rule)
{
    struct equation equation = {0};
    uint8_t factors[LABELS] = {0};
    enum sp_status status = read_equation(context, &equation);
    if (status != SP_OK)
        return status;
    for (uint32_t label = 0; label < LABELS; label++) {
        if (equation.is_used[label])
            factors[label] = label_factor(&equation, rule, (uint8_t)label);
    }
    for (uint32_t i = 0; i < equation.operand_count; i++) {
        const struct sp_shape *shape = sp_in_shape(context, i);
        for (uint32_t axis = 0; axis < shape->rank; axis++) {
            uint8_t label = equation.operands[i].labels[axis];
            if (sp_axis_takes(shape->dims[axis], equation.extents[label]))
                sp_rule_map_input(rule, i, axis, factors[label]);
        }
    }
    for (uint32_t axis = 0; axis < equation.result.rank; axis++)
        sp_rule_map_output(rule, 0, axis, factors[equation.result.labels[axis]]);
    add_terms(&equation, rule, factors);
    return SP_OK;
}

const struct sp_op sp_ops_einsum[] = {
    SP_ENTRY("", "Einsum", 12, 0, 1, UINT32_MAX, 1, 1, "labels are factors; labels not in the result sum",
             "ONNX operator Einsum (12), numpy.einsum", .shapes = shapes_einsum, .rule = rule_einsum),
    {.name = NULL},
};
