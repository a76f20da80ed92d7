#pragma once
/*
 * propagate - missing specs by propagation along factors, forward and backward, to a fixpoint; as Shardy does it.
 *
 * Every tensor has an AXES sharding, at first what was given or set (closed: never changed) and open and empty
 * elsewhere. A flow is one operation: it projects the shardings of its operands on the factors of its rule, extends the
 * factors' axes by what other operands have, and projects back. Levels, each to a fixpoint with the ones before:
 *
 *   user priorities   p0, p1, .. of given dims (Shardy notation); 0 first. Dims of a later one are hidden until then,
 *                     their axes are barred meanwhile
 *   operations        pass-through ones with single uses; all pass-through ones; parallel factors of anything; all
 *                     factors, broadcasts backward only; all factors
 *   conflicts         two tensors that want different axes of one factor share what they have in common from the
 *                     front. One axis for two factors of a tensor: the factor of the larger tensor gets it (of an
 *                     activation rather than of a constant, which is gathered: `yields`), then (in
 *                     elementwise flows) the one with more shards, then that of the lower operand
 *
 * Glossary
 *  projection  the axes of a tensor's dim dealt to its factors, major to minor, each as far as its extent divides
 *  overflow    axes of a dim that its factors cannot take; nothing may grow behind them
 *  closed      a dim or factor that takes no more axes
 *
 * Source: Shardy, docs/propagation.md and its published cases of factor and graph propagation (openxla/shardy,
 * 2026-08).
 *
 * sp_propagate() works on plain shardings and needs no model, so that published cases run on it as they are;
 * sp_infer_propagate() is the same for an assignment.
 */
#include "infer/assignment.h"

enum sp_propagation_level {
    SP_PROPAGATE_BASIC = 0, /* an axis that two factors want goes to neither */
    SP_PROPAGATE_AGGRESSIVE,
    SP_PROPAGATE_OP_PRIORITY,
    SP_PROPAGATE_USER_PRIORITY
};

/* Which way splits may go through a flow. */
enum sp_direction { SP_DIRECTION_NONE = 0, SP_DIRECTION_FORWARD = 1, SP_DIRECTION_BACKWARD = 2, SP_DIRECTION_BOTH = 3 };

struct sp_flow {
    const struct sp_rule *rule;
    const uint32_t *tensors; /* inputs, then outputs; SP_NO_TENSOR */
    uint32_t input_count, operand_count;
    bool is_elementwise; /* each element of the result comes from one place of each input: no input takes a split that
                            the result refuses */
    enum sp_direction early;      /* while only pass-through operations are allowed; NONE: it is none of them */
    enum sp_direction middle;     /* before the last level: a broadcast goes backward only */
    enum sp_direction directions; /* at the last level, and in BASIC and AGGRESSIVE */
};

/* Why an axis of a tensor is split as it is; the last flow that added to it. */
struct sp_flow_origin {
    struct sp_flow_origin *next; /* of the same tensor: of another axis */
    uint32_t flow;
    uint32_t source_tensor; /* from which the axes came */
    uint32_t axis;
    uint8_t factor;
};

/* The origin of an axis in a tensor's list, or NULL: it is as it was given, or not split. */
struct sp_flow_origin *sp_origin_of(struct sp_flow_origin *origins, uint32_t axis);

struct sp_propagation {
    uint32_t tensor_count, flow_count;
    const uint32_t *ranks;
    const int64_t *const *shapes; /* -1: not known; such an extent is taken as divisible */
    /* AXES, or NULL: open and empty. Replaced by new ones where they grow, which tensors with equal ones share. A flow
       whose tensors are on different meshes carries nothing; the empty mesh is no mesh. */
    const struct sp_sharding **tensors;
    const bool *yields; /* or NULL. Where two factors want one axis, these tensors give way, whatever their size */
    const struct sp_flow *flows;
    enum sp_propagation_level level;
    /* Shardy pads; an ONNX device that holds less than the others is nobody's wish: a split that is carried must then
       divide the extent, or the part of it that does is carried. Blocks (sp_factor) count always. */
    bool must_divide;
    /* Shardy carries a split also over factors that the operation needs whole, and takes it away afterwards. Where
       nothing is to be taken away, that would only make reshards: factors of kind REPLICATE and SEQUENTIAL carry
       nothing unless this is set. */
    bool carries_whole;
    uint64_t seed; /* of tables */
    /* Out, per tensor a list of the axes that grew, NULL at first (NULL when not wanted). */
    struct sp_flow_origin **origins;
    /* Called at the end for each flow, factor and tensor that could have taken more but for `opponent`, a tensor of
       the flow (or the tensor itself). Codes: "SPLIT_CONFLICT", "CLOSED", "NEEDS_WHOLE_AXIS", "NOT_CARRIED",
       "NOT_DIVISIBLE", "BLOCK". May be NULL. */
    void (*on_stop)(void *context, uint32_t flow, uint8_t factor, uint32_t tensor, uint32_t opponent, const char *code);
    void *context;
};

/* Runs to the fixpoint; priorities of dims are gone afterwards. Time: each flow is looked at a few times, and again
   when one of its tensors grows. Results in `arena`. Memory is the only error. */
enum sp_status sp_propagate(struct sp_arena *arena, struct sp_propagation *propagation, struct sp_error *err);

/* Sets how a flow is treated from its rule: is_elementwise, early, middle, directions. `rule` must be set. */
void sp_flow_classify(struct sp_flow *flow);

/*
 * Completes every node's specs on the mesh. `mesh` NULL: the common mesh of all given and set specs (their cuts of the
 * devices 0..N-1 refined); SP_ERR_REQUEST "NO_COMMON_MESH" names two specs that no mesh explains. Given and set specs
 * are kept, but for axes that a notation leaves open; its priorities and its replicated axes count. A split that does
 * not divide an extent is not carried. Splits are carried by pieces of axes (refine.h): a result is BLOCKS with parts
 * where a device has every so many elements of an axis (each third of a fused weight), and AXES where each axis is in one
 * contiguous split.
 *
 * Shardings are computed on positions of the mesh. A node's devices are those of its stated specs, else those of its
 * producers, else those of its users: so stages of a pipeline, on devices of their own, share one mesh.
 *
 * Afterwards the operands of every node agree with its rule, where the given specs do: where the propagated shardings
 * of its tensors contradict each other or what the operator needs whole, its inputs are stated as it can take them, and
 * arrive by a reshard; its outputs as it makes them.
 */
enum sp_status sp_infer_propagate(struct sp_assignment *assignment, const struct sp_mesh *mesh, struct sp_error *err);
