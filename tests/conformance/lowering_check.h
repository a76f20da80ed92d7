#pragma once
/*
 * lowering_check - what every lowering (ops/lowering/lowering.h) must keep, whatever it computes.
 *
 * Each factor of a node that may be split is, in 2 and in 3 shards, and, where its extent allows, each of its halves in
 * 2 shards, so that a device has two ranges. Each device's part is recorded:
 *
 *  - it ends well, or says in a sentence why the factor is whole;
 *  - all devices have the same inputs, collectives and outputs, of the same types and over the same factors;
 *  - pieces are used after they are made, and made once;
 *  - every output is given once, with its type and, where they are known, the extents of its part;
 *  - what is combined has the same extents on all devices;
 *  - without memory it ends with that error (for the first node of each operator and kind of factor).
 */
#include <stdbool.h>

#include "ops/table/op.h"

struct lowering_check;
struct lowering_check *lowering_check_create(void);
void lowering_check_destroy(struct lowering_check *check);

/* Prints what is wrong, with the name of the case; false where anything is. */
bool lowering_check_node(struct lowering_check *check, const char *name, struct sp_model *model, struct sp_node *node,
                         const struct sp_rule *rule);

/* How many there were. */
void lowering_check_print(const struct lowering_check *check);
