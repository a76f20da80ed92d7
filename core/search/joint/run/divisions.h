#pragma once
/*
 * divisions - in which shares a row of unequal devices may divide what is cut.
 *
 * Shares are near the devices' ratio of speed, in any number of blocks; each device has no more than fits its memory where
 * the row has some part of the model's weights. What of the model so many blocks do not divide each device does alone.
 */
#include "search/joint/candidate.h"

#define SP_SHARES_BLOCKS 64 /* as many as sp_strategy_divisors() tells */
#define SP_SHARES_COARSE 32 /* more are tried where they take less than SP_SHARES_GAIN of what these do at best */
#define SP_SHARES_GAIN   0.99
#define SP_SHARES_TRIED  6 /* numbers of blocks at once, */
#define SP_SHARES_FINER  2 /* and of more than SP_SHARES_COARSE */
#define SP_SHARES_ROUNDS 3 /* of them: what devices hold beside weights is known when plans were evaluated */

struct sp_shares {
    uint32_t blocks;
    uint32_t of[SP_STRATEGY_MEMBERS];
    double seconds;   /* about, without communication */
    uint32_t lacking; /* 1 + the device that had too little memory in a plan with them; 0: none */
};

/* A row of devices, and what all its divisions are made of. */
struct sp_device_row {
    const struct sp_joint *joint;
    const double *undivided; /* sp_undivided_find() */
    uint32_t first, size;
    double speeds[SP_STRATEGY_MEMBERS];
    double spare[SP_STRATEGY_MEMBERS]; /* least bytes that they held beside their shares of the weights; 0: unknown */
    bool is_known;                     /* some plan was evaluated */
    bool lacks;                        /* some plan had too little memory */
    uint32_t tried_count;
    struct sp_shares tried[SP_SHARES_ROUNDS * (SP_SHARES_TRIED + SP_SHARES_FINER)];
    double seconds; /* of the best division: about; then, with communication, of its strategies */
    uint32_t class_bit;
};

/* Models per second, without communication; 0 for a device that cannot run all of it. */
double sp_device_speed(const struct sp_joint *joint, uint32_t device);

/* What share of the model's seconds on device 0 is in operators that so many blocks do not divide, by their number. */
enum sp_status sp_undivided_find(const struct sp_joint *joint, double undivided[SP_SHARES_BLOCKS + 1],
                                 struct sp_error *err);

/* The divisions that take least where the row has `part` of the weights, ascending by that: up to `most` in a few blocks,
   and behind them those in more that gain something. *ret_best has room for SP_SHARES_FINER more. */
uint32_t sp_row_divisions(const struct sp_device_row *row, double part, uint32_t most, struct sp_shares *ret_best);
