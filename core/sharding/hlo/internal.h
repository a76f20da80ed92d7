#pragma once
/* internal - what the files of the HLO dialect share; private to core/sharding. */
#include "sharding/hlo/lex.h"

/* "replicated", .. for messages and text; OTHER is "tiled". */
const char *sp_hlo_type_name(enum sp_hlo_type type);

/* Whether the devices of its last dims are one group of replicas, summands or the like. */
static inline uint32_t sp_hlo_group_dims(const struct sp_hlo *hlo)
{
    return hlo->replicate_last ? 1 : hlo->subgroup_count;
}

/* The product of the tile dims. SP_ERR_MALFORMED for a dim below 1 or a product above 64 bits. */
enum sp_status sp_hlo_tile_count(uint32_t count, const int64_t *dims, int64_t *ret_product, struct sp_error *err);

/* sp_device_order_list() with XLA's words for negative and repeated devices. */
enum sp_status sp_hlo_list_order(struct sp_arena *arena, int64_t count, const int64_t *ids,
                                 struct sp_device_order *ret_order, struct sp_error *err);

/* Makes a sharding without devices (or the one that `hlo` is) of this kind: no dims, no order, no subgroups. */
void sp_hlo_make_plain(struct sp_hlo *hlo, enum sp_hlo_type type);

/*
 * How tile dims cut an iota: the array of devices, major to minor, as pieces that each lie in one tile dim and in one
 * dim of the iota. *ret_count is 0 when they cross each other ([2,3] over [2,3]T(1,0)), or when there is one device.
 */
#define SP_HLO_MAX_PIECES 64 /* each is at least 2, and their product fits in 63 bits */
struct sp_hlo_piece {
    uint32_t tile, source;
    int64_t size;
};
void sp_hlo_cut(uint32_t tile_count, const int64_t *tiles, const struct sp_device_order *iota, uint32_t *ret_count,
                struct sp_hlo_piece pieces[static SP_HLO_MAX_PIECES]);

/*
 * The places of the pieces in the iota: ret_index[i] is the rank of piece i among all, by dim of the iota, then by
 * place in the array. So the iota is [sizes in this order] with the permutation ret_index.
 */
void sp_hlo_index_pieces(uint32_t count, const struct sp_hlo_piece *pieces, uint32_t *ret_index);

/* A mesh for V3 with the checks of XLA's Mesh: `ids` NULL means that `order` (NULL: 0..N-1) is taken as it is. */
enum sp_status sp_hlo_create_mesh(struct sp_arena *arena, uint32_t axis_count, const struct sp_mesh_axis *axes,
                                  const struct sp_hlo_numbers *ids, const struct sp_device_order *order,
                                  struct sp_mesh **ret_mesh, struct sp_error *err);

/* XLA's rules for one ref, in its words. `is_sub` says that the ref was written with a pre-size and a size. */
enum sp_status sp_hlo_check_ref(const struct sp_mesh *mesh, struct sp_axis_ref ref, bool is_sub, struct sp_error *err);

/* Checks `axes` by XLA's rules for all lists of a named sharding (VerifyNamedSharding) and makes it the named sharding
 * of `hlo`, with the kind that it amounts to. */
enum sp_status sp_hlo_set_named(struct sp_arena *arena, struct sp_sharding *axes, struct sp_hlo *hlo,
                                struct sp_error *err);

/* The metadata entry that carries a combiner: "sdy::reduction_op". */
extern const char sp_hlo_reduction_op[];

/* Takes such entries out of the metadata of a V1 or V2 sharding and sets its combiner; SUM where there is none. */
enum sp_status sp_hlo_take_combiner(struct sp_hlo *hlo, struct sp_hlo_metadata *metadata, struct sp_error *err);

/* Whether the sharding has summands, so that its combiner means something. */
bool sp_hlo_is_partial(const struct sp_hlo *hlo);

/* The readers of parts of the text: behind "metadata=", and from the word `mesh` or `maximal_mesh` to the '}'. */
enum sp_status sp_hlo_lex_metadata(struct sp_hlo_lexer *lexer, uint32_t *ret_count, struct sp_hlo_metadata **ret_items,
                                   struct sp_error *err);
enum sp_status sp_hlo_lex_named(struct sp_hlo_lexer *lexer, struct sp_hlo *hlo, struct sp_error *err);

/* "SUM", "MAX", "MIN". */
const char *sp_hlo_combiner_name(enum sp_combiner combiner);
