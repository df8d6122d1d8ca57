"""Policies of network policies: who reaches whom, tried for every pair of pods and every port."""

import re

from manifests import NAME, SERVICES, Pod, selects
from policy import flag, policy, remove, spoil


CLIENT = Pod("client", {"tandem-client": "true"}, "apps")
# Our label helps nobody elsewhere
STRANGER = Pod("stranger", {NAME: "tandem-orchestrator"}, "apps")
NEIGHBOUR = Pod("neighbour", {}, "tandem")
ADAPTER = Pod("adapter", {NAME: "prometheus-adapter"}, "monitoring")
OPERATED = Pod("operated", {NAME: "prometheus"}, "monitoring")  # Prometheus Operator's
KEDA = Pod("keda", {NAME: "keda-operator"}, "keda")
# With the label of one of these and not its namespace, or the reverse.
NAMESAKES = (Pod("namesake", {NAME: "prometheus"}, "apps"), Pod("webhook", {NAME: "keda-admission-webhooks"}, "keda"))
DNS = Pod("dns", {"k8s-app": "kube-dns"}, "kube-system")
WORLD = Pod("world", {}, "elsewhere")
INTERNET = Pod("internet", {}, "", outside=True)
OTHERS = (CLIENT, STRANGER, NEIGHBOUR, ADAPTER, OPERATED, KEDA, *NAMESAKES, DNS, WORLD, INTERNET)
ODD_PORTS = (22, 53, 80, 443, 6443, 10250)


def wanted_paths(m):
    """(from, to, port) of all TCP connections that may be, DNS apart."""
    paths = {
        ("client", "tandem-orchestrator", 50050),
        ("tandem-orchestrator", "tandem-draft", 50051),
        ("tandem-orchestrator", "tandem-target", 50052),
    }
    if "http" in m.overlay:
        paths.add(("client", "tandem-orchestrator", 8000))
    if "observability" in m.overlay:
        for service, port in (("orchestrator", 9050), ("draft", 9051), ("target", 9052)):
            paths.add((f"tandem-{service}", "tandem-collector", 4317))
            paths.add(("tandem-prometheus", f"tandem-{service}", port))
        paths |= {("tandem-collector", "tandem-jaeger", 4317), ("tandem-grafana", "tandem-prometheus", 9090),
                  ("adapter", "tandem-prometheus", 9090)}
    if "operator" in m.overlay:
        paths |= {("operated", f"tandem-{service}", port)
                  for service, port in (("orchestrator", 9050), ("draft", 9051), ("target", 9052))}
    if "keda" in m.overlay:
        paths.add(("keda", "tandem-prometheus", 9090))
    if m.from_hub():
        paths.add(("tandem-pull", "internet", 443))
    return paths


def asks_dns(m, name):
    if name == "tandem-pull":
        return True
    if "observability" in m.overlay:
        # Which is sent to, and sends nothing
        return name.startswith("tandem-") and name != "tandem-jaeger"
    return name == "tandem-orchestrator"


@policy(*(remove(f"NetworkPolicy {name}", "observability")
          for name in ("nothing-else", "tandem-draft", "tandem-target", "tandem-orchestrator", "tandem-watched", "tandem-names",
                       "tandem-collector", "tandem-jaeger", "tandem-prometheus", "tandem-grafana")),
        spoil("NetworkPolicy tandem-target", "spec.ingress", [{}], "gpu"),
        spoil("NetworkPolicy tandem-draft", "spec.ingress.0.from", [{"namespaceSelector": {}}], "gpu"),
        spoil("NetworkPolicy tandem-target", "spec.ingress.0.ports", None, "gpu"),
        spoil("NetworkPolicy tandem-orchestrator", "spec.egress.0.ports.0.port", 1, "gpu"),
        spoil("NetworkPolicy tandem-orchestrator", "spec.egress.0.to.0", {"ipBlock": {"cidr": "0.0.0.0/0"}}, "gpu"),
        spoil("NetworkPolicy tandem-pull", "spec.egress.0.to", None, "gpu-hub-tls"),
        spoil("NetworkPolicy tandem-pull", "spec.egress.0.ports", None, "gpu-hub-tls"),
        spoil("NetworkPolicy tandem-pull", "spec.egress.0.to.0.ipBlock.except", ["10.0.0.0/8"], "gpu-hub-tls"),
        spoil("NetworkPolicy tandem-pull", "spec.podSelector", {"matchLabels": {"app.kubernetes.io/part-of": "tandem"}},
              "gpu-hub-tls"),
        remove("NetworkPolicy tandem-scraped", "gpu-http-gateway-operator"),
        spoil("NetworkPolicy tandem-scraped", "spec.ingress.0.from.0.namespaceSelector", {}, "gpu-http-gateway-operator"),
        spoil("NetworkPolicy tandem-keda", "spec.ingress.0.from.0.podSelector", None, "gpu-observability-keda"),
        spoil("NetworkPolicy nothing-else", "spec.policyTypes", ["Ingress"], "gpu"))
def only_wanted_paths_are_open(m):
    """Shut on both sides, so that no one policy that is wrong opens a way."""
    ours = m.pods()
    ports = sorted({port for pod in ours for port in pod.ports.values()} | set(ODD_PORTS))
    wanted = wanted_paths(m)
    for one, other in [(a, b) for a in [*ours, NEIGHBOUR] for b in [*ours, *OTHERS] if a is not b]:
        for port in ports:
            for protocol in ("TCP", "UDP"):
                for direction, source, destination in (("Egress", one, other), ("Ingress", other, one)):
                    is_dns = destination is DNS and port == 53 and asks_dns(m, source.name)
                    want = is_dns or (protocol == "TCP" and (source.name, destination.name, port) in wanted)
                    if m.allows(direction, one, other, port, protocol) != want:
                        yield (f"{direction} of {one.name}: {source.name} → {destination.name}:{port}/{protocol} is "
                               f"{'shut' if want else 'open'}")


@policy(flag("orchestrator", "--draft=tandem-draft:50051", "--draft=tandem-drafts:50051"),
        flag("orchestrator", "--target=tandem-target:50052", "--target=tandem-target:50051"),
        spoil("container target", "env.3.value", "http://collector:4317", "observability"),
        spoil("Service tandem-jaeger", "spec.ports", [], "observability"),
        spoil("Ingress tandem-orchestrator", "spec.rules.0.http.paths.0.backend.service.port.name", "web", "cpu-only-http"),
        spoil("HTTPRoute tandem-orchestrator", "spec.rules.0.backendRefs.0.port", 80, "gpu-http-gateway-operator"),
        spoil("GRPCRoute tandem-orchestrator", "spec.rules.0.backendRefs.0.name", "tandem", "gpu-http-gateway-operator"),
        spoil("ServiceMonitor tandem", "spec.endpoints.0.port", "metrics", "gpu-http-gateway-operator"),
        spoil("ServiceMonitor tandem", "spec.jobLabel", "app", "gpu-http-gateway-operator"),
        spoil("ServiceMonitor tandem", "spec.selector", {"matchLabels": {NAME: "tandem-draft"}}, "gpu-http-gateway-operator"),
        spoil("ScaledObject tandem-draft", "spec.triggers.1.metadata.serverAddress", "http://prometheus:9090",
              "gpu-observability-keda"))
def addresses_are_services(m):
    used = {(f"--{name}", m.flags("orchestrator").get(name, "")) for name in ("draft", "target")}
    if "observability" in m.overlay:
        for service in SERVICES:
            variables = {one["name"]: one.get("value", "") for one in m.container(service).get("env", [])}
            used.add((service, variables.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").removeprefix("http://")))
        for one in m.of("ConfigMap"):
            for text in one["data"].values():
                used |= {(one["metadata"]["name"], address)
                         for address in re.findall(r"(?:http://|endpoint: )(tandem-[\w-]+:\d+)", text)}
                for name, port in re.findall(r"names: \[([\w-]+)\], type: A, port: (\d+)", text):
                    used.add((one["metadata"]["name"], f"{name}:{port}"))
    for one in [*m.of("HTTPRoute"), *m.of("GRPCRoute")]:
        used |= {(one["kind"], f"{ref['name']}:{ref['port']}") for rule in one["spec"]["rules"] for ref in rule["backendRefs"]}
    for one in m.of("Ingress"):
        backends = [path["backend"]["service"] for rule in one["spec"]["rules"] for path in rule["http"]["paths"]]
        used |= {("Ingress", f"{service['name']}:{service['port']['name']}") for service in backends}
    for one in m.of("ScaledObject"):
        addresses = [trigger["metadata"].get("serverAddress", "") for trigger in one["spec"]["triggers"]]
        used |= {(one["metadata"]["name"], address.removeprefix("http://").replace(".tandem", ""))
                 for address in addresses if address}
    there = {f"{one['metadata']['name']}:{port[key]}"
             for one in m.of("Service") for port in one["spec"]["ports"] for key in ("port", "name")}
    for one in m.of("ServiceMonitor"):
        names = {service["metadata"]["labels"].get(one["spec"]["jobLabel"]) for service in m.of("Service")
                 if selects(one["spec"]["selector"], service["metadata"].get("labels", {}))
                 for port in service["spec"]["ports"] if port["name"] in [end["port"] for end in one["spec"]["endpoints"]]}
        if names != {f"tandem-{service}" for service in SERVICES}:
            yield f"{one['metadata']['name']}: scrapes {sorted(map(str, names))}"
    for where, address in sorted(used):
        if address not in there:
            yield f"{where}: {address!r} is no Service"
