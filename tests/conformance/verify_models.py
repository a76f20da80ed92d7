#!/usr/bin/env python3
"""What `shardplan verify` says of whole models that are split, and of mistakes in them; TAP on standard output.

    verify_models.py [--program PATH] [--folder FOLDER] [--only TEXT] [--mutations N] [--seed N]

PATH is the built simulate_models, which splits the models; FOLDER holds what it wrote before. Every simulation, and the
models of the devices of every way, have to be proved. Then N mistakes are made (verify_mutations.py): one that is proved
has to leave what ONNX Runtime computes as it is (verify_mutations.mjs), and of those that change something REFUTED percent
are refuted, and NAMED percent of these with the node that was changed, or one beside it. Everyday a part of the ways and
few mistakes are looked at; all, the models of verify_planned.py, too, and 1,000 mistakes in ten models, with SHARDPLAN_TEST_THOROUGH.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import verify_mutations  # noqa: E402
import verify_planned  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.environ.get("SHARDPLAN_TEST_DATA", os.path.join(HERE, "../../../shared/data"))
THOROUGH = bool(os.environ.get("SHARDPLAN_TEST_THOROUGH"))
REFUTED, NAMED = 98, 90


def verify_all(folder):
    """The matrix of our own files."""
    count, wrong = collections.Counter(), []
    for line, target in verify_mutations.read_ways(folder):
        way = verify_mutations.Way(line, target)
        if not way.models:
            continue
        answer = way.verify(os.path.join(folder, "own"))
        count[answer.get("verdict", "error")] += 1
        if answer.get("verdict") != "proved":
            wrong.append((way.name, (answer.get("failures") or [answer.get("error")])[0]))
    total = sum(count.values())
    print(f"{'ok' if total and not wrong else 'not ok'} verify: {total} files or sets of files of our own: {count['proved']} proved, "
          f"{count['undecided']} undecided, {count['refuted']} refuted")
    for name, failure in wrong:
        print(f"  {name}: {failure}")
    return 1 if wrong or not total else 0


def runs_equal(folder, results):
    """The names and kinds of those that ONNX Runtime computes the same of; and how many that are proved it does not."""
    listed = os.path.join(folder, "mutations.jsonl")
    with open(listed, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(result) + "\n" for result in results if result["verdict"] != "refuted")
    done = subprocess.run(["node", os.path.join(HERE, "verify_mutations.mjs"), folder, listed], capture_output=True, text=True,
                          check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("ok ", "not ok "))]
    return [line.endswith(": equal") for line in lines], [line for line in lines if line.startswith("not ok")]


def look_at_mistakes(folder, count, seed):
    results = list(verify_mutations.mutate(folder, count, seed))
    unsure = [result for result in results if result["verdict"] != "refuted"]
    equal, wrong = runs_equal(folder, results)
    changed = len(results) - sum(equal)
    refuted = [result for result in results if result["verdict"] == "refuted"]
    named = sum(result["named"] for result in refuted)
    share, share_named = 100 * len(refuted) / max(1, changed), 100 * named / max(1, len(refuted))
    # of few there may be one more
    is_fine = (not wrong and len(equal) == len(unsure) and len(results) == count and
               changed - len(refuted) <= max(1, changed * (100 - REFUTED) / 100) and
               len(refuted) - named <= max(3, len(refuted) * (100 - NAMED) / 100))
    print(f"{'ok' if is_fine else 'not ok'} verify: {len(results)} mistakes, {changed} of them change what is computed: {len(refuted)} "
          f"refuted ({share:.1f} %), {named} with the node or one beside it ({share_named:.1f} %), {len(wrong)} proved wrongly")
    for line in wrong:
        print(f"  {line}")
    for result in [*unsure, *(result for result in refuted if not result["named"])]:
        print(f"# {result['verdict']} {result['kind']} in {result['name']}, nodes {result['nodes'][:3]}: {result['first']}")
    return 0 if is_fine else 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default=os.path.join(HERE, "../../build/sanitized/tests/conformance/simulate_models"))
    parser.add_argument("--folder")
    parser.add_argument("--only", default="" if THOROUGH else "on 2, tensor")
    parser.add_argument("--mutations", type=int, default=1000 if THOROUGH else 24)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    if not os.path.isdir(os.path.join(DATA, "models")):
        print("ok verify_models # SKIP the models are not there")
        return 0
    with tempfile.TemporaryDirectory(prefix="shardplan-verify-") as own:
        folder = asked.folder or own
        if asked.folder is None:
            only = ["--only", asked.only] if asked.only else []
            subprocess.run([asked.program, own, "--devices", "1", "--targets", "all" if THOROUGH else "turn", "--large",
                            "yes" if THOROUGH else "no", *only], stdout=subprocess.DEVNULL, check=True)
            if THOROUGH and not asked.only:
                verify_planned.write(verify_mutations.PROGRAM, own)
        failed = verify_all(folder)
        failed += look_at_mistakes(folder, asked.mutations, asked.seed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
