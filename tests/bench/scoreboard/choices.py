"""Which layout of several we choose where a limit and a number of devices bind, and how that one was when measured.

A group is one model with its lengths, a server of one version, a precision and a kind of device. A layout is a curve: the
time per output token by the sequences in flight, straight between those that were measured. Who runs it lets so many in
as the limit allows, so that under a limit T a layout is worth

    copies x C(T) / T tokens a second,   copies as often as the devices suffice, C(T) the sequences where the curve meets T

or, where all of the curve is below T, what its best row makes; nothing where all of it is above. Limits are those that
users state, round numbers. One binds where the row with the most tokens a second of all breaks it, and another keeps it.
Our choice is the layout that is worth most by our times. It is right where that one is worth within NEAR of the best by
the measured times. Where by our times none keeps the limit, no layout is chosen, and that is not right.
"""

import collections

NEAR = 1.05
LIMITS = (0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15)  # seconds per output token
SERVERS = ("vllm", "trtllm")  # those that the product has a runtime of; SGLang is predicted with vLLM's


def curve_of(rows, time):
    """[(sequences in flight, seconds per output token)], the mean where it was measured more than once."""
    times = collections.defaultdict(list)
    for row in rows:
        times[row["concurrency"]].append(row[time])
    return sorted((count, sum(found) / len(found)) for count, found in times.items())


def worth(curve, limit):
    """Tokens a second of one copy within the limit; 0: it cannot keep it."""
    found = [count / time for count, time in curve if time <= limit]
    for (count, time), (more, longer) in zip(curve, curve[1:]):
        if time <= limit < longer:
            found.append((count + (more - count) * (limit - time) / (longer - time)) / limit)
    return max(found, default=0)


def curves_of(rows, devices):
    """Of each layout that so many devices suffice for: (copies, measured curve, predicted curve)."""
    layouts = collections.defaultdict(list)
    for row in rows:
        if row["devices"] <= devices:
            layouts[row["layout"], devices // row["devices"]].append(row)
    return [(copies, curve_of(of, "measured"), curve_of(of, "predicted")) for (_, copies), of in layouts.items()]


def is_right(curves, limit):
    """None: the limit does not bind, or there is nothing to choose from."""
    measured = [copies * worth(curve, limit) for copies, curve, _ in curves]
    longest = max((copies * count / time, time) for copies, curve, _ in curves for count, time in curve)[1]
    if len(curves) < 2 or max(measured) == 0 or longest <= limit:
        return None
    ours = [copies * worth(curve, limit) for copies, _, curve in curves]
    return max(ours) > 0 and measured[ours.index(max(ours))] * NEAR >= max(measured)


def choices(rows):
    """(right, all) of the groups, by kind of table, and apart those of servers that the product has no runtime of."""
    groups = collections.defaultdict(list)
    for row in rows:
        if "question" in row and row["predicted"]:
            groups[row["table"], *row["question"]].append(row)
    found = collections.defaultdict(list)
    for (table, *_), group in groups.items():
        kind, server = table.split()[:2]
        for devices in sorted({row["devices"] for row in group}):
            curves = curves_of(group, devices)
            for limit in LIMITS:
                right = is_right(curves, limit)
                if right is not None:
                    found[kind if server in SERVERS else f"{kind}, {server}"].append(right)
    return {kind: (sum(flags), len(flags)) for kind, flags in found.items()}


def print_choices(rows):
    for kind, (right, count) in sorted(choices(rows).items()):
        print(f"\nWhere a limit and a number of devices bind, the layout that we choose is worth within 5 % of the best in "
              f"{right} of {count} questions ({kind}).")
