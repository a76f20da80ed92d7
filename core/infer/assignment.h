#pragma once
/*
 * assignment - which sharding every operand of every node has under one device configuration, and why.
 *
 * ONNX annotates nodes, not tensors: the same tensor may be sharded one way where it is made and another way at each
 * node that uses it, which implies a reshard between them. So the unit is the operand of a node.
 *
 * An assignment starts with what the file says (GIVEN) and what the request adds (SET), and is completed by one of two
 * engines: forward.h (proposal 0007, literally) or propagate.h (both directions, to a fixpoint).
 *
 * Invariants
 *  - Every sharding here has the rank of its tensor (is_rank_open is false), named devices (no open placement), and
 *    passes sp_sharding_check(). Equal ones may be the same pointer.
 *  - `because` is a full sentence that names the tensor, node and factor that it came from; GIVEN has none.
 */
#include "infer/dataflow.h"
#include "infer/view/cache.h"
#include "sharding/sharding.h"

enum sp_spec_origin {
    SP_SPEC_NONE = 0,
    SP_SPEC_GIVEN,    /* the node's annotation in the file */
    SP_SPEC_SET,      /* the request: --set TENSOR=SPEC */
    SP_SPEC_INFERRED, /* from other specs */
    SP_SPEC_ASSUMED   /* a model input or weight that nothing is said of: whole on the devices that the node uses */
};

struct sp_spec_entry {
    const struct sp_sharding *sharding; /* NULL: nothing known */
    enum sp_spec_origin origin;
    const char *because;
};

struct sp_node_specs {
    struct sp_spec_entry *operands; /* inputs, then outputs */
    bool has_stage;
    int32_t stage;
};

/* Where an engine gave up carrying a split on, and what stood against it: a full sentence each. */
struct sp_stop {
    const char *code;           /* "SPLIT_CONFLICT", "NEEDS_WHOLE_AXIS", "NOT_DIVISIBLE", "BLOCK", "NO_RULE", .. */
    const struct sp_node *node; /* or NULL */
    const char *tensor;         /* or NULL */
    const char *message;
};

struct sp_assignment {
    struct sp_arena *arena;
    const struct sp_dataflow *dataflow;
    const char *configuration; /* its name */
    int64_t device_count;
    struct sp_view_cache *cache; /* what was worked out; copies of an assignment share it */
    struct sp_node_specs *nodes; /* dataflow->node_count of them */
    uint32_t stop_count, stop_capacity;
    struct sp_stop *stops;
    /* Where inputs of a node contradict each other, those that the file does not state are restated as the node can take
       them (settle.h), so that what is written is sound. Off, forward inference lets the contradiction stay and its
       outputs unknown, as the proposal has it: that is what a check wants to see. */
    bool gathers_contradictions;
    /* Per value of the main graph: how the devices hold an input or a weight before the first node, as was set or the
       file's record says. NULL, the array or an entry: each device has of it what it needs. */
    const struct sp_sharding **stored;
};

/* A spec that the request puts on a tensor of the main graph: on the output of its producer and on every use that the
   file says nothing of. */
struct sp_set_spec {
    const char *tensor;
    const struct sp_sharding *sharding;
};

struct sp_set_specs {
    uint32_t count;
    const struct sp_set_spec *items;
};

/*
 * The given annotations of configuration `configuration` and the request's specs (NULL: none). Annotations must be sound
 * (check/annotations.h finds no error in them); what is not is SP_ERR_MODEL with the node in the message. A tensor name
 * that the main graph does not have is SP_ERR_REQUEST "UNKNOWN_TENSOR", two specs for one tensor "DUPLICATE_TENSOR".
 * Open placements (empty device lists) are filled: a tensor that is whole is on all devices that the node's other specs
 * name, or on all there are; shards go to the devices of the node's other specs where these name as many as there are
 * shards, else to 0..shards-1. A spec of a tensor of unknown rank cannot be looked at: it is left out, with a stop
 * "RANK_UNKNOWN".
 *
 * A SET spec of an input or a weight is also how it is stored: nodes that need it otherwise get it by a reshard.
 *
 * A SET spec replaces a GIVEN one on the output of the producer only; at a use it is what the tensor is elsewhere, and
 * gives way where the node needs something else. Equal GIVEN specs are one pointer; what they list
 * is bounded (SP_FREE_KEPT_DEVICES, SP_FREE_VIEW_POINTS): more is SP_ERR_LIMIT "TOO_MANY_SPEC_DEVICES".
 */
enum sp_status sp_assignment_create(struct sp_arena *arena, const struct sp_dataflow *dataflow,
                                    const char *configuration, int64_t device_count, const struct sp_set_specs *sets,
                                    struct sp_assignment **ret_assignment, struct sp_error *err);

/* Adds a stop; SP_ERR_MEMORY is the only error. At most SP_MAX_STOPS are kept, the first ones. */
enum sp_status sp_assignment_stop(struct sp_assignment *assignment, const char *code, const struct sp_node *node,
                                  const char *tensor, struct sp_error *err, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* A sharding in words, for sentences: "axis 0 in 2 on devices 0, 1", "whole on devices 0..7", `axis 1 in 4 over "x" of
   the mesh ["x"=4, "y"=2]`. Cut to `size` with "..". Returns `text`. */
#define SP_SPEC_TEXT_SIZE 256
const char *sp_spec_text(const struct sp_sharding *sharding, char *text, size_t size);

/* The operand's entry; inputs, then outputs. */
static inline struct sp_spec_entry *sp_spec_of(const struct sp_assignment *assignment, uint32_t node, uint32_t operand)
{
    return &assignment->nodes[node].operands[operand];
}
