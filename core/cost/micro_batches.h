#pragma once
/*
 * micro_batches - requests that are cut along their batch into equal parts, which follow one another through the stages
 * of a pipeline.
 *
 * A workload of micro-batches is that of one of them: the model bound to a part of the batch. A stage is then busy with
 * one part while the stages behind it have earlier ones. With L the latency of one part alone and I the interval of the
 * slowest stage, m parts of a request leave the pipeline
 *
 *   latency     L + (m - 1) I      behind its arrival at an empty pipeline
 *   interval    m I                one request behind the other
 *
 * In a *loop*, where a part needs its own result of the step before and not those of other parts, it begins the next step
 * when it is through this one; in the long run
 *
 *   step        max(L, m I)        from the token of a part to its next one
 *
 * The latency is exact where the slowest stage, or transfer, lies on the longest path, as it does in every pipeline
 * without branches: parts that all take equally long at each stage wait for the slowest one only. Else, and where a
 * stage has replicas, it is an upper bound. A request stays within one copy of a plan, so that of copies I is that of
 * one copy.
 *
 * Memory. Weights are there once. Each stage works on one part at a time, beside the two buffers of each tensor that
 * crosses its border (evaluate.h): so activations are those of one part. States stay between steps: a device holds those
 * of all parts. What a node makes of a state for the parts that do not run is among its resident_bytes.
 *
 * Source: Huang et al., GPipe, 2019.
 */
#include <math.h>

#include "cost/workload.h"

/* The latency of a request in so many parts; 0 and 1: it is whole. */
static inline double sp_micro_latency(uint32_t count, double latency_of_one, double interval_of_one)
{
    return count > 1 ? latency_of_one + (count - 1) * interval_of_one : latency_of_one;
}

/* Seconds between requests. */
static inline double sp_micro_interval(uint32_t count, double interval_of_one)
{
    return count > 1 ? count * interval_of_one : interval_of_one;
}

/* Seconds of a step of a loop whose parts begin the next one each as soon as it is through this one. */
static inline double sp_micro_step(uint32_t count, double latency_of_one, double interval_of_one)
{
    return fmax(latency_of_one, sp_micro_interval(count, interval_of_one));
}

/* Says of a workload, which is of one part and has no caches (cache.h), that requests have so many. */
void sp_workload_set_micro_batches(struct sp_workload *workload, uint32_t count);

/* How many other parts leave what this tensor is for the next step: count - 1 of a state's present one, 0 of others. */
uint32_t sp_micro_waiting(const struct sp_workload *workload, uint32_t tensor);
