/* Shardings of other programs: the table. */
#include "check/diagnostic.h"

#define NOTE    SP_SEVERITY_NOTE
#define WARNING SP_SEVERITY_WARNING
#define ERROR   SP_SEVERITY_ERROR

const struct sp_diagnostic_code sp_codes_foreign[] = {
    /* ONNX Runtime's Distributed* operators */
    {"ORT_ATTRIBUTE_MISSING", ERROR,
     "A Distributed* node lacks one of its six attributes (shard specs, device mesh shapes and device mesh elements of "
     "inputs and of outputs). ONNX Runtime does not load it.",
     "Add the attribute, with one string for each operand.", "ONNX Runtime, com.microsoft Distributed* operators"},
    {"ORT_COUNT_MISMATCH", ERROR,
     "The lists of specs, mesh shapes and mesh elements of a Distributed* node must have one entry for each operand.",
     "Give one entry for each operand in all three lists.", "ONNX Runtime, com.microsoft Distributed* operators"},
    {"ORT_SPEC_UNUSED", NOTE, "A Distributed* node has more specs than operands.", "Remove the last ones.",
     "ONNX Runtime, com.microsoft Distributed* operators"},
    {"ORT_SPEC_INVALID", ERROR,
     "A shard spec or device mesh of a Distributed* node cannot be read or contradicts itself. ONNX Runtime accepts "
     "some of these and fails later.",
     "Write R or S[k] for each axis, k an axis of the mesh that is used once, and as many devices as the mesh shape "
     "says.",
     "ONNX Runtime, sharding_spec.h"},
    {"ORT_RANK_MISMATCH", ERROR, "A shard spec of a Distributed* node has another number of axes than its tensor.",
     "Write R or S[k] for each axis of the tensor.", "ONNX Runtime, sharding_spec.h"},
    {"ORT_FIRST_DIALECT", WARNING,
     "A Distributed* node is written for the first version of these operators, which had one mesh for all operands. "
     "Later versions do not read it.",
     "Write input_device_mesh_shapes, input_device_mesh_elements and the same for outputs, as strings.",
     "ONNX Runtime, pull requests 17695 and 18025"},
    {"ORT_UNEVEN", WARNING,
     "The elements along a sharded axis cannot be dealt evenly to the devices of a Distributed* node. ONNX Runtime "
     "supports no uneven shards.",
     "Use a number of devices that divides the extent of the whole tensor.", "ONNX Runtime, CanShard"},
    {"ORT_REFUSED", WARNING, "ONNX Runtime's kernel refuses this combination of specs when it runs.",
     "Use a combination that it knows, and reshard before or after.", "ONNX Runtime, contrib_ops/cuda/collective"},
    {"ORT_WRONG_RESULT", WARNING,
     "ONNX Runtime's kernel accepts this combination of specs, but its result is wrong, or there is none.",
     "Use another combination, and reshard before or after.", "ONNX Runtime, contrib_ops/cuda/collective"},
    {"ORT_OPERANDS", NOTE,
     "The specs of a Distributed* node's operands do not match each other by the rule of the operator. ONNX Runtime's "
     "kernel reshards an operand itself, or refuses.",
     "Nothing, when the kernel knows the combination.", "the operator's rule"},
    {"ORT_COMMUNICATION", NOTE,
     "What the specs of a Distributed* node make devices exchange, by the rule of the operator that it distributes. "
     "ONNX Runtime's kernel may take a longer way.",
     "Nothing.", "the operator's rule"},
    /* XLA's shardings in metadata */
    {"HLO_SHARDING_UNREADABLE", WARNING,
     "The metadata entry mhlo.sharding (or a module's mhlo.spmd_.. entry) is no sharding: neither text nor bytes of "
     "OpSharding.",
     "Write HloSharding text, or the bytes of OpSharding as an escaped string.", "StableHLO and XLA, OpSharding"},
    {"HLO_SHARDING_MISMATCH", WARNING,
     "A sharding in metadata does not fit its tensor: the rank, the number of elements of a tuple, or the devices.",
     "Write a sharding for the tensor as it is now.", "XLA, HloSharding::Validate"},
    {"SHARDING_METADATA_UNKNOWN", NOTE,
     "A metadata entry 'sharding' is not in XLA's notation; another program may know what it means.", "Nothing.",
     "metadata_props of ONNX"},
    {0},
};
