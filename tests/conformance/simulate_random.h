#pragma once
/* simulate_random - any shardings that a node may have, for every node: what is between them has to follow. */
#include "simulate.h"

/* States the operands of each node of the main graph: some factors of its rule in some shards, on some devices in any
   order, by a seed. Operands of a node agree with each other; nodes do not. Nodes before `first` and behind `last` are
   whole on device 0: to find out which one goes wrong. */
enum sp_status simulate_random(struct sp_assignment *assignment, uint64_t seed, uint32_t first, uint32_t last,
                               struct sp_error *err);
