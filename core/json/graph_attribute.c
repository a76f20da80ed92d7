#include <string.h>

#include "onnx.pb-c.h"
#include "json/graph.h"
#include "json/proto.h"
#include "json/scalar.h"

/* The kinds of attributes: how a description names them, and where AttributeProto has their value. */
static const struct kind {
    const char *name;
    enum sp_attr_type type;
    uint32_t field;
    bool is_list;
} kinds[] = {
    {"int", SP_ATTR_INT, 3, false},        {"float", SP_ATTR_FLOAT, 2, false},
    {"string", SP_ATTR_STRING, 4, false},  {"tensor", SP_ATTR_TENSOR, 5, false},
    {"graph", SP_ATTR_GRAPH, 6, false},    {"type", SP_ATTR_TYPE_PROTO, 14, false},
    {"ints", SP_ATTR_INTS, 8, true},       {"floats", SP_ATTR_FLOATS, 7, true},
    {"strings", SP_ATTR_STRINGS, 9, true}, {"tensors", SP_ATTR_TENSORS, 10, true},
    {"graphs", SP_ATTR_GRAPHS, 11, true},  {"types", SP_ATTR_TYPE_PROTOS, 15, true},
};

#define KIND_COUNT (sizeof kinds / sizeof kinds[0])

static const struct kind *kind_of(enum sp_attr_type type)
{
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (kinds[i].type == type)
            return &kinds[i];
    }
    return NULL;
}

/* What the operator's schema asks for, or UNDEFINED. */
static enum sp_attr_type wanted(const struct sp_signature *signature, struct sp_tree_text name)
{
    for (uint32_t i = 0; signature != NULL && i < signature->attribute_count; i++) {
        if (sp_tree_text_is(name, signature->attributes[i].name))
            return signature->attributes[i].type;
    }
    return SP_ATTR_UNDEFINED;
}

static enum sp_attr_type type_of_list(const struct sp_tree *tree, uint32_t value)
{
    uint32_t texts = 0, numbers = 0, reals = 0, count = 0;
    for (uint32_t i = sp_tree_begin(value); i != sp_tree_end(tree, value); i = sp_tree_after(tree, i), count++) {
        texts += sp_tree_kind(tree, i) == SP_TREE_STRING;
        numbers += sp_tree_kind(tree, i) == SP_TREE_NUMBER;
        reals += sp_tree_kind(tree, i) == SP_TREE_NUMBER && !sp_scalar_is_integer(tree, i);
    }
    if (count > 0 && texts == count)
        return SP_ATTR_STRINGS;
    if (count > 0 && numbers == count)
        return reals > 0 ? SP_ATTR_FLOATS : SP_ATTR_INTS;
    return SP_ATTR_UNDEFINED;
}

/* The kind of a value that does not name it itself: what the operator asks for where that is possible. */
static enum sp_attr_type type_of(const struct sp_tree *tree, uint32_t value, enum sp_attr_type want)
{
    switch (sp_tree_kind(tree, value)) {
    case SP_TREE_NUMBER:
        if (want == SP_ATTR_FLOAT || want == SP_ATTR_INT)
            return want;
        return sp_scalar_is_integer(tree, value) ? SP_ATTR_INT : SP_ATTR_FLOAT;
    case SP_TREE_STRING: /* "NaN" */
        return want == SP_ATTR_FLOAT ? want : SP_ATTR_STRING;
    case SP_TREE_TRUE:
    case SP_TREE_FALSE:
        return SP_ATTR_INT;
    case SP_TREE_ARRAY:
        if (want == SP_ATTR_FLOATS || want == SP_ATTR_INTS || want == SP_ATTR_STRINGS)
            return want;
        return type_of_list(tree, value);
    default:
        return SP_ATTR_UNDEFINED;
    }
}

/* {"float": 1}: the kind that the one member names. */
static enum sp_status read_named(const struct sp_tree *tree, uint32_t object, const struct kind **ret_kind,
                                 uint32_t *ret_value)
{
    const uint32_t name = sp_tree_begin(object);
    struct sp_tree_text text;
    if (name == sp_tree_end(tree, object) || sp_tree_after(tree, name + 1) != sp_tree_end(tree, object))
        return sp_tree_fail(tree, object, "ATTRIBUTE_KIND",
                            "An attribute that is an object has one member that names its type, as in {\"float\": 1}.");
    enum sp_status status = sp_tree_text(tree, name, &text);
    if (status != SP_OK)
        return status;
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (sp_tree_text_is(text, kinds[i].name)) {
            *ret_kind = &kinds[i];
            *ret_value = name + 1;
            return SP_OK;
        }
    }
    return sp_tree_fail(tree, name, "MEMBER_UNKNOWN",
                        "There is no such type of attributes; there are int, float, string, tensor, graph, type, ints, "
                        "floats, strings, tensors, graphs and types.");
}

static enum sp_status put_float(struct sp_description *description, uint32_t field, uint32_t value)
{
    float number = 0;
    uint32_t bits;
    enum sp_status status = sp_scalar_float(description->tree, value, &number);
    memcpy(&bits, &number, sizeof bits);
    sp_emit_tag(&description->emit, field, SP_WIRE_I32);
    sp_emit_fixed32(&description->emit, bits);
    return status;
}

static enum sp_status put_int(struct sp_description *description, uint32_t field, uint32_t value)
{
    const enum sp_tree_kind kind = sp_tree_kind(description->tree, value);
    int64_t number = kind == SP_TREE_TRUE;
    enum sp_status status = SP_OK;
    if (kind != SP_TREE_TRUE && kind != SP_TREE_FALSE)
        status = sp_scalar_int(description->tree, value, INT64_MIN, INT64_MAX, &number);
    sp_emit_int(&description->emit, field, number);
    return status;
}

static enum sp_status put_type(struct sp_description *description, uint32_t field, uint32_t value)
{
    sp_emit_begin(&description->emit, field);
    enum sp_status status =
        sp_proto_message(description->tree, value, &onnx__type_proto__descriptor, &description->emit);
    sp_emit_end(&description->emit);
    return status;
}

/* One value of the kind, or one item of its list. */
static enum sp_status put_item(struct sp_description *description, const struct kind *kind, uint32_t value)
{
    switch (kind->type) {
    case SP_ATTR_INT:
    case SP_ATTR_INTS:
        return put_int(description, kind->field, value);
    case SP_ATTR_FLOAT:
    case SP_ATTR_FLOATS:
        return put_float(description, kind->field, value);
    case SP_ATTR_TENSOR:
    case SP_ATTR_TENSORS:
        return sp_description_tensor(description, kind->field, value);
    case SP_ATTR_TYPE_PROTO:
    case SP_ATTR_TYPE_PROTOS:
        return put_type(description, kind->field, value);
    default:
        return sp_description_text(description, kind->field, value, "A text of an attribute");
    }
}

/* The value behind name and type; graphs are left to the caller. */
static enum sp_status put_value(struct sp_description *description, const struct kind *kind, uint32_t value,
                                struct sp_description_graphs *ret_graphs)
{
    const struct sp_tree *tree = description->tree;
    enum sp_status status = SP_OK;
    uint32_t at = value, end = sp_tree_after(tree, value);
    if (kind->is_list) {
        status = sp_description_array(tree, value, "A list of an attribute");
        if (status != SP_OK)
            return status;
        at = sp_tree_begin(value);
        end = sp_tree_end(tree, value);
    }
    if (kind->type == SP_ATTR_GRAPH || kind->type == SP_ATTR_GRAPHS) {
        *ret_graphs = (struct sp_description_graphs){kind->field, at, end};
        return SP_OK;
    }
    for (; status == SP_OK && at != end; at = sp_tree_after(tree, at))
        status = put_item(description, kind, at);
    return status;
}

enum sp_status sp_description_attribute(struct sp_description *description, uint32_t name,
                                        const struct sp_signature *signature, struct sp_description_graphs *ret_graphs)
{
    const struct sp_tree *tree = description->tree;
    const struct kind *kind = NULL;
    struct sp_tree_text text;
    uint32_t value = name + 1;
    *ret_graphs = (struct sp_description_graphs){0};
    enum sp_status status = sp_tree_text(tree, name, &text);
    if (status == SP_OK && sp_tree_kind(tree, value) == SP_TREE_OBJECT) {
        status = read_named(tree, value, &kind, &value);
    } else if (status == SP_OK) {
        const enum sp_attr_type type = type_of(tree, value, wanted(signature, text));
        kind = type != SP_ATTR_UNDEFINED ? kind_of(type) : NULL;
        if (kind == NULL)
            status = sp_tree_fail(tree, value, "ATTRIBUTE_KIND",
                                  "The type of this attribute cannot be told from its value; name it, as in "
                                  "{\"ints\": []}.");
    }
    if (status != SP_OK)
        return status;
    sp_emit_begin(&description->emit, SP_FIELD_NODE_ATTRIBUTE);
    sp_emit_bytes(&description->emit, SP_FIELD_ATTRIBUTE_NAME, text.bytes, text.size);
    sp_emit_int(&description->emit, SP_FIELD_ATTRIBUTE_TYPE, kind->type);
    status = put_value(description, kind, value, ret_graphs);
    if (ret_graphs->field == 0)
        sp_emit_end(&description->emit);
    return status;
}
