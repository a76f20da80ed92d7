/* The structure of multi-device data: the table. */
#include "check/diagnostic.h"

#define NOTE    SP_SEVERITY_NOTE
#define WARNING SP_SEVERITY_WARNING
#define ERROR   SP_SEVERITY_ERROR

const struct sp_diagnostic_code sp_codes_annotations[] = {
    /* the model */
    {"IR_VERSION_TOO_LOW", ERROR,
     "The model has device configurations or annotated nodes, but its ir_version is below 11, where these fields do "
     "not exist.",
     "Raise ir_version to 11 (`shardplan infer` and `plan` do it when they write a model).",
     "docs/IR.md, multi-device; onnx.proto, Version"},
    {"CONFIGURATION_UNNAMED", ERROR,
     "A device configuration of the model has no name. The name is how nodes refer to it, and must be present.",
     "Give the configuration a name of its own.", "onnx.proto, DeviceConfigurationProto.name"},
    {"CONFIGURATION_TWICE", ERROR,
     "Two device configurations of the model have one name, so that an annotation does not say which it is for.",
     "Rename one of them, and the annotations that are for it.", "onnx.proto, DeviceConfigurationProto.name"},
    {"NUM_DEVICES_MISSING", ERROR,
     "A device configuration does not say how many devices it has. The number must be present.", "Set num_devices.",
     "onnx.proto, DeviceConfigurationProto.num_devices"},
    {"NUM_DEVICES_INVALID", ERROR, "A device configuration has no devices, or a negative number of them.",
     "Set num_devices to the number of devices, 1 or more.", "onnx.proto, DeviceConfigurationProto.num_devices"},
    {"DEVICE_NAMES_COUNT", ERROR,
     "Names of devices are optional, but where they are given there must be as many as devices.",
     "Give one name for each device, or none.", "onnx.proto, DeviceConfigurationProto.device"},
    {"DEVICE_NAME_TWICE", WARNING,
     "Two devices of a configuration have one name. Devices are told apart by their numbers, but whoever maps names to "
     "hardware will put both on one.",
     "Give each device a name of its own.", "onnx.proto, DeviceConfigurationProto.device"},
    {"CONFIGURATION_UNUSED", NOTE,
     "No node says a sharding or a pipeline stage for this configuration: it describes devices and nothing more.",
     "Annotate the model for it (`shardplan plan`), or remove it.", "docs/IR.md, multi-device"},
    {"CONFIGURATIONS_LOST", ERROR,
     "Nodes are annotated, but the model has no device configuration. Tools that build a new model out of nodes "
     "(merging, extracting a part, converting the version) drop the configurations and keep the annotations.",
     "Copy the DeviceConfigurationProto from the model that the nodes came from, or remove the annotations with "
     "`shardplan strip`.",
     "onnx.proto, NodeDeviceConfigurationProto.configuration_id"},
    /* a node's entry for a configuration */
    {"CONFIGURATION_ID_MISSING", ERROR,
     "A node's device configuration does not say which configuration of the model it is for. The id must be present.",
     "Set configuration_id to the name of a configuration of the model.",
     "onnx.proto, NodeDeviceConfigurationProto.configuration_id"},
    {"CONFIGURATION_UNKNOWN", ERROR, "A node is annotated for a configuration that the model does not have.",
     "Set configuration_id to the name of one of the model's configurations, or add the configuration to the model.",
     "onnx.proto, NodeDeviceConfigurationProto.configuration_id"},
    {"ENTRY_TWICE", ERROR,
     "A node has two device configurations with one configuration_id, so that it is open which one counts.",
     "Merge them into one.", "onnx.proto, NodeProto.device_configurations"},
    {"ENTRY_EMPTY", NOTE,
     "A node's device configuration says neither a pipeline stage nor a sharding, so it means nothing.", "Remove it.",
     "onnx.proto, NodeDeviceConfigurationProto"},
    {"STAGE_NEGATIVE", ERROR, "Pipeline stages are numbered from 0.",
     "Number the stages from 0, in the order of execution.", "onnx.proto, NodeDeviceConfigurationProto.pipeline_stage"},
    /* a spec and its tensor */
    {"TENSOR_NAME_MISSING", ERROR, "A sharding spec does not say which tensor it is for. The name must be present.",
     "Set tensor_name to an input or output of the node.", "onnx.proto, ShardingSpecProto.tensor_name"},
    {"TENSOR_NOT_OF_NODE", ERROR,
     "A sharding spec names a tensor that is neither an input nor an output of its node. Most often the tensor was "
     "renamed (a prefix, inlining of a function) after it was annotated.",
     "Set tensor_name to the name that the node's input or output has now.",
     "onnx.proto, ShardingSpecProto.tensor_name"},
    {"SPEC_TWICE", ERROR,
     "A node has two sharding specs for one tensor in one configuration, so that it is open which one counts. Where "
     "the tensor is an operand twice, one spec is for both.",
     "Keep one of them.", "onnx.proto, NodeDeviceConfigurationProto.sharding_spec"},
    {"NOT_A_TENSOR", ERROR,
     "A sharding spec is for a sequence, map or optional. Only tensors have axes that can be split.",
     "Remove the spec.", "onnx.proto, ShardingSpecProto"},
    /* axes */
    {"SCALAR_SHARDED", ERROR, "A spec splits an axis of a scalar, which has none.",
     "Remove the sharded_dim; a scalar is whole on all devices of the spec.", "onnx.proto, ShardedDimProto.axis"},
    {"AXIS_OUT_OF_RANGE", ERROR,
     "A spec splits an axis that the tensor does not have. Axes go from -rank to rank - 1; negative ones count from "
     "the back.",
     "Set axis to an axis of the tensor.", "onnx.proto, ShardedDimProto.axis"},
    {"AXIS_TWICE", ERROR, "A spec splits one axis twice. The axes 0 and -rank are the same one.",
     "Write one sharded_dim for each axis; to split an axis in several ways, give that one several simple_shardings.",
     "onnx.proto, ShardingSpecProto.sharded_dim"},
    {"AXIS_ABSENT", NOTE,
     "The axis of a sharded_dim is absent. It must be present, but proto3 writers cannot write the number 0, so it is "
     "read as axis 0.",
     "Nothing, when axis 0 is meant; a proto2 writer should write it.", "onnx.proto, ShardedDimProto.axis"},
    {"AXES_NOT_ASCENDING", NOTE,
     "The axes of a spec are not listed in ascending order. The texts show ascending lists only; Shardplan numbers "
     "shards in the order of the list, the first axis outermost, and another program may number them in the order of "
     "axes.",
     "List the axes in ascending order, and the devices to fit.", "ONNX proposal 0006"},
    {"SIMPLE_SHARDING_MISSING", ERROR, "A sharded_dim names an axis but not how it is split.",
     "Add a simple_sharding with num_shards, or remove the sharded_dim.",
     "onnx.proto, ShardedDimProto.simple_sharding"},
    {"NUM_SHARDS_MISSING", ERROR,
     "A simple_sharding does not say in how many shards it splits. The number must be present.", "Set num_shards.",
     "onnx.proto, SimpleShardedDimProto.num_shards"},
    {"NUM_SHARDS_INVALID", ERROR, "A number of shards is 0 or negative.", "Set num_shards to 1 or more.",
     "onnx.proto, SimpleShardedDimProto.num_shards"},
    {"SHARDS_TOO_MANY", ERROR, "The numbers of shards of a tensor multiply to more than any number of devices.",
     "Lower num_shards.", "onnx.proto, SimpleShardedDimProto.num_shards"},
    {"DIM_VALUE_INVALID", ERROR,
     "The dim_value of a simple_sharding is the extent that it splits, and must be positive.",
     "Set dim_value to the extent, or leave it away.", "onnx.proto, SimpleShardedDimProto.dim_value"},
    {"DIM_VALUE_MISMATCH", ERROR,
     "The dim_value of a simple_sharding is not the extent of the axis, so that one of them is wrong.",
     "Set dim_value to the extent of the axis, or leave it away.", "onnx.proto, SimpleShardedDimProto.dim_value"},
    {"DIM_PRODUCT_MISMATCH", ERROR,
     "An axis with several simple_shardings is seen as a grid of their extents, which must multiply to the extent of "
     "the axis.",
     "Set the dim_values so that they multiply to the extent of the axis.",
     "onnx.proto, ShardedDimProto.simple_sharding"},
    {"DIMS_OPEN", ERROR,
     "Several simple_shardings of one axis leave their extent open. One can be worked out from the extent of the axis, "
     "more cannot.",
     "Give all simple_shardings of the axis but one a dim_value.", "onnx.proto, ShardedDimProto.simple_sharding"},
    {"DIM_PARAM_UNKNOWN", NOTE,
     "The dim_param of a simple_sharding is a symbol that no shape of the model uses, so it says nothing.",
     "Use the symbol of the axis, or leave dim_param away.", "docs/IR.md, static tensor shapes"},
    {"DIM_PARAM_MISMATCH", WARNING,
     "The dim_param of a simple_sharding stands for another number than the extent of the axis.",
     "Use the symbol of the axis, or leave dim_param away.", "docs/IR.md, static tensor shapes"},
    {"DIM_PARAM_OTHER", NOTE,
     "The dim_param of a simple_sharding is another symbol than the extent of the axis. They may be the same number, "
     "but nothing says so.",
     "Use the symbol of the axis, or leave dim_param away.", "docs/IR.md, static tensor shapes"},
    {"SHARDS_UNEVEN", WARNING,
     "The number of shards does not divide the extent. This is allowed, but what a backend does with it is open: "
     "Shardplan and XLA use blocks of ceil(extent / shards), ONNX Runtime refuses.",
     "Use a number of shards that divides the extent where that is possible.", "ONNX proposal 0006"},
    {"SHARDS_EMPTY", WARNING,
     "Some shards have no elements: there are too many of them for the extent. This is allowed, but some devices hold "
     "nothing.",
     "Use fewer shards.", "ONNX proposal 0006"},
    /* devices */
    {"PLACEMENT_OPEN", WARNING,
     "A spec says how a tensor is split, but not on which devices. ir-py writes such specs when it is given no device "
     "indices.",
     "List one device or group for each shard; `shardplan infer` fills the list.",
     "onnx.proto, ShardingSpecProto.device"},
    {"DEVICE_OUT_OF_RANGE", ERROR,
     "A spec names a device that its configuration does not have: devices are numbered from 0 to num_devices - 1.",
     "Use a device of the configuration, or raise num_devices.", "onnx.proto, ShardingSpecProto.device"},
    {"GROUP_MISSING", ERROR,
     "A negative number in a device list stands for a group of devices, but index_to_device_group_map has no entry for "
     "it.",
     "Add the group's entry, or name a device.", "onnx.proto, ShardingSpecProto.index_to_device_group_map"},
    {"DEVICES_TOO_FEW", ERROR,
     "A device list has fewer entries than the tensor has shards, so that some shards are nowhere.",
     "List one device or group for each shard.", "ONNX proposal 0006"},
    {"DEVICES_TOO_MANY", ERROR,
     "A device list has more entries than the tensor has shards. A shard that is on several devices is written as one "
     "entry, a group.",
     "List one device or group for each shard.", "ONNX proposal 0006"},
    {"DEVICE_HOLDS_TWO_SHARDS", WARNING,
     "One device holds several shards of a tensor that are apart, or every device holds as many. That is allowed (ONNX "
     "Runtime's reshape makes use of it), but it is often a slip, and not every backend supports it. Devices 0, 0, 0, "
     "1 "
     "are not reported: device 0 has a larger share of the axis, in one piece.",
     "Put each shard on a device of its own, if this was not meant.", "onnx.proto, ShardingSpecProto.device"},
    {"DEVICE_LISTED_TWICE", WARNING,
     "A device is listed more than once for a tensor that is not split. It holds the tensor once.",
     "List each device once.", "onnx.proto, ShardingSpecProto.device"},
    {"PLACEMENT_TOO_LARGE", ERROR,
     "With its groups, a spec names more devices than can be listed (limit SP_MAX_LISTED_DEVICES), or the specs of the "
     "model together (limit SP_FREE_GROUP_DEVICES, and one more for each byte of the file).",
     "Split the tensor over fewer devices.", "base/limits.h"},
    {"GROUP_KEY_TWICE", ERROR, "A key stands for two groups of devices in one spec. Keys of a map must differ.",
     "Give each group a key of its own.", "onnx.proto, IntIntListEntryProto"},
    {"GROUP_EMPTY", ERROR, "A group of devices has no members, so that its shard is nowhere.",
     "List the devices of the group.", "onnx.proto, IntIntListEntryProto"},
    {"GROUP_NESTED", ERROR, "A member of a group is itself the key of a group. Groups hold devices only.",
     "List the devices of the inner group instead.", "onnx.proto, ShardingSpecProto.index_to_device_group_map"},
    {"GROUP_MEMBER_OUT_OF_RANGE", ERROR, "A member of a group is no device of the configuration.",
     "Use devices from 0 to num_devices - 1.", "onnx.proto, ShardingSpecProto.index_to_device_group_map"},
    {"GROUP_MEMBER_TWICE", WARNING, "A group lists a device more than once. It counts once.", "List each device once.",
     "onnx.proto, IntIntListEntryProto"},
    {"GROUP_UNUSED", NOTE, "A group of devices is defined for a spec whose device list does not use it.",
     "Remove the group, or use it.", "onnx.proto, ShardingSpecProto.index_to_device_group_map"},
    {"GROUP_KEY_IS_DEVICE", NOTE,
     "The key of a group is also the number of a device. In the device list it stands for the group, since an entry of "
     "the map wins; a reader may take it for the device.",
     "Use negative keys for groups.", "onnx.proto, ShardingSpecProto.index_to_device_group_map"},
    {"GROUP_SPELLED_TWICE", NOTE, "Two groups of one spec have the same members.", "Use one group for both.",
     "onnx.proto, ShardingSpecProto.index_to_device_group_map"},
    {0},
};
