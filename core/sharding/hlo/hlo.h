#pragma once
/*
 * hlo - XLA's and StableHLO's OpSharding: as text, as protobuf bytes, as an escaped attribute string.
 *
 *   {replicated}   {maximal device=7}   {manual}   {unknown}   {unreduced}
 *   {devices=[2,1]0,1}                          V1: tile counts and a device list
 *   {devices=[4,2]<=[4,2]T(1,0)}                V2: the list as an iota
 *   {devices=[2,2]<=[4] last_tile_dim_replicate}               the last tile dim counts replicas
 *   {devices=[2,2,2]<=[8] last_tile_dims={manual, replicated}} trailing dims of named kinds (subgroups)
 *   {mesh['x'=2,'y'=2], [{'x'}, {'y', ?}]}      V3: a mesh and axes (NamedSharding)
 *   {{replicated}, {devices=[2]0,1}}            a tuple, one sharding per leaf
 *   [[0,1],[2,3]]                               counts and list as one tensor: {devices=[2,2]0,1,2,3}
 *
 * `struct sp_hlo` keeps what the form says (V1 stays V1, metadata and shard groups are kept), normalised the way XLA
 * does on construction (sp_hlo_normalize()), so that text -> text, bytes -> bytes and between the two nothing is lost.
 *
 * Constraints (of the StableHLO proposal for a sharding attribute and of XLA): REPLICATED, MANUAL, UNKNOWN and
 * UNREDUCED have no devices; MAXIMAL has exactly one; TUPLE has only elements, none of them a tuple; of OTHER the
 * product of the tile dims is the number of devices. Refused although XLA accepts it or dies of it: permutations that
 * are none, tile dims below 1, products that overflow, more subgroup types than tile dims, negative or repeated
 * devices, sub-axes that break axis.h, meshes whose ids are no permutation of 0..N-1 or are listed although they are
 * 0..N-1, both last_tile_dim_replicate and last_tile_dims, `device=` beside an iota.
 */
#include "base/buf.h"
#include "sharding/convert_forms.h"

/* Numbers of the wire. */
enum sp_hlo_type {
    SP_HLO_REPLICATED = 0,
    SP_HLO_MAXIMAL = 1,
    SP_HLO_TUPLE = 2,
    SP_HLO_OTHER = 3,
    SP_HLO_MANUAL = 4,
    SP_HLO_UNKNOWN = 5,
    SP_HLO_UNREDUCED = 6,
};

/* OpMetadata: texts are NULL when absent; the fields that text cannot show are kept as their encoded bytes. */
struct sp_hlo_metadata {
    const char *op_type, *op_name, *source_file;
    int32_t source_line, source_end_line, source_column, source_end_column;
    const unsigned char *other; /* encoded fields beside these, in order of field number, or NULL */
    size_t other_size;
};

struct sp_hlo {
    enum sp_hlo_type type;
    uint32_t dim_count;
    const int64_t *dims;          /* OTHER: tile counts, then those of the subgroups */
    struct sp_device_order order; /* OTHER, and the device of MAXIMAL; a list is V1, an iota V2 */
    bool replicate_last;
    uint32_t subgroup_count;
    const enum sp_hlo_type *subgroups; /* of the last dims */
    enum sp_combiner combiner;         /* of UNREDUCED and an UNREDUCED subgroup */
    bool has_group, is_group_like;     /* shard_as, shard_like */
    int64_t group_id;
    uint32_t metadata_count;
    const struct sp_hlo_metadata *metadata;

    /* V3: then only `named` and `metadata` mean anything. `named` is AXES, or on a mesh and without dims REPLICATED,
       MANUAL, UNREDUCED (its `mesh` is set), or SINGLE. */
    bool is_named;
    const struct sp_sharding *named;

    uint32_t element_count; /* TUPLE */
    const struct sp_hlo *elements;
};

/* Text to sharding; `where` of an error is "offset N". Wording of errors contains XLA's where XLA refuses too. Bounded
   by SP_MAX_SHARDING_BYTES. */
enum sp_status sp_hlo_read_text(struct sp_arena *arena, const char *text, size_t size, struct sp_hlo **ret_hlo,
                                struct sp_error *err);

/* XLA's canonical text, appended; `metadata` says whether to print it. */
void sp_hlo_write_text(const struct sp_hlo *hlo, bool metadata, struct sp_buf *buf);

/* OpSharding bytes to sharding, in the order of decisions of XLA's FromProto. Depth is checked before anything is
   unpacked. `where` is "byte N" for broken bytes, a field path otherwise. */
enum sp_status sp_hlo_read_proto(struct sp_arena *arena, const unsigned char *bytes, size_t size,
                                 struct sp_hlo **ret_hlo, struct sp_error *err);

/* Canonical proto3 bytes (fields in ascending order, repeated numbers packed), appended. */
enum sp_status sp_hlo_write_proto(struct sp_arena *arena, const struct sp_hlo *hlo, struct sp_buf *buf,
                                  struct sp_error *err);

/*
 * The attribute form: an MLIR string literal with or without its quotes, with or without `mhlo.sharding = ` before it;
 * escapes are \XX (two hexadecimal digits), \", \\, \n, \t. Its content is bytes or, failing that, text, as StableHLO's
 * importer reads it. Plain hexadecimal (an even number of digits and nothing else) is taken as bytes too; the empty
 * string is {replicated}.
 */
enum sp_status sp_hlo_read_attribute(struct sp_arena *arena, const char *text, size_t size, struct sp_hlo **ret_hlo,
                                     struct sp_error *err);

/* The bytes as an MLIR string literal with its quotes: printable ASCII as it is, other bytes as \XX in upper case. (The
   bytes 08 03 1A 02 02 01 22 02 00 01 are "\08\03\1A\02\02\01\22\02\00\01": a quote is \22.) */
void sp_hlo_write_attribute(const unsigned char *bytes, size_t size, struct sp_buf *buf);

/* XLA's normalisation on construction, in place of the caller's object: partial tiles with one tile or one replica,
   sorted groups of replicas, order of subgroups (facts of XLA). A tuple's elements are normalised one by one. Readers
   have called it; the reader of bytes takes one device as replication besides. */
enum sp_status sp_hlo_normalize(struct sp_arena *arena, struct sp_hlo *hlo, struct sp_error *err);

/* A shape to validate against: an array of `rank` extents, or a tuple of shapes; tokens accept any sharding. */
struct sp_hlo_shape {
    bool is_tuple, is_token;
    uint32_t rank;
    const int64_t *dims;
    uint32_t element_count;
    const struct sp_hlo_shape *elements;
};

/* HloSharding::Validate with the sentences of XLA. `device_count` 0: not known. */
enum sp_status sp_hlo_validate(const struct sp_hlo *hlo, const struct sp_hlo_shape *shape, int64_t device_count,
                               struct sp_error *err);

/* To the common form: V1 and V2 become AXES on a mesh "axis_0", .. cut so that the iota's order is the mesh's order
   where that is possible (XLA's ToNamedSharding), on a mesh with listed devices otherwise. Metadata and shard groups
   are losses. */
enum sp_status sp_hlo_to_sharding(struct sp_arena *arena, const struct sp_hlo *hlo, struct sp_sharding **ret_sharding,
                                  struct sp_losses *losses, struct sp_error *err);

enum sp_hlo_version {
    SP_HLO_AUTO = 0, /* V1 up to SP_HLO_LISTED_DEVICES devices or when the devices are listed, which all versions of XLA
                        read; else V2 */
    SP_HLO_V1,
    SP_HLO_V2, /* V1 where the devices have no iota */
    SP_HLO_V3,
};
#define SP_HLO_LISTED_DEVICES 64

/* From the common form, in the context's version; the context must have the rank where the sharding has one. Blocks without a mesh form are SP_ERR_UNSUPPORTED. Losses: open dims, priorities, explicit
   replication, axis names in V1 and V2. */
enum sp_status sp_hlo_from_sharding(struct sp_arena *arena, const struct sp_sharding *sharding,
                                    const struct sp_dialect_context *context, struct sp_hlo **ret_hlo,
                                    struct sp_losses *losses, struct sp_error *err);
