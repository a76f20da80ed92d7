#pragma once
/*
 * heads - what the lowerings of operators with heads share (ops/lowering/lowering.h).
 *
 * Operands that hold heads come packed, [b, s, heads*size], or apart, [b, heads, s, size]
 * (ops/families/neural/heads.h). How many heads are packed is an attribute: a device that has some of them says how
 * many.
 */
#include "ops/lowering/lowering.h"

/* The rule's factor of this name, split or not; SP_RULE_NO_FACTOR where there is none. */
uint8_t sp_lower_named(const struct sp_lowering *lower, const char *name);

/* How many indices this device has of the factor of this name; 1 where there is none, -1 where it is not known. */
int64_t sp_lower_named_size(const struct sp_lowering *lower, const char *name);

/* Attributes in which the operator of a device differs from the node. */
struct sp_lower_changes {
    uint32_t count;
    struct sp_lower_attribute items[8];
};

/* Where the node has the attribute and it is not 0: as many as this device has of the named factors together; `inner`
   may be NULL. */
void sp_lower_change_heads(const struct sp_lowering *lower, struct sp_lower_changes *changes, const char *attribute,
                           const char *outer, const char *inner);

/* sp_lower_default() with these attributes: sums over split factors that an output does not have are partial. */
enum sp_status sp_lower_changed(struct sp_lowering *lower, const struct sp_lower_changes *changes);

/* The same, run on these pieces. */
enum sp_status sp_lower_changed_on(struct sp_lowering *lower, uint32_t input_count, struct sp_piece *const *inputs,
                                   const struct sp_lower_changes *changes);

/* The default inputs, one for each; NULL after an error. */
struct sp_piece **sp_lower_inputs(struct sp_lowering *lower);

/* int64 [size]: the indices of the whole that this device has of a factor, whose size must be known. */
struct sp_piece *sp_lower_positions(struct sp_lowering *lower, uint8_t factor);

/* Reshape with its input as ONNX has it: 0 is the extent that x has there, one -1 is what is left. For operands of
   which not all extents are known. */
struct sp_piece *sp_lower_reshape_as(struct sp_lowering *lower, struct sp_piece *x, uint32_t rank, const int64_t *dims);

/* [b, s, heads*size] to [b, heads, s, size] and back; what is apart already comes back. */
struct sp_piece *sp_lower_heads_apart(struct sp_lowering *lower, struct sp_piece *x, uint32_t rank, int64_t heads);
struct sp_piece *sp_lower_heads_packed(struct sp_lowering *lower, struct sp_piece *x, uint32_t rank);
