#pragma once
/*
 * rule - the parts that rules of operators and rules of bodies are made with; private to core/ops.
 */
#include "ops/table/op.h"

/* What went wrong while a rule was built: bits of sp_rule.faults. */
enum sp_rule_fault {
    SP_RULE_FAULT_MEMORY = 1 << 0,
    SP_RULE_FAULT_FACTORS = 1 << 1,
    SP_RULE_FAULT_TERMS = 1 << 2,
    SP_RULE_FAULT_INDEX = 1 << 3
};

/* A rule without factors, with the node's operands. */
enum sp_status sp_rule_new(const struct sp_node *node, struct sp_arena *arena, struct sp_rule **ret_rule,
                           struct sp_error *err);

/* Whether every operand is a tensor of known rank: others have no rule to speak of. */
bool sp_rule_has_ranks(const struct sp_node *node);

/* The checks of sp_op_rule(). */
enum sp_status sp_rule_check(struct sp_model *model, struct sp_node *node, const struct sp_rule *rule,
                             struct sp_error *err);

/* sp_op_rule() of an operator as its entry has it, whatever is inside the node. */
enum sp_status sp_rule_of_operator(struct sp_model *model, struct sp_node *node, struct sp_arena *arena,
                                   struct sp_rule **ret_rule, struct sp_error *err);
