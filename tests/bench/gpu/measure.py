#!/usr/bin/env python3
"""Measures kernels and whole models on the first CUDA device of this machine, with PyTorch.

    python3 measure.py OUT.json [--parts WORD ...] [--seconds N]

Needs PyTorch with CUDA (2.9 or newer for all parts) and nothing of ours. Takes about three minutes. Writes OUT.json after
each part: {"device", "torch", "cuda", "date", "rows": [..], "failed": [..]}; a part that fails is named there with its
sentence, and the others are measured.

Each row is {"part", "name", "dtype", .. what it measured .., "seconds"}. Seconds are those of one call of the kernels named,
on the device: the calls stand in one CUDA graph, one behind the other, each with tensors of its own until these are three
times as large as the L2 cache, and the graph is replayed; the median of nine replays counts. Tensors hold random numbers,
since products of zeros are quicker. Rows with "eager": true are timed by the clock of the host, without a graph.
"""
import argparse
import datetime
import functools
import json
import math
import statistics
import sys
import time

import torch
import torch.nn.functional as F

SAMPLES = 9
SAMPLE_SECONDS = 0.012
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32,
          "float8e4m3fn": torch.float8_e4m3fn}


class Recorder:
    """Rows and failures, written to a file whenever a part ends."""

    def __init__(self, path, seconds):
        self.path = path
        self.end = time.monotonic() + seconds
        properties = torch.cuda.get_device_properties(0)
        self.l2_bytes = getattr(properties, "L2_cache_size", 50 << 20)
        self.data = {"device": properties.name, "torch": torch.__version__, "cuda": torch.version.cuda,
                     "date": datetime.date.today().isoformat(), "units": properties.multi_processor_count,
                     "memory_bytes": properties.total_memory, "l2_bytes": self.l2_bytes, "rows": [], "failed": []}

    def late(self):
        return time.monotonic() > self.end

    def add(self, part, name, seconds, **what):
        self.data["rows"].append({"part": part, "name": name, **what, "seconds": float(f"{seconds:.4g}")})

    def attempt(self, what, function, *arguments, **named):
        """One row, or what went wrong with it."""
        if self.late():
            self.data["failed"].append({"what": what, "why": "no time left"})
            return
        try:
            function(*arguments, **named)
        except Exception as error:  # whatever it is, the other rows count
            torch.cuda.synchronize()
            self.data["failed"].append({"what": what, "why": f"{type(error).__name__}: {error}"[:300]})

    def write(self):
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(self.data, file, indent=1)
        print(f"{len(self.data['rows'])} rows, {len(self.data['failed'])} failed, {self.end - time.monotonic():.0f} s left",
              flush=True)


def in_graph(calls, least=20):
    """Seconds of one of the calls, in a CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for call in calls[:2] + calls[:1]:
            call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    rounds = math.ceil(least / len(calls))
    with torch.cuda.graph(graph):
        for _ in range(rounds):
            for call in calls:
                call()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def replayed(count):
        begin.record()
        for _ in range(count):
            graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3 / count
    once = replayed(2)
    count = max(1, min(200, round(SAMPLE_SECONDS / once)))
    seconds = statistics.median(replayed(count) for _ in range(SAMPLES))
    return seconds / (rounds * len(calls))


def by_clock(call, count=50):
    """Seconds of one call by the host's clock, the device's work included."""
    for _ in range(5):
        call()
    samples = []
    for _ in range(5):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            call()
        torch.cuda.synchronize()
        samples.append((time.perf_counter() - begin) / count)
    return statistics.median(samples)


def copies(recorder, byte_count, most=64):
    """How many sets of tensors do not stay in the cache."""
    return max(1, min(most, math.ceil(3 * recorder.l2_bytes / byte_count)))


def drawn(shape, dtype, scale=1.0):
    tensor = torch.randn(shape, device="cuda", dtype=torch.bfloat16 if dtype.itemsize == 1 else dtype) * scale
    return tensor.to(dtype)


# Products

PRODUCTS = ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (1280, 8192), (7168, 8192), (8192, 3584),
            (128256, 4096), (8192, 8192), (2048, 1024))
ROWS = (1, 4, 16, 64, 256, 1024, 4096)


def measure_product(recorder, dtype, m, n, k):
    bytes_of = DTYPES[dtype].itemsize
    sets = copies(recorder, (m * k + n * k) * bytes_of + 2 * m * n)
    scale = torch.tensor(0.5, device="cuda")
    calls = []
    for _ in range(sets):
        a, b = drawn((m, k), DTYPES[dtype]), drawn((n, k), DTYPES[dtype], 0.05)
        if bytes_of == 1:
            calls.append(functools.partial(torch._scaled_mm, a, b.t(), scale_a=scale, scale_b=scale,
                                           out_dtype=torch.bfloat16))
        else:
            calls.append(functools.partial(torch.mm, a, b.t()))
    recorder.add("products", "product", in_graph(calls), dtype=dtype, m=m, n=n, k=k)


def products(recorder):
    for dtype in ("bfloat16", "float8e4m3fn"):
        for n, k in PRODUCTS:
            for m in ROWS:
                if m * n < 4e8:
                    recorder.attempt(f"product {dtype} {m} {n} {k}", measure_product, recorder, dtype, m, n, k)
    for dtype in ("float16", "float32"):
        for m, n, k in ((16, 4096, 4096), (256, 4096, 4096), (4096, 4096, 4096), (1024, 768, 3072)):
            recorder.attempt(f"product {dtype} {m} {n} {k}", measure_product, recorder, dtype, m, n, k)
    torch.backends.cuda.matmul.allow_tf32 = True
    for m, n, k in ((16, 4096, 4096), (256, 4096, 4096), (4096, 4096, 4096), (1024, 768, 3072)):
        recorder.attempt(f"product tf32 {m} {n} {k}", measure_tf32, recorder, m, n, k)
    torch.backends.cuda.matmul.allow_tf32 = False


def measure_tf32(recorder, m, n, k):
    sets = copies(recorder, 4 * (m * k + n * k + m * n))
    calls = [functools.partial(torch.mm, drawn((m, k), torch.float32), drawn((n, k), torch.float32).t())
             for _ in range(sets)]
    recorder.add("products", "product", in_graph(calls), dtype="tf32", m=m, n=n, k=k)


# Attention

def backends():
    from torch.nn.attention import SDPBackend
    return (("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION))


def measure_prefill(recorder, name, backend, batch, heads, kv_heads, tokens):
    from torch.nn.attention import sdpa_kernel
    q = drawn((batch, heads, tokens, 128), torch.bfloat16)
    k, v = (drawn((batch, kv_heads, tokens, 128), torch.bfloat16) for _ in range(2))

    def call():
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != kv_heads)
    recorder.add("attention", "prefill", in_graph([call]), kernel=name, dtype="bfloat16", batch=batch, heads=heads,
                 kv_heads=kv_heads, head_dim=128, queries=tokens, keys=tokens)


def measure_decode(recorder, name, backend, batch, heads, kv_heads, keys):
    """One new token of each sequence. Queries of the heads that share keys stand side by side, as model servers have it."""
    from torch.nn.attention import sdpa_kernel
    sets = copies(recorder, 4 * batch * kv_heads * keys * 128)
    calls = []
    for _ in range(sets):
        q = drawn((batch, kv_heads, heads // kv_heads, 128), torch.bfloat16)
        k, v = (drawn((batch, kv_heads, keys, 128), torch.bfloat16) for _ in range(2))

        def call(q=q, k=k, v=v):
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v)
        calls.append(call)
    recorder.add("attention", "decode", in_graph(calls), kernel=name, dtype="bfloat16", batch=batch, heads=heads,
                 kv_heads=kv_heads, head_dim=128, queries=1, keys=keys)


def attention(recorder):
    for name, backend in backends():
        for heads, kv_heads in ((32, 8), (8, 1), (32, 32)):
            for batch, tokens in ((1, 128), (1, 512), (1, 2048), (1, 8192), (8, 512), (8, 2048)):
                recorder.attempt(f"prefill {name} {batch} {heads} {kv_heads} {tokens}", measure_prefill, recorder, name,
                                 backend, batch, heads, kv_heads, tokens)
        for heads, kv_heads in ((32, 8), (8, 1), (32, 32)):
            for batch, keys in ((1, 512), (1, 4096), (1, 32768), (8, 1024), (8, 8192), (64, 1024), (64, 4096)):
                recorder.attempt(f"decode {name} {batch} {heads} {kv_heads} {keys}", measure_decode, recorder, name,
                                 backend, batch, heads, kv_heads, keys)


# Experts

EXPERTS = {"mixtral-8x7b": (8, 2, 4096, 14336), "qwen3-30b-a3b": (128, 8, 2048, 768),
           "deepseek-v3": (256, 8, 7168, 2048)}


def measure_experts(recorder, name, tokens, weights):
    """The experts of one layer, routes given: two grouped products, the gate between, and the sum by token."""
    count, most, hidden, inner = EXPERTS[name]
    up, down = weights
    calls, products_only, hit = [], [], []
    for _ in range(8):
        routes = torch.rand((tokens, count), device="cuda").topk(most).indices.flatten()
        order = routes.argsort()
        ends = torch.bincount(routes, minlength=count).cumsum(0).to(torch.int32)
        hit.append(routes.unique().numel())
        of_token = order // most
        shares = torch.rand((tokens * most, 1), device="cuda", dtype=torch.bfloat16)
        x = drawn((tokens, hidden), torch.bfloat16)
        out = torch.zeros_like(x)

        def call(x=x, ends=ends, of_token=of_token, shares=shares, out=out):
            both = torch._grouped_mm(x[of_token], up, offs=ends)
            gate, value = both.chunk(2, -1)
            y = torch._grouped_mm(F.silu(gate) * value, down, offs=ends)
            return out.zero_().index_add_(0, of_token, y * shares)
        rows, gated = drawn((tokens * most, hidden), torch.bfloat16), drawn((tokens * most, inner), torch.bfloat16)

        def two(rows=rows, gated=gated, ends=ends):
            torch._grouped_mm(rows, up, offs=ends)
            torch._grouped_mm(gated, down, offs=ends)
        calls.append(call)
        products_only.append(two)
    what = {"dtype": "bfloat16", "tokens": tokens, "experts": count, "per_token": most, "hidden": hidden, "inner": inner,
            "hit": sum(hit) / len(hit)}
    recorder.add("experts", "experts", in_graph(calls, 8), model=name, **what)
    recorder.add("experts", "experts, products alone", in_graph(products_only, 8), model=name, **what)


def experts(recorder):
    for name, (count, _, hidden, inner) in EXPERTS.items():
        weights = None
        try:
            weights = (torch.empty((count, hidden, 2 * inner), device="cuda", dtype=torch.bfloat16),
                       torch.empty((count, inner, hidden), device="cuda", dtype=torch.bfloat16))
            for weight in weights:
                for one in weight:
                    one.normal_(0, 0.02)
            # as servers hold them: the inner dimension of each product is contiguous
            weights = tuple(weight.view(count, weight.shape[2], weight.shape[1]).transpose(1, 2) for weight in weights)
        except Exception as error:
            recorder.data["failed"].append({"what": f"experts {name}", "why": str(error)[:300]})
            continue
        for tokens in (1, 8, 64, 512, 4096):
            recorder.attempt(f"experts {name} {tokens}", measure_experts, recorder, name, tokens, weights)
        del weights
        torch.cuda.empty_cache()


# Operators that memory binds

def measure_operator(recorder, name, tokens, width, function, inputs):
    """FUNCTION of INPUTS tensors of tokens x width."""
    sets = copies(recorder, 2 * (inputs + 1) * tokens * width)
    calls = []
    for _ in range(sets):
        tensors = [drawn((tokens, width), torch.bfloat16) for _ in range(inputs)]
        calls.append(functools.partial(function, *tensors))
    recorder.add("operators", name, in_graph(calls), dtype="bfloat16", tokens=tokens, width=width)


def operators(recorder):
    for width in (4096, 14336):
        weight = torch.ones(width, device="cuda", dtype=torch.bfloat16)
        bias = torch.zeros(width, device="cuda", dtype=torch.bfloat16)
        kinds = (("add", torch.add, 2), ("gelu", F.gelu, 1), ("sigmoid", torch.sigmoid, 1),
                 ("rms_norm", lambda x, w=weight: F.rms_norm(x, (w.numel(),), w, 1e-5), 1),
                 ("layer_norm", lambda x, w=weight, b=bias: F.layer_norm(x, (w.numel(),), w, b), 1),
                 ("softmax", lambda x: torch.softmax(x, -1), 1),
                 ("transpose", lambda x: x.t().contiguous(), 1),
                 ("silu_mul_written_out", lambda x, y: F.silu(x) * y, 2))
        for name, function, inputs in kinds:
            for tokens in (1, 64, 1024, 8192):
                recorder.attempt(f"{name} {tokens} {width}", measure_operator, recorder, name, tokens, width, function,
                                 inputs)


# Launches and copies

def launches(recorder):
    x = drawn((16, 64), torch.bfloat16)
    w = drawn((64, 64), torch.bfloat16)
    g = torch.ones(64, device="cuda", dtype=torch.bfloat16)
    q = drawn((1, 8, 16, 64), torch.bfloat16)
    kinds = (("add", lambda: torch.add(x, x)), ("mm", lambda: torch.mm(x, w)), ("linear", lambda: F.linear(x, w)),
             ("rms_norm", lambda: F.rms_norm(x, (64,), g, 1e-5)), ("softmax", lambda: torch.softmax(x, -1)),
             ("layer_norm", lambda: F.layer_norm(x, (64,), g)),
             ("attention", lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True)))
    for name, call in kinds:
        recorder.attempt(f"launch {name}", lambda name=name, call=call: recorder.add(
            "launches", name, by_clock(call, 300), eager=True, dtype="bfloat16"))
        recorder.attempt(f"launch in a graph {name}", lambda name=name, call=call: recorder.add(
            "launches", name, in_graph([call], 200), eager=False, dtype="bfloat16"))
    for size in (4096, 1 << 20, 1 << 26, 1 << 28):
        recorder.attempt(f"copy {size}", measure_copies, recorder, size)


def measure_copies(recorder, size):
    here = torch.empty(size, dtype=torch.uint8, pin_memory=True).random_()
    there, other = (torch.empty(size, dtype=torch.uint8, device="cuda").random_() for _ in range(2))
    for name, to, of in (("host to device", there, here), ("device to host", here, there), ("on the device", other, there)):
        recorder.add("copies", name, by_clock(lambda to=to, of=of: to.copy_(of, non_blocking=True), 20), bytes=size,
                     eager=True)


# Whole models

class Decoder:
    """LAYERS layers of Llama 3 8B's shape, random weights, one static cache; operators written out in PyTorch."""
    hidden, inner, heads, kv_heads, size, vocabulary = 4096, 14336, 32, 8, 128, 128256

    def __init__(self, layers):
        def weight(*shape):
            return drawn(shape, torch.bfloat16, 0.02)
        self.layers = [{"qkv": weight((self.heads + 2 * self.kv_heads) * self.size, self.hidden),
                        "o": weight(self.hidden, self.heads * self.size), "up": weight(2 * self.inner, self.hidden),
                        "down": weight(self.hidden, self.inner)} for _ in range(layers)]
        self.norm = torch.ones(self.hidden, device="cuda", dtype=torch.bfloat16)
        self.head = weight(self.vocabulary, self.hidden)
        self.embedding = weight(self.vocabulary, self.hidden)

    def turn(self, x, cos, sin):
        half = x.shape[-1] // 2
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin

    def layer(self, x, weights, cache, cos, sin, position):
        """x: batch x tokens x hidden; cache: keys and values, batch x kv heads x positions x size."""
        batch, tokens, _ = x.shape
        y = F.rms_norm(x, (self.hidden,), self.norm, 1e-5)
        qkv = F.linear(y, weights["qkv"]).view(batch, tokens, self.heads + 2 * self.kv_heads, self.size).transpose(1, 2)
        q, k, v = qkv.split((self.heads, self.kv_heads, self.kv_heads), 1)
        q, k = self.turn(q, cos, sin), self.turn(k, cos, sin)
        keys, values = cache
        keys.index_copy_(2, position, k)
        values.index_copy_(2, position, v)
        if tokens == 1:
            q = q.reshape(batch, self.kv_heads, self.heads // self.kv_heads, self.size)
            y = F.scaled_dot_product_attention(q, keys, values).reshape(batch, 1, self.hidden)
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            y = y.transpose(1, 2).reshape(batch, tokens, self.hidden)
        x = x + F.linear(y, weights["o"])
        y = F.rms_norm(x, (self.hidden,), self.norm, 1e-5)
        gate, up = F.linear(y, weights["up"]).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, weights["down"])

    def step(self, ids, caches, cos, sin, position, layer):
        x = F.embedding(ids, self.embedding)
        for weights, cache in zip(self.layers, caches):
            x = layer(x, weights, cache, cos, sin, position)
        return F.linear(F.rms_norm(x[:, -1:], (self.hidden,), self.norm, 1e-5), self.head)


def measure_decoder(recorder, model, layer, form, batch, tokens, keys):
    ids = torch.randint(0, model.vocabulary, (batch, tokens), device="cuda")
    caches = [tuple(drawn((batch, model.kv_heads, keys, model.size), torch.bfloat16) for _ in range(2))
              for _ in model.layers]
    cos, sin = (drawn((tokens, model.size), torch.bfloat16) for _ in range(2))
    position = torch.arange(keys - tokens, keys, device="cuda")

    def call():
        return model.step(ids, caches, cos, sin, position, layer)
    what = {"dtype": "bfloat16", "layers": len(model.layers), "batch": batch, "tokens": tokens, "keys": keys}
    recorder.add("decoder", "prefill" if tokens > 1 else "decode", in_graph([call], 2), form=form, **what)
    if form == "written out":
        recorder.add("decoder", "prefill" if tokens > 1 else "decode", by_clock(call, 8), form="eager", eager=True, **what)


STEPS = ((1, 1, 1024), (8, 1, 1024), (64, 1, 1024), (8, 1, 8192), (1, 512, 512), (1, 2048, 2048), (8, 512, 512))


def decoder(recorder):
    model = Decoder(8)
    for step in STEPS:
        recorder.attempt(f"decoder {step}", measure_decoder, recorder, model, model.layer, "written out", *step)


def compiled_decoder(recorder):
    model = Decoder(8)
    compiled = torch.compile(model.layer, dynamic=False)
    for step in STEPS:
        torch.compiler.reset()
        recorder.attempt(f"decoder compiled {step}", measure_decoder, recorder, model, compiled, "compiled", *step)
        recorder.write()


class Bert(torch.nn.Module):
    """BERT base, as its 12 layers are computed: sums and normalisations behind attention and behind two products."""

    def __init__(self, hidden=768, heads=12, layers=12, vocabulary=30522):
        super().__init__()
        self.heads = heads
        self.word, self.place = torch.nn.Embedding(vocabulary, hidden), torch.nn.Embedding(512, hidden)
        self.layers = torch.nn.ModuleList()
        for _ in range(layers):
            self.layers.append(torch.nn.ModuleDict({
                **{name: torch.nn.Linear(hidden, hidden) for name in ("q", "k", "v", "o")},
                "up": torch.nn.Linear(hidden, 4 * hidden), "down": torch.nn.Linear(4 * hidden, hidden),
                "first": torch.nn.LayerNorm(hidden), "second": torch.nn.LayerNorm(hidden)}))
        self.norm = torch.nn.LayerNorm(hidden)

    def forward(self, ids):
        batch, tokens = ids.shape
        x = self.norm(self.word(ids) + self.place.weight[:tokens])
        for layer in self.layers:
            q, k, v = (layer[name](x).view(batch, tokens, self.heads, -1).transpose(1, 2) for name in ("q", "k", "v"))
            y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
            x = layer["first"](x + layer["o"](y))
            x = layer["second"](x + layer["down"](F.gelu(layer["up"](x))))
        return x


def measure_network(recorder, name, module, inputs, dtype):
    def call():
        with torch.no_grad():
            return module(*inputs)
    recorder.add("networks", name, in_graph([call], 2), dtype=dtype, batch=inputs[0].shape[0], form="written out")
    recorder.add("networks", name, by_clock(call, 10), dtype=dtype, batch=inputs[0].shape[0], form="eager", eager=True)


def networks(recorder):
    def images(batch):
        return torch.randn((batch, 3, 224, 224), device="cuda")

    def network(name, make, inputs):
        module = make().cuda().eval()
        for dtype in ("float32", "tf32", "float16"):
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = dtype == "tf32"
            if dtype == "float16":
                module = module.half()
                inputs = tuple(x.half() if x.is_floating_point() else x for x in inputs)
            measure_network(recorder, name, module, inputs, dtype)
        if name == "resnet50":
            module = module.to(memory_format=torch.channels_last)
            inputs = tuple(x.to(memory_format=torch.channels_last) for x in inputs)
            measure_network(recorder, "resnet50, channels last", module, inputs, "float16")
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False

    import torchvision.models as vision
    ids = torch.randint(0, 30000, (8, 128), device="cuda")
    for name, make, inputs in (("resnet50", vision.resnet50, (images(8),)), ("vit_b_16", vision.vit_b_16, (images(2),)),
                               ("bert_base", Bert, (ids,)), ("swin_t", vision.swin_t, (images(8),)),
                               ("resnet50", vision.resnet50, (images(128),))):
        recorder.attempt(f"network {name}", network, name, make, inputs)


PARTS = (products, attention, operators, launches, decoder, experts, networks, compiled_decoder)


def main():
    parser = argparse.ArgumentParser(description="Measures kernels and whole models; see the head of the file.")
    parser.add_argument("out")
    parser.add_argument("--parts", nargs="*", default=[part.__name__ for part in PARTS])
    parser.add_argument("--seconds", type=float, default=240)
    arguments = parser.parse_args()
    recorder = Recorder(arguments.out, arguments.seconds)
    torch.manual_seed(1)
    with torch.no_grad():
        for part in PARTS:
            if part.__name__ in arguments.parts:
                print(part.__name__, flush=True)
                recorder.attempt(part.__name__, part, recorder)
                torch.cuda.empty_cache()
                recorder.write()
    for failure in recorder.data["failed"]:
        print(failure, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
