#include "build_model.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/table/private.h"

#define MAX_NODES      64
#define MAX_VALUES     512
#define MAX_USES       64
#define MAX_ATTRIBUTES 16
#define MAX_OPERANDS   32
#define MAX_OPSETS     8
#define MAX_BYTES      65536
#define MAX_TEXT       8192

void build_init(struct build *build, int64_t opset)
{
    memset(build, 0, sizeof(*build));
    build->arena = sp_arena_create(&build->budget);
    assert(build->arena != NULL);
    struct sp_model *model = SP_NEW(build->arena, struct sp_model);
    struct sp_graph *graph = SP_NEW(build->arena, struct sp_graph);
    assert(model != NULL && graph != NULL);
    model->arena = build->arena;
    model->names = sp_intern_create(build->arena, 0);
    model->dims = sp_dims_create(build->arena);
    model->opsets = SP_NEW_ARRAY(build->arena, MAX_OPSETS, struct sp_opset);
    model->has_ir_version = true;
    model->ir_version = 8;
    model->producer_name = model->producer_version = model->domain = model->doc = "";
    model->graph = graph;
    build->bytes = SP_NEW_ARRAY(build->arena, MAX_BYTES, unsigned char);
    model->bytes = build->bytes;
    graph->name = "test";
    graph->model = model;
    graph->opsets = model->opsets;
    graph->nodes = SP_NEW_ARRAY(build->arena, MAX_NODES, struct sp_node);
    graph->values = SP_NEW_ARRAY(build->arena, MAX_VALUES, struct sp_value *);
    graph->inputs = SP_NEW_ARRAY(build->arena, MAX_VALUES, struct sp_value *);
    graph->outputs = SP_NEW_ARRAY(build->arena, MAX_VALUES, struct sp_value *);
    graph->initializers = SP_NEW_ARRAY(build->arena, MAX_VALUES, struct sp_value *);
    build->model = model;
    build->graph = graph;
    build_opset(build, "", opset);
}

void build_release(struct build *build)
{
    sp_arena_destroy(build->arena);
    memset(build, 0, sizeof(*build));
}

void build_opset(struct build *build, const char *domain, int64_t version)
{
    assert(build->model->opset_count < MAX_OPSETS);
    build->model->opsets[build->model->opset_count++] = (struct sp_opset){.domain = domain, .version = version};
    build->graph->opset_count = build->model->opset_count;
}

static const char *intern(struct build *build, const char *name, size_t size)
{
    uint32_t id = sp_intern_add(build->model->names, name, size);
    assert(id != SP_NO_NAME);
    return sp_intern_name(build->model->names, id);
}

static struct sp_value *new_value(struct build *build, const char *name, size_t size, enum sp_value_kind kind)
{
    struct sp_graph *graph = build->graph;
    struct sp_value *value = SP_NEW(build->arena, struct sp_value);
    assert(value != NULL && graph->value_count < MAX_VALUES);
    value->name = intern(build, name, size);
    assert(sp_graph_value(graph, value->name) == NULL);
    value->id = graph->value_count;
    value->kind = kind;
    value->graph = graph;
    value->uses = SP_NEW_ARRAY(build->arena, MAX_USES, struct sp_use);
    assert(value->uses != NULL);
    graph->values[graph->value_count++] = value;
    build->model->counts.values++;
    return value;
}

/* "8,n,?" as dims of an array of MAX_OPERANDS; how many there are. */
static uint32_t parse_dims(struct build *build, const char *text, struct sp_dim *dims)
{
    uint32_t count = 0;
    while (*text != '\0') {
        size_t size = strcspn(text, ",");
        char part[64], *end;
        assert(count < MAX_OPERANDS && size > 0 && size < sizeof(part));
        memcpy(part, text, size);
        part[size] = '\0';
        int64_t number = strtoll(part, &end, 10);
        if (*end == '\0')
            dims[count++] = sp_dim_known(number);
        else
            dims[count++] = part[0] == '?' ? sp_dim_unknown() : sp_dim_symbol(build->model->dims, part);
        text += size + (text[size] == ',');
    }
    return count;
}

static void set_type(struct build *build, struct sp_value *value, enum sp_dtype dtype, const char *dims)
{
    struct sp_dim parsed[MAX_OPERANDS];
    value->type = (struct sp_type){.kind = SP_TYPE_TENSOR, .dtype = dtype};
    if (dims != NULL) {
        uint32_t rank = parse_dims(build, dims, parsed);
        value->type.shape.has_rank = true;
        value->type.shape.rank = rank;
        value->type.shape.dims = SP_NEW_ARRAY(build->arena, rank, struct sp_dim);
        assert(value->type.shape.dims != NULL);
        memcpy(value->type.shape.dims, parsed, rank * sizeof(parsed[0]));
    }
    value->declared = value->type;
}

struct sp_value *build_input(struct build *build, const char *name, enum sp_dtype dtype, const char *dims)
{
    struct sp_value *value = new_value(build, name, strlen(name), SP_VALUE_INPUT);
    set_type(build, value, dtype, dims);
    build->graph->inputs[build->graph->input_count++] = value;
    return value;
}

struct sp_value *build_weight(struct build *build, const char *name, enum sp_dtype dtype, const char *dims)
{
    struct sp_value *value = new_value(build, name, strlen(name), SP_VALUE_INITIALIZER);
    struct sp_tensor *tensor = SP_NEW(build->arena, struct sp_tensor);
    assert(tensor != NULL);
    set_type(build, value, dtype, dims);
    tensor->name = value->name;
    tensor->dtype = dtype;
    tensor->rank = value->type.shape.rank;
    tensor->dims = SP_NEW_ARRAY(build->arena, tensor->rank, int64_t);
    for (uint32_t i = 0; i < tensor->rank; i++)
        tensor->dims[i] = value->type.shape.dims[i].value;
    tensor->elements = sp_shape_elements(&value->type.shape);
    tensor->bytes = sp_dtype_bytes(dtype, tensor->elements);
    assert(tensor->elements >= 0 && tensor->bytes >= 0);
    tensor->storage = SP_STORAGE_EXTERNAL;
    tensor->external = (struct sp_external){.location = "weights", .length = -1};
    value->tensor = tensor;
    value->is_constant = true;
    build->graph->initializers[build->graph->initializer_count++] = value;
    build->model->counts.tensors++;
    return value;
}

static struct sp_value *constant(struct build *build, const char *name, enum sp_dtype dtype, int count,
                                 const void *values, size_t size)
{
    char dims[16] = "";
    if (count >= 0)
        (void)snprintf(dims, sizeof(dims), "%d", count);
    struct sp_value *value = build_weight(build, name, dtype, dims);
    assert(build->model->size + size <= MAX_BYTES);
    if (size > 0)
        memcpy(build->bytes + build->model->size, values, size);
    value->tensor->storage = size > 0 ? SP_STORAGE_RAW : SP_STORAGE_NONE;
    value->tensor->raw = value->tensor->span = (struct sp_span){.offset = build->model->size, .size = size};
    build->model->size += size;
    value->data = SP_NEW(build->arena, struct sp_data);
    assert(value->data != NULL);
    value->data->count = (uint32_t)(count < 0 ? 1 : count);
    return value;
}

struct sp_value *build_ints(struct build *build, const char *name, int count, const int64_t *values)
{
    size_t n = (size_t)(count < 0 ? 1 : count);
    struct sp_value *value = constant(build, name, SP_DTYPE_INT64, count, values, n * sizeof(int64_t));
    value->data->ints = SP_NEW_ARRAY(build->arena, n, struct sp_dim);
    for (size_t i = 0; i < n; i++)
        value->data->ints[i] = sp_dim_known(values[i]);
    return value;
}

struct sp_value *build_floats(struct build *build, const char *name, int count, const float *values)
{
    size_t n = (size_t)(count < 0 ? 1 : count);
    struct sp_value *value = constant(build, name, SP_DTYPE_FLOAT, count, values, n * sizeof(float));
    value->data->reals = SP_NEW_ARRAY(build->arena, n, double);
    for (size_t i = 0; i < n; i++)
        value->data->reals[i] = (double)values[i];
    return value;
}

struct sp_value *build_shape_vector(struct build *build, const char *name, const char *elements)
{
    struct sp_dim parsed[MAX_OPERANDS];
    char dims[16];
    uint32_t count = parse_dims(build, elements, parsed);
    (void)snprintf(dims, sizeof(dims), "%u", count);
    struct sp_value *value = build_input(build, name, SP_DTYPE_INT64, dims);
    value->data = SP_NEW(build->arena, struct sp_data);
    value->data->count = count;
    value->data->ints = SP_NEW_ARRAY(build->arena, count, struct sp_dim);
    memcpy(value->data->ints, parsed, count * sizeof(parsed[0]));
    return value;
}

/* The operands of a blank-separated list; `is_new` makes them. */
static uint32_t operands(struct build *build, const char *text, bool is_new, struct sp_value **values)
{
    uint32_t count = 0;
    text += strspn(text, " ");
    while (*text != '\0') {
        size_t size = strcspn(text, " ");
        char name[128];
        assert(count < MAX_OPERANDS && size < sizeof(name));
        memcpy(name, text, size);
        name[size] = '\0';
        if (strcmp(name, "-") == 0)
            values[count++] = NULL;
        else if (is_new)
            values[count++] = new_value(build, name, size, SP_VALUE_NODE_OUTPUT);
        else
            values[count++] = build_value(build, name);
        text += size;
        text += strspn(text, " ");
    }
    return count;
}

struct sp_node *build_node_in(struct build *build, const char *domain, const char *op_type, const char *inputs,
                              const char *outputs)
{
    struct sp_graph *graph = build->graph;
    assert(graph->node_count < MAX_NODES);
    struct sp_node *node = &graph->nodes[graph->node_count];
    node->name = node->overload = "";
    node->op_type = op_type;
    node->domain = domain;
    node->index = graph->node_count++;
    node->graph = graph;
    node->inputs = SP_NEW_ARRAY(build->arena, MAX_OPERANDS, struct sp_value *);
    node->outputs = SP_NEW_ARRAY(build->arena, MAX_OPERANDS, struct sp_value *);
    node->attributes = SP_NEW_ARRAY(build->arena, MAX_ATTRIBUTES, struct sp_attribute);
    node->input_count = operands(build, inputs, false, node->inputs);
    node->output_count = operands(build, outputs, true, node->outputs);
    for (uint32_t i = 0; i < node->input_count; i++) {
        struct sp_value *value = node->inputs[i];
        if (value == NULL)
            continue;
        assert(value->use_count < MAX_USES);
        value->uses[value->use_count++] = (struct sp_use){.node = node, .input = i};
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] == NULL)
            continue;
        node->outputs[i]->producer = node;
        node->outputs[i]->producer_output = i;
    }
    build->model->counts.nodes++;
    return node;
}

struct sp_node *build_node(struct build *build, const char *op_type, const char *inputs, const char *outputs)
{
    return build_node_in(build, "", op_type, inputs, outputs);
}

static struct sp_attribute *new_attribute(struct build *build, struct sp_node *node, const char *name,
                                          enum sp_attr_type type)
{
    assert(node->attribute_count < MAX_ATTRIBUTES);
    struct sp_attribute *attribute = &node->attributes[node->attribute_count++];
    attribute->name = name;
    attribute->type = type;
    build->model->counts.attributes++;
    return attribute;
}

void build_attr_int(struct build *build, struct sp_node *node, const char *name, int64_t value)
{
    new_attribute(build, node, name, SP_ATTR_INT)->i = value;
}

void build_attr_float(struct build *build, struct sp_node *node, const char *name, double value)
{
    new_attribute(build, node, name, SP_ATTR_FLOAT)->f = value;
}

void build_attr_string(struct build *build, struct sp_node *node, const char *name, const char *value)
{
    new_attribute(build, node, name, SP_ATTR_STRING)->s = (struct sp_string){.bytes = value, .size = strlen(value)};
}

void build_attr_ints(struct build *build, struct sp_node *node, const char *name, uint32_t count, const int64_t *values)
{
    struct sp_attribute *attribute = new_attribute(build, node, name, SP_ATTR_INTS);
    attribute->count = count;
    attribute->ints = SP_NEW_ARRAY(build->arena, count, int64_t);
    if (count > 0)
        memcpy(attribute->ints, values, count * sizeof(values[0]));
}

void build_attr_floats(struct build *build, struct sp_node *node, const char *name, uint32_t count,
                       const double *values)
{
    struct sp_attribute *attribute = new_attribute(build, node, name, SP_ATTR_FLOATS);
    attribute->count = count;
    attribute->floats = SP_NEW_ARRAY(build->arena, count, double);
    if (count > 0)
        memcpy(attribute->floats, values, count * sizeof(values[0]));
}

void build_attr_strings(struct build *build, struct sp_node *node, const char *name, const char *values)
{
    struct sp_attribute *attribute = new_attribute(build, node, name, SP_ATTR_STRINGS);
    attribute->strings = SP_NEW_ARRAY(build->arena, MAX_OPERANDS, struct sp_string);
    for (values += strspn(values, " "); *values != '\0'; values += strspn(values, " ")) {
        size_t size = strcspn(values, " ");
        assert(attribute->count < MAX_OPERANDS);
        attribute->strings[attribute->count++] =
            (struct sp_string){.bytes = sp_arena_string(build->arena, values, size), .size = size};
        values += size;
    }
}

void build_outputs(struct build *build, const char *names)
{
    struct sp_value *values[MAX_OPERANDS];
    uint32_t count = operands(build, names, false, values);
    for (uint32_t i = 0; i < count; i++) {
        assert(values[i] != NULL && build->graph->output_count < MAX_VALUES);
        values[i]->is_graph_output = true;
        build->graph->outputs[build->graph->output_count++] = values[i];
    }
}

struct sp_value *build_value(struct build *build, const char *name)
{
    struct sp_value *value = sp_graph_value(build->graph, name);
    if (value == NULL)
        (void)fprintf(stderr, "no value '%s' in the test's model\n", name);
    assert(value != NULL);
    return value;
}

enum sp_status build_infer(struct build *build)
{
    sp_error_clear(&build->err);
    for (uint32_t i = 0; i < build->graph->node_count; i++) {
        struct sp_node *node = &build->graph->nodes[i];
        node->version = sp_graph_opset(build->graph, node->domain);
        node->op = sp_private_find(build->model->operators, node->domain, node->op_type, node->version);
        if (node->op == NULL)
            node->op = sp_op_find(node->domain, node->op_type, node->version);
        if (node->op == NULL)
            return sp_fail(&build->err, SP_ERR_UNSUPPORTED, "NO_ENTRY", "There is no entry for %s version %lld.",
                           node->op_type, (long long)node->version);
        struct sp_op_context context = {.model = build->model,
                                        .arena = build->arena,
                                        .dims = build->model->dims,
                                        .node = node,
                                        .version = node->version,
                                        .err = &build->err};
        uint32_t before = 0;
        for (uint32_t j = 0; j < i; j++)
            before += build->graph->nodes[j].op == node->op;
        sp_dims_begin_node(build->model->dims, before);
        enum sp_status status = node->op->shapes(&context);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

/* The buffer's text in the arena; the buffer is released. */
static const char *keep(struct build *build, struct sp_buf *buf)
{
    assert(!sp_buf_failed(buf));
    char *text = sp_arena_string(build->arena, buf->data == NULL ? "" : buf->data, buf->size);
    assert(text != NULL);
    sp_buf_release(buf);
    return text;
}

const char *build_type(struct build *build, const char *name)
{
    const struct sp_type *type = &build_value(build, name)->type;
    struct sp_buf buf;
    if (type->kind != SP_TYPE_TENSOR)
        return type->kind == SP_TYPE_NONE ? "none" : "other";
    sp_buf_init(&buf, MAX_TEXT);
    sp_buf_printf(&buf, "%s[", sp_dtype_name(type->dtype));
    if (!type->shape.has_rank)
        sp_buf_text(&buf, "*");
    for (uint32_t i = 0; i < type->shape.rank; i++) {
        sp_buf_text(&buf, i > 0 ? "," : "");
        sp_dim_print(type->shape.dims[i], &buf);
    }
    sp_buf_text(&buf, "]");
    return keep(build, &buf);
}

const char *build_data(struct build *build, const char *name)
{
    const struct sp_data *data = build_value(build, name)->data;
    struct sp_buf buf;
    if (data == NULL)
        return "none";
    sp_buf_init(&buf, MAX_TEXT);
    for (uint32_t i = 0; i < data->count; i++) {
        sp_buf_text(&buf, i > 0 ? "," : "");
        if (data->ints != NULL)
            sp_dim_print(data->ints[i], &buf);
        else
            sp_buf_printf(&buf, "%g", data->reals[i]);
    }
    return keep(build, &buf);
}

const char *build_rule(struct build *build, struct sp_node *node)
{
    struct sp_rule *rule;
    struct sp_buf buf;
    sp_error_clear(&build->err);
    if (sp_op_rule(build->model, node, build->arena, &rule, &build->err) != SP_OK)
        return build->err.code;
    sp_buf_init(&buf, MAX_TEXT);
    sp_rule_print(rule, &buf);
    return keep(build, &buf);
}

double build_flops(struct build *build, struct sp_node *node)
{
    struct sp_rule *rule;
    sp_error_clear(&build->err);
    if (sp_op_rule(build->model, node, build->arena, &rule, &build->err) != SP_OK)
        return -1;
    return sp_rule_flops(rule, NULL);
}
