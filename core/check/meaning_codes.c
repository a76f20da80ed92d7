/* Shardings against the operators' rules: the table. */
#include "check/diagnostic.h"

#define NOTE    SP_SEVERITY_NOTE
#define WARNING SP_SEVERITY_WARNING
#define ERROR   SP_SEVERITY_ERROR

const struct sp_diagnostic_code sp_codes_meaning[] = {
    /* operands of one node */
    {"OPERANDS_SPLIT_DIFFERENTLY", ERROR,
     "Two operands of a node split what is one loop of the operator in different ways, or put its shards on different "
     "devices, so that no device has matching pieces.",
     "Split both operands in the same way, with the same devices for the same shards; a producer may still hand its "
     "result over in another way.",
     "ONNX proposal 0007, broadcast and MatMul-like operators"},
    {"OPERAND_NOT_SPLIT", ERROR,
     "One operand of a node splits a loop of the operator, another that has the same loop is stated whole.",
     "Split the other operand in the same way, or leave its spec away: then each device takes the piece that it needs.",
     "ONNX proposal 0007, broadcast and MatMul-like operators"},
    {"OPERAND_NOT_ON_DEVICE", ERROR, "A device takes part in a node, but an operand that it needs is not there.",
     "Replicate the operand on all devices of the node.", "ONNX proposal 0007, broadcast axes"},
    {"DEVICES_DO_NOT_MEET", ERROR,
     "Some part of a node's result is computed from shards that no device has together: the intersection of their "
     "devices is empty.",
     "Place the shards so that each combination of them is on some device.",
     "ONNX proposal 0007, composition of devices"},
    {"AXIS_NEEDED_WHOLE", WARNING,
     "An axis is split that the operator needs whole on each device. The runtime must gather it first.",
     "Split another axis, or state the operand whole.", "ONNX proposal 0007, operators that are not supported"},
    {"CUT_BETWEEN_FACTORS", WARNING,
     "The operator works on an axis as several loops (a Reshape that splits or joins axes), or in blocks that belong "
     "together (an attention head, a block of quantised values), and the cut does not fall between them.",
     "Split the axis so that whole loops and blocks go to devices, or use several simple_shardings.",
     "ONNX proposal 0007; onnx.proto, ShardedDimProto.simple_sharding"},
    {"SHARDS_NOT_REGULAR", WARNING,
     "A device holds several shards of an operand that are no regular part of the tensor, so that what follows from it "
     "was not looked at.",
     "Give each device one shard.", "onnx.proto, ShardingSpecProto.device"},
    {"SPEC_FOR_SEVERAL_OPERANDS", NOTE,
     "A tensor is more than one operand of a node, and the operator does different things with them. A spec names the "
     "tensor, so it is for both.",
     "Copy the tensor with an Identity where the two need different shardings.", "ONNX proposal 0006"},
    /* communication */
    {"RESHARD", NOTE,
     "A node takes a tensor in another sharding than the one that it is made in: the runtime moves the pieces.",
     "Nothing, where that is meant; otherwise state the same sharding at both nodes.", "ONNX proposal 0007"},
    {"OUTPUT_RESHARD", NOTE,
     "A node's output is stated in another sharding than follows from its inputs: the runtime moves the pieces after "
     "it has computed them.",
     "Nothing, where that is meant; otherwise leave the output's spec away.", "ONNX proposal 0007"},
    {"REDUCTION", NOTE,
     "A loop that the operator sums over (or takes the maximum of) is split, so that devices hold partial results: the "
     "node ends with an all-reduce, or a reduce-scatter where its output is split.",
     "Nothing, where that is meant.", "ONNX proposal 0007, reductions"},
    {"HALO_EXCHANGE", NOTE,
     "Devices need elements that their neighbours hold: windows reach over the borders of shards.",
     "Nothing, where that is meant; splitting another axis avoids it.", "the operator's rule"},
    {"GATHER", NOTE, "An axis that is split is gathered on each device before the node runs.", "Split another axis.",
     "the operator's rule"},
    {"INPUT_SHARDED", NOTE,
     "A model input is used in pieces. The format cannot say that an input arrives in pieces, so the runtime "
     "distributes it.",
     "Nothing; a runtime may take inputs in pieces by other means.", "ONNX proposal 0007, future work"},
    {"OUTPUT_SHARDED", NOTE, "A model output is made in pieces. The format cannot say in which form it is handed out.",
     "Add a spec that gathers the output, if it must be whole.", "ONNX proposal 0007, future work"},
    {"STATE_RESHARD", WARNING,
     "An output that the next step takes as an input, a cache of keys or a hidden state, is made in another sharding, "
     "or "
     "on other devices, than it is taken in, or is split along an axis that each step makes longer: a loop moves it "
     "between any two steps.",
     "State the same sharding where it is made and where it is taken, on the same devices; split a cache along its "
     "sequences or heads.",
     "ONNX Runtime GenAI, past and present names of genai_config.json"},
    /* stages */
    {"STAGE_BACKWARDS", WARNING,
     "A node is in an earlier pipeline stage than a node whose result it uses. A pipeline runs in one direction.",
     "Move the node to the stage of its producer or a later one.",
     "onnx.proto, NodeDeviceConfigurationProto.pipeline_stage"},
    {"STAGE_SKIPPED", NOTE,
     "A tensor goes from one pipeline stage to a stage that is not the next: it must be kept or passed on while the "
     "stages between run.",
     "Nothing, where that is meant.", "onnx.proto, NodeDeviceConfigurationProto.pipeline_stage"},
    {"STAGE_MISSING", NOTE,
     "Some nodes have a pipeline stage and others have none, so that it is open where these run.",
     "Give each node a stage.", "onnx.proto, NodeDeviceConfigurationProto.pipeline_stage"},
    {"STAGE_DEVICES_DIFFER", NOTE,
     "Nodes of one pipeline stage are on different devices. That is allowed, but most runtimes give a stage one set of "
     "devices.",
     "Nothing, where that is meant.", "onnx.proto, NodeDeviceConfigurationProto.pipeline_stage"},
    /* memory */
    {"MEMORY_TOO_SMALL", ERROR,
     "What a device must hold at once, its weights and the operands of its largest node, is more than its memory.",
     "Split the largest weights, or use more devices.", "the specs, and the memory that was given"},
    /* the check itself */
    {"NOT_LOOKED_AT", NOTE,
     "A part of the annotations is sound, but what it means was not looked at: a shape is not known, or there is too "
     "much to compare.",
     "Nothing; the finding says what was left out.", "base/limits.h"},
    {0},
};
