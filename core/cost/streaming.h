#pragma once
/*
 * streaming - weights that stay in the memory of a device's host and are copied to it for each request.
 *
 * A stage whose devices lack memory keeps weights in its host (cluster.h) where one is beside them, if that is enough.
 * What a node alone uses is streamed as a whole, or not at all; weights of several nodes, caches and activations stay
 * on the device. There the streamed ones have two buffers, each for the largest of them: one is read while the other
 * is filled.
 *
 *     memory of a device    resident weights + 2 * largest streamed + caches + activations + buffers of transfers
 *     memory of a host      what is streamed by all devices beside it
 *     time of a stage       max(compute, streamed / rate): copies are made ahead while other nodes run, as the
 *                           schedules of ZeRO-Inference and FlexGen do it. Collectives of devices without a link of
 *                           their own go over the host's, and no copy beside them
 *     rate                  of one device: its own link to the host, or its part of the host's where several of the
 *                           stage's devices copy at the same time
 *     interval              at least what the link of a host takes for the copies of all stages beside it, which it
 *                           makes for each request; so does the latency
 *
 * Which weights. Streaming a byte costs the same whichever weight it is of, so as few bytes as possible are streamed:
 * what lacks and the two buffers. Small weights need small buffers, hence the smallest bound on their size is taken
 * with which those within it suffice. Of equally large ones some are taken that stand at equal distances, so that
 * copies have the computing of others to hide behind.
 *
 * Not streamed: the weights of stages of unequal devices (members), of routes, and of devices that several stages share.
 * Members hold shards of one node in different sizes, and lack different amounts: a choice of nodes that is right for
 * one of them makes all others, which wait for it, copy as well. Their shares are chosen by memory instead. A device on
 * several routes would have to keep the same weights for all of them, each of which is evaluated as a plan of its own.
 *
 * A search for stages counts the same bytes while it puts nodes in and takes them out (stage_set.h, and the copies of
 * solvers/stages), so that stages are cut by what they compute and copy. It does not know what collectives leave of the
 * host's link, nor that stages share the link and the memory of one host: that is in the evaluation of its plans.
 *
 * Sources: Aminabadi et al., DeepSpeed-Inference, SC 2022 (ZeRO-Inference: prefetch into buffers on the device); Sheng
 * et al., FlexGen, ICML 2023 (weights split between memories by share, copies overlapped with computing).
 */
#include "cost/evaluate.h"

#define SP_STREAM_MORE 1 /* byte is freed more than what lacks, as sums are rounded */

/* The weights that a node alone uses, on one device. */
struct sp_streamable {
    uint32_t node;
    double bytes;
    bool is_streamed;
};

struct sp_streamed_weights {
    uint32_t count;
    double bytes, largest_bytes;
};

/* Weights that are equally large. */
struct sp_stream_size {
    double bytes;
    uint32_t count, taken; /* how many there are; how many of them are streamed */
};

/* How many of each size are streamed, these ascending, so that this frees `lacking` bytes beside their buffers. False
   where all of them do not. */
bool sp_stream_take(uint32_t count, struct sp_stream_size *sizes, double lacking,
                    struct sp_streamed_weights *ret_streamed);

/* Which of `items`, which are put in order. `sizes` has room for as many. */
bool sp_stream_choose(uint32_t count, struct sp_streamable *items, struct sp_stream_size *sizes, double lacking,
                      struct sp_streamed_weights *ret_streamed);

/* Bytes of the weights that a node of a stage of one device alone uses; `users` is sp_work_users(). */
double sp_stream_own_bytes(const struct sp_workload *workload, const uint32_t *users, uint32_t id);

/* Bytes that one of `size` neighbouring devices, all of which copy at the same time, copies per second; 0: some device
   has no host. `count` is scratch, of each host. */
double sp_stream_rate(const struct sp_cluster *cluster, uint32_t first, uint32_t size, uint32_t *count);

/* Seconds that each request waits for weights that no device has room for: a lower bound of the interval and of the
   latency of every plan. All devices together hold each weight at least once, and the rest passes the hosts' links. 0
   without hosts. */
double sp_stream_bound(const struct sp_workload *workload, const struct sp_cluster *cluster);

/* Bytes that no devices have room for, whatever is done: weights and caches, less the memory of all. */
double sp_stream_lacking_bytes(const struct sp_workload *workload, const struct sp_cluster *cluster);
