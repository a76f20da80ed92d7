"""The forms of a kernel's and a collective's time, as core/cost computes them: FORM(values, features) gives seconds.

The features of a kernel are what the data sheet makes of its shape, in seconds (flops over the peak, bytes over the
bandwidth), so that the parameters are shares of the data sheet and starts in seconds.
"""

import math

# Queries that one block of a fused attention kernel works on (FlashAttention 2 and 3): with fewer tiles than units some
# units have no work.
QUERY_TILE = 128
# How much longer a prefill of few tiles takes at most: kernels share the keys out, too, when tiles are few.
IDLE_LIMIT = 8


def product(values, features):
    """A matrix product: start_seconds, flops_share, memory_share."""
    start, flops_share, memory_share = values
    compute, memory = features
    return start + max(compute / flops_share, memory / memory_share)


PRODUCT_START = (3e-6, 0.75, 0.8)
PRODUCT_BOUNDS = ((5e-7, 3e-5), (0.1, 1.0), (0.1, 1.0))


def narrow_product(values, features):
    """A product of one-byte elements whose activations come wide, two kernels: a pass that narrows the activations, and
    the product with flops_share and memory_share of its own and the start of wide products. The pass is the runtime's:
    start_seconds, memory_share (it reads two bytes and writes one of each) and row_seconds (a scale for each row, where
    the runtime makes one). A runtime that joins the pass to the kernel before it pays the product alone."""
    start, compute, memory, narrowed, rows, runtime = features
    pass_start, pass_share, row_seconds = values[2 + 3 * runtime:5 + 3 * runtime]
    narrowing = pass_start + narrowed / pass_share + rows * row_seconds
    return start + max(compute / values[0], memory / values[1]) + narrowing


NARROW_START, PASS_START = (0.6, 0.8), (5e-6, 0.3, 3e-9)
NARROW_BOUNDS, PASS_BOUNDS = ((0.1, 1.0), (0.1, 1.0)), ((1e-7, 3e-5), (0.02, 1.0), (1e-12, 1e-7))


def product_features(row, device):
    """(compute, memory) seconds of the data sheet for [m, k] x [k, n] of elements of two bytes."""
    m, n, k = row[:3]
    return 2 * m * n * k / device["bfloat16"], 2 * (m * k + k * n + m * n) / device["bandwidth"]


def narrow_features(row, device, start, runtime):
    """START of wide products, then the same for elements of one byte with a result of two, seconds of the data sheet
    for the bytes of the pass, rows, and the index of the RUNTIME."""
    m, n, k = row[:3]
    moved = (m * k + k * n + 2 * m * n) / device["bandwidth"]
    return start, 2 * m * n * k / device["float8"], moved, 3 * m * k / device["bandwidth"], m, runtime


def prefill(values, features):
    """Fused attention over many queries: start_seconds, flops_share, memory_share, half_queries. A short sequence
    reaches flops_share / (1 + half_queries / queries): the kernel's pipeline fills once for each tile of queries.
    Only the scores that a causal mask leaves are computed."""
    start, flops_share, memory_share, half_queries = values
    compute, memory, queries, tiles_short = features
    return start + max(compute * (1 + half_queries / queries) / flops_share * tiles_short, memory / memory_share)


PREFILL_START = (1.1e-5, 0.55, 0.4, 400.0)
PREFILL_BOUNDS = ((1e-6, 5e-5), (0.1, 1.0), (0.05, 1.0), (1.0, 8000.0))


def prefill_features(row, device, width=2):
    """(compute, memory, queries, units over tiles) of causal attention of QUERIES positions over KEYS."""
    batch, heads, kv_heads, size, queries, keys = row[:6]
    scores = queries * (keys - queries) + queries * (queries + 1) / 2
    compute = 4 * batch * heads * scores * size / device["bfloat16"]
    moved = batch * size * (2 * heads * queries + 2 * kv_heads * keys) * width
    tiles = batch * heads * max(queries / QUERY_TILE, 1)
    short = min(max(device["units"] / tiles, 1), IDLE_LIMIT)
    return compute, moved / device["bandwidth"], queries, short


def decode(values, features):
    """Fused attention of one query over a cache, which is read once: start_seconds (splitting the keys and joining the
    parts are in it), memory_share, tile_keys: a head of keys with fewer positions takes as long as one with so many.
    Neither the number of busy units nor the arithmetic of grouped heads makes it better on rows that were held back."""
    start, memory_share, tile_keys = values
    ends, position, keys = features
    return start + (ends + position * max(keys, tile_keys)) / memory_share


DECODE_START = (1.2e-5, 0.8, 64.0)
DECODE_BOUNDS = ((1e-6, 5e-5), (0.1, 1.2), (1.0, 4096.0))


def decode_features(row, device, width=2):
    """Seconds of the data sheet for the bytes of queries and results, for those of one position of the cache, and the
    number of positions."""
    batch, heads, kv_heads, size, queries, keys = row[:6]
    vector = batch * size * width / device["bandwidth"]
    return 2 * heads * queries * vector, 2 * kv_heads * vector, keys


def other(values, features):
    """Elementwise operators and copies, and apart from them kernels that go through rows: start_seconds,
    memory_share. What comes out of a cache is no more bandwidth of the memory: a share is at most 1."""
    start, memory_share = values
    return start + features / memory_share


OTHER_START = (3e-6, 0.7)
OTHER_BOUNDS = ((3e-7, 3e-5), (0.05, 1.0))


def ring_factor(operation, ranks):
    """How often a byte of the whole value crosses a rank's link: twice in an all-reduce (reduce, then gather)."""
    return (2 if operation == "all_reduce" else 1) * (ranks - 1) / ranks


def collective(values, features):
    """start_seconds, rank_seconds, half_bytes, then the link share of each group size in GROUPS:
    start + rank (p - 1) + f(p) (n + sqrt(n half_bytes)) / (link share). The root says that a message is cut into pieces
    whose number grows with the root of its length: that many more starts."""
    start, rank_seconds, half_bytes = values[:3]
    ranks, size, link_seconds_per_byte, group = features
    crossed = (size + math.sqrt(size * half_bytes)) * link_seconds_per_byte
    return start + rank_seconds * (ranks - 1) + crossed / values[3 + group]


# What devices without a kind have (core/cost/cluster/cluster.h): a share of all peaks, a kernel's start, a message's
# latency.
SHARE, LAUNCH, MESSAGE = 0.7, 7e-6, 2e-6


def by_constants(part, features, operation):
    """Seconds of a kernel (PART: "products", "prefill", "decode", "other", "norm") or of an OPERATION of "collectives"
    by these constants: the roofline, and the logarithmic algorithms of core/sharding/reshard/collective_cost.h."""
    if part == "collectives":
        ranks, size, link_seconds_per_byte = features[:3]
        rounds = ranks - 1 if operation == "all_to_all" else math.log2(ranks)
        return (2 if operation == "all_reduce" else 1) * rounds * MESSAGE + size * link_seconds_per_byte
    if part == "products":  # of narrow ones, features begin with a start
        times = features[1:3] if len(features) > 2 else features
    elif part == "prefill":
        times = features[:2]
    else:
        times = (features[0] + features[1] * features[2],) if part == "decode" else (features,)
    return LAUNCH + max(times) / SHARE


# What the host adds to the start of a collective without a captured graph: core/cost/kernels/runtime.c.
EAGER = 30e-6

GROUPS = (2, 4, 8)
COLLECTIVE_START = (5e-6, 1e-6, 3e6, 0.7, 0.8, 0.8)
COLLECTIVE_BOUNDS = ((2e-7, 1e-4), (1e-9, 2e-5), (10.0, 1e8), (0.003, 1.5), (0.003, 1.5), (0.003, 1.5))


def collective_features(ranks, size, operation, device):
    """(ranks, bytes, seconds of the link for a byte, index of the group size)."""
    factor = ring_factor(operation, ranks)
    return ranks, size, factor / device["link"], GROUPS.index(ranks)
