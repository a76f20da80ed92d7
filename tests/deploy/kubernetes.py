"""Rules of the Kubernetes API and of its restricted pod security standard, for what a chart renders."""
import re

KINDS = {
    "ConfigMap": "v1", "Deployment": "apps/v1", "HorizontalPodAutoscaler": "autoscaling/v2", "Ingress": "networking.k8s.io/v1",
    "NetworkPolicy": "networking.k8s.io/v1", "PersistentVolumeClaim": "v1", "PodDisruptionBudget": "policy/v1",
    "PrometheusRule": "monitoring.coreos.com/v1", "Secret": "v1", "Service": "v1", "ServiceAccount": "v1",
    "ServiceMonitor": "monitoring.coreos.com/v1", "StatefulSet": "apps/v1",
}  # fmt: skip
NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")
QUANTITY = re.compile(r"\d+(\.\d+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$")
PROBE = {"httpGet", "exec", "tcpSocket", "periodSeconds", "failureThreshold", "timeoutSeconds", "initialDelaySeconds", "successThreshold"}


class Checker:
    """Collects sentences about what is wrong with the documents of one release."""

    def __init__(self, documents):
        self.documents = documents
        self.found = []
        self.by_name = {}
        for document in documents:
            key = (document.get("kind"), document.get("metadata", {}).get("name"))
            self.expect(key not in self.by_name, key, "is there twice")
            self.by_name[key] = document
        self.pods = {}  # name of the workload: (labels, spec, volumes that are claimed by template)
        for document in documents:
            if document.get("kind") in ("Deployment", "StatefulSet"):
                spec = document["spec"]
                claimed = {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", [])}
                template = spec["template"]
                self.pods[document["metadata"]["name"]] = (template["metadata"]["labels"], template["spec"], claimed)

    def expect(self, condition, where, what):
        if not condition:
            self.found.append(f"{'/'.join(map(str, where)) if isinstance(where, tuple) else where}: {what}")

    # ---- every document ----

    def document(self, document):
        kind, meta = document.get("kind"), document.get("metadata", {})
        where = (kind, meta.get("name"))
        self.expect(KINDS.get(kind) == document.get("apiVersion"), where, f"apiVersion {document.get('apiVersion')}")
        self.expect(NAME.match(str(meta.get("name"))), where, "the name is no DNS label")
        self.strings(where, "label", meta.get("labels", {}))
        self.strings(where, "annotation", meta.get("annotations", {}))
        for name in ("app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart"):
            self.expect(name in meta.get("labels", {}), where, f"has no label {name}")

    def strings(self, where, what, mapping):
        for key, value in mapping.items():
            self.expect(isinstance(value, str), where, f"{what} {key} is no string")
            self.expect(what != "label" or LABEL.match(str(value)), where, f"{what} {key} is {value!r}")

    # ---- who finds whom ----

    def selected(self, where, selector):
        """The pods that a selector finds: exactly one workload's."""
        found = [name for name, (labels, _, _) in self.pods.items() if selector.items() <= labels.items()]
        self.expect(len(found) == 1, where, f"selects the pods of {found}")
        return found[0] if len(found) == 1 else None

    def port_names(self, workload):
        return {port["name"]: port["containerPort"] for container in self.pods[workload][1]["containers"] for port in container["ports"]}

    def service(self, where, spec):
        target = self.selected(where, spec["selector"])
        for port in spec["ports"]:
            self.expect(LABEL.match(port["name"]) and 0 < port["port"] < 65536, where, f"port {port}")
            self.expect(target and port["targetPort"] in self.port_names(target), where, f"no port {port['targetPort']}")

    def policy(self, where, spec):
        target = self.selected(where, spec["podSelector"]["matchLabels"])
        self.expect(set(spec["policyTypes"]) == {"Ingress", "Egress"}, where, "does not speak of both directions")
        for rule in spec["ingress"]:
            for port in rule["ports"]:
                self.expect(target and port["port"] in self.port_names(target), where, f"no port {port}")
            for peer in rule.get("from", []):
                self.expect(set(peer) <= {"podSelector", "namespaceSelector", "ipBlock"}, where, f"peer {peer}")
                if set(peer) == {"podSelector"} and peer["podSelector"].get("matchLabels"):
                    self.selected(where, peer["podSelector"]["matchLabels"])
        for rule in spec["egress"]:
            for port in rule.get("ports", []):
                self.expect(isinstance(port["port"], int) and port["protocol"] in ("TCP", "UDP"), where, f"port {port}")

    def autoscaler(self, where, spec):
        target = spec["scaleTargetRef"]
        workload = self.by_name.get((target["kind"], target["name"]))
        self.expect(workload is not None, where, f"scales {target}, which is not there")
        self.expect(workload is None or "replicas" not in workload["spec"], where, "the workload sets replicas, too")
        self.expect(0 < spec["minReplicas"] <= spec["maxReplicas"], where, "replicas")
        for metric in spec["metrics"]:
            self.expect(metric["type"] == "External", where, "a metric of pods counts a shared queue once for each pod")
            self.expect(QUANTITY.match(metric["external"]["target"]["averageValue"]), where, "averageValue")
            self.expect(metric["external"]["metric"]["name"] and metric["external"]["metric"]["selector"]["matchLabels"], where, "metric")

    def monitor(self, where, spec):
        services = [one for one in self.documents if one["kind"] == "Service"
                    and spec["selector"]["matchLabels"].items() <= one["metadata"]["labels"].items()]  # fmt: skip
        self.expect(len(services) == 1, where, f"finds {len(services)} services")
        for endpoint in spec["endpoints"]:
            names = {port["name"] for service in services for port in service["spec"]["ports"]}
            self.expect(endpoint["port"] in names, where, f"no port {endpoint['port']}")

    def ingress(self, where, spec):
        for rule in spec["rules"]:
            for path in rule["http"]["paths"]:
                backend = path["backend"]["service"]
                service = self.by_name.get(("Service", backend["name"]))
                names = {port["name"] for port in service["spec"]["ports"]} if service else set()
                self.expect(backend["port"]["name"] in names, where, f"no service {backend}")
                self.expect(path["pathType"] in ("Prefix", "Exact") and path["path"].startswith("/"), where, f"path {path}")

    def budget(self, where, spec):
        self.selected(where, spec["selector"]["matchLabels"])
        self.expect(len({"minAvailable", "maxUnavailable"} & set(spec)) == 1, where, "says not one of the two")

    def claim(self, where, spec):
        self.expect(spec["accessModes"] and QUANTITY.match(spec["resources"]["requests"]["storage"]), where, "claim")

    # ---- pods ----

    def workload(self, where, document):
        spec = document["spec"]
        labels = spec["template"]["metadata"]["labels"]
        self.expect(spec["selector"]["matchLabels"].items() <= labels.items(), where, "does not select its own pods")
        self.selected(where, spec["selector"]["matchLabels"])
        self.strings(where, "label", labels)
        self.strings(where, "annotation", spec["template"]["metadata"].get("annotations", {}))
        if document["kind"] == "StatefulSet":
            service = self.by_name.get(("Service", spec["serviceName"]))
            self.expect(service and service["spec"].get("clusterIP") == "None", where, "its service is not headless")
            for claim in spec.get("volumeClaimTemplates", []):
                self.claim(where, claim["spec"])
        self.pod(where, *self.pods[document["metadata"]["name"]][1:])

    def pod(self, where, spec, claimed):
        pod_security = spec["securityContext"]
        self.expect(pod_security["runAsNonRoot"] is True and pod_security["runAsUser"] > 0, where, "runs as root")
        self.expect(pod_security["seccompProfile"]["type"] == "RuntimeDefault", where, "no seccomp profile")
        self.expect(spec["automountServiceAccountToken"] is False, where, "has a token of the API")
        for name in ("hostNetwork", "hostPID", "hostIPC", "hostUsers"):
            self.expect(name not in spec, where, name)
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        self.expect(len(volumes) == len(spec["volumes"]) and not claimed & set(volumes), where, "a volume is there twice")
        self.volumes(where, volumes)
        for container in spec["containers"]:
            self.container((*where, container["name"]), container, set(volumes) | claimed)

    def volumes(self, where, volumes):
        for name, volume in volumes.items():
            self.expect(len(volume) == 2, where, f"volume {name} is {sorted(volume)}")
            self.expect("hostPath" not in volume, where, f"volume {name} is of the node")
            secret, claim = volume.get("secret"), volume.get("persistentVolumeClaim")
            if secret:
                made = self.by_name.get(("Secret", secret["secretName"]))
                keys = {item["key"] for item in secret.get("items", [])}
                self.expect(made is None or keys <= set(made["stringData"]), where, f"{secret['secretName']} lacks {keys}")
                self.expect(secret["defaultMode"] & 0o007 == 0, where, f"everybody reads {name}")
            if claim and claim["claimName"].endswith("-data"):
                self.expect(("PersistentVolumeClaim", claim["claimName"]) in self.by_name, where, f"no claim {claim}")

    def container(self, where, container, volumes):
        security = container["securityContext"]
        self.expect(security["allowPrivilegeEscalation"] is False and not security.get("privileged"), where, "privileges")
        self.expect(security["readOnlyRootFilesystem"] is True, where, "its root can be written")
        self.expect(security["capabilities"] == {"drop": ["ALL"]}, where, "has capabilities")
        self.expect(re.match(r"[a-z0-9./:_-]+:[\w.-]+(@sha256:[0-9a-f]{64})?$", container["image"]), where, container["image"])
        self.expect("memory" in container["resources"]["limits"] and "cpu" in container["resources"]["requests"], where, "resources")
        for kind in container["resources"].values():
            for quantity in kind.values():
                self.expect(QUANTITY.match(str(quantity)), where, f"quantity {quantity}")
        ports = {port["name"] for port in container["ports"]}
        for name in ("startupProbe", "livenessProbe", "readinessProbe"):
            probe = container[name]
            self.expect(set(probe) <= PROBE, where, f"{name} {probe}")
            self.expect("exec" in probe or probe["httpGet"]["port"] in ports, where, f"{name}: no such port")
        places = [mount["mountPath"] for mount in container["volumeMounts"]]
        self.expect(len(places) == len(set(places)), where, "mounts twice at one place")
        self.expect({mount["name"] for mount in container["volumeMounts"]} == volumes, where, "mounts and volumes differ")
        names = [variable["name"] for variable in container["env"]]
        self.expect(len(names) == len(set(names)), where, f"variables twice: {names}")
        for variable in container["env"]:
            self.expect(isinstance(variable.get("value", ""), str), where, f"{variable} is no string")


def problems(documents):
    """Sentences about what is wrong; none for a release that an API server would take and that is restricted."""
    checker = Checker(documents)
    rules = {"Service": checker.service, "NetworkPolicy": checker.policy, "HorizontalPodAutoscaler": checker.autoscaler,
             "ServiceMonitor": checker.monitor, "Ingress": checker.ingress, "PodDisruptionBudget": checker.budget,
             "PersistentVolumeClaim": checker.claim}  # fmt: skip
    for document in documents:
        where = (document.get("kind"), document.get("metadata", {}).get("name"))
        try:
            checker.document(document)
            if document["kind"] in ("Deployment", "StatefulSet"):
                checker.workload(where, document)
            elif document["kind"] in rules:
                rules[document["kind"]](where, document["spec"])
        except (KeyError, TypeError, AttributeError) as error:
            checker.expect(False, where, f"lacks something: {error!r}")
    return checker.found
