"""Passes of a model on a layout, and a server that makes them: prompts, steps, and both at once.

vLLM and TensorRT-LLM run a prompt in the step of the sequences in flight (chunked prefill; in-flight batching), so that
matrices of weights are read once for both: such a step takes what both take apart, less what n + c positions without a
cache save against n and c of them (core/service/step_times.h). SGLang runs prompts between steps, unless told otherwise
(enable_mixed_chunk). With data parallelism of the attention each part has sequences, and runs a prompt, of its own.
"""

from . import first_tokens
from .asking import add

MICRO_BATCHES = (2, 4, 8, 16)  # that a batch is cut into for several stages


def cuts_of(place, batch, positions):
    """The numbers of micro-batches, of which the fastest counts, of a batch with so many positions on PLACE (device,
    runtime, layout). FasterTransformer takes one of its own: getLocalBatchSize in utils/nccl_utils.cc."""
    stages = place[2].stages
    if stages == 1:
        return [1]
    if place[1] != "FasterTransformer":
        return [count for count in (1, *MICRO_BATCHES) if batch % count == 0]
    part = batch // stages if batch % stages == 0 else batch
    while part * positions > 1024 and part % 2 == 0:
        part //= 2
    return [batch // part]


def ask_pass(ask, place, model, precision, request, is_step=False):
    """(seconds, bytes of the fullest device) of one pass on PLACE, each (value, low, high): REQUEST is (sequences, new
    positions, past positions). None where the plan does not fit. Stages take micro-batches behind each other: the first
    one takes its latency, each other one an interval more. In a loop of steps, IS_STEP, each may begin its next step when
    it is through this one (core/cost/micro_batches.h); FasterTransformer waits for all of them."""
    whole = ask.layout((model, precision, *request), *place)
    if whole is None:
        return None
    times = []
    for count in cuts_of(place, *request[:2]):
        part = ask.layout((model, precision, request[0] // count, *request[1:]), *place)
        if is_step and place[1] != "FasterTransformer":
            times.append(tuple(max(latency, count * interval) for latency, interval in zip(*part[:2])))
        else:
            times.append(add(*part[:2], factors=(1, count - 1)))
    return min(times), whole[2]


ROUNDS = 10  # requests of a benchmark by its concurrency, which all begin at once: InferenceMAX's --num-prompts
MIXING = ("vllm", "trtllm")


def up_to(number, divisor):
    return -(-number // divisor) * divisor


def shared_seconds(ask, place, model, precision, sequences, positions):
    """What a step of so many sequences and the prompts of all parts, of so many positions each, save by being one."""
    parts = place[2].data
    beside = -(-sequences // parts)
    passes = [ask_pass(ask, place, model, precision, (parts, count, 0))
              for count in (beside, positions, beside + positions)]
    if None in passes:
        return 0
    return max(0, passes[0][0][0] + passes[1][0][0] - passes[2][0][0])


def served(ask, place, model, precision, sizes):
    """((TTFT, low, high), (TPOT, low, high), bytes) of (concurrency, input, output), or None."""
    concurrency, given, made = sizes
    parts = place[2].data
    prefill = ask_pass(ask, place, model, precision, (parts, given, 0))
    step = ask_pass(ask, place, model, precision, (up_to(concurrency, parts), 1, given + made // 2), is_step=True)
    if prefill is None or step is None:
        return None
    first, kept = prefill[0], prefill[0]
    if place[1] in MIXING and concurrency > 1:
        shared = min(shared_seconds(ask, place, model, precision, concurrency, given), step[0][0], prefill[0][0])
        kept = add(prefill[0], factors=[1 - shared / prefill[0][0]])
        first = add(kept, step[0])
    times = (step[0], add(kept, factors=[1 / parts]), first)
    ttft, tpot = ask.service(place[0], place[1], (concurrency, made, ROUNDS), times)
    alone = ask.service(place[0], place[1], (1, made, 0), (step[0], prefill[0], prefill[0]))[0]
    ttft = first_tokens.first_token(place, model, sizes, alone, (step[0], prefill[0], first)) or ttft
    ttft = add(ttft, step[0], factors=[1, first_tokens.waited(place, model, sizes)])
    return ttft, tpot, max(prefill[1], step[1])
