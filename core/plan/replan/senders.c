#include "plan/replan/senders.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS   512   /* messages that go to another sender, at most */
#define ROUNDING 1e-12 /* share by which sums may be off */

double sp_store_bandwidth(const struct sp_cluster *cluster, uint32_t seat)
{
    double bandwidth = sp_cluster_device(cluster, seat)->host_bandwidth;
    if (bandwidth > 0)
        return bandwidth;
    bandwidth = INFINITY;
    for (uint32_t l = 0; l < cluster->level_count; l++)
        bandwidth = fmin(bandwidth, cluster->levels[l].bandwidth);
    return bandwidth;
}

static bool may_send(const struct sp_senders *senders, const struct sp_message *message, uint32_t seat)
{
    const uint32_t holder = senders->holder_of[seat];
    return holder != SP_NO_HOLDER && sp_weight_atom_bit(senders->atoms->items[message->atom].has, holder);
}

static double seconds_from(const struct sp_senders *senders, const struct sp_message *message, uint32_t from)
{
    return from == SP_FROM_STORE ? message->bytes / sp_store_bandwidth(senders->cluster, message->to)
                                 : sp_cluster_transfer_seconds(senders->cluster, from, message->to, message->bytes);
}

static void load(struct sp_senders *senders, const struct sp_message *message, double sign)
{
    const double seconds = sign * seconds_from(senders, message, message->from);
    senders->in[message->to] += seconds;
    if (message->from != SP_FROM_STORE)
        senders->out[message->from] += seconds;
}

static int by_falling_bytes(const void *a, const void *b)
{
    const struct sp_message *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->atom != y->atom)
        return x->atom < y->atom ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

/* The largest sum, and whose it is. */
static double longest(const struct sp_senders *senders, uint32_t *ret_seat, bool *ret_is_out)
{
    double most = 0;
    for (uint32_t s = 0; s < senders->cluster->device_count; s++) {
        if (senders->in[s] > most || senders->out[s] > most) {
            *ret_is_out = senders->out[s] > senders->in[s];
            most = fmax(senders->in[s], senders->out[s]);
            *ret_seat = s;
        }
    }
    return most;
}

static double time_of(const struct sp_senders *senders)
{
    uint32_t seat;
    bool is_out;
    return longest(senders, &seat, &is_out);
}

/* What no choice is quicker than. */
static enum sp_status find_bound(struct sp_arena *scratch, struct sp_senders *senders, struct sp_error *err)
{
    const uint32_t seats = senders->cluster->device_count;
    double *in = SP_NEW_ARRAY(scratch, seats, double), *out = SP_NEW_ARRAY(scratch, seats, double);
    if (in == NULL || out == NULL)
        return sp_fail_memory(err);
    senders->seconds_bound = 0;
    for (uint32_t m = 0; m < senders->count; m++) {
        const struct sp_message *message = &senders->messages[m];
        double least = INFINITY;
        uint32_t ways = 0, only = SP_FROM_STORE;
        for (uint32_t s = 0; s < seats; s++) {
            if (!may_send(senders, message, s))
                continue;
            least = fmin(least, seconds_from(senders, message, s));
            only = s;
            ways++;
        }
        in[message->to] += ways > 0 ? least : seconds_from(senders, message, SP_FROM_STORE);
        if (ways == 1)
            out[only] += least;
    }
    for (uint32_t s = 0; s < seats; s++)
        senders->seconds_bound = fmax(senders->seconds_bound, fmax(in[s], out[s]));
    return SP_OK;
}

/* ---- choices ---------------------------------------------------------------------------------------------------- */

/* The largest messages first, each to the sender with whom the two concerned end first; of several the first one. */
static void choose_first(struct sp_senders *senders)
{
    for (uint32_t m = 0; m < senders->count; m++) {
        struct sp_message *message = &senders->messages[m];
        double best_end = INFINITY, best_seconds = INFINITY;
        message->from = SP_FROM_STORE;
        for (uint32_t s = 0; s < senders->cluster->device_count; s++) {
            if (!may_send(senders, message, s))
                continue;
            const double seconds = seconds_from(senders, message, s);
            const double end = fmax(senders->in[message->to], senders->out[s]) + seconds;
            if (end < best_end || (end == best_end && seconds < best_seconds)) {
                best_end = end;
                best_seconds = seconds;
                message->from = s;
            }
        }
        load(senders, message, 1);
    }
}

/* Gives a message to another sender where both devices then end before `most`. */
static bool hand_over(struct sp_senders *senders, struct sp_message *message, double most)
{
    const uint32_t from = message->from;
    for (uint32_t s = 0; from != SP_FROM_STORE && s < senders->cluster->device_count; s++) {
        if (s == from || !may_send(senders, message, s))
            continue;
        load(senders, message, -1);
        message->from = s;
        load(senders, message, 1);
        if (fmax(senders->in[message->to], senders->out[s]) < most * (1 - ROUNDING))
            return true;
        load(senders, message, -1);
        message->from = from;
        load(senders, message, 1);
    }
    return false;
}

static void improve(struct sp_senders *senders)
{
    bool helps = true;
    for (uint32_t round = 0; helps && round < ROUNDS; round++) {
        uint32_t seat = 0;
        bool is_out = false;
        const double most = longest(senders, &seat, &is_out);
        helps = false;
        if (most <= senders->seconds_bound * (1 + ROUNDING))
            return;
        for (uint32_t m = 0; m < senders->count && !helps; m++) {
            struct sp_message *message = &senders->messages[m];
            if ((is_out ? message->from : message->to) == seat)
                helps = hand_over(senders, message, most);
        }
    }
}

static void set_sender(struct sp_senders *senders, struct sp_message *message, uint32_t from)
{
    load(senders, message, -1);
    message->from = from;
    load(senders, message, 1);
}

/* Counts the senders of all messages up by one; false after the last choice, which is the first one again. */
static bool next_choice(struct sp_senders *senders)
{
    const uint32_t seats = senders->cluster->device_count;
    for (uint32_t m = 0; m < senders->count; m++) {
        struct sp_message *message = &senders->messages[m];
        if (message->from == SP_FROM_STORE)
            continue;
        for (uint32_t s = message->from + 1; s < seats; s++) {
            if (may_send(senders, message, s)) {
                set_sender(senders, message, s);
                return true;
            }
        }
        uint32_t first = 0;
        while (!may_send(senders, message, first))
            first++;
        set_sender(senders, message, first);
    }
    return false;
}

/* Whether all choices together are few. */
static bool are_few(const struct sp_senders *senders)
{
    double ways = 1;
    for (uint32_t m = 0; m < senders->count && ways <= SP_MOVES_EXACT; m++) {
        uint32_t own = 0;
        for (uint32_t s = 0; s < senders->cluster->device_count; s++)
            own += may_send(senders, &senders->messages[m], s);
        ways *= own > 1 ? own : 1;
    }
    return ways <= SP_MOVES_EXACT;
}

static enum sp_status try_all(struct sp_arena *scratch, struct sp_senders *senders, struct sp_error *err)
{
    uint32_t *best = SP_NEW_ARRAY(scratch, senders->count, uint32_t);
    double least = time_of(senders);
    bool goes_on = true;
    if (best == NULL)
        return sp_fail_memory(err);
    for (uint32_t m = 0; m < senders->count; m++)
        best[m] = senders->messages[m].from;
    while (next_choice(senders))
        ; /* on to the first choice */
    while (goes_on && least > senders->seconds_bound * (1 + ROUNDING)) {
        const double seconds = time_of(senders);
        if (seconds < least * (1 - ROUNDING)) {
            least = seconds;
            for (uint32_t m = 0; m < senders->count; m++)
                best[m] = senders->messages[m].from;
        }
        goes_on = next_choice(senders);
    }
    for (uint32_t m = 0; m < senders->count; m++)
        senders->messages[m].from = best[m];
    return SP_OK;
}

/* Sums that were added to and taken from anew, so that they do not depend on the way here. */
static void reload(struct sp_senders *senders)
{
    memset(senders->in, 0, senders->cluster->device_count * sizeof *senders->in);
    memset(senders->out, 0, senders->cluster->device_count * sizeof *senders->out);
    for (uint32_t m = 0; m < senders->count; m++)
        load(senders, &senders->messages[m], 1);
    senders->seconds = time_of(senders);
}

enum sp_status sp_senders_choose(struct sp_arena *scratch, struct sp_senders *senders, struct sp_error *err)
{
    senders->in = SP_NEW_ARRAY(scratch, senders->cluster->device_count, double);
    senders->out = SP_NEW_ARRAY(scratch, senders->cluster->device_count, double);
    if (senders->in == NULL || senders->out == NULL)
        return sp_fail_memory(err);
    enum sp_status status = find_bound(scratch, senders, err);
    if (status != SP_OK)
        return status;
    if (senders->count > 1)
        qsort(senders->messages, senders->count, sizeof *senders->messages, by_falling_bytes);
    choose_first(senders);
    improve(senders);
    if (time_of(senders) > senders->seconds_bound * (1 + ROUNDING) && are_few(senders))
        status = try_all(scratch, senders, err);
    if (status == SP_OK)
        reload(senders);
    return status;
}
