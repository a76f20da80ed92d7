#include "onnx/writer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/limits.h"
#include "base/sorted.h"
#include "base/utf8.h"
#include "onnx/write.h"

#define MAX_MESSAGE ((UINT64_C(1) << 31) - 1) /* protobuf's own bound */

/* ---- sizes ----------------------------------------------------------------------------------------------------- */

/* The width of a length prefix after its message changed from `before` to `after` bytes (the rule of write.h). */
static uint32_t next_width(uint32_t width, uint64_t before, uint64_t after)
{
    const uint32_t least = sp_wire_varint_size(after);
    if (before == after)
        return width;
    return width == sp_wire_varint_size(before) || width < least ? least : width;
}

/* Children come behind their parents, so going backwards every box is complete when it is added to its parent. */
static enum sp_status finish_boxes(struct sp_change_set *set)
{
    const struct sp_record *record = &set->record;
    uint32_t note = record->note_count;
    for (uint32_t i = set->box_count; i-- > 0;) {
        struct sp_tensor_box *box = &set->boxes[i];
        uint32_t original_width = next_width(box->width, box->size, box->original);
        while (note > 0 && record->notes[note - 1].box > i)
            note--;
        if (note > 0 && record->notes[note - 1].box == i && box->original != box->size &&
            record->notes[note - 1].width >= sp_wire_varint_size(box->original))
            original_width = record->notes[note - 1].width;
        box->original_width = (uint8_t)original_width;
        box->result_width = (uint8_t)next_width(original_width, box->original, box->result);
        if (box->result > MAX_MESSAGE)
            return sp_fail(set->err, SP_ERR_UNSUPPORTED, "RESULT_TOO_LARGE",
                           "With its annotations a part of the model has %" PRIu64
                           " bytes, more than protobuf's 2 GiB; move the weights to external data.",
                           box->result);
        if (box->parent == SP_NO_BOX)
            continue;
        struct sp_tensor_box *parent = &set->boxes[box->parent];
        parent->original += box->original + box->original_width - box->size - box->width;
        parent->result += box->result + box->result_width - box->size - box->width;
    }
    return SP_OK;
}

/* Notes the widths that the rule alone would not give back. */
static enum sp_status note_widths(const struct sp_change_set *set, struct sp_record *record)
{
    for (uint32_t i = 0; i < set->box_count; i++) {
        const struct sp_tensor_box *box = &set->boxes[i];
        if (next_width(box->result_width, box->result, box->original) == box->original_width)
            continue;
        if (!SP_MAKE_ROOM(NULL, record->notes, record->note_count, record->note_capacity, 1))
            return sp_fail_memory(set->err);
        record->notes[record->note_count++] = (struct sp_width_note){i, box->original_width};
    }
    return SP_OK;
}

/* ---- assembly -------------------------------------------------------------------------------------------------- */

static bool apply(struct sp_splice *splice, uint64_t *position, uint64_t at, uint64_t remove, const void *bytes,
                  size_t size)
{
    bool ok = sp_splice_keep(splice, *position, at - *position) && sp_splice_add(splice, bytes, size);
    *position = at + remove;
    return ok;
}

static bool apply_length(struct sp_splice *splice, uint64_t *position, const struct sp_tensor_box *box)
{
    unsigned char bytes[10];
    if (box->result == box->size && box->result_width == box->width)
        return true;
    sp_wire_put_varint(bytes, box->result, box->result_width);
    return apply(splice, position, box->length_at, box->width, bytes, box->result_width);
}

/* Boxes and edits are both in file order: merged, they are the splice. */
static enum sp_status assemble(const struct sp_change_set *set, struct sp_splice **ret_splice)
{
    struct sp_splice *splice = sp_splice_create(set->model->size);
    uint64_t position = 0;
    uint32_t box = 0;
    bool ok = splice != NULL;
    for (uint32_t i = 0; ok && i < set->edit_count; i++) {
        const struct sp_edit *edit = &set->edits[i];
        while (ok && box < set->box_count && set->boxes[box].length_at < edit->at)
            ok = apply_length(splice, &position, &set->boxes[box++]);
        ok = ok && apply(splice, &position, edit->at, edit->remove,
                         edit->add == 0 ? "" : set->literals.data + edit->literal, edit->add);
    }
    while (ok && box < set->box_count)
        ok = apply_length(splice, &position, &set->boxes[box++]);
    if (!ok || !sp_splice_keep(splice, position, set->model->size - position)) {
        sp_splice_destroy(splice);
        return sp_fail_memory(set->err);
    }
    *ret_splice = splice;
    return SP_OK;
}

SP_ASCENDING(by_place, struct sp_edit, at)

int sp_annotation_by_place(const void *a, const void *b)
{
    const struct sp_annotation *x = a, *y = b;
    return SP_ORDER(x->node->span.offset, y->node->span.offset);
}

/* An edit that the walk could not make in order (ir_version may stand anywhere): moved to its place. */
static enum sp_status insert_edit(struct sp_change_set *set, uint64_t at, uint64_t remove, size_t literal, size_t add)
{
    uint32_t place;
    enum sp_status status = sp_change_edit(set, at, remove, literal, add);
    if (status != SP_OK)
        return status;
    const struct sp_edit edit = set->edits[set->edit_count - 1];
    for (place = set->edit_count - 1; place > 0 && by_place(&edit, &set->edits[place - 1]) < 0; place--)
        set->edits[place] = set->edits[place - 1];
    set->edits[place] = edit;
    return SP_OK;
}

static enum sp_status begin(struct sp_change_set *set, const struct sp_model *model, enum sp_change change,
                            struct sp_error *err)
{
    memset(set, 0, sizeof *set);
    set->model = model;
    set->bytes = model->bytes;
    set->change = change;
    set->err = err;
    sp_buf_init(&set->literals, SP_SPLICE_MAX_LITERAL);
    set->scratch = sp_arena_create(sp_arena_budget(model->arena));
    if (set->scratch == NULL)
        return sp_fail_memory(err);
    return sp_record_read(model, &set->record, err);
}

static void end(struct sp_change_set *set)
{
    sp_record_release(&set->record);
    sp_buf_release(&set->literals);
    sp_arena_destroy(set->scratch);
    free(set->boxes);
    free(set->edits);
}

/* ---- annotating ------------------------------------------------------------------------------------------------ */

/* Not in the expanded body of a function: its nodes stand for those of the function, which every call shares. */
static bool is_in_file(const struct sp_model *model, const struct sp_node *node)
{
    const struct sp_graph *graph = node->graph;
    while (graph->parent != NULL)
        graph = graph->parent;
    return graph == model->graph;
}

static enum sp_status check_one(const struct sp_model *model, const struct sp_annotations *annotations,
                                struct sp_error *err)
{
    const char *name = annotations->configuration;
    const size_t size = name == NULL ? 0 : strlen(name);
    if (size == 0 || size > SP_MAX_NAME_BYTES || !sp_utf8_valid(name, size))
        return sp_fail(err, SP_ERR_REQUEST, "BAD_CONFIGURATION_NAME",
                       "The configuration needs a name of 1 to %d bytes of UTF-8.", SP_MAX_NAME_BYTES);
    if (annotations->num_devices < 1)
        return sp_fail(err, SP_ERR_REQUEST, "BAD_DEVICE_COUNT", "A configuration needs at least one device, not %d.",
                       annotations->num_devices);
    for (uint32_t i = 0; i < annotations->count; i++) {
        const struct sp_annotation *annotation = &annotations->nodes[i];
        if (!is_in_file(model, annotation->node) || (i > 0 && sp_annotation_by_place(annotation - 1, annotation) >= 0))
            return sp_fail(err, SP_ERR_REQUEST, "BAD_ANNOTATION_ORDER",
                           "Annotations must be for nodes of the main graph and its subgraphs, in the order of the "
                           "file, at most one for each.");
    }
    return SP_OK;
}

static enum sp_status check_annotations(const struct sp_model *model, const struct sp_annotations *annotations,
                                        struct sp_error *err)
{
    enum sp_status status = SP_OK;
    for (const struct sp_annotations *one = annotations; status == SP_OK && one != NULL; one = one->next) {
        status = check_one(model, one, err);
        for (const struct sp_annotations *other = annotations; status == SP_OK && other != one; other = other->next) {
            if (strcmp(other->configuration, one->configuration) == 0)
                status = sp_fail(err, SP_ERR_REQUEST, "BAD_CONFIGURATION_NAME",
                                 "Two configurations cannot both have the name '%.200s'.", one->configuration);
        }
    }
    return status;
}

/* Raises ir_version. In place where the field is as every writer writes it: once, in one byte. */
static enum sp_status raise_ir_version(struct sp_change_set *set, struct sp_record *record)
{
    static const unsigned char field[] = {0x08, SP_MULTI_DEVICE_IR_VERSION};
    const size_t literal = set->literals.size;
    if (set->ir_fields > 0 && set->ir_version >= SP_MULTI_DEVICE_IR_VERSION)
        return SP_OK;
    sp_buf_append(&set->literals, field, sizeof field);
    if (sp_buf_failed(&set->literals))
        return sp_fail_memory(set->err);
    if (set->ir_fields == 1 && set->ir_value.size == 1)
        return insert_edit(set, set->ir_value.offset, 1, literal + 1, 1);
    record->is_ir_version_added = true;
    /* Of several fields the last one counts, so behind an unusual one goes ours. */
    return insert_edit(set, set->ir_fields == 0 ? 0 : set->model->size, 0, literal, sizeof field);
}

/*
 * Files from before operator sets had versions have version 1 of all of them. As ours says that it is newer, it imports
 * those of which another version is taken where a newer file imports none (sp_graph_opset()).
 */
static enum sp_status add_opsets(struct sp_change_set *set, struct sp_record *record)
{
    static const struct {
        const char *domain;
        unsigned char size, field[16];
    } imports[SP_RECORD_MAX_OPSETS] = {
        {"", 4, {0x42, 2, 0x10, 1}},
        {"ai.onnx.ml", 16, {0x42, 14, 0x0a, 10, 'a', 'i', '.', 'o', 'n', 'n', 'x', '.', 'm', 'l', 0x10, 1}},
    };
    const size_t literal = set->literals.size;
    if (set->model->ir_version >= SP_FIRST_IR_WITH_OPSETS)
        return SP_OK;
    for (uint32_t i = 0; i < SP_RECORD_MAX_OPSETS; i++) {
        if (sp_graph_import(set->model->graph, imports[i].domain) != 0)
            continue;
        sp_buf_append(&set->literals, imports[i].field, imports[i].size);
        record->opsets_added++;
    }
    if (sp_buf_failed(&set->literals))
        return sp_fail_memory(set->err);
    return record->opsets_added == 0 ? SP_OK
                                     : insert_edit(set, set->model->size, 0, literal, set->literals.size - literal);
}

static enum sp_status store(const struct sp_change_set *set, const struct sp_annotations *annotations,
                            struct sp_record *record)
{
    json_t *own =
        annotations->is_completing ? json_copy(json_object_get(record->stored, annotations->configuration)) : NULL;
    own = own != NULL ? own : json_object();
    if (own == NULL || (annotations->stored != NULL && json_object_update(own, annotations->stored) != 0) ||
        json_object_set(record->stored, annotations->configuration, own) != 0) {
        json_decref(own);
        return sp_fail_memory(set->err);
    }
    if (json_object_size(own) == 0)
        (void)json_object_del(record->stored, annotations->configuration);
    json_decref(own);
    return SP_OK;
}

/* How inputs and weights are held under other configurations stays, and under this one where it is completed. */
static enum sp_status keep_stored(const struct sp_change_set *set, struct sp_record *record)
{
    enum sp_status status = SP_OK;
    record->stored = set->record.stored != NULL ? json_copy(set->record.stored) : json_object();
    if (record->stored == NULL)
        return sp_fail_memory(set->err);
    for (const struct sp_annotations *one = set->annotations; status == SP_OK && one != NULL; one = one->next)
        status = store(set, one, record);
    if (status != SP_OK || json_object_size(record->stored) > 0)
        return status;
    json_decref(record->stored);
    record->stored = NULL;
    return SP_OK;
}

static bool is_written(const struct sp_change_set *set, const char *name)
{
    const struct sp_annotations *one = set->annotations;
    while (one != NULL && strcmp(one->configuration, name) != 0)
        one = one->next;
    return one != NULL;
}

static enum sp_status fill_record(const struct sp_change_set *set, struct sp_record *record)
{
    const struct sp_record *old = &set->record;
    const char *name = set->annotations->configuration;
    record->is_present = true;
    record->has_ir_version = old->is_present ? old->has_ir_version : set->ir_fields > 0;
    record->ir_version = old->is_present ? old->ir_version : set->ir_version;
    record->is_ir_version_added = old->is_ir_version_added;
    record->opsets_added = old->opsets_added;
    const bool is_completing = set->annotations->is_completing;
    for (uint32_t i = 0; i < old->count; i++) {
        if (!is_completing && is_written(set, old->names[i]))
            continue;
        if ((record->names[record->count] = strdup(old->names[i])) == NULL)
            return sp_fail_memory(set->err);
        record->count++;
    }
    /* One that is replaced now cannot be given back any more. */
    const bool stays = old->completed != NULL && (is_completing || !is_written(set, old->completed));
    if (set->is_first_completion || stays) {
        record->completed = strdup(stays ? old->completed : name);
        if (record->completed == NULL)
            return sp_fail_memory(set->err);
        for (uint32_t i = 0; i < old->kept_count; i++) {
            if (!sp_record_keep(record, old->kept[i].box, old->kept[i].specs))
                return sp_fail_memory(set->err);
        }
    }
    if (is_completing)
        return note_widths(set, record);
    for (const struct sp_annotations *one = set->annotations; one != NULL; one = one->next) {
        if (record->count == SP_RECORD_MAX_CONFIGURATIONS)
            return sp_fail(set->err, SP_ERR_REQUEST, "TOO_MANY_CONFIGURATIONS",
                           "The model would hold more than %d configurations of ours.", SP_RECORD_MAX_CONFIGURATIONS);
        if ((record->names[record->count] = strdup(one->configuration)) == NULL)
            return sp_fail_memory(set->err);
        record->count++;
    }
    return note_widths(set, record);
}

/* What goes behind the end of the file: the configuration and the record. */
static enum sp_status add_tail(struct sp_change_set *set, struct sp_record *record)
{
    const size_t literal = set->literals.size;
    enum sp_status status = SP_OK;
    for (const struct sp_annotations *one = set->annotations; status == SP_OK && one != NULL; one = one->next) {
        if (!one->is_completing)
            status = sp_encode_configuration(one, set->scratch, &set->literals, set->err);
    }
    if (status == SP_OK)
        status = sp_record_write(record, &set->literals, set->err);
    if (status == SP_OK)
        status = insert_edit(set, set->model->size, 0, literal, set->literals.size - literal);
    return status;
}

/* A configuration that we added is completed like any other of ours: strip takes it off as a whole. */
static enum sp_status begin_completion(struct sp_change_set *set)
{
    const char *name = set->annotations->configuration;
    const struct sp_record *record = &set->record;
    if (record->completed != NULL && strcmp(record->completed, name) != 0)
        return sp_fail(
            set->err, SP_ERR_UNSUPPORTED, "COMPLETED_ALREADY",
            "The configuration '%.100s' was completed before; take that off again ('shardplan strip') before "
            "another is completed.",
            record->completed);
    const bool is_ours = sp_record_has(record, (const unsigned char *)name, strlen(name));
    set->is_first_completion = record->completed == NULL && !is_ours;
    return SP_OK;
}

enum sp_status sp_onnx_annotate(const struct sp_model *model, const struct sp_annotations *annotations,
                                struct sp_splice **ret_splice, struct sp_error *err)
{
    struct sp_record record = {0};
    struct sp_change_set set;
    uint32_t wanted = 0;
    enum sp_status status = check_annotations(model, annotations, err);
    if (status != SP_OK)
        return status;
    status = begin(&set, model, SP_CHANGE_ANNOTATE, err);
    set.annotations = annotations;
    if (status == SP_OK && annotations->is_completing)
        status = begin_completion(&set);
    if (status == SP_OK)
        status = sp_change_walk(&set);
    for (const struct sp_annotations *one = annotations; one != NULL; one = one->next)
        wanted += one->count;
    if (status == SP_OK && set.written != wanted)
        status = sp_fail(err, SP_ERR_INTERNAL, "LOST_ANNOTATION", "An annotated node was not found in the file again.");
    if (status == SP_OK)
        status = finish_boxes(&set);
    if (status == SP_OK)
        status = fill_record(&set, &record);
    if (status == SP_OK)
        status = keep_stored(&set, &record);
    if (status == SP_OK)
        status = raise_ir_version(&set, &record);
    if (status == SP_OK)
        status = add_opsets(&set, &record);
    if (status == SP_OK)
        status = add_tail(&set, &record);
    if (status == SP_OK)
        status = assemble(&set, ret_splice);
    sp_record_release(&record);
    end(&set);
    return status;
}

/* ---- stripping ------------------------------------------------------------------------------------------------- */

static enum sp_status restore_ir_version(struct sp_change_set *set)
{
    const struct sp_record *record = &set->record;
    const size_t literal = set->literals.size;
    unsigned char bytes[10];
    if (!record->is_present || set->ir_fields == 0)
        return SP_OK;
    if (record->is_ir_version_added)
        return insert_edit(set, set->ir_field.offset, set->ir_field.size, 0, 0);
    if (!record->has_ir_version || set->ir_version == record->ir_version)
        return SP_OK;
    const uint32_t width = sp_wire_varint_size((uint64_t)record->ir_version);
    sp_wire_put_varint(bytes, (uint64_t)record->ir_version, width);
    sp_buf_append(&set->literals, bytes, width);
    if (sp_buf_failed(&set->literals))
        return sp_fail_memory(set->err);
    return insert_edit(set, set->ir_value.offset, set->ir_value.size, literal, width);
}

static enum sp_status take_opsets(struct sp_change_set *set)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < set->record.opsets_added; i++)
        if (set->opsets[i].size > 0)
            status = insert_edit(set, set->opsets[i].offset, set->opsets[i].size, 0, 0);
    return status;
}

enum sp_status sp_onnx_strip(const struct sp_model *model, struct sp_splice **ret_splice, struct sp_error *err)
{
    struct sp_change_set set;
    enum sp_status status = begin(&set, model, SP_CHANGE_STRIP, err);
    if (status == SP_OK)
        status = sp_change_walk(&set);
    /* Without a record everything goes, and what remains is taken for the original. */
    for (uint32_t i = 0; status == SP_OK && !set.record.is_present && i < set.box_count; i++)
        set.boxes[i].original = set.boxes[i].result;
    if (status == SP_OK)
        status = finish_boxes(&set);
    if (status == SP_OK)
        status = restore_ir_version(&set);
    if (status == SP_OK)
        status = take_opsets(&set);
    if (status == SP_OK)
        status = assemble(&set, ret_splice);
    end(&set);
    return status;
}
