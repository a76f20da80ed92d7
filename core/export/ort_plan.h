#pragma once
/*
 * ort_plan - how each node of a model runs in a model of ONNX Runtime's Distributed operators.
 *
 * Such a model is the same graph for every rank, with the rank's pieces for tensors. A node is one of these:
 *
 *   WHOLE        nothing of it is split: as it is
 *   LOCAL        the same operator on the pieces, because only parallel factors are split and all operands come as the
 *                node takes them
 *   DISTRIBUTED  the Distributed operator, which communicates itself
 *
 * Where a Distributed operator does the same (ort_rules.h), it is taken; a plain operator where that would be refused
 * or wrong; and what no test of ONNX Runtime does is taken last, with a note. Anything else is no such model: a reshard
 * between nodes, a split that needs communication in another operator, a node on a part of the devices.
 */
#include "export/internal.h"
#include "export/ort_rules.h"

enum sp_ort_form { SP_ORT_WHOLE = 0, SP_ORT_LOCAL, SP_ORT_DISTRIBUTED };

struct sp_ort_plan {
    struct sp_export *out;
    struct sp_arena *arena;               /* as long as the plan */
    const struct sp_sharding **held;      /* per value of the main graph: how the ranks have it; NULL: not known */
    const uint32_t *relation_of;          /* per node of the dataflow: 1 + its relation, or 0 */
    enum sp_ort_form *forms;              /* per node of the main graph */
    const struct sp_sharding *everywhere; /* the last one that was found to be on all devices */
    uint32_t problem_count;
    struct sp_error first; /* the first problem */
};

/* Looks at every node, and tells a note for each that cannot be had or is taken untested. Problems are counted. */
enum sp_status sp_ort_plan_make(struct sp_export *out, struct sp_arena *arena, struct sp_ort_plan *ret_plan,
                                struct sp_error *err);

/* How a node's input comes: a weight as the node takes it, all else as it is held. NULL for an omitted one. */
const struct sp_sharding *sp_ort_input(const struct sp_ort_plan *plan, const struct sp_node *node, uint32_t input);
/* What the node makes of its output. */
const struct sp_sharding *sp_ort_output(const struct sp_ort_plan *plan, const struct sp_node *node, uint32_t output);

static inline bool sp_ort_is_weight(const struct sp_value *value)
{
    return value->tensor != NULL || value->sparse != NULL;
}

/* Whether some axis of a tensor of this type is in several shards. */
bool sp_ort_is_split(const struct sp_sharding *sharding, const struct sp_type *type);

/* Extents, -1 where not known, in `arena`; NULL for what is no tensor of known rank (or without memory). */
int64_t *sp_ort_shape(struct sp_arena *arena, const struct sp_type *type);

/* As ONNX Runtime writes it; whole tensors are on the mesh of all devices. */
enum sp_status sp_ort_plan_spec(struct sp_arena *arena, const struct sp_sharding *sharding, const struct sp_type *type,
                                int64_t device_count, struct sp_ort_spec *ret_spec, struct sp_error *err);
