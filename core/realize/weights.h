#pragma once
/*
 * weights - tensors of the model's file as tensors of another file, whole or a box of them.
 *
 *   whole      everything stays as it is in the file but for the name
 *   box        raw_data that is picked out of where the bytes lie: raw_data, packed float_data and double_data, or an
 *              external file. What lies in other forms (varints, strings, parts of bytes) is taken apart in memory, at
 *              most SP_MAX_REPACKED_BYTES of it.
 *
 * External data. INLINE reads the other file when the result is read. REFER names it in the result: then a box must be
 * one run of bytes. With a data file, what is larger than SP_WEIGHT_INLINE_BYTES goes there and is referred to, unless a
 * place is known that holds the same box: in this file, which models of several phases may share, or in another one
 * where `shares` says so.
 */
#include "partition/partition.h"
#include "realize/realize.h"
#include "realize/recipe.h"

#define SP_WEIGHT_INLINE_BYTES 1024
#define SP_WEIGHT_ALIGNMENT    64

struct sp_weights {
    const struct sp_model *model;
    enum sp_realize_external external;
    struct sp_recipe *data; /* NULL: weights go into the model */
    const char *data_name;
    struct sp_weight_places *places; /* NULL, or where what goes into the data file is */
    bool declares_boxes;
    bool shares;                      /* what another file holds is not written again; set by the caller */
    struct sp_recipe *payload;        /* of the tensor at work */
    const struct sp_tensor *unpacked; /* whose elements are in `bytes` */
    unsigned char *bytes;
};

/* SP_ERR_MEMORY. */
enum sp_status sp_weights_init(struct sp_weights *weights, const struct sp_realize_request *request,
                               struct sp_error *err);
void sp_weights_release(struct sp_weights *weights);

/* Appends what tells one box of a thing of the model (its address) from all others; `axes` NULL: whole. */
void sp_weight_key(struct sp_buf *key, const void *what, uint32_t rank, const struct sp_axis_ranges *axes);

/* Appends the fields of a TensorProto. `axes` NULL: whole. *ret_done false: such a box cannot be had without a node
   that slices, and nothing was appended. Errors: SP_ERR_MEMORY, SP_ERR_LIMIT, SP_ERR_MODEL for broken data. */
enum sp_status sp_weight_put(struct sp_weights *weights, struct sp_recipe *out, const char *name,
                             const struct sp_tensor *tensor, const struct sp_axis_ranges *axes, bool *ret_done,
                             struct sp_error *err);

/* The fields of a SparseTensorProto, whole; `name` is that of its values. */
enum sp_status sp_weight_put_sparse(struct sp_weights *weights, struct sp_recipe *out, const char *name,
                                    const struct sp_sparse_tensor *sparse, struct sp_error *err);
