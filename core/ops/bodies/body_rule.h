#pragma once
/*
 * body_rule - the rule of a graph from the rules of its nodes; private to core/ops, whose sp_op_rule() reads it.
 *
 * Values tie the nodes' rules together: an axis that is one factor where the value is made and one where it is used is
 * one factor of both (they *unify*). What has no common reading is whole on every device:
 *
 *   one factor here, one there, the same extent    one factor, of the more restrictive kind
 *   lists of factors that agree one by one         the same, one by one
 *   no factor here, a factor there                 REPLICATE, unless the extent is 1
 *   lists that differ                              REPLICATE, all of them
 *   a factor of a captured value or a constant     REPLICATE: it is no operand, so nobody could split it
 *   factors that do not multiply to the extent     REPLICATE (a strided window, a slice)
 *   a reduction whose result is used inside        REPLICATE: it cannot stay partial
 *   a factor that indices are positions along      REPLICATE: they may be computed with
 *
 * Kinds join to the more restrictive; two halos add up, a halo and a reduction or a permutation make REPLICATE.
 *
 * Loops: a state is one value before, in and after the body; reductions and halos on its axes are REPLICATE, because
 * each turn needs them done. The axes that turns go along (Scan's scanned axes, what turns stack) are one factor t,
 * SEQUENTIAL. Scan-8's batch axes are one parallel factor.
 *
 * Terms are the nodes' terms; a factor that no operand has counts by its extent. Of an If's branches the dearer one
 * counts.
 *
 * A frame is one node whose inside is being read, or one graph alone. Nodes inside that have an inside themselves are
 * frames on top of it; when one ends, its rule is read like that of any node.
 */
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
