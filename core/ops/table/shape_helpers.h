#pragma once
/*
 * shape_helpers - what the `shapes` functions of the operator families share.
 *
 * All take the context of the node at work. Getters are safe for omitted inputs and unknown types; setters put types
 * and data on output values in the model's arena. Functions that return a pointer return NULL without memory or when
 * the thing asked for is not known; functions that can be wrong about the model return a status and record the error
 * with the node's label.
 */
#include "ops/table/op.h"

/* ---- inputs ---- */

bool sp_has_input(const struct sp_op_context *context, uint32_t input);
/* Element type of an input, UNDEFINED when unknown or omitted. */
enum sp_dtype sp_in_dtype(const struct sp_op_context *context, uint32_t input);
/* The shape of a tensor input when its rank is known, else NULL. */
const struct sp_shape *sp_in_shape(const struct sp_op_context *context, uint32_t input);
/* Known elements of an input, or NULL. Individual ints may still be symbolic or unknown. The elements of constant
   tensors are read from the file when they are first asked for. */
const struct sp_data *sp_in_data(const struct sp_op_context *context, uint32_t input);
/* As sp_in_data(), but only when every int is a known number (axes, steps). */
const struct sp_data *sp_in_known_ints(const struct sp_op_context *context, uint32_t input);

/* A list of integers that is an attribute in old operator versions and an input in newer ones (axes, pads, split). */
struct sp_list {
    bool is_given;   /* false: absent, or an omitted input */
    bool has_count;  /* `count` is known */
    uint32_t count;  /* with has_count */
    bool has_values; /* `values` are there: `count` of them, each known, symbolic or unknown */
    bool is_known;   /* every one of them is a number */
    const struct sp_dim *values;
};

/* Reads `attribute` (an INTS, or one INT) when the operator's version is below `input_since`, else input `input`. */
enum sp_status sp_get_list(struct sp_op_context *context, const char *attribute, int64_t input_since, uint32_t input,
                           struct sp_list *ret_list);

/* The axes of a list with is_known as a bit mask; SP_ERR_MODEL for an axis outside of [-rank, rank-1] or given twice.
   `rank` is at most SP_MAX_RANK. */
enum sp_status sp_get_axes(struct sp_op_context *context, const struct sp_list *list, uint32_t rank,
                           uint64_t *ret_mask);

/* The data type whose number an attribute holds; `otherwise` where it is absent or 0; SP_ERR_MODEL for a number that is
   no data type. */
enum sp_status sp_get_dtype(struct sp_op_context *context, const char *attribute, enum sp_dtype otherwise,
                            enum sp_dtype *ret_dtype);

/* ---- outputs ---- */

/* Sets a tensor type. Ignored for an omitted output. The dims are copied; one that is known and negative is
   SP_ERR_MODEL, a rank above SP_MAX_RANK SP_ERR_LIMIT. */
enum sp_status sp_set_output(struct sp_op_context *context, uint32_t output, enum sp_dtype dtype, uint32_t rank,
                             const struct sp_dim *dims);
enum sp_status sp_set_output_shape(struct sp_op_context *context, uint32_t output, enum sp_dtype dtype,
                                   const struct sp_shape *shape);
enum sp_status sp_set_output_unranked(struct sp_op_context *context, uint32_t output, enum sp_dtype dtype);
/* A sequence or optional of this element type (which is copied; kind NONE: not known). */
enum sp_status sp_set_output_sequence(struct sp_op_context *context, uint32_t output, const struct sp_type *elem);
enum sp_status sp_set_output_optional(struct sp_op_context *context, uint32_t output, const struct sp_type *elem);
/* Any type: what was inside a sequence or optional. Extents that are open get symbols: they are those of one tensor
   from here on. */
enum sp_status sp_set_output_element(struct sp_op_context *context, uint32_t output, const struct sp_type *type);
/* Known elements of an output. Kept only up to SP_MAX_DATA_ELEMENTS, copied, brought into the range of the output's
   element type (ops/table/known_values.h). Types must be set first. */
enum sp_status sp_set_data_ints(struct sp_op_context *context, uint32_t output, uint32_t count,
                                const struct sp_dim *ints);
enum sp_status sp_set_data_reals(struct sp_op_context *context, uint32_t output, uint32_t count, const double *reals);

/* The elements of any value as sp_in_data() gives them, and whether there are any without reading them. */
const struct sp_data *sp_value_elements(struct sp_model *model, struct sp_value *value);
bool sp_value_has_elements(const struct sp_value *value);

/* Scratch from the model's arena: `count` dims, all unknown; NULL without memory. */
struct sp_dim *sp_new_dims(struct sp_op_context *context, uint64_t count);

/* ---- common computations ---- */

/* SP_ERR_MODEL for an input that is there with another rank. */
enum sp_status sp_check_rank(struct sp_op_context *context, uint32_t input, uint32_t rank);

/* An axis in [-rank, rank-1] made non-negative; SP_ERR_MODEL otherwise, naming the node. */
enum sp_status sp_normalize_axis(struct sp_op_context *context, int64_t axis, uint32_t rank, uint32_t *ret_axis);

/* NumPy broadcasting of two shapes, symbol aware: equal symbols stay, 1 gives way, a number other than 1 wins over a
   symbol, of two expressions the one that is never the smaller wins, and where that cannot be proved the dim is
   unknown; two different numbers other than 1 are SP_ERR_MODEL. *ret_dims is new. */
enum sp_status sp_broadcast(struct sp_op_context *context, const struct sp_shape *a, const struct sp_shape *b,
                            struct sp_shape *ret_shape);

/* Joins two claims about the same extent: the known one, else the symbolic one; SP_ERR_MODEL for two different
   numbers. */
enum sp_status sp_join_dims(struct sp_op_context *context, struct sp_dim a, struct sp_dim b, struct sp_dim *ret_dim);

/* Product of dims[from..to). */
struct sp_dim sp_product(struct sp_op_context *context, const struct sp_dim *dims, uint32_t from, uint32_t to);

/* "Node 'name' (Conv)" or "Node 12 (Conv)": the subject of a sentence; written into `text`, which it returns. */
const char *sp_op_subject(const struct sp_node *node, char *text, size_t size);

/* SP_ERR_MODEL with the node's label in front: `return sp_op_fail(context, "CODE", "axis %d is ...", axis)`. */
__attribute__((format(printf, 3, 4))) enum sp_status sp_op_fail(struct sp_op_context *context, const char *code,
                                                                const char *format, ...);

/* Notes, in the same words, what the standard forbids and runtimes take as it is meant: the operator goes on. */
__attribute__((format(printf, 3, 4))) void sp_op_accept(struct sp_op_context *context, const char *code,
                                                        const char *format, ...);

/* ---- rules that many operators share ---- */

/* A new factor named `letter` and the axis' number, of the axis' extent and mapped to it; its index. */
uint8_t sp_rule_input_axis(struct sp_op_context *context, struct sp_rule *rule, char letter, uint32_t input,
                           uint32_t axis, enum sp_factor_kind kind);
uint8_t sp_rule_output_axis(struct sp_op_context *context, struct sp_rule *rule, char letter, uint32_t output,
                            uint32_t axis, enum sp_factor_kind kind);

/* Bytes of an operand, or 0 when not known; for rules that set their own traffic. */
double sp_input_bytes(const struct sp_op_context *context, uint32_t input);
double sp_output_bytes(const struct sp_op_context *context, uint32_t output);

/* For sp_op.axes: all axes of input 0 from the attribute `axis` on, which is -1 by default. */
enum sp_status sp_axes_from_axis(struct sp_op_context *context, uint32_t rank, struct sp_op_axes *ret_axes);
