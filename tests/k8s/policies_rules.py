"""What objects must say, each for itself: rules.yml, by kubeconform."""

import functools
import json
import pathlib
import tempfile

from manifests import ROOT, kubeconform, yaml
from policy import policy, remove, spoil

HUB = "gpu-hub-tls"


@functools.lru_cache(maxsize=None)
def schemas():
    """A folder of JSON files, as kubeconform wants them."""
    folder = tempfile.TemporaryDirectory(prefix="tandem-k8s-rules.")
    rules = yaml.safe_load((ROOT / "tests/k8s/rules.yml").read_text())
    for kind, schema in rules.items():
        schema = {"definitions": rules["definitions"], **schema}
        pathlib.Path(folder.name, f"{kind}.json").write_text(json.dumps(schema))
    return folder


@policy(*(spoil(what, "metadata.namespace", "default", "gpu-observability")
          for what in ("ConfigMap tandem-adapter-rules", "Deployment tandem-draft", "HorizontalPodAutoscaler tandem-draft",
                       "NetworkPolicy tandem-draft", "PersistentVolumeClaim tandem-draft-model",
                       "PodDisruptionBudget tandem-draft", "Service tandem-draft", "ServiceAccount tandem-draft")),
        spoil("Job tandem-pull", "metadata.namespace", "default", HUB), spoil("Job tandem-pull", "spec.backoffLimit", None, HUB),
        *(spoil("Job tandem-pull", f"spec.template.spec.{path}", value, HUB)
          for path, value in (("hostNetwork", True), ("securityContext.runAsUser", 0), ("automountServiceAccountToken", None),
                              ("containers.0.securityContext", None), ("containers.1.resources", None),
                              ("containers.2.image", "tandem:latest"), ("volumes.0", {"name": "any", "hostPath": {"path": "/"}}))),
        spoil("Deployment tandem-target", "metadata.namespace", None), spoil("Service tandem-draft", "kind", "Role"),
        remove("Namespace tandem"), spoil("Namespace tandem", "metadata.name", "other"),
        spoil("Namespace tandem", "metadata.labels", {}), spoil("Namespace tandem", "metadata.labels", None),
        spoil("Namespace tandem", "metadata.labels", {"pod-security.kubernetes.io/enforce": "baseline"}),
        spoil("ConfigMap tandem-adapter-rules", "metadata.name", "tandem-draft-flags", "observability"),
        spoil("ServiceAccount tandem-draft", "automountServiceAccountToken", True),
        spoil("ServiceAccount tandem-draft", "automountServiceAccountToken", None),
        *(spoil("pod target", path, True)
          for path in ("automountServiceAccountToken", "hostIPC", "hostNetwork", "hostPID")),
        *(spoil("pod target", path, None)
          for path in ("automountServiceAccountToken", "initContainers.0.resources", "initContainers.0.securityContext",
                       "securityContext", "securityContext.runAsNonRoot", "securityContext.runAsUser",
                       "securityContext.seccompProfile")),
        spoil("pod target", "securityContext.runAsNonRoot", False), spoil("pod target", "securityContext.runAsUser", 0),
        spoil("pod target", "securityContext.seccompProfile.type", "Unconfined"),
        *(spoil("pod target", "volumes.0", {"name": "any", **source})
          for source in ({"hostPath": {"path": "/"}}, {"emptyDir": {}}, {"secret": {"secretName": "any"}},
                         {"secret": {"secretName": "any", "defaultMode": 0o444}},
                         {"persistentVolumeClaim": {"claimName": "any"}},
                         {"persistentVolumeClaim": {"claimName": "any", "readOnly": False}},
                         {"projected": {"sources": [{"serviceAccountToken": {"path": "any"}}]}})),
        *(spoil("container target", "image", image)
          for image in ("tandem-target", "tandem-target:latest", "tandem-target:0.1")),
        *(spoil("container target", path, None)
          for path in ("startupProbe", "livenessProbe", "readinessProbe", "resources.requests", "resources.limits",
                       "resources.requests.cpu", "resources.limits.memory", "securityContext.allowPrivilegeEscalation")),
        *(spoil("container target", f"securityContext.{path}", value)
          for path, value in (("privileged", True), ("runAsUser", 0), ("readOnlyRootFilesystem", False),
                              ("capabilities.add", ["NET_ADMIN"]))))
def objects_keep_the_rules(m):
    if len(m.of("Namespace")) != 1:
        yield "no namespace, or two"
    texts = [json.dumps(one) for one in m.objects]
    for one in kubeconform(texts, "-schema-location", f"{schemas().name}/{{{{.ResourceKind}}}}.json"):
        if one["status"] != "statusValid":
            yield f"{one['kind']} {one['name']}: {one['msg']}"
