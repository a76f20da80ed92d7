"""Further models for verify_models.py, which no test data have: fused attention, a gated layer, a convolved one (fused_models.py),
planned for 2, 3 and 4 slow devices, each in the four forms that files take."""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = ("gemm", "gated", "convolved")
LAYOUTS = ((2, "tensor"), (3, "tensor"), (4, "tensor"), (4, "pipeline"))
FORMS = {"ort": "ort-collectives", "tensorrt": "tensorrt", "sessions": "sessions"}


def cluster(folder, count):
    device = {"name": "slow", "memory_bytes": 1e9, "memory_bandwidth": 1e8, "flops": {"float32": 1e7}}
    path = os.path.join(folder, f"slow{count}.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"groups": [{"count": count, "device": device}],
                   "mesh": [{"name": "net", "size": count, "bandwidth": 1e10, "latency": 1e-6}]}, file)
    return path


def put_beside(folder, model, target):
    """The files of one form, under the names that simulate_models gives them."""
    for name in os.listdir(folder):
        os.replace(os.path.join(folder, name), f"{model}.{target}.json" if name == "manifest.json" else f"{model}.{target}.{name}")


def plan(program, folder, source, count, strategy):
    """One line of list.jsonl."""
    stem = os.path.splitext(os.path.basename(source))[0]
    name = f"fused {stem} on {count}, {strategy}"
    model, annotated = os.path.join(folder, f"{name}.onnx"), os.path.join(folder, f"{name}.annotated")

    def run(*arguments):
        return subprocess.run([program, *arguments], check=True, capture_output=True, text=True)

    run("plan", source, "--cluster", cluster(folder, count), "--strategy", strategy, "--objective", "latency", "--tolerance", "0",
        "-o", annotated)
    run("export", annotated, "--format", "simulation", "-o", model)
    for target, form in FORMS.items():
        out = os.path.join(folder, "exported")
        run("export", annotated, "--format", form, "-o", out)
        put_beside(out, model, target)
    with open(f"{model}.ort.json", encoding="utf-8") as file:
        manifest = json.load(file)
    feeds = {item["name"]: {"type": "float32", "dims": item["shape"], "from": -1, "to": 1} for item in manifest["inputs"]}
    return {"name": name, "file": f"{stem}.onnx", "model": model, "original": source, "devices": count, "rtol": 1e-4, "atol": 1e-5,
            "isLarge": False, "feeds": feeds, "outputs": [{"name": item["name"], "type": 1} for item in manifest["outputs"]]}


def write(program, folder):
    """Adds the models and their lines to what simulate_models wrote into the folder."""
    subprocess.run([sys.executable, "-B", os.path.join(HERE, "fused_models.py"), folder], check=True)
    with open(os.path.join(folder, "list.jsonl"), "a", encoding="utf-8") as file:
        for name in MODELS:
            for count, strategy in LAYOUTS:
                file.write(json.dumps(plan(program, folder, os.path.join(folder, f"{name}.onnx"), count, strategy)) + "\n")
