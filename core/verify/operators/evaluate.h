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
#include "verify/combine.h"
#include "verify/index_sets.h"
#include "verify/rearrange.h"

struct sp_call {
    struct sp_arena *arena;
    struct sp_model *model;
    struct sp_node *node;
    int64_t version;            /* opset version in force */
    struct sp_index_sets *sets; /* of axes that no operand tells; NULL: these have all indices */
    uint32_t in_count, out_count;
    const struct sp_numbers **in; /* NULL: omitted */
    struct sp_numbers **out;      /* to be set; those of omitted outputs may stay NULL */
    struct sp_error *err;
    /* Told what a chain of simpler operators makes on the way, in `arena`; or NULL. */
    void (*tell_step)(void *listener, const struct sp_numbers *x);
    void *listener;
};

typedef enum sp_status (*sp_evaluator)(struct sp_call *call);

struct sp_evaluator_entry {
    const char *name;
    sp_evaluator evaluate;
};

/* The tables of the files in this folder, each ended by an entry without a name. */
extern const struct sp_evaluator_entry sp_evaluators_movement[], sp_evaluators_places[], sp_evaluators_elements[],
    sp_evaluators_products[], sp_evaluators_reductions[], sp_evaluators_windows[], sp_evaluators_constants[],
    sp_evaluators_recurrent[], sp_evaluators_norms[], sp_evaluators_attention[], sp_evaluators_losses[],
    sp_evaluators_quantised[], sp_evaluators_scattered[], sp_evaluators_resized[], sp_evaluators_selected[],
    sp_evaluators_linear_attention[], sp_evaluators_experts[], sp_evaluators_signal[];

/* Computes the outputs of a node out of its inputs. */
enum sp_status sp_evaluate_node(struct sp_call *call);

/* Whether the operator only moves numbers of its inputs to other places. */
bool sp_evaluate_is_movement(const struct sp_node *node);

/* ---- what the files share --------------------------------------------------------------------------------------- */

enum sp_status sp_evaluate_by_rule(struct sp_call *call);
/* The operator's name without what says that its channels are the last axis. */
const char *sp_evaluated_name(const struct sp_node *node);
/* Conv of the call's operands, of integers, too. */
enum sp_status sp_evaluate_conv(struct sp_call *call);
enum sp_status sp_evaluate_relu(struct sp_call *call);
struct sp_number sp_pool_root(struct sp_number sum, int64_t power);
/* a to the power b, of which nothing is known but b. */
struct sp_number sp_number_power(struct sp_number a, struct sp_number b);
/* The average of windows, or another pool: as the operator is named. */
enum sp_status sp_evaluate_pool(struct sp_call *call);

static inline const struct sp_numbers *sp_call_in(const struct sp_call *call, uint32_t i)
{
    return i < call->in_count ? call->in[i] : NULL;
}

/* Tells a tensor that is on the way to a result, or NULL where there was an error. */
static inline void sp_call_tell(const struct sp_call *call, const struct sp_numbers *x)
{
    if (call->tell_step != NULL && x != NULL)
        call->tell_step(call->listener, x);
}

/* SP_ERR_UNSUPPORTED with the clause `why`, said so that an analyser sees that it is no success. */
static inline enum sp_status sp_call_refuse(struct sp_call *call, const char *why)
{
    (void)sp_fail(call->err, SP_ERR_UNSUPPORTED, "NOT_EVALUATED", "%s", why);
    return SP_ERR_UNSUPPORTED;
}

/* The integers of an input that is there, in the arena; SP_ERR_UNSUPPORTED where they are not all known. */
enum sp_status sp_call_ints(struct sp_call *call, uint32_t i, uint32_t *ret_count, const int64_t **ret_ints);
/* Those of the attribute, or where the node has none of the input; *ret_ints NULL where neither is there. */
enum sp_status sp_call_attribute_or_ints(struct sp_call *call, const char *name, uint32_t i, uint32_t *ret_count,
                                         const int64_t **ret_ints);

/* An axis that may be counted from the back; SP_ERR_UNSUPPORTED where there is none. */
enum sp_status sp_call_axis(struct sp_call *call, int64_t axis, uint32_t rank, uint32_t *ret_axis);
