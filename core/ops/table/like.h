#pragma once
/*
 * like - operators that are another one on operands that lie elsewhere.
 *
 * ONNX Runtime's quantised operators take scales and zero points between the operands of the operator that they
 * quantise, its layout variants have their channels last, and both may round or apply an activation to what the other
 * operator gives. Such an entry names the other operator, and has sp_shapes_like(), sp_rule_like() and, where the other
 * one is lowered by a function, sp_lower_like():
 *
 *     QLinearAdd        Add on inputs 0 and 3
 *     NhwcMaxPool       MaxPool on an input and an output whose axis 1 is last
 *     QLinearConv       (com.microsoft) QLinearConv, with its channels last where the attribute channels_last says so
 *     FusedConv         Conv on inputs 0 to 2, then input 3 is added and an activation applied
 *
 * The other operator's functions work on a *view* of the node: its inputs, with the axes that they expect. What comes
 * out is carried back to the node's own operands. Inputs of the node that the other operator does not have are whole,
 * or broadcast to output 0.
 */
#include "ops/table/op.h"

#define SP_LIKE_MAX_INPUTS 8

enum sp_like_layout {
    SP_LIKE_AS_IS = 0,
    SP_LIKE_CHANNELS_LAST, /* input 0 and output 0 of the other operator have their axis 1 last */
    SP_LIKE_BY_ATTRIBUTE   /* the same where the attribute channels_last is not 0 */
};

struct sp_op_like {
    const char *domain, *name;          /* of the other operator; no domain: ai.onnx */
    int64_t version;                    /* of its domain; 0: the node's own (its domain counts as the other one does) */
    const char *version_attribute;      /* names an attribute that holds the version, or NULL */
    uint8_t input_count;                /* 0: all inputs of the node in their order */
    uint8_t inputs[SP_LIKE_MAX_INPUTS]; /* where input i of the other operator is in the node */
    uint8_t step;                       /* not 0: the inputs are inputs[0], inputs[0] + step, and so on */
    enum sp_like_layout layout;
    bool has_weights_last; /* with channels last: so has input 1, unless its axis 1 is the one that fits input 0 */
    uint32_t lists;      /* with channels last: a bit for each input whose elements are one for each axis of input 0 */
    bool is_rounded;     /* partial results cannot be combined: reductions are whole */
    uint8_t typed_by;    /* the element type of output 0 is that of this input; 0: as the other operator has it */
    enum sp_dtype dtype; /* or this one, where it is not UNDEFINED */
    uint32_t broadcast;  /* a bit for each input of the node that broadcasts to output 0 */
    bool keeps_values;   /* elements that the other operator computes are those of this one */
};

/* A node as the other operator sees it. */
struct sp_like_view {
    struct sp_node node;  /* `op` and `version` are the other operator's */
    uint32_t *inputs;     /* where its inputs are in the node */
    bool is_last;         /* the layout is CHANNELS_LAST */
    uint32_t last_inputs; /* with is_last: a bit for each of its inputs that has axis 1 last */
};

/* The view of a node whose entry has `like`; in the context's arena. */
enum sp_status sp_like_view_of(struct sp_op_context *context, struct sp_like_view *ret_view);

/* Where an axis of the other operator's operand is in one of `rank` axes that has axis 1 last. */
uint32_t sp_like_axis(uint32_t rank, uint32_t axis);

/* For the entries: struct sp_op, `shapes` and `rule`. */
enum sp_status sp_shapes_like(struct sp_op_context *context);
enum sp_status sp_rule_like(struct sp_op_context *context, struct sp_rule *rule);

/* The text of a node that is another form than the other operator has: an entry with sp_rule_like() and `form` gives it,
   with `work`; NULL for a node that is as the other operator. Such a node runs as it is on its pieces. */
const char *sp_like_form(struct sp_op_context *context);

/* Every factor is whole. */
void sp_rule_make_whole(struct sp_rule *rule);
