#include <inttypes.h>
#include <string.h>

#include "onnx/read.h"

/* Field numbers of AttributeProto that hold no value. */
enum { NAME = 1, DOC_STRING = 13, TYPE = 20, REF_ATTR_NAME = 21, LAST_FIELD = 23 };

struct layout {
    enum sp_attr_type type;
    enum sp_wire_type wire; /* of one item */
    bool is_repeated;
};

/* By field number. */
static const struct layout layouts[LAST_FIELD + 1] = {
    [2] = {SP_ATTR_FLOAT, SP_WIRE_I32, false},          [3] = {SP_ATTR_INT, SP_WIRE_VARINT, false},
    [4] = {SP_ATTR_STRING, SP_WIRE_LEN, false},         [5] = {SP_ATTR_TENSOR, SP_WIRE_LEN, false},
    [6] = {SP_ATTR_GRAPH, SP_WIRE_LEN, false},          [7] = {SP_ATTR_FLOATS, SP_WIRE_I32, true},
    [8] = {SP_ATTR_INTS, SP_WIRE_VARINT, true},         [9] = {SP_ATTR_STRINGS, SP_WIRE_LEN, true},
    [10] = {SP_ATTR_TENSORS, SP_WIRE_LEN, true},        [11] = {SP_ATTR_GRAPHS, SP_WIRE_LEN, true},
    [14] = {SP_ATTR_TYPE_PROTO, SP_WIRE_LEN, false},    [15] = {SP_ATTR_TYPE_PROTOS, SP_WIRE_LEN, true},
    [22] = {SP_ATTR_SPARSE_TENSOR, SP_WIRE_LEN, false}, [23] = {SP_ATTR_SPARSE_TENSORS, SP_WIRE_LEN, true},
};

static bool is_message(enum sp_attr_type type)
{
    switch (type) {
    case SP_ATTR_TENSOR:
    case SP_ATTR_GRAPH:
    case SP_ATTR_TENSORS:
    case SP_ATTR_GRAPHS:
    case SP_ATTR_TYPE_PROTO:
    case SP_ATTR_TYPE_PROTOS:
    case SP_ATTR_SPARSE_TENSOR:
    case SP_ATTR_SPARSE_TENSORS:
        return true;
    default:
        return false;
    }
}

/* What the first walk finds. */
struct survey {
    int64_t declared;     /* the `type` field, 0 when absent */
    uint32_t value_field; /* the value field that is in use, 0 for none */
    uint64_t items;       /* its items */
    uint32_t occurrences; /* how often it is there with any */
    struct sp_wire_field last;
    bool is_mixed; /* several value fields are in use */
};

static enum sp_status survey_value(struct sp_reader *r, const struct sp_wire_field *field, struct survey *survey)
{
    const struct layout *layout = &layouts[field->number];
    const bool singular_message = !layout->is_repeated && is_message(layout->type);
    bool seen = singular_message && survey->value_field == field->number;
    uint64_t items = 1;
    enum sp_status status;
    if (singular_message)
        status = sp_reader_single(r, field, &seen);
    else if (is_message(layout->type))
        status = sp_reader_message(r, field);
    else if (layout->is_repeated && layout->wire != SP_WIRE_LEN)
        status = sp_wire_count_items(r->bytes, field, layout->wire, &items, r->err);
    else
        status = sp_wire_expect(field, layout->wire, r->err);
    if (status != SP_OK)
        return status;
    if (items == 0)
        return SP_OK; /* an empty packed run is as good as absent */
    survey->is_mixed = survey->is_mixed || (survey->value_field != 0 && survey->value_field != field->number);
    survey->value_field = field->number;
    survey->last = *field;
    survey->occurrences++;
    if (!layout->is_repeated) {
        survey->items = 1; /* of a scalar that is repeated against the rules the last one counts */
        return SP_OK;
    }
    return sp_reader_count(r, &survey->items, items, "SP_MAX_ATTRIBUTE_ITEMS", SP_MAX_ATTRIBUTE_ITEMS,
                           "items in one attribute");
}

static enum sp_status survey_fields(struct sp_reader *r, struct sp_span span, struct sp_attribute *attribute,
                                    struct survey *survey)
{
    struct sp_wire wire = sp_wire_of(r->bytes, span);
    struct sp_wire_field field;
    enum sp_status status;
    while ((status = sp_wire_next(&wire, &field, r->err)) == SP_OK && field.number != 0) {
        if (field.number == NAME)
            status = sp_reader_text(r, &field, &attribute->name);
        else if (field.number == REF_ATTR_NAME)
            status = sp_reader_text(r, &field, &attribute->ref);
        else if (field.number == TYPE)
            status = sp_reader_int(r, &field, &survey->declared);
        else if (field.number <= LAST_FIELD && layouts[field.number].type != SP_ATTR_UNDEFINED)
            status = survey_value(r, &field, survey);
        else if (field.number != DOC_STRING)
            status = sp_reader_unknown(r, &field);
        if (status != SP_OK)
            return status;
    }
    return status;
}

/* The attribute's type. Absent values are fine where zero or empty is a value: proto3 writers leave it out. */
static enum sp_status determine_type(struct sp_reader *r, struct sp_attribute *attribute, const struct survey *survey)
{
    enum sp_attr_type found = layouts[survey->value_field].type;
    if (attribute->name[0] == '\0')
        return sp_reader_fail(r, "UNNAMED_ATTRIBUTE", "An attribute has no name.");
    if (survey->declared < 0 || survey->declared > SP_ATTR_TYPE_PROTOS)
        return sp_reader_fail(r, "BAD_ATTRIBUTE_TYPE", "Attribute '%.80s' has the unknown type %" PRId64 ".",
                              attribute->name, survey->declared);
    attribute->is_untyped = survey->declared == 0;
    attribute->type = attribute->is_untyped ? found : (enum sp_attr_type)survey->declared;
    if (attribute->ref != NULL && attribute->ref[0] == '\0')
        attribute->ref = NULL;
    if (attribute->ref != NULL && r->function == NULL)
        return sp_reader_fail(r, "STRAY_REFERENCE",
                              "Attribute '%.80s' refers to '%.80s', but references belong into functions.",
                              attribute->name, attribute->ref);
    if (attribute->ref != NULL ? survey->value_field != 0
                               : survey->is_mixed || (found != SP_ATTR_UNDEFINED && found != attribute->type))
        return sp_reader_fail(r, "ATTRIBUTE_MISMATCH",
                              "Attribute '%.80s' has a value that does not fit its type, or several.", attribute->name);
    if (attribute->ref == NULL && survey->value_field == 0 &&
        (attribute->type == SP_ATTR_UNDEFINED || attribute->type == SP_ATTR_TENSOR ||
         attribute->type == SP_ATTR_GRAPH || attribute->type == SP_ATTR_SPARSE_TENSOR))
        return sp_reader_fail(r, "NO_ATTRIBUTE_VALUE", "Attribute '%.80s' has no value.", attribute->name);
    return SP_OK;
}

static enum sp_status allocate(struct sp_reader *r, struct sp_attribute *attribute, uint64_t items)
{
    void *memory = &memory;
    switch (attribute->type) {
    case SP_ATTR_FLOATS:
        memory = attribute->floats = SP_NEW_ARRAY(r->arena, items, double);
        break;
    case SP_ATTR_INTS:
        memory = attribute->ints = SP_NEW_ARRAY(r->arena, items, int64_t);
        break;
    case SP_ATTR_STRINGS:
        memory = attribute->strings = SP_NEW_ARRAY(r->arena, items, struct sp_string);
        break;
    case SP_ATTR_TENSOR:
    case SP_ATTR_TENSORS:
        memory = attribute->tensors = SP_NEW_ARRAY(r->arena, items, struct sp_tensor *);
        break;
    case SP_ATTR_SPARSE_TENSOR:
    case SP_ATTR_SPARSE_TENSORS:
        memory = attribute->sparse_tensors = SP_NEW_ARRAY(r->arena, items, struct sp_sparse_tensor *);
        break;
    case SP_ATTR_GRAPH:
    case SP_ATTR_GRAPHS:
        memory = attribute->graphs = SP_NEW_ARRAY(r->arena, items, struct sp_graph *);
        break;
    case SP_ATTR_TYPE_PROTO:
    case SP_ATTR_TYPE_PROTOS:
        memory = attribute->types = SP_NEW_ARRAY(r->arena, items, struct sp_type);
        break;
    default:
        break;
    }
    return memory == NULL ? sp_fail_memory(r->err) : SP_OK;
}

static enum sp_status fill_string(struct sp_reader *r, struct sp_span span, struct sp_string *string)
{
    string->bytes = "";
    /* A string beyond a record's size is a payload that some runtime keeps in an attribute (a compiled program, say);
       planning has no use for its bytes, so they stay in the file. */
    if (span.size == 0 || span.size > SP_MAX_RECORD_BYTES)
        return SP_OK;
    string->bytes = sp_arena_string(r->arena, (const char *)r->bytes + span.offset, span.size);
    string->size = span.size;
    return string->bytes == NULL ? sp_fail_memory(r->err) : SP_OK;
}

/* A subgraph is only prepared here: the walk over the graphs reads it (read_graph.c). */
static enum sp_status fill_graph(struct sp_reader *r, struct sp_span span, struct sp_node *node,
                                 struct sp_graph **ret_graph)
{
    if (node == NULL)
        return sp_reader_fail(r, "GRAPH_DEFAULT", "A function's attribute has a graph as default.");
    struct sp_graph *graph = SP_NEW(r->arena, struct sp_graph);
    if (graph == NULL)
        return sp_fail_memory(r->err);
    graph->span = span;
    graph->owner = node;
    graph->parent = node->graph;
    *ret_graph = graph;
    return SP_OK;
}

static enum sp_status fill_numbers(struct sp_reader *r, const struct sp_wire_field *field,
                                   struct sp_attribute *attribute)
{
    uint64_t items, at = field->payload.offset;
    const enum sp_wire_type wire = layouts[field->number].wire;
    enum sp_status status = sp_wire_count_items(r->bytes, field, wire, &items, r->err);
    for (uint64_t i = 0; status == SP_OK && i < items; i++) {
        uint64_t bits = sp_wire_item(r->bytes, field, wire, &at);
        if (attribute->type == SP_ATTR_INTS)
            attribute->ints[attribute->count++] = (int64_t)bits;
        else
            attribute->floats[attribute->count++] = sp_wire_float(bits);
    }
    return status;
}

static enum sp_status fill_value(struct sp_reader *r, const struct sp_wire_field *field, struct sp_node *node,
                                 struct sp_attribute *attribute)
{
    switch (attribute->type) {
    case SP_ATTR_FLOAT:
        attribute->f = sp_wire_float(field->value);
        return SP_OK;
    case SP_ATTR_INT:
        attribute->i = (int64_t)field->value;
        return SP_OK;
    case SP_ATTR_STRING:
        return fill_string(r, field->payload, &attribute->s);
    case SP_ATTR_FLOATS:
    case SP_ATTR_INTS:
        return fill_numbers(r, field, attribute);
    case SP_ATTR_STRINGS:
        return fill_string(r, field->payload, &attribute->strings[attribute->count++]);
    case SP_ATTR_TENSOR:
    case SP_ATTR_TENSORS:
        return sp_read_tensor(r, field->payload, &attribute->tensors[attribute->count++]);
    case SP_ATTR_SPARSE_TENSOR:
    case SP_ATTR_SPARSE_TENSORS:
        return sp_read_sparse(r, field->payload, &attribute->sparse_tensors[attribute->count++]);
    case SP_ATTR_GRAPH:
    case SP_ATTR_GRAPHS:
        return fill_graph(r, field->payload, node, &attribute->graphs[attribute->count++]);
    case SP_ATTR_TYPE_PROTO:
    case SP_ATTR_TYPE_PROTOS:
        return sp_read_type(r, field->payload, &attribute->types[attribute->count++]);
    default:
        return SP_OK;
    }
}

enum sp_status sp_read_attribute(struct sp_reader *r, struct sp_span span, struct sp_node *node,
                                 struct sp_attribute *attribute)
{
    struct survey survey = {0};
    struct sp_wire wire = sp_wire_of(r->bytes, span);
    struct sp_wire_field field;
    attribute->name = "";
    attribute->s.bytes = "";
    enum sp_status status = survey_fields(r, span, attribute, &survey);
    if (status == SP_OK)
        status = determine_type(r, attribute, &survey);
    if (status == SP_OK)
        status = allocate(r, attribute, survey.items);
    const bool is_found = survey.occurrences < 2 || !layouts[survey.value_field].is_repeated;
    if (status == SP_OK && is_found && survey.value_field != 0)
        return fill_value(r, &survey.last, node, attribute);
    while (status == SP_OK && !is_found && (status = sp_wire_next(&wire, &field, r->err)) == SP_OK &&
           field.number != 0) {
        if (field.number == survey.value_field)
            status = fill_value(r, &field, node, attribute);
    }
    return status;
}

static const struct sp_attribute *find_default(const struct sp_function *function, const char *name)
{
    for (uint32_t i = 0; i < function->default_count; i++) {
        if (strcmp(function->defaults[i].name, name) == 0)
            return &function->defaults[i];
    }
    return NULL;
}

enum sp_status sp_resolve_references(struct sp_reader *r, struct sp_node *node)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < node->attribute_count; i++) {
        struct sp_attribute *attribute = &node->attributes[i];
        const struct sp_attribute *value = NULL;
        if (attribute->ref != NULL) {
            value = sp_node_attribute(r->call, attribute->ref);
            if (value == NULL)
                value = find_default(r->function, attribute->ref);
            if (value == NULL)
                continue; /* not given and without default: the attribute is absent in this call */
            if (attribute->type != SP_ATTR_UNDEFINED && attribute->type != value->type)
                return sp_reader_fail(r, "ATTRIBUTE_MISMATCH",
                                      "Attribute '%.80s' refers to '%.80s', which has another type in this call.",
                                      attribute->name, attribute->ref);
        }
        struct sp_attribute resolved = value == NULL ? *attribute : *value;
        resolved.name = attribute->name;
        resolved.ref = NULL;
        node->attributes[kept++] = resolved;
    }
    node->attribute_count = kept;
    return SP_OK;
}
