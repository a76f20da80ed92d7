#pragma once
/*
 * senders - who sends each message of a set of moves (moves.h): the choice, the time that it takes, and a bound on the
 * time of every choice.
 */
#include "plan/replan/moves.h"

struct sp_message {
    uint32_t atom, from, to; /* seats; from: or SP_FROM_STORE */
    double bytes;
};

struct sp_senders {
    const struct sp_cluster *cluster;
    const struct sp_weight_atoms *atoms;
    const uint32_t *holder_of; /* per seat */
    uint32_t count;
    struct sp_message *messages;
    double *in, *out; /* per seat: seconds; set by the choice */
    double seconds, seconds_bound;
};

/* Bytes per second from the store to a seat. */
double sp_store_bandwidth(const struct sp_cluster *cluster, uint32_t seat);

/* Fills in who sends, and what follows; `messages` are put in another order. SP_ERR_MEMORY. */
enum sp_status sp_senders_choose(struct sp_arena *scratch, struct sp_senders *senders, struct sp_error *err);
