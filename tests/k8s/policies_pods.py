"""Policies of pods: what they may, take, mount, and how they are asked and ended."""

import re

import manifests
from manifests import SERVICES, seconds, selects
from policy import flag, policy, remove, spoil, spoil_object


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
        spoil("image", "tandem-target:9.9.9"), spoil("initContainers.0.image", "busybox", where="pod"),
        spoil("image", "grafana/grafana:latest", "observability", "grafana"),
        spoil("image", "grafana/grafana:11.4.1", "observability", "grafana"), spoil("image", f"tandem-targets:{version()}"))
def images_are_pinned(m):
    built = re.findall(r"^FROM .* AS (\S+)$", (manifests.ROOT / "Dockerfile").read_text(), re.MULTILINE)
    composed = {image.partition(":")[0]: image for image in re.findall(
        r"^ +image: ([a-z]\S*/\S+)$", (manifests.ROOT / "compose.yaml").read_text(), re.MULTILINE)}
    for where, _, container, _ in m.containers():
        image = container["image"]
        tag = re.search(r":v?(\d+\.\d+\.\d+)(-[a-z]+)?(@sha256:[0-9a-f]{64})?$", image)
        if not tag:
            yield f"{where}: {image} has no whole version"
        elif image.startswith("tandem-") and tag[1] != version():
            yield f"{where}: {image}; this is {version()}"
        name = image.partition(":")[0]
        if image.startswith("tandem") and name not in built:
            yield f"{where}: {name} is no target of the Dockerfile"
        if name in composed and image != composed[name]:
            yield f"{where}: {image}; compose.yaml has {composed[name]}"


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
        flag("orchestrator", "--grace=60s", ""), flag("orchestrator", "--drain_delay=10s", "--drain_delay=1m"),
        flag("orchestrator", "--drain_delay=10s", "", "gpu"))
def pods_get_the_time_to_drain(m):
    for service in SERVICES:
        flags = m.flags(service)
        before = m.container(service).get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        delay, grace = seconds(flags.get("drain_delay", "0s")), seconds(flags.get("grace", "10s"))
        has = m.pod(service).get("terminationGracePeriodSeconds", 30)
        if not before + delay + grace + 5 <= has <= before + delay + grace + 30:
            yield f"{service}: {has} s for a preStop of {before} s, --drain_delay={delay:g}s and --grace={grace:g}s"
        if service == "orchestrator" and before + delay < 5:
            yield "orchestrator: refuses before its clients' names are without it"


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
        spoil("volumes.1.persistentVolumeClaim.readOnly", False, "gpu", "draft", where="pod"),
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
        claims = [one["persistentVolumeClaim"] for one in m.pod(service)["volumes"] if "persistentVolumeClaim" in one]
        if not all(claim.get("readOnly") for claim in claims):
            yield f"{service}: could write what others read"


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
