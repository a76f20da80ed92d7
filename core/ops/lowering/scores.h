#pragma once
/*
 * scores - attention whose keys are split, written out in plain operators.
 *
 *     s = scale Q K^T, capped, with what is added and masked      [b, heads, q, keys here]
 *     m = max over all keys of s          all-reduce
 *     w = exp(s - m) / (sum of exp(s - m) over all keys)          all-reduce
 *     y = w V                              a summand: what is left is its sum over the shards of the keys
 *
 * Several query heads may share one head of keys and values; those of one such group are neighbours.
 */
#include "ops/lowering/heads.h"

struct sp_lower_scores {
    uint8_t keys;               /* the split factor */
    struct sp_piece *q, *k, *v; /* [b, q_heads, q, size], [b, kv_heads, keys, size], [b, kv_heads, keys, value_size] */
    int64_t q_heads, kv_heads, size, value_size; /* here, all known */
    enum sp_dtype dtype, value_dtype;            /* of q and k; of v and the result */
    double scale, softcap;                       /* 0: not capped */
    struct sp_piece *added;                      /* to the scores, broadcast; NULL: nothing */
    struct sp_piece *masked;                     /* bool, broadcast: scores that do not count; NULL: all do */
    enum sp_dtype precision;                     /* of the softmax; UNDEFINED: float for types of 16 bits, else dtype */
    /* Results. `products`, `capped` and `biased` are the scores as they become, `weights` after the softmax; all
       [b, q_heads, q, keys]. y is [b, q_heads, q, value_size], to be summed over the keys' factor. */
    struct sp_piece *products, *capped, *biased, *weights, *y;
};

void sp_lower_attend(struct sp_lowering *lower, struct sp_lower_scores *scores);

/* The lowest finite number of a type. */
double sp_lower_lowest(enum sp_dtype dtype);

/* bool [queries, keys]: the keys that a query may not look at, which are behind its place + `after` or in front of its
   place - `before` (negative: no bound). Keys and queries are the factors' indices; a query stands `offset` keys behind
   its index. NULL where there is no bound. */
struct sp_lower_window {
    uint8_t keys, queries;
    int64_t offset, before, after;
};
struct sp_piece *sp_lower_out_of_window(struct sp_lowering *lower, const struct sp_lower_window *window);

/* Either of two masks; NULL masks nothing. */
struct sp_piece *sp_lower_either(struct sp_lowering *lower, struct sp_piece *a, struct sp_piece *b);
