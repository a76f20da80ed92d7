#!/usr/bin/env python3
"""One device of a plan: loads its models, takes what the other devices send it, runs, and sends on.

    python3 rank.py DIR [--listen 127.0.0.1:0] [--threads 1]

Prints {"listen": "HOST:PORT"} and waits for run.py (or run.mjs), which says which device it is and where the others are.
Anybody who reaches the port can use it: listen on addresses of a trusted network only.
"""
import argparse
import json
import os
import queue
import socket
import sys
import threading
import time

import onnxruntime

from manifest import FINGERPRINT, Manifest, check_states
from wire import PROTOCOL, Channel, Mailbox, array_of, parse_address


class Rank:
    def __init__(self, folder, threads):
        self.manifest, self.threads = Manifest(folder), threads
        self.mailbox, self.work = Mailbox(), queue.Queue()
        self.device, self.driver, self.is_over = None, None, False
        self.peers = {}  # devices that this one sends to
        self.sessions, self.routes = {}, []
        self.loops = {}  # loop -> state -> this device's part of it

    def fail(self, message):
        if self.is_over:
            return
        self.is_over = True
        print(f"device {'?' if self.device is None else self.device}: {message}", file=sys.stderr, flush=True)
        if self.driver is not None:
            self.driver.send({"type": "error", "message": message})
            self.driver.close()
        time.sleep(0.1)  # the message is on its way
        os._exit(1)

    def leave(self):
        self.is_over = True
        for channel in self.peers.values():
            channel.send({"type": "bye"})
        time.sleep(0.05)
        os._exit(0)

    # ---- who connects ----

    def welcome(self, connection):
        other = {"role": None, "name": "a process", "has_left": False}

        def ended(why):
            if other["role"] and not other["has_left"]:
                self.fail(f"{other['name']} is gone: {why or 'its connection closed'}.")

        def receive(channel, head, data):
            kind = head.get("type")
            if other["role"] is None:
                wrong = self.refusal(head)
                if wrong:
                    channel.send({"type": "error", "message": wrong})
                    channel.close()
                    return
                other["role"] = head["role"]
                is_driver = head["role"] == "driver"
                other["name"] = "The program that sends the requests" if is_driver else f"Device {head['device']}"
                channel.accept()
                if is_driver:
                    self.driver = channel
                    threading.Thread(target=self.run, args=(head, channel), daemon=True).start()
                else:
                    channel.send({"type": "welcome"})
            elif kind == "tensor":
                self.mailbox.put(head["request"], head["key"], array_of(head, data))
            elif kind in ("request", "end"):
                self.work.put(head)
            elif kind == "bye":
                other["has_left"] = True
            elif kind == "stop" and head.get("message"):
                self.fail(head["message"])
            elif kind == "stop":
                self.leave()

        Channel(connection, receive, ended)

    def refusal(self, head):
        if head.get("protocol") != PROTOCOL:
            return f"The other side speaks version {head.get('protocol')} of the protocol, and this program version {PROTOCOL}."
        if head.get("manifest") != self.manifest.digest:
            return "The other side has another manifest: all processes need the same."
        if head.get("role") == "driver" and self.driver is not None:
            return "Another program sends requests here."
        return None

    def connect(self, device, address):
        answer = queue.Queue()

        def ended(why):
            message = f"Device {device} is gone: {why or 'its connection closed'}."
            answer.put({"type": "error", "message": message})
            if device in self.peers:
                self.fail(message)

        channel = Channel(socket.create_connection(parse_address(address)), lambda _, head, data: answer.put(head), ended)
        channel.send({"type": "hello", "protocol": PROTOCOL, "manifest": self.manifest.digest, "role": "peer",
                      "device": self.device})
        said = answer.get()
        if said["type"] != "welcome":
            raise RuntimeError(said["message"])
        return channel

    # ---- work ----

    def load(self, model):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self.threads, 1
        session = onnxruntime.InferenceSession(os.path.join(self.manifest.folder, model), options,
                                               providers=["CPUExecutionProvider"])
        if session.get_modelmeta().custom_metadata_map.get(FINGERPRINT) != self.manifest.devices[self.device]["fingerprint"]:
            raise RuntimeError(f"The model {model} is not the one that the manifest is of: write both again.")
        return session

    def run(self, head, channel):
        self.device = head["device"]
        try:
            self.routes = [self.manifest.parts(route, self.device) for route in range(len(self.manifest.routes))]
            parts = [part for route in self.routes for part in route]
            for part in parts:
                if part["model"] not in self.sessions:
                    self.sessions[part["model"]] = self.load(part["model"])
            others = {taker for part in parts for output in part["outputs"] for taker in output["to"]} - {self.device}
            for other in sorted(others):
                self.peers[other] = self.connect(other, head["addresses"][str(other)])
            channel.send({"type": "ready", "models": len(self.sessions)})
            while True:
                head = self.work.get()
                if head["type"] == "request":
                    self.serve(**head)
                else:
                    self.loops.pop(head["loop"], None)
        except Exception as error:  # whatever it is, the others hear of it
            self.fail(str(error))

    def serve(self, request, route, loop=None, step=0, **_):
        """One request: its parts one after the other, each once all that it takes has come. In a loop, states stay here."""
        seconds, before, kept = 0, self.loops.get(loop), {}
        if loop is not None and step == 0:
            check_states(self.routes[route])
        for part in self.routes[route]:
            taken = {each["name"]: before[each["past"]] if each["past"] and before else self.mailbox.take(request, each["key"])
                     for each in part["inputs"]}
            start = time.perf_counter()
            made = self.sessions[part["model"]].run([each["name"] for each in part["outputs"]], taken)
            seconds += time.perf_counter() - start
            for array, each in zip(made, part["outputs"]):
                head = {"type": "tensor", "request": request, "key": each["key"]}
                if each["past"]:
                    kept[each["past"]] = array
                for taker in each["to"]:
                    if taker == self.device:
                        self.mailbox.put(request, each["key"], array)
                    else:
                        self.peers[taker].send(head, array)
                if each["is_result"] and (loop is None or not each["past"]):
                    self.driver.send(head, array)
        self.mailbox.forget(request)
        if loop is not None:
            self.loops[loop] = kept
        self.driver.send({"type": "done", "request": request, "seconds": seconds, "spent": time.process_time()})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--listen", default="127.0.0.1:0")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    rank, server = Rank(options.folder, options.threads), socket.create_server(parse_address(options.listen))
    print(json.dumps({"listen": "%s:%d" % server.getsockname()[:2]}), flush=True)
    while True:
        rank.welcome(server.accept()[0])


if __name__ == "__main__":
    main()
