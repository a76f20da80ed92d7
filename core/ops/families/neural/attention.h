#pragma once
/*
 * attention - what the attention operators have in common: the extents of one attention and its factors.
 *
 *     Y[b, kv*g, q, e] = softmax(Q[b, kv*g, q, d] . K[b, kv, t, d]) . V[b, kv, t, e]
 *
 *     b       batch, parallel
 *     kv      heads of K and V, parallel
 *     g       query heads that share one of them, parallel: query head h uses head h / g, so kv is the major part. A
 *             split of the query heads is one of the K and V heads too as long as it divides them; a finer one splits g
 *             and leaves K and V as they are.
 *     q       queries, parallel; where the place of a query decides what it sees (causal, windows), a device masks by
 *             the places of its own; whole where kernels count them from 0 and take no mask
 *     t       keys and values, a softmax reduction: shards keep running maxima and sums, and are rescaled and added.
 *             With a past t is what two operands are joined to, and neither's shards line up with it: whole.
 *     d       size of a head of Q and K. It is summed over before the softmax: a split of it would leave sums that have
 *             to be joined inside of the operator, not behind it, so it is whole.
 *     e       size of a head of V, parallel
 *
 * FLOPs: 2 b kv g q t d for the scores, 2 b kv g q t e for the values, 5 b kv g q t for the softmax (the convention of
 * Softmax), of the pairs of a query and a key that causal attention and windows leave (ops/table/traffic.h): kernels
 * skip what no query of a tile sees. What a mask leaves out counts, as only its elements say what that is.
 *
 * Traffic: of keys and values the positions that any query sees; of a past these, and of what goes out again what is
 * new, where both are one buffer.
 */
#include "ops/families/neural/heads.h"
#include "ops/table/traffic.h"

struct sp_attention {
    struct sp_dim batch, kv_heads, q_heads, queries, keys, past, total, size, value_size;
    bool has_past;
    bool is_placed;        /* the queries are counted from 0: they are whole */
    bool has_whole_heads;  /* an operand holds the heads in a way that no split of it follows: they are whole */
    bool has_whole_values; /* the same of the size of a head of V */
    bool has_whole_keys;   /* the same of the keys, past or not */
    bool has_whole_batch;  /* the same of the batch */
    int64_t before, after; /* 1 + the keys before, and behind, its own that a query sees; 0: all */
    bool is_first;         /* the first query is at position 0, whatever the keys; else the last one at the last key */
};

/* Where an attention has keys and values. UINT32_MAX: it has none such. */
struct sp_attention_operands {
    uint32_t key, value, past_key, past_value, present_key, present_value;
    struct sp_dim cache_in, cache_out; /* positions that past and present have room for */
    bool shares_buffer;                /* the model says that both are one buffer */
};

struct sp_attention_factors {
    uint8_t b, kv, g, q, d, e;
    uint8_t keys, past, total; /* the same factor three times without a past */
    struct sp_chain q_heads, kv_heads;
};

/* Checks that the extents fit together; total = past + keys. */
enum sp_status sp_attention_check(struct sp_op_context *context, struct sp_attention *attention);

/* Makes the factors and the terms. e is d where `ties_sizes`. */
void sp_attention_factors(struct sp_op_context *context, struct sp_rule *rule, const struct sp_attention *attention,
                          bool ties_sizes, struct sp_attention_factors *ret_factors);

/* What the attention moves of its keys and values; behind sp_attention_factors(). */
void sp_attention_traffic(const struct sp_op_context *context, struct sp_rule *rule,
                          const struct sp_attention *attention, const struct sp_attention_operands *operands);

/* Rows of the tables of sines and cosines that the attention turns queries and keys by; none without `is_turned`. */
void sp_attention_rotary(struct sp_rule *rule, uint32_t first_table, struct sp_dim rows, bool is_turned, uint32_t count,
                         const uint8_t *positions);

/* How operands are mapped with these factors. */
struct sp_head_axes sp_attention_queries(const struct sp_attention_factors *f);                /* Q */
struct sp_head_axes sp_attention_result(const struct sp_attention_factors *f);                 /* Y */
struct sp_head_axes sp_attention_keys(const struct sp_attention_factors *f, uint8_t length);   /* K and its caches */
struct sp_head_axes sp_attention_values(const struct sp_attention_factors *f, uint8_t length); /* V and its caches */
struct sp_score_axes sp_attention_scores(const struct sp_attention *attention, const struct sp_attention_factors *f);
