"""Just enough of the ONNX wire format to check plans against; written apart from the C reader on purpose.

Field numbers: ModelProto.graph 7; GraphProto.node 1, initializer 5, input 11; NodeProto.input 1, output 2, name 3,
op_type 4, attribute 5, device_configurations 10; TensorProto.name 8; ValueInfoProto.name 1; AttributeProto.g 6,
graphs 11; NodeDeviceConfigurationProto.sharding_spec 2, pipeline_stage 3; ShardingSpecProto.tensor_name 1, device 2.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools"))

from wire_fields import fields, integers  # noqa: E402


def text(data):
    return bytes(data).decode()


def names(message, number):
    return [text(value) for field, value in fields(message) if field == number]


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
