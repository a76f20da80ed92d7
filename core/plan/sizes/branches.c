#include "plan/sizes/branches.h"

#include <stdlib.h>
#include <string.h>

#include "ops/bodies/control.h"
#include "plan/sizes/bind.h"
#include "json/emit.h"

#define MAX_ROUNDS SP_MAX_NESTING /* of branches inside branches */

/* Field numbers of ModelProto, GraphProto and NodeProto. */
enum {
    MODEL_GRAPH = 7,
    GRAPH_NODE = 1,
    GRAPH_INITIALIZER = 5,
    GRAPH_VALUE_INFO = 13,
    GRAPH_QUANTIZATION = 14,
    GRAPH_SPARSE_INITIALIZER = 15,
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_OP_TYPE = 4
};

struct taking {
    const unsigned char *bytes;
    struct sp_emit emit;
    uint32_t count, next;
    const struct sp_node **nodes; /* that take a branch, in the file's order */
};

/* The branch that an If runs, or NULL. */
static const struct sp_graph *taken_branch(const struct sp_node *node)
{
    const int taken = sp_node_is(node, "If") ? sp_control_taken(node) : -1;
    const struct sp_attribute *branch =
        taken >= 0 ? sp_node_attribute(node, taken == 0 ? "then_branch" : "else_branch") : NULL;
    return branch != NULL && branch->type == SP_ATTR_GRAPH && branch->count == 1 &&
                   branch->graphs[0]->output_count == node->output_count
               ? branch->graphs[0]
               : NULL;
}

static void copy_field(struct taking *t, const struct sp_wire_field *field, const struct sp_wire *wire)
{
    sp_buf_append(t->emit.buf, t->bytes + field->at, (size_t)(wire->at - field->at));
}

static void put_name(struct taking *t, uint32_t number, const char *name)
{
    sp_emit_bytes(&t->emit, number, name, strlen(name));
}

/* What stands in the branch stands in the graph; its results get the names of the node's. */
static enum sp_status put_branch(struct taking *t, const struct sp_node *node, const struct sp_graph *branch,
                                 struct sp_error *err)
{
    struct sp_wire wire = sp_wire_of(t->bytes, branch->span);
    struct sp_wire_field field;
    enum sp_status status;
    while ((status = sp_wire_next(&wire, &field, err)) == SP_OK && field.number != 0) {
        if (field.number == GRAPH_NODE || field.number == GRAPH_INITIALIZER || field.number == GRAPH_VALUE_INFO ||
            field.number == GRAPH_QUANTIZATION || field.number == GRAPH_SPARSE_INITIALIZER)
            copy_field(t, &field, &wire);
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] == NULL || branch->outputs[i] == NULL)
            continue;
        sp_emit_begin(&t->emit, GRAPH_NODE);
        put_name(t, NODE_INPUT, branch->outputs[i]->name);
        put_name(t, NODE_OUTPUT, node->outputs[i]->name);
        put_name(t, NODE_OP_TYPE, "Identity");
        sp_emit_end(&t->emit);
    }
    return status;
}

static enum sp_status put_graph(struct taking *t, struct sp_span span, struct sp_error *err)
{
    struct sp_wire wire = sp_wire_of(t->bytes, span);
    struct sp_wire_field field;
    enum sp_status status;
    while ((status = sp_wire_next(&wire, &field, err)) == SP_OK && field.number != 0) {
        const struct sp_node *node = t->next < t->count ? t->nodes[t->next] : NULL;
        if (field.number != GRAPH_NODE || node == NULL || node->span.offset != field.payload.offset) {
            copy_field(t, &field, &wire);
            continue;
        }
        t->next++;
        status = put_branch(t, node, taken_branch(node), err);
        if (status != SP_OK)
            return status;
    }
    return status;
}

static enum sp_status put_model(struct taking *t, uint64_t size, struct sp_error *err)
{
    struct sp_wire wire = sp_wire_of(t->bytes, (struct sp_span){0, size});
    struct sp_wire_field field;
    enum sp_status status;
    while ((status = sp_wire_next(&wire, &field, err)) == SP_OK && field.number != 0) {
        if (field.number != MODEL_GRAPH) {
            copy_field(t, &field, &wire);
            continue;
        }
        sp_emit_begin(&t->emit, MODEL_GRAPH);
        status = put_graph(t, field.payload, err);
        sp_emit_end(&t->emit);
        if (status != SP_OK)
            return status;
    }
    return status == SP_OK && sp_buf_failed(t->emit.buf) ? sp_fail_memory(err) : status;
}

static enum sp_status go_on(void *context, const struct sp_node *node, const struct sp_error *error)
{
    (void)context;
    (void)node;
    (void)error; /* it is told when the model is read for good */
    return SP_OK;
}

static int by_place(const void *a, const void *b)
{
    const struct sp_node *const *x = a, *const *y = b;
    return (*x)->span.offset < (*y)->span.offset ? -1 : (*x)->span.offset > (*y)->span.offset;
}

/* Reads the file and looks what is known. */
static enum sp_status look(struct sp_arena *arena, const struct sp_model_file *file, const struct sp_read_options *read,
                           const struct sp_sizes *sizes, struct taking *taking, struct sp_error *err)
{
    struct sp_model *model = NULL;
    const struct sp_shape_options shapes = {.watch = read->watch, .report = go_on};
    struct sp_read_options options;
    struct sp_shape_summary summary;
    enum sp_status status = sp_sizes_read_options(arena, file->bytes, file->size, read, sizes, &options, err);
    if (status == SP_OK)
        status = sp_onnx_read(arena, file->bytes, file->size, &options, &model, err);
    if (status == SP_OK)
        status = sp_infer_shapes_with(model, &shapes, &summary, err);
    if (status != SP_OK)
        return status;
    taking->nodes = SP_NEW_ARRAY(arena, model->graph->node_count, const struct sp_node *);
    if (taking->nodes == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < model->graph->node_count; i++) {
        if (taken_branch(&model->graph->nodes[i]) != NULL)
            taking->nodes[taking->count++] = &model->graph->nodes[i];
    }
    if (taking->count > 1)
        qsort(taking->nodes, taking->count, sizeof *taking->nodes, by_place);
    return SP_OK;
}

static void replace(struct sp_model_file *file, struct sp_buf *bytes)
{
    sp_buf_release(&file->converted);
    file->converted = *bytes;
    file->bytes = bytes->data;
    file->size = bytes->size;
    file->is_converted = true;
}

/* One level of branches; *ret_again says that there was one. */
static enum sp_status take_once(struct sp_budget *budget, const struct sp_read_options *read,
                                const struct sp_sizes *sizes, struct sp_model_file *file, bool *ret_again,
                                struct sp_error *err)
{
    struct sp_model *check = NULL;
    struct sp_arena *arena = sp_arena_create(budget);
    struct sp_error what = {0};
    struct sp_buf bytes;
    struct taking taking = {.bytes = file->bytes, .emit = {.buf = &bytes}};
    sp_buf_init(&bytes, budget->limit);
    *ret_again = false;
    enum sp_status status = arena != NULL ? look(arena, file, read, sizes, &taking, err) : sp_fail_memory(err);
    if (status == SP_OK && taking.count > 0) {
        status = put_model(&taking, file->size, err);
        /* Branches may use one name for two things: then the node stays. */
        if (status == SP_OK && sp_onnx_read(arena, bytes.data, bytes.size, read, &check, &what) == SP_OK) {
            *ret_again = true;
            replace(file, &bytes);
        }
    }
    if (!*ret_again)
        sp_buf_release(&bytes);
    sp_arena_destroy(arena);
    return status;
}

enum sp_status sp_take_branches(struct sp_budget *budget, const struct sp_read_options *read,
                                const struct sp_sizes *sizes, struct sp_model_file *file, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    bool again = sizes != NULL && sizes->given.value_count > 0 && file->costs == NULL;
    for (uint32_t round = 0; status == SP_OK && again && round < MAX_ROUNDS; round++)
        status = take_once(budget, read, sizes, file, &again, err);
    return status;
}
