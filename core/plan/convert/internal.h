#pragma once
/*
 * internal - what the sources of the conversion facade share: requests as they are read.
 */
#include "base/json_reader.h"
#include "plan/convert/convert.h"
#include "sharding/hlo/hlo.h"

/* A sharding as the request gives it. */
struct sp_convert_spec {
    const char *text;
    size_t size;
    bool is_object; /* it was JSON in the request, `text` is that again */
    enum sp_dialect dialect;
    const char *pointer; /* JSON pointer of the member */
};

/* A mesh beside the spec: as a mesh, or, when it was written as ONNX Runtime does, as the text of its attributes. */
struct sp_convert_mesh {
    const struct sp_mesh *mesh; /* NULL: none, or one that repeats devices */
    const char *ort;            /* "device_mesh_shape=[2] device_mesh_elements=[0,1]", or NULL */
};

/* "shape", "rank", "devices", "mesh" into the context; NULL members of the request are taken as absent. `context` must
   hold the defaults: everything 0, rank -1. */
enum sp_status sp_convert_read_context(struct sp_members_reader *reader, const json_t *request,
                                       struct sp_dialect_context *context, struct sp_convert_mesh *ret_mesh);

/* "shape" alone; *ret_shape NULL and *ret_rank -1 without it. */
enum sp_status sp_convert_read_shape(struct sp_members_reader *reader, const json_t *request, int64_t *ret_rank,
                                     const int64_t **ret_shape);

/* A member that names a dialect; *ret_named is false without it. */
enum sp_status sp_convert_read_dialect(struct sp_members_reader *reader, const json_t *request, const char *member,
                                       bool *ret_named, enum sp_dialect *ret_dialect);

/* The required member, of the object at the pointer `at`, that holds a sharding; its dialect is the one that
   `dialect_member` (or NULL) names, or is recognised. */
enum sp_status sp_convert_read_spec(struct sp_members_reader *reader, const json_t *request, const char *at,
                                    const char *member, const char *dialect_member, struct sp_convert_spec *ret_spec);

/* An integer member from `low` to `high`; an absent one leaves *ret_value. */
enum sp_status sp_convert_read_integer(struct sp_members_reader *reader, const json_t *request, const char *member,
                                       int64_t low, int64_t high, int64_t *ret_value);

/* A member that is true or false; an absent one leaves *ret_value. */
enum sp_status sp_convert_read_bool(struct sp_members_reader *reader, const json_t *request, const char *member,
                                    bool *ret_value);

/* An error of reading `spec` becomes one of the request: `where` is the member's pointer, and where it was in the text
   goes into the message. Returns the status. */
enum sp_status sp_convert_blame(const struct sp_convert_spec *spec, struct sp_error *err);

/* The spec as a sharding, checked against what is known beside it. */
enum sp_status sp_convert_read_sharding(struct sp_members_reader *reader, struct sp_convert_spec *spec,
                                        const struct sp_dialect_context *context, const struct sp_convert_mesh *mesh,
                                        struct sp_sharding **ret_sharding, struct sp_losses *losses);

/* With the attributes of a mesh that stands beside an ONNX Runtime spec behind it. */
enum sp_status sp_convert_add_mesh(struct sp_members_reader *reader, struct sp_convert_spec *spec,
                                   const struct sp_convert_mesh *mesh);

/* Fails when text that was put together is too large, or cannot stand in JSON (no UTF-8, a NUL). */
enum sp_status sp_convert_check_text(const struct sp_buf *buf, struct sp_error *err);

/* "axis": {"x"}, or "x":(1)2 for a part of it, as a JSON string without quotes around the name. */
void sp_convert_write_axis(const struct sp_mesh *mesh, struct sp_axis_ref ref, struct sp_json *json);

/* [{"code", "message"}, ..] */
void sp_convert_write_losses(const struct sp_losses *losses, struct sp_json *json);

/* ---- convert ---- */

/* A request, and what comes of it. Texts are in buffers that convert.c frees. */
struct sp_conversion {
    struct sp_members_reader reader;
    struct sp_dialect_context context;
    struct sp_convert_mesh mesh;
    struct sp_convert_spec spec;
    enum sp_dialect to;
    bool holdings;

    struct sp_hlo *hlo;           /* the result in XLA's form, when it has one */
    struct sp_sharding *sharding; /* the common form, when it was needed */
    struct sp_losses losses;
    struct sp_ort_spec ort; /* the result in ONNX Runtime's form */
    struct sp_buf text;
    struct sp_buf bytes;     /* onnx, op-sharding: the protobuf */
    struct sp_buf hlo_text;  /* op-sharding: the same for people */
    struct sp_buf held_json; /* holdings */
    struct sp_buf held_text;
};

/* Whether it is one of XLA's own two forms. */
static inline bool sp_convert_is_xla(enum sp_dialect dialect)
{
    return dialect == SP_DIALECT_HLO || dialect == SP_DIALECT_OP_SHARDING;
}

/* What a buffer holds, never NULL. */
static inline const char *sp_convert_text_of(const struct sp_buf *buf)
{
    return buf->data != NULL ? buf->data : "";
}

/* The texts of the result. */
enum sp_status sp_convert_write_result(struct sp_conversion *conversion);

/* What each device holds, as text and as JSON. */
enum sp_status sp_convert_write_holdings(struct sp_conversion *conversion);

/* The members "spec" and "text" and those particular to the notation. */
void sp_convert_write_members(const struct sp_conversion *conversion, struct sp_json *json);
