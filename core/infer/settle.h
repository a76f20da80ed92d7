#pragma once
/*
 * settle - inputs of a node that contradict each other, restated as the node can take them.
 *
 * A tensor may be sharded otherwise where it is used than where it is made, so a contradiction between two operands is
 * a reshard of one of them. One after the other, inputs are taken as they are if they agree with those before: those
 * that the file states, then those that the request cuts, then others that are cut (constants last: a weight may be
 * gathered, as in fully sharded data parallelism), then whole ones; larger ones first. Of an input that does not agree,
 * the axes that contradict are made whole. Where that does not help, it loses, and is stated as the devices need it:
 * cut along its factors as the other inputs are.
 *
 * A tensor that is several operands of a node has one spec for all of them. What the file states stays, so that
 * contradictions among given specs remain.
 */
#include "infer/view/view.h"

/* What the node's operands say when the file is read again: nothing contradicts in *ret_view, which is one of them, or
   it cannot be helped. Entries of inputs change; their origin is INFERRED then. Their shardings live as long as the
   assignment, the view in `scratch`. */
enum sp_status sp_settle_node(struct sp_assignment *assignment, const struct sp_relation *relation,
                              struct sp_arena *scratch, struct sp_view **ret_view, struct sp_error *err);

/* The same for every node, in order. */
enum sp_status sp_settle_all(struct sp_assignment *assignment, struct sp_error *err);
