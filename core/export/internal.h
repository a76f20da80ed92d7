#pragma once
/*
 * internal - what the formats share.
 *
 * A format's function writes through `struct sp_export`, whose errors are sticky: it writes on and returns what else went
 * wrong; sp_export_finish() tells the rest.
 */
#include "base/json_writer.h"
#include "export/export.h"
#include "ops/table/op.h"
#include "plan/internal.h"

#define SP_EXPORT_CHUNK ((size_t)64 << 10)

struct sp_export {
    const struct sp_subject *subject;
    const struct sp_export_request *request;
    struct sp_arena *scratch; /* of one item; a format rewinds it */
    uint64_t written;
    uint32_t notes;
    bool is_broken; /* the sink failed */
    struct sp_buf text;
};

/* ---- writing ---- */

void sp_export_bytes(struct sp_export *out, const void *bytes, size_t size);
void sp_export_text(struct sp_export *out, const char *text);
__attribute__((format(printf, 2, 3))) void sp_export_printf(struct sp_export *out, const char *format, ...);
/* A JSON writer over the export. */
void sp_export_json(struct sp_export *out, bool pretty, struct sp_json *json);
/* A JSON string, quotes included: also YAML's double-quoted form. */
void sp_export_quoted(struct sp_export *out, const char *text);
/* The shortest decimal that reads back as the same number. */
void sp_export_number(struct sp_export *out, double value);
/* A model. The splice is over the bytes of the subject's file and is destroyed. */
enum sp_status sp_export_model(struct sp_export *out, struct sp_splice *splice, struct sp_error *err);

/* Sends what is still held; the status of all that was written. */
enum sp_status sp_export_finish(struct sp_export *out, struct sp_error *err);

/* Tells a note. */
__attribute__((format(printf, 5, 6))) enum sp_status sp_export_note(struct sp_export *out, const char *code,
                                                                    const struct sp_node *node, struct sp_error *err,
                                                                    const char *format, ...);

/* ---- the subject ---- */

/* The one device of a node of the main graph. SP_ERR_UNSUPPORTED "NODE_IS_SPLIT" where it runs on several, `tool` says
   for whom that is too many; SP_ERR_MODEL "NODE_UNPLACED" where nothing says where it runs. */
enum sp_status sp_export_device(const struct sp_export *out, uint32_t node, const char *tool, int64_t *ret_device,
                                struct sp_error *err);
/* Its stage, 0 without one. */
int32_t sp_export_stage(const struct sp_export *out, uint32_t node);
/* "a100-sxm4-80gb:2", or "device 2" written into `text`, which it returns. */
const char *sp_export_device_name(const struct sp_export *out, int64_t device, char *text, size_t size);

/* SP_ERR_UNSUPPORTED unless every node of the main graph has a name of its own: tools that find nodes by name. With
   `may_be_unnamed` those without one are passed over. */
enum sp_status sp_export_check_names(const struct sp_export *out, const char *tool, bool may_be_unnamed,
                                     struct sp_error *err);

/* ---- values and their shardings ---- */

/* A sharding of a value of the main graph. */
struct sp_export_value {
    const struct sp_value *value;
    const struct sp_node *node; /* that makes it, or uses it; NULL where nothing does */
    uint32_t operand;           /* of the node: inputs, then outputs */
    bool is_other;              /* a use that takes another sharding than the value has */
    const struct sp_sharding *sharding;
    uint32_t rank;
    const int64_t *shape; /* -1 not known; NULL: no shape */
};

/* For comparing shardings: the shape, or NULL where an extent is not known. */
static inline const int64_t *sp_export_known(const int64_t *shape, uint32_t rank)
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
enum sp_status sp_export_values(struct sp_export *out,
                                enum sp_status (*visit)(struct sp_export *out, const struct sp_export_value *item,
                                                        void *context, struct sp_error *err),
                                void *context, struct sp_error *err);

/* A note where the model has graphs inside nodes: what is in them is not visited. */
enum sp_status sp_export_note_inner(struct sp_export *out, struct sp_error *err);

/* ---- fields of nodes ---- */

/* Adds a field to the NodeProto of each node of the main graph, behind what it has. */
struct sp_export_field {
    uint32_t number;    /* 5 attribute, 9 metadata_props */
    uint32_t key_count; /* entries of this number with such a name (their field 1) are taken away */
    const char *const *keys;
    /* Appends the payloads' whole fields (tag, length, payload) for a node. */
    enum sp_status (*write)(struct sp_export *out, uint32_t node, struct sp_buf *buf, void *context,
                            struct sp_error *err);
    void *context;
};
enum sp_status sp_export_fields(struct sp_export *out, const struct sp_export_field *field,
                                struct sp_splice **ret_splice, struct sp_error *err);

/* Appends a whole field: tag, length, payload. */
void sp_export_put_field(struct sp_buf *buf, uint32_t field, const void *payload, size_t size);

/* ---- the formats ---- */

enum sp_status sp_export_op_sharding(struct sp_export *out, struct sp_error *err);
enum sp_status sp_export_shardy(struct sp_export *out, struct sp_error *err);
enum sp_status sp_export_poprt(struct sp_export *out, struct sp_error *err);
enum sp_status sp_export_poprt_model(struct sp_export *out, struct sp_error *err);
enum sp_status sp_export_mdp(struct sp_export *out, struct sp_error *err);
enum sp_status sp_export_ort(struct sp_export *out, struct sp_error *err);
enum sp_status sp_export_ort_layers(struct sp_export *out, struct sp_error *err);
enum sp_status sp_export_ort_layers_options(struct sp_export *out, struct sp_error *err);
/* ONNX Runtime's name of a device: "cpu" for a host processor, "gpu:2" else. */
void sp_export_ort_device(const struct sp_export *out, int64_t device, char *text, size_t size);
enum sp_status sp_export_ort_names(struct sp_export *out, struct sp_error *err);
enum sp_status sp_export_olive(struct sp_export *out, struct sp_error *err);
enum sp_status sp_export_polygraphy(struct sp_export *out, struct sp_error *err);
enum sp_status sp_export_netron(struct sp_export *out, struct sp_error *err);
enum sp_status sp_export_perfetto(struct sp_export *out, struct sp_error *err);
enum sp_status sp_export_explorer_stage(struct sp_export *out, struct sp_error *err);
enum sp_status sp_export_explorer_device(struct sp_export *out, struct sp_error *err);
enum sp_status sp_export_explorer_seconds(struct sp_export *out, struct sp_error *err);
enum sp_status sp_export_explorer_bytes(struct sp_export *out, struct sp_error *err);
enum sp_status sp_export_csv_nodes(struct sp_export *out, struct sp_error *err);
enum sp_status sp_export_csv_devices(struct sp_export *out, struct sp_error *err);
enum sp_status sp_export_csv_tensors(struct sp_export *out, struct sp_error *err);
enum sp_status sp_export_csv_collectives(struct sp_export *out, struct sp_error *err);
