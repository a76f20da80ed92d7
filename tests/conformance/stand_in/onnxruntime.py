"""What api/examples/run/*.py uses of ONNX Runtime's Python API, by ONNX Runtime for Node: for tests where the Python package
cannot be installed. Names, arguments and results as onnxruntime.ai/docs/api/python has them; session_server.mjs runs the
models."""
import base64
import json
import os
import subprocess
import threading
import types

import numpy


class SessionOptions:
    intra_op_num_threads = inter_op_num_threads = 0


class Server:
    def __init__(self):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "session_server.mjs")
        self.process = subprocess.Popen(["node", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lock = threading.Lock()

    def ask(self, **question):
        with self.lock:
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
            answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer


SERVER = Server()


def encode(array):
    if not isinstance(array, numpy.ndarray):
        raise TypeError("inputs are arrays of numpy")
    return {"type": array.dtype.name, "dims": list(array.shape), "data": base64.b64encode(array.tobytes()).decode()}


def decode(tensor):
    return numpy.frombuffer(base64.b64decode(tensor["data"]), dtype=tensor["type"]).reshape(tensor["dims"])


class InferenceSession:
    def __init__(self, path_or_bytes, sess_options=None, providers=None):
        if providers != ["CPUExecutionProvider"] or not isinstance(path_or_bytes, str):
            raise ValueError("this stand-in has files and processors only")
        threads = sess_options.intra_op_num_threads if sess_options else 1
        self.model = SERVER.ask(load=os.path.abspath(path_or_bytes), threads=threads)

    def get_modelmeta(self):
        return types.SimpleNamespace(custom_metadata_map=self.model["metadata"])

    def get_outputs(self):
        return [types.SimpleNamespace(name=name) for name in self.model["outputs"]]

    def run(self, output_names, input_feed, run_options=None):
        if set(input_feed) != set(self.model["inputs"]):
            raise ValueError(f"the inputs are {self.model['inputs']}")
        feeds = {name: encode(array) for name, array in input_feed.items()}
        outputs = SERVER.ask(run=self.model["number"], feeds=feeds)["outputs"]
        return [decode(outputs[name]) for name in output_names or self.model["outputs"]]
