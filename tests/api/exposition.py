"""Reads the text format of Prometheus, strictly: whatever is not in the format, or contradicts itself, is an AssertionError."""

import math
import re

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
KINDS = ("counter", "gauge", "histogram")


class Exposition:
    def __init__(self, text):
        self.kinds = {}  # by family
        self.helps = set()
        self.values = {}  # by (name, labels)
        self.closed = set()  # families that are complete
        self.current = None
        require(text.endswith("\n"), "the last line does not end")
        for line in text[:-1].split("\n"):
            if line.startswith("# "):
                self.read_comment(line)
            else:
                self.read_sample(line)
        for family, kind in self.kinds.items():
            if kind == "histogram":
                self.check_histogram(family)

    def value(self, name, **labels):
        """The value of a series; 0 where there is none yet."""
        return self.values.get((name, tuple(sorted(labels.items()))), 0)

    def series(self, name):
        return [(dict(labels), value) for (other, labels), value in self.values.items() if other == name]

    def enter(self, family, line):
        if family != self.current:
            require(family not in self.closed, f"{line}: the lines of {family} are not together")
            self.closed.add(self.current)
            self.current = family

    def read_comment(self, line):
        match = re.fullmatch(r"# (HELP|TYPE) (\S+) (.+)", line)
        require(match, line)
        word, family, rest = match.groups()
        require(NAME.fullmatch(family), line)
        self.enter(family, line)
        if word == "HELP":
            require(family not in self.helps, f"{line}: the second")
            self.helps.add(family)
            return
        require(family not in self.kinds and rest in KINDS, line)
        require(family in self.helps, f"{line}: without a HELP before it")
        require((rest == "counter") == family.endswith("_total"), f"{line}: a counter ends in _total, nothing else does")
        self.kinds[family] = rest

    def family_of(self, name):
        if name in self.kinds and self.kinds[name] != "histogram":
            return name
        for suffix in ("_bucket", "_sum", "_count"):
            if name.endswith(suffix) and self.kinds.get(name.removesuffix(suffix)) == "histogram":
                return name.removesuffix(suffix)
        return None

    def read_sample(self, line):
        match = re.fullmatch(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)", line)
        require(match, line)
        name, labels, number = match.groups()
        family = self.family_of(name)
        require(family, f"{line}: no TYPE says what it is")
        self.enter(family, line)
        pairs = self.read_labels(labels, line) if labels is not None else []
        require(len({key for key, _ in pairs}) == len(pairs), f"{line}: a label twice")
        require(re.fullmatch(r"[+-]?(\d+(\.\d*)?([eE][+-]?\d+)?|Inf|NaN)", number), line)
        value = float(number)
        require(not math.isnan(value), line)
        require(value >= 0 or self.kinds[family] == "gauge", f"{line}: it went down")
        key = (name, tuple(sorted(pairs)))
        require(key not in self.values, f"{line}: the series is there twice")
        self.values[key] = value

    def read_labels(self, text, line):
        pairs, at = [], 0
        while at < len(text):
            match = LABEL.match(text, at)
            require(match, line)
            pairs.append(match.groups())
            at = match.end()
            require(at == len(text) or text[at] == ",", line)
            at += 1
        return pairs

    def check_histogram(self, family):
        buckets = {}
        for (name, labels), value in self.values.items():
            if name == family + "_bucket":
                rest = tuple(pair for pair in labels if pair[0] != "le")
                buckets.setdefault(rest, []).append((float(dict(labels)["le"]), value))
        for labels, counts in buckets.items():
            counts.sort()
            require(counts[-1][0] == math.inf, f"{family}{labels}: no last bucket")
            require(all(one[1] <= two[1] for one, two in zip(counts, counts[1:])), f"{family}{labels}: buckets shrink")
            require(self.values.get((family + "_count", labels)) == counts[-1][1], f"{family}{labels}: the count is another")
            require((family + "_sum", labels) in self.values, f"{family}{labels}: no sum")


def require(condition, message):
    if not condition:
        raise AssertionError(message)
