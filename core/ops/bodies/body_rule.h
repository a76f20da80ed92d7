#pragma once
/*
 * body_rule - the rule of a graph from the rules of its nodes.
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
 */
#include "ops/table/op.h"

/* Whether a node's rule is made of those of the nodes in it: control flow over tensors, or an expanded call. */
bool sp_has_body_rule(const struct sp_node *node);

/* The rule of such a node, in `arena`; without factors where an operand is no tensor of known rank, or where there
   would be more than SP_RULE_MAX_FACTORS. sp_op_rule() calls this. Errors are those of sp_op_rule() for a node inside.
 */
enum sp_status sp_body_rule(struct sp_model *model, struct sp_node *node, struct sp_arena *arena,
                            struct sp_rule **ret_rule, struct sp_error *err);
