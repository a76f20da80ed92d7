"""Indexes of plans, put together by hand: core/index/layout.h and index.h in Python."""
import struct

NONE = 0xFFFFFFFF
MAGIC, VERSION = b"shardsht", 2
TABLES = {"nodes": "8I5d", "tensors": "8I2d2Q", "collectives": "6I2d2Q", "findings": "6I2Q", "stages": "14I9d",
          "slices": "2d2I", "moments": "2d2I", "alive": "d4I", "operands": "I", "consumers": "I",
          "numbers": "I"}


def index(texts, summary="{}", line="", plan_size=1000, requests=3, **tables):
    """The bytes of a file; each table is a list of tuples."""
    parts = [b"".join(struct.pack("<" + form, *entry) for entry in tables.get(name, ()))
             for name, form in TABLES.items()]
    counts = [len(tables.get(name, ())) for name in TABLES]
    sizes = [struct.calcsize("<" + form) for form in TABLES.values()]
    for text in ("".join(text + "\0" for text in texts), summary, line):
        parts.append(text.encode())
        counts.append(len(parts[-1]))
        sizes.append(1)
    head = struct.pack("<8s2I2dQ14Q15I4x", MAGIC, VERSION, requests, 3.5, 2.0, plan_size, *counts, *sizes, 0)
    return head + b"".join(part + b"\0" * (-len(part) % 8) for part in parts)


def small(**changes):
    """Two stages on two devices each: a -> t -> b, with a weight w, a collective behind b, and a finding."""
    texts = ["enc/a", "enc/b", "MatMul", "t", "w", "S[0]R", "send", "all-reduce", "note", "CODE", "Said.", "gpu", "R"]
    at, offset = {}, 0
    for text in texts:
        at[text] = offset
        offset += len(text) + 1
    made = {
        "texts": texts,
        "nodes": [(at["enc/a"], at["MatMul"], 0, 0, 0, 1, 1, 0, 1.0, 0.0, 5.0, 6.0, 100.0),
                  (at["enc/b"], NONE, 1, 0, 2, 2, 0, 0, 1.0, 0.5, 5.0, 6.0, 100.0)],
        "tensors": [(at["t"], at["S[0]R"], 0, 1, 0, 0, 1, 0, 40.0, 20.0, 10, 20),
                    (at["w"], at["R"], 2, 0, NONE, 1, 2, 0, 100.0, 100.0, 31, 20)],
        "operands": [(1,), (0,), (0,), (1,)],
        "consumers": [(1,), (0,), (1,)],
        "collectives": [(at["send"], 0, 0, NONE, 0, 1, 40.0, 1.0, 60, 30),
                        (at["all-reduce"], NONE, 1, NONE, 1, NONE, 80.0, 0.5, 91, 30)],
        "findings": [(at["note"], at["CODE"], at["Said."], 1, NONE, 0, 130, 9)],
        "stages": [(0, 2, 1, at["gpu"], 1, 0, 2, 0, 1, 0, 2, 0, 1, 0, 0.0, 1.0, 1.0, 100.0, 0.0, 80.0, 40.0, 220.0, 1e3),
                   (2, 1, 2, at["gpu"], 1, 2, 3, 1, 1, 2, 1, 0, 1, 1, 2.0, 1.5, 2.0, 100.0, 0.0, 80.0, 40.0, 220.0, 1e3)],
        "slices": [(0.0, 1.0, 0, 0), (1.0, 2.0, 2, 0), (2.0, 3.0, 0, 1), (3.0, 3.5, 1, 1), (1.0, 2.0, 3, 0)],
        "moments": [(0.0, 40.0, 0, 0), (0.0, 40.0, 1, 0)],
        "alive": [(30.0, 0, NONE, 1, 0), (10.0, NONE, 0, 4, 0), (40.0, 0, NONE, 2, 0)],
        "summary": '{"plan":"1"}',
        "line": '"devices":4',
    }
    made.update(changes)
    return index(made.pop("texts"), **made)


STAGE = (0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, NONE, 1, 1) + (0.0,) * 9

INDEXES = {
    "small": small(),
    "one-stage": index(["x"], stages=[STAGE]),
    "no-stage": index([]),
    "same-devices": index(["x"], stages=[STAGE, STAGE]),
    "numbered": small(numbers=[(0,), (2,), (1,), (5,)]),
    "few-numbers": small(numbers=[(0,), (2,), (1,)]),
    "not-finite": small(moments=[(0.0, float("inf"), 0, 0), (0.0, 40.0, 1, 0)]),
    "no-such-node": small(consumers=[(1,), (0,), (2,)]),
    "not-ordered": small(consumers=[(1,), (1,), (0,)]),
    "same-consumer": small(consumers=[(1,), (1,), (1,)]),
    "no-such-tensor": small(operands=[(1,), (0,), (0,), (2,)]),
    "range-too-long": small(operands=[(1,), (0,), (0,)]),
    "outside-of-plan": small(plan_size=120),
    "no-text": small(texts=[]),
    "not-utf8": small().replace(b"enc/a", b"enc\xc3a"),
    "half-a-text": small(findings=[(1, 2, 3, 1, NONE, 0, 130, 9)]),
    "too-many-requests": small(requests=17),
    "truncated": small()[:-9],
    "text": b'{"plan":"1","estimate":{"latency_seconds":1},"tensors":[{"a":"]}\\""},{}],"stages":[{"i":0,"nodes":["a,"'
            b',"b"],"z":[]}],"collectives":[{"b":[{}]}],"diagnostics":[],"outline":{"x":[1]},"last":null}',
    "text-of-other-brackets": b'{"tensors":[[1}{2],{}]}',
    "text-of-other-form": b'[{"tensors":[{}],"estimate":7}] {"nodes"}',
}
