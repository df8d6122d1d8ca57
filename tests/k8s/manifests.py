"""What kustomize makes of an overlay of k8s/, and what the cluster would make of that: who reaches
whom."""

import copy
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

# Debian's python3-yaml, whichever Python runs this
sys.path.append("/usr/lib/python3/dist-packages")
import yaml  # noqa: E402

# The one in C, where Python has it: a tenth of the time.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARIES = pathlib.Path(os.environ.get("TANDEM_BINARY_DIR", ROOT / "build/release/bin"))
CACHE = pathlib.Path(
    os.environ.get("TANDEM_CACHE") or
    pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tandem")
SERVICES = ("draft", "target", "orchestrator")
# Overlays of k8s/overlays, and what somebody would make of them and components of k8s/components.
COMPOSED = {
    "gpu-observability": ("gpu", ("observability",)),
    "gpu-hub-tls": ("gpu", ("hub", "tls")),
    "cpu-only-tls": ("cpu-only", ("tls",)),
    "cpu-only-http": ("cpu-only", ("http", "ingress")),
    "gpu-http-gateway-operator": ("gpu", ("http", "gateway", "prometheus-operator")),
    "gpu-observability-keda": ("gpu", ("observability", "keda")),
    "gpu-tls-observability": ("gpu", ("tls", "observability")),
}
ONE_CARD = ("one-card", "one-card-draft")
OVERLAYS = ("cpu-only", "gpu", "observability", *ONE_CARD, *COMPOSED)
NAME = "app.kubernetes.io/name"


def tool(name):
    path = CACHE / "bin" / name
    if not path.exists():
        print(f"SKIPPED: the whole test: no {name} in {path.parent}; scripts/kube-tools puts it there")
        sys.exit(0)
    return str(path)


def run(*words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **options)


@functools.lru_cache(maxsize=None)
def build(overlay):
    """YAML, as `kustomize build` writes it."""
    if overlay not in COMPOSED:
        return checked(run(tool("kustomize"), "build", ROOT / "k8s/overlays" / overlay))
    base, components = COMPOSED[overlay]
    with tempfile.TemporaryDirectory() as folder:
        here = os.path.relpath(ROOT / "k8s", os.path.realpath(folder))
        (pathlib.Path(folder) / "kustomization.yaml").write_text(yaml.safe_dump({
            "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
            "resources": [f"{here}/overlays/{base}"],
            "components": [f"{here}/components/{component}" for component in components]}))
        return checked(run(tool("kustomize"), "build", folder))


def checked(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def kubeconform(texts, *options):
    """What it says of each object in `texts`."""
    done = run(tool("kubeconform"), "-strict", "-verbose", "-output", "json", *options, "-", input="\n---\n".join(texts))
    return json.loads(done.stdout)["resources"]


@functools.lru_cache(maxsize=None)
def parsed(overlay):
    return Manifests(overlay, list(yaml.load_all(build(overlay), LOADER)))


@functools.lru_cache(maxsize=None)
def certificates():
    """The Certificates of the component tls, for cert-manager."""
    path = ROOT / "k8s/components/tls/cert-manager.yaml"
    return [one for one in yaml.load_all(path.read_text(), LOADER) if one["kind"] == "Certificate"]


class Pod:
    """A pod as network policies see one."""

    def __init__(self, name, labels, namespace, namespace_labels=None, ports=(), outside=False):
        self.name = name
        self.outside = outside  # of the cluster, and of private networks
        self.labels = labels
        self.namespace = namespace
        self.namespace_labels = {"kubernetes.io/metadata.name": namespace, **(namespace_labels or {})}
        self.ports = dict(ports)  # by name


class Manifests:
    def __init__(self, overlay, objects):
        self.overlay = overlay
        self.objects = objects

    def copy(self):
        return Manifests(self.overlay, copy.deepcopy(self.objects))

    def of(self, kind):
        return [one for one in self.objects if one["kind"] == kind]

    def get(self, kind, name):
        for one in self.of(kind):
            if one["metadata"]["name"] == name:
                return one
        return None

    def deployment(self, service):
        return self.get("Deployment", f"tandem-{service}")

    def pod(self, service):
        return self.deployment(service)["spec"]["template"]["spec"]

    def container(self, service):
        return self.pod(service)["containers"][0]

    def has_card(self, service):
        return any(key.startswith("nvidia") for key in self.container(service)["resources"]["limits"])

    def from_hub(self):
        """Whether a Job pulls the models."""
        return self.get("Job", "tandem-pull") is not None

    def flags_map(self, service):
        for volume in self.pod(service)["volumes"]:
            if volume["name"] == "flags":
                return self.get("ConfigMap", volume["configMap"]["name"])
        return None

    def flags(self, service):
        """{name: value} of its flag files."""
        lines = (line.strip() for text in self.flags_map(service)["data"].values() for line in text.splitlines())
        pairs = (line.removeprefix("--").partition("=") for line in lines if line and not line.startswith("#"))
        return {name: value for name, _, value in pairs}

    def scalings(self):
        return [Scaling(one) for one in [*self.of("HorizontalPodAutoscaler"), *self.of("ScaledObject")]]

    def containers(self):
        """(where, pod, container, whether it ends by itself: in an init container, or in a Job)"""
        for job in self.of("Job"):
            pod = job["spec"]["template"]["spec"]
            for container in pod["containers"]:
                yield f"{job['metadata']['name']}/{container['name']}", pod, container, True
        for deployment in self.of("Deployment"):
            pod = deployment["spec"]["template"]["spec"]
            for container in pod["containers"]:
                yield f"{deployment['metadata']['name']}/{container['name']}", pod, container, False
            for container in pod.get("initContainers", []):
                yield f"{deployment['metadata']['name']}/{container['name']}", pod, container, True

    def pods(self):
        return [
            Pod(one["metadata"]["name"], one["spec"]["template"]["metadata"]["labels"], one["metadata"]["namespace"],
                ports={port["name"]: port["containerPort"]
                       for container in one["spec"]["template"]["spec"]["containers"]
                       for port in container.get("ports", [])})
            for one in [*self.of("Deployment"), *self.of("Job")]
        ]

    def allows(self, direction, subject, other, port, protocol="TCP"):
        """Whether the policies of `subject` let it connect to `other` (Egress), or be connected to
        by it (Ingress), as the NetworkPolicy API defines it. A connection needs both ends'
        leave."""
        listener = other if direction == "Egress" else subject
        policies = [one["spec"] for one in self.of("NetworkPolicy")
                    if one["metadata"]["namespace"] == subject.namespace and direction in one["spec"]["policyTypes"] and
                    selects(one["spec"]["podSelector"], subject.labels)]
        if not policies:
            return True
        key = "to" if direction == "Egress" else "from"
        for policy in policies:
            for rule in policy.get(direction.lower()) or []:
                peers = rule.get(key) or []
                ports = rule.get("ports") or []
                if ((not peers or any(is_peer(peer, other, subject) for peer in peers)) and
                        (not ports or any(is_port(one, listener, port, protocol) for one in ports))):
                    return True
        return False


# What is within a cluster or a company, and the addresses of one link: a cloud's metadata is there.
PRIVATE = {"10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fe80::/10"}


def is_peer(peer, pod, subject):
    if "ipBlock" in peer:
        version = ":" in peer["ipBlock"]["cidr"]
        private = {one for one in PRIVATE if (":" in one) == version}
        return pod.outside or not private <= set(peer["ipBlock"].get("except", []))
    if pod.outside:
        return False
    if "namespaceSelector" in peer:
        if not selects(peer["namespaceSelector"], pod.namespace_labels):
            return False
    elif pod.namespace != subject.namespace:
        return False
    return selects(peer.get("podSelector") or {}, pod.labels)


def is_port(rule, listener, port, protocol):
    if rule.get("protocol", "TCP") != protocol:
        return False
    wanted = rule.get("port")
    if isinstance(wanted, str):
        wanted = listener.ports.get(wanted, -1)
    return wanted is None or wanted <= port <= rule.get("endPort", wanted)


def selects(selector, labels):
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for one in selector.get("matchExpressions") or []:
        has, values = labels.get(one["key"]), one.get("values", [])
        good = {"In": has in values, "NotIn": has not in values, "Exists": has is not None,
                "DoesNotExist": has is None}[one["operator"]]
        if not good:
            return False
    return True


def seconds(duration):
    """Of an Abseil duration of one unit."""
    number = duration.rstrip("hms")
    return float(number) * {"h": 3600, "m": 60, "s": 1, "ms": 0.001}[duration[len(number):]]


def cores(quantity):
    text = str(quantity)
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


class Scaling:
    """What scales a Deployment: an autoscaler, or an object from which KEDA makes one."""

    def __init__(self, one):
        spec = one["spec"]
        self.name = one["metadata"]["name"]
        self.keda = one["kind"] == "ScaledObject"
        self.deployment = spec["scaleTargetRef"]["name"]
        self.least = spec["minReplicaCount" if self.keda else "minReplicas"]
        self.most = spec["maxReplicaCount" if self.keda else "maxReplicas"]
        if self.keda:  # by query; else by the name that the adapter gives a query
            self.metrics = {trigger["metadata"]["query"]: trigger["metadata"]["threshold"]
                            for trigger in spec["triggers"] if trigger["type"] == "prometheus"}
            self.behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
        else:
            self.metrics = {metric["external"]["metric"]["name"]: metric["external"]["target"]["averageValue"]
                            for metric in spec["metrics"] if metric["type"] == "External"}
            self.behavior = spec["behavior"]


def bytes_of(quantity):
    number = quantity.rstrip("KMGi")
    return int(number) << {"Ki": 10, "Mi": 20, "Gi": 30}[quantity[len(number):]]
