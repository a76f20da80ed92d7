#pragma once
/*
 * heads - operands that hold attention heads, and axes that are several factors at once; shared by the attention,
 * rotary and recurrent-attention families.
 *
 *     packed    [b, s, heads*size]       the heads are the outer part of the last axis
 *     apart     [b, heads, s, size]
 *
 * Heads are split as a whole: the axis is the compound of the heads (major) and their size (minor), so an even split
 * of a packed axis is one of whole heads exactly as long as the heads divide.
 */
#include "ops/table/factors.h"
#include "ops/table/shape_helpers.h"

/* What an operand holds; extents are unknown where its shape is. */
struct sp_heads {
    bool has_rank, is_packed;
    struct sp_dim batch, length, count, size;
};

/* Reads input `input`. `count` is the number of heads of a packed operand (an attribute; 0: not given, which is
   SP_ERR_MODEL for a packed one). SP_ERR_MODEL for other ranks than 3 and 4, for a packed axis that the heads do not
   divide, and for a count that contradicts an operand with its heads apart. */
enum sp_status sp_heads_read(struct sp_op_context *context, uint32_t input, int64_t count, struct sp_heads *ret_heads);

/* Sets the type of an output that holds heads; unranked where `heads` has no rank. */
enum sp_status sp_heads_set_output(struct sp_op_context *context, uint32_t output, enum sp_dtype dtype,
                                   const struct sp_heads *heads);

/* SP_ERR_MODEL, naming `what` of two operands, for extents that are surely different. */
enum sp_status sp_check_same(struct sp_op_context *context, const char *what, struct sp_dim a, struct sp_dim b);

/* The factors of one axis, major to minor. */
struct sp_chain {
    uint32_t count;
    uint8_t items[4];
};

static inline struct sp_chain sp_chain_of(uint8_t factor)
{
    return (struct sp_chain){.count = 1, .items = {factor}};
}

/* An operand in a rule. */
struct sp_place {
    bool is_output;
    uint32_t index;
};

static inline struct sp_place sp_in(uint32_t input)
{
    return (struct sp_place){.is_output = false, .index = input};
}

static inline struct sp_place sp_out(uint32_t output)
{
    return (struct sp_place){.is_output = true, .index = output};
}

/* The shape of the node's operand, or NULL where it is omitted or has no rank. */
const struct sp_shape *sp_place_shape(const struct sp_op_context *context, struct sp_place place);

/* Maps one axis to one factor, or to a chain. */
void sp_map(struct sp_rule *rule, struct sp_place place, uint32_t axis, uint8_t factor);
void sp_map_chain(struct sp_rule *rule, struct sp_place place, uint32_t axis, const struct sp_chain *chain);

/* What the axes of operands with heads are. */
struct sp_head_axes {
    uint8_t batch, length;
    struct sp_chain heads, size;
};

/* Maps an operand of rank 3 (packed) or 4 (apart); nothing where it is omitted. */
void sp_map_heads(const struct sp_op_context *context, struct sp_rule *rule, struct sp_place place,
                  const struct sp_head_axes *axes);

/* Maps a mask, a bias or scores: the last axes of [batch, heads, queries, keys], of which those of size 1 are
   broadcast. A key axis that is known to be shorter than `keys_extent` (it is padded) is left whole. */
struct sp_score_axes {
    uint8_t batch, queries, keys;
    struct sp_chain heads;
    struct sp_dim keys_extent;
};

void sp_map_scores(const struct sp_op_context *context, struct sp_rule *rule, struct sp_place place,
                   const struct sp_score_axes *axes);
