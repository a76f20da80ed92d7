#pragma once
/*
 * build_workload - workloads and clusters put together by hand, for tests of what needs no model.
 *
 * Add tensors and nodes in topological order, then finish. Everything is in the builder's arena. Every call asserts.
 */
#include "cost/workload.h"

#define WORK_MAX_OPERANDS 8

struct work_builder {
    struct sp_workload *workload;
    uint32_t node_room, tensor_room;
};

/* Room for this many nodes and tensors; `kinds` device kinds. */
void work_init(struct work_builder *builder, struct sp_arena *arena, uint32_t nodes, uint32_t tensors, uint32_t kinds);

uint32_t work_input(struct work_builder *builder, double bytes);
uint32_t work_weight(struct work_builder *builder, double bytes);

/* A node of `seconds` on every kind (FLOPs are 1e12 times that) with one result of `bytes`; returns the result. The
   list of inputs ends with SP_NO_WORK. */
uint32_t work_node(struct work_builder *builder, double seconds, double bytes, const uint32_t *inputs);
#define WORK_NODE(builder, seconds, bytes, ...)                                                                        \
    work_node(builder, seconds, bytes, (const uint32_t[]){__VA_ARGS__, SP_NO_WORK})

/* The same, folded: its result is a weight. */
uint32_t work_folded(struct work_builder *builder, double bytes, const uint32_t *inputs);

/* The last result is a view of another tensor's memory. */
void work_alias(struct work_builder *builder, uint32_t tensor, uint32_t of);

/* Fills in consumers, outputs (what nothing consumes) and totals. */
struct sp_workload *work_finish(struct work_builder *builder, const struct sp_cluster *cluster);

/* `count` equal devices of `memory` bytes behind one link level. */
struct sp_cluster *build_cluster(struct sp_arena *arena, uint32_t count, double memory, double bandwidth,
                                 double latency);

/* Two groups of devices, kinds 0 and 1. */
struct sp_cluster *build_mixed_cluster(struct sp_arena *arena, uint32_t first, double first_memory, uint32_t second,
                                       double second_memory, double bandwidth);

/* `layers` transformer-like blocks of 13 nodes with two residual additions each, and a stem and a head of a node each.
   Weights of a block: 12 * width^2 * 4 bytes. */
struct sp_workload *build_transformer(struct sp_arena *arena, const struct sp_cluster *cluster, uint32_t layers,
                                      double width);
#define TRANSFORMER_LAYER_NODES 13
