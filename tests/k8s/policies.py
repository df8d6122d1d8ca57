"""What must hold of the manifests. A policy yields what is wrong; its `breaks` are changes that it has to notice.

A break gets a copy of an overlay's manifests and spoils it. Those that name an overlay need what only that one has.
"""

import math
import re

import manifests
from manifests import NAME, SERVICES, Pod, cores, seconds, selects

POLICIES = []


def policy(*breaks):
    def add(check):
        POLICIES.append((check, breaks))
        return check
    return add


def on(overlay):
    def mark(change):
        change.overlay = overlay
        return change
    return mark


def spoil(path, value, overlay="cpu-only", service="target", where="container"):
    """Sets what `path` (dotted) leads to, in the container (or the pod, the deployment); None: removes it."""
    @on(overlay)
    def change(m):
        here = {"container": m.container, "pod": m.pod, "deployment": m.deployment}[where](service)
        *way, last = path.split(".")
        for step in way:
            here = here[int(step) if isinstance(here, list) else step]
        if value is None:
            del here[last]
        else:
            here[int(last) if isinstance(here, list) else last] = value
    change.__name__ = f"{service}.{path} = {value}"
    return change


def flag(service, line, instead, overlay="cpu-only"):
    """In the flag file `line` (a regular expression) becomes `instead`."""
    @on(overlay)
    def change(m):
        data = m.flags_map(service)["data"]
        data["flags"], count = re.subn(line, instead, data["flags"])
        assert count, line
    change.__name__ = f"{service}: {line} becomes {instead!r}"
    return change


def spoil_object(kind, name, overlay, change):
    @on(overlay)
    def spoiled(m):
        change(m.get(kind, name))
    spoiled.__name__ = f"{kind} {name}"
    return spoiled


def remove(kind, name, overlay="cpu-only"):
    @on(overlay)
    def change(m):
        m.objects.remove(m.get(kind, name))
    change.__name__ = f"without {kind} {name}"
    return change


# --- pods ---

@policy(spoil("resources.limits.memory", None), spoil("resources.requests", None, "gpu", "draft"),
        spoil("initContainers.0.resources", None, where="pod"))
def containers_say_what_they_take(m):
    for where, _, container, _ in m.containers():
        for kind in ("requests", "limits"):
            for resource in ("cpu", "memory"):
                if resource not in container.get("resources", {}).get(kind, {}):
                    yield f"{where}: no {kind} of {resource}"


@policy(spoil("securityContext.runAsNonRoot", False, where="pod"), spoil("securityContext.runAsUser", 0, where="pod"),
        spoil("securityContext.seccompProfile", None, where="pod"),
        spoil("securityContext.readOnlyRootFilesystem", False),
        spoil("securityContext.allowPrivilegeEscalation", None), spoil("securityContext.capabilities.drop", []),
        spoil("initContainers.0.securityContext", None, where="pod"),
        spoil("securityContext.capabilities.add", ["NET_ADMIN"]), spoil("securityContext.runAsUser", 0),
        spoil("hostNetwork", True, where="pod"))
def nothing_is_privileged(m):
    for where, pod, container, _ in m.containers():
        of_pod, own = pod.get("securityContext", {}), container.get("securityContext", {})
        if of_pod.get("runAsNonRoot") is not True or own.get("runAsNonRoot") is False:
            yield f"{where}: may be root"
        if not of_pod.get("runAsUser") or own.get("runAsUser", 1) == 0:
            yield f"{where}: no user, or root"
        if of_pod.get("seccompProfile", {}).get("type") != "RuntimeDefault" or "seccompProfile" in own:
            yield f"{where}: no seccomp profile"
        if own.get("readOnlyRootFilesystem") is not True:
            yield f"{where}: its root file system can be written"
        if own.get("allowPrivilegeEscalation") is not False or own.get("privileged"):
            yield f"{where}: privileges may grow"
        if own.get("capabilities") != {"drop": ["ALL"]}:
            yield f"{where}: keeps capabilities"
        for host in ("hostNetwork", "hostPID", "hostIPC"):
            if pod.get(host):
                yield f"{where}: {host}"
        if any("hostPath" in volume for volume in pod.get("volumes", [])):
            yield f"{where}: a folder of the node"


def break_account(account):
    account["automountServiceAccountToken"] = True


@policy(spoil("automountServiceAccountToken", None, where="pod"), spoil("serviceAccountName", "default", where="pod"),
        spoil_object("ServiceAccount", "tandem-draft", "gpu", break_account))
def no_pod_has_a_token(m):
    for deployment in m.of("Deployment"):
        pod, name = deployment["spec"]["template"]["spec"], deployment["metadata"]["name"]
        if pod.get("automountServiceAccountToken") is not False:
            yield f"{name}: a token is mounted"
        if any("serviceAccountToken" in source for volume in pod.get("volumes", [])
               for source in volume.get("projected", {}).get("sources", [])):
            yield f"{name}: a token is projected"
    for service in SERVICES:
        account = m.get("ServiceAccount", m.pod(service).get("serviceAccountName"))
        if account is None or account.get("automountServiceAccountToken") is not False:
            yield f"{service}: no service account of its own without a token"
    for kind in ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"):
        if m.of(kind):
            yield f"there is a {kind}"


def version():
    return re.search(r"project\(\s*\w+\s+VERSION\s+([\d.]+)", (manifests.ROOT / "CMakeLists.txt").read_text())[1]


@policy(spoil("image", "tandem-target"), spoil("image", "tandem-target:latest"), spoil("image", "tandem-target:0.1"),
        spoil("image", "tandem-target:9.9.9"), spoil("initContainers.0.image", "busybox", where="pod"))
def images_are_pinned(m):
    for where, _, container, _ in m.containers():
        image = container["image"]
        tag = re.search(r":v?(\d+\.\d+\.\d+)(-[a-z]+)?(@sha256:[0-9a-f]{64})?$", image)
        if not tag:
            yield f"{where}: {image} has no whole version"
        elif image.startswith("tandem-") and tag[1] != version():
            yield f"{where}: {image}; this is {version()}"


@policy(spoil("startupProbe", None), spoil("livenessProbe", None, "observability", "collector"),
        spoil("readinessProbe.grpc.service", "liveness"), spoil("livenessProbe.grpc.service", ""),
        spoil("livenessProbe.grpc.port", 50052), spoil("startupProbe.grpc.port", 9999, service="draft"),
        spoil("readinessProbe", {"tcpSocket": {"port": 9052}}), spoil("ports", [{"name": "grpc", "containerPort": 50052}]))
def probes_ask_three_questions(m):
    for where, _, container, is_init in m.containers():
        if is_init:
            continue
        ports = {port["containerPort"]: port["name"] for port in container["ports"]}
        ours = where.split("/")[1] in SERVICES
        for kind, service in (("startupProbe", "liveness"), ("livenessProbe", "liveness"), ("readinessProbe", "")):
            probe = container.get(kind)
            if probe is None:
                yield f"{where}: no {kind}"
                continue
            how = probe.get("grpc" if ours else "httpGet")
            if how is None:
                yield f"{where}: {kind} asks in another way"
            elif how["port"] not in ports:
                yield f"{where}: {kind} asks port {how['port']}, which the container does not name"
            elif ours and ports[how["port"]] != "admin":
                yield f"{where}: {kind} does not ask the admin port"
            elif ours and how.get("service", "") != service:
                yield f"{where}: {kind} asks for {how.get('service')!r}, not {service!r}"


@policy(spoil("terminationGracePeriodSeconds", 30, where="pod"), spoil("terminationGracePeriodSeconds", 300, where="pod"),
        spoil("lifecycle", {"preStop": {"sleep": {"seconds": 30}}}), flag("draft", "--grace=10s", "--grace=1m"),
        flag("orchestrator", "--grace=60s", ""))
def pods_get_the_time_to_drain(m):
    for service in SERVICES:
        grace = seconds(m.flags(service).get("grace", "10s"))
        before = m.container(service).get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        has = m.pod(service).get("terminationGracePeriodSeconds", 30)
        if not grace + before + 5 <= has <= grace + before + 30:
            yield f"{service}: {has} s for a preStop of {before} s and --grace={grace:g}s"


@policy(spoil("topologySpreadConstraints", None, where="pod"),
        spoil("topologySpreadConstraints.0.labelSelector", {"matchLabels": {"app": "x"}}, "gpu", where="pod"))
def pods_are_spread(m):
    for service in SERVICES:
        labels = m.deployment(service)["spec"]["template"]["metadata"]["labels"]
        found = {one["topologyKey"] for one in m.pod(service).get("topologySpreadConstraints", [])
                 if selects(one["labelSelector"], labels)}
        if found != {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}:
            yield f"{service}: spread over {sorted(found)}"


@policy(spoil("volumeMounts", [{"name": "flags", "mountPath": "/etc/tandem", "readOnly": True}]),
        spoil("volumeMounts.1.readOnly", False), spoil("volumeMounts.1.subPath", "model.safetensors", service="orchestrator"),
        flag("target", "--model=/model", "--model=/models"), flag("orchestrator", "--tokenizer=/model", "--tokenizer=/t", "gpu"))
def models_are_mounted_where_the_flags_say(m):
    for service in SERVICES:
        flags = m.flags(service)
        folder = flags.get("tokenizer" if service == "orchestrator" else "model")
        path = f"{folder}/tokenizer.json" if service == "orchestrator" else folder
        mounts = [one for one in m.container(service)["volumeMounts"] if one["mountPath"] == path]
        if not mounts or not mounts[0].get("readOnly"):
            yield f"{service}: nothing to read at {path}"
        elif service == "orchestrator" and mounts[0].get("subPath") != "tokenizer.json":
            yield "orchestrator: sees more than the tokenizer"


@policy(spoil("volumes.0.emptyDir", {}, where="pod"), spoil("volumes.1.configMap.name", "tandem-flags", where="pod"),
        spoil("volumeMounts.0.name", "nothing"), remove("PersistentVolumeClaim", "tandem-draft-model", "gpu"),
        remove("ConfigMap", "tandem-adapter-rules", "observability"))
def volumes_are_there(m):
    for deployment in m.of("Deployment"):
        pod, name = deployment["spec"]["template"]["spec"], deployment["metadata"]["name"]
        for volume in pod.get("volumes", []):
            if "emptyDir" in volume and "sizeLimit" not in volume["emptyDir"]:
                yield f"{name}: {volume['name']} may fill the node's disk"
            sources = [volume, *volume.get("projected", {}).get("sources", [])]
            for source in sources:
                if "configMap" in source and not m.get("ConfigMap", source["configMap"]["name"]):
                    yield f"{name}: no ConfigMap {source['configMap']['name']}"
            claim = volume.get("persistentVolumeClaim")
            if claim and not m.get("PersistentVolumeClaim", claim["claimName"]):
                yield f"{name}: no claim {claim['claimName']}"
        named = {volume["name"] for volume in pod.get("volumes", [])}
        for container in pod["containers"] + pod.get("initContainers", []):
            for mount in container.get("volumeMounts", []):
                if mount["name"] not in named:
                    yield f"{name}: no volume {mount['name']}"
    if "observability" in m.overlay and not m.get("ConfigMap", "tandem-adapter-rules"):
        yield "the adapter's rules are not there"


# --- flags ---

@policy(flag("draft", "--threads", "--thread"), flag("orchestrator", "--listen", "--listen_on"),
        flag("target", "--grace=30s", "--grace 30s"), spoil("args", ["--flagfile=/etc/flags"]),
        spoil("args", ["--flagfile=/etc/tandem/flags", "--model_path=/x"]))
def flags_are_the_binary_s(m):
    for service in SERVICES:
        known = manifests.known_flags(service)
        if len(known) < 10:
            yield f"{service}: --helpfull names {len(known)} flags"
        for line in m.flags_map(service)["data"]["flags"].splitlines():
            if line and not line.startswith("#") and not re.fullmatch(r"--\w+=\S+", line):
                yield f"{service}: the line {line!r} is none of a flag file"
        for name in m.flags(service):
            if name not in known:
                yield f"{service}: no flag --{name}"
        mounts = {one["name"]: one["mountPath"] for one in m.container(service)["volumeMounts"]}
        if m.container(service).get("args") != [f"--flagfile={mounts.get('flags')}/flags"]:
            yield f"{service}: takes other arguments than its flag file"


@policy(flag("target", "--listen=0.0.0.0:50052", "--listen=0.0.0.0:50053"), flag("draft", ":9051", ":9050"),
        flag("orchestrator", "--admin_listen=0.0.0.0", "--admin_listen=127.0.0.1"))
def services_listen_where_the_pod_says(m):
    for service in SERVICES:
        ports = {port["name"]: port["containerPort"] for port in m.container(service)["ports"]}
        for name, port in (("listen", "grpc"), ("admin_listen", "admin")):
            if m.flags(service).get(name) != f"0.0.0.0:{ports.get(port)}":
                yield f"{service}: --{name}={m.flags(service).get(name)}, port {port} is {ports.get(port)}"


@policy(flag("draft", "--threads=1", "--threads=4"), flag("target", "--threads=4\n", "", "gpu"),
        spoil("resources.limits.cpu", "16"))
def as_many_threads_as_cores(m):
    for service in ("draft", "target"):
        limit, threads = cores(m.container(service)["resources"]["limits"]["cpu"]), m.flags(service).get("threads")
        if threads != str(math.ceil(limit)):
            yield f"{service}: --threads={threads} with {limit:g} cores"


@policy(flag("draft", "--pool_tokens=.*", "--pool_tokens=0"), flag("target", "--pool_tokens=.*\n", "", "gpu"))
def the_cache_is_sized_by_the_pod(m):
    for service in ("draft", "target"):
        if int(m.flags(service).get("pool_tokens", "0")) <= 0:
            yield f"{service}: its cache would be sized by the node's memory"


# --- services, scaling ---

def break_selector(one):
    one["spec"]["selector"] = {NAME: "tandem-other"}


def break_port(one):
    one["spec"]["ports"][0]["targetPort"] = "http"


def break_headless(one):
    del one["spec"]["clusterIP"]


def break_ready(one):
    one["spec"]["publishNotReadyAddresses"] = True


@policy(spoil_object("Service", "tandem-draft", "cpu-only", break_selector),
        spoil_object("Service", "tandem-target", "gpu", break_port), remove("Service", "tandem-orchestrator-admin"),
        spoil_object("Service", "tandem-target", "gpu", break_headless),
        spoil_object("Service", "tandem-target", "gpu", break_ready),
        spoil("spec.selector.matchLabels", {"app": "x"}, where="deployment"))
def services_lead_to_pods(m):
    for deployment in m.of("Deployment"):
        if not selects(deployment["spec"]["selector"], deployment["spec"]["template"]["metadata"]["labels"]):
            yield f"{deployment['metadata']['name']} does not select its own pods"
    for service in m.of("Service"):
        name = service["metadata"]["name"]
        pods = [pod for pod in m.pods() if selects({"matchLabels": service["spec"]["selector"]}, pod.labels)]
        if [pod.name for pod in pods] != [name.removesuffix("-admin")]:
            yield f"{name} leads to {[pod.name for pod in pods]}"
            continue
        for port in service["spec"]["ports"]:
            if pods[0].ports.get(port["targetPort"]) != port["port"]:
                yield f"{name}: port {port['port']} leads to {port['targetPort']}"
    for service in SERVICES:
        for name, unready in ((f"tandem-{service}", False), (f"tandem-{service}-admin", True)):
            found = m.get("Service", name)
            if found is None or found["spec"].get("clusterIP") != "None":
                yield f"{name}: no headless Service"
            elif found["spec"].get("publishNotReadyAddresses", False) != unready:
                yield f"{name}: publishNotReadyAddresses must be {unready}"


@policy(remove("PodDisruptionBudget", "tandem-target"),
        spoil_object("PodDisruptionBudget", "tandem-draft", "gpu", lambda one: one["spec"].update(maxUnavailable=0)))
def a_drained_node_takes_one_pod(m):
    for service in SERVICES:
        labels = m.deployment(service)["spec"]["template"]["metadata"]["labels"]
        budgets = [one["spec"] for one in m.of("PodDisruptionBudget") if selects(one["spec"]["selector"], labels)]
        if [one.get("maxUnavailable") for one in budgets] != [1] or "minAvailable" in budgets[0]:
            yield f"{service}: budgets {budgets}"


def adapter_rules(m):
    data = m.get("ConfigMap", "tandem-adapter-rules")
    if data is None:
        data = manifests.parsed("observability").get("ConfigMap", "tandem-adapter-rules")
    return manifests.yaml.safe_load(data["data"]["config.yaml"])["externalRules"]


def documented_metrics():
    """Of docs/observability.md, with their prefixes."""
    text = (manifests.ROOT / "docs/observability.md").read_text().split("## Metrics")[1].split("## Traces")[0]
    orchestrator, others = text.split("| target | draft |")
    names = {f"tandem:{name}" for line in orchestrator.splitlines() if line.startswith("| `")
             for name in re.findall(r"`(\w+)", line.split("|")[1])}
    for line in others.splitlines():
        if line.startswith("| `"):
            target, draft = (re.findall(r"`(\w+)", cell) for cell in line.split("|")[1:3])
            same = line.split("|")[2].strip() == "the same"
            names |= {f"tandem:target_{name}" for name in target}
            names |= {f"tandem:draft_{name}" for name in (target if same else draft)}
    return names


def break_metric(hpa):
    hpa["spec"]["metrics"][0]["external"]["metric"]["name"] = "tandem_nothing"


@on("gpu-observability")
def break_adapter(m):
    data = m.get("ConfigMap", "tandem-adapter-rules")["data"]
    data["config.yaml"] = data["config.yaml"].replace("target_busy_seconds_total", "target_busy_seconds")


@policy(spoil("spec.replicas", 3, "gpu", where="deployment"), spoil_object("HorizontalPodAutoscaler", "tandem-target", "gpu", break_metric),
        break_adapter, remove("HorizontalPodAutoscaler", "tandem-draft", "gpu"),
        spoil_object("HorizontalPodAutoscaler", "tandem-draft", "gpu",
                     lambda one: one["spec"]["scaleTargetRef"].update(name="tandem-drafts")))
def autoscalers_can_work(m):
    scaled = {one["spec"]["scaleTargetRef"]["name"] for one in m.of("HorizontalPodAutoscaler")}
    names = {rule["name"]["as"] for rule in adapter_rules(m)}
    for one in m.of("HorizontalPodAutoscaler"):
        name, spec = one["metadata"]["name"], one["spec"]
        deployment = m.get("Deployment", spec["scaleTargetRef"]["name"])
        if deployment is None:
            yield f"{name}: scales nothing"
            continue
        if "replicas" in deployment["spec"]:
            yield f"{name}: the Deployment's replicas would undo it"
        if not 1 <= spec["minReplicas"] < spec["maxReplicas"]:
            yield f"{name}: {spec['minReplicas']} to {spec['maxReplicas']}"
        for metric in spec["metrics"]:
            if metric["type"] == "External" and metric["external"]["metric"]["name"] not in names:
                yield f"{name}: the adapter has no {metric['external']['metric']['name']}"
    if "gpu" in m.overlay:
        for service in SERVICES:
            if f"tandem-{service}" not in scaled:
                yield f"{service}: nothing scales it"
    for rule in adapter_rules(m):
        for metric in re.findall(r"tandem:\w+", rule["seriesQuery"] + " " + rule["metricsQuery"]):
            if metric not in documented_metrics():
                yield f"the adapter asks for {metric}, which is on no page"


@policy(spoil("nodeSelector", None, "gpu", where="pod"), spoil("tolerations", [], "gpu", where="pod"),
        spoil("resources.limits", {"cpu": "4", "memory": "48Gi"}, "gpu"),
        spoil("nodeSelector", {"tandem/pool": "gpu"}, "gpu", "draft", where="pod"),
        on("gpu")(lambda m: m.container("draft")["resources"]["limits"].update({"nvidia.com/gpu": "1"})))
def pools_are_apart(m):
    if "gpu" not in m.overlay:
        return
    for service in SERVICES:
        pool = "gpu" if service == "target" else "cpu"
        pod, resources = m.pod(service), m.container(service)["resources"]
        if pod.get("nodeSelector") != {"tandem/pool": pool}:
            yield f"{service}: not in the pool {pool}"
        tolerated = {(one["key"], one.get("value")) for one in pod.get("tolerations", [])}
        wanted = {("tandem/pool", pool)} | ({("nvidia.com/gpu", None)} if pool == "gpu" else set())
        if tolerated != wanted:
            yield f"{service}: tolerates {sorted(map(str, tolerated))}"
        gpus = [key for key in resources["limits"] if key.startswith("nvidia")]
        if gpus != (["nvidia.com/gpu"] if pool == "gpu" else []):
            yield f"{service}: devices {gpus}"
        if resources["requests"] != resources["limits"]:
            yield f"{service}: no cores of its own: requests differ from limits"


# --- network ---

CLIENT = Pod("client", {"tandem-client": "true"}, "apps")
STRANGER = Pod("stranger", {NAME: "tandem-orchestrator"}, "apps")  # a label of ours helps nobody elsewhere
NEIGHBOUR = Pod("neighbour", {}, "tandem")
ADAPTER = Pod("adapter", {NAME: "prometheus-adapter"}, "monitoring")
DNS = Pod("dns", {"k8s-app": "kube-dns"}, "kube-system")
WORLD = Pod("world", {}, "elsewhere")
OTHERS = (CLIENT, STRANGER, NEIGHBOUR, ADAPTER, DNS, WORLD)
ODD_PORTS = (22, 53, 80, 443, 6443, 10250)


def wanted_paths(m):
    """(from, to, port) of all TCP connections that may be, DNS apart."""
    paths = {
        ("client", "tandem-orchestrator", 50050),
        ("tandem-orchestrator", "tandem-draft", 50051),
        ("tandem-orchestrator", "tandem-target", 50052),
    }
    if "observability" in m.overlay:
        for service, port in (("orchestrator", 9050), ("draft", 9051), ("target", 9052)):
            paths.add((f"tandem-{service}", "tandem-collector", 4317))
            paths.add(("tandem-prometheus", f"tandem-{service}", port))
        paths |= {("tandem-collector", "tandem-jaeger", 4317), ("tandem-grafana", "tandem-prometheus", 9090),
                  ("adapter", "tandem-prometheus", 9090)}
    return paths


def asks_dns(m, name):
    if "observability" in m.overlay:
        return name.startswith("tandem-") and name != "tandem-jaeger"  # which is sent to, and sends nothing
    return name == "tandem-orchestrator"


def break_policy(name, overlay, change):
    return spoil_object("NetworkPolicy", name, overlay, lambda one: change(one["spec"]))


def open_ingress(spec):
    spec["ingress"] = [{}]


def any_namespace(spec):
    spec["ingress"][0]["from"] = [{"namespaceSelector": {}}]


def all_ports(spec):
    del spec["ingress"][0]["ports"]


def no_ports(spec):
    spec["egress"][0]["ports"][0]["port"] = 1


def out(spec):
    spec["egress"].append({"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]})


def no_egress_type(spec):
    spec["policyTypes"] = ["Ingress"]


@policy(remove("NetworkPolicy", "nothing-else"), remove("NetworkPolicy", "tandem-draft"),
        remove("NetworkPolicy", "tandem-target", "gpu"), remove("NetworkPolicy", "tandem-orchestrator", "gpu"),
        remove("NetworkPolicy", "tandem-watched", "observability"), remove("NetworkPolicy", "tandem-names", "observability"),
        remove("NetworkPolicy", "tandem-collector", "observability"), remove("NetworkPolicy", "tandem-jaeger", "observability"),
        remove("NetworkPolicy", "tandem-prometheus", "observability"), remove("NetworkPolicy", "tandem-grafana", "observability"),
        break_policy("tandem-target", "gpu", open_ingress), break_policy("tandem-draft", "gpu", any_namespace),
        break_policy("tandem-target", "gpu", all_ports), break_policy("tandem-orchestrator", "gpu", no_ports),
        break_policy("tandem-orchestrator", "gpu", out), break_policy("nothing-else", "gpu", no_egress_type))
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
        spoil("env.3.value", "http://collector:4317", "observability"),
        on("observability")(lambda m: m.get("Service", "tandem-jaeger")["spec"].update(ports=[])))
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
    there = {f"{one['metadata']['name']}:{port['port']}" for one in m.of("Service") for port in one["spec"]["ports"]}
    for where, address in sorted(used):
        if address not in there:
            yield f"{where}: {address!r} is no Service"


def break_level(one):
    one["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "baseline"


@policy(spoil_object("Namespace", "tandem", "cpu-only", break_level), spoil("metadata.namespace", "default", where="deployment"))
def all_of_it_is_in_one_restricted_namespace(m):
    spaces = m.of("Namespace")
    if [one["metadata"]["labels"].get("pod-security.kubernetes.io/enforce") for one in spaces] != ["restricted"]:
        yield "no namespace, or one that is not restricted"
    for one in m.objects:
        if one["kind"] != "Namespace" and one["metadata"].get("namespace") != spaces[0]["metadata"]["name"]:
            yield f"{one['kind']} {one['metadata']['name']} is elsewhere"
