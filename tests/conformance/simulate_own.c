#include "simulate_own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "graph/dtype.h"
#include "onnx.pb-c.h"

#define MAX_TEXT     1024
#define MAX_OPERANDS 24
#define MAX_ITEMS    64
#define IR_VERSION   10
#define OTHER_OPSET  21 /* of ai.onnx, for operators of other domains */

/* A model while it is put together; everything in the arena. */
struct own_model {
    struct sp_arena *arena;
    Onnx__ModelProto model;
    Onnx__GraphProto graph;
    Onnx__NodeProto node;
    Onnx__OperatorSetIdProto opsets[2];
    json_t *feeds;
};

static char *keep(struct own_model *own, const char *text, size_t size)
{
    return sp_arena_string(own->arena, text, size);
}

/* The next word, which ends at a blank; false at the end. */
static bool next_word(const char **text, char *word, size_t size)
{
    *text += strspn(*text, " ");
    size_t length = strcspn(*text, " ");
    if (length == 0 || length >= size)
        return false;
    memcpy(word, *text, length);
    word[length] = '\0';
    *text += length;
    return true;
}

/* "1,2,3" up to what is no number. */
static size_t numbers_of(const char *text, double *numbers)
{
    size_t count = 0;
    for (char *end; count < MAX_ITEMS; count++, text = end + (*end == ',')) {
        numbers[count] = strtod(text, &end);
        if (end == text)
            break;
    }
    return count;
}

/* ---- inputs ----------------------------------------------------------------------------------------------------- */

static void add_constant(struct own_model *own, const char *name, enum sp_dtype dtype, const char *equals)
{
    Onnx__TensorProto *tensor = SP_NEW(own->arena, Onnx__TensorProto);
    double numbers[MAX_ITEMS];
    size_t count = numbers_of(equals + 1, numbers), bytes = (size_t)sp_dtype_bytes(dtype, (int64_t)count);
    unsigned char *raw = SP_NEW_ARRAY(own->arena, bytes, unsigned char);
    onnx__tensor_proto__init(tensor);
    tensor->name = keep(own, name, strlen(name));
    tensor->has_data_type = 1;
    tensor->data_type = (int32_t)dtype;
    tensor->n_dims = equals[-1] == ':' ? 0 : 1;
    tensor->dims = SP_NEW_ARRAY(own->arena, 1, int64_t);
    tensor->dims[0] = (int64_t)count;
    for (size_t i = 0; i < count; i++) {
        int64_t whole = (int64_t)numbers[i];
        float real = (float)numbers[i];
        size_t size = bytes / count;
        memcpy(raw + i * size, dtype == SP_DTYPE_FLOAT ? (const void *)&real : (const void *)&whole, size);
    }
    tensor->has_raw_data = 1;
    tensor->raw_data = (ProtobufCBinaryData){bytes, raw};
    own->graph.initializer[own->graph.n_initializer++] = tensor;
}

/* "4,n3]": numbers, and symbols with theirs. */
static Onnx__TensorShapeProto *shape_of(struct own_model *own, const char *text, json_t *dims)
{
    Onnx__TensorShapeProto *shape = SP_NEW(own->arena, Onnx__TensorShapeProto);
    onnx__tensor_shape_proto__init(shape);
    shape->dim = SP_NEW_ARRAY(own->arena, MAX_ITEMS, Onnx__TensorShapeProto__Dimension *);
    while (*text != ']' && *text != '\0' && shape->n_dim < MAX_ITEMS) {
        Onnx__TensorShapeProto__Dimension *dim = SP_NEW(own->arena, Onnx__TensorShapeProto__Dimension);
        size_t letters = strcspn(text, "0123456789");
        char *end;
        int64_t extent = strtoll(text + letters, &end, 10);
        onnx__tensor_shape_proto__dimension__init(dim);
        dim->value_case = letters > 0 ? ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM
                                      : ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        if (letters > 0)
            dim->dim_param = keep(own, text, letters);
        else
            dim->dim_value = extent;
        (void)json_array_append_new(dims, json_integer(extent));
        shape->dim[shape->n_dim++] = dim;
        text = end + (*end == ',');
    }
    return shape;
}

static void add_fed(struct own_model *own, const char *name, enum sp_dtype dtype, const char *word)
{
    Onnx__ValueInfoProto *info = SP_NEW(own->arena, Onnx__ValueInfoProto);
    Onnx__TypeProto *type = SP_NEW(own->arena, Onnx__TypeProto);
    Onnx__TypeProto__Tensor *tensor = SP_NEW(own->arena, Onnx__TypeProto__Tensor);
    const char *below = strchr(word, '<');
    json_t *dims = json_array();
    onnx__value_info_proto__init(info);
    onnx__type_proto__init(type);
    onnx__type_proto__tensor__init(tensor);
    tensor->has_elem_type = 1;
    tensor->elem_type = (int32_t)dtype;
    tensor->shape = shape_of(own, strchr(word, '[') + 1, dims);
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type->tensor_type = tensor;
    info->name = keep(own, name, strlen(name));
    info->type = type;
    own->graph.input[own->graph.n_input++] = info;
    json_t *feed = json_pack("{s:s, s:o, s:f, s:f}", "type", sp_dtype_name(dtype), "dims", dims, "from",
                             strchr(word, '>') != NULL ? 0.5 : -1.0, "to", strchr(word, '>') != NULL ? 1.5 : 1.0);
    const char *fill = strchr(word, '@'), *step = strchr(word, '+');
    if (below != NULL)
        (void)json_object_set_new(feed, "below", json_integer(strtoll(below + 1, NULL, 10)));
    if (fill != NULL)
        (void)json_object_set_new(feed, "fill", json_integer(strtoll(fill + 1, NULL, 10)));
    if (step != NULL)
        (void)json_object_set_new(feed, "step", json_integer(strtoll(step + 1, NULL, 10)));
    (void)json_object_set_new(own->feeds, name, feed);
}

static bool add_input(struct own_model *own, const char *name, const char *word)
{
    char type[32] = "";
    size_t size = strcspn(word, "[=:");
    memcpy(type, word, size < sizeof(type) ? size : 0);
    enum sp_dtype dtype = sp_dtype_parse(type);
    const char *equals = strchr(word, '=');
    if (dtype == SP_DTYPE_UNDEFINED || (equals == NULL && strchr(word, '[') == NULL))
        return false;
    if (equals != NULL)
        add_constant(own, name, dtype, equals);
    else
        add_fed(own, name, dtype, word);
    return true;
}

/* ---- attributes ------------------------------------------------------------------------------------------------- */

/* "'a','b'" */
static void set_strings(struct own_model *own, Onnx__AttributeProto *attribute, const char *text)
{
    attribute->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS;
    attribute->strings = SP_NEW_ARRAY(own->arena, MAX_ITEMS, ProtobufCBinaryData);
    for (; *text == '\'' && attribute->n_strings < MAX_ITEMS; text += *text == ',') {
        size_t size = strcspn(text + 1, "'");
        attribute->strings[attribute->n_strings++] =
            (ProtobufCBinaryData){size, (unsigned char *)keep(own, text + 1, size)};
        text += size + 2;
    }
}

static void set_numbers(struct own_model *own, Onnx__AttributeProto *attribute, const char *text)
{
    double numbers[MAX_ITEMS];
    size_t count = numbers_of(text, numbers);
    bool is_real = strchr(text, '.') != NULL;
    attribute->type =
        is_real ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS : ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
    attribute->floats = SP_NEW_ARRAY(own->arena, count, float);
    attribute->ints = SP_NEW_ARRAY(own->arena, count, int64_t);
    attribute->n_floats = is_real ? count : 0;
    attribute->n_ints = is_real ? 0 : count;
    for (size_t i = 0; i < count; i++) {
        attribute->floats[i] = (float)numbers[i];
        attribute->ints[i] = (int64_t)numbers[i];
    }
}

static void add_attribute(struct own_model *own, const char *word)
{
    Onnx__AttributeProto *attribute = SP_NEW(own->arena, Onnx__AttributeProto);
    const char *value = strchr(word, '=') + 1;
    onnx__attribute_proto__init(attribute);
    attribute->name = keep(own, word, (size_t)(value - 1 - word));
    attribute->has_type = 1;
    if (value[0] == '\'') {
        size_t size = strcspn(value + 1, "'");
        attribute->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
        attribute->has_s = 1;
        attribute->s = (ProtobufCBinaryData){size, (unsigned char *)keep(own, value + 1, size)};
    } else if (value[0] == '[' && value[1] == '\'') {
        set_strings(own, attribute, value + 1);
    } else if (value[0] == '[') {
        set_numbers(own, attribute, value + 1);
    } else if (strchr(value, '.') != NULL) {
        attribute->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
        attribute->has_f = 1;
        attribute->f = strtof(value, NULL);
    } else {
        attribute->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
        attribute->has_i = 1;
        attribute->i = strtoll(value, NULL, 10);
    }
    own->node.attribute[own->node.n_attribute++] = attribute;
}

/* ---- the model -------------------------------------------------------------------------------------------------- */

static void init_model(struct own_model *own, const struct simulate_own *from)
{
    const char *dot = strrchr(from->op, '.'), *type = dot == NULL ? from->op : dot + 1;
    onnx__model_proto__init(&own->model);
    onnx__graph_proto__init(&own->graph);
    onnx__node_proto__init(&own->node);
    own->node.op_type = keep(own, type, strlen(type));
    own->node.name = keep(own, "node", 4);
    own->node.domain = dot == NULL ? NULL : keep(own, from->op, (size_t)(dot - from->op));
    own->node.input = SP_NEW_ARRAY(own->arena, MAX_OPERANDS, char *);
    own->node.output = SP_NEW_ARRAY(own->arena, MAX_OPERANDS, char *);
    own->node.attribute = SP_NEW_ARRAY(own->arena, MAX_OPERANDS, Onnx__AttributeProto *);
    own->graph.name = keep(own, "own", 3);
    own->graph.input = SP_NEW_ARRAY(own->arena, MAX_OPERANDS, Onnx__ValueInfoProto *);
    own->graph.output = SP_NEW_ARRAY(own->arena, MAX_OPERANDS, Onnx__ValueInfoProto *);
    own->graph.initializer = SP_NEW_ARRAY(own->arena, MAX_OPERANDS, Onnx__TensorProto *);
    own->graph.node = SP_NEW_ARRAY(own->arena, 1, Onnx__NodeProto *);
    own->graph.node[own->graph.n_node++] = &own->node;
    own->model.has_ir_version = 1;
    own->model.ir_version = IR_VERSION;
    own->model.graph = &own->graph;
    own->model.opset_import = SP_NEW_ARRAY(own->arena, 2, Onnx__OperatorSetIdProto *);
    for (unsigned i = 0; i < (dot == NULL ? 1 : 2); i++) {
        onnx__operator_set_id_proto__init(&own->opsets[i]);
        own->opsets[i].domain = i == 0 ? keep(own, "", 0) : own->node.domain;
        own->opsets[i].has_version = 1;
        own->opsets[i].version = dot == NULL || i == 1 ? from->version : OTHER_OPSET;
        own->model.opset_import[own->model.n_opset_import++] = &own->opsets[i];
    }
}

/* "uint32": a tensor of any shape. */
static Onnx__TypeProto *type_of(struct own_model *own, const char *word)
{
    Onnx__TypeProto *type = SP_NEW(own->arena, Onnx__TypeProto);
    Onnx__TypeProto__Tensor *tensor = SP_NEW(own->arena, Onnx__TypeProto__Tensor);
    onnx__type_proto__init(type);
    onnx__type_proto__tensor__init(tensor);
    tensor->has_elem_type = 1;
    tensor->elem_type = (int32_t)sp_dtype_parse(word);
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type->tensor_type = tensor;
    return type;
}

static bool fill_node(struct own_model *own, const struct simulate_own *from)
{
    char word[MAX_TEXT], name[16];
    const char *text = from->inputs;
    for (unsigned i = 0; next_word(&text, word, sizeof(word)); i++) {
        bool is_omitted = strcmp(word, "-") == 0;
        (void)snprintf(name, sizeof(name), "i%u", i);
        own->node.input[own->node.n_input++] = keep(own, name, is_omitted ? 0 : strlen(name));
        if (!is_omitted && !add_input(own, name, word))
            return false;
    }
    text = from->attributes;
    while (next_word(&text, word, sizeof(word)))
        add_attribute(own, word);
    text = from->outputs;
    for (unsigned i = 0; next_word(&text, word, sizeof(word)); i++) {
        (void)snprintf(name, sizeof(name), "o%u", i);
        own->node.output[own->node.n_output++] = keep(own, name, word[0] == '-' ? 0 : strlen(name));
        if (word[0] == '-')
            continue;
        Onnx__ValueInfoProto *info = SP_NEW(own->arena, Onnx__ValueInfoProto);
        onnx__value_info_proto__init(info);
        info->name = keep(own, name, strlen(name));
        if (strcmp(word, "o") != 0)
            info->type = type_of(own, word);
        own->graph.output[own->graph.n_output++] = info;
    }
    return true;
}

const char *simulate_own_name(const struct simulate_own *list, const struct simulate_own *own, char *name, size_t size)
{
    const char *first = list == simulate_own_cases         ? "own"
                        : list == simulate_contrib_cases   ? "contrib"
                        : list == simulate_quantised_cases ? "quantised"
                        : list == simulate_open_cases      ? "open"
                                                           : "statistics";
    (void)snprintf(name, size, "%s_%s_%zu", first, own->op, (size_t)(own - list));
    return name;
}

bool simulate_own_write(const struct simulate_own *own, const char *path, json_t **ret_inputs)
{
    struct own_model building = {.arena = sp_arena_create(NULL), .feeds = json_object()};
    init_model(&building, own);
    bool is_ok = fill_node(&building, own);
    size_t size = onnx__model_proto__get_packed_size(&building.model);
    unsigned char *bytes = malloc(size);
    FILE *file = fopen(path, "wb");
    is_ok = is_ok && bytes != NULL && file != NULL && onnx__model_proto__pack(&building.model, bytes) == size &&
            fwrite(bytes, 1, size, file) == size;
    if (file != NULL)
        is_ok = fclose(file) == 0 && is_ok;
    *ret_inputs = json_pack("{s:o}", "feeds", building.feeds);
    free(bytes);
    sp_arena_destroy(building.arena);
    return is_ok;
}
