"""Fits parameters of a form to measured times, and says how far the form is off on rows that it did not see."""

import math
import random
import zlib

# Rows that one fit looks at. A form has two to five parameters: more rows change them in the third digit only.
FIT_ROWS = 1200
# How far a residual may count: a few kernels are ten times off (another algorithm was chosen), and must not steer.
RESIDUAL_LIMIT = 1.0


def is_held(shape):
    """Whether a shape belongs to the third that no fit sees: by a hash of its numbers, so that every device, type and
    runtime holds back the same shapes and a row never moves between the parts."""
    return zlib.crc32(",".join(str(value) for value in shape).encode()) % 3 == 0


def sample(rows, count, seed=1):
    """At most COUNT of ROWS, the same ones each time."""
    if len(rows) <= count:
        return list(rows)
    return random.Random(seed).sample(rows, count)


def loss(form, values, rows):
    """The mean absolute log ratio of predicted and measured, each at most RESIDUAL_LIMIT: half and double count alike,
    which relative errors do not do."""
    total = 0.0
    for features, seconds in rows:
        total += min(abs(math.log(form(values, features) / seconds)), RESIDUAL_LIMIT)
    return total / len(rows)


def fit(form, start, bounds, rows):
    """The parameters of FORM, a function of (values, features), that make loss() smallest on a sample of ROWS: a search
    along each parameter, in logarithms (all parameters are positive), from START, with steps that shrink. The losses
    have kinks where max() turns, so that no method with derivatives serves."""
    rows = sample(rows, FIT_ROWS)
    values = list(start)
    best = loss(form, values, rows)
    step = 0.4
    while step > 0.004:
        moved = False
        for index, (low, high) in enumerate(bounds):
            for sign in (1, -1):
                trial = list(values)
                trial[index] = min(max(values[index] * math.exp(sign * step), low), high)
                reached = loss(form, trial, rows) if trial[index] != values[index] else best
                if reached < best * (1 - 1e-6):
                    values, best, moved = trial, reached, True
        if not moved:
            step *= 0.5
    return values


def ratios(form, values, rows):
    """predicted / measured of each row, sorted."""
    return sorted(form(values, features) / seconds for features, seconds in rows)


def quantile(ordered, share):
    """The value below which SHARE of the sorted list lies, between neighbours in proportion."""
    if not ordered:
        return math.nan
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def next_quantile(ordered, share):
    """Below which a further value of the same kind lies with probability SHARE: of N values there are N + 1 places for
    it (Vovk, Gammerman, Shafer, Algorithmic Learning in a Random World, 2005: conformal prediction)."""
    place = min(max(share * (len(ordered) + 1) - 1, 0), len(ordered) - 1)
    return quantile(ordered, place / (len(ordered) - 1)) if len(ordered) > 1 else quantile(ordered, share)


def describe(ordered):
    """Of the ratios predicted / measured: median absolute error, mean absolute error, median ratio, 5 % and 95 %."""
    errors = sorted(abs(ratio - 1) for ratio in ordered)
    return {
        "rows": len(ordered),
        "median_error": quantile(errors, 0.5),
        "mean_error": sum(errors) / len(errors),
        "median_ratio": quantile(ordered, 0.5),
        "low": quantile(ordered, 0.05),
        "high": quantile(ordered, 0.95),
    }


def coverage(ordered, low, high):
    """The share of ratios within LOW and HIGH."""
    return sum(1 for ratio in ordered if low <= ratio <= high) / len(ordered)
