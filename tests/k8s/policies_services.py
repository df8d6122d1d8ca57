"""Policies of Services, budgets, roll-outs, autoscalers and pools."""

import manifests
from manifests import NAME, SERVICES, seconds, selects
from policy import flag, on, policy, remove, spoil


def labels_of(deployment):
    return deployment["spec"]["template"]["metadata"]["labels"]


@policy(spoil("Service tandem-draft", "spec.selector", {NAME: "tandem-other"}), remove("Service tandem-orchestrator-admin"),
        spoil("Service tandem-target", "spec.ports.0.targetPort", "http"),
        spoil("Service tandem-target", "spec.clusterIP", None),
        spoil("Service tandem-target", "spec.publishNotReadyAddresses", True),
        spoil("Deployment tandem-target", "spec.selector.matchLabels", {"app": "x"}),
        spoil("Deployment tandem-target", "spec.selector.matchLabels", {"app.kubernetes.io/part-of": "tandem"}))
def services_lead_to_pods(m):
    for deployment in m.of("Deployment"):
        if not selects(deployment["spec"]["selector"], labels_of(deployment)):
            yield f"{deployment['metadata']['name']} does not select its own pods"
        for other in m.of("Deployment"):
            if other is not deployment and selects(other["spec"]["selector"], labels_of(deployment)):
                yield f"{other['metadata']['name']} selects pods of {deployment['metadata']['name']}"
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


@policy(remove("PodDisruptionBudget tandem-target"),
        spoil("PodDisruptionBudget tandem-draft", "spec.maxUnavailable", 0, "gpu"))
def a_drained_node_takes_one_pod(m):
    for service in SERVICES:
        labels = labels_of(m.deployment(service))
        budgets = [one["spec"] for one in m.of("PodDisruptionBudget") if selects(one["spec"]["selector"], labels)]
        if [one.get("maxUnavailable") for one in budgets] != [1] or "minAvailable" in budgets[0]:
            yield f"{service}: budgets {budgets}"


KEPT_BY_NAME_SERVERS = 30  # seconds: CoreDNS, as kubeadm sets it up


@policy(spoil("Deployment tandem-draft", "spec.minReadySeconds", 30, "gpu"),
        spoil("Deployment tandem-target", "spec.strategy.rollingUpdate.maxUnavailable", 1),
        spoil("Deployment tandem-target", "spec.strategy.rollingUpdate.maxSurge", 1, "gpu"),
        spoil("Deployment tandem-orchestrator", "spec.strategy", {"type": "Recreate"}, "gpu"),
        spoil("Deployment tandem-draft", "spec.strategy.rollingUpdate.maxSurge", 1, "one-card-draft"),
        spoil("HorizontalPodAutoscaler tandem-target", "spec.minReplicas", 1, "gpu"),
        spoil("ScaledObject tandem-target", "spec.minReplicaCount", 1, "gpu-observability-keda"))
def a_roll_out_leaves_pods_that_are_known(m):
    """The next pod goes when the last one's address has reached everybody; somebody is there all
    the time."""
    known_after = KEPT_BY_NAME_SERVERS + seconds(m.flags("orchestrator").get("resolve-every", "5s"))
    for service in SERVICES:
        spec = m.deployment(service)["spec"]
        if spec.get("minReadySeconds", 0) < known_after:
            yield f"{service}: the next pod goes {spec.get('minReadySeconds', 0)} s after a new one is ready"
        scalers = [one for one in m.scalings() if one.deployment == f"tandem-{service}"]
        pods = scalers[0].least if scalers else spec.get("replicas", 1)
        rolling = spec["strategy"].get("rollingUpdate")
        if m.has_card(service) and (rolling is None or rolling["maxSurge"] != 0):
            yield f"{service}: a roll-out wants a device more"
        elif m.has_card(service) and m.overlay in manifests.ONE_CARD:
            continue  # there is no other device
        elif rolling is None or pods - rolling["maxUnavailable"] < 1:
            yield f"{service}: of {pods} nobody may be left"


@policy(spoil("Deployment tandem-draft", "spec.progressDeadlineSeconds", 630, "gpu"))
def a_slow_start_is_no_failed_roll_out(m):
    for service in SERVICES:
        spec, probe = m.deployment(service)["spec"], m.container(service)["startupProbe"]
        start = probe["periodSeconds"] * probe["failureThreshold"]
        if spec.get("progressDeadlineSeconds", 600) <= start + spec["minReadySeconds"]:
            yield f"{service}: a roll-out is said to have failed while a model is loaded"


@policy(on("gpu")(lambda m: m.flags_map("target")["metadata"]["labels"].pop(NAME)))
def a_service_can_be_applied_alone(m):
    """By a label that all its objects have; upgrades need an order. Claims are there before
    anything else is."""
    for one in m.objects:
        name = one["metadata"]["name"]
        service = next((service for service in SERVICES if name.startswith(f"tandem-{service}")), None)
        if service and one["kind"] != "PersistentVolumeClaim" and \
                one["metadata"].get("labels", {}).get(NAME) != f"tandem-{service}":
            yield f"{one['kind']} {name} has no label of {service}"


def adapter_rules(m):
    data = m.get("ConfigMap", "tandem-adapter-rules")
    if data is None:
        data = manifests.parsed("observability").get("ConfigMap", "tandem-adapter-rules")
    return manifests.yaml.safe_load(data["data"]["config.yaml"])["externalRules"]


def amount(quantity):
    return float(quantity.removesuffix("m")) / (1000 if quantity.endswith("m") else 1)


KEDA = "gpu-observability-keda"


@policy(spoil("Deployment tandem-target", "spec.replicas", 3, "gpu"), remove("HorizontalPodAutoscaler tandem-draft", "gpu"),
        spoil("HorizontalPodAutoscaler tandem-target", "spec.metrics.0.external.metric.name", "tandem_nothing", "gpu"),
        flag("target", "--max-sequences=128", "--max-sequences=64", "gpu"),
        flag("orchestrator", "--max-active-requests=256", "--max-active-requests=512", "gpu"),
        spoil("HorizontalPodAutoscaler tandem-draft", "spec.scaleTargetRef.name", "tandem-drafts", "gpu"),
        on(KEDA)(lambda m: m.objects.extend(manifests.parsed("gpu").copy().of("HorizontalPodAutoscaler"))),
        remove("ScaledObject tandem-draft", KEDA), spoil("ScaledObject tandem-draft", "spec.scaleTargetRef.name", "drafts", KEDA),
        spoil("ScaledObject tandem-target", "spec.triggers.0.metadata.query", "sum(tandem:target_busy)", KEDA),
        spoil("ScaledObject tandem-target", "spec.triggers.0.metadata.threshold", "0.9", KEDA),
        spoil("ScaledObject tandem-target", "spec.triggers.1.metadata.threshold", "128", KEDA),
        spoil("ScaledObject tandem-target", "spec.maxReplicaCount", 2, KEDA),
        spoil("ScaledObject tandem-target", "spec.advanced.horizontalPodAutoscalerConfig.behavior", {}, KEDA))
def autoscalers_can_work(m):
    """KEDA's do what the others do: the adapter's queries, the same thresholds, the same pace."""
    scalings = m.scalings()
    scaled = [one.deployment for one in scalings]
    names = {rule["name"]["as"]: rule["metricsQuery"] for rule in adapter_rules(m)}
    for one in scalings:
        deployment = m.get("Deployment", one.deployment)
        if deployment is None:
            yield f"{one.name}: scales nothing"
            continue
        if scaled.count(one.deployment) > 1:
            yield f"{one.deployment}: two scale it"
        if "replicas" in deployment["spec"]:
            yield f"{one.name}: the Deployment's replicas would undo it"
        if not 1 <= one.least < one.most:
            yield f"{one.name}: {one.least} to {one.most}"
        if one.keda:
            plain = next(other for other in manifests.parsed("gpu").scalings() if other.deployment == one.deployment)
            wanted = {names[name]: amount(value) for name, value in plain.metrics.items()}
            if {query: amount(value) for query, value in one.metrics.items()} != wanted:
                yield f"{one.name}: goes by {one.metrics}, the autoscaler by {wanted}"
            if (one.least, one.most, one.behavior) != (plain.least, plain.most, plain.behavior):
                yield f"{one.name}: another pace than the autoscaler's"
        elif not set(one.metrics) <= set(names):
            yield f"{one.name}: the adapter has not all of {sorted(one.metrics)}"
    if "gpu" in m.overlay:
        for service in SERVICES:
            if f"tandem-{service}" not in scaled:
                yield f"{service}: nothing scales it"
        for service, metric, limit in (("target", "tandem_target_sequences", "max-sequences"),
                                       ("orchestrator", "tandem_requests", "max-active-requests")):
            values = [one.metrics.get(names[metric] if one.keda else metric) for one in scalings]
            if str(int(m.flags(service)[limit]) * 3 // 4) not in values:
                yield f"{service}: no autoscaler goes by three quarters of --{limit}"


@policy(spoil("pod target", "tolerations", [], "gpu"), spoil("pod draft", "nodeSelector", {"tandem/pool": "gpu"}, "gpu"),
        spoil("container target", "resources.limits", {"cpu": "4", "memory": "48Gi"}, "gpu"),
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


@policy(spoil("Deployment tandem-target", "spec.replicas", 2, "one-card"),
        spoil("pod draft", "nodeSelector", {"tandem/pool": "cpu"}, "one-card"),
        on("one-card")(lambda m: m.objects.extend(manifests.parsed("gpu").copy().of("HorizontalPodAutoscaler"))),
        on("one-card")(lambda m: m.container("draft")["resources"]["limits"].update({"nvidia.com/gpu": "1"})))
def one_machine_with_one_card_is_enough(m):
    if m.overlay not in manifests.ONE_CARD:
        return
    for service in SERVICES:
        if m.deployment(service)["spec"].get("replicas") != 1:
            yield f"{service}: more than one"
        if m.pod(service).get("nodeSelector"):
            yield f"{service}: only on nodes that are labelled"
    if m.scalings():
        yield "something scales"
    cards = [service for service in SERVICES if m.has_card(service)]
    if cards != (["target"] if m.overlay == "one-card" else ["draft", "target"]):
        yield f"cards for {cards}"
