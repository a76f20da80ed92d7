"""Just enough of the ONNX wire format to check plans against; written apart from the C reader on purpose.

Field numbers: ModelProto.graph 7; GraphProto.node 1, initializer 5, input 11; NodeProto.input 1, output 2, name 3,
op_type 4, attribute 5, device_configurations 10; TensorProto.name 8; ValueInfoProto.name 1; AttributeProto.g 6,
graphs 11; NodeDeviceConfigurationProto.sharding_spec 2, pipeline_stage 3; ShardingSpecProto.tensor_name 1, device 2.
"""


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """The fields of one message as (number, value); bytes for length-delimited ones."""
    at, end = 0, len(data)
    while at < end:
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = data[at:at + size], at + size
        else:
            raise ValueError(f"wire type {kind} at {at}")
        yield tag >> 3, value


def text(data):
    return bytes(data).decode()


def names(message, number):
    return [text(value) for field, value in fields(message) if field == number]


def integers(value):
    """A repeated integer field's entry: one number, or a packed run of them."""
    if isinstance(value, int):
        return [value]
    result, at = [], 0
    while at < len(value):
        number, at = varint(value, at)
        result.append(number)
    return result


class Node:
    def __init__(self, message):
        self.inputs, self.outputs, self.stages, self.devices = [], [], [], set()
        self.op = self.name = ""
        for field, value in fields(message):
            if field == 1:
                self.inputs.append(text(value))
            elif field == 2:
                self.outputs.append(text(value))
            elif field == 3:
                self.name = text(value)
            elif field == 4:
                self.op = text(value)
            elif field == 5:
                # What the subgraphs of the node use by name counts as its input; their own names do no harm.
                for number, graph in fields(value):
                    if number in (6, 11):
                        for inner in Graph(graph).nodes:
                            self.inputs += inner.inputs
            elif field == 10:
                self.read_configuration(value)

    def read_configuration(self, message):
        for field, value in fields(message):
            if field == 3:
                self.stages.append(value)
            elif field == 2:
                for number, item in fields(value):
                    if number == 2:
                        self.devices.update(integers(item))


class Graph:
    def __init__(self, message):
        self.nodes, self.initializers, self.inputs = [], [], []
        for field, value in fields(message):
            if field == 1:
                self.nodes.append(Node(value))
            elif field == 5:
                self.initializers += names(value, 8)
            elif field == 11:
                self.inputs += names(value, 1)

    @classmethod
    def of_model(cls, path):
        with open(path, "rb") as file:
            data = memoryview(file.read())
        return cls(next(value for field, value in fields(data) if field == 7))
