#pragma once
/*
 * build_rule - rules of operations as Shardy writes them, for tests:
 *
 *     ([i, k], [k, j])->([i, j]) {i=8, j=16, k=32} reduction={k}
 *
 * Factors of a dim follow each other without blanks, major to minor ("ij", "iz_1"). Sets: reduction, need_replication,
 * permutation, blocked_propagation. The factors of the rule are named as in the text, in the order of their sizes.
 */
#include "ops/table/op.h"

/* NULL, and a message on stderr, when the text cannot be read. */
struct sp_rule *build_rule_text(struct sp_arena *arena, const char *text);
