#pragma once
/*
 * dialect - the five notations in which people write a sharding, read strictly and written canonically.
 *
 *  onnx         the protobuf JSON mapping of ShardingSpecProto: {"device": [0,1], "shardedDim": [{"axis": 0,
 *               "simpleSharding": [{"numShards": 2}]}]}; snake_case names and numbers as strings are read too
 *  ort          ONNX Runtime's Distributed* attributes: S[0]R device_mesh_shape=[2] device_mesh_elements=[0,1], the
 *               bare spec with the mesh from the context, or JSON with these members (strings or integers)
 *  op-sharding  XLA's OpSharding bytes as an escaped string or hexadecimal (hlo.h)
 *  hlo          HloSharding text (hlo.h)
 *  shardy       #sdy.sharding<@mesh, [{"x"}, {}]>, the mesh before it (sdy.mesh @mesh = <["x"=2]>), inside it, or from
 *               the context
 *
 * Reading never guesses: what a notation does not say (rank, shape, mesh, number of devices) comes from the context,
 * and an error says which member or option would give it. `where` of an error is "offset N" or a JSON pointer.
 */
#include "base/buf.h"
#include "base/json_writer.h"
#include "graph/model.h"
#include "sharding/convert_forms.h"

enum sp_dialect {
    SP_DIALECT_ONNX = 0,
    SP_DIALECT_ORT,
    SP_DIALECT_OP_SHARDING,
    SP_DIALECT_HLO,
    SP_DIALECT_SHARDY,
    SP_DIALECT_COUNT
};

/* "onnx", "ort", "op-sharding", "hlo", "shardy". */
const char *sp_dialect_name(enum sp_dialect dialect);
/* False when there is no such dialect. */
bool sp_dialect_parse(const char *name, enum sp_dialect *ret_dialect);

struct sp_dialect_text {
    enum sp_dialect dialect;
    const char *text;
    size_t size;
};

/* Any dialect. Metadata and shard groups of XLA's forms are losses. */
enum sp_status sp_dialect_read(struct sp_arena *arena, const struct sp_dialect_text *given,
                               const struct sp_dialect_context *context, struct sp_sharding **ret_sharding,
                               struct sp_losses *losses, struct sp_error *err);

/* Appends the text form, without a newline at the end; one line, except that shardy writes its mesh on a line before.
 */
enum sp_status sp_dialect_write(struct sp_arena *arena, enum sp_dialect dialect, const struct sp_sharding *sharding,
                                const struct sp_dialect_context *context, struct sp_buf *buf, struct sp_losses *losses,
                                struct sp_error *err);

/* ---- ONNX ---- */

/* The record of a model (graph/model.h) to a sharding and back. Reading: list order of axes is loop order, groups by
   map entry whatever the sign, one device entry per shard, an empty device list leaves the placement open; duplicates,
   nested and empty groups, shards below 1 and dim_value against the extent are errors. Writing: ascending axes, groups
   -1, -2, .. in order of use, dim_value where the extent is known. */
enum sp_status sp_onnx_spec_to_sharding(struct sp_arena *arena, const struct sp_sharding_spec *spec,
                                        const struct sp_dialect_context *context, struct sp_sharding **ret_sharding,
                                        struct sp_losses *losses, struct sp_error *err);
enum sp_status sp_onnx_spec_from_sharding(struct sp_arena *arena, const struct sp_sharding *sharding,
                                          const struct sp_dialect_context *context, struct sp_sharding_spec *ret_spec,
                                          struct sp_losses *losses, struct sp_error *err);

/* The JSON mapping to the record and back; unknown members are errors. (sp_encode_sharding_spec() writes its bytes.) */
enum sp_status sp_onnx_spec_read_json(struct sp_arena *arena, const char *text, size_t size,
                                      struct sp_sharding_spec *ret_spec, struct sp_error *err);
void sp_onnx_spec_write_json(const struct sp_sharding_spec *spec, struct sp_json *json);
/* The same with the names of the .proto, "tensor_name" and "sharded_dim", as plans have them; it is read as well. */
void sp_onnx_spec_write_json_fields(const struct sp_sharding_spec *spec, struct sp_json *json);

/* ---- ONNX Runtime ---- */

/* A spec string as its parser reads it, made strict: per tensor axis the mesh axis, -1 for R. */
struct sp_ort_spec {
    uint32_t rank;
    int64_t *mesh_axes;
    uint32_t mesh_rank;
    int64_t *mesh_shape;
    int64_t element_count;
    int64_t *mesh_elements; /* may repeat in a mesh of one axis */
};
/* "RS[0]"; only rank and mesh_axes are set. */
enum sp_status sp_ort_read_spec(struct sp_arena *arena, const char *text, size_t size, struct sp_ort_spec *ret_spec,
                                struct sp_error *err);
/* "[0,1,2,3]" or "[2 2]", also empty. */
enum sp_status sp_ort_read_ints(struct sp_arena *arena, const char *text, size_t size, int64_t *ret_count,
                                int64_t **ret_items, struct sp_error *err);
enum sp_status sp_ort_to_sharding(struct sp_arena *arena, const struct sp_ort_spec *spec,
                                  const struct sp_dialect_context *context, struct sp_sharding **ret_sharding,
                                  struct sp_error *err);
enum sp_status sp_ort_from_sharding(struct sp_arena *arena, const struct sp_sharding *sharding,
                                    const struct sp_dialect_context *context, struct sp_ort_spec *ret_spec,
                                    struct sp_losses *losses, struct sp_error *err);

/* ---- Shardy ---- */

enum sp_status sp_shardy_read(struct sp_arena *arena, const char *text, size_t size,
                              const struct sp_dialect_context *context, struct sp_sharding **ret_sharding,
                              struct sp_error *err);
/* `inline_mesh`: inside the sharding; otherwise only "@name" is printed (the mesh's name, "mesh" without one). */
enum sp_status sp_shardy_write(const struct sp_sharding *sharding, bool inline_mesh, struct sp_buf *buf,
                               struct sp_error *err);
/* <["x"=2, "y"=4]>, <["x"=2], device_ids=[1,0]>, <[], device_ids=[3]>, with `sdy.mesh @name = ` before it or not. */
enum sp_status sp_shardy_read_mesh(struct sp_arena *arena, const char *text, size_t size, struct sp_mesh **ret_mesh,
                                   struct sp_error *err);
void sp_shardy_write_mesh(const struct sp_mesh *mesh, struct sp_buf *buf);
