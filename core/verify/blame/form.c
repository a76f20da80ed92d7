/* Nodes beside those of the original that they are parts of: what they read, and how they differ. */
#include <string.h>

#include "base/limits.h"
#include "verify/blame/blame.h"

static const char *base_name(struct sp_verification *all, const char *name)
{
    const char *at = strrchr(name, '@');
    const char *base = at != NULL && at != name ? sp_arena_string(all->arena, name, (size_t)(at - name)) : name;
    return base != NULL ? base : name;
}

/* A node of another rank, or of a simulation, that makes another part of the same value of the original. */
const struct sp_node *sp_blame_original_node(struct sp_verification *all, const struct sp_node *node,
                                             const struct sp_value *result)
{
    const struct sp_graph *graph = all->original.model->graph;
    const struct sp_value *value = result != NULL ? sp_original_value(all, result->name) : NULL;
    const char *name = base_name(all, node->name);
    if (value != NULL && value->producer != NULL)
        return value->producer;
    for (uint32_t i = 0; name[0] != '\0' && i < graph->node_count; i++) {
        if (strcmp(graph->nodes[i].name, name) == 0)
            return &graph->nodes[i];
    }
    return NULL;
}

const char *sp_blame_describe(struct sp_verification *all, const struct sp_verify_run *run, const struct sp_node *node)
{
    struct sp_buf buf;
    sp_buf_init(&buf, 4096);
    sp_buf_printf(&buf, "%s of", node->op_type);
    for (uint32_t i = 0; i < node->input_count && i < 8; i++) {
        const struct sp_value *value = node->inputs[i];
        const struct sp_outcome *outcome = value != NULL ? sp_run_outcome(run, value) : NULL;
        if (value == NULL)
            continue;
        if (run != &all->original && outcome != NULL && outcome->of == NULL && sp_is_variable(outcome->numbers))
            sp_buf_printf(&buf, "%s '%.200s' (no part of the original)", i > 0 ? "," : "", value->name);
        else
            sp_buf_printf(&buf, "%s '%.200s'", i > 0 ? "," : "",
                          outcome != NULL && outcome->of != NULL ? outcome->of->name : value->name);
    }
    for (uint32_t i = 0; i < node->attribute_count; i++) {
        const struct sp_attribute *a = &node->attributes[i];
        if (a->type == SP_ATTR_INT)
            sp_buf_printf(&buf, ", %.60s %lld", a->name, (long long)a->i);
        else if (a->type == SP_ATTR_FLOAT)
            sp_buf_printf(&buf, ", %.60s %g", a->name, a->f);
    }
    const char *text = buf.failed ? NULL : sp_arena_string(all->arena, buf.data, buf.size);
    sp_buf_release(&buf);
    return text;
}

const struct sp_numbers *sp_blame_constant_of(const struct sp_verify_run *run, const struct sp_value *value)
{
    const struct sp_outcome *outcome = value != NULL ? sp_run_outcome(run, value) : NULL;
    return outcome != NULL && outcome->numbers != NULL && outcome->numbers->is_known ? outcome->numbers : NULL;
}

static bool has_equal_numbers(const struct sp_numbers *a, const struct sp_numbers *b)
{
    for (uint64_t i = 0; i < a->count; i++) {
        if (a->items[i].field != b->items[i].field)
            return false;
    }
    return true;
}

/* Whether a node that an operator was taken apart into adds a number under a root that is not the operator's epsilon. */
static bool has_other_epsilon(const struct sp_verify_run *run, const struct sp_node *node,
                              const struct sp_node *expected)
{
    const struct sp_attribute *epsilon = sp_node_attribute(expected, "epsilon");
    const struct sp_value *sum = node->output_count > 0 ? node->outputs[0] : NULL;
    if (sum == NULL || sum->use_count != 1 || strcmp(sum->uses[0].node->op_type, "Sqrt") != 0)
        return false;
    for (uint32_t i = 0; epsilon != NULL && strcmp(node->op_type, "Add") == 0 && i < node->input_count; i++) {
        const struct sp_numbers *x = sp_blame_constant_of(run, node->inputs[i]);
        if (x != NULL && x->count == 1 && sp_dtype_is_float(x->dtype))
            return fabs(x->items[0].real - epsilon->f) > SP_CONSTANT_TOLERANCE * fabs(epsilon->f);
    }
    return false;
}

bool sp_blame_differs_in_form(struct sp_verification *all, const struct sp_verify_run *run, const struct sp_node *node,
                              const struct sp_node *expected)
{
    static const char *const arithmetic[] = {"Add", "Sub", "Mul", "Div", NULL};
    if (has_other_epsilon(run, node, expected))
        return true;
    bool is_arithmetic = false, differs = strcmp(node->op_type, expected->op_type) != 0;
    for (uint32_t i = 0; !differs && i < node->attribute_count; i++) { /* the same operator with another number */
        const struct sp_attribute *own = &node->attributes[i];
        const double other = own->type == SP_ATTR_FLOAT ? sp_node_float(expected, own->name, own->f) : 0;
        is_arithmetic =
            is_arithmetic || (own->type == SP_ATTR_FLOAT && fabs(own->f - other) > SP_CONSTANT_TOLERANCE * fabs(other));
    }
    differs = differs || is_arithmetic;
    for (const char *const *name = arithmetic; *name != NULL; name++)
        is_arithmetic = is_arithmetic || strcmp(*name, expected->op_type) == 0;
    if (!is_arithmetic || node->input_count > expected->input_count)
        return false;
    for (uint32_t i = 0; i < expected->input_count; i++) {
        if (i >= node->input_count) { /* left out: a number that changes nothing may be */
            const struct sp_numbers *number = sp_blame_constant_of(&all->original, expected->inputs[i]);
            if (number == NULL || number->count != 1 || number->items[0].real == 0 || number->items[0].real == 1)
                return false;
            continue;
        }
        const struct sp_outcome *own = sp_variable_of(run, node->inputs[i]);
        const struct sp_numbers *a = sp_blame_constant_of(run, node->inputs[i]),
                                *b = sp_blame_constant_of(&all->original, expected->inputs[i]);
        if (own != NULL && own->of != expected->inputs[i])
            return false;
        if (own == NULL && a != NULL && b != NULL && a->count == b->count && has_equal_numbers(a, b))
            continue;
        if (own == NULL && (a == NULL || b == NULL || a->count != 1 || b->count != 1))
            return false;
        differs = differs || (own == NULL && fabs(a->items[0].real - b->items[0].real) >
                                                 SP_CONSTANT_TOLERANCE * fabs(b->items[0].real));
    }
    return differs;
}
