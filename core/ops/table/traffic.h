#pragma once
/*
 * traffic - what a kernel moves of its operands, and which attention it computes: parts of a rule.
 *
 * A kernel reads every input and writes every output once, but for operands with a `sp_operand_use`:
 *
 *   use                               share of what a device has of the operand
 *   chance, no draws                  chance; it may be above 1 (updates that are read, and read and written again)
 *   chance, draws                     min(1, chance * draws): rows of a table that are all different, as positions are
 *   chance, draws, is_random          1 - (1 - chance)^draws: the distinct ones of rows that are drawn at random
 *
 * `draws` are factors: there are as many draws as points of what a device has of them. A token that goes to k of E
 * experts draws each with a chance of k/E, so T tokens need E(1 - (1-k/E)^T) different experts, spread evenly over
 * devices that have a part of them each.
 *
 * A cache. Output o with past_of = i + 1 is input i with more written into it, or behind it. Where both are one buffer,
 * their uses hold; where they are not, the whole of both is moved: the old one is copied. Whether they are is no
 * property of the operator (cost/kernel_work.h).
 *
 * Attention. With q queries, of which the first stands at position `first` among t keys, query i sees the keys from
 * first + i - left to first + i + right, of those there are; a bound that is not there does not bind. Causal attention
 * has right = 0: q (first + q/2) of the q t pairs, or half the square without a past. `kept` of these pairs are
 * computed, in sparse attention. The terms of scores and values count the pairs that are seen, keys and values the
 * positions that any query sees.
 *
 * Experts that are not drawn alike. Where a rule says of which factor each point of the others draws a few, and the node has
 * a load (ops/table/load.h), terms that run over that factor, and inputs that are drawn at random, are those of the shard
 * with most.
 *
 * Kernels. An operator that every runtime computes as several kernels, one behind the other, pays a start for each, and
 * what these hand to each other is written and read besides the operands.
 */
#include "ops/table/factors.h"

struct sp_operand_use {
    double chance;
    bool is_random;
    uint8_t draw_count;
    uint8_t *draws;
};

/* `times` the product of the extents of the factors. */
struct sp_amount {
    double times;
    uint8_t count;
    uint8_t factors[4];
};

#define SP_UNBOUND (-1) /* of left, right */

struct sp_rule_attention {
    struct sp_amount batch, heads, kv_heads, queries, keys, size; /* heads of queries, kv_heads of keys and values */
    double left, right, kept;
    bool is_first; /* the first query is at position 0; else the last one is at the last key */
};

struct sp_rule_kernels {
    double count;
    double passed[2]; /* elements of output 0's type that are written or read, at each point of such factors */
    struct sp_factor_list factors[2];
};

/* Each token draws `each` different ones of the points of a factor. */
struct sp_rule_drawn {
    uint8_t factor;
    double each;
    const struct sp_load *load; /* of the node; NULL: all are drawn alike */
};

/* What of an attention a device computes. */
struct sp_attention_part {
    double batch, heads, kv_heads, queries, keys, size;
    double pairs; /* share of queries * keys that is computed */
    double seen;  /* share of the keys that any query sees */
};

/* Sets how much of an operand is moved; nothing for operands that a node does not have. `draws` may be NULL. */
void sp_rule_use_input(struct sp_rule *rule, uint32_t input, double chance, const struct sp_factor_list *draws);
void sp_rule_use_output(struct sp_rule *rule, uint32_t output, double chance, const struct sp_factor_list *draws);

/* The same of rows that are drawn at random. */
void sp_rule_draw_input(struct sp_rule *rule, uint32_t input, double chance, const struct sp_factor_list *draws);

/* Marks an output that continues an input; nothing where the node lacks one of both. */
void sp_rule_past(const struct sp_op_context *context, struct sp_rule *rule, uint32_t input, uint32_t output);

/* The elements of one axis, or of a whole operand, as a share of another's; 1 where that is not known. */
double sp_dim_share(struct sp_dim part, struct sp_dim whole);

/* An amount of one, two or more factors; those that are SP_RULE_NO_FACTOR count as 1. */
struct sp_amount sp_amount_of(uint32_t count, const uint8_t *factors);

/* Gives the rule its attention, and marks the terms that count its pairs: those over queries and keys. */
void sp_rule_attend(struct sp_rule *rule, const struct sp_rule_attention *attention);

/* Makes several kernels of the rule. */
void sp_rule_run_as(struct sp_rule *rule, const struct sp_rule_kernels *kernels);

/* Says of which factor a few points are drawn, with the load of the context's node. */
void sp_rule_draw_each(const struct sp_op_context *context, struct sp_rule *rule, uint8_t factor, double each);

/* Elements that the kernels of a device hand to each other; 0: it is one kernel. */
double sp_rule_passed(const struct sp_rule *rule, const int64_t *shards);

/* What is computed where factor f is cut in shards[f] parts (NULL: in none), by the device that has the most to do: of
   the last queries of a causal attention. */
struct sp_attention_part sp_attention_part(const struct sp_rule *rule, const int64_t *shards);

/* The share of an operand that is moved, of what a device has of it. */
double sp_operand_share(const struct sp_rule *rule, const struct sp_operand_rule *operand, const int64_t *shards);

/* Whether a term runs over an axis that two inputs have and output 0 lacks: a matrix product, a convolution. */
bool sp_rule_is_product(const struct sp_rule *rule);

/* Whether a product is a convolution with windows of several elements, and, where both operands and the result have a
   factor in common, in groups of channels that each add up their own. */
enum sp_rule_windows { SP_RULE_NO_WINDOWS, SP_RULE_DENSE_WINDOWS, SP_RULE_GROUPED_WINDOWS };
enum sp_rule_windows sp_rule_windows(const struct sp_rule *rule);
