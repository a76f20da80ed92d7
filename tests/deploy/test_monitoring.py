"""Alerts and panels use what a daemon exports: names, labels, and the values of labels that they choose by."""
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

import common
import yaml
from daemon import Daemon  # of tests/api

SCRAPED = {"job", "instance", "namespace"}  # what Prometheus adds
ADDED = {"version", "le", "alertname", "alertstate"}
OTHERS = {"up", "ALERTS"}  # metrics of Prometheus itself
SERIES = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? \S+$")

class Watched(Daemon):
    """A daemon that asks for tokens; the tests have one that may everything."""

    def __init__(self, folder):
        token, entry = common.make_token("operator", "--scopes", "read,plan,admin")
        tokens = os.path.join(folder, "tokens.json")
        with open(tokens, "w", encoding="utf-8") as file:
            json.dump({"principals": [entry]}, file)
        super().__init__("--tokens", tokens, "--workers", "1", data=os.path.join(folder, "data"))
        self.token = token

    def request(self, method, path, body=None, headers=None, **options):
        headers = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        return super().request(method, path, body, headers, **options)


def exercise(daemon):
    """Makes every kind of series that rules and panels speak of."""
    with open(os.path.join(common.TOP, "tests/data/resnet50.onnx"), "rb") as file:
        model = file.read()
    way = "/v1/plans?devices=2&device=a100-sxm4-80gb"
    given = {"Content-Type": "application/octet-stream", "Prefer": "wait=60"}
    daemon.request("POST", way, model, given)
    daemon.request("POST", "/v1/plans?devices=1&device=a100-sxm4-80gb", b"\x08\x07no model", given)
    sha256 = daemon.request("GET", "/v1/models").json["models"][0]["id"]
    tiny = {"groups": [{"count": 1, "device": {"name": "tiny", "memory_bytes": 1000, "memory_bandwidth": 1e9, "flops": {"float32": 1e9}}}]}
    daemon.request("POST", "/v1/plans", {"model": sha256, "cluster": tiny}, {"Prefer": "wait=60"})  # fails: nothing fits
    daemon.request("POST", "/v1/check", model)
    daemon.request("GET", "/v1/plans", headers={"Authorization": "Bearer spl_wrong"})
    daemon.request("GET", "/v1/plans", headers={"Authorization": ""})
    crash_a_worker(daemon, {"model": sha256, "cluster": {"device": "a100-sxm4-80gb", "count": 2}})


def crash_a_worker(daemon, body):
    """A worker that is gone while it has a job; the next one finishes it."""
    stopped = daemon.freeze()
    plan = daemon.request("POST", "/v1/plans", body, {"Cache-Control": "no-cache"}).json["id"]
    daemon.wait_for(lambda: daemon.metric("shardplan_workers_busy") == 1, "a busy worker")
    for worker in stopped:
        os.kill(worker, signal.SIGKILL)
    daemon.finished(plan)
    if "crashed" not in daemon.get("/metrics").text:
        raise AssertionError("the end of a worker is not in the metrics")


def exported(text):
    """{name: {label: values}} of an exposition, with the names of families that have no series yet."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if line.startswith("# TYPE"):
            suffixes = ("_bucket", "_sum", "_count") if words[3] == "histogram" else ("",)
            for suffix in suffixes:
                found.setdefault(words[2] + suffix, {})
        elif not line.startswith("#"):
            match = SERIES.match(line)
            for label, value in re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or ""):
                found[match[1]].setdefault(label, set()).add(value)
    return found


def expressions(which="all"):
    """(where, expression) of every alert, recorded metric and panel."""
    rules = yaml.safe_load(common.text_of("deploy/prometheus/shardplan-rules.yaml"))
    for group in rules["groups"] if which == "all" else []:
        for rule in group["rules"]:
            yield rule.get("alert") or rule["record"], rule["expr"]
    dashboard = json.loads(common.text_of("deploy/grafana/shardplan.json"))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m")
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query" and which == "all":
            yield variable["name"], variable["query"]["query"]


class Monitoring(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="shardplan-watched-") as folder:
            daemon = Watched(folder)
            try:
                daemon.start()
                exercise(daemon)
                cls.metrics = exported(daemon.get("/metrics").text)
            finally:
                daemon.close()
        rules = yaml.safe_load(common.text_of("deploy/prometheus/shardplan-rules.yaml"))
        cls.recorded = {rule["record"] for group in rules["groups"] for rule in group["rules"] if "record" in rule}

    def test_every_name_and_label(self):
        count = 0
        for where, expression in expressions():
            text = re.sub(r'"(?:[^"\\]|\\.)*"', lambda match: match[0].replace(" ", "_"), expression)
            labels = set()
            for name in re.findall(r"(?<![\w:$\"])((?:shardplan|process)_\w+|shardplan:[\w:]+)", text):
                count += 1
                with self.subTest(where, name=name):
                    self.assertIn(name, self.metrics.keys() | self.recorded)
                labels |= set(self.metrics.get(name, {}))
            for name, chosen in re.findall(r"([\w:]+)\{([^}]*)\}", text):
                for label, how, value in re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', chosen):
                    with self.subTest(where, name=name, label=label):
                        self.choice(name, label, how, value)
            for listed in re.findall(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)", text):
                with self.subTest(where, by=listed):
                    self.assertLessEqual({one.strip() for one in listed.split(",")}, labels | SCRAPED | ADDED)
        self.assertGreater(count, 60)

    def choice(self, name, label, how, value):
        if name in OTHERS or label in SCRAPED:
            return
        values = self.metrics[name].get(label, set())
        self.assertTrue(values, f"{name} has no label {label}")
        if value.startswith("$"):
            return
        if label == "code" and name.startswith("shardplan_http"):
            self.assertTrue(all(re.fullmatch(r"\d+", one) for one in values))  # statuses
        elif how == "=":
            self.assertIn(value, values, f"{name} never has {label}={value}")
        else:
            self.assertTrue(any(re.fullmatch(value, one) for one in values), f"{label}{how}{value}")

    def test_everything_is_watched(self):
        """Each family of the daemon is in a panel or an alert, so that nothing is exported for nobody."""
        used = " ".join(expression for _, expression in expressions())
        families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in self.metrics if name.startswith("shardplan_")}
        self.assertEqual(set(), {name for name in families if name not in used})

    def test_rules_name_what_to_do(self):
        rules = yaml.safe_load(common.text_of("deploy/prometheus/shardplan-rules.yaml"))
        alerts = [rule for group in rules["groups"] for rule in group["rules"] if "alert" in rule]
        self.assertGreater(len(alerts), 10)
        tested = {case["alertname"] for one in yaml.safe_load(common.text_of("tests/deploy/alerts.yaml"))["tests"]
                  for case in one.get("alert_rule_test", []) if case.get("exp_alerts")}  # fmt: skip
        self.assertEqual({rule["alert"] for rule in alerts}, tested)
        for rule in alerts:
            with self.subTest(rule["alert"]):
                self.assertIn(rule["labels"]["severity"], ("critical", "warning"))
                self.assertRegex(rule["annotations"]["summary"], r"\.$")
                self.assertRegex(rule["annotations"]["description"], r"\.$")

    def test_dashboard(self):
        dashboard = json.loads(common.text_of("deploy/grafana/shardplan.json"))
        ids = [panel["id"] for panel in dashboard["panels"]]
        self.assertEqual(len(ids), len(set(ids)))
        taken = set()
        for panel in dashboard["panels"]:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24)
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
            self.assertEqual(set(), cells & taken, panel["title"])
            taken |= cells
            if panel["type"] != "row":
                self.assertTrue(panel["targets"] and panel["description"] and panel["fieldConfig"]["defaults"]["unit"])

    def test_adapter(self):
        """What the chart's autoscaler asks for is what the adapter makes, of a metric that there is."""
        rule = yaml.safe_load(common.text_of("deploy/prometheus/adapter.yaml"))["rules"]["external"][0]
        values = yaml.safe_load(common.text_of("deploy/helm/shardplan/values.yaml"))["autoscaling"]["metric"]
        self.assertEqual(rule["name"]["as"], values["name"])
        self.assertIn(rule["seriesQuery"].split("{")[0], self.metrics)
        for label, value in values["labels"].items():
            self.assertIn(value, self.metrics[values["name"]][label])


class Prometheus(unittest.TestCase):
    """A real Prometheus that scrapes the daemon, as deploy/prometheus has it but for the address and the pace."""

    def test_panels_have_data(self):
        prometheus = common.tool("prometheus")
        if prometheus is None:
            self.skipTest("prometheus is not installed")
        with tempfile.TemporaryDirectory(prefix="shardplan-prometheus-") as folder:
            daemon = Watched(folder)
            daemon.options += ("--admin-listen", "127.0.0.1:0")
            daemon.start()
            try:
                exercise(daemon)
                admin = next(event["url"] for event in map(json.loads, daemon.log) if event["event"] == "admin listening")
                self.ask_everything(prometheus, folder, admin.removeprefix("http://"), lambda: exercise(daemon))
            finally:
                daemon.close()

    def ask_everything(self, prometheus, folder, target, work):
        config = yaml.safe_load(common.text_of("deploy/prometheus/prometheus.yaml"))
        config["global"] = {"scrape_interval": "500ms", "evaluation_interval": "1s"}
        config["rule_files"] = [os.path.join(common.DEPLOY, "prometheus/shardplan-rules.yaml")]
        del config["scrape_configs"][0]["dns_sd_configs"]
        config["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
        with open(folder + "/prometheus.yaml", "w", encoding="utf-8") as file:
            yaml.safe_dump(config, file)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        process = subprocess.Popen([prometheus, f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/tsdb",
                                    f"--web.listen-address={url.removeprefix('http://')}", "--log.level=error"])  # fmt: skip
        try:
            self.url = url
            self.wait_for(lambda: self.query('up{job="shardplan"} == 1'), "a scrape")
            work()  # so that rates are none of nothing
            expected = [(where, text.replace("[5m]", "[20s]").replace("$instance", ".*")) for where, text in expressions("panels")]
            self.assertGreater(len(expected), 40)
            empty = self.wait_for(lambda: Got([one for one in expected if not self.query(one[1])]), "data in every panel")
            self.assertEqual([], empty.value)
            for group in self.ask("/api/v1/rules")["groups"]:
                for rule in group["rules"]:
                    self.assertIn(rule["health"], ("ok", "unknown"), rule)
        finally:
            process.terminate()
            process.wait(60)

    def ask(self, path):
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            return json.load(answer)["data"]

    def query(self, text):
        try:
            return self.ask("/api/v1/query?" + urllib.parse.urlencode({"query": text}))["result"]
        except (ConnectionError, urllib.error.URLError) as error:
            if isinstance(error, urllib.error.HTTPError) and error.code == 400:
                raise AssertionError(f"{text}: {error.read().decode()}") from error
            return None

    @staticmethod
    def wait_for(condition, what, patience=30):
        deadline = time.monotonic() + patience
        while not (result := condition()):
            if time.monotonic() > deadline:
                return result if isinstance(result, Got) else unittest.TestCase().fail(f"waited for {what}")
            time.sleep(0.2)
        return result


class Got:
    """A list that counts as an answer when it is empty."""

    def __init__(self, value):
        self.value = value

    def __bool__(self):
        return not self.value


class Promtool(unittest.TestCase):
    def setUp(self):
        self.promtool = common.tool("promtool")
        if self.promtool is None:
            self.skipTest("promtool is not installed")

    def check(self, *arguments):
        done = common.run(self.promtool, *arguments, cwd=os.path.join(common.TOP, "tests/deploy"))
        self.assertEqual(0, done.returncode, done.stdout)

    def test_rules(self):
        self.check("check", "rules", "../../deploy/prometheus/shardplan-rules.yaml")

    def test_alerts(self):
        self.check("test", "rules", "alerts.yaml")

    def test_configuration(self):
        self.check("check", "config", "--syntax-only", "../../deploy/prometheus/prometheus.yaml")


if __name__ == "__main__":
    unittest.main()
