/* What a model is made of: operators, parameters, FLOPs, external data. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/array.h"
#include "ops/table/op.h"
#include "plan/internal.h"

/* A list of integers up to this length is a shape, axes or indices of a slice, no parameter. */
#define SP_SHAPE_LIKE_ELEMENTS SP_MAX_RANK

/* Constants that the graph itself makes (Constant, ConstantOfShape) count as parameters from this size on: below it
   they are the scalars and shapes of the computation. */
#define SP_CONSTANT_ELEMENTS SP_MAX_RANK

/* "Conv", "com.microsoft.Gelu": what the counts are keyed by. */
static void operator_name(const struct sp_node *node, struct sp_buf *buf)
{
    sp_buf_clear(buf);
    if (node->domain[0] != '\0' && strcmp(node->domain, "ai.onnx") != 0)
        sp_buf_printf(buf, "%s.", node->domain);
    sp_buf_text(buf, node->op_type);
}

static int by_name(const void *a, const void *b)
{
    const struct sp_operator_count *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static enum sp_status count_operators(struct sp_job *job, struct sp_inspection *inspection, struct sp_error *err)
{
    const struct sp_graph *graph = job->model->graph;
    struct sp_intern *names = sp_intern_create(job->arena, job->hash_seed);
    uint64_t *counts = SP_NEW_ARRAY(job->arena, graph->node_count, uint64_t);
    bool *known = SP_NEW_ARRAY(job->arena, graph->node_count, bool);
    struct sp_buf name;
    if (names == NULL || counts == NULL || known == NULL)
        return sp_fail_memory(err);
    sp_buf_init(&name, 2 * SP_MAX_NAME_BYTES + 2);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct sp_node *node = &graph->nodes[n];
        operator_name(node, &name);
        uint32_t id = sp_buf_failed(&name) ? SP_NO_NAME : sp_intern_add(names, name.data, name.size);
        if (id == SP_NO_NAME) {
            sp_buf_release(&name);
            return sp_fail_memory(err);
        }
        counts[id]++;
        known[id] = node->op != NULL || node->body != NULL;
    }
    sp_buf_release(&name);
    inspection->operator_count = sp_intern_count(names);
    inspection->operators = SP_NEW_ARRAY(job->arena, inspection->operator_count, struct sp_operator_count);
    if (inspection->operators == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < inspection->operator_count; i++)
        inspection->operators[i] = (struct sp_operator_count){sp_intern_name(names, i), counts[i], known[i]};
    if (inspection->operator_count > 1)
        qsort(inspection->operators, inspection->operator_count, sizeof *inspection->operators, by_name);
    return SP_OK;
}

/* ---- parameters ---- */

static bool is_shape_like(const struct sp_tensor *tensor)
{
    bool index_type = tensor->dtype == SP_DTYPE_INT64 || tensor->dtype == SP_DTYPE_INT32 ||
                      tensor->dtype == SP_DTYPE_BOOL || tensor->dtype == SP_DTYPE_STRING;
    return index_type && tensor->elements <= SP_SHAPE_LIKE_ELEMENTS;
}

static void add_parameters(struct sp_inspection *inspection, int64_t elements, int64_t bytes)
{
    if (elements > 0)
        inspection->parameters += (uint64_t)elements;
    if (bytes > 0)
        inspection->parameter_bytes += (double)bytes;
}

/* The elements of a quantised weight of which a byte holds several, as the operator that takes it says: by its extents
   K and N, or by the bits of each; the elements of the tensor where nobody says. */
static int64_t packed_elements(const struct sp_value *value, const struct sp_tensor *tensor)
{
    static const char *const bits[] = {"bits", "expert_weight_bits"};
    for (uint32_t i = 0; tensor->dtype == SP_DTYPE_UINT8 && i < value->use_count; i++) {
        const struct sp_node *node = value->uses[i].node;
        const int64_t k = sp_node_int(node, "K", 0), n = sp_node_int(node, "N", 0);
        int64_t elements;
        if (value->uses[i].input == 1 && k > 0 && n > 0 && sp_mul_i64(k, n, &elements) &&
            elements / CHAR_BIT <= tensor->elements)
            return elements;
        for (size_t a = 0; a < sizeof bits / sizeof bits[0]; a++) {
            const int64_t each = sp_node_int(node, bits[a], 0);
            if (each > 0 && CHAR_BIT % each == 0 && sp_mul_i64(tensor->elements, CHAR_BIT / each, &elements))
                return elements;
        }
    }
    return tensor->elements;
}

static void add_initializer(struct sp_inspection *inspection, const struct sp_value *value)
{
    const struct sp_tensor *tensor = value->tensor != NULL   ? value->tensor
                                     : value->sparse != NULL ? value->sparse->values
                                                             : NULL;
    if (tensor != NULL && !is_shape_like(tensor))
        add_parameters(inspection, packed_elements(value, tensor), tensor->bytes);
}

/* What is known of each value of a graph while parameters are counted. */
enum { CARRIES = 1, MADE_HERE = 2, USED = 4 };

/*
 * Forward: an initializer carries parameters; a folded node passes on what it is given; a folded node that is given
 * none and makes something large (a constant, a filled tensor) is where parameters begin.
 */
static void mark_carriers(const struct sp_graph *graph, unsigned char *marks)
{
    for (uint32_t i = 0; i < graph->initializer_count; i++)
        marks[graph->initializers[i]->id] |= CARRIES;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct sp_node *node = &graph->nodes[n];
        bool carries = false;
        if (!node->is_folded || (node->op != NULL && (node->op->flags & SP_OP_METADATA) != 0))
            continue;
        for (uint32_t i = 0; i < node->input_count; i++) {
            const struct sp_value *input = node->inputs[i];
            if (input != NULL && input->graph == graph && (marks[input->id] & CARRIES) != 0)
                carries |= input->tensor == NULL || !is_shape_like(input->tensor);
        }
        for (uint32_t i = 0; i < node->output_count; i++) {
            const struct sp_value *output = node->outputs[i];
            if (output == NULL)
                continue;
            if (carries)
                marks[output->id] |= CARRIES;
            else if (output->type.kind == SP_TYPE_TENSOR &&
                     sp_shape_elements(&output->type.shape) > SP_CONSTANT_ELEMENTS)
                marks[output->id] |= CARRIES | MADE_HERE;
        }
    }
}

/* Backward: used by a node that runs, or by a folded node whose result is. */
static void mark_used(const struct sp_graph *graph, unsigned char *marks)
{
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const struct sp_value *value = graph->values[v];
        for (uint32_t i = 0; i < value->use_count; i++) {
            if (!value->uses[i].node->is_folded)
                marks[v] |= USED;
        }
    }
    for (uint32_t n = graph->node_count; n-- > 0;) {
        const struct sp_node *node = &graph->nodes[n];
        bool used = false;
        if (!node->is_folded)
            continue;
        for (uint32_t i = 0; i < node->output_count; i++) {
            const struct sp_value *output = node->outputs[i];
            used |= output != NULL && (marks[output->id] & (USED | CARRIES | MADE_HERE)) == (USED | CARRIES);
        }
        for (uint32_t i = 0; used && i < node->input_count; i++) {
            if (node->inputs[i] != NULL && node->inputs[i]->graph == graph)
                marks[node->inputs[i]->id] |= USED;
        }
    }
}

static void count_graph_parameters(const struct sp_graph *graph, unsigned char *marks, struct sp_inspection *inspection)
{
    mark_carriers(graph, marks);
    mark_used(graph, marks);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const struct sp_value *value = graph->values[v];
        if ((marks[v] & USED) == 0)
            continue;
        if (value->producer == NULL)
            add_initializer(inspection, value);
        else if ((marks[v] & MADE_HERE) != 0)
            add_parameters(inspection, sp_shape_elements(&value->type.shape), sp_value_bytes(value));
    }
}

/* Graphs still to be looked at: subgraphs of control flow and expanded function bodies have constants of their own. */
struct stack {
    struct sp_arena *arena;
    const struct sp_graph **graphs;
    uint32_t count, capacity;
};

static bool push(struct stack *stack, const struct sp_graph *graph)
{
    if (!SP_MAKE_ROOM(stack->arena, stack->graphs, stack->count, stack->capacity, 1))
        return false;
    stack->graphs[stack->count++] = graph;
    return true;
}

static bool push_inner(struct stack *stack, const struct sp_graph *graph)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct sp_node *node = &graph->nodes[n];
        if (node->body != NULL && !push(stack, node->body))
            return false;
        for (uint32_t a = 0; a < node->attribute_count; a++) {
            const struct sp_attribute *attribute = &node->attributes[a];
            bool graphs = attribute->type == SP_ATTR_GRAPH || attribute->type == SP_ATTR_GRAPHS;
            for (uint32_t i = 0; graphs && i < attribute->count; i++) {
                if (!push(stack, attribute->graphs[i]))
                    return false;
            }
        }
    }
    return true;
}

static enum sp_status count_parameters(struct sp_job *job, struct sp_inspection *inspection, struct sp_error *err)
{
    struct stack stack = {.arena = job->arena};
    if (!push(&stack, job->model->graph))
        return sp_fail_memory(err);
    while (stack.count > 0) {
        const struct sp_graph *graph = stack.graphs[--stack.count];
        unsigned char *marks = SP_NEW_ARRAY(job->arena, graph->value_count, unsigned char);
        if (marks == NULL || !push_inner(&stack, graph))
            return sp_fail_memory(err);
        count_graph_parameters(graph, marks, inspection);
    }
    return SP_OK;
}

/* ---- FLOPs ---- */

/* Whether all sizes that a node's work depends on are numbers. */
static bool is_sized(const struct sp_value *value)
{
    return value == NULL || value->type.kind != SP_TYPE_TENSOR || sp_shape_elements(&value->type.shape) >= 0;
}

/* False when a size is missing that the node's work depends on. */
static bool is_node_sized(const struct sp_node *node)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (!is_sized(node->inputs[i]))
            return false;
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (!is_sized(node->outputs[i]))
            return false;
    }
    return node->op != NULL || node->body != NULL;
}

/* The total stays unknown when one node's work cannot be told. */
static enum sp_status count_flops(struct sp_job *job, struct sp_inspection *inspection, struct sp_error *err)
{
    struct sp_graph *graph = job->model->graph;
    enum sp_status status = SP_OK;
    double total = 0;
    /* An arena of its own: rules may intern expressions in the model's, which must not be rolled back. */
    struct sp_arena *scratch = sp_arena_create(&job->budget);
    if (scratch == NULL)
        return sp_fail_memory(err);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        struct sp_error why = {0};
        double flops = 0, bytes = 0;
        if (graph->nodes[n].is_folded)
            continue;
        if (!is_node_sized(&graph->nodes[n]))
            goto out;
        struct sp_arena_mark mark = sp_arena_mark(scratch);
        status = sp_node_work(job->model, &graph->nodes[n], scratch, &flops, &bytes, &why);
        sp_arena_rewind(scratch, mark);
        if (status == SP_ERR_MODEL || status == SP_ERR_UNSUPPORTED || status == SP_ERR_LIMIT) {
            status = SP_OK;
            goto out;
        }
        if (status != SP_OK) {
            if (err != NULL)
                *err = why;
            goto out;
        }
        total += flops;
    }
    inspection->has_flops = true;
    inspection->flops = total;
out:
    sp_arena_destroy(scratch);
    return status;
}

static enum sp_status count_external(struct sp_job *job, struct sp_inspection *inspection, struct sp_error *err)
{
    const struct sp_graph *graph = job->model->graph;
    struct sp_intern *files = sp_intern_create(job->arena, job->hash_seed);
    if (files == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < graph->initializer_count; i++) {
        const struct sp_tensor *tensor = graph->initializers[i]->tensor;
        if (tensor == NULL || tensor->storage != SP_STORAGE_EXTERNAL || tensor->external.location == NULL)
            continue;
        const char *location = tensor->external.location;
        if (sp_intern_add(files, location, strlen(location)) == SP_NO_NAME)
            return sp_fail_memory(err);
        if (tensor->bytes > 0)
            inspection->external_bytes += (double)tensor->bytes;
    }
    inspection->external_files = sp_intern_count(files);
    return SP_OK;
}

/*
 * The symbols that matter: declared ones that inference knows better (exporters name every dimension of an output) are
 * not in any shape in the end.
 */
static enum sp_status list_symbols(struct sp_job *job, struct sp_inspection *inspection, struct sp_error *err)
{
    const struct sp_graph *graph = job->model->graph;
    struct sp_dims *dims = job->model->dims;
    const uint32_t count = sp_dims_symbol_count(dims);
    bool *used = SP_NEW_ARRAY(job->arena, count, bool);
    inspection->symbols = SP_NEW_ARRAY(job->arena, count, const char *);
    if (used == NULL || inspection->symbols == NULL)
        return sp_fail_memory(err);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const struct sp_type *type = &graph->values[v]->type;
        for (uint32_t axis = 0; type->kind == SP_TYPE_TENSOR && axis < type->shape.rank; axis++)
            sp_dim_mark(type->shape.dims[axis]);
    }
    sp_dims_take_marks(dims, used);
    for (uint32_t i = 0; i < count; i++) {
        if (used[i])
            inspection->symbols[inspection->symbol_count++] = sp_dims_symbol_name(dims, i);
    }
    return SP_OK;
}

enum sp_status sp_inspect(struct sp_job *job, struct sp_inspection *ret_inspection, struct sp_error *err)
{
    struct sp_inspection inspection = {0};
    enum sp_status status = count_operators(job, &inspection, err);
    if (status == SP_OK)
        status = count_parameters(job, &inspection, err);
    if (status == SP_OK)
        status = count_flops(job, &inspection, err);
    if (status == SP_OK)
        status = count_external(job, &inspection, err);
    if (status == SP_OK)
        status = list_symbols(job, &inspection, err);
    if (status == SP_OK)
        status = sp_model_states(job->arena, job->model, &inspection.states, err);
    if (status == SP_OK)
        *ret_inspection = inspection;
    return status;
}
