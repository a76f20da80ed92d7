#pragma once
/*
 * propagate - missing specs by propagation along factors, forward and backward, to a fixpoint; as Shardy does it.
 *
 * Works on one mesh. Every tensor has an AXES sharding, at first what was given or set (closed: never changed) and open
 * and empty elsewhere. A relation projects the shardings of its operands on the factors of its rule, extends the
 * factors' axes by what other operands have, and projects back. Levels, each to a fixpoint with the ones before:
 *
 *   user priorities   p0, p1, .. of given dims (Shardy notation); 0 first
 *   operations        elementwise with single uses; elementwise; parallel factors of anything; anything
 *   conflicts         two tensors that want different axes of one factor, or one axis for two factors: the larger
 *                     tensor wins, then more shards, then the lower operand (aggressive mode of Shardy)
 *
 * Source: Shardy, docs/propagation.md and its published cases of factor and graph propagation (openxla/shardy,
 * 2026-08).
 *
 * sp_propagate() works on plain shardings and needs no model, so that published cases run on it as they are;
 * sp_infer_propagate() is the same for an assignment.
 */
#include "infer/assignment.h"

enum sp_propagation_level {
    SP_PROPAGATE_BASIC = 0,
    SP_PROPAGATE_AGGRESSIVE,
    SP_PROPAGATE_OP_PRIORITY,
    SP_PROPAGATE_USER_PRIORITY
};

/* Which way splits may go through a relation. */
enum sp_direction { SP_DIRECTION_NONE = 0, SP_DIRECTION_FORWARD = 1, SP_DIRECTION_BACKWARD = 2, SP_DIRECTION_BOTH = 3 };

struct sp_flow {
    const struct sp_rule *rule;
    const uint32_t *tensors; /* inputs, then outputs; SP_NO_TENSOR */
    uint32_t input_count, operand_count;
    bool is_elementwise;          /* a pass-through operation: elementwise, reshape, transpose, a boundary */
    enum sp_direction directions; /* at the last level */
};

/* Why a tensor's axis has the mesh axis that it has. */
struct sp_flow_origin {
    uint32_t flow;          /* UINT32_MAX: given */
    uint32_t source_tensor; /* from which the axes came */
    uint8_t factor;
};

struct sp_propagation {
    const struct sp_mesh *mesh;
    uint32_t tensor_count, flow_count;
    const uint32_t *ranks;
    const int64_t *const *shapes; /* -1: not known; such an extent is taken as divisible */
    struct sp_sharding **tensors; /* AXES on the mesh, or NULL: open and empty. Updated in place. */
    const struct sp_flow *flows;
    enum sp_propagation_level level;
    /* Out, per tensor and axis (NULL when not wanted): why it is split. */
    struct sp_flow_origin **origins;
    /* Called where a factor could not be carried, or NULL. */
    void (*on_stop)(void *context, uint32_t flow, uint8_t factor, uint32_t tensor, uint32_t opponent, const char *code);
    void *context;
};

enum sp_status sp_propagate(struct sp_arena *arena, struct sp_propagation *propagation, struct sp_error *err);

/*
 * Completes every node's specs on the mesh. `mesh` NULL: the common mesh of all given and set specs (their cuts of the
 * devices 0..N-1 refined); SP_ERR_REQUEST "NO_COMMON_MESH" names two specs that no mesh explains. Given and set specs
 * are kept. A split that does not divide an extent is not carried. Afterwards the forward view of every node is
 * consistent (view.h), where the given specs are.
 */
enum sp_status sp_infer_propagate(struct sp_assignment *assignment, const struct sp_mesh *mesh, struct sp_error *err);
