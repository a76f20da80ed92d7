#pragma once
/*
 * evaluate - the operators of a graph, computed in the numbers of field.h.
 *
 * Operators fall into four kinds, and only the first three have code of their own:
 *
 *   movement     Reshape, Slice, Concat, Gather, ..: numbers change their places
 *   arithmetic   sums, products, quotients, and what is made of them: MatMul, Conv, means, norms, Softmax
 *   functions    of one element: a hash in the field, the function itself in the reals
 *   any other    by the factors of its rule (ops/table/op.h): along parallel factors each element is on its own; what
 *                it depends on is hashed as a whole. There is no real part then, and nothing is refuted behind it
 *
 * Errors: SP_ERR_UNSUPPORTED, which is no fault of the graph: it cannot be evaluated, and the message says why.
 */
#include "graph/model.h"
#include "verify/numbers.h"

struct sp_call {
    struct sp_arena *arena;
    struct sp_model *model;
    struct sp_node *node;
    int64_t version; /* opset version in force */
    uint32_t in_count, out_count;
    const struct sp_numbers **in; /* NULL: omitted */
    struct sp_numbers **out;      /* to be set; those of omitted outputs may stay NULL */
    struct sp_error *err;
};

typedef enum sp_status (*sp_evaluator)(struct sp_call *call);

struct sp_evaluator_entry {
    const char *name;
    sp_evaluator evaluate;
};

/* The tables of the files evaluate_*.c, each ended by an entry without a name. */
extern const struct sp_evaluator_entry sp_evaluators_movement[], sp_evaluators_places[], sp_evaluators_elements[],
    sp_evaluators_products[], sp_evaluators_reductions[], sp_evaluators_windows[], sp_evaluators_constants[],
    sp_evaluators_recurrent[];

/* Computes the outputs of a node out of its inputs. */
enum sp_status sp_evaluate_node(struct sp_call *call);

/* Whether the operator only moves numbers of its inputs to other places. */
bool sp_evaluate_is_movement(const struct sp_node *node);

/* ---- what the files share --------------------------------------------------------------------------------------- */

enum sp_status sp_evaluate_by_rule(struct sp_call *call);

static inline const struct sp_numbers *sp_call_in(const struct sp_call *call, uint32_t i)
{
    return i < call->in_count ? call->in[i] : NULL;
}

enum sp_status sp_call_refuse(struct sp_call *call, const char *why);

/* The integers of an input that is there, in the arena; SP_ERR_UNSUPPORTED where they are not all known. */
enum sp_status sp_call_ints(struct sp_call *call, uint32_t i, uint32_t *ret_count, const int64_t **ret_ints);
/* Those of the attribute, or where the node has none of the input; *ret_ints NULL where neither is there. */
enum sp_status sp_call_attribute_or_ints(struct sp_call *call, const char *name, uint32_t i, uint32_t *ret_count,
                                         const int64_t **ret_ints);

/* An axis that may be counted from the back; SP_ERR_UNSUPPORTED where there is none. */
enum sp_status sp_call_axis(struct sp_call *call, int64_t axis, uint32_t rank, uint32_t *ret_axis);

/* Two tensors by one function of two numbers, broadcast. */
typedef struct sp_number (*sp_number2)(struct sp_number a, struct sp_number b);
enum sp_status sp_numbers_binary(struct sp_arena *arena, const struct sp_numbers *a, const struct sp_numbers *b,
                                 enum sp_dtype dtype, sp_number2 function, struct sp_numbers **ret,
                                 struct sp_error *err);
enum sp_status sp_numbers_broadcast(struct sp_arena *arena, const struct sp_numbers *a, const struct sp_numbers *b,
                                    uint32_t *ret_rank, struct sp_index_axis *ret_axes, struct sp_error *err);
struct sp_number sp_number_add(struct sp_number a, struct sp_number b);
struct sp_number sp_number_subtract(struct sp_number a, struct sp_number b);
struct sp_number sp_number_multiply(struct sp_number a, struct sp_number b);
struct sp_number sp_number_divide(struct sp_number a, struct sp_number b);
struct sp_number sp_number_max(struct sp_number a, struct sp_number b);
struct sp_number sp_number_min(struct sp_number a, struct sp_number b);
struct sp_number sp_integer_add(struct sp_number a, struct sp_number b);
struct sp_number sp_integer_multiply(struct sp_number a, struct sp_number b);
struct sp_number sp_integer_max(struct sp_number a, struct sp_number b);
struct sp_number sp_integer_min(struct sp_number a, struct sp_number b);

/* A function of one number: `tag` is its name in the field; `real` may be NULL. */
struct sp_number sp_number_function(uint64_t tag, double (*real)(double), bool is_known, struct sp_number a);
uint64_t sp_tag(const char *name);
double sp_real_exp(double x);

/* Makes the parts of a known tensor agree again after a sum or product in the field. */
void sp_numbers_settle(struct sp_numbers *x);

/* Sums of products: each operand has a label for each axis (an operand's label of an axis of one element that is to be
   repeated has no index); labels that the result lacks are summed over. */
#define SP_LABELS 64
struct sp_labelled {
    const struct sp_numbers *x;
    uint8_t labels[SP_LABELS];
};
enum sp_status sp_numbers_contract(struct sp_arena *arena, uint32_t count, const struct sp_labelled *operands,
                                   uint32_t rank, const uint8_t *labels, struct sp_numbers **ret, struct sp_error *err);

/* Items of the tensor picked along one axis: `from` has an index into the axis' items for each index of the new axis. */
enum sp_status sp_numbers_take(struct sp_arena *arena, const struct sp_numbers *x, uint32_t axis,
                               const struct sp_index_axis *new_axis, const uint32_t *from, struct sp_numbers **ret,
                               struct sp_error *err);
/* The indices [start, limit) of an axis, in steps. */
enum sp_status sp_numbers_slice(struct sp_arena *arena, const struct sp_numbers *x, uint32_t axis, int64_t start,
                                int64_t step, int64_t count, struct sp_numbers **ret, struct sp_error *err);
enum sp_status sp_numbers_concat(struct sp_arena *arena, uint32_t count, const struct sp_numbers *const *parts,
                                 uint32_t axis, struct sp_numbers **ret, struct sp_error *err);
enum sp_status sp_numbers_reshape(struct sp_arena *arena, const struct sp_numbers *x, uint32_t rank,
                                  const int64_t *extents, struct sp_numbers **ret, struct sp_error *err);
enum sp_status sp_numbers_transpose(struct sp_arena *arena, const struct sp_numbers *x, const uint32_t *perm,
                                    struct sp_numbers **ret, struct sp_error *err);
/* The sum (or another fold) over the axes in the mask, which keep one element. */
enum sp_status sp_numbers_fold(struct sp_arena *arena, const struct sp_numbers *x, uint64_t mask, sp_number2 function,
                               struct sp_numbers **ret, struct sp_error *err);
