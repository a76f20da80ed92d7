#pragma once
/*
 * lowering - SPMD lowering: one node of a model as the operators that each device runs on its shards of the operands.
 *
 * Model. The factors of a node's rule are cut in shards, and each device that takes part has one shard of every factor.
 * An operator's lowering (struct sp_op, `lower`) is called once for each of these devices and writes that device's part
 * of the work: operators on pieces, and collectives. It is one program on many data: every call makes the same
 * operators and collectives in the same order, and only numbers differ (bounds, offsets, sizes).
 *
 *     MatMul, k split      y = MatMul(piece of a, piece of b); output 0 is y, a partial sum over k
 *     ReduceMean, j split  s = all-reduce(ReduceSum(piece of x)); output 0 is s / extent of j
 *     Gather, v split      i = indices - start of v; y = Where(i in range, Gather(piece, clipped i), 0); a partial sum
 *
 * An operator without a function runs as it is on the pieces that its factors give it; a split reduction that no output
 * has then leaves outputs that are partial by the factor's combiner. Where that cannot be right (the factor is a halo,
 * moves elements, is resized, stays in an output although it is a reduction, has a combiner that is no operator, or an
 * operand holds positions along it), the factor is made whole first (sp_lower_whole()).
 *
 * What a function may count on: every factor that is split has a known extent, is of a kind that may be split
 * (parallel, reduction, halo, permutation), and no shard of it is empty. Operands may have unknown extents on axes that
 * are not cut. Where nothing is split the node runs as it is, and the function is not called; but for operators that
 * draw random numbers (SP_OP_RANDOM), since devices that draw the same ones need the same seed, and for those that do
 * not read an input (is_unread), which is then not brought.
 *
 * Glossary
 *  piece    a tensor (or a value of another type) of one device's program
 *  shard    a part of a factor; shard i of n of an extent D is [i*c, min((i+1)*c, D)) with c = ceil(D/n), or several
 *           such blocks that follow one another, or, where the cut is that of a compound axis, several ranges
 *  part     what a device has of an operand: for each axis the indices that the shards of its factors select
 *
 * Errors are sticky: after the first one every function returns NULL (or does nothing) and takes NULL. A lowering checks
 * once, at its end: `return sp_lower_status(lower)`.
 *
 * Each call is recorded when it is made. C leaves open in which order the arguments of a function are computed, so no
 * two calls may stand in one list of arguments: names would differ between compilers.
 *
 * Pieces live as long as the partition; everything else in the memory of the node.
 */
#include "base/ranges.h"
#include "ops/table/op.h"

/* A tensor of one device's program. `dims` are extents on this device, -1 where not known; NULL where the rank is not
   known. */
struct sp_piece {
    const char *name; /* unique over all devices */
    int64_t device;
    enum sp_dtype dtype; /* UNDEFINED for what is no tensor */
    uint32_t rank;
    const int64_t *dims;
    /* The same elements with axis 1 last, where this piece is how an operator with its channels first sees them
       (ops/table/like.h): it is written, as a transposition, by the first operator that reads it. Else NULL. */
    struct sp_piece *stored;
    bool is_written;
};

/* One factor as the device at work has it. */
struct sp_lower_factor {
    bool is_split;
    int64_t extent;               /* of the whole, -1 where not known */
    int64_t shards, shard;        /* 1 and 0 where it is not split */
    const int64_t *bounds;        /* blocks before each shard and in all; NULL: each shard is one, or several ranges */
    struct sp_axis_ranges ranges; /* this device's indices; {0, extent} where it is not split (limit -1: not known) */
    int64_t start, size;          /* the first index, and how many there are (-1: not known) */
    bool is_contiguous;           /* `ranges` is one range */
};

/* One axis of an operand: the whole extent and this device's part of it, by the factors of the axis. */
struct sp_lower_axis {
    int64_t extent;               /* of the whole, -1 where not known */
    int64_t size;                 /* of the part, -1 where not known */
    struct sp_axis_ranges ranges; /* of the whole's indices; {0, extent} where it is not cut (limit -1: not known) */
    bool is_cut;
};

struct sp_lower_operand {
    const struct sp_value *value; /* NULL: omitted */
    uint32_t rank;                /* 0 where it is no tensor of known rank */
    const struct sp_lower_axis *axes;
};

struct sp_lower_view;     /* how the operator sees the node's operands (ops/lowering/like.c) */
struct sp_lower_recorder; /* what was called for (ops/lowering/recorder.h); private to the builder and the partition */

struct sp_lowering {
    struct sp_model *model;
    struct sp_node *node;
    const struct sp_rule *rule;
    int64_t version; /* of the operator */
    int64_t opset;   /* of ai.onnx: what helper operators are written in */
    struct sp_arena *arena;
    int64_t device;
    uint32_t factor_count, input_count, output_count;
    const struct sp_lower_factor *factors;
    const struct sp_lower_operand *inputs, *outputs;
    const struct sp_lower_view *view; /* NULL: as they are */
    struct sp_lower_recorder *recorder;
    struct sp_error *err;
};

/* ---- errors and refusals ---------------------------------------------------------------------------------------- */

enum sp_status sp_lower_status(const struct sp_lowering *lower);

/* Records an error, or takes one over from a function that returned it. */
__attribute__((format(printf, 4, 5))) void sp_lower_fail(struct sp_lowering *lower, enum sp_status status,
                                                         const char *code, const char *format, ...);
void sp_lower_failed(struct sp_lowering *lower, enum sp_status status);

/* This factor cannot be split here (a shape operand that is not known, a mode that needs neighbours): the node starts
   again with it whole on every device, and the plan carries a note with this full sentence. Ends the function as an
   error does; every device must come to the same. Not for what a rule could say: then the rule is to be changed. */
__attribute__((format(printf, 3, 4))) void sp_lower_whole(struct sp_lowering *lower, uint8_t factor, const char *format,
                                                          ...);

/* ---- inputs ----------------------------------------------------------------------------------------------------- */

/* This device's part of an input; NULL for an omitted one. An input that is never asked for is not brought here. Asking
   again for the part, or for the whole, gives the same piece; each range or box that is asked for is brought anew. */
struct sp_piece *sp_lower_input(struct sp_lowering *lower, uint32_t input);

/* The same, but on `axis` the indices [start, limit) of the whole: a halo, a shifted window. They may overlap with what
   other devices ask for; empty ranges are SP_ERR_INTERNAL. */
struct sp_piece *sp_lower_input_range(struct sp_lowering *lower, uint32_t input, uint32_t axis, int64_t start,
                                      int64_t limit);

/* Any box: one range for each axis. A limit of -1 is the end of an axis of unknown extent, and a start of -1 is the
   part that the factors give. */
struct sp_piece *sp_lower_input_box(struct sp_lowering *lower, uint32_t input, const struct sp_range *box);

/* Any indices of each axis: the ranges, ascending and not touching each other, follow one another in the piece. */
struct sp_piece *sp_lower_input_axes(struct sp_lowering *lower, uint32_t input, const struct sp_axis_ranges *axes);

/* The whole input on every device. */
struct sp_piece *sp_lower_input_whole(struct sp_lowering *lower, uint32_t input);

/* Known integers of an input (a shape operand, axes, sizes), the same on every device; NULL where they are not all
   known or the input is omitted. *ret_count of them, in the memory of the node. */
const int64_t *sp_lower_known(struct sp_lowering *lower, uint32_t input, uint32_t *ret_count);

/* ---- constants -------------------------------------------------------------------------------------------------- */

/* int64 [count]. */
struct sp_piece *sp_lower_ints(struct sp_lowering *lower, uint32_t count, const int64_t *values);
/* A 0-dimensional tensor; integers are exact up to 2^53, floats are rounded to the type. */
struct sp_piece *sp_lower_scalar(struct sp_lowering *lower, enum sp_dtype dtype, double value);
struct sp_piece *sp_lower_int(struct sp_lowering *lower, enum sp_dtype dtype, int64_t value);
/* [rank dims] filled with one value, which the piece's event has once (ConstantOfShape). */
struct sp_piece *sp_lower_full(struct sp_lowering *lower, enum sp_dtype dtype, uint32_t rank, const int64_t *dims,
                               double value);
/* int64 [limit - start]: start, start + 1, .. */
struct sp_piece *sp_lower_iota(struct sp_lowering *lower, int64_t start, int64_t limit);
/* Elements as raw_data has them, little-endian; copied. At most SP_MAX_LOCAL_CONSTANT bytes. */
struct sp_piece *sp_lower_tensor(struct sp_lowering *lower, enum sp_dtype dtype, uint32_t rank, const int64_t *dims,
                                 const void *bytes, size_t size);

/* ---- operators -------------------------------------------------------------------------------------------------- */

/* An attribute of an operator that a device runs. Strings and arrays are copied. */
struct sp_lower_attribute {
    const char *name;
    enum sp_attr_type type; /* INT, FLOAT, STRING, INTS, FLOATS, STRINGS, TENSOR; UNDEFINED: the node's is left out */
    int64_t i;
    double f;
    const char *s;
    uint32_t count;
    const int64_t *ints;
    const double *floats;
    const char *const *strings;
    const struct sp_tensor *tensor;
};
#define SP_INT_ATTR(name_, value_)                                                                                     \
    (struct sp_lower_attribute)                                                                                        \
    {                                                                                                                  \
        .name = (name_), .type = SP_ATTR_INT, .i = (value_)                                                            \
    }
#define SP_INTS_ATTR(name_, count_, values_)                                                                           \
    (struct sp_lower_attribute)                                                                                        \
    {                                                                                                                  \
        .name = (name_), .type = SP_ATTR_INTS, .count = (count_), .ints = (values_)                                    \
    }
#define SP_NO_ATTR(name_)                                                                                              \
    (struct sp_lower_attribute)                                                                                        \
    {                                                                                                                  \
        .name = (name_), .type = SP_ATTR_UNDEFINED                                                                     \
    }

/* The node's own operator, with its domain and attributes, those in `attributes` replaced, added or left out. `inputs`
   has input_count entries (NULL: omitted, at the end too); without `inputs` (NULL) the operator gets this device's part
   of each of the node's. The outputs that the node has get pieces, others NULL;
   `ret_outputs` has room for the node's output_count. Their dims are those of the outputs' parts. */
void sp_lower_same_many(struct sp_lowering *lower, uint32_t input_count, struct sp_piece *const *inputs,
                        uint32_t attribute_count, const struct sp_lower_attribute *attributes,
                        struct sp_piece **ret_outputs);
/* The same for nodes with one output: returns it. */
struct sp_piece *sp_lower_same(struct sp_lowering *lower, uint32_t input_count, struct sp_piece *const *inputs,
                               uint32_t attribute_count, const struct sp_lower_attribute *attributes);

/* Any operator of ai.onnx ("" domain) in the model's version, with one output of this type; dims not known. */
struct sp_piece *sp_lower_op(struct sp_lowering *lower, const char *op_type, enum sp_dtype dtype, uint32_t input_count,
                             struct sp_piece *const *inputs, uint32_t attribute_count,
                             const struct sp_lower_attribute *attributes);
/* The same in another domain and with several outputs, of type dtypes[i] each. */
struct sp_lower_call {
    const char *domain, *op_type;
    uint32_t input_count;
    struct sp_piece *const *inputs;
    uint32_t attribute_count;
    const struct sp_lower_attribute *attributes;
    uint32_t output_count;
};
void sp_lower_op_many(struct sp_lowering *lower, const struct sp_lower_call *call, const enum sp_dtype *dtypes,
                      struct sp_piece **ret_outputs);

/* Says what the extents of a piece are; for results of sp_lower_op() where collectives or slices follow. */
void sp_piece_set_dims(struct sp_lowering *lower, struct sp_piece *piece, uint32_t rank, const int64_t *dims);

/* Helpers that write the right form for every opset version (axes as attribute or input, ..), and know their result's
   type and extents where those of the operands are known. What no kernel has in a narrow type is computed in a wider
   one. An operator set too old for a helper makes the node whole. Nothing is written where nothing is to be done (a
   slice of everything, a cast to the same type, a concatenation of one). */
struct sp_piece *sp_lower_unary(struct sp_lowering *lower, const char *op_type, struct sp_piece *x);
struct sp_piece *sp_lower_binary(struct sp_lowering *lower, const char *op_type, struct sp_piece *a,
                                 struct sp_piece *b);
struct sp_piece *sp_lower_compare(struct sp_lowering *lower, const char *op_type, struct sp_piece *a,
                                  struct sp_piece *b);
struct sp_piece *sp_lower_where(struct sp_lowering *lower, struct sp_piece *condition, struct sp_piece *a,
                                struct sp_piece *b);
struct sp_piece *sp_lower_cast(struct sp_lowering *lower, struct sp_piece *x, enum sp_dtype dtype);
/* [start, limit) of the piece's own indices along an axis, limit INT64_MAX: to the end; with a step, which may be
   negative (then start > limit, and limit INT64_MIN means: through index 0). */
struct sp_piece *sp_lower_slice(struct sp_lowering *lower, struct sp_piece *x, uint32_t axis, int64_t start,
                                int64_t limit);
struct sp_piece *sp_lower_slice_step(struct sp_lowering *lower, struct sp_piece *x, uint32_t axis, int64_t start,
                                     int64_t limit, int64_t step);
struct sp_piece *sp_lower_concat(struct sp_lowering *lower, uint32_t axis, uint32_t count,
                                 struct sp_piece *const *pieces);
/* One of the extents may be -1: what the others leave. */
struct sp_piece *sp_lower_reshape(struct sp_lowering *lower, struct sp_piece *x, uint32_t rank, const int64_t *dims);
struct sp_piece *sp_lower_transpose(struct sp_lowering *lower, struct sp_piece *x, uint32_t rank, const int64_t *perm);
/* An extent of -1 is the piece's own. */
struct sp_piece *sp_lower_expand(struct sp_lowering *lower, struct sp_piece *x, uint32_t rank, const int64_t *dims);
/* ReduceSum, ReduceMax, ReduceMin, ReduceProd, ..; `axes` has a bit for each axis, 0 means nothing is done. */
struct sp_piece *sp_lower_reduce(struct sp_lowering *lower, const char *op_type, struct sp_piece *x, uint64_t axes,
                                 bool keep_dims);
struct sp_piece *sp_lower_squeeze(struct sp_lowering *lower, struct sp_piece *x, uint32_t axis);
struct sp_piece *sp_lower_unsqueeze(struct sp_lowering *lower, struct sp_piece *x, uint32_t axis);
struct sp_piece *sp_lower_gather(struct sp_lowering *lower, struct sp_piece *x, struct sp_piece *indices,
                                 uint32_t axis);
struct sp_piece *sp_lower_matmul(struct sp_lowering *lower, struct sp_piece *a, struct sp_piece *b);
/* Constant padding: low[i] elements before and high[i] after each axis, filled with `value` (which must be exact in the
   type). */
struct sp_piece *sp_lower_pad(struct sp_lowering *lower, struct sp_piece *x, uint32_t rank, const int64_t *low,
                              const int64_t *high, double value);

/* ---- collectives ------------------------------------------------------------------------------------------------ */

/* Joins the pieces of the devices that differ only in these factors; those that are not split are passed over, and
   where none is, x comes back. SUM, MAX, MIN or PROD. All pieces must have the same extents. bool and small integers
   are carried in a type that the combiner has; where there is none (64-bit maxima before version 12), the first factor
   is made whole. Of bool, a sum says whether any is true and a product whether all are. */
struct sp_piece *sp_lower_all_reduce(struct sp_lowering *lower, struct sp_piece *x, enum sp_combiner combiner,
                                     uint32_t factor_count, const uint8_t *factors);

/* The pieces of the devices that differ only in this factor, one after the other along `axis` in the order of shards.
   The dims of x must be known; they may differ from device to device along `axis` only. What they add up to is not
   known here: the result's extent along `axis` is -1 until sp_piece_set_dims() says it. */
struct sp_piece *sp_lower_all_gather(struct sp_lowering *lower, struct sp_piece *x, uint8_t factor, uint32_t axis);

/* The split factors of the rule that are reductions and that output `output` does not have; the usual list to reduce
   over. *ret_count of them, in the memory of the node. */
const uint8_t *sp_lower_partial_factors(struct sp_lowering *lower, uint32_t output, uint32_t *ret_count);

/* ---- outputs ---------------------------------------------------------------------------------------------------- */

/* The piece is this device's part of the output. Each output that the node has must be given, once. */
void sp_lower_output(struct sp_lowering *lower, uint32_t output, struct sp_piece *piece);
/* The piece is the whole output, the same on every device. */
void sp_lower_output_whole(struct sp_lowering *lower, uint32_t output, struct sp_piece *piece);
/* The piece is a summand (or factor, or one whose maximum or minimum counts) of this device's part: it is still to be
   combined over these factors. Becomes an all-reduce, or a reduce-scatter where the output is wanted in parts. */
void sp_lower_output_partial(struct sp_lowering *lower, uint32_t output, struct sp_piece *piece,
                             enum sp_combiner combiner, uint32_t factor_count, const uint8_t *factors);

/* ---- what a function often needs -------------------------------------------------------------------------------- */

/* The split factors of an axis of an operand, or whether there is any. */
bool sp_lower_is_cut(const struct sp_lower_operand *operand, uint32_t axis);
/* The only factor of an axis, or SP_RULE_NO_FACTOR where it has none or several. */
uint8_t sp_lower_input_factor(const struct sp_lowering *lower, uint32_t input, uint32_t axis);
uint8_t sp_lower_output_factor(const struct sp_lowering *lower, uint32_t output, uint32_t axis);
/* The rule's factor of this name that is split, or SP_RULE_NO_FACTOR. */
uint8_t sp_lower_split_named(const struct sp_lowering *lower, const char *name);
/* The extents of this device's part of an operand; NULL where one is not known. `rank` of them. */
const int64_t *sp_lower_part_dims(struct sp_lowering *lower, const struct sp_lower_operand *operand);
/* What an operator with no function of its own does. */
enum sp_status sp_lower_default(struct sp_lowering *lower);
