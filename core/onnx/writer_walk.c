#include <inttypes.h>
#include <string.h>

#include "base/array.h"
#include "base/limits.h"
#include "base/sorted.h"
#include "onnx/write.h"

/* The messages on the way to nodes, and how to get from one to the next. */
enum kind { MODEL, TRAINING, FUNCTION, GRAPH, NODE, ATTRIBUTE };

enum {
    MODEL_IR_VERSION = 1,
    MODEL_OPSET_IMPORT = 8,
    MODEL_METADATA = 14,
    MODEL_CONFIGURATION = 26,
    NODE_DEVICE_CONFIGURATIONS = 10,
    CONFIGURATION_NAME = 1, /* also NodeDeviceConfigurationProto.configuration_id */
    CONFIGURATION_SPEC = 2  /* NodeDeviceConfigurationProto.sharding_spec */
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
    bool is_annotated; /* NODE: its entry was completed */
};

enum sp_status sp_change_edit(struct sp_change_set *set, uint64_t at, uint64_t remove, size_t literal, size_t add)
{
    if (!SP_MAKE_ROOM(NULL, set->edits, set->edit_count, set->edit_capacity, 1))
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

static bool is_named(const char *name, const unsigned char *text, size_t size)
{
    return strlen(name) == size && memcmp(name, text, size) == 0;
}

/* Those that are written for the configuration of this name; NULL: none are. */
static const struct sp_annotations *written_for(const struct sp_change_set *set, const unsigned char *text, size_t size)
{
    const struct sp_annotations *one = set->annotations;
    while (one != NULL && !is_named(one->configuration, text, size))
        one = one->next;
    return one;
}

/* A configuration of the model. Ours go when they are stripped or replaced; one that is completed stays. */
static enum sp_status meet_configuration(struct sp_change_set *set, const struct sp_wire_field *field, uint64_t end)
{
    struct sp_span name;
    enum sp_status status = find_name(set, field->payload, &name);
    if (status != SP_OK)
        return status;
    const unsigned char *text = set->bytes + name.offset;
    bool goes = set->record.is_present ? sp_record_has(&set->record, text, name.size) : true;
    if (set->change == SP_CHANGE_ANNOTATE)
        goes = !set->annotations->is_completing && written_for(set, text, name.size) != NULL;
    return goes ? sp_change_edit(set, field->at, end - field->at, 0, 0) : SP_OK;
}

/* The annotation of the node at this place, or NULL. Nodes end in another order than they begin: those of subgraphs
   before the one around them. */
static const struct sp_annotation *find_annotation(const struct sp_annotations *annotations, uint64_t offset)
{
    const struct sp_annotation *nodes = annotations->nodes;
    uint32_t at;
    SP_LOWER_BOUND(at, annotations->count, nodes[at].node->span.offset < offset);
    return at < annotations->count && nodes[at].node->span.offset == offset ? &nodes[at] : NULL;
}

/* ---- entries of nodes ------------------------------------------------------------------------------------------ */

/* An entry of a node for one configuration. */
struct entry {
    const struct sp_wire_field *field;
    uint64_t end;
    struct sp_span name;
    uint32_t specs;
    uint64_t kept_end; /* where its payload ends without the specs that were added to it */
};

/* Walks the entry; its first `kept` specs are the original's. */
static enum sp_status look_at_entry(struct sp_change_set *set, struct entry *entry, uint32_t kept)
{
    struct sp_wire wire = sp_wire_of(set->bytes, entry->field->payload);
    struct sp_wire_field field;
    enum sp_status status;
    entry->specs = 0;
    entry->kept_end = entry->end;
    while ((status = sp_wire_next(&wire, &field, set->err)) == SP_OK && field.number != 0) {
        if (field.number != CONFIGURATION_SPEC)
            continue;
        if (entry->specs++ == kept)
            entry->kept_end = field.at;
    }
    return status;
}

/* Replaces the entry by its first part alone. Only entries with short prefixes are completed, so short is what it had.
 */
static enum sp_status cut_entry(struct sp_change_set *set, const struct entry *entry)
{
    const uint64_t payload = entry->field->payload.offset;
    const size_t literal = set->literals.size;
    sp_encode_field(NODE_DEVICE_CONFIGURATIONS, set->bytes + payload, entry->kept_end - payload, &set->literals);
    if (sp_buf_failed(&set->literals))
        return sp_fail_memory(set->err);
    return sp_change_edit(set, entry->field->at, entry->end - entry->field->at, literal, set->literals.size - literal);
}

/* The size of an entry of this payload as cut_entry() writes it. */
static uint64_t entry_size(uint64_t payload)
{
    return 1 + sp_wire_varint_size(payload) + payload;
}

static enum sp_status complete_entry(struct sp_change_set *set, const struct entry *entry, uint32_t box,
                                     const struct sp_annotation *annotation)
{
    const struct sp_span payload = entry->field->payload;
    const size_t literal = set->literals.size;
    if (set->is_first_completion && !sp_record_keep(&set->record, box, entry->specs))
        return sp_fail_memory(set->err);
    if (annotation == NULL)
        return SP_OK;
    if (entry->end - entry->field->at != entry_size(payload.size))
        return sp_fail(set->err, SP_ERR_UNSUPPORTED, "ODD_ENCODING",
                       "The entry at byte %" PRIu64 " has a longer length prefix than it needs, which could not be "
                       "given back; write the model anew with any protobuf library.",
                       entry->field->at);
    set->written++;
    enum sp_status status = sp_encode_more_specs(set->bytes + payload.offset, payload.size, &annotation->configuration,
                                                 set->scratch, &set->literals, set->err);
    if (status != SP_OK)
        return status;
    set->boxes[box].result += set->literals.size - literal;
    set->boxes[box].result -= entry->end - entry->field->at;
    return sp_change_edit(set, entry->field->at, entry->end - entry->field->at, literal, set->literals.size - literal);
}

static enum sp_status meet_entry(struct sp_change_set *set, struct open *open, const struct sp_wire_field *field)
{
    struct entry entry = {.field = field, .end = open->wire.at};
    struct sp_tensor_box *box = &set->boxes[open->box];
    enum sp_status status = find_name(set, field->payload, &entry.name);
    if (status != SP_OK)
        return status;
    const unsigned char *text = set->bytes + entry.name.offset;
    const bool was_completed = sp_record_completes(&set->record, text, entry.name.size);
    const struct sp_interned_note *kept = was_completed ? sp_record_kept(&set->record, open->box) : NULL;
    status = look_at_entry(set, &entry, kept != NULL ? kept->specs : UINT32_MAX);
    if (status != SP_OK)
        return status;
    const uint64_t size = entry.end - field->at;
    const bool is_ours = was_completed ? kept == NULL : sp_record_has(&set->record, text, entry.name.size);
    const bool is_longer = kept != NULL && entry.kept_end != entry.end;
    const uint64_t added = is_ours ? size : is_longer ? size - entry_size(entry.kept_end - field->payload.offset) : 0;
    box->original -= added;
    if (set->change == SP_CHANGE_ANNOTATE) {
        if (written_for(set, text, entry.name.size) == NULL)
            return SP_OK;
        if (set->annotations->is_completing) {
            const struct sp_annotation *annotation = find_annotation(set->annotations, open->span.offset);
            open->is_annotated = true;
            return complete_entry(set, &entry, open->box, annotation);
        }
        box->result -= size;
        return sp_change_edit(set, field->at, size, 0, 0);
    }
    if (set->record.is_present && added == 0)
        return SP_OK;
    box->result -= set->record.is_present ? added : size;
    return is_longer ? cut_entry(set, &entry) : sp_change_edit(set, field->at, size, 0, 0);
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
    case MODEL_OPSET_IMPORT:
        memmove(&set->opsets[1], &set->opsets[0], (SP_RECORD_MAX_OPSETS - 1) * sizeof set->opsets[0]);
        set->opsets[0] = (struct sp_span){field->at, end - field->at};
        return SP_OK;
    case MODEL_METADATA:
        status = sp_record_is_entry(set->bytes, field->payload, &is_record, &value, set->err);
        if (status == SP_OK && is_record)
            status = sp_change_edit(set, field->at, end - field->at, 0, 0);
        return status;
    case MODEL_CONFIGURATION:
        return meet_configuration(set, field, end);
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
    if (!SP_MAKE_ROOM(NULL, set->boxes, set->box_count, set->box_capacity, 1))
        return sp_fail_memory(set->err);
    set->boxes[set->box_count] = (struct sp_tensor_box){.length_at = field->length_at,
                                                        .size = field->payload.size,
                                                        .original = field->payload.size,
                                                        .result = field->payload.size,
                                                        .parent = stack[*depth - 1].box,
                                                        .width = (uint8_t)(field->payload.offset - field->length_at)};
    stack[*depth] = (struct open){
        .kind = kind, .box = set->box_count++, .wire = sp_wire_of(set->bytes, field->payload), .span = field->payload};
    (*depth)++;
    return SP_OK;
}

/* The annotations of the node that ends here, behind everything else of it. */
static enum sp_status annotate_node(struct sp_change_set *set, const struct open *open)
{
    const size_t before = set->literals.size;
    enum sp_status status = SP_OK;
    if (set->change != SP_CHANGE_ANNOTATE || open->is_annotated)
        return SP_OK;
    for (const struct sp_annotations *one = set->annotations; status == SP_OK && one != NULL; one = one->next) {
        const struct sp_annotation *annotation = find_annotation(one, open->span.offset);
        if (annotation == NULL)
            continue;
        set->written++;
        status = sp_encode_node_configuration(one->configuration, &annotation->configuration, set->scratch,
                                              &set->literals, set->err);
    }
    if (status != SP_OK || set->literals.size == before)
        return status;
    set->boxes[open->box].result += set->literals.size - before;
    return sp_change_edit(set, open->span.offset + open->span.size, 0, before, set->literals.size - before);
}

static enum sp_status step(struct sp_change_set *set, struct open *stack, uint32_t *depth,
                           const struct sp_wire_field *field)
{
    struct open *open = &stack[*depth - 1];
    if (open->kind == MODEL) {
        enum sp_status status = meet_model_field(set, field, open->wire.at);
        if (status != SP_OK)
            return status;
    }
    if (open->kind == NODE && field->number == NODE_DEVICE_CONFIGURATIONS)
        return meet_entry(set, open, field);
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
