#pragma once
/*
 * rule_text - rules read from their text, "[b.., m, k] [b.., k, n] -> [b.., m, n]; k sum".
 *
 * An operand is a list of axes in brackets. Inputs stand before the arrow, outputs behind it; the last one also stands
 * for all that follow it. An axis is
 *
 *   k       one factor
 *   b..     a group: any number of axes, each one a factor; an operand has at most one
 *   g*c     several factors, the first one major
 *   _ 1     no factor, and as many elements as the number says; `_..` and `1..` are any number of such axes
 *
 * Operands that are no tensors are words, "sequence -> []". Clauses behind a semicolon give factors a kind, "c, kh..
 * sum": sum, max, min, product, softmax, moments or select (reductions), whole, moves or sequential; "all whole" names
 * every factor. A clause that does not begin with a factor is a remark for people.
 *
 * Operands align at the right, as in NumPy. An input axis of size 1 under a longer factor is broadcast and has no
 * factor. An operand with fewer axes than its text has lacks factors at its left: parallel ones first, so that a vector
 * in place of a matrix [k, n] is [k]. Where every input lacks a factor, so do the outputs.
 *
 * Names. The factors of a group are numbered, b0, b1; those of h.. and kh.. are called as windows call them (d, h, w).
 * A factor of i.., j.., d.. or e.., or an axis j, is d and the number of its axis.
 *
 * Axes that attributes name. Where the entry has a function `axes` (struct sp_op), j.. are those axes of input 0,
 * wherever they are, and i.. the others. An output of the rank of input 0 keeps all of them, or with 1.. only i..; one
 * of fewer axes has i.. alone.
 */
#include "ops/table/op.h"

#define SP_TEXT_MAX_OPERANDS 18
#define SP_TEXT_MAX_AXES     6
#define SP_TEXT_MAX_FACTORS  16
#define SP_TEXT_MAX_PRODUCT  3
#define SP_TEXT_MAX_SIZES    8
#define SP_TEXT_MAX_DEPTH    16 /* of an expression: operators and values that wait */

struct sp_text_axis {
    bool is_group;
    uint8_t count; /* 0: an axis, or a group of them, without a factor */
    uint8_t factors[SP_TEXT_MAX_PRODUCT];
    bool is_open;   /* `_`: nothing is said of its extent */
    int32_t extent; /* the number; 0 where there is none */
};

struct sp_text_operand {
    uint8_t count;
    struct sp_text_axis axes[SP_TEXT_MAX_AXES];
};

struct sp_text_factor {
    char name[SP_FACTOR_NAME_SIZE];
    bool is_group;
    enum sp_factor_kind kind;
    enum sp_combiner combiner;
};

/* "n = expression": what a product of factors is. The expression ends with its clause; it is in the text that was read,
   which must stay. */
struct sp_text_equation {
    uint8_t count;
    uint8_t factors[SP_TEXT_MAX_PRODUCT];
    const char *expression;
    uint8_t attribute_length; /* of its name, where the expression is an attribute alone; 0 */
};

/* A text that was read. One lies beside each entry; table.c fills those of entries without a function. */
struct sp_rule_text {
    bool is_read;
    uint8_t input_count, output_count, factor_count, equation_count;
    struct sp_text_equation equations[SP_TEXT_MAX_SIZES];
    struct sp_text_operand inputs[SP_TEXT_MAX_OPERANDS], outputs[SP_TEXT_MAX_OPERANDS];
    struct sp_text_factor factors[SP_TEXT_MAX_FACTORS];
};

/* False for what is not in the notation. */
bool sp_rule_text_parse(const char *text, struct sp_rule_text *ret_text);

/* As sp_rule_text_parse(), for texts of users: words between operands and remarks are not in the notation, and
   *ret_at is the place of what is wrong. */
bool sp_rule_text_parse_strict(const char *text, struct sp_rule_text *ret_text, const char **ret_at);

/*
 * For sp_op.shapes: the types of the outputs as the entry's text and `types` (struct sp_op) give them. An output axis
 * has the product of its factors' extents, which inputs and equations tell; `_` is a new symbol, named after the
 * operator. An output with a group that an input of unknown rank has is of unknown rank. SP_ERR_MODEL for inputs with
 * more axes than their text, and for axes of one factor that differ.
 */
enum sp_status sp_shapes_from_text(struct sp_op_context *context);

/* The same by another text than the entry's. */
enum sp_status sp_shapes_by_text(struct sp_op_context *context, const char *text);

/* A factor's extent that no axis tells, or that an attribute does. */
struct sp_text_size {
    const char *name;
    struct sp_dim extent; /* unknown: as the operands have it */
};

/* Fills a rule from a text that a `rule` function chose. The factors of `sizes` come first, in this order; all others
   in the order in which the outputs, then the inputs, have them. SP_ERR_INTERNAL for a text that cannot be read. */
enum sp_status sp_rule_from_text(struct sp_op_context *context, struct sp_rule *rule, const char *text, uint32_t count,
                                 const struct sp_text_size *sizes);

/* The text of a node's rule: that of its form, read into *room, or of its entry; NULL for what cannot be read. */
const struct sp_rule_text *sp_rule_text_of(struct sp_op_context *context, const struct sp_op *op,
                                           struct sp_rule_text *room);

/* A text for sp_op.form, in the context's arena; NULL without memory. */
__attribute__((format(printf, 2, 3))) const char *sp_form_text(struct sp_op_context *context, const char *format, ...);

/* Fills a rule from an entry's text alone, without a term. */
enum sp_status sp_rule_from_entry(struct sp_op_context *context, struct sp_rule *rule, const struct sp_op *op);

/* The rule of an entry: that of its function, or of its text with the term of its `flops`. */
enum sp_status sp_op_fill_rule(struct sp_op_context *context, struct sp_rule *rule, const struct sp_op *op);

/* Adds a term over all factors of the rule. */
void sp_rule_term_all(struct sp_rule *rule, double coefficient);

/* Adds a term over the factors of these names, "t b d h"; those that the rule does not have count nothing. */
void sp_rule_term_named(struct sp_rule *rule, double coefficient, const char *names);

/* Adds the terms of sp_op.work. */
void sp_rule_terms_of(struct sp_rule *rule, const char *work);

/* False for what is no sp_op.work. */
bool sp_work_is_valid(const char *work);

/* The index of the factor of this name, or SP_RULE_NO_FACTOR. */
uint8_t sp_rule_named(const struct sp_rule *rule, const char *name);
