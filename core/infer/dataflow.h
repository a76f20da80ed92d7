#pragma once
/*
 * dataflow - a model as tensors and the relations between them, over all its graphs.
 *
 * Shardings are carried along relations. There are two kinds:
 *
 *  NODE   a node of some graph: its rule relates its operands.
 *  SAME   the boundary of control flow or of a call: a value outside and one inside are one tensor.
 *           If        an output and the same output of each branch
 *           Loop      a carried value: initial value, body input, body output and result; a scan output: the body's
 *                     output and the result, which has one axis more in front
 *           Scan      states as in Loop; a scanned operand has the scan axis more than what the body sees
 *           call      formal and actual inputs and outputs of an expanded function
 *         One relation has two operands: what goes in stands before the inner graph, what comes out behind it, and
 *         what a Loop or Scan carries from the body's output to its input after that (is_back).
 *         Its rule has one parallel factor for each axis that both sides have; an axis that only one side has is
 *         sequential (the iterations).
 *
 * A node with subgraphs or with an expanded body is no NODE relation of its own: what is inside it says more.
 *
 * Tensors are numbered over the whole model: the main graph's values first, by id. So are nodes: the main graph's
 * first, by index. Rules are made when they are asked for, which costs microseconds, and kept where somebody wants to
 * come back to them.
 */
#include "infer/interned_rules.h"
#include "ops/table/op.h"

#define SP_NO_TENSOR UINT32_MAX

enum sp_relation_kind { SP_RELATION_NODE = 0, SP_RELATION_SAME };

struct sp_relation {
    enum sp_relation_kind kind;
    uint32_t node_id;
    struct sp_node *node;                /* NODE: the node; SAME: the node whose boundary it is */
    uint32_t id;                         /* in dataflow->relations */
    uint32_t input_count, operand_count; /* operands are inputs, then outputs; SAME: input 0 is the outer side of
                                            what goes in, the inner side of what comes out */
    bool is_back;                        /* SAME: from one iteration to the next */
    int8_t extra_axis[2];                /* SAME: the axis that operands[side] has and the other has not, or -1 */
    const uint32_t *tensors;             /* operand_count of them; SP_NO_TENSOR: omitted */
};

struct sp_dataflow_graph {
    const struct sp_graph *graph;
    uint32_t first_tensor, first_node;
};

struct sp_dataflow_rules;

#define SP_MAX_NET_DEPTH 192 /* graphs inside graphs: nested subgraphs and calls together */

struct sp_dataflow {
    struct sp_model *model;
    uint32_t graph_count, tensor_count, node_count, relation_count;
    struct sp_dataflow_graph *graphs; /* in order of discovery: the main graph first */
    const uint32_t *by_address;       /* graphs sorted by address */
    struct sp_value **tensors;
    struct sp_node **nodes;
    struct sp_relation *relations;   /* of one graph in its order; inner graphs where their node stands */
    struct sp_dataflow_rules *rules; /* those that are kept */
};

/* Everything in `arena`. The model must have its shapes (ops/shapes/shapes.h). */
enum sp_status sp_dataflow_create(struct sp_arena *arena, struct sp_model *model, struct sp_dataflow **ret_dataflow,
                                  struct sp_error *err);

uint32_t sp_dataflow_tensor(const struct sp_dataflow *dataflow, const struct sp_value *value);
uint32_t sp_dataflow_node(const struct sp_dataflow *dataflow, const struct sp_node *node);

/* The rule of a relation, not to be changed and perhaps without terms: the one that is kept (sp_dataflow_has_rule()),
   for as long as the dataflow, or a new one in `arena` where the rules of all relations take more than
   SP_FREE_RULE_UNITS and what the size of the model adds. Equal ones are kept once (interned_rules.h), so they are the
   same pointer. A node without an operator entry gets one in which nothing may be split (no factors). Errors as
   sp_op_rule(). */
enum sp_status sp_dataflow_rule(const struct sp_dataflow *dataflow, const struct sp_relation *relation,
                                struct sp_arena *arena, struct sp_rule **ret_rule, struct sp_error *err);

/* Whether the rule of this relation is kept by now. */
bool sp_dataflow_has_rule(const struct sp_dataflow *dataflow, const struct sp_relation *relation);

/* The same, but NULL where it is not kept. `scratch` is as it was afterwards. */
enum sp_status sp_dataflow_keep_rule(const struct sp_dataflow *dataflow, const struct sp_relation *relation,
                                     struct sp_arena *scratch, const struct sp_rule **ret_rule, struct sp_error *err);

/* The kept rules: whoever makes others from them may keep these there too. NULL without memory. */
struct sp_rules *sp_dataflow_rules(const struct sp_dataflow *dataflow);

/* Operand `operand` of a rule: inputs, then outputs. */
static inline const struct sp_operand_rule *sp_rule_operand(const struct sp_rule *rule, uint32_t operand)
{
    return operand < rule->input_count ? &rule->inputs[operand] : &rule->outputs[operand - rule->input_count];
}
