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
 * Stages of unequal devices (members) and devices that several stages share stream nothing.
 *
 * Sources: Aminabadi et al., DeepSpeed-Inference, SC 2022 (ZeRO-Inference: prefetch into buffers on the device); Sheng
 * et al., FlexGen, ICML 2023 (weights split between memories by share, copies overlapped with computing).
 */
#include "cost/evaluate.h"

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

/* Chooses among `items`, which are put in order, so that streaming them frees `lacking` bytes beside their buffers.
   False where all of them do not. */
bool sp_stream_choose(uint32_t count, struct sp_streamable *items, double lacking,
                      struct sp_streamed_weights *ret_streamed);

/* Seconds that each request waits for weights that no device has room for: a lower bound of the interval and of the
   latency of every plan. All devices together hold each weight at least once, and the rest passes the hosts' links. 0
   without hosts. */
double sp_stream_bound(const struct sp_workload *workload, const struct sp_cluster *cluster);

/* Bytes that no devices have room for, whatever is done: weights and caches, less the memory of all. */
double sp_stream_lacking_bytes(const struct sp_workload *workload, const struct sp_cluster *cluster);
