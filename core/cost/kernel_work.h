#pragma once
/*
 * kernel_work - what the kernel of one operator does, whole or on one device's shards: FLOPs, bytes, class.
 *
 * All follows from the operator's rule (ops/table/traffic.h), and from one fact about the graph: whether a cache and
 * its continuation can be one buffer. They can where the cache is an input of the model that nothing else reads (its
 * shape may be looked at, and it may be given another one), and what it becomes is a result of the model or is attended
 * to: as keys or values of an attention operator, or by a product of two values that are computed. On the way there
 * elements may change their order and type, and heads may be repeated.
 *
 *   past (input) -> Concat(past, new) -> present (output)           one buffer: new is written behind past
 *   past (input) -> TensorScatter, ScatterND, attention             likewise
 *   x (input)    -> Concat(x, f(x))                                 x is read by f too: a copy
 *
 * A node that is part of a larger kernel moves what of its operands passes through memory. Products that are part of an
 * attention have its class: of two, the first makes a score of each query and key, the second adds up values.
 */
#include "cost/workload.h"
#include "ops/table/op.h"

/* Whether output `output` of a node, which continues input `input`, can be one buffer with it. */
bool sp_cache_is_own(const struct sp_node *node, uint32_t input, uint32_t output);

/* A part of a node: of factor f of its rule one of shards[f] pieces, of operand i (inputs, then outputs) shares[i] of
   the bytes. Both are NULL for the whole node. */
struct sp_kernel_part {
    const struct sp_node *node;
    const struct sp_rule *rule;
    const int64_t *shards;
    const double *shares;
    enum sp_cache_binding caches;
    const struct sp_node_kernel *kernel; /* of which kernel the node is a part; NULL: of its own */
    double kept_bytes; /* keys and values that the device keeps beside the model's own tensors: all are read */
};

/* The node has an operator that does work: nothing folded, and no view but one that narrows (kernels/kernels.h). */
struct sp_kernel_work sp_kernel_work_of(const struct sp_kernel_part *part);
