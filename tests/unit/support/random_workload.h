#pragma once
/*
 * random_workload - small workloads with everything that a model can bring, by hand or at random, to test evaluation
 * and bounds against slow and obvious code.
 *
 *     struct sp_workload *work = workload_new(arena, cluster);
 *     uint32_t x = workload_input(work, 400), w = workload_weight(work, 1000);
 *     uint32_t a = workload_node(work, 2.0, 2, (uint32_t[]){x, w});
 *     uint32_t y = workload_result(work, a, 100);
 *     work->tensors[y].is_output = true;
 *     workload_finish(work);
 *
 * At most WORKLOAD_NODES nodes; misuse aborts the test.
 */
#include "cost/evaluate.h"

#define WORKLOAD_NODES    64
#define WORKLOAD_TENSORS  256
#define WORKLOAD_OPERANDS 8

/* The kind of a device is the number of its group. */
struct sp_workload *workload_new(struct sp_arena *arena, const struct sp_cluster *cluster);

uint32_t workload_input(struct sp_workload *workload, double bytes);
uint32_t workload_weight(struct sp_workload *workload, double bytes);

/* A node without results yet; `seconds` on every kind. */
uint32_t workload_node(struct sp_workload *workload, double seconds, uint32_t input_count, const uint32_t *inputs);

/* A result of the node: an activation, or a weight when the node is folded. */
uint32_t workload_result(struct sp_workload *workload, uint32_t node, double bytes);

/* Makes `view`, a result of a view node, the same memory as `tensor`. */
void workload_alias(struct sp_workload *workload, uint32_t view, uint32_t tensor);

/* Fills consumers and totals; call once, when all is there. */
void workload_finish(struct sp_workload *workload);

/* The next number of a sequence, below `bound`; the same for the same seed. */
uint32_t pick(uint64_t *seed, uint32_t bound);

/* A random workload of `node_count` nodes with weights, views, folded nodes, several results and workspaces. */
struct sp_workload *workload_random(struct sp_arena *arena, const struct sp_cluster *cluster, uint32_t node_count,
                                    uint64_t *seed);

/* A cluster from JSON text; aborts the test when it is refused. */
struct sp_cluster *cluster_from(struct sp_arena *arena, const char *json);
