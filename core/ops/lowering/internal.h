#pragma once
/*
 * internal - what the parts of the builder (ops/lowering/lowering.h) share; private to the folder ops/lowering.
 */
#include "ops/lowering/recorder.h"
#include "ops/table/like.h"

/* Whether nothing failed so far, and all of these pieces are there. */
bool sp_lower_is_fine(const struct sp_lowering *lower);
bool sp_lower_has(const struct sp_lowering *lower, const struct sp_piece *a, const struct sp_piece *b);

/* An error of the function that called: SP_ERR_INTERNAL, with the node's label. */
__attribute__((format(printf, 2, 3))) void sp_lower_misuse(struct sp_lowering *lower, const char *format, ...);

/* sp_lower_whole() of the first split factor: the parts need an operator as it is since a later version of the operator
   set. */
void sp_lower_fail_opset(struct sp_lowering *lower, const char *op_type, int64_t since);

/* A copy in the memory of the node of what may lie on the caller's stack; NULL without memory, which is recorded. */
void *sp_lower_copy(struct sp_lowering *lower, const void *from, uint32_t count, size_t size);

/* Whether an axis of the operand has this factor. */
bool sp_lower_operand_has(const struct sp_operand_rule *operand, uint32_t factor);

/* `count` objects in the memory of the node; NULL without memory, which is recorded. */
void *sp_lower_array(struct sp_lowering *lower, size_t count, size_t size);
#define SP_LOWER_ARRAY(lower, count, type) ((type *)sp_lower_array((lower), (count), sizeof(type)))

/* The piece with the extents that broadcasting a and b gives; not known where those of one are not. */
void sp_lower_set_broadcast(struct sp_lowering *lower, struct sp_piece *piece, const struct sp_piece *a,
                            const struct sp_piece *b);

/* What an operator computes in where ONNX, or the kernels of ONNX Runtime, have it for few types: elements of `dtype`
   survive the way there and back. `dtype` itself where nothing is to be done. */
enum sp_dtype sp_lower_carrier(const struct sp_lowering *lower, const char *op_type, enum sp_dtype dtype);

/* The type in which pieces are combined over devices; UNDEFINED where no type is exact. */
enum sp_dtype sp_lower_combined_in(const struct sp_lowering *lower, enum sp_combiner combiner, enum sp_dtype dtype);

/* ---- the view of a node as another operator (ops/lowering/like.c) ------------------------------------------------- */

struct sp_lower_view {
    struct sp_lowering *own; /* the node's own lowering */
    struct sp_like_view other;
};

/* Whether the other operator has axis 1 of this input, or of output 0, where the node has it last. */
bool sp_lower_is_input_last(const struct sp_lowering *lower, uint32_t input);
bool sp_lower_is_output_last(const struct sp_lowering *lower, uint32_t output);

/* A stored piece as the other operator sees it. It is written when it is read. */
struct sp_piece *sp_lower_show(struct sp_lowering *lower, struct sp_piece *stored);

/* The stored piece of one that has its axes in the other order, made where there is none. */
struct sp_piece *sp_lower_store(struct sp_lowering *lower, struct sp_piece *piece);

/* A piece is about to be read: one that sp_lower_show() gave is written, once. */
void sp_lower_write(struct sp_lowering *lower, struct sp_piece *piece);
