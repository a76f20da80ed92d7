"""Parts of a finished plan: what is in them is what the plan says, however they are asked for."""

import collections
import json
import os
import threading
import time

from daemon import BLOBS
from cases import CLUSTER, MODELS, TINY, DaemonCase, model
from running import SWEEP, made
import onnx_make

TABLES = {"nodes": None, "tensors": "tensors", "collectives": "collectives", "diagnostics": "diagnostics"}
ROUTES = ["summary", "graph", "timeline?lanes=64", "memory", *TABLES]
JSON = "application/json"


class PlansCase(DaemonCase):
    @classmethod
    def planned(cls, data, name, kind="application/octet-stream", **members):
        """The path of the finished plan."""
        stored = cls.daemon.upload(data, f"/v1/models?name={name}", Content_Type=kind).json["id"]
        body = {"model": stored, **({} if "sweep" in members else {"cluster": CLUSTER}), **members}
        answer = cls.daemon.request("POST", "/v1/plans", body, {"Prefer": "wait=60", "Cache-Control": "no-cache"})
        assert answer.status == 200 and answer.json["state"] == "succeeded", answer
        return "/v1/plans/" + answer.json["id"]

    def index_of(self, plan):
        return os.path.join(self.daemon.data, "plans", plan.split("/")[-1], "1", "plan.sheet")

    def all_rows(self, path, size=500):
        """The items of all pages."""
        found, token, more = [], "", "&" if "?" in path else "?"
        while token is not None:
            page = self.ask("GET", f"{path}{more}page_size={size}{token}").json
            found += page["items"]
            self.assertLessEqual(len(page["items"]), size)
            token = f"&page_token={page['next_page_token']}" if "next_page_token" in page else None
        self.assertEqual(len(found), page["total"])
        return found


class Slices(PlansCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with open(os.path.join(MODELS, "transformer_tiny.onnx"), "rb") as file:
            transformer = file.read()
        cls.plans = {
            "piped": cls.planned(transformer, "tiny", cluster={"device": "a100-sxm4-80gb", "count": 3, "runtime": "generic"}),
            # On links that are quick against what starting a kernel takes.
            "split": cls.planned(transformer, "tiny", options={"strategy": "tensor", "tolerance": 0}, objective="latency",
                                 cluster={"device": "a100-sxm4-80gb", "count": 2, "runtime": "generic", "launch_seconds": 7e-6,
                                          "mesh": [{"name": "link", "size": 2, "bandwidth": 290e9, "latency": 1e-9}]}),
            # Its weights are large and its batch is small: they are split, and sums are exchanged.
            "exchanged": cls.planned(onnx_make.encode(onnx_make.mlp(6, 16384, 8, weights="external")), "mlp", objective="latency",
                                     options={"strategy": "tensor"}, cluster={"device": "a100-sxm4-80gb", "count": 4}),
            "costs": cls.planned(json.dumps({"nodes": [{"id": n, "seconds": 0.001 * n, "memory_bytes": 10} for n in (1, 2, 3)],
                                             "edges": [{"from": 1, "to": 2, "bytes": 8}, {"from": 2, "to": 3, "bytes": 8}]}).encode(),
                                 "costs", JSON),
            "sweep": cls.planned(onnx_make.encode(onnx_make.mlp(4, 4096, 2048, weights="external")), "swept",
                                 sweep={"devices": [1, 2, 4], "types": ["a100-sxm4-80gb", "l4-24gb"], "choose": "best"}),
            "wide": cls.planned(onnx_make.encode(onnx_make.mlp(2, 65536, 1024, weights="external")), "wide", objective="latency",
                                constraints={"max_stages": 1}, cluster={"device": "a100-sxm4-80gb", "count": 512}),
        }
        # Of more stages than a timeline has lanes at a time; slow for what goes through all of a plan's parts.
        cls.deep = cls.planned(onnx_make.encode(onnx_make.mlp(140, 2048, 2048, weights="external")), "deep",
                               options={"strategy": "pipeline"}, cluster={"device": "a100-sxm4-80gb", "count": 140})

    # ---- what is in them ----

    def test_the_summary_is_the_plan(self):
        for name, plan in self.plans.items():
            whole = self.ask("GET", plan).json
            found = self.ask("GET", f"{plan}/summary").json
            with self.subTest(name):
                self.assertEqual(found["job"], {key: value for key, value in whole.items() if key not in ("plan", "progress")})
                for member, value in whole["plan"].items():
                    if member in ("tensors", "collectives", "diagnostics", "outline"):
                        continue
                    if member in ("stages", "devices"):
                        value = [{**{key: item for key, item in entry.items() if key != "nodes"}, "node_count": len(entry["nodes"])}
                                 for entry in value]
                    self.assertEqual(found[member], value, member)
                counts = found["counts"]
                self.assertEqual((counts["tensors"], counts["collectives"]),
                                 (len(whole["plan"]["tensors"]), len(whole["plan"]["collectives"])))
                self.assertEqual(sum(counts["diagnostics"].values()), len(whole["plan"]["diagnostics"]))
                self.assertEqual(counts["nodes"], len(self.all_rows(f"{plan}/nodes")))
                for kind in found["collectives"]:
                    of_kind = [entry for entry in whole["plan"]["collectives"] if entry["kind"] == kind["kind"]]
                    self.assertEqual(kind["count"], len(of_kind))
                    self.assertAlmostEqual(kind["bytes"], sum(entry["bytes"] for entry in of_kind))

    def test_rows_are_the_entries_of_the_plan(self):
        """All pages together are the list of the plan, and each is there byte for byte."""
        for name, plan in self.plans.items():
            whole = self.ask("GET", plan)
            for table, member in TABLES.items():
                if member is None:
                    continue
                with self.subTest(name, table=table):
                    entries = whole.json["plan"][member]
                    for size in (500, 7):
                        rows = self.all_rows(f"{plan}/{table}", size)
                        indices = [row.pop("index") for row in rows]
                        self.assertEqual(indices, sorted(set(indices)))
                        self.assertEqual(rows, entries)
                    for size in range(1, min(len(entries), 5) + 1):
                        text = self.ask("GET", f"{plan}/{table}?page_size={size}").body
                        last = b'{"index":%d,' % self.all_rows(f"{plan}/{table}")[size - 1]["index"]
                        quoted = text[text.index(last) + len(last):text.rindex(b"}]")]
                        self.assertIn(b"{" + quoted + b"}", whole.body)

    def test_nodes_add_up(self):
        for name, plan in self.plans.items():
            whole = self.ask("GET", plan).json["plan"]
            nodes = self.all_rows(f"{plan}/nodes")
            tensors = {tensor["name"] for tensor in whole["tensors"]}
            with self.subTest(name):
                self.assertEqual([node["index"] for node in nodes], list(range(len(nodes))))
                for stage in whole["stages"]:
                    mine = [node for node in nodes if node["stage"] == stage["index"]]
                    self.assertEqual({node["name"] for node in mine}, set(stage["nodes"]))
                    self.assertAlmostEqual(sum(node["seconds"] + node["collective_seconds"] for node in mine) /
                                           stage["compute_seconds"], 1, 9)
                for node in nodes:
                    if node["folded"]:
                        self.assertEqual((node["seconds"], node["flops"]), (0, 0))
                    elif name != "costs":
                        self.assertTrue(set(node["outputs"]) & tensors, node)

    def test_a_sweep_has_its_rows_and_the_chosen_plan(self):
        plan = self.plans["sweep"]
        whole, found = self.ask("GET", plan).json["plan"], self.ask("GET", f"{plan}/summary").json
        self.assertEqual(found["sweep"], whole["sweep"])
        self.assertEqual([(row["device"], row["devices_available"]) for row in found["sweep"]],
                         [(device, count) for device in ("a100-sxm4-80gb", "l4-24gb") for count in (1, 2, 4)])
        chosen, = [row for row in found["sweep"] if row["chosen"]]
        for member in ("latency_seconds", "interval_seconds", "throughput_per_second"):
            self.assertEqual(chosen[member], found["estimate"][member], member)
        self.assertEqual((chosen["stages"], chosen["devices_used"]), (len(found["stages"]), len(found["devices"])))
        for route in ROUTES:
            self.ask("GET", f"{plan}/{route}")
        lanes = self.ask("GET", f"{plan}/timeline?lanes=128").json["lanes"]
        self.assertEqual([lane["first_device"] for lane in lanes], [stage["devices"][0] for stage in whole["stages"]])
        self.assertEqual({lane["device"] for lane in lanes}, {device["name"] for device in whole["devices"]})

    def test_one_stage_of_512_devices(self):
        plan = self.plans["wide"]
        whole, found = self.ask("GET", plan).json["plan"], self.ask("GET", f"{plan}/summary").json
        stage, = whole["stages"]
        self.assertEqual((stage["devices"], len(whole["devices"]), stage["replicas"]), (list(range(512)), 512, 1))
        self.assertEqual(found["devices"][511]["memory"], whole["devices"][511]["memory"])
        nodes = self.all_rows(f"{plan}/nodes")
        graph = self.ask("GET", f"{plan}/graph?group=stage").json
        box, = graph["boxes"]
        self.assertEqual((box["kind"], box["nodes"], graph["edges"]), ("stage", len(nodes), []))
        self.assertAlmostEqual((box["seconds"] + box["collective_seconds"]) / stage["compute_seconds"], 1, 9)
        timeline = self.ask("GET", f"{plan}/timeline?from=0").json
        lane, = timeline["lanes"]
        self.assertEqual((lane["first_device"], lane["devices"], timeline["lane_count"]), (0, 512, 1))
        rows = {row["row"]: sum(piece[5] for piece in row["slices"] if piece[2] == 0) for row in lane["rows"]}
        self.assertGreater(rows["collective"], 0)
        self.assertEqual(set(rows), {"compute", "collective"})
        for row, member in (("compute", "seconds"), ("collective", "collective_seconds")):
            self.assertAlmostEqual(rows[row] / sum(node[member] for node in nodes), 1, 9)
        memory = self.ask("GET", f"{plan}/memory").json
        self.assertEqual(memory["devices"], [0, 512])
        for device in whole["devices"]:
            self.assertEqual({name: memory[name] for name in ("weights_bytes", "activations_peak_bytes", "total_bytes")},
                             {name: device["memory"][name] for name in ("weights_bytes", "activations_peak_bytes", "total_bytes")})
        self.problem("GET", f"{plan}/memory?stage=1", status=404, code="NO_SUCH_STAGE")

    # ---- sorting, searching, filters ----

    def test_sorting(self):
        for table, keys in {"nodes": ("name", "seconds", "flops", "bytes"), "tensors": ("name", "bytes"),
                            "collectives": ("seconds", "bytes")}.items():
            path = f"{self.plans['exchanged' if table == 'collectives' else 'split']}/{table}"
            for key in keys:
                for order in ("asc", "desc"):
                    with self.subTest(table, key=key, order=order):
                        rows = self.all_rows(f"{path}?sort={key}&order={order}", 9)
                        values = [row[key].encode() if key == "name" else row[key] for row in rows]
                        self.assertEqual(values, sorted(values, reverse=order == "desc"))
                        self.assertEqual(sorted(row["index"] for row in rows), [row["index"] for row in self.all_rows(path)])
            self.assertEqual(self.all_rows(f"{path}?order=desc", 9), list(reversed(self.all_rows(path))))

    def test_filters(self):
        plan = self.plans["exchanged"]
        nodes, tensors = self.all_rows(f"{plan}/nodes"), self.all_rows(f"{plan}/tensors")
        messages = self.all_rows(f"{plan}/collectives")
        name = messages[0]["after_node"]
        tensor = next(node["inputs"][0] for node in nodes if node["name"] == name)
        kind = messages[0]["kind"]
        cases = {
            "nodes?operator=MatMul": [row for row in nodes if row["operator"] == "MatMul"],
            f"nodes?name={name}": [row for row in nodes if row["name"] == name],
            "nodes?index=3": [nodes[3]],
            "nodes?stage=0": [row for row in nodes if row["stage"] == 0],
            "nodes?stage=99": [],
            f"nodes?tensor={tensor}": [row for row in nodes if tensor in row["inputs"] + row["outputs"]],
            "nodes?search=mAtMuL&stage=0": [row for row in nodes if "matmul" in (row["name"] + row["operator"]).lower() and row["stage"] == 0],
            "tensors?kind=weight": [row for row in tensors if row["kind"] == "weight"],
            f"tensors?name={tensor}": [row for row in tensors if row["name"] == tensor],
            f"collectives?kind={kind}": [row for row in messages if row["kind"] == kind],
            f"collectives?node={name}": [row for row in messages if name in (row["after_node"], row.get("before_node"))],
            "diagnostics?severity=error": [],
        }
        for path, wanted in cases.items():
            with self.subTest(path):
                self.assertEqual(self.all_rows(f"{plan}/{path}", 3), wanted)
        split, whole = (self.all_rows(f"{plan}/tensors?split={value}") for value in ("true", "false"))
        self.assertGreater(len(split), 0)
        self.assertEqual(sorted(row["index"] for row in split + whole), [row["index"] for row in tensors])
        self.assertEqual(len(split), self.ask("GET", f"{plan}/summary").json["counts"]["split_tensors"])

    def test_what_differs_between_two_plans(self):
        piped, split = self.plans["piped"], self.plans["split"]
        other = {row["name"]: row["spec"]["text"] for row in self.all_rows(f"{piped}/tensors")}
        mine = {row["name"]: row["spec"]["text"] for row in self.all_rows(f"{split}/tensors")}
        rows = self.all_rows(f"{split}/tensors?differs_from={piped.split('/')[-1]}", 5)
        self.assertGreater(len(rows), 0)
        self.assertEqual({row["name"]: row["other_text"] for row in rows},
                         {name: other.get(name) for name in mine if mine[name] != other.get(name)})
        self.assertEqual(self.all_rows(f"{split}/tensors?differs_from={split.split('/')[-1]}"), [])

    # ---- the graph ----

    def reached(self, plan, query):
        """Goes down everywhere: the nodes, and how often each is seen."""
        seen, asked, paths = collections.Counter(), set(), [""]
        while paths:
            path = paths.pop()
            if path in asked:
                continue
            asked.add(path)
            graph = self.ask("GET", f"{plan}/graph?path={escaped(path)}{query}").json
            self.assertEqual(graph["path"], path)
            inside = [box for box in graph["boxes"] if box["kind"] != "outside"]
            self.assertEqual(sum(box["nodes"] for box in inside), graph["node_count"])
            self.assertEqual([box["id"] for box in graph["boxes"]], list(range(len(graph["boxes"]))))
            for edge in graph["edges"]:
                self.assertLess(max(edge["from"], edge["to"]), len(graph["boxes"]))
                self.assertLessEqual(edge["crossing_bytes"], edge["bytes"])
            for box in inside:
                if box["kind"] == "node":
                    seen[box["node"]] += 1
                else:
                    self.assertNotEqual(box["path"], "")
                    paths.append(box["path"])
        return seen

    def test_every_node_is_reached(self):
        for name, plan in self.plans.items():
            names = collections.Counter(node["name"] for node in self.all_rows(f"{plan}/nodes"))
            for query in ("", "&limit=2", "&limit=7&depth=3"):
                with self.subTest(name, query=query):
                    seen = self.reached(plan, query)
                    self.assertEqual(set(seen), set(names))

    def test_the_graph_adds_up(self):
        for name, plan in self.plans.items():
            nodes = self.all_rows(f"{plan}/nodes")
            for query in ("", "?group=stage", "?depth=4&limit=500"):
                graph = self.ask("GET", f"{plan}/graph{query}").json
                with self.subTest(name, query=query):
                    for member in ("seconds", "flops", "collective_seconds", "weights_bytes"):
                        self.assertAlmostEqual(sum(box[member] for box in graph["boxes"]) /
                                               (sum(node[member] for node in nodes) or 1),
                                               any(node[member] for node in nodes), 9, member)
            for stage in {node["stage"] for node in nodes}:
                graph = self.ask("GET", f"{plan}/graph?stage={stage}").json
                self.assertEqual(graph["stage"], stage)
                self.assertEqual(graph["node_count"], sum(node["stage"] == stage for node in nodes))

    def test_stages_beyond_the_limit_are_joined_and_it_is_said(self):
        nodes = self.all_rows(f"{self.deep}/nodes")
        bytes_of = {row["name"]: row["bytes"] for row in self.all_rows(f"{self.deep}/tensors")}
        for limit in (2, 9, 139, 140, 500):
            graph = self.ask("GET", f"{self.deep}/graph?group=stage&limit={limit}").json
            with self.subTest(limit=limit):
                boxes = graph["boxes"]
                self.assertEqual((len(boxes), graph["truncated"]), (min(limit, 140), limit < 140))
                self.assertEqual([stage["stage"] for box in boxes for stage in box["stages"]], list(range(140)))
                box_of = {stage["stage"]: box["id"] for box in boxes for stage in box["stages"]}
                flows = {(name, box_of[node["stage"]], box_of[user["stage"]]) for node in nodes for name in node["outputs"]
                         for user in nodes if name in user["inputs"]}
                for edge in graph["edges"]:
                    names = [name for name, source, to in flows if (source, to) == (edge["from"], edge["to"])]
                    self.assertEqual((edge["tensors"], edge["bytes"]), (len(names), sum(bytes_of[name] for name in names)))
                self.assertEqual({(edge["from"], edge["to"]) for edge in graph["edges"]},
                                 {(source, to) for _, source, to in flows if source != to})
        for limit in (2, 419, 420):
            graph = self.ask("GET", f"{self.deep}/graph?limit={limit}").json
            self.assertEqual((len(graph["boxes"]), graph["truncated"]), (limit, limit < 420))
            self.assertEqual(any(box["kind"] == "run" for box in graph["boxes"]), limit < 420)

    def test_a_node_of_many_operands(self):
        names = [f"x{number}" for number in range(1500)]
        graph = {"name": "wide", "inputs": [{"name": name, "dtype": "float32", "shape": [2]} for name in names], "opset": 21, "outputs": ["y"],
                 "nodes": [{"name": "sum", "op": "Sum", "inputs": names, "outputs": ["y"]}]}
        plan = self.planned(json.dumps(graph).encode(), "wide", JSON)
        row, = self.ask("GET", f"{plan}/nodes?name=sum").json["items"]
        self.assertEqual((row["inputs"], row["outputs"], row["more_operands"]), (names[:1000], ["y"], 500))
        self.assertEqual(self.ask("GET", f"{plan}/tensors?node=sum").json["total"], 1501)

    def test_long_names(self):
        """What is only read is cut, what is handed back is not, and goes as far as a request can be long."""
        long, wide, tensor = "m" * 3000, "\N{EURO SIGN}" * 1300, "t" * 4000
        names = [f"/{long}/a", f"/{long}/b", f"/{wide}/a", f"/{wide}/b"]
        tensors = ["x", tensor, f"{wide}2", f"{wide}3", "y"]
        graph = [onnx_make.graph_input("x", (8, 64))]
        graph += [onnx_make.node("Relu", [tensors[i]], [tensors[i + 1]], name) for i, name in enumerate(names)]
        plan = self.planned(onnx_make.encode(onnx_make.model(*graph, onnx_make.graph_output("y", (8, 64)))), "long")
        graph = self.ask("GET", f"{plan}/graph").json
        self.assertEqual([(box["path"], box["label"]) for box in graph["boxes"]],
                         [(f"/{long}", "m" * 119 + "\N{HORIZONTAL ELLIPSIS}"), (f"/{wide}", wide[:119] + "\N{HORIZONTAL ELLIPSIS}")])
        self.assertEqual(graph["edges"][0]["tensor"], wide[:511] + "\N{HORIZONTAL ELLIPSIS}")
        below = self.ask("GET", f"{plan}/graph?path={escaped(graph['boxes'][0]['path'])}").json
        self.assertEqual([(box["label"], box.get("node")) for box in below["boxes"]],
                         [("a", names[0]), ("b", names[1]), ("after", None)])
        self.assertEqual(below["edges"][0]["tensor"], "t" * 511 + "\N{HORIZONTAL ELLIPSIS}")
        found = self.ask("GET", f"{plan}/tensors?search={below['edges'][0]['tensor'][:511]}").json["items"]
        self.assertEqual([row["name"] for row in found], [tensor])
        self.ask("GET", f"{plan}/graph?path={escaped(graph['boxes'][1]['path'])}", expect=414)
        self.assertEqual([node["name"] for node in self.all_rows(f"{plan}/nodes")], names)
        run = self.ask("GET", f"{plan}/graph?path={escaped('/' + long)}&limit=2").json
        self.assertFalse(run["truncated"])
        for lane in self.ask("GET", f"{plan}/timeline?from=0").json["lanes"]:
            for row in lane["rows"]:
                self.assertTrue(all(len(piece[6]) <= 120 for piece in row["slices"]), row)

    # ---- time and memory ----

    def test_the_timeline_is_as_long_as_the_plan_says(self):
        """Of each request and lane the slices of computing and exchanging are what its devices compute."""
        for name, plan in self.plans.items():
            whole = self.ask("GET", plan).json["plan"]
            timeline = self.ask("GET", f"{plan}/timeline", Accept=JSON).json
            self.assertEqual(timeline["lane_count"], sum(stage["replicas"] for stage in whole["stages"]))
            with self.subTest(name):
                self.assertAlmostEqual(timeline["latency_seconds"], whole["estimate"]["latency_seconds"])
                fine = self.ask("GET", f"{plan}/timeline?resolution={timeline['end'] / 1e9:.3e}").json
                for lane in fine["lanes"]:
                    stage = whole["stages"][lane["stage"]]
                    busy = sum(piece[5] for row in lane["rows"] if row["row"] in ("compute", "collective")
                               for piece in row["slices"] if piece[2] == 0)
                    if any(piece[2] == 0 for row in lane["rows"] for piece in row["slices"]):
                        self.assertAlmostEqual(busy / stage["compute_seconds"], 1, 6)
                    self.assertIn(lane["first_device"], stage["devices"])
                half = self.ask("GET", f"{plan}/timeline?from=0&to={timeline['end'] / 2:.12g}&lanes=1").json
                self.assertEqual(len(half["lanes"]), 1)

    def lanes(self, query, size):
        """All lanes, fetched so many at a time."""
        found, count = [], 1
        while len(found) < count:
            block = self.ask("GET", f"{self.deep}/timeline?first_lane={len(found)}&lanes={size}{query}").json
            count = block["lane_count"]
            self.assertEqual(len(block["lanes"]), min(size, count - len(found)))
            found += block["lanes"]
        return found

    def test_many_lanes_in_blocks(self):
        whole = self.ask("GET", self.deep).json["plan"]
        end = self.ask("GET", f"{self.deep}/timeline?lanes=1").json["end"]
        for query in ("", f"&resolution={end / 1e9:.3e}", f"&from={end / 3:.12g}&to={end / 2:.12g}"):
            lanes = self.lanes(query, 128)
            self.assertEqual([lane["lane"] for lane in lanes], list(range(140)))
            for size in (64, 37):
                self.assertEqual(self.lanes(query, size), lanes)
        for lane in self.lanes(f"&resolution={end / 1e9:.3e}", 128):
            device = whole["devices"][lane["first_device"]]
            self.assertEqual((device["id"], device["stage"]), (lane["first_device"], lane["stage"]))
            busy = collections.Counter()
            for row in lane["rows"]:
                for piece in row["slices"]:
                    busy[piece[2]] += piece[5] if row["row"] in ("compute", "collective") else 0
            self.assertGreater(len(busy), 1)
            for seconds in busy.values():
                self.assertAlmostEqual(seconds / device["compute_seconds"], 1, 6)

    def test_the_deep_plan_is_its_parts(self):
        whole, found = self.ask("GET", self.deep).json["plan"], self.ask("GET", f"{self.deep}/summary").json
        self.assertEqual((len(whole["stages"]), len(found["stages"])), (140, 140))
        for stage in (0, 71, 139):
            memory = self.ask("GET", f"{self.deep}/memory?stage={stage}").json
            self.assertAlmostEqual(memory["total_bytes"], whole["devices"][whole["stages"][stage]["devices"][0]]["memory"]["total_bytes"])
            nodes = self.all_rows(f"{self.deep}/nodes?stage={stage}")
            self.assertEqual({node["name"] for node in nodes}, set(whole["stages"][stage]["nodes"]))
        self.problem("GET", f"{self.deep}/timeline?first_lane=140", status=404, code="NO_SUCH_LANE")

    def test_spans_at_the_edges(self):
        """Beyond the end there is nothing, and no resolution is too fine or too coarse."""
        plan = self.plans["piped"]
        whole = self.ask("GET", f"{plan}/timeline?from=0").json
        end = whole["end"]
        self.assertEqual(self.ask("GET", f"{plan}/timeline?from=0&to=0&resolution=0&first_lane=0").json, whole)
        beyond = self.ask("GET", f"{plan}/timeline?from={end * 2:.17g}&to={end * 3:.17g}").json
        self.assertEqual([piece for lane in beyond["lanes"] for row in lane["rows"] for piece in row["slices"]], [])
        self.assertEqual((len(beyond["lanes"]), beyond["end"]), (len(whole["lanes"]), end))
        longer = self.ask("GET", f"{plan}/timeline?to=1e300").json
        self.assertEqual((longer["to"], longer["end"]), (1e300, end))
        finest = self.ask("GET", f"{plan}/timeline?resolution=1e-300").json
        self.assertEqual(finest, self.ask("GET", f"{plan}/timeline?resolution={end / 4000:.3e}").json)
        for row in (row for lane in self.ask("GET", f"{plan}/timeline?resolution=1e300").json["lanes"] for row in lane["rows"]):
            self.assertEqual([piece[2] for piece in row["slices"]], list(range(whole["requests"])))
        last, = self.ask("GET", f"{plan}/timeline?first_lane={whole['lane_count'] - 1}&lanes=128").json["lanes"]
        self.assertEqual(last, whole["lanes"][-1])
        self.problem("GET", f"{plan}/timeline?from={end:.17g}", status=400, code="BAD_SPAN")
        self.problem("GET", f"{plan}/timeline?from={end / 2:.17g}&to={end / 2:.17g}", status=400, code="BAD_SPAN")

    def test_a_trace_unless_json_is_wanted(self):
        plan = self.plans["piped"]
        for accept in (None, "*/*", "application/x-protobuf", "application/json;q=0.5, application/x-protobuf"):
            answer = self.ask("GET", f"{plan}/timeline", **({"Accept": accept} if accept else {}))
            self.assertEqual(answer.headers["Content-Type"], "application/x-protobuf")
            self.assertIn("Accept", answer.headers["Vary"])
        for path, accept in (("timeline", JSON), ("timeline?from=0", None), ("timeline?lanes=1", "*/*")):
            answer = self.ask("GET", f"{plan}/{path}", **({"Accept": accept} if accept else {}))
            self.assertEqual(answer.headers["Content-Type"], JSON)
            self.assertIn("Accept", answer.headers["Vary"])

    def test_memory_is_what_the_devices_have(self):
        for name, plan in self.plans.items():
            whole = self.ask("GET", plan).json["plan"]
            for stage in whole["stages"]:
                found = self.ask("GET", f"{plan}/memory?stage={stage['index']}&resolution=16").json
                with self.subTest(name, stage=stage["index"]):
                    device = next(device for device in whole["devices"] if device["id"] == stage["devices"][0])
                    for member, value in device["memory"].items():
                        if member != "arena_bytes":
                            self.assertAlmostEqual(found[member], value, msg=member)
                    self.assertEqual(found["devices"][0], stage["devices"][0])
                    alive = sum(item["bytes"] for item in found["alive"]) + found.get("alive_more", {"bytes": 0})["bytes"]
                    self.assertAlmostEqual(alive, found["activations_peak_bytes"])
                    self.assertLessEqual(len(found["course"]), 16)
                    self.assertAlmostEqual(max((at[1] for at in found["course"]), default=0), found["activations_peak_bytes"])

    # ---- how they are asked for ----

    def test_conditions_ranges_and_heads(self):
        plan = self.plans["split"]
        tags = set()
        for route in ROUTES:
            with self.subTest(route):
                path = f"{plan}/{route}"
                answer = self.ask("GET", path)
                tag = answer.headers["ETag"]
                tags.add(tag)
                self.assertEqual(self.ask("GET", path).body, answer.body)
                head = self.ask("HEAD", path)
                self.assertEqual((head.body, head.headers["ETag"], head.headers["Content-Length"]),
                                 (b"", tag, answer.headers["Content-Length"]))
                unchanged = self.ask("GET", path, expect=304, If_None_Match=f'"other", {tag}')
                self.assertEqual(unchanged.headers["ETag"], tag)
                self.assertIn("Accept-Encoding", unchanged.headers["Vary"])
                self.ask("GET", path, expect=304, If_Modified_Since=answer.headers["Last-Modified"])
                self.ask("GET", path, expect=200, If_None_Match='"other"')
                self.ask("GET", path, expect=412, If_Match='"other"')
                part = self.ask("GET", path, expect=206, Range="bytes=3-9")
                self.assertEqual(part.body, answer.body[3:10])
                self.ask("GET", path, expect=416, Range="bytes=99999999-")
                packed = self.ask("GET", path, Accept_Encoding="gzip")
                if "Content-Encoding" in packed.headers:
                    self.ask("GET", path, expect=304, If_None_Match=packed.headers["ETag"], Accept_Encoding="gzip")
                    self.assertNotEqual(packed.headers["ETag"], tag)
        self.assertEqual(len(tags), len(ROUTES))

    def test_what_is_known_is_answered_without_the_index(self):
        """Also when another answer to the same question cannot be made any more."""
        plan = self.planned(model(903), "known")
        tags = {route: self.ask("GET", f"{plan}/{route}").headers["ETag"] for route in ROUTES}
        self.daemon.stop()
        self.addCleanup(os.rename, self.index_of(plan) + ".away", self.index_of(plan))
        os.rename(self.index_of(plan), self.index_of(plan) + ".away")
        self.daemon.start()
        for route, tag in tags.items():
            self.ask("GET", f"{plan}/{route}", expect=304, If_None_Match=tag)
        self.assertFalse(os.path.exists(self.index_of(plan)))

    def test_what_is_wrong_with_a_question(self):
        plan = self.plans["split"]
        page = self.ask("GET", f"{plan}/tensors?page_size=2").json["next_page_token"]
        other = self.ask("GET", f"{self.plans['piped']}/tensors?page_size=2").json["next_page_token"]
        cases = {
            "graph?depth=0": (400, "BAD_PARAMETER"), "graph?depth=5": (400, "BAD_PARAMETER"),
            "graph?limit=1": (400, "BAD_PARAMETER"), "graph?group=layer": (400, "BAD_PARAMETER"),
            "graph?group=stage&path=a": (400, "BAD_PARAMETER"), "graph?stage=-1": (400, "BAD_PARAMETER"),
            "graph?path=nowhere": (404, "NO_SUCH_MODULE"), "graph?stage=99": (404, "NO_SUCH_STAGE"),
            "timeline?from=x": (400, "BAD_PARAMETER"), "timeline?to=-1": (400, "BAD_PARAMETER"),
            "timeline?resolution=1e999": (400, "BAD_PARAMETER"), "timeline?lanes=129": (400, "BAD_PARAMETER"),
            "timeline?from=0x1p3": (400, "BAD_PARAMETER"), "timeline?first_lane=99": (404, "NO_SUCH_LANE"),
            "timeline?from=2&to=1": (400, "BAD_SPAN"),
            "graph?depth=99999999999": (400, "BAD_PARAMETER"), "graph?depth=": (400, "BAD_PARAMETER"),
            "graph?limit=501": (400, "BAD_PARAMETER"), "graph?stage=4294967295": (400, "BAD_PARAMETER"),
            "graph?stage=4294967294": (404, "NO_SUCH_STAGE"), "graph?stage=1.0": (400, "BAD_PARAMETER"),
            "graph?path=0-9@nowhere": (404, "NO_SUCH_MODULE"), "graph?path=3-2@": (404, "NO_SUCH_MODULE"),
            "graph?path=%FF": (400, "BAD_QUERY"), "graph?path=%00": (400, "BAD_QUERY"),
            "graph?depth=1&depth=2": (400, "REPEATED_PARAMETER"),
            "timeline?resolution=-1": (400, "BAD_PARAMETER"), "timeline?resolution=nan": (400, "BAD_PARAMETER"),
            "timeline?resolution=inf": (400, "BAD_PARAMETER"), "timeline?resolution=": (400, "BAD_PARAMETER"),
            "timeline?lanes=0": (400, "BAD_PARAMETER"), "timeline?from=1e9": (400, "BAD_SPAN"),
            "timeline?first_lane=4294967294": (404, "NO_SUCH_LANE"), "timeline?first_lane=-1": (400, "BAD_PARAMETER"),
            "memory?stage=-1": (400, "BAD_PARAMETER"), "memory?resolution=4097": (400, "BAD_PARAMETER"),
            "memory?stage=99": (404, "NO_SUCH_STAGE"), "memory?resolution=15": (400, "BAD_PARAMETER"),
            "nodes?sort=colour": (400, "BAD_PARAMETER"), "nodes?order=up": (400, "BAD_PARAMETER"),
            "nodes?path=nowhere": (404, "NO_SUCH_MODULE"), "nodes?kind=input": (400, "UNKNOWN_PARAMETER"),
            "nodes?page_size=0": (400, "BAD_PAGE_SIZE"), "nodes?page_token=x": (400, "BAD_PAGE_TOKEN"),
            "tensors?kind=food": (400, "BAD_PARAMETER"), "tensors?split=maybe": (400, "BAD_PARAMETER"),
            f"tensors?kind=weight&page_token={page}": (400, "BAD_PAGE_TOKEN"),
            f"tensors?page_token={other}": (400, "BAD_PAGE_TOKEN"), f"nodes?page_token={page}": (400, "BAD_PAGE_TOKEN"),
            "tensors?page_token=": (400, "BAD_PAGE_TOKEN"), "nodes?index=4294967295": (400, "BAD_PARAMETER"),
            "tensors?differs_from=x": (400, "BAD_PARAMETER"), f"tensors?differs_from={'0' * 32}": (404, "PLAN_NOT_FOUND"),
            "collectives?index=x": (400, "BAD_PARAMETER"), "diagnostics?severity=bad": (400, "BAD_PARAMETER"),
            "diagnostics?stage=0": (400, "UNKNOWN_PARAMETER"), "summary?short=1": (400, "UNKNOWN_PARAMETER"),
        }
        for path, (status, code) in cases.items():
            with self.subTest(path):
                answer = self.problem("GET", f"{plan}/{path}", status=status, code=code)
                if code == "BAD_PARAMETER":
                    self.assertIn(path.split("?")[1].split("=")[0] if "&path" not in path else "path", answer.json["detail"])
        self.ask("GET", f"{plan}/tensors?page_token={page}&page_size=1")

    def test_plans_without_a_result_and_without_a_row(self):
        costs = json.dumps({"nodes": [{"id": 1, "seconds": 1, "memory_bytes": 1e15}], "edges": []}).encode()
        stored = self.daemon.upload(costs, Content_Type=JSON).json["id"]
        failed = "/v1/plans/" + self.ask("POST", "/v1/plans", {"model": stored, "cluster": CLUSTER}, 202).json["id"]
        self.daemon.finished(failed.split("/")[-1])
        deleted = self.planned(model(904), "deleted")
        self.ask("GET", f"{deleted}/summary")
        self.ask("DELETE", deleted, expect=204)
        for route in ROUTES:
            self.problem("GET", f"{failed}/{route}", status=409, code="PLAN_NOT_READY")
            self.problem("GET", f"{deleted}/{route}", status=404, code="PLAN_NOT_FOUND")
        self.problem("GET", f"{self.plans['split']}/tensors?differs_from={failed.split('/')[-1]}", status=409, code="PLAN_NOT_READY")
        row = next(row for row in self.ask("GET", "/v1/summary").json["plans"] if row["id"] in failed)
        self.assertEqual((row["state"], row["stages"], row["bottleneck"]), ("failed", None, None))

    def test_a_cancelled_plan_that_has_a_result(self):
        body = {"model": self.store(made("llama3-8b")), "sweep": SWEEP}
        plan = "/v1/plans/" + self.ask("POST", "/v1/plans", body, 202).json["id"]
        self.daemon.wait_for(lambda: self.ask("GET", plan).json["progress"].get("best_seconds", 0) > 0, "a plan")
        self.ask("POST", f"{plan}/cancel", Prefer="wait=30")
        done = self.daemon.finished(plan.split("/")[-1])
        self.assertEqual((done["state"], done["has_result"]), ("cancelled", True))
        job = self.ask("GET", f"{plan}/summary").json["job"]
        self.assertEqual((job["state"], job["has_result"]), ("cancelled", True))
        for route in ROUTES:
            self.ask("GET", f"{plan}/{route}")

    def test_many_at_once(self):
        """Of kept indexes, of one that is being made, and while plans go."""
        plans = [*self.plans.values(), self.planned(model(905), "gone")]
        wanted = {f"{plan}/{route}": self.ask("GET", f"{plan}/{route}").body for plan in plans for route in ROUTES}
        wrong = []

        def ask_all(turn):
            for path in list(wanted)[turn:] + list(wanted)[:turn]:
                answer = self.daemon.request("GET", path)
                if answer.body != wanted[path] and not (answer.status == 404 and plans[-1] in path):
                    wrong.append((path, answer))

        threads = [threading.Thread(target=ask_all, args=(turn * 3,)) for turn in range(8)]
        for thread in threads:
            thread.start()
        time.sleep(0.05)
        self.ask("DELETE", plans[-1], expect=204)
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class Kept(PlansCase):
    """Plans whose index is not there or not whole."""

    def restarted(self, data, name, change):
        """A plan, all of its answers, and a daemon that has nothing of it in memory after `change`."""
        plan = self.planned(data, name)
        answers = {route: self.ask("GET", f"{plan}/{route}").body for route in ROUTES}
        self.daemon.stop()
        change(self.index_of(plan))
        self.daemon.start()
        return plan, answers

    def changed(self, at, bytes_):
        def change(path):
            with open(path, "r+b") as file:
                file.seek(at)
                file.write(bytes_)
        return change

    def cut(self, path):
        os.truncate(path, os.path.getsize(path) // 2)

    def test_it_is_made_again(self):
        """Of an older plan, of another version, of one that is damaged: the answers are the same, and it is kept."""
        with open(os.path.join(MODELS, "transformer_tiny.onnx"), "rb") as file:
            data = file.read()
        changes = {"older": os.unlink, "empty": lambda path: os.truncate(path, 0), "cut": self.cut,
                   "version": self.changed(8, b"\xff"), "size": self.changed(32, b"\xff"), "tables": self.changed(208, b"\xff" * 64)}
        for name, change in changes.items():
            with self.subTest(name):
                plan, answers = self.restarted(data, name, change)
                row = self.ask("GET", "/v1/summary?page_size=1").json["plans"][0]
                if BLOBS == "folder" and name in ("older", "empty", "cut", "version"):
                    self.assertIsNone(row["stages"])
                first = self.ask("GET", f"{plan}/{ROUTES[0]}").body
                self.assertEqual(first, answers[ROUTES[0]])
                self.assertTrue(os.path.exists(self.index_of(plan)))
                self.assertEqual({route: self.ask("GET", f"{plan}/{route}").body for route in ROUTES}, answers)
                self.assertIsNotNone(self.ask("GET", "/v1/summary?page_size=1").json["plans"][0]["stages"])
        self.no_temporary_files()

    def test_by_many_at_once(self):
        plan, answers = self.restarted(model(920), "many", os.unlink)
        found = []
        threads = [threading.Thread(target=lambda: found.append(self.daemon.request("GET", f"{plan}/summary").body)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(set(found), {answers["summary"]})
        self.no_temporary_files()

    def test_two_that_are_compared(self):
        one, other = self.planned(model(921), "one"), self.planned(model(922), "other")
        path = f"{one}/tensors?differs_from={other.split('/')[-1]}"
        wanted = self.ask("GET", path).body
        self.daemon.stop()
        for plan in (one, other):
            os.unlink(self.index_of(plan))
        self.daemon.start()
        self.assertEqual(self.ask("GET", path).body, wanted)

    def without_sums(self, plan):
        """The plan of a version that made no sums."""
        name = plan.split("/")[-1]
        self.daemon.change_store(f"UPDATE plans SET files = NULL WHERE id = '{name}'")
        os.unlink(os.path.join(self.daemon.data, "plans", name, "1", "sums"))

    def test_a_plan_that_cannot_be_made_again(self):
        """An early version's, without an outline and sums, and one that is damaged."""
        if BLOBS == "s3":
            self.skipTest("an object store has the index")
        plan, _ = self.restarted(TINY, "stopped", os.unlink)
        self.without_sums(plan)
        file_of = os.path.join(os.path.dirname(self.index_of(plan)), "plan.json")
        with open(file_of, encoding="utf-8") as file:
            whole = json.load(file)
        whole["diagnostics"].append({"code": "SEARCH_STOPPED", "severity": "note", "message": "It was stopped."})
        del whole["outline"]
        with open(file_of, "w", encoding="utf-8") as file:
            json.dump(whole, file)
        for route in ROUTES:
            self.problem("GET", f"{plan}/{route}", status=422)
        with open(file_of, "w", encoding="utf-8") as file:
            file.write('{"plan"')
        self.problem("GET", f"{plan}/summary", status=500, code="PLAN_DAMAGED")
        self.problem("GET", f"{plan}/summary", status=409, code="PLAN_NOT_READY")
        self.assertEqual(self.ask("GET", plan).json["error"]["code"], "PLAN_DAMAGED")


def escaped(path):
    return "".join(c if c.isalnum() or c in "/._-~" else "".join(f"%{byte:02X}" for byte in c.encode()) for c in path)


class Lines(DaemonCase):
    """GET /v1/summary"""

    def test_a_row_for_each_plan(self):
        self.assertEqual(self.ask("GET", "/v1/summary").json, {"plans": []})
        named = self.daemon.upload(model(930), "/v1/models?name=a%20name").json["id"]
        plans = []
        for number in range(5):
            body = {"model": named if number % 2 else self.store(model(931)), "cluster": CLUSTER, "options": {"seed": number}}
            plans.append(self.ask("POST", "/v1/plans", body, 200, Prefer="wait=60").json)
        rows = self.ask("GET", "/v1/summary").json["plans"]
        self.assertEqual([row["id"] for row in rows], [plan["id"] for plan in reversed(plans)])
        for row, plan in zip(rows, reversed(plans)):
            estimate = plan["plan"]["estimate"]
            self.assertEqual({name: row[name] for name in estimate if name in row}, {name: value for name, value in estimate.items() if name in row})
            self.assertEqual((row["objective"], row["strategy"]), (plan["plan"]["objective"], plan["plan"]["search"]["strategy"]))
            self.assertEqual((row["devices"], row["stages"]), (len(plan["plan"]["devices"]), len(plan["plan"]["stages"])))
            self.assertEqual(row["model_name"], "a name" if plan["model"] == named else None)
            self.assertAlmostEqual(row["memory_worst_ratio"], max(
                device["memory"]["total_bytes"] / device["memory"]["capacity_bytes"] for device in plan["plan"]["devices"]))
            for member in ("state", "model", "created_at", "started_at", "finished_at"):
                self.assertEqual(row[member], plan[member])
            self.assertTrue(all(value is None or isinstance(value, (int, float, str)) for value in row.values()))
        found, token = [], ""
        while token is not None:
            page = self.ask("GET", f"/v1/summary?page_size=2{token}").json
            found += page["plans"]
            token = f"&page_token={page['next_page_token']}" if "next_page_token" in page else None
        self.assertEqual(found, rows)
        self.assertEqual(self.ask("GET", f"/v1/summary?model={named}").json["plans"], [row for row in rows if row["model"] == named])
        self.assertEqual(self.ask("GET", "/v1/summary?state=failed").json["plans"], [])
        self.conditions()

    def conditions(self):
        answer = self.ask("GET", "/v1/summary")
        self.ask("GET", "/v1/summary", expect=304, If_None_Match=answer.headers["ETag"])
        self.ask("GET", "/v1/summary", expect=412, If_Match='"other"')
        self.assertEqual(self.ask("GET", "/v1/summary", expect=206, Range="bytes=0-8").body, answer.body[:9])
        self.ask("GET", "/v1/summary", expect=416, Range="bytes=99999999-")
        self.assertEqual(self.ask("HEAD", "/v1/summary").headers["ETag"], answer.headers["ETag"])
        for query in ("state=lost", "model=x"):
            self.problem("GET", f"/v1/summary?{query}", status=400, code="BAD_PARAMETER")
        self.problem("GET", "/v1/summary?page_size=0", status=400, code="BAD_PAGE_SIZE")
        self.problem("GET", "/v1/summary?page_token=x", status=400, code="BAD_PAGE_TOKEN")

    def test_plans_that_wait(self):
        self.store(model(932))
        self.daemon.freeze()
        self.addCleanup(self.daemon.thaw)
        plan = self.submit(model(932), objective="latency")
        row = self.ask("GET", "/v1/summary").json["plans"][0]
        self.assertIn(row["state"], ("queued", "running"))
        self.assertEqual((row["id"], row["objective"], row["finished_at"], row["stages"]), (plan, "latency", None, None))
        self.assertIn(plan, [row["id"] for state in ("queued", "running") for row in self.ask("GET", f"/v1/summary?state={state}").json["plans"]])
