"""Which layout of several we choose where a limit and a number of devices bind, and how that one was when measured.

A group is one model with its lengths, framework, precision and kind of device. Of so many devices, each layout that was
measured is there as often as these suffice, so that a row makes copies x concurrency / (time per output token) tokens a
second. A limit is a quartile of the measured times per output token of the group; it binds where the row with the most
tokens a second breaks it. Our choice is the layout of the row with the most tokens a second among those that keep the
limit by our times, and what it is worth is the most of its rows that keep the limit by the measured ones.
"""

import collections

NEAR = 1.05  # of the best row
SHARES = (0.25, 0.5, 0.75)


def rate(row, devices, time):
    return devices // row["devices"] * row["concurrency"] / row[time]


def best(rows, devices, time, limit):
    """(row, tokens a second) of those that keep the limit, by that time; None: none does."""
    kept = [(rate(row, devices, time), index) for index, row in enumerate(rows) if row[time] <= limit]
    return (rows[max(kept)[1]], max(kept)[0]) if kept else None


def is_right(rows, devices, limit):
    """None: the limit does not bind, or there is nothing to choose from."""
    rows = [row for row in rows if row["devices"] <= devices]
    open_best, measured = best(rows, devices, "measured", float("inf")), best(rows, devices, "measured", limit)
    if len({row["layout"] for row in rows}) < 2 or measured is None or open_best[0]["measured"] <= limit:
        return None
    ours = best(rows, devices, "predicted", limit)
    if ours is None:
        return False
    same = best([row for row in rows if row["layout"] == ours[0]["layout"]], devices, "measured", limit)
    return same is not None and same[1] * NEAR >= measured[1]


def choices(rows):
    """(right, all) of the groups, by kind of table."""
    groups = collections.defaultdict(list)
    for row in rows:
        if "question" in row and row["predicted"]:
            groups[row["table"], *row["question"]].append(row)
    found = collections.defaultdict(list)
    for (table, *_), group in groups.items():
        times = sorted(row["measured"] for row in group)
        for devices in sorted({row["devices"] for row in group}):
            for limit in sorted({times[int(share * (len(times) - 1))] for share in SHARES}):
                right = is_right(group, devices, limit)
                if right is not None:
                    found[table.split()[0]].append(right)
    return {kind: (sum(flags), len(flags)) for kind, flags in found.items()}


def print_choices(rows):
    for kind, (right, count) in sorted(choices(rows).items()):
        print(f"\nWhere a limit and a number of devices bind, the layout that we choose is within 5 % of the best measured "
              f"row in {right} of {count} questions ({kind}).")
