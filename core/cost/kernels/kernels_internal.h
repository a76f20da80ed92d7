#pragma once
/* kernels_internal - what the files that find kernels share. */
#include "cost/kernels/body_memory.h"
#include "cost/kernels/kernel_role.h"
#include "cost/kernels/kernels.h"

#define SP_KERNELS_MOST_SEARCHED 64 /* nodes that are looked at for one join; beyond them there is none */

/* What is known of a kernel while it grows; by the index of its first node. */
struct sp_kernels_kernel {
    enum sp_kernel_role role;
    bool has_many_roots, has_function;
    uint32_t payer;              /* the node that has the start; UINT32_MAX: there is none yet */
    const struct sp_value *root; /* what it reads from outside, constants left out; NULL: nothing yet */
    double elements;             /* of the largest thing that it makes or reads */
};

struct sp_kernels_run {
    struct sp_arena *arena;
    struct sp_model *model;
    const struct sp_graph *graph;
    const struct sp_runtime *runtime;
    struct sp_node_kernel *nodes;
    struct sp_kernels_kernel *kernels;
    enum sp_kernel_role *roles;
    uint32_t *seen; /* by node: the last search that looked at it */
    uint32_t search;
};

/* The node of this graph that makes an operand, or NULL: constants and what comes from outside. */
static inline const struct sp_node *sp_kernels_maker(const struct sp_kernels_run *run, const struct sp_value *value)
{
    const struct sp_node *node = value != NULL && !value->is_constant ? value->producer : NULL;
    return node != NULL && node->graph == run->graph && !sp_inner_is_folded(node) ? node : NULL;
}

/* What a value is a view of. */
const struct sp_value *sp_kernels_viewed(const struct sp_kernels_run *run, const struct sp_value *value);

/* Starts that nodes of several kernels share, and orders of axes that a kernel reads as they lie, where the runtime
   does so: of kernels that are all known. */
void sp_kernels_join_starts(struct sp_kernels_run *run);
