#include "json/graph.h"

#include <string.h>

#include "onnx.pb-c.h"
#include "json/proto.h"
#include "json/scalar.h"

/*
 * A graph's nodes are written one after the other; a node waits while the graphs of its attributes are written. So what
 * is open is a stack, of these levels:
 *
 *   graph     its nodes from `at` on are still to be written
 *   node      its attributes are
 *   graphs    the graphs of one attribute are
 */
enum level_kind { LEVEL_GRAPH, LEVEL_NODE, LEVEL_GRAPHS };

struct level {
    enum level_kind kind;
    uint32_t at, end;
    uint32_t field;                       /* of graphs: where AttributeProto has them */
    const struct sp_signature *signature; /* of a node */
};

struct writer {
    struct sp_description description;
    uint32_t depth;
    struct level levels[SP_MAX_NESTING + 1];
};

/* ---- members --------------------------------------------------------------------------------------------------- */

/* An array of texts, each a field. */
static enum sp_status put_names(struct sp_description *description, uint32_t field, uint32_t value, const char *what)
{
    enum sp_status status = SP_OK;
    if (value == SP_TREE_NONE)
        return SP_OK;
    status = sp_description_array(description->tree, value, what);
    if (status != SP_OK)
        return status;
    const uint32_t end = sp_tree_end(description->tree, value);
    for (uint32_t i = sp_tree_begin(value); status == SP_OK && i != end; i = sp_tree_after(description->tree, i))
        status = sp_description_text(description, field, i, "A tensor's name");
    return status;
}

/* An array of messages in protobuf's mapping, each a field. */
static enum sp_status put_messages(struct sp_description *description, uint32_t field, uint32_t value, const char *what,
                                   const ProtobufCMessageDescriptor *descriptor)
{
    enum sp_status status = sp_description_array(description->tree, value, what);
    if (status != SP_OK)
        return status;
    const uint32_t end = sp_tree_end(description->tree, value);
    for (uint32_t i = sp_tree_begin(value); status == SP_OK && i != end; i = sp_tree_after(description->tree, i)) {
        sp_emit_begin(&description->emit, field);
        status = sp_proto_message(description->tree, i, descriptor, &description->emit);
        sp_emit_end(&description->emit);
    }
    return status;
}

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

static enum sp_status put_configuration(struct sp_description *description, uint32_t value)
{
    enum { CONFIGURATION, STAGE, SPECS, COUNT };
    static const char *const names[COUNT] = {"configuration", "stage", "specs"};
    const struct sp_tree *tree = description->tree;
    uint32_t slots[COUNT];
    int64_t stage = 0;
    enum sp_status status = sp_description_members(tree, value, "A node's configuration", names, COUNT, slots);
    if (status == SP_OK && slots[STAGE] != SP_TREE_NONE)
        status = sp_scalar_int(tree, slots[STAGE], INT32_MIN, INT32_MAX, &stage);
    if (status != SP_OK)
        return status;
    sp_emit_begin(&description->emit, SP_FIELD_NODE_CONFIGURATION);
    status =
        sp_description_text(description, SP_FIELD_CONFIGURATION_ID, slots[CONFIGURATION], "A configuration's name");
    if (status == SP_OK && slots[SPECS] != SP_TREE_NONE)
        status = put_messages(description, SP_FIELD_CONFIGURATION_SPEC, slots[SPECS], "'specs'",
                              &onnx__sharding_spec_proto__descriptor);
    if (slots[STAGE] != SP_TREE_NONE)
        sp_emit_int(&description->emit, SP_FIELD_CONFIGURATION_STAGE, stage);
    sp_emit_end(&description->emit);
    return status;
}

static enum sp_status put_configurations(struct sp_description *description, uint32_t value)
{
    const struct sp_tree *tree = description->tree;
    enum sp_status status = SP_OK;
    if (value == SP_TREE_NONE)
        return SP_OK;
    status = sp_description_array(tree, value, "'configurations' of a node");
    if (status != SP_OK)
        return status;
    sp_description_needs(description, 11);
    for (uint32_t i = sp_tree_begin(value); status == SP_OK && i != sp_tree_end(tree, value);
         i = sp_tree_after(tree, i))
        status = put_configuration(description, i);
    return status;
}

/* A text of the document with a NUL behind it; NULL without memory, or where it is no text. */
static const char *terminated(const struct sp_tree *tree, uint32_t value)
{
    struct sp_tree_text text;
    if (value == SP_TREE_NONE)
        return "";
    if (sp_tree_kind(tree, value) != SP_TREE_STRING || sp_tree_text(tree, value, &text) != SP_OK)
        return NULL;
    return sp_arena_string(tree->arena, text.bytes, text.size);
}

/* The version of a domain that the document states, or 0. */
static int64_t opset_version(const struct sp_description *description, const char *domain)
{
    const struct sp_tree *tree = description->tree;
    struct sp_tree quiet = *tree;
    int64_t version = 0;
    quiet.err = NULL;
    if (sp_tree_kind(tree, description->opset) != SP_TREE_OBJECT)
        return domain[0] == '\0' && sp_scalar_int(&quiet, description->opset, 1, INT64_MAX, &version) == SP_OK ? version
                                                                                                               : 0;
    for (uint32_t name = sp_tree_begin(description->opset); name != sp_tree_end(tree, description->opset);
         name = sp_tree_after(tree, name + 1)) {
        if (sp_tree_text_is(sp_tree_raw_text(tree, name), domain) &&
            sp_scalar_int(&quiet, name + 1, 1, INT64_MAX, &version) == SP_OK)
            return version;
    }
    return 0;
}

static const struct sp_signature *find_signature(const struct sp_description *description, uint32_t domain, uint32_t op)
{
    struct sp_arena_mark mark = sp_arena_mark(description->tree->arena);
    const char *domain_name = terminated(description->tree, domain), *name = terminated(description->tree, op);
    const struct sp_signature *found = NULL;
    if (domain_name != NULL && strcmp(domain_name, "ai.onnx") == 0)
        domain_name = "";
    if (domain_name != NULL && name != NULL) {
        const int64_t version = opset_version(description, domain_name);
        found = version > 0 ? sp_signature_find(domain_name, name, version) : NULL;
    }
    sp_arena_rewind(description->tree->arena, mark);
    return found;
}

static enum sp_status begin_node(struct writer *writer, uint32_t value)
{
    enum { NAME, OP, DOMAIN, OVERLOAD, INPUTS, OUTPUTS, ATTRIBUTES, METADATA, CONFIGURATIONS, COUNT };
    static const char *const names[COUNT] = {"name",    "op",         "domain",   "overload",      "inputs",
                                             "outputs", "attributes", "metadata", "configurations"};
    struct sp_description *description = &writer->description;
    const struct sp_tree *tree = description->tree;
    uint32_t slots[COUNT];
    enum sp_status status = sp_description_members(tree, value, "A node", names, COUNT, slots);
    if (status != SP_OK)
        return status;
    const uint32_t attributes = slots[ATTRIBUTES];
    if (slots[OP] == SP_TREE_NONE)
        return sp_tree_fail(tree, value, "MEMBER_MISSING", "A node needs the member 'op', its operator.");
    if (attributes != SP_TREE_NONE && sp_tree_kind(tree, attributes) != SP_TREE_OBJECT)
        return sp_tree_fail(tree, attributes, "OBJECT_EXPECTED", "'attributes' is a JSON object.");
    if (slots[OVERLOAD] != SP_TREE_NONE || slots[METADATA] != SP_TREE_NONE)
        sp_description_needs(description, 10);
    sp_emit_begin(&description->emit, SP_FIELD_GRAPH_NODE);
    status = put_names(description, SP_FIELD_NODE_INPUT, slots[INPUTS], "'inputs' of a node");
    if (status == SP_OK)
        status = put_names(description, SP_FIELD_NODE_OUTPUT, slots[OUTPUTS], "'outputs' of a node");
    if (status == SP_OK)
        status = sp_description_text(description, SP_FIELD_NODE_NAME, slots[NAME], "A node's name");
    if (status == SP_OK)
        status = sp_description_text(description, SP_FIELD_NODE_OP, slots[OP], "A node's operator");
    if (status == SP_OK)
        status = sp_description_text(description, SP_FIELD_NODE_DOMAIN, slots[DOMAIN], "A node's domain");
    if (status == SP_OK)
        status = sp_description_text(description, SP_FIELD_NODE_OVERLOAD, slots[OVERLOAD], "A node's overload");
    if (status == SP_OK)
        status = sp_description_metadata(description, SP_FIELD_NODE_METADATA, slots[METADATA]);
    if (status == SP_OK)
        status = put_configurations(description, slots[CONFIGURATIONS]);
    if (status != SP_OK)
        return status;
    writer->levels[writer->depth++] = (struct level){
        .kind = LEVEL_NODE,
        .at = attributes != SP_TREE_NONE ? sp_tree_begin(attributes) : 0,
        .end = attributes != SP_TREE_NONE ? sp_tree_end(tree, attributes) : 0,
        .signature = find_signature(description, slots[DOMAIN], slots[OP]),
    };
    return SP_OK;
}

/* ---- graphs ---------------------------------------------------------------------------------------------------- */

enum { NAME, INPUTS, INITIALIZERS, OUTPUTS, VALUES, NODES, GRAPH_MEMBERS };
enum { DOC = GRAPH_MEMBERS, OPSET, IR_VERSION, METADATA, CONFIGURATIONS, OPERATORS, DOCUMENT_MEMBERS };
static const char *const member_names[DOCUMENT_MEMBERS] = {
    "name", "inputs", "initializers", "outputs",  "values",         "nodes",
    "doc",  "opset",  "ir_version",   "metadata", "configurations", "operators"};

static enum sp_status put_values(struct sp_description *description, uint32_t field, uint32_t value, const char *what)
{
    const struct sp_tree *tree = description->tree;
    enum sp_status status = SP_OK;
    if (value == SP_TREE_NONE)
        return SP_OK;
    status = sp_description_array(tree, value, what);
    if (status != SP_OK)
        return status;
    for (uint32_t i = sp_tree_begin(value); status == SP_OK && i != sp_tree_end(tree, value);
         i = sp_tree_after(tree, i))
        status = field == SP_FIELD_GRAPH_INITIALIZER ? sp_description_initializer(description, field, i)
                                                     : sp_description_value(description, field, i);
    return status;
}

/* Outputs; only those of the main graph are looked up in what was inferred. */
static enum sp_status put_outputs(struct sp_description *description, uint32_t value, bool is_main)
{
    const struct sp_tree *tree = description->tree;
    const struct sp_graph *graph = is_main && description->typed != NULL ? description->typed->graph : NULL;
    const uint32_t untyped = description->untyped;
    uint32_t index = 0;
    if (value == SP_TREE_NONE)
        return SP_OK;
    enum sp_status status = sp_description_array(tree, value, "'outputs'");
    if (status != SP_OK)
        return status;
    for (uint32_t i = sp_tree_begin(value); status == SP_OK && i != sp_tree_end(tree, value);
         i = sp_tree_after(tree, i), index++)
        status = sp_description_output(description, i,
                                       graph != NULL && index < graph->output_count ? graph->outputs[index] : NULL);
    if (!is_main)
        description->untyped = untyped; /* outputs of bodies need no types */
    return status;
}

/* Everything of the graph but its nodes, which come behind. */
static enum sp_status begin_graph(struct writer *writer, uint32_t field, uint32_t value, const uint32_t *slots)
{
    struct sp_description *description = &writer->description;
    const struct sp_tree *tree = description->tree;
    if (slots[NODES] != SP_TREE_NONE && sp_description_array(tree, slots[NODES], "'nodes'") != SP_OK)
        return SP_ERR_MALFORMED;
    sp_emit_begin(&description->emit, field);
    enum sp_status status = SP_OK;
    if (slots[NAME] != SP_TREE_NONE)
        status = sp_description_text(description, SP_FIELD_GRAPH_NAME, slots[NAME], "A graph's name");
    else
        sp_emit_word(&description->emit, SP_FIELD_GRAPH_NAME, "graph"); /* ONNX asks for one */
    if (status == SP_OK)
        status = put_values(description, SP_FIELD_GRAPH_INITIALIZER, slots[INITIALIZERS], "'initializers'");
    if (status == SP_OK)
        status = put_values(description, SP_FIELD_GRAPH_INPUT, slots[INPUTS], "'inputs'");
    if (status == SP_OK)
        status = put_outputs(description, slots[OUTPUTS], field == SP_FIELD_MODEL_GRAPH);
    if (status == SP_OK)
        status = put_values(description, SP_FIELD_GRAPH_VALUE, slots[VALUES], "'values'");
    writer->levels[writer->depth++] = (struct level){
        .kind = LEVEL_GRAPH,
        .at = slots[NODES] != SP_TREE_NONE ? sp_tree_begin(slots[NODES]) : value,
        .end = slots[NODES] != SP_TREE_NONE ? sp_tree_end(tree, slots[NODES]) : value,
    };
    return status;
}

/* Room on both stacks for what begins at `value`. */
static enum sp_status check_depth(const struct writer *writer, uint32_t value)
{
    const struct sp_tree *tree = writer->description.tree;
    if (!sp_emit_is_full(&writer->description.emit) && writer->depth < SP_MAX_NESTING)
        return SP_OK;
    enum sp_status status =
        sp_fail_limit(tree->err, "NESTING_TOO_DEEP", "SP_MAX_NESTING", SP_MAX_NESTING, SP_MAX_NESTING + 1,
                      "Graphs are nested too deep: records may be %d deep in the file (limit "
                      "SP_MAX_NESTING).",
                      SP_MAX_NESTING);
    (void)sp_tree_at(tree, value);
    return status;
}

static enum sp_status begin_attribute(struct writer *writer, uint32_t name, const struct sp_signature *signature)
{
    struct sp_description_graphs graphs = {0};
    enum sp_status status = sp_description_attribute(&writer->description, name, signature, &graphs);
    if (status == SP_OK && graphs.field != 0)
        writer->levels[writer->depth++] =
            (struct level){.kind = LEVEL_GRAPHS, .at = graphs.at, .end = graphs.end, .field = graphs.field};
    return status;
}

/* Writes what comes next in the innermost level, or ends it. */
static enum sp_status step(struct writer *writer)
{
    struct level *level = &writer->levels[writer->depth - 1];
    const struct sp_tree *tree = writer->description.tree;
    const uint32_t at = level->at;
    uint32_t slots[GRAPH_MEMBERS];
    enum sp_status status;
    if (at == level->end) {
        sp_emit_end(&writer->description.emit);
        writer->depth--;
        return SP_OK;
    }
    level->at = sp_tree_after(tree, level->kind == LEVEL_NODE ? at + 1 : at);
    status = check_depth(writer, at);
    if (status != SP_OK)
        return status;
    switch (level->kind) {
    case LEVEL_GRAPH:
        return begin_node(writer, at);
    case LEVEL_NODE:
        return begin_attribute(writer, at, level->signature);
    default:
        status = sp_description_members(tree, at, "A graph", member_names, GRAPH_MEMBERS, slots);
        return status == SP_OK ? begin_graph(writer, level->field, at, slots) : status;
    }
}

/* ---- the document ---------------------------------------------------------------------------------------------- */

/* The IR version that came with the operator set (docs/Versioning.md of ONNX). */
static int64_t opset_ir_version(int64_t opset)
{
    static const struct {
        int64_t opset, ir_version;
    } releases[] = {{18, 8}, {20, 9}, {22, 10}, {23, 11}, {24, 12}, {27, 13}};
    for (size_t i = 0; i < sizeof releases / sizeof releases[0]; i++) {
        if (opset <= releases[i].opset)
            return releases[i].ir_version;
    }
    return 14;
}

static enum sp_status put_opset(struct sp_description *description, uint32_t domain, uint32_t value)
{
    struct sp_emit *emit = &description->emit;
    int64_t version = 0;
    enum sp_status status = sp_scalar_int(description->tree, value, 1, INT64_MAX, &version);
    if (status != SP_OK)
        return status;
    sp_emit_begin(emit, SP_FIELD_MODEL_OPSET);
    if (domain == SP_TREE_NONE)
        sp_emit_word(emit, SP_FIELD_OPSET_DOMAIN, "");
    else
        status = sp_description_text(description, SP_FIELD_OPSET_DOMAIN, domain, "A domain");
    sp_emit_int(emit, SP_FIELD_OPSET_VERSION, version);
    sp_emit_end(emit);
    if (domain == SP_TREE_NONE || sp_tree_text_is(sp_tree_raw_text(description->tree, domain), "") ||
        sp_tree_text_is(sp_tree_raw_text(description->tree, domain), "ai.onnx"))
        sp_description_needs(description, opset_ir_version(version));
    return status;
}

static enum sp_status put_opsets(struct sp_description *description, uint32_t value)
{
    const struct sp_tree *tree = description->tree;
    enum sp_status status = SP_OK;
    if (sp_tree_kind(tree, value) == SP_TREE_NUMBER)
        return put_opset(description, SP_TREE_NONE, value);
    if (sp_tree_kind(tree, value) != SP_TREE_OBJECT)
        return sp_tree_fail(
            tree, value, "OPSET_EXPECTED",
            "'opset' is the version of ONNX's operator set, or an object with the version of each domain, "
            "as in {\"\": 21, \"com.microsoft\": 1}.");
    for (uint32_t name = sp_tree_begin(value); status == SP_OK && name != sp_tree_end(tree, value);
         name = sp_tree_after(tree, name + 1))
        status = put_opset(description, name, name + 1);
    return status;
}

/* The model's own members; the graph is begun. */
static enum sp_status begin_model(struct writer *writer, const uint32_t *slots)
{
    struct sp_description *description = &writer->description;
    enum sp_status status = put_opsets(description, slots[OPSET]);
    if (status == SP_OK)
        status = sp_description_text(description, SP_FIELD_MODEL_DOC, slots[DOC], "'doc'");
    if (status == SP_OK)
        status = sp_description_metadata(description, SP_FIELD_MODEL_METADATA, slots[METADATA]);
    if (status == SP_OK)
        status = sp_description_operators(description, slots[OPERATORS]);
    if (status == SP_OK && slots[CONFIGURATIONS] != SP_TREE_NONE) {
        sp_description_needs(description, 11);
        status = put_messages(description, SP_FIELD_MODEL_CONFIGURATION, slots[CONFIGURATIONS], "'configurations'",
                              &onnx__device_configuration_proto__descriptor);
    }
    return status == SP_OK ? begin_graph(writer, SP_FIELD_MODEL_GRAPH, 0, slots) : status;
}

enum sp_status sp_description_model(const struct sp_tree *tree, const struct sp_model *typed, struct sp_buf *buf,
                                    uint32_t *ret_untyped)
{
    struct writer writer = {
        .description = {.tree = tree, .emit = {.buf = buf}, .ir_version = 8, .typed = typed},
    };
    struct sp_description *description = &writer.description;
    uint32_t slots[DOCUMENT_MEMBERS];
    enum sp_status status = sp_description_members(tree, 0, "A tensor graph", member_names, DOCUMENT_MEMBERS, slots);
    if (status != SP_OK)
        return status;
    for (uint32_t i = 0; i < DOCUMENT_MEMBERS; i++) {
        if (slots[i] == SP_TREE_NONE && (i == OPSET || i == NODES))
            return sp_tree_fail(tree, 0, "MEMBER_MISSING", "A tensor graph needs the member '%s'.", member_names[i]);
    }
    if (slots[IR_VERSION] != SP_TREE_NONE)
        status = sp_scalar_int(tree, slots[IR_VERSION], 1, INT64_MAX, &description->ir_version);
    if (status != SP_OK)
        return status;
    description->opset = slots[OPSET];
    sp_emit_int(&description->emit, SP_FIELD_MODEL_IR_VERSION, description->ir_version);
    const size_t after_ir_version = buf->size;
    status = begin_model(&writer, slots);
    while (status == SP_OK && writer.depth > 0)
        status = step(&writer);
    /* What it needs is known only now; every version that this knows is one byte. */
    if (status == SP_OK && slots[IR_VERSION] == SP_TREE_NONE && !sp_buf_failed(buf))
        buf->data[after_ir_version - 1] = (char)description->ir_version;
    *ret_untyped = description->untyped;
    return status;
}
