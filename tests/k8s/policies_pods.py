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


@policy(spoil("container target", "image", "tandem-target:0.1.0", "gpu"), flag("target", "--device=cuda", "--device=cpu", "gpu"),
        spoil("container target", "startupProbe.failureThreshold", 300, "gpu"), flag("target", "$", "--device=cuda\n"),
        spoil("container draft", "image", "tandem-draft:0.1.0", "one-card-draft"), flag("draft", "$", "--device=cuda\n", "one-card"))
def who_has_a_card_computes_there(m):
    """With the image that can, and the time that it takes to load a model and to check the card."""
    for service in ("draft", "target"):
        container, has = m.container(service), m.has_card(service)
        if has != (m.flags(service).get("device", "cpu") == "cuda"):
            yield f"{service}: --device={m.flags(service).get('device')}, devices {container['resources']['limits']}"
        if has and not container["image"].startswith(f"tandem-{service}-cuda:"):
            yield f"{service}: {container['image']} has no LibTorch"
        probe = container["startupProbe"]
        if has and probe["periodSeconds"] * probe["failureThreshold"] < 1800:
            yield f"{service}: is restarted while it loads"


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


HUB = "gpu-hub-tls"


def variable(container, name):
    return next((one.get("value") for one in container.get("env", []) if one["name"] == name), None)


def mount_at(container, path):
    return next((one for one in container["volumeMounts"] if one["mountPath"] == path), {})


@policy(spoil("container target", "volumeMounts.1.readOnly", False), flag("target", "--model=/model", "--model=/models"),
        spoil("container orchestrator", "volumeMounts.1.subPath", "model.safetensors"),
        flag("orchestrator", "--tokenizer=/model", "--tokenizer=/t", "gpu"),
        spoil("container target", "env", [], HUB), spoil("container orchestrator", "volumeMounts.3.subPath", None, HUB),
        spoil("container draft", "volumeMounts.0.subPath", "models", "one-card"))
def models_are_mounted_where_the_flags_say(m):
    """A name of the hub is looked for in the cache that a variable names."""
    for service in SERVICES:
        flags, container = m.flags(service), m.container(service)
        reads_tokenizer = "model" not in flags
        folder = flags.get("tokenizer" if reads_tokenizer else "model")
        is_name = m.from_hub()
        if is_name:
            folder = variable(container, "HF_HUB_CACHE")
        alone = "tokenizer" if is_name else "tokenizer.json"
        path = f"{folder}/tokenizer.json" if reads_tokenizer and not is_name else folder
        mount = mount_at(container, path)
        if not mount.get("readOnly"):
            yield f"{service}: nothing to read at {path}"
        elif reads_tokenizer and mount.get("subPath") != alone:
            yield f"{service}: sees more than the tokenizer"


def pulls(m):
    """{(claim, folder in it): (name, more arguments)} of what the Job downloads."""
    found = {}
    for job in m.of("Job"):
        pod = job["spec"]["template"]["spec"]
        claims = {one["name"]: one["persistentVolumeClaim"]["claimName"] for one in pod["volumes"]}
        for container in pod["containers"]:
            cache = variable(container, "HF_HUB_CACHE") or ""
            for mount in container["volumeMounts"]:
                if (cache + "/").startswith(mount["mountPath"] + "/"):
                    folder = cache.removeprefix(mount["mountPath"]).strip("/")
                    found[claims[mount["name"]], folder] = tuple(container["args"][1:])
    return found


@policy(flag("target", "--model=.*", "--model=other/model", HUB, "hub"),
        flag("orchestrator", "--tokenizer=.*", "--tokenizer=other/model", HUB, "hub"),
        spoil("Job tandem-pull", "spec.template.spec.containers.0.args", ["pull", "HuggingFaceTB/SmolLM2-1.7B-Instruct"], HUB),
        spoil("Job tandem-pull", "spec.template.spec.containers.2.env.0.value", "/draft/hub", HUB),
        spoil("Job tandem-pull", "spec.template.spec.volumes.1.persistentVolumeClaim.claimName", "tandem-target-model", HUB),
        spoil("container draft", "env.0.value", "/models", HUB), spoil("container target", "env.1.value", "0", HUB),
        spoil("PersistentVolumeClaim tandem-draft-model", "spec.accessModes", ["ReadOnlyMany"], HUB))
def what_is_pulled_is_what_services_read(m):
    if not m.from_hub():
        return
    pulled = pulls(m)
    for service in SERVICES:
        flags, container, pod = m.flags(service), m.container(service), m.pod(service)
        name = flags.get("model") or flags["tokenizer"]
        mount = mount_at(container, variable(container, "HF_HUB_CACHE"))
        claims = {one["name"]: one.get("persistentVolumeClaim", {}).get("claimName") for one in pod["volumes"]}
        claim = claims.get(mount.get("name"))
        wanted = (name,) if "model" in flags else (name, "--tokenizer-only")
        if pulled.get((claim, mount.get("subPath", ""))) != wanted:
            yield f"{service}: nobody pulls {name} into {claim}"
        if variable(container, "HF_HUB_OFFLINE") != "1":
            yield f"{service}: asks the hub, which its network policy forbids"
        modes = ["ReadWriteOnce" if m.overlay in manifests.ONE_CARD else "ReadWriteMany"]
        if claim and m.get("PersistentVolumeClaim", claim)["spec"]["accessModes"] != modes:
            yield f"{claim}: the Job cannot write what many pods read"


@policy(spoil("pod target", "volumes.1.configMap.name", "tandem-flags"), spoil("pod target", "serviceAccountName", "default"),
        spoil("container target", "volumeMounts.0.name", "nothing"), remove("PersistentVolumeClaim tandem-draft-model", "gpu"),
        spoil("Job tandem-pull", "spec.template.spec.volumes.0.persistentVolumeClaim.claimName", "nothing", HUB),
        spoil("Job tandem-pull", "spec.template.spec.serviceAccountName", "default", HUB),
        remove("ConfigMap tandem-adapter-rules", "observability"))
def what_pods_name_is_there(m):
    for one in [*m.of("Deployment"), *m.of("Job")]:
        pod, name = one["spec"]["template"]["spec"], one["metadata"]["name"]
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
    for job in m.of("Job"):
        if not m.get("ServiceAccount", job["spec"]["template"]["spec"].get("serviceAccountName")):
            yield f"{job['metadata']['name']}: no account of its own"
    if "observability" in m.overlay and not m.get("ConfigMap", "tandem-adapter-rules"):
        yield "the adapter's rules are not there"
