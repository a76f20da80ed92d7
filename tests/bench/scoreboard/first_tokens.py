"""How long a benchmark's requests wait for their first token, by what the benchmark does.

serving.json has two benchmarks. One draws lengths from 80 % to 100 % of the ones stated, so that requests end and come at
any time (SemiAnalysisAI/InferenceMAX, benchmarks/: --random-range-ratio 0.8): that is the closed loop of
core/service/generation.h. The other one sends requests of one length. All begin at once, make as many tokens, end one
behind the other, and so do those that follow them, for ever: a round of C prompts comes in C steps that follow each other.

- vLLM and TensorRT-LLM take a prompt into the step of the sequences in flight, for u seconds. Between the end of a request
  and the first token of the one that follows it, w such steps pass: the one that runs, those that are scheduled already,
  the client's turn, the prompt's own. The first prompts of a round find fewer steps with prompts before them: the k-th of C
  waits for min(k, w) u. Of w we know no published figure: TURN was fitted, by the median error, among whole numbers, to the
  third of these rows that is_fitted() names, and the others are printed apart.
- SGLang computes prompts between steps, as many at once as its chunked prefill has tokens for (--chunked-prefill-size, 8192
  by default on devices of 80 GB). Those of the b-th of B batches wait for b of them: (B + 1) / 2 batches in the mean.

TensorRT-LLM was told to wait for prompts that it may batch where WAITED says so (InferenceMAX,
benchmarks/70b_fp8_h200_trt_slurm.sh: batch_wait_timeout_iters: 20 at 1024 tokens in and out on less than 8 devices). So few
requests in flight do not fill a batch, so that each waits for all of these steps.
"""

from fitting import minimise

from .asking import add

ONE_LENGTH = ("llama31-8b", "qwen3-32b", "qwen3-235b")  # the models of the second benchmark
TURN = {"vllm": 4, "trtllm": 5}
CHUNK = 8192
WAITED = {("trtllm", "llama31-70b", 1024, 1024): 20}


def is_fitted(called):
    """Whether a row called so, "qwen3-32b 8x1024+128", is one that TURN was fitted to."""
    return minimise.is_held([called])


def is_of_one_length(called):
    return called.split(" ")[0] in ONE_LENGTH


def turns(runtime, concurrency, given):
    """How many prompts, or steps with a prompt, a request waits for in the mean, its own one included."""
    if runtime in TURN:
        return sum(min(index, TURN[runtime]) for index in range(1, concurrency + 1)) / concurrency
    batches = -(-concurrency // max(1, CHUNK // given))
    return concurrency / batches * (batches + 1) / 2


def first_token(place, model, sizes, alone, times):
    """(seconds, low, high) to the first token of one of SIZES (concurrency, input, output) on PLACE, or None where the closed
    loop says it. ALONE: of a request without others; TIMES: of a decode step, of a prefill, and of both in one step."""
    concurrency, given, _ = sizes
    step, prefill, mixed = times
    if model not in ONE_LENGTH or concurrency <= 1:
        return None
    mean = turns(place[1], -(-concurrency // place[2].data), given)
    return add(alone, prefill, mixed if place[1] in TURN else prefill, factors=[1, -1, mean])


def waited(place, model, sizes):
    """Steps for which the server waits for further prompts."""
    return WAITED.get((place[1], model, *sizes[1:]), 0) if place[2].devices < 8 else 0


def print_fit(rows):
    """The error of the rows that TURN was fitted to, and of the others."""
    found = {True: [], False: []}
    for row in rows:
        called, servers = row["model"], set(row["table"].split()) & set(TURN)
        if row["table"].startswith("first") and servers and is_of_one_length(called) and row["predicted"]:
            found[is_fitted(called)].append(abs(row["predicted"] / row["measured"] - 1))
    if found[True] and found[False]:
        fitted, others = (f"{100 * minimise.quantile(sorted(found[side]), 0.5):.0f} % of {len(found[side])}"
                          for side in (True, False))
        print(f"\nOf requests of one length the median error of the time to the first token is {fitted} rows that the steps "
              f"between requests were fitted to, and {others} others.")
