#pragma once
/*
 * write - what the parts of the annotation writer share; private to core/onnx.
 *
 * A change of a model is a list of edits in file order. Every message that may hold a node (a graph, a node, an
 * attribute with graphs, a function, a training record) is a box; when something inside changes size, the box's length
 * prefix changes, and that may change the sizes of the boxes around it:
 *
 *   ModelProto | graph [len| node [len| ... +annotation ] node [len| ... ] ] +configuration +metadata
 *                       ^box          ^box                        ^box
 *
 * Boxes are numbered in the order in which they begin. Adding and removing annotations makes no boxes, so the number
 * of a box is the same before and after: the record names boxes by it.
 *
 * Widths of length prefixes. Protobuf allows a prefix to be longer than needed, and the original's must come back. The
 * rule: a prefix that is as short as can be stays so, any other keeps its width where the length fits. When the rule
 * would not give the original back, the record notes the width.
 */
#include <jansson.h>

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "onnx/wire.h"
#include "onnx/writer.h"

#define SP_NO_BOX UINT32_MAX

struct sp_tensor_box {
    uint64_t length_at; /* where the length prefix lies */
    uint64_t size;      /* the payload's, now */
    uint64_t original;  /* the payload's, without any of our annotations */
    uint64_t result;    /* the payload's, after the edits */
    uint32_t parent;    /* or SP_NO_BOX */
    uint8_t width, original_width, result_width;
};

/* Replaces bytes [at, at + remove) by literals[literal..literal + add). */
struct sp_edit {
    uint64_t at, remove;
    size_t literal, add;
};

#define SP_RECORD_MAX_CONFIGURATIONS 256
#define SP_RECORD_MAX_OPSETS         2

struct sp_width_note {
    uint32_t box, width;
};

struct sp_interned_note {
    uint32_t box, specs;
};

/* What the metadata entry SP_WRITER_METADATA_KEY says. */
struct sp_record {
    bool is_present;
    bool has_ir_version; /* the original had one */
    int64_t ir_version;
    bool is_ir_version_added; /* ours is the last ir_version field; the original's, if any, is still there */
    uint32_t opsets_added;    /* the last so many imports of operator sets are ours */
    uint32_t count, note_count, note_capacity;
    char *names[SP_RECORD_MAX_CONFIGURATIONS];
    struct sp_width_note *notes; /* ascending by box */
    /* A configuration of the original to which specs were added, or NULL; for each node that had an entry for it, the
       node's box and how many specs were the original's: those behind them are ours. Entries of other nodes are all
       ours. */
    char *completed;
    uint32_t kept_count, kept_capacity;
    struct sp_interned_note *kept; /* ascending by box */
    json_t *stored;                /* {CONFIGURATION: {TENSOR: SPEC}}, or NULL: how devices hold inputs and weights */
};

enum sp_change { SP_CHANGE_ANNOTATE, SP_CHANGE_STRIP };

struct sp_change_set {
    const struct sp_model *model;
    const unsigned char *bytes;
    enum sp_change change;
    const struct sp_annotations *annotations; /* ANNOTATE: the first one */
    struct sp_record record;                  /* the file's */
    bool is_first_completion;                 /* ANNOTATE that completes: the file was not completed before */
    struct sp_error *err;

    struct sp_tensor_box *boxes;
    struct sp_edit *edits;
    uint32_t box_count, box_capacity, edit_count, edit_capacity;
    struct sp_buf literals;
    struct sp_arena *scratch;

    /* ir_version as the walk finds it. */
    uint32_t ir_fields;
    struct sp_span ir_field, ir_value; /* of the last one */
    int64_t ir_version;
    struct sp_span opsets[SP_RECORD_MAX_OPSETS]; /* the fields of the last imports, the last one first */
    uint32_t written;                            /* annotations whose node was found */
};

/* writer_record.c */
enum sp_status sp_record_read(const struct sp_model *model, struct sp_record *ret_record, struct sp_error *err);
void sp_record_release(struct sp_record *record);
/* Whether this configuration was added by us. */
bool sp_record_has(const struct sp_record *record, const unsigned char *name, size_t size);
/* Whether specs were added to this configuration, which is the original's. */
bool sp_record_completes(const struct sp_record *record, const unsigned char *name, size_t size);
/* The note of a node that had an entry for it, or NULL. */
const struct sp_interned_note *sp_record_kept(const struct sp_record *record, uint32_t box);
/* Adds one, in ascending order of boxes; false without memory. */
bool sp_record_keep(struct sp_record *record, uint32_t box, uint32_t specs);
/* Appends the metadata field with the record to `buf`. */
enum sp_status sp_record_write(struct sp_record *record, struct sp_buf *buf, struct sp_error *err);
/* A field of the metadata map: whether its key is ours, and its value. */
enum sp_status sp_record_is_entry(const unsigned char *bytes, struct sp_span entry, bool *ret_is,
                                  struct sp_span *ret_value, struct sp_error *err);

/* writer_walk.c: finds boxes, what is to be removed, and where nodes are annotated. */
enum sp_status sp_change_walk(struct sp_change_set *set);
enum sp_status sp_change_edit(struct sp_change_set *set, uint64_t at, uint64_t remove, size_t literal, size_t add);

/* writer_encode.c: append one whole field (tag, length, message) to `buf`. */
enum sp_status sp_encode_node_configuration(const char *name, const struct sp_node_configuration *configuration,
                                            struct sp_arena *scratch, struct sp_buf *buf, struct sp_error *err);
enum sp_status sp_encode_configuration(const struct sp_annotations *annotations, struct sp_arena *scratch,
                                       struct sp_buf *buf, struct sp_error *err);
/* The same for an entry of the file that gets more specs: its payload, and the new specs behind it. */
enum sp_status sp_encode_more_specs(const void *payload, size_t size, const struct sp_node_configuration *configuration,
                                    struct sp_arena *scratch, struct sp_buf *buf, struct sp_error *err);
void sp_encode_field(uint32_t number, const void *payload, size_t size, struct sp_buf *buf);
