#pragma once
/*
 * interned_rules - one compact copy of each rule that the relations of a model have.
 *
 * A rule is made in kilobytes of scratch memory; what inference keeps of it are its factors and the axes they are
 * mapped to, once for all nodes that have the same, and for equal operands next to each other once. Terms are not kept.
 *
 * How much is kept is bounded in units: a factor, an operand or an axis is one each.
 */
#include "ops/table/op.h"

struct sp_rules;

/* Copies in `arena`; at most `most` units of them. NULL without memory. */
struct sp_rules *sp_rules_create(struct sp_arena *arena, uint64_t seed, uint64_t most);

/* The copy that is equal to the rule; *ret_kept is NULL where it would be new and too much. It must not be changed.
   Memory is the only error. */
enum sp_status sp_rules_keep(struct sp_rules *rules, const struct sp_rule *rule, struct sp_rule **ret_kept,
                             struct sp_error *err);

uint64_t sp_rules_units(const struct sp_rules *rules);
uint32_t sp_rules_count(const struct sp_rules *rules);
