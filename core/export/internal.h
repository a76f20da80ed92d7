#pragma once
/*
 * internal - what the formats share.
 *
 * A format's function writes through `struct export`, whose errors are sticky: it writes on and returns what else went
 * wrong; export_finish() tells the rest.
 */
#include "base/json_writer.h"
#include "export/export.h"
#include "ops/op.h"
#include "plan/internal.h"

#define EXPORT_CHUNK ((size_t)64 << 10)

struct export
{
    const struct sp_subject *subject;
    const struct sp_export_request *request;
    struct sp_arena *scratch; /* of one item; a format rewinds it */
    uint64_t written;
    uint32_t notes;
    bool is_broken; /* the sink failed */
    struct sp_buf text;
};

/* ---- writing ---- */

void export_bytes(struct export *out, const void *bytes, size_t size);
void export_text(struct export *out, const char *text);
__attribute__((format(printf, 2, 3))) void export_printf(struct export *out, const char *format, ...);
/* A JSON writer over the export. */
void export_json(struct export *out, bool pretty, struct sp_json *json);
/* A JSON string, quotes included: also YAML's double-quoted form. */
void export_quoted(struct export *out, const char *text);
/* The shortest decimal that reads back as the same number. */
void export_number(struct export *out, double value);
/* A model. The splice is over the bytes of the subject's file and is destroyed. */
enum sp_status export_model(struct export *out, struct sp_splice *splice, struct sp_error *err);

/* Sends what is still held; the status of all that was written. */
enum sp_status export_finish(struct export *out, struct sp_error *err);

/* Tells a note. */
__attribute__((format(printf, 5, 6))) enum sp_status export_note(struct export *out, const char *code,
                                                                 const struct sp_node *node, struct sp_error *err,
                                                                 const char *format, ...);

/* ---- the subject ---- */

/* The one device of a node of the main graph. SP_ERR_UNSUPPORTED "NODE_IS_SPLIT" where it runs on several, `tool` says
   for whom that is too many; SP_ERR_MODEL "NODE_UNPLACED" where nothing says where it runs. */
enum sp_status export_device(const struct export *out, uint32_t node, const char *tool, int64_t *ret_device,
                             struct sp_error *err);
/* Its stage, 0 without one. */
int32_t export_stage(const struct export *out, uint32_t node);
/* "a100-sxm4-80gb:2", or "device 2" written into `text`, which it returns. */
const char *export_device_name(const struct export *out, int64_t device, char *text, size_t size);

/* SP_ERR_UNSUPPORTED unless every node of the main graph has a name of its own: tools that find nodes by name. */
enum sp_status export_check_names(const struct export *out, const char *tool, struct sp_error *err);

/* ---- values and their shardings ---- */

/* A sharding of a value of the main graph. */
struct export_value {
    const struct sp_value *value;
    const struct sp_node *node; /* that makes it, or uses it; NULL where nothing does */
    uint32_t operand;           /* of the node: inputs, then outputs */
    bool is_other;              /* a use that takes another sharding than the value has */
    const struct sp_sharding *sharding;
    uint32_t rank;
    const int64_t *shape; /* -1 not known; NULL: no shape */
};

/* For comparing shardings: the shape, or NULL where an extent is not known. */
static inline const int64_t *export_known(const int64_t *shape, uint32_t rank)
{
    for (uint32_t i = 0; shape != NULL && i < rank; i++) {
        if (shape[i] < 0)
            return NULL;
    }
    return shape;
}

/*
 * Visits each value of the main graph whose sharding is known: inputs and weights first, as their first use takes them,
 * then what nodes make, in order; behind the inputs of a node those uses that take another sharding than the value has.
 * The scratch arena is rewound after each.
 */
enum sp_status export_values(struct export *out,
                             enum sp_status (*visit)(struct export *out, const struct export_value *item, void *context,
                                                     struct sp_error *err),
                             void *context, struct sp_error *err);

/* A note where the model has graphs inside nodes: what is in them is not visited. */
enum sp_status export_note_inner(struct export *out, struct sp_error *err);

/* ---- fields of nodes ---- */

/* Adds a field to the NodeProto of each node of the main graph, behind what it has. */
struct export_field {
    uint32_t number;    /* 5 attribute, 9 metadata_props */
    uint32_t key_count; /* entries of this number with such a name (their field 1) are taken away */
    const char *const *keys;
    /* Appends the payloads' whole fields (tag, length, payload) for a node. */
    enum sp_status (*write)(struct export *out, uint32_t node, struct sp_buf *buf, void *context, struct sp_error *err);
    void *context;
};
enum sp_status export_fields(struct export *out, const struct export_field *field, struct sp_splice **ret_splice,
                             struct sp_error *err);

/* Appends a whole field: tag, length, payload. */
void export_put_field(struct sp_buf *buf, uint32_t field, const void *payload, size_t size);

/* ---- the formats ---- */

enum sp_status export_op_sharding(struct export *out, struct sp_error *err);
enum sp_status export_shardy(struct export *out, struct sp_error *err);
enum sp_status export_poprt(struct export *out, struct sp_error *err);
enum sp_status export_poprt_model(struct export *out, struct sp_error *err);
enum sp_status export_mdp(struct export *out, struct sp_error *err);
enum sp_status export_ort(struct export *out, struct sp_error *err);
enum sp_status export_ort_layers(struct export *out, struct sp_error *err);
enum sp_status export_ort_layers_options(struct export *out, struct sp_error *err);
enum sp_status export_perfetto(struct export *out, struct sp_error *err);
enum sp_status export_explorer_stage(struct export *out, struct sp_error *err);
enum sp_status export_explorer_device(struct export *out, struct sp_error *err);
enum sp_status export_explorer_seconds(struct export *out, struct sp_error *err);
enum sp_status export_explorer_bytes(struct export *out, struct sp_error *err);
enum sp_status export_csv_nodes(struct export *out, struct sp_error *err);
enum sp_status export_csv_devices(struct export *out, struct sp_error *err);
enum sp_status export_csv_tensors(struct export *out, struct sp_error *err);
enum sp_status export_csv_collectives(struct export *out, struct sp_error *err);
