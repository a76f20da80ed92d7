#include <inttypes.h>
#include <string.h>

#include "base/limits.h"
#include "onnx/read.h"
#include "onnx/write.h"

/* The messages on the way to nodes, and how to get from one to the next. */
enum kind { MODEL, TRAINING, FUNCTION, GRAPH, NODE, ATTRIBUTE };

enum {
    MODEL_IR_VERSION = 1,
    MODEL_METADATA = 14,
    MODEL_CONFIGURATION = 26,
    NODE_DEVICE_CONFIGURATIONS = 10,
    CONFIGURATION_NAME = 1 /* also NodeDeviceConfigurationProto.configuration_id */
};

static const struct {
    enum kind from;
    uint32_t field;
    enum kind to;
} steps[] = {
    {MODEL, 7, GRAPH},   {MODEL, 20, TRAINING}, {MODEL, 25, FUNCTION}, {TRAINING, 1, GRAPH},  {TRAINING, 2, GRAPH},
    {FUNCTION, 7, NODE}, {GRAPH, 1, NODE},      {NODE, 5, ATTRIBUTE},  {ATTRIBUTE, 6, GRAPH}, {ATTRIBUTE, 11, GRAPH},
};

/* Graph, node and attribute for each nesting, below model, training record or function. */
#define MAX_OPEN (3 * (SP_MAX_NESTING + 2))

struct open {
    enum kind kind;
    uint32_t box;
    struct sp_wire wire;
    struct sp_span span;
};

enum sp_status sp_change_edit(struct sp_change_set *set, uint64_t at, uint64_t remove, size_t literal, size_t add)
{
    if (!sp_grow((void **)&set->edits, &set->edit_capacity, set->edit_count, sizeof *set->edits))
        return sp_fail_memory(set->err);
    set->edits[set->edit_count++] = (struct sp_edit){at, remove, literal, add};
    return SP_OK;
}

/* The name of a DeviceConfigurationProto, or the configuration_id of a NodeDeviceConfigurationProto. */
static enum sp_status find_name(struct sp_change_set *set, struct sp_span span, struct sp_span *ret_name)
{
    struct sp_wire wire = sp_wire_of(set->bytes, span);
    struct sp_wire_field field;
    enum sp_status status;
    *ret_name = (struct sp_span){span.offset, 0};
    while ((status = sp_wire_next(&wire, &field, set->err)) == SP_OK && field.number != 0) {
        if (field.number == CONFIGURATION_NAME)
            *ret_name = field.payload;
    }
    return status;
}

/* A configuration of the model (box SP_NO_BOX) or of a node. Ours count as not original; those that this change takes
   away become an edit. */
static enum sp_status meet_configuration(struct sp_change_set *set, const struct sp_wire_field *field, uint64_t end,
                                         uint32_t box)
{
    struct sp_span name;
    enum sp_status status = find_name(set, field->payload, &name);
    if (status != SP_OK)
        return status;
    const unsigned char *text = set->bytes + name.offset;
    const bool is_ours = sp_record_has(&set->record, text, name.size);
    bool goes = set->record.is_present ? is_ours : true;
    if (set->change == SP_CHANGE_ANNOTATE) {
        const char *replaced = set->annotations->configuration;
        goes = strlen(replaced) == name.size && memcmp(replaced, text, name.size) == 0;
    }
    if (box != SP_NO_BOX && is_ours)
        set->boxes[box].original -= end - field->at;
    if (box != SP_NO_BOX && goes)
        set->boxes[box].result -= end - field->at;
    return goes ? sp_change_edit(set, field->at, end - field->at, 0, 0) : SP_OK;
}

static enum sp_status meet_model_field(struct sp_change_set *set, const struct sp_wire_field *field, uint64_t end)
{
    struct sp_span value;
    bool is_record;
    enum sp_status status;
    switch (field->number) {
    case MODEL_IR_VERSION:
        set->ir_fields++;
        set->ir_field = (struct sp_span){field->at, end - field->at};
        set->ir_value = field->payload;
        set->ir_version = (int64_t)field->value;
        return SP_OK;
    case MODEL_METADATA:
        status = sp_record_is_entry(set->bytes, field->payload, &is_record, &value, set->err);
        if (status == SP_OK && is_record)
            status = sp_change_edit(set, field->at, end - field->at, 0, 0);
        return status;
    case MODEL_CONFIGURATION:
        return meet_configuration(set, field, end, SP_NO_BOX);
    default:
        return SP_OK;
    }
}

/* Attributes without graphs are most attributes; they need no box. */
static enum sp_status leads_to_graph(struct sp_change_set *set, struct sp_span span, bool *ret_leads)
{
    struct sp_wire wire = sp_wire_of(set->bytes, span);
    struct sp_wire_field field;
    enum sp_status status;
    *ret_leads = false;
    while ((status = sp_wire_next(&wire, &field, set->err)) == SP_OK && field.number != 0)
        *ret_leads = *ret_leads || ((field.number == 6 || field.number == 11) && field.type == SP_WIRE_LEN);
    return status;
}

static enum sp_status enter(struct sp_change_set *set, struct open *stack, uint32_t *depth,
                            const struct sp_wire_field *field, enum kind kind)
{
    bool leads = true;
    enum sp_status status = kind == ATTRIBUTE ? leads_to_graph(set, field->payload, &leads) : SP_OK;
    if (status != SP_OK || !leads)
        return status;
    if (*depth == MAX_OPEN) /* only training records get here: the reader passes them over */
        return sp_fail_limit(set->err, "NESTING_TOO_DEEP", "SP_MAX_NESTING", SP_MAX_NESTING, SP_MAX_NESTING + 1,
                             "Graphs are nested more than %d deep (limit SP_MAX_NESTING).", SP_MAX_NESTING);
    if (!sp_grow((void **)&set->boxes, &set->box_capacity, set->box_count, sizeof *set->boxes))
        return sp_fail_memory(set->err);
    set->boxes[set->box_count] = (struct sp_box){.length_at = field->length_at,
                                                 .size = field->payload.size,
                                                 .original = field->payload.size,
                                                 .result = field->payload.size,
                                                 .parent = stack[*depth - 1].box,
                                                 .width = (uint8_t)(field->payload.offset - field->length_at)};
    stack[*depth] = (struct open){kind, set->box_count++, sp_wire_of(set->bytes, field->payload), field->payload};
    (*depth)++;
    return SP_OK;
}

/* The annotation of the node at this place, or NULL. Nodes end in another order than they begin: those of subgraphs
   before the one around them. */
static const struct sp_annotation *find_annotation(const struct sp_annotations *annotations, uint64_t offset)
{
    uint32_t low = 0, high = annotations->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        uint64_t at = annotations->nodes[middle].node->span.offset;
        if (at == offset)
            return &annotations->nodes[middle];
        if (at < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* The annotation of the node that ends here, behind everything else of it. */
static enum sp_status annotate_node(struct sp_change_set *set, const struct open *open)
{
    const size_t before = set->literals.size;
    if (set->change != SP_CHANGE_ANNOTATE)
        return SP_OK;
    const struct sp_annotation *annotation = find_annotation(set->annotations, open->span.offset);
    if (annotation == NULL)
        return SP_OK;
    set->written++;
    enum sp_status status = sp_encode_node_configuration(set->annotations->configuration, &annotation->configuration,
                                                         set->scratch, &set->literals, set->err);
    if (status != SP_OK)
        return status;
    set->boxes[open->box].result += set->literals.size - before;
    return sp_change_edit(set, open->span.offset + open->span.size, 0, before, set->literals.size - before);
}

static enum sp_status step(struct sp_change_set *set, struct open *stack, uint32_t *depth,
                           const struct sp_wire_field *field)
{
    const struct open *open = &stack[*depth - 1];
    if (open->kind == MODEL) {
        enum sp_status status = meet_model_field(set, field, open->wire.at);
        if (status != SP_OK)
            return status;
    }
    if (open->kind == NODE && field->number == NODE_DEVICE_CONFIGURATIONS)
        return meet_configuration(set, field, open->wire.at, open->box);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        if (steps[i].from == open->kind && steps[i].field == field->number && field->type == SP_WIRE_LEN)
            return enter(set, stack, depth, field, steps[i].to);
    }
    return SP_OK;
}

enum sp_status sp_change_walk(struct sp_change_set *set)
{
    struct open stack[MAX_OPEN];
    uint32_t depth = 1;
    enum sp_status status = SP_OK;
    stack[0] = (struct open){.kind = MODEL, .box = SP_NO_BOX, .span = {0, set->model->size}};
    stack[0].wire = sp_wire_of(set->bytes, stack[0].span);
    while (status == SP_OK && depth > 0) {
        struct sp_wire_field field;
        status = sp_wire_next(&stack[depth - 1].wire, &field, set->err);
        if (status == SP_OK && field.number != 0) {
            status = step(set, stack, &depth, &field);
        } else if (status == SP_OK) {
            if (stack[depth - 1].kind == NODE)
                status = annotate_node(set, &stack[depth - 1]);
            depth--;
        }
    }
    return status;
}
