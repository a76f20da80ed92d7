/*
 * Attention that is written out: MatMul, elementwise operators, Softmax, elementwise operators, MatMul.
 */
#include <math.h>

#include "cost/cache_internal.h"

#define MOST_STEPS 32 /* values on one side of a Softmax, operators before an operand: what is looked at */

static const char *const elementwise[] = {"Add",  "Sub",  "Mul", "Div", "Where",   "Cast",
                                          "Clip", "Tanh", "Max", "Min", "Dropout", "Identity"};
/* What changes the shape of heads, or repeats them. */
static const char *const movement[] = {"Transpose", "Reshape", "Expand",   "Unsqueeze",
                                       "Squeeze",   "Flatten", "Identity", "Cast"};

static bool is_one_of(const struct sp_node *node, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count && node->domain[0] == '\0'; i++) {
        if (strcmp(node->op_type, names[i]) == 0)
            return true;
    }
    return false;
}

static int64_t elements_of(const struct sp_value *value)
{
    return sp_shape_elements(&value->type.shape);
}

/* The extent of an axis of a value of rank 4, -1 where that is not known. */
static int64_t extent_of(const struct sp_value *value, uint32_t axis)
{
    const struct sp_shape *shape = &value->type.shape;
    return shape->has_rank && shape->rank == 4 && sp_dim_is_known(shape->dims[axis]) ? shape->dims[axis].value : -1;
}

/* A product of two values that are computed for each request. */
static bool is_product(const struct sp_workload *workload, const struct sp_node *node)
{
    if (strcmp(node->op_type, "MatMul") != 0 || node->domain[0] != '\0' || node->input_count != 2)
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        if (workload->tensors[node->inputs[i]->id].kind == SP_WORK_WEIGHT || extent_of(node->inputs[i], 0) < 0)
            return false;
    }
    return true;
}

/* Values still to be looked at. */
struct list {
    uint32_t count, done;
    const struct sp_value *values[MOST_STEPS];
};

static void add(struct list *list, const struct sp_value *value, int64_t elements)
{
    if (value == NULL || elements_of(value) != elements || list->count == MOST_STEPS)
        return;
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->values[i] == value)
            return;
    }
    list->values[list->count++] = value;
}

/* The product that the scores come from; NULL: there is none. */
static const struct sp_node *find_scores(const struct sp_workload *workload, const struct sp_value *from)
{
    struct list list = {0};
    const int64_t elements = elements_of(from);
    add(&list, from, elements);
    while (list.done < list.count) {
        const struct sp_node *node = list.values[list.done++]->producer;
        if (node == NULL || node->graph != from->graph)
            continue;
        if (is_product(workload, node))
            return node;
        for (uint32_t i = 0;
             i < node->input_count && is_one_of(node, elementwise, sizeof elementwise / sizeof *elementwise); i++)
            add(&list, node->inputs[i], elements);
    }
    return NULL;
}

/* The product that takes the weights as its input 0. */
static const struct sp_node *find_values(const struct sp_workload *workload, const struct sp_value *from)
{
    struct list list = {0};
    const int64_t elements = elements_of(from);
    add(&list, from, elements);
    while (list.done < list.count) {
        const struct sp_value *value = list.values[list.done++];
        for (uint32_t u = 0; u < value->use_count; u++) {
            const struct sp_node *node = value->uses[u].node;
            if (value->uses[u].input == 0 && is_product(workload, node))
                return node;
            if (is_one_of(node, elementwise, sizeof elementwise / sizeof *elementwise) && node->output_count > 0)
                add(&list, node->outputs[0], elements);
        }
    }
    return NULL;
}

/* What is kept of input 1, along its way from where it was made: the fewest elements; what the model holds of it. */
static void keep_operand(const struct sp_workload *workload, const struct sp_node *product, uint32_t keys_axis,
                         struct sp_cache_half *half, int64_t *ret_heads)
{
    const struct sp_value *value = product->inputs[1];
    const int64_t batch = extent_of(value, 0), heads = extent_of(value, 1), keys = extent_of(value, keys_axis);
    const int64_t all = elements_of(value);
    int64_t fewest = all;
    if (batch < 1 || heads < 1 || keys < 1 || all < 1)
        return;
    half->bits = sp_dtype_bits(value->type.dtype);
    half->held = sp_cache_bytes_of_output(value);
    for (uint32_t step = 0; step < MOST_STEPS && value->producer != NULL; step++) {
        const struct sp_node *node = value->producer;
        if (strcmp(node->op_type, "Concat") == 0) { /* the past, and what is new */
            for (uint32_t i = 0; i < node->input_count; i++)
                half->held = fmax(half->held, sp_cache_bytes_of_input(workload, node->inputs[i]));
            break;
        }
        if (!is_one_of(node, movement, sizeof movement / sizeof *movement))
            break;
        value = node->inputs[0];
        const int64_t elements = elements_of(value);
        if (elements < batch * keys || all % elements != 0)
            break;
        fewest = elements < fewest ? elements : fewest;
        half->held = fmax(half->held, sp_cache_bytes_of_output(value));
    }
    half->elements = (double)fewest / ((double)batch * (double)keys);
    *ret_heads = heads * fewest / all > 0 ? heads * fewest / all : 1;
}

void sp_cache_find_products(const struct sp_workload *workload, const struct sp_node *softmax,
                            struct sp_cached_operands *cached)
{
    if (softmax->input_count < 1 || softmax->output_count < 1 || extent_of(softmax->inputs[0], 0) < 0)
        return;
    const int64_t keys = extent_of(softmax->inputs[0], 3), axis = sp_node_int(softmax, "axis", -1);
    const struct sp_node *scores = find_scores(workload, softmax->inputs[0]);
    const struct sp_node *values = find_values(workload, softmax->outputs[0]);
    if (scores == NULL || values == NULL || keys < 1 || (axis != -1 && axis != 3) ||
        extent_of(scores->inputs[1], 3) != keys || extent_of(values->inputs[1], 2) != keys)
        return;
    cached[scores->index].is_product = cached[values->index].is_product = true;
    keep_operand(workload, scores, 3, &cached[scores->index].key, &cached[scores->index].heads);
    keep_operand(workload, values, 2, &cached[values->index].value, &cached[values->index].heads);
}

double sp_cache_bytes_of_input(const struct sp_workload *workload, const struct sp_value *value)
{
    const int64_t bytes = value == NULL ? 0 : sp_value_bytes(value);
    if (bytes <= 0 || workload->tensors[sp_work_root(workload, value->id)].kind != SP_WORK_INPUT)
        return 0;
    return (double)bytes;
}

double sp_cache_bytes_of_output(const struct sp_value *value)
{
    const int64_t bytes = value == NULL || !value->is_graph_output ? 0 : sp_value_bytes(value);
    return bytes > 0 ? (double)bytes : 0;
}
