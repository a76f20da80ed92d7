#pragma once
/*
 * communications - what devices send each other under an assignment: the collectives of the models that are exported of
 * it, since both are told by one partition. One entry for each collective, in the order in which devices run them.
 *
 *   RESHARD   pieces of a tensor become other pieces, as a node states its input or its output
 *   REDUCE    partial results, or statistics of a node, are combined
 *   GATHER    an input is split where the operator needs it whole
 *   HALO, PERMUTE   an input's elements from other devices: neighbours', or from anywhere along an axis
 *
 * As in the models of devices, a node with subgraphs runs whole on each of its devices.
 */
#include "partition/partition.h"

/* Appended to a list in the assignment's arena. Where a partition takes too much (of a file that names many devices for
   few bytes), what nodes' views say (infer/view/view.h), which does not know the operators' own exchanges. */
enum sp_status sp_part_communications(const struct sp_assignment *assignment, const struct sp_watch *watch,
                                      struct sp_communications *list, struct sp_error *err);
