#pragma once
/* exact_node - one node of branch and bound; private to exact*.c. */
#include "solvers/choice/exact.h"

#define SP_EXACT_TASKS 4 /* nodes at a time; the result depends on it, and not on the threads */

struct sp_exact_node {
    bool *dead; /* per state */
    double *messages, *prices;
    int64_t bound; /* of the whole problem */
    uint32_t depth;
};

enum sp_exact_outcome { SP_EXACT_CLOSED, SP_EXACT_BRANCHED, SP_EXACT_STOPPED };

struct sp_exact_worker {
    struct sp_bound_state *state;
    bool *dead;
    int64_t *least, *use; /* per moment */
    uint32_t *found, *trial;
    bool has_found;
    int64_t cost, found_cost; /* of the whole problem */
    enum sp_exact_outcome outcome;
    uint64_t work;
};

struct sp_exact_worker *sp_exact_worker_create(struct sp_arena *arena, const struct sp_bound_state *bound);
struct sp_exact_node *sp_exact_node_create(struct sp_arena *arena, const struct sp_exact_worker *worker);
size_t sp_exact_node_bytes(const struct sp_bound_state *bound);
void sp_exact_node_root(struct sp_exact_node *node, const struct sp_bound_state *bound);

/* Bounds and divides a node; `children` are written where it was divided, the likelier last. */
void sp_exact_work_on(struct sp_exact_worker *worker, const struct sp_exact_node *node,
                      struct sp_exact_node *const children[2], const volatile bool *stop);

const struct sp_reduced *sp_bound_reduced(const struct sp_bound_state *bound);
