#include "mutate_model.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "onnx.pb-c.h"

#define MAX_GRAPHS  64
#define MAX_NAMES   512
#define MAX_CHANGES 4

typedef Onnx__NodeProto node_proto;
typedef Onnx__GraphProto graph_proto;

/* A list of a message, to be grown and shortened. */
struct list {
    size_t *count;
    void ***items;
};
#define LIST(message, field) ((struct list){&(message)->n_##field, (void ***)&(message)->field})

struct mutation {
    ProtobufCAllocator allocator;
    struct sp_arena *arena;
    Onnx__ModelProto *model;
    unsigned seed;
    uint32_t graph_count, name_count;
    graph_proto *graphs[MAX_GRAPHS]; /* the main graph first */
    char *names[MAX_NAMES];          /* of the graph at work and the main graph */
};

static void *take(void *arena, size_t size)
{
    return sp_arena_alloc(arena, size == 0 ? 1 : size);
}

static void keep(void *arena, void *memory)
{
    (void)arena;
    (void)memory;
}

static uint32_t below(struct mutation *m, size_t limit)
{
    return limit == 0 ? 0 : (uint32_t)rand_r(&m->seed) % (uint32_t)limit;
}

static char *text(struct mutation *m, const char *words)
{
    return sp_arena_printf(m->arena, "%s", words == NULL ? "" : words);
}

static char *fresh(struct mutation *m)
{
    return sp_arena_printf(m->arena, "made%u", (unsigned)rand_r(&m->seed) % 10000);
}

/* A message of its own that is the same. */
static void *clone(struct mutation *m, const void *message)
{
    const size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = take(m->arena, size);
    const ProtobufCMessage *base = message;
    if (bytes == NULL)
        return NULL;
    (void)protobuf_c_message_pack(message, bytes);
    return protobuf_c_message_unpack(base->descriptor, &m->allocator, size, bytes);
}

static void insert(struct mutation *m, struct list list, size_t at, void *item)
{
    void **items = take(m->arena, (*list.count + 1) * sizeof *items);
    if (items == NULL || item == NULL)
        return;
    for (size_t i = 0; i <= *list.count; i++)
        items[i] = i < at ? (*list.items)[i] : i == at ? item : (*list.items)[i - 1];
    *list.items = items;
    ++*list.count;
}

static void drop(struct list list, size_t at)
{
    for (size_t i = at; i + 1 < *list.count; i++)
        (*list.items)[i] = (*list.items)[i + 1];
    --*list.count;
}

/* ---- what there is ---------------------------------------------------------------------------------------------- */

static void find_graphs(struct mutation *m)
{
    m->graph_count = m->model->graph != NULL;
    m->graphs[0] = m->model->graph;
    for (uint32_t g = 0; g < m->graph_count; g++)
        for (size_t n = 0; n < m->graphs[g]->n_node; n++)
            for (size_t a = 0; a < m->graphs[g]->node[n]->n_attribute; a++) {
                Onnx__AttributeProto *attribute = m->graphs[g]->node[n]->attribute[a];
                if (attribute->g != NULL && m->graph_count < MAX_GRAPHS)
                    m->graphs[m->graph_count++] = attribute->g;
            }
}

static void add_name(struct mutation *m, char *name)
{
    if (name != NULL && m->name_count < MAX_NAMES)
        m->names[m->name_count++] = name;
}

static void find_names(struct mutation *m, const graph_proto *graph)
{
    for (size_t i = 0; i < graph->n_input; i++)
        add_name(m, graph->input[i]->name);
    for (size_t i = 0; i < graph->n_initializer; i++)
        add_name(m, graph->initializer[i]->name);
    for (size_t n = 0; n < graph->n_node; n++)
        for (size_t o = 0; o < graph->node[n]->n_output; o++)
            add_name(m, graph->node[n]->output[o]);
}

static char *any_name(struct mutation *m)
{
    const uint32_t other = below(m, 12);
    if (other == 0)
        return text(m, "");
    return other == 1 || m->name_count == 0 ? fresh(m) : m->names[below(m, m->name_count)];
}

static node_proto *any_node(struct mutation *m, graph_proto *graph)
{
    return graph->n_node == 0 ? NULL : graph->node[below(m, graph->n_node)];
}

/* ---- nodes ------------------------------------------------------------------------------------------------------ */

/* A second node like one that is there, whose results may be used instead of the first one's. */
static void repeat_node(struct mutation *m, graph_proto *graph)
{
    const uint32_t at = below(m, graph->n_node);
    node_proto *copy = graph->n_node > 0 ? clone(m, graph->node[at]) : NULL;
    if (copy == NULL)
        return;
    for (size_t o = 0; o < copy->n_output && below(m, 8) != 0; o++) {
        const char *old = copy->output[o];
        copy->output[o] = fresh(m);
        for (size_t n = at + 1; n < graph->n_node; n++)
            for (size_t i = 0; i < graph->node[n]->n_input; i++)
                if (strcmp(graph->node[n]->input[i], old) == 0 && below(m, 2) == 0)
                    graph->node[n]->input[i] = copy->output[o];
    }
    copy->name = fresh(m);
    insert(m, LIST(graph, node), at + 1, copy);
}

static void rewire(struct mutation *m, graph_proto *graph)
{
    node_proto *node = any_node(m, graph);
    if (node == NULL)
        return;
    switch (below(m, 6)) {
    case 0:
        insert(m, LIST(node, input), node->n_input, any_name(m));
        break;
    case 1:
        if (node->n_input > 0)
            node->n_input--;
        break;
    case 2:
        if (node->n_output > 0)
            node->output[below(m, node->n_output)] = any_name(m);
        break;
    case 3:
        insert(m, LIST(node, output), node->n_output, fresh(m));
        break;
    default:
        if (node->n_input > 0)
            node->input[below(m, node->n_input)] = any_name(m);
    }
}

static void rename_operator(struct mutation *m, graph_proto *graph)
{
    static const char *const types[] = {"Add",
                                        "Mul",
                                        "MatMul",
                                        "Relu",
                                        "Softmax",
                                        "Identity",
                                        "Reshape",
                                        "Transpose",
                                        "Concat",
                                        "Split",
                                        "Gather",
                                        "Slice",
                                        "Shape",
                                        "ReduceSum",
                                        "ReduceMean",
                                        "Squeeze",
                                        "Unsqueeze",
                                        "Expand",
                                        "Where",
                                        "Cast",
                                        "Pad",
                                        "TopK",
                                        "NonZero",
                                        "Conv",
                                        "MaxPool",
                                        "ArgMax",
                                        "CumSum",
                                        "Tile",
                                        "LayerNormalization",
                                        "Gemm",
                                        "Range",
                                        "OneHot",
                                        "ConstantOfShape",
                                        "ScatterND",
                                        "GatherND",
                                        "Resize",
                                        "Dropout",
                                        "Flatten",
                                        "Size",
                                        "Einsum",
                                        "Loop",
                                        "If",
                                        "QuantizeLinear",
                                        "DequantizeLinear",
                                        "Attention",
                                        "Unknown"};
    node_proto *node = any_node(m, graph), *other = any_node(m, m->graphs[below(m, m->graph_count)]);
    if (node == NULL || other == NULL)
        return;
    node->op_type = below(m, 2) == 0 ? text(m, other->op_type) : text(m, types[below(m, sizeof types / sizeof *types)]);
    if (below(m, 8) == 0)
        node->domain = text(m, below(m, 2) == 0 ? "com.microsoft" : "");
}

/* ---- attributes ------------------------------------------------------------------------------------------------- */

static int64_t any_number(struct mutation *m)
{
    static const int64_t numbers[] = {0,  0,  1,  1,  2,  3,  4,         5,         7,        8,
                                      16, 64, -1, -1, -2, -3, INT32_MAX, INT64_MAX, INT64_MIN};
    return numbers[below(m, sizeof numbers / sizeof *numbers)];
}

static void change_attribute(struct mutation *m, graph_proto *graph)
{
    node_proto *node = any_node(m, graph), *other = any_node(m, graph);
    if (node == NULL || other == NULL)
        return;
    if (node->n_attribute == 0 || below(m, 6) == 0) {
        if (other->n_attribute > 0)
            insert(m, LIST(node, attribute), 0, clone(m, other->attribute[below(m, other->n_attribute)]));
        return;
    }
    const uint32_t at = below(m, node->n_attribute);
    Onnx__AttributeProto *attribute = node->attribute[at];
    if (below(m, 5) == 0)
        drop(LIST(node, attribute), at);
    else if (attribute->n_ints > 0 && below(m, 3) == 0)
        attribute->n_ints--;
    else if (attribute->n_ints > 0)
        attribute->ints[below(m, attribute->n_ints)] = any_number(m);
    else if (attribute->has_f)
        attribute->f = (float)(below(m, 2) == 0 ? 0.0 : any_number(m));
    else if (attribute->has_i)
        attribute->i = any_number(m);
}

/* ---- types ------------------------------------------------------------------------------------------------------ */

static int64_t any_extent(struct mutation *m)
{
    static const int64_t extents[] = {0, 0, 1, 1, 1, 2, 3, 4, 5, 6, 8, 9, 16, 17, 64, 1000, -1, INT64_MAX};
    return extents[below(m, sizeof extents / sizeof *extents)];
}

static void change_dimension(struct mutation *m, Onnx__TensorShapeProto *shape)
{
    Onnx__TensorShapeProto__Dimension *dim;
    switch (shape->n_dim == 0 ? 0 : below(m, 8)) {
    case 0:
        dim = take(m->arena, sizeof *dim);
        if (dim == NULL)
            return;
        onnx__tensor_shape_proto__dimension__init(dim);
        insert(m, LIST(shape, dim), below(m, shape->n_dim + 1), dim);
        break;
    case 1:
        drop(LIST(shape, dim), below(m, shape->n_dim));
        return;
    default:
        dim = shape->dim[below(m, shape->n_dim)];
    }
    dim->value_case = below(m, 6) == 0 ? ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE__NOT_SET
                                       : ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    dim->dim_value = any_extent(m);
    if (below(m, 6) == 0) {
        dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
        dim->dim_param = text(m, below(m, 2) == 0 ? "n" : "seq");
    }
}

static void change_type(struct mutation *m, graph_proto *graph)
{
    const struct list lists[] = {LIST(graph, input), LIST(graph, output), LIST(graph, value_info)};
    const struct list list = lists[below(m, 3)];
    Onnx__ValueInfoProto *info = *list.count > 0 ? (*list.items)[below(m, *list.count)] : NULL;
    if (info == NULL || info->type == NULL || info->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
        return;
    Onnx__TypeProto__Tensor *tensor = info->type->tensor_type;
    if (below(m, 10) == 0)
        tensor->shape = NULL;
    else if (below(m, 12) == 0)
        tensor->elem_type = (int32_t)(1 + below(m, 16));
    else if (tensor->shape != NULL)
        change_dimension(m, tensor->shape);
}

/* ---- weights ---------------------------------------------------------------------------------------------------- */

/* A weight becomes an input. */
static void feed(struct mutation *m, graph_proto *graph, size_t at)
{
    const Onnx__TensorProto *tensor = graph->initializer[at];
    Onnx__ValueInfoProto *info = take(m->arena, sizeof *info);
    Onnx__TypeProto *type = take(m->arena, sizeof *type);
    Onnx__TypeProto__Tensor *of = take(m->arena, sizeof *of);
    Onnx__TensorShapeProto *shape = take(m->arena, sizeof *shape);
    if (info == NULL || type == NULL || of == NULL || shape == NULL)
        return;
    onnx__value_info_proto__init(info);
    onnx__type_proto__init(type);
    onnx__type_proto__tensor__init(of);
    onnx__tensor_shape_proto__init(shape);
    for (size_t i = 0; i < tensor->n_dims; i++) {
        Onnx__TensorShapeProto__Dimension *dim = take(m->arena, sizeof *dim);
        if (dim == NULL)
            return;
        onnx__tensor_shape_proto__dimension__init(dim);
        dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        dim->dim_value = tensor->dims[i];
        insert(m, LIST(shape, dim), i, dim);
    }
    of->has_elem_type = true;
    of->elem_type = tensor->data_type;
    of->shape = shape;
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type->tensor_type = of;
    info->name = tensor->name;
    info->type = type;
    insert(m, LIST(graph, input), graph->n_input, info);
    if (below(m, 4) != 0) /* else it stays its default */
        drop(LIST(graph, initializer), at);
}

static void change_weight(struct mutation *m, graph_proto *graph)
{
    if (graph->n_initializer == 0)
        return;
    const uint32_t at = below(m, graph->n_initializer);
    Onnx__TensorProto *tensor = graph->initializer[at];
    switch (below(m, 6)) {
    case 0:
        if (tensor->n_dims > 0)
            tensor->dims[below(m, tensor->n_dims)] = any_extent(m);
        break;
    case 1:
        if (tensor->has_raw_data && tensor->raw_data.len >= 8) {
            const int64_t number = any_number(m);
            memcpy(tensor->raw_data.data + 8 * below(m, tensor->raw_data.len / 8), &number, sizeof number);
        }
        break;
    case 2:
        if (tensor->n_int64_data > 0)
            tensor->int64_data[below(m, tensor->n_int64_data)] = any_number(m);
        break;
    case 3:
        drop(LIST(graph, initializer), at);
        break;
    default:
        feed(m, graph, at);
    }
}

/* ---- graphs and functions --------------------------------------------------------------------------------------- */

static Onnx__AttributeProto *graph_attribute(struct mutation *m, const char *name, graph_proto *graph)
{
    Onnx__AttributeProto *attribute = take(m->arena, sizeof *attribute);
    if (attribute == NULL)
        return NULL;
    onnx__attribute_proto__init(attribute);
    attribute->name = text(m, name);
    attribute->has_type = true;
    attribute->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH;
    attribute->g = graph;
    return attribute;
}

/* Any shape of any type, as graphs inside nodes may say it. */
static Onnx__ValueInfoProto *named(struct mutation *m, char *name)
{
    Onnx__ValueInfoProto *info = take(m->arena, sizeof *info);
    if (info == NULL)
        return NULL;
    onnx__value_info_proto__init(info);
    info->name = name;
    return info;
}

/* A graph of one node, whose results get other names. */
static graph_proto *body_of(struct mutation *m, const node_proto *node)
{
    graph_proto *graph = take(m->arena, sizeof *graph);
    node_proto *inner = clone(m, node);
    if (graph == NULL || inner == NULL)
        return NULL;
    onnx__graph_proto__init(graph);
    graph->name = text(m, "body");
    for (size_t o = 0; o < inner->n_output; o++) {
        inner->output[o] = fresh(m);
        insert(m, LIST(graph, output), o, named(m, inner->output[o]));
    }
    insert(m, LIST(graph, node), 0, inner);
    return graph;
}

/* A scalar weight with this value of 8 bytes, or of one. */
static char *scalar(struct mutation *m, graph_proto *graph, int32_t type, int64_t value)
{
    Onnx__TensorProto *tensor = take(m->arena, sizeof *tensor);
    uint8_t *bytes = take(m->arena, sizeof value);
    if (tensor == NULL || bytes == NULL)
        return NULL;
    onnx__tensor_proto__init(tensor);
    memcpy(bytes, &value, sizeof value);
    tensor->has_data_type = true;
    tensor->data_type = type;
    tensor->name = fresh(m);
    tensor->has_raw_data = true;
    tensor->raw_data = (ProtobufCBinaryData){type == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL ? 1 : sizeof value, bytes};
    insert(m, LIST(graph, initializer), 0, tensor);
    return tensor->name;
}

static void become(struct mutation *m, node_proto *node, const char *op_type, size_t inputs, char *const *names)
{
    node->op_type = text(m, op_type);
    node->domain = NULL;
    node->overload = NULL;
    node->n_attribute = 0;
    node->n_input = 0;
    for (size_t i = 0; i < inputs; i++)
        insert(m, LIST(node, input), i, names[i]);
}

static void wrap_if(struct mutation *m, graph_proto *graph, node_proto *node)
{
    graph_proto *taken = body_of(m, node), *other = body_of(m, node);
    char *condition =
        below(m, 3) == 0 ? any_name(m) : scalar(m, graph, ONNX__TENSOR_PROTO__DATA_TYPE__BOOL, below(m, 2));
    if (taken == NULL || other == NULL || condition == NULL)
        return;
    if (below(m, 2) == 0 && other->n_node > 0)
        rename_operator(m, other);
    become(m, node, "If", 1, &condition);
    insert(m, LIST(node, attribute), 0, graph_attribute(m, "then_branch", taken));
    insert(m, LIST(node, attribute), 1, graph_attribute(m, "else_branch", other));
}

/* The first operand is carried, where there is one result; or each turn's results are stacked. */
static void wrap_loop(struct mutation *m, graph_proto *graph, node_proto *node)
{
    graph_proto *body = body_of(m, node);
    const bool carries = node->n_input > 0 && node->n_output == 1 && below(m, 3) != 0;
    char *names[3] = {scalar(m, graph, ONNX__TENSOR_PROTO__DATA_TYPE__INT64, below(m, 4)), text(m, ""),
                      carries ? node->input[0] : NULL};
    char *turn = fresh(m), *condition = fresh(m), *state = fresh(m);
    if (body == NULL || names[0] == NULL || names[1] == NULL || turn == NULL || condition == NULL || state == NULL)
        return;
    insert(m, LIST(body, input), 0, named(m, turn));
    insert(m, LIST(body, input), 1, named(m, condition));
    insert(m, LIST(body, output), 0, named(m, condition));
    if (carries) {
        insert(m, LIST(body, input), 2, named(m, state));
        body->node[0]->input[0] = state;
    }
    become(m, node, "Loop", carries ? 3 : 2, names);
    insert(m, LIST(node, attribute), 0, graph_attribute(m, "body", body));
}

static void wrap_function(struct mutation *m, node_proto *node)
{
    Onnx__FunctionProto *function = take(m->arena, sizeof *function);
    Onnx__OperatorSetIdProto *set = take(m->arena, sizeof *set);
    node_proto *inner = clone(m, node);
    if (function == NULL || set == NULL || inner == NULL)
        return;
    onnx__function_proto__init(function);
    onnx__operator_set_id_proto__init(set);
    function->name = fresh(m);
    function->domain = text(m, "made");
    for (size_t i = 0; i < inner->n_input; i++)
        inner->input[i] = inner->input[i][0] != '\0' ? fresh(m) : inner->input[i];
    for (size_t i = 0; i < inner->n_input; i++)
        insert(m, LIST(function, input), i, inner->input[i][0] != '\0' ? inner->input[i] : fresh(m));
    for (size_t o = 0; o < inner->n_output; o++) {
        inner->output[o] = fresh(m);
        insert(m, LIST(function, output), o, inner->output[o]);
    }
    insert(m, LIST(function, node), 0, inner);
    for (size_t i = 0; i < m->model->n_opset_import; i++)
        insert(m, LIST(function, opset_import), i, clone(m, m->model->opset_import[i]));
    set->domain = function->domain;
    set->has_version = true;
    set->version = 1;
    insert(m, LIST(m->model, opset_import), 0, set);
    insert(m, LIST(m->model, functions), 0, function);
    node->op_type = function->name;
    node->domain = function->domain;
    node->n_attribute = 0;
}

static void wrap(struct mutation *m, graph_proto *graph)
{
    node_proto *node = any_node(m, graph);
    if (node == NULL || node->n_input > 32 || m->model->n_functions > 8)
        return;
    switch (below(m, 3)) {
    case 0:
        wrap_if(m, graph, node);
        break;
    case 1:
        wrap_loop(m, graph, node);
        break;
    default:
        wrap_function(m, node);
    }
}

/* ---- results ---------------------------------------------------------------------------------------------------- */

static void change_results(struct mutation *m, graph_proto *graph)
{
    const uint32_t at = below(m, graph->n_output);
    switch (below(m, 4)) {
    case 0:
        insert(m, LIST(graph, output), graph->n_output, named(m, any_name(m)));
        break;
    case 1:
        if (graph->n_output > 0)
            insert(m, LIST(graph, output), at, clone(m, graph->output[at]));
        break;
    case 2:
        if (graph->n_output > 1)
            drop(LIST(graph, output), at);
        break;
    default:
        if (graph->n_output > 0)
            graph->output[at]->name = any_name(m);
    }
}

static void change_set(struct mutation *m)
{
    if (m->model->n_opset_import == 0)
        return;
    Onnx__OperatorSetIdProto *set = m->model->opset_import[below(m, m->model->n_opset_import)];
    set->version = below(m, 2) == 0 ? (int64_t)below(m, 29) : set->version + 1 - 2 * (int64_t)below(m, 2);
}

/* ---- one change ------------------------------------------------------------------------------------------------- */

static void change(struct mutation *m)
{
    find_graphs(m);
    if (m->graph_count == 0)
        return;
    graph_proto *graph = m->graphs[below(m, 2) == 0 ? 0 : below(m, m->graph_count)];
    m->name_count = 0;
    find_names(m, graph);
    if (graph != m->model->graph)
        find_names(m, m->model->graph);
    const uint32_t at = below(m, graph->n_node), other = below(m, graph->n_node);
    switch (below(m, 20)) {
    case 0:
        if (graph->n_node > 0)
            drop(LIST(graph, node), at);
        break;
    case 1:
        if (graph->n_node > 0) {
            node_proto *node = graph->node[at];
            graph->node[at] = graph->node[other];
            graph->node[other] = node;
        }
        break;
    case 2:
    case 3:
        repeat_node(m, graph);
        break;
    case 4:
    case 5:
        rewire(m, graph);
        break;
    case 6:
        rename_operator(m, graph);
        break;
    case 7:
    case 8:
        change_attribute(m, graph);
        break;
    case 9:
    case 10:
    case 11:
    case 12:
        change_type(m, graph);
        break;
    case 13:
    case 14:
        change_weight(m, graph);
        break;
    case 15:
    case 16:
    case 17:
        wrap(m, graph);
        break;
    case 18:
        change_results(m, graph);
        break;
    default:
        change_set(m);
    }
}

size_t mutate_model(const uint8_t *bytes, size_t size, uint8_t *out, size_t max_size, unsigned seed)
{
    struct sp_budget budget = {.limit = (size_t)256 << 20};
    struct sp_arena *arena = sp_arena_create(&budget);
    struct mutation m = {
        .allocator = {.alloc = take, .free = keep, .allocator_data = arena}, .arena = arena, .seed = seed};
    size_t result = 0;
    if (arena == NULL)
        return 0;
    m.model = onnx__model_proto__unpack(&m.allocator, size, bytes);
    for (uint32_t changes = m.model == NULL ? 0 : 1 + below(&m, MAX_CHANGES); changes > 0; changes--)
        change(&m);
    if (m.model != NULL && onnx__model_proto__get_packed_size(m.model) <= max_size)
        result = onnx__model_proto__pack(m.model, out);
    sp_arena_destroy(arena);
    return result;
}
