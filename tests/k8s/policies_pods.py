"""Policies of pods: what they run and mount, and how they are asked and ended."""

import re

import manifests
from manifests import SERVICES, seconds, selects
from policy import flag, policy, remove, spoil


def images_of_ours():
    """{name: with its tag} of what is built from Dockerfile, or named by compose.yaml."""
    texts = {name: (manifests.ROOT / name).read_text() for name in ("CMakeLists.txt", "Dockerfile", "compose.yaml")}
    version = re.search(r"project\(\s*\w+\s+VERSION\s+([\d.]+)", texts["CMakeLists.txt"])[1]
    built = {name: f"{name}:{version}" for name in re.findall(r"^FROM .* AS (\S+)$", texts["Dockerfile"], re.MULTILINE)}
    composed = re.findall(r"^ +image: (([a-z]\S*/\S+):\S+)$", texts["compose.yaml"], re.MULTILINE)
    return built | {name: image for image, name in composed}


@policy(spoil("container target", "image", "tandem-target:9.9.9"), spoil("container target", "image", "tandem-targets:0.1.0"),
        spoil("container grafana", "image", "grafana/grafana:11.4.1", "observability"))
def images_are_ours(m):
    """That each has a whole version is in rules.yml."""
    known = images_of_ours()
    for where, _, container, _ in m.containers():
        image = container["image"].partition("@")[0]
        name = image.partition(":")[0]
        if image != known.get(name, "" if name.startswith("tandem") else image):
            yield f"{where}: {image}, not {known.get(name)}"


@policy(spoil("container target", "readinessProbe.grpc.service", "liveness"),
        spoil("container target", "startupProbe.grpc.service", ""),
        spoil("container target", "livenessProbe.grpc.port", 50052), spoil("container draft", "startupProbe.grpc.port", 9999),
        spoil("container target", "readinessProbe", {"tcpSocket": {"port": 9052}}))
def probes_ask_three_questions(m):
    for where, _, container, is_init in m.containers():
        if is_init:
            continue
        ports = {port["containerPort"]: port["name"] for port in container["ports"]}
        ours = where.split("/")[1] in SERVICES
        for kind, service in (("startupProbe", "liveness"), ("livenessProbe", "liveness"), ("readinessProbe", "")):
            how = container[kind].get("grpc" if ours else "httpGet")
            if how is None:
                yield f"{where}: {kind} asks in another way"
            elif how["port"] not in ports:
                yield f"{where}: {kind} asks port {how['port']}, which the container does not name"
            elif ours and ports[how["port"]] != "admin":
                yield f"{where}: {kind} does not ask the admin port"
            elif ours and how.get("service", "") != service:
                yield f"{where}: {kind} asks for {how.get('service')!r}, not {service!r}"


@policy(spoil("pod target", "terminationGracePeriodSeconds", 30), spoil("pod target", "terminationGracePeriodSeconds", 300),
        spoil("container target", "lifecycle", {"preStop": {"sleep": {"seconds": 30}}}), flag("orchestrator", "--grace=60s", ""),
        flag("orchestrator", "--drain-delay=10s", "--drain-delay=1m"), flag("orchestrator", "--drain-delay=10s", "", "gpu"))
def pods_get_the_time_to_drain(m):
    for service in SERVICES:
        flags = m.flags(service)
        before = m.container(service).get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        delay, grace = seconds(flags.get("drain-delay", "0s")), seconds(flags.get("grace", "10s"))
        has = m.pod(service).get("terminationGracePeriodSeconds", 30)
        if not before + delay + grace + 5 <= has <= before + delay + grace + 30:
            yield f"{service}: {has} s for a preStop of {before} s, --drain-delay={delay:g}s and --grace={grace:g}s"
        if service == "orchestrator" and before + delay < 5:
            yield "orchestrator: refuses before its clients' names are without it"


@policy(spoil("pod target", "topologySpreadConstraints", None),
        spoil("pod target", "topologySpreadConstraints.0.labelSelector", {"matchLabels": {"app": "x"}}, "gpu"))
def pods_are_spread(m):
    for service in SERVICES:
        labels = m.deployment(service)["spec"]["template"]["metadata"]["labels"]
        found = {one["topologyKey"] for one in m.pod(service).get("topologySpreadConstraints", [])
                 if selects(one["labelSelector"], labels)}
        if found != {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}:
            yield f"{service}: spread over {sorted(found)}"


@policy(spoil("container target", "volumeMounts.1.readOnly", False), flag("target", "--model=/model", "--model=/models"),
        spoil("container orchestrator", "volumeMounts.1.subPath", "model.safetensors"),
        flag("orchestrator", "--tokenizer=/model", "--tokenizer=/t", "gpu"))
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


@policy(spoil("pod target", "volumes.1.configMap.name", "tandem-flags"), spoil("pod target", "serviceAccountName", "default"),
        spoil("container target", "volumeMounts.0.name", "nothing"), remove("PersistentVolumeClaim tandem-draft-model", "gpu"),
        remove("ConfigMap tandem-adapter-rules", "observability"))
def what_pods_name_is_there(m):
    for deployment in m.of("Deployment"):
        pod, name = deployment["spec"]["template"]["spec"], deployment["metadata"]["name"]
        for volume in pod.get("volumes", []):
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
    for service in SERVICES:
        if not m.get("ServiceAccount", m.pod(service).get("serviceAccountName")):
            yield f"{service}: no account of its own"
    if "observability" in m.overlay and not m.get("ConfigMap", "tandem-adapter-rules"):
        yield "the adapter's rules are not there"
