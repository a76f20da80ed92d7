"""The chart: what can be seen without a template engine; with Go, what it renders; with Node, that against the
API's types."""
import copy
import itertools
import json
import os
import re
import subprocess
import tempfile
import unittest

import common
import jsonschema
import kubernetes
import yaml

TOKEN = {"name": "ci", "tenant": "vision", "scopes": ["read", "plan"], "token_sha256": "0" * 64}
SHARED = {"auth": {"existingSecret": "tokens"}, "store": {"connection": "host=db dbname=s", "passwordSecret": {"name": "db"}}}
BUNDLED = {"auth": {"principals": [TOKEN]}, "postgresql": {"enabled": True, "password": "not a word"}}
WATCHED = {"serviceMonitor": {"enabled": True, "labels": {"release": "p"}}, "prometheusRule": {"enabled": True}, "dashboard": {"enabled": True}}
# Values that people give, and what they come to: {name: values}.
CASES = {
    "one": {"auth": {"principals": [TOKEN]}},
    "one-to-try": {"auth": {"existingSecret": "t"}, "persistence": {"enabled": False}},
    "one-with-a-claim": {"auth": {"existingSecret": "t"}, "persistence": {"existingClaim": "mine"}, "networkPolicy": {"enabled": False}},
    "certificates": {"tls": {"secretName": "pair", "clientCA": True}, "fullnameOverride": "planner"},
    "tls": {"auth": {"existingSecret": "t", "existingSecretKey": "file"}, "tls": {"secretName": "pair"},
            "ingress": {"enabled": True, "className": "nginx", "hosts": ["a.example"], "tls": [{"secretName": "x", "hosts": ["a.example"]}]}},
    "bundled": {**BUNDLED, "replicaCount": 3, "metrics": WATCHED},
    "bundled-with-a-secret": {**BUNDLED, "postgresql": {"enabled": True, "existingSecret": "pg", "storageClass": "fast"}},
    "shared": {**SHARED, "replicaCount": 2, "image": {"digest": "sha256:" + "a" * 64}, "imagePullSecrets": [{"name": "r"}],
               "nodeSelector": {"disk": "ssd"}, "tolerations": [{"operator": "Exists"}], "priorityClassName": "high",
               "podLabels": {"team": "vision"}, "podAnnotations": {"a": "b"}, "extraEnv": [{"name": "TZ", "value": "UTC"}],
               "networkPolicy": {"ingressFrom": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "metricsFrom": []},
               "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]},
    "apart": {**SHARED, "replicaCount": 3, "options": {"blobs": "s3://bucket/prefix", "blobs-region": "eu-central-1"}, "persistence": {"size": "5Gi"},
              "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/r"}}},
    "apart-without-volumes": {**BUNDLED, "replicaCount": 2, "options": {"blobs": "s3://bucket"}, "persistence": {"enabled": False}},
    "apart-with-a-claim": {**SHARED, "replicaCount": 2, "options": {"blobs": "s3://bucket"}, "persistence": {"existingClaim": "mine"}},
    "one-with-a-bucket": {"auth": {"existingSecret": "t"}, "options": {"blobs": "s3://bucket"}},
    "scaled": {**SHARED, "autoscaling": {"enabled": True}, "options": {"max-queued-plans": 1000000, "tenant-plans": 20}},
}  # fmt: skip
REFUSED = {
    "Nobody could use it": {},
    "Several daemons need a store": {"auth": {"existingSecret": "t"}, "replicaCount": 2},
    "two stores": {**BUNDLED, "store": {"connection": "host=a"}},
    "a folder that they share": {**SHARED, "replicaCount": 2, "persistence": {"enabled": False}},
    "tls.clientCA needs": {"tls": {"clientCA": True}},
    "PostgreSQL needs postgresql.password": {"auth": {"existingSecret": "t"}, "postgresql": {"enabled": True}},
    "names no host": {"auth": {"existingSecret": "t"}, "ingress": {"enabled": True}},
}
OUTSIDE_THE_SCHEMA = [{"replicas": 2}, {"options": {"wrokers": 2}}, {"options": {"workers": 0}}, {"options": {"job-memory": "2 GB"}},
                      {"auth": {"principals": [{"name": "a", "token_sha256": "secret"}]}}, {"auth": {"principals": [{"name": "a"}]}},
                      {"store": {"connection": "host=a password=b"}}, {"image": {"digest": "sha256:1"}}, {"drainSeconds": "60s"}]  # fmt: skip


def merged(base, over):
    result = copy.deepcopy(base)
    for key, value in over.items():
        result[key] = merged(result[key], value) if isinstance(value, dict) and isinstance(result.get(key), dict) else value
    return result


class Structure(unittest.TestCase):
    """What needs no engine."""

    @classmethod
    def setUpClass(cls):
        cls.values = yaml.safe_load(common.text_of(common.CHART, "values.yaml"))
        cls.schema = json.loads(common.text_of(common.CHART, "values.schema.json"))
        names = sorted(os.listdir(os.path.join(common.CHART, "templates")))
        cls.templates = {name: common.text_of(common.CHART, "templates", name) for name in names}

    def test_chart(self):
        chart = yaml.safe_load(common.text_of(common.CHART, "Chart.yaml"))
        self.assertEqual(("v2", "shardplan", common.version()), (chart["apiVersion"], chart["name"], chart["appVersion"]))
        self.assertRegex(chart["version"], r"^\d+\.\d+\.\d+$")

    def test_values_are_used_and_there(self):
        """Each value is in a template, and templates use no value that values.yaml lacks."""
        text = "".join(self.templates.values())
        used = set(re.findall(r"\.Values\.([A-Za-z.]+)", text))
        for way in used:
            with self.subTest(way):
                at = self.values
                for name in way.split("."):
                    self.assertIn(name, at)
                    at = at[name]

        def leaves(at, way):
            if not isinstance(at, dict) or not at:
                yield way
            else:
                for name, inner in at.items():
                    yield from leaves(inner, f"{way}.{name}" if way else name)

        for leaf in leaves(self.values, ""):
            parents = {".".join(leaf.split(".")[:i]) for i in range(1, leaf.count(".") + 2)}
            self.assertTrue(parents & used, f"{leaf} is used nowhere")

    def test_schema(self):
        jsonschema.Draft7Validator.check_schema(self.schema)
        for name, values in {"values.yaml": {}, **CASES}.items():
            with self.subTest(name):
                jsonschema.validate(merged(self.values, values), self.schema)
        for values in OUTSIDE_THE_SCHEMA:
            with self.subTest(str(values)), self.assertRaises(jsonschema.ValidationError):
                jsonschema.validate(merged(self.values, values), self.schema)

    def test_helpers(self):
        text = "".join(self.templates.values())
        defined = re.findall(r'\{\{-? define "([^"]+)"', text)
        self.assertEqual(len(defined), len(set(defined)))
        self.assertEqual(set(defined), set(re.findall(r'include "([^"]+)"', text)))
        for name, template in self.templates.items():
            opened = len(re.findall(r"\{\{-? *(?:if|with|range|define)\b", template))
            self.assertEqual(opened, len(re.findall(r"\{\{-? *end\b", template)), name)
            self.assertNotIn("lookup", template)  # what a cluster has decides nothing: the same values, the same release

    def test_files(self):
        """What monitoring.yaml takes in is what deploy/ has, not a copy."""
        for name, target in (("shardplan-rules.yaml", "prometheus"), ("shardplan.json", "grafana")):
            self.assertIn(f"files/{name}", self.templates["monitoring.yaml"])
            self.assertEqual(os.path.join(common.DEPLOY, target, name), os.path.realpath(os.path.join(common.CHART, "files", name)))


class Rendered(unittest.TestCase):
    """What Helm would hand to the cluster."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="shardplan-chart-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.command = cls.engine()
        cls.releases = {}
        for name, values in CASES.items():
            done = cls.render(values)
            assert done.returncode == 0, (name, done.stderr)
            cls.releases[name] = [one for one in yaml.safe_load_all(done.stdout) if one and "kind" in one]

    @classmethod
    def engine(cls):
        """Helm itself, or the same engine with Debian's packages (render.go)."""
        helm, go = common.tool("helm"), common.tool("go")
        if helm:
            return [helm, "template", "release", common.CHART, "--namespace", "plans", "--values", "-", "--api-versions", "v1"]
        if go is None or not os.path.isdir("/usr/share/gocode/src/github.com/Masterminds/sprig"):
            raise unittest.SkipTest("neither Helm nor Go with sprig is installed")
        program = os.path.join(cls.folder.name, "render")
        environment = {**os.environ, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOFLAGS": ""}
        source = os.path.join(common.TOP, "tests/deploy/render.go")
        built = common.run(go, "build", "-o", program, source, env=environment)
        assert built.returncode == 0, built.stdout
        return [program, common.CHART, "release", "plans"]

    @classmethod
    def render(cls, values):
        return subprocess.run(cls.command, input=json.dumps(values), capture_output=True, text=True, timeout=120, check=False)

    def one(self, release, kind, name=None):
        found = [one for one in self.releases[release] if one["kind"] == kind and name in (None, one["metadata"]["name"])]
        self.assertEqual(1, len(found), (release, kind, name))
        return found[0]

    def pod(self, release):
        kind = "Deployment" if any(one["kind"] == "Deployment" for one in self.releases[release]) else "StatefulSet"
        name = "planner" if release == "certificates" else "release-shardplan"
        return self.one(release, kind, name)["spec"]["template"]["spec"]

    def env(self, release):
        return {one["name"]: one.get("value") for one in self.pod(release)["containers"][0]["env"]}

    def test_rules_of_the_api(self):
        for name, documents in self.releases.items():
            with self.subTest(name):
                self.assertGreater(len(documents), 3)
                self.assertEqual([], kubernetes.problems(documents))

    def test_the_rules_find_what_is_wrong(self):
        """Each damage to a good release is found."""

        def at(document, way):
            for key in way[:-1]:
                document = document[key]
            return document, way[-1]

        container = ("spec", "template", "spec", "containers", 0)
        damages = [("Deployment", ("apiVersion",), "extensions/v1beta1"), ("Deployment", ("spec", "selector", "matchLabels"), {"a": "b"}),
                   ("Service", ("spec", "ports", 0, "targetPort"), "web"), ("Service", ("spec", "selector"), {"x": "y"}),
                   ("Deployment", (*container, "livenessProbe", "httpGet", "port"), "health"),
                   ("Deployment", (*container, "securityContext", "readOnlyRootFilesystem"), False),
                   ("Deployment", (*container, "securityContext", "capabilities"), {"add": ["NET_ADMIN"]}),
                   ("Deployment", (*container, "volumeMounts", 0, "name"), "other"), ("Deployment", (*container, "env", 0, "value"), 8080),
                   ("Deployment", ("spec", "template", "spec", "securityContext", "runAsUser"), 0),
                   ("HorizontalPodAutoscaler", ("spec", "scaleTargetRef", "name"), "x"),
                   ("HorizontalPodAutoscaler", ("spec", "metrics", 0, "type"), "Pods"),
                   ("NetworkPolicy", ("spec", "ingress", 0, "ports", 0, "port"), "web"),
                   ("PodDisruptionBudget", ("spec", "selector", "matchLabels"), {"x": "y"})]  # fmt: skip
        for kind, way, value in damages:
            documents = copy.deepcopy(self.releases["scaled"])
            found, key = at(next(one for one in documents if one["kind"] == kind), way)
            found[key] = value
            with self.subTest(kind, way=way):
                self.assertNotEqual([], kubernetes.problems(documents))

    def test_refused(self):
        for message, values in REFUSED.items():
            with self.subTest(message):
                done = self.render(values)
                self.assertNotEqual(0, done.returncode)
                self.assertIn(message, done.stderr)

    def test_stopping(self):
        for name in CASES:
            takes = int(self.env(name)["SHARDPLAND_SHUTDOWN_DELAY"]) + int(self.env(name)["SHARDPLAND_DRAIN"])
            self.assertGreaterEqual(self.pod(name)["terminationGracePeriodSeconds"], takes + 10)

    def test_environment_is_understood(self):
        """The daemon takes the environment of each pod."""
        for name in CASES:
            with self.subTest(name):
                given = {key: value for key, value in self.env(name).items() if value is not None}
                shown = common.run(common.PROGRAM, "--print-config", env={"PATH": os.environ["PATH"], **given})
                self.assertEqual(0, shown.returncode, shown.stdout)
        self.assertEqual("1000000", self.env("scaled")["SHARDPLAND_MAX_QUEUED_PLANS"])  # not 1e+06

    def test_who_may_ask(self):
        made = self.one("one", "Secret")
        self.assertEqual({"principals": [TOKEN]}, json.loads(made["stringData"]["tokens.json"]))
        self.assertEqual("/etc/shardplan/tokens.json", self.env("one")["SHARDPLAND_TOKENS"])
        self.assertEqual("", self.env("certificates")["SHARDPLAND_TOKENS"])
        self.assertEqual("/run/tls/ca.crt", self.env("certificates")["SHARDPLAND_TLS_CLIENT_CA"])
        self.assertNotIn("SHARDPLAND_TLS_CLIENT_CA", self.env("tls"))
        items = next(one for one in self.pod("tls")["volumes"] if one["name"] == "tokens")["secret"]["items"]
        self.assertEqual([{"key": "file", "path": "tokens.json"}], items)

    def test_stores(self):
        """One daemon has a volume of its own, several have one that all can write; and they find PostgreSQL."""
        claim = self.one("one", "StatefulSet")["spec"]["volumeClaimTemplates"][0]
        self.assertEqual(("data", ["ReadWriteOnce"]), (claim["metadata"]["name"], claim["spec"]["accessModes"]))
        self.assertEqual(["ReadWriteMany"], self.one("bundled", "PersistentVolumeClaim")["spec"]["accessModes"])
        self.assertNotIn("SHARDPLAND_STORE", self.env("one"))
        host = dict(word.split("=") for word in self.env("bundled")["SHARDPLAND_STORE"].split())["host"]
        self.assertEqual(5432, self.one("bundled", "Service", host)["spec"]["ports"][0]["port"])
        self.assertEqual("host=db dbname=s", self.env("shared")["SHARDPLAND_STORE"])
        for release, secret in (("bundled", "release-shardplan-postgresql"), ("bundled-with-a-secret", "pg"), ("shared", "db")):
            volume = next(one for one in self.pod(release)["volumes"] if one["name"] == "store")
            self.assertEqual((secret, "password"), (volume["secret"]["secretName"], volume["secret"]["items"][0]["key"]))

    def test_folders_of_daemons_that_share_none(self):
        """With PostgreSQL and a bucket no volume has to be written from several nodes, nor kept."""

        def data(release):
            return next(one for one in self.pod(release)["volumes"] if one["name"] == "data")

        spec = data("apart")["ephemeral"]["volumeClaimTemplate"]["spec"]
        self.assertEqual((["ReadWriteOnce"], "5Gi"), (spec["accessModes"], spec["resources"]["requests"]["storage"]))
        self.assertEqual({"sizeLimit": "20Gi"}, data("apart-without-volumes")["emptyDir"])
        self.assertEqual({"claimName": "mine"}, data("apart-with-a-claim")["persistentVolumeClaim"])
        for release in ("apart", "apart-without-volumes", "apart-with-a-claim"):
            self.assertNotIn("PersistentVolumeClaim", {one["kind"] for one in self.releases[release] if one["metadata"]["name"].endswith("-data")})
            self.one(release, "Deployment")
        self.assertEqual("s3://bucket/prefix", self.env("apart")["SHARDPLAND_BLOBS"])
        claim = self.one("one-with-a-bucket", "StatefulSet")["spec"]["volumeClaimTemplates"][0]  # which has the database
        self.assertEqual(["ReadWriteOnce"], claim["spec"]["accessModes"])

    def test_how_many(self):
        self.assertEqual(3, self.one("bundled", "Deployment")["spec"]["replicas"])
        self.one("bundled", "PodDisruptionBudget")
        self.one("scaled", "PodDisruptionBudget")
        self.assertEqual([], [one for one in self.releases["one"] if one["kind"] == "PodDisruptionBudget"])
        metric = self.one("scaled", "HorizontalPodAutoscaler")["spec"]["metrics"][0]["external"]
        self.assertEqual(("shardplan_plans", {"state": "queued"}), (metric["metric"]["name"], metric["metric"]["selector"]["matchLabels"]))

    def test_monitoring(self):
        rules = yaml.safe_load(common.text_of("deploy/prometheus/shardplan-rules.yaml"))
        self.assertEqual(rules, self.one("bundled", "PrometheusRule")["spec"])
        board = self.one("bundled", "ConfigMap")["data"]["shardplan.json"]
        self.assertEqual(json.loads(common.text_of("deploy/grafana/shardplan.json")), json.loads(board))
        for documents in (self.releases[name] for name in CASES if name != "bundled"):
            self.assertFalse({"PrometheusRule", "ServiceMonitor"} & {one["kind"] for one in documents})

    def test_a_change_of_tokens_replaces_pods(self):
        def mark(values):
            documents = yaml.safe_load_all(self.render(values).stdout)
            workload = next(one for one in documents if one and one.get("kind") == "StatefulSet")
            return workload["spec"]["template"]["metadata"]["annotations"]["checksum/tokens"]

        other = {"auth": {"principals": [{**TOKEN, "scopes": ["read"]}]}}
        self.assertEqual(mark(CASES["one"]), mark(CASES["one"]))
        self.assertNotEqual(mark(CASES["one"]), mark(other))

    def test_types_of_the_api(self):
        """Every built-in kind against the types of Kubernetes' API: members that these do not have are errors."""
        modules = os.path.join(common.TOP, "tests/deploy/node_modules")
        if not os.path.isdir(os.path.join(modules, "kubernetes-models")):
            self.skipTest("kubernetes-models is not installed: SHARDPLAN_TEST_KUBERNETES=1 tests/deploy/run")
        lines = []
        for number, document in enumerate(itertools.chain(*self.releases.values())):
            if not document["apiVersion"].startswith("monitoring.coreos.com"):
                kind = f'import("kubernetes-models/{document["apiVersion"]}").I{document["kind"]}'
                lines.append(f"export const document{number}: {kind} = {json.dumps(document)};\n")
        self.assertGreater(len(lines), 50)
        os.symlink(modules, os.path.join(self.folder.name, "node_modules"))
        check = [os.path.join(modules, ".bin/tsc"), "--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "documents.ts"]
        for wrong in (False, True):  # a member that does not exist must be found, or the types check nothing
            with open(os.path.join(self.folder.name, "documents.ts"), "w", encoding="utf-8") as file:
                file.writelines(line.replace('"imagePullPolicy"', '"pullPolicy"') if wrong else line for line in lines)
            done = common.run(*check, cwd=self.folder.name)
            self.assertEqual(wrong, done.returncode != 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
