#pragma once
/*
 * load - how often each expert of a layer is chosen, and which experts lie together.
 *
 * A router sends each token to k different ones of E experts. What a caller knows of them are shares s_e of all that is
 * routed; the chance that a token is sent to expert e follows:
 *
 *     p_e = k s_e, and at most 1: a token takes an expert once. What is above 1 is dealt to the others in proportion to
 *     their shares (to all of them alike where these have none). The p_e sum up to k.
 *
 * A device with the experts G has, of T tokens,
 *
 *     T sum_G p_e                    of the T k that are routed
 *     sum_G 1 - (1 - p_e)^T          different experts whose weights are read
 *
 * on average. Both are exact where tokens choose independently of each other, however the k choices of one token depend
 * on each other: means add up, and what an expert sees of a token is whether it is one of the k. That is why it is
 * (1 - p_e)^T, of draws without replacement, and not (1 - s_e)^(T k), which counts a token several times for an expert and
 * finds fewer of them. With equal chances both are the formulas of ops/table/traffic.h.
 *
 * A step ends with the device that has most to do. A kernel takes the longer of computing and of moving, so the largest
 * of each over the devices is the largest of both (rows and weights are moved by one kernel: of these the sum of the
 * largest is an upper bound). It is the largest mean, as with equal chances; the mean of the largest is above it where
 * tokens are few.
 *
 * Shards are blocks of ceil(E / shards) experts, in the model's own order, or in an order that balances what they are
 * sent: the largest chance first, each to the shard with room that has least, then swaps of two experts that lower
 * the largest sum (Graham 1969, LPT, with as many experts for each as the blocks have).
 */
#include "base/arena.h"

/* Experts by shard: those of shard g are order[g * block] and the next ones, ascending. */
struct sp_load_order {
    uint32_t shards;
    const uint32_t *order;
};

struct sp_load {
    uint32_t count; /* experts */
    double each;    /* k */
    const double *chances;
    uint32_t order_count; /* 0: shards are blocks in the model's order */
    const struct sp_load_order *orders;
};

/* The chances of `count` experts from their shares (none negative, some positive, of any sum). 0 < each <= count. */
void sp_load_chances(uint32_t count, const double *shares, double each, double *ret_chances);

/* The order that balances so many shards; the model's own where that is as good. False without memory. */
bool sp_load_balance(struct sp_arena *arena, uint32_t count, const double *chances, uint32_t shards,
                     uint32_t *ret_order);

/* What the shard with most is sent, over what it would be with equal chances. `order` NULL: the model's. */
double sp_load_most_in(const struct sp_load *load, uint32_t shards, const uint32_t *order);

/* The same in the order that the load has for so many shards. */
double sp_load_most(const struct sp_load *load, uint32_t shards);

/* The share of a shard's weights that `tokens` tokens read, of the shard where that is most. */
double sp_load_read(const struct sp_load *load, uint32_t shards, double tokens);
