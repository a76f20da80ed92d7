#include "cost/kernels/body_memory.h"

#include "ops/table/op.h"

#define NEVER   SP_LIVE_OUTSIDE  /* the last use of what a graph returns, and of what it is given */
#define OUTSIDE UINT32_MAX       /* the root of a view of an enclosing graph's value */
#define UNUSED  (UINT32_MAX - 1) /* no node that does work uses it */

struct inner_value {
    uint32_t root, last;
};

bool sp_inner_is_folded(const struct sp_node *node)
{
    return node->is_folded || (node->op != NULL && (node->op->flags & SP_OP_CONSTANT) != 0);
}

static bool reads_turned(const struct sp_node *node)
{
    return node->op != NULL && (node->op->flags & SP_OP_READS_TURNED) != 0;
}

static bool turns_last_axes(const struct sp_node *node)
{
    uint32_t count;
    const int64_t *perm = sp_node_ints(node, "perm", &count);
    const struct sp_shape *shape = &node->inputs[0]->type.shape;
    if (perm == NULL)
        return shape->has_rank && shape->rank == 2;
    for (uint32_t i = 0; i + 2 < count; i++) {
        if (perm[i] != i)
            return false;
    }
    return count >= 2 && perm[count - 2] == count - 1;
}

/* A Transpose of the last two axes that only products take: runtimes read its operand as it is, and multiply with it
   turned (ONNX Runtime's MatmulTransposeFusion). */
static bool is_read_turned(const struct sp_node *node)
{
    const struct sp_value *turned = node->outputs[0];
    bool is_read = sp_node_is(node, "Transpose") && sp_dtype_is_float(turned->type.dtype) && turned->use_count > 0 &&
                   !turned->is_graph_output && turns_last_axes(node);
    for (uint32_t i = 0; is_read && i < turned->use_count; i++)
        is_read = turned->uses[i].node->graph == node->graph && reads_turned(turned->uses[i].node);
    return is_read;
}

bool sp_inner_is_view(const struct sp_node *node)
{
    const uint32_t flags = node->op != NULL ? node->op->flags : 0;
    if (node->body != NULL || node->input_count == 0 || node->output_count == 0 || node->inputs[0] == NULL ||
        node->outputs[0] == NULL)
        return false;
    const bool is_joined = (flags & (SP_OP_QUANTIZES | SP_OP_DEQUANTIZES)) != 0 && node->outputs[0]->stored_bits > 0;
    return (flags & SP_OP_VIEW) != 0 || (is_joined && !node->is_folded) || is_read_turned(node);
}

static bool is_weight(const struct sp_value *value)
{
    return value->tensor != NULL || value->sparse != NULL ||
           (value->producer != NULL && sp_inner_is_folded(value->producer));
}

static double known_bytes(const struct sp_value *value)
{
    int64_t bytes = value->tensor != NULL ? value->tensor->bytes
                    : is_weight(value)    ? sp_value_stored_bytes(value)
                                          : sp_value_bytes(value);
    return bytes > 0 ? (double)bytes : 0;
}

static uint32_t later(uint32_t a, uint32_t b)
{
    if (a == UNUSED)
        return b;
    if (b == UNUSED)
        return a;
    return a > b ? a : b;
}

/* Last uses by nodes that do work, each value's own first. */
static void find_last_uses(const struct sp_graph *graph, struct inner_value *values)
{
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const struct sp_value *value = graph->values[i];
        values[i] = (struct inner_value){.root = i, .last = UNUSED};
        if (value->producer != NULL)
            values[i].last = value->producer->index;
        for (uint32_t j = 0; j < value->use_count; j++) {
            if (!sp_inner_is_folded(value->uses[j].node))
                values[i].last = later(values[i].last, value->uses[j].node->index);
        }
        if (value->is_graph_output || (value->producer == NULL && values[i].last != UNUSED))
            values[i].last = NEVER;
    }
    /* Nodes are in topological order, so the input's root is known when its view comes. */
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct sp_node *node = &graph->nodes[n];
        if (!sp_inner_is_view(node))
            continue;
        const struct sp_value *input = node->inputs[0];
        uint32_t view = node->outputs[0]->id;
        values[view].root = input->graph == graph ? values[input->id].root : OUTSIDE;
        if (values[view].root != OUTSIDE)
            values[values[view].root].last = later(values[values[view].root].last, values[view].last);
    }
}

/* A weight that only folded nodes use is gone before the first request. `last` of a folded node's output is at least
   its producer's index, which says nothing about uses. */
static bool has_working_use(const struct sp_value *value)
{
    for (uint32_t i = 0; i < value->use_count; i++) {
        if (!sp_inner_is_folded(value->uses[i].node))
            return true;
    }
    return value->is_graph_output;
}

static void add_weights(const struct sp_graph *graph, const struct inner_value *values, bool *used,
                        struct sp_inner_memory *memory)
{
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const struct sp_value *value = graph->values[i];
        uint32_t root = values[i].root;
        if (root == OUTSIDE || used[root] || !is_weight(graph->values[root]) || !has_working_use(value))
            continue;
        used[root] = true;
        memory->weight_bytes += known_bytes(graph->values[root]);
    }
}

bool sp_inner_memory_init(struct sp_inner_memory *memory, struct sp_arena *scratch, const struct sp_graph *graph,
                          bool loops)
{
    struct inner_value *values = SP_NEW_ARRAY(scratch, graph->value_count, struct inner_value);
    bool *used = SP_NEW_ARRAY(scratch, graph->value_count, bool);

    memory->weight_bytes = 0;
    if (values == NULL || used == NULL || !sp_live_init(&memory->live, scratch, graph->node_count))
        return false;
    find_last_uses(graph, values);
    add_weights(graph, values, used, memory);
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const struct sp_value *value = graph->values[i];
        if (values[i].root != i || is_weight(value) || (values[i].last == UNUSED && value->producer == NULL))
            continue;
        if (!loops && (value->producer == NULL || values[i].last == NEVER))
            continue; /* the node's own operand or result */
        sp_live_add(&memory->live, value->producer != NULL ? value->producer->index : SP_LIVE_OUTSIDE, values[i].last,
                    known_bytes(value));
    }
    return true;
}
