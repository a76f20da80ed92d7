#!/usr/bin/python3
"""Makes the models of this folder again. Only for making fixtures: nothing else needs these packages.

    apt-get install python3-torch python3-torchvision python3-onnx      (Debian 12: torch 1.13, torchvision 0.14)
    tests/data/make_models.py

resnet50.onnx, vit_l_16.onnx: real exports of torchvision's models; every tensor of 1 KiB or more is declared as external
data that is not there, so only the graph is kept. transformer_tiny.onnx: complete, runs in any ONNX runtime.
"""
import os
import tempfile

import onnx
import torch
import torchvision

HERE = os.path.dirname(os.path.abspath(__file__))
OPSET = 16
KEEP_BYTES = 1024  # smaller tensors stay inside: shapes and scalars that shape inference needs


class TinyTransformer(torch.nn.Module):
    """An encoder of two layers over token ids: embedding, attention, feed-forward, a classifier over the vocabulary."""

    def __init__(self, vocabulary=96, width=32, heads=4, layers=2, length=16):
        super().__init__()
        self.heads = heads
        self.tokens = torch.nn.Embedding(vocabulary, width)
        self.positions = torch.nn.Parameter(torch.randn(length, width) * 0.1)
        linear = torch.nn.Linear
        self.layers = torch.nn.ModuleList()
        for _ in range(layers):
            self.layers.append(torch.nn.ModuleDict({
                "norm1": torch.nn.LayerNorm(width), "qkv": linear(width, 3 * width), "out": linear(width, width),
                "norm2": torch.nn.LayerNorm(width), "up": linear(width, 4 * width), "down": linear(4 * width, width)}))
        self.norm = torch.nn.LayerNorm(width)
        self.head = linear(width, vocabulary)

    def attend(self, layer, x):
        batch, length, width = x.shape
        qkv = layer["qkv"](x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        weights = torch.softmax(q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5, -1)
        return layer["out"]((weights @ v).transpose(1, 2).reshape(batch, length, width))

    def forward(self, ids):
        x = self.tokens(ids) + self.positions
        for layer in self.layers:
            x = x + self.attend(layer, layer["norm1"](x))
            x = x + layer["down"](torch.nn.functional.gelu(layer["up"](layer["norm2"](x))))
        return self.head(self.norm(x))


def export(module, inputs, name, input_name):
    module.eval()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        torch.onnx.export(module, inputs, path, opset_version=OPSET, input_names=[input_name],
                          output_names=["logits"])
        model = onnx.load(path)
    return model, os.path.join(HERE, name + ".onnx")


def drop_weights(model, location):
    """Declares the large tensors as external data and forgets their bytes."""
    offset = 0
    for tensor in model.graph.initializer:
        size = len(tensor.raw_data)
        if size < KEEP_BYTES:
            continue
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", offset), ("length", size)):
            tensor.external_data.add(key=key, value=str(value))
        offset += size


def main():
    torch.manual_seed(0)
    vision = ((torchvision.models.resnet50, "resnet50", 8), (torchvision.models.vit_l_16, "vit_l_16", 4))
    for make, name, batch in vision:
        model, path = export(make(weights=None), torch.zeros(batch, 3, 224, 224), name, "image")
        drop_weights(model, name + ".weights")
        onnx.save(model, path)
    model, path = export(TinyTransformer(), torch.zeros(2, 16, dtype=torch.int64), "transformer_tiny", "ids")
    onnx.save(model, path)


if __name__ == "__main__":
    main()
