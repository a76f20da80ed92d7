#pragma once
/*
 * body_rule_internal - what the parts of ops/bodies/body_rule.c share; private to it.
 *
 * A frame is one node whose inside is being read, or one graph alone. Nodes inside that have an inside themselves are
 * frames on top of it; when one ends, its rule is read like that of any node.
 */
#include "ops/bodies/body_rule.h"
#include "ops/bodies/control.h"
#include "ops/bodies/unify.h"

/* Work of a node inside, over factors of the unifier. */
struct sp_body_term {
    uint32_t branch;
    double coefficient;
    uint32_t count;
    uint32_t *factors;
};

struct sp_body_frame {
    struct sp_body_frame *below;
    struct sp_node *node; /* NULL: a graph alone */
    struct sp_control control;
    uint32_t graph_count, at; /* graphs; the one at work */
    struct sp_graph *graphs[2];
    uint32_t next; /* node of it */
    struct sp_dims *dims;
    struct sp_unifier unifier;
    struct sp_unified_axes *values[2]; /* by graph and value id */
    uint32_t term_count, term_capacity;
    struct sp_body_term *terms;
};

/* Reads the rule of a node inside. False without memory. */
bool sp_body_absorb(struct sp_body_frame *frame, const struct sp_node *node, const struct sp_rule *rule);

/* Fills the rule of the frame's node (or graph) when all nodes are read. */
enum sp_status sp_body_emit(struct sp_op_context *context, struct sp_body_frame *frame, struct sp_rule *rule);
