#!/usr/bin/env python3
"""inputs.py FOLDER: what the model target is run on besides the corpus: hostile files, and damaged real models.

The damage is the same every time: bytes overwritten, removed, doubled and exchanged, in places that a fixed sequence
chooses.
"""
import itertools
import os
import random
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/tools"))
import hostile  # noqa: E402

PER_MODEL = 150
INTERESTING = (0, 1, 2, 0x7F, 0x80, 0xFF)


def damage(data, chance):
    data = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(data))
        length = chance.choice((1, 2, 8, 64))
        kind = chance.randrange(4)
        if kind == 0:
            data[at] = chance.choice(INTERESTING)
        elif kind == 1:
            del data[at:at + length]
        elif kind == 2:
            data[at:at] = data[at:at + length]
        else:
            other = chance.randrange(len(data))
            data[at], data[other] = data[other], data[at]
    return bytes(data)


def main(folder):
    for case, data in itertools.chain(hostile.cases(), hostile.wrong_models(), hostile.unplannable()):
        with open(os.path.join(folder, f"hostile-{case}"), "wb") as file:
            file.write(data)
    models = os.path.join(TOP, "tests/data")
    for name in ("resnet50.onnx", "transformer_tiny.onnx"):
        with open(os.path.join(models, name), "rb") as file:
            data = file.read()
        chance = random.Random(name)
        for index in range(PER_MODEL):
            with open(os.path.join(folder, f"damaged-{name}-{index:03}"), "wb") as file:
                file.write(damage(data, chance))


if __name__ == "__main__":
    main(sys.argv[1])
